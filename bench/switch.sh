#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a context switch costs more while a tool wants to know where threads sleep: glitchrec with a
# frame open, which keeps its longest block, and bcc's offcputime, which counts all of them.
. "$(dirname "$0")/lib.bash"

none=$("$B/pingpong")

gr_start -g "u:$B/pingpong:session" --threshold 100s
value switch "$(calc "$("$B/pingpong") - $none" %.0f)" ns
gp_stop

if have offcputime; then
	other_start offcputime
	value switch_offcputime "$(calc "$("$B/pingpong") - $none" %.0f)" ns
	other_stop
fi
if bcc_runs offcputime; then
	other_start offcputime-bpfcc
	value switch_bcc "$(calc "$("$B/pingpong") - $none" %.0f)" ns
	other_stop
fi
