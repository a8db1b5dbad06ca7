/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "unwind/unwinder_impl.h"

/* ---- what came of it ---- */

static const struct list *find_list(const struct unwinder *u, uint64_t stamp)
{
	const struct list *l = u->lists[stamp % UNWINDER_BUCKETS];

	while (l && l->stamp != stamp)
		l = l->next;
	return l;
}

static const struct map *map_at(const struct list *l, uint64_t addr)
{
	size_t low = 0, high = l->n_maps;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (l->maps[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < l->n_maps && l->maps[low].start <= addr ? &l->maps[low] : NULL;
}

/* Whether an address of this mapping was of this mapping at that time. */
static bool holds(const struct unwinder *u, uint32_t pid, uint64_t time_ns, const struct map *map,
		  uint64_t addr)
{
	struct proc_addr at = proctab_resolve(u->o.procs, pid, addr, time_ns);

	if (!map->module)
		return !at.module || !unwind_is_file(at.module->path);
	return at.module && at.module->ino == map->module->file.ino &&
	       !strcmp(at.module->path, map->module->file.path) &&
	       (at.offset == map->pgoff + (addr - map->start) ||
		!strcmp(at.module->path, "[vdso]"));
}

/* Whether the whole list was true of its process at the sample's time. */
static bool all_hold(const struct unwinder *u, struct list *l, const struct ring_event *ev)
{
	uint64_t stamp;

	if (!proctab_stamp(u->o.procs, ev->pid, ev->time_ns, &stamp))
		return false;
	if (stamp == l->proven)
		return true;
	for (size_t i = 0; i < l->n_maps; i++)
		if (!holds(u, ev->pid, ev->time_ns, &l->maps[i], l->maps[i].start))
			return false;
	l->proven = stamp;
	return true;
}

/*
 * The addresses up to the first one in a mapping that was another one then, *changed if there is
 * such a one. Itself it is right, it was found by what is before; what it led to is not, and be it
 * that the walk ended there.
 */
static uint32_t count_true(const struct unwinder *u, const struct list *l,
			   const struct ring_event *ev, bool *changed)
{
	uint32_t n = ev->sample.rec->user_frames;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t addr = ev->sample.user_ips[i] - (i > 0);
		const struct map *map = map_at(l, addr);

		if (map && !holds(u, ev->pid, ev->time_ns, map, addr)) {
			*changed = true;
			return i + 1;
		}
	}
	return n;
}

static void count_hits(const struct list *l, const struct ring_event *ev)
{
	for (uint32_t i = 0; i < ev->sample.rec->user_frames; i++) {
		const struct map *map = map_at(l, ev->sample.user_ips[i] - (i > 0));

		if (map && map->module)
			map->module->hits++;
	}
}

const char *unwinder_stop_name(enum unwind_stop stop)
{
	static const char *const names[UNWIND_N_STOPS] = {
		[UNWIND_STOP_ROOT] = "complete",
		[UNWIND_STOP_DEPTH] = "too_deep",
		[UNWIND_STOP_NO_PROCESS] = "no_process",
		[UNWIND_STOP_NO_MAPPING] = "no_mapping",
		[UNWIND_STOP_NO_TABLE] = "no_table",
		[UNWIND_STOP_NO_ENTRY] = "no_entry",
		[UNWIND_STOP_UNSUPPORTED] = "unsupported",
		[UNWIND_STOP_BAD_CFA] = "bad_cfa",
		[UNWIND_STOP_FAULT] = "read_fault",
		[UNWIND_STOP_FRAME_POINTER] = "no_frame_pointer",
		[UNWIND_STOP_UPROBES] = "uprobes",
		[UNWIND_STOP_32BIT] = "32bit",
	};

	return stop < UNWIND_N_STOPS ? names[stop] : "unknown";
}

static enum unwind_text text_of(enum unwind_stop stop, bool no_room)
{
	static const uint8_t texts[UNWIND_N_STOPS] = {
		[UNWIND_STOP_NO_PROCESS] = UNWIND_TEXT_NOT_YET,
		[UNWIND_STOP_NO_MAPPING] = UNWIND_TEXT_NO_MAPPING,
		[UNWIND_STOP_NO_TABLE] = UNWIND_TEXT_NO_INFO,
		[UNWIND_STOP_NO_ENTRY] = UNWIND_TEXT_NO_INFO,
		[UNWIND_STOP_UNSUPPORTED] = UNWIND_TEXT_UNSUPPORTED,
		[UNWIND_STOP_BAD_CFA] = UNWIND_TEXT_DAMAGED,
		[UNWIND_STOP_FAULT] = UNWIND_TEXT_UNREADABLE,
		[UNWIND_STOP_FRAME_POINTER] = UNWIND_TEXT_NO_FRAME_POINTER,
		[UNWIND_STOP_UPROBES] = UNWIND_TEXT_UPROBES,
		[UNWIND_STOP_32BIT] = UNWIND_TEXT_32BIT,
	};

	return stop == UNWIND_STOP_NO_TABLE && no_room ? UNWIND_TEXT_NO_ROOM : texts[stop];
}

char *unwinder_text(enum unwind_text text, const char *module)
{
	static const char *const texts[UNWIND_N_TEXTS] = {
		[UNWIND_TEXT_NONE] = "[truncated%.0s]",
		[UNWIND_TEXT_NOT_YET] = "[truncated: process not known yet%.0s]",
		[UNWIND_TEXT_CHANGED] = "[truncated: mappings changed%.0s]",
		[UNWIND_TEXT_NO_ROOM] = "[truncated: no room for unwind info of %s]",
		[UNWIND_TEXT_NO_MAPPING] = "[truncated: address in no mapping%.0s]",
		[UNWIND_TEXT_NO_INFO] = "[truncated: no unwind info in %s]",
		[UNWIND_TEXT_UNSUPPORTED] = "[truncated: unwind info of %s not understood]",
		[UNWIND_TEXT_DAMAGED] = "[truncated: stack makes no sense in %s]",
		[UNWIND_TEXT_UNREADABLE] = "[truncated: stack not readable in %s]",
		[UNWIND_TEXT_NO_FRAME_POINTER] = "[truncated: no frame pointer in %s]",
		[UNWIND_TEXT_UPROBES] = "[truncated: trampoline of a probe%.0s]",
		[UNWIND_TEXT_32BIT] = "[truncated: 32-bit code%.0s]",
	};
	char *out = NULL;

	if (text >= UNWIND_N_TEXTS)
		text = UNWIND_TEXT_NONE;
	return asprintf(&out, texts[text], module ? module : "[unknown]") < 0 ? NULL : out;
}

void unwinder_check(struct unwinder *u, const struct ring_event *ev, struct unwind_result *out)
{
	struct list *l = (struct list *)find_list(u, ev->sample.unwind[0]);
	uint64_t tail = ev->sample.unwind[1];
	uint32_t n = ev->sample.rec->user_frames;
	const struct map *map = NULL;

	bool changed = false, no_room = false;

	*out = (struct unwind_result){.frames = n,
				      .stop = UNWIND_TAIL_STOP(tail),
				      .by_fp = UNWIND_TAIL_BY_FP(tail),
				      .signals = UNWIND_TAIL_SIGNALS(tail)};
	if (out->stop >= UNWIND_N_STOPS)
		out->stop = UNWIND_STOP_UNSUPPORTED;
	if (!l) {
		/*
		 * The kernel side knew no mappings and followed frame pointers, whether the code
		 * keeps them or not. Only the first frame, where the sample was, is no guess.
		 */
		out->frames = n ? 1 : 0;
		changed = ev->sample.unwind[0] != 0;
		out->stop = changed ? UNWIND_STOP_NO_MAPPING : out->stop;
	} else if (!all_hold(u, l, ev)) {
		out->frames = count_true(u, l, ev, &changed);
		out->stop = changed ? UNWIND_STOP_NO_MAPPING : out->stop;
	}
	if (l && u->n_unfit)
		count_hits(l, ev);
	if (out->frames && out->stop != UNWIND_STOP_ROOT && out->stop != UNWIND_STOP_DEPTH) {
		uint64_t addr = ev->sample.user_ips[out->frames - 1] - (out->frames > 1);

		out->module = proctab_resolve(u->o.procs, ev->pid, addr, ev->time_ns).module;
		map = l ? map_at(l, addr) : NULL;
		no_room = map && map->module && map->module->state == UNFIT;
	}
	out->text = changed ? UNWIND_TEXT_CHANGED : text_of(out->stop, no_room);
}

void unwinder_count(struct unwinder *u, const struct unwind_result *v)
{
	u->counts.stacks++;
	u->counts.stops[v->stop]++;
	u->counts.changed += v->text == UNWIND_TEXT_CHANGED;
	u->counts.no_room += v->text == UNWIND_TEXT_NO_ROOM;
	u->counts.by_fp += v->by_fp;
}

void unwinder_count_unknown(struct unwinder *u)
{
	u->counts.stacks++;
	u->counts.stops[UNWIND_STOP_NO_PROCESS]++;
}

void unwinder_counts(const struct unwinder *u, struct unwinder_counts *out)
{
	*out = u->counts;
	unwind_store_usage(u->store, &out->usage);
}
