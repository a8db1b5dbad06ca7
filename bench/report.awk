# SPDX-License-Identifier: BSD-2-Clause
#
# awk -f report.awk LINES RAW [MISSING]: medians and spread as Markdown; with -v mode=stats only
# lines "NAME MEDIAN MIN MAX N UNIT", tabs between.
#
# LINES (lines.txt) says what is asked for: "[SECTION]", or "NAME LIMIT TEXT" with tabs between.
# LIMIT is "-", or "<=" or ">=" and what is bearable: terms with spaces between, each a number or
# [FACTOR*]NAME; all of them must hold. RAW has "NAME VALUE UNIT" for each repetition, MISSING "WHAT
# REASON".

function sorted(name, out,    i, j, x)
{
	for (i = 1; i <= n[name]; i++) {
		x = value[name, i]
		for (j = i - 1; j > 0 && out[j] > x; j--)
			out[j + 1] = out[j]
		out[j + 1] = x
	}
	return n[name]
}

function look(name,    v, count)
{
	if (name in median)
		return
	count = sorted(name, v)
	median[name] = count % 2 ? v[(count + 1) / 2] : (v[count / 2] + v[count / 2 + 1]) / 2
	least[name] = v[1]
	most[name] = v[count]
}

function show(x,    size)
{
	size = x < 0 ? -x : x
	if (x == int(x) || size >= 100)
		return sprintf("%.0f", x)
	return sprintf(size >= 10 ? "%.1f" : size >= 1 ? "%.2f" : "%.3f", x)
}

# What a term comes to in repetition i, or by medians for i = 0; "" if it was not measured.
function term(text, i,    factor, star)
{
	if (text ~ /^[0-9.]+$/)
		return text + 0
	factor = 1
	star = index(text, "*")
	if (star) {
		factor = substr(text, 1, star - 1) + 0
		text = substr(text, star + 1)
	}
	if (!(text in n))
		return ""
	look(text)
	return factor * (i && n[text] >= i ? value[text, i] : median[text])
}

# Whether x is within limit: 1, 0, or "" where nothing of the limit was measured. bound is set.
function within(limit, x, i,    k, count, terms, at, least_wanted)
{
	count = split(limit, terms, " ")
	least_wanted = terms[1] == ">="
	bound = ""
	for (k = 2; k <= count; k++) {
		at = term(terms[k], i)
		if (at != "" && (bound == "" || (least_wanted ? at > bound : at < bound)))
			bound = at
	}
	if (bound == "")
		return ""
	return least_wanted ? x >= bound : x <= bound
}

function verdict(name, limit,    i, good, all)
{
	look(name)
	all = within(limit, median[name], 0)
	if (all == "")
		return "nothing to compare with"
	for (i = 1; i <= n[name]; i++)
		good += within(limit, value[name, i], i)
	# within() of the medians comes last: the table shows its bound.
	all = within(limit, median[name], 0)
	if (good == (all ? n[name] : 0))
		return all ? "met" : "**not met**"
	return sprintf("%s (met in %d of %d)", all ? "met" : "**not met**", good, n[name])
}

function row(name, limit, text,    word, asked)
{
	look(name)
	asked = ""
	word = ""
	if (limit != "-") {
		word = verdict(name, limit)
		asked = bound == "" ? "" : substr(limit, 1, 1) == ">" ? "at least " show(bound) : show(bound)
	}
	printf "| %s | %s | %s | %s | %s to %s | %d | %s |\n", text, unit[name], asked,
		show(median[name]), show(least[name]), show(most[name]), n[name], word
}

function heading(text)
{
	printf "\n## %s\n\n| | unit | limit | median | spread | n | |\n| --- | --- | --- | --- | --- | --- | --- |\n", text
}

BEGIN { FS = "\t" }

FILENAME == ARGV[1] && /^\[.*\]$/ {
	section = substr($0, 2, length($0) - 2)
	next
}

FILENAME == ARGV[1] && !/^#/ && NF == 3 {
	names[++asked_for] = $1
	limits[asked_for] = $2
	texts[asked_for] = $3
	sections[asked_for] = section
	known[$1] = 1
	next
}

FILENAME == ARGV[2] && NF == 3 {
	if (!n[$1]++)
		order[++measured] = $1
	value[$1, n[$1]] = $2 + 0
	unit[$1] = $3
	next
}

FILENAME == ARGV[3] && NF == 2 && !seen[$0]++ {
	if (!($1 in reason))
		absent[++n_absent] = $1
	reason[$1] = reason[$1] (reason[$1] == "" ? "" : "; ") $2
}

END {
	if (mode == "stats") {
		for (i = 1; i <= measured; i++) {
			look(order[i])
			printf "%s\t%.6g\t%.6g\t%.6g\t%d\t%s\n", order[i], median[order[i]],
				least[order[i]], most[order[i]], n[order[i]], unit[order[i]]
		}
		exit 0
	}
	last = ""
	for (i = 1; i <= asked_for; i++) {
		if (!(names[i] in n))
			continue
		if (sections[i] != last)
			heading(sections[i])
		last = sections[i]
		row(names[i], limits[i], texts[i])
	}
	last = ""
	for (i = 1; i <= measured; i++) {
		if (order[i] in known)
			continue
		if (last == "")
			heading("Without a line in lines.txt")
		last = "x"
		row(order[i], "-", order[i])
	}
	if (n_absent)
		print "\n## Not measured here\n"
	for (i = 1; i <= n_absent; i++)
		printf "- %s: %s\n", absent[i], reason[absent[i]]
}
