#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Naming 50,000 addresses in 100 files, one of which has 500,000 symbols, in 20,000 stacks of 25
# frames, next to perf script and a program that folds what it prints, on the same samples: CPU time
# and peak memory.
. "$(dirname "$0")/lib.bash"

have perf || exit 0
addresses=50000

# Libraries of this machine, as many as there are up to 99, and a file with a great many symbols.
mapfile -t files < <(find /usr/lib/x86_64-linux-gnu -maxdepth 1 -name '*.so.*' -type f -size +40k |
	sort | while read -r f; do readelf -SW "$f" 2>/dev/null | grep -q ' \.text ' && echo "$f"; done |
	head -n 99)
many=$KEEP/many.so samples=$KEEP/names.data
if [ ! -s "$samples" ]; then
	{
		echo '.text'
		awk 'BEGIN { for (i = 0; i < 500000; i++)
			printf ".type function_number_%d,@function\nfunction_number_%d: ret; nop\n.size function_number_%d,2\n", i, i, i }'
	} >"$T/many.s"
	gcc -nostdlib -shared -o "$many" "$T/many.s" || give_up "no file with many symbols"
	"$B/names" make "$samples" $addresses "${files[@]}" "$many" || give_up "no samples"
fi
files+=("$many")

"$B/rusage" "$T/usage" "$B/names" fold $addresses "${files[@]}" >"$T/ours.folded"
read -r user system peak _ <"$T/usage"
ours=$(calc "($user + $system) / 1000")
value names_cpu "$ours" ms
value names_memory "$(calc "$peak / 1024")" MiB

# What stackcollapse scripts do: a stack is the lines up to an empty one, leaf first.
"$B/rusage" "$T/usage" sh -c 'perf script --no-inline -i "$1" -F comm,ip,sym 2>/dev/null | awk "
	/^[^ \t]/ { comm = \$1; stack = \"\"; next }
	/^\$/ { if (comm != \"\") n[comm stack]++; comm = \"\"; next }
	{ \$1 = \"\"; stack = \";\" substr(\$0, 2) stack }
	END { for (k in n) print k, n[k] }" >"$2"' sh "$samples" "$T/perf.folded"
read -r user system peak _ <"$T/usage"
theirs=$(calc "($user + $system) / 1000")
value names_cpu_perf "$theirs" ms
value names_memory_perf "$(calc "$peak / 1024")" MiB
value names_ratio "$(calc "$theirs / $ours" %.2f)" times
note "${#files[@]} files; $(awk '{ n += $NF } END { print n }' "$T/ours.folded") samples folded by us," \
	"$(awk '{ n += $NF } END { print n }' "$T/perf.folded") by perf; frames without a name:" \
	"$(grep -o ';\[' "$T/ours.folded" | wc -l) and $(grep -o ';\[unknown' "$T/perf.folded" | wc -l)"
