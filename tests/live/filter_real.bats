#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Filters on programs as a distribution ships them.
load lib
load filterlib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	live_teardown
	[ -z "${CGROUP-}" ] || rmdir "$CGROUP" 2>/dev/null || true
}

@test "openssl speed, by symbol, by file, and neither" {
	local lib

	lib=$(ldd "$(command -v openssl)" 2>/dev/null | awk '$1 == "libcrypto.so.3" { print $3 }')
	[ -n "$lib" ] || skip "openssl is not installed"
	split 'stack has "EVP_*"' -- openssl speed -seconds 1 -bytes 64 sha256
	split 'ip in DSO "libcrypto.so.3"' -- openssl speed -seconds 1 -bytes 16 -evp md5
	gp_ok -e cpu-clock -F 499 --filter 'user && ip in "EVP_DigestUpdate"' \
		-- openssl speed -seconds 3 -bytes 16 -evp md5
	[ "$(awk '{ sub(/ [0-9]+$/, ""); n = split($0, f, ";"); if (f[n] != "EVP_DigestUpdate") print }' \
		"$T/out.folded" | wc -l)" -eq 0 ] || fail "other leaves"
}

# redis COMMANDS...: starts a server on a socket of the test's, and $redis
redis()
{
	command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null ||
		skip "redis is not installed"
	redis-server --port 0 --unixsocket "$T/sock" --save '' --appendonly no --dir "$T" \
		>"$T/redis.log" 2>&1 3>&- 4>&- &
	redis=$!
	OURS+=("$redis")
	until redis-cli -s "$T/sock" ping >/dev/null 2>&1; do
		kill -0 "$redis" || fail "redis-server ended: $(cat "$T/redis.log")"
	done
}

@test "redis-server under redis-benchmark, by comm, symbol and cgroup" {
	local root bench=(redis-benchmark -s "$T/sock" -q -t set,get -n 60000 -c 8)

	redis
	gp_ok -a -e cpu-clock -F 499 --filter 'comm == "redis-server"' --samples "$T/samples" 2 \
		3< <("${bench[@]}" >/dev/null 2>&1; "${bench[@]}" >/dev/null 2>&1)
	holds '.kept > 20 and .filtered > 20'
	[ "$(jq .pid "$T/samples" | sort -u)" = "$redis" ] || fail "others"

	# the server was there before: the kernel knows its code, and that of the C library
	gp_start -p "$redis" -e cpu-clock -F 499 \
		--filter 'stack has "vfs_write*" || stack has "__x64_sys_write"' \
		-e cpu-clock -F 499 --filter '!(stack has "vfs_write*" || stack has "__x64_sys_write")'
	"${bench[@]}" >/dev/null 2>&1
	gp_stop
	assert_done
	holds '.events | all(.kept > 0 and .filtered > 0)'
	holds '.late < .seen / 2'

	root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$root" ] || skip "no cgroup v2"
	CGROUP=$root/samplegate-redis-$$
	mkdir "$CGROUP"
	echo "$redis" >"$CGROUP/cgroup.procs"
	gp_start -a -e cpu-clock -F 499 --filter "cgroup under \"/${CGROUP##*/}\" && user" \
		--samples "$T/samples"
	"${bench[@]}" >/dev/null 2>&1
	gp_stop
	assert_done
	holds '.kept > 0 and .filtered > 0'
	[ "$(jq .pid "$T/samples" | sort -u)" = "$redis" ] || fail "others"
	kill -9 "$redis"
	wait "$redis" 2>/dev/null || true
}
