// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that writes what it likes into the memory that it shares with the authority,
 * while the authority reads it. Its own scopes may suffer; nobody else's do, and all that
 * was bought for them is given back.
 */
#include "netlink.h"

#include <pthread.h>
#include <sched.h>

#define BYTES		4096u
#define BUFFERS		8u	/* of each session */

FIXTURE(fast_hostile)
{
	struct cl *bad, *good;
	u_int64_t x[BUFFERS];	/* of @bad */
	u_int64_t y[BUFFERS];	/* of @good */
	struct capkm_table_entry *entry;	/* of @bad, as the rest of the table */
	struct capkm_table_slot *slot;
	struct capkm_table_buffer *buffer;
	struct nl nl;		/* without the module: not open */
	_Atomic int stop;
	_Atomic unsigned long written, round;
};

#define SELF FIXTURE_DATA(fast_hostile)

static void make_buffers(struct cl *cl, u_int64_t *x)
{
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (capkm_buffer_create(cl->c, BYTES, NULL, (uint64_t *)&x[i], NULL))
			t_die("no buffer");
}

FIXTURE_SETUP(fast_hostile)
{
	char *table;

	self->good = t_client();
	t_domain(self->good);
	self->bad = t_client();
	t_attach(self->bad, self->good->domain);
	make_buffers(self->good, self->y);
	make_buffers(self->bad, self->x);
	table = capkm_test_table(self->bad->c);
	ASSERT_TRUE(table);
	self->entry = (void *)table;
	self->slot = (void *)(table + CAPKM_TABLE_SLOTS);
	self->buffer = (void *)(table + CAPKM_TABLE_BUFFERS);
	if (!t_embedded())
		self->nl = nl_open();
}

FIXTURE_TEARDOWN(fast_hostile)
{
	if (self->bad)
		t_close(self->bad);
	if (self->good)
		t_close(self->good);
	if (!t_embedded())
		nl_close(&self->nl);
	t_no_leaks();
}

static struct capkm_fast_stats stats_of(struct cl *cl)
{
	struct capkm_fast_stats s = CAPKM_OPTS(struct capkm_fast_stats);

	if (capkm_fast_query(cl->c, &s, NULL))
		t_die("fast_query");
	return s;
}

/* ------------------------------------------------------------------ garbage */

/* xorshift64: any thread has its own. */
static u_int64_t next(u_int64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#define put(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define get(p) __atomic_load_n(p, __ATOMIC_RELAXED)

/* A number that means something, or nearly, or nothing at all. */
static u_int64_t number(SELF *self, u_int64_t *seed)
{
	const u_int64_t r = next(seed);

	switch (r >> 8 & 7) {
	case 0:
		return self->x[r % BUFFERS];
	case 1:
		return self->y[r % BUFFERS];
	case 2:
		return r % 100;
	case 3:
		return self->x[r % BUFFERS] + CAPKM_FAST_BUFFERS;
	case 4:
		return BYTES - 2 + r % 5;
	case 5:
		return ~0ull - r % 3;
	case 6:
		return 1ull << r % 64;
	default:
		return r;
	}
}

/* An entry as an honest thread would leave it, of a scope over some buffers. */
static void forge(SELF *self, u_int64_t *seed, unsigned int n)
{
	struct capkm_table_entry *e = &self->entry[n];
	const unsigned int claims = next(seed) % 4;

	put(&e->claims, claims);
	put(&e->slot, 0);
	put(&e->stream, 0);
	for (unsigned int i = 0; i < claims; i++) {
		const u_int64_t b = self->x[next(seed) % BUFFERS];

		put(&e->claim[i].buffer, b);
		put(&e->claim[i].start, 0);
		put(&e->claim[i].end, BYTES);
		put(&self->buffer[b % CAPKM_FAST_BUFFERS].in_flight, n + 1);
	}
	put(&e->state, (get(&e->state) & ~(u_int64_t)CAPKM_ENTRY_STATE) + CAPKM_ENTRY_STEP +
		       CAPKM_ENTRY_ENTERED);
}

/* One word of an entry, of those that there are or not. */
static void spoil_entry(SELF *self, u_int64_t *seed)
{
	const u_int64_t r = next(seed);
	struct capkm_table_entry *e = &self->entry[r & 8 ? r % 4 : r % CAPKM_TABLE_ENTRIES];
	struct capkm_claim *c = &e->claim[(r >> 8) % CAPKM_FAST_CLAIMS];
	const u_int64_t v = number(self, seed);

	switch ((r >> 16) % 10) {
	case 0:
		put(&e->state, v);
		break;
	case 1:
	case 2:
		put(&e->state, (get(&e->state) & ~(u_int64_t)CAPKM_ENTRY_STATE) | v % 8);
		break;
	case 3:
		put(&e->slot, v);
		break;
	case 4:
		put(&e->claims, v % 3 ? v % (CAPKM_FAST_CLAIMS + 3) : v);
		break;
	case 5:
		put(&e->stream, v);
		break;
	case 6:
		put(&e->entered, v);
		put(&e->label[r % ARRAY_SIZE(e->label)], v);
		break;
	case 7:
		put(&c->buffer, v);
		break;
	case 8:
		put(&c->start, v);
		break;
	default:
		put(&c->end, v);
	}
}

static void spoil(SELF *self, u_int64_t *seed)
{
	const u_int64_t r = next(seed);
	struct capkm_table_buffer *b = &self->buffer[self->x[r % BUFFERS] % CAPKM_FAST_BUFFERS];
	struct capkm_table_slot *s = &self->slot[r % 3 ? 0 : r % CAPKM_FAST_SLOTS];

	switch ((r >> 16) % 8) {
	case 0:
	case 1:
		put(&b->in_flight, (r >> 24) % 8 ? (r >> 32) % 5 : number(self, seed));
		break;
	case 2:
		put(r & 8 ? &b->touched : &b->dirty, number(self, seed));
		break;
	case 3:
		put(r & 8 ? &s->sequence : &s->first, number(self, seed));
		break;
	case 4:
		forge(self, seed, (r >> 24) % 4);
		break;
	default:
		spoil_entry(self, seed);
	}
}

static void *write_garbage(void *arg)
{
	u_int64_t seed = 0x9e3779b97f4a7c15ull, last = 0;
	SELF *self = arg;

	while (!self->stop) {
		for (u_int64_t n = 1ull << next(&seed) % 9; n; n--) {
			spoil(self, &seed);
			self->written++;
		}
		/* Some rounds are over before it comes to them. */
		while (self->round == last && !self->stop)
			sched_yield();
		last = self->round;
	}
	return NULL;
}

/* ------------------------------------------------------------------ the honest one */

static struct capkm_claim all_of(u_int64_t buffer)
{
	return (struct capkm_claim){ buffer, 0, BYTES };
}

static unsigned int verdict_of(struct cl *cl, u_int64_t buffer)
{
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_claim c = all_of(buffer);
	int rc = capkm_check(cl->c, &c, 1, &a, NULL);

	if (rc)
		t_die("check: %d", rc);
	return a.out_result;
}

/* What it knows of its buffers, from what it did. */
struct oracle {
	bool open, tainted[BUFFERS];
	unsigned int over;		/* the open scope's buffers: a bit for each */
	struct capkm_scope scope;
	u_int64_t entered, failed;
};

static void agrees(SELF *self, const struct oracle *o)
{
	for (unsigned int i = 0; i < BUFFERS; i++) {
		const bool bad = o->tainted[i] || (o->open && o->over & 1u << i);

		if (verdict_of(self->good, self->y[i]) != (bad ? CAPKM_TAINTED : CAPKM_CLEAN))
			t_die("honest buffer %u is not %s", i, bad ? "tainted" : "clean");
	}
}

static void honest_enter(SELF *self, struct oracle *o, u_int64_t *seed)
{
	struct capkm_claim writes[BUFFERS];
	unsigned int n = 0;
	int rc;

	o->over = next(seed) % 255 + 1;
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (o->over & 1u << i)
			writes[n++] = all_of(self->y[i]);
	rc = capkm_scope_enter(self->good->c, NULL, NULL, 0, writes, n, NULL, &o->scope, NULL,
			       NULL);
	if (rc)
		t_die("honest enter: %d", rc);
	o->open = true;
	o->entered++;
}

static void honest_leave(SELF *self, struct oracle *o, bool fails)
{
	struct capkm_cause why = CAPKM_OPTS(struct capkm_cause, .code = 1);
	int rc = fails ? capkm_scope_fail(self->good->c, &o->scope, &why, NULL) :
			 capkm_scope_exit(self->good->c, &o->scope, CAPKM_SCOPE_EXIT_F_COMPLETE,
					  NULL);

	if (rc)
		t_die("honest exit: %d", rc);
	o->open = false;
	o->failed += fails;
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (o->over & 1u << i)
			o->tainted[i] = fails;
}

static void honest_step(SELF *self, struct oracle *o, u_int64_t *seed)
{
	if (!o->open)
		honest_enter(self, o, seed);
	else
		honest_leave(self, o, next(seed) % 8 == 0);
	if (next(seed) % 4 == 0)
		agrees(self, o);
}

/* ------------------------------------------------------------------ transitions */

static void dump(SELF *self)
{
	struct nl_request rq = nl_request(&self->nl, CAPKM_CMD_BUFFER_GET, NLM_F_DUMP);
	struct nl_answer a;

	nl_put_u64(&rq, CAPKM_A_BUFFER_DOMAIN, self->good->domain);
	a = nl_talk(&self->nl, &rq, NULL, NULL);
	if (a.err)
		t_die("dump: %d", a.err);
}

/* An entry gets what its scope needs, or a new one does. */
static void refill(SELF *self, unsigned int n)
{
	struct capkm_scope_table a = {
		.size = sizeof(a), .flags = CAPKM_SCOPE_TABLE_F_ENTRY, .entry = n,
	};

	capkm_call(self->bad->c, CAPKM_NR_SCOPE_TABLE, &a);
}

/* A call of the hostile session that takes something back; any answer will do. */
static void disturb(SELF *self, u_int64_t *seed)
{
	static const unsigned char host[16];
	const u_int64_t r = next(seed);
	u_int64_t *x = &self->x[(r >> 8) % BUFFERS];
	struct capkm *c = self->bad->c;
	struct capkm_claim claim = all_of(*x);
	struct capkm_where there = { .stream = 5 };
	struct capkm_scope s;
	uint64_t id;

	refill(self, r >> 32 & 1 ? CAPKM_ENTRY_NEW : (r >> 33) % 4);
	switch (r % 16) {
	case 0:
		capkm_buffer_export(c, *x, NULL);
		break;
	case 1:
		if (!capkm_window_prepare(c, &there, NULL, &id, NULL))
			capkm_window_abort(c, &there, 0, &id, NULL);
		break;
	case 2:
		capkm_stream_fault(c, NULL, NULL, &id, NULL, NULL);
		capkm_context_renew(c, host, NULL, NULL);
		for (unsigned int i = 0; i < BUFFERS; i++) {
			claim = all_of(self->x[i]);
			capkm_written(c, &claim, 1, NULL);
		}
		break;
	case 3:
	case 9:
		capkm_buffer_close(c, *x, NULL);
		if (capkm_buffer_create(c, BYTES, NULL, (uint64_t *)x, NULL))
			t_die("no buffer");
		break;
	case 4:
		capkm_taint(c, &claim, 1, 0, NULL, &id, NULL);
		capkm_written(c, &claim, 1, NULL);
		break;
	case 5:
		/* Of any entry, in whatever state it says it is. */
		s = (struct capkm_scope){
			.id = capkm_fast_scope(get(&self->entry[(r >> 16) % 4].state),
					       (r >> 16) % 4),
		};
		capkm_scope_exit(c, &s, 0, NULL);
		break;
	case 6:
		if (!t_embedded())
			dump(self);
		break;
	case 7:
		t_slot(self->bad, 0);
		t_domain_query(self->bad);
		break;
	case 8:
		capkm_confirm(c, NULL, ~0ull >> 1, NULL, NULL);
		capkm_sequence(c, &id, NULL);
		break;
	default:
		if (capkm_scope_enter(c, NULL, NULL, 0, &claim, 1, NULL, &s, NULL, NULL))
			break;
		if (r & 1 << 20)
			capkm_check(c, &claim, 1, NULL, NULL);
		/* Where the entry says something else by now, the scope stays. */
		capkm_scope_exit(c, &s, r & 1 << 21 ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0, NULL);
	}
}

static void go_on(SELF *self, struct oracle *o, u_int64_t *seed, u_int64_t rounds)
{
	for (u_int64_t i = 0; i < rounds; i++) {
		self->round++;
		disturb(self, seed);
		honest_step(self, o, seed);
	}
}

/* No other client of the domain is alive; that is noticed at once, or soon. */
static void is_alone(SELF *self)
{
	for (int left = 10000; t_domain_query(self->good).out_clients != 1; usleep(1000))
		if (!left--)
			t_die("nobody has noticed the end");
}

TEST_F_TIMEOUT(fast_hostile, garbage, 300)
{
	const u_int64_t rounds = t_param("CAPKM_TEST_HOSTILE", 100000, 20000);
	u_int64_t seed = 88172645463325252ull;
	struct oracle o = { 0 };
	struct capkm_fast_stats bad;
	struct cl *second;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, write_garbage, self));
	go_on(self, &o, &seed, rounds);
	bad = stats_of(self->bad);
	TH_LOG("%lu words written; %llu scopes migrated, %llu revoked, %llu dropped",
	       (unsigned long)self->written, (unsigned long long)bad.migrated,
	       (unsigned long long)bad.revoked, (unsigned long long)bad.dropped);
	ASSERT_LT(1000, self->written);
	ASSERT_LT(0, bad.dropped);
	ASSERT_LT(0, bad.revoked);
	ASSERT_LT(0, bad.migrated);
	/* A second client joins while it goes on; from then on nothing of it is looked at. */
	second = t_second(self->bad);
	ASSERT_EQ(0, t_try_join_session(second));
	bad = stats_of(self->bad);
	ASSERT_EQ(1, bad.transitions[CAPKM_FAST_JOINED]);
	go_on(self, &o, &seed, 100);
	ASSERT_EQ(bad.migrated, stats_of(self->bad).migrated);
	ASSERT_EQ(0, stats_of(self->bad).transitions[CAPKM_FAST_MISSED]);
	t_close(second);
	/* It ends while it writes, where a mapping outlives that. */
	if (t_embedded()) {
		self->stop = 1;
		ASSERT_EQ(0, pthread_join(thread, NULL));
		t_close(self->bad);
	} else {
		t_close(self->bad);
		is_alone(self);
		self->stop = 1;
		ASSERT_EQ(0, pthread_join(thread, NULL));
		munmap(self->entry, CAPKM_TABLE_BYTES);
	}
	self->bad = NULL;
	is_alone(self);
	/* The honest one never noticed. */
	ASSERT_LT(0, stats_of(self->good).entered);
	ASSERT_EQ(0, stats_of(self->good).dropped);
	ASSERT_EQ(0, stats_of(self->good).revoked);
	ASSERT_EQ(0, stats_of(self->good).transitions[CAPKM_FAST_MISSED]);
	if (o.open)
		honest_leave(self, &o, false);
	agrees(self, &o);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		struct capkm_claim c = all_of(self->y[i]);

		ASSERT_EQ(0, capkm_written(self->good->c, &c, 1, NULL));
	}
	/* Nothing is left of the other one. */
	ASSERT_EQ(1, t_domain_query(self->good).out_sessions);
	ASSERT_EQ(0, t_domain_query(self->good).out_scopes);
	ASSERT_EQ(0, t_domain_query(self->good).out_claims);
	ASSERT_EQ(0, t_domain_query(self->good).out_unconfirmed);
	ASSERT_EQ(BUFFERS, t_domain_query(self->good).out_buffers);
}

TEST_HARNESS_MAIN
