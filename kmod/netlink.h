/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the generic netlink family share:
 *
 *	netlink.c		the family, its policies, what is done by it
 *	netlink_dump.c		dumps
 *	netlink_record.c	records of the engine as attributes, by table
 *	netlink_event.c		who follows the events of all domains
 */
#ifndef CAPKM_NETLINK_H
#define CAPKM_NETLINK_H

#include <linux/init.h>
#include <linux/types.h>
#include <net/genetlink.h>

#include <linux/capkm_netlink.h>

struct capkm_caller;
struct capkm_failure_view;
struct capkm_report;
struct capkm_usage;
struct file;

extern struct genl_family capkm_family;

/*
 * Who asks, as a caller of the engine. Nobody speaks for another user: -EPERM if
 * the socket was opened by one.
 */
int capkm_sender_init(struct capkm_caller *who, struct sk_buff *skb,
		      struct netlink_ext_ack *extack);

/* ---- records ---- */

enum capkm_wire {
	WIRE_NUMBER,	/* u32, s32 or u64, by its size */
	WIRE_MAYBE,	/* the same; left out if all its bits are set */
	WIRE_TEXT,	/* NUL-terminated; left out if empty */
	WIRE_UUID,	/* left out if all zero */
};

struct capkm_field {
	u16 attr;
	u16 offset;
	u16 size;
	u16 wire;
};

struct capkm_record {
	const struct capkm_field *fields;
	size_t n;
};

extern const struct capkm_record capkm_domain_record;	/* capkm_domain_query */
extern const struct capkm_record capkm_session_record;	/* capkm_session_view */
extern const struct capkm_record capkm_client_record;	/* capkm_client_view */
extern const struct capkm_record capkm_window_record;	/* capkm_window_view */
extern const struct capkm_record capkm_buffer_record;	/* capkm_buffer_query */
extern const struct capkm_record capkm_graph_record;	/* capkm_graph_view */
extern const struct capkm_record capkm_failure_record;	/* capkm_report */
extern const struct capkm_record capkm_range_record;	/* capkm_range_view */
extern const struct capkm_record capkm_carrier_record;	/* capkm_range_view */
extern const struct capkm_record capkm_ledger_record;	/* capkm_ledger_view */
extern const struct capkm_record capkm_limit_record;	/* capkm_limit_view */
extern const struct capkm_record capkm_event_record;	/* capkm_event */

const struct capkm_field *capkm_find_field(const struct capkm_record *record,
					   u16 attr);

/* All of these: 0 or -EMSGSIZE; then the message is to be taken back. */
int capkm_put_u64(struct sk_buff *skb, int attr, u64 value);
int capkm_put_record(struct sk_buff *skb, const struct capkm_record *record,
		     const void *data);
/* As a nest. */
int capkm_put_report(struct sk_buff *skb, int attr,
		     const struct capkm_report *report);
int capkm_put_usage(struct sk_buff *skb, int attr,
		    const struct capkm_usage *usage);
int capkm_put_failure(struct sk_buff *skb,
		      const struct capkm_failure_view *view);

/* ---- dumps ---- */

int capkm_dump_start(struct netlink_callback *cb);
int capkm_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int capkm_dump_done(struct netlink_callback *cb);

/* ---- events ---- */

int __init capkm_events_init(void);
void capkm_events_exit(void);

/*
 * From now on the socket is sent each event of each domain, until it is released. Again:
 * 0. -ENOSPC (too many sockets are), -ENOMEM.
 */
int capkm_events_subscribe(struct file *file, u32 portid);

#endif /* CAPKM_NETLINK_H */
