// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's side of libfabric's fi_pingpong: a datagram endpoint that sends,
 * receives and verifies messages as that program does. user/pingpong.c runs
 * fi_pingpong's out-of-band protocol for it. That program opens
 *
 *	/sys/kernel/debug/kofi_pingpong/end
 *
 * and has an endpoint of its own until it closes the file. It reads the endpoint's
 * address from the file, and writes commands, one a line:
 *
 *	peer 10.0.0.1 40000 msg		address of the peer, and "msg" or "tagged"
 *	ping 64 100			send 100 messages of 64 bytes, each echoed
 *	pong 64 100			echo 100 messages of 64 bytes
 *	end				exchange the final messages
 *
 * A write returns when its command is complete; errors are logged.
 */

#define pr_fmt(fmt) "pingpong: " fmt

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/uaccess.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>

#define MAX_SIZE	SZ_1M
/* Timeout of one message in milliseconds */
#define TIMEOUT_MS	30000
/* Time in milliseconds in which a sent credit arrives */
#define SETTLE_MS	100

/* Tag of fi_pingpong's messages, and text of the final messages */
#define TAG		1234
#define FINAL_MESSAGE	"fin"

/* Each message begins this many letters further in the alphabet. */
#define STRIDE		7
static const char alphabet[] =
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
#define LETTERS		(sizeof(alphabet) - 1)

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "numeric address of an RDMA device of this machine");

static struct dentry *dir;

/**
 * struct end - an endpoint, which exists while the file is open
 * @lock: serializes commands
 * @sent: number of messages sent, which determines the letters of the next one
 * @received: number of messages received
 */
struct end {
	struct mutex		lock;
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*tx_cq, *rx_cq;
	struct fid_ep		*ep;
	fi_addr_t		peer;
	bool			is_tagged;
	u8			*out, *in;
	unsigned int		sent, received;
};

static u8 letter(unsigned int message, size_t at)
{
	return alphabet[(message * STRIDE + at) % LETTERS];
}

static int post_receive(struct end *end)
{
	if (end->is_tagged)
		return fi_trecv(end->ep, end->in, MAX_SIZE, NULL, FI_ADDR_UNSPEC,
				TAG, 0, NULL);
	return fi_recv(end->ep, end->in, MAX_SIZE, NULL, FI_ADDR_UNSPEC, NULL);
}

static int wait_completion(struct fid_cq *cq, struct fi_cq_tagged_entry *done)
{
	struct fi_cq_err_entry err = {};
	ssize_t ret;

	ret = fi_cq_sread(cq, done, 1, NULL, TIMEOUT_MS);
	if (ret == -FI_EAGAIN)
		return signal_pending(current) ? -FI_EINTR : -FI_ETIMEDOUT;
	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &err, 0) == 1)
		return -err.err;
	return ret < 0 ? ret : 0;
}

static int send(struct end *end, size_t len)
{
	struct fi_cq_tagged_entry done;
	int ret;

	if (end->is_tagged)
		ret = fi_tsend(end->ep, end->out, len, NULL, end->peer, TAG, NULL);
	else
		ret = fi_send(end->ep, end->out, len, NULL, end->peer, NULL);
	return ret ?: wait_completion(end->tx_cq, &done);
}

static int receive(struct end *end, size_t len)
{
	struct fi_cq_tagged_entry done;
	int ret;

	ret = wait_completion(end->rx_cq, &done);
	return ret || done.len == len ? ret : -FI_EMSGSIZE;
}

static int send_letters(struct end *end, size_t len)
{
	for (size_t i = 0; i < len; i++)
		end->out[i] = letter(end->sent, i);
	end->sent++;
	return send(end, len);
}

static int receive_letters(struct end *end, size_t len)
{
	int ret;

	ret = receive(end, len);
	for (size_t i = 0; !ret && i < len; i++)
		if (end->in[i] != letter(end->received, i))
			ret = -FI_EIO;
	end->received++;
	/* Post the next receive before the peer may send again, as fi_pingpong does. */
	return ret ?: post_receive(end);
}

static int run_messages(struct end *end, bool begins, size_t len, unsigned int count)
{
	int ret = len > MAX_SIZE ? -FI_EMSGSIZE : 0;

	for (unsigned int n = 0; !ret && n < count; n++) {
		if (begins)
			ret = send_letters(end, len) ?: receive_letters(end, len);
		else
			ret = receive_letters(end, len) ?: send_letters(end, len);
		if (ret)
			pr_err("message %u of %zu bytes: %s\n", n, len,
			       fi_strerror(ret));
	}
	return ret;
}

/*
 * Exchanges the final messages. fi_pingpong closes its endpoint when it has received
 * ours, and libfabric up to 2.6 then handles unread packets with a freed connection
 * (user/rdm.h). Pending credits are therefore sent before ours.
 */
static int exchange_final(struct end *end)
{
	int ret;

	ret = receive(end, sizeof(FINAL_MESSAGE));
	if (!ret && memcmp(end->in, FINAL_MESSAGE, sizeof(FINAL_MESSAGE)))
		ret = -FI_EIO;
	if (ret)
		return ret;
	msleep(SETTLE_MS);
	memcpy(end->out, FINAL_MESSAGE, sizeof(FINAL_MESSAGE));
	ret = send(end, sizeof(FINAL_MESSAGE));
	/* siw may fail a send that has arrived, if the peer disconnects. The peer reports a loss. */
	if (ret == -FI_EIO && strstarts(end->info->domain_attr->name, "siw"))
		return 0;
	return ret;
}

static int set_peer(struct end *end, const char *node, const char *service,
		    const char *kind)
{
	int ret;

	if (end->peer != FI_ADDR_UNSPEC)
		return -FI_EBUSY;
	end->is_tagged = !strcmp(kind, "tagged");
	if (!end->is_tagged && strcmp(kind, "msg"))
		return -FI_EINVAL;
	ret = fi_av_insertsvc(end->av, node, service, &end->peer, 0, NULL);
	if (ret != 1)
		return ret < 0 ? ret : -FI_EINVAL;
	return post_receive(end);
}

static int run_command(struct end *end, const char *line)
{
	char verb[8], node[INET6_ADDRSTRLEN], service[8], kind[8];
	unsigned int len, count;

	if (sscanf(line, "peer %47s %7s %7s", node, service, kind) == 3)
		return set_peer(end, node, service, kind);
	if (end->peer == FI_ADDR_UNSPEC)
		return -FI_ENOTCONN;
	if (!strcmp(line, "end"))
		return exchange_final(end);
	if (sscanf(line, "%7s %u %u", verb, &len, &count) != 3)
		return -FI_EINVAL;
	if (!strcmp(verb, "ping"))
		return run_messages(end, true, len, count);
	if (!strcmp(verb, "pong"))
		return run_messages(end, false, len, count);
	return -FI_EINVAL;
}

static int open_endpoint(struct end *end)
{
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = FI_MSG | FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, NULL, FI_SOURCE, hints,
			 &end->info);
	fi_freeinfo(hints);
	if (!ret)
		ret = fi_fabric(end->info->fabric_attr, &end->fabric, NULL);
	if (!ret)
		ret = fi_domain(end->fabric, end->info, &end->domain, NULL);
	if (!ret)
		ret = fi_av_open(end->domain, &av_attr, &end->av, NULL);
	if (!ret)
		ret = fi_cq_open(end->domain, &cq_attr, &end->tx_cq, NULL);
	if (!ret)
		ret = fi_cq_open(end->domain, &cq_attr, &end->rx_cq, NULL);
	if (!ret)
		ret = fi_endpoint(end->domain, end->info, &end->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->tx_cq->fid, FI_TRANSMIT);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->rx_cq->fid, FI_RECV);
	return ret ?: fi_enable(end->ep);
}

static void close(struct fid *fid)
{
	WARN_ON(fi_close(fid));
}

static void free_end(struct end *end)
{
	if (end->ep)
		close(&end->ep->fid);
	if (end->rx_cq)
		close(&end->rx_cq->fid);
	if (end->tx_cq)
		close(&end->tx_cq->fid);
	if (end->av)
		close(&end->av->fid);
	if (end->domain)
		close(&end->domain->fid);
	if (end->fabric)
		close(&end->fabric->fid);
	fi_freeinfo(end->info);
	kvfree(end->in);
	kvfree(end->out);
	kfree(end);
}

static int end_open(struct inode *inode, struct file *file)
{
	struct end *end = kzalloc_obj(*end);
	int ret = -ENOMEM;

	if (!end)
		return ret;
	mutex_init(&end->lock);
	end->peer = FI_ADDR_UNSPEC;
	end->out = kvzalloc(MAX_SIZE, GFP_KERNEL);
	end->in = kvzalloc(MAX_SIZE, GFP_KERNEL);
	if (end->out && end->in)
		ret = open_endpoint(end);
	if (ret) {
		pr_err("%s: %s\n", addr, fi_strerror(ret));
		free_end(end);
		return -EIO;
	}
	file->private_data = end;
	return 0;
}

static int end_release(struct inode *inode, struct file *file)
{
	free_end(file->private_data);
	return 0;
}

static ssize_t end_read(struct file *file, char __user *to, size_t count,
			loff_t *pos)
{
	struct end *end = file->private_data;
	struct sockaddr_storage name;
	size_t len = sizeof(name);

	if (fi_getname(&end->ep->fid, &name, &len))
		return -EIO;
	return simple_read_from_buffer(to, count, pos, &name, len);
}

static ssize_t end_write(struct file *file, const char __user *from,
			 size_t count, loff_t *pos)
{
	struct end *end = file->private_data;
	char line[80];
	int ret;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = '\0';
	ret = mutex_lock_interruptible(&end->lock);
	if (ret)
		return ret;
	ret = run_command(end, strim(line));
	mutex_unlock(&end->lock);
	if (ret) {
		pr_err("%s: %s\n", strim(line), fi_strerror(ret));
		return -EIO;
	}
	return count;
}

static const struct file_operations end_fops = {
	.owner = THIS_MODULE,
	.open = end_open,
	.release = end_release,
	.read = end_read,
	.write = end_write,
};

static int __init pingpong_init(void)
{
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("end", 0600, dir, NULL, &end_fops);
	return 0;
}
module_init(pingpong_init);

static void __exit pingpong_exit(void)
{
	debugfs_remove(dir);
}
module_exit(pingpong_exit);

MODULE_DESCRIPTION("Peer of libfabric's fi_pingpong over kOFI's datagrams");
MODULE_LICENSE("GPL");
