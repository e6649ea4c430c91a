// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sessions and their clients. A session is one open description of the device; a
 * client is a process image that uses it: its opener, and whoever joined. Slots,
 * scopes, windows and graphs belong to a client, buffers and streams to the
 * session.
 */
#include "internal.h"

static struct client *client_alloc(const struct capkm_caller *who)
{
	struct client *c = host_alloc(sizeof(*c));

	if (!c)
		return NULL;
	link_init(&c->sib);
	link_init(&c->scopes);
	link_init(&c->windows);
	link_init(&c->graphs);
	link_init(&c->devices);
	link_init(&c->dirty);
	ck_who_set(&c->who, who, 0, 0);
	c->image = who->image;
	c->since_ns = host_time_ns();
	return c;
}

static void client_add(struct capkm_session *s, struct client *c)
{
	c->session = s;
	c->who.session = s->id;
	link_add_tail(&c->sib, &s->clients);
	s->clients_n++;
	s->clients_all++;
	if (!s->domain)
		return;
	s->domain->clients_n++;
	s->domain->members_changed++;
	c->id = ++s->domain->next_client;
}

static void client_free(struct client *c)
{
	struct id_node *node;

	while ((node = ck_id_first(&c->slots)))
		ck_slot_free(container_of(node, struct slot, node));
	while (!link_empty(&c->devices))
		ck_device_free(link_first(&c->devices, struct client_device, sib));
	link_del(&c->sib);
	c->session->clients_all--;
	ck_who_put(&c->who);
	host_free(c);
}

int capkm_session_open(const struct capkm_caller *who,
		       struct capkm_session **out)
{
	struct capkm_session *s = host_alloc(sizeof(*s));
	struct client *c = s ? client_alloc(who) : NULL;

	if (!c) {
		host_free(s);
		return -ENOMEM;
	}
	host_mutex_init(&s->attach_lock);
	link_init(&s->sib);
	link_init(&s->clients);
	link_init(&s->streams);
	link_init(&s->ledgers);
	ck_stock_init(&s->stock);
	client_add(s, c);
	*out = s;
	return 0;
}

/* A piece of what it has; false if there is nothing left. */
static bool drop_some(struct capkm_session *s, struct domain *d)
{
	struct stream *stream;
	u32 n;

	for (n = 0; n < PIECE && !link_empty(&s->streams); n++) {
		stream = link_first(&s->streams, struct stream, sib);
		link_del(&stream->sib);
		ck_id_erase(&d->streams, &stream->node);
		host_free(stream);
	}
	return n || ck_session_drop_holds(s);
}

/*
 * Every client that is left ends, in one hold of the lock. Then the session gives back
 * what it holds, as if it closed its buffers one after the other: who comes in between
 * finds each of them either held or hidden.
 */
static void detach(struct capkm_session *s, struct domain *d)
{
	struct link *l;
	bool unlist;

	host_lock(&d->lock);
	s->leaving = true;
	link_for_each(l, &s->clients)
		ck_client_end(link_entry(l, struct client, sib));
	ck_ledgers_leave(s);
	while (drop_some(s, d))
		host_let_in(&d->lock);
	ck_bury(d);
	while (!link_empty(&s->clients))
		client_free(link_first(&s->clients, struct client, sib));
	d->failure_readers -= s->wants_failures;
	link_del(&s->sib);
	ck_id_erase(&d->session_ids, &s->node);
	d->sessions_n--;
	d->members_changed++;
	unlist = ck_domain_idle(d);
	host_unlock(&d->lock);
	if (unlist)
		ck_domain_unlist(d);
	ck_domain_put(d);
}

void capkm_session_release(struct capkm_session *s)
{
	if (s->domain)
		detach(s, s->domain);
	while (!link_empty(&s->clients))
		client_free(link_first(&s->clients, struct client, sib));
	ck_stock_free(&s->stock);
	ck_fast_free(s->fast);
	host_mutex_destroy(&s->attach_lock);
	host_free(s);
}

/*
 * Marks it dead and takes all that it had left open to its bad end, in one
 * tick and one hold of the lock: nobody sees a part of it.
 */
void ck_client_end(struct client *c)
{
	struct domain *d = c->session->domain;
	u64 tick, torn;

	if (c->dead)
		return;
	ck_fast_end(c->session, CAPKM_FAST_ENDED);
	c->dead = true;
	c->session->clients_n--;
	d->clients_n--;
	tick = ck_tick(d);
	torn = c->scopes_n;
	host_trace(client_leave, d, c);
	/* Each of these relaxes inside, with the lock held. */
	while (!link_empty(&c->windows))
		ck_window_orphan(d, link_first(&c->windows, struct window, sib),
				 NULL);
	while (!link_empty(&c->scopes))
		ck_scope_tear(d, link_first(&c->scopes, struct scope, sib),
			      tick, NULL);
	while (!link_empty(&c->graphs))
		torn += ck_graph_end(d, link_first(&c->graphs, struct graph,
						   sib), tick, NULL);
	ck_client_unconfirmed(c, tick);
	ck_event(d, CAPKM_EVENT_CLIENT_ENDED, &(struct event_of) {
		.who = &c->who, .count = torn,
	});
}

/* Of a session that has no domain there is nothing to take to an end. */
static bool end_unattached(struct capkm_session *s, struct host_proc *proc,
			   const void *image)
{
	struct client *c;
	struct link *l;
	bool attached;

	host_lock(&s->attach_lock);
	attached = s->domain;
	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (attached || c->dead || c->who.proc != proc ||
		    (image && c->image != image))
			continue;
		c->dead = true;
		s->clients_n--;
	}
	host_unlock(&s->attach_lock);
	return !attached;
}

void capkm_client_end(struct capkm_session *s, struct host_proc *proc,
		      const void *image)
{
	struct domain *d = READ_ONCE(s->domain);
	struct client *c;
	struct link *l;

	if (!d) {
		if (end_unattached(s, proc, image))
			return;
		d = READ_ONCE(s->domain);
	}
	host_lock(&d->lock);
	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (c->who.proc == proc && (!image || c->image == image))
			ck_client_end(c);
	}
	ck_bury(d);
	host_unlock(&d->lock);
}

struct client *ck_session_find_client(struct capkm_session *s,
				      const struct capkm_caller *who)
{
	struct client *c, *dead = NULL;
	struct link *l;

	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (ck_client_is(c, who)) {
			if (!c->dead)
				return c;
			dead = c;
		} else if (c->who.proc == who->proc) {
			ck_client_end(c);	/* replaced by an exec */
		}
	}
	return dead;
}

bool ck_session_opener(const struct capkm_session *s,
		       const struct capkm_caller *who)
{
	const struct client *c;
	const struct link *l;

	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (ck_client_is(c, who) && !c->dead)
			return true;
	}
	return false;
}

bool capkm_session_is_client(struct capkm_session *s,
			     const struct capkm_caller *who)
{
	struct domain *d = READ_ONCE(s->domain);
	struct host_mutex *lock = d ? &d->lock : &s->attach_lock;
	bool is;

	host_lock(lock);
	is = ck_session_opener(s, who);
	host_unlock(lock);
	return is;
}

struct client *ck_session_first_client(struct capkm_session *s)
{
	return link_first(&s->clients, struct client, sib);
}

/* ---- joining ---- */

static int share_need(struct call *c, struct client *first, struct need *need)
{
	struct capkm_session *s = c->session;
	struct id_node *node;
	struct buffer *b;
	int err;

	memset(need, 0, sizeof(*need));
	for (node = ck_id_first(&s->holds); node; node = ck_id_next(node)) {
		b = container_of(node, struct hold, node)->buffer;
		ck_fast_leave(b, CAPKM_FAST_SWEPT);
		ck_share_need(b, first, need);
		err = ck_domain_room(c, need->n[STOCK_CLAIM]);
		if (err)
			return err;
		host_relax();
	}
	return 0;
}

/* All its buffers are shared from now on, with their unconfirmed past. */
static int share_all(struct call *c)
{
	struct capkm_session *s = c->session;
	struct client *first = ck_session_first_client(s);
	struct id_node *node;
	struct need need;
	int err;

	do {
		ck_fast_stop(s, CAPKM_FAST_JOINED);
		err = share_need(c, first, &need);
		if (!err)
			err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	ck_fast_end(s, CAPKM_FAST_JOINED);
	ck_tick(c->domain);
	for (node = ck_id_first(&s->holds); node; node = ck_id_next(node)) {
		ck_share(container_of(node, struct hold, node)->buffer, first,
			 &s->stock);
		host_relax();
	}
	s->shared = true;
	return 0;
}

/* Who has ended leaves nothing that others need, once the session is shared. */
static void forget_dead(struct capkm_session *s)
{
	struct client *c;
	struct link *l, *n;

	link_for_each_safe(l, n, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (!c->dead || c->calls)
			continue;
		client_free(c);
		if (s->domain)
			s->domain->members_changed++;
	}
}

/* With the attach_lock, and that of the domain if there is one. */
static int join(struct call *c, struct client **spare)
{
	struct capkm_session *s = c->session;
	struct domain *d = s->domain;
	const u64 max = d ? d->limit[CAPKM_LIMIT_CLIENTS] :
			    ck_limit_default(CAPKM_LIMIT_CLIENTS);
	struct client *joined = *spare;
	int err;

	if (d && d->dead)
		return -ECANCELED;
	if (d)
		ck_session_client(s, c->who);	/* an exec is seen */
	if (ck_session_opener(s, c->who))
		return 0;
	if (s->clients_n >= max)
		return ck_limit_reached(c, CAPKM_LIMIT_CLIENTS);
	err = d && !s->shared ? share_all(c) : 0;
	if (err)
		return err;
	s->shared = true;
	forget_dead(s);
	*spare = NULL;
	client_add(s, joined);
	if (!d)
		return 0;
	ck_tick(d);
	host_trace(client_join, d, joined);
	ck_event(d, CAPKM_EVENT_CLIENT_JOINED, &(struct event_of) {
		.who = &joined->who,
	});
	return 0;
}

int ck_op_session_join(struct call *c)
{
	struct capkm_session_join *a = c->arg;
	struct capkm_session *s = c->session;
	struct client *spare = client_alloc(c->who);
	int err;

	if (!spare)
		return -ENOMEM;
	host_lock(&s->attach_lock);
	c->domain = s->domain;
	if (c->domain)
		host_lock(&c->domain->lock);
	err = join(c, &spare);
	if (c->domain) {
		a->out_domain = c->domain->id;
		ck_stock_trim(&s->stock);
		host_unlock(&c->domain->lock);
	} else {
		a->out_domain = 0;
	}
	a->out_session = s->id;
	a->out_rights = s->rights;
	a->out_backend = s->backend;
	a->out_max_streams = s->max_streams;
	host_unlock(&s->attach_lock);
	if (spare) {
		ck_who_put(&spare->who);
		host_free(spare);
	}
	return err;
}

/* ---- what is told of it ---- */

static void count_client(const struct client *c,
			 struct capkm_session_stats *stats)
{
	stats->scopes += c->scopes_n;
	stats->windows += c->windows_n;
	stats->graphs += c->graphs_n;
	stats->unconfirmed += c->unconfirmed_n;
}

void capkm_session_stats(struct capkm_session *s,
			 struct capkm_session_stats *stats)
{
	struct domain *d = READ_ONCE(s->domain);
	struct link *l;

	memset(stats, 0, sizeof(*stats));
	if (!d)
		return;
	host_lock(&d->lock);
	stats->domain = d->id;
	stats->session = s->id;
	stats->rights = s->rights;
	stats->clients = s->clients_n;
	stats->buffers = s->holds.count;
	stats->streams = s->streams_n;
	link_for_each(l, &s->clients)
		count_client(link_entry(l, struct client, sib), stats);
	stats->scopes += ck_fast_open(s, NULL);
	host_unlock(&d->lock);
}

static u32 faulted(const struct client *c)
{
	const struct link *l;
	u32 n = 0;

	link_for_each(l, &c->devices)
		n += link_entry(l, struct client_device, sib)->faulted;
	return n;
}

void ck_client_fill(const struct client *c, struct capkm_client_view *v)
{
	v->client = c->id;
	v->session = c->session->id;
	v->pid = host_proc_pid(c->who.proc);
	v->uid = host_uid_view(c->who.uid);
	memcpy(v->comm, c->who.comm, sizeof(v->comm));
	v->ended = c->dead;
	v->since_ns = c->since_ns;
	v->scopes = c->scopes_n +
		    (c->dead ? 0 : ck_fast_open(c->session, NULL));
	v->windows = c->windows_n;
	v->recording = c->recording_n;
	v->graphs = c->graphs_n;
	v->devices = c->devices_n;
	v->faulted = faulted(c);
	v->unconfirmed = c->unconfirmed_n;
}

void ck_session_fill(struct capkm_session *s, struct capkm_session_view *v)
{
	const struct client *first = ck_session_first_client(s);
	struct capkm_session_stats stats = {};
	struct link *l;

	link_for_each(l, &s->clients)
		count_client(link_entry(l, struct client, sib), &stats);
	v->session = s->id;
	v->rights = s->rights;
	v->backend = s->backend;
	v->max_streams = s->max_streams;
	v->shared = s->shared;
	v->clients = s->clients_n;
	v->pid = host_proc_pid(first->who.proc);
	v->uid = host_uid_view(first->who.uid);
	memcpy(v->comm, first->who.comm, sizeof(v->comm));
	v->attached_ns = s->attached_ns;
	v->buffers = s->holds.count;
	v->streams = s->streams_n;
	v->scopes = stats.scopes + ck_fast_open(s, NULL);
	v->windows = stats.windows;
	v->graphs = stats.graphs;
	v->unconfirmed = stats.unconfirmed;
	v->events_unread = ck_events_unread(s, &v->events_lost);
	v->entered = s->entered + ck_fast_entered(s);
	v->skipped = s->skipped;
	v->failed = s->failed;
}
