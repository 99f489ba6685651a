// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes /dev/kofi and /dev/kofi_perf with valid requests of which some bytes are
 * changed, and with random bytes. Some of the structs end where mapped memory ends.
 * The program counts the results; the kernel's log shows the faults.
 *
 *	dev_fuzz COUNT SEED
 */

#include <linux/kofi_perf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define MAPPED	8192	/* bytes of mapped memory: whole pages */

static uint64_t state;

/* xorshift64: the same seed makes the same requests. */
static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t below(uint64_t bound)
{
	return any() % bound;
}

/*
 * Memory for the arrays that requests point to. The kernel writes to it, so it
 * holds nothing else.
 */
static unsigned char *array_memory;

static uint64_t any_array_address(void)
{
	return below(4) ? (unsigned long)array_memory + below(MAPPED) : any();
}

/* Returns memory that is followed by inaccessible pages. */
static unsigned char *guarded_memory(void)
{
	unsigned char *at = mmap(NULL, 2 * MAPPED, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + MAPPED, MAPPED, PROT_NONE)) {
		perror("mmap");
		exit(1);
	}
	return at;
}

static void valid_version(void *at)
{
	*(struct kofi_version *)at = (struct kofi_version){
		.size = sizeof(struct kofi_version),
	};
}

static void valid_text(void *at)
{
	*(struct kofi_text *)at = (struct kofi_text){
		.size = sizeof(struct kofi_text),
		.type = below(KOFI_TEXT_VALUE + 2),
		.value = below(2) ? any() : 1ULL << below(64),
	};
}

static void valid_info(void *at)
{
	*(struct kofi_info *)at = (struct kofi_info){
		.size = sizeof(struct kofi_info),
		.caps = below(2) ? 1ULL << below(64) : 0,
		.mode = below(2) ? ~0ULL : any(),
		.offer_size = sizeof(struct kofi_offer),
		.count = below(8),
	};
}

/* A test that names no node finds no peer, and ends soon. */
static void valid_test(void *at)
{
	*(struct kofi_test *)at = (struct kofi_test){
		.size = sizeof(struct kofi_test),
		.kind = below(7),
		.window = below(2) * below(KOFI_TEST_MAX_WINDOW + 2),
		.length = below(2) * below(KOFI_TEST_MAX_LENGTH + 2),
		.count = below(2) * any(),
		.msec = below(2) * below(1000),
		.op = below(2) * below(25),
		.datatype = below(2) * below(25),
	};
}

static void valid_watch(void *at)
{
	*(struct kofi_watch *)at = (struct kofi_watch){
		.size = sizeof(struct kofi_watch),
		.msec = below(3),
	};
}

static void valid_stop(void *at)
{
	*(struct kofi_stop *)at = (struct kofi_stop){
		.size = sizeof(struct kofi_stop),
	};
}

static void valid_objects(void *at)
{
	*(struct kofi_objects *)at = (struct kofi_objects){
		.size = sizeof(struct kofi_objects),
		.after = below(2) * below(1000),
		.object_size = sizeof(struct kofi_object),
		.count = below(8),
	};
}

static void valid_addresses(void *at)
{
	*(struct kofi_addresses *)at = (struct kofi_addresses){
		.size = sizeof(struct kofi_addresses),
		.id = below(1000),
		.at = below(2) * any(),
		.address_size = sizeof(struct kofi_address),
		.count = below(8),
	};
}

static int file, perf;

static const struct {
	const int *file;
	unsigned long request;
	size_t size;
	void (*make)(void *at);
} known[] = {
	{ &file, KOFI_IOC_VERSION, sizeof(struct kofi_version), valid_version },
	{ &file, KOFI_IOC_TEXT, sizeof(struct kofi_text), valid_text },
	{ &file, KOFI_IOC_INFO, sizeof(struct kofi_info), valid_info },
	{ &perf, KOFI_PERF_IOC_START, sizeof(struct kofi_test), valid_test },
	{ &perf, KOFI_PERF_IOC_WATCH, sizeof(struct kofi_watch), valid_watch },
	{ &perf, KOFI_PERF_IOC_STOP, sizeof(struct kofi_stop), valid_stop },
	{ &file, KOFI_IOC_OBJECTS, sizeof(struct kofi_objects), valid_objects },
	{ &file, KOFI_IOC_ADDRESSES, sizeof(struct kofi_addresses), valid_addresses },
};

/* Changes a few bytes, bits or words. */
static void mutate(unsigned char *at, size_t size)
{
	uint64_t words[] = { 0, 1, ~0ULL, 1ULL << 63, 4096, 4097, any() };

	for (uint64_t left = below(8); left; left--) {
		size_t place = below(size);

		switch (below(3)) {
		case 0:
			at[place] = any();
			break;
		case 1:
			at[place] ^= 1 << below(8);
			break;
		default:
			memcpy(at + place, &words[below(7)],
			       size - place < 8 ? size - place : 8);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned long count, results[134] = {}, request;
	unsigned char *memory;

	if (argc != 3)
		return 2;
	count = strtoul(argv[1], NULL, 0);
	state = strtoul(argv[2], NULL, 0) * 0x9e3779b97f4a7c15 | 1;
	file = open_device();
	perf = open_perf();
	memory = guarded_memory();
	array_memory = guarded_memory();

	for (unsigned long i = 0; i < count; i++) {
		int which = below(ARRAY_SIZE(known));
		unsigned char *at = memory;

		request = known[which].request;
		if (below(16)) {
			/* One struct in four ends where mapped memory ends. */
			if (!below(4))
				at += MAPPED - known[which].size;
			known[which].make(at);
			mutate(at, known[which].size);
		} else {
			for (size_t byte = 0; byte < MAPPED; byte += 8)
				*(uint64_t *)(memory + byte) = any();
			*(uint32_t *)memory = below(6000);
			/*
			 * A quarter of these has a random request number with
			 * the device's magic.
			 */
			if (!below(4))
				request = _IOC(below(4), KOFI_IOC_MAGIC,
					       below(256), below(1 << 14));
		}
		if (request == KOFI_IOC_INFO)
			((struct kofi_info *)at)->offers = any_array_address();
		if (request == KOFI_IOC_OBJECTS)
			((struct kofi_objects *)at)->objects = any_array_address();
		if (request == KOFI_IOC_ADDRESSES)
			((struct kofi_addresses *)at)->addresses = any_array_address();
		if (request == KOFI_PERF_IOC_WATCH) {
			struct kofi_watch *watch = (void *)at;

			watch->buckets = any_array_address();
			/*
			 * If a fuzzed request has started a server, a watch lasts
			 * for the whole time that it asks for.
			 */
			watch->msec %= 3;
		}
		if (!below(64))
			at = (void *)any();
		results[ioctl(*known[which].file, request, at) ? errno < 133 ? errno : 133 : 0]++;
	}
	for (int i = 0; i < 134; i++)
		if (results[i])
			printf("%lu x %s\n", results[i],
			       i < 133 ? strerror(i) : "an invalid errno");
	printf("%lu requests\n", count);
	return !results[0] || results[133];
}
