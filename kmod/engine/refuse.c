// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What a runtime must not do while a window records, so that no runtime has to
 * know the rules, or can forget them: in software nothing that was recorded has run,
 * and a write of the host cannot be recorded; a driver throws its capture away if
 * the host waits, and memory that it gets meanwhile is not the graph's.
 */
#include "internal.h"

struct refusing {
	struct call *call;
	struct capkm_refuse *arg;
	const struct array *claims;
	struct window *window;		/* in the way, or NULL */
	bool taints, dooms;		/* the claims; the window */
};

static const struct {
	const char *op, *why;
} words[] = {
	[CAPKM_REFUSE_READ] = {
		"read", "what it records has not run, there is nothing to read",
	},
	[CAPKM_REFUSE_SYNC] = {
		"sync", "what it records has not run, there is nothing to wait for",
	},
	[CAPKM_REFUSE_PROFILE] = {
		"profile", "what it records has not run, there is nothing to measure",
	},
	[CAPKM_REFUSE_WRITE] = {
		"write", "a write from the host cannot be recorded in software",
	},
	[CAPKM_REFUSE_ALLOCATE] = {
		"allocate", "new memory would not be a part of its graph",
	},
};

static u32 make_text(const struct refusing *r, char *text, size_t size)
{
	const struct window *w = r->window;
	const char *does = "records";

	if (w->state == CAPKM_WINDOW_OPENING)
		does = "is being opened by its driver";
	else if (w->state == CAPKM_WINDOW_CLOSING)
		does = "is being closed by its driver";
	return scnprintf(text, size,
		"%s: refused while window %llu of stream %llu %s: %s",
		words[r->arg->what].op, (unsigned long long)w->node.id,
		(unsigned long long)w->opener.stream, does,
		words[r->arg->what].why);
}

/* The rules. */
static void judge(struct refusing *r, const struct slot *slot)
{
	const bool driver = ck_has_driver(r->call->client);
	const u32 what = r->arg->what;
	struct window *w = slot ? ck_slot_recording(slot) : NULL;

	r->arg->out_window = w ? w->node.id : 0;
	/* Between its two calls nobody knows whether the driver records. */
	if (slot && ck_slot_driver_at_work(slot))
		w = slot->window;
	if ((what == CAPKM_REFUSE_WRITE && driver) ||
	    (what == CAPKM_REFUSE_ALLOCATE && !driver))
		w = NULL;
	r->window = w;
	r->taints = w && what == CAPKM_REFUSE_WRITE;
	r->dooms = w && (what == CAPKM_REFUSE_ALLOCATE ||
			 (r->taints && r->arg->place.stream == w->opener.stream));
}

/* All that can be wrong, and what it costs: 0, 1 look again, or an error. */
static int prepare(struct refusing *r)
{
	struct capkm_refuse *a = r->arg;
	struct call *c = r->call;
	struct need need = {};
	struct slot *slot;
	u32 index;
	int err;

	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &index);
	if (!err)
		err = ck_targets_check(c, r->claims, 0, false,
				       &a->out_error_index);
	if (err)
		return err;
	ck_slot_window(slot, &a->out_state);
	judge(r, slot);
	if (r->taints)
		err = ck_targets_need(c, r->claims, &need);
	r->taints = need.n[STOCK_CARRIER];	/* not by claims without a byte */
	need.n[STOCK_FAILURE] = r->taints || r->dooms;
	return err ? err : ck_call_buy(c, &need);
}

/* Nothing carries it, so it is no failure of the error graph. */
static void report(const struct refusing *r, struct capkm_report *out)
{
	struct call *c = r->call;
	struct who who = {};

	memset(out, 0, sizeof(*out));
	out->kind = CAPKM_KIND_REFUSED;
	out->window = r->window->node.id;
	out->sequence = c->domain->sequence;
	out->time_ns = host_time_ns();
	ck_who_set(&who, c->who, c->session->id, r->arg->place.stream);
	ck_who_report(&who, out);
	ck_who_put(&who);
	out->text_len = make_text(r, (char *)out->text, sizeof(out->text));
}

/* One failure for all that it is the cause of. */
static void fail(const struct refusing *r, struct capkm_report *out)
{
	struct call *c = r->call;
	struct stock *st = &c->session->stock;
	char text[CAPKM_TEXT_MAX + 1];
	struct failure *f;

	ck_tick(c->domain);
	f = ck_failure_by(c, r->arg->place.stream, CAPKM_KIND_REFUSED, 0);
	f->window = r->window->node.id;
	ck_failure_text(f, text, make_text(r, text, sizeof(text)));
	if (r->taints)
		ck_targets_taint(c, r->claims, f);
	if (r->dooms)
		ck_window_doom(r->window, f, st);
	r->arg->out_failure = f->node.id;
	if (out)
		ck_failure_report(f, out);
	ck_failure_unpin(f, st);
}

int ck_op_refuse(struct call *c)
{
	struct capkm_refuse *a = c->arg;
	struct array *reports = &c->array[1];
	struct refusing r = { .call = c, .arg = a, .claims = &c->array[0] };
	struct capkm_report *out = reports->len ? reports->data : NULL;
	int err;

	if (!a->what || a->what > CAPKM_REFUSE_ALLOCATE ||
	    (a->claims_len && a->what != CAPKM_REFUSE_WRITE))
		return -EINVAL;
	do {
		err = prepare(&r);
	} while (err == 1);
	if (err)
		return err;
	a->out_failure = 0;
	a->out_result = r.window ? CAPKM_REFUSED : CAPKM_CLEAN;
	if (r.taints || r.dooms)
		fail(&r, out);
	else if (r.window && out)
		report(&r, out);
	reports->used = r.window && out;
	a->out_reports = reports->used;
	return 0;
}
