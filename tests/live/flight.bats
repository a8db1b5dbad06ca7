# SPDX-License-Identifier: BSD-2-Clause
# The kernel's own flight recorders, read by lib/stream/flight while all CPUs write numbered records into
# them at 20 kHz. The program checks each snapshot itself and says what is wrong with it.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# numbers ARGS...
numbers()
{
	[ ${#OURS[@]} -gt 0 ] || busy
	timeout 100 "$SG_BUILD/live/flightnumbers" "$@" >"$T/numbers" 2>"$T/err" </dev/null ||
		fail "exit code $?"
	[ "$(number cpus "$T/numbers")" -eq "$(getconf _NPROCESSORS_ONLN)" ] || fail "CPUs"
	[ "$(number refused "$T/numbers")" -eq 0 ] || fail "a flight recorder refused a record"
}

# More than N records a snapshot, on average.
more_than()
{
	local records snapshots

	records=$(number records "$T/numbers")
	snapshots=$(number snapshots "$T/numbers")
	[ "$records" -gt $(($1 * snapshots)) ] || fail "$records records in $snapshots snapshots"
}

@test "each snapshot has consecutive numbers up to the newest" {
	numbers -b 65536 -n 2000
	more_than 100
}

@test "the smallest ring that there is" {
	numbers -b 4096 -n 2000
	more_than 2
}

@test "a short window of a large ring is cheap and covered" {
	local all

	numbers -b 4194304 -n 20
	all=$(($(number copied "$T/numbers") / $(number snapshots "$T/numbers")))
	numbers -b 4194304 -n 20 -w 2000000
	[ "$(number covered "$T/numbers")" -eq "$(number snapshots "$T/numbers")" ] || fail "not covered"
	more_than 2
	[ $(($(number copied "$T/numbers") / $(number snapshots "$T/numbers"))) -lt $((all / 4)) ] ||
		fail "copied as much as everything, $all"
}

@test "writers of another kind, which ticks interrupt, after a grace period" {
	numbers -b 1048576 -n 50 -s
	more_than 1000
	[ "$(number syscalls "$T/numbers")" -ge 1000 ] || fail "hardly any system call wrote"
}
