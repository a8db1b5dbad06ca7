#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Terms about code, executables, families and cgroups: decided in the kernel for processes that are
# known, and in user space for those that have just begun or mapped something.
load lib
load filterlib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

teardown()
{
	live_teardown
	[ -z "${CGROUP-}" ] || rmdir "$CGROUP/below" "$CGROUP" 2>/dev/null || true
}

# known EXPR N: as hits, on a process that was there before
known()
{
	wl s "$STATES"
	gp_start -p "$(wl_pid s)" -e "$MEM" --filter "$1" -e "$MEM" --filter "!($1)"
	wl_go s
	wl_wait s
	gp_wait
	assert_done
	is '.events[0].kept' "$2"
	is '.events[1].kept' $((ALL - $2))
	is .late 0
	rm -f "$T"/s.* "$T/ready"
}

@test "the kernel decides about code of a process that it knows" {
	need_breakpoints
	on_function
	known 'stack has "path_a"' 49
	known 'ip in "hit"' 97
	known 'exe ~ "*/states"' 97
	known '!(ip in DSO "libc*")' 97
	known 'ip in DSO "states" && !(stack has "path_b")' 49
	wl t "$W/writer" -t 1000 -m null
	gp_start -p "$(wl_pid t)" -e cpu-clock -F 499 --filter 'stack has "ksys_write"' \
		-e cpu-clock -F 499 --filter '!(stack has "ksys_write")'
	wl_go t
	wl_wait t
	gp_wait
	assert_done
	is .late 0
	holds '.events | all(.kept > 0 and .filtered > 0)'
}

@test "a call that is its function's last instruction is that function's" {
	wl o "$W/oddcalls" -b 500 noreturn
	gp_start -p "$(wl_pid o)" -e cpu-clock -F 499 --filter 'stack has "last_call"' \
		-e cpu-clock -F 499 --filter 'stack has "next_one"'
	wl_go o
	wl_wait o
	gp_wait
	assert_done
	is .late 0
	holds '.events[0].kept > .events[0].seen / 2 and .events[1].kept == 0'
	# and as user space sees it
	gp_ok -e cpu-clock -F 499 --filter 'stack has "last_call"' \
		-e cpu-clock -F 499 --filter 'stack has "next_one"' -- "$W/oddcalls" -b 500 noreturn
	holds '.late_kept > 0 and .events[0].kept > .events[0].seen / 2 and .events[1].kept == 0'
}

@test "a process that has just begun is decided late, to the same effect" {
	need_breakpoints
	on_function
	hits 'stack has "path_a"' 49
	holds '.late > 0 and .late == .late_kept + .late_filtered and .late_unknown == 0'
	hits 'exe ~ "*/states"' 97
	holds '.late > 0'
	hits 'ip in "hit"' 97
	holds '.late > 0 and .late_unknown == 0'
	# what does not depend on it is decided at once
	hits 'comm == "changed" || comm == "states" || stack has "path_a"' 97
	is .late 0
}

@test "a name that nothing has is pointed out, and no other" {
	gp -e cpu-clock -F 499 --filter \
		'stack has "brun" || ip in DSO "libnothing*" || exe ~ "*/nothing" || ip in "burn" && exe ~ "*/spin"' \
		-- "$W/spin" -t 300
	assert_done
	assert_says 'stack has "brun" .*\(there was no function of this name\)'
	assert_says 'ip in DSO "libnothing\*" .*\(there was no mapped file of this name\)'
	assert_says 'exe ~ "\*/nothing" .*\(there was no executable of this name\)'
	is '[.terms[] | has("note")] | map(tostring) | join(" ")' "true true true false false"
	gp -e cpu-clock -F 499 --filter 'ip in "bur*" || irqs_off || ip in "burn"' -- "$W/spin" -t 300
	assert_done
	assert_says 'ip in "bur\*" .*\(there was no function of just this name: it is no glob here\)'
	assert_says 'irqs_off .*\(a clock has no tick while interrupts are off\)'
}

@test "symbols and files of libraries that take each other's place" {
	cp "$W/libswapa.so" "$W/libswapb.so" "$T"
	gp_ok -e cpu-clock -F 499 --filter 'stack has "alpha_burn"' \
		-- "$W/swap" "$T/libswapa.so" "$T/libswapb.so"
	assert_all alpha_burn
	assert_none bravo_burn
	gp_ok -e cpu-clock -F 499 --filter '!stack has "alpha_burn" && comm == "swap"' \
		-- "$W/swap" "$T/libswapa.so" "$T/libswapb.so"
	assert_some bravo_burn
	assert_none alpha_burn
	gp_ok -e cpu-clock -F 499 --filter 'ip in DSO "libswapb*"' \
		-- "$W/swap" "$T/libswapa.so" "$T/libswapb.so"
	assert_none alpha_burn
}

@test "programs by their executable, with the same parent" {
	cp "$W/spin" "$T/first"
	cp "$W/spin" "$T/second"
	gp_ok -e cpu-clock -F 499 --filter "exe == \"$T/second\"" -- bash -c \
		"for i in 1 2 3; do (exec -a x '$T/first' -t 400); (exec '$T/second' -t 400); done"
	holds '.kept > 0 and .filtered > 0'
	[ "$(samples '^second;')" -eq "$(field .kept)" ] || fail "others are kept"
	[ "$(samples '^(first|bash);')" -eq 0 ] || fail "others are kept"
}

@test "C++ names as they are written" {
	gp_ok -e cpu-clock -F 999 --filter 'stack has "ns::Klass::method(int)"' -- "$W/cppnames"
	assert_all 'ns::Klass::method\(int\)'
	gp_ok -e cpu-clock -F 999 --filter 'stack has "ns::Klass::method"' -- "$W/cppnames"
	assert_all 'ns::Klass::method\(int\)'
}

@test "pid under: a process and its descendants, also those whose parents are gone" {
	local pid

	wl other "$W/spin" -t 60000
	wl_go other
	wl_go other
	mkfifo "$T/go"
	bash -c "read -r x <'$T/go'; (setsid $W/spin -t 1500 & ); $W/spin -t 600" \
		>/dev/null 2>&1 3>&- &
	pid=$!
	OURS+=("$pid")
	gp_start -a -e cpu-clock -F 499 --filter "pid under $pid && comm == \"spin\"" \
		--samples "$T/samples" 2
	echo >"$T/go"
	gp_wait
	assert_done
	holds '.kept > 0 and .filtered > 0'
	# both of its spins, and not the other one
	[ "$(jq .pid "$T/samples" | sort -u | wc -l)" -eq 2 ] || fail "$(jq .pid "$T/samples" | sort | uniq -c)"
	! jq .pid "$T/samples" | grep -qx "$(wl_pid other)" || fail "a stranger is kept"
}

@test "cgroup, by path, and those below it" {
	local root

	root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$root" ] || {
		mkdir -p "$BATS_FILE_TMPDIR/cg" && mount -t cgroup2 none "$BATS_FILE_TMPDIR/cg" &&
			root=$BATS_FILE_TMPDIR/cg
	} || skip "no cgroup v2"
	CGROUP=$root/samplegate-filter-$$
	mkdir -p "$CGROUP/below"
	wl a "$W/spin" -t 60000
	wl b "$W/spin" -t 60000
	wl c "$W/spin" -t 60000
	wl_pid a >"$CGROUP/cgroup.procs"
	wl_pid b >"$CGROUP/below/cgroup.procs"
	for i in a b c; do wl_go $i; done
	only()
	{
		gp_ok -p "$(wl_pid a),$(wl_pid b),$(wl_pid c)" -e cpu-clock -F 199 --filter "$1" \
			--samples "$T/samples" 1
		holds '.filtered > 0'
		[ "$(jq .pid "$T/samples" | sort -u | xargs)" = "$(printf '%s\n' "${@:2}" | sort | xargs)" ] ||
			fail "$1: $(jq .pid "$T/samples" | sort | uniq -c)"
	}
	only "cgroup == \"/${CGROUP##*/}\"" "$(wl_pid a)"
	only "cgroup under /${CGROUP##*/}" "$(wl_pid a)" "$(wl_pid b)"
	only "!cgroup under /${CGROUP##*/}" "$(wl_pid c)"
	for i in a b c; do kill -9 "$(wl_pid $i)"; wait "$(wl_pid $i)" 2>/dev/null || true; done
}

@test "tid, and threads of one process" {
	local tid

	wl t "$W/spin" -t 60000 -j 2
	wl_go t
	until [ "$(ls "/proc/$(wl_pid t)/task" | wc -l)" -eq 2 ]; do :; done
	tid=$(ls "/proc/$(wl_pid t)/task" | grep -vx "$(wl_pid t)")
	gp_ok -p "$(wl_pid t)" -e cpu-clock -F 199 --filter "tid == $tid" --samples "$T/samples" 1
	holds '.kept > 0 and .filtered > 0'
	[ "$(jq .tid "$T/samples" | sort -u)" = "$tid" ] || fail "other threads"
	gp_ok -p "$(wl_pid t)" -e cpu-clock -F 199 --filter "!(tid == $tid)" --samples "$T/samples" 1
	! jq .tid "$T/samples" | grep -qx "$tid" || fail "kept by the complement"
}
