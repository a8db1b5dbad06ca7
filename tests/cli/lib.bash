# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What tests of messages and exit codes share, on top of the live tests' lib.
#
# fails CODE ERE ARGS...      run the tool: it must exit with CODE, write nothing to stdout, and say
#                             one line on stderr that matches ERE behind "gatedprof: "
# says CODE ERE PROG ARGS...  the same for a program that runs the tool in the end
# each_fails CODE <<TABLE     rows "ERE ::: ARGS", ARGS split as the shell does

# shellcheck source=tests/live/lib.bash
source "${BASH_SOURCE[0]%/*}/../live/lib.bash"

# Each check returns by itself: where the caller has an "||", bash does not stop at the first.
says()
{
	local code=$1 ere=$2

	shift 2
	status=0
	"$@" >"$T/stdout" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	[ "$status" -eq "$code" ] || fail "exit code $status, not $code: $*" || return 1
	[ ! -s "$T/stdout" ] || fail "stdout of a failed run is not empty: $*" || return 1
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "not one line on stderr: $*" || return 1
	grep -qE -e "^gatedprof: ($ere)" "$T/err" || fail "does not say '$ere': $*"
}

fails()
{
	says "$1" "$2" "$GP" "${@:3}"
}

each_fails()
{
	local ere row rows=0 bad=0
	local -a args

	while IFS= read -r row; do
		ere=${row%% ::: *}
		# The rows are in the test file; eval gives them quotes and empty arguments.
		eval "args=(${row#* ::: })"
		rows=$((rows + 1))
		fails "$1" "$ere" "${args[@]}" || bad=$((bad + 1))
	done
	[ $rows -gt 0 ] || fail "an empty table"
	[ $bad -eq 0 ] || fail "$bad of $rows rows"
}
