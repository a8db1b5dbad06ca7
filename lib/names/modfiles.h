/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_MODFILES_H
#define SAMPLEGATE_MODFILES_H

/*
 * The files behind mappings: the very file that was mapped, whatever its path means to us now. A
 * process may have its own root and mount namespace, its binary may have been replaced or deleted
 * meanwhile, and it may be gone when names are wanted. So a file is pinned when its mapping is
 * first heard of: through /proc/PID/map_files, which leads to the mapped file itself, else by its
 * path below the process's root. A pin is an O_PATH descriptor: nothing is read. Roots of other
 * mount namespaces are pinned too, for processes that are gone before they could be looked at.
 *
 * Files belong to those whom we profile. Nothing is opened but regular files with the inode number
 * that was mapped; symbolic links are followed only inside the root that the path belongs to, magic
 * links never (openat2(), Linux 5.6).
 */

#include <stddef.h>
#include <stdint.h>

#include "stream/proctab.h"
#include "stream/ring.h"

struct modfiles;

/* So many mount namespaces other than ours are remembered. */
#define MODFILES_MAX_ROOTS 64

/*
 * procfs: "/proc" unless a test says otherwise; root: prefix for paths that belong to no process's
 * root any more, NULL for "/". At most max_files descriptors are held for files; what comes later
 * is found by its path, if at all. NULL: no memory.
 */
struct modfiles *modfiles_new(const char *procfs, const char *root, size_t max_files);
void modfiles_free(struct modfiles *mf);

/*
 * A mapping of pid that was announced or found just now: pins its file if it is not known yet. To
 * be called as early as possible; what fails here is tried again in modfiles_open().
 */
void modfiles_see(struct modfiles *mf, uint32_t pid, const struct ring_mmap *mm);

/* Pins the root of a process whose mount namespace is neither ours nor known yet. */
void modfiles_see_process(struct modfiles *mf, uint32_t pid);

/*
 * Opens a module's file for reading; the descriptor is the caller's. -ENOENT: no such file
 * anywhere; -ESTALE: there is a file of that name, but not the one that was mapped; -EINVAL: not a
 * regular file, or not a file's name at all ("[heap]", "//anon"); or what opening failed with.
 */
int modfiles_open(struct modfiles *mf, const struct module *m);

/*
 * Where the paths of a module's process begin, as a path in buf: NULL where that is our own root,
 * or not known any more.
 */
#define MODFILES_ROOT_PATH 32
const char *modfiles_root(const struct modfiles *mf, const struct module *m,
			  char buf[MODFILES_ROOT_PATH]);

/* The kernel's mark on the path of a file that has been deleted: the length of the path without. */
size_t modfiles_path_len(const char *path);

#endif
