# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the tests of faults share, on top of lib.bash. A fault is tried in a directory of its own, $T/N,
# in which the tool writes out.folded, sum.json, samples, p.data or the directory gl.
#
# tool_in DIR TOOL        sets $CMD: a short run of that tool, which has all of its outputs in DIR
# judge DIR TOOL STATUS   prints what is wrong with how that run ended; nothing if it ended well
# several N               waits until less than N of the runs started in the background are left

# Short, and with something of everything: a gate, samples inside, names, all outputs.
tool_in()
{
	local dir=$1 tool=$2

	CMD=("$SG_BUILD/$tool" -F 999 --summary "$dir/sum.json" --samples "$dir/samples")
	case $tool in
	gatedprof) CMD+=(-o "$dir/out.folded" -g "u:$W/duty:inside") ;;
	overflowfilter)
		CMD+=(-o "$dir/out.folded" --perf-data "$dir/p.data" --emit both --filter
			"comm ~ \"du*\" && stack has \"inside\" || inside \"u:$W/duty:outside\" ||
				pid under $$ && comm in {\"a\", \"b\"}")
		;;
	glitchrec)
		CMD+=(-o "$dir/gl" -g "u:$W/duty:inside" --threshold 1ms --exec true)
		;;
	*) fail "no such tool: $tool" ;;
	esac
	CMD+=(-- "$W/duty" -n 5)
}

# Every sum of samples is the same, whatever it is taken from.
judge_stacks()
{
	local dir=$1 sum=$2 kept lines

	kept=$(jq .kept "$sum")
	[ -e "$dir/out.folded" ] || echo "no stacks"
	[ "$(awk '{ n += $NF } END { print n + 0 }' "$dir/out.folded")" -eq "$kept" ] ||
		echo "the stacks are not the $kept kept samples"
	lines=$(jq -s length "$dir/samples" 2>/dev/null) || echo "the samples are no JSON"
	[ "$lines" = "$kept" ] || echo "$lines lines of samples, not $kept"
	# Either names and callers, or a word about what has none: a tool that is traced, and one of five, may
	# hear of a mapping when the command is over.
	[ "$kept" -lt 5 ] || grep -qE ';(inside|outside)[; ]' "$dir/out.folded" ||
		jq -e '[.unsymbolized[].reason] | any(. == "out of memory")' "$sum" >/dev/null ||
		jq -e '.unwind | .stops.no_process + .stops.no_mapping + .modules_without_room > 0' \
			"$sum" >/dev/null ||
		echo "frames without names, and no word of it"
}

judge_glitches()
{
	local dir=$1 sum=$2 file samples

	if ! jq -s . "$dir/gl/index.jsonl" >"$dir/index" 2>/dev/null; then
		echo "the index is no JSON"
		return
	fi
	while read -r file samples; do
		[ "$(awk '{ n += $NF } END { print n + 0 }' "$dir/gl/$file")" = "$samples" ] ||
			echo "$file has not $samples samples"
	done < <(jq -r '[.[] | select(.type == "glitch" and .file)] | group_by(.file)[] | last |
		"\(.file) \(.file_samples)"' "$dir/index")
	[ -z "$sum" ] || jq -e --slurpfile sum "$sum" '$sum[0] as $s |
		([.[] | select(.type == "glitch" and .state != "hanging")] | length) +
			($s.unlogged // 0) == $s.glitches' "$dir/index" >/dev/null ||
		echo "not every glitch is in the index, nor is it said"
}

judge()
{
	local dir=$1 tool=$2 status=$3 left sum=$1/sum.json

	left=$(find "$dir" -name '.samplegate-*' -o -name '.glitchrec-*')
	[ -z "$left" ] || echo "left behind: $left"
	case $status in
	0 | 4)
		if ! jq -e . "$sum" >/dev/null 2>&1; then
			echo "no summary"
			return
		fi
		jq -e --argjson status "$status" '.exit == $status and
			.seen == .kept + .outside + .filtered + .lost and
			.lost == ([.lost_by[]] | add)' "$sum" >/dev/null || echo "the account is wrong"
		case $tool in
		glitchrec) judge_glitches "$dir" "$sum" ;;
		*) judge_stacks "$dir" "$sum" ;;
		esac
		;;
	1 | 3)
		tail -n 1 "$dir/err" | grep -qE "^$tool: [^ ]+ ?.*" || echo "no message"
		# One: what it said before is about the run, not about its end.
		[ "$(grep -vcE "^$tool: (ready|warning: |[0-9,]+ |  )" "$dir/err")" -le 2 ] ||
			echo "more than one message"
		# A recording of hours is not thrown away at its end: what there is says how it ended.
		if [ "$tool" = glitchrec ] && grep -q ": ready" "$dir/err" && [ -e "$sum" ]; then
			jq -e --argjson status "$status" '.exit == $status' "$sum" >/dev/null ||
				echo "the summary has another exit code"
			judge_glitches "$dir" ''
			return
		fi
		[ ! -e "$sum" ] || echo "a summary of a failed run"
		left=$(find "$dir" -maxdepth 1 -name out.folded -o -maxdepth 1 -name samples -o \
			-maxdepth 1 -name p.data)
		[ -z "$left" ] || echo "output of a failed run: $left"
		[ ! -e "$dir/gl/index.jsonl" ] || judge_glitches "$dir" ''
		;;
	124) echo "it does not end" ;;
	*) echo "exit code $status" ;;
	esac
}

several()
{
	while [ "$(jobs -pr | wc -l)" -ge "$1" ]; do
		wait -n || true
	done
}
