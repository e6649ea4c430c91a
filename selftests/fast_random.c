// SPDX-License-Identifier: GPL-2.0-only
/*
 * The same random programs with the fast path, without it, and with it now and then, in
 * three domains: each answer has to be the same, and that of a model which has a list of
 * failures for each byte.
 *
 *   CAPKM_TEST_OPS   operations
 *   CAPKM_TEST_SEED  of the first program; one that fails says its own
 */
#include "capkm_test.h"
#include "choices.h"

#define WAYS	3		/* on, off, random */
#define BUFFERS	12u
#define BYTES	32u
#define OPEN	6u		/* scopes */
#define STREAMS	3u
#define RUN	2000u		/* operations of a program */
#define FAILURES 4096u

struct byte {
	unsigned int open;	/* scopes that are, a bit each */
	uint32_t n;
	struct {
		uint64_t date;
		unsigned int failure;
	} failed[RUN];
};

struct scope {
	bool used;
	unsigned int stream;
	uint64_t enter;
	uint32_t n;
	struct capkm_claim claim[4];	/* buffers by number */
	struct capkm_scope s[WAYS];
};

struct way {
	struct cl *cl;
	uint64_t id[BUFFERS];
	unsigned int failure[FAILURES];	/* by id: its number, or 0 */
	uint64_t last[STREAMS], since;
};

struct world {
	struct way way[WAYS];
	struct byte byte[BUFFERS][BYTES];
	bool exported[BUFFERS];
	struct scope scope[OPEN];
	struct capkm_claim seen[3];	/* by the last check */
	uint32_t seen_n;
	unsigned int failures;
	uint64_t seed, rng, tick, step;
	uint64_t enters, differ;
	struct capkm_error err;
};

static unsigned int draw(struct world *w, unsigned int n)
{
	return choices_next(&w->rng) % n;
}

#define WRONG(w, ...) do {						\
	fprintf(stderr, "# seed %" PRIu64 " step %" PRIu64 "\n", (w)->seed, (w)->step); \
	t_die(__VA_ARGS__);						\
} while (0)

#define ALL(k) for (int k = 0; k < WAYS; k++)

/* The call by each way, with @k; all have to return the same, which is @rc. */
#define EACH(w, rc, call) do {						\
	int all_[WAYS];							\
									\
	ALL(k)								\
		all_[k] = (call);					\
	ALL(k)								\
		if (all_[k] != all_[0])					\
			WRONG(w, "%s: %d, %d, %d", #call, all_[0], all_[1], all_[2]); \
	(rc) = all_[0];							\
} while (0)

#define EACH_OK(w, call) do {						\
	int rc_;							\
									\
	EACH(w, rc_, call);						\
	if (rc_)							\
		WRONG(w, "%s: %d", #call, rc_);				\
} while (0)

/* All say the same failure, by ids of their own. Its number, 0: none. */
static unsigned int same_failure(struct world *w, const uint64_t *id)
{
	unsigned int number = w->way[0].failure[id[0]];

	ALL(k) {
		if (id[k] >= FAILURES || !id[k] != !id[0] ||
		    w->way[k].failure[id[k]] != number)
			WRONG(w, "failures %" PRIu64 ", %" PRIu64 ", %" PRIu64, id[0], id[1],
			      id[2]);
	}
	if (!id[0] || number)
		return number;
	w->failures++;
	ALL(k)
		w->way[k].failure[id[k]] = w->failures;
	return w->failures;
}

/* ------------------------------------------------------------------ the model */

static void wrote(struct world *w, const struct capkm_claim *c, uint64_t enter,
		  unsigned int failure)
{
	for (uint64_t at = c->start; at < c->end; at++) {
		struct byte *b = &w->byte[c->buffer][at];
		uint32_t n = 0;

		for (uint32_t i = 0; i < b->n; i++)
			if (b->failed[i].date >= enter)
				b->failed[n++] = b->failed[i];
		if (failure) {
			b->failed[n].date = w->tick;
			b->failed[n++].failure = failure;
		}
		b->n = n;
	}
}

/* The first byte that is not clean, or -1; its failure, 0: a scope is open there. */
static int judge(const struct world *w, const struct capkm_claim *c, unsigned int *failure)
{
	for (uint64_t at = c->start; at < c->end; at++) {
		const struct byte *b = &w->byte[c->buffer][at];

		if (!b->open && !b->n)
			continue;
		/* The list is in the order of the dates. */
		*failure = b->open ? 0 : b->failed[0].failure;
		return (int)at;
	}
	return -1;
}

/* ------------------------------------------------------------------ operations */

static struct capkm_claim any_claim(struct world *w)
{
	struct capkm_claim c = { draw(w, BUFFERS), 0, BYTES };

	if (draw(w, 3)) {
		c.start = draw(w, BYTES);
		c.end = c.start + 1 + draw(w, BYTES - c.start);
	}
	return c;
}

static uint32_t any_claims(struct world *w, struct capkm_claim *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		c[i] = any_claim(w);
	return n;
}

/* As way @k has them. */
static const struct capkm_claim *of(const struct world *w, int k,
				    const struct capkm_claim *c, uint32_t n)
{
	static struct capkm_claim out[2][4];
	static unsigned int turn;
	struct capkm_claim *to = out[turn++ % 2];

	for (uint32_t i = 0; i < n; i++)
		to[i] = (struct capkm_claim){ w->way[k].id[c[i].buffer], c[i].start,
					      c[i].end };
	return to;
}

static struct capkm *handle(const struct world *w, int k)
{
	return w->way[k].cl->c;
}

static void op_enter(struct world *w)
{
	const struct capkm_scope_opts opts = CAPKM_OPTS(struct capkm_scope_opts,
		.label = draw(w, 2) ? "a label" : NULL, .retry_ms = CAPKM_RETRY_NONE);
	struct capkm_where where = { .stream = 1 + draw(w, STREAMS) };
	struct capkm_claim reads[2];
	unsigned int i = draw(w, OPEN), failure = 0, number;
	struct scope *s = &w->scope[i];
	uint32_t reads_n, at = 0;
	uint64_t id[WAYS];
	int rc;

	if (s->used)
		return;
	reads_n = any_claims(w, reads, draw(w, 3));
	s->n = any_claims(w, s->claim, 1 + draw(w, draw(w, 2) ? 1 : 4));
	s->stream = where.stream - 1;
	EACH(w, rc, capkm_scope_enter(handle(w, k), &where, of(w, k, reads, reads_n), reads_n,
				      of(w, k, s->claim, s->n), s->n, &opts, &s->s[k], NULL,
				      &w->err));
	w->tick++;
	w->enters++;
	while (at < reads_n && judge(w, &reads[at], &failure) < 0)
		at++;
	if (rc != (at < reads_n && !failure ? -EAGAIN : 0))
		WRONG(w, "enter: %d", rc);
	if (rc)
		return;
	ALL(k) {
		id[k] = s->s[k].failure;
		if (s->s[k].result != (failure ? CAPKM_SKIPPED : CAPKM_CLEAN))
			WRONG(w, "enter: result %u", s->s[k].result);
	}
	number = same_failure(w, id);
	if (number != failure)
		WRONG(w, "enter: failure %u, expected %u", number, failure);
	s->enter = w->tick;
	s->used = !failure;
	for (uint32_t c = 0; c < s->n; c++) {
		if (failure)
			wrote(w, &s->claim[c], s->enter, failure);
		for (uint64_t b = s->claim[c].start; s->used && b < s->claim[c].end; b++)
			w->byte[s->claim[c].buffer][b].open |= 1u << i;
	}
}

static void leave(struct world *w, unsigned int i)
{
	const struct capkm_cause why = CAPKM_OPTS(struct capkm_cause, .code = 3);
	const bool fails = !draw(w, 20);
	const uint32_t flags = draw(w, 2) ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0;
	struct scope *s = &w->scope[i];
	unsigned int number;
	uint64_t id[WAYS];

	EACH_OK(w, fails ? capkm_scope_fail(handle(w, k), &s->s[k], &why, &w->err) :
			   capkm_scope_exit(handle(w, k), &s->s[k], flags, &w->err));
	w->tick++;
	ALL(k) {
		id[k] = s->s[k].failure;
		if (s->s[k].sequence <= w->way[k].last[s->stream])
			WRONG(w, "way %d: exit at %" PRIu64 " after %" PRIu64, k,
			      s->s[k].sequence, w->way[k].last[s->stream]);
		w->way[k].last[s->stream] = s->s[k].sequence;
	}
	number = same_failure(w, id);
	if (!number != !fails || (fails && number != w->failures))
		WRONG(w, "exit: failure %u", number);
	s->used = false;
	for (uint32_t c = 0; c < s->n; c++)
		for (uint64_t b = s->claim[c].start; b < s->claim[c].end; b++)
			w->byte[s->claim[c].buffer][b].open &= ~(1u << i);
	/* Once for each byte, whatever claims overlap. */
	for (uint32_t c = 0; c < s->n; c++)
		wrote(w, &s->claim[c], s->enter, 0);
	for (unsigned int b = 0; fails && b < BUFFERS; b++)
		for (unsigned int at = 0; at < BYTES; at++)
			for (uint32_t c = 0; c < s->n; c++)
				if (s->claim[c].buffer == b && s->claim[c].start <= at &&
				    at < s->claim[c].end) {
					wrote(w, &(struct capkm_claim){ b, at, at + 1 }, 0,
					      number);
					break;
				}
}

static void op_exit(struct world *w)
{
	const unsigned int i = draw(w, OPEN);

	if (w->scope[i].used)
		leave(w, i);
}

/* The scope that way @k knows by that id, or -1. */
static int scope_of(const struct world *w, int k, uint64_t id)
{
	for (unsigned int i = 0; i < OPEN; i++)
		if (w->scope[i].used && w->scope[i].s[k].id == id)
			return (int)i;
	return -1;
}

static void op_check(struct world *w)
{
	struct capkm_report r[WAYS] = { 0 };
	struct capkm_answer a[WAYS];
	struct capkm_claim c[3] = { 0 };
	const uint32_t n = any_claims(w, c, 1 + draw(w, 3));
	unsigned int failure = 0, number;
	uint64_t id[WAYS];
	uint32_t i = 0;
	int at = -1;

	memcpy(w->seen, c, sizeof(w->seen));
	w->seen_n = n;
	ALL(k)
		a[k] = (struct capkm_answer)CAPKM_OPTS(struct capkm_answer, .reports = &r[k], .reports_len = 1);
	EACH_OK(w, capkm_check(handle(w, k), of(w, k, c, n), n, &a[k], &w->err));
	while (i < n && (at = judge(w, &c[i], &failure)) < 0)
		i++;
	ALL(k) {
		w->way[k].since = a[k].out_sequence;
		id[k] = r[k].failure;
		if (a[k].out_result != (i < n ? CAPKM_TAINTED : CAPKM_CLEAN) ||
		    a[k].out_reports != a[0].out_reports ||
		    a[k].out_unconfirmed != a[0].out_unconfirmed)
			WRONG(w, "way %d: result %u, %u reports, %u unconfirmed; expected byte "
			      "%d", k, a[k].out_result, a[k].out_reports, a[k].out_unconfirmed,
			      at);
		if (i == n)
			continue;
		if (r[k].buffer != w->way[k].id[c[i].buffer] || r[k].start != (uint64_t)at ||
		    r[k].end != r[0].end || r[k].kind != r[0].kind ||
		    r[k].stream != r[0].stream || strcmp((char *)r[k].label,
							 (char *)r[0].label) ||
		    (!failure && scope_of(w, k, r[k].scope) != scope_of(w, 0, r[0].scope)) ||
		    (!failure && scope_of(w, k, r[k].scope) < 0) || !r[k].scope != !r[0].scope)
			WRONG(w, "way %d: report of [%llu,%llu) kind %u scope %llx", k,
			      r[k].start, r[k].end, r[k].kind, r[k].scope);
	}
	number = same_failure(w, id);
	if (i < n && number != failure)
		WRONG(w, "check: failure %u, expected %u", number, failure);
}

/* Of what was checked before: departures.rst. */
static void op_unchanged(struct world *w)
{
	struct capkm_answer a[WAYS];
	const uint32_t n = w->seen_n;

	if (!n)
		return;
	ALL(k)
		a[k] = (struct capkm_answer)CAPKM_OPTS(struct capkm_answer);
	EACH_OK(w, capkm_check_unchanged(handle(w, k), of(w, k, w->seen, n), n,
					 w->way[k].since, &a[k], &w->err));
	if (a[0].out_result != a[1].out_result || a[0].out_result != a[2].out_result)
		WRONG(w, "unchanged: %u, %u, %u", a[0].out_result, a[1].out_result,
		      a[2].out_result);
}

/* Between slots, fast exits may be in another order: departures.rst. */
static void op_confirmed(struct world *w)
{
	const struct capkm_check_opts o = CAPKM_OPTS(struct capkm_check_opts,
						     .flags = CAPKM_CHECK_F_CONFIRMED);
	const struct capkm_claim c = any_claim(w);
	struct capkm_answer a[WAYS];

	ALL(k)
		a[k] = (struct capkm_answer)CAPKM_OPTS(struct capkm_answer);
	EACH_OK(w, capkm_check_with(handle(w, k), of(w, k, &c, 1), 1, &o, &a[k], &w->err));
	ALL(k) {
		if (a[k].out_result == a[1].out_result)
			continue;
		if (w->exported[c.buffer] || a[k].out_result == CAPKM_TAINTED ||
		    a[1].out_result == CAPKM_TAINTED)
			WRONG(w, "way %d: %u, by calls %u", k, a[k].out_result,
			      a[1].out_result);
		w->differ++;
	}
}

static void op_confirm(struct world *w)
{
	static const uint8_t host[16];
	const unsigned int stream = draw(w, STREAMS);
	const struct capkm_where where = { .stream = 1 + stream };
	uint64_t sequence[WAYS];

	if (draw(w, 2)) {
		EACH_OK(w, capkm_sequence(handle(w, k), &sequence[k], &w->err));
		EACH_OK(w, capkm_confirm_device(handle(w, k), host, sequence[k], NULL,
						&w->err));
	} else {
		EACH_OK(w, capkm_confirm(handle(w, k), &where, w->way[k].last[stream], NULL,
					 &w->err));
	}
}

static void op_change(struct world *w)
{
	const struct capkm_claim c = any_claim(w);
	unsigned int failure = 0;
	uint64_t id[WAYS] = { 0 };
	bool open = false;
	int rc = 0;

	for (uint64_t at = c.start; at < c.end; at++)
		open |= w->byte[c.buffer][at].open;
	switch (draw(w, 8)) {
	case 0:
		EACH_OK(w, capkm_taint(handle(w, k), of(w, k, &c, 1), 1, 0, NULL, &id[k],
				       &w->err));
		failure = same_failure(w, id);
		break;
	case 1:
		EACH(w, rc, capkm_buffer_reset(handle(w, k), w->way[k].id[c.buffer], c.start,
					       c.end, &w->err));
		if (rc != (open ? -EBUSY : 0))
			WRONG(w, "reset: %d", rc);
		break;
	default:
		EACH_OK(w, capkm_written(handle(w, k), of(w, k, &c, 1), 1, &w->err));
	}
	w->tick++;
	if (!rc)
		wrote(w, &c, w->tick, failure);
}

static void op_replace(struct world *w)
{
	const unsigned int b = draw(w, BUFFERS);

	for (unsigned int at = 0; at < BYTES; at++)
		if (w->byte[b][at].open)
			return;
	if (!draw(w, 8)) {
		EACH_OK(w, capkm_buffer_export(handle(w, k), w->way[k].id[b], &w->err));
		w->exported[b] = true;
		return;
	}
	EACH_OK(w, capkm_buffer_close(handle(w, k), w->way[k].id[b], &w->err));
	EACH_OK(w, capkm_buffer_create(handle(w, k), BYTES, NULL, &w->way[k].id[b], &w->err));
	w->exported[b] = false;
	memset(w->byte[b], 0, sizeof(w->byte[b]));
}

static void op_session(struct world *w)
{
	static const uint8_t device[16] = { 1 };
	const struct capkm_where beside = { .stream = 9 }, there = {
		.stream = 9, .device = { 1 },
	};
	uint64_t window[WAYS];

	if (draw(w, 2)) {
		EACH_OK(w, capkm_window_prepare(handle(w, k), &beside, NULL, &window[k],
						&w->err));
		EACH_OK(w, capkm_window_begin(handle(w, k), &beside, 0, NULL, &w->err));
		op_enter(w);
		op_check(w);
		op_exit(w);
		EACH_OK(w, capkm_window_abort(handle(w, k), &beside, 0, &window[k], &w->err));
	} else {
		EACH_OK(w, capkm_stream_fault(handle(w, k), &there, NULL, NULL, NULL, &w->err));
		op_enter(w);
		op_check(w);
		EACH_OK(w, capkm_context_renew(handle(w, k), device, NULL, &w->err));
	}
}

static const struct {
	void (*fn)(struct world *w);
	unsigned int weight;
} ops[] = {
	{ op_enter, 30 }, { op_exit, 90 }, { op_check, 20 }, { op_unchanged, 5 },
	{ op_confirmed, 5 }, { op_confirm, 4 }, { op_change, 40 }, { op_replace, 3 },
	{ op_session, 1 },
};

static void start(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = w->rng = seed;
	w->err.sz = sizeof(w->err);
	ALL(k) {
		w->way[k].cl = t_client();
		t_domain(w->way[k].cl);
		for (unsigned int b = 0; b < BUFFERS; b++)
			if (capkm_buffer_create(handle(w, k), BYTES, NULL, &w->way[k].id[b],
						NULL))
				t_die("no buffer");
	}
	capkm_fast_path(handle(w, 1), false);
}

static void run(struct world *w, uint64_t seed, uint64_t steps)
{
	unsigned int all = 0, n, i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		all += ops[i].weight;
	start(w, seed);
	for (w->step = 0; w->step < steps; w->step++) {
		capkm_fast_path(handle(w, 2), draw(w, 2));
		n = draw(w, all);
		for (i = 0; n >= ops[i].weight; i++)
			n -= ops[i].weight;
		ops[i].fn(w);
	}
	for (i = 0; i < OPEN; i++)
		if (w->scope[i].used)
			leave(w, i);
	ALL(k)
		if (t_domain_query(w->way[k].cl).out_scopes)
			WRONG(w, "way %d: scopes are open", k);
}

/* @fast: scopes that were, by each way. */
static void finish(struct world *w, uint64_t *fast)
{
	ALL(k) {
		struct capkm_fast_stats s = CAPKM_OPTS(struct capkm_fast_stats);

		if (capkm_fast_query(handle(w, k), &s, NULL) || s.dropped || s.revoked ||
		    s.transitions[CAPKM_FAST_MISSED])
			WRONG(w, "way %d: scopes were dropped, revoked or missed", k);
		fast[k] += s.entered;
		t_close(w->way[k].cl);
	}
}

TEST(same_answers)
{
	const uint64_t all = t_param("CAPKM_TEST_OPS", 100000, 16000);
	uint64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);
	uint64_t fast[WAYS] = { 0 }, enters = 0, differ = 0;
	struct world *w = malloc(sizeof(*w));

	for (uint64_t done = 0; done < all; done += RUN, seed++) {
		run(w, seed, all - done < RUN ? all - done : RUN);
		finish(w, fast);
		enters += w->enters;
		differ += w->differ;
	}
	TH_LOG("of %" PRIu64 " enters %" PRIu64 ", %" PRIu64 " and %" PRIu64 " are fast; the "
	       "order of slots is told %" PRIu64 " times", enters, fast[0], fast[1], fast[2],
	       differ);
	ASSERT_LE(enters, 5 * fast[0]);
	ASSERT_EQ(0, fast[1]);
	ASSERT_LE(enters, 20 * fast[2]);
	free(w);
	t_no_leaks();
}

TEST_HARNESS_MAIN
