# SPDX-License-Identifier: BSD-2-Clause
# Wrong usage: exit code 2, one line that names the option, what was given and what is expected.
# Nothing here needs privileges: it is refused before the machine is looked at.

load lib

@test "numbers that are none" {
	each_fails 2 <<-'TABLE'
		-p 'x': .*process ids ::: -p x
		-p '0': .*process ids ::: -p 0
		-p '': .*process ids ::: -p ''
		-p '1,': .*process ids ::: -p 1,
		-p '1,,2': .*process ids ::: -p 1,,2
		-p '-1': .*process ids ::: -p -1
		-p ' 1': .*process ids ::: -p ' 1'
		-p '0x10': .*process ids ::: -p 0x10
		-p '99999999999': out of range: .*process ids ::: -p 99999999999
		-t 'x': .*thread ids ::: -t x
		-t '0': .*thread ids ::: -L 0
		-F '0': out of range: a frequency in Hz ::: -F 0
		-F '1e3': a frequency in Hz ::: -F 1e3
		-F '-1': a frequency in Hz ::: -F -1
		-F '': a frequency in Hz ::: -F ''
		-F '99 ': a frequency in Hz ::: -F '99 '
		-F '1000001': out of range: a frequency ::: -F 1000001
		-c '0': out of range: a period ::: -c 0
		-c '99999999999999999999': out of range: a period ::: -c 99999999999999999999
		-c '1k': a period ::: -c 1k
		-m '3': not a power of two ::: -m 3
		-m '0': out of range: pages per CPU ::: -m 0
		-m '8589934592': out of range: pages per CPU ::: -m 8589934592
		--max-stack '0': out of range: frames ::: --max-stack 0
		--max-stack 'all': frames ::: --max-stack all
		--call-graph 'lbr': not one of auto, fp, dwarf, none ::: --call-graph lbr
		--unwind-memory '1k': out of range: a size from 512k to 16G ::: --unwind-memory 1k
		--ready-fd 'x': an open file descriptor ::: --ready-fd x
		--ready-fd '-1': an open file descriptor ::: --ready-fd -1
		--ready-fd '4294967296': out of range: an open file descriptor ::: --ready-fd 4294967296
		-C '0-': CPU numbers, as 0-3,5 ::: -C 0-
		-C 'x': CPU numbers, as 0-3,5 ::: -C x
		-C '': CPU numbers, as 0-3,5 ::: -C ''
		-C '1-0': CPU numbers, as 0-3,5 ::: -C 1-0
		-C '4294967295': out of range: CPU numbers ::: -C 4294967295
	TABLE
}

@test "times that are none" {
	each_fails 2 <<-'TABLE'
		DURATION '0': .*a time, as 10, ::: 0
		DURATION 'abc': a time, as 10, ::: abc
		DURATION '10x': a time, as 10, ::: 10x
		DURATION '': a time, as 10, ::: ''
		DURATION '1 s': a time, as 10, ::: '1 s'
		DURATION 'inf': a time, as 10, ::: inf
		DURATION '99999999999999999999': out of range: a time ::: 99999999999999999999
		--max-open '0': .*a time, as 10, ::: -g k:f --max-open 0
		--max-open 'x': a time, as 10, ::: -g k:f --max-open x
		argument '2': a second DURATION; a command goes behind '--' ::: 1 2
		argument 'ls': a second DURATION; a command goes behind '--' ::: 1 ls
	TABLE
}

@test "words that are none of the choices" {
	each_fails 2 <<-'TABLE'
		--scope 'foo': not one of thread, process, cpu, system ::: -g k:f --scope foo
		--scope '': not one of thread, process, cpu, system ::: -g k:f --scope=
		--start 'foo': neither open nor closed ::: -g k:f --start foo
		-o '': empty ::: -o ''
		-e '': empty ::: -e ''
		-G '': empty ::: -G ''
		--summary '': empty ::: --summary ''
		--samples '': empty ::: --samples ''
	TABLE
}

@test "options of which there is one: the second is refused, not the first forgotten" {
	each_fails 2 <<-'TABLE'
		-e 'cpu-clock': there is one already \('page-faults'\); several .* overflowfilter only ::: -e page-faults -e cpu-clock 1
		-e 'cpu-clock': there is one already \('cpu-clock'\) ::: -e cpu-clock -e cpu-clock 1
		-G 'b': there is one already \('a'\) ::: -G a -G b 1
		-o 'b': there is one already \('a'\) ::: -o a -o b 1
		--samples 'b': there is one already \('a'\) ::: --samples a --samples b 1
		--summary 'b': there is one already \('a'\) ::: --summary a --summary b 1
	TABLE
}

@test "options that exclude each other" {
	each_fails 2 <<-'TABLE'
		-F and -c exclude each other ::: -F 99 -c 1000
		-U and -K exclude each other ::: -U -K
		-a is everyone: it does not go with -p or -t ::: -a -p 1
		-a is everyone: it does not go with -p or -t ::: -t 1 -a
		a command after '--' is the target: ::: -p 1 -- true
		a command after '--' is the target: ::: -t 1 -- true
		a command after '--' is the target: ::: -a -- true
		a command after '--' is the target: ::: -G x -- true
	TABLE
}

@test "options that need another" {
	each_fails 2 <<-'TABLE'
		--outside is about a gate: name one with -g ::: --outside 1
		--scope is about a gate: name one with -g ::: --scope cpu 1
		--start is about a gate: name one with -g ::: --start open 1
		--max-open is about a gate: name one with -g ::: --max-open 1s 1
		--follow is about children of -p and -t ::: --follow 1
	TABLE
}

@test "perf's -g is explained" {
	fails 2 "-g '-p': -g takes a gate, as in -g u:PATH:FUNCTION; perf's -g .*stacks are always" \
		-g -p 1
}

@test "gates that are none" {
	each_fails 2 <<-'TABLE'
		-g: the gate is empty: write a probe, as in u: ::: -g ''
		-g: 'U:/bin/ls:p:a' has no natural end: .*U:PATH:PROVIDER:A\.\.U:PATH:PROVIDER:B ::: -g U:/bin/ls:p:a
		-g: 't:sched:x' has no natural end: .*as in t:sched:A\.\.t:sched:B ::: -g t:sched:x
		-g: 'kr:f' has no natural end: .*k:FUNC alone ::: -g kr:f
		-g: 'ur:/bin/ls:f' has no natural end: .*u:PATH:FUNC alone ::: -g ur:/bin/ls:f
		-g: 'u:/bin/ls:f\+16' has no natural end: ::: -g u:/bin/ls:f+16
		-g: 'k:f\+16' has no natural end: ::: -g k:f+16
		-g: 'foo:bar' has an unknown probe kind 'foo': it is one of u, ur, U, ::: -g foo:bar
		-g: 'foo' has no probe kind: write u:PATH:FUNC ::: -g foo
		-g: 'u:/bin/ls:' names no function ::: -g u:/bin/ls:
		-g: 'u:/bin/ls' has no function: write uprobe:PATH:FUNC ::: -g u:/bin/ls
		-g: 'k:' names no function ::: -g k:
		-g: 'syscall:' names no system call: write syscall:NAME ::: -g syscall:
		-g: 't:sched' is not complete: write tracepoint:CATEGORY:NAME ::: -g t:sched
		-g: 'k:f\.\.' ends in '\.\.': add the point that closes ::: -g k:f..
		-g: '\.\.k:f' begins with '\.\.': add the point that opens ::: -g ..k:f
		-g: 'u:/bin/ls:f\+zz' has a bad offset '\+zz': write \+16 or \+0x10 ::: -g u:/bin/ls:f+zz..u:/bin/ls:g
		-g: the gate has a control byte \(0x0a\) ::: -g $'u:/bin/ls:f\nk:g'
	TABLE
}

# Such an option would be a typing error for what does exist, and what it was for is lost.
@test "unknown options, and arguments that are missing" {
	local args

	for args in --bogus -Z -p -F -g --gate --summary; do
		status=0
		"$GP" $args >"$T/stdout" 2>"$T/err" </dev/null || status=$?
		[ "$status" -eq 2 ] || fail "exit code $status: $args"
		[ ! -s "$T/stdout" ] || fail "stdout: $args"
		head -n 1 "$T/err" | grep -qE "gatedprof: .*option.* '?-?-?$(tr -d - <<<"$args")" ||
			fail "does not name $args"
		assert_says "gatedprof --help"
	done
}

@test "a '--' without a command is no request to profile everything" {
	fails 2 ".*'--'.*command" 0.1 --
}
