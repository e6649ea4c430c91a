// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine against its oracle, by the million of random operations.
 *
 * CAPKM_TEST_OPS: operations in all. CAPKM_TEST_SEED: seed of the first run; a
 * run that fails says which seed to give.
 */
#include "oracle.h"
#include <pthread.h>

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
	if (choices_next(rng) % 100 < 50)
		return;
	c->start = choices_next(rng) % b->size;
	c->end = c->start + 1 + choices_next(rng) % (b->size - c->start);
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
		unsigned int draw = choices_next(&rng) % 100;
		struct capkm_claim c[3];
		u_int64_t stream = choices_next(&rng) % 8;

		if (draw < 20) {			/* alloc */
			b[n].size = 32 * (1 + choices_next(&rng) % 64);
			b[n].id = t_buffer_(cl, b[n].size, 0);
			b[n].byte = calloc(b[n].size, sizeof(*b[n].byte));
			n++;
		} else if (draw < 70 && n) {		/* launch, host write */
			unsigned int most = draw >= 60 ? 1 : n < 3 ? n : 3;
			unsigned int k = draw < 60 ? 1 + choices_next(&rng) % most : 1;
			unsigned int touched[3], m = 0;
			u_int64_t f = 0;

			choices_next(&rng);
			while (k--) {
				unsigned int which = choices_next(&rng) % n, j = 0;

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
			unsigned int which = choices_next(&rng) % n;

			plain_range(&rng, &b[which], &c[0]);
			plain_check(cl, &b[which], &c[0], seed, step);
		} else if (draw < 96 && n) {		/* free */
			unsigned int which = choices_next(&rng) % n;

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

/* The engine has a check of its own: say how it came to that. */
static void on_abort(int signal)
{
	if (running)
		print_events(running, M_NONE);
}

static unsigned int weight(const struct oracle *o, size_t op)
{
	return o->calm ? ops[op].when_calm : ops[op].weight;
}

/* @domain: where others work as well, or 0 for a new one. */
static void run(struct oracle *o, u_int64_t seed, u_int64_t steps, int processes,
		u_int64_t domain, bool calm)
{
	unsigned int all = 0;

	signal(SIGABRT, on_abort);
	start(o, seed, processes, domain, calm);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		all += weight(o, i);
	op_attach(o);
	for (o->m.step = 1; o->m.step <= steps; o->m.step++) {
		int n, i;

		do {
			n = draw(o, all);
			for (i = 0; n >= (int)weight(o, i); i++)
				n -= weight(o, i);
		} while (!step(o, i));
		/* The machine is slow; what goes wrong stays wrong. */
		if (!(o->m.step % (t_embedded() ? 50 : 500)) || o->m.step == steps)
			check_all(o);
	}
	/* Half of the runs end with work under way. */
	if (seed % 2)
		finish(o);
	end(o);
}

FIXTURE(oracle)
{
	struct oracle *o;
	u_int64_t live;
};

FIXTURE_SETUP(oracle)
{
	/* The first handle starts the engine. */
	t_close(t_client());
	self->o = calloc(1, sizeof(*self->o));
	self->live = capkm_test_alloc_live();
}

FIXTURE_TEARDOWN(oracle)
{
	free(self->o);
	if (t_embedded() && self->live != capkm_test_alloc_live())
		t_die("%" PRIu64 " allocations are left, there had been %" PRIu64,
		      capkm_test_alloc_live(), self->live);
}

/* SC-*, TA-*, EG-11, GR-18 to GR-22, rules 1 to 10 */
TEST_F_TIMEOUT(oracle, everything, 3000)
{
	u_int64_t ops = t_param("CAPKM_TEST_OPS", 400000, 50000);
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);

	/* Real processes are slow in the machine: some runs have them. */
	for (u_int64_t done = 0; done < ops; done += RUN, seed++)
		run(self->o, seed, ops - done < RUN ? ops - done : RUN,
		    t_embedded() ? 40 : !(seed % 4) ? 12 : 0, 0, false);
	t_no_leaks();
}

FIXTURE(calm)
{
	struct oracle *o;
};

FIXTURE_VARIANT(calm)
{
	const char *fast;
	unsigned int least;	/* percent of enters and of checks that are fast */
};

FIXTURE_VARIANT_ADD(calm, on) { .fast = "on", .least = 34 };
FIXTURE_VARIANT_ADD(calm, off) { .fast = "off" };
FIXTURE_VARIANT_ADD(calm, random) { .fast = "random", .least = 10 };

FIXTURE_SETUP(calm)
{
	self->o = calloc(1, sizeof(*self->o));
}

FIXTURE_TEARDOWN(calm)
{
	free(self->o);
}

/* The same rules where the fast path may be: with it, without it, and now and then. */
TEST_F_TIMEOUT(calm, everything, 3000)
{
	u_int64_t ops = t_param("CAPKM_TEST_OPS", 120000, 20000);
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);
	u_int64_t enters = 0, checks = 0, fast_enters = 0, fast_checks = 0, entered = 0;
	u_int64_t later = 0, earlier = 0;

	if (getenv("CAPKM_TEST_SUBMIT"))
		SKIP(return, "a SUBMIT is a call");
	ASSERT_EQ(0, setenv("CAPKM_TEST_FAST", variant->fast, 1));
	for (u_int64_t done = 0; done < ops; done += RUN, seed++) {
		run(self->o, seed, ops - done < RUN ? ops - done : RUN,
		    t_embedded() || seed % 4 ? 0 : 4, 0, true);
		enters += self->o->count.enters;
		checks += self->o->count.checks;
		fast_enters += self->o->count.fast_enters;
		fast_checks += self->o->count.fast_checks;
		entered += self->o->count.entered;
		later += self->o->count.later;
		earlier += self->o->count.earlier;
	}
	TH_LOG("%" PRIu64 " of %" PRIu64 " enters and %" PRIu64 " of %" PRIu64 " checks are "
	       "fast; of work on another slot, %" PRIu64 " times what came later and %" PRIu64
	       " times what came earlier counted for the other", fast_enters, enters,
	       fast_checks, checks, later, earlier);
	ASSERT_LE(variant->least * enters, 100 * fast_enters);
	ASSERT_LE(variant->least * checks, 100 * fast_checks);
	if (!variant->least)
		ASSERT_EQ(0, fast_enters + fast_checks + later + earlier);
	ASSERT_EQ(fast_enters, entered);
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
	u_int64_t ops = t_param("CAPKM_TEST_OPS", 400000, 50000) / 20;

	run(o, t->seed, ops, 0, t->domain, t->seed % 2);
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
	ASSERT_EQ(0, t_call(cl, CAPKM_NR_DOMAIN_DESTROY,
			    &(struct capkm_domain_destroy){ 0 }));
	t_close(cl);
	t_no_leaks();
}

TEST_HARNESS_MAIN
