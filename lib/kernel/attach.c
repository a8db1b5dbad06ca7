/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/strbuf.h"
#include "frame.h"
#include "kernel/attach_filter.h"
#include "kernel/bpfvar.h"
#include "kernel/objectfile.h"
#include "kernel/unwind_maps.h"
#include "kernel/verifier.h"

/*
 * As much as all kernels take; only pages that are written cost memory, when a program is refused.
 */
#define LOG_BYTES ((size_t)UINT32_MAX >> 8)

/* ---- objects ---- */

/* The configuration is the first thing in the object's read-only data. */
static int set_config(const struct attach *a, struct bpf_object *obj,
		      const struct sampling_config *config)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, ".rodata");
	const struct attach_object *object = &a->object;
	size_t bytes = 0;
	const void *initial = map ? bpf_map__initial_value(map, &bytes) : NULL;
	char *data;
	int err;

	if (!initial || bytes < sizeof(*config) + object->config_bytes)
		return -EINVAL;
	data = malloc(bytes);
	if (!data)
		return -ENOMEM;
	memcpy(data, initial, bytes);
	memcpy(data, config, sizeof(*config));
	if (object->config_bytes)
		memcpy(data + sizeof(*config), object->config, object->config_bytes);
	err = bpf_map__set_initial_value(map, data, bytes);
	free(data);
	if (!err && a->plan->filters)
		err = attach_filter_constants(obj, a->plan, config->event);
	return err;
}

static struct bpf_object *open_object(const struct attach *a, const struct sampling_config *config,
				      struct failure *f)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "samplegate");
	struct bpf_object *obj = bpf_object__open_mem(a->object.elf, a->object.elf_bytes, &opts);
	int err = obj ? set_config(a, obj, config) : -errno;
	struct bpf_program *prog;

	a->log[0] = 0;
	if (!err) {
		bpf_object__for_each_program(prog, obj)
		{
			if (!err)
				err = bpf_program__set_log_buf(prog, a->log, LOG_BYTES);
		}
	}
	if (!err)
		return obj;
	failure_set(f, EXIT_RUN, err, "cannot open the built-in BPF object: %s", strerror(-err));
	bpf_object__close(obj);
	return NULL;
}

static int want_program(struct bpf_object *obj, const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, name);

	return prog ? bpf_program__set_autoload(prog, true) : -ENOENT;
}

/* What the kernel says of a program that it refuses is in a->log then. */
static int load(const struct attach *a, struct bpf_object *obj)
{
	int err = bpf_object__load(obj);

	a->log[LOG_BYTES - 1] = 0;
	return err;
}

static int explain_load(const struct attach *a, int err, const char *what, struct failure *f)
{
	return verifier_explain(err, a->log, what, f);
}

static int size_map(struct attach *a, const struct attach_map_size *size)
{
	struct bpf_map *map = bpf_object__find_map_by_name(a->main, size->name);

	if (!map)
		return -ENOENT;
	return bpf_map__set_max_entries(map, size->max_entries ? size->max_entries : 1);
}

static int size_maps(struct attach *a)
{
	const struct plan *p = a->plan;
	uint32_t n = p->n_gates ? p->n_gates : 1;
	bool cpu_scopes = false;
	struct bpf_map *map;
	int err = 0;

	for (size_t i = 0; i < p->n_gates; i++)
		cpu_scopes |= p->gates[i].info.scope == GATE_SCOPE_CPU ||
			      p->gates[i].info.scope == GATE_SCOPE_SYSTEM;
	const struct attach_map_size sizes[] = {
		{"gate_infos", n},
		{"gate_stats", n},
		{"openings", p->max_openings},
		{"levels", p->max_levels},
		{"scopes", p->max_scopes},
		{"cpu_scopes", cpu_scopes ? n * p->config.n_cpus : 1},
		{"scope_opens", p->max_scope_opens},
		{"start_closed", p->max_start_closed},
		{"gate_exits", p->n_exits},
		{"gate_ranges", p->n_ranges},
		{"targets", p->max_targets},
		{"rings", p->config.n_cpus},
		{"counters", p->n_events},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++)
		err = size_map(a, &sizes[i]);
	for (size_t i = 0; i < a->object.n_maps && !err; i++)
		err = size_map(a, &a->object.maps[i]);
	map = bpf_object__find_map_by_name(a->main, "scratch");
	if (!err)
		err = map ? bpf_map__set_value_size(map, p->record_bytes) : -ENOENT;
	if (!err)
		err = unwind_maps_sizes(a->main, p);
	if (!err && p->filters)
		err = attach_filter_sizes(a->main, p);
	return err;
}

int attach_map_fd(const struct attach *a, const char *name)
{
	return bpf_object__find_map_fd_by_name(a->main, name);
}

void *attach_memory(const struct attach *a, const char *section, size_t bytes)
{
	int fd = attach_map_fd(a, section);
	void *memory = MAP_FAILED;

	if (fd >= 0)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int attach_run(const struct attach *a, const char *program, const uint64_t *args, size_t n_args)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = n_args * sizeof(*args));
	struct bpf_program *prog = bpf_object__find_program_by_name(a->main, program);

	if (!prog)
		return -ENOENT;
	return bpf_prog_test_run_opts(bpf_program__fd(prog), &opts) ? -errno : 0;
}

static int put(const struct attach *a, const char *name, const void *key, const void *value)
{
	return bpf_map_update_elem(attach_map_fd(a, name), key, value, BPF_ANY) ? -errno : 0;
}

static int fill_maps(struct attach *a, struct failure *f)
{
	const struct plan *p = a->plan;
	const uint8_t process = TARGET_PROCESS, thread = TARGET_THREAD,
		      both = TARGET_PROCESS | TARGET_THREAD;
	uint32_t range = 0, zero = 0;
	int err = 0;

	for (uint32_t i = 0; i < p->n_gates && !err; i++) {
		const struct gate_plan *g = &p->gates[i];

		err = put(a, "gate_infos", &i, &g->info);
		for (size_t j = 0; j < g->n_exits && !err; j++)
			err = put(a, "gate_exits", &g->exit_keys[j], &g->exits[j]);
		for (size_t j = 0; j < g->n_ranges && !err; j++, range++)
			err = put(a, "gate_ranges", &range, &g->ranges[j]);
	}
	for (size_t i = 0; i < a->object.n_values && !err; i++) {
		const struct attach_values *v = &a->object.values[i];

		for (size_t j = 0; j < v->n && !err; j++)
			err = put(a, v->map, (const char *)v->keys + j * v->key_bytes,
				  (const char *)v->values + j * v->value_bytes);
	}
	for (size_t i = 0; i < p->asked.n_tids && !err; i++)
		err = put(a, "targets", &p->asked.tids[i], &thread);
	for (size_t i = 0; i < p->asked.n_pids && !err; i++) {
		uint32_t pid = p->asked.pids[i];
		uint8_t old = 0;

		/* A process and the main thread of one can both be named. */
		bpf_map_lookup_elem(attach_map_fd(a, "targets"), &pid, &old);
		err = put(a, "targets", &pid, old ? &both : &process);
	}
	if (!err && p->filters)
		err = attach_filter_fill(a->main, p);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot fill the BPF maps: %s",
				   strerror(-err));
	if (p->cgroup_path[0]) {
		a->cgroup_fd = open(p->cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (a->cgroup_fd < 0)
			return failure_set(f, EXIT_RUN, -errno, "-G: cannot open %s: %s",
					   p->cgroup_path, strerror(errno));
		err = put(a, "target_cgroup", &zero, &a->cgroup_fd);
		if (err)
			return failure_set(f, EXIT_RUN, err, "-G %s: %s", p->asked.cgroup,
					   strerror(-err));
	}
	return 0;
}

/* How kernel functions are watched. */
enum kernel_method { BY_FENTRY, BY_KPROBE };

static const char *program_of(const struct attach *a, const struct probe *p,
			      enum kernel_method method)
{
	static const char *const frame[][2] = {
		[PROBE_FRAME_OPEN] = {"frame_open_plain", "frame_open_vma"},
		[PROBE_FRAME_RET] = {"frame_ret_plain", "frame_ret_vma"},
		[PROBE_FRAME_JUMP] = {"frame_jump_plain", "frame_jump_vma"},
		[PROBE_FRAME_URET] = {"frame_uret_plain", "frame_uret_vma"},
	};
	enum { TRACEPOINT, FENTRY, FEXIT, PROBE } type = PROBE;
	static const char *const point[][4] = {
		[PROBE_OPEN] = {"tracepoint_open", "fentry_open", "fexit_open", "probe_open"},
		[PROBE_CLOSE] = {"tracepoint_close", "fentry_close", "fexit_close", "probe_close"},
		[PROBE_DEADLINE] = {"tracepoint_deadline", "fentry_deadline", "fexit_deadline",
				    "probe_deadline"},
	};

	if (p->role <= PROBE_FRAME_URET)
		return frame[p->role][a->plan->host->has_find_vma];
	if (p->kind == PROBE_TRACEPOINT)
		type = TRACEPOINT;
	else if (method == BY_FENTRY && p->kind == PROBE_KERNEL_ENTRY)
		type = FENTRY;
	else if (method == BY_FENTRY && p->kind == PROBE_KERNEL_RETURN)
		type = FEXIT;
	return point[p->role][type];
}

static bool watches_kernel_functions(const struct gate_plan *g, const struct probe **first)
{
	for (size_t i = 0; i < g->n_probes; i++) {
		if (g->probes[i].kind == PROBE_KERNEL_ENTRY ||
		    g->probes[i].kind == PROBE_KERNEL_RETURN) {
			*first = &g->probes[i];
			return true;
		}
	}
	return false;
}

/* Switches on the programs of a gate; those on kernel functions learn which. */
static int want_gate_programs(const struct attach *a, struct bpf_object *obj,
			      const struct gate_plan *g, enum kernel_method method)
{
	int err = 0;

	for (size_t i = 0; i < g->n_probes && !err; i++) {
		const struct probe *p = &g->probes[i];
		const char *name = program_of(a, p, method);

		err = want_program(obj, name);
		if (!err && p->path && a->plan->host->has_uprobe_multi)
			err = bpf_program__set_expected_attach_type(
				bpf_object__find_program_by_name(obj, name), HOST_UPROBE_MULTI);
		if (!err && method == BY_FENTRY &&
		    (p->kind == PROBE_KERNEL_ENTRY || p->kind == PROBE_KERNEL_RETURN))
			err = bpf_program__set_attach_target(
				bpf_object__find_program_by_name(obj, name), 0, p->name);
	}
	return err;
}

/*
 * The first gate's programs are in the shared object: relocating another one takes as long as all
 * the rest of the start. Not where it may take two attempts.
 */
static bool is_in_main(const struct attach *a, size_t i)
{
	const struct probe *first;

	return i == 0 && !watches_kernel_functions(&a->plan->gates[0], &first);
}

static const char *sample_program(const struct plan *plan)
{
	return plan->host->has_find_vma ? "sample_vma" : "sample_plain";
}

/* Everything but constants is that of the main object. */
static int share_maps(const struct attach *a, struct bpf_object *obj)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, obj)
	{
		const char *name = bpf_map__name(map);
		int err;

		if (strstr(name, ".rodata"))
			continue;
		err = bpf_map__reuse_fd(map, attach_map_fd(a, name));
		if (err)
			return err;
	}
	return 0;
}

/* The program of an event after the first. */
static int load_event(struct attach *a, size_t i, struct failure *f)
{
	struct sampling_config config = plan_event_config(a->plan, i);
	struct bpf_object *obj = open_object(a, &config, f);
	int err;

	if (!obj)
		return -EINVAL;
	a->events[i] = obj;
	err = share_maps(a, obj);
	if (!err)
		err = want_program(obj, sample_program(a->plan));
	if (!err)
		err = load(a, obj);
	return err ? explain_load(a, err, "sampling program", f) : 0;
}

/* Functions can be left without notice. Of frames, the tool's own program finds it out. */
static bool watches_switches(const struct plan *plan)
{
	for (size_t i = 0; i < plan->n_gates; i++)
		if ((plan->gates[i].info.flags & GATE_F_FRAME) &&
		    plan->gates[i].info.scope != GATE_SCOPE_FRAME)
			return true;
	return false;
}

int attach_load(const struct plan *plan, const struct attach_object *object, uint32_t command_pid,
		struct attach **out, struct failure *f)
{
	struct sampling_config config = plan_event_config(plan, 0);
	struct attach *a = calloc(1, sizeof(*a));
	int err, n;

	if (!a)
		return failure_nomem(f);
	a->plan = plan;
	a->object = *object;
	a->cgroup_fd = -1;
	n = libbpf_num_possible_cpus();
	a->n_cpus = n > 0 ? n : 1;
	a->gates = calloc(plan->n_gates + 1, sizeof(*a->gates));
	config.command_pid = command_pid;
	a->events = calloc(plan->n_events, sizeof(*a->events));
	a->log = malloc(LOG_BYTES);
	if (!a->gates || !a->events || !a->log) {
		err = failure_nomem(f);
		goto out;
	}
	a->main = open_object(a, &config, f);
	if (!a->main) {
		err = -EINVAL;
		goto out;
	}
	err = size_maps(a);
	if (!err)
		err = want_program(a->main, sample_program(plan));
	if (!err && config.follow_forks)
		err = want_program(a->main, "on_fork");
	if (!err && config.unwind)
		err = want_program(a->main, "unwind_fork");
	if (!err && (command_pid || plan->n_gates))
		err = want_program(a->main, "on_exec");
	if (!err && (plan->n_gates || (config.target & TARGET_BY_PROCESS)))
		err = want_program(a->main, "on_exit");
	if (!err && watches_switches(plan))
		err = want_program(a->main, "gone_switch");
	if (!err && config.max_open_ns)
		err = want_program(a->main, "force_close");
	for (size_t i = 0; i < object->n_programs && !err; i++)
		err = want_program(a->main, object->programs[i]);
	if (!err && plan->n_gates && is_in_main(a, 0))
		err = want_gate_programs(a, a->main, &plan->gates[0], BY_KPROBE);
	if (err) {
		failure_set(f, EXIT_RUN, err, "cannot set up the BPF object: %s", strerror(-err));
		goto out;
	}
	err = load(a, a->main);
	if (err) {
		explain_load(a, err, "sampling program", f);
		goto out;
	}
	err = fill_maps(a, f);
	for (size_t i = 1; i < plan->n_events && !err; i++)
		err = load_event(a, i, f);
out:
	if (err) {
		attach_free(a);
		return err;
	}
	*out = a;
	return 0;
}

/* ---- probes ---- */

/* One probe, or with links of many all that belong to it; n probes of the gate begin here. */
static int attach_probe(struct attach *a, size_t gate, struct bpf_object *obj,
			const struct probe *p, size_t n, enum kernel_method method,
			const struct probe **failed)
{
	const struct plan *plan = a->plan;
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, program_of(a, p, method));
	struct bpf_link *link;
	int err = 0;

	if (!prog)
		return -ENOENT;
	switch (p->kind) {
	case PROBE_UPROBE:
	case PROBE_URETPROBE:
		if (!plan->attach_to_targets)
			return attach_uprobes(a, gate, prog, p, n, 0, failed);
		for (size_t i = 0; i < plan->n_target_pids && !err; i++) {
			err = attach_uprobes(a, gate, prog, p, n, plan->target_pids[i], failed);
			if (err == -ESRCH)
				err = 0; /* it ended meanwhile */
		}
		return err;
	case PROBE_TRACEPOINT:
		link = bpf_program__attach_tracepoint(prog, p->category, p->name);
		break;
	case PROBE_KERNEL_ENTRY:
	case PROBE_KERNEL_RETURN:
		link = method == BY_FENTRY ? bpf_program__attach(prog)
					   : bpf_program__attach_kprobe(
						     prog, p->kind == PROBE_KERNEL_RETURN, p->name);
		break;
	default:
		return -EINVAL;
	}
	return link ? attach_add_link(a, link) : -errno;
}

/* The kernel's own error number for an instruction that uprobes can't step. */
#define KERNEL_ENOTSUPP 524

static int explain_probe(const struct probe *p, const char *spec, int err, struct failure *f)
{
	const char *file = p->path ? p->path : p->name;
	int code = err == -EPERM || err == -EACCES ? EXIT_CANT : EXIT_RUN;

	if (p->path && (err == -ENOTSUP || err == -KERNEL_ENOTSUPP || err == -EINVAL))
		return failure_set(
			f, EXIT_RUN, err,
			"-g %s: the kernel cannot probe the instruction at offset 0x%" PRIx64
			" of %s%s",
			spec, p->offset, file,
			p->role == PROBE_FRAME_RET || p->role == PROBE_FRAME_JUMP
				? ", where the function returns; --unsafe-uretprobe watches "
				  "its return in another way"
				: "");
	if (err == -EMFILE || err == -ENFILE)
		return failure_set(f, EXIT_RUN, err,
				   "-g %s: %s: each probe takes one: raise the limit of open files "
				   "(ulimit -n)",
				   spec, strerror(-err));
	return failure_set(f, code, err, "-g %s: cannot attach to %s: %s%s", spec, file,
			   strerror(-err),
			   code == EXIT_CANT ? ": it needs CAP_PERFMON, or CAP_SYS_ADMIN" : "");
}

/* Whether an earlier probe's link holds this one too. */
static bool was_attached(const struct gate_plan *g, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (attach_same_link(&g->probes[j], &g->probes[i]))
			return true;
	return false;
}

/* Closes first: no opening may be missed by its close. Undone on failure. */
static int attach_probes(struct attach *a, size_t i, struct bpf_object *obj,
			 enum kernel_method method, const struct probe **failed)
{
	const struct gate_plan *g = &a->plan->gates[i];
	size_t first_link = a->n_links, first_multi = a->n_multi_fds, first_trial = a->n_trials;
	int err = 0;

	for (int opens = 0; opens < 2 && !err; opens++) {
		for (size_t j = 0; j < g->n_probes && !err; j++) {
			const struct probe *p = &g->probes[j];

			if ((p->role == PROBE_OPEN || p->role == PROBE_FRAME_OPEN) != opens)
				continue;
			if (a->plan->host->has_uprobe_multi && was_attached(g, j))
				continue;
			*failed = p;
			err = attach_probe(a, i, obj, p, g->n_probes - j, method, failed);
		}
	}
	while (err && a->n_links > first_link)
		bpf_link__destroy(a->links[--a->n_links]);
	while (err && a->n_multi_fds > first_multi)
		close(a->multi_fds[--a->n_multi_fds]);
	while (err && a->n_trials > first_trial)
		attach_trial_close(&a->trials[--a->n_trials]);
	return err;
}

/* Opens, loads and attaches one gate with one method. On failure nothing of it is left. */
static int try_gate(struct attach *a, size_t i, enum kernel_method method,
		    const struct probe **failed, struct failure *f)
{
	const struct gate_plan *g = &a->plan->gates[i];
	struct sampling_config config = plan_gate_config(a->plan, i);
	struct bpf_object *obj = open_object(a, &config, f);
	int err;

	*failed = NULL;
	if (!obj)
		return -EINVAL;
	err = share_maps(a, obj);
	if (!err)
		err = want_gate_programs(a, obj, g, method);
	if (!err)
		err = load(a, obj);
	if (err)
		goto out;
	err = attach_probes(a, i, obj, method, failed);
out:
	if (err) {
		bpf_object__close(obj);
		return err;
	}
	a->gates[i] = obj;
	return 0;
}

/* Why try_gate() failed, in few words: the verifier's, if it has said any. */
static const char *reason(const struct attach *a, int err, char *out, size_t bytes)
{
	return verifier_reason(a->log, out, bytes) ? strerror(-err) : out;
}

static int attach_gate(struct attach *a, size_t i, struct failure *f)
{
	const struct gate_plan *g = &a->plan->gates[i];
	const struct probe *failed = NULL, *kernel = NULL;
	char fentry_said[512], kprobe_said[512];
	const char *fentry, *kprobes = "";
	int fentry_err, err;

	if (!watches_kernel_functions(g, &kernel)) {
		err = is_in_main(a, i) ? attach_probes(a, i, a->main, BY_KPROBE, &failed)
				       : try_gate(a, i, BY_KPROBE, &failed, f);
		if (!err)
			return 0;
		return failed ? explain_probe(failed, g->opt->spec.text, err, f)
			      : explain_load(a, err, "gate's programs", f);
	}
	fentry_err = try_gate(a, i, BY_FENTRY, &failed, f);
	if (!fentry_err)
		return 0;
	fentry = fentry_err == -ESRCH ? "not in the kernel's BTF"
				      : reason(a, fentry_err, fentry_said, sizeof(fentry_said));
	if (a->plan->host->has_kprobe) {
		err = try_gate(a, i, BY_KPROBE, &failed, f);
		if (!err)
			return 0;
		kprobes = reason(a, err, kprobe_said, sizeof(kprobe_said));
	} else {
		err = fentry_err;
		kprobes = "this kernel has no kprobes (CONFIG_KPROBES)";
	}
	if (fentry_err == -ESRCH && err == -ENOENT)
		return failure_set(
			f, EXIT_RUN, -ENOENT,
			"-g %s: this kernel has no function '%s' that can be probed: see "
			"'grep %s /proc/kallsyms'",
			g->opt->spec.text, failed && failed->name ? failed->name : kernel->name,
			kernel->name);
	return failure_set(
		f, EXIT_CANT, err,
		"-g %s: the kernel function '%s' cannot be watched here: tried fentry (%s) "
		"and kprobe (%s); use syscall:NAME or a tracepoint (t:CATEGORY:NAME) "
		"instead",
		g->opt->spec.text, kernel->name, fentry, kprobes);
}

static int arm(const struct attach *a, bool armed)
{
	struct gate_control *control;
	struct bpfvar_area bss = {};
	int err = bpfvar_map(a->main, ".data.gates", &bss);

	if (err)
		return err;
	control = bpfvar_in(&bss, "gate_control", sizeof(*control));
	if (control)
		__atomic_store_n(&control->armed, armed, __ATOMIC_RELEASE);
	bpfvar_unmap(&bss);
	return control ? 0 : -ENOENT;
}

/* Some programs of an object of their own: all of them or none. */
static int attach_hooks(struct attach *a, const char *const *names, size_t n)
{
	struct sampling_config config = plan_event_config(a->plan, 0);
	struct bpf_object *obj = open_object(a, &config, NULL);
	size_t first = a->n_links;
	int err = obj ? share_maps(a, obj) : -EINVAL;

	for (size_t i = 0; i < n && !err; i++)
		err = want_program(obj, names[i]);
	if (!err)
		err = load(a, obj);
	for (size_t i = 0; i < n && !err; i++) {
		struct bpf_link *link =
			bpf_program__attach(bpf_object__find_program_by_name(obj, names[i]));

		err = link ? attach_add_link(a, link) : -errno;
	}
	while (err && a->n_links > first)
		bpf_link__destroy(a->links[--a->n_links]);
	if (err)
		bpf_object__close(obj);
	else
		a->hook = obj;
	return err;
}

/*
 * What tells of code that is mapped: where all mappings pass, or else the system calls. Without
 * any, code that takes the place of other code is found out a moment later.
 */
static void attach_map_hook(struct attach *a)
{
	static const char *const fentry[] = {"note_mmap_fentry"};
	static const char *const kprobe[] = {"note_mmap_kprobe"};
	static const char *const calls[] = {"note_mmap_call", "note_mprotect_call"};

	if (attach_hooks(a, fentry, 1) &&
	    (!a->plan->host->has_kprobe || attach_hooks(a, kprobe, 1)))
		attach_hooks(a, calls, 2);
}

int attach_gates(struct attach *a, struct failure *f)
{
	static const char *const hooks[] = {"on_exit",	   "on_exec",	  "on_fork",
					    "unwind_fork", "gone_switch", "on_switch",
					    "note_exit",   "note_exec",	  "note_fork"};
	int err;

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
		struct bpf_program *prog = bpf_object__find_program_by_name(a->main, hooks[i]);
		struct bpf_link *link;

		if (!prog || !bpf_program__autoload(prog))
			continue;
		link = bpf_program__attach(prog);
		err = link ? attach_add_link(a, link) : -errno;
		if (err)
			return failure_set(f, err == -EPERM ? EXIT_CANT : EXIT_RUN, err,
					   "cannot watch the life of processes (%s): %s%s",
					   hooks[i], strerror(-err), failure_hint(err));
	}
	if (a->plan->filters && attach_filter_wants_maps(a->plan))
		attach_map_hook(a);
	for (size_t i = 0; i < a->plan->n_gates; i++) {
		err = attach_gate(a, i, f);
		if (err)
			return err;
	}
	return 0;
}

int attach_ring(struct attach *a, uint32_t cpu, int fd)
{
	return put(a, "rings", &cpu, &fd);
}

static int shared_map_fd(const void *tool, const char *name)
{
	return attach_map_fd(tool, name);
}

int attach_handler(struct attach *a, struct objectfile *object, struct failure *f)
{
	struct sampling_config cfg = plan_event_config(a->plan, 0);
	struct overflow_config ocfg = attach_filter_config(a->plan, 0);
	int err = objectfile_config(object, "samplegate_cfg", &cfg, sizeof(cfg));

	if (!err)
		err = objectfile_config(object, "samplegate_ocfg", &ocfg, sizeof(ocfg));
	if (!err)
		err = objectfile_share_all(object, shared_map_fd, a);
	if (err)
		return failure_set(f, EXIT_RUN, err, "--object: cannot share the maps: %s",
				   strerror(-err));
	err = objectfile_load(object, f);
	if (!err)
		err = objectfile_attach(object, f);
	if (!err)
		a->handler = objectfile_handler(object);
	return err;
}

int attach_sample(struct attach *a, size_t event, int fd, struct attach_sample **out)
{
	struct bpf_object *obj = event ? a->events[event] : a->main;
	struct bpf_program *prog =
		a->handler ? a->handler
			   : bpf_object__find_program_by_name(obj, sample_program(a->plan));
	struct attach_sample *s;

	if (!prog)
		return -ENOENT;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->link = bpf_program__attach_perf_event(prog, fd);
	if (!s->link) {
		free(s);
		return -errno;
	}
	*out = s;
	return 0;
}

void attach_sample_free(struct attach_sample *sample)
{
	if (!sample)
		return;
	bpf_link__destroy(sample->link);
	free(sample);
}

/* ---- while it runs ---- */

int attach_watchdog(struct attach *a, uint64_t now_ns)
{
	uint64_t max_open_ns = a->plan->config.max_open_ns;
	int fd = attach_map_fd(a, "openings"), err = 0;
	struct gate_key key, next, *at = NULL;
	union {
		struct gate_opening opening;
		struct frame_opening frame; /* glitchrec's, which begins with the same */
	} v;

	if (!max_open_ns)
		return 0;
	while (!bpf_map_get_next_key(fd, at, &next)) {
		key = next;
		at = &key;
		if (bpf_map_lookup_elem(fd, &key, &v) || now_ns < v.opening.opened_ns ||
		    now_ns - v.opening.opened_ns <= max_open_ns)
			continue;
		/* The kernel side checks that it is still this opening. */
		const uint64_t args[] = {key.gate, key.id, v.opening.opened_ns};
		int one = attach_run(a, "force_close", args, 3);

		err = one ? one : err;
	}
	return err;
}

struct bpf_object *attach_main(const struct attach *a)
{
	return a->main;
}

int attach_arm(const struct attach *a)
{
	return arm(a, true);
}

int attach_disarm(const struct attach *a)
{
	return arm(a, false);
}

void attach_detach(struct attach *a)
{
	for (size_t i = 0; i < a->n_trials; i++)
		attach_trial_close(&a->trials[i]);
	while (a->n_multi_fds)
		close(a->multi_fds[--a->n_multi_fds]);
	while (a->n_links)
		bpf_link__destroy(a->links[--a->n_links]);
}

void attach_free(struct attach *a)
{
	if (!a)
		return;
	attach_detach(a);
	free(a->links);
	free(a->multi_fds);
	free(a->trials);
	for (size_t i = 0; a->gates && i < a->plan->n_gates; i++)
		bpf_object__close(a->gates[i]);
	free(a->gates);
	for (size_t i = 1; a->events && i < a->plan->n_events; i++)
		bpf_object__close(a->events[i]);
	free(a->events);
	bpf_object__close(a->hook);
	bpf_object__close(a->main);
	free(a->log);
	if (a->cgroup_fd >= 0)
		close(a->cgroup_fd);
	free(a);
}
