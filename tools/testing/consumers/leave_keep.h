/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps objects whose module is unloaded before they are closed. */

#ifndef KOFI_TEST_LEAVE_KEEP_H
#define KOFI_TEST_LEAVE_KEEP_H

struct fid;

/* Registers an object to be closed when leave_keep.ko is unloaded, in reverse order. */
void leave_keep(struct fid *fid);

#endif /* KOFI_TEST_LEAVE_KEEP_H */
