// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Dumps of the bytes of a buffer, and of those that carry a failure; one failure. */
#include "dump.h"

#define LOOK	256u	/* claims that one step looks at, or few more */

static struct buffer *buffer_of(const struct dump *dump)
{
	struct id_node *node = ck_id_find(&dump->domain->buffers,
					  dump->query->object);

	if (node)
		ck_fast_leave(container_of(node, struct buffer, node),
			      CAPKM_FAST_DUMPED);
	return id_entry(node, struct buffer, node);
}

/* A private buffer is confirmed by its client's slots, which it does not see. */
u64 ck_taint_changes(const struct dump *dump)
{
	const struct buffer *b = buffer_of(dump);
	const struct capkm_session *s = b && !b->shared ? ck_buffer_creator(b) : NULL;
	const struct link *l;
	u64 n = b ? b->changes + b->sequence + ck_graph_touched(b) + 1 : 0;

	if (s)
		link_for_each(l, &s->clients)
			n += link_entry(l, struct client, sib)->confirms;
	return n;
}

/*
 * Cuts @t where a claim begins, so that no more than about LOOK of them have a byte
 * of it: what is found there is found in a bounded hold of the lock. Returns how many
 * have one.
 */
static u64 bound(struct target *t)
{
	const struct range_map *claims = &t->buffer->claims;
	struct span *s;
	u64 n = 0;

	if (claims->count <= LOOK)
		return claims->count;
	for (s = ck_range_first(claims, t->start, t->end); s;
	     s = ck_range_next(s, t->start, t->end)) {
		/* All of them may be of one byte. */
		if (!(++n % 1024))
			host_relax();
		if (n > LOOK && s->start > t->start) {
			t->end = s->start;
			break;
		}
	}
	return n;
}

/* The first range in @t that is not clean, or not confirmed, if there is one. */
static bool find_range(const struct capkm_session *s, const struct target *t,
		       struct capkm_range_view *v)
{
	struct target before = *t;
	struct fault fault, rest;
	bool bad = ck_taint_find(t, NULL, &fault);

	if (bad)
		before.end = fault.start;
	/* Of what has no memory the failures are named first, then the rest. */
	if (ck_taint_find(&before, NULL, &rest)) {
		ck_fault_report(&rest, &before, &v->cause);
		v->result = CAPKM_TAINTED;
	} else if (ck_unconfirmed_report(s, &before, &v->cause)) {
		v->result = CAPKM_PENDING;
	} else if (bad) {
		ck_fault_report(&fault, t, &v->cause);
		v->result = fault.scope || fault.graph ? CAPKM_IN_PROGRESS :
							 CAPKM_TAINTED;
	} else {
		return false;
	}
	v->buffer = t->buffer->node.id;
	v->start = v->cause.start;
	v->end = v->cause.end;
	v->failure = v->cause.failure;
	return true;
}

int ck_dump_taint(struct dump *dump)
{
	const struct capkm_dump_query *q = dump->query;
	struct capkm_cursor *cursor = dump->cursor;
	struct target t;
	u64 end, steps;
	int err;

	/* It may be destroyed while the lock is dropped. */
	while ((t.buffer = buffer_of(dump))) {
		end = q->end ? q->end : t.buffer->size;
		if (q->start > end || end > t.buffer->size)
			return -EINVAL;
		t.start = max(q->start, cursor->at);
		t.end = end;
		if (t.start >= end)
			return 0;
		steps = bound(&t) + t.buffer->uses_n;
		if (find_range(ck_buffer_creator(t.buffer), &t,
			       &dump->record.range)) {
			end = dump->record.range.end;
			err = ck_dump_emit(dump);
			if (err)
				return err;
			cursor->at = end;
		} else {
			cursor->at = t.end;
		}
		err = ck_dump_breathe(dump, steps);
		if (err < 0)
			return err;
	}
	return cursor->at ? 0 : -ENOENT;
}

/* ---- carriers ---- */

static struct failure *failure_of(const struct dump *dump)
{
	return id_entry(ck_id_find(&dump->domain->failures, dump->query->object),
			struct failure, node);
}

u64 ck_carriers_changes(const struct dump *dump)
{
	const struct failure *f = failure_of(dump);

	return f ? f->changes + 1 : 0;
}

static int emit_run(struct dump *dump, const struct carrier *c, u64 start,
		    u64 end)
{
	struct capkm_range_view *v = &dump->record.range;
	int err;

	v->buffer = c->node.id;
	v->start = start;
	v->end = end;
	v->failure = c->failure->node.id;
	err = ck_dump_emit(dump);
	if (!err)
		dump->cursor->at = end;
	return err;
}

/*
 * Bytes of one buffer that carry the failure, from the cursor on: the first run of
 * them, or the part of it that about LOOK claims show. *@more: there may be others;
 * *@steps: claims that were looked at.
 */
static int dump_run(struct dump *dump, const struct carrier *c, bool *more,
		    u64 *steps)
{
	const struct buffer *b = c->buffer;
	struct capkm_cursor *cursor = dump->cursor;
	u64 start = 0, end = 0;		/* of the run; empty: not met yet */
	struct claim *claim;
	struct span *s;

	*more = true;
	*steps = 0;
	for (s = ck_range_first(&b->claims, cursor->at, b->size); s;
	     s = ck_range_next(s, cursor->at, b->size)) {
		if (end && s->start > end)
			break;
		if (!(++*steps % 1024))
			host_relax();
		if (*steps > LOOK && s->start > max(start, cursor->at)) {
			if (!end) {
				cursor->at = s->start;
				return 0;
			}
			end = min(end, s->start);
			break;
		}
		claim = container_of(s, struct claim, span);
		if (claim->state != CLAIM_FAILED || claim->carrier != c)
			continue;
		if (!end)
			start = max(s->start, cursor->at);
		end = max(end, s->end);
	}
	*more = end;
	return end ? emit_run(dump, c, start, end) : 0;
}

int ck_dump_carriers(struct dump *dump)
{
	struct capkm_cursor *cursor = dump->cursor;
	struct failure *f;
	struct carrier *c;
	bool more;
	u64 steps;
	int err;

	if (!ck_failure_find(dump->domain, dump->query->object))
		return cursor->id ? 0 : -ENOENT;
	/* It may be pruned while the lock is dropped. */
	while ((f = failure_of(dump))) {
		c = id_entry(ck_id_from(&f->carriers, cursor->id),
			     struct carrier, node);
		if (!c)
			break;
		if (c->node.id != cursor->id) {
			cursor->id = c->node.id;
			cursor->at = 0;
		}
		err = dump_run(dump, c, &more, &steps);
		if (err)
			return err;
		if (!more) {
			cursor->id++;
			cursor->at = 0;
		}
		err = ck_dump_breathe(dump, steps);
		if (err < 0)
			return err;
	}
	return 0;
}

/* ---- one failure ---- */

static void fill_failure(const struct failure *f, u64 buffer,
			 struct capkm_failure_view *v)
{
	ck_failure_report(f, &v->report);
	v->skips = f->skips_total;
	v->dropped = f->skips_total - f->skips_kept;
	v->stack_len = f->stack_len;
	if (f->stack_len)
		memcpy(v->stack, f->stack, f->stack_len);
	if (!buffer) {
		v->hops_n = ck_failure_skips(f, v->hops, ARRAY_SIZE(v->hops));
		return;
	}
	v->report.buffer = buffer;
	v->report.hops = ck_failure_hops(f, buffer, v->hops,
					 ARRAY_SIZE(v->hops));
	v->hops_n = min(v->report.hops, (u32)ARRAY_SIZE(v->hops));
}

int capkm_failure_get(u64 domain, u64 failure, u64 buffer,
		      const struct capkm_caller *who,
		      struct capkm_failure_view *view)
{
	struct domain *d = ck_domain_find(domain);
	struct failure *f = NULL;

	if (!d)
		return -ENOENT;
	if (ck_domain_readable(d, who)) {
		host_lock(&d->lock);
		f = ck_failure_find(d, failure);
		if (f)
			fill_failure(f, buffer, view);
		host_unlock(&d->lock);
	}
	ck_domain_put(d);
	return f ? 0 : -ENOENT;
}
