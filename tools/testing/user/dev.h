/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Access to /dev/kofi and /dev/kofi_perf for test programs.
 */

#ifndef KOFI_TESTING_DEV_H
#define KOFI_TESTING_DEV_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define DEVICE		"/dev/kofi"
#define PERF_DEVICE	"/dev/kofi_perf"

static inline int open_path(const char *path)
{
	int file = open(path, O_RDWR);

	if (file < 0) {
		perror(path);
		exit(1);
	}
	return file;
}

static inline int open_device(void)
{
	return open_path(DEVICE);
}

static inline int open_perf(void)
{
	return open_path(PERF_DEVICE);
}

/* Calls ioctl() and returns its result: 0 or a positive errno. */
static inline int request(int file, unsigned long request, void *argument)
{
	return ioctl(file, request, argument) ? errno : 0;
}

#endif /* KOFI_TESTING_DEV_H */
