/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_VERIFIER_H
#define SAMPLEGATE_VERIFIER_H

#include <stddef.h>

#include "base/failure.h"

/*
 * Why the kernel's verifier refused a program, out of its log (log level 1, of any kernel since
 * 5.10, and as libbpf completes it for fields that are not there): its last words, and where it was
 * then: "R0 invalid mem access 'scalar' (function f, `*p = 1;` @ f.bpf.c:12, instruction 1: ...)".
 * Cut to fit. Returns 0, or -ENOENT with an empty text if the log gives no reason. Pure.
 */
int verifier_reason(const char *log, char *out, size_t bytes);

/*
 * Why programs of our own could not be loaded: from err, a negative errno, and from what the kernel
 * wrote into the log meanwhile. The verifier refuses with errors that also mean a lack of
 * privileges, and writes why; who lacks those does not get as far as the verifier, and the log is
 * empty. what: "sampling program". Fills in *f, returns err. Pure.
 */
int verifier_explain(int err, const char *log, const char *what, struct failure *f);

#endif
