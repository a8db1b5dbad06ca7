# SPDX-License-Identifier: BSD-2-Clause
# Some rows of the verifier's budget (tests/vm) on this kernel, whatever it is: at once, where check-vm
# takes long.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

@test "what the verifier goes through is at most a fifth above the table" {
	local table=$SG_ROOT/tests/vm/verifier-budget.tsv

	bash "$SG_ROOT/tests/vm/budget.sh" gatedprof user >"$T/measured"
	bash "$SG_ROOT/tests/vm/budget.sh" overflowfilter inside-stack >>"$T/measured"
	bash "$SG_ROOT/tests/vm/budget.sh" glitchrec user >>"$T/measured"
	awk -F '\t' '
		FILENAME == ARGV[1] {
			for (i = 4; i <= NF; i++)
				if ($i + 0 > most[$1, $2, $3])
					most[$1, $2, $3] = $i + 0
			next
		}
		$4 == "rejected" || !(($1, $2, $3) in most) { next }
		{ n++ }
		$4 > 1.2 * most[$1, $2, $3] { print $1, $2, $3 ": " $4 ", not " most[$1, $2, $3] }
		END {
			if (n < 10)
				print "only " n + 0 " programs were measured"
		}' "$table" "$T/measured" >"$T/bad"
	[ ! -s "$T/bad" ] || fail "$(cat "$T/bad" "$T/measured")"
}
