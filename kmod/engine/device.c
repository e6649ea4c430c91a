// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A client's contexts on devices: which of its work is finished, and what becomes
 * of the rest when a context is lost or the client ends. The failure that the
 * rest would carry is bought before work can enter, and tags the unconfirmed
 * claims from their start (it is latent), so that nothing is bought or looked up
 * when it happens.
 */
#include "internal.h"

struct client_device *ck_device_find(const struct client *c, const u8 *uuid)
{
	const struct link *l;
	struct client_device *dev;

	link_for_each(l, &c->devices) {
		dev = link_entry(l, struct client_device, sib);
		if (!memcmp(dev->uuid, uuid, sizeof(dev->uuid)))
			return dev;
	}
	return NULL;
}

static void device_init(struct client_device *dev, struct client *c, const u8 *uuid)
{
	memcpy(dev->uuid, uuid, sizeof(dev->uuid));
	dev->client = c;
	dev->index = c->devices_n++;
	link_add_tail(&dev->sib, &c->devices);
}

static int add_device(struct call *call, const u8 *uuid)
{
	struct client *c = call->client;
	struct client_device *dev;
	int err;

	dev = ck_call_alloc(call, sizeof(*dev), &err);
	if (!dev)
		return err;
	if (ck_device_find(c, uuid)) {
		host_free(dev);
		return 1;
	}
	err = ck_limit(call, call->domain, CAPKM_LIMIT_DEVICES, c->devices_n);
	if (err) {
		host_free(dev);
		return err;
	}
	device_init(dev, c, uuid);
	return 1;
}

static const struct need latent_need = {
	.n[STOCK_FAILURE] = 1,
	.n[STOCK_NOTE] = 1,
};

static void provide_latent(struct client_device *dev, struct stock *st)
{
	dev->latent = ck_failure_latent(st);
	if (!dev->note)
		dev->note = ck_stock_take(st, STOCK_NOTE);
}

int ck_device_get(struct call *call, const u8 *uuid, struct client_device **out)
{
	struct client_device *dev = ck_device_find(call->client, uuid);
	int err;

	if (!dev)
		return add_device(call, uuid);
	*out = dev;
	if (dev->latent)
		return 0;
	err = ck_call_buy(call, &latent_need);
	if (!err)
		provide_latent(dev, &call->session->stock);
	return err;
}

void ck_device_free(struct client_device *dev)
{
	if (dev->latent)
		ck_failure_unpin(dev->latent, NULL);
	if (dev->fault)
		ck_failure_unpin(dev->fault, NULL);
	host_free(dev->note);
	link_del(&dev->sib);
	host_free(dev);
}

struct failure *ck_device_failed(const struct client_device *dev, u64 epoch)
{
	return dev->epoch != epoch ? dev->fault : NULL;
}

/* ---- what is not confirmed ---- */

void ck_slot_dirtied(struct slot *slot, u64 tick)
{
	if (!slot->since)
		ck_fast_fold_slot(slot);
	if (!slot->since) {
		slot->since = tick;
		link_add_tail(&slot->dirty, &slot->client->dirty);
	}
	slot->last = tick;
}

static void all_confirmed(struct slot *slot)
{
	slot->since = 0;
	slot->settled = slot->last;
	link_del(&slot->dirty);
	ck_slot_publish(slot);
}

static u64 dirty_tick(const struct buffer *b)
{
	const struct link *l;
	const struct use *use;
	u64 tick = b->dirty;

	link_for_each(l, &b->uses) {
		use = link_entry(l, struct use, sib);
		if (use->graph && use->writes.count + use->seen.count)
			tick = max(tick, use->graph->dirty);
	}
	return tick;
}

/* The first in the list is the one with the lowest since. */
struct slot *ck_buffer_dirty_slot(const struct buffer *b,
				  const struct client *c)
{
	struct slot *slot;

	if (b->shared || link_empty(&c->dirty))
		return NULL;
	slot = link_first(&c->dirty, struct slot, dirty);
	return slot->since <= dirty_tick(b) ? slot : NULL;
}

/* The lowest since of the device's slots, U64_MAX if all is confirmed. */
static u64 device_since(const struct client_device *dev)
{
	const struct link *l;
	const struct slot *slot;

	link_for_each(l, &dev->client->dirty) {
		slot = link_entry(l, struct slot, dirty);
		if (slot->device == dev)
			return slot->since;
	}
	return U64_MAX;
}

/* What each slot that has unconfirmed work may have written of the buffer. */
void ck_share_need(const struct buffer *b, struct client *c,
		   struct need *need)
{
	const u64 tick = dirty_tick(b);
	const struct link *l;

	if (b->shared)
		return;
	link_for_each(l, &c->dirty) {
		if (link_entry(l, struct slot, dirty)->since > tick)
			return;
		need->n[STOCK_CLAIM]++;
		need->n[STOCK_CARRIER]++;
	}
}

void ck_share(struct buffer *b, struct client *c, struct stock *st)
{
	const struct target all = { .buffer = b, .end = b->size };
	const u64 tick = dirty_tick(b);
	const struct link *l;
	struct slot *slot;

	if (b->shared)
		return;
	link_for_each(l, &c->dirty) {
		slot = link_entry(l, struct slot, dirty);
		if (slot->since > tick)
			break;
		ck_taint_add_unconfirmed(&all, slot, st);
	}
	ck_buffer_set_shared(b, st);
}

/* It moves to its place in the list, which is in this order. */
static void set_since(struct slot *slot, u64 since)
{
	struct link *head = &slot->client->dirty, *at;

	slot->since = since;
	link_del(&slot->dirty);
	for (at = head; at->prev != head; at = at->prev)
		if (link_entry(at->prev, struct slot, dirty)->since <= since)
			break;
	link_add_tail(&slot->dirty, at);
}

void ck_slot_dirtied_since(struct slot *slot, u64 first, u64 last)
{
	if (!slot->since)
		set_since(slot, first);
	slot->last = max(slot->last, last);
}

static void confirm(struct slot *slot, u64 sequence, struct stock *st)
{
	ck_taint_confirm(slot, sequence, false, st);
	slot->confirmed = max(slot->confirmed, min(sequence, slot->sequence));
	if (!slot->since)
		return;
	slot->client->confirms++;
	if (sequence >= slot->last)
		all_confirmed(slot);
	else if (sequence >= slot->since)
		set_since(slot, sequence + 1);
}

/* The first slot of the device that is not below @at in the client's map. */
static struct slot *next_slot(const struct client_device *dev, struct id_node *at)
{
	struct slot *slot = id_entry(at, struct slot, node);

	return slot && slot->device == dev ? slot : NULL;
}

static struct slot *first_slot(const struct client_device *dev)
{
	return next_slot(dev, ck_id_from(&dev->client->slots,
					 (u64)dev->index << 32));
}

#define for_each_slot(slot, dev)					\
	for ((slot) = first_slot(dev); (slot);				\
	     (slot) = next_slot(dev, ck_id_next(&(slot)->node)))

static int confirm_device(struct call *c, struct capkm_stream_confirm *a)
{
	const struct client_device *dev = ck_device_find(c->client, a->place.device);
	struct slot *slot;
	int err;

	err = ck_stream_check(c->session, a->place.stream);
	if (err)
		return err;
	if (a->sequence > c->domain->sequence || a->flags & CAPKM_PLACE_F_SLOT)
		return -EINVAL;
	ck_tick(c->domain);
	a->out_unconfirmed = 0;
	if (!dev)
		return 0;
	for_each_slot(slot, dev) {
		confirm(slot, a->sequence, &c->session->stock);
		a->out_unconfirmed += slot->unconfirmed_n;
	}
	return 0;
}

static struct client *living_client(const struct domain *d, u64 id)
{
	const struct link *l, *m;
	struct client *c;

	link_for_each(l, &d->sessions)
		link_for_each(m, &link_entry(l, struct capkm_session, sib)->clients) {
			c = link_entry(m, struct client, sib);
			if (c->id == id && !c->dead)
				return c;
		}
	return NULL;
}

/*
 * Somebody else has seen that the work is finished. He may say so of buffers that he
 * could open, of which he could also say that they are written well (WRITTEN), and of
 * nothing else: what is private, and up to where the slot is confirmed, stays its
 * client's own.
 */
static int confirm_other(struct call *c, struct capkm_stream_confirm *a)
{
	struct client *other = living_client(c->domain, a->client);
	struct slot *slot;
	int err;

	err = ck_stream_check(c->session, a->place.stream);
	if (err)
		return err;
	if (!other)
		return -ENOENT;
	if (a->flags != CAPKM_PLACE_F_SLOT)
		return -EINVAL;
	ck_fast_fold(other->session);
	slot = ck_slot_at(other, a->place.device, a->place.slot);
	if (a->sequence > (slot ? slot->sequence : 0))
		return -EINVAL;
	ck_tick(c->domain);
	if (slot)
		ck_taint_confirm(slot, a->sequence, true, &c->session->stock);
	a->out_unconfirmed = slot ? slot->unconfirmed_n : 0;
	return 0;
}

int ck_op_stream_confirm(struct call *c)
{
	struct capkm_stream_confirm *a = c->arg;
	struct slot *slot;
	u32 index;
	int err;

	if (a->client && a->client != c->client->id)
		return confirm_other(c, a);
	if (a->flags & CAPKM_STREAM_CONFIRM_F_DEVICE)
		return confirm_device(c, a);
	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &index);
	if (err)
		return err;
	if (a->sequence > (slot ? slot->sequence : 0))
		return -EINVAL;
	ck_tick(c->domain);
	if (slot)
		confirm(slot, a->sequence, &c->session->stock);
	a->out_unconfirmed = slot ? slot->unconfirmed_n : 0;
	return 0;
}

/* ---- what is lost ---- */

static bool is_on(const struct buffer *b, const struct client_device *dev)
{
	return !memcmp(b->device, dev->uuid, sizeof(dev->uuid));
}

/* @all: those on the device, whether they are confirmed or not. */
static void taint_private(struct client_device *dev, struct failure *f, bool all,
			  u64 tick)
{
	const u64 since = device_since(dev);
	struct client *c = dev->client;
	struct id_node *node;
	struct buffer *b;
	u32 n = 0;

	for (node = ck_id_first(&c->session->holds); node;
	     node = ck_id_next(node)) {
		b = container_of(node, struct hold, node)->buffer;
		if (!(++n % 256))
			host_relax();
		ck_fast_leave(b, CAPKM_FAST_SWEPT);
		if (!b->shared &&
		    ((all && is_on(b, dev)) || since <= dirty_tick(b))) {
			ck_taint_whole(b, f, tick);
			/* At the client's end its other devices add nothing. */
			if (!all)
				b->dirty = 0;
		}
	}
}

/*
 * The device's latent failure has happened: what its slots have not confirmed
 * carries it. Takes it from the device, with its pin.
 */
static struct failure *lose(struct domain *d, struct client_device *dev, u32 kind,
			    s32 code, bool all, u64 tick)
{
	struct failure *f = dev->latent;
	struct slot *slot;

	dev->latent = NULL;
	ck_failure_date(d, f, kind, code);
	ck_who_copy(&f->who, &dev->client->who);
	if (!dev->client->session->leaving && !d->dead)
		taint_private(dev, f, all, tick);
	for_each_slot(slot, dev) {
		ck_taint_unconfirmed_failed(slot);
		if (slot->since)
			all_confirmed(slot);
	}
	ck_failure_happened(d, f);
	return f;
}

void ck_client_unconfirmed(struct client *c, u64 tick)
{
	struct domain *d = c->session->domain;
	struct client_device *dev;
	struct link *l;

	link_for_each(l, &c->devices) {
		dev = link_entry(l, struct client_device, sib);
		if (dev->latent)
			ck_failure_unpin(lose(d, dev, CAPKM_KIND_UNCONFIRMED,
					      0, false, tick), NULL);
		d->faulted_n -= dev->faulted;
		dev->faulted = false;
	}
}

static bool has_member_on(const struct window *w, const struct client_device *dev)
{
	const struct link *l;

	link_for_each(l, &w->members)
		if (link_entry(l, struct slot, member_sib)->device == dev)
			return true;
	return false;
}

static void doom_windows(struct client_device *dev, struct failure *f,
			 struct stock *back)
{
	struct window *w;
	struct link *l;

	link_for_each(l, &dev->client->windows) {
		w = link_entry(l, struct window, sib);
		if (w->state != CAPKM_WINDOW_PREPARE &&
		    (!memcmp(w->device, dev->uuid, sizeof(w->device)) ||
		     has_member_on(w, dev))) {
			w->lost = true;
			ck_window_doom(w, f, back);
		}
	}
}

struct fault_text {
	const struct capkm_caller *who;
	u64 session, stream;
	s32 code;
	const struct array *text;
};

static void fault(struct domain *d, struct client_device *dev,
		  const struct fault_text *t, struct stock *back)
{
	static const char fallback[] = "the client's context on the device is lost";
	struct failure *f = dev->latent;
	u64 tick;

	ck_fast_stop(dev->client->session, CAPKM_FAST_FAULT);
	tick = ck_tick(d);

	ck_failure_text(f, t->text->len ? t->text->data : fallback,
			t->text->len ? t->text->len : sizeof(fallback) - 1);
	lose(d, dev, CAPKM_KIND_DEVICE_FAULT, t->code, true, tick);
	/* Who noticed; the client itself is in the event. */
	ck_who_set(&f->who, t->who, t->session, t->stream);
	dev->epoch++;
	dev->faulted = true;
	d->faulted_n += !dev->client->dead;
	if (dev->fault)
		ck_failure_unpin(dev->fault, back);
	dev->fault = f;
	doom_windows(dev, f, back);
	ck_event(d, CAPKM_EVENT_DEVICE_FAULTED, &(struct event_of) {
		.who = &dev->client->who, .failure = f, .device = dev->uuid,
	});
}

/* A slot that has been used has all that a fault needs. */
static int find_slot(struct call *c, const struct capkm_stream_fault *a,
		     struct slot **slot)
{
	u32 index;
	int err;

	err = ck_slot_find(c->client, &a->place, a->flags, slot, &index);
	if (err || (*slot && ((*slot)->device->faulted ||
			      (*slot)->device->latent)))
		return err;
	return ck_slot_get(c, &a->place, a->flags, slot);
}

int ck_op_stream_fault(struct call *c)
{
	struct capkm_stream_fault *a = c->arg;
	struct stock *back = &c->session->stock;
	struct fault_text t = {
		.who = c->who, .session = c->session->id,
		.stream = a->place.stream, .code = a->code,
		.text = &c->array[0],
	};
	struct client_device *dev;
	struct note *note;
	struct slot *slot;
	int err;

	do {
		err = find_slot(c, a, &slot);
	} while (err == 1);
	if (err)
		return err;
	dev = slot->device;
	if (!dev->faulted) {
		note = dev->note;
		dev->note = NULL;
		fault(c->domain, dev, &t, back);
		ck_note(slot, note, dev->fault, 0, true, back);
	}
	a->out_failure = dev->fault->node.id;
	a->out_epoch = dev->epoch;
	return 0;
}

int ck_op_context_renew(struct call *c)
{
	struct capkm_context_renew *a = c->arg;
	struct client_device *dev;
	int err;

	do {
		if (!ck_device_find(c->client, a->device))
			return -ENOENT;
		/* With what the next fault needs. */
		err = ck_device_get(c, a->device, &dev);
	} while (err == 1);
	if (err)
		return err;
	if (dev->faulted) {
		ck_tick(c->domain);
		dev->faulted = false;
		c->domain->faulted_n--;
		ck_event(c->domain, CAPKM_EVENT_CONTEXT_RENEWED,
			 &(struct event_of) {
			.who = &c->client->who, .device = dev->uuid,
		});
	}
	a->out_epoch = dev->epoch;
	return 0;
}

/* ---- a fault of the device itself, for all domains ---- */

static bool holds_private_on(const struct capkm_session *s, const u8 *uuid)
{
	const struct buffer *b;
	struct id_node *node;
	u32 n = 0;

	for (node = ck_id_first(&s->holds); node; node = ck_id_next(node)) {
		if (!(++n % 1024))
			host_relax();
		b = container_of(node, struct hold, node)->buffer;
		if (!b->shared && !memcmp(b->device, uuid, sizeof(b->device)))
			return true;
	}
	return false;
}

/* A dead client stands for a session that has no other and lives on. */
static bool is_concerned(const struct client *c, const u8 *uuid)
{
	if (c->dead && (c->session->clients_n || c->session->leaving))
		return false;
	return ck_device_find(c, uuid) || holds_private_on(c->session, uuid);
}

/* The first at or behind the place: in order of (session, client). */
static struct client *client_from(const struct domain *d, u64 session, u64 id)
{
	struct capkm_session *s = ck_session_from(d, session);
	const struct link *l, *k;
	struct client *c;

	if (!s)
		return NULL;
	for (l = &s->sib; l != &d->sessions; l = l->next) {
		s = link_entry(l, struct capkm_session, sib);
		link_for_each(k, &s->clients) {
			c = link_entry(k, struct client, sib);
			if (s->id > session || c->id >= id)
				return c;
		}
	}
	return NULL;
}

static bool has_to_be_told(const struct client *c, const u8 *uuid)
{
	const struct client_device *dev = ck_device_find(c, uuid);

	return is_concerned(c, uuid) && !(dev && dev->faulted);
}

/*
 * What a fault of the client needs, for which the lock may be dropped. 0: *@out has it;
 * NULL if the client is not concerned any more.
 */
static int prepare(struct domain *d, struct client *c, const u8 *uuid,
		   struct client_device **out)
{
	const u64 session = c->session->id, id = c->id;
	struct client_device *spare;
	struct stock stock;
	int err;

	*out = ck_device_find(c, uuid);
	if (*out && (*out)->latent)
		return 0;
	ck_stock_init(&stock);
	host_unlock(&d->lock);
	spare = host_alloc(sizeof(*spare));
	err = spare ? ck_stock_buy(&stock, &latent_need) : -ENOMEM;
	host_lock(&d->lock);
	*out = NULL;
	c = err || d->dead ? NULL : client_from(d, session, id);
	if (c && c->id == id && has_to_be_told(c, uuid)) {
		*out = ck_device_find(c, uuid);
		if (!*out) {
			*out = spare;
			spare = NULL;
			device_init(*out, c, uuid);
		}
		if (!(*out)->latent)
			provide_latent(*out, &stock);
	}
	host_free(spare);
	ck_stock_free(&stock);
	return err;
}

/*
 * One client after the other, each in a hold of the lock of its own. Who comes later
 * than @last has begun after the fault: an administrator does not run after sessions
 * that keep coming. Whoever lacks memory is not told, but all others are.
 */
static int fault_domain(struct domain *d, const u8 *uuid,
			const struct fault_text *t, u32 *n)
{
	u64 session = 0, id = 0, last, last_session = 0;
	struct client_device *dev;
	struct client *c;
	int err, first = 0;

	host_lock(&d->lock);
	last = d->next_client;
	if (!link_empty(&d->sessions))
		last_session = link_entry(d->sessions.prev,
					  struct capkm_session, sib)->id;
	while (!d->dead && !host_killed() && (c = client_from(d, session, id)) &&
	       c->session->id <= last_session) {
		session = c->session->id + (c->id > last);
		id = c->id > last ? 0 : c->id + 1;
		if (c->id <= last && has_to_be_told(c, uuid)) {
			err = prepare(d, c, uuid, &dev);
			if (dev) {
				fault(d, dev, t, NULL);
				++*n;
			}
			first = first ? first : err;
		}
		host_let_in(&d->lock);
	}
	host_unlock(&d->lock);
	return first;
}

int capkm_device_fault(struct capkm_device_fault *a, const char *text,
		       const struct capkm_caller *who)
{
	static const u8 host[16];
	const struct array array = {
		.data = (void *)text, .len = a->text_len,
	};
	const struct fault_text t = {
		.who = who, .code = a->code, .text = &array,
	};
	struct domain *d;
	u64 id = 0, last;
	int err, first = 0;

	if (!who->admin)
		return -EPERM;
	if (!memcmp(a->device, host, sizeof(host)))
		return -EINVAL;
	a->out_clients = 0;
	last = ck_domain_last();
	while (!host_killed() && (d = ck_domain_next(id, last))) {
		id = d->id + 1;
		err = fault_domain(d, a->device, &t, &a->out_clients);
		first = first ? first : err;
		ck_domain_put(d);
	}
	return host_killed() ? -EINTR : first;
}

int ck_op_device_fault(struct call *c)
{
	int err = capkm_device_fault(c->arg, c->array[0].data, c->who);

	/* Some clients were told: how many. */
	c->say_error = err == -ENOMEM;
	return err;
}
