# SPDX-License-Identifier: BSD-2-Clause
# Frames have the right names, or none: whatever became of the file that they are in.

load lib
load lib2

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# odd MODE: a run of that workload
odd()
{
	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
	gp_ok -F 999 "${@:2}" -- "$W/oddcalls" "$1"
	[ "$(cat "$T/cmd")" = "mode=$1" ] || fail "says: $(cat "$T/cmd")"
}

# mostly ERE: nearly all of the samples have it (some hit the program's beginning and end)
mostly()
{
	local all n

	all=$(samples '') n=$(samples "$1")
	[ "$n" -ge $((all * 9 / 10)) ] && [ "$n" -gt 50 ] || fail "$n of $all samples have $1"
}

# burners COMM: the functions of the swapped library that the samples of that comm have
burners()
{
	grep "^$1;" "$T/out.folded" | grep -oE ';(alpha|bravo)_burn[; ]' | tr -d '; ' | sort -u | tr '\n' ' '
}

# vdso_nameless: how many samples have an address of the vdso for which that has no symbol: it keeps
# those of what it exports, and some kernels' have functions beside that. At the same place each time.
vdso_nameless()
{
	setarch -R python3 - "$T/vdso.so" <<-'E' >"$T/vdso.at"
		import sys
		for line in open("/proc/self/maps"):
		    if "[vdso]" in line:
		        begin, end = (int(at, 16) for at in line.split()[0].split("-"))
		        memory = open("/proc/self/mem", "rb")
		        memory.seek(begin)
		        open(sys.argv[1], "wb").write(memory.read(end - begin))
		        print(begin, end)
	E
	readelf -Ws --dyn-syms "$T/vdso.so" | awk '$4 == "FUNC" { print "0x" $2, $3 }' >"$T/vdso.symbols"
	python3 - "$T/vdso.at" "$T/vdso.symbols" "$T/samples.json" <<-'E'
		import json, sys
		begin, end = map(int, open(sys.argv[1]).read().split())
		symbols = [(int(at, 16), int(size)) for at, size in (line.split() for line in open(sys.argv[2]))]
		def nameless(sample):
		    # Of callers it is the call that counts.
		    ips = [int(ip, 16) - (i > 0) for i, ip in enumerate(sample["user_ips"])]
		    return any(begin <= ip < end and not any(at <= ip - begin < at + size for at, size in symbols)
		               for ip in ips)
		print(sum(nameless(json.loads(line)) for line in open(sys.argv[3])))
	E
}

@test "the kernel's own library" {
	local nameless

	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
	# The command inherits it, and nothing runs before the command.
	printf '#!/bin/sh\nexec setarch -R "%s" "$@"\n' "$GP" >"$T/same_place"
	chmod +x "$T/same_place"
	GP=$T/same_place gp_ok -F 999 --samples "$T/samples.json" -- "$W/oddcalls" vdso
	mostly ';__vdso_clock_gettime[; ]'
	nameless=$(vdso_nameless)
	[ "$(samples ';\[vdso\][; ]')" -eq "$nameless" ] || fail "not $nameless frames without a name"
}

@test "stubs in front of functions of other libraries" {
	odd plt
	assert_some tiny@plt 20
	assert_some tiny 20
	holds '[.unsymbolized[] | select(.module | endswith("/oddcalls")) | .frames] | add // 0 | . <= 3'
}

@test "calls of another library without a stub" {
	odd noplt
	assert_some tiny_direct 20
	[ "$(samples '@plt[; ]')" -le 2 ] || fail "a stub that was not called"
	[ "$(samples ';main;(call_direct|tiny_direct)')" -ge $(($(samples '') * 9 / 10)) ] || fail "missing names"
}

@test "a function that jumped to another has no frame, and lends none its name" {
	odd tail
	mostly ';main;burn_plain;burn_ns;'
	[ "$(samples ';tail_caller[; ]')" -le 2 ] || fail "a frame that is gone"
}

@test "a function that was chosen when the program was linked" {
	odd ifunc
	mostly ';call_picked;burn_plain;'
	[ "$(samples ';(pick|picked)[; ]')" -le 3 ] || fail "named after what chose it"
}

@test "where a signal handler returns to is no call's end" {
	odd signal
	# The first where libc has no symbol for it.
	mostly ';(\[signal frame\]|__restore_rt);on_usr1;'
}

@test "a call that does not return, as a function's last instruction" {
	# Assembly that has nothing but frame pointers.
	odd noreturn --call-graph fp
	mostly ';main;last_call;never_returns;'
	[ "$(samples ';next_one[; ]')" -eq 0 ] || fail "the return address is the next function's"
}

@test "a hundred libraries, one after the other at the same address" {
	cp "$W/libswapa.so" "$W/libswapb.so" "$T"
	gp_ok -F 999 -- "$W/swap" "$T/libswapa.so" "$T/libswapb.so"
	[ "$(number rounds "$T/cmd")" -eq 100 ]
	[ "$(number same "$T/cmd")" -ge 90 ] || fail "the addresses are not the same: $(cat "$T/cmd")"
	assert_some alpha_burn 200
	assert_some bravo_burn 200
	[ "$(samples ';call_first;.*;bravo_burn')" -eq 0 ] || fail "another library's name"
	[ "$(samples ';call_second;.*;alpha_burn')" -eq 0 ] || fail "another library's name"
	[ "$(samples ';call_(first|second);(swap_entry;)?\[')" -le 3 ] || fail "frames without names"
}

# in_container LIBRARY: a program that runs what follows with LIBRARY at libswapa's path, in a mount
# and a pid namespace of its own, as the comm "inside"
in_container()
{
	cat >"$T/inside" <<-EOF
		#!/bin/sh
		exec unshare --mount --pid --fork --kill-child sh -c \
			'mount --bind "$1" "$T/libswapa.so" && exec "$T/swap-inside" "\$@"' sh "\$@"
	EOF
	cp "$W/swap" "$T/swap-inside"
	cp "$W/libswapa.so" "$W/libswapb.so" "$T"
	chmod +x "$T/inside"
}

@test "another library at the same path in a container, while it runs and after its end" {
	unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces"
	in_container "$T/libswapb.so"
	wl inside "$T/inside" -n 40 "$T/libswapa.so"
	cp "$W/swap" "$T/swap-outside"
	wl outside "$T/swap-outside" -n 40 "$T/libswapa.so"
	gp_start -F 999
	wl_go inside
	wl_go outside
	wl_wait inside
	wl_wait outside
	gp_stop
	assert_done
	[ "$(burners swap-inside)" = 'bravo_burn ' ] || fail "inside: $(burners swap-inside)"
	[ "$(burners swap-outside)" = 'alpha_burn ' ] || fail "outside: $(burners swap-outside)"
	[ "$(samples '^swap-inside;.*;bravo_burn')" -ge 300 ] || fail "too few"

	# Found by its mapping while it is there.
	wl again "$T/inside" -n 400 "$T/libswapa.so"
	wl_go again
	gp_ok -F 999 300ms
	[ "$(burners swap-inside)" = 'bravo_burn ' ] || fail "running: $(burners swap-inside)"
}

@test "a container that begins and ends during the run" {
	unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces"
	in_container "$T/libswapb.so"
	gp_start -F 999
	"$T/inside" -n 20 "$T/libswapa.so" >"$T/one"
	gp_stop
	assert_done
	[ "$(number rounds "$T/one")" -eq 20 ]
	[ "$(burners swap-inside)" = 'bravo_burn ' ] || fail "inside: $(burners swap-inside)"
	[ "$(samples '^swap-inside;.*;bravo_burn')" -ge 100 ] || fail "too few"
}

@test "a library that is replaced during the run: each process has the names of its own" {
	cp "$W/swap" "$T/swap-old"
	cp "$W/swap" "$T/swap-new"
	cp "$W/libswapa.so" "$T/libswap.so"
	wl old "$T/swap-old" -n 1 -s 700000 "$T/libswap.so"
	wl new "$T/swap-new" -n 1 -s 300000 "$T/libswap.so"
	gp_start -F 999
	wl_go old
	until grep -q "$T/libswap.so" "/proc/$(wl_pid old)/maps"; do :; done
	cp "$W/libswapb.so" "$T/libswap.new"
	mv "$T/libswap.new" "$T/libswap.so"
	wl_go new
	wl_wait new
	wl_wait old
	rm "$T/libswap.so"
	gp_stop
	assert_done
	# The second loading by the old one is of the new file.
	[ "$(samples '^swap-old;.*;call_first;.*;alpha_burn')" -ge 300 ] || fail "the old one's name"
	[ "$(samples '^swap-old;.*;call_first;.*;bravo_burn')" -eq 0 ] || fail "the new one's name"
	[ "$(burners swap-new)" = 'bravo_burn ' ] || fail "new: $(burners swap-new)"
}

@test "a program that was deleted before the run, and one that has never been in a directory" {
	cp "$W/duty" "$T/gone"
	wl gone "$T/gone" -n 50
	rm "$T/gone"
	wl_go gone
	gp_ok -F 999 -p "$(wl_pid gone)"
	mostly ';(inside|outside);(inside|outside)_leaf;'
	[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
	gp_ok -F 999 -- /usr/bin/python3 -c '
import os, sys
fd = os.memfd_create("nowhere", 0)
os.write(fd, open(sys.argv[1], "rb").read())
os.execv(f"/proc/self/fd/{fd}", ["nowhere", "-n", "50"])' "$W/duty"
	assert_some 'inside|outside' 400
}

@test "code that a compiler made while the program ran, by its map and by its dump" {
	local switch

	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
	gp_ok -F 999 -- "$W/jit" -m -t 600
	mostly ';run;(jit_outer;jit_a|jit_c \(int, int\))'

	# The dump has times: what was at an address is another function after a while.
	mkdir "$T/dumps"
	gp_ok -F 999 --samples "$T/samples" -- "$W/jit" -d "$T/dumps" -s -t 600
	switch=$(sed -n 's/^switch_ns=//p' "$T/cmd")
	[ -n "$switch" ] || fail "no switch: $(cat "$T/cmd")"
	assert_some jit_a 50
	assert_some jit_b 50
	[ "$(samples ';jit_(a|b|outer|c[^;]*)[; ]')" -ge $(($(samples '') * 9 / 10)) ] || fail "without names"
}

@test "a dump's names go by time: neither function is seen in the other's half" {
	local before after

	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
	mkdir "$T/dumps"
	gp_ok -F 1999 --samples "$T/samples" -- "$W/jit" -d "$T/dumps" -s -t 600
	before=$(jq -s --argjson t "$(sed -n 's/^switch_ns=//p' "$T/cmd")" \
		'[.[] | select(.time_ns < $t)] | length' "$T/samples")
	after=$(jq -s --argjson t "$(sed -n 's/^switch_ns=//p' "$T/cmd")" \
		'[.[] | select(.time_ns > $t)] | length' "$T/samples")
	[ "$(samples ';jit_a[; ]')" -le "$before" ] || fail "jit_a after the switch"
	[ "$(samples ';jit_b[; ]')" -le "$after" ] || fail "jit_b before the switch"
	[ "$(samples ';jit_a[; ]')" -ge $((before / 3)) ] || fail "too little of jit_a"
	[ "$(samples ';jit_b[; ]')" -ge $((after / 3)) ] || fail "too little of jit_b"
}

@test "a compiler in a container, which has ended by then" {
	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
	unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces"
	cat >"$T/inside" <<-EOF
		#!/bin/sh
		exec unshare --mount --pid --fork --kill-child sh -c \
			'mount -t tmpfs none /tmp && exec "$W/jit" "\$@"' sh "\$@"
	EOF
	chmod +x "$T/inside"
	case $T in /tmp/*) cp "$W/jit" /usr/local/bin/jit-in-container && sed -i "s#$W/jit#/usr/local/bin/jit-in-container#" "$T/inside" ;; esac
	gp_start -F 999
	"$T/inside" -m -t 600 >"$T/one"
	gp_stop
	rm -f /usr/local/bin/jit-in-container
	assert_done
	[ "$(samples ';run;(jit_outer;jit_a|jit_c \(int, int\))')" -ge 200 ] || fail "no names: $(cat "$T/one")"
}

@test "JavaScript by the names that its authors gave" {
	command -v node || skip "node is not installed"
	cat >"$T/busy.js" <<-EOF
		function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2) }
		function outer() { let s = 0; for (const t = Date.now(); Date.now() - t < 1500;) s += fibonacci(20); return s }
		outer()
	EOF
	# It leaves a log in its working directory.
	cd "$T"
	gp_ok -F 499 -- node --perf-basic-prof "$T/busy.js"
	[ "$(samples "fibonacci $T/busy.js:1")" -ge $(($(samples '^node;') / 2)) ] || fail "no JavaScript"
	rm -f /tmp/perf-*.map
}

@test "a thousand processes of three milliseconds: no frame of their own without a name" {
	local own

	gp_ok -F 1999 -- "$W/shortlived" -n 1000 -b 3 exec
	[ "$(number children "$T/cmd")" -eq 1000 ]
	assert_some short_burn 4000
	own=$(grep -E "$(frame 'short_burn|short_leaf')" "$T/out.folded" | grep -F '[unknown]') || true
	[ -z "$own" ] || fail "unknown: $own"
	[ "$(samples '\[(shortlived|exe)\]')" -le $(($(samples '') / 100 + 1)) ] ||
		fail "frames of the program without a name"
}

@test "inlined functions are frames, and lines are told" {
	gp_ok -F 999 --inline -- "$W/duty"
	[ "$(samples '_\[i\]')" -gt 0 ] || fail "no inlined function"
	assert_some inside 100
	gp_ok -F 999 --lines -- "$W/duty"
	[ "$(samples ';inside:duty\.c:[0-9]+;inside_leaf:duty\.c:[0-9]+;')" -gt 100 ] || fail "no lines"
	[ "$(samples '_\[i\]')" -eq 0 ] || fail "inlined functions, not asked for"
}

@test "code without frame pointers is told of" {
	command -v openssl || skip "openssl is not installed"
	gp_ok -F 499 --call-graph fp -- openssl speed -seconds 1 sha256
	assert_says 'user stacks end early, [0-9,]+ in .*libcrypto\.so\.3: code without frame pointers'
	gp_ok -F 499 --call-graph fp -- "$W/duty"
	! grep -q 'end early' "$T/err" || fail "says so of a program with frame pointers"
}

@test "what has no name says why" {
	cp "$W/duty" "$T/stripped"
	strip "$T/stripped"
	gp_ok -F 499 -- "$T/stripped" -n 40
	holds '[.unsymbolized[] | select(.module | endswith("/stripped")) | .reason] | . == ["no symbols"] or . == ["stripped"]'
	[ "$(samples ';\[stripped\]')" -gt 100 ] || fail "not named after the file"
	assert_says "in $T/stripped \((no symbols|stripped)\)"
}
