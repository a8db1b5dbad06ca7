# SPDX-License-Identifier: BSD-2-Clause
# BESIDE: each run is judged by itself, and none by how long it takes
#
# Memory that is not there: each place that asks for it fails once, in a short run of each tool. Such
# a run ends with one message, and without output, or it does without and says all that is true.
# WIDE=1 (make check-wide) makes gatedprof come to each place in every way that it does.

load lib
load faults

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	: >"$BATS_FILE_TMPDIR/done"
}

# Libraries that do not look whether there was memory, and where:
#   libcapstone  its table of instructions, built at the first instruction that is decoded
#   libbpf 1.1   one of its lists while it opens an object
may_crash()
{
	case $1 in
	libcapstone.so.4*decode\ *) ;;
	libbpf.so.1*\ attach_load\ * | libbpf.so.1*\ open_object\ *) ;;
	*) return 1 ;;
	esac
}

# sites TOOL LIST: lines "SITE MODULE FUNCTION LINE FUNCTION LINE": who asked, and for which two innermost
# callers in the tool. The debug information is read once for all.
sites()
{
	local site module a b

	while read -r site module a b; do
		printf '%#x\n%#x\n' $((${a:-1} - 1)) $((${b:-1} - 1))
	done <"$2" | addr2line -f -s -e "$SG_BUILD/$1" | sed 's/ (discriminator.*//' |
		paste -d ' ' - - - - | paste -d ' ' <(sed -E 's,^([^ ]+) ([^ ]*/)?([^ ]+).*,\1 \3,' "$2") -
}

# fails_at TOOL SITE WHERE: a run in which that one allocation fails; a line into $T/bad if it ends badly
fails_at()
{
	local tool=$1 dir=$T/$2 rc=0 bad=

	mkdir "$dir"
	tool_in "$dir" "$tool"
	timeout 100 env LD_PRELOAD="$SG_BUILD/helpers/libfailalloc.so" FAILALLOC_SITE="$2" \
		FAILALLOC_HIT="$dir/hit" "${CMD[@]}" >"$dir/cmd" 2>"$dir/err" </dev/null || rc=$?
	[ -e "$dir/hit" ] || return 0
	echo "$2" >>"$T/hit"
	if [ $rc -le 128 ] || ! may_crash "$3"; then
		bad=$(judge "$dir" "$tool" $rc)
	fi
	if [ -n "$bad" ]; then
		printf '%s: %s: %s\n' "$3" "$(paste -sd ' ' <<<"$bad")" "$(tail -n 1 "$dir/err")" >>"$T/bad"
	fi
	rm -rf "$dir"
}

# each_site TOOL LEAST inner|1: there are at least so many that no tool before had; with "inner" only one
# of those whose innermost function is at the same line
each_site()
{
	local tool=$1 site module function line outer at inner n=0 list=$T/list

	mkdir "$T/all"
	tool_in "$T/all" "$tool"
	LD_PRELOAD="$SG_BUILD/helpers/libfailalloc.so" FAILALLOC_LIST="$list" "${CMD[@]}" \
		>/dev/null 2>"$T/err" </dev/null 3>&- 4>&- || fail "exit code $?"
	: >"$T/bad"
	: >"$T/hit"
	sites "$tool" "$list" >"$T/sites"
	while read -r site module function line outer; do
		inner="$module $function $line"
		at="$inner $outer"
		# Who asks through these for an array or a table is the place.
		case $function in array_room | table_reserve) inner=$at ;; *) ;; esac
		! grep -qxF -e "$at" "$BATS_FILE_TMPDIR/done" || continue
		[ "$3" != inner ] || ! grep -qxF -e "$inner" "$BATS_FILE_TMPDIR/done" || continue
		printf '%s\n' "$at" "$inner" >>"$BATS_FILE_TMPDIR/done"
		several 3
		fails_at "$tool" "$site" "$at" 3>&- 4>&- &
		n=$((n + 1))
	done <"$T/sites"
	wait
	[ ! -s "$T/bad" ] || fail "$(cat "$T/bad")"
	[ "$n" -ge "$2" ] || fail "$n sites"
	# Some are met in some runs only.
	[ "$(wc -l <"$T/hit")" -ge $((n * 4 / 5)) ] || fail "$(wc -l <"$T/hit") of $n sites failed"
}

@test "gatedprof: every place that asks for memory, in turn" {
	each_site gatedprof 100 ${WIDE:-inner}
}

@test "overflowfilter: the places that gatedprof does not have" {
	each_site overflowfilter 40 inner
}

@test "glitchrec: the places that the others do not have" {
	each_site glitchrec 40 inner
}
