#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every source says its licence in its first lines, the one that LICENSE gives to its directory.
. "$(dirname "$0")/common"

check()
{
	local want=$1 file

	shift
	for file; do
		head -n 3 "$file" | grep -qF "SPDX-License-Identifier: $want" ||
			complain "$file does not say 'SPDX-License-Identifier: $want'"
	done
}

check "GPL-2.0-only OR BSD-2-Clause" include/*.h bpf/*.[ch] bench/*.bpf.c tests/live/*.bpf.c
ours=()
for file in bench/* tests/*/*; do
	case $file in *.bpf.c | *.md) ;; *.[chS] | *.sh | *.cc | *.bats | *.awk | *.py) ours+=("$file") ;; *) ;; esac
done
check BSD-2-Clause lib/*/*.[ch] tools/*.[ch] tests/*.sh tests/run tests/wide tests/mutations/run .ci/run Makefile "${ours[@]}"
exit $failed
