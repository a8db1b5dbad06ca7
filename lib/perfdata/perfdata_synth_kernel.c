/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's part of perfdata_synth. */
#include "base/array.h"
#include "base/procfile.h"
#include "elf/elffile.h"
#include "elf/kallsyms.h"
#include "perfdata/perfdata_synth.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES  1024
#define NOTES_BYTES 65536
#define SYMBOLS_MAX (UINT64_C(16) << 20)

/* The GNU build-id in a file of notes; returns its length, or a negative errno. */
static int read_note(FILE *f, uint8_t *id, size_t bytes)
{
	unsigned char *notes = malloc(NOTES_BYTES);
	size_t len, at = 0;
	int result = -ENODATA;

	if (!notes)
		return -ENOMEM;
	len = fread(notes, 1, NOTES_BYTES, f);
	while (len - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr h;
		size_t name, desc;

		memcpy(&h, notes + at, sizeof(h));
		at += sizeof(h);
		name = ((size_t)h.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)h.n_descsz + 3) & ~(size_t)3;
		if (name > len - at || desc > len - at - name)
			break;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == sizeof("GNU") &&
		    !memcmp(notes + at, "GNU", sizeof("GNU")) && h.n_descsz <= bytes) {
			memcpy(id, notes + at + name, h.n_descsz);
			result = (int)h.n_descsz;
			break;
		}
		at += name + desc;
	}
	free(notes);
	return result;
}

/* Not having one is no error. */
static int add_note(struct perfdata *pd, FILE *f, const char *path)
{
	uint8_t id[ELFFILE_BUILD_ID_MAX];
	int n;

	if (!f)
		return 0;
	n = read_note(f, id, sizeof(id));
	fclose(f);
	if (n > 0)
		return perfdata_build_id(pd, true, path, id, (size_t)n);
	return n == -ENOMEM ? n : 0;
}

static int add_modules(struct perfdata *pd, const char *procfs, const char *sysfs)
{
	unsigned long long bytes, start;
	char line[LINE_BYTES], name[64], path[80];
	int err = 0, open_err;
	FILE *f = procfile_open(&open_err, "%s/modules", procfs);

	/* a kernel without modules has no such file */
	if (!f)
		return open_err == -ENOENT ? 0 : open_err;
	while (!err && procfile_line(f, line, sizeof(line))) {
		if (sscanf(line, "%55s %llu %*s %*s %*s 0x%llx", name, &bytes, &start) != 3 ||
		    !start || !bytes || strchr(name, '/'))
			continue;
		snprintf(path, sizeof(path), "[%s]", name);
		err = perfdata_module(pd, start, bytes, path);
		if (err)
			break;
		err = add_note(pd,
			       procfile_open(&open_err, "%s/module/%s/notes/.note.gnu.build-id",
					     sysfs, name),
			       path);
	}
	fclose(f);
	return err;
}

/* --- symbols --- */

struct bpf_symbol {
	uint64_t addr;
	char name[128];
};

struct symbols {
	uint64_t text, etext; /* 0: hidden, or not there */
	char text_name[8];    /* "_text" or "_stext", "" for neither */
	/* All addresses, since the next one is where a BPF program ends at the latest. */
	uint64_t *addrs;
	struct bpf_symbol *bpf;
	size_t n, room, n_bpf, bpf_room;
};

/* perf asks for _text first, and the kernel lists both at one address in no certain order. */
static void note_text(struct symbols *s, uint64_t addr, const char *name)
{
	if (!strcmp(name, "_text") || (!strcmp(name, "_stext") && !s->text_name[0])) {
		s->text = addr;
		memcpy(s->text_name, name, strlen(name) + 1);
	} else if (!strcmp(name, "_etext")) {
		s->etext = addr;
	}
}

static int add_symbol(struct symbols *s, const char *line)
{
	struct bpf_symbol *bpf;
	unsigned long long addr;
	char name[128], module[64];
	int fields = sscanf(line, "%16llx %*c %127s [%63[^]]", &addr, name, module);

	if (fields < 2)
		return 0;
	if (fields == 2)
		note_text(s, addr, name);
	if (s->n >= SYMBOLS_MAX || array_room(&s->addrs, &s->room, s->n + 1, sizeof(*s->addrs)))
		return -ENOMEM;
	s->addrs[s->n++] = addr;
	if (fields == 2 || !addr || strcmp(module, "bpf") != 0)
		return 0;
	if (array_room(&s->bpf, &s->bpf_room, s->n_bpf + 1, sizeof(*s->bpf)))
		return -ENOMEM;
	bpf = &s->bpf[s->n_bpf++];
	bpf->addr = addr;
	memcpy(bpf->name, name, sizeof(name));
	return 0;
}

static int read_symbols(struct symbols *s, const char *procfs)
{
	char line[LINE_BYTES];
	int err;
	FILE *f = procfile_open(&err, "%s/kallsyms", procfs);

	if (!f)
		return err;
	while (!err && procfile_line(f, line, sizeof(line)))
		err = add_symbol(s, line);
	fclose(f);
	if (err)
		return err;
	if (!s->text_name[0])
		return -ENODATA;
	if (!s->text)
		return -EPERM;
	return s->etext > s->text ? 0 : -ENODATA;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* How far it is from addr to the next symbol, as far as a function may reach. */
static uint32_t distance(const struct symbols *s, uint64_t addr)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->addrs[mid] <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == s->n || s->addrs[low] - addr > KALLSYMS_MAX_BYTES)
		return KALLSYMS_MAX_BYTES;
	return (uint32_t)(s->addrs[low] - addr);
}

static int add_bpf(struct perfdata *pd, struct symbols *s)
{
	int err = 0;

	if (s->n_bpf)
		qsort(s->addrs, s->n, sizeof(*s->addrs), compare);
	for (size_t i = 0; i < s->n_bpf && !err; i++)
		err = perfdata_bpf(pd, s->bpf[i].addr, distance(s, s->bpf[i].addr), s->bpf[i].name);
	return err;
}

int perfdata_synth_kernel(struct perfdata *pd, const char *procfs, const char *sysfs)
{
	struct symbols s = {};
	int err, open_err;

	err = read_symbols(&s, procfs);
	if (!err)
		err = perfdata_kernel(pd, s.text, s.etext - s.text, s.text_name, s.text);
	if (!err)
		err = add_note(pd, procfile_open(&open_err, "%s/kernel/notes", sysfs),
			       PERFDATA_KERNEL_PATH);
	if (!err)
		err = add_modules(pd, procfs, sysfs);
	if (!err)
		err = add_bpf(pd, &s);
	free(s.addrs);
	free(s.bpf);
	return err;
}
