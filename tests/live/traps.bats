#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Samples in the traps of our own probes: breakpoints, single steps, what the kernel carries out
# itself, and (since 6.18) what it makes of nops. Whatever was going on there, the user stack is that
# of before the probed instruction or of after it. workloads/traps.c has a function for each kind.
#
# TRAP_SECONDS      how long it is sampled (10): a minute or two has 100,000 ticks

load lib

TRAPS=$SG_BUILD/workloads/traps

# gate KIND POINTS: -g's argument for it
gate()
{
	if [[ $2 == *..* ]]; then
		printf 'u:%s:%s..u:%s:%s\n' "$TRAPS" "${2%..*}" "$TRAPS" "${2#*..}"
	else
		printf 'u:%s:%s\n' "$TRAPS" "$2"
	fi
}

# all_gates: $gates are all that this kernel can probe, and one that is open all the time
all_gates()
{
	local kind points

	gates=(-g "u:$TRAPS:run")
	while read -r kind points; do
		# Its instruction is one that kernels refused before they had a use for it.
		if [ "$kind" = nop10 ]; then
			gp -g "$(gate "$kind" "$points")" -p "$(wl_pid a)" 1ms
			[ "$status" -ne 4 ] && continue
		fi
		gates+=(-g "$(gate "$kind" "$points")")
	done < <("$TRAPS" -g)
}

# user_stacks: each different one from main() on, a tab, how often
user_stacks()
{
	sed -E 's/ ([0-9]+)$/\t\1/; s/;[^;]*_\[k\]//g; s/^[^;]*;.*;main;/main;/' "$T/out.folded" |
		awk -F '\t' '{ n[$1] += $2 } END { for (s in n) print s "\t" n[s] }'
}

# each_is_true: none is another than the program says, and each that it says was there
each_is_true()
{
	local bad

	"$TRAPS" -s | sort >"$T/true"
	user_stacks >"$T/stacks"
	bad=$(awk -F '\t' 'NR == FNR { right[$0]; next } !($1 in right)' "$T/true" "$T/stacks")
	[ -z "$bad" ] || fail "of $(field .kept) stacks not true: $(head -n 20 <<<"$bad")"
}

@test "tables: no stack differs from the truth" {
	local seconds=${TRAP_SECONDS:-10} kinds

	wl a "$TRAPS" -t $((seconds * 1000))
	wl b "$TRAPS" -t $((seconds * 1000))
	all_gates
	gp_start -q -F 9999 "${gates[@]}" -p "$(wl_pid a),$(wl_pid b)"
	wl_go a
	wl_go b
	wl_wait a
	wl_wait b
	gp_wait
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	each_is_true
	# Each kind was sampled, and nearly all that the program does is to be in traps.
	kinds=$(awk -F '[;\t]' '$3 == "by_" $4 { print $4 }' "$T/stacks" | sort -u | wc -l)
	[ "$kinds" -ge $((${#gates[@]} / 2 - 5)) ] || fail "only $kinds kinds: $(cat "$T/stacks")"
	holds '.kept > 1000'
	[ $(($(samples 'asm_exc_int3_\[k\]') * 4)) -gt "$(field .kept)" ]
	[ $(($(samples 'asm_exc_debug_\[k\]') * 20)) -gt "$(field .kept)" ]
	echo "# $(field .kept) stacks, $(samples 'asm_exc_(int3|debug)_\[k\]') of them in traps" >&3
}
