// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, in the form of two programs: a client and a server each open a
 * fabric, an event queue, a domain and completion queues, use the sizes and
 * attributes of their infos, and expect the same events and completions as from
 * libfabric's providers, in buffers of exactly the size needed.
 */

#include <rdma/fi_rma.h>

#include "traffic.h"

/* mr_mode bits that a program in user space accepts. */
#define MR_MODE (FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | \
		 FI_MR_ALLOCATED | FI_MR_PROV_KEY)

#define LEN 1024

/* Objects of one program; the server opens its domain for the first request. */
struct program {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_eq		*eq;
	struct fid_domain	*domain;
	struct fid_cq		*tx;
	struct fid_cq		*rx;
};

static struct fi_info *hints_for(struct kunit *test, u64 caps)
{
	struct fi_info *hints = fx_hints(test);

	hints->caps = caps;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode = MR_MODE;
	return hints;
}

static void open_fabric(struct kunit *test, struct program *program,
			struct fi_info *info)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	program->info = info;
	program->fabric = fx_fabric(test, info);
	KUNIT_ASSERT_EQ(test, 0, fi_eq_open(program->fabric, &attr,
					    &program->eq, NULL));
	fx_defer_close(test, &program->eq->fid);
}

/* Opens queues of the size in the info. */
static void open_queues(struct kunit *test, struct program *program,
			const struct fi_info *info, enum fi_cq_format format)
{
	struct fi_cq_attr attr = { .format = format, .wait_obj = FI_WAIT_NONE };

	attr.size = info->tx_attr->size;
	program->tx = fx_cq(test, program->domain, &attr);
	attr.size = info->rx_attr->size;
	program->rx = fx_cq(test, program->domain, &attr);
}

static struct fid_ep *open_endpoint(struct kunit *test, struct program *program,
				    struct fi_info *info, struct fid_ep *srx)
{
	struct fid_ep *ep = fx_ep(test, program->domain, info);

	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &program->eq->fid, 0));
	if (srx)
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &srx->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &program->tx->fid, FI_TRANSMIT));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &program->rx->fid, FI_RECV));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	return ep;
}

static struct fid_pep *start_server(struct kunit *test, struct program *server,
				    const struct fi_info *hints)
{
	open_fabric(test, server, fx_info_for(test, hints, fx_addr, NULL,
					      FI_SOURCE));
	return fx_listen(test, server->fabric, server->info, server->eq);
}

/* Opens a client by the server's node and service. */
static void start_client(struct kunit *test, struct program *client,
			 const struct fi_info *hints, struct fid_pep *pep,
			 enum fi_cq_format format)
{
	struct sockaddr_in6 name;
	size_t len = sizeof(name);
	char service[8];

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &name, &len));
	snprintf(service, sizeof(service), "%u", ntohs(name.sin6_port));
	open_fabric(test, client, fx_info_for(test, hints, fx_addr, service, 0));
	client->domain = fx_domain(test, client->fabric, client->info);
	open_queues(test, client, client->info, format);
}

/* Reads the next event, which must have @data_len bytes of private data. */
static struct fx_cm_event *expect_event(struct kunit *test,
					struct program *program, u32 want,
					const struct fid *fid, size_t data_len)
{
	size_t len = sizeof(struct fi_eq_cm_entry) + data_len;
	struct fx_cm_event *event = (void *)tr_buffer(test, sizeof(*event));
	u32 what = ~0;

	KUNIT_ASSERT_EQ(test, (ssize_t)len,
			fi_eq_sread(program->eq, &what, event, len, FX_WAIT_MS,
				    0));
	KUNIT_ASSERT_EQ(test, want, what);
	KUNIT_ASSERT_PTR_EQ(test, fid, event->entry.fid);
	return event;
}

static struct fi_info *expect_request(struct kunit *test,
				      struct program *server,
				      struct fid_pep *pep)
{
	struct fx_cm_event *event = expect_event(test, server, FI_CONNREQ,
						 &pep->fid, 0);

	fx_defer_free(test, event->entry.info);
	return event->entry.info;
}

/* Opens the server's objects for the first request received. */
static void open_server(struct kunit *test, struct program *server,
			struct fi_info *request, enum fi_cq_format format)
{
	server->domain = fx_domain(test, server->fabric, request);
	open_queues(test, server, request, format);
}

/* Connects the programs: ep[0] is the client's endpoint, ep[1] the server's. */
static void connect_programs(struct kunit *test, struct program *client,
			     struct program *server, struct fid_pep *pep,
			     enum fi_cq_format format, struct fid_ep *ep[2])
{
	struct fi_info *request;

	ep[0] = open_endpoint(test, client, client->info, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep[0], client->info->dest_addr,
					    NULL, 0));
	request = expect_request(test, server, pep);
	if (!server->domain)
		open_server(test, server, request, format);
	ep[1] = open_endpoint(test, server, request, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(ep[1], NULL, 0));
	expect_event(test, server, FI_CONNECTED, &ep[1]->fid, 0);
	expect_event(test, client, FI_CONNECTED, &ep[0]->fid, 0);
}

static void cm_01_a_request_has_the_listeners_attributes(struct kunit *test)
{
	struct fi_info *hints = hints_for(test, FI_MSG | FI_MULTI_RECV);
	struct program client = {}, server = {};
	struct fi_info *request;
	struct fid_pep *pep;
	struct fid_ep *ep;

	hints->rx_attr->op_flags = FI_MULTI_RECV;
	hints->tx_attr->op_flags = FI_INJECT_COMPLETE;
	hints->tx_attr->size = 17;
	hints->rx_attr->size = 18;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	pep = start_server(test, &server, hints);
	KUNIT_ASSERT_EQ(test, FI_MULTI_RECV, server.info->rx_attr->op_flags);
	KUNIT_ASSERT_EQ(test, FI_INJECT_COMPLETE,
			server.info->tx_attr->op_flags);
	start_client(test, &client, hints, pep, FI_CQ_FORMAT_CONTEXT);
	ep = open_endpoint(test, &client, client.info, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, client.info->dest_addr, NULL, 0));
	request = expect_request(test, &server, pep);
	KUNIT_EXPECT_EQ(test, server.info->caps, request->caps);
	KUNIT_EXPECT_EQ(test, server.info->mode, request->mode);
	KUNIT_EXPECT_MEMEQ(test, server.info->tx_attr, request->tx_attr,
			   sizeof(*request->tx_attr));
	KUNIT_EXPECT_MEMEQ(test, server.info->rx_attr, request->rx_attr,
			   sizeof(*request->rx_attr));
	KUNIT_EXPECT_MEMEQ(test, server.info->ep_attr, request->ep_attr,
			   sizeof(*request->ep_attr));
	KUNIT_EXPECT_EQ(test, FI_THREAD_DOMAIN,
			request->domain_attr->threading);
	KUNIT_EXPECT_EQ(test, FI_PROGRESS_MANUAL,
			request->domain_attr->data_progress);
	KUNIT_EXPECT_EQ(test, server.info->fabric_attr->api_version,
			request->fabric_attr->api_version);
	KUNIT_EXPECT_EQ(test, server.info->domain_attr->mr_mode,
			request->domain_attr->mr_mode);
	KUNIT_EXPECT_EQ(test, server.info->domain_attr->cq_data_size,
			request->domain_attr->cq_data_size);
	fx_refuse(test, pep);
}

/* The client sends private data of some length; the server rejects with data of the same length. */
static void connect_and_reject(struct kunit *test, struct program *client,
			       struct program *server, struct fid_pep *pep, u8 *data,
			       size_t len)
{
	struct fid_ep *ep = open_endpoint(test, client, client->info, NULL);
	struct fi_eq_err_entry error = {};
	struct fx_cm_event *event;
	u32 what;

	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, client->info->dest_addr, data,
					    len));
	event = expect_event(test, server, FI_CONNREQ, &pep->fid, len);
	KUNIT_EXPECT_MEMEQ(test, data, event->data, len);
	KUNIT_EXPECT_EQ(test, 0, fi_reject(pep, event->entry.info->handle, data,
					   len));
	fi_freeinfo(event->entry.info);
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL,
			fi_eq_sread(client->eq, &what, event,
				    sizeof(event->entry), FX_WAIT_MS, 0));
	KUNIT_ASSERT_EQ(test, (ssize_t)sizeof(error),
			fi_eq_readerr(client->eq, &error, 0));
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	/* siw drops the private data of a rejection. */
	if (!tr_is_iwarp(client->info)) {
		KUNIT_ASSERT_EQ(test, len, error.err_data_size);
		KUNIT_EXPECT_MEMEQ(test, data, error.err_data, len);
	}
	fx_close(test, &ep->fid);
}

/* The server accepts; then both sides disconnect, and both wait for FI_SHUTDOWN. */
static void accept_and_disconnect(struct kunit *test, struct program *client,
				  struct program *server, struct fid_pep *pep,
				  u8 *data, size_t len)
{
	struct fx_cm_event *event;
	struct fid_ep *ep[2];

	ep[0] = open_endpoint(test, client, client->info, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep[0], client->info->dest_addr,
					    data, len));
	event = expect_event(test, server, FI_CONNREQ, &pep->fid, len);
	open_server(test, server, event->entry.info, FI_CQ_FORMAT_CONTEXT);
	ep[1] = open_endpoint(test, server, event->entry.info, NULL);
	fi_freeinfo(event->entry.info);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(ep[1], data, len));
	expect_event(test, server, FI_CONNECTED, &ep[1]->fid, 0);
	event = expect_event(test, client, FI_CONNECTED, &ep[0]->fid, len);
	KUNIT_EXPECT_MEMEQ(test, data, event->data, len);

	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(ep[1], 0));
	expect_event(test, server, FI_SHUTDOWN, &ep[1]->fid, 0);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(ep[0], 0));
	expect_event(test, client, FI_SHUTDOWN, &ep[0]->fid, 0);
	tr_expect_silence(test, server->eq);
	tr_expect_silence(test, client->eq);
	fx_close(test, &ep[1]->fid);
	fx_close(test, &server->rx->fid);
	fx_close(test, &server->tx->fid);
	fx_close(test, &server->domain->fid);
	fx_close(test, &ep[0]->fid);
}

static void cm_06_both_sides_shut_down_and_read_one_shutdown(struct kunit *test)
{
	struct fi_info *hints = hints_for(test, FI_MSG);
	struct program client = {}, server = {};
	size_t limit = 0, size = sizeof(limit);
	u8 *data = tr_buffer(test, 256);
	struct fid_pep *pep;

	tr_fill(data, 256, 5);
	pep = start_server(test, &server, hints);
	KUNIT_ASSERT_EQ(test, 0, fi_getopt(&pep->fid, FI_OPT_ENDPOINT,
					   FI_OPT_CM_DATA_SIZE, &limit, &size));
	start_client(test, &client, hints, pep, FI_CQ_FORMAT_CONTEXT);
	for (size_t len = 1; len <= limit; len *= 2) {
		connect_and_reject(test, &client, &server, pep, data, len);
		accept_and_disconnect(test, &client, &server, pep, data, len);
	}
}

/* Several connections, one after the other, with one event queue on each side. */
static void cm_01_connected_comes_before_the_next_request(struct kunit *test)
{
	struct fi_info *hints = hints_for(test, FI_MSG);
	struct program client = {}, server = {};
	struct fi_info *request;
	struct fid_ep *ep[4][2];
	struct fid_pep *pep;

	pep = start_server(test, &server, hints);
	if (tr_is_iwarp(server.info))
		kunit_skip(test, "iWARP reports FI_CONNECTED when the peer has replied");
	start_client(test, &client, hints, pep, FI_CQ_FORMAT_CONTEXT);
	for (int i = 0; i < ARRAY_SIZE(ep); i++) {
		ep[i][0] = open_endpoint(test, &client, client.info, NULL);
		KUNIT_ASSERT_EQ(test, 0, fi_connect(ep[i][0],
						    client.info->dest_addr,
						    NULL, 0));
		/* The previous connection's FI_CONNECTED comes before this request. */
		if (i)
			expect_event(test, &server, FI_CONNECTED,
				     &ep[i - 1][1]->fid, 0);
		request = expect_request(test, &server, pep);
		if (!server.domain)
			open_server(test, &server, request,
				    FI_CQ_FORMAT_CONTEXT);
		ep[i][1] = open_endpoint(test, &server, request, NULL);
		KUNIT_ASSERT_EQ(test, 0, fi_accept(ep[i][1], NULL, 0));
		expect_event(test, &client, FI_CONNECTED, &ep[i][0]->fid, 0);
	}
	expect_event(test, &server, FI_CONNECTED,
		     &ep[ARRAY_SIZE(ep) - 1][1]->fid, 0);
}

/* With one queue for both endpoints, FI_CONNECTED of the accepting one comes first. */
static void cm_01_the_accepting_endpoint_is_connected_first(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_bound_ep(test, fx), *accepted;
	struct program both = { .eq = fx->eq };

	if (!tr_is_loop(fx->info))
		kunit_skip(test, "over a device the reply takes time");
	fx_start_connect(test, ep, pep);
	accepted = fx_ep(test, fx->domain, fx_wait_request(test, fx->eq));
	fx_bind(test, accepted, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(accepted, NULL, 0));
	expect_event(test, &both, FI_CONNECTED, &accepted->fid, 0);
	expect_event(test, &both, FI_CONNECTED, &ep->fid, 0);
}

#define BUFFERS		2
#define PER_BUFFER	64
#define MESSAGES	(3 * BUFFERS * PER_BUFFER)

static int post_buffer(struct fid_ep *ep, u8 *buf, void *desc, bool by_msg)
{
	struct kvec iov = { buf, PER_BUFFER * LEN };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = buf,
	};

	if (by_msg)
		return fi_recvmsg(ep, &msg, FI_MULTI_RECV);
	return fi_recv(ep, buf, PER_BUFFER * LEN, desc, 0, buf);
}

static const bool by_msg[] = { false, true };

static void name_call(const bool *is, char *name)
{
	strscpy(name, *is ? "fi_recvmsg" : "fi_recv", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(by_msg, by_msg, name_call);

/*
 * Sends messages into multi-receive buffers of the accepted endpoint, each
 * posted again after use.
 */
static void ep_11_accepted_endpoints_inherit_fi_multi_recv(struct kunit *test)
{
	struct fi_info *hints = hints_for(test, FI_MSG | FI_MULTI_RECV);
	u8 *in = tr_buffer(test, BUFFERS * PER_BUFFER * LEN);
	u8 *out = tr_buffer(test, LEN), *next = in;
	const bool *msg = test->param_value;
	struct program client = {}, server = {};
	size_t longest = LEN;
	struct fid_ep *ep[2];
	struct fid_pep *pep;
	struct fid_mr *mr;

	hints->rx_attr->op_flags = FI_MULTI_RECV;
	pep = start_server(test, &server, hints);
	start_client(test, &client, hints, pep, FI_CQ_FORMAT_DATA);
	connect_programs(test, &client, &server, pep, FI_CQ_FORMAT_DATA, ep);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(server.domain, in,
					   BUFFERS * PER_BUFFER * LEN, FI_RECV,
					   0, 0xc0df, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&ep[1]->fid, FI_OPT_ENDPOINT,
					   FI_OPT_MIN_MULTI_RECV, &longest,
					   sizeof(longest)));
	for (int i = 0; i < BUFFERS; i++)
		KUNIT_ASSERT_EQ(test, 0, post_buffer(ep[1],
						     in + i * PER_BUFFER * LEN,
						     fi_mr_desc(mr), *msg));
	for (int i = 0; i < MESSAGES; i++) {
		bool last = i % PER_BUFFER == PER_BUFFER - 1;
		struct fi_cq_data_entry entry = {};
		u8 *buf = next - (next - in) % (PER_BUFFER * LEN);

		tr_fill(out, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, tr_send(ep[0], out, LEN));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, client.tx, &entry, 1));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, server.rx, &entry, 1));
		KUNIT_ASSERT_PTR_EQ(test, (void *)buf, entry.op_context);
		KUNIT_ASSERT_PTR_EQ(test, (void *)next, entry.buf);
		KUNIT_ASSERT_EQ(test, LEN, entry.len);
		KUNIT_ASSERT_EQ(test, FI_RECV | FI_MSG |
				(last ? FI_MULTI_RECV : 0), entry.flags);
		KUNIT_ASSERT_TRUE(test, tr_intact(next, LEN, i));
		if (last)
			KUNIT_ASSERT_EQ(test, 0, post_buffer(ep[1], buf,
							     fi_mr_desc(mr),
							     *msg));
		next = (next - in) / LEN == BUFFERS * PER_BUFFER - 1 ? in :
								       next + LEN;
	}
}

#define ENDS 4

static struct fid_ep *open_shared(struct kunit *test, struct program *program,
				  struct fi_info *info)
{
	struct fid_ep *srx;

	/* The accepted endpoint has the attributes of the info. */
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(program->domain, info->rx_attr,
						&srx, NULL));
	fx_defer_close(test, &srx->fid);
	return srx;
}

static void read_context(struct kunit *test, struct fid_cq *cq)
{
	struct fi_cq_entry entry;

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
}

/* Endpoints of each side share receives, and complete in one queue per direction. */
static void srx_is_shared_by_endpoints_with_one_cq(struct kunit *test)
{
	struct fi_info *hints = hints_for(test, FI_MSG);
	struct fid_ep *ep[ENDS][2], *srx[2] = {};
	struct program client = {}, server = {};
	u8 *buf = tr_buffer(test, 3 * ENDS * LEN);
	struct fi_info *request;
	struct fid_pep *pep;

	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	pep = start_server(test, &server, hints);
	start_client(test, &client, hints, pep, FI_CQ_FORMAT_CONTEXT);
	srx[0] = open_shared(test, &client, client.info);
	for (int i = 0; i < ENDS; i++)
		ep[i][0] = open_endpoint(test, &client, client.info, srx[0]);
	for (int i = 0; i < ENDS; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_connect(ep[i][0],
						    client.info->dest_addr,
						    NULL, 0));
		request = expect_request(test, &server, pep);
		if (!i) {
			open_server(test, &server, request,
				    FI_CQ_FORMAT_CONTEXT);
			srx[1] = open_shared(test, &server, request);
		}
		ep[i][1] = open_endpoint(test, &server, request, srx[1]);
		KUNIT_ASSERT_EQ(test, 0, fi_accept(ep[i][1], NULL, 0));
		expect_event(test, &server, FI_CONNECTED, &ep[i][1]->fid, 0);
		expect_event(test, &client, FI_CONNECTED, &ep[i][0]->fid, 0);
	}
	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < ENDS; i++)
			KUNIT_ASSERT_EQ(test, 0, tr_recv(srx[side], buf + i * LEN,
							 LEN));
		for (int i = 0; i < ENDS; i++) {
			struct program *from = side ? &client : &server;

			KUNIT_ASSERT_EQ(test, 0, tr_send(ep[i][!side], buf +
							 2 * ENDS * LEN, LEN));
			read_context(test, from->tx);
		}
		for (int i = 0; i < ENDS; i++)
			read_context(test, side ? server.rx : client.rx);
	}
	/* NULL is no buffer for 256 bytes, however short the message is. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recv(srx[0], NULL, 256, NULL,
						  FI_ADDR_UNSPEC, NULL));
}

#define WINDOW 64

/* Writes with remote CQ data, on a connection with FI_RX_CQ_DATA. */
static void rma_01_window_of_writes_with_cq_data(struct kunit *test)
{
	struct fi_info *hints = hints_for(test, FI_MSG | FI_RMA | FI_WRITE |
						FI_REMOTE_WRITE);
	u8 *in = tr_buffer(test, LEN), *out = tr_buffer(test, LEN);
	struct program client = {}, server = {};
	struct fid_ep *ep[2];
	struct fid_pep *pep;
	struct fid_mr *mr;
	u64 data;

	hints->mode |= FI_RX_CQ_DATA;
	hints->domain_attr->cq_data_size = 4;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	fx_set_threading(hints, FI_THREAD_DOMAIN);
	hints->tx_attr->tclass = FI_TC_BULK_DATA;
	if (tr_is_iwarp(fx_info(test, fx_addr, NULL, FI_SOURCE)))
		kunit_skip(test, "iWARP has no CQ data with writes");
	pep = start_server(test, &server, hints);
	start_client(test, &client, hints, pep, FI_CQ_FORMAT_DATA);
	connect_programs(test, &client, &server, pep, FI_CQ_FORMAT_DATA, ep);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(server.domain, in, LEN,
					   FI_REMOTE_WRITE, 0, 0xc0de, 0, &mr,
					   NULL));
	fx_defer_close(test, &mr->fid);
	KUNIT_ASSERT_EQ(test, FI_RX_CQ_DATA, server.info->rx_attr->mode);
	KUNIT_ASSERT_EQ(test, 4, client.info->domain_attr->cq_data_size);
	data = 0x0123456789abcdef & U32_MAX;
	for (int i = 0; i < WINDOW; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(ep[1], NULL, 0));
	tr_fill(out, LEN, 9);
	for (int i = 0; i < WINDOW; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_writedata(ep[0], out, LEN, NULL,
						      data, FI_ADDR_UNSPEC,
						      (uintptr_t)in,
						      fi_mr_key(mr), out));
	for (int i = 0; i < WINDOW; i++) {
		struct fi_cq_data_entry entry = {};

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, server.rx, &entry, 1));
		KUNIT_EXPECT_EQ(test, data, entry.data);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, client.tx, &entry, 1));
	}
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, 9));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_01_a_request_has_the_listeners_attributes),
	KUNIT_CASE(cm_01_connected_comes_before_the_next_request),
	KUNIT_CASE(cm_01_the_accepting_endpoint_is_connected_first),
	KUNIT_CASE(cm_06_both_sides_shut_down_and_read_one_shutdown),
	KUNIT_CASE_PARAM(ep_11_accepted_endpoints_inherit_fi_multi_recv,
			 by_msg_gen_params),
	KUNIT_CASE(srx_is_shared_by_endpoints_with_one_cq),
	KUNIT_CASE(rma_01_window_of_writes_with_cq_data),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_client_server",
	.test_cases = cases,
};

kunit_test_suite(suite);
