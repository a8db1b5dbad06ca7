# SPDX-License-Identifier: BSD-2-Clause
# Processes that are gone before their samples are read: their frames have names all the same.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# short_lived MODE COMM: 200 processes of 5 ms, about ten samples each
short_lived()
{
	local mode=$1 comm=$2 own pids

	gp_ok -F 1999 --samples "$T/samples" -- "$W/shortlived" "$mode"
	[ "$(cat "$T/cmd")" = "children=200 mode=$mode" ] || fail "says: $(cat "$T/cmd")"
	is .kept "$(wc -l <"$T/samples")"

	# A frame in the program itself has the name of its function, and so have those around it.
	own=$(grep -E "$(frame 'short_burn|short_leaf|burn_ns|burn|main')" "$T/out.folded")
	[ -n "$own" ] || fail "no stack is the program's"
	if grep -F '[unknown]' <<<"$own"; then
		fail "frames without a name and a mapping, next to such with names"
	fi
	# Between its functions there are only the jumps to shared libraries, which have no names.
	holds '[.unsymbolized[] | select(.module | endswith("/shortlived")) | .reason] - ["between symbols"]
		== []'
	[ "$(samples '\[(shortlived|exe)\]')" -le $(($(samples '') / 100 + 1)) ] ||
		fail "frames of the program without a name"
	# 200 times 5 ms, of which the ticks at both ends may miss some.
	assert_some short_burn 1500
	[ "$(samples "^$comm;.*;short_burn;")" -eq "$(samples ';short_burn;')" ] ||
		fail "short_burn under another comm: $(grep ';short_burn;' "$T/out.folded" |
			grep -v "^$comm;" | head -n 3)"
	[ "$(samples_without '^(shortlived|short|gatedprof);')" -eq 0 ] ||
		fail "a comm that is none of ours: $(cut -d';' -f1 "$T/out.folded" | sort -u)"

	# At least five samples: a process that has burned, not only one that was seen to begin.
	pids=$(jq -r "select(.comm == \"$comm\") | .pid" "$T/samples" | sort | uniq -c |
		awk '$1 >= 5' | wc -l)
	[ "$pids" -ge 150 ] || fail "only $pids of 200 processes have five samples"
}

@test "200 processes that are forked and gone" {
	short_lived fork shortlived
}

@test "200 processes that call exec and are gone" {
	short_lived exec short
}

@test "gated: each process opens once, and all are named" {
	local mode

	for mode in fork exec; do
		gp_ok -F 1999 -g "u:$W/shortlived:short_burn" -- "$W/shortlived" $mode
		[ "$(cat "$T/cmd")" = "children=200 mode=$mode" ] || fail "says: $(cat "$T/cmd")"
		is '.gates[0].entries' 200
		is '.gates[0].opens' 200
		assert_balanced
		# Half a millisecond of each is over before its unwind tables are known.
		assert_nearly_all "short_burn|$NOT_YET"
		assert_some short_burn 1500
	done
}
