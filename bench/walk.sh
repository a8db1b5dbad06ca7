#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The stack of a sample by bpf_get_stack, by bpf_get_stackid and as perf's own call chain, and a
# record into rings that stream and rings that are overwritten, above a program that does nothing.
. "$(dirname "$0")/lib.bash"

"$B/walk" >"$T/walk" 2>"$T/err" || give_up "no breakpoint event, or no stack at one"
while read -r name ns; do
	value "$name" "$ns" ns
done <"$T/walk"
