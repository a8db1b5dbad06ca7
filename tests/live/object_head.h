/* SPDX-License-Identifier: BSD-2-Clause */
/* What the objects that object.bats compiles begin with. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "samplegate.bpf.h"

#ifndef LICENSE_IS
#define LICENSE_IS "GPL"
#endif
#ifndef NO_LICENSE
char LICENSE[] SEC("license") = LICENSE_IS;
#endif
