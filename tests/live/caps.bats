# SPDX-License-Identifier: BSD-2-Clause
# What each tool needs, found out by giving a user exactly that and nothing else; and what is said
# where one of these is missing.

load lib
load glitch
load faults

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# Everything is where that user may read and write.
setup_shared()
{
	LIMIT=()
	SHARED=$(mktemp -d /tmp/caps.XXXXXX)
	chmod 777 "$SHARED"
	install -m 755 "$SG_BUILD"/{gatedprof,glitchrec,overflowfilter} "$W/duty" "$SHARED"
	duty=$SHARED/duty
	cd "$SHARED" || return 1
}

teardown()
{
	live_teardown
	cd /
	[ -z "${SHARED-}" ] || rm -rf "$SHARED"
}

# with CAPS TOOL ARGS...: as a user who has these capabilities (bpf,perfmon) and no others; sets $status
with()
{
	local caps=-all,+${1//,/,+} tool=$2 out=(-o "$SHARED/out.folded")

	[ "$tool" != glitchrec ] || out=(-o "$SHARED/gl")
	rm -rf "$SHARED"/{out.folded,sum.json,gl}
	status=0
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps="$caps" --ambient-caps="$caps" \
		--bounding-set="$caps" "${LIMIT[@]}" "$SHARED/$tool" "${out[@]}" --summary "$SHARED/sum.json" \
		"${@:3}" >"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	[ ! -e "$SHARED/out.folded" ] || cp "$SHARED/out.folded" "$T"
	[ ! -e "$SHARED/sum.json" ] || cp "$SHARED/sum.json" "$T"
}

works()
{
	with "$@"
	[ "$status" -eq 0 ] || fail "$*: exit code $status"
	holds '.seen == .kept + .outside + .filtered + .lost'
}

# lacks ERE CAPS TOOL ARGS...: exit code 3, one line that names it, nothing written
lacks()
{
	with "${@:2}"
	[ "$status" -eq 3 ] || fail "${*:2}: exit code $status"
	grep -qE -e "^$3: .*$1" "$T/err" || fail "does not say $1"
	[ "$(wc -l <"$T/err")" -eq 1 ] || fail "not one line"
	[ -z "$(find "$SHARED" -name out.folded -o -name sum.json)" ] || fail "wrote something"
}

BASE=bpf,perfmon

@test "CAP_BPF and CAP_PERFMON are enough for each tool, its gates and filters; each is missed" {
	local tool n=0 args

	setup_shared
	for tool in gatedprof glitchrec overflowfilter; do
		case $tool in
		gatedprof) args=(-F 999 -g "u:$duty:inside") ;;
		glitchrec) args=(-g "u:$duty:inside" --threshold 1ms) ;;
		overflowfilter)
			args=(-F 999 --filter 'comm == "duty" && stack has "inside"' --emit both
				--perf-data "$SHARED/p.data")
			;;
		esac
		works $BASE $tool "${args[@]}" -- "$duty" -n 20
		if [ $tool = glitchrec ]; then
			is .glitches 20
		else
			assert_some inside 5
		fi
		lacks '\(missing: CAP_PERFMON\)' bpf $tool "${args[@]}" -- "$duty" -n 20
		lacks '\(missing: CAP_BPF\)' perfmon $tool "${args[@]}" -- "$duty" -n 20
		n=$((n + 1))
	done
	[ $n -eq 3 ]
}

@test "CAP_SYS_ADMIN alone stands for both, as on kernels before 5.8" {
	setup_shared
	works sys_admin gatedprof -F 999 -g "u:$duty:inside" -- "$duty" -n 20
	assert_some inside 5
}

@test "tracepoints and system calls: CAP_DAC_READ_SEARCH, for tracefs" {
	setup_shared
	[ -e /sys/kernel/tracing/events/syscalls ] || skip "no syscall tracepoints"
	lacks 'CAP_DAC_READ_SEARCH' $BASE gatedprof -g syscall:clock_nanosleep -- "$duty" -n 20
	lacks 'CAP_DAC_READ_SEARCH' $BASE glitchrec -g syscall:write --threshold 1s -- "$duty" -n 20
	works $BASE,dac_read_search gatedprof -F 499 --outside -g syscall:getppid -- "$duty" -n 20
	# That it is no other capability's doing: a misspelt one is still misspelt.
	with $BASE,dac_read_search gatedprof -g syscall:getpppid -- "$duty"
	[ "$status" -eq 1 ] || fail "exit code $status"
	assert_says "no syscall 'getpppid'; nearest: .*getppid"
}

@test "names of other users' processes: CAP_SYS_PTRACE" {
	setup_shared
	cp "$duty" "$SHARED/gone"
	wl t "$duty" -n 1000000
	wl gone "$SHARED/gone" -n 1000000
	rm "$SHARED/gone"
	wl_go t
	wl_go gone
	works $BASE gatedprof -F 999 -p "$(wl_pid t)" 600ms
	# Since 6.13 CAP_PERFMON is enough for the mappings, if not for files of other mount namespaces.
	if setpriv --reuid 65534 --clear-groups --inh-caps=-all,+perfmon --ambient-caps=-all,+perfmon \
		--bounding-set=-all,+perfmon cat "/proc/$(wl_pid t)/maps" >/dev/null 2>&1; then
		[ "$(samples '^duty;.*;(in|out)side_leaf[; ]')" -gt 0 ] || fail "no names"
	else
		assert_says 'CAP_SYS_PTRACE'
		[ "$(samples ';(in|out)side_leaf[; ]')" -eq 0 ] || fail "names without the capability"
	fi
	works $BASE,sys_ptrace gatedprof -F 999 -p "$(wl_pid t),$(wl_pid gone)" 600ms
	if grep CAP_SYS_PTRACE "$T/err"; then
		fail "still asks for it"
	fi
	[ "$(samples '^duty;.*;(in|out)side_leaf[; ]')" -gt 0 ] || fail "no names"
	[ "$(samples '^gone;.*;(in|out)side_leaf[; ]')" -eq 0 ] || fail "names of a deleted file"
	# The target's executable as a gate's file.
	lacks 'CAP_SYS_PTRACE' $BASE gatedprof -p "$(wl_pid t)" -g u::inside 300ms
	works $BASE,sys_ptrace gatedprof -F 999 -p "$(wl_pid t)" -g u::inside 300ms
	holds '.gates[0].entries > 0'
}

@test "names of kernel functions: CAP_SYSLOG, unless the kernel shows them to everybody" {
	[ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 1 ] || [ "$(cat /proc/sys/kernel/kptr_restrict)" -ne 0 ] ||
		skip "kernel addresses are shown to everybody"
	setup_shared
	works $BASE gatedprof -F 999 -- bash -c 'for ((i = 0; i < 300; i++)); do (:); done'
	assert_says 'in \[kernel\] \(addresses are hidden: CAP_SYSLOG'
	[ "$(samples '_\[k\]')" -eq "$(samples '\[unknown\]_\[k\]')" ] || fail "kernel functions have names"
	works $BASE,syslog gatedprof -F 999 -- bash -c 'for ((i = 0; i < 300; i++)); do (:); done'
	[ "$(samples '(sys|fork|clone|copy)[a-z0-9_]*_\[k\]')" -gt 0 ] || fail "no names"
}

@test "rings beyond the memory that may be locked: CAP_IPC_LOCK" {
	setup_shared
	LIMIT=(prlimit --memlock=0:0)
	lacks 'CAP_IPC_LOCK' $BASE gatedprof -m 4096 -- "$duty" -n 20
	lacks 'CAP_IPC_LOCK' $BASE glitchrec --ring-size 16M -g "u:$duty:inside" --threshold 1ms -- "$duty" -n 20
	works $BASE,ipc_lock gatedprof -m 4096 -- "$duty" -n 20
}
