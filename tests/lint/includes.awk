# SPDX-License-Identifier: BSD-2-Clause
#
# awk -f includes.awk tests/lint/lib-order.txt FILE...
#
# Prints every #include that the include table does not allow, as FILE:LINE: text, and exits 1 if
# there was one. FILE is a path from the root of the tree; only files that exist are resolved, so a
# header has to be among the FILEs to be found.

function complain(text)
{
	printf "%s:%d: %s\n", FILENAME, FNR, text
	bad = 1
}

function dir_of(path)
{
	sub(/\/[^\/]*$/, "", path)
	return path
}

function module_of(path)
{
	sub(/^.*\//, "", path)
	sub(/\..*$/, "", path)
	return path
}

BEGIN {
	libc = " argp arpa/inet assert byteswap ctype dirent dlfcn elf endian err errno execinfo fcntl fnmatch ftw" \
		" getopt glob grp inttypes libgen limits link locale malloc math mntent netinet/in poll pthread pwd regex" \
		" sched semaphore setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint" \
		" stdio stdlib stdnoreturn string strings syscall termios time ucontext unistd wchar "
	third = " libelf gelf elfutils/libdw elfutils/libdwfl elfutils/libdwelf dwarf zlib" \
		" lzma capstone/capstone libiberty/demangle "
	for (i = 2; i < ARGC; i++)
		exists[ARGV[i]] = 1
	layer = 0
}

# The order file comes first.
NR == FNR {
	if ($0 ~ /^#/ || NF == 0)
		next
	layer++
	for (i = 1; i <= NF; i++) {
		name = $i
		if (sub(/\*$/, "", name))
			libbpf[name] = 1
		order[name] = layer
	}
	next
}

FNR == 1 {
	dir = dir_of(FILENAME)
	me = module_of(FILENAME)
	if (dir == "lib" && !(me in order))
		complain("module '" me "' is not in tests/lint/lib-order.txt")
}

function system_ok(name,    base)
{
	base = name
	sub(/\.h$/, "", base)
	if (dir == "include")
		return name == "linux/types.h"
	if (dir == "bpf")
		return name ~ /^bpf\/[a-z_]+\.h$/ && name !~ /^bpf\/(libbpf|bpf|btf|skel_internal)\.h$/
	if (name == "argp.h")
		return dir == "tools"
	if (index(libc, " " base " ") || name ~ /^(sys|linux|asm)\/[a-z0-9_\/-]+\.h$/)
		return 1
	if (name ~ /^bpf\//)
		return dir == "tools" || (dir == "lib" && (me in libbpf))
	if (index(third, " " base " "))
		return dir == "lib" || dir ~ /^tests\//
	return name == "cmocka.h" && dir ~ /^tests\//
}

function local_ok(name,    to)
{
	if (name ~ /\//)
		return "no path in a local include"
	if (name ~ /\.c$/)
		return "a source file"
	if (name ~ /\.skel\.h$/)
		return dir == "tools" && name == me ".skel.h" ? "" : "not its own skeleton"
	if (dir == "tools" && (name == me "_packed.h" || name == me "_api.h"))
		return "" # bytes of bpf/TOOL.bpf.o and of bpf/TOOL_api.bpf.o
	if (("include/" name) in exists)
		return ""
	if (dir == "include")
		return "not in include/"
	if (dir == "bpf") {
		if (name == "vmlinux.h")
			return ""
		return (name ~ /\.bpf\.h$/ && ("bpf/" name) in exists) ? "" : "neither vmlinux.h nor bpf/*.bpf.h"
	}
	if (("lib/" name) in exists) {
		if (dir != "lib")
			return ""
		to = module_of(name)
		if (to == me)
			return ""
		if (order[to] > order[me])
			return "'" to "' is a later stage than '" me "'"
		return ""
	}
	if (dir ~ /^(tests\/|tools)/ && ((dir "/" name) in exists))
		return ""
	return "not in lib/ or include/"
}

/^[ \t]*#[ \t]*include/ {
	line = $0
	sub(/^[ \t]*#[ \t]*include[ \t]*/, "", line)
	if (match(line, /^<[^>]+>/)) {
		name = substr(line, 2, RLENGTH - 2)
		if (!system_ok(name))
			complain("<" name "> may not be included in " dir "/")
	} else if (match(line, /^"[^"]+"/)) {
		name = substr(line, 2, RLENGTH - 2)
		why = local_ok(name)
		if (why != "")
			complain("\"" name "\" may not be included in " dir "/: " why)
	} else {
		complain("an include that is neither <...> nor \"...\"")
	}
}

END {
	exit bad
}
