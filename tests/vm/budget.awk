# SPDX-License-Identifier: BSD-2-Clause
#
# awk -v series=SERIES -f budget.awk verifier-budget.tsv MEASURED
#
# Compares what was measured (as by budget.sh) with the table's column of that series. A line for each
# variant, tabs between: pass|fail TOOL VARIANT REASON. A shrink is a note, on a line that begins with
# "note". Without such a column only what could not run is a failure: the tools have other ways where a
# program is rejected, and that is a note.

BEGIN {
	FS = OFS = "\t"
	limit = 1000000
}

function bad(key, why) {
	if (!(key in reason))
		reason[key] = why
}

/^#/ { next }

# The table: TOOL VARIANT PROGRAM, and a column for each series.
FILENAME == ARGV[1] && $1 == "tool" {
	for (i = 4; i <= NF; i++)
		if ($i == series)
			column = i
	next
}
FILENAME == ARGV[1] {
	if (column && $column != "")
		budget[$1 OFS $2, $3] = $column
	next
}

{
	key = $1 OFS $2
	if (!(key in seen))
		order[++n] = key
	seen[key] = 1
	if ($3 == "-") {
		bad(key, $4)
		next
	}
	measured[key, $3] = 1
	want = budget[key, $3]
	if (column && want == "")
		bad(key, $3 " (" $4 ") is not in the table: make verifier-budget")
	else if ($4 == "rejected") {
		if (!column)
			print "note", key, $3 " is rejected"
		else if (want != "rejected")
			bad(key, $3 " is rejected" (want == "" ? "" : ", and took " want))
	} else if ($4 < 0)
		bad(key, $3 " was loaded, and the kernel did not say what it took")
	else if (want == "rejected" || want == "")
		next
	else if ($4 > want * 1.2)
		bad(key, $3 " takes " $4 " instead of " want " of " limit)
	else if ($4 < want * 0.8)
		print "note", key, $3 " takes " $4 " instead of " want
}

END {
	for (pair in budget) {
		split(pair, part, SUBSEP)
		if (!(part[1] in seen)) {
			order[++n] = part[1]
			seen[part[1]] = 1
		}
		if (!(pair in measured))
			bad(part[1], part[2] " is in the table, and was not loaded")
	}
	for (i = 1; i <= n; i++)
		print order[i] in reason ? "fail" : "pass", order[i], reason[order[i]]
}
