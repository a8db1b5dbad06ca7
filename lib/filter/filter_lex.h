/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_LEX_H
#define SAMPLEGATE_FILTER_LEX_H

/* A filter's text into tokens. A token is a slice of the text, which has to outlive it. */

#include <stddef.h>

enum filter_token_kind {
	FILTER_TOKEN_END,
	FILTER_TOKEN_WORD,   /* letters, digits, '_'; begins with no digit */
	FILTER_TOKEN_NUMBER, /* begins with a digit: 12, 0x1f, 1.5s, 64K, 25% */
	FILTER_TOKEN_STRING, /* in double or single quotes, which are part of the slice */
	FILTER_TOKEN_PATH,   /* what only filter_lex_path() makes */
	FILTER_TOKEN_OR,     /* || */
	FILTER_TOKEN_AND,    /* && */
	FILTER_TOKEN_NOT,    /* ! */
	FILTER_TOKEN_COMMA,
	FILTER_TOKEN_OPEN, /* ( */
	FILTER_TOKEN_CLOSE,
	FILTER_TOKEN_SET_OPEN, /* { */
	FILTER_TOKEN_SET_CLOSE,
	FILTER_TOKEN_RANGE, /* .. */
	FILTER_TOKEN_EQ,
	FILTER_TOKEN_NE,
	FILTER_TOKEN_LT,
	FILTER_TOKEN_LE,
	FILTER_TOKEN_GT,
	FILTER_TOKEN_GE,
	FILTER_TOKEN_BIT_AND,  /* & */
	FILTER_TOKEN_GLOB,     /* ~ */
	FILTER_TOKEN_NOT_GLOB, /* !~ */
	FILTER_TOKEN_BAD,      /* none of these; why says what is wrong with it */
};

struct filter_token {
	enum filter_token_kind kind;
	const char *at;
	size_t bytes;
	const char *why; /* FILTER_TOKEN_BAD: a part of a sentence */
};

/* The token at or after s, which is NUL-terminated. What follows it begins at at + bytes. */
struct filter_token filter_lex(const char *s);

/* Likewise, but a path without quotes may stand there: up to a blank or one of , ) | & { } " ' */
struct filter_token filter_lex_path(const char *s);

#endif
