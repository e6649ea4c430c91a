// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of much: sessions and domains with many buffers, buffers with many ranges, graphs
 * with many claims. Others of the domain work meanwhile, and find what ends either as it
 * was or not at all. Nothing here looks at a clock: how long the engine keeps others out is
 * a number of pieces.
 */
#include "calls.h"

#include <pthread.h>
#include <stdatomic.h>

#define RANGES	1000u		/* of a buffer that has many */
#define MANY	64u		/* one of so many buffers has many */
#define PIECE	256u		/* what the engine promises to destroy in one hold of its lock */
#define ROUNDS	50

static u_int64_t buffers(void)
{
	return t_param("CAPKM_TEST_BUFFERS", 16384, 4096);
}

FIXTURE(release)
{
	struct capkm *a;
};

static struct capkm *open_handle(void)
{
	struct capkm *c = NULL;

	if (capkm_open(t_transport(), NULL, &c, &err))
		t_die("%s", err.text);
	return c;
}

static struct capkm *join(struct capkm *of)
{
	struct capkm *c = open_handle();

	if (capkm_domain_attach(c, NULL, WITH(struct capkm_domain_opts,
				.domain = capkm_domain_id(of)), &err))
		t_die("%s", err.text);
	return c;
}

FIXTURE_SETUP(release)
{
	self->a = open_handle();
	OK(capkm_domain_create(self->a, NULL, NULL, &err));
}

FIXTURE_TEARDOWN(release)
{
	capkm_close(self->a);
	t_no_leaks();
}

static u_int64_t buffer(struct capkm *c, u_int64_t bytes, unsigned int flags)
{
	u_int64_t b = 0;

	if (capkm_buffer_create(c, bytes, WITH(struct capkm_buffer_opts, .flags = flags),
				&b, &err))
		t_die("%s", err.text);
	return b;
}

/* Every second half of eight bytes is tainted, with one failure for all. */
static void taint_ranges(struct capkm *c, u_int64_t b, u_int64_t n)
{
	u_int64_t failure = 0;

	for (u_int64_t i = 0; i < n; i++) {
		const struct capkm_claim claim = { b, 8 * i, 8 * i + 4 };
		int rc = failure ? capkm_taint_with(c, &claim, 1, 0, failure, &err) :
				   capkm_taint(c, &claim, 1, 0, NULL, &failure, &err);

		if (rc)
			t_die("%s", err.text);
	}
}

static struct capkm_domain_query domain(struct capkm *c)
{
	struct capkm_domain_query q = { .size = sizeof(q) };

	if (capkm_domain_query(c, &q, &err))
		t_die("%s", err.text);
	return q;
}

/* A session that will end: each of its buffers is tainted, some in many ranges. */
struct victim {
	struct capkm *c;
	u_int64_t n, *id;
};

static void victim_begin(struct victim *v, struct capkm *of, u_int64_t n)
{
	*v = (struct victim){ .c = join(of), .n = n, .id = calloc(n, sizeof(*v->id)) };
	if (!v->id)
		t_die("no memory");
	for (u_int64_t i = 0; i < n; i++) {
		const u_int64_t ranges = i % MANY ? 1 : RANGES;

		v->id[i] = buffer(v->c, 8 * ranges, CAPKM_BUFFER_CREATE_F_EXPORT);
		taint_ranges(v->c, v->id[i], ranges);
	}
}

/* Another session, which writes, and looks at the victim's buffers. */
struct worker {
	struct capkm *c;
	const struct victim *v;
	_Atomic bool ready, ending, stop;
	u_int64_t found, gone, beside;
};

/* What it finds of a buffer is all of it. */
static void look(struct worker *w, u_int64_t i)
{
	struct capkm_buffer_query q = { .size = sizeof(q), .buffer = w->v->id[i] };
	int rc = capkm_buffer_open(w->c, w->v->id[i], NULL, &err);

	if (rc == -ENOENT) {
		w->gone++;
		return;
	}
	if (rc || capkm_buffer_query(w->c, &q, &err) ||
	    capkm_buffer_close(w->c, w->v->id[i], &err))
		t_die("%s", err.text);
	if (q.out_claims != (i % MANY ? 1 : RANGES) || q.out_failures != 1)
		t_die("buffer %u has %llu ranges", (unsigned int)i,
		      (unsigned long long)q.out_claims);
	w->found++;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const struct capkm_claim own = { buffer(w->c, 64, 0), 8, 40 };
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_scope scope;

	for (u_int64_t i = 0; !w->stop; i += 7) {
		bool ending = w->ending;

		look(w, i % w->v->n);
		if (capkm_scope_enter(w->c, NULL, NULL, 0, &own, 1, NULL, &scope, NULL, &err) ||
		    capkm_scope_exit(w->c, &scope, 0, &err) ||
		    capkm_check(w->c, &own, 1, &answer, &err))
			t_die("%s", err.text);
		if (scope.failure || answer.out_result != CAPKM_CLEAN)
			t_die("the worker's own buffer is not clean");
		w->beside += ending && w->ending;
		w->ready = true;
	}
	return NULL;
}

/* Until both were at work at the same time. */
TEST_F_TIMEOUT(release, others_work_beside, 1200)
{
	u_int64_t beside = 0, found = 0, lets = capkm_test_let_in_count();

	for (int round = 0; round < ROUNDS && !(round && beside); round++) {
		struct worker w = { .c = join(self->a) };
		struct victim v;
		pthread_t thread;

		victim_begin(&v, self->a, buffers());
		w.v = &v;
		ASSERT_EQ(0, pthread_create(&thread, NULL, work, &w));
		while (!w.ready)
			sched_yield();
		w.ending = true;
		capkm_close(v.c);
		w.ending = false;
		w.stop = true;
		ASSERT_EQ(0, pthread_join(thread, NULL));
		beside += w.beside;
		found += w.found;
		ASSERT_EQ(1, domain(self->a).out_buffers);
		ASSERT_EQ(0, domain(self->a).out_failures);
		ASSERT_EQ(0, domain(self->a).out_claims);
		capkm_close(w.c);
		free(v.id);
	}
	ASSERT_EQ(0, domain(self->a).out_buffers);
	ASSERT_EQ(1, domain(self->a).out_sessions);
	ASSERT_NE(0, found);
	ASSERT_NE(0, beside);
	if (t_embedded())
		ASSERT_LE(2 * buffers() / PIECE, capkm_test_let_in_count() - lets);
}

static void *close_victim(void *arg)
{
	struct victim *v = arg;

	capkm_close(v->c);
	return NULL;
}

/* The domain is destroyed while a session of it ends: each has a part of the work. */
TEST_F_TIMEOUT(release, destroyed_beside, 1200)
{
	for (int round = 0; round < 4; round++) {
		struct capkm *c = open_handle();
		struct victim v;
		pthread_t thread;
		u_int64_t id;

		OK(capkm_domain_create(c, NULL, NULL, &err));
		id = capkm_domain_id(c);
		victim_begin(&v, c, buffers() / 4);
		for (unsigned int i = 0; i < 2 * PIECE; i++)
			buffer(c, 8, 0);
		ASSERT_EQ(0, pthread_create(&thread, NULL, close_victim, &v));
		OK(capkm_domain_destroy(self->a, id, CAPKM_DOMAIN_DESTROY_F_FORCE, &err));
		REFUSED(-ECANCELED, capkm_buffer_create(c, 8, NULL, &id, &err));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		capkm_close(c);
		free(v.id);
	}
}

static u_int64_t lets_in(u_int64_t *since)
{
	const u_int64_t n = capkm_test_let_in_count() - *since;

	*since += n;
	return n;
}

/* How many small things are destroyed between two times that others are let in. */
TEST_F(release, goes_in_pieces)
{
	const u_int64_t n = 16 * PIECE;
	u_int64_t b, g, since = capkm_test_let_in_count();
	struct capkm *c;

	if (!t_embedded())
		SKIP(return, "counts in the library's engine");
	c = join(self->a);
	b = buffer(c, 8 * n, CAPKM_BUFFER_CREATE_F_EXPORT);
	taint_ranges(c, b, n);
	ASSERT_EQ(0, lets_in(&since));
	OK(capkm_buffer_close(c, b, &err));
	ASSERT_LE(n / PIECE - 1, lets_in(&since));

	/* What is kept of who wrote shared bytes is as much. */
	b = buffer(c, 8 * n, CAPKM_BUFFER_CREATE_F_EXPORT);
	for (u_int64_t i = 0; i < n; i++)
		OK(capkm_written(c, &(struct capkm_claim){ b, 8 * i, 8 * i + 4 }, 1, &err));
	ASSERT_EQ(0, lets_in(&since));
	OK(capkm_buffer_close(c, b, &err));
	ASSERT_LE(n / PIECE - 1, lets_in(&since));

	b = buffer(c, 8 * n, 0);
	OK(capkm_window_prepare(c, NULL, NULL, NULL, &err));
	OK(capkm_window_begin(c, NULL, 0, NULL, &err));
	for (u_int64_t i = 0; i < n; i++) {
		const struct capkm_claim claim = { b, 8 * i, 8 * i + 4 };
		struct capkm_scope scope;

		OK(capkm_scope_enter(c, NULL, NULL, 0, &claim, 1, NULL, &scope, NULL, &err));
		OK(capkm_scope_exit(c, &scope, 0, &err));
	}
	OK(capkm_window_close(c, NULL, &g, NULL, &err));
	ASSERT_EQ(0, lets_in(&since));
	OK(capkm_graph_destroy(c, g, &err));
	ASSERT_LE(n / PIECE - 1, lets_in(&since));
	ASSERT_EQ(0, domain(c).out_graphs);

	for (u_int64_t i = 0; i < n; i++)
		buffer(c, 8, 0);
	ASSERT_EQ(0, lets_in(&since));
	capkm_close(c);
	ASSERT_LE(n / PIECE, lets_in(&since));
	ASSERT_EQ(0, domain(self->a).out_buffers);

	c = open_handle();
	OK(capkm_domain_create(c, NULL, NULL, &err));
	for (u_int64_t i = 0; i < n; i++)
		buffer(c, 8, 0);
	OK(capkm_domain_destroy(self->a, capkm_domain_id(c), CAPKM_DOMAIN_DESTROY_F_FORCE,
				&err));
	ASSERT_LE(n / PIECE, lets_in(&since));
	capkm_close(c);
}

/* A graph or a buffer that is dying is not there for anybody. */
TEST_F(release, is_hidden_first)
{
	const u_int64_t n = 4 * PIECE;
	struct capkm *c = join(self->a);
	const u_int64_t b = buffer(c, 8 * n, CAPKM_BUFFER_CREATE_F_EXPORT);

	taint_ranges(c, b, n);
	OK(capkm_buffer_open(self->a, b, NULL, &err));
	capkm_close(c);
	/* Somebody holds it: nothing of it has gone. */
	ASSERT_EQ(n, domain(self->a).out_claims);
	ASSERT_EQ(1, domain(self->a).out_failures);
	OK(capkm_buffer_close(self->a, b, &err));
	REFUSED(-ENOENT, capkm_buffer_open(self->a, b, NULL, &err));
	ASSERT_EQ(0, domain(self->a).out_claims);
	ASSERT_EQ(0, domain(self->a).out_failures);
}

TEST_HARNESS_MAIN
