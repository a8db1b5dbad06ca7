# SPDX-License-Identifier: BSD-2-Clause
# Who is profiled: only they are sampled, and only they get through a gate.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

CGROUP=

teardown()
{
	live_teardown
	if [ -n "$CGROUP" ]; then
		rmdir "$CGROUP/below" "$CGROUP" || true
	fi
}

pids()
{
	jq -r .pid "$T/samples.json" | sort -un | tr '\n' ' '
}

tids()
{
	jq -r .tid "$T/samples.json" | sort -un | tr '\n' ' '
}

same()
{
	[ "$1" = "$2" ] || fail "have '$1', not '$2'"
}

# threads PID N: waits until the process has N threads, and prints those that came later
threads()
{
	local list

	for ((;;)); do
		list=$(ls "/proc/$1/task") || return 1
		[ "$(wc -l <<<"$list")" -ge "$2" ] && break
	done
	sed "/^$1\$/d" <<<"$list"
}

# ---- processes ----

@test "-p: this process and no other" {
	wl a "$W/duty"
	wl b "$W/duty"
	gp_start -F 997 --samples "$T/samples.json" -p "$(wl_pid a)"
	local a=${WL_PID[a]}
	wl_go b
	wl_go a
	wl_wait a
	# The run ends with its target.
	gp_wait
	assert_done
	same "$(pids)" "$a "
	is .kept "$(field .seen)"
	[ "$(field .kept)" -ge 700 ] || fail "kept $(field .kept) of a second"
	# The other one was there, on the same CPUs.
	holds '.elsewhere > 0'
	wl_wait b
}

@test "-p with a gate: another process of the same program does not count" {
	wl a "$W/duty" -n 53
	wl b "$W/duty" -n 67
	gp_start -F 997 --samples "$T/samples.json" -g "u:$W/duty:inside" -p "$(wl_pid a)"
	local a=${WL_PID[a]}
	wl_go b
	wl_go a
	wl_wait a
	wl_wait b
	gp_wait
	assert_done
	is '.gates[0].opens' 53
	is '.gates[0].entries' 53
	assert_balanced
	assert_all inside
	same "$(pids)" "$a "
}

@test "-p with a gate for the whole system: another process of the same program does not open it" {
	wl a "$W/duty" -n 53
	wl b "$W/duty" -n 67
	gp_start -F 997 -g "u:$W/duty:inside" --scope system -p "$(wl_pid a)"
	wl_go b
	wl_go a
	wl_wait a
	wl_wait b
	gp_wait
	assert_done
	is '.gates[0].opens' 53
	assert_all inside
	within "$(field .kept)" "$(field .seen)" 0.3
}

@test "-p with several pids" {
	local want

	wl a "$W/duty" -n 53
	wl b "$W/duty" -n 67
	wl c "$W/duty" -n 71
	want=$(printf '%s\n' "${WL_PID[a]}" "${WL_PID[b]}" | sort -n | tr '\n' ' ')
	gp_start -F 997 --samples "$T/samples.json" -g "u:$W/duty:inside" \
		-p "$(wl_pid a),$(wl_pid b)"
	wl_go a
	wl_go b
	wl_go c
	wl_wait a
	wl_wait b
	wl_wait c
	gp_wait
	assert_done
	is '.gates[0].opens' 120
	assert_balanced
	assert_all inside
	same "$(pids)" "$want"
}

@test "-p with more pids than get probes of their own" {
	local i list=

	for ((i = 0; i < 40; i++)); do
		wl "t$i" "$W/duty" -n 3 -s 300
		list+=,$(wl_pid "t$i")
	done
	wl other "$W/duty" -n 67 -s 300
	gp_start -F 4999 -g "u:$W/duty:inside" -p "${list#,}"
	wl_go other
	for ((i = 0; i < 40; i++)); do
		wl_go "t$i"
	done
	for ((i = 0; i < 40; i++)); do
		wl_wait "t$i"
	done
	wl_wait other
	gp_wait
	assert_done
	is '.gates[0].opens' 120
	assert_balanced
	assert_all inside
	within "$(field .kept)" "$(field .seen)" 0.3
}

@test "-p: all threads, those that start later too" {
	wl a "$W/threads"
	gp_start -F 1999 --samples "$T/samples.json" -g "u:$W/threads:gated" -p "$(wl_pid a)"
	wl_go a
	wl_wait a
	gp_wait
	assert_done
	is '.gates[0].entries' 77
	is '.gates[0].opens' 77
	assert_balanced
	assert_all gated
	[ "$(tids | wc -w)" -eq 11 ] || fail "samples of $(tids | wc -w) threads"
	[ "$(pids | wc -w)" -eq 1 ]
}

@test "-p does not follow forks, --follow does" {
	wl a "$W/shortlived" -n 40
	gp_start -F 1999 -p "$(wl_pid a)"
	wl_go a
	wl_wait a
	gp_wait
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	assert_none 'short_burn'
	holds '.elsewhere > 100'

	wl b "$W/shortlived" -n 40
	gp_start -F 1999 --samples "$T/samples.json" -g "u:$W/shortlived:short_burn" \
		-p "$(wl_pid b)" --follow
	wl_go b
	wl_wait b
	gp_wait
	assert_done
	is '.gates[0].opens' 40
	assert_balanced
	assert_nearly_all "short_burn|$NOT_YET"
	[ "$(pids | wc -w)" -eq 40 ] || fail "samples of $(pids | wc -w) processes"
}

# ---- threads ----

@test "-t: one thread, and not its siblings" {
	local one rest

	wl a "$W/spin" -j 3 -t 60000
	wl_go a
	one=$(threads "$(wl_pid a)" 3 | head -n 1)
	[ -n "$one" ]
	gp_start -F 997 --samples "$T/samples.json" -t "$one"
	# As soon as a sample is kept; the others are sampled at the same rate meanwhile.
	gp_after_a_second
	assert_done
	same "$(tids)" "$one "
	holds '.elsewhere > 100'
	is .kept "$(field .seen)"
}

# Lets the tool run for a second of CPU time of something else, and stops it.
gp_after_a_second()
{
	"$W/duty" -t 1000 >/dev/null 3>&- 4>&-
	gp_stop
}

@test "-t with several, and -L, which is the same" {
	local list option

	wl a "$W/spin" -j 4 -t 60000
	wl_go a
	list=$(threads "$(wl_pid a)" 4 | head -n 2)
	for option in -t -L; do
		gp_start -F 997 --samples "$T/samples.json" $option "$(paste -sd, <<<"$list")"
		gp_after_a_second
		assert_done
		same "$(tids)" "$(tr '\n' ' ' <<<"$list")"
	done
}

@test "-t with a gate: the gate is for that thread" {
	wl a "$W/threads"
	gp_start -F 1999 -g "u:$W/threads:gated" -t "$(wl_pid a)"
	wl_go a
	wl_wait a
	gp_wait
	# The first thread never enters: only the others do.
	[ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is '.gates[0].entries' 0
	is .kept 0

	wl b "$W/duty"
	gp_start -F 997 -g "u:$W/duty:inside" -t "$(wl_pid b)"
	wl_go b
	wl_wait b
	gp_wait
	assert_done
	is '.gates[0].opens' 101
	assert_all inside
}

# ---- CPUs ----

@test "-C: only on these CPUs" {
	local cpu

	[ "$(nproc)" -ge 2 ] || skip "one CPU"
	for cpu in 0 1; do
		wl "spin$cpu" "$W/spin" -t 60000
		taskset -cp $cpu "$(wl_pid "spin$cpu")" >/dev/null
	done
	wl_go spin0
	wl_go spin1
	for cpu in 0 1; do
		gp -F 997 --samples "$T/samples.json" -C $cpu \
			-p "$(wl_pid spin0),$(wl_pid spin1)" 500ms
		assert_done
		same "$(jq .cpu "$T/samples.json" | sort -u)" $cpu
		same "$(pids)" "$(wl_pid "spin$cpu") "
		[ "$(field .kept)" -ge 50 ]
	done
	gp -F 997 --samples "$T/samples.json" -C 0,1 -p "$(wl_pid spin0),$(wl_pid spin1)" 500ms
	assert_done
	same "$(jq .cpu "$T/samples.json" | sort -u | tr '\n' ' ')" "0 1 "
}

@test "-C: a gate is watched on all CPUs, whatever is sampled" {
	[ "$(nproc)" -ge 2 ] || skip "one CPU"
	gp -F 997 -C 0 -g "u:$W/duty:inside" -- taskset -c 1 "$W/duty"
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "exit code $status"
	assert_identity
	is '.gates[0].opens' 101
	assert_none inside
}

# ---- cgroups ----

cgroup_v2()
{
	local root

	root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$root" ] || return 1
	CGROUP=$root/samplegate-test-$$
	mkdir "$CGROUP" "$CGROUP/below"
}

@test "-G: who is in the cgroup, and below it" {
	local want

	cgroup_v2 || skip "no cgroup v2"
	wl a "$W/duty" -n 53
	wl b "$W/duty" -n 67
	wl c "$W/duty" -n 71
	wl_pid a >"$CGROUP/cgroup.procs"
	wl_pid b >"$CGROUP/below/cgroup.procs"
	want=$(printf '%s\n' "${WL_PID[a]}" "${WL_PID[b]}" | sort -n | tr '\n' ' ')
	gp_start -F 997 --samples "$T/samples.json" -g "u:$W/duty:inside" -G "$CGROUP"
	wl_go a
	wl_go b
	wl_go c
	wl_wait a
	wl_wait b
	wl_wait c
	gp_stop
	assert_done
	is '.gates[0].opens' 120
	assert_balanced
	assert_all inside
	same "$(pids)" "$want"
	holds '.elsewhere > 0'
}

@test "-G by its name below the mount point, and only the lower group" {
	cgroup_v2 || skip "no cgroup v2"
	wl a "$W/duty" -n 53
	wl b "$W/duty" -n 67
	wl_pid a >"$CGROUP/cgroup.procs"
	wl_pid b >"$CGROUP/below/cgroup.procs"
	local b=${WL_PID[b]}
	gp_start -F 997 --samples "$T/samples.json" -g "u:$W/duty:inside" \
		-G "$(basename "$CGROUP")/below"
	wl_go a
	wl_go b
	wl_wait a
	wl_wait b
	gp_stop
	assert_done
	is '.gates[0].opens' 67
	same "$(pids)" "$b "
}

@test "-G that does not exist is an error, and says where cgroups are" {
	cgroup_v2 || skip "no cgroup v2"
	gp -G /no-such-group 100ms
	[ "$status" -ne 0 ] && [ "$status" -ne 4 ] || fail "exit code $status"
	[ ! -e "$T/sum.json" ] || assert_identity
	assert_says '-G /no-such-group: '
}

# ---- everyone ----

@test "-a: everyone" {
	local want

	wl a "$W/spin" -t 60000
	wl b "$W/duty" -n 53
	gp_start -F 997 --samples "$T/samples.json" -a
	wl_go a
	wl_go b
	wl_wait b
	gp_stop
	assert_done
	is .elsewhere 0
	is .kept "$(field .seen)"
	assert_some spin 50
	assert_some inside 50
}

@test "no target is everyone, too" {
	wl a "$W/spin" -t 60000
	wl_go a
	gp -F 997 300ms
	assert_done
	is .elsewhere 0
	assert_some spin 50
}

@test "-a with a gate on a program: every process of it, those that start later too" {
	# A copy, since the machine may have others of this program.
	cp "$W/duty" "$T/duty"
	wl a "$T/duty" -n 53
	gp_start -F 997 --samples "$T/samples.json" -g "u:$T/duty:inside" -a
	wl_go a
	"$T/duty" -n 67 >"$T/later" 3>&- 4>&-
	wl_wait a
	gp_stop
	assert_done
	is '.gates[0].opens' 120
	assert_balanced
	assert_all "inside|$NOT_YET"
	[ "$(pids | wc -w)" -eq 2 ]
}

# ---- a command ----

@test "COMMAND and its children, their children, and what they exec" {
	gp_ok -F 1999 --samples "$T/samples.json" -g "u:$W/shortlived:short_burn" -- \
		sh -c "'$W/shortlived' -n 40; '$W/shortlived' -n 30 exec; :"
	is '.gates[0].opens' 70
	assert_nearly_all "short_burn|$NOT_YET"
	is '.gates[0].unbalanced' 0
	[ "$(pids | wc -w)" -eq 70 ] || fail "samples of $(pids | wc -w) processes"
}

@test "COMMAND: short lives are fully symbolized, with the right comm" {
	local mode comm

	for mode in fork exec; do
		comm=$([ $mode = fork ] && echo shortlived || echo short)
		gp_ok -F 1999 --samples "$T/samples.json" -- "$W/shortlived" $mode
		jq -r 'select(.pid != null) | .pid' "$T/samples.json" | sort -u >"$T/pids"
		[ "$(wc -l <"$T/pids")" -ge 200 ] || fail "$(wc -l <"$T/pids") processes"
		[ "$(samples ';short_burn;')" -ge 1000 ] || fail "$(samples ';short_burn;') samples"
		[ "$(awk '/;short_burn;/ && /\[unknown\]/' "$T/out.folded" | wc -l)" -eq 0 ]
		[ "$(grep ';short_burn;' "$T/out.folded" | cut -d';' -f1 | sort -u)" = short ] ||
			[ $mode = fork ] || fail "comm is not $comm"
	done
}

@test "COMMAND: nobody else, and the run ends with it" {
	wl other "$W/duty" -t 2000
	wl_go other
	gp_ok -F 997 --samples "$T/samples.json" -g "u:$W/duty:inside" -- "$W/duty" -n 53
	is '.gates[0].opens' 53
	same "$(pids | wc -w)" 1
	holds '.elsewhere > 0'
}

@test "COMMAND's first instruction is profiled, and the tool's own fork is not" {
	gp_ok -F 1999 --samples "$T/samples.json" -- "$W/duty"
	# All samples have the command's comm: none from before the exec.
	same "$(jq -r .comm "$T/samples.json" | sort -u)" duty
}

@test "DURATION ends the run, and the command's probes with it" {
	wl a "$W/spin" -t 60000
	wl_go a
	gp -F 997 -p "$(wl_pid a)" 300ms
	assert_done
	holds '.duration_ns >= 300e6'
	assert_all spin
	kill -0 "$(wl_pid a)" || fail "the target is gone"
}

# ---- pid namespaces ----

@test "inside a pid namespace: COMMAND works" {
	status=0
	unshare -p --fork --mount-proc "$GP" -F 997 -g "u:$W/duty:inside" -o "$T/out.folded" \
		--samples "$T/samples.json" --summary "$T/sum.json" -- "$W/duty" \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	assert_done
	is '.gates[0].opens' 101
	assert_balanced
	assert_all inside
	assert_some main 50
	# The tool is 1 there, and its command comes soon after.
	[ "$(pids)" -ge 2 ] && [ "$(pids)" -le 9 ] || fail "pid $(pids) in the samples"
}

@test "inside a pid namespace: -p is a pid of that namespace" {
	mkfifo "$T/go" "$T/there" "$T/ready"
	status=0
	# shellcheck disable=SC2016
	T=$T W=$W GP=$GP unshare -p --fork --mount-proc bash -c '
		exec 7<>"$T/go"
		"$W/duty" -n 67 >"$T/other" 2>&1 -w 9 9<"$T/go" &
		"$W/duty" -r 8 -w 9 8>"$T/there" 9<"$T/go" >"$T/cmd" &
		pid=$!
		read -r _ said <"$T/there"
		[ "$said" = $pid ] || exit 99
		"$GP" -F 997 -g "u:$W/duty:inside" -o "$T/out.folded" --samples "$T/samples.json" \
			--summary "$T/sum.json" --ready-fd 6 -p $pid 6>"$T/ready" 2>"$T/err" &
		tool=$!
		read -r _ <"$T/ready"
		printf xx >&7
		wait $pid
		echo $pid >"$T/pid"
		wait $tool' </dev/null 3>&- 4>&- || status=$?
	assert_done
	is '.gates[0].opens' 101
	assert_balanced
	assert_all inside
	assert_some main 50
	same "$(pids)" "$(cat "$T/pid") "
}

@test "from outside: -p of a process in another pid namespace" {
	local pid

	mkfifo "$T/go" "$T/there"
	exec {go_fd}<>"$T/go"
	unshare -p --fork --mount-proc "$W/duty" -r 8 -w 9 8>"$T/there" 9<"$T/go" \
		>"$T/cmd" 2>/dev/null </dev/null 3>&- 4>&- &
	OURS+=($!)
	read -r -t 60 _ <"$T/there"
	pid=$(cat "/proc/$!/task/$!/children")
	pid=${pid% }
	gp_start -F 997 --samples "$T/samples.json" -g "u:$W/duty:inside" -p "$pid"
	printf x >&"$go_fd"
	gp_wait
	assert_done
	is '.gates[0].opens' 101
	assert_balanced
	assert_all inside
	same "$(pids)" "$pid "
}
