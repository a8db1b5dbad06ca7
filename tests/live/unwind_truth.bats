#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Whole stacks of programs as they are installed, without frame pointers: each is stopped at random
# moments under load, and what we have of its threads is compared, address by address, with what
# libdwfl finds. A thread that is stopped leaves the CPU: that is the sample.

load lib

STOPS=40

# truth_of PID SEED
truth_of()
{
	local numbers cases equal beyond unsampled

	gp_start -e context-switches -c 1 -m 1024 -p "$1" --samples "$T/samples"
	"$SG_BUILD/helpers/stack_truth" $STOPS "$2" "$1" >"$T/truth" 2>"$T/truth.err" ||
		fail "stack_truth: $(cat "$T/truth.err")"
	gp_stop
	# A server at full load leaves the CPU so often that rings may lose some.
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	python3 "$SG_ROOT/tests/helpers/stack_compare.py" "$T/samples" "$T/truth" >"$T/compared" ||
		fail "stack_compare"
	numbers=$(head -n 1 "$T/compared")
	read -r cases equal beyond unsampled <<<"$numbers"
	[ $((cases + unsampled)) -ge $STOPS ] && [ "$cases" -ge $((STOPS / 2)) ] ||
		fail "only $cases cases, and $unsampled without a sample"
	printf '%s %s\n' "$numbers" "$BATS_TEST_DESCRIPTION" >>"$BATS_FILE_TMPDIR/all"
	sed -n "s/^miss:/# $BATS_TEST_DESCRIPTION:/p" "$T/compared" | tee -a "$BATS_FILE_TMPDIR/misses"
	# One in twenty here; all together are judged at the end.
	[ $(((cases - equal - beyond) * 20)) -le "$cases" ] ||
		fail "of $cases stacks $equal are equal, $beyond beyond: $(sort "$T/compared" | head)"
}

# load_of SEED COMMAND...: runs it as the load
load_of()
{
	local pid

	# A session of its own, so that whatever it starts can be ended with it.
	setsid "${@:2}" >/dev/null 2>"$T/load.err" </dev/null 3>&- 4>&- &
	pid=$!
	OURS+=("$pid")
	truth_of "$pid" "$1"
	kill -0 "$pid" || fail "the load is gone: $(cat "$T/load.err")"
}

teardown()
{
	local pid

	for pid in "${OURS[@]}"; do
		kill -9 -- "-$pid" 2>/dev/null || true
	done
	live_teardown
}

teardown_file()
{
	[ -z "${PG_DATA-}" ] || rm -rf "$PG_DATA"
}

# A source that keeps a compiler busy.
big_source()
{
	awk 'BEGIN {
		for (i = 0; i < 4000; i++)
			printf "int f%d(int a, int *b) { int s = a; for (int i = 0; i < a; i++) " \
			       "{ s += b[i] * %d; if (s & %d) s ^= b[s & 7]; } return s; }\n", i, i, i % 64
	}' >"$T/big.c"
}

@test "sqlite3" {
	load_of 1 sqlite3 :memory: "with recursive n(i) as (select 1 union all select i + 1 from n)
		select count(*), max(hex(randomblob(20))) from n where i % 3"
}

@test "python3" {
	load_of 2 /usr/bin/python3 -c 'import json, re
while True:
    re.sub("a+b", "c", json.dumps({str(i): [i] * 3 for i in range(200)}))'
}

@test "node" {
	load_of 3 node -e 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) }
		for (;;) { f(22); JSON.parse(JSON.stringify([...Array(1000).keys()])) }'
}

@test "perl" {
	load_of 4 perl -e 'for (;;) { $a{$_++ % 1000} .= "ab"; join(",", sort keys %a) =~ s/1+,/x/gr }'
}

@test "openssl" {
	load_of 5 openssl speed -seconds 100 rsa2048
}

@test "bash" {
	load_of 6 bash -c 'f() { local i; for i in {1..50}; do x=${x/a*b/c}$i; done; x=${x: -20}; }
		while :; do f; done'
}

@test "xz" {
	load_of 7 bash -c "exec xz -9 -T2 -c </dev/zero"
}

@test "gzip" {
	load_of 8 gzip -9 -c /dev/urandom
}

@test "bzip2" {
	load_of 9 bash -c 'exec bzip2 -c </dev/urandom'
}

@test "zstd" {
	load_of 10 bash -c 'exec zstd -q -19 -c </dev/urandom'
}

@test "git" {
	head -c 30000000 /dev/urandom | base64 -w 60 >"$T/a"
	sort "$T/a" >"$T/b"
	load_of 11 git diff --no-index --minimal --stat "$T/a" "$T/b"
}

@test "cc1" {
	big_source
	load_of 12 "$(gcc -print-prog-name=cc1)" -quiet -O3 "$T/big.c" -o /dev/null
}

@test "clang" {
	big_source
	load_of 13 clang-14 -cc1 -O3 -emit-obj -o /dev/null "$T/big.c"
}

@test "gdb" {
	printf 'set $i = 0\nwhile 1\nset $i = $i + 1\nend\n' >"$T/commands"
	load_of 14 gdb -q -nx -batch -x "$T/commands"
}

@test "awk" {
	load_of 15 mawk 'BEGIN { for (;;) { x = x "ab"; gsub(/b+a/, "c", x); if (length(x) > 500) x = "" } }'
}

@test "sed" {
	load_of 16 bash -c 'exec sed -n "s/\(a*\)b/\1/p" < <(yes aaabaaab)'
}

@test "grep" {
	load_of 17 bash -c 'exec grep -E "(a|b)*c(d|e)+\1$" < <(yes ababababcdedea)'
}

@test "sort" {
	load_of 18 bash -c 'exec sort -u < <(base64 -w 30 /dev/urandom)'
}

@test "jq" {
	load_of 19 jq -n '[range(100000000) | tostring | length] | add'
}

@test "objdump" {
	load_of 20 objdump -d --no-show-raw-insn "$(gcc -print-prog-name=cc1)"
}

@test "tar" {
	load_of 21 bash -c 'exec tar -cf - $(yes /usr/share | head -n 200) > >(exec cat >/dev/null)'
}

@test "curl" {
	head -c 100000 /dev/urandom >"$T/file"
	load_of 22 curl -s "file://$T/file?[1-100000000]"
}

@test "ssh-keygen" {
	load_of 23 ssh-keygen -q -t rsa -b 16384 -N "" -f "$T/key"
}

@test "sha256sum" {
	load_of 24 sha256sum /dev/zero
}

@test "redis-server" {
	redis-server --port 0 --unixsocket "$T/redis" --save "" >/dev/null 2>&1 3>&- 4>&- &
	OURS+=($!)
	until redis-cli -s "$T/redis" ping >/dev/null 2>&1; do kill -0 "${OURS[0]}"; done
	redis-benchmark -s "$T/redis" -q -l -c 4 -t set,lrange,sadd >/dev/null 2>&1 3>&- 4>&- &
	OURS+=($!)
	truth_of "${OURS[0]}" 25
}

@test "nginx" {
	local worker=

	mkdir "$T/www" "$T/tmp"
	head -c 3000 /dev/urandom >"$T/www/file"
	cat >"$T/nginx.conf" <<-END
		daemon off; pid $T/nginx.pid; error_log $T/nginx.log;
		events { worker_connections 64; }
		http {
			access_log off; client_body_temp_path $T/tmp; proxy_temp_path $T/tmp;
			fastcgi_temp_path $T/tmp; uwsgi_temp_path $T/tmp; scgi_temp_path $T/tmp;
			server { listen unix:$T/http; root $T/www; gzip on; gzip_min_length 1;
				 gzip_types *; }
		}
	END
	chmod -R a+rX "$T/www"
	PATH=$PATH:/usr/sbin nginx -c "$T/nginx.conf" 2>/dev/null 3>&- 4>&- &
	OURS+=($!)
	until [ -S "$T/http" ] && worker=$(pgrep -P "${OURS[0]}"); do kill -0 "${OURS[0]}"; done
	curl -s --unix-socket "$T/http" --compressed "http://x/file?[1-100000000]" >/dev/null 2>&1 3>&- 4>&- &
	OURS+=($!)
	truth_of "$worker" 26
	kill -TERM "${OURS[0]}"
}

@test "postgres" {
	local pg backend=

	pg=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
	[ -n "$pg" ] || skip "no PostgreSQL"
	PG_DATA=$(mktemp -d /tmp/sgpg.XXXXXX)
	chown postgres: "$PG_DATA"
	as="setpriv --reuid postgres --regid postgres --init-groups --"
	(cd / && $as "$pg/initdb" -D "$PG_DATA" -A trust -N >/dev/null 2>&1) || fail "initdb"
	(cd / && $as "$pg/pg_ctl" -D "$PG_DATA" -w -l "$PG_DATA/log" \
		-o "-k $PG_DATA -c listen_addresses= -c fsync=off -c jit=off" start >/dev/null 2>&1 3>&- 4>&-) ||
		fail "the server does not start: $(cat "$PG_DATA/log")"
	"$pg/psql" -h "$PG_DATA" -U postgres -d postgres -qAt -c "select count(distinct md5((a.i * b.i)::text))
		from generate_series(1, 5000) a(i), generate_series(1, 10000) b(i) where a.i % 3 = 1 group by a.i % 7" \
		>/dev/null 2>&1 3>&- 4>&- &
	OURS+=($!)
	until backend=$(pgrep -f 'postgres: postgres postgres .*SELECT'); do kill -0 "${OURS[0]}"; done
	truth_of "$backend" 27
	(cd / && $as "$pg/pg_ctl" -D "$PG_DATA" -m immediate stop >/dev/null 2>&1)
	rm -rf "$PG_DATA"
}

@test "all of them: at least 99 in 100, of at least 25 programs" {
	local programs cases=0 good=0 n equal beyond name

	programs=$(wc -l <"$BATS_FILE_TMPDIR/all")
	while read -r n equal beyond _ name; do
		cases=$((cases + n))
		good=$((good + equal + beyond))
	done <"$BATS_FILE_TMPDIR/all"
	[ "$programs" -ge 25 ] || fail "only $programs programs"
	[ $((good * 100)) -ge $((cases * 99)) ] ||
		fail "$good of $cases: $(cat "$BATS_FILE_TMPDIR/misses")"
	# libdwfl itself knows the root of nearly all.
	[ "$(awk '{ n += $1; e += $2 } END { print (e * 100 >= n * 90) }' "$BATS_FILE_TMPDIR/all")" = 1 ]
}
