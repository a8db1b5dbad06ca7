#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What the scripts before it found, in one table.
. "$(dirname "$0")/lib.bash"

printf '%-22s %10s %10s %7s  %-8s %s\n' measured value limit ratio verdict unit
cat "$RESULTS"/* | awk -F '\t' '{ printf "%-22s %10s %10s %7s  %-8s %s\n", $1, $2, $4, $5, $6, $3 }'
