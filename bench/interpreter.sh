#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# An interpreter's loop with a gate on it: one run with 1,000 calls of it (each of tens of thousands of
# operations), to the same run without. What stays inside of the loop must have no probe.
. "$(dirname "$0")/lib.bash"

# slowdown NAME FUNCTION INTERPRETER ARGS...: the program prints its own CPU time
slowdown()
{
	local name=$1 function=$2 alone gated
	shift 2

	command -v "$1" >/dev/null || {
		missing "$name" "$1 is not installed"
		return
	}
	alone=$("$@")
	gated=$("$GP" -q -o /dev/null -g "u:$(readlink -f "$(command -v "$1")"):$function" -- "$@" 2>"$T/err") ||
		[ $? -eq 4 ] || {
		missing "$name" "the gate can't be set: $(tail -n 1 "$T/err")"
		return
	}
	note "$name: $gated s, alone $alone s"
	value "$name" "$(calc "$gated / $alone" %.3f)" times
}

slowdown interpreter_python _PyEval_EvalFrameDefault /usr/bin/python3 -S -E -c '
import functools, time
def call(a, b):
    s = 0
    for i in range(10000): s += i
    return s
t = time.process_time()
list(map(functools.partial(call, 1), range(1000)))
print(time.process_time() - t)'
# shellcheck disable=SC2016 # PHP's variables
slowdown interpreter_php execute_ex /usr/bin/php -n -r '
function call($b) { $s = 0; for ($i = 0; $i < 50000; $i++) $s += $i; return $s; }
function now() { $u = getrusage(); return $u["ru_utime.tv_sec"] + $u["ru_stime.tv_sec"] + ($u["ru_utime.tv_usec"] + $u["ru_stime.tv_usec"]) / 1e6; }
$t = now();
array_map("call", range(1, 1000));
echo now() - $t, "\n";'
