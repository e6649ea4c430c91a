// SPDX-License-Identifier: GPL-2.0-only
/*
 * The generic netlink family: who asks, what is done, and the policies.
 * Documentation/netlink/specs/capkm.yaml is the text of record, with which
 * selftests/checks/netlink_spec.sh compares this file, and selftests/netlink.c what
 * a running kernel says of it.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netlink.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <net/netlink.h>
#include <net/sock.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"
#include "netlink.h"

/* ---- who asks ---- */

/*
 * A socket can be handed to a process that may do more than its opener: as the
 * output of a setuid program, say. So nobody speaks for another user, and the
 * privilege must be there on both sides. netlink_capable() does not look at the
 * opener if the request named an address, for it takes who runs for the sender; of
 * a dump that is whoever reads.
 *
 * In its own network namespace a container is not shown the domains of the host, and of
 * other containers, whose users may have the same numbers. In the host's it is told from
 * them by the device, which it has or not: a node of the file system says who may use the
 * module, and netlink is no way around it. An administrator needs none.
 */
int capkm_sender_init(struct capkm_caller *who, struct sk_buff *skb,
		      struct netlink_ext_ack *extack)
{
	const struct net *net = sock_net(NETLINK_CB(skb).sk);
	const struct file *file = NETLINK_CB(skb).sk->sk_socket->file;
	const struct cred *opener = file ? file->f_cred : NULL;

	if (!opener || !uid_eq(opener->euid, current_euid()) ||
	    !gid_eq(opener->egid, current_egid())) {
		NL_SET_ERR_MSG(extack, "the socket was opened by another user or group");
		return -EPERM;
	}
	capkm_caller_init(who);
	who->net = net->net_cookie;
	who->all_nets = net_eq(net, &init_net);
	who->admin = who->admin && netlink_capable(skb, CAP_SYS_ADMIN) &&
		     file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN);
	if (!who->admin && !capkm_has_device()) {
		NL_SET_ERR_MSG(extack,
			       "only CAP_SYS_ADMIN may ask without having /dev/capkm open");
		return -EPERM;
	}
	return 0;
}

/* ---- requests and replies ---- */

/* An attribute that a request must have; the message has to be a literal. */
#define LACKS(info, attr, name)						\
	(GENL_REQ_ATTR_CHECK(info, attr) ?				\
	 ({ NL_SET_ERR_MSG((info)->extack, "attribute missing: " name); true; }) : \
	 false)

/* A reply is made before anything is done, so that it cannot be lacking then. */
struct reply {
	struct sk_buff *skb;
	void *hdr;
};

static int reply_new(struct reply *r, struct genl_info *info, size_t size)
{
	r->skb = genlmsg_new(size, GFP_KERNEL);
	if (!r->skb)
		return -ENOMEM;
	r->hdr = genlmsg_put_reply(r->skb, info, &capkm_family, 0,
				   info->genlhdr->cmd);
	return r->hdr ? 0 : -EMSGSIZE;
}

/* @err: what became of it; the reply goes, or is thrown away. */
static int reply_end(struct reply *r, struct genl_info *info, int err)
{
	if (err) {
		nlmsg_free(r->skb);
		return err;
	}
	genlmsg_end(r->skb, r->hdr);
	return genlmsg_reply(r->skb, info);
}

/* ---- one failure ---- */

/* Report, 16 hops and the stack, each of them at its largest. */
#define FAILURE_SIZE 8192

static int put_failure(struct sk_buff *skb, struct genl_info *info, u64 domain,
		       const struct capkm_failure_view *view)
{
	struct reply r = {};
	int err;

	err = reply_new(&r, info, FAILURE_SIZE);
	if (!err && (capkm_put_u64(r.skb, CAPKM_A_FAILURE_DOMAIN, domain) ||
		     capkm_put_failure(r.skb, view)))
		err = -EMSGSIZE;
	return reply_end(&r, info, err);
}

static int check_failure_get(struct genl_info *info)
{
	/* These are filters of the dump. */
	static const u16 others[] = {
		CAPKM_A_FAILURE_REPORTS, CAPKM_A_FAILURE_KIND,
		CAPKM_A_FAILURE_WINDOW, CAPKM_A_FAILURE_SESSION,
		CAPKM_A_FAILURE_PID, CAPKM_A_FAILURE_UID,
	};
	size_t i;

	if (LACKS(info, CAPKM_A_FAILURE_DOMAIN, "domain") ||
	    LACKS(info, CAPKM_A_FAILURE_ID, "id"))
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		if (!info->attrs[others[i]])
			continue;
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[others[i]],
				    "only in a dump");
		return -EINVAL;
	}
	return 0;
}

static int failure_get(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *id = info->attrs[CAPKM_A_FAILURE_ID];
	struct nlattr *buffer = info->attrs[CAPKM_A_FAILURE_BUFFER];
	struct capkm_failure_view *view;
	struct capkm_caller who;
	u64 domain;
	int err;

	err = check_failure_get(info);
	if (!err)
		err = capkm_sender_init(&who, skb, info->extack);
	if (err)
		return err;
	domain = nla_get_u64(info->attrs[CAPKM_A_FAILURE_DOMAIN]);
	view = kzalloc(sizeof(*view), GFP_KERNEL_ACCOUNT);
	if (!view)
		return -ENOMEM;
	err = capkm_failure_get(domain, nla_get_u64(id),
				buffer ? nla_get_u64(buffer) : 0, &who, view);
	if (!err)
		err = put_failure(skb, info, domain, view);
	else if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, id,
				    "no such domain, or no such failure in it");
	kfree(view);
	return err;
}

/* ---- windows ---- */

static int abandon(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *domain = info->attrs[CAPKM_A_WINDOW_DOMAIN];
	struct nlattr *window = info->attrs[CAPKM_A_WINDOW_ID];
	struct capkm_caller who;
	int err;

	if (LACKS(info, CAPKM_A_WINDOW_DOMAIN, "domain") ||
	    LACKS(info, CAPKM_A_WINDOW_ID, "id"))
		return -EINVAL;

	err = capkm_sender_init(&who, skb, info->extack);
	if (err)
		return err;

	err = capkm_abandon(nla_get_u64(domain), nla_get_u64(window), &who);
	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, window,
				    "no such domain, or no such window in it");
	else if (err == -EPERM)
		NL_SET_ERR_MSG_ATTR(info->extack, domain,
				    "only the domain's owner or CAP_SYS_ADMIN may abandon");
	return err;
}

/* ---- ledgers ---- */

static int ledger_del(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *domain = info->attrs[CAPKM_A_LEDGER_DOMAIN];
	struct nlattr *ledger = info->attrs[CAPKM_A_LEDGER_ID];
	struct capkm_caller who;
	int err;

	if (LACKS(info, CAPKM_A_LEDGER_DOMAIN, "domain") ||
	    LACKS(info, CAPKM_A_LEDGER_ID, "id"))
		return -EINVAL;
	err = capkm_sender_init(&who, skb, info->extack);
	if (err)
		return err;
	err = capkm_ledger_del(nla_get_u64(domain), nla_get_u64(ledger), &who);
	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, ledger,
				    "no such domain, or no such ledger in it");
	else if (err == -EPERM)
		NL_SET_ERR_MSG_ATTR(info->extack, domain,
				    "only the domain's owner or CAP_SYS_ADMIN may destroy its ledgers");
	else if (err == -EBUSY)
		NL_SET_ERR_MSG_ATTR(info->extack, ledger,
				    "a process holds it, and lives");
	return err;
}

/* ---- domains ---- */

/* Owner and group, the caller's unless they are given, in his numbering. */
static int get_owner(struct capkm_new_domain *n, struct genl_info *info)
{
	struct nlattr *uid = info->attrs[CAPKM_A_DOMAIN_UID];
	struct nlattr *gid = info->attrs[CAPKM_A_DOMAIN_GID];
	kuid_t kuid = current_euid();
	kgid_t kgid = current_egid();

	if (uid)
		kuid = make_kuid(current_user_ns(), nla_get_u32(uid));
	if (gid)
		kgid = make_kgid(current_user_ns(), nla_get_u32(gid));
	if (!uid_valid(kuid)) {
		NL_SET_ERR_MSG_ATTR(info->extack, uid, "no such user here");
		return -EINVAL;
	}
	if (!gid_valid(kgid)) {
		NL_SET_ERR_MSG_ATTR(info->extack, gid, "no such group here");
		return -EINVAL;
	}
	n->uid = from_kuid(&init_user_ns, kuid);
	n->gid = from_kgid(&init_user_ns, kgid);
	return 0;
}

static void explain_new(struct genl_info *info, int err)
{
	struct nlattr *name = info->attrs[CAPKM_A_DOMAIN_NAME];
	struct nlattr *mode = info->attrs[CAPKM_A_DOMAIN_MODE];

	if (err == -EEXIST)
		NL_SET_ERR_MSG_ATTR(info->extack, name,
				    "the owner has a domain of that name");
	else if (err == -EDQUOT)
		NL_SET_ERR_MSG(info->extack, "the owner has too many domains");
	else if (err == -EPERM)
		NL_SET_ERR_MSG(info->extack,
			       "only CAP_SYS_ADMIN may give a domain to another user or group");
	else if (err == -EINVAL && mode && nla_get_u32(mode) & ~0666)
		NL_SET_ERR_MSG_ATTR(info->extack, mode,
				    "the mode has other bits than r and w");
	else if (err == -EINVAL)
		NL_SET_ERR_MSG_ATTR(info->extack, name,
				    "the name has a slash or a control character");
}

static int domain_new(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *name = info->attrs[CAPKM_A_DOMAIN_NAME];
	struct nlattr *mode = info->attrs[CAPKM_A_DOMAIN_MODE];
	struct capkm_new_domain n = {
		.name = name ? nla_data(name) : NULL,
		.name_len = name ? strnlen(nla_data(name), nla_len(name)) : 0,
		.mode = mode ? nla_get_u32(mode) : 0,
	};
	struct capkm_caller who;
	struct reply r = {};
	u64 id;
	int err;

	err = capkm_sender_init(&who, skb, info->extack);
	if (!err)
		err = get_owner(&n, info);
	if (!err)
		err = reply_new(&r, info, NLMSG_DEFAULT_SIZE);
	if (err)
		return reply_end(&r, info, err);
	err = capkm_domain_new(&n, &who, &id);
	if (err)
		explain_new(info, err);
	else
		err = capkm_put_u64(r.skb, CAPKM_A_DOMAIN_ID, id);
	return reply_end(&r, info, err);
}

static int domain_del(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *id = info->attrs[CAPKM_A_DOMAIN_ID];
	struct capkm_caller who;
	int err;

	if (LACKS(info, CAPKM_A_DOMAIN_ID, "id"))
		return -EINVAL;
	err = capkm_sender_init(&who, skb, info->extack);
	if (err)
		return err;
	err = capkm_domain_del(nla_get_u64(id),
			       info->attrs[CAPKM_A_DOMAIN_FORCE], &who);
	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, id,
				    "no such domain, or none that you may see");
	else if (err == -EPERM)
		NL_SET_ERR_MSG_ATTR(info->extack, id,
				    "only the domain's owner or CAP_SYS_ADMIN may destroy it");
	else if (err == -EBUSY)
		NL_SET_ERR_MSG_ATTR(info->extack, id,
				    "the domain has sessions, and force was not given");
	return err;
}

static void explain_limit(struct genl_info *info, int err)
{
	struct nlattr *domain = info->attrs[CAPKM_A_LIMIT_DOMAIN];
	struct nlattr *limit = info->attrs[CAPKM_A_LIMIT_LIMIT];

	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, domain,
				    "no such domain, or none that you may see");
	else if (err == -EPERM)
		NL_SET_ERR_MSG_ATTR(info->extack, domain,
				    "only CAP_SYS_ADMIN may set limits");
	else if (err == -EOPNOTSUPP)
		NL_SET_ERR_MSG_ATTR(info->extack, limit,
				    "it is fixed when the domain is created");
	else if (err == -EINVAL)
		NL_SET_ERR_MSG_ATTR(info->extack, limit,
				    "no limit of a domain: those of users are module parameters");
}

static int limit_set(struct sk_buff *skb, struct genl_info *info)
{
	struct capkm_caller who;
	int err;

	if (LACKS(info, CAPKM_A_LIMIT_DOMAIN, "domain") ||
	    LACKS(info, CAPKM_A_LIMIT_LIMIT, "limit") ||
	    LACKS(info, CAPKM_A_LIMIT_VALUE, "value"))
		return -EINVAL;
	err = capkm_sender_init(&who, skb, info->extack);
	if (err)
		return err;
	err = capkm_limit_set(nla_get_u64(info->attrs[CAPKM_A_LIMIT_DOMAIN]),
			      nla_get_u32(info->attrs[CAPKM_A_LIMIT_LIMIT]),
			      nla_get_u64(info->attrs[CAPKM_A_LIMIT_VALUE]),
			      &who);
	if (err)
		explain_limit(info, err);
	return err;
}

/* ---- devices ---- */

static void get_fault(struct capkm_device_fault *a, const char **text,
		      struct genl_info *info)
{
	struct nlattr *code = info->attrs[CAPKM_A_FAULT_CODE];
	struct nlattr *attr = info->attrs[CAPKM_A_FAULT_TEXT];

	nla_memcpy(a->device, info->attrs[CAPKM_A_FAULT_DEVICE],
		   sizeof(a->device));
	a->code = code ? nla_get_s32(code) : 0;
	*text = attr ? nla_data(attr) : NULL;
	a->text_len = attr ? strnlen(*text, nla_len(attr)) : 0;
}

static int device_fault(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *device = info->attrs[CAPKM_A_FAULT_DEVICE];
	struct capkm_device_fault a = {};
	struct capkm_caller who;
	struct reply r = {};
	const char *text;
	int err, said;

	if (LACKS(info, CAPKM_A_FAULT_DEVICE, "device"))
		return -EINVAL;
	err = capkm_sender_init(&who, skb, info->extack);
	if (!err)
		err = reply_new(&r, info, NLMSG_DEFAULT_SIZE);
	if (err)
		return reply_end(&r, info, err);
	get_fault(&a, &text, info);
	err = capkm_device_fault(&a, text, &who);
	if (err == -EPERM)
		NL_SET_ERR_MSG(info->extack,
			       "only CAP_SYS_ADMIN may declare a device lost");
	else if (err == -EINVAL)
		NL_SET_ERR_MSG_ATTR(info->extack, device,
				    "that is the host, which is no device");
	/* Also where some were not told: how many were. */
	said = err == -ENOMEM ? 0 : err;
	if (!said)
		said = nla_put_u32(r.skb, CAPKM_A_FAULT_CLIENTS, a.out_clients);
	said = reply_end(&r, info, said);
	if (err == -ENOMEM)
		NL_SET_ERR_MSG(info->extack,
			       "no memory to tell some clients; try again");
	return err ? err : said;
}

/* ---- events ---- */

/* Of all domains and users: so not in a namespace that has only a part of them. */
static int event_subscribe(struct sk_buff *skb, struct genl_info *info)
{
	struct capkm_caller who;
	int err;

	err = capkm_sender_init(&who, skb, info->extack);
	if (err)
		return err;
	if (!who.admin) {
		NL_SET_ERR_MSG(info->extack,
			       "only CAP_SYS_ADMIN may follow the events of all domains");
		return -EPERM;
	}
	if (!who.all_nets) {
		NL_SET_ERR_MSG(info->extack,
			       "the events of all domains are for the initial network namespace only");
		return -EPERM;
	}
	/* It sends, so it cannot be released before we are done. */
	err = capkm_events_subscribe(NETLINK_CB(skb).sk->sk_socket->file,
				     info->snd_portid);
	if (err == -ENOSPC)
		NL_SET_ERR_MSG(info->extack, "too many sockets follow the events");
	return err;
}

/* ---- the family ---- */

/* One table for each kind of policy would do; one for each operation says more. */
#define ID		NLA_POLICY_MIN(NLA_U64, 1)
#define U32		{ .type = NLA_U32 }
#define U64		{ .type = NLA_U64 }
#define S32		{ .type = NLA_S32 }
#define FLAG		{ .type = NLA_FLAG }
#define NO		{ .type = NLA_REJECT }
#define UUID		NLA_POLICY_EXACT_LEN(16)
#define TEXT(max)	{ .type = NLA_NUL_STRING, .len = (max) }

static const struct nla_policy domain_get_policy[] = {
	[CAPKM_A_DOMAIN_ID]		= ID,
	[CAPKM_A_DOMAIN_UID]		= U32,
};

static const struct nla_policy window_get_policy[] = {
	[CAPKM_A_WINDOW_DOMAIN]		= ID,
	[CAPKM_A_WINDOW_HISTORY]	= FLAG,
	[CAPKM_A_WINDOW_ID]		= ID,
	[CAPKM_A_WINDOW_SESSION]	= ID,
	[CAPKM_A_WINDOW_DEVICE]		= UUID,
	[CAPKM_A_WINDOW_SLOT]		= U32,
	[CAPKM_A_WINDOW_STATE]		= U32,
	[CAPKM_A_WINDOW_PID]		= U32,
	[CAPKM_A_WINDOW_UID]		= U32,
};

static const struct nla_policy buffer_get_policy[] = {
	[CAPKM_A_BUFFER_DOMAIN]		= ID,
	[CAPKM_A_BUFFER_ID]		= ID,
	[CAPKM_A_BUFFER_DEVICE]		= UUID,
	[CAPKM_A_BUFFER_SESSION]	= ID,
};

/* Of the do and of the dump, which each refuse what is the other's. */
static const struct nla_policy failure_get_policy[] = {
	[CAPKM_A_FAILURE_DOMAIN]	= ID,
	[CAPKM_A_FAILURE_REPORTS]	= FLAG,
	[CAPKM_A_FAILURE_ID]		= ID,
	[CAPKM_A_FAILURE_KIND]		= U32,
	[CAPKM_A_FAILURE_BUFFER]	= ID,
	[CAPKM_A_FAILURE_WINDOW]	= ID,
	[CAPKM_A_FAILURE_SESSION]	= ID,
	[CAPKM_A_FAILURE_PID]		= U32,
	[CAPKM_A_FAILURE_UID]		= U32,
};

static const struct nla_policy abandon_policy[] = {
	[CAPKM_A_WINDOW_DOMAIN]		= ID,
	[CAPKM_A_WINDOW_ID]		= ID,
};

static const struct nla_policy session_get_policy[] = {
	[CAPKM_A_SESSION_DOMAIN]	= ID,
	[CAPKM_A_SESSION_ID]		= ID,
	[CAPKM_A_SESSION_PID]		= U32,
	[CAPKM_A_SESSION_UID]		= U32,
};

static const struct nla_policy client_get_policy[] = {
	[CAPKM_A_CLIENT_DOMAIN]		= ID,
	[CAPKM_A_CLIENT_ID]		= ID,
	[CAPKM_A_CLIENT_SESSION]	= ID,
	[CAPKM_A_CLIENT_PID]		= U32,
	[CAPKM_A_CLIENT_UID]		= U32,
};

static const struct nla_policy graph_get_policy[] = {
	[CAPKM_A_GRAPH_DOMAIN]		= ID,
	[CAPKM_A_GRAPH_ID]		= ID,
	[CAPKM_A_GRAPH_SESSION]		= ID,
	[CAPKM_A_GRAPH_PID]		= U32,
};

static const struct nla_policy ledger_get_policy[] = {
	[CAPKM_A_LEDGER_DOMAIN]		= ID,
	[CAPKM_A_LEDGER_ID]		= ID,
	[CAPKM_A_LEDGER_SESSION]	= U64,
	[CAPKM_A_LEDGER_ORPHANED]	= U32,
	[CAPKM_A_LEDGER_PID]		= U32,
	[CAPKM_A_LEDGER_UID]		= U32,
};

static const struct nla_policy ledger_del_policy[] = {
	[CAPKM_A_LEDGER_DOMAIN]		= ID,
	[CAPKM_A_LEDGER_ID]		= ID,
};

static const struct nla_policy taint_get_policy[] = {
	[CAPKM_A_RANGE_DOMAIN]		= ID,
	[CAPKM_A_RANGE_BUFFER]		= ID,
	[CAPKM_A_RANGE_START]		= U64,
	[CAPKM_A_RANGE_END]		= U64,
};

static const struct nla_policy carrier_get_policy[] = {
	[CAPKM_A_RANGE_DOMAIN]		= ID,
	[CAPKM_A_RANGE_FAILURE]		= ID,
};

static const struct nla_policy limit_get_policy[] = {
	[CAPKM_A_LIMIT_DOMAIN]		= ID,
	[CAPKM_A_LIMIT_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[CAPKM_A_LIMIT_UID]		= U32,
	[CAPKM_A_LIMIT_DEFAULTS]	= FLAG,
	[CAPKM_A_LIMIT_USERS]		= FLAG,
};

static const struct nla_policy domain_new_policy[] = {
	[CAPKM_A_DOMAIN_MODE]		= NLA_POLICY_MAX(NLA_U32, 0666),
	[CAPKM_A_DOMAIN_UID]		= U32,
	[CAPKM_A_DOMAIN_GID]		= U32,
	[CAPKM_A_DOMAIN_NAME]		= TEXT(CAPKM_NAME_MAX),
};

static const struct nla_policy domain_del_policy[] = {
	[CAPKM_A_DOMAIN_ID]		= ID,
	[CAPKM_A_DOMAIN_FORCE]		= FLAG,
};

static const struct nla_policy limit_set_policy[] = {
	[CAPKM_A_LIMIT_DOMAIN]		= ID,
	[CAPKM_A_LIMIT_LIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[CAPKM_A_LIMIT_VALUE]		= U64,
};

static const struct nla_policy device_fault_policy[] = {
	[CAPKM_A_FAULT_DEVICE]		= UUID,
	[CAPKM_A_FAULT_CODE]		= S32,
	[CAPKM_A_FAULT_TEXT]		= TEXT(CAPKM_TEXT_MAX),
};

/* Nothing. Without a policy, anything would be taken. */
static const struct nla_policy event_subscribe_policy[] = {
	[CAPKM_A_EVENT_PAD]		= NO,
};

#define OP(c, p)				\
	.cmd = CAPKM_CMD_##c,			\
	.policy = p##_policy,			\
	.maxattr = ARRAY_SIZE(p##_policy) - 1
#define DUMP					\
	.start = capkm_dump_start,		\
	.dumpit = capkm_dumpit,			\
	.done = capkm_dump_done

static const struct genl_ops capkm_ops[] = {
	{ OP(DOMAIN_GET, domain_get), DUMP },
	{ OP(WINDOW_GET, window_get), DUMP },
	{ OP(BUFFER_GET, buffer_get), DUMP },
	{ OP(FAILURE_GET, failure_get), DUMP, .doit = failure_get },
	{ OP(ABANDON, abandon), .doit = abandon },
	{ OP(SESSION_GET, session_get), DUMP },
	{ OP(CLIENT_GET, client_get), DUMP },
	{ OP(GRAPH_GET, graph_get), DUMP },
	{ OP(TAINT_GET, taint_get), DUMP },
	{ OP(CARRIER_GET, carrier_get), DUMP },
	{ OP(LIMIT_GET, limit_get), DUMP },
	{ OP(DOMAIN_NEW, domain_new), .doit = domain_new },
	{ OP(DOMAIN_DEL, domain_del), .doit = domain_del },
	{ OP(LIMIT_SET, limit_set), .doit = limit_set },
	{ OP(DEVICE_FAULT, device_fault), .doit = device_fault },
	{ OP(EVENT_SUBSCRIBE, event_subscribe), .doit = event_subscribe },
	{ OP(LEDGER_GET, ledger_get), DUMP },
	{ OP(LEDGER_DEL, ledger_del), .doit = ledger_del },
};

/*
 * resv_start_op stays 0: all operations are strict. In all network namespaces, each
 * of which has the domains that were made there, and the initial one all.
 */
struct genl_family capkm_family __ro_after_init = {
	.name		= CAPKM_FAMILY_NAME,
	.version	= CAPKM_FAMILY_VERSION,
	.module		= THIS_MODULE,
	.netnsok	= true,
	.parallel_ops	= true,
	.ops		= capkm_ops,
	.n_ops		= ARRAY_SIZE(capkm_ops),
};

MODULE_ALIAS_GENL_FAMILY(CAPKM_FAMILY_NAME);

int __init capkm_netlink_init(void)
{
	int err = capkm_events_init();

	if (err)
		return err;
	err = genl_register_family(&capkm_family);
	if (err)
		capkm_events_exit();
	return err;
}

void capkm_netlink_exit(void)
{
	genl_unregister_family(&capkm_family);
	capkm_events_exit();
}
