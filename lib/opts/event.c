/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/event.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "base/nearest.h"
#include "base/parse.h"

#define EVENT_MAX_BYTES 4096 /* of a text, and of a file in sysfs, whose attributes are a page */

struct reason {
	char *buf;
	size_t bytes;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct reason *why, int err,
							const char *fmt, ...)
{
	va_list ap;

	if (why->bytes) {
		va_start(ap, fmt);
		vsnprintf(why->buf, why->bytes, fmt, ap);
		va_end(ap);
	}
	return err;
}

static const struct named_event {
	const char *name;
	uint32_t type;
	uint64_t config;
} named_events[] = {
	{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
	{"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
	{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
	{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
	{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
	{"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
	{"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
	{"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	{"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	{"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
	{"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
	{"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
	{"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS},
	{"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS},
};
#define N_NAMED (sizeof(named_events) / sizeof(named_events[0]))

enum { OP_READ = 1, OP_WRITE = 2, OP_PREFETCH = 4 };

static const struct cache_name {
	const char *name;
	unsigned int id;
	unsigned int ops; /* what exists for this cache */
} cache_names[] = {
	{"L1-dcache", PERF_COUNT_HW_CACHE_L1D, OP_READ | OP_WRITE | OP_PREFETCH},
	{"L1-d", PERF_COUNT_HW_CACHE_L1D, OP_READ | OP_WRITE | OP_PREFETCH},
	{"L1d", PERF_COUNT_HW_CACHE_L1D, OP_READ | OP_WRITE | OP_PREFETCH},
	{"L1-icache", PERF_COUNT_HW_CACHE_L1I, OP_READ | OP_PREFETCH},
	{"L1-i", PERF_COUNT_HW_CACHE_L1I, OP_READ | OP_PREFETCH},
	{"L1i", PERF_COUNT_HW_CACHE_L1I, OP_READ | OP_PREFETCH},
	{"LLC", PERF_COUNT_HW_CACHE_LL, OP_READ | OP_WRITE | OP_PREFETCH},
	{"L2", PERF_COUNT_HW_CACHE_LL, OP_READ | OP_WRITE | OP_PREFETCH},
	{"dTLB", PERF_COUNT_HW_CACHE_DTLB, OP_READ | OP_WRITE | OP_PREFETCH},
	{"d-tlb", PERF_COUNT_HW_CACHE_DTLB, OP_READ | OP_WRITE | OP_PREFETCH},
	{"iTLB", PERF_COUNT_HW_CACHE_ITLB, OP_READ},
	{"i-tlb", PERF_COUNT_HW_CACHE_ITLB, OP_READ},
	{"branch", PERF_COUNT_HW_CACHE_BPU, OP_READ},
	{"bpu", PERF_COUNT_HW_CACHE_BPU, OP_READ},
	{"btb", PERF_COUNT_HW_CACHE_BPU, OP_READ},
	{"node", PERF_COUNT_HW_CACHE_NODE, OP_READ | OP_WRITE | OP_PREFETCH},
};
#define N_CACHES (sizeof(cache_names) / sizeof(cache_names[0]))

static const struct cache_op {
	const char *name;
	unsigned int id, bit;
	bool miss;
} cache_ops[] = {
	{"loads", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, false},
	{"load", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, false},
	{"load-refs", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, false},
	{"load-misses", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, true},
	{"loads-misses", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, true},
	{"stores", PERF_COUNT_HW_CACHE_OP_WRITE, OP_WRITE, false},
	{"store", PERF_COUNT_HW_CACHE_OP_WRITE, OP_WRITE, false},
	{"store-refs", PERF_COUNT_HW_CACHE_OP_WRITE, OP_WRITE, false},
	{"store-misses", PERF_COUNT_HW_CACHE_OP_WRITE, OP_WRITE, true},
	{"stores-misses", PERF_COUNT_HW_CACHE_OP_WRITE, OP_WRITE, true},
	{"prefetches", PERF_COUNT_HW_CACHE_OP_PREFETCH, OP_PREFETCH, false},
	{"prefetch", PERF_COUNT_HW_CACHE_OP_PREFETCH, OP_PREFETCH, false},
	{"prefetch-refs", PERF_COUNT_HW_CACHE_OP_PREFETCH, OP_PREFETCH, false},
	{"prefetch-misses", PERF_COUNT_HW_CACHE_OP_PREFETCH, OP_PREFETCH, true},
	{"prefetches-misses", PERF_COUNT_HW_CACHE_OP_PREFETCH, OP_PREFETCH, true},
	{"refs", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, false},
	{"misses", PERF_COUNT_HW_CACHE_OP_READ, OP_READ, true},
};
#define N_OPS (sizeof(cache_ops) / sizeof(cache_ops[0]))

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

struct nearest {
	char best[3][64];
	size_t dist[3];
	size_t n;
};

static void nearest_offer(struct nearest *near, const char *wanted, const char *candidate)
{
	size_t len = strlen(wanted), limit = len < 6 ? 1 : len < 12 ? 2 : 3, i;
	size_t d = nearest_distance(wanted, candidate);

	/* somebody who stopped typing: "instr" */
	if (len >= 3 && !strncasecmp(wanted, candidate, len))
		d = d && d != SIZE_MAX ? 1 : d;
	if (d > limit || strlen(candidate) >= sizeof(near->best[0]))
		return;
	for (i = near->n; i > 0 && near->dist[i - 1] > d; i--) {
		if (i < 3) {
			memcpy(near->best[i], near->best[i - 1], sizeof(near->best[i]));
			near->dist[i] = near->dist[i - 1];
		}
	}
	if (i == 3)
		return;
	snprintf(near->best[i], sizeof(near->best[i]), "%s", candidate);
	near->dist[i] = d;
	if (near->n < 3)
		near->n++;
}

static int refuse_unknown(const char *name, struct reason *why)
{
	struct nearest near = {0};
	char cache[64], list[256] = "";
	size_t i, j, len = 0;

	for (i = 0; i < N_NAMED; i++)
		nearest_offer(&near, name, named_events[i].name);
	for (i = 0; i < N_CACHES; i++) {
		for (j = 0; j < N_OPS; j++) {
			if (!(cache_names[i].ops & cache_ops[j].bit))
				continue;
			snprintf(cache, sizeof(cache), "%s-%s", cache_names[i].name,
				 cache_ops[j].name);
			nearest_offer(&near, name, cache);
		}
	}
	for (i = 0; i < near.n; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s'%s'", i ? " or " : "",
					near.best[i]);
	if (near.n)
		return refuse(why, -EINVAL, "'%s' is no event: did you mean %s?", name, list);
	return refuse(why, -EINVAL,
		      "'%s' is no event: write cycles, cpu-clock, rNNN, PMU/TERM=VALUE/ or "
		      "mem:ADDR:x ('perf list' shows more)",
		      name);
}

/* True when all of s could be modifiers, also those that we refuse. */
static bool looks_like_modifiers(const char *s)
{
	return *s && s[strspn(s, "ukhpPGHIDSWeb")] == '\0' && strlen(s) <= 8;
}

static int parse_modifiers(const char *s, const char *text, struct event_spec *ev,
			   struct reason *why)
{
	bool user = false, kernel = false, hv = false;
	unsigned int precise = 0;

	if (!*s)
		return refuse(
			why, -EINVAL,
			"'%s' ends in an empty modifier: leave the ':' out, or write :u or :k",
			text);
	for (; *s; s++) {
		switch (*s) {
		case 'u':
			user = true;
			break;
		case 'k':
			kernel = true;
			break;
		case 'h':
			hv = true;
			break;
		case 'p':
			precise++;
			break;
		default:
			return refuse(why, -EINVAL,
				      "'%s' has an unknown modifier '%c': it can be u, k, h and up "
				      "to three p",
				      text, *s);
		}
	}
	if (precise > 3)
		return refuse(why, -EINVAL, "'%s' has more than three p: :ppp is the most precise",
			      text);
	if (precise && !ev->hardware)
		return refuse(why, -EINVAL,
			      "'%s' asks for precise samples of an event that is not counted by a "
			      "PMU: leave the p out",
			      text);
	if (user || kernel || hv) {
		ev->exclude_user = !user;
		ev->exclude_kernel = !kernel;
		ev->exclude_hv = !hv;
	}
	ev->precise = (uint8_t)precise;
	return 0;
}

/* The one who answers for both spellings: "sched:sched_switch" and "t:sched:sched_switch". */
static int refuse_tracepoint(const char *text, struct reason *why)
{
	const char *name = text;

	if (!strncmp(name, "tracepoint:", 11))
		name += 11;
	else if (!strncmp(name, "t:", 2))
		name += 2;
	return refuse(why, -ENOTSUP,
		      "'%s' is a tracepoint, and the kernel takes none as the sampling event of "
		      "such a program: sample by cpu-clock or cycles, and gate on the tracepoint, "
		      "as in -g t:%s..t:CATEGORY:END",
		      text, name);
}

static int find_named(const char *name, struct event_spec *ev)
{
	size_t i;

	for (i = 0; i < N_NAMED; i++) {
		if (strcmp(name, named_events[i].name))
			continue;
		ev->type = named_events[i].type;
		ev->config = named_events[i].config;
		return 0;
	}
	return -ENOENT;
}

static int find_cache(const char *name, struct event_spec *ev)
{
	size_t i, j;

	for (i = 0; i < N_CACHES; i++) {
		size_t len = strlen(cache_names[i].name);

		if (strncasecmp(name, cache_names[i].name, len) || name[len] != '-')
			continue;
		for (j = 0; j < N_OPS; j++) {
			if (strcmp(name + len + 1, cache_ops[j].name) ||
			    !(cache_names[i].ops & cache_ops[j].bit))
				continue;
			ev->type = PERF_TYPE_HW_CACHE;
			ev->config = cache_names[i].id | cache_ops[j].id << 8 |
				     (unsigned int)(cache_ops[j].miss
							    ? PERF_COUNT_HW_CACHE_RESULT_MISS
							    : PERF_COUNT_HW_CACHE_RESULT_ACCESS)
					     << 16;
			return 0;
		}
	}
	return -ENOENT;
}

/* rNNN; -ENOENT when it does not look like one. */
static int find_raw(const char *name, struct event_spec *ev)
{
	char hex[2 + 16 + 2];
	size_t len;

	if (name[0] != 'r')
		return -ENOENT;
	name++;
	if (name[0] == '0' && name[1] == 'x')
		name += 2;
	len = strlen(name);
	if (len == 0 || name[strspn(name, "0123456789abcdefABCDEF")])
		return -ENOENT;
	if (len > 16)
		return -ERANGE;
	snprintf(hex, sizeof(hex), "0x%s", name);
	ev->type = PERF_TYPE_RAW;
	return parse_u64(hex, 0, UINT64_MAX, &ev->config);
}

/* mem:ADDR[/LEN][:rwx][:MODIFIERS] */
static int parse_breakpoint(const char *text, struct event_spec *ev, struct reason *why)
{
	char *copy = strdup(text + strlen("mem:")), *s = copy, *rest, *slash, *mods = NULL;
	bool any_len = false;
	int err = 0;

	if (!copy)
		return -ENOMEM;
	ev->type = PERF_TYPE_BREAKPOINT;
	ev->bp_type = HW_BREAKPOINT_RW;
	rest = strchr(s, ':');
	if (rest)
		*rest++ = '\0';
	slash = strchr(s, '/');
	if (slash)
		*slash++ = '\0';
	if (parse_u64(s, 0, UINT64_MAX, &ev->bp_addr)) {
		err = refuse(why, -EINVAL,
			     "'%s' has no address: write mem:ADDR[/LEN][:rwx], as in "
			     "mem:0x401136:x",
			     text);
		goto out;
	}
	if (slash) {
		any_len = true;
		if (parse_u64(slash, 1, 8, &ev->bp_len) || (ev->bp_len & (ev->bp_len - 1))) {
			err = refuse(why, -EINVAL,
				     "'%s' has the length '%s': a breakpoint covers 1, 2, 4 or 8 "
				     "bytes",
				     text, slash);
			goto out;
		}
	}
	if (rest) {
		mods = strchr(rest, ':');
		if (mods)
			*mods++ = '\0';
		if (*rest && rest[strspn(rest, "rwx")] == '\0') {
			ev->bp_type = 0;
			for (; *rest; rest++) {
				uint32_t bit = *rest == 'r'   ? HW_BREAKPOINT_R
					       : *rest == 'w' ? HW_BREAKPOINT_W
							      : HW_BREAKPOINT_X;

				if (ev->bp_type & bit) {
					err = refuse(why, -EINVAL, "'%s' has '%c' twice", text,
						     *rest);
					goto out;
				}
				ev->bp_type |= bit;
			}
		} else if (!mods) {
			mods = rest;
		} else {
			err = refuse(why, -EINVAL, "'%s' has the access '%s': it is r, w, rw or x",
				     text, rest);
			goto out;
		}
	}
	if ((ev->bp_type & HW_BREAKPOINT_X) && ev->bp_type != HW_BREAKPOINT_X) {
		err = refuse(why, -EINVAL,
			     "'%s' mixes x with r or w, which the processor can't: give one or the "
			     "other",
			     text);
		goto out;
	}
	if (ev->bp_type == HW_BREAKPOINT_X) {
		/* the kernel wants this very length for instructions, whatever theirs is */
		if (any_len && ev->bp_len != sizeof(long)) {
			err = refuse(why, -EINVAL,
				     "'%s' gives a length to an instruction: leave '/%llu' out",
				     text, (unsigned long long)ev->bp_len);
			goto out;
		}
		ev->bp_len = sizeof(long);
	} else if (!any_len) {
		ev->bp_len = HW_BREAKPOINT_LEN_4;
	}
	if (mods)
		err = parse_modifiers(mods, text, ev, why);
out:
	free(copy);
	return err;
}

/* Reads dir/file of at most EVENT_MAX_BYTES - 1 bytes, cuts a newline at the end. */
static int read_small(int dir, const char *file, char buf[EVENT_MAX_BYTES])
{
	/* O_NONBLOCK: what claims to be a file in sysfs may be a FIFO */
	int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	struct stat st;
	size_t len = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		err = -errno;
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		err = -EINVAL;
		goto out;
	}
	for (;;) {
		ssize_t n = read(fd, buf + len, EVENT_MAX_BYTES - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = -errno;
			goto out;
		}
		if (n == 0)
			break;
		len += (size_t)n;
		if (len == EVENT_MAX_BYTES) {
			err = -EFBIG;
			goto out;
		}
	}
	if (len && buf[len - 1] == '\n')
		len--;
	buf[len] = '\0';
	if (strlen(buf) != len)
		err = -EINVAL;
out:
	close(fd);
	return err;
}

struct pmu {
	const char *text; /* the whole event, for messages */
	const char *name;
	int dir; /* sysfs/NAME */
	struct event_spec *ev;
	struct reason *why;
};

/*
 * Puts value into the bits that a format file lists, lowest first: "config:0-7,32-35". Bits that
 * the term does not set are cleared, since a term after an event's name overrides the event's own.
 */
static int put_bits(const struct pmu *pmu, const char *term, const char *format, uint64_t value)
{
	uint64_t *config = NULL, left = value;
	const char *s;

	if (!strncmp(format, "config:", 7)) {
		config = &pmu->ev->config;
		s = format + 7;
	} else if (!strncmp(format, "config1:", 8)) {
		config = &pmu->ev->config1;
		s = format + 8;
	} else if (!strncmp(format, "config2:", 8)) {
		config = &pmu->ev->config2;
		s = format + 8;
	} else {
		return refuse(pmu->why, -EINVAL,
			      "'%s': the format of '%s' is '%.64s', which is not understood",
			      pmu->text, term, format);
	}
	for (;;) {
		uint64_t lo, hi, bits;
		char num[8];
		size_t n = strspn(s, "0123456789");

		if (n == 0 || n > 2)
			goto bad;
		memcpy(num, s, n);
		num[n] = '\0';
		if (parse_u64(num, 0, 63, &lo))
			goto bad;
		s += n;
		hi = lo;
		if (*s == '-') {
			n = strspn(++s, "0123456789");
			if (n == 0 || n > 2)
				goto bad;
			memcpy(num, s, n);
			num[n] = '\0';
			if (parse_u64(num, lo, 63, &hi))
				goto bad;
			s += n;
		}
		bits = hi - lo == 63 ? UINT64_MAX : (1ull << (hi - lo + 1)) - 1;
		*config = (*config & ~(bits << lo)) | (left & bits) << lo;
		left = hi - lo == 63 ? 0 : left >> (hi - lo + 1);
		if (*s == '\0')
			break;
		if (*s++ != ',')
			goto bad;
	}
	if (left)
		return refuse(pmu->why, -EINVAL,
			      "'%s': the value 0x%llx of '%s' has more bits than '%s'", pmu->text,
			      (unsigned long long)value, term, format);
	return 0;
bad:
	return refuse(pmu->why, -EINVAL, "'%s': the format of '%s' is '%.64s', which is malformed",
		      pmu->text, term, format);
}

static int parse_terms(const struct pmu *pmu, char *terms, bool from_file);

static int apply_term(const struct pmu *pmu, const char *term, const char *value_text,
		      bool from_file)
{
	char path[NAME_MAX + 16], buf[EVENT_MAX_BYTES];
	uint64_t value = 1;
	int err;

	if (!is_word(term, "-.") || term[0] == '.' || strlen(term) > NAME_MAX)
		return refuse(pmu->why, -EINVAL,
			      "'%s' has a bad term '%s': write PMU/TERM=VALUE,.../", pmu->text,
			      term);
	if (!strcmp(term, "period"))
		return refuse(pmu->why, -EINVAL, "'%s' has a period in it: use -c PERIOD",
			      pmu->text);
	if (!strcmp(term, "freq"))
		return refuse(pmu->why, -EINVAL, "'%s' has a frequency in it: use -F HZ",
			      pmu->text);
	if (!strcmp(term, "name"))
		return 0; /* perf's label for the event, of no consequence here */
	if (value_text && parse_u64(value_text, 0, UINT64_MAX, &value)) {
		if (from_file && !strcmp(value_text, "?"))
			return refuse(pmu->why, -EINVAL, "'%s' needs a value for '%s': add %s=N",
				      pmu->text, term, term);
		return refuse(pmu->why, -EINVAL,
			      "'%s': '%s' is no number for '%s': write it in decimal, or with 0x",
			      pmu->text, value_text, term);
	}
	if (!strcmp(term, "config") || !strcmp(term, "config1") || !strcmp(term, "config2")) {
		uint64_t *config = term[6] == '\0'  ? &pmu->ev->config
				   : term[6] == '1' ? &pmu->ev->config1
						    : &pmu->ev->config2;

		*config = value;
		return 0;
	}

	snprintf(path, sizeof(path), "format/%s", term);
	err = read_small(pmu->dir, path, buf);
	if (!err)
		return put_bits(pmu, term, buf, value);
	if (err == -ENOENT && !value_text && !from_file && !strchr(term, '.')) {
		snprintf(path, sizeof(path), "events/%s", term);
		err = read_small(pmu->dir, path, buf);
		if (!err)
			return parse_terms(pmu, buf, true);
	}
	if (err == -ENOENT)
		return refuse(pmu->why, -EINVAL,
			      "'%s': the PMU '%s' has no term or event '%s' (see format and events "
			      "in " EVENT_SYSFS "/%s)",
			      pmu->text, pmu->name, term, pmu->name);
	return refuse(pmu->why, err, "'%s': reading '%s' of the PMU '%s' failed: %s", pmu->text,
		      path, pmu->name, strerror(-err));
}

static int parse_terms(const struct pmu *pmu, char *terms, bool from_file)
{
	int err;

	for (;;) {
		char *next = strchr(terms, ','), *value;

		if (next)
			*next++ = '\0';
		value = strchr(terms, '=');
		if (value)
			*value++ = '\0';
		err = apply_term(pmu, terms, value, from_file);
		if (err || !next)
			return err;
		terms = next;
	}
}

static int open_pmu(const char *sysfs, const char *name, uint32_t *type, int *dir)
{
	char buf[EVENT_MAX_BYTES];
	int err, top, fd = -1;
	uint64_t v;

	top = open(sysfs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return -errno;
	fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	err = read_small(fd, "type", buf);
	if (!err)
		err = parse_u64(buf, 0, UINT32_MAX, &v);
	if (err)
		goto out;
	*type = (uint32_t)v;
	*dir = fd;
	fd = -1;
out:
	if (fd >= 0)
		close(fd);
	close(top);
	return err;
}

/* PMU/TERM[=VALUE],.../MODIFIERS */
static int parse_pmu(const char *text, const char *sysfs, struct event_spec *ev, struct reason *why)
{
	char *copy = strdup(text), *terms, *mods;
	struct pmu pmu = {.text = text, .dir = -1, .ev = ev, .why = why};
	int err;

	if (!copy)
		return -ENOMEM;
	pmu.name = copy;
	terms = strchr(copy, '/');
	*terms++ = '\0';
	mods = strchr(terms, '/');
	if (!mods) {
		err = refuse(why, -EINVAL, "'%s' lacks the second '/': write PMU/TERM=VALUE,.../",
			     text);
		goto out;
	}
	*mods++ = '\0';
	if (!is_word(copy, "-.") || copy[0] == '.') {
		err = refuse(why, -EINVAL,
			     "'%s' names no PMU: write PMU/TERM=VALUE,.../, as in "
			     "cpu/event=0x3c/",
			     text);
		goto out;
	}
	err = open_pmu(sysfs, copy, &ev->type, &pmu.dir);
	if (err) {
		if (err == -ENOENT)
			refuse(why, err, "'%s': this machine has no PMU '%s' ('ls %s' shows them)",
			       text, copy, sysfs);
		else
			refuse(why, err, "'%s': the PMU '%s' can't be read: %s", text, copy,
			       strerror(-err));
		goto out;
	}
	/* these two are dynamic PMUs whose events are tracepoints to the kernel */
	if (ev->type == PERF_TYPE_TRACEPOINT || !strcmp(copy, "kprobe") ||
	    !strcmp(copy, "uprobe")) {
		err = refuse(why, -ENOTSUP,
			     "'%s' is a probe, not a sampling event: use it as a gate, as in -g "
			     "u:PATH:FUNC or -g t:CATEGORY:A..t:CATEGORY:B",
			     text);
		goto out;
	}
	if (ev->type == PERF_TYPE_BREAKPOINT) {
		err = refuse(why, -EINVAL, "'%s' has no address: write mem:ADDR[/LEN][:rwx]", text);
		goto out;
	}
	if (*terms) {
		err = parse_terms(&pmu, terms, false);
		if (err)
			goto out;
	}
	ev->hardware = ev->type != PERF_TYPE_SOFTWARE;
	if (*mods == ':')
		err = parse_modifiers(mods + 1, text, ev, why);
	else if (*mods)
		err = parse_modifiers(mods, text, ev, why);
out:
	if (pmu.dir >= 0)
		close(pmu.dir);
	free(copy);
	return err;
}

/* A name that the CPU's own PMU lists in sysfs ("mem-loads"), as perf takes it. */
static int find_cpu_event(const char *name, const char *sysfs, struct event_spec *ev)
{
	struct reason none = {0};
	char *text;
	int err;

	if (strlen(name) > NAME_MAX || !is_word(name, "-"))
		return -ENOENT;
	if (asprintf(&text, "cpu/%s/", name) < 0)
		return -ENOMEM;
	err = parse_pmu(text, sysfs, ev, &none);
	free(text);
	return err == -ENOMEM ? err : err ? -ENOENT : 0;
}

/* NAME[:MODIFIERS] */
static int parse_name(const char *text, const char *sysfs, struct event_spec *ev,
		      struct reason *why)
{
	char *name = strdup(text), *mods;
	int err;

	if (!name)
		return -ENOMEM;
	mods = strchr(name, ':');
	if (mods)
		*mods++ = '\0';
	ev->hardware = true;
	err = find_named(name, ev);
	if (err == -ENOENT)
		err = find_cache(name, ev);
	if (err == -ENOENT)
		err = find_raw(name, ev);
	if (err == -ERANGE) {
		err = refuse(why, -EINVAL, "'%s' has more than 16 hexadecimal digits", text);
		goto out;
	}
	if (err == -ENOENT && mods && !looks_like_modifiers(mods)) {
		const char *more = strchr(mods, ':');
		bool kind = !strcmp(name, "t") || !strcmp(name, "tracepoint");

		if (is_word(name, "-*?") && (!more || kind))
			err = refuse_tracepoint(text, why);
		else
			err = refuse_unknown(text, why);
		goto out;
	}
	if (err == -ENOENT)
		err = find_cpu_event(name, sysfs, ev);
	if (err == -ENOENT)
		err = refuse_unknown(name, why);
	if (err)
		goto out;
	ev->hardware = ev->type != PERF_TYPE_SOFTWARE;
	if (mods)
		err = parse_modifiers(mods, text, ev, why);
out:
	free(name);
	return err;
}

int event_parse(const char *text, const char *sysfs, struct event_spec *out, char *why_buf,
		size_t why_bytes)
{
	struct reason why = {why_buf, why_bytes};
	struct event_spec ev = {0};
	const char *slash = strchr(text, '/'), *colon = strchr(text, ':');
	size_t i;
	int err;

	if (!*text)
		return refuse(&why, -EINVAL, "the event is empty: write cycles or cpu-clock");
	for (i = 0; text[i]; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return refuse(&why, -EINVAL,
				      "the event has a control byte (0x%02x) at position %zu",
				      (unsigned int)text[i], i + 1);
	if (i >= EVENT_MAX_BYTES)
		return refuse(&why, -EINVAL, "the event is longer than %d bytes",
			      EVENT_MAX_BYTES - 1);
	if (!strncmp(text, "mem:", 4))
		err = parse_breakpoint(text, &ev, &why);
	else if (slash && (!colon || slash < colon))
		err = parse_pmu(text, sysfs, &ev, &why);
	else if (strchr(text, ','))
		err = refuse(&why, -EINVAL, "'%s' is a list: one event can be sampled at a time",
			     text);
	else
		err = parse_name(text, sysfs, &ev, &why);
	if (!err) {
		ev.is_clock =
			ev.type == PERF_TYPE_SOFTWARE && (ev.config == PERF_COUNT_SW_CPU_CLOCK ||
							  ev.config == PERF_COUNT_SW_TASK_CLOCK);
		ev.name = strdup(text);
		if (!ev.name)
			err = -ENOMEM;
	}
	if (err == -ENOMEM)
		refuse(&why, err, "there is not enough memory");
	if (!err)
		*out = ev;
	return err;
}

void event_spec_release(struct event_spec *ev)
{
	if (!ev)
		return;
	free(ev->name);
	memset(ev, 0, sizeof(*ev));
}
