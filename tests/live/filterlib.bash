# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For overflowfilter. Loaded after lib, whose gp is this tool then.
#
# hits EXPR N      of the 97 samples of `states` (each in another known state), EXPR keeps N, and
#                  !(EXPR) the others: two events on one address, in one run. The breakpoint is on
#                  $MEM (set by on_function), which is hit $ALL times.
# split EXPR       of the samples of the last gp's two events, EXPR and its complement: both have
#                  some, and together they have all

GP=${OVERFLOWFILTER:-$SG_BUILD/overflowfilter}
STATES=$W/states

on_function()
{
	need_breakpoints
	MEM="mem:0x$(nm "$STATES" | awk '$3 == "hit" { print $1 }'):x"
	ALL=97
}

# 72 times by the program. How often the kernel's 25 copies of a word hit is the processor's affair:
# so often in all, and the kernel's part of it. (Two events on one word are not for all processors.)
on_word()
{
	need_breakpoints
	MEM="mem:0x$(nm "$STATES" | awk '$3 == "word" { print $1 }')/8:w"
	gp_ok -e "$MEM" --filter 'user || kernel' -- "$STATES"
	ALL=$(field .kept)
	KERNEL=$((ALL - 72))
	[ "$KERNEL" -ge 25 ] || fail "$ALL samples"
}

# word_hits EXPR N: the same as hits, after on_word, in two runs
word_hits()
{
	gp -e "$MEM" --filter "$1" -- "$STATES"
	assert_identity
	is .seen "$ALL"
	is .kept "$2"
	gp -e "$MEM" --filter "!($1)" -- "$STATES"
	assert_identity
	is .kept $((ALL - $2))
}

hits()
{
	gp_ok -e "$MEM" --filter "$1" -e "$MEM" --filter "!($1)" -- "$STATES"
	is '.events[0].seen' "$ALL"
	is '.events[1].seen' "$ALL"
	is '.events[0].kept' "$2"
	is '.events[1].kept' $((ALL - $2))
	is .kept "$ALL"
}

# Clocks hit the two events at different moments: each splits its own samples.
split()
{
	gp_ok -e cpu-clock -F 499 --filter "$1" -e cpu-clock -F 499 --filter "!($1)" "${@:2}"
	holds '.events | all(.kept > 0 and .filtered > 0)'
	holds '.events | all(.seen == .kept + .filtered)'
}
