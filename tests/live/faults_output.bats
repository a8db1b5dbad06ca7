# SPDX-License-Identifier: BSD-2-Clause
# Disks that are full or can't be written to, and readers that are gone: for what paths.bats and
# glitch_modes.bats do not have.

load glitch

OF=$SG_BUILD/overflowfilter

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	live_teardown
	chattr -i "$T/gl" 2>/dev/null || true
	if [ -d "$T/disk" ]; then
		umount "$T/disk" 2>/dev/null || true
	fi
}

# disk SIZE [OPTIONS]: an own file system at $T/disk
disk()
{
	mkdir -p "$T/disk"
	mount -t tmpfs -o "size=$1${2:+,$2}" none "$T/disk" || fail "no tmpfs"
}

# fill: not a byte more
fill()
{
	dd if=/dev/zero of="$T/disk/ballast" bs=4096 2>/dev/null || true
	[ "$(df --output=avail "$T/disk" | tail -n 1)" -eq 0 ] || fail "the disk is not full"
}

# until_lines N WHAT: the index has so many lines with WHAT
until_lines()
{
	until [ -s "$T/gl/index.jsonl" ] && [ "$(grep -cF "$2" "$T/gl/index.jsonl")" -ge "$1" ]; do
		kill -0 "$GP_PID" || fail "the tool ended"
	done
}

# ends CODE ERE TOOL ARGS...: how a run ends whose output can't be written
ends()
{
	local rc=0

	"${@:3}" >"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || rc=$?
	[ "$rc" -eq "$1" ] || fail "${*:3}: exit code $rc"
	[ -z "$2" ] || tail -n 1 "$T/err" | grep -qE -e "$2" || fail "the last line does not say: $2"
}

@test "a full disk, for each output of each tool: one message, and nothing is left" {
	local out run

	disk 64k
	fill
	for out in -o --samples --summary --perf-data; do
		for run in gatedprof overflowfilter glitchrec; do
			case $run in
			gatedprof) set -- -F 499 ;;
			overflowfilter) set -- -F 499 --filter 'comm == "spin"' ;;
			glitchrec) set -- -o "$T/gl" -g "u:$W/spin:spin" --threshold 1ms ;;
			esac
			[ $out != -o ] || [ $run != glitchrec ] || continue
			if [ $out = --perf-data ]; then
				[ $run = overflowfilter ] || continue
				set -- "$@" --emit both
			fi
			ends 1 "^$run: ($out: )?cannot write (to )?$T/disk/x: No space left on device" \
				"$SG_BUILD/$run" "$@" $out "$T/disk/x" -- "$W/spin" -t 100
			[ "$(ls -A "$T/disk")" = ballast ] || fail "$run $out: left $(ls -A "$T/disk")"
		done
	done
}

@test "a disk that fills up while it is written to: the output is named, and nothing is left" {
	local out

	disk 64k
	for out in --samples --perf-data; do
		set -- -F 1999 --filter 'comm == "spin"' -o "$T/out.folded"
		[ $out = --samples ] || set -- "$@" --emit both
		ends 1 "^overflowfilter: $out: cannot write to $T/disk/x: No space left on device" \
			"$OF" "$@" $out "$T/disk/x" -- "$W/spin" -t 1500
		[ -z "$(ls -A "$T/disk")" ] || fail "$out: left $(ls -A "$T/disk")"
	done
}

@test "glitchrec: a disk that fills up, and has room again" {
	local n

	disk 16m
	wl f "$W/frames" -t 100000 many
	start_tool "$GR" -o "$T/disk/gl" -g "u:$W/frames:frame" --threshold 10ms -p "$(wl_pid f)"
	wl_go f
	ln -s "$T/disk/gl" "$T/gl"
	until_lines 3 '"file":"'
	fill
	until grep -q 'cannot write' "$T/err"; do
		kill -0 "$GP_PID" || fail "the tool ended"
	done
	n=$(grep -cF '"file":"' "$T/gl/index.jsonl")
	rm "$T/disk/ballast"
	until_lines $((n + 3)) '"file":"'
	gp_stop
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_says 'cannot write .* in .*/disk/gl: No space left on device; the recording goes on'
	[ "$(grep -c 'cannot write' "$T/err")" -le 2 ] || fail "says it again and again"
	holds '.unsaved_by.disk_full > 0 and .files >= 4'
	# Whole files and whole lines; what has no line is counted.
	whole_files
	[ "$(glitches 'select(.state != "hanging")' | wc -l)" -eq $(($(field .glitches) - $(field .unlogged) -
		$(field .unnoticed))) ] || fail "lines are missing without a word"
}

@test "glitchrec: a directory that can't be written to any more; the index goes on" {
	mkdir "$T/gl"
	chattr +i "$T/gl" 2>/dev/null || skip "no immutable files"
	chattr -i "$T/gl"
	wl f "$W/frames" -t 100000 many
	gr_start -g "u:$W/frames:frame" --threshold 10ms -p "$(wl_pid f)"
	wl_go f
	until_lines 3 '"file":"'
	chattr +i "$T/gl"
	until_lines 3 '"unsaved":"write_failed"'
	gp_stop
	chattr -i "$T/gl"
	# The sums could not be written.
	[ "$status" -eq 1 ] || fail "exit code $status"
	assert_says 'cannot write 0.*\.folded in .*/gl: Operation not permitted; the recording goes on'
	[ "$(tail -n 1 "$T/err" | grep -c "glitchrec: cannot write glitches.folded in $T/gl: Operation")" -eq 1 ] ||
		fail "the last line is another"
	holds '.unsaved_by.write_failed > 0 and .files >= 2'
	[ "$(glitches 'select(.state != "hanging")' | wc -l)" -eq $(($(field .glitches) - $(field .unnoticed))) ] ||
		fail "lines are missing"
	[ "$(glitches 'select((.file == null) == (.unsaved == null))' | wc -l)" -eq 0 ] || fail "not explained"
	whole_files
}

@test "glitchrec: a read-only file system, refused at once" {
	disk 64k
	mkdir "$T/disk/gl"
	mount -o remount,ro "$T/disk"
	for dir in gl new; do
		ends 1 "^glitchrec: -o $T/disk/$dir: Read-only file system; name a directory that can be written to" \
			"$GR" -o "$T/disk/$dir" -g "u:$W/frames:frame" --threshold 10ms 1
		[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one line"
	done
}

@test "glitchrec: nobody reads its table any more" {
	wl f "$W/frames" -t 500 many
	mkfifo "$T/pipe"
	exec {both}<>"$T/pipe" {end}>"$T/pipe" {both}>&-
	status=0
	"$GR" -o "$T/gl" --summary "$T/sum.json" -g "u:$W/frames:frame" --threshold 10ms \
		--ready-fd 9 -p "$(wl_pid f)" >&"$end" 2>"$T/err" </dev/null 3>&- 4>&- 9>"$T/r" &
	GP_PID=$!
	until [ -s "$T/r" ]; do kill -0 "$GP_PID" || break; done
	wl_go f
	wl_wait f
	gp_wait
	exec {end}>&-
	# The recording is what was asked for, and it is whole.
	[ "$status" -eq 0 ] || fail "exit code $status"
	is .glitches "$(number frames "$T/f.out")"
	whole_files
	[ -s "$T/gl/glitches.folded" ] || fail "no sums"
}

@test "overflowfilter: a reader that is gone" {
	mkfifo "$T/pipe"
	exec {both}<>"$T/pipe" {end}>"$T/pipe" {both}>&-
	status=0
	"$OF" -F 499 --filter 'comm == "spin"' -- "$W/spin" -t 100 >&"$end" 2>"$T/err" </dev/null \
		3>&- 4>&- || status=$?
	exec {end}>&-
	[ "$status" -eq 1 ] || fail "exit code $status"
	assert_says '^overflowfilter: -o: cannot write to standard output: Broken pipe$'
}
