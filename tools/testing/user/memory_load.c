// SPDX-License-Identifier: GPL-2.0
/*
 * Uses more memory than is free: writes pages until those of this process use three eighths of
 * the swap space, and then checks and rewrites all of them in rounds. Prints a line after each
 * round, and ends after a round at whose end the file STOP exists. While less than LEAST bytes are
 * free, it waits for the kernel to swap pages out, and takes no memory that is needed for that.
 *
 *	memory_load STOP LEAST
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Words between two looks at the free memory */
#define STEP	((64 << 10) / sizeof(unsigned long))

static unsigned long total_ram, least_free;

/* Returns the value of a word after a round. */
static unsigned long pattern(size_t index, unsigned long round)
{
	return (index + 1) * 0x9e3779b97f4a7c15 ^ round;
}

/* Returns how many bytes of this process are in swap space. */
static unsigned long swapped(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmSwap: %lu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib << 10;
}

/* Returns after the kernel has freed enough memory to touch more pages. */
static void await_free_memory(void)
{
	struct sysinfo info;

	for (int i = 0; i < 300 * 1000; i++) {
		if (sysinfo(&info) || info.freeram * info.mem_unit >= least_free)
			return;
		usleep(1000);
	}
	fprintf(stderr, "the kernel has not freed %lu bytes in five minutes\n", least_free);
	exit(1);
}

/* Writes the words of round 0 until @enough bytes are in swap space. Returns their number. */
static size_t fill(unsigned long *words, unsigned long enough)
{
	size_t count = total_ram / sizeof(*words), i = 0;

	while (i + STEP <= count && swapped() < enough) {
		await_free_memory();
		for (size_t end = i + STEP; i < end; i++)
			words[i] = pattern(i, 0);
	}
	return i;
}

/* Checks the words of the round before, writes those of @round, and returns how many were wrong. */
static size_t rewrite(unsigned long *words, size_t count, unsigned long round)
{
	size_t wrong = 0;

	for (size_t i = 0; i < count; i++) {
		if (i % STEP == 0)
			await_free_memory();
		wrong += words[i] != pattern(i, round - 1);
		words[i] = pattern(i, round);
	}
	return wrong;
}

int main(int argc, char **argv)
{
	size_t count, wrong = 0;
	struct sysinfo info;
	unsigned long *words;

	if (argc != 3) {
		fprintf(stderr, "usage: memory_load STOP LEAST\n");
		return 2;
	}
	if (sysinfo(&info) || !info.totalswap) {
		fprintf(stderr, "there is no swap space\n");
		return 1;
	}
	least_free = strtoul(argv[2], NULL, 10);
	total_ram = info.totalram * info.mem_unit;
	words = mmap(NULL, total_ram, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (words == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	count = fill(words, info.totalswap * info.mem_unit / 8 * 3);
	for (unsigned long round = 1; !wrong && access(argv[1], F_OK); round++) {
		wrong = rewrite(words, count, round);
		printf("round %lu: %zu MiB, %lu MiB in swap space, %zu wrong words\n", round,
		       count * sizeof(*words) >> 20, swapped() >> 20, wrong);
		fflush(stdout);
	}
	return wrong ? 1 : 0;
}
