#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each test that docs/security.md names is there: `GROUP/FILE: NAME`, `GROUP/FILE`.
. "$(dirname "$0")/common"

page=docs/security.md

# named FILE: the tests of a page, a line each
named()
{
	grep -oE '`(unit|live|cli|fuzz)/[^`]*`' "$1" | tr -d '`'
}

# there TEST
there()
{
	local file=tests/${1%%: *} name=${1#*: }

	[ -e "$file" ] || return 1
	[ "$1" != "${1%%: *}" ] || return 0
	case $file in
	*.bats) grep -qxF "@test \"$name\" {" "$file" ;;
	*.c) grep -qE "^static void $name\(void \*\*" "$file" ;;
	*) return 1 ;;
	esac
}

# What a test that is missing looks like, so that the check itself can fail.
for test in 'unit/test_none.c: nothing' 'unit/test_json.c: no_such_test' 'live/caps.bats: no such test'; do
	! there "$test" || complain "'$test' is taken for a test"
done

n=0
while read -r test; do
	n=$((n + 1))
	there "$test" || complain "$page names '$test', which is no test"
done < <(named "$page")
[ "$n" -ge 40 ] || complain "$page names $n tests"
# Each row of the table of ways in has one.
bad=$(awk '/^## Ways in/ { on = 1 } /^## Capabilities/ { on = 0 }
	on && /^\| / && !/^\| (from|---)/ && !/`(unit|live|cli|fuzz)\// { print }' "$page")
[ -z "$bad" ] || complain "without a test: $bad"
exit $failed
