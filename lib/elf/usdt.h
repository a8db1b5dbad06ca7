/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_USDT_H
#define SAMPLEGATE_USDT_H

/*
 * Statically defined tracing points: the notes in .note.stapsdt that <sys/sdt.h> and its relatives
 * leave in a binary. One name may have many locations (inlining, several call sites).
 */

#include <stddef.h>
#include <stdint.h>

#include "elf/elffile.h"

#define USDT_ARGS_MAX 256

struct usdt_probe {
	uint64_t vaddr;
	uint64_t offset;	   /* in the file, as a uprobe wants it */
	uint64_t semaphore_offset; /* in the file, of its 16-bit counter; 0: it has none */
	char args[USDT_ARGS_MAX]; /* "-4@%edi 8@8(%rsp)"; empty if there are none or it is longer */
};

/*
 * The locations of provider:name, by address, each once; a provider of NULL or "" stands for any.
 * *out is one array without pointers in it: free() it. Malformed notes, and points that the file
 * does not load, are passed over. -ENOENT: none; -ENOMEM.
 */
int usdt_find(const struct elffile *elf, const char *provider, const char *name,
	      struct usdt_probe **out, size_t *n);

/*
 * Calls fn for each well-formed note, in the file's order and with repetitions, until it returns
 * non-zero (returned). The strings are valid during the call. 0: all seen, or there are none.
 */
int usdt_list(const struct elffile *elf,
	      int (*fn)(const char *provider, const char *name, void *arg), void *arg);

#endif
