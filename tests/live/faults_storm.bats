# SPDX-License-Identifier: BSD-2-Clause
# Too much at once, and time that does not pass as one thinks: storms of processes and threads, a tool
# that is stopped, a clock that is set.

load glitch

OF=$SG_BUILD/overflowfilter

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	[ -z "$GP_PID" ] || kill -CONT "$GP_PID" 2>/dev/null || true
	live_teardown
}

# start TOOL ARGS...: gp_start for any of them
start()
{
	local out=(-o "$T/out.folded")

	[ "$1" != glitchrec ] || out=(-o "$T/gl")
	start_tool "$SG_BUILD/$1" "${out[@]}" "${@:2}"
}

# Of the tool, while it runs: most memory that it had, KB.
peak()
{
	sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$GP_PID/status"
}

# identity: what holds for every tool
identity()
{
	holds '.seen == .kept + .outside + .filtered + .lost'
	holds '.lost == ([.lost_by[]] | add)'
	is .exit "$status"
}

# stop_for MS: the tool does not run for so long
stop_for()
{
	local stat=

	kill -STOP "$GP_PID"
	until [ "$stat" = T ]; do
		stat=$(<"/proc/$GP_PID/stat")
		stat=${stat##*) }
		stat=${stat%% *}
	done
	"$W/spin" -t "$1" >/dev/null
	kill -CONT "$GP_PID"
}

@test "2,000 forks a second" {
	local tool kb

	for tool in gatedprof overflowfilter glitchrec; do
		case $tool in
		gatedprof) set -- -F 99 -g "u:$W/shortlived:short_burn" ;;
		overflowfilter) set -- -F 99 --filter "pid under $$ && stack has \"short_burn\"" ;;
		glitchrec) set -- -F 99 -g "u:$W/shortlived:short_burn" --threshold 100s ;;
		esac
		start $tool "$@"
		"$W/shortlived" -j 8 -b 0 -n 4000 fork >"$T/storm"
		[ "$(number children "$T/storm")" -eq 4000 ]
		kb=$(peak)
		gp_stop
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "$tool: exit code $status"
		identity
		# Each process that is over is forgotten: 4,000 of them are no gigabytes.
		[ "$kb" -lt 600000 ] || fail "$tool took $kb KB"
		case $tool in
		gatedprof)
			is '.gates[0].entries' 4000
			is '.gates[0].unbalanced' 0
			is '.gates[0].no_room' 0
			;;
		glitchrec) is .frames 4000 ;;
		*) ;;
		esac
		rm -rf "$T"/{ready,gl}
	done
}

@test "10,000 threads inside one gate" {
	run_tool "$GP" -o "$T/out.folded" -F 99 -g "u:$W/hostile:gated" -- "$W/hostile" -n 10000 crowd
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	[ "$(number returns "$T/cmd")" -eq 10000 ]
	identity
	is '.gates[0].entries' 10000
	is '.gates[0].no_room' 0
	is '.gates[0].unbalanced' 0
	is '.gates[0].recovered' 0

	run_tool "$OF" -o "$T/out.folded" -F 99 --filter "inside \"u:$W/hostile:gated\" || user" -- \
		"$W/hostile" -n 10000 crowd
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	identity
	is '.gates[0].entries' 10000
	is '.gates[0].no_room' 0

	gr -F 99 -g "u:$W/hostile:gated" --threshold 100s -- "$W/hostile" -n 10000 crowd
	[ "$status" -eq 4 ] || fail "exit code $status"
	identity
	[ "$(number returns "$T/cmd" 2>/dev/null || echo 10000)" -eq 10000 ]
	# All of them, or each that found no room is told.
	holds '.frames + .no_room == 10000'
}

@test "stopped for 3 s: overflowfilter counts what its ring had no room for" {
	wl a "$W/spin" -t 100000
	start overflowfilter -m 1 -c 100000 -e cpu-clock --filter 'comm == "spin"' -p "$(wl_pid a)"
	wl_go a
	stop_for 3000
	gp_stop
	[ "$status" -eq 0 ] || fail "exit code $status"
	identity
	holds '.lost > 50 and .lost_by.ring_full == .lost and .kept > 0'
	is .kept "$(samples '')"
	assert_says "$(field .lost | sed ':a; s/\B[0-9]\{3\}\>/,?&/; ta') lost"
}

@test "stopped for 3 s: glitchrec reports what was slow meanwhile, out of its history" {
	wl f "$W/frames" -t 1000 hang
	start glitchrec -g "u:$W/frames:hanging" --threshold 100ms -p "$(wl_pid f)" -F 499 --history 30s
	wl_go f
	stop_for 3000
	wl_wait f
	gp_wait
	gr_done
	is .glitches 1
	exact "$T/f.out" 100000000 20000000
	[ "$(over 'select(.coverage == 1)' | wc -l)" -eq 1 ] || fail "the history does not have it: $(over .coverage)"
}

@test "the clock is set back an hour: only the times of day in the index notice" {
	wl f "$W/frames" -t 100000 many
	rm -f "$T/ready" && mkfifo "$T/ready"
	STEPCLOCK=$T/step LD_PRELOAD=$SG_BUILD/helpers/libstepclock.so "$GR" -o "$T/gl" --summary "$T/sum.json" \
		--ready-fd 9 -g "u:$W/frames:frame" --threshold 10ms --min-interval 0 -p "$(wl_pid f)" \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- 9>"$T/ready" &
	GP_PID=$!
	read -r -t 60 _ <"$T/ready" || fail "the tool never became ready"
	wl_go f
	until [ -s "$T/gl/index.jsonl" ] && [ "$(wc -l <"$T/gl/index.jsonl")" -ge 5 ]; do kill -0 "$GP_PID"; done
	: >"$T/step"
	until [ "$(wc -l <"$T/gl/index.jsonl")" -ge 15 ]; do kill -0 "$GP_PID"; done
	gp_stop
	[ "$status" -eq 0 ] || fail "exit code $status"
	whole_files
	[ "$(over 'select(.coverage < 1)' | wc -l)" -eq 0 ] || fail "not covered"
	# As they were, and nothing else went back.
	[ "$(over .begin_ns | sort -n | uniq | wc -l)" -eq "$(over .begin_ns | wc -l)" ] || fail "twice"
	over 'select(.duration_ns < 10000000 or .duration_ns > 60000000000)' >"$T/odd"
	[ ! -s "$T/odd" ] || fail "lengths by another clock: $(cat "$T/odd")"
	[ "$(over '.begin | .[0:13]' | sort -u | wc -l)" -ge 2 ] || fail "the clock was not set"
}
