#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# From the command line to sampling with every probe attached, and bpftrace with a probe at the same
# place: there until the first time that it says something.
. "$(dirname "$0")/lib.bash"

background "$B/calls" -u 1000

us()
{
	echo "${EPOCHREALTIME/[.,]/}"
}

# ours GP-ARGS: prints the milliseconds until it is ready
ours()
{
	local from

	from=$(us)
	gp_start "$@"
	calc "($(us) - $from) / 1000"
	gp_stop
}

# theirs PROGRAM: prints the milliseconds until bpftrace's first "hit"
theirs()
{
	local from line

	from=$(us)
	timeout 30 bpftrace -e "$1" 2>/dev/null </dev/null 7>&- 8>&- | while read -r line; do
		[ "$line" = hit ] && calc "($(us) - $from) / 1000"
	done
}

probe=uprobe:$B/calls:gated
ours -a -g "u:$B/calls:gated" >"$T/ours"
value start "$(cat "$T/ours")" ms
ours -a -g u:libc.so.6:malloc >"$T/libc"
value start_libc "$(cat "$T/libc")" ms
have bpftrace || exit 0
bpftrace=$(theirs "$probe { printf(\"hit\n\"); exit(); }")
value start_bpftrace "$bpftrace" ms
value start_ratio "$(calc "${bpftrace:-0} / $(cat "$T/ours")" %.3f)" times
value start_bpftrace_same "$(theirs "$probe { @in[tid] = 1; printf(\"hit\n\"); exit(); }
	uretprobe:$B/calls:gated { delete(@in[tid]); }
	profile:hz:99 /@in[tid]/ { @[ustack, kstack] = count(); }")" ms
