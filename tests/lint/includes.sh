#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Who may include what: the table in docs/design.md, and for lib/ the one in lib-folders.txt.
. "$(dirname "$0")/common"

awk -f tests/lint/includes.awk tests/lint/lib-folders.txt include/*.h bpf/*.[ch] lib/*.[ch] \
	lib/*/*.[ch] tools/*.[ch] tests/unit/*.[ch] tests/fuzz/*.[ch] || failed=1

# No folder includes one that includes it, in one step or in several.
awk -F '[ \t]*[|][ \t]*' '
	/^#/ || NF == 0 { next }
	{
		n = split($2, to, /[ \t]+/)
		for (i = 1; i <= n; i++)
			if (to[i] != "" && !(to[i] in seen)) {
				print "lib-folders.txt:" FNR ": " $1 " may include " to[i] ", which comes later"
				bad = 1
			}
		seen[$1] = 1
	}
	END { exit bad }' tests/lint/lib-folders.txt || failed=1
exit $failed
