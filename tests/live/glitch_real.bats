# SPDX-License-Identifier: BSD-2-Clause
# Slow frames in programs as they are distributed.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	[ -z "${PG_DATA-}" ] || as_postgres "$PG/pg_ctl" -D "$PG_DATA" -m immediate stop >/dev/null 2>&1 || true
	live_teardown
}

as_postgres()
{
	setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
}

# A server of our own, which listens on a socket in its directory only.
start_postgres()
{
	PG=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
	[ -n "$PG" ] || skip "no PostgreSQL"
	PG_DATA=$(mktemp -d /tmp/sgpg.XXXXXX)
	chown postgres: "$PG_DATA"
	(cd / && as_postgres "$PG/initdb" -D "$PG_DATA" -A trust -N >/dev/null 2>&1) || fail "initdb"
	(cd / && as_postgres "$PG/pg_ctl" -D "$PG_DATA" -w -l "$PG_DATA/log" \
		-o "-k $PG_DATA -c listen_addresses= -c fsync=off" start >/dev/null 2>&1 3>&- 4>&-) ||
		fail "the server does not start: $(cat "$PG_DATA/log")"
}

sql()
{
	"$PG/psql" -h "$PG_DATA" -U postgres -d postgres -qAt -c "$1"
}

# slow_queries SPEC: three queries that sleep, among those of pgbench
slow_queries()
{
	"$PG/pgbench" -h "$PG_DATA" -U postgres -i -q postgres >/dev/null 2>&1
	gr_start -g "$1" --threshold 300ms -a
	"$PG/pgbench" -h "$PG_DATA" -U postgres -S -c 2 -t 200 postgres >/dev/null 2>&1 3>&- 4>&- &
	OURS+=($!)
	for _ in 1 2 3; do
		sql 'select pg_sleep(0.4)'
	done
	wait "${OURS[-1]}" || fail "pgbench failed"
	gp_stop
	gr_done
	holds '.frames > 400'
	[ "$(glitches 'select(.state == "ended" and .blocked.longest_ns > 300000000)' | wc -l)" -eq 3 ] ||
		fail "not three that slept: $(glitches '[.duration_ns, .blocked.longest_ns]')"
	[ "$(glitches 'select(.state == "ended" and .comm == "postgres") | .pid' | wc -l)" -ge 3 ]
}

@test "PostgreSQL: queries over a threshold, by USDT, under pgbench" {
	start_postgres
	slow_queries "U:$PG/postgres:postgresql:query__start..U:$PG/postgres:postgresql:query__done"
	rm -rf "$PG_DATA"
}

@test "PostgreSQL: the same by a function" {
	start_postgres
	slow_queries "u:$PG/postgres:PortalRun"
	[ -n "$(glitches 'select(.state == "ended") | .blocked.stack[] | select(. == "pg_sleep")' | head -n 1)" ] ||
		fail "pg_sleep is not where it slept: $(glitches .blocked.stack)"
	rm -rf "$PG_DATA"
}

@test "Python: an import that is slow, by USDT" {
	local python=/usr/bin/python3

	[ -x $python ] || skip "no /usr/bin/python3"
	readelf -n "$(readlink -f $python)" | grep -q import__find__load__start ||
		skip "python3 has no USDT probes"
	mkdir "$T/modules"
	echo 'import time; time.sleep(0.25)' >"$T/modules/sleepy.py"
	echo 'x = 1' >"$T/modules/quick.py"
	gr_ok -g "U:$python:python:import__find__load__start..U:$python:python:import__find__load__done" \
		--threshold 200ms -- $python -c "
import sys
sys.path.insert(0, '$T/modules')
import quick
import sleepy"
	is .glitches 1
	holds '.frames > 1'
	[ "$(glitches 'select(.comm == "python3" and .blocked.longest_ns > 240000000)' | wc -l)" -ge 1 ] ||
		fail "it did not sleep: $(glitches .blocked)"
}
