# SPDX-License-Identifier: BSD-2-Clause
# perf.data files by lib/perfdata, read by the perf that is installed here: without a word of
# warning, and with everything in them. A warning of perf is a line on its stderr.

load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	command -v perf >/dev/null || skip "no perf"
}

# record FILE COMMAND...: sets $said to what was written
record()
{
	"$SG_BUILD/helpers/perfdata_rec" "$1" 1997 "${@:2}" >"$T/said" 2>"$T/err" </dev/null ||
		fail "perfdata_rec failed"
	said=$(tail -n 1 "$T/said")
}

# quiet_perf ARGS...: its stdout is in $T/perf. HOME is the test's, where no cache of build-ids is.
quiet_perf()
{
	HOME=$T perf "$@" >"$T/perf" 2>"$T/err" </dev/null || fail "perf $* exited with $?"
	[ ! -s "$T/err" ] || fail "perf $* warned"
}

# One line a sample: COMM;LEAF;CALLER;...
chains()
{
	quiet_perf script -F comm,ip,sym --no-inline -i "$1"
	awk -v RS= -F'\n' '{
		sub(/^ */, "", $1); sub(/ *$/, "", $1)
		line = $1
		for (i = 2; i <= NF; i++) {
			split($i, words, " ")
			line = line ";" words[2]
		}
		print line
	}' "$T/perf"
}

# chains COMM on stdin: the most frequent one
most()
{
	grep "^$1;" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }'
}

@test "perf reads what was recorded, and warns of nothing" {
	local command samples n

	record "$T/a.data" "$W/spin" -t 1000
	samples=$(number samples "$T/said")
	[ "$samples" -ge 100 ] || fail "$said"
	quiet_perf script -F comm,time -i "$T/a.data"
	[ "$(wc -l <"$T/perf")" -eq "$samples" ] || fail "$(wc -l <"$T/perf") lines, $said"
	# in the order of time
	awk '{ print $NF }' "$T/perf" | sort -nsc || fail "not in order"
	for command in "report --stdio" "report --stdio --sort dso,sym" "report --stdio --no-children" \
		"report --stdio --header" "report -D" "script --show-task-events --show-mmap-events" \
		"annotate --stdio -s burn" "evlist -v" "buildid-list" "report --stdio --stats"; do
		# shellcheck disable=SC2086
		quiet_perf $command -i "$T/a.data"
		[ -s "$T/perf" ] || fail "$command says nothing"
	done
	n=$(awk '$1 == "SAMPLE" { print $3 }' "$T/perf" | head -n 1)
	[ "$n" -eq "$samples" ] || fail "report counts $n samples; $said"
}

@test "user functions have their names and their callers" {
	local all burning

	record "$T/a.data" "$W/spin" -t 1000
	chains "$T/a.data" >"$T/chains"
	all=$(grep -c '^spin;' "$T/chains")
	burning=$(grep -cE '^spin;.*;spin_leaf;spin;main;' "$T/chains")
	[ "$all" -ge 50 ] || fail "$all samples of spin"
	[ $((burning * 10)) -ge $((all * 9)) ] || fail "$burning of $all samples of spin are named"
}

@test "kernel functions have their names" {
	local all

	! grep -q '^0* T _text$' /proc/kallsyms || skip "kernel addresses are hidden"
	record "$T/a.data" "$W/sysstorm"
	chains "$T/a.data" | grep '^sysstorm;' >"$T/chains"
	all=$(wc -l <"$T/chains")
	[ "$all" -ge 50 ] || fail "$all samples of sysstorm"
	[ "$(grep -cE ';(do_syscall_64|el0_svc|invoke_syscall)' "$T/chains")" -ge $((all / 4)) ] ||
		fail "of $all samples: $(cut -c1-200 "$T/chains" | sort | uniq -c | sort -rn | head -n 5)"
	quiet_perf script -F ip,sym,dso -i "$T/a.data"
	# Entry code and BPF programs may have none.
	[ "$(grep -c 'unknown.*kernel.kallsyms' "$T/perf")" -le $(($(grep -c kernel.kallsyms "$T/perf") / 50)) ] ||
		fail "$(grep 'unknown.*kernel.kallsyms' "$T/perf" | sort | uniq -c | sort -rn | head -n 5)"
}

@test "perf record of the same program says the same" {
	local ours theirs

	record "$T/a.data" "$W/spin" -t 1000
	HOME=$T perf record -q -a -g -e cpu-clock -F 1997 -o "$T/b.data" -- "$W/spin" -t 1000 \
		>"$T/cmd" 2>"$T/err" </dev/null || fail "perf record failed"
	ours=$(chains "$T/a.data" | most spin)
	theirs=$(chains "$T/b.data" | most spin)
	[ -n "$ours" ] && [ "$ours" = "$theirs" ] || fail "'$ours', perf record '$theirs'"
	# the same files have the same ids
	quiet_perf buildid-list -i "$T/a.data"
	sort "$T/perf" >"$T/ours"
	quiet_perf buildid-list -H -i "$T/b.data"
	grep -E '(/spin|/libc\.so\.6|\[kernel\.kallsyms\])$' "$T/perf" | sort >"$T/theirs"
	[ "$(wc -l <"$T/theirs")" -ge 2 ] || fail "perf record has few: $(cat "$T/theirs")"
	[ -z "$(comm -13 "$T/ours" "$T/theirs")" ] || fail "without: $(comm -13 "$T/ours" "$T/theirs")"
}

# What was there before the events has to be looked up, or it has no names.
@test "programs that were running before are known" {
	local name

	wl early "$W/spin" -t 100000
	wl_go early
	record "$T/a.data" "$W/spin" -t 500
	kill -9 "${WL_PID[early]}"
	wait "${WL_PID[early]}" || true
	quiet_perf script -F pid,ip,sym -i "$T/a.data"
	name=$(awk -v RS= -v pid="${WL_PID[early]}" '$1 == pid && / spin_leaf\n/ { n++ } END { print n + 0 }' "$T/perf")
	unset "WL_PID[early]"
	[ "$name" -ge 20 ] || fail "$name samples of the early one have names"
}

@test "late records are in order, since marks were undone" {
	local bad

	# perf refuses what belongs to another user.
	cp tests/golden/perfdata-late.data "$T/late.data"
	quiet_perf script --symfs tests/golden/root -F tid,time,ip,sym -i "$T/late.data"
	[ "$(grep -c ' leaf$' "$T/perf")" -eq 10 ] || fail "$(cat "$T/perf")"
	awk 'NF == 2 && /:$/ { print $2 }' "$T/perf" | sort -nsc || fail "not in order"
	# With the marks as they were, it does warn.
	perl -pe 's/\x41\0\0\0\0\0\x08\0/\x44\0\0\0\0\0\x08\0/g' "$T/late.data" >"$T/bad.data"
	bad=$(perf script -i "$T/bad.data" 2>&1 >/dev/null)
	[[ $bad == *"2 out of order events"* ]] || fail "with all marks: $bad"
}

@test "what was lost is said" {
	cp tests/golden/perfdata.data "$T/lost.data"
	perf report --stdio -i "$T/lost.data" >"$T/perf" 2>"$T/err"
	grep -q '^Processed 7 samples and lost 14.29%!$' "$T/err" ||
		fail "perf does not say that one of seven was lost"
	# Nor is the kernel of this file the one that runs.
	! grep -vE '^(No kallsyms or vmlinux with build-id 6b65726e656c was found|Warning:|Processed .*|)$' \
		"$T/err" || fail "it says more"
	quiet_perf report --stdio --stats -i "$T/lost.data"
	grep -qE '^ +SAMPLE events: +6( |$)' "$T/perf" || fail "$(cat "$T/perf")"
}

@test "a full disk is reported" {
	status=0
	"$SG_BUILD/helpers/perfdata_rec" /dev/full 1997 true >"$T/said" 2>"$T/err" </dev/null || status=$?
	[ "$status" -eq 1 ] || fail "exit code $status"
	grep -q 'No space left on device' "$T/err" || fail "wrong reason"
	[ ! -s "$T/said" ] || fail "it claims: $(cat "$T/said")"
}

# The kernel announces only BPF programs that come later.
@test "BPF programs that were loaded before have their names" {
	local n

	[ -e /sys/kernel/tracing/events/syscalls ] || skip "no syscall tracepoints"
	! grep -q '^0* T _text$' /proc/kallsyms || skip "kernel addresses are hidden"
	gp_start -F 1 -a -g syscall:getppid
	record "$T/a.data" "$W/sysstorm"
	gp_stop
	quiet_perf script -F ip,sym -i "$T/a.data"
	n=$(grep -cE '[0-9a-f]+ bpf_prog_[0-9a-f]{16}_' "$T/perf" || true)
	[ "$n" -ge 10 ] || fail "$n frames in BPF programs"
	quiet_perf report --stdio --sort dso,sym -i "$T/a.data"
}
