// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Logical streams, and the slots (pooled streams) of a client that they run on. */
#include "internal.h"

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

struct slot *ck_slot_at(struct client *c, const u8 *uuid, u32 index)
{
	const struct slot *recent = c->recent;
	const struct client_device *dev;

	if (recent && recent->index == index &&
	    !memcmp(recent->device->uuid, uuid, sizeof(recent->device->uuid)))
		return c->recent;
	dev = ck_device_find(c, uuid);
	c->recent = dev ? id_entry(ck_id_find(&c->slots,
					      (u64)dev->index << 32 | index),
				   struct slot, node) : NULL;
	return c->recent;
}

int ck_slot_find(struct client *c, const struct capkm_place *place, u32 flags,
		 struct slot **out, u32 *index)
{
	u32 streams = c->session->max_streams;
	int err = ck_stream_check(c->session, place->stream);

	if (err)
		return err;
	if (!(flags & CAPKM_PLACE_F_SLOT))
		*index = place->stream % streams;
	else if (place->slot < streams)
		*index = place->slot;
	else
		return -EINVAL;
	*out = ck_slot_at(c, place->device, *index);
	return 0;
}

bool ck_place_empty(const struct capkm_place *place)
{
	static const struct capkm_place empty;

	return !memcmp(place, &empty, sizeof(empty));
}

static void slot_init(struct slot *slot, struct client_device *dev, u32 index)
{
	slot->node.id = (u64)dev->index << 32 | index;
	slot->client = dev->client;
	slot->device = dev;
	slot->index = index;
	link_init(&slot->member_sib);
	link_init(&slot->unconfirmed);
	link_init(&slot->dirty);
	link_init(&slot->notes);
	link_init(&slot->shared);
	ck_id_insert(&dev->client->slots, &slot->node);
}

void ck_slot_free(struct slot *slot)
{
	ck_notes_free(slot);
	slot->client->recent = NULL;
	ck_id_erase(&slot->client->slots, &slot->node);
	host_free(slot);
}

/*
 * The slot of @place, made on first use, with what its device must have before
 * work can enter: 0, or 1 if the lock was dropped for that and everything must
 * be looked at again. An unused slot says nothing to anybody, so it stays also
 * when the call then fails.
 */
int ck_slot_get(struct call *call, const struct capkm_place *place, u32 flags,
		struct slot **out)
{
	struct client_device *dev;
	struct slot *spare;
	u32 index;
	int err;

	err = ck_slot_find(call->client, place, flags, out, &index);
	if (!err && likely(*out && (*out)->device->latent))
		return 0;
	if (!err)
		err = ck_device_get(call, place->device, &dev);
	if (err || *out)
		return err;
	spare = ck_call_alloc(call, sizeof(*spare), &err);
	if (!spare)
		return err;
	err = ck_slot_find(call->client, place, flags, out, &index);
	if (!err && !*out)
		slot_init(spare, dev, index);
	else
		host_free(spare);
	return err ? err : 1;
}

struct window *ck_slot_window(const struct slot *slot, u32 *state)
{
	struct window *w = slot ? slot->window : NULL;

	if (w) {
		*state = w->state;
	} else if (slot && slot->member) {
		w = slot->member;
		*state = CAPKM_WINDOW_MEMBER;
	} else {
		*state = CAPKM_WINDOW_NONE;
	}
	return w;
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
	err = ck_limit(c, d, CAPKM_LIMIT_STREAMS, c->session->streams_n);
	if (err) {
		host_free(stream);
		return err;
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

static void fill_device(const struct slot *slot, const struct client_device *dev,
			struct capkm_stream_query *a)
{
	a->out_failure = dev->faulted ? dev->fault->node.id : 0;
	a->out_epoch = dev->epoch;
	if (!slot)
		return;
	a->out_scopes = slot->scopes + ck_fast_open(slot->client->session, slot);
	a->out_sequence = slot->sequence;
	a->out_confirmed = slot->confirmed;
	a->out_unconfirmed = slot->unconfirmed_n;
	a->out_queued = ck_notes_for(slot, a->place.stream);
}

int ck_op_stream_query(struct call *c)
{
	struct capkm_stream_query *a = c->arg;
	const struct client_device *dev;
	const struct window *w;
	struct slot *slot;
	u32 index;
	int err;

	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &index);
	if (err)
		return err;
	*a = (struct capkm_stream_query) {
		.size = a->size, .flags = a->flags, .place = a->place,
		.out_slot = index, .out_client = c->client->id,
	};
	w = ck_slot_window(slot, &a->out_state);
	if (w) {
		a->out_window = w->node.id;
		a->out_owner = w->opener.stream;
	}
	dev = ck_device_find(c->client, a->place.device);
	if (dev)
		fill_device(slot, dev, a);
	return 0;
}

/* What one client of the session has of the stream. */
static void leave_client(struct call *c, struct client *client, u64 stream)
{
	struct stock *back = &c->session->stock;
	struct id_node *node;
	struct slot *slot;

	for (node = ck_id_first(&client->slots); node; node = ck_id_next(node)) {
		slot = container_of(node, struct slot, node);
		if (slot->member && slot->member_stream == stream)
			ck_member_leave(slot);
		ck_notes_disown(slot, stream, back);
	}
	for (node = ck_id_first(&client->slots); node; node = ck_id_next(node)) {
		slot = container_of(node, struct slot, node);
		if (slot->window && slot->window->opener.stream == stream &&
		    slot->window->state != CAPKM_WINDOW_CLOSING)
			ck_window_abort(c->domain, slot->window, back);
	}
}

int ck_op_stream_destroy(struct call *c)
{
	struct capkm_stream_destroy *a = c->arg;
	struct capkm_session *s = c->session;
	struct stream *stream;
	struct link *l;
	u64 before;
	int err;

	err = ck_stream_check(s, a->stream);
	if (err)
		return err;
	ck_tick(c->domain);
	before = c->domain->history_total;
	link_for_each(l, &s->clients)
		leave_client(c, link_entry(l, struct client, sib), a->stream);
	a->out_windows = c->domain->history_total - before;
	if (a->stream < CAPKM_STREAM_FIRST)
		return 0;
	stream = id_entry(ck_id_find(&c->domain->streams, a->stream),
			  struct stream, node);
	link_del(&stream->sib);
	ck_id_erase(&c->domain->streams, &stream->node);
	host_free(stream);
	s->streams_n--;
	ck_fast_stream_gone(s);
	return 0;
}
