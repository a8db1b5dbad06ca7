/* SPDX-License-Identifier: BSD-2-Clause */
#include "perfdata/perfdata_feature.h"

#include <errno.h>
#include <string.h>

/* perf pads strings of the header to this (NAME_ALIGN). */
#define STRING_ALIGN 64
#define COMMAND_MAX  4096

/* An entry's id has this much room, and says its length behind it if its misc has this bit. */
#define BUILD_ID_BYTES	   20
#define MISC_BUILD_ID_SIZE (1 << 15)

struct build_id_head {
	struct perf_event_header header;
	int32_t pid; /* of a guest, else -1 */
	uint8_t id[BUILD_ID_BYTES];
	uint8_t id_bytes;
	uint8_t reserved[3];
};
_Static_assert(sizeof(struct build_id_head) == 36, "the format's");

int perfdata_add_u32(struct strbuf *sb, uint32_t value)
{
	return sb_add(sb, &value, sizeof(value));
}

int perfdata_add_u64(struct strbuf *sb, uint64_t value)
{
	return sb_add(sb, &value, sizeof(value));
}

static size_t padded(size_t len)
{
	return (len + 1 + STRING_ALIGN - 1) / STRING_ALIGN * STRING_ALIGN;
}

/* The string and zeros, one at least. */
static int add_padded(struct strbuf *sb, const char *s)
{
	static const char zeros[STRING_ALIGN];
	size_t len = strlen(s);

	sb_add(sb, s, len);
	return sb_add(sb, zeros, padded(len) - len);
}

int perfdata_add_string(struct strbuf *sb, const char *s)
{
	perfdata_add_u32(sb, (uint32_t)padded(strlen(s)));
	return add_padded(sb, s);
}

int perfdata_add_build_id(struct strbuf *sb, bool kernel, const char *path, const void *id,
			  size_t bytes)
{
	struct build_id_head head = {
		.header.misc = MISC_BUILD_ID_SIZE |
			       (kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER),
		.header.size = (uint16_t)(sizeof(head) + padded(strlen(path))),
		.pid = -1,
		.id_bytes = (uint8_t)(bytes < BUILD_ID_BYTES ? bytes : BUILD_ID_BYTES),
	};

	memcpy(head.id, id, head.id_bytes);
	sb_add(sb, &head, sizeof(head));
	return add_padded(sb, path);
}

static bool too_long(const char *s)
{
	return strnlen(s, PERFDATA_NAME_MAX) == PERFDATA_NAME_MAX;
}

static int add_strings(struct perfdata_features *fs, const struct perfdata_opts *o)
{
	const struct {
		enum perfdata_feature feature;
		const char *s;
	} strings[] = {
		{FEATURE_HOSTNAME, o->host.hostname}, {FEATURE_OSRELEASE, o->host.release},
		{FEATURE_VERSION, o->version},	      {FEATURE_ARCH, o->host.machine},
		{FEATURE_CPUDESC, o->host.cpu},	      {FEATURE_CPUID, o->host.cpuid},
	};

	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		if (!strings[i].s)
			continue;
		if (too_long(strings[i].s))
			return -E2BIG;
		if (perfdata_add_string(&fs->sections[strings[i].feature], strings[i].s))
			return -ENOMEM;
	}
	return 0;
}

static int add_command(struct strbuf *sb, const struct perfdata_opts *o)
{
	if (!o->n_command)
		return 0;
	if (o->n_command > COMMAND_MAX)
		return -E2BIG;
	perfdata_add_u32(sb, (uint32_t)o->n_command);
	for (size_t i = 0; i < o->n_command; i++) {
		if (too_long(o->command[i]))
			return -E2BIG;
		perfdata_add_string(sb, o->command[i]);
	}
	return sb->err;
}

static void add_clock(struct perfdata_features *fs, const struct perfdata_opts *o)
{
	struct strbuf *sb = &fs->sections[FEATURE_CLOCK_DATA];

	if (!o->events[0].attr.use_clockid)
		return;
	perfdata_add_u64(&fs->sections[FEATURE_CLOCKID], o->clock.resolution_ns);
	if (!o->clock.wall_ns)
		return;
	perfdata_add_u32(sb, 1); /* version */
	perfdata_add_u32(sb, (uint32_t)o->events[0].attr.clockid);
	perfdata_add_u64(sb, o->clock.wall_ns);
	perfdata_add_u64(sb, o->clock.clock_ns);
}

int perfdata_features_init(struct perfdata_features *fs, const struct perfdata_opts *o)
{
	int err;

	for (size_t i = 0; i < N_FEATURES; i++)
		sb_init(&fs->sections[i]);
	err = add_strings(fs, o);
	if (!err)
		err = add_command(&fs->sections[FEATURE_CMDLINE], o);
	if (err)
		goto out;
	if (o->host.cpus_online) {
		perfdata_add_u32(&fs->sections[FEATURE_NRCPUS], o->host.cpus_present);
		perfdata_add_u32(&fs->sections[FEATURE_NRCPUS], o->host.cpus_online);
	}
	if (o->host.memory_kib)
		perfdata_add_u64(&fs->sections[FEATURE_TOTAL_MEM], o->host.memory_kib);
	add_clock(fs, o);
	for (size_t i = 0; i < N_FEATURES && !err; i++)
		err = fs->sections[i].err;
out:
	if (err)
		perfdata_features_release(fs);
	return err;
}

void perfdata_features_release(struct perfdata_features *fs)
{
	for (size_t i = 0; i < N_FEATURES; i++)
		sb_release(&fs->sections[i]);
}
