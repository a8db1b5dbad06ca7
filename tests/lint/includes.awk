# SPDX-License-Identifier: BSD-2-Clause
#
# awk -f includes.awk tests/lint/lib-folders.txt FILE...
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

function has(list, word)
{
	return index(" " list " ", " " word " ") > 0
}

BEGIN {
	libc = " argp arpa/inet assert byteswap ctype dirent dlfcn elf endian err errno execinfo fcntl fnmatch ftw" \
		" getopt glob grp inttypes libgen limits link locale malloc math mntent netinet/in poll pthread pwd regex" \
		" sched semaphore setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint" \
		" stdio stdlib stdnoreturn string strings syscall termios time ucontext unistd wchar "
	library["libelf"] = library["gelf"] = "libelf"
	library["elfutils/libdw"] = library["elfutils/libdwfl"] = library["elfutils/libdwelf"] = "libdw"
	library["dwarf"] = "libdw" # its constants come with it
	library["zlib"] = "zlib"
	library["lzma"] = "lzma"
	library["capstone/capstone"] = "capstone"
	library["libiberty/demangle"] = "libiberty"
	for (i = 2; i < ARGC; i++)
		exists[ARGV[i]] = 1
}

# The table comes first.
NR == FNR {
	if ($0 ~ /^#/ || NF == 0)
		next
	split($0, column, /[ \t]*\|[ \t]*/)
	folder = column[1]
	sub(/[ \t]+$/, "", folder)
	known[folder] = 1
	folders[folder] = column[2]
	outside[folder] = column[3]
	n = split(column[4], own, /[ \t]+/)
	for (i = 1; i <= n; i++) {
		if (own[i] == "")
			continue
		private["lib/" folder "/" own[i] ".h"] = folder
		if (!(("lib/" folder "/" own[i] ".h") in exists))
			complain("lib/" folder "/ has no " own[i] ".h")
	}
	next
}

FNR == 1 {
	dir = dir_of(FILENAME)
	me = module_of(FILENAME)
	mine = ""
	if (dir ~ /^lib(\/|$)/) {
		mine = substr(dir, 5)
		if (!(mine in known))
			complain("'" dir "/' is not in tests/lint/lib-folders.txt")
	}
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
		return dir == "tools" || (mine != "" && has(outside[mine], "libbpf"))
	if (base in library)
		return mine != "" ? has(outside[mine], library[base]) : dir ~ /^tests\//
	return name == "cmocka.h" && dir ~ /^tests\//
}

function library_ok(name,    path, to)
{
	path = "lib/" name
	if (!(path in exists))
		return "not in lib/"
	to = dir_of(name)
	if (dir ~ /^tests\//)
		return ""
	if (path in private && private[path] != mine)
		return "a header that is for lib/" to "/ alone"
	if (dir == "tools" || to == mine || has(folders[mine], to))
		return ""
	return "lib/" mine "/ may not include lib/" to "/"
}

function local_ok(name)
{
	if (name ~ /\.c$/)
		return "a source file"
	if (name ~ /^[a-z]+\/[a-z0-9_]+\.h$/)
		return mine != "" || dir ~ /^(tests\/|tools)/ ? library_ok(name) : "not in " dir "/"
	if (name ~ /\//)
		return "a path other than FOLDER/NAME.h of lib/"
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
	if (dir ~ /^(tests\/|tools)/ && ((dir "/" name) in exists))
		return ""
	return "not in include/; a header of lib/ is FOLDER/NAME.h"
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
