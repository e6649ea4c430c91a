// SPDX-License-Identifier: GPL-2.0-only
/* Talks to the module by generic netlink. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <linux/netlink.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

struct answer {
	bool done;
	int err;		/* errno, positive */
	char *message;		/* the kernel's, or NULL */
	void (*record)(struct nlattr **attrs, void *ctx);
	void *ctx;
};

void kernel_close(struct kernel *k)
{
	nl_cb_put(k->cb);
	nl_socket_free(k->sock);
}

int kernel_open(const struct request *rq, struct kernel *k)
{
	int on = 1, err;

	k->sock = must(nl_socket_alloc());
	k->cb = must(nl_cb_alloc(NL_CB_DEFAULT));
	err = genl_connect(k->sock);
	if (err < 0) {
		kernel_close(k);
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
	kernel_close(k);
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

/* From a copy of its own, so that attrs[0] can be all of it. */
static int on_record(struct nl_msg *msg, void *ctx)
{
	struct genlmsghdr *hdr = genlmsg_hdr(nlmsg_hdr(msg));
	struct nlattr *all, *attrs[ATTR_MAX + 1];
	struct answer *a = ctx;
	int len;

	if (!genlmsg_valid_hdr(nlmsg_hdr(msg), 0))
		return NL_SKIP;
	len = genlmsg_attrlen(hdr, 0);
	all = must(malloc(NLA_HDRLEN + len));
	all->nla_type = 0;
	all->nla_len = NLA_HDRLEN + len;
	memcpy(nla_data(all), genlmsg_attrdata(hdr, 0), len);
	if (nla_parse_nested(attrs, ATTR_MAX, all, NULL) >= 0) {
		attrs[0] = all;
		a->record(attrs, a->ctx);
	}
	free(all);
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
		return "there is none that you may see; capadm domains lists those that there are";
	case EOPNOTSUPP:
		return "the module does not know that, it is older; see capadm doctor";
	default:
		return strerror(err);
	}
}

static int conclude(const struct request *rq, const struct query *q, struct answer *a,
		    const char *what)
{
	int status = EXIT_OK;

	if (a->err == ENOENT && q->gone) {
		*q->gone = true;
		a->err = 0;
	}
	if (a->err)
		status = fail(rq, a->err, "cannot %s: %s", what,
			      a->message ? a->message : explain(a->err));
	free(a->message);
	return status;
}

static void put(struct nl_msg *msg, const struct ask *a)
{
	switch (a->type) {
	case ASK_U32:
		nla_put_u32(msg, a->attr, a->number);
		break;
	case ASK_U64:
		nla_put_u64(msg, a->attr, a->number);
		break;
	case ASK_FLAG:
		nla_put_flag(msg, a->attr);
		break;
	case ASK_TEXT:
		nla_put_string(msg, a->attr, a->data);
		break;
	case ASK_UUID:
		nla_put(msg, a->attr, 16, a->data);
		break;
	}
}

/* The kernel asks for the device, so what matters is why it is not open. */
static void explain_device(struct answer *a, int err)
{
	if (a->err != EPERM)
		return;
	free(a->message);
	a->message = format("%s: %s; capadm doctor says why", DEVICE, strerror(err));
}

/* With the device open, since only administrators may ask without. */
static int ask(const struct request *rq, const struct query *q, int flags,
	       struct answer *a)
{
	int status, device, err;
	struct nl_msg *msg;
	struct kernel k;
	size_t i;

	status = kernel_open(rq, &k);
	if (status)
		return status;

	device = open(DEVICE, O_RDWR | O_CLOEXEC);
	err = errno;
	msg = new_message(&k, q->cmd, flags);
	for (i = 0; i < q->n; i++)
		put(msg, &q->asks[i]);
	talk(&k, msg, a);
	if (device < 0)
		explain_device(a, err);
	else
		close(device);
	kernel_close(&k);
	return EXIT_OK;
}

int kernel_dump(const struct request *rq, const struct query *q, const char *what,
		record_fn *record, void *ctx)
{
	struct answer a = { .record = record, .ctx = ctx };
	int status = ask(rq, q, NLM_F_DUMP, &a);

	return status ? status : conclude(rq, q, &a, what);
}

int kernel_do(const struct request *rq, const struct query *q, const char *what,
	      record_fn *record, void *ctx)
{
	struct answer a = { .record = record, .ctx = ctx };
	int status = ask(rq, q, NLM_F_ACK, &a);

	return status ? status : conclude(rq, q, &a, what);
}

/* ---- requests ---- */

static struct ask *append(struct query *q, int attr)
{
	struct ask *a = &q->asks[q->n++];

	assert(q->n <= QUERY_MAX);
	a->attr = attr;
	return a;
}

void ask_u32(struct query *q, int attr, uint32_t v)
{
	struct ask *a = append(q, attr);

	a->type = ASK_U32;
	a->number = v;
}

void ask_u64(struct query *q, int attr, uint64_t v)
{
	struct ask *a = append(q, attr);

	a->type = ASK_U64;
	a->number = v;
}

void ask_flag(struct query *q, int attr)
{
	append(q, attr)->type = ASK_FLAG;
}

void ask_text(struct query *q, int attr, const char *text)
{
	struct ask *a = append(q, attr);

	a->type = ASK_TEXT;
	a->data = text;
}

void ask_uuid(struct query *q, int attr, const uint8_t *uuid)
{
	struct ask *a = append(q, attr);

	a->type = ASK_UUID;
	a->data = uuid;
}
