#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The static binaries need nothing on the target, hold no symbols, and stay within 4 MB.
. "$(dirname "$0")/common"

tools=(tools/*.c)
[ ${#tools[@]} -gt 0 ] || skip "no tool is built"
"${MAKE:-make}" --no-print-directory static || complain "make static fails"
for tool in "${tools[@]}"; do
	binary=build/static/$(basename "$tool" .c)
	[ "$(stat -c %s "$binary")" -le 4194304 ] || complain "$binary is larger than 4 MB"
	readelf -lW "$binary" | grep -qE 'INTERP|DYNAMIC' && complain "$binary is not static"
	readelf -SW "$binary" | grep -q '\.symtab' && complain "$binary is not stripped"
	"$binary" --version >/dev/null || complain "$binary --version fails"
done
exit $failed
