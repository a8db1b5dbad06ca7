#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# setup.sh GROUP...          installs through apt what tests/packages.txt lists and dpkg lacks
# setup.sh --probe GROUP...  installs nothing: looks for the tools and headers, names the package
#                            of each that is missing, exits 1 if any is
set -u
cd "$(dirname "$0")/.." || exit 1
list=tests/packages.txt

die()
{
	echo "setup: $*" >&2
	exit 1
}

# Lines "PACKAGE PROBE" of the groups asked for, each package once.
wanted()
{
	awk -v groups=" $* " '!/^#/ && NF == 3 && (groups == " all " || index(groups, " " $1 " ")) &&
		!seen[$2]++ { print $2, $3 }' "$list"
}

header_found()
{
	echo "#include <$1>" | "${CC:-gcc}" -xc -E - >/dev/null 2>&1 && return
	# Some headers want others before them; being there is what counts here.
	[ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ]
}

probe()
{
	local package=$1 kind=${2%%:*} what=${2#?:}

	# What the user named instead of the default counts; it may be "ccache gcc".
	case $package in
	gcc) what=${CC:-gcc} ;;
	clang) what=${CLANG:-clang} ;;
	bpftool) what=${BPFTOOL:-bpftool} ;;
	*) ;;
	esac
	case $kind in
	h) header_found "$what" ;;
	f) [ -e "$what" ] ;;
	*) PATH=$PATH:/usr/sbin:/sbin command -v "${what%% *}" >/dev/null ;;
	esac
}

if [ "${1-}" = --probe ]; then
	shift
	missing=
	while read -r package how; do
		[ "$how" = - ] && continue
		probe "$package" "$how" && continue
		echo "missing: ${how#?:} (Debian package $package)" >&2
		missing="$missing $package"
	done < <(wanted "$@")
	[ -z "$missing" ] || die "install with 'make setup', or: apt-get install$missing"
	exit 0
fi

[ $# -gt 0 ] || die "which group? build, test, demo, bench, vm or all"
command -v dpkg-query >/dev/null || {
	echo "setup: no dpkg here, so nothing is installed; looking for the parts instead" >&2
	exec bash "$0" --probe "$@"
}

missing=()
while read -r package _; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
	[ "$status" = installed ] || missing+=("$package")
done < <(wanted "$@")
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null ||
		die "not root and no sudo; as root: apt-get install ${missing[*]}"
	as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
	-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
log=$(mktemp) || die "no temporary file"
trap 'rm -f "$log"' EXIT
if ! "${apt[@]}" update >"$log" 2>&1 ||
	! "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$log" 2>&1 </dev/null; then
	tail -n 20 "$log" >&2
	die "apt-get could not install: ${missing[*]}"
fi
