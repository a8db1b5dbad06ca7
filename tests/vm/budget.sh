#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# budget.sh [TOOL [NAME]]   on the kernel that runs: loads what variants.sh lists, by the tools
#                           themselves, and prints a line for each program that they load, tabs between:
#                           TOOL VARIANT PROGRAM INSNS|rejected
#                           TOOL and NAME are patterns of the shell, extended ones too.
#
# BUDGET_LIST=FILE   only these: lines "TOOL NAME"; a file without any is no limit
#
# What could not run is a line "TOOL VARIANT - REASON". As root, with everything built.
set -u
shopt -s extglob
cd "$(dirname "$0")/../.." || exit 1
E=$PWD/build/examples W=$PWD/build/workloads
only_tool=${1:-*} only_name=${2:-*}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
CGROUP=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
export W E CGROUP
# Most of the time of a run is waiting for the kernel to let go of probes.
jobs_at_once=4

# one NUMBER TOOL NAME WORDS...: into $work/NUMBER.rows. The words that variants.sh wrote for the shell
# go through eval, in a process of its own.
one()
{
	local number=$1 tool=$2 name=$3 prefix=() command status=0

	shift 3
	T=$work/$number
	mkdir "$T"
	maybe=
	while :; do
		case $1 in
		+pidns) prefix=(unshare --fork --pid --mount-proc) ;;
		+maybe) maybe=1 ;;
		INSNS_*=*) export "${1?}" ;;
		*) break ;;
		esac
		shift
	done
	command="build/$tool -q 1ms"
	[ "$tool" != glitchrec ] || command+=" -o '$T/out'"
	export T LD_PRELOAD=$PWD/build/vm/insns.so INSNS_LOG=$T/insns
	eval "${prefix[*]} $command $*" >"$T/stdout" 2>"$T/err" </dev/null || status=$?
	unset LD_PRELOAD
	{
		# 4: nothing matched. 3: this kernel can't do it.
		case $status in
		0 | 4) ;;
		3) [ -n "$maybe" ] || status=1 ;;
		*) ;;
		esac
		case $status in
		0 | 3 | 4) ;;
		*) printf '%s\t%s\t-\texit code %s: %s\n' "$tool" "$name" "$status" "$(tail -n 1 "$T/err")" ;;
		esac
		# Not libbpf's and our own trials whether the kernel has something. Of several programs with
		# one name (each gate has its own, each event) the second is NAME#2.
		[ ! -e "$T/insns" ] || awk -v OFS='\t' -v tool="$tool" -v name="$name" '
			$1 == "probe" || $1 ~ /^libbpf_/ { next }
			{
				n[$1]++
				print tool, name, $1 (n[$1] > 1 ? "#" n[$1] : ""), $2
			}' "$T/insns"
	} >"$T.rows"
	# At once, so that what is there says how far a run came that did not end.
	cat "$T.rows"
}

number=0 running=0
while read -r tool name words; do
	# shellcheck disable=SC2053
	[[ $tool == $only_tool && $name == $only_name ]] || continue
	[ ! -s "${BUDGET_LIST:-/dev/null}" ] || grep -qxF "$tool $name" "$BUDGET_LIST" || continue
	number=$((number + 1))
	if [ $running -ge "$jobs_at_once" ]; then
		wait -n
		running=$((running - 1))
	fi
	# The words as they are: eval in there takes them apart.
	(
		set -f
		# shellcheck disable=SC2086
		one $((100000 + number)) "$tool" "$name" $words
	) &
	running=$((running + 1))
done < <(bash tests/vm/variants.sh)
wait
