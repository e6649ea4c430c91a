// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "internal.h"
int ck_op_session_join(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_stream_destroy(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_stream_confirm(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_stream_fault(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_stream_flush(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_context_renew(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_window_join(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_window_wait(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_graph_update(struct call *c) { (void)c; return -EOPNOTSUPP; }
int ck_op_device_fault(struct call *c) { (void)c; return -EOPNOTSUPP; }
u64 capkm_limits[CAPKM_LIMITS];
int capkm_event_next(struct capkm_session *s, const struct capkm_caller *who, bool wait, struct capkm_event *event) { (void)s; (void)who; (void)wait; (void)event; return -EOPNOTSUPP; }
void capkm_event_taken(struct capkm_session *s, u64 number) { (void)s; (void)number; }
u32 capkm_session_poll(struct capkm_session *s) { (void)s; return 0; }
struct host_waitq *capkm_session_waitq(struct capkm_session *s) { (void)s; return NULL; }
void capkm_session_stats(struct capkm_session *s, struct capkm_session_stats *stats) { (void)s; memset(stats, 0, sizeof(*stats)); }
bool capkm_session_is_client(struct capkm_session *s, const struct capkm_caller *who) { (void)s; (void)who; return true; }
