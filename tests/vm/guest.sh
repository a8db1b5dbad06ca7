#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# guest.sh OUT budget|tests   what run.sh has a guest do. Into the directory OUT, which is the host's:
#     release      of the kernel
#     results      tests: of those in OUT/list; and tests.log
#     budget.tsv   budget: what budget.sh measures; and budget.err
#     dmesg        all of it
set -u
out=$1
cd "$(dirname "$0")/../.." || exit 1
uname -r >"$out/release"
# The console is slow.
dmesg -n 3
case $2 in
budget) BUDGET_LIST=$out/variants bash tests/vm/budget.sh >"$out/budget.tsv" 2>"$out/budget.err" ;;
tests)
	BATS_TEST_TIMEOUT=300 SG_PATIENCE=250 TEST_TIMEOUT=1000 \
		TEST_LIST=$out/list TEST_RESULTS=$out/results \
		bash tests/run live vm >"$out/tests.log" 2>&1
	;;
*) exit 2 ;;
esac
dmesg >"$out/dmesg"
