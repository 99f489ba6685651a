/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Expectations of test programs, with results as KTAP. A failed expectation
 * prints a diagnostic line, and the test continues.
 */

#ifndef EXPECT_H
#define EXPECT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Name of the running test, and number of its failed expectations. */
static const char *running;
static int failures;

static void expect(bool is_so, const char *what, const char *why, int line)
{
	if (is_so)
		return;
	printf("# %s: line %d: %s: %s\n", running, line, what, why);
	failures++;
}

static void expect_answer(int want, int answer, const char *what, int line)
{
	expect(want == answer, what, strerror(answer), line);
}

#define EXPECT(condition) expect(condition, #condition, "not so", __LINE__)
#define EXPECT_ANSWER(want, answer) \
	expect_answer(want, answer, #answer, __LINE__)

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST(name) { #name, name }

static void run_tests(const struct test *tests, int count)
{
	printf("KTAP version 1\n# Subtest: %s\n1..%d\n",
	       program_invocation_short_name, count);
	fflush(stdout);
	for (int i = 0; i < count; i++) {
		failures = 0;
		running = tests[i].name;
		tests[i].run();
		printf("%s %d %s\n", failures ? "not ok" : "ok", i + 1, running);
		fflush(stdout);
	}
}

#endif
