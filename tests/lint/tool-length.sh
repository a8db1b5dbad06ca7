#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A tool is wiring, under 300 lines; what is worth a test lives in lib/.
. "$(dirname "$0")/common"

for tool in tools/*.c; do
	lines=$(wc -l <"$tool")
	[ "$lines" -lt 300 ] || complain "$tool has $lines lines"
done
exit $failed
