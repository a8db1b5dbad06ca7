#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The include check itself: a tree whose every line is right passes, and each forbidden include,
# put into that tree alone, is the one complaint.
. "$(dirname "$0")/common"
checker=$PWD/tests/lint/includes.awk
cd "$tmp" || exit 1
mkdir -p include bpf lib/low lib/mid lib/high tools tests/unit tests/fuzz
cat >folders <<'TABLE'
# comment
low  | | |
mid  | low | libelf zlib | own
high | mid | libbpf |
TABLE

fresh()
{
	rm -f lib/*.[ch]
	printf '#include <linux/types.h>\n#include "other.h"\n' >include/sample.h
	: >include/other.h
	printf '#include "vmlinux.h"\n#include <bpf/bpf_helpers.h>\n#include "sample.h"\n#include "gate.bpf.h"\n' \
		>bpf/tool.bpf.c
	: >bpf/gate.bpf.h
	printf '#include <stdio.h>\n#include "sample.h"\n' >lib/low/low.h
	printf '#include "low/low.h"\n' >lib/low/same.h
	printf '#include <sys/stat.h>\n#include <gelf.h>\n#include "mid/mid.h"\n#include "mid/own.h"\n#include "low/low.h"\n' \
		>lib/mid/mid.c
	: >lib/mid/mid.h
	: >lib/mid/own.h
	printf '#  include <bpf/libbpf.h>\n#include "mid/mid.h"\n' >lib/high/high.c
	: >lib/high/high.h
	printf '#include <argp.h>\n#include <bpf/libbpf.h>\n#include "high/high.h"\n#include "low/low.h"\n#include "tool.skel.h"\n' \
		>tools/tool.c
	printf '#include <cmocka.h>\n#include "mid/mid.h"\n#include "mid/own.h"\n#include "helper.h"\n' \
		>tests/unit/test_mid.c
	: >tests/unit/helper.h
	printf '#include "sample.h"\n#include "low/low.h"\n' >tests/fuzz/fuzz_low.c
}

run()
{
	awk -f "$checker" folders include/*.h bpf/*.[ch] lib/*.[ch] lib/*/*.[ch] tools/*.c tests/*/*.[ch]
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
include/sample.h "low/low.h"
include/sample.h "gate.bpf.h"
include/sample.h <bpf/bpf_helpers.h>
bpf/tool.bpf.c <stdio.h>
bpf/tool.bpf.c <linux/bpf.h>
bpf/tool.bpf.c <bpf/libbpf.h>
bpf/tool.bpf.c "low/low.h"
bpf/gate.bpf.h "missing.bpf.h"
lib/low/low.h <argp.h>
lib/low/low.h <curses.h>
lib/low/low.h <gelf.h>
lib/low/low.h "mid/mid.h"
lib/low/low.h "high/high.h"
lib/mid/mid.c "high/high.h"
lib/mid/mid.c <bpf/libbpf.h>
lib/mid/mid.c <bpf/bpf.h>
lib/mid/mid.c <capstone/capstone.h>
lib/mid/mid.c "tool.skel.h"
lib/mid/mid.c "mid/mid.c"
lib/mid/mid.c "mid.h"
lib/mid/mid.c "low.h"
lib/mid/mid.c "gate.bpf.h"
lib/mid/mid.c "vmlinux.h"
lib/mid/mid.c "../include/sample.h"
lib/mid/mid.c "../low/low.h"
lib/mid/mid.c "lib/low/low.h"
lib/mid/mid.c "low/nowhere.h"
lib/mid/mid.c "nowhere/low.h"
lib/mid/mid.c "nowhere.h"
lib/mid/mid.c <cmocka.h>
lib/mid/own.h "high/high.h"
lib/high/high.c <argp.h>
lib/high/high.c "high.skel.h"
lib/high/high.c "low/low.h"
lib/high/high.c "mid/own.h"
lib/mid/mid.c HEADER
tools/tool.c "mid/own.h"
tools/tool.c "other.skel.h"
tools/tool.c "gate.bpf.h"
tools/tool.c "low.h"
tools/tool.c <gelf.h>
tests/unit/test_mid.c <argp.h>
tests/unit/test_mid.c "tool.skel.h"
tests/unit/test_mid.c "mid/mid.c"
tests/unit/test_mid.c "mid.h"
tests/fuzz/fuzz_low.c "helper.h"
tests/fuzz/fuzz_low.c <bpf/libbpf.h>
BAD
[ $tried -eq 48 ] || complain "tried $tried includes, not 48"

# A folder that the table does not know, and a file in none.
fresh
mkdir lib/stray
printf '\n' >lib/stray/stray.h
out=$(run) && complain "accepted a folder that is not in the table"
[[ $out == *"'lib/stray/' is not in"* ]] || complain "did not name the folder: $out"
rm -r lib/stray
printf '\n' >lib/stray.h
out=$(run) && complain "accepted a file outside of the folders"
[[ $out == *"lib/stray.h:1: "* ]] || complain "did not name the file: $out"

# A private header that is gone must leave the table too.
fresh
rm lib/mid/own.h
sed -i '/own/d' lib/mid/mid.c tests/unit/test_mid.c
out=$(run) && complain "accepted a private header that is not there"
[[ $out == *"lib/mid/ has no own.h"* ]] || complain "did not name the header: $out"
exit $failed
