// SPDX-License-Identifier: GPL-2.0-only
/* Loading and unloading. */
#include <linux/module.h>
#include <linux/workqueue.h>

#include "capkm.h"
#include "engine/engine.h"

#define REAP_PERIOD	(5 * HZ)

module_param_named(linger_s, capkm_linger_s, uint, 0644);
MODULE_PARM_DESC(linger_s,
		 "seconds that a domain is kept after its last session, for its reports");

/* A domain has those that were set when it was created. */
#define LIMIT(name, NAME, text)						\
	module_param_named(max_##name, capkm_limits[CAPKM_LIMIT_##NAME],	\
			   ullong, 0644);				\
	MODULE_PARM_DESC(max_##name, text)

LIMIT(domains, DOMAINS, "domains of one user");
LIMIT(defunct, DEFUNCT,
      "defunct domains of one user that linger; beyond it the oldest goes");
LIMIT(sessions, SESSIONS, "sessions of a domain");
LIMIT(clients, CLIENTS, "living clients of a session");
LIMIT(streams, STREAMS, "streams that a session has created");
LIMIT(buffers, BUFFERS, "buffers that a session holds");
LIMIT(scopes, SCOPES, "open scopes of a client");
LIMIT(windows, WINDOWS, "open and closing windows of a client");
LIMIT(graphs, GRAPHS, "graphs of a client");
LIMIT(devices, DEVICES, "devices that a client has used");
LIMIT(claims, CLAIMS, "claims of a window");
LIMIT(retained, RETAINED, "retained host buffers of a window");
LIMIT(members, MEMBERS, "member slots of a window");
LIMIT(depth, DEPTH, "windows above a child window");
LIMIT(ranges, RANGES, "ranges that a domain keeps for all its buffers");
LIMIT(open_windows, OPEN_WINDOWS,
      "open, closing and orphaned windows of a domain");
LIMIT(unconfirmed, UNCONFIRMED,
      "unconfirmed ranges of a slot; beyond it they widen to whole buffers");
LIMIT(queued, QUEUED,
      "errors that wait for one stream on a slot; beyond it the oldest becomes shared");
LIMIT(queued_shared, QUEUED_SHARED,
      "errors that wait for anybody on a slot; beyond it the oldest is only counted");
LIMIT(events, EVENTS, "events that a domain keeps for its readers");
LIMIT(history, HISTORY, "closed windows that a domain remembers");
LIMIT(reports, REPORTS, "failures of ended clients that a domain remembers");
LIMIT(ledgers, LEDGERS, "ledgers of a domain");
LIMIT(ledger_captures, LEDGER_CAPTURES,
      "captures that the ledgers of a domain are charged with, each and together");
LIMIT(ledger_retained, LEDGER_RETAINED,
      "retained bytes that they are charged with, each and together");
LIMIT(ledger_host, LEDGER_HOST,
      "host bytes that they are charged with, each and together");
LIMIT(ledger_encoded, LEDGER_ENCODED,
      "encoded bytes that they are charged with, each and together");
static_assert(CAPKM_LIMITS == CAPKM_LIMIT_LEDGER_ENCODED + 1);

#ifdef CAPKM_DEBUG
module_param_named(first_id, capkm_first.id, ullong, 0644);
MODULE_PARM_DESC(first_id, "where the ids of a new domain begin, for tests");
module_param_named(first_sequence, capkm_first.sequence, ullong, 0644);
MODULE_PARM_DESC(first_sequence, "where the sequence of a new domain begins, for tests");
#endif

struct workqueue_struct *capkm_wq;

static void reap(struct work_struct *work);
static DECLARE_DELAYED_WORK(reap_work, reap);

static void reap(struct work_struct *work)
{
	capkm_engine_reap();
	queue_delayed_work(capkm_wq, &reap_work, REAP_PERIOD);
}

static int __init capkm_init(void)
{
	int err;

	err = capkm_engine_init();
	if (err)
		return err;

	err = -ENOMEM;
	capkm_wq = alloc_workqueue("capkm", WQ_UNBOUND, 0);
	if (!capkm_wq)
		goto err_engine;

	err = capkm_netlink_init();
	if (err)
		goto err_wq;

	/* Who opens the device keeps the module: nothing can fail behind this. */
	err = capkm_chardev_init();
	if (err)
		goto err_netlink;

	capkm_netlink_ready();
	queue_delayed_work(capkm_wq, &reap_work, REAP_PERIOD);
	pr_info("version " CAPKM_VERSION ", ABI %u\n", CAPKM_ABI_VERSION);
	return 0;

err_netlink:
	capkm_netlink_exit();
err_wq:
	destroy_workqueue(capkm_wq);
err_engine:
	capkm_engine_exit();
	return err;
}

static void __exit capkm_exit(void)
{
	cancel_delayed_work_sync(&reap_work);
	capkm_chardev_exit();
	capkm_netlink_exit();
	destroy_workqueue(capkm_wq);
	capkm_engine_exit();
}

module_init(capkm_init);
module_exit(capkm_exit);

MODULE_AUTHOR("The capkm authors");
MODULE_DESCRIPTION("CUDA-graph capture windows and an error graph, kept in the kernel");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(CAPKM_VERSION);
