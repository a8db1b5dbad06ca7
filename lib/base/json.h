/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JSON_H
#define SAMPLEGATE_JSON_H

/*
 * Writes JSON into a stream as it goes, without blanks, so that a value fits one line. Nesting is
 * asserted: a key only in an object, one value for each key, ends that match. Write errors stay in
 * the stream (ferror()) and come back from json_finish().
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 32

struct json {
	FILE *f;
	unsigned int depth;
	bool is_object[JSON_MAX_DEPTH]; /* else an array */
	bool has_items[JSON_MAX_DEPTH];
	bool after_key;
	bool done; /* the one value at the top is complete */
};

void json_init(struct json *j, FILE *f);

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);

/* Names the next value of an object. Escaped like a string. */
void json_key(struct json *j, const char *key);

void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
/* v / 10^decimals, exactly: json_decimal(j, 9876, 4) is 0.9876. decimals is 0 to 18. */
void json_decimal(struct json *j, uint64_t v, unsigned int decimals);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
/* "0x..." as a string: 64-bit addresses do not survive a reader's double. */
void json_hex(struct json *j, uint64_t v);
/* Control bytes are escaped, each byte that is not UTF-8 becomes \ufffd. NULL is null. */
void json_string(struct json *j, const char *s);

/* Asserts that the value is complete; a newline. 0 or -EIO when the stream has an error. */
int json_finish(struct json *j);

#endif
