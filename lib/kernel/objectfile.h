/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OBJECTFILE_H
#define SAMPLEGATE_OBJECTFILE_H

/*
 * A user's own BPF object (--object): opened and checked, linked with what implements
 * include/samplegate.bpf.h for this tool, given its variables and the tool's maps, loaded,
 * attached. docs/objects.md is what the user reads; docs/design.md has why it works like this.
 *
 * The order of calls: open, config and set in any order, share, load, attach, free. Functions
 * return 0 or a negative errno; with a struct failure, that has the message, which names the file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

/* A file larger than this is no object for us. */
#define OBJECTFILE_MAX_BYTES (16u << 20)

enum objectfile_kind {
	/* One SEC("perf_event") program, a SAMPLEGATE_HANDLER(); others may be its probes. */
	OBJECTFILE_HANDLER,
	/* Programs for probes only: at least one, and each says in its SEC() where it belongs. */
	OBJECTFILE_PROBES,
};

struct objectfile_opts {
	enum objectfile_kind kind;
	const char *tool; /* for messages */
	/*
	 * The BPF object that has the functions of the header. Its maps and global variables, and
	 * its functions, are named samplegate_...: all other names are the user's.
	 */
	const void *api;
	size_t api_bytes;
	/* --set, each NAME=VALUE, applied by objectfile_open(). */
	char *const *sets;
	size_t n_sets;
	/* What objectfile_attach() looks at, so that its probes in user code harm no program. */
	char *const *command; /* that is to be started; NULL: none */
	bool force;	      /* nobody looks */
};

struct bpf_object;
struct bpf_program;
struct objectfile;

/* Reads, checks and links; nothing is in the kernel yet. */
int objectfile_open(const char *path, const struct objectfile_opts *opts, struct objectfile **out,
		    struct failure *f);
void objectfile_free(struct objectfile *o);

/*
 * --set NAME=VALUE: a global variable of the user's, constant or not: an integer, an enum, a bool
 * or an array of chars (setvalue.h). EXIT_WRONG_USAGE; a name that is not there has its nearest.
 */
int objectfile_set(struct objectfile *o, const char *assignment, struct failure *f);

/* A constant of the api object. -ENOENT: it has none of that name and size. */
int objectfile_config(struct objectfile *o, const char *name, const void *value, size_t bytes);

/*
 * The api object's map of that name is another object's map, open as fd; -ENOENT: there is none.
 * Sizes are that map's.
 */
int objectfile_share(struct objectfile *o, const char *name, int fd);

/*
 * The same for all maps of the api object that the tool has: its samplegate_NAME is the tool's
 * NAME, and its section .data.NAME or .bss.NAME the tool's of that name. map_fd() tells the
 * descriptor of a map of the tool, which is loaded; negative: it has none, and the api object's
 * stays its own. -EINVAL if the user has put variables into such a section.
 */
int objectfile_share_all(struct objectfile *o, int (*map_fd)(const void *tool, const char *name),
			 const void *tool);

/* EXIT_RUN with the verifier's reason, if it was that. */
int objectfile_load(struct objectfile *o, struct failure *f);

/*
 * Attaches all programs but the handler. What was attached when one fails is detached again. Where
 * a uprobe or USDT probe would harm a program (nopsite.h, translator.h), that is refused:
 * EXIT_CANT.
 */
int objectfile_attach(struct objectfile *o, struct failure *f);
void objectfile_detach(struct objectfile *o);

/* The handler, NULL for OBJECTFILE_PROBES; loaded, it can be attached to perf events. */
struct bpf_program *objectfile_handler(const struct objectfile *o);

/* The linked object: for counts in maps of the user's. */
struct bpf_object *objectfile_object(const struct objectfile *o);

#endif
