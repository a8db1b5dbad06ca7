# SPDX-License-Identifier: BSD-2-Clause
# glitchrec's options, messages and exit codes, before anything is opened.

bats_require_minimum_version 1.5.0

setup()
{
	GR=${SG_BUILD:-build}/glitchrec
}

# wrong TEXT ARGS...: exit code 2, and the message has TEXT
wrong()
{
	local text=$1

	shift
	run "$GR" "$@"
	[ "$status" -eq 2 ]
	[[ $output == glitchrec:*"$text"* ]]
}

@test "what is missing, and what excludes each other" {
	wrong '-g is missing' --threshold 16ms
	wrong '--threshold is missing' -g u:/bin/true:main
	wrong 'more than once' -g u:a:b -g u:a:c --threshold 16ms
	wrong 'exclude each other' -g u:a:b --threshold 16ms --history 1s --ring-size 1M
	wrong '--pre is about' -g u:a:b --threshold 16ms --mode arm --pre 1s
	wrong 'names a directory' -g u:a:b --threshold 16ms -o -
	wrong "not one of tid" -g u:a:b --threshold 16ms --key cpu
	wrong "not one of flight" -g u:a:b --threshold 16ms --mode tape
	wrong 'at least 10us' -g u:a:b --threshold 1us
}

@test "arguments at returns and in the middle of functions" {
	wrong 'arguments are gone' -g u:a:b..ur:a:b --key arg0 --threshold 16ms
	wrong 'only at a function' -g u:a:b+4..u:a:c --key arg0 --threshold 16ms
	wrong 'arguments are gone' -g u:a:b..u:a:c --key arg0 --deadline ur:a:b
}

@test "help and version go to standard output" {
	run --separate-stderr "$GR" --help
	[ "$status" -eq 0 ]
	[[ $output == *--threshold* && $output == *--key* && -z $stderr ]]
	run --separate-stderr "$GR" -V
	[ "$status" -eq 0 ]
	[[ $output == glitchrec\ * && -z $stderr ]]
}
