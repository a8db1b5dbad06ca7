# SPDX-License-Identifier: BSD-2-Clause
# However a run ends, what it wrote is whole, and nothing of it is left in the kernel.

load lib
load lib2

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	[ -z "$GP_PID" ] || kill -CONT "$GP_PID" 2>/dev/null || true
	live_teardown
}

# ---- what is in the kernel ----

# Notes the ids of every program, map and link that the tool holds.
note_kernel()
{
	local kind

	for kind in prog map link; do
		cat "/proc/$GP_PID/fdinfo/"* 2>/dev/null | sed -n "s/^${kind}_id:[[:space:]]*//p" |
			sort -un >"$T/ids.$kind"
		[ -s "$T/ids.$kind" ] || fail "the tool holds no $kind"
	done
	# So that an empty list later is no accident of how it is read.
	kernel_has || fail "what the tool holds is not listed"
	orphans >/dev/null
	grep -qE '^prog_id [0-9]+ sample_' "$T/listed" || fail "no program of our names is listed"
	grep -qE '^map_id [0-9]+ openings' "$T/listed" || fail "no map of our names is listed"
	sed 's/^/prog_id /; s/$/ /' "$T/ids.prog" | grep -qxFf - "$T/held" || fail "holds no program"
}

# True while the kernel still has any of what was noted.
kernel_has()
{
	local kind

	for kind in prog map link; do
		bpftool -j "$kind" list 2>/dev/null | jq -r '.[].id' | grep -qxFf "$T/ids.$kind" &&
			return 0
	done
	return 1
}

# Programs and maps are freed a while after the last descriptor is closed.
assert_kernel_clean()
{
	local i

	for ((i = 0; i < 500; i++)); do
		kernel_has || break
	done
	if kernel_has; then
		fail "left in the kernel: $(bpftool prog list; bpftool map list; bpftool link list)"
	fi
	[ -z "$(grep -F "$W/" /sys/kernel/tracing/uprobe_events)" ] || fail "uprobe_events"
	# Nor, under whatever id, anything of our names that no process holds (others may be at work).
	for ((i = 0; i < 50; i++)); do
		orphans >"$T/orphans"
		[ -s "$T/orphans" ] || return 0
	done
	fail "of ours, and held by nobody: $(cat "$T/orphans")"
}

# The kernel has the first 15 characters of a name.
OUR_PROGS='sample_(vma|plain)|frame_(open|ret|uret|jump)_(vma|plain?)|on_(exit|exec|fork)'
OUR_PROGS+='|(probe|tracepoint|fentry|fexit)_(open|close?)|force_close'
OUR_MAPS='openings|gate_(stats|infos|exits|ranges)|levels|(cpu_)?scopes|scope_opens|start_closed'

orphans()
{
	{
		bpftool -j prog list | jq -r '.[] | "prog_id \(.id) \(.name)"' |
			grep -E " ($OUR_PROGS)\$" || true
		bpftool -j map list | jq -r '.[] | "map_id \(.id) \(.name)"' |
			grep -E " ($OUR_MAPS)\$" || true
	} >"$T/listed"
	cat /proc/[0-9]*/fdinfo/* 2>/dev/null |
		sed -n 's/^\(prog_id\|map_id\):[[:space:]]*\([0-9]*\)$/\1 \2 /p' >"$T/held" || true
	grep -vFf "$T/held" "$T/listed" || true
}

# No breakpoint is left in the gated function: the target's own copy is what the file has.
assert_text_whole()
{
	local pid=$1 func=$2 prog=$3 sym start offset

	sym=$(nm "$prog" | awk -v f="$func" '$3 == f { print $1 }')
	start=$(awk '{ split($1, a, "-"); print a[1]; exit }' "/proc/$pid/maps")
	offset=$((0x$sym))
	cmp <(dd if="/proc/$pid/mem" bs=1 skip=$((0x$start + offset)) count=16 status=none) \
		<(dd if="$prog" bs=1 skip="$offset" count=16 status=none) ||
		fail "$func of $pid is not as in $prog"
}

# ---- the moment ----

# Until the tool's rings have BYTES more than nothing; 60 s are far beyond what any machine needs.
until_written()
{
	local bytes=$1 end=$((SECONDS + 60))

	while [ $SECONDS -lt $end ]; do
		"$W/ringhead" -p "$GP_PID" -m 32 >"$T/heads" || fail "ringhead: $?"
		[ "$(number sum "$T/heads")" -lt "$bytes" ] || return 0
	done
	fail "only $(number sum "$T/heads") of $bytes bytes were written"
}

# start_spinning ARGS...: the tool on a program that is always inside its gate
start_spinning()
{
	wl a "$W/spin" -t 200000
	gp_start -m 32 -F 997 -g "u:$W/spin:spin_leaf" -p "$(wl_pid a)" "$@"
	note_kernel
	wl_go a
}

end_spinning()
{
	kill -9 "${WL_PID[a]}"
	wait "${WL_PID[a]}" || true
	unset "WL_PID[a]"
	rm -f "$T/a.go" "$T/a.ready" "$T/ready"
}

assert_folded()
{
	[ -e "$T/out.folded" ] || fail "no output"
	if grep -vE '^[^;]+(;[^;]+)* [0-9]+$' "$T/out.folded"; then
		fail "lines that are no folded stacks"
	fi
	is .kept "$(samples '')"
}

assert_no_temp()
{
	local left

	left=$(find "$T" -name '.*' -type f)
	[ -z "$left" ] || fail "left: $left"
}

# ends_whole SIGNAL BYTES: the signal comes when so much was sampled
ends_whole()
{
	start_spinning
	until_written "$2"
	kill "-$1" "$GP_PID"
	gp_wait
	if [ "$2" -gt 0 ]; then
		[ "$status" -eq 0 ] || fail "$1 after $2 bytes: exit code $status"
		holds '.kept > 0'
	else
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "$1 at once: exit code $status"
	fi
	assert_identity
	is .lost 0
	assert_folded
	assert_no_temp
	assert_kernel_clean
	assert_text_whole "$(wl_pid a)" spin_leaf "$W/spin"
	end_spinning
}

@test "SIGINT and SIGTERM as soon as it is ready" {
	ends_whole INT 0
	ends_whole TERM 0
}

@test "SIGINT and SIGTERM after some samples" {
	local i

	RANDOM=4711
	for i in 1 2 3; do
		ends_whole INT $((RANDOM % 60000 + 1))
		ends_whole TERM $((RANDOM % 60000 + 1))
	done
}

@test "SIGINT twice: the second does not break the output" {
	start_spinning
	until_written 20000
	kill -INT "$GP_PID"
	kill -INT "$GP_PID" 2>/dev/null || true
	gp_wait
	[ "$status" -eq 0 ] || fail "exit code $status"
	assert_identity
	assert_folded
	assert_kernel_clean
}

@test "a COMMAND is ended with the run" {
	local pid

	gp_start -F 997 -g "u:$W/spin:spin_leaf" -- "$W/spin" -t 200000
	note_kernel
	pid=$(pgrep -P "$GP_PID")
	[ -n "$pid" ]
	gp_stop
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	[ ! -e "/proc/$pid" ] || fail "COMMAND is still there"
	assert_kernel_clean
}

@test "kill -9: the old output is as it was, and the kernel is clean" {
	local left bytes

	RANDOM=1234
	for bytes in 0 $((RANDOM % 60000 + 1)); do
		echo "an older result 1" >"$T/kept.folded"
		start_spinning -o "$T/kept.folded"
		until_written "$bytes"
		kill -9 "$GP_PID"
		gp_wait
		[ "$status" -eq 137 ] || fail "exit code $status"
		[ "$(cat "$T/kept.folded")" = "an older result 1" ] || fail "the output was touched"
		[ ! -e "$T/sum.json" ] || fail "a summary was written"
		left=$(find "$T" -name '.*' -type f ! -name '.samplegate-*')
		[ -z "$left" ] || fail "left: $left"
		assert_kernel_clean
		assert_text_whole "$(wl_pid a)" spin_leaf "$W/spin"
		end_spinning
	done
}

@test "kill -9 with a tracepoint gate: no probe is left" {
	gp_start -F 997 -g syscall:getppid -- "$W/sysstorm" -t 200000
	note_kernel
	OURS+=("$(pgrep -P "$GP_PID")")
	kill -9 "$GP_PID"
	gp_wait
	[ "$status" -eq 137 ] || fail "exit code $status"
	kill -9 "${OURS[0]}" 2>/dev/null || true
	assert_kernel_clean
}

@test "the target is killed: the run ends with what was sampled" {
	start_spinning
	until_written 20000
	kill -9 "$(wl_pid a)"
	gp_wait
	assert_done
	assert_folded
	holds '.kept > 0'
	assert_kernel_clean
}

@test "the target ends by itself: the run ends" {
	wl a "$W/duty"
	gp_start -F 997 -g "u:$W/duty:inside" -p "$(wl_pid a)"
	wl_go a
	wl_wait a
	gp_wait
	assert_done
	is '.gates[0].entries' "$(number rounds "$T/a.out")"
}

@test "while the output is written, nothing is left of what watched" {
	local i held=

	mkfifo "$T/out"
	exec {out_fd}<>"$T/out"
	# A pipe that is full: the tool waits where it writes.
	dd if=/dev/zero of="$T/out" oflag=nonblock bs=4096 2>/dev/null || true
	wl a "$W/duty" -t 60000
	start_tool "$GP" -o "$T/out.folded" --summary "$T/out" -F 999 -p "$(wl_pid a)" -g "u:$W/duty:inside"
	note_kernel
	kill -INT "$GP_PID"
	for ((i = 0; i < 500; i++)); do
		held=$(cat "/proc/$GP_PID/fdinfo/"* 2>/dev/null | grep -c '^link_id:') || true
		[ "$held" -ne 0 ] || break
		a_while 20
	done
	[ "$held" -eq 0 ] || fail "the tool still holds $held of $(wc -l <"$T/ids.link") links"
	grep -q '^State:[[:space:]]*[SRD]' "/proc/$GP_PID/status" || fail "the tool has not waited"
	cat "$T/out" >/dev/null &
	OURS+=($!)
	gp_wait
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_kernel_clean
}

@test "COMMAND's status is said, the exit code is the tool's own" {
	gp_ok -F 997 -- sh -c "'$W/duty'; exit 42"
	assert_says ': sh exited with status 42$'
	gp_ok -F 997 -- "$W/duty"
	if grep 'exited with' "$T/err"; then
		fail "it speaks of a status of 0"
	fi
}

@test "COMMAND is killed by a signal: that is said, the exit code is the tool's own" {
	gp_ok -F 997 -g "u:$W/escape:gated" -- "$W/escape" kill-self
	assert_says 'escape .*(signal 9|SIGKILL|killed)'
}

@test "DURATION ends a COMMAND that would go on" {
	local begin=$SECONDS

	gp_ok -F 997 -g "u:$W/spin:spin_leaf" 500ms -- sh -c "echo \$\$; exec '$W/spin' -t 200000"
	[ $((SECONDS - begin)) -lt 100 ] || fail "COMMAND was waited for"
	holds '.duration_ns >= 500000000'
	holds '.kept > 0'
	[[ $(cat "$T/cmd") =~ ^[0-9]+$ ]] || fail "COMMAND says: $(cat "$T/cmd")"
	[ ! -e "/proc/$(cat "$T/cmd")" ] || fail "COMMAND is still there"
	# The signal was the tool's own.
	if grep -E 'exited with|killed by|signal' "$T/err"; then
		fail "it speaks of how COMMAND ended"
	fi
}

@test "stopped for a moment and continued" {
	local state i

	start_spinning
	until_written 10000
	kill -STOP "$GP_PID"
	for ((i = 0; i < 10000; i++)); do
		state=$(<"/proc/$GP_PID/stat")
		[[ ${state##*) } != T* ]] || break
	done
	[[ ${state##*) } == T* ]] || fail "the tool does not stop"
	"$W/spin" -t 500 >/dev/null
	kill -CONT "$GP_PID"
	until_written 40000
	gp_stop
	assert_done
	assert_folded
	assert_kernel_clean
}

@test "no helper program is started" {
	local execs

	command -v strace >/dev/null || skip "strace is not installed"
	status=0
	strace -f -qq -e trace=execve,execveat -e signal=none -o "$T/trace" "$GP" -F 997 \
		-o "$T/out.folded" --summary "$T/sum.json" -g "u:$W/duty:inside" -- "$W/duty" \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	assert_done
	execs=$(grep -c 'execve' "$T/trace")
	[ "$execs" -eq 2 ] || fail "$execs programs: $(cat "$T/trace")"
	grep -qF "execve(\"$GP\"" "$T/trace" || fail "no tool: $(cat "$T/trace")"
	grep -qF "execve(\"$W/duty\"" "$T/trace" || fail "no COMMAND: $(cat "$T/trace")"
}
