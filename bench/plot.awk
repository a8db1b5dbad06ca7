# SPDX-License-Identifier: BSD-2-Clause
#
# awk -f plot.awk LINES STATS: a picture (SVG) of the sections of LINES whose titles begin with
# "Costs: ", on one logarithmic axis of nanoseconds: a dot for the median, a line from the least to
# the most. STATS is what report.awk prints in its mode stats.

function log10(x) { return log(x) / log(10) }

# Where x nanoseconds are; what is less than the axis shows is at its edge.
function place(x) { return LEFT + (x <= LEAST ? 0 : (log10(x) - log10(LEAST)) * DECADE) }

function name_of(ns)
{
	return ns < 1000 ? ns " ns" : ns < 1000000 ? ns / 1000 " &#181;s" : ns / 1000000 " ms"
}

function figure(ns)
{
	if (ns < 0)
		return "about 0"
	if (ns < 1000)
		return sprintf("%.0f ns", ns)
	return sprintf(ns < 10000 ? "%.1f &#181;s" : "%.0f &#181;s", ns / 1000)
}

function escaped(text)
{
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	return text
}

function add(text) { body[++n_body] = text }

BEGIN {
	FS = "\t"
	LEFT = 300
	DECADE = 90
	LEAST = 10
	DECADES = 4
	RIGHT = LEFT + DECADE * DECADES
	WIDTH = RIGHT + 90
	y = 14
}

FILENAME == ARGV[1] && /^\[.*\]$/ {
	wanted = sub(/^\[Costs: /, "")
	sub(/\]$/, "")
	section = $0
	next
}

FILENAME == ARGV[1] && wanted && !/^#/ && NF == 3 {
	names[++rows] = $1
	texts[rows] = $3
	sections[rows] = section
	next
}

FILENAME == ARGV[2] && NF == 6 {
	median[$1] = $2
	least[$1] = $3
	most[$1] = $4
}

END {
	for (i = 1; i <= rows; i++) {
		name = names[i]
		if (!(name in median))
			continue
		if (sections[i] != last) {
			y += last == "" ? 8 : 20
			add(sprintf("<text class=\"title\" x=\"8\" y=\"%d\">%s</text>", y, escaped(sections[i])))
			y += 20
			last = sections[i]
		}
		add(sprintf("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", LEFT - 14, y + 4, escaped(texts[i])))
		add(sprintf("<path class=\"spread\" d=\"M%.1f %dH%.1f\"/>", place(least[name]), y, place(most[name])))
		add(sprintf("<circle cx=\"%.1f\" cy=\"%d\" r=\"4\"/>", place(median[name]), y))
		end = place(most[name])
		add(sprintf("<text x=\"%.1f\" y=\"%d\">%s</text>", end + 9, y + 4, figure(median[name])))
		y += 18
	}
	bottom = y + 4
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
		WIDTH, bottom + 24, WIDTH, bottom + 24
	print "<!-- SPDX-License-Identifier: BSD-2-Clause; made by bench/plot.awk -->"
	print "<style>"
	print "text { font: 12px sans-serif; fill: #333 } .title { font-weight: bold }"
	print ".grid { stroke: #ccc } .spread { stroke: #7aa5d8; stroke-width: 4 } circle { fill: #1f5fa8 }"
	print "@media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #444 }"
	print ".spread { stroke: #3f6fa5 } circle { fill: #9cc8f5 } }"
	print "</style>"
	for (i = 0; i <= DECADES; i++) {
		x = LEFT + i * DECADE
		printf "<path class=\"grid\" d=\"M%d 14V%d\"/>\n", x, bottom
		printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, bottom + 16,
			name_of(LEAST * 10 ^ i)
	}
	for (i = 1; i <= n_body; i++)
		print body[i]
	print "</svg>"
}
