// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of each request of /dev/kofi and /dev/kofi_perf: its results, structs of
 * other versions, invalid arguments, and missing privileges. Each test reports one
 * line.
 *
 *	dev_calls ADDRESS
 */

#include <linux/kofi_perf.h>
#include <rdma/fabric.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev.h"
#include "expect.h"

#define MAX_OFFERS	16
#define MAX_OBJECTS	8

static const char *address;
static int file, perf;

static void versions_are_reported(void)
{
	struct kofi_version version = { .size = sizeof(version), .abi = 77 };

	EXPECT_RESULT(0, request(file, KOFI_IOC_VERSION, &version));
	EXPECT(version.abi == KOFI_ABI_VERSION);
	EXPECT(version.api >> 16 == 1 && (version.api & 0xffff) >= 17);
	EXPECT(version.size == sizeof(version));
}

static void unknown_requests_are_rejected(void)
{
	struct kofi_version version = { .size = sizeof(version) };

	EXPECT_RESULT(ENOTTY, request(file, _IO(KOFI_IOC_MAGIC, 0xff), &version));
	EXPECT_RESULT(ENOTTY, request(file, _IO('k', 0), &version));
	EXPECT_RESULT(ENOTTY, request(file, _IOWR(KOFI_IOC_MAGIC, 0, version), &version));
	/* Each device has its own requests. */
	EXPECT_RESULT(ENOTTY, request(file, KOFI_PERF_IOC_STOP, &version));
	EXPECT_RESULT(ENOTTY, request(perf, KOFI_IOC_VERSION, &version));
}

/* Each request accepts larger and smaller structs, and refuses invalid ones. */
static void structs_of_other_versions_are_accepted(void)
{
	static const struct {
		const int *file;
		unsigned long request;
		size_t size;
		size_t first;	/* size in the first version */
		int answer;	/* result if the rest is 0 */
	} known[] = {
		{ &file, KOFI_IOC_VERSION, sizeof(struct kofi_version), 16, 0 },
		{ &file, KOFI_IOC_TEXT, sizeof(struct kofi_text), 1048, 0 },
		{ &file, KOFI_IOC_INFO, sizeof(struct kofi_info), 320, 0 },
		{ &perf, KOFI_PERF_IOC_WATCH, sizeof(struct kofi_watch), 88, ENOENT },
		{ &perf, KOFI_PERF_IOC_STOP, sizeof(struct kofi_stop), 8, ENOENT },
		{ &perf, KOFI_PERF_IOC_START, sizeof(struct kofi_test), 216, 0 },
		{ &file, KOFI_IOC_OBJECTS, sizeof(struct kofi_objects), 32, 0 },
		{ &file, KOFI_IOC_ADDRESSES, sizeof(struct kofi_addresses), 40, ENOENT },
	};
	union {
		__u32 head[2];	/* size and flags */
		unsigned char bytes[8192];
	} any;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		/* A struct newer than the kernel's is accepted if the rest is 0. */
		memset(&any, 0, sizeof(any));
		any.head[0] = 4096;
		EXPECT_RESULT(known[i].answer, request(*known[i].file, known[i].request, &any));
		any.bytes[4095] = 1;
		EXPECT_RESULT(E2BIG, request(*known[i].file, known[i].request, &any));
		any.bytes[4095] = 0;
		any.bytes[known[i].size] = 1;
		EXPECT_RESULT(E2BIG, request(*known[i].file, known[i].request, &any));
		any.bytes[known[i].size] = 0;
		any.head[0] = 4097;
		EXPECT_RESULT(E2BIG, request(*known[i].file, known[i].request, &any));
		any.head[0] = ~0u;
		EXPECT_RESULT(E2BIG, request(*known[i].file, known[i].request, &any));

		for (size_t size = 0; size < known[i].first; size++) {
			any.head[0] = size;
			EXPECT_RESULT(EINVAL, request(*known[i].file, known[i].request, &any));
		}
		any.head[0] = known[i].size;
		any.head[1] = 1u << 31;
		EXPECT_RESULT(EOPNOTSUPP, request(*known[i].file, known[i].request, &any));
	}
}

static void inaccessible_memory_is_efault(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kofi_version *at = (void *)(pages + page - 8);

	EXPECT(pages != MAP_FAILED);
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_VERSION, NULL));
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_VERSION, (void *)-4096L));
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_VERSION, (void *)-1L));
	/* The struct crosses into unmapped memory, or is read-only. */
	at->size = sizeof(*at);
	at->flags = 0;
	EXPECT(!munmap(pages + page, page));
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_VERSION, at));
	at = (void *)pages;
	at->size = sizeof(*at);
	EXPECT(!mprotect(pages, page, PROT_READ));
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_VERSION, at));
	munmap(pages, page);
}

/* Returns the text of a number, in a static buffer. */
static const char *text(__u32 type, __u64 value)
{
	static struct kofi_text text;

	text = (struct kofi_text){
		.size = sizeof(text), .type = type, .value = value,
	};
	return request(file, KOFI_IOC_TEXT, &text) ? strerror(errno) : text.text;
}

static void numbers_are_converted_to_text(void)
{
	struct kofi_text invalid = { .size = sizeof(invalid) };

	EXPECT(!strcmp(text(KOFI_TEXT_CAPS, FI_MSG), "FI_MSG"));
	EXPECT(!strcmp(text(KOFI_TEXT_CAPS, FI_MSG | 1ULL << 63),
		       "FI_MSG, 0x8000000000000000"));
	EXPECT(!strcmp(text(KOFI_TEXT_CAPS, 0), ""));
	EXPECT(!strcmp(text(KOFI_TEXT_EP_TYPE, 1), "FI_EP_MSG"));
	EXPECT(!strncmp(text(KOFI_TEXT_EP_TYPE, 1ULL << 32), "unknown", 7));
	EXPECT(!strcmp(text(KOFI_TEXT_RESOURCE_MGMT, 2), "FI_RM_ENABLED"));
	EXPECT(!strncmp(text(KOFI_TEXT_RESOURCE_MGMT, ~0ULL), "unknown", 7));
	EXPECT(!strcmp(text(KOFI_TEXT_ERROR, 259),
		       "An error entry is available"));
	EXPECT(!strcmp(text(KOFI_TEXT_ERROR, 0), "Success"));
	EXPECT(strlen(text(KOFI_TEXT_CAPS, ~0ULL)) > 100);
	EXPECT(!strcmp(text(KOFI_TEXT_ATOMIC_OP, 2), "FI_SUM"));
	EXPECT(!strcmp(text(KOFI_TEXT_DATATYPE, 7), "FI_UINT64"));
	EXPECT(!strcmp(text(KOFI_TEXT_OBJECT, KOFI_OBJECT_AV_SET), "av_set"));
	EXPECT(!strcmp(text(KOFI_TEXT_STATE, KOFI_STATE_SHUT), "shut"));
	EXPECT(!strcmp(text(KOFI_TEXT_VALUE, KOFI_VALUE_MEMBERS), "members"));
	invalid.type = KOFI_TEXT_VALUE + 1;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_TEXT, &invalid));
	invalid.type = KOFI_TEXT_ERROR;
	invalid.value = ~0ULL;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_TEXT, &invalid));
	invalid.value = 0;
	invalid.reserved = 1;
	EXPECT_RESULT(EOPNOTSUPP, request(file, KOFI_IOC_TEXT, &invalid));
}

/* Returns a query that matches every offer. */
static struct kofi_info query_all(struct kofi_offer *offers, __u32 count)
{
	return (struct kofi_info){
		.size = sizeof(struct kofi_info),
		.mode = ~0ULL,
		.offers = (unsigned long)offers,
		.offer_size = sizeof(*offers),
		.count = count,
	};
}

static void info_lists_every_offer(void)
{
	struct kofi_offer offers[MAX_OFFERS];
	struct kofi_info info = query_all(offers, MAX_OFFERS);
	char expected[64];

	EXPECT_RESULT(0, request(file, KOFI_IOC_INFO, &info));
	EXPECT(info.count > 0 && info.count <= MAX_OFFERS);
	for (unsigned int i = 0; i < info.count; i++) {
		EXPECT(!strcmp(offers[i].prov_name,
			       offers[i].ep_type == FI_EP_MSG ? "verbs" : "verbs;ofi_rxm"));
		EXPECT(*offers[i].domain_name && *offers[i].fabric_name);
		EXPECT(offers[i].caps & FI_MSG && offers[i].tx_size);
		EXPECT(offers[i].addr_format == FI_SOCKADDR);
		EXPECT(!*offers[i].src_addr && !*offers[i].dest_addr);
	}
	/* A local address gives one offer of each endpoint type, with that address. */
	strcpy(info.node, address);
	strcpy(info.service, "7471");
	info.flags = KOFI_INFO_SOURCE;
	info.count = MAX_OFFERS;
	EXPECT_RESULT(0, request(file, KOFI_IOC_INFO, &info));
	EXPECT(info.count == 2);
	EXPECT(offers[0].ep_type == FI_EP_MSG && offers[1].ep_type == FI_EP_RDM);
	snprintf(expected, sizeof(expected), "fi_sockaddr_in://%s:7471", address);
	for (unsigned int i = 0; i < info.count; i++) {
		EXPECT(offers[i].addr_format == FI_SOCKADDR_IN);
		EXPECT(!strcmp(offers[i].src_addr, expected));
	}
}

static void info_rejects_invalid_and_unmatched_hints(void)
{
	struct kofi_info info = query_all(NULL, MAX_OFFERS);

	info.caps = FI_MULTICAST;
	EXPECT_RESULT(ENODATA, request(file, KOFI_IOC_INFO, &info));
	info.caps = 1ULL << 62;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_INFO, &info));
	info.caps = 0;
	strcpy(info.domain_name, "nothing0");
	EXPECT_RESULT(ENODATA, request(file, KOFI_IOC_INFO, &info));
	*info.domain_name = 0;
	strcpy(info.prov_name, "tcp");
	EXPECT_RESULT(ENODATA, request(file, KOFI_IOC_INFO, &info));
	*info.prov_name = 0;
	strcpy(info.node, "nobody");
	EXPECT_RESULT(ENODATA, request(file, KOFI_IOC_INFO, &info));
	*info.node = 0;
	info.flags = KOFI_INFO_SOURCE;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_INFO, &info));
	info.flags = 0;
	memset(info.service, '1', sizeof(info.service));
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_INFO, &info));
}

/*
 * Offers are counted without a buffer, and written to elements of a larger
 * size; smaller ones are refused.
 */
static void info_writes_offers_of_other_versions(void)
{
	struct {
		struct kofi_offer offer;
		unsigned char extra[100];
	} elements[2];
	struct kofi_info info = query_all(NULL, 0);
	__u32 count;

	EXPECT_RESULT(0, request(file, KOFI_IOC_INFO, &info));
	count = info.count;
	EXPECT(count > 0);

	memset(elements, 0xa5, sizeof(elements));
	info = query_all(&elements[0].offer, 1);
	info.offer_size = sizeof(elements[0]);
	EXPECT_RESULT(0, request(file, KOFI_IOC_INFO, &info));
	EXPECT(info.count == count);
	EXPECT(!strcmp(elements[0].offer.prov_name, "verbs"));
	for (size_t i = 0; i < sizeof(elements[0].extra); i++)
		EXPECT(!elements[0].extra[i]);
	EXPECT(*(unsigned char *)&elements[1] == 0xa5);

	info = query_all(&elements[0].offer, 1);
	info.offer_size = sizeof(struct kofi_offer) - 1;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_INFO, &info));
	info.offer_size = 4097;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_INFO, &info));
	info.offer_size = sizeof(struct kofi_offer);
	info.count = ~0u;
	info.offers = 0;
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_INFO, &info));
	info.offers = ~0ULL - 100;
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_INFO, &info));
}

/* Opening the device takes CAP_NET_ADMIN; an open file keeps working without it. */
static void open_needs_cap_net_admin(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (chmod(DEVICE, 0666) || chmod(PERF_DEVICE, 0666) ||
		    setuid(65534))
			_exit(1);
		if (open(DEVICE, O_RDWR) >= 0 || errno != EPERM)
			_exit(2);
		if (open(PERF_DEVICE, O_RDWR) >= 0 || errno != EPERM)
			_exit(4);
		versions_are_reported();
		_exit(failures ? 3 : 0);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status));
	EXPECT_RESULT(0, WEXITSTATUS(status));
}

static struct kofi_objects list_all(struct kofi_object *objects, __u32 count)
{
	return (struct kofi_objects){
		.size = sizeof(struct kofi_objects),
		.objects = (unsigned long)objects,
		.object_size = sizeof(*objects),
		.count = count,
	};
}

/* A server of this process is listed: a fabric, an event queue and a passive endpoint. */
static void open_objects_are_listed(void)
{
	struct kofi_test server = {
		.size = sizeof(server), .kind = KOFI_TEST_SERVER,
		.service = "7497",
	};
	struct kofi_stop stop = { .size = sizeof(stop) };
	struct kofi_object objects[MAX_OBJECTS];
	struct kofi_objects list = list_all(objects, MAX_OBJECTS);
	struct kofi_addresses addresses = { .size = sizeof(addresses) };
	const struct kofi_object *fabric, *queue, *listener;
	int tries;

	/* Stops the test that an earlier function has started. */
	request(perf, KOFI_PERF_IOC_STOP, &stop);
	EXPECT_RESULT(0, request(file, KOFI_IOC_OBJECTS, &list));
	EXPECT(!list.count);
	strcpy(server.node, address);
	EXPECT_RESULT(0, request(perf, KOFI_PERF_IOC_START, &server));
	for (tries = 0; tries < 3000; tries++) {
		list = list_all(objects, MAX_OBJECTS);
		EXPECT_RESULT(0, request(file, KOFI_IOC_OBJECTS, &list));
		if (list.count == 3 && objects[2].state == KOFI_STATE_LISTENING)
			break;
		usleep(10000);
	}
	EXPECT(list.count == 3);
	fabric = &objects[0];
	queue = &objects[1];
	listener = &objects[2];
	EXPECT(fabric->kind == KOFI_OBJECT_FABRIC && !fabric->parent);
	EXPECT(fabric->pid == (__u32)getpid());
	EXPECT(!strcmp(fabric->owner, "dev_calls"));
	EXPECT(*fabric->name && !fabric->value_count);
	EXPECT(queue->kind == KOFI_OBJECT_EQ && queue->parent == fabric->id);
	EXPECT(queue->what[0] == KOFI_VALUE_DEPTH && !queue->values[0]);
	EXPECT(listener->kind == KOFI_OBJECT_PASSIVE_EP);
	EXPECT(listener->parent == fabric->id && listener->pid == (__u32)getpid());
	EXPECT(strstr(listener->local_addr, ":7497"));
	EXPECT(fabric->id < queue->id && queue->id < listener->id);

	/* The object is not an address vector, or does not exist. */
	addresses.id = fabric->id;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_ADDRESSES, &addresses));
	addresses.id = ~0ULL;
	EXPECT_RESULT(ENOENT, request(file, KOFI_IOC_ADDRESSES, &addresses));
	addresses.address_size = sizeof(struct kofi_address) - 1;
	addresses.count = 1;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_ADDRESSES, &addresses));

	list = list_all(objects, 1);
	list.after = fabric->id;
	EXPECT_RESULT(0, request(file, KOFI_IOC_OBJECTS, &list));
	EXPECT(list.count == 2 && objects[0].kind == KOFI_OBJECT_EQ);
	list = list_all(objects, 1);
	list.after = ~0ULL;
	EXPECT_RESULT(0, request(file, KOFI_IOC_OBJECTS, &list));
	EXPECT(!list.count);

	/* Element sizes of other versions, and an invalid address. */
	list = list_all(objects, 1);
	list.object_size--;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_OBJECTS, &list));
	list.object_size = 4097;
	EXPECT_RESULT(EINVAL, request(file, KOFI_IOC_OBJECTS, &list));
	list.object_size = sizeof(*objects);
	list.objects = 0;
	EXPECT_RESULT(EFAULT, request(file, KOFI_IOC_OBJECTS, &list));
	memset(objects, 0xa5, sizeof(objects));
	list = list_all(objects, 1);
	list.object_size += 8;
	EXPECT_RESULT(0, request(file, KOFI_IOC_OBJECTS, &list));
	EXPECT(!objects[1].id && objects[1].parent == 0xa5a5a5a5a5a5a5a5);

	EXPECT_RESULT(0, request(perf, KOFI_PERF_IOC_STOP, &stop));
	list = list_all(NULL, 0);
	EXPECT_RESULT(0, request(file, KOFI_IOC_OBJECTS, &list));
	EXPECT(!list.count);
}

static const struct test tests[] = {
	TEST(versions_are_reported),
	TEST(unknown_requests_are_rejected),
	TEST(structs_of_other_versions_are_accepted),
	TEST(inaccessible_memory_is_efault),
	TEST(numbers_are_converted_to_text),
	TEST(info_lists_every_offer),
	TEST(info_rejects_invalid_and_unmatched_hints),
	TEST(info_writes_offers_of_other_versions),
	TEST(open_objects_are_listed),
	TEST(open_needs_cap_net_admin),
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	address = argv[1];
	file = open_device();
	perf = open_perf();
	run_tests(tests, ARRAY_SIZE(tests));
	return 0;
}
