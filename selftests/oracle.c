// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine against the model of model.h, by the million of random operations:
 * sessions that share buffers, scopes that overlap, windows in every state,
 * replays, and clients that die at any point. Each answer is compared, and at
 * intervals the whole state.
 *
 * CAPKM_TEST_OPS: operations in all. CAPKM_TEST_SEED: seed of the first run; a
 * run that fails says which seed to give.
 */
#include "capkm_test.h"
#include "model.h"
#include <pthread.h>

/* SplitMix64 */
static u_int64_t next(u_int64_t *state)
{
	u_int64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* ----------------------------------------------------------- T-20 to T-24 */

/*
 * The property test of semantics 5.2 with its own parameters: one session,
 * scopes that never overlap, so a byte has one writer: the last one.
 */
struct plain {
	u_int64_t id;
	unsigned int size;
	u_int64_t *byte;	/* failure of the last writer, 0 if it went well */
};

static void plain_range(u_int64_t *rng, const struct plain *b, struct capkm_claim *c)
{
	c->buffer = b->id;
	c->start = 0;
	c->end = b->size;
	if (next(rng) % 100 < 50)
		return;
	c->start = next(rng) % b->size;
	c->end = c->start + 1 + next(rng) % (b->size - c->start);
}

/* T-24, exactly: the failures are those that some byte carries. */
static u_int64_t plain_failures(const struct plain *b, unsigned int n)
{
	static u_int64_t seen[300];
	u_int64_t failures = 0;

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int at = 0; at < b[i].size; at++) {
			u_int64_t f = b[i].byte[at], j = 0;

			if (!f || (at && f == b[i].byte[at - 1]))
				continue;
			while (j < failures && seen[j] != f)
				j++;
			if (j == failures)
				seen[failures++] = f;
		}
	}
	return failures;
}

static void plain_check(struct cl *cl, const struct plain *b, const struct capkm_claim *c,
			u_int64_t seed, int step)
{
	u_int64_t at = c->start, end;
	struct t_check k = t_check_(cl, c, 1);

	while (at < c->end && !b->byte[at])
		at++;
	if ((at == c->end) != (k.result == CAPKM_CLEAN))
		t_die("seed %" PRIu64 " step %d: [%llu,%llu) of %" PRIu64
		      " is %sclean, the model says otherwise", seed, step, c->start, c->end,
		      b->id, k.result == CAPKM_CLEAN ? "" : "not ");
	if (at == c->end)
		return;
	for (end = at; end < c->end && b->byte[end] == b->byte[at]; end++)
		;
	if (k.reports != 1 || k.r[0].failure != b->byte[at] || k.r[0].start != at ||
	    k.r[0].end > end || k.r[0].end <= at)
		t_die("seed %" PRIu64 " step %d: failure %llu at [%llu,%llu), the model "
		      "says %" PRIu64 " at [%" PRIu64 ",%" PRIu64 ")", seed, step,
		      k.r[0].failure, k.r[0].start, k.r[0].end, b->byte[at], at, end);
}

static void plain_run(u_int64_t seed)
{
	struct plain b[300];
	unsigned int n = 0;
	u_int64_t rng = seed;
	struct cl *cl = t_client();

	t_domain_(cl, CAPKM_BACKEND_SOFTWARE, 0, 4);
	for (int step = 0; step < 300; step++) {
		unsigned int draw = next(&rng) % 100;
		struct capkm_claim c[3];
		u_int64_t stream = next(&rng) % 8;

		if (draw < 20) {			/* alloc */
			b[n].size = 32 * (1 + next(&rng) % 64);
			b[n].id = t_buffer_(cl, b[n].size, 0);
			b[n].byte = calloc(b[n].size, sizeof(*b[n].byte));
			n++;
		} else if (draw < 70 && n) {		/* launch, host write */
			unsigned int k = draw < 60 ? 1 + next(&rng) % (n < 3 ? n : 3) : 1;
			unsigned int touched[3], m = 0;
			u_int64_t f = 0;

			next(&rng);
			while (k--) {
				unsigned int which = next(&rng) % n, j = 0;

				while (j < m && touched[j] != which)
					j++;
				if (j < m)
					continue;
				touched[m] = which;
				plain_range(&rng, &b[which], &c[m++]);
			}
			if (draw < 40)
				f = t_fail_(cl, stream, c, m, "failing launch");
			else
				t_write_(cl, stream, c, m);
			for (unsigned int i = 0; i < m; i++)
				for (u_int64_t at = c[i].start; at < c[i].end; at++)
					b[touched[i]].byte[at] = f;
		} else if (draw < 90 && n) {		/* read */
			unsigned int which = next(&rng) % n;

			plain_range(&rng, &b[which], &c[0]);
			plain_check(cl, &b[which], &c[0], seed, step);
		} else if (draw < 96 && n) {		/* free */
			unsigned int which = next(&rng) % n;

			if (t_drop(cl, b[which].id))
				t_die("BUFFER_CLOSE");
			free(b[which].byte);
			b[which] = b[--n];
		}					/* else cleanup: a pool's */
		if (t_failures(cl) != plain_failures(b, n))
			t_die("seed %" PRIu64 " step %d: other failures than bytes carry",
			      seed, step);
	}
	/* T-22: at rest, each buffer as a whole; T-23: then nothing is left */
	for (unsigned int i = 0; i < n; i++) {
		struct capkm_claim c = { b[i].id, 0, b[i].size };

		plain_check(cl, &b[i], &c, seed, 300);
	}
	while (n--) {
		if (t_drop(cl, b[n].id))
			t_die("BUFFER_CLOSE");
		free(b[n].byte);
	}
	t_is_empty(cl);
	t_close(cl);
}

/* T-20 T-21 T-22 T-23 T-24 */
TEST(last_writer)
{
	for (u_int64_t seed = 0; seed < 40; seed++)
		plain_run(seed);
	t_no_leaks();
}

/* ------------------------------------------------------------ everything */

#define CLIENTS		5
#define SLOTS		4
#define STREAMS		8
#define RUN		4000	/* operations of one run */

struct client {
	struct cl *cl;
	int backend;
	int held[M_BUFFERS];	/* references */
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
	struct client client[CLIENTS];
	struct cl *watch;	/* holds nothing, does nothing, keeps the domain */
	u_int64_t domain;
	bool shared;		/* others work in the domain as well */
	u_int64_t seed, rng;
	int processes;		/* that may still be made */
	unsigned int events;
	struct event event[EVENTS];
	struct event *now;
};

static unsigned int draw(struct oracle *o, unsigned int n)
{
	return next(&o->rng) % n;
}

static bool chance(struct oracle *o, unsigned int percent)
{
	return draw(o, 100) < percent;
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

static void print_byte(const struct oracle *o, const struct m_byte *b)
{
	static const char *const names[] = { "open", "replay", "failed", "recorded" };

	for (int i = 0; i < b->n; i++) {
		const struct m_claim *c = &b->c[i];
		u_int64_t id = c->what == M_OPEN ? o->m.scope[c->ref].id :
			c->what == M_REPLAY ? o->m.graph[c->ref].id :
			c->what == M_FAILED ? o->m.failure[c->ref].id :
			o->m.window[c->ref].id;

		fprintf(stderr, "#\t%s %" PRIu64 " (#%d) enter %" PRIu64 " date %" PRIu64
			"\n", names[c->what], id, c->ref, c->enter, c->date);
	}
}

static void print_ranges_of_engine(const struct oracle *o, int buffer)
{
	for (int c = 0; buffer != M_NONE && c < CLIENTS; c++) {
		struct t_buffer b;

		if (!o->client[c].cl || !o->client[c].held[buffer])
			continue;
		b = t_buffer_query_(o->client[c].cl, o->m.buffer[buffer].id);
		fprintf(stderr, "# the engine's buffer %" PRIu64 ":\n",
			o->m.buffer[buffer].id);
		for (unsigned int i = 0; i < b.q.out_ranges; i++)
			fprintf(stderr, "#\t[%llu,%llu) state %u id %llu\n", b.r[i].start,
				b.r[i].end, b.r[i].state, b.r[i].id);
		return;
	}
}

/* @buffer: of interest, or M_NONE; @byte of it as well. */
static void __attribute__((noreturn, format(printf, 4, 5)))
mismatch(struct oracle *o, int buffer, int byte, const char *fmt, ...)
{
	unsigned int first = o->events > EVENTS ? o->events - EVENTS : 0, shown = 0;
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "# seed %" PRIu64 " step %" PRIu64 ": ", o->seed, o->m.step);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	if (buffer != M_NONE && byte != M_NONE) {
		fprintf(stderr, "# the model's byte %d of buffer %" PRIu64 ":\n", byte,
			o->m.buffer[buffer].id);
		print_byte(o, &o->m.buffer[buffer].byte[byte]);
	}
	print_ranges_of_engine(o, buffer);
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
	fprintf(stderr, "# again: CAPKM_TEST_SEED=%" PRIu64 " CAPKM_TEST_OPS=%d\n", o->seed,
		RUN);
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

/* ---- choosing */

static int any_client(struct oracle *o)
{
	int c = draw(o, CLIENTS);

	for (int i = 0; i < CLIENTS; i++, c = (c + 1) % CLIENTS)
		if (o->client[c].cl)
			return c;
	return M_NONE;
}

/* A buffer that the client holds. */
static int any_held(struct oracle *o, int c)
{
	int b = draw(o, M_BUFFERS);

	for (int i = 0; i < M_BUFFERS; i++, b = (b + 1) % M_BUFFERS)
		if (o->m.buffer[b].used && o->client[c].held[b])
			return b;
	return M_NONE;
}

static struct m_range any_range(struct oracle *o, int b)
{
	int size = o->m.buffer[b].size;
	struct m_range r = { b, 0, size };

	if (chance(o, 25))
		return r;
	r.start = draw(o, size + 1);
	r.end = r.start + draw(o, size - r.start + 1);
	return r;
}

static struct m_ranges any_ranges(struct oracle *o, int c, unsigned int most)
{
	struct m_ranges rs = { draw(o, most + 1), {} };

	for (int i = 0; i < rs.n; i++) {
		int b = any_held(o, c);

		if (b == M_NONE) {
			rs.n = i;
			break;
		}
		rs.r[i] = any_range(o, b);
	}
	return rs;
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

/* ---- what holds what */

static int slot_of(u_int64_t stream)
{
	return stream % SLOTS;
}

/* The window that is on the slot, or M_NONE. */
static int on_slot(struct oracle *o, int c, int slot)
{
	for (int i = 0; i < M_WINDOWS; i++) {
		const struct m_window *w = &o->m.window[i];

		if (w->used && w->client == c && w->slot == slot && !m_closed(w) &&
		    (w->state != CAPKM_WINDOW_CLOSING || w->held))
			return i;
	}
	return M_NONE;
}

static unsigned int state_of(struct oracle *o, int window)
{
	return window == M_NONE ? CAPKM_WINDOW_NONE : o->m.window[window].state;
}

static bool busy_slot(struct oracle *o, int c, int slot)
{
	for (int i = 0; i < M_SCOPES; i++)
		if (o->m.scope[i].used && o->m.scope[i].client == c &&
		    o->m.scope[i].slot == slot)
			return true;
	for (int i = 0; i < M_GRAPHS; i++)
		if (o->m.graph[i].used && o->m.graph[i].client == c &&
		    o->m.graph[i].replaying && o->m.graph[i].slot == slot)
			return true;
	return false;
}

/* 2: certainly there, 1: the rules do not say, 0: certainly gone. */
static int kept(const struct oracle *o, int b)
{
	bool maybe = false;

	for (int c = 0; c < CLIENTS; c++)
		if (o->client[c].held[b])
			return 2;
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

/* What nothing refers to any more goes. */
static void sweep(struct oracle *o)
{
	struct model *m = &o->m;

	for (int i = 0; i < M_WINDOWS; i++) {
		struct m_window *w = &m->window[i];
		bool used = !m_closed(w) || w->state == CAPKM_WINDOW_ORPHANED;

		for (int s = 0; s < M_SCOPES && !used; s++)
			used = m->scope[s].used && m->scope[s].window == i;
		w->used = w->used && used;
	}
	for (int b = 0; b < M_BUFFERS; b++)
		if (m->buffer[b].used && !kept(o, b))
			m->buffer[b].used = false;
}

/* ---- comparing answers */

#define EXPECT_RC(o, rc, want, what) do {				\
	int rc_ = (rc), want_ = (want);					\
									\
	if (rc_ != want_)						\
		mismatch(o, M_NONE, M_NONE, what ": %d, expected %d", rc_, want_); \
} while (0)

/* Can the report's failure be failure @f of the model? */
static bool fits(struct oracle *o, int f, const struct capkm_report *r)
{
	const struct m_failure *x = &o->m.failure[f];

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
	/* Who is known already comes first. */
	for (int known = 1; known >= 0; known--)
		for (int i = 0; i < v->n; i++)
			if (!!o->m.failure[v->named[i].ref].id == known &&
			    fits(o, v->named[i].ref, r))
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
		mismatch(o, b, at, "report names failure %llu scope %llu graph %llu window "
			 "%llu, the model does not: %d may be, first #%d id %" PRIu64,
			 r->failure, r->scope, r->graph, r->window, v->n,
			 v->named[0].ref, v->result == M_TAINTED ?
			 o->m.failure[v->named[0].ref].id : 0);
	for (int i = at; i < (int)r->end; i++)
		if (!may_name(&o->m, b, i, window, what, ref))
			mismatch(o, b, i, "the run [%d,%llu) does not have one cause", at,
				 r->end);
	return what == M_FAILED ? ref : M_NONE;
}

/* ---- the operations; false: there was nothing to do it with */

static bool op_buffer_create(struct oracle *o)
{
	static const int sizes[] = { 1, 7, 16, 24, 33, 64 };
	int c = any_client(o), size = sizes[draw(o, ARRAY_SIZE(sizes))], b;
	bool exported = chance(o, 60);
	u_int64_t id;

	if (FREE(o->m.buffer) == M_NONE)
		return false;
	id = t_buffer_(o->client[c].cl, size, exported ? CAPKM_BUFFER_CREATE_F_EXPORT : 0);
	b = m_new_buffer(&o->m, id, size, exported, c);
	o->client[c].held[b] = 1;
	note(o, "creates buffer", c, id, size)->touches = 1ull << b;
	return true;
}

static bool op_buffer_export(struct oracle *o)
{
	int c = any_client(o), b = any_held(o, c);
	struct capkm_buffer_export a = { 0 };

	if (b == M_NONE)
		return false;
	a.buffer = o->m.buffer[b].id;
	EXPECT_RC(o, t_call(o->client[c].cl, CAPKM_NR_BUFFER_EXPORT, &a), 0,
		  "BUFFER_EXPORT");
	o->m.buffer[b].exported = true;
	return true;
}

static bool op_buffer_open(struct oracle *o)
{
	int c = any_client(o), b = ANY(o, o->m.buffer, it->exported), held = 0;
	struct capkm_buffer_open a = { 0 };
	int rc;

	if (b == M_NONE)
		return false;
	for (int i = 0; i < CLIENTS; i++)
		held += o->client[i].held[b];
	a.buffer = o->m.buffer[b].id;
	rc = t_call(o->client[c].cl, CAPKM_NR_BUFFER_OPEN, &a);
	/* One that nobody holds is hidden. */
	EXPECT_RC(o, rc, held ? 0 : -ENOENT, "BUFFER_OPEN");
	if (rc)
		return true;
	if (a.out_bytes != (u_int64_t)o->m.buffer[b].size)
		mismatch(o, b, M_NONE, "BUFFER_OPEN: %llu bytes", a.out_bytes);
	o->client[c].held[b]++;
	note(o, "opens buffer", c, a.buffer, 0)->touches = 1ull << b;
	return true;
}

static bool op_buffer_close(struct oracle *o)
{
	int c = any_client(o), b = any_held(o, c);

	if (b == M_NONE)
		return false;
	note(o, "closes buffer", c, o->m.buffer[b].id, 0)->touches = 1ull << b;
	EXPECT_RC(o, t_drop(o->client[c].cl, o->m.buffer[b].id), 0, "BUFFER_CLOSE");
	o->client[c].held[b]--;
	return true;
}

static bool op_reset(struct oracle *o)
{
	int c = any_client(o), b = any_held(o, c), rc;
	struct m_ranges rs = { 1, {} };

	if (b == M_NONE)
		return false;
	rs.r[0] = any_range(o, b);
	note_ranges(note(o, "resets", c, 0, 0), NULL, &rs);
	rc = t_reset(o->client[c].cl, o->m.buffer[b].id, rs.r[0].start, rs.r[0].end);
	EXPECT_RC(o, rc, m_is_open(&o->m, &rs) ? -EBUSY : 0, "BUFFER_RESET");
	if (!rc)
		m_zero_length(&o->m, &rs, M_NONE);
	return true;
}

static bool op_written(struct oracle *o)
{
	int c = any_client(o);
	struct m_ranges rs = any_ranges(o, c, 3);
	struct capkm_claim claims[M_CLAIMS] = { 0 };
	struct capkm_written a = { .claims_uptr = t_ptr(claims), .claims_len = rs.n };

	to_claims(o, &rs, claims);
	note_ranges(note(o, "written", c, 0, 0), NULL, &rs);
	EXPECT_RC(o, t_call(o->client[c].cl, CAPKM_NR_WRITTEN, &a), 0, "WRITTEN");
	m_zero_length(&o->m, &rs, M_NONE);
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
	struct m_ranges rs = any_ranges(o, c, 3);
	struct capkm_claim claims[M_CLAIMS] = { 0 };
	u_int64_t id, any = 0;

	to_claims(o, &rs, claims);
	note_ranges(note(o, "taints", c, f == M_NONE ? 0 : o->m.failure[f].id, 0), NULL,
		    &rs);
	for (int b = 0; b < M_BUFFERS; b++)
		any |= m_bytes(&rs, b);
	EXPECT_RC(o, t_try_taint(o->client[c].cl, claims, rs.n,
				 f == M_NONE ? 0 : o->m.failure[f].id,
				 f == M_NONE ? "tainted" : NULL, &id), 0, "TAINT");
	o->now->more = id;
	if (!any) {
		if (id)
			mismatch(o, M_NONE, M_NONE, "TAINT of nothing: failure %" PRIu64,
				 id);
		return true;
	}
	if (f == M_NONE)
		f = m_new_failure(&o->m, id);
	if (f == M_NONE || !m_is_id(&o->m, f, id))
		mismatch(o, M_NONE, M_NONE, "TAINT: failure %" PRIu64, id);
	m_zero_length(&o->m, &rs, f);
	return true;
}

static bool op_enter(struct oracle *o)
{
	int c = any_client(o), s = FREE(o->m.scope), window, first, at = 0, f;
	u_int64_t stream = draw(o, STREAMS);
	struct m_ranges reads = any_ranges(o, c, 3), writes = any_ranges(o, c, 3);
	unsigned int flags = chance(o, 15) ? CAPKM_SCOPE_ENTER_F_POISON : 0, want;
	struct capkm_claim r[M_CLAIMS], w[M_CLAIMS];
	struct m_verdict v;
	struct t_enter e;

	if (s == M_NONE)
		return false;
	/* A window has a limited number of keys here. */
	window = on_slot(o, c, slot_of(stream));
	if (window != M_NONE && o->m.window[window].keys_n > M_KEYS / 2)
		return false;
	to_claims(o, &reads, r);
	to_claims(o, &writes, w);
	note_ranges(note(o, flags ? "enters poisoned" : "enters", c, 0, stream), &reads,
		    &writes);
	e = t_try_enter(o->client[c].cl, stream, flags, NULL, r, reads.n, w, writes.n);
	if (state_of(o, window) == CAPKM_WINDOW_OPENING ||
	    state_of(o, window) == CAPKM_WINDOW_CLOSING) {
		EXPECT_RC(o, e.rc, -EBUSY, "SCOPE_ENTER on a held slot");
		return true;
	}
	EXPECT_RC(o, e.rc, 0, "SCOPE_ENTER");
	if (state_of(o, window) != CAPKM_WINDOW_CAPTURE)
		window = M_NONE;
	first = m_judge(&o->m, &reads, window, &at, &v);
	want = v.result == M_CLEAN ? CAPKM_CLEAN :
	       v.result == M_IN_PROGRESS ? CAPKM_IN_PROGRESS :
	       flags ? CAPKM_CLEAN : CAPKM_SKIPPED;
	if (e.result != want || !e.scope != (want != CAPKM_CLEAN))
		mismatch(o, first == M_NONE ? M_NONE : reads.r[first].buffer,
			 at, "SCOPE_ENTER: result %u scope %" PRIu64 ", expected %u",
			 e.result, e.scope, want);
	o->now->id = e.scope;
	f = M_NONE;
	if (e.reports != (want != CAPKM_CLEAN || (flags && v.result == M_TAINTED)) &&
	    /* Whether a poisoned scope is told of its input is not said. */
	    !(flags && v.result == M_TAINTED))
		mismatch(o, M_NONE, M_NONE, "SCOPE_ENTER: %u reports", e.reports);
	if (e.reports)
		f = check_report(o, &e.r, reads.r[first].buffer, at, reads.r[first].end,
				 window, &v);
	else if (v.result == M_TAINTED)
		f = v.named[0].ref;
	if (v.result == M_IN_PROGRESS)
		return true;
	if (want == CAPKM_SKIPPED) {
		o->now->what = "is skipped";
		m_doom(&o->m, window);
		m_zero_length(&o->m, &writes, f);
	} else {
		m_enter(&o->m, s, e.scope, c, slot_of(stream), window, f, &reads, &writes);
	}
	return true;
}

static bool op_exit(struct oracle *o)
{
	int s = ANY(o, o->m.scope, true), f, carried;
	bool failed = chance(o, 25);
	struct m_scope *scope;
	u_int64_t any = 0;
	struct capkm_scope_exit a = { 0 };

	if (s == M_NONE)
		return false;
	scope = &o->m.scope[s];
	for (int b = 0; b < M_BUFFERS; b++)
		any |= m_bytes(&scope->writes, b);
	a.scope = scope->id;
	if (failed) {
		a.flags = CAPKM_SCOPE_EXIT_F_FAILED;
		a.kind = CAPKM_KIND_LAUNCH;
	}
	note_ranges(note(o, failed ? "exits badly" : "exits", scope->client, scope->id, 0),
		    &scope->reads, &scope->writes);
	EXPECT_RC(o, t_call(o->client[scope->client].cl, CAPKM_NR_SCOPE_EXIT, &a), 0,
		  "SCOPE_EXIT");
	o->now->more = a.out_failure;
	carried = failed ? m_new_failure(&o->m, any ? a.out_failure : 0) :
			   m_exit_failure(&o->m, s);
	if (failed && carried == M_NONE)
		mismatch(o, M_NONE, M_NONE, "SCOPE_EXIT: failure %llu is not new",
			 a.out_failure);
	/* Poisoned, and the window refused: the rules do not say which comes first. */
	if (!failed && scope->poison != M_NONE && carried != scope->poison &&
	    a.out_failure == o->m.failure[scope->poison].id)
		carried = scope->poison;
	f = carried;
	if (any && (f == M_NONE ? a.out_failure != 0 : !m_is_id(&o->m, f, a.out_failure)))
		mismatch(o, M_NONE, M_NONE, "SCOPE_EXIT: failure %llu, expected #%d id %"
			 PRIu64, a.out_failure, f,
			 f == M_NONE ? 0 : o->m.failure[f].id);
	m_exit(&o->m, s, f);
	return true;
}

static bool op_check(struct oracle *o)
{
	int c = any_client(o), seen[M_CLAIMS], n = 0, at;
	struct m_ranges rs = any_ranges(o, c, M_CLAIMS);
	struct capkm_claim claims[M_CLAIMS] = { 0 };
	struct t_check k;
	unsigned int reports = 0;
	bool tainted = false;

	to_claims(o, &rs, claims);
	k = t_check_(o->client[c].cl, claims, rs.n);
	for (int i = 0; i < rs.n; i++) {
		struct m_verdict v;
		bool again = false;
		int f;

		at = m_judge_set(&o->m, rs.r[i].buffer,
				 m_mask(rs.r[i].start, rs.r[i].end), M_NONE, &v);
		if (at == M_NONE)
			continue;
		tainted = true;
		/* A failure that an earlier claim reported is not reported again. */
		for (int j = 0; v.result == M_TAINTED && j < n; j++)
			for (int x = 0; x < v.n; x++)
				again |= seen[j] == v.named[x].ref;
		if (again && v.n == 1)
			continue;
		if (reports >= k.reports) {
			if (again)
				continue;
			mismatch(o, rs.r[i].buffer, at, "CHECK [%d,%d): result %u, %u "
				 "reports", rs.r[i].start, rs.r[i].end, k.result,
				 k.reports);
		}
		f = check_report(o, &k.r[reports++], rs.r[i].buffer, at, rs.r[i].end,
				 M_NONE, &v);
		if (f != M_NONE)
			seen[n++] = f;
	}
	if (reports != k.reports || (k.result == CAPKM_TAINTED) != tainted)
		mismatch(o, rs.n ? rs.r[0].buffer : M_NONE, M_NONE, "CHECK: result %u, %u "
			 "reports, expected %d and %u", k.result, k.reports, tainted,
			 reports);
	return true;
}

/* ---- windows */

static bool op_prepare(struct oracle *o)
{
	int c = any_client(o), w = FREE(o->m.window), old;
	u_int64_t stream = draw(o, STREAMS);
	struct capkm_window_prepare a = { .place.stream = stream };
	struct m_window *win;
	int rc;

	if (w == M_NONE)
		return false;
	old = on_slot(o, c, slot_of(stream));
	rc = t_call(o->client[c].cl, CAPKM_NR_WINDOW_PREPARE, &a);
	EXPECT_RC(o, rc, old == M_NONE ? 0 : -EBUSY, "WINDOW_PREPARE");
	if (rc) {
		if (a.out_state != state_of(o, old))
			mismatch(o, M_NONE, M_NONE, "WINDOW_PREPARE: state %u, expected %u",
				 a.out_state, state_of(o, old));
		return true;
	}
	note(o, "prepares window", c, a.out_window, stream);
	win = &o->m.window[w];
	memset(win, 0, sizeof(*win));
	win->used = true;
	win->id = a.out_window;
	win->client = c;
	win->slot = slot_of(stream);
	win->owner = stream;
	win->state = CAPKM_WINDOW_PREPARE;
	return true;
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
	a.place.stream = win->slot + SLOTS * draw(o, 2);
	a.flags = second ? CAPKM_WINDOW_F_DRIVER_DONE : 0;
	rc = t_call(o->client[win->client].cl, CAPKM_NR_WINDOW_BEGIN, &a);
	EXPECT_RC(o, rc, busy_slot(o, win->client, win->slot) ? -EBUSY : 0, "WINDOW_BEGIN");
	if (rc)
		return true;
	win->state = second || o->client[win->client].backend == CAPKM_BACKEND_SOFTWARE ?
		     CAPKM_WINDOW_CAPTURE : CAPKM_WINDOW_OPENING;
	note(o, "begins window", win->client, win->id, win->state);
	if (a.out_state != win->state || a.out_window != win->id ||
	    a.out_owner != win->owner)
		mismatch(o, M_NONE, M_NONE, "WINDOW_BEGIN: state %u window %llu owner %llu",
			 a.out_state, a.out_window, a.out_owner);
	return true;
}

static bool op_end(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CAPTURE || it->held);
	struct m_window *win;
	struct capkm_window_end a = { 0 };
	bool second;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	second = win->held;
	a.place.stream = chance(o, 80) ? win->owner : (win->owner + SLOTS) % STREAMS;
	a.flags = second ? CAPKM_WINDOW_F_DRIVER_DONE : 0;
	note(o, second ? "ends window, done" : "ends window", win->client, win->id,
	     a.place.stream);
	EXPECT_RC(o, t_call(o->client[win->client].cl, CAPKM_NR_WINDOW_END, &a), 0,
		  "WINDOW_END");
	if (a.out_window != win->id || a.out_owner != win->owner)
		mismatch(o, M_NONE, M_NONE, "WINDOW_END: window %llu owner %llu",
			 a.out_window, a.out_owner);
	if (second) {
		win->held = false;
		return true;
	}
	win->state = CAPKM_WINDOW_CLOSING;
	win->held = o->client[win->client].backend == CAPKM_BACKEND_HARDWARE;
	win->abandoned = a.place.stream != win->owner;
	if (a.out_verdict != (win->abandoned ? CAPKM_VERDICT_ABANDONED :
					       CAPKM_VERDICT_OWNED))
		mismatch(o, M_NONE, M_NONE, "WINDOW_END: verdict %u", a.out_verdict);
	/* INCOMPLETE: the sets of open scopes count as recorded. */
	for (int s = 0; s < M_SCOPES; s++) {
		struct m_scope *scope = &o->m.scope[s];

		if (!scope->used || scope->window != w)
			continue;
		win->doomed = true;
		for (int i = 0; i < scope->writes.n; i++)
			m_key(win, &scope->writes.r[i]);
		for (int b = 0; b < M_BUFFERS; b++)
			win->written[b] |= m_bytes(&scope->writes, b);
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
	EXPECT_RC(o, t_call(o->client[win->client].cl, CAPKM_NR_WINDOW_TAKE, &a), 0,
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
	static __thread struct capkm_claim got[192];
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
static void learn_refusal(struct oracle *o, int w, const struct t_seal *s)
{
	int f = o->m.window[w].failure;

	for (int b = 0; b < M_BUFFERS; b++)
		if (o->m.buffer[b].used && m_carries(&o->m, b, f)) {
			if (!s->reports || !m_is_id(&o->m, f, s->r[0].failure))
				mismatch(o, b, M_NONE, "window %" PRIu64 " is refused with "
					 "failure %llu, its bytes carry #%d id %" PRIu64,
					 o->m.window[w].id, s->r[0].failure, f,
					 o->m.failure[f].id);
			return;
		}
}

static bool op_seal(struct oracle *o)
{
	int w = ANY(o, o->m.window, it->state == CAPKM_WINDOW_CLOSING), g;
	bool no_inputs = chance(o, 10), refused;
	struct m_window *win;
	struct t_seal s;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	g = FREE(o->m.graph);
	if (g == M_NONE)
		return false;
	refused = win->doomed || win->abandoned;
	note_masks(note(o, "seals window", win->client, win->id, 0), win->written);
	s = t_try_seal(o->client[win->client].cl, win->id,
		       no_inputs ? CAPKM_WINDOW_SEAL_F_NO_INPUTS : 0);
	EXPECT_RC(o, s.rc, win->held ? -EBUSY : 0, "WINDOW_SEAL");
	if (s.rc)
		return true;
	if (s.result != (refused ? CAPKM_REFUSED : CAPKM_CLEAN))
		mismatch(o, M_NONE, M_NONE, "WINDOW_SEAL of %" PRIu64 ": result %u, doomed "
			 "%d abandoned %d", win->id, s.result, win->doomed,
			 win->abandoned);
	o->now->more = s.graph;
	if (refused) {
		o->now->what = "seals in vain window";
		m_refuse(&o->m, w, CAPKM_WINDOW_REFUSED);
		learn_refusal(o, w, &s);
	} else {
		m_seal(&o->m, w, g, s.graph, no_inputs);
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
	s = t_refuse_(o->client[win->client].cl, win->id, "refused");
	m_refuse(&o->m, w, CAPKM_WINDOW_REFUSED);
	learn_refusal(o, w, &s);
	return true;
}

static bool op_abort(struct oracle *o)
{
	int c = any_client(o), w;
	u_int64_t stream = draw(o, STREAMS);
	struct capkm_window_abort a = { .place.stream = stream };

	w = on_slot(o, c, slot_of(stream));
	note(o, "aborts window", c, w == M_NONE ? 0 : o->m.window[w].id, stream);
	if (w != M_NONE)
		note_masks(o->now, o->m.window[w].written);
	EXPECT_RC(o, t_call(o->client[c].cl, CAPKM_NR_WINDOW_ABORT, &a), 0, "WINDOW_ABORT");
	if (a.out_window != (w == M_NONE ? 0 : o->m.window[w].id))
		mismatch(o, M_NONE, M_NONE, "WINDOW_ABORT: window %llu", a.out_window);
	if (w != M_NONE)
		m_refuse(&o->m, w, CAPKM_WINDOW_REFUSED);
	return true;
}

static bool op_abandon(struct oracle *o)
{
	int c = any_client(o), w = ANY(o, o->m.window, !m_closed(it) ||
				       it->state == CAPKM_WINDOW_ORPHANED);
	struct m_window *win;

	if (w == M_NONE)
		return false;
	win = &o->m.window[w];
	/* Most of the time only orphans. */
	if (win->state != CAPKM_WINDOW_ORPHANED && !chance(o, 20))
		return false;
	note_masks(note(o, "abandons window", c, win->id, win->state), win->written);
	EXPECT_RC(o, t_abandon(o->client[c].cl, win->id), 0, "WINDOW_ABANDON");
	if (win->state == CAPKM_WINDOW_ORPHANED)
		win->state = CAPKM_WINDOW_REFUSED;
	else
		m_refuse(&o->m, w, CAPKM_WINDOW_REFUSED);
	return true;
}

static bool op_window_fail(struct oracle *o)
{
	int c = any_client(o), w = ANY(o, o->m.window, !m_closed(it));
	struct capkm_window_fail f;

	if (w == M_NONE)
		return false;
	note(o, "fails window", c, o->m.window[w].id, 0);
	f = t_window_fail_(o->client[c].cl, o->m.window[w].id, 1, 900, "op", "text");
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
	EXPECT_RC(o, t_try_record(o->client[win->client].cl, win->id,
				  seen ? CAPKM_WINDOW_RECORD_F_SEEN : 0, r, reads.n, x,
				  writes.n), 0, "WINDOW_RECORD");
	if (win->state == CAPKM_WINDOW_PREPARE)
		return true;
	if (seen)
		for (int b = 0; b < M_BUFFERS; b++)
			win->seen[b] |= m_bytes(&writes, b);
	else
		m_record_claims(&o->m, w, &reads, &writes);
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

static bool op_replay_begin(struct oracle *o)
{
	int g = ANY(o, o->m.graph, !it->replaying), window, c, b = M_NONE, at = M_NONE, f;
	u_int64_t stream = draw(o, STREAMS);
	unsigned int state, want;
	struct m_verdict v = { M_CLEAN, 0, {} };
	struct m_graph *graph;
	struct t_replay r;

	if (g == M_NONE)
		return false;
	graph = &o->m.graph[g];
	c = graph->client;
	window = on_slot(o, c, slot_of(stream));
	state = state_of(o, window);
	note_masks(note(o, "begins replay of graph", c, graph->id, stream), graph->writes);
	note_masks(o->now, graph->inputs);
	note_masks(o->now, graph->seen);
	r = t_try_replay(o->client[c].cl, graph->id, stream);
	if (state == CAPKM_WINDOW_OPENING || state == CAPKM_WINDOW_CLOSING) {
		EXPECT_RC(o, r.rc, -EBUSY, "GRAPH_REPLAY_BEGIN on a held slot");
		return true;
	}
	if (state == CAPKM_WINDOW_CAPTURE &&
	    o->client[c].backend == CAPKM_BACKEND_HARDWARE) {
		EXPECT_RC(o, r.rc, -EOPNOTSUPP, "GRAPH_REPLAY_BEGIN in a driver's window");
		return true;
	}
	EXPECT_RC(o, r.rc, 0, "GRAPH_REPLAY_BEGIN");
	for (int way = 0; way < 2; way++) {
		b = first_input(o, graph, way, &at, &v);
		if (b == M_NONE || (r.reports == 1 && r.r.start == (u_int64_t)at &&
				    r.r.buffer == o->m.buffer[b].id))
			break;
	}
	/* Try again comes first: then it will be refused. */
	if (state == CAPKM_WINDOW_CAPTURE && v.result != M_IN_PROGRESS) {
		o->now->what = "is refused the replay of graph";
		if (r.result != CAPKM_REFUSED)
			mismatch(o, M_NONE, M_NONE, "GRAPH_REPLAY_BEGIN in a window: "
				 "result %u", r.result);
		m_doom(&o->m, window);
		f = m_new_failure(&o->m, 0);
		m_replay_fails(&o->m, g, f);
		return true;
	}
	want = v.result == M_CLEAN ? CAPKM_CLEAN :
	       v.result == M_IN_PROGRESS ? CAPKM_IN_PROGRESS : CAPKM_SKIPPED;
	if (r.result != want || r.reports != (want != CAPKM_CLEAN))
		mismatch(o, at == M_NONE ? M_NONE : b, at, "GRAPH_REPLAY_BEGIN of %" PRIu64
			 ": result %u, %u reports, expected %u", graph->id, r.result,
			 r.reports, want);
	if (want == CAPKM_CLEAN) {
		m_replay_begin(&o->m, g, slot_of(stream));
		return true;
	}
	f = check_report(o, &r.r, b, at, o->m.buffer[b].size, M_NONE, &v);
	if (want == CAPKM_SKIPPED) {
		o->now->what = "is skipped the replay of graph";
		m_replay_fails(&o->m, g, f);
	}
	return true;
}

static bool op_replay_end(struct oracle *o)
{
	int g = ANY(o, o->m.graph, it->replaying), f = M_NONE;
	bool failed = chance(o, 30);
	u_int64_t id, any = 0;
	struct m_graph *graph;

	if (g == M_NONE)
		return false;
	graph = &o->m.graph[g];
	note_masks(note(o, failed ? "fails replay of graph" : "ends replay of graph",
			graph->client, graph->id, 0), graph->writes);
	note_masks(o->now, graph->seen);
	id = t_replay_end_(o->client[graph->client].cl, graph->id,
			   failed ? "replay failed" : NULL);
	o->now->more = id;
	for (int b = 0; b < M_BUFFERS; b++)
		any |= graph->writes[b] | graph->seen[b];
	if (!failed && id)
		mismatch(o, M_NONE, M_NONE, "GRAPH_REPLAY_END: failure %" PRIu64, id);
	if (failed && any) {
		f = m_new_failure(&o->m, id);
		if (!id || f == M_NONE)
			mismatch(o, M_NONE, M_NONE, "GRAPH_REPLAY_END: failure %" PRIu64
				 " is not new", id);
	}
	m_replay_end(&o->m, g, f);
	return true;
}

static bool op_graph_destroy(struct oracle *o)
{
	int g = ANY(o, o->m.graph, true), rc;

	if (g == M_NONE)
		return false;
	note(o, "destroys graph", o->m.graph[g].client, o->m.graph[g].id, 0);
	rc = t_destroy(o->client[o->m.graph[g].client].cl, o->m.graph[g].id);
	EXPECT_RC(o, rc, o->m.graph[g].replaying ? -EBUSY : 0, "GRAPH_DESTROY");
	if (!rc)
		o->m.graph[g].used = false;
	return true;
}

/* ---- clients */

static bool op_join(struct oracle *o)
{
	int c = 0;
	struct capkm_domain_attach a = { .domain = o->domain, .max_streams = SLOTS };

	while (c < CLIENTS && o->client[c].cl)
		c++;
	if (c == CLIENTS)
		return false;
	memset(&o->client[c], 0, sizeof(o->client[c]));
	a.backend = o->client[c].backend = chance(o, 30) ? CAPKM_BACKEND_HARDWARE :
							   CAPKM_BACKEND_SOFTWARE;
	if (o->processes > 0 && chance(o, 50)) {
		o->processes--;
		o->client[c].cl = t_process_();
	} else {
		o->client[c].cl = t_client_();
	}
	EXPECT_RC(o, t_call(o->client[c].cl, CAPKM_NR_DOMAIN_ATTACH, &a), 0,
		  "DOMAIN_ATTACH");
	o->client[c].cl->session = a.out_session;
	note(o, "joins", c, a.out_session, 0);
	return true;
}

static bool op_die(struct oracle *o)
{
	int c = any_client(o), clients = 0;

	for (int i = 0; i < CLIENTS; i++)
		clients += !!o->client[i].cl;
	if (clients < 2)
		return false;
	if (chance(o, 50)) {
		note(o, "is killed", c, 0, 0);
		t_kill(o->client[c].cl);
	} else {
		note(o, "closes its handle", c, 0, 0);
		t_close(o->client[c].cl);
	}
	m_death(&o->m, c);
	memset(&o->client[c], 0, sizeof(o->client[c]));
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
		if (r->state == CAPKM_RANGE_FAILED &&
		    c->what == M_FAILED && o->m.failure[c->ref].id == r->id)
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

/* Each byte of the buffer has exactly the claims that the model gives it. */
static void check_buffer(struct oracle *o, int c, int b)
{
	static __thread struct capkm_range got[512];
	struct m_buffer *buf = &o->m.buffer[b];
	struct capkm_buffer_query q = {
		.buffer = buf->id, .ranges_uptr = t_ptr(got),
		.ranges_len = ARRAY_SIZE(got),
	};
	int held = 0;

	EXPECT_RC(o, t_call(o->client[c].cl, CAPKM_NR_BUFFER_QUERY, &q), 0,
		  "BUFFER_QUERY");
	/* Sessions, however often each has opened it. */
	for (int i = 0; i < CLIENTS; i++)
		held += !!o->client[i].held[b];
	if (q.out_bytes != (u_int64_t)buf->size || q.out_claims != q.out_ranges ||
	    !!(q.out_state & CAPKM_BUFFER_EXPORTED) != buf->exported ||
	    q.out_holders != (unsigned int)held)
		mismatch(o, b, M_NONE, "BUFFER_QUERY: bytes %llu claims %llu ranges %u state "
			 "%u holders %u, expected %d holders", q.out_bytes, q.out_claims,
			 q.out_ranges, q.out_state, q.out_holders, held);
	for (unsigned int i = 0; i < q.out_ranges; i++)
		if (got[i].start >= got[i].end || got[i].end > (u_int64_t)buf->size ||
		    (i && got[i].start < got[i - 1].start))
			mismatch(o, b, M_NONE, "BUFFER_QUERY: range [%llu,%llu)",
				 got[i].start, got[i].end);
	for (int at = 0; at < buf->size; at++) {
		const struct m_byte *byte = &buf->byte[at];
		u_int64_t matched = 0;

		for (unsigned int i = 0; i < q.out_ranges; i++) {
			int j;

			if ((u_int64_t)at < got[i].start || (u_int64_t)at >= got[i].end)
				continue;
			j = claim_of(o, byte, &got[i]);
			if (j == M_NONE)
				mismatch(o, b, at, "BUFFER_QUERY: byte %d has state %u id "
					 "%llu", at, got[i].state, got[i].id);
			/* The same at other dates goes with it. */
			for (int k = 0; k < byte->n && k < 64; k++)
				if (byte->c[k].what == byte->c[j].what &&
				    byte->c[k].ref == byte->c[j].ref)
					matched |= 1ull << k;
		}
		for (int j = 0; j < byte->n && j < 64; j++)
			if (!(matched & 1ull << j) && byte->c[j].what != M_REPLAY)
				mismatch(o, b, at, "BUFFER_QUERY: byte %d lacks claim %d",
					 at, j);
	}
}

static void check_domain(struct oracle *o)
{
	struct capkm_domain_query d = { 0 };
	u_int64_t scopes = 0, windows = 0, orphans = 0, graphs = 0, clients = 1;
	u_int64_t low[2] = { 0 }, high[2] = { 0 };
	unsigned char *seen = calloc(o->m.failures + 1, 1);

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
	for (int i = 0; i < CLIENTS; i++)
		clients += !!o->client[i].cl;
	/* Failures: as many different ones as bytes carry (EG-11). */
	for (int sure = 2; sure > 0; sure--) {
		for (int b = 0; b < M_BUFFERS; b++) {
			const struct m_buffer *buf = &o->m.buffer[b];

			if (!buf->used || kept(o, b) != sure)
				continue;
			high[0]++;
			low[0] += sure == 2;
			for (int i = 0; i < buf->size; i++)
				for (int j = 0; j < buf->byte[i].n; j++) {
					const struct m_claim *c = &buf->byte[i].c[j];

					if (c->what != M_FAILED || seen[c->ref])
						continue;
					seen[c->ref] = 1;
					high[1]++;
					low[1] += sure == 2;
				}
		}
	}
	free(seen);
	if (d.out_scopes != scopes || d.out_windows != windows || d.out_orphans != orphans ||
	    d.out_graphs != graphs || d.out_sessions != clients)
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: scopes %llu windows %llu orphans "
			 "%llu graphs %llu sessions %u, expected %" PRIu64 " %" PRIu64 " %"
			 PRIu64 " %" PRIu64 " %" PRIu64, d.out_scopes, d.out_windows,
			 d.out_orphans, d.out_graphs, d.out_sessions, scopes, windows,
			 orphans, graphs, clients);
	if (d.out_buffers < low[0] || d.out_buffers > high[0])
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: %llu buffers, expected %" PRIu64
			 " to %" PRIu64, d.out_buffers, low[0], high[0]);
	if (d.out_failures < low[1] || d.out_failures > high[1])
		mismatch(o, M_NONE, M_NONE, "DOMAIN_QUERY: %llu failures, expected %" PRIu64
			 " to %" PRIu64, d.out_failures, low[1], high[1]);
}

static void check_window(struct oracle *o, int w)
{
	struct m_window *win = &o->m.window[w];
	struct capkm_window_query q = { .window = win->id };
	int rc = t_call(o->watch, CAPKM_NR_WINDOW_QUERY, &q);

	/* One that is closed may have left the history. */
	if (rc == -ENOENT && (win->state == CAPKM_WINDOW_SEALED ||
			      win->state == CAPKM_WINDOW_REFUSED))
		return;
	EXPECT_RC(o, rc, 0, "WINDOW_QUERY");
	if (q.out_state != win->state || q.out_owner != win->owner ||
	    (!win->abandoned && q.out_doomed != win->doomed &&
	     win->state != CAPKM_WINDOW_REFUSED) ||
	    q.out_recorded != (u_int64_t)win->keys_n)
		mismatch(o, M_NONE, M_NONE, "WINDOW_QUERY of %" PRIu64 ": state %u owner "
			 "%llu doomed %u recorded %llu, expected %u %" PRIu64 " %d %d",
			 win->id, q.out_state, q.out_owner, q.out_doomed, q.out_recorded,
			 win->state, win->owner, win->doomed, win->keys_n);
}

static void check_all(struct oracle *o)
{
	for (int b = 0; b < M_BUFFERS; b++)
		for (int c = 0; o->m.buffer[b].used && c < CLIENTS; c++)
			if (o->client[c].cl && o->client[c].held[b]) {
				check_buffer(o, c, b);
				break;
			}
	for (int w = 0; w < M_WINDOWS; w++)
		if (o->m.window[w].used)
			check_window(o, w);
	for (int g = 0; g < M_GRAPHS; g++)
		if (o->m.graph[g].used)
			check_graph(o, g);
	if (!o->shared)
		check_domain(o);
	if (capkm_test_check_count())
		mismatch(o, M_NONE, M_NONE, "the engine found itself in an impossible state");
}

/* ---- a run */

static const struct {
	bool (*fn)(struct oracle *o);
	unsigned int weight;
} ops[] = {
	{ op_enter, 200 }, { op_exit, 190 }, { op_check, 150 }, { op_taint, 25 },
	{ op_written, 30 }, { op_reset, 25 }, { op_buffer_create, 15 },
	{ op_buffer_export, 2 }, { op_buffer_open, 15 }, { op_buffer_close, 14 },
	{ op_prepare, 40 }, { op_begin, 60 }, { op_end, 40 }, { op_take, 10 },
	{ op_seal, 40 }, { op_refuse, 8 }, { op_abort, 6 }, { op_abandon, 10 },
	{ op_window_fail, 5 }, { op_record, 20 }, { op_replay_begin, 50 },
	{ op_replay_end, 50 }, { op_graph_destroy, 8 }, { op_join, 10 }, { op_die, 2 },
};

/* @domain: where others work as well, or 0 for a new one. */
static void run(struct oracle *o, u_int64_t seed, u_int64_t steps, int processes,
		u_int64_t domain)
{
	unsigned int all = 0;

	memset(&o->m, 0, sizeof(o->m));
	memset(o->client, 0, sizeof(o->client));
	o->events = 0;
	o->seed = seed;
	o->rng = seed;
	o->processes = processes;
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		all += ops[i].weight;
	o->watch = t_client_();
	o->shared = domain;
	if (domain)
		t_attach_(o->watch, domain, CAPKM_BACKEND_SOFTWARE);
	else
		t_domain_(o->watch, CAPKM_BACKEND_SOFTWARE, 0, 0);
	o->domain = o->watch->domain;
	op_join(o);
	for (o->m.step = 1; o->m.step <= steps; o->m.step++) {
		int n, i;

		do {
			n = draw(o, all);
			for (i = 0; n >= (int)ops[i].weight; i++)
				n -= ops[i].weight;
		} while (!ops[i].fn(o));
		sweep(o);
		/* The machine is slow; what goes wrong stays wrong. */
		if (!(o->m.step % (t_embedded() ? 50 : 500)) || o->m.step == steps)
			check_all(o);
	}
	for (int c = 0; c < CLIENTS; c++) {
		if (!o->client[c].cl)
			continue;
		t_close(o->client[c].cl);
		m_death(&o->m, c);
		memset(&o->client[c], 0, sizeof(o->client[c]));
	}
	sweep(o);
	/* With the last holder all is gone but the orphans. */
	if (!o->shared) {
		struct capkm_domain_query d = t_domain_query_(o->watch);

		if (d.out_buffers || d.out_failures || d.out_claims || d.out_scopes ||
		    d.out_graphs)
			mismatch(o, M_NONE, M_NONE, "left over: buffers %llu failures %llu "
				 "claims %llu scopes %llu graphs %llu", d.out_buffers,
				 d.out_failures, d.out_claims, d.out_scopes,
				 d.out_graphs);
	}
	t_close(o->watch);
	m_free(&o->m);
}

FIXTURE(oracle)
{
	struct oracle *o;
};

FIXTURE_SETUP(oracle)
{
	self->o = calloc(1, sizeof(*self->o));
}

FIXTURE_TEARDOWN(oracle)
{
	free(self->o);
}

/* SC-*, TA-*, EG-11, GR-18 to GR-22, rules 1 to 8 */
TEST_F_TIMEOUT(oracle, everything, 3000)
{
	u_int64_t ops = t_param("CAPKM_TEST_OPS", 1000000, 50000);
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);

	/* Real processes are slow in the machine: some runs have them. */
	for (u_int64_t done = 0; done < ops; done += RUN, seed++)
		run(self->o, seed, ops - done < RUN ? ops - done : RUN,
		    t_embedded() || !(seed % 4) ? 8 : 0, 0);
	t_no_leaks();
}

struct thread {
	pthread_t thread;
	u_int64_t seed, domain;
};

static void *thread(void *arg)
{
	struct thread *t = arg;
	struct oracle *o = calloc(1, sizeof(*o));
	u_int64_t ops = t_param("CAPKM_TEST_OPS", 1000000, 50000) / 50;

	run(o, t->seed, ops, 0, t->domain);
	free(o);
	return NULL;
}

static void threads(struct __test_metadata *_metadata, u_int64_t domain)
{
	struct thread t[4];

	for (int i = 0; i < 4; i++) {
		t[i].seed = 1000 + i;
		t[i].domain = domain;
		ASSERT_EQ(0, pthread_create(&t[i].thread, NULL, thread, &t[i]));
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i].thread, NULL);
}

/* The same by several threads at once, each in a domain of its own ... */
TEST_F_TIMEOUT(oracle, threads, 600)
{
	threads(_metadata, 0);
	t_no_leaks();
}

/* ... and in one domain, each with buffers of its own. */
TEST_F_TIMEOUT(oracle, threads_in_one_domain, 600)
{
	struct cl *cl = t_client();

	threads(_metadata, t_domain(cl));
	ASSERT_EQ(0, t_failures(cl));
	ASSERT_EQ(0, t_domain_query(cl).out_claims);
	ASSERT_EQ(0, t_domain_query(cl).out_buffers);
	ASSERT_EQ(0, t_domain_query(cl).out_scopes);
	ASSERT_EQ(1, t_domain_query(cl).out_sessions);
	t_close(cl);
	t_no_leaks();
}

TEST_HARNESS_MAIN
