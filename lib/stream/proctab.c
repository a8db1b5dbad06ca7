/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/proctab.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/parse.h"
#include "base/table.h"
#include "stream/mapset.h"
#include "stream/mapsline.h"

/*
 * Mappings are a log, never edited: each has the time from which it holds, and the newest one that
 * covers an address at a time wins. That is what the kernel tells us (a mapping is announced, its
 * end is not), it makes late events harmless, and a sample that is older than a change still finds
 * what was there before it.
 *
 * What ends mappings is the end of the image they belong to. A pid has a list of images, newest
 * first; fork and exec each begin one, and an image ends where the next one begins.
 */

#define MAPS_LINE_BYTES 8192
/* A kernel that allows more mappings than this exists; a file without an end does not. */
#define MAPS_MAX_LINES (1u << 20)

struct image {
	struct image *older;
	struct mapset *set; /* NULL is the empty set */
	uint64_t from_ns;   /* 0 for one whose beginning was not seen */
	uint64_t named_ns;  /* UINT64_MAX for one without a name */
	uint64_t exit_ns;   /* of the leader, or a later sign of life of its threads; 0 for none */
	uint32_t threads;   /* believed to be alive, the leader included */
};

struct proc {
	struct image *newest;
	uint32_t pid;
	uint64_t stamp;	    /* of the last change to its images or their mappings */
	uint64_t newest_ns; /* the newest time that such a change holds from */
};

struct module_node {
	struct module m;
	char path[];
};

struct proctab {
	struct proc **procs;
	size_t proc_count, procs_room;
	struct table proc_table;      /* of their numbers, by pid */
	struct module_node **modules; /* by id - 1 */
	size_t module_count, modules_room;
	struct table module_table;
	uint64_t changes;
	void (*watch)(uint32_t pid, const struct ring_mmap *mm, void *arg);
	void *watch_arg;
};

static uint32_t module_hash(const struct proctab *pt, const struct ring_mmap *mm, const char *path)
{
	struct siphash h = table_hasher(&pt->module_table);

	siphash_word(&h, mm->ino);
	siphash_word(&h, (uint64_t)mm->dev_major << 32 | mm->dev_minor);
	return (uint32_t)siphash_end(&h, path, strlen(path));
}

bool proctab_is_uprobes(const char *path)
{
	return !strcmp(path, "[uprobes]") || !strncmp(path, "[uprobes-trampo", 15);
}

static int module_intern(struct proctab *pt, const struct ring_mmap *mm, const char *path,
			 uint32_t *id)
{
	uint32_t hash = module_hash(pt, mm, path), i;
	struct table_walk at = table_walk(&pt->module_table, hash);
	size_t bytes = strlen(path) + 1;
	struct module_node *n;

	while (table_next(&at, &i)) {
		n = pt->modules[i];
		if (n->m.ino == mm->ino && n->m.dev_major == mm->dev_major &&
		    n->m.dev_minor == mm->dev_minor && !strcmp(n->path, path)) {
			*id = n->m.id;
			return 0;
		}
	}

	if (table_reserve(&pt->module_table) ||
	    array_room(&pt->modules, &pt->modules_room, pt->module_count + 1,
		       sizeof(struct module_node *)))
		return -ENOMEM;
	n = malloc(sizeof(*n) + bytes);
	if (!n)
		return -ENOMEM;
	memcpy(n->path, path, bytes);
	n->m = (struct module){
		.id = (uint32_t)pt->module_count + 1,
		.dev_major = mm->dev_major,
		.dev_minor = mm->dev_minor,
		.ino = mm->ino,
		.uprobes = proctab_is_uprobes(path),
		.path = n->path,
	};
	table_add(&pt->module_table, hash, (uint32_t)pt->module_count);
	pt->modules[pt->module_count++] = n;
	*id = n->m.id;
	return 0;
}

static uint32_t pid_hash(const struct proctab *pt, uint32_t pid)
{
	return table_hash(&pt->proc_table, &pid, sizeof(pid));
}

static struct proc *proc_find(const struct proctab *pt, uint32_t pid)
{
	struct table_walk at = table_walk(&pt->proc_table, pid_hash(pt, pid));
	uint32_t i;

	while (table_next(&at, &i))
		if (pt->procs[i]->pid == pid)
			return pt->procs[i];
	return NULL;
}

static struct proc *proc_get(struct proctab *pt, uint32_t pid)
{
	struct proc *p = proc_find(pt, pid);

	if (p)
		return p;
	if (table_reserve(&pt->proc_table) ||
	    array_room(&pt->procs, &pt->procs_room, pt->proc_count + 1, sizeof(struct proc *)))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	table_add(&pt->proc_table, pid_hash(pt, pid), (uint32_t)pt->proc_count);
	pt->procs[pt->proc_count++] = p;
	return p;
}

static struct image *image_new(uint64_t from_ns)
{
	struct image *im = calloc(1, sizeof(*im));

	if (im) {
		im->from_ns = from_ns;
		im->named_ns = UINT64_MAX;
		im->threads = 1;
	}
	return im;
}

static void image_free(struct image *im)
{
	if (!im)
		return;
	mapset_put(im->set);
	free(im);
}

static struct image *image_at(const struct proc *p, uint64_t time_ns)
{
	struct image *im;

	for (im = p ? p->newest : NULL; im && im->from_ns > time_ns; im = im->older)
		;
	return im;
}

/* The image that lived at time_ns, or a new one of unknown beginning. NULL: no memory. */
static struct image *image_get(struct proctab *pt, uint32_t pid, uint64_t time_ns)
{
	struct proc *p = proc_get(pt, pid);
	struct image *im = image_at(p, time_ns);
	struct image **link;

	if (!p || im)
		return im;
	im = image_new(0);
	if (!im)
		return NULL;
	for (link = &p->newest; *link; link = &(*link)->older)
		;
	*link = im;
	return im;
}

/* Makes the set of this image one that may be changed. */
static int image_own_set(struct image *im)
{
	struct mapset *own;

	if (im->set && im->set->refs == 1)
		return 0;
	own = mapset_copy(im->set, UINT64_MAX, false);
	if (!own)
		return -ENOMEM;
	mapset_put(im->set);
	im->set = own;
	return 0;
}

static int image_add(struct proctab *pt, struct image *im, const struct ring_mmap *mm,
		     uint64_t time_ns, bool scanned)
{
	/* An area without any name is what the side band calls "//anon", and /proc nothing. */
	const char *path = mm->path && *mm->path ? mm->path : "//anon";
	bool anonymous = !mm->ino && !mm->dev_major && !mm->dev_minor;
	struct mapping m = {
		.start = mm->start,
		.last = mm->start + (mm->len - 1),
		.pgoff = mm->pgoff,
		.from_ns = time_ns,
	};
	int err;

	if (!mm->len || !(mm->prot & PROT_EXEC))
		return 0;
	if (m.last < m.start)
		m.last = UINT64_MAX;
	err = module_intern(pt, mm, path, &m.module_id);
	if (err)
		return err;
	if (mapset_has(im->set, &m, anonymous, scanned))
		return 0;
	err = image_own_set(im);
	if (err)
		return err;
	return mapset_insert(im->set, m);
}

/*
 * Begins an image at time_ns, with those mappings of parent (may be NULL) that it had then. Events
 * can be late, or a scan early: what the image that is replaced had from after time_ns on belongs
 * to the new one.
 */
static int image_begin(struct proc *p, uint64_t time_ns, const struct image *parent, bool named)
{
	struct mapset *inherited = parent ? parent->set : NULL;
	struct mapset *kept = NULL, *moved = NULL;
	struct image *replaced = image_at(p, time_ns);
	struct image *im = image_new(time_ns);
	bool split = replaced && replaced->set && replaced->set->newest_ns > time_ns;
	struct image **link;
	int err = -ENOMEM;

	if (!im)
		goto out;
	if (inherited && (split || inherited->newest_ns > time_ns)) {
		im->set = mapset_copy(inherited, time_ns, false);
		if (!im->set)
			goto out;
	} else {
		im->set = mapset_get(inherited);
	}
	if (split) {
		kept = mapset_copy(replaced->set, time_ns, false);
		moved = mapset_copy(replaced->set, time_ns, true);
		if (!kept || !moved)
			goto out;
		if (!im->set) {
			im->set = moved;
			moved = NULL;
		}
		for (size_t i = 0; moved && i < moved->count; i++) {
			if (mapset_insert(im->set, moved->v[i]))
				goto out;
		}
		mapset_put(replaced->set);
		replaced->set = kept;
		kept = NULL;
	}
	if (named)
		im->named_ns = time_ns;
	if (replaced && replaced->exit_ns > time_ns) {
		im->exit_ns = replaced->exit_ns;
		im->threads = replaced->threads;
		replaced->exit_ns = 0;
	}
	for (link = &p->newest; *link != replaced; link = &(*link)->older)
		;
	im->older = replaced;
	*link = im;
	im = NULL;
	err = 0;
out:
	mapset_put(kept);
	mapset_put(moved);
	image_free(im);
	return err;
}

struct proctab *proctab_new(void)
{
	struct proctab *pt = calloc(1, sizeof(*pt));

	if (!pt)
		return NULL;
	table_init(&pt->proc_table);
	table_init(&pt->module_table);
	return pt;
}

static void proc_free(struct proc *p)
{
	while (p->newest) {
		struct image *im = p->newest;

		p->newest = im->older;
		image_free(im);
	}
	free(p);
}

void proctab_free(struct proctab *pt)
{
	if (!pt)
		return;
	for (size_t i = 0; i < pt->proc_count; i++)
		proc_free(pt->procs[i]);
	for (size_t i = 0; i < pt->module_count; i++)
		free(pt->modules[i]);
	free(pt->procs);
	free(pt->modules);
	table_release(&pt->proc_table);
	table_release(&pt->module_table);
	free(pt);
}

/* 0 and -1 are what the kernel says of everyone whom the reader's pid namespace can't see. */
static bool pid_valid(uint32_t pid)
{
	return pid != 0 && pid <= INT32_MAX;
}

static int changed(struct proctab *pt, uint32_t pid, uint64_t time_ns, int err)
{
	struct proc *p = proc_find(pt, pid);

	if (p) {
		p->stamp = ++pt->changes;
		if (time_ns > p->newest_ns)
			p->newest_ns = time_ns;
	}
	return err;
}

static int apply_mmap(struct proctab *pt, const struct ring_event *ev)
{
	struct image *im;

	if (!(ev->mmap.prot & PROT_EXEC) || !ev->mmap.len)
		return 0;
	im = image_get(pt, ev->pid, ev->time_ns);
	if (!im)
		return -ENOMEM;
	/* The leader is gone, the others go on. */
	if (im->exit_ns && im->exit_ns < ev->time_ns)
		im->exit_ns = ev->time_ns;
	return changed(pt, ev->pid, ev->time_ns, image_add(pt, im, &ev->mmap, ev->time_ns, false));
}

static int apply_comm(struct proctab *pt, const struct ring_event *ev)
{
	struct image *im;

	if (ev->comm.exec) {
		struct proc *p = proc_get(pt, ev->pid);

		return changed(pt, ev->pid, ev->time_ns,
			       p ? image_begin(p, ev->time_ns, NULL, true) : -ENOMEM);
	}
	im = image_get(pt, ev->pid, ev->time_ns);
	if (!im)
		return -ENOMEM;
	if (ev->time_ns < im->named_ns)
		im->named_ns = ev->time_ns;
	return 0;
}

static int apply_fork(struct proctab *pt, const struct ring_event *ev)
{
	const struct image *parent = NULL;
	struct proc *p;

	if (ev->pid == ev->fork.parent_pid) {
		struct image *im = image_at(proc_find(pt, ev->pid), ev->time_ns);

		if (im && im->threads < UINT32_MAX)
			im->threads++;
		return 0;
	}
	if (pid_valid(ev->fork.parent_pid))
		parent = image_at(proc_find(pt, ev->fork.parent_pid), ev->time_ns);
	p = proc_get(pt, ev->pid);
	if (!p)
		return -ENOMEM;
	return changed(
		pt, ev->pid, ev->time_ns,
		image_begin(p, ev->time_ns, parent, parent && parent->named_ns <= ev->time_ns));
}

static void apply_exit(struct proctab *pt, const struct ring_event *ev)
{
	struct image *im = image_at(proc_find(pt, ev->pid), ev->time_ns);

	if (!im)
		return;
	if (im->threads)
		im->threads--;
	/* Once the leader is gone, each other thread that ends shows that the image lasted till
	 * then. */
	if ((ev->pid == ev->tid || im->exit_ns) && ev->time_ns > im->exit_ns)
		im->exit_ns = ev->time_ns;
}

int proctab_apply(struct proctab *pt, const struct ring_event *ev)
{
	if (!pid_valid(ev->pid))
		return 0;
	switch (ev->kind) {
	case RING_EV_MMAP:
		return apply_mmap(pt, ev);
	case RING_EV_COMM:
		return apply_comm(pt, ev);
	case RING_EV_FORK:
		return apply_fork(pt, ev);
	case RING_EV_EXIT:
		apply_exit(pt, ev);
		return 0;
	default:
		return 0;
	}
}

/*
 * Reads a line of at most bytes - 1 bytes. 1, or 0 at the end of the file; *bad says that it is too
 * long or has a NUL in it; then the whole of it was skipped.
 */
static int read_line(FILE *f, char *buf, size_t bytes, bool *bad)
{
	size_t len = 0;
	int c;

	*bad = false;
	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (c == '\0' || len + 1 >= bytes)
			*bad = true;
		else
			buf[len++] = (char)c;
	}
	buf[len] = '\0';
	return c == '\n' || len || *bad;
}

static FILE *open_proc_file(const char *procfs, uint32_t pid, const char *name, int *err)
{
	char *path = NULL;
	FILE *f = NULL;

	*err = 0;
	if (asprintf(&path, "%s/%u/%s", procfs, pid, name) < 0) {
		*err = -ENOMEM;
		return NULL;
	}
	f = fopen(path, "re");
	if (!f)
		*err = -errno;
	free(path);
	return f;
}

static int scan_maps(struct proctab *pt, FILE *f, uint32_t pid, struct image *im, uint64_t time_ns)
{
	char line[MAPS_LINE_BYTES + 1], path[MAPS_LINE_BYTES];
	struct ring_mmap mm;
	bool bad;
	int err;

	errno = 0;
	for (unsigned n = 0; n < MAPS_MAX_LINES && read_line(f, line, sizeof(line), &bad); n++) {
		if (bad || mapsline_parse(line, &mm, path, sizeof(path)))
			continue;
		/* Named by prctl(): for the side band it is as anonymous as the others. */
		if (!strncmp(path, "[anon:", 6))
			mm.path = "";
		if (pt->watch && (mm.prot & PROT_EXEC))
			pt->watch(pid, &mm, pt->watch_arg);
		err = image_add(pt, im, &mm, time_ns, true);
		if (err)
			return err;
	}
	if (ferror(f))
		return errno ? -errno : -EIO;
	return 0;
}

/* The kernel gives the directory of a process's threads two links more than it has threads. */
static uint32_t count_threads(const char *procfs, uint32_t pid)
{
	char path[4096];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%u/task", procfs, pid) >= (int)sizeof(path))
		return 1;
	return stat(path, &st) || st.st_nlink < 3 || st.st_nlink > INT32_MAX
		       ? 1
		       : (uint32_t)st.st_nlink - 2;
}

void proctab_watch(struct proctab *pt,
		   void (*fn)(uint32_t pid, const struct ring_mmap *mm, void *arg), void *arg)
{
	pt->watch = fn;
	pt->watch_arg = arg;
}

int proctab_scan(struct proctab *pt, const char *procfs, uint32_t pid, uint64_t time_ns)
{
	FILE *maps = NULL, *comm = NULL;
	struct proc *p;
	struct image *im;
	char name[64];
	bool bad;
	int err, comm_err;

	if (!pid_valid(pid))
		return -ESRCH;
	maps = open_proc_file(procfs, pid, "maps", &err);
	if (!maps)
		return err;
	/*
	 * /proc shows the newest image. If the side band has it begin after time_ns, then all that
	 * is read here is at least that new.
	 */
	p = proc_find(pt, pid);
	if (p && p->newest && p->newest->from_ns > time_ns)
		time_ns = p->newest->from_ns;
	im = image_get(pt, pid, time_ns);
	if (!im) {
		err = -ENOMEM;
		goto out;
	}
	/* Of an image whose beginning was seen, the side band has counted all threads. */
	if (!im->from_ns)
		im->threads = count_threads(procfs, pid);
	err = scan_maps(pt, maps, pid, im, time_ns);
	mapset_trim(im->set);
	if (err)
		goto out;
	comm = open_proc_file(procfs, pid, "comm", &comm_err);
	if (comm && read_line(comm, name, sizeof(name), &bad) && time_ns < im->named_ns)
		im->named_ns = time_ns;
out:
	if (comm)
		fclose(comm);
	fclose(maps);
	return changed(pt, pid, time_ns, err);
}

int proctab_scan_all(struct proctab *pt, const char *procfs, uint64_t time_ns)
{
	DIR *dir = opendir(procfs);
	struct dirent *entry;
	int count = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		uint64_t pid;
		int err;

		/* parse_u64() takes hexadecimal too, which no directory of a process is. */
		if (entry->d_name[strspn(entry->d_name, "0123456789")] ||
		    parse_u64(entry->d_name, 1, INT32_MAX, &pid))
			continue;
		err = proctab_scan(pt, procfs, (uint32_t)pid, time_ns);
		if (err == -ENOMEM) {
			count = err;
			break;
		}
		if (!err)
			count++;
	}
	closedir(dir);
	return count;
}

struct proc_addr proctab_resolve(const struct proctab *pt, uint32_t pid, uint64_t addr,
				 uint64_t time_ns)
{
	const struct image *im = image_at(proc_find(pt, pid), time_ns);
	const struct mapping *m = im ? mapset_lookup(im->set, addr, time_ns) : NULL;

	if (!m)
		return (struct proc_addr){0};
	return (struct proc_addr){
		.module = proctab_module(pt, m->module_id),
		.offset = addr - m->start + m->pgoff,
	};
}

bool proctab_stamp(const struct proctab *pt, uint32_t pid, uint64_t time_ns, uint64_t *stamp)
{
	const struct proc *p = proc_find(pt, pid);

	if (!p || !p->stamp || p->newest_ns > time_ns)
		return false;
	*stamp = p->stamp;
	return true;
}

bool proctab_knows(const struct proctab *pt, uint32_t pid, uint64_t time_ns)
{
	const struct image *im = image_at(proc_find(pt, pid), time_ns);

	if (!im)
		return false;
	if (im->named_ns <= time_ns)
		return true;
	for (size_t i = 0; im->set && i < im->set->count; i++) {
		if (im->set->v[i].from_ns <= time_ns)
			return true;
	}
	return false;
}

const struct module *proctab_module(const struct proctab *pt, uint32_t id)
{
	return id && id <= pt->module_count ? &pt->modules[id - 1]->m : NULL;
}

size_t proctab_module_count(const struct proctab *pt)
{
	return pt->module_count;
}

int proctab_each(const struct proctab *pt,
		 int (*fn)(uint32_t pid, const struct module *m, void *arg), void *arg)
{
	for (size_t i = 0; i < pt->proc_count; i++) {
		const struct proc *p = pt->procs[i];
		const struct mapset *set = p->newest ? p->newest->set : NULL;

		for (size_t j = 0; set && j < set->count; j++) {
			int err = fn(p->pid, proctab_module(pt, set->v[j].module_id), arg);

			if (err)
				return err;
		}
	}
	return 0;
}

static void proc_expire(struct proc *p, uint64_t time_ns)
{
	/* Where the image ends that is looked at: at the beginning of the one before it here. */
	uint64_t end_ns = UINT64_MAX;
	struct image **link = &p->newest;

	while (*link) {
		struct image *im = *link;

		if (end_ns <= time_ns || (im->exit_ns && im->exit_ns < time_ns && !im->threads)) {
			end_ns = im->from_ns;
			*link = im->older;
			image_free(im);
			continue;
		}
		mapset_expire(im->set, time_ns);
		/* What has been quiet since then has most likely been loaded whole. */
		if (im->set && im->set->newest_ns < time_ns)
			mapset_trim(im->set);
		end_ns = im->from_ns;
		link = &im->older;
	}
}

/* The last one takes its place. */
static void proc_drop(struct proctab *pt, uint32_t i)
{
	uint32_t last = (uint32_t)--pt->proc_count;

	table_remove(&pt->proc_table, pid_hash(pt, pt->procs[i]->pid), i);
	proc_free(pt->procs[i]);
	if (i == last)
		return;
	pt->procs[i] = pt->procs[last];
	table_remove(&pt->proc_table, pid_hash(pt, pt->procs[i]->pid), last);
	table_add(&pt->proc_table, pid_hash(pt, pt->procs[i]->pid), i);
}

void proctab_expire(struct proctab *pt, uint64_t time_ns)
{
	for (uint32_t i = (uint32_t)pt->proc_count; i-- > 0;) {
		proc_expire(pt->procs[i], time_ns);
		if (!pt->procs[i]->newest)
			proc_drop(pt, i);
	}
}

static int compare_edges(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

long proctab_edges(const struct proctab *pt, uint32_t pid, uint64_t time_ns, uint64_t **edges)
{
	const struct image *im = image_at(proc_find(pt, pid), time_ns);
	const struct mapset *set = im ? im->set : NULL;
	uint64_t *v = calloc(set ? 2 * set->count + 1 : 1, sizeof(*v));
	size_t n = 0, unique = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; set && i < set->count; i++) {
		if (set->v[i].from_ns > time_ns)
			continue;
		v[n++] = set->v[i].start;
		if (set->v[i].last != UINT64_MAX)
			v[n++] = set->v[i].last + 1;
	}
	qsort(v, n, sizeof(*v), compare_edges);
	for (size_t i = 0; i < n; i++)
		if (!unique || v[i] != v[unique - 1])
			v[unique++] = v[i];
	*edges = v;
	return unique;
}
