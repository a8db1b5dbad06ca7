# SPDX-License-Identifier: BSD-2-Clause
# Points on 5-byte nops: a kernel that makes calls of them overwrites the red zone. The workload knows
# which of its results were wrong, and what the first byte of each nop was at its end.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
}

# The last gp was refused, in one line, before anything ran.
assert_refused()
{
	[ "$status" -eq 3 ] || fail "exit code $status, not 3"
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one line"
	assert_says "$1"
	[ ! -s "$T/cmd" ] || fail "the command ran"
	[ ! -e "$T/out.folded" ] && [ ! -e "$T/sum.json" ] || fail "an output was written"
}

# guarded FUNC SPEC SAYS: on a kernel that harms, the point is refused, and rightly: by force, results
# are wrong. On one that doesn't, it is accepted, and none is.
guarded()
{
	gp -g "$2" -- "$W/redzone"
	if [ "$status" -eq 3 ]; then
		assert_refused "$3"
		assert_says '--force'
		gp --force -g "$2" -- "$W/redzone"
		assert_says 'warning: --force'
		[ "$(number "$1_wrong" "$T/cmd")" -gt 0 ] || fail "refused, but nothing is wrong"
		[ "$(number "$1_byte" "$T/cmd")" = e8 ] || fail "no call at the nop"
	else
		[ "$(number "$1_byte" "$T/cmd")" != 0f ] || fail "there is no probe"
		[ "$(number "$1_wrong" "$T/cmd")" -eq 0 ] || fail "accepted, and it computes wrong"
	fi
	is '.gates[0].entries' "$(number calls "$T/cmd")"
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
}

# The same by its number alone: everything else is right, whatever the kernel does.
assert_unharmed()
{
	local func

	for func; do
		[ "$(number "${func}_wrong" "$T/cmd")" -eq 0 ] || fail "$func computes wrong"
		[ "$(number "${func}_byte" "$T/cmd")" != 0f ] || fail "$func has no probe at its nop"
	done
}

@test "a nop in the middle, as a begin and as an end" {
	guarded middle "u:$W/redzone:middle+0xa..u:$W/redzone:first" \
		"middle\+0xa in .* is a 5-byte nop in the middle of a function: this kernel makes a call"
	gp -g "u:$W/redzone:first..u:$W/redzone:middle+10" -- "$W/redzone"
	[ "$status" -ne 3 ] || assert_refused "middle\+0xa in "
}

@test "a label at a nop is no function" {
	guarded middle "u:$W/redzone:middle_nop..u:$W/redzone:first" "middle_nop in .* is a 5-byte nop"
}

@test "a USDT probe at a nop" {
	guarded marked "U:$W/redzone:sgtest:mark..u:$W/redzone:middle" \
		"sgtest:mark at 0x[0-9a-f]+ in .*: gate on a function .*one-byte nops"
}

@test "a function's first instruction, and the one behind endbr64: probed, and unharmed" {
	gp -g "u:$W/redzone:first..u:$W/redzone:second+4" -- "$W/redzone" -n 4999
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_unharmed first second
	is '.gates[0].entries' 4999
	is '.gates[0].unbalanced' 0
	# the program's functions themselves
	gp -g "u:$W/redzone:first" -g "u:$W/redzone:middle" -g "u:$W/redzone:marked" -- "$W/redzone" -n 499
	assert_unharmed first
	is '[.gates[].entries] | unique | map(tostring) | join(",")' 499
	[ "$(number middle_wrong "$T/cmd")$(number marked_wrong "$T/cmd")" = 00 ] || fail "computes wrong"
}

@test "other instructions around the nop, and USDT at one-byte nops: accepted" {
	gp -g "u:$W/redzone:middle+5..u:$W/redzone:middle+0xf" -- "$W/redzone"
	[ "$status" -ne 3 ] || fail "refused"
	is '.gates[0].entries' 997
	[ "$(number middle_wrong "$T/cmd")" -eq 0 ] || fail "computes wrong"
	gp_ok -F 1999 -g "U:$W/usdt:sgtest:plain_begin..U:$W/usdt:sgtest:plain_end" -- "$W/usdt" -n 11
	is '.gates[0].entries' 11
}

@test "glitchrec's frames and its deadline, and overflowfilter's inside" {
	local glitchrec=${GLITCHREC:-$SG_BUILD/glitchrec} filter=${OVERFLOWFILTER:-$SG_BUILD/overflowfilter}
	local nop="u:$W/redzone:middle+0xa" end="u:$W/redzone:middle+0xf"

	gp -g "$nop..$end" -- "$W/redzone"
	if [ "$status" -ne 3 ]; then
		run_tool "$glitchrec" -o "$T/gl" -g "$nop..$end" --threshold 1s -- "$W/redzone"
		[ "$status" -eq 4 ] && return
		fail "exit code $status"
	fi
	run_tool "$glitchrec" -o "$T/gl" -g "$nop..$end" --threshold 1s -- "$W/redzone"
	assert_refused "^glitchrec: .*middle\+0xa in "
	run_tool "$glitchrec" -o "$T/gl" -g "u:$W/redzone:middle" --deadline "$nop" -- "$W/redzone"
	assert_refused "^glitchrec: .*middle\+0xa in "
	[ ! -e "$T/gl" ] || fail "a directory was made"
	run_tool "$filter" -o "$T/out.folded" --filter "inside \"$nop..$end\"" -- "$W/redzone"
	[ "$status" -eq 3 ] || fail "exit code $status, not 3"
	assert_says "^overflowfilter: filter, column 1: middle\+0xa in "
	[ ! -s "$T/cmd" ] || fail "the command ran"
	run_tool "$filter" -o "$T/out.folded" --force --filter "inside \"$nop..$end\"" -- "$W/redzone"
	[ "$status" -ne 3 ] || fail "refused by force"
}
