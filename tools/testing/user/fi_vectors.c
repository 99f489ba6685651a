// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the address vectors of the distribution's libfabric, for comparison
 * with the kernel's (bench/kofi_sets.c). The same addresses are inserted in one
 * call, in batches and by several threads, looked up, inserted again and removed.
 *
 *	fi_vectors PROVIDER ADDRESS COUNT
 */

#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define BATCH	64
#define THREADS	4
#define BASE	0x0a000000	/* 10.0.0.0 */

static struct fid_domain *domain;

static void check(int ret, const char *what)
{
	if (ret) {
		fprintf(stderr, "fi_vectors: %s: %s\n", what, fi_strerror(-ret));
		exit(1);
	}
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ULL + at.tv_nsec;
}

static void print_result(const char *name, unsigned int size, uint64_t value,
			 const char *unit)
{
	printf("bench: impl=raw name=%s size=%u value=%llu unit=%s\n", name,
	       size, (unsigned long long)value, unit);
	fflush(stdout);
}

static void print_average(const char *name, unsigned int size, uint64_t start,
			  uint64_t count)
{
	print_result(name, size, (now() - start) / count, "ns");
}

static uint64_t resident_bytes(void)
{
	unsigned long total, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu", &total, &pages) != 2)
		check(-FI_EIO, "/proc/self/statm");
	fclose(file);
	return (uint64_t)pages * sysconf(_SC_PAGESIZE);
}

static struct fid_av *open_vector(void)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct fid_av *av;

	check(fi_av_open(domain, &attr, &av, NULL), "fi_av_open");
	return av;
}

static void insert_all(struct fid_av *av, struct sockaddr_in *peers, size_t count,
		       fi_addr_t *handles)
{
	if (fi_av_insert(av, peers, count, handles, 0, NULL) != (int)count)
		check(-FI_EIO, "fi_av_insert");
}

static void measure_one_call(struct sockaddr_in *peers, fi_addr_t *handles,
			     unsigned int count)
{
	struct fid_av *av = open_vector();
	uint64_t before = resident_bytes(), start = now();
	struct sockaddr_in found;

	insert_all(av, peers, count, handles);
	print_average("insert", count, start, count);
	print_result("bytes", count, (resident_bytes() - before) / count, "B");
	start = now();
	for (unsigned int i = 0; i < count; i++) {
		size_t len = sizeof(found);

		check(fi_av_lookup(av, handles[i * 7919ULL % count], &found, &len),
		      "fi_av_lookup");
	}
	print_average("lookup", count, start, count);
	start = now();
	insert_all(av, peers, count, handles);
	print_average("again", count, start, count);
	check(fi_close(&av->fid), "fi_close");
}

static void measure_batches(struct sockaddr_in *peers, fi_addr_t *handles,
			    unsigned int count)
{
	struct fid_av *av = open_vector();
	uint64_t start = now();

	for (unsigned int i = 0; i + BATCH <= count; i += BATCH)
		insert_all(av, peers + i, BATCH, handles + i);
	print_average("batch", BATCH, start, count);
	start = now();
	for (unsigned int i = 0; i + BATCH <= count; i++)
		check(fi_av_remove(av, handles + i, 1, 0), "fi_av_remove");
	print_average("remove", count, start, count);
	check(fi_close(&av->fid), "fi_close");
}

struct worker {
	struct fid_av *av;
	struct sockaddr_in *peers;
	unsigned int count;
};

static void *insert_and_look_up(void *data)
{
	struct worker *worker = data;
	struct sockaddr_in found;
	fi_addr_t handle;

	for (unsigned int i = 0; i < worker->count; i++) {
		size_t len = sizeof(found);

		insert_all(worker->av, worker->peers + i, 1, &handle);
		check(fi_av_lookup(worker->av, handle, &found, &len),
		      "fi_av_lookup");
	}
	return NULL;
}

static void measure_threads(struct sockaddr_in *peers, unsigned int count)
{
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	struct fid_av *av = open_vector();
	uint64_t start = now();

	for (unsigned int i = 0; i < THREADS; i++) {
		unsigned int share = count / THREADS;

		worker[i] = (struct worker){ av, peers + i * share, share };
		check(-pthread_create(&thread[i], NULL, insert_and_look_up,
				      &worker[i]), "pthread_create");
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	print_average("threads", THREADS, start, count);
	check(fi_close(&av->fid), "fi_close");
}

static struct fi_info *find_info(const char *provider, const char *address)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	if (!hints)
		check(-FI_ENOMEM, "fi_allocinfo");
	hints->ep_attr->type = FI_EP_RDM;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	check(fi_getinfo(FI_VERSION(1, 17), address, NULL, FI_SOURCE, hints,
			 &info), "fi_getinfo");
	fi_freeinfo(hints);
	return info;
}

int main(int argc, char **argv)
{
	unsigned int count = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	struct sockaddr_in *peers;
	struct fid_fabric *fabric;
	struct fi_info *info;
	fi_addr_t *handles;

	if (count < BATCH) {
		fprintf(stderr, "usage: fi_vectors PROVIDER ADDRESS COUNT\n");
		return 2;
	}
	info = find_info(argv[1], argv[2]);
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	peers = calloc(count, sizeof(*peers));
	handles = calloc(count, sizeof(*handles));
	if (!peers || !handles)
		check(-FI_ENOMEM, "calloc");
	for (unsigned int i = 0; i < count; i++)
		peers[i] = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(7471),
			.sin_addr.s_addr = htonl(BASE + 1 + i),
		};
	/* Touch the pages, so that they do not count as memory of the address vector. */
	memset(handles, 0xff, count * sizeof(*handles));
	measure_one_call(peers, handles, count);
	measure_batches(peers, handles, count);
	measure_threads(peers, count);
	check(fi_close(&domain->fid), "fi_close");
	check(fi_close(&fabric->fid), "fi_close");
	fi_freeinfo(info);
	return 0;
}
