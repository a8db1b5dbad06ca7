# SPDX-License-Identifier: BSD-2-Clause
#
# C with its comments and the contents of its strings and character constants taken out, every line
# as "FILE:LINE:code", so that a word in a comment or a message is not taken for a call.

FNR == 1 { comment = 0 }

{
	line = $0
	out = ""
	while (line != "") {
		if (comment) {
			end = index(line, "*/")
			if (!end)
				break
			line = substr(line, end + 2)
			comment = 0
			continue
		}
		if (!match(line, /\/\*|\/\/|"|'/)) {
			out = out line
			break
		}
		out = out substr(line, 1, RSTART - 1)
		mark = substr(line, RSTART, RLENGTH)
		line = substr(line, RSTART + RLENGTH)
		if (mark == "//")
			break
		if (mark == "/*") {
			comment = 1
			out = out " "
			continue
		}
		out = out mark mark
		while (line != "") {
			c = substr(line, 1, 1)
			line = substr(line, c == "\\" ? 3 : 2)
			if (c == mark)
				break
		}
	}
	print FILENAME ":" FNR ":" out
}
