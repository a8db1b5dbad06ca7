# SPDX-License-Identifier: BSD-2-Clause
# bench/report.awk: medians, spread and verdicts of known figures; and bench/lines.txt is sound.

load lib

# figures NAME UNIT VALUE...
figures()
{
	local x

	for x in "${@:3}"; do
		printf '%s\t%s\t%s\n' "$1" "$x" "$2" >>"$T/raw"
	done
}

line()
{
	printf '%s\t%s\t%s\n' "$@" >>"$T/lines"
}

report()
{
	[ -e "$T/missing" ] || : >"$T/missing"
	awk -f bench/report.awk "$T/lines" "$T/raw" "$T/missing" >"$T/report" || fail "report.awk"
}

# row TEXT REST: the row of TEXT is exactly this
row()
{
	grep -qxF "| $1 | $2 |" "$T/report" || {
		cat "$T/report" >&2
		fail "no row '$1' with '$2'"
	}
}

@test "the median of an odd and of an even count, in whatever order" {
	figures odd ns 5 -1 30 2 4
	figures even ns 10 7 9 8
	figures one ms 0.25
	figures big ns 1000000 12 123.4
	awk -v mode=stats -f bench/report.awk /dev/null "$T/raw" >"$T/stats"
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' odd 4 -1 30 5 ns even 8.5 7 10 4 ns \
		one 0.25 0.25 0.25 1 ms big 123.4 12 1e+06 3 ns | diff - "$T/stats"
}

@test "a limit is met, not met, or met by some of the repetitions" {
	echo '[Part]' >"$T/lines"
	line good '<= 100' 'all below'
	line edge '<= 3' 'at the limit'
	line bad '<= 100' 'all above'
	line some '<= 100' 'median below'
	line few '<= 100' 'median above'
	line times '>= 3' 'fast enough'
	line slow '>= 3' 'too slow'
	line plain - 'no limit'
	figures good ns 1 2 3
	figures edge ns 3 3 3
	figures bad ns 101 102 103
	figures some ns 90 99.5 130
	figures few ns 90 110.25 130
	figures times times 3 4 5
	figures slow times 1 2 2.5
	figures plain ns 7 7 7
	report
	grep -qx '## Part' "$T/report" || fail "no section"
	row 'all below' 'ns | 100 | 2 | 1 to 3 | 3 | met'
	row 'at the limit' 'ns | 3 | 3 | 3 to 3 | 3 | met'
	row 'all above' 'ns | 100 | 102 | 101 to 103 | 3 | **not met**'
	row 'median below' 'ns | 100 | 99.5 | 90 to 130 | 3 | met (met in 2 of 3)'
	row 'median above' 'ns | 100 | 110 | 90 to 130 | 3 | **not met** (met in 1 of 3)'
	row 'fast enough' 'times | at least 3 | 4 | 3 to 5 | 3 | met'
	row 'too slow' 'times | at least 3 | 2 | 1 to 2.50 | 3 | **not met**'
	row 'no limit' 'ns |  | 7 | 7 to 7 | 3 | '
}

@test "a limit that was measured itself: the lowest counts, repetition by repetition" {
	echo '[Part]' >"$T/lines"
	line ours '<= perf other absent' 'below both'
	line third '<= 0.5*perf' 'a share'
	line alone '<= absent' 'nobody else'
	figures ours ns 10 30 20
	figures perf ns 40 50 60
	figures other ns 11 29 25
	figures third ns 20 26 27
	figures alone ns 1 1 1
	report
	row 'below both' 'ns | 25 | 20 | 10 to 30 | 3 | met (met in 2 of 3)'
	row 'a share' 'ns | 25 | 26 | 20 to 27 | 3 | **not met** (met in 2 of 3)'
	row 'nobody else' 'ns |  | 1 | 1 to 1 | 3 | nothing to compare with'
}

@test "what could not be measured is listed once, with every reason" {
	echo '[Part]' >"$T/lines"
	line never '<= 1' 'never measured'
	: >"$T/raw"
	printf '%s\t%s\n' tool 'not installed' tool 'not installed' tool 'too old' x y >"$T/missing"
	report
	grep -qx -- '- tool: not installed; too old' "$T/report" || fail "reasons"
	grep -qx -- '- x: y' "$T/report" || fail "the other one"
	! grep -q 'never measured' "$T/report" || fail "a row without figures"
}

@test "a figure without a line is shown all the same" {
	echo '[Part]' >"$T/lines"
	figures stray ns 5 6 7
	report
	row stray 'ns |  | 6 | 5 to 7 | 3 | '
}

@test "every line is of three fields, with a limit that can be read, and of one name" {
	local limit='-|[<>]= ([0-9.]+\*?[a-z_0-9]*|[a-z_]+)( [a-z_0-9]+)*'

	grep -v '^#' bench/lines.txt | grep -vxE '\[.*\]' >"$T/rows"
	[ -s "$T/rows" ] || fail "no lines"
	awk -F '\t' 'NF != 3 { print; bad = 1 } END { exit bad }' "$T/rows" || fail "not three fields"
	! cut -f 2 "$T/rows" | grep -vxE "$limit" || fail "a limit"
	! cut -f 1 "$T/rows" | sort | uniq -d | grep . || fail "twice"
	# What a limit refers to has a line, too.
	cut -f 2 "$T/rows" | grep -oE '[a-z_]{3,}[a-z_0-9]*' | sort -u >"$T/asked"
	cut -f 1 "$T/rows" | sort -u >"$T/known"
	! comm -23 "$T/asked" "$T/known" | grep . || fail "a limit without a line"
}

@test "the picture: a figure is where its nanoseconds are, and only costs are drawn" {
	printf '[Part]\n' >"$T/lines"
	line outside - 'no cost'
	printf '[Costs: of a & b]\n' >>"$T/lines"
	line micro - 'one <us>'
	line tiny - 'below the axis'
	line absent - 'never measured'
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' outside 5 5 5 1 ns micro 1000 100 10000 5 ns \
		tiny -3 -50 4 5 ns >"$T/stats"
	awk -f bench/plot.awk "$T/lines" "$T/stats" >"$T/svg" || fail "plot.awk"
	python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$T/svg" ||
		fail "no XML"
	[ "$(grep -c '<circle' "$T/svg")" -eq 2 ] || fail "not two dots"
	grep -q '<circle cx="480.0"' "$T/svg" || fail "1000 ns is elsewhere"
	grep -q '<path class="spread" d="M390.0 [0-9]*H570.0"/>' "$T/svg" || fail "the spread"
	grep -q '<circle cx="300.0"' "$T/svg" || fail "what is below the axis is not at its edge"
	grep -qF '>1.0 &#181;s</text>' "$T/svg" || fail "the figure"
	grep -qF '>100 ns</text>' "$T/svg" && grep -qF '>10 &#181;s</text>' "$T/svg" || fail "the axis"
	grep -qF '>of a &amp; b</text>' "$T/svg" || fail "the title"
	grep -qF '>one &lt;us></text>' "$T/svg" || fail "the text"
	! grep -qE 'no cost|never measured' "$T/svg" || fail "something else is drawn"
}

@test "the runner refuses what is no count and a script that is not there, and runs what is asked for" {
	[ "$(id -u)" -eq 0 ] || skip "not root"
	BENCH_REPS=0 bash bench/run >"$T/out" 2>&1 && fail "no repetition" || [ $? -eq 2 ] || fail "exit"
	BENCH=nosuch bash bench/run >"$T/out" 2>&1 && fail "no script" || [ $? -eq 2 ] || fail "exit"
	sha256sum bench/RESULTS.md docs/costs.svg >"$T/before"
	SG_BUILD=$T/build BENCH=siz? BENCH_REPS=7 bash -c 'mkdir -p "$SG_BUILD/static" &&
		install -m 755 /bin/true "$SG_BUILD/static/gatedprof" && bash bench/run' >"$T/out" 2>&1 ||
		fail "size"
	grep -q '^| static binary, gatedprof | MiB | 4 | 0.0' "$T/out" || fail "no row"
	grep -q '; 7 repetitions asked for' "$T/out" || fail "repetitions"
	sha256sum -c --quiet "$T/before" || fail "a part of the run has become the results"
}
