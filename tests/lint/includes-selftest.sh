#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The include check itself: a tree whose every line is right passes, and each forbidden include,
# put into that tree alone, is the one complaint.
. "$(dirname "$0")/common"
checker=$PWD/tests/lint/includes.awk
cd "$tmp" || exit 1
mkdir -p include bpf lib tools tests/unit tests/fuzz
printf '# layers\nlow same\nmid\nhigh*\n' >order

fresh()
{
	printf '#include <linux/types.h>\n#include "other.h"\n' >include/sample.h
	: >include/other.h
	printf '#include "vmlinux.h"\n#include <bpf/bpf_helpers.h>\n#include "sample.h"\n#include "gate.bpf.h"\n' \
		>bpf/tool.bpf.c
	: >bpf/gate.bpf.h
	printf '#include <stdio.h>\n#include "sample.h"\n' >lib/low.h
	printf '#include "low.h"\n' >lib/same.h
	printf '#include <sys/stat.h>\n#include <gelf.h>\n#include "mid.h"\n#include "low.h"\n' >lib/mid.c
	: >lib/mid.h
	printf '#  include <bpf/libbpf.h>\n#include "mid.h"\n' >lib/high.c
	: >lib/high.h
	printf '#include <argp.h>\n#include <bpf/libbpf.h>\n#include "high.h"\n#include "tool.skel.h"\n' \
		>tools/tool.c
	printf '#include <cmocka.h>\n#include "mid.h"\n#include "helper.h"\n' >tests/unit/test_mid.c
	: >tests/unit/helper.h
	printf '#include "sample.h"\n#include "low.h"\n' >tests/fuzz/fuzz_low.c
}

run()
{
	awk -f "$checker" order include/*.h bpf/*.[ch] lib/*.[ch] tools/*.c tests/*/*.[ch]
}

fresh
run || { echo "the good tree was rejected"; exit 1; }

tried=0
while read -r file include; do
	fresh
	lines=$(($(wc -l <"$file") + 1))
	printf '#include %s\n' "$include" >>"$file"
	out=$(run)
	status=$?
	tried=$((tried + 1))
	[ $status -eq 1 ] || complain "accepted: $include in $file"
	[ "$(printf '%s\n' "$out" | wc -l)" -eq 1 ] || complain "not one complaint: $out"
	[[ $out == "$file:$lines: "* ]] || complain "the wrong place: $out"
done <<'BAD'
include/sample.h <stdio.h>
include/sample.h "low.h"
include/sample.h "gate.bpf.h"
include/sample.h <bpf/bpf_helpers.h>
bpf/tool.bpf.c <stdio.h>
bpf/tool.bpf.c <linux/bpf.h>
bpf/tool.bpf.c <bpf/libbpf.h>
bpf/tool.bpf.c "low.h"
bpf/gate.bpf.h "missing.bpf.h"
lib/low.h <argp.h>
lib/low.h <curses.h>
lib/low.h "mid.h"
lib/mid.c "high.h"
lib/mid.c <bpf/libbpf.h>
lib/mid.c <bpf/bpf.h>
lib/mid.c "tool.skel.h"
lib/mid.c "mid.c"
lib/mid.c "gate.bpf.h"
lib/mid.c "vmlinux.h"
lib/mid.c "../include/sample.h"
lib/mid.c "nowhere.h"
lib/mid.c <cmocka.h>
lib/high.c <argp.h>
lib/high.c "high.skel.h"
lib/mid.c HEADER
tools/tool.c "other.skel.h"
tools/tool.c "gate.bpf.h"
tools/tool.c <gelf.h>
tests/unit/test_mid.c <argp.h>
tests/unit/test_mid.c "tool.skel.h"
tests/unit/test_mid.c "mid.c"
tests/fuzz/fuzz_low.c "helper.h"
tests/fuzz/fuzz_low.c <bpf/libbpf.h>
BAD
[ $tried -eq 33 ] || complain "tried $tried includes, not 33"

# A module that the order does not know.
fresh
printf "\n" >lib/stray.h
out=$(run) && complain "accepted a module without a place in the order"
[[ $out == *"module 'stray'"* ]] || complain "did not name the module: $out"
exit $failed
