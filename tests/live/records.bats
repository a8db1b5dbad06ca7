# SPDX-License-Identifier: BSD-2-Clause
# What the kernel wrote into the rings, read by somebody else, is what was kept: no record is made
# for a sample that is not kept, and none is dropped on its way.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# bytes_per_record ARGS...: of a run in which all records have the same size, since each has two
# user frames of a function that always has more; sets $bytes
bytes_per_record()
{
	local sum kept

	wl a "$W/duty"
	# Keeps the run going without ever running itself.
	wl b "$W/duty"
	gp_start -m 128 -U --max-stack 1 -p "$(wl_pid a),$(wl_pid b)" -g "u:$W/duty:inside" "$@"
	wl_go a
	wl_wait a
	"$W/ringhead" -p "$GP_PID" -m 128 >"$T/heads"
	gp_stop
	assert_done
	[ "$(number rings "$T/heads")" -eq "$(getconf _NPROCESSORS_ONLN)" ] || fail "$(cat "$T/heads")"
	sum=$(number sum "$T/heads")
	kept=$(field .kept)
	[ "$kept" -ge 20 ] || fail "too few to tell"
	holds '.outside > .kept'
	[ $((sum % kept)) -eq 0 ] || fail "$sum bytes are not $kept records of one size"
	bytes=$((sum / kept))
	kill -9 "${WL_PID[b]}"
	wait "${WL_PID[b]}" || true
	unset "WL_PID[b]"
	rm -f "$T"/[ab].go "$T"/[ab].ready "$T/ready"
}

@test "records in the rings are the kept samples, at any rate" {
	local first rate

	bytes_per_record -F 397
	first=$bytes
	# A perf header, the sample with two addresses, and not much more.
	[ "$first" -ge 64 ] && [ "$first" -le 512 ] || fail "$first bytes a record"
	for rate in 997 1999 4001; do
		bytes_per_record -F "$rate"
		[ "$bytes" -eq "$first" ] || fail "$bytes bytes a record at $rate Hz, $first at 397 Hz"
	done
}
