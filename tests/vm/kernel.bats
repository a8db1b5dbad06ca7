# SPDX-License-Identifier: BSD-2-Clause
# Gates and frames on kernel functions, and what stands in where a kernel lacks something. Exactly: by a
# breakpoint on kernelgate's marker(). Stacks are by frame pointers, for the verifier takes longest for the
# walk by tables.

load ../live/lib
load ../live/lib2
load hits

KERNELGATE=$W/kernelgate
OPEN=__x64_sys_getpgid CLOSE=__x64_sys_getsid

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	[ -e /sys/bus/event_source/devices/kprobe ] || skip "no kprobes"
}

marked()
{
	printf 'mem:0x%s:x' "$(nm "$KERNELGATE" | awk '$3 == "marker" { print $1 }')"
}

# without WHAT COMMAND...: on a kernel that lacks it (insns.c), what is loaded goes to $T/loaded
without()
{
	local what=$1

	shift
	LD_PRELOAD=$SG_BUILD/vm/insns.so INSNS_REFUSE=$what INSNS_LOG=$T/loaded "$@"
}

loaded()
{
	grep -q "^$1 [0-9]" "$T/loaded" || fail "$1 was not loaded: $(tr '\n' ' ' <"$T/loaded")"
}

not_loaded()
{
	! grep -q "^$1 " "$T/loaded" || fail "$1 was loaded: $(tr '\n' ' ' <"$T/loaded")"
}

# exact SPEC WHAT ARGS...: 23 of the 54 marks are inside, and 31 outside, in 11 openings
exact()
{
	rm -f "$T/loaded"
	hits 54 without "$2" gp -q --call-graph fp -e "$(marked)" -c 1 -g "$1" "${@:3}" -- "$KERNELGATE"
	assert_done
	all_hold '.kept == 23' '.outside == 31' '.seen == 54' '.missed == 0' \
		'.gates[0].entries == 11' '.gates[0].opens == 11'
	assert_balanced
	[ "$(samples "$(frame inside)")" -eq 23 ] || fail "not all kept samples are from inside"
}

# natural SPEC WHAT: the function's own end; 11 openings, and no mark is inside
natural()
{
	rm -f "$T/loaded"
	hits 54 without "$2" gp -q --call-graph fp -e "$(marked)" -c 1 -g "$1" -- "$KERNELGATE"
	[ "$status" -eq 4 ] || fail "exit code $status"
	all_hold '.kept == 0' '.seen == 54' '.gates[0].entries == 11' '.gates[0].opens == 11'
	assert_balanced
}

# What a run leaves: nothing. Programs are let go of a moment after their last user.
assert_clean()
{
	local i left=

	for ((i = 0; i < 50; i++)); do
		left=$(bpftool prog show | grep -E 'name (sample_|probe_|fentry_|fexit_|frame_|on_)') || break
		a_while 100
	done
	[ -z "$left" ] || fail "left in the kernel: $left"
	[ ! -s /sys/kernel/tracing/kprobe_events ] || fail "left: $(cat /sys/kernel/tracing/kprobe_events)"
	[ ! -s /sys/kernel/tracing/uprobe_events ] || fail "left: $(cat /sys/kernel/tracing/uprobe_events)"
	! grep -E "$OPEN|$CLOSE" /sys/kernel/tracing/enabled_functions || fail "a function is still watched"
}

@test "fentry: between two functions' entries" {
	exact "k:$OPEN..k:$CLOSE" ''
	loaded fentry_open
	loaded fentry_close
	not_loaded probe_open
	assert_clean
}

@test "fexit: between two functions' returns" {
	exact "kr:$OPEN..kr:$CLOSE" ''
	loaded fexit_open
	loaded fexit_close
	assert_clean
}

@test "fentry and fexit: a function's own end" {
	natural "k:$OPEN" ''
	loaded fentry_open
	loaded fexit_close
}

@test "kprobes: between two functions' entries" {
	exact "k:$OPEN..k:$CLOSE" tracing
	loaded probe_open
	loaded probe_close
	not_loaded fentry_open
	assert_clean
}

@test "kretprobes: between two functions' returns" {
	exact "kr:$OPEN..kr:$CLOSE" tracing
	loaded probe_open
	assert_clean
}

@test "kprobe and kretprobe: a function's own end" {
	natural "k:$OPEN" tracing
	loaded probe_close
}

@test "kernel functions, without links for kprobes and events" {
	exact "k:$OPEN..k:$CLOSE" tracing,link
	assert_clean
}

@test "system calls and tracepoints, with links and without" {
	exact "t:syscalls:sys_exit_getpgid..t:syscalls:sys_enter_getsid" ''
	exact "t:syscalls:sys_exit_getpgid..t:syscalls:sys_enter_getsid" link
	natural syscall:getpgid link
	assert_clean
}

@test "a user function, with links and without" {
	rm -f "$T/loaded"
	hits 54 without link gp -q --call-graph fp -e "$(marked)" -c 1 -g "u:$KERNELGATE:inside" -- "$KERNELGATE"
	assert_done
	all_hold '.kept == 23' '.outside == 31' '.gates[0].entries == 23'
	assert_balanced
	assert_clean
}

@test "scopes, by a kernel function" {
	local scope

	for scope in process cpu system; do
		exact "k:$OPEN..k:$CLOSE" '' --scope "$scope"
	done
}

@test "frames between kernel functions, by fentry and by kprobes" {
	local what

	for what in '' tracing; do
		rm -rf "$T/gl"
		without "$what" run_tool "$SG_BUILD/glitchrec" -q --call-graph fp -o "$T/gl" -g "k:$OPEN..k:$CLOSE" \
			--threshold 10s -- "$KERNELGATE"
		[ "$status" -eq 4 ] || fail "exit code $status"
		all_hold '.frames == 11' '.glitches == 0' '.abandoned == 0'
	done
	assert_clean
}

@test "an argument of a kernel function as the key, by fentry and by kprobe" {
	local what

	# The argument is a pointer, which is no number for the verifier.
	for what in '' tracing; do
		rm -rf "$T/gl" "$T/loaded"
		without "$what" run_tool "$SG_BUILD/glitchrec" -q --call-graph fp -o "$T/gl" -g "k:$OPEN" --key arg0 \
			--threshold 10s -- "$KERNELGATE"
		[ "$status" -eq 4 ] || fail "exit code $status"
		all_hold '.frames == 11' '.unbalanced == 0' '.abandoned == 0'
		if [ -z "$what" ]; then loaded fentry_open; else loaded probe_open; fi
	done
}
