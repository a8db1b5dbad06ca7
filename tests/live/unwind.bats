#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# User stacks by unwind tables, as users see them: whole, of the right process and module, and
# honest about where they end.

load lib
load lib2
load glitch

OF=${OVERFLOWFILTER:-$SG_BUILD/overflowfilter}

# A second or two of sqlite3, which Debian builds without frame pointers.
SQL="with recursive n(i) as (select 1 union all select i + 1 from n limit 1500000)
	select count(*), max(hex(i * 7 % 1000)) from n where i % 3"

# stacks: the folded lines without their counts, user frames only, each as often as it was seen
stacks()
{
	sed -E 's/;[^;]*_\[k\].*( [0-9]+)$/\1/' "$T/out.folded"
}

# chains: every stack with a function of storm.h has its callers right, as far as it goes; prints
# how many samples have the whole chain
chains()
{
	stacks | awk -v callers_one="$1" -v callers_two="$2" '
	function check(name, callers, want, n, i, j, have) {
		n = split(callers ";" name "_outer;" name "_middle;" name "_inner;" name "_leaf", want, ";")
		for (i = 1; i <= depth; i++)
			if (frames[i] == name "_leaf")
				break
		# From the leaf to the root, until it says that it ends.
		for (j = n; j >= 1 && i >= 1 && frames[i] !~ /^\[truncated/; j--) {
			have = frames[i--]
			if (have != want[j]) {
				print "wrong: " $0
				exit
			}
		}
		if (!j)
			whole += count
	}
	{
		count = $NF
		sub(/ [0-9]+$/, "")
		depth = split($0, frames, ";")
		if (/one_/ && /two_/)
			print "mixed: " $0
		if (/one_leaf/)
			check("one", callers_one)
		if (/two_leaf/)
			check("two", callers_two)
	}
	END { print "whole " whole + 0 }'
}

@test "sqlite3: all of its stacks are whole, and by frame pointers nearly none" {
	gp_ok -F 499 -- sqlite3 :memory: "$SQL"
	holds '.kept > 50'
	# While a program begins, nothing is known of it.
	holds '.unwind.stops.complete * 100 >= .unwind.stacks * 95'
	holds '([.unwind.stops[]] | add) == .unwind.stacks'
	grep -q ';__libc_start_call_main;.*;sqlite3_step;sqlite3VdbeExec' "$T/out.folded"
	gp_ok -F 499 --call-graph fp -- sqlite3 :memory: "$SQL"
	holds '.unwind == null'
	holds '.broken_stacks * 2 > .user_stacks'
	run ! grep -q ';__libc_start_call_main;.*;sqlite3VdbeExec' "$T/out.folded"
}

@test "inside a gate: each kept stack has the function, to the root" {
	local kept

	gp_ok -F 499 -g u:libsqlite3:sqlite3_step -- sqlite3 :memory: "$SQL"
	kept=$(field .kept)
	[ "$kept" -gt 50 ]
	is '.gates[0].doubtful' 0
	is .unwind.stops.complete "$kept"
	[ "$(awk '/;__libc_start_call_main;.*;sqlite3_step/ { n += $NF } END { print n }' \
		"$T/out.folded")" -eq "$kept" ]
}

@test "--call-graph none: one frame" {
	gp_ok -F 499 --call-graph none -U -- sqlite3 :memory: "$SQL"
	holds '.kept > 50'
	run ! grep -qE '^[^;]*;[^;]*;' "$T/out.folded"
	grep -q '^sqlite3;sqlite3VdbeExec ' "$T/out.folded"
}

@test "node: compiled code by frame pointers, the rest by tables, in one stack; or not at all" {
	local script='function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } f(36)'

	# It leaves a log where it runs, and its map where it has to be.
	cd "$T" || return 1
	gp_ok -F 499 --samples "$T/samples" -- node --interpreted-frames-native-stack \
		--perf-basic-prof -e "$script"
	jq -r .pid "$T/samples" | sort -u | while read -r pid; do rm -f "/tmp/perf-$pid.map"; done
	holds '.unwind.frames_by_fp > 100'
	holds '.unwind.stops.complete * 100 >= .unwind.stacks * 90'
	# The older V8 of Debian's own package has another word for what it compiled.
	grep -qE '__libc_start_call_main;node::Start.*;(JS|LazyCompile):.f [^;]*;(JS|LazyCompile):.f ' \
		"$T/out.folded"
	gp_ok -F 999 --call-graph dwarf -- node -e "$script"
	is .unwind.frames_by_fp 0
	holds '.unwind.stops.no_table + .unwind.stops.no_entry > 15'
	grep -q '\[truncated: no unwind info in ' "$T/out.folded"
}

@test "libraries that take each other's place: no stack by the other's table" {
	local result

	gp_ok -F 999 -- "$W/swap" -n 200 -s 2000 "$W/libstorma.so" "$W/libstormb.so"
	grep -q 'same=200' "$T/cmd"
	result=$(chains 'call_first;swap_entry' 'call_second;swap_entry')
	[[ $result == "whole "* ]] || fail "$result"
	[ "${result#whole }" -gt 20 ] || fail "$result"
}

@test "500 short processes of two programs at the same addresses" {
	local result

	# shellcheck disable=SC2016 # the inner shell expands
	gp_ok -F 999 -- bash -c 'for _ in {1..250}; do "$0"/execs_a 0 3000; "$0"/execs_b 0 3000; done' "$W"
	result=$(chains main main)
	[[ $result == "whole "* ]] || fail "$result"
	[ "${result#whole }" -gt 200 ] || fail "$result"
}

@test "one process that becomes another program 40 times" {
	local result

	gp_ok -F 999 -- "$W/execs_a" 40 20000
	result=$(chains main main)
	[[ $result == "whole "* ]] || fail "$result"
	[ "${result#whole }" -gt 100 ] || fail "$result"
}

@test "what a signal interrupted at its first instruction has its own name" {
	need_breakpoints
	wl u "$W/unwind" signal altstack
	gp_start -q -e "$(unwind_at u)" -c 1 -p "$(wl_pid u)"
	wl_go u
	wl_wait u
	gp_wait
	assert_done
	is .unwind.stops.complete 2
	[ "$(samples ';main;run;with_signal;raises;(\[libc|__restore_rt)[^;]*;skip_ud2;handler;at ')" -eq 2 ]
}

@test "children are known before they run, though nobody has read yet that they were made" {
	local pid go said

	mkfifo "$T/go" "$T/said"
	# Open for both directions, so that neither side waits for the other in open().
	exec {go}<>"$T/go" {said}<>"$T/said"
	/usr/bin/python3 -c 'import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
def burn():
    until = time.process_time() + 0.1
    while time.process_time() < until:
        sorted(str(i) for i in range(300))
for _ in range(7):
    if not os.fork():
        burn()
        os._exit(0)
    os.wait()
print("done", flush=True)
sys.stdin.readline()' <"$T/go" >"$T/said" 3>&- 4>&- &
	pid=$!
	OURS+=("$pid")
	read -rt 60 -u "$said"
	gp_start -F 499 --follow --samples "$T/samples" -p "$pid"
	kill -STOP "$GP_PID"
	echo >&"$go"
	read -rt 60 -u "$said"
	kill -CONT "$GP_PID"
	echo >&"$go"
	gp_wait
	assert_done
	# 350 ticks of CPU time: an emulated CPU on a busy machine has seen a third of them.
	holds '.kept > 50'
	is .unwind.stops.no_process 0
	holds '.unwind.stops.complete * 100 >= .unwind.stacks * 95'
	[ "$(jq -r .pid "$T/samples" | sort -u | grep -cvx "$pid")" -eq 7 ]
	# To the root, by names; whether they burn or end, which takes longer the busier the machine is.
	awk '/;__libc_start_main.*;Py_RunMain;/ { n += $NF } /;Py_RunMain;.*PyEval/ { eval += $NF } { all += $NF }
		END { exit !(n * 100 >= all * 90 && eval * 5 > all) }' "$T/out.folded"
}

@test "a library in two containers, so to speak: one table, and both are walked" {
	local lib dir

	lib=$(/sbin/ldconfig -p | awk '/libsqlite3\.so\.0 / { print $NF; exit }')
	for dir in a b; do
		mkdir "$T/$dir"
		cp "$lib" "$T/$dir/libsqlite3.so.0"
	done
	# shellcheck disable=SC2016 # the inner shell expands
	gp_ok -F 499 -- bash -c 'LD_LIBRARY_PATH=$0/a sqlite3 :memory: "$1"
		LD_LIBRARY_PATH=$0/b sqlite3 :memory: "$1"' "$T" "$SQL"
	holds '.kept > 100'
	holds '.unwind.modules_shared == 1'
	holds '.unwind.stops.complete * 100 >= .unwind.stacks * 95'
}

@test "no room for the tables: who is sampled gets it, and the summary tells" {
	# Of python3 and libcrypto one fits, of which python3 is sampled.
	gp_ok -F 499 --unwind-memory 512k -- /usr/bin/python3 -c 'import ssl, time
t = time.process_time()
while time.process_time() - t < 4:
    sorted(str(i) for i in range(1000))'
	holds '.unwind.modules_without_room >= 1'
	holds '.unwind.bytes <= 524288'
	grep -q 'unwind tables: no room for [1-9][0-9]* module' "$T/err"
	grep -q '\[truncated: no room for unwind info of \|__libc_start_call_main;Py_BytesMain' "$T/out.folded"
	grep -q '__libc_start_call_main;Py_BytesMain;.*_PyEval_EvalFrameDefault' "$T/out.folded"
}

@test "stack has: a caller that frame pointers do not find" {
	run_tool "$OF" -o "$T/out.folded" -e cpu-clock -F 499 --filter 'stack has "sqlite3_step"' -- sqlite3 :memory: "$SQL"
	assert_done
	holds '.kept > 50'
	grep -q ';__libc_start_call_main;.*;sqlite3_step;' "$T/out.folded"
	run ! grep -vq 'sqlite3_step' "$T/out.folded"
	run_tool "$OF" -o "$T/out.folded" --call-graph fp -e cpu-clock -F 499 --filter 'stack has "sqlite3_step" && !ip in "sqlite3_step"' \
		-- sqlite3 :memory: "$SQL"
	[ "$(field .kept)" -lt "$(($(field .seen) / 2))" ]
}

@test "glitchrec: whole stacks of a slow frame, and of where it slept" {
	gr_ok -g u:libsqlite3:sqlite3_step --threshold 100ms -- sqlite3 :memory: "$SQL"
	grep -q ';__libc_start_call_main;.*;sqlite3_step;sqlite3VdbeExec' "$T"/gl/glitches.folded
}

@test "glitchrec, which sleeps: the stacks of a program that began later" {
	gr_start -g u:libsqlite3:sqlite3_step --threshold 100ms -a
	sqlite3 :memory: "$SQL" >/dev/null 3>&- 4>&-
	gp_stop
	gr_done
	grep -q '^sqlite3;[^;]*;__libc_start_main;.*;sqlite3_step;sqlite3VdbeExec' "$T"/gl/glitches.folded
	run ! grep -q '^sqlite3;.*not known yet' "$T"/gl/glitches.folded
}
