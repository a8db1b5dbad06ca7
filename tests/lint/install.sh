#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# `make install` puts everything below DESTDIR and PREFIX and nothing elsewhere.
. "$(dirname "$0")/common"


"${MAKE:-make}" -s install DESTDIR="$tmp/root" PREFIX=/opt/sg >/dev/null || complain "make install fails"
for tool in tools/*.c; do
	[ -x "$tmp/root/opt/sg/bin/$(basename "$tool" .c)" ] || complain "$tool is not installed"
done
for page in man/*.8; do
	cmp -s "$page" "$tmp/root/opt/sg/share/man/man8/$(basename "$page")" ||
		complain "$page is not installed"
done
[ -e "$tmp/root/opt/sg/share/doc/samplegate/LICENSE" ] || complain "LICENSE is not installed"
[ "$(ls "$tmp/root")" = opt ] || complain "something is outside PREFIX: $(ls "$tmp/root")"
exit $failed
