/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/objectfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel/bpfelf.h"
#include "kernel/bpfvar.h"
#include "kernel/objectvars.h"
#include "kernel/verifier.h"
#include "plan/gates.h"
#include "plan/translator.h"

/* What the user's names may not begin with. */
#define OURS	   "samplegate_"
#define OURS_BYTES (sizeof(OURS) - 1)

/* What the handler's macro calls: a program without it is not accounted. */
#define HANDLER_ENTRY "samplegate_enter"

/* The most that older kernels accept (before 5.16). */
#define LOG_BYTES ((size_t)UINT32_MAX >> 8)

struct objectfile {
	char *path;
	struct objectfile_opts opts;
	struct bpf_object *obj;
	struct bpf_program *handler;
	struct bpf_link **links;
	size_t n_links;
	char *log;
};

struct bytes {
	char *data;
	size_t n;
};

static int refuse(const struct objectfile *o, int err, struct failure *f, const char *why)
{
	return failure_set(f, EXIT_RUN, err, "--object %s: %s", o->path, why);
}

static bool is_ours(const char *name)
{
	return !strncmp(name, OURS, OURS_BYTES);
}

/* ---- reading ---- */

static int read_all(int fd, struct bytes *out)
{
	struct bytes b = {.data = malloc(OBJECTFILE_MAX_BYTES + 1)};
	ssize_t n = 1;

	if (!b.data)
		return -ENOMEM;
	/* Not by its size: a file may grow while it is read. */
	while (n > 0 && b.n <= OBJECTFILE_MAX_BYTES) {
		n = pread(fd, b.data + b.n, OBJECTFILE_MAX_BYTES + 1 - b.n, b.n);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			b.n += n;
	}
	if (n < 0 || b.n > OBJECTFILE_MAX_BYTES) {
		int err = n < 0 ? -errno : -EFBIG;

		free(b.data);
		return err;
	}
	*out = b;
	return 0;
}

static int read_file(const struct objectfile *o, struct bytes *out, struct failure *f)
{
	int fd = open(o->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), err = 0;
	struct stat st;

	if (fd < 0)
		return refuse(o, -errno, f, strerror(errno));
	if (fstat(fd, &st))
		err = refuse(o, -errno, f, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err = refuse(o, -EINVAL, f, "it is not a regular file");
	if (!err) {
		err = read_all(fd, out);
		if (err == -EFBIG)
			refuse(o, err, f, "it is larger than 16 MiB");
		else if (err)
			refuse(o, err, f, strerror(-err));
	}
	close(fd);
	return err;
}

/* ---- checking ---- */

static int check_symbols(const struct objectfile *o, const struct bpfelf *user,
			 const struct bpfelf *api, struct failure *f)
{
	for (size_t i = 0; i < user->n_symbols; i++) {
		const struct bpfelf_symbol *s = &user->symbols[i];

		if (!is_ours(s->name))
			continue;
		if (s->defined)
			return failure_set(f, EXIT_RUN, -EINVAL,
					   "--object %s: names that begin with " OURS
					   " are %s's, and it defines %.64s",
					   o->path, o->opts.tool, s->name);
		if (!bpfelf_find(api, s->name, true))
			return failure_set(f, EXIT_RUN, -ENOENT,
					   "--object %s: it calls %.64s(), which this %s does not "
					   "have",
					   o->path, s->name, o->opts.tool);
	}
	if (o->opts.kind == OBJECTFILE_HANDLER && !bpfelf_find(user, HANDLER_ENTRY, false))
		return refuse(o, -EINVAL, f,
			      "it has no handler: SEC(\"perf_event\") "
			      "int SAMPLEGATE_HANDLER(name, ctx), of samplegate.bpf.h");
	return 0;
}

static int check_file(const struct objectfile *o, struct bytes user, struct bytes api,
		      struct failure *f)
{
	struct bpfelf mine = {}, theirs = {};
	char why[BPFELF_WHY_BYTES] = "";
	int err = bpfelf_read(user.data, user.n, &theirs, why);

	if (err) {
		if (err == -ENOMEM)
			return failure_nomem(f);
		return refuse(o, err, f, why);
	}
	if (!theirs.has_btf)
		err = refuse(o, -EINVAL, f, "it has no BTF: clang -g");
	else if (!theirs.license[0])
		err = refuse(o, -EINVAL, f,
			     "it has no licence: char LICENSE[] SEC(\"license\") = \"GPL\";");
	else if (!bpfelf_is_gpl(theirs.license))
		err = failure_set(f, EXIT_RUN, -EINVAL,
				  "--object %s: its licence is \"%s\", and only \"GPL\", "
				  "\"Dual BSD/GPL\" and the like may call what samples need",
				  o->path, theirs.license);
	else if (bpfelf_read(api.data, api.n, &mine, why))
		err = failure_set(f, EXIT_RUN, -EINVAL, "%s's own object: %s", o->opts.tool, why);
	else
		err = check_symbols(o, &theirs, &mine, f);
	bpfelf_release(&mine);
	bpfelf_release(&theirs);
	return err;
}

/* ---- linking ---- */

/* A file without a name, since libbpf's linker wants paths: /proc/self/fd/N. */
struct memory_file {
	int fd;
	char path[32];
};

static int memory_file(struct memory_file *m, const char *data, size_t n)
{
	m->fd = memfd_create("object", MFD_CLOEXEC);
	if (m->fd < 0)
		return -errno;
	snprintf(m->path, sizeof(m->path), "/proc/self/fd/%d", m->fd);
	while (n) {
		ssize_t done = write(m->fd, data, n);

		if (done < 0)
			return -errno;
		data += done;
		n -= done;
	}
	return 0;
}

static int link_files(const struct memory_file m[3])
{
	struct bpf_linker *linker = bpf_linker__new(m[0].path, NULL);
	int err = linker ? 0 : -errno;

	for (int i = 1; i < 3 && !err; i++)
		err = bpf_linker__add_file(linker, m[i].path, NULL);
	if (!err)
		err = bpf_linker__finalize(linker);
	bpf_linker__free(linker);
	return err;
}

static int link_object(struct objectfile *o, struct bytes user, struct bytes api, struct failure *f)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "samplegate");
	/* Our own first: then the order of the user's names has no say in where our things are. */
	const struct bytes from[3] = {{}, api, user};
	struct memory_file m[3] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
	struct bytes linked = {};
	int err = 0;

	for (int i = 0; i < 3 && !err; i++)
		err = memory_file(&m[i], from[i].data, from[i].n);
	if (!err) {
		err = link_files(m);
		if (err) {
			failure_set(f, EXIT_RUN, err,
				    "--object %s: it cannot be linked with %s's functions: %s "
				    "(-v says more)",
				    o->path, o->opts.tool, strerror(-err));
			goto out;
		}
		err = read_all(m[0].fd, &linked);
	}
	if (err) {
		refuse(o, err, f, strerror(-err));
		goto out;
	}
	o->obj = bpf_object__open_mem(linked.data, linked.n, &opts);
	if (!o->obj) {
		err = -errno;
		failure_set(f, EXIT_RUN, err,
			    "--object %s: libbpf does not understand it: %s (-v says more)",
			    o->path, strerror(-err));
	}
out:
	for (int i = 0; i < 3; i++)
		if (m[i].fd >= 0)
			close(m[i].fd);
	free(linked.data);
	return err;
}

/* ---- programs ---- */

static bool is_probe(const struct bpf_program *prog)
{
	switch (bpf_program__type(prog)) {
	case BPF_PROG_TYPE_KPROBE:
	case BPF_PROG_TYPE_TRACEPOINT:
	case BPF_PROG_TYPE_RAW_TRACEPOINT:
		return true;
	case BPF_PROG_TYPE_TRACING:
		return bpf_program__expected_attach_type(prog) == BPF_TRACE_FENTRY ||
		       bpf_program__expected_attach_type(prog) == BPF_TRACE_FEXIT ||
		       bpf_program__expected_attach_type(prog) == BPF_TRACE_RAW_TP;
	default:
		return false;
	}
}

static int check_programs(struct objectfile *o, struct failure *f)
{
	bool handler = o->opts.kind == OBJECTFILE_HANDLER;
	size_t n_handlers = 0, n_probes = 0;
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, o->obj)
	{
		if (bpf_program__type(prog) == BPF_PROG_TYPE_PERF_EVENT) {
			n_handlers++;
			o->handler = prog;
		} else if (is_probe(prog)) {
			n_probes++;
		} else {
			return failure_set(f, EXIT_RUN, -EINVAL,
					   "--object %s: program %.64s: SEC(\"%.64s\") is no probe "
					   "(kprobe, uprobe, usdt, tracepoint, raw_tp, fentry, "
					   "fexit)",
					   o->path, bpf_program__name(prog),
					   bpf_program__section_name(prog));
		}
	}
	if (!handler && n_handlers)
		return failure_set(f, EXIT_RUN, -EINVAL,
				   "--object %s: program %.64s: %s takes the samples itself, "
				   "SEC(\"perf_event\") has no place here",
				   o->path, bpf_program__name(o->handler), o->opts.tool);
	if (!handler && !n_probes)
		return refuse(o, -EINVAL, f, "it has no program");
	if (handler && n_handlers != 1)
		return failure_set(f, EXIT_RUN, -EINVAL,
				   "--object %s: it has %s SEC(\"perf_event\") program%s, and must "
				   "have one",
				   o->path, n_handlers ? "more than one" : "no",
				   n_handlers ? "" : "");
	return 0;
}

int objectfile_open(const char *path, const struct objectfile_opts *opts, struct objectfile **out,
		    struct failure *f)
{
	struct bytes user = {}, api = {};
	struct objectfile *o = calloc(1, sizeof(*o));
	int err = -ENOMEM;

	if (o) {
		o->opts = *opts;
		o->path = strdup(path);
		/* libelf wants memory of its own, and an address that is even. */
		api.data = malloc(opts->api_bytes);
	}
	if (!o || !o->path || !api.data) {
		failure_nomem(f);
		goto out;
	}
	api.n = opts->api_bytes;
	memcpy(api.data, opts->api, api.n);
	err = read_file(o, &user, f);
	if (!err)
		err = check_file(o, user, api, f);
	if (!err)
		err = link_object(o, user, api, f);
	if (!err)
		err = check_programs(o, f);
	for (size_t i = 0; i < opts->n_sets && !err; i++)
		err = objectfile_set(o, opts->sets[i], f);
out:
	free(user.data);
	free(api.data);
	if (err)
		objectfile_free(o);
	else
		*out = o;
	return err;
}

void objectfile_free(struct objectfile *o)
{
	if (!o)
		return;
	objectfile_detach(o);
	bpf_object__close(o->obj);
	free(o->log);
	free(o->path);
	free(o);
}

/* ---- variables and maps ---- */

int objectfile_set(struct objectfile *o, const char *assignment, struct failure *f)
{
	return objectvars_set(o->obj, assignment, OURS, f);
}

int objectfile_config(struct objectfile *o, const char *name, const void *value, size_t bytes)
{
	void *at = is_ours(name) ? bpfvar_find(o->obj, ".rodata", name, bytes) : NULL;

	if (!at)
		return -ENOENT;
	memcpy(at, value, bytes);
	return 0;
}

int objectfile_share(struct objectfile *o, const char *name, int fd)
{
	struct bpf_map *map = is_ours(name) ? bpf_object__find_map_by_name(o->obj, name) : NULL;

	return map ? bpf_map__reuse_fd(map, fd) : -ENOENT;
}

/* What the tool calls a map of the api object; NULL: it can't have it. */
static const char *name_of_shared(const char *name)
{
	if (is_ours(name))
		return name + OURS_BYTES;
	return !strncmp(name, ".data.", 6) || !strncmp(name, ".bss.", 5) ? name : NULL;
}

static int share(struct bpf_map *map, int fd)
{
	uint32_t bytes = bpf_map__value_size(map);
	int err = bpf_map__reuse_fd(map, fd);

	/* A section is merged with what the user has in one of its name. */
	if (!err && bpf_map__name(map)[0] == '.' && bpf_map__value_size(map) != bytes)
		err = -EINVAL;
	return err;
}

int objectfile_share_all(struct objectfile *o, int (*map_fd)(const void *tool, const char *name),
			 const void *tool)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, o->obj)
	{
		const char *name = name_of_shared(bpf_map__name(map));
		int fd = name ? map_fd(tool, name) : -1;
		int err = fd >= 0 ? share(map, fd) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* ---- loading ---- */

static int explain_load(struct objectfile *o, int err, struct failure *f)
{
	struct bpf_program *prog;
	const char *name = "";
	char reason[1024];

	/* Loaded in their order: the first that is not there is the one. */
	bpf_object__for_each_program(prog, o->obj)
	{
		if (bpf_program__fd(prog) < 0) {
			name = bpf_program__name(prog);
			break;
		}
	}
	if (!verifier_reason(o->log, reason, sizeof(reason)))
		return failure_set(f, EXIT_RUN, err, "--object %s: program %.64s: %s", o->path,
				   name, reason);
	if (o->log[0])
		return failure_set(f, EXIT_RUN, err,
				   "--object %s: program %.64s: the verifier refuses it (%s), and "
				   "its log is too long to end in a reason",
				   o->path, name, strerror(-err));
	return failure_set(f, EXIT_RUN, err, "--object %s: cannot be loaded: %s (-v says more)",
			   o->path, strerror(-err));
}

int objectfile_load(struct objectfile *o, struct failure *f)
{
	struct bpf_program *prog;
	int err = 0;

	/* Only pages that are written cost memory, and only a program that fails writes. */
	o->log = malloc(LOG_BYTES);
	if (!o->log)
		return failure_nomem(f);
	o->log[0] = 0;
	bpf_object__for_each_program(prog, o->obj) if (!err) err =
		bpf_program__set_log_buf(prog, o->log, LOG_BYTES);
	if (!err)
		err = bpf_object__load(o->obj);
	o->log[LOG_BYTES - 1] = 0;
	if (err)
		explain_load(o, err, f);
	return err;
}

/* ---- points in user code ---- */

/* The files in which there are some. */
struct files {
	char **paths;
	size_t n;
};

static int add_file(struct files *files, const char *path)
{
	char **paths = reallocarray(files->paths, files->n + 1, sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	files->paths = paths;
	paths[files->n] = strdup(path);
	return paths[files->n++] ? 0 : -ENOMEM;
}

static void free_files(struct files *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(files->paths[i]);
	free(files->paths);
}

/*
 * The point of SEC("uprobe/PATH:FUNC+OFF"), SEC("usdt/PATH:PROVIDER:NAME") and the like, as -g has
 * it. -ENOENT: it is none in a file.
 */
static int user_point(const struct bpf_program *prog, struct gate_spec *spec)
{
	const char *section = bpf_program__section_name(prog), *where = strchr(section, '/');
	const char *kind = !strncmp(section, "usdt", 4)	       ? "U"
			   : !strncmp(section, "uprobe", 6)    ? "u"
			   : !strncmp(section, "uretprobe", 9) ? "ur"
							       : NULL;
	char *text, why[128];
	int err;

	if (!kind || !where)
		return -ENOENT;
	if (asprintf(&text, "%s:%s", kind, where + 1) < 0)
		return -ENOMEM;
	err = gate_spec_parse_point(text, spec, why, sizeof(why));
	free(text);
	return err == -ENOMEM ? err : err ? -ENOENT : 0;
}

/*
 * What can't be found is for libbpf to say; several functions (uprobe.multi) are entries of those.
 */
static int check_point(const struct objectfile *o, const struct bpf_program *prog,
		       const struct gate_spec *spec, struct files *files, struct failure *f)
{
	const struct host host = {.has_uprobe = true};
	const struct gates_where where = {.host = &host};
	const struct opts_gate gate = {.spec = *spec};
	struct gate_plan plan = {};
	struct failure why = {};
	char *path = NULL;
	int err;

	err = gate_resolve_point(&gate, PROBE_OPEN, &where, &plan, &why);
	gate_plan_release(&plan);
	if (err && why.exit_code == EXIT_CANT)
		return failure_set(f, EXIT_CANT, err, "--object %s: program %.64s: %s", o->path,
				   bpf_program__name(prog),
				   strncmp(why.text, "-g: ", 4) ? why.text : why.text + 4);
	err = gates_find_file(spec->begin.path, &where, &path, &why);
	if (err)
		return err == -ENOMEM ? failure_nomem(f) : 0;
	err = add_file(files, path) ? failure_nomem(f) : 0;
	free(path);
	return err;
}

static int check_points(const struct objectfile *o, struct failure *f)
{
	struct translator_ask ask = {.procfs = "/proc", .command = o->opts.command};
	struct bpf_program *prog;
	struct files files = {};
	int err = 0;

	if (o->opts.force)
		return 0;
	bpf_object__for_each_program(prog, o->obj)
	{
		struct gate_spec spec = {};

		if (err || prog == o->handler || !bpf_program__autoload(prog))
			continue;
		err = user_point(prog, &spec);
		if (!err)
			err = check_point(o, prog, &spec, &files, f);
		else
			err = err == -ENOENT ? 0 : failure_nomem(f);
		gate_spec_release(&spec);
	}
	ask.files = (const char *const *)files.paths;
	ask.n_files = files.n;
	if (!err)
		err = translator_refuse(&ask, f);
	free_files(&files);
	return err;
}

static int attach_one(struct objectfile *o, struct bpf_program *prog, struct failure *f)
{
	struct bpf_link **links = reallocarray(o->links, o->n_links + 1, sizeof(*links));
	struct bpf_link *link;
	int err;

	if (!links)
		return failure_nomem(f);
	o->links = links;
	link = bpf_program__attach(prog);
	if (!link) {
		err = -errno;
		return failure_set(f, EXIT_RUN, err,
				   "--object %s: program %.64s cannot be attached to "
				   "SEC(\"%.128s\"): %s",
				   o->path, bpf_program__name(prog),
				   bpf_program__section_name(prog),
				   err == -EOPNOTSUPP ? "that does not say where" : strerror(-err));
	}
	o->links[o->n_links++] = link;
	return 0;
}

int objectfile_attach(struct objectfile *o, struct failure *f)
{
	struct bpf_program *prog;
	int err = check_points(o, f);

	if (err)
		return err;
	bpf_object__for_each_program(prog, o->obj)
	{
		if (prog == o->handler || !bpf_program__autoload(prog))
			continue;
		err = attach_one(o, prog, f);
		if (err) {
			objectfile_detach(o);
			return err;
		}
	}
	return 0;
}

void objectfile_detach(struct objectfile *o)
{
	while (o->n_links)
		bpf_link__destroy(o->links[--o->n_links]);
	free(o->links);
	o->links = NULL;
}

struct bpf_program *objectfile_handler(const struct objectfile *o)
{
	return o->handler;
}

struct bpf_object *objectfile_object(const struct objectfile *o)
{
	return o->obj;
}
