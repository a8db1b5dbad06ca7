/* SPDX-License-Identifier: BSD-2-Clause */
/* One small function, for who calls it through a PLT. */

unsigned int tiny(unsigned int x);

unsigned int tiny(unsigned int x)
{
	return x + 1;
}
