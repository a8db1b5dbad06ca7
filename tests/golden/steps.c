/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program of the recordings, without any library. It is checked in as root/opt/steps, built by
 *
 *     gcc -nostdlib -static -O0 -fno-omit-frame-pointer -fno-stack-protector
 *         -fcf-protection=none -fno-asynchronous-unwind-tables
 *         -Wl,--build-id=none -Wl,-z,norelro -Wl,-z,noseparate-code -o steps steps.c
 *
 * and recorded as /opt/steps with -e cpu-clock -F 997 -g u:/opt/steps:gated. Each call of
 * ring_read() left its stream (u32), its length (u32) and its bytes in the .bin; only the records
 * of its two processes were kept, and inode numbers are zeroed, since a checked-out file has
 * others. kallsyms has what the samples need of the kernel's.
 *
 * In steps-uretprobe.bin, recorded with --unsafe-uretprobe, each gate's return address on a stack
 * was put back to the trampoline that kernels before 6.11 show there.
 */

static long call(long n, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

volatile unsigned long sink;

void leaf(unsigned long n)
{
	while (n--)
		sink += n;
}

/* One byte to nowhere, so that some of the samples fall into the kernel. */
void talk(int fd, unsigned long n)
{
	while (n--)
		call(1, fd, (long)"x", 1);
	sink++;
}

void gated(int fd)
{
	leaf(200000);
	talk(fd, 3000);
	sink++;
}

void ungated(int fd)
{
	leaf(200000);
	talk(fd, 3000);
	sink++;
}

void work(int fd, int times)
{
	while (times--) {
		gated(fd);
		ungated(fd);
	}
	sink++;
}

int main(void)
{
	int fd = call(2, (long)"/dev/null", 1, 0);
	long pid = call(57, 0, 0, 0);

	if (pid == 0) {
		call(157, 15, (long)"child", 0);
		work(fd, 20);
		call(231, 0, 0, 0);
	}
	work(fd, 60);
	call(61, pid, 0, 0);
	return 0;
}

__asm__(".globl _start\n.type _start, @function\n"
	"_start: xor %ebp, %ebp\n call main\n mov %eax, %edi\n mov $231, %eax\n syscall\n"
	".size _start, . - _start\n");
