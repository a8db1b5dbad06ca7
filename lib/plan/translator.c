/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/translator.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/procfile.h"
#include "plan/gates.h"
#include "stream/mapsline.h"
#include "elf/whichfile.h"

#define MAPS_LINE_BYTES 8192

/* A kernel that allows more mappings than this exists; a file without an end does not. */
#define MAPS_MAX_LINES (1u << 20)

/* Of a script's first line, as the kernel reads it. */
#define SCRIPT_BYTES 256

/*
 * qemu's other programs (qemu-ga, qemu-img, qemu-system-...) translate no program of this machine.
 */
static const char *const qemu_targets[] = {
	"aarch64", "alpha",	 "arm",	  "cris",   "hexagon", "hppa",	 "i386",    "loongarch64",
	"m68k",	   "microblaze", "mips",  "nios2",  "or1k",    "ppc",	 "riscv32", "riscv64",
	"s390x",   "sh4",	 "sparc", "tilegx", "x86_64",  "xtensa",
};

static const struct translator {
	const char *pattern; /* of the file's name */
	const char *name;
	bool commands; /* the name of what is started, too common for a file that is mapped */
} translators[] = {
	{"valgrind", "valgrind", true},
	{"valgrind.bin", "valgrind", true},
	/* lib(exec)/valgrind/memcheck-amd64-linux, and what it preloads */
	{"memcheck-*-linux", "valgrind", false},
	{"cachegrind-*-linux", "valgrind", false},
	{"callgrind-*-linux", "valgrind", false},
	{"helgrind-*-linux", "valgrind", false},
	{"drd-*-linux", "valgrind", false},
	{"massif-*-linux", "valgrind", false},
	{"dhat-*-linux", "valgrind", false},
	{"lackey-*-linux", "valgrind", false},
	{"none-*-linux", "valgrind", false},
	{"exp-bbv-*-linux", "valgrind", false},
	{"vgpreload_*.so", "valgrind", false},
	/* rr does not translate, but the probed program takes another way when it is replayed */
	{"rr", "rr", true},
	{"*librrpreload*.so", "rr", false},
	{"*librrpage*.so", "rr", false},
	{"pin", "Pin", true},
	{"sde", "Pin", true},
	{"sde64", "Pin", true},
	{"pinbin", "Pin", false},
	{"libpin3dwarf.so", "Pin", false},
	{"libpindwarf.so", "Pin", false},
	{"drrun", "DynamoRIO", true},
	{"drrun32", "DynamoRIO", true},
	{"drrun64", "DynamoRIO", true},
	{"libdynamorio.so*", "DynamoRIO", false},
	{"box64", "box64", false},
	{"box86", "box86", false},
	{"FEXInterpreter", "FEX", false},
	{"FEXLoader", "FEX", false},
	{"FEX", "FEX", false},
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* qemu-x86_64, qemu-aarch64_be, qemu-arm-static, buildkit-qemu-mips64el */
static bool is_qemu(const char *base)
{
	if (!strncmp(base, "buildkit-", 9))
		base += 9;
	if (strncmp(base, "qemu-", 5))
		return false;
	base += 5;
	for (size_t i = 0; i < sizeof(qemu_targets) / sizeof(qemu_targets[0]); i++)
		if (!strncmp(base, qemu_targets[i], strlen(qemu_targets[i])))
			return true;
	return false;
}

static const char *translator_named(const char *path, bool commands)
{
	const char *base = base_of(path);

	if (is_qemu(base))
		return "qemu";
	for (size_t i = 0; i < sizeof(translators) / sizeof(translators[0]); i++)
		if ((commands || !translators[i].commands) &&
		    !fnmatch(translators[i].pattern, base, 0))
			return translators[i].name;
	return NULL;
}

const char *translator_of(const char *path)
{
	return translator_named(path, false);
}

/* ---- a command ---- */

/*
 * What env is asked to run: behind its options and variables. NULL: nothing, or it can't be told.
 */
static const char *run_by_env(char *const argv[])
{
	for (size_t i = 1; argv[i]; i++) {
		if (!strcmp(argv[i], "-u") || !strcmp(argv[i], "--unset") ||
		    !strcmp(argv[i], "-C") || !strcmp(argv[i], "--chdir")) {
			if (!argv[++i])
				return NULL;
		} else if (argv[i][0] != '-' && !strchr(argv[i], '=')) {
			return argv[i];
		}
	}
	return NULL;
}

/* Whom "#!/usr/bin/env -S valgrind ..." asks for: any of its words. */
static const char *interpreter_of(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char line[SCRIPT_BYTES + 1], *save = line, *word;
	const char *name = NULL;
	bool env = false;
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		n = pread(fd, line, SCRIPT_BYTES, 0);
	close(fd);
	if (n < 2 || memcmp(line, "#!", 2))
		return NULL;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	save += 2;
	while (!name && (word = strsep(&save, " \t"))) {
		if (!*word)
			continue;
		name = translator_named(word, true);
		if (!env && strcmp(base_of(word), "env"))
			break; /* the rest are its arguments */
		env = true;
	}
	return name;
}

const char *translator_of_command(char *const argv[], const char *file)
{
	const char *name = translator_named(argv[0], true), *run;
	char *real = NULL;

	if (!name && file)
		name = interpreter_of(file);
	if (!name && file)
		real = realpath(file, NULL);
	if (real)
		name = translator_named(real, true);
	free(real);
	run = name || strcmp(base_of(argv[0]), "env") ? NULL : run_by_env(argv);
	return run ? translator_named(run, true) : name;
}

/* ---- processes ---- */

/* A file in which there are points. */
struct target {
	struct stat st;
	bool found;
};

struct look {
	const struct translator_ask *ask;
	struct target *targets;
	struct failure *f;
	uint32_t passed; /* this process maps none of the files */
};

/*
 * The file behind a mapping, where the device in the list is not that of stat(), as in overlays and
 * btrfs. Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
 */
static bool is_behind(const struct look *l, uint32_t pid, const struct ring_mmap *mm,
		      const struct stat *want)
{
	char path[4096 + 80];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
		     l->ask->procfs, pid, mm->start, mm->start + mm->len) >= (int)sizeof(path))
		return false;
	return !stat(path, &st) && st.st_dev == want->st_dev && st.st_ino == want->st_ino;
}

static bool is_mapped(const struct look *l, uint32_t pid, const struct ring_mmap *mm, size_t i)
{
	const struct stat *want = &l->targets[i].st;

	if (!l->targets[i].found || !mm->ino)
		return false;
	if (mm->ino == want->st_ino && mm->dev_major == major(want->st_dev) &&
	    mm->dev_minor == minor(want->st_dev))
		return true;
	return !strcmp(base_of(mm->path), base_of(l->ask->files[i])) && is_behind(l, pid, mm, want);
}

/* Which of the files a process maps, executable or not: a translator only reads them; or -1. */
static long mapped_file(const struct look *l, uint32_t pid)
{
	char *line = malloc(MAPS_LINE_BYTES), *path = malloc(MAPS_LINE_BYTES);
	struct ring_mmap mm;
	long file = -1;
	FILE *maps;
	int err;

	maps = line && path ? procfile_open(&err, "%s/%" PRIu32 "/maps", l->ask->procfs, pid)
			    : NULL;
	for (unsigned int n = 0; maps && file < 0 && n < MAPS_MAX_LINES; n++) {
		if (!procfile_line(maps, line, MAPS_LINE_BYTES))
			break;
		if (mapsline_parse(line, &mm, path, MAPS_LINE_BYTES))
			continue;
		for (size_t i = 0; file < 0 && i < l->ask->n_files; i++)
			if (is_mapped(l, pid, &mm, i))
				file = (long)i;
	}
	if (maps)
		fclose(maps);
	free(line);
	free(path);
	return file;
}

static bool gets_probes(const struct translator_ask *ask, uint32_t pid)
{
	for (size_t i = 0; i < ask->n_pids; i++)
		if (ask->pids[i] == pid)
			return true;
	return !ask->pids;
}

static const char advice[] = "a probe is a breakpoint in the file, which the translated program "
			     "dies of, or behaves differently";

static int look_at(uint32_t pid, const struct module *m, void *arg)
{
	struct look *l = arg;
	const char *name = translator_of(m->path);
	long file;

	if (!name || pid == l->passed || !gets_probes(l->ask, pid))
		return 0;
	file = mapped_file(l, pid);
	if (file < 0) {
		l->passed = pid;
		return 0;
	}
	return failure_set(
		l->f, EXIT_CANT, -EOPNOTSUPP,
		"process %" PRIu32 " runs under %s and maps %s: %s: end it first, name "
		"other processes with -p, or use kernel points; --force probes it all the "
		"same",
		pid, name, l->ask->files[file], advice);
}

static int scan(const struct translator_ask *ask, struct proctab *pt)
{
	int err = 0;

	if (!ask->pids)
		err = proctab_scan_all(pt, ask->procfs, 0);
	for (size_t i = 0; i < ask->n_pids && err != -ENOMEM; i++)
		err = proctab_scan(pt, ask->procfs, ask->pids[i], 0);
	return err == -ENOMEM ? err : 0;
}

static int refuse_command(const struct translator_ask *ask, struct failure *f)
{
	const char *name;
	char *file = NULL;

	if (!ask->command)
		return 0;
	whichfile_command(ask->command[0], &file);
	name = translator_of_command(ask->command, file);
	free(file);
	if (!name)
		return 0;
	return failure_set(f, EXIT_CANT, -EOPNOTSUPP,
			   "the command is %s, and there are points in %s: %s: use kernel points; "
			   "--force probes it all the same",
			   name, ask->files[0], advice);
}

int translator_refuse(const struct translator_ask *ask, struct failure *f)
{
	struct look l = {.ask = ask, .f = f};
	struct proctab *own = NULL;
	int err = 0;

	if (!ask->n_files)
		return 0;
	err = refuse_command(ask, f);
	if (err)
		return err;
	l.targets = calloc(ask->n_files, sizeof(*l.targets));
	if (!l.targets)
		return failure_nomem(f);
	for (size_t i = 0; i < ask->n_files; i++)
		l.targets[i].found = !stat(ask->files[i], &l.targets[i].st);
	if (!ask->procs) {
		own = proctab_new();
		err = own ? scan(ask, own) : -ENOMEM;
	}
	if (err)
		failure_nomem(f);
	else
		err = proctab_each(ask->procs ? ask->procs : own, look_at, &l);
	proctab_free(own);
	free(l.targets);
	return err;
}

int translator_refuse_plan(const struct plan *plan, const char *procfs, const struct proctab *procs,
			   bool everyone, struct failure *f)
{
	struct translator_ask ask = {
		.procfs = procfs,
		.command = plan->asked.command,
		.pids = plan->attach_to_targets ? plan->target_pids : NULL,
		.n_pids = plan->attach_to_targets ? plan->n_target_pids : 0,
		.procs = plan->attach_to_targets || everyone ? procs : NULL,
	};
	const char **files;
	size_t n = 0;
	int err;

	if (plan->asked.force)
		return 0;
	for (size_t i = 0; i < plan->n_gates; i++)
		n += plan->gates[i].n_probes;
	files = calloc(n + 1, sizeof(*files));
	if (!files)
		return failure_nomem(f);
	for (size_t i = 0; i < plan->n_gates; i++) {
		for (size_t j = 0; j < plan->gates[i].n_probes; j++) {
			const char *path = plan->gates[i].probes[j].path;

			if (path && (!ask.n_files || strcmp(path, files[ask.n_files - 1])))
				files[ask.n_files++] = path;
		}
	}
	ask.files = files;
	err = translator_refuse(&ask, f);
	free(files);
	return err;
}
