/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/nopsite.h"

#include <elf.h>
#include <string.h>

#define ENDBR64_BYTES 4

static bool is_prefix(uint8_t byte)
{
	return memchr("\x66\x67\xf2\xf3\xf0\x2e\x36\x3e\x26\x64\x65", byte, 11) != NULL;
}

/* The bytes of a ModRM byte and what belongs to it; 0 where they are not all there. */
static size_t modrm_bytes(const uint8_t *code, size_t n)
{
	static const size_t disp_bytes[] = {0, 1, 4, 0};
	size_t bytes = 1;
	uint8_t mod, rm;

	if (!n)
		return 0;
	mod = code[0] >> 6;
	rm = code[0] & 7;
	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (n < 2)
			return 0;
		bytes++;
		if (!mod && (code[1] & 7) == 5)
			bytes += 4; /* no base, and a displacement */
	} else if (!mod && rm == 5) {
		bytes += 4; /* relative to the instruction */
	}
	return bytes + disp_bytes[mod];
}

bool nopsite_is_nop5(const uint8_t *code, size_t n)
{
	size_t at = 0, operands;

	if (n < NOPSITE_BYTES)
		return false;
	while (at < NOPSITE_BYTES && is_prefix(code[at]))
		at++;
	if (at < NOPSITE_BYTES && (code[at] & 0xf0) == 0x40)
		at++; /* REX */
	if (at < NOPSITE_BYTES && code[at] == 0x90)
		return at + 1 == NOPSITE_BYTES;
	if (at + 2 >= NOPSITE_BYTES || code[at] != 0x0f || code[at + 1] != 0x1f)
		return false;
	at += 2;
	operands = modrm_bytes(code + at, NOPSITE_BYTES - at);
	return operands && at + operands == NOPSITE_BYTES;
}

static bool is_split_off(const char *name)
{
	const char *cold = strstr(name, ".cold");

	return cold && (!cold[5] || cold[5] == '.');
}

static bool begins_function(const struct elffile *elf, uint64_t vaddr)
{
	static const uint8_t endbr64[ENDBR64_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa};
	const struct elf_symbol *sym = elffile_symbol_at(elf, vaddr);
	uint8_t code[ENDBR64_BYTES];

	/* A mere label may be anywhere. */
	if (!sym || (sym->type != STT_FUNC && sym->type != STT_GNU_IFUNC) ||
	    is_split_off(sym->name))
		return false;
	if (sym->addr == vaddr)
		return true;
	return vaddr - sym->addr == ENDBR64_BYTES &&
	       elffile_read(elf, sym->addr, code, sizeof(code)) == sizeof(code) &&
	       !memcmp(code, endbr64, sizeof(code));
}

bool nopsite_may_harm(const struct elffile *elf, uint64_t vaddr, uint8_t insn[NOPSITE_BYTES])
{
	uint8_t code[NOPSITE_BYTES];

	if (elffile_machine(elf) != EM_X86_64 ||
	    elffile_read(elf, vaddr, code, sizeof(code)) != sizeof(code) ||
	    !nopsite_is_nop5(code, sizeof(code)) || begins_function(elf, vaddr))
		return false;
	memcpy(insn, code, sizeof(code));
	return true;
}
