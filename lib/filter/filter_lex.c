/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_lex.h"

#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_unprintable(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

static const char *skip_blanks(const char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

static struct filter_token token(enum filter_token_kind kind, const char *at, size_t bytes)
{
	return (struct filter_token){.kind = kind, .at = at, .bytes = bytes};
}

static struct filter_token bad(const char *at, size_t bytes, const char *why)
{
	return (struct filter_token){
		.kind = FILTER_TOKEN_BAD, .at = at, .bytes = bytes, .why = why};
}

/* A backslash keeps the quote after it from ending the string. */
static struct filter_token lex_string(const char *s)
{
	char quote = *s;
	size_t n = 1;

	while (s[n] && s[n] != quote) {
		if (is_unprintable(s[n]))
			return bad(s + n, 1, "a control byte inside of a string");
		if (s[n] == '\\' && s[n + 1] && !is_unprintable(s[n + 1]))
			n++;
		n++;
	}
	if (!s[n])
		return bad(s, 1, "a string that does not end: the closing quote is missing");
	return token(FILTER_TOKEN_STRING, s, n + 1);
}

static struct filter_token lex_number(const char *s)
{
	size_t n = 0;

	while (is_word_byte(s[n]) || (s[n] == '.' && is_digit(s[n + 1])))
		n++;
	if (s[n] == '%')
		n++;
	return token(FILTER_TOKEN_NUMBER, s, n);
}

static const struct {
	const char *text;
	enum filter_token_kind kind;
} signs[] = {
	/* the longer ones first */
	{"||", FILTER_TOKEN_OR},   {"&&", FILTER_TOKEN_AND},	  {"==", FILTER_TOKEN_EQ},
	{"!=", FILTER_TOKEN_NE},   {"!~", FILTER_TOKEN_NOT_GLOB}, {"<=", FILTER_TOKEN_LE},
	{">=", FILTER_TOKEN_GE},   {"..", FILTER_TOKEN_RANGE},	  {"<", FILTER_TOKEN_LT},
	{">", FILTER_TOKEN_GT},	   {"&", FILTER_TOKEN_BIT_AND},	  {"~", FILTER_TOKEN_GLOB},
	{"!", FILTER_TOKEN_NOT},   {",", FILTER_TOKEN_COMMA},	  {"(", FILTER_TOKEN_OPEN},
	{")", FILTER_TOKEN_CLOSE}, {"{", FILTER_TOKEN_SET_OPEN},  {"}", FILTER_TOKEN_SET_CLOSE},
};

struct filter_token filter_lex(const char *s)
{
	size_t n = 0;

	s = skip_blanks(s);
	if (!*s)
		return token(FILTER_TOKEN_END, s, 0);
	if (*s == '"' || *s == '\'')
		return lex_string(s);
	if (is_digit(*s))
		return lex_number(s);
	while (is_word_byte(s[n]))
		n++;
	if (n)
		return token(FILTER_TOKEN_WORD, s, n);
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		n = strlen(signs[i].text);
		if (!strncmp(s, signs[i].text, n))
			return token(signs[i].kind, s, n);
	}
	if (*s == '=' && s[1] == '~')
		return bad(s, 2, "'=~': write ~");
	if (*s == '=')
		return bad(s, 1, "a single '=': write ==");
	if (*s == '|')
		return bad(s, 1, "a single '|': write ||");
	if (*s == '-')
		return bad(s, 1, "a '-': numbers are not negative here");
	if (is_unprintable(*s))
		return bad(s, 1, "a control byte");
	return bad(s, 1, "a character that means nothing here");
}

struct filter_token filter_lex_path(const char *s)
{
	size_t n = 0;

	s = skip_blanks(s);
	while (s[n] && !is_blank(s[n]) && !is_unprintable(s[n]) && !strchr(",)|&{}\"'", s[n]))
		n++;
	return n ? token(FILTER_TOKEN_PATH, s, n) : filter_lex(s);
}
