/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TRANSLATOR_H
#define SAMPLEGATE_TRANSLATOR_H

/*
 * Programs that other programs run by translating their code (valgrind, qemu's user mode, ...):
 * these read the breakpoint of a uprobe as an instruction of the program, which dies by it. They
 * are known by the names of their files, so a file of anybody's can look like one, and one that is
 * called otherwise is not found.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "plan/plan.h"
#include "stream/proctab.h"

/* What a file of this path makes of the process that has it mapped: "valgrind"; NULL: nothing. */
const char *translator_of(const char *path);

/*
 * What a command starts: by its name, by the file that it is (NULL: not known), by the interpreter
 * that a script asks for, and by what env is to run. NULL: no translator, as far as can be seen.
 */
const char *translator_of_command(char *const argv[], const char *file);

struct translator_ask {
	const char *procfs;	  /* "/proc" */
	const char *const *files; /* in which there are points; paths as they will be opened */
	size_t n_files;
	char *const *command; /* to be started; NULL: none */
	const uint32_t *pids; /* who gets the probes; NULL: everyone who maps a file */
	size_t n_pids;
	const struct proctab *procs; /* in which all of these were scanned; NULL: to be done here */
};

/*
 * Refuses (-EOPNOTSUPP, EXIT_CANT) where one of those who get the probes is translated. -ENOMEM, or
 * 0. Who can't be looked at is passed over, as is who maps a file later.
 */
int translator_refuse(const struct translator_ask *ask, struct failure *f);

/*
 * The same for a plan's points. everyone: procs has all processes, not only those of -p and -t,
 * which may be missing where there is a command. With --force nothing is refused.
 */
int translator_refuse_plan(const struct plan *plan, const char *procfs, const struct proctab *procs,
			   bool everyone, struct failure *f);

#endif
