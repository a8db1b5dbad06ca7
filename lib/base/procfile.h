/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PROCFILE_H
#define SAMPLEGATE_PROCFILE_H

/* Files of /proc and /sys, line by line; what they say is not trusted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Opens a path read-only (close-on-exec). NULL, and a negative errno in *err. */
FILE *procfile_open(int *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Reads a line without its newline. False at the end. A line that is too long or has a NUL comes
 * out empty.
 */
bool procfile_line(FILE *f, char *buf, size_t bytes);

#endif
