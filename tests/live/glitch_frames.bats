# SPDX-License-Identifier: BSD-2-Clause
# Which frames are glitches, and what their files hold.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

@test "23 slow frames among 500 fast ones: these, no others, each with its culprit" {
	local n culprit begin number

	gr_ok -q -g "u:$W/frames:frame" --threshold 10ms --min-interval 0 --samples "$T/samples" -- \
		"$W/frames" mix
	exact "$T/cmd" 10000000
	is .frames 523
	n=$(logged "$T/cmd" 11000000 | wc -l)
	[ "$n" -ge 23 ] || fail "only $n slow frames in the log"

	while read -r culprit begin _; do
		[ "$culprit" -ge 0 ] || continue # a fast one that the machine held up
		number=$(glitches "select(.state == \"ended\" and (.begin_ns - $begin | fabs < 1000000)) |
			.number")
		[ "$(in_file "$number" "culprit_$culprit")" -ge 5 ] ||
			fail "glitch $number lacks culprit_$culprit"
		# Nobody else's: each burns in one frame only. (Another such workload may run elsewhere.)
		[ $((2 * $(in_file "$number" "culprit_$culprit"))) -gt \
			"$(in_file "$number" 'culprit_[0-9]+')" ] ||
			fail "glitch $number has the culprit of another"
	done < <(logged "$T/cmd" 11000000)

	# Both CPUs, one of them the bystander's, all of the window was still there.
	glitches 'select(.samples_by_cpu["0"] < 5 or .samples_by_cpu["1"] < 5)' >"$T/one-sided"
	[ ! -s "$T/one-sided" ] || fail "samples of one CPU only: $(head -n 1 "$T/one-sided")"
	[ "$(glitches 'select(.coverage != 1)' | wc -l)" -eq 0 ] || fail "coverage below 1"
	grep -qE "$(frame bystand)" "$T/gl/glitches.folded" || fail "the bystander is in no file"
	is .incomplete 0

	# The baseline is of fast frames: many of them, and no culprit's.
	grep -qE "$(frame frame)" "$T/gl/baseline.folded" || fail "no frame in the baseline"
	jq -e 'select(.type == "sums") | .baseline.frames > 300 and .baseline.samples > 50 and
		.slow.samples > .baseline.samples / 10' "$T/gl/index.jsonl" >/dev/null ||
		fail "sums: $(tail -n 1 "$T/gl/index.jsonl")"
	[ "$(awk '/;frame;.*culprit/ { n += $NF } END { print n + 0 }' "$T/gl/baseline.folded")" -le 2 ] ||
		fail "a culprit in the baseline"
}

@test "nothing from outside of the window, by time stamp" {
	gr_ok -q -g "u:$W/frames:frame" --threshold 10ms --samples "$T/samples" -- "$W/frames" mix
	[ "$(wc -l <"$T/samples")" -eq "$(field .saved)" ] || fail "not as many samples as were saved"
	jq -rn --slurpfile samples "$T/samples" '
		[inputs | select(.type == "glitch")] as $g |
		$samples[] | . as $s |
		select([$g[] | select(.begin_ns <= $s.time_ns and $s.time_ns <= .end_ns)] | length == 0) |
		.time_ns' "$T/gl/index.jsonl" >"$T/outside"
	[ ! -s "$T/outside" ] || fail "outside of every window: $(head -n 1 "$T/outside")"
}

@test "the table: a header, and a row for each glitch" {
	local pid

	wl f "$W/frames" -t 500 many
	pid=$(wl_pid f)
	gr_start -g "u:$W/frames:frame" --threshold 10ms --min-interval 0 -p "$pid"
	wl_go f
	wl_wait f
	gp_wait
	gr_done
	[ "$(head -n 1 "$T/cmd" | tr -s ' ')" = 'TIME COMM TID LASTED SAMPLES COVERED FILE' ] ||
		fail "header: $(head -n 1 "$T/cmd")"
	[ "$(grep -cE "^[0-9:]{8}  frames +$pid +[0-9.]+ms +[0-9]+ +100%  $T/gl/0[0-9]+\.folded$" \
		"$T/cmd")" -eq "$(field .glitches)" ] || fail "rows: $(head -n 3 "$T/cmd")"
	assert_says 'ready \(.* keeps the last [0-9.]+ s in [0-9.]+ MB; saves at most 1 GB\)'
	assert_says "$(field .glitches) glitches of $(field .frames) frames, slowest .*; frames p50 .*, p99 "
}

@test "--pre and --post widen the window, and only that" {
	gr_ok -q -g "u:$W/frames:frame" --threshold 30ms --pre 20ms --post 15ms --min-interval 0 -- \
		"$W/frames" mix
	# The recording may have begun just before the first one.
	glitches 'select(.to_ns != .end_ns + 15000000 or .from_ns != .begin_ns - 20000000 and
		(.number > 1 or .from_ns < .begin_ns - 20000000 or .from_ns > .begin_ns))' >"$T/bad"
	[ ! -s "$T/bad" ] || fail "window: $(head -n 1 "$T/bad")"
	# At 999 Hz on two CPUs: 35 ms more.
	glitches 'select(.samples < (.to_ns - .from_ns) / 1000000 * 1.2)' >"$T/bad"
	[ ! -s "$T/bad" ] || fail "too few samples: $(head -n 1 "$T/bad")"
}

@test "requests that begin on one thread and end on another, two open at a time: 11" {
	gr_ok -q -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key arg0 --threshold 25ms \
		-- "$W/frames" handoff
	is .glitches 11
	exact "$T/cmd" 25000000 10000000
	[ "$(glitches '.key.value' | sort -u | wc -l)" -eq 11 ] || fail "keys are not 11 different ones"
	[ "$(glitches 'select(.state == "ended" and .key.value == "0x3e8")' | wc -l)" -eq 1 ] || fail "no key 1000"
	# They overlap, each with its own window.
	[ "$(jq -s '[.[] | select(.type == "glitch" and .state == "ended")] | sort_by(.begin_ns) | [.[:-1], .[1:]] | transpose |
		map(select(.[0].end_ns > .[1].begin_ns)) | length' "$T/gl/index.jsonl")" -ge 5 ] ||
		fail "they do not overlap"
}

@test "an argument is a key within its process: two processes with the same ones" {
	wl a "$W/frames" handoff
	wl b "$W/frames" handoff
	gr_start -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key arg0 --threshold 25ms \
		-p "$(wl_pid a),$(wl_pid b)"
	wl_go a
	wl_go b
	wl_wait a
	wl_wait b
	gp_wait
	gr_done
	is .frames 22
	is .glitches 22
	[ "$(glitches 'select(.state == "ended") | .key.value' | sort | uniq -c | grep -c ' 2 ')" -eq 11 ] || fail "not 11 keys twice"
	[ "$(glitches .pid | sort -u | wc -l)" -eq 2 ] || fail "not two processes"
	holds '.gates[0].entries == 22'
}

@test "a key's frames are counted by depth: one global frame from the first begin to the last end" {
	gr_ok -q -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key global --threshold 25ms \
		-- "$W/frames" handoff
	# There is always a request open, from the first begin to the last end.
	is .frames 1
	is .glitches 1
	holds '.gates[0].entries == 11'
	is .unbalanced 0
}

@test "without a key the ends on another thread have no begin, and the begins no end" {
	gr -g "u:$W/frames:begin_request..u:$W/frames:end_request" --threshold 25ms -- "$W/frames" handoff
	[ "$status" -eq 4 ] || [ "$status" -eq 0 ] || fail "exit code $status"
	is .frames 0
	is .unbalanced 11
	holds '.abandoned == 1'
}

@test "no frame, or none that is slow: exit code 4" {
	gr -g "u:$W/frames:frame" --threshold 10ms 200ms
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_says 'no frame'
	gr -g "u:$W/frames:frame" --threshold 20s -- "$W/frames" -t 200 fast
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_says 'none of [0-9,]+ frames was a glitch'
	is .glitches 0
}

@test "threads that leave by longjmp, exit, exec or a signal: abandoned, by cause" {
	local mode cause n

	while read -r mode cause n; do
		gr -g "u:$W/escape:gated" --threshold 10s -- "$W/escape" "$mode"
		[ "$status" -eq 4 ] || fail "$mode: exit code $status"
		is .abandoned "$n"
		# A tick after a thread has given up its stack, or a process its memory, finds the frame
		# gone before the end is told.
		holds "[.abandoned_by | .$cause, (.unwound | select(\"$cause\" != \"unwound\"))] | add == $n"
		holds ".abandoned_by.$cause >= $((n / 2))"
	done < <(printf '%s\n' 'longjmp-main unwound 17' 'longjmp-far unwound 17')
}

@test "a request whose process ends" {
	gr_ok -q -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key arg0 --threshold 50ms \
		-- "$W/frames" -t 200 exit
	is .abandoned 1
	is .glitches 1
	[ "$(glitches 'select(.state == "abandoned" and .cause == "thread_exit")' | wc -l)" -eq 1 ] ||
		fail "not abandoned: $(glitches .)"
}

@test "a deadline point: frames that pass it are glitches, and no threshold is needed" {
	gr_ok -q -g "u:$W/frames:frame" --deadline "u:$W/frames:culprit_7" -- "$W/frames" mix
	is .glitches 1
	is .frames 523
	[ "$(in_file 1 culprit_7)" -gt 10 ] || fail "it is not there"
	exact <(awk '$1 == "frame" && $3 == 7' "$T/cmd") 1000000
}

@test "keys at system calls, tracepoints and USDT probes" {
	# A natural end takes the argument of its begin: 11 sleeps of 20 ms, and many of one.
	gr_ok -q -g syscall:nanosleep --key arg0 --threshold 15ms -- "$W/frames" handoff
	holds '.glitches >= 11'
	is .unbalanced 0
	rm -r "$T/gl"
	# The vector is the only field; none of them takes a second.
	gr -q -g t:irq:softirq_entry..t:irq:softirq_exit --key arg0 --threshold 1s -a 1
	[ "$status" -eq 4 ] || fail "exit code $status"
	holds '.frames > 20 and .glitches == 0 and .no_room == 0'
	rm -rf "$T/gl"
	gr_ok -q -g "U:$W/usdt:sgtest:plain_begin..U:$W/usdt:sgtest:plain_end" --key arg0 \
		--threshold 10us -- "$W/usdt"
	holds '.glitches >= 5'
	is .unbalanced 0
	is .abandoned 0
}

@test "frames of one key on two CPUs at the same time, 100,042 times: each ends" {
	local key mode begun

	while read -r key mode begun; do
		gr -q -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key "$key" \
			--threshold 100s -- "$W/frames" "$mode"
		[ "$status" -eq 4 ] || fail "exit code $status"
		holds ".gates[0].entries == $begun and .frames == .gates[0].opens"
		# Two threads are rarely ever both outside if nothing goes wrong.
		holds ".frames > $((begun / 8)) and .frames <= $begun"
		is .unbalanced 0
		is .abandoned 0
		is .unfinished 0
		is .no_room 0
		rm -rf "$T/gl"
	done <<-END
		global collide 100042
		pid    collide 100042
		arg0   collide 100042
		arg0   crowd   120053
		arg0   meet    30018
	END
}

@test "a USDT point's argument in another register at each of its places: 37 keys" {
	gr_ok -q -g "U:$W/usdt:sgtest:moved_begin..U:$W/usdt:sgtest:moved_end" --key arg0 \
		--threshold 10us -- "$W/usdt"
	is .frames 37
	is .glitches 37
	is .unbalanced 0
	is .abandoned 0
	over .key.value | sort -u >"$T/keys"
	printf '"0x%x"\n' {0..36} | sort -u | diff - "$T/keys" >"$T/differences" ||
		fail "other keys: $(cat "$T/differences")"
}

@test "an argument where there is none: said at the start" {
	local spec

	for spec in "u:$W/frames:begin_request..ur:$W/frames:end_request" \
		"u:$W/frames:begin_request+4..u:$W/frames:end_request"; do
		gr -g "$spec" --key arg0 --threshold 1ms 1
		[ "$status" -eq 2 ] || fail "exit code $status"
		assert_says 'arguments are'
	done
	gr -g t:sched:sched_process_exec..t:sched:sched_process_exit --key arg5 --threshold 1ms 1
	[ "$status" -eq 2 ] || fail "exit code $status"
	assert_says 'arg5'
}

@test "17,389 threads, one after the other: more than there is room for at a time" {
	local spec

	for spec in "u:$W/threads:gated" "u:$W/threads:gated..u:$W/threads:gated_leaf"; do
		gr -q -g "$spec" --threshold 100s -- "$W/threads" -n 17389 -k 2 -b 0
		[ "$status" -eq 4 ] || fail "exit code $status"
		is .frames 34778
		is .no_room 0
		is .unbalanced 0
		is .abandoned 0
		rm -rf "$T/gl"
	done
}

@test "stopped while frames go on: no end whose begin was not watched any more" {
	wl f "$W/frames" -t 20000 fast
	gr_start -q -g "u:$W/frames:frame" --threshold 10s -p "$(wl_pid f)"
	wl_go f
	read -r -t 2 _ <>"$T/ready" || true
	gp_stop
	holds '.frames > 100 and .unbalanced == 0 and .abandoned == 0'
	holds '.gates[0].opens - .frames <= 1'
}

@test "threads and processes that end inside: abandoned, by cause" {
	local mode cause n

	while read -r mode cause n; do
		gr -g "u:$W/escape:gated" --threshold 10s -- "$W/escape" "$mode"
		[ "$status" -eq 4 ] || fail "$mode: exit code $status"
		is .abandoned "$n"
		# A tick after a thread has given up its stack, or a process its memory, finds the frame
		# gone before the end is told.
		holds "[.abandoned_by | .$cause, (.unwound | select(\"$cause\" != \"unwound\"))] | add == $n"
		holds ".abandoned_by.$cause >= $((n / 2))"
	done < <(printf '%s\n' 'thread-exit thread_exit 11' 'kill killed 1' 'exec exec 1')
}
