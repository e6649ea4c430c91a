// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sessions, their clients, and what a client owns: slots, scopes, windows,
 * graphs. A session is one open description of the device; a client is a
 * process image that uses it.
 */
#include "internal.h"

static struct client *client_new(struct capkm_session *s,
				 const struct capkm_caller *who)
{
	struct client *c = host_alloc(sizeof(*c));

	if (!c)
		return NULL;
	c->session = s;
	ck_who_set(&c->who, who, s->id, 0);
	c->image = who->image;
	link_init(&c->scopes);
	link_init(&c->windows);
	link_init(&c->graphs);
	link_add_tail(&c->sib, &s->clients);
	return c;
}

static void client_free(struct client *c)
{
	struct id_node *node;

	while ((node = ck_id_first(&c->slots))) {
		ck_id_erase(&c->slots, node);
		host_free(container_of(node, struct slot, node));
	}
	link_del(&c->sib);
	ck_who_put(&c->who);
	host_free(c);
}

int capkm_session_open(const struct capkm_caller *who,
		       struct capkm_session **out)
{
	struct capkm_session *s = host_alloc(sizeof(*s));

	if (!s)
		return -ENOMEM;
	host_mutex_init(&s->attach_lock);
	link_init(&s->sib);
	link_init(&s->clients);
	link_init(&s->streams);
	ck_stock_init(&s->stock);
	if (!client_new(s, who)) {
		host_free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

/* Every client that is left ends, then the session gives back what it holds. */
static void detach(struct capkm_session *s, struct domain *d)
{
	struct stream *stream;
	struct link *l;
	bool unlist;

	host_lock(&d->lock);
	link_for_each(l, &s->clients)
		ck_client_end(link_entry(l, struct client, sib));
	ck_session_drop_holds(s);
	while (!link_empty(&s->streams)) {
		stream = link_first(&s->streams, struct stream, sib);
		link_del(&stream->sib);
		ck_id_erase(&d->streams, &stream->node);
		host_free(stream);
	}
	link_del(&s->sib);
	d->sessions_n--;
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
	host_free(s);
}

/*
 * Marks it dead and takes all that it had left open to its bad end, in one
 * tick and one hold of the lock: nobody sees a part of it.
 */
void ck_client_end(struct client *c)
{
	struct domain *d = c->session->domain;
	u64 tick;

	if (c->dead)
		return;
	c->dead = true;
	tick = ck_tick(d);
	/* Each of these relaxes inside, with the lock held. */
	while (!link_empty(&c->windows))
		ck_window_orphan(d, link_first(&c->windows, struct window, sib),
				 NULL);
	while (!link_empty(&c->scopes))
		ck_scope_tear(d, link_first(&c->scopes, struct scope, sib),
			      tick, NULL);
	while (!link_empty(&c->graphs))
		ck_graph_end(d, link_first(&c->graphs, struct graph, sib),
			     tick, NULL);
}

void capkm_client_end(struct capkm_session *s, struct host_proc *proc,
		      const void *image)
{
	struct domain *d = READ_ONCE(s->domain);
	struct client *c;
	struct link *l;

	if (!d)
		return;
	host_lock(&d->lock);
	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (c->who.proc == proc && c->image != image)
			ck_client_end(c);
	}
	host_unlock(&d->lock);
}

struct client *ck_session_client(struct capkm_session *s,
				 const struct capkm_caller *who)
{
	struct client *c;
	struct link *l;

	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (c->who.proc != who->proc)
			continue;
		if (c->image == who->image)
			return c;
		ck_client_end(c);	/* it was replaced by an exec */
	}
	return NULL;
}

bool ck_session_opener(const struct capkm_session *s,
		       const struct capkm_caller *who)
{
	const struct client *c;
	const struct link *l;

	link_for_each(l, &s->clients) {
		c = link_entry(l, struct client, sib);
		if (c->who.proc == who->proc && c->image == who->image)
			return true;
	}
	return false;
}

/* The client's number of a device; DEVICES_MAX if it has not used it. */
static u32 device_find(const struct client *c, const u8 *device)
{
	u32 i;

	for (i = 0; i < c->devices_n; i++)
		if (!memcmp(c->devices[i], device, sizeof(c->devices[i])))
			return i;
	return DEVICES_MAX;
}

int ck_stream_check(struct capkm_session *s, u64 id)
{
	struct stream *stream;

	if (id < CAPKM_STREAM_FIRST)
		return 0;
	stream = id_entry(ck_id_find(&s->domain->streams, id), struct stream,
			  node);
	if (!stream)
		return -ENOENT;
	return stream->session == s ? 0 : -EPERM;
}

int ck_slot_find(struct client *c, const struct capkm_place *place, u32 flags,
		 struct slot **out, u32 *index)
{
	u32 streams = c->session->max_streams;
	u32 device = device_find(c, place->device);
	int err = ck_stream_check(c->session, place->stream);

	if (err)
		return err;
	if (!(flags & CAPKM_PLACE_F_SLOT))
		*index = place->stream % streams;
	else if (place->slot < streams)
		*index = place->slot;
	else
		return -EINVAL;
	*out = device == DEVICES_MAX ? NULL :
		id_entry(ck_id_find(&c->slots, (u64)device << 32 | *index),
			 struct slot, node);
	return 0;
}

static int slot_add(struct client *c, struct slot *slot, const u8 *device,
		    u32 index)
{
	u32 i = device_find(c, device);

	if (i == DEVICES_MAX) {
		if (c->devices_n == DEVICES_MAX)
			return -EDQUOT;
		i = c->devices_n++;
		memcpy(c->devices[i], device, sizeof(c->devices[i]));
	}
	slot->node.id = (u64)i << 32 | index;
	slot->client = c;
	slot->index = index;
	memcpy(slot->device, device, sizeof(slot->device));
	ck_id_insert(&c->slots, &slot->node);
	return 0;
}

/*
 * The slot of @place, made on first use: 0, or 1 if the lock was dropped for
 * that and everything must be looked at again. An unused slot says nothing to
 * anybody, so it stays also when the call then fails.
 */
int ck_slot_get(struct call *call, const struct capkm_place *place, u32 flags,
		struct slot **out)
{
	struct slot *spare;
	u32 index;
	int err;

	err = ck_slot_find(call->client, place, flags, out, &index);
	if (err || *out)
		return err;
	spare = ck_call_alloc(call, sizeof(*spare), &err);
	if (!spare)
		return err;
	err = ck_slot_find(call->client, place, flags, out, &index);
	if (!err && !*out)
		err = slot_add(call->client, spare, place->device, index);
	else
		host_free(spare);
	return err ? err : 1;
}

int ck_op_stream_create(struct call *c)
{
	struct capkm_stream_create *a = c->arg;
	struct domain *d = c->domain;
	struct stream *stream;
	int err;

	stream = ck_call_alloc(c, sizeof(*stream), &err);
	if (!stream)
		return err;
	if (c->session->streams_n >= STREAMS_MAX) {
		host_free(stream);
		return -EDQUOT;
	}
	c->session->streams_n++;
	stream->node.id = d->next_stream++;
	stream->session = c->session;
	memcpy(stream->label, c->array[0].data, c->array[0].len);
	ck_tick(d);
	ck_id_insert(&d->streams, &stream->node);
	link_add_tail(&stream->sib, &c->session->streams);
	a->out_stream = stream->node.id;
	return 0;
}

int ck_op_stream_query(struct call *c)
{
	struct capkm_stream_query *a = c->arg;
	struct slot *slot;
	int err;

	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &a->out_slot);
	if (err)
		return err;
	a->out_state = CAPKM_WINDOW_NONE;
	a->out_window = 0;
	a->out_owner = 0;
	a->out_scopes = slot ? slot->scopes : 0;
	a->out_sequence = slot ? slot->sequence : 0;
	if (slot && slot->window) {
		a->out_state = slot->window->state;
		a->out_window = slot->window->node.id;
		a->out_owner = slot->window->opener.stream;
	}
	return 0;
}
