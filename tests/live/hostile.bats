# SPDX-License-Identifier: BSD-2-Clause
# What somebody without privileges, in a container of their own, shows to a tool that root runs. The
# run ends, its output is well-formed, and nothing of it is what they wanted it to be.
# docs/security.md has the list.

load glitch

OF=$SG_BUILD/overflowfilter

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	live_teardown
	rm -rf "${SHARED-/nonexistent}" /tmp/perf-"${EVIL_PID-none}".map
}

# shared: a directory in which everybody may write
shared()
{
	SHARED=$(mktemp -d /tmp/hostile.XXXXXX)
	chmod 777 "$SHARED"
}

# starter COMMAND...: $T/start, which runs that with more arguments
starter()
{
	printf '#!/bin/bash\nexec %s "$@"\n' "${*@Q}" >"$T/start"
	chmod +x "$T/start"
}

# as_user COMMAND...: the same, without any privileges
as_user()
{
	starter setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
}

# Nothing that a terminal or a parser would take for something else.
assert_harmless()
{
	local bad

	for file in "$@"; do
		bad=$(LC_ALL=C tr -d '\n' <"$file" | LC_ALL=C tr -cd '\001-\037\177' | od -An -c | head -n 2)
		bad+=$(LC_ALL=C grep -aobP '\xc2[\x80-\x9f]' "$file" | head -n 2)
		[ -z "$bad" ] || fail "control bytes in $file: $bad"
	done
}

assert_folded()
{
	local bad

	[ -s "$1" ] || fail "$1 is empty"
	bad=$(LC_ALL=C grep -avnE '^[^;]+(;[^;]+)* [1-9][0-9]*$' "$1" | head -n 3) || true
	[ -z "$bad" ] || fail "not folded: $bad"
	assert_harmless "$1"
}

@test "names of threads, programs and files with lines, separators and escapes in them" {
	local evil

	shared
	evil=$SHARED/$'a;b 3\n\e[31m\e]0;own\a %s%n'
	install -m 755 "$W/hostile" "$evil"
	strip "$evil"
	gp_ok -F 499 --samples "$T/samples" -- "$evil" names
	assert_folded "$T/out.folded"
	assert_harmless "$T/err" "$T/samples" "$T/sum.json"
	[ "$(jq -s length "$T/samples")" -eq "$(field .kept)" ] || fail "samples that are none"
	# Each is there, under a name that has nothing left of it.
	assert_some burn_ns 0
	[ "$(LC_ALL=C cut -d ';' -f 1 "$T/out.folded" | sort -u | wc -l)" -ge 4 ] || fail "not all threads"
	[ "$(samples '^fake;')" -eq 0 ] || fail "a line of theirs"

	gp_ok -F 499 -- "$W/hostile" names
	assert_folded "$T/out.folded"
	run_tool "$OF" -o "$T/out.folded" -F 499 --filter "exe ~ \"$SHARED/*\"" --samples "$T/samples" -- "$evil" names
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_folded "$T/out.folded"
	assert_harmless "$T/err" "$T/samples"

	gr -F 499 -g syscall:prctl..syscall:exit --threshold 1ms --exec-shell \
		"printf '%s\n' \"\$SAMPLEGATE_GLITCH_COMM\" >>'$T/hook'; ls '$SHARED' >/dev/null" -- "$evil" names
	[ "$status" -eq 0 ] || fail "exit code $status"
	jq -s . "$T/gl/index.jsonl" >/dev/null || fail "the index is no JSON"
	[ -s "$T/hook" ] || fail "no command ran"
	assert_harmless "$T/gl/index.jsonl" "$T/cmd" "$T/err" "$T/hook"
	[ ! -e own ] && [ "$(find "$T/gl" -type f | grep -cvE '/([0-9]{6}|glitches|baseline)\.folded$|/index\.jsonl$')" -eq 0 ] ||
		fail "a file by their name"
}

@test "65,000 mappings" {
	local tool

	wl m "$W/hostile" maps
	for tool in gatedprof overflowfilter; do
		set -- -F 499
		[ $tool = gatedprof ] || set -- "$@" --filter 'comm == "hostile" && stack has "be_mapped"'
		run_tool "$SG_BUILD/$tool" -o "$T/out.folded" "$@" -- "$W/hostile" maps
		[ "$status" -eq 0 ] || fail "$tool: exit code $status"
		[ "$(number executable "$T/cmd")" -ge 30000 ] || fail "so many were not made"
		assert_identity
		assert_some be_mapped 10
	done
}

@test "compilers' files that are pipes, links, endless or somebody else's" {
	local kind secret=$T/secret

	shared
	echo "5000000000 ffffffff root_password" >"$secret"
	chmod 600 "$secret"
	for kind in fifo link sparse directory others; do
		install -m 755 "$W/spin" "$SHARED/spin"
		as_user "$SHARED/spin"
		wl t "$T/start" -t 100000
		EVIL_PID=$(wl_pid t)
		rm -rf "/tmp/perf-$EVIL_PID.map"
		case $kind in
		fifo) mkfifo -m 666 "/tmp/perf-$EVIL_PID.map" ;;
		link) ln -s "$secret" "/tmp/perf-$EVIL_PID.map" ;;
		sparse) truncate -s 8E "/tmp/perf-$EVIL_PID.map" 2>/dev/null ||
			truncate -s 1T "/tmp/perf-$EVIL_PID.map" ;;
		directory) mkdir "/tmp/perf-$EVIL_PID.map" ;;
		others) ln "$secret" "/tmp/perf-$EVIL_PID.map" ;;
		esac
		chown -h 65534 "/tmp/perf-$EVIL_PID.map" 2>/dev/null || true
		wl_go t
		gp_ok -F 499 -p "$EVIL_PID" 200ms
		assert_folded "$T/out.folded"
		assert_some spin
		! grep -q root_password "$T/out.folded" "$T/err" || fail "$kind: read for them"
		kill -9 "$EVIL_PID"
		wait "$EVIL_PID" 2>/dev/null || true
		rm -rf "/tmp/perf-$EVIL_PID.map" "$T"/t.*
	done
}

@test "a program whose file is replaced by a pipe, a link or a device while it runs" {
	local kind

	shared
	for kind in fifo link device; do
		install -m 755 "$W/duty" "$SHARED/prog"
		as_user "$SHARED/prog"
		wl t "$T/start" -n 100000
		rm "$SHARED/prog"
		case $kind in
		fifo) mkfifo -m 666 "$SHARED/prog" ;;
		link) ln -s /dev/zero "$SHARED/prog" ;;
		device) mknod -m 666 "$SHARED/prog" c 1 5 ;;
		esac
		wl_go t
		gp_ok -F 499 -p "$(wl_pid t)" 200ms
		assert_folded "$T/out.folded"
		# Its own file, which is still there behind its mappings.
		assert_some 'inside|outside'
		kill -9 "$(wl_pid t)"
		rm -rf "$SHARED/prog" "$T"/t.*
	done
}

@test "section headers, symbols and notes that lie, in a program that runs" {
	local at n=0

	shared
	# Its program headers are what it runs by; all else is the attacker's.
	for at in 40 58 60 62 shdrs; do
		cp "$W/duty" "$SHARED/prog"
		if [ $at = shdrs ]; then
			n=$(od -An -tu8 -j 40 -N 8 "$SHARED/prog" | tr -d ' ')
			head -c 4096 /dev/urandom | dd of="$SHARED/prog" bs=1 seek="$n" conv=notrunc status=none
		else
			printf '\377\377' | dd of="$SHARED/prog" bs=1 seek=$at conv=notrunc status=none
		fi
		as_user "$SHARED/prog" -n 10
		gp_ok -F 999 --inline -- "$T/start"
		assert_folded "$T/out.folded"
		gp -g "u:$SHARED/prog:inside" -- true
		case $status in
		0 | 1 | 4) ;;
		*) fail "exit code $status" ;;
		esac
		run_tool "$OF" -F 999 -o "$T/out.folded" --filter 'stack has "inside" || user' -- "$T/start"
		[ "$status" -eq 0 ] || fail "exit code $status"
	done
}

@test "a file that shrinks and grows while it is read" {
	shared
	install -m 755 "$W/duty" "$SHARED/prog"
	(
		while :; do
			truncate -s 5000 "$SHARED/lib.so" && cat "$W/libswapa.so" >"$SHARED/lib.so"
		done
	) 3>&- 4>&- &
	OURS+=($!)
	cp "$W/libswapa.so" "$SHARED/lib.so"
	for _ in 1 2 3 4 5; do
		# Whoever it says is there: the tool reads it at the start, and at a gate's name.
		gp -g "u:$SHARED/lib.so:swap_entry" -- true
		case $status in
		0 | 1 | 4) ;;
		*) fail "exit code $status" ;;
		esac
	done
}

@test "a root directory full of links to the host's files" {
	unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces"
	shared
	mkdir -p "$SHARED/root/tmp" "$SHARED/root/usr/lib/debug" "$SHARED/root/proc"
	cp "$W/../static/spin" "$SHARED/root/inroot-spin" 2>/dev/null ||
		gcc -O1 -g -fno-omit-frame-pointer -static -pthread -D_GNU_SOURCE -o "$SHARED/root/inroot-spin" tests/workloads/spin.c
	strip --only-keep-debug -o "$SHARED/secret.debug" "$SHARED/root/inroot-spin"
	strip "$SHARED/root/inroot-spin"
	objcopy --add-gnu-debuglink="$SHARED/secret.debug" "$SHARED/root/inroot-spin"
	chmod 600 "$SHARED/secret.debug"
	# What leads out of its root, where the host has such a file.
	ln -s "$SHARED/secret.debug" "$SHARED/root/secret.debug"
	ln -s "../../../../../../../../..$SHARED/secret.debug" "$SHARED/root/usr/lib/debug/secret.debug"
	ln -s "/proc/1/root$SHARED/secret.debug" "$SHARED/root/tmp/secret.debug"
	# The host is still mounted there, so that the shell's tools run; the links don't lead to it.
	mkdir "$SHARED/root/old"
	starter unshare --mount --pid --fork --kill-child bash -c "mount --bind '$SHARED/root' '$SHARED/root' &&
		cd '$SHARED/root' && pivot_root . old && exec /inroot-spin \"\$@\"" bash
	wl t "$T/start" -t 100000
	wl_go t
	gp_ok -F 499 300ms
	assert_folded "$T/out.folded"
	[ "$(samples '^inroot-spin;')" -gt 0 ] || fail "not sampled"
	[ "$(samples '^inroot-spin;.*;spin_leaf[; ]')" -eq 0 ] || fail "read through a link out of its root"
}
