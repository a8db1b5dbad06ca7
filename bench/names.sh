#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Naming 50,000 addresses in 100 files, one of which has 500,000 symbols, in 20,000 stacks of 25
# frames, next to perf script and a program that folds what it prints, on the same samples: CPU time
# and peak memory.
. "$(dirname "$0")/lib.bash"

have perf || exit 0
addresses=50000
rounds=${BENCH_ROUNDS:-3}

# Libraries of this machine, as many as there are up to 99, and a file with a great many symbols.
mapfile -t files < <(find /usr/lib/x86_64-linux-gnu -maxdepth 1 -name '*.so.*' -type f -size +40k |
	sort | while read -r f; do readelf -SW "$f" 2>/dev/null | grep -q ' \.text ' && echo "$f"; done |
	head -n 99)
{
	echo '.text'
	awk 'BEGIN { for (i = 0; i < 500000; i++)
		printf ".type function_number_%d,@function\nfunction_number_%d: ret; nop\n.size function_number_%d,2\n", i, i, i }'
} >"$T/many.s"
gcc -nostdlib -shared -o "$T/many.so" "$T/many.s" || give_up "no file with many symbols"
files+=("$T/many.so")

"$B/names" make "$T/perf.data" $addresses "${files[@]}" || give_up "no samples"
for ((r = 0; r < rounds; r++)); do
	"$B/rusage" "$T/usage" "$B/names" fold $addresses "${files[@]}" >"$T/ours.folded"
	awk '{ print ($1 + $2) / 1000 }' "$T/usage" >>"$T/ours"
	awk '{ print $3 }' "$T/usage" >>"$T/ours.kib"
	# What stackcollapse scripts do: a stack is the lines up to an empty one, leaf first.
	"$B/rusage" "$T/usage" sh -c 'perf script --no-inline -i "$1" -F comm,ip,sym 2>/dev/null | awk "
		/^[^ \t]/ { comm = \$1; stack = \"\"; next }
		/^\$/ { if (comm != \"\") n[comm stack]++; comm = \"\"; next }
		{ \$1 = \"\"; stack = \";\" substr(\$0, 2) stack }
		END { for (k in n) print k, n[k] }" >"$2"' sh "$T/perf.data" "$T/perf.folded"
	awk '{ print ($1 + $2) / 1000 }' "$T/usage" >>"$T/perf"
	awk '{ print $3 }' "$T/usage" >>"$T/perf.kib"
done
ours=$(median <"$T/ours") theirs=$(median <"$T/perf")
note "${#files[@]} files; $(awk '{ n += $NF } END { print n }' "$T/ours.folded") samples folded by us," \
	"$(awk '{ n += $NF } END { print n }' "$T/perf.folded") by perf; frames without a name:" \
	"$(grep -o ';\[' "$T/ours.folded" | wc -l) and $(grep -o ';\[unknown' "$T/perf.folded" | wc -l)"
note "ours $ours ms, perf script and folding $theirs ms of CPU time"
result names "$(calc "$theirs / $ours")" "times less CPU time than perf script" '>=20'
result names_memory "$(calc "$(median <"$T/ours.kib") / 1024")" "MiB at the peak" \
	"$(calc "$(median <"$T/perf.kib") / 1024")"
