#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# lib/ has no variable that can change: neither file scope nor static in a function. Tables of
# pointers that only the loader writes (.data.rel.ro) are constants.
. "$(dirname "$0")/common"

# Prints the names of the writable objects in the object files given.
writable()
{
	objdump -t "$@" | awk '
		$NF ~ /^\./ { next }
		/[ \t](\.data|\.bss|\.tdata|\.tbss|\.data\.[^r][^\t]*|\.bss\.[^\t]*|\*COM\*|\.lbss[^\t]*)\t/ {
			print $NF
		}'
}

cat >"$tmp/probe.c" <<'PROBE'
const char *const names[] = {"a", "b"};
static const int table[] = {1, 2};
int bad_common;
int bad_data = 3;
int next(int i)
{
	static int bad_static;
	static __thread int bad_thread;
	bad_thread++;
	return bad_static += table[i] + names[i][0];
}
PROBE
${CC:-gcc} -O2 -fPIE -c "$tmp/probe.c" -o "$tmp/probe.o" || complain "no compiler for the self-test"
got=$(writable "$tmp/probe.o" | sed 's/\.[0-9]*$//; s/^next\.//' | sort | tr '\n' ' ')
[ "$got" = "bad_common bad_data bad_static bad_thread " ] || complain "self-test: found '$got'"

objects=(build/lib/*/*.o)
[ ${#objects[@]} -gt 0 ] || complain "nothing is built in build/lib"
for object in "${objects[@]}"; do
	source=${object#build/} source=${source%.o}.c
	[ -e "$source" ] || continue
	while read -r name; do
		complain "$source: '$name' is a global that can change"
	done < <(writable "$object")
done
exit $failed
