#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The walker of unwind tables, on the fixtures of workloads/unwind.c: each kind of frame, whole to
# the root or with the reason why not, and each instruction of the program against libdwfl.

load lib

# walk [OPTIONS] KIND...: its stacks at at(), into $T/out
walk()
{
	local opts=()

	need_breakpoints
	while [[ $1 == -* ]]; do
		opts+=("$1")
		[[ $1 == -[udx] ]] && { opts+=("$2"); shift; }
		shift
	done
	"$SG_BUILD/live/unwind_walk" "${opts[@]}" at "${PROG:-$W/unwind}" -r 103 -w 104 "$@" \
		>"$T/out" 2>"$T/err" 3>&- 4>&- || fail "unwind_walk: $?"
}

# The root's frames are libc's, whatever they are called.
stacks()
{
	sed -E 's/_start;([^;]*libc_start[^;]*;)+/_start;libc;/; s/;\[module\]|;__restore_rt/;[signal]/' \
		"$T/out"
}

# is LINE...: exactly these, in any order
is()
{
	diff <(printf '%s\n' "$@" | sort) <(stacks | sort) >&2 || fail "stacks differ"
}

@test "frames of compiled functions" {
	walk leaf
	is "1 ROOT 0 _start;libc;main;run;leaf_caller;at"
	walk alloca
	is "1 ROOT 0 _start;libc;main;run;uses_alloca;at"
	walk realign
	is "1 ROOT 0 _start;libc;main;run;realigned;at"
	walk saved
	is "1 ROOT 0 _start;libc;main;run;many_saved;realigned;at" \
		"1 ROOT 0 _start;libc;main;run;many_saved;uses_alloca;at" \
		"1 ROOT 0 _start;libc;main;run;many_saved;leaf_caller;at"
	walk deep3
	is "1 ROOT 0 _start;libc;main;run;deep;deep;deep;at"
}

@test "a call as a function's last instruction" {
	walk noreturn
	is "1 ROOT 0 _start;libc;main;run;calls_never;leaves;never;at"
	# what follows at once is another function's
	walk lastcall
	is "1 ROOT 0 _start;libc;main;run;last_call;never;at"
}

@test "through a signal handler, on the same and on another stack" {
	for kind in signal altstack; do
		walk $kind
		is "1 ROOT 0 _start;libc;main;run;with_signal;raises;[signal];skip_ud2;handler;at"
	done
}

@test "a child of vfork, a thread, a coroutine" {
	walk vfork
	is "1 ROOT 0 _start;libc;main;run;with_vfork;in_child;at"
	walk thread
	grep -Eqx '1 ROOT 0 (__)?clone3?;start_thread;thread_main;in_thread;at' "$T/out"
	walk coroutine
	grep -Eqx '1 ROOT 0 [^;]*;in_coroutine;at' "$T/out"
}

@test "assembly with call frame information, and where there is none" {
	walk cfi
	is "1 ROOT 0 _start;libc;main;run;with_cfi;at"
	walk nocfi
	is "1 NO_ENTRY 0 without_cfi;at"
}

@test "call frame information that can't be followed ends the walk" {
	walk shrinks
	is "1 BAD_CFA 0 cfa_shrinks;at"
	walk unreadable
	is "1 FAULT 0 cfa_unreadable;at"
	walk lost
	is "1 UNSUPPORTED 0 cfa_lost;at"
}

@test "code made at run time: by frame pointers where they are valid, then by tables" {
	walk jit
	is "1 ROOT 1 _start;libc;main;run;calls_jit;[unknown];at"
	walk badfp
	is "1 FRAME_POINTER 0 [unknown];at"
	walk wrongfp
	is "1 FRAME_POINTER 0 [unknown];at"
	walk nofp
	is "1 ROOT 0 [unknown];at"
	walk latejit
	is "1 NO_MAPPING 0 [unknown];at"
}

@test "depth, and a process of which nothing is known" {
	walk -d 4 deep20
	is "1 DEPTH 0 deep;deep;deep;at"
	# the whole stack fits exactly: not cut
	walk -d 8 deep1
	is "1 ROOT 0 _start;libc;main;run;deep;at"
	walk -d 7 leaf
	is "1 ROOT 0 _start;libc;main;run;leaf_caller;at"
	walk -d 6 leaf
	grep -q '^1 DEPTH 0 ' "$T/out"
	# more than a kernel hands out by itself
	walk -d 1024 deep1000
	grep -Eq '^1 ROOT 0 _start;.*;run(;deep){1000};at$' "$T/out"
	# as the kernel walks, and told apart
	walk -n jit
	grep -q '^1 NO_PROCESS 0 ' "$T/out"
}

@test "callers of functions with uretprobes" {
	walk -u leaf_caller leaf leaf
	is "2 ROOT 0 _start;libc;main;run;leaf_caller;at"
	walk -u many_saved saved
	[ "$(grep -c '^1 ROOT 0 _start;.*;main;run;many_saved;' "$T/out")" -eq 3 ]
	walk -u deep deep3
	is "1 ROOT 0 _start;libc;main;run;deep;deep;deep;at"
}

@test "what the kernel makes of a probed nop: at each of its instructions, whichever form it has" {
	local off

	need_breakpoints
	# at PLACE: as walk, but there. Only a process with probes is looked at like this.
	at()
	{
		"$SG_BUILD/live/unwind_walk" -u main "$1" "$W/trampolines" -r 103 -w 104 \
			>"$T/out" 2>"$T/err" 3>&- 4>&- || fail "unwind_walk $1: $?"
	}

	for off in 0 1 3 4 0xb 0xd 0xe 0x10 0x11; do
		at trampoline+$off
		is "1 ROOT 0 _start;libc;main;run;site"
		at trampoline_red_zone+$off
		is "1 ROOT 0 _start;libc;main;run;site_red_zone"
	done
	# not guessed
	at trampoline_other+1
	is "1 NO_ENTRY 0 trampoline_other"
}

@test "where a thread leaves the CPU" {
	"$SG_BUILD/live/unwind_walk" -s "$W/unwind" -r 103 -w 104 sleep >"$T/out" 3>&- 4>&-
	stacks | grep -Eq '^[0-9]+ ROOT 0 _start;libc;main;run;sleeps$'
}

@test "each instruction of a program, as libdwfl has it" {
	local kind

	for kind in saved signal altstack thread noreturn alloca deep10 cfi; do
		"$SG_BUILD/live/unwind_walk" -x 20000 "$W/unwind" -r 103 -w 104 $kind \
			>"$T/out" 2>"$T/err" 3>&- 4>&- || fail "$kind: $(cat "$T/out")"
		grep -q ' 0 differ$' "$T/out"
		# something was compared
		[ "$(sed 's/.*instructions, \([0-9]*\) the same.*/\1/' "$T/out")" -gt 1000 ]
	done
}

@test "each instruction of interpreters, which have no frame pointers" {
	local py='import os, json
os.write(103, b"x"); os.read(104, 1)
def f(n): return f(n - 1) if n else json.dumps([{"a": n}] * 3)
f(3)'
	# shellcheck disable=SC2016 # perl expands it
	local pl='open(my $w, ">&=103"); syswrite($w, "x"); open(my $r, "<&=104"); sysread($r, my $b, 1);
sub f { my $n = shift; return $n ? f($n - 1) : join(",", sort map { $_ * 7 % 13 } 1..20) } f(3)'

	for opt in "python3 -c" "perl -e"; do
		[ "$opt" = "perl -e" ] && py=$pl
		"$SG_BUILD/live/unwind_walk" -x 2000 "$(command -v "${opt% *}")" "${opt#* }" "$py" \
			>"$T/out" 2>"$T/err" 3>&- 4>&- || fail "$opt: $(cat "$T/out")"
		grep -q '^2000 instructions, [12][0-9]* the same, .* 0 differ$' "$T/out" ||
			fail "$opt: $(cat "$T/out")"
	done
}

@test "gcc and clang at each level" {
	local cc level more

	for cc in gcc clang; do
		for level in -O0 -O1 -O2 -O3 -Os; do
			for more in -fomit-frame-pointer -fcf-protection -mcmodel=large -flto; do
				[ "$cc $more" = "clang -flto" ] && ! command -v ld.lld >/dev/null && continue
				[ "$cc $more" = "clang -flto" ] && more='-flto -fuse-ld=lld'
				# shellcheck disable=SC2086 # two options
				$cc $level -fomit-frame-pointer $more -g -D_GNU_SOURCE -pthread \
					-o "$T/prog" tests/workloads/unwind.c 2>"$T/err" || fail "$cc $level $more"
				PROG=$T/prog walk realign saved alloca deep5 noreturn
				! grep -v '^[0-9]* ROOT 0 _start;.*;main;' "$T/out" ||
					fail "$cc $level $more: $(cat "$T/out")"
				[ "$(wc -l <"$T/out")" -ge 6 ] || fail "$cc $level $more: $(cat "$T/out")"
			done
		done
	done
}

@test "a 32-bit task is refused" {
	cat >"$T/prog.s" <<'END'
	.globl _start
_start:	mov	$4, %eax
	mov	$103, %ebx
	mov	$_start, %ecx
	mov	$1, %edx
	int	$0x80
	mov	$3, %eax
	mov	$104, %ebx
	lea	-64(%esp), %ecx
	int	$0x80
	call	at
	mov	$1, %eax
	xor	%ebx, %ebx
	int	$0x80
	.globl at
at:	ret
END
	as --32 -o "$T/prog.o" "$T/prog.s"
	ld -m elf_i386 -o "$T/prog" "$T/prog.o"
	need_breakpoints
	"$SG_BUILD/live/unwind_walk" at "$T/prog" >"$T/out" 2>"$T/err" 3>&- 4>&- || fail "$?"
	[ "$(cat "$T/out")" = "1 32BIT 0 at" ]
}
