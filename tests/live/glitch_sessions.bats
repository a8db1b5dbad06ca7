# SPDX-License-Identifier: BSD-2-Clause
# A server in C: sessions that wait for locks, time and disks, and leave by longjmp. Each slow request
# is a glitch, once, as long as it was; nothing else is. SESSIONS_RUNS says how often, each time with
# another seed, from SESSIONS_SEED (1) on.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# as_told: the glitches of the index and the requests of the log, one to one.
#
# A request that returned began between its two first times and ended between its two last ones, and
# took as long as it says itself, to half a millisecond. Only where its thread has left the CPU
# between two of these times, that is to say in the probe or beside it, do the outer ones alone tell.
# One that was left lasted until it was seen last: a tick (1 ms) too short at most, and not beyond the
# place where the error was caught. Clocks of both sides agree to 10 us.
as_told()
{
	jq -rn --rawfile log "$T/s.out" --argjson limit 30000000 '
		10000 as $clock | 500000 as $half | 1001001 as $tick |
		[$log | split("\n")[] | split(" ") | select(.[0] == "request") | . as $f |
			{tid: $f[1] | tonumber, from: $f[2] | tonumber, begin: $f[3] | tonumber,
			end: $f[4] | tonumber, to: $f[5] | tonumber, in: $f[6] | tonumber,
			out: $f[7] | tonumber, kind: $f[8], left: ($f[9] == "left")}] as $all |
		[inputs | select(.type == "glitch" and .state != "hanging")] as $got |
		def size: if . < 0 then -. else . end;
		def of($g): .tid == $g.tid and .from - $clock <= $g.begin_ns and
			$g.begin_ns <= .begin + $clock;
		($all | group_by(.tid) | map({key: (.[0].tid | tostring), value: .}) | from_entries) as $by |
		($got | group_by(.tid) | map({key: (.[0].tid | tostring), value: .}) | from_entries) as $its |
		($all[] | . as $r | select(.end - .begin > $limit + (if .left then $tick + $half else 0 end)) |
			[$its[.tid | tostring][]? | . as $g | select($r | of($g))] | length |
			select(. != 1) | "slow, and \(.) times reported: \($r)"),
		($got[] | . as $g | [$by[.tid | tostring][]? | select(of($g))] | .[0] as $r |
			if length != 1 then "nobody began then"
			elif $r.to - $r.from < $limit - $clock then "it was fast: \($r)"
			elif $r.left then
				if $g.state != "abandoned" or ($g.cause | IN("unwound", "thread_exit") | not)
				then "it was left: \($r)"
				elif $g.end_ns > $r.to + $clock or $g.end_ns < $r.end - $tick - $half
				then "not until it was left: \($r)" else empty end
			elif $g.state != "ended" then "it has returned: \($r)"
			elif $g.end_ns < $r.end - $clock or $g.end_ns > $r.to + $clock
			then "another end: \($r)"
			elif $r.in + $r.out == 0 and ($g.duration_ns - ($r.end - $r.begin) | size) > $half
			then "another length: \($r)"
			else empty end |
			"\(.), but reported is \($g | {number, state, cause, tid, begin_ns, end_ns})")
	' "$T/gl/index.jsonl" >"$T/differences"
	# The thread keeps its CPU, and an interrupt or the machine's host takes it: the outer times hold.
	[ "$(grep -c '^another length' "$T/differences")" -gt 1 ] ||
		sed -i '/^another length/d' "$T/differences"
	[ ! -s "$T/differences" ] || fail "$(cat "$T/differences")"
}

# serve SEED WORKLOAD-ARGS...
serve()
{
	local slow

	rm -rf "$T/gl" "$T"/s.*
	wl s "$W/sessions" -s "$1" -d "$T" "${@:2}"
	gr_start -q -g "u:$W/sessions:request" --threshold 30ms -p "$(wl_pid s)"
	wl_go s
	wl_wait s
	gp_wait
	gr_done
	as_told
	# Every request was seen, and how it was over.
	is '.gates[0].entries' 3200
	is .frames "$((3200 - $(number left "$T/s.out")))"
	is '.abandoned_by.unwound + .abandoned_by.thread_exit' "$(number left "$T/s.out")"
	is .unbalanced 0
	is .unfinished 0
	# There was something to find, of each kind.
	slow=$(awk '$1 == "request" && $5 - $4 > 40000000 { print $9 }' "$T/s.out" | sort -u | wc -l)
	[ "$slow" -eq 4 ] || fail "only $slow kinds of slow requests"
	holds '.glitches > 100'
}

# runs N WORKLOAD-ARGS...
runs()
{
	local i seed=${SESSIONS_SEED:-1}

	for ((i = 0; i < ${SESSIONS_RUNS:-$1}; i++)); do
		echo "seed $((seed + i))"
		serve "$((seed + i))" "${@:2}"
	done
}

@test "each slow request is one glitch, as long as it was; waits between them are none" {
	runs 1 -e 0
	is .abandoned 0
}

@test "errors that leave by longjmp: the slow ones are glitches, what comes after them is none" {
	runs 5
	holds '.abandoned > 500'
}
