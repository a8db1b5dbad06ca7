/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/objectvars.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/nearest.h"
#include "base/strbuf.h"
#include "kernel/setvalue.h"

struct var {
	const char *name;
	const char *section;
	uint32_t type;
	uint32_t offset, bytes;
};

/* The next variable of the object's sections of data; *section and *i are where it goes on. */
static bool next_var(const struct btf *btf, uint32_t *section, uint32_t *i, struct var *out)
{
	for (; *section < btf__type_cnt(btf); (*section)++, *i = 0) {
		const struct btf_type *sec = btf__type_by_id(btf, *section);
		const struct btf_var_secinfo *info;
		const struct btf_type *var;
		const char *name;

		if (btf_kind(sec) != BTF_KIND_DATASEC || *i >= btf_vlen(sec))
			continue;
		name = btf__name_by_offset(btf, sec->name_off);
		if (strncmp(name, ".rodata", 7) && strncmp(name, ".data", 5) &&
		    strncmp(name, ".bss", 4))
			continue;
		info = btf_var_secinfos(sec) + (*i)++;
		var = btf__type_by_id(btf, info->type);
		*out = (struct var){
			.name = btf__name_by_offset(btf, var->name_off),
			.section = name,
			.type = var->type,
			.offset = info->offset,
			.bytes = info->size,
		};
		return true;
	}
	return false;
}

static bool find_var(const struct btf *btf, const char *name, struct var *out)
{
	uint32_t section = 1, i = 0;

	while (next_var(btf, &section, &i, out))
		if (!strcmp(out->name, name))
			return true;
	return false;
}

static int refuse_unknown(const struct btf *btf, const char *name, const char *ours,
			  struct failure *f)
{
	struct strbuf near = {}, all = {};
	uint32_t section = 1, i = 0;
	struct var var;
	int err;

	while (next_var(btf, &section, &i, &var)) {
		size_t limit = strlen(name) < 6 ? 1 : strlen(name) < 12 ? 2 : 3;

		if (!strncmp(var.name, ours, strlen(ours)))
			continue;
		if (nearest_distance(name, var.name) <= limit)
			sb_addf(&near, "%s%s", near.len ? ", " : "", var.name);
		if (all.len < 512)
			sb_addf(&all, "%s%s", all.len ? ", " : "", var.name);
	}
	if (near.len)
		err = failure_set(f, EXIT_WRONG_USAGE, -ENOENT,
				  "--set: the object has no variable '%s'; nearest: %s", name,
				  near.s);
	else
		err = failure_set(f, EXIT_WRONG_USAGE, -ENOENT,
				  "--set: the object has no variable '%s'; it has %s", name,
				  all.len ? all.s : "none at all");
	sb_release(&near);
	sb_release(&all);
	return err;
}

/* How a value of this type is typed. False: not at all. */
static bool type_of(const struct btf *btf, uint32_t id, enum setvalue_type *out)
{
	int resolved = btf__resolve_type(btf, id);
	const struct btf_type *t = resolved > 0 ? btf__type_by_id(btf, resolved) : NULL;

	if (!t)
		return false;
	if (btf_is_int(t)) {
		uint8_t how = btf_int_encoding(t);

		*out = how & BTF_INT_BOOL     ? SETVALUE_BOOL
		       : how & BTF_INT_SIGNED ? SETVALUE_SIGNED
					      : SETVALUE_UNSIGNED;
		return true;
	}
	if (btf_is_any_enum(t)) {
		*out = btf_kflag(t) ? SETVALUE_SIGNED : SETVALUE_UNSIGNED;
		return true;
	}
	if (btf_is_array(t)) {
		int of = btf__resolve_type(btf, btf_array(t)->type);
		const struct btf_type *e = of > 0 ? btf__type_by_id(btf, of) : NULL;

		*out = SETVALUE_CHARS;
		return e && btf_is_int(e) && e->size == 1;
	}
	return false;
}

static int set_var(struct bpf_object *obj, const struct btf *btf, const struct var *var,
		   const char *value, struct failure *f)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, var->section);
	char why[SETVALUE_WHY_BYTES];
	enum setvalue_type type;
	size_t room = 0;
	char *base = map ? (char *)bpf_map__initial_value(map, &room) : NULL;
	int err;

	if (!base || var->offset > room || room - var->offset < var->bytes)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--set: variable '%s' is in a section that can't be set",
				   var->name);
	if (!type_of(btf, var->type, &type))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--set: variable '%s' is no number, bool or array of chars",
				   var->name);
	err = setvalue_parse(value, type, var->bytes, base + var->offset, why);
	if (err)
		return failure_set(f, EXIT_WRONG_USAGE, err, "--set %s: %s", var->name, why);
	return 0;
}

int objectvars_set(struct bpf_object *obj, const char *assignment, const char *ours,
		   struct failure *f)
{
	const struct btf *btf = bpf_object__btf(obj);
	const char *value = strchr(assignment, '=');
	char name[128];
	struct var var;

	if (!value || value == assignment || (size_t)(value - assignment) >= sizeof(name))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--set: '%.128s' is not NAME=VALUE", assignment);
	snprintf(name, sizeof(name), "%.*s", (int)(value - assignment), assignment);
	if (!btf || !strncmp(name, ours, strlen(ours)) || !find_var(btf, name, &var))
		return refuse_unknown(btf, name, ours, f);
	return set_var(obj, btf, &var, value + 1, f);
}
