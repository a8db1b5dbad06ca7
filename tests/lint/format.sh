#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# .clang-format is followed, everywhere but in the generated vmlinux.h.
. "$(dirname "$0")/common"

find include bpf lib tools tests bench \( -name '*.[ch]' -o -name '*.cc' \) -type f -print0 |
	xargs -0 -r clang-format --dry-run -Werror || failed=1
exit $failed
