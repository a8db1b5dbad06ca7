/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFDATA_FEATURE_H
#define SAMPLEGATE_PERFDATA_FEATURE_H

/*
 * The feature sections of a perf.data file: what perf report --header shows, and the build-ids.
 * Numbers and contents are those of tools/perf/util/header.h and header.c; CLOCKID and CLOCK_DATA
 * came with Linux 5.0 and 5.9.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "perfdata/perfdata.h"

enum perfdata_feature {
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_VERSION = 5,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CPUDESC = 8,
	FEATURE_CPUID = 9,
	FEATURE_TOTAL_MEM = 10,
	FEATURE_CMDLINE = 11,
	FEATURE_EVENT_DESC = 12,
	FEATURE_SAMPLE_TIME = 21,
	FEATURE_CLOCKID = 23,
	FEATURE_CLOCK_DATA = 29,
	N_FEATURES = 30,
};

/* An empty section is left out of the file. */
struct perfdata_features {
	struct strbuf sections[N_FEATURES];
};

/* Those that are known at the start. 0, -E2BIG or -ENOMEM. */
int perfdata_features_init(struct perfdata_features *fs, const struct perfdata_opts *o);
void perfdata_features_release(struct perfdata_features *fs);

/* Helpers for the rest; all return sb->err. A string is padded as perf does it. */
int perfdata_add_u32(struct strbuf *sb, uint32_t value);
int perfdata_add_u64(struct strbuf *sb, uint64_t value);
int perfdata_add_string(struct strbuf *sb, const char *s);

/* An entry of FEATURE_BUILD_ID. 0 or -ENOMEM. */
int perfdata_add_build_id(struct strbuf *sb, bool kernel, const char *path, const void *id,
			  size_t bytes);

#endif
