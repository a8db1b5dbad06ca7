/* SPDX-License-Identifier: BSD-2-Clause */
#include "dwarf/inlines.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf/dwfile.h"
#include "dwarf/srclines.h"

#define NONE UINT32_MAX

/* Ranges that begin before an address and don't cover it, before a search gives up. */
#define OVERLAPS_MAX 256

/* Units' ranges in a file. */
#define SPANS_MAX (1u << 22)

/*
 * libdw finds a DIE's sibling by walking over its children, unless the file says where it is; each
 * byte of a unit is thus walked as often as it is deep. As far as this many times the unit's bytes,
 * weighted; real ones come to 20.
 */
#define WALKS_MAX 64

/* What a range and a DIE of a function cost, in bytes. */
#define RANGE_WORK 16
#define DIE_WORK   16

/* A function, or a call that was replaced by the function's code. */
struct func {
	uint64_t die;
	uint32_t parent; /* the function it is inlined into; NONE */
	uint32_t call_line;
	uint64_t call_file;
	const char *name;
	bool named; /* looked up */
};

/* Code of a function; sorted by lo, then the longer first. */
struct range {
	uint64_t lo, hi;
	uint32_t func;
	uint32_t outer; /* the nearest range before this one that ends later; NONE */
};

/* What is known of a unit, once an address in it has been asked for. */
struct index {
	struct func *funcs;
	size_t n_funcs, cap_funcs;
	struct range *ranges;
	size_t n_ranges, cap_ranges;
	struct srclines lines;
	uint64_t used; /* when */
	size_t bytes;
};

/* Code of a unit. */
struct span {
	uint64_t lo, hi;
	uint32_t unit;
	uint32_t outer;
};

struct inlines {
	struct dwfile file, alt;
	bool has_alt;
	struct span *spans;
	size_t n_spans, cap_spans;
	struct index **indexes; /* by unit; NULL: not made, or dropped */
	uint64_t clock, bytes;
	uint64_t work; /* so far */
};

static bool tired(struct inlines *in, uint64_t more)
{
	in->work += more;
	return in->work > INLINES_WORK_MAX;
}

/* What came from libdw before may be invalid after this. */
static bool die_at(struct inlines *in, struct dwfile_unit *unit, uint64_t offset, Dwarf_Die *die)
{
	int restarted = dwfile_refresh(&in->file);
	int other = in->has_alt ? dwfile_refresh(&in->alt) : 0;

	if ((restarted || other) && in->has_alt && in->file.dw)
		dwarf_setalt(in->file.dw, in->alt.dw);
	return offset >= unit->dies && dwfile_enter(&in->file, unit) &&
	       dwarf_offdie(in->file.dw, offset, die);
}

/* Calls add for each range of code of a DIE that makes sense. */
static int each_range(struct inlines *in, Dwarf_Die *die,
		      int (*add)(void *arg, uint64_t lo, uint64_t hi), void *arg)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;

	for (unsigned int i = 0; i < INLINES_DIE_RANGES_MAX && !tired(in, RANGE_WORK); i++) {
		int err;

		at = dwarf_ranges(die, at, &base, &lo, &hi);
		if (at <= 0)
			break;
		/* 0 and the like stand for code that the linker dropped */
		if (lo <= 1 || lo >= hi || lo >= UINT64_MAX - 1)
			continue;
		err = add(arg, lo, hi);
		if (err)
			return err;
	}
	return 0;
}

static uint64_t number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attr) || dwarf_formudata(&attr, &value))
		return 0;
	return value;
}

/* --- a unit's functions --- */

struct walk {
	struct index *index;
	uint32_t func; /* whose ranges are being added */
};

static int add_range(void *arg, uint64_t lo, uint64_t hi)
{
	struct walk *w = arg;
	struct index *x = w->index;

	if (x->n_ranges >= INLINES_RANGES_MAX)
		return 0;
	if (x->n_ranges == x->cap_ranges) {
		size_t cap = x->cap_ranges ? 2 * x->cap_ranges : 64;
		struct range *ranges = reallocarray(x->ranges, cap, sizeof(*ranges));

		if (!ranges)
			return -ENOMEM;
		x->ranges = ranges;
		x->cap_ranges = cap;
	}
	x->ranges[x->n_ranges++] = (struct range){lo, hi, w->func, NONE};
	return 0;
}

/* Adds a function if it has code. *func is what its children are inlined into. */
static int add_func(struct inlines *in, struct index *x, Dwarf_Die *die, bool inlined,
		    uint32_t *func)
{
	struct walk w = {.index = x, .func = (uint32_t)x->n_funcs};
	size_t before = x->n_ranges;
	int err;

	if (x->n_funcs >= INLINES_FUNCS_MAX)
		return 0;
	err = each_range(in, die, add_range, &w);
	if (err || x->n_ranges == before)
		return err;
	if (x->n_funcs == x->cap_funcs) {
		size_t cap = x->cap_funcs ? 2 * x->cap_funcs : 64;
		struct func *funcs = reallocarray(x->funcs, cap, sizeof(*funcs));

		if (!funcs)
			return -ENOMEM;
		x->funcs = funcs;
		x->cap_funcs = cap;
	}
	x->funcs[x->n_funcs] = (struct func){.die = dwarf_dieoffset(die), .parent = NONE};
	if (inlined) {
		struct func *f = &x->funcs[x->n_funcs];
		uint64_t line = number(die, DW_AT_call_line);

		f->parent = *func;
		f->call_file = number(die, DW_AT_call_file);
		f->call_line = line > UINT32_MAX ? 0 : (uint32_t)line;
	}
	*func = (uint32_t)x->n_funcs++;
	return 0;
}

/* Whether code may be described below such a DIE. */
static bool may_hold_code(int tag)
{
	switch (tag) {
	case DW_TAG_compile_unit:
	case DW_TAG_partial_unit:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_enumeration_type: /* Rust: its methods */
	case DW_TAG_variant_part:
	case DW_TAG_variant:
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
	case DW_TAG_entry_point:
	case DW_TAG_common_block:
		return true;
	default:
		return false;
	}
}

/*
 * To the next DIE on the same level: 0; 1: none. What libdw had to walk over for it is added to
 * work.
 */
static int next_die(Dwarf_Die *die, const struct dwfile_unit *unit, Dwarf_Die *next, uint64_t *work)
{
	uint64_t from = dwarf_dieoffset(die), to = unit->end;
	int ret;

	next->addr = NULL;
	ret = dwarf_siblingof(die, next);
	/* without a sibling it says what follows, if there is anything */
	if (next->addr && (char *)next->addr > (char *)die->addr)
		to = from + (uint64_t)((char *)next->addr - (char *)die->addr);
	else if (ret == 0)
		return -EBADMSG; /* backwards: for ever */
	if (to > from)
		*work += (to - from) * unit->weight / 4;
	return ret < 0 ? -EBADMSG : ret;
}

/* Depth first, without recursion; func[d] is what the DIEs at depth d are inlined into. */
static int walk_unit(struct inlines *in, struct index *x, const struct dwfile_unit *unit,
		     Dwarf_Die *unit_die)
{
	uint64_t most = in->work + WALKS_MAX * (unit->end - unit->offset);
	Dwarf_Die stack[INLINES_DEPTH_MAX];
	uint32_t func[INLINES_DEPTH_MAX];
	size_t depth = 0, dies = 0;
	int err = 0;

	if (tired(in, 0) || dwarf_child(unit_die, &stack[0]) != 0)
		return 0;
	func[0] = NONE;
	while (++dies <= INLINES_DIES_MAX) {
		int tag = dwarf_tag(&stack[depth]), ret;
		uint32_t inner = func[depth];
		Dwarf_Die next = {};

		in->work += DIE_WORK * unit->weight / 4;
		if (tag == DW_TAG_subprogram)
			inner = NONE;
		if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
			err = add_func(in, x, &stack[depth], tag == DW_TAG_inlined_subroutine,
				       &inner);
		if (err)
			break;
		if (depth + 1 < INLINES_DEPTH_MAX && may_hold_code(tag) &&
		    dwarf_child(&stack[depth], &stack[depth + 1]) == 0) {
			func[++depth] = inner;
			continue;
		}
		do {
			ret = next_die(&stack[depth], unit, &next, &in->work);
		} while (ret > 0 && depth-- > 0 && in->work <= most);
		if (ret || in->work > most || tired(in, 0))
			break;
		stack[depth] = next;
	}
	return err;
}

static int by_range(const void *pa, const void *pb)
{
	const struct range *a = pa, *b = pb;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	if (a->hi != b->hi)
		return a->hi > b->hi ? -1 : 1;
	return a->func < b->func ? -1 : a->func > b->func;
}

static void sort_ranges(struct index *x)
{
	if (!x->n_ranges)
		return;
	qsort(x->ranges, x->n_ranges, sizeof(*x->ranges), by_range);
	for (size_t i = 1; i < x->n_ranges; i++) {
		uint32_t outer = (uint32_t)i - 1;

		while (outer != NONE && x->ranges[outer].hi <= x->ranges[i].lo)
			outer = x->ranges[outer].outer;
		x->ranges[i].outer = outer;
	}
}

static const struct range *range_at(const struct index *x, uint64_t addr)
{
	size_t lo = 0, hi = x->n_ranges;
	uint32_t at;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (x->ranges[mid].lo <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	at = lo ? (uint32_t)lo - 1 : NONE;
	for (unsigned int i = 0; at != NONE && i < OVERLAPS_MAX; i++) {
		if (addr < x->ranges[at].hi)
			return &x->ranges[at];
		at = x->ranges[at].outer;
	}
	return NULL;
}

/* --- units --- */

static void free_index(struct index *x)
{
	if (!x)
		return;
	free(x->funcs);
	free(x->ranges);
	srclines_release(&x->lines);
	free(x);
}

/* Drops the indexes that were not used for longest, keep excepted. */
static void make_room(struct inlines *in, const struct index *keep)
{
	while (in->bytes > INLINES_CACHE_BYTES_MAX) {
		struct index **oldest = NULL;

		for (size_t i = 0; i < in->file.n_units; i++) {
			struct index **x = &in->indexes[i];

			if (*x && *x != keep && (!oldest || (*x)->used < (*oldest)->used))
				oldest = x;
		}
		if (!oldest)
			break;
		in->bytes -= (*oldest)->bytes;
		free_index(*oldest);
		*oldest = NULL;
	}
}

/* NULL when memory is short: then nothing is known this time. */
static struct index *index_of(struct inlines *in, uint32_t unit)
{
	struct dwfile_unit *u = &in->file.units[unit];
	struct index *x = in->indexes[unit];
	Dwarf_Attribute attr;
	Dwarf_Word offset;
	Dwarf_Die die;
	int err = 0;

	if (!x) {
		x = calloc(1, sizeof(*x));
		if (!x)
			return NULL;
		if (die_at(in, u, u->dies, &die)) {
			err = walk_unit(in, x, u, &die);
			if (!err && dwarf_attr(&die, DW_AT_stmt_list, &attr) &&
			    !dwarf_formudata(&attr, &offset) && !tired(in, 0))
				err = srclines_read(&in->file.image, offset, &x->lines);
			tired(in, x->lines.bytes);
		}
		if (err == -ENOMEM) {
			free_index(x);
			return NULL;
		}
		sort_ranges(x);
		x->bytes = sizeof(*x) + x->cap_funcs * sizeof(*x->funcs) +
			   x->cap_ranges * sizeof(*x->ranges) + srclines_bytes(&x->lines);
		in->bytes += x->bytes;
		in->indexes[unit] = x;
		make_room(in, x);
	}
	x->used = ++in->clock;
	return x;
}

struct scan {
	struct inlines *in;
	uint32_t unit;
};

static int add_span(void *arg, uint64_t lo, uint64_t hi)
{
	struct scan *s = arg;
	struct inlines *in = s->in;

	if (in->n_spans >= SPANS_MAX)
		return 0;
	if (in->n_spans == in->cap_spans) {
		size_t cap = in->cap_spans ? 2 * in->cap_spans : 64;
		struct span *spans = reallocarray(in->spans, cap, sizeof(*spans));

		if (!spans)
			return -ENOMEM;
		in->spans = spans;
		in->cap_spans = cap;
	}
	in->spans[in->n_spans++] = (struct span){lo, hi, s->unit, NONE};
	return 0;
}

static int by_span(const void *pa, const void *pb)
{
	const struct span *a = pa, *b = pb;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	if (a->hi != b->hi)
		return a->hi > b->hi ? -1 : 1;
	return a->unit < b->unit ? -1 : a->unit > b->unit;
}

/*
 * By the units' own DIEs and not by .debug_aranges, which clang doesn't write and which need not be
 * complete.
 */
static int scan_units(struct inlines *in)
{
	for (size_t i = 0; i < in->file.n_units; i++) {
		struct dwfile_unit *u = &in->file.units[i];
		struct scan s = {.in = in, .unit = (uint32_t)i};
		uint8_t type = DW_UT_compile;
		Dwarf_Die die;
		int err;

		if (!die_at(in, u, u->dies, &die))
			continue;
		/* before version 5 only an attribute tells that the rest is in a .dwo file */
		if (dwarf_cu_info(die.cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) ||
		    type != DW_UT_compile)
			continue;
		err = each_range(in, &die, add_span, &s);
		if (err)
			return err;
	}
	if (in->n_spans)
		qsort(in->spans, in->n_spans, sizeof(*in->spans), by_span);
	for (size_t i = 1; i < in->n_spans; i++) {
		uint32_t outer = (uint32_t)i - 1;

		while (outer != NONE && in->spans[outer].hi <= in->spans[i].lo)
			outer = in->spans[outer].outer;
		in->spans[i].outer = outer;
	}
	return 0;
}

int inlines_open(int fd, struct inlines **out)
{
	struct inlines *in = calloc(1, sizeof(*in));
	int err;

	if (!in)
		return -ENOMEM;
	err = dwfile_open(fd, &in->file);
	if (err)
		goto out;
	in->indexes = calloc(in->file.n_units + 1, sizeof(struct index *));
	err = in->indexes ? scan_units(in) : -ENOMEM;
out:
	if (err)
		inlines_free(in);
	else
		*out = in;
	return err;
}

void inlines_free(struct inlines *in)
{
	if (!in)
		return;
	for (size_t i = 0; in->indexes && i < in->file.n_units; i++)
		free_index(in->indexes[i]);
	free(in->indexes);
	free(in->spans);
	dwfile_release(&in->file);
	dwfile_release(&in->alt);
	free(in);
}

int inlines_alt_id(const struct inlines *in, uint8_t id[DWIMAGE_BUILD_ID_MAX])
{
	if (!in->file.image.alt_id_bytes)
		return -ENOENT;
	memcpy(id, in->file.image.alt_id, in->file.image.alt_id_bytes);
	return (int)in->file.image.alt_id_bytes;
}

int inlines_set_alt(struct inlines *in, int fd)
{
	const struct dwimage *image = &in->file.image;
	struct dwfile alt;
	int err;

	if (in->has_alt)
		return -EEXIST;
	err = dwfile_open(fd, &alt);
	if (err)
		return err;
	if (!image->alt_id_bytes || alt.image.build_id_bytes != image->alt_id_bytes ||
	    memcmp(alt.image.build_id, image->alt_id, image->alt_id_bytes)) {
		dwfile_release(&alt);
		return -ENOKEY;
	}
	in->alt = alt;
	in->has_alt = true;
	if (in->file.dw)
		dwarf_setalt(in->file.dw, in->alt.dw);
	/* names that were looked for in vain are there now */
	for (size_t i = 0; i < in->file.n_units; i++)
		for (size_t k = 0; in->indexes[i] && k < in->indexes[i]->n_funcs; k++)
			in->indexes[i]->funcs[k].named = in->indexes[i]->funcs[k].name;
	return 0;
}

/* --- names --- */

static const char *string(const struct inlines *in, Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	const char *s;

	if (!dwarf_attr(die, name, &attr))
		return NULL;
	s = dwarf_formstring(&attr);
	if (s && strnlen(s, DWIMAGE_STRING_MAX + 1) > DWIMAGE_STRING_MAX)
		return NULL;
	/* libdw would have to copy it to give something else, and what it copies doesn't last. */
	if (!s || (!dwimage_has(&in->file.image, s, 1) && !dwimage_has(&in->alt.image, s, 1)))
		return NULL;
	return *s ? s : NULL;
}

/* The DIE that an attribute refers to, if its unit may be read; the alternate file's too. */
static bool follow(struct inlines *in, Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	struct dwfile *file;
	struct dwfile_unit *unit;
	Dwarf_Die to;
	uint64_t offset;

	if (!dwarf_attr(die, name, &attr) || dwarf_whatform(&attr) == DW_FORM_ref_sig8 ||
	    !dwarf_formref_die(&attr, &to))
		return false;
	file = dwarf_cu_getdwarf(to.cu) == in->file.dw ? &in->file : &in->alt;
	offset = dwarf_dieoffset(&to);
	unit = dwfile_unit_at(file, offset);
	if (!unit || offset < unit->dies || !dwfile_enter(file, unit))
		return false;
	*die = to;
	return true;
}

/* The name is often at the far end: an inlined call > the function > its declaration. */
static const char *find_name(struct inlines *in, const struct dwfile_unit *unit, uint64_t offset)
{
	struct dwfile_unit *u = dwfile_unit_at(&in->file, offset);
	const char *linkage = NULL, *name = NULL;
	Dwarf_Die die;

	if (u != unit || !die_at(in, u, offset, &die))
		return NULL;
	for (unsigned int i = 0; i < INLINES_ORIGINS_MAX && !linkage; i++) {
		linkage = string(in, &die, DW_AT_linkage_name);
		if (!linkage)
			linkage = string(in, &die, DW_AT_MIPS_linkage_name);
		if (!name)
			name = string(in, &die, DW_AT_name);
		if (!follow(in, &die, DW_AT_abstract_origin) &&
		    !follow(in, &die, DW_AT_specification))
			break;
	}
	return linkage ? linkage : name;
}

static const char *name_of(struct inlines *in, const struct dwfile_unit *unit, struct func *f)
{
	if (!f->named) {
		f->name = find_name(in, unit, f->die);
		f->named = true;
	}
	return f->name;
}

/* --- lookup --- */

static size_t frames_of(struct inlines *in, struct index *x, const struct dwfile_unit *unit,
			uint64_t vaddr, struct inline_frame *frames, size_t max)
{
	const struct srclines_row *row = srclines_at(&x->lines, vaddr);
	const struct range *range = range_at(x, vaddr);
	struct inline_frame frame = {};
	uint32_t func = range ? range->func : NONE;
	size_t n = 0;

	if (row) {
		frame.file = srclines_file(&x->lines, row->file);
		frame.line = row->line;
	}
	if (func == NONE) {
		if (!frame.file && !frame.line)
			return 0;
		frames[0] = frame;
		return 1;
	}
	while (func != NONE) {
		struct func *f = &x->funcs[func];

		frame.function = name_of(in, unit, f);
		frames[n < max ? n++ : max - 1] = frame;
		frame.file = srclines_file(&x->lines, f->call_file);
		frame.line = f->call_line;
		func = f->parent;
	}
	return n;
}

size_t inlines_at(struct inlines *in, uint64_t vaddr, struct inline_frame *frames, size_t max)
{
	size_t lo = 0, hi = in->n_spans, n = 0;
	uint32_t at;

	if (!max)
		return 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (in->spans[mid].lo <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	at = lo ? (uint32_t)lo - 1 : NONE;
	for (unsigned int i = 0; at != NONE && !n && i < OVERLAPS_MAX; i++) {
		const struct span *span = &in->spans[at];

		at = span->outer;
		if (vaddr < span->hi) {
			struct index *x = index_of(in, span->unit);

			if (x)
				n = frames_of(in, x, &in->file.units[span->unit], vaddr, frames,
					      max);
		}
	}
	return n;
}
