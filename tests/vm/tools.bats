# SPDX-License-Identifier: BSD-2-Clause
# The three tools by what counts exactly, in few runs: a guest takes long to start a program, and the
# verifier longest for the walk by unwind tables, which many runs do without.

load ../live/lib
load ../live/lib2
load hits

E=$SG_BUILD/examples
STATES=$W/states
KERNELGATE=$W/kernelgate

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	need_breakpoints
}

teardown()
{
	[ -z "${CPU1-}" ] || echo 1 >/sys/devices/system/cpu/cpu1/online
	live_teardown
	[ -z "${CGROUP-}" ] || rmdir "$CGROUP" 2>/dev/null || true
}

# mem PROG FUNC: the event of a breakpoint there
mem()
{
	printf 'mem:0x%s:x' "$(nm "$1" | awk -v name="$2" '$3 == name { print $1 }')"
}

# without WHAT COMMAND...: on a kernel that lacks it (insns.c); what is loaded goes to $T/loaded
without()
{
	rm -f "$T/loaded"
	LD_PRELOAD=$SG_BUILD/vm/insns.so INSNS_REFUSE=$1 INSNS_LOG=$T/loaded "${@:2}"
}

loaded()
{
	grep -q "^$1 [0-9]" "$T/loaded" || fail "$1 was not loaded: $(tr '\n' ' ' <"$T/loaded")"
}

of()
{
	local to

	to_file "$@"
	run_tool "$SG_BUILD/overflowfilter" -q "${to[@]}" "$@"
}

gr()
{
	rm -rf "$T/gl"
	run_tool "$SG_BUILD/glitchrec" -q -o "$T/gl" --call-graph fp "$@"
}

# states EVENTS ARGS...: of() with the 97 states, each of which is a hit of each of so many events
states()
{
	hits $(($1 * 97)) of "${@:2}" -- "$STATES"
}

# four A B C D N N N N: of the 97 states four filters keep so many, all in one run
four()
{
	local hit

	hit=$(mem "$STATES" hit)
	states 4 -e "$hit" --filter "$1" -e "$hit" --filter "$2" -e "$hit" --filter "$3" \
		-e "$hit" --filter "$4" "${@:9}"
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	all_hold '.events | all(.seen == 97)' ".events[0].kept == $5" ".events[1].kept == $6" \
		".events[2].kept == $7" ".events[3].kept == $8" '.lost == 0'
}

# ---- gatedprof ----

@test "a gate and its opposite" {
	local marker

	marker=$(mem "$W/duty" marker)
	hits 54 gp -q -e "$marker" -c 1 -g "u:$W/duty:inside" -- "$W/duty"
	assert_done
	all_hold '.kept == 23' '.outside == 31' '.missed == 0'
	assert_all inside
	assert_none outside
	hits 54 gp -q -e "$marker" -c 1 --call-graph fp -g "u:$W/duty:inside" --outside -- "$W/duty"
	assert_done
	all_hold '.kept == 31' '.outside == 23'
	assert_all outside
	assert_none inside
}

@test "openings that never close, by cause" {
	local mode cause n

	# Words on purpose.
	# shellcheck disable=SC2086
	while IFS=: read -r mode cause n; do
		gp -q -F 199 -g "u:$W/escape:gated" -- "$W/escape" $mode
		# 4: one opening may be over without a sample.
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "$mode: exit code $status"
		assert_identity
		# A tick within execve() may find the opening gone before it is told of.
		[ "$mode" != exec ] || n="(1 - .gates[0].recovered_by.unwound)"
		all_hold ".gates[0].recovered_by.$cause == $n" \
			".gates[0].recovered == $(number escapes "$T/cmd")" \
			'.gates[0].unbalanced == 0' '.gates[0].no_room == 0' '.gates[0].forced == 0' \
			".gates[0].entries == $(number entries "$T/cmd")"
	done < <(printf '%s\n' 'longjmp-main:unwound:17' '-S thread-exit:thread_exit:11' 'kill:killed:1' \
		'exec:exec:1')
}

@test "other stacks close nothing" {
	# A signal handler's, many times while inside; those of coroutines, which go on inside.
	gp_ok -q -F 499 -g "u:$W/escape:gated" -- "$W/escape" altstack
	all_hold '.gates[0].entries == 3' '.gates[0].recovered == 0' '.gates[0].unbalanced == 0'
	gp_ok -q -F 499 -g "u:$W/coro:gated" -- "$W/coro"
	all_hold '.gates[0].entries == 47' '.gates[0].recovered == 0' '.gates[0].unbalanced == 0' \
		'.gates[0].no_room == 0'
}

@test "exceptions through a gate harm nothing" {
	"$W/throwing" through >"$T/alone"
	gp_ok -q -F 199 -g "u:$W/throwing:gated" -- "$W/throwing" through
	cmp "$T/alone" "$T/cmd" || fail "it says '$(cat "$T/cmd")'"
	all_hold '.gates[0].entries == 13' '.gates[0].recovered_by.unwound == 13' \
		'.gates[0].unbalanced == 0'
}

@test "return addresses that are replaced: every entry returns, and callers are true" {
	gp_ok -F 199 --unsafe-uretprobe -g "u:$W/uret:gated" -- "$W/uret"
	all_hold '.gates[0].entries == 19' '.gates[0].unbalanced == 0' '.gates[0].recovered == 0'
	[ "$(samples ';gated_leaf;')" -gt 10 ] || fail "hardly a sample"
	[ "$(samples ';gated_leaf;')" -eq "$(samples ';main;true_caller;gated;gated_leaf;')" ] ||
		fail "stacks without the true caller: $(grep ';gated_leaf;' "$T/out.folded" |
			grep -v ';main;true_caller;gated;gated_leaf;' | head -n 3)"
	assert_says 'warning: .*uretprobe'
}

@test "USDT with semaphores" {
	gp_ok -q -F 199 -g "U:$W/usdt:sgtest:begin..U:$W/usdt:sgtest:end" -- "$W/usdt"
	all_hold ".gates[0].entries == $(number begun "$T/cmd")" '.gates[0].entries > 0' \
		'.gates[0].unbalanced == 0'
}

# one_of_two TARGET...: two run at once, and only the first one is meant
one_of_two()
{
	rm -f "$T"/*.go "$T"/*.ready "$T/ready"
	wl one "$KERNELGATE" -i 41 -o 0
	wl other "$KERNELGATE"
	if [ "$1" = process ]; then
		gp_start -q --call-graph fp -e "$marker" -c 1 -p "$(wl_pid one)"
	else
		wl_pid one >"$CGROUP/cgroup.procs"
		gp_start -q --call-graph fp -e "$marker" -c 1 -G "$CGROUP"
	fi
	wl_go one
	wl_go other
	wl_wait one
	wl_wait other
	if [ "$1" = process ]; then gp_wait; else gp_stop; fi
}

in_pid_namespace()
{
	status=0
	unshare --fork --pid --mount-proc "$GP" -q -e "$marker" -c 1 -g syscall:getpgid --outside \
		-o "$T/out.folded" --summary "$T/sum.json" -- "$KERNELGATE" >"$T/cmd" 2>"$T/err" || status=$?
}

@test "this process and no other, this thread, this cgroup, a pid namespace" {
	local marker

	marker=$(mem "$KERNELGATE" marker)
	CGROUP=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/samplegate-$$
	mkdir "$CGROUP"
	hits 41 one_of_two process
	assert_done
	is .kept 41
	hits 41 one_of_two cgroup
	assert_done
	is .kept 41

	hits 54 in_pid_namespace
	assert_done
	all_hold '.kept == 54' '.gates[0].entries == 11'
}

while_a_cpu_goes()
{
	gp_start -q -a -e "$(mem "$KERNELGATE" marker)" -c 1 -g syscall:getpgid --outside
	taskset -c 1 "$KERNELGATE"
	echo 0 >/sys/devices/system/cpu/cpu1/online
	taskset -c 0 "$KERNELGATE" -i 100 -o 0
	echo 1 >/sys/devices/system/cpu/cpu1/online
	taskset -c 0 "$KERNELGATE" -i 1000 -o 0
	gp_stop
}

@test "a CPU that goes and comes back" {
	[ -e /sys/devices/system/cpu/cpu1/online ] || skip "no CPU hotplug: CPU 1 can't be taken offline"
	CPU1=1
	hits 1154 while_a_cpu_goes
	assert_done
	[ "$(samples '^kernelgate;')" -eq 1154 ] || fail "$(samples '^kernelgate;') samples"
	is '.gates[0].entries' 33
}

# ---- overflowfilter ----

@test "filters about the thread, and terms put together" {
	four 'comm == "changed"' 'prio == 125' 'uid == 4343' 'every 3' 41 33 9 31 \
		--call-graph fp
	four 'comm == "changed" || policy == batch' '(comm == "changed" || prio == 125) && !(uid == 4343)' \
		'comm in {"nobody", "changed"}' 'period == 1' 51 53 41 97 --call-graph fp
}

@test "filters about code, of a process that has just begun, and with a gate" {
	four 'stack has "path_a"' 'stack has "path_[b]"' "inside \"u:$STATES:path_a\"" \
		"!inside \"u:$STATES:path_b\"" 49 48 49 49
	all_hold '.late == .late_kept + .late_filtered' '.late_unknown == 0'
}

# filter_known WHAT OPTIONS...: a process that is there already, on a kernel that lacks it
filter_known()
{
	local hit

	hit=$(mem "$STATES" hit)
	rm -f "$T"/s.* "$T/ready"
	wl s "$STATES"
	without "$1" start_tool "$SG_BUILD/overflowfilter" -q -o "$T/out.folded" -p "$(wl_pid s)" "${@:2}" \
		-e "$hit" --filter 'stack has "path_a"' -e "$hit" --filter 'ip in "hit" && !(ip in DSO "libc*")' \
		-e "$hit" --filter 'exe ~ "*/states"'
	wl_go s
	wl_wait s
	gp_wait
}

known()
{
	hits $((3 * 97)) filter_known "$@"
	assert_done
	all_hold '.late == 0' '.events[0].kept == 49' '.events[1].kept == 97' '.events[2].kept == 97'
}

@test "filters about code of a known process: mappings by fentry, kprobe and system calls" {
	known ''
	# 5.10 can't have it traced: there the calls stand in.
	if ! grep -qx perf_event_mmap /sys/kernel/tracing/available_filter_functions; then
		loaded note_mmap_call
		loaded note_mprotect_c
		return
	fi
	loaded note_mmap_fentr
	known tracing --call-graph fp
	loaded note_mmap_kprob
	known tracing,note_mmap_kprob --call-graph fp
	loaded note_mmap_call
}

@test "what only the kernel's own sample has: exact, or refused" {
	local hit

	hit=$(mem "$STATES" hit)
	if grep -q bpf_cast_to_kern_ctx /proc/kallsyms; then
		four 'id != 0' 'addr == 0' 'code_pgsz == 4K' 'addr != 0' 97 0 97 97 --call-graph fp
	else
		of -e "$hit" --filter 'id != 0' -- "$STATES"
		[ "$status" -eq 3 ] || fail "exit code $status"
		assert_says 'id'
	fi
}

@test "the kernel's own samples of what is kept" {
	command -v perf >/dev/null || skip "no perf"
	states 1 -e "$(mem "$STATES" hit)" --filter 'comm == "changed"' --emit chain \
		--perf-data "$T/p.data"
	[ "$status" -eq 0 ] || fail "exit code $status"
	all_hold '.kept == 41' '.filtered == 56' '.chain_written == 41' '.chain_lost == 0'
	HOME=$T perf script -F comm,sym -i "$T/p.data" >"$T/perf" 2>"$T/perr" </dev/null
	[ ! -s "$T/perr" ] || fail "perf warned: $(cat "$T/perr")"
	[ "$(grep -c '^ *changed *$' "$T/perf")" -eq 41 ] || fail "perf: $(head -n 5 "$T/perf")"
}

@test "a user's handler decides" {
	states 1 -e "$(mem "$STATES" hit)" --object "$E/tenth.bpf.o" --set every=1
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	all_hold '.seen == 97' '.kept == 88' '.filtered == 9'
}

# ---- glitchrec ----

@test "frames with a deadline point: who passes it is a glitch" {
	gr -g "u:$W/frames:frame" --deadline "u:$W/frames:culprit_7" -- "$W/frames" mix
	[ "$status" -eq 0 ] || fail "exit code $status"
	all_hold '.glitches == 1' '.frames == 523' '.unbalanced == 0' '.abandoned == 0' '.saved > 0' \
		'.seen == .kept + .outside + .filtered + .lost'
	grep -q culprit_7 "$T/gl/000001.folded" || fail "it is not there"
}

@test "frames by argument that change threads, in both modes" {
	local mode

	for mode in flight arm; do
		gr --mode $mode -g "u:$W/frames:begin_request..u:$W/frames:end_request" --key arg0 \
			--threshold 5ms -- "$W/frames" handoff
		[ "$status" -eq 0 ] || fail "exit code $status"
		all_hold '.frames == 11' '.glitches == 11' '.unbalanced == 0' '.abandoned == 0' '.kept > 0'
	done
}

@test "frames that never end, by cause" {
	local mode cause n

	# Words on purpose.
	# shellcheck disable=SC2086
	while IFS=: read -r mode cause n; do
		gr --call-graph auto -g "u:$W/escape:gated" --threshold 100s -- "$W/escape" $mode
		[ "$status" -eq 4 ] || fail "$mode: exit code $status"
		all_hold ".abandoned == $n" ".abandoned_by.$cause == $n"
	done < <(printf '%s\n' 'longjmp-main:unwound:17' '-S thread-exit:thread_exit:11' 'kill:killed:1')
}

@test "frames by system calls and by tracepoints" {
	gr -g syscall:getpgid --threshold 100s -- "$KERNELGATE"
	[ "$status" -eq 4 ] || fail "exit code $status"
	all_hold '.frames == 11' '.unbalanced == 0'
	gr -g t:syscalls:sys_enter_getpgid..t:syscalls:sys_exit_getsid --key pid --threshold 100s -- "$KERNELGATE"
	all_hold '.frames == 11' '.unbalanced == 0'
}

@test "a user's model of glitches" {
	gr --object "$E/heartbeat.bpf.o" --set name=states --set beat_ns=100000000000 -- "$STATES"
	[ "$status" -eq 4 ] || fail "exit code $status"
	all_hold '.frames > 97' '.glitches == 0'
}
