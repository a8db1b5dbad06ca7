# SPDX-License-Identifier: BSD-2-Clause
# What does not become a sample: lost for want of room, missed by the kernel, or decided in the
# kernel and never written.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	# A stopped process can't be waited for.
	[ -z "$GP_PID" ] || kill -CONT "$GP_PID" 2>/dev/null || true
	live_teardown
}

# The tool stops running for good, not at some later moment.
gp_pause()
{
	local i stat

	kill -STOP "$GP_PID"
	for ((i = 0; i < 10000; i++)); do
		stat=$(<"/proc/$GP_PID/stat")
		stat=${stat##*) }
		[ "${stat%% *}" != T ] || return 0
	done
	fail "the tool does not stop"
}

# heads PAGES: how far the tool's rings of that many pages are written, a line for each
heads()
{
	"$W/ringhead" -p "$GP_PID" -m "$1" >"$T/heads" || fail "ringhead: $?"
	[ "$(number rings "$T/heads")" -eq "$(getconf _NPROCESSORS_ONLN)" ] ||
		fail "rings of $1 pages: $(cat "$T/heads")"
	cat "$T/heads"
}

@test "a ring that overflows: counted by cause, and said" {
	wl a "$W/spin" -t 700
	gp_start -m 1 -c 50000 -p "$(wl_pid a)"
	gp_pause
	wl_go a
	wl_wait a
	kill -CONT "$GP_PID"
	gp_wait
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	# 14,000 samples, each at least 64 bytes, and 4096 bytes to hold them per CPU.
	holds '.lost > 1000'
	holds '.lost_by.ring_full == .lost'
	holds '.kept > 0'
	holds '.kept < .seen / 10'
	assert_says "$(field .lost | sed ':a; s/\B[0-9]\{3\}\>/,?&/; ta') lost"
}

@test "a tool that is slow for a while loses nothing when the ring has room" {
	wl a "$W/spin" -t 700
	gp_start -F 997 -m 64 -p "$(wl_pid a)"
	gp_pause
	wl_go a
	wl_wait a
	kill -CONT "$GP_PID"
	gp_wait
	assert_done
	holds '.kept > 300'
}

@test "missed ticks are counted, and said" {
	gp_ok -F 9973 -g syscall:getppid -- "$W/sysstorm"
	holds '.missed > 0'
	assert_says "$(field .missed | sed ':a; s/\B[0-9]\{3\}\>/,?&/; ta') ticks? missed"
}

@test "every record in the rings is a kept sample, and the other way round" {
	gp_ok -F 1999 --samples "$T/samples" -g "u:$W/duty:inside" -- "$W/duty"
	is .kept "$(wc -l <"$T/samples")"
	is .kept "$(jq -s 'map(select(.gates == [0])) | length' "$T/samples")"
	holds '.kept > 0 and .outside > 0'
}

@test "with the gate closed, not one byte is written for user space" {
	wl a "$W/idlegate" -n 10000000 never
	gp_start -m 32 -F 997 -g "u:$W/idlegate:gated"
	heads 32 >"$T/before"
	wl_go a
	"$W/spin" -t 3000 >/dev/null
	heads 32 >"$T/after"
	gp_stop
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	[ "$(number sum "$T/before")" -eq 0 ] || fail "before: $(cat "$T/before")"
	cmp "$T/before" "$T/after" || fail "after: $(cat "$T/after")"
	# There was plenty to decide about.
	holds '.seen > 1000'
	holds '.outside == .seen'
	is .kept 0
	is '.gates[0].entries' 0
}

@test "without a gate the same rings are written" {
	wl a "$W/idlegate" -n 10000000 never
	gp_start -m 32 -F 997
	heads 32 >"$T/before"
	wl_go a
	"$W/spin" -t 1000 >/dev/null
	heads 32 >"$T/after"
	gp_stop
	assert_done
	# A record has a header, and at least one address.
	[ "$(number sum "$T/after")" -gt $(($(number sum "$T/before") + 300 * 64)) ] ||
		fail "before: $(cat "$T/before"), after: $(cat "$T/after")"
}
