/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFDATA_H
#define SAMPLEGATE_PERFDATA_H

/*
 * A writer of perf.data files, which perf report, perf script, perf annotate and hotspot read.
 * Records come as the kernel left them in a ring; what the kernel does not tell (the processes and
 * the kernel that were there before the events) is added in the same form. Nothing is looked up
 * here: perfdata_synth has the part that reads /proc.
 *
 *     perfdata_new     perfdata_add_id     what is recorded
 *     perfdata_mmap2   perfdata_comm ...   what was there before (perfdata_synth.h)
 *     perfdata_record  perfdata_round      what the rings have, again and again
 *     perfdata_build_id                    of files that may have samples
 *     perfdata_finish  perfdata_free
 *
 * The format is that of tools/perf/Documentation/perf.data-file-format.txt in the kernel's tree, in
 * this machine's byte order. The file claims to be one only at the end of perfdata_finish(): until
 * then its first bytes are zero, and no tool takes a half-written file for a whole one.
 *
 * Functions return 0 or a negative errno. -EINVAL and the like refuse one call and change nothing.
 * An error in writing is sticky: later calls, perfdata_finish() included, return it too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <linux/perf_event.h>

struct perfdata;

/* A record's size is 16 bits in its header, and a multiple of 8. */
#define PERFDATA_RECORD_MAX 65528
#define PERFDATA_EVENTS_MAX 256
#define PERFDATA_NAME_MAX   4096 /* of any string, with its NUL */

/*
 * attr as it was opened; its size field is set by the writer. Of several events all need
 * PERF_SAMPLE_IDENTIFIER, and all the same sample_id_all and read_format (perf asks for that).
 */
struct perfdata_event {
	struct perf_event_attr attr;
	const char *name;
};

/* The machine, as perf report --header shows it. NULL or 0: not said. */
struct perfdata_host {
	const char *hostname, *release, *machine; /* as uname() has them */
	const char *cpu;			  /* "model name" of /proc/cpuinfo */
	const char *cpuid;			  /* perf's form: VENDOR,FAMILY,MODEL,STEPPING */
	uint32_t cpus_online, cpus_present;
	uint64_t memory_kib;
};

/*
 * How the records' clock and the time of day go together, for perf script --ns -F tod: both read at
 * one moment. Only used where the first event has use_clockid. wall_ns 0: not known.
 */
struct perfdata_clock {
	uint64_t resolution_ns; /* of clock_getres() */
	uint64_t wall_ns, clock_ns;
};

/* All of it is copied. */
struct perfdata_opts {
	const struct perfdata_event *events;
	size_t n_events;
	const char *version;	    /* of the tool that records */
	const char *const *command; /* its argv */
	size_t n_command;
	struct perfdata_host host;
	struct perfdata_clock clock;
};

struct perfdata_counts {
	uint64_t records, samples; /* written, those made here included */
	uint64_t undone_rounds;	   /* see perfdata_round() */
};

/*
 * f is at the beginning of an empty file and stays the caller's; nobody else writes to it before
 * perfdata_finish(). -ESPIPE: it can't be positioned. -EINVAL: it is not empty, or is opened
 * for appending; or the events don't go together (see above). -E2BIG: too many events, or a
 * string too long.
 */
int perfdata_new(FILE *f, const struct perfdata_opts *o, struct perfdata **out);
void perfdata_free(struct perfdata *pd);

/*
 * The id of one opened event (PERF_EVENT_IOC_ID), which has to be known before records that carry
 * it. Event is the index in opts. A CPU that comes during the run brings more of them. -EEXIST: an
 * id that is known already; -EINVAL: 0, or no such event.
 */
int perfdata_add_id(struct perfdata *pd, size_t event, uint64_t id);

/*
 * Appends one whole record as it came from a ring of one of the events. -EINVAL: size, name or
 * layout are not what a record of that type must have; -E2BIG: beyond PERFDATA_RECORD_MAX; -ENOENT:
 * its id is not known; -EOPNOTSUPP: a type that is not the kernel's or newer than perf 6.1, which
 * would warn of it.
 */
int perfdata_record(struct perfdata *pd, const void *record, size_t bytes);

/*
 * Says that every ring was read once since the last call. Readers put records in order between such
 * marks and need memory for what is between two of them only, so it is to be called after each
 * pass. Nothing goes wrong if a record comes late: marks are a second of recorded time apart, and a
 * mark that a later record proves wrong is undone in the file.
 */
int perfdata_round(struct perfdata *pd);

/*
 * Records of what was there already. time_ns in the records' clock, or 0: they hold from where they
 * stand in the file, whatever the time, and so are best written first. tid is pid for a process.
 */
int perfdata_comm(struct perfdata *pd, uint32_t pid, uint32_t tid, const char *comm,
		  uint64_t time_ns);

/* A task that is there, not one that has just begun: it inherits no mappings. */
int perfdata_fork(struct perfdata *pd, uint32_t pid, uint32_t tid, uint32_t parent_pid,
		  uint32_t parent_tid, uint64_t time_ns);

/* A user mapping. path "" is anonymous memory. */
struct perfdata_map {
	uint64_t start, bytes, pgoff; /* pgoff in bytes */
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	uint32_t prot, flags; /* PROT_*, MAP_* */
	const char *path;
};
int perfdata_mmap2(struct perfdata *pd, uint32_t pid, uint32_t tid, const struct perfdata_map *map,
		   uint64_t time_ns);

/*
 * The kernel's text, [start, start + bytes), and the address of a symbol in it ("_text" or
 * "_stext"), by which readers find out how far the kernel was moved. Without this record, or with
 * an address of zero, perf says that kernel addresses were hidden.
 */
int perfdata_kernel(struct perfdata *pd, uint64_t start, uint64_t bytes, const char *symbol,
		    uint64_t symbol_addr);

/* A kernel module: path is its file, or "[NAME]" when that is not known. */
int perfdata_module(struct perfdata *pd, uint64_t start, uint64_t bytes, const char *path);

/* A BPF program that was loaded before, as the kernel's KSYMBOL records tell of later ones. */
int perfdata_bpf(struct perfdata *pd, uint64_t addr, uint32_t bytes, const char *name);

/* Samples of an event that got lost, by the id of one CPU's event. 0 samples write nothing. */
int perfdata_lost(struct perfdata *pd, uint64_t id, uint64_t samples, uint64_t time_ns);

/*
 * The build-id of a mapped file, or of the kernel (path "[kernel.kallsyms]") or a module, by which
 * readers find the right file, or refuse a wrong one. Only the first 20 bytes count, as in perf.
 */
#define PERFDATA_KERNEL_PATH "[kernel.kallsyms]"
int perfdata_build_id(struct perfdata *pd, bool kernel, const char *path, const void *id,
		      size_t bytes);

/*
 * Calls fn for each file of which an executable mapping was written, once, until it returns
 * non-zero (returned). pid is one that had it mapped.
 */
int perfdata_each_file(const struct perfdata *pd,
		       int (*fn)(const struct perfdata_map *map, uint32_t pid, void *arg),
		       void *arg);

void perfdata_counts(const struct perfdata *pd, struct perfdata_counts *out);

/*
 * What sample_id_all puts behind each record that is no sample, for a record that is made by the
 * caller: of the event that has this id (0: of the first). Returns its size in bytes.
 */
#define PERFDATA_TRAILER_WORDS 6
size_t perfdata_make_trailer(const struct perfdata *pd, uint32_t pid, uint32_t tid,
			     uint64_t time_ns, uint64_t id, uint64_t words[PERFDATA_TRAILER_WORDS]);

/*
 * Writes what comes after the data, then the head, and leaves f at its end, flushed. 0, or the
 * first error of all the writing. After it only perfdata_counts() and perfdata_free() are allowed.
 */
int perfdata_finish(struct perfdata *pd);

#endif
