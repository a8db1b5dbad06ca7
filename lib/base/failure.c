/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int failure_set(struct failure *f, int exit_code, int err, const char *fmt, ...)
{
	va_list ap;

	if (!f)
		return err;
	f->exit_code = exit_code;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return err;
}

const char *failure_hint(int err)
{
	return err == -EMFILE || err == -ENFILE ? ": raise the limit of open files (ulimit -n)"
						: "";
}

int failure_nomem(struct failure *f)
{
	return failure_set(f, EXIT_RUN, -ENOMEM, "out of memory");
}
