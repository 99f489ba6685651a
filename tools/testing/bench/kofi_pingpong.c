// SPDX-License-Identifier: GPL-2.0
/*
 * One end of a ping-pong whose other end is libfabric's fi_pingpong: a datagram
 * endpoint that sends, receives and checks as that program does. What the two
 * ends tell each other beside the fabric is said by user/pingpong.c. It opens
 *
 *	/sys/kernel/debug/kofi_pingpong/end
 *
 * and has an endpoint of its own until it closes the file. It reads where that
 * is, and writes what is to be done, a line at a time:
 *
 *	peer 10.0.0.1 40000 msg		who is at the other end; or tagged
 *	ping 64 100			so many messages of 64 bytes, and answers
 *	pong 64 100			the same, which the other end begins
 *	end				the last words of both
 *
 * A write returns when that is done; what went wrong is in the log.
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

#define LONGEST		SZ_1M
/* No message is waited for longer, in milliseconds. */
#define PATIENCE	30000
/* What is on its way to the other end has arrived by then, in milliseconds. */
#define SETTLED		100

/* What fi_pingpong tags its messages with, and what both ends say at last. */
#define TAG		1234
#define LAST_WORD	"fin"

/* Each message begins so many letters further on in the alphabet. */
#define STRIDE		7
static const char alphabet[] =
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
#define LETTERS		(sizeof(alphabet) - 1)

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "numeric address of an RDMA device of this machine");

static struct dentry *dir;

/**
 * struct end - an endpoint, as long as the file is open
 * @lock: one order at a time
 * @sent: messages, from which the letters of the next one follow
 * @received: the same of the other end
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
		return fi_trecv(end->ep, end->in, LONGEST, NULL, FI_ADDR_UNSPEC,
				TAG, 0, NULL);
	return fi_recv(end->ep, end->in, LONGEST, NULL, FI_ADDR_UNSPEC, NULL);
}

static int await(struct fid_cq *cq, struct fi_cq_tagged_entry *done)
{
	struct fi_cq_err_entry err = {};
	ssize_t ret;

	ret = fi_cq_sread(cq, done, 1, NULL, PATIENCE);
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
	return ret ?: await(end->tx_cq, &done);
}

static int receive(struct end *end, size_t len)
{
	struct fi_cq_tagged_entry done;
	int ret;

	ret = await(end->rx_cq, &done);
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
	/* As fi_pingpong does: there is one before the other end may send again. */
	return ret ?: post_receive(end);
}

static int play(struct end *end, bool begins, size_t len, unsigned int count)
{
	int ret = len > LONGEST ? -FI_EMSGSIZE : 0;

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
 * fi_pingpong closes its endpoint as soon as it has our last word, and libfabric
 * up to 2.6 does not survive what comes after that (user/rdm.h): credits that we
 * owe for its messages go before.
 */
static int say_goodbye(struct end *end)
{
	int ret;

	ret = receive(end, sizeof(LAST_WORD));
	if (!ret && memcmp(end->in, LAST_WORD, sizeof(LAST_WORD)))
		ret = -FI_EIO;
	if (ret)
		return ret;
	msleep(SETTLED);
	memcpy(end->out, LAST_WORD, sizeof(LAST_WORD));
	ret = send(end, sizeof(LAST_WORD));
	/* siw may not know that it has gone: whether it has arrived, the other end says. */
	if (ret == -FI_EIO && strstarts(end->info->domain_attr->name, "siw"))
		return 0;
	return ret;
}

static int meet(struct end *end, const char *node, const char *service,
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

static int carry_out(struct end *end, const char *line)
{
	char verb[8], node[INET6_ADDRSTRLEN], service[8], kind[8];
	unsigned int len, count;

	if (sscanf(line, "peer %47s %7s %7s", node, service, kind) == 3)
		return meet(end, node, service, kind);
	if (end->peer == FI_ADDR_UNSPEC)
		return -FI_ENOTCONN;
	if (!strcmp(line, "end"))
		return say_goodbye(end);
	if (sscanf(line, "%7s %u %u", verb, &len, &count) != 3)
		return -FI_EINVAL;
	if (!strcmp(verb, "ping"))
		return play(end, true, len, count);
	if (!strcmp(verb, "pong"))
		return play(end, false, len, count);
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
	end->out = kvzalloc(LONGEST, GFP_KERNEL);
	end->in = kvzalloc(LONGEST, GFP_KERNEL);
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
	ret = carry_out(end, strim(line));
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

MODULE_DESCRIPTION("What faces libfabric's fi_pingpong over kOFI's datagrams");
MODULE_LICENSE("GPL");
