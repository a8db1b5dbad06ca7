/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JITFILES_H
#define SAMPLEGATE_JITFILES_H

/*
 * The files in which a process describes its just-in-time compiled code, found and opened safely.
 *
 *     perf-NSPID.map   in /tmp, written by who wants to be seen (lib/names/perfmap.h)
 *     jit-NSPID.dump   anywhere: its writer maps it executable, so that mappings tell where it is
 *                      (lib/names/jitdump.h)
 *
 * NSPID is the process's own idea of its pid, that of its innermost pid namespace, and both paths
 * are below its own root. All of that belongs to someone who may be hostile, and we may be root:
 * nothing in a path may be a link, the file has to be regular, with one name only, and has to
 * belong to the process's effective user or to root. So it can lead neither out of the container
 * nor to a file that only we may read.
 *
 * procfs is "/proc" unless a test says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/inroot.h"

struct jitfiles_proc {
	int dir_fd;	/* /proc/PID */
	int root_fd;	/* its root directory; outlives the process */
	uint32_t nspid; /* in the innermost pid namespace */
	uid_t uid;	/* effective */
};

/*
 * Holds on to a living process: what is asked of it later is never answered by another one that
 * got its pid. -ESRCH: no such process, or it is gone but for its exit code; -EBADMSG: its status
 * was not understood; or what opening or reading failed with. *out is set on success only.
 */
int jitfiles_open_proc(const char *procfs, uint32_t pid, struct jitfiles_proc *out);
void jitfiles_close_proc(struct jitfiles_proc *p); /* all zero is fine, twice too */

/* False once the process has ended and was waited for. */
bool jitfiles_exists(const struct jitfiles_proc *p);

/* True for a path whose last component is jit-NSPID.dump; nspid may be NULL. */
bool jitfiles_is_dump(const char *path, uint32_t *nspid);

/*
 * Opens a file for reading below a directory that is taken for the root. owner is who may own it,
 * besides root. Returns the descriptor (close-on-exec, never blocking), or
 *
 *     -ENOENT  there is none
 *     -ELOOP   a symbolic link, in any place of the path
 *     -EINVAL  not a regular file (nothing was opened), or a path with ".." or without a name
 *     -EPERM   belongs to someone else, or has several names
 *
 * or what opening failed with. JITFILES_NO_OPENAT2: as on kernels before 5.6, for tests.
 */
#define JITFILES_NO_OPENAT2 INROOT_NO_OPENAT2
int jitfiles_open_below(int root_fd, const char *path, uid_t owner, int flags);

/*
 * Open the process's files: descriptors, or errors as above. A process that lives is asked anew who
 * it is, since it may have given up being root. mapped_path is the dump's path as its mapping has
 * it; -EINVAL also when that is not the name of this process's own.
 */
int jitfiles_open_map(struct jitfiles_proc *p);
int jitfiles_open_dump(struct jitfiles_proc *p, const char *mapped_path);

/*
 * The path of the dump that the process has mapped executable now, for jitfiles_open_dump(); free()
 * it. Of several the last. -ENOENT: none; or what reading failed with.
 */
int jitfiles_find_dump(const struct jitfiles_proc *p, char **path);

#endif
