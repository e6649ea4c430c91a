/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of one byte, byte by byte: a model of
 * Documentation/design/bytes.rst that shares nothing with the engine, neither
 * code nor ideas. A byte has a plain list of claims; a buffer has at most 64
 * bytes, so a set of bytes is a word. It is slow and obvious on purpose.
 *
 * Failures are numbered here by their order; the engine's ids are learned when
 * they are first seen, and must fit from then on.
 *
 * Ticks are the model's own: each operation is after all before it. The engine's
 * sequences are what exits were told, and what is confirmed, stale or changed goes by.
 */
#ifndef CAPKM_MODEL_H
#define CAPKM_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define M_BYTES		64	/* of a buffer, at most */
#define M_BUFFERS	16
#define M_SESSIONS	5
#define M_CLIENTS	8
#define M_DEVICES	3
#define M_SLOTS		3	/* of a device */
#define M_PLACES	(M_DEVICES * M_SLOTS)	/* slots of a client */
#define M_SCOPES	48
#define M_WINDOWS	32
#define M_GRAPHS	16
#define M_CLAIMS	4	/* of a scope, each way */
#define M_KEYS		64	/* of a window */

#define M_NONE		(-1)

enum m_what {
	M_OPEN,		/* @ref: scope */
	M_REPLAY,	/* @ref: graph */
	M_FAILED,	/* @ref: failure */
	M_RECORDED,	/* @ref: window */
	M_UNCONFIRMED,	/* @ref: client * M_PLACES + slot */
};

struct m_claim {
	enum m_what what;
	int ref;
	/* Of an unconfirmed one: the sequence up to which its slot has to be confirmed. */
	uint64_t enter;
	uint64_t date;
};

/* The last writer; @sequence is 0 if none is known. */
struct m_writer {
	uint64_t session, stream, sequence;
};

struct m_byte {
	struct m_claim *c;
	int n, room;
	struct m_writer writer;
};

struct m_session {
	bool used;
	uint64_t id;
	int backend;
	int clients;		/* in all its life */
	bool lost[M_DEVICES];	/* devices that faulted when it had none any more */
	int held[M_BUFFERS];	/* references */
};

struct m_slot {
	uint64_t sequence;	/* of the last exit */
	uint64_t skipped;	/* of the last work that was skipped or refused */
	/*
	 * The sequences of the first and the last exit that left work unconfirmed
	 * since all was confirmed; 0 while all is.
	 */
	uint64_t first, last;
	uint64_t first_tick;	/* 0: it was confirmed in part since */
};

struct m_context {
	/* It has a slot on the device; or, not said by the rules, maybe. */
	bool used, maybe;
	int fault;		/* until it is renewed, else M_NONE */
	uint64_t epoch;
};

struct m_client {
	bool used;		/* it lives */
	int session;
	struct m_slot slot[M_PLACES];
	struct m_context device[M_DEVICES];
};

struct m_buffer {
	bool used;
	uint64_t id;
	int size;
	bool exported, shared, fresh;
	int session;		/* that created it */
	uint64_t creator;	/* its id */
	int device;
	uint64_t written;	/* while it is private: the last unconfirmed exit */
	uint64_t written_tick;
	struct m_byte byte[M_BYTES];
};

struct m_range {
	int buffer;
	int start, end;
};

struct m_ranges {
	int n;
	struct m_range r[M_CLAIMS];
};

struct m_scope {
	bool used;
	uint64_t id;
	int client;
	int slot;
	uint64_t stream;
	int window;
	int poison;		/* failure of its input */
	int fault;		/* the last of the device since its enter */
	uint64_t enter;
	uint64_t tracked;	/* buffers that knew their writers then */
	struct m_ranges reads, writes;
	uint64_t inputs[M_BUFFERS];	/* of a recorded one, found at its enter */
};

struct m_window {
	bool used;
	uint64_t id;
	int client;
	int slot;
	int parent;
	uint64_t owner;
	/* The stream that joined with the slot, + 1; what had joined before END. */
	uint64_t member[M_PLACES];
	bool was_member[M_PLACES];
	bool strict;
	unsigned int state;
	bool held;		/* CLOSING, and the driver has not closed it */
	bool abandoned;
	bool doomed;
	bool maybe;		/* or not: the rules do not say */
	int failure;		/* once it is refused */
	uint64_t written[M_BUFFERS], inputs[M_BUFFERS], seen[M_BUFFERS];
	int keys_n;
	struct m_range keys[M_KEYS];
};

struct m_graph {
	bool used;
	uint64_t id;
	int client;
	bool replaying;
	bool no_inputs;
	/* of its open replay: */
	int slot;
	uint64_t stream, enter, tracked;
	int fault;
	uint64_t writes[M_BUFFERS], inputs[M_BUFFERS], seen[M_BUFFERS];
	int keys_n;
	struct m_range keys[M_KEYS];
};

/* Where a failure came from; what is not known or not so is 0. */
struct m_failure {
	uint64_t id;		/* the engine's, 0 while unknown, or of a death */
	uint64_t scope, graph, window;
	unsigned int kind;
	/*
	 * Of a death: one for each device with work that was lost. They are not told
	 * apart here: a byte that carries one of so many @ids may have any of them.
	 */
	int ids, known;
	unsigned int pid;	/* who died */
};

struct model {
	uint64_t now;		/* the clock: the last tick */
	uint64_t sequence;	/* the engine's, as far as it was seen */
	uint64_t step;		/* of whoever drives the model */
	struct m_session session[M_SESSIONS];
	struct m_client client[M_CLIENTS];
	struct m_buffer buffer[M_BUFFERS];
	struct m_scope scope[M_SCOPES];
	struct m_window window[M_WINDOWS];
	struct m_graph graph[M_GRAPHS];
	struct m_failure *failure;
	int failures;
	uint64_t failures_room;
	int *by_id;		/* the failure with that id, + 1 */
	uint64_t by_id_room;
};

static inline void *m_grow(void *p, size_t size, uint64_t *room, uint64_t need)
{
	uint64_t n = *room ? *room : 64;

	if (need < *room)
		return p;
	while (n <= need)
		n *= 2;
	p = realloc(p, n * size);
	if (!p)
		abort();
	memset((char *)p + *room * size, 0, (n - *room) * size);
	*room = n;
	return p;
}

static inline void m_free(struct model *m)
{
	for (int b = 0; b < M_BUFFERS; b++)
		for (int i = 0; i < M_BYTES; i++)
			free(m->buffer[b].byte[i].c);
	free(m->failure);
	free(m->by_id);
}

static inline uint64_t m_mask(int start, int end)
{
	return start == end ? 0 : ~0ull >> (64 - (end - start)) << start;
}

/* The bytes of @b that the ranges name; a byte counts once. */
static inline uint64_t m_bytes(const struct m_ranges *rs, int b)
{
	uint64_t mask = 0;

	for (int i = 0; i < rs->n; i++)
		if (rs->r[i].buffer == b)
			mask |= m_mask(rs->r[i].start, rs->r[i].end);
	return mask;
}

/* ---- failures */

static inline int m_new_failure(struct model *m, uint64_t id)
{
	m->failure = m_grow(m->failure, sizeof(*m->failure), &m->failures_room,
			    m->failures);
	m->failure[m->failures] = (struct m_failure){ 0 };
	if (id) {
		m->by_id = m_grow(m->by_id, sizeof(*m->by_id), &m->by_id_room, id);
		if (m->by_id[id])
			return M_NONE;
		m->failure[m->failures].id = id;
		m->by_id[id] = m->failures + 1;
	}
	return m->failures++;
}

/* Is it known that failure @f has this id? */
static inline bool m_has_id(const struct model *m, int f, uint64_t id)
{
	return id < m->by_id_room && m->by_id[id] == f + 1;
}

/* The engine says that failure @f has this id. Can that be? */
static inline bool m_is_id(struct model *m, int f, uint64_t id)
{
	struct m_failure *x = &m->failure[f];

	if (!id || m_has_id(m, f, id))
		return id;
	m->by_id = m_grow(m->by_id, sizeof(*m->by_id), &m->by_id_room, id);
	if (m->by_id[id] || x->id)
		return false;
	m->by_id[id] = f + 1;
	if (x->ids)
		return x->known++ < x->ids;
	x->id = id;
	return true;
}

static inline int m_new_of_kind(struct model *m, unsigned int kind)
{
	int f = m_new_failure(m, 0);

	m->failure[f].kind = kind;
	return f;
}

/* The failure with that id, which may have been seen before. */
static inline int m_failure_with_id(struct model *m, uint64_t id)
{
	m->by_id = m_grow(m->by_id, sizeof(*m->by_id), &m->by_id_room, id);
	return m->by_id[id] ? m->by_id[id] - 1 : m_new_failure(m, id);
}

/* ---- one byte */

static inline void m_add(struct m_byte *b, enum m_what what, int ref, uint64_t enter,
			 uint64_t date)
{
	if (b->n == b->room) {
		b->room = b->room ? 2 * b->room : 4;
		b->c = realloc(b->c, b->room * sizeof(*b->c));
		if (!b->c)
			abort();
	}
	b->c[b->n++] = (struct m_claim){ what, ref, enter, date };
}

static inline void m_remove(struct m_byte *b, int i)
{
	b->c[i] = b->c[--b->n];
}

/* Rule 2. @opened: what open claim goes, M_NONE for a scope of zero length. */
static inline void m_rule2(struct m_byte *b, enum m_what opened, int ref, uint64_t enter,
			   uint64_t exit, int failure)
{
	for (int i = b->n - 1; i >= 0; i--) {
		const struct m_claim *c = &b->c[i];

		if (c->what == M_OPEN || c->what == M_REPLAY ?
		    ref != M_NONE && c->what == opened && c->ref == ref :
		    c->date < enter)
			m_remove(b, i);
	}
	if (failure != M_NONE)
		m_add(b, M_FAILED, failure, enter, exit);
}

/* Rule 3. */
static inline void m_rule3(struct m_byte *b, int ref, int window, uint64_t enter,
			   uint64_t exit)
{
	for (int i = b->n - 1; i >= 0; i--) {
		const struct m_claim *c = &b->c[i];

		if ((c->what == M_OPEN && ref != M_NONE && c->ref == ref) ||
		    (c->what == M_RECORDED && c->ref == window && c->date < enter))
			m_remove(b, i);
	}
	m_add(b, M_RECORDED, window, enter, exit);
}

/* Rule 4. */
static inline void m_rule4(struct m_byte *b, int window)
{
	for (int i = b->n - 1; i >= 0; i--)
		if (b->c[i].what == M_RECORDED && b->c[i].ref == window)
			m_remove(b, i);
}

/* Rule 5. Returns whether there was anything. */
static inline bool m_rule5(struct m_byte *b, int window, int failure)
{
	bool any = false;

	for (;;) {
		struct m_claim r;
		int first = M_NONE, i;

		/* In the order of their dates: the rule does not say. */
		for (i = 0; i < b->n; i++)
			if (b->c[i].what == M_RECORDED && b->c[i].ref == window &&
			    (first == M_NONE || b->c[i].date < b->c[first].date))
				first = i;
		if (first == M_NONE)
			return any;
		any = true;
		r = b->c[first];
		m_remove(b, first);
		for (i = b->n - 1; i >= 0; i--) {
			const struct m_claim *c = &b->c[i];

			if (c->date < r.enter &&
			    (c->what == M_FAILED || c->what == M_UNCONFIRMED ||
			     (c->what == M_RECORDED && c->ref != window)))
				m_remove(b, i);
		}
		m_add(b, M_FAILED, failure, r.enter, r.date);
	}
}

/* Rule 1, seen through the writes that @window recorded. */
struct m_verdict {
	enum { M_CLEAN, M_IN_PROGRESS, M_TAINTED } result;
	/* Which may be named: any that is open; of the failed ones mostly one. */
	int n;
	struct m_claim named[M_SCOPES + M_GRAPHS];
};

/* By what @window or one of its ancestors wrote. */
static inline bool m_hidden(const struct model *m, const struct m_byte *b,
			    const struct m_claim *failed, int window)
{
	for (; window != M_NONE; window = m->window[window].parent)
		for (int i = 0; i < b->n; i++)
			if (b->c[i].what == M_RECORDED && b->c[i].ref == window &&
			    b->c[i].date > failed->date)
				return true;
	return false;
}

static inline void m_rule1(const struct model *m, const struct m_byte *b, int window,
			   struct m_verdict *v)
{
	bool known = true;

	v->n = 0;
	for (int i = 0; i < b->n; i++)
		if (b->c[i].what == M_OPEN || b->c[i].what == M_REPLAY)
			v->named[v->n++] = b->c[i];
	if (v->n) {
		v->result = M_IN_PROGRESS;
		return;
	}
	for (int i = 0; i < b->n; i++) {
		const struct m_claim *c = &b->c[i];

		if (c->what != M_FAILED || m_hidden(m, b, c, window))
			continue;
		if (v->n && c->date > v->named[0].date)
			continue;
		if (v->n && c->date < v->named[0].date)
			v->n = 0;
		v->named[v->n++] = *c;
	}
	v->result = v->n ? M_TAINTED : M_CLEAN;
	/* Of equal dates the smaller id, as far as the ids are known. */
	for (int i = 0; i < v->n; i++)
		known = known && m->failure[v->named[i].ref].id;
	for (int i = 1; known && i < v->n; i++)
		if (m->failure[v->named[i].ref].id < m->failure[v->named[0].ref].id)
			v->named[0] = v->named[i];
	if (known && v->n)
		v->n = 1;
}

/* ---- ranges */

/* The lowest byte of the set that is not clean, or M_NONE. */
static inline int m_judge_set(const struct model *m, int buffer, uint64_t mask, int window,
			      struct m_verdict *v)
{
	for (int i = 0; i < M_BYTES; i++) {
		if (!(mask & 1ull << i))
			continue;
		m_rule1(m, &m->buffer[buffer].byte[i], window, v);
		if (v->result != M_CLEAN)
			return i;
	}
	v->result = M_CLEAN;
	v->n = 0;
	return M_NONE;
}

/* Of the ranges in order the first that is not clean, or M_NONE. */
static inline int m_judge(const struct model *m, const struct m_ranges *rs, int window,
			  int *at, struct m_verdict *v)
{
	v->result = M_CLEAN;
	v->n = 0;
	for (int i = 0; i < rs->n; i++) {
		*at = m_judge_set(m, rs->r[i].buffer,
				  m_mask(rs->r[i].start, rs->r[i].end), window, v);
		if (*at != M_NONE)
			return i;
	}
	return M_NONE;
}

#define M_FOR_EACH(b, i, mask_of_b)					\
	for (int b = 0; b < M_BUFFERS; b++)				\
		for (uint64_t mask_ = (mask_of_b), i = 0; mask_; mask_ >>= 1, i++) \
			if (mask_ & 1)

/*
 * Some scope of zero length over the ranges at tick @t. @writer: who wrote them
 * now, all 0 if nobody does any more; NULL leaves that as it was.
 */
static inline void m_zero_length(struct model *m, const struct m_ranges *rs, int failure,
				 const struct m_writer *writer, uint64_t t)
{
	M_FOR_EACH(b, i, m_bytes(rs, b)) {
		struct m_byte *byte = &m->buffer[b].byte[i];

		m_rule2(byte, M_OPEN, M_NONE, t, t, failure);
		if (writer && (m->buffer[b].shared || m->buffer[b].fresh))
			byte->writer = *writer;
	}
}

static inline bool m_is_open(const struct model *m, const struct m_ranges *rs)
{
	struct m_verdict v;

	M_FOR_EACH(b, i, m_bytes(rs, b)) {
		m_rule1(m, &m->buffer[b].byte[i], M_NONE, &v);
		if (v.result == M_IN_PROGRESS)
			return true;
	}
	return false;
}

/* ---- what is not confirmed */

static inline int m_device(int slot)
{
	return slot / M_SLOTS;
}

/* The one living client of a private buffer's session, or M_NONE. */
static inline int m_sole_client(const struct model *m, int b)
{
	int session = m->buffer[b].session;

	for (int c = 0; c < M_CLIENTS; c++)
		if (m->client[c].used && m->client[c].session == session &&
		    m->session[session].id == m->buffer[b].creator)
			return c;
	return M_NONE;
}

/* Is the private buffer unconfirmed through that slot? */
static inline bool m_through(const struct model *m, int b, int client, int slot)
{
	const struct m_slot *s = &m->client[client].slot[slot];

	return s->first && s->first <= m->buffer[b].written;
}

/*
 * The slot's first unconfirmed exit was after the buffer's: only its sequence makes the
 * buffer unconfirmed, since fast exits on several slots have theirs in no order.
 */
static inline bool m_through_later(const struct model *m, int b, int client, int slot)
{
	return m_through(m, b, client, slot) &&
	       m->client[client].slot[slot].first_tick > m->buffer[b].written_tick;
}

/* And the other way round. */
static inline bool m_not_through_earlier(const struct model *m, int b, int client, int slot)
{
	const struct m_slot *s = &m->client[client].slot[slot];

	return s->first > m->buffer[b].written && s->first_tick &&
	       s->first_tick < m->buffer[b].written_tick;
}

static inline bool m_dirty(const struct model *m, int b)
{
	int c = m_sole_client(m, b);

	for (int slot = 0; c != M_NONE && slot < M_PLACES; slot++)
		if (m_through(m, b, c, slot))
			return true;
	return false;
}

/* A replay that is open was seen to be given the byte: it may be writing it. */
static inline bool m_may_write(const struct model *m, int g, int b, int at)
{
	const struct m_graph *graph = &m->graph[g];

	return graph->used && graph->replaying && graph->seen[b] & 1ull << at;
}

/* @own: also the client's own work on a private buffer. */
static inline bool m_unconfirmed(const struct model *m, int b, int at, bool own)
{
	const struct m_byte *byte = &m->buffer[b].byte[at];

	for (int g = 0; g < M_GRAPHS; g++)
		if (m_may_write(m, g, b, at))
			return true;
	if (!m->buffer[b].shared)
		return own && m_dirty(m, b);
	for (int i = 0; i < byte->n; i++)
		if (byte->c[i].what == M_UNCONFIRMED)
			return true;
	return false;
}

/*
 * A private buffer becomes a shared one. What is unconfirmed of it is dated now:
 * a scope that is open does not take its bytes out of that.
 */
static inline void m_share(struct model *m, int b, uint64_t t)
{
	struct m_buffer *buf = &m->buffer[b];
	int c = m_sole_client(m, b);

	if (buf->shared)
		return;
	for (int slot = 0; c != M_NONE && slot < M_PLACES; slot++)
		for (int i = 0; i < buf->size && m_through(m, b, c, slot); i++)
			m_add(&buf->byte[i], M_UNCONFIRMED, c * M_PLACES + slot,
			      m->client[c].slot[slot].last, t);
	buf->shared = true;
}

/*
 * A scope or a replay was left well on a slot, and what it wrote or may have written
 * there, of which there is something, is not confirmed.
 */
static inline void m_enqueued(struct model *m, int client, int slot,
			      const uint64_t *writes, const uint64_t *maybe,
			      uint64_t enter, uint64_t t, uint64_t sequence)
{
	struct m_slot *s = &m->client[client].slot[slot];

	for (int b = 0; b < M_BUFFERS; b++)
		if ((writes[b] || maybe[b]) && !m->buffer[b].shared) {
			m->buffer[b].written = sequence;
			m->buffer[b].written_tick = t;
		}
	/* What may be written over stays, but the same slot says it anew. */
	M_FOR_EACH(b, i, m->buffer[b].shared ? maybe[b] & ~writes[b] : 0) {
		struct m_byte *byte = &m->buffer[b].byte[i];

		for (int j = byte->n - 1; j >= 0; j--)
			if (byte->c[j].what == M_UNCONFIRMED &&
			    byte->c[j].ref == client * M_PLACES + slot &&
			    byte->c[j].date < enter)
				m_remove(byte, j);
		m_add(byte, M_UNCONFIRMED, client * M_PLACES + slot, sequence, t);
	}
	M_FOR_EACH(b, i, m->buffer[b].shared ? writes[b] : 0)
		m_add(&m->buffer[b].byte[i], M_UNCONFIRMED, client * M_PLACES + slot,
		      sequence, t);
	if (!s->first) {
		s->first = sequence;
		s->first_tick = t;
	}
	s->last = sequence;
}

/* The claims of rule 9; @exported: another client says so. */
static inline void m_confirm_claims(struct model *m, int client, int slot, uint64_t n,
				    bool exported)
{
	for (int b = 0; b < M_BUFFERS; b++)
		for (int at = 0; m->buffer[b].used && at < m->buffer[b].size; at++) {
			struct m_byte *byte = &m->buffer[b].byte[at];

			if (exported && !m->buffer[b].exported)
				break;
			for (int i = byte->n - 1; i >= 0; i--)
				if (byte->c[i].what == M_UNCONFIRMED &&
				    byte->c[i].ref == client * M_PLACES + slot &&
				    byte->c[i].enter <= n)
					m_remove(byte, i);
		}
}

/* Rule 9. */
static inline void m_confirm(struct model *m, int client, int slot, uint64_t n)
{
	struct m_slot *s = &m->client[client].slot[slot];

	m_confirm_claims(m, client, slot, n, false);
	if (s->last <= n) {
		s->first = s->last = 0;
	} else if (s->first <= n) {
		s->first = n + 1;
		s->first_tick = 0;
	}
}

/* The unconfirmed claims of the client's slots on the device fail. */
static inline bool m_claims_fail(struct model *m, int client, int device, int failure)
{
	bool any = false;

	for (int b = 0; b < M_BUFFERS; b++)
		for (int at = 0; m->buffer[b].used && at < m->buffer[b].size; at++) {
			struct m_byte *byte = &m->buffer[b].byte[at];

			for (int i = 0; i < byte->n; i++) {
				struct m_claim *c = &byte->c[i];

				if (c->what != M_UNCONFIRMED ||
				    c->ref / M_PLACES != client ||
				    m_device(c->ref % M_PLACES) != device)
					continue;
				c->what = M_FAILED;
				c->ref = failure;
				any = true;
			}
		}
	return any;
}

static inline void m_taint_whole(struct model *m, int b, int failure, uint64_t t)
{
	struct m_ranges rs = { 1, { { b, 0, m->buffer[b].size } } };

	m_zero_length(m, &rs, failure, NULL, t);
}

/* ---- windows */

static inline bool m_closed(const struct m_window *w)
{
	/* of enum capkm_window_state: sealed, refused, orphaned */
	return w->state >= 5;
}

static inline bool m_is_child(const struct model *m, int w, int parent)
{
	return m->window[w].used && !m_closed(&m->window[w]) &&
	       m->window[w].parent == parent;
}

/* Children that are neither sealed nor refused. */
static inline int m_children(const struct model *m, int window)
{
	int n = 0;

	for (int w = 0; w < M_WINDOWS; w++)
		n += m_is_child(m, w, window);
	return n;
}

static inline bool m_suspended(const struct model *m, int window)
{
	for (int w = 0; w < M_WINDOWS; w++)
		/* It has begun: opening, recording or closing. */
		if (m_is_child(m, w, window) && m->window[w].state >= 2)
			return true;
	return false;
}

static inline bool m_descends(const struct model *m, int window, int from)
{
	for (; window != M_NONE; window = m->window[window].parent)
		if (window == from)
			return true;
	return false;
}

static inline void m_key(struct m_window *w, const struct m_range *r)
{
	int i = 0;

	if (r->start == r->end)
		return;
	for (i = 0; i < w->keys_n; i++)
		if (!memcmp(&w->keys[i], r, sizeof(*r)))
			return;
	if (w->keys_n == M_KEYS)
		abort();
	w->keys[w->keys_n++] = *r;
}

static inline void m_record(struct m_window *w, const struct m_ranges *writes)
{
	for (int i = 0; i < writes->n; i++)
		m_key(w, &writes->r[i]);
	for (int b = 0; b < M_BUFFERS; b++)
		w->written[b] |= m_bytes(writes, b);
}

static inline void m_doom(struct model *m, int window)
{
	if (window != M_NONE && !m_closed(&m->window[window]))
		m->window[window].doomed = true;
}

/* Only this window: @state says what it is now. */
static inline void m_close(struct model *m, int window, unsigned int state,
			   unsigned int kind)
{
	struct m_window *w = &m->window[window];

	w->failure = m_new_of_kind(m, kind);
	m->failure[w->failure].window = w->id;
	for (int b = 0; b < M_BUFFERS; b++)
		for (int i = 0; m->buffer[b].used && i < m->buffer[b].size; i++)
			m_rule5(&m->buffer[b].byte[i], window, w->failure);
	w->state = state;
	w->doomed = true;
	w->held = false;
	memset(w->member, 0, sizeof(w->member));
}

/* Refused, aborted or abandoned. @kind: of the failure, 0 if that is not said. */
static inline void m_refuse(struct model *m, int window, unsigned int kind)
{
	bool prepared = m->window[window].state == 1;
	int parent = m->window[window].parent;

	for (int w = 0; w < M_WINDOWS; w++)
		if (m_is_child(m, w, window))
			m_refuse(m, w, kind);
	m_close(m, window, 6, kind);
	/* Whether one that never recorded counts as refused is not said. */
	if (parent != M_NONE && prepared)
		m->window[parent].maybe = true;
	else
		m_doom(m, parent);
}

static inline void m_become_graph(struct m_graph *graph, const struct m_window *w,
				  bool no_inputs)
{
	graph->no_inputs = no_inputs;
	memcpy(graph->writes, w->written, sizeof(graph->writes));
	memcpy(graph->inputs, w->inputs, sizeof(graph->inputs));
	memcpy(graph->seen, w->seen, sizeof(graph->seen));
	memcpy(graph->keys, w->keys, sizeof(graph->keys));
	graph->keys_n = w->keys_n;
}

/* Rule 4: the window became the graph @g, or replaced what that was. */
static inline void m_seal(struct model *m, int window, int g, bool no_inputs)
{
	for (int b = 0; b < M_BUFFERS; b++)
		for (int i = 0; m->buffer[b].used && i < m->buffer[b].size; i++)
			m_rule4(&m->buffer[b].byte[i], window);
	m_become_graph(&m->graph[g], &m->window[window], no_inputs);
	m->window[window].state = 5;
}

static inline void m_seal_child(struct model *m, int window)
{
	struct m_window *w = &m->window[window], *parent = &m->window[w->parent];

	for (int b = 0; b < M_BUFFERS; b++) {
		struct m_buffer *buf = &m->buffer[b];

		for (int i = 0; buf->used && i < buf->size; i++)
			for (int j = 0; j < buf->byte[i].n; j++)
				if (buf->byte[i].c[j].what == M_RECORDED &&
				    buf->byte[i].c[j].ref == window)
					buf->byte[i].c[j].ref = w->parent;
		parent->seen[b] |= w->written[b] | w->seen[b];
		parent->inputs[b] |= w->inputs[b] & ~parent->written[b];
	}
	w->state = 5;
}

/* WINDOW_RECORD */
static inline void m_record_claims(struct model *m, int window,
				   const struct m_ranges *reads,
				   const struct m_ranges *writes, uint64_t t)
{
	struct m_window *w = &m->window[window];

	for (int b = 0; b < M_BUFFERS; b++)
		w->inputs[b] |= m_bytes(reads, b) & ~w->written[b];
	M_FOR_EACH(b, i, m_bytes(writes, b))
		m_rule3(&m->buffer[b].byte[i], M_NONE, window, t, t);
	m_record(w, writes);
}

/* ---- scopes */

/* Buffers of which it is known who wrote them last. */
static inline uint64_t m_tracked(const struct model *m)
{
	uint64_t set = 0;

	for (int b = 0; b < M_BUFFERS; b++)
		if (m->buffer[b].shared || m->buffer[b].fresh)
			set |= 1ull << b;
	return set;
}

/* A scope that is let in. */
static inline void m_enter(struct model *m, int s, uint64_t id, int client, int slot,
			   uint64_t stream, int window, int poison,
			   const struct m_ranges *reads, const struct m_ranges *writes,
			   uint64_t t)
{
	struct m_scope *scope = &m->scope[s];

	memset(scope, 0, sizeof(*scope));
	scope->used = true;
	scope->id = id;
	scope->client = client;
	scope->slot = slot;
	scope->stream = stream;
	scope->window = window;
	scope->poison = poison;
	scope->fault = M_NONE;
	scope->enter = t;
	scope->tracked = m_tracked(m);
	scope->reads = *reads;
	scope->writes = *writes;
	for (int b = 0; window != M_NONE && b < M_BUFFERS; b++)
		scope->inputs[b] = m_bytes(reads, b) & ~m->window[window].written[b];
	M_FOR_EACH(b, i, m_bytes(writes, b))
		m_add(&m->buffer[b].byte[i], M_OPEN, s, scope->enter, 0);
}

/* What a scope that exits well carries all the same, or M_NONE. */
static inline int m_exit_failure(const struct model *m, int s)
{
	const struct m_scope *scope = &m->scope[s];

	if (scope->fault != M_NONE)
		return scope->fault;
	if (scope->poison != M_NONE)
		return scope->poison;
	if (scope->window != M_NONE && m_closed(&m->window[scope->window]))
		return m->window[scope->window].failure;
	return M_NONE;
}

/* Rule 2 of a scope or replay that went well, on one byte. */
static inline void m_wrote(struct model *m, int b, int i, uint64_t tracked, int client,
			   uint64_t stream, uint64_t sequence)
{
	if (tracked & 1ull << b)
		m->buffer[b].byte[i].writer = (struct m_writer){
			m->session[m->client[client].session].id, stream, sequence,
		};
}

/* @failure: it carries that, else M_NONE; at the tick @t. */
static inline void m_exit(struct model *m, int s, int failure, bool complete, uint64_t t,
			  uint64_t sequence)
{
	struct m_scope *scope = &m->scope[s];
	int window = scope->window;
	bool well = failure == M_NONE, records = well && window != M_NONE;
	uint64_t writes[M_BUFFERS], any = 0;
	static const uint64_t nothing[M_BUFFERS];

	for (int b = 0; b < M_BUFFERS; b++)
		any |= writes[b] = m_bytes(&scope->writes, b);
	M_FOR_EACH(b, i, writes[b]) {
		if (records) {
			m_rule3(&m->buffer[b].byte[i], s, window, scope->enter, t);
			continue;
		}
		m_rule2(&m->buffer[b].byte[i], M_OPEN, s, scope->enter, t, failure);
		if (well)
			m_wrote(m, b, i, scope->tracked, scope->client, scope->stream,
				sequence);
	}
	if (records) {
		m_record(&m->window[window], &scope->writes);
		for (int b = 0; b < M_BUFFERS; b++)
			m->window[window].inputs[b] |= scope->inputs[b];
	} else {
		m_doom(m, window);
	}
	if (well && !records && !complete && any)
		m_enqueued(m, scope->client, scope->slot, writes, nothing, scope->enter, t,
			   sequence);
	m->client[scope->client].slot[scope->slot].sequence = sequence;
	m->client[scope->client].slot[scope->slot].skipped = sequence;
	scope->used = false;
}

/* ---- replays */

static inline void m_replay_begin(struct model *m, int g, int slot, uint64_t stream,
				  uint64_t t)
{
	struct m_graph *graph = &m->graph[g];

	graph->replaying = true;
	graph->slot = slot;
	graph->stream = stream;
	graph->fault = M_NONE;
	graph->enter = t;
	graph->tracked = m_tracked(m);
	M_FOR_EACH(b, i, graph->writes[b])
		m_add(&m->buffer[b].byte[i], M_REPLAY, g, graph->enter, 0);
}

static inline void m_replay_end(struct model *m, int g, int failure, bool complete,
				uint64_t t, uint64_t sequence)
{
	struct m_graph *graph = &m->graph[g];
	bool well = failure == M_NONE;
	uint64_t any = 0;

	M_FOR_EACH(b, i, graph->writes[b] | (well ? 0 : graph->seen[b])) {
		m_rule2(&m->buffer[b].byte[i], M_REPLAY, g, graph->enter, t, failure);
		if (well)
			m_wrote(m, b, i, graph->tracked, graph->client, graph->stream,
				sequence);
	}
	for (int b = 0; b < M_BUFFERS; b++)
		any |= graph->writes[b] | graph->seen[b];
	if (well && !complete && any)
		m_enqueued(m, graph->client, graph->slot, graph->writes, graph->seen,
			   graph->enter, t, sequence);
	m->client[graph->client].slot[graph->slot].sequence = sequence;
	m->client[graph->client].slot[graph->slot].skipped = sequence;
	graph->replaying = false;
}

/* The outputs of a graph that was skipped or refused get @failure. */
static inline void m_replay_fails(struct model *m, int g, int failure, uint64_t t)
{
	M_FOR_EACH(b, i, m->graph[g].writes[b])
		m_rule2(&m->buffer[b].byte[i], M_REPLAY, M_NONE, t, t, failure);
}

/* ---- rule 8: the end of a client is one tick; @lives: its session */

static inline void m_death_of_work(struct model *m, int client, bool lives,
				   unsigned int pid, uint64_t t)
{
	int f = m_new_of_kind(m, 40);
	bool lost[M_DEVICES];

	m->failure[f].pid = pid;
	for (int d = 0; d < M_DEVICES; d++)
		lost[d] = m_claims_fail(m, client, d, f);
	for (int b = 0; lives && b < M_BUFFERS; b++) {
		bool dirty = false;

		if (!m->buffer[b].used || m->buffer[b].shared ||
		    m_sole_client(m, b) != client)
			continue;
		for (int slot = 0; slot < M_PLACES; slot++)
			if (m_through(m, b, client, slot))
				dirty = lost[m_device(slot)] = true;
		if (dirty)
			m_taint_whole(m, b, f, t);
	}
	for (int d = 0; d < M_DEVICES; d++)
		m->failure[f].ids += lost[d];
}

static inline void m_death(struct model *m, int client, bool lives, unsigned int pid,
			   uint64_t t)
{
	int f;

	m_death_of_work(m, client, lives, pid, t);
	for (int s = 0; s < M_SCOPES; s++) {
		if (!m->scope[s].used || m->scope[s].client != client)
			continue;
		f = m_new_of_kind(m, 32);
		m->failure[f].scope = m->scope[s].id;
		m_exit(m, s, f, false, t, 0);
	}
	for (int g = 0; g < M_GRAPHS; g++) {
		if (!m->graph[g].used || m->graph[g].client != client)
			continue;
		if (m->graph[g].replaying) {
			f = m_new_of_kind(m, 32);
			m->failure[f].graph = m->graph[g].id;
			m_replay_end(m, g, f, false, t, 0);
		}
		m->graph[g].used = false;
	}
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &m->window[w];

		if (!win->used || win->client != client || m_closed(win))
			continue;
		/* CLOSING ones are refused, the others orphaned. */
		m_close(m, w, win->state == 4 ? 6 : 7, 37);
	}
	m->client[client].used = false;
}

/* ---- rule 10: a fault of a client's context on a device */

static inline void m_fault(struct model *m, int client, int device, int failure, uint64_t t)
{
	struct m_client *c = &m->client[client];

	m_claims_fail(m, client, device, failure);
	for (int b = 0; b < M_BUFFERS; b++) {
		const struct m_buffer *buf = &m->buffer[b];
		bool hit = buf->device == device;

		if (!buf->used || buf->shared || m_sole_client(m, b) != client)
			continue;
		for (int slot = 0; slot < M_PLACES; slot++)
			hit |= m_device(slot) == device && m_through(m, b, client, slot);
		if (hit)
			m_taint_whole(m, b, failure, t);
	}
	for (int slot = 0; slot < M_PLACES; slot++)
		if (m_device(slot) == device)
			c->slot[slot].first = c->slot[slot].last = 0;
	for (int s = 0; s < M_SCOPES; s++)
		if (m->scope[s].used && m->scope[s].client == client &&
		    m_device(m->scope[s].slot) == device)
			m->scope[s].fault = failure;
	for (int g = 0; g < M_GRAPHS; g++)
		if (m->graph[g].used && m->graph[g].replaying &&
		    m->graph[g].client == client && m_device(m->graph[g].slot) == device)
			m->graph[g].fault = failure;
	for (int w = 0; w < M_WINDOWS; w++) {
		const struct m_window *win = &m->window[w];
		bool there = m_device(win->slot) == device;

		for (int slot = 0; slot < M_PLACES; slot++)
			there |= win->member[slot] && m_device(slot) == device;
		if (win->used && win->client == client && there && win->state >= 2)
			m_doom(m, w);
	}
	c->device[device].fault = failure;
	c->device[device].epoch++;
	c->device[device].used = true;
}

/* ---- sessions, clients, buffers */

static inline void m_new_client(struct model *m, int c, int session, uint64_t t)
{
	struct m_client *client = &m->client[c];

	/* The second one that the session ever gets; before it is there itself. */
	for (int b = 0; m->session[session].clients && b < M_BUFFERS; b++)
		if (m->buffer[b].used && m->session[session].held[b])
			m_share(m, b, t);
	memset(client, 0, sizeof(*client));
	client->used = true;
	client->session = session;
	for (int d = 0; d < M_DEVICES; d++)
		client->device[d].fault = M_NONE;
	m->session[session].clients++;
}

static inline void m_new_session(struct model *m, int s, uint64_t id, int backend)
{
	memset(&m->session[s], 0, sizeof(m->session[s]));
	m->session[s].used = true;
	m->session[s].id = id;
	m->session[s].backend = backend;
}

static inline int m_new_buffer(struct model *m, uint64_t id, int size, bool exported,
			       bool fresh, int session, int device)
{
	for (int b = 0; b < M_BUFFERS; b++) {
		struct m_buffer *buf = &m->buffer[b];

		if (buf->used)
			continue;
		buf->used = true;
		buf->id = id;
		buf->size = size;
		buf->exported = exported;
		buf->shared = exported || m->session[session].clients > 1;
		buf->fresh = fresh;
		buf->session = session;
		buf->creator = m->session[session].id;
		buf->device = device;
		buf->written = buf->written_tick = 0;
		for (int i = 0; i < M_BYTES; i++) {
			buf->byte[i].n = 0;
			buf->byte[i].writer.sequence = 0;
		}
		m->session[session].held[b] = 1;
		return b;
	}
	return M_NONE;
}

static inline bool m_carries(const struct model *m, int b, int failure)
{
	for (int i = 0; i < m->buffer[b].size; i++)
		for (int j = 0; j < m->buffer[b].byte[i].n; j++)
			if (m->buffer[b].byte[i].c[j].what == M_FAILED &&
			    m->buffer[b].byte[i].c[j].ref == failure)
				return true;
	return false;
}

#endif /* CAPKM_MODEL_H */
