// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "unwind/unwinder.h"

#define MAX_CHUNKS 8
#define MAX_RULES  4096
#define MAX_SPANS  200
#define MAX_PROCS  8
#define PID	   4711
#define CHILD	   4712
#define BASE	   0x7f0000000000ull
#define JIT	   0x7e0000000000ull

struct file {
	char *path;
	uint64_t ino;
};

struct env {
	char dir[64];
	struct file self, libc, text;
	struct unwind_rule rules[MAX_RULES];
	struct unwind_span spans[MAX_SPANS];
	struct unwind_row *chunks[MAX_CHUNKS];
	struct unwind_proc procs[MAX_PROCS];
	uint32_t pids[MAX_PROCS];
	size_t n_procs, puts;
	bool refuse;
	struct proctab *table;
	struct modfiles *files;
	struct unwinder_opts opts;
	struct unwinder *u;
};

static struct unwind_row *new_chunk(uint32_t i, void *arg)
{
	struct env *e = arg;

	e->chunks[i] = calloc(UNWIND_CHUNK_SLOTS, sizeof(struct unwind_row));
	return e->chunks[i];
}

static const struct unwind_proc *proc_of(const struct env *e, uint32_t pid)
{
	for (size_t i = 0; i < e->n_procs; i++)
		if (e->pids[i] == pid)
			return &e->procs[i];
	return NULL;
}

static void drop(uint32_t pid, void *arg)
{
	struct env *e = arg;

	for (size_t i = 0; i < e->n_procs; i++) {
		if (e->pids[i] != pid)
			continue;
		e->n_procs--;
		e->pids[i] = e->pids[e->n_procs];
		e->procs[i] = e->procs[e->n_procs];
	}
}

static int put(uint32_t pid, const struct unwind_proc *proc, void *arg)
{
	struct env *e = arg;

	if (e->refuse || e->n_procs == MAX_PROCS)
		return -E2BIG;
	drop(pid, e);
	e->pids[e->n_procs] = pid;
	e->procs[e->n_procs++] = *proc;
	e->puts++;
	return 0;
}

static void find_file(struct file *f, const char *path)
{
	struct stat st;

	f->path = realpath(path, NULL);
	assert_non_null(f->path);
	assert_int_equal(stat(f->path, &st), 0);
	f->ino = st.st_ino;
}

static void make(struct env *e)
{
	e->opts.memory.rules = e->rules;
	e->opts.memory.n_rules = MAX_RULES;
	e->opts.memory.spans = e->spans;
	e->opts.memory.n_spans = e->opts.memory.n_spans ? e->opts.memory.n_spans : MAX_SPANS;
	e->opts.memory.chunk = new_chunk;
	e->opts.memory.arg = e;
	e->opts.put = put;
	e->opts.drop = drop;
	e->opts.arg = e;
	e->opts.procs = e->table;
	e->opts.files = e->files;
	e->opts.procfs = e->dir;
	e->u = unwinder_new(&e->opts);
	assert_non_null(e->u);
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	char path[80];
	FILE *f;

	*state = e;
	strcpy(e->dir, "/tmp/sg-unwinder.XXXXXX");
	if (!e || !mkdtemp(e->dir))
		return -1;
	find_file(&e->self, "/proc/self/exe");
	find_file(&e->libc, "/lib/x86_64-linux-gnu/libc.so.6");
	snprintf(path, sizeof(path), "%s/text", e->dir);
	f = fopen(path, "w");
	if (!f)
		return -1;
	fputs("no ELF file\n", f);
	fclose(f);
	find_file(&e->text, path);
	e->table = proctab_new();
	e->files = modfiles_new("/proc", NULL, 16);
	e->opts.everyone = true;
	e->opts.frame_pointers = true;
	e->opts.memory.max_chunks = MAX_CHUNKS;
	return e->table && e->files ? 0 : -1;
}

static int teardown(void **state)
{
	struct env *e = *state;
	char command[100];

	unwinder_free(e->u);
	proctab_free(e->table);
	modfiles_free(e->files);
	for (size_t i = 0; i < MAX_CHUNKS; i++)
		free(e->chunks[i]);
	free(e->self.path);
	free(e->libc.path);
	free(e->text.path);
	snprintf(command, sizeof(command), "rm -rf %s", e->dir);
	assert_int_equal(system(command), 0);
	free(e);
	return 0;
}

/* ---- what /proc says ---- */

struct line {
	uint64_t start, bytes, offset;
	const struct file *file; /* NULL: memory without a name */
};

static void write_maps(struct env *e, uint32_t pid, const struct line *lines, size_t n)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%" PRIu32, e->dir, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%" PRIu32 "/maps", e->dir, pid);
	f = fopen(path, "w");
	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " 00:00 %" PRIu64 " %s\n",
			lines[i].start, lines[i].start + lines[i].bytes, lines[i].offset,
			lines[i].file ? lines[i].file->ino : 0,
			lines[i].file ? lines[i].file->path : "");
	fclose(f);
}

static void remove_maps(struct env *e, uint32_t pid)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/%" PRIu32 "/maps", e->dir, pid);
	assert_int_equal(unlink(path), 0);
}

/* The executable segment of a file, as it would be mapped at a place. */
static struct line code_of(const struct file *file, uint64_t start, struct elf_segment *out)
{
	struct elf_segment segs[16];
	struct elffile *elf;
	uint64_t offset;
	size_t n, i;

	assert_int_equal(elffile_open(file->path, 0, &elf), 0);
	n = elffile_segments(elf, 1, segs, 16);
	for (i = 0; i < n && !(segs[i].flags & 1); i++)
		;
	assert_true(i < n);
	assert_int_equal(elffile_vaddr_to_offset(elf, segs[i].vaddr, &offset), 0);
	elffile_free(elf);
	*out = segs[i];
	return (struct line){
		.start = start,
		.bytes = (segs[i].size + (offset & 4095) + 4095) & ~4095ull,
		.offset = offset & ~4095ull,
		.file = file,
	};
}

/* ---- what the kernel side finds ---- */

static const struct unwind_span *span_at(const struct env *e, uint32_t pid, uint64_t addr)
{
	const struct unwind_proc *p = proc_of(e, pid);

	assert_non_null(p);
	for (uint32_t i = p->first; i < p->first + p->count; i++) {
		const struct unwind_span *s = &e->spans[i];

		if (i > p->first)
			assert_true(s->start >= e->spans[i - 1].end);
		if (addr >= s->start && addr < s->end)
			return s;
	}
	return NULL;
}

static const struct unwind_rule *rule_at(const struct env *e, uint32_t pid, uint64_t addr)
{
	const struct unwind_span *s = span_at(e, pid, addr);
	uint64_t pc = addr - s->base;
	const struct unwind_row *slots = e->chunks[s->chunk], *row;

	assert_int_equal(s->kind, UNWIND_SPAN_TABLE);
	row = slots + s->rows + slots[s->index + (pc >> UNWIND_PAGE_SHIFT)].pc;
	while (row < slots + s->rows + slots[s->index + (pc >> UNWIND_PAGE_SHIFT) + 1].pc &&
	       row[1].pc <= pc)
		row++;
	assert_true(row->pc <= pc);
	return &e->rules[row->rule];
}

/* All rules of a mapping are those of its file. */
static void check_rules(const struct env *e, uint32_t pid, const struct line *line)
{
	const struct cfi_opts how = {.frame_pointers = true};
	struct cfi_table cfi = {};
	struct elf_segment seg;
	struct elffile *elf;
	unsigned int known = 0;

	code_of(line->file, 0, &seg);
	assert_int_equal(elffile_open(line->file->path, 0, &elf), 0);
	assert_int_equal(cfi_compile(elf, &how, &cfi), 0);
	for (uint64_t at = 0; at < line->bytes; at += 61) {
		uint64_t vaddr = (seg.vaddr & ~4095ull) + at;
		const struct unwind_rule *want = cfi_table_at(&cfi, vaddr);

		if (want->cfa == UNWIND_CFA_NONE)
			continue;
		assert_memory_equal(rule_at(e, pid, line->start + at), want, sizeof(*want));
		known++;
	}
	assert_true(known > 100);
	cfi_table_release(&cfi);
	elffile_free(elf);
}

/* ---- events ---- */

/* A round may take another one, on a slow machine. */
static void update(struct env *e, uint64_t settled_ns)
{
	int more;

	do {
		more = unwinder_update(e->u, settled_ns);
		assert_true(more >= 0);
	} while (more);
}

static void tell_at(struct env *e, uint64_t time_ns, enum ring_event_kind kind, uint32_t pid,
		    uint32_t parent)
{
	struct ring_event ev = {.kind = kind, .pid = pid, .tid = pid, .time_ns = time_ns};

	if (kind == RING_EV_COMM) {
		ev.comm.comm = "x";
		ev.comm.exec = true;
	} else if (kind == RING_EV_FORK) {
		ev.fork.parent_pid = ev.fork.parent_tid = parent;
	} else if (kind == RING_EV_MMAP) {
		ev.mmap = (struct ring_mmap){.prot = PROT_EXEC, .path = "x"};
	}
	unwinder_early(e->u, &ev);
	update(e, clock_now_ns());
}

static void tell(struct env *e, enum ring_event_kind kind, uint32_t pid, uint32_t parent)
{
	tell_at(e, 1, kind, pid, parent);
}

static void test_scan(void **state)
{
	struct env *e = *state;
	struct elf_segment seg;
	struct line lines[3];

	lines[0] = (struct line){.start = JIT, .bytes = 8192};
	lines[1] = code_of(&e->self, BASE, &seg);
	lines[2] = code_of(&e->libc, BASE + (1ull << 32), &seg);
	write_maps(e, PID, lines, 3);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	assert_int_equal(e->n_procs, 1);
	assert_int_equal(span_at(e, PID, JIT)->kind, UNWIND_SPAN_FP);
	assert_null(span_at(e, PID, JIT + 8192));
	check_rules(e, PID, &lines[1]);
	check_rules(e, PID, &lines[2]);
	/* A part of it, mapped elsewhere. */
	lines[1].start += 1ull << 40;
	lines[1].offset += 4096;
	lines[1].bytes -= 4096;
	write_maps(e, PID, lines, 2);
	tell(e, RING_EV_MMAP, PID, 0);
	assert_memory_equal(rule_at(e, PID, lines[1].start + 100),
			    rule_at(e, PID, lines[1].start + 100), sizeof(struct unwind_rule));
}

static void test_part_of_a_file(void **state)
{
	struct env *e = *state;
	const struct cfi_opts how = {.frame_pointers = true};
	struct cfi_table cfi = {};
	struct elf_segment seg;
	struct elffile *elf;
	struct line line = code_of(&e->libc, BASE, &seg);

	line.offset += 8192;
	line.bytes -= 8192;
	write_maps(e, PID, &line, 1);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	assert_int_equal(elffile_open(e->libc.path, 0, &elf), 0);
	assert_int_equal(cfi_compile(elf, &how, &cfi), 0);
	for (uint64_t at = 0; at < line.bytes; at += 997) {
		const struct unwind_rule *want =
			cfi_table_at(&cfi, (seg.vaddr & ~4095ull) + 8192 + at);

		if (want->cfa != UNWIND_CFA_NONE)
			assert_memory_equal(rule_at(e, PID, BASE + at), want, sizeof(*want));
	}
	cfi_table_release(&cfi);
	elffile_free(elf);
}

static void test_no_cfi(void **state)
{
	struct env *e = *state;
	const struct line lines[2] = {
		{.start = JIT, .bytes = 4096},
		{.start = BASE, .bytes = 4096, .file = &e->text},
	};

	e->opts.frame_pointers = false;
	write_maps(e, PID, lines, 2);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	assert_int_equal(span_at(e, PID, JIT)->kind, UNWIND_SPAN_NONE);
	assert_int_equal(span_at(e, PID, BASE)->kind, UNWIND_SPAN_NONE);
	unwinder_free(e->u);
	e->n_procs = 0;
	e->opts.frame_pointers = true;
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	assert_int_equal(span_at(e, PID, BASE)->kind, UNWIND_SPAN_FP);
}

static void test_life(void **state)
{
	struct env *e = *state;
	struct line lines[2] = {
		{.start = JIT, .bytes = 4096},
		{.start = BASE, .bytes = 4096, .file = &e->text},
	};
	uint64_t stamp;

	write_maps(e, PID, lines, 1);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	assert_int_equal(e->puts, 1);
	stamp = proc_of(e, PID)->stamp;
	/* Nothing has changed. */
	tell(e, RING_EV_MMAP, PID, 0);
	assert_int_equal(e->puts, 1);
	/* A child has what its parent has, though /proc does not know it. */
	tell(e, RING_EV_FORK, CHILD, PID);
	assert_int_equal(proc_of(e, CHILD)->stamp, stamp);
	assert_int_equal(proc_of(e, CHILD)->first, proc_of(e, PID)->first);
	/* A thread is no child. */
	tell(e, RING_EV_FORK, PID, PID);
	assert_int_equal(e->puts, 2);
	write_maps(e, CHILD, lines, 2);
	tell(e, RING_EV_COMM, CHILD, 0);
	assert_true(proc_of(e, CHILD)->stamp > stamp);
	assert_non_null(span_at(e, CHILD, BASE));
	assert_null(span_at(e, PID, BASE));
	assert_int_equal(proc_of(e, PID)->stamp, stamp);
	/* The leader has ended, others of its threads go on. */
	tell(e, RING_EV_EXIT, CHILD, 0);
	assert_non_null(proc_of(e, CHILD));
	remove_maps(e, CHILD);
	tell(e, RING_EV_EXIT, CHILD, 0);
	assert_null(proc_of(e, CHILD));
	assert_non_null(proc_of(e, PID));
}

/* Rings are read CPU by CPU: the end of a process may be seen before its beginning. */
static void test_ends_first(void **state)
{
	const struct unwind_proc copied = {.count = 1, .stamp = 1};
	const struct line line = {.start = JIT, .bytes = 4096};
	struct env *e = *state;

	write_maps(e, PID, &line, 1);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	/* As the kernel side has it from the parent. */
	put(CHILD, &copied, e);
	tell_at(e, 20, RING_EV_EXIT, CHILD, 0);
	tell_at(e, 10, RING_EV_FORK, CHILD, PID);
	assert_null(proc_of(e, CHILD));
	/* Its number is another's from here on. */
	tell_at(e, 30, RING_EV_FORK, CHILD, PID);
	assert_non_null(proc_of(e, CHILD));
	assert_int_equal(proc_of(e, CHILD)->stamp, proc_of(e, PID)->stamp);
}

static void test_parent_ends_first(void **state)
{
	const struct line line = {.start = JIT, .bytes = 4096};
	const uint32_t pid = PID;
	struct env *e = *state;

	e->opts.everyone = false;
	e->opts.pids = &pid;
	e->opts.n_pids = 1;
	write_maps(e, PID, &line, 1);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	remove_maps(e, PID);
	tell_at(e, 20, RING_EV_EXIT, PID, 0);
	assert_null(proc_of(e, PID));
	write_maps(e, CHILD, &line, 1);
	/* Of another parent with that number. */
	tell_at(e, 30, RING_EV_FORK, CHILD, PID);
	assert_null(proc_of(e, CHILD));
	tell_at(e, 10, RING_EV_FORK, CHILD, PID);
	assert_non_null(span_at(e, CHILD, JIT));
	/* Nobody's that counts. */
	tell_at(e, 40, RING_EV_EXIT, PID + 7, 0);
	write_maps(e, PID + 8, &line, 1);
	tell_at(e, 35, RING_EV_FORK, PID + 8, PID + 7);
	assert_null(proc_of(e, PID + 8));
}

static void test_targets(void **state)
{
	struct env *e = *state;
	const uint32_t pid = PID;
	const struct line line = {.start = JIT, .bytes = 4096};

	write_maps(e, PID, &line, 1);
	write_maps(e, 99, &line, 1);
	e->opts.everyone = false;
	e->opts.pids = &pid;
	e->opts.n_pids = 1;
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	tell(e, RING_EV_COMM, 99, 0);
	tell(e, RING_EV_MMAP, 99, 0);
	tell(e, RING_EV_FORK, 100, 99);
	assert_int_equal(e->n_procs, 1);
	tell(e, RING_EV_FORK, CHILD, PID);
	assert_int_equal(e->n_procs, 2);
}

static void test_full(void **state)
{
	struct env *e = *state;
	struct line lines[2] = {{.start = JIT, .bytes = 4096}, {.start = BASE, .bytes = 4096}};
	struct unwinder_counts counts;

	write_maps(e, PID, lines, 1);
	write_maps(e, CHILD, lines, 2);
	e->opts.memory.n_spans = 2;
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	unwinder_counts(e->u, &counts);
	assert_int_equal(counts.full, 1);
	assert_int_equal(e->n_procs, 1);
	/* One that the kernel side had, and that finds no room now, is not left with what is old.
	 */
	e->refuse = true;
	lines[0].start += 4096;
	write_maps(e, PID, lines, 1);
	write_maps(e, CHILD, lines, 1);
	tell(e, RING_EV_MMAP, PID, 0);
	tell(e, RING_EV_MMAP, CHILD, 0);
	assert_int_equal(e->n_procs, 0);
	unwinder_counts(e->u, &counts);
	assert_true(counts.full >= 3);
}

static void test_expect(void **state)
{
	struct env *e = *state;
	struct unwinder_counts counts;
	struct elf_segment seg;
	struct line line;

	e->opts.everyone = false;
	make(e);
	assert_int_equal(unwinder_expect(e->u, PID, "/proc/self/exe"), 0);
	unwinder_counts(e->u, &counts);
	/* Itself, the dynamic linker, and at least libc. */
	assert_true(counts.modules >= 3);
	assert_int_equal(e->n_procs, 0);
	line = code_of(&e->libc, BASE, &seg);
	write_maps(e, PID, &line, 1);
	tell(e, RING_EV_COMM, PID, 0);
	check_rules(e, PID, &line);
	assert_int_equal(counts.modules, ({
				 unwinder_counts(e->u, &counts);
				 counts.modules;
			 }));
}

/* ---- samples ---- */

static void map_event(struct env *e, const struct line *line, uint64_t time_ns)
{
	const struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.pid = PID,
		.tid = PID,
		.time_ns = time_ns,
		.mmap = {.start = line->start,
			 .len = line->bytes,
			 .pgoff = line->offset,
			 .ino = line->file->ino,
			 .prot = PROT_READ | PROT_EXEC,
			 .path = line->file->path},
	};

	assert_int_equal(proctab_apply(e->table, &ev), 0);
}

static struct unwind_result check(struct env *e, const uint64_t *ips, uint16_t n, uint64_t stamp,
				  enum unwind_stop stop, uint64_t time_ns)
{
	const uint64_t tail[UNWIND_TAIL_WORDS] = {stamp, UNWIND_TAIL(stop, 3)};
	const struct sample_record rec = {.user_frames = n, .pid = PID};
	struct ring_event ev = {.kind = RING_EV_SAMPLE, .pid = PID, .time_ns = time_ns};
	struct unwind_result v;

	ev.sample.rec = &rec;
	ev.sample.user_ips = ips;
	ev.sample.unwind = tail;
	unwinder_check(e->u, &ev, &v);
	return v;
}

static void test_no_match(void **state)
{
	struct env *e = *state;
	struct elf_segment seg;
	struct line self = code_of(&e->self, BASE, &seg), libc = code_of(&e->libc, BASE, &seg);
	struct line low = {.start = JIT, .bytes = 8192, .file = &e->text};
	struct line lines[2] = {low, self};
	const uint64_t ips[] = {JIT + 5, BASE + 7, JIT + 4097, BASE + 9};
	struct unwind_result v;
	uint64_t stamp;

	write_maps(e, PID, lines, 2);
	map_event(e, &low, 10);
	map_event(e, &self, 10);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	stamp = proc_of(e, PID)->stamp;
	for (int again = 0; again < 2; again++) {
		v = check(e, ips, 4, stamp, UNWIND_STOP_ROOT, 20);
		assert_int_equal(v.frames, 4);
		assert_int_equal(v.text, UNWIND_TEXT_NONE);
		assert_int_equal(v.by_fp, 3);
	}
	v = check(e, ips, 1, stamp, UNWIND_STOP_FRAME_POINTER, 20);
	assert_int_equal(v.text, UNWIND_TEXT_NO_FRAME_POINTER);
	assert_string_equal(v.module->path, e->text.path);
	/* Another file has taken the place of one: what it led to is not believed. */
	map_event(e, &libc, 30);
	v = check(e, ips, 4, stamp, UNWIND_STOP_ROOT, 40);
	assert_int_equal(v.frames, 2);
	assert_int_equal(v.text, UNWIND_TEXT_CHANGED);
	assert_int_equal(v.stop, UNWIND_STOP_NO_MAPPING);
	/* Also if it says that it ended there. */
	v = check(e, &ips[1], 1, stamp, UNWIND_STOP_ROOT, 40);
	assert_int_equal(v.frames, 1);
	assert_int_equal(v.text, UNWIND_TEXT_CHANGED);
	/* But of a sample from before that, it is; and of one that has not been there. */
	v = check(e, ips, 4, stamp, UNWIND_STOP_ROOT, 25);
	assert_int_equal(v.frames, 4);
	v = check(e, ips, 1, stamp, UNWIND_STOP_ROOT, 40);
	assert_int_equal(v.frames, 1);
	assert_int_equal(v.text, UNWIND_TEXT_NONE);
	/* The same file at another offset. */
	self.offset += 4096;
	self.bytes -= 4096;
	map_event(e, &self, 50);
	v = check(e, ips, 4, stamp, UNWIND_STOP_ROOT, 60);
	assert_int_equal(v.frames, 2);
	/* A stamp that nobody gave, and a reason that there is not. */
	v = check(e, ips, 4, 4711, UNWIND_STOP_ROOT, 20);
	assert_int_equal(v.frames, 1);
	assert_int_equal(v.text, UNWIND_TEXT_CHANGED);
	v = check(e, ips, 4, stamp, 200, 25);
	assert_int_equal(v.text, UNWIND_TEXT_UNSUPPORTED);
}

/* A list stays as long as samples by it may come, and no longer. */
static void test_retire(void **state)
{
	struct env *e = *state;
	struct line line = {.start = JIT, .bytes = 8192};
	const uint64_t ips[] = {JIT, JIT + 100};
	struct unwinder_counts counts;
	uint64_t stamp;

	write_maps(e, PID, &line, 1);
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	stamp = proc_of(e, PID)->stamp;
	line.bytes = 4096;
	write_maps(e, PID, &line, 1);
	tell(e, RING_EV_MMAP, PID, 0);
	assert_int_equal(check(e, ips, 2, stamp, UNWIND_STOP_ROOT, 1).frames, 2);
	unwinder_counts(e->u, &counts);
	assert_int_equal(counts.usage.spans, 2);
	update(e, UINT64_MAX / 2);
	unwinder_counts(e->u, &counts);
	assert_int_equal(counts.usage.spans, 1);
	assert_int_equal(check(e, ips, 2, stamp, UNWIND_STOP_ROOT, 1).frames, 1);
}

static void sample_often(struct env *e, uint64_t ip, int n, struct unwind_result *v)
{
	while (n--)
		*v = check(e, &ip, 1, proc_of(e, PID)->stamp, UNWIND_STOP_NO_TABLE, 20);
}

static void pass_time(struct env *e, uint64_t *now)
{
	for (int i = 0; i < 5; i++) {
		*now += 5000000000;
		update(e, *now);
	}
}

/* Room for one of two modules: the one that is sampled gets it, and loses it to the other. */
static void test_room(void **state)
{
	struct env *e = *state;
	struct file big[2];
	struct elf_segment seg;
	struct line lines[2];
	uint64_t ips[2], now = clock_now_ns();
	struct unwind_result v = {};

	find_file(&big[0], "/usr/bin/python3");
	find_file(&big[1], "/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
	lines[0] = code_of(&big[0], BASE, &seg);
	lines[1] = code_of(&big[1], BASE + (1ull << 32), &seg);
	for (int i = 0; i < 2; i++) {
		map_event(e, &lines[i], 10);
		ips[i] = lines[i].start + 4096;
	}
	write_maps(e, PID, lines, 2);
	e->opts.memory.max_chunks = 1;
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	assert_int_equal(span_at(e, PID, ips[0])->kind, UNWIND_SPAN_TABLE);
	for (int out = 1, n = 100; n < 10000; out = !out, n *= 5) {
		assert_int_equal(span_at(e, PID, ips[out])->kind, UNWIND_SPAN_NONE);
		sample_often(e, ips[out], n, &v);
		assert_int_equal(v.text, UNWIND_TEXT_NO_ROOM);
		pass_time(e, &now);
		assert_int_equal(span_at(e, PID, ips[!out])->kind, UNWIND_SPAN_NONE);
		check_rules(e, PID, &lines[out]);
	}
	for (int i = 0; i < 2; i++)
		free(big[i].path);
}

/* One that will never fit drives nobody out. */
static void test_hopeless(void **state)
{
	struct env *e = *state;
	struct file big[2];
	struct elf_segment seg;
	struct line lines[2];
	uint64_t now = clock_now_ns();
	struct unwind_result v = {};

	find_file(&big[0], "/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
	find_file(&big[1], "/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
	lines[0] = code_of(&big[0], BASE, &seg);
	lines[1] = code_of(&big[1], BASE + (1ull << 32), &seg);
	map_event(e, &lines[0], 10);
	map_event(e, &lines[1], 10);
	write_maps(e, PID, lines, 2);
	e->opts.memory.max_chunks = 1;
	make(e);
	assert_int_equal(unwinder_scan(e->u), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(span_at(e, PID, lines[0].start + 4096)->kind, UNWIND_SPAN_NONE);
		check_rules(e, PID, &lines[1]);
		sample_often(e, lines[0].start + 4096, 1000, &v);
		assert_int_equal(v.text, UNWIND_TEXT_NO_ROOM);
		pass_time(e, &now);
	}
	for (int i = 0; i < 2; i++)
		free(big[i].path);
}

static void test_texts(void **state)
{
	(void)state;
	for (int i = 0; i < UNWIND_N_TEXTS; i++) {
		char *text = unwinder_text(i, "libx.so"), *none = unwinder_text(i, NULL);

		assert_non_null(text);
		assert_int_equal(strncmp(text, "[truncated", 10), 0);
		assert_int_equal(text[strlen(text) - 1], ']');
		assert_non_null(none);
		free(text);
		free(none);
	}
	for (int i = 0; i < UNWIND_N_STOPS; i++) {
		assert_non_null(unwinder_stop_name(i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(unwinder_stop_name(i), unwinder_stop_name(j));
	}
	assert_string_equal(unwinder_stop_name(UNWIND_N_STOPS), "unknown");
}

#define case_of(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(test_scan),
		case_of(test_part_of_a_file),
		case_of(test_no_cfi),
		case_of(test_life),
		case_of(test_targets),
		case_of(test_full),
		case_of(test_expect),
		case_of(test_no_match),
		case_of(test_retire),
		case_of(test_room),
		case_of(test_hopeless),
		case_of(test_ends_first),
		case_of(test_parent_ends_first),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
