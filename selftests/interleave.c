// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every interleaving of two and of three scopes of as many sessions over one
 * shared buffer: each scope is left well, badly, or its client dies; what was left
 * well is finished, or confirmed later, or never, because the client dies. The
 * ranges are equal, nested and crossing. After each step the buffer is compared
 * with the model of model.h.
 */
#include "capkm_test.h"
#include "model.h"

#define SIZE 6

/* The whole, its middle, and two halves that cross there. */
static const struct { int start, end; } ranges[] = {
	{ 0, 6 }, { 2, 4 }, { 0, 4 }, { 2, 6 },
};
#define RANGES ((int)ARRAY_SIZE(ranges))
/* One byte of each part that the ranges cut the buffer into. */
static const int bytes[] = { 1, 3, 5 };

/* CONFIRMED, LOST: it is enqueued, and in the end that is what becomes of it. */
enum outcome { WELL, CONFIRMED, LOST, BADLY, DIES, OUTCOMES };
static const char *const outcomes[] = {
	"well", "enqueued, will be confirmed", "enqueued, will be lost", "badly", "dies",
};

struct play {
	struct cl *watch;
	struct cl *cl[3];
	u_int64_t domain, buffer;
	struct model m;
	int b;			/* the buffer in the model */
	int n;
	int range[3];
	enum outcome outcome[3];
	bool tainted;		/* it starts with a failure on all bytes */
	int order[6], steps;	/* who is next: to enter, then to leave */
	u_int64_t cases;
};

static void __attribute__((noreturn, format(printf, 2, 3)))
wrong(struct play *p, const char *fmt, ...)
{
	bool entered[3] = { false };
	va_list ap;

	fprintf(stderr, "# ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n# %s buffer", p->tainted ? "tainted" : "clean");
	for (int i = 0; i < p->steps; i++) {
		int s = p->order[i];

		if (!entered[s])
			fprintf(stderr, "; %d enters [%d,%d)", s, ranges[p->range[s]].start,
				ranges[p->range[s]].end);
		else
			fprintf(stderr, "; %d %s", s, outcomes[p->outcome[s]]);
		entered[s] = true;
	}
	fprintf(stderr, "\n");
	abort();
}

static void join(struct play *p, int i)
{
	p->cl[i] = t_client_();
	t_attach_(p->cl[i], p->domain, CAPKM_BACKEND_SOFTWARE);
	t_open_(p->cl[i], p->buffer);
	m_new_session(&p->m, i, p->cl[i]->session, CAPKM_BACKEND_SOFTWARE);
	m_new_client(&p->m, i, i, p->m.now);
}

/* Is what CHECK says of [start, end) what the model says? */
static void compare_range(struct play *p, int start, int end)
{
	struct capkm_claim c = { p->buffer, start, end };
	struct capkm_report r;
	struct capkm_check k = {
		.flags = CAPKM_CHECK_F_CONFIRMED, .claims_uptr = t_ptr(&c),
		.claims_len = 1, .reports_uptr = t_ptr(&r), .reports_len = 1,
	};
	struct m_verdict v;
	int at = m_judge_set(&p->m, p->b, m_mask(start, end), M_NONE, &v);
	bool named = false, pending = false;
	unsigned int want;

	for (int i = start; i < end; i++)
		pending |= m_unconfirmed(&p->m, p->b, i, true);
	want = at != M_NONE ? CAPKM_TAINTED : pending ? CAPKM_PENDING : CAPKM_CLEAN;
	T_OK(p->watch, CHECK, &k);
	if (k.out_result != want)
		wrong(p, "[%d,%d): result %u, the model says %u, its first bad byte is %d",
		      start, end, k.out_result, want, at);
	if (at == M_NONE)
		return;
	if (r.start != (u_int64_t)at)
		wrong(p, "[%d,%d): bad from %llu on, the model says %d", start, end,
		      r.start, at);
	for (int i = 0; i < v.n && !named; i++) {
		if (v.result == M_IN_PROGRESS) {
			named = r.kind == CAPKM_KIND_IN_PROGRESS &&
				r.scope == p->m.scope[v.named[i].ref].id;
		} else {
			struct m_failure *f = &p->m.failure[v.named[i].ref];

			named = (!f->kind || f->kind == r.kind) &&
				(f->id || !f->scope || f->scope == r.scope) &&
				m_is_id(&p->m, v.named[i].ref, r.failure);
		}
	}
	if (!named)
		wrong(p, "[%d,%d): failure %llu scope %llu kind %u, the model names %s %d",
		      start, end, r.failure, r.scope, r.kind,
		      v.result == M_IN_PROGRESS ? "scope" : "failure", v.named[0].ref);
}

static void compare(struct play *p)
{
	u_int64_t seen[8], n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++)
		compare_range(p, bytes[i], bytes[i] + 1);
	compare_range(p, 0, SIZE);
	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++) {
		const struct m_byte *byte = &p->m.buffer[p->b].byte[bytes[i]];

		for (int j = 0; j < byte->n; j++) {
			u_int64_t k = 0;

			if (byte->c[j].what != M_FAILED)
				continue;
			while (k < n && seen[k] != (u_int64_t)byte->c[j].ref)
				k++;
			if (k == n)
				seen[n++] = byte->c[j].ref;
		}
	}
	if (t_domain_query_(p->watch).out_failures != n)
		wrong(p, "%llu failures, the model has %" PRIu64,
		      t_domain_query_(p->watch).out_failures, n);
}

static void dies(struct play *p, int i)
{
	unsigned int pid = t_pid(p->cl[i]);

	t_kill(p->cl[i]);
	p->cl[i] = NULL;
	m_death(&p->m, i, false, pid, ++p->m.now);
}

static void leave(struct play *p, int i)
{
	/* No sequence is compared here: ticks will do for them. */
	const u_int64_t t = p->m.now + 1;
	u_int64_t id;
	bool complete;
	int f;

	switch (p->outcome[i]) {
	case WELL:
	case CONFIRMED:
	case LOST:
		complete = p->outcome[i] == WELL;
		id = t_exit_flags_(p->cl[i], p->m.scope[i].id,
				   complete ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0);
		if (id)
			wrong(p, "exit of %d: failure %" PRIu64, i, id);
		m_exit(&p->m, i, M_NONE, complete, t, t);
		p->m.now = t;
		break;
	case BADLY:
		id = t_exit_failed_(p->cl[i], p->m.scope[i].id, "badly");
		f = m_new_failure(&p->m, id);
		if (!id || f == M_NONE)
			wrong(p, "exit of %d: failure %" PRIu64, i, id);
		m_exit(&p->m, i, f, true, t, t);
		p->m.now = t;
		break;
	default:
		dies(p, i);
	}
}

/* What becomes of what was enqueued. */
static void settle(struct play *p, int i)
{
	struct capkm_stream_query q = { .place.stream = 1 };
	struct capkm_stream_confirm c = { .place.stream = 1 };

	if (p->outcome[i] == LOST) {
		dies(p, i);
	} else if (p->outcome[i] == CONFIRMED) {
		T_OK(p->cl[i], STREAM_QUERY, &q);
		c.sequence = q.out_sequence;
		T_OK(p->cl[i], STREAM_CONFIRM, &c);
		if (c.out_unconfirmed)
			wrong(p, "confirmed by %d: %llu ranges are left", i,
			      c.out_unconfirmed);
		m_confirm(&p->m, i, 0, p->m.now);
	}
}

static void play(struct play *p)
{
	struct m_ranges none = { 0 }, rs = { 1, {} };
	bool entered[3] = { false };
	u_int64_t f;

	p->cases++;
	for (int i = 0; i < p->n; i++)
		if (!p->cl[i])
			join(p, i);
	p->m.failures = 0;
	rs.r[0] = (struct m_range){ p->b, 0, SIZE };
	if (p->tainted) {
		f = t_taint_(p->watch, C({ p->buffer, 0, SIZE }), 0, "before");
		m_zero_length(&p->m, &rs, m_new_failure(&p->m, f), NULL, ++p->m.now);
	}
	for (int step = 0; step < p->steps; step++) {
		int i = p->order[step];

		if (entered[i]) {
			leave(p, i);
		} else {
			struct capkm_claim c = {
				p->buffer, ranges[p->range[i]].start,
				ranges[p->range[i]].end,
			};

			rs.r[0] = (struct m_range){ p->b, c.start, c.end };
			m_enter(&p->m, i, t_enter_(p->cl[i], 1, NULL, 0, &c, 1), i, 0,
				1, M_NONE, M_NONE, &none, &rs, ++p->m.now);
			entered[i] = true;
		}
		compare(p);
	}
	for (int i = 0; i < p->n; i++) {
		settle(p, i);
		compare(p);
	}
	/* Nobody is in it any more: a write releases all. */
	t_written_(p->watch, C({ p->buffer, 0, SIZE }));
	rs.r[0] = (struct m_range){ p->b, 0, SIZE };
	m_zero_length(&p->m, &rs, M_NONE, NULL, ++p->m.now);
	compare(p);
}

/*
 * All orders in which the scopes enter and leave. They are numbered by their
 * enters: other numbers would be the same case with other ranges.
 */
static void all_orders(struct play *p, const int *left)
{
	if (p->steps == 2 * p->n) {
		play(p);
		return;
	}
	for (int i = 0; i < p->n; i++) {
		int rest[3] = { left[0], left[1], left[2] };

		if (!rest[i] || (i && rest[i - 1] == 2))
			continue;
		rest[i]--;
		p->order[p->steps++] = i;
		all_orders(p, rest);
		p->steps--;
	}
}

/* @every: only one of so many combinations of ranges and outcomes. */
static void all(struct play *p, int n, u_int64_t every)
{
	static const int twice[3] = { 2, 2, 2 };
	u_int64_t combinations = 2;

	p->n = n;
	for (int i = 0; i < n; i++)
		combinations *= RANGES * OUTCOMES;
	for (u_int64_t k = 0; k < combinations; k += every) {
		u_int64_t rest = k;

		p->tainted = rest % 2;
		rest /= 2;
		for (int i = 0; i < n; i++) {
			p->range[i] = rest % RANGES;
			rest /= RANGES;
			p->outcome[i] = rest % OUTCOMES;
			rest /= OUTCOMES;
		}
		p->steps = 0;
		all_orders(p, twice);
	}
}

FIXTURE(interleave)
{
	struct play *p;
};

FIXTURE_SETUP(interleave)
{
	struct play *p = calloc(1, sizeof(*p));

	p->watch = t_client();
	p->domain = t_domain(p->watch);
	p->buffer = t_shared(p->watch, SIZE);
	m_new_session(&p->m, 3, p->watch->session, CAPKM_BACKEND_SOFTWARE);
	p->b = m_new_buffer(&p->m, p->buffer, SIZE, true, false, 3, 0);
	self->p = p;
}

FIXTURE_TEARDOWN(interleave)
{
	for (int i = 0; i < 3; i++)
		if (self->p->cl[i])
			t_close(self->p->cl[i]);
	t_close(self->p->watch);
	m_free(&self->p->m);
	free(self->p);
	t_no_leaks();
}

/* Rules 1, 2, 8 and 9; SC-15, SC-16, SC-17 */
TEST_F_TIMEOUT(interleave, two, 600)
{
	all(self->p, 2, 1);
	TH_LOG("%" PRIu64 " cases", self->p->cases);
	ASSERT_EQ(3 * 16 * 25 * 2, self->p->cases);
}

TEST_F_TIMEOUT(interleave, three, 600)
{
	/* 15 orders of each of 16000 combinations; 3 and 7 are prime to all of them. */
	u_int64_t every = t_param("CAPKM_TEST_EVERY", 3, 21);

	all(self->p, 3, every);
	TH_LOG("%" PRIu64 " cases", self->p->cases);
	ASSERT_EQ((16000 + every - 1) / every * 15, self->p->cases);
}

TEST_HARNESS_MAIN
