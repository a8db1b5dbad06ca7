# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the live tests share. A test file has `load lib` at its top, and nothing else to set up.
# A run leaves its traces in $T: out.folded, sum.json, err (the tool's stderr), cmd (stdout of its
# COMMAND), and TAG.out and TAG.err of each workload.
#
# gp ARGS...        run the tool to its end; sets $status. Asserts nothing.
# gp_ok ARGS...     the same, and it must exit 0 with sound accounting
# gp_start ARGS...  start it and return when it is ready; ends with gp_wait or gp_stop ($status)
# wl TAG PROG ARGS  start a workload and return when it is ready, before it works; $(wl_pid TAG)
# busy              no CPU is idle until the test ends
# wl_go TAG         let it work; wl_wait TAG waits for its end and asserts exit code 0
#
# SG_PATIENCE       seconds until something must be ready (60), for slow machines
#
# No test sleeps: it waits for a ready line, a pid, or the end of something.

bats_require_minimum_version 1.5.0

SG_ROOT=${SG_ROOT:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
SG_BUILD=${SG_BUILD:-$SG_ROOT/build}
GP=${GATEDPROF:-$SG_BUILD/gatedprof}
# shellcheck disable=SC2034 # for the tests
W=$SG_BUILD/workloads

setup()
{
	T=$BATS_TEST_TMPDIR
	status=
	declare -gA WL_PID=() WL_GO=()
	GP_PID=
	OURS=()
	cd "$SG_ROOT" || return 1
}

# Only what this test started, by pid. A file that needs more calls live_teardown from its own.
live_teardown()
{
	local pid

	for pid in $GP_PID "${WL_PID[@]}" "${OURS[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

teardown()
{
	live_teardown
}

# fail MESSAGE: and what is known about the run, since the files are gone afterwards
fail()
{
	local file

	printf 'FAILED: %s\n' "$*" >&2
	for file in err sum.json; do
		[ -s "$T/$file" ] && sed "s/^/  $file: /" "$T/$file" >&2
	done
	[ -s "$T/out.folded" ] && cut -c1-200 "$T/out.folded" | head -n 12 | sed 's/^/  folded: /' >&2
	return 1
}

# ---- the tool ----

# has_option OPTION ARGS...: among those in front of a COMMAND's
has_option()
{
	local ours=" ${*:2} "

	[[ "${ours%% -- *} " == *" $1 "* ]]
}

# A summary to be looked at, unless the test has its own: summary=(...)
summary_file()
{
	summary=(--summary "$T/sum.json")
	! has_option --summary "$@" || summary=()
}

# run_tool TOOL ARGS...
run_tool()
{
	local summary

	status=0
	rm -f "$T/out.folded" "$T/sum.json"
	summary_file "$@"
	"$1" "${summary[@]}" "${@:2}" \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
}

# start_tool TOOL ARGS...
start_tool()
{
	local line= summary

	rm -f "$T/out.folded" "$T/sum.json" "$T/ready"
	mkfifo "$T/ready"
	summary_file "$@"
	"$1" "${summary[@]}" --ready-fd 9 "${@:2}" \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- 9>"$T/ready" &
	GP_PID=$!
	# If the tool ends before it is ready, its end of the FIFO is closed, and read fails.
	read -r -t "${SG_PATIENCE:-60}" line <"$T/ready" || fail "the tool never became ready"
	[[ $line == ready* ]] || fail "ready line is '$line'"
}

# Of a run that writes no folded stacks there is none to be kept, and a test may have its own.
to_file()
{
	to=(-o "$T/out.folded")
	! has_option '--emit chain' "$@" && ! has_option -o "$@" || to=()
}

gp()
{
	local to

	to_file "$@"
	run_tool "$GP" "${to[@]}" "$@"
}

gp_ok()
{
	gp "$@"
	assert_done
}

gp_start()
{
	local to

	to_file "$@"
	start_tool "$GP" "${to[@]}" "$@"
}

gp_wait()
{
	status=0
	wait "$GP_PID" || status=$?
	GP_PID=
}

gp_stop()
{
	kill -INT "$GP_PID"
	gp_wait
}

# ---- workloads ----

wl()
{
	local tag=$1 line=

	shift
	mkfifo "$T/$tag.go" "$T/$tag.ready"
	# Open for both directions, so that neither side waits for the other in open().
	exec {go_fd}<>"$T/$tag.go"
	WL_GO[$tag]=$go_fd
	"$1" -r 8 -w 9 "${@:2}" >"$T/$tag.out" 2>"$T/$tag.err" </dev/null \
		3>&- 4>&- 8>"$T/$tag.ready" 9<"$T/$tag.go" &
	WL_PID[$tag]=$!
	read -r -t "${SG_PATIENCE:-60}" line <"$T/$tag.ready" || fail "$tag never became ready"
	[[ $line == "ready "* ]] || fail "$tag: ready line is '$line'"
}

wl_pid()
{
	printf '%s\n' "${WL_PID[$1]}"
}

wl_go()
{
	printf x >&"${WL_GO[$1]}"
}

wl_wait()
{
	local rc=0

	wait "${WL_PID[$1]}" || rc=$?
	unset "WL_PID[$1]"
	[ $rc -eq 0 ] || fail "$1 exited with $rc: $(cat "$T/$1.err")"
}

# number NAME FILE: of the last line that a workload printed, NAME=number
number()
{
	local n

	n=$(tail -n 1 "$2" | tr ' ' '\n' | sed -n "s/^$1=//p")
	[ -n "$n" ] || fail "no $1= in the last line of $2: $(tail -n 1 "$2")"
	printf '%s\n' "$n"
}

# Every CPU has something to do, for whatever is about ticks: an idle one may have none.
busy()
{
	nice -n 19 "$W/spin" -j "$(getconf _NPROCESSORS_ONLN)" -t 200000 \
		>/dev/null 2>&1 </dev/null 3>&- 4>&- &
	OURS+=($!)
}

# ---- what the run said ----

# field FILTER: of the summary, e.g. .kept or .gates[0].opens
field()
{
	jq -r "$1" "$T/sum.json"
}

# is FILTER VALUE
is()
{
	local have

	have=$(field "$1")
	[ "$have" = "$2" ] || fail "$1 is $have, not $2"
}

# holds FILTER: jq's boolean about the summary
holds()
{
	[ "$(field "$1")" = true ] || fail "does not hold: $1"
}

# The same for several, in one run of jq: starting programs is what takes time on slow machines.
all_hold()
{
	local filters='' filter have

	for filter; do filters+="${filters:+, }($filter)"; done
	have=$(field "[$filters] | map(. == true) | index(false) // \"none\"")
	[ "$have" = none ] || {
		[ -n "$have" ] && shift "$have"
		fail "does not hold: $1"
	}
}

# What must hold for every run of any kind, however it ended.
assert_identity()
{
	local folded

	[ -s "$T/sum.json" ] || fail "no summary was written"
	# "late" is no damage: it happens when a CPU stands still for longer than records are held back.
	# shellcheck disable=SC2016 # jq's variable
	all_hold '.seen == .kept + .outside + .filtered + .lost' \
		'.lost == ([.lost_by[]] | add)' \
		'.runs == .seen + .idle + .elsewhere' \
		'[.seen, .kept, .outside, .filtered, .lost, .missed, .idle, .elsewhere] | all(. >= 0)' \
		'.kept as $kept | .gates | all(.opens <= .entries and .kept <= $kept and
			.recovered == ([.recovered_by[]] | add))' \
		'.ring | [.truncated, .oversized, .unknown] | all(. == 0)' \
		".exit == $status"
	# What was counted as kept is what was written.
	if [ -e "$T/out.folded" ]; then
		folded=$(samples '')
		[ -n "${WEIGHTED-}" ] || is .kept "$folded"
	fi
}

# Done, with sound accounting, and nothing lost.
assert_done()
{
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	is .lost 0
}

# Every opening was closed by its own return.
assert_balanced()
{
	local i=${1:-0}

	all_hold ".gates[$i].unbalanced == 0" ".gates[$i].recovered == 0" \
		".gates[$i].no_room == 0" ".gates[$i].forced == 0"
	assert_few_doubtful "$i"
}

# A sample that hits the gated function's very first or last instruction may miss it in the stack,
# and is doubtful with reason; a stale opening would make most samples after it doubtful.
assert_few_doubtful()
{
	local i=${1:-0}

	holds ".gates[$i].doubtful <= .gates[$i].kept / 500 + 1"
}

# samples ERE: how many are in stacks that match; all for an empty one
samples()
{
	awk -v re="$1" '$0 ~ re { n += $NF } END { print n + 0 }' "$T/out.folded"
}

samples_without()
{
	awk -v re="$1" '$0 !~ re { n += $NF } END { print n + 0 }' "$T/out.folded"
}

# A frame of exactly this name (an ERE); the comm in front is none.
frame()
{
	printf ';(%s)(;| [0-9]+$)' "$1"
}

# A tick that hits while a probe itself is at work: the gate has opened or closed a moment before,
# or will a moment later, and the user stack may be that of a breakpoint or of the copied
# instruction. Such samples are right on either side; there must be few.
AT_PROBE='asm_exc_(int3|debug)_\[k\]|;\[uprobes\][; ]|__x64_sys_u(ret)?probe_\[k\]'

# Lines that no probe is the reason of. Fails if more than a fifth is left out.
away_from_probes()
{
	local all at

	all=$(samples '')
	at=$(samples "$AT_PROBE")
	[ "$at" -le $((all / 5 + 3)) ] || fail "$at of $all samples hit a probe at work"
	grep -Ev "$AT_PROBE" "$T/out.folded" || true
}

# What the stacks of a process say that has just begun.
NOT_YET='\[truncated: (process not known yet|mappings changed|address in no mapping)\]'

# Not one kept sample has this frame.
assert_none()
{
	local bad

	bad=$(away_from_probes | grep -E "$(frame "$1")" | cut -c1-300 | head -n 5) || true
	[ -z "$bad" ] || fail "kept, with $1: $bad"
}

# first_and_last FILE FUNCTION: where it begins and its returns, as the last three digits of the address
first_and_last()
{
	objdump -d --disassemble="$2" "$1" | awk -v name="<$2>:" '
		$2 == name { begins = 1; next }
		begins || /[ \t]ret( |$)/ { at = $1; sub(/:$/, "", at); print substr(at, length(at) - 2) }
		{ begins = 0 }'
}

# assert_none_inside FILE FUNCTION: of a run with --outside, that gate and --samples $T/samples.json. No
# sample is from within a call. But a tick that was held back while a breakpoint was handled comes at the
# probed instruction itself: at the first one before its breakpoint, at the last one after it. Those are
# outside, as the probes see it, and known by their addresses.
assert_none_inside()
{
	local bad leaf=";$2(;[^;]*_[[]k])* [0-9]+\$" named at

	bad=$(away_from_probes | grep -E "$(frame "$2")" | grep -Ev "$leaf" | cut -c1-300 | head -n 5) || true
	[ -z "$bad" ] || fail "kept, with $2: $bad"
	named=$(away_from_probes | awk -v leaf="$leaf" '$0 ~ leaf { n += $NF } END { print n + 0 }')
	at=$(jq -r '.user_ips[0] // ""' "$T/samples.json" |
		grep -cE "($(first_and_last "$1" "$2" | paste -sd '|'))\$") || true
	[ "$named" -le "$at" ] || fail "$named samples end in $2, $at of them where its probes are: $(
		jq -r '.user_ips[0] // ""' "$T/samples.json" | sort | uniq -c | paste -sd ' ')"
}

# Every kept sample has this frame, and there are some.
assert_all()
{
	local bad

	bad=$(away_from_probes | grep -Ev "$(frame "$1")" | cut -c1-300 | head -n 5) || true
	[ -z "$bad" ] || fail "kept, without $1: $bad"
	assert_some "$1"
}

# The same for a function that burns one level below itself at once: at the first instruction of
# that callee a walk by frame pointers misses the function.
assert_nearly_all()
{
	local bad

	bad=$(away_from_probes | grep -Ev "$(frame "$1")" | awk '{ n += $NF } END { print n + 0 }')
	[ "$bad" -le $(($(samples '') / 100 + 1)) ] || fail "$bad samples without $1"
	assert_some "$1"
}

# At least N samples (1) have this frame.
assert_some()
{
	local n

	n=$(samples "$(frame "$1")")
	[ "$n" -ge "${2:-1}" ] || fail "$n samples with $1"
}

# within K N P [N0]: K of N samples agree with the share P, within five sigma of the binomial
# distribution; with N0, P was itself measured with so many samples.
within()
{
	awk -v k="$1" -v n="$2" -v p="$3" -v n0="${4:-0}" 'BEGIN {
		var = n * p * (1 - p)
		if (n0)
			var *= 1 + n / n0
		d = k - n * p
		exit !(d * d <= 25 * var + 1)
	}' || fail "$1 of $2 samples does not agree with a share of $3"
}

# The lines that the tool said on stderr must have this (an ERE).
assert_says()
{
	grep -qE -e "$1" "$T/err" || fail "stderr does not say: $1"
}

# Some virtual machines accept hardware breakpoints and never deliver one. Not from a subshell.
need_breakpoints()
{
	"$SG_BUILD/helpers/hwbreak" >/dev/null || skip "no hardware breakpoints"
}
