#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What glitchrec costs while there is no glitch: awake at all, for a sample (next to perf record
# --overwrite), at a frame's begin and end (above empty programs).
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-3}
cpu=$(($(nproc) - 1))

# --- asleep: fast frames only ---

gr_start -g "u:$B/slow:frame" --threshold 16ms
background "$B/slow" -w $((seconds * 1000 + 3000)) -n 0
# That a program has begun costs something, once.
pause 1
before=$(used_ns "$GP_PID")
pause "$seconds"
after=$(used_ns "$GP_PID")
gp_stop
end_background
value recorder_idle "$(calc "($after - $before) / ($seconds * 1e9) * 100" %.3f)" %

# --- a sample: how long the program is interrupted, less an empty program's tick ---

interrupt()
{
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/$1" 7>&- 8>&- 9>&-
}

interrupt gaps.none
empty_start tick 4999
interrupt gaps
empty_stop
tick=$(interruption)
gr_start -C "$cpu" -F 4999 -g "u:$B/calls:gated" --threshold 1s
interrupt gaps
gp_stop
value recorder_sample "$(calc "$(interruption) - $tick" %.0f)" ns
if have perf; then
	perf_start -C "$cpu" -g -e cpu-clock -F 4999 --overwrite --switch-output=signal
	interrupt gaps
	other_stop
	value recorder_sample_perf "$(calc "$(interruption) - $tick" %.0f)" ns
fi

# --- the programs at a frame's begin and end, above empty ones ---

# ends NAME SPEC OPEN CLOSE: the names of our programs
ends()
{
	empty_start -s stats
	gr_start -g "$2" --threshold 1s
	"$B/calls" -n 300 -r 9 >/dev/null
	"$B/bpfstat" "$TOOL_PID" >"$T/stat"
	gp_stop
	empty_stop
	value "$1_begin" "$(calc "$(per_run "$3" <"$T/stat") - $empty_open")" ns
	value "$1_end" "$(calc "$(per_run "$4" <"$T/stat") - $empty_ret")" ns
}

empty_start -s probe "$B/calls" gated
"$B/calls" -n 300 -r 9 >/dev/null
empty_stop
empty_open=$(per_run empty_open <"$T/empty") empty_ret=$(per_run empty_ret <"$T/empty")
ends recorder_function "u:$B/calls:gated" frame_open_ frame_ret_
ends recorder_pair "u:$B/calls:gated..u:$B/calls:gated_leaf" probe_open probe_close
