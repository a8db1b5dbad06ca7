# SPDX-License-Identifier: BSD-2-Clause
# BESIDE: which names there are, and not how often
#
# Names of code addresses, over compilers, kinds of program, linkers, layouts and ways to strip:
# every one must be what names_ref works out from the program before it was stripped.
bats_require_minimum_version 1.5.0

ADDRESSES=10000
export ADDRESSES

setup_file()
{
	local compiler

	cd "$SG_ROOT" || return 1
	export M=$BATS_FILE_TMPDIR
	gcc -std=gnu11 -O2 -D_GNU_SOURCE -Ilib -o "$M/names_at" tests/names/names_at.c \
		"$SG_BUILD/libsamplegate.a" -lz -llzma -liberty
	gcc -std=gnu11 -O2 -D_GNU_SOURCE -o "$M/names_ref" tests/names/names_ref.c
	gcc -c -o "$M/labels.o" tests/names/labels.S
	for compiler in gcc clang g++; do
		case $compiler in
		g++) lang=c++ ;;
		*) lang=c ;;
		esac
		"$compiler" -x $lang -O1 -g -ffunction-sections -fcf-protection=full -fno-pie \
			-c -o "$M/$compiler.o" tests/names/program.c
		"$compiler" -x $lang -O1 -g -ffunction-sections -fcf-protection=full -fPIE \
			-c -o "$M/$compiler-pic.o" tests/names/program.c
	done
}

has_linker()
{
	command -v "ld.$1" >/dev/null
}

# MODE LINKER LAYOUT, one a line. gold knows neither static-pie nor -z separate-code.
combinations()
{
	local mode linker layout

	for mode in pie nopie static static-pie; do
		for linker in bfd lld; do
			has_linker $linker || continue
			for layout in separate noseparate; do
				echo "$mode $linker $layout"
			done
		done
		has_linker gold && [ $mode != static-pie ] && printf "$mode gold %s\n" plain rosegment
	done
	for mode in pie nopie; do
		for linker in bfd gold lld; do
			has_linker $linker && echo "$mode $linker now"
		done
		echo "$mode bfd ibtplt"
		has_linker lld && printf "$mode lld %s\n" force-ibt retpolineplt
	done
}

# Runs them all, two at a time; the lines that they print are in $M/COMPILER.
run_compiler()
{
	local compiler=$1 expected

	expected=$(combinations | wc -l)
	[ "$expected" -ge 14 ]
	combinations | xargs -P 2 -L 1 bash "$SG_ROOT/tests/names/combination.sh" "$M" "$compiler" \
		>"$M/lines-$compiler" 2>"$M/err-$compiler" || {
		head -n 40 "$M/err-$compiler"
		return 1
	}
	# six ways each, and each compared what it should
	[ "$(wc -l <"$M/lines-$compiler")" -eq $((6 * expected)) ]
	awk -v n="$ADDRESSES" '
		$3 != n { print "too few: " $0; bad = 1 }
		$4 * 4 < n { print "hardly anything has a name: " $0; bad = 1 }
		$8 < 4 { print "hardly any stubs: " $0; bad = 1 }
		$5 == 0 { print "no stubs: " $0; bad = 1 }
		$1 in first && first[$1] != $4 " " $5 { print "differs by way: " $0; bad = 1 }
		{ first[$1] = $4 " " $5; sum += $3; jumps += $8; unlabelled += $6; overdrawn += $7 }
		END {
			printf "# %d addresses and %d jumps of stubs; %d in stubs that objdump does not label, %d in overdrawn ones\n", \
				sum, jumps, unlabelled, overdrawn
			exit bad
		}' "$M/lines-$compiler" | tee "$M/sum-$compiler"
	cat "$M/sum-$compiler" >&3
	[ "${PIPESTATUS[0]}" -eq 0 ]
}

@test "gcc: every address has the name that it should have" {
	run_compiler gcc
}

@test "clang: every address has the name that it should have" {
	run_compiler clang
}

@test "g++: every address has the name that it should have" {
	run_compiler g++
}

# What is let through is where it is known to be, and nowhere else. (lld has stubs for the IFUNC
# that the program has itself, wherever it is called from; the others have them in .plt.)
@test "stubs without labels are those of IFUNCs, IBT and retpolines" {
	cat "$M"/lines-* >"$M/lines"
	[ -s "$M/lines" ]
	awk '
		$1 ~ /-static-pie-|-static-/ { next }
		$1 ~ /-lld-(separate|noseparate|now)$/ && $7 == 0 { next }
		$1 ~ /-(ibtplt|force-ibt|retpolineplt)$/ { if ($6 == 0) { print; bad = 1 } next }
		$6 || $7 { print; bad = 1 }
		END { exit bad }' "$M/lines"
}
