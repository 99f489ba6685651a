// SPDX-License-Identifier: GPL-2.0
/* Implements the raw peer: see rdm_raw.h. */

#include <linux/mm.h>

#include "rdm_raw.h"

/* Number of reposted receives that are announced by one credit packet. */
#define WORTH	(RAW_RECEIVES / 2)

static u8 *packets(struct kunit *test, int count)
{
	u8 *bytes = kvzalloc(count * RAW_MOST, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	return bytes;
}

KUNIT_DEFINE_ACTION_WRAPPER(free_packets, kvfree, const void *);

struct raw *raw_open(struct kunit *test, size_t memory_len)
{
	struct raw *raw = kunit_kzalloc(test, sizeof(*raw), GFP_KERNEL);
	struct fi_info *hints = fx_hints(test);
	struct fid_mr *mr;
	u8 **all[] = { &raw->out, &raw->in, &raw->words };
	/* A mutated packet may be longer than RAW_MOST, so there is a slot behind the last one. */
	static const int counts[] = { RAW_SLOTS + 1, RAW_RECEIVES, RAW_WORDS };

	KUNIT_ASSERT_NOT_NULL(test, raw);
	for (int i = 0; i < ARRAY_SIZE(all); i++) {
		*all[i] = packets(test, counts[i]);
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_packets, *all[i]));
	}
	raw->memory_len = memory_len;
	raw->memory = tr_vbuffer(test, memory_len);
	raw->fx = fx_open(test);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_RX_CQ_DATA;
	raw->fx->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	raw->fx->info->rx_attr->size = RAW_RECEIVES;
	raw->is_merciless = tr_is_iwarp(raw->fx->info);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(raw->fx->domain, raw->memory, memory_len,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	raw->key = fi_mr_key(mr);
	return raw;
}

struct raw_hello raw_hello(struct raw *raw, u16 port, u32 instance)
{
	return (struct raw_hello){
		.version = 1, .endianness = 2, .ctrl_version = 4, .op_version = 3,
		.port = port, .flow = raw->is_merciless ? 1 : 2, .eager = RAW_EAGER,
		.receives = RAW_RECEIVES, .name = 7, .instance = instance,
	};
}

static int receive(struct raw *raw, u8 *packet)
{
	int ret = fi_recv(raw->ep, packet, RAW_MOST, NULL, 0, packet);

	raw->untold += !ret;
	return ret;
}

static void hear(struct kunit *test, struct raw *raw, const struct fx_cm_event *event, int len)
{
	raw->said_len = min_t(size_t, len - sizeof(event->entry), sizeof(raw->said));
	memcpy(raw->said, event->data, raw->said_len);
}

int raw_connect(struct kunit *test, struct raw *raw, const void *to, const void *hello, size_t len)
{
	struct fi_eq_err_entry error = { .err_data = raw->said, .err_data_size = sizeof(raw->said) };
	struct raw_welcome welcome = {};
	struct fx_cm_event event;
	int ret, errnum;
	u32 what;

	raw->ep = fx_bound_ep(test, raw->fx);
	raw->is_gone = false;
	raw->busy = 0;
	raw->speaking = 0;
	raw->credits = 1;
	raw->untold = -1;
	raw->said_len = 0;
	KUNIT_ASSERT_EQ(test, 0, fi_enable(raw->ep));
	for (int i = 0; i < RAW_RECEIVES; i++)
		KUNIT_ASSERT_EQ(test, 0, receive(raw, raw->in + i * RAW_MOST));
	KUNIT_ASSERT_EQ(test, 0, fi_connect(raw->ep, to, hello, len));
	ret = fi_eq_sread(raw->fx->eq, &what, &event, sizeof(event), FX_WAIT_MS, 0);
	if (ret > 0 && what == FI_CONNECTED) {
		hear(test, raw, &event, ret);
		memcpy(&welcome, raw->said, min(sizeof(welcome), raw->said_len));
		raw->to = welcome.name;
		raw->counts = raw->is_merciless && welcome.flow == 1;
		return 0;
	}
	if (ret > 0)
		errnum = FI_ECONNABORTED;
	else if (ret == -FI_EAVAIL && fi_eq_readerr(raw->fx->eq, &error, 0) > 0)
		errnum = error.err;
	else
		errnum = FI_ETIMEDOUT;
	if (errnum == error.err)
		raw->said_len = error.err_data_size;
	raw_leave(test, raw);
	return errnum;
}

void raw_leave(struct kunit *test, struct raw *raw)
{
	if (raw->ep)
		fx_close(test, &raw->ep->fid);
	raw->ep = NULL;
}

/* Announces reposted receives to the other end, in a credit packet. */
static void tell(struct raw *raw)
{
	struct raw_header *word;
	int free = ffz(raw->speaking);

	if (!raw->counts || raw->untold < WORTH || !raw->credits || free >= RAW_WORDS)
		return;
	word = raw_begin(raw, raw->words + free * RAW_MOST, RAW_CREDIT);
	word->extra = raw->untold;
	if (fi_send(raw->ep, word, sizeof(*word), NULL, 0, word))
		return;
	raw->speaking |= BIT(free);
	raw->untold = 0;
	raw->credits--;
}

static void complete_one(struct raw *raw, const struct fi_cq_tagged_entry *entry)
{
	u8 *packet = entry->op_context;
	struct raw_header *header = (void *)packet;

	if (entry->flags & FI_RMA)
		return;
	if (entry->flags & FI_SEND) {
		if (packet >= raw->words && packet < raw->words + RAW_WORDS * RAW_MOST) {
			raw->speaking &= ~BIT((packet - raw->words) / RAW_MOST);
			return;
		}
		raw->busy &= ~BIT((packet - raw->out) / RAW_MOST);
		raw->done++;
		return;
	}
	if (header->kind == RAW_CREDIT) {
		raw->credits += header->extra;
		raw->probes += !header->extra;
	}
	if (header->kind != RAW_CREDIT && raw->heard)
		raw->heard(raw, header);
	if (receive(raw, packet))
		raw->is_gone = true;
}

void raw_look(struct raw *raw)
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
			raw->is_gone = true;
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
		raw->is_gone = true;
	if (raw->ep && !raw->is_gone)
		tell(raw);
}

u8 *raw_packet(struct raw *raw)
{
	int free;

	raw_look(raw);
	free = ffz(raw->busy);
	if (!raw->ep || raw->is_gone || free >= RAW_SLOTS || (raw->counts && raw->credits < 2))
		return NULL;
	return raw->out + free * RAW_MOST;
}

struct raw_header *raw_begin(struct raw *raw, u8 *packet, enum raw_kind kind)
{
	struct raw_header *header = (void *)packet;

	*header = (struct raw_header){
		.version = 4, .kind = kind, .to = raw->to, .op_version = 2,
	};
	return header;
}

int raw_send(struct raw *raw, u8 *packet, size_t len)
{
	int ret = fi_send(raw->ep, packet, len, NULL, 0, packet);

	if (!ret) {
		raw->busy |= BIT((packet - raw->out) / RAW_MOST);
		raw->credits -= raw->counts;
	}
	return ret;
}
