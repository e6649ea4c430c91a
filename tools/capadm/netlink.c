// SPDX-License-Identifier: GPL-2.0-only
/* Talks to the module by generic netlink. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <linux/netlink.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

struct kernel {
	struct nl_sock *sock;
	struct nl_cb *cb;
	int family;
};

struct answer {
	bool done;
	int err;		/* errno, positive */
	char *message;		/* the kernel's, or NULL */
	void (*record)(struct nlattr **attrs, void *ctx);
	void *ctx;
};

static void close_kernel(struct kernel *k)
{
	nl_cb_put(k->cb);
	nl_socket_free(k->sock);
}

static int open_kernel(const struct request *rq, struct kernel *k)
{
	int on = 1, err;

	k->sock = must(nl_socket_alloc());
	k->cb = must(nl_cb_alloc(NL_CB_DEFAULT));
	err = genl_connect(k->sock);
	if (err < 0) {
		close_kernel(k);
		return fail(rq, 0, "cannot open a generic netlink socket: %s",
			    nl_geterror(err));
	}
	/* So that the kernel says in words what is wrong. */
	setsockopt(nl_socket_get_fd(k->sock), SOL_NETLINK, NETLINK_EXT_ACK, &on,
		   sizeof(on));
	/* As much as the kernel ever puts into one part of a dump. */
	nl_socket_set_msg_buf_size(k->sock, 32768);

	k->family = genl_ctrl_resolve(k->sock, CAPKM_FAMILY_NAME);
	if (k->family > 0)
		return EXIT_OK;
	close_kernel(k);
	if (k->family == -NLE_OBJ_NOTFOUND)
		return fail(rq, ENOENT,
			    "the capkm module is not loaded; load it with: modprobe capkm");
	return fail(rq, 0, "cannot ask for the netlink family capkm: %s",
		    nl_geterror(k->family));
}

/* The kernel's words stand in attributes @offset bytes into the message. */
static void take_message(struct answer *a, struct nlmsghdr *hdr, size_t offset)
{
	struct nlattr *attrs[NLMSGERR_ATTR_MAX + 1];
	size_t len = nlmsg_datalen(hdr);
	char *data = nlmsg_data(hdr);

	if (!(hdr->nlmsg_flags & NLM_F_ACK_TLVS) || offset >= len)
		return;
	if (nla_parse(attrs, NLMSGERR_ATTR_MAX, (void *)(data + offset),
		      len - offset, NULL) < 0 || !attrs[NLMSGERR_ATTR_MSG])
		return;
	free(a->message);
	a->message = must(strdup(get_text(attrs[NLMSGERR_ATTR_MSG])));
}

static int on_error(struct sockaddr_nl *from, struct nlmsgerr *e, void *ctx)
{
	struct nlmsghdr *hdr = (struct nlmsghdr *)((char *)e - NLMSG_HDRLEN);
	struct answer *a = ctx;
	size_t offset = sizeof(*e);

	(void)from;
	if (!(hdr->nlmsg_flags & NLM_F_CAPPED))
		offset += e->msg.nlmsg_len - NLMSG_HDRLEN;
	take_message(a, hdr, NLMSG_ALIGN(offset));
	a->err = -e->error;
	a->done = true;
	return NL_STOP;
}

static int on_ack(struct nl_msg *msg, void *ctx)
{
	struct answer *a = ctx;

	(void)msg;
	a->done = true;
	return NL_STOP;
}

/* The end of a dump also says how it ended. */
static int on_finish(struct nl_msg *msg, void *ctx)
{
	struct nlmsghdr *hdr = nlmsg_hdr(msg);
	struct answer *a = ctx;
	int err = 0;

	if (nlmsg_datalen(hdr) >= (int)sizeof(err))
		memcpy(&err, nlmsg_data(hdr), sizeof(err));
	if (err < 0) {
		a->err = -err;
		take_message(a, hdr, NLMSG_ALIGN(sizeof(err)));
	}
	a->done = true;
	return NL_STOP;
}

static int on_record(struct nl_msg *msg, void *ctx)
{
	struct nlattr *attrs[ATTR_MAX + 1];
	struct answer *a = ctx;

	if (genlmsg_parse(nlmsg_hdr(msg), 0, attrs, ATTR_MAX, NULL) >= 0)
		a->record(attrs, a->ctx);
	return NL_OK;
}

/* Sends @msg, which it frees, and waits for the answer. */
static void talk(struct kernel *k, struct nl_msg *msg, struct answer *a)
{
	int err;

	nl_cb_err(k->cb, NL_CB_CUSTOM, on_error, a);
	nl_cb_set(k->cb, NL_CB_ACK, NL_CB_CUSTOM, on_ack, a);
	nl_cb_set(k->cb, NL_CB_FINISH, NL_CB_CUSTOM, on_finish, a);
	if (a->record)
		nl_cb_set(k->cb, NL_CB_VALID, NL_CB_CUSTOM, on_record, a);

	err = nl_send_auto(k->sock, msg);
	nlmsg_free(msg);
	while (err >= 0 && !a->done)
		err = nl_recvmsgs(k->sock, k->cb);
	if (!a->done) {
		a->err = EIO;
		a->message = must(strdup(nl_geterror(err)));
	}
}

static struct nl_msg *new_message(struct kernel *k, int cmd, int flags)
{
	struct nl_msg *msg = must(nlmsg_alloc());

	must(genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, k->family, 0, flags,
			 cmd, CAPKM_FAMILY_VERSION));
	return msg;
}

/* Where the kernel has no words. */
static const char *explain(int err)
{
	switch (err) {
	case ENOENT:
		return "there is none; capadm domains lists those that there are";
	case EACCES:
		return "its mode does not let you read it; ask its owner or root";
	default:
		return strerror(err);
	}
}

static int conclude(const struct request *rq, struct answer *a, const char *what)
{
	int status = EXIT_OK;

	if (a->err)
		status = fail(rq, a->err, "cannot %s: %s", what,
			      a->message ? a->message : explain(a->err));
	free(a->message);
	return status;
}

int kernel_dump(const struct request *rq, const struct query *query,
	    void (*record)(struct nlattr **attrs, void *ctx), void *ctx)
{
	struct answer a = { .record = record, .ctx = ctx };
	struct nl_msg *msg;
	struct kernel k;
	char *what;
	int status;

	status = open_kernel(rq, &k);
	if (status)
		return status;

	msg = new_message(&k, query->cmd, NLM_F_DUMP);
	if (query->domain)
		nla_put_u64(msg, query->domain_attr, query->domain);
	if (query->flag_attr)
		nla_put_flag(msg, query->flag_attr);
	talk(&k, msg, &a);
	close_kernel(&k);

	what = query->domain ? format("read domain %llu", (unsigned long long)query->domain) :
			       format("read the domains");
	status = conclude(rq, &a, what);
	free(what);
	return status;
}

int kernel_abandon(const struct request *rq, uint64_t domain, uint64_t window)
{
	struct answer a = {};
	struct nl_msg *msg;
	struct kernel k;
	char *what;
	int status;

	status = open_kernel(rq, &k);
	if (status)
		return status;

	msg = new_message(&k, CAPKM_CMD_ABANDON, NLM_F_ACK);
	nla_put_u64(msg, CAPKM_A_WINDOW_DOMAIN, domain);
	nla_put_u64(msg, CAPKM_A_WINDOW_ID, window);
	talk(&k, msg, &a);
	close_kernel(&k);

	what = format("abandon window %llu of domain %llu", (unsigned long long)window,
		      (unsigned long long)domain);
	status = conclude(rq, &a, what);
	free(what);
	return status;
}
