#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# fetch.sh DIR SERIES...   unpacks Debian's newest kernel of each series into DIR/SERIES
# fetch.sh DIR qemu        DIR/qemu/usr/bin/qemu-system-x86_64, of version 10
#
# What is there already is left alone. Nothing is installed, and the system's apt settings stay as they
# are: the mirror is the one that they name; other suites of it are read into a temporary directory.
# Exits 1 if anything could not be had, when all else is there.
set -u
[ $# -ge 2 ] || {
	echo "usage: fetch.sh DIR SERIES|qemu ..." >&2
	exit 2
}
mkdir -p "$1" && dir=$(realpath "$1") || exit 1
shift

wanted=()
for what; do [ -e "$dir/$what/.complete" ] || wanted+=("$what"); done
[ ${#wanted[@]} -gt 0 ] || exit 0

# A second run waits for the first one's downloads.
exec 9>"$dir/.lock"
flock 9
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work" "$dir"/.partial.*' EXIT
mkdir -p "$work"/lists/partial "$work"/cache/archives/partial "$work"/parts
: >"$work/log"

# apt's own format, not the shell's.
# shellcheck disable=SC2016
uris=$(apt-get indextargets --format '$(REPO_URI)' | sort -u)
main=$(grep -E '/debian/?$' <<<"$uris" | head -n 1)
security=$(grep -E '/debian-security/?$' <<<"$uris" | head -n 1)
[ -n "$main" ] || {
	echo "fetch: apt names no Debian mirror" >&2
	exit 1
}
option="[arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
for suite in bookworm-backports trixie-backports; do
	echo "deb $option $main $suite main"
done >"$work/list"
for suite in bullseye-security bookworm-security trixie-security; do
	echo "deb $option ${security:-${main%/}-security} $suite main"
done >>"$work/list"
apt=(-qq -o "Dir::Etc::sourcelist=$work/list" -o "Dir::Etc::sourceparts=$work/parts"
	-o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
# A suite that is gone makes this fail, and the others are there all the same.
apt-get "${apt[@]}" update >"$work/log" 2>&1 || cat "$work/log" >&2

# get WHAT PACKAGE...
get()
{
	local what=$1 partial=$dir/.partial.$1 deb

	shift
	rm -rf "$work/debs" "$partial"
	mkdir -p "$work/debs" "$partial"
	(cd "$work/debs" && apt-get "${apt[@]}" download "$@" >"$work/log" 2>&1) || return 1
	for deb in "$work"/debs/*.deb; do
		dpkg -x "$deb" "$partial" || return 1
	done
	: >"$partial/.complete"
	rm -rf "${dir:?}/$what"
	mv "$partial" "$dir/$what"
	du -bc "$work"/debs/*.deb |
		awk -v what="$what" 'END { printf "fetch: %s, %.0f MB\n", what, $1 / 1e6 }'
}

# The versions of a series, the newest first: an index may still name one that is gone from the pool.
versions()
{
	apt-cache "${apt[@]}" pkgnames "linux-image-$1." |
		sed -n "s/^linux-image-\(${1//./\\.}\.[0-9][^-]*\(-[0-9][0-9.a-z]*\)\?-cloud-amd64\)\$/\1/p" |
		sort -rV | head -n 9
}

get_kernel()
{
	local version packages

	for version in $(versions "$1"); do
		packages=("linux-image-$version")
		# From 6.19 on the package is an empty one that wants three others.
		if apt-cache "${apt[@]}" show "linux-image-$version" 2>/dev/null | grep -q linux-binary-; then
			packages=("linux-binary-$version" "linux-modules-$version" "linux-base-$version")
		fi
		get "$1" "${packages[@]}" && return
	done
	return 1
}

failed=0
for what in "${wanted[@]}"; do
	# Another run may have fetched it meanwhile.
	[ -e "$dir/$what/.complete" ] && continue
	if [ "$what" = qemu ]; then
		get qemu {qemu-system-x86,qemu-system-common,qemu-system-data,seabios}/bookworm-backports
	else
		get_kernel "$what"
	fi || {
		echo "fetch: $what can't be had from $main" >&2
		sed 's/^/fetch: /' "$work/log" >&2
		failed=1
	}
done
exit $failed
