#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Each term, on samples of known states: exactly those that it is about are kept, and `!` keeps
# exactly the others. Terms that no event of this machine can feed (weights, memory levels,
# branches, transactions) are in filter.bats, by test-run of the same evaluator.
load lib
load filterlib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# has_data: the kernel's own sample data can be had
has_data()
{
	grep -q bpf_cast_to_kern_ctx /proc/kallsyms
}

@test "comm, changed 41 times" {
	on_function
	hits 'comm == "changed"' 41
	hits 'comm ~ "ch*d"' 41
	hits 'comm in {"nobody", "changed"}' 41
	hits 'comm != "changed"' 56
}

@test "cpu, pinned 53 and 44 times" {
	[ "$(nproc)" -ge 2 ] || skip "one CPU"
	on_function
	gp_ok -e "$MEM" --filter user -- "$STATES"
	first=$(number first "$T/cmd")
	second=$(number second "$T/cmd")
	hits "cpu == $first" 53
	hits "cpu in {$second}" 44
	hits "cpu in $first..$first" 53
}

@test "user and kernel mode" {
	on_word
	word_hits user 72
	word_hits kernel "$KERNEL"
}

@test "prio and policy" {
	on_function
	hits 'prio == 125' 33
	hits 'prio < 125' 64
	hits 'policy == batch' 20
	hits 'policy == other' 77
}

@test "real user and group" {
	on_function
	hits 'uid == 4343' 9
	hits 'uid == root' 88
	hits 'gid == 4242' 8
	hits 'gid == root' 89
}

@test "ip, as a number and by symbol" {
	on_word
	word_hits 'ip in "store_even"' 24
	word_hits 'ip in "store_odd"' 48
	word_hits 'ip in DSO "states"' 72
	word_hits 'ip >= 0x8000000000000000' "$KERNEL"
	word_hits 'ip in DSO "[kernel]"' "$KERNEL"
}

@test "any frame of the stack" {
	on_function
	hits 'stack has "path_a"' 49
	hits 'stack has "path_[b]"' 48
	on_word
	word_hits 'stack has "store_o*" || stack has "vfs_read"' $((48 + KERNEL))
}

@test "a gate as a term" {
	[ -e /sys/bus/event_source/devices/uprobe ] || skip "no uprobes"
	on_function
	hits "inside \"u:$STATES:path_a\"" 49
	hits "!inside \"u:$STATES:path_b\"" 49
	gp_ok -e "$MEM" --scope process --filter "inside \"u:$STATES:path_a\"" -- "$STATES"
	is .kept 49
	is '.gates[0].scope' process
}

@test "a gate counts what is kept, decided late or not" {
	on_function
	# A process that has just begun: what its stack has is found out later.
	gp_ok -e "$MEM" --filter "(inside \"u:$STATES:path_a\" || user) && stack has \"path_a\"" \
		-- "$STATES"
	is .kept 49
	holds '.late_filtered > 0'
	is '.gates[0].kept' 49
	gp_ok -e "$MEM" --filter "(inside \"u:$STATES:path_a\" || user) && stack has \"path_b\"" \
		-- "$STATES"
	is .kept 48
	holds '.late_filtered > 0'
	is '.gates[0].kept' 0
}

@test "every N, on each CPU by itself" {
	[ "$(nproc)" -ge 2 ] || skip "one CPU"
	on_function
	hits 'every 3' 31
	hits 'every 1' 97
	# only what reaches it is counted: 41 changed ones, wherever they ran
	gp_ok -e "$MEM" --filter 'comm == "changed" && every 2' -- "$STATES"
	holds '.terms[1] | .true == 20 and .false == 21'
}

@test "random, true for a share" {
	on_function
	gp -e "$MEM" --filter 'random 0.5' -- "$STATES"
	assert_done
	within "$(field .kept)" 97 0.5
	holds '.kept == .terms[0].true and .filtered == .terms[0].false'
	gp -e "$MEM" --filter '!random 0.5' -- "$STATES"
	assert_done
	within "$(field .kept)" 97 0.5
	holds '.kept == .terms[0].false and .filtered == .terms[0].true'
}

@test "period, time and elapsed time" {
	on_function
	hits 'period == 1' 97
	hits 'period > 1' 0
	gp_ok -e "$MEM" --filter 'time > 0' -- "$STATES"
	is .kept 97
	# longer than any run
	gp -e "$MEM" --filter 'time > 5h' -- "$STATES"
	[ "$status" -eq 4 ]
	is .filtered 97
	# `states` burns so long before its first call
	gp_ok -e "$MEM" --filter 'time > 200ms' -- "$STATES" -p 300
	is .kept 97
	# some before a moment, some after it
	split 'time > 700ms' -- "$W/spin" -t 1500
	split "time > $(awk '{ printf "%.0f", ($1 + 3) * 1e9 }' /proc/uptime)" -- "$W/spin" -t 5000
	# the first sample of an event with a rate stands for one hit, others for as many as there are
	MEM="mem:0x$(nm "$W/hot" | awk '$3 == "tap" { print $1 }'):x"
	gp_ok -e "$MEM" -F 50 --filter 'period == 1' -e "$MEM" --filter '!(period == 1)' \
		-- "$W/hot" -t 1000
	holds '.events | all(.kept > 0 and .filtered > 0 and .seen == .kept + .filtered)'
}

@test "pid, tid and ppid" {
	local pid

	on_function
	wl s "$STATES"
	pid=$(wl_pid s)
	gp_start -p "$pid" -e "$MEM" --filter "pid == $pid" -e "$MEM" --filter "tid != $pid" \
		-e "$MEM" --filter "ppid == $$ || ppid == $BASHPID"
	wl_go s
	wl_wait s
	gp_wait
	assert_done
	is '.events[0].kept' 97
	is '.events[1].kept' 0
	is '.events[2].kept' 97
}

# of_two FILTER: of two processes that do the same, $FIRST and $SECOND, FILTER is about one
of_two()
{
	local expr

	printf '#!/bin/sh\n"%s" "$@"\nexit $?\n' "$STATES" >"$T/parent"
	chmod +x "$T/parent"
	wl a "$STATES"
	wl b "$T/parent"
	FIRST=$(wl_pid a)
	SECOND=$(xargs <"/proc/$(wl_pid b)/task/$(wl_pid b)/children")
	PARENT=$(wl_pid b)
	expr=$(eval "echo \"$1\"")
	gp_start -p "$FIRST,$SECOND" -e "$MEM" --filter "$expr" -e "$MEM" --filter "!($expr)"
	wl_go a
	wl_go b
	wl_wait a
	wl_wait b
	gp_wait
	assert_done
	holds '.events | all(.seen == 194 and .kept == 97 and .filtered == 97)'
	is .late 0
	rm -f "$T"/[ab].* "$T/ready"
}

@test "one of two processes, by pid, tid and parent" {
	on_function
	of_two 'pid == $FIRST'
	of_two 'pid in {1, $SECOND}'
	of_two 'tid == $FIRST'
	of_two 'ppid == $PARENT'
	of_two 'pid under $PARENT'
}

@test "addresses of page faults" {
	gp_ok -e page-faults -c 1 \
		--filter 'addr >= 0x600000000000 && addr < 0x600000028000' \
		-e page-faults --filter '!(addr >= 0x600000000000 && addr < 0x600000028000)' -- "$STATES"
	is '.events[0].kept' 40
	is '.events[1].filtered' 40
	holds '.events[1].kept >= 57'
	gp_ok -e page-faults -c 1 --filter 'addr in 0x600000000000..0x600000060fff' -- "$STATES"
	is .kept 97
}

@test "what only the kernel's own sample has" {
	local filter bit PAGES=0x610000000000..0x61000fffffff

	has_data || skip "no bpf_cast_to_kern_ctx"
	on_word
	word_hits 'data_pgsz == 4K' "$ALL"
	word_hits 'phys_addr != 0' "$ALL"
	word_hits 'code_pgsz == 4K' 72
	word_hits 'id != 0' "$ALL"
	# pages that were there before they were written to, and others: each fault is one sample
	for filter in 'phys_addr != 0' 'data_pgsz == 4K'; do
		gp_ok -e page-faults -c 1 --filter "addr in $PAGES && $filter" \
			-e page-faults --filter "addr in $PAGES && !($filter)" -- "$W/cowfaults"
		is '.events[0].kept' 29
		holds '.events[1].kept >= 31 and .terms[2].true == .events[0].kept + .events[1].kept'
	done
	# each CPU has an event of its own, and the next number
	on_function
	for ((bit = 1; bit < 256; bit *= 2)); do
		gp -e "$MEM" --filter "id & $bit" -- "$STATES"
		assert_identity
		is .seen 97
		[[ $(field .kept) =~ ^(44|53)$ ]] && break
	done
	[ "$bit" -lt 256 ] || fail "all have one id"
	holds '.kept == .terms[0].true and .filtered == .terms[0].false'
	gp -e "$MEM" --filter "!(id & $bit)" -- "$STATES"
	holds '.seen == 97 and .kept == .terms[0].false and .filtered == .terms[0].true'
	on_word
	word_hits 'addr == 0x'"$(nm "$STATES" | awk '$3 == "word" { print $1 }')" "$ALL"
}

@test "interrupts: disabled while the scheduler counts, enabled while a page fault does" {
	local asleep fault

	need_breakpoints
	wl s "$SG_BUILD/live/irqsoff"
	read -r asleep fault <"$T/s.out"
	gp_start -p "$(wl_pid s)" -e "mem:$asleep/8:w" --filter irqs_off \
		-e "mem:$fault/8:w" --filter irqs_off -e "mem:$asleep/8:w" --filter '!irqs_off'
	wl_go s
	wl_wait s
	gp_wait
	[ "$status" -eq 0 ]
	assert_identity
	holds '.events[0] | .kept >= 29 and .kept == .seen'
	holds '.events[1] | .seen >= 37 and .kept == 0'
	holds '.events[2] | .seen >= 29 and .kept == 0'
	on_function
	hits irqs_off 0
}

@test "preemption: disabled while the kernel changes a futex" {
	need_breakpoints
	MEM="mem:0x$(nm "$W/nopreempt" | awk '$3 == "word" { print $1 }')/8:w"
	for filter in preempt_off:19 '!preempt_off:23' 'user && preempt_off || kernel && !preempt_off:0'; do
		gp -e "$MEM" --filter "${filter%:*}" -- "$W/nopreempt"
		assert_identity
		is .seen 42
		is .kept "${filter##*:}"
		is .late 0
	done
}

@test "who waits for the CPU" {
	on_function
	hits 'runq >= 1' 97
	# more threads on one CPU than anything else here would make, then one of them alone
	split 'runq > 60' -C 0 -- bash -c "taskset -cp 0 \$\$ >/dev/null
		$W/spin -j 100 -t 500; $W/spin -t 1200"
}

# rests FILTERS...: machine-wide, at each change of threads, while somebody sleeps often
rests()
{
	gp_start -a "$@"
	"$W/idlegate" -n 400 -b 1000 -s >/dev/null
	gp_stop
	assert_identity
}

# Whenever a CPU that has had nothing to do gets something, the sample is the idle task's. Where
# others keep the CPUs busy that may take a while.
@test "idle CPUs, and others: idle ticks are included, and told apart" {
	local try on=(-e context-switches -c 1 --filter)

	for try in {1..30}; do
		rests "${on[@]}" idle "${on[@]}" '!idle'
		holds '.idle == 0 and (.events | all(.seen == .kept + .filtered))'
		holds '.terms[0].true == .events[0].kept and .terms[0].false == .events[0].filtered'
		holds '.terms[1].true == .events[1].filtered and .terms[1].false == .events[1].kept'
		[ "$(samples '^swapper/')" -eq "$(field '.events[0].kept')" ] || fail "not the idle task's"
		[ "$(field '.events[0].kept')" -lt 10 ] || break
	done
	holds '.events | all(.kept > 0 and .filtered > 0)'
	# one sample, asked twice
	rests "${on[@]}" 'idle || !idle'
	holds '.filtered == 0 and .terms[0].false == .terms[1].false and .terms[1].true == 0'
	rests "${on[@]}" '!idle && idle'
	holds '.kept == 0 and .terms[0].false == .terms[1].false and .terms[1].true == 0'
	# the clock, too
	gp_ok -a -e cpu-clock -F 199 --filter '!idle || idle' 1
	is .idle 0
}

@test "not, and, or, and parentheses" {
	on_function
	hits 'comm == "changed" && policy == batch' 10
	hits 'comm == "changed" || policy == batch' 51
	hits 'comm == "changed", prio == 125 || uid == 4343' 18
	hits '(comm == "changed" || prio == 125) && !(uid == 4343)' 53
}

@test "64 terms" {
	local i others=''

	on_function
	for ((i = 1; i < 64; i++)); do
		others+="pid == $i || "
	done
	gp_ok -e "$MEM" --filter "${others}comm == \"changed\"" -- "$STATES"
	is .kept 41
	is '.terms | length' 64
	holds '.terms | all(.[:-1][]; .true == 0 and .false == 97)'
	others=''
	for ((i = 1; i < 64; i++)); do
		others+="!stack has \"path_b${i}\" && "
	done
	gp_ok -e "$MEM" --filter "${others}stack has \"path_a\"" -- "$STATES"
	is .kept 49
	holds '.terms | all(.[:-1][]; .true == 0 and .false == 97)'
}

@test "terms are asked from left to right, and only as far as needed" {
	on_function
	gp_ok -e "$MEM" --filter 'comm == "changed" && policy == batch' -- "$STATES"
	holds '.terms[0] | .true == 41 and .false == 56'
	holds '.terms[1] | .true + .false == 41'
	gp_ok --reorder -e "$MEM" --filter 'stack has "path_a" && user' -- "$STATES"
	is '.terms[0].text' user
	holds '.terms[1] | .true == 49 and .false == 48'
}
