/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cfimake.h"
#include "unwind/cfi_program.h"

/* An FDE at 0x1000 to 0x1010 with its addresses in this encoding. */
static void put_encoded(struct cfimake *m, uint8_t encoding)
{
	uint64_t base = (encoding & 0x70) == DW_EH_PE_pcrel ? m->vaddr + m->n + 8 : 0;
	uint64_t start = 0x1000 - base;

	begin(m, false);
	if (encoding == DW_EH_PE_aligned)
		while ((m->vaddr + m->n) & 7)
			put(m, 0xcc, 1);
	switch (encoding & 0x0f) {
	case DW_EH_PE_uleb128:
		put_uleb(m, start);
		put_uleb(m, 0x10);
		break;
	case DW_EH_PE_sleb128:
		put_sleb(m, (int64_t)start);
		put_sleb(m, 0x10);
		break;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		put(m, start, 2);
		put(m, 0x10, 2);
		break;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		put(m, start, 4);
		put(m, 0x10, 4);
		break;
	default:
		put(m, start, 8);
		put(m, 0x10, 8);
		break;
	}
	put_uleb(m, 0);
	end(m);
}

static void begin_encoded(struct cfimake *m, uint8_t encoding)
{
	cfimake_init(m);
	begin_cie(m, "zR", encoding);
	put_bytes(m, "\x0c\x07\x08\x90\x01", 5);
	end(m);
}

static void test_encodings(void **state)
{
	static const uint8_t known[] = {
		DW_EH_PE_absptr,
		DW_EH_PE_uleb128,
		DW_EH_PE_udata2,
		DW_EH_PE_udata4,
		DW_EH_PE_udata8,
		DW_EH_PE_signed,
		DW_EH_PE_sleb128,
		DW_EH_PE_sdata2,
		DW_EH_PE_sdata4,
		DW_EH_PE_sdata8,
		DW_EH_PE_aligned,
		DW_EH_PE_pcrel,
		DW_EH_PE_pcrel | DW_EH_PE_sdata4,
		DW_EH_PE_pcrel | DW_EH_PE_sdata8,
		DW_EH_PE_pcrel | DW_EH_PE_udata8,
		DW_EH_PE_pcrel | DW_EH_PE_sleb128,
	};
	struct cfi_counts counts;
	struct cfimake m;

	(void)state;
	for (size_t i = 0; i < sizeof(known); i++) {
		begin_encoded(&m, known[i]);
		put_encoded(&m, known[i]);
		expect(&m, "1000 r7+8 c-8; 1010 none", &counts);
		assert_int_equal(counts.fdes, 1);
	}
	/* 64 KiB before the section's end is no address of two bytes */
	begin_encoded(&m, DW_EH_PE_pcrel | DW_EH_PE_sdata2);
	m.vaddr = 0x1800;
	put_encoded(&m, DW_EH_PE_pcrel | DW_EH_PE_sdata2);
	expect(&m, "1000 r7+8 c-8; 1010 none", NULL);
}

static void test_encodings_refused(void **state)
{
	static const struct {
		uint8_t encoding;
		bool unsupported;
	} table[] = {
		{DW_EH_PE_textrel | DW_EH_PE_udata4, true},
		{DW_EH_PE_datarel | DW_EH_PE_sdata4, true},
		{DW_EH_PE_funcrel | DW_EH_PE_sdata4, true},
		{DW_EH_PE_indirect | DW_EH_PE_absptr, true},
		{DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4, true},
		{DW_EH_PE_omit, false},
		{0x05, false},
		{0x0d, false},
	};
	struct cfi_counts counts;
	struct cfimake m;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		begin_encoded(&m, table[i].encoding);
		put_encoded(&m, table[i].encoding & 0x0f);
		usual_cie(&m, "zR");
		whole_fde(&m, 0x2000, 0x10);
		expect(&m, "2000 r7+8 c-8; 2010 none", &counts);
		assert_int_equal(counts.fdes, 1);
		assert_int_equal(counts.unsupported, table[i].unsupported);
		assert_int_equal(counts.malformed, !table[i].unsupported);
	}
}

static void test_datarel(void **state)
{
	static const uint8_t bytes[] = {0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0};
	uint64_t value = 1;
	struct dwread r;

	(void)state;
	dwread_init(&r, bytes, sizeof(bytes));
	assert_int_equal(cfi_pointer_read(&r, DW_EH_PE_datarel | DW_EH_PE_sdata4, 0, 0x100, &value),
			 0);
	assert_int_equal(value, 0xfc);
	/* null is null, wherever it is */
	assert_int_equal(cfi_pointer_read(&r, DW_EH_PE_datarel | DW_EH_PE_sdata4, 0, 0x100, &value),
			 0);
	assert_int_equal(value, 0);
	assert_int_equal(cfi_pointer_read(&r, DW_EH_PE_udata2, 0, 0x100, &value), -EBADMSG);
}

struct cie_kind {
	const char *letters;
	uint8_t version;
	const char *data; /* of the augmentation */
	size_t n;
	const char *rows;
};

#define GOOD "1000 r7+8 c-8; 1010 none; 2000 r7+8 c-8; 2010 none"
#define BAD  "2000 r7+8 c-8; 2010 none"

static void put_kind(struct cfimake *m, const struct cie_kind *k)
{
	begin(m, true);
	put(m, k->version, 1);
	put_bytes(m, k->letters, strlen(k->letters) + 1);
	if (!strcmp(k->letters, "eh"))
		put(m, 0x1122334455667788, 8);
	if (k->version == 4)
		put(m, 8, 2);
	put_uleb(m, 1);
	put_sleb(m, -8);
	if (k->version == 1)
		put(m, 16, 1);
	else
		put_bytes(m, "\x90\x80\x00", 3); /* 16, in a long form */
	if (k->letters[0] == 'z') {
		put_uleb(m, k->n);
		put_bytes(m, k->data, k->n);
	}
	put_bytes(m, "\x0c\x07\x08\x90\x01", 5);
	end(m);
	begin(m, false);
	put(m, 0x1000, 8);
	put(m, 0x10, 8);
	if (k->letters[0] == 'z')
		put_bytes(m, "\x03\x0e\x10\x17", 4); /* not to be run */
	end(m);
}

static void test_cies(void **state)
{
	static const struct cie_kind kinds[] = {
		{"", 1, "", 0, GOOD},
		{"", 3, "", 0, GOOD},
		{"", 4, "", 0, GOOD},
		{"eh", 1, "", 0, GOOD},
		{"z", 1, "", 0, GOOD},
		{"z", 1, "\x00\x01", 2, GOOD},
		{"zR", 1, "\x00", 1, GOOD},
		{"zRB", 1, "\x00", 1, GOOD},
		{"zRG", 3, "\x00", 1, GOOD},
		{"zLR", 1, "\x1b\x00", 2, GOOD},
		{"zPLR", 1, "\x03\x01\x02\x03\x04\x1b\x00", 7, GOOD},
		{"zPLR", 1, "\x9b\x01\x02\x03\x04\x1b\x00", 7, GOOD},
		{"zPR", 1, "\x09\x81\x80\x01\x00", 5, GOOD},
		/* what is behind an unknown letter is skipped; addresses stay as they are */
		{"zX", 1, "\x0b\x0b", 2, GOOD},
		{"zRX", 1, "\x00\x0b", 2, GOOD},
		{"zXR", 1, "\x0b\x0b", 2, GOOD},
		/* without a length nothing is known of what follows */
		{"X", 1, "", 0, BAD},
		{"R", 1, "", 0, BAD},
		{"ehX", 1, "", 0, BAD},
		{"", 0, "", 0, BAD},
		{"", 2, "", 0, BAD},
		{"", 5, "", 0, BAD},
		{"zR", 1, "", 0, BAD},
		{"zPR", 1, "\x0d\x01\x02\x03\x04\x00", 6, BAD},
		{"zPR", 1, "\x04\x01\x02\x03\x04\x00", 6, BAD},
	};
	struct cfi_counts counts;
	struct cfimake m;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		cfimake_init(&m);
		put_kind(&m, &kinds[i]);
		usual_cie(&m, "zR");
		whole_fde(&m, 0x2000, 0x10);
		expect(&m, kinds[i].rows, &counts);
		assert_int_equal(counts.malformed, !strcmp(kinds[i].rows, BAD));
		assert_int_equal(counts.cies, 2);
	}
}

/* An address of four bytes, a segment selector, a return address in another column. */
static void test_cies_refused(void **state)
{
	static const char *const fields[] = {"\x04\x00\x01\x78\x10", "\x08\x04\x01\x78\x10",
					     "\x08\x00\x01\x78\x11"};
	struct cfimake m;

	(void)state;
	for (int i = 0; i < 3; i++) {
		cfimake_init(&m);
		begin(&m, true);
		put_bytes(&m, "\x04\x00", 2);
		put_bytes(&m, fields[i], 5);
		put_bytes(&m, "\x0c\x07\x08\x90\x01", 5);
		end(&m);
		begin(&m, false);
		put(&m, 0x1000, 8);
		put(&m, 0x10, 8);
		end(&m);
		usual_cie(&m, "zR");
		whole_fde(&m, 0x2000, 0x10);
		expect(&m, i < 2 ? BAD : "1000 unsupported; 1010 none; 2000 r7+8 c-8; 2010 none",
		       NULL);
	}
}

static void test_debug_frame(void **state)
{
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	m.is_eh = false;
	usual_cie(&m, "");
	begin(&m, false);
	put(&m, 0x1000, 8);
	put(&m, 0x10, 8);
	put_bytes(&m, "\x44\x0e\x10", 3);
	end(&m);
	expect(&m, "1000 r7+8 c-8; 1004 r7+16 c-8; 1010 none", NULL);
}

/* The 64-bit form: the id has four bytes in .eh_frame, eight in .debug_frame. */
static void test_wide(void **state)
{
	struct cfimake m;

	(void)state;
	for (int eh = 0; eh < 2; eh++) {
		cfimake_init(&m);
		m.is_eh = eh;
		usual_cie(&m, "");
		put(&m, UINT32_MAX, 4);
		put(&m, eh ? 4 + 16 + 3 : 8 + 16 + 3, 8);
		put(&m, eh ? m.n - m.cie : m.cie, eh ? 4 : 8);
		put(&m, 0x1000, 8);
		put(&m, 0x10, 8);
		put_bytes(&m, "\x44\x0e\x10", 3);
		expect(&m, "1000 r7+8 c-8; 1004 r7+16 c-8; 1010 none", NULL);
	}
	/* a wide CIE */
	cfimake_init(&m);
	m.is_eh = false;
	put(&m, UINT32_MAX, 4);
	put(&m, 8 + 5 + 5, 8);
	put(&m, UINT64_MAX, 8);
	put_bytes(&m, "\x03\x00\x01\x78\x10\x0c\x07\x08\x90\x01", 10);
	begin(&m, false);
	put(&m, 0x1000, 8);
	put(&m, 0x10, 8);
	end(&m);
	expect(&m, "1000 r7+8 c-8; 1010 none", NULL);
}

/* Entries that refer to themselves, to FDEs, behind the end, or end too early. */
static void test_hostile_entries(void **state)
{
	struct cfi_counts counts;
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	for (int i = 0; i < 6; i++) {
		size_t own = m.n, fde;

		whole_fde(&m, 0x1000, 0x10);
		fde = own + 4;			      /* its id */
		m.bytes[fde] = (uint8_t)(i == 0	  ? 4 /* itself */
					 : i == 1 ? fde + 1
					 : i == 2 ? fde - own - 1
					 : i == 3 ? fde - 2
					 : i == 4 ? 1
						  : 0xff);
		m.bytes[fde + 3] = i == 5 ? 0xff : 0;
	}
	begin(&m, false); /* no room for an address */
	put(&m, 0, 3);
	end(&m);
	put(&m, 2, 4); /* none for an id */
	put(&m, 0x1234, 2);
	usual_cie(&m, "zR");
	whole_fde(&m, 0x2000, 0x10);
	put(&m, 0x100, 4); /* behind the end */
	put(&m, 0, 4);
	expect(&m, BAD, &counts);
	assert_int_equal(counts.fdes, 1);
	assert_int_equal(counts.malformed, 9);
	assert_int_equal(counts.cies, 2);
	/* every length that a section can be cut to */
	for (size_t cut = 0; cut < 70; cut++) {
		struct cfi_section section;
		struct cfi_table t = {};
		uint8_t *exact;

		cfimake_init(&m);
		usual_cie(&m, "zR");
		whole_fde(&m, 0x1000, 0x10);
		section = cfimake_section(&m);
		if (cut > section.n)
			cut = 1000;
		section.n -= cut < section.n ? cut : section.n;
		exact = malloc(section.n ? section.n : 1);
		assert_non_null(exact);
		memcpy(exact, m.bytes, section.n);
		section.bytes = exact;
		assert_int_equal(cfi_compile_bytes(&section, &t), cut ? -ENOENT : 0);
		cfi_table_release(&t);
		free(exact);
		cfimake_release(&m);
	}
}

static void test_zero_length(void **state)
{
	struct cfi_section section;
	struct cfi_table t = {};
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	whole_fde(&m, 0x1000, 0x10);
	put(&m, 0, 4);
	usual_cie(&m, "zR");
	whole_fde(&m, 0x2000, 0x10);
	section = cfimake_section(&m);
	section.to_zero = true;
	assert_int_equal(cfi_compile_bytes(&section, &t), 0);
	assert_int_equal(t.end, 0x1010);
	cfi_table_release(&t);
	expect(&m, GOOD, NULL);
}

static void test_overlaps(void **state)
{
	struct cfi_counts counts;
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	begin_fde(&m, 0x1040, 0x40); /* its first half is another's */
	put_bytes(&m, "\x0e\x30\x60\x0e\x38\x48\x0e\x40", 8);
	end(&m);
	begin_fde(&m, 0x1000, 0x64);
	put_bytes(&m, "\x0e\x10", 2);
	end(&m);
	begin_fde(&m, 0x1000, 0x200); /* the second at its address */
	put_bytes(&m, "\x0e\x18", 2);
	end(&m);
	begin_fde(&m, 0x1010, 0x20); /* within */
	put_bytes(&m, "\x0e\x20", 2);
	end(&m);
	begin_fde(&m, 0x2000, 0x10);
	end(&m);
	expect(&m, "1000 r7+16 c-8; 1064 r7+24 c-8; 1200 none; 2000 r7+8 c-8; 2010 none", &counts);
	assert_int_equal(counts.overlapped, 3);
	cfimake_init(&m);
	usual_cie(&m, "zR");
	begin_fde(&m, 0x1040, 0x40);
	put_bytes(&m, "\x0e\x30\x60\x0e\x38\x48\x0e\x40", 8);
	end(&m);
	begin_fde(&m, 0x1000, 0x64);
	put_bytes(&m, "\x0e\x10", 2);
	end(&m);
	begin_fde(&m, 0x1050, 0x30); /* ends where the first one does */
	put_bytes(&m, "\x0e\x48", 2);
	end(&m);
	whole_fde(&m, 0x1088, 8);
	expect(&m, "1000 r7+16 c-8; 1064 r7+56 c-8; 1068 r7+64 c-8; 1088 r7+8 c-8; 1090 none",
	       NULL);
}

static void test_dropped(void **state)
{
	static const struct cfi_range code[] = {{0x1000, 0x1100}, {0x3000, 0x3010}};
	struct cfi_section section;
	struct cfi_table t = {};
	struct cfimake m;
	char text[256];

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	whole_fde(&m, 0, 0x2000);
	whole_fde(&m, 0x1080, 0);
	whole_fde(&m, 0x1080, UINT64_MAX - 0x1000);
	whole_fde(&m, 0xff0, 0x20);
	whole_fde(&m, 0x10f0, 0x11);
	whole_fde(&m, 0x10f0, 0x10);
	whole_fde(&m, 0x2000, 0x10);
	whole_fde(&m, 0x3000, 0x10);
	whole_fde(&m, 0x300f, 0x2);
	whole_fde(&m, 0x4000, 0x10);
	section = cfimake_section(&m);
	section.code = code;
	section.n_code = 2;
	assert_int_equal(cfi_compile_bytes(&section, &t), 0);
	text_table(text, sizeof(text), &t);
	assert_string_equal(text, "10f0 r7+8 c-8; 1100 none; 3000 r7+8 c-8; 3010 none");
	assert_int_equal(t.counts.fdes, 9);
	assert_int_equal(t.counts.dropped, 7);
	assert_int_equal(t.counts.malformed, 1); /* its end is beyond all addresses */
	cfi_table_release(&t);
	section.machine = EM_386;
	assert_int_equal(cfi_compile_bytes(&section, &t), -ENOTSUP);
	section.machine = EM_X86_64;
	section.n = CFI_SECTION_MAX + 1;
	assert_int_equal(cfi_compile_bytes(&section, &t), -EFBIG);
	cfimake_release(&m);
}

/* What lies between functions belongs to the one before it; a function without CFI does not. */
static void test_padding(void **state)
{
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	begin_fde(&m, 0x1000, 0x11);
	put_bytes(&m, "\x44\x0e\x10\x4d\x0e\x18", 6); /* the last at its end */
	end(&m);
	whole_fde(&m, 0x1020, 0x10);
	whole_fde(&m, 0x1040, 0x10);
	expect(&m,
	       "1000 r7+8 c-8; 1004 r7+16 c-8; 1020 r7+8 c-8; 1030 none; 1040 r7+8 c-8; 1050 none",
	       NULL);
}

/* Rules are there once, and rows only where something changes. */
static void test_same(void **state)
{
	struct cfi_section section;
	struct cfi_table t = {};
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	for (uint64_t i = 0; i < 2000; i++) {
		begin_fde(&m, 0x1000 + 0x20 * (i * 7 % 2000), 0x20);
		put_bytes(&m, "\x44\x0e\x10\x44\x0e", 5);
		put_uleb(&m, 8 * (i % 1000));
		put_bytes(&m, "\x44\x0e\x08", 3);
		end(&m);
	}
	section = cfimake_section(&m);
	assert_int_equal(cfi_compile_bytes(&section, &t), 0);
	/* offsets 8 and 16 of two each are in the rows before or behind them */
	assert_int_equal(t.n_rules, 1001);
	assert_int_equal(t.n_rows, 2000 * 3 - 2 * 2 + 2);
	assert_int_equal(t.first, 0x1000);
	assert_int_equal(t.end, 0x1000 + 0x20 * 2000);
	cfi_table_release(&t);
	cfimake_release(&m);
}

static void compile_many(uint64_t n, uint64_t stride, struct cfi_table *t)
{
	struct cfi_section section;
	struct cfimake m;

	cfimake_init(&m);
	begin_cie(&m, "zR", DW_EH_PE_udata4);
	put_bytes(&m, "\x0c\x07\x08\x90\x01", 5);
	end(&m);
	for (uint64_t i = 0; i < n; i++) {
		begin(&m, false);
		put(&m, 0x100000 + 0x40 * (i * stride % n), 4);
		put(&m, 0x20, 4);
		put_uleb(&m, 0);
		put_bytes(&m, "\x44\x0e\x10", 3);
		end(&m);
	}
	section = cfimake_section(&m);
	assert_int_equal(cfi_compile_bytes(&section, t), 0);
	cfimake_release(&m);
}

/* Twice the FDEs are twice the work, in whatever order they are. */
static void test_linear(void **state)
{
	struct cfi_table small = {}, large = {}, straight = {};
	size_t differ = 0;

	(void)state;
	compile_many(30000, 7777, &small);
	compile_many(300000, 77777, &large);
	compile_many(300000, 1, &straight);
	assert_int_equal(small.n_rows, 3 * 30000);
	assert_int_equal(large.n_rows, 3 * 300000);
	assert_int_equal(large.counts.fdes, 300000);
	assert_true(large.counts.work < 11 * small.counts.work);
	assert_int_equal(large.counts.work, straight.counts.work);
	assert_int_equal(large.n_rows, straight.n_rows);
	for (size_t i = 0; i < large.n_rows; i++)
		differ += large.rows[i].vaddr != straight.rows[i].vaddr ||
			  large.rows[i].rule != straight.rows[i].rule;
	assert_int_equal(differ, 0);
	cfi_table_release(&small);
	cfi_table_release(&large);
	cfi_table_release(&straight);
}

/* CIEs of 8 KiB that all have the same place among those that stay parsed, FDEs that take turns. */
static int compile_turns(unsigned int n, struct cfi_table *t, size_t *bytes)
{
	struct cfi_section section;
	size_t at[64];
	struct cfimake m;
	int err;

	cfimake_init(&m);
	for (int i = 0; i < 64; i++) {
		at[i] = m.n;
		usual_cie(&m, "zR");
		while (m.n < at[i] + 8192)
			put(&m, 0, 1);
		end(&m);
	}
	for (unsigned int i = 0; i < n; i++) {
		m.cie = at[i % 64];
		whole_fde(&m, 0x1000 + 0x20 * (uint64_t)i, 0x20);
	}
	section = cfimake_section(&m);
	*bytes = section.n;
	err = cfi_compile_bytes(&section, t);
	cfimake_release(&m);
	return err;
}

static void test_cie_work(void **state)
{
	struct cfi_table t = {};
	size_t bytes;

	(void)state;
	assert_int_equal(compile_turns(1000, &t, &bytes), 0);
	assert_int_equal(t.counts.fdes, 1000);
	assert_int_equal(t.n_rows, 2);
	/* each FDE is met twice */
	assert_true(t.counts.work > UINT64_C(2) * 1000 * 8000);
	assert_true(t.counts.work < CFI_CIE_WORK(bytes) + 2 * bytes);
	cfi_table_release(&t);
	assert_int_equal(compile_turns(5000, &t, &bytes), -EFBIG);
	assert_null(t.rows);
}

static void test_too_many(void **state)
{
	struct cfi_section section;
	struct cfi_table t = {};
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	begin_cie(&m, "zR", DW_EH_PE_udata2);
	end(&m);
	for (uint64_t i = 0; i <= CFI_FDES_MAX; i++) {
		begin(&m, false);
		put(&m, 0x1000, 2);
		put(&m, 0x10, 2);
		put_uleb(&m, 0);
		end(&m);
	}
	section = cfimake_section(&m);
	assert_int_equal(cfi_compile_bytes(&section, &t), -EFBIG);
	assert_null(t.rows);
	section.n = m.open;
	assert_int_equal(cfi_compile_bytes(&section, &t), 0);
	assert_int_equal(t.counts.fdes, CFI_FDES_MAX);
	assert_int_equal(t.counts.overlapped, CFI_FDES_MAX - 1);
	cfi_table_release(&t);
	/* as many rows as there may be */
	m.n = m.cie;
	usual_cie(&m, "zR");
	begin_fde(&m, 0x1000, UINT64_C(1) << 40);
	for (uint64_t i = 0; i < CFI_ROWS_MAX; i++)
		put_bytes(&m, i & 1 ? "\x41\x0e\x08" : "\x41\x0e\x10", 3);
	end(&m);
	section = cfimake_section(&m);
	assert_int_equal(cfi_compile_bytes(&section, &t), -EFBIG);
	assert_null(t.rows);
	section.n -= 6; /* two rows fewer, and the end's */
	m.n -= 6;
	end(&m);
	assert_int_equal(cfi_compile_bytes(&section, &t), 0);
	assert_int_equal(t.n_rows, CFI_ROWS_MAX);
	cfi_table_release(&t);
	cfimake_release(&m);
}

static void test_lookup(void **state)
{
	struct cfi_section section;
	struct cfi_table t = {};
	struct cfimake m;

	(void)state;
	cfimake_init(&m);
	usual_cie(&m, "zR");
	begin_fde(&m, 0x1000, 0x10);
	put_bytes(&m, "\x44\x0e\x10", 3);
	end(&m);
	whole_fde(&m, 0x2000, 0x10);
	section = cfimake_section(&m);
	assert_int_equal(cfi_compile_bytes(&section, &t), 0);
	assert_int_equal(cfi_table_at(&t, 0)->cfa, UNWIND_CFA_NONE);
	assert_int_equal(cfi_table_at(&t, 0xfff)->cfa, UNWIND_CFA_NONE);
	assert_int_equal(cfi_table_at(&t, 0x1000)->off, 8);
	assert_int_equal(cfi_table_at(&t, 0x1003)->off, 8);
	assert_int_equal(cfi_table_at(&t, 0x1004)->off, 16);
	assert_int_equal(cfi_table_at(&t, 0x100f)->off, 16);
	assert_int_equal(cfi_table_at(&t, 0x1010)->cfa, UNWIND_CFA_NONE);
	assert_int_equal(cfi_table_at(&t, 0x2000)->off, 8);
	assert_int_equal(cfi_table_at(&t, 0x2010)->cfa, UNWIND_CFA_NONE);
	assert_int_equal(cfi_table_at(&t, UINT64_MAX)->cfa, UNWIND_CFA_NONE);
	cfi_table_release(&t);
	cfi_table_release(NULL);
	cfimake_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encodings),    cmocka_unit_test(test_encodings_refused),
		cmocka_unit_test(test_datarel),	     cmocka_unit_test(test_cies),
		cmocka_unit_test(test_cies_refused), cmocka_unit_test(test_debug_frame),
		cmocka_unit_test(test_wide),	     cmocka_unit_test(test_hostile_entries),
		cmocka_unit_test(test_zero_length),  cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_dropped),	     cmocka_unit_test(test_padding),
		cmocka_unit_test(test_same),	     cmocka_unit_test(test_linear),
		cmocka_unit_test(test_cie_work),     cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_lookup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
