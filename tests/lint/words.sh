#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Work left for later is not left in the source.
. "$(dirname "$0")/common"

words='TO''DO|FIX''ME|X''XX'
grep -rnwE "$words" --include='*.[ch]' --include='*.cc' --include='*.sh' --include='*.bats' \
	--include='*.md' --include='*.8' --include=Makefile Makefile include bpf lib tools tests \
	bench docs man && failed=1
exit $failed
