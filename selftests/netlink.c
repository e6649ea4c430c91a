// SPDX-License-Identifier: GPL-2.0-only
/*
 * The generic netlink family, against what the calls of the ABI have made and say:
 * policies, each dump, dumps of what changes, who may see and do what, requests that
 * are wrong, domains and limits and faults from outside, events of all domains.
 */
#include "netlink.h"
#include "process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define GPU	T_GPU(1)
#define NOBODY	65534u
#define U64_MAX	(~(u_int64_t)0)

FIXTURE(netlink)
{
	struct nl nl;
	struct cl *a;		/* the domain's creator, this process */
	u_int64_t x;		/* everybody's buffer */
};

FIXTURE_SETUP(netlink)
{
	if (t_embedded())
		return;
	self->nl = nl_open();
	self->a = t_client();
	t_domain(self->a);
	self->x = t_shared(self->a, 1000);
}

FIXTURE_TEARDOWN(netlink)
{
	if (!self->a)
		return;
	nl_close(&self->nl);
	t_close(self->a);
}

/* A process with a session of its own in the domain, and the buffer. */
static struct cl *process(struct cl *a, u_int64_t x)
{
	struct cl *b = t_process();

	t_attach(b, a->domain);
	t_open(b, x);
	return b;
}

/* ------------------------------------------------------------------ dumps */

#define RECORDS 64

/* Up to 64 records of a dump, as copies. */
struct dump {
	struct nl_answer a;
	unsigned int n;
	struct nl_attrs r[RECORDS];
	char room[RECORDS][2048];
};

static void keep(void *ctx, const struct nl_attrs *attrs)
{
	struct dump *d = ctx;
	size_t used = 0;

	if (d->n == RECORDS)
		t_die("more than %u records", RECORDS);
	d->r[d->n].hops = attrs->hops;
	for (int i = 0; i < NL_ATTRS; i++) {
		const struct nlattr *a = attrs->a[i];

		if (!a)
			continue;
		if (used + a->nla_len > sizeof(d->room[0]))
			t_die("a record of more than %zu bytes", sizeof(d->room[0]));
		memcpy(d->room[d->n] + used, a, a->nla_len);
		d->r[d->n].a[i] = (void *)(d->room[d->n] + used);
		used += NLA_ALIGN(a->nla_len);
	}
	d->n++;
}

static struct dump *talk(struct nl *nl, struct nl_request rq)
{
	static struct dump dumps[4];
	static unsigned int next;
	struct dump *d = &dumps[next++ % ARRAY_SIZE(dumps)];

	memset(d, 0, sizeof(*d));
	d->a = nl_talk(nl, &rq, keep, d);
	return d;
}

/* A request with numbers of 64 or, negative here, of 32 bits: ATTRS(1, 2, -3, 4). */
struct pair {
	int attr;
	u_int64_t v;
};

#define U32(a) (-(int)(a))
#define WITH(...) (const struct pair[]){ __VA_ARGS__ }, \
	sizeof((const struct pair[]){ __VA_ARGS__ }) / sizeof(struct pair)

static struct nl_request request(struct nl *nl, unsigned int cmd, unsigned int flags,
				 const struct pair *p, size_t n)
{
	struct nl_request rq = nl_request(nl, cmd, flags);

	for (; n--; p++) {
		if (p->attr < 0)
			nl_put_u32(&rq, -p->attr, p->v);
		else
			nl_put_u64(&rq, p->attr, p->v);
	}
	return rq;
}

#define DUMP(nl, cmd, ...) talk(nl, request(nl, CAPKM_CMD_##cmd, NLM_F_DUMP, WITH(__VA_ARGS__)))
#define DO(nl, cmd, ...) talk(nl, request(nl, CAPKM_CMD_##cmd, NLM_F_ACK, WITH(__VA_ARGS__)))
#define GET(d, i, attr) nl_number(&(d)->r[i], CAPKM_A_##attr)
#define TEXT(d, i, attr) nl_text(&(d)->r[i], CAPKM_A_##attr)

/* The dump went well, and its records have these ids. */
#define IDS(d, attr, ...) do {						\
	const u_int64_t ids_[] = { __VA_ARGS__ };			\
									\
	ASSERT_EQ(0, (d)->a.err) {					\
		TH_LOG("%s", (d)->a.message);				\
	}								\
	ASSERT_EQ(ARRAY_SIZE(ids_), (d)->n);				\
	for (unsigned int i_ = 0; i_ < (d)->n; i_++)			\
		ASSERT_EQ(ids_[i_], GET(d, i_, attr));			\
} while (0)

#define NONE(d) do {							\
	ASSERT_EQ(0, (d)->a.err) {					\
		TH_LOG("%s", (d)->a.message);				\
	}								\
	ASSERT_EQ(0, (d)->n);						\
} while (0)

/* It is refused, with words that have @part. */
#define NO(d, rc, part) do {						\
	struct dump *d_ = d;						\
									\
	ASSERT_EQ(rc, d_->a.err) {					\
		TH_LOG("%s", d_->a.message);				\
	}								\
	ASSERT_EQ(0, d_->n);						\
	ASSERT_NE(NULL, strstr(d_->a.message, part)) {			\
		TH_LOG("no \"%s\" in: %s", part, d_->a.message);	\
	}								\
} while (0)

/* ------------------------------------------------------------------ policies */

struct policy {
	unsigned int cmd;
	bool dump;
	unsigned int attr, type;
	u_int64_t min, max;
	unsigned int min_len, max_len;
};

static const struct policy wanted[] = {
#include "netlink_policy.inc"
};

#define POLICIES 64

/* As the kernel says it: policies by number, and which an operation has. */
struct live {
	struct policy p[POLICIES][NL_ATTRS];
	int of[2][CAPKM_CMD_MAX + 1];	/* number plus 1 */
	unsigned int last;		/* operation that was told of */
};

static u_int64_t opt(const struct nl_attrs *attrs, unsigned int attr)
{
	return attrs->a[attr] ? nl_number(attrs, attr) : 0;
}

static void take_policy(struct live *live, const struct nlattr *nest)
{
	struct nl_attrs one;
	unsigned int policy = nest->nla_type & NLA_TYPE_MASK, attr;
	const struct nlattr *a = nl_data(nest);
	struct policy *p;

	attr = a->nla_type & NLA_TYPE_MASK;
	nl_nested(&one, a);
	if (policy >= POLICIES || attr >= NL_ATTRS)
		t_die("policy %u, attribute %u", policy, attr);
	p = &live->p[policy][attr];
	p->type = nl_number(&one, NL_POLICY_TYPE_ATTR_TYPE);
	p->min = opt(&one, NL_POLICY_TYPE_ATTR_MIN_VALUE_U) |
		 opt(&one, NL_POLICY_TYPE_ATTR_MIN_VALUE_S);
	p->max = opt(&one, NL_POLICY_TYPE_ATTR_MAX_VALUE_U) |
		 opt(&one, NL_POLICY_TYPE_ATTR_MAX_VALUE_S);
	p->min_len = opt(&one, NL_POLICY_TYPE_ATTR_MIN_LENGTH);
	p->max_len = opt(&one, NL_POLICY_TYPE_ATTR_MAX_LENGTH);
}

static void take_op(struct live *live, const struct nlattr *nest)
{
	unsigned int cmd = nest->nla_type & NLA_TYPE_MASK;
	struct nl_attrs one;

	nl_nested(&one, nest);
	/*
	 * They come in the order of the module's table. Newer kernels, such as 6.12, give
	 * 0 for one that is only a dump: the number of the doit that it has not. In our
	 * table each of those follows the one before it without a gap.
	 */
	if (!cmd)
		cmd = live->last + 1;
	if (cmd > CAPKM_CMD_MAX)
		t_die("operation %u", cmd);
	live->last = cmd;
	if (one.a[CTRL_ATTR_POLICY_DO])
		live->of[0][cmd] = nl_number(&one, CTRL_ATTR_POLICY_DO) + 1;
	if (one.a[CTRL_ATTR_POLICY_DUMP])
		live->of[1][cmd] = nl_number(&one, CTRL_ATTR_POLICY_DUMP) + 1;
}

static void take(void *ctx, const struct nl_attrs *attrs)
{
	if (attrs->a[CTRL_ATTR_POLICY])
		take_policy(ctx, nl_data(attrs->a[CTRL_ATTR_POLICY]));
	if (attrs->a[CTRL_ATTR_OP_POLICY])
		take_op(ctx, nl_data(attrs->a[CTRL_ATTR_OP_POLICY]));
}

/* What the running module checks is what the spec says. */
TEST_F(netlink, policies)
{
	static struct live live;
	unsigned int seen = 0, there = 0;
	struct nl ctrl = self->nl;
	struct nl_request rq;
	struct nl_answer a;

	ONLY_KERNEL();
	ctrl.family = GENL_ID_CTRL;
	rq = nl_request(&ctrl, CTRL_CMD_GETPOLICY, NLM_F_DUMP);
	nl_put(&rq, CTRL_ATTR_FAMILY_ID, &self->nl.family, sizeof(self->nl.family));
	a = nl_talk(&ctrl, &rq, take, &live);
	ASSERT_EQ(0, a.err);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const struct policy *w = &wanted[i];
		int of = live.of[w->dump][w->cmd];
		const struct policy *p;

		ASSERT_NE(0, of) {
			TH_LOG("operation %u has no policy", w->cmd);
		}
		p = &live.p[of - 1][w->attr];
		ASSERT_EQ(w->type, p->type) {
			TH_LOG("operation %u, attribute %u", w->cmd, w->attr);
		}
		ASSERT_EQ(w->min, p->min);
		ASSERT_EQ(w->max, p->max);
		ASSERT_EQ(w->min_len, p->min_len);
		ASSERT_EQ(w->max_len, p->max_len);
		seen++;
	}
	/* And nothing else. */
	for (unsigned int cmd = 0; cmd <= CAPKM_CMD_MAX; cmd++)
		for (int dump = 0; dump < 2; dump++)
			for (int at = 0; live.of[dump][cmd] && at < NL_ATTRS; at++)
				there += live.p[live.of[dump][cmd] - 1][at].type != 0;
	ASSERT_EQ(seen, there);
}

/* ------------------------------------------------------------------ each dump */

TEST_F(netlink, domains)
{
	struct capkm_domain_query q;
	struct dump *d;

	ONLY_KERNEL();
	t_taint(self->a, "bad", C({ self->x, 0, 10 }));
	q = t_domain_query(self->a);
	d = DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, self->a->domain });
	IDS(d, DOMAIN_ID, self->a->domain);
	ASSERT_EQ(0600, GET(d, 0, DOMAIN_MODE));
	ASSERT_EQ(1, GET(d, 0, DOMAIN_SESSIONS));
	ASSERT_EQ(1, GET(d, 0, DOMAIN_CLIENTS));
	ASSERT_EQ(1, GET(d, 0, DOMAIN_FAILURES));
	ASSERT_EQ(1, GET(d, 0, DOMAIN_BUFFERS));
	ASSERT_EQ(q.out_claims, GET(d, 0, DOMAIN_CLAIMS));
	ASSERT_EQ(q.out_sequence, GET(d, 0, DOMAIN_SEQUENCE));
	ASSERT_EQ(q.out_created_ns, GET(d, 0, DOMAIN_CREATED_NS));
	d = DUMP(&self->nl, DOMAIN_GET, { U32(CAPKM_A_DOMAIN_UID), 12345 });
	NONE(d);
	NO(DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, 1ull << 40 }), -ENOENT,
	   "no such domain");
}

/* A domain that only its reports keep is listed, too. */
TEST_F(netlink, defunct)
{
	u_int64_t y, id;
	struct dump *d;
	struct cl *b;

	ONLY_KERNEL();
	b = t_process();
	id = t_domain(b);
	y = t_buffer(b, 100);
	t_enter(b, 1, NO_CLAIMS, C({ y, 0, 10 }));
	t_kill(b);
	for (int i = 0; i < 10000; i++) {
		d = DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, id });
		if (d->n == 1 && GET(d, 0, DOMAIN_STATE) & CAPKM_DOMAIN_DEFUNCT)
			break;
		usleep(1000);
	}
	IDS(d, DOMAIN_ID, id);
	ASSERT_NE(0, GET(d, 0, DOMAIN_DEFUNCT_NS));
	d = DUMP(&self->nl, DOMAIN_GET, { U32(CAPKM_A_DOMAIN_UID), 0 });
	ASSERT_LE(2, d->n);
	d = talk(&self->nl, ({
		struct nl_request rq = request(&self->nl, CAPKM_CMD_FAILURE_GET, NLM_F_DUMP,
					       WITH({ CAPKM_A_FAILURE_DOMAIN, id }));

		nl_put(&rq, CAPKM_A_FAILURE_REPORTS, NULL, 0);
		rq;
	}));
	ASSERT_EQ(1, d->n);
	ASSERT_EQ(CAPKM_KIND_TORN_DOWN, GET(d, 0, FAILURE_KIND));
	NONE(DUMP(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, id }));
	ASSERT_EQ(0, DO(&self->nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, id })->a.err);
	NO(DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, id }), -ENOENT, "domain");
}

TEST_F(netlink, sessions_and_clients)
{
	struct cl *b, *c;
	struct dump *d;
	u_int64_t y, f, g;

	ONLY_KERNEL();
	b = process(self->a, self->x);
	c = t_join_session(b);
	f = self->a->session;
	g = b->session;
	y = t_buffer(b, 100);
	t_enter(b, 1, NO_CLAIMS, C({ y, 0, 10 }));
	t_record(c, GPU | 3);
	t_stream(b);
	d = DUMP(&self->nl, SESSION_GET, { CAPKM_A_SESSION_DOMAIN, self->a->domain });
	IDS(d, SESSION_ID, f, g);
	ASSERT_EQ(t_pid(b), GET(d, 1, SESSION_PID));
	ASSERT_EQ(0, GET(d, 1, SESSION_UID));
	ASSERT_STREQ("netlink", TEXT(d, 1, SESSION_COMM));
	ASSERT_EQ(2, GET(d, 1, SESSION_CLIENTS));
	ASSERT_EQ(1, GET(d, 1, SESSION_SHARED));
	ASSERT_EQ(0, GET(d, 0, SESSION_SHARED));
	ASSERT_EQ(2, GET(d, 1, SESSION_BUFFERS));
	ASSERT_EQ(1, GET(d, 1, SESSION_STREAMS));
	ASSERT_EQ(1, GET(d, 1, SESSION_SCOPES));
	ASSERT_EQ(1, GET(d, 1, SESSION_WINDOWS));
	ASSERT_EQ(3, GET(d, 1, SESSION_EVENTS_UNREAD));	/* joined, prepared, begun */
	ASSERT_EQ(0, GET(d, 1, SESSION_EVENTS_LOST));
	ASSERT_EQ(1, GET(d, 1, SESSION_ENTERED));
	ASSERT_EQ(0, GET(d, 1, SESSION_SKIPPED));
	ASSERT_EQ(0, GET(d, 1, SESSION_FAILED));
	ASSERT_NE(0, GET(d, 1, SESSION_ATTACHED_NS));
	ASSERT_EQ(CAPKM_RIGHT_READ | CAPKM_RIGHT_WRITE, GET(d, 1, SESSION_RIGHTS));
	IDS(DUMP(&self->nl, SESSION_GET, { CAPKM_A_SESSION_ID, g }), SESSION_ID, g);
	IDS(DUMP(&self->nl, SESSION_GET, { U32(CAPKM_A_SESSION_PID), t_pid(b) }),
	    SESSION_ID, g);

	d = DUMP(&self->nl, CLIENT_GET, { CAPKM_A_CLIENT_DOMAIN, self->a->domain });
	ASSERT_EQ(3, d->n);
	ASSERT_EQ(f, GET(d, 0, CLIENT_SESSION));
	ASSERT_EQ(g, GET(d, 1, CLIENT_SESSION));
	ASSERT_EQ(g, GET(d, 2, CLIENT_SESSION));
	ASSERT_EQ(getpid(), GET(d, 0, CLIENT_PID));
	ASSERT_EQ(t_pid(b), GET(d, 1, CLIENT_PID));
	ASSERT_EQ(t_pid(c), GET(d, 2, CLIENT_PID));
	ASSERT_EQ(1, GET(d, 1, CLIENT_SCOPES));
	ASSERT_EQ(1, GET(d, 2, CLIENT_RECORDING));
	ASSERT_EQ(1, GET(d, 2, CLIENT_DEVICES));
	ASSERT_EQ(0, GET(d, 2, CLIENT_ENDED));
	ASSERT_NE(0, GET(d, 2, CLIENT_SINCE_NS));
	d = DUMP(&self->nl, CLIENT_GET, { CAPKM_A_CLIENT_SESSION, g });
	ASSERT_EQ(2, d->n);
	IDS(DUMP(&self->nl, CLIENT_GET, { U32(CAPKM_A_CLIENT_PID), t_pid(c) }),
	    CLIENT_ID, GET(d, 1, CLIENT_ID));
	NO(DUMP(&self->nl, CLIENT_GET, { CAPKM_A_CLIENT_ID, 1 }), -EINVAL, "domain");
	/* Who has ended is shown as long as it is known. */
	t_kill(c);
	UNTIL(t_domain_query(self->a).out_clients == 2);
	d = DUMP(&self->nl, CLIENT_GET, { CAPKM_A_CLIENT_SESSION, g });
	ASSERT_EQ(2, d->n);
	ASSERT_EQ(1, GET(d, 1, CLIENT_ENDED));
	t_kill(b);
}

TEST_F(netlink, windows)
{
	u_int64_t v, w, o, dom = self->a ? self->a->domain : 0;
	unsigned char gpu[16] = { 1 };
	struct nl_request rq;
	struct cl *b;
	struct dump *d;

	ONLY_KERNEL();
	b = process(self->a, self->x);
	v = t_record(self->a, GPU | 3);
	o = t_record(b, 2);
	w = t_prepare_cookie(self->a, 5, 77);
	t_exit(self->a, t_enter(self->a, GPU | 3, NO_CLAIMS, C({ self->x, 0, 10 })));
	t_window_fail(self->a, v, 3, 5, "op", "first");
	t_kill(b);
	UNTIL(t_domain_query(self->a).out_orphans == 1);
	d = DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, dom });
	IDS(d, WINDOW_ID, v, o, w);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, GET(d, 0, WINDOW_STATE));
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, GET(d, 1, WINDOW_STATE));
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, GET(d, 2, WINDOW_STATE));
	ASSERT_EQ(1, GET(d, 0, WINDOW_LAUNCHES));
	ASSERT_EQ(10, GET(d, 0, WINDOW_BYTES));
	ASSERT_EQ(1, GET(d, 0, WINDOW_DOOMED));
	ASSERT_EQ(0, GET(d, 0, WINDOW_PARENT));
	ASSERT_EQ(77, GET(d, 2, WINDOW_COOKIE));
	ASSERT_EQ(gettid(), GET(d, 0, WINDOW_TID));
	ASSERT_EQ(NULL, d->r[0].a[CAPKM_A_WINDOW_HISTORY]);
	ASSERT_NE(NULL, d->r[0].a[CAPKM_A_WINDOW_FIRST_FAILURE]);
	ASSERT_EQ(NULL, d->r[2].a[CAPKM_A_WINDOW_FIRST_FAILURE]);

	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, dom },
		 { CAPKM_A_WINDOW_ID, o }), WINDOW_ID, o);
	NONE(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, dom },
		  { CAPKM_A_WINDOW_ID, w + 1 }));
	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, dom },
		 { U32(CAPKM_A_WINDOW_STATE), CAPKM_WINDOW_ORPHANED }), WINDOW_ID, o);
	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_SESSION, self->a->session }),
	    WINDOW_ID, v, w);
	rq = request(&self->nl, CAPKM_CMD_WINDOW_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_WINDOW_DOMAIN, dom }, { U32(CAPKM_A_WINDOW_SLOT), 3 }));
	nl_put(&rq, CAPKM_A_WINDOW_DEVICE, gpu, 16);
	IDS(talk(&self->nl, rq), WINDOW_ID, v);
	gpu[0] = 0;		/* the host */
	rq = request(&self->nl, CAPKM_CMD_WINDOW_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_WINDOW_DOMAIN, dom }));
	nl_put(&rq, CAPKM_A_WINDOW_DEVICE, gpu, 16);
	IDS(talk(&self->nl, rq), WINDOW_ID, o, w);

	ASSERT_EQ(0, DO(&self->nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, dom },
			{ CAPKM_A_WINDOW_ID, o })->a.err);
	NO(DO(&self->nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, dom }, { CAPKM_A_WINDOW_ID, o }),
	   -ENOENT, "no such window");
	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, dom }), WINDOW_ID, v, w);
	rq = request(&self->nl, CAPKM_CMD_WINDOW_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_WINDOW_DOMAIN, dom }));
	nl_put(&rq, CAPKM_A_WINDOW_HISTORY, NULL, 0);
	IDS(talk(&self->nl, rq), WINDOW_ID, o);
}

TEST_F(netlink, buffers_and_graphs)
{
	u_int64_t y, g, h, dom = self->a ? self->a->domain : 0;
	unsigned char gpu[16] = { 2 };
	struct nl_request rq;
	struct cl *b;
	struct dump *d;

	ONLY_KERNEL();
	b = process(self->a, self->x);
	y = t_buffer_on(b, T_GPU(2), 64, 0);
	g = t_graph(self->a, 1, NO_CLAIMS, C({ self->x, 0, 10 }));
	h = t_graph(b, 1, C({ self->x, 20, 30 }), C({ y, 0, 64 }));
	t_replay(b, h, 1);
	d = DUMP(&self->nl, BUFFER_GET, { CAPKM_A_BUFFER_DOMAIN, dom });
	IDS(d, BUFFER_ID, self->x, y);
	ASSERT_EQ(1000, GET(d, 0, BUFFER_BYTES));
	ASSERT_EQ(2, GET(d, 0, BUFFER_HOLDERS));
	ASSERT_EQ(2, GET(d, 0, BUFFER_USES));
	IDS(DUMP(&self->nl, BUFFER_GET, { CAPKM_A_BUFFER_DOMAIN, dom },
		 { CAPKM_A_BUFFER_ID, y }), BUFFER_ID, y);
	IDS(DUMP(&self->nl, BUFFER_GET, { CAPKM_A_BUFFER_SESSION, b->session }),
	    BUFFER_ID, y);
	rq = request(&self->nl, CAPKM_CMD_BUFFER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_BUFFER_DOMAIN, dom }));
	nl_put(&rq, CAPKM_A_BUFFER_DEVICE, gpu, 16);
	IDS(talk(&self->nl, rq), BUFFER_ID, y);

	d = DUMP(&self->nl, GRAPH_GET, { CAPKM_A_GRAPH_DOMAIN, dom });
	IDS(d, GRAPH_ID, g, h);
	ASSERT_EQ(b->session, GET(d, 1, GRAPH_SESSION));
	ASSERT_EQ(t_pid(b), GET(d, 1, GRAPH_PID));
	ASSERT_EQ(1, GET(d, 1, GRAPH_WRITES));
	ASSERT_EQ(1, GET(d, 1, GRAPH_INPUTS));
	ASSERT_EQ(1, GET(d, 1, GRAPH_REPLAYS));
	ASSERT_EQ(0, GET(d, 0, GRAPH_REPLAYS));
	IDS(DUMP(&self->nl, GRAPH_GET, { CAPKM_A_GRAPH_DOMAIN, dom },
		 { CAPKM_A_GRAPH_ID, h }), GRAPH_ID, h);
	IDS(DUMP(&self->nl, GRAPH_GET, { U32(CAPKM_A_GRAPH_PID), getpid() }), GRAPH_ID, g);
	t_kill(b);
}

static const unsigned int usage_attrs[] = {
	CAPKM_A_USAGE_CAPTURES, CAPKM_A_USAGE_RETAINED_BYTES, CAPKM_A_USAGE_HOST_BYTES,
	CAPKM_A_USAGE_ENCODED_BYTES,
};

/* Record @i says so of the usage @attr. */
static bool is_usage(const struct dump *d, unsigned int i, unsigned int attr,
		     struct capkm_usage u)
{
	const u_int64_t v[] = { u.captures, u.retained_bytes, u.host_bytes, u.encoded_bytes };
	struct nl_attrs nest;

	nl_nested(&nest, d->r[i].a[attr]);
	for (int k = 0; k < 4; k++)
		if (nl_number(&nest, usage_attrs[k]) != v[k]) {
			fprintf(stderr, "# attribute %u, axis %d: %llu\n", attr, k,
				(unsigned long long)nl_number(&nest, usage_attrs[k]));
			return false;
		}
	return true;
}

#define USAGE(d, i, attr, ...)						\
	is_usage(d, i, CAPKM_A_LEDGER_##attr, (struct capkm_usage){ __VA_ARGS__ })

#define LEDGERS(...) DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom }, __VA_ARGS__)

/* With each number in its place; what nobody holds; what one session holds. */
TEST_F(netlink, ledgers)
{
	u_int64_t dom = self->a ? self->a->domain : 0, l, m, f;
	struct capkm_ledger_create c = {
		.flags = CAPKM_LEDGER_F_SHARED, .per_step = { 10, 20, 30, 40 },
		.cumulative = { 100, 200, 300, U64_MAX }, .inherited = { 5, 6, 7, 8 },
		.on_limit = CAPKM_ON_LIMIT_SKIP, .label_uptr = t_ptr("decode"), .label_len = 6,
	};
	struct capkm_ledger_fork fork = {
		.per_step = t_usage(1), .cumulative = t_usage(50),
	};
	struct dump *d;
	struct cl *b;
	int pid;

	ONLY_KERNEL();
	NONE(DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom }));
	b = process(self->a, self->x);
	ASSERT_EQ(0, t_call(b, CAPKM_NR_LEDGER_CREATE, &c));
	l = c.out_ledger;
	t_reserve(b, l, (struct capkm_usage){ 1, 2, 3, 4 });
	t_step(b, l);
	t_reserve(b, l, (struct capkm_usage){ 9 });
	t_reserve(self->a, l, (struct capkm_usage){ 2 });
	m = t_ledger(self->a, 0, 1000, CAPKM_ON_LIMIT_FAIL);
	t_charge(self->a, m, 50);
	fork.ledger = m;
	ASSERT_EQ(0, t_call(self->a, CAPKM_NR_LEDGER_FORK, &fork));
	f = fork.out_ledger;
	d = DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom });
	IDS(d, LEDGER_ID, l, m, f);
	ASSERT_EQ(dom, GET(d, 0, LEDGER_DOMAIN));
	ASSERT_STREQ("decode", TEXT(d, 0, LEDGER_LABEL));
	ASSERT_EQ(NULL, d->r[1].a[CAPKM_A_LEDGER_LABEL]);
	ASSERT_EQ(CAPKM_LEDGER_F_SHARED, GET(d, 0, LEDGER_FLAGS));
	ASSERT_EQ(CAPKM_ON_LIMIT_SKIP, GET(d, 0, LEDGER_ON_LIMIT));
	ASSERT_EQ(0, GET(d, 0, LEDGER_PARENT));
	ASSERT_EQ(m, GET(d, 2, LEDGER_PARENT));
	ASSERT_EQ(b->session, GET(d, 0, LEDGER_SESSION));
	ASSERT_EQ(0, GET(d, 0, LEDGER_ORPHANED));
	ASSERT_EQ(t_pid(b), GET(d, 0, LEDGER_PID));
	ASSERT_EQ(0, GET(d, 0, LEDGER_UID));
	ASSERT_STREQ("netlink", TEXT(d, 0, LEDGER_COMM));
	ASSERT_NE(0, GET(d, 0, LEDGER_CREATED_NS));
	ASSERT_EQ(1, GET(d, 0, LEDGER_STEPS));
	ASSERT_EQ(2, GET(d, 0, LEDGER_RESERVED));
	ASSERT_EQ(1, GET(d, 0, LEDGER_REFUSED));
	ASSERT_TRUE(USAGE(d, 0, PER_STEP, 10, 20, 30, 40));
	ASSERT_TRUE(USAGE(d, 0, CUMULATIVE, 100, 200, 300, U64_MAX));
	ASSERT_TRUE(USAGE(d, 0, INHERITED, 5, 6, 7, 8));
	ASSERT_TRUE(USAGE(d, 0, STEP, 9, 0, 0, 0));
	ASSERT_TRUE(USAGE(d, 0, TOTAL, 15, 8, 10, 12));
	ASSERT_TRUE(USAGE(d, 0, DOMAIN_LIMIT, U64_MAX, U64_MAX, U64_MAX, U64_MAX));
	ASSERT_TRUE(USAGE(d, 2, INHERITED, 50, 50, 50, 50));
	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(USAGE(d, i, DOMAIN_TOTAL, 60, 52, 53, 54));

	ASSERT_EQ(0, DO(&self->nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, dom },
			{ U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_LEDGER_RETAINED },
			{ CAPKM_A_LIMIT_VALUE, 70 })->a.err);
	d = LEDGERS({ CAPKM_A_LEDGER_ID, m });
	IDS(d, LEDGER_ID, m);
	ASSERT_TRUE(USAGE(d, 0, DOMAIN_LIMIT, U64_MAX, 70, U64_MAX, U64_MAX));
	IDS(LEDGERS({ CAPKM_A_LEDGER_SESSION, b->session }), LEDGER_ID, l);
	IDS(LEDGERS({ U32(CAPKM_A_LEDGER_PID), getpid() }), LEDGER_ID, m, f);
	NONE(LEDGERS({ U32(CAPKM_A_LEDGER_UID), 12345 }));
	NONE(LEDGERS({ U32(CAPKM_A_LEDGER_ORPHANED), 1 }));
	d = DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, dom });
	ASSERT_EQ(3, GET(d, 0, DOMAIN_LEDGERS));

	/* Whose it was is known, and all that it was charged with, in mid-step. */
	pid = t_pid(b);
	t_kill(b);
	UNTIL(LEDGERS({ U32(CAPKM_A_LEDGER_ORPHANED), 1 })->n == 1);
	d = LEDGERS({ CAPKM_A_LEDGER_SESSION, 0 });
	IDS(d, LEDGER_ID, l);
	ASSERT_EQ(pid, (int)GET(d, 0, LEDGER_PID));
	ASSERT_STREQ("netlink", TEXT(d, 0, LEDGER_COMM));
	ASSERT_TRUE(USAGE(d, 0, STEP, 9, 0, 0, 0));
	ASSERT_TRUE(USAGE(d, 0, TOTAL, 15, 8, 10, 12));
	ASSERT_EQ(0, t_adopt(self->a, l));
	d = LEDGERS({ CAPKM_A_LEDGER_ID, l });
	ASSERT_EQ(0, GET(d, 0, LEDGER_ORPHANED));
	ASSERT_EQ(self->a->session, GET(d, 0, LEDGER_SESSION));
	ASSERT_EQ(getpid(), (int)GET(d, 0, LEDGER_PID));
	for (u_int64_t id = l; id <= f; id++)
		ASSERT_EQ(0, t_ledger_destroy(self->a, id));
	NONE(DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom }));
	NO(DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, 1ull << 40 }), -ENOENT,
	   "no such domain");
}

/* Who keeps the description of a session that no process uses keeps no ledger. */
TEST_F(netlink, ledger_of_no_client)
{
	u_int64_t dom = self->a ? self->a->domain : 0, l, session;
	struct cl *b, *other;

	ONLY_KERNEL();
	b = t_process();
	t_attach(b, dom);
	l = t_ledger(b, 0, 10, CAPKM_ON_LIMIT_FAIL);
	other = t_second(b);
	session = b->session;
	ASSERT_EQ(-EBUSY, DO(&self->nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, dom },
			     { CAPKM_A_LEDGER_ID, l })->a.err);
	t_kill(b);
	UNTIL(LEDGERS({ U32(CAPKM_A_LEDGER_ORPHANED), 1 })->n == 1);
	IDS(LEDGERS({ CAPKM_A_LEDGER_ID, l }), LEDGER_SESSION, session);
	ASSERT_EQ(0, DO(&self->nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, dom },
			{ CAPKM_A_LEDGER_ID, l })->a.err);
	t_kill(other);
	NONE(DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom }));
}

/* Which bytes, which state, which failure; and the way back from a failure. */
TEST_F(netlink, bytes)
{
	u_int64_t f, g, s, y, dom = self->a ? self->a->domain : 0;
	struct nl_attrs cause, hop;
	struct dump *d;

	ONLY_KERNEL();
	y = t_shared(self->a, 100);
	f = t_taint(self->a, "bad sector", C({ self->x, 10, 30 }, { self->x, 30, 40 },
					     { self->x, 100, 110 }));
	g = t_taint(self->a, "worse", C({ self->x, 105, 120 }, { self->x, 900, 1000 }));
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->x, 20, 25 }));
	t_write_flags_(self->a, 1, 0, C({ self->x, 500, 510 }));

	d = DUMP(&self->nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		 { CAPKM_A_RANGE_BUFFER, self->x });
	ASSERT_EQ(0, d->a.err);
	for (unsigned int i = 0; i + 1 < d->n; i++)
		ASSERT_LE(GET(d, i, RANGE_END), GET(d, i + 1, RANGE_START));
	for (u_int64_t at = 0; at < 1000; at++) {
		u_int64_t result = CAPKM_CLEAN, failure = 0;

		for (unsigned int i = 0; i < d->n; i++)
			if (GET(d, i, RANGE_START) <= at && at < GET(d, i, RANGE_END)) {
				result = GET(d, i, RANGE_RESULT);
				failure = GET(d, i, RANGE_FAILURE);
				nl_nested(&cause, d->r[i].a[CAPKM_A_RANGE_CAUSE]);
			}
		if (at >= 20 && at < 25) {
			ASSERT_EQ(CAPKM_IN_PROGRESS, result);
			ASSERT_EQ(s, nl_number(&cause, CAPKM_A_FAILURE_SCOPE));
		} else if ((at >= 10 && at < 40) || (at >= 100 && at < 105)) {
			ASSERT_EQ(CAPKM_TAINTED, result);
			ASSERT_EQ(f, failure);
			ASSERT_STREQ("bad sector", nl_text(&cause, CAPKM_A_FAILURE_TEXT));
		} else if ((at >= 105 && at < 120) || at >= 900) {
			ASSERT_EQ(CAPKM_TAINTED, result);
			ASSERT_EQ(g, failure);
		} else if (at >= 500 && at < 510) {
			ASSERT_EQ(CAPKM_PENDING, result);
			ASSERT_EQ(getpid(), nl_number(&cause, CAPKM_A_FAILURE_PID));
		} else {
			ASSERT_EQ(CAPKM_CLEAN, result);
		}
	}
	d = DUMP(&self->nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		 { CAPKM_A_RANGE_BUFFER, self->x }, { CAPKM_A_RANGE_START, 112 },
		 { CAPKM_A_RANGE_END, 115 });
	IDS(d, RANGE_START, 112);
	ASSERT_EQ(115, GET(d, 0, RANGE_END));
	NO(DUMP(&self->nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		{ CAPKM_A_RANGE_BUFFER, self->x }, { CAPKM_A_RANGE_END, 1001 }),
	   -EINVAL, "start and end");
	NO(DUMP(&self->nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		{ CAPKM_A_RANGE_BUFFER, y + 1 }), -ENOENT, "no such buffer");

	d = DUMP(&self->nl, CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		 { CAPKM_A_RANGE_FAILURE, g });
	IDS(d, RANGE_START, 105, 900);
	ASSERT_EQ(120, GET(d, 0, RANGE_END));
	ASSERT_EQ(self->x, GET(d, 0, RANGE_BUFFER));
	NO(DUMP(&self->nl, CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		{ CAPKM_A_RANGE_FAILURE, g + 100 }), -ENOENT, "no such failure");

	t_skip(self->a, 1, "step", C({ self->x, 900, 901 }), C({ y, 0, 50 }));
	d = DUMP(&self->nl, CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		 { CAPKM_A_RANGE_FAILURE, g });
	IDS(d, RANGE_BUFFER, self->x, self->x, y);
	IDS(DUMP(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, dom }),
	    FAILURE_ID, f, g);
	IDS(DUMP(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, dom },
		 { CAPKM_A_FAILURE_ID, g }), FAILURE_ID, g);
	NONE(DUMP(&self->nl, FAILURE_GET, { U32(CAPKM_A_FAILURE_KIND), 1000 }));
	d = DO(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, dom },
	       { CAPKM_A_FAILURE_ID, g }, { CAPKM_A_FAILURE_BUFFER, y });
	IDS(d, FAILURE_ID, g);
	ASSERT_EQ(1, GET(d, 0, FAILURE_SKIPS));
	ASSERT_EQ(2, GET(d, 0, FAILURE_CARRIERS));
	ASSERT_EQ(1, GET(d, 0, FAILURE_HOPS));
	nl_nested(&hop, d->r[0].a[CAPKM_A_FAILURE_HOP]);
	ASSERT_EQ(self->x, nl_number(&hop, CAPKM_A_HOP_NEEDED));
	ASSERT_STREQ("step", nl_text(&hop, CAPKM_A_HOP_LABEL));
	d = DO(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, dom },
	       { CAPKM_A_FAILURE_ID, f });
	ASSERT_EQ(0, GET(d, 0, FAILURE_SKIPS));
	ASSERT_EQ(NULL, d->r[0].a[CAPKM_A_FAILURE_HOP]);
	NO(DO(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, dom },
	      { CAPKM_A_FAILURE_ID, g + 100 }), -ENOENT, "no such failure");
}

/* ------------------------------------------------------------------ many */

#define MANY 100000

/* Ids in order, each once, and how many of them. */
struct ids {
	unsigned int attr, n;
	u_int64_t last;
	unsigned char *seen;		/* by id, or NULL */
};

static void take_id(void *ctx, const struct nl_attrs *attrs)
{
	struct ids *ids = ctx;
	u_int64_t id = nl_number(attrs, ids->attr);

	if (id <= ids->last)
		t_die("%llu comes after %llu", (unsigned long long)id,
		      (unsigned long long)ids->last);
	ids->last = id;
	ids->n++;
	if (ids->seen)
		ids->seen[id] = 1;
}

static void taint_byte(struct cl *cl, u_int64_t buffer, u_int64_t at)
{
	struct capkm_claim claim = { .buffer = buffer, .start = at, .end = at + 1 };
	struct capkm_taint a = {
		.size = sizeof(a), .claims_uptr = t_ptr(&claim), .claims_len = 1,
		.kind = CAPKM_KIND_IO,
	};

	if (t_raw(cl, CAPKM_NR_TAINT, &a, sizeof(a)))
		t_die("byte %llu is not tainted", (unsigned long long)at);
}

/* Bytes of messages that the kernel keeps for the socket. */
static unsigned int kept_for(const struct nl *nl)
{
	struct sockaddr_nl addr = { 0 };
	unsigned int protocol, port, kept;
	socklen_t len = sizeof(addr);
	char line[256];
	FILE *f = fopen("/proc/net/netlink", "r");

	if (!f || getsockname(nl->fd, (void *)&addr, &len))
		t_die("netlink: %s", strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %u %u %*x %u", &protocol, &port, &kept) == 3 &&
		    protocol == NETLINK_GENERIC && port == addr.nl_pid) {
			fclose(f);
			return kept;
		}
	t_die("port %u is not in /proc/net/netlink", addr.nl_pid);
}

/* A dump of very many, in parts of a bounded size. */
TEST_F_TIMEOUT(netlink, hundred_thousand, 300)
{
	struct ids failures = { .attr = CAPKM_A_FAILURE_ID };
	struct ids ranges = { .attr = CAPKM_A_RANGE_END };
	struct nl_answer a = { 0 };
	struct nl_request rq;
	unsigned int kept = 0;
	u_int64_t y;

	ONLY_KERNEL();
	y = t_buffer(self->a, 2 * MANY);
	for (unsigned int i = 0; i < MANY; i++)
		taint_byte(self->a, y, 2 * i);
	rq = request(&self->nl, CAPKM_CMD_FAILURE_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_FAILURE_DOMAIN, self->a->domain }));
	nl_send(&self->nl, &rq);
	while (!a.done) {
		if (a.parts % 20 == 0)
			kept = kept > kept_for(&self->nl) ? kept : kept_for(&self->nl);
		ASSERT_TRUE(nl_step(&self->nl, &a, take_id, &failures));
	}
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(MANY, failures.n);
	/* That of a few parts, of more than five hundred. */
	TH_LOG("%u records in %u parts, %u bytes kept", a.records, a.parts, kept);
	ASSERT_LE(1, kept);
	ASSERT_LE(kept, 8 * 32768);
	ASSERT_LE(a.largest, 32768);
	ASSERT_LE(500, a.parts);
	ASSERT_FALSE(a.interrupted);
	rq = request(&self->nl, CAPKM_CMD_TAINT_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_RANGE_DOMAIN, self->a->domain }, { CAPKM_A_RANGE_BUFFER, y }));
	a = nl_talk(&self->nl, &rq, take_id, &ranges);
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(MANY, ranges.n);
	ASSERT_EQ(2 * MANY - 1, ranges.last);
	ASSERT_FALSE(a.interrupted);
	/* One id is found without looking at the others. */
	IDS(DUMP(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, self->a->domain },
		 { CAPKM_A_FAILURE_ID, failures.last }), FAILURE_ID, failures.last);
}

/* What carries one failure, between what carries others, and beside a wide claim. */
TEST_F(netlink, many_carriers)
{
	struct ids ends = { .attr = CAPKM_A_RANGE_END };
	struct nl_request rq;
	struct nl_answer a;
	u_int64_t f, y;

	ONLY_KERNEL();
	y = t_buffer(self->a, 10000);
	f = t_taint(self->a, "one", C({ y, 0, 1 }));
	for (int i = 1; i < 2000; i++) {
		taint_byte(self->a, y, 4 * i + 2);
		t_taint_with(self->a, f, C({ y, 4 * i, 4 * i + 1 }));
	}
	t_enter(self->a, 1, NO_CLAIMS, C({ y, 0, 10000 }));
	rq = request(&self->nl, CAPKM_CMD_CARRIER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_RANGE_DOMAIN, self->a->domain },
			  { CAPKM_A_RANGE_FAILURE, f }));
	a = nl_talk(&self->nl, &rq, take_id, &ends);
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(2000, ends.n);
	ASSERT_EQ(4 * 1999 + 1, ends.last);
	/* All of it is one piece; it may come in several. */
	f = t_fail(self->a, 2, C({ self->x, 0, 1000 }), "wide");
	for (int i = 0; i < 400; i++)
		t_enter(self->a, 1, NO_CLAIMS, C({ self->x, 2 * i, 2 * i + 1 }));
	ends = (struct ids){ .attr = CAPKM_A_RANGE_END };
	rq = request(&self->nl, CAPKM_CMD_CARRIER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_RANGE_DOMAIN, self->a->domain },
			  { CAPKM_A_RANGE_FAILURE, f }));
	a = nl_talk(&self->nl, &rq, take_id, &ends);
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(1000, ends.last);
	ASSERT_LE(ends.n, 4);
}

#define FEW 3000

static u_int64_t create(struct cl *cl)
{
	struct capkm_buffer_create a = { .size = sizeof(a), .bytes = 8 };

	return t_raw(cl, CAPKM_NR_BUFFER_CREATE, &a, sizeof(a)) ? 0 : a.out_buffer;
}

/* While objects come and go: what stays comes once, and the reader is told. */
TEST_F(netlink, changing)
{
	static unsigned char seen[8 * FEW];
	struct ids ids = { .attr = CAPKM_A_BUFFER_ID, .seen = seen };
	u_int64_t id, first, last = 0;
	struct nl_request rq;
	struct nl_answer a = { 0 };

	ONLY_KERNEL();
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	first = create(self->a);
	for (unsigned int i = 1; i < FEW; i++)
		last = create(self->a);
	rq = request(&self->nl, CAPKM_CMD_BUFFER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_BUFFER_DOMAIN, self->a->domain }));
	/* Nothing comes or goes, but values change. */
	nl_send(&self->nl, &rq);
	while (!a.done && nl_step(&self->nl, &a, take_id, &ids))
		t_taint(self->a, "bad", C({ self->x, 0, 10 }));
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(FEW + 1, ids.n);
	ASSERT_FALSE(a.interrupted);
	ASSERT_LE(50, a.parts);

	/* Every third goes, before the cursor and behind it, and as many come. */
	memset(&a, 0, sizeof(a));
	memset(seen, 0, sizeof(seen));
	ids.n = ids.last = 0;
	id = first;
	nl_send(&self->nl, &rq);
	while (!a.done && nl_step(&self->nl, &a, take_id, &ids))
		for (int i = 0; i < 40 && id <= last; i++, id += 3) {
			ASSERT_EQ(0, t_drop(self->a, id));
			ASSERT_NE(0, create(self->a));
		}
	ASSERT_EQ(0, a.err);
	ASSERT_TRUE(a.interrupted);
	for (u_int64_t i = first; i <= last; i++)
		if ((i - first) % 3)
			ASSERT_EQ(1, seen[i]);
	/* The next one is quiet again. */
	ids = (struct ids){ .attr = CAPKM_A_BUFFER_ID };
	a = nl_talk(&self->nl, &rq, take_id, &ids);
	ASSERT_EQ(FEW + 1, ids.n);
	ASSERT_FALSE(a.interrupted);
}

/* Goes on with a dump to its end. */
static void finish(struct nl *nl, struct nl_answer *a)
{
	while (!a->done)
		if (!nl_step(nl, a, NULL, NULL))
			t_die("no answer");
}

#define SOME 600

/* The same of ledgers, which somebody else adopts, forks and destroys meanwhile. */
TEST_F_TIMEOUT(netlink, ledgers_changing, 60)
{
	static unsigned char seen[8 * SOME];
	struct ids ids = { .attr = CAPKM_A_LEDGER_ID, .seen = seen };
	struct capkm_domain_destroy gone = { 0 };
	u_int64_t first = 0, id, dom = self->a ? self->a->domain : 0;
	struct nl_request rq;
	struct nl_answer a = { 0 };
	struct cl *b;

	ONLY_KERNEL();
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	b = t_process();
	t_attach(b, dom);
	for (unsigned int i = 0; i < SOME; i++) {
		id = t_ledger(b, 0, 10, CAPKM_ON_LIMIT_FAIL);
		first = first ? first : id;
	}
	t_kill(b);
	rq = request(&self->nl, CAPKM_CMD_LEDGER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_LEDGER_DOMAIN, dom }));
	/* Holders and what is charged are values: none comes or goes. */
	nl_send(&self->nl, &rq);
	id = first;
	while (!a.done && nl_step(&self->nl, &a, take_id, &ids))
		for (int i = 0; i < 10 && id < first + SOME; i++, id++) {
			ASSERT_EQ(0, t_adopt(self->a, id));
			t_charge(self->a, id, 1);
		}
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(SOME, ids.n);
	ASSERT_FALSE(a.interrupted);
	ASSERT_LE(50, a.parts);

	memset(&a, 0, sizeof(a));
	memset(seen, 0, sizeof(seen));
	ids.n = ids.last = 0;
	id = first;
	nl_send(&self->nl, &rq);
	while (!a.done && nl_step(&self->nl, &a, take_id, &ids))
		for (int i = 0; i < 10 && id < first + SOME; i++, id += 3) {
			ASSERT_EQ(0, t_adopt(self->a, id));
			ASSERT_EQ(0, t_ledger_destroy(self->a, id));
			t_ledger(self->a, 0, 10, CAPKM_ON_LIMIT_FAIL);
		}
	ASSERT_EQ(0, a.err);
	ASSERT_TRUE(a.interrupted);
	for (u_int64_t i = 0; i < SOME; i++)
		if (i % 3)
			ASSERT_EQ(1, seen[first + i]);
	ids = (struct ids){ .attr = CAPKM_A_LEDGER_ID };
	a = nl_talk(&self->nl, &rq, take_id, &ids);
	ASSERT_EQ(SOME, ids.n);
	ASSERT_FALSE(a.interrupted);

	/* All go in the middle of it, with their domain. */
	memset(&a, 0, sizeof(a));
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, NULL, NULL));
	gone.domain = dom;
	ASSERT_EQ(0, t_call(self->a, CAPKM_NR_DOMAIN_DESTROY, &gone));
	finish(&self->nl, &a);
	ASSERT_EQ(-ENOENT, a.err);
	ASSERT_LT(a.records, SOME);
}

/* The domain, its buffer, its failure go in the middle of their dumps. */
TEST_F(netlink, vanishing)
{
	struct ids ids = { .attr = CAPKM_A_RANGE_END };
	struct nl_answer a = { 0 };
	struct nl_request rq;
	struct cl *b;
	u_int64_t y;

	ONLY_KERNEL();
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	b = t_client();
	t_domain(b);
	y = t_buffer(b, 4000);
	for (int i = 0; i < 2000; i++)
		taint_byte(b, y, 2 * i);
	rq = request(&self->nl, CAPKM_CMD_TAINT_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_RANGE_DOMAIN, b->domain }, { CAPKM_A_RANGE_BUFFER, y }));
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, take_id, &ids));
	ASSERT_EQ(0, t_drop(b, y));
	while (!a.done)
		ASSERT_TRUE(nl_step(&self->nl, &a, take_id, &ids));
	ASSERT_EQ(0, a.err);
	ASSERT_TRUE(a.interrupted);
	ASSERT_LT(ids.n, 2000);

	memset(&a, 0, sizeof(a));
	ids = (struct ids){ .attr = CAPKM_A_BUFFER_ID };
	for (int i = 0; i < 2000; i++)
		create(b);
	rq = request(&self->nl, CAPKM_CMD_BUFFER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_BUFFER_DOMAIN, b->domain }));
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, take_id, &ids));
	t_close(b);
	while (!a.done)
		ASSERT_TRUE(nl_step(&self->nl, &a, take_id, &ids));
	ASSERT_EQ(-ENOENT, a.err);
}

/* While nothing that is looked at passes the filter. */
TEST_F_TIMEOUT(netlink, changes_before_a_record, 60)
{
	struct nl_request rq;
	struct nl_answer a;
	int pid, status, tries = 0;

	ONLY_KERNEL();
	for (unsigned int i = 0; i < FEW; i++)
		create(self->a);
	rq = request(&self->nl, CAPKM_CMD_BUFFER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_BUFFER_DOMAIN, self->a->domain },
			  { CAPKM_A_BUFFER_SESSION, 1ull << 40 }));
	a = nl_talk(&self->nl, &rq, NULL, NULL);
	ASSERT_EQ(0, a.records);
	ASSERT_FALSE(a.interrupted);
	pid = fork();
	if (!pid) {
		struct cl *b = t_client();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		t_attach(b, self->a->domain);
		for (;;)
			t_drop(b, create(b));
	}
	do {
		a = nl_talk(&self->nl, &rq, NULL, NULL);
		ASSERT_EQ(0, a.records);
	} while (!a.interrupted && ++tries < 10000);
	ASSERT_TRUE(a.interrupted);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
}

/* The domains that a dump has not reached go: it ends before it meets another one. */
TEST_F(netlink, last_domains_gone)
{
	struct nl_answer a = { 0 };
	struct nl_request rq;
	u_int64_t id[100];

	ONLY_KERNEL();
	for (int i = 0; i < 100; i++) {
		struct dump *d = DO(&self->nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0600 });

		ASSERT_EQ(0, d->a.err);
		id[i] = GET(d, 0, DOMAIN_ID);
	}
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	rq = request(&self->nl, CAPKM_CMD_DOMAIN_GET, NLM_F_DUMP, NULL, 0);
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, NULL, NULL));
	ASSERT_FALSE(a.interrupted);
	{
		struct nl other = nl_open();

		for (int i = 60; i < 100; i++)
			ASSERT_EQ(0, DO(&other, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, id[i] })->a.err);
		finish(&self->nl, &a);
		ASSERT_EQ(0, a.err);
		ASSERT_TRUE(a.interrupted);
		ASSERT_LE(60, a.records);
		ASSERT_LT(a.records, 100);
		for (int i = 0; i < 60; i++)
			ASSERT_EQ(0, DO(&other, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, id[i] })->a.err);
		nl_close(&other);
	}
}

/* Who makes domains all the time does not make a dump longer. */
TEST_F(netlink, later_domains)
{
	struct nl_answer a = { 0 };
	u_int64_t id[100], later;
	struct nl_request rq;
	unsigned int all;
	struct dump *d;
	struct nl other;

	ONLY_KERNEL();
	other = nl_open();
	for (int i = 0; i < 100; i++) {
		d = DO(&other, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0600 });
		ASSERT_EQ(0, d->a.err);
		id[i] = GET(d, 0, DOMAIN_ID);
	}
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	rq = request(&self->nl, CAPKM_CMD_DOMAIN_GET, NLM_F_DUMP, NULL, 0);
	a = nl_talk(&self->nl, &rq, NULL, NULL);
	all = a.records;
	memset(&a, 0, sizeof(a));
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, NULL, NULL));
	ASSERT_LT(a.records, all);
	d = DO(&other, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0600 });
	ASSERT_EQ(0, d->a.err);
	later = GET(d, 0, DOMAIN_ID);
	finish(&self->nl, &a);
	ASSERT_EQ(0, a.err);
	ASSERT_TRUE(a.interrupted);
	ASSERT_EQ(all, a.records);
	ASSERT_EQ(0, DO(&other, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, later })->a.err);
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(0, DO(&other, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, id[i] })->a.err);
	nl_close(&other);
}

/* Ranges that are confirmed are no ranges any more. */
TEST_F(netlink, confirmed_meanwhile)
{
	struct nl_answer a = { 0 };
	struct nl_request rq;
	u_int64_t y;

	ONLY_KERNEL();
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	y = t_shared(self->a, 4000);
	for (int i = 0; i < 1000; i++)
		t_write_flags_(self->a, 1, 0, C({ y, 4 * i, 4 * i + 1 }));
	rq = request(&self->nl, CAPKM_CMD_TAINT_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_RANGE_DOMAIN, self->a->domain }, { CAPKM_A_RANGE_BUFFER, y }));
	a = nl_talk(&self->nl, &rq, NULL, NULL);
	ASSERT_EQ(1000, a.records);
	ASSERT_FALSE(a.interrupted);
	memset(&a, 0, sizeof(a));
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, NULL, NULL));
	t_confirm(self->a, 1);
	finish(&self->nl, &a);
	ASSERT_EQ(0, a.err);
	ASSERT_LT(a.records, 1000);
	ASSERT_TRUE(a.interrupted);
}

/* Those of a failure only change with what carries it. */
TEST_F(netlink, carriers_changing)
{
	u_int64_t f, y, dom = self->a ? self->a->domain : 0;
	struct nl_answer a = { 0 };
	struct nl_request rq;

	ONLY_KERNEL();
	nl_close(&self->nl);
	self->nl = nl_on(nl_socket(), 4096);
	y = t_buffer(self->a, 4000);
	f = t_taint(self->a, "one", C({ y, 0, 1 }));
	for (int i = 1; i < 1000; i++)
		t_taint_with(self->a, f, C({ y, 4 * i, 4 * i + 1 }));
	rq = request(&self->nl, CAPKM_CMD_CARRIER_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_RANGE_DOMAIN, dom }, { CAPKM_A_RANGE_FAILURE, f }));
	nl_send(&self->nl, &rq);
	while (!a.done && nl_step(&self->nl, &a, NULL, NULL)) {
		t_taint(self->a, "another", C({ self->x, 0, 10 }));
		t_write_flags_(self->a, 1, 0, C({ self->x, 0, 10 }));
	}
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(1000, a.records);
	ASSERT_LE(5, a.parts);
	ASSERT_FALSE(a.interrupted);

	memset(&a, 0, sizeof(a));
	nl_send(&self->nl, &rq);
	ASSERT_TRUE(nl_step(&self->nl, &a, NULL, NULL));
	t_written(self->a, C({ y, 3000, 4000 }));
	finish(&self->nl, &a);
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(750, a.records);
	ASSERT_TRUE(a.interrupted);
}

/* ------------------------------------------------------------------ who may */

/* Runs @fn as another user in a process of its own; what it returns is 0 if all is well. */
static int as_nobody(int (*fn)(void *ctx), void *ctx)
{
	int pid = fork(), status;

	if (!pid) {
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(99);
		_exit(fn(ctx));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 98;
	return WEXITSTATUS(status);
}

struct stranger {
	u_int64_t closed, open, window, ledger;	/* domains; of the open one */
	int sock;
};

#define MUST(cond) do {							\
	if (!(cond)) {							\
		fprintf(stderr, "# %s:%d: not so: " #cond "\n", __FILE__, __LINE__); \
		return 1;						\
	}								\
} while (0)

static int look_around(void *ctx)
{
	const struct stranger *s = ctx;
	struct nl nl = nl_open();
	struct nl_request rq;
	struct dump *d;

	d = DUMP(&nl, DOMAIN_GET, { U32(CAPKM_A_DOMAIN_UID), 0 });
	MUST(!d->a.err);
	for (unsigned int i = 0; i < d->n; i++) {
		MUST(GET(d, i, DOMAIN_ID) != s->closed);
		MUST(GET(d, i, DOMAIN_RIGHTS) == CAPKM_RIGHT_READ);
	}
	MUST(d->n >= 1);
	MUST(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, s->closed })->a.err == -ENOENT);
	MUST(DUMP(&nl, SESSION_GET, { CAPKM_A_SESSION_DOMAIN, s->closed })->a.err == -ENOENT);
	MUST(DUMP(&nl, CLIENT_GET, { CAPKM_A_CLIENT_DOMAIN, s->closed })->a.err == -ENOENT);
	MUST(DUMP(&nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, s->closed })->a.err == -ENOENT);
	MUST(DUMP(&nl, LIMIT_GET, { CAPKM_A_LIMIT_DOMAIN, s->closed })->a.err == -ENOENT);
	MUST(DUMP(&nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, s->closed })->a.err == -ENOENT);
	MUST(DUMP(&nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, s->closed },
		  { CAPKM_A_RANGE_BUFFER, 1 })->a.err == -ENOENT);
	MUST(DUMP(&nl, CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, s->closed },
		  { CAPKM_A_RANGE_FAILURE, 1 })->a.err == -ENOENT);
	MUST(DO(&nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, s->closed },
		{ CAPKM_A_FAILURE_ID, 1 })->a.err == -ENOENT);
	MUST(DUMP(&nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, s->open })->n == 1);
	d = DUMP(&nl, WINDOW_GET, { CAPKM_A_WINDOW_SESSION, 1 });
	for (unsigned int i = 0; i < d->n; i++)
		MUST(GET(d, i, WINDOW_DOMAIN) != s->closed);
	rq = request(&nl, CAPKM_CMD_LIMIT_GET, NLM_F_DUMP, NULL, 0);
	nl_put(&rq, CAPKM_A_LIMIT_USERS, NULL, 0);
	MUST(talk(&nl, rq)->n == 0);

	d = DUMP(&nl, LEDGER_GET, { U32(CAPKM_A_LEDGER_ORPHANED), 1 });
	MUST(!d->a.err && d->n >= 1);
	for (unsigned int i = 0; i < d->n; i++)
		MUST(GET(d, i, LEDGER_DOMAIN) != s->closed);
	MUST(DUMP(&nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, s->open })->n == 1);
	MUST(DO(&nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, s->open },
		{ CAPKM_A_LEDGER_ID, s->ledger })->a.err == -EPERM);
	MUST(DO(&nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, s->open },
		{ CAPKM_A_LEDGER_ID, 1ull << 40 })->a.err == -EPERM);
	MUST(DO(&nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, s->closed },
		{ CAPKM_A_LEDGER_ID, 1 })->a.err == -ENOENT);

	MUST(DO(&nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, s->open },
		{ CAPKM_A_WINDOW_ID, s->window })->a.err == -EPERM);
	MUST(DO(&nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, s->closed },
		{ CAPKM_A_WINDOW_ID, 1 })->a.err == -ENOENT);
	MUST(DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, s->open })->a.err == -EPERM);
	MUST(DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, s->closed })->a.err == -ENOENT);
	MUST(DO(&nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, s->open },
		{ U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_BUFFERS },
		{ CAPKM_A_LIMIT_VALUE, 0 })->a.err == -EPERM);
	MUST(DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_UID), 0 })->a.err == -EPERM);
	MUST(DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_GID), 0 })->a.err == -EPERM);
	rq = request(&nl, CAPKM_CMD_DEVICE_FAULT, NLM_F_ACK, NULL, 0);
	nl_put(&rq, CAPKM_A_FAULT_DEVICE, "0123456789abcdef", 16);
	MUST(talk(&nl, rq)->a.err == -EPERM);
	rq = request(&nl, CAPKM_CMD_EVENT_SUBSCRIBE, NLM_F_ACK, NULL, 0);
	d = talk(&nl, rq);
	MUST(d->a.err == -EPERM && strstr(d->a.message, "CAP_SYS_ADMIN"));

	/* What is his own he may, from his own. */
	d = DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0640 });
	MUST(!d->a.err && d->n == 1);
	MUST(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, GET(d, 0, DOMAIN_ID) })->n == 1);
	rq = request(&nl, CAPKM_CMD_LIMIT_GET, NLM_F_DUMP, NULL, 0);
	nl_put(&rq, CAPKM_A_LIMIT_USERS, NULL, 0);
	MUST(talk(&nl, rq)->n == 2);
	MUST(!DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, GET(d, 0, DOMAIN_ID) })->a.err);
	return 0;
}

TEST_F(netlink, strangers)
{
	struct stranger s = { 0 };
	struct cl *b, *dying;

	ONLY_KERNEL();
	b = t_client();
	s.closed = self->a->domain;
	s.open = t_domain_mode(b, 0604);
	s.window = t_record(b, 1);
	t_record(self->a, 1);
	for (int i = 0; i < 2; i++) {
		dying = t_process();
		t_attach(dying, i ? s.open : s.closed);
		s.ledger = t_ledger(dying, 0, 10, CAPKM_ON_LIMIT_FAIL);
		t_kill(dying);
	}
	UNTIL(DUMP(&self->nl, LEDGER_GET, { U32(CAPKM_A_LEDGER_ORPHANED), 1 })->n >= 2);
	ASSERT_EQ(0, as_nobody(look_around, &s));
	ASSERT_EQ(0, t_adopt(b, s.ledger));
	ASSERT_EQ(0, t_ledger_destroy(b, s.ledger));
	ASSERT_EQ(0, DO(&self->nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, s.closed },
			{ CAPKM_A_LEDGER_ID, 1 })->a.err);
	t_close(b);
}

/* A socket that somebody else has opened. */
static int use_socket(void *ctx)
{
	struct stranger *s = ctx;
	struct nl nl;
	struct dump *d;

	nl = nl_on(s->sock, 32768);
	d = DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, s->closed });
	MUST(d->a.err == -EPERM);
	MUST(strstr(d->a.message, "another user"));
	d = DO(&nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, s->closed },
	       { CAPKM_A_WINDOW_ID, s->window });
	MUST(d->a.err == -EPERM && strstr(d->a.message, "another user"));
	MUST(DUMP(&nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, s->closed })->a.err == -EPERM);
	d = DO(&nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, s->closed },
	       { CAPKM_A_LEDGER_ID, 1 });
	MUST(d->a.err == -EPERM && strstr(d->a.message, "another user"));
	MUST(DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0600 })->a.err == -EPERM);
	MUST(DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, s->closed })->a.err == -EPERM);
	return 0;
}

static int give_socket(void *ctx)
{
	struct stranger *s = ctx;

	send_fd(s->sock, nl_socket());
	return 0;
}

TEST_F(netlink, passed_on)
{
	struct stranger s = { 0 };
	int pair[2];

	ONLY_KERNEL();
	s.closed = self->a->domain;
	s.window = t_record(self->a, 1);
	s.sock = nl_socket();
	ASSERT_EQ(0, as_nobody(use_socket, &s));
	close(s.sock);
	/* The other way, an administrator does not do what he was tricked into. */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	s.sock = pair[1];
	ASSERT_EQ(0, as_nobody(give_socket, &s));
	s.sock = receive_fd(pair[0]);
	ASSERT_LE(0, s.sock);
	ASSERT_EQ(0, use_socket(&s));
	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, s.closed }),
	    WINDOW_ID, s.window);
}

/* The same user and group, root, but without what makes an administrator. */
static void drop_admin(void)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &hdr, data))
		t_die("capget: %s", strerror(errno));
	data[0].effective &= ~(1u << CAP_SYS_ADMIN);
	data[0].permitted &= ~(1u << CAP_SYS_ADMIN);
	if (syscall(SYS_capset, &hdr, data))
		t_die("capset: %s", strerror(errno));
}

/* What takes an administrator; his own domain is there for him. */
static int not_as_admin(int fd, u_int64_t domain)
{
	struct nl nl = nl_on(fd, 32768);
	struct dump *d;

	MUST(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, domain })->n == 1);
	d = DO(&nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, domain },
	       { U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_BUFFERS }, { CAPKM_A_LIMIT_VALUE, 7 });
	MUST(d->a.err == -EPERM);
	MUST(DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_UID), NOBODY })->a.err == -EPERM);
	d = talk(&nl, request(&nl, CAPKM_CMD_EVENT_SUBSCRIBE, NLM_F_ACK, NULL, 0));
	MUST(d->a.err == -EPERM);
	return 0;
}

/* Both have to be: who opened the socket, and who uses it. */
TEST_F(netlink, opener_and_user)
{
	u_int64_t dom = self->a ? self->a->domain : 0;
	int pair[2], pid, status, fd;

	ONLY_KERNEL();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	fd = nl_socket();
	pid = fork();
	if (!pid) {
		drop_admin();
		send_fd(pair[1], nl_socket());
		_exit(not_as_admin(fd, dom));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	close(fd);
	fd = receive_fd(pair[0]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, not_as_admin(fd, dom));
	close(fd);
	/* It is not the socket, or the request. */
	ASSERT_EQ(0, DO(&self->nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, dom },
			{ U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_BUFFERS },
			{ CAPKM_A_LIMIT_VALUE, 7 })->a.err);
}

#define HIDDEN 300

/* Of a dump of domains, those of another user. */
static void count_hidden(void *ctx, const struct nl_attrs *attrs)
{
	*(unsigned int *)ctx += nl_number(attrs, CAPKM_A_DOMAIN_UID) == NOBODY;
}

/* The rest of a dump whose next part was made for who began it. */
static int read_rest(struct nl *nl, int want)
{
	struct nl_answer a = { 0 };
	unsigned int n = 0;

	MUST(nl_step(nl, &a, NULL, NULL));
	while (!a.done)
		MUST(nl_step(nl, &a, count_hidden, &n));
	MUST(a.err == want);
	MUST(!n);
	return 0;
}

static int as_nobody_rest(void *ctx)
{
	return read_rest(ctx, -EPERM);
}

/* Each part of a dump is for who reads it, and with less than its opener had. */
TEST_F(netlink, dump_passed_on)
{
	unsigned int n = 0;
	struct nl_request rq, made;
	struct nl_answer a = { 0 };
	int pair[2], pid, status;
	u_int64_t hidden[HIDDEN];
	struct nl nl;
	struct dump *d;

	ONLY_KERNEL();
	made = request(&self->nl, CAPKM_CMD_DOMAIN_NEW, NLM_F_ACK,
		       WITH({ U32(CAPKM_A_DOMAIN_UID), NOBODY },
			    { U32(CAPKM_A_DOMAIN_MODE), 0600 }));
	for (int i = 0; i < HIDDEN; i++) {
		d = talk(&self->nl, made);
		ASSERT_EQ(0, d->a.err);
		hidden[i] = GET(d, 0, DOMAIN_ID);
	}
	nl = nl_on(nl_socket(), 4096);
	rq = nl_request(&nl, CAPKM_CMD_DOMAIN_GET, NLM_F_DUMP);
	a = nl_talk(&nl, &rq, count_hidden, &n);
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(HIDDEN, n);

	/* Begun by an administrator, read by who is none, and by somebody else. */
	nl_send(&nl, &rq);
	pid = fork();
	if (!pid) {
		drop_admin();
		_exit(read_rest(&nl, 0));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	nl_close(&nl);
	nl = nl_on(nl_socket(), 4096);
	nl_send(&nl, &rq);
	ASSERT_EQ(0, as_nobody(as_nobody_rest, &nl));
	nl_close(&nl);

	/* The other way. */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (!pid) {
		drop_admin();
		nl = nl_on(nl_socket(), 4096);
		nl_send(&nl, &rq);
		send_fd(pair[1], nl.fd);
		_exit(0);
	}
	nl = nl_on(receive_fd(pair[0]), 4096);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	n = 0;
	a = nl_talk(&nl, &rq, count_hidden, &n);
	ASSERT_EQ(0, a.err);
	ASSERT_EQ(0, n);
	nl_close(&nl);
	for (int i = 0; i < HIDDEN; i++)
		ASSERT_EQ(0, DO(&self->nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, hidden[i] })->a.err);
}

/* Root without privilege in a container that has the host's network and no device. */
struct no_device {
	u_int64_t domain, window, failure, buffer;
};

#define IN_VAIN(d) do {							\
	struct dump *d_ = d;						\
									\
	MUST(d_->a.err == -EPERM && !d_->n);				\
	MUST(strstr(d_->a.message, "/dev/capkm open"));			\
} while (0)

static int ask_in_vain(struct nl *nl, const struct no_device *at)
{
	struct nl_request rq;

	IN_VAIN(DUMP(nl, DOMAIN_GET, { U32(CAPKM_A_DOMAIN_UID), 0 }));
	IN_VAIN(DUMP(nl, SESSION_GET, { CAPKM_A_SESSION_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, CLIENT_GET, { CAPKM_A_CLIENT_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, BUFFER_GET, { CAPKM_A_BUFFER_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, GRAPH_GET, { CAPKM_A_GRAPH_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, LIMIT_GET, { CAPKM_A_LIMIT_DOMAIN, at->domain }));
	IN_VAIN(DUMP(nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, at->domain },
		     { CAPKM_A_RANGE_BUFFER, at->buffer }));
	IN_VAIN(DUMP(nl, CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, at->domain },
		     { CAPKM_A_RANGE_FAILURE, at->failure }));
	IN_VAIN(DO(nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, at->domain },
		   { CAPKM_A_FAILURE_ID, at->failure }));
	IN_VAIN(DO(nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, at->domain },
		   { CAPKM_A_WINDOW_ID, at->window }));
	IN_VAIN(DO(nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, at->domain },
		   { CAPKM_A_LEDGER_ID, 1 }));
	IN_VAIN(DO(nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0600 }));
	IN_VAIN(DO(nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, at->domain }));
	IN_VAIN(DO(nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, at->domain },
		   { U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_BUFFERS },
		   { CAPKM_A_LIMIT_VALUE, 1 }));
	rq = request(nl, CAPKM_CMD_DEVICE_FAULT, NLM_F_ACK, NULL, 0);
	nl_put(&rq, CAPKM_A_FAULT_DEVICE, "0123456789abcdef", 16);
	IN_VAIN(talk(nl, rq));
	IN_VAIN(talk(nl, request(nl, CAPKM_CMD_EVENT_SUBSCRIBE, NLM_F_ACK, NULL, 0)));
	return 0;
}

static int open_no_device(const struct no_device *at)
{
	struct nl nl;
	int fd, rc;

	MUST(!syscall(SYS_close_range, 3, ~0u, 0));
	nl = nl_open();
	/* An administrator needs none. */
	MUST(DUMP(&nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, at->domain })->n == 1);
	drop_admin();
	rc = ask_in_vain(&nl, at);
	if (rc)
		return rc;
	/* That it is there is not enough. */
	fd = open("/dev/capkm", O_PATH);
	MUST(fd >= 0);
	IN_VAIN(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, at->domain }));
	close(fd);
	fd = open("/dev/capkm", O_RDWR);
	MUST(fd >= 0);
	MUST(DUMP(&nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, at->domain })->n == 1);
	close(fd);
	IN_VAIN(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, at->domain }));
	return 0;
}

/* Who has not opened the device has no other way to what it keeps. */
TEST_F(netlink, no_device)
{
	struct no_device at = { 0 };
	int pid, status;

	ONLY_KERNEL();
	at.domain = self->a->domain;
	at.buffer = self->x;
	at.window = t_record(self->a, 1);
	at.failure = t_taint(self->a, "bad", C({ self->x, 0, 10 }));
	ASSERT_EQ(1, t_ledger(self->a, 0, 10, CAPKM_ON_LIMIT_FAIL));
	pid = fork();
	if (!pid)
		_exit(open_no_device(&at));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, at.domain }),
	    WINDOW_ID, at.window);
	ASSERT_EQ(0, t_ledger_destroy(self->a, 1));
}

/* Root of a user namespace, with all capabilities there: a user like others. */
static int be_root_inside(void *ctx)
{
	const struct stranger *s = ctx;
	struct capkm_limit_value more = { .limit = CAPKM_LIMIT_HISTORY, .value = 1 << 20 };
	struct capkm_domain_create create = {
		.limits_uptr = t_ptr(&more), .limits_len = 1,
	};
	struct capkm_domain_attach attach = { .domain = s->closed };
	struct capkm_device_fault fault = { .device[0] = 9 };
	struct nl_request rq;
	struct dump *d;
	struct nl nl;
	struct cl *b;

	/* After a change of users it is not dumpable, and the files below are not its own. */
	MUST(!prctl(PR_SET_DUMPABLE, 1) && !unshare(CLONE_NEWUSER));
	MUST(t_put_file("/proc/self/setgroups", "deny") && t_put_file("/proc/self/uid_map", "0 65534 1") &&
	     t_put_file("/proc/self/gid_map", "0 65534 1"));
	MUST(!getuid());
	for (int own_network = 0; own_network <= 1; own_network++) {
		MUST(!own_network || !unshare(CLONE_NEWNET));
		nl = nl_open();
		MUST(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, s->closed })->a.err == -ENOENT);
		d = DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_UID), 0 });
		MUST(!d->a.err && d->n == 1);
		MUST(DO(&nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, GET(d, 0, DOMAIN_ID) },
			{ U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_BUFFERS },
			{ CAPKM_A_LIMIT_VALUE, 1 })->a.err == -EPERM);
		MUST(!DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, GET(d, 0, DOMAIN_ID) })->a.err);
		MUST(DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_UID), 1 })->a.err == -EINVAL);
		rq = request(&nl, CAPKM_CMD_DEVICE_FAULT, NLM_F_ACK, NULL, 0);
		nl_put(&rq, CAPKM_A_FAULT_DEVICE, "0123456789abcdef", 16);
		MUST(talk(&nl, rq)->a.err == -EPERM);
		rq = request(&nl, CAPKM_CMD_EVENT_SUBSCRIBE, NLM_F_ACK, NULL, 0);
		MUST(talk(&nl, rq)->a.err == -EPERM);
		nl_close(&nl);
	}
	b = t_client();
	MUST(t_call(b, CAPKM_NR_DOMAIN_ATTACH, &attach) == -ENOENT);
	MUST(t_call(b, CAPKM_NR_DOMAIN_CREATE, &create) == -EPERM);
	t_domain(b);
	MUST(t_call(b, CAPKM_NR_DEVICE_FAULT, &fault) == -EPERM);
	t_close(b);
	return 0;
}

TEST_F(netlink, root_of_a_user_namespace)
{
	struct stranger s = { 0 };

	ONLY_KERNEL();
	s.closed = self->a->domain;
	ASSERT_EQ(0, as_nobody(be_root_inside, &s));
}

/* A child in a network namespace of its own, as a container has one. */
struct elsewhere {
	u_int64_t host, window, failure, buffer;	/* of the host, a domain and its things */
	u_int64_t other;		/* a domain made in another one */
	int up, down;
};

/* What it says of the domains that it has made: by netlink, and with the device. */
static int look_from_elsewhere(const struct elsewhere *at)
{
	u_int64_t made[2];
	struct nl_request rq;
	struct dump *d;
	struct nl nl;
	struct cl *b;
	char c;

	MUST(!unshare(CLONE_NEWNET));
	nl = nl_open();
	d = DUMP(&nl, DOMAIN_GET, { U32(CAPKM_A_DOMAIN_UID), 0 });
	MUST(!d->a.err && !d->n);
	d = DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, at->host });
	MUST(d->a.err == -ENOENT && strstr(d->a.message, "no such domain"));
	MUST(DUMP(&nl, SESSION_GET, { CAPKM_A_SESSION_DOMAIN, at->host })->a.err == -ENOENT);
	MUST(DUMP(&nl, CLIENT_GET, { CAPKM_A_CLIENT_DOMAIN, at->host })->a.err == -ENOENT);
	MUST(DUMP(&nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, at->host })->a.err == -ENOENT);
	MUST(DUMP(&nl, BUFFER_GET, { CAPKM_A_BUFFER_DOMAIN, at->host })->a.err == -ENOENT);
	MUST(DUMP(&nl, LIMIT_GET, { CAPKM_A_LIMIT_DOMAIN, at->host })->a.err == -ENOENT);
	MUST(DUMP(&nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, at->host })->a.err == -ENOENT);
	MUST(!DUMP(&nl, LEDGER_GET, { U32(CAPKM_A_LEDGER_UID), 0 })->n);
	MUST(DO(&nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, at->host },
		{ CAPKM_A_LEDGER_ID, 1 })->a.err == -ENOENT);
	MUST(DUMP(&nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, at->host },
		  { CAPKM_A_RANGE_BUFFER, at->buffer })->a.err == -ENOENT);
	MUST(DUMP(&nl, CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, at->host },
		  { CAPKM_A_RANGE_FAILURE, at->failure })->a.err == -ENOENT);
	MUST(!DUMP(&nl, WINDOW_GET, { U32(CAPKM_A_WINDOW_UID), 0 })->n);
	MUST(DO(&nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, at->host },
		{ CAPKM_A_FAILURE_ID, at->failure })->a.err == -ENOENT);
	MUST(DO(&nl, ABANDON, { CAPKM_A_WINDOW_DOMAIN, at->host },
		{ CAPKM_A_WINDOW_ID, at->window })->a.err == -ENOENT);
	MUST(DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, at->host })->a.err == -ENOENT);
	MUST(DO(&nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, at->host },
		{ U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_BUFFERS },
		{ CAPKM_A_LIMIT_VALUE, 0 })->a.err == -ENOENT);
	MUST(!at->other ||
	     DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, at->other })->a.err == -ENOENT);
	rq = request(&nl, CAPKM_CMD_EVENT_SUBSCRIBE, NLM_F_ACK, NULL, 0);
	d = talk(&nl, rq);
	MUST(d->a.err == -EPERM && strstr(d->a.message, "initial network namespace"));

	/* The device is another way in, by owner and mode. */
	b = t_client();
	made[0] = t_domain(b);
	d = DO(&nl, DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0600 });
	MUST(!d->a.err && d->n == 1);
	made[1] = GET(d, 0, DOMAIN_ID);
	d = DUMP(&nl, DOMAIN_GET, { U32(CAPKM_A_DOMAIN_UID), 0 });
	MUST(d->n == 2 && GET(d, 0, DOMAIN_ID) == made[0] && GET(d, 1, DOMAIN_ID) == made[1]);
	d = DUMP(&nl, SESSION_GET, { U32(CAPKM_A_SESSION_UID), 0 });
	MUST(d->n == 1 && GET(d, 0, SESSION_ID) == b->session);
	b = t_client();
	t_attach(b, at->host);
	MUST(DUMP(&nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, at->host })->a.err == -ENOENT);
	MUST(write(at->up, made, sizeof(made)) == sizeof(made));
	MUST(read(at->down, &c, 1) == 1);
	MUST(!DO(&nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, made[1] })->a.err);
	return 0;
}

static int start_elsewhere(struct elsewhere *at, int *go, u_int64_t made[2])
{
	int up[2], down[2], pid;

	if (pipe(up) || pipe(down))
		t_die("pipe: %s", strerror(errno));
	at->up = up[1];
	at->down = down[0];
	pid = fork();
	if (!pid)
		_exit(look_from_elsewhere(at));
	close(up[1]);
	close(down[0]);
	*go = down[1];
	if (read(up[0], made, 2 * sizeof(*made)) != 2 * sizeof(*made))
		t_die("it went wrong there");
	close(up[0]);
	return pid;
}

/* A network namespace has the domains that were made there; the initial one has all. */
TEST_F(netlink, elsewhere)
{
	struct elsewhere at = { 0 };
	u_int64_t made[2][2];
	int pid[2], go[2], status;

	ONLY_KERNEL();
	at.host = self->a->domain;
	at.buffer = self->x;
	at.window = t_record(self->a, 1);
	at.failure = t_taint(self->a, "bad", C({ self->x, 0, 10 }));
	ASSERT_EQ(1, t_ledger(self->a, 0, 10, CAPKM_ON_LIMIT_FAIL));
	pid[0] = start_elsewhere(&at, &go[0], made[0]);
	at.other = made[0][1];
	pid[1] = start_elsewhere(&at, &go[1], made[1]);
	for (int i = 0; i < 4; i++)
		IDS(DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, made[i / 2][i % 2] }),
		    DOMAIN_ID, made[i / 2][i % 2]);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, write(go[i], "", 1));
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		ASSERT_EQ(0, status);
	}
	IDS(DUMP(&self->nl, WINDOW_GET, { CAPKM_A_WINDOW_DOMAIN, at.host }), WINDOW_ID, at.window);
	ASSERT_EQ(0, t_ledger_destroy(self->a, 1));
}

/* ------------------------------------------------------------------ wrong requests */

#define DUMPED(cmd, ...) request(&self->nl, CAPKM_CMD_##cmd, NLM_F_DUMP, WITH(__VA_ARGS__))
#define DONE(cmd, ...) request(&self->nl, CAPKM_CMD_##cmd, NLM_F_ACK, WITH(__VA_ARGS__))

/* Where a dump ends with an error, old kernels give no more than the words. */
#define SAID(rq, what, want)						\
	ASSERT_TRUE((what) == (want) ||					\
		    (!(what) && (rq).hdr.nlmsg_flags & NLM_F_DUMP))

/* -EINVAL, and where in the request it is. */
#define WRONG(rq_, offset_, part) do {					\
	struct nl_request wrong_ = rq_;					\
	struct dump *answer_ = talk(&self->nl, wrong_);			\
									\
	NO(answer_, -EINVAL, part);					\
	SAID(wrong_, answer_->a.offset, offset_);			\
} while (0)

#define LACKS(rq_, attr, name) do {					\
	struct nl_request lacks_ = rq_;					\
	struct dump *answer_ = talk(&self->nl, lacks_);			\
									\
	NO(answer_, -EINVAL, "attribute missing: " name);		\
	SAID(lacks_, answer_->a.missing, attr);				\
} while (0)

#define FIRST NLMSG_LENGTH(GENL_HDRLEN)

TEST_F(netlink, wrong)
{
	u_int64_t dom = self->a ? self->a->domain : 0;
	struct nl_request rq;

	ONLY_KERNEL();
	/* Of a wrong length */
	rq = nl_request(&self->nl, CAPKM_CMD_DOMAIN_GET, NLM_F_DUMP);
	nl_put_u32(&rq, CAPKM_A_DOMAIN_ID, 1);
	WRONG(rq, FIRST, "length");
	rq = nl_request(&self->nl, CAPKM_CMD_WINDOW_GET, NLM_F_DUMP);
	nl_put(&rq, CAPKM_A_WINDOW_DEVICE, "0123456789abcde", 15);
	ASSERT_EQ(-ERANGE, talk(&self->nl, rq)->a.err);
	/* Of a wrong value */
	rq = DUMPED(DOMAIN_GET, { CAPKM_A_DOMAIN_ID, 0 });
	ASSERT_EQ(-ERANGE, talk(&self->nl, rq)->a.err);
	rq = DONE(DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 01000 });
	ASSERT_EQ(-ERANGE, talk(&self->nl, rq)->a.err);
	WRONG(DONE(DOMAIN_NEW, { U32(CAPKM_A_DOMAIN_MODE), 0100 }), FIRST, "mode");
	rq = nl_request(&self->nl, CAPKM_CMD_DOMAIN_NEW, NLM_F_ACK);
	nl_put_text(&rq, CAPKM_A_DOMAIN_NAME, "a/b");
	WRONG(rq, FIRST, "name");
	rq = nl_request(&self->nl, CAPKM_CMD_DOMAIN_NEW, NLM_F_ACK);
	nl_put(&rq, CAPKM_A_DOMAIN_NAME, "unterminated", 12);
	WRONG(rq, FIRST, "");
	rq = nl_request(&self->nl, CAPKM_CMD_DEVICE_FAULT, NLM_F_ACK);
	nl_put(&rq, CAPKM_A_FAULT_DEVICE, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	WRONG(rq, FIRST, "host");
	/* Unknown, or not for a request */
	WRONG(DUMPED(DOMAIN_GET, { 60, 1 }), FIRST, "");
	WRONG(DUMPED(DOMAIN_GET, { CAPKM_A_DOMAIN_SEQUENCE, 1 }), FIRST, "");
	WRONG(DUMPED(BUFFER_GET, { CAPKM_A_BUFFER_BYTES, 1 }), FIRST, "");
	WRONG(DUMPED(FAILURE_GET, { CAPKM_A_FAILURE_BUFFER, 1 }), FIRST, "buffer: not in a dump");
	WRONG(DONE(FAILURE_GET, { CAPKM_A_FAILURE_PID, 1 }), FIRST, "");
	WRONG(DONE(FAILURE_GET, { U32(CAPKM_A_FAILURE_PID), 1 },
		   { CAPKM_A_FAILURE_DOMAIN, dom }, { CAPKM_A_FAILURE_ID, 1 }),
	      FIRST, "only in a dump");
	rq = nl_request(&self->nl, CAPKM_CMD_LIMIT_GET, NLM_F_DUMP);
	nl_put(&rq, CAPKM_A_LIMIT_USERS, NULL, 0);
	nl_put(&rq, CAPKM_A_LIMIT_DEFAULTS, NULL, 0);
	WRONG(rq, FIRST, "one at a time");
	for (int i = 0; i < 2; i++) {
		rq = DUMPED(LIMIT_GET, { CAPKM_A_LIMIT_DOMAIN, dom });
		nl_put(&rq, i ? CAPKM_A_LIMIT_USERS : CAPKM_A_LIMIT_DEFAULTS, NULL, 0);
		WRONG(rq, FIRST, "domain: not with");
	}
	/* An id without its domain */
	WRONG(DUMPED(WINDOW_GET, { CAPKM_A_WINDOW_ID, 1 }), FIRST, "id: needs the domain");
	WRONG(DUMPED(BUFFER_GET, { CAPKM_A_BUFFER_ID, 1 }), FIRST, "id: needs the domain");
	WRONG(DUMPED(GRAPH_GET, { CAPKM_A_GRAPH_ID, 1 }), FIRST, "id: needs the domain");
	WRONG(DUMPED(FAILURE_GET, { CAPKM_A_FAILURE_ID, 1 }), FIRST, "id: needs the domain");
	WRONG(DUMPED(LEDGER_GET, { CAPKM_A_LEDGER_ID, 1 }), FIRST, "id: needs the domain");
	WRONG(DUMPED(LEDGER_GET, { CAPKM_A_LEDGER_TOTAL, 1 }), FIRST, "");
	/* Missing */
	LACKS(DUMPED(TAINT_GET, { CAPKM_A_RANGE_BUFFER, 1 }), CAPKM_A_RANGE_DOMAIN, "domain");
	LACKS(DUMPED(TAINT_GET, { CAPKM_A_RANGE_DOMAIN, dom }), CAPKM_A_RANGE_BUFFER, "buffer");
	LACKS(DUMPED(CARRIER_GET, { CAPKM_A_RANGE_DOMAIN, dom }), CAPKM_A_RANGE_FAILURE,
	      "failure");
	LACKS(DONE(ABANDON, { CAPKM_A_WINDOW_ID, 1 }), CAPKM_A_WINDOW_DOMAIN, "domain");
	LACKS(DONE(ABANDON, { CAPKM_A_WINDOW_DOMAIN, dom }), CAPKM_A_WINDOW_ID, "id");
	LACKS(DONE(LEDGER_DEL, { CAPKM_A_LEDGER_ID, 1 }), CAPKM_A_LEDGER_DOMAIN, "domain");
	LACKS(DONE(LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, dom }), CAPKM_A_LEDGER_ID, "id");
	LACKS(DONE(FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, dom }), CAPKM_A_FAILURE_ID, "id");
	LACKS(nl_request(&self->nl, CAPKM_CMD_DOMAIN_DEL, NLM_F_ACK), CAPKM_A_DOMAIN_ID, "id");
	LACKS(nl_request(&self->nl, CAPKM_CMD_DEVICE_FAULT, NLM_F_ACK), CAPKM_A_FAULT_DEVICE,
	      "device");
	LACKS(DONE(LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, dom }, { CAPKM_A_LIMIT_VALUE, 1 }),
	      CAPKM_A_LIMIT_LIMIT, "limit");
	LACKS(DONE(LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, dom }, { U32(CAPKM_A_LIMIT_LIMIT), 3 }),
	      CAPKM_A_LIMIT_VALUE, "value");
	/* What is an event is no request; what only dumps does nothing else. */
	ASSERT_EQ(-EOPNOTSUPP, talk(&self->nl, DONE(EVENT, { 1, 1 }))->a.err);
	WRONG(DONE(EVENT_SUBSCRIBE, { CAPKM_A_EVENT_PAD, 1 }), FIRST, "");
	WRONG(DONE(EVENT_SUBSCRIBE, { CAPKM_A_EVENT_DOMAIN, 1 }), FIRST, "");
	ASSERT_EQ(-EOPNOTSUPP, talk(&self->nl, DONE(DOMAIN_GET, { 2, 1 }))->a.err);
}

/* ------------------------------------------------------------------ what is done */

static struct nl_request new_domain(struct nl *nl, const char *name, unsigned int mode)
{
	struct nl_request rq = nl_request(nl, CAPKM_CMD_DOMAIN_NEW, NLM_F_ACK);

	nl_put_text(&rq, CAPKM_A_DOMAIN_NAME, name);
	if (mode)
		nl_put_u32(&rq, CAPKM_A_DOMAIN_MODE, mode);
	return rq;
}

TEST_F(netlink, new_and_del)
{
	struct capkm_domain_attach at = { .name_uptr = t_ptr("made"), .name_len = 4 };
	struct nl_request rq;
	struct dump *d, *e;
	u_int64_t id, other;
	struct cl *b;

	ONLY_KERNEL();
	d = talk(&self->nl, new_domain(&self->nl, "made", 0640));
	ASSERT_EQ(0, d->a.err);
	ASSERT_EQ(1, d->n);
	id = GET(d, 0, DOMAIN_ID);
	d = DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, id });
	IDS(d, DOMAIN_ID, id);
	ASSERT_STREQ("made", TEXT(d, 0, DOMAIN_NAME));
	ASSERT_EQ(0640, GET(d, 0, DOMAIN_MODE));
	ASSERT_EQ(CAPKM_DOMAIN_PERSISTENT, GET(d, 0, DOMAIN_STATE));
	ASSERT_EQ(0, GET(d, 0, DOMAIN_SESSIONS));
	NO(talk(&self->nl, new_domain(&self->nl, "made", 0)), -EEXIST, "name");
	/* For somebody else the name is free. */
	rq = new_domain(&self->nl, "made", 0);
	nl_put_u32(&rq, CAPKM_A_DOMAIN_UID, NOBODY);
	e = talk(&self->nl, rq);
	ASSERT_EQ(0, e->a.err);
	other = GET(e, 0, DOMAIN_ID);
	d = DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, other });
	ASSERT_EQ(NOBODY, GET(d, 0, DOMAIN_UID));
	ASSERT_EQ(0600, GET(d, 0, DOMAIN_MODE));
	ASSERT_EQ(0, DO(&self->nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, other })->a.err);

	b = t_process();
	T_OK(b, DOMAIN_ATTACH, &at);
	ASSERT_EQ(id, at.out_domain);
	NO(DO(&self->nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, id }), -EBUSY, "sessions");
	rq = request(&self->nl, CAPKM_CMD_DOMAIN_DEL, NLM_F_ACK, WITH({ CAPKM_A_DOMAIN_ID, id }));
	nl_put(&rq, CAPKM_A_DOMAIN_FORCE, NULL, 0);
	ASSERT_EQ(0, talk(&self->nl, rq)->a.err);
	NO(talk(&self->nl, rq), -ENOENT, "no such domain");
	ASSERT_EQ(-ECANCELED, t_drop(b, 1));
	t_kill(b);
	/* It outlives a session. */
	d = talk(&self->nl, new_domain(&self->nl, "made", 0));
	id = GET(d, 0, DOMAIN_ID);
	b = t_client();
	t_attach(b, id);
	t_close(b);
	IDS(DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, id }), DOMAIN_ID, id);
	ASSERT_EQ(0, DO(&self->nl, DOMAIN_DEL, { CAPKM_A_DOMAIN_ID, id })->a.err);
}

static struct dump *set_limit(struct nl *nl, u_int64_t domain, unsigned int limit,
			      u_int64_t value)
{
	return DO(nl, LIMIT_SET, { CAPKM_A_LIMIT_DOMAIN, domain },
		  { U32(CAPKM_A_LIMIT_LIMIT), limit }, { CAPKM_A_LIMIT_VALUE, value });
}

static struct dump *get_limit(struct nl *nl, u_int64_t domain, unsigned int limit)
{
	return DUMP(nl, LIMIT_GET, { CAPKM_A_LIMIT_DOMAIN, domain },
		    { U32(CAPKM_A_LIMIT_LIMIT), limit });
}

TEST_F(netlink, limits)
{
	u_int64_t dom = self->a ? self->a->domain : 0, w[4];
	struct nl_request rq;
	struct dump *d;

	ONLY_KERNEL();
	d = DUMP(&self->nl, LIMIT_GET, { CAPKM_A_LIMIT_DOMAIN, dom });
	ASSERT_EQ(CAPKM_LIMITS - 3, d->n);	/* without 0 and those of users */
	for (unsigned int i = 0; i < d->n; i++)
		ASSERT_EQ(t_limit(self->a, GET(d, i, LIMIT_LIMIT)), GET(d, i, LIMIT_VALUE));
	d = get_limit(&self->nl, dom, CAPKM_LIMIT_BUFFERS);
	IDS(d, LIMIT_USED, 1);
	d = get_limit(&self->nl, dom, CAPKM_LIMIT_MEMBERS);
	ASSERT_EQ(1, d->n);
	ASSERT_EQ(NULL, d->r[0].a[CAPKM_A_LIMIT_USED]);
	rq = nl_request(&self->nl, CAPKM_CMD_LIMIT_GET, NLM_F_DUMP);
	nl_put(&rq, CAPKM_A_LIMIT_DEFAULTS, NULL, 0);
	ASSERT_EQ(CAPKM_LIMITS - 1, talk(&self->nl, rq)->n);
	rq = request(&self->nl, CAPKM_CMD_LIMIT_GET, NLM_F_DUMP,
		     WITH({ U32(CAPKM_A_LIMIT_UID), 0 },
			  { U32(CAPKM_A_LIMIT_LIMIT), CAPKM_LIMIT_DOMAINS }));
	nl_put(&rq, CAPKM_A_LIMIT_USERS, NULL, 0);
	d = talk(&self->nl, rq);
	ASSERT_EQ(1, d->n);
	ASSERT_LE(1, GET(d, 0, LIMIT_USED));

	/* Below what is used: it stays, and nothing more comes. */
	create(self->a);
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_BUFFERS, 1)->a.err);
	ASSERT_EQ(2, t_domain_query(self->a).out_buffers);
	ASSERT_EQ(0, create(self->a));
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_BUFFERS, 3)->a.err);
	ASSERT_NE(0, create(self->a));
	ASSERT_EQ(0, create(self->a));
	/* Ranges: not even one that would split another. */
	t_taint(self->a, "bad", C({ self->x, 0, 10 }));
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_RANGES, 0)->a.err);
	ASSERT_EQ(-ENOSPC, t_try_taint(self->a, C({ self->x, 20, 30 }), 0, "bad", w));
	t_written(self->a, C({ self->x, 0, 10 }));
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_RANGES, U64_MAX)->a.err);
	t_taint(self->a, "bad", C({ self->x, 20, 30 }));
	/* The oldest of what is remembered goes at once. */
	for (int i = 0; i < 4; i++) {
		w[i] = t_record(self->a, 1);
		t_abort(self->a, 1);
	}
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_HISTORY, 2)->a.err);
	rq = request(&self->nl, CAPKM_CMD_WINDOW_GET, NLM_F_DUMP,
		     WITH({ CAPKM_A_WINDOW_DOMAIN, dom }));
	nl_put(&rq, CAPKM_A_WINDOW_HISTORY, NULL, 0);
	IDS(talk(&self->nl, rq), WINDOW_ID, w[2], w[3]);

	NO(set_limit(&self->nl, dom, CAPKM_LIMIT_EVENTS, 1), -EOPNOTSUPP, "fixed");
	NO(set_limit(&self->nl, dom, CAPKM_LIMIT_DOMAINS, 1), -EINVAL, "users");
	NO(set_limit(&self->nl, dom, CAPKM_LIMITS, 1), -EINVAL, "no limit");
	NO(set_limit(&self->nl, 1ull << 40, CAPKM_LIMIT_BUFFERS, 1), -ENOENT, "domain");
}

/* Set while it is used: it is charged with nothing more, until there is room again. */
TEST_F(netlink, limits_of_ledgers)
{
	u_int64_t dom = self->a ? self->a->domain : 0, l, m;
	struct t_reserve r;

	ONLY_KERNEL();
	l = t_ledger(self->a, 0, 1000, CAPKM_ON_LIMIT_FAIL);
	m = t_ledger(self->a, 0, 1000, CAPKM_ON_LIMIT_FAIL);
	t_charge(self->a, m, 10);
	t_charge(self->a, l, 60);
	IDS(get_limit(&self->nl, dom, CAPKM_LIMIT_LEDGERS), LIMIT_USED, 2);
	IDS(get_limit(&self->nl, dom, CAPKM_LIMIT_LEDGER_HOST), LIMIT_USED, 70);
	IDS(get_limit(&self->nl, dom, CAPKM_LIMIT_LEDGER_HOST), LIMIT_VALUE, UINT64_MAX);
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_LEDGER_HOST, 50)->a.err);
	r = t_reserve(self->a, l, (struct capkm_usage){ .captures = 1 });
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_REFUSED, r.a.out_result);
	ASSERT_EQ(CAPKM_AXIS_HOST, r.a.out_axis);
	ASSERT_EQ(CAPKM_BOUND_DOMAIN, r.a.out_bound);
	ASSERT_EQ(70, r.a.out_used);
	ASSERT_EQ(50, r.a.out_most);
	IDS(get_limit(&self->nl, dom, CAPKM_LIMIT_LEDGER_HOST), LIMIT_USED, 70);
	ASSERT_EQ(0, set_limit(&self->nl, dom, CAPKM_LIMIT_LEDGER_HOST, 71)->a.err);
	t_charge(self->a, l, 1);
	/* What was charged stays used when nothing is left of it. */
	ASSERT_EQ(0, t_ledger_destroy(self->a, l));
	ASSERT_EQ(0, t_ledger_destroy(self->a, m));
	IDS(get_limit(&self->nl, dom, CAPKM_LIMIT_LEDGERS), LIMIT_USED, 0);
	IDS(get_limit(&self->nl, dom, CAPKM_LIMIT_LEDGER_HOST), LIMIT_USED, 71);
}

#define DEL(dom, ledger) DO(&self->nl, LEDGER_DEL, { CAPKM_A_LEDGER_DOMAIN, dom },	\
			    { CAPKM_A_LEDGER_ID, ledger })

/* Only what nobody holds; and a domain that it was all of goes with it. */
TEST_F(netlink, ledger_del)
{
	u_int64_t dom = self->a ? self->a->domain : 0, l, m, n;
	struct dump *d;
	struct cl *b;

	ONLY_KERNEL();
	l = t_ledger(self->a, 0, 10, CAPKM_ON_LIMIT_FAIL);
	b = t_process();
	t_attach(b, dom);
	m = t_ledger(b, CAPKM_LEDGER_F_SHARED, 10, CAPKM_ON_LIMIT_FAIL);
	t_charge(self->a, m, 6);
	NO(DEL(dom, l), -EBUSY, "holds it");
	NO(DEL(dom, m), -EBUSY, "holds it");
	NO(DEL(dom, m + 1), -ENOENT, "no such ledger");
	NO(DEL(1ull << 40, m), -ENOENT, "no such domain");
	t_kill(b);
	UNTIL(LEDGERS({ U32(CAPKM_A_LEDGER_ORPHANED), 1 })->n == 1);
	NO(DEL(dom, l), -EBUSY, "holds it");
	ASSERT_EQ(0, DEL(dom, m)->a.err);
	NO(DEL(dom, m), -ENOENT, "no such ledger");
	ASSERT_EQ(-ENOENT, t_reserve(self->a, m, t_usage(1)).rc);
	ASSERT_EQ(6, t_domain_query(self->a).out_charged.host_bytes);
	IDS(DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom }), LEDGER_ID, l);
	ASSERT_EQ(0, t_ledger_destroy(self->a, l));

	b = t_process();
	dom = t_domain(b);
	n = t_ledger(b, 0, 10, CAPKM_ON_LIMIT_FAIL);
	m = t_ledger(b, 0, 10, CAPKM_ON_LIMIT_FAIL);
	t_kill(b);
	UNTIL(DUMP(&self->nl, LEDGER_GET, { CAPKM_A_LEDGER_DOMAIN, dom },
		   { U32(CAPKM_A_LEDGER_ORPHANED), 1 })->n == 2);
	ASSERT_EQ(0, DEL(dom, n)->a.err);
	d = DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, dom });
	IDS(d, DOMAIN_ID, dom);
	ASSERT_EQ(CAPKM_DOMAIN_DEFUNCT, GET(d, 0, DOMAIN_STATE));
	ASSERT_EQ(0, DEL(dom, m)->a.err);
	NO(DUMP(&self->nl, DOMAIN_GET, { CAPKM_A_DOMAIN_ID, dom }), -ENOENT, "no such domain");
}

TEST_F(netlink, device_fault)
{
	unsigned char gpu[16] = { 1 };
	u_int64_t dom = self->a ? self->a->domain : 0, y, z;
	struct nl_attrs cause;
	struct nl_request rq;
	struct dump *d;
	struct cl *b;

	ONLY_KERNEL();
	b = t_process();
	t_domain(b);
	y = t_buffer_on(self->a, GPU, 100, 0);
	z = t_buffer_on(b, GPU, 100, 0);
	t_buffer_on(b, T_GPU(2), 100, 0);
	rq = nl_request(&self->nl, CAPKM_CMD_DEVICE_FAULT, NLM_F_ACK);
	nl_put(&rq, CAPKM_A_FAULT_DEVICE, gpu, 16);
	nl_put_u32(&rq, CAPKM_A_FAULT_CODE, -79);
	nl_put_text(&rq, CAPKM_A_FAULT_TEXT, "fallen off the bus");
	d = talk(&self->nl, rq);
	IDS(d, FAULT_CLIENTS, 2);
	d = DUMP(&self->nl, TAINT_GET, { CAPKM_A_RANGE_DOMAIN, dom },
		 { CAPKM_A_RANGE_BUFFER, y });
	IDS(d, RANGE_START, 0);
	ASSERT_EQ(100, GET(d, 0, RANGE_END));
	nl_nested(&cause, d->r[0].a[CAPKM_A_RANGE_CAUSE]);
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, nl_number(&cause, CAPKM_A_FAILURE_KIND));
	ASSERT_EQ(-79, (int)nl_number(&cause, CAPKM_A_FAILURE_CODE));
	ASSERT_STREQ("fallen off the bus", nl_text(&cause, CAPKM_A_FAILURE_TEXT));
	IDS(DUMP(&self->nl, FAILURE_GET, { CAPKM_A_FAILURE_DOMAIN, b->domain },
		 { U32(CAPKM_A_FAILURE_KIND), CAPKM_KIND_DEVICE_FAULT }),
	    FAILURE_DOMAIN, b->domain);
	t_is_tainted(b, z, 0, 100, CAPKM_KIND_DEVICE_FAULT);
	/* Again: they have not renewed, nothing happens. */
	IDS(talk(&self->nl, rq), FAULT_CLIENTS, 0);
	t_kill(b);
}

/* ------------------------------------------------------------------ events */

/* 0 or negative. Only a refusal is answered, at once: no event is taken for it. */
static int subscribe(struct nl *nl)
{
	struct nl_request rq = nl_request(nl, CAPKM_CMD_EVENT_SUBSCRIBE, 0);
	char room[8192] __attribute__((aligned(8)));
	const struct nlmsghdr *hdr = (const void *)room;
	struct nl_answer a = { 0 };

	nl_send(nl, &rq);
	if (recv(nl->fd, room, sizeof(room), MSG_PEEK | MSG_DONTWAIT) < 0)
		return errno == EAGAIN || errno == ENOBUFS ? 0 : -errno;
	if (hdr->nlmsg_type != NLMSG_ERROR)
		return 0;
	recv(nl->fd, room, sizeof(room), 0);
	nl_message(&a, hdr, NULL, NULL);
	return a.err;
}

static void follow(struct nl *nl)
{
	int err = subscribe(nl);

	if (err)
		t_die("events: %s", strerror(-err));
}

/* Of one domain, those that are there. */
struct events {
	u_int64_t domain, last;		/* number */
	unsigned int n, gaps, types[64];
	u_int64_t lost;
};

static void count(void *ctx, const struct nl_attrs *attrs)
{
	struct events *e = ctx;
	u_int64_t number = nl_number(attrs, CAPKM_A_EVENT_NUMBER);

	if (nl_number(attrs, CAPKM_A_EVENT_DOMAIN) != e->domain)
		return;
	if (e->last && number <= e->last)
		t_die("event %llu after %llu", (unsigned long long)number,
		      (unsigned long long)e->last);
	if (e->last && number != e->last + 1) {
		e->gaps++;
		e->lost += number - e->last - 1;
	}
	e->last = number;
	if (e->n < ARRAY_SIZE(e->types))
		e->types[e->n] = nl_number(attrs, CAPKM_A_EVENT_TYPE);
	e->n++;
}

/* Reads what is there; how often something was lost. */
static unsigned int drain(struct nl *nl, struct events *e)
{
	const struct timeval now = { .tv_usec = 1000 };
	static char room[8192] __attribute__((aligned(8)));
	const struct nlmsghdr *hdr = (const void *)room;
	struct nl_answer a = { 0 };
	unsigned int overruns = 0;
	ssize_t n;

	if (setsockopt(nl->fd, SOL_SOCKET, SO_RCVTIMEO, &now, sizeof(now)))
		t_die("no time");
	for (;;) {
		n = recv(nl->fd, room, sizeof(room), 0);
		if (n < 0 && errno == ENOBUFS) {
			overruns++;
			continue;
		}
		if (n < 0)
			return overruns;
		nl_message(&a, hdr, count, e);
	}
}

TEST_F(netlink, events)
{
	struct events e = { .domain = self->a ? self->a->domain : 0 };
	struct nl quiet;
	u_int64_t w;

	ONLY_KERNEL();
	follow(&self->nl);
	w = t_record(self->a, GPU | 1);
	t_taint(self->a, "bad", C({ self->x, 0, 10 }));
	t_written(self->a, C({ self->x, 0, 10 }));
	t_end(self->a, GPU | 1);
	t_seal(self->a, w);
	ASSERT_EQ(0, drain(&self->nl, &e));
	ASSERT_EQ(5, e.n);
	ASSERT_EQ(0, e.gaps);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, e.types[0]);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_BEGUN, e.types[1]);
	ASSERT_EQ(CAPKM_EVENT_FAILURE_MINTED, e.types[2]);
	ASSERT_EQ(CAPKM_EVENT_FAILURE_PRUNED, e.types[3]);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_SEALED, e.types[4]);
	/* Failures are no events for a session that has not asked for them. */
	quiet = nl_open();
	IDS(DUMP(&quiet, SESSION_GET, { CAPKM_A_SESSION_ID, self->a->session }),
	    SESSION_EVENTS_UNREAD, 3);
	nl_close(&quiet);
}

static void record_event(void *ctx, const struct nl_attrs *attrs)
{
	keep(ctx, attrs);
}

TEST_F(netlink, an_event)
{
	static struct dump d;
	struct nl_answer a = { 0 };
	u_int64_t w;

	ONLY_KERNEL();
	follow(&self->nl);
	w = t_prepare(self->a, GPU | 3);
	ASSERT_TRUE(nl_step(&self->nl, &a, record_event, &d));
	ASSERT_EQ(1, d.n);
	ASSERT_EQ(self->a->domain, GET(&d, 0, EVENT_DOMAIN));
	ASSERT_EQ(self->a->session, GET(&d, 0, EVENT_SESSION));
	ASSERT_EQ(w, GET(&d, 0, EVENT_WINDOW));
	ASSERT_EQ(3, GET(&d, 0, EVENT_STREAM));
	ASSERT_EQ(getpid(), GET(&d, 0, EVENT_PID));
	ASSERT_EQ(0, GET(&d, 0, EVENT_FAILURE));
	ASSERT_NE(0, GET(&d, 0, EVENT_TIME_NS));
	ASSERT_EQ(t_domain_query(self->a).out_sequence, GET(&d, 0, EVENT_SEQUENCE));
	ASSERT_EQ(1, *(const char *)nl_data(d.r[0].a[CAPKM_A_EVENT_DEVICE]));
}

/* A reader who is too slow loses, knows it, and can count it. */
TEST_F(netlink, lost_events)
{
	struct events e = { .domain = self->a ? self->a->domain : 0 };
	int room = 8192;

	ONLY_KERNEL();
	ASSERT_EQ(0, setsockopt(self->nl.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)));
	follow(&self->nl);
	for (int i = 0; i < 2000; i++) {
		taint_byte(self->a, self->x, 0);	/* minted, and the last one pruned */
	}
	ASSERT_LE(1, drain(&self->nl, &e));
	ASSERT_LT(e.n, 3999);
	t_prepare(self->a, 1);
	ASSERT_EQ(0, drain(&self->nl, &e));
	ASSERT_EQ(4000, e.n + e.lost);
	ASSERT_EQ(4000, e.last);
}

#define SUBSCRIBERS 64

/* There is room for so many, each once, and as long as it is open. */
TEST_F(netlink, subscribers)
{
	struct nl nl[SUBSCRIBERS], more;
	struct events e;
	int copy;

	ONLY_KERNEL();
	more = nl_open();
	for (int i = 0; i < SUBSCRIBERS; i++) {
		nl[i] = nl_open();
		follow(&nl[i]);
		follow(&nl[i]);
	}
	ASSERT_EQ(-ENOSPC, subscribe(&more));
	t_prepare(self->a, 1);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		e = (struct events){ .domain = self->a->domain };
		ASSERT_EQ(0, drain(&nl[i], &e));
		ASSERT_EQ(1, e.n);
	}
	e = (struct events){ .domain = self->a->domain };
	drain(&more, &e);
	ASSERT_EQ(0, e.n);
	/* One that is closed, but not for good, and one that is. */
	copy = dup(nl[0].fd);
	nl_close(&nl[0]);
	ASSERT_EQ(-ENOSPC, subscribe(&more));
	nl[0].fd = copy;
	t_prepare(self->a, 2);
	drain(&nl[0], &e);
	ASSERT_EQ(1, e.n);
	nl_close(&nl[0]);
	ASSERT_EQ(0, subscribe(&more));
	for (int i = 1; i < SUBSCRIBERS; i++)
		nl_close(&nl[i]);
	e = (struct events){ .domain = self->a->domain };
	t_prepare(self->a, 3);
	drain(&more, &e);
	ASSERT_EQ(1, e.n);
	nl_close(&more);
}

#define PORT 0x7fff1234u

/* Anybody: takes the port whenever it is free, and listens for a moment. For ever. */
static int take_port(int ready)
{
	const struct timespec moment = { .tv_nsec = 200000 };
	unsigned int times = 0;
	char room[8192];
	int fd;

	MUST(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY));
	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	for (;;) {
		fd = nl_socket_at(PORT);
		if (fd < 0)
			continue;
		nanosleep(&moment, NULL);
		MUST(recv(fd, room, sizeof(room), MSG_DONTWAIT) < 0);
		close(fd);
		if (!times++)
			MUST(write(ready, "", 1) == 1);
	}
}

/* Events, one after the other. For ever. */
static void make_events(void)
{
	struct cl *b = t_client();
	u_int64_t y;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t_domain(b);
	y = t_buffer(b, 1);
	for (;;)
		taint_byte(b, y, 0);
}

/* Whoever gets the port of a socket that is closed hears nothing. */
TEST_F_TIMEOUT(netlink, port_reused, 60)
{
	const time_t end = time(NULL) + 10;
	unsigned int times = 0;
	int taker, maker, status, up[2];
	struct nl nl;
	char c;

	ONLY_KERNEL();
	ASSERT_EQ(0, pipe(up));
	taker = fork();
	if (!taker)
		_exit(take_port(up[1]));
	maker = fork();
	if (!maker)
		make_events();
	ASSERT_EQ(1, read(up[0], &c, 1));
	nl = self->nl;
	while (time(NULL) < end) {
		nl.fd = nl_socket_at(PORT);
		if (nl.fd < 0)
			continue;
		follow(&nl);
		ASSERT_TRUE(recv(nl.fd, &c, 1, 0) == 1 || errno == ENOBUFS);
		nl_close(&nl);
		times++;
	}
	TH_LOG("%u times", times);
	ASSERT_LE(10, times);
	ASSERT_EQ(0, waitpid(maker, &status, WNOHANG));
	ASSERT_EQ(0, waitpid(taker, &status, WNOHANG));
	kill(maker, SIGKILL);
	kill(taker, SIGKILL);
	ASSERT_EQ(maker, waitpid(maker, &status, 0));
	ASSERT_EQ(taker, waitpid(taker, &status, 0));
}

/* All of very many, in order, or as many as are said to be lost. */
TEST_F_TIMEOUT(netlink, hundred_thousand_events, 120)
{
	struct events e = { .domain = self->a ? self->a->domain : 0 };
	int room = 1 << 20;

	ONLY_KERNEL();
	ASSERT_EQ(0, setsockopt(self->nl.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)));
	follow(&self->nl);
	for (int i = 0; i < MANY / 2; i++) {
		taint_byte(self->a, self->x, 0);	/* minted, and the last one pruned */
		/* One reader is fast enough, and for a while it is not. */
		if (i % 50 == 0 && (i < 20000 || i > 30000))
			drain(&self->nl, &e);
	}
	drain(&self->nl, &e);
	t_prepare(self->a, 1);
	ASSERT_EQ(0, drain(&self->nl, &e));
	ASSERT_EQ(MANY, e.n + e.lost);
	ASSERT_EQ(MANY, e.last);
	ASSERT_EQ(1, e.gaps);
	ASSERT_LE(MANY / 2, e.n);
}

TEST_HARNESS_MAIN
