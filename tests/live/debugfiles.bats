#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The names of a stripped program are in its debug file, wherever that is: gates, frames, filters and
# stacks find them there by one lookup, and nothing that does not belong to the program.

load lib
load glitch

OF=${OVERFLOWFILTER:-$SG_BUILD/overflowfilter}
NEST=$SG_BUILD/workloads/nest

teardown()
{
	live_teardown
}

# build_id FILE
build_id()
{
	readelf -n "$1" | sed -n 's/.*Build ID: //p'
}

# stripped DIR [FROM]: a stripped nest in DIR, and $T/nest.debug
stripped()
{
	export DEBUGINFOD_CACHE_PATH=$T/no-cache
	mkdir -p "$1"
	strip -o "$1/prog" "${2:-$NEST}"
	objcopy --only-keep-debug "${2:-$NEST}" "$T/nest.debug"
	P=$1/prog
}

# in_cache FILE: as debuginfod clients leave it
in_cache()
{
	export DEBUGINFOD_CACHE_PATH=$T/cache
	mkdir -p "$T/cache/$(build_id "$P")"
	cp "$1" "$T/cache/$(build_id "$P")/debuginfo"
}

# 17 times five calls deep, which are 85 entries; and the function is on the stacks by its name.
opens()
{
	gp_ok -F 499 "$@"
	all_hold '.gates[0].opens == 17' '.gates[0].entries == 85' '.gates[0].unbalanced == 0' \
		'.gates[0].recovered == 0' '.kept > 10' '.outside > 10'
	[ "$(samples ';recurse[; ]')" -ge $(($(field .kept) * 9 / 10)) ] || fail "without the name"
	[ "$(samples ';after[; ]')" -eq 0 ] || fail "of another function"
}

refused()
{
	gp -g "u:$P:recurse" -- "$P"
	[ "$status" -eq 1 ] || fail "exit code $status"
	grep -q "no function 'recurse' in .*stripped" "$T/err" || fail "says: $(cat "$T/err")"
	[ ! -s "$T/cmd" ] || fail "it ran"
}

@test "debug file: by name, next to the program and in .debug" {
	stripped "$T/d"
	(cd "$T" && objcopy --add-gnu-debuglink=nest.debug "$P")
	refused
	cp "$T/nest.debug" "$T/d/"
	opens -g "u:$P:recurse" -- "$P"
	mkdir "$T/d/.debug"
	mv "$T/d/nest.debug" "$T/d/.debug/"
	opens -g u::recurse -- "$P"
	# A command's name as it is typed, and through a link.
	ln -s "$P" "$T/link"
	opens -g "u:$T/link:recurse" -- "$T/link"
}

@test "debug file: in debuginfod's cache; -p, -a and a pair of instructions" {
	stripped "$T/d"
	refused
	in_cache "$T/nest.debug"
	opens -g "u:$P:recurse" -- "$P"
	wl n "$P"
	gp_start -F 499 -g u::recurse -p "$(wl_pid n)"
	wl_go n
	wl_wait n
	gp_wait
	all_hold '.gates[0].opens == 17' '.gates[0].entries == 85' '.kept > 10'
	wl m "$P"
	gp_start -a -F 499 -g "u:$P:bottom..u:$P:after"
	wl_go m
	wl_wait m
	gp_stop
	all_hold '.gates[0].opens == 17' '.kept > 10'
}

@test "debug file: a frame of glitchrec" {
	stripped "$T/d"
	in_cache "$T/nest.debug"
	gr -g "u:$P:recurse" --threshold 10s -- "$P"
	[ "$status" -eq 4 ] || fail "exit code $status"
	is .frames 17
}

@test "debug file: terms about code, and a gate in a filter" {
	local term

	stripped "$T/d"
	for term in 'stack has "recurse"' 'ip in "burn_ms" || ip in "burn_ns" || ip in "burn"'; do
		run_tool "$OF" -o "$T/out.folded" -e cpu-clock -F 499 --filter "$term" -- "$P"
		[ "$status" -eq 4 ] || fail "$term: exit code $status without the file"
	done
	in_cache "$T/nest.debug"
	for term in 'stack has "recurse"' 'ip in "burn_ms" || ip in "burn_ns" || ip in "burn"'; do
		run_tool "$OF" -o "$T/out.folded" -e cpu-clock -F 499 --filter "$term" -- "$P"
		[ "$status" -eq 0 ] || fail "$term: exit code $status"
		holds '.kept > 10 and .filtered > 0'
	done
	run_tool "$OF" -o "$T/out.folded" -e cpu-clock -F 499 --filter "inside \"u:$P:recurse\"" -- "$P"
	[ "$status" -eq 0 ] || fail "inside: exit code $status"
	is '.gates[0].opens' 17
	holds '.kept > 10 and .filtered > 10'
}

# What is refused must not even be nearest: a probe at another program's address breaks this one.
@test "debug file: another program's is refused, whatever it is called" {
	stripped "$T/d"
	objcopy --only-keep-debug "$W/spin" "$T/other.debug"
	in_cache "$T/other.debug"
	refused
	# A wrong checksum, and no build-id to go by.
	strip -R .note.gnu.build-id -o "$P" "$NEST"
	(cd "$T" && objcopy --add-gnu-debuglink=nest.debug "$P")
	objcopy -R .note.gnu.build-id "$T/nest.debug" "$T/d/nest.debug"
	echo >>"$T/d/nest.debug"
	refused
	cp "$T/nest.debug" "$T/d/nest.debug"
	opens -g "u:$P:recurse" -- "$P"
}

@test "debug file: links, pipes and what can't be read are passed over" {
	stripped "$T/d"
	(cd "$T" && objcopy --add-gnu-debuglink=nest.debug "$P")
	ln -s "$T/nest.debug" "$T/d/nest.debug"
	refused
	rm "$T/d/nest.debug"
	mkfifo "$T/d/nest.debug"
	refused
	rm "$T/d/nest.debug"
	head -c 4096 /dev/urandom >"$T/d/nest.debug"
	refused
}

# root: a directory with a program of its own, without libraries, and its debug symbols
root()
{
	local id

	gcc -static -O1 -g -fno-omit-frame-pointer -fno-inline -pthread -Wl,--build-id -o "$T/full" \
		tests/workloads/nest.c || fail "no static program"
	stripped "$T/root/bin" "$T/full"
	id=$(build_id "$P")
	if [ "$1" = id ]; then
		mkdir -p "$T/root/usr/lib/debug/.build-id/${id:0:2}"
		mv "$T/nest.debug" "$T/root/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
	else
		mkdir -p "$T/root/usr/lib/debug/bin"
		mv "$T/nest.debug" "$T/root/usr/lib/debug/bin/"
		(cd "$T/root/usr/lib/debug/bin" && objcopy --add-gnu-debuglink=nest.debug "$P")
	fi
	refused # it is not this machine's
}

@test "debug file: below the target's root, by build-id and by name" {
	local how

	for how in id name; do
		rm -rf "$T/root"
		root "$how"
		# Another root in the same namespace, and one of its own.
		printf '#!/bin/sh\nexec chroot %s /bin/prog "$@"\n' "$T/root" >"$T/chrooted"
		printf '#!/bin/sh\nexec unshare --mount --root=%s /bin/prog "$@"\n' "$T/root" >"$T/unshared"
		chmod +x "$T/chrooted" "$T/unshared"
		wl "c$how" "$T/chrooted"
		gp_start -F 499 -g u::recurse -p "$(wl_pid "c$how")"
		wl_go "c$how"
		wl_wait "c$how"
		gp_wait
		all_hold '.gates[0].opens == 17' '.gates[0].entries == 85'
		wl "u$how" "$T/unshared"
		gp_start -F 499 -g u:/bin/prog:recurse -p "$(wl_pid "u$how")"
		wl_go "u$how"
		wl_wait "u$how"
		gp_wait
		all_hold '.gates[0].opens == 17' '.gates[0].entries == 85'
		[ "$(samples ';recurse[; ]')" -gt 5 ] || fail "frames without the name"
	done
}
