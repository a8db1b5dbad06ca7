# SPDX-License-Identifier: BSD-2-Clause
# overflowfilter with users' own handlers (--object) in place of --filter.

load lib
load filterlib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

E=${SG_BUILD:-build}/examples

# compile NAME: a BPF object from stdin, in $T/NAME.o
compile()
{
	cat "$SG_ROOT/tests/live/object_head.h" - >"$T/$1.bpf.c"
	"${CLANG:-clang}" -target bpf -mcpu=v2 -O2 -g -D__TARGET_ARCH_x86 -I"$SG_ROOT/vmlinux/x86" \
		-I"$SG_ROOT/include" -c "$T/$1.bpf.c" -o "$T/$1.o" || fail "$1 does not compile"
}

@test "a handler keeps exactly what it says, of 97" {
	local roots

	on_function
	gp_ok -e "$MEM" --filter 'uid == 0' -- "$STATES"
	roots=$(field .kept)
	[ "$roots" -gt 40 ] && [ "$roots" -lt 97 ] || fail "$roots samples of root"
	gp_ok -e "$MEM" --object "$E/tenth.bpf.o" --set every=1 -- "$STATES"
	is .seen 97
	is .kept "$roots"
	is .filtered $((97 - roots))
	grep -q ';hit' "$T/out.folded" || fail "no stacks"
	# on each CPU, where the tenth is
	gp_ok -e "$MEM" --object "$E/tenth.bpf.o" -- "$STATES"
	is .seen 97
	holds ".kept <= $roots / 10 and .kept > $roots / 10 - 2 and .filtered == 97 - .kept"
	gp -e "$MEM" --object "$E/tenth.bpf.o" --set uid=12345 -- "$STATES"
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is .kept 0
	is .filtered 97
}

@test "samplegate_keep() keeps once, samplegate_emit() writes between the samples" {
	on_function
	compile both <<-'C'
		__u64 n;
		SEC("perf_event") int SAMPLEGATE_HANDLER(both, ctx)
		{
			__u64 mine = ++n; /* hit by one thread only */
			char text[3] = "abc";
			samplegate_emit(ctx, &mine, sizeof(mine));
			if (mine % 3 == 0) {
				samplegate_keep(ctx);
				samplegate_keep(ctx);
				samplegate_emit(ctx, text, sizeof(text));
			}
			return mine % 6 == 0;
		}
	C
	gp_ok -e "$MEM" --object "$T/both.o" --samples "$T/samples" -- "$STATES"
	is .kept 32
	is .filtered 65
	[ "$(grep -c '"bytes":"[0-9a-f]\{16\}"' "$T/samples")" -eq 97 ] || fail "not 97 numbers"
	[ "$(grep -c '"bytes":"616263"' "$T/samples")" -eq 32 ] || fail "not 32 texts"
	[ "$(grep -c user_ips "$T/samples")" -eq 32 ] || fail "not 32 samples"
	grep -q '"bytes":"6100000000000000"' "$T/samples" || fail "the 97th number"
}

@test "the gates of -g are what the handler sees" {
	compile inside <<-'C'
		const volatile bool want = true;
		SEC("perf_event") int SAMPLEGATE_HANDLER(inside, ctx)
		{
			return want == (samplegate_gates() & 1);
		}
	C
	gp_ok -e cpu-clock -F 499 -g "u:$W/duty:inside" --object "$T/inside.o" -- "$W/duty"
	holds '.kept > 20 and .filtered > 20'
	grep -q ';inside' "$T/out.folded" || fail "nothing from inside"
	! grep -q ';outside_leaf;burn' "$T/out.folded" || fail "something from outside"
	# (a tick in the probes themselves is in neither)
	gp_ok -e cpu-clock -F 499 -g "u:$W/duty:inside" --object "$T/inside.o" --set want=false -- "$W/duty"
	holds '.kept > 20 and .filtered > 20'
	grep -q ';outside_leaf' "$T/out.folded" || fail "nothing from outside"
	! grep -q ';inside_leaf;burn' "$T/out.folded" || fail "something from inside"
}

# The kernel's own samples in a file.
chained()
{
	HOME=$T perf report -D -i "$1" 2>/dev/null | grep -c 'PERF_RECORD_SAMPLE('
}

@test "--emit chain and both: the kernel's own samples are those that the handler keeps" {
	command -v perf >/dev/null || skip "no perf"
	on_function
	compile third <<-'C'
		__u64 n;
		SEC("perf_event") int SAMPLEGATE_HANDLER(third, ctx)
		{
			n++;
			return n % 3 == 0;
		}
	C
	gp_ok -e "$MEM" --object "$T/third.o" --emit chain --perf-data "$T/a.data" -- "$STATES"
	is .kept 32
	is .filtered 65
	[ "$(chained "$T/a.data")" -eq 32 ] || fail "$(chained "$T/a.data") samples"
	gp_ok -e "$MEM" --object "$T/third.o" --emit both --perf-data "$T/b.data" -- "$STATES"
	is .kept 32
	[ "$(chained "$T/b.data")" -eq 32 ] || fail "$(chained "$T/b.data") samples"
	[ "$(awk '{ n += $NF } END { print n }' "$T/out.folded")" -eq 32 ] || fail "our own"
}

# refused CODE TEXT ARGS...
refused()
{
	gp "${@:3}" -- true
	[ "$status" -eq "$1" ] || fail "exit code $status, expected $1"
	grep -qF -- "$2" "$T/err" || fail "no '$2'"
}

@test "what can't be, with the reason" {
	refused 2 "--object and --filter exclude each other" --object "$E/tenth.bpf.o" --filter user
	refused 2 "--object is for one event" -e cpu-clock -e task-clock --object "$E/tenth.bpf.o"
	refused 2 "--set is for variables of an --object" --filter user --set a=1
	refused 2 "--explain is about a filter" --object "$E/tenth.bpf.o" --explain
	refused 2 "--reorder is about a filter" --object "$E/tenth.bpf.o" --reorder
	refused 2 "no variable 'evry'; nearest: every" --object "$E/tenth.bpf.o" --set evry=1
	refused 1 "it calls samplegate_" --object "$E/heartbeat.bpf.o"
	refused 1 "No such file" --object "$T/nothing.o"
	compile wild <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(wild, ctx)
		{
			volatile int *p = (void *)bpf_get_current_task();
			if (*p == 3)
				bpf_get_prandom_u32();
			return 0;
		}
	C
	refused 1 "program wild: R0 invalid mem access" --object "$T/wild.o"
	compile two <<-'C'
		SEC("perf_event") int SAMPLEGATE_HANDLER(one, ctx) { return 1; }
		SEC("perf_event") int SAMPLEGATE_HANDLER(two, ctx) { return 1; }
	C
	refused 1 'more than one SEC("perf_event") program' --object "$T/two.o"
	compile none <<-'C'
		SEC("raw_tp/sched_switch") int none(void *ctx) { return 0; }
	C
	refused 1 "it has no handler" --object "$T/none.o"
}
