# SPDX-License-Identifier: BSD-2-Clause
# The profiled program never notices: its output and exit code are those of an ungated run, and
# every entry and every return is seen.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# unharmed FUNC PROG ARGS...: run alone, and gated on FUNC; the same output and exit code
unharmed()
{
	local func=$1 prog=$2 rc=0

	shift 2
	"$W/$prog" "$@" >"$T/alone" 2>"$T/alone.err" </dev/null 3>&- 4>&- || rc=$?
	gp_ok -F 1999 -g "u:$W/$prog:$func" -- "$W/$prog" "$@"
	cmp "$T/alone" "$T/cmd" || fail "$prog $*: says '$(cat "$T/cmd")', alone '$(cat "$T/alone")'"
	[ -s "$T/cmd" ] || fail "$prog $* said nothing"
	if [ $rc -ne 0 ]; then
		assert_says "exited with status $rc\$"
	elif grep -E 'exited with status|killed by' "$T/err"; then
		fail "$prog $* did not exit with 0"
	fi
	is '.gates[0].no_room' 0
	is '.gates[0].unbalanced' "${unbalanced:-0}"
}

# All entries, and a return for each.
all_returns()
{
	is '.gates[0].entries' "${1:-$(number entries "$T/cmd")}"
	assert_balanced
	holds '.kept > 0'
}

@test "C++ exceptions: through, thrown on, past a destructor" {
	local mode

	for mode in through rethrow cleanup; do
		unharmed gated throwing $mode
		is '.gates[0].entries' 13
		is '.gates[0].recovered_by.unwound' 13
		assert_none 'after|after_leaf'
	done
}

@test "C++ exceptions: caught for good" {
	unharmed gated throwing swallow
	all_returns 13
	[ "$(number returns "$T/cmd")" -eq 13 ]
	assert_none 'after|after_leaf'
}

@test "coroutines that switch inside, stacks from malloc and from mmap" {
	local kind scope

	for kind in malloc mmap; do
		unharmed gated coro $kind
		all_returns 47
		assert_none 'after|after_leaf'
	done
}

@test "coroutines under a system-wide gate: it is closed at the end" {
	local kind

	for kind in malloc mmap; do
		gp_ok -F 1999 -g "u:$W/coro:gated" --scope system -- "$W/coro" $kind
		all_returns 47
		assert_none 'after|after_leaf'
	done
}

@test "more coroutines than CPUs and levels" {
	unharmed gated coro -n 401 -k 40 -b 200
	all_returns
}

@test "a stack that moves while 200 frames are inside" {
	unharmed gated movestack
	all_returns 200
	assert_none 'after|after_leaf'
}

@test "a stack that moves many times" {
	unharmed gated movestack -d 60 -n 7
	all_returns
	assert_none 'after|after_leaf'
}

@test "recursion 200 deep: all 200 returns are seen" {
	unharmed recurse nest -d 200 -n 1 -t 100
	all_returns 200
	is '.gates[0].opens' 1
	assert_none 'after|after_leaf'
	assert_some recurse 50
}

@test "recursion 1000 deep" {
	unharmed recurse nest -d 1000 -n 2 -t 100
	all_returns 2000
	is '.gates[0].opens' 2
	assert_none 'after|after_leaf'
}

@test "vfork, posix_spawn, clone and fork inside" {
	# The 13 forked children return from a function that they never entered.
	unbalanced=13 unharmed gated forker
	is '.gates[0].entries' 13
	is '.gates[0].opens' 13
	is '.gates[0].recovered' 0
	assert_none 'after|after_leaf'
	assert_some gated
}

@test "vfork and clone inside, for every scope" {
	local scope

	for scope in process cpu system; do
		gp_ok -F 1999 -g "u:$W/forker:gated" --scope $scope -- "$W/forker"
		[ "$(cat "$T/cmd")" = "$("$W/forker")" ] || fail "says $(cat "$T/cmd")"
		is '.gates[0].entries' 13
		is '.gates[0].unbalanced' 13
		is '.gates[0].recovered' 0
		is '.gates[0].no_room' 0
		# On a CPU, or the system, a forked child is "after" while its parent is still inside.
		[ $scope != process ] || assert_none 'after|after_leaf'
	done
}

@test "signal handlers on an alternate stack" {
	unharmed gated escape altstack
	all_returns 3
	unharmed gated escape altstack-nested
	all_returns 10
}

@test "every way to escape" {
	local mode

	for mode in longjmp-main longjmp-far longjmp-caller longjmp-caller-pause longjmp-deep \
		thread-exit kill exit exit-group exit-self exec exec-thread; do
		unharmed gated escape $mode
		is '.gates[0].recovered' $(($(number entries "$T/cmd") - $(number returns "$T/cmd")))
	done
}

@test "every kind of exit" {
	local func

	for func in gated switcher sibling other; do
		unharmed $func tailcall
		all_returns "$(number $func "$T/cmd")"
	done
}

@test "many threads" {
	unharmed gated threads -n 300 -k 3 -b 500
	all_returns 900
}

@test "--unsafe-uretprobe: stacks inside show the true caller, and there is a warning" {
	gp_ok -F 1999 --unsafe-uretprobe -g "u:$W/uret:gated" -- "$W/uret"
	is '.gates[0].entries' 19
	assert_balanced
	# The first return faults the trampoline's page in, and there newer kernels (6.11) themselves put
	# the caller in its place: the function has returned, and the gate is not closed yet.
	local AT_PROBE="$AT_PROBE|;true_caller;asm_exc_page_fault_\[k\]"
	[ "$(samples ';true_caller;asm_exc_page_fault_\[k\]')" -le 2 ] || fail "faults at every return"
	assert_all gated
	assert_some gated_leaf 100
	# Whoever got as far as the leaf shows the whole chain.
	[ "$(samples ';gated_leaf;')" -eq "$(samples ';main;true_caller;gated;gated_leaf;')" ] ||
		fail "stacks without the true caller: $(grep ';gated_leaf;' "$T/out.folded" |
			grep -v ';main;true_caller;gated;gated_leaf;' | head -n 3)"
	[ "$(samples '7fffffffe000|\[uprobes\];gated')" -eq 0 ]
	assert_says 'warning: .*uretprobe'
}

@test "--unsafe-uretprobe in recursion: every caller is true" {
	gp_ok -F 1999 --unsafe-uretprobe -g "u:$W/uret:gated" -- "$W/uret" -d 3 -n 11
	is '.gates[0].entries' "$(number entries "$T/cmd")"
	assert_balanced
	assert_some gated_leaf 100
	[ "$(samples ';main;true_caller;gated;')" -ge "$(samples ';gated_leaf;')" ] ||
		fail "the outermost caller is missing: $(grep ';gated_leaf;' "$T/out.folded" |
			grep -v ';main;true_caller;gated;' | head -n 3)"
}

@test "without the option no uretprobe is used, and nothing warns of one" {
	gp_ok -F 1999 -g "u:$W/uret:gated" -- "$W/uret"
	all_returns 19
	[ "$(samples ';gated_leaf;')" -eq "$(samples ';main;true_caller;gated;gated_leaf;')" ]
	if grep -i uretprobe "$T/err"; then
		fail "it warns of a uretprobe"
	fi
}
