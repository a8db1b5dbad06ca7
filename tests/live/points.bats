# SPDX-License-Identifier: BSD-2-Clause
# -p, -t, -G and COMMAND say whose points count: also where a point fires whoever passes it, since it
# can't be attached to a process (system calls, tracepoints, kernel functions).

load glitch

K=$W/kernelgate

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

CGROUP=

teardown()
{
	live_teardown
	[ -z "$CGROUP" ] || rmdir "$CGROUP" || true
}

# The named one, with 53 rounds, and another one with 67.
two()
{
	wl a "$K" -n 53 -i 53 -o 53
	wl b "$K" -n 67 -i 67 -o 67
}

both_go()
{
	wl_go b
	wl_wait b
	wl_go a
	wl_wait a
	rm -f "$T"/{a,b}.{go,ready}
}

# of_named SPEC ARGS...: a gate that the named process opens 53 times, in each scope
of_named()
{
	local spec=$1 scope

	for scope in thread process cpu system; do
		two
		gp_start -F 99 -g "$spec" --scope "$scope" -p "$(wl_pid a)"
		both_go
		gp_wait
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "$spec, $scope: exit code $status"
		assert_identity
		is '.gates[0].opens' 53
		is '.gates[0].entries' 53
		all_hold '.gates[0].unbalanced == 0' '.gates[0].recovered == 0'
	done
}

@test "-p: a system call of that process and no other, in each scope" {
	of_named syscall:getpgid
}

@test "-p: tracepoints" {
	of_named t:syscalls:sys_enter_getpgid..t:syscalls:sys_exit_getpgid
}

@test "-p: a pair of a system call and a user function, either way round" {
	of_named "syscall:getpgid..u:$K:outside"
	of_named "u:$K:inside..syscall:getsid"
}

@test "-p: a kernel function" {
	gp -F 99 -g k:__x64_sys_getpgid 100ms
	[ "$status" -ne 3 ] || skip "no kprobes and no fentry"
	of_named k:__x64_sys_getpgid
	of_named k:__x64_sys_getpgid..k:__x64_sys_getsid
}

@test "several gates, each of its own kind: each bounds itself" {
	two
	gp_start -F 99 -g "u:$K:inside" -g syscall:getpgid -g "u:$K:outside" -p "$(wl_pid a)"
	both_go
	gp_wait
	assert_identity
	is '[.gates[].opens] | unique | .[0]' 53
	is '[.gates[].opens] | length' 3
	is '[.gates[].opens] | unique | length' 1
}

@test "every way to name them: threads, several, more than eight, a cgroup, a command" {
	local i list root

	two
	gp_start -F 99 -g syscall:getpgid --scope system -t "$(wl_pid a)"
	both_go
	gp_wait
	is '.gates[0].entries' 53

	# Two of three.
	two
	wl c "$K" -n 71
	gp_start -F 99 -g syscall:getpgid --scope process -p "$(wl_pid a),$(wl_pid c)"
	wl_go c
	wl_wait c
	both_go
	gp_wait
	is '.gates[0].entries' 124
	rm -f "$T"/c.*

	# Nine of ten.
	two
	for ((i = 0; i < 8; i++)); do
		wl "t$i" "$K" -n 3
		list+=,$(wl_pid "t$i")
	done
	gp_start -F 99 -g syscall:getpgid -p "$(wl_pid a)$list"
	for ((i = 0; i < 8; i++)); do
		wl_go "t$i"
		wl_wait "t$i"
	done
	both_go
	gp_wait
	is '.gates[0].entries' 77

	two
	gp_start -F 99 -g syscall:getpgid --scope cpu -p "$(wl_pid a)" --follow
	both_go
	gp_wait
	is '.gates[0].entries' 53

	two
	wl_go b
	gp -F 99 -g syscall:getpgid -- "$K" -n 71
	is '.gates[0].entries' 71
	live_teardown
	rm -f "$T"/{a,b}.{go,ready}
	WL_PID=()

	root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$root" ] || skip "no cgroup v2"
	CGROUP=$root/samplegate-points-$$
	mkdir "$CGROUP"
	two
	wl_pid a >"$CGROUP/cgroup.procs"
	gp_start -F 99 -g syscall:getpgid --scope system -G "$CGROUP"
	both_go
	gp_stop
	is '.gates[0].entries' 53
}

@test "overflowfilter: inside is of the targets' own system calls" {
	GP=$SG_BUILD/overflowfilter
	two
	gp_start -F 99 --filter 'inside "syscall:getpgid"' -p "$(wl_pid a)"
	both_go
	gp_wait
	is '.gates[0].entries' 53
	is '.gates[0].unbalanced' 0
}

@test "nobody named: everyone's points count" {
	two
	gp_start -F 99 -g syscall:getpgid --scope thread
	both_go
	gp_stop
	holds '.gates[0].entries >= 120'
}

# Of two processes one has fast system calls, the other slow ones.
@test "glitchrec -p: the frames of that process and no other" {
	local key

	for key in tid pid global arg1; do
		wl fast "$W/waits" -n 53 sleep
		wl slow "$W/waits" -n 5 -t 250 sleep
		gr_start -q -g syscall:ppoll --key $key --threshold 150ms -p "$(wl_pid fast)"
		wl_go slow
		wl_wait slow
		wl_go fast
		wl_wait fast
		gp_wait
		[ "$status" -eq 4 ] || [ "$status" -eq 0 ] || fail "$key: exit code $status"
		is .frames 53
		is .unbalanced 0
		exact "$T/fast.out" 150000000
		rm -rf "$T"/gl "$T"/{fast,slow}.*
	done
	wl fast "$W/waits" -n 53 sleep
	wl slow "$W/waits" -n 5 -t 250 sleep
	gr_start -q -g syscall:ppoll --threshold 150ms -p "$(wl_pid slow)"
	wl_go fast
	wl_go slow
	wl_wait fast
	wl_wait slow
	gp_wait
	gr_done
	is .frames 5
	is .glitches 5
	exact "$T/slow.out" 150000000
}

# The request's end is another process's; only whose begin it is counts.
@test "glitchrec -p: a frame that is named by an argument may end in another process" {
	local begin=t:syscalls:sys_enter_getpgid end=t:syscalls:sys_enter_getsid of pid unbalanced

	for of in parent child; do
		wl x "$W/waits" -n 53 cross
		pid=$(wl_pid x)
		[ $of = parent ] || pid=$(tr -d ' ' <"/proc/$pid/task/$pid/children")
		gr_start -q -g "$begin..$end" --key arg1 --threshold 10s -p "$pid"
		wl_go x
		wl_wait x
		gp_wait
		[ "$status" -eq 4 ] || fail "$of: exit code $status"
		is .frames 53
		# The child passes its parent's ends, of which it has begun none.
		unbalanced=53
		[ $of = child ] || unbalanced=0
		is .unbalanced $unbalanced
		is .unfinished 0
		rm -rf "$T"/gl "$T"/x.*
	done
}

@test "glitchrec -t: a request that another thread ends" {
	wl a "$W/frames" handoff
	gr_start -q -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key arg0 \
		--threshold 25ms -t "$(wl_pid a)"
	wl_go a
	wl_wait a
	gp_wait
	gr_done
	is .frames 11
	is .unbalanced 0
}

@test "glitchrec -p: a deadline that others pass is none" {
	wl a "$K" -n 53 -i 53 -o 53
	wl b "$K" -n 67 -i 67 -o 67
	gr_start -q -g "syscall:getpgid..u:$K:outside" --deadline syscall:getsid -p "$(wl_pid a)"
	both_go
	gp_wait
	gr_done
	is .frames 53
	is .glitches 53
}
