/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16
/* From here on what is not used counts more than growing once more, which mostly copies nothing. */
#define LARGE 4096

int array_room(void *array, size_t *room, size_t n, size_t element_bytes)
{
	size_t more = *room + (*room < LARGE ? *room / 2 : *room / 4), bytes;
	void *old, *bigger;

	if (n <= *room)
		return 0;
	if (more < *room || more < n)
		more = n;
	if (more < FIRST_ROOM)
		more = FIRST_ROOM;
	if (__builtin_mul_overflow(more, element_bytes, &bytes))
		return -ENOMEM;
	/* A pointer of whatever type: read and written as bytes, which any type allows. */
	memcpy(&old, array, sizeof(old));
	bigger = realloc(old, bytes);
	if (!bigger)
		return -ENOMEM;
	memcpy(array, &bigger, sizeof(bigger));
	*room = more;
	return 0;
}
