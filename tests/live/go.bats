#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Go programs: whole stacks, as the program's goroutines have them, in every way of building one;
# and gates on Go functions, which are of threads and say so.

load lib

G=$SG_BUILD/go

setup_file()
{
	export GOCACHE=$SG_BUILD/go/cache GO111MODULE=off GOFLAGS= GOTOOLCHAIN=local
	mkdir -p "$SG_BUILD/go"
	cd "$SG_ROOT/tests/workloads" || return 1
	CGO_ENABLED=0 go build -o "$G/gostacks" gostacks.go &&
		CGO_ENABLED=0 go build -ldflags '-s -w' -o "$G/gostacks-s" gostacks.go &&
		CGO_ENABLED=0 go build -buildmode=pie -o "$G/gostacks-pie" gostacks.go &&
		CGO_ENABLED=1 go build -buildmode=pie -ldflags '-linkmode=external -s -w' \
			-o "$G/gostacks-ext" gostacks.go &&
		CGO_ENABLED=0 go build -o "$G/gohandle" gohandle.go &&
		CGO_ENABLED=1 go build -o "$G/gocgo" gocgo.go
}

teardown()
{
	live_teardown
}

# goroutines FILE: folded lines of gostacks. Each stack of one of its goroutines has to be one that
# goroutine can have, from its first function on; prints how many there are, by goroutine, and how
# many of main's end in the walk of its own stack, on the system stack.
goroutines()
{
	sed -E 's/;[^;]*_\[k\].*( [0-9]+)$/\1/; s/\.abi0//g' "$1" | awk '
	{
		count = $NF
		sub(/ [0-9]+$/, "")
		sub(/^[^;]*;/, "")
		if (!/(^|;)main\./)
			next
		line = $0
		# What is called from there on is anything but the program'"'"'s own functions.
		if (sub(/^runtime.goexit;runtime.main;main.main(;main.deep)*/, ""))
			who = "main"
		else if (sub(/^runtime.goexit;(main.main.func[0-9.]*;)?main.alpha(;main.alphaAlloc)?/, ""))
			who = "alpha"
		else if (sub(/^runtime.goexit;(main.main.func[0-9.]*;)?main.beta(;main.betaGrow)*/, ""))
			who = "beta"
		else if (sub(/^runtime.goexit;(main.main.func[0-9.]*;)?main.gamma(;main.gammaSpin(;main.gammaLeaf)?)?/, ""))
			who = "gamma"
		else if (sub(/^runtime.goexit;main.main.func[0-9.]*/, ""))
			who = "none yet"
		else
			who = "wrong"
		if (who == "wrong" || !/^(;|$)/ || /;main\./)
			print "wrong: " line
		n[who] += count
		if (line ~ /main.deep;(runtime.[cC]allers;)*runtime.systemstack;runtime.callers/)
			n["callers"] += count
	}
	END { print "main " n["main"] + 0, "alpha " n["alpha"] + 0, "beta " n["beta"] + 0,
		"gamma " n["gamma"] + 0, "callers " n["callers"] + 0 }'
}

# right_goroutines: none is wrong, and all have been seen, main on the system stack as well
right_goroutines()
{
	[[ $output != *wrong:* ]] || fail "$output"
	[[ $output =~ ^"main "[1-9].*"alpha "[1-9].*"beta "[1-9].*"gamma "[1-9].*"callers "[1-9] ]] ||
		fail "$output"
}

@test "go: each goroutine's stack is whole, and no other's" {
	local kind

	for kind in gostacks gostacks-pie; do
		gp_ok -F 997 -- "$G/$kind" 1.5
		holds '.kept > 100'
		run goroutines "$T/out.folded"
		right_goroutines
		# What is called when a stack grows forgets where it came from.
		holds '.unwind.stops.complete + .unwind.stops.unsupported >= .unwind.stacks * 0.99'
		holds '.unwind.stops.complete >= .unwind.stacks * 0.5'
	done
}

# named: the addresses of stripped's samples by the symbols of its twin, as folded lines
named()
{
	jq -r '[.user_ips[]] | join(" ")' "$T/samples" | python3 -c '
import bisect, subprocess, sys
nm = subprocess.run(["nm", "-n", sys.argv[1]], capture_output=True, text=True, check=True).stdout
syms = [(int(l.split()[0], 16), l.split(None, 2)[2]) for l in nm.splitlines() if l.split()[1] in "tT"]
starts = [s[0] for s in syms]
for line in sys.stdin:
    ips = [int(w, 16) for w in line.split()]
    names = []
    for i, ip in enumerate(ips):
        at = bisect.bisect_right(starts, ip - (i > 0)) - 1
        out = at < 0 or ip > 1 << 32
        names.append("[other]" if out else syms[at][1])
    print("x;" + ";".join(reversed(names)), 1)
' "$1"
}

@test "go: a stripped program's stacks are whole as well" {
	gp_ok -F 997 --samples "$T/samples" -- "$G/gostacks-s" 1.5
	holds '.kept > 100'
	holds '.unwind.stops.complete + .unwind.stops.unsupported >= .unwind.stacks * 0.99'
	named "$G/gostacks" >"$T/named"
	run goroutines "$T/named"
	right_goroutines
}

@test "go: linked by the system's linker, position-independent and stripped" {
	gp_ok -F 997 -- "$G/gostacks-ext" 1.5
	holds '.kept > 100'
	holds '.unwind.stops.complete + .unwind.stops.unsupported >= .unwind.stacks * 0.98'
	holds '.unwind.stops.complete >= .unwind.stacks * 0.5'
}

@test "go: from Go into C and back into Go" {
	local front="^gocgo;runtime.goexit;runtime.main;main.main;main.viaC;main._Cfunc_c_outer"

	gp_ok -F 997 -- "$G/gocgo" 300
	sed -i 's/\.abi0//g' "$T/out.folded"
	[ "$(samples 'c_spin')" -gt 30 ] && [ "$(samples 'main.spinBack')" -gt 10 ] ||
		fail "too few"
	[ "$(samples 'c_spin')" -eq "$(samples "$front;(runtime.cgocall;)?runtime.asmcgocall;c_outer;c_spin")" ] ||
		fail "$(grep c_spin "$T/out.folded")"
	[ "$(samples 'main.spinBack')" -eq "$(samples \
		"$front;(runtime.cgocall;)?runtime.asmcgocall;c_outer;backInGo;crosscall2;runtime.cgocallback;.*main.spinBack")" ] ||
		fail "$(grep spinBack "$T/out.folded")"
}

@test "go: a gate on a Go function says that it is of a thread; what is another goroutine's is doubtful" {
	local inside other

	gp_ok -F 997 -g "u:$G/gohandle:main.handle" -- "$G/gohandle" 60
	grep -c "main.handle is in Go, which is followed by thread, not by goroutine" "$T/err" |
		grep -qx 1 || fail "$(cat "$T/err")"
	is '.gates[0].opens' 60
	is '.gates[0].recovered' 0
	inside=$(samples ';main\.handle')
	other=$(samples 'main\.burnOther')
	[ "$inside" -gt 20 ] && [ "$other" -gt 100 ] || fail "inside $inside, other $other"
	# All of the other one's, and the runtime's on its own; none of those inside.
	holds ".gates[0].doubtful >= $other and .gates[0].doubtful <= .kept - $inside + 2"
}

@test "go: no such word of a C function in the same program, nor of a program in C" {
	gp_ok -F 997 -g "u:$G/gocgo:c_outer" -- "$G/gocgo" 50
	is '.gates[0].opens' 50
	! grep "in Go" "$T/err" || fail "it is in C"
	gp_ok -F 997 -g "u:$W/nest:recurse" -- "$W/nest"
	! grep "in Go" "$T/err" || fail "it is in C"
}

@test "go: a frame says so too, and arguments are no key there" {
	run "$SG_BUILD/glitchrec" -g "u:$G/gohandle:main.handle" --threshold 10s -o "$T/g" -- "$G/gohandle" 5
	[ "$status" -eq 4 ] || fail "$output"
	[[ $output == *"main.handle is in Go, which is followed by thread"* ]] || fail "$output"
	[[ $output == *"of 5 frames"* ]] || fail "$output"
	run "$SG_BUILD/glitchrec" -g "u:$G/gohandle:main.handle" --key arg0 --threshold 10s -o "$T/g" \
		-- "$G/gohandle" 5
	[ "$status" -eq 2 ] || fail "$output"
	[[ $output == *"is in Go, whose arguments are not where those of C are"* ]] || fail "$output"
}
