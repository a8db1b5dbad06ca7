/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCH_OPTS_H
#define SAMPLEGATE_GLITCH_OPTS_H

/*
 * glitchrec's options: the shared ones (opts.h), where -g is the frame and -o a directory, and its
 * own. Strictly parsed and checked against each other, not yet against this machine.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "opts/opts.h"
#include "opts/spec.h"

enum frame_key_kind {
	FRAME_KEY_TID,
	FRAME_KEY_PID,
	FRAME_KEY_GLOBAL,
	FRAME_KEY_ARG,	  /* number key_arg of the begin point, and of the others */
	FRAME_KEY_OBJECT, /* what the object of --object says */
};

/* A set: both modes are two bits. */
#define GLITCH_MODE_FLIGHT (1u << 0)
#define GLITCH_MODE_ARM	   (1u << 1)

/* Below it the probes of a frame are a good part of what is measured. */
#define GLITCH_MIN_THRESHOLD_NS 10000ull

/*
 * Memory for a CPU's ring. A sample is taken to be this large, record header included: a typical
 * stack of 22 frames. Deeper ones make the history shorter, which the coverage of a glitch shows.
 */
#define GLITCH_TYPICAL_RECORD	  256ull
#define GLITCH_MIN_RING_BYTES	  (64ull << 10)
#define GLITCH_MAX_RING_BYTES	  (1ull << 30)
#define GLITCH_DEFAULT_RING_BYTES (2ull << 20)
/* As far as the default grows by itself for a long threshold. */
#define GLITCH_MAX_DEFAULT_RING_BYTES (64ull << 20)

#define GLITCH_DEFAULT_FREQ 999
#define GLITCH_DEFAULT_DIR  "glitches"

/* --max-disk */
#define GLITCH_DEFAULT_DISK_BYTES (1ull << 30)
#define GLITCH_MIN_DISK_BYTES	  4096

/* The number of files that are begun within any second at most. */
#define GLITCH_FILES_PER_S 10

struct glitch_opts {
	struct opts common;    /* -g is gates[0] after glitch_opts_finish(); output the directory */
	uint64_t threshold_ns; /* 0: there is a deadline point instead */
	bool has_deadline;
	struct gate_spec deadline; /* one point, its begin */
	enum frame_key_kind key;
	unsigned int key_arg; /* 0 to 5 */
	bool has_key;	      /* said, not the default */
	uint64_t pre_ns, post_ns;
	unsigned int mode; /* GLITCH_MODE_* */
	/* As given; 0: not given. At most one after glitch_opts_finish(). */
	uint64_t history_ns, ring_bytes;
	/* Limits of what is saved; 0: none. */
	uint64_t max_glitches, min_interval_ns, max_disk_bytes;
	bool limit_rate; /* to GLITCH_FILES_PER_S: there was no --min-interval */
	char *exec;	 /* --exec or --exec-shell; NULL: neither */
	bool exec_shell; /* by sh -c */
	bool diff, root_frame;
	char *object; /* a BPF object file, in place of -g; NULL: none */
	char **sets;  /* its variables, NAME=VALUE */
	size_t n_sets;
};

/* The options by these, where they are not shared. */
enum glitch_opts_key {
	GLITCH_OPTS_THRESHOLD = 0x200,
	GLITCH_OPTS_DEADLINE,
	GLITCH_OPTS_KEY,
	GLITCH_OPTS_PRE,
	GLITCH_OPTS_POST,
	GLITCH_OPTS_MODE,
	GLITCH_OPTS_HISTORY,
	GLITCH_OPTS_RING_SIZE,
	GLITCH_OPTS_MAX_GLITCHES,
	GLITCH_OPTS_MIN_INTERVAL,
	GLITCH_OPTS_MAX_DISK,
	GLITCH_OPTS_EXEC,
	GLITCH_OPTS_EXEC_SHELL,
	GLITCH_OPTS_DIFF,
	GLITCH_OPTS_ROOT_FRAME,
	GLITCH_OPTS_OBJECT,
	GLITCH_OPTS_SET,
};

void glitch_opts_init(struct glitch_opts *o);
void glitch_opts_release(struct glitch_opts *o); /* NULL is fine */

/* As opts_set(), shared options included: 0; -ENOENT for an unknown key; else *f is filled in. */
int glitch_opts_set(struct glitch_opts *o, int key, const char *arg, struct failure *f);

/*
 * As opts_finish(), which it calls. Fills in the directory's default, and with --object gates[0], a
 * gate without points.
 */
int glitch_opts_finish(struct glitch_opts *o, struct failure *f);

/*
 * Bytes of each CPU's ring, a power of two and at least page_bytes (itself a power of two): what
 * --ring-size says, rounded down; or what --history needs at freq samples a second (0: a fixed
 * period, then --history can't be had), rounded up; or the default, which is enough for twice the
 * longest window that is known in advance (--pre, --threshold and --post) as long as that is at
 * most GLITCH_MAX_DEFAULT_RING_BYTES. In arm mode alone only the window after the threshold needs
 * room. 0, or *f is filled in: an unusable --history, or a window that does not fit.
 */
int glitch_opts_ring_bytes(const struct glitch_opts *o, uint64_t freq, uint64_t page_bytes,
			   uint64_t *bytes, struct failure *f);

/* How long a ring of that size lasts: UINT64_MAX for freq 0. */
uint64_t glitch_history_ns(uint64_t ring_bytes, uint64_t freq);

/*
 * What is saved at most, for the ready line: "saves at most 1 GB, 10 files a second". Returns buf,
 * in which GLITCH_LIMITS_BYTES are enough.
 */
#define GLITCH_LIMITS_BYTES 160
const char *glitch_opts_limits(const struct glitch_opts *o, char buf[GLITCH_LIMITS_BYTES]);

/* "tid", "arg3"; "flight", "arm", "both". */
const char *glitch_opts_key_name(const struct glitch_opts *o);
const char *glitch_mode_name(unsigned int mode);

#endif
