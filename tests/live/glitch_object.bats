# SPDX-License-Identifier: BSD-2-Clause
# glitchrec with users' own models (--object) in place of -g.

load glitch

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

# A frame of the workload by two probes of the object's own.
two_probes()
{
	cat <<-C
		const volatile __u64 limit_ns = 0;
		struct {
			__uint(type, BPF_MAP_TYPE_HASH);
			__uint(max_entries, 64);
			__type(key, __u32);
			__type(value, __u64);
		} frames SEC(".maps");
		SEC("uprobe/$W/frames:frame") int begin(void *ctx)
		{
			__u32 tid = bpf_get_current_pid_tgid();
			__u64 now = bpf_ktime_get_ns();
			bpf_map_update_elem(&frames, &tid, &now, BPF_ANY);
			return samplegate_begin(tid);
		}
		SEC("uretprobe/$W/frames:frame") int end(void *ctx)
		{
			__u32 tid = bpf_get_current_pid_tgid();
			__u64 *begun = bpf_map_lookup_elem(&frames, &tid);
			if (limit_ns && begun && bpf_ktime_get_ns() - *begun > limit_ns)
				samplegate_glitch(tid);
			return samplegate_end(tid);
		}
	C
}

@test "begin and end by a user's probes, and --threshold: the slow ones, no others" {
	two_probes | compile two
	gr_ok -q --object "$T/two.o" --threshold 10ms --min-interval 0 -- "$W/frames" mix
	exact "$T/cmd" 10000000
	is .frames 523
	[ "$(glitches . | wc -l)" -ge 23 ] || fail "only $(glitches . | wc -l) glitches"
	[ "$(glitches 'select(.key.kind != "object" or .coverage != 1)' | wc -l)" -eq 0 ] || fail "key or coverage"
}

@test "what a glitch is says the model: without --threshold, by its own rule" {
	two_probes | compile two
	gr_ok -q --object "$T/two.o" --set limit_ns=10000000 -- "$W/frames" mix
	exact "$T/cmd" 10000000
	is .frames 523
	[ "$(glitches . | wc -l)" -ge 23 ] || fail "only $(glitches . | wc -l) glitches"

	# and the rule that nothing is slow
	rm -r "$T/gl"
	gr -q --object "$T/two.o" -- "$W/frames" mix
	[ "$status" -eq 4 ] || fail "exit code $status"
	is .frames 523
	is .glitches 0
}

@test "a frame that is over can't be made a glitch: -ENOENT" {
	# Any other answer begins a frame that nobody ends.
	compile over <<-C
		SEC("uprobe/$W/frames:frame") int begin(void *ctx)
		{
			return samplegate_begin(7);
		}
		SEC("uretprobe/$W/frames:frame") int end(void *ctx)
		{
			if (samplegate_glitch(8) != -2)
				samplegate_begin(9);
			samplegate_end(7);
			if (samplegate_glitch(7) != -2)
				samplegate_begin(9);
			return 0;
		}
	C
	gr -q --object "$T/over.o" -- "$W/frames" fast -t 200
	[ "$status" -eq 4 ] || fail "exit code $status"
	holds ".frames > 50 and .frames == $(number frames "$T/cmd")"
	is .gates[0].entries "$(number frames "$T/cmd")"
	is .abandoned 0
}

@test "the heartbeat: each silence is a glitch, and the report says where it slept" {
	# five silences of 200 ms, seen by others
	gr_ok -q --object "$E/heartbeat.bpf.o" --set name=beater --set beat_ns=20000000 -- \
		perl -e '$0 = "beater"; for (1 .. 300) { select(undef, undef, undef, $_ % 60 ? 0.002 : 0.2) }'
	[ "$(over 'select(.duration_ns > 190000000)' | wc -l)" -eq 5 ] ||
		fail "not five silences: $(over .duration_ns | tr '\n' ' ')"
	[ "$(over 'select(.duration_ns < 60000000)' | wc -l)" -eq 0 ] || fail "three beats are 60 ms"
	[ "$(over 'select(.duration_ns > 190000000 and .blocked.total_ns > 180000000) |
		select([.blocked.stack[] | select(test("select"))] | length > 0)' | wc -l)" -eq 5 ] ||
		fail "where it slept: $(over .blocked)"
	[ "$(field .frames)" -ge 290 ] || fail "$(field .frames) frames"
}

@test "only the frames of targets" {
	local pid

	two_probes | compile two
	wl f "$W/frames" -t 600 many
	wl g "$W/frames" -t 600 many
	pid=$(wl_pid f)
	gr_start -q --object "$T/two.o" --threshold 1ms -p "$pid"
	wl_go f
	wl_go g
	wl_wait f
	wl_wait g
	gp_wait
	gr_done
	[ "$(glitches . | wc -l)" -gt 10 ] || fail "$(glitches . | wc -l) glitches"
	[ "$(glitches "select(.pid != $pid)" | wc -l)" -eq 0 ] || fail "another process's frames"
	[ "$(field .frames)" -eq "$(glitches 'select(.state != "hanging")' | wc -l)" ] || fail "frames of others were counted"
}

# refused CODE TEXT ARGS...
refused()
{
	gr "${@:3}" -- true
	[ "$status" -eq "$1" ] || fail "exit code $status, expected $1"
	grep -qF -- "$2" "$T/err" || fail "no '$2'"
	[ ! -e "$T/gl/index.jsonl" ] || [ -z "$(glitches .)" ] || fail "it has begun"
}

@test "what can't be, with the reason" {
	two_probes | compile two
	refused 2 "--object and -g exclude each other" --object "$T/two.o" -g syscall:read
	refused 2 "--object and --key exclude each other" --object "$T/two.o" --key pid
	refused 2 "--object and --deadline exclude each other" --object "$T/two.o" --deadline k:x
	refused 2 "--set is for variables of an --object" -g syscall:read --threshold 1ms --set a=1
	refused 2 "no variable 'limit'" --object "$T/two.o" --set limit=1
	refused 1 "No such file" --object "$T/nothing.o"
	refused 1 "it calls samplegate_" --object "$E/tenth.bpf.o"
	sed 's/:frame"/:no_such_function"/' <(two_probes) | compile nowhere
	refused 1 "cannot be attached to SEC(\"uprobe/" --object "$T/nowhere.o" --threshold 1ms
	compile wild <<-'C'
		SEC("raw_tp/sched_switch") int wild(void *ctx)
		{
			volatile int *p = (void *)bpf_get_current_task();
			if (*p == 3)
				samplegate_begin(0);
			return 0;
		}
	C
	refused 1 "program wild: R0 invalid mem access" --object "$T/wild.o" --threshold 1ms
}
