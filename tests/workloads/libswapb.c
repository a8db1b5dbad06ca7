/* SPDX-License-Identifier: BSD-2-Clause */
#include "swap.h"

SWAP_LIBRARY(bravo_burn)
