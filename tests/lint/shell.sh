#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every script passes shellcheck at the level of warnings.
. "$(dirname "$0")/common"

command -v shellcheck >/dev/null || skip "shellcheck is not installed"
scripts=(tests/run tests/*.sh tests/lint/*.sh tests/lint/common tests/mutations/run tests/vm/*.sh
	 bench/*.sh bench/run .ci/run)
shellcheck -s bash -S warning -e SC1007,SC1091,SC2154 "${scripts[@]}" || failed=1
exit $failed
