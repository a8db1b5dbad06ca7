# SPDX-License-Identifier: BSD-2-Clause
# What this machine, these privileges or these limits refuse: the exit code, and one line that says
# what was tried, on what, why it failed and what to do. What changes the machine is in live/.

load lib

SHARED=

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	live_teardown
	[ -z "$SHARED" ] || rm -rf "$SHARED"
}

# build NAME FLAGS...: $T/NAME from the C source on stdin
build()
{
	gcc -O1 -x c -o "$T/$1" "${@:2}" - || fail "cannot build $1"
}

has_pmu()
{
	# The same question as in allowed-skips.
	# shellcheck disable=SC2010
	ls /sys/bus/event_source/devices | grep -qxE 'cpu|cpu_core|armv8_.*'
}

# An output that was there, for runs that fail late.
keep()
{
	echo before >"$T/kept"
}

assert_kept()
{
	local left

	[ "$(cat "$T/kept")" = before ] || fail "the output of a failed run was touched"
	left=$(find "$T" -name '.samplegate-*')
	[ -z "$left" ] || fail "left behind: $left"
}

# ---- privileges ----

@test "not root: names both capabilities, and the way out" {
	SHARED=$(mktemp -d /tmp/refused.XXXXXX)
	chmod 755 "$SHARED"
	install -m 755 "$GP" "$SHARED/gatedprof"
	says 3 "not privileged: .*CAP_BPF and CAP_PERFMON \(missing: CAP_BPF, CAP_PERFMON\).*as root" \
		setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--bounding-set=-all "$SHARED/gatedprof" 1
	# What is wrong on the command line is told without any.
	says 2 "-F '0': " setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--bounding-set=-all "$SHARED/gatedprof" -F 0
}

@test "root without a capability: names the one that is missing" {
	says 3 "not privileged: .*\(missing: CAP_PERFMON\)" \
		setpriv --inh-caps=-perfmon,-sys_admin --bounding-set=-perfmon,-sys_admin "$GP" 1
	says 3 "not privileged: .*\(missing: CAP_BPF\)" \
		setpriv --inh-caps=-bpf,-sys_admin --bounding-set=-bpf,-sys_admin "$GP" 1
}

# ---- events ----

@test "a tracepoint is no sampling event, but can be a gate" {
	fails 2 "-e: 'sched:sched_switch' is a tracepoint, .*gate on the tracepoint, as in -g t:" \
		-e sched:sched_switch 1
	fails 2 "-e: 't:sched:sched_switch' is a tracepoint, .*-g t:" -e t:sched:sched_switch 1
}

@test "events that are none" {
	fails 2 "-e: 'foo' is no event: write cycles, cpu-clock" -e foo 1
	fails 2 "-e: 'cpu-clok' is no event: did you mean .*'cpu-clock'" -e cpu-clok 1
	fails 2 "-e: 'cpu-clock:q' has an unknown modifier 'q'" -e cpu-clock:q 1
	fails 2 "-e: 'cpu-clock:' ends in an empty modifier" -e cpu-clock: 1
	fails 2 "-e: 'cpu-clock:p' asks for precise samples" -e cpu-clock:p 1
}

@test "a hardware event on a machine without a PMU" {
	! has_pmu || skip "a hardware PMU works here"
	fails 3 "-e cycles: this machine has no hardware PMU .*: use -e cpu-clock" -e cycles 1
	fails 3 "-e instructions:u: this machine has no hardware PMU .*: use -e cpu-clock" \
		-e instructions:u 1
}

@test "a kernel function where the kernel lets nobody watch one" {
	[ ! -e /sys/bus/event_source/devices/kprobe ] || skip "kprobes work here"
	fails 3 "-g k:vfs_read: .*'vfs_read' .*tried fentry \(.+\) and kprobe \(.+\); use syscall:NAME or a tracepoint \(t:" \
		-g k:vfs_read 1
	fails 3 "-g k:vfs_read\.\.kr:vfs_write: .*tried fentry \(.+\) and kprobe \(.+\)" \
		-g k:vfs_read..kr:vfs_write 1
}

# ---- functions ----

@test "an ambiguous C++ name: all that it could mean are listed" {
	g++ -O1 -x c++ -o "$T/two" - <<-'END'
		__attribute__((noinline)) int twice(int x) { asm volatile(""); return x + 1; }
		__attribute__((noinline)) int twice(long x) { asm volatile(""); return x + 2; }
		int main(int n, char **) { return twice(n) + twice((long)n) - 5; }
	END
	fails 2 "-g: 'twice' names 2 functions in .*twice\((int|long)\).*twice\((long|int)\).*: spell" \
		-g "u:$T/two:twice" 1
	# Spelled out, it is one: the run gets as far as its output.
	fails 1 "-o: " -g "u:$T/two:twice(int)" -o "$T/no/where" 1
}

@test "a function that cannot be decoded: where, with its bytes; uretprobe is offered, not taken" {
	[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
	build odd <<-'END'
		__attribute__((noinline)) int odd(int x)
		{
			__asm__ volatile("xor %%eax, %%eax; jns 1f; .byte 0x06; 1:" ::: "eax", "cc");
			return x + 1;
		}
		int main(int n, char **v) { return odd(n) - 2; }
	END
	"$T/odd"
	fails 1 "-g: cannot find where 'odd' in $T/odd returns: .* at \+0x[0-9a-f]+, bytes 06 .*; --unsafe-uretprobe .*breaks" \
		-g "u:$T/odd:odd" 1
}

@test "a stripped static program has no names to gate on" {
	build bare -static -s <<<'int main(void) { return 0; }'
	fails 1 "-g: no function 'main' in $T/bare, which has no symbols at all \(stripped\): " \
		-g "u:$T/bare:main" 1
}

# ---- targets ----

@test "-p with the id of a thread: says whose, and offers both" {
	local list pid tid=

	wl w "$W/writer" -m null -t 30000
	pid=$(wl_pid w)
	wl_go w
	until [ -n "$tid" ]; do
		list=$(ls "/proc/$pid/task")
		tid=$(sed "/^$pid\$/d" <<<"$list" | head -n 1)
	done
	fails 2 "-p $tid: that is a thread of process $pid: -p $pid .*-t $tid" -p "$tid" 1
}

@test "CPUs that do not exist" {
	local last

	last=$(sed 's/.*[-,]//' /sys/devices/system/cpu/possible)
	fails 2 "-C: there is no CPU $((last + 1)), they are 0 to $last" -C $((last + 1)) 1
	fails 2 "-C: there is no CPU $((last + 1)), they are 0 to $last" -C "0-$((last + 7))" 1
}

@test "a command whose interpreter is missing: told when it is started, with nothing written" {
	echo '#!/no/interpreter' >"$T/script"
	chmod 755 "$T/script"
	keep
	fails 1 "cannot run '$T/script': No such file or directory" -q -o "$T/kept" -- "$T/script"
	assert_kept
}

# ---- outputs ----

# The command starts burning only when the reader has closed its end.
@test "a reader that is gone: a failure, no death by SIGPIPE" {
	local -a rc

	mkfifo "$T/gone"
	# shellcheck disable=SC2016 # the inner shell's
	"$GP" -q -F 997 -- sh -c 'read -r x <"$0"; exec "$1" -t 200 >/dev/null' "$T/gone" "$W/spin" \
		2>"$T/err" </dev/null 3>&- 4>&- | {
		exec <&-
		echo gone >"$T/gone"
	}
	rc=("${PIPESTATUS[@]}")
	[ "${rc[0]}" -eq 1 ] || fail "exit code ${rc[0]}"
	assert_says "^gatedprof: -o: cannot write to standard output: Broken pipe"
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "more than one line"
}

@test "outputs that cannot be opened: nothing is started" {
	local option other

	keep
	for option in -o --samples --summary; do
		other=(-o "$T/kept")
		# There is one -o.
		[ $option != -o ] || other=(--summary "$T/kept")
		fails 1 "$option: cannot write to $T/no/where: No such file or directory" \
			"${other[@]}" $option "$T/no/where" -- touch "$T/ran"
		fails 1 "$option: cannot write to $T: Is a directory" \
			"${other[@]}" $option "$T" -- touch "$T/ran"
		[ ! -e "$T/ran" ] || fail "the command ran"
		assert_kept
	done
	status=0
	"$GP" -q -- touch "$T/ran" >&- 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	[ "$status" -eq 1 ] || fail "exit code $status"
	assert_says "^gatedprof: -o: cannot write to standard output: Bad file descriptor"
	[ ! -e "$T/ran" ] || fail "the command ran"
}

# ---- limits ----

# From the first descriptor that is opened to the last.
@test "too few descriptors, at every place where they can run out" {
	local n bad=0

	keep
	for ((n = 6; n < 200; n++)); do
		status=0
		prlimit --nofile=$n:$n "$GP" -q -o "$T/kept" -g "u:$W/duty:inside" -- true \
			>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
		# Enough: it ran, and found nothing in "true".
		[ "$status" -ne 4 ] || break
		assert_kept
		[ "$status" -eq 1 ] && grep -q '^gatedprof: .*ulimit -n' "$T/err" && continue
		echo "with $n: exit code $status: $(cat "$T/err")" >&2
		bad=$((bad + 1))
	done
	[ $n -gt 20 ] || fail "$n descriptors are enough, which is hard to believe"
	[ $n -lt 200 ] || fail "200 descriptors are not enough"
	[ $bad -eq 0 ] || fail "$bad limits without a hint"
}

# ---- nothing matched ----

# Three openings of microseconds in 300 ms: that a sample hits one is as good as excluded.
@test "a gate that opened too briefly: how long, next to the time between samples" {
	build once <<-'END'
		#include <time.h>
		static volatile unsigned long n;
		__attribute__((noinline)) void gated(void) { n++; }
		int main(void)
		{
			struct timespec t;
			for (int i = 0; i < 3; i++)
				gated();
			do
				clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
			while (t.tv_sec == 0 && t.tv_nsec < 300000000);
			return 0;
		}
	END
	gp -F 100 -g "u:$T/once:gated" -- "$T/once"
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is '.gates[0].opens' 3
	assert_says "^gatedprof: the gate opened 3 times for .* no sample fell inside: a typical opening lasts [0-9.]+ [un]s and a sample is taken every 10(\.0+)? ms; raise -F"
}

@test "a rate so low that no sample falls at all: what to do about it" {
	gp -F 1 -g "u:$W/idlegate:gated" -- "$W/idlegate" -n 20 brief
	[ "$status" -eq 4 ] || fail "exit code $status"
	is '.gates[0].opens' 20
	assert_says "^gatedprof: .*no sample.*(raise -F|run longer)"
}
