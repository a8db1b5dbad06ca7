/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/parse.h"
#include "elf/kallsyms.h"

#define BTF_PATH     "/sys/kernel/btf/vmlinux"
#define PMU_DIR	     "/sys/bus/event_source/devices"
#define CPU_DIR	     "/sys/devices/system/cpu"
#define PERF_SYSCTLS "/proc/sys/kernel/perf_event_"

/* The initial pid namespace's inode number is part of the kernel's ABI (PROC_PID_INIT_INO). */
#define INITIAL_PIDNS 0xEFFFFFFCu

/* The whole of a small file as a string; -EFBIG when it is not small. */
static int read_small(const char *path, char *buf, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	size_t n = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	while (n < bytes && (got = read(fd, buf + n, bytes - n)) != 0) {
		if (got < 0) {
			if (errno == EINTR)
				continue;
			err = -errno;
			goto out;
		}
		n += got;
	}
	if (n == bytes) {
		err = -EFBIG;
		goto out;
	}
	buf[n] = 0;
	while (n > 0 && buf[n - 1] == '\n')
		buf[--n] = 0;
out:
	close(fd);
	return err;
}

int host_read_u64(const char *path, uint64_t *out)
{
	char buf[64];
	int err = read_small(path, buf, sizeof(buf));

	return err ? err : parse_u64(buf, 0, UINT64_MAX, out);
}

static int read_cpus(const char *path, uint32_t **cpus, size_t *n)
{
	char buf[4096];
	uint32_t *list = NULL;
	size_t len = 0;
	int err = read_small(path, buf, sizeof(buf));

	if (!err)
		err = parse_cpulist(buf, &list, &len);
	if (!err && !len)
		err = -ENODATA;
	if (err) {
		free(list);
		return err;
	}
	free(*cpus);
	*cpus = list;
	*n = len;
	return 0;
}

int host_read_online(uint32_t **cpus, size_t *n)
{
	return read_cpus(CPU_DIR "/online", cpus, n);
}

static int idle_from_stat(uint32_t cpu, uint64_t *idle_ns, uint64_t *step_ns)
{
	uint64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK), idle, iowait;
	char name[16], *line = NULL;
	size_t cap = 0, len;
	int err = -ENOENT;
	FILE *stat_file = fopen("/proc/stat", "re");

	if (!stat_file)
		return -errno;
	len = snprintf(name, sizeof(name), "cpu%" PRIu32 " ", cpu);
	while (err && getline(&line, &cap, stat_file) > 0) {
		if (strncmp(line, name, len))
			continue;
		err = sscanf(line + len, "%*u %*u %*u %" SCNu64 " %" SCNu64, &idle, &iowait) == 2
			      ? 0
			      : -EINVAL;
		if (err)
			break;
		*idle_ns = (idle + iowait) * tick_ns;
		*step_ns = 2 * tick_ns;
	}
	free(line);
	fclose(stat_file);
	return err;
}

int host_read_idle_ns(uint32_t cpu, uint64_t *idle_ns, uint64_t *step_ns)
{
	uint64_t sum_us = 0, us;
	char path[96];

	for (int state = 0;; state++) {
		snprintf(path, sizeof(path), CPU_DIR "/cpu%" PRIu32 "/cpuidle/state%d/time", cpu,
			 state);
		if (host_read_u64(path, &us)) {
			if (!state)
				return idle_from_stat(cpu, idle_ns, step_ns);
			break;
		}
		sum_us += us;
	}
	*idle_ns = sum_us * 1000;
	*step_ns = 1000;
	return 0;
}

static bool exists(const char *path)
{
	struct stat st;

	return !stat(path, &st);
}

/* Hybrid machines have cpu_core and cpu_atom; arm64 names its PMUs after the core. */
static int find_pmu(bool *has)
{
	DIR *dir;
	struct dirent *d;
	char path[PATH_MAX];
	bool found = exists(PMU_DIR "/cpu");

	*has = found;
	if (found)
		return 0;
	dir = opendir(PMU_DIR);
	if (!dir)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (!found && (d = readdir(dir))) {
		/* Only PMUs that sit in cores have this file. */
		if (snprintf(path, sizeof(path), PMU_DIR "/%s/cpus", d->d_name) < (int)sizeof(path))
			found = d->d_name[0] != '.' && exists(path) &&
				(!strncmp(d->d_name, "cpu", 3) || !strncmp(d->d_name, "armv", 4));
	}
	closedir(dir);
	*has = found;
	return 0;
}

/* The tracepoints' ids are there if tracefs is. */
static const char *find_tracefs(const char **denied)
{
	static const char *const dirs[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	char path[64];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/events", dirs[i]);
		if (exists(path))
			return dirs[i];
		if (errno == EACCES && !*denied)
			*denied = dirs[i];
	}
	return NULL;
}

static int find_cgroup2(char *out, size_t bytes)
{
	FILE *f = fopen("/proc/mounts", "re");
	char *line = NULL;
	size_t cap = 0;
	int err;

	out[0] = 0;
	if (!f)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (errno = 0, getline(&line, &cap, f) > 0) {
		char *save = line, *dir, *type;

		strsep(&save, " ");
		dir = strsep(&save, " ");
		type = strsep(&save, " ");
		if (dir && type && !strcmp(type, "cgroup2") && strlen(dir) < bytes) {
			snprintf(out, bytes, "%s", dir);
			break;
		}
	}
	err = errno == ENOMEM ? -ENOMEM : 0;
	free(line);
	fclose(f);
	return err;
}

static int check_privileges(bool *lacks_ptrace, struct failure *f)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {};
	uint64_t have;
	bool admin, bpf, perfmon;

	if (syscall(SYS_capget, &head, data))
		return failure_set(f, EXIT_CANT, -errno, "cannot read our capabilities: %s",
				   strerror(errno));
	have = data[0].effective | (uint64_t)data[1].effective << 32;
	admin = have & 1ull << CAP_SYS_ADMIN;
	bpf = have & 1ull << CAP_BPF;
	perfmon = have & 1ull << CAP_PERFMON;
	*lacks_ptrace = !(have & 1ull << CAP_SYS_PTRACE);
	if (admin || (bpf && perfmon))
		return 0;
	return failure_set(
		f, EXIT_CANT, -EPERM,
		"not privileged: loading BPF programs and sampling other processes needs "
		"CAP_BPF and CAP_PERFMON (missing: %s%s%s), or CAP_SYS_ADMIN; run it as "
		"root, e.g. with sudo",
		bpf ? "" : "CAP_BPF", !bpf && !perfmon ? ", " : "", perfmon ? "" : "CAP_PERFMON");
}

/* With FRED all that a CPU is interrupted by has one entry. */
static bool has_fred(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[8192];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "flags", 5) && strstr(line, " fred ");
	if (f)
		fclose(f);
	return found;
}

int host_probe(struct host *host, struct failure *f)
{
	struct host h = {};
	struct utsname uts;
	uint32_t *possible = NULL;
	size_t n_possible = 0;
	struct stat st;
	uint64_t v;
	int err;

	err = check_privileges(&h.lacks_ptrace, f);
	if (err)
		return err;
	if (!exists(BTF_PATH))
		return failure_set(
			f, EXIT_CANT, -ENOENT,
			"this kernel has no type information (" BTF_PATH " is missing): "
			"use a kernel that is built with CONFIG_DEBUG_INFO_BTF=y, as those "
			"of all distributions since 5.10 are");
	if (!uname(&uts))
		snprintf(h.kernel, sizeof(h.kernel), "%s", uts.release);
	err = host_read_online(&h.online, &h.n_online);
	if (!err)
		err = read_cpus(CPU_DIR "/possible", &possible, &n_possible);
	if (err) {
		failure_set(f, EXIT_RUN, err, "cannot read the CPU lists in " CPU_DIR ": %s",
			    strerror(-err));
		goto out;
	}
	err = find_pmu(&h.has_pmu);
	if (!err)
		err = find_cgroup2(h.cgroup2, sizeof(h.cgroup2));
	if (err) {
		failure_nomem(f);
		goto out;
	}
	h.n_possible = possible[n_possible - 1] + 1;
	h.has_uprobe = exists(PMU_DIR "/uprobe");
	h.has_kprobe = exists(PMU_DIR "/kprobe");
	if (!host_read_u64(PERF_SYSCTLS "max_sample_rate", &v))
		h.max_sample_rate = v;
	h.max_stack = 127;
	if (!host_read_u64(PERF_SYSCTLS "max_stack", &v) && v && v <= UINT32_MAX)
		h.max_stack = v;
	if (!stat("/proc/self/ns/pid", &st) && st.st_ino != INITIAL_PIDNS)
		h.pidns_inum = st.st_ino;
	/* By "call exc_int3" in there; without it a breakpoint is recognised by less. */
	if (!has_fred())
		kallsyms_extent("/proc/kallsyms", "asm_exc_int3", &h.breakpoint_entry,
				&h.breakpoint_entry_end);
	h.tracefs = find_tracefs(&h.tracefs_denied);
	if (getrlimit(RLIMIT_NOFILE, &h.files))
		h.files = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
	*host = h;
	h.online = NULL;
out:
	free(possible);
	free(h.online);
	return err;
}

void host_release(struct host *host)
{
	if (!host)
		return;
	free(host->online);
	host->online = NULL;
	host->n_online = 0;
}

int host_uprobe_multi(int prog_fd, const char *path, const uint64_t *offsets, const uint64_t *refs,
		      const uint64_t *cookies, uint32_t n, uint32_t pid, bool on_return)
{
	/* union bpf_attr's link_create with its uprobe_multi: the kernel's ABI. */
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t count, multi_flags, pid, pad;
	} attr = {
		.prog_fd = prog_fd,
		.target_fd = -1,
		.attach_type = HOST_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctr_offsets = (uintptr_t)refs,
		.cookies = (uintptr_t)cookies,
		.count = n,
		.multi_flags = on_return,
		.pid = pid,
	};
	int fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

/*
 * The first kernels that have it filter by thread where a process is meant. Those that were mended
 * (46ba0e49b642) refuse a negative pid before they look at the path.
 */
static bool probe_uprobe_multi(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = HOST_UPROBE_MULTI);
	uint64_t offset = 0;
	bool has;
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "probe", "GPL", insns, 2, &opts);

	if (fd < 0)
		return false;
	has = host_uprobe_multi(fd, "/", &offset, NULL, NULL, 1, 0, false) == -EBADF &&
	      host_uprobe_multi(fd, "/", &offset, NULL, NULL, 1, -1, false) == -EINVAL;
	close(fd);
	return has;
}

static bool has_member(const struct btf *btf, const char *name, const char *member)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(t)[i].name_off), member))
			return true;
	return false;
}

static bool has_enumerator(const struct btf *btf, const char *name, const char *enumerator)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_ENUM);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(t)[i].name_off), enumerator))
			return true;
	return false;
}

/* Where a per-CPU variable is in each CPU's part, and its type; -1: there is none. */
static int64_t per_cpu_at(const struct btf *btf, const char *name, const struct btf_type **type)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *sec = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; sec && i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *info = &btf_var_secinfos(sec)[i];
		const struct btf_type *var = btf__type_by_id(btf, info->type);

		if (!var || strcmp(btf__name_by_offset(btf, var->name_off), name))
			continue;
		*type = btf__type_by_id(btf, (uint32_t)btf__resolve_type(btf, var->type));
		return info->offset;
	}
	return -1;
}

/* A member of a struct, also one in an unnamed struct or union; -1: there is none. */
static int64_t member_at(const struct btf *btf, const struct btf_type *t, const char *member,
			 int depth)
{
	for (int i = 0; t && btf_is_composite(t) && i < btf_vlen(t); i++) {
		const char *name = btf__name_by_offset(btf, btf_members(t)[i].name_off);
		int64_t at = btf_member_bit_offset(t, (uint32_t)i) / 8, in;

		if (!strcmp(name, member))
			return at;
		in = *name || depth > 4
			     ? -1
			     : member_at(btf, btf__type_by_id(btf, btf_members(t)[i].type), member,
					 depth + 1);
		if (in >= 0)
			return at + in;
	}
	return -1;
}

static int64_t preempt_count_from_rq(const struct btf *btf)
{
	const struct btf_type *type = NULL;
	int64_t rq = per_cpu_at(btf, "runqueues", &type);
	int64_t at = per_cpu_at(btf, "__preempt_count", &type), hot, in;

	if (at < 0) {
		hot = per_cpu_at(btf, "pcpu_hot", &type);
		in = hot < 0 ? -1 : member_at(btf, type, "preempt_count", 0);
		at = in < 0 ? -1 : hot + in;
	}
	return rq < 0 || at < 0 ? 0 : at - rq;
}

void host_probe_types(struct host *host)
{
	struct btf *btf = btf__load_vmlinux_btf();

	if (!btf)
		return;
	host->has_sample_data =
		btf__find_by_name_kind(btf, "bpf_cast_to_kern_ctx", BTF_KIND_FUNC) > 0 &&
		has_member(btf, "perf_sample_data", "sample_flags");
	host->has_cfs_rq = has_member(btf, "sched_entity", "cfs_rq");
	host->has_typed_task = has_enumerator(btf, "bpf_func_id", "BPF_FUNC_get_current_task_btf");
	host->preempt_count_from_rq = preempt_count_from_rq(btf);
	btf__free(btf);
}

void host_probe_bpf(struct host *host)
{
	host->has_find_vma =
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_find_vma, NULL) == 1;
	host->has_uprobe_multi = probe_uprobe_multi();
}

int host_cgroup_path(const struct host *host, const char *name, char *path, size_t path_bytes,
		     struct failure *f)
{
	size_t mount = strlen(host->cgroup2);
	struct statfs fs;
	int n;

	if (!host->cgroup2[0])
		return failure_set(
			f, EXIT_CANT, -ENOENT,
			"-G %s: no cgroup v2 is mounted; mount one with 'mount -t cgroup2 "
			"none DIR', or name the target with -p",
			name);
	n = !strncmp(name, host->cgroup2, mount) && (!name[mount] || name[mount] == '/')
		    ? snprintf(path, path_bytes, "%s", name)
		    : snprintf(path, path_bytes, "%s/%s", host->cgroup2, name + strspn(name, "/"));
	if (n < 0 || (size_t)n >= path_bytes)
		return failure_set(f, EXIT_WRONG_USAGE, -ENAMETOOLONG, "-G: the name is too long");
	if (statfs(path, &fs))
		return failure_set(f, EXIT_RUN, -errno,
				   "-G %s: cannot open the cgroup %s: %s (see 'ls %s')", name, path,
				   strerror(errno), host->cgroup2);
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-G %s: %s is not in cgroup v2, whose mount is %s", name, path,
				   host->cgroup2);
	return 0;
}
