/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -O2 -fomit-frame-pointer */
#include "storm.h"

STORM_CHAIN(two, 600, 16, 88, 333)
STORM_FUNCTION(swap_entry, 2000, two_outer)
