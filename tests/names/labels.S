/* SPDX-License-Identifier: BSD-2-Clause */
/* Symbols without a size or a type, labels in functions, functions in functions, and gaps. */
	.text
	.globl	label_one, label_two, sized, last_label
label_one:
	nop
	nop
label_two:
	ret
	.type	sized, @function
sized:
	nop
inside_sized:
	nop
	ret
	.size	sized, . - sized
	.skip	24, 0x90
	.type	outer, @function
outer:
	nop
	.type	inner, @function
inner:
	nop
	nop
	.size	inner, . - inner
	ret
	.size	outer, . - outer
	.skip	9, 0x90
	.type	no_size, @function
no_size:
	ret
	.type	no_size_alias, @function
	.set	no_size_alias, no_size
last_label:
	ret

	.section .text.more, "ax", @progbits
	.type	more, @function
more:	ret
	.size	more, . - more
	.section .note.GNU-stack, "", @progbits
