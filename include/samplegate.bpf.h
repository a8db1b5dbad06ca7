/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_BPF_H
#define SAMPLEGATE_BPF_H

/*
 * For BPF objects of your own: `overflowfilter --object FILE` and `glitchrec --object FILE`. To be
 * included after vmlinux.h (or linux/types.h) and bpf/bpf_helpers.h, and compiled with
 *
 *     clang -target bpf -mcpu=v2 -O2 -g -D__TARGET_ARCH_x86 -I. -c mine.bpf.c -o mine.bpf.o
 *
 * where this file and vmlinux.h are in `.`, or elsewhere with -I. -g is needed: it makes the BTF.
 * -mcpu=v2 makes programs that Linux 5.10 can load, too. The licence must be compatible with the
 * GPL: char LICENSE[] SEC("license") = "GPL";
 *
 * The functions below have no code here. The tool brings it, and links it to your object when it
 * loads it. So an object is not bound to the version of the tool: a call keeps its meaning, and an
 * object that calls what a tool does not have is refused by name. Names that begin with samplegate_
 * are the tool's. Your maps and variables can have any other name; variables are set from the
 * command line with --set NAME=VALUE. docs/objects.md is the manual, docs/examples/ has examples.
 */

/* What this header describes; grows by one with each addition. */
#define SAMPLEGATE_API 1

struct bpf_perf_event_data;

/* ---- overflowfilter: one program, which decides about each sample ---- */

/*
 *     SEC("perf_event")
 *     int SAMPLEGATE_HANDLER(name, ctx)
 *     {
 *             return wanted;
 *     }
 *
 * ctx is a struct bpf_perf_event_data *. It is called for samples of the target (-p, -G, ...) and
 * mode (:u, :k) only, after they were counted. 0: the sample is dropped and counted as filtered.
 * Else it is kept, in what --emit says (our record, the kernel's own, both), and counted as kept.
 */
#define SAMPLEGATE_HANDLER(name, ctx)                                                             \
	name(struct bpf_perf_event_data *ctx);                                                    \
	static __attribute__((always_inline)) inline int handler_of_##name(                       \
		struct bpf_perf_event_data *ctx);                                                 \
	int name(struct bpf_perf_event_data *ctx)                                                 \
	{                                                                                         \
		return samplegate_enter(ctx) ? samplegate_leave(ctx, handler_of_##name(ctx)) : 0; \
	}                                                                                         \
	static __attribute__((always_inline)) inline int handler_of_##name(                       \
		struct bpf_perf_event_data *ctx)

/*
 * Captures this sample and writes our record now, whatever the handler returns and --emit says. 0:
 * it is kept, and a later call or the return value keeps it no second time. -ENOSPC and the like:
 * the ring had no room, which is counted as lost.
 */
extern int samplegate_keep(struct bpf_perf_event_data *ctx);

/*
 * Writes bytes of your own into the same ring, at any time in the handler, as often as you like:
 * with --samples FILE they become a line {"bytes": "hexadecimal digits"} with this sample's time,
 * CPU and thread. At most SAMPLEGATE_EMIT_MAX. 0, -E2BIG, or -ENOSPC and the like: the ring had no
 * room, which nobody counts but you.
 */
#define SAMPLEGATE_EMIT_MAX 256
extern int samplegate_emit(struct bpf_perf_event_data *ctx, const void *bytes, __u32 n);

/* Which of the gates (-g) are open for this sample: bit i is that of the i-th one. */
extern __u64 samplegate_gates(void);

/* What SAMPLEGATE_HANDLER() calls. */
extern int samplegate_enter(struct bpf_perf_event_data *ctx);
extern int samplegate_leave(struct bpf_perf_event_data *ctx, int wanted);

/* ---- glitchrec: any number of probes, which say when a frame begins and ends ---- */

/*
 * Frames by a key of yours: a request's number, a pointer, a thread, 0 if there is only one. To be
 * called from kprobe, uprobe, usdt, tracepoint, raw_tp, fentry and fexit programs; the frame
 * belongs to the thread that begins it, and is closed when its process ends.
 *
 * samplegate_begin(): it begins. Begun again while it is open, it is nested: as many ends end it.
 * 0, or -ENOSPC: there was no room, which is counted.
 *
 * samplegate_glitch(): it is a glitch, now: reported at once, and saved when it ends or hangs on.
 * 0, or -ENOENT: there is no such frame. A frame that lasts longer than --threshold becomes one by
 * itself; without --threshold this is the only way.
 *
 * samplegate_end(): it ends. 0, or -ENOENT, which is counted as unbalanced.
 *
 * Before sampling begins, and after it has ended, all three do nothing and return 0.
 */
extern int samplegate_begin(__u64 key);
extern int samplegate_glitch(__u64 key);
extern int samplegate_end(__u64 key);

#endif
