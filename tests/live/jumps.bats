# SPDX-License-Identifier: BSD-2-Clause
# Indirect jumps of a gated function: those that stay inside have no probe, or lose it; those that
# leave close the gate. What counts is how often a probe was hit, by the summary, and how often the
# function was called, by the workload.

load lib
load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# leaves FUNCTION CALLS: each call is one entry and one hit of an exit, and nothing is left open
leaves()
{
	gp -F 999 -g "u:$W/jumps:$1" -- "$W/jumps" -n "$2" "$1"
	assert_identity
	[ "$(number calls "$T/cmd")" -eq "$2" ] || fail "called $(cat "$T/cmd")"
	is '.gates[0].entries' "$2"
	is '.gates[0].opens' "$2"
	is '.gates[0].exit_hits' "$2"
	is '.gates[0].exit_stays' 0
	is '.gates[0].jumps_let_go' 0
	assert_balanced
	! grep -q 'exit probes' "$T/err" || fail "says $(cat "$T/err")"
}

# Those of the last run: each call was left once, and all else was a jump that stayed.
only_stays()
{
	is '.gates[0].entries' "$(number calls "$T/cmd")"
	holds '.gates[0] | .exit_hits == .entries + .exit_stays'
	assert_balanced
}

@test "a switch and a computed goto without a frame: no round hits a probe" {
	leaves sw 13
	[ "$(number rounds "$T/cmd")" -eq 130091 ]
	leaves cg 11
	[ "$(number rounds "$T/cmd")" -eq 110077 ]
}

@test "tail calls by a table of functions, an object's table, the GOT, a structure" {
	leaves table 1009
	leaves virtual_call 1013
	leaves got 1019
	leaves member 1021
}

# cxx PROGRAM FUNCTION...: what virtual functions and their like were compiled to; where they leave to the gate is shut
cxx()
{
	local function n=1009

	for function in "${@:2}"; do
		objdump -d --disassemble="$function" "$1" | grep -q 'jmp ' || fail "$function has no jump"
		gp -F 1999 -g "u:$1:$function" -- "$1" -n $n $function
		assert_identity
		is '.gates[0].entries' $n
		is '.gates[0].opens' $n
		is '.gates[0].exit_hits' $n
		is '.gates[0].exit_stays' 0
		assert_balanced
		# Nearly all of the time is behind the jump; in the function itself there are its probes.
		holds '.seen > 50 and .kept * 10 < .seen'
		n=$((n + 4))
	done
}

@test "C++: calls of virtual functions, of members and of a std::function as the last thing" {
	cxx "$W/vtail" by_vtable by_member by_function
}

@test "C++: the same by clang" {
	clang++ -O2 -Itests/workloads -o "$T/vtail" \
		tests/workloads/vtail.cc -pthread || fail "it is not built"
	# Its std::function returns.
	cxx "$T/vtail" by_vtable by_member
}

@test "jumps of which nobody knows: let go after 256 hits that stay" {
	gp -F 999 -g "u:$W/jumps:threaded" -- "$W/jumps" -n 3 -k 1000003 threaded
	assert_identity
	[ "$(number rounds "$T/cmd")" -eq 9000027 ]
	only_stays
	# Its three operations that are hit in each round, not the one at the end.
	is '.gates[0].jumps_let_go' 3
	holds '.gates[0].exit_stays >= 3 * 256 and .gates[0].exit_stays < 4500000'
	assert_says 'exit probes were hit [0-9,]+ times, [0-9,]+ by jumps that stayed inside; 3 indirect jumps did so 256 times or more and were let go'
}

@test "the same with four threads in it at once" {
	gp -F 999 -g "u:$W/jumps:threaded" -- "$W/jumps" -t 4 -k 1000003 threaded
	assert_identity
	[ "$(number rounds "$T/cmd")" -eq 12000036 ]
	only_stays
	is '.gates[0].jumps_let_go' 3
}

@test "too few hits: on trial to the end, and the function is left as ever" {
	gp -F 999 -g "u:$W/jumps:threaded" -- "$W/jumps" -n 1 -k 80 threaded
	assert_identity
	# 80 rounds of three operations and the end's jump.
	is '.gates[0].exit_stays' 241
	is '.gates[0].exit_hits' 243
	is '.gates[0].jumps_let_go' 0
	only_stays
}

@test "who is inside when the run begins is freed too, though no opening says where it is" {
	[ "$(uname -r | awk -F. '{ print ($1 > 5 || ($1 == 5 && $2 >= 17)) }')" -eq 1 ] ||
		skip "no cookies of probes"
	wl loop "$W/jumps" -n 1 -k 1000000000000 threaded
	wl_go loop
	until grep -q '^State:.R' "/proc/$(wl_pid loop)/status"; do :; done
	gp -F 999 -g "u:$W/jumps:threaded" -p "$(wl_pid loop)" 2
	assert_identity
	is '.gates[0].entries' 0
	is '.gates[0].jumps_let_go' 3
	holds '.gates[0].exit_stays >= 3 * 256 and .gates[0].exit_hits == .gates[0].exit_stays'
	holds '.seen > 100 and .kept == 0'
	kill -TERM "$(wl_pid loop)"
	wl_wait loop
}

@test "nobody comes: nothing is hit, nothing is let go" {
	wl idle "$W/jumps" -n 1 member
	gp -F 999 -g "u:$W/jumps:member" -p "$(wl_pid idle)" 1
	assert_identity
	is '.gates[0].exit_hits' 0
	is '.gates[0].jumps_let_go' 0
	wl_go idle
	wl_wait idle
}

@test "a jump that leaves once it has been let go: found and undone as other missed ends" {
	gp -F 999 -g "u:$W/jumps:turns" -- "$W/jumps" -n 1511 turns
	assert_identity
	is '.gates[0].entries' 1511
	is '.gates[0].opens' 1511
	is '.gates[0].unbalanced' 0
	# All of the 1,000 that stay return, 511 leave: by the probe if it is there still.
	holds '.gates[0] | .recovered <= 511 and .exit_stays >= 256 and .exit_stays <= 1000'
	holds '.gates[0] | .exit_hits + .recovered == 1511 + .exit_stays'
}

@test "glitchrec: a frame whose dispatch stays inside" {
	gr -q -g "u:$W/jumps:sw" --threshold 10s -- "$W/jumps" -n 17 sw
	is .frames 17
	is .unbalanced 0
	is .abandoned 0
	is '.gates[0].exit_hits' 17
	is '.gates[0].exit_stays' 0
	gr -q -g "u:$W/jumps:threaded" --threshold 10s -- "$W/jumps" -n 5 -k 300007 threaded
	is .frames 10
	is .abandoned 0
	is '.gates[0].jumps_let_go' 3
	gr -q -g "u:$W/jumps:virtual_call" --threshold 10s -- "$W/jumps" -n 1031 virtual_call
	is .frames 1031
	is .abandoned 0
	is .unbalanced 0
}

@test "overflowfilter: inside a function whose dispatch stays inside" {
	GP=$SG_BUILD/overflowfilter gp -e cpu-clock -F 999 --filter "inside \"u:$W/jumps:sw\"" \
		-- "$W/jumps" -n 19 -k 1000003 sw
	assert_identity
	is '.gates[0].entries' 19
	is '.gates[0].exit_hits' 19
	is '.gates[0].exit_stays' 0
	holds '.kept > 0'
	assert_all sw
}

@test "CPython's loop: each call is one entry and one exit" {
	[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
	gp -F 999 -g "u:$(readlink -f /usr/bin/python3):_PyEval_EvalFrameDefault" -- /usr/bin/python3 -S -E -c '
import functools
def call(a, b):
    s = 0
    for i in range(100): s += i
    return s
list(map(functools.partial(call, 1), range(1009)))'
	assert_identity
	holds '.gates[0].entries >= 1009'
	holds '.gates[0].exit_stays == 0'
	holds '.gates[0].exit_hits == .gates[0].entries'
	is '.gates[0].unbalanced' 0
}
