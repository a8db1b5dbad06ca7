/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/table.h"

#define MANY 20011

/* The key of the paper's own vectors: bytes 0 to 15. */
static struct table known_key(void)
{
	return (struct table){.key = {0x0706050403020100, 0x0f0e0d0c0b0a0908}};
}

/*
 * The low half of SipHash-1-3 with that key, of the bytes 0, 1, 2, ...; from an implementation of
 * its own in Python, which has the paper's vector of SipHash-2-4 right.
 */
static void siphash_1_3(void **state)
{
	static const struct {
		size_t n;
		uint32_t hash;
	} vectors[] = {
		{0, 0x050fc4dc}, {1, 0x7d57ca93},  {7, 0x9bb11140},  {8, 0x8d299a8e},
		{9, 0x6c063de4}, {15, 0x2a519956}, {16, 0x7d908b66}, {63, 0xb7bbb3a8},
	};
	struct table t = known_key();
	unsigned char bytes[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		assert_int_equal(table_hash(&t, bytes, vectors[i].n), vectors[i].hash);
}

/* In parts or at once. */
static void parts_are_the_whole(void **state)
{
	struct table t = known_key();
	uint64_t words[3] = {htole64(1), htole64(UINT64_MAX), htole64(0x123456789abcdef0)};
	char bytes[sizeof(words) + 5];
	struct siphash s = table_hasher(&t);

	(void)state;
	memcpy(bytes, words, sizeof(words));
	memcpy(bytes + sizeof(words), "12345", 5);
	for (size_t i = 0; i < 3; i++)
		siphash_word(&s, le64toh(words[i]));
	assert_int_equal((uint32_t)siphash_end(&s, "12345", 5),
			 table_hash(&t, bytes, sizeof(bytes)));
}

static void each_table_has_its_key(void **state)
{
	struct table a, b;

	(void)state;
	table_init(&a);
	table_init(&b);
	assert_memory_not_equal(a.key, b.key, sizeof(a.key));
	table_release(&a);
	table_release(&b);
}

/* How often a number is found. */
static int times(const struct table *t, uint32_t hash, uint32_t number)
{
	struct table_walk at = table_walk(t, hash);
	uint32_t found;
	int n = 0;

	while (table_next(&at, &found))
		n += found == number;
	return n;
}

static uint32_t hash_of(const struct table *t, uint32_t number)
{
	return table_hash(t, &number, sizeof(number));
}

static void many_come_and_go(void **state)
{
	struct table t;
	uint32_t i;

	(void)state;
	table_init(&t);
	assert_int_equal(times(&t, 0, 0), 0);
	table_remove(&t, 0, 0);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(table_reserve(&t), 0);
		table_add(&t, hash_of(&t, i), i);
	}
	assert_int_equal(t.used, MANY);
	for (i = 0; i < MANY; i++)
		assert_int_equal(times(&t, hash_of(&t, i), i), 1);
	assert_int_equal(times(&t, hash_of(&t, MANY), MANY), 0);
	for (i = 0; i < MANY; i += 3)
		table_remove(&t, hash_of(&t, i), i);
	for (i = 0; i < MANY; i++)
		assert_int_equal(times(&t, hash_of(&t, i), i), i % 3 != 0);
	table_remove(&t, hash_of(&t, 0), 0);
	assert_int_equal(t.used, MANY - (MANY + 2) / 3);
	table_release(&t);
	assert_int_equal(times(&t, hash_of(&t, 1), 1), 0);
}

/* Hashes that fill a stretch round the end of the slots, with each place as somebody's own. */
static void gaps_close(void **state)
{
	enum { N = 24 };
	struct table t;
	uint32_t hashes[N];

	(void)state;
	for (unsigned int round = 0; round < 5000; round++) {
		unsigned int seed = round;

		table_init(&t);
		for (uint32_t i = 0; i < N; i++) {
			/* of 64 slots the one with this number */
			hashes[i] = (52 + (uint32_t)rand_r(&seed) % N) << 26;
			assert_int_equal(table_reserve(&t), 0);
			table_add(&t, hashes[i], i);
		}
		assert_int_equal(t.n_slots, 64);
		for (uint32_t i = 0; i < N; i++) {
			uint32_t gone = (i * 7 + round) % N;

			table_remove(&t, hashes[gone], gone);
			for (uint32_t k = 0; k < N; k++) {
				bool was = false;

				for (uint32_t j = 0; j <= i; j++)
					was |= (j * 7 + round) % N == k;
				assert_int_equal(times(&t, hashes[k], k), !was);
			}
		}
		assert_int_equal(t.used, 0);
		table_release(&t);
	}
}

/* Names that meet in one place of a table without a key: here a walk stays short. */
static void chosen_keys_do_not_meet(void **state)
{
	uint32_t most = 0, run = 0;
	struct table t;

	(void)state;
	table_init(&t);
	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t address = (uint64_t)i << 32; /* the low bits are all alike */

		assert_int_equal(table_reserve(&t), 0);
		table_add(&t, table_hash(&t, &address, sizeof(address)), i);
	}
	for (size_t i = 0; i < t.n_slots; i++) {
		run = t.slots[i].taken ? run + 1 : 0;
		most = run > most ? run : most;
	}
	assert_true(most < 600);
	table_release(&t);
}

static void arrays_grow(void **state)
{
	uint32_t *v = NULL;
	size_t room = 0, grown = 0, was;

	(void)state;
	assert_int_equal(array_room(&v, &room, 0, sizeof(*v)), 0);
	assert_null(v);
	for (size_t i = 0; i < MANY; i++) {
		was = room;
		assert_int_equal(array_room(&v, &room, i + 1, sizeof(*v)), 0);
		assert_true(room > i);
		grown += room != was;
		v[i] = (uint32_t)i;
	}
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(v[i], i);
	assert_true(grown < 40);
	was = room;
	assert_int_equal(array_room(&v, &room, SIZE_MAX / 2, sizeof(*v)), -ENOMEM);
	assert_int_equal(array_room(&v, &room, SIZE_MAX, 2), -ENOMEM);
	/* So many that their bytes would be four, if nobody looked. */
	assert_int_equal(array_room(&v, &room, SIZE_MAX / sizeof(*v) + 2, sizeof(*v)), -ENOMEM);
	assert_int_equal(room, was);
	assert_int_equal(v[MANY - 1], MANY - 1);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_1_3),
		cmocka_unit_test(parts_are_the_whole),
		cmocka_unit_test(each_table_has_its_key),
		cmocka_unit_test(many_come_and_go),
		cmocka_unit_test(gaps_close),
		cmocka_unit_test(arrays_grow),
		cmocka_unit_test(chosen_keys_do_not_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
