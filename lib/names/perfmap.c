/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/perfmap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "names/codemap.h"

/* One read; longer than any line that is taken whole. */
#define CHUNK_BYTES 65536u
/* Two numbers of 16 digits with 0x and blanks, then a name that is certain to be too long. */
#define LINE_BYTES (2 * (2 + 16 + 1) + PERFMAP_MAX_NAME + 1)

struct perfmap {
	struct codemap *code;
	dev_t dev;
	ino_t ino;
	off_t size;	 /* when it was last looked at */
	uint64_t offset; /* of the first byte that was not yet taken */
	bool in_long;	 /* which is inside a line that was too long */
	uint64_t skipped, cut;
};

struct perfmap *perfmap_new(void)
{
	struct perfmap *pm = calloc(1, sizeof(*pm));

	if (!pm)
		return NULL;
	pm->code = codemap_new();
	if (!pm->code) {
		free(pm);
		return NULL;
	}
	return pm;
}

void perfmap_free(struct perfmap *pm)
{
	if (!pm)
		return;
	codemap_free(pm->code);
	free(pm);
}

/* Hexadecimal digits, 0x before them or not, and the blank behind; moves *s beyond that. */
static bool parse_hex(const char **s, const char *end, uint64_t *out)
{
	const char *p = *s;
	int digits = 0;
	uint64_t v = 0;

	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (; p < end; p++, digits++) {
		unsigned int d;

		if (*p >= '0' && *p <= '9')
			d = (unsigned int)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			d = (unsigned int)(*p - 'a' + 10);
		else if (*p >= 'A' && *p <= 'F')
			d = (unsigned int)(*p - 'A' + 10);
		else
			break;
		if (digits == 16)
			return false;
		v = v << 4 | d;
	}
	if (!digits || p == end || *p != ' ')
		return false;
	*s = p + 1;
	*out = v;
	return true;
}

/* One line without its newline. Only a limit or memory is an error. */
static int take_line(struct perfmap *pm, const char *line, size_t len)
{
	const char *end = line + len;
	uint64_t start, size;
	int err = -EINVAL;

	if (!memchr(line, 0, len) && parse_hex(&line, end, &start) &&
	    parse_hex(&line, end, &size) && line < end) {
		len = (size_t)(end - line);
		if (len > PERFMAP_MAX_NAME) {
			len = PERFMAP_MAX_NAME;
			pm->cut++;
		}
		err = codemap_add(pm->code, start, size, 0, line, len);
	}
	if (err != -EINVAL)
		return err;
	pm->skipped++;
	return 0;
}

/*
 * Takes the lines in buf; *used is how much of it is done with. A line that fills the buffer
 * without an end is taken for what is there, and the rest of it passed over as it comes.
 */
static int take_lines(struct perfmap *pm, const char *buf, size_t len, size_t *used)
{
	int err = 0;

	*used = 0;
	while (!err && *used < len) {
		const char *line = buf + *used;
		const char *newline = memchr(line, '\n', len - *used);
		size_t line_len = newline ? (size_t)(newline - line) : len - *used;

		if (!newline && !pm->in_long && line_len < LINE_BYTES)
			break;
		if (!pm->in_long)
			err = take_line(pm, line, line_len);
		if (err)
			break;
		pm->in_long = !newline;
		*used += line_len + (newline ? 1 : 0);
	}
	return err;
}

static int read_new(struct perfmap *pm, int fd)
{
	char *buf = malloc(CHUNK_BYTES);
	int err = buf ? 0 : -ENOMEM;

	while (!err) {
		size_t want = CHUNK_BYTES, used;
		ssize_t n;

		if (want > PERFMAP_MAX_BYTES - pm->offset)
			want = (size_t)(PERFMAP_MAX_BYTES - pm->offset);
		n = pread(fd, buf, want, (off_t)pm->offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		err = take_lines(pm, buf, (size_t)n, &used);
		pm->offset += used;
		/* an incomplete line at the end of the file */
		if (!used)
			break;
	}
	free(buf);
	return err;
}

static void forget(struct perfmap *pm)
{
	codemap_clear(pm->code);
	pm->offset = 0;
	pm->in_long = false;
	pm->skipped = 0;
	pm->cut = 0;
}

int perfmap_update(struct perfmap *pm, int fd)
{
	int err, index_err;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_dev != pm->dev || st.st_ino != pm->ino || st.st_size < pm->size)
		forget(pm);
	pm->dev = st.st_dev;
	pm->ino = st.st_ino;
	pm->size = st.st_size;
	err = read_new(pm, fd);
	if (!err && (uint64_t)st.st_size > PERFMAP_MAX_BYTES)
		err = -EFBIG;
	index_err = codemap_index(pm->code);
	return err ? err : index_err;
}

const char *perfmap_lookup(const struct perfmap *pm, uint64_t addr)
{
	return codemap_lookup(pm->code, addr, UINT64_MAX);
}

size_t perfmap_count(const struct perfmap *pm)
{
	return codemap_count(pm->code);
}

uint64_t perfmap_skipped(const struct perfmap *pm)
{
	return pm->skipped;
}

uint64_t perfmap_cut(const struct perfmap *pm)
{
	return pm->cut;
}
