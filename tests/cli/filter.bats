#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# overflowfilter's command line: what it refuses, with which code and words.

bats_require_minimum_version 1.5.0

setup()
{
	OF=${OVERFLOWFILTER:-${SG_BUILD:-build}/overflowfilter}
	T=$BATS_TEST_TMPDIR
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# refuses CODE ERE ARGS...: exit code, nothing on stdout, and the words on stderr
refuses()
{
	local status=0

	"$OF" "${@:3}" >"$T/out" 2>"$T/err" </dev/null || status=$?
	[ "$status" -eq "$1" ] || { echo "exit code $status, not $1: ${*:3}" >&2; return 1; }
	[ ! -s "$T/out" ] || { echo "wrote to stdout: ${*:3}" >&2; return 1; }
	grep -qE -e "^overflowfilter: $2" "$T/err" || { cat "$T/err" >&2; return 1; }
}

# caret COLUMN FILTER: the caret is under that column of the filter, which is the line before it
caret()
{
	refuses 2 "filter, column $1: " --filter "$2"
	[ "$(wc -l <"$T/err")" -eq 3 ] || return 1
	[ "$(sed -n 2p "$T/err")" = "  $2" ] || return 1
	[ "$(sed -n 3p "$T/err")" = "$(printf '  %*s' "$1" '^')" ] || { cat "$T/err" >&2; return 1; }
}

@test "errors in a filter, with a caret under the place" {
	caret 1 'comn == "x"'
	caret 9 'user && kernal'
	caret 12 'mem_lvl == l5'
	caret 9 'comm == "x'
	caret 10 '(user || k)'
	caret 8 'prio < 140'
	caret 6 'user user'
}

@test "deep parentheses are an error, and a clear one" {
	refuses 2 'filter.*(parenthes|long|deep)' --filter \
		"$(printf '(%.0s' {1..10000})user$(printf ')%.0s' {1..10000})"
}

@test "what does not go together" {
	refuses 2 'no filter: .*--filter' -a 1
	refuses 2 '--filter: a second filter for one event' --filter user --filter kernel
	refuses 2 "--emit 'none': not one of own, chain, both" --filter user --emit none
	refuses 2 '--emit chain and both need --perf-data FILE' --filter user --emit chain
	refuses 2 '--perf-data is about the kernel.s samples' --filter user --perf-data x
	refuses 2 '-o gets nothing from --emit chain: .*--emit both' \
		--filter user --emit chain --perf-data x -o y
	refuses 2 '--samples gets nothing from --emit chain' \
		--filter user --emit chain --perf-data x --samples y
	refuses 2 '--scope is about a gate' --filter user --scope cpu
	refuses 2 '-g is for the handler of an --object: .* inside "syscall:read"' \
		--filter user -g syscall:read 1
	refuses 2 "argument '==': a filter is one word for the shell: .*in quotes" --filter comm == x
}

@test "what this kernel or event does not have names what is missing" {
	refuses 3 'filter, column 9: weight > 1 needs (PERF_SAMPLE_WEIGHT|the kernel)' \
		-e cpu-clock --filter 'user && weight > 1' -a 1
	refuses 3 'filter, column 1: addr > 1 needs ' -e cpu-clock --filter 'addr > 1' -a 1
}

@test "what a filter names and is not there is shown in the filter" {
	refuses 1 'filter, column 9: no function .nothing. in ' -a --filter 'user && inside "u:/bin/true:nothing"' 1
	[ "$(sed -n 3p "$T/err")" = "          ^" ]
	refuses 1 'filter, inside: no function .nothing. in ' -a \
		--filter 'inside "syscall:read" || inside "u:/bin/true:nothing"' 1
	grep -q ' cgroup2 ' /proc/mounts || return 0
	refuses 1 'filter, column 9: cannot open the cgroup .*nothing-of-this' -a \
		--filter 'user && cgroup under "/nothing-of-this"' 1
	[ "$(sed -n 3p "$T/err")" = "          ^" ]
	refuses 2 "filter, column 11: there is no cgroup '/nothing-of-this'" -a \
		--filter 'cgroup == "/nothing-of-this"' 1
}

@test "--explain runs nothing, and --dry-run is the same" {
	run -0 "$OF" --explain --filter '!user && (cpu == 1 || comm ~ "a*")'
	[[ ${lines[0]} == filter: ]]
	[[ $output == *"1. user"*"true: drop"* ]]
	explained=$output
	run -0 "$OF" --dry-run --filter '!user && (cpu == 1 || comm ~ "a*")' -- /nonexistent
	[ "$output" = "$explained" ]
	run -0 "$OF" --explain --reorder --filter 'stack has "x" && user'
	[[ $output == *"1. user"*"2. stack has"* ]]
}

@test "-h and -V" {
	run -0 "$OF" -h
	[[ $output == *--filter=EXPR* ]]
	run -0 "$OF" -V
	[[ $output == "overflowfilter "* ]]
}
