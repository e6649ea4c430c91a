/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Generic netlink without a library, so that a test may send what no library would,
 * and sees what each part of an answer brings.
 */
#ifndef CAPKM_TEST_NETLINK_H
#define CAPKM_TEST_NETLINK_H

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <linux/capkm_netlink.h>

#include "capkm_test.h"

#define NL_ATTRS 64

struct nl {
	int fd;
	unsigned int seq;
	unsigned short family;
	size_t part;			/* largest part of a dump that is asked for */
};

struct nl_request {
	union {
		struct nlmsghdr hdr;
		char bytes[1024];
	};
};

struct nl_attrs {
	const struct nlattr *a[NL_ATTRS];
	unsigned int hops;		/* attributes of a kind that comes often */
};

struct nl_answer {
	int err;			/* as the kernel gives it: negative */
	char message[256];
	unsigned int missing, offset;	/* of extack */
	unsigned int records, parts;
	bool interrupted, done;
	size_t largest;			/* part */
};

/* ------------------------------------------------------------------ attributes */

static T_UNUSED const void *nl_data(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}

static T_UNUSED unsigned int nl_len(const struct nlattr *a)
{
	return a->nla_len - NLA_HDRLEN;
}

static T_UNUSED u_int64_t nl_number(const struct nl_attrs *attrs, unsigned int attr)
{
	const struct nlattr *a = attrs->a[attr];
	u_int64_t v = 0;

	if (!a)
		t_die("no attribute %u", attr);
	memcpy(&v, nl_data(a), nl_len(a) < 8 ? nl_len(a) : 8);
	return v;
}

static T_UNUSED const char *nl_text(const struct nl_attrs *attrs, unsigned int attr)
{
	return attrs->a[attr] ? nl_data(attrs->a[attr]) : "";
}

static T_UNUSED void nl_parse(struct nl_attrs *attrs, const void *from, size_t len)
{
	const char *at = from, *end = at + len;
	const struct nlattr *a;
	unsigned int type;

	memset(attrs, 0, sizeof(*attrs));
	while (at + NLA_HDRLEN <= end) {
		a = (const void *)at;
		type = a->nla_type & NLA_TYPE_MASK;
		if (a->nla_len < NLA_HDRLEN || at + a->nla_len > end || type >= NL_ATTRS)
			t_die("attribute %u of %u bytes", type, a->nla_len);
		attrs->hops += attrs->a[type] != NULL;
		attrs->a[type] = a;
		at += NLA_ALIGN(a->nla_len);
	}
}

static T_UNUSED void nl_nested(struct nl_attrs *attrs, const struct nlattr *a)
{
	if (!a)
		t_die("no nest");
	nl_parse(attrs, nl_data(a), nl_len(a));
}

/* ------------------------------------------------------------------ requests */

static T_UNUSED struct nl_request nl_request(const struct nl *nl, unsigned int cmd,
					     unsigned int flags)
{
	struct nl_request rq = { 0 };
	struct genlmsghdr *genl = NLMSG_DATA(&rq.hdr);

	rq.hdr.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	rq.hdr.nlmsg_type = nl->family;
	rq.hdr.nlmsg_flags = NLM_F_REQUEST | flags;
	genl->cmd = cmd;
	genl->version = CAPKM_FAMILY_VERSION;
	return rq;
}

static T_UNUSED void nl_put(struct nl_request *rq, unsigned int attr, const void *data,
			    size_t len)
{
	struct nlattr *a = (void *)(rq->bytes + NLMSG_ALIGN(rq->hdr.nlmsg_len));

	a->nla_type = attr;
	a->nla_len = NLA_HDRLEN + len;
	if (len)
		memcpy((char *)a + NLA_HDRLEN, data, len);
	rq->hdr.nlmsg_len = (char *)a - rq->bytes + NLA_ALIGN(a->nla_len);
}

static T_UNUSED void nl_put_u32(struct nl_request *rq, unsigned int attr, unsigned int v)
{
	nl_put(rq, attr, &v, sizeof(v));
}

static T_UNUSED void nl_put_u64(struct nl_request *rq, unsigned int attr, u_int64_t v)
{
	nl_put(rq, attr, &v, sizeof(v));
}

static T_UNUSED void nl_put_text(struct nl_request *rq, unsigned int attr, const char *s)
{
	nl_put(rq, attr, s, strlen(s) + 1);
}

static T_UNUSED void nl_send(struct nl *nl, struct nl_request *rq)
{
	rq->hdr.nlmsg_seq = ++nl->seq;
	if (send(nl->fd, rq, rq->hdr.nlmsg_len, 0) != (ssize_t)rq->hdr.nlmsg_len)
		t_die("send: %s", strerror(errno));
}

/* ------------------------------------------------------------------ answers */

typedef void nl_record(void *ctx, const struct nl_attrs *attrs);

static T_UNUSED void nl_extack(struct nl_answer *a, const struct nlmsghdr *hdr,
			       size_t offset)
{
	struct nl_attrs attrs;

	if (!(hdr->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	nl_parse(&attrs, (const char *)NLMSG_DATA(hdr) + offset,
		 hdr->nlmsg_len - NLMSG_HDRLEN - offset);
	snprintf(a->message, sizeof(a->message), "%s", nl_text(&attrs, NLMSGERR_ATTR_MSG));
	if (attrs.a[NLMSGERR_ATTR_OFFS])
		a->offset = nl_number(&attrs, NLMSGERR_ATTR_OFFS);
	if (attrs.a[NLMSGERR_ATTR_MISS_TYPE])
		a->missing = nl_number(&attrs, NLMSGERR_ATTR_MISS_TYPE);
}

static T_UNUSED void nl_message(struct nl_answer *a, const struct nlmsghdr *hdr,
				nl_record *record, void *ctx)
{
	const struct nlmsgerr *e = NLMSG_DATA(hdr);
	struct nl_attrs attrs;
	size_t said = sizeof(*e);

	a->interrupted |= !!(hdr->nlmsg_flags & NLM_F_DUMP_INTR);
	switch (hdr->nlmsg_type) {
	case NLMSG_ERROR:
		a->done = true;
		a->err = e->error;
		if (!(hdr->nlmsg_flags & NLM_F_CAPPED))
			said += e->msg.nlmsg_len - NLMSG_HDRLEN;
		nl_extack(a, hdr, NLMSG_ALIGN(said));
		break;
	case NLMSG_DONE:
		a->done = true;
		a->err = *(const int *)NLMSG_DATA(hdr);
		nl_extack(a, hdr, sizeof(int));
		break;
	default:
		a->records++;
		nl_parse(&attrs, (const char *)NLMSG_DATA(hdr) + GENL_HDRLEN,
			 hdr->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN);
		if (record)
			record(ctx, &attrs);
		/* The reply of a do; an ack comes only if it was asked for. */
		a->done = !(hdr->nlmsg_flags & NLM_F_MULTI);
	}
}

/* One part: false if there was none within the time. */
static T_UNUSED bool nl_step(struct nl *nl, struct nl_answer *a, nl_record *record, void *ctx)
{
	static char room[65536] __attribute__((aligned(8)));
	ssize_t n = recv(nl->fd, room, nl->part, MSG_TRUNC), left;
	const struct nlmsghdr *hdr = (const void *)room;

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n < 0)
		t_die("recv: %s", strerror(errno));
	if ((size_t)n > nl->part)
		t_die("a part of %zd bytes", n);
	a->parts++;
	a->largest = a->largest > (size_t)n ? a->largest : (size_t)n;
	/* An event has no number; the ack of a do comes after its reply. */
	for (left = n; NLMSG_OK(hdr, left); hdr = NLMSG_NEXT(hdr, left))
		if (!hdr->nlmsg_seq || hdr->nlmsg_seq == nl->seq)
			nl_message(a, hdr, record, ctx);
	return true;
}

static T_UNUSED struct nl_answer nl_talk(struct nl *nl, struct nl_request *rq,
					 nl_record *record, void *ctx)
{
	struct nl_answer a = { 0 };

	nl_send(nl, rq);
	while (!a.done)
		if (!nl_step(nl, &a, record, ctx))
			t_die("no answer");
	return a;
}

/* ------------------------------------------------------------------ the family */

static T_UNUSED void nl_family(void *ctx, const struct nl_attrs *attrs)
{
	struct nl *nl = ctx;

	nl->family = nl_number(attrs, CTRL_ATTR_FAMILY_ID);
	/* Anybody could join one while there is no module. */
	if (attrs->a[CTRL_ATTR_MCAST_GROUPS])
		t_die("the family has a multicast group");
}

/* The kernel never forgets the largest part that was asked for. */
static T_UNUSED struct nl nl_on(int fd, size_t part)
{
	struct nl nl = { .fd = fd, .family = GENL_ID_CTRL, .part = part };
	struct nl_request rq = nl_request(&nl, CTRL_CMD_GETFAMILY, 0);
	struct genlmsghdr *genl = NLMSG_DATA(&rq.hdr);
	struct nl_answer a;

	genl->version = 1;
	nl_put_text(&rq, CTRL_ATTR_FAMILY_NAME, CAPKM_FAMILY_NAME);
	a = nl_talk(&nl, &rq, nl_family, &nl);
	if (a.err)
		t_die("the family: %s", strerror(-a.err));
	return nl;
}

/* No answer within the time is one, too. @port: 0, or one that may not be free: then -1. */
static T_UNUSED int nl_socket_at(unsigned int port)
{
	const struct timeval wait = { .tv_sec = 10 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC), on = 1;
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_pid = port };

	if (fd >= 0 && port && bind(fd, (void *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	if (fd < 0 || (!port && bind(fd, (void *)&addr, sizeof(addr))) ||
	    setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)))
		t_die("socket: %s", strerror(errno));
	return fd;
}

static T_UNUSED int nl_socket(void)
{
	return nl_socket_at(0);
}

static T_UNUSED struct nl nl_open_(void)
{
	return nl_on(nl_socket(), 32768);
}
#define nl_open() (T_AT, nl_open_())

static T_UNUSED void nl_close(struct nl *nl)
{
	close(nl->fd);
}

#endif /* CAPKM_TEST_NETLINK_H */
