/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/jitdump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/table.h"
#include "names/codemap.h"

#define MAGIC		 0x4a695444u
#define MAGIC_FOREIGN	 0x4454694au
#define VERSION		 1
#define FLAG_ARCH_TIME	 1u
#define WINDOW_BYTES	 65536u
#define HEADER_MAX_BYTES 4096u

enum { RECORD_LOAD = 0, RECORD_MOVE = 1 };

struct file_header {
	uint32_t magic;
	uint32_t version;
	uint32_t total_size;
	uint32_t elf_mach;
	uint32_t pad1;
	uint32_t pid;
	uint64_t timestamp;
	uint64_t flags;
};
_Static_assert(sizeof(struct file_header) == 40, "as in the file");

struct record_header {
	uint32_t id;
	uint32_t total_size;
	uint64_t timestamp;
};
_Static_assert(sizeof(struct record_header) == 16, "as in the file");

/* The name, with its NUL, and the code follow. */
struct load_record {
	struct record_header h;
	uint32_t pid, tid;
	uint64_t vma;
	uint64_t code_addr;
	uint64_t code_size;
	uint64_t code_index;
};
_Static_assert(sizeof(struct load_record) == 56, "as in the file");

struct move_record {
	struct record_header h;
	uint32_t pid, tid;
	uint64_t vma;
	uint64_t old_code_addr;
	uint64_t new_code_addr;
	uint64_t code_size;
	uint64_t code_index;
};
_Static_assert(sizeof(struct move_record) == 64, "as in the file");

/* What a code_index was called when it was loaded last. */
struct id {
	uint64_t code_index;
	uint32_t name; /* codemap's */
};

/* A part of the file in memory. */
struct window {
	int fd;
	uint64_t at; /* of buf[0] in the file */
	size_t bytes;
	unsigned char *buf;
};

struct jitdump {
	struct codemap *code;
	dev_t dev;
	ino_t ino;
	off_t size;	 /* when it was last looked at */
	uint64_t offset; /* of the first record that was not yet taken; 0 before the header */
	uint64_t flags;
	const char *reason;
	uint64_t records, skipped, cut;
	struct id *ids;
	size_t n_ids, ids_room;
	struct table id_table; /* of their numbers */
};

struct jitdump *jitdump_new(void)
{
	struct jitdump *jd = calloc(1, sizeof(*jd));

	if (!jd)
		return NULL;
	jd->code = codemap_new();
	if (!jd->code) {
		free(jd);
		return NULL;
	}
	table_init(&jd->id_table);
	return jd;
}

void jitdump_free(struct jitdump *jd)
{
	if (!jd)
		return;
	codemap_free(jd->code);
	free(jd->ids);
	table_release(&jd->id_table);
	free(jd);
}

/*
 * What the file has at offset, at least min bytes of it and at most WINDOW_BYTES; *got is how many.
 * NULL: there are fewer, *err 0, or reading failed.
 */
static const unsigned char *window_at(struct window *w, uint64_t offset, size_t min, size_t *got,
				      int *err)
{
	ssize_t n;

	*err = 0;
	if (offset < w->at || offset - w->at > w->bytes || w->bytes - (offset - w->at) < min) {
		w->at = offset;
		w->bytes = 0;
		do
			n = pread(w->fd, w->buf, WINDOW_BYTES, (off_t)offset);
		while (n < 0 && errno == EINTR);
		if (n < 0) {
			*err = -errno;
			return NULL;
		}
		w->bytes = (size_t)n;
	}
	*got = w->bytes - (size_t)(offset - w->at);
	return *got < min ? NULL : w->buf + (offset - w->at);
}

static struct id *id_find(const struct jitdump *jd, uint64_t code_index)
{
	struct table_walk at = table_walk(
		&jd->id_table, table_hash(&jd->id_table, &code_index, sizeof(code_index)));
	uint32_t i;

	while (table_next(&at, &i))
		if (jd->ids[i].code_index == code_index)
			return &jd->ids[i];
	return NULL;
}

static int id_put(struct jitdump *jd, uint64_t code_index, uint32_t name)
{
	struct id *id = id_find(jd, code_index);

	if (id) {
		id->name = name;
		return 0;
	}
	if (table_reserve(&jd->id_table) ||
	    array_room(&jd->ids, &jd->ids_room, jd->n_ids + 1, sizeof(*jd->ids)))
		return -ENOMEM;
	table_add(&jd->id_table, table_hash(&jd->id_table, &code_index, sizeof(code_index)),
		  (uint32_t)jd->n_ids);
	jd->ids[jd->n_ids++] = (struct id){.code_index = code_index, .name = name};
	return 0;
}

static uint64_t record_time(const struct jitdump *jd, uint64_t timestamp)
{
	return jitdump_has_times(jd) ? timestamp : 0;
}

/* bytes of the record are there, which may be fewer than it has. -EINVAL: it makes no sense. */
static int take_load(struct jitdump *jd, const unsigned char *bytes, size_t len)
{
	const char *name = (const char *)bytes + sizeof(struct load_record);
	size_t room = len - sizeof(struct load_record);
	struct load_record r;
	size_t name_len;
	int err;

	memcpy(&r, bytes, sizeof(r));
	name_len = strnlen(name, room);
	if (name_len == room && room <= JITDUMP_MAX_NAME)
		return -EINVAL;
	if (name_len > JITDUMP_MAX_NAME) {
		name_len = JITDUMP_MAX_NAME;
		jd->cut++;
	}
	err = codemap_add(jd->code, r.code_addr, r.code_size, record_time(jd, r.h.timestamp), name,
			  name_len);
	return err ? err : id_put(jd, r.code_index, codemap_last_name(jd->code));
}

static int take_move(struct jitdump *jd, const unsigned char *bytes)
{
	const struct id *id;
	struct move_record r;

	memcpy(&r, bytes, sizeof(r));
	id = id_find(jd, r.code_index);
	if (!id)
		return -EINVAL;
	return codemap_add_again(jd->code, r.new_code_addr, r.code_size,
				 record_time(jd, r.h.timestamp), id->name);
}

/* A record that is whole in the file. 1: taken; 0: the file has become shorter. */
static int take_record(struct jitdump *jd, struct window *w, const struct record_header *h)
{
	size_t fixed, want, got;
	const unsigned char *bytes;
	int err;

	if (h->id != RECORD_LOAD && h->id != RECORD_MOVE)
		return 1;
	fixed = h->id == RECORD_LOAD ? sizeof(struct load_record) : sizeof(struct move_record);
	if (h->total_size < fixed) {
		jd->skipped++;
		return 1;
	}
	want = h->id == RECORD_LOAD ? fixed + JITDUMP_MAX_NAME + 1 : fixed;
	if (want > h->total_size)
		want = h->total_size;
	bytes = window_at(w, jd->offset, want, &got, &err);
	if (!bytes)
		return err;
	err = h->id == RECORD_LOAD ? take_load(jd, bytes, want) : take_move(jd, bytes);
	if (err == -EINVAL)
		jd->skipped++;
	else if (err)
		return err;
	return 1;
}

static int take_records(struct jitdump *jd, struct window *w, uint64_t file_bytes)
{
	struct record_header h;
	int got;

	while (file_bytes - jd->offset >= sizeof(h)) {
		const unsigned char *bytes;
		size_t len;

		bytes = window_at(w, jd->offset, sizeof(h), &len, &got);
		if (!bytes)
			return got;
		memcpy(&h, bytes, sizeof(h));
		if (h.total_size < sizeof(h))
			return -EBADMSG;
		if (h.total_size > file_bytes - jd->offset)
			break;
		if (jd->records >= JITDUMP_MAX_RECORDS)
			return -EFBIG;
		got = take_record(jd, w, &h);
		if (got <= 0)
			return got;
		jd->records++;
		jd->offset += h.total_size;
	}
	return 0;
}

static const char *header_reason(const struct file_header *h)
{
	if (h->magic == MAGIC_FOREIGN)
		return "it is of the other byte order";
	if (h->magic != MAGIC)
		return "it is not a jitdump file";
	if (h->version != VERSION)
		return "its version is not 1";
	if (h->elf_mach != JITDUMP_MACHINE)
		return "its code is for another machine";
	if (h->total_size < sizeof(*h) || h->total_size > HEADER_MAX_BYTES)
		return "its header's size makes no sense";
	return NULL;
}

/* 1: read; 0: not there yet. */
static int take_header(struct jitdump *jd, struct window *w, uint64_t file_bytes)
{
	const unsigned char *bytes;
	struct file_header h;
	size_t len;
	int err;

	bytes = window_at(w, 0, sizeof(h), &len, &err);
	if (!bytes)
		return err;
	memcpy(&h, bytes, sizeof(h));
	jd->reason = header_reason(&h);
	if (jd->reason)
		return -ENOEXEC;
	if (h.total_size > file_bytes)
		return 0;
	jd->flags = h.flags;
	jd->offset = h.total_size;
	return 1;
}

static int read_new(struct jitdump *jd, int fd, uint64_t file_bytes)
{
	struct window w = {.fd = fd, .buf = malloc(WINDOW_BYTES)};
	int err = 1;

	if (!w.buf)
		return -ENOMEM;
	if (!jd->offset)
		err = take_header(jd, &w, file_bytes);
	if (err > 0)
		err = take_records(jd, &w, file_bytes);
	free(w.buf);
	return err;
}

static void forget(struct jitdump *jd)
{
	struct codemap *code = jd->code;

	codemap_clear(code);
	free(jd->ids);
	table_release(&jd->id_table);
	*jd = (struct jitdump){.code = code};
	table_init(&jd->id_table);
}

int jitdump_update(struct jitdump *jd, int fd)
{
	int err, index_err;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_dev != jd->dev || st.st_ino != jd->ino || st.st_size < jd->size)
		forget(jd);
	jd->dev = st.st_dev;
	jd->ino = st.st_ino;
	jd->size = st.st_size;
	err = read_new(jd, fd, (uint64_t)st.st_size);
	index_err = codemap_index(jd->code);
	return err ? err : index_err;
}

const char *jitdump_reason(const struct jitdump *jd)
{
	return jd->reason;
}

bool jitdump_has_times(const struct jitdump *jd)
{
	return !(jd->flags & FLAG_ARCH_TIME);
}

const char *jitdump_lookup(const struct jitdump *jd, uint64_t addr, uint64_t time_ns)
{
	return codemap_lookup(jd->code, addr, time_ns);
}

size_t jitdump_count(const struct jitdump *jd)
{
	return codemap_count(jd->code);
}

uint64_t jitdump_skipped(const struct jitdump *jd)
{
	return jd->skipped;
}

uint64_t jitdump_cut(const struct jitdump *jd)
{
	return jd->cut;
}
