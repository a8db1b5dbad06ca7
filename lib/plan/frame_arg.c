/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/frame_arg.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elffile.h"
#include "elf/usdt.h"

/* x86-64 registers by the hardware's numbers; each of 8, 4, 2 and 1 bytes. */
static const char *const registers[16][4] = {
	{"rax", "eax", "ax", "al"},	 {"rcx", "ecx", "cx", "cl"},
	{"rdx", "edx", "dx", "dl"},	 {"rbx", "ebx", "bx", "bl"},
	{"rsp", "esp", "sp", "spl"},	 {"rbp", "ebp", "bp", "bpl"},
	{"rsi", "esi", "si", "sil"},	 {"rdi", "edi", "di", "dil"},
	{"r8", "r8d", "r8w", "r8b"},	 {"r9", "r9d", "r9w", "r9b"},
	{"r10", "r10d", "r10w", "r10b"}, {"r11", "r11d", "r11w", "r11b"},
	{"r12", "r12d", "r12w", "r12b"}, {"r13", "r13d", "r13w", "r13b"},
	{"r14", "r14d", "r14w", "r14b"}, {"r15", "r15d", "r15w", "r15b"},
};

static bool is_size(unsigned long bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

/* "%rdi" at *s, which moves behind it. */
static int parse_register(const char **s, uint8_t *reg)
{
	size_t n;

	if (**s != '%')
		return -EINVAL;
	n = strspn(*s + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
	for (uint8_t i = 0; i < 16; i++) {
		for (size_t j = 0; j < 4; j++) {
			if (strlen(registers[i][j]) != n || strncmp(*s + 1, registers[i][j], n))
				continue;
			*reg = i;
			*s += n + 1;
			return 0;
		}
	}
	return -EINVAL;
}

/* "8(%rbp)", "(%rax,%rbx,4)" */
static int parse_memory(const char *s, struct frame_arg *arg)
{
	char *end;
	int err;

	arg->kind = FRAME_ARG_MEM;
	arg->index = GATE_REG_NONE;
	errno = 0;
	arg->disp = strtoll(s, &end, 0);
	if (errno || *end != '(')
		return -EINVAL;
	s = end + 1;
	err = parse_register(&s, &arg->base);
	if (!err && *s == ',') {
		s++;
		err = parse_register(&s, &arg->index);
		arg->scale = 1;
		if (!err && *s == ',') {
			unsigned long scale = strtoul(s + 1, &end, 10);

			if (!is_size(scale))
				return -EINVAL;
			arg->scale = scale;
			s = end;
		}
	}
	return err || strcmp(s, ")") ? -EINVAL : 0;
}

int frame_arg_of_usdt(const char *args, unsigned int index, struct frame_arg *out)
{
	struct frame_arg arg = {};
	char one[64];
	const char *s = args + strspn(args, " ");
	unsigned long bytes = 8;
	char *end;
	size_t n;
	int err;

	for (; *s && index; index--) {
		s += strcspn(s, " ");
		s += strspn(s, " ");
	}
	n = strcspn(s, " ");
	if (!n)
		return -ENOENT;
	if (n >= sizeof(one))
		return -EINVAL;
	memcpy(one, s, n);
	one[n] = 0;
	s = one;
	if (strchr(s, '@')) {
		arg.is_signed = *s == '-';
		s += arg.is_signed;
		bytes = strtoul(s, &end, 10);
		if (*end != '@' || !is_size(bytes))
			return -EINVAL;
		s = end + 1;
	}
	arg.bytes = bytes;
	if (*s == '$') {
		arg.kind = FRAME_ARG_CONST;
		errno = 0;
		arg.disp = strtoll(s + 1, &end, 0);
		err = errno || *end || end == s + 1 ? -EINVAL : 0;
	} else if (*s == '%') {
		arg.kind = FRAME_ARG_REG;
		err = parse_register(&s, &arg.base);
		err = err || *s ? -EINVAL : 0;
	} else {
		err = parse_memory(s, &arg);
	}
	if (!err)
		*out = arg;
	return err;
}

int frame_arg_of_format(FILE *format, unsigned int index, struct frame_arg *out)
{
	char *line = NULL;
	size_t cap = 0;
	int err = -ENOENT;

	while (err == -ENOENT && getline(&line, &cap, format) > 0) {
		unsigned int offset, bytes, is_signed;
		const char *rest = strchr(line, ';');

		if (strncmp(line, "\tfield:", 7) || !rest || strstr(line, " common_") ||
		    sscanf(rest, "; offset:%u; size:%u; signed:%u;", &offset, &bytes, &is_signed) !=
			    3)
			continue;
		if (index--)
			continue;
		err = -EINVAL;
		if (!is_size(bytes) || offset > UINT16_MAX || memchr(line, '[', rest - line) ||
		    strstr(line, "__data_loc"))
			continue;
		*out = (struct frame_arg){
			.kind = FRAME_ARG_FIELD,
			.disp = offset,
			.bytes = bytes,
			.is_signed = is_signed != 0,
		};
		err = 0;
	}
	free(line);
	return err;
}

/* category and name were looked up when the point's probes were. */
static int find_field(const char *category, const char *name, unsigned int index,
		      const struct gates_where *where, struct frame_arg *out)
{
	char path[PATH_MAX];
	FILE *format;
	int err;

	if (!where->host->tracefs)
		return -ENODEV;
	snprintf(path, sizeof(path), "%s/events/%s/%s/format", where->host->tracefs, category,
		 name);
	format = fopen(path, "re");
	if (!format)
		return -errno;
	err = frame_arg_of_format(format, index, out);
	fclose(format);
	return err;
}

static int add_place(struct frame_places *places, size_t first, const struct frame_place *place,
		     const struct frame_arg *arg)
{
	for (size_t i = first; i < places->n; i++)
		if (places->places[i].offset == place->offset)
			return memcmp(&places->args[i], arg, sizeof(*arg)) ? -EXDEV : 0;
	if (places->n == FRAME_MAX_PLACES)
		return -E2BIG;
	places->places[places->n] = *place;
	places->args[places->n++] = *arg;
	return 0;
}

int frame_arg_of_places(const struct usdt_probe *probes, size_t n, unsigned int index,
			uint32_t point, struct frame_arg *out, struct frame_places *places)
{
	struct frame_arg arg, common = {};
	size_t first = places->n;
	bool differ = false;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct frame_place place = {
			.point = point,
			.offset = probes[i].vaddr % FRAME_PLACE_PAGE,
		};

		err = frame_arg_of_usdt(probes[i].args, index, &arg);
		if (err)
			break;
		if (!i)
			common = arg;
		differ |= memcmp(&arg, &common, sizeof(arg)) != 0;
		err = add_place(places, first, &place, &arg);
		/* As long as they are all the same it does not matter where they are. */
		if (!differ && err == -E2BIG)
			err = 0;
	}
	if (err || !differ)
		places->n = first;
	if (err)
		return err;
	*out = differ ? (struct frame_arg){.kind = FRAME_ARG_PLACE, .index = point} : common;
	return 0;
}

static int find_usdt(const struct frame_arg_point *at, unsigned int index,
		     const struct gates_where *where, struct frame_arg *out,
		     struct frame_places *places, struct failure *f)
{
	const struct gate_point *point = at->point;
	struct usdt_probe *probes = NULL;
	struct elffile *elf = NULL;
	char *path = NULL;
	size_t n = 0;
	int err = gates_find_file(point->path, where, &path, f);

	if (err)
		return err;
	err = elffile_open(path, 0, &elf);
	if (!err)
		err = usdt_find(elf, point->provider, point->func, &probes, &n);
	if (!err)
		err = frame_arg_of_places(probes, n, index, at->number, out, places);
	free(probes);
	elffile_free(elf);
	free(path);
	return err;
}

int frame_arg_find(const struct frame_arg_point *at, unsigned int index,
		   const struct gates_where *where, struct frame_arg *out,
		   struct frame_places *places, struct failure *f)
{
	const struct gate_point *point = at->point;
	char event[128];
	int err = 0;

	switch (point->kind) {
	case POINT_UPROBE:
	case POINT_KPROBE:
		*out = (struct frame_arg){.kind = FRAME_ARG_ABI, .index = index, .bytes = 8};
		return 0;
	case POINT_SYSCALL:
		/* The first field is the call's number. */
		snprintf(event, sizeof(event), "sys_enter_%s", point->func);
		err = find_field("syscalls", event, index + 1, where, out);
		break;
	case POINT_TRACEPOINT:
		err = find_field(point->provider, point->func, index, where, out);
		break;
	case POINT_USDT:
		err = find_usdt(at, index, where, out, places, f);
		break;
	default:
		err = -EINVAL;
		break;
	}
	if (!err || err == -ENOMEM)
		return err;
	return failure_set(f, EXIT_WRONG_USAGE, err, "--key arg%u at %s '%s': %s", index,
			   at->option, point->func,
			   err == -ENOENT ? "it has not so many arguments"
			   : err == -EXDEV
				   ? "two places that have it in different registers are at "
				     "the same offset in a page"
			   : err == -E2BIG  ? "too many places have it in different registers"
			   : err == -EINVAL ? "that one is no number that can be read there"
					    : strerror(-err));
}
