# SPDX-License-Identifier: BSD-2-Clause
# Both ends of a run: what begins before all CPUs are sampled, and what is open when that ends.
# Attaching and detaching are made slow (libslowends), so that what counts meanwhile shows.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

slow_ends()
{
	LD_PRELOAD=$SG_BUILD/helpers/libslowends.so "$@"
}

# edges OPTION...: a run in the midst of fast requests. Each glitch must be a request that the
# machine made slow, by the workload's own clock: there may be some, and mostly there are none.
# Points that are everybody's are no matter of ours. PID stands for the workload's number.
edges()
{
	local pid

	wl f "$W/frames" -t 100000 steady
	pid=$(wl_pid f)
	wl_go f
	slow_ends gr -q "${@/#PID/$pid}"
	kill -TERM "$pid"
	wl_wait f
	holds '.frames > 20'
	none_invented "$T/f.out" 60000000 "$pid"
	[ "$status" -eq "$(field 'if .glitches > 0 then 0 else 4 end')" ] || fail "exit code $status"
	is .incomplete 0
	rm -rf "$T/gl" "$T"/f.*
}

# none_invented FILE NS PID
none_invented()
{
	jq -rn --rawfile log "$1" --argjson limit "$2" --argjson pid "$3" '
		[$log | split("\n")[] | split(" ") | select(.[0] == "frame") |
			{begin: (.[3] | tonumber), end: (.[4] | tonumber)}] as $all |
		inputs | select(.type == "glitch" and .pid == $pid) | . as $g |
		select([$all[] | select(.begin - 1000000 < $g.begin_ns and $g.begin_ns < .end and
			.end - .begin > $limit - 1000000)] | length == 0) |
		"\($g.state), \($g.duration_ns) ns: no request was that slow"
	' "$T/gl/index.jsonl" >"$T/invented"
	[ ! -s "$T/invented" ] || fail "$(head -n 3 "$T/invented")"
}

@test "a run of fast frames has no glitch: functions, pairs, system calls, tracepoints" {
	local points

	for points in "u:$W/frames:frame" "u:$W/frames:begin_request..u:$W/frames:end_request" \
		syscall:nanosleep; do
		echo "$points"
		edges -g "$points" --threshold 60ms -p PID 600ms
	done
	edges -g t:syscalls:sys_enter_nanosleep..t:syscalls:sys_exit_nanosleep --threshold 60ms \
		-p PID 400ms
}

@test "… whatever the key, and whoever is meant" {
	local key

	for key in tid pid global arg0; do
		echo "$key"
		edges -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key $key \
			--threshold 60ms -a 500ms
		holds '.frames > 20'
	done
	slow_ends gr -q -g "u:$W/frames:frame" --threshold 60ms 500ms -- \
		"$W/frames" -t 100000 steady
	[ "$status" -eq 4 ] || fail "exit code $status"
	holds '.frames > 20 and .glitches == 0'
}

@test "… however long the run, and in each mode" {
	edges -g "u:$W/frames:frame" --threshold 60ms --mode arm -a 300ms
	edges -g "u:$W/frames:frame" --threshold 60ms --mode both -a 1100ms
	edges -g "u:$W/frames:frame" --deadline syscall:sched_yield -a 300ms
}

@test "frames that begin before all CPUs are sampled are none: each glitch is covered in full" {
	wl f "$W/frames" -t 100000 steady
	wl_go f
	slow_ends gr_start -q -g "u:$W/frames:frame" --threshold 1ms --pre 300ms --post 300ms \
		-p "$(wl_pid f)" 700ms
	gp_wait
	kill -TERM "$(wl_pid f)"
	wl_wait f
	gr_done
	holds '.frames > 50 and .glitches >= .frames'
	[ "$(glitches 'select(.coverage < 1)' | wc -l)" -eq 0 ] ||
		fail "$(glitches 'select(.coverage < 1)' | head -n 1)"
	is .incomplete 0
	jq -s '(.[] | select(.type == "sums") | .begin) as $began |
		[.[] | select(.type == "glitch" and .begin < $began)] | length' \
		"$T/gl/index.jsonl" >"$T/early"
	[ "$(cat "$T/early")" -eq 0 ] || fail "$(cat "$T/early") frames from before the recording"
	# The windows of the first and of the last reach as far as the recording.
	[ "$(glitches 'select(.from_ns > .begin_ns - 300000000)' | wc -l)" -gt 0 ] || fail "no begin"
	[ "$(glitches 'select(.to_ns < .end_ns + 300000000)' | wc -l)" -gt 0 ] || fail "no end"
}

@test "what hangs at the end has lasted until then, and not until all is detached" {
	wl f "$W/frames" -t 20000 hang
	slow_ends gr_start -q -g "u:$W/frames:hanging" --threshold 100ms -p "$(wl_pid f)" 600ms
	wl_go f
	gp_wait
	gr_done
	is .unfinished 1
	is .glitches 1
	glitches 'select(.state == "unfinished") | .duration_ns' >"$T/lasted"
	[ "$(cat "$T/lasted")" -gt 100000000 ] && [ "$(cat "$T/lasted")" -le "$(field .duration_ns)" ] ||
		fail "$(cat "$T/lasted") ns of $(field .duration_ns)"
}
