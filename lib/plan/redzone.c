/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/redzone.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/procfile.h"

#define UPROBE_TYPE "/sys/bus/event_source/devices/uprobe/type"

#define RED_ZONE_BYTES 128
#define PAGE_BYTES     4096

/* Linux 6.18 makes the call at the first hit; a later one may take its time. */
#define HITS 500
/* Hits after the kernel has changed the instruction. */
#define HITS_CHANGED 50

/* The child hangs at a probe, or the machine stands still. */
#define PATIENCE_S 20

/* How the child ends. */
enum {
	CHILD_SURVIVED = 10,
	CHILD_DAMAGED,
	CHILD_NOT_PROBED, /* the instruction is as it was */
	CHILD_FAILED,
};

/*
 * long f(long v): v to all words of the red zone; insn; 0 if all of them are still v. Returns where
 * insn is.
 */
static size_t write_code(uint8_t page[PAGE_BYTES], const uint8_t *insn, size_t n)
{
	static const uint8_t clear[] = {0x31, 0xc0};	     /* xor %eax,%eax */
	static const uint8_t compare[] = {0x48, 0x31, 0xfa,  /* xor %rdi,%rdx */
					  0x48, 0x09, 0xd0}; /* or %rdx,%rax */
	size_t at = 0, site;

	memset(page, 0xcc, PAGE_BYTES);
	for (int disp = -8; disp >= -RED_ZONE_BYTES; disp -= 8) {
		const uint8_t store[] = {0x48, 0x89, 0x7c, 0x24,
					 (uint8_t)disp}; /* mov %rdi,disp(%rsp) */

		memcpy(page + at, store, sizeof(store));
		at += sizeof(store);
	}
	site = at;
	memcpy(page + at, insn, n);
	at += n;
	memcpy(page + at, clear, sizeof(clear));
	at += sizeof(clear);
	for (int disp = -8; disp >= -RED_ZONE_BYTES; disp -= 8) {
		const uint8_t load[] = {0x48, 0x8b, 0x54, 0x24,
					(uint8_t)disp}; /* mov disp(%rsp),%rdx */

		memcpy(page + at, load, sizeof(load));
		at += sizeof(load);
		memcpy(page + at, compare, sizeof(compare));
		at += sizeof(compare);
	}
	page[at] = 0xc3;
	return site;
}

static int child(int file, int go, size_t site, uint8_t first)
{
	static const int deadly[] = {SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
	const struct rlimit no_core = {};
	const volatile uint8_t *code;
	unsigned int changed = 0;
	long (*f)(long v);
	sigset_t none;
	void *map;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		signal(deadly[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(PATIENCE_S);
	if (read(go, &byte, 1) != 1)
		return CHILD_FAILED;
	/* Mapped only now, so that the kernel puts its breakpoint there at once. */
	map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (map == MAP_FAILED)
		return CHILD_FAILED;
	code = (const uint8_t *)map + site;
	memcpy(&f, &map, sizeof(f));
	if (code[0] == first)
		return CHILD_NOT_PROBED;
	for (unsigned int i = 0; i < HITS && changed < HITS_CHANGED; i++) {
		if (f(0x5a6b7c8d00000000 + (long)i))
			return CHILD_DAMAGED;
		changed += code[0] != 0xcc;
	}
	return CHILD_SURVIVED;
}

/* A counter of the hits of a uprobe at an offset of this file in one process; its descriptor. */
static int open_uprobe(int file, size_t offset, pid_t pid)
{
	char path[48], line[32];
	struct perf_event_attr attr = {.size = sizeof(attr)};
	uint64_t type;
	FILE *f;
	int err, fd;

	f = procfile_open(&err, UPROBE_TYPE);
	if (!f)
		return err;
	err = procfile_line(f, line, sizeof(line)) ? parse_u64(line, 0, UINT32_MAX, &type) : -EIO;
	fclose(f);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	attr.type = (uint32_t)type;
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = offset;
	fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFSIGNALED(status)) /* by the probe, but for these */
		return WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGKILL ? -EINTR : 0;
	switch (WEXITSTATUS(status)) {
	case CHILD_SURVIVED:
		return 1;
	case CHILD_DAMAGED:
		return 0;
	case CHILD_NOT_PROBED:
		return -ENODATA;
	default:
		return -EIO;
	}
}

static int try_in_child(int file, size_t site, uint8_t first)
{
	int go[2], err, probe = -1;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	pid = fork();
	err = pid < 0 ? -errno : 0;
	if (!pid) {
		close(go[1]);
		_exit(child(file, go[0], site, first));
	}
	close(go[0]);
	if (!err) {
		probe = open_uprobe(file, site, pid);
		err = probe < 0 ? probe : 0;
		if (!err && write(go[1], "g", 1) != 1)
			err = -errno;
	}
	close(go[1]);
	if (pid > 0) {
		int result = wait_for(pid);

		err = err ? err : result;
	}
	if (probe >= 0)
		close(probe);
	return err;
}

int redzone_survives(const uint8_t *insn, size_t n)
{
#ifdef __x86_64__
	uint8_t page[PAGE_BYTES];
	size_t site;
	int file, err;

	if (!n || n > REDZONE_INSN_MAX)
		return -EINVAL;
	site = write_code(page, insn, n);
	file = memfd_create("samplegate-redzone", MFD_CLOEXEC);
	if (file < 0)
		return -errno;
	err = write(file, page, sizeof(page)) == sizeof(page) ? 0 : -EIO;
	if (!err)
		err = try_in_child(file, site, insn[0]);
	close(file);
	return err;
#else
	(void)insn;
	(void)n;
	return -ENOTSUP;
#endif
}
