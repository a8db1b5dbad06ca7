# SPDX-License-Identifier: BSD-2-Clause
# Functions that are left without a return: what comes after is not theirs, also where the thread
# sleeps and no sample tells.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

LIMIT=25000000 # waits are 60 ms, what is inside 1 ms and what the machine adds to that

# calls N OPTION... MODE WAIT: by the log, those that were slow are glitches, and no others
calls()
{
	local n=$1

	rm -rf "$T/gl" "$T"/f.* "$T/ready"
	wl f "$W/leftasleep" -n "$n" "${@:2}"
	gr_start -q -g "u:$W/leftasleep:gated" --threshold 25ms -p "$(wl_pid f)"
	wl_go f
	wl_wait f
	gp_wait
	[ "$status" -eq 4 ] || gr_done
	# How long one was that is found to be gone is known to a tick.
	exact "$T/f.out" $LIMIT 12000000
	is '.gates[0].entries' "$(number entries "$T/f.out")"
	is .unbalanced 0
}

@test "longjmp, longjmp out of a handler, exceptions; then poll, futex, nanosleep, read, busy" {
	local mode thread

	for mode in longjmp signal throw; do
		for thread in '' -d; do
			echo "$mode $thread"
			calls 24 $thread "$mode" all
			is .abandoned_by.unwound 24
			is .frames 0
		done
	done
}

@test "out of the 40th level of a recursion" {
	calls 24 deep all
	is .abandoned_by.unwound 24
	is '.gates[0].recovered' 960
}

@test "each wait by itself, at 24 places of the stack" {
	local how

	for how in futex read; do
		echo "$how"
		calls 24 longjmp "$how"
		is .abandoned_by.unwound 24
	done
}

@test "what waits inside is a glitch, though it is left by longjmp then" {
	calls 15 inside all
	is .glitches 15
	[ "$(glitches 'select(.cause == "unwound")' | wc -l)" -ge 14 ] || fail "not unwound"
}

@test "a context that waits is not a call that was left: on its own stack or another" {
	calls 15 swap all
	is .glitches 15
	is .abandoned 0
	calls 15 -d swap-other all
	is .glitches 15
	is .abandoned 0
}

@test "the same by --mode arm, and with a key that threads share" {
	rm -rf "$T/gl"
	wl f "$W/leftasleep" -n 24 longjmp all
	gr_start -q -g "u:$W/leftasleep:gated" --threshold 25ms --mode arm -p "$(wl_pid f)"
	wl_go f
	wl_wait f
	gp_wait
	exact "$T/f.out" $LIMIT 12000000
	rm -rf "$T/gl" "$T"/f.* "$T/ready"
	wl f "$W/leftasleep" -n 24 longjmp all
	gr_start -q -g "u:$W/leftasleep:gated" --threshold 25ms --key pid -p "$(wl_pid f)"
	wl_go f
	wl_wait f
	gp_wait
	exact "$T/f.out" $LIMIT 12000000
	is .abandoned_by.unwound 24
}
