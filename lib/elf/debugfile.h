/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DEBUGFILE_H
#define SAMPLEGATE_DEBUGFILE_H

/*
 * Finds the separate debug file of a stripped program: the one that `objcopy --only-keep-debug` or
 * `eu-strip -f` has made, and that a distribution's -dbgsym or -debuginfo package installs. Only
 * files that are proven to belong are found: by an equal build-id, or by the CRC that
 * .gnu_debuglink notes. Nothing is downloaded.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/elffile.h"

/*
 * A .gnu_debuglink is proven by reading the whole file that it names, so that one of more than this
 * is passed over, unless it is found by its build-id.
 */
#define DEBUGFILE_CRC_BYTES_MAX (512 << 20)

#define DEBUGFILE_NAME_MAX 256 /* with its NUL */

struct debugfile_opts {
	/*
	 * Where the target's paths begin: "/proc/PID/root", or NULL or "" for our own. No file
	 * outside of it is opened by a path of the target's, whatever symbolic links are inside.
	 */
	const char *root;
	const char *debug_dir;	      /* NULL: /usr/lib/debug */
	const char *debuginfod_cache; /* on our own side; NULL: none */
	bool no_openat2;	      /* do as before Linux 5.6 and in sandboxes */
};

/*
 * Opens the debug file of elf, which the target has at path. In this order:
 *
 *   DEBUG_DIR/.build-id/xx/yyyy.debug   in the root, then on our own side
 *   CACHE/BUILDID/debuginfo             what debuginfod clients have downloaded before
 *   DIR/NAME, DIR/.debug/NAME, DEBUG_DIR/DIR/NAME   in the root, NAME from .gnu_debuglink
 *
 * Our own DEBUG_DIR and CACHE may have symbolic links. DIR may be anyone's, and links there are not
 * followed. In a root, links are followed as a process whose root it is would follow them, where
 * the kernel has openat2 (Linux 5.6); else a path with a link is passed over.
 *
 * -ENOENT: none, or none that can be proven to belong; -ENOMEM. The caller owns *debug, which can
 * be given to elffile_add_debug(); elffile_fd() of it is for who wants to read more.
 */
int debugfile_find(const struct elffile *elf, const char *path, const struct debugfile_opts *opts,
		   struct elffile **debug);

/*
 * Adds to elf what its debug file calls its code, if it has no symbol table itself. That is the one
 * lookup of names, of frames as of gates and filters: whoever opens a program for its names calls
 * this first. 0, also where there is no such file; -ENOMEM.
 */
int debugfile_add(struct elffile *elf, const char *path, const struct debugfile_opts *opts);

/* The same for a file that has a symbol table, but no DWARF. */
int debugfile_add_always(struct elffile *elf, const char *path, const struct debugfile_opts *opts);

/*
 * Where debuginfod clients keep what they have downloaded: $DEBUGINFOD_CACHE_PATH, else
 * debuginfod_client in $XDG_CACHE_HOME or ~/.cache. NULL if none of these is set, or for want of
 * memory. Malloc'ed.
 */
char *debugfile_default_cache(void);

/*
 * The contents of .gnu_debuglink: a file name, with no '/' in it and not "." or "..", and the CRC
 * of that file. -ENOENT: none, or not a sound one.
 */
int debugfile_link(const struct elffile *elf, char name[DEBUGFILE_NAME_MAX], uint32_t *crc);

#endif
