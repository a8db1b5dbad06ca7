/* SPDX-License-Identifier: BSD-2-Clause */
#include "perfdata/perfdata_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint32_t hash(const struct table *t, const struct perfdata_map *map)
{
	struct siphash h = table_hasher(t);

	siphash_word(&h, map->ino);
	siphash_word(&h, (uint64_t)map->dev_major << 32 | map->dev_minor);
	return (uint32_t)siphash_end(&h, map->path, strlen(map->path));
}

static bool has(const struct perfdata_files *fs, const struct perfdata_map *map)
{
	struct table_walk at = table_walk(&fs->table, hash(&fs->table, map));
	uint32_t i;

	while (table_next(&at, &i)) {
		const struct perfdata_file *file = &fs->files[i];

		if (file->ino == map->ino && file->dev_major == map->dev_major &&
		    file->dev_minor == map->dev_minor && !strcmp(file->path, map->path))
			return true;
	}
	return false;
}

void perfdata_files_init(struct perfdata_files *fs)
{
	*fs = (struct perfdata_files){};
	table_init(&fs->table);
}

int perfdata_files_add(struct perfdata_files *fs, const struct perfdata_map *map, uint32_t pid)
{
	char *path;

	if (fs->n >= PERFDATA_FILES_MAX || has(fs, map))
		return 0;
	if (table_reserve(&fs->table) ||
	    array_room(&fs->files, &fs->room, fs->n + 1, sizeof(*fs->files)))
		return -ENOMEM;
	path = strdup(map->path);
	if (!path)
		return -ENOMEM;
	table_add(&fs->table, hash(&fs->table, map), (uint32_t)fs->n);
	fs->files[fs->n++] = (struct perfdata_file){
		.path = path,
		.ino = map->ino,
		.dev_major = map->dev_major,
		.dev_minor = map->dev_minor,
		.pid = pid,
	};
	return 0;
}

void perfdata_files_release(struct perfdata_files *fs)
{
	for (size_t i = 0; i < fs->n; i++)
		free(fs->files[i].path);
	free(fs->files);
	table_release(&fs->table);
	*fs = (struct perfdata_files){};
}
