/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

/* A demangled C++ name can take kilobytes; beyond this somebody plays with us. */
#define SPEC_MAX_BYTES 32768

/* Where the reason for a refusal goes; NULL where a refusal is only a try that failed. */
struct reason {
	char *buf;
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct reason *why, const char *fmt, ...)
{
	va_list ap;

	if (why && why->bytes) {
		va_start(ap, fmt);
		vsnprintf(why->buf, why->bytes, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

static const struct kind_name {
	const char *name;
	enum point_kind kind;
} kind_names[] = {
	{"u", POINT_UPROBE},	    {"uprobe", POINT_UPROBE},
	{"ur", POINT_URETPROBE},    {"uretprobe", POINT_URETPROBE},
	{"U", POINT_USDT},	    {"usdt", POINT_USDT},
	{"k", POINT_KPROBE},	    {"kprobe", POINT_KPROBE},
	{"kr", POINT_KRETPROBE},    {"kretprobe", POINT_KRETPROBE},
	{"t", POINT_TRACEPOINT},    {"tracepoint", POINT_TRACEPOINT},
	{"syscall", POINT_SYSCALL},
};

/* Kinds that users know from elsewhere, and what to write here. */
static const struct {
	const char *name, *hint;
} foreign_kinds[] = {
	{"kfunc", "write kprobe:FUNC, which attaches by fentry where it can"},
	{"fentry", "write kprobe:FUNC, which attaches by fentry where it can"},
	{"kretfunc", "write kretprobe:FUNC, which attaches by fexit where it can"},
	{"fexit", "write kretprobe:FUNC, which attaches by fexit where it can"},
	{"f", "write kprobe:FUNC, which attaches by fentry where it can"},
	{"fr", "write kretprobe:FUNC, which attaches by fexit where it can"},
	{"rawtracepoint", "write tracepoint:CATEGORY:NAME"},
	{"rt", "write tracepoint:CATEGORY:NAME"},
	{"s", "a sampling event goes into -e"},
	{"software", "a sampling event goes into -e"},
	{"h", "a sampling event goes into -e"},
	{"hardware", "a sampling event goes into -e"},
	{"p", "the sampling rate goes into -F"},
	{"profile", "the sampling rate goes into -F"},
	{"sys", "write syscall:NAME"},
};

const char *point_kind_name(enum point_kind kind)
{
	size_t i;

	/* the long form is the last one of its kind */
	for (i = sizeof(kind_names) / sizeof(kind_names[0]); i-- > 0;)
		if (kind_names[i].kind == kind)
			return kind_names[i].name;
	return "?";
}

bool gate_spec_looks_like_perf_flag(const char *text)
{
	return text && text[0] == '-';
}

/* The kind whose name and ':' text starts with; NULL for none. *rest is what comes after it. */
static const struct kind_name *kind_prefix(const char *text, const char **rest)
{
	size_t i, len = strcspn(text, ":");

	if (text[len] != ':')
		return NULL;
	for (i = 0; i < sizeof(kind_names) / sizeof(kind_names[0]); i++) {
		if (strlen(kind_names[i].name) == len && !strncmp(text, kind_names[i].name, len)) {
			*rest = text + len + 1;
			return &kind_names[i];
		}
	}
	return NULL;
}

static bool is_word(const char *s, const char *also)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if (!((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
		      (*s >= 'A' && *s <= 'Z') || *s == '_' || strchr(also, *s)))
			return false;
	return true;
}

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(s + len - n, end, n);
}

/*
 * The first ':' that is not part of a "::", or NULL. A ':' that s starts with ends an empty path.
 */
static char *path_end(char *s)
{
	if (*s == ':')
		return s;
	for (; *s; s++) {
		if (*s != ':')
			continue;
		if (s[1] != ':')
			return s;
		while (s[1] == ':')
			s++;
	}
	return NULL;
}

/* A single ':' outside "[abi:...]": no function's name has one, so a path had it. */
static bool has_lone_colon(const char *s)
{
	int brackets = 0;

	for (; *s; s++) {
		if (*s == '[')
			brackets++;
		else if (*s == ']' && brackets > 0)
			brackets--;
		else if (*s == ':' && s[1] == ':')
			s++;
		else if (*s == ':' && !brackets)
			return true;
	}
	return false;
}

/*
 * ".." that divides nothing, because no POINT follows. Three dots are C's variadic functions, and
 * mangled Rust names have two where the demangled ones have "::".
 */
static const char *stray_dots(const char *func)
{
	const char *s = func;

	if (!strncmp(func, "_ZN", 3) || !strncmp(func, "_R", 2))
		return NULL;
	while ((s = strstr(s, ".."))) {
		size_t n = strspn(s, ".");

		if (n == 2)
			return s;
		s += n;
	}
	return NULL;
}

/*
 * Cuts "+OFF" off func. A '+' can be part of a C++ or Rust name ("operator+", "f<1+2>"): it starts
 * an offset when only letters and digits follow up to the end.
 */
static int cut_offset(char *func, const char *text, struct gate_point *p, struct reason *why)
{
	char *plus = strrchr(func, '+');
	size_t len;

	if (!plus)
		return 0;
	len = (size_t)(plus - func);
	if (plus[1] == '\0' &&
	    (ends_with(func, len, "operator") || ends_with(func, len, "operator+")))
		return 0;
	if (plus[1] != '\0' && !is_word(plus + 1, "-"))
		return 0;
	if (parse_u64(plus + 1, 0, UINT64_MAX, &p->offset))
		return refuse(why, "'%s' has a bad offset '%s': write +16 or +0x10", text, plus);
	p->has_offset = true;
	*plus = '\0';
	return 0;
}

static int check_func(const char *func, const char *text, struct reason *why)
{
	const char *dots;

	if (!*func)
		return refuse(why, "'%s' names no function", text);
	if (func[0] == ' ' || ends_with(func, strlen(func), " "))
		return refuse(why, "'%s' has a blank before or after the function's name", text);
	if (func[0] == ':')
		return refuse(why,
			      "'%s' has too many colons: a function's name does not begin with "
			      "one",
			      text);
	dots = stray_dots(func);
	if (dots)
		return refuse(why,
			      "'%s' has no probe after '..': the end is a point of its own, as in "
			      "u:PATH:FUNC..u:PATH:FUNC",
			      text);
	if (has_lone_colon(func))
		return refuse(why,
			      "'%s' has a ':' inside its path or its function, which can't be "
			      "given: use a symbolic link without one, or PATH:FUNC with one ':' "
			      "between",
			      text);
	return 0;
}

static int set_string(char **out, const char *s)
{
	*out = strdup(s);
	return *out ? 0 : -ENOMEM;
}

static int parse_user_func(char *rest, const char *text, struct gate_point *p, struct reason *why)
{
	char *colon = path_end(rest), *func;
	int err;

	if (!colon)
		return refuse(why,
			      "'%s' has no function: write %s:PATH:FUNC, or %s::FUNC for the "
			      "executable of -p",
			      text, point_kind_name(p->kind), point_kind_name(p->kind));
	*colon = '\0';
	func = colon + 1;
	if (strlen(rest) >= PATH_MAX)
		return refuse(why, "a path of the gate is longer than %d bytes", PATH_MAX - 1);
	err = cut_offset(func, text, p, why);
	if (err)
		return err;
	if (p->has_offset && p->kind == POINT_URETPROBE)
		return refuse(why,
			      "'%s' gives an offset to a return: use uprobe:PATH:FUNC+OFF for an "
			      "instruction inside the function",
			      text);
	err = check_func(func, text, why);
	if (!err && *rest)
		err = set_string(&p->path, rest);
	if (!err)
		err = set_string(&p->func, func);
	return err;
}

/* From the right, since neither provider nor name has a colon. */
static int parse_usdt(char *rest, const char *text, struct gate_point *p, struct reason *why)
{
	char *name = strrchr(rest, ':'), *provider = NULL;
	int err;

	if (name) {
		*name++ = '\0';
		provider = strrchr(rest, ':');
	}
	if (!provider)
		return refuse(why,
			      "'%s' is not complete: write usdt:PATH:PROVIDER:NAME, or "
			      "usdt::PROVIDER:NAME for the executable of -p",
			      text);
	*provider++ = '\0';
	if (!*provider)
		return refuse(why,
			      "'%s' has an empty provider: write usdt:PATH:PROVIDER:NAME "
			      "('readelf -n PATH' lists both)",
			      text);
	if (!*name)
		return refuse(why,
			      "'%s' has an empty probe name: write usdt:PATH:PROVIDER:NAME "
			      "('readelf -n PATH' lists both)",
			      text);
	if (!is_word(provider, "-.") || !is_word(name, "-."))
		return refuse(why,
			      "'%s' has a provider or a name with other characters than letters, "
			      "digits, '_', '-' and '.'",
			      text);
	if (strchr(rest, ':'))
		return refuse(why,
			      "'%s' has a path with a ':', which can't be given: use a symbolic "
			      "link without one",
			      text);
	if (strlen(rest) >= PATH_MAX)
		return refuse(why, "a path of the gate is longer than %d bytes", PATH_MAX - 1);
	err = *rest ? set_string(&p->path, rest) : 0;
	if (!err)
		err = set_string(&p->provider, provider);
	if (!err)
		err = set_string(&p->func, name);
	return err;
}

static int parse_kernel_func(char *rest, const char *text, struct gate_point *p, struct reason *why)
{
	int err = cut_offset(rest, text, p, why);

	if (err)
		return err;
	if (!*rest)
		return refuse(why, "'%s' names no function", text);
	if (p->has_offset && p->kind == POINT_KRETPROBE)
		return refuse(why,
			      "'%s' gives an offset to a return: use kprobe:FUNC+OFF for an "
			      "instruction inside the function",
			      text);
	/* compilers append suffixes such as .isra.0 and .cold */
	if (!is_word(rest, ".$") || strstr(rest, ".."))
		return refuse(why, "'%s' is no name of a kernel function: write %s:FUNC", text,
			      point_kind_name(p->kind));
	return set_string(&p->func, rest);
}

/* The names become path components in tracefs: nothing that could lead elsewhere passes. */
static int parse_tracepoint(char *rest, const char *text, struct gate_point *p, struct reason *why)
{
	char *name = strchr(rest, ':');
	int err;

	if (!name)
		return refuse(why, "'%s' is not complete: write tracepoint:CATEGORY:NAME", text);
	*name++ = '\0';
	if (!is_word(rest, "-") || !is_word(name, "-"))
		return refuse(why,
			      "'%s' is no name of a tracepoint: write tracepoint:CATEGORY:NAME, "
			      "as in tracepoint:sched:sched_switch",
			      text);
	err = set_string(&p->provider, rest);
	if (!err)
		err = set_string(&p->func, name);
	return err;
}

static int parse_syscall(char *rest, const char *text, struct gate_point *p, struct reason *why)
{
	if (!*rest)
		return refuse(why, "'%s' names no system call: write syscall:NAME", text);
	if (!is_word(rest, ""))
		return refuse(why,
			      "'%s' is no name of a system call: write syscall:NAME, as in "
			      "syscall:write",
			      text);
	return set_string(&p->func, rest);
}

static int refuse_kind(const char *text, struct reason *why)
{
	size_t i, len = strcspn(text, ":");

	if (!*text)
		return refuse(why, "the gate is empty: write a probe, as in u:PATH:FUNC");
	if (text[len] != ':')
		return refuse(why,
			      "'%s' has no probe kind: write u:PATH:FUNC for a user function, "
			      "k:FUNC for a kernel function, t:CATEGORY:NAME or syscall:NAME",
			      text);
	for (i = 0; i < sizeof(foreign_kinds) / sizeof(foreign_kinds[0]); i++)
		if (strlen(foreign_kinds[i].name) == len &&
		    !strncmp(text, foreign_kinds[i].name, len))
			return refuse(why, "'%s' has a probe kind that is no gate, '%.*s': %s",
				      text, (int)len, text, foreign_kinds[i].hint);
	return refuse(why,
		      "'%s' has an unknown probe kind '%.*s': it is one of u, ur, U, k, kr, t "
		      "(uprobe, uretprobe, usdt, kprobe, kretprobe, tracepoint) or syscall",
		      text, (int)(len > 40 ? 40 : len), text);
}

static void point_release(struct gate_point *p)
{
	free(p->path);
	free(p->func);
	free(p->provider);
	memset(p, 0, sizeof(*p));
}

static int parse_point(const char *text, struct gate_point *out, struct reason *why)
{
	struct gate_point p = {0};
	const struct kind_name *kind;
	const char *rest = NULL;
	char *copy = NULL;
	int err;

	kind = kind_prefix(text, &rest);
	if (!kind)
		return refuse_kind(text, why);
	p.kind = kind->kind;
	copy = strdup(rest);
	if (!copy)
		return -ENOMEM;
	switch (p.kind) {
	case POINT_UPROBE:
	case POINT_URETPROBE:
		err = parse_user_func(copy, text, &p, why);
		break;
	case POINT_USDT:
		err = parse_usdt(copy, text, &p, why);
		break;
	case POINT_KPROBE:
	case POINT_KRETPROBE:
		err = parse_kernel_func(copy, text, &p, why);
		break;
	case POINT_TRACEPOINT:
		err = parse_tracepoint(copy, text, &p, why);
		break;
	default:
		err = parse_syscall(copy, text, &p, why);
		break;
	}
	free(copy);
	if (err)
		point_release(&p);
	else
		*out = p;
	return err;
}

/* The next ".." at or after s that has a probe kind behind it; NULL for none. */
static const char *next_divider(const char *s)
{
	const char *rest;

	for (; (s = strstr(s, "..")); s++)
		if (kind_prefix(s + 2, &rest))
			return s;
	return NULL;
}

/* The part of text before end, parsed. */
static int parse_begin(const char *text, const char *end, struct gate_point *out,
		       struct reason *why)
{
	char *part = strndup(text, (size_t)(end - text));
	int err;

	if (!part)
		return -ENOMEM;
	err = parse_point(part, out, why);
	free(part);
	return err;
}

/*
 * Finds the divider: the first one whose left side is a whole point. A path can have ".." and a
 * kind's letter in it ("u:/opt/a..u:main"), but then what is left of it lacks its function. NULL
 * with *err 0: there is none, the text is a single point.
 */
static const char *find_divider(const char *text, struct gate_point *begin, int *err)
{
	const char *s;

	*err = 0;
	for (s = next_divider(text); s; s = next_divider(s + 1)) {
		*err = parse_begin(text, s, begin, NULL);
		if (*err != -EINVAL)
			return s;
	}
	*err = 0;
	return NULL;
}

static int check_natural_end(const char *text, const struct gate_point *p, struct reason *why)
{
	const char *form = "A..B";

	switch (p->kind) {
	case POINT_SYSCALL:
	case POINT_OBJECT:
		return 0;
	case POINT_UPROBE:
	case POINT_KPROBE:
		if (!p->has_offset)
			return 0;
		form = p->kind == POINT_UPROBE ? "u:PATH:FUNC+OFF..u:PATH:FUNC+OFF"
					       : "k:FUNC+OFF..k:FUNC+OFF";
		break;
	case POINT_URETPROBE:
		form = "u:PATH:F..ur:PATH:G (u:PATH:FUNC alone is the time inside FUNC)";
		break;
	case POINT_KRETPROBE:
		form = "k:F..kr:G (k:FUNC alone is the time inside FUNC)";
		break;
	case POINT_USDT:
		form = "U:PATH:PROVIDER:A..U:PATH:PROVIDER:B";
		break;
	case POINT_TRACEPOINT:
		form = "t:sched:A..t:sched:B";
		break;
	}
	return refuse(why, "'%s' has no natural end: join a begin and an end with '..', as in %s",
		      text, form);
}

static int check_text(const char *text, struct reason *why)
{
	size_t i;

	if (gate_spec_looks_like_perf_flag(text))
		return refuse(why,
			      "'%s' is an option, not a gate: stacks are always recorded, so -g is "
			      "no switch as in perf; write -g SPEC, as in -g u:PATH:FUNC",
			      text);
	for (i = 0; text[i]; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return refuse(why, "the gate has a control byte (0x%02x) at position %zu",
				      (unsigned int)text[i], i + 1);
	if (i > SPEC_MAX_BYTES)
		return refuse(why, "the gate is longer than %d bytes", SPEC_MAX_BYTES);
	if (i >= 2 && text[i - 1] == '.' && text[i - 2] == '.')
		return refuse(why, "'%s' ends in '..': add the point that closes the gate", text);
	if (text[0] == '.' && text[1] == '.')
		return refuse(why, "'%s' begins with '..': add the point that opens the gate",
			      text);
	return 0;
}

/* alone: one point, of which only the moment counts when it is passed */
static int parse_spec(const char *text, bool alone, struct gate_spec *out, char *why_buf,
		      size_t why_bytes)
{
	struct reason why = {why_buf, why_bytes};
	struct gate_spec spec = {0};
	const char *divider;
	int err;

	err = check_text(text, &why);
	if (err)
		return err;
	divider = find_divider(text, &spec.begin, &err);
	if (err)
		goto out;
	if (divider) {
		struct gate_point more = {0};
		const char *third = find_divider(divider + 2, &more, &err);

		point_release(&more);
		if (!err && third)
			err = refuse(&why,
				     "'%s' joins more than two points: a gate has one begin and "
				     "one end, and -g can be given several times",
				     text);
		if (!err)
			err = parse_point(divider + 2, &spec.end, &why);
		spec.pair = true;
	} else {
		const char *maybe = next_divider(text);

		err = parse_point(text, &spec.begin, maybe ? NULL : &why);
		/* a '..' that looks like a divider: then what is wrong is on its left */
		if (err == -EINVAL && maybe)
			err = parse_begin(text, maybe, &spec.begin, &why);
		if (!err && !alone)
			err = check_natural_end(text, &spec.begin, &why);
	}
	if (!err && alone && spec.pair)
		err = refuse(&why, "'%s' is a pair: one point is expected here", text);
	if (err)
		goto out;
	err = set_string(&spec.text, text);
	if (err)
		goto out;
	*out = spec;
	return 0;
out:
	if (err == -ENOMEM && why_bytes)
		snprintf(why_buf, why_bytes, "there is not enough memory");
	gate_spec_release(&spec);
	return err;
}

int gate_spec_parse(const char *text, struct gate_spec *out, char *why, size_t why_bytes)
{
	return parse_spec(text, false, out, why, why_bytes);
}

int gate_spec_parse_point(const char *text, struct gate_spec *out, char *why, size_t why_bytes)
{
	return parse_spec(text, true, out, why, why_bytes);
}

void gate_spec_release(struct gate_spec *spec)
{
	if (!spec)
		return;
	free(spec->text);
	point_release(&spec->begin);
	point_release(&spec->end);
	memset(spec, 0, sizeof(*spec));
}
