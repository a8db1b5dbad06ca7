#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every tool has its manual page, and every page its tool and the sections that a reader looks for.
. "$(dirname "$0")/common"

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
done
exit $failed
