#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Global functions of bpf/ are GLOBAL_FN, so that the compiler knows no more of their results than the
# verifier does (bpf/compat.bpf.h). What users' objects are linked to is not: that must be no weak one.
set -u
cd "$(dirname "$0")/../.." || exit 1

# found FILES...
found()
{
	grep -nE '^__noinline ' "$@" | grep -vE '_api\.bpf\.c:.* samplegate_[a-z_]+\('
}

sample=$(mktemp) || exit 1
trap 'rm -f "$sample"' EXIT
echo '__noinline int f(__u32 x)' >"$sample"
found /dev/null "$sample" >/dev/null || { echo "the check itself finds nothing" && exit 1; }
if found bpf/*.bpf.[ch]; then
	echo "global functions that the compiler looks into: use GLOBAL_FN"
	exit 1
fi
