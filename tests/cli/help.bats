# SPDX-License-Identifier: BSD-2-Clause
# What is asked for goes to stdout, with exit code 0.

load lib

# told ARGS...: runs the tool for what it prints
told()
{
	status=0
	"$GP" "$@" >"$T/stdout" 2>"$T/err" </dev/null 3>&- 4>&- || status=$?
	[ "$status" -eq 0 ] || fail "exit code $status: $*"
	[ ! -s "$T/err" ] || fail "stderr is not empty: $*"
	[ -s "$T/stdout" ] || fail "stdout is empty: $*"
}

@test "-h and --help name every option" {
	local option

	told --help
	cp "$T/stdout" "$T/long"
	told -h
	cmp "$T/long" "$T/stdout" || fail "-h and --help differ"
	for option in -p --pid -t --tid -C --cpu -G --cgroup -a --all --follow --force -e --event -F --freq \
		-c --count -U --user -K --kernel -I --idle --weight --samples -o --output -d \
		--delimited --max-stack --call-graph --unwind-memory -m --mmap-pages --ready-fd --summary -q --quiet -v --verbose \
		-V --version --help -g --gate --scope --outside --start --max-open \
		--unsafe-uretprobe; do
		grep -qE -e "^ +(-., )?$option([ =,]|\$)" "$T/stdout" || fail "$option is missing"
	done
	grep -qF -- '[DURATION] [-- COMMAND ...]' "$T/stdout" || fail "the arguments are missing"
	grep -qE '^Exit status: 0 .*1 .*2 .*3 ' "$T/stdout" || fail "the exit codes are missing"
}

@test "-h wins over what would run" {
	told -h 10
	told -F 99 -h
}

@test "-V and --version" {
	told -V
	grep -qxE 'gatedprof [0-9]+\.[0-9]+\.[0-9]+' "$T/stdout" || fail "$(cat "$T/stdout")"
	[ "$(wc -l <"$T/stdout")" -eq 1 ] || fail "more than a line"
	told --version
}

# bcc's users type them; the error that follows shows that they were taken.
@test "-f is accepted, and -L is -t" {
	fails 2 "-U and -K exclude each other" -f -U -K
	fails 2 "-t 'x': " -L x
}

@test "options after the duration count, those after -- do not" {
	fails 2 "-F '0': " 10 -F 0
	fails 2 "-U and -K exclude each other" -U -K -- true -F 0
}

# What people have learnt to read. Whoever changes it on purpose records it anew:
# for t in gatedprof glitchrec overflowfilter; do build/$t --help >tests/golden/help/$t; done
@test "--help of each tool is what is recorded, byte for byte" {
	local tool

	for tool in gatedprof glitchrec overflowfilter; do
		GP=$SG_BUILD/$tool told --help
		cmp "$T/stdout" "$SG_ROOT/tests/golden/help/$tool" ||
			fail "$(diff "$SG_ROOT/tests/golden/help/$tool" "$T/stdout")"
	done
}
