#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Where does the CPU go while sqlite3_step() runs? One query, gated on that function, its folded
# stacks on standard output with the heaviest first.
set -u
cd "$(dirname "$0")/.." || exit 1

library=
for candidate in /usr/lib/*/libsqlite3.so.0 /usr/lib/libsqlite3.so.0 /usr/lib64/libsqlite3.so.0; do
	[ -e "$candidate" ] && library=$candidate && break
done
[ -n "$library" ] || {
	echo "demo: no libsqlite3.so.0 on this machine (Debian package libsqlite3-0)" >&2
	exit 1
}

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "demo: profiling needs root, and there is no sudo" >&2
		exit 1
	}
	as_root=(sudo)
fi

query="with recursive c(x) as (select 1 union all select x+1 from c where x<3000000)
	select sum(x*x%7) from c"
folded=$(mktemp) || exit 1
trap 'rm -f "$folded"' EXIT

echo "\$ gatedprof -F 499 -g u:$library:sqlite3_step -- sqlite3 :memory: \"...\"" >&2
"${as_root[@]}" build/gatedprof -F 499 -g "u:$library:sqlite3_step" -o - -- \
	sqlite3 -cmd '.output /dev/null' :memory: "$query" >"$folded"
status=$?
[ $status -eq 0 ] || exit $status

awk '{ print $NF, NR }' "$folded" | sort -k1,1nr -k2,2n | awk '
	NR == FNR { line[FNR] = $0; next }
	{ print line[$2] }' "$folded" -
