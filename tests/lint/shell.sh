#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every script passes shellcheck at the level of warnings; and no assertion of a test is where the
# shell goes on when one fails: in front of "||" or "&&", or behind "if" or "!".
. "$(dirname "$0")/common"

command -v shellcheck >/dev/null || skip "shellcheck is not installed"
scripts=(tests/run tests/wide tests/*.sh tests/lint/*.sh tests/lint/common tests/mutations/run tests/vm/*.sh
	 bench/*.sh bench/run .ci/run)
shellcheck -s bash -S warning -e SC1007,SC1091,SC2154 "${scripts[@]}" || failed=1
asserts='(assert_[a-z_]+|[a-z]*_ok|is|holds|recovers|escape|every_[a-z]+|closed_afterwards|gr_done)'
LC_ALL=C grep -nE "^\s*((if|while|until|!) +$asserts( |\$)|$asserts( [^'\"|&]*('[^']*'|\"[^\"]*\")*)* *(\|\||&&) )" \
	tests/*/*.bats tests/*/*.bash && failed=1
exit $failed
