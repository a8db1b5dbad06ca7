#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run.sh          the tests and the verifier's budget on other kernels: what 'make check-vm' does
# run.sh budget   measures only, and writes verifier-budget.tsv: what 'make verifier-budget' does
# run.sh tests    without the verifier's budget
#
# KERNELS="6.1 7.3"   these series (see WIDE)       KERNEL_DIR=DIR   this unpacked kernel instead
# VM_CACHE=DIR        kernels and QEMU         VM_OPTIONAL=1    a kernel that can't be had is left out
# VM_TIMEOUT=S        seconds that a guest may take (1200)
# WIDE=1              all of them, and not only the oldest and the newest; and the whole budget of each
#
# Everything is built before; tests/README.md has the rest. The closing line is "N passed, N failed,
# N skipped".
#
# Two guests run at a time: one with two CPUs that tests, which it seldom uses both, and one with one that
# measures; when nothing is left of one kind, two of the other.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
here=tests/vm
what=${1:-budget tests}
table=$here/verifier-budget.tsv
every="5.10 6.1 6.12 6.18 7.3"
# The oldest has the narrowest limits and the newest what is new; a machine's own kernel lies between. The
# others are for 'make check-wide', and the table has all.
ends="${every%% *} ${every##* }"
[ -z "${WIDE:-}" ] && [ "$what" != budget ] || ends=$every
kernels=${KERNELS:-$ends}
cache=${VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/samplegate/vm}
limit=${VM_TIMEOUT:-1200}
work=$(mktemp -d) || exit 1
# Only what this shell has started. Words on purpose.
# shellcheck disable=SC2046
trap 'kill $(jobs -pr) 2>/dev/null && wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

die()
{
	echo "check-vm: $*" >&2
	echo
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

[ "$(id -u)" -eq 0 ] || die "the host's files are shared with the guests as root: run it as root"

# ---- what is there ----

declare -A dirs=() missing=()
if [ -n "${KERNEL_DIR:-}" ]; then
	[ -d "$KERNEL_DIR" ] || die "no directory $KERNEL_DIR"
	for image in "$KERNEL_DIR"/{usr/,}lib/modules/*/; do
		[ -d "$image" ] || continue
		series=$(basename "$image" | cut -d. -f1,2)
		dirs[${series%%-*}]=$KERNEL_DIR
		kernels=${series%%-*}
	done
	[ ${#dirs[@]} -gt 0 ] || die "$KERNEL_DIR holds no lib/modules/VERSION"
fi
wanted=(qemu)
for kernel in $kernels; do [ -n "${dirs[$kernel]:-}" ] || wanted+=("$kernel"); done
# It says what it could not have; here it is seen by what is there.
bash $here/fetch.sh "$cache" "${wanted[@]}" || :
[ -e "$cache/qemu/.complete" ] ||
	echo "check-vm: QEMU 10 can't be had: the installed one does it, more slowly"
[ ! -e "$cache/qemu/.complete" ] || export BOOT_QEMU=$cache/qemu/usr/bin/qemu-system-x86_64
for kernel in $kernels; do
	[ -z "${dirs[$kernel]:-}" ] || continue
	[ -e "$cache/$kernel/.complete" ] || missing[$kernel]=1
	dirs[$kernel]=$cache/$kernel
done

# Which test cases a series runs: for TEST_LIST. A line that matches nothing is a mistake in it.
list_for()
{
	local kernel=$1 series file ere

	while read -r series file ere; do
		case $series in '#'* | '') continue ;; *) ;; esac
		[ -e "tests/$file" ] && sed -n 's/^@test "\(.*\)" {$/\1/p' "tests/$file" |
			grep -qE -e "${ere:-.}" || die "tests/vm/tests: '$file $ere' matches no test case"
		case ,$series, in *,all,* | *,"$kernel",*) echo "$file $ere" ;; *) ;; esac
	done <$here/tests
}

# ---- one guest ----

# judge_PART OUT SERIES: lines pass|fail|skip, GROUP/FILE: TEST CASE, reason.
judge_tests()
{
	local out=$1 kernel=$2 status file name reason

	[ -e "$out/results" ] || {
		printf 'fail\ttests\tthey did not come to their end\n'
		return
	}
	while IFS=$'\t' read -r status file name reason; do
		if [ "$status" = skip ] && ! may_skip "$kernel" "$file: $name"; then
			status=fail
			reason="skipped ($reason), and tests/vm/skips does not have it for $kernel"
		fi
		printf '%s\t%s: %s\t%s\n' "$status" "$file" "$name" "$reason"
	done <"$out/results"
}

# Of a series that nothing is known of, tests/allowed-skips alone decides.
may_skip()
{
	[[ " $every " == *" $1 "* ]] || return 0
	awk -v series="$1" -v name="$2" '
		/^#/ { next }
		{
			at = index($0, " ::: ")
			line = substr($0, 1, at - 1)
		}
		at && (line == series " " name || line == "all " name) { found = 1 }
		END { exit !found }' $here/skips
}

# The lines "TOOL VARIANT" that SERIES measures, where it does not measure all: the newest kernel's
# programs are the oldest's in another form, and each of them is loaded once, in its heaviest variant.
some_of()
{
	local column

	[ -z "${WIDE:-}${KERNELS:-}" ] && [ "$what" != budget ] && [ "$1" = "${every##* }" ] || return 0
	column=$(awk -v series="$1" '$1 == "tool" { for (i = 4; i <= NF; i++) if ($i == series) print i }' "$table")
	[ -z "$column" ] || sort -t $'\t' -k "$column,${column}nr" "$table" |
		awk -v column="$column" -f $here/heaviest.awk
}

# The rows of the table about what OUT was to measure.
rows_for()
{
	if [ -s "$1/variants" ]; then
		awk -F '\t' 'FILENAME == ARGV[1] { some[$1]; next }
			/^#/ || $1 == "tool" || ($1 " " $2) in some' "$1/variants" "$table"
	else
		cat "$table"
	fi
}

judge_budget()
{
	if [ -s "$1/budget.tsv" ]; then
		[ -e "$table" ] || : >"$table"
		rows_for "$1" >"$1/table"
		awk -v series="$2" -f $here/budget.awk "$1/table" "$1/budget.tsv" | tee "$1/notes" |
			awk -F '\t' -v OFS='\t' '$1 != "note" {
				print $1, "verifier: " $2 " " $3, $4
			}'
	else
		printf 'fail\tverifier\tnothing was measured\n'
	fi
}

# A guest that warned, while this part ran.
judge_dmesg()
{
	local bad

	bad=$(grep -E 'WARNING:|BUG:|Oops|general protection|Kernel panic|INFO: task .* blocked' \
		"$1/dmesg" | grep -vEf <(grep -vE '^(#|$)' $here/harmless) | head -n 1)
	if [ ! -s "$1/dmesg" ]; then
		printf 'fail\tkernel log (%s)\tit was not told\n' "$2"
	elif [ -n "$bad" ]; then
		printf 'fail\tkernel log (%s)\t%s\n' "$2" "$bad"
	else
		printf 'pass\tkernel log (%s)\t\n' "$2"
	fi
}

# One guest: KERNEL budget|tests
guest()
{
	local kernel=$1 part=$2 out=$work/$1/$2 status begin=$SECONDS cpus=2 boot= try hung=

	trap '[ -z "$boot" ] || kill "$boot"; exit 143' TERM
	[ "$part" = tests ] || cpus=1
	mkdir -p "$out"
	if [ "$part" = tests ]; then
		list_for "$kernel" >"$out/list"
	else
		some_of "$kernel" >"$out/variants"
	fi
	for try in 1 2; do
		status=0
		bash $here/boot.sh -c $cpus -m 2G -t "$limit" -w "$out" -o "$out/console" "${dirs[$kernel]}" -- \
			bash $here/guest.sh "$out" "$part" >"$out/log" 2>&1 </dev/null &
		boot=$!
		wait "$boot" || status=$?
		boot=
		# It gave no sign of life any more. Emulation did that once in some forty boots.
		[ $status -eq 124 ] && [ $try -eq 1 ] || break
		hung="it was killed after $limit s, and booted once more; its last words: $(tail -n 1 "$out/log")"
		echo "check-vm: $(name_of "$kernel"): $part: $hung"
		rm -f "$out/results" "$out/budget.tsv" "$out/dmesg"
	done
	{
		[ -z "$hung" ] || printf 'skip\ta guest that hung (%s)\t%s\n' "$part" "${hung//$'\t'/ }"
		if [ $status -eq 0 ]; then
			printf 'pass\tboots and ends (%s)\t\n' "$part"
		else
			printf 'fail\tboots and ends (%s)\texit status %s\n' "$part" $status
		fi
		"judge_$part" "$out" "$kernel"
		judge_dmesg "$out" "$part"
	} >"$out/cases"
	echo $status >"$out/status"
	echo "check-vm: $(name_of "$kernel"): $part: $((SECONDS - begin)) s"
}

name_of()
{
	cat "$work/$1"/*/release 2>/dev/null | head -n 1 | grep . || echo "$1"
}

for kernel in $kernels; do
	mkdir -p "$work/$kernel/fetch"
	[ -n "${missing[$kernel]:-}" ] || continue
	if [ "${VM_OPTIONAL:-}" = 1 ]; then
		printf 'skip\tkernel %s\tits package can not be had any more\n' "$kernel"
	else
		printf 'fail\tkernel %s\tits package can not be had (VM_OPTIONAL=1 leaves it out)\n' \
			"$kernel"
	fi >"$work/$kernel/fetch/cases"
done
list=$(list_for any) || {
	echo "$list"
	exit 1
}

# Two at a time: whoever has tested measures next, if anything is left to measure, and the other way round.
declare -A queue=() kind_of=()
for part in $what; do
	for kernel in $kernels; do
		[ -n "${missing[$kernel]:-}" ] || queue[$part]+="$kernel "
	done
done
running=0

# begin PART...: the next guest of the first of these parts that has one left
begin()
{
	local part

	for part; do
		[ -n "${queue[$part]:-}" ] || continue
		guest "${queue[$part]%% *}" "$part" &
		queue[$part]=${queue[$part]#* }
		kind_of[$!]=$part
		running=$((running + 1))
		return
	done
}

# after PART: the lane of a guest that did this goes on with the other
after()
{
	if [ "$1" = tests ]; then
		begin budget tests
	else
		begin tests budget
	fi
}

after budget
after tests
while [ $running -gt 0 ]; do
	wait -n -p ended
	running=$((running - 1))
	after "${kind_of[$ended]}"
done

# ---- what came out ----

explain()
{
	local dir=$work/$1 part

	echo
	echo "=== failed on $(name_of "$1")"
	cat "$dir"/*/cases |
		awk -F '\t' '$1 == "fail" { printf "--- %s%s\n", $2, $3 == "" ? "" : ": " $3 }'
	for part in budget tests; do
		[ "$(cat "$dir/$part/status" 2>/dev/null || echo 0)" = 0 ] ||
			tail -n 80 "$dir/$part/log" | sed 's/^/    /'
		! grep -qs '^fail.kernel log' "$dir/$part/cases" ||
			tail -n 60 "$dir/$part/dmesg" | sed 's/^/    /'
	done
	[ ! -e "$dir/tests/tests.log" ] ||
		sed -n '/^=== failed in/,$p' "$dir/tests/tests.log" | head -n -2 | tail -n 200 |
		sed 's/^/    /'
}

for kernel in $kernels; do
	! grep -qs '^fail' "$work/$kernel"/*/cases || [ "$what" = budget ] || explain "$kernel"
	[ ! -e "$work/$kernel/budget/notes" ] ||
		awk -F '\t' -v kernel="$kernel" '$1 == "note" {
			printf "check-vm: note: %s: %s %s: %s\n", kernel, $2, $3, $4
		}' "$work/$kernel/budget/notes"
done

if [ "$what" = budget ]; then
	failed=0
	for kernel in $kernels; do
		# A table with a program that could not be loaded would be a lie.
		! grep -E '^fail.(boots|kernel)' "$work/$kernel"/*/cases || failed=1
		! grep -P '\t-\t' "$work/$kernel/budget/budget.tsv" || failed=1
	done
	[ $failed = 0 ] || die "nothing is written"
	# Words on purpose.
	# shellcheck disable=SC2086
	bash $here/table.sh "$table" "$work" $every >"$work/table" && cat "$work/table" >"$table" ||
		die "the table could not be made"
	echo "check-vm: $table is written: see what changed in it"
	exit 0
fi

echo
for kernel in $kernels; do
	cat "$work/$kernel"/*/cases >"$work/cases"
	awk -F '\t' -v kernel="$(name_of "$kernel")" '{ n[$1]++ } END {
		printf "%s: %d passed, %d failed, %d skipped\n", kernel, n["pass"], n["fail"], n["skip"]
	}' "$work/cases"
	awk -F '\t' '$1 == "skip" { printf "  %s: %s\n", $2, $3 }' "$work/cases"
done
echo
cat "$work"/*/*/cases | awk -F '\t' '{ n[$1]++ } END {
	printf "%d passed, %d failed, %d skipped\n", n["pass"], n["fail"], n["skip"]
	exit n["fail"] > 0 || n["pass"] + n["skip"] == 0
}'
