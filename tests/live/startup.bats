# SPDX-License-Identifier: BSD-2-Clause
# Ended before it is ready: a run that has begun to attach leaves nothing behind either.

load lib
load lib2

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# What the last run may be, if a signal came at any moment.
assert_ended_well()
{
	local sig=$1 number=$2

	case $status in
	0 | 4)
		assert_identity
		[ "$status" -eq 4 ] || assert_folded
		;;
	$((128 + number)))
		# Not ready yet: then it has written nothing.
		[ "$(cat "$T/out.folded")" = "an older result 1" ] || fail "$sig: the output changed"
		[ ! -e "$T/sum.json" ] || fail "$sig: died, and wrote a summary"
		! grep -q 'gatedprof: ready' "$T/err" || fail "$sig: died although it was ready"
		;;
	*) fail "$sig: exit code $status" ;;
	esac
	assert_no_litter
}

# The breakpoint in the target is gone, whoever else may have programs in the kernel.
assert_no_breakpoint()
{
	local end=$((SECONDS + 10))

	until [ "$(breakpoints "$(wl_pid t)" "$W/spin" spin burn)" = "$1" ]; do
		[ $SECONDS -lt $end ] || fail "a breakpoint is left in the target"
	done
}

# Before exec, the process is still a part of this test.
until_it_is_the_tool()
{
	local comm=${GP##*/} have=

	until [ "$have" = "${comm:0:15}" ]; do
		read -r have <"/proc/$GP_PID/comm"
	done
}

# at_any_moment SIGNAL NUMBER TIMES
at_any_moment()
{
	local before ms

	wl t "$W/spin" -t 100000
	before=$(breakpoints "$(wl_pid t)" "$W/spin" spin burn)
	wl_go t
	for ((i = 0; i < $3; i++)); do
		ms=$((RANDOM % 120))
		echo "an older result 1" >"$T/out.folded"
		rm -f "$T/sum.json"
		# Not ignored, as a shell does with what it starts in the background.
		env --default-signal=INT,TERM "$GP" -o "$T/out.folded" --summary "$T/sum.json" \
			-g "u:$W/spin:burn" -g "u:$W/spin:spin" -p "$(wl_pid t)" 20 \
			>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- &
		GP_PID=$!
		until_it_is_the_tool
		a_while $ms
		kill "-$1" "$GP_PID"
		gp_wait 2>/dev/null
		if [ "$1" = KILL ]; then
			[ "$status" -eq 137 ] || fail "exit code $status"
			[ "$(cat "$T/out.folded")" = "an older result 1" ] || fail "the output changed"
			[ ! -e "$T/sum.json" ] || fail "wrote a summary"
			find "$T" -name '.samplegate-*' -delete
		else
			assert_ended_well "$1 after $ms ms" "$2"
		fi
		assert_no_breakpoint "$before"
	done
}

@test "SIGINT at any moment" {
	RANDOM=1
	at_any_moment INT 2 15
}

@test "SIGTERM at any moment" {
	RANDOM=2
	at_any_moment TERM 15 15
}

@test "kill -9 at any moment" {
	RANDOM=3
	at_any_moment KILL 9 15
}

@test "kill -9 before it is ready: its COMMAND never runs" {
	local i

	RANDOM=4
	for ((i = 0; i < 15; i++)); do
		rm -f "$T/ran"
		"$GP" -o "$T/out.folded" -g "u:$W/spin:spin" -- touch "$T/ran" \
			>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- &
		GP_PID=$!
		until_it_is_the_tool
		a_while $((RANDOM % 25))
		kill -9 "$GP_PID"
		gp_wait 2>/dev/null
		if ! grep -q 'gatedprof: ready' "$T/err"; then
			# Its child sees the end of the pipe and goes; there is no one to wait for it.
			[ ! -e "$T/ran" ] || fail "the command ran, and nobody watched"
		fi
	done
}

@test "SIGTERM at each file that is opened, and at each event" {
	local call n

	command -v strace >/dev/null || skip "strace is not installed"
	# One target: of each process that exists, files are opened.
	for call in openat perf_event_open; do
		for ((n = 1; n < 500; n++)); do
			echo "an older result 1" >"$T/out.folded"
			rm -f "$T/sum.json"
			status=0
			strace -qq -o "$T/trace" -e "trace=$call" -e "inject=$call:signal=TERM:when=$n" \
				"$GP" -o "$T/out.folded" --summary "$T/sum.json" -g "u:$W/duty:inside" -p $$ 1ms \
				>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
			assert_ended_well "TERM at $call $n" 15
			grep -q -e '--- SIGTERM' "$T/trace" || break
		done
		[ "$n" -gt 2 ] && [ "$n" -lt 500 ] || fail "$n times $call"
	done
}
