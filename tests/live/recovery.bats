# SPDX-License-Identifier: BSD-2-Clause
# Openings whose close never comes: each is undone, under its cause, and nothing is kept afterwards.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# recovers CAUSE N: so many under this cause, and none under any other
recovers()
{
	is ".gates[0].recovered_by.$1" "$2"
	is '.gates[0].recovered' "$2"
}

# What is kept is inside; after an escape nothing is, though the program burnt there for long.
closed_afterwards()
{
	assert_none 'after|after_leaf|below|after_exec'
	assert_some gated_leaf
	is '.gates[0].unbalanced' 0
	is '.gates[0].no_room' 0
	is '.gates[0].forced' 0
	assert_few_doubtful
	# The rest was seen, and left out.
	holds '.outside > 100'
}

# escape SCOPE CAUSE N MODE [OPTION...]
escape()
{
	local scope=$1 cause=$2 n=$3 mode=$4

	shift 4
	gp_ok -F 1999 -g "u:$W/escape:gated" --scope "$scope" -- "$W/escape" "$@" "$mode"
	is '.gates[0].scope' "$scope"
	is '.gates[0].entries' "$(number entries "$T/cmd")"
	recovers "$cause" "$n"
	closed_afterwards
}

every_scope()
{
	local scope

	for scope in thread process cpu system; do
		# Not "|| fail": behind that, a failed assertion inside does not end the test.
		echo "scope $scope:"
		escape "$scope" "$@"
	done
}

@test "longjmp to main, which calls something else at a lower stack address: 17" {
	every_scope unwound 17 longjmp-main
}

@test "longjmp out of a deep frame: 17" {
	every_scope unwound 17 longjmp-far
}

@test "longjmp to the caller, which enters again from the same call: 17, and one return" {
	every_scope unwound 17 longjmp-caller
}

@test "longjmp to the caller, which does something else first: 17, and one return" {
	every_scope unwound 17 longjmp-caller-pause
}

@test "longjmp from a recursion 5 deep: all 35 openings are undone" {
	every_scope unwound 35 longjmp-deep
}

@test "C++ exceptions through the function: 13" {
	local scope

	for scope in thread process cpu system; do
		gp_ok -F 1999 -g "u:$W/throwing:gated" --scope $scope -- "$W/throwing" through
		is '.gates[0].entries' 13
		recovers unwound 13
		assert_none 'after|after_leaf'
		assert_some gated
		is '.gates[0].unbalanced' 0
		assert_few_doubtful
	done
}

@test "C++ exceptions that the function throws on, or past a destructor of it: 13" {
	local mode

	for mode in rethrow cleanup; do
		gp_ok -F 1999 -g "u:$W/throwing:gated" --scope system -- "$W/throwing" $mode
		is '.gates[0].entries' 13
		recovers unwound 13
		assert_none 'after|after_leaf'
		is '.gates[0].unbalanced' 0
		assert_few_doubtful
	done
}

@test "C++ exceptions that the function catches for good: it returns, nothing is recovered" {
	gp_ok -F 1999 -g "u:$W/throwing:gated" --scope system -- "$W/throwing" swallow
	is '.gates[0].entries' 13
	assert_balanced
	assert_none 'after|after_leaf'
	assert_some gated
}

# It unwinds the stack first: a tick after that finds the frame gone while the thread is still there.
@test "11 threads that exit inside, by pthread_exit(): if no tick comes first, at their exit" {
	local scope

	for scope in thread process cpu system; do
		gp_ok -F 1999 -g "u:$W/escape:gated" --scope $scope -- "$W/escape" thread-exit
		is '.gates[0].entries' 11
		is '.gates[0].recovered' 11
		holds '.gates[0].recovered_by | .unwound + .thread_exit == 11 and .thread_exit >= 2'
		closed_afterwards
	done
}

@test "11 threads that exit inside, by the system call" {
	every_scope thread_exit 11 thread-exit -S
}

@test "a process killed inside: 1" {
	every_scope killed 1 kill -b 40
}

@test "a process that exits inside: 1" {
	every_scope thread_exit 1 exit -b 40
}

@test "a process that ends while another of its threads is inside: 1" {
	local scope

	for scope in thread system; do
		gp_ok -F 1999 -g "u:$W/escape:gated" --scope $scope -- "$W/escape" -b 40 exit-group
		is '.gates[0].entries' 1
		is '.gates[0].recovered' 1
		closed_afterwards
	done
}

@test "exec inside: 1" {
	every_scope exec 1 exec -b 40
}

# The stack is the new program's before the kernel tells of it.
@test "ticks inside exec do not take it for a longjmp: 97" {
	# shellcheck disable=SC2016 # the inner shell expands
	gp_ok -F 19999 -g "u:$W/escape:gated" -- \
		bash -c 'for _ in {1..97}; do "$0" -b 0 -t 0 -f 0 exec >/dev/null || exit; done' "$W/escape"
	is '.gates[0].entries' 97
	recovers exec 97
}

@test "exec inside, by another thread than the first: 1" {
	local scope

	for scope in thread process system; do
		gp_ok -F 1999 -g "u:$W/escape:gated" --scope $scope -- "$W/escape" -b 40 exec-thread
		is '.gates[0].entries' 1
		recovers exec 1
		closed_afterwards
	done
}

@test "the program itself is killed inside: 1" {
	gp_ok -F 1999 -g "u:$W/escape:gated" -- "$W/escape" -b 100 kill-self
	recovers killed 1
	assert_some gated_leaf 20
	is '.gates[0].unbalanced' 0
}

@test "the program itself exits inside: 1" {
	gp_ok -F 1999 -g "u:$W/escape:gated" -- "$W/escape" -b 100 exit-self
	recovers thread_exit 1
	assert_some gated_leaf 20
	assert_says 'exited with status 42'
}

@test "a system-wide gate does not stay open for others after a thread died inside" {
	local mode cause

	for mode in thread-exit kill exec longjmp-main; do
		wl "spin$mode" "$W/spin" -t 60000
		wl "$mode" "$W/escape" -b 40 -f 400 $mode
		gp_start -F 1999 --samples "$T/samples.json" -g "u:$W/escape:gated" --scope system \
			-p "$(wl_pid "spin$mode"),$(wl_pid "$mode")" --follow
		wl_go "spin$mode"
		wl_go "$mode"
		wl_wait "$mode"
		gp_stop
		kill -9 "$(wl_pid "spin$mode")"
		assert_done
		holds '.gates[0].recovered > 0'
		holds '.gates[0].recovered == .gates[0].entries'
		is '.gates[0].unbalanced' 0
		assert_none 'after|after_leaf|below|after_exec'
		# It was kept while the other was inside, and 400 ms and more were not.
		assert_some spin 20
		holds '.outside > 600'
	done
}

@test "a signal handler on an alternate stack closes nothing" {
	local scope

	for scope in thread process cpu system; do
		gp_ok -F 1999 -g "u:$W/escape:gated" --scope $scope -- "$W/escape" altstack
		is '.gates[0].entries' 3
		is '.gates[0].opens' 3
		assert_balanced
		assert_none 'after|after_leaf'
		# Inside goes on in the handler and after it.
		assert_some on_alt 10
		assert_some gated_leaf 50
	done
}

@test "a handler on an alternate stack above the thread's enters the gate too" {
	local scope

	for scope in thread process cpu system; do
		gp_ok -F 1999 -g "u:$W/escape:gated" --scope $scope -- "$W/escape" altstack-nested
		is '.gates[0].entries' 10
		is '.gates[0].opens' 5
		assert_balanced
		assert_none 'after|after_leaf'
		assert_some on_alt_nested
	done
}

@test "a pair of points is undone too when its thread ends inside" {
	# Opened at gated's entry, never closed by a marker that is not called.
	gp_ok -F 1999 -g "u:$W/escape:gated+0..u:$W/escape:after_exec+0" --scope system -- \
		"$W/escape" thread-exit
	is '.gates[0].entries' 11
	recovers thread_exit 11
	assert_some gated_leaf
	# Each thread is dead before main burns in after().
	assert_none 'after|after_leaf'
}

@test "a system call that ends its thread is undone: exit_group" {
	gp -F 1999 -g syscall:exit_group --scope system -- "$W/escape" exit
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	holds '.gates[0].entries == 2'
	is '.gates[0].recovered' 2
	is '.gates[0].recovered_by.unwound' 0
	assert_none 'after|after_leaf'
}

@test "what was recovered is said" {
	gp_ok -F 997 -g "u:$W/escape:gated" -- "$W/escape" longjmp-main
	assert_says '0 unbalanced, 17 recovered'
}

@test "more entries than there is room for: each counted, and the gate closes all the same" {
	# Room for 16,384 nested entries besides the outermost.
	gp_ok -F 499 -g "u:$W/nest:recurse" -- "$W/nest" -d 17000 -n 3
	[ "$(tail -n 1 "$T/cmd")" = "entries=51000 returns=51000 depth=17000 repeats=3" ] ||
		fail "says: $(cat "$T/cmd")"
	is '.gates[0].entries' 51000
	is '.gates[0].opens' 3
	is '.gates[0].no_room' 1845
	# Their returns belong to no opening that is known.
	is '.gates[0].unbalanced' 1845
	is '.gates[0].recovered' 0
	assert_says '1,845 openings not followed: no room'
	assert_some recurse
	assert_none after
}

# asleep SCOPE: a thread leaves 24 times and then sleeps or waits, while another thread burns
asleep()
{
	gp -F 999 -g "u:$W/leftasleep:gated" --scope "$1" -- "$W/leftasleep" -n 24 -o longjmp all
	assert_identity
	is '.gates[0].entries' 24
	recovers unwound 24
	# Open for as long as they were inside, and a tick each; they wait for 60 ms each.
	holds ".gates[0].open_ns < $(number inside_ns "$T/cmd") + 24 * 15000000"
	holds ".gates[0].open_ns > 24 * 900000"
}

@test "left by longjmp, then asleep: no scope stays open while another thread burns" {
	local scope

	for scope in process system cpu thread; do
		echo "scope $scope:"
		asleep "$scope"
		# The other one has most of the samples, all the time.
		[ "$scope" = thread ] || holds '.kept < .seen / 3'
	done
}
