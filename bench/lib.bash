# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the measurements share. Sourced; `make bench` runs the *.sh beside it. The machine may be
# shared and noisy, so everything is compared within one run, alternating, and medians are taken.
#
# gp_start ARGS...        start the tool and return when it is ready: GP_PID
# gp_stop                 end it; its summary is $T/sum.json
# empty_start ARGS...     the same for build/bench/empty; empty_stop leaves its report in $T/empty
# background CMD...       something that cleanup ends
# result NAME VALUE UNIT LIMIT [RATIO]   one line, MET if VALUE is at most LIMIT (at least, for >=N)
# note TEXT               a number without a limit
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
PATH=$PATH:/usr/sbin:/sbin

SG_BUILD=$(realpath "${SG_BUILD:-build}")
B=$SG_BUILD/bench
GP=${GATEDPROF:-$SG_BUILD/gatedprof}
RESULTS=$SG_BUILD/bench-results
BENCH=$(basename "$0" .sh)

if [ "$(id -u)" -ne 0 ]; then
	echo "$BENCH: skipped: needs root"
	exit 0
fi
T=$(mktemp -d) || exit 1
mkfifo "$T/ready" "$T/in" "$T/out" && mkdir -p "$RESULTS" && : >"$RESULTS/$BENCH" || exit 1
exec 7<>"$T/ready" 8<>"$T/out"
GP_PID='' EMPTY_PID='' OURS=()

cleanup()
{
	local pid

	for pid in $GP_PID $EMPTY_PID "${OURS[@]}"; do
		kill "$pid" 2>/dev/null
	done
	wait
	rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

give_up()
{
	echo "$BENCH: not measured: $*"
	[ -s "$T/err" ] && sed 's/^/  /' "$T/err"
	exit 0
}

# Programs started in the background ignore SIGINT: SIGTERM ends the tool as well.
gp_start()
{
	local line

	rm -f "$T/sum.json"
	"$GP" -q -o "$T/folded" --summary "$T/sum.json" --ready-fd 7 "$@" \
		2>"$T/err" </dev/null >/dev/null &
	GP_PID=$!
	read -r -t 20 -u 7 line || give_up "gatedprof $* was not ready"
}

# The same under build/bench/rusage, which writes $T/usage. TOOL_PID is the tool's own.
gp_start_measured()
{
	local line

	rm -f "$T/sum.json"
	"$B/rusage" "$T/usage" "$GP" -q -o "$T/folded" --summary "$T/sum.json" --ready-fd 7 "$@" \
		2>"$T/err" </dev/null >/dev/null &
	GP_PID=$!
	read -r -t 20 -u 7 line || give_up "gatedprof $* was not ready"
	read -r TOOL_PID <"/proc/$GP_PID/task/$GP_PID/children"
	TOOL_PID=${TOOL_PID%% *}
}

gp_stop()
{
	kill -TERM "$GP_PID"
	wait "$GP_PID"
	GP_PID=
}

empty_start()
{
	local line

	"$B/empty" "$@" <"$T/in" >"$T/out" 2>"$T/err" 7>&- 8>&- &
	EMPTY_PID=$!
	exec 9>"$T/in"
	read -r -t 20 -u 8 line || give_up "empty $* was not ready"
}

empty_stop()
{
	exec 9>&-
	wait "$EMPTY_PID"
	EMPTY_PID=
	: >"$T/empty"
	while read -r -t 0.2 -u 8 line; do
		echo "$line" >>"$T/empty"
	done
}

background()
{
	"$@" 7>&- 8>&- 9>&- </dev/null >/dev/null 2>&1 &
	OURS+=($!)
}

end_background()
{
	[ ${#OURS[@]} -eq 0 ] || kill "${OURS[@]}" 2>/dev/null
	wait "${OURS[@]}" 2>/dev/null
	OURS=()
}

# Nanoseconds for each run, from lines "NAME NS RUNS" whose NAME begins with $1; 0 without a run.
per_run()
{
	awk -v name="$1" 'index($1, name) == 1 { ns += $2; n += $3 }
		END { printf "%.1f\n", n ? ns / n : 0 }'
}

median()
{
	sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# calc EXPRESSION [FORMAT]
calc()
{
	awk "BEGIN { printf \"${2:-%.1f}\\n\", ($1) }"
}

sum()
{
	sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$T/sum.json" | head -n 1
}

result()
{
	local name=$1 value=$2 unit=$3 limit=$4 ratio=${5:-} verdict

	if [ "${limit#>=}" != "$limit" ]; then
		verdict=$(calc "$value >= ${limit#>=}" %d)
	else
		verdict=$(calc "$value <= $limit" %d)
	fi
	[ "$verdict" = 1 ] && verdict=MET || verdict='NOT MET'
	[ -n "$ratio" ] || ratio=$(calc "$value / ${limit#>=}" %.2f)
	printf '%s: %s %s (limit %s) ratio %s %s\n' "$name" "$value" "$unit" "$limit" "$ratio" "$verdict"
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$value" "$unit" "$limit" "$ratio" "$verdict" \
		>>"$RESULTS/$BENCH"
}

note()
{
	printf '  %s\n' "$*"
}

have()
{
	command -v "$1" >/dev/null || {
		note "$1 is not installed: not compared"
		return 1
	}
}

# Nanoseconds of CPU time that the one child of a process has used.
used_ns()
{
	local child

	read -r child <"/proc/$1/task/$1/children"
	cat "/proc/${child%% *}/task/"*/schedstat | awk '{ ns += $1 } END { printf "%d\n", ns }'
}

# The median length of what $T/gaps has and $T/gaps.none, as long a run without a profiler, has not.
interruption()
{
	awk 'FNR == NR { n[$1] -= $2; total -= $2; next }
		{ n[$1] += $2; total += $2 }
		END {
			for (i = 0; i < 65536 && 2 * below < total; i += 16)
				below += n[i]
			print i - 16
		}' "$T/gaps.none" "$T/gaps"
}
