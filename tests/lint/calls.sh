#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Calls that are not made: unbounded or unchecked ones anywhere, and in lib/ all that print to
# standard streams or end the process; assert() of what only a mistake of the caller can break is
# fine, and a function that is given a FILE * may write to it.
. "$(dirname "$0")/common"

anywhere='atoi|atol|atoll|atof|strtok|strtok_r|sprintf|vsprintf|strcpy|strcat|strncat|gets|system|popen|tmpnam|mktemp|alloca'
in_lib='printf|vprintf|puts|putchar|perror|psignal|warnx?|errx?|error|exit|abort'

# Called on "FILE:LINE:code" lines; a word before the name, or a dot or arrow, makes it another name.
forbidden()
{
	grep -E "(^|[^A-Za-z0-9_.>])($1)[ \t]*\("
}

# The check itself first.
cat >"$tmp/probe.c" <<'PROBE'
/* atoi(x) in a comment */
const char *text = "system(\"atoi(x)\")"; // strcpy(a, b)
int a = atoi (b);
int my_atoi(int b); int c = ops->system(d);
if (x) strcpy(y, z);
PROBE
got=$(awk -f tests/lint/strip.awk "$tmp/probe.c" | forbidden "$anywhere" | cut -d: -f2 | tr '\n' ' ')
[ "$got" = "3 5 " ] || complain "self-test: found lines '$got', not '3 5 '"

sources=(lib/*/*.[ch] tools/*.[ch])
[ ${#sources[@]} -gt 0 ] || complain "no source"
awk -f tests/lint/strip.awk "${sources[@]}" | forbidden "$anywhere" && failed=1
awk -f tests/lint/strip.awk lib/*/*.[ch] | forbidden "$in_lib" && failed=1
awk -f tests/lint/strip.awk lib/*/*.[ch] | grep -E '(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)' &&
	failed=1
exit $failed
