// SPDX-License-Identifier: GPL-2.0
/* Implements the raw peer: see rdm_raw.h. */

#include <linux/mm.h>

#include "rdm_raw.h"

/* Number of reposted receives that are announced by one credit packet. */
#define CREDIT_THRESHOLD	(RAW_RECEIVES / 2)

static u8 *alloc_packets(struct kunit *test, int count)
{
	u8 *bytes = kvzalloc(count * RAW_PKT_MAX, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	return bytes;
}

KUNIT_DEFINE_ACTION_WRAPPER(free_packets, kvfree, const void *);

struct raw *raw_open(struct kunit *test, size_t memory_len)
{
	struct raw *raw = kunit_kzalloc(test, sizeof(*raw), GFP_KERNEL);
	struct fi_info *hints = fx_hints(test);
	struct fid_mr *mr;
	u8 **all[] = { &raw->out, &raw->in, &raw->credit_pkts };
	/* A mutated packet may exceed RAW_PKT_MAX and end in the slot behind its own. */
	static const int counts[] = { RAW_SLOTS + 1, RAW_RECEIVES, RAW_CREDIT_PKTS };

	KUNIT_ASSERT_NOT_NULL(test, raw);
	for (int i = 0; i < ARRAY_SIZE(all); i++) {
		*all[i] = alloc_packets(test, counts[i]);
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_packets, *all[i]));
	}
	raw->memory_len = memory_len;
	raw->memory = tr_vbuffer(test, memory_len);
	raw->fx = fx_open(test);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_RX_CQ_DATA;
	raw->fx->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	raw->fx->info->rx_attr->size = RAW_RECEIVES;
	raw->needs_recv = tr_is_iwarp(raw->fx->info);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(raw->fx->domain, raw->memory, memory_len,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	raw->key = fi_mr_key(mr);
	return raw;
}

struct raw_connect_data raw_connect_data(struct raw *raw, u16 port)
{
	static u32 instance;

	return (struct raw_connect_data){
		.version = 1, .endianness = 2, .ctrl_version = 4, .op_version = 3,
		.port = port, .flow = raw->needs_recv ? 1 : 2, .eager = RAW_EAGER,
		.receives = RAW_RECEIVES, .name = 7, .instance = ++instance,
	};
}

static int receive(struct raw *raw, u8 *packet)
{
	int ret = fi_recv(raw->ep, packet, RAW_PKT_MAX, NULL, 0, packet);

	raw->unannounced += !ret;
	return ret;
}

static void save_cm_data(struct kunit *test, struct raw *raw, const struct fx_cm_event *event,
			 int len)
{
	raw->cm_data_len = min_t(size_t, len - sizeof(event->entry), sizeof(raw->cm_data));
	memcpy(raw->cm_data, event->data, raw->cm_data_len);
}

int raw_connect(struct kunit *test, struct raw *raw, const void *to, const void *data, size_t len)
{
	struct fi_eq_err_entry error = {
		.err_data = raw->cm_data, .err_data_size = sizeof(raw->cm_data),
	};
	struct raw_accept_data accepted = {};
	struct fx_cm_event event;
	int ret, errnum;
	u32 what;

	raw->ep = fx_bound_ep(test, raw->fx);
	raw->is_closed = false;
	raw->busy = 0;
	raw->credit_busy = 0;
	raw->credits = 1;
	raw->unannounced = -1;
	raw->packets = 0;
	raw->cm_data_len = 0;
	KUNIT_ASSERT_EQ(test, 0, fi_enable(raw->ep));
	for (int i = 0; i < RAW_RECEIVES; i++)
		KUNIT_ASSERT_EQ(test, 0, receive(raw, raw->in + i * RAW_PKT_MAX));
	KUNIT_ASSERT_EQ(test, 0, fi_connect(raw->ep, to, data, len));
	ret = fi_eq_sread(raw->fx->eq, &what, &event, sizeof(event), FX_WAIT_MS, 0);
	if (ret > 0 && what == FI_CONNECTED) {
		save_cm_data(test, raw, &event, ret);
		memcpy(&accepted, raw->cm_data, min(sizeof(accepted), raw->cm_data_len));
		raw->to = accepted.name;
		raw->uses_credits = raw->needs_recv && accepted.flow == 1;
		return 0;
	}
	if (ret > 0)
		errnum = FI_ECONNABORTED;
	else if (ret == -FI_EAVAIL && fi_eq_readerr(raw->fx->eq, &error, 0) > 0)
		errnum = error.err;
	else
		errnum = FI_ETIMEDOUT;
	if (errnum == error.err)
		raw->cm_data_len = error.err_data_size;
	raw_disconnect(test, raw);
	return errnum;
}

void raw_reconnect(struct kunit *test, struct raw *raw, const void *to, const void *data,
		   size_t len)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int err;

	raw_disconnect(test, raw);
	while ((err = raw_connect(test, raw, to, data, len))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for a connection: %s", fi_strerror(err));
		usleep_range(1000, 2000);
	}
}

void raw_reconnect_as(struct kunit *test, struct raw *raw, const void *to, u16 port,
		      u32 extensions)
{
	struct raw_connect_data data = raw_connect_data(raw, port);

	data.receives = extensions ?: data.receives;
	raw_reconnect(test, raw, to, &data, sizeof(data));
}

struct raw *raw_open_connected(struct kunit *test, const void *to, u32 extensions)
{
	struct raw *raw = raw_open(test, SZ_4K);

	raw_reconnect_as(test, raw, to, RAW_PORT, extensions);
	return raw;
}

struct raw *raw_open_silent(struct kunit *test, const void *to, u16 port)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct raw_connect_data data = raw_connect_data(raw, port);

	data.flow = 1;
	raw_reconnect(test, raw, to, &data, sizeof(data));
	return raw;
}

struct sockaddr_storage raw_name(const struct sockaddr_storage *endpoint, u16 port)
{
	struct sockaddr_storage name = *endpoint;

	/* The port of both families is at the same place. */
	((struct sockaddr_in *)&name)->sin_port = htons(port);
	return name;
}

fi_addr_t raw_addr(struct kunit *test, struct kofi_rdm *rdm, u16 port)
{
	struct kofi_rdm peer = { .name = raw_name(&rdm->name, port) };

	return rdm_addr(test, rdm, &peer);
}

void raw_disconnect(struct kunit *test, struct raw *raw)
{
	if (raw->ep)
		fx_close(test, &raw->ep->fid);
	raw->ep = NULL;
}

/* Announces reposted receives to the other end, in a credit packet. */
static void send_credits(struct raw *raw)
{
	struct raw_header *credit;
	int free = ffz(raw->credit_busy);

	if (!raw->uses_credits || raw->unannounced < CREDIT_THRESHOLD || !raw->credits ||
	    free >= RAW_CREDIT_PKTS)
		return;
	credit = raw_init_packet(raw, raw->credit_pkts + free * RAW_PKT_MAX, RAW_PKT_CREDIT);
	credit->extra = raw->unannounced;
	if (fi_send(raw->ep, credit, sizeof(*credit), NULL, 0, credit))
		return;
	raw->credit_busy |= BIT(free);
	raw->unannounced = 0;
	raw->credits--;
}

static void complete_one(struct raw *raw, const struct fi_cq_tagged_entry *entry)
{
	u8 *packet = entry->op_context;
	struct raw_header *header = (void *)packet;

	if (entry->flags & FI_RMA)
		return;
	if (entry->flags & FI_SEND) {
		if (packet >= raw->credit_pkts &&
		    packet < raw->credit_pkts + RAW_CREDIT_PKTS * RAW_PKT_MAX) {
			raw->credit_busy &= ~BIT((packet - raw->credit_pkts) / RAW_PKT_MAX);
			return;
		}
		raw->busy &= ~BIT((packet - raw->out) / RAW_PKT_MAX);
		raw->sent++;
		return;
	}
	if (header->kind == RAW_PKT_CREDIT) {
		raw->credits += header->extra;
		raw->probes += !header->extra;
	} else {
		raw->packets++;
		raw->got = *header;
		if (header->kind == RAW_PKT_RNDV_REQ || header->kind == RAW_PKT_TAGGED_ACCESS)
			memcpy(&raw->ranges, header + 1, sizeof(raw->ranges));
		if (raw->on_packet)
			raw->on_packet(raw, header);
	}
	if (receive(raw, packet))
		raw->is_closed = true;
}

void raw_progress(struct raw *raw)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	struct fx_cm_event event;
	ssize_t ret;
	u32 what;

	while (raw->ep) {
		ret = fi_cq_read(raw->fx->cq, &entry, 1);
		if (ret == 1) {
			complete_one(raw, &entry);
		} else if (ret == -FI_EAVAIL) {
			fi_cq_readerr(raw->fx->cq, &error, 0);
			raw->is_closed = true;
		} else {
			break;
		}
	}
	ret = fi_eq_read(raw->fx->eq, &what, &event, sizeof(event), 0);
	if (ret == -FI_EAVAIL) {
		struct fi_eq_err_entry failure = {};

		fi_eq_readerr(raw->fx->eq, &failure, 0);
	}
	if (ret != -FI_EAGAIN)
		raw->is_closed = true;
	if (raw->ep && !raw->is_closed)
		send_credits(raw);
}

void raw_await_received(struct kunit *test, struct raw *raw, u32 count)
{
	raw_await(test, raw, raw->packets >= count || raw->is_closed, "%u packets, received %u",
		  count, raw->packets);
	KUNIT_ASSERT_GE_MSG(test, raw->packets, count, "the connection has ended");
}

void raw_await_sent(struct kunit *test, struct raw *raw)
{
	raw_await(test, raw, !raw->busy || raw->is_closed, "the packets %x to be sent", raw->busy);
	KUNIT_ASSERT_EQ_MSG(test, 0, raw->busy, "the connection has ended");
}

void raw_await_closed(struct kunit *test, struct raw *raw, const char *why)
{
	raw_await(test, raw, raw->is_closed, "the end of the connection: %s", why);
}

u8 *raw_get_packet(struct raw *raw)
{
	int free;

	raw_progress(raw);
	free = ffz(raw->busy);
	if (!raw->ep || raw->is_closed || free >= RAW_SLOTS ||
	    (raw->uses_credits && raw->credits < 2))
		return NULL;
	return raw->out + free * RAW_PKT_MAX;
}

u8 *raw_get_packet_within(struct raw *raw, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);
	u8 *packet;

	while (!(packet = raw_get_packet(raw)) && !raw->is_closed && time_before(jiffies, end))
		usleep_range(50, 100);
	return packet;
}

u8 *raw_await_free(struct kunit *test, struct raw *raw)
{
	u8 *packet = raw_get_packet_within(raw, FX_WAIT_MS);

	KUNIT_ASSERT_NOT_NULL_MSG(test, packet, raw->is_closed ? "the connection has ended" :
				  "waited for a free packet");
	return packet;
}

struct raw_header *raw_init_packet(struct raw *raw, u8 *packet, enum raw_kind kind)
{
	struct raw_header *header = (void *)packet;

	*header = (struct raw_header){
		.version = 4, .kind = kind, .to = raw->to, .op_version = 2,
	};
	return header;
}

size_t raw_init_atomic(struct raw *raw, u8 *packet, u64 addr, u64 key, u64 id)
{
	struct raw_header *header = raw_init_packet(raw, packet, RAW_PKT_ATOMIC_REQ);
	struct raw_ranges *ranges = (void *)(packet + RAW_HEADER);
	u64 *operand = (u64 *)(packet + RAW_HEADER + sizeof(ranges->range));

	memset(ranges, 0, sizeof(*ranges));
	header->op = RAW_FETCH;
	header->id = id;
	header->datatype = FI_UINT64;
	header->atomic_op = FI_SUM;
	header->targets = 1;
	header->len = sizeof(ranges->range) + sizeof(*operand);
	ranges->range[0].addr = addr;
	ranges->range[0].len = 1;
	ranges->range[0].key = key;
	*operand = 1;
	return RAW_HEADER + header->len;
}

int raw_send(struct raw *raw, u8 *packet, size_t len)
{
	int ret = fi_send(raw->ep, packet, len, NULL, 0, packet);

	if (!ret) {
		raw->busy |= BIT((packet - raw->out) / RAW_PKT_MAX);
		raw->credits -= raw->uses_credits;
	}
	return ret;
}

void raw_send_ctrl(struct kunit *test, struct raw *raw, enum raw_kind kind, u64 id, u64 extra)
{
	u8 *packet = raw_await_free(test, raw);
	struct raw_header *header = raw_init_packet(raw, packet, kind);

	header->id = id;
	header->extra = extra;
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, sizeof(*header)));
}

void raw_grant(struct kunit *test, struct raw *raw)
{
	/* If both sides use credits, raw_progress() grants them. */
	raw_progress(raw);
	if (!raw->uses_credits)
		raw_send_ctrl(test, raw, RAW_PKT_CREDIT, 0, RAW_RECEIVES - 1);
}
