# SPDX-License-Identifier: BSD-2-Clause
# Frames that hang are reported while they hang; otherwise the recorder sleeps.

load glitch

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
}

# await FILTER: until the index has such a glitch; the tool or the workload would end first.
await()
{
	until [ -s "$T/gl/index.jsonl" ] && [ -n "$(glitches "$1")" ]; do
		kill -0 "$(wl_pid f)" 2>/dev/null || fail "the frame was over first"
		kill -0 "$GP_PID" || fail "the tool ended"
	done
}

# hangs OPTION...: the report is there while the thread sleeps, and is completed afterwards
hangs()
{
	wl f "$W/frames" -t 2000 hang
	gr_start -g "u:$W/frames:hanging" --threshold 100ms "$@" -p "$(wl_pid f)"
	wl_go f
	await 'select(.state == "hanging")'
	[ -n "$(glitches 'select(.state == "hanging") | .blocked.stack[] | select(. == "slumber")')" ] ||
		fail "it does not say where: $(glitches .blocked)"
	wl_wait f
	gp_wait
	gr_done
	is .glitches 1
	exact "$T/f.out" 100000000 20000000
	[ "$(glitches 'select(.state == "ended" and .blocked.longest_ns > 1990000000)' | wc -l)" -eq 1 ] ||
		fail "not asleep for 2 s: $(glitches .blocked)"
	[ "$(glitches 'select(.number == 1)' | wc -l)" -eq 2 ] || fail "not one report, then another"
}

@test "a frame asleep for 2 s is reported before it wakes, and where it sleeps" {
	hangs
}

@test "the same with an event that does not tick" {
	hangs -e context-switches -c 1
}

@test "the same by a process's key, and by --mode arm" {
	hangs --key pid
	rm -r "$T/gl" "$T"/f.* "$T/ready"
	hangs --mode arm
}

@test "what still hangs at the end is unfinished" {
	wl f "$W/frames" -t 20000 hang
	gr_start -g "u:$W/frames:hanging" --threshold 100ms -p "$(wl_pid f)"
	wl_go f
	await 'select(.state == "hanging")'
	gp_stop
	gr_done
	is .unfinished 1
	is .glitches 1
	is .frames 0
}

# status FIELD: of the tool, a number
status_of()
{
	sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$GP_PID/status"
}

@test "it sleeps: in fast frames it wakes once in a threshold at most, and nothing grows" {
	local begun now wakes first_wakes first_kb kb made most

	wl f "$W/frames" -t 20000 fast
	gr_start -g "u:$W/frames:frame" --threshold 300ms -p "$(wl_pid f)"
	grep -qE '^[0-9a-f]+-[0-9a-f]+ r--s .*perf_event' "/proc/$GP_PID/maps" ||
		fail "no ring is mapped PROT_READ"
	wl_go f
	# Not from the beginning: what is read first takes memory, and pages of rings appear with use.
	read -r -t 5 _ <>"$T/ready" || true
	begun=$(date +%s%N)
	made=$(sed -n 's/^processes //p' /proc/stat)
	first_wakes=$(status_of voluntary_ctxt_switches)
	first_kb=$(status_of RssAnon)
	read -r -t 10 _ <>"$T/ready" || true
	wakes=$(status_of voluntary_ctxt_switches)
	kb=$(status_of RssAnon)
	now=$(date +%s%N)
	made=$(($(sed -n 's/^processes //p' /proc/stat) - made))
	kill -0 "$(wl_pid f)" || fail "the workload has ended"
	gp_stop
	[ "$status" -eq 4 ] || [ "$status" -eq 0 ] || fail "exit code $status"
	holds '.frames > 500'
	# And for processes that others make (some six are the test's): one when it begins, one when it
	# ends, and each time one at the end of the 50 ms in which nothing is read.
	most=$(((now - begun) / 300000000 + 5 + 4 * made))
	[ $most -le $(((now - begun) / 25000000 + 5)) ] || most=$(((now - begun) / 25000000 + 5))
	[ $((wakes - first_wakes)) -le $most ] ||
		fail "$((wakes - first_wakes)) wake-ups in $(((now - begun) / 1000000)) ms, $made processes made"
	# A machine that stood still makes a glitch, and that reads symbols.
	[ "$(field .glitches)" -gt 0 ] || [ $((kb - first_kb)) -le 4096 ] || fail "$((kb - first_kb)) KB more"
}
