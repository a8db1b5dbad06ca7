# SPDX-License-Identifier: BSD-2-Clause
# SIGHUP, SIGQUIT and a lost terminal end a run as SIGTERM does: nothing is lost, and nothing is left.

load glitch
load lib2

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# tool_of NAME [BEFORE]: a script that runs it with default signals, whatever the shell has made of them,
# and what BEFORE says
tool_of()
{
	TOOL=$1
	cat >"$T/tool" <<-END
		#!/bin/sh
		exec env --default-signal=INT,QUIT,HUP,TERM sh -c '${2:-:}; exec "\$0" "\$@"' "$SG_BUILD/$1" "\$@"
	END
	chmod +x "$T/tool"
	case $1 in
	gatedprof) ARGS=(-m 32 -F 997 -g "u:$W/frames:frame") ;;
	overflowfilter) ARGS=(-m 32 -F 997 --filter 'comm == "frames"') ;;
	glitchrec) ARGS=(-g "u:$W/frames:frame" --threshold 10ms) ;;
	esac
}

# Until there is something to be saved.
until_sampled()
{
	local end=$((SECONDS + 60))

	while [ $SECONDS -lt $end ]; do
		kill -0 "$GP_PID" || fail "the tool ended"
		if [ "$TOOL" = glitchrec ]; then
			[ ! -s "$T/gl/index.jsonl" ] || [ "$(wc -l <"$T/gl/index.jsonl")" -lt 3 ] || return 0
		else
			"$W/ringhead" -p "$GP_PID" -m 32 >"$T/heads" || fail "ringhead: $?"
			[ "$(number sum "$T/heads")" -lt 20000 ] || return 0
		fi
	done
	fail "nothing was sampled"
}

# All that was gathered is where it belongs, and nothing else.
saved_it()
{
	[ "$status" -eq 0 ] || fail "$1: exit code $status"
	if [ "$TOOL" = glitchrec ]; then
		gr_done
		holds '.files >= 1'
		[ -s "$T/gl/glitches.folded" ] || fail "$1: no sums"
	else
		assert_identity
		holds '.kept > 0'
		assert_folded "$2"
		[ "$(awk '{ n += $NF } END { print n }' "$2")" -eq "$(field .kept)" ] ||
			fail "$1: not the $(field .kept) kept samples"
	fi
	assert_no_litter
	rm -rf "$T/gl" "$T/out.folded"
}

output()
{
	out=(-o "$T/out.folded")
	[ "$TOOL" != glitchrec ] || out=(-o "$T/gl")
}

# targets SIGNAL [STDOUT]: a run on a process, which stays unharmed
targets()
{
	local out

	wl a "$W/frames" -t 100000 many
	wl_go a
	output
	[ -z "${2-}" ] || out=()
	start_tool "$T/tool" "${ARGS[@]}" "${out[@]}" -p "$(wl_pid a)"
	until_sampled
	kill "-$1" "$GP_PID"
	gp_wait
	saved_it "$1" "${2:-$T/out.folded}"
	kill -0 "$(wl_pid a)" || fail "$1: the target is gone"
}

# commands SIGNAL...: the signal is the tool's alone, and COMMAND ends with it
commands()
{
	local sig pid out

	output
	for sig; do
		rm -f "$T/pid"
		start_tool "$T/tool" "${ARGS[@]}" "${out[@]}" -- \
			sh -c "echo \$\$ >'$T/pid'; exec '$W/frames' -t 100000 many >/dev/null"
		until_sampled
		pid=$(cat "$T/pid")
		[ "$(cat "/proc/$pid/comm")" = frames ] || fail "no COMMAND"
		kill "-$sig" "$GP_PID"
		gp_wait
		[ ! -e "/proc/$pid" ] || fail "$sig: COMMAND goes on"
		saved_it "$sig, COMMAND" "$T/out.folded"
	done
}

@test "gatedprof: SIGHUP and SIGQUIT, with targets and with a COMMAND" {
	tool_of gatedprof
	targets HUP
	commands HUP QUIT
}

@test "gatedprof: SIGQUIT, standard output" {
	tool_of gatedprof
	targets QUIT "$T/cmd"
}

@test "overflowfilter: SIGHUP and SIGQUIT, with targets and with a COMMAND" {
	tool_of overflowfilter
	targets HUP "$T/cmd"
	commands HUP QUIT
}

@test "glitchrec: SIGHUP and SIGQUIT, with targets and with a COMMAND" {
	tool_of glitchrec
	targets QUIT
	commands HUP QUIT
}

@test "nohup: ignored at the start, ignored all the time, by COMMAND too" {
	local tool out before

	for tool in gatedprof overflowfilter glitchrec; do
		tool_of $tool 'trap "" HUP QUIT'
		output
		rm -f "$T/ignored"
		start_tool "$T/tool" "${ARGS[@]}" "${out[@]}" -- \
			sh -c "grep SigIgn /proc/\$\$/status >'$T/ignored'; exec '$W/frames' -t 100000 many >/dev/null"
		until_sampled
		kill -HUP "$GP_PID"
		kill -QUIT "$GP_PID"
		# It goes on: more is sampled.
		if [ $tool = glitchrec ]; then
			before=$(wc -l <"$T/gl/index.jsonl")
			until [ "$(wc -l <"$T/gl/index.jsonl")" -gt $((before + 3)) ]; do
				kill -0 "$GP_PID" || fail "$tool: the tool ended"
			done
		else
			before=$(number sum "$T/heads")
			until "$W/ringhead" -p "$GP_PID" -m 32 >"$T/heads" &&
				[ "$(number sum "$T/heads")" -gt $((before + 20000)) ]; do
				kill -0 "$GP_PID" || fail "$tool: the tool ended"
			done
		fi
		gp_stop
		saved_it "$tool" "$T/out.folded"
		# 1 is SIGHUP, 4 is SIGQUIT; nothing that the tool ignores for itself. Signals 32 and 33 are
		# the C library's: who was started by posix_spawn(), as make does it, has them ignored.
		[ $((0x$(awk '{ print $2 }' "$T/ignored") & ~0x180000000)) -eq 5 ] ||
			fail "$tool: COMMAND ignores $(cat "$T/ignored")"
	done
}

# in_terminal WAY ARGS...: the tool in a terminal of its own, which is closed when it samples. WAY:
# "leader", it leads its session; "shell", a shell does; "away", it has left its session before.
# Leaves its exit code in $status; "away" is ended by SIGINT afterwards.
in_terminal()
{
	status=0
	rm -f "$T/sum.json" "$T/ready"
	mkfifo "$T/ready"
	python3 - "$T" "$W" "$@" <<-'END' || status=$?
		import functools, os, pty, signal, subprocess, sys, time
		t, w, way, *argv = sys.argv[1:]
		pid, master = pty.fork()
		if pid == 0:
		    ready = os.open(t + "/ready", os.O_WRONLY)
		    os.dup2(ready, 9)
		    run = [t + "/tool", "--summary", t + "/sum.json", "--ready-fd", "9"] + argv
		    if way != "leader":
		        # The tool is in the foreground of a shell, and says how it ended.
		        run = ["sh", "-c", 'trap "" HUP; (trap - HUP; %s exec "$@"); echo $? >"$0"; exit 0' %
		               ("exec setsid" if way == "away" else ""), t + "/code"] + run
		        run[2] = run[2].replace("exec setsid exec", "exec setsid")
		    os.execvp(run[0], run)
		with open(t + "/ready") as ready:
		    if not ready.readline().startswith("ready"):
		        sys.exit("never ready")
		@functools.cache
		def tool():
		    out = subprocess.run(["pgrep", "-f", t + "/sum.json"], capture_output=True, text=True).stdout
		    for p in out.split():
		        if os.readlink("/proc/%s/exe" % p).rsplit("/", 1)[1] in ("gatedprof", "glitchrec", "overflowfilter"):
		            return int(p)
		def rings():
		    out = subprocess.run([w + "/ringhead", "-p", str(tool()), "-m", "32"], capture_output=True, text=True)
		    return int(out.stdout.rsplit("sum=", 1)[1])
		def lines():
		    try:
		        return open(t + "/gl/index.jsonl").read().count("\n")
		    except OSError:
		        return 0
		def sampled(least):
		    end = time.monotonic() + 60
		    while (rings() < 20000 * least) if "-m" in argv else (lines() < 3 * least):
		        if time.monotonic() > end:
		            sys.exit("nothing was sampled")
		sampled(1)
		os.close(master)
		if way == "away":
		    sampled(2)
		    os.kill(tool(), signal.SIGINT)
		code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
		if way != "leader":
		    code = int(open(t + "/code").read())
		sys.exit(code)
	END
}

@test "a terminal that is lost: the run is saved, in all tools" {
	local tool way out pid

	command -v python3 >/dev/null || skip "python3 is not installed"
	for tool in gatedprof overflowfilter glitchrec; do
		for way in leader shell away; do
			[ $tool = gatedprof ] || [ $way = leader ] || continue
			tool_of $tool
			output
			rm -f "$T/pid"
			in_terminal $way "${ARGS[@]}" "${out[@]}" -- \
				sh -c "echo \$\$ >'$T/pid'; exec '$W/frames' -t 100000 many >/dev/null"
			pid=$(cat "$T/pid")
			[ ! -e "/proc/$pid" ] || fail "$tool, $way: COMMAND goes on"
			saved_it "$tool, $way" "$T/out.folded"
		done
	done
}

@test "a terminal that is lost while it is the output: that is an error, and nothing is left" {
	tool_of gatedprof
	command -v python3 >/dev/null || skip "python3 is not installed"
	in_terminal leader "${ARGS[@]}" -- \
		sh -c "echo \$\$ >'$T/pid'; exec '$W/frames' -t 100000 many >/dev/null"
	[ "$status" -eq 1 ] || fail "exit code $status"
	is .exit 1
	[ ! -e "/proc/$(cat "$T/pid")" ] || fail "COMMAND goes on"
	assert_no_litter
}

# ---- temporary files ----

left()
{
	find "$T" -name '.samplegate-*' | wc -l
}

@test "kill -9 leaves temporary files: the next run there removes them, and no others" {
	local tool out

	wl a "$W/frames" -t 100000 many
	wl_go a
	for tool in gatedprof overflowfilter; do
		tool_of $tool
		output
		start_tool "$T/tool" "${ARGS[@]}" "${out[@]}" -p "$(wl_pid a)"
		until_sampled
		kill -9 "$GP_PID"
		gp_wait
		[ "$(left)" -ge 1 ] || fail "$tool: there is nothing to remove"
		# What isn't ours.
		mkfifo "$T/.samplegate-00000000000000f1"
		ln -s err "$T/.samplegate-00000000000000f2"
		ln "$T/err" "$T/.samplegate-00000000000000f3"
		: >"$T/.samplegate-00000000000000f4"
		chown nobody "$T/.samplegate-00000000000000f4"
		start_tool "$T/tool" "${ARGS[@]}" "${out[@]}" -p "$(wl_pid a)"
		until_sampled
		kill -TERM "$GP_PID"
		gp_wait
		[ "$(find "$T" -name '.samplegate-*' -printf '%f ' | tr ' ' '\n' | sort | tr '\n' ' ' | xargs)" = \
			"$(printf '.samplegate-00000000000000f%d ' 1 2 3 4 | xargs)" ] || fail "$tool: $(ls -A "$T")"
		rm "$T"/.samplegate-*
		saved_it "$tool" "$T/out.folded"
	done
}

@test "a run beside one that lives leaves its temporary files alone" {
	local out first

	wl a "$W/frames" -t 100000 many
	wl_go a
	tool_of gatedprof
	output
	start_tool "$T/tool" "${ARGS[@]}" "${out[@]}" -p "$(wl_pid a)"
	first=$GP_PID
	until_sampled
	[ "$(left)" -eq 2 ] || fail "$(left) temporary files"
	OURS+=("$first")
	for _ in 1 2 3; do
		run_second
		[ "$(left)" -eq 2 ] || fail "the second run has removed files of the first"
	done
	GP_PID=$first
	kill -TERM "$GP_PID"
	gp_wait
	saved_it first "$T/out.folded"
}

run_second()
{
	"$GP" -F 997 -o "$T/second.folded" -p "$(wl_pid a)" 100ms >"$T/cmd" 2>"$T/second" </dev/null \
		3>&- 4>&- || fail "the second run: $(cat "$T/second")"
	[ -s "$T/second.folded" ] || fail "the second run has no output"
}

@test "what is replaced keeps its owner and mode, and nobody else sees the temporary file" {
	local out temp

	wl a "$W/frames" -t 100000 many
	wl_go a
	tool_of gatedprof
	output
	echo "old 1" >"$T/out.private"
	chown nobody "$T/out.private"
	chmod 640 "$T/out.private"
	start_tool "$T/tool" "${ARGS[@]}" -o "$T/out.private" -p "$(wl_pid a)"
	until_sampled
	for temp in "$T"/.samplegate-*; do
		[ "$(stat -c %U "$temp")" = root ] || fail "$(stat -c '%n %U' "$temp")"
	done
	[ "$(stat -c %a "$T"/.samplegate-* | sort | tr '\n' ' ')" = "600 644 " ] ||
		fail "modes: $(stat -c %a "$T"/.samplegate-*)"
	kill -TERM "$GP_PID"
	gp_wait
	[ "$status" -eq 0 ] || fail "exit code $status"
	[ "$(stat -c '%U %a' "$T/out.private")" = "nobody 640" ] || fail "$(stat -c '%U %a' "$T/out.private")"
	assert_folded "$T/out.private"
	assert_no_litter
}
