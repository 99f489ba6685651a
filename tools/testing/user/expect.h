/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Expectations of test programs, and a runner that prints their results as KTAP.
 * A failed expectation prints a diagnostic line, and the test continues.
 */

#ifndef EXPECT_H
#define EXPECT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Name of the running test, and the number of its expectations that failed */
static const char *running;
static int failures;

static void expect(bool condition, const char *what, const char *why, int line)
{
	if (condition)
		return;
	printf("# %s: line %d: %s: %s\n", running, line, what, why);
	failures++;
}

static void expect_result(int expected, int actual, const char *what, int line)
{
	expect(expected == actual, what, strerror(actual), line);
}

#define EXPECT(condition) expect(condition, #condition, "false", __LINE__)
#define EXPECT_RESULT(expected, actual) \
	expect_result(expected, actual, #actual, __LINE__)

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
