# SPDX-License-Identifier: BSD-2-Clause
# Programs that run under valgrind or qemu die of a breakpoint in their files: probes that would hit one are
# refused. The workload enters `recurse` only after the tool has been asked, so that nobody has translated it.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# under TAG TRANSLATOR...: `nest` is running under it, and waits
under()
{
	local tag=$1

	shift
	printf '#!/bin/sh\nexec %s "$@"\n' "$* $W/nest" >"$T/$tag.sh"
	chmod 755 "$T/$tag.sh"
	wl "$tag" "$T/$tag.sh" -n 1 -t 10
}

# It does what it does alone.
unharmed()
{
	wl_go "$1"
	wl_wait "$1"
	[ "$(number returns "$T/$1.out")" -eq 5 ] || fail "$1 says $(cat "$T/$1.out")"
}

# The last run was refused, before anything was probed or started.
assert_refused()
{
	[ "$status" -eq 3 ] || fail "exit code $status, not 3"
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one line"
	assert_says "$1"
	assert_says '--force'
	[ ! -s "$T/cmd" ] || fail "the command ran"
	[ ! -e "$T/out.folded" ] && [ ! -e "$T/sum.json" ] || fail "an output was written"
}

@test "valgrind: by -p, by -a, by who else maps the file; its program ends well" {
	local pid

	under v valgrind -q
	pid=$(wl_pid v)
	gp -g "u:$W/nest:recurse" -p "$pid" 10
	assert_refused "process $pid runs under valgrind and maps $W/nest: "
	gp -g "u:$W/nest:recurse+1..u:$W/nest:main" -a 10
	assert_refused "process $pid runs under valgrind"
	gp -g "u:$W/nest:recurse" -- "$W/nest"
	assert_refused "process $pid runs under valgrind"
	gp -g "ur:$W/nest:recurse..u:$W/nest:recurse" --scope process -a 10
	assert_refused "process $pid runs under valgrind"
	unharmed v
}

@test "qemu, which maps the file to read it: the same; by force, the program dies" {
	local pid rc=0

	under q qemu-x86_64
	pid=$(wl_pid q)
	gp -g "u:$W/nest:recurse" -p "$pid" 10
	assert_refused "process $pid runs under qemu and maps $W/nest: "
	gp -g "u:$W/nest:recurse" -a 10
	assert_refused "process $pid runs under qemu"
	unharmed q
	under r qemu-x86_64
	pid=$(wl_pid r)
	gp_start --force -g "u:$W/nest:recurse" -p "$pid"
	assert_says 'warning: --force'
	wl_go r
	wait "$pid" || rc=$?
	unset "WL_PID[r]"
	[ "$rc" -eq 133 ] || fail "it ended with $rc, not by a breakpoint: it need not be refused"
	gp_wait
}

@test "COMMAND: by name, by path, by env, by its interpreter, by a link" {
	local command

	printf '#!%s\n' "$(command -v qemu-x86_64)" >"$T/script"
	ln -s "$(command -v qemu-x86_64)" "$T/link"
	chmod 755 "$T/script"
	for command in "valgrind -q" "env -u A B=c $(command -v valgrind) -q" qemu-x86_64 "$T/script" "$T/link"; do
		# shellcheck disable=SC2086 # words
		gp -g "u:$W/nest:recurse" -- $command "$W/nest"
		assert_refused "the command is (valgrind|qemu), and there are points in $W/nest"
	done
	# The name alone, anywhere else, is nothing.
	gp_ok -g "u:$W/nest:recurse" -- env A=valgrind "$W/nest" -n 7
	is '.gates[0].entries' 35
}

@test "glitchrec's frames and deadline, overflowfilter's inside" {
	local glitchrec=${GLITCHREC:-$SG_BUILD/glitchrec} filter=${OVERFLOWFILTER:-$SG_BUILD/overflowfilter} pid

	under q qemu-x86_64
	pid=$(wl_pid q)
	run_tool "$glitchrec" -o "$T/gl" -g "u:$W/nest:recurse" --threshold 1s -a 10
	assert_refused "^glitchrec: process $pid runs under qemu"
	run_tool "$glitchrec" -o "$T/gl" -g syscall:write --deadline "u:$W/nest:recurse" -a 10
	assert_refused "^glitchrec: process $pid runs under qemu"
	run_tool "$filter" -o "$T/out.folded" --filter "inside \"u:$W/nest:recurse\"" -a 10
	assert_refused "^overflowfilter: process $pid runs under qemu"
	run_tool "$filter" -o "$T/out.folded" --filter 'comm == "nobody"' -a 0.1
	[ "$status" -eq 4 ] || fail "refused without a point"
	unharmed q
}

@test "what does not hit it is not refused: other files, other processes, kernel points" {
	local pid

	under q qemu-x86_64
	pid=$(wl_pid q)
	# A copy is another file.
	cp "$W/nest" "$T/nest"
	gp_ok -g "u:$T/nest:recurse" -- "$T/nest" -n 11
	is '.gates[0].entries' 55
	wl n "$W/nest" -n 13
	gp_start -g "u:$W/nest:recurse" -p "$(wl_pid n)"
	wl_go n
	wl_wait n
	gp_wait
	is '.gates[0].entries' 65
	gp -g syscall:write -p "$pid" 0.1
	[ "$status" -eq 4 ] || fail "exit code $status with a kernel point"
	unharmed q
}

@test "a name is all that is seen: one that pretends is refused, whoever it is, and --force goes on" {
	local pid

	cp "$W/nest" "$T/qemu-x86_64"
	chmod 755 "$T/qemu-x86_64"
	wl fake "$T/qemu-x86_64" -n 3
	pid=$(wl_pid fake)
	gp -g "u:$T/qemu-x86_64:recurse" -a 10
	assert_refused "process $pid runs under qemu"
	gp_start --force -g "u:$T/qemu-x86_64:recurse" -p "$pid"
	wl_go fake
	wl_wait fake
	gp_wait
	[ "$status" -eq 0 ] || fail "exit code $status by force"
	is '.gates[0].entries' 15
}

# handler SECTION: a handler in $T/points.o that keeps all, and a probe there that counts
handler()
{
	cat "$SG_ROOT/tests/live/object_head.h" - >"$T/points.bpf.c" <<-C
		__u64 hits;
		SEC("perf_event") int SAMPLEGATE_HANDLER(keep, ctx)
		{
			return 1;
		}
		SEC("$1") int probe(void *ctx)
		{
			__sync_fetch_and_add(&hits, 1);
			return 0;
		}
	C
	"${CLANG:-clang}" -target bpf -mcpu=v2 -O2 -g -D__TARGET_ARCH_x86 -I"$SG_ROOT/vmlinux/x86" \
		-I"$SG_ROOT/include" -c "$T/points.bpf.c" -o "$T/points.o" || fail "it does not compile"
}

@test "the points of --object: translators and nops" {
	local filter=${OVERFLOWFILTER:-$SG_BUILD/overflowfilter} pid

	handler "uprobe/$W/nest:recurse"
	under q qemu-x86_64
	pid=$(wl_pid q)
	run_tool "$filter" -o "$T/out.folded" -F 499 --object "$T/points.o" -- "$W/nest"
	assert_refused "^overflowfilter: process $pid runs under qemu and maps $W/nest"
	unharmed q
	run_tool "$filter" -o "$T/out.folded" -F 499 --object "$T/points.o" -- valgrind -q "$W/nest"
	assert_refused "^overflowfilter: the command is valgrind"
	run_tool "$filter" -o "$T/out.folded" -F 499 --object "$T/points.o" -- "$W/nest"
	assert_done
	[ "$(uname -m)" = x86_64 ] || return 0
	handler "uprobe/$W/redzone:middle+10"
	run_tool "$filter" -o "$T/out.folded" -F 4999 --object "$T/points.o" -- "$W/redzone" -n 100000
	if [ "$status" -eq 3 ]; then
		assert_refused "--object .*: program probe: middle\+0xa in .* is a 5-byte nop"
		run_tool "$filter" -o "$T/out.folded" -F 4999 --force --object "$T/points.o" -- "$W/redzone"
		[ "$(number middle_wrong "$T/cmd")" -gt 0 ] || fail "refused, but nothing is wrong"
	else
		[ "$(number middle_wrong "$T/cmd")" -eq 0 ] || fail "accepted, and it computes wrong"
	fi
}
