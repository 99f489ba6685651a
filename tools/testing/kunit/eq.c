// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EQ 1 to 4: reading, writing, waiting. Events of connections are in
 * eq_cm.c, the handler is in eq_handler.c.
 */

#include <linux/delay.h>
#include <linux/workqueue.h>

#include "fixture.h"

static struct fid_eq *open_eq(struct kunit *test, struct fi_eq_attr attr)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fid_fabric *fabric = fx_fabric(test, info);
	struct fid_eq *eq;

	KUNIT_ASSERT_EQ(test, fi_eq_open(fabric, &attr, &eq, NULL), 0);
	fx_defer_close(test, &eq->fid);
	return eq;
}

static const struct fi_eq_attr writable = {
	.flags = FI_WRITE,
	.wait_obj = FI_WAIT_UNSPEC,
};

#define EXPECT_WRITE(test, eq, number, text)				\
	KUNIT_EXPECT_EQ(test, fi_eq_write(eq, number, text,		\
					  sizeof(text), 0), sizeof(text))

static void eq_01_read_takes_one_event(struct kunit *test)
{
	struct fid_eq *eq = open_eq(test, writable);
	char buf[64] = {};
	u32 event;

	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf), 0),
			-FI_EAGAIN);
	EXPECT_WRITE(test, eq, 77, "first");
	EXPECT_WRITE(test, eq, FI_NOTIFY, "the second");

	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf), 0),
			sizeof("first"));
	KUNIT_EXPECT_EQ(test, event, 77);
	KUNIT_EXPECT_STREQ(test, buf, "first");
	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf), 0),
			sizeof("the second"));
	KUNIT_EXPECT_EQ(test, event, FI_NOTIFY);
	KUNIT_EXPECT_STREQ(test, buf, "the second");
	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf), 0),
			-FI_EAGAIN);
}

static void eq_01_readerr_without_error_is_eagain(struct kunit *test)
{
	struct fid_eq *eq = open_eq(test, writable);
	struct fi_eq_err_entry error = {};

	KUNIT_EXPECT_EQ(test, fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
	EXPECT_WRITE(test, eq, 1, "no error");
	KUNIT_EXPECT_EQ(test, fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
}

static void eq_01_peek_does_not_consume(struct kunit *test)
{
	struct fid_eq *eq = open_eq(test, writable);
	char buf[64] = {};
	u32 event = 0;

	EXPECT_WRITE(test, eq, 5, "stays");
	for (int i = 0; i < 3; i++) {
		memset(buf, 0, sizeof(buf));
		KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf),
						 FI_PEEK), sizeof("stays"));
		KUNIT_EXPECT_EQ(test, event, 5);
		KUNIT_EXPECT_STREQ(test, buf, "stays");
	}
	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, buf, sizeof(buf), 0,
					  FI_PEEK), sizeof("stays"));
	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf), 0),
			sizeof("stays"));
	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, buf, sizeof(buf), FI_PEEK),
			-FI_EAGAIN);
}

static void eq_02_a_short_buffer_keeps_the_event(struct kunit *test)
{
	struct fid_eq *eq = open_eq(test, writable);
	char buf[8] = "intact";
	u32 event = 99;

	EXPECT_WRITE(test, eq, 3, "length9!");
	for (size_t len = 0; len <= sizeof(buf); len++)
		KUNIT_EXPECT_EQ_MSG(test, fi_eq_read(eq, &event, buf, len, 0),
				    -FI_ETOOSMALL, "space for %zu", len);
	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, buf, sizeof(buf), 0, 0),
			-FI_ETOOSMALL);
	KUNIT_EXPECT_EQ_MSG(test, event, 99, "the event number is unchanged");
	KUNIT_EXPECT_STREQ(test, buf, "intact");

	char space[9];

	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, space, sizeof(space), 0),
			sizeof(space));
	KUNIT_EXPECT_STREQ(test, space, "length9!");
}

static void eq_03_write_needs_fi_write(struct kunit *test)
{
	struct fi_eq_attr attr = writable;
	struct fid_eq *eq;
	u32 event;
	char buf;

	attr.flags = 0;
	eq = open_eq(test, attr);
	KUNIT_EXPECT_EQ(test, fi_eq_write(eq, 1, "", 1, 0), -FI_EINVAL);
	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, &buf, 1, 0), -FI_EAGAIN);
}

static void eq_03_size_bounds_writes(struct kunit *test)
{
	struct fi_eq_attr attr = writable;
	struct fid_eq *eq;
	u32 event;
	u64 data;

	attr.size = 5;
	eq = open_eq(test, attr);
	for (u64 round = 0; round < 3; round++) {
		for (data = 0; data < 5; data++)
			KUNIT_EXPECT_EQ(test, fi_eq_write(eq, data, &data, 8, 0),
					8);
		KUNIT_EXPECT_EQ(test, fi_eq_write(eq, 6, &data, 8, 0),
				-FI_EOVERRUN);
		for (u64 want = 0; want < 5; want++) {
			KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, &data, 8,
							 0), 8);
			KUNIT_EXPECT_EQ(test, data, want);
			KUNIT_EXPECT_EQ(test, event, want);
		}
	}
}

static void eq_04_sread_times_out(struct kunit *test)
{
	struct fid_eq *eq = open_eq(test, writable);
	unsigned long start = jiffies;
	u32 event;
	char buf;

	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, &buf, 1, 0, 0),
			-FI_EAGAIN);
	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, &buf, 1, 60, 0),
			-FI_EAGAIN);
	FX_EXPECT_PASSED(test, start, 60);
}

static void eq_04_sread_of_a_queued_event_returns_at_once(struct kunit *test)
{
	struct fid_eq *eq = open_eq(test, writable);
	ktime_t start = ktime_get();
	u32 event;
	char buf;

	EXPECT_WRITE(test, eq, 1, "");
	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, &buf, 1, FX_WAIT_MS, 0),
			1);
	EXPECT_WRITE(test, eq, 2, "");
	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, &buf, 1, -1, 0), 1);
	KUNIT_EXPECT_EQ(test, event, 2);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start),
			FX_WAIT_MS / 2);
}

struct late_write {
	struct delayed_work	work;
	struct fid_eq		*eq;
	ssize_t			ret;
};

static void write_late(struct work_struct *work)
{
	struct late_write *late =
		container_of(to_delayed_work(work), struct late_write, work);

	late->ret = fi_eq_write(late->eq, 42, "late", 4, 0);
}

static void eq_04_a_write_wakes_sread(struct kunit *test)
{
	struct late_write late = { .eq = open_eq(test, writable) };
	ktime_t start = ktime_get();
	u32 event = 0;
	char buf[4];

	INIT_DELAYED_WORK_ONSTACK(&late.work, write_late);
	schedule_delayed_work(&late.work, msecs_to_jiffies(50));
	KUNIT_EXPECT_EQ(test, fi_eq_sread(late.eq, &event, buf, sizeof(buf),
					  FX_WAIT_MS, 0), 4);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start),
			FX_WAIT_MS / 2);
	flush_delayed_work(&late.work);
	destroy_delayed_work_on_stack(&late.work);
	KUNIT_EXPECT_EQ(test, late.ret, 4);
	KUNIT_EXPECT_EQ(test, event, 42);
}

static void eq_04_sread_without_wait_object_is_enosys(struct kunit *test)
{
	struct fi_eq_attr attr = writable;
	struct fid_eq *eq;
	u32 event;
	char buf;

	attr.wait_obj = FI_WAIT_NONE;
	eq = open_eq(test, attr);
	EXPECT_WRITE(test, eq, 1, "");
	KUNIT_EXPECT_EQ(test, fi_eq_sread(eq, &event, &buf, 1, 0, 0),
			-FI_ENOSYS);
	KUNIT_EXPECT_EQ(test, fi_eq_read(eq, &event, &buf, 1, 0), 1);
}

static struct kunit_case eq_cases[] = {
	KUNIT_CASE(eq_01_read_takes_one_event),
	KUNIT_CASE(eq_01_readerr_without_error_is_eagain),
	KUNIT_CASE(eq_01_peek_does_not_consume),
	KUNIT_CASE(eq_02_a_short_buffer_keeps_the_event),
	KUNIT_CASE(eq_03_write_needs_fi_write),
	KUNIT_CASE(eq_03_size_bounds_writes),
	KUNIT_CASE(eq_04_sread_times_out),
	KUNIT_CASE(eq_04_sread_of_a_queued_event_returns_at_once),
	KUNIT_CASE(eq_04_a_write_wakes_sread),
	KUNIT_CASE(eq_04_sread_without_wait_object_is_enosys),
	{}
};

static struct kunit_suite eq_suite = {
	.name = "kofi_eq",
	.test_cases = eq_cases,
};

kunit_test_suite(eq_suite);
