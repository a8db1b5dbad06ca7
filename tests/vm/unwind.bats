# SPDX-License-Identifier: BSD-2-Clause
# User stacks by unwind tables, exactly: by a breakpoint at the end of each stack of workloads/unwind.c,
# which has no frame pointers, and of programs as Debian builds them. Each is known to the tool before it
# works, so that every stack is to be whole.

load ../live/lib
load ../live/lib2

UNWIND=$W/unwind
GR=$SG_BUILD/glitchrec
OF=$SG_BUILD/overflowfilter

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	need_breakpoints
}

# The stacks without their command, the root's frames under one name, as often as each was seen.
stacks()
{
	sed -E 's/^[^;]*;//; s/^_start;([^;]*libc_start[^;]*;)+/_start;libc;/
		s/^(__)?clone3?;start_thread;/thread;/' "$T/out.folded"
}

# are LINE...: exactly these stacks
are()
{
	diff <(printf '%s\n' "$@" | sort) <(stacks | sort) >&2 || fail "stacks differ"
}

# walked OPTIONS... -- KIND...: these kinds of stacks, by gatedprof
walked()
{
	local opts=()

	while [ "$1" != -- ]; do
		opts+=("$1")
		shift
	done
	wl u "$UNWIND" "${@:2}"
	gp_start -q -e "$(unwind_at u)" -c 1 "${opts[@]}" -p "$(wl_pid u)"
	wl_go u
	wl_wait u
	gp_wait
	assert_done
}

@test "inside open gates: each kind of frame, whole to the root" {
	local gates=() func

	for func in many_saved uses_alloca in_thread deep with_cfi handler; do
		gates+=(-g "u:$UNWIND:$func")
	done
	walked --call-graph dwarf "${gates[@]}" -- leaf saved alloca realign thread deep3 cfi signal altstack
	grep -v ';handler;' "$T/out.folded" >"$T/rest"
	# raises() is interrupted at its first instruction, and __restore_rt has no name in a stripped library.
	[ "$(samples '^unwind;_start;[^;]*libc_start.*;main;run;with_signal;raises;[^;]*;skip_ud2;handler;at ')" -eq 2 ] ||
		fail "not through the signal handlers: $(grep skip_ud2 "$T/out.folded")"
	mv "$T/rest" "$T/out.folded"
	are "_start;libc;main;run;many_saved;realigned;at 1" \
		"_start;libc;main;run;many_saved;uses_alloca;at 1" \
		"_start;libc;main;run;many_saved;leaf_caller;at 1" \
		"_start;libc;main;run;uses_alloca;at 1" \
		"thread;thread_main;in_thread;at 1" \
		"_start;libc;main;run;deep;deep;deep;at 1" \
		"_start;libc;main;run;with_cfi;at 1"
	all_hold '.kept == 9' '.outside == 2' '.unwind.stacks == 9' '.unwind.stops.complete == 9' \
		'.unwind.frames_by_fp == 0' '[.gates[].entries] == [1, 2, 1, 3, 1, 2]' \
		'.gates | all(.doubtful == 0 and .unbalanced == 0 and .recovered == 0)'
}

@test "where a walk can not go on, the stack says so; and code made at run time" {
	walked -- nocfi shrinks unreadable lost jit badfp deep200
	sed -Ei 's/(;deep)+;/;deep;/' "$T/out.folded"
	are "[truncated: no unwind info in unwind];without_cfi;at 1" \
		"[truncated: stack makes no sense in unwind];cfa_shrinks;at 1" \
		"[truncated: stack not readable in unwind];cfa_unreadable;at 1" \
		"[truncated: unwind info of unwind not understood];cfa_lost;at 1" \
		"_start;libc;main;run;calls_jit;[anon];at 1" \
		"[truncated: no frame pointer in anon];[anon];at 1" \
		"[truncated];deep;at 1"
	all_hold '.unwind.stacks == 7' '([.unwind.stops[]] | add) == 7' '.unwind.frames_by_fp == 1' \
		'.unwind.stops | [.complete, .too_deep, .no_entry, .unsupported, .bad_cfa, .read_fault,
			.no_frame_pointer] | all(. == 1)'
}

@test "a filter about the stack, which frame pointers do not have" {
	wl u "$UNWIND" saved leaf alloca deep3
	start_tool "$OF" -q -o "$T/out.folded" -e "$(unwind_at u)" --filter 'stack has "many_saved"' -p "$(wl_pid u)"
	wl_go u
	wl_wait u
	gp_wait
	assert_done
	are "_start;libc;main;run;many_saved;realigned;at 1" \
		"_start;libc;main;run;many_saved;uses_alloca;at 1" \
		"_start;libc;main;run;many_saved;leaf_caller;at 1"
	all_hold '.kept == 3' '.filtered == 3'
}

@test "where a slow frame slept" {
	wl u "$UNWIND" sleep
	start_tool "$GR" -q -o "$T/gl" -g "u:$UNWIND:sleeps" --threshold 10us -p "$(wl_pid u)"
	wl_go u
	wl_wait u
	gp_wait
	[ "$status" -eq 0 ] || fail "exit code $status"
	all_hold '.frames == 1' '.glitches == 1' '.lost == 0'
	jq -r 'select(.type == "glitch") | .blocked.stack | join(";")' "$T/gl/index.jsonl" >"$T/slept"
	grep -qE ';sleeps;run;main;[^;]*libc_start.*;_start$' "$T/slept" || fail "it slept in $(cat "$T/slept")"
}

# fed READY PROGRAM ARGS...: a program that reads its standard input, $TO, and is told READY: when it
# answers, it has mapped what it needs
fed()
{
	mkfifo "$T/to" "$T/from"
	# Open for both directions, so that neither side waits for the other in open().
	exec {TO}<>"$T/to" {from}<>"$T/from"
	"${@:2}" <"$T/to" >"$T/from" 2>"$T/fed.err" 3>&- 4>&- &
	FED=$!
	OURS+=("$FED")
	printf '%s\n' "$1" >&"$TO"
	read -r -t "${SG_PATIENCE:-60}" -u "$from" _ || fail "it does not answer: $(cat "$T/fed.err")"
}

@test "sqlite3 inside an open gate: each kept stack has the function, to the root" {
	fed "select hex(1);" stdbuf -oL sqlite3 :memory:
	gp_start -q --call-graph dwarf -F 199 -g u:libsqlite3:sqlite3_step -p "$FED"
	echo "with recursive n(i) as (select 1 union all select i + 1 from n limit 600000)
		select count(*), max(hex(i * 7 % 1000)) from n where i % 3;
.exit" >&"$TO"
	wait "$FED"
	gp_wait
	assert_done
	all_hold '.kept > 10' '.unwind.stops.complete == .kept' '.gates[0].doubtful == 0' \
		'.unwind.frames_by_fp == 0' '.gates[0].unbalanced == 0'
	[ "$(samples '^sqlite3;.*;__libc_start_call_main;.*;sqlite3_step(;| )')" -eq "$(field .kept)" ] ||
		fail "not each has it"
	grep -q ';sqlite3_step;sqlite3VdbeExec' "$T/out.folded"
}

@test "python3: its stacks reach the root" {
	fed 'print("here", flush=True)' /usr/bin/python3 -uic 'import sys; sys.ps1 = ""'
	gp_start -q -F 199 -p "$FED"
	echo 'import time; end = time.process_time() + 0.5
while time.process_time() < end: s = sorted(str(i) for i in range(1000))

exit()' >&"$TO"
	wait "$FED"
	gp_wait
	assert_done
	all_hold '.kept > 10' '.unwind.stops.complete * 100 >= .unwind.stacks * 95' \
		'.unwind.stops.no_process == 0'
	[ "$(samples ';__libc_start_call_main;Py_BytesMain;.*;_PyEval_EvalFrameDefault;')" -gt 5 ] ||
		fail "not in its interpreter"
}
