/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the static build: takes the place of the disassembler library's other architectures. Its
 * core refers to all of them through two tables, and the linker would bring in their megabytes of
 * decoding tables. With these definitions found first, their archive members are never looked at.
 */

#include <stddef.h>

#include <capstone/capstone.h>

/* The handle and the option types are the library's own; none of them is looked into here. */
#define NO_ARCH(arch)                                                       \
	cs_err arch##_global_init(void *handle);                            \
	cs_err arch##_option(void *handle, cs_opt_type type, size_t value); \
	cs_err arch##_global_init(void *handle)                             \
	{                                                                   \
		(void)handle;                                               \
		return CS_ERR_ARCH;                                         \
	}                                                                   \
	cs_err arch##_option(void *handle, cs_opt_type type, size_t value)  \
	{                                                                   \
		(void)handle;                                               \
		(void)type;                                                 \
		(void)value;                                                \
		return CS_ERR_ARCH;                                         \
	}

NO_ARCH(ARM)
NO_ARCH(AArch64)
NO_ARCH(Mips)
NO_ARCH(PPC)
NO_ARCH(Sparc)
NO_ARCH(SystemZ)
NO_ARCH(XCore)
NO_ARCH(M68K)
NO_ARCH(TMS320C64x)
NO_ARCH(M680X)
NO_ARCH(EVM)
