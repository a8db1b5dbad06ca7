/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_PLACE_H
#define SAMPLEGATE_FILTER_PLACE_H

/*
 * A message about a place in a filter: first "filter, column N: ", then what is to be said, then
 * the filter on a line of its own (the part around the place, if it is long) and a caret below.
 * Columns are characters of UTF-8, from 1.
 */

#include "base/strbuf.h"

void filter_place_begin(struct strbuf *sb, const char *text, const char *at);
void filter_place_end(struct strbuf *sb, const char *text, const char *at);

#endif
