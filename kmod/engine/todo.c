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
