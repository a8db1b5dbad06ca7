#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# once
# The size of the static binaries.
. "$(dirname "$0")/lib.bash"

for file in "$SG_BUILD"/static/*; do
	[ -f "$file" ] && [ -x "$file" ] || continue
	value "size_$(basename "$file")" "$(calc "$(stat -c %s "$file") / 1048576" %.2f)" MiB
done
