/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Expectations of programs that test: one that is wrong is said, and the test
 * goes on; each test ends with a line of its own.
 */

#ifndef EXPECT_H
#define EXPECT_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* How many expectations of the running test were wrong. */
static int failures;

static void expect(bool is_so, const char *what, const char *why, int line)
{
	if (is_so)
		return;
	printf("| line %d: %s: %s\n", line, what, why);
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
	for (int i = 0; i < count; i++) {
		failures = 0;
		tests[i].run();
		if (failures)
			printf("not ok %s see above\n", tests[i].name);
		else
			printf("ok %s\n", tests[i].name);
		fflush(stdout);
	}
}

#endif
