#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The kernel's own samples: what a filter keeps is what stock perf reads, without a word of warning.
load lib
load filterlib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	command -v perf >/dev/null || skip "no perf"
}

# quiet_perf ARGS...: its stdout is in $T/perf
quiet_perf()
{
	HOME=$T perf "$@" >"$T/perf" 2>"$T/perr" </dev/null || fail "perf $* exited with $?"
	[ ! -s "$T/perr" ] || fail "perf $* warned: $(cat "$T/perr")"
}

# perf_has N: perf script, and perf report in several forms, read the file, which has N samples
perf_has()
{
	quiet_perf script -F comm,time -i "$T/p.data"
	[ "$(grep -c . "$T/perf")" -eq "$1" ] || fail "$(grep -c . "$T/perf") samples, not $1"
	quiet_perf report --stdio -i "$T/p.data"
	quiet_perf report --stdio --no-children --header --sort dso,sym -i "$T/p.data"
	quiet_perf script --show-task-events --show-mmap-events -i "$T/p.data"
	quiet_perf evlist -v -i "$T/p.data"
}

# Each sample of $T/p.data as "TID TIME IP IP ...", marks left out, from perf's dump.
raw_chains()
{
	quiet_perf script -D -i "$T/p.data"
	awk '
		/PERF_RECORD_SAMPLE/ {
			if (line)
				print line
			match($0, /[0-9]+\/[0-9]+: 0x/)
			split(substr($0, RSTART, RLENGTH), who, /[\/:]/)
			line = who[2] " " $2
			next
		}
		# marks between the two stacks are no addresses
		line && /^\.\.\.\.\. +[0-9]+: / && $3 !~ /^fffffffffffff/ { line = line " " $3 }
		END { if (line) print line }' "$T/perf" | sort
}

@test "--emit chain: exactly the kept samples are in the perf.data" {
	need_breakpoints
	on_function
	gp -e "$MEM" --filter 'comm == "changed"' --emit chain --perf-data "$T/p.data" -- "$STATES"
	[ "$status" -eq 0 ]
	is .kept 41
	is .filtered 56
	is .chain_written 41
	is .chain_lost 0
	perf_has 41
	quiet_perf script -F comm,ip,sym -i "$T/p.data"
	[ "$(grep -c '^changed' "$T/perf")" -eq 41 ] || fail "$(cat "$T/perf")"
	[ "$(grep -cw hit "$T/perf")" -eq 41 ] || fail "other leaves"
}

@test "--emit chain: what was decided late is in it, and what was rejected is not" {
	need_breakpoints
	on_function
	gp -e "$MEM" --filter 'stack has "path_a"' --emit chain --perf-data "$T/p.data" -- "$STATES"
	[ "$status" -eq 0 ]
	# most of them; where the machine is slow it is known before its end
	holds '.late_kept > 0 and .late_filtered > 0 and .late == .late_kept + .late_filtered'
	is .kept 49
	is .chain_written 49
	perf_has 49
	quiet_perf script -F ip,sym -i "$T/p.data"
	[ "$(grep -cw path_a "$T/perf")" -eq 49 ] || fail "not all have it"
	! grep -qw path_b "$T/perf" || fail "others are there"
}

@test "--emit both: the same samples twice, at the same time, with the same addresses" {
	grep -q bpf_cast_to_kern_ctx /proc/kallsyms || skip "no bpf_cast_to_kern_ctx"
	gp_ok --call-graph fp -e cpu-clock -F 999 --filter 'kernel || stack has "outside"' --emit both \
		--perf-data "$T/p.data" --samples "$T/samples" -- "$W/duty"
	is .chain_lost 0
	perf_has "$(field .kept)"
	holds '.kept > 100 and .filtered > 20 and .chain_written == .kept'
	raw_chains >"$T/chain"
	jq -r '[(.tid | tostring), (.time_ns | tostring)] +
		[(.kernel_ips + .user_ips)[] | ltrimstr("0x") | ("0000000000000000" + .)[-16:]] |
		join(" ")' "$T/samples" | sort >"$T/own"
	[ "$(wc -l <"$T/own")" -eq "$(field .kept)" ]
	diff "$T/own" "$T/chain" >"$T/diff" || fail "they differ: $(head -n 4 "$T/diff")"
}

@test "--emit both in a pid namespace: its numbers, in the filter and in both outputs" {
	grep -q bpf_cast_to_kern_ctx /proc/kallsyms || skip "no bpf_cast_to_kern_ctx"
	unshare --mount --pid --fork true || skip "no namespaces"
	printf '#!/bin/sh\nexec unshare --pid --fork --mount-proc %s "$@"\n' "$GP" >"$T/inside"
	chmod +x "$T/inside"
	on_function
	GP=$T/inside gp_ok --call-graph fp -e "$MEM" --filter 'pid < 100 && stack has "path_a"' --emit both \
		--perf-data "$T/p.data" --samples "$T/samples" -- "$STATES"
	is .kept 49
	is .chain_written 49
	perf_has 49
	raw_chains >"$T/chain"
	jq -r '[(.tid | tostring), (.time_ns | tostring)] +
		[(.kernel_ips + .user_ips)[] | ltrimstr("0x") | ("0000000000000000" + .)[-16:]] |
		join(" ")' "$T/samples" | sort >"$T/own"
	[ "$(awk '$1 < 100' "$T/own" | wc -l)" -eq 49 ] || fail "$(head -n 3 "$T/own")"
	diff "$T/own" "$T/chain" >"$T/diff" || fail "they differ: $(head -n 4 "$T/diff")"
	quiet_perf script -F ip,sym -i "$T/p.data"
	[ "$(grep -cw path_a "$T/perf")" -eq 49 ] || fail "not all have it"
}

@test "several events in one perf.data, each with its filter" {
	need_breakpoints
	on_function
	gp -e "$MEM" --filter 'policy == batch' -e page-faults --filter \
		'addr in 0x600000000000..0x600000060fff' -c 1 --emit chain --perf-data "$T/p.data" \
		-- "$STATES"
	[ "$status" -eq 0 ]
	is '.events[0].kept' 20
	is '.events[1].kept' 97
	perf_has 117
	quiet_perf script -F event -i "$T/p.data"
	[ "$(grep -c page-faults "$T/perf")" -eq 97 ] || fail "$(sort "$T/perf" | uniq -c)"
}

@test "a full ring loses samples of the perf.data, and that is counted" {
	gp -e cpu-clock -c 20000 -m 1 --filter 'comm == "spin"' --emit chain \
		--perf-data "$T/p.data" -- "$W/spin" -t 600
	[ "$status" -eq 0 ]
	holds '.chain_lost > 0'
	assert_says "of the kernel's own records lost"
	holds '.kept == .chain_written + .chain_lost and .chain_written > 0'
}

@test "no perf.data is left by a run that fails" {
	gp -e cpu-clock --filter 'comm == "x"' --emit chain --perf-data "$T/p.data" -- /nonexistent
	[ "$status" -eq 1 ]
	[ ! -e "$T/p.data" ]
	gp -e cpu-clock --filter 'comm == "x"' --emit chain --perf-data /dev/stdout -- true
	[ "$status" -ne 0 ] || fail "a pipe"
}
