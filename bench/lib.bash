# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the measurements share. Sourced by the *.sh beside it: each of those measures everything of
# its kind once, ours and the others' next to each other, and bench/run repeats them.
#
# gp_start ARGS...        start the tool and return when it is ready: GP_PID
# gr_start ARGS...        the same for glitchrec
# gp_stop                 end it; its summary is $T/sum.json
# empty_start ARGS...     the same for build/bench/empty; empty_stop leaves its report in $T/empty
# background CMD...       something that cleanup ends
# other_start CMD...      someone else's tool; its output is $T/other: OTHER_PID
# perf_start ARGS...      the same for perf record, to $T/perf.data
# other_stop              end it; what it used is $T/usage
# pause SECONDS           sleep that a signal ends
# value NAME VALUE UNIT   a figure; bench/lines.txt says what NAME means and what its limit is
# missing WHAT REASON     something that could not be compared here
# note TEXT               for whoever looks at this one run
#
# BENCH_RAW and BENCH_MISSING are where bench/run wants figures and reasons; by hand they are only
# printed. BENCH_KEEP is a directory for what is made once for all repetitions: KEEP.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
PATH=$PATH:/usr/sbin:/sbin

SG_BUILD=$(realpath "${SG_BUILD:-build}")
B=$SG_BUILD/bench
GP=${GATEDPROF:-$SG_BUILD/gatedprof}
BENCH=$(basename "$0" .sh)

if [ "$(id -u)" -ne 0 ]; then
	echo "$BENCH: needs root" >&2
	exit 1
fi
T=$(mktemp -d) || exit 1
mkfifo "$T/ready" "$T/in" "$T/out" || exit 1
exec 7<>"$T/ready" 8<>"$T/out"
GP_PID='' EMPTY_PID='' OTHER_PID='' OURS=()
KEEP=${BENCH_KEEP:-$T}

cleanup()
{
	local pid

	for pid in $GP_PID $EMPTY_PID $OTHER_PID "${OURS[@]}"; do
		kill "$pid" 2>/dev/null
	done
	wait
	# What a background function had started may still be writing its last file.
	rm -rf "$T" 2>/dev/null || { sleep 1 && rm -rf "$T"; }
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# give_up REASON: what this script has not measured by now, it won't
give_up()
{
	missing "$BENCH" "$*"
	[ -s "$T/err" ] && sed 's/^/  /' "$T/err"
	exit 0
}

missing()
{
	printf '%s: not measured: %s\n' "$1" "$2"
	[ -z "${BENCH_MISSING:-}" ] || printf '%s\t%s\n' "$1" "$2" >>"$BENCH_MISSING"
}

pause()
{
	sleep "$1" 7>&- 8>&- 9>&- &
	wait $!
}

# Programs started in the background ignore SIGINT: SIGTERM ends the tool as well.
gp_start()
{
	local line

	rm -f "$T/sum.json"
	"$GP" -q -o "$T/folded" --summary "$T/sum.json" --ready-fd 7 "$@" \
		2>"$T/err" </dev/null >/dev/null &
	GP_PID=$!
	read -r -t 60 -u 7 line || give_up "$(basename "$GP") was not ready: ${*:1:6}"
}

# The same under build/bench/rusage, which writes $T/usage. TOOL_PID is the tool's own.
gp_start_measured()
{
	local line

	rm -f "$T/sum.json"
	"$B/rusage" "$T/usage" "$GP" -q -o "$T/folded" --summary "$T/sum.json" --ready-fd 7 "$@" \
		2>"$T/err" </dev/null >/dev/null &
	GP_PID=$!
	read -r -t 60 -u 7 line || give_up "$(basename "$GP") was not ready: ${*:1:6}"
	read -r TOOL_PID _ <"/proc/$GP_PID/task/$GP_PID/children"
}

# glitchrec, measured likewise; its directory is $T/gl. gp_stop ends it.
gr_start()
{
	local line

	rm -rf "$T/sum.json" "$T/gl"
	"$B/rusage" "$T/usage" "$SG_BUILD/glitchrec" -q -o "$T/gl" --summary "$T/sum.json" \
		--ready-fd 7 "$@" >/dev/null 2>"$T/err" </dev/null &
	GP_PID=$!
	read -r -t 60 -u 7 line || give_up "glitchrec was not ready: $*"
	read -r TOOL_PID _ <"/proc/$GP_PID/task/$GP_PID/children"
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
	read -r -t 60 -u 8 line || give_up "empty $* was not ready"
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

other_run()
{
	"$B/rusage" "$T/usage" "$@" >"$T/other" 2>"$T/other.err" </dev/null 7>&- 8>&- 9>&- &
	OTHER_PID=$!
}

# perf says when it has begun, if it is told to begin.
perf_start()
{
	local line

	rm -f "$T/ctl" "$T/ack" && mkfifo "$T/ctl" "$T/ack" || exit 1
	other_run perf record -q -D -1 --control "fifo:$T/ctl,$T/ack" -o "$T/perf.data" "$@"
	exec 5<>"$T/ctl" 6<>"$T/ack"
	echo enable >&5
	read -r -t 60 -u 6 line || give_up "perf record $* did not begin: $(tail -n 1 "$T/other.err")"
	exec 5>&- 6>&-
}

# Others don't: two seconds must do.
other_start()
{
	other_run "$@"
	pause 2
	kill -0 "$OTHER_PID" 2>/dev/null || give_up "$1 ended at once: $(tail -n 1 "$T/other.err")"
}

other_stop()
{
	kill -TERM "$OTHER_PID"
	wait "$OTHER_PID"
	OTHER_PID=
}

background()
{
	"$@" 7>&- 8>&- 9>&- </dev/null >/dev/null 2>&1 &
	OURS+=($!)
}

end_background()
{
	[ ${#OURS[@]} -gt 0 ] || return 0
	kill "${OURS[@]}" 2>/dev/null
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
	sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
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

value()
{
	case $2 in
	'' | *[!0-9.eE+-]*) missing "$1" "no figure, but '$2'" && return ;;
	*) ;;
	esac
	printf '%s: %s %s\n' "$1" "$2" "$3"
	[ -z "${BENCH_RAW:-}" ] || printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$BENCH_RAW"
}

note()
{
	printf '  %s\n' "$*"
}

# have COMMAND: is it there; said once if not
have()
{
	command -v "$1" >/dev/null && return
	[[ " $SAID " == *" $1 "* ]] || missing "$1" "not installed"
	SAID+=" $1"
	return 1
}
SAID=''

# bcc_runs TOOL: those of bcc's tools in Python are compiled where they run, against the headers of
# the running kernel
bcc_runs()
{
	have "$1-bpfcc" || return
	timeout -s INT 20 "$1-bpfcc" 1 >"$T/bcc" 2>&1 </dev/null 7>&- 8>&- 9>&- && return
	missing "$1-bpfcc" "does not run here: $(grep -m 1 -oE 'Unable to[^.]*' "$T/bcc" || tail -n 1 "$T/bcc")"
	return 1
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
