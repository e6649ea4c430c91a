/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of one byte, byte by byte: a model of
 * Documentation/design/bytes.rst that shares nothing with the engine, neither
 * code nor ideas. A byte has a plain list of claims; a buffer has at most 64
 * bytes, so a set of bytes is a word. It is slow and obvious on purpose.
 *
 * Failures are numbered here by their order; the engine's ids are learned when
 * they are first seen, and must fit from then on.
 */
#ifndef CAPKM_MODEL_H
#define CAPKM_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define M_BYTES		64	/* of a buffer, at most */
#define M_BUFFERS	16
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
};

struct m_claim {
	enum m_what what;
	int ref;
	uint64_t enter, date;
};

struct m_byte {
	struct m_claim *c;
	int n, room;
};

struct m_buffer {
	bool used;
	uint64_t id;
	int size;
	bool exported;
	int creator;
	uint64_t changed;	/* step of its last change */
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
	int window;
	int poison;		/* failure of its input */
	uint64_t enter;
	struct m_ranges reads, writes;
	uint64_t inputs[M_BUFFERS];	/* of a recorded one, found at its enter */
};

struct m_window {
	bool used;
	uint64_t id;
	int client;
	int slot;
	uint64_t owner;
	unsigned int state;
	bool held;		/* CLOSING, and the driver has not closed it */
	bool abandoned;
	bool doomed;
	int failure;		/* once it is refused */
	uint64_t written[M_BUFFERS], inputs[M_BUFFERS], seen[M_BUFFERS];
	int keys_n;
	struct m_range keys[M_KEYS];
};

struct m_graph {
	bool used;
	uint64_t id;
	int client;
	int slot;		/* of its open replay */
	bool replaying;
	bool no_inputs;
	uint64_t enter;
	uint64_t writes[M_BUFFERS], inputs[M_BUFFERS], seen[M_BUFFERS];
	int keys_n;
	struct m_range keys[M_KEYS];
};

/* Where a failure came from; what is not known or not so is 0. */
struct m_failure {
	uint64_t id;		/* the engine's, 0 while unknown */
	uint64_t scope, graph, window;
};

struct model {
	uint64_t now;		/* the clock */
	uint64_t step;		/* of whoever drives the model */
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

/* The engine says that failure @f has this id. Can that be? */
static inline bool m_is_id(struct model *m, int f, uint64_t id)
{
	if (!id)
		return false;
	if (m->failure[f].id)
		return m->failure[f].id == id;
	m->by_id = m_grow(m->by_id, sizeof(*m->by_id), &m->by_id_room, id);
	if (m->by_id[id])
		return false;
	m->failure[f].id = id;
	m->by_id[id] = f + 1;
	return true;
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
		int i;

		for (i = 0; i < b->n; i++)
			if (b->c[i].what == M_RECORDED && b->c[i].ref == window)
				break;
		if (i == b->n)
			return any;
		any = true;
		r = b->c[i];
		m_remove(b, i);
		for (i = b->n - 1; i >= 0; i--) {
			const struct m_claim *c = &b->c[i];

			if (c->date < r.enter &&
			    (c->what == M_FAILED ||
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

static inline bool m_hidden(const struct m_byte *b, const struct m_claim *failed,
			    int window)
{
	for (int i = 0; window != M_NONE && i < b->n; i++)
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

		if (c->what != M_FAILED || m_hidden(b, c, window))
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

/* Some scope of zero length over the ranges. */
static inline void m_zero_length(struct model *m, const struct m_ranges *rs, int failure)
{
	uint64_t t = ++m->now;

	M_FOR_EACH(b, i, m_bytes(rs, b)) {
		m_rule2(&m->buffer[b].byte[i], M_OPEN, M_NONE, t, t, failure);
		m->buffer[b].changed = m->step;
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

/* ---- windows */

static inline bool m_closed(const struct m_window *w)
{
	/* of enum capkm_window_state: sealed, refused, orphaned */
	return w->state >= 5;
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

/* Refused, aborted, abandoned or its client's end: @state says what it is now. */
static inline void m_refuse(struct model *m, int window, unsigned int state)
{
	struct m_window *w = &m->window[window];

	w->failure = m_new_failure(m, 0);
	m->failure[w->failure].window = w->id;
	for (int b = 0; b < M_BUFFERS; b++)
		for (int i = 0; m->buffer[b].used && i < m->buffer[b].size; i++)
			if (m_rule5(&m->buffer[b].byte[i], window, w->failure))
				m->buffer[b].changed = m->step;
	w->state = state;
	w->doomed = true;
	w->held = false;
}

/* The window becomes the graph @g. */
static inline void m_seal(struct model *m, int window, int g, uint64_t id, bool no_inputs)
{
	struct m_window *w = &m->window[window];
	struct m_graph *graph = &m->graph[g];

	for (int b = 0; b < M_BUFFERS; b++)
		for (int i = 0; m->buffer[b].used && i < m->buffer[b].size; i++)
			m_rule4(&m->buffer[b].byte[i], window);
	memset(graph, 0, sizeof(*graph));
	graph->used = true;
	graph->id = id;
	graph->client = w->client;
	graph->no_inputs = no_inputs;
	memcpy(graph->writes, w->written, sizeof(graph->writes));
	memcpy(graph->inputs, w->inputs, sizeof(graph->inputs));
	memcpy(graph->seen, w->seen, sizeof(graph->seen));
	memcpy(graph->keys, w->keys, sizeof(graph->keys));
	graph->keys_n = w->keys_n;
	w->state = 5;
}

/* WINDOW_RECORD */
static inline void m_record_claims(struct model *m, int window,
				   const struct m_ranges *reads,
				   const struct m_ranges *writes)
{
	struct m_window *w = &m->window[window];
	uint64_t t = ++m->now;

	for (int b = 0; b < M_BUFFERS; b++)
		w->inputs[b] |= m_bytes(reads, b) & ~w->written[b];
	M_FOR_EACH(b, i, m_bytes(writes, b))
		m_rule3(&m->buffer[b].byte[i], M_NONE, window, t, t);
	m_record(w, writes);
}

/* ---- scopes */

/* A scope that is let in. */
static inline void m_enter(struct model *m, int s, uint64_t id, int client, int slot,
			   int window, int poison, const struct m_ranges *reads,
			   const struct m_ranges *writes)
{
	struct m_scope *scope = &m->scope[s];

	memset(scope, 0, sizeof(*scope));
	scope->used = true;
	scope->id = id;
	scope->client = client;
	scope->slot = slot;
	scope->window = window;
	scope->poison = poison;
	scope->enter = ++m->now;
	scope->reads = *reads;
	scope->writes = *writes;
	for (int b = 0; window != M_NONE && b < M_BUFFERS; b++)
		scope->inputs[b] = m_bytes(reads, b) & ~m->window[window].written[b];
	M_FOR_EACH(b, i, m_bytes(writes, b)) {
		m_add(&m->buffer[b].byte[i], M_OPEN, s, scope->enter, 0);
		m->buffer[b].changed = m->step;
	}
}

/* What a scope that exits well carries all the same, or M_NONE. */
static inline int m_exit_failure(const struct model *m, int s)
{
	const struct m_scope *scope = &m->scope[s];

	if (scope->window != M_NONE && m_closed(&m->window[scope->window]))
		return m->window[scope->window].failure;
	return scope->poison;
}

/* @failure: it carries that, else M_NONE; at the tick @t. */
static inline void m_exit_at(struct model *m, int s, int failure, uint64_t t)
{
	struct m_scope *scope = &m->scope[s];
	int window = scope->window;
	bool records = failure == M_NONE && window != M_NONE;

	M_FOR_EACH(b, i, m_bytes(&scope->writes, b)) {
		if (records)
			m_rule3(&m->buffer[b].byte[i], s, window, scope->enter, t);
		else
			m_rule2(&m->buffer[b].byte[i], M_OPEN, s, scope->enter, t,
				failure);
		m->buffer[b].changed = m->step;
	}
	if (records) {
		m_record(&m->window[window], &scope->writes);
		for (int b = 0; b < M_BUFFERS; b++)
			m->window[window].inputs[b] |= scope->inputs[b];
	} else {
		m_doom(m, window);
	}
	scope->used = false;
}

static inline void m_exit(struct model *m, int s, int failure)
{
	m_exit_at(m, s, failure, ++m->now);
}

/* ---- replays */

static inline void m_replay_begin(struct model *m, int g, int slot)
{
	struct m_graph *graph = &m->graph[g];

	graph->replaying = true;
	graph->slot = slot;
	graph->enter = ++m->now;
	M_FOR_EACH(b, i, graph->writes[b]) {
		m_add(&m->buffer[b].byte[i], M_REPLAY, g, graph->enter, 0);
		m->buffer[b].changed = m->step;
	}
}

static inline void m_replay_end_at(struct model *m, int g, int failure, uint64_t t)
{
	struct m_graph *graph = &m->graph[g];

	M_FOR_EACH(b, i, graph->writes[b] | (failure == M_NONE ? 0 : graph->seen[b])) {
		m_rule2(&m->buffer[b].byte[i], M_REPLAY, g, graph->enter, t, failure);
		m->buffer[b].changed = m->step;
	}
	graph->replaying = false;
}

static inline void m_replay_end(struct model *m, int g, int failure)
{
	m_replay_end_at(m, g, failure, ++m->now);
}

/* The outputs of a graph that was skipped or refused get @failure. */
static inline void m_replay_fails(struct model *m, int g, int failure)
{
	uint64_t t = ++m->now;

	M_FOR_EACH(b, i, m->graph[g].writes[b]) {
		m_rule2(&m->buffer[b].byte[i], M_REPLAY, M_NONE, t, t, failure);
		m->buffer[b].changed = m->step;
	}
}

/* ---- rule 8: the end of a client is one tick */

static inline void m_death(struct model *m, int client)
{
	uint64_t t = ++m->now;
	int f;

	for (int s = 0; s < M_SCOPES; s++) {
		if (!m->scope[s].used || m->scope[s].client != client)
			continue;
		f = m_new_failure(m, 0);
		m->failure[f].scope = m->scope[s].id;
		m_exit_at(m, s, f, t);
	}
	for (int g = 0; g < M_GRAPHS; g++) {
		if (!m->graph[g].used || m->graph[g].client != client)
			continue;
		if (m->graph[g].replaying) {
			f = m_new_failure(m, 0);
			m->failure[f].graph = m->graph[g].id;
			m_replay_end_at(m, g, f, t);
		}
		m->graph[g].used = false;
	}
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &m->window[w];

		if (!win->used || win->client != client || m_closed(win))
			continue;
		/* CLOSING ones are refused, the others orphaned. */
		m_refuse(m, w, win->state == 4 ? 6 : 7);
	}
}

/* ---- buffers */

static inline int m_new_buffer(struct model *m, uint64_t id, int size, bool exported,
			       int creator)
{
	for (int b = 0; b < M_BUFFERS; b++) {
		struct m_buffer *buf = &m->buffer[b];

		if (buf->used)
			continue;
		buf->used = true;
		buf->id = id;
		buf->size = size;
		buf->exported = exported;
		buf->creator = creator;
		buf->changed = m->step;
		for (int i = 0; i < M_BYTES; i++)
			buf->byte[i].n = 0;
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
