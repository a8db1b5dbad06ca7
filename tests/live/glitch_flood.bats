# SPDX-License-Identifier: BSD-2-Clause
# When everything is slow at once: what is written has an end, and what is not written is told.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# flood MS GLITCHREC-ARGS...: 200 threads whose every request is slow
flood()
{
	wl f "$W/flood" -t "$1"
	gr_start -g "u:$W/flood:request" --threshold 50ms -p "$(wl_pid f)" "${@:2}"
	wl_go f
	wl_wait f
	gp_wait
}

# How many files were begun in the busiest second, as far as the glitches' ends tell.
busiest_second()
{
	jq -rs '[.[] | select(.type == "glitch" and .file != null and
			.file == ("00000\(.number).folded" | .[-13:]))] |
		[.[].to_ns] | sort | . as $t | [range(length) | . as $i |
			[$t[] | select(. >= $t[$i] and . < $t[$i] + 1000000000)] | length] | max' \
		"$T/gl/index.jsonl"
}

@test "a flood of slow requests: few files, which have all of it" {
	local n

	flood 3000 --exec true --samples "$T/samples"
	gr_done
	# None is made up, and none is kept quiet about.
	n=$(number frames "$T/f.out")
	is .glitches "$n"
	[ "$n" -gt 2000 ] || fail "only $n requests"
	# In the order of their begins they are those of the log, to a preemption.
	awk '$1 == "frame" { print $4 }' "$T/f.out" | sort -n >"$T/begins"
	over .begin_ns | sort -n | paste - "$T/begins" | awk '{ d = $1 - $2 }
		d > 50000000 || d < -50000000 { print; bad = 1 } END { exit bad || NR < 2000 }' >"$T/differences" ||
		fail "not those of the log: $(head -n 3 "$T/differences")"
	assert_says 'ready \(.*; saves at most 1 GB, 10 files a second\)'
	# Ten a second at most, in four seconds at most, and each command has one.
	holds '.files >= 10 and .files <= 50'
	holds '.commands.started + .commands.skipped == .files and .commands.started > 0'
	[ "$(busiest_second)" -le 12 ] || fail "$(busiest_second) files in a second"
	holds '.file_bytes <= 1073741824'
	[ "$(field .file_bytes)" -eq "$(cat "$T"/gl/* | wc -c)" ] || fail "not as many bytes as it says"
	# Nearly all are saved, most of them in the file of another one; the others say why.
	[ "$(over 'select(.file)' | wc -l)" -gt $((n / 2)) ] || fail "hardly any is saved"
	[ "$(over 'select((.file == null) != (.unsaved == "rate"))' | wc -l)" -eq 0 ] || fail "not explained"
	[ "$(over 'select(.unsaved == "rate")' | wc -l)" -eq "$(field .unsaved_by.rate)" ] ||
		fail "another count of those without a file"
	# Each sample once.
	[ "$(wc -l <"$T/samples")" -eq "$(field .saved)" ] || fail "not as many samples as were saved"
	[ "$(jq -c '[.time_ns, .cpu]' "$T/samples" | sort | uniq -d | wc -l)" -eq 0 ] || fail "some twice"
	# The sum is that of the files.
	[ "$(cat "$T"/gl/0*.folded | awk '{ n += $NF } END { print n + 0 }')" -eq \
		"$(awk '{ n += $NF } END { print n + 0 }' "$T/gl/glitches.folded")" ] ||
		fail "the sum is another one"
}

@test "a flood and a small disk: everything together stays within it" {
	flood 2000 --max-disk 128K
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_says 'saves at most 128 KB, 10 files a second'
	is .glitches "$(number frames "$T/f.out")"
	whole_files
	[ "$(cat "$T"/gl/* | wc -c)" -le $((128 << 10)) ] || fail "$(cat "$T"/gl/* | wc -c) bytes"
	[ "$(field .file_bytes)" -eq "$(cat "$T"/gl/* | wc -c)" ] || fail "not as many bytes as it says"
	# Some have files, some have lines, and the rest is counted, and said.
	holds '.files >= 1 and .unsaved_by.max_disk > 0 and .unlogged > 0'
	[ "$(over . | wc -l)" -eq $(($(field .glitches) - $(field .unlogged))) ] || fail "lines are missing"
	assert_says 'glitches are not in the index'
	[ "$(tail -n 1 "$T/gl/index.jsonl" | jq -r '.type, .unlogged' | tr '\n' ' ')" = \
		"sums $(field .unlogged) " ] || fail "the last line is another"
}

@test "--min-interval 0 --max-disk 0: no limits, and said so" {
	gr_ok -g "u:$W/frames:frame" --threshold 10ms --min-interval 0 --max-disk 0 -- \
		"$W/frames" -t 1000 many
	assert_says 'saves any amount\)'
	holds '.files == .glitches and .files > 20'
}

@test "what an earlier run left is not counted" {
	mkdir "$T/gl"
	head -c 5000000 /dev/zero >"$T/gl/000007.folded"
	gr -g "u:$W/frames:frame" --threshold 10ms --max-disk 4M -- "$W/frames" -t 300 many
	[ "$status" -eq 0 ] || fail "exit code $status"
	holds '.files >= 2 and .unsaved_by.max_disk == 0'
	[ -s "$T/gl/000008.folded" ] || fail "no file"
	[ "$(field .file_bytes)" -lt 4194304 ] || fail "$(field .file_bytes) bytes"
}
