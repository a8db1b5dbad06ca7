/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf/demangle.h"

struct row {
	const char *mangled, *name; /* name NULL: left alone */
};

static void check_rows(char *(*demangle)(const char *), const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *name = demangle(rows[i].mangled);

		if (!name != !rows[i].name || (name && strcmp(name, rows[i].name)))
			fail_msg("%s: \"%s\", not \"%s\"", rows[i].mangled, name ? name : "NULL",
				 rows[i].name ? rows[i].name : "NULL");
		free(name);
	}
}

#define CHECK_ROWS(rows)  check_rows(demangle_name, rows, sizeof(rows) / sizeof((rows)[0]))
#define CHECK_SHORT(rows) check_rows(demangle_short_name, rows, sizeof(rows) / sizeof((rows)[0]))

static void test_cplusplus(void **state)
{
	static const struct row rows[] = {
		{"_Z4spini", "spin(int)"},
		{"_ZN2ns1fEv", "ns::f()"},
		{"_ZNK2ns5Queue4sizeEv", "ns::Queue::size() const"},
		{"_ZN2ns5QueueIiE4pushEOi", "ns::Queue<int>::push(int&&)"},
		{"_ZN2ns5QueueC1Ev", "ns::Queue::Queue()"},
		{"_ZN2ns5QueueD0Ev", "ns::Queue::~Queue()"},
		{"_ZplRK1AS1_", "operator+(A const&, A const&)"},
		{"_ZTV1A", "vtable for A"},
		{"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"},
		{"_ZN12_GLOBAL__N_16hiddenEv", "(anonymous namespace)::hidden()"},
		{"_Z3addIiET_S0_S0_", "int add<int>(int, int)"},
		{"_Z4spini.cold", "spin(int) [clone .cold]"},
		{"_Z4spini@plt", "spin(int)@plt"},
		{"_ZN2ns1fEv@plt", "ns::f()@plt"},
		{"_Z4spini@pl", NULL},
		{"_Zxx@plt", NULL},
		{"@plt", NULL},
		{"_@plt", NULL},
		{"puts@plt", NULL},
		{"_Z4spini.constprop.0", "spin(int) [clone .constprop.0]"},
		{"_Z4spini.isra.0.cold", "spin(int) [clone .isra.0] [clone .cold]"},
	};

	(void)state;
	CHECK_ROWS(rows);
}

static void test_rust(void **state)
{
	static const struct row rows[] = {
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.1234567",
		 "core::fmt::Formatter::pad"},
		{"_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h"
		 "0123456789abcdefE",
		 "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
		{"_RNvC7mycrate3foo", "mycrate::foo"},
		{"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_RINvC7mycrate3foolE", "mycrate::foo::<i32>"},
		/* A C++ name with something like a hash that is none stays whole. */
		{"_ZN3foo17h0123456789abcdxxEv", "foo::h0123456789abcdxx()"},
	};

	(void)state;
	CHECK_ROWS(rows);
}

static void test_d(void **state)
{
	static const struct row rows[] = {
		{"_D3std5stdio7writelnFZv", "std.stdio.writeln()"},
		{"_D8demangle4testFaZv", "demangle.test(char)"},
		{"_Dmain", "D main"},
	};

	(void)state;
	CHECK_ROWS(rows);
}

static void test_left_alone(void **state)
{
	static const struct row rows[] = {
		{"", NULL},
		{"_", NULL},
		{"__", NULL},
		{"main", NULL},
		{"spin.constprop.0", NULL},
		{"spin.cold", NULL},
		{"_start", NULL},
		{"__libc_start_main", NULL},
		{"_Z", NULL},
		{"_R", NULL},
		{"_D", NULL},
		{"_DYNAMIC", NULL},
		{"_Random", NULL},
		{"_Zero_page", NULL},
		{"_Z4spin", "spin"},
		{"_Z9spini", NULL},
		{"_Z99999999999999999999spini", NULL},
		{"_ZN3fooE17h0123", NULL},
		{"_RNvC99999999999999999999foo3bar", NULL},
		{"_RNvB_3foo", NULL},
		{"_D99999999999999999999foo", NULL},
		{"spin__Fi", NULL}, /* of compilers long gone */
		{"foo__bar___elabb", NULL},
		{"\xff\xfe", NULL},
		{"_Z\xff\xff", NULL},
	};

	(void)state;
	CHECK_ROWS(rows);
}

static void test_short(void **state)
{
	static const struct row rows[] = {
		{"_ZN2ns1fEic", "ns::f"},
		{"_Z4spini", "spin"},
		{"_ZNK2ns5Queue4sizeEv", "ns::Queue::size"},
		{"_ZN2ns5QueueIiE4pushEOi", "ns::Queue<int>::push"},
		{"_ZNVKR2ns1A1mEv", "ns::A::m"},
		/* return types go too, around the name or not */
		{"_Z3addIiET_S0_S0_", "add<int>"},
		{"_ZN2ns3getIiEEPFvcET_", "ns::get<int>"},
		/* parentheses that are no parameters */
		{"_ZNK2ns1AclEi", "ns::A::operator()"},
		{"_ZN12_GLOBAL__N_16hiddenEi", "(anonymous namespace)::hidden"},
		{"_ZN2ns12_GLOBAL__N_11uEPNS0_1LE", "ns::(anonymous namespace)::u"},
		{"_ZN2ns5applyIPFiiEEEiT_i", "ns::apply<int (*)(int)>"},
		{"_ZN2ns2fpEPFviEMNS_1AEKFicERA3_i", "ns::fp"},
		/* operators */
		{"_ZNK2ns1AltERKS0_", "ns::A::operator<"},
		{"_ZN2nsrsERKNS_1AEi", "ns::operator>>"},
		{"_ZN2ns1AptEv", "ns::A::operator->"},
		{"_ZN2ns1AixEi", "ns::A::operator[]"},
		{"_ZN2nscmERKNS_1AEi", "ns::operator,"},
		{"_ZN2ns1AnwEm", "ns::A::operator new"},
		{"_Zli3_kmy", "operator\"\" _km"},
		{"_ZNK2ns1AcviEv", "ns::A::operator int"},
		{"_ZN2ns1AcvSt6vectorIiSaIiEEEv",
		 "ns::A::operator std::vector<int, std::allocator<int> >"},
		/* whose lambda it is */
		{"_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()"},
		{"_ZZN2ns2mkEiENKUliE_clEi", "ns::mk(int)::{lambda(int)#1}::operator()"},
		/* clones */
		{"_Z4spini.cold", "spin"},
		{"_Z4spini.isra.0.cold", "spin"},
		{"_ZN2ns1fEic.constprop.0", "ns::f"},
		/* no functions */
		{"_ZTV1A", "vtable for A"},
		/* Rust */
		{"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"},
		{"_RINvC7mycrate3foolE", "mycrate::foo::<i32>"},
		{"_RNCNvC7mycrate3foo0", "mycrate::foo::{closure#0}"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
		{"_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h"
		 "0123456789abcdefE",
		 "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
		/* D */
		{"_D3std5stdio7writelnFZv", "std.stdio.writeln"},
		{"_D8demangle4testFaZv", "demangle.test"},
		{"_D8demangle3fooMxFiZv", "demangle.foo"},
		{"_D8demangle4testFPFiZiZv", "demangle.test"},
		{"_D8demangle11__T4testTiZ4testFiZv", "demangle.test!(int).test"},
		{"_D8demangle11__T4testTiZ4testi", "demangle.test!(int).test"},
		{"_D8demangle11__T4testTiZi", "demangle.test!(int)"},
		{"_Dmain", "D main"},
		/* as by demangle_name() */
		{"main", NULL},
		{"spin.cold", NULL},
		{"_Z4spini!", NULL},
		{"_ZN3fooE17h0123", NULL},
		{"", NULL},
	};

	(void)state;
	CHECK_SHORT(rows);
}

/* head, then body n times, then tail; malloc'ed. */
static char *repeat(const char *head, const char *body, size_t n, const char *tail)
{
	size_t body_len = strlen(body), at = strlen(head), tail_len = strlen(tail);
	char *s = malloc(at + n * body_len + tail_len + 1);

	assert_non_null(s);
	memcpy(s, head, at);
	for (size_t i = 0; i < n; i++, at += body_len)
		memcpy(s + at, body, body_len);
	memcpy(s + at, tail, tail_len + 1);
	return s;
}

static void test_long(void **state)
{
	char *name, *mangled;

	(void)state;
	mangled = repeat("_RNvC7mycrate8173", "a", 8173, "");
	name = demangle_name(mangled);
	assert_non_null(name);
	assert_int_equal(strlen(name), strlen("mycrate::") + 8173);
	free(name);
	free(mangled);
	mangled = repeat("_RNvC7mycrate8175", "a", 8175, "");
	assert_int_equal(strlen(mangled), 8192);
	name = demangle_name(mangled);
	assert_non_null(name);
	free(name);
	free(mangled);
	/* Eight KiB exactly is still looked at, one more byte is not. */
	mangled = repeat("_RNvC7mycrate8176", "a", 8176, "");
	assert_int_equal(strlen(mangled), 8193);
	assert_null(demangle_name(mangled));
	free(mangled);
}

static void test_deep(void **state)
{
	char *mangled;

	(void)state;
	mangled = repeat("_Z1f", "P", 8000, "i");
	free(demangle_name(mangled)); /* whatever it says, the stack holds */
	free(mangled);
	mangled = repeat("_RINvC1a1f", "R", 8000, "lE");
	assert_null(demangle_name(mangled));
	free(mangled);
	mangled = repeat("_D1f", "A", 8000, "i");
	free(demangle_name(mangled));
	free(mangled);
}

/* n parameters, each of which holds the one before it twice: 2^n names when spelt out; malloc'ed.
 */
static char *doubling(int n)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char mangled[1024];
	size_t at = (size_t)snprintf(mangled, sizeof(mangled), "_Z1f1AIiiE");

	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(mangled + at, sizeof(mangled) - at, "S_IS%c_S%c_E",
				       digits[i], digits[i]);
	return strdup(mangled);
}

static void test_exploding_cplusplus(void **state)
{
	char *mangled, *name;

	(void)state;
	mangled = doubling(35);
	assert_null(demangle_name(mangled));
	free(mangled);
	/* This one is a few hundred KiB: nothing but our own limit refuses it. */
	mangled = doubling(14);
	assert_null(demangle_name(mangled));
	free(mangled);

	/* The same with two is harmless. */
	name = demangle_name("_Z1f1AIiiES_IS0_S0_ES_IS1_S1_E");
	assert_string_equal(name,
			    "f(A<int, int>, A<A<int, int>, A<int, int> >, "
			    "A<A<A<int, int>, A<int, int> >, A<A<int, int>, A<int, int> > >)");
	free(name);
}

/* A type that refers back to itself, by the position of each Q: "B2Q.Q." holds the last one twice.
 */
static void test_exploding_d(void **state)
{
	char mangled[1024] = "_D1fFB2ii", *name;
	size_t last = strlen("_D1fF"), at = strlen(mangled);

	(void)state;
	for (int i = 0; i < 40; i++) {
		size_t here = at;

		mangled[at++] = 'B';
		mangled[at++] = '2';
		for (int k = 0; k < 2; k++) {
			size_t back = at - last;

			assert_true(back < 26);
			mangled[at++] = 'Q';
			mangled[at++] = (char)('a' + back);
		}
		last = here;
	}
	memcpy(mangled + at, "Zv", 3);
	assert_null(demangle_name(mangled));

	/* The same construction, two deep, is understood: the test above refuses a real name. */
	name = demangle_name("_D1fFB2iiB2QeQgB2QgQiZv");
	assert_non_null(name);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cplusplus),   cmocka_unit_test(test_rust),
		cmocka_unit_test(test_d),	    cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_short),	    cmocka_unit_test(test_long),
		cmocka_unit_test(test_deep),	    cmocka_unit_test(test_exploding_cplusplus),
		cmocka_unit_test(test_exploding_d),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
