/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_INROOT_H
#define SAMPLEGATE_INROOT_H

/*
 * Opening files by paths that belong to someone else: below a directory that is their root, so that
 * no link and no ".." leads out of it, and without a FIFO or a device noticing. By openat2() (Linux
 * 5.6); where that is missing or a sandbox forbids it, component by component, and then a link
 * anywhere is refused.
 */

#define INROOT_LINKS	  1 /* links are followed as those do whose root it is; else they are -ELOOP */
#define INROOT_LAST	  2 /* so is one that is the path's last component, with INROOT_LINKS */
#define INROOT_DIRECTORY  4 /* -ENOTDIR for what is none */
#define INROOT_NO_OPENAT2 8 /* as on an older kernel, for tests */

/*
 * An O_PATH descriptor, close-on-exec, of what is at a path below root (a descriptor of a
 * directory); a leading '/' means root itself. Without INROOT_LAST a link at the end is opened as
 * such, as a thing that is no regular file. Negative errno: what openat2() says, or -ELOOP.
 */
int inroot_open(int root, const char *path, int flags);

/*
 * A descriptor to read from (close-on-exec, never blocking) for one of O_PATH that is a regular
 * file, -EINVAL where it is something else: nothing was opened then. The caller keeps fd.
 */
int inroot_read(int fd);

#endif
