// SPDX-License-Identifier: GPL-2.0
/*
 * The debugfs file kofi/objects. It is created in C so that an open file holds
 * a reference on the module: the debugfs file operations of the kernel crate
 * have no owner.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

void kofi_debugfs_create(void);
void kofi_debugfs_remove(void);
/* In debugfs.rs. */
void kofi_print_objects(struct seq_file *m);

static int objects_show(struct seq_file *m, void *unused)
{
	kofi_print_objects(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(objects);

static struct dentry *dir;

void kofi_debugfs_create(void)
{
	dir = debugfs_create_dir("kofi", NULL);
	debugfs_create_file("objects", 0400, dir, NULL, &objects_fops);
}

void kofi_debugfs_remove(void)
{
	debugfs_remove(dir);
}
