/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/strbuf.h"
#include "filter/filter_parse.h"

static int find_name(void *arg, const char *name, uint64_t *id)
{
	(void)arg;
	if (!strcmp(name, "busy"))
		return -EAGAIN;
	if (strcmp(name, "root") && strcmp(name, "/a/b.slice") && strcmp(name, "user.slice"))
		return -ENOENT;
	*id = name[0] == 'r' ? 0 : name[0] == '/' ? 77 : 78;
	return 0;
}

static const struct filter_names names = {
	.user = find_name, .group = find_name, .cgroup = find_name};

static void show_leaf(struct strbuf *sb, const struct filter_leaf *leaf)
{
	unsigned long long value = leaf->value;

	switch (leaf->op) {
	case FILTER_OP_NUMBER:
		sb_addf(sb, "%s%s%s%llu", filter_field_info(leaf->field)->name,
			leaf->field == FILTER_F_ELAPSED ? "'" : "", filter_cmp_text(leaf->cmp),
			value);
		break;
	case FILTER_OP_SET:
		sb_addf(sb, "%s%s{", filter_field_info(leaf->field)->name,
			leaf->field == FILTER_F_ELAPSED ? "'" : "");
		for (size_t i = 0; i < leaf->n_ranges; i++)
			sb_addf(sb, "%s%llu-%llu", i ? " " : "",
				(unsigned long long)leaf->ranges[i].low,
				(unsigned long long)leaf->ranges[i].high);
		sb_adds(sb, "}");
		break;
	case FILTER_OP_EVERY:
		sb_addf(sb, "every%llu", value);
		break;
	default:
		sb_addf(sb, "%s%s%s",
			leaf->op == FILTER_OP_COMM ? "comm" : filter_ask_info(leaf->ask)->text,
			leaf->cmp == FILTER_NE ? "!" : "", leaf->glob ? "~" : "=");
		for (size_t i = 0; i < leaf->n_names; i++)
			sb_addf(sb, "<%s>", leaf->names[i]);
		if (value)
			sb_addf(sb, "%llu", value);
		break;
	}
}

static void show_node(struct strbuf *sb, const struct filter_node *node)
{
	static const char *const signs[] = {
		[FILTER_NODE_NOT] = "!", [FILTER_NODE_AND] = "&", [FILTER_NODE_OR] = "|"};

	if (node->kind == FILTER_NODE_TERM) {
		show_leaf(sb, &node->leaf);
		return;
	}
	sb_addf(sb, "(%s", signs[node->kind]);
	for (size_t i = 0; i < node->n_kids; i++) {
		sb_adds(sb, " ");
		show_node(sb, node->kids[i]);
	}
	sb_adds(sb, ")");
}

/* The tree, or the message of the refusal. */
static char *show(const char *text)
{
	struct filter_expr *const untouched = (void *)&names;
	struct filter_expr *expr = untouched;
	struct failure f = {0};
	struct strbuf sb;
	int err = filter_parse(text, &names, &expr, &f);

	sb_init(&sb);
	if (err) {
		assert_int_equal(err, -EINVAL);
		assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		assert_ptr_equal(expr, untouched);
		sb_addf(&sb, "error: %s", f.text);
		return sb_detach(&sb);
	}
	assert_string_equal(expr->text, text);
	assert_true(expr->n_terms >= 1 && expr->n_terms <= FILTER_MAX_TERMS);
	for (size_t i = 0; i < expr->n_terms; i++)
		assert_int_equal(expr->terms[i]->number, i);
	show_node(&sb, expr->root);
	filter_expr_free(expr);
	return sb_detach(&sb);
}

struct pair {
	const char *text, *want;
};

static void check(const struct pair *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *got = show(cases[i].text);

		if (strcmp(got, cases[i].want))
			fail_msg("'%s': want %s, got %s", cases[i].text, cases[i].want, got);
		free(got);
	}
}

#define CHECK(cases) check(cases, sizeof(cases) / sizeof((cases)[0]))

static void precedence(void **state)
{
	static const struct pair cases[] = {
		{"user", "user!=0"},
		{"kernel", "user==0"},
		{"user && idle || kernel", "(| (& user!=0 idle!=0) user==0)"},
		{"user || idle && kernel", "(| user!=0 (& idle!=0 user==0))"},
		{"(user || idle) && kernel", "(& (| user!=0 idle!=0) user==0)"},
		{"user && idle && kernel", "(& user!=0 idle!=0 user==0)"},
		{"user || idle || kernel", "(| user!=0 idle!=0 user==0)"},
		/* perf's comma binds least */
		{"user || idle, kernel", "(& (| user!=0 idle!=0) user==0)"},
		{"user, idle || kernel", "(& user!=0 (| idle!=0 user==0))"},
		{"user, idle && kernel", "(& user!=0 (& idle!=0 user==0))"},
		{"user, idle, kernel", "(& user!=0 idle!=0 user==0)"},
		{"(user, idle) || kernel", "(| (& user!=0 idle!=0) user==0)"},
		{"!user && idle", "(& (! user!=0) idle!=0)"},
		{"!(user && idle)", "(! (& user!=0 idle!=0))"},
		{"!!user", "user!=0"},
		{"!!!user", "(! user!=0)"},
		{"!(!user)", "user!=0"},
		{"!(!(!(user)))", "(! user!=0)"},
		{"((user))", "user!=0"},
		{"user&&idle", "(& user!=0 idle!=0)"},
		{"mem_op&2&&user", "(& mem_op&2 user!=0)"},
		{"\tuser \n&& idle ", "(& user!=0 idle!=0)"},
	};

	(void)state;
	CHECK(cases);
}

static void terms(void **state)
{
	static const struct pair cases[] = {
		{"pid == 1", "pid==1"},
		{"pid != 0x10", "pid!=16"},
		{"tid < 5", "tid<5"},
		{"ppid <= 4194304", "ppid<=4194304"},
		{"cpu > 0", "cpu>0"},
		{"prio >= 139", "prio>=139"},
		{"txn & 3", "txn&3"},
		{"ip>0xffffffffffffffff", "ip>18446744073709551615"},
		{"pid in {1,2}", "pid{1-1 2-2}"},
		{"pid in {2..5 , 9}", "pid{2-5 9-9}"},
		{"cpu in 0..3", "cpu{0-3}"},
		{"cpu in 3..3", "cpu{3-3}"},
		{"ip in 0x10..0x20", "ip{16-32}"},
		{"policy in {fifo, rr}", "policy{1-1 2-2}"},
		{"pid under 7", "pid under=7"},
		{"comm == \"a b\"", "comm=<a b>"},
		{"comm == \"\"", "comm=<>"},
		{"comm != 'x\"y'", "comm!=<x\"y>"},
		{"comm == \"x\\\"y\\\\\"", "comm=<x\"y\\>"},
		{"comm ~ \"nginx*\"", "comm~<nginx*>"},
		{"comm !~ \"a\\*?\"", "comm!~<a\\*?>"},
		{"!comm ~ \"a\"", "(! comm~<a>)"},
		{"comm in {\"a\", \"b*\"}", "comm=<a><b*>"},
		{"exe == \"/bin/a\"", "exe=</bin/a>"},
		{"exe !~ \"*/a\"", "exe!~<*/a>"},
		{"cgroup == 12", "cgroup==12"},
		{"cgroup == \"/a/b.slice\"", "cgroup==77"},
		{"cgroup == /a/b.slice, pid > 3", "(& cgroup==77 pid>3)"},
		{"cgroup != user.slice||user", "(| cgroup!=78 user!=0)"},
		{"cgroup in {/a/b.slice, 3..4, user.slice}", "cgroup{77-77 3-4 78-78}"},
		{"cgroup under \"/a\"", "cgroup under=</a>"},
		{"(cgroup under /a/b)", "cgroup under=</a/b>"},
		{"uid == root", "uid==0"},
		{"gid == \"root\"", "gid==0"},
		{"uid == 4294967295", "uid==4294967295"},
		{"policy == fifo", "policy==1"},
		{"policy == idle || idle", "(| policy==5 idle!=0)"},
		{"policy != 6", "policy!=6"},
		{"time > 5", "time>5"},
		{"time > 5s", "time'>5000000000"},
		{"time in 1s..1.5s", "time'{1000000000-1500000000}"},
		{"time in {1..2, 3}", "time{1-2 3-3}"},
		{"code_pgsz == 4K", "code_pgsz==4096"},
		{"data_pgsz >= 2M", "data_pgsz>=2097152"},
		{"data_pgsz >= 0x1000", "data_pgsz>=4096"},
		{"ip in \"main\"", "ip in SYMBOL=<main>"},
		{"ip in \"ns::f(int)\"", "ip in SYMBOL=<ns::f(int)>"},
		{"ip in DSO \"libc*\"", "ip in DSO~<libc*>"},
		{"ip in dso \"vdso\"", "ip in DSO~<vdso>"},
		{"stack has \"SSL_*\"", "stack has~<SSL_*>"},
		{"inside \"u:/bin/bash:main\"", "inside=<u:/bin/bash:main>"},
		{"irqs_off && preempt_off && branches",
		 "(& irqs_off!=0 preempt_off!=0 branches!=0)"},
		{"runq > 2", "runq>2"},
		{"every 100", "every100"},
		{"random 0", "random<0"},
		{"random 1", "random<4294967296"},
		{"random 0.5", "random<2147483648"},
		{"random 0.3", "random<1288490189"},
		{"random 100%", "random<4294967296"},
		{"random 0.1%", "random<4294967"},
		{"random 0.000000001", "random<4"},
		{"random 0.00000001%", "random<1"},
	};

	(void)state;
	CHECK(cases);
}

/* From perf-record(1) and perf's own tests of it, and every name that its filters know. */
static void perfs_own(void **state)
{
	static const struct pair cases[] = {
		{"period > 1000", "period>1000"},
		{"period > 1000, ip < 0x7fffffff0000", "(& period>1000 ip<140737488289792)"},
		{"ip > 0xffffffff80000000", "ip>18446744071562067968"},
		{"mem_op == load || mem_op == store, mem_lvl > l1",
		 "(& (| mem_op==2 mem_op==4) mem_lvl>1)"},
		{"period > 1000, cpu == 1", "(& period>1000 cpu==1)"},
		{"mem_op == load || mem_op == store, ip > 0x8000000000000000",
		 "(& (| mem_op==2 mem_op==4) ip>9223372036854775808)"},
		{"ip < 0xffffffff00000000", "ip<18446744069414584320"},
		{"period > 1000 || ip > 0", "(| period>1000 ip>0)"},
		{"period > 0 || code_pgsz > 4096", "(| period>0 code_pgsz>4096)"},
		{"mem_lvl == l0", "mem_lvl==7"},
		{"period > 1000,cpu == 1||cpu == 3", "(& period>1000 (| cpu==1 cpu==3))"},
		{"uid == 0", "uid==0"},
		{"id == 3, tid != 4, pid >= 5, cpu <= 6, time < 7, addr & 8",
		 "(& id==3 tid!=4 pid>=5 cpu<=6 time<7 addr&8)"},
		{"txn > 0, weight > 1, phys_addr > 2, code_pgsz == 4096, data_pgsz == 0x1000",
		 "(& txn>0 weight>1 phys_addr>2 code_pgsz==4096 data_pgsz==4096)"},
		{"weight1 > 1, weight2 > 2, weight3 > 3", "(& weight1>1 weight2>2 weight3>3)"},
		{"ins_lat > 1, p_stage_cyc > 2, retire_lat > 3",
		 "(& weight2>1 weight3>2 weight3>3)"},
		{"mem_op == na || mem_op == pfetch || mem_op == exec",
		 "(| mem_op==1 mem_op==8 mem_op==16)"},
		{"mem_lvlnum == l2", "mem_lvl==2"},
		{"mem_lvl == l3 || mem_lvl == l4 || mem_lvl == cxl || mem_lvl == io",
		 "(| mem_lvl==3 mem_lvl==4 mem_lvl==9 mem_lvl==10)"},
		{"mem_lvl == any_cache || mem_lvl == lfb || mem_lvl == ram || mem_lvl == pmem",
		 "(| mem_lvl==11 mem_lvl==12 mem_lvl==13 mem_lvl==14)"},
		{"mem_snoop == na || mem_snoop == none || mem_snoop == hit || mem_snoop == miss",
		 "(| mem_snoop==1 mem_snoop==2 mem_snoop==4 mem_snoop==8)"},
		/* above the five bits of mem_snoop, where the kernel's value has them */
		{"mem_snoop == hitm || mem_snoop == fwd || mem_snoop == peer",
		 "(| mem_snoop==16 mem_snoop==32 mem_snoop==64)"},
		{"mem_remote == remote, mem_lock == na || mem_lock == locked",
		 "(& mem_remote==1 (| mem_lock==1 mem_lock==2))"},
		{"mem_dtlb == l1_hit || mem_dtlb == l1_miss || mem_dtlb == l2_hit",
		 "(| mem_dtlb==10 mem_dtlb==12 mem_dtlb==18)"},
		{"mem_dtlb == l2_miss || mem_dtlb & any_hit || mem_dtlb & any_miss",
		 "(| mem_dtlb==20 mem_dtlb&2 mem_dtlb&4)"},
		{"mem_dtlb == na || mem_dtlb & walk || mem_dtlb & os || mem_dtlb & fault",
		 "(| mem_dtlb==1 mem_dtlb&32 mem_dtlb&64 mem_dtlb&64)"},
		{"mem_blk == na || mem_blk == by_data || mem_blk == by_addr",
		 "(| mem_blk==1 mem_blk==2 mem_blk==4)"},
		{"mem_hops == hops0 || mem_hops == hops1 || mem_hops == hops2 || mem_hops == hops3",
		 "(| mem_hops==1 mem_hops==2 mem_hops==3 mem_hops==4)"},
		{"uid != 1000, gid == 0X10", "(& uid!=1000 gid==16)"},
		{"cgroup == /a/b.slice", "cgroup==77"},
	};

	(void)state;
	CHECK(cases);
}

static void refused(void **state)
{
	static const struct {
		const char *text;
		size_t column;
		const char *say;
	} cases[] = {
		{"", 1, "the filter is empty"},
		{"  ", 1, "the filter is empty"},
		{"foo > 3", 1, "unknown term 'foo'"},
		{"user && pidd == 3", 9, "unknown term 'pidd'; nearest: pid"},
		{"mem_loc == 1", 1, "nearest: mem_lock"},
		{"PID == 1", 1, "unknown term 'PID'; nearest: pid"},
		{"comm == \"abc", 9, "a string that does not end"},
		{"comm == \"abc\\\"", 9, "a string that does not end"},
		{"comm == 'abc\"", 9, "a string that does not end"},
		{"comm == \"a\nb\"", 11, "a control byte inside of a string"},
		{"user \001", 6, "a control byte"},
		{"comm == abc", 9, "a name for comm is a string: write it in quotes"},
		{"comm == \"0123456789abcdef\"", 9, "comm has at most 15 bytes"},
		{"comm ~ \"????????????????*\"", 8, "comm has at most 15 bytes"},
		{"comm ~ \"[a\"", 8, "'[' without its ']'"},
		{"comm ~ \"a\\\\\\\\\\\"", 8, "a string that does not end"},
		{"comm ~ \"[[:foo:]]\"", 8, "a character class that does not exist"},
		{"comm ~ \"[z-a]\"", 8, "a range in brackets whose end comes before"},
		{"comm < \"a\"", 6, "'<' where ==, !=, ~, !~ or in should be"},
		{"comm in \"a\"", 9, "a set, as in comm in"},
		{"comm in {}", 10, "'}' where a name for comm should be"},
		{"exe in {\"a\"}", 5, "==, !=, ~ or !~"},
		{"exe == \"\"", 8, "an empty string"},
		{"stack \"a\"", 7, "'has', as in stack has"},
		{"stack has \"\"", 11, "an empty string"},
		{"inside \"u:foo\"", 8, "'u:foo' has no function"},
		{"pid = 3", 5, "a single '=': write =="},
		{"comm =~ \"a\"", 6, "'=~': write ~"},
		{"not user", 1, "'not': write !"},
		{"user and idle", 6, "'and' where &&, || or ','"},
		{"user | idle", 6, "write ||"},
		{"user & idle", 6, "user is a term of its own"},
		{"user == 1", 6, "write user or !user"},
		{"pid == -1", 8, "numbers are not negative"},
		{"pid == 4194305", 8, "pid is out of range: it is 0 to 4194304"},
		{"pid == 18446744073709551616", 8, "out of range"},
		{"ip == 0x10000000000000000", 7, "out of range"},
		{"mem_op == 32", 11, "mem_op is out of range: it is 0 to 31"},
		{"weight2 > 65536", 11, "out of range"},
		{"prio == 140", 9, "it is 0 to 139"},
		{"cpu in 0..1048576", 11, "out of range"},
		{"pid == 12q", 8, "'12q' is no number"},
		{"pid == 0x", 8, "'0x' is no number"},
		{"pid == 1.5", 8, "'1.5' is no number"},
		{"pid == 5s", 8, "'5s' is no number"},
		{"pid == 00000000000000000000000000000000000000000000000000000000000000001", 8,
		 "a number of 65 characters"},
		{"time > 5x", 8, "'5x' is no time: write 5s or 20ms"},
		{"code_pgsz == 4Q", 14, "'4Q' is no size"},
		{"time in {5, 7s}", 13, "times with and without a unit"},
		{"time in {5s, 7}", 14, "times with and without a unit"},
		{"time in 5s..7", 13, "times with and without a unit"},
		{"pid in 3", 9, "'..' of a range"},
		{"pid in 5..3", 8, "a range whose end is below its beginning"},
		{"pid in {}", 9, "'}' where a number should be"},
		{"pid in {1,}", 11, "'}' where a number should be"},
		{"pid in {1 2}", 11, "'2' where ',' or '}' should be"},
		{"pid in {1", 10, "the filter ends where ',' or '}' should be"},
		{"pid ~ \"1*\"", 5, "pid is a number and has no globs"},
		{"pid", 4, "the filter ends where a comparison, in or under of pid should be"},
		{"pid under 0", 11, "out of range"},
		{"tid under 3", 5, "'under' where a comparison or in of tid should be"},
		{"mem_lvl == l5", 12, "mem_lvl has no value 'l5'; nearest: l0"},
		{"mem_remote == x", 15, "it is one of remote"},
		{"policy == fif", 11, "nearest: fifo"},
		{"uid == nobody", 8, "there is no user 'nobody'"},
		{"gid == nobody", 8, "there is no group 'nobody'"},
		{"cgroup == /nobody", 11, "there is no cgroup '/nobody'"},
		{"uid == busy", 8, "can't be looked up: "},
		{"every 0", 7, "every is out of range: it is 1 to"},
		{"every", 6, "the filter ends where every should be"},
		{"random 1.1", 8, "a probability is 0 to 1"},
		{"random 101%", 8, "a probability is 0 to 1"},
		{"random 0.12345678901", 8, "at most nine digits"},
		{"random 1.2.3", 8, "is no probability"},
		{"random", 7, "a probability, as in"},
		{"(user", 1, "a '(' without its ')'"},
		{"user)", 5, "a ')' without its '('"},
		{"()", 2, "')' where a term should be"},
		{"user &&", 8, "the filter ends where a term should be"},
		{"&& user", 1, "'&&' where a term should be"},
		{"user idle", 6, "'idle' where &&, || or ',' should be"},
		{"(user idle)", 7, "'idle' where &&, ||, ',' or ')' should be"},
		{"user,", 6, "the filter ends where a term should be"},
		{"!", 2, "the filter ends where a term should be"},
		{"3 == pid", 1, "'3' where a term should be"},
		{"comm == \"\xc3\xa4\xc3\xb6\" && foo", 17, "unknown term 'foo'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = show(cases[i].text), want[64], *line;
		size_t caret;

		snprintf(want, sizeof(want), "error: filter, column %zu: ", cases[i].column);
		if (strncmp(got, want, strlen(want)) || !strstr(got, cases[i].say))
			fail_msg("'%s': want '%s...%s', got '%s'", cases[i].text, want,
				 cases[i].say, got);
		/* three lines, and the caret below the column */
		line = strchr(got, '\n');
		assert_non_null(line);
		line = strchr(line + 1, '\n');
		assert_non_null(line);
		assert_null(strchr(line + 1, '\n'));
		caret = strspn(line + 1, " ");
		assert_string_equal(line + 1 + caret, "^");
		if (caret != cases[i].column - 1 + 2)
			fail_msg("'%s': the caret is in the wrong place: %s", cases[i].text, got);
		free(got);
	}
}

static void no_names(void **state)
{
	struct filter_expr *expr = NULL;
	struct failure f = {0};

	(void)state;
	assert_int_equal(filter_parse("uid == root", NULL, &expr, &f), -EINVAL);
	assert_non_null(strstr(f.text, "can't be looked up here"));
	assert_int_equal(filter_parse("uid == root", NULL, &expr, NULL), -EINVAL);
	assert_int_equal(filter_parse("uid == 0", NULL, &expr, NULL), 0);
	filter_expr_free(expr);
	filter_expr_free(NULL);
}

/* n times before, the middle, n times after. */
static char *nested(const char *before, size_t n, const char *middle, const char *after)
{
	struct strbuf sb;

	sb_init(&sb);
	for (size_t i = 0; i < n; i++)
		sb_adds(&sb, before);
	sb_adds(&sb, middle);
	for (size_t i = 0; i < n; i++)
		sb_adds(&sb, after);
	return sb_detach(&sb);
}

static void limits(void **state)
{
	static const struct {
		const char *before;
		size_t n;
		const char *middle, *after, *want;
	} cases[] = {
		{"(", FILTER_MAX_DEPTH, "user", ")", "user!=0"},
		{"(", FILTER_MAX_DEPTH + 1, "user", ")",
		 "error: filter, column 129: parentheses are nested deeper than 128"},
		{"(", 10000, "user", ")",
		 "error: filter, column 129: parentheses are nested deeper than 128"},
		{"!(", FILTER_MAX_DEPTH, "user", ")", "user!=0"},
		{"!(", 10000, "user", ")",
		 "error: filter, column 258: parentheses are nested deeper than 128"},
		{"!", 10001, "user", "", "(! user!=0)"},
		{"(", 10000, "", "", "error: filter, column 129: parentheses are nested"},
		{"user && ", 63, "user", "", "(& user!=0"},
		{"user && ", 64, "user", "", "error: filter, column 513: more than 64 terms"},
		{"user, ", 5000, "user", "", "error: filter, column 385: more than 64 terms"},
		{"pid == ", 1, "7", " ", "pid==7"},
		{" ", 65532, "user", "", "user!=0"},
		{" ", 65533, "user", "", "error: the filter is longer than 65536 bytes"},
		{"", 0, "comm in {\"a\"", "", "error: filter, column 13: the filter ends"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = nested(cases[i].before, cases[i].n, cases[i].middle, cases[i].after);
		char *got = show(text);

		if (strncmp(got, cases[i].want, strlen(cases[i].want)))
			fail_msg("case %zu: want %s, got %s", i, cases[i].want, got);
		/* whatever is typed, the message stays short */
		assert_true(*got != 'e' || strlen(got) < 400);
		free(got);
		free(text);
	}
}

/* A set, a filter's sets and its names each have a limit, exactly. */
static void set_limits(void **state)
{
	struct filter_expr *expr = NULL;
	struct failure f;
	struct strbuf sb;

	(void)state;
	sb_init(&sb);
	for (unsigned int n = FILTER_MAX_SET; n <= FILTER_MAX_SET + 1; n++) {
		sb_reset(&sb);
		for (unsigned int i = 0; i < n; i++)
			sb_addf(&sb, "%s%u", i ? "," : "pid in {", i * 2);
		sb_adds(&sb, "}");
		if (n == FILTER_MAX_SET) {
			assert_int_equal(filter_parse(sb_str(&sb), NULL, &expr, &f), 0);
			assert_int_equal(expr->terms[0]->n_ranges, FILTER_MAX_SET);
			filter_expr_free(expr);
		} else {
			assert_int_equal(filter_parse(sb_str(&sb), NULL, &expr, &f), -EINVAL);
			assert_non_null(strstr(f.text, "a set has at most 256 elements"));
		}
	}
	/* Both sets of 256 fit, and then not one more. */
	sb_reset(&sb);
	for (unsigned int i = 0; i < FILTER_MAX_RANGES; i++)
		sb_addf(&sb, "%s%u",
			i % FILTER_MAX_SET ? ","
			: i		   ? "} || pid in {"
					   : "pid in {",
			i);
	sb_adds(&sb, "}");
	assert_int_equal(filter_parse(sb_str(&sb), NULL, &expr, &f), 0);
	filter_expr_free(expr);
	sb_adds(&sb, " || cpu in 1..2");
	assert_int_equal(filter_parse(sb_str(&sb), NULL, &expr, &f), -EINVAL);
	assert_non_null(strstr(f.text, "all sets of a filter together 512"));

	for (unsigned int n = FILTER_MAX_GLOBS; n <= FILTER_MAX_GLOBS + 1; n++) {
		sb_reset(&sb);
		for (unsigned int i = 0; i < n; i++)
			sb_addf(&sb, "%s\"%u\"", i ? "," : "comm in {", i);
		sb_adds(&sb, "}");
		assert_int_equal(filter_parse(sb_str(&sb), NULL, &expr, &f),
				 n == FILTER_MAX_GLOBS ? 0 : -EINVAL);
		if (n == FILTER_MAX_GLOBS)
			filter_expr_free(expr);
		else
			assert_non_null(strstr(f.text, "more than 64 names"));
	}
	sb_release(&sb);
}

/* A long filter is shown around the error only, and the caret is still right. */
static void long_lines(void **state)
{
	struct filter_expr *expr = NULL;
	struct failure f = {0};
	struct strbuf sb;
	char *second, *third;

	(void)state;
	sb_init(&sb);
	for (int i = 0; i < 30; i++)
		sb_addf(&sb, "comm != \"\xc3\xa4%d\" && ", i);
	sb_adds(&sb, "wrong > 3");
	for (int i = 0; i < 30; i++)
		sb_addf(&sb, " && pid != %d", i);
	assert_int_equal(filter_parse(sb_str(&sb), NULL, &expr, &f), -EINVAL);
	second = strchr(f.text, '\n') + 1;
	third = strchr(second, '\n') + 1;
	assert_int_equal(strncmp(second, "  ...", 5), 0);
	assert_non_null(strstr(second, "...\n"));
	assert_true(third - second < 110);
	/* columns before "wrong": bytes that begin a character */
	size_t column = 0;
	for (const char *s = second; s < strstr(second, "wrong"); s++)
		column += ((unsigned char)*s & 0xc0) != 0x80;
	assert_int_equal(strspn(third, " "), column);
	sb_release(&sb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(precedence), cmocka_unit_test(terms),
		cmocka_unit_test(perfs_own),  cmocka_unit_test(refused),
		cmocka_unit_test(no_names),   cmocka_unit_test(limits),
		cmocka_unit_test(set_limits), cmocka_unit_test(long_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
