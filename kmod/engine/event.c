// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Events: a ring of the last ones for each domain, from which its sessions read,
 * each at its own place; and waiting for a window to leave its slot. Everything
 * that wakes a waiter is an event, so that there is one queue to wait on.
 */
#include "internal.h"

#define EVENTS_MAX	65536u

struct event {
	struct host_proc *proc;		/* a reference, or NULL */
	struct capkm_event data;	/* but for size, lost and pid */
	u64 plain;			/* events so far that are not of failures */
};

static bool is_of_failures(u32 type)
{
	return type == CAPKM_EVENT_FAILURE_MINTED ||
	       type == CAPKM_EVENT_FAILURE_PRUNED;
}

int ck_events_init(struct domain *d)
{
	d->events_max = min(d->limit[CAPKM_LIMIT_EVENTS], (u64)EVENTS_MAX);
	if (!d->events_max)
		return 0;
	d->events = host_alloc(d->events_max * sizeof(*d->events));
	return d->events ? 0 : -ENOMEM;
}

void ck_events_free(struct domain *d)
{
	u32 i;

	for (i = 0; i < d->events_max && d->events; i++)
		if (d->events[i].proc)
			host_proc_put(d->events[i].proc);
	host_free(d->events);
	host_waitq_destroy(&d->waitq);
}

static void fill(struct capkm_event *data, const struct domain *d, u32 type,
		 const struct event_of *of)
{
	data->type = type;
	data->time_ns = host_time_ns();
	data->sequence = d->sequence;
	data->graph = of->graph;
	data->count = of->count;
	data->kind = of->kind;
	data->ledger = of->ledger;
	data->axis = of->axis;
	data->bound = of->bound;
	if (of->device)
		memcpy(data->device, of->device, sizeof(data->device));
	if (of->failure) {
		data->failure = of->failure->node.id;
		data->kind = of->failure->kind;
	}
	if (of->window)
		data->window = of->window->node.id;
	if (of->who) {
		data->session = of->who->session;
		data->stream = of->who->stream;
	}
}

/* For the sessions, over the oldest one. */
static void keep(struct domain *d, struct capkm_event *data,
		 struct host_proc *proc)
{
	struct event *e;

	data->number = ++d->events_total;
	if (!d->events_max)
		return;
	d->events_plain += !is_of_failures(data->type);
	e = &d->events[data->number % d->events_max];
	if (e->proc)
		host_proc_put(e->proc);
	e->proc = proc ? host_proc_get(proc) : NULL;
	e->data = *data;
	e->plain = d->events_plain;
}

/* @kept: sessions may read it, too. */
static void tell(struct domain *d, u32 type, const struct event_of *of,
		 bool kept)
{
	struct host_proc *proc = of->who ? of->who->proc : NULL;
	struct capkm_event data;

	host_assert_held(&d->lock);
	d->events_told++;
	if (!kept && !host_event_wanted())
		return;
	memset(&data, 0, sizeof(data));
	fill(&data, d, type, of);
	if (kept)
		keep(d, &data, proc);
	data.number = d->events_told;
	host_event(d->id, &data, proc);
}

void ck_event(struct domain *d, u32 type, const struct event_of *of)
{
	host_wake(&d->waitq);
	tell(d, type, of, true);
	ck_domain_publish(d);
}

void ck_event_window(struct domain *d, struct window *w, u32 type,
		     const struct failure *f)
{
	ck_event(d, type, &(struct event_of) {
		.who = &w->opener, .window = w, .failure = f,
		.device = w->device, .graph = w->graph,
	});
}

/*
 * Nobody reads them, as a rule, and there may be many: then they push no others out
 * of the ring.
 */
void ck_event_failure(struct domain *d, u32 type, const struct failure *f)
{
	const struct event_of of = { .who = &f->who, .failure = f };

	if (d->failure_readers)
		ck_event(d, type, &of);
	else
		tell(d, type, &of, false);
}

/* What was overwritten before the session read it is lost, if it would have. */
static void skip_overwritten(struct domain *d, struct capkm_session *s)
{
	const u64 oldest = d->events_total - d->events_max + 1;
	u64 plain = d->events_plain;
	const struct event *e;

	if (d->events_total - s->events_read <= d->events_max)
		return;
	if (d->events_max) {
		e = &d->events[oldest % d->events_max];
		plain = e->plain - !is_of_failures(e->data.type);
	}
	s->events_lost += s->wants_failures ? oldest - 1 - s->events_read :
					      plain - s->plain_read;
	s->events_read = oldest - 1;
	s->plain_read = plain;
}

u64 ck_events_unread(struct capkm_session *s, u64 *lost)
{
	const struct domain *d = s->domain;

	skip_overwritten(s->domain, s);
	*lost = s->events_lost;
	return s->wants_failures ? d->events_total - s->events_read :
				   d->events_plain - s->plain_read;
}

/* The next event for the session, or NULL. Moves it over those of others. */
static struct event *next_event(struct domain *d, struct capkm_session *s)
{
	struct event *e;

	skip_overwritten(d, s);
	for (; s->events_read < d->events_total; s->events_read++) {
		e = &d->events[(s->events_read + 1) % d->events_max];
		if (s->wants_failures || !is_of_failures(e->data.type))
			return e;
	}
	return NULL;
}

static int may_read(struct capkm_session *s, const struct capkm_caller *who)
{
	struct client *c = ck_session_client(s, who);

	if (!(s->rights & CAPKM_RIGHT_READ))
		return -EACCES;
	if (!c)
		return -EPERM;
	return c->dead ? -ECANCELED : 0;
}

static int next(struct domain *d, struct capkm_session *s,
		const struct capkm_caller *who, struct capkm_event *event)
{
	struct event *e;
	int err;

	if (d->dead)
		return 0;
	err = may_read(s, who);
	if (err)
		return err;
	e = next_event(d, s);
	if (!e)
		return -EAGAIN;
	*event = e->data;
	event->size = sizeof(*event);
	event->lost = s->events_lost;
	event->pid = e->proc ? host_proc_pid(e->proc) : 0;
	return 1;
}

int capkm_event_next(struct capkm_session *s, const struct capkm_caller *who,
		     bool wait, struct capkm_event *event)
{
	struct domain *d = READ_ONCE(s->domain);
	u64 forever = U64_MAX;
	int err;

	if (!d)
		return -ENOTCONN;
	host_lock(&d->lock);
	for (;;) {
		err = next(d, s, who, event);
		if (err != -EAGAIN || !wait)
			break;
		err = host_wait(&d->waitq, &d->lock, &forever);
		if (err)
			break;
	}
	host_unlock(&d->lock);
	return err;
}

void capkm_event_taken(struct capkm_session *s, const struct capkm_event *event)
{
	struct domain *d = READ_ONCE(s->domain);

	host_lock(&d->lock);
	if (event->number > s->events_read) {
		s->events_read = event->number;
		s->plain_read++;
		s->events_lost = 0;
	} else if (s->events_lost > event->lost) {
		/* Overwritten meanwhile, and counted: this one and those before. */
		s->events_lost -= event->lost + 1;
	}
	host_unlock(&d->lock);
}

u32 capkm_session_poll(struct capkm_session *s)
{
	struct domain *d = READ_ONCE(s->domain);
	u32 events = 0;

	if (!d)
		return CAPKM_POLL_ERR;
	host_lock(&d->lock);
	if (d->dead)
		events = CAPKM_POLL_IN | CAPKM_POLL_HUP;
	else if (s->rights & CAPKM_RIGHT_READ && next_event(d, s))
		events = CAPKM_POLL_IN;
	host_unlock(&d->lock);
	return events;
}

struct host_waitq *capkm_session_waitq(struct capkm_session *s)
{
	struct domain *d = READ_ONCE(s->domain);

	return d ? &d->waitq : NULL;
}

/* ---- WINDOW_WAIT ---- */

static int find(struct call *c, const struct capkm_window_wait *a,
		struct window **w)
{
	struct slot *slot;
	u32 index;
	int err;

	if (a->window) {
		if (!ck_place_empty(&a->place) || a->flags)
			return -EINVAL;
		*w = ck_window_find(c->domain, a->window);
		return *w ? 0 : -ENOENT;
	}
	if (!c->client)
		return -EPERM;
	if (c->client->dead)
		return -ECANCELED;
	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &index);
	*w = err || !slot ? NULL : slot->window;
	return err;
}

/* A fault of its device: nobody may be left who would close it. */
static bool is_lost(const struct window *w)
{
	return w->lost || (w->slot && w->slot->device->faulted);
}

static u32 kind_of(const struct window *w)
{
	if (w->refused)
		return w->refusal->kind;
	return is_lost(w) ? CAPKM_KIND_DEVICE_FAULT : CAPKM_KIND_NONE;
}

int ck_op_window_wait(struct call *c)
{
	struct capkm_window_wait *a = c->arg;
	struct domain *d = c->domain;
	u64 left = a->timeout_ns;
	struct window *w;
	int err;

	err = find(c, a, &w);
	if (err)
		return err;
	a->out_window = 0;
	a->out_state = CAPKM_WINDOW_NONE;
	a->out_kind = CAPKM_KIND_NONE;
	if (!w)
		return 0;
	/* It may be closed and forgotten in the meantime. */
	w->refs++;
	while (!err && w->slot && !is_lost(w))
		err = d->dead ? -ECANCELED :
				host_wait(&d->waitq, &d->lock, &left);
	a->timeout_ns = left;
	if (!w->slot || is_lost(w))
		err = d->dead ? -ECANCELED : 0;
	a->out_window = w->node.id;
	a->out_state = w->state;
	a->out_kind = kind_of(w);
	ck_window_put(w, &c->session->stock);
	return err;
}
