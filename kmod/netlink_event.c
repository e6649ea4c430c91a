// SPDX-License-Identifier: GPL-2.0-only
/*
 * The multicast group: events of all domains, for administrators. They are sent
 * where they happen, under the domain's lock, so they come in the domain's order;
 * nothing here waits. What cannot be sent is lost, which its reader sees as ENOBUFS
 * and as a gap in the numbers.
 */
#include <linux/compiler.h>
#include <net/netlink.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"
#include "netlink.h"

/* By its place in capkm_groups of netlink.c. */
#define EVENTS 0

/* Room for every attribute of an event; it is a little less. */
#define EVENT_SIZE 512

/* Set while the family is there. */
static bool started;

void capkm_events_start(void)
{
	WRITE_ONCE(started, true);
}

void capkm_events_stop(void)
{
	WRITE_ONCE(started, false);
}

/* Nothing is sent to other network namespaces: it would be from all of them. */
bool host_event_wanted(void)
{
	return READ_ONCE(started) && capkm_family.n_mcgrps &&
	       genl_has_listeners(&capkm_family, &init_net, EVENTS) > 0;
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

void host_event(u64 domain, const struct capkm_event *e,
		const struct host_proc *proc)
{
	struct sk_buff *skb;

	if (!host_event_wanted())
		return;
	skb = genlmsg_new(EVENT_SIZE, GFP_NOWAIT | __GFP_NOWARN);
	if (!skb) {
		genl_set_err(&capkm_family, &init_net, 0, EVENTS, -ENOBUFS);
		return;
	}
	if (WARN_ON_ONCE(put_event(skb, domain, e, proc))) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_multicast_netns(&capkm_family, &init_net, skb, 0, EVENTS,
				GFP_NOWAIT | __GFP_NOWARN);
}
