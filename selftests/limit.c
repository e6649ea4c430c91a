// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every limit (enum capkm_limit): that it holds, what the call says that meets it,
 * that nothing has changed, and that one may go on when something was given back.
 */
#include <sys/resource.h>

#include "capkm_test.h"

#define GPU T_GPU(1)

/* @call by @cl meets @which: nothing has changed, and out_limit says which. */
#define AT_LIMIT(cl, rc, which, call) do {				\
	unsigned int seen_ = 0;						\
									\
	T_REFUSED(cl, rc, ({						\
		int r_ = (call);					\
		seen_ = (cl)->limit;					\
		r_;							\
	}));								\
	if (seen_ != (which))						\
		t_die(#call ": limit %u, expected " #which, seen_);	\
} while (0)

/* A domain with one limit, and its client. */
static struct cl *domain_of(unsigned int limit, u_int64_t value)
{
	struct cl *cl = t_process();

	t_domain_limit(cl, limit, value);
	if (t_limit(cl, limit) != value)
		t_die("limit %u is not what it was set to", limit);
	return cl;
}

static int stream(struct cl *cl)
{
	struct capkm_stream_create a = { 0 };

	return t_call(cl, CAPKM_NR_STREAM_CREATE, &a);
}

static int buffer(struct cl *cl)
{
	struct capkm_buffer_create a = { .bytes = 10 };

	return t_call(cl, CAPKM_NR_BUFFER_CREATE, &a);
}

static int open_buffer(struct cl *cl, u_int64_t id)
{
	struct capkm_buffer_open a = { .buffer = id };

	return t_call(cl, CAPKM_NR_BUFFER_OPEN, &a);
}

static int attach(struct cl *cl, u_int64_t domain)
{
	struct capkm_domain_attach a = { .domain = domain };

	return t_call(cl, CAPKM_NR_DOMAIN_ATTACH, &a);
}

static int enter(struct cl *cl, u_int64_t s, const struct capkm_claim *c, size_t n)
{
	return t_try_enter(cl, s, 0, NULL, NULL, 0, c, n).rc;
}

/* --------------------------------------------------------- setting limits */

TEST(all_are_listed)
{
	struct cl *a = t_client();
	struct capkm_limit_value l[CAPKM_LIMITS], d[CAPKM_LIMITS];
	struct capkm_info i = { .limits_uptr = t_ptr(l), .limits_len = CAPKM_LIMITS };
	struct capkm_domain_query q = {
		.limits_uptr = t_ptr(d), .limits_len = CAPKM_LIMITS,
	};

	T_OK(a, INFO, &i);
	t_domain(a);
	T_OK(a, DOMAIN_QUERY, &q);
	ASSERT_EQ(CAPKM_LIMITS - 1, i.out_limits);
	ASSERT_EQ(CAPKM_LIMITS - 1, q.out_limits);
	for (unsigned int k = 0; k < i.out_limits; k++) {
		ASSERT_EQ(k + 1, l[k].limit);
		ASSERT_EQ(k + 1, d[k].limit);
		ASSERT_EQ(0, l[k].__reserved);
		ASSERT_NE(0, l[k].value);
		ASSERT_EQ(l[k].value, d[k].value);
	}
	/* As many as there is room for */
	i.limits_len = 2;
	memset(l, 0, sizeof(l));
	T_OK(a, INFO, &i);
	ASSERT_EQ(2, i.out_limits);
	ASSERT_EQ(CAPKM_LIMIT_DEFUNCT, l[1].limit);
	ASSERT_EQ(0, l[2].limit);
	t_close(a);
}

static int create(struct cl *cl, unsigned int limit, u_int64_t value, unsigned int reserved)
{
	struct capkm_limit_value l[2] = {
		{ .limit = CAPKM_LIMIT_SCOPES, .value = 5 },
		{ .limit = limit, .value = value, .__reserved = reserved },
	};
	struct capkm_domain_create a = { .limits_uptr = t_ptr(l), .limits_len = 2 };

	return t_call(cl, CAPKM_NR_DOMAIN_CREATE, &a);
}

TEST(bad_values)
{
	struct cl *a = t_client();
	struct capkm_limit_value many[65] = { { .limit = CAPKM_LIMIT_SCOPES, .value = 1 } };
	struct capkm_domain_create c = { .limits_uptr = t_ptr(many), .limits_len = 65 };

	/* Of a user, not of a domain */
	ASSERT_EQ(-EINVAL, create(a, CAPKM_LIMIT_DOMAINS, 1, 0));
	ASSERT_EQ(CAPKM_LIMIT_DOMAINS, a->limit);
	ASSERT_EQ(-EINVAL, create(a, CAPKM_LIMIT_DEFUNCT, 1, 0));
	ASSERT_EQ(CAPKM_LIMIT_DEFUNCT, a->limit);
	ASSERT_EQ(-EINVAL, create(a, CAPKM_LIMIT_NONE, 1, 0));
	ASSERT_EQ(-EINVAL, create(a, CAPKM_LIMITS, 1, 0));
	ASSERT_EQ(-EINVAL, create(a, UINT32_MAX, 1, 0));
	ASSERT_EQ(-EINVAL, create(a, CAPKM_LIMIT_STREAMS, 1, 1));
	ASSERT_EQ(CAPKM_LIMIT_STREAMS, a->limit);
	ASSERT_EQ(-EMSGSIZE, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.name_uptr = t_ptr("/");
	c.name_len = 1;
	c.limits_uptr = 0;
	c.limits_len = 0;
	ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	ASSERT_TRUE(a->limit == 0);
	/* It is in no domain by all that. */
	ASSERT_EQ(0, create(a, CAPKM_LIMIT_STREAMS, 0, 0));
	ASSERT_EQ(5, t_limit(a, CAPKM_LIMIT_SCOPES));
	ASSERT_EQ(0, t_limit(a, CAPKM_LIMIT_STREAMS));
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_STREAMS, stream(a));
	t_close(a);
	t_no_leaks();
}

/* Only an administrator may raise one. */
TEST(raised)
{
	struct cl *a, *b;
	u_int64_t max;

	if (getuid())
		SKIP(return, "needs root");
	a = t_client();
	t_domain(a);
	max = t_limit(a, CAPKM_LIMIT_STREAMS);
	t_close(a);
	a = t_client();
	ASSERT_EQ(0, seteuid(65534));
	b = t_client();
	ASSERT_EQ(-EPERM, create(b, CAPKM_LIMIT_STREAMS, max + 1, 0));
	ASSERT_EQ(CAPKM_LIMIT_STREAMS, b->limit);
	ASSERT_EQ(0, create(b, CAPKM_LIMIT_STREAMS, max, 0));
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, create(a, CAPKM_LIMIT_STREAMS, max + 1, 0));
	ASSERT_EQ(max + 1, t_limit(a, CAPKM_LIMIT_STREAMS));
	t_close(b);
	t_close(a);
	t_no_leaks();
}

/* ------------------------------------------------------------ of the user */

TEST(domains)
{
	static struct cl *cl[4100];
	struct capkm_limit_value l;
	struct capkm_info i = { .limits_uptr = t_ptr(&l), .limits_len = 1 };
	struct rlimit files = { 8192, 8192 };
	struct capkm_domain_create a;
	unsigned int n = 0;
	int rc;

	cl[0] = t_client();
	T_OK(cl[0], INFO, &i);
	if (l.value > 4096 || (!t_embedded() && setrlimit(RLIMIT_NOFILE, &files))) {
		t_close(cl[0]);
		SKIP(return, "the limit is too high to be met");
	}
	for (;;) {
		a = (struct capkm_domain_create){ 0 };
		rc = t_call(cl[n], CAPKM_NR_DOMAIN_CREATE, &a);
		if (rc)
			break;
		cl[++n] = t_client();
		/* Other domains of this user count, but nothing does twice. */
		ASSERT_LE(n, l.value);
	}
	ASSERT_EQ(-EDQUOT, rc);
	ASSERT_EQ(CAPKM_LIMIT_DOMAINS, cl[n]->limit);
	t_close(cl[0]);
	a = (struct capkm_domain_create){ 0 };
	T_OK(cl[n], DOMAIN_CREATE, &a);
	for (unsigned int k = 1; k <= n; k++)
		t_close(cl[k]);
	t_no_leaks();
}

static int destroy(struct cl *cl, u_int64_t domain)
{
	struct capkm_domain_destroy a = { .domain = domain };

	return t_call(cl, CAPKM_NR_DOMAIN_DESTROY, &a);
}

/* Domains that linger: beyond the limit the oldest goes, and none is refused. */
TEST(defunct)
{
	struct cl *a = t_client();
	struct capkm_limit_value l[2];
	struct capkm_info i = { .limits_uptr = t_ptr(l), .limits_len = 2 };
	u_int64_t d[80];
	unsigned int n;

	T_OK(a, INFO, &i);
	ASSERT_EQ(CAPKM_LIMIT_DEFUNCT, l[1].limit);
	n = l[1].value + 1;
	if (n > 80)
		SKIP(return, "the limit is too high to be met");
	for (unsigned int k = 0; k < n; k++) {
		struct cl *b = t_process();

		d[k] = t_domain(b);
		t_record(b, 1);
		t_kill(b);
	}
	/* Freed now and then: the library does so at an open, the module every 5 s. */
	t_close(t_client());
	if (!t_embedded())
		sleep(8);
	ASSERT_EQ(-ENOENT, destroy(a, d[0]));
	for (unsigned int k = 1; k < n; k++) {
		ASSERT_EQ(0, destroy(a, d[k])) {
			TH_LOG("%u of %u", k, n);
		}
	}
	t_close(a);
	t_no_leaks();
}

/* -------------------------------------------------------- of the domain */

TEST(sessions)
{
	struct cl *a = domain_of(CAPKM_LIMIT_SESSIONS, 2), *b = t_client(), *c = t_client();

	ASSERT_EQ(0, attach(b, a->domain));
	T_REFUSED(a, -ENOSPC, attach(c, a->domain));
	attach(c, a->domain);
	ASSERT_EQ(CAPKM_LIMIT_SESSIONS, c->limit);
	t_close(b);
	ASSERT_EQ(0, attach(c, a->domain));
	t_close(c);
	t_close(a);
	t_no_leaks();
}

TEST(ranges)
{
	struct cl *a = domain_of(CAPKM_LIMIT_RANGES, 20), *b = t_client();
	u_int64_t x = t_shared(a, 1000), p = t_buffer(a, 10), f, s;
	struct capkm_claim many[30];
	unsigned int n;

	ASSERT_EQ(0, attach(b, a->domain));
	t_open(b, x);
	for (int i = 0; i < 30; i++)
		many[i] = (struct capkm_claim){ x, 10 * i, 10 * i + 5 };
	AT_LIMIT(a, -ENOSPC, CAPKM_LIMIT_RANGES, enter(a, 1, many, 30));
	AT_LIMIT(a, -ENOSPC, CAPKM_LIMIT_RANGES, t_try_taint(a, many, 30, 0, "x", &f));
	/* Something that leaves no room for anything else */
	for (n = 0; !t_try_taint(a, &many[n], 1, 0, "x", &f); n++)
		ASSERT_LT(n, 20);
	ASSERT_GE(n, 10);
	ASSERT_LE(t_domain_query(a).out_claims, 20);
	AT_LIMIT(a, -ENOSPC, CAPKM_LIMIT_RANGES, enter(a, 1, &many[29], 1));
	AT_LIMIT(b, -ENOSPC, CAPKM_LIMIT_RANGES, enter(b, 1, &many[29], 1));
	/* WRITTEN works at any limit, also in the middle of a range. */
	t_written(a, C({ x, 1, 2 }));
	t_is_clean(a, x, 1, 2);
	t_written(a, C({ x, 0, 1000 }));
	s = t_enter(a, 1, &many[29], 1, &many[29], 1);
	t_exit(a, s);
	ASSERT_EQ(0, t_domain_query(a).out_claims);
	/* A buffer that becomes shared with its past */
	t_write_enqueued(a, 2, C({ p, 0, 10 }));
	for (n = 0; !t_try_taint(a, &many[n], 1, 0, "x", &f); n++)
		;
	if (t_export(a, p)) {
		AT_LIMIT(a, -ENOSPC, CAPKM_LIMIT_RANGES, t_export(a, p));
		t_confirm(a, 2);
		ASSERT_EQ(0, t_export(a, p));
	}
	t_close(b);
	t_close(a);
	t_no_leaks();
}

/* A second client: the first one should confirm before. */
TEST(ranges_of_join)
{
	struct cl *a = domain_of(CAPKM_LIMIT_RANGES, 8), *b = t_second(a);
	u_int64_t p;

	for (int i = 0; i < 12; i++) {
		p = t_buffer(a, 10);
		t_write_enqueued(a, 1, C({ p, 0, 10 }));
	}
	T_REFUSED(a, -ENOSPC, t_try_join_session(b));
	ASSERT_EQ(-ENOSPC, t_try_join_session(b));
	ASSERT_EQ(CAPKM_LIMIT_RANGES, b->limit);
	t_confirm(a, 1);
	ASSERT_EQ(0, t_try_join_session(b));
	t_close(b);
	t_close(a);
	t_no_leaks();
}

TEST(open_windows)
{
	struct cl *a = domain_of(CAPKM_LIMIT_OPEN_WINDOWS, 2), *b = t_process();
	u_int64_t w;

	ASSERT_EQ(0, attach(b, a->domain));
	t_prepare(a, 1);
	w = t_record(b, 1);
	AT_LIMIT(a, -ENOSPC, CAPKM_LIMIT_OPEN_WINDOWS, t_try_prepare(a, 2).rc);
	AT_LIMIT(b, -ENOSPC, CAPKM_LIMIT_OPEN_WINDOWS, t_try_prepare(b, 2).rc);
	/* Orphans count until they are abandoned. */
	t_kill(b);
	AT_LIMIT(a, -ENOSPC, CAPKM_LIMIT_OPEN_WINDOWS, t_try_prepare(a, 2).rc);
	ASSERT_EQ(0, t_abandon(a, w));
	t_prepare(a, 2);
	t_close(a);
	t_no_leaks();
}

TEST(history)
{
	struct cl *a = domain_of(CAPKM_LIMIT_HISTORY, 2);
	u_int64_t w[3];

	for (int i = 0; i < 3; i++) {
		w[i] = t_record(a, 1);
		t_abort(a, 1);
	}
	ASSERT_EQ(2, t_domain_query(a).out_history);
	{
		struct capkm_window_query q = { .window = w[0] };

		ASSERT_EQ(-ENOENT, t_call(a, CAPKM_NR_WINDOW_QUERY, &q));
	}
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(a, w[1]).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(a, w[2]).q.out_state);
	t_close(a);
	t_no_leaks();
}

/* Failures of ended clients: the last ones are remembered. */
TEST(reports)
{
	struct cl *a = domain_of(CAPKM_LIMIT_REPORTS, 2), *b = t_process();

	ASSERT_EQ(0, attach(b, a->domain));
	for (int i = 0; i < 4; i++)
		t_fail(b, 1, C({ t_buffer(b, 10), 0, 10 }), "of an ended client");
	ASSERT_EQ(0, t_domain_query(a).out_reports);
	t_kill(b);
	ASSERT_EQ(2, t_domain_query(a).out_reports);
	ASSERT_EQ(0, t_failures(a));
	t_close(a);
	t_no_leaks();
}

/* ---------------------------------------------- of a session or a client */

TEST(clients)
{
	struct cl *a = domain_of(CAPKM_LIMIT_CLIENTS, 2), *b = t_join_session(a), *c;

	c = t_second(a);
	T_REFUSED(a, -EDQUOT, t_try_join_session(c));
	ASSERT_EQ(-EDQUOT, t_try_join_session(c));
	ASSERT_EQ(CAPKM_LIMIT_CLIENTS, c->limit);
	/* Those that are clients already are no more by joining again. */
	ASSERT_EQ(0, t_try_join_session(b));
	/* Living ones */
	t_kill(b);
	ASSERT_EQ(0, t_try_join_session(c));
	t_close(c);
	t_close(a);
	t_no_leaks();
}

TEST(streams)
{
	struct cl *a = domain_of(CAPKM_LIMIT_STREAMS, 2), *b = t_client();
	u_int64_t s = t_stream(a);

	t_stream(a);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_STREAMS, stream(a));
	ASSERT_EQ(0, attach(b, a->domain));
	t_stream(b);
	t_destroy_stream(a, s);
	ASSERT_GT(t_stream(a), s);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_STREAMS, stream(a));
	t_close(b);
	t_close(a);
	t_no_leaks();
}

TEST(buffers)
{
	struct cl *a = domain_of(CAPKM_LIMIT_BUFFERS, 2), *b = t_client();
	u_int64_t x = t_buffer(a, 10), y;

	ASSERT_EQ(0, attach(b, a->domain));
	y = t_shared(b, 10);
	t_buffer(a, 10);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_BUFFERS, buffer(a));
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_BUFFERS, open_buffer(a, y));
	ASSERT_EQ(0, t_drop(a, x));
	t_open(a, y);
	/* A second reference is no second buffer. */
	t_open(a, y);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_BUFFERS, buffer(a));
	t_close(b);
	t_close(a);
	t_no_leaks();
}

TEST(scopes)
{
	struct cl *a = domain_of(CAPKM_LIMIT_SCOPES, 2);
	u_int64_t s = t_enter(a, 1, NO_CLAIMS, NO_CLAIMS);

	t_enter(a, 2, NO_CLAIMS, NO_CLAIMS);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_SCOPES, enter(a, 3, NULL, 0));
	t_exit(a, s);
	t_enter(a, 3, NO_CLAIMS, NO_CLAIMS);
	t_close(a);
	t_no_leaks();
}

TEST(windows)
{
	struct cl *a = domain_of(CAPKM_LIMIT_WINDOWS, 2), *b = t_client();
	u_int64_t w = t_record(a, 1);

	t_end(a, 1);
	t_prepare(a, 1);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_WINDOWS, t_try_prepare(a, 2).rc);
	ASSERT_EQ(0, attach(b, a->domain));
	t_prepare(b, 1);
	t_seal(a, w);
	t_prepare(a, 2);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_WINDOWS, t_try_prepare(a, 3).rc);
	t_close(b);
	t_close(a);
	t_no_leaks();
}

TEST(graphs)
{
	struct cl *a = domain_of(CAPKM_LIMIT_GRAPHS, 1);
	u_int64_t g = t_graph(a, 1, NO_CLAIMS, NO_CLAIMS), w = t_record(a, 1), g2;

	t_end(a, 1);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_GRAPHS, t_try_seal(a, w, 0).rc);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t_window(a, w).q.out_state);
	ASSERT_EQ(0, t_destroy(a, g));
	g2 = t_seal(a, w);
	ASSERT_NE(g, g2);
	/* An update makes no other graph. */
	w = t_record(a, 1);
	t_end(a, 1);
	t_update(a, g2, w);
	t_close(a);
	t_no_leaks();
}

TEST(devices)
{
	struct cl *a = domain_of(CAPKM_LIMIT_DEVICES, 1);
	u_int64_t w, g = t_graph(a, 1, NO_CLAIMS, NO_CLAIMS);

	w = t_record(a, 1);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_DEVICES, enter(a, GPU, NULL, 0));
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_DEVICES, t_try_prepare(a, GPU).rc);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_DEVICES, t_try_join(a, w, GPU, 0).rc);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_DEVICES, t_try_replay(a, g, GPU).rc);
	/* STREAM_FAULT has no out_limit: it can be nothing else. */
	t_write(a, 2, NO_CLAIMS);
	ASSERT_EQ(0, t_confirm_to(a, GPU, 0));
	t_close(a);
	t_no_leaks();
}

/* A failing call uses none of them up. */
TEST(devices_of_failing_calls)
{
	struct cl *a = domain_of(CAPKM_LIMIT_DEVICES, 2);
	u_int64_t x = t_buffer(a, 10);

	t_write(a, 1, C({ x, 0, 10 }));
	for (int i = 2; i < 9; i++)
		T_REFUSED(a, -EINVAL, enter(a, T_GPU(i), C({ x, 0, 11 })));
	t_write(a, GPU, C({ x, 0, 10 }));
	t_close(a);
	t_no_leaks();
}

/* ------------------------------------------------------------ of a window */

TEST(claims)
{
	struct cl *a = domain_of(CAPKM_LIMIT_CLAIMS, 3);
	u_int64_t x = t_buffer(a, 100), w = t_record(a, 1), c;
	const struct capkm_claim four[] = {
		{ x, 0, 1 }, { x, 2, 3 }, { x, 4, 5 }, { x, 6, 7 },
	};

	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_CLAIMS, enter(a, 1, four, 4));
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_CLAIMS, t_try_record(a, w, 0, NULL, 0, four, 4));
	t_write(a, 1, four, 3);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_CLAIMS, enter(a, 1, &four[3], 1));
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_CLAIMS,
		 t_try_record(a, w, 0, NULL, 0, &four[3], 1));
	/* A child that the parent cannot take in */
	c = t_record_child(a, 2, w);
	t_write(a, 2, &four[3], 1);
	t_end(a, 2);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_CLAIMS, t_try_seal(a, c, 0).rc);
	t_refuse(a, c, "too many");
	t_abort(a, 1);
	/* Outside of windows there is no such limit. */
	t_write(a, 1, four, 4);
	t_close(a);
	t_no_leaks();
}

TEST(retained)
{
	struct cl *a = domain_of(CAPKM_LIMIT_RETAINED, 1);
	u_int64_t w = t_record(a, 1);

	ASSERT_EQ(0, t_retain(a, w, 0x1000, 10, CAPKM_RETAIN_READ));
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_RETAINED,
		 t_retain(a, w, 0x2000, 10, CAPKM_RETAIN_READ));
	w = t_record(a, 2);
	ASSERT_EQ(0, t_retain(a, w, 0x2000, 10, CAPKM_RETAIN_READ));
	t_close(a);
	t_no_leaks();
}

TEST(members)
{
	struct cl *a = domain_of(CAPKM_LIMIT_MEMBERS, 1);
	u_int64_t w = t_record(a, 1);

	t_join(a, w, 2);
	AT_LIMIT(a, -EDQUOT, CAPKM_LIMIT_MEMBERS, t_try_join(a, w, 3, 0).rc);
	t_join(a, w, 2);
	t_join(a, w, 1);
	t_destroy_stream(a, 2);
	t_join(a, w, 3);
	t_close(a);
	t_no_leaks();
}

/* What is 0 allows nothing, and breaks nothing. */
TEST(nothing_allowed)
{
	for (unsigned int l = CAPKM_LIMIT_CLIENTS; l < CAPKM_LIMITS; l++) {
		struct cl *a = t_process();
		u_int64_t x, w;
		int rc;

		t_domain_limit(a, l, 0);
		if (!buffer(a)) {
			x = t_shared(a, 100);
			if (!enter(a, 1, C({ x, 0, 10 })))
				t_check(a, C({ x, 0, 10 }));
			for (int i = 0; i < 3; i++) {
				struct t_enter e = t_try_enter(a, 2, 0, NULL, NO_CLAIMS,
							       C({ x, 20, 30 + i }));

				if (!e.rc)
					t_exit_failed(a, e.scope, "x");
				e = t_try_enter(a, 2, 0, NULL, NO_CLAIMS,
						C({ x, 40 + i, 50 }));
				if (!e.rc)
					t_exit_enqueued(a, e.scope);
			}
			t_written(a, C({ x, 20, 60 }));
			rc = t_try_fault(a, GPU | 1);
			if (rc && rc != -EDQUOT)
				t_die("limit %u: STREAM_FAULT: %d", l, rc);
		}
		if (!t_try_prepare(a, 3).rc) {
			w = t_begin(a, 3);
			t_try_join(a, w, 4, 0);
			t_retain(a, w, 0x1000, 1, 0);
			t_end(a, 3);
			t_try_seal(a, w, 0);
		}
		stream(a);
		t_kill(a);
	}
	t_no_leaks();
}

TEST_HARNESS_MAIN
