// SPDX-License-Identifier: GPL-2.0
/*
 * The debugfs file kofi/objects. An open file holds a reference on the module:
 * the operations of the kernel crate's debugfs files have no owner.
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
