/* SPDX-License-Identifier: BSD-2-Clause */
#include "perfdata/perfdata_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash(const char *path, uint64_t ino)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ ino;

	while (*path)
		h = (h ^ (unsigned char)*path++) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

/* The slot of a file, or the free one where it belongs. */
static uint32_t *find_slot(const struct perfdata_files *fs, const char *path, uint64_t ino,
			   uint32_t dev_major, uint32_t dev_minor)
{
	size_t i = hash(path, ino) & (fs->n_slots - 1);

	while (fs->slots[i]) {
		const struct perfdata_file *file = &fs->files[fs->slots[i] - 1];

		if (file->ino == ino && file->dev_major == dev_major &&
		    file->dev_minor == dev_minor && !strcmp(file->path, path))
			break;
		i = (i + 1) & (fs->n_slots - 1);
	}
	return &fs->slots[i];
}

/* Keeps the table at most half full. */
static int grow(struct perfdata_files *fs)
{
	size_t n_slots = fs->n_slots ? 2 * fs->n_slots : 64;
	struct perfdata_file *files;
	uint32_t *slots;

	if (fs->n < fs->n_slots / 2)
		return 0;
	files = reallocarray(fs->files, n_slots / 2, sizeof(*files));
	if (!files)
		return -ENOMEM;
	fs->files = files;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(fs->slots);
	fs->slots = slots;
	fs->n_slots = n_slots;
	for (size_t i = 0; i < fs->n; i++)
		*find_slot(fs, files[i].path, files[i].ino, files[i].dev_major,
			   files[i].dev_minor) = (uint32_t)i + 1;
	return 0;
}

int perfdata_files_add(struct perfdata_files *fs, const struct perfdata_map *map, uint32_t pid)
{
	uint32_t *slot;
	char *path;

	if (fs->n >= PERFDATA_FILES_MAX)
		return 0;
	if (grow(fs))
		return -ENOMEM;
	slot = find_slot(fs, map->path, map->ino, map->dev_major, map->dev_minor);
	if (*slot)
		return 0;
	path = strdup(map->path);
	if (!path)
		return -ENOMEM;
	fs->files[fs->n++] = (struct perfdata_file){
		.path = path,
		.ino = map->ino,
		.dev_major = map->dev_major,
		.dev_minor = map->dev_minor,
		.pid = pid,
	};
	*slot = (uint32_t)fs->n;
	return 0;
}

void perfdata_files_release(struct perfdata_files *fs)
{
	for (size_t i = 0; i < fs->n; i++)
		free(fs->files[i].path);
	free(fs->files);
	free(fs->slots);
	*fs = (struct perfdata_files){};
}
