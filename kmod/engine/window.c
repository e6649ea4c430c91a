// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Capture windows. A window belongs to the stream that prepared it and to that
 * stream's client. It holds its slot until the driver (if there is one) is out
 * of capture mode; sealed or refused, it moves to the history.
 */
#include "internal.h"

bool ck_window_doomed(const struct window *w)
{
	return w->failures || w->verdict == CAPKM_VERDICT_ABANDONED;
}

bool ck_window_recording(const struct window *w)
{
	return w && w->state == CAPKM_WINDOW_CAPTURE;
}

static void set_state(struct window *w, u32 state)
{
	if (w->client)
		w->client->recording_n +=
			(state == CAPKM_WINDOW_CAPTURE) -
			(w->state == CAPKM_WINDOW_CAPTURE);
	w->state = state;
	if (w->slot)
		ck_slot_publish(w->slot);
}

bool ck_slot_driver_at_work(const struct slot *slot)
{
	return slot->window && (slot->window->state == CAPKM_WINDOW_OPENING ||
				slot->window->state == CAPKM_WINDOW_CLOSING);
}

bool ck_has_driver(const struct client *c)
{
	return c->session->backend == CAPKM_BACKEND_HARDWARE;
}

static bool has_graphs(const struct client *c)
{
	return c->session->backend != CAPKM_BACKEND_NONE;
}

void ck_window_put(struct window *w, struct stock *back)
{
	if (--w->refs)
		return;
	if (w->first)
		ck_failure_unpin(w->first, back);
	if (w->last)
		ck_failure_unpin(w->last, back);
	ck_failure_unpin(w->refusal, back);
	ck_who_put(&w->opener);
	ck_stock_free(&w->stock);
	host_free(w);
}

/* The first failure is kept, the last one beside it, the others counted. */
void ck_window_doom(struct window *w, struct failure *f, struct stock *back)
{
	if (!w->failures++) {
		w->first = f;
		w->failed_after = w->launches;
		if (w->client) {
			host_trace(window_doom, w, f);
			ck_event_window(w->client->session->domain, w,
					CAPKM_EVENT_WINDOW_DOOMED, f);
		}
	} else {
		if (w->last)
			ck_failure_unpin(w->last, back);
		w->last = f;
	}
	ck_failure_pin(f);
}

static struct failure *doom_new(struct domain *d, struct window *w, u32 kind,
				const char *text, u32 len)
{
	struct failure *f = ck_failure_new(d, &w->stock);

	ck_failure_date(d, f, kind, 0);
	f->window = w->node.id;
	ck_who_copy(&f->who, &w->opener);
	ck_failure_text(f, text, len);
	return f;
}

static void release_slot(struct domain *d, struct window *w)
{
	struct slot *slot = w->slot;

	w->slot = NULL;
	if (slot) {
		slot->window = NULL;
		ck_slot_publish(slot);
	}
	host_wake(&d->waitq);
}

static void drop_retained(struct window *w)
{
	struct retained *r;

	while (!link_empty(&w->retained)) {
		r = link_first(&w->retained, struct retained, sib);
		link_del(&r->sib);
		host_free(r);
	}
	w->retained_n = 0;
	w->retained_bytes = 0;
}

static void touch(const struct id_map *uses)
{
	struct id_node *node;
	struct use *use;

	for (node = ck_id_first(uses); node; node = ck_id_next(node)) {
		use = container_of(node, struct use, node);
		if (use->buffer)
			ck_buffer_touch(use->buffer);
	}
}

/*
 * Rule 5: what it recorded becomes failed, each claim at its own date. Older
 * claims end where these do (ck_taint_score()), so none has to be split.
 */
static void taint_recorded(struct window *w)
{
	struct target t;
	struct claim *c;
	u64 enter, date;
	u32 n = 0;

	while (!link_empty(&w->claims)) {
		c = link_first(&w->claims, struct claim, sib);
		t.buffer = c->buffer;
		t.start = c->span.start;
		t.end = c->span.end;
		enter = c->enter;
		date = c->span.date;
		ck_claim_drop(c, &w->stock);
		ck_taint_fail(&t, w->refusal, enter, date, &w->stock);
		if (!(++n % 64))
			host_relax();
	}
}

void ck_window_refuse(struct domain *d, struct window *w, u32 kind, s32 code,
		      const char *text, u32 len, struct stock *back)
{
	struct failure *f = w->refusal;

	ck_failure_date(d, f, kind, code);
	f->window = w->node.id;
	ck_who_copy(&f->who, &w->opener);
	ck_failure_text(f, text, len);
	w->refused = true;
	taint_recorded(w);
	touch(&w->uses);
	drop_retained(w);
	ck_uses_forget(&w->uses, back, false);
	if (!w->first)
		ck_window_doom(w, f, back);
	if (w->parent)
		ck_window_doom(w->parent, f, back);
}

static void leave_client(struct domain *d, struct window *w)
{
	ck_child_leave(w);
	if (!w->client)
		return;
	ck_members_leave(w);
	link_del(&w->sib);
	w->client->windows_n--;
	w->client = NULL;
	release_slot(d, w);
}

static u32 closed_event(const struct window *w)
{
	if (w->state == CAPKM_WINDOW_SEALED)
		return CAPKM_EVENT_WINDOW_SEALED;
	return w->refused && w->refusal->kind == CAPKM_KIND_ABANDONED ?
		CAPKM_EVENT_WINDOW_ABANDONED : CAPKM_EVENT_WINDOW_REFUSED;
}

/* To the history, which remembers counts, failures and times. */
void ck_window_close(struct domain *d, struct window *w, u32 state,
		     struct stock *back)
{
	struct window *oldest;

	if (w->state == CAPKM_WINDOW_ORPHANED)
		d->orphans--;
	set_state(w, state);
	leave_client(d, w);
	w->closed_ns = host_time_ns();
	host_trace(window_close, d, w);
	ck_event_window(d, w, closed_event(w), w->refused ? w->refusal : NULL);
	ck_uses_free(&w->uses, back, false);
	ck_stock_free(&w->stock);
	ck_id_erase(&d->windows, &w->node);
	w->remembered = ++d->history_total;
	link_add_tail(&w->sib, &d->history);
	if (state == CAPKM_WINDOW_SEALED)
		d->sealed++;
	else
		d->given_up++;
	if (++d->history_n <= d->limit[CAPKM_LIMIT_HISTORY])
		return;
	oldest = link_first(&d->history, struct window, sib);
	link_del(&oldest->sib);
	d->history_n--;
	ck_window_put(oldest, back);
}

/* Its client ends. A CLOSING window is refused, any other waits to be seen. */
void ck_window_orphan(struct domain *d, struct window *w, struct stock *back)
{
	bool closing = w->state == CAPKM_WINDOW_CLOSING;

	while (w->children_n)
		ck_window_orphan(d, ck_window_deepest(w), back);
	w->verdict = CAPKM_VERDICT_ABANDONED;
	ck_window_refuse(d, w, CAPKM_KIND_OWNER_DIED, 0, "", 0, back);
	if (closing) {
		ck_window_close(d, w, CAPKM_WINDOW_REFUSED, back);
		return;
	}
	set_state(w, CAPKM_WINDOW_ORPHANED);
	leave_client(d, w);
	d->orphans++;
	host_trace(window_orphan, d, w);
	ck_event_window(d, w, CAPKM_EVENT_WINDOW_ORPHANED, w->refusal);
}

void ck_window_abandon(struct domain *d, struct window *w, struct stock *back)
{
	char text[CAPKM_TEXT_MAX + 1];
	u32 len;

	while (w->children_n)
		ck_window_abandon(d, ck_window_deepest(w), back);
	host_trace(window_abandon, d, w);
	ck_tick(d);
	if (!w->refused) {
		len = scnprintf(text, sizeof(text),
				"window %llu of stream %llu was abandoned: the recording is discarded",
				(unsigned long long)w->node.id,
				(unsigned long long)w->opener.stream);
		w->verdict = CAPKM_VERDICT_ABANDONED;
		ck_window_refuse(d, w, CAPKM_KIND_ABANDONED, 0, text, len,
				 back);
	}
	ck_window_close(d, w, CAPKM_WINDOW_REFUSED, back);
}

void ck_window_abort(struct domain *d, struct window *w, struct stock *back)
{
	char text[CAPKM_TEXT_MAX + 1];
	u32 len;

	while (w->children_n)
		ck_window_abort(d, ck_window_deepest(w), back);
	host_trace(window_abort, d, w);
	if (w->state != CAPKM_WINDOW_PREPARE) {
		len = scnprintf(text, sizeof(text),
				"window %llu of stream %llu was aborted",
				(unsigned long long)w->node.id,
				(unsigned long long)w->opener.stream);
		ck_window_refuse(d, w, CAPKM_KIND_ABORTED, 0, text, len, back);
	}
	ck_window_close(d, w, CAPKM_WINDOW_REFUSED, back);
}

/* ---- the operations ---- */

static void child_add(struct window *parent, struct window *w)
{
	w->parent = parent;
	w->parent_id = parent->node.id;
	w->depth = parent->depth + 1;
	link_add_tail(&w->child_sib, &parent->children);
	parent->children_n++;
}

static struct window *window_new(struct call *c, struct slot *slot,
				 const struct capkm_window_prepare *a,
				 struct window *parent, struct window *w)
{
	const struct array *mode = &c->array[0];
	struct domain *d = c->domain;
	struct need need = { .n[STOCK_FAILURE] = 2 };

	w->node.id = ++d->next_window;
	w->refs = 1;
	w->state = CAPKM_WINDOW_PREPARE;
	w->strict = a->flags & CAPKM_WINDOW_PREPARE_F_STRICT;
	ck_who_set(&w->opener, c->who, c->session->id, a->place.stream);
	w->cookie = a->cookie;
	memcpy(w->device, slot->device->uuid, sizeof(w->device));
	w->slot_index = slot->index;
	link_init(&w->claims);
	link_init(&w->retained);
	link_init(&w->children);
	link_init(&w->members);
	ck_stock_init(&w->stock);
	/* One to refuse it with, one to doom it with if scopes are open. */
	ck_stock_move(&w->stock, &c->session->stock, &need);
	w->refusal = ck_failure_new(d, &w->stock);
	memcpy(w->mode, mode->data, mode->len);
	w->prepared_ns = host_time_ns();

	ck_id_insert(&d->windows, &w->node);
	w->client = c->client;
	link_add_tail(&w->sib, &c->client->windows);
	c->client->windows_n++;
	w->slot = slot;
	slot->window = w;
	ck_slot_publish(slot);
	if (parent)
		child_add(parent, w);
	ck_tick(d);
	host_trace(window_prepare, d, w);
	ck_event_window(d, w, CAPKM_EVENT_WINDOW_PREPARED, NULL);
	return w;
}

/* State of the slot's window, for an error as well as for success. */
static int say_state(struct call *c, const struct slot *slot, u32 *out_state,
		     int err)
{
	ck_slot_window(slot, out_state);
	c->say_error = true;
	return err;
}

/* The parent that a window names, if any: can it have one more child? */
static int find_parent(struct call *c, u64 id, struct window **out)
{
	int err;

	*out = NULL;
	if (!id)
		return 0;
	err = ck_window_own(c, id, out);
	if (err)
		return err;
	if (!ck_window_recording(*out) || ck_window_doomed(*out))
		return -EINVAL;
	return ck_limit(c, c->domain, CAPKM_LIMIT_DEPTH, (*out)->depth);
}

static int check_window_limits(struct call *c)
{
	int err = ck_limit(c, c->domain, CAPKM_LIMIT_WINDOWS,
			   c->client->windows_n);

	return err ? err : ck_limit(c, c->domain, CAPKM_LIMIT_OPEN_WINDOWS,
				    c->domain->windows.count);
}

static int prepare(struct call *c, struct capkm_window_prepare *a,
		   struct window **spare)
{
	const struct need need = { .n[STOCK_FAILURE] = 2 };
	struct window *parent = NULL;
	struct slot *slot;
	int err;

	do {
		err = ck_slot_get(c, &a->place, a->flags, &slot);
		if (!err && (slot->window || slot->member))
			return say_state(c, slot, &a->out_state, -EBUSY);
		if (!err)
			err = find_parent(c, a->parent, &parent);
		if (!err)
			err = check_window_limits(c);
		if (!err)
			err = ck_call_buy(c, &need);
		if (!err && !*spare) {
			*spare = ck_call_alloc(c, sizeof(**spare), &err);
			err = *spare ? 1 : err;
		}
	} while (err == 1);
	if (err)
		return err;
	ck_fast_stop(c->session, CAPKM_FAST_WINDOW);
	a->out_window = window_new(c, slot, a, parent, *spare)->node.id;
	*spare = NULL;
	a->out_slot = slot->index;
	return say_state(c, slot, &a->out_state, 0);
}

int ck_op_window_prepare(struct call *c)
{
	struct capkm_window_prepare *a = c->arg;
	struct window *spare = NULL;
	struct slot *slot;
	int err;

	if (!has_graphs(c->client)) {
		err = ck_slot_find(c->client, &a->place, a->flags, &slot,
				   &a->out_slot);
		a->out_window = 0;
		a->out_state = CAPKM_WINDOW_NONE;
		return err;
	}
	err = prepare(c, a, &spare);
	host_free(spare);
	return err;
}

static int begin(struct client *client, struct slot *slot, bool driver_done,
		 u32 tid)
{
	struct window *w = slot ? slot->window : NULL;

	if (!w)
		return -EINVAL;
	if (driver_done) {
		if (w->state != CAPKM_WINDOW_OPENING)
			return w->state == CAPKM_WINDOW_PREPARE ? -EINVAL :
								  -EBUSY;
		set_state(w, CAPKM_WINDOW_CAPTURE);
	} else {
		if (w->state != CAPKM_WINDOW_PREPARE || slot->scopes)
			return -EBUSY;
		set_state(w, ck_has_driver(client) ? CAPKM_WINDOW_OPENING :
						  CAPKM_WINDOW_CAPTURE);
	}
	w->opener.tid = tid;
	if (w->state == CAPKM_WINDOW_CAPTURE) {
		w->begun_ns = host_time_ns();
		host_trace(window_begin, client->session->domain, w);
		ck_event_window(client->session->domain, w,
				CAPKM_EVENT_WINDOW_BEGUN, NULL);
	}
	return 0;
}

/* Both calls of BEGIN and END: is it one that this slot can take? */
static int driver_call(struct call *c, const struct capkm_place *place,
		       u32 flags, struct slot **slot)
{
	u32 index;

	if (!has_graphs(c->client))
		return -EOPNOTSUPP;
	if ((flags & CAPKM_WINDOW_F_DRIVER_DONE) && !ck_has_driver(c->client))
		return -EOPNOTSUPP;
	return ck_slot_find(c->client, place, flags, slot, &index);
}

int ck_op_window_begin(struct call *c)
{
	struct capkm_window_begin *a = c->arg;
	struct slot *slot;
	int err;

	err = driver_call(c, &a->place, a->flags, &slot);
	if (err)
		return err;
	err = begin(c->client, slot, a->flags & CAPKM_WINDOW_F_DRIVER_DONE,
		    c->who->tid);
	if (err)
		return say_state(c, slot, &a->out_state, err);
	ck_tick(c->domain);
	a->out_window = slot->window->node.id;
	a->out_owner = slot->window->opener.stream;
	return say_state(c, slot, &a->out_state, 0);
}

/* Its scopes that are still open count as recorded, and doom it. */
static void close_over_scopes(struct domain *d, struct window *w)
{
	char text[CAPKM_TEXT_MAX + 1];
	struct failure *f;
	u32 len;

	len = scnprintf(text, sizeof(text),
			"window %llu was closed while %llu of its scopes were open",
			(unsigned long long)w->node.id, (unsigned long long)w->scopes);
	f = doom_new(d, w, CAPKM_KIND_INCOMPLETE, text, len);
	ck_window_doom(w, f, NULL);
	ck_failure_unpin(f, NULL);
	ck_scopes_count_recorded(w);
}

static int end(struct call *c, struct slot *slot, u64 stream, bool driver_done,
	       struct window **out)
{
	struct window *w = slot ? slot->window : NULL;

	if (!w || w->state == CAPKM_WINDOW_PREPARE)
		return -EINVAL;
	if (driver_done) {
		if (w->state != CAPKM_WINDOW_CLOSING)
			return w->state == CAPKM_WINDOW_CAPTURE ? -EINVAL :
								  -EBUSY;
		ck_tick(c->domain);
		release_slot(c->domain, w);
	} else {
		if (w->state != CAPKM_WINDOW_CAPTURE || w->children_n)
			return -EBUSY;
		ck_tick(c->domain);
		set_state(w, CAPKM_WINDOW_CLOSING);
		w->verdict = stream == w->opener.stream ?
			CAPKM_VERDICT_OWNED : CAPKM_VERDICT_ABANDONED;
		w->closer = stream;
		if (w->scopes)
			close_over_scopes(c->domain, w);
		host_trace(window_end, c->domain, w);
		ck_members_leave(w);
		if (!ck_has_driver(c->client))
			release_slot(c->domain, w);
	}
	*out = w;
	return 0;
}

static bool is_on(const struct slot *slot, u64 window)
{
	return slot && slot->window && slot->window->node.id == window;
}

int ck_op_window_end(struct call *c)
{
	struct capkm_window_end *a = c->arg;
	struct window *w;
	struct slot *slot;
	int err;

	err = driver_call(c, &a->place, a->flags, &slot);
	if (err)
		return err;
	if (a->window && !is_on(slot, a->window))
		return -ENOENT;
	err = end(c, slot, a->place.stream,
		  a->flags & CAPKM_WINDOW_F_DRIVER_DONE, &w);
	if (err)
		return say_state(c, slot, &a->out_state, err);
	a->out_verdict = w->verdict;
	a->out_window = w->node.id;
	a->out_owner = w->opener.stream;
	a->out_recorded = w->recorded;
	a->out_doomed = ck_window_doomed(w);
	return say_state(c, slot, &a->out_state, 0);
}

int ck_window_own(struct call *c, u64 id, struct window **out)
{
	struct window *w = id_entry(ck_id_find(&c->domain->windows, id),
				    struct window, node);

	if (!w)
		return -ENOENT;
	if (w->client != c->client)
		return -EPERM;
	*out = w;
	return 0;
}

int ck_window_closing(struct call *c, u64 id, struct window **out)
{
	int err = ck_window_own(c, id, out);

	if (err)
		return err;
	return (*out)->state == CAPKM_WINDOW_CLOSING ? 0 : -EINVAL;
}

/* First why it is no graph, then, if that is another matter, what doomed it. */
static u32 fill_refusal(const struct window *w, struct array *reports)
{
	struct capkm_report *r = reports->data;
	u32 n = 0;

	if (n < reports->len)
		ck_failure_report(w->refusal, &r[n++]);
	if (n < reports->len && w->first != w->refusal)
		ck_failure_report(w->first, &r[n++]);
	reports->used = n;
	return n;
}

/* CW-23: both streams are named; GR-9: what doomed it is embedded. */
static u32 refusal_text(const struct window *w, char *text, size_t size,
			u32 *kind)
{
	char reason[CAPKM_TEXT_MAX + 1];

	*kind = CAPKM_KIND_ABANDONED;
	if (w->verdict == CAPKM_VERDICT_ABANDONED)
		return scnprintf(text, size,
			"end_capture: stream %llu closed the window of stream %llu: the recording is discarded",
			(unsigned long long)w->closer,
			(unsigned long long)w->opener.stream);
	*kind = CAPKM_KIND_REFUSED;
	ck_failure_reason(w->first, reason, sizeof(reason));
	return scnprintf(text, size,
		"end_capture: an operation inside the window failed or was skipped: %s",
		reason);
}

/* What SEAL and UPDATE do with a doomed window. */
static void seal_refuse(struct call *c, struct window *w, u32 *out_reports)
{
	struct stock *back = &c->session->stock;
	char text[CAPKM_TEXT_MAX + 1];
	u32 kind, len;

	len = refusal_text(w, text, sizeof(text), &kind);
	w->refs++;
	ck_window_refuse(c->domain, w, kind, 0, text, len, back);
	ck_window_close(c->domain, w, CAPKM_WINDOW_REFUSED, back);
	*out_reports = fill_refusal(w, &c->array[0]);
	ck_window_put(w, back);
}

/* Rule 4: memory reads as it did. */
static void drop_recorded(struct window *w, struct stock *back)
{
	u32 n = 0;

	while (!link_empty(&w->claims)) {
		ck_claim_drop(link_first(&w->claims, struct claim, sib), back);
		if (!(++n % 1024))
			host_relax();
	}
}

static void seal(struct call *c, struct window *w, struct graph *g,
		 const struct need *need, struct capkm_window_seal *a)
{
	struct domain *d = c->domain;
	struct stock *back = &c->session->stock;

	drop_recorded(w, back);
	ck_graph_init(d, g, c->client);
	g->no_inputs = a->flags & CAPKM_WINDOW_SEAL_F_NO_INPUTS;
	ck_stock_move(&g->stock, back, need);
	ck_graph_from_window(g, w);
	w->graph = g->node.id;
	ck_window_close(d, w, CAPKM_WINDOW_SEALED, back);
	a->out_result = CAPKM_CLEAN;
	a->out_graph = g->node.id;
	a->out_reports = 0;
}

/* A child becomes a part of its parent: 0, 1 look again, or an error. */
static int seal_child(struct call *c, struct window *w,
		      struct capkm_window_seal *a)
{
	struct stock *back = &c->session->stock;
	struct need need;
	int err;

	err = ck_child_need(c, w, &need);
	if (!err)
		err = ck_call_buy(c, &need);
	if (err)
		return err;
	ck_tick(c->domain);
	ck_child_sealed(w, back);
	ck_window_close(c->domain, w, CAPKM_WINDOW_SEALED, back);
	a->out_result = CAPKM_CLEAN;
	a->out_graph = 0;
	a->out_reports = 0;
	return 0;
}

int ck_op_window_seal(struct call *c)
{
	struct capkm_window_seal *a = c->arg;
	struct graph *g = NULL;
	struct window *w;
	struct need need;
	int err;

	do {
		err = ck_window_closing(c, a->window, &w);
		if (!err && w->slot)
			err = -EBUSY;
		if (err)
			break;
		if (ck_window_doomed(w)) {
			ck_tick(c->domain);
			seal_refuse(c, w, &a->out_reports);
			a->out_result = CAPKM_REFUSED;
			a->out_graph = 0;
			break;
		}
		if (w->parent) {
			err = seal_child(c, w, a);
			continue;
		}
		err = ck_limit(c, c->domain, CAPKM_LIMIT_GRAPHS,
			       c->client->graphs_n);
		if (err)
			break;
		need = ck_graph_need(w->recorded + w->seen, w->uses.count);
		err = ck_call_buy(c, &need);
		if (!err && !g) {
			g = ck_call_alloc(c, sizeof(*g), &err);
			err = g ? 1 : err;
		} else if (!err) {
			ck_tick(c->domain);
			ck_stock_init(&g->stock);
			seal(c, w, g, &need, a);
			return 0;
		}
	} while (err == 1);
	host_free(g);
	return err;
}

/* The graph and window of an update: 0, or an error. */
static int find_update(struct call *c, const struct capkm_graph_update *a,
		       struct graph **g, struct window **w)
{
	int err;

	err = ck_graph_own(c, a->graph, g);
	if (!err)
		err = ck_window_closing(c, a->window, w);
	if (err)
		return err;
	if ((*w)->parent)
		return -EINVAL;
	return (*g)->slot || (*w)->slot ? -EBUSY : 0;
}

int ck_op_graph_update(struct call *c)
{
	struct capkm_graph_update *a = c->arg;
	struct stock *back = &c->session->stock;
	struct window *w;
	struct graph *g;
	struct need need;
	int err;

	do {
		err = find_update(c, a, &g, &w);
		if (err)
			return err;
		need = ck_graph_need(w->recorded + w->seen, w->uses.count);
		need = ck_stock_lack(&g->stock, &need);
		err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	a->out_reports = 0;
	a->out_result = CAPKM_CLEAN;
	ck_tick(c->domain);
	if (a->flags & CAPKM_GRAPH_UPDATE_F_FAILED) {
		g->failed_updates++;
		host_trace(graph_update, g, w);
		return 0;
	}
	if (ck_window_doomed(w)) {
		seal_refuse(c, w, &a->out_reports);
		a->out_result = CAPKM_REFUSED;
		return 0;
	}
	drop_recorded(w, back);
	ck_graph_strip(g, back, false);
	g->no_inputs = a->flags & CAPKM_GRAPH_UPDATE_F_NO_INPUTS;
	ck_stock_move(&g->stock, back, &need);
	ck_graph_from_window(g, w);
	ck_graph_give_excess(g, back);
	g->updates++;
	host_trace(graph_update, g, w);
	w->graph = g->node.id;
	ck_window_close(c->domain, w, CAPKM_WINDOW_SEALED, back);
	return 0;
}

int ck_op_window_refuse(struct call *c)
{
	struct capkm_window_refuse *a = c->arg;
	static const char fallback[] = "the driver refused the capture";
	const struct array *text = &c->array[0];
	struct stock *back = &c->session->stock;
	struct window *w;
	int err;

	if (a->kind > CAPKM_KIND_DRIVER)
		return -EINVAL;
	err = ck_window_closing(c, a->window, &w);
	if (err)
		return err;
	ck_tick(c->domain);
	w->refs++;
	ck_window_refuse(c->domain, w, a->kind ? a->kind : CAPKM_KIND_DRIVER,
			 a->code, text->len ? text->data : fallback,
			 text->len ? text->len : sizeof(fallback) - 1, back);
	ck_window_close(c->domain, w, CAPKM_WINDOW_REFUSED, back);
	a->out_reports = fill_refusal(w, &c->array[1]);
	ck_window_put(w, back);
	return 0;
}

int ck_op_window_abort(struct call *c)
{
	struct capkm_window_abort *a = c->arg;
	struct slot *slot;
	u32 index;
	int err;

	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &index);
	if (err)
		return err;
	if (a->window && !is_on(slot, a->window))
		return -ENOENT;
	a->out_window = 0;
	if (!slot || !slot->window)
		return 0;
	a->out_window = slot->window->node.id;
	ck_tick(c->domain);
	ck_window_abort(c->domain, slot->window, &c->session->stock);
	return 0;
}

int ck_op_window_abandon(struct call *c)
{
	const struct capkm_window_abandon *a = c->arg;
	struct domain *d = c->domain;
	struct window *w = id_entry(ck_id_find(&d->windows, a->window),
				    struct window, node);

	if (!w)
		return -ENOENT;
	if (w->opener.session != c->session->id && c->who->uid != d->uid &&
	    !c->who->admin)
		return -EPERM;
	ck_window_abandon(d, w, &c->session->stock);
	return 0;
}
