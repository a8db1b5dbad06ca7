/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ARRAY_H
#define SAMPLEGATE_ARRAY_H

/* Arrays that grow. */

#include <stddef.h>

/*
 * Makes room for at least n elements of so many bytes each. array is the address of the pointer to
 * the first one (NULL at first, free() ends it), *room what it has room for (0 at first). It grows
 * by a part of itself, so that adding one after the other takes linear time. 0; or -ENOMEM, also
 * where the size can't be expressed, and then everything is as it was.
 */
int array_room(void *array, size_t *room, size_t n, size_t element_bytes);

#endif
