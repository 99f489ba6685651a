/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A debugfs file that runs one of a module's benchmarks by its name, with a number
 * as argument, and functions for the results. A benchmark is a
 *
 *	int (*run)(u32 number);
 *
 * Included once by each module.
 */

#ifndef KOFI_BENCH_TABLE_H
#define KOFI_BENCH_TABLE_H

#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>

struct bench {
	const char	*name;
	int		(*run)(u32 number);
};

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "numeric IPv4 address of an RDMA device of this machine");

/* Benchmarks of the module; the last entry has no name */
static const struct bench *bench_table;
static struct dentry *bench_dir;
static DEFINE_MUTEX(bench_running);

static void print_result(const char *impl, const char *name, u32 size, u64 value,
			 const char *unit)
{
	pr_info("impl=%s name=%s size=%u value=%llu unit=%s\n", impl, name,
		size, value, unit);
}

static u64 __maybe_unused free_bytes(void)
{
	struct sysinfo now;

	si_meminfo(&now);
	return (u64)now.freeram * now.mem_unit;
}

static ssize_t bench_write(struct file *file, const char __user *from,
			   size_t count, loff_t *pos)
{
	char line[64], name[16];
	int ret = -EINVAL;
	u32 number;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = '\0';
	if (sscanf(line, "%15s %u", name, &number) != 2)
		return -EINVAL;
	mutex_lock(&bench_running);
	for (const struct bench *bench = bench_table; bench->name; bench++)
		if (!strcmp(name, bench->name))
			ret = bench->run(number);
	mutex_unlock(&bench_running);
	return ret ?: count;
}

static const struct file_operations bench_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = bench_write,
};

static void bench_add_file(const struct bench *table)
{
	bench_table = table;
	bench_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0200, bench_dir, NULL, &bench_fops);
}

static void bench_remove_file(void)
{
	debugfs_remove(bench_dir);
}

#endif /* KOFI_BENCH_TABLE_H */
