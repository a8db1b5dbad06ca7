#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every patch in tests/mutations still applies, without fuzz, changes only what is not a test, and
# names a test that is there.
. "$(dirname "$0")/common"

command -v patch >/dev/null || skip "patch is not installed"
n=0
for patch in tests/mutations/*.patch; do
	n=$((n + 1))
	name=$(basename "$patch")
	patch -p1 -F0 -f --dry-run <"$patch" >"$tmp/log" 2>&1 ||
		complain "$name does not apply: $(tail -n 3 "$tmp/log" | tr '\n' ' ')"
	grep '^+++ ' "$patch" | grep -qvE '^\+\+\+ b/(lib|bpf|include|tools)/' &&
		complain "$name changes something else than the program"
	sed '/^--- /q' "$patch" | grep -q '^Change: .' || complain "$name does not say what it changes"
	test=$(sed -n '/^--- /q; s/^Test: //p' "$patch")
	rest=${test#*/} filter=
	case ${test%%/*} in
	unit | asan | tsan) file=tests/unit/$rest.c ;;
	program) file=tests/live/${rest%% *}.c ;;
	lint) file=tests/lint/$rest.sh ;;
	live | cli)
		file=tests/${test%% *}
		[ "$rest" = "${rest#* }" ] || filter=${rest#* }
		;;
	*) file="(no test)" ;;
	esac
	if [ ! -e "$file" ]; then
		complain "$name: there is no test $file"
	elif [ -n "$filter" ] && ! sed -n 's/^@test "\(.*\)" {$/\1/p' "$file" | grep -qE -- "$filter"; then
		complain "$name: $file has no test '$filter'"
	fi
done
# A directory that was lost would pass.
[ $n -ge 30 ] || complain "only $n mutations"
exit $failed
