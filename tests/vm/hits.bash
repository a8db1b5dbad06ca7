# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# hits N RUN...   RUN is a command that runs a tool under a breakpoint that is hit N times in all. An
#                 emulated CPU has lost a hit, once in hundreds of runs: the event itself had counted one
#                 less, which is what the tool reported. Such a run says nothing, and is repeated, twice
#                 at most, which is printed. What the tool does not account for is no such case: the
#                 last run is judged, whatever it counted.

hits()
{
	local want=$1 try counted

	shift
	for try in 1 2 3; do
		"$@"
		[ -s "$T/sum.json" ] || return 0
		counted=$(field '.seen + .missed')
		[ "$counted" -lt "$want" ] || return 0
		echo "# try $try: the events have counted $counted of $want hits" >&3
	done
}
