// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of all domains, for the sockets of administrators that have subscribed. They
 * are sent where they happen, under the domain's lock, so they come in the domain's
 * order; nothing here waits for a reader. What cannot be sent is lost, which its reader
 * sees as ENOBUFS and as a gap in the numbers.
 *
 * Each socket is sent its own message, by its port. A port is free for anybody as soon
 * as its socket begins to be released, which is before we are told. So a message is
 * sent with a reference to the socket's file, with which no release can begin.
 */
#include <linux/compiler.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/netlink.h>
#include <linux/notifier.h>
#include <linux/slab.h>
#include <net/netlink.h>
#include <net/sock.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"
#include "netlink.h"

/* Room for every attribute of an event; it is a little less. */
#define EVENT_SIZE 512

/* Each event costs something for each of them. */
#define SUBSCRIBERS_MAX 64

/* A socket. It is dropped when that is released, so it needs no reference. */
struct subscriber {
	struct list_head list;
	struct file *file;
	u32 portid;
};

/* A leaf: a domain's lock is held, or none. */
static DEFINE_MUTEX(subscribers_lock);
static LIST_HEAD(subscribers);
static unsigned int subscribers_n;	/* read without the lock, too */

static void add(struct subscriber *s)
{
	list_add_tail(&s->list, &subscribers);
	WRITE_ONCE(subscribers_n, subscribers_n + 1);
}

static void drop(struct subscriber *s)
{
	list_del(&s->list);
	WRITE_ONCE(subscribers_n, subscribers_n - 1);
	kfree(s);
}

static bool is_there(const struct file *file)
{
	const struct subscriber *s;

	list_for_each_entry(s, &subscribers, list)
		if (s->file == file)
			return true;
	return false;
}

/* The caller uses @file: it is not released meanwhile. */
int capkm_events_subscribe(struct file *file, u32 portid)
{
	struct subscriber *s = kmalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	bool full = false;

	if (!s)
		return -ENOMEM;
	s->file = file;
	s->portid = portid;
	mutex_lock(&subscribers_lock);
	if (!is_there(file)) {
		full = subscribers_n == SUBSCRIBERS_MAX;
		if (!full) {
			add(s);
			s = NULL;
		}
	}
	mutex_unlock(&subscribers_lock);
	kfree(s);
	return full ? -ENOSPC : 0;
}

/*
 * A socket is being released, its file has no reference any more. Another one may have
 * its port already, and may have subscribed.
 */
static int on_release(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct netlink_notify *n = data;
	struct subscriber *s, *next;

	if (event != NETLINK_URELEASE || n->protocol != NETLINK_GENERIC ||
	    !net_eq(n->net, &init_net) || !READ_ONCE(subscribers_n))
		return NOTIFY_DONE;
	mutex_lock(&subscribers_lock);
	list_for_each_entry_safe(s, next, &subscribers, list)
		if (s->portid == n->portid && !file_count(s->file))
			drop(s);
	mutex_unlock(&subscribers_lock);
	return NOTIFY_DONE;
}

static struct notifier_block release_notifier = {
	.notifier_call = on_release,
};

int __init capkm_events_init(void)
{
	return netlink_register_notifier(&release_notifier);
}

/* Nobody can subscribe any more. */
void capkm_events_exit(void)
{
	struct subscriber *s, *next;

	mutex_lock(&subscribers_lock);
	list_for_each_entry_safe(s, next, &subscribers, list)
		drop(s);
	mutex_unlock(&subscribers_lock);
	netlink_unregister_notifier(&release_notifier);
}

bool host_event_wanted(void)
{
	return READ_ONCE(subscribers_n);
}

static int put_event(struct sk_buff *skb, u64 domain,
		     const struct capkm_event *e, const struct host_proc *proc)
{
	struct capkm_event event = *e;
	void *hdr = genlmsg_put(skb, 0, 0, &capkm_family, 0, CAPKM_CMD_EVENT);

	if (!hdr)
		return -EMSGSIZE;
	event.pid = proc ? capkm_proc_global(proc) : 0;
	if (capkm_put_u64(skb, CAPKM_A_EVENT_DOMAIN, domain) ||
	    capkm_put_record(skb, &capkm_event_record, &event))
		return -EMSGSIZE;
	genlmsg_end(skb, hdr);
	return 0;
}

/* NULL if there is no memory. */
static struct sk_buff *message(u64 domain, const struct capkm_event *e,
			       const struct host_proc *proc)
{
	struct sk_buff *skb = genlmsg_new(EVENT_SIZE, GFP_NOWAIT | __GFP_NOWARN);

	if (skb && WARN_ON_ONCE(put_event(skb, domain, e, proc))) {
		nlmsg_free(skb);
		skb = NULL;
	}
	return skb;
}

/* A reader who is too slow is told so by the socket; here is no memory for @skb. */
static void tell_lost(const struct subscriber *s)
{
	struct sock *sk = sock_from_file(s->file)->sk;

	WRITE_ONCE(sk->sk_err, ENOBUFS);
	sk_error_report(sk);
}

static void send(const struct subscriber *s, struct sk_buff *skb)
{
	/* While it is being released it waits for the lock, to be dropped. */
	if (!capkm_get_live_file(s->file)) {
		nlmsg_free(skb);
		return;
	}
	if (skb)
		genlmsg_unicast(&init_net, skb, s->portid);
	else
		tell_lost(s);
	/* If it is the last one, the release comes when no lock is held. */
	fput(s->file);
}

void host_event(u64 domain, const struct capkm_event *e,
		const struct host_proc *proc)
{
	const struct subscriber *s;
	struct sk_buff *skb;

	if (!host_event_wanted())
		return;
	skb = message(domain, e, proc);
	mutex_lock(&subscribers_lock);
	list_for_each_entry(s, &subscribers, list)
		send(s, skb ? skb_clone(skb, GFP_NOWAIT | __GFP_NOWARN) : NULL);
	mutex_unlock(&subscribers_lock);
	consume_skb(skb);
}
