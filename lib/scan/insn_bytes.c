/* SPDX-License-Identifier: BSD-2-Clause */
#include "scan/insn_bytes.h"

#include <stdbool.h>

/* ModRM, SIB and displacement: their length, 0 if truncated. */
static size_t modrm_bytes(const uint8_t *p, size_t n)
{
	size_t len = 1;
	uint8_t mod, rm;

	if (n < 1)
		return 0;
	mod = p[0] >> 6;
	rm = p[0] & 7;
	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (n < 2)
			return 0;
		len++;
		if (mod == 0 && (p[1] & 7) == 5)
			len += 4;
	} else if (mod == 0 && rm == 5) {
		len += 4;
	}
	if (mod == 1)
		len += 1;
	else if (mod == 2)
		len += 4;
	return len <= n ? len : 0;
}

/* Of the 0f opcodes, those with an immediate byte when VEX- or EVEX-encoded. */
static bool vector_imm(uint8_t op)
{
	return (op >= 0x70 && op <= 0x73) || op == 0xc2 || (op >= 0xc4 && op <= 0xc6);
}

size_t insn_bytes(const uint8_t *p, size_t n)
{
	size_t at = 0, len;
	bool imm = false;
	uint8_t map = 0, op;

	if (n > MAX_INSN_BYTES)
		n = MAX_INSN_BYTES;
	while (at < n && (p[at] == 0x66 || p[at] == 0xf2 || p[at] == 0xf3 || p[at] == 0x67 ||
			  p[at] == 0x64 || p[at] == 0x65 || p[at] == 0x2e || p[at] == 0x3e))
		at++;
	if (n - at < 3)
		return 0;

	if (p[at] == 0xc5) {
		map = 1;
		at += 2;
	} else if (p[at] == 0xc4) {
		map = p[at + 1] & 0x1f;
		at += 3;
	} else if (p[at] == 0x62) {
		/* Bit 2 of the third byte is always set in what is defined today. */
		if (p[at + 1] & 8 || !(p[at + 2] & 4))
			return 0;
		map = p[at + 1] & 7;
		at += 4;
	} else {
		if ((p[at] & 0xf0) == 0x40)
			at++;
		if (at + 2 >= n || p[at] != 0x0f)
			return 0;
		at++;
		op = p[at++];
		if (op == 0x38 || op == 0x3a) {
			imm = op == 0x3a;
			at++;
		} else if (op != 0x01 && op != 0xae && op != 0xc7 && op != 0x0d &&
			   (op < 0x18 || op > 0x1f)) {
			return 0;
		}
		goto modrm;
	}

	if (at >= n)
		return 0;
	op = p[at++];
	switch (map) {
	case 1:
		if (op == 0x77)
			return at;
		imm = vector_imm(op);
		break;
	case 2:
	case 5:
	case 6:
		break;
	case 3:
		imm = true;
		break;
	default:
		return 0;
	}
modrm:
	if (at > n)
		return 0;
	len = modrm_bytes(p + at, n - at);
	if (!len)
		return 0;
	at += len + imm;
	return at <= n ? at : 0;
}
