# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What is left of a run, and how it ends. Loaded after lib.
#
# breakpoints PID FILE FUNC...
#                    the first byte of each function as it is in the target's memory
# refused CODE ERE   the last gp failed with this code and closed with a line that matches;
#                    refused_early: that was its only line, and nothing was made
# a_while MS         some time passes, where a test is about any moment
# unwind_at TAG      the event of a breakpoint on at() in workloads/unwind that is running

breakpoints()
{
	local pid=$1 file=$2 func base at

	shift 2
	base=$(awk -v file="$file" '$6 == file && $3 == 0 { split($1, a, "-"); print a[1]; exit }' \
		"/proc/$pid/maps")
	[ -n "$base" ] || fail "$file is not in the maps of $pid"
	for func; do
		at=$(nm "$file" | awk -v name="$func" '$3 == name { print $1 }')
		printf '%s %s\n' "$func" "$(dd if="/proc/$pid/mem" bs=1 count=1 \
			skip=$((16#$base + 16#$at)) iflag=skip_bytes 2>/dev/null | od -An -tx1 | tr -d ' ')"
	done
}

# Each check returns by itself: where the caller has an "||", bash does not stop at the first.
refused()
{
	local code=$1 re=$2

	[ "$status" -eq "$code" ] || fail "exit code $status, not $code" || return 1
	tail -n 1 "$T/err" | grep -qE -e "^gatedprof: $re" || fail "the last line is not '$re'"
}

# The same, for what fails before anything runs: one line, and no data anywhere.
refused_early()
{
	refused "$@" || return 1
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "not one line" || return 1
	[ ! -s "$T/cmd" ] || fail "wrote to stdout" || return 1
	[ ! -e "$T/out.folded" ] || fail "made an output file" || return 1
	[ ! -e "$T/sum.json" ] || fail "made a summary" || return 1
	assert_no_litter
}

assert_no_litter()
{
	[ -z "$(find "$T" -name '.samplegate-*')" ] || fail "left a temporary file"
}

# Every line is "stack COUNT", sorted, each stack once, no control bytes.
assert_folded()
{
	local file=${1:-$T/out.folded} bad

	[ -s "$file" ] || fail "$file is empty"
	bad=$(grep -vnE '^[^;]+(;[^;]+)* [1-9][0-9]*$' "$file" | head -n 3) || true
	[ -z "$bad" ] || fail "not folded: $bad"
	bad=$(LC_ALL=C grep -n '[[:cntrl:]]' "$file" | head -n 3) || true
	[ -z "$bad" ] || fail "control bytes: $bad"
	LC_ALL=C sort -c "$file" || fail "not sorted"
	bad=$(sed 's/ [0-9]*$//' "$file" | LC_ALL=C sort | uniq -d | head -n 3)
	[ -z "$bad" ] || fail "not merged: $bad"
	[ -z "$(tail -c 1 "$file")" ] || fail "the last line has no end"
}

a_while()
{
	# Nobody writes into that: read waits for its time to be over.
	[ -p "$T/never" ] || mkfifo "$T/never"
	exec {never_fd}<>"$T/never"
	read -r -t "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))" -u "$never_fd" _ || true
	exec {never_fd}>&-
}

unwind_at()
{
	local base offset

	base=$(awk -v file="$W/unwind" '$6 == file && $3 ~ /^0+$/ { split($1, a, "-"); print a[1]; exit }' \
		"/proc/$(wl_pid "$1")/maps")
	offset=$(nm "$W/unwind" | awk '$3 == "at" { print $1 }')
	printf 'mem:0x%x:x' $((16#$base + 16#$offset))
}
