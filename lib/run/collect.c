/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/collect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/json.h"
#include "base/repeat.h"
#include "elf/debugfile.h"
#include "names/modsyms.h"
#include "names/stackends.h"
#include "plan/translator.h"

struct collect {
	const struct plan *plan;
	struct proctab *procs;
	struct symbolize *names;
	struct agg *agg;
	FILE *samples;
	bool quiet;		    /* samples are not written there */
	struct stack_frame *frames; /* of the sample at hand */
	size_t max_frames;
	char *cache;	      /* of debuginfod */
	struct repeat *known; /* what samples that were resolved before are in agg */
	uint64_t key[REPEAT_MAX_WORDS];
	uint64_t oversized; /* records with more frames than were asked for */
	uint64_t weight;
	struct account_unsymbolized *missing;
	size_t n_missing;
	uint64_t *doubtful; /* by gate */
	struct stackends ends;
	/* Walks by unwind tables. */
	struct unwinder *unwinder; /* NULL: there are none */
	struct unwind_result walk; /* on the sample at hand */
	bool unwound;		   /* there is one */
	char **stop_texts;	   /* of those that ended early: by kind of stop and module */
	size_t n_stop_texts;
	struct stackends stops; /* in which modules */
	struct account_unwind account;
};

/* The stacks that are resolved once only; a few hundred are hot even on a busy machine. */
#define KNOWN_STACKS 4096
#define KNOWN_BYTES  (3u << 20)

/*
 * agg_stack.tag: 0, or 1 + the gate whose return address is not on the stack, and whether the walk
 * came to the stack's outermost frame.
 */
#define TAG_NONE  0
#define TAG_WHOLE (1u << 31)

/* Mappings begin at multiples of this, whatever the architecture. */
#define MIN_PAGE_BYTES 4096ull

int collect_new(const struct plan *plan, FILE *samples, struct collect **out)
{
	struct collect *c = calloc(1, sizeof(*c));
	struct symbolize_opts names = {
		.no_demangle = plan->shown.no_demangle,
		.short_names = plan->shown.short_names,
		.inline_frames = plan->shown.inline_frames,
		.lines = plan->shown.lines,
	};

	if (!c)
		return -ENOMEM;
	c->plan = plan;
	c->samples = samples;
	/* Both stacks, and for each a frame that says that it was cut or could not be had. */
	c->max_frames = plan->config.kernel_frames + plan->config.user_frames + 5;
	c->frames = calloc(c->max_frames, sizeof(*c->frames));
	c->doubtful = calloc(plan->n_gates + 1, sizeof(*c->doubtful));
	c->procs = proctab_new();
	c->cache = debugfile_default_cache();
	names.debuginfod_cache = c->cache;
	c->agg = agg_new();
	c->known = repeat_new(KNOWN_STACKS, KNOWN_BYTES);
	if (c->procs)
		c->names = symbolize_new(c->procs, &names);
	if (!c->frames || !c->doubtful || !c->procs || !c->agg || !c->known || !c->names) {
		collect_free(c);
		return -ENOMEM;
	}
	*out = c;
	return 0;
}

void collect_free(struct collect *c)
{
	if (!c)
		return;
	symbolize_free(c->names);
	proctab_free(c->procs);
	agg_free(c->agg);
	repeat_free(c->known);
	free(c->frames);
	free(c->cache);
	free(c->missing);
	free(c->doubtful);
	for (size_t i = 0; i < c->n_stop_texts; i++)
		free(c->stop_texts[i]);
	free(c->stop_texts);
	stackends_release(&c->ends);
	stackends_release(&c->stops);
	free(c);
}

int collect_names_from(struct collect *c, const struct symbolize_opts *opts)
{
	struct symbolize *names = symbolize_new(c->procs, opts);

	if (!names)
		return -ENOMEM;
	symbolize_free(c->names);
	c->names = names;
	return 0;
}

static void see_mapping(uint32_t pid, const struct ring_mmap *mm, void *arg)
{
	struct collect *c = arg;

	symbolize_see(c->names, pid, mm);
}

int collect_scan(struct collect *c, const char *procfs, uint64_t time_ns, struct failure *f)
{
	const struct plan *p = c->plan;
	bool everyone = !p->asked.command && !p->n_target_pids;
	int err = 0;

	proctab_watch(c->procs, see_mapping, c);
	/* A started command has no past. */
	if (everyone)
		err = proctab_scan_all(c->procs, procfs, time_ns);
	for (size_t i = 0; i < p->n_target_pids && err != -ENOMEM; i++)
		err = proctab_scan(c->procs, procfs, p->target_pids[i], time_ns);
	return err == -ENOMEM ? failure_nomem(f)
			      : translator_refuse_plan(p, procfs, c->procs, everyone, f);
}

int collect_scan_everyone(struct collect *c, const char *procfs, uint64_t time_ns,
			  struct failure *f)
{
	int err = proctab_scan_all(c->procs, procfs, time_ns);

	return err == -ENOMEM ? failure_nomem(f)
			      : translator_refuse_plan(c->plan, procfs, c->procs, true, f);
}

void collect_prepare(struct collect *c)
{
	const struct stack_frame frame = {.kind = AGG_FRAME_KERNEL};

	symbolize_frame(c->names, &frame, 0);
}

/* ---- samples ---- */

static struct stack_frame special(enum agg_special what)
{
	return (struct stack_frame){.kind = AGG_FRAME_SPECIAL, .offset = what};
}

/*
 * A uretprobe's trampoline stands in the stack in place of the caller. Where the kernel doesn't put
 * that right itself (since 6.11, 4a365eb8a6d9), the gate's saved return address does, for the
 * newest opening.
 */
static uint64_t true_address(struct collect *c, const struct ring_event *ev, uint64_t addr,
			     bool *restored)
{
	const struct sample_record *r = ev->sample.rec;
	struct proc_addr at;

	if (*restored || !r->return_addr || r->return_gate >= c->plan->n_gates ||
	    !(c->plan->gates[r->return_gate].info.flags & GATE_F_URETPROBE))
		return addr;
	at = proctab_resolve(c->procs, ev->pid, addr, ev->time_ns);
	if (!at.module || !at.module->uprobes)
		return addr;
	*restored = true;
	return r->return_addr;
}

/* One user frame; *lasting as symbolize_jit() has it. */
static struct stack_frame user_frame(struct collect *c, const struct ring_event *ev, uint64_t addr,
				     enum agg_caller caller, bool *lasting)
{
	struct proc_addr at = proctab_resolve(c->procs, ev->pid, addr, ev->time_ns), before;
	struct stack_frame f = {.kind = AGG_FRAME_USER, .caller = caller};

	if (at.module && at.module->uprobes)
		return special(AGG_UPROBES);
	/* The call may be the last thing in its mapping. */
	if (caller == AGG_BEFORE && !(addr & (MIN_PAGE_BYTES - 1))) {
		before = proctab_resolve(c->procs, ev->pid, addr - 1, ev->time_ns);
		if (before.module)
			at = (struct proc_addr){before.module, before.offset + 1};
	}
	if (symbolize_jit(c->names, ev->pid, addr, ev->time_ns, at.module, &f, lasting))
		return f;
	if (at.module) {
		f.module = at.module->id;
		f.offset = at.offset;
	}
	return f;
}

/* Not worth a word where one frame is all that was asked for. */
static bool is_cut(const struct collect *c, bool full)
{
	return full && c->plan->asked.call_graph != OPTS_CALL_GRAPH_NONE;
}

/* What of the walk is to be believed. */
static void check_walk(struct collect *c, const struct ring_event *ev)
{
	c->unwound = c->unwinder && ev->sample.unwind;
	if (c->unwound)
		unwinder_check(c->unwinder, ev, &c->walk);
}

static struct stack_frame stop_frame(const struct unwind_result *v)
{
	struct stack_frame f = special(AGG_USER_STOPPED);

	f.module = v->module ? v->module->id : 0;
	f.caller = v->text;
	return f;
}

/* Frame i is where a signal came, or the code to which its handler returns, which nobody calls. */
static bool is_by_signal(const struct collect *c, size_t i)
{
	uint32_t signals = c->unwound ? c->walk.signals : 0;

	return signals && (UNWIND_SIGNALS_HAVE(signals, i) || UNWIND_SIGNALS_HAVE(signals, i + 1));
}

static size_t user_frames(struct collect *c, const struct ring_event *ev, struct stack_frame *out,
			  uint32_t *tag, bool *lasting)
{
	const struct sample_record *r = ev->sample.rec;
	size_t n = r->user_frames, used = 0;
	bool cut = is_cut(c, r->flags & SAMPLE_F_USER_CUT), restored = false, seen = false;
	/* The walk by tables looks for a breakpoint itself. */
	bool beneath = r->kernel_frames && !(r->flags & SAMPLE_F_KERNEL_CUT) &&
		       !(c->unwound && ev->sample.unwind[0]);

	if (c->unwound && n > c->walk.frames)
		n = c->walk.frames;
	if (n > c->plan->max_user_frames) {
		n = c->plan->max_user_frames;
		cut = true;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t addr = true_address(c, ev, ev->sample.user_ips[i], &restored);
		enum agg_caller caller = is_by_signal(c, i) ? AGG_AT_ADDRESS
					 : i > 0	    ? AGG_BEFORE
					 : beneath	    ? AGG_BENEATH_KERNEL
							    : AGG_AT_ADDRESS;

		seen |= addr == r->return_addr;
		/* It is in the trampoline itself: the function has returned, to that caller. */
		if (!i && restored) {
			out[used++] = special(AGG_UPROBES);
			caller = AGG_BEFORE;
		}
		out[used++] = user_frame(c, ev, addr, caller, lasting);
	}
	if (!n && (r->flags & SAMPLE_F_USER_FAIL))
		out[used++] = special(AGG_USER_STACK_FAILED);
	else if (!n && !(r->flags & SAMPLE_F_KTHREAD) && !c->plan->shown.kernel_only)
		out[used++] = special(AGG_NO_USER_STACK);
	if (cut) {
		out[used++] = special(AGG_USER_CUT);
	} else if (c->unwound && n && c->walk.text != UNWIND_TEXT_NONE) {
		out[used++] = stop_frame(&c->walk);
		cut = true;
	}
	if (r->return_addr && n && !cut && !seen)
		*tag = (1 + r->return_gate) |
		       (c->unwound && c->walk.stop == UNWIND_STOP_ROOT ? TAG_WHOLE : 0);
	return used;
}

static size_t kernel_frames(struct collect *c, const struct ring_event *ev, struct stack_frame *out)
{
	const struct sample_record *r = ev->sample.rec;
	size_t n = r->kernel_frames, used = 0;
	bool cut = is_cut(c, r->flags & SAMPLE_F_KERNEL_CUT);

	if (n > c->plan->max_kernel_frames) {
		n = c->plan->max_kernel_frames;
		cut = true;
	}
	for (size_t i = 0; i < n; i++)
		out[used++] = (struct stack_frame){
			.kind = AGG_FRAME_KERNEL,
			.offset = ev->sample.kernel_ips[i],
			.caller = i > 0 ? AGG_BEFORE : AGG_AT_ADDRESS,
		};
	if (!n && (r->flags & SAMPLE_F_KERNEL_FAIL))
		out[used++] = special(AGG_KERNEL_STACK_FAILED);
	if (cut)
		out[used++] = special(AGG_KERNEL_CUT);
	return used;
}

static void write_ips(struct json *j, const char *key, const uint64_t *ips, size_t n)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < n; i++)
		json_hex(j, ips[i]);
	json_array_end(j);
}

static int count_walk(struct collect *c, const struct ring_event *ev)
{
	const struct sample_record *r = ev->sample.rec;

	if (!c->unwinder || !r->user_frames)
		return 0;
	if (!c->unwound) {
		unwinder_count_unknown(c->unwinder);
		return 0;
	}
	unwinder_count(c->unwinder, &c->walk);
	if (c->walk.text == UNWIND_TEXT_NONE || !c->walk.module)
		return 0;
	return stackends_count(&c->stops, c->walk.module->id, 1);
}

/* One line; a failing stream is noticed when it is committed. */
static void write_sample(struct collect *c, const struct ring_event *ev)
{
	const struct sample_record *r = ev->sample.rec;
	struct json j;

	json_init(&j, c->samples);
	json_object_begin(&j);
	json_key(&j, "time_ns");
	json_u64(&j, ev->time_ns);
	json_key(&j, "cpu");
	json_u64(&j, r->cpu);
	json_key(&j, "pid");
	json_u64(&j, r->pid);
	json_key(&j, "tid");
	json_u64(&j, r->tid);
	json_key(&j, "comm");
	json_string(&j, r->comm);
	json_key(&j, "gates");
	json_array_begin(&j);
	for (size_t i = 0; i < c->plan->n_gates && i / 64 < r->gate_words; i++)
		if (ev->sample.open_gates[i / 64] & 1ull << (i % 64))
			json_u64(&j, i);
	json_array_end(&j);
	json_key(&j, "period");
	json_u64(&j, r->period);
	write_ips(&j, "kernel_ips", ev->sample.kernel_ips, r->kernel_frames);
	write_ips(&j, "user_ips", ev->sample.user_ips,
		  c->unwound ? c->walk.frames : r->user_frames);
	if (c->unwound) {
		json_key(&j, "stop");
		json_string(&j, unwinder_stop_name(c->walk.stop));
	}
	json_object_end(&j);
	json_finish(&j);
}

/* Bytes of the user's own program, in digits. */
static void write_bytes(struct collect *c, const struct ring_event *ev)
{
	static const char digits[] = "0123456789abcdef";
	const struct sample_record *r = ev->sample.rec;
	const uint8_t *bytes = (const uint8_t *)ev->sample.user_ips;
	char text[2 * SAMPLE_MAX_BYTES + 1];
	size_t n = r->period;
	struct json j;

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * n] = 0;
	json_init(&j, c->samples);
	json_object_begin(&j);
	json_key(&j, "time_ns");
	json_u64(&j, ev->time_ns);
	json_key(&j, "cpu");
	json_u64(&j, r->cpu);
	json_key(&j, "pid");
	json_u64(&j, r->pid);
	json_key(&j, "tid");
	json_u64(&j, r->tid);
	json_key(&j, "comm");
	json_string(&j, r->comm);
	json_key(&j, "bytes");
	json_string(&j, text);
	json_object_end(&j);
	json_finish(&j);
}

static int add_bytes(struct collect *c, const struct ring_event *ev)
{
	const struct sample_record *r = ev->sample.rec;

	if (r->period > SAMPLE_MAX_BYTES || r->user_frames != (r->period + 7) / 8) {
		c->oversized++; /* not a record of ours */
		return 0;
	}
	if (c->samples && !c->quiet)
		write_bytes(c, ev);
	return 0;
}

/*
 * All that the aggregated stack of a sample depends on, as words; 0 where that can't be said, since
 * the process has changed after the sample.
 */
static size_t sample_key(struct collect *c, const struct ring_event *ev)
{
	const struct sample_record *r = ev->sample.rec;
	size_t ips = (size_t)r->kernel_frames + r->user_frames;
	uint64_t *key = c->key;

	if (ips + 6 > REPEAT_MAX_WORDS)
		return 0;
	/*
	 * Without user frames no mapping was asked for; with them the stamp is the process's too.
	 */
	key[0] = 0;
	if (r->user_frames && !proctab_stamp(c->procs, ev->pid, ev->time_ns, &key[0]))
		return 0;
	key[1] = (uint64_t)r->flags << 16 | r->return_gate;
	if (c->unwound)
		key[1] |= (uint64_t)(c->walk.text + 1) << 32 | (uint64_t)c->walk.frames << 40;
	key[2] = (uint64_t)r->kernel_frames << 32 | r->user_frames;
	key[3] = r->return_addr;
	memcpy(&key[4], r->comm, sizeof(r->comm));
	if (r->kernel_frames)
		memcpy(&key[6], ev->sample.kernel_ips, r->kernel_frames * sizeof(*key));
	memcpy(&key[6 + r->kernel_frames], ev->sample.user_ips, r->user_frames * sizeof(*key));
	return 6 + ips;
}

static int add_sample(struct collect *c, const struct ring_event *ev)
{
	const struct sample_record *r = ev->sample.rec;
	uint32_t tag = TAG_NONE, id;
	bool lasting = true;
	size_t n, key_words;
	int err;

	if (r->flags & SAMPLE_F_BYTES)
		return add_bytes(c, ev);
	if ((size_t)r->kernel_frames + r->user_frames + 5 > c->max_frames) {
		c->oversized++; /* not a record of ours */
		return 0;
	}
	c->weight += r->period;
	check_walk(c, ev);
	err = count_walk(c, ev);
	if (err)
		return err;
	if (c->samples && !c->quiet)
		write_sample(c, ev);
	key_words = sample_key(c, ev);
	if (key_words && repeat_find(c->known, c->key, key_words, &id)) {
		agg_add_again(c->agg, id, r->period);
		return 0;
	}
	n = kernel_frames(c, ev, c->frames);
	n += user_frames(c, ev, c->frames + n, &tag, &lasting);
	err = agg_add(c->agg, r->comm, tag, c->frames, n, r->period, &id);
	if (!err && key_words && lasting)
		repeat_put(c->known, c->key, key_words, id);
	return err;
}

int collect_event(struct collect *c, const struct ring_event *ev)
{
	switch (ev->kind) {
	case RING_EV_SAMPLE:
		return add_sample(c, ev);
	case RING_EV_COMM:
		if (ev->comm.exec)
			symbolize_ended(c->names, ev->pid);
		return proctab_apply(c->procs, ev);
	case RING_EV_EXIT:
		if (ev->pid == ev->tid)
			symbolize_ended(c->names, ev->pid);
		return proctab_apply(c->procs, ev);
	case RING_EV_MMAP:
	case RING_EV_FORK:
		return proctab_apply(c->procs, ev);
	case RING_EV_KSYMBOL:
		/* What has gone again keeps its name: samples of its time may still come. */
		if (ev->ksymbol.unregister)
			return 0;
		return symbolize_add_ksymbol(c->names, ev->ksymbol.addr, ev->ksymbol.len,
					     ev->ksymbol.name);
	default:
		return 0;
	}
}

int collect_clear(struct collect *c)
{
	struct repeat *known = repeat_new(KNOWN_STACKS, KNOWN_BYTES);
	struct agg *agg = agg_new();

	if (!agg || !known) {
		agg_free(agg);
		repeat_free(known);
		return -ENOMEM;
	}
	agg_free(c->agg);
	repeat_free(c->known);
	c->agg = agg;
	c->known = known;
	return 0;
}

void collect_log_samples(struct collect *c, bool on)
{
	c->quiet = !on;
}

void collect_early(struct collect *c, const struct ring_event *ev)
{
	if (ev->kind == RING_EV_MMAP && (ev->mmap.prot & PROT_EXEC))
		symbolize_see(c->names, ev->pid, &ev->mmap);
	if (c->unwinder)
		unwinder_early(c->unwinder, ev);
}

void collect_unwind(struct collect *c, struct unwinder *u)
{
	c->unwinder = u;
}

uint16_t collect_true_frames(struct collect *c, const struct ring_event *ev)
{
	check_walk(c, ev);
	return c->unwound && ev->sample.unwind[0] ? (uint16_t)c->walk.frames
						  : ev->sample.rec->user_frames;
}

int collect_drained(struct collect *c, uint64_t settled_ns)
{
	return c->unwinder ? unwinder_update(c->unwinder, settled_ns) : 0;
}

struct modfiles *collect_files(const struct collect *c)
{
	return symbolize_files(c->names);
}

const struct proctab *collect_processes(const struct collect *c)
{
	return c->procs;
}

void collect_settled(struct collect *c, uint64_t time_ns)
{
	proctab_expire(c->procs, time_ns);
}

/* ---- output ---- */

/*
 * The kernel was entered by a breakpoint instruction, a uprobe's: the user address is the one
 * behind it, which after a function's last instruction is the next function's. On its way back the
 * kernel sets the address to the breakpoint's own before it runs the probe's programs. Frame i is
 * the innermost user frame.
 */
static bool is_behind_int3(struct collect *c, const struct agg_stack *stack, uint32_t i)
{
	const struct stack_frame *entry = i ? &stack->frames[i - 1] : NULL;

	if (!entry || entry->kind != AGG_FRAME_KERNEL ||
	    strcmp(symbolize_frame(c->names, entry, 0), "asm_exc_int3"))
		return false;
	for (uint32_t j = 0; j < i; j++)
		if (stack->frames[j].kind == AGG_FRAME_KERNEL &&
		    !strcmp(symbolize_frame(c->names, &stack->frames[j], 0),
			    "uprobe_notify_resume"))
			return false;
	return true;
}

/* A frame of which it is known now where it is to be looked up. */
static struct stack_frame exact_frame(struct collect *c, const struct agg_stack *stack, uint32_t i)
{
	struct stack_frame frame = stack->frames[i];

	if (frame.kind != AGG_FRAME_SPECIAL && frame.caller == AGG_BENEATH_KERNEL)
		frame.caller = is_behind_int3(c, stack, i) ? AGG_BEFORE : AGG_AT_ADDRESS;
	return frame;
}

/* The text of a frame that says why a walk ended there. It is kept as long as c. */
static const char *const *stop_text(struct collect *c, const struct stack_frame *f)
{
	size_t at = (size_t)f->module * UNWIND_N_TEXTS + f->caller;
	const struct module *m = proctab_module(c->procs, f->module);
	const char *base = m ? strrchr(m->path, '/') : NULL;
	static const char *const plain = "[truncated]";

	if (at >= c->n_stop_texts) {
		size_t n = 2 * at + UNWIND_N_TEXTS;
		char **texts = reallocarray(c->stop_texts, n, sizeof(*texts));

		if (!texts)
			return &plain;
		memset(texts + c->n_stop_texts, 0, (n - c->n_stop_texts) * sizeof(*texts));
		c->stop_texts = texts;
		c->n_stop_texts = n;
	}
	if (!c->stop_texts[at])
		c->stop_texts[at] = unwinder_text(f->caller, base ? base + 1 : m ? m->path : NULL);
	return c->stop_texts[at] ? (const char *const *)&c->stop_texts[at] : &plain;
}

static size_t names_of_frame(const struct agg_stack *stack, uint32_t i, const char *const **names,
			     void *arg)
{
	struct collect *c = arg;
	struct stack_frame frame = exact_frame(c, stack, i);

	if (frame.kind == AGG_FRAME_SPECIAL) {
		*names = stop_text(c, &frame);
		return 1;
	}

	return symbolize_names(c->names, &frame, stack->count, names);
}

size_t collect_stack(struct collect *c, const struct ring_event *ev, const char **names, size_t max,
		     size_t *n_kernel)
{
	const struct sample_record *r = ev->sample.rec;
	struct agg_stack stack = {.frames = c->frames};
	uint32_t tag = TAG_NONE;
	bool lasting;
	size_t n = 0;

	*n_kernel = 0;
	if ((size_t)r->kernel_frames + r->user_frames + 5 > c->max_frames)
		return 0;
	check_walk(c, ev);
	stack.n_frames = kernel_frames(c, ev, c->frames);
	stack.n_frames += user_frames(c, ev, c->frames + stack.n_frames, &tag, &lasting);
	for (uint32_t i = 0; i < stack.n_frames && n < max; i++) {
		struct stack_frame frame = exact_frame(c, &stack, i);
		const char *const *inlined;
		size_t n_inlined;

		if (frame.kind == AGG_FRAME_SPECIAL)
			continue;
		n_inlined = symbolize_names(c->names, &frame, 0, &inlined);
		while (n_inlined && n < max)
			names[n++] = inlined[--n_inlined];
		if (c->frames[i].kind == AGG_FRAME_KERNEL)
			*n_kernel = n;
	}
	return n;
}

int collect_write(struct collect *c, FILE *f, struct folded_totals *totals)
{
	const struct plan_shown *o = &c->plan->shown;
	struct folded_opts opts = {
		.weight = o->weight,
		.delimiter = o->delimiter,
		.user_only = o->user_only,
		.kernel_only = o->kernel_only,
	};
	const struct stack_frame *frames;
	size_t n;

	frames = agg_frames(c->agg, &n);
	symbolize_prepare(c->names, frames, n);
	return folded_write(f, c->agg, names_of_frame, c, &opts, totals);
}

/*
 * A stack without the gate's return address: either it was sampled where the frame pointer had not
 * been set up (then the function itself is on it), or it is not whole, or the opening is stale, or
 * another goroutine runs on the thread. A walk by tables says itself that it is whole; of one by
 * frame pointers that is known by the names on it.
 */
static int count_doubtful(const struct agg_stack *stack, void *arg)
{
	struct collect *c = arg;
	bool whole = stack->tag & TAG_WHOLE;
	uint32_t gate = (stack->tag & ~TAG_WHOLE) - 1, user = 0;

	if (stack->tag == TAG_NONE || gate >= c->plan->n_gates)
		return 0;
	for (uint32_t i = 0; i < stack->n_frames; i++) {
		struct stack_frame frame;
		const char *name;

		/* The leaf is a probed instruction, single-stepped: the first, or as below. */
		if (stack->frames[i].kind == AGG_FRAME_SPECIAL &&
		    stack->frames[i].offset == AGG_UPROBES && !user++)
			return 0;
		if (stack->frames[i].kind != AGG_FRAME_USER)
			continue;
		user++;
		/* In its last instruction the function has taken its return address off already. */
		if (stack->frames[i].caller == AGG_BENEATH_KERNEL && is_behind_int3(c, stack, i))
			return 0;
		frame = exact_frame(c, stack, i);
		name = symbolize_frame(c->names, &frame, 0);
		if (c->plan->gates[gate].function && !strcmp(name, c->plan->gates[gate].function))
			return 0;
		whole |= stackends_is_root(name);
	}
	if (whole)
		c->doubtful[gate] += stack->count;
	return 0;
}

static int count_end(const struct agg_stack *stack, void *arg)
{
	struct collect *c = arg;
	bool rooted = false;

	for (uint32_t i = stack->n_frames; i-- > 0 && !rooted;) {
		struct stack_frame frame = exact_frame(c, stack, i);

		if (frame.kind == AGG_FRAME_USER)
			rooted = stackends_is_root(symbolize_frame(c->names, &frame, 0));
	}
	return stackends_add(&c->ends, stack, rooted);
}

static int add_missing(const struct symbolize_missing *m, void *arg)
{
	struct collect *c = arg;
	struct account_unsymbolized *list =
		reallocarray(c->missing, c->n_missing + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	c->missing = list;
	list[c->n_missing++] = (struct account_unsymbolized){
		.module = m->module,
		.reason = m->reason,
		.frames = m->frames,
	};
	return 0;
}

static void account_unwinding(struct collect *c, struct account *a)
{
	struct account_unwind *w = &c->account;
	struct unwinder_counts n;
	const struct module *worst;

	unwinder_counts(c->unwinder, &n);
	worst = proctab_module(c->procs, stackends_worst(&c->stops, &w->worst_stacks));
	w->worst_module = worst ? worst->path : NULL;
	w->stacks = n.stacks;
	for (size_t i = 0; i < UNWIND_N_STOPS; i++)
		w->stops[i] = (struct account_stop){unwinder_stop_name(i), n.stops[i]};
	w->n_stops = UNWIND_N_STOPS;
	w->complete = n.stops[UNWIND_STOP_ROOT];
	w->cut = n.stops[UNWIND_STOP_DEPTH];
	w->changed = n.changed;
	w->no_room = n.no_room;
	w->by_fp = n.by_fp;
	w->modules = n.modules;
	w->unfit = n.unfit;
	w->full = n.full;
	w->rows = n.rows;
	w->bytes = n.usage.bytes;
	w->shared = n.usage.shared;
	w->verbose = c->plan->shown.verbose;
	a->unwind = w;
}

int collect_account(struct collect *c, struct account *a, struct account_gate *gates)
{
	int err = symbolize_each_missing(c->names, add_missing, c);
	const struct module *worst;

	if (!err)
		err = agg_each(c->agg, count_doubtful, c);
	if (!err)
		err = agg_each(c->agg, count_end, c);
	if (err)
		return err;
	worst = proctab_module(c->procs, stackends_worst(&c->ends, &a->broken_there));
	if (c->unwinder)
		account_unwinding(c, a);
	a->user_stacks = c->ends.stacks;
	a->broken_stacks = c->ends.broken;
	a->broken_module = worst ? worst->path : NULL;
	a->ring_oversized += c->oversized;
	a->weight = c->weight;
	a->weighted = c->plan->shown.weight;
	a->unsymbolized = c->missing;
	a->n_unsymbolized = c->n_missing;
	for (size_t i = 0; gates && i < c->plan->n_gates; i++)
		gates[i].doubtful = c->doubtful[i];
	return 0;
}
