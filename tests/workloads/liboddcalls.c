/* SPDX-License-Identifier: BSD-2-Clause */
/* Small functions, for who calls them through a PLT or without. */

unsigned int tiny(unsigned int x);
unsigned int tiny_direct(unsigned int x);

unsigned int tiny(unsigned int x)
{
	return x + 1;
}

unsigned int tiny_direct(unsigned int x)
{
	return x + 1;
}
