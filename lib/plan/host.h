/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_HOST_H
#define SAMPLEGATE_HOST_H

/*
 * What this kernel and these privileges can do, found out by looking and trying, never by a version
 * number.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/failure.h"

struct host {
	char kernel[96];       /* uname's release */
	bool has_pmu;	       /* a core PMU: cycles can be sampled */
	bool has_uprobe;       /* perf's uprobe PMU */
	bool has_kprobe;       /* perf's kprobe PMU */
	bool has_find_vma;     /* bpf_find_vma(), Linux 5.17; see host_probe_bpf() */
	bool has_uprobe_multi; /* one link for many uprobes, Linux 6.6; see host_probe_bpf() */
	bool has_sample_data;  /* bpf_cast_to_kern_ctx() and sample_flags, Linux 6.2; see
				  host_probe_types() */
	bool has_cfs_rq;       /* task_struct.se.cfs_rq; see host_probe_types() */
	bool has_typed_task;   /* bpf_get_current_task_btf() */
	/* From a CPU's run queue (`runqueues`) to its preemption count, bytes; 0: not known. */
	int64_t preempt_count_from_rq;
	uint64_t max_sample_rate; /* kernel.perf_event_max_sample_rate, Hz; 0: not known */
	uint32_t max_stack;	  /* kernel.perf_event_max_stack, frames */
	uint32_t *online;	  /* CPUs */
	size_t n_online;
	uint32_t n_possible; /* highest possible CPU number + 1 */
	uint32_t pidns_inum; /* of our pid namespace if that is not the initial one, else 0 */
	bool lacks_ptrace;   /* no CAP_SYS_PTRACE: other users' processes may be out of sight */
	/* The kernel's code that a breakpoint of user code enters it by; 0: not known. */
	uint64_t breakpoint_entry, breakpoint_entry_end;
	const char *tracefs;	    /* where it is mounted; NULL: nowhere */
	const char *tracefs_denied; /* where it is, but may not be read; else NULL */
	struct rlimit files;	    /* RLIMIT_NOFILE as it was, before a session raises it */
	char cgroup2[256];	    /* mount point of cgroup v2; "" if none */
};

/*
 * Checks privileges (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN) and the kernel's BTF, and reads
 * the rest. EXIT_CANT with what is missing and the way out.
 */
int host_probe(struct host *host, struct failure *f);
void host_release(struct host *host);

/* Finds out what BPF can do by loading tiny programs; only where it matters: it takes a while. */
void host_probe_bpf(struct host *host);

/* Finds out what the kernel's types have; reading those takes a while too. */
void host_probe_types(struct host *host);

/*
 * Attaches a program (of type kprobe, loaded for HOST_UPROBE_MULTI) to many places of one file with
 * one link: 89ae89f53d20, Linux 6.6. Debian 12's libbpf does not know it yet. refs (offsets of USDT
 * semaphores) and cookies may be NULL; pid 0 is everyone. Returns the link's descriptor, or a
 * negative errno.
 */
#define HOST_UPROBE_MULTI 48 /* enum bpf_attach_type */
int host_uprobe_multi(int prog_fd, const char *path, const uint64_t *offsets, const uint64_t *refs,
		      const uint64_t *cookies, uint32_t n, uint32_t pid, bool on_return);

/* Reads the online CPUs again; the array is replaced. 0 or a negative errno. */
int host_read_online(uint32_t **cpus, size_t *n);

/*
 * How long a CPU has been idle since the boot, from cpuidle or, in steps of a clock tick, from
 * /proc/stat. *step_ns is how coarse the number is. 0 or a negative errno.
 */
int host_read_idle_ns(uint32_t cpu, uint64_t *idle_ns, uint64_t *step_ns);

/* A sysctl or sysfs file with one number. 0 or a negative errno. */
int host_read_u64(const char *path, uint64_t *out);

/*
 * A cgroup's directory, of a path in the cgroup v2 mount or of a name below it ("/a/b", as
 * /proc/PID/cgroup has it, or "a/b"). Checks that it is in cgroup v2.
 */
int host_cgroup_path(const struct host *host, const char *name, char *path, size_t path_bytes,
		     struct failure *f);

#endif
