# SPDX-License-Identifier: BSD-2-Clause
# What a gate lets through: all of what is inside, and nothing else.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# The address of a symbol, as 0x...
address()
{
	printf '0x%s\n' "$(nm "$1" | awk -v name="$2" '$3 == name { print $1 }')"
}

# The offset in FUNC of the first instruction after (or, with "at", of) the call of CALLEE.
call_offset()
{
	objdump -d --no-show-raw-insn "$1" | awk -v func="<$2>:" -v callee="<$3>" -v which="$4" '
		/^[0-9a-f]+ </ { on = $2 == func; if (on) start = $1 }
		!on { next }
		after { print start, $1; exit }
		/call/ && index($0, callee) { if (which == "at") { print start, $1; exit } after = 1 }' |
		tr -d : | while read -r start at; do
		printf '0x%x\n' $((16#$at - 16#$start))
	done
}

# The times at which at least one thread was inside, as lines "BEGIN END", from a workload's log;
# with more arguments, only of these tids.
union()
{
	local log=$1

	shift
	awk -v tids=" $* " '
		tids == "  " || index(tids, " " $3 " ") {
			if ($1 == "begin" && depth++ == 0) from = $2
			if ($1 == "end" && --depth == 0) print from, $2
		}' "$log"
}

# Reads lines "TIME" of samples on stdin and prints how many are in the intervals of FILE, each
# widened by MARGIN ns (which may be negative), and how many are not.
in_union()
{
	awk -v margin="$2" -v file="$1" '
		BEGIN {
			n = 0
			while ((getline line <file) > 0) {
				split(line, f, " ")
				begin[n] = f[1] - margin
				end[n++] = f[2] + margin
			}
		}
		{
			hit = 0
			for (i = 0; i < n && !hit; i++)
				hit = $1 >= begin[i] && $1 <= end[i]
			if (hit) in_++; else out++
		}
		END { print in_ + 0, out + 0 }'
}

# Of a thread with this comm, from --samples: times, and with a CPU only those there.
times_of()
{
	jq -r --arg comm "$1" --arg cpu "${2-}" \
		'select(.comm == $comm and ($cpu == "" or .cpu == ($cpu | tonumber))) | .time_ns' \
		"$T/samples.json"
}

# The margin for the probe between the gate's edge and the log's.
EDGE=1000000

# few WRONG RIGHT: a thread that loses its CPU between the two edges, on its way out of the probe,
# makes the log inexact by a time slice. A gate that is wrong is so for a fifth of all samples.
few()
{
	[ "$1" -le $(($2 / 100)) ] || fail "$1 samples at wrong times, $2 at right ones"
}

# ---- exactness ----

@test "gated on inside: every kept stack has it, as often as an ungated run says" {
	local n0 k0 p

	gp_ok -F 1999 -- "$W/duty" -n 151
	n0=$(field .kept)
	is .seen "$n0"
	k0=$(samples "$(frame inside)")
	p=$(awk "BEGIN { print $k0 / $n0 }")
	within "$k0" "$n0" 0.3

	gp_ok -F 1999 -g "u:$W/duty:inside" -- "$W/duty" -n 151
	assert_all inside
	assert_none outside
	within "$(field .kept)" "$(field .seen)" "$p" "$n0"
	within "$(field .seen)" $((2 * n0)) 0.5
	is .filtered 0
	is '.gates[0].kept' "$(field .kept)"
	is '.gates[0].opens' 151
	is '.gates[0].entries' 151
	is '.gates[0].scope' thread
	assert_balanced
}

@test "--outside keeps the complement" {
	gp_ok -F 1999 --samples "$T/samples.json" -g "u:$W/duty:inside" --outside -- "$W/duty" -n 151
	assert_none_inside "$W/duty" inside
	assert_some outside 100
	within "$(field .kept)" "$(field .seen)" 0.7
	# Here what was left out is what fell inside.
	within "$(field .outside)" "$(field .seen)" 0.3
	holds '.seen == .kept + .outside'
	assert_balanced
}

@test "breakpoint on a marker: exactly 23 inside, 31 outside, and seen + missed is all 54" {
	local at

	need_breakpoints
	at=$(address "$W/duty" marker)

	gp_ok -e "mem:$at:x" -c 1 -- "$W/duty"
	is .seen 54
	is .kept 54
	is .missed 0

	gp_ok -e "mem:$at:x" -c 1 -g "u:$W/duty:inside" -- "$W/duty"
	is .kept 23
	is .outside 31
	holds '.seen + .missed == 54'
	assert_all inside
	assert_none outside

	gp_ok -e "mem:$at:x" -c 1 -g "u:$W/duty:inside" --outside -- "$W/duty"
	is .kept 31
	is .outside 23
	holds '.seen + .missed == 54'
	assert_all outside
	assert_none inside
}

@test "breakpoint with other counts: the numbers follow the program" {
	need_breakpoints
	gp_ok -e "mem:$(address "$W/duty" marker):x" -c 1 -g "u:$W/duty:inside" -- \
		"$W/duty" -i 211 -o 7 -n 13
	is .kept 211
	is .outside 7
	# All of them where none should be: opened, and nothing kept.
	gp -e "mem:$(address "$W/duty" marker):x" -c 1 -g "u:$W/duty:outside" -- \
		"$W/duty" -i 211 -o 0 -n 13
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is .seen 211
	is .kept 0
	is '.gates[0].opens' 13
}

@test "--weight counts periods, and says the same about samples" {
	WEIGHTED=1 gp_ok -F 997 --weight -g "u:$W/duty:inside" -- "$W/duty"
	assert_all inside
	is .weight "$(samples '')"
	holds '.weight > .kept'
}

# ---- nesting ----

@test "recursion 5 deep: opened once each time, closed by the outermost return" {
	gp_ok -F 1999 -g "u:$W/nest:recurse" -- "$W/nest"
	is '.gates[0].opens' 17
	is '.gates[0].entries' "$(number entries "$T/cmd")"
	is '.gates[0].entries' 85
	assert_balanced
	assert_all recurse
	assert_none after
	assert_some 'recurse;recurse;recurse;recurse;recurse'
	# As long inside as outside.
	within "$(field .kept)" "$(field .seen)" 0.5
}

@test "recursion 200 deep: every return is seen" {
	gp_ok -F 1999 -g "u:$W/nest:recurse" -- "$W/nest" -d 200 -n 3 -t 60
	is '.gates[0].opens' 3
	is '.gates[0].entries' 600
	assert_balanced
	assert_all recurse
	assert_none after
	within "$(field .kept)" "$(field .seen)" 0.5
}

# ---- scopes ----

overlap()
{
	gp_ok -F 3989 --samples "$T/samples.json" -g "u:$W/overlap:work" "$@" -- \
		"$W/overlap" -c -l "$T/log" -n 25
	union "$T/log" >"$T/inside"
	is '.gates[0].entries' "$(number entries "$T/cmd")"
	is .kept "$(wc -l <"$T/samples.json")"
	assert_balanced
}

@test "scope system: a bystander is kept exactly while at least one thread is inside" {
	local hit miss

	[ "$(nproc)" -ge 2 ] || skip "one CPU"
	overlap --scope system
	read -r hit miss < <(times_of bystander | in_union "$T/inside" $EDGE)
	[ "$hit" -ge 300 ] || fail "only $hit samples of the bystander"
	few "$miss" "$hit"
	# Overlaps are one opening.
	holds '.gates[0].opens < .gates[0].entries'
	is '.gates[0].scope' system

	# The complement: none of what is kept here was inside.
	overlap --scope system --outside
	read -r hit miss < <(times_of bystander | in_union "$T/inside" -$EDGE)
	[ "$miss" -ge 100 ] || fail "only $miss samples of the bystander"
	few "$hit" "$miss"
}

@test "scope system: open for as long as the union of all stays" {
	local ns open

	overlap --scope system
	ns=$(awk '{ n += $2 - $1 } END { printf "%d", n }' "$T/inside")
	open=$(field '.gates[0].open_ns')
	# The gate opens a little earlier and closes a little later than the log says.
	[ "$open" -ge "$ns" ] || fail "open for $open ns, but somebody was inside for $ns"
	[ "$open" -le $((ns + ns / 10)) ] || fail "open for $open ns, but it should be $ns"
	[ "$(wc -l <"$T/inside")" -ge "$(field '.gates[0].opens')" ] ||
		fail "more openings than the $(wc -l <"$T/inside") phases with somebody inside"
}

@test "scope thread: nothing of the bystander, all of the workers" {
	overlap
	[ -z "$(times_of bystander)" ] || fail "$(times_of bystander | wc -l) of the bystander"
	assert_none bystand
	assert_all work
	is '.gates[0].opens' 200
	is '.gates[0].entries' 200
}

@test "scope process: the bystander is kept, another process is not" {
	local hit miss

	wl spin "$W/spin" -t 60000
	wl overlap "$W/overlap" -c -l "$T/log" -n 25
	gp_start -F 3989 --samples "$T/samples.json" -g "u:$W/overlap:work" --scope process \
		-p "$(wl_pid spin),$(wl_pid overlap)"
	wl_go spin
	wl_go overlap
	wl_wait overlap
	gp_stop
	assert_done
	assert_balanced
	union "$T/log" >"$T/inside"
	read -r hit miss < <(times_of bystander | in_union "$T/inside" $EDGE)
	[ "$hit" -ge 150 ] || fail "only $hit samples of the bystander"
	few "$miss" "$hit"
	[ -z "$(times_of spin)" ] || fail "$(times_of spin | wc -l) samples of another process"
	# It was a target, and was sampled.
	holds ".outside > $(wc -l <"$T/inside")"
	is '.gates[0].scope' process
}

@test "scope system: other processes are kept too" {
	wl spin "$W/spin" -t 60000
	wl overlap "$W/overlap" -c -l "$T/log" -n 25
	gp_start -F 3989 --samples "$T/samples.json" -g "u:$W/overlap:work" --scope system \
		-p "$(wl_pid spin),$(wl_pid overlap)"
	wl_go spin
	wl_go overlap
	wl_wait overlap
	gp_stop
	assert_done
	union "$T/log" >"$T/inside"
	read -r hit miss < <(times_of spin | in_union "$T/inside" $EDGE)
	[ "$hit" -ge 150 ] || fail "only $hit samples of spin"
	few "$miss" "$hit"
}

@test "scope cpu: the bystander is kept only on CPUs where somebody is inside" {
	local cpu tids hit miss all=0 wrong=0

	[ "$(nproc)" -ge 2 ] || skip "one CPU"
	overlap --scope cpu
	is '.gates[0].scope' cpu
	# Which worker is pinned to which CPU is seen in its own samples.
	for cpu in $(jq -r 'select(.comm == "worker") | .cpu' "$T/samples.json" | sort -u); do
		tids=$(jq -r --argjson cpu "$cpu" 'select(.comm == "worker" and .cpu == $cpu) | .tid' \
			"$T/samples.json" | sort -u | tr '\n' ' ')
		# shellcheck disable=SC2086
		union "$T/log" $tids >"$T/inside.$cpu"
		read -r hit miss < <(times_of bystander "$cpu" | in_union "$T/inside.$cpu" $EDGE)
		all=$((all + hit))
		wrong=$((wrong + miss))
	done
	few "$wrong" "$all"
	[ "$all" -ge 200 ] || fail "only $all samples of the bystander"
	is "$(printf '%s' '[.gates[0].opens > 25, .kept > 0] | all')" true
}

# ---- openings that are unusual ----

@test "--start open: kept from the beginning, to the first close without an opening" {
	gp_ok -F 997 -g "u:$W/idlegate:gated" --start open -- "$W/idlegate" never
	is '.gates[0].opens' 0
	is .outside 0
	assert_some outside 100

	gp_ok -F 1999 --start open -g "u:$W/duty:marker+0..u:$W/duty:outside+0" -- \
		"$W/duty" -n 1 -s 100000 -i 0 -o 0
	is '.gates[0].opens' 0
	is '.gates[0].unbalanced' 0
	assert_some inside 100
	[ "$(samples "$(frame outside_leaf)")" -eq 0 ] || fail "kept after the first close"
	within "$(field .kept)" "$(field .seen)" 0.3
}

@test "without --start open the same gate never opens: exit 4" {
	gp -F 1999 -g "u:$W/duty:marker+0..u:$W/duty:outside+0" -- \
		"$W/duty" -n 1 -s 100000 -i 0 -o 0
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is .kept 0
	is '.gates[0].opens' 0
	is '.gates[0].unbalanced' 1
	assert_says 'never opened'
}

@test "--max-open: what has been open for longer is closed and counted" {
	local late

	gp_ok -F 1999 --samples "$T/samples.json" -g "u:$W/duty:inside" --max-open 50ms -- \
		"$W/duty" -n 3 -s 70000 -l "$T/log"
	is '.gates[0].opens' 3
	is '.gates[0].forced' 3
	is '.gates[0].recovered' 0
	assert_all inside
	# From the first kept sample of an opening to its last there are no more than 50 ms.
	late=$(jq -r .time_ns "$T/samples.json" | awk '
		NR == 1 || $1 - last > 100e6 { first = $1 }
		{ last = $1 }
		$1 - first > 52e6 { n++ }
		END { print n + 0 }')
	[ "$late" -eq 0 ] || fail "$late samples after the limit"
}

@test "--max-open: an opener that sleeps is found by others' samples" {
	# Not a test of time: one second of sleep holds a system-wide gate, and 100 ms are let through.
	gp_ok -F 997 -g syscall:clock_nanosleep --scope system --max-open 100ms -- \
		sh -c "sleep 1 & exec '$W/spin' -t 1500"
	holds '.gates[0].forced >= 1'
	assert_some spin 20
	holds '.kept < .seen / 2'
}

@test "several gates are a union, each with its own count" {
	gp_ok -F 1999 -g "u:$W/duty:inside" -g "u:$W/duty:outside" -- "$W/duty"
	assert_all 'inside|outside'
	is '.gates | length' 2
	# They never overlap.
	is '.gates[0].kept + .gates[1].kept' "$(field .kept)"
	within "$(field '.gates[0].kept')" "$(field .kept)" 0.3
	is '.gates[0].opens' 101
	is '.gates[1].opens' 101
	assert_balanced 0
	assert_balanced 1
}

@test "gates one in the other: a sample is kept once and counted in both" {
	gp_ok -F 1999 -g "u:$W/duty:main" -g "u:$W/duty:inside" -- "$W/duty"
	# libc's own functions have no frame pointer: a few samples there miss their caller.
	[ "$(samples_without "$(frame main)")" -le $(($(field .kept) / 100 + 3)) ]
	is '.gates[0].kept' "$(field .kept)"
	within "$(field '.gates[1].kept')" "$(field .kept)" 0.3
}

@test "--outside of several gates: outside of all" {
	gp_ok -F 1999 --samples "$T/samples.json" --outside \
		-g "u:$W/nest:recurse" -g "u:$W/nest:burn_ns" -- "$W/nest"
	assert_none_inside "$W/nest" recurse
}

# ---- kinds of points ----

@test "USDT pair with semaphores: the program fires, and only while it is watched" {
	gp_ok -F 1999 -g "U:$W/usdt:sgtest:begin..U:$W/usdt:sgtest:end" -- "$W/usdt"
	is '.gates[0].opens' 37
	is '.gates[0].entries' 37
	assert_balanced
	[ "$(number begun "$T/cmd")" -eq 37 ]
	[ "$(number ended "$T/cmd")" -eq 37 ]
	[ "$(number semaphore "$T/cmd")" -eq 1 ]
	assert_all 'request|other_request'
	# Two locations each.
	assert_some request
	assert_some other_request
	assert_none outside
	within "$(field .kept)" "$(field .seen)" 0.5
}

@test "USDT pair in a process that runs already" {
	wl usdt "$W/usdt"
	gp_start -F 1999 -g "U:$W/usdt:sgtest:begin..U:$W/usdt:sgtest:end" -p "$(wl_pid usdt)"
	wl_go usdt
	wl_wait usdt
	gp_wait
	assert_done
	is '.gates[0].opens' 37
	[ "$(number begun "$T/usdt.out")" -eq 37 ]
	assert_balanced
	assert_all 'request|other_request'
}

@test "USDT pair without semaphores" {
	gp_ok -F 1999 -g "usdt:$W/usdt:sgtest:plain_begin..usdt:$W/usdt:sgtest:plain_end" -- "$W/usdt"
	is '.gates[0].opens' 37
	assert_balanced
	assert_all 'request|other_request'
	[ "$(number semaphore "$T/cmd")" -eq 0 ]
}

# Every sample inside a system call is in the kernel, by way of its entry.
assert_in_syscall()
{
	local n

	[ "$(samples '')" -gt 0 ] || fail "nothing was kept"
	# The kernel's unwinder does not get out of an indirect-call thunk.
	n=$(samples_without ';(entry_SYSCALL_64_after_hwframe|do_syscall_64|__x86_indirect_thunk_[a-z0-9]*)_\[k\]')
	[ "$n" -eq 0 ] || fail "$n samples are in no system call"
}

@test "syscall:write for everyone: only threads inside write, and both numbers are printed" {
	local all in_write

	wl writer "$W/writer" -t 1500
	gp_start -F 1999 -g syscall:write -a
	wl_go writer
	wl_wait writer
	gp_stop
	assert_done
	is '.gates[0].recovered' 0
	is '.gates[0].no_room' 0
	assert_few_doubtful
	assert_in_syscall
	# But for the moments of entry and exit, all of them are in write itself.
	all=$(samples '')
	in_write=$(samples ';(__x64_sys_write|ksys_write|vfs_write)_\[k\]')
	[ "$in_write" -ge $((all * 9 / 10)) ] || fail "only $in_write of $all in write"
	[ "$(samples '^writer;')" -ge 100 ] || fail "$(samples '^writer;') samples of the writer"
	[ "$(samples '^spinner;')" -eq 0 ] || fail "$(samples '^spinner;') samples of the spinner"
	assert_none 'spin|spin_leaf'
	# The spinner was seen, and left out.
	holds '.outside > 500'
	holds ".gates[0].entries >= $(number writes "$T/writer.out")"
	assert_says 'kept of [0-9,]+ samples \([0-9,]+ outside the gate'
}

@test "syscall:write, of a command: as many entries as it wrote blocks" {
	local extra

	gp_ok -F 1999 -g syscall:write -- "$W/writer"
	# The last line on stdout is a write, too.
	extra=$(($(field '.gates[0].entries') - $(number writes "$T/cmd")))
	[ "$extra" -ge 1 ] && [ "$extra" -le 3 ] || fail "$extra more writes than the program says"
	assert_balanced
	assert_in_syscall
	[ "$(samples '^spinner;')" -eq 0 ]
}

@test "tracepoint pair: the system call's own" {
	gp_ok -F 1999 -g "t:syscalls:sys_enter_write..t:syscalls:sys_exit_write" -- "$W/writer"
	holds ".gates[0].entries >= $(number writes "$T/cmd")"
	assert_in_syscall
	[ "$(samples '^writer;')" -ge 50 ]
	[ "$(samples '^spinner;')" -eq 0 ] || fail "$(samples '^spinner;') samples of the spinner"
}

@test "tracepoint pair on all system calls" {
	gp_ok -F 1999 -g "tracepoint:raw_syscalls:sys_enter..t:raw_syscalls:sys_exit" -- "$W/writer"
	assert_in_syscall
	[ "$(samples '^writer;')" -ge 50 ]
	holds ".gates[0].entries > $(number writes "$T/cmd")"
}

@test "pair of different kinds: from a function's entry to a tracepoint" {
	# work() burns, and then sleeps: the gate is open for the first half of each visit.
	gp_ok -F 1999 -g "u:$W/overlap:work+0..t:syscalls:sys_enter_nanosleep" -- "$W/overlap"
	is '.gates[0].entries' 104
	assert_all work
	assert_none bystand
}

@test "kprobe and fentry gates, where the kernel has them" {
	[ -e /sys/bus/event_source/devices/kprobe ] || skip "no kprobes"
	gp_ok -F 1999 -g k:vfs_write -- "$W/writer"
	holds ".gates[0].entries >= $(number writes "$T/cmd")"
	[ "$(samples '^spinner;')" -eq 0 ]
}

tail_exits()
{
	local want

	gp_ok -F 4999 -g "u:$W/tailcall:$1" -- "$W/tailcall" -n 3
	want=$(number "$1" "$T/cmd")
	is '.gates[0].entries' "$want"
	is '.gates[0].opens' "$want"
	assert_balanced
}

@test "tail jumps: direct, indirect, through memory, conditional, and both kinds of ret" {
	tail_exits gated
	[ "$(number gated "$T/cmd")" -eq 216 ]
	assert_some gated 100
	# After the jump it is not inside any more, though other() was called by nobody else.
	assert_none 'other|other_leaf'
}

@test "tail jumps: a jump table is no exit" {
	tail_exits switcher
	assert_nearly_all switcher
}

@test "tail jumps: the compiler's own" {
	tail_exits sibling
	assert_none 'other|other_leaf'
}

@test "tail jumps: the function that is jumped to" {
	tail_exits other
	assert_nearly_all other
}

@test "a function that loops back to its own entry is entered once" {
	gp -F 4999 -g "u:$W/tailcall:selfloop" -- "$W/tailcall" -n 3
	assert_identity
	is '.gates[0].entries' 9
	is '.gates[0].opens' 9
	assert_balanced
}

@test "points with an offset: what is between them" {
	local at behind

	at=$(call_offset "$W/duty" inside inside_leaf at)
	behind=$(call_offset "$W/duty" inside inside_leaf behind)
	[ -n "$at" ] && [ -n "$behind" ] || fail "no call of inside_leaf: '$at' '$behind'"
	gp_ok -F 1999 -g "u:$W/duty:inside+$at..u:$W/duty:inside+$behind" -- "$W/duty"
	is '.gates[0].opens' 101
	assert_balanced
	# The call itself, and the instruction it comes back to, are the function's own.
	assert_all inside
	assert_nearly_all inside_leaf
	assert_none outside
	within "$(field .kept)" "$(field .seen)" 0.3
}

@test "pair of entry and uretprobe: works, with a warning" {
	gp_ok -F 1999 -g "u:$W/uret:gated+0..ur:$W/uret:gated" -- "$W/uret"
	is '.gates[0].opens' 19
	assert_balanced
	assert_all gated
	assert_says 'warning: .*uretprobe'
}

@test "a pair nests: each entry waits for an exit of its own" {
	gp_ok -F 1999 -g "u:$W/nest:recurse+0..ur:$W/nest:recurse" -- "$W/nest"
	is '.gates[0].opens' 17
	is '.gates[0].entries' 85
	assert_balanced
	within "$(field .kept)" "$(field .seen)" 0.5
}

@test "pair of two functions' entries: open from one to the next" {
	gp_ok -F 1999 -g "u:$W/duty:inside+0..u:$W/duty:outside+0" -- "$W/duty"
	is '.gates[0].opens' 101
	assert_balanced
	assert_none outside_leaf
	assert_some inside 100
	within "$(field .kept)" "$(field .seen)" 0.3
}

# ---- names ----

@test "a bare name is looked up in the PATH" {
	PATH=$W:$PATH gp_ok -F 997 -g u:duty:inside -- duty
	is '.gates[0].opens' 101
	assert_all inside
}

@test "a bare library name is found in the library directories" {
	command -v sqlite3 >/dev/null || fail "sqlite3 is missing: tests/packages.txt should have it"
	gp_ok -F 1999 -g u:libsqlite3:sqlite3_step -- sqlite3 :memory: \
		'with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000000)
		 select sum(x) from c;'
	[ "$(cat "$T/cmd")" = 4500001500000 ]
	holds '.gates[0].opens >= 1'
	assert_balanced
	# It has no frame pointers, so sqlite3_step itself may be missed.
	assert_some 'sqlite3.*|\[libsqlite3.*' 50
	holds '.kept > .seen / 2'
}

@test "a bare library name is found in the target's maps" {
	wl overlap "$W/overlap"
	gp_start -F 1999 -g u:libc.so.6:pthread_barrier_wait -p "$(wl_pid overlap)"
	wl_go overlap
	wl_wait overlap
	gp_wait
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	holds '.gates[0].entries >= 104'
	assert_balanced
}

@test "an empty path is the target's executable" {
	wl duty "$W/duty"
	gp_start -F 997 -g u::inside -p "$(wl_pid duty)"
	wl_go duty
	wl_wait duty
	gp_wait
	assert_done
	is '.gates[0].opens' 101
	assert_all inside
}

@test "C++ and Rust names, as a person writes them" {
	local spec shown

	while IFS='|' read -r spec shown; do
		gp_ok -F 4999 -g "u:$W/cppnames:$spec" -- "$W/cppnames"
		[ "$(number each "$T/cmd")" -eq 11 ]
		is '.gates[0].opens' 11
		assert_balanced
		assert_some "$shown" 20
		assert_nearly_all "$shown"
	done <<-'END'
		ns::Klass::method|ns::Klass::method\(int\)
		ns::Klass::method(int)|ns::Klass::method\(int\)
		_ZN2ns5Klass6methodEi|ns::Klass::method\(int\)
		ns::Klass::over|ns::Klass::over\(int\) const
		ns::Klass::operator==|ns::Klass::operator==\(ns::Klass const&\) const
		ns::combine<long, char>|long ns::combine<long, char>\(std::pair<long, char>\)
		ns::(anonymous namespace)::hidden|ns::\(anonymous namespace\)::hidden\(char const\*\)
		demo::parse|demo::parse
		demo::render|demo::render
	END
}
