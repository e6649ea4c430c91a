// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fast path by several threads of one handle, while another one does all that takes
 * buffers, and the session, out of it.
 *
 * Each thread has buffers of its own, of which it knows at any time what a check has to
 * say, and there are common ones. An open scope may be handed to another thread to be
 * left. At the end of each round nothing is open: then each buffer is what its scopes
 * have made of it.
 *
 *   CAPKM_TEST_ROUNDS  rounds
 *   CAPKM_TEST_SEED    of the first one
 */
#include "capkm_test.h"
#include "choices.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS		4u
#define OWN		4u		/* buffers of a thread */
#define COMMON		3u
#define BUFFERS		(THREADS * OWN + COMMON)
#define BYTES		256u
#define OPS		150u		/* of a thread in a round */
#define HELD		3u		/* scopes that a thread has open at once */
#define MAINS		(THREADS + 1)	/* stream of the thread that disturbs */

/* A scope, open or, on a common buffer, over. */
struct work {
	struct capkm_scope s;
	uint32_t n;
	unsigned int buffer[3];
	bool fast, failed;
	/* Of the common clock: around the enter, and around the exit. */
	uint64_t enter[2], exit[2];
	uint64_t failure;
};

struct common {
	unsigned int buffer;
	struct work w;
};

struct player;

struct game {
	struct cl *cl;
	uint64_t id[BUFFERS];
	/* Who has a fast scope on it. */
	_Atomic unsigned int owner[BUFFERS];
	/* Of buffers that are some thread's own: what a check finds. */
	uint64_t failure[BUFFERS];
	/* Its scope was handed to another thread, and is not left. */
	_Atomic bool away[BUFFERS];
	_Atomic uint64_t clock;
	_Atomic unsigned int busy;	/* threads that are not through with the round */
	_Atomic uint64_t fast, handed;
	pthread_barrier_t barrier;
	struct player *player;
	uint64_t seed, rounds;
};

struct player {
	struct game *g;
	pthread_t thread;
	unsigned int number;
	uint64_t rng;
	struct capkm_error err;
	struct work held[HELD];
	uint32_t held_n;
	_Atomic(struct work *) inbox;
	struct common done[2 * OPS * THREADS];	/* of this round */
	uint32_t done_n;
};

#define OK(p, call) do {						\
	int rc_ = (call);						\
	if (rc_)							\
		t_die("%s: %d: %s", #call, rc_, (p)->err.text);		\
} while (0)

static unsigned int draw(struct player *p, unsigned int n)
{
	return choices_next(&p->rng) % n;
}

static struct capkm_claim claim(const struct game *g, unsigned int buffer)
{
	return (struct capkm_claim){ g->id[buffer], 0, BYTES };
}

static bool is_common(unsigned int buffer)
{
	return buffer >= THREADS * OWN;
}

static struct capkm_where here(const struct player *p)
{
	return (struct capkm_where){
		.stream = 1 + p->number, .slot = p->number, .flags = CAPKM_WHERE_SLOT,
	};
}

static uint64_t now(struct game *g)
{
	return atomic_fetch_add(&g->clock, 1) + 1;
}

/* ------------------------------------------------------------------ scopes */

/* What it has made of its buffers, which are free again. */
static void settle(struct player *p, const struct work *w, bool handed)
{
	struct game *g = p->g;

	for (uint32_t i = 0; i < w->n; i++) {
		if (is_common(w->buffer[i])) {
			if (p->done_n == ARRAY_SIZE(p->done))
				t_die("no room for what was done");
			p->done[p->done_n++] = (struct common){ w->buffer[i], *w };
			continue;
		}
		g->failure[w->buffer[i]] = w->failure;
		if (handed)
			atomic_store_explicit(&g->away[w->buffer[i]], false,
					      memory_order_release);
	}
}

static void leave(struct player *p, struct work *w, bool handed)
{
	const struct capkm_cause why = CAPKM_OPTS(struct capkm_cause, .code = 5,
						  .text = "as it was drawn");
	struct game *g = p->g;

	for (uint32_t i = 0; w->fast && i < w->n; i++)
		if (atomic_exchange(&g->owner[w->buffer[i]], 0) != 1)
			t_die("buffer %u has lost its owner", w->buffer[i]);
	w->exit[0] = now(g);
	if (w->failed)
		OK(p, capkm_scope_fail(g->cl->c, &w->s, &why, &p->err));
	else
		OK(p, capkm_scope_exit(g->cl->c, &w->s,
				       draw(p, 2) ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0,
				       &p->err));
	w->exit[1] = now(g);
	w->failure = w->s.failure;
	if (!w->failure != !w->failed)
		t_die("failure %" PRIu64 " of a scope that has %sfailed", w->failure,
		      w->failed ? "" : "not ");
	settle(p, w, handed);
}

static bool is_free(const struct player *p, unsigned int buffer)
{
	const struct game *g = p->g;

	if (!is_common(buffer) &&
	    atomic_load_explicit(&g->away[buffer], memory_order_acquire))
		return false;
	for (uint32_t i = 0; i < p->held_n; i++)
		for (uint32_t j = 0; j < p->held[i].n; j++)
			if (p->held[i].buffer[j] == buffer)
				return false;
	return true;
}

static unsigned int any_buffer(struct player *p)
{
	return draw(p, 5) ? p->number * OWN + draw(p, OWN) :
			    THREADS * OWN + draw(p, COMMON);
}

/* Distinct ones, that this thread has no scope on. */
static uint32_t pick(struct player *p, unsigned int *buffer)
{
	uint32_t n = 0, most = 1 + draw(p, 3);

	for (int tries = 0; tries < 8 && n < most; tries++) {
		const unsigned int b = any_buffer(p);
		bool again = false;

		for (uint32_t i = 0; i < n; i++)
			again |= buffer[i] == b;
		if (!again && is_free(p, b))
			buffer[n++] = b;
	}
	return n;
}

static void enter(struct player *p)
{
	const struct capkm_scope_opts at_once = CAPKM_OPTS(struct capkm_scope_opts,
							   .retry_ms = CAPKM_RETRY_NONE);
	const struct capkm_where where = here(p);
	struct capkm_claim writes[3], read = { 0 };
	struct game *g = p->g;
	struct work w = { 0 };
	unsigned int from;
	bool known;
	int rc;

	w.n = pick(p, w.buffer);
	if (!w.n || p->held_n == HELD)
		return;
	for (uint32_t i = 0; i < w.n; i++)
		writes[i] = claim(g, w.buffer[i]);
	from = any_buffer(p);
	read = claim(g, from);
	known = !is_common(from) && is_free(p, from);
	w.enter[0] = now(g);
	rc = capkm_scope_enter(g->cl->c, &where, &read, !draw(p, 3), writes, w.n,
			       &at_once, &w.s, NULL, &p->err);
	w.enter[1] = now(g);
	/* The input is being written: nothing has changed. */
	if (rc == -EAGAIN)
		return;
	OK(p, rc);
	if (w.s.result == CAPKM_SKIPPED) {
		w.exit[0] = w.enter[0];
		w.exit[1] = w.enter[1];
		w.failed = true;
		w.failure = w.s.failure;
		if (known && g->failure[from] != w.failure)
			t_die("skipped for failure %" PRIu64 ", buffer %u has %" PRIu64,
			      w.failure, from, g->failure[from]);
		settle(p, &w, false);
		return;
	}
	w.fast = w.s.id & CAPKM_SCOPE_FAST;
	atomic_fetch_add_explicit(&g->fast, w.fast, memory_order_relaxed);
	for (uint32_t i = 0; w.fast && i < w.n; i++)
		if (atomic_exchange(&g->owner[w.buffer[i]], 1))
			t_die("two fast scopes on buffer %u", w.buffer[i]);
	w.failed = !draw(p, 6);
	p->held[p->held_n++] = w;
}

static struct work take(struct player *p)
{
	const uint32_t i = draw(p, p->held_n);
	const struct work w = p->held[i];

	p->held[i] = p->held[--p->held_n];
	return w;
}

/* Another thread leaves it, if that one has nothing to leave. */
static void hand_over(struct player *p)
{
	struct player *to = &p->g->player[(p->number + 1 + draw(p, THREADS - 1)) % THREADS];
	struct work *none = NULL, *w = malloc(sizeof(*w));

	*w = take(p);
	for (uint32_t i = 0; i < w->n; i++)
		if (!is_common(w->buffer[i]))
			atomic_store(&p->g->away[w->buffer[i]], true);
	if (atomic_compare_exchange_strong(&to->inbox, &none, w)) {
		atomic_fetch_add_explicit(&p->g->handed, 1, memory_order_relaxed);
		return;
	}
	leave(p, w, true);
	free(w);
}

static void read_inbox(struct player *p)
{
	struct work *w = atomic_exchange(&p->inbox, NULL);

	if (!w)
		return;
	leave(p, w, true);
	free(w);
}

/* ------------------------------------------------------------------ checks */

static struct capkm_report look(struct player *p, unsigned int buffer, unsigned int *result)
{
	const struct capkm_claim c = claim(p->g, buffer);
	struct capkm_report r = { 0 };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);

	OK(p, capkm_check(p->g->cl->c, &c, 1, &a, &p->err));
	*result = a.out_result;
	return r;
}

static void check(struct player *p)
{
	const unsigned int b = p->number * OWN + draw(p, OWN);
	struct capkm_report r;
	unsigned int result;
	uint64_t failure;

	if (atomic_load_explicit(&p->g->away[b], memory_order_acquire))
		return;
	failure = p->g->failure[b];
	r = look(p, b, &result);
	if (!is_free(p, b)) {
		if (result != CAPKM_TAINTED || r.kind != CAPKM_KIND_IN_PROGRESS)
			t_die("buffer %u is in a scope, and %u", b, result);
	} else if ((result == CAPKM_CLEAN) != !failure || r.failure != failure) {
		t_die("buffer %u is %u, failure %llu, and not %" PRIu64, b, result,
		      r.failure, failure);
	}
}

/* ------------------------------------------------------------------ the others */

static void play(struct player *p)
{
	for (unsigned int i = 0; i < OPS; i++) {
		const unsigned int n = draw(p, 10);

		read_inbox(p);
		if (n < 4) {
			enter(p);
		} else if (n < 7) {
			check(p);
		} else if (p->held_n && n < 9) {
			struct work w = take(p);

			leave(p, &w, false);
		} else if (p->held_n) {
			hand_over(p);
		}
		/* Where there is one processor, too, others get between. */
		if (!draw(p, 16))
			sched_yield();
	}
	while (p->held_n) {
		struct work w = take(p);

		leave(p, &w, false);
	}
}

static void *thread(void *arg)
{
	struct player *p = arg;

	for (uint64_t round = 0; round < p->g->rounds; round++) {
		pthread_barrier_wait(&p->g->barrier);
		play(p);
		atomic_fetch_sub(&p->g->busy, 1);
		/* Nobody hands over any more, once all are here. */
		while (atomic_load(&p->g->busy)) {
			read_inbox(p);
			sched_yield();
		}
		read_inbox(p);
		pthread_barrier_wait(&p->g->barrier);
		pthread_barrier_wait(&p->g->barrier);
	}
	return NULL;
}

/* ------------------------------------------------------------------ disturbing */

/* Of buffer @x, which nobody else uses. */
static void disturb_own(struct player *m, uint64_t x)
{
	struct capkm *c = m->g->cl->c;
	const struct capkm_claim own = { x, 0, BYTES };
	const struct capkm_where where = here(m);
	struct capkm_scope s;

	switch (draw(m, 4)) {
	case 0:
		OK(m, capkm_taint(c, &own, 1, 0, NULL, NULL, &m->err));
		break;
	case 1:
		OK(m, capkm_written(c, &own, 1, &m->err));
		break;
	case 2:
		OK(m, capkm_buffer_reset(c, x, 0, BYTES, &m->err));
		break;
	default:
		OK(m, capkm_scope_enter(c, &where, NULL, 0, &own, 1, NULL, &s, NULL, &m->err));
		atomic_fetch_add(&m->g->fast, !!(s.id & CAPKM_SCOPE_FAST));
		OK(m, capkm_scope_exit(c, &s, 0, &m->err));
	}
}

static void disturb(struct player *m, uint64_t x)
{
	static const uint8_t device[16] = { 1 };
	const struct capkm_where where = here(m), there = {
		.stream = where.stream, .device = { 1 },
	};
	const struct capkm_claim other = claim(m->g, draw(m, BUFFERS));
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_buffer_query q = { .size = sizeof(q), .buffer = other.buffer };
	struct capkm *c = m->g->cl->c;
	uint64_t y;

	switch (draw(m, 8)) {
	case 0:
		OK(m, capkm_window_prepare(c, &where, NULL, &y, &m->err));
		sched_yield();
		OK(m, capkm_window_abort(c, &where, 0, &y, &m->err));
		break;
	case 1:
		OK(m, capkm_stream_fault(c, &there, NULL, NULL, NULL, &m->err));
		sched_yield();
		OK(m, capkm_context_renew(c, device, NULL, &m->err));
		break;
	case 2:
		capkm_fast_path(c, false);
		sched_yield();
		capkm_fast_path(c, true);
		break;
	case 3:
		OK(m, capkm_buffer_create(c, BYTES, NULL, &y, &m->err));
		OK(m, capkm_buffer_export(c, y, &m->err));
		OK(m, capkm_buffer_close(c, y, &m->err));
		break;
	case 4:
		OK(m, capkm_check_unchanged(c, &other, 1, ~0ull, &answer, &m->err));
		break;
	case 5:
		OK(m, capkm_buffer_query(c, &q, &m->err));
		break;
	default:
		disturb_own(m, x);
	}
}

/* ------------------------------------------------------------------ at rest */

/* Could the failure of @f still be on the buffer; is it for sure? */
static void fate(const struct game *g, unsigned int buffer, const struct work *f, bool *may,
		 bool *must)
{
	*may = *must = true;
	for (unsigned int t = 0; t < THREADS; t++) {
		const struct player *p = &g->player[t];

		for (uint32_t i = 0; i < p->done_n; i++) {
			const struct work *w = &p->done[i].w;

			if (p->done[i].buffer != buffer || w == f)
				continue;
			/* What enters after its exit, or would have, writes over it. */
			if (w->enter[0] > f->exit[1])
				*may = *must = false;
			else if (w->enter[1] > f->exit[0])
				*must = false;
		}
	}
}

static void common_is_right(struct player *m, unsigned int b)
{
	struct game *g = m->g;
	struct capkm_report r;
	unsigned int result;
	bool found = false;

	r = look(m, b, &result);
	if (result != CAPKM_CLEAN && r.kind == CAPKM_KIND_IN_PROGRESS)
		t_die("buffer %u is in progress, and nothing is open", b);
	for (unsigned int t = 0; t < THREADS; t++) {
		const struct player *p = &g->player[t];

		for (uint32_t i = 0; i < p->done_n; i++) {
			const struct work *w = &p->done[i].w;
			bool may, must;

			if (p->done[i].buffer != b || !w->failure)
				continue;
			fate(g, b, w, &may, &must);
			found |= may && w->failure == r.failure;
			if (must && result == CAPKM_CLEAN)
				t_die("buffer %u is clean, failure %" PRIu64 " is lost", b,
				      w->failure);
		}
	}
	if (result != CAPKM_CLEAN && !found)
		t_die("buffer %u has failure %llu, that nobody has left there", b, r.failure);
}

static void at_rest(struct player *m)
{
	struct game *g = m->g;
	unsigned int result;

	if (t_domain_query(g->cl).out_scopes)
		t_die("%llu scopes are open", t_domain_query(g->cl).out_scopes);
	for (unsigned int b = 0; b < BUFFERS; b++) {
		const struct capkm_claim c = claim(g, b);

		if (is_common(b)) {
			common_is_right(m, b);
			OK(m, capkm_written(g->cl->c, &c, 1, &m->err));
		} else if (look(m, b, &result).failure != g->failure[b] ||
			   (result == CAPKM_CLEAN) != !g->failure[b]) {
			t_die("buffer %u is %u, and not failure %" PRIu64, b, result,
			      g->failure[b]);
		}
		if (g->owner[b] || g->away[b])
			t_die("somebody has a scope on buffer %u", b);
	}
	for (unsigned int t = 0; t < THREADS; t++)
		g->player[t].done_n = 0;
}

/* ------------------------------------------------------------------ a game */

static struct game *new_game(void)
{
	struct game *g = calloc(1, sizeof(*g));

	g->rounds = t_param("CAPKM_TEST_ROUNDS", 400, 30);
	g->seed = t_param("CAPKM_TEST_SEED", 1, 1);
	g->cl = t_client();
	t_domain(g->cl);
	g->player = calloc(MAINS, sizeof(*g->player));
	for (unsigned int i = 0; i < MAINS; i++)
		g->player[i] = (struct player){
			.g = g, .number = i, .rng = g->seed * 100 + i,
			.err = CAPKM_OPTS(struct capkm_error),
		};
	pthread_barrier_init(&g->barrier, NULL, MAINS);
	return g;
}

static void is_all_over(struct game *g)
{
	struct player *m = &g->player[THREADS];
	struct capkm_fast_stats s = CAPKM_OPTS(struct capkm_fast_stats);

	OK(m, capkm_fast_query(g->cl->c, &s, &m->err));
	printf("# %" PRIu64 " fast scopes, %" PRIu64 " migrated, %" PRIu64 " revoked, %" PRIu64
	       " handed over\n", s.entered, s.migrated, s.revoked, g->handed);
	if (s.entered != g->fast || s.dropped || s.transitions[CAPKM_FAST_MISSED])
		t_die("%" PRIu64 " fast scopes of %" PRIu64 ", %" PRIu64 " dropped, %" PRIu64
		      " missed", s.entered, g->fast, s.dropped,
		      s.transitions[CAPKM_FAST_MISSED]);
	if (!s.migrated || !g->handed || s.entered < g->rounds * THREADS)
		t_die("that has shown nothing");
}

FIXTURE(fast_threads)
{
	struct game *g;
};

FIXTURE_SETUP(fast_threads)
{
	self->g = new_game();
}

FIXTURE_TEARDOWN(fast_threads)
{
	t_close(self->g->cl);
	pthread_barrier_destroy(&self->g->barrier);
	free(self->g->player);
	free(self->g);
	t_no_leaks();
}

TEST_F_TIMEOUT(fast_threads, own_and_common, 300)
{
	struct game *g = self->g;
	struct player *m = &g->player[THREADS];
	struct capkm_claim c;
	uint64_t x;

	for (unsigned int b = 0; b < BUFFERS; b++)
		OK(m, capkm_buffer_create(g->cl->c, BYTES, NULL, &g->id[b], &m->err));
	OK(m, capkm_buffer_create(g->cl->c, BYTES, NULL, &x, &m->err));
	for (unsigned int t = 0; t < THREADS; t++)
		ASSERT_EQ(0, pthread_create(&g->player[t].thread, NULL, thread,
					    &g->player[t]));
	for (uint64_t round = 0; round < g->rounds; round++) {
		g->busy = THREADS;
		pthread_barrier_wait(&g->barrier);
		/* Every other round has little of it. */
		while (atomic_load(&g->busy)) {
			if (round % 2 || !draw(m, 20))
				disturb(m, x);
			sched_yield();
		}
		pthread_barrier_wait(&g->barrier);
		at_rest(m);
		pthread_barrier_wait(&g->barrier);
	}
	for (unsigned int t = 0; t < THREADS; t++)
		ASSERT_EQ(0, pthread_join(g->player[t].thread, NULL));
	is_all_over(g);
	for (unsigned int b = 0; b < BUFFERS; b++) {
		c = claim(g, b);
		OK(m, capkm_written(g->cl->c, &c, 1, &m->err));
	}
	c = (struct capkm_claim){ x, 0, BYTES };
	OK(m, capkm_written(g->cl->c, &c, 1, &m->err));
	ASSERT_EQ(0, t_domain_query(g->cl).out_claims);
	ASSERT_EQ(0, t_domain_query(g->cl).out_failures);
}

TEST_HARNESS_MAIN
