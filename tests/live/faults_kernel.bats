# SPDX-License-Identifier: BSD-2-Clause
# BESIDE: each run is judged by itself, and none by how long it takes
#
# The kernel refuses: system calls of a short run of each tool fail one after the other, as they would
# where memory, descriptors, counters or rights are short. WIDE=1 (make check-wide) takes four times as
# many.

load lib
load faults

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	command -v strace >/dev/null || skip "strace is not installed"
}

# calls TOOL CALL: how many of these a run makes, the command's not counted
calls()
{
	mkdir "$T/count"
	tool_in "$T/count" "$1"
	strace -qq -o "$T/trace" -e "trace=$2,capget" "${CMD[@]}" >/dev/null 2>&1 </dev/null 3>&- 4>&- || true
	rm -r "$T/count"
	grep -c "^$2(" "$T/trace" || fail "$1 makes no $2"
}

# refuse TOOL CALL ERROR K: a run in which the K-th such call fails; a line into $T/bad if it ends badly
refuse()
{
	local tool=$1 dir=$T/$1.$2.$3.$4 rc=0 bad

	mkdir "$dir"
	tool_in "$dir" "$tool"
	timeout 100 strace -qq -o "$dir/trace" -e "trace=$2" -e "inject=$2:error=$3:when=$4" \
		"${CMD[@]}" >"$dir/cmd" 2>"$dir/err" </dev/null || rc=$?
	# Runs differ a little in how many calls they make.
	grep -q INJECTED "$dir/trace" || return 0
	rm "$dir/trace"
	echo "$2 $3 $4 $rc $(tail -n 1 "$dir/err")" >>"$T/done"
	bad=$(judge "$dir" "$tool" $rc)
	case $rc.$tool in
	[04].gatedprof) # all that happened was seen
		jq -e '.gates[0].entries == 5' "$dir/sum.json" >/dev/null || bad+=" not every entry"
		;;
	[04].glitchrec)
		jq -e '.frames == 5' "$dir/sum.json" >/dev/null || bad+=" not every frame"
		;;
	*) ;;
	esac
	[ -z "$bad" ] || printf '%s %s %s: %s: %s\n' "$2" "$3" "$4" "$(paste -sd ' ' <<<"$bad")" \
		"$(tail -n 1 "$dir/err")" >>"$T/bad"
	rm -rf "$dir"
}

# each TOOL CALL FROM STEP ERROR...: every STEP-th call, with these errors in turn
each()
{
	local tool=$1 call=$2 at=$3 step=$4 n errors=("${@:5}")

	[ -n "${WIDE:-}" ] || [ "$call" = perf_event_open ] || step=$((step * 4))
	n=$(calls "$tool" "$call")
	# What libbpf asks the kernel at first is about features: a program that must do without global
	# functions takes minutes to verify.
	[ "$call" != bpf ] || at=$((at - 1 + $(grep -nE 'BPF_MAP_CREATE.*map_name="[^l]' "$T/trace" |
		head -n 1 | cut -d : -f 1)))
	: >"$T/done"
	: >"$T/bad"
	# The loader's come first: without them there is no program that could say anything. It begins
	# with a look at its capabilities.
	[ "$call" != mmap ] || at=$((at + $(sed '/^capget/,$d' "$T/trace" | grep -c ^mmap)))
	while [ "$at" -le "$n" ]; do
		several 3
		refuse "$tool" "$call" "${errors[$((at / step % ${#errors[@]}))]}" "$at" 3>&- 4>&- &
		at=$((at + step))
	done
	wait
	[ ! -s "$T/bad" ] || fail "$(cat "$T/bad")"
	[ -s "$T/done" ] || fail "no $call failed"
}

# (To ENOSPC from a BPF program's load libbpf answers with larger and larger logs.)

# said CALL ERROR CODE ERE: that is how it ends whenever this call fails with this error, but for what
# a run can do without, like being told of mappings by one way of several
said()
{
	local bad

	bad=$(awk -v call="$1" -v err="$2" '$1 == call && $2 == err' "$T/done")
	[ -n "$bad" ] || fail "no $1 failed with $2"
	bad=$(grep -vE "^$1 $2 [0-9]+ ($3 .*$4|0 )" <<<"$bad") || true
	[ -z "$bad" ] || fail "$bad"
}

@test "perf_event_open: each one, with each error" {
	local tool

	for tool in gatedprof overflowfilter glitchrec; do
		each $tool perf_event_open 1 1 EMFILE EACCES EBUSY ENOSPC ENOMEM
		said perf_event_open EMFILE 1 'Too many open files: raise the limit of open files \(ulimit -n\)'
		said perf_event_open EACCES 3 'CAP_PERFMON'
		said perf_event_open EBUSY 1 'Device or resource busy'
		said perf_event_open ENOMEM 1 '(Cannot allocate|not enough) memory'
	done
}

@test "bpf: the calls of a gatedprof run" {
	each gatedprof bpf 1 2 ENOMEM EMFILE EACCES EBUSY EPERM
}

@test "bpf: the calls of an overflowfilter run" {
	each overflowfilter bpf 1 4 EACCES EPERM ENOMEM EBUSY EMFILE
}

@test "bpf: the calls of a glitchrec run" {
	each glitchrec bpf 2 4 ENOMEM EBUSY EACCES EMFILE EPERM
}

@test "mmap: rings, maps and memory" {
	local tool

	for tool in gatedprof overflowfilter glitchrec; do
		each $tool mmap 1 1 ENOMEM
	done
}
