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

# started TOOL: sets $CMD to a short run of it, of everyone, with all CPUs
started()
{
	CMD=("$SG_BUILD/$1" -q -F 199 --summary "$T/sum.json")
	case $1 in
	gatedprof) CMD+=(-a -o "$T/out.folded") ;;
	overflowfilter) CMD+=(-a -o "$T/out.folded" -e cpu-clock --filter 'cpu >= 0' -e task-clock) ;;
	glitchrec) CMD+=(-a -o "$T/gl" -g syscall:write --threshold 10s) ;;
	*) fail "no such tool: $1" ;;
	esac
}

# opened TOOL: which calls of perf_event_open, by number, are for a CPU, and not for a point
opened()
{
	started "$1"
	strace -qq -o "$T/trace" -e trace=perf_event_open "${CMD[@]}" 100ms >/dev/null 2>"$T/err" </dev/null 3>&- || true
	grep -n 'type=PERF_TYPE_SOFTWARE.* -1, [0-9]*, -1, PERF_FLAG_FD_CLOEXEC) = [0-9]' "$T/trace" | cut -d: -f1
}

@test "a CPU that goes while the tool starts: left out, whichever of its events it is" {
	local tool k n step=1

	command -v strace >/dev/null || skip "strace is not installed"
	busy
	for tool in gatedprof overflowfilter glitchrec; do
		opened $tool >"$T/all"
		n=$(wc -l <"$T/all")
		[ "$n" -ge 6 ] || fail "$tool opens $n events on CPUs"
		sed -n "1~${step}p" "$T/all" >"$T/calls"
		step=3
		while read -r k; do
			status=0
			rm -rf "$T/sum.json" "$T/gl"
			strace -qq -o "$T/trace" -e trace=perf_event_open \
				-e "inject=perf_event_open:error=ENODEV:when=$k" "${CMD[@]}" 300ms \
				>/dev/null 2>"$T/err" </dev/null 3>&- || status=$?
			grep -q INJECTED "$T/trace" || fail "$tool: call $k was not reached"
			[ "$status" -eq 0 ] || [ "$tool.$status" = glitchrec.4 ] ||
				fail "$tool, call $k: exit code $status"
			holds '.seen > 20 and .seen == .kept + .outside + .filtered + .lost and .lost == 0'
		done <"$T/calls"

		# Nothing is left.
		status=0
		strace -qq -o "$T/trace" -e trace=perf_event_open \
			-e "inject=perf_event_open:error=ENODEV:when=1+" "${CMD[@]}" 300ms \
			>/dev/null 2>"$T/err" </dev/null 3>&- || status=$?
		[ "$status" -eq 1 ] || fail "$tool, all of them: exit code $status"
		assert_says "^$tool: cannot open the .* on CPU [0-9]+: No such device: it is not online any more"
		[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one message"
	done

	# The last one opened is that of the only CPU that is meant.
	started gatedprof
	CMD+=(-C 1)
	strace -qq -o "$T/trace" -e trace=perf_event_open "${CMD[@]}" 100ms >/dev/null 2>&1 </dev/null 3>&-
	k=$(wc -l <"$T/trace") status=0
	strace -qq -o "$T/trace" -e trace=perf_event_open \
		-e "inject=perf_event_open:error=ENODEV:when=$k" "${CMD[@]}" 300ms \
		>/dev/null 2>"$T/err" </dev/null 3>&- || status=$?
	[ "$status" -eq 1 ] || fail "-C 1: exit code $status"
	assert_says '^gatedprof: cannot open the sampling event .* on CPU 1: No such device'
}

@test "a CPU that was not there at the start is sampled when it is" {
	command -v strace >/dev/null || skip "strace is not installed"
	opened gatedprof >/dev/null
	wl a "$W/duty" -n 400
	pin a
	mkfifo "$T/ready"
	# The first event of CPU 1: as if it were gone at that moment.
	n=$(grep -n ' -1, 1, -1, ' "$T/trace" | head -n 1 | cut -d: -f1)
	strace -qq -o "$T/trace" -e trace=perf_event_open -e "inject=perf_event_open:error=ENODEV:when=$n" \
		"$GP" -F 199 --samples "$T/samples" --summary "$T/sum.json" -o "$T/out.folded" \
		--ready-fd 9 -p "$(wl_pid a)" >"$T/cmd" 2>"$T/err" </dev/null 3>&- 9>"$T/ready" &
	GP_PID=$!
	read -r -t 60 _ <"$T/ready" || fail "the tool never became ready"
	wl_go a
	gp_wait
	assert_done
	# 4 s of CPU 1, of which the first is missing at most, and nothing else.
	[ "$(field .kept)" -ge 100 ] || fail "$(field .kept) samples: CPU 1 was not looked for"
	[ "$(jq -r .cpu "$T/samples" | sort -u)" = 1 ] || fail "not of CPU 1"
	wl_wait a
}
