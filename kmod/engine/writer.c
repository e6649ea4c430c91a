// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Who wrote each byte of a buffer last, and well. The ranges are disjoint; the
 * last exit has the bytes, whoever entered first. Their date is its tick.
 */
#include "internal.h"

static struct claim *first(const struct buffer *b, u64 start, u64 end)
{
	struct span *s = ck_range_first(&b->writers, start, end);

	return s ? container_of(s, struct claim, span) : NULL;
}

static void insert(struct buffer *b, struct claim *c, struct stock *st)
{
	ck_range_insert(&b->writers, &c->span, st);
	b->domain->writers++;
}

static void erase(struct buffer *b, struct claim *c, struct stock *st)
{
	ck_range_erase(&b->writers, &c->span, st);
	b->domain->writers--;
}

/* What begins before the range ends where it starts; a rest behind it stays. */
static void cut_left(struct buffer *b, struct claim *c,
		     const struct target *t, struct stock *st)
{
	struct claim *rest;

	if (c->span.end > t->end) {
		rest = ck_stock_take(st, STOCK_CLAIM);
		*rest = *c;
		rest->span.start = t->end;
		insert(b, rest, st);
	}
	ck_range_set_end(&b->writers, &c->span, t->start);
}

void ck_writer_clear(const struct target *t, struct stock *st)
{
	struct buffer *b = t->buffer;
	struct claim *c;
	u32 n = 0;

	while ((c = first(b, t->start, t->end))) {
		if (c->span.start < t->start) {
			cut_left(b, c, t, st);
			continue;
		}
		erase(b, c, st);
		if (c->span.end > t->end) {
			c->span.start = t->end;
			insert(b, c, st);
			return;
		}
		ck_stock_give(st, STOCK_CLAIM, c);
		if (!(++n % 1024))
			host_relax();
	}
}

void ck_writers_drop(struct buffer *b, u32 most, struct stock *back)
{
	struct claim *c;
	struct span *s;
	u32 n;

	for (n = 0; n < most && (s = ck_range_from(&b->writers, 0, 0)); n++) {
		c = container_of(s, struct claim, span);
		erase(b, c, back);
		ck_stock_give(back, STOCK_CLAIM, c);
	}
}

void ck_writer_set(const struct target *t, u64 session, u64 stream, u64 tick,
		   struct stock *st)
{
	struct claim *c;

	if (t->start == t->end)
		return;
	ck_writer_clear(t, st);
	c = ck_stock_take(st, STOCK_CLAIM);
	c->buffer = t->buffer;
	c->span.start = t->start;
	c->span.end = t->end;
	c->span.date = tick;
	c->session = session;
	c->stream = stream;
	insert(t->buffer, c, st);
}

u64 ck_writer_stale(const struct target *t, u64 since,
		    const struct claim **writer)
{
	u64 at = t->start;
	struct claim *c;

	*writer = NULL;
	for (; at < t->end; at = c->span.end) {
		c = first(t->buffer, at, t->end);
		if (!c || c->span.start > at)
			return at;
		*writer = c;
		if (c->span.date <= since)
			return at;
	}
	return t->end;
}
