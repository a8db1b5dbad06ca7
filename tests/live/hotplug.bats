# SPDX-License-Identifier: BSD-2-Clause
# CPUs that go and come during a run, or are not there when it begins.

load lib
load lib2

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	[ -e /sys/devices/system/cpu/cpu1/online ] || skip "no CPU hotplug: CPU 1 can't be taken offline"
}

# switch N: CPU 1 offline (0) or online (1), and the kernel agrees
switch()
{
	echo "$1" >/sys/devices/system/cpu/cpu1/online || fail "the kernel does not switch CPU 1"
	[ "$(cat /sys/devices/system/cpu/cpu1/online)" -eq "$1" ] || fail "CPU 1 is not as asked"
}

teardown()
{
	echo 1 >/sys/devices/system/cpu/cpu1/online || true
	live_teardown
}

# pin TAG: a workload's threads run on CPU 1
pin()
{
	taskset -acp 1 "$(wl_pid "$1")" >/dev/null || fail "$1 can't be pinned"
}

# taken TAG CPU: the samples of that workload on that CPU
taken()
{
	jq -s --argjson pid "$2" --argjson cpu "$3" \
		'[.[] | select(.pid == $pid and .cpu == $cpu)] | length' "$1"
}

# glitched N: glitchrec's index has so many lines
glitched()
{
	until [ -s "$T/gl/index.jsonl" ] && [ "$(wc -l <"$T/gl/index.jsonl")" -ge "$1" ]; do
		kill -0 "$GP_PID" || fail "the tool ended"
	done
}

@test "a CPU that goes and comes back: the run goes on, and nothing that it sampled is lost" {
	local before while_gone after

	# 10 ms of CPU time a round.
	wl before "$W/duty" -n 70
	wl while_gone "$W/duty" -n 170
	wl after "$W/duty" -n 230
	before=$(wl_pid before) while_gone=$(wl_pid while_gone) after=$(wl_pid after)
	pin before
	gp_start -F 199 --samples "$T/samples"
	wl_go before
	wl_wait before
	switch 0
	wl_go while_gone
	wl_wait while_gone
	switch 1
	pin after
	wl_go after
	wl_wait after
	gp_stop
	assert_done
	assert_folded
	# 139 and 338 ticks; 458 if the CPU was noticed again at once, which takes a second at most.
	[ "$(taken "$T/samples" "$before" 1)" -ge 100 ] || fail "CPU 1 was not sampled before"
	[ "$(taken "$T/samples" "$while_gone" 1)" -eq 0 ] || fail "a CPU that is gone was sampled"
	[ "$(taken "$T/samples" "$while_gone" 0)" -ge 200 ] || fail "CPU 0 was not sampled meanwhile"
	[ "$(taken "$T/samples" "$after" 1)" -ge 50 ] || fail "CPU 1 was not sampled afterwards"
	holds '.kept == ('"$(wc -l <"$T/samples")"')'
	# The account of a CPU that went is its own time's, not the run's.
	holds '.missed < .seen / 5'
	holds '.exit == 0'
}

@test "a CPU that goes while a gate is open on it" {
	local i scope

	for scope in thread cpu system; do
		wl duty "$W/duty" -n 211
		pin duty
		gp_start --scope "$scope" -g "u:$W/duty:inside" -F 499
		wl_go duty
		for i in 1 2 3; do
			a_while 130
			switch 0
			a_while 130
			switch 1
		done
		wl_wait duty
		gp_stop
		assert_done
		is '.gates[0].entries' 211
		assert_balanced
		assert_some inside
		[ "$scope" != thread ] || assert_none outside
		rm -f "$T"/duty.*
	done
}

@test "a CPU that is offline when the run begins: left out, or an error where it was asked for alone" {
	switch 0
	wl a "$W/duty" -n 40
	gp_start -C 0-1 -F 199 -p "$(wl_pid a)"
	wl_go a
	wl_wait a
	gp_wait
	assert_done
	assert_some 'inside|outside' 50
	gp -C 1 1
	refused_early 1 '-C: CPU 1 is offline \(echo 1 >'
}

@test "the kernel's own samples of a CPU that goes and comes back" {
	command -v perf >/dev/null || skip "no perf"
	GP=$SG_BUILD/overflowfilter
	wl before "$W/duty" -n 40
	wl while_gone "$W/duty" -n 120
	wl after "$W/duty" -n 200
	pin before
	gp_start -F 499 -e cpu-clock --filter 'comm == "duty"' --emit chain --perf-data "$T/p.data"
	wl_go before
	wl_wait before
	switch 0
	wl_go while_gone
	wl_wait while_gone
	switch 1
	pin after
	wl_go after
	wl_wait after
	gp_stop
	[ "$status" -eq 0 ] || fail "exit code $status"
	holds '.seen == .kept + .filtered + .lost and .kept > 1000'
	holds '.kept == .chain_written + .chain_lost and .ring.unknown == 0'
	[ "$(HOME=$T perf script -F event -i "$T/p.data" 2>/dev/null | grep -c cpu-clock)" -eq \
		"$(field .chain_written)" ] || fail "perf reads another number"
}

@test "glitchrec: a CPU that goes and comes back while a frame is open, and after it" {
	local tool=$SG_BUILD/glitchrec

	wl f "$W/frames" -t 100000 many
	rm -f "$T/ready"
	start_tool "$tool" -o "$T/gl" -F 199 -g "u:$W/frames:frame" --threshold 10ms -p "$(wl_pid f)"
	wl_go f
	glitched 3
	switch 0
	glitched $(($(wc -l <"$T/gl/index.jsonl") + 3))
	switch 1
	glitched $(($(wc -l <"$T/gl/index.jsonl") + 3))
	gp_stop
	[ "$status" -eq 0 ] || fail "exit code $status"
	holds '.seen == .kept + .outside + .filtered + .lost and .lost == 0'
	holds '.glitches >= 9 and .files >= 9 and .exit == 0'
}
