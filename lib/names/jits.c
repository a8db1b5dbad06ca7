/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/jits.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "names/jitfiles.h"
#include "names/jitproc.h"

/* How often a process that tells nothing is looked at again, and one that does is read. */
#define LOOK_AGAIN_NS 1000000000ull
#define READ_AGAIN_NS 100000000ull

struct process {
	uint32_t pid;
	bool ended;	/* the number may be another one's now */
	bool read_last; /* all that it has written was read, for the output */
	bool tells;
	uint64_t looked_ns;
	struct jitproc *jp; /* NULL: it could not be held on to */
};

struct jits {
	char *procfs;
	struct process *procs[JITS_MAX_PROCS];
	size_t n_procs;
	struct names *names;
};

struct jits *jits_new(const char *procfs)
{
	struct jits *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->procfs = strdup(procfs);
	j->names = names_new();
	if (!j->procfs || !j->names) {
		jits_free(j);
		return NULL;
	}
	return j;
}

void jits_free(struct jits *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n_procs; i++) {
		jitproc_free(j->procs[i]->jp);
		free(j->procs[i]);
	}
	names_free(j->names);
	free(j->procfs);
	free(j);
}

bool jits_is_code(const char *path)
{
	static const char *const beginnings[] = {
		"//anon",  "[anon",	"[heap]",	  "[stack]",
		"/memfd:", "/dev/zero", "/anon_hugepage", "/SYSV",
	};

	if (!*path)
		return true;
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (!strncmp(path, beginnings[i], strlen(beginnings[i])))
			return true;
	return false;
}

/* ---- processes ---- */

static size_t find(const struct jits *j, uint32_t pid)
{
	size_t i = j->n_procs;

	while (i-- > 0)
		if (j->procs[i]->pid == pid && !j->procs[i]->ended)
			return i;
	return SIZE_MAX;
}

static void look(struct jits *j, struct process *p, uint64_t now_ns)
{
	struct jitproc_state st;

	p->looked_ns = now_ns;
	if (!p->jp && jitproc_open(j->procfs, p->pid, &p->jp)) {
		p->jp = NULL;
		return;
	}
	jitproc_update(p->jp);
	jitproc_state(p->jp, &st);
	p->tells = st.has_map || st.has_dump;
}

static size_t add(struct jits *j, uint32_t pid)
{
	struct process *p;

	if (j->n_procs == JITS_MAX_PROCS)
		return SIZE_MAX;
	p = calloc(1, sizeof(*p));
	if (!p)
		return SIZE_MAX;
	p->pid = pid;
	j->procs[j->n_procs] = p;
	return j->n_procs++;
}

void jits_see(struct jits *j, uint32_t pid, const char *path)
{
	size_t i;

	if (!jitfiles_is_dump(path, NULL))
		return;
	i = find(j, pid);
	if (i == SIZE_MAX)
		i = add(j, pid);
	if (i == SIZE_MAX)
		return;
	if (j->procs[i]->jp)
		jitproc_add_dump(j->procs[i]->jp, path);
	look(j, j->procs[i], 0);
}

enum jits_answer jits_find(struct jits *j, uint32_t pid, uint64_t addr, uint64_t time_ns,
			   uint32_t *process, const char **name)
{
	size_t i = find(j, pid);
	const char *text;
	struct process *p;

	if (i == SIZE_MAX)
		i = add(j, pid);
	if (i == SIZE_MAX)
		return JITS_NOTHING;
	p = j->procs[i];
	if (!p->looked_ns || time_ns >= p->looked_ns + (p->tells ? READ_AGAIN_NS : LOOK_AGAIN_NS))
		look(j, p, time_ns);
	if (!p->tells)
		return JITS_NOTHING;
	text = jitproc_lookup(p->jp, addr, time_ns);
	*name = text ? names_intern(j->names, text) : NULL;
	if (*name)
		return JITS_NAMED;
	*process = (uint32_t)i;
	return JITS_LATER;
}

const char *jits_name_later(struct jits *j, uint32_t process, uint64_t addr, const char **reason)
{
	const char *name;
	struct process *p;

	*reason = "not in what the process says of its code";
	if (process >= j->n_procs || !j->procs[process]->jp)
		return NULL;
	p = j->procs[process];
	if (!p->read_last) {
		jitproc_update(p->jp);
		p->read_last = true;
	}
	name = jitproc_lookup(p->jp, addr, UINT64_MAX);
	return name ? names_intern(j->names, name) : NULL;
}

void jits_ended(struct jits *j, uint32_t pid)
{
	size_t i = find(j, pid);

	if (i != SIZE_MAX)
		j->procs[i]->ended = true;
}
