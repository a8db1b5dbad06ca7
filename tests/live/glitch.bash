# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the live tests of glitchrec share, on top of lib.bash. A run's directory is $T/gl, its table
# $T/cmd.
#
# gr ARGS...        run the tool to its end; sets $status. Asserts nothing.
# gr_ok ARGS...     the same, and it must exit 0 with sound accounting
# gr_start ARGS...  start it and return when it is ready; ends with gp_wait or gp_stop ($status)

load lib

GR=${GLITCHREC:-$SG_BUILD/glitchrec}

gr()
{
	run_tool "$GR" -o "$T/gl" "$@"
}

gr_ok()
{
	gr "$@"
	gr_done
}

gr_start()
{
	start_tool "$GR" -o "$T/gl" "$@"
}

# Done, with sound accounting: of the samples, and of the glitches in the index.
gr_done()
{
	[ "$status" -eq 0 ] || fail "exit code $status"
	[ -s "$T/sum.json" ] || fail "no summary was written"
	holds '.seen == .kept + .outside + .filtered + .lost'
	holds '.lost == ([.lost_by[]] | add)'
	holds '.saved <= .kept and .glitches <= .frames + .unfinished + ([.abandoned_by[]] | add)'
	holds '.abandoned == ([.abandoned_by[]] | add)'
	is .exit "$status"
	is .lost 0
	[ "$(glitches 'select(.state != "hanging")' | wc -l)" -eq "$(($(field .glitches) * ${MODES:-1}))" ] ||
		fail "$(field .glitches) glitches, but the index has $(glitches . | wc -l) lines"
	whole_files
}

# What jq's FILTER makes of the index's glitches, a line each.
glitches()
{
	jq -c "select(.type == \"glitch\") | $1" "$T/gl/index.jsonl"
}

# The same, of those that are over: one that hung has a line of that time, too.
over()
{
	glitches "select(.state != \"hanging\") | $1"
}

# Every file is what the last line that names it says: so many samples, and no line has more of its
# own, or another window. Nothing unfinished lies around.
whole_files()
{
	local file samples n=0

	while read -r file samples; do
		[ "$(awk '{ n += $NF } END { print n + 0 }' "$T/gl/$file")" -eq "$samples" ] ||
			fail "$file has not the $samples samples that the index says"
		n=$((n + 1))
	done < <(jq -rs '[.[] | select(.type == "glitch" and .file)] | group_by(.file)[] | last |
		"\(.file) \(.file_samples)"' "$T/gl/index.jsonl")
	[ "$(find "$T/gl/" -name '[0-9]*.folded' | wc -l)" -eq "$n" ] ||
		fail "the index names $n files, there are $(find "$T/gl/" -name '[0-9]*.folded' | wc -l)"
	[ -z "$(glitches 'select(.file and .unsaved == null and (.samples > .file_samples or
		.from_ns < .file_from_ns or .to_ns > .file_to_ns))')" ] || fail "more than its file has"
	[ -z "$(find "$T/gl/" ! -name '*.folded' ! -name index.jsonl -type f)" ] ||
		fail "left over: $(ls -A "$T/gl")"
}

# logged FILE NS: the workload's frames longer than NS, as lines of CULPRIT BEGIN LENGTH
logged()
{
	awk -v min="$2" '$1 == "frame" && $5 - $4 > min { print $3, $4, $5 - $4 }' "$1"
}

# exact FILE NS [TOLERANCE_NS]: those of the workload's log that are longer than NS are those that
# were reported, with the same begin and length within a millisecond; who is that near to NS is
# excepted. More for threads that can be preempted between a probe and the log.
exact()
{
	jq -rn --rawfile log "$1" --argjson limit "$2" \
		--argjson off "${3:-1000000}" '
		[$log | split("\n")[] | split(" ") | select(.[0] == "frame") |
			{begin: (.[3] | tonumber), ns: ((.[4] | tonumber) - (.[3] | tonumber))}] as $all |
		[inputs | select(.type == "glitch" and .state != "hanging")] as $got |
		def near(a; b): (a - b) < $off and (b - a) < $off;
		($all[] | select(.ns > $limit + $off) | . as $f |
			select([$got[] | select(near(.begin_ns; $f.begin) and
				near(.duration_ns; $f.ns))] | length != 1) |
			"not reported once, \($f.ns) ns long: \($f.begin)"),
		($got[] | . as $g |
			select([$all[] | select(near(.begin; $g.begin_ns) and
				near(.ns; $g.duration_ns) and .ns > $limit - $off)] | length != 1) |
			"reported, but not logged: \($g.begin_ns), \($g.duration_ns) ns")
	' "$T/gl/index.jsonl" >"$T/differences"
	[ ! -s "$T/differences" ] || fail "$(cat "$T/differences")"
}

# in_file NUMBER FUNCTION: how many samples of that glitch have it in the stack
in_file()
{
	awk -v re="$(frame "$2")" '$0 ~ re { n += $NF } END { print n + 0 }' \
		"$T/gl/$(printf %06d "$1").folded"
}
