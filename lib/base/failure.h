/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FAILURE_H
#define SAMPLEGATE_FAILURE_H

/*
 * Why something failed, for the one message that a tool prints: what was tried, on what, why it
 * failed and what to do; and with which code the tool exits. Whoever fails fills it in; callers
 * pass it on.
 */

#define EXIT_DONE	 0
#define EXIT_RUN	 1 /* failed at run time */
#define EXIT_WRONG_USAGE 2
#define EXIT_CANT	 3 /* this kernel or these privileges can't do it */
#define EXIT_NO_MATCH	 4 /* ran, but nothing matched */

struct failure {
	int exit_code;
	char text[2048];
};

/* Fills *f in, cutting the text to fit, and returns err (a negative errno). f may be NULL. */
int failure_set(struct failure *f, int exit_code, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* What to do about a limit of open files, to be put behind the reason; "" for other errors. */
const char *failure_hint(int err);

/* Short of memory: -ENOMEM. */
int failure_nomem(struct failure *f);

#endif
