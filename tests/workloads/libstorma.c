/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -O2 -fomit-frame-pointer */
#include "storm.h"

STORM_CHAIN(one, 40, 200, 1000, 24)
STORM_FUNCTION(swap_entry, 16, one_outer)
