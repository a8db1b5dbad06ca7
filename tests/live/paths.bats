# SPDX-License-Identifier: BSD-2-Clause
# What goes wrong, and how it is told: the exit code, and a line that says what to do.

load lib
load lib2

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# gp_in SCRIPT ARGS...: gp in a mount namespace where SCRIPT has been at work
gp_in()
{
	status=0
	unshare -m bash -c "{ $1"'; } >&2 || exit 99; shift; exec "$@"' - x "$GP" \
		-o "$T/out.folded" --summary "$T/sum.json" "${@:2}" \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	[ "$status" -ne 99 ] || fail "the machine for this could not be made"
}

# ---- what the gate is on ----

@test "no such function: near matches are listed" {
	gp -g "u:$W/duty:insude" 1
	refused_early 1 "-g: no function 'insude' in .*/duty; nearest: (.*, )?inside"
	gp -g "u:$W/nest:recurze" 1
	refused_early 1 "-g: no function 'recurze' in .*/nest; nearest: (.*, )?recurse"
}

@test "no such C++ function: near matches are listed as one writes them" {
	gp -g "u:$W/cppnames:ns::Klass::methud" 1
	refused_early 1 "-g: no function 'ns::Klass::methud' in .*; nearest: .*ns::Klass::method"
}

@test "no such tracepoint: near matches are listed" {
	gp -g t:sched:sched_swich..t:sched:sched_switch 1
	refused_early 1 "-g: this kernel has no tracepoint 'sched:sched_swich'; nearest: (.*, )?sched_switch(,|\$)"
	gp -g t:shed:sched_switch..t:sched:sched_switch 1
	refused_early 1 "-g: this kernel has no tracepoint 'shed:sched_switch'; nearest: (.*, )?sched(,|\$)"
}

@test "no such system call: near matches are listed" {
	[ -e /sys/kernel/tracing/events/syscalls ] || skip "no syscall tracepoints"
	gp -g syscall:wriet 1
	refused_early 1 "-g: .*wriet'; nearest: (.*, )?(sys_enter_)?write(,|\$)"
}

@test "a function that cannot be decoded offers --unsafe-uretprobe, which works" {
	cat >"$T/bad.S" <<-'END'
		.globl bad, main
		.type bad,@function
		.type main,@function
		bad:
			push %rbp
			mov %rsp,%rbp
			jmp 1f
			.byte 0x06
		1:	pop %rbp
			ret
			.size bad,.-bad
		main:
			push %rbp
			mov %rsp,%rbp
			mov $100,%ebx
		2:	call bad
			dec %ebx
			jnz 2b
			xor %eax,%eax
			pop %rbp
			ret
			.size main,.-main
			.section .note.GNU-stack,"",@progbits
	END
	[ "$(uname -m)" = x86_64 ] || sed -i 's/.*/ret/' "$T/bad.S"
	gcc -o "$T/bad" "$T/bad.S"
	"$T/bad"
	gp -g "u:$T/bad:bad" 1
	refused_early 1 "-g: cannot find where 'bad' in $T/bad returns: .*\+0x[0-9a-f]+.* 06 .*--unsafe-uretprobe"

	gp --unsafe-uretprobe -g "u:$T/bad:bad" -- "$T/bad"
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ]
	assert_says '^gatedprof: warning: a uretprobe replaces return addresses'
	is '.gates[0].entries' 100
}

@test "no such binary, and files that are none" {
	gp -g u:/nonexistent/program:main 1
	refused_early 1 "-g: no such file: /nonexistent/program"
	gp -g u:nosuchprogram:main 1
	refused_early 1 "-g: no file named 'nosuchprogram' in \\\$PATH.*: give its whole path"
	gp -g "u:$T:main" 1
	refused_early 1 "-g: no such file: $T \(not a regular file\)"
	gp -g u:/etc/passwd:main 1
	refused_early 1 "-g: cannot use /etc/passwd: not an ELF file"
	: >"$T/empty"
	gp -g "u:$T/empty:main" 1
	refused_early 1 "-g: cannot use $T/empty: not an ELF file"
	mkfifo "$T/fifo"
	gp -g "u:$T/fifo:main" 1
	refused_early 1 "-g: no such file: $T/fifo \(not a regular file\)"
}

@test "an ELF file that is cut short is refused, not believed" {
	local bytes

	for bytes in 4 63 64 100 1000 8000; do
		head -c "$bytes" "$W/spin" >"$T/cut"
		gp -g "u:$T/cut:spin" 1
		refused_early 1 "-g: .*$T/cut"
	done
}

@test "a stripped binary" {
	strip -s -o "$T/stripped" "$W/spin"
	gp -g "u:$T/stripped:spin" 1
	refused_early 1 "-g: no function 'spin' in $T/stripped, which has no symbols at all \(stripped\): .*(symbols|USDT)"
	# A library keeps the names of what it exports.
	strip -s -R .note.gnu.build-id -o "$T/libstripped.so" "$W/libswapa.so"
	gp -g "u:$T/libstripped.so:nosuchfunction" 1
	refused_early 1 "-g: no function 'nosuchfunction' in .*libstripped.so.*stripped"
}

@test "USDT: no provider, an empty one, none at all" {
	local u=U:$W/usdt

	gp -g "$u:nosuch:begin..$u:nosuch:end" 1
	refused_early 1 "-g: no USDT probe 'nosuch:begin' in .*/usdt; it has .*sgtest:begin"
	gp -g "$u:sgtest:begin..$u:sgtest:finish" 1
	refused_early 1 "-g: no USDT probe 'sgtest:finish' in .*/usdt; it has .*sgtest:end"
	# Each has two places, and is named once.
	[ "$(grep -oE 'sgtest:begin' "$T/err" | wc -l)" -eq 1 ] || fail "named more than once"
	gp -g "$u::begin..$u::end" 1
	refused_early 2 "-g: '$u::begin' has an empty provider: write usdt:PATH:PROVIDER:NAME"
	gp -g "U:$W/spin:sgtest:begin..U:$W/spin:sgtest:end" 1
	refused_early 1 "-g: no USDT probe 'sgtest:begin' in .*/spin, which has no USDT probes"
}

@test "an empty PATH needs a target" {
	gp -g u::main 1
	refused_early 2 "-g: the PATH is empty.*-p"
}

# ---- who is sampled ----

@test "a pid that is gone, a thread that is gone, a thread where a process is meant" {
	local gone

	# Above the highest number that a pid can have.
	gp -p 4194305 1
	refused_early 1 "-p 4194305: no such process"
	gp -t 4194305 1
	refused_early 1 "-t 4194305: no such thread"
	bash -c 'exit' &
	gone=$!
	wait "$gone"
	gp -p "$gone" 1
	refused_early 1 "-p $gone: no such process"
	gp -p "$$,$gone" 1
	refused_early 1 "-p $gone: no such process"
}

@test "a pid that exits during the run ends it" {
	wl t "$W/spin" -t 300
	gp_start -F 999 -p "$(wl_pid t)"
	wl_go t
	wl_wait t
	gp_wait
	assert_done
	assert_folded
	assert_some spin 20
}

@test "a pid that exits while it is inside" {
	wl t "$W/spin" -t 300
	gp_start -F 999 -g "u:$W/spin:spin" -p "$(wl_pid t)"
	wl_go t
	wl_wait t
	gp_wait
	assert_done
	assert_folded
	assert_nearly_all spin
}

@test "with two pids the run lasts until both have gone" {
	wl a "$W/spin" -t 50
	wl b "$W/spin" -t 400
	gp_start -F 999 -p "$(wl_pid a),$(wl_pid b)"
	wl_go a
	wl_wait a
	kill -0 "$GP_PID" || fail "ended with the first"
	wl_go b
	wl_wait b
	gp_wait
	assert_done
	assert_some spin 40
}

@test "no such cgroup" {
	gp -G no/such/group 1
	if grep -q ' cgroup2 ' /proc/mounts; then
		refused_early 1 "-G no/such/group: cannot open the cgroup /.*/no/such/group: No such file"
	else
		refused_early 3 "-G no/such/group: no cgroup v2 is mounted; mount one with 'mount -t cgroup2"
	fi
}

# ---- rates and events ----

@test "a frequency above perf_event_max_sample_rate" {
	local limit

	limit=$(cat /proc/sys/kernel/perf_event_max_sample_rate)
	gp -F $((limit + 1)) 1
	if [ $((limit + 1)) -gt 1000000 ]; then
		refused_early 2 "-F '$((limit + 1))': out of range"
	else
		refused_early 3 "-F $((limit + 1)) is above .*limit of $limit Hz \(kernel.perf_event_max_sample_rate\): .*sysctl"
	fi
}

# ---- the machine ----

@test "tracefs is not mounted: the mount is shown, and user functions need none" {
	local no_tracefs='umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug 2>&- || true;
		[ ! -e /sys/kernel/tracing/events ]'

	gp_in "$no_tracefs" -g syscall:write 1
	refused 3 ".*tracefs is not mounted.*mount -t tracefs [a-z]+ /sys/kernel/tracing"
	[ ! -e "$T/out.folded" ]
	gp_in "$no_tracefs" -g t:sched:sched_switch..t:sched:sched_wakeup 1
	refused 3 ".*tracefs is not mounted.*mount -t tracefs"

	gp_in "$no_tracefs" -F 999 -g "u:$W/duty:inside" -- "$W/duty"
	assert_done
	assert_nearly_all inside
}

@test "no BTF" {
	gp_in 'mount -t tmpfs none /sys/kernel/btf' -- true
	refused_early 3 ".*no type information.*/sys/kernel/btf/vmlinux.*CONFIG_DEBUG_INFO_BTF"
}

@test "no /sys at all: a message, and no crash" {
	gp_in 'mount -t tmpfs none /sys' -- true
	refused_early 3 ".*/sys"
}

@test "no /proc at all: a message, or it works" {
	gp_in 'mount -t tmpfs none /proc' -- "$W/spin" -t 100
	[ "$status" -le 4 ] || fail "exit code $status"
	grep -q '^gatedprof: ' "$T/err"
}

@test "no locked memory allowed: works" {
	status=0
	prlimit --memlock=0:0 "$GP" -o "$T/out.folded" --summary "$T/sum.json" -F 999 \
		-g "u:$W/duty:inside" -- "$W/duty" >"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- ||
		status=$?
	assert_done
	assert_nearly_all inside
}

@test "the limit of open files is raised as far as that is allowed" {
	status=0
	prlimit --nofile=8:1024 "$GP" -o "$T/out.folded" --summary "$T/sum.json" \
		-g "u:$W/spin:spin" -- "$W/spin" -t 100 >"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- ||
		status=$?
	assert_done
}

@test "the command has its own limits, as if it had been started alone" {
	local signals

	status=0
	prlimit --nofile=500:1024 "$GP" -o "$T/out.folded" -- bash -c 'ulimit -Sn; ulimit -Hn' \
		>"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	[ "$(tr '\n' ' ' <"$T/cmd")" = "500 1024 " ] || fail "files: $(cat "$T/cmd")"

	signals=$(env --default-signal=PIPE,INT,TERM grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status)
	env --default-signal=PIPE,INT,TERM "$GP" -o "$T/out.folded" -- \
		grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status >"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || true
	[ "$(cat "$T/cmd")" = "$signals" ] || fail "signals: $(cat "$T/cmd")"
	# And no file of the tool's.
	"$GP" -o "$T/out.folded" -- bash -c 'cd /proc/self/fd && echo *' >"$T/cmd" 2>"$T/err" \
		</dev/null 3>&- 4>&- || true
	[ "$(cat "$T/cmd")" = "$(bash -c 'cd /proc/self/fd && echo *' </dev/null 3>&- 4>&-)" ] ||
		fail "files: $(cat "$T/cmd")"
}

@test "no file may grow: told, and no death by SIGXFSZ" {
	status=0
	# What it says must not be a file either.
	mkfifo "$T/err.fifo"
	cat "$T/err.fifo" >"$T/err" &
	OURS+=($!)
	prlimit --fsize=0:0 "$GP" -o "$T/out.folded" -- "$W/spin" -t 200 >/dev/null 2>"$T/err.fifo" \
		</dev/null 3>&- 4>&- || status=$?
	wait "${OURS[-1]}"
	refused 1 "-o: cannot write to $T/out.folded: File too large"
	[ ! -e "$T/out.folded" ]
	assert_no_litter
}

# ---- where the output goes ----

@test "-o FILE: a full disk" {
	local option

	for option in -o --summary --samples; do
		status=0
		rm -f "$T/x"
		case $option in
		-o) set -- -o /dev/full ;;
		*) set -- -o "$T/x" "$option" /dev/full ;;
		esac
		"$GP" "$@" -F 999 -- "$W/spin" -t 100 >/dev/null 2>"$T/err" </dev/null 3>&- 4>&- ||
			status=$?
		refused 1 "$option: cannot write to /dev/full: No space left on device"
	done
}

@test "stdout: a full disk" {
	status=0
	"$GP" -F 999 -- "$W/spin" -t 200 >/dev/full 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	refused 1 "-o: cannot write to standard output: No space left on device"
}

@test "stdout: a closed pipe is an error with a message" {
	mkfifo "$T/pipe"
	exec {both}<>"$T/pipe" {end}>"$T/pipe" {both}>&-
	status=0
	"$GP" -F 999 -- "$W/spin" -t 200 >&"$end" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	refused 1 "-o: cannot write to standard output: Broken pipe"
	exec {end}>&-
}

@test "stdin, stdout and stderr closed: nothing is written into files of others" {
	echo old >"$T/other"
	status=0
	"$GP" -F 999 -o "$T/out.folded" --summary "$T/sum.json" -- "$W/spin" -t 200 \
		<&- >&- 2>&- 3>&- 4>&- || status=$?
	: >"$T/err"
	assert_done
	assert_folded
}

@test "-o FILE: a run that fails leaves the file as it was" {
	local before

	echo "what was there" >"$T/keep"
	chmod 640 "$T/keep"
	before=$(stat -c '%i %Y %a %s' "$T/keep")
	for args in "-g u:$W/duty:nosuch -- $W/duty" "-p 4194305 1" "-- /nonexistent/command" \
		"-e cpu-clock -g u:/nonexistent:f 1" "-F 99 --summary /dev/full -- /nonexistent/c"; do
		status=0
		# shellcheck disable=SC2086
		"$GP" -o "$T/keep" $args >"$T/cmd" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
		[ "$status" -eq 1 ] || fail "$args: exit code $status"
		[ "$(stat -c '%i %Y %a %s' "$T/keep")" = "$before" ] || fail "$args: changed"
		[ "$(cat "$T/keep")" = "what was there" ] || fail "$args: changed"
		assert_no_litter
	done
}

@test "-o FILE: replaced whole by a run that succeeds, with its mode, through a link" {
	echo "what was there" >"$T/keep"
	chmod 640 "$T/keep"
	ln -s keep "$T/link"
	"$GP" -o "$T/link" -F 999 -- "$W/spin" -t 100 >/dev/null 2>"$T/err" </dev/null 3>&- 4>&-
	[ -L "$T/link" ]
	[ "$(stat -c %a "$T/keep")" = 640 ]
	assert_folded "$T/keep"
	! grep -q "what was there" "$T/keep"
	assert_no_litter
}

@test "--ready-fd: one line, when every probe is in place" {
	wl t "$W/spin" -t 30000
	gp_start -g "u:$W/spin:burn" -p "$(wl_pid t)"
	[ "$(breakpoints "$(wl_pid t)" "$W/spin" burn)" = "burn cc" ] || fail "no probe is there"
	gp_stop
	[ "$status" -eq 4 ]
	[ "$(breakpoints "$(wl_pid t)" "$W/spin" burn)" != "burn cc" ] || fail "a probe is left"
}

# ---- commands ----

@test "a command that is not there, or cannot be run" {
	gp -- /nonexistent/command
	refused_early 1 "cannot run '/nonexistent/command': [Nn]o such"
	gp -- nosuchcommand --with args
	refused_early 1 "cannot run 'nosuchcommand': [Nn]o such"
	echo data >"$T/data"
	gp -- "$T/data"
	refused_early 1 "cannot run '$T/data': .*([Pp]ermission|executable)"
}

@test "a directory is no command, and it is not missing either" {
	gp -- "$T"
	refused_early 1 "cannot run '$T': .*([Pp]ermission|directory)"
}

# ---- nothing matched ----

@test "a gate that never opened" {
	gp -F 999 -g "u:$W/idlegate:gated" -- "$W/idlegate" -n 100 never
	refused 4 "the gate never opened"
	assert_identity
	is '.gates[0].opens' 0
	holds '.seen > 0 and .outside == .seen'
	[ -e "$T/out.folded" ] && [ ! -s "$T/out.folded" ] || fail "the output is not an empty file"
}

@test "a gate that opened too briefly for the rate: a typical opening next to the period" {
	# 17 openings of some 20 us: a sample that falls inside is one run in thousands.
	gp -F 5 -g "u:$W/idlegate:gated" -- "$W/idlegate" -n 17 brief
	refused 4 "the gate opened 17 times .*no sample fell inside: a typical opening lasts [0-9.]+ (ns|us) and a sample is taken every 200 ms; raise -F"
	assert_identity
	is '.gates[0].opens' 17
	holds '.gates[0].typical_ns > 0 and .gates[0].typical_ns < 1000000'
	assert_balanced
	[ -e "$T/out.folded" ] && [ ! -s "$T/out.folded" ]
}

@test "a target that never runs" {
	wl t "$W/spin" -t 1
	gp -p "$(wl_pid t)" 200ms
	refused 4 "no sample of the target was taken"
	assert_identity
	is .seen 0
}
