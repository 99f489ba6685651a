// SPDX-License-Identifier: GPL-2.0
/*
 * Bounded waits of the suites: each logs what it waited for when it fails.
 */

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/umh.h>

#include "fixture.h"

/* Prints the open objects, with their states and counters, to the console. */
static void print_objects(void)
{
	char *argv[4] = {
		"/bin/sh", "-c", "cat /sys/kernel/debug/kofi/objects >/dev/console", NULL
	};
	char *envp[2] = { "PATH=/sbin:/bin:/usr/sbin:/usr/bin", NULL };

	call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC);
}

/* Reads the error at the head of the queue, and logs it. */
static int report_error(struct kunit *test, struct fid_eq *eq, u32 want)
{
	struct fi_eq_err_entry error = {};
	ssize_t ret = fi_eq_readerr(eq, &error, 0);

	if (ret != sizeof(error)) {
		kunit_err(test, "fi_eq_readerr answered %zd\n", ret);
		return -FI_EIO;
	}
	kunit_err(test, "waited for event %s, got an error: %s (%s)\n",
		  fi_tostr(&want, FI_TYPE_EQ_EVENT), fi_strerror(error.err),
		  fi_eq_strerror(eq, error.prov_errno, NULL, NULL, 0));
	return -error.err;
}

int fx_wait_event(struct kunit *test, struct fid_eq *eq, u32 want, void *buf,
		  size_t len)
{
	u32 event = ~0;
	ssize_t ret = fi_eq_sread(eq, &event, buf, len, FX_WAIT_MS, 0);

	if (ret == -FI_EAVAIL)
		return report_error(test, eq, want);
	if (ret < 0) {
		kunit_err(test, "waited for event %s: %s\n",
			  fi_tostr(&want, FI_TYPE_EQ_EVENT), fi_strerror(ret));
		return ret;
	}
	if (event != want) {
		kunit_err(test, "waited for event %u, got %u\n", want, event);
		return -FI_EOTHER;
	}
	return ret;
}

int fx_wait_error(struct kunit *test, struct fid_eq *eq,
		  struct fi_eq_err_entry *entry)
{
	struct fx_cm_event event;
	u32 number = ~0;
	ssize_t ret;

	ret = fi_eq_sread(eq, &number, &event, sizeof(event), FX_WAIT_MS, 0);
	if (ret != -FI_EAVAIL) {
		kunit_err(test, "waited for an error entry: %zd, event %u\n",
			  ret, number);
		return ret < 0 ? ret : -FI_EOTHER;
	}
	memset(entry, 0, sizeof(*entry));
	ret = fi_eq_readerr(eq, entry, 0);
	return ret == sizeof(*entry) ? 0 : -FI_EIO;
}

/* Reads like fi_cq_sread(), also from queues without a wait object. */
static ssize_t read_entries(struct fid_cq *cq, void *entries, size_t n,
			    unsigned long deadline)
{
	ssize_t ret;

	do {
		long left = deadline - jiffies;

		ret = fi_cq_sread(cq, entries, n, NULL,
				  left > 0 ? jiffies_to_msecs(left) : 0);
		if (ret != -FI_ENOSYS)
			continue;
		ret = fi_cq_read(cq, entries, n);
		if (ret == -FI_EAGAIN)
			usleep_range(50, 200);
	} while (ret == -FI_EAGAIN && time_before(jiffies, deadline));
	return ret;
}

ssize_t fx_wait_entries(struct kunit *test, struct fid_cq *cq, void *entries,
			size_t entry_size, size_t n)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_err_entry error = {};
	ssize_t ret;
	size_t done;

	for (done = 0; done < n; done += ret) {
		ret = read_entries(cq, entries + done * entry_size, n - done,
				   deadline);
		if (ret <= 0)
			break;
	}
	if (done == n)
		return n;

	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1) {
		kunit_err(test, "completion %zu of %zu is an error: %s (%s)\n",
			  done + 1, n, fi_strerror(error.err),
			  fi_cq_strerror(cq, error.prov_errno, error.err_data,
					 NULL, 0));
		return -error.err;
	}
	kunit_err(test, "waited for completion %zu of %zu: %zd\n", done + 1, n,
		  ret);
	print_objects();
	return ret ?: -FI_EIO;
}

int fx_wait_comp_error(struct kunit *test, struct fid_cq *cq,
		       struct fi_cq_err_entry *entry)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry success;
	ssize_t ret = read_entries(cq, &success, 1, deadline);

	if (ret != -FI_EAVAIL) {
		kunit_err(test, "waited for a completion with an error: %zd\n",
			  ret);
		return ret < 0 ? ret : -FI_EOTHER;
	}
	memset(entry, 0, sizeof(*entry));
	ret = fi_cq_readerr(cq, entry, 0);
	return ret == 1 ? 0 : -FI_EIO;
}
