#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# BESIDE: all is counted exactly
#
# The BPF evaluator of filters against the reference in C: random filters from a fixed seed, on
# random samples, by test-run. It also has the terms that no event of this machine can feed. WIDE=1
# (make check-wide) takes four times as many samples.
load lib

setup_file()
{
	[ "$(id -u)" -eq 0 ] || skip "not root"
	[ -e /sys/kernel/btf/vmlinux ] || skip "no kernel BTF"
}

@test "1,000 random filters mean in BPF what they mean in C, on thousands of samples each" {
	local samples=2500

	[ -z "${WIDE:-}" ] || samples=10000
	run -0 "$SG_BUILD/live/filter_equiv" 1000 $samples
	[[ "${lines[-1]}" =~ ^"1000 expressions ("([0-9]+)" quick), $samples samples each: all agree"$ ]]
	[ "${BASH_REMATCH[1]}" -gt 300 ]
}

@test "each field that a sample has here is what the sampled thread knows of itself" {
	run -0 "$SG_BUILD/live/filter_fields"
	[[ "$output" != *BAD* ]]
	[[ "$output" == *"user mode: pid="* ]]
	# the filter on a breakpoint's data address, and its opposite
	if "$SG_BUILD/helpers/hwbreak" >/dev/null; then
		[[ "$output" == *"kept 97 of 97"*"kept 0 of 97"* ]]
	fi
}

@test "fields that no event has here are read from where the kernel keeps them" {
	run -0 "$SG_BUILD/live/filter_data"
	[[ "$output" != *BAD* ]]
}
