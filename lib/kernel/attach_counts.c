/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/loghist.h"

void *attach_percpu(const struct attach *a, const char *map, uint32_t key, size_t bytes,
		    uint32_t *n_cpus, size_t *stride)
{
	size_t each = (bytes + 7) / 8 * 8;
	char *values = calloc(a->n_cpus, each);

	if (values && bpf_map_lookup_elem(attach_map_fd(a, map), &key, values)) {
		free(values);
		return NULL;
	}
	*n_cpus = a->n_cpus;
	*stride = each;
	return values;
}

int attach_percpu_sum(const struct attach *a, const char *map, uint32_t key, void *sum,
		      size_t bytes)
{
	size_t stride;
	uint32_t n;
	char *values = attach_percpu(a, map, key, bytes, &n, &stride);

	if (!values)
		return -EIO;
	memset(sum, 0, bytes);
	for (uint32_t cpu = 0; cpu < n; cpu++)
		for (size_t i = 0; i < bytes / 8; i++)
			((uint64_t *)sum)[i] += ((const uint64_t *)(values + cpu * stride))[i];
	free(values);
	return 0;
}

int attach_counters(const struct attach *a, size_t event, uint32_t cpu, struct tick_counters *out)
{
	size_t stride;
	uint32_t n;
	char *values = attach_percpu(a, "counters", event, sizeof(*out), &n, &stride);

	if (!values)
		return -EIO;
	if (cpu < n)
		*out = *(struct tick_counters *)(values + cpu * stride);
	free(values);
	return 0;
}

int attach_counters_sum(const struct attach *a, size_t event, struct tick_counters *out,
			struct tick_counters *total)
{
	int err = attach_percpu_sum(a, "counters", event, out, sizeof(*out));

	for (size_t i = 0; i < sizeof(*out) / 8 && !err; i++)
		((uint64_t *)total)[i] += ((const uint64_t *)out)[i];
	return err;
}

/* Time of what is open at this moment. */
static uint64_t still_open_ns(const struct attach *a, uint32_t gate, uint64_t now_ns)
{
	bool thread = a->plan->gates[gate].info.scope == GATE_SCOPE_THREAD;
	int fd = attach_map_fd(a, thread ? "openings" : "scope_opens");
	struct gate_key key, next, *at = NULL;
	uint64_t sum = 0;
	union {
		struct gate_opening opening;
		struct gate_scope_open scope;
	} v;

	while (!bpf_map_get_next_key(fd, at, &next)) {
		uint64_t opened_ns;

		key = next;
		at = &key;
		if (key.gate != gate || bpf_map_lookup_elem(fd, &key, &v))
			continue;
		opened_ns = thread ? v.opening.opened_ns : v.scope.opened_ns;
		if (now_ns > opened_ns)
			sum += now_ns - opened_ns;
	}
	return sum;
}

int attach_gate_stats(const struct attach *a, size_t i, uint64_t now_ns, struct gate_stats *st)
{
	int err = attach_percpu_sum(a, "gate_stats", i, st, sizeof(*st));

	if (err)
		return err;
	st->open_ns += still_open_ns(a, i, now_ns);
	return 0;
}

uint64_t attach_typical_ns(const struct gate_stats *st)
{
	return loghist_quantile(st->durations, GATE_HIST_BUCKETS, 1, 2);
}
