/* SPDX-License-Identifier: BSD-2-Clause */
#include "perfdata/perfdata.h"
#include "perfdata/perfdata_feature.h"
#include "perfdata/perfdata_files.h"
#include "perfdata/perfdata_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"

#define MAGIC	 UINT64_C(0x32454c4946524550) /* PERFILE2 */
#define ROUND_NS UINT64_C(1000000000)
#define NO_TIME	 UINT64_MAX

/*
 * Two of perf's own records, which are only a header. The second announced event names once; perf
 * still knows it and does nothing, so an undone mark becomes one.
 */
#define RECORD_FINISHED_ROUND 68
#define RECORD_NOTHING	      65

struct section {
	uint64_t offset, size;
};

struct file_head {
	uint64_t magic;
	uint64_t size;
	uint64_t attr_size;
	struct section attrs, data, event_types;
	uint64_t features[4];
};
_Static_assert(sizeof(struct file_head) == 104, "the format's");

struct event {
	struct perf_event_attr attr;
	struct perfdata_layout layout;
	char *name;
	uint64_t *ids;
	size_t n_ids, ids_room;
};

struct known_id {
	uint64_t id;
	size_t event;
};

/*
 * A FINISHED_ROUND in the file. At such a mark a reader lets go of all that is not newer than what
 * it had read up to the mark before: nothing older than limit may follow.
 */
struct round {
	uint64_t at; /* in the file */
	uint64_t newest, limit;
};

struct perfdata {
	FILE *f;
	int err;
	bool finished;
	uint64_t at; /* where the next byte goes */

	struct event *events;
	size_t n_events;
	uint32_t attr_bytes;
	struct known_id *known; /* by id */
	size_t n_known, known_room;

	uint64_t data_at;
	uint64_t newest; /* time of a record */
	uint64_t first_sample, last_sample;
	struct round *rounds;
	size_t n_rounds, rounds_room;

	struct perfdata_features features;
	struct perfdata_files files;
	struct perfdata_counts counts;
};

/* --- bytes --- */

static int put(struct perfdata *pd, const void *bytes, size_t n)
{
	if (pd->err)
		return pd->err;
	if (n && fwrite(bytes, 1, n, pd->f) != n)
		pd->err = errno ? -errno : -EIO;
	pd->at += n;
	return pd->err;
}

static int put_zeros(struct perfdata *pd, size_t n)
{
	static const char zeros[256];

	while (n && !pd->err) {
		size_t now = n < sizeof(zeros) ? n : sizeof(zeros);

		put(pd, zeros, now);
		n -= now;
	}
	return pd->err;
}

static int seek(struct perfdata *pd, uint64_t at)
{
	if (!pd->err && fseeko(pd->f, (off_t)at, SEEK_SET))
		pd->err = -errno;
	return pd->err;
}

/* Changes bytes that were written before. */
static int patch(struct perfdata *pd, uint64_t at, const void *bytes, size_t n)
{
	uint64_t end = pd->at;

	seek(pd, at);
	put(pd, bytes, n);
	pd->at = end;
	return seek(pd, end);
}

/* --- the beginning --- */

/*
 * The attribute as an old perf can read it, too: without the newest fields where they are not used.
 * perf refuses a file whose attributes are larger than its own.
 */
static uint32_t attr_bytes_needed(const struct perfdata_opts *o)
{
	static const uint32_t sizes[] = {PERF_ATTR_SIZE_VER5, PERF_ATTR_SIZE_VER6,
					 PERF_ATTR_SIZE_VER7};
	uint32_t used = 0;

	for (size_t i = 0; i < o->n_events; i++) {
		const unsigned char *attr = (const unsigned char *)&o->events[i].attr;

		for (uint32_t b = sizeof(o->events[i].attr); b > used; b--)
			if (attr[b - 1])
				used = b;
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (used <= sizes[i])
			return sizes[i];
	return sizeof(struct perf_event_attr);
}

/* What perf checks of a file's events, so that it does not refuse ours. */
static int check_events(const struct perfdata_opts *o)
{
	const struct perf_event_attr *first;

	if (!o->n_events || !o->events)
		return -EINVAL;
	if (o->n_events > PERFDATA_EVENTS_MAX)
		return -E2BIG;
	first = &o->events[0].attr;
	for (size_t i = 0; i < o->n_events; i++) {
		const struct perfdata_event *ev = &o->events[i];

		if (!ev->name || ev->attr.sample_id_all != first->sample_id_all ||
		    ev->attr.read_format != first->read_format)
			return -EINVAL;
		if (o->n_events > 1 && !(ev->attr.sample_type & PERF_SAMPLE_IDENTIFIER))
			return -EINVAL;
		if (strnlen(ev->name, PERFDATA_NAME_MAX) == PERFDATA_NAME_MAX)
			return -E2BIG;
	}
	return 0;
}

/* Whether it can be patched, and is empty, so that nothing old stays behind the end. */
static int check_file(FILE *f)
{
	off_t at = ftello(f);
	int fd = fileno(f), flags;

	if (at < 0 || fseeko(f, 0, SEEK_END))
		return -ESPIPE;
	if (at > 0 || ftello(f) != 0)
		return -EINVAL;
	flags = fd >= 0 ? fcntl(fd, F_GETFL) : 0; /* a stream in memory has none */
	return flags > 0 && (flags & O_APPEND) ? -EINVAL : 0;
}

static int copy_events(struct perfdata *pd, const struct perfdata_opts *o)
{
	pd->events = calloc(o->n_events, sizeof(*pd->events));
	if (!pd->events)
		return -ENOMEM;
	pd->attr_bytes = attr_bytes_needed(o);
	for (size_t i = 0; i < o->n_events; i++) {
		struct event *ev = &pd->events[pd->n_events++];

		ev->attr = o->events[i].attr;
		ev->attr.size = pd->attr_bytes;
		perfdata_layout_init(&ev->layout, &ev->attr);
		ev->name = strdup(o->events[i].name);
		if (!ev->name)
			return -ENOMEM;
	}
	return 0;
}

int perfdata_new(FILE *f, const struct perfdata_opts *o, struct perfdata **out)
{
	struct perfdata *pd;
	int err;

	err = check_events(o);
	if (!err)
		err = check_file(f);
	if (err)
		return err;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->f = f;
	pd->first_sample = NO_TIME;
	perfdata_files_init(&pd->files);
	err = perfdata_features_init(&pd->features, o);
	if (!err)
		err = copy_events(pd, o);
	if (!err)
		err = put_zeros(pd,
				sizeof(struct file_head) +
					pd->n_events * (pd->attr_bytes + sizeof(struct section)));
	if (err) {
		perfdata_free(pd);
		return err;
	}
	pd->data_at = pd->at;
	*out = pd;
	return 0;
}

void perfdata_free(struct perfdata *pd)
{
	if (!pd)
		return;
	for (size_t i = 0; i < pd->n_events; i++) {
		free(pd->events[i].name);
		free(pd->events[i].ids);
	}
	free(pd->events);
	free(pd->known);
	free(pd->rounds);
	perfdata_features_release(&pd->features);
	perfdata_files_release(&pd->files);
	free(pd);
}

/* --- ids --- */

/* Where an id is, or would be. */
static size_t find_id(const struct perfdata *pd, uint64_t id)
{
	size_t low = 0, high = pd->n_known;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (pd->known[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int perfdata_add_id(struct perfdata *pd, size_t event, uint64_t id)
{
	struct event *ev;
	size_t i;

	if (pd->finished || event >= pd->n_events || !id)
		return -EINVAL;
	i = find_id(pd, id);
	if (i < pd->n_known && pd->known[i].id == id)
		return -EEXIST;
	ev = &pd->events[event];
	if (array_room(&pd->known, &pd->known_room, pd->n_known + 1, sizeof(*pd->known)) ||
	    array_room(&ev->ids, &ev->ids_room, ev->n_ids + 1, sizeof(*ev->ids)))
		return -ENOMEM;
	memmove(&pd->known[i + 1], &pd->known[i], (pd->n_known - i) * sizeof(*pd->known));
	pd->known[i] = (struct known_id){id, event};
	pd->n_known++;
	ev->ids[ev->n_ids++] = id;
	return 0;
}

/*
 * Whose record it is. With several events all have their id in the same place. Records that are
 * made in user space have none, and go with the first event, as in perf.
 */
static int find_event(const struct perfdata *pd, const void *record, size_t bytes, bool sample,
		      const struct event **ev)
{
	uint64_t id;
	size_t i;
	int err;

	err = perfdata_record_id(&pd->events[0].layout, record, bytes, &id);
	*ev = &pd->events[0];
	if (err)
		return err == -ENODATA ? 0 : err;
	if (!id && !sample)
		return 0;
	i = find_id(pd, id);
	if (i == pd->n_known || pd->known[i].id != id)
		return -ENOENT;
	*ev = &pd->events[pd->known[i].event];
	return 0;
}

/* --- records --- */

/* Takes back the marks that would make a reader let go of newer records before this one. */
static int undo_rounds(struct perfdata *pd, uint64_t time_ns)
{
	static const struct perf_event_header nothing = {
		.type = RECORD_NOTHING,
		.size = sizeof(nothing),
	};

	while (pd->n_rounds && time_ns < pd->rounds[pd->n_rounds - 1].limit) {
		patch(pd, pd->rounds[pd->n_rounds - 1].at, &nothing, sizeof(nothing));
		pd->n_rounds--;
		pd->counts.undone_rounds++;
	}
	return pd->err;
}

static int remember_file(struct perfdata *pd, const void *record)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		uint64_t start, bytes, pgoff;
		uint32_t dev_major, dev_minor;
		uint64_t ino, generation;
		uint32_t prot, flags;
	} r;
	struct perfdata_map map;

	memcpy(&r, record, sizeof(r));
	map = (struct perfdata_map){
		.start = r.start,
		.bytes = r.bytes,
		.pgoff = r.pgoff,
		.dev_major = r.dev_major,
		.dev_minor = r.dev_minor,
		.ino = r.ino,
		.prot = r.prot,
		.flags = r.flags,
		.path = (const char *)record + sizeof(r),
	};
	/* Where the kernel has put the build-id, there is no inode. */
	if (!(r.prot & PROT_EXEC) || (r.header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) ||
	    map.path[0] != '/' || !map.ino)
		return 0;
	return perfdata_files_add(&pd->files, &map, r.pid);
}

int perfdata_record(struct perfdata *pd, const void *record, size_t bytes)
{
	struct perf_event_header h;
	const struct event *ev;
	uint64_t time_ns = 0;
	bool sample;
	int err;

	if (pd->err || pd->finished)
		return pd->err ? pd->err : -EINVAL;
	err = perfdata_check_header(record, bytes, &h);
	if (err)
		return err;
	sample = h.type == PERF_RECORD_SAMPLE;
	err = find_event(pd, record, bytes, sample, &ev);
	if (!err)
		err = perfdata_check_body(&ev->layout, record, bytes);
	if (err)
		return err;
	if (h.type == PERF_RECORD_MMAP2) {
		err = remember_file(pd, record);
		if (err)
			return err;
	}
	/* Readers keep records without a time out of the order. */
	if (!perfdata_record_time(&ev->layout, record, bytes, &time_ns) && time_ns &&
	    time_ns != NO_TIME) {
		undo_rounds(pd, time_ns);
		if (time_ns > pd->newest)
			pd->newest = time_ns;
		if (sample && time_ns < pd->first_sample)
			pd->first_sample = time_ns;
		if (sample && time_ns > pd->last_sample)
			pd->last_sample = time_ns;
	}
	if (put(pd, record, bytes))
		return pd->err;
	pd->counts.records++;
	pd->counts.samples += sample;
	return 0;
}

static int put_round(struct perfdata *pd)
{
	static const struct perf_event_header round = {
		.type = RECORD_FINISHED_ROUND,
		.size = sizeof(round),
	};

	return put(pd, &round, sizeof(round));
}

int perfdata_round(struct perfdata *pd)
{
	uint64_t before = pd->n_rounds ? pd->rounds[pd->n_rounds - 1].newest : 0;

	if (pd->err || pd->finished)
		return pd->err ? pd->err : -EINVAL;
	if (pd->newest - before < ROUND_NS)
		return 0;
	if (array_room(&pd->rounds, &pd->rounds_room, pd->n_rounds + 1, sizeof(*pd->rounds)))
		return -ENOMEM;
	pd->rounds[pd->n_rounds++] = (struct round){pd->at, pd->newest, before};
	return put_round(pd);
}

size_t perfdata_make_trailer(const struct perfdata *pd, uint32_t pid, uint32_t tid,
			     uint64_t time_ns, uint64_t id, uint64_t words[PERFDATA_TRAILER_WORDS])
{
	size_t i = id ? find_id(pd, id) : pd->n_known;
	size_t event = i < pd->n_known && pd->known[i].id == id ? pd->known[i].event : 0;

	return perfdata_trailer(&pd->events[event].layout, pid, tid, time_ns, id, words);
}

int perfdata_build_id(struct perfdata *pd, bool kernel, const char *path, const void *id,
		      size_t bytes)
{
	struct strbuf *sb = &pd->features.sections[FEATURE_BUILD_ID];

	if (pd->finished || !bytes || !path[0])
		return -EINVAL;
	if (strnlen(path, PERFDATA_NAME_MAX) == PERFDATA_NAME_MAX)
		return -E2BIG;
	return perfdata_add_build_id(sb, kernel, path, id, bytes);
}

int perfdata_each_file(const struct perfdata *pd,
		       int (*fn)(const struct perfdata_map *map, uint32_t pid, void *arg),
		       void *arg)
{
	for (size_t i = 0; i < pd->files.n; i++) {
		const struct perfdata_file *file = &pd->files.files[i];
		const struct perfdata_map map = {
			.dev_major = file->dev_major,
			.dev_minor = file->dev_minor,
			.ino = file->ino,
			.path = file->path,
		};
		int stop = fn(&map, file->pid, arg);

		if (stop)
			return stop;
	}
	return 0;
}

void perfdata_counts(const struct perfdata *pd, struct perfdata_counts *out)
{
	*out = pd->counts;
}

/* --- the end --- */

static int describe_events(struct perfdata *pd)
{
	struct strbuf *sb = &pd->features.sections[FEATURE_EVENT_DESC];

	perfdata_add_u32(sb, (uint32_t)pd->n_events);
	perfdata_add_u32(sb, pd->attr_bytes);
	for (size_t i = 0; i < pd->n_events; i++) {
		const struct event *ev = &pd->events[i];

		sb_add(sb, &ev->attr, pd->attr_bytes);
		perfdata_add_u32(sb, (uint32_t)ev->n_ids);
		perfdata_add_string(sb, ev->name);
		if (ev->n_ids)
			sb_add(sb, ev->ids, ev->n_ids * sizeof(*ev->ids));
	}
	if (pd->first_sample != NO_TIME) {
		sb = &pd->features.sections[FEATURE_SAMPLE_TIME];
		perfdata_add_u64(sb, pd->first_sample);
		perfdata_add_u64(sb, pd->last_sample);
	}
	for (size_t i = 0; i < N_FEATURES; i++)
		if (pd->features.sections[i].err)
			pd->err = -ENOMEM;
	return pd->err;
}

/* The table of sections stands right behind the data, the sections behind it. */
static void put_features(struct perfdata *pd, struct file_head *head)
{
	const struct strbuf *sections = pd->features.sections;
	uint64_t at = pd->at;

	for (size_t i = 0; i < N_FEATURES; i++)
		if (sections[i].len)
			at += sizeof(struct section);
	for (size_t i = 0; i < N_FEATURES; i++) {
		struct section s = {at, sections[i].len};

		if (!s.size)
			continue;
		head->features[i / 64] |= UINT64_C(1) << i % 64;
		put(pd, &s, sizeof(s));
		at += s.size;
	}
	for (size_t i = 0; i < N_FEATURES; i++)
		put(pd, sections[i].s, sections[i].len);
	put_zeros(pd, -pd->at & 7);
}

static void put_ids(struct perfdata *pd)
{
	for (size_t i = 0; i < pd->n_events; i++)
		put(pd, pd->events[i].ids, pd->events[i].n_ids * sizeof(uint64_t));
}

static void put_attrs(struct perfdata *pd, uint64_t ids_at)
{
	for (size_t i = 0; i < pd->n_events; i++) {
		struct section ids = {ids_at, pd->events[i].n_ids * sizeof(uint64_t)};

		put(pd, &pd->events[i].attr, pd->attr_bytes);
		put(pd, &ids, sizeof(ids));
		ids_at += ids.size;
	}
}

static int flush(struct perfdata *pd)
{
	if (!pd->err && (fflush(pd->f) || ferror(pd->f)))
		pd->err = errno ? -errno : -EIO;
	return pd->err;
}

int perfdata_finish(struct perfdata *pd)
{
	struct file_head head = {
		.magic = MAGIC,
		.size = sizeof(head),
		.attr_size = pd->attr_bytes + sizeof(struct section),
		.attrs = {sizeof(head), pd->data_at - sizeof(head)},
	};
	uint64_t ids_at, end;

	if (pd->finished || pd->err)
		return pd->err ? pd->err : -EINVAL;
	/* perf takes a file without data for one whose writer was killed. */
	if (pd->at == pd->data_at)
		put_round(pd);
	head.data = (struct section){pd->data_at, pd->at - pd->data_at};
	if (describe_events(pd))
		return pd->err;
	put_features(pd, &head);
	ids_at = pd->at;
	put_ids(pd);
	end = pd->at;
	seek(pd, sizeof(head));
	put_attrs(pd, ids_at);
	/* All the rest is in the file before the head says that it is. */
	flush(pd);
	seek(pd, 0);
	put(pd, &head, sizeof(head));
	seek(pd, end);
	flush(pd);
	pd->finished = !pd->err;
	return pd->err;
}
