# SPDX-License-Identifier: BSD-2-Clause
# Programs as a distribution ships them: stripped, optimized, without frame pointers.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# The folded output is what flame graph tools take, it is sorted, and it has every kept sample.
assert_folded()
{
	if grep -vE '^[^;]+(;[^;]+)* [0-9]+$' "$T/out.folded"; then
		fail "lines that are no folded stacks"
	fi
	if grep -P '[\x00-\x1f\x7f]' "$T/out.folded"; then
		fail "control characters"
	fi
	LC_ALL=C sort -c "$T/out.folded" || fail "not sorted"
	[ -z "$(sed 's/ [0-9]*$//' "$T/out.folded" | LC_ALL=C uniq -d)" ] || fail "a stack twice"
	is .kept "$(samples '')"
	holds '.kept > 0'
}

# Unlike our own programs, these may leave a probed function by jumps into its cold parts.
assert_gate()
{
	is '.gates[0].unbalanced' 0
	is '.gates[0].no_room' 0
	is '.gates[0].forced' 0
	is '.gates[0].recovered' 0
	holds '.gates[0].entries > 0'
}

# The library FILE that the program PROG has mapped at its start.
library()
{
	ldd "$1" | awk -v file="$2" '$1 == file { print $3 }'
}

exports()
{
	nm -D --defined-only "$1" 2>/dev/null | grep -qE " T $2(@.*)?\$"
}

@test "sqlite3, gated on sqlite3_step of its library" {
	local lib sql

	command -v sqlite3 || skip "sqlite3 is not installed"
	lib=$(library "$(command -v sqlite3)" libsqlite3.so.0)
	[ -n "$lib" ] || skip "sqlite3 has no shared library"
	sql='with recursive c(x) as (values(1) union all select x + 1 from c where x < 1500000)
		select sum(x % 7), count(*) from c;'
	gp_ok -F 997 -g "u:$lib:sqlite3_step" -- sqlite3 :memory: "$sql"
	[ "$(cat "$T/cmd")" = "$(sqlite3 :memory: "$sql")" ] || fail "says: $(cat "$T/cmd")"
	assert_folded
	assert_gate
	[ "$(samples_without '^sqlite3;')" -eq 0 ]
	# One call that makes the row, one that says there is no other; what the shell asks comes on top.
	holds '.gates[0].entries >= 2'
	holds '.kept > .outside'
}

@test "sqlite3, the library by its short name" {
	command -v sqlite3 || skip "sqlite3 is not installed"
	[ -n "$(library "$(command -v sqlite3)" libsqlite3.so.0)" ] ||
		skip "sqlite3 has no shared library"
	gp_ok -F 997 -g u:libsqlite3:sqlite3_step -- sqlite3 :memory: \
		'with recursive c(x) as (values(1) union all select x + 1 from c where x < 500000)
		select count(*) from c;'
	[ "$(cat "$T/cmd")" = 500000 ]
	assert_folded
	assert_gate
}

@test "python3, gated on PyLong_FromString" {
	local python=/usr/bin/python3 code

	[ -x $python ] || skip "no /usr/bin/python3"
	exports $python PyLong_FromString || skip "python3 does not export PyLong_FromString"
	# 20 numbers of 20,000 digits take milliseconds each; the sum is outside.
	code='import sys
sys.set_int_max_str_digits(0)
n = 0
for i in range(20):
    n += int("7" * 20000 + str(i)) % 9973
    n += sum(x * x % 7 for x in range(50000))
print(n)'
	gp_ok -F 997 -g "u:$python:PyLong_FromString" -- $python -c "$code"
	[ "$(cat "$T/cmd")" = "$($python -c "$code")" ] || fail "says: $(cat "$T/cmd")"
	assert_folded
	assert_gate
	holds '.gates[0].entries >= 20'
	holds '.outside > 0'
	[ "$(samples_without '^python3[^;]*;')" -eq 0 ]
}

@test "python3, gated on libc's malloc: many calls, all of them return" {
	local python=/usr/bin/python3 lib

	[ -x $python ] || skip "no /usr/bin/python3"
	lib=$(library $python libc.so.6)
	exports "$lib" malloc || skip "no libc with a malloc"
	gp -F 997 -g "u:$lib:malloc" -- $python -c 'print(len([bytearray(4000) for i in range(30000)]))'
	[ "$(cat "$T/cmd")" = 30000 ]
	# So short a function may be hit by no tick, which says exit code 4.
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is .lost 0
	assert_gate
	holds '.gates[0].entries >= 30000'
}

@test "openssl speed, gated on EVP_EncryptUpdate" {
	local lib

	command -v openssl || skip "openssl is not installed"
	lib=$(library "$(command -v openssl)" libcrypto.so.3)
	exports "$lib" EVP_EncryptUpdate || skip "openssl is not installed with libcrypto.so.3"
	gp_ok -F 997 -g "u:$lib:EVP_EncryptUpdate" -- \
		openssl speed -seconds 1 -bytes 16384 -evp aes-128-cbc
	grep -qi 'aes-128-cbc' "$T/cmd" || fail "says: $(cat "$T/cmd")"
	assert_folded
	assert_gate
	holds '.gates[0].entries >= 1000'
	holds '.kept > 20'
	[ "$(samples_without '^openssl;')" -eq 0 ]
}
