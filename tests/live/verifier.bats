# SPDX-License-Identifier: BSD-2-Clause
# BESIDE: instructions are counted, not time
#
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

# refused PROGRAM WHAT TOOL ARGS...: the tool says what the verifier said, and nothing of privileges
refused()
{
	local program=$1 what=$2

	shift 2
	INSNS_BREAK=$program LD_PRELOAD=$SG_BUILD/vm/insns.so run_tool "$SG_BUILD/$1" "${@:2}" -q 1
	[ "$status" -eq 3 ] || fail "$*: exit code $status"
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one line"
	assert_says "^$1: the kernel's verifier refuses the $what: R5 !read_ok \\(.*instruction 0: "
	! grep -q CAP_ "$T/err" || fail "it blames privileges"
	[ ! -e "$T/sum.json" ] || fail "a summary of a failed run"
}

@test "a program that the verifier refuses: its words, and not a lack of privileges" {
	refused sample_plain "sampling program" gatedprof -a
	refused tracepoint_open "sampling program" gatedprof -g syscall:write -a
	# The second gate's are in an object of their own.
	refused frame_ret_vma "gate's programs" gatedprof -g syscall:write -g "u:$W/duty:inside" -a
	refused tracepoint_clos "sampling program" glitchrec -o "$T/gl" -g syscall:write --threshold 1s -a
	refused unwind_fork "sampling program" overflowfilter -e cpu-clock --filter 'cpu == 0' -a
}

# The newest clang takes away more of what the verifier wants to see than the one that builds the rest.
@test "built with the newest clang all programs load" {
	local clang tree=$T/tree

	clang=$(compgen -c clang- | grep -E '^clang-[0-9]+$' | sort -t- -k2n | tail -n 1)
	[ -n "$clang" ] || skip "no clang with a version in its name"
	mkdir "$tree"
	tar -cf - --exclude='./build/*/lib' --exclude='./build/*/tests' --exclude=./build/tests \
		--exclude=./build/fuzz --exclude=./build/static --exclude=./build/bench \
		--exclude=./build/live --exclude=./.git . | tar -C "$tree" -xf -
	make -C "$tree" CLANG="$clang" all examples >"$T/make" 2>&1 || fail "$(tail -n 20 "$T/make")"
	[ "$(grep -c '  BPF      build/bpf' "$T/make")" -eq 5 ] || fail "not built anew: $(cat "$T/make")"
	# Each program that there is, if not with each set of constants.
	bash "$tree/tests/vm/budget.sh" '*' "@(all|command|pid-follow|user?(-scopes|-max|-follow|-pidns|\
-arg0|-deadline|-max-open)|unsafe|pair?(-scopes|-arg0)|syscall?(-scopes)|tracepoint?(-scopes|-deadline)|\
kernel?(-pair)?(-scopes)|kprobe-scopes|object?(-gates-chain)|inside-stack|code?(-calls)|events)" >"$T/loaded"
	# A kernel may have neither fentry nor kprobes; that is no word of the verifier's.
	awk -F '\t' '
		$3 == "-" && !/cannot be watched here: tried fentry \((Operation not permitted|Invalid argument)\)/
		$4 == "rejected" && $3 !~ /^(fentry|fexit|note_mmap)_/' "$T/loaded" >"$T/bad"
	[ ! -s "$T/bad" ] || fail "$clang: $(cat "$T/bad")"
	[ "$(awk -F '\t' '$4 + 0 > 0' "$T/loaded" | wc -l)" -ge 200 ] || fail "few programs were loaded"
}
