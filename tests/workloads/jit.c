/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A just-in-time compiler as small as can be: jit_outer() calls jit_a(), which burns CPU; "jit_c
 * (int, int)" burns too. With -s jit_a() gives its place to jit_b() halfway. All have frame
 * pointers and no symbol: only the files that -m and -d write have their names.
 */
#include "common.h"

#include <elf.h>
#include <sys/mman.h>

#if defined(__x86_64__)

#define AREA_BYTES    4096u
#define SLOT_BYTES    64u
#define NAME_C	      "jit_c (int, int)"
#define JITDUMP_MAGIC 0x4a695444u

enum { LOAD = 0, CLOSE = 3 };

struct dump_header {
	uint32_t magic, version, total_size, elf_mach, pad1, pid;
	uint64_t timestamp, flags;
};

struct dump_record {
	uint32_t id, total_size;
	uint64_t timestamp;
};

struct dump_load {
	struct dump_record h;
	uint32_t pid, tid;
	uint64_t vma, code_addr, code_size, code_index;
};

struct jit {
	unsigned char *area;
	FILE *map, *dump;
	char map_path[64], dump_path[PATH_MAX];
	unsigned int functions;
};

typedef void (*jit_fn)(uint64_t rounds);

GATED void run(const struct jit *jit, uint64_t ns);

/* push %rbp; mov %rsp,%rbp; mov %rdi,%rax; 1: dec %rax; jnz 1b; pop %rbp; ret */
static const unsigned char loop_code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
					  0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
/* The same with two nops. */
static const unsigned char other_code[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x48, 0x89,
					   0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
/* push %rbp; mov %rsp,%rbp; mov $ADDRESS,%rax; call *%rax; pop %rbp; ret */
static const unsigned char call_code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,	  0,
					  0,	0,    0,    0,	  0,	0xff, 0xd0, 0x5d, 0xc3};
#define CALL_ADDRESS_AT 6

static void put(FILE *f, const void *bytes, size_t n)
{
	if (fwrite(bytes, 1, n, f) != n)
		wl_die("writing");
}

static void tell_dump(struct jit *jit, const char *name, const unsigned char *code, size_t bytes)
{
	size_t name_bytes = strlen(name) + 1;
	struct dump_load load;

	memset(&load, 0, sizeof(load));
	load.h.id = LOAD;
	load.h.total_size = (uint32_t)(sizeof(load) + name_bytes + bytes);
	load.h.timestamp = wl_now_ns();
	load.pid = (uint32_t)getpid();
	load.tid = (uint32_t)syscall(SYS_gettid);
	load.vma = (uintptr_t)code;
	load.code_addr = load.vma;
	load.code_size = bytes;
	load.code_index = jit->functions;
	put(jit->dump, &load, sizeof(load));
	put(jit->dump, name, name_bytes);
	put(jit->dump, code, bytes);
	if (fflush(jit->dump))
		wl_die(jit->dump_path);
}

/* Compiles, so to say; the area is writable or executable, never both. */
static jit_fn emit(struct jit *jit, unsigned int slot, const char *name, const unsigned char *code,
		   size_t bytes, jit_fn callee)
{
	unsigned char *at = jit->area + (size_t)slot * SLOT_BYTES;

	if (mprotect(jit->area, AREA_BYTES, PROT_READ | PROT_WRITE))
		wl_die("mprotect");
	memcpy(at, code, bytes);
	if (callee)
		memcpy(at + CALL_ADDRESS_AT, &callee, sizeof(callee));
	if (mprotect(jit->area, AREA_BYTES, PROT_READ | PROT_EXEC))
		wl_die("mprotect");
	jit->functions++;
	if (jit->map && (fprintf(jit->map, "%lx %zx %s\n", (unsigned long)at, bytes, name) < 0 ||
			 fflush(jit->map)))
		wl_die(jit->map_path);
	if (jit->dump)
		tell_dump(jit, name, at, bytes);
	return (jit_fn)(uintptr_t)at;
}

static FILE *create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");

	if (!f)
		wl_die(path);
	return f;
}

static void open_dump(struct jit *jit)
{
	struct dump_header h;

	memset(&h, 0, sizeof(h));
	h.magic = JITDUMP_MAGIC;
	h.version = 1;
	h.total_size = sizeof(h);
	h.elf_mach = EM_X86_64;
	h.pid = (uint32_t)getpid();
	h.timestamp = wl_now_ns();
	jit->dump = create(jit->dump_path);
	put(jit->dump, &h, sizeof(h));
	if (fflush(jit->dump))
		wl_die(jit->dump_path);
	/* never read: a profiler sees the mapping, and so finds the file */
	if (mmap(NULL, AREA_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(jit->dump), 0) ==
	    MAP_FAILED)
		wl_die(jit->dump_path);
}

static void close_files(struct jit *jit, bool keep)
{
	struct dump_record end;

	if (jit->dump) {
		memset(&end, 0, sizeof(end));
		end.id = CLOSE;
		end.total_size = sizeof(end);
		end.timestamp = wl_now_ns();
		put(jit->dump, &end, sizeof(end));
		if (fclose(jit->dump) || (!keep && unlink(jit->dump_path)))
			wl_die(jit->dump_path);
	}
	if (jit->map && (fclose(jit->map) || (!keep && unlink(jit->map_path))))
		wl_die(jit->map_path);
}

void run(const struct jit *jit, uint64_t ns)
{
	uint64_t end = wl_now_ns() + ns;
	jit_fn outer = (jit_fn)(uintptr_t)jit->area;
	jit_fn c = (jit_fn)(uintptr_t)(jit->area + (size_t)2 * SLOT_BYTES);

	while (wl_now_ns() < end) {
		outer(3000000);
		c(1000000);
	}
	no_tail_call();
}

int main(int argc, char **argv)
{
	bool map = false, replace = false, keep = false;
	const char *dump_dir = NULL;
	struct jit jit;
	uint64_t ms = 1000;
	struct wl wl;
	jit_fn a;
	int c;

	memset(&jit, 0, sizeof(jit));
	wl_init(&wl,
		"[-m] [-d DIR] [-s] [-k] [-t MS]\n"
		"-m writes /tmp/perf-PID.map, -d DIR/jit-PID.dump; both go at the end but for -k\n"
		"-s replaces jit_a by jit_b halfway; -t is time on the clock");
	while ((c = getopt(argc, argv, WL_OPTS "md:skt:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'm')
			map = true;
		else if (c == 'd')
			dump_dir = optarg;
		else if (c == 's')
			replace = true;
		else if (c == 'k')
			keep = true;
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 200000);
	}
	wl_no_more(&wl, argc);
	jit.area = (unsigned char *)mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (jit.area == MAP_FAILED)
		wl_die("mmap");
	if (map) {
		snprintf(jit.map_path, sizeof(jit.map_path), "/tmp/perf-%d.map", getpid());
		jit.map = create(jit.map_path);
	}
	if (dump_dir) {
		if (snprintf(jit.dump_path, sizeof(jit.dump_path), "%s/jit-%d.dump", dump_dir,
			     getpid()) >= (int)sizeof(jit.dump_path))
			wl_usage(&wl);
		open_dump(&jit);
	}
	a = emit(&jit, 1, "jit_a", loop_code, sizeof(loop_code), NULL);
	emit(&jit, 0, "jit_outer", call_code, sizeof(call_code), a);
	emit(&jit, 2, NAME_C, loop_code, sizeof(loop_code), NULL);
	wl_ready(&wl);
	run(&jit, ms * NS_PER_MS / 2);
	if (replace) {
		printf("switch_ns=%" PRIu64 "\n", wl_now_ns());
		emit(&jit, 1, "jit_b", other_code, sizeof(other_code), NULL);
	}
	run(&jit, ms * NS_PER_MS / 2);
	close_files(&jit, keep);
	printf("functions=%u map=%d dump=%d\n", jit.functions, map, dump_dir != NULL);
	return 0;
}

#else

int main(void)
{
	fprintf(stderr, "jit: not written for this machine\n");
	return 77;
}

#endif
