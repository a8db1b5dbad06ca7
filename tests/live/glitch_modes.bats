# SPDX-License-Identifier: BSD-2-Clause
# Flight and arm mode, a history that is too short, many glitches, and troubled directories.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

@test "arm mode keeps no sample from before the deadline" {
	gr_ok -q -g "u:$W/frames:frame" --threshold 20ms --mode arm --samples "$T/samples" -- "$W/frames" mix
	holds '.outside > .kept'
	holds '.saved > 0'
	[ "$(jq -rn --slurpfile samples "$T/samples" '
		[inputs | select(.type == "glitch")] as $g |
		[$samples[] | . as $s | select([$g[] | select(.begin_ns + 20000000 <= $s.time_ns and
			$s.time_ns <= .end_ns)] | length == 0)] | length' "$T/gl/index.jsonl")" -eq 0 ] ||
		fail "samples from before the deadline"
}

@test "both: the flight file is a superset" {
	local number begin arm

	MODES=2 gr_ok -q -g "u:$W/frames:frame" --threshold 20ms --mode both --min-interval 0 -- \
		"$W/frames" mix
	holds '.glitches >= 15'
	for number in $(glitches 'select(.mode == "flight" and .state == "ended") | .number'); do
		begin=$(glitches "select(.number == $number and .state == \"ended\") | .begin_ns")
		arm=$(glitches "select(.mode == \"arm\" and .begin_ns == $begin and .state == \"ended\") |
			.file" | tr -d '"')
		awk 'NR == FNR { n = $NF; sub(/ [0-9]+$/, ""); have[$0] = n; next }
			{ n = $NF; sub(/ [0-9]+$/, ""); if (n > have[$0]) exit 1 }' \
			"$T/gl/$(printf %06d "$number").folded" "$T/gl/$arm" || fail "$arm has more than $number"
	done
	[ "$(glitches 'select(.mode == "arm" and .samples > 0)' | wc -l)" -ge 15 ] || fail "arm has nothing"
}

@test "a history that is too short: coverage below 1, and it is said" {
	wl f "$W/frames" -t 2000 hang
	gr_start -g "u:$W/frames:hanging" --threshold 10ms --ring-size 64K -F 9999 -p "$(wl_pid f)"
	wl_go f
	wl_wait f
	gp_wait
	gr_done
	[ "$(glitches 'select(.state == "ended" and .coverage < 1)' | wc -l)" -eq 1 ] ||
		fail "coverage: $(glitches .coverage)"
	is .incomplete 1
	assert_says 'not covered in full'
}

@test "60 glitches a second: every one counted, saved or explained" {
	gr_ok -q -g "u:$W/frames:frame" --threshold 10ms -- "$W/frames" -t 10000 many
	exact "$T/cmd" 10000000 1900000
	is .unnoticed 0
	is .glitches "$(number frames "$T/cmd")"
	[ "$(glitches 'select((.file == null) == (.unsaved == null))' | wc -l)" -eq 0 ] ||
		fail "neither saved nor explained"
}

@test "--max-glitches: the others have a line that says why" {
	gr_ok -g "u:$W/frames:frame" --threshold 10ms --max-glitches 5 -- "$W/frames" -t 500 many
	[ "$(find "$T/gl" -name '0*.folded' | wc -l)" -eq 5 ] || fail "not 5 files"
	[ "$(over 'select(.unsaved == "max_glitches")' | wc -l)" -eq $(($(field .glitches) - 5)) ] ||
		fail "not explained"
}

@test "the directory vanishes: the run goes on and counts" {
	wl f "$W/frames" -t 1500 many
	gr_start -g "u:$W/frames:frame" --threshold 10ms -p "$(wl_pid f)"
	rm -r "$T/gl"
	wl_go f
	wl_wait f
	gp_wait
	assert_says 'was removed'
	is .glitches "$(number frames "$T/f.out")"
	is .saved 0
}

@test "no such directory, or one that can't be written to: said at once" {
	local code

	code=0
	"$GR" -g "u:$W/frames:frame" --threshold 10ms -o "$T/no/such" 1 2>"$T/err" || code=$?
	[ $code -eq 1 ] || fail "exit code $code"
	assert_says 'No such file or directory'
	: >"$T/file"
	code=0
	"$GR" -g "u:$W/frames:frame" --threshold 10ms -o "$T/file" 1 2>"$T/err" || code=$?
	[ $code -eq 1 ] || fail "exit code $code"
}

@test "kill -9 in the middle leaves whole files only" {
	wl f "$W/frames" -t 3000 many
	gr_start -g "u:$W/frames:frame" --threshold 10ms -p "$(wl_pid f)"
	wl_go f
	until [ -s "$T/gl/index.jsonl" ] && [ "$(glitches . | wc -l)" -ge 10 ]; do
		kill -0 "$GP_PID" || fail "the tool ended"
	done
	kill -9 "$GP_PID"
	gp_wait
	whole_files
	[ "$(tail -c 1 "$T/gl/index.jsonl" | od -An -tx1 | tr -d ' ')" = 0a ] || fail "half a line"
	wl_wait f
}

@test "SIGINT while glitches are written" {
	wl f "$W/frames" -t 3000 many
	gr_start -g "u:$W/frames:frame" --threshold 10ms -p "$(wl_pid f)"
	wl_go f
	until [ -s "$T/gl/index.jsonl" ] && [ "$(glitches . | wc -l)" -ge 10 ]; do
		kill -0 "$GP_PID" || fail "the tool ended"
	done
	gp_stop
	gr_done
	[ -s "$T/gl/glitches.folded" ] || fail "no sums"
	wl_wait f
}
