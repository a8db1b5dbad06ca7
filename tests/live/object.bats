# SPDX-License-Identifier: BSD-2-Clause
# Users' BPF objects by lib/kernel/objectfile: the examples run and do what they say; what can't run is
# refused, with the reason. build/live/object_run stands for the tools.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

E=${SG_BUILD:-build}/examples

# object ARGS...: sets $status; the counts are in $T/counts, messages in $T/err
object()
{
	[ ${#OURS[@]} -gt 0 ] || busy
	status=0
	timeout 100 "$SG_BUILD/live/object_run" "$@" >"$T/counts" 2>"$T/err" </dev/null || status=$?
}

object_ok()
{
	object "$@"
	[ "$status" -eq 0 ] || fail "exit code $status"
}

# refused CODE TEXT ARGS...: and one line says why
refused()
{
	object "${@:3}"
	[ "$status" -eq "$1" ] || fail "exit code $status, expected $1"
	grep -qF -- "$2" "$T/err" || fail "no '$2'"
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one line"
}

# compile NAME [CFLAGS...]: a BPF object from stdin, in $T/NAME.o
compile()
{
	cat "$SG_ROOT/tests/live/object_head.h" - >"$T/$1.bpf.c"
	"${CLANG:-clang}" -target bpf -mcpu=v2 -O2 -g -D__TARGET_ARCH_x86 -I"$SG_ROOT/vmlinux/x86" \
		-I"$SG_ROOT/include" "${@:2}" -c "$T/$1.bpf.c" -o "$T/$1.o" || fail "$1 does not compile"
}

n()
{
	number "$1" "$T/counts"
}

@test "a handler keeps every tenth sample of a user, and drops the others" {
	object_ok -m asked "$E/tenth.bpf.o"
	[ "$(n seen)" -ge 2000 ]
	[ "$(n kept)" -gt 0 ] || fail "nothing was kept"
	[ "$(n filtered)" -gt 0 ] || fail "nothing was dropped"
	# a CPU each may be in the middle of its ten
	[ "$(n map)" -ge $((10 * $(n kept))) ] || fail "more than every tenth"
	[ "$(n map)" -lt $((10 * $(n kept) + 10 * $(nproc))) ] || fail "less than every tenth"
	[ "$(n records)" -eq "$(n kept)" ] || fail "$(n records) records, $(n kept) kept"
	[ "$(n ips)" -gt "$(n kept)" ] || fail "no stacks"
	[ "$(n lost)" -eq 0 ]
}

@test "--set changes what a handler does" {
	object_ok -m asked -s every=3 -s tell=true "$E/tenth.bpf.o"
	[ "$(n kept)" -gt 0 ]
	[ "$(n map)" -ge $((3 * $(n kept))) ]
	[ "$(n map)" -lt $((3 * $(n kept) + 3 * $(nproc))) ]
	[ "$(n emitted)" -eq "$(n kept)" ] || fail "$(n emitted) written, $(n kept) kept"

	object_ok -m asked -s every=0 "$E/tenth.bpf.o"
	[ "$(n kept)" -eq 0 ] || fail "every=0 keeps $(n kept)"
	[ "$(n records)" -eq 0 ]
	[ "$(n map)" -gt 0 ]

	# nobody is this user
	object_ok -m asked -s uid=0x7ffffff0 -s every=1 "$E/tenth.bpf.o"
	[ "$(n map)" -eq 0 ] || fail "another user's samples"
	[ "$(n kept)" -eq 0 ]
	[ "$(n filtered)" -gt 0 ]
}

@test "what is kept by a call is kept once, whatever the handler returns" {
	compile keeps <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(keeps, ctx)
		{
			samplegate_keep(ctx);
			samplegate_keep(ctx);
			return bpf_get_prandom_u32() & 1;
		}
	C
	object_ok "$T/keeps.o"
	[ "$(n kept)" -gt 0 ]
	[ "$(n records)" -eq "$(n kept)" ]
	[ "$(n filtered)" -eq 0 ] || fail "$(n filtered) filtered"
}

@test "a model of glitches calls begin, glitch and end from its own probes" {
	# the comm of who prints the counts: it wakes up a hundred times a second
	object_ok -p -n 60 -s name=object_run -s beat_ns=1000 "$E/heartbeat.bpf.o"
	[ "$(n begun)" -gt 10 ] || fail "$(n begun) begun"
	[ "$(n glitches)" -gt 5 ] || fail "$(n glitches) glitches"
	[ "$(n ended)" -ge $(($(n begun) - 1)) ] || fail "$(n begun) begun, $(n ended) ended"

	object_ok -p -n 60 -s name=object_run -s beat_ns=100000000000 "$E/heartbeat.bpf.o"
	[ "$(n begun)" -gt 10 ]
	[ "$(n glitches)" -eq 0 ] || fail "$(n glitches) glitches"
}

@test "a handler's object may have probes of its own" {
	compile probes <<-'C'
		__u64 switches;
		struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__type(key, __u32);
			__type(value, __u64);
		} counters SEC(".maps");
		SEC("raw_tp/sched_switch") int other(void *ctx)
		{
			__u32 zero = 0;
			__u64 *v = bpf_map_lookup_elem(&counters, &zero);
			if (v)
				__sync_fetch_and_add(v, 1);
			return 0;
		}
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			__u32 zero = 0;
			__u64 *v = bpf_map_lookup_elem(&counters, &zero);
			return v && *v > 10;
		}
	C
	object_ok -m counters "$T/probes.o"
	[ "$(n map)" -gt 10 ] || fail "the probe did not run"
	[ "$(n kept)" -gt 0 ]
}

@test "variables: types, ranges, and names that are not there" {
	compile vars <<-'C'
		const volatile __s8 small = 0;
		const volatile bool flag = 0;
		const volatile char text[8] = "";
		volatile __u64 big = 5;
		const volatile struct { int a; } both = {};
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			return small == -128 && flag && text[0] == 'a' && text[6] == 'g' && !text[7] &&
			       big == 0xffffffffffffffff && !both.a;
		}
	C
	object_ok "$T/vars.o"
	[ "$(n kept)" -eq 0 ]
	object_ok -s small=-128 -s flag=true -s text=abcdefg -s big=18446744073709551615 "$T/vars.o"
	[ "$(n kept)" -gt 0 ] || fail "not all were set"
	[ "$(n filtered)" -eq 0 ]
	refused 2 "-129 is not in -128..127" -s small=-129 "$T/vars.o"
	refused 2 "128 is not in -128..127" -s small=128 "$T/vars.o"
	refused 2 "'yes' is not true or false" -s flag=yes "$T/vars.o"
	refused 2 "8 bytes do not fit: there is room for 7" -s text=abcdefgh "$T/vars.o"
	refused 2 "'5x' is not a number" -s big=5x "$T/vars.o"
	refused 2 "is no number, bool or array" -s both=1 "$T/vars.o"
	refused 2 "no variable 'smal'; nearest: small" -s smal=1 "$T/vars.o"
	refused 2 "it has small, flag, text" -s something=1 "$T/vars.o"
	refused 2 "no variable 'samplegate_cfg'" -s samplegate_cfg=1 "$T/vars.o"
	refused 2 "is not NAME=VALUE" -s small "$T/vars.o"
}

@test "a program that the verifier refuses: its reason, and where" {
	compile bad <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(wild, ctx)
		{
			volatile int *p = (void *)bpf_get_current_task();
			if (*p == 3)
				bpf_get_prandom_u32();
			return 0;
		}
	C
	refused 1 "program wild: R" "$T/bad.o"
	grep -qE "invalid mem access '(inv|scalar)'.*`if \(\*p == 3\)`.*instruction" "$T/err" || fail "not where"

	compile endless <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(endless, ctx)
		{
			volatile int i = 0;
			while (i >= 0)
				i += 2;
			return 0;
		}
	C
	refused 1 "program endless: " "$T/endless.o"
}

@test "no handler, two, none of ours, another tool's functions" {
	compile none <<-'C'
		SEC("raw_tp/sched_switch") int other(void *ctx)
		{
			return 0;
		}
	C
	refused 1 "it has no handler" "$T/none.o"
	compile plain <<-'C'
		SEC("perf_event") int plain(void *ctx)
		{
			return 1;
		}
	C
	refused 1 "SAMPLEGATE_HANDLER(name, ctx)" "$T/plain.o"
	refused 1 'SEC("perf_event") has no place here' -p "$T/plain.o"
	compile two <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(one, ctx)
		{
			return 1;
		}
		SEC("perf_event") int SAMPLEGATE_HANDLER(two, ctx)
		{
			return 1;
		}
	C
	refused 1 "more than one SEC(\"perf_event\") program" "$T/two.o"
	compile nowhere <<-'C'
		int helper(void)
		{
			return samplegate_enter(0);
		}
	C
	refused 1 'it has no SEC("perf_event") program' "$T/nowhere.o"
	compile xdp <<-'C'
		SEC("xdp") int packet(void *ctx)
		{
			return 0;
		}
	C
	refused 1 'SEC("xdp") is no probe' -p "$T/xdp.o"
	compile unplaced <<-'C'
		SEC("kprobe") int unplaced(void *ctx)
		{
			return 0;
		}
	C
	refused 1 "that does not say where" -p "$T/unplaced.o"
	refused 1 "it calls samplegate_" "$E/heartbeat.bpf.o"
	refused 1 "it calls samplegate_enter()" -p "$E/tenth.bpf.o"
	compile newer <<-'C'
		extern int samplegate_of_tomorrow(void);
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			return samplegate_of_tomorrow();
		}
	C
	refused 1 "it calls samplegate_of_tomorrow(), which this" "$T/newer.o"
	compile ours <<-'C'
		int samplegate_mine;
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			return samplegate_mine;
		}
	C
	refused 1 "names that begin with samplegate_" "$T/ours.o"
}

@test "files that are no BPF objects, or not whole" {
	local bytes at

	refused 1 "No such file" "$T/nothing.o"
	refused 1 "not a regular file" "$T"
	mkfifo "$T/fifo"
	refused 1 "not a regular file" "$T/fifo"
	refused 1 "it is not an object file" "$SG_ROOT/Makefile"
	: >"$T/empty"
	refused 1 "it is not an object file" "$T/empty"
	refused 1 "another machine than BPF" "$SG_BUILD/live/object_run"
	truncate -s 17M "$T/large"
	refused 1 "larger than 16 MiB" "$T/large"
	bytes=$(stat -c %s "$E/tenth.bpf.o")
	for at in 10 70 $((bytes / 2)) $((bytes - 1)); do
		head -c "$at" "$E/tenth.bpf.o" >"$T/cut.o"
		refused 1 "it is cut short" "$T/cut.o"
	done
	compile nobtf -g0 <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			return 1;
		}
	C
	refused 1 "it has no BTF: clang -g" "$T/nobtf.o"
	compile closed -DLICENSE_IS='"Proprietary"' <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			return 1;
		}
	C
	refused 1 'its licence is "Proprietary"' "$T/closed.o"
	compile nolicense -DNO_LICENSE <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(handler, ctx)
		{
			return 1;
		}
	C
	refused 1 "it has no licence" "$T/nolicense.o"
}
