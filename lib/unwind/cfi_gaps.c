/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_gaps.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t prologue[] = {0x55, 0x48, 0x89, 0xe5};

struct gaps {
	const struct elffile *elf;
	uint8_t *piece;
	uint32_t fp;
	struct cfi_rows *out;
	uint64_t bytes;
	uint64_t left; /* to read */
};

static uint64_t count_in(const uint8_t *at, size_t n)
{
	uint64_t count = 0;

	while (n >= sizeof(prologue)) {
		const uint8_t *next = memchr(at, prologue[0], n - sizeof(prologue) + 1);

		if (!next)
			break;
		count += !memcmp(next, prologue, sizeof(prologue));
		n -= (size_t)(next + 1 - at);
		at = next + 1;
	}
	return count;
}

/* Prologues and bytes of a gap, or of a sample of it. What can't be read has none. */
static void sample(const struct gaps *g, uint64_t start, uint64_t end, uint64_t *count,
		   uint64_t *bytes)
{
	uint64_t size = end - start, step = CFI_GAP_PIECE_BYTES;

	if (size / CFI_GAP_PIECES > step)
		step = size / CFI_GAP_PIECES;
	*count = *bytes = 0;
	for (uint64_t at = start; at < end && end - at >= sizeof(prologue);
	     at = step < end - at ? at + step : end) {
		uint64_t n = end - at < CFI_GAP_PIECE_BYTES ? end - at : CFI_GAP_PIECE_BYTES;
		long got = elffile_read(g->elf, at, g->piece, n);

		if (got > 0)
			*count += count_in(g->piece, (size_t)got);
		*bytes += n;
	}
}

static void look_at(struct gaps *g, uint64_t start, uint64_t end)
{
	uint64_t count, bytes;

	if (end <= start || end - start < CFI_GAP_MIN || !g->left)
		return;
	sample(g, start, end, &count, &bytes);
	if (bytes > g->left) {
		g->left = 0;
		return;
	}
	g->left -= bytes;
	if (count < CFI_GAP_PROLOGUES_MIN || count < bytes / CFI_GAP_BYTES_A_PROLOGUE)
		return;
	g->bytes += end - start;
	cfi_rows_add(g->out, start, g->fp);
	cfi_rows_add(g->out, end, 0);
}

int cfi_gaps_read(const struct elffile *elf, const struct cfi_range *code, size_t n_code,
		  const struct cfi_rows *rows, uint32_t fp, struct cfi_rows *out, uint64_t *bytes)
{
	struct gaps g = {.elf = elf, .fp = fp, .out = out, .left = CFI_GAP_BYTES_MAX};
	size_t row = 0;

	if (elffile_machine(elf) != EM_X86_64 ||
	    elffile_segments(elf, PT_LOAD, NULL, 0) > CFI_GAP_SEGMENTS_MAX)
		return 0;
	g.piece = malloc(CFI_GAP_PIECE_BYTES);
	if (!g.piece)
		return -ENOMEM;
	for (size_t i = 0; i < n_code; i++) {
		uint64_t at = code[i].start;

		/* rows up to this one hold from below `at` on */
		while (row < rows->n && rows->rows[row].vaddr <= at)
			row++;
		while (at < code[i].end) {
			uint64_t next = row < rows->n && rows->rows[row].vaddr < code[i].end
						? rows->rows[row].vaddr
						: code[i].end;

			if (!row || !rows->rows[row - 1].rule)
				look_at(&g, at, next);
			at = next;
			row += at < code[i].end;
		}
	}
	free(g.piece);
	*bytes += g.bytes;
	return out->err;
}
