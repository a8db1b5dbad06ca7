/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * insns.so, for LD_PRELOAD: appends to the file $INSNS_LOG a line for each named BPF program that
 * the process loads, "PROGRAM INSNS": how many instructions the verifier went through, or "PROGRAM
 * rejected". The tools load programs by libbpf, which makes its system calls by syscall(): so what
 * is measured is what they really load, with the constants that they really set.
 *
 * $INSNS_REFUSE, to see what a tool does on a kernel without something; words with commas between:
 *   tracing   no fentry, no fexit and no other programs that BTF is needed for to attach
 *   link      no links, but for those of tracing programs
 *   PROGRAM   not this one (its first 15 letters)
 *
 * $INSNS_BREAK=PROGRAM: the verifier refuses that one, since it begins by reading a register that
 * nothing has been written to.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not in the headers of the ABI: only the statistics, one line; since 5.2 (06ee7115b0d1). */
#define LOG_STATS 4

#define LOG_BYTES (1 << 20)

static long (*real_syscall)(long number, ...);

static int refused(const char *what)
{
	const char *list = getenv("INSNS_REFUSE"), *at = list ? strstr(list, what) : NULL;

	return at && (at == list || at[-1] == ',') &&
	       (!at[strlen(what)] || at[strlen(what)] == ',');
}

static void say(const char *name, const char *log, int loaded)
{
	const char *path = getenv("INSNS_LOG"), *at = log ? strstr(log, "processed ") : NULL;
	char line[BPF_OBJ_NAME_LEN + 32];
	int fd, n;

	if (!path || !name[0])
		return;
	if (loaded)
		n = snprintf(line, sizeof(line), "%.15s %ld\n", name, at ? atol(at + 10) : -1);
	else
		n = snprintf(line, sizeof(line), "%.15s rejected\n", name);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, n) != n)
		abort();
	close(fd);
}

/* A load of the program with a first instruction that no verifier accepts. */
static long load_broken(const union bpf_attr *from, size_t bytes)
{
	size_t size = from->insn_cnt * sizeof(struct bpf_insn);
	struct bpf_insn *insns = malloc(size);
	const struct bpf_insn read_r5 = {
		.code = BPF_ALU64 | BPF_MOV | BPF_X,
		.dst_reg = BPF_REG_0,
		.src_reg = BPF_REG_5,
	};
	union bpf_attr attr = {};
	bool is_wide;
	long fd;
	int err;

	if (!insns)
		abort();
	memcpy(insns, (const void *)(uintptr_t)from->insns, size);
	is_wide = insns[0].code == (BPF_LD | BPF_IMM | BPF_DW);
	insns[0] = read_r5;
	if (is_wide)
		insns[1] = read_r5;
	memcpy(&attr, from, bytes);
	attr.insns = (uintptr_t)insns;
	fd = real_syscall(SYS_bpf, BPF_PROG_LOAD, &attr, bytes);
	err = errno;
	free(insns);
	errno = err;
	return fd;
}

static long prog_load(const union bpf_attr *from, size_t bytes)
{
	const char *broken = getenv("INSNS_BREAK");
	union bpf_attr attr = {};
	char *log = NULL;
	long fd;
	int err;

	if (bytes > sizeof(attr))
		return real_syscall(SYS_bpf, BPF_PROG_LOAD, from, bytes);
	memcpy(&attr, from, bytes);
	if (broken && !strcmp(attr.prog_name, broken))
		return load_broken(from, bytes);
	if ((attr.prog_type == BPF_PROG_TYPE_TRACING && attr.attach_btf_id && refused("tracing")) ||
	    (attr.prog_name[0] && refused(attr.prog_name))) {
		errno = EINVAL;
		return -1;
	}
	/* libbpf's second try, for the log's sake: the first has been counted. */
	if (attr.log_level)
		return real_syscall(SYS_bpf, BPF_PROG_LOAD, from, bytes);
	log = calloc(1, LOG_BYTES);
	if (!log)
		abort();
	attr.log_level = LOG_STATS;
	attr.log_buf = (uintptr_t)log;
	attr.log_size = LOG_BYTES;
	fd = real_syscall(SYS_bpf, BPF_PROG_LOAD, &attr, bytes);
	err = errno;
	say(attr.prog_name, log, fd >= 0);
	free(log);
	errno = err;
	return fd;
}

/* As libc's, which passes on six words whatever they are. */
long syscall(long number, ...)
{
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	if (!real_syscall)
		real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (!real_syscall)
		abort();
	if (number == SYS_bpf && arg[0] == BPF_PROG_LOAD)
		return prog_load((const union bpf_attr *)arg[1], arg[2]);
	if (number == SYS_bpf && arg[0] == BPF_LINK_CREATE && refused("link")) {
		errno = EINVAL;
		return -1;
	}
	return real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
