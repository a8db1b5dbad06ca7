/* SPDX-License-Identifier: BSD-2-Clause */
#include "swap.h"

SWAP_LIBRARY(alpha_burn)
