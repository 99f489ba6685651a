/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps objects whose module goes before they are closed. */

#ifndef KOFI_TEST_LEAVE_KEEP_H
#define KOFI_TEST_LEAVE_KEEP_H

struct fid;

/* Has the object closed when leave_keep.ko is unloaded, the last one first. */
void leave_keep(struct fid *fid);

#endif /* KOFI_TEST_LEAVE_KEEP_H */
