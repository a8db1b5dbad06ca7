/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "base/strbuf.h"
#include "opts/spec.h"

static void show_point(struct strbuf *sb, const struct gate_point *p)
{
	sb_addf(sb, "%s|%s|%s|%s", point_kind_name(p->kind), p->path ? p->path : "-",
		p->provider ? p->provider : "-", p->func);
	if (p->has_offset)
		sb_addf(sb, "|+%llu", (unsigned long long)p->offset);
}

/* One line for a whole spec, or the reason for its refusal. */
static char *show(const char *text)
{
	struct gate_spec spec;
	struct strbuf sb;
	char why[1024];
	int err;

	memset(&spec, 0x5a, sizeof(spec));
	memset(why, 'x', sizeof(why));
	sb_init(&sb);
	err = gate_spec_parse(text, &spec, why, sizeof(why));
	if (err) {
		struct gate_spec untouched;

		memset(&untouched, 0x5a, sizeof(untouched));
		assert_int_equal(err, -EINVAL);
		assert_memory_equal(&spec, &untouched, sizeof(spec));
		sb_addf(&sb, "error: %s", why);
		return sb_detach(&sb);
	}
	assert_string_equal(spec.text, text);
	show_point(&sb, &spec.begin);
	if (spec.pair) {
		sb_adds(&sb, " .. ");
		show_point(&sb, &spec.end);
	} else {
		assert_null(spec.end.func);
	}
	gate_spec_release(&spec);
	return sb_detach(&sb);
}

static void accepted(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"uprobe:/bin/bash:main", "uprobe|/bin/bash|-|main"},
		{"u:/bin/bash:main", "uprobe|/bin/bash|-|main"},
		{"u:bash:main", "uprobe|bash|-|main"},
		{"u::main", "uprobe|-|-|main"},
		{"u::ns::f", "uprobe|-|-|ns::f"},
		{"u:./app:ns::f(int)..u:./app:ns::g",
		 "uprobe|./app|-|ns::f(int) .. uprobe|./app|-|ns::g"},
		{"u:./app:a::b::c", "uprobe|./app|-|a::b::c"},
		{"u:./a::b:f", "uprobe|./a::b|-|f"},
		{"u:../bin/app:f", "uprobe|../bin/app|-|f"},
		{"u:../bin/app:f..ur:../bin/app:g",
		 "uprobe|../bin/app|-|f .. uretprobe|../bin/app|-|g"},
		{"u:/x/../y/../z:f..u:/x/../y:g", "uprobe|/x/../y/../z|-|f .. uprobe|/x/../y|-|g"},
		{"u:/opt/a..u:main", "uprobe|/opt/a..u|-|main"},
		{"u:/opt/a..u:main..u:/opt/a..u:end",
		 "uprobe|/opt/a..u|-|main .. uprobe|/opt/a..u|-|end"},
		{"u:./a:log(char const*, ...)", "uprobe|./a|-|log(char const*, ...)"},
		{"u:./a:log(...)..u:./a:g", "uprobe|./a|-|log(...) .. uprobe|./a|-|g"},
		{"u:./a:std::to_string[abi:cxx11](int)",
		 "uprobe|./a|-|std::to_string[abi:cxx11](int)"},
		{"u:./a:(anonymous namespace)::f()", "uprobe|./a|-|(anonymous namespace)::f()"},
		{"u:./a:_ZN4core3fmt9Formatter3f..g17hE",
		 "uprobe|./a|-|_ZN4core3fmt9Formatter3f..g17hE"},
		{"u:./a:operator+", "uprobe|./a|-|operator+"},
		{"u:./a:X::operator++", "uprobe|./a|-|X::operator++"},
		{"u:./a:operator+(A const&, B const&)",
		 "uprobe|./a|-|operator+(A const&, B const&)"},
		{"u:./a:f<1+2>..u:./a:operator+=",
		 "uprobe|./a|-|f<1+2> .. uprobe|./a|-|operator+="},
		{"u:./a:f+0x10..u:./a:f+32", "uprobe|./a|-|f|+16 .. uprobe|./a|-|f|+32"},
		{"u:./a:f+0..ur:./a:f", "uprobe|./a|-|f|+0 .. uretprobe|./a|-|f"},
		{"u:./my app:f", "uprobe|./my app|-|f"},
		{"u:./c++/app:f", "uprobe|./c++/app|-|f"},
		{"u:./\xc3\xa4pp:f", "uprobe|./\xc3\xa4pp|-|f"},
		{"kprobe:vfs_read", "kprobe|-|-|vfs_read"},
		{"k:foo.isra.0", "kprobe|-|-|foo.isra.0"},
		{"k:foo.isra.0..kr:bar", "kprobe|-|-|foo.isra.0 .. kretprobe|-|-|bar"},
		{"k:a+0x4..k:a+8", "kprobe|-|-|a|+4 .. kprobe|-|-|a|+8"},
		{"syscall:write", "syscall|-|-|write"},
		{"syscall:read..syscall:write", "syscall|-|-|read .. syscall|-|-|write"},
		{"t:sched:sched_switch..tracepoint:irq:irq_handler_exit",
		 "tracepoint|-|sched|sched_switch .. tracepoint|-|irq|irq_handler_exit"},
		{"U:/lib/libc.so.6:libc:setjmp..usdt::app:done",
		 "usdt|/lib/libc.so.6|libc|setjmp .. usdt|-|app|done"},
		{"U:/a::b:app:x..U:/a:app:y", "error: 'U:/a::b:app:x' has a path with a ':', which "
					      "can't be given: use a symbolic link without one"},
		{"u:a:f..syscall:write", "uprobe|a|-|f .. syscall|-|-|write"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = show(cases[i].text);

		assert_string_equal(got, cases[i].want);
		free(got);
	}
}

static void refused(void **state)
{
	/* the text, and what the reason must say */
	static const struct {
		const char *text, *say[2];
	} cases[] = {
		{"", {"empty", "u:PATH:FUNC"}},
		{"main", {"no probe kind", "u:PATH:FUNC"}},
		{"foo:bar", {"unknown probe kind 'foo'", "syscall"}},
		{"UPROBE:/a:b", {"unknown probe kind 'UPROBE'", "uprobe"}},
		{"fentry:vfs_read", {"kprobe:FUNC", "fentry"}},
		{"software:faults:1", {"-e", "no gate"}},
		{"profile:hz:99", {"-F", "no gate"}},
		{"u:", {"no function", "PATH:FUNC"}},
		{"u:/bin/bash", {"no function", "PATH:FUNC"}},
		{"u:/bin/bash:", {"names no function", ""}},
		{"u::", {"names no function", ""}},
		{"u:/bin/bash:+0x10", {"names no function", ""}},
		{"u:/bin/bash: f", {"blank", ""}},
		{"u:/bin/bash:f ", {"blank", ""}},
		{"u:/a:b:c", {"symbolic link", "':'"}},
		{"u::::f", {"colons", ""}},
		{"u:/a:f+", {"bad offset '+'", "+0x10"}},
		{"u:/a:f+0x", {"bad offset '+0x'", "+0x10"}},
		{"u:/a:f+12q", {"bad offset '+12q'", ""}},
		{"u:/a:f+-4", {"bad offset '+-4'", ""}},
		{"u:/a:f+99999999999999999999", {"bad offset", ""}},
		{"u:/a:f+0x10", {"no natural end", "u:PATH:FUNC+OFF..u:PATH:FUNC+OFF"}},
		{"u:/a:f+0", {"no natural end", ".."}},
		{"k:f+4", {"no natural end", "k:FUNC+OFF..k:FUNC+OFF"}},
		{"ur:/a:f", {"no natural end", "u:PATH:F..ur:PATH:G"}},
		{"ur:/a:f+4..u:/a:g", {"offset to a return", "uprobe:PATH:FUNC+OFF"}},
		{"kr:f", {"no natural end", "k:F..kr:G"}},
		{"kr:f+4..k:g", {"offset to a return", "kprobe:FUNC+OFF"}},
		{"tracepoint:sched:sched_switch",
		 {"'tracepoint:sched:sched_switch' has no natural end: join a begin and an end "
		  "with '..', as in t:sched:A..t:sched:B",
		  ""}},
		{"t:sched", {"not complete", "tracepoint:CATEGORY:NAME"}},
		{"t::x..t:a:b", {"no name of a tracepoint", ""}},
		{"t:sched:..t:a:b", {"'t:sched:' is no name of a tracepoint", ""}},
		{"t:../../etc:passwd..t:a:b", {"no name of a tracepoint", ""}},
		{"t:sched:a/b..t:a:b", {"no name of a tracepoint", ""}},
		{"t:a:b..t:c:d..t:e:f", {"more than two points", "several times"}},
		{"u:/a:b..u:/c:d..u:/e:f", {"more than two points", ""}},
		{"u:/a:f..g", {"no probe after '..'", "u:PATH:FUNC..u:PATH:FUNC"}},
		{"u:/a:f..x:/a:g", {"no probe after '..'", ""}},
		{"u:/a:f..", {"ends in '..'", "closes"}},
		{"..u:/a:f", {"begins with '..'", "opens"}},
		{"u:/bin/a..u:/bin/b:f", {"'u:/bin/a' has no function", "PATH:FUNC"}},
		{"u:/a:f..u:/a", {"'u:/a' has no function", ""}},
		{"k:", {"names no function", ""}},
		{"k:a b", {"no name of a kernel function", ""}},
		{"k:mod:f", {"no name of a kernel function", ""}},
		{"k:a..b", {"no name of a kernel function", ""}},
		{"syscall:", {"names no system call", ""}},
		{"syscall:../x", {"no name of a system call", ""}},
		{"syscall:a:b", {"no name of a system call", ""}},
		{"U:/a:p:n", {"no natural end", "U:PATH:PROVIDER:A..U:PATH:PROVIDER:B"}},
		{"U:/a:n", {"not complete", "usdt:PATH:PROVIDER:NAME"}},
		{"U:n", {"not complete", ""}},
		{"U:/a::n..U:/a:p:n", {"empty provider", "readelf -n"}},
		{"U:/a:p:..U:/a:p:n", {"empty probe name", "readelf -n"}},
		{"U:/a:p!:n..U:/a:p:n", {"other characters", ""}},
		{"u:/a:f\n", {"control byte (0x0a) at position 7", ""}},
		{"u:/\033[2J:f", {"control byte (0x1b) at position 4", ""}},
		{"u:/a:f\177", {"control byte (0x7f)", ""}},
		{"-p", {"is an option", "as in perf"}},
	};
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = show(cases[i].text);

		if (strncmp(got, "error: ", 7))
			fail_msg("'%s' was accepted: %s", cases[i].text, got);
		for (j = 0; j < 2; j++)
			if (!strstr(got, cases[i].say[j]))
				fail_msg("'%s': '%s' lacks '%s'", cases[i].text, got,
					 cases[i].say[j]);
		/* a reason never carries control bytes to the terminal */
		for (j = 0; got[j]; j++)
			assert_true((unsigned char)got[j] >= 0x20 && got[j] != 0x7f);
		free(got);
	}
}

static void long_texts(void **state)
{
	struct gate_spec spec;
	struct strbuf sb;
	char why[64];
	int i;

	(void)state;
	sb_init(&sb);
	sb_adds(&sb, "u:/");
	for (i = 0; i < 5000; i++)
		sb_addc(&sb, 'a');
	sb_adds(&sb, ":f");
	assert_int_equal(gate_spec_parse(sb_str(&sb), &spec, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "a path of the gate is longer than 4095 bytes");

	/* the reason is cut, not overrun; and no room at all is fine */
	sb_reset(&sb);
	for (i = 0; i < 8191; i++)
		sb_adds(&sb, "..u:");
	memset(why, 'x', sizeof(why));
	assert_int_equal(gate_spec_parse(sb_str(&sb) + 2, &spec, why, 16), -EINVAL);
	assert_int_equal(strlen(why), 15);
	assert_int_equal(why[16], 'x');
	assert_int_equal(gate_spec_parse("", &spec, NULL, 0), -EINVAL);
	for (i = 0; i < 10; i++)
		sb_adds(&sb, "..u:");
	assert_int_equal(gate_spec_parse(sb_str(&sb) + 2, &spec, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "the gate is longer than 32768 bytes");
	sb_release(&sb);
}

static void perf_flags(void **state)
{
	(void)state;
	assert_true(gate_spec_looks_like_perf_flag("-p"));
	assert_true(gate_spec_looks_like_perf_flag("--"));
	assert_true(gate_spec_looks_like_perf_flag("-p123"));
	assert_false(gate_spec_looks_like_perf_flag("u:-p:f"));
	assert_false(gate_spec_looks_like_perf_flag(""));
	assert_false(gate_spec_looks_like_perf_flag(NULL));
}

static void release_twice(void **state)
{
	struct gate_spec spec;

	(void)state;
	assert_int_equal(gate_spec_parse("u:/a:f", &spec, NULL, 0), 0);
	gate_spec_release(&spec);
	gate_spec_release(&spec);
	gate_spec_release(NULL);
}

/* A point alone needs no natural end; whatever else is wrong is refused as ever. */
static void points(void **state)
{
	static const char *const fine[] = {
		"u:/a:f",	"u:/a:f+4",	     "ur:/a:f",
		"kr:f",		"U:/a:p:n",	     "t:sched:sched_switch",
		"syscall:read", "u::std::f(int...)",
	};
	static const char *const bad[] = {
		"u:/a:f..u:/a:g", "t:a:b..t:c:d..t:e:f", "u:/a:f..", "..u:/a:f", "f", "", "-p",
	};
	struct gate_spec spec = {};
	char why[256];

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		if (gate_spec_parse_point(fine[i], &spec, why, sizeof(why)))
			fail_msg("%s: %s", fine[i], why);
		assert_string_equal(spec.text, fine[i]);
		assert_non_null(spec.begin.func);
		assert_null(spec.end.func);
		assert_false(spec.pair);
		gate_spec_release(&spec);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = '\0';
		if (gate_spec_parse_point(bad[i], &spec, why, sizeof(why)) != -EINVAL)
			fail_msg("%s was accepted", bad[i]);
		assert_true(why[0]);
		assert_null(spec.text);
	}
	assert_int_equal(gate_spec_parse_point("u:/a:f..u:/a:g", &spec, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "is a pair: one point is expected here"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted),	 cmocka_unit_test(refused),
		cmocka_unit_test(long_texts),	 cmocka_unit_test(perf_flags),
		cmocka_unit_test(release_twice), cmocka_unit_test(points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
