# SPDX-License-Identifier: BSD-2-Clause
#
# sort -t TAB -k COLUMN,COLUMNnr TABLE | awk -v column=COLUMN -f heaviest.awk   of verifier-budget.tsv:
# lines "TOOL VARIANT" that together load each program of that series, each with at least nine tenths of
# the most instructions that it takes in any variant

BEGIN { FS = "\t" }

/^#/ || $1 == "tool" || $column == "" { next }

{
	program = $1 FS $3
	variant = $1 " " $2
	if (!(program in most)) {
		most[program] = $column
		order[++n] = program
		heaviest[program] = variant
	}
	if ($column * 10 >= most[program] * 9)
		near[program, variant] = 1
}

END {
	for (i = 1; i <= n; i++) {
		found = 0
		for (variant in taken)
			if ((order[i], variant) in near)
				found = 1
		if (found)
			continue
		taken[heaviest[order[i]]] = 1
		print heaviest[order[i]]
	}
}
