#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every tool has its manual page, and every page its tool and the sections that a reader looks for. What
# --help names (tests/golden/help has it) has an item under OPTIONS.
. "$(dirname "$0")/common"

# unnamed PAGE HELP: the long options of the recorded --help that have no item in the page
unnamed()
{
	local option

	grep -oE -- '--[a-z][a-z-]+' "$2" | sort -u | while read -r option; do
		grep -qE "^\.It .*(Fl|,) -${option#--}( |\$)" "$1" || echo "$option"
	done
}

pages=(man/*.8)
[ ${#pages[@]} -gt 0 ] || skip "no manual pages"
for tool in tools/*.c; do
	[ -e "man/$(basename "$tool" .c).8" ] || complain "$tool has no man/$(basename "$tool" .c).8"
done
for page in "${pages[@]}"; do
	[ -e "tools/$(basename "$page" .8).c" ] || complain "$page is about no tool"
	for section in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES OVERHEAD; do
		grep -qE "^\.S[Hh] \"?$section" "$page" || complain "$page has no section $section"
	done
	help=tests/golden/help/$(basename "$page" .8)
	[ -s "$help" ] || complain "$help is not there"
	missing=$(unnamed "$page" "$help" | paste -sd ' ')
	[ -z "$missing" ] || complain "$page has no item for $missing"
done
# That it finds something: a page without one of its options.
page=$(mktemp) || exit 1
sed '/^\.It Fl -weight/d' man/gatedprof.8 >"$page"
[ "$(unnamed "$page" tests/golden/help/gatedprof)" = --weight ] || complain "an option without an item is not found"
rm -f "$page"
exit $failed
