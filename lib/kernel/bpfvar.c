/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/bpfvar.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

static void *find_in(const struct bpf_object *obj, const char *section, const char *name,
		     size_t bytes, char *base, size_t room)
{
	const struct btf *btf = bpf_object__btf(obj);
	int id = btf ? btf__find_by_name_kind(btf, section, BTF_KIND_DATASEC) : -1;
	const struct btf_type *sec = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; base && sec && i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *var = btf_var_secinfos(sec) + i;
		const struct btf_type *type = btf__type_by_id(btf, var->type);

		if (strcmp(btf__name_by_offset(btf, type->name_off), name))
			continue;
		if (var->size != bytes || var->offset > room || room - var->offset < bytes)
			return NULL;
		return base + var->offset;
	}
	return NULL;
}

void *bpfvar_find(struct bpf_object *obj, const char *section, const char *name, size_t bytes)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, section);
	size_t room = 0;
	char *base = map ? (char *)bpf_map__initial_value(map, &room) : NULL;

	return find_in(obj, section, name, bytes, base, room);
}

int bpfvar_map(struct bpf_object *obj, const char *section, struct bpfvar_area *out)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(obj, section);
	size_t page = sysconf(_SC_PAGESIZE), bytes;
	void *base;

	if (!map)
		return -ENOENT;
	bytes = (bpf_map__value_size(map) + page - 1) / page * page;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (base == MAP_FAILED)
		return -errno;
	*out = (struct bpfvar_area){obj, section, base, bytes};
	return 0;
}

void bpfvar_unmap(struct bpfvar_area *area)
{
	if (!area || !area->base)
		return;
	munmap(area->base, area->bytes);
	*area = (struct bpfvar_area){};
}

void *bpfvar_in(const struct bpfvar_area *area, const char *name, size_t bytes)
{
	return find_in(area->obj, area->section, name, bytes, area->base, area->bytes);
}
