// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Who captures: the open windows of a domain, by whoever asks. Changes nothing (C18), so
 * a library that does not know its caller can ask before it calls the driver (C10).
 */
#include "internal.h"

static bool passes(const struct window *w, const struct capkm_window_list *a)
{
	const u32 f = a->flags;

	return (!(f & CAPKM_WINDOW_LIST_F_STREAM) ||
		ck_window_has_stream(w, a->stream)) &&
	       (!(f & CAPKM_WINDOW_LIST_F_SESSION) ||
		w->opener.session == a->session) &&
	       (!(f & CAPKM_WINDOW_LIST_F_PROCESS) ||
		host_proc_pid(w->opener.proc) == a->pid) &&
	       (!(f & CAPKM_WINDOW_LIST_F_THREAD) || w->opener.tid == a->tid) &&
	       (!(f & CAPKM_WINDOW_LIST_F_DEVICE) ||
		!memcmp(w->device, a->device, sizeof(w->device)));
}

/* A filter is given and valid, or neither. */
static bool is_sound(const struct capkm_window_list *a)
{
	static const u8 host[16];
	const u32 f = a->flags;

	return !(f & CAPKM_WINDOW_LIST_F_STREAM) == !a->stream &&
	       !(f & CAPKM_WINDOW_LIST_F_SESSION) == !a->session &&
	       !(f & CAPKM_WINDOW_LIST_F_PROCESS) == !a->pid &&
	       !(f & CAPKM_WINDOW_LIST_F_THREAD) == !a->tid &&
	       (f & CAPKM_WINDOW_LIST_F_DEVICE ||
		!memcmp(a->device, host, sizeof(host)));
}

static void fill(const struct window *w, struct capkm_open_window *o)
{
	*o = (struct capkm_open_window) {
		.window = w->node.id,
		.owner = w->opener.stream,
		.session = w->opener.session,
		.cookie = w->cookie,
		.begun_ns = w->begun_ns,
		.slot = w->slot_index,
		.state = w->state,
		.doomed = ck_window_doomed(w),
		.members = w->members_n,
		.pid = host_proc_pid(w->opener.proc),
		.tid = w->opener.tid,
	};
	memcpy(o->device, w->device, sizeof(o->device));
	memcpy(o->comm, w->opener.comm, sizeof(o->comm));
}

/* CW-39: from the prepare to the close, and from the begin on. */
static void count(const struct window *w, struct capkm_window_list *a)
{
	const bool recording = w->state == CAPKM_WINDOW_OPENING ||
			       w->state == CAPKM_WINDOW_CAPTURE;

	a->out_open++;
	a->out_active += recording || w->state == CAPKM_WINDOW_PREPARE;
	a->out_recording += recording;
}

int ck_op_window_list(struct call *c)
{
	struct capkm_window_list *a = c->arg;
	struct array *out = &c->array[0];
	struct capkm_open_window *o = out->data;
	const struct id_node *node;
	const struct window *w;
	u32 n = 0;

	if (!is_sound(a))
		return -EINVAL;
	a->out_open = 0;
	a->out_active = 0;
	a->out_recording = 0;
	for (node = ck_id_first(&c->domain->windows); node;
	     node = ck_id_next(node)) {
		w = container_of(node, struct window, node);
		if (!(++n % 1024))
			host_relax();
		if (!passes(w, a))
			continue;
		count(w, a);
		if (node->id > a->after && out->used < out->len)
			fill(w, &o[out->used++]);
	}
	a->out_windows = out->used;
	return 0;
}
