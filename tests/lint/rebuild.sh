#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# An edited header rebuilds what includes it, and only then is anything rebuilt.
. "$(dirname "$0")/common"
make=${MAKE:-make}


"$make" -s all >/dev/null 2>&1 || complain "make all fails"
"$make" -q all 2>/dev/null
"$make" -n V=1 all 2>/dev/null | grep -E ' -c ' && complain "make all is not up to date after make all"

# Which headers are included by a source that is built, directly: the least that must rebuild.
for header in include/*.h lib/*/*.h bpf/*.h; do
	case $header in lib/*) name=${header#lib/} ;; *) name=${header##*/} ;; esac
	users=(lib/*/*.c tools/*.c bpf/*.bpf.c)
	[ ${#users[@]} -gt 0 ] || continue
	for user in $(grep -lE "^#[ \t]*include \"$name\"" "${users[@]}"); do
		[ "$user" = lib/base/capstone_x86_only.c ] && continue
		"$make" -n V=1 -W "$header" all 2>/dev/null | grep -qE -- " -c $user " ||
			complain "$user is not compiled again when $header changes"
	done
done
exit $failed
