#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# From the command line to sampling with every probe attached, and bpftrace with a probe at the same
# place: there until the first time that it says something.
. "$(dirname "$0")/lib.bash"

rounds=${BENCH_ROUNDS:-7}
background "$B/calls" -u 1000

us()
{
	echo "${EPOCHREALTIME/[.,]/}"
}

# bpftrace_start PROGRAM: prints the milliseconds until its first "hit"
bpftrace_start()
{
	local from line

	from=$(us)
	timeout 30 bpftrace -e "$1" 2>/dev/null </dev/null 7>&- 8>&- | while read -r line; do
		[ "$line" = hit ] && calc "($(us) - $from) / 1000"
	done
}

probe=uprobe:$B/calls:gated
for ((r = 0; r < rounds; r++)); do
	from=$(us)
	gp_start -a -g "u:$B/calls:gated"
	calc "($(us) - $from) / 1000" >>"$T/ours"
	gp_stop
	from=$(us)
	gp_start -a -g u:libc.so.6:malloc
	calc "($(us) - $from) / 1000" >>"$T/libc"
	gp_stop
	command -v bpftrace >/dev/null || continue
	bpftrace_start "$probe { printf(\"hit\\n\"); exit(); }" >>"$T/theirs"
	bpftrace_start "$probe { @in[tid] = 1; printf(\"hit\\n\"); exit(); }
		uretprobe:$B/calls:gated { delete(@in[tid]); }
		profile:hz:99 /@in[tid]/ { @[ustack, kstack] = count(); }" >>"$T/same"
done
ours=$(median <"$T/ours")
result start "$ours" "ms" 100
result start_libc "$(median <"$T/libc")" "ms, for libc:malloc" 100
if have bpftrace && [ -s "$T/theirs" ]; then
	theirs=$(median <"$T/theirs")
	result start_bpftrace "$(calc "$theirs / $ours")" "times as fast as bpftrace ($theirs ms)" '>=3'
	note "bpftrace with a program that does what the gate does: $(median <"$T/same") ms"
fi
