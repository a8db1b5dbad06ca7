# SPDX-License-Identifier: BSD-2-Clause
# Call frame information of real files: every row as readelf has it. Needs no privileges.

load ../live/lib

# same FILE MINIMUM: so many rows at least, all of them as readelf interprets them
same()
{
	local said rows

	"$SG_BUILD/helpers/cfi_dump" "$1" >"$T/rows" || fail "cfi_dump $1" || return 1
	said=$(python3 tests/helpers/cfi_ref.py --compare "$1" <"$T/rows") ||
		fail "$1: $said" || return 1
	rows=${said% rows}
	[ "$rows" -ge "$2" ] || fail "$1 has $said only"
}

# library NAME: the file that a program would load
library()
{
	ldconfig -p | awk -v name="$1" '$1 == name && /x86-64/ { print $NF; exit }'
}

@test "libraries: libc, libm, the dynamic linker, libstdc++, libcrypto" {
	same "$(library libc.so.6)" 10000
	same "$(library libm.so.6)" 2000
	same /lib64/ld-linux-x86-64.so.2 1000
	same "$(library libstdc++.so.6)" 10000
	same "$(library libcrypto.so.3)" 30000
}

@test "programs: sqlite3, python3, openssl, perl, bash, ours" {
	local program

	for program in sqlite3 python3 openssl perl bash; do
		same "$(readlink -f "/usr/bin/$program")" 500
	done
	same "$SG_BUILD/helpers/cfi_dump" 500
}

@test "what libc is known to have: a signal frame, roots, vfork, stubs" {
	"$SG_BUILD/helpers/cfi_dump" "$(library libc.so.6)" >"$T/rows"
	[ "$(grep -c ' signal$' "$T/rows")" -eq 1 ] || fail "signal frames"
	[ "$(grep -c ' root$' "$T/rows")" -ge 1 ] || fail "no root"
	grep -q ' ra=rdi' "$T/rows" || fail "vfork does not return by rdi"
	grep -q ' plt1[01] ra=c-8$' "$T/rows" || fail "no stubs"
}

source_text()
{
	cat <<-'C'
		#include <alloca.h>
		#include <signal.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>

		volatile int sink;

		__attribute__((noinline)) int sum(int n, const char *p)
		{
			int s = 0;
			for (int i = 0; i < n; i++)
				s += p[i];
			return s;
		}

		__attribute__((noinline)) int moving(int n)
		{
			char *p = alloca(n);
			memset(p, 1, n);
			return sum(n, p);
		}

		__attribute__((noinline)) int realigned(int n)
		{
			_Alignas(64) char fixed[128];
			char *p = alloca(n);
			memset(fixed, n, sizeof(fixed));
			memset(p, 1, n);
			return sum(sizeof(fixed), fixed) + sum(n, p);
		}

		__attribute__((noinline, noreturn)) void leave(int n)
		{
			sink = n;
			_exit(n);
		}

		__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h)
		{
			if (a == 1000)
				leave(b);
			return moving(a) + realigned(b) + moving(c) + realigned(d) + a * b * c * d * e * f + g + h;
		}

		static void handler(int sig)
		{
			sink = many(sig, 2, 3, 4, 5, 6, 7, 8);
		}

		int main(int argc, char **argv)
		{
			pid_t pid;

			signal(SIGUSR1, handler);
			raise(SIGUSR1);
			pid = vfork();
			if (!pid)
				_exit(0);
			return many(argc, 1, 2, 3, 4, 5, 6, argv[0][0]) == 42;
		}
	C
}

@test "what gcc and clang emit" {
	local cc flags n=0

	source_text >"$T/a.c"
	for cc in gcc clang; do
		for flags in -O0 -O1 -O2 -O3 -Os "-O2 -fomit-frame-pointer" "-O2 -fno-omit-frame-pointer" \
			"-O2 -flto" "-O2 -fcf-protection=full" "-O2 -mcmodel=large" "-O2 -static" \
			"-O2 -fuse-ld=lld" "-O2 -fno-pie -no-pie -Wl,-z,lazy"; do
			# shellcheck disable=SC2086 # flags are words
			"$cc" $flags -w -o "$T/a" "$T/a.c" || fail "$cc $flags" || return 1
			same "$T/a" 15 || fail "$cc $flags" || return 1
			n=$((n + 1))
		done
	done
	[ "$n" -eq 26 ]
}

@test "realigned stacks are followed" {
	source_text >"$T/a.c"
	gcc -O2 -w -o "$T/a" "$T/a.c"
	"$SG_BUILD/helpers/cfi_dump" "$T/a" >"$T/rows"
	grep -q ' \*(rbp-[0-9]*)+0 ra=c-8 rbx=.*rbp=f+0' "$T/rows" || fail "no row for a realigned stack"
	! grep unsupported "$T/rows" || fail "rows that can't be followed"
}

@test ".debug_frame, plain and compressed" {
	local flags

	source_text | sed 's/^int main/int start/' >"$T/a.c"
	for flags in "-gz=none" "-gz=zlib" "-gz=none -O0" "-gz=zlib -O0"; do
		# shellcheck disable=SC2086 # flags are words
		gcc -O2 -w -g $flags -fno-asynchronous-unwind-tables -fno-unwind-tables -shared -fPIC \
			-nostdlib -o "$T/a" "$T/a.c" || fail "gcc $flags" || return 1
		readelf --debug-dump=frames "$T/a" >"$T/frames" 2>/dev/null
		! grep -q 'Contents of the \.eh_frame' "$T/frames" || fail "it has .eh_frame" || return 1
		same "$T/a" 15 || fail "$flags" || return 1
	done
}

@test "without section headers the rows are the same" {
	local file n=0

	for file in "$(readlink -f /usr/bin/bash)" "$(library libc.so.6)" "$(library libstdc++.so.6)"; do
		"$SG_BUILD/helpers/cfi_dump" "$file" >"$T/rows"
		cp "$file" "$T/file"
		# e_shoff, then e_shnum and e_shstrndx
		printf '\0\0\0\0\0\0\0\0' | dd of="$T/file" bs=1 seek=40 conv=notrunc status=none
		printf '\0\0\0\0' | dd of="$T/file" bs=1 seek=60 conv=notrunc status=none
		"$SG_BUILD/helpers/cfi_dump" "$T/file" >"$T/headless"
		cmp "$T/rows" "$T/headless" || fail "$file"
		n=$((n + $(wc -l <"$T/rows")))
	done
	[ "$n" -gt 20000 ]
}
