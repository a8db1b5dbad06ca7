#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The size of the static binaries.
. "$(dirname "$0")/lib.bash"

for file in "$SG_BUILD"/static/*; do
	[ -f "$file" ] && [ -x "$file" ] || continue
	bytes=$(stat -c %s "$file")
	result "size_$(basename "$file")" "$(calc "$bytes / 1048576" %.2f)" MiB 4
done
