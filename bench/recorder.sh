#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What glitchrec costs while there is no glitch, and how long after the end of one its file is there;
# next to perf record --overwrite, which has to be told of a glitch by a signal.
. "$(dirname "$0")/lib.bash"

GR=$SG_BUILD/glitchrec
W=$SG_BUILD/workloads
seconds=${BENCH_SECONDS:-5}
rounds=${BENCH_ROUNDS:-3}
cpu=$(($(nproc) - 1))

# gr_start ARGS...: as gp_start; TOOL_PID is the tool's own
gr_start()
{
	rm -rf "$T/sum.json" "$T/gl"
	"$B/rusage" "$T/usage" "$GR" -q -o "$T/gl" --summary "$T/sum.json" --ready-fd 7 "$@" \
		>/dev/null 2>"$T/err" </dev/null &
	GP_PID=$!
	read -r -t 20 -u 7 _ || give_up "glitchrec $* was not ready"
	read -r TOOL_PID <"/proc/$GP_PID/task/$GP_PID/children"
	TOOL_PID=${TOOL_PID%% *}
}

# --- asleep: fast frames only ---

for ((r = 0; r < rounds; r++)); do
	gr_start -g "u:$W/frames:frame" --threshold 16ms
	before=$(used_ns "$GP_PID")
	"$W/frames" -t $((seconds * 1000)) fast >/dev/null
	after=$(used_ns "$GP_PID")
	gp_stop
	calc "($after - $before) / ($seconds * 1e9) * 100" %.3f >>"$T/idle"
done
result recorder_idle "$(median <"$T/idle")" "% of a CPU, fast frames, 999 Hz on all CPUs" 0.1

# --- a sample: how long the program is interrupted, less an empty program's tick ---

for ((r = 0; r < rounds; r++)); do
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps.none" 7>&- 8>&- 9>&-
	for name in empty ours perf; do
		case $name in
		empty) empty_start tick 4999 ;;
		ours) gr_start -C "$cpu" -F 4999 -g "u:$B/calls:gated" --threshold 1s ;;
		perf)
			have perf || continue
			perf record -q -C "$cpu" -g -e cpu-clock -F 4999 --overwrite \
				--switch-output=signal -o "$T/perf.data" >/dev/null 2>&1 </dev/null 7>&- 8>&- &
			pid=$!
			sleep 1
			;;
		esac
		"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps" 7>&- 8>&- 9>&-
		interruption >>"$T/$name.sample"
		case $name in
		empty) empty_stop ;;
		ours) gp_stop ;;
		perf) kill -TERM "$pid" && wait "$pid" ;;
		esac
	done
done
tick=$(median <"$T/empty.sample")
ours=$(calc "$(median <"$T/ours.sample") - $tick" %.0f)
[ ! -s "$T/perf.sample" ] || result recorder_sample "$ours" "ns above the tick" \
	"$(calc "$(median <"$T/perf.sample") - $tick" %.0f)"

# --- the programs at a frame's begin and end, above empty ones ---

for ((r = 0; r < rounds; r++)); do
	empty_start -s probe "$B/calls" gated
	"$B/calls" -n 300 -r 9 >/dev/null
	empty_stop
	empty_start -s stats
	gr_start -g "u:$B/calls:gated" --threshold 1s
	"$B/calls" -n 300 -r 9 >/dev/null
	"$B/bpfstat" "$TOOL_PID" >"$T/stat"
	gp_stop
	calc "$(per_run frame_open_ <"$T/stat") - $(per_run empty_open <"$T/empty")" >>"$T/begin"
	calc "$(per_run frame_ret_ <"$T/stat") - $(per_run empty_ret <"$T/empty")" >>"$T/end"
	empty_stop
done
result recorder_begin "$(median <"$T/begin")" "ns above an empty program" 300
result recorder_end "$(median <"$T/end")" "ns above an empty program" 300

# --- from a glitch's end to its whole file, a history of 8 s ---

gr_start -g "u:$W/frames:frame" --threshold 10ms --history 8s
"$W/frames" -t 3000 fast >/dev/null
"$W/frames" mix >/dev/null
gp_stop
jq -r 'select(.type == "glitch" and .file != null and .state == "ended") | "\(.end) \(.file)"' \
	"$T/gl/index.jsonl" | sort -u -k2,2 | while read -r end file; do
	calc "($(stat -c %.9Y "$T/gl/$file") - $(date -d "$end" +%s.%N)) * 1000"
done >"$T/delay"
result recorder_file "$(median <"$T/delay")" "ms from a glitch's end to its file" 50
note "$(wc -l <"$T/delay") glitches, the slowest file $(sort -g "$T/delay" | tail -n 1) ms;" \
	"$(du -sb "$T/gl" | cut -f1) bytes, $(awk '{ print ($1 + $2) / 1000 }' "$T/usage") ms of CPU time"

# --- perf, told by a signal at the end of a slow frame ---

have perf || exit 0
"$B/rusage" "$T/usage" perf record -q -a -g -e cpu-clock -F 999 --overwrite --switch-output=signal \
	-o "$T/perf.data" >/dev/null 2>&1 </dev/null 7>&- 8>&- &
pid=$!
sleep 4
read -r perf_pid <"/proc/$pid/task/$pid/children"
from=$(date +%s.%N)
kill -USR2 "${perf_pid%% *}"
until dump=$(find "$T" -name 'perf.data.2*' | head -n 1) && [ -n "$dump" ] &&
	perf script -i "$dump" 2>/dev/null | awk 'NF == 0 { n++ } END { exit !n }'; do :; done
note "perf: one dump to stacks that can be folded took $(calc "($(date +%s.%N) - $from) * 1000" %.0f)" \
	"ms, $(stat -c %s "$dump") bytes"
kill -TERM "$pid" && wait "$pid"
note "perf: $(awk '{ print ($1 + $2) / 1000 }' "$T/usage") ms of CPU time without perf script"
