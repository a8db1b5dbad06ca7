/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_VERIFIER_H
#define SAMPLEGATE_VERIFIER_H

#include <stddef.h>

/*
 * Why the kernel's verifier refused a program, out of its log (log level 1, of any kernel since
 * 5.10, and as libbpf completes it for fields that are not there): its last words, and where it was
 * then: "R0 invalid mem access 'scalar' (function f, `*p = 1;` @ f.bpf.c:12, instruction 1: ...)".
 * Cut to fit. Returns 0, or -ENOENT with an empty text if the log gives no reason. Pure.
 */
int verifier_reason(const char *log, char *out, size_t bytes);

#endif
