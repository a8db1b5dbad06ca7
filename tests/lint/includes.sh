#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Who may include what: the table in docs/design.md.
. "$(dirname "$0")/common"

awk -f tests/lint/includes.awk tests/lint/lib-order.txt include/*.h bpf/*.[ch] lib/*.[ch] \
	tools/*.[ch] tests/unit/*.[ch] tests/fuzz/*.[ch] || failed=1
exit $failed
