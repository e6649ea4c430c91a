// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains, sessions and clients: who gets in, who may do what, and what is left
 * when a client dies.
 */
#include "capkm_test.h"

static u_int64_t tests;

/* A name that no other test and no other run uses. */
static const char *new_name(void)
{
	static char name[48];

	snprintf(name, sizeof(name), "selftest-%d-%" PRIu64, getpid(), ++tests);
	return name;
}

static int create(struct cl *cl, const char *name, unsigned int flags, unsigned int mode)
{
	struct capkm_domain_create a = {
		.flags = flags, .mode = mode, .name_uptr = t_ptr(name),
		.name_len = name ? strlen(name) : 0,
	};
	int rc = t_call(cl, CAPKM_NR_DOMAIN_CREATE, &a);

	if (!rc) {
		cl->domain = a.out_domain;
		cl->session = a.out_session;
	}
	return rc;
}

static int attach(struct cl *cl, u_int64_t domain, const char *name, int owner)
{
	struct capkm_domain_attach a = {
		.domain = domain, .name_uptr = t_ptr(name),
		.name_len = name ? strlen(name) : 0,
		.flags = owner >= 0 ? CAPKM_DOMAIN_ATTACH_F_OWNER : 0,
		.owner_uid = owner >= 0 ? owner : 0,
	};
	int rc = t_call(cl, CAPKM_NR_DOMAIN_ATTACH, &a);

	if (!rc) {
		cl->domain = a.out_domain;
		cl->session = a.out_session;
	}
	return rc;
}

static int destroy(struct cl *cl, u_int64_t domain, unsigned int flags)
{
	struct capkm_domain_destroy a = { .domain = domain, .flags = flags };

	return t_call(cl, CAPKM_NR_DOMAIN_DESTROY, &a);
}

/* INFO needs no domain. */
TEST(info)
{
	struct cl *a = t_client();
	struct capkm_info i = { 0 };

	T_OK(a, INFO, &i);
	ASSERT_EQ(CAPKM_ABI_VERSION, i.out_abi_version);
	ASSERT_LE(i.out_abi_oldest, i.out_abi_version);
	ASSERT_EQ(t_embedded() ? 0 : CAPKM_FEATURE_AUTHORITY,
		  i.out_features & CAPKM_FEATURE_AUTHORITY);
	ASSERT_GT(i.out_claims_max, 0);
	ASSERT_LE(i.out_claims_max, CAPKM_CLAIMS_MAX);
	ASSERT_GE(i.out_streams_max, 32);
	ASSERT_NE(NULL, memchr(i.out_version, 0, sizeof(i.out_version)));
	ASSERT_NE(0, i.out_version[0]);
	t_close(a);
}

TEST(domain_create)
{
	struct cl *a = t_client(), *b = t_client();
	const char *name = new_name();
	struct capkm_domain_query q;

	ASSERT_EQ(0, create(a, name, 0, 0));
	ASSERT_NE(0, a->domain);
	ASSERT_NE(0, a->session);
	q = t_domain_query(a);
	ASSERT_EQ(a->domain, q.out_domain);
	ASSERT_EQ(a->session, q.out_session);
	ASSERT_EQ(0, q.out_state);
	ASSERT_EQ(0600, q.out_mode);
	ASSERT_EQ(geteuid(), q.out_uid);
	ASSERT_EQ(getegid(), q.out_gid);
	ASSERT_EQ(CAPKM_RIGHT_READ | CAPKM_RIGHT_WRITE, q.out_rights);
	ASSERT_EQ(1, q.out_sessions);
	ASSERT_EQ(0, q.out_buffers + q.out_streams + q.out_scopes + q.out_windows +
		  q.out_orphans + q.out_graphs + q.out_failures + q.out_claims +
		  q.out_reports + q.out_history);
	ASSERT_NE(0, q.out_created_ns);
	ASSERT_EQ(0, q.out_defunct_ns);
	ASSERT_STREQ(name, (char *)q.out_name);
	/* A session is attached for life. */
	T_REFUSED(a, -EISCONN, create(a, NULL, 0, 0));
	T_REFUSED(a, -EISCONN, attach(a, a->domain, NULL, -1));
	/* A name is unique for its user. */
	T_REFUSED(a, -EEXIST, create(b, name, 0, 0));
	ASSERT_EQ(0, create(b, NULL, 0, 0640));
	ASSERT_NE(a->domain, b->domain);
	ASSERT_NE(a->session, b->session);
	ASSERT_EQ(0640, t_domain_query(b).out_mode);
	ASSERT_STREQ("", (char *)t_domain_query(b).out_name);
	t_close(b);
	t_close(a);
	t_no_leaks();
}

TEST(domain_create_bad)
{
	struct cl *a = t_client();
	char name[CAPKM_NAME_MAX + 2];
	struct capkm_domain_create c = { .name_uptr = t_ptr(name) };

	memset(name, 'x', sizeof(name));
	c.name_len = CAPKM_NAME_MAX + 1;
	ASSERT_EQ(-EMSGSIZE, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.name_len = 3;
	for (const char *bad = "/\n\t\1\x7f"; *bad; bad++) {
		name[1] = *bad;
		ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	}
	name[1] = 0;
	ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	name[1] = 'x';
	c.name_uptr = 0;
	ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.name_len = 0;
	c.mode = 01000;
	ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.mode = 0700;
	ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.mode = 0;
	c.max_streams = 1u << 31;
	ASSERT_EQ(-EINVAL, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.max_streams = 0;
	c.backend = 3;
	ASSERT_EQ(-EOPNOTSUPP, t_call(a, CAPKM_NR_DOMAIN_CREATE, &c));
	c.backend = 0;
	/* It is not attached by all that. */
	ASSERT_EQ(0, create(a, NULL, 0, 0));
	t_close(a);
}

TEST(domain_attach)
{
	struct cl *a = t_client(), *b = t_client(), *c = t_client(), *d = t_client();
	char name[48];
	struct capkm_domain_attach x = { 0 };

	strcpy(name, new_name());
	ASSERT_EQ(0, create(a, name, 0, 0));
	T_REFUSED(a, -ENOENT, attach(b, 1ull << 60, NULL, -1));
	T_REFUSED(a, -ENOENT, attach(b, 0, "no such domain", -1));
	T_REFUSED(a, -ENOENT, attach(b, 0, name, 54321));
	/* Neither id nor name; both. */
	T_REFUSED(a, -EINVAL, attach(b, 0, NULL, -1));
	T_REFUSED(a, -EINVAL, attach(b, a->domain, name, -1));
	/* An id needs no owner. */
	T_REFUSED(a, -EINVAL, attach(b, a->domain, NULL, geteuid()));
	x.domain = a->domain;
	x.owner_uid = 1;
	T_REFUSED(a, -EINVAL, t_call(b, CAPKM_NR_DOMAIN_ATTACH, &x));
	ASSERT_EQ(0, attach(b, a->domain, NULL, -1));
	ASSERT_EQ(0, attach(c, 0, name, -1));
	ASSERT_EQ(0, attach(d, 0, name, geteuid()));
	ASSERT_EQ(a->domain, b->domain);
	ASSERT_EQ(a->domain, c->domain);
	ASSERT_EQ(a->domain, d->domain);
	ASSERT_NE(b->session, c->session);
	ASSERT_EQ(4, t_domain_query(a).out_sessions);
	ASSERT_EQ(d->session, t_domain_query(d).out_session);
	t_close(d);
	ASSERT_EQ(3, t_domain_query(a).out_sessions);
	t_close(c);
	t_close(b);
	t_close(a);
	/* Nobody is in it: it is gone, and its name is free. */
	a = t_client();
	ASSERT_EQ(-ENOENT, attach(a, 0, name, -1));
	ASSERT_EQ(0, create(a, name, 0, 0));
	t_close(a);
	t_no_leaks();
}

/* Stream ids: from 2^32 up, never reused, their session's own */
TEST(streams)
{
	struct cl *a = t_client(), *b = t_client();
	u_int64_t s[3], w;

	t_domain(a);
	t_attach(b, a->domain);
	for (int i = 0; i < 3; i++)
		s[i] = t_stream(i == 1 ? b : a);
	ASSERT_GE(s[0], CAPKM_STREAM_FIRST);
	ASSERT_GT(s[1], s[0]);
	ASSERT_GT(s[2], s[1]);
	ASSERT_EQ(3, t_domain_query(a).out_streams);
	ASSERT_EQ(s[0] % 32, t_slot(a, s[0]).out_slot);
	/* A session uses its own ids, and small ones. */
	T_REFUSED(a, -EPERM, t_try_prepare(b, s[0]).rc);
	T_REFUSED(a, -EPERM, t_try_enter(b, s[0], 0, NULL, NO_CLAIMS, NO_CLAIMS).rc);
	w = t_prepare(a, s[0]);
	ASSERT_EQ(s[0], t_window(a, w).q.out_owner);
	/* The same small number of two sessions is two streams on two slots. */
	t_prepare(a, 5);
	t_prepare(b, 5);
	t_close(b);
	/* The ids of an ended session are nobody's. */
	T_REFUSED(a, -ENOENT, t_try_prepare(a, s[1]).rc);
	ASSERT_GT(t_stream(a), s[2]);
	t_close(a);
}

/* Export, open, close, holders */
TEST(sharing)
{
	struct cl *a = t_client(), *b = t_process();
	struct capkm_buffer_create n = {
		.bytes = 64, .device = { 9, 8 }, .address = 0x7f0000001000,
		.label_uptr = t_ptr("weights"), .label_len = 7,
	};
	struct capkm_buffer_export e = { 0 };
	struct capkm_buffer_open o = { 0 };
	struct t_buffer q;

	t_domain(a);
	t_attach(b, a->domain);
	T_OK(a, BUFFER_CREATE, &n);
	q = t_buffer_query(a, n.out_buffer);
	ASSERT_EQ(64, q.q.out_bytes);
	ASSERT_EQ(0, memcmp(q.q.out_device, n.device, 16));
	ASSERT_EQ(0x7f0000001000, q.q.out_address);
	ASSERT_EQ(n.out_sequence, q.q.out_sequence);
	ASSERT_EQ(0, q.q.out_claims);
	ASSERT_EQ(0, q.q.out_failures);
	ASSERT_EQ(a->session, q.q.out_session);
	ASSERT_EQ(0, q.q.out_state);
	ASSERT_EQ(1, q.q.out_holders);
	ASSERT_EQ(0, q.q.out_uses);
	ASSERT_STREQ("weights", (char *)q.q.out_label);

	/* Not exported: its session's own. */
	o.buffer = n.out_buffer;
	T_REFUSED(a, -EACCES, t_call(b, CAPKM_NR_BUFFER_OPEN, &o));
	e.buffer = n.out_buffer;
	T_REFUSED(a, -ENOENT, t_call(b, CAPKM_NR_BUFFER_EXPORT, &e));
	T_OK(a, BUFFER_EXPORT, &e);
	T_REFUSED(a, 0, t_call(a, CAPKM_NR_BUFFER_EXPORT, &e));
	ASSERT_EQ(CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED,
		  t_buffer_query(a, n.out_buffer).q.out_state);
	/* Who does not hold it cannot use it. */
	T_REFUSED(a, -ENOENT, t_reset(b, n.out_buffer, 0, 64));
	T_REFUSED(a, -ENOENT, t_drop(b, n.out_buffer));
	ASSERT_EQ(-ENOENT, t_try_enter(b, 1, 0, NULL, C({ n.out_buffer, 0, 1 }),
				       NO_CLAIMS).rc);
	T_OK(b, BUFFER_OPEN, &o);
	ASSERT_EQ(64, o.out_bytes);
	ASSERT_EQ(t_buffer_query(a, n.out_buffer).q.out_sequence, o.out_sequence);
	ASSERT_EQ(2, t_buffer_query(a, n.out_buffer).q.out_holders);
	/* One reference more, and given back. */
	T_OK(b, BUFFER_OPEN, &o);
	ASSERT_EQ(0, t_drop(b, n.out_buffer));
	t_write(b, 1, C({ n.out_buffer, 0, 64 }));
	t_fail(a, 1, C({ n.out_buffer, 0, 8 }), "x");
	t_is_tainted(b, n.out_buffer, 0, 64, CAPKM_KIND_LAUNCH);
	/* The creator goes, the buffer stays with its taint. */
	ASSERT_EQ(0, t_drop(a, n.out_buffer));
	T_REFUSED(a, -ENOENT, t_drop(a, n.out_buffer));
	t_is_tainted(b, n.out_buffer, 0, 64, CAPKM_KIND_LAUNCH);
	ASSERT_EQ(1, t_failures(a));
	ASSERT_EQ(0, t_drop(b, n.out_buffer));
	ASSERT_EQ(0, t_failures(a));
	ASSERT_EQ(0, t_domain_query(a).out_buffers);
	T_REFUSED(a, -ENOENT, t_call(b, CAPKM_NR_BUFFER_OPEN, &o));
	/* Ids are never reused. */
	ASSERT_GT(t_buffer(a, 1), n.out_buffer);
	t_close(b);
	t_close(a);
}

/* An open reference of each session, not of each open, ends with the session. */
TEST(references_end_with_session)
{
	struct cl *a = t_client(), *b = t_client();
	u_int64_t x;

	t_domain(a);
	t_attach(b, a->domain);
	x = t_shared(a, 10);
	t_open(b, x);
	t_open(b, x);
	t_buffer(b, 10);
	ASSERT_EQ(2, t_domain_query(a).out_buffers);
	t_close(b);
	ASSERT_EQ(1, t_domain_query(a).out_buffers);
	ASSERT_EQ(1, t_buffer_query(a, x).q.out_holders);
	t_close(a);
	t_no_leaks();
}

/* A scope, window or graph of one client is not the other's. */
TEST(not_yours)
{
	struct cl *a = t_client(), *b = t_process();
	u_int64_t x, s, w;
	struct capkm_scope_exit e = { 0 };
	struct capkm_window_refuse r = { 0 };

	t_domain(a);
	t_attach(b, a->domain);
	x = t_shared(a, 10);
	t_open(b, x);
	s = t_enter(a, 1, NO_CLAIMS, C({ x, 0, 10 }));
	e.scope = s;
	T_REFUSED(a, -EPERM, t_call(b, CAPKM_NR_SCOPE_EXIT, &e));
	ASSERT_EQ(0, t_exit(a, s));
	w = t_record(a, 1);
	/* b has a slot 1 of its own. */
	T_REFUSED(a, -EINVAL, t_try_end(b, 1, 0).rc);
	ASSERT_EQ(0, t_abort(b, 1));
	t_end(a, 1);
	r.window = w;
	T_REFUSED(a, -EPERM, t_call(b, CAPKM_NR_WINDOW_REFUSE, &r));
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t_window(b, w).q.out_state);
	t_close(b);
	t_seal(a, w);
	t_close(a);
}

/* --------------------------------------------------------------- death */

static void names(struct __test_metadata *_metadata, const struct capkm_report *r,
		  u_int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	ASSERT_NE(NULL, strstr((char *)r->text, text)) {
		TH_LOG("\"%s\" does not name %s", r->text, text);
	}
}

FIXTURE(death)
{
	struct cl *a, *b;	/* the survivor, and who dies */
	u_int64_t x, y;		/* both hold them */
	int pid;
};

FIXTURE_SETUP(death)
{
	self->b = t_process();
	self->a = t_client();
	t_domain(self->a);
	t_attach(self->b, self->a->domain);
	self->x = t_shared(self->a, 100);
	self->y = t_shared(self->a, 100);
	t_open(self->b, self->x);
	t_open(self->b, self->y);
	self->pid = t_pid(self->b);
}

FIXTURE_TEARDOWN(death)
{
	if (self->b)
		t_close(self->b);
	t_close(self->a);
	t_no_leaks();
}

static void kill_b(struct cl **b)
{
	t_kill(*b);
	*b = NULL;
}

/* SC-15 architecture 5.1: each open scope is torn, in one tick */
TEST_F(death, scopes)
{
	u_int64_t s, t, old;
	struct capkm_report r, q;

	old = t_fail(self->a, 1, C({ self->x, 0, 100 }), "old");
	s = t_enter(self->b, 4711, NO_CLAIMS, C({ self->x, 0, 50 }));
	t = t_enter(self->b, 4712, NO_CLAIMS, C({ self->x, 40, 60 }, { self->y, 0, 10 }));
	kill_b(&self->b);
	r = t_is_tainted(self->a, self->x, 0, 40, CAPKM_KIND_TORN_DOWN);
	ASSERT_NE(NULL, strstr((char *)r.text, "torn down"));
	ASSERT_NE(NULL, strstr((char *)r.text, (char *)r.comm));
	names(_metadata, &r, self->pid);
	names(_metadata, &r, 4711);
	names(_metadata, &r, s);
	ASSERT_EQ(s, r.scope);
	ASSERT_EQ(4711, r.stream);
	q = t_is_tainted(self->a, self->x, 50, 60, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(t, q.scope);
	ASSERT_EQ(r.sequence, q.sequence);
	names(_metadata, &q, 4712);
	/* Both at once: the smaller id is named. */
	ASSERT_EQ(r.failure < q.failure ? r.failure : q.failure,
		  t_is_tainted(self->a, self->x, 40, 50, CAPKM_KIND_TORN_DOWN).failure);
	t_is_failed(self->a, self->y, 0, 100, q.failure);
	t_is_failed(self->a, self->x, 60, 100, old);
	ASSERT_EQ(3, t_failures(self->a));
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	ASSERT_EQ(1, t_domain_query(self->a).out_sessions);
	t_write(self->a, 1, C({ self->x, 0, 100 }, { self->y, 0, 100 }));
	ASSERT_EQ(0, t_failures(self->a));
}

/* A scope that entered before the death and goes well after it clears nothing. */
TEST_F(death, overlapping_scope_of_survivor)
{
	u_int64_t s, t;
	struct capkm_report r;

	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->x, 0, 50 }));
	t = t_enter(self->b, 1, NO_CLAIMS, C({ self->x, 25, 75 }));
	kill_b(&self->b);
	t_is_open(self->a, self->x, 0, 50, s);
	ASSERT_EQ(0, t_exit(self->a, s));
	t_is_clean(self->a, self->x, 0, 25);
	r = t_is_tainted(self->a, self->x, 0, 100, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(25, r.start);
	ASSERT_EQ(75, r.end);
	ASSERT_EQ(t, r.scope);
}

/* The scope's label goes with it. */
TEST_F(death, label)
{
	struct t_enter e = t_try_enter(self->b, 1, 0, "flash_attention", NO_CLAIMS,
				       C({ self->x, 0, 10 }));

	ASSERT_EQ(0, e.rc);
	kill_b(&self->b);
	ASSERT_STREQ("flash_attention",
		     (char *)t_is_tainted(self->a, self->x, 0, 10,
					  CAPKM_KIND_TORN_DOWN).label);
}

/* Architecture 5.2: windows are orphaned, still there, and occupy nobody's slot */
TEST_F(death, windows)
{
	u_int64_t prepared, recording, closing;
	struct capkm_domain_query d;
	struct t_window q;

	prepared = t_prepare_cookie(self->b, 1, 11);
	recording = t_record(self->b, 2);
	t_write(self->b, 2, C({ self->x, 0, 10 }));
	ASSERT_EQ(0, t_retain(self->b, recording, 0x1000, 100, 0));
	closing = t_record(self->b, 3);
	t_write(self->b, 3, C({ self->x, 20, 30 }));
	t_end(self->b, 3);
	kill_b(&self->b);

	d = t_domain_query(self->a);
	ASSERT_EQ(2, d.out_windows);
	ASSERT_EQ(2, d.out_orphans);
	q = t_window(self->a, prepared);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, q.q.out_state);
	ASSERT_EQ(1, q.q.out_owner);
	ASSERT_EQ(11, q.q.out_cookie);
	ASSERT_EQ(1, q.q.out_doomed);
	q = t_window(self->a, recording);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, q.q.out_state);
	ASSERT_EQ(2, q.q.out_owner);
	ASSERT_EQ(1, q.q.out_recorded);
	ASSERT_EQ(10, q.q.out_bytes);
	ASSERT_EQ(0, q.q.out_retained);
	ASSERT_EQ(1, q.q.out_doomed);
	ASSERT_EQ(CAPKM_KIND_OWNER_DIED, q.r[0].kind);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_OWNER_DIED);
	q = t_window(self->a, closing);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, q.q.out_state);
	t_is_tainted(self->a, self->x, 20, 30, CAPKM_KIND_OWNER_DIED);
	t_is_clean(self->a, self->x, 10, 20);
	/* Nobody can go on with it, the owner may put an end to it. */
	T_REFUSED(self->a, -EPERM, t_try_seal(self->a, recording, 0).rc);
	ASSERT_EQ(0, t_abandon(self->a, recording));
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, recording).q.out_state);
	ASSERT_EQ(0, t_abandon(self->a, prepared));
	ASSERT_EQ(0, t_domain_query(self->a).out_windows);
	ASSERT_EQ(0, t_domain_query(self->a).out_orphans);
	ASSERT_EQ(3, t_domain_query(self->a).out_history);
	/* What it recorded stays tainted as it was. */
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_OWNER_DIED);
	t_write(self->a, 1, C({ self->x, 0, 100 }));
	ASSERT_EQ(0, t_failures(self->a));
}

/* What doomed it before stays its first failure. */
TEST_F(death, doomed_window)
{
	u_int64_t w = t_record(self->b, 2);
	struct t_window q;

	t_window_fail(self->b, w, 2, 900, "first", NULL);
	kill_b(&self->b);
	q = t_window(self->a, w);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, q.q.out_state);
	ASSERT_EQ(900, q.r[0].code);
}

/* Its open scope inside a window: torn, not recorded. */
TEST_F(death, scope_in_window)
{
	u_int64_t w = t_record(self->b, 2), s;

	t_write(self->b, 2, C({ self->x, 0, 50 }));
	s = t_enter(self->b, 2, NO_CLAIMS, C({ self->x, 25, 75 }));
	kill_b(&self->b);
	t_is_tainted(self->a, self->x, 0, 25, CAPKM_KIND_OWNER_DIED);
	ASSERT_EQ(s, t_is_tainted(self->a, self->x, 25, 75, CAPKM_KIND_TORN_DOWN).scope);
	t_is_clean(self->a, self->x, 75, 100);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(0, t_abandon(self->a, w));
}

/* Refusal by death follows the rule of overlap. */
TEST_F(death, refusal_and_later_writes)
{
	u_int64_t f;

	t_record(self->b, 2);
	t_write(self->b, 2, C({ self->x, 0, 100 }));
	t_write(self->a, 1, C({ self->x, 0, 10 }));
	f = t_fail(self->a, 1, C({ self->x, 20, 30 }), "later");
	kill_b(&self->b);
	t_is_clean(self->a, self->x, 0, 10);
	t_is_tainted(self->a, self->x, 10, 20, CAPKM_KIND_OWNER_DIED);
	t_is_failed(self->a, self->x, 20, 30, f);
}

/* Architecture 5.3: an open replay is torn, then the graphs go */
TEST_F(death, replay)
{
	u_int64_t g, h, w;
	struct capkm_report r;
	struct capkm_graph_query q = { 0 };

	w = t_record(self->b, 2);
	t_write(self->b, 2, C({ self->x, 0, 50 }));
	ASSERT_EQ(0, t_try_record(self->b, w, CAPKM_WINDOW_RECORD_F_SEEN, NO_CLAIMS,
				  C({ self->y, 0, 10 })));
	t_end(self->b, 2);
	g = t_seal(self->b, w);
	h = t_graph(self->b, 3, NO_CLAIMS, C({ self->y, 50, 100 }));
	t_replay_begin(self->b, g, 2);
	kill_b(&self->b);
	r = t_is_tainted(self->a, self->x, 0, 100, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(0, r.start);
	ASSERT_EQ(50, r.end);
	ASSERT_EQ(g, r.graph);
	ASSERT_NE(NULL, strstr((char *)r.text, "torn down"));
	names(_metadata, &r, self->pid);
	/* What it was seen to be given as well. */
	t_is_failed(self->a, self->y, 0, 50, r.failure);
	t_is_clean(self->a, self->y, 50, 100);
	ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
	q.graph = h;
	ASSERT_EQ(-ENOENT, t_call(self->a, CAPKM_NR_GRAPH_QUERY, &q));
	ASSERT_EQ(0, t_buffer_query(self->a, self->x).q.out_uses);
	ASSERT_EQ(0, t_buffer_query(self->a, self->y).q.out_uses);
}

/* Architecture 5.5: its references; a buffer that nobody holds is destroyed */
TEST_F(death, buffers)
{
	u_int64_t mine = t_buffer(self->b, 10), f;

	f = t_fail(self->b, 1, C({ mine, 0, 10 }), "private");
	ASSERT_EQ(1, t_failures(self->a));
	kill_b(&self->b);
	ASSERT_EQ(2, t_domain_query(self->a).out_buffers);
	ASSERT_EQ(0, t_failures(self->a));
	ASSERT_EQ(0, t_domain_query(self->a).out_claims);
	/* The failure is kept as text: a report without carriers. */
	ASSERT_EQ(1, t_domain_query(self->a).out_reports);
	ASSERT_STREQ("private", (char *)t_failure(self->a, f, 0).r.text);
	ASSERT_EQ(0, t_failure(self->a, f, 0).q.out_carriers);
	/* It is no node: it cannot be given to bytes. */
	ASSERT_EQ(-ENOENT, t_try_taint(self->a, C({ self->x, 0, 1 }), f, NULL, &f));
}

/* What only an orphan recorded nobody can claim any more. */
TEST_F(death, orphan_of_hidden_buffer)
{
	u_int64_t mine = t_shared(self->b, 10), w;
	struct capkm_buffer_open o = { .buffer = mine };

	w = t_record(self->b, 2);
	t_write(self->b, 2, C({ mine, 0, 10 }));
	kill_b(&self->b);
	ASSERT_EQ(-ENOENT, t_call(self->a, CAPKM_NR_BUFFER_OPEN, &o));
	ASSERT_EQ(1, t_window(self->a, w).q.out_recorded);
	ASSERT_EQ(0, t_abandon(self->a, w));
	ASSERT_EQ(2, t_domain_query(self->a).out_buffers);
	ASSERT_EQ(0, t_failures(self->a));
}

/* A handle that is closed in good order with nothing open leaves nothing. */
TEST_F(death, close_in_good_order)
{
	u_int64_t g = t_graph(self->b, 1, NO_CLAIMS, C({ self->x, 0, 10 }));

	t_replay(self->b, g, 1);
	t_write(self->b, 1, C({ self->x, 0, 100 }));
	t_close(self->b);
	self->b = NULL;
	t_no_ranges(self->a, self->x);
	ASSERT_EQ(0, t_failures(self->a));
	ASSERT_EQ(0, t_domain_query(self->a).out_reports);
}

/* --------------------------------------------------- the end of a domain */

TEST(domain_destroy)
{
	struct cl *a = t_client(), *b = t_process(), *c = t_client();
	char name[48];
	u_int64_t x, s;

	strcpy(name, new_name());
	ASSERT_EQ(0, create(a, name, 0, 0));
	t_attach(b, a->domain);
	x = t_shared(a, 10);
	t_open(b, x);
	s = t_enter(b, 1, NO_CLAIMS, C({ x, 0, 10 }));
	t_record(b, 2);
	T_REFUSED(a, -EBUSY, destroy(a, 0, 0));
	T_REFUSED(a, -EBUSY, destroy(a, a->domain, 0));
	T_REFUSED(a, -EBUSY, destroy(c, a->domain, 0));
	T_REFUSED(a, -ENOTCONN, destroy(c, 0, 0));
	ASSERT_EQ(-ENOENT, destroy(c, 1ull << 60, 0));
	/* Forced: later calls of everybody are ECANCELED, and its name is free. */
	ASSERT_EQ(0, destroy(c, a->domain, CAPKM_DOMAIN_DESTROY_F_FORCE));
	ASSERT_EQ(-ECANCELED, t_try_exit(b, s));
	ASSERT_EQ(-ECANCELED, t_drop(b, x));
	ASSERT_EQ(-ECANCELED, t_drop(a, x));
	ASSERT_EQ(-ECANCELED, t_try_prepare(a, 1).rc);
	ASSERT_EQ(0, create(c, name, 0, 0));
	t_close(a);
	t_kill(b);
	t_is_empty(c);
	t_close(c);
	t_no_leaks();
}

/* The last one may destroy it without force. */
TEST(domain_destroy_own)
{
	struct cl *a = t_client(), *b = t_client();
	u_int64_t d = t_domain(a);

	t_buffer(a, 10);
	ASSERT_EQ(0, destroy(a, 0, 0));
	ASSERT_EQ(-ECANCELED, t_try_prepare(a, 1).rc);
	ASSERT_EQ(-ENOENT, attach(b, d, NULL, -1));
	t_close(a);
	t_close(b);
	t_no_leaks();
}

/* A persistent domain lives without sessions. */
TEST(persistent)
{
	struct cl *a = t_client();
	char name[48];
	u_int64_t d, x;

	strcpy(name, new_name());
	ASSERT_EQ(0, create(a, name, CAPKM_DOMAIN_CREATE_F_PERSISTENT, 0));
	d = a->domain;
	ASSERT_EQ(CAPKM_DOMAIN_PERSISTENT, t_domain_query(a).out_state);
	x = t_buffer(a, 10);
	t_close(a);
	a = t_client();
	ASSERT_EQ(0, attach(a, 0, name, -1));
	ASSERT_EQ(d, a->domain);
	ASSERT_EQ(0, t_domain_query(a).out_buffers);
	/* Its counters go on. */
	ASSERT_GT(t_buffer(a, 10), x);
	t_close(a);
	a = t_client();
	ASSERT_EQ(0, destroy(a, d, 0));
	ASSERT_EQ(-ENOENT, attach(a, d, NULL, -1));
	t_close(a);
	t_no_leaks();
}

/* A domain that has something to report lingers, but takes nobody in. */
TEST(lingering)
{
	struct cl *b = t_process(), *a = t_client();
	char name[48];
	u_int64_t d;

	strcpy(name, new_name());
	ASSERT_EQ(0, create(b, name, 0, 0));
	d = b->domain;
	t_record(b, 1);
	t_kill(b);
	ASSERT_EQ(-ENOENT, attach(a, d, NULL, -1));
	ASSERT_EQ(-ENOENT, attach(a, 0, name, -1));
	/* Its owner can put an end to it; its name is free at once. */
	b = t_client();
	ASSERT_EQ(0, create(b, name, 0, 0));
	ASSERT_EQ(0, destroy(a, d, 0));
	ASSERT_EQ(-ENOENT, destroy(a, d, 0));
	t_close(a);
	t_close(b);
	t_no_leaks();
}

/* ------------------------------------------------------------- only here */

#define ONLY_KERNEL() do {						\
	if (t_embedded())						\
		SKIP(return, "needs processes and users");		\
} while (0)

static int become(struct capkm *c, void *arg)
{
	(void)c;
	/* Groups are those of root otherwise. */
	if (setgid(*(int *)arg) || setuid(*(int *)arg))
		return -errno;
	return 0;
}

/* Rights of the mode: r looks and opens, w does the rest. */
TEST(rights)
{
	struct cl *a, *b, *c;
	int nobody = 65534;
	u_int64_t x, w, g;
	struct capkm_domain_attach t = { 0 };

	ONLY_KERNEL();
	if (getuid())
		SKIP(return, "needs root");
	b = t_process();
	c = t_process();
	a = t_client();
	ASSERT_EQ(0, t_run(b, become, &nobody, sizeof(nobody)));
	ASSERT_EQ(0, t_run(c, become, &nobody, sizeof(nobody)));

	/* No right at all. */
	t_domain_mode(a, 0600);
	ASSERT_EQ(-ENOENT, attach(b, a->domain, NULL, -1));
	ASSERT_EQ(-ENOENT, destroy(b, a->domain, CAPKM_DOMAIN_DESTROY_F_FORCE));
	t_close(a);

	/* r */
	a = t_client();
	t_domain_mode(a, 0604);
	t.domain = a->domain;
	T_OK(b, DOMAIN_ATTACH, &t);
	ASSERT_EQ(CAPKM_RIGHT_READ, t.out_rights);
	b->session = t.out_session;
	x = t_shared(a, 10);
	t_fail(a, 1, C({ x, 0, 5 }), "x");
	w = t_record(a, 1);
	t_open(b, x);
	t_is_tainted(b, x, 0, 10, CAPKM_KIND_LAUNCH);
	ASSERT_EQ(w, t_window(b, w).q.out_window);
	T_REFUSED(a, -EACCES, t_reset(b, x, 0, 10));
	T_REFUSED(a, -EACCES, t_try_prepare(b, 1).rc);
	T_REFUSED(a, -EACCES, t_try_enter(b, 1, 0, NULL, NO_CLAIMS, C({ x, 0, 1 })).rc);
	{
		struct capkm_buffer_create n = { .bytes = 1 };
		struct capkm_stream_create s = { 0 };
		struct capkm_written v = { 0 };
		struct capkm_window_fail f = { .window = w, .kind = 1 };
		u_int64_t id;

		T_REFUSED(a, -EACCES, t_call(b, CAPKM_NR_BUFFER_CREATE, &n));
		T_REFUSED(a, -EACCES, t_call(b, CAPKM_NR_STREAM_CREATE, &s));
		T_REFUSED(a, -EACCES, t_call(b, CAPKM_NR_WRITTEN, &v));
		T_REFUSED(a, -EACCES, t_call(b, CAPKM_NR_WINDOW_FAIL, &f));
		T_REFUSED(a, -EACCES, t_try_taint(b, C({ x, 0, 1 }), 0, "x", &id));
	}
	T_REFUSED(a, -EACCES, t_abandon(b, w));
	T_REFUSED(a, -EPERM, destroy(b, 0, CAPKM_DOMAIN_DESTROY_F_FORCE));
	ASSERT_EQ(0, t_drop(b, x));
	t_close(a);

	/* rw, but not the owner */
	a = t_client();
	t_domain_mode(a, 0606);
	t_attach(c, a->domain);
	g = t_graph(a, 1, NO_CLAIMS, NO_CLAIMS);
	w = t_record(a, 1);
	t_prepare(c, 1);
	t_window_fail(c, w, 5, 1, NULL, NULL);
	ASSERT_EQ(65534, t_window(a, w).r[0].uid);
	T_REFUSED(a, -EPERM, t_abandon(c, w));
	T_REFUSED(a, -EPERM, destroy(c, 0, CAPKM_DOMAIN_DESTROY_F_FORCE));
	T_REFUSED(a, -EPERM, t_destroy(c, g));
	/* The owner abandons theirs. */
	ASSERT_EQ(0, t_abandon(a, t_slot(c, 1).out_window));
	t_close(c);
	t_close(b);
	t_close(a);
}

/* Names are of their user: nobody can squat a name of yours. */
TEST(names_of_users)
{
	struct cl *a, *b, *c;
	int nobody = 65534;
	char name[48];

	ONLY_KERNEL();
	if (getuid())
		SKIP(return, "needs root");
	b = t_process();
	a = t_client();
	c = t_client();
	strcpy(name, new_name());
	ASSERT_EQ(0, t_run(b, become, &nobody, sizeof(nobody)));
	ASSERT_EQ(0, create(b, name, 0, 0666));
	ASSERT_EQ(-ENOENT, attach(a, 0, name, -1));
	ASSERT_EQ(0, create(a, name, 0, 0));
	ASSERT_NE(a->domain, b->domain);
	ASSERT_EQ(0, attach(c, 0, name, nobody));
	ASSERT_EQ(b->domain, c->domain);
	t_close(c);
	t_close(b);
	t_close(a);
}

/* What a forked child does with an inherited descriptor, past the library. */
TEST(forked_child)
{
	struct cl *a;
	u_int64_t x, s, w;
	int status;

	ONLY_KERNEL();
	a = t_client();
	t_domain(a);
	x = t_buffer(a, 10);
	s = t_enter(a, 1, NO_CLAIMS, C({ x, 0, 10 }));
	w = t_record(a, 2);
	if (!fork()) {
		int fd = capkm_fd(a->c), bad = 0;
		struct capkm_scope_exit e = { .size = sizeof(e), .scope = s };
		struct capkm_window_prepare p = {
			.size = sizeof(p), .place.stream = 5,
		};
		struct capkm_written v = { .size = sizeof(v) };
		struct capkm_buffer_create n = { .size = sizeof(n), .bytes = 1 };
		struct capkm_window_abandon b = { .size = sizeof(b), .window = w };

		bad |= !(ioctl(fd, CAPKM_IOC_SCOPE_EXIT, &e) == -1 && errno == EPERM) << 0;
		bad |= !(ioctl(fd, CAPKM_IOC_WINDOW_PREPARE, &p) == -1 &&
			 errno == EPERM) << 1;
		bad |= !(ioctl(fd, CAPKM_IOC_WRITTEN, &v) == -1 && errno == EPERM) << 2;
		bad |= !(ioctl(fd, CAPKM_IOC_BUFFER_CREATE, &n) == -1 &&
			 errno == EPERM) << 3;
		bad |= !(ioctl(fd, CAPKM_IOC_WINDOW_ABANDON, &b) == -1 &&
			 errno == EPERM) << 4;
		/* and the library says it before the kernel does */
		e.size = sizeof(e);
		bad |= (capkm_call(a->c, CAPKM_NR_SCOPE_EXIT, &e) != -ECANCELED) << 5;
		_exit(bad);
	}
	wait(&status);
	ASSERT_EQ(0, WEXITSTATUS(status));
	ASSERT_TRUE(WIFEXITED(status));
	/* Its end was not ours. */
	t_is_open(a, x, 0, 10, s);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(a, w).q.out_state);
	ASSERT_EQ(0, t_exit(a, s));
	t_close(a);
}

static int change_nothing(struct cl *cl, u_int64_t x, u_int64_t s, u_int64_t w)
{
	struct capkm_buffer_create n = { .bytes = 1 };
	struct capkm_written v = { 0 };
	struct capkm_claim c = { x, 0, 1 };
	struct capkm_check k = { .claims_uptr = t_ptr(&c), .claims_len = 1 };
	u_int64_t f;

	/* It may look. */
	if (t_call(cl, CAPKM_NR_CHECK, &k))
		return 1;
	return t_try_exit(cl, s) != -EPERM ? 2 :
	       t_try_prepare(cl, 5).rc != -EPERM ? 3 :
	       t_try_enter(cl, 5, 0, NULL, NULL, 0, &c, 1).rc != -EPERM ? 4 :
	       t_try_taint(cl, &c, 1, 0, "x", &f) != -EPERM ? 5 :
	       t_call(cl, CAPKM_NR_WRITTEN, &v) != -EPERM ? 6 :
	       t_call(cl, CAPKM_NR_BUFFER_CREATE, &n) != -EPERM ? 7 :
	       t_reset(cl, x, 1, 2) != -EPERM ? 8 :
	       t_drop(cl, x) != -EPERM ? 9 :
	       t_abandon(cl, w) != -EPERM ? 10 : 0;
}

/* The same with a played process, which the library does not stop. */
TEST(not_a_client)
{
	struct cl *a = t_client();
	u_int64_t x, s, w;

	if (!t_embedded())
		SKIP(return, "plays a process; forked_child has a real one");
	t_domain(a);
	x = t_buffer(a, 10);
	s = t_enter(a, 1, NO_CLAIMS, C({ x, 0, 1 }));
	w = t_record(a, 2);
	a->played = 77;
	T_REFUSED(a, 0, change_nothing(a, x, s, w));
	/* Its end is not ours either. */
	capkm_test_die(a->c, 77);
	a->played = 0;
	t_is_open(a, x, 0, 1, s);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(a, w).q.out_state);
	ASSERT_EQ(0, t_exit(a, s));
	t_close(a);
	t_no_leaks();
}

/* A client that ended while its session lives on can do nothing any more. */
TEST(client_ended)
{
	struct cl *a = t_client();
	u_int64_t x, s;

	if (!t_embedded())
		SKIP(return, "plays the end of a process");
	a->played = 78;
	capkm_test_become(78);
	capkm_close(a->c);
	ASSERT_EQ(0, capkm_open(t_transport(), NULL, &a->c, NULL));
	capkm_test_become(0);
	t_domain(a);
	x = t_buffer(a, 10);
	s = t_enter(a, 1, NO_CLAIMS, C({ x, 0, 10 }));
	capkm_test_die(a->c, 78);
	T_REFUSED(a, -ECANCELED, t_try_exit(a, s));
	T_REFUSED(a, -ECANCELED, t_try_prepare(a, 1).rc);
	/* The session still holds what it held, and can be looked at. */
	t_is_tainted(a, x, 0, 10, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(1, t_domain_query(a).out_buffers);
	t_close(a);
	t_no_leaks();
}

/* The library refuses an inherited handle on every transport. */
TEST(forked_child_of_library)
{
	struct cl *a = t_client();
	int status;

	t_domain(a);
	if (!fork()) {
		struct capkm_domain_query q = { .size = sizeof(q) };
		int rc = capkm_call(a->c, CAPKM_NR_DOMAIN_QUERY, &q);

		capkm_close(a->c);
		_exit(rc != -ECANCELED);
	}
	wait(&status);
	ASSERT_EQ(0, status);
	ASSERT_EQ(1, t_domain_query(a).out_sessions);
	t_close(a);
}

/*
 * exec ends the client. Its descriptor is closed by it; where somebody has taken
 * close-on-exec off, that is seen when the descriptor is used or closed.
 */
static void exec(struct __test_metadata *_metadata, bool kept)
{
	int ready[2], go[2];
	u_int64_t d, x;
	struct cl *a, *b;
	char token;
	pid_t pid;

	a = t_client();
	d = t_domain(a);
	x = t_shared(a, 10);
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(go, O_CLOEXEC));
	pid = fork();
	if (!pid) {
		b = t_client();
		t_attach(b, d);
		t_open(b, x);
		t_enter(b, 1, NO_CLAIMS, C({ x, 0, 10 }));
		if (kept)
			fcntl(capkm_fd(b->c), F_SETFD, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(go[0], 0);
		execl("/bin/cat", "cat", NULL);
		_exit(1);
	}
	/* Its end of ready is closed by the exec. */
	close(ready[1]);
	ASSERT_EQ(0, read(ready[0], &token, 1));
	if (!kept) {
		t_is_tainted(a, x, 0, 10, CAPKM_KIND_TORN_DOWN);
		ASSERT_EQ(1, t_domain_query(a).out_sessions);
	}
	ASSERT_EQ(0, waitpid(pid, NULL, WNOHANG));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	t_is_tainted(a, x, 0, 10, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(1, t_domain_query(a).out_sessions);
	t_close(a);
}

TEST(exec_closes)
{
	ONLY_KERNEL();
	exec(_metadata, false);
}

TEST(exec_keeps)
{
	ONLY_KERNEL();
	exec(_metadata, true);
}

/* A descriptor that was passed on does not keep its client alive. */
TEST(descriptor_outlives_client)
{
	struct cl *a, *b;
	u_int64_t x;
	int fd, keep;
	char path[64];

	ONLY_KERNEL();
	b = t_process();
	a = t_client();
	t_domain(a);
	t_attach(b, a->domain);
	x = t_shared(a, 10);
	t_open(b, x);
	t_enter(b, 1, NO_CLAIMS, C({ x, 0, 10 }));
	/* Take its descriptor over: 4 is the first one after its socket. */
	snprintf(path, sizeof(path), "/proc/%d", t_pid(b));
	fd = -1;
#ifdef SYS_pidfd_getfd
	keep = syscall(SYS_pidfd_open, t_pid(b), 0);
	if (keep >= 0)
		fd = syscall(SYS_pidfd_getfd, keep, 4, 0);
	if (keep >= 0)
		close(keep);
#else
	(void)keep;
#endif
	if (fd < 0)
		SKIP(goto out, "no pidfd_getfd");
	t_kill(b);
	b = NULL;
	t_is_tainted(a, x, 0, 10, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(2, t_domain_query(a).out_sessions);
	close(fd);
	ASSERT_EQ(1, t_domain_query(a).out_sessions);
out:
	if (b)
		t_close(b);
	t_close(a);
}

TEST_HARNESS_MAIN
