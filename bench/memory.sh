#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# once
# The tool's peak of resident memory: everything on the machine at 999 Hz, with programs that have
# deep stacks, many symbols, and short lives.
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-60}

busy_shell()
{
	while :; do
		find /usr/lib -type f 2>/dev/null | sort | gzip -c | wc -c
		for i in {1..50}; do
			/bin/true "$i"
		done
	done
}

busy_compiler()
{
	while :; do
		${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -Iinclude -Ilib -O2 -c lib/names/symbolize.c \
			-o "$T/busy.o" || sleep 1
	done
}

gp_start_measured -a -F 999
background "$B/load" -t 3600000
background busy_shell
background busy_compiler
pause "$seconds"
gp_stop
end_background
read -r user system peak _ <"$T/usage"
value memory "$(calc "$peak / 1024")" MB
note "$(sum kept) samples kept, $(sum lost) lost, $(wc -l <"$T/folded") different stacks;" \
	"CPU of the tool: $(calc "($user + $system) / 10000 / $seconds" %.2f) % of one"
