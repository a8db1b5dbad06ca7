#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A program has slow frames, on CPUs that are busy. How long after the end of one can its stacks be
# used, how many bytes were written for all of them, and how much CPU time was used from start to
# end: glitchrec, and perf record --overwrite --switch-output, with as large rings, to which the
# program sends a signal when a frame was slow. Stacks can be used when they are folded.
. "$(dirname "$0")/lib.bash"

glitches=${BENCH_GLITCHES:-4}
# Ours has to have its whole history of 8 s before the first glitch, to be fair to its limit.
ours=(-w 8200 -n "$glitches" -e 300) theirs=(-w 2000 -n "$glitches" -e 1200)

for ((cpu = 0; cpu < $(nproc); cpu++)); do
	background "$B/load" -c "$cpu" -t 600000
done

gr_start -g "u:$B/slow:frame" --threshold 20ms --history 8s
"$B/slow" "${ours[@]}" >"$T/ends"
gp_stop
# An end is when the workload says; on a busy machine some more frames are slow, of which it says
# nothing.
jq -r 'select(.type == "glitch" and .file != null and .state == "ended") | "\(.end) \(.file)"' \
	"$T/gl/index.jsonl" | sort -u -k2,2 | while read -r end file; do
	echo "$(date -d "$end" +%s.%N) $(stat -c %.9Y "$T/gl/$file")"
done | awk 'FNR == NR { end[++n] = $1; next }
	{
		# $1 is when the kernel saw it end: which of the workload is that?
		for (i = 1; i <= n; i++)
			if ($1 - end[i] < 0.01 && end[i] - $1 < 0.01)
				printf "%.3f\n", ($2 - end[i]) * 1000
	}' "$T/ends" - >"$T/delay"
value glitch_missed $((glitches - $(wc -l <"$T/delay"))) glitches
value glitch_file "$(median <"$T/delay")" ms
value glitch_file_slowest "$(sort -g "$T/delay" | tail -n 1)" ms
value glitch_bytes "$(calc "$(du -sb "$T/gl" | cut -f 1) / 1024")" KiB
value glitch_cpu "$(awk '{ print ($1 + $2) / 1000 }' "$T/usage")" ms

have perf || exit 0

# What stackcollapse scripts do, as short as it can be.
fold='perf script --no-inline -i "$1" -F comm,ip,sym 2>/dev/null | awk "
	/^[^ \t]/ { comm = \$1; stack = \"\"; next }
	/^\$/ { if (comm != \"\") n[comm stack]++; comm = \"\"; next }
	{ \$1 = \"\"; stack = \";\" substr(\$0, 2) stack }
	END { for (k in n) print k, n[k] }"'

# perf says "Dump FILE" when a file is whole; that is folded at once, and by when is noted.
folder()
{
	local line dump

	while read -r line; do
		[[ $line =~ Dump\ ([^ ]*perf\.data\.[0-9]+) ]] || continue
		dump=${BASH_REMATCH[1]}
		"$B/rusage" "$T/usage.one" sh -c "$fold" sh "$dump" >"$T/folded.one"
		[ -s "$T/folded.one" ] || continue
		echo "$EPOCHREALTIME $(stat -c '%.6Y %s' "$dump") $(cat "$T/usage.one")" >>"$T/dumps"
	done <"$T/told"
}

: >"$T/dumps"
mkfifo "$T/told"
background folder
folder_pid=${OURS[-1]}
"$B/rusage" "$T/usage" perf record -a -g -e cpu-clock -F 999 -m 2M --overwrite \
	--switch-output=signal -o "$T/perf.data" >/dev/null 2>"$T/told" </dev/null 7>&- 8>&- &
OTHER_PID=$!
pause 1
read -r perf_pid _ <"/proc/$OTHER_PID/task/$OTHER_PID/children"
"$B/slow" "${theirs[@]}" -k "$perf_pid" >"$T/ends"
stop=$EPOCHREALTIME
other_stop
wait "$folder_pid"
end_background
# A dump is for the last glitch before it was written, and what perf writes at its end is for none.
# While it writes one, it is deaf to the next.
awk -v stop="$stop" 'FNR == NR { end[++n] = $1; next }
	$2 < stop {
		for (i = n; i > 1 && end[i] > $2; i--)
			;
		if (!seen[i]++)
			printf "%.3f %d %d\n", ($1 - end[i]) * 1000, $3, $4 + $5
	}' "$T/ends" "$T/dumps" >"$T/delay"
value glitch_missed_perf $((glitches - $(wc -l <"$T/delay"))) glitches
value glitch_file_perf "$(cut -d ' ' -f 1 "$T/delay" | median)" ms
value glitch_bytes_perf "$(awk '{ n += $2 } END { print n / 1024 }' "$T/delay")" KiB
value glitch_cpu_perf "$(awk -v us="$(awk '{ print $1 + $2 }' "$T/usage")" \
	'{ us += $3 } END { print us / 1000 }' "$T/delay")" ms
