/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_NAMES_H
#define SAMPLEGATE_NAMES_H

/* Each different text once, where it stays: equal texts are equal pointers. */

struct names;

struct names *names_new(void); /* NULL: no memory */
void names_free(struct names *n);

/* The text, good until names_free(); NULL: no memory. */
const char *names_intern(struct names *n, const char *text);

#endif
