#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# combination.sh DIR COMPILER MODE LINKER LAYOUT
#
# Links one program out of DIR (where matrix_objects of names_matrix.bats has compiled it), strips
# it in each way that leaves its names to be found, and compares what names_at finds with what
# names_ref works out from the program before it was stripped. Prints one line a way:
#
#   COMPILER-MODE-LINKER-LAYOUT WAY ADDRESSES NAMED STUBS UNLABELLED OVERDRAWN JUMPS
#
# ADDRESSES were compared; NAMED of them have a name, STUBS the name of a stub. JUMPS instructions
# in stubs have the name that readelf gives to the relocation of the word that they read. What may differ, and
# is counted: UNLABELLED stubs, for which objdump has no label (the lazy halves that IBT splits off,
# those of IFUNCs, retpolines), and OVERDRAWN ones (lld: an IFUNC's symbol at its stub reaches over
# the others'). Any other difference is listed on stderr, and the exit code is 1.
set -eu
dir=$1 compiler=$2 mode=$3 linker=$4 layout=$5
combination=$compiler-$mode-$linker-$layout
objects=$dir/$compiler
work=$dir/$combination
mkdir -p "$work"

case $mode in
pie) flags='-pie' objects+=-pic ;;
nopie) flags='-no-pie' ;;
static) flags='-static -no-pie' ;;
static-pie) flags='-static-pie' objects+=-pic ;;
esac
case $layout in
separate) flags+=' -Wl,-z,separate-code' ;;
noseparate) flags+=' -Wl,-z,noseparate-code' ;;
rosegment) flags+=' -Wl,--rosegment' ;;
now) flags+=' -Wl,-z,now' ;;
ibtplt) flags+=' -Wl,-z,ibtplt' ;;
force-ibt) flags+=' -Wl,-z,force-ibt' ;;
retpolineplt) flags+=' -Wl,-z,retpolineplt' ;;
esac
# shellcheck disable=SC2086
"$compiler" $flags -fuse-ld="$linker" -Wl,--build-id=sha1 -o "$work/full" \
	"$objects.o" "$dir/labels.o" 2>"$work/link.err" || {
	sed "s/^/$combination: /" "$work/link.err" >&2
	exit 1
}

cd "$work"
readelf -SW full >sections
readelf -sW full >symbols 2>/dev/null
objdump -d -j .plt -j .plt.sec -j .plt.got -j .iplt full >labels 2>/dev/null || true
parts=(sections symbols labels)
"$dir/names_ref" addresses "$ADDRESSES" "${parts[@]}" >addresses
"$dir/names_ref" names "${parts[@]}" <addresses >expected
"$dir/names_ref" sections "${parts[@]}" <addresses >where
readelf -rW full >relocations
"$dir/names_ref" jumps relocations "${parts[@]}" >jumps
cut -d' ' -f1 jumps >jump-addresses
status=0

# compare WAY FILE [DEBUG_DIR]
compare()
{
	local way=$1

	shift
	"$dir/names_at" "$@" <jump-addresses | paste -d' ' jump-addresses - >found
	if ! cmp -s jumps found; then
		diff jumps found | sed "s/^/$combination $way: stub at /" >&2
		status=1
	fi
	"$dir/names_at" "$@" <addresses >found
	paste addresses expected found where | awk -v way="$combination $way" -v jumps="$(wc -l <jumps)" '
		{ n++ }
		$3 != "-" { named++ }
		$3 ~ /@plt$/ { stubs++ }
		$2 == $3 { next }
		$4 ~ /^\.i?plt/ && $3 ~ /@plt$/ && $2 == "-" { unlabelled++; next }
		$4 ~ /^\.i?plt/ && $3 ~ /@plt$/ && $2 !~ /@plt$/ { overdrawn++; next }
		{ print way ": 0x" $1 " is " $3 ", not " $2 ", in " $4 >"/dev/stderr"; bad = 1 }
		END {
			print way, n, named + 0, stubs + 0, unlabelled + 0, overdrawn + 0, jumps
			exit bad
		}' || status=1
}

compare full full

objcopy --only-keep-debug full debug
strip -o stripped full
objcopy --add-gnu-debuglink=debug stripped linked
mkdir -p .debug empty debugdir/.build-id
mv debug .debug/
compare debuglink "$PWD/linked" "$PWD/empty"

# the way that the name is made of the build-id is written down here once more on purpose
id=$(readelf -n full | sed -n 's/.*Build ID: //p')
mkdir -p "debugdir/.build-id/${id:0:2}"
ln -s "$PWD/.debug/debug" "debugdir/.build-id/${id:0:2}/${id:2}.debug"
compare build-id "$PWD/stripped" "$PWD/debugdir"

strip -g -o nodwarf full
objcopy --only-keep-debug nodwarf mini
xz -0 -f mini
objcopy --add-section .gnu_debugdata=mini.xz stripped with-mini
compare mini with-mini

# elfutils leaves other headers than binutils, and writes the link itself
eu-strip -f .debug/eu-debug -o eu-stripped full
compare eu-strip "$PWD/eu-stripped" "$PWD/empty"

objcopy --compress-debug-sections=zlib full compressed
compare compressed compressed
cd "$dir"
rm -rf "$work"
exit $status
