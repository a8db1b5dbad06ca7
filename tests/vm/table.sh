#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# table.sh TABLE DIR SERIES...   TABLE with these columns, those of them anew for which there is
#                                DIR/SERIES/budget/budget.tsv
set -u
export LC_ALL=C
table=$1 dir=$2
shift 2
files=()
for file in "$dir"/*/budget/budget.tsv; do
	[ -s "$file" ] && files+=("$file")
done
[ ${#files[@]} -gt 0 ] || exit 1
[ -e "$table" ] || table=/dev/null
sed -n '/^#/p' "$(dirname "$0")/verifier-budget.head"
awk -F '\t' -v OFS='\t' -v all="$*" '
	/^#/ { next }
	FILENAME !~ /budget\.tsv$/ || FILENAME ~ /verifier-budget/ {
		if ($1 == "tool")
			for (i = 4; i <= NF; i++)
				of[i] = $i
		else
			for (i = 4; i <= NF; i++)
				value[$1 OFS $2 OFS $3, of[i]] = $i
		next
	}
	{
		n = split(FILENAME, part, "/")
		series = part[n - 2]
		new[series] = 1
		if ($3 != "-")
			measured[$1 OFS $2 OFS $3, series] = $4
	}
	END {
		columns = split(all, column, " ")
		for (i in value) {
			split(i, part, SUBSEP)
			if (!(part[2] in new) && value[i] != "")
				measured[i] = value[i]
		}
		for (i in measured) {
			split(i, part, SUBSEP)
			rows[part[1]] = 1
		}
		printf "tool\tvariant\tprogram"
		for (c = 1; c <= columns; c++)
			printf "\t%s", column[c]
		print ""
		sorter = "sort"
		for (row in rows) {
			line = row
			for (c = 1; c <= columns; c++)
				line = line OFS measured[row, column[c]]
			print line | sorter
		}
		close(sorter)
	}' "$table" "${files[@]}"
