/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_API_BPF_H
#define SAMPLEGATE_API_BPF_H

/*
 * To be included first by what is linked to users' objects (TOOL_api.bpf.c): there all our names
 * begin with samplegate_, so that users have all others. A map samplegate_NAME is the tool's map
 * NAME (objectfile_share_all()).
 *
 * Sections of data are merged when objects are linked: what the tool's programs share in .bss can't
 * be shared with those, what is in a section of its own (.data.NAME) can.
 */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define blocks		     samplegate_blocks
#define counters	     samplegate_counters
#define cpu_scopes	     samplegate_cpu_scopes
#define fast_frames	     samplegate_fast_frames
#define frame_block_settle   samplegate_frame_block_settle
#define frame_cfg	     samplegate_frame_cfg
#define frame_control	     samplegate_frame_control
#define frame_counts	     samplegate_frame_counts
#define frame_enter	     samplegate_frame_enter
#define frame_leave	     samplegate_frame_leave
#define frame_next	     samplegate_frame_next
#define frame_pass	     samplegate_frame_pass
#define frame_places	     samplegate_frame_places
#define frame_processes	     samplegate_frame_processes
#define frame_thread_enter   samplegate_frame_thread_enter
#define frame_thread_leave   samplegate_frame_thread_leave
#define frame_threads	     samplegate_frame_threads
#define frames		     samplegate_frames
#define frames_changing	     samplegate_frames_changing
#define frames_passed	     samplegate_frames_passed
#define gate_bucket	     samplegate_gate_bucket
#define gate_check_plain     samplegate_gate_check_plain
#define gate_check_vma	     samplegate_gate_check_vma
#define gate_control	     samplegate_gate_control
#define gate_infos	     samplegate_gate_infos
#define gate_level_find	     samplegate_gate_level_find
#define gate_levels_forget   samplegate_gate_levels_forget
#define gate_levels_pop	     samplegate_gate_levels_pop
#define gate_stats	     samplegate_gate_stats
#define gate_undo	     samplegate_gate_undo
#define gate_user_word	     samplegate_gate_user_word
#define levels		     samplegate_levels
#define no_block	     samplegate_no_block
#define notices		     samplegate_notices
#define openings	     samplegate_openings
#define rings		     samplegate_rings
#define scope_opens	     samplegate_scope_opens
#define scopes		     samplegate_scopes
#define scratch		     samplegate_scratch
#define start_closed	     samplegate_start_closed
#define target_cgroup	     samplegate_target_cgroup
#define targets		     samplegate_targets
#define unwind_chunks	     samplegate_unwind_chunks
#define unwind_fetch	     samplegate_unwind_fetch
#define unwind_find	     samplegate_unwind_find
#define unwind_at_probe_call samplegate_unwind_at_probe_call
#define unwind_fits	     samplegate_unwind_fits
#define unwind_in_register   samplegate_unwind_in_register
#define unwind_odd	     samplegate_unwind_odd
#define unwind_procs	     samplegate_unwind_procs
#define unwind_probe_leaf    samplegate_unwind_probe_leaf
#define unwind_pushed	     samplegate_unwind_pushed
#define unwind_rule_of	     samplegate_unwind_rule_of
#define unwind_rules	     samplegate_unwind_rules
#define unwind_saved_there   samplegate_unwind_saved_there
#define unwind_settle	     samplegate_unwind_settle
#define unwind_signal	     samplegate_unwind_signal
#define unwind_spans	     samplegate_unwind_spans
#define unwind_step	     samplegate_unwind_step
#define unwind_walk	     samplegate_unwind_walk
#define unwind_walkers	     samplegate_unwind_walkers

#endif
