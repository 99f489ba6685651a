/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Access to /dev/kofi for test programs.
 */

#ifndef KOFI_TESTING_DEV_H
#define KOFI_TESTING_DEV_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define DEVICE		"/dev/kofi"

static inline int open_device(void)
{
	int file = open(DEVICE, O_RDWR);

	if (file < 0) {
		perror(DEVICE);
		exit(1);
	}
	return file;
}

/* Returns the result of a request: 0 or an errno. */
static inline int ask(int file, unsigned long request, void *argument)
{
	return ioctl(file, request, argument) ? errno : 0;
}

#endif /* KOFI_TESTING_DEV_H */
