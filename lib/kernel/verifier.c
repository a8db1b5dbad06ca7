/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/verifier.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Some reasons have two lines: what is wrong, and what the value would have to be. */
#define LINES 3

#define FAILED "Verification failed: "

struct text {
	const char *s;
	size_t n;
};

struct place {
	struct text said[LINES]; /* since the last instruction */
	size_t n;
	struct text source, insn, function;
};

static bool begins(struct text line, const char *with)
{
	size_t n = strlen(with);

	return line.n >= n && !memcmp(line.s, with, n);
}

static bool contains(struct text line, const char *what)
{
	return memmem(line.s, line.n, what, strlen(what));
}

static struct text trim(struct text t)
{
	while (t.n && isspace((unsigned char)t.s[0])) {
		t.s++;
		t.n--;
	}
	while (t.n && isspace((unsigned char)t.s[t.n - 1]))
		t.n--;
	return t;
}

/* "12: ": how long that is; 0 if the line does not begin so. */
static size_t number_ends(struct text line)
{
	size_t i = 0;

	while (i < line.n && isdigit((unsigned char)line.s[i]))
		i++;
	return i && i + 1 < line.n && line.s[i] == ':' && line.s[i + 1] == ' ' ? i + 2 : 0;
}

/* "R1_w=ctx", "R10=fp0", "fp-8=mmmm": what is known of a register or of the stack. */
static bool is_state(struct text line)
{
	size_t i = 1;

	if (begins(line, "fp-"))
		return true;
	if (line.n < 3 || line.s[0] != 'R' || !isdigit((unsigned char)line.s[1]))
		return false;
	while (i < line.n && (isalnum((unsigned char)line.s[i]) || line.s[i] == '_'))
		i++;
	return i < line.n && line.s[i] == '=';
}

/* What the log says between instructions, and is no reason. */
static bool is_noise(struct text line)
{
	static const char *const words[] = {
		"processed ",	   "verification time",
		"stack depth ",	   "last_idx ",
		"regs=",	   "mark_precise",
		"parent didn't",   "parent already",
		"propagating",	   "-- BEGIN",
		"-- END",	   "func#",
		"returning from ", "to caller at ",
		"caller:",	   "callee:",
		"from ",	   "frame",
		"insn_",	   "max_states_per_insn",
		"cur state:",	   "arg#0 reference",
		"old state:",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (begins(line, words[i]))
			return true;
	return contains(line, " is safe for any args that match") ||
	       contains(line, " is global and assumed valid") || contains(line, ": safe");
}

/* New kernels have what is known, or the next source line, behind the instruction. */
static struct text instruction(struct text line)
{
	const char *end = memmem(line.s, line.n, " ; ", 3);

	return trim((struct text){line.s, end ? (size_t)(end - line.s) : line.n});
}

static void read_line(struct place *at, struct text line)
{
	size_t number = number_ends(line);

	if (number) {
		struct text rest = {line.s + number, line.n - number};

		/* "12: (85) call ..." or "12: <invalid CO-RE relocation>", else what is known. */
		if (rest.s[0] == '(' && rest.n > 5 && rest.s[3] == ')')
			at->insn = instruction(line);
		else if (rest.s[0] == '<')
			at->insn = (struct text){};
		at->n = 0;
	} else if (line.s[0] == ';') {
		struct text source = trim((struct text){line.s + 1, line.n - 1});

		/* Code of no line in particular belongs to the one before. */
		if (source.n && source.s[0] != '@')
			at->source = source;
		at->n = 0;
	} else if (begins(line, "Validating ")) {
		const char *end = memchr(line.s + 11, '(', line.n - 11);

		at->n = 0;
		at->source = at->insn = (struct text){};
		if (end)
			at->function = (struct text){line.s + 11, end - line.s - 11};
	} else if (!is_noise(line) && !is_state(line)) {
		if (at->n == LINES) {
			memmove(at->said, at->said + 1, (LINES - 1) * sizeof(at->said[0]));
			at->n--;
		}
		at->said[at->n++] = line;
	}
}

/* How long the source is before its place. */
static size_t source_text(struct text source)
{
	for (size_t i = source.n; i >= 3; i--)
		if (!memcmp(source.s + i - 3, " @ ", 3))
			return i - 3;
	return source.n;
}

int verifier_reason(const char *log, char *out, size_t bytes)
{
	struct place at = {};
	const char *sep = " (";
	size_t used = 0;

	if (bytes)
		out[0] = 0;
	while (*log) {
		size_t n = strcspn(log, "\n");
		struct text line = trim((struct text){log, n});

		/* Since 7.x a page of explanations follows what was the whole reason before. */
		if (begins(line, FAILED)) {
			line.s += sizeof(FAILED) - 1;
			line.n -= sizeof(FAILED) - 1;
			if (!at.n)
				at.said[at.n++] = line;
			break;
		}
		if (line.n)
			read_line(&at, line);
		log += n + (log[n] == '\n');
	}
	if (!at.n || !bytes)
		return -ENOENT;
#define ADD(fmt, ...)                                                                 \
	do {                                                                          \
		if (used < bytes)                                                     \
			used += snprintf(out + used, bytes - used, fmt, __VA_ARGS__); \
	} while (0)
	for (size_t i = 0; i < at.n; i++)
		ADD("%s%.*s", i ? "; " : "", (int)at.said[i].n, at.said[i].s);
	if (at.function.n) {
		ADD("%sfunction %.*s", sep, (int)at.function.n, at.function.s);
		sep = ", ";
	}
	if (at.source.n) {
		size_t text = source_text(at.source);

		/* "text @ file:line", since 6.9 */
		ADD("%s`%.*s`%.*s", sep, (int)text, at.source.s, (int)(at.source.n - text),
		    at.source.s + text);
		sep = ", ";
	}
	if (at.insn.n) {
		ADD("%sinstruction %.*s", sep, (int)at.insn.n, at.insn.s);
		sep = ", ";
	}
	if (sep[0] == ',')
		ADD("%s", ")");
#undef ADD
	return 0;
}

/* A program that asks for what a kernel does not give to anyone. */
static const char *way_out(const char *reason)
{
	/* Since 5.10, and with lockdown=confidentiality, as there was no such helper. */
	if (strstr(reason, "unknown func bpf_probe_read") ||
	    strstr(reason, "cannot use helper bpf_probe_read"))
		return "the kernel is locked down: see 'cat /sys/kernel/security/lockdown'";
	return "please report this, with the kernel's version and what -vv says";
}

int verifier_explain(int err, const char *log, const char *what, struct failure *f)
{
	char reason[1024];

	if (!verifier_reason(log, reason, sizeof(reason)))
		return failure_set(f, EXIT_CANT, err,
				   "the kernel's verifier refuses the %s: %s; %s", what, reason,
				   way_out(reason));
	if (err == -ENOSPC && log[0])
		return failure_set(f, EXIT_CANT, err,
				   "the kernel's verifier refuses the %s, and its log is too long "
				   "to end in a reason; %s",
				   what, way_out(""));
	if (err == -EPERM || err == -EACCES)
		return failure_set(
			f, EXIT_CANT, err,
			"cannot load the %s: %s: it needs CAP_BPF and CAP_PERFMON, and a "
			"kernel that is not locked down (see 'cat "
			"/sys/kernel/security/lockdown')",
			what, strerror(-err));
	if (err == -ENOMEM || err == -E2BIG)
		return failure_set(f, EXIT_RUN, err, "cannot load the %s: %s", what,
				   strerror(-err));
	if (err == -EMFILE || err == -ENFILE)
		return failure_set(
			f, EXIT_RUN, err,
			"cannot load the %s: %s: raise the limit of open files (ulimit -n)", what,
			strerror(-err));
	return failure_set(f, EXIT_CANT, err,
			   "cannot load the %s: %s; -v shows what the kernel said", what,
			   strerror(-err));
}
