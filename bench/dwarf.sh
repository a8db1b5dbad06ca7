#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Stacks of code without frame pointers: perf record --call-graph dwarf, which copies 8 KiB of stack
# for each sample and unwinds it in perf script; and gatedprof --call-graph dwarf, where it has that.
# CPU time from start to folded or printed stacks, bytes written, and how many stacks go down to main.
. "$(dirname "$0")/lib.bash"

hz=${BENCH_HZ:-4999}
seconds=${BENCH_SECONDS:-10}
cpu=$(($(nproc) - 1))
frames=26
background "$B/load" -f -p -d $frames -c "$cpu" -t 60000
load=${OURS[-1]}

# whole: the percentage of stacks on stdin, "COUNT;frame;...", that have main and every frame
whole()
{
	awk -F ';' -v frames=$frames '{
		descends = gsub(/;descend_plain/, "&")
		total += $1
		if (/;main(;|$)/ && descends == frames + 1)
			whole += $1
	} END { if (total) printf "%.1f\n", 100 * whole / total }'
}

if "$GP" --help | grep -q -e '--call-graph'; then
	from=${EPOCHREALTIME/[.,]/}
	gp_start -p "$load"
	plain=$((${EPOCHREALTIME/[.,]/} - from))
	gp_stop
	empty_start -s stats
	from=${EPOCHREALTIME/[.,]/}
	gp_start_measured -p "$load" -F "$hz" --call-graph dwarf
	value dwarf_tables "$(calc "(${EPOCHREALTIME/[.,]/} - $from - $plain) / 1000")" ms
	pause "$seconds"
	"$B/bpfstat" "$TOOL_PID" >"$T/stat"
	gp_stop
	empty_stop
	read -r user system _ <"$T/usage"
	value dwarf_cpu "$(calc "($user + $system) / $(sum kept)" %.1f)" us
	value dwarf_bytes "$(calc "$(stat -c %s "$T/folded") / $(sum kept)" %.0f)" bytes
	value dwarf_whole "$(sed -n 's/^load;\(.*\) \([0-9]*\)$/\2;\1/p' "$T/folded" | whole)" %
	value dwarf_program "$(calc "$(per_run sample_ <"$T/stat") / ($frames + 5)")" ns
else
	missing 'gatedprof --call-graph dwarf' 'this build has none'
fi

have perf || exit 0
perf_start -p "$load" --call-graph dwarf -e cpu-clock -F "$hz"
pause "$seconds"
other_stop
end_background
read -r user system _ <"$T/usage"
record=$((user + system))
"$B/rusage" "$T/usage" perf script --no-inline -i "$T/perf.data" -F comm,ip,sym >"$T/script" 2>/dev/null
read -r user system _ <"$T/usage"
awk '/^[^ \t]/ { comm = $1; stack = ""; next }
	/^$/ { if (comm == "load") print "1" stack; comm = ""; next }
	{ $1 = ""; stack = ";" substr($0, 2) stack }' "$T/script" >"$T/stacks"
samples=$(wc -l <"$T/stacks")
[ "$samples" -gt 0 ] || give_up "perf took no sample"
value dwarf_cpu_perf "$(calc "($record + $user + $system) / $samples")" us
value dwarf_bytes_perf "$(calc "$(stat -c %s "$T/perf.data") / $samples" %.0f)" bytes
value dwarf_whole_perf "$(whole <"$T/stacks")" %
