/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/gopclntab.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* struct pcHeader: magic, two zeros, the instructions' and pointers' sizes, then eight words. */
#define HEADER_BYTES 72
#define MAGIC_1_18   0xfffffff0u
#define MAGIC_1_20   0xfffffff1u

enum {
	HEADER_N_FUNC = 8,
	HEADER_TEXT = 24,
	HEADER_NAMES = 32,
	HEADER_PCTAB = 56,
	HEADER_FUNCS = 64
};

/* struct _func. Since 1.20 there is a line number in front of the last two. */
enum { FUNC_NAME = 4, FUNC_PCSP = 16, FUNC_ID_1_18 = 36, FUNC_ID_1_20 = 40, FUNC_FLAGS = 1 };

#define FUNC_TOPFRAME 1 /* abi.FuncFlagTopFrame: the outermost of its stack */
#define FUNC_SPWRITE  2 /* abi.FuncFlagSPWrite: changes the stack pointer to anything */

/* struct moduledata, in a section of its own since 1.26: the header has no `text` since then. */
#define MODULE_SECTION ".go.module"
#define MODULE_TEXT    176

#define RELA_BYTES_MAX (64u << 20)
#define FRAME_MAX      (1 << 30)

/* Where code is read through, in pieces. */
#define WINDOW_BYTES 65536u
#define SPWRITE_SCAN 4096u

struct func {
	uint64_t start, end;
	const uint8_t *about; /* struct _func */
	size_t left;	      /* bytes from there to the table's end */
};

struct gopclntab {
	const struct elffile *elf;
	uint8_t *bytes; /* header first */
	size_t n;
	uint64_t n_funcs;
	uint64_t names, pctab, funcs; /* offsets */
	uint64_t text;
	bool has_line; /* 1.20 */
	uint8_t *window;
	uint64_t window_at;
	size_t window_n;
};

static uint32_t u32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static uint64_t u64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

/* ---- finding it ---- */

/* n is what there is from the header on. */
static bool is_header(const uint8_t *h, size_t n)
{
	uint32_t magic = n >= HEADER_BYTES ? u32(h) : 0;

	return (magic == MAGIC_1_18 || magic == MAGIC_1_20) && !h[4] && !h[5] && h[6] == 1 &&
	       h[7] == 8 && u64(h + HEADER_N_FUNC) &&
	       u64(h + HEADER_N_FUNC) <= GOPCLNTAB_FUNCS_MAX && u64(h + HEADER_NAMES) < n &&
	       u64(h + HEADER_PCTAB) < n && u64(h + HEADER_FUNCS) < n &&
	       (n - u64(h + HEADER_FUNCS)) / 8 > u64(h + HEADER_N_FUNC);
}

/*
 * In a section of its own, or, where another linker has put all relocated data into one, somewhere
 * in that. The bytes from the header on, and its address.
 */
static int find_table(const struct elffile *elf, uint8_t **bytes, size_t *n, uint64_t *vaddr)
{
	static const char *const sections[] = {".gopclntab", ".data.rel.ro.gopclntab",
					       ".data.rel.ro"};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		uint64_t addr, size, at = 0;
		void *all = NULL;
		size_t len;
		int err;

		if (elffile_section(elf, sections[i], &addr, &size))
			continue;
		err = elffile_section_bytes(elf, sections[i], GOPCLNTAB_BYTES_MAX, &all, &len);
		if (err == -ENOMEM)
			return err;
		if (err)
			continue;
		while (at < len && !is_header((uint8_t *)all + at, len - at))
			at += 8;
		if (at < len) {
			memmove(all, (uint8_t *)all + at, len - at);
			*bytes = all;
			*n = len - at;
			*vaddr = addr + at;
			return 0;
		}
		free(all);
	}
	return -ENOENT;
}

/* What the dynamic linker writes to an address of a position-independent file; 0: nothing. */
static uint64_t relocated(const struct elffile *elf, uint64_t vaddr)
{
	static const char *const sections[] = {".rela.dyn", ".rela"};
	uint64_t found = 0;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && !found; i++) {
		Elf64_Rela *rela;
		void *bytes;
		size_t n;

		if (elffile_section_bytes(elf, sections[i], RELA_BYTES_MAX, &bytes, &n))
			continue;
		rela = bytes;
		for (n /= sizeof(*rela); n && !found; n--, rela++)
			if (rela->r_offset == vaddr &&
			    ELF64_R_TYPE(rela->r_info) == R_X86_64_RELATIVE)
				found = (uint64_t)rela->r_addend;
		free(bytes);
	}
	return found;
}

static uint64_t word_at(const struct elffile *elf, uint64_t vaddr)
{
	uint8_t word[8];
	uint64_t value = relocated(elf, vaddr);

	if (!value && elffile_read(elf, vaddr, word, sizeof(word)) == sizeof(word))
		value = u64(word);
	return value;
}

/* ---- functions ---- */

static bool get_func(const struct gopclntab *t, uint64_t i, struct func *f)
{
	const uint8_t *entry = t->bytes + t->funcs + 8 * i;
	uint64_t about = t->funcs + u32(entry + 4);

	f->start = t->text + u32(entry);
	f->end = t->text + u32(entry + 8); /* behind the last one is an end */
	if (f->start < t->text || f->end <= f->start || about >= t->n ||
	    t->n - about < FUNC_ID_1_20 + 4)
		return false;
	f->about = t->bytes + about;
	f->left = t->n - about;
	return true;
}

static uint8_t flags_of(const struct gopclntab *t, const struct func *f)
{
	return f->about[(t->has_line ? FUNC_ID_1_20 : FUNC_ID_1_18) + FUNC_FLAGS];
}

static bool is_named(const struct gopclntab *t, const struct func *f, const char *name)
{
	uint64_t at = t->names + u32(f->about + FUNC_NAME);
	size_t len = strlen(name) + 1;

	return at < t->n && t->n - at >= len && !memcmp(t->bytes + at, name, len);
}

/* The stack pointer's distance from where it was at the entry, range after range. */
struct pcsp {
	const uint8_t *at, *stop;
	uint64_t pc, end; /* of the range at hand: it ends at pc; of the function */
	int64_t depth;
	bool first;
};

static bool get_varint(struct pcsp *p, uint32_t *out)
{
	uint32_t v = 0;

	for (unsigned int shift = 0; shift < 35 && p->at < p->stop; shift += 7) {
		uint8_t byte = *p->at++;

		v |= shift < 32 ? (uint32_t)(byte & 0x7f) << shift : 0;
		if (!(byte & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

static void pcsp_begin(const struct gopclntab *t, const struct func *f, struct pcsp *p)
{
	uint64_t at = t->pctab + u32(f->about + FUNC_PCSP);

	*p = (struct pcsp){.pc = f->start, .end = f->end, .depth = -1, .first = true};
	/* 0: the function has none */
	if (at > t->pctab && at < t->n) {
		p->at = t->bytes + at;
		p->stop = t->bytes + t->n;
	}
}

/* The next range: [*start, p->pc) has p->depth. */
static bool pcsp_next(struct pcsp *p, uint64_t *start)
{
	uint32_t value, bytes;

	if (p->at == p->stop || p->pc >= p->end || !get_varint(p, &value) ||
	    (!value && !p->first) || !get_varint(p, &bytes) || !bytes)
		return false;
	p->first = false;
	p->depth += (int32_t)(value & 1 ? ~(value >> 1) : value >> 1);
	*start = p->pc;
	p->pc = bytes < p->end - p->pc ? p->pc + bytes : p->end;
	return p->depth >= 0 && p->depth < FRAME_MAX && !(p->depth & 7);
}

/* ---- code ---- */

/* n bytes of code, at most WINDOW_BYTES; NULL: the file hasn't so many there. */
static const uint8_t *code_at(struct gopclntab *t, uint64_t vaddr, size_t n)
{
	long got;

	if (vaddr >= t->window_at && vaddr - t->window_at <= t->window_n &&
	    n <= t->window_n - (vaddr - t->window_at))
		return t->window + (vaddr - t->window_at);
	got = elffile_read(t->elf, vaddr, t->window, WINDOW_BYTES);
	t->window_at = vaddr;
	t->window_n = got > 0 ? (size_t)got : 0;
	return n <= t->window_n ? t->window : NULL;
}

/* Whether the instruction that ends at pc makes a frame of this size. */
static bool makes_frame(struct gopclntab *t, const struct func *f, uint64_t pc, int64_t depth)
{
	size_t before = pc - f->start;
	const uint8_t *c;

	if (before >= WINDOW_BYTES)
		return false;
	c = code_at(t, f->start, before);
	if (!c)
		return false;
	c += before;
	if (before >= 1 && depth == 8 && (c[-1] == 0x9c || (c[-1] & 0xf8) == 0x50)) /* a push */
		return true;
	if (before >= 4 && c[-4] == 0x48 && c[-3] == 0x83)
		return (c[-2] == 0xec && (int8_t)c[-1] == depth) ||
		       (c[-2] == 0xc4 && -(int8_t)c[-1] == depth);
	if (before >= 7 && c[-7] == 0x48 && c[-6] == 0x81)
		return (c[-5] == 0xec && (int32_t)u32(c - 4) == depth) ||
		       (c[-5] == 0xc4 && -(int64_t)(int32_t)u32(c - 4) == depth);
	return before >= 5 && c[-5] == 0x48 && c[-4] == 0x8d && c[-3] == 0x64 && c[-2] == 0x24 &&
	       -(int8_t)c[-1] == depth; /* lea -N(%rsp), %rsp */
}

/* Where a function's frame begins that has just been made; false: it has none. */
static bool first_frame(const struct gopclntab *t, const struct func *f, uint64_t *pc,
			int64_t *depth)
{
	struct pcsp p;
	uint64_t start;

	pcsp_begin(t, f, &p);
	while (pcsp_next(&p, &start)) {
		if (!p.depth)
			continue;
		*pc = start;
		*depth = p.depth;
		return start > f->start;
	}
	return false;
}

/*
 * From which address on the caller's frame pointer is at CFA - 16; UINT64_MAX: nowhere. Until 1.20
 * it was stored there when the frame had been made, since then it is pushed.
 */
static uint64_t saved_from(struct gopclntab *t, const struct func *f)
{
	const uint8_t *c;
	int64_t depth;
	uint64_t pc;

	if (!first_frame(t, f, &pc, &depth))
		return UINT64_MAX;
	c = code_at(t, pc - 1, 9);
	if (!c)
		return UINT64_MAX;
	if (depth == 8 && c[0] == 0x55)
		return pc;
	if (c[1] != 0x48 || c[2] != 0x89)
		return UINT64_MAX;
	if (c[3] == 0x6c && c[4] == 0x24 && (int8_t)c[5] == depth - 8)
		return pc + 5;
	if (c[3] == 0xac && c[4] == 0x24 && (int32_t)u32(c + 5) == depth - 8)
		return pc + 8;
	if (c[3] == 0x2c && c[4] == 0x24 && depth == 8)
		return pc + 4;
	return UINT64_MAX;
}

/* Behind the first instruction that moves something into the stack pointer; UINT64_MAX: none. */
static uint64_t switches_at(struct gopclntab *t, const struct func *f)
{
	size_t n = f->end - f->start < SPWRITE_SCAN ? f->end - f->start : SPWRITE_SCAN;
	const uint8_t *c = code_at(t, f->start, n);

	for (size_t i = 0; c && i + 3 <= n; i++) {
		bool load = (c[i] & 0xfc) == 0x48 && c[i + 1] == 0x8b && (c[i + 2] & 0x38) == 0x20;
		bool move = (c[i] & 0xfb) == 0x48 && c[i + 1] == 0x89 && (c[i + 2] & 0xc7) == 0xc4;

		if (move || (load && !(c[i] & 4)))
			return f->start + i + 3;
	}
	return UINT64_MAX;
}

static bool is_sigreturn(struct gopclntab *t, const struct func *f)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	const uint8_t *c = code_at(t, f->start, sizeof(code));

	return c && !memcmp(c, code, sizeof(code));
}

/*
 * A signal handler's function is the outermost one to the runtime, as it has a stack of its own,
 * but what the signal interrupted is beneath it.
 */
static bool is_root(const struct gopclntab *t, const struct func *f)
{
	uint64_t entry = elffile_entry(t->elf);

	if (flags_of(t, f) & FUNC_TOPFRAME)
		return !is_named(t, f, "runtime.sigtramp") &&
		       !is_named(t, f, "runtime.cgoSigtramp");
	return (entry >= f->start && entry < f->end) || is_named(t, f, "_rt0_amd64");
}

/* ---- rows ---- */

struct builder {
	struct gopclntab *t;
	struct cfi_rules *rules;
	struct cfi_rows *rows;
	uint32_t fp, root, signal, unsupported;
};

/*
 * The rule of a function that has gone to another stack. The goroutine that has called mcall() may
 * go on elsewhere meanwhile, and runtime.clone() is left by a new thread. morestack() is entered
 * before its caller has a frame pointer, and forgets it besides (since 1.21).
 */
static uint32_t rule_beyond(const struct builder *b, const struct func *f)
{
	if (is_named(b->t, f, "runtime.mcall") || is_named(b->t, f, "runtime.clone"))
		return b->root;
	return is_named(b->t, f, "runtime.morestack") ? b->unsupported : b->fp;
}

static void add_depth(struct builder *b, uint64_t pc, int64_t depth, bool saved)
{
	struct unwind_rule rule = {
		.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_X86_RSP,
		.off = (int32_t)depth + 8,
		.ra = UNWIND_AT(UNWIND_AT_CFA, -8),
	};

	/* the second of those that a callee saves is the frame pointer */
	if (saved && depth >= 8)
		rule.saved[1] = UNWIND_AT(UNWIND_AT_CFA, -16);
	cfi_rows_add(b->rows, pc, cfi_rules_index(b->rules, &rule));
}

static void add_func(struct builder *b, const struct func *f)
{
	uint64_t start, saved, turns = UINT64_MAX;
	struct pcsp p;

	if (is_root(b->t, f)) {
		cfi_rows_add(b->rows, f->start, b->root);
		return;
	}
	if (is_sigreturn(b->t, f)) {
		/* A handler returns there though nothing has called it. */
		cfi_rows_add(b->rows, f->start - 1, b->signal);
		return;
	}
	saved = saved_from(b->t, f);
	if (flags_of(b->t, f) & FUNC_SPWRITE)
		turns = switches_at(b->t, f);
	cfi_rows_add(b->rows, f->start, 0);
	pcsp_begin(b->t, f, &p);
	while (pcsp_next(&p, &start)) {
		if (start >= turns)
			break;
		add_depth(b, start, p.depth, start >= saved);
		if (start < saved && saved < p.pc)
			add_depth(b, saved, p.depth, true);
	}
	if (turns < f->end)
		cfi_rows_add(b->rows, turns, rule_beyond(b, f));
}

static bool is_code(const struct func *f, const struct cfi_range *code, size_t n_code)
{
	for (size_t i = 0; i < n_code; i++)
		if (f->start >= code[i].start && f->end <= code[i].end)
			return true;
	return false;
}

int gopclntab_rows(const struct gopclntab *t, const struct cfi_range *code, size_t n_code,
		   struct cfi_rules *rules, struct cfi_rows *rows)
{
	const struct unwind_rule fp = {.cfa = UNWIND_CFA_FP, .flags = UNWIND_RULE_OTHER_STACK},
				 root = {.cfa = UNWIND_CFA_ROOT},
				 signal = {.cfa = UNWIND_CFA_SIGNAL},
				 unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED};
	struct builder b = {
		.t = (struct gopclntab *)t,
		.rules = rules,
		.rows = rows,
		.fp = cfi_rules_index(rules, &fp),
		.root = cfi_rules_index(rules, &root),
		.signal = cfi_rules_index(rules, &signal),
		.unsupported = cfi_rules_index(rules, &unsupported),
	};
	uint64_t end = 0;

	for (uint64_t i = 0; i < t->n_funcs && !rows->err && !rules->err; i++) {
		struct func f;

		if (!get_func(t, i, &f) || f.start < end || !is_code(&f, code, n_code))
			continue;
		if (end && end < f.start)
			cfi_rows_add(rows, end, 0);
		add_func(&b, &f);
		end = f.end;
	}
	if (end)
		cfi_rows_add(rows, end, 0);
	return rules->err ? rules->err : rows->err;
}

/* Whether most of the first functions with a frame make it where the table says so. */
#define FITS_FUNCS 1024

static bool fits(struct gopclntab *t, uint64_t text)
{
	uint64_t asked = 0, right = 0, pc;
	struct func f;
	int64_t depth;

	t->text = text;
	for (uint64_t i = 0; i < t->n_funcs && asked < FITS_FUNCS; i++) {
		if (!get_func(t, i, &f) || !first_frame(t, &f, &pc, &depth))
			continue;
		asked++;
		right += makes_frame(t, &f, pc, depth);
	}
	return right && right * 10 >= asked * 9;
}

static bool find_text(struct gopclntab *t, uint64_t header)
{
	uint64_t text = word_at(t->elf, header + HEADER_TEXT), module, size;

	if (text && fits(t, text))
		return true;
	if (!elffile_section(t->elf, MODULE_SECTION, &module, &size)) {
		text = word_at(t->elf, module + MODULE_TEXT);
		if (text && fits(t, text))
			return true;
	}
	return !elffile_section(t->elf, ".text", &text, &size) && fits(t, text);
}

int gopclntab_open(const struct elffile *elf, struct gopclntab **out)
{
	struct gopclntab *t;
	uint64_t header;
	int err;

	if (elffile_machine(elf) != EM_X86_64)
		return -ENOENT;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->elf = elf;
	err = find_table(elf, &t->bytes, &t->n, &header);
	if (!err) {
		t->n_funcs = u64(t->bytes + HEADER_N_FUNC);
		t->names = u64(t->bytes + HEADER_NAMES);
		t->pctab = u64(t->bytes + HEADER_PCTAB);
		t->funcs = u64(t->bytes + HEADER_FUNCS);
		t->has_line = u32(t->bytes) == MAGIC_1_20;
		t->window = malloc(WINDOW_BYTES);
		if (!t->window)
			err = -ENOMEM;
		else if (!find_text(t, header))
			err = -ENOENT;
	}
	if (err) {
		gopclntab_free(t);
		return err;
	}
	*out = t;
	return 0;
}

void gopclntab_free(struct gopclntab *t)
{
	if (!t)
		return;
	free(t->bytes);
	free(t->window);
	free(t);
}

bool gopclntab_has(const struct gopclntab *t, uint64_t vaddr)
{
	uint64_t low = 0, high = t->n_funcs;
	struct func f;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (t->text + u32(t->bytes + t->funcs + 8 * mid) <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && get_func(t, low - 1, &f) && vaddr >= f.start && vaddr < f.end;
}
