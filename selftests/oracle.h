/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine against the model of model.h: sessions with one client and with several
 * that share buffers, scopes that overlap, work that is confirmed, or never, windows in
 * every state with members and children, replays, devices that fault, and clients that
 * die at any point. Each answer is compared, and at intervals the whole state. A calm
 * kind of run is one in which the fast path has something to do.
 *
 * What is done next is chosen by a seed, in oracle.c, or by the bytes of an input, in
 * fuzz/oracle.c.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "capkm_test.h"
#include "choices.h"
#include "model.h"

#define STREAMS		6
#define RUN		4000	/* operations of one run */

/* A process that has the descriptor of a session. */
struct user {
	struct cl *cl;		/* NULL: nobody */
	int session;
	bool client;		/* it has joined, or opened; else it only keeps it */
};

struct event {
	u_int64_t step;
	const char *what;
	int client;
	long long id, more;
	struct m_ranges reads, writes;
	u_int64_t touches;	/* bit for each buffer */
};

#define EVENTS 4096

struct oracle {
	struct model m;
	struct user user[M_CLIENTS];	/* by the number of the client */
	struct cl *watch;	/* holds nothing, does nothing, keeps the domain */
	u_int64_t domain;
	bool shared;		/* others work in the domain as well */
	u_int64_t seed;
	struct choices choices;
	int processes;		/* that may still be made */
	bool calm;		/* mostly what the fast path is for */
	struct {
		u_int64_t enters, checks;	/* by clients in this process */
		u_int64_t fast_enters, fast_checks;
		u_int64_t entered;		/* the same, by what handles say */
		/* Private buffers with work of a slot in another order than told. */
		u_int64_t later, earlier;
	} count;
	u_int64_t prepared, sealed;	/* windows so far */
	unsigned char device[M_DEVICES][16];
	unsigned int events;
	struct event event[EVENTS];
	struct event *now;
};

static __thread struct oracle *running;

static unsigned int draw(struct oracle *o, unsigned int n)
{
	return choose(&o->choices, n);
}

static bool chance(struct oracle *o, unsigned int percent)
{
	return draw(o, 100) < percent;
}

static bool chance_of(struct oracle *o, unsigned int percent, unsigned int when_calm)
{
	return chance(o, o->calm ? when_calm : percent);
}

/* ---- what happened */

static void print_ranges(const struct oracle *o, const char *name,
			 const struct m_ranges *rs)
{
	if (!rs->n)
		return;
	fprintf(stderr, " %s", name);
	for (int i = 0; i < rs->n; i++)
		fprintf(stderr, " %" PRIu64 "[%d,%d)", o->m.buffer[rs->r[i].buffer].id,
			rs->r[i].start, rs->r[i].end);
}

static u_int64_t session_of(const struct oracle *o, int client)
{
	return o->m.session[o->m.client[client].session].id;
}

static void print_byte(const struct oracle *o, const struct m_byte *b)
{
	static const char *const names[] = {
		"open", "replay", "failed", "recorded", "unconfirmed",
	};

	for (int i = 0; i < b->n; i++) {
		const struct m_claim *c = &b->c[i];
		u_int64_t id = c->what == M_OPEN ? o->m.scope[c->ref].id :
			c->what == M_REPLAY ? o->m.graph[c->ref].id :
			c->what == M_FAILED ? o->m.failure[c->ref].id :
			c->what == M_RECORDED ? o->m.window[c->ref].id :
			session_of(o, c->ref / M_PLACES);

		fprintf(stderr, "#\t%s %" PRIu64 " (#%d) enter %" PRIu64 " date %" PRIu64
			"\n", names[c->what], id, c->ref, c->enter, c->date);
	}
	fprintf(stderr, "#\tlast writer %" PRIu64 " stream %" PRIu64 " at %" PRIu64 "\n",
		b->writer.session, b->writer.stream, b->writer.sequence);
}

static void print_buffer(const struct oracle *o, int b)
{
	const struct m_buffer *buf = &o->m.buffer[b];

	fprintf(stderr, "# buffer %" PRIu64 " of session %" PRIu64 " device %d:%s%s%s, "
		"written %" PRIu64 "\n", buf->id, buf->creator, buf->device,
		buf->exported ? " exported" : "", buf->shared ? " shared" : " private",
		buf->fresh ? " fresh" : "", buf->written);
	for (int c = 0; c < M_CLIENTS; c++)
		for (int slot = 0; slot < M_PLACES; slot++)
			if (o->m.client[c].used && o->m.client[c].slot[slot].first)
				fprintf(stderr, "# client %d slot %d: unconfirmed from %"
					PRIu64 " to %" PRIu64 "\n", c, slot,
					o->m.client[c].slot[slot].first,
					o->m.client[c].slot[slot].last);
}

/* A living client of the session, or M_NONE. */
static int client_of(const struct oracle *o, int session)
{
	for (int c = 0; c < M_CLIENTS; c++)
		if (o->m.client[c].used && o->m.client[c].session == session)
			return c;
	return M_NONE;
}

/* A living client that can see the buffer, or M_NONE. */
static int holder_of(const struct oracle *o, int b)
{
	for (int s = 0; s < M_SESSIONS; s++) {
		int c = client_of(o, s);

		if (c != M_NONE && o->m.session[s].held[b])
			return c;
	}
	return M_NONE;
}

static void print_ranges_of_engine(const struct oracle *o, int buffer)
{
	int c = buffer == M_NONE ? M_NONE : holder_of(o, buffer);
	struct t_buffer b;

	if (c == M_NONE)
		return;
	b = t_buffer_query_(o->user[c].cl, o->m.buffer[buffer].id);
	fprintf(stderr, "# the engine's buffer %" PRIu64 ", state %x:\n",
		o->m.buffer[buffer].id, b.q.out_state);
	for (unsigned int i = 0; i < b.q.out_ranges; i++)
		fprintf(stderr, "#\t[%llu,%llu) state %u id %llu kind %u\n", b.r[i].start,
			b.r[i].end, b.r[i].state, b.r[i].id, b.r[i].kind);
}

/* @buffer: of interest, or M_NONE. */
static void print_events(const struct oracle *o, int buffer)
{
	unsigned int first = o->events > EVENTS ? o->events - EVENTS : 0, shown = 0;

	fprintf(stderr, "# what happened%s, newest first:\n",
		buffer == M_NONE ? "" : " to that buffer");
	for (unsigned int i = o->events; i-- > first && shown < 60;) {
		const struct event *e = &o->event[i % EVENTS];

		if (buffer != M_NONE && e->touches && !(e->touches & 1ull << buffer))
			continue;
		fprintf(stderr, "# %6" PRIu64 " client %d %s %lld %lld", e->step, e->client,
			e->what, e->id, e->more);
		print_ranges(o, "reads", &e->reads);
		print_ranges(o, "writes", &e->writes);
		fprintf(stderr, "\n");
		shown++;
	}
	if (!o->choices.end)
		fprintf(stderr, "# again: CAPKM_TEST_SEED=%" PRIu64 " CAPKM_TEST_OPS=%d\n",
			o->seed, RUN);
}

/* @buffer: of interest, or M_NONE; @byte of it as well. */
static void __attribute__((noreturn, format(printf, 4, 5)))
mismatch(struct oracle *o, int buffer, int byte, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "# seed %" PRIu64 " step %" PRIu64 " tick %" PRIu64 ": ", o->seed,
		o->m.step, o->m.now);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	if (buffer != M_NONE)
		print_buffer(o, buffer);
	if (buffer != M_NONE && byte != M_NONE) {
		fprintf(stderr, "# the model's byte %d:\n", byte);
		print_byte(o, &o->m.buffer[buffer].byte[byte]);
	}
	print_ranges_of_engine(o, buffer);
	print_events(o, buffer);
	running = NULL;
	abort();
}

static struct event *note(struct oracle *o, const char *what, int client, long long id,
			  long long more)
{
	struct event *e = &o->event[o->events++ % EVENTS];

	memset(e, 0, sizeof(*e));
	e->step = o->m.step;
	e->what = what;
	e->client = client;
	e->id = id;
	e->more = more;
	o->now = e;
	return e;
}

static void note_ranges(struct event *e, const struct m_ranges *reads,
			const struct m_ranges *writes)
{
	if (reads)
		e->reads = *reads;
	if (writes)
		e->writes = *writes;
	for (int i = 0; i < e->reads.n; i++)
		e->touches |= 1ull << e->reads.r[i].buffer;
	for (int i = 0; i < e->writes.n; i++)
		e->touches |= 1ull << e->writes.r[i].buffer;
}

static void note_masks(struct event *e, const u_int64_t *mask)
{
	for (int b = 0; b < M_BUFFERS; b++)
		if (mask[b])
			e->touches |= 1ull << b;
}

#define EXPECT_RC(o, rc, want, what) do {				\
	int rc_ = (rc), want_ = (want);					\
									\
	if (rc_ != want_)						\
		mismatch(o, M_NONE, M_NONE, what ": %d, expected %d", rc_, want_); \
} while (0)

/* One of two that the rules allow. */
#define EXPECT_RC2(o, rc, one, other, what) do {			\
	int rc_ = (rc), one_ = (one), other_ = (other);			\
									\
	if (rc_ != one_ && rc_ != other_)				\
		mismatch(o, M_NONE, M_NONE, what ": %d, expected %d or %d", rc_, \
			 one_, other_);					\
} while (0)

/*
 * Each operation that is a tick has a sequence after all that were there. @any: it
 * changed some byte; else the engine need not have counted it. Returns the model's tick.
 */
static u_int64_t tick(struct oracle *o, u_int64_t sequence, bool any)
{
	/* The last of the domain's own; fast exits have those up to the next one. */
	const u_int64_t own = o->m.sequence / CAPKM_SEQUENCE_STEP * CAPKM_SEQUENCE_STEP;

	if (sequence < (any ? o->m.sequence + 1 : own))
		mismatch(o, M_NONE, M_NONE, "a tick at %" PRIu64 ", after that of %" PRIu64,
			 sequence, o->m.sequence);
	if (sequence > o->m.sequence)
		o->m.sequence = sequence;
	return ++o->m.now;
}

static bool is_fast(u_int64_t scope)
{
	return scope & CAPKM_SCOPE_FAST;
}

/* A sample of the domain, for what the client is about to confirm. */
static u_int64_t sample(struct oracle *o, int c)
{
	u_int64_t sequence = t_domain_query_(o->user[c].cl).out_sequence;

	tick(o, sequence, false);
	return sequence;
}

/* Of an operation that does not say when it was. */
static u_int64_t tick_now(struct oracle *o, bool any)
{
	struct capkm_domain_query d = { 0 };

	EXPECT_RC(o, t_call(o->watch, CAPKM_NR_DOMAIN_QUERY, &d), 0, "DOMAIN_QUERY");
	return tick(o, d.out_sequence, any);
}

/* ---- choosing */

static int any_client(struct oracle *o)
{
	int c = draw(o, M_CLIENTS);

	for (int i = 0; i < M_CLIENTS; i++, c = (c + 1) % M_CLIENTS)
		if (o->m.client[c].used)
			return c;
	return M_NONE;
}

static struct m_session *the_session(struct oracle *o, int c)
{
	return &o->m.session[o->m.client[c].session];
}

/* A buffer that the client's session holds. */
static int any_held(struct oracle *o, int c)
{
	int b = draw(o, M_BUFFERS);

	for (int i = 0; i < M_BUFFERS; i++, b = (b + 1) % M_BUFFERS)
		if (o->m.buffer[b].used && the_session(o, c)->held[b])
			return b;
	return M_NONE;
}

static struct m_range any_range(struct oracle *o, int b)
{
	int size = o->m.buffer[b].size;
	struct m_range r = { b, 0, size };

	if (chance_of(o, 25, 60))
		return r;
	r.start = draw(o, size + !o->calm);
	r.end = r.start + o->calm + draw(o, size - r.start + !o->calm);
	return r;
}

static bool names(const struct m_ranges *rs, int n, int b)
{
	for (int i = 0; i < n; i++)
		if (rs->r[i].buffer == b)
			return true;
	return false;
}

static struct m_ranges any_ranges(struct oracle *o, int c, unsigned int most)
{
	struct m_ranges rs = { o->calm ? 1 + draw(o, 10) / 7 : draw(o, most + 1), {} };

	for (int i = 0; i < rs.n; i++) {
		int b = any_held(o, c);

		if (b == M_NONE || (o->calm && names(&rs, i, b))) {
			rs.n = i;
			break;
		}
		rs.r[i] = any_range(o, b);
	}
	return rs;
}

static bool any_bytes(const struct m_ranges *rs)
{
	for (int i = 0; i < rs->n; i++)
		if (rs->r[i].start < rs->r[i].end)
			return true;
	return false;
}

static bool any_masks(const u_int64_t *mask)
{
	for (int b = 0; b < M_BUFFERS; b++)
		if (mask[b])
			return true;
	return false;
}

static void to_claims(const struct oracle *o, const struct m_ranges *rs,
		      struct capkm_claim *c)
{
	for (int i = 0; i < rs->n; i++)
		c[i] = (struct capkm_claim){ o->m.buffer[rs->r[i].buffer].id,
					     rs->r[i].start, rs->r[i].end };
}

#define ANY(o, array, condition) ({					\
	int n_ = sizeof(array) / sizeof((array)[0]), i_ = draw(o, n_);	\
	int found_ = M_NONE;						\
									\
	for (int k_ = 0; k_ < n_ && found_ == M_NONE; k_++, i_ = (i_ + 1) % n_) { \
		__typeof__(&(array)[0]) it = &(array)[i_];		\
									\
		if (it->used && (condition))				\
			found_ = i_;					\
	}								\
	found_;								\
})

#define FREE(array) ({							\
	int n_ = sizeof(array) / sizeof((array)[0]), f_ = M_NONE;	\
									\
	for (int i_ = 0; i_ < n_ && f_ == M_NONE; i_++)			\
		if (!(array)[i_].used)					\
			f_ = i_;					\
	f_;								\
})

/* ---- places */

struct place {
	u_int64_t stream;
	int slot;
};

static int any_device(struct oracle *o)
{
	int n = draw(o, 10);

	if (o->calm && !chance(o, 5))
		return 0;
	return n < 5 ? 0 : n < 8 ? 1 : 2;
}

static struct place any_place(struct oracle *o)
{
	struct place p = { o->calm ? 1 + draw(o, 2) : draw(o, STREAMS), 0 };

	p.slot = any_device(o) * M_SLOTS +
		 (chance_of(o, 80, 98) ? p.stream % M_SLOTS : draw(o, M_SLOTS));
	return p;
}

/* In what happened: the stream, and in hundreds the slot. */
static long long shown_place(const struct place *p)
{
	return 100 * p->slot + p->stream;
}

static unsigned int put_place(struct oracle *o, const struct place *p,
			      struct capkm_place *out)
{
	out->stream = p->stream;
	memcpy(out->device, o->device[m_device(p->slot)], 16);
	if (p->stream % M_SLOTS == (u_int64_t)p->slot % M_SLOTS && chance_of(o, 50, 98))
		return 0;
	out->slot = p->slot % M_SLOTS;
	return CAPKM_PLACE_F_SLOT;
}

/* ---- what holds what */

/* The window that is on the slot, or M_NONE. */
static int own_window(struct oracle *o, int c, int slot)
{
	for (int i = 0; i < M_WINDOWS; i++) {
		const struct m_window *w = &o->m.window[i];

		if (w->used && w->client == c && w->slot == slot && !m_closed(w) &&
		    (w->state != CAPKM_WINDOW_CLOSING || w->held))
			return i;
	}
	return M_NONE;
}

/* The window that the slot joined, or M_NONE. */
static int joined_window(struct oracle *o, int c, int slot)
{
	for (int i = 0; i < M_WINDOWS; i++) {
		const struct m_window *w = &o->m.window[i];

		if (w->used && w->client == c && w->member[slot])
			return i;
	}
	return M_NONE;
}

/* The window that records on the slot, or M_NONE. */
static int recording_on(struct oracle *o, int c, int slot)
{
	int w = own_window(o, c, slot);

	if (w != M_NONE)
		return o->m.window[w].state == CAPKM_WINDOW_CAPTURE ? w : M_NONE;
	return joined_window(o, c, slot);
}

static unsigned int state_of(struct oracle *o, int window)
{
	return window == M_NONE ? CAPKM_WINDOW_NONE : o->m.window[window].state;
}

/* What STREAM_QUERY, PREPARE and JOIN say of the slot. */
static unsigned int state_of_slot(struct oracle *o, int c, int slot)
{
	int w = own_window(o, c, slot);

	if (w != M_NONE)
		return state_of(o, w);
	return joined_window(o, c, slot) == M_NONE ? CAPKM_WINDOW_NONE :
						     CAPKM_WINDOW_MEMBER;
}

/* The driver is at work there. */
static bool held_slot(struct oracle *o, int c, int slot)
{
	unsigned int state = state_of(o, own_window(o, c, slot));

	return state == CAPKM_WINDOW_OPENING || state == CAPKM_WINDOW_CLOSING;
}

/* Scopes and replays that are open on the slot. */
static int open_on(struct oracle *o, int c, int slot)
{
	int n = 0;

	for (int i = 0; i < M_SCOPES; i++)
		n += o->m.scope[i].used && o->m.scope[i].client == c &&
		     o->m.scope[i].slot == slot;
	for (int i = 0; i < M_GRAPHS; i++)
		n += o->m.graph[i].used && o->m.graph[i].client == c &&
		     o->m.graph[i].replaying && o->m.graph[i].slot == slot;
	return n;
}

/* 2: used by more than its holders, 1: the rules do not say, 0: certainly not. */
static int used(const struct oracle *o, int b)
{
	bool maybe = false;

	for (int i = 0; i < M_SCOPES; i++) {
		if (!o->m.scope[i].used)
			continue;
		if (m_bytes(&o->m.scope[i].writes, b))
			return 2;
		for (int j = 0; j < o->m.scope[i].reads.n; j++)
			maybe |= o->m.scope[i].reads.r[j].buffer == b;
		for (int j = 0; j < o->m.scope[i].writes.n; j++)
			maybe |= o->m.scope[i].writes.r[j].buffer == b;
	}
	for (int i = 0; i < M_WINDOWS; i++) {
		const struct m_window *w = &o->m.window[i];

		if (!w->used || (!w->written[b] && !w->inputs[b] && !w->seen[b]))
			continue;
		if (!m_closed(w))
			return 2;
		maybe |= w->state == CAPKM_WINDOW_ORPHANED;
	}
	for (int i = 0; i < M_GRAPHS; i++) {
		const struct m_graph *g = &o->m.graph[i];

		if (g->used && (g->writes[b] || g->inputs[b] || g->seen[b]))
			return 2;
	}
	return maybe;
}

/* 2: certainly there, 1: the rules do not say, 0: certainly gone. */
static int kept(const struct oracle *o, int b)
{
	for (int s = 0; s < M_SESSIONS; s++)
		if (o->m.session[s].held[b])
			return 2;
	return used(o, b);
}

/* What nothing refers to any more goes. */
static void sweep(struct oracle *o)
{
	struct model *m = &o->m;

	for (int i = 0; i < M_WINDOWS; i++) {
		struct m_window *w = &m->window[i];
		bool used = !m_closed(w) || w->state == CAPKM_WINDOW_ORPHANED;

		for (int s = 0; s < M_SCOPES && !used; s++)
			used = m->scope[s].used && m->scope[s].window == i;
		for (int c = 0; c < M_WINDOWS && !used; c++)
			used = m->window[c].used && m->window[c].parent == i;
		w->used = w->used && used;
	}
	for (int b = 0; b < M_BUFFERS; b++)
		if (m->buffer[b].used && !kept(o, b))
			m->buffer[b].used = false;
}

/* ---- comparing answers */

/* Can the report's failure be failure @f of the model? */
static bool fits(struct oracle *o, int f, const struct capkm_report *r)
{
	const struct m_failure *x = &o->m.failure[f];

	if ((x->kind && x->kind != r->kind) || (x->pid && x->pid != r->pid))
		return false;
	if (!x->id && ((x->scope && x->scope != r->scope) ||
		       (x->graph && x->graph != r->graph) ||
		       (x->window && x->window != r->window) ||
		       (!x->scope && x->window && r->scope)))
		return false;
	return m_is_id(&o->m, f, r->failure);
}

/* The failure that the report names, of those that the model allows. */
static int named_failure(struct oracle *o, const struct m_verdict *v,
			 const struct capkm_report *r)
{
	for (int i = 0; i < v->n; i++)
		if (m_has_id(&o->m, v->named[i].ref, r->failure))
			return v->named[i].ref;
	for (int i = 0; i < v->n; i++)
		if (fits(o, v->named[i].ref, r))
			return v->named[i].ref;
	return M_NONE;
}

/* Is the claim among what may be named at that byte? */
static bool may_name(const struct model *m, int b, int at, int window, enum m_what what,
		     int ref)
{
	struct m_verdict v;

	m_rule1(m, &m->buffer[b].byte[at], window, &v);
	for (int i = 0; i < v.n; i++)
		if (v.named[i].what == what && v.named[i].ref == ref)
			return true;
	return false;
}

/*
 * A report about byte @at of @b, asked up to @end. Returns the failure, or
 * M_NONE while it is in progress.
 */
static int check_report(struct oracle *o, const struct capkm_report *r, int b, int at,
			int end, int window, const struct m_verdict *v)
{
	enum m_what what = M_FAILED;
	int ref = M_NONE;

	if (r->buffer != o->m.buffer[b].id || r->start != (u_int64_t)at ||
	    r->end <= r->start || r->end > (u_int64_t)end)
		mismatch(o, b, at, "report of buffer %llu [%llu,%llu), expected %" PRIu64
			 " [%d,<=%d)", r->buffer, r->start, r->end, o->m.buffer[b].id, at,
			 end);
	if (v->result == M_IN_PROGRESS) {
		if (r->kind != CAPKM_KIND_IN_PROGRESS || r->failure)
			mismatch(o, b, at, "report of kind %u, failure %llu, expected in "
				 "progress", r->kind, r->failure);
		for (int i = 0; i < v->n; i++) {
			const struct m_claim *c = &v->named[i];

			if (c->what == M_OPEN ? r->scope == o->m.scope[c->ref].id :
						r->graph == o->m.graph[c->ref].id) {
				what = c->what;
				ref = c->ref;
			}
		}
	} else {
		if (r->kind == CAPKM_KIND_IN_PROGRESS)
			mismatch(o, b, at, "report of scope %llu in progress, expected a "
				 "failure", r->scope);
		ref = named_failure(o, v, r);
	}
	if (ref == M_NONE)
		mismatch(o, b, at, "report names failure %llu kind %u scope %llu graph %llu "
			 "window %llu, the model does not: %d may be, first #%d id %" PRIu64
			 " kind %u", r->failure, r->kind, r->scope, r->graph, r->window,
			 v->n, v->named[0].ref, v->result == M_TAINTED ?
			 o->m.failure[v->named[0].ref].id : 0, v->result == M_TAINTED ?
			 o->m.failure[v->named[0].ref].kind : 0);
	for (int i = at; i < (int)r->end; i++)
		if (!may_name(&o->m, b, i, window, what, ref))
			mismatch(o, b, i, "the run [%d,%llu) does not have one cause", at,
				 r->end);
	return what == M_FAILED ? ref : M_NONE;
}

/* A new failure that the engine made just now. */
static int new_failure(struct oracle *o, u_int64_t id, unsigned int kind, const char *what)
{
	int f = m_new_failure(&o->m, id);

	if (!id || f == M_NONE)
		mismatch(o, M_NONE, M_NONE, "%s: failure %" PRIu64 " is not new", what, id);
	o->m.failure[f].kind = kind;
	return f;
}

/* Is it failure @f? */
static void is_failure(struct oracle *o, int f, u_int64_t id, const char *what)
{
	if (!m_is_id(&o->m, f, id))
		mismatch(o, M_NONE, M_NONE, "%s: failure %" PRIu64 ", expected #%d id %"
			 PRIu64 " kind %u", what, id, f, o->m.failure[f].id,
			 o->m.failure[f].kind);
}

/* The rules do not say whether the window is doomed now: the engine does. */
static void ask_window(struct oracle *o, int w)
{
	struct m_window *win = &o->m.window[w];
	struct capkm_window_query q = { .window = win->id };

	EXPECT_RC(o, t_call(o->watch, CAPKM_NR_WINDOW_QUERY, &q), 0, "WINDOW_QUERY");
	if (win->doomed && !q.out_doomed)
		mismatch(o, M_NONE, M_NONE, "window %" PRIu64 " is not doomed any more",
			 win->id);
	/* One that was closed by another stream counts as doomed. */
	if (!win->abandoned)
		win->doomed = q.out_doomed;
}

static void ask_windows(struct oracle *o)
{
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &o->m.window[w];

		if (win->used && win->maybe && !m_closed(win))
			ask_window(o, w);
		win->maybe = false;
	}
}

/* ---- the operations; false: there was nothing to do it with */

static bool op_buffer_create(struct oracle *o)
{
	static const int sizes[] = { 1, 7, 16, 24, 33, 64 };
	int c = any_client(o), size = sizes[draw(o, ARRAY_SIZE(sizes))], b;
	bool exported = chance_of(o, 50, 4), fresh = chance_of(o, 40, 4);
	int device = any_device(o);
	struct capkm_buffer_create a = {
		.bytes = size,
		.flags = (exported ? CAPKM_BUFFER_CREATE_F_EXPORT : 0) |
			 (fresh ? CAPKM_BUFFER_CREATE_F_FRESH : 0),
	};

	if (c == M_NONE || FREE(o->m.buffer) == M_NONE)
		return false;
	memcpy(a.device, o->device[device], 16);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_BUFFER_CREATE, &a), 0, "BUFFER_CREATE");
	b = m_new_buffer(&o->m, a.out_buffer, size, exported, fresh,
			 o->m.client[c].session, device);
	note(o, exported ? "creates exported buffer" : "creates buffer", c, a.out_buffer,
	     size)->touches = 1ull << b;
	return true;
}

static bool op_buffer_export(struct oracle *o)
{
	int c = any_client(o), b = c == M_NONE ? M_NONE : any_held(o, c);
	struct capkm_buffer_export a = { 0 };

	if (b == M_NONE)
		return false;
	/*
	 * Its past is dated now, at the tick that the domain has reached: where
	 * others work, it is not known which that is.
	 */
	if (o->shared && !o->m.buffer[b].shared && m_dirty(&o->m, b))
		return false;
	a.buffer = o->m.buffer[b].id;
	note(o, "exports buffer", c, a.buffer, 0)->touches = 1ull << b;
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_BUFFER_EXPORT, &a), 0, "BUFFER_EXPORT");
	m_share(&o->m, b, tick_now(o, false));
	o->m.buffer[b].exported = true;
	return true;
}

static bool op_buffer_open(struct oracle *o)
{
	int c = any_client(o), b = ANY(o, o->m.buffer, it->exported), held = 0;
	struct capkm_buffer_open a = { 0 };
	int rc;

	if (c == M_NONE || b == M_NONE)
		return false;
	for (int s = 0; s < M_SESSIONS; s++)
		held += o->m.session[s].held[b];
	a.buffer = o->m.buffer[b].id;
	rc = t_call(o->user[c].cl, CAPKM_NR_BUFFER_OPEN, &a);
	/* One that nobody holds is hidden. */
	EXPECT_RC(o, rc, held ? 0 : -ENOENT, "BUFFER_OPEN");
	if (rc)
		return true;
	if (a.out_bytes != (u_int64_t)o->m.buffer[b].size)
		mismatch(o, b, M_NONE, "BUFFER_OPEN: %llu bytes", a.out_bytes);
	the_session(o, c)->held[b]++;
	note(o, "opens buffer", c, a.buffer, 0)->touches = 1ull << b;
	return true;
}

static bool op_buffer_close(struct oracle *o)
{
	int c = any_client(o), b = c == M_NONE ? M_NONE : any_held(o, c);

	if (b == M_NONE)
		return false;
	/*
	 * A private buffer that nobody holds but a graph or a scope: the rules do
	 * not say whether it is still one of its session's.
	 */
	if (!o->m.buffer[b].shared && used(o, b))
		return false;
	note(o, "closes buffer", c, o->m.buffer[b].id, 0)->touches = 1ull << b;
	EXPECT_RC(o, t_drop(o->user[c].cl, o->m.buffer[b].id), 0, "BUFFER_CLOSE");
	the_session(o, c)->held[b]--;
	return true;
}

static bool op_reset(struct oracle *o)
{
	static const struct m_writer nobody;
	int c = any_client(o), b = c == M_NONE ? M_NONE : any_held(o, c), rc;
	struct m_ranges rs = { 1, {} };
	struct capkm_buffer_reset a = { 0 };

	if (b == M_NONE)
		return false;
	rs.r[0] = any_range(o, b);
	note_ranges(note(o, "resets", c, 0, 0), NULL, &rs);
	to_claims(o, &rs, &a.claim);
	rc = t_call(o->user[c].cl, CAPKM_NR_BUFFER_RESET, &a);
	EXPECT_RC(o, rc, m_is_open(&o->m, &rs) ? -EBUSY : 0, "BUFFER_RESET");
	if (!rc && any_bytes(&rs))
		m_zero_length(&o->m, &rs, M_NONE, &nobody, tick(o, a.out_sequence, true));
	return true;
}

static bool op_written(struct oracle *o)
{
	int c = any_client(o);
	struct capkm_claim claims[M_CLAIMS] = { 0 };
	struct capkm_written a = { .claims_uptr = t_ptr(claims) };
	struct m_writer writer = { 0 };
	struct m_ranges rs;

	if (c == M_NONE)
		return false;
	rs = any_ranges(o, c, 3);
	a.claims_len = rs.n;
	to_claims(o, &rs, claims);
	note_ranges(note(o, "written", c, 0, 0), NULL, &rs);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_WRITTEN, &a), 0, "WRITTEN");
	writer.session = session_of(o, c);
	writer.sequence = a.out_sequence;
	m_zero_length(&o->m, &rs, M_NONE, &writer,
		      tick(o, a.out_sequence, any_bytes(&rs)));
	return true;
}

/* A failure that some byte of a buffer that is certainly there carries, or M_NONE. */
static int any_failure(struct oracle *o)
{
	for (int tries = 0; tries < 8; tries++) {
		int b = ANY(o, o->m.buffer, true);
		const struct m_byte *byte;

		if (b == M_NONE)
			return M_NONE;
		byte = &o->m.buffer[b].byte[draw(o, o->m.buffer[b].size)];
		for (int i = 0; i < byte->n; i++)
			if (byte->c[i].what == M_FAILED &&
			    o->m.failure[byte->c[i].ref].id && kept(o, b) == 2)
				return byte->c[i].ref;
	}
	return M_NONE;
}

static bool op_taint(struct oracle *o)
{
	int c = any_client(o), f = chance(o, 30) ? any_failure(o) : M_NONE;
	struct capkm_claim claims[M_CLAIMS] = { 0 };
	struct m_ranges rs;
	struct capkm_taint a = { .claims_uptr = t_ptr(claims) };

	if (c == M_NONE)
		return false;
	rs = any_ranges(o, c, 3);
	to_claims(o, &rs, claims);
	a.claims_len = rs.n;
	if (f == M_NONE)
		a.kind = CAPKM_KIND_IO;
	else
		a.failure = o->m.failure[f].id;
	note_ranges(note(o, "taints", c, a.failure, 0), NULL, &rs);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_TAINT, &a), 0, "TAINT");
	o->now->more = a.out_failure;
	if (!any_bytes(&rs)) {
		if (a.out_failure)
			mismatch(o, M_NONE, M_NONE, "TAINT of nothing: failure %llu",
				 a.out_failure);
		tick(o, a.out_sequence, false);
		return true;
	}
	if (f == M_NONE)
		f = new_failure(o, a.out_failure, CAPKM_KIND_IO, "TAINT");
	is_failure(o, f, a.out_failure, "TAINT");
	m_zero_length(&o->m, &rs, f, NULL, tick(o, a.out_sequence, true));
	return true;
}

/* ---- scopes */

/*
 * Work of the stream has run on the slot: of which strict windows is that their
 * own work outside of them? @ran: it did.
 */
static void escapes(struct oracle *o, int c, const struct place *p, bool ran)
{
	int inside = recording_on(o, c, p->slot);

	for (int i = 0; i < M_WINDOWS; i++) {
		struct m_window *w = &o->m.window[i];
		bool own = w->owner == p->stream;

		if (!w->used || !w->strict || w->state != CAPKM_WINDOW_CAPTURE ||
		    i == inside || w->doomed ||
		    o->m.client[w->client].session != o->m.client[c].session)
			continue;
		for (int slot = 0; slot < M_PLACES; slot++)
			own |= w->member[slot] == p->stream + 1;
		if (!own)
			continue;
		/*
		 * Not said: whether work escapes that was skipped or refused, work
		 * on the same stream of another client, and what a child records.
		 */
		if (ran && w->client == c && !m_descends(&o->m, inside, i))
			w->doomed = true;
		else
			w->maybe = true;
	}
}

/* A call of a client that may be fast. */
static int call_counted(struct oracle *o, int c, unsigned int nr, void *arg,
			u_int64_t *all, u_int64_t *fast)
{
	const u_int64_t before = capkm_test_fast_count();
	int rc = t_call(o->user[c].cl, nr, arg);

	if (!o->user[c].cl->rpc) {
		++*all;
		*fast += capkm_test_fast_count() - before;
	}
	return rc;
}

/* The enter said @e, and the model says that the reads are @v at @first, @at. */
struct entering {
	int client, window, fault;
	bool suspended, poison;
	struct place place;
	struct m_ranges reads, writes;
	struct m_verdict v;
	int first, at;
};

static bool may_enter_so(const struct entering *x, unsigned int result)
{
	/*
	 * Not said: which comes first of a fault and a child that suspends the
	 * window, and whether either comes before an input that is in progress.
	 */
	bool in_progress = result == CAPKM_IN_PROGRESS && x->v.result == M_IN_PROGRESS;

	if (x->fault != M_NONE && x->suspended)
		return result == CAPKM_SKIPPED || result == CAPKM_REFUSED || in_progress;
	if (x->fault != M_NONE)
		return result == CAPKM_SKIPPED || in_progress;
	if (x->suspended)
		return result == CAPKM_REFUSED || in_progress;
	if (x->v.result == M_CLEAN || (x->v.result == M_TAINTED && x->poison))
		return result == CAPKM_CLEAN;
	return result == (x->v.result == M_IN_PROGRESS ? CAPKM_IN_PROGRESS :
							 CAPKM_SKIPPED);
}

/* It was not let in: a scope of zero length that failed. */
static void enter_fails(struct oracle *o, const struct entering *x, int f,
			u_int64_t sequence)
{
	escapes(o, x->client, &x->place, false);
	m_doom(&o->m, x->window);
	m_zero_length(&o->m, &x->writes, f, NULL,
		      tick(o, sequence, any_bytes(&x->writes)));
	o->m.client[x->client].slot[x->place.slot].skipped = sequence;
}

static void entered(struct oracle *o, int s, const struct entering *x,
		    const struct capkm_scope_enter *a, const struct capkm_report *r)
{
	int f = M_NONE;

	switch (a->out_result) {
	case CAPKM_REFUSED:
		o->now->what = "is refused";
		f = m_new_of_kind(&o->m, CAPKM_KIND_REFUSED);
		/* If no byte carries it the failure need not be one. */
		if (a->out_reports && r->failure)
			is_failure(o, f, r->failure, "SCOPE_ENTER, refused");
		enter_fails(o, x, f, a->out_sequence);
		return;
	case CAPKM_IN_PROGRESS:
		if (a->out_reports != 1)
			mismatch(o, M_NONE, M_NONE, "SCOPE_ENTER, in progress: %u reports",
				 a->out_reports);
		check_report(o, r, x->reads.r[x->first].buffer, x->at,
			     x->reads.r[x->first].end, x->window, &x->v);
		return;
	case CAPKM_SKIPPED:
		if (a->out_reports != 1)
			mismatch(o, M_NONE, M_NONE, "SCOPE_ENTER, skipped: %u reports",
				 a->out_reports);
		if (x->fault != M_NONE) {
			o->now->what = "is skipped for a fault";
			is_failure(o, x->fault, r->failure, "SCOPE_ENTER after a fault");
			f = x->fault;
		} else {
			o->now->what = "is skipped";
			f = check_report(o, r, x->reads.r[x->first].buffer, x->at,
					 x->reads.r[x->first].end, x->window, &x->v);
		}
		enter_fails(o, x, f, a->out_sequence);
		return;
	}
	/* Whether a poisoned scope is told of its input is not said. */
	if (x->v.result == M_TAINTED)
		f = a->out_reports ? check_report(o, r, x->reads.r[x->first].buffer, x->at,
						  x->reads.r[x->first].end, x->window,
						  &x->v) : x->v.named[0].ref;
	else if (a->out_reports)
		mismatch(o, M_NONE, M_NONE, "SCOPE_ENTER: %u reports", a->out_reports);
	escapes(o, x->client, &x->place, true);
	m_enter(&o->m, s, a->out_scope, x->client, x->place.slot, x->place.stream,
		x->window, f, &x->reads, &x->writes,
		tick(o, a->out_sequence, any_bytes(&x->writes) && !is_fast(a->out_scope)));
}

static bool op_enter(struct oracle *o)
{
	int s = FREE(o->m.scope), rc;
	struct entering x = { .client = any_client(o), .place = any_place(o) };
	struct capkm_claim r[M_CLAIMS], w[M_CLAIMS];
	struct capkm_report report;
	struct capkm_scope_enter a = {
		.reads_uptr = t_ptr(r), .writes_uptr = t_ptr(w), .reports_len = 1,
		.reports_uptr = t_ptr(&report),
	};
	struct m_context *device;

	if (s == M_NONE || x.client == M_NONE)
		return false;
	/* A window has a limited number of keys here. */
	x.window = recording_on(o, x.client, x.place.slot);
	if (x.window != M_NONE && o->m.window[x.window].keys_n > M_KEYS / 2)
		return false;
	x.poison = chance_of(o, 15, 2);
	x.reads = any_ranges(o, x.client, 3);
	x.writes = any_ranges(o, x.client, 3);
	to_claims(o, &x.reads, r);
	to_claims(o, &x.writes, w);
	a.reads_len = x.reads.n;
	a.writes_len = x.writes.n;
	a.flags = put_place(o, &x.place, &a.place) |
		  (x.poison ? CAPKM_SCOPE_ENTER_F_POISON : 0);
	note_ranges(note(o, x.poison ? "enters poisoned" : "enters", x.client, 0,
			 shown_place(&x.place)), &x.reads, &x.writes);
	rc = call_counted(o, x.client, CAPKM_NR_SCOPE_ENTER, &a, &o->count.enters,
			  &o->count.fast_enters);
	device = &o->m.client[x.client].device[m_device(x.place.slot)];
	device->maybe = true;
	if (held_slot(o, x.client, x.place.slot)) {
		EXPECT_RC(o, rc, -EBUSY, "SCOPE_ENTER on a held slot");
		return true;
	}
	EXPECT_RC(o, rc, 0, "SCOPE_ENTER");
	o->now->id = a.out_scope;
	x.fault = device->fault;
	x.suspended = x.window != M_NONE && m_suspended(&o->m, x.window);
	x.first = m_judge(&o->m, &x.reads, x.window, &x.at, &x.v);
	if (!may_enter_so(&x, a.out_result) ||
	    !a.out_scope != (a.out_result != CAPKM_CLEAN))
		mismatch(o, x.first == M_NONE ? M_NONE : x.reads.r[x.first].buffer, x.at,
			 "SCOPE_ENTER: result %u scope %llu; inputs %d, fault %d, suspended "
			 "%d, poison %d", a.out_result, a.out_scope, x.v.result, x.fault,
			 x.suspended, x.poison);
	if (a.out_window != (a.out_scope && x.window != M_NONE ?
			     o->m.window[x.window].id : 0))
		mismatch(o, M_NONE, M_NONE, "SCOPE_ENTER: window %llu", a.out_window);
	device->used |= a.out_result == CAPKM_CLEAN;
	entered(o, s, &x, &a, &report);
	return true;
}

/* That of an exit is after all on its slot, and on its buffers. */
static void check_sequence(struct oracle *o, const struct m_scope *scope, u_int64_t sequence)
{
	u_int64_t last = o->m.client[scope->client].slot[scope->slot].sequence;
	bool own = !(sequence % CAPKM_SEQUENCE_STEP);

	for (int i = 0; i < scope->writes.n; i++)
		if (o->m.buffer[scope->writes.r[i].buffer].written > last)
			last = o->m.buffer[scope->writes.r[i].buffer].written;
	if ((!own && !is_fast(scope->id)) || (any_bytes(&scope->writes) && sequence <= last))
		mismatch(o, M_NONE, M_NONE, "SCOPE_EXIT of %" PRIx64 " at %" PRIu64 ", after %"
			 PRIu64, scope->id, sequence, last);
}

static bool op_exit(struct oracle *o)
{
	int s = ANY(o, o->m.scope, true), f;
	bool failed = chance_of(o, 25, 1), complete = chance(o, 50), any;
	struct capkm_scope_exit a = { 0 };
	struct m_scope *scope;

	if (s == M_NONE)
		return false;
	scope = &o->m.scope[s];
	any = any_bytes(&scope->writes);
	a.scope = scope->id;
	a.flags = complete ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0;
	if (failed) {
		a.flags |= CAPKM_SCOPE_EXIT_F_FAILED;
		a.kind = CAPKM_KIND_LAUNCH;
	}
	note_ranges(note(o, failed ? "exits badly" : complete ? "exits" : "exits, enqueued",
			 scope->client, scope->id, 0), &scope->reads, &scope->writes);
	EXPECT_RC(o, t_call(o->user[scope->client].cl, CAPKM_NR_SCOPE_EXIT, &a), 0,
		  "SCOPE_EXIT");
	o->now->more = a.out_failure;
	f = m_exit_failure(&o->m, s);
	if (failed)
		f = any ? new_failure(o, a.out_failure, CAPKM_KIND_LAUNCH, "SCOPE_EXIT") :
			  m_new_failure(&o->m, 0);
	if (any && f == M_NONE && a.out_failure)
		mismatch(o, M_NONE, M_NONE, "SCOPE_EXIT: failure %llu", a.out_failure);
	if (any && f != M_NONE)
		is_failure(o, f, a.out_failure, "SCOPE_EXIT");
	check_sequence(o, scope, a.out_sequence);
	m_exit(&o->m, s, f, complete,
	       tick(o, a.out_sequence, any && !(a.out_sequence % CAPKM_SEQUENCE_STEP)),
	       a.out_sequence);
	return true;
}

/* ---- CHECK */

/* The lowest byte of the range that is so, or M_NONE. */
static int first_unconfirmed(const struct oracle *o, const struct m_range *r, bool own)
{
	for (int i = r->start; i < r->end; i++)
		if (m_unconfirmed(&o->m, r->buffer, i, own))
			return i;
	return M_NONE;
}

static int first_stale(const struct oracle *o, const struct m_range *r, u_int64_t since)
{
	for (int i = r->start; i < r->end; i++)
		if (o->m.buffer[r->buffer].byte[i].writer.sequence <= since)
			return i;
	return M_NONE;
}

/* The session wrote the byte, or may do so, and has not confirmed it. */
static bool is_pending_of(const struct oracle *o, int b, int at, u_int64_t session)
{
	const struct m_byte *byte = &o->m.buffer[b].byte[at];

	if (!o->m.buffer[b].shared)
		return session == o->m.buffer[b].creator;
	for (int g = 0; g < M_GRAPHS; g++)
		if (m_may_write(&o->m, g, b, at) &&
		    session_of(o, o->m.graph[g].client) == session)
			return true;
	for (int i = 0; i < byte->n; i++)
		if (byte->c[i].what == M_UNCONFIRMED &&
		    session_of(o, byte->c[i].ref / M_PLACES) == session)
			return true;
	return false;
}

struct checking {
	unsigned int flags;
	u_int64_t since;
	struct m_ranges rs;
	bool tainted;
	/* Of the clean claims: the first byte that is so, or M_NONE. */
	int pending[M_CLAIMS], stale[M_CLAIMS];
	unsigned int pending_n, stale_n;
};

/* A report that is no failure's; returns whether it is one. */
static bool is_answer(struct oracle *o, const struct checking *x,
		      const struct capkm_report *r)
{
	bool pending = r->kind == CAPKM_KIND_UNCONFIRMED && !r->failure;

	if (!pending && r->kind != CAPKM_KIND_STALE)
		return false;
	for (int i = 0; i < x->rs.n; i++) {
		int at = pending ? x->pending[i] : x->stale[i];
		int b = x->rs.r[i].buffer;

		if (at != M_NONE && r->buffer == o->m.buffer[b].id &&
		    r->start == (u_int64_t)at && r->end > r->start &&
		    r->end <= (u_int64_t)x->rs.r[i].end &&
		    (!pending || is_pending_of(o, b, at, r->session)))
			return true;
	}
	mismatch(o, x->rs.r[0].buffer, M_NONE, "CHECK: report of kind %u, [%llu,%llu) of %llu, "
		 "session %llu: the model does not say so", r->kind, r->start, r->end,
		 r->buffer, r->session);
}

/* What must have been reported of the tainted claims. */
static void check_taint(struct oracle *o, struct checking *x,
			const struct capkm_report *r, unsigned int n)
{
	unsigned int reports = 0;
	int seen[M_CLAIMS], seen_n = 0;

	for (int i = 0; i < x->rs.n; i++) {
		const struct m_range *range = &x->rs.r[i];
		struct m_verdict v;
		bool again = false;
		int f, at;

		at = m_judge_set(&o->m, range->buffer, m_mask(range->start, range->end),
				 M_NONE, &v);
		if (at == M_NONE)
			continue;
		/* A failure that an earlier claim reported is not reported again. */
		for (int j = 0; v.result == M_TAINTED && j < seen_n; j++)
			for (int k = 0; k < v.n; k++)
				again |= seen[j] == v.named[k].ref;
		/* Of those of a death another one may have been. */
		if (again && v.n == 1 && o->m.failure[v.named[0].ref].ids < 2)
			continue;
		if (reports >= n ||
		    (again && (r[reports].buffer != o->m.buffer[range->buffer].id ||
			       r[reports].start != (u_int64_t)at))) {
			if (again)
				continue;
			mismatch(o, range->buffer, at, "CHECK [%d,%d): %u reports",
				 range->start, range->end, n);
		}
		f = check_report(o, &r[reports++], range->buffer, at, range->end, M_NONE,
				 &v);
		if (f != M_NONE)
			seen[seen_n++] = f;
	}
	if (reports != n)
		mismatch(o, x->rs.n ? x->rs.r[0].buffer : M_NONE, M_NONE, "CHECK: %u "
			 "reports of taint, expected %u", n, reports);
}

/* A sequence of one of the last ticks. */
static uint64_t a_while_ago(struct oracle *o, uint64_t ticks)
{
	const uint64_t all = o->m.sequence / CAPKM_SEQUENCE_STEP;

	return (all - draw(o, all < ticks ? all + 1 : ticks)) * CAPKM_SEQUENCE_STEP;
}

/*
 * What differs from calls, and has to: between two of the domain's sequences fast exits
 * of two slots are in no order. Where that decides, both are there.
 */
static void check_order(struct oracle *o, int b)
{
	const struct m_buffer *buf = &o->m.buffer[b];
	int c = buf->shared ? M_NONE : m_sole_client(&o->m, b);

	for (int slot = 0; c != M_NONE && slot < M_PLACES; slot++) {
		const struct m_slot *s = &o->m.client[c].slot[slot];
		bool later = m_through_later(&o->m, b, c, slot);
		bool earlier = m_not_through_earlier(&o->m, b, c, slot);

		o->count.later += later;
		o->count.earlier += earlier;
		if ((later || earlier) && s->first / CAPKM_SEQUENCE_STEP !=
					  buf->written / CAPKM_SEQUENCE_STEP)
			mismatch(o, b, M_NONE, "slot %d was left at %" PRIu64 ", %s", slot,
				 s->first, later ? "later" : "earlier");
	}
}

static void expect_of_check(struct oracle *o, struct checking *x)
{
	for (int i = 0; i < x->rs.n; i++) {
		const struct m_range *r = &x->rs.r[i];
		struct m_verdict v;

		x->pending[i] = x->stale[i] = M_NONE;
		if (m_judge_set(&o->m, r->buffer, m_mask(r->start, r->end), M_NONE, &v) !=
		    M_NONE) {
			x->tainted = true;
			continue;
		}
		x->pending[i] = first_unconfirmed(o, r, x->flags & CAPKM_CHECK_F_CONFIRMED);
		x->pending_n += x->pending[i] != M_NONE;
		if (x->flags & CAPKM_CHECK_F_CONFIRMED)
			check_order(o, r->buffer);
		if (x->flags & CAPKM_CHECK_F_WRITTEN)
			x->stale[i] = first_stale(o, r, x->since);
		x->stale_n += x->stale[i] != M_NONE;
	}
}

static bool op_check(struct oracle *o)
{
	int c = any_client(o), rc, untracked = M_NONE;
	struct checking x = { 0 };
	struct capkm_claim claims[M_CLAIMS] = { 0 };
	struct capkm_report r[16], taint[16];
	struct capkm_check a = {
		.claims_uptr = t_ptr(claims), .reports_uptr = t_ptr(r),
		.reports_len = ARRAY_SIZE(r),
	};
	unsigned int n = 0, pending = 0, stale = 0, want;
	bool empty = true;

	if (c == M_NONE)
		return false;
	x.rs = any_ranges(o, c, M_CLAIMS);
	to_claims(o, &x.rs, claims);
	a.claims_len = x.rs.n;
	if (chance_of(o, 40, 15))
		x.flags |= CAPKM_CHECK_F_CONFIRMED;
	if (chance_of(o, 30, 3)) {
		x.flags |= CAPKM_CHECK_F_WRITTEN;
		a.since = x.since = a_while_ago(o, 200);
	}
	a.flags = x.flags;
	rc = call_counted(o, c, CAPKM_NR_CHECK, &a, &o->count.checks,
			  &o->count.fast_checks);
	for (int i = x.rs.n - 1; i >= 0 && (x.flags & CAPKM_CHECK_F_WRITTEN); i--) {
		const struct m_buffer *buf = &o->m.buffer[x.rs.r[i].buffer];

		if (buf->shared || buf->fresh)
			continue;
		untracked = i;
		empty = empty && x.rs.r[i].start == x.rs.r[i].end;
	}
	/* An empty claim on a buffer that has no writers: not said. */
	if (untracked != M_NONE && (!empty || rc)) {
		EXPECT_RC(o, rc, -EOPNOTSUPP, "CHECK of a buffer without writers");
		if (!empty && (int)a.out_error_index > x.rs.n)
			mismatch(o, M_NONE, M_NONE, "CHECK: error index %u",
				 a.out_error_index);
		return true;
	}
	EXPECT_RC(o, rc, 0, "CHECK");
	expect_of_check(o, &x);
	if (a.out_reports > ARRAY_SIZE(r))
		mismatch(o, M_NONE, M_NONE, "CHECK: %u reports", a.out_reports);
	for (unsigned int i = 0; i < a.out_reports; i++) {
		if (!is_answer(o, &x, &r[i]))
			taint[n++] = r[i];
		else if (r[i].kind == CAPKM_KIND_STALE)
			stale++;
		else
			pending++;
	}
	check_taint(o, &x, taint, n);
	want = x.tainted ? CAPKM_TAINTED :
	       x.flags & CAPKM_CHECK_F_CONFIRMED && x.pending_n ? CAPKM_PENDING :
	       x.stale_n ? CAPKM_STALE : CAPKM_CLEAN;
	if (a.out_result != want || (!x.tainted && a.out_unconfirmed != x.pending_n))
		mismatch(o, x.rs.n ? x.rs.r[0].buffer : M_NONE, M_NONE, "CHECK flags %u since "
			 "%" PRIu64 " of %d: result %u, %u unconfirmed, expected %u, %u",
			 x.flags, x.since, x.rs.n, a.out_result, a.out_unconfirmed, want,
			 x.pending_n);
	/* Whether the other answer is reported beside the result is not said. */
	if ((want == CAPKM_PENDING && pending != x.pending_n) ||
	    (want == CAPKM_STALE && stale != x.stale_n) ||
	    (want == CAPKM_CLEAN && a.out_reports))
		mismatch(o, x.rs.r[0].buffer, M_NONE, "CHECK: result %u, %u reports of "
			 "pending and %u of stale, expected %u and %u", want, pending, stale,
			 x.pending_n, x.stale_n);
	return true;
}

/* ---- windows */

/* A recording window that can be the parent of another one, or M_NONE. */
static int any_parent(struct oracle *o, int c)
{
	int w = ANY(o, o->m.window, it->client == c &&
		    it->state == CAPKM_WINDOW_CAPTURE), depth = 0;

	if (w == M_NONE || chance(o, 10))
		w = ANY(o, o->m.window, it->client == c && !m_closed(it));
	for (int up = w; up != M_NONE; up = o->m.window[up].parent)
		depth++;
	return depth > 3 ? M_NONE : w;
}

static bool op_prepare(struct oracle *o)
{
	int c = any_client(o), w = FREE(o->m.window), parent = M_NONE, rc;
	struct place p = any_place(o);
	struct capkm_window_prepare a = { 0 };
	bool strict = chance(o, 20), fit = true;
	struct m_window *win;
	unsigned int state;

	if (w == M_NONE || c == M_NONE)
		return false;
	if (chance(o, 40))
		parent = any_parent(o, c);
	a.flags = put_place(o, &p, &a.place);
	if (strict)
		a.flags |= CAPKM_WINDOW_PREPARE_F_STRICT;
	if (parent != M_NONE) {
		win = &o->m.window[parent];
		a.parent = win->id;
		fit = win->state == CAPKM_WINDOW_CAPTURE && !win->doomed;
		/* Closed by another stream: whether it is doomed is not asked here. */
	}
	state = state_of_slot(o, c, p.slot);
	rc = t_call(o->user[c].cl, CAPKM_NR_WINDOW_PREPARE, &a);
	o->m.client[c].device[m_device(p.slot)].maybe = true;
	/* Which of two errors comes first is not said. */
	EXPECT_RC2(o, rc, !fit ? -EINVAL : state ? -EBUSY : 0,
		   state ? -EBUSY : !fit ? -EINVAL : 0, "WINDOW_PREPARE");
	if ((rc == -EBUSY && a.out_state != state) ||
	    (!rc && a.out_state != CAPKM_WINDOW_PREPARE))
		mismatch(o, M_NONE, M_NONE, "WINDOW_PREPARE: state %u", a.out_state);
	if (rc)
		return true;
	o->m.client[c].device[m_device(p.slot)].used = true;
	note(o, parent == M_NONE ? "prepares window" : "prepares child window", c,
	     a.out_window, shown_place(&p));
	win = &o->m.window[w];
	memset(win, 0, sizeof(*win));
	win->used = true;
	win->id = a.out_window;
	win->client = c;
	win->slot = p.slot;
	win->parent = parent;
	win->owner = p.stream;
	win->strict = strict;
	win->state = CAPKM_WINDOW_PREPARE;
	o->prepared++;
	return true;
}

/* A place on the window's own slot. */
static unsigned int put_own_slot(struct oracle *o, const struct m_window *w,
				 u_int64_t stream, struct capkm_place *out)
{
	struct place p = { stream, w->slot };

	return put_place(o, &p, out);
}

static bool op_begin(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_PREPARE ||
				    it->state == CAPKM_WINDOW_OPENING);
	struct m_window *win;
	struct capkm_window_begin a = { 0 };
	bool second;
	int rc;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	second = win->state == CAPKM_WINDOW_OPENING;
	a.flags = put_own_slot(o, win, draw(o, STREAMS), &a.place) |
		  (second ? CAPKM_WINDOW_F_DRIVER_DONE : 0);
	rc = t_call(o->user[win->client].cl, CAPKM_NR_WINDOW_BEGIN, &a);
	EXPECT_RC(o, rc, open_on(o, win->client, win->slot) ? -EBUSY : 0, "WINDOW_BEGIN");
	if (rc)
		return true;
	win->state = second || the_session(o, win->client)->backend ==
		     CAPKM_BACKEND_SOFTWARE ? CAPKM_WINDOW_CAPTURE : CAPKM_WINDOW_OPENING;
	note(o, "begins window", win->client, win->id, win->state);
	if (a.out_state != win->state || a.out_window != win->id ||
	    a.out_owner != win->owner)
		mismatch(o, M_NONE, M_NONE, "WINDOW_BEGIN: state %u window %llu owner %llu",
			 a.out_state, a.out_window, a.out_owner);
	return true;
}

static bool op_end(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CAPTURE || it->held), rc;
	struct m_window *win;
	struct capkm_window_end a = { 0 };
	u_int64_t stream;
	bool second;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	second = win->held;
	stream = chance(o, 85) ? win->owner : draw(o, STREAMS);
	a.flags = put_own_slot(o, win, stream, &a.place) |
		  (second ? CAPKM_WINDOW_F_DRIVER_DONE : 0);
	note(o, second ? "ends window, done" : "ends window", win->client, win->id, stream);
	rc = t_call(o->user[win->client].cl, CAPKM_NR_WINDOW_END, &a);
	EXPECT_RC(o, rc, m_children(&o->m, w) ? -EBUSY : 0, "WINDOW_END");
	if (rc)
		return true;
	if (a.out_window != win->id || a.out_owner != win->owner)
		mismatch(o, M_NONE, M_NONE, "WINDOW_END: window %llu owner %llu",
			 a.out_window, a.out_owner);
	if (second) {
		win->held = false;
		return true;
	}
	win->state = CAPKM_WINDOW_CLOSING;
	win->held = the_session(o, win->client)->backend == CAPKM_BACKEND_HARDWARE;
	win->abandoned = stream != win->owner;
	if (a.out_verdict != (win->abandoned ? CAPKM_VERDICT_ABANDONED :
					       CAPKM_VERDICT_OWNED))
		mismatch(o, M_NONE, M_NONE, "WINDOW_END: verdict %u", a.out_verdict);
	for (int slot = 0; slot < M_PLACES; slot++)
		win->was_member[slot] |= win->member[slot] != 0;
	memset(win->member, 0, sizeof(win->member));
	/* INCOMPLETE: the sets of open scopes count as recorded. */
	for (int s = 0; s < M_SCOPES; s++) {
		struct m_scope *scope = &o->m.scope[s];

		if (!scope->used || scope->window != w)
			continue;
		win->doomed = true;
		m_record(win, &scope->writes);
	}
	if (a.out_recorded != (u_int64_t)win->keys_n)
		mismatch(o, M_NONE, M_NONE, "WINDOW_END: %llu recorded, expected %d",
			 a.out_recorded, win->keys_n);
	if (!win->abandoned && a.out_doomed != win->doomed)
		mismatch(o, M_NONE, M_NONE, "WINDOW_END: doomed %u, expected %d",
			 a.out_doomed, win->doomed);
	return true;
}

static int order(const void *a, const void *b)
{
	const struct capkm_claim *x = a, *y = b;

	if (x->buffer != y->buffer)
		return x->buffer < y->buffer ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* The keys as the engine has them: ascending. */
static void sorted_keys(const struct oracle *o, const struct m_range *keys, int n,
			struct capkm_claim *out)
{
	for (int i = 0; i < n; i++)
		out[i] = (struct capkm_claim){ o->m.buffer[keys[i].buffer].id,
					       keys[i].start, keys[i].end };
	qsort(out, n, sizeof(*out), order);
}

static bool op_take(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CLOSING);
	struct capkm_claim got[M_KEYS + 1], want[M_KEYS];
	struct capkm_window_take a = {
		.claims_uptr = t_ptr(got), .claims_len = M_KEYS + 1,
		.flags = CAPKM_WINDOW_TAKE_F_REWIND,
	};
	struct m_window *win;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	a.window = win->id;
	EXPECT_RC(o, t_call(o->user[win->client].cl, CAPKM_NR_WINDOW_TAKE, &a), 0,
		  "WINDOW_TAKE");
	sorted_keys(o, win->keys, win->keys_n, want);
	if (a.out_claims != (unsigned int)win->keys_n ||
	    memcmp(got, want, win->keys_n * sizeof(*want)))
		mismatch(o, M_NONE, M_NONE, "WINDOW_TAKE of %" PRIu64 ": %u claims, "
			 "expected %d or others", win->id, a.out_claims, win->keys_n);
	return true;
}

/* One set of a graph, byte by byte. */
static void check_graph_set(struct oracle *o, int g, unsigned int flags,
			    const u_int64_t *want, bool keys)
{
	static __thread struct capkm_claim got[512];
	struct capkm_claim sorted[M_KEYS];
	struct m_graph *graph = &o->m.graph[g];
	struct capkm_graph_query q = {
		.graph = graph->id, .flags = flags, .claims_uptr = t_ptr(got),
		.claims_len = ARRAY_SIZE(got),
	};
	u_int64_t mask[M_BUFFERS] = { 0 };

	EXPECT_RC(o, t_call(o->watch, CAPKM_NR_GRAPH_QUERY, &q), 0, "GRAPH_QUERY");
	if (q.out_claims == ARRAY_SIZE(got))
		mismatch(o, M_NONE, M_NONE, "GRAPH_QUERY: too many claims for this test");
	for (unsigned int i = 0; i < q.out_claims; i++)
		for (int b = 0; b < M_BUFFERS; b++)
			if (o->m.buffer[b].used && o->m.buffer[b].id == got[i].buffer)
				mask[b] |= m_mask(got[i].start, got[i].end);
	for (int b = 0; b < M_BUFFERS; b++)
		if (mask[b] != want[b])
			mismatch(o, b, M_NONE, "GRAPH_QUERY of %" PRIu64 " flags %u: bytes %"
				 PRIx64 ", expected %" PRIx64, graph->id, flags, mask[b],
				 want[b]);
	if (!keys)
		return;
	sorted_keys(o, graph->keys, graph->keys_n, sorted);
	if (q.out_claims != (unsigned int)graph->keys_n ||
	    memcmp(got, sorted, graph->keys_n * sizeof(*sorted)))
		mismatch(o, M_NONE, M_NONE, "GRAPH_QUERY: other claims");
	if (q.out_replaying != graph->replaying)
		mismatch(o, M_NONE, M_NONE, "GRAPH_QUERY: replaying %u", q.out_replaying);
}

static void check_graph(struct oracle *o, int g)
{
	check_graph_set(o, g, 0, o->m.graph[g].writes, true);
	check_graph_set(o, g, CAPKM_GRAPH_QUERY_F_INPUTS, o->m.graph[g].inputs, false);
	check_graph_set(o, g, CAPKM_GRAPH_QUERY_F_SEEN, o->m.graph[g].seen, false);
}

/* The first report of a refusal is the window's failure, if bytes carry it. */
static void learn_refusal(struct oracle *o, int w, const struct capkm_report *r,
			  unsigned int reports)
{
	int f = o->m.window[w].failure;

	for (int b = 0; b < M_BUFFERS; b++)
		if (o->m.buffer[b].used && m_carries(&o->m, b, f)) {
			if (!reports || !m_is_id(&o->m, f, r->failure))
				mismatch(o, b, M_NONE, "window %" PRIu64 " is refused with "
					 "failure %llu, its bytes carry #%d id %" PRIu64,
					 o->m.window[w].id, r->failure, f,
					 o->m.failure[f].id);
			return;
		}
}

static bool op_seal(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CLOSING), g;
	bool no_inputs = chance(o, 10), refused;
	struct m_window *win;
	struct m_graph *graph;
	struct t_seal s;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	g = FREE(o->m.graph);
	if (g == M_NONE)
		return false;
	refused = win->doomed || win->abandoned;
	note_masks(note(o, win->parent == M_NONE ? "seals window" : "seals child window",
			win->client, win->id, 0), win->written);
	/* What it would mean for a child is not said. */
	no_inputs = no_inputs && win->parent == M_NONE;
	s = t_try_seal(o->user[win->client].cl, win->id,
		       no_inputs ? CAPKM_WINDOW_SEAL_F_NO_INPUTS : 0);
	EXPECT_RC(o, s.rc, win->held ? -EBUSY : 0, "WINDOW_SEAL");
	if (s.rc)
		return true;
	if (s.result != (refused ? CAPKM_REFUSED : CAPKM_CLEAN) ||
	    !s.graph != (refused || win->parent != M_NONE))
		mismatch(o, M_NONE, M_NONE, "WINDOW_SEAL of %" PRIu64 ": result %u graph %"
			 PRIu64 ", doomed %d abandoned %d", win->id, s.result, s.graph,
			 win->doomed, win->abandoned);
	o->now->more = s.graph;
	if (refused) {
		o->now->what = "seals in vain window";
		m_refuse(&o->m, w, 0);
		learn_refusal(o, w, s.r, s.reports);
	} else if (win->parent != M_NONE) {
		o->sealed++;
		m_seal_child(&o->m, w);
	} else {
		o->sealed++;
		graph = &o->m.graph[g];
		memset(graph, 0, sizeof(*graph));
		graph->used = true;
		graph->id = s.graph;
		graph->client = win->client;
		m_seal(&o->m, w, g, no_inputs);
		check_graph(o, g);
	}
	return true;
}

static bool op_refuse(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CLOSING);
	struct m_window *win;
	struct t_seal s;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	note_masks(note(o, "refuses window", win->client, win->id, 0), win->written);
	s = t_refuse_(o->user[win->client].cl, win->id, "refused");
	m_refuse(&o->m, w, 0);
	learn_refusal(o, w, s.r, s.reports);
	return true;
}

static bool op_abort(struct oracle *o)
{
	int c = any_client(o), w;
	struct place p = any_place(o);
	struct capkm_window_abort a = { 0 };

	/* What it does on the slot of a member is not said. */
	if (c == M_NONE || state_of_slot(o, c, p.slot) == CAPKM_WINDOW_MEMBER)
		return false;
	w = own_window(o, c, p.slot);
	a.flags = put_place(o, &p, &a.place);
	note(o, "aborts window", c, w == M_NONE ? 0 : o->m.window[w].id, p.stream);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_WINDOW_ABORT, &a), 0, "WINDOW_ABORT");
	if (a.out_window != (w == M_NONE ? 0 : o->m.window[w].id))
		mismatch(o, M_NONE, M_NONE, "WINDOW_ABORT: window %llu", a.out_window);
	o->m.client[c].device[m_device(p.slot)].maybe = true;
	if (w != M_NONE)
		m_refuse(&o->m, w, CAPKM_KIND_ABORTED);
	return true;
}

static bool op_abandon(struct oracle *o)
{
	int c = any_client(o), w = ANY(o, o->m.window, !m_closed(it) ||
				       it->state == CAPKM_WINDOW_ORPHANED);
	struct m_window *win;

	if (w == M_NONE || c == M_NONE)
		return false;
	win = &o->m.window[w];
	/* Most of the time only orphans. */
	if (win->state != CAPKM_WINDOW_ORPHANED && !chance(o, 20))
		return false;
	note(o, "abandons window", c, win->id, win->state);
	EXPECT_RC(o, t_abandon(o->user[c].cl, win->id), 0, "WINDOW_ABANDON");
	if (win->state == CAPKM_WINDOW_ORPHANED)
		win->state = CAPKM_WINDOW_REFUSED;
	else
		m_refuse(&o->m, w, CAPKM_KIND_ABANDONED);
	return true;
}

static bool op_window_fail(struct oracle *o)
{
	int c = any_client(o), w = ANY(o, o->m.window, !m_closed(it));
	struct capkm_window_fail f;

	if (w == M_NONE || c == M_NONE)
		return false;
	note(o, "fails window", c, o->m.window[w].id, 0);
	f = t_window_fail_(o->user[c].cl, o->m.window[w].id, 1, 900, "op", "text");
	if (f.out_state != o->m.window[w].state)
		mismatch(o, M_NONE, M_NONE, "WINDOW_FAIL: state %u", f.out_state);
	if (o->m.window[w].state != CAPKM_WINDOW_PREPARE)
		m_doom(&o->m, w);
	return true;
}

static bool op_record(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CAPTURE ||
				    it->state == CAPKM_WINDOW_CLOSING ||
				    it->state == CAPKM_WINDOW_PREPARE);
	struct capkm_claim r[M_CLAIMS], x[M_CLAIMS];
	struct m_ranges reads, writes, none = { 0 };
	struct m_window *win;
	bool seen = chance(o, 25);
	int rc;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	if (win->keys_n > M_KEYS / 2)
		return false;
	reads = any_ranges(o, win->client, 2);
	writes = any_ranges(o, win->client, 2);
	if (seen)
		reads = none;
	to_claims(o, &reads, r);
	to_claims(o, &writes, x);
	note_ranges(note(o, seen ? "saw in window" : "records in window", win->client,
			 win->id, 0), &reads, &writes);
	rc = t_try_record(o->user[win->client].cl, win->id,
			  seen ? CAPKM_WINDOW_RECORD_F_SEEN : 0, r, reads.n, x, writes.n);
	EXPECT_RC(o, rc, m_suspended(&o->m, w) ? -EBUSY : 0, "WINDOW_RECORD");
	if (rc || win->state == CAPKM_WINDOW_PREPARE)
		return true;
	if (seen)
		for (int b = 0; b < M_BUFFERS; b++)
			win->seen[b] |= m_bytes(&writes, b);
	else
		m_record_claims(&o->m, w, &reads, &writes,
				tick_now(o, any_bytes(&writes)));
	return true;
}

/* The driver has merged the captures of two windows. */
static void merges(struct oracle *o, int w, int other, const struct capkm_window_join *a)
{
	o->now->what = "merges with window";
	if (a->out_result != CAPKM_REFUSED)
		mismatch(o, M_NONE, M_NONE, "WINDOW_JOIN of a merge: result %u",
			 a->out_result);
	m_doom(&o->m, w);
	m_doom(&o->m, other);
}

static bool op_window_join(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CAPTURE), rc, other;
	struct place p = any_place(o);
	struct capkm_window_join a = { 0 };
	bool busy, again, merge, member;
	struct m_window *win;
	int c;

	if (w == M_NONE || chance(o, 10))
		w = ANY(o, o->m.window, !m_closed(it));
	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	c = win->client;
	a.window = win->id;
	a.flags = put_place(o, &p, &a.place);
	again = p.slot == win->slot || win->member[p.slot];
	member = win->member[p.slot] != 0;
	other = recording_on(o, c, p.slot);
	merge = other != M_NONE && other != w && win->state == CAPKM_WINDOW_CAPTURE &&
		!win->doomed && chance(o, 50);
	if (merge)
		a.flags |= CAPKM_WINDOW_JOIN_F_DRIVER_MERGED;
	busy = state_of_slot(o, c, p.slot) || open_on(o, c, p.slot);
	note(o, "joins window", c, win->id, shown_place(&p));
	rc = t_call(o->user[c].cl, CAPKM_NR_WINDOW_JOIN, &a);
	o->m.client[c].device[m_device(p.slot)].maybe = true;
	if (merge) {
		EXPECT_RC(o, rc, 0, "WINDOW_JOIN of a merge");
		merges(o, w, other, &a);
		return true;
	}
	/* Which of two errors comes first is not said, nor that joining again is one. */
	if (win->state != CAPKM_WINDOW_CAPTURE || win->doomed)
		EXPECT_RC2(o, rc, -EINVAL, again && win->state == CAPKM_WINDOW_CAPTURE ? 0 :
			   busy ? -EBUSY : -EINVAL, "WINDOW_JOIN");
	else
		EXPECT_RC(o, rc, again ? 0 : busy ? -EBUSY : 0, "WINDOW_JOIN");
	if (rc)
		return true;
	if (a.out_result != CAPKM_CLEAN)
		mismatch(o, M_NONE, M_NONE, "WINDOW_JOIN: result %u", a.out_result);
	o->m.client[c].device[m_device(p.slot)].used = true;
	if (p.slot != win->slot && !member)
		win->member[p.slot] = p.stream + 1;
	return true;
}

/* ---- graphs */

/*
 * The first byte of the inputs and of what was seen that is not clean, buffers
 * in the order of their ids. The rules do not say whether all inputs come
 * first (@way 0) or those of a buffer before what was seen of it (1).
 */
static int first_input(struct oracle *o, const struct m_graph *g, int way, int *at,
		       struct m_verdict *v)
{
	for (int outer = 0; outer < 2 - way; outer++) {
		u_int64_t last = 0;

		for (;;) {
			int b = M_NONE;

			for (int i = 0; i < M_BUFFERS; i++)
				if ((g->inputs[i] || g->seen[i]) &&
				    o->m.buffer[i].id > last &&
				    (b == M_NONE || o->m.buffer[i].id < o->m.buffer[b].id))
					b = i;
			if (b == M_NONE)
				break;
			last = o->m.buffer[b].id;
			for (int set = 0; set < 2; set++) {
				if ((!way && set != outer) || g->no_inputs)
					continue;
				*at = m_judge_set(&o->m, b, set ? g->seen[b] : g->inputs[b],
						  M_NONE, v);
				if (*at != M_NONE)
					return b;
			}
		}
	}
	v->result = M_CLEAN;
	v->n = 0;
	*at = M_NONE;
	return M_NONE;
}

struct beginning {
	int graph, client, window, fault, b, at;
	struct place place;
	struct m_verdict v;
	const struct t_replay *r;
};

static bool may_begin_so(const struct beginning *x)
{
	unsigned int result = x->r->result;
	/* Try again comes first: then it will be refused. */
	unsigned int want = x->v.result == M_IN_PROGRESS ? CAPKM_IN_PROGRESS :
			    x->window != M_NONE ? CAPKM_REFUSED :
			    x->v.result == M_TAINTED ? CAPKM_SKIPPED : CAPKM_CLEAN;

	/* Which comes first of a fault and these is not said. */
	if (x->fault != M_NONE)
		return result == CAPKM_SKIPPED ||
		       (result == CAPKM_IN_PROGRESS && want == result) ||
		       (result == CAPKM_REFUSED && x->window != M_NONE);
	return result == want;
}

static void begun(struct oracle *o, const struct beginning *x, u_int64_t sequence)
{
	struct m_graph *graph = &o->m.graph[x->graph];
	const struct t_replay *r = x->r;
	bool any = any_masks(graph->writes);
	int f;

	if (r->result == CAPKM_CLEAN) {
		if (r->reports)
			mismatch(o, M_NONE, M_NONE, "GRAPH_REPLAY_BEGIN: %u reports",
				 r->reports);
		escapes(o, x->client, &x->place, true);
		m_replay_begin(&o->m, x->graph, x->place.slot, x->place.stream,
			       tick(o, sequence, any));
		return;
	}
	if (r->result == CAPKM_REFUSED) {
		o->now->what = "is refused the replay of graph";
		m_doom(&o->m, x->window);
		f = m_new_of_kind(&o->m, CAPKM_KIND_REFUSED);
		o->m.failure[f].graph = graph->id;
	} else if (r->reports != 1) {
		mismatch(o, M_NONE, M_NONE, "GRAPH_REPLAY_BEGIN: %u reports", r->reports);
	} else if (r->result == CAPKM_SKIPPED && x->fault != M_NONE) {
		f = x->fault;
		is_failure(o, f, r->r.failure, "GRAPH_REPLAY_BEGIN after a fault");
		/* Then it had come before the refusal; the window has its fault. */
		if (x->window != M_NONE)
			m_doom(&o->m, x->window);
	} else {
		f = check_report(o, &r->r, x->b, x->at, o->m.buffer[x->b].size, M_NONE,
				 &x->v);
	}
	if (r->result == CAPKM_IN_PROGRESS)
		return;
	if (r->result == CAPKM_SKIPPED)
		o->now->what = "is skipped the replay of graph";
	escapes(o, x->client, &x->place, false);
	m_replay_fails(&o->m, x->graph, f, tick(o, sequence, any));
	o->m.client[x->client].slot[x->place.slot].skipped = sequence;
}

static bool op_replay_begin(struct oracle *o)
{
	struct t_replay r = { 0 };
	struct beginning x = {
		.graph = ANY(o, o->m.graph, !it->replaying), .place = any_place(o),
		.r = &r,
	};
	struct capkm_graph_replay_begin a = {
		.reports_len = 1, .reports_uptr = t_ptr(&r.r),
	};
	struct m_context *device;
	struct m_graph *graph;

	if (x.graph == M_NONE)
		return false;
	graph = &o->m.graph[x.graph];
	x.client = graph->client;
	x.window = recording_on(o, x.client, x.place.slot);
	note_masks(note(o, "begins replay of graph", x.client, graph->id,
			shown_place(&x.place)),
		   graph->writes);
	note_masks(o->now, graph->inputs);
	note_masks(o->now, graph->seen);
	a.graph = graph->id;
	a.flags = put_place(o, &x.place, &a.place);
	r.rc = t_call(o->user[x.client].cl, CAPKM_NR_GRAPH_REPLAY_BEGIN, &a);
	r.result = a.out_result;
	r.reports = a.out_reports;
	device = &o->m.client[x.client].device[m_device(x.place.slot)];
	device->maybe = true;
	if (held_slot(o, x.client, x.place.slot)) {
		EXPECT_RC(o, r.rc, -EBUSY, "GRAPH_REPLAY_BEGIN on a held slot");
		return true;
	}
	if (x.window != M_NONE &&
	    the_session(o, x.client)->backend == CAPKM_BACKEND_HARDWARE) {
		EXPECT_RC(o, r.rc, -EOPNOTSUPP, "GRAPH_REPLAY_BEGIN in a driver's window");
		return true;
	}
	EXPECT_RC(o, r.rc, 0, "GRAPH_REPLAY_BEGIN");
	x.fault = device->fault;
	for (int way = 0; way < 2; way++) {
		x.b = first_input(o, graph, way, &x.at, &x.v);
		if (x.b == M_NONE || (r.reports == 1 && r.r.start == (u_int64_t)x.at &&
				      r.r.buffer == o->m.buffer[x.b].id))
			break;
	}
	if (!may_begin_so(&x))
		mismatch(o, x.b, x.at, "GRAPH_REPLAY_BEGIN of %" PRIu64 ": result %u; inputs "
			 "%d, window %d, fault %d", graph->id, r.result, x.v.result,
			 x.window, x.fault);
	device->used |= r.result == CAPKM_CLEAN;
	begun(o, &x, a.out_sequence);
	return true;
}

static bool op_replay_end(struct oracle *o)
{
	int g = ANY(o, o->m.graph, it->replaying), f;
	bool failed = chance(o, 30), complete = chance(o, 50), any;
	struct capkm_graph_replay_end a = { 0 };
	struct m_graph *graph;

	if (g == M_NONE)
		return false;
	graph = &o->m.graph[g];
	a.graph = graph->id;
	a.flags = complete ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0;
	if (failed) {
		a.flags |= CAPKM_SCOPE_EXIT_F_FAILED;
		a.kind = CAPKM_KIND_DRIVER;
	}
	note_masks(note(o, failed ? "fails replay of graph" : complete ?
			"ends replay of graph" : "ends replay, enqueued, of graph",
			graph->client, graph->id, 0), graph->writes);
	note_masks(o->now, graph->seen);
	EXPECT_RC(o, t_call(o->user[graph->client].cl, CAPKM_NR_GRAPH_REPLAY_END, &a), 0,
		  "GRAPH_REPLAY_END");
	o->now->more = a.out_failure;
	any = any_masks(graph->writes) || (!complete && any_masks(graph->seen));
	f = graph->fault;
	if (failed || f != M_NONE)
		any = any || any_masks(graph->seen);
	if (failed)
		f = any ? new_failure(o, a.out_failure, CAPKM_KIND_DRIVER,
				      "GRAPH_REPLAY_END") : m_new_failure(&o->m, 0);
	if (any && f == M_NONE && a.out_failure)
		mismatch(o, M_NONE, M_NONE, "GRAPH_REPLAY_END: failure %llu",
			 a.out_failure);
	if (any && f != M_NONE)
		is_failure(o, f, a.out_failure, "GRAPH_REPLAY_END");
	m_replay_end(&o->m, g, f, complete, tick(o, a.out_sequence, any),
		     a.out_sequence);
	return true;
}

static bool op_graph_destroy(struct oracle *o)
{
	int g = ANY(o, o->m.graph, true), rc;

	if (g == M_NONE)
		return false;
	note(o, "destroys graph", o->m.graph[g].client, o->m.graph[g].id, 0);
	rc = t_destroy(o->user[o->m.graph[g].client].cl, o->m.graph[g].id);
	EXPECT_RC(o, rc, o->m.graph[g].replaying ? -EBUSY : 0, "GRAPH_DESTROY");
	if (!rc)
		o->m.graph[g].used = false;
	return true;
}

static bool op_graph_update(struct oracle *o)
{
	int g = ANY(o, o->m.graph, true), w, rc;
	struct capkm_report r[2];
	struct capkm_graph_update a = { .reports_uptr = t_ptr(r), .reports_len = 2 };
	bool no_inputs = chance(o, 10), driver = chance(o, 20), refused;
	struct m_graph *graph;
	struct m_window *win;

	if (g == M_NONE)
		return false;
	graph = &o->m.graph[g];
	w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CLOSING &&
		it->client == graph->client);
	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	refused = win->doomed || win->abandoned;
	a.graph = graph->id;
	a.window = win->id;
	a.flags = (no_inputs ? CAPKM_GRAPH_UPDATE_F_NO_INPUTS : 0) |
		  (driver ? CAPKM_GRAPH_UPDATE_F_FAILED : 0);
	note_masks(note(o, "updates graph", win->client, graph->id, win->id), win->written);
	rc = t_call(o->user[win->client].cl, CAPKM_NR_GRAPH_UPDATE, &a);
	/*
	 * Which of two errors comes first is not said, nor whether a failed update
	 * of a graph that is being replayed, or with a window that is still held
	 * or a child, is one.
	 */
	if (win->parent != M_NONE && (graph->replaying || win->held || driver))
		EXPECT_RC2(o, rc, -EINVAL, driver ? rc == -EBUSY &&
			   (graph->replaying || win->held) ? -EBUSY : 0 : -EBUSY,
			   "GRAPH_UPDATE");
	else if (win->parent != M_NONE)
		EXPECT_RC(o, rc, -EINVAL, "GRAPH_UPDATE with a child");
	else if (graph->replaying || win->held)
		EXPECT_RC2(o, rc, -EBUSY, driver ? 0 : -EBUSY, "GRAPH_UPDATE");
	else
		EXPECT_RC(o, rc, 0, "GRAPH_UPDATE");
	if (rc)
		return true;
	/* What it answers when the driver refused it is not said. */
	if (driver)
		return true;
	if (a.out_result != (refused ? CAPKM_REFUSED : CAPKM_CLEAN))
		mismatch(o, M_NONE, M_NONE, "GRAPH_UPDATE: result %u", a.out_result);
	if (refused) {
		o->now->what = "updates in vain graph";
		m_refuse(&o->m, w, 0);
		learn_refusal(o, w, r, a.out_reports);
	} else {
		o->sealed++;
		m_seal(&o->m, w, g, no_inputs);
	}
	check_graph(o, g);
	return true;
}

/* ---- REFUSE */

/* The window that is in the way of it on the slot, or M_NONE. */
static int in_the_way(struct oracle *o, int c, int slot, unsigned int what)
{
	bool driver = the_session(o, c)->backend == CAPKM_BACKEND_HARDWARE;

	if (what == (driver ? CAPKM_REFUSE_WRITE : CAPKM_REFUSE_ALLOCATE))
		return M_NONE;
	return held_slot(o, c, slot) ? own_window(o, c, slot) :
				       recording_on(o, c, slot);
}

static bool op_may(struct oracle *o)
{
	int c = any_client(o), w, records;
	struct place p = any_place(o);
	struct capkm_claim claims[M_CLAIMS];
	struct m_ranges rs = { 0 };
	struct capkm_report r = { 0 };
	struct capkm_refuse a = {
		.what = CAPKM_REFUSE_READ + draw(o, CAPKM_REFUSE_ALLOCATE),
		.claims_uptr = t_ptr(claims), .reports_uptr = t_ptr(&r),
		.reports_len = 1,
	};
	bool dooms, taints;
	int f;

	if (c == M_NONE)
		return false;
	if (chance(o, 50))
		a.what = CAPKM_REFUSE_WRITE;
	if (a.what == CAPKM_REFUSE_WRITE)
		rs = any_ranges(o, c, 3);
	to_claims(o, &rs, claims);
	a.claims_len = rs.n;
	a.flags = put_place(o, &p, &a.place);
	w = in_the_way(o, c, p.slot, a.what);
	records = recording_on(o, c, p.slot);
	taints = w != M_NONE && any_bytes(&rs);
	dooms = w != M_NONE && (a.what == CAPKM_REFUSE_ALLOCATE ||
		(a.what == CAPKM_REFUSE_WRITE && p.stream == o->m.window[w].owner));
	note_ranges(note(o, "asks", c, a.what, shown_place(&p)), NULL, &rs);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_REFUSE, &a), 0, "REFUSE");
	o->now->more = a.out_failure;
	if (a.out_result != (w == M_NONE ? CAPKM_CLEAN : CAPKM_REFUSED) ||
	    a.out_reports != (w != M_NONE) || !a.out_failure == (taints || dooms) ||
	    a.out_state != state_of_slot(o, c, p.slot) ||
	    a.out_window != (records == M_NONE ? 0 : o->m.window[records].id))
		mismatch(o, M_NONE, M_NONE, "REFUSE: result %u, %u reports, failure %llu, "
			 "state %u, window %llu; taints %d dooms %d", a.out_result,
			 a.out_reports, a.out_failure, a.out_state, a.out_window, taints,
			 dooms);
	if (w == M_NONE)
		return true;
	if (r.kind != CAPKM_KIND_REFUSED || r.window != o->m.window[w].id ||
	    r.stream != p.stream || r.failure != a.out_failure)
		mismatch(o, M_NONE, M_NONE, "REFUSE: report of kind %u, window %llu, "
			 "stream %llu, failure %llu", r.kind, r.window, r.stream, r.failure);
	o->now->what = "is refused";
	if (dooms)
		m_doom(&o->m, w);
	if (!taints)
		return true;
	f = new_failure(o, a.out_failure, CAPKM_KIND_REFUSED, "REFUSE");
	o->m.failure[f].window = o->m.window[w].id;
	m_zero_length(&o->m, &rs, f, NULL, tick_now(o, true));
	return true;
}

/* ---- confirmation and faults */

/* Ranges of shared buffers that are left unconfirmed on the slots of the set. */
static void check_left(struct oracle *o, int c, u_int64_t slots, u_int64_t left)
{
	u_int64_t low = 0, high = 0;

	for (int b = 0; b < M_BUFFERS; b++) {
		const struct m_buffer *buf = &o->m.buffer[b];
		int sure = buf->used ? kept(o, b) : 0;

		for (int at = 0; sure && at < buf->size; at++)
			for (int i = 0; i < buf->byte[at].n; i++) {
				const struct m_claim *claim = &buf->byte[at].c[i];

				if (claim->what != M_UNCONFIRMED ||
				    claim->ref / M_PLACES != c ||
				    !(slots & 1ull << claim->ref % M_PLACES))
					continue;
				high++;
				low += sure == 2;
			}
	}
	/* How the bytes are put together into ranges is the engine's. */
	if ((left && !high) || (low && !left))
		mismatch(o, M_NONE, M_NONE, "client %d slots %" PRIx64 ": %" PRIu64 " ranges "
			 "unconfirmed, expected %s", c, slots, left, low ? "some" : "none");
}

static u_int64_t client_id(struct oracle *o, int c)
{
	struct capkm_stream_query q = { 0 };

	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_STREAM_QUERY, &q), 0, "STREAM_QUERY");
	return q.out_client;
}

static bool op_confirm(struct oracle *o)
{
	int c = any_client(o), by = c, rc, want = 0, other = 0;
	struct place p = any_place(o);
	struct capkm_stream_confirm a = { 0 };
	u_int64_t slots;
	const struct m_slot *slot;

	if (c == M_NONE)
		return false;
	/* Mostly where there is something. */
	for (int i = 0; i < 3 && !o->m.client[c].slot[p.slot].first; i++)
		p = any_place(o);
	slots = 1ull << p.slot;
	slot = &o->m.client[c].slot[p.slot];
	a.flags = put_place(o, &p, &a.place);
	if (chance(o, 30)) {
		/* Of the whole device: then there is no slot to name. */
		a.flags = CAPKM_STREAM_CONFIRM_F_DEVICE;
		a.place.slot = 0;
		slots = 7ull << m_device(p.slot) * M_SLOTS;
		a.sequence = chance(o, 60) ? sample(o, c) : a_while_ago(o, 60);
	} else if (chance(o, 60)) {
		a.sequence = slot->sequence;
	} else if (slot->sequence) {
		/* Partly: from before what is unconfirmed up to the last of it. */
		u_int64_t from = slot->first ? slot->first - 1 : 0;

		if (from > slot->sequence)
			from = slot->sequence;
		a.sequence = from + choose(&o->choices, slot->sequence - from + 1);
	}
	if (chance(o, 3)) {
		a.sequence = 1ull << 60;
		want = other = -EINVAL;
	} else if (!(a.flags & CAPKM_STREAM_CONFIRM_F_DEVICE) && chance(o, 5)) {
		/* Reached by the domain, but not by the slot: not said. */
		a.sequence = o->m.sequence;
		other = a.sequence > slot->sequence ? -EINVAL : 0;
	}
	/* Another client has seen it, or the client asks itself by its id. */
	if (!(a.flags & CAPKM_STREAM_CONFIRM_F_DEVICE) && chance(o, 30)) {
		by = any_client(o);
		a.client = client_id(o, c);
		a.flags = CAPKM_PLACE_F_SLOT;
		a.place.slot = p.slot % M_SLOTS;
	}
	note(o, slots & (slots - 1) ? "confirms device of slot" :
	     by != c ? "is confirmed slot" : "confirms slot", c, p.slot, a.sequence);
	rc = t_call(o->user[by].cl, CAPKM_NR_STREAM_CONFIRM, &a);
	o->m.client[c].device[m_device(p.slot)].maybe = true;
	EXPECT_RC2(o, rc, want, other, "STREAM_CONFIRM");
	if (rc)
		return true;
	for (int i = 0; i < M_PLACES; i++)
		if (slots & 1ull << i && by == c)
			m_confirm(&o->m, c, i, a.sequence);
		else if (slots & 1ull << i)
			m_confirm_claims(&o->m, c, i, a.sequence, true);
	check_left(o, c, slots, a.out_unconfirmed);
	return true;
}

/* What the rules leave open of the windows that had been on the device. */
static void maybe_former_members(struct oracle *o, int c, int device)
{
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &o->m.window[w];
		bool was = false;

		if (!win->used || win->client != c || win->state != CAPKM_WINDOW_CLOSING ||
		    win->doomed)
			continue;
		for (int slot = 0; slot < M_PLACES; slot++)
			was |= m_device(slot) == device && win->was_member[slot];
		win->maybe |= was;
	}
}

static bool op_fault(struct oracle *o)
{
	int c = any_client(o), device, f;
	struct place p = any_place(o);
	struct capkm_stream_fault a = { .code = 719 };
	struct m_context *context;

	if (c == M_NONE || !m_device(p.slot))
		return false;
	device = m_device(p.slot);
	context = &o->m.client[c].device[device];
	a.flags = put_place(o, &p, &a.place);
	note(o, "faults on device", c, device, 0);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_STREAM_FAULT, &a), 0, "STREAM_FAULT");
	o->now->more = a.out_failure;
	context->used = true;
	if (context->fault != M_NONE) {
		o->now->what = "faults again on device";
		is_failure(o, context->fault, a.out_failure, "STREAM_FAULT again");
	} else {
		f = new_failure(o, a.out_failure, CAPKM_KIND_DEVICE_FAULT, "STREAM_FAULT");
		m_fault(&o->m, c, device, f, tick_now(o, true));
		maybe_former_members(o, c, device);
	}
	if (a.out_epoch != context->epoch)
		mismatch(o, M_NONE, M_NONE, "STREAM_FAULT: epoch %llu, expected %" PRIu64,
			 a.out_epoch, context->epoch);
	return true;
}

/* A context whose fault was not renewed, when there are many: or M_NONE. */
static bool op_renew(struct oracle *o)
{
	int c = any_client(o), device = any_device(o), rc;
	struct capkm_context_renew a = { 0 };
	struct m_context *context;

	if (c == M_NONE)
		return false;
	for (int d = 0; d < M_DEVICES; d++)
		if (o->m.client[c].device[d].fault != M_NONE && chance(o, 80))
			device = d;
	context = &o->m.client[c].device[device];
	memcpy(a.device, o->device[device], 16);
	note(o, "renews device", c, device, 0);
	rc = t_call(o->user[c].cl, CAPKM_NR_CONTEXT_RENEW, &a);
	/* Whether a place that was only looked at counts as used is not said. */
	EXPECT_RC2(o, rc, context->used ? 0 : -ENOENT,
		   !context->used && context->maybe ? 0 : context->used ? 0 : -ENOENT,
		   "CONTEXT_RENEW");
	if (rc)
		return true;
	if (a.out_epoch != context->epoch)
		mismatch(o, M_NONE, M_NONE, "CONTEXT_RENEW: epoch %llu, expected %" PRIu64,
			 a.out_epoch, context->epoch);
	context->fault = M_NONE;
	context->used = true;
	return true;
}

/* The client has a private buffer on the device. */
static bool has_private_there(struct oracle *o, int c, int device)
{
	for (int b = 0; b < M_BUFFERS; b++)
		if (o->m.buffer[b].used && !o->m.buffer[b].shared &&
		    o->m.buffer[b].device == device && m_sole_client(&o->m, b) == c)
			return true;
	return false;
}

/* Which failure it is, the client says: one for all of a domain, or each its own. */
static int failure_of_context(struct oracle *o, int c, int device, u_int64_t *epoch)
{
	struct capkm_stream_query q = { 0 };
	int f;

	memcpy(q.place.device, o->device[device], 16);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_STREAM_QUERY, &q), 0, "STREAM_QUERY");
	*epoch = q.out_epoch;
	if (!q.out_failure)
		return M_NONE;
	f = m_failure_with_id(&o->m, q.out_failure);
	o->m.failure[f].kind = CAPKM_KIND_DEVICE_FAULT;
	return f;
}

/*
 * A session without a living client still has its private buffers, and their memory
 * is lost. Returns how many clients these sessions had.
 */
static unsigned int fault_ghosts(struct oracle *o, int device, u_int64_t t)
{
	unsigned int n = 0;

	for (int s = 0; s < M_SESSIONS; s++) {
		struct m_session *session = &o->m.session[s];
		int f;

		if (!session->used || client_of(o, s) != M_NONE)
			continue;
		n += session->clients;
		/* Nobody can renew it: another fault changes nothing. */
		if (session->lost[device])
			continue;
		session->lost[device] = true;
		f = m_new_of_kind(&o->m, CAPKM_KIND_DEVICE_FAULT);
		for (int b = 0; b < M_BUFFERS; b++)
			if (o->m.buffer[b].used && session->held[b] &&
			    !o->m.buffer[b].shared && o->m.buffer[b].device == device)
				m_taint_whole(&o->m, b, f, t);
	}
	return n;
}

static bool op_device_fault(struct oracle *o)
{
	int device = 1 + draw(o, M_DEVICES - 1);
	struct capkm_device_fault a = { .code = 79 };
	unsigned int hit = 0, ghosts;
	u_int64_t t, epoch;

	memcpy(a.device, o->device[device], 16);
	note(o, "device faults", M_NONE, device, 0);
	EXPECT_RC(o, t_call(o->watch, CAPKM_NR_DEVICE_FAULT, &a), 0, "DEVICE_FAULT");
	t = tick_now(o, false);
	for (int c = 0; c < M_CLIENTS; c++) {
		struct m_client *client = &o->m.client[c];
		struct m_context *context = &client->device[device];
		int f;

		if (!client->used || context->fault != M_NONE)
			continue;
		f = failure_of_context(o, c, device, &epoch);
		if (epoch != context->epoch + (f != M_NONE) ||
		    (f == M_NONE && (context->used || has_private_there(o, c, device))) ||
		    /* Whether a place that was only looked at counts is not said. */
		    (f != M_NONE && !context->used && !context->maybe &&
		     !has_private_there(o, c, device)))
			mismatch(o, M_NONE, M_NONE, "DEVICE_FAULT of %d: client %d has "
				 "failure #%d epoch %" PRIu64 ", had %" PRIu64 ", used %d",
				 device, c, f, epoch, context->epoch, context->used);
		if (f == M_NONE)
			continue;
		hit++;
		m_fault(&o->m, c, device, f, t);
		maybe_former_members(o, c, device);
	}
	ghosts = fault_ghosts(o, device, t);
	/* Whether the clients that have ended are counted is not said. */
	if (a.out_clients < hit || a.out_clients > hit + ghosts)
		mismatch(o, M_NONE, M_NONE, "DEVICE_FAULT: %u clients, expected %u to %u",
			 a.out_clients, hit, hit + ghosts);
	return true;
}

static bool op_stream_destroy(struct oracle *o)
{
	int c = any_client(o), session;
	struct capkm_stream_destroy a = { .stream = draw(o, STREAMS) };
	unsigned int windows = 0;
	bool gone[M_WINDOWS] = { false };

	if (c == M_NONE)
		return false;
	session = o->m.client[c].session;
	note(o, "destroys stream", c, a.stream, 0);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_STREAM_DESTROY, &a), 0,
		  "STREAM_DESTROY");
	for (int w = 0; w < M_WINDOWS; w++)
		windows += o->m.window[w].used && !m_closed(&o->m.window[w]);
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &o->m.window[w];

		if (!win->used || o->m.client[win->client].session != session ||
		    m_closed(win))
			continue;
		for (int slot = 0; slot < M_PLACES; slot++)
			if (win->member[slot] == a.stream + 1) {
				win->member[slot] = 0;
				win->was_member[slot] = true;
			}
		if (win->owner != a.stream || win->state > CAPKM_WINDOW_CAPTURE)
			continue;
		gone[w] = true;
	}
	for (int w = 0; w < M_WINDOWS; w++)
		if (gone[w] && !m_closed(&o->m.window[w]))
			m_refuse(&o->m, w, CAPKM_KIND_ABORTED);
	for (int w = 0; w < M_WINDOWS; w++)
		windows -= o->m.window[w].used && !m_closed(&o->m.window[w]);
	if (a.out_windows != windows)
		mismatch(o, M_NONE, M_NONE, "STREAM_DESTROY: %u windows, expected %u",
			 a.out_windows, windows);
	return true;
}

/* ---- sessions and clients */

static int free_user(const struct oracle *o)
{
	for (int c = 0; c < M_CLIENTS; c++)
		if (!o->user[c].cl)
			return c;
	return M_NONE;
}

static int users(const struct oracle *o, int session)
{
	int n = 0;

	for (int c = 0; c < M_CLIENTS; c++)
		n += o->user[c].cl && o->user[c].session == session;
	return n;
}

/* A new session. */
static bool op_attach(struct oracle *o)
{
	int c = free_user(o), s = FREE(o->m.session);
	struct capkm_domain_attach a = { .domain = o->domain, .max_streams = M_SLOTS };
	struct user *user;

	if (c == M_NONE || s == M_NONE)
		return false;
	user = &o->user[c];
	a.backend = chance(o, 30) ? CAPKM_BACKEND_HARDWARE : CAPKM_BACKEND_SOFTWARE;
	if (o->processes > 0 && chance(o, 70)) {
		o->processes--;
		user->cl = t_process_();
	} else {
		user->cl = t_client_();
	}
	EXPECT_RC(o, t_call(user->cl, CAPKM_NR_DOMAIN_ATTACH, &a), 0, "DOMAIN_ATTACH");
	user->cl->domain = o->domain;
	user->cl->session = a.out_session;
	user->session = s;
	user->client = true;
	m_new_session(&o->m, s, a.out_session, a.backend);
	m_new_client(&o->m, c, s, tick_now(o, false));
	note(o, "attaches session", c, a.out_session, 0);
	return true;
}

/* A process gets the descriptor of a session, and mostly joins it at once. */
static bool op_pass(struct oracle *o)
{
	int c = free_user(o), from = draw(o, M_CLIENTS), s;

	if (c == M_NONE || !o->user[from].cl || !o->user[from].client ||
	    o->processes <= 0)
		return false;
	s = o->user[from].session;
	o->processes--;
	o->user[c] = (struct user){ t_second_(o->user[from].cl), s, false };
	note(o, "gets the descriptor of session", c, o->m.session[s].id, 0);
	return true;
}

static bool op_join(struct oracle *o)
{
	int c = draw(o, M_CLIENTS), first = c;
	struct user *user;

	while (!o->user[c].cl || o->user[c].client) {
		c = (c + 1) % M_CLIENTS;
		if (c == first)
			return false;
	}
	user = &o->user[c];
	EXPECT_RC(o, t_try_join_session(user->cl), 0, "SESSION_JOIN");
	if (user->cl->session != o->m.session[user->session].id)
		mismatch(o, M_NONE, M_NONE, "SESSION_JOIN: session %" PRIu64,
			 user->cl->session);
	user->client = true;
	m_new_client(&o->m, c, user->session, tick_now(o, false));
	note(o, "joins session", c, user->cl->session, 0);
	return true;
}

/*
 * After the end of a client the rules leave open of its children whether they are
 * orphans as well or refused with their parents.
 */
static void ask_children(struct oracle *o, int c)
{
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &o->m.window[w];
		struct capkm_window_query q = { .window = win->id };
		int rc;

		if (!win->used || win->client != c || win->parent == M_NONE ||
		    win->state != CAPKM_WINDOW_ORPHANED)
			continue;
		rc = t_call(o->watch, CAPKM_NR_WINDOW_QUERY, &q);
		EXPECT_RC2(o, rc, 0, -ENOENT, "WINDOW_QUERY");
		if (rc || q.out_state == CAPKM_WINDOW_REFUSED)
			win->state = CAPKM_WINDOW_REFUSED;
	}
}

/* The process is gone, in one way or another; with the last one the session. */
static void leaves(struct oracle *o, int c)
{
	struct user *user = &o->user[c];
	bool lives = users(o, user->session) > 1;
	struct capkm_fast_stats stats = CAPKM_OPTS(struct capkm_fast_stats);
	unsigned int pid = t_pid(user->cl);

	if (!user->cl->rpc && !user->cl->played) {
		EXPECT_RC(o, capkm_fast_query(user->cl->c, &stats, NULL), 0, "fast_query");
		if (stats.transitions[CAPKM_FAST_MISSED] || stats.dropped || stats.revoked)
			mismatch(o, M_NONE, M_NONE, "fast scopes: %" PRIu64 " missed, %"
				 PRIu64 " dropped, %" PRIu64 " revoked",
				 stats.transitions[CAPKM_FAST_MISSED], stats.dropped,
				 stats.revoked);
		o->count.entered += stats.entered;
	}

	if (chance(o, 50)) {
		note(o, user->client ? "is killed" : "is killed, no client", c, 0, lives);
		t_kill(user->cl);
	} else {
		note(o, user->client ? "closes its handle" : "closes, no client", c, 0,
		     lives);
		t_close(user->cl);
	}
	if (user->client) {
		m_death(&o->m, c, lives, pid, tick_now(o, true));
		ask_children(o, c);
	}
	if (!lives)
		memset(&o->m.session[user->session], 0, sizeof(o->m.session[0]));
	memset(user, 0, sizeof(*user));
}

static bool op_leave(struct oracle *o)
{
	int c = draw(o, M_CLIENTS);

	if (!o->user[c].cl)
		return false;
	/* Played processes can leave a session, the test itself cannot. */
	if (t_embedded() && !o->user[c].cl->played && users(o, o->user[c].session) > 1)
		return false;
	leaves(o, c);
	return true;
}

/* ---- the whole state */

/* The claim of the byte that the range is, or M_NONE. */
static int claim_of(struct oracle *o, const struct m_byte *byte,
		    const struct capkm_range *r)
{
	struct t_failure f;

	for (int j = 0; j < byte->n; j++) {
		const struct m_claim *c = &byte->c[j];

		if (r->state == CAPKM_RANGE_OPEN &&
		    c->what == M_OPEN && o->m.scope[c->ref].id == r->id)
			return j;
		if (r->state == CAPKM_RANGE_RECORDED &&
		    c->what == M_RECORDED && o->m.window[c->ref].id == r->id)
			return j;
		if (r->state == CAPKM_RANGE_UNCONFIRMED &&
		    c->what == M_UNCONFIRMED && session_of(o, c->ref / M_PLACES) == r->id)
			return j;
		if (r->state == CAPKM_RANGE_FAILED &&
		    c->what == M_FAILED && m_has_id(&o->m, c->ref, r->id))
			return j;
	}
	if (r->state != CAPKM_RANGE_FAILED)
		return M_NONE;
	/* A failure that has not been named yet; its report says which it is. */
	f = t_failure_(o->watch, r->id, 0);
	for (int j = 0; j < byte->n; j++)
		if (byte->c[j].what == M_FAILED && !o->m.failure[byte->c[j].ref].id &&
		    fits(o, byte->c[j].ref, &f.r))
			return j;
	return M_NONE;
}

/* Are two claims of a byte one in what BUFFER_QUERY says? */
static bool same_range(const struct oracle *o, const struct m_claim *a,
		       const struct m_claim *b)
{
	if (a->what != b->what)
		return false;
	if (a->what == M_UNCONFIRMED)
		return session_of(o, a->ref / M_PLACES) == session_of(o, b->ref / M_PLACES);
	return a->ref == b->ref;
}

static void check_ranges(struct oracle *o, int b, const struct capkm_range *got,
			 unsigned int n)
{
	struct m_buffer *buf = &o->m.buffer[b];

	for (unsigned int i = 0; i < n; i++)
		if (got[i].start >= got[i].end || got[i].end > (u_int64_t)buf->size ||
		    (i && got[i].start < got[i - 1].start))
			mismatch(o, b, M_NONE, "BUFFER_QUERY: range [%llu,%llu)",
				 got[i].start, got[i].end);
	for (int at = 0; at < buf->size; at++) {
		const struct m_byte *byte = &buf->byte[at];
		u_int64_t matched = 0;

		for (unsigned int i = 0; i < n; i++) {
			int j;

			if ((u_int64_t)at < got[i].start || (u_int64_t)at >= got[i].end)
				continue;
			j = claim_of(o, byte, &got[i]);
			if (j == M_NONE)
				mismatch(o, b, at, "BUFFER_QUERY: byte %d has state %u id "
					 "%llu", at, got[i].state, got[i].id);
			/* The same at other dates goes with it. */
			for (int k = 0; k < byte->n && k < 64; k++)
				if (same_range(o, &byte->c[k], &byte->c[j]))
					matched |= 1ull << k;
		}
		for (int j = 0; j < byte->n && j < 64; j++)
			if (!(matched & 1ull << j) && byte->c[j].what != M_REPLAY)
				mismatch(o, b, at, "BUFFER_QUERY: byte %d lacks claim %d",
					 at, j);
	}
}

static void check_writers(struct oracle *o, int b, const struct capkm_writer *got,
			  unsigned int n)
{
	struct m_buffer *buf = &o->m.buffer[b];
	unsigned int i = 0;

	for (int at = 0; at < buf->size; at++) {
		const struct m_writer *w = &buf->byte[at].writer;
		bool is;

		while (i < n && got[i].end <= (u_int64_t)at)
			i++;
		is = i < n && got[i].start <= (u_int64_t)at;
		if (is != !!w->sequence || (is && (got[i].session != w->session ||
					       got[i].stream != w->stream ||
					       got[i].sequence != w->sequence)))
			mismatch(o, b, at, "BUFFER_QUERY: writer of byte %d: %d session %llu "
				 "stream %llu at %llu", at, is, is ? got[i].session : 0,
				 is ? got[i].stream : 0, is ? got[i].sequence : 0);
	}
}

/* Each byte of the buffer has exactly the claims that the model gives it. */
static void check_buffer(struct oracle *o, int c, int b)
{
	static __thread struct capkm_range got[1024];
	static __thread struct capkm_writer writers[M_BYTES];
	struct m_buffer *buf = &o->m.buffer[b];
	struct capkm_buffer_query q = {
		.buffer = buf->id, .ranges_uptr = t_ptr(got),
		.ranges_len = ARRAY_SIZE(got), .writers_uptr = t_ptr(writers),
		.writers_len = ARRAY_SIZE(writers),
	};
	unsigned int state = 0, known = CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED |
		CAPKM_BUFFER_FRESH | CAPKM_BUFFER_DIRTY | CAPKM_BUFFER_ABANDONED;
	bool dirty = false, abandoned = true;
	unsigned int held = 0;

	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_BUFFER_QUERY, &q), 0, "BUFFER_QUERY");
	/* Sessions, however often each has opened it. */
	for (int s = 0; s < M_SESSIONS; s++)
		held += !!o->m.session[s].held[b];
	for (int i = 0; i < buf->size; i++)
		dirty |= m_unconfirmed(&o->m, b, i, true);
	for (int i = 0; i < M_CLIENTS; i++)
		if (o->m.client[i].used && session_of(o, i) == buf->creator)
			abandoned = false;
	state = (buf->exported ? CAPKM_BUFFER_EXPORTED : 0) |
		(buf->shared ? CAPKM_BUFFER_SHARED : 0) |
		(buf->fresh ? CAPKM_BUFFER_FRESH : 0) |
		(dirty ? CAPKM_BUFFER_DIRTY : 0) |
		(abandoned ? CAPKM_BUFFER_ABANDONED : 0);
	if (q.out_bytes != (u_int64_t)buf->size || q.out_claims != q.out_ranges ||
	    (q.out_state & known) != state || q.out_holders != held ||
	    q.out_session != buf->creator)
		mismatch(o, b, M_NONE, "BUFFER_QUERY: bytes %llu claims %llu ranges %u state "
			 "%x holders %u session %llu, expected state %x %u holders",
			 q.out_bytes, q.out_claims, q.out_ranges, q.out_state,
			 q.out_holders, q.out_session, state, held);
	check_ranges(o, b, got, q.out_ranges);
	if (buf->shared || buf->fresh)
		check_writers(o, b, writers, q.out_writers);
	else if (q.out_writers)
		mismatch(o, b, M_NONE, "BUFFER_QUERY: %u writers of a private buffer that is "
			 "not fresh", q.out_writers);
}

/* As how many failures of the engine it may count. */
static int most(const struct oracle *o, int f)
{
	return o->m.failure[f].ids > 1 ? o->m.failure[f].ids : 1;
}

/* Failures that bytes carry: at least @low, at most @high (EG-11). */
static void count_failures(struct oracle *o, u_int64_t *low, u_int64_t *high,
			   u_int64_t *buffers_low, u_int64_t *buffers_high)
{
	unsigned char *seen = calloc(o->m.failures + 1, 1);

	*low = *high = *buffers_low = *buffers_high = 0;
	for (int sure = 2; sure > 0; sure--)
		for (int b = 0; b < M_BUFFERS; b++) {
			const struct m_buffer *buf = &o->m.buffer[b];

			if (!buf->used || kept(o, b) != sure)
				continue;
			++*buffers_high;
			*buffers_low += sure == 2;
			for (int i = 0; i < buf->size; i++)
				for (int j = 0; j < buf->byte[i].n; j++) {
					const struct m_claim *c = &buf->byte[i].c[j];

					if (c->what != M_FAILED || seen[c->ref])
						continue;
					seen[c->ref] = 1;
					*high += most(o, c->ref);
					*low += sure == 2;
				}
		}
	/* A fault that was not renewed and that no byte carries: not said. */
	for (int c = 0; c < M_CLIENTS; c++)
		for (int d = 0; o->m.client[c].used && d < M_DEVICES; d++) {
			int f = o->m.client[c].device[d].fault;

			if (f != M_NONE && !seen[f]) {
				seen[f] = 1;
				++*high;
			}
		}
	/* The same of a scope that will carry it when it is left. */
	for (int s = 0; s < M_SCOPES; s++) {
		const struct m_scope *scope = &o->m.scope[s];
		int f[2] = { scope->fault, scope->poison };

		for (int i = 0; scope->used && i < 2; i++)
			if (f[i] != M_NONE && !seen[f[i]]) {
				seen[f[i]] = 1;
				*high += most(o, f[i]);
			}
	}
	for (int g = 0; g < M_GRAPHS; g++) {
		int f = o->m.graph[g].used && o->m.graph[g].replaying ?
			o->m.graph[g].fault : M_NONE;

		if (f != M_NONE && !seen[f]) {
			seen[f] = 1;
			++*high;
		}
	}
	free(seen);
}

static void check_domain(struct oracle *o)
{
	struct capkm_domain_query d = { 0 };
	u_int64_t scopes = 0, windows = 0, orphans = 0, graphs = 0, sessions = 1;
	u_int64_t low, high, buffers_low, buffers_high;
	unsigned int clients = 1, faulted = 0;

	EXPECT_RC(o, t_call(o->watch, CAPKM_NR_DOMAIN_QUERY, &d), 0, "DOMAIN_QUERY");
	for (int i = 0; i < M_SCOPES; i++)
		scopes += o->m.scope[i].used;
	for (int i = 0; i < M_WINDOWS; i++) {
		const struct m_window *w = &o->m.window[i];

		if (!w->used)
			continue;
		orphans += w->state == CAPKM_WINDOW_ORPHANED;
		windows += !m_closed(w) || w->state == CAPKM_WINDOW_ORPHANED;
	}
	for (int i = 0; i < M_GRAPHS; i++)
		graphs += o->m.graph[i].used;
	for (int i = 0; i < M_SESSIONS; i++)
		sessions += o->m.session[i].used;
	for (int i = 0; i < M_CLIENTS; i++) {
		clients += o->m.client[i].used;
		for (int dev = 0; o->m.client[i].used && dev < M_DEVICES; dev++)
			faulted += o->m.client[i].device[dev].fault != M_NONE;
	}
	count_failures(o, &low, &high, &buffers_low, &buffers_high);
	if (d.out_scopes != scopes || d.out_windows != windows || d.out_orphans != orphans ||
	    d.out_graphs != graphs || d.out_sessions != sessions ||
	    d.out_clients != clients || d.out_faulted != faulted)
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: scopes %llu windows %llu orphans "
			 "%llu graphs %llu sessions %u clients %u faulted %u, expected %"
			 PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u",
			 d.out_scopes, d.out_windows, d.out_orphans, d.out_graphs,
			 d.out_sessions, d.out_clients, d.out_faulted, scopes, windows,
			 orphans, graphs, sessions, clients, faulted);
	if (d.out_sealed != o->sealed ||
	    d.out_given_up != o->prepared - o->sealed - windows)
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: %llu windows sealed, %llu given "
			 "up, %llu there, expected %" PRIu64 " of %" PRIu64 " sealed",
			 d.out_sealed, d.out_given_up, d.out_windows, o->sealed,
			 o->prepared);
	if (d.out_buffers < buffers_low || d.out_buffers > buffers_high)
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: %llu buffers, expected %" PRIu64
			 " to %" PRIu64, d.out_buffers, buffers_low, buffers_high);
	if (d.out_failures < low || d.out_failures > high)
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: %llu failures, expected %" PRIu64
			 " to %" PRIu64, d.out_failures, low, high);
}

static void check_window(struct oracle *o, int w)
{
	struct m_window *win = &o->m.window[w];
	struct capkm_window_query q = { .window = win->id };
	int rc = t_call(o->watch, CAPKM_NR_WINDOW_QUERY, &q);
	unsigned int members = 0;

	/* One that is closed may have left the history. */
	if (rc == -ENOENT && (win->state == CAPKM_WINDOW_SEALED ||
			      win->state == CAPKM_WINDOW_REFUSED))
		return;
	EXPECT_RC(o, rc, 0, "WINDOW_QUERY");
	for (int slot = 0; slot < M_PLACES; slot++)
		members += win->member[slot] != 0;
	if (q.out_state != win->state || q.out_owner != win->owner ||
	    (!win->abandoned && q.out_doomed != win->doomed &&
	     win->state != CAPKM_WINDOW_REFUSED) ||
	    q.out_recorded != (u_int64_t)win->keys_n || q.out_strict != win->strict)
		mismatch(o, M_NONE, M_NONE, "WINDOW_QUERY of %" PRIu64 ": state %u owner "
			 "%llu doomed %u recorded %llu strict %u, expected %u %" PRIu64
			 " %d %d %d", win->id, q.out_state, q.out_owner, q.out_doomed,
			 q.out_recorded, q.out_strict, win->state, win->owner, win->doomed,
			 win->keys_n, win->strict);
	/* What is shown of one that is closed is not said. */
	if (!m_closed(win) &&
	    (q.out_members != members ||
	     q.out_children != (unsigned int)m_children(&o->m, w) ||
	     q.out_parent != (win->parent == M_NONE ? 0 : o->m.window[win->parent].id)))
		mismatch(o, M_NONE, M_NONE, "WINDOW_QUERY of %" PRIu64 ": %u members, %u "
			 "children, parent %llu, expected %u %d", win->id, q.out_members,
			 q.out_children, q.out_parent, members, m_children(&o->m, w));
}

static void check_slot(struct oracle *o, int c, int slot)
{
	const struct m_slot *s = &o->m.client[c].slot[slot];
	const struct m_context *device = &o->m.client[c].device[m_device(slot)];
	struct place p = { slot % M_SLOTS, slot };
	struct capkm_stream_query q = { 0 };
	int w = own_window(o, c, slot);

	if (w == M_NONE)
		w = joined_window(o, c, slot);
	q.flags = put_place(o, &p, &q.place);
	EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_STREAM_QUERY, &q), 0, "STREAM_QUERY");
	if (q.out_state != state_of_slot(o, c, slot) ||
	    q.out_window != (w == M_NONE ? 0 : o->m.window[w].id) ||
	    q.out_scopes != (u_int64_t)open_on(o, c, slot) ||
	    /* Whether work that was skipped has been left is not said. */
	    (q.out_sequence != s->sequence && q.out_sequence != s->skipped) ||
	    q.out_epoch != device->epoch ||
	    !q.out_failure != (device->fault == M_NONE))
		mismatch(o, M_NONE, M_NONE, "STREAM_QUERY of client %d slot %d: state %u "
			 "window %llu scopes %llu sequence %llu epoch %llu failure %llu, "
			 "expected %u %d %d %" PRIu64 " %" PRIu64 " #%d", c, slot,
			 q.out_state, q.out_window, q.out_scopes, q.out_sequence,
			 q.out_epoch, q.out_failure, state_of_slot(o, c, slot), w,
			 open_on(o, c, slot), s->sequence, device->epoch, device->fault);
	if (device->fault != M_NONE)
		is_failure(o, device->fault, q.out_failure, "STREAM_QUERY");
	check_left(o, c, 1ull << slot, q.out_unconfirmed);
}

static void check_all(struct oracle *o)
{
	for (int b = 0; b < M_BUFFERS; b++) {
		int c = o->m.buffer[b].used ? holder_of(o, b) : M_NONE;

		if (c != M_NONE)
			check_buffer(o, c, b);
	}
	for (int w = 0; w < M_WINDOWS; w++)
		if (o->m.window[w].used)
			check_window(o, w);
	for (int g = 0; g < M_GRAPHS; g++)
		if (o->m.graph[g].used)
			check_graph(o, g);
	for (int c = 0; c < M_CLIENTS; c++)
		for (int slot = 0; o->m.client[c].used && slot < M_PLACES; slot++)
			check_slot(o, c, slot);
	if (!o->shared)
		check_domain(o);
	if (capkm_test_check_count())
		mismatch(o, M_NONE, M_NONE, "the engine found itself in an impossible state");
}

/* ---- a run */

static const struct {
	bool (*fn)(struct oracle *o);
	unsigned int weight, when_calm;
} ops[] = {
	{ op_enter, 200, 900 }, { op_exit, 190, 1400 }, { op_check, 150, 700 },
	{ op_taint, 20, 2 }, { op_written, 32, 500 }, { op_reset, 20, 20 },
	{ op_buffer_create, 15, 40 }, { op_buffer_export, 3, 1 },
	{ op_buffer_open, 15, 2 }, { op_buffer_close, 14, 24 }, { op_prepare, 50, 1 },
	{ op_begin, 60, 20 }, { op_end, 40, 20 }, { op_take, 8, 8 },
	{ op_seal, 40, 30 }, { op_refuse, 8, 8 }, { op_abort, 6, 40 },
	{ op_abandon, 10, 30 }, { op_window_fail, 4, 1 }, { op_record, 20, 4 },
	{ op_window_join, 20, 1 }, { op_replay_begin, 50, 6 },
	{ op_replay_end, 50, 30 }, { op_graph_destroy, 6, 10 },
	{ op_graph_update, 12, 1 }, { op_confirm, 40, 120 }, { op_fault, 3, 1 },
	{ op_renew, 10, 60 }, { op_device_fault, 1, 1 }, { op_stream_destroy, 3, 1 },
	{ op_attach, 10, 1 }, { op_pass, 4, 1 }, { op_join, 6, 1 },
	{ op_leave, 5, 1 }, { op_may, 30, 10 },
};

/* The outcome of everything that is open. */
static void finish_work(struct oracle *o)
{
	while (op_exit(o))
		;
	while (op_replay_end(o))
		;
	for (int w = 0; w < M_WINDOWS; w++) {
		struct m_window *win = &o->m.window[w];
		struct capkm_window_abandon a = { .window = win->id };

		if (!win->used || (m_closed(win) && win->state != CAPKM_WINDOW_ORPHANED))
			continue;
		note(o, "abandons in the end window", M_NONE, win->id, win->state);
		EXPECT_RC(o, t_call(o->watch, CAPKM_NR_WINDOW_ABANDON, &a), 0,
			  "WINDOW_ABANDON");
		if (win->state == CAPKM_WINDOW_ORPHANED)
			win->state = CAPKM_WINDOW_REFUSED;
		else
			m_refuse(&o->m, w, CAPKM_KIND_ABANDONED);
	}
	for (int g = 0; g < M_GRAPHS; g++)
		if (o->m.graph[g].used) {
			EXPECT_RC(o, t_destroy(o->user[o->m.graph[g].client].cl,
					       o->m.graph[g].id), 0, "GRAPH_DESTROY");
			o->m.graph[g].used = false;
		}
	sweep(o);
}

static void finish_slots(struct oracle *o, int c)
{
	for (int device = 0; device < M_DEVICES; device++) {
		struct capkm_context_renew renew = { 0 };
		struct capkm_stream_confirm confirm = {
			.flags = CAPKM_STREAM_CONFIRM_F_DEVICE, .sequence = sample(o, c),
		};
		int rc;

		memcpy(renew.device, o->device[device], 16);
		memcpy(confirm.place.device, o->device[device], 16);
		rc = t_call(o->user[c].cl, CAPKM_NR_CONTEXT_RENEW, &renew);
		EXPECT_RC2(o, rc, 0, o->m.client[c].device[device].used ? 0 : -ENOENT,
			   "CONTEXT_RENEW");
		o->m.client[c].device[device].fault = M_NONE;
		EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_STREAM_CONFIRM, &confirm), 0,
			  "STREAM_CONFIRM");
		for (int slot = 0; slot < M_PLACES; slot++)
			if (m_device(slot) == device)
				m_confirm(&o->m, c, slot, confirm.sequence);
	}
}

/* What was confirmed and rewritten is clean, for everybody, and nothing is left. */
static void finish(struct oracle *o)
{
	struct capkm_domain_query d;
	unsigned int buffers = 0;

	finish_work(o);
	for (int c = 0; c < M_CLIENTS; c++)
		if (o->m.client[c].used)
			finish_slots(o, c);
	check_all(o);
	for (int b = 0; b < M_BUFFERS; b++) {
		int c = o->m.buffer[b].used ? holder_of(o, b) : M_NONE;
		struct capkm_claim claim = { o->m.buffer[b].id, 0, o->m.buffer[b].size };
		struct capkm_written w = { .claims_uptr = t_ptr(&claim), .claims_len = 1 };
		struct capkm_check k = {
			.claims_uptr = t_ptr(&claim), .claims_len = 1,
			.flags = CAPKM_CHECK_F_CONFIRMED,
		};

		buffers += o->m.buffer[b].used;
		/* Held by a session that has no living client. */
		if (o->m.buffer[b].used && c == M_NONE)
			return;
		if (c == M_NONE)
			continue;
		EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_WRITTEN, &w), 0, "WRITTEN");
		EXPECT_RC(o, t_call(o->user[c].cl, CAPKM_NR_CHECK, &k), 0, "CHECK");
		if (k.out_result != CAPKM_CLEAN || k.out_unconfirmed)
			mismatch(o, b, M_NONE, "rewritten and confirmed: result %u, %u "
				 "unconfirmed", k.out_result, k.out_unconfirmed);
		for (int i = 0; i < M_BYTES; i++)
			o->m.buffer[b].byte[i].n = 0;
	}
	d = t_domain_query_(o->watch);
	if (!o->shared && (d.out_failures || d.out_claims || d.out_scopes ||
			   d.out_windows || d.out_graphs || d.out_unconfirmed ||
			   d.out_faulted || d.out_buffers != buffers))
		mismatch(o, M_NONE, M_NONE, "all is rewritten and confirmed, and there are "
			 "%llu failures %llu claims %llu scopes %llu windows %llu graphs "
			 "%llu unconfirmed %u faulted %llu buffers", d.out_failures,
			 d.out_claims, d.out_scopes, d.out_windows, d.out_graphs,
			 d.out_unconfirmed, d.out_faulted, d.out_buffers);
}

static void start(struct oracle *o, u_int64_t seed, int processes, u_int64_t domain,
		  bool calm)
{
	static u_int64_t devices;

	memset(o, 0, sizeof(*o));
	o->calm = calm;
	running = o;
	o->seed = seed;
	o->choices.rng = seed;
	o->processes = processes;
	/* A fault of a device is one in all domains: devices of this run only. */
	for (int d = 1; d < M_DEVICES; d++) {
		u_int64_t id = __atomic_add_fetch(&devices, 1, __ATOMIC_RELAXED);

		memcpy(o->device[d], &id, sizeof(id));
		o->device[d][15] = d;
	}
	o->watch = t_client_();
	o->shared = domain;
	if (domain)
		t_attach_(o->watch, domain, CAPKM_BACKEND_SOFTWARE);
	else
		t_domain_(o->watch, CAPKM_BACKEND_SOFTWARE, 0, 0);
	o->domain = o->watch->domain;
	tick_now(o, false);
}

/* One operation, if there is something to do it with. */
static bool step(struct oracle *o, size_t op)
{
	if (!ops[op].fn(o))
		return false;
	ask_windows(o);
	sweep(o);
	return true;
}

/* Played processes leave first: with the test's own handle the session ends. */
static void all_leave(struct oracle *o)
{
	for (int own = 0; own < 2; own++)
		for (int c = 0; c < M_CLIENTS; c++)
			if (o->user[c].cl &&
			    (own || o->user[c].cl->played || o->user[c].cl->pid))
				leaves(o, c);
}

/* With the last holder all is gone but the orphans. */
static void end(struct oracle *o)
{
	all_leave(o);
	sweep(o);
	if (!o->shared) {
		struct capkm_domain_query d = t_domain_query_(o->watch);

		if (d.out_buffers || d.out_failures || d.out_claims || d.out_scopes ||
		    d.out_graphs || d.out_unconfirmed || d.out_faulted)
			mismatch(o, M_NONE, M_NONE, "left over: buffers %llu failures %llu "
				 "claims %llu scopes %llu graphs %llu", d.out_buffers,
				 d.out_failures, d.out_claims, d.out_scopes,
				 d.out_graphs);
		/* Orphans and reports would linger. */
		EXPECT_RC(o, t_call(o->watch, CAPKM_NR_DOMAIN_DESTROY,
				    &(struct capkm_domain_destroy){ 0 }), 0,
			  "DOMAIN_DESTROY");
	}
	t_close(o->watch);
	m_free(&o->m);
	running = NULL;
}

#endif /* ORACLE_H */
