// SPDX-License-Identifier: GPL-2.0-only
/*
 * libcapkm as its callers see it: handles, errors in words, waiting, pooled
 * lists, fork. What the operations mean is tested elsewhere.
 */
#include "capkm_test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <time.h>

/* Options on the spot. */
#define WITH(type, ...) (&(type)CAPKM_OPTS(type, __VA_ARGS__))

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

/* A call that goes well, and one that does not; if it is otherwise, the text is shown. */
#define OK(call) do {							\
	err.text[0] = 0;						\
	ASSERT_EQ(0, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
} while (0)

#define REFUSED(rc, call) do {						\
	err.text[0] = 0;						\
	err.err = 0;							\
	ASSERT_EQ(rc, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
	ASSERT_EQ(rc, err.err);						\
} while (0)

#define HAS(text, part)							\
	ASSERT_NE(NULL, strstr(text, part)) {				\
		TH_LOG("no \"%s\" in: %s", part, text);			\
	}

#define HAS_NOT(text, part)						\
	ASSERT_EQ(NULL, strstr(text, part)) {				\
		TH_LOG("\"%s\" in: %s", part, text);			\
	}

#define SAYS(part) HAS(err.text, part)

#define BEGINS(text, part)						\
	ASSERT_EQ(0, strncmp(text, part, strlen(part))) {		\
		TH_LOG("no \"%s\" at the beginning of: %s", part, text);\
	}

#define BYTES 64

FIXTURE(library)
{
	struct capkm *c;
	struct capkm_claim a, b;
};

static struct capkm *new_handle(const struct capkm_open_opts *opts)
{
	struct capkm *c;
	int rc = capkm_open(t_transport(), opts, &c, &err);

	if (rc)
		t_die("open: %d (%s)", rc, err.text);
	return c;
}

static struct capkm_claim new_buffer(struct capkm *c, const char *label)
{
	struct capkm_claim claim = { .end = BYTES };
	uint64_t id;
	int rc = capkm_buffer_create(c, BYTES, WITH(struct capkm_buffer_opts, .label = label,
				     .flags = CAPKM_BUFFER_CREATE_F_EXPORT), &id, &err);

	if (rc)
		t_die("buffer_create: %d (%s)", rc, err.text);
	claim.buffer = id;
	return claim;
}

static struct capkm_domain_query counts(struct capkm *c)
{
	struct capkm_domain_query q = { .size = sizeof(q) };
	int rc = capkm_domain_query(c, &q, &err);

	if (rc)
		t_die("domain_query: %d (%s)", rc, err.text);
	return q;
}

/* A name that no other test and no other run uses. */
static const char *new_name(void)
{
	static char name[48];
	static int names;

	snprintf(name, sizeof(name), "library-%d-%d", getpid(), ++names);
	return name;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

/* A scope that writes @writes and fails for @text, 0 if that went wrong. */
static uint64_t fail(struct capkm *c, const struct capkm_claim *writes, const char *text)
{
	struct capkm_scope s;

	if (capkm_scope_enter(c, NULL, NULL, 0, writes, 1, NULL, &s, NULL, &err) ||
	    capkm_scope_fail(c, &s, WITH(struct capkm_cause, .kind = CAPKM_KIND_LAUNCH,
				       .code = 719, .text = text), &err))
		return 0;
	return s.failure;
}

static int write_well(struct capkm *c, const struct capkm_where *where,
		      const struct capkm_claim *writes)
{
	struct capkm_scope s;
	int rc = capkm_scope_enter(c, where, NULL, 0, writes, 1, NULL, &s, NULL, &err);

	return rc ? rc : capkm_scope_exit(c, &s, 0, &err);
}

FIXTURE_SETUP(library)
{
	t_file = __FILE__;
	t_line = __LINE__;
	self->c = new_handle(NULL);
	OK(capkm_domain_open(self->c, NULL, NULL, &err));
	self->a = new_buffer(self->c, "a");
	self->b = new_buffer(self->c, "b");
}

FIXTURE_TEARDOWN(library)
{
	capkm_close(self->c);
	t_no_leaks();
}

/* ------------------------------------------------------------------ handles */

/* capkm_open(): the library takes the kernel's place only when it is asked to */
TEST(open_path)
{
	const bool node = !access("/dev/capkm", F_OK);
	struct capkm *c = (void *)1;

	OK(capkm_open("embedded:", NULL, &c, &err));
	ASSERT_EQ(CAPKM_AUTHORITY_EMBEDDED, capkm_authority(c));
	ASSERT_EQ(-EOPNOTSUPP, capkm_fd(c));
	capkm_close(c);
	OK(capkm_open("auto:", NULL, &c, &err));
	ASSERT_EQ(node ? CAPKM_AUTHORITY_KERNEL : CAPKM_AUTHORITY_EMBEDDED,
		  capkm_authority(c));
	capkm_close(c);

	c = (void *)1;
	unsetenv("CAPKM_DEVICE");
	if (node) {
		OK(capkm_open(NULL, NULL, &c, &err));
		ASSERT_EQ(CAPKM_AUTHORITY_KERNEL, capkm_authority(c));
		ASSERT_LE(0, capkm_fd(c));
		ASSERT_EQ(FD_CLOEXEC, fcntl(capkm_fd(c), F_GETFD));
		capkm_close(c);
	} else {
		REFUSED(-ENOENT, capkm_open(NULL, NULL, &c, &err));
		ASSERT_EQ((void *)1, c);
		BEGINS(err.text, "open: /dev/capkm: ");
		SAYS("modprobe");
		ASSERT_EQ(CAPKM_NO_INDEX, err.index);
		ASSERT_EQ(0, err.failure);
	}
	setenv("CAPKM_DEVICE", "embedded:", 1);
	OK(capkm_open(NULL, NULL, &c, &err));
	ASSERT_EQ(CAPKM_AUTHORITY_EMBEDDED, capkm_authority(c));
	capkm_close(c);
	/* What is given outranks the environment. */
	c = (void *)1;
	REFUSED(-ENOENT, capkm_open("/no/such node", NULL, &c, &err));
	SAYS("/no/such node");
	setenv("CAPKM_DEVICE", "/no/node of the environment", 1);
	REFUSED(-ENOENT, capkm_open(NULL, NULL, &c, &err));
	SAYS("/no/node of the environment");
	REFUSED(-ENOTTY, capkm_open("/dev/null", NULL, &c, &err));
	SAYS("/dev/null is not a capkm device");
	/* Neither a prefix nor an unknown word is a wish. */
	REFUSED(-ENOENT, capkm_open("embedded", NULL, &c, &err));
	REFUSED(-ENOENT, capkm_open("auto:x", NULL, &c, &err));
	ASSERT_EQ(-ENOENT, capkm_open("auto", NULL, &c, NULL));
	ASSERT_EQ((void *)1, c);
	capkm_close(NULL);
	t_no_leaks();
}

static void *open_silent(void *path)
{
	struct capkm *c;

	return (void *)(intptr_t)capkm_open(path, NULL, &c, NULL);
}

/* A proxy that takes connections and says nothing: neither the open nor a fork hangs. */
TEST(proxy_is_silent)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(at);
	int pid, status = 1;
	char path[32];
	pthread_t t;
	void *rc;

	if (!t_embedded())
		SKIP(return, "the machine of the module may have no loopback device");
	ASSERT_EQ(0, bind(fd, (void *)&at, sizeof(at)));
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, getsockname(fd, (void *)&at, &size));
	snprintf(path, sizeof(path), "proxy:127.0.0.1:%u", ntohs(at.sin_port));
	capkm_test_offer_proxy(1);
	ASSERT_EQ(0, pthread_create(&t, NULL, open_silent, path));
	usleep(200000);
	pid = fork();
	if (!pid)	/* TSan, too, does not hear of it: it would miss the thread */
		syscall(SYS_exit_group, 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	pthread_join(t, &rc);
	ASSERT_EQ(-ETIMEDOUT, (int)(intptr_t)rc);
	close(fd);
}

/* capkm_authority(), capkm_info(), capkm_call(), capkm_version() */
TEST(authority)
{
	struct capkm *c = new_handle(NULL);
	struct capkm_info i = { .size = sizeof(i) }, j = { .size = sizeof(j) };
	struct { struct capkm_info i; uint64_t more; } larger = {
		.i.size = sizeof(larger), .more = 5,
	};

	ASSERT_EQ(t_embedded() ? CAPKM_AUTHORITY_EMBEDDED : CAPKM_AUTHORITY_KERNEL,
		  capkm_authority(c));
	OK(capkm_info(c, &i, &err));
	OK(capkm_call(c, CAPKM_NR_INFO, &j));
	ASSERT_EQ(0, memcmp(&i, &j, sizeof(i)));
	ASSERT_EQ(!t_embedded(), !!(i.out_features & CAPKM_FEATURE_AUTHORITY));
	BEGINS((char *)i.out_version, capkm_version());
	OK(capkm_info(c, &larger.i, &err));
	ASSERT_EQ(0, larger.more);
	i.size = 0;
	REFUSED(-EINVAL, capkm_info(c, &i, &err));
	ASSERT_EQ(-ENOTTY, capkm_call(c, 10000, &i));
	ASSERT_EQ(0, capkm_domain_id(c));
	ASSERT_EQ(0, capkm_session_id(c));
	capkm_close(c);
}

/* Names of enums: never NULL, "unknown" for what is none */
TEST(names)
{
	for (uint32_t i = 0; i < 80; i++) {
		ASSERT_NE(NULL, capkm_result_name(i));
		ASSERT_NE(NULL, capkm_kind_name(i));
		ASSERT_NE(NULL, capkm_state_name(i));
		ASSERT_NE(NULL, capkm_event_name(i));
		ASSERT_NE(NULL, capkm_limit_name(i));
	}
	/* All that there are have one. */
	for (uint32_t i = 0; i <= CAPKM_STALE; i++)
		ASSERT_STRNE("unknown", capkm_result_name(i));
	for (uint32_t i = 0; i <= CAPKM_KIND_DRIVER; i++)
		ASSERT_STRNE("unknown", capkm_kind_name(i));
	for (uint32_t i = CAPKM_KIND_TORN_DOWN; i <= CAPKM_KIND_ESCAPED; i++)
		ASSERT_STRNE("unknown", capkm_kind_name(i));
	for (uint32_t i = 0; i <= CAPKM_WINDOW_MEMBER; i++)
		ASSERT_STRNE("unknown", capkm_state_name(i));
	for (uint32_t i = 1; i <= CAPKM_EVENT_FAILURE_PRUNED; i++)
		ASSERT_STRNE("unknown", capkm_event_name(i));
	for (uint32_t i = 0; i < CAPKM_LIMITS; i++)
		ASSERT_STRNE("unknown", capkm_limit_name(i));
	ASSERT_STREQ("unknown", capkm_event_name(0));
	ASSERT_STREQ("unknown", capkm_event_name(UINT32_MAX));
	ASSERT_STREQ("unknown", capkm_limit_name(CAPKM_LIMITS));
	ASSERT_STREQ("unknown", capkm_limit_name(UINT32_MAX));
	ASSERT_STREQ("stale", capkm_result_name(CAPKM_STALE));
	ASSERT_STREQ("stale", capkm_kind_name(CAPKM_KIND_STALE));
	ASSERT_STREQ("member", capkm_state_name(CAPKM_WINDOW_MEMBER));
	ASSERT_STREQ("window begun", capkm_event_name(CAPKM_EVENT_WINDOW_BEGUN));
	ASSERT_STREQ("windows of a client", capkm_limit_name(CAPKM_LIMIT_WINDOWS));
	ASSERT_STREQ("unknown", capkm_result_name(UINT32_MAX));
	ASSERT_STREQ("unknown", capkm_kind_name(UINT32_MAX));
	ASSERT_STREQ("unknown", capkm_state_name(UINT32_MAX));
	ASSERT_STREQ("skipped", capkm_result_name(CAPKM_SKIPPED));
	ASSERT_STREQ("torn down", capkm_kind_name(CAPKM_KIND_TORN_DOWN));
	ASSERT_STREQ("capture", capkm_state_name(CAPKM_WINDOW_CAPTURE));
}

/* Growth: a larger struct is welcome if its end is zero; a smaller one always */
TEST_F(library, option_structs)
{
	struct { struct capkm_open_opts o; char more[9]; } open = {
		.o.sz = sizeof(open), .o.retry_ms = 7,
	};
	struct { struct capkm_scope_opts o; char more[8]; } scope = {
		.o.sz = sizeof(scope), .o.label = "grown",
	};
	struct { struct capkm_cause o; char more[8]; } cause = {
		.o.sz = sizeof(cause), .o.text = "grown cause",
	};
	struct { struct capkm_answer o; char more[8]; } answer = { .o.sz = sizeof(answer) };
	struct { struct capkm_read_opts o; char more[1]; } read = { .o.sz = sizeof(read) };
	struct capkm *c;
	struct capkm_scope s = { 0 };
	struct capkm_error small = { .sz = offsetof(struct capkm_error, text) + 9 };
	char dst[BYTES], src[BYTES] = "";
	uint64_t f;

	OK(capkm_open(t_transport(), &open.o, &c, &err));
	capkm_close(c);
	open.more[8] = 1;
	REFUSED(-E2BIG, capkm_open(t_transport(), &open.o, &c, &err));
	BEGINS(err.text, "open: ");
	SAYS(capkm_version());
	open.o.sz = 0;
	REFUSED(-EINVAL, capkm_open(t_transport(), &open.o, &c, &err));
	SAYS("CAPKM_OPTS()");
	open.o = (struct capkm_open_opts)CAPKM_OPTS(struct capkm_open_opts, .flags = 1);
	REFUSED(-EINVAL, capkm_open(t_transport(), &open.o, &c, &err));
	/* Of an older caller: without what it does not know. */
	open.o = (struct capkm_open_opts){
		.sz = offsetof(struct capkm_open_opts, flags), .flags = 1,
	};
	OK(capkm_open(t_transport(), &open.o, &c, &err));
	capkm_close(c);

	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1, &scope.o, &s, NULL, &err));
	cause.more[0] = 1;
	REFUSED(-E2BIG, capkm_scope_fail(self->c, &s, &cause.o, &err));
	cause.more[0] = 0;
	OK(capkm_scope_fail(self->c, &s, &cause.o, &err));
	f = s.failure;
	ASSERT_NE(0, f);
	scope.more[7] = 1;
	s.id = 77;
	REFUSED(-E2BIG, capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1, &scope.o, &s,
					  NULL, &err));
	BEGINS(err.text, "scope_enter: ");
	ASSERT_EQ(77, s.id);
	OK(capkm_check(self->c, &self->a, 1, &answer.o, &err));
	ASSERT_EQ(CAPKM_TAINTED, answer.o.out_result);
	answer.more[3] = 1;
	REFUSED(-E2BIG, capkm_check(self->c, &self->a, 1, &answer.o, &err));
	/* A small error struct: cut, terminated, and nothing behind it. */
	small.text[9] = 'x';
	ASSERT_EQ(-ESTALE, capkm_read(self->c, &self->a, dst, src, &read.o, &small));
	ASSERT_EQ(-ESTALE, small.err);
	ASSERT_EQ(f, small.failure);
	ASSERT_EQ(8, strlen(small.text));
	ASSERT_EQ('x', small.text[9]);
	read.more[0] = 1;
	REFUSED(-E2BIG, capkm_read(self->c, &self->a, dst, src, &read.o, &err));
	read.more[0] = 0;
	read.o.flags = CAPKM_READ_OPTS_CONFIRMED << 1;
	REFUSED(-EINVAL, capkm_read(self->c, &self->a, dst, src, &read.o, &err));
	/* err is left alone by what goes well. */
	OK(capkm_written(self->c, &self->a, 1, &err));
	ASSERT_EQ(-EINVAL, err.err);
}

/* ------------------------------------------------------------------ domains */

/* capkm_domain_create(), _attach(), _open(): who makes it and who finds it */
TEST(domains)
{
	struct capkm *c = new_handle(NULL), *d = new_handle(NULL), *e = new_handle(NULL);
	const char *name = new_name();
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts);
	uint64_t id;

	REFUSED(-ENOTCONN, capkm_buffer_create(c, 1, NULL, &id, &err));
	SAYS("buffer_create: ");
	SAYS("no domain yet");
	REFUSED(-ENOENT, capkm_domain_attach(c, name, NULL, &err));
	BEGINS(err.text, "domain_attach: ");
	SAYS(name);
	OK(capkm_domain_create(c, name, NULL, &err));
	ASSERT_NE(0, capkm_domain_id(c));
	ASSERT_NE(0, capkm_session_id(c));
	REFUSED(-EISCONN, capkm_domain_create(c, NULL, NULL, &err));
	SAYS("for life");
	REFUSED(-EISCONN, capkm_domain_open(c, name, NULL, &err));
	REFUSED(-EEXIST, capkm_domain_create(d, name, NULL, &err));
	SAYS("domain_create: ");
	SAYS(name);
	ASSERT_EQ(0, capkm_domain_id(d));
	OK(capkm_domain_open(d, name, NULL, &err));
	ASSERT_EQ(capkm_domain_id(c), capkm_domain_id(d));
	ASSERT_NE(capkm_session_id(c), capkm_session_id(d));
	/* By id; neither; with what is not for the call. */
	REFUSED(-EINVAL, capkm_domain_attach(e, NULL, NULL, &err));
	o.domain = 1ull << 60;
	REFUSED(-ENOENT, capkm_domain_attach(e, NULL, &o, &err));
	SAYS("domain 1152921504606846976");
	o.domain = capkm_domain_id(c);
	o.limits_len = 1;
	REFUSED(-EINVAL, capkm_domain_attach(e, NULL, &o, &err));
	o.limits_len = 0;
	o.flags = CAPKM_DOMAIN_OPTS_PERSISTENT;
	REFUSED(-EINVAL, capkm_domain_attach(e, NULL, &o, &err));
	o.flags = CAPKM_DOMAIN_OPTS_OWNER;
	REFUSED(-EINVAL, capkm_domain_open(e, name, &o, &err));
	o.flags = 0;
	OK(capkm_domain_attach(e, NULL, &o, &err));
	ASSERT_EQ(3, counts(c).out_sessions);
	REFUSED(-EBUSY, capkm_domain_destroy(c, 0, 0, &err));
	capkm_close(e);
	capkm_close(d);
	OK(capkm_domain_destroy(c, 0, 0, &err));
	capkm_close(c);
	/* Without a name it is always another one. */
	c = new_handle(NULL);
	d = new_handle(NULL);
	OK(capkm_domain_open(c, NULL, NULL, &err));
	OK(capkm_domain_open(d, NULL, NULL, &err));
	ASSERT_NE(capkm_domain_id(c), capkm_domain_id(d));
	capkm_close(d);
	capkm_close(c);
	t_no_leaks();
}

/* @domain of the options is an id to attach to; open has a name, or makes one */
TEST(domain_open_with_id)
{
	struct capkm *c = new_handle(NULL), *d = new_handle(NULL);
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts);

	OK(capkm_domain_open(c, NULL, NULL, &err));
	o.domain = capkm_domain_id(c);
	REFUSED(-EINVAL, capkm_domain_open(d, NULL, &o, &err));
	REFUSED(-EINVAL, capkm_domain_open(d, new_name(), &o, &err));
	SAYS("domain_open: ");
	REFUSED(-EINVAL, capkm_domain_create(d, NULL, &o, &err));
	o.domain = 0;
	o.owner_uid = 1;
	REFUSED(-EINVAL, capkm_domain_open(d, NULL, &o, &err));
	ASSERT_EQ(0, capkm_domain_id(d));
	capkm_close(d);
	capkm_close(c);
}

#define OPENERS 8

struct meeting {
	pthread_barrier_t all;
	const char *name;
	uint64_t ids[OPENERS];
	int rc[OPENERS];
	int next, rounds;
	bool meet;
};

static void *opener(void *arg)
{
	struct meeting *m = arg;
	const int me = __atomic_fetch_add(&m->next, 1, __ATOMIC_RELAXED);
	struct capkm *c;

	for (int i = 0; i < m->rounds; i++) {
		int rc = capkm_open(t_transport(), NULL, &c, NULL);

		if (rc)
			return (void *)1;
		if (m->meet)
			pthread_barrier_wait(&m->all);
		rc = capkm_domain_open(c, m->name, NULL, NULL);
		/* -EAGAIN is an honest answer where others come and go. */
		if (rc && (m->meet || rc != -EAGAIN) && !m->rc[me])
			m->rc[me] = rc;
		m->ids[me] = capkm_domain_id(c);
		if (m->meet) {
			pthread_barrier_wait(&m->all);
			if (!m->ids[me] || m->ids[0] != m->ids[me])
				m->rc[me] = -ESTALE;
			pthread_barrier_wait(&m->all);
		}
		capkm_close(c);
	}
	return NULL;
}

static void threads_run(void *(*fn)(void *), void *arg, int n)
{
	pthread_t t[16];
	void *rc;

	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, fn, arg))
			t_die("no thread");
	for (int i = 0; i < n; i++) {
		pthread_join(t[i], &rc);
		if (rc)
			t_die("a thread: %s", (long)rc == 1 ? "open" : (char *)rc);
	}
}

/* capkm_domain_open(): any number at once, they meet in one domain */
TEST(domain_open_at_once)
{
	struct meeting m = {
		.name = new_name(), .meet = true, .rounds = t_param("CAPKM_ROUNDS", 100, 50),
	};

	pthread_barrier_init(&m.all, NULL, OPENERS);
	threads_run(opener, &m, OPENERS);
	/* And with others that end the domain again at any time. */
	m.next = 0;
	m.meet = false;
	threads_run(opener, &m, OPENERS);
	for (int i = 0; i < OPENERS; i++)
		ASSERT_EQ(0, m.rc[i]);
	pthread_barrier_destroy(&m.all);
	t_no_leaks();
}

/* ------------------------------------------------------------------ streams */

struct streams {
	pthread_barrier_t all;
	uint64_t own[OPENERS];
	int next;
};

static void *own_stream(void *arg)
{
	struct streams *s = arg;
	const int me = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
	const uint64_t own = capkm_stream_current();

	s->own[me] = own;
	if (capkm_stream_pin(1000 + me) || capkm_stream_current() != 1000u + me)
		return "pin";
	pthread_barrier_wait(&s->all);
	if (capkm_stream_pin(7) != 1000u + me || capkm_stream_current() != 7)
		return "another pin";
	if (capkm_stream_pin(0) != 7 || capkm_stream_current() != own)
		return "unpinned by 0";
	capkm_stream_pin(8);
	capkm_stream_unpin();
	if (capkm_stream_current() != own || capkm_stream_pin(0))
		return "unpin";
	return NULL;
}

/* capkm_stream_current(): a thread's own, small, stable; pins are the thread's */
TEST(stream_of_thread)
{
	const uint64_t mine = capkm_stream_current();
	struct streams s = { .next = 0 };

	ASSERT_NE(0, mine);
	ASSERT_LT(mine, CAPKM_STREAM_FIRST);
	capkm_stream_pin(77);
	pthread_barrier_init(&s.all, NULL, OPENERS);
	threads_run(own_stream, &s, OPENERS);
	pthread_barrier_destroy(&s.all);
	ASSERT_EQ(77, capkm_stream_current());
	capkm_stream_unpin();
	ASSERT_EQ(mine, capkm_stream_current());
	for (int i = 0; i < OPENERS; i++) {
		ASSERT_NE(0, s.own[i]);
		ASSERT_LT(s.own[i], CAPKM_STREAM_FIRST);
		ASSERT_NE(mine, s.own[i]);
		for (int j = 0; j < i; j++)
			ASSERT_NE(s.own[j], s.own[i]);
	}
}

/* A stream of 0, and no place at all, is the current one, pinned or not. */
TEST_F(library, stream_zero)
{
	struct capkm_stream_query q = { .size = sizeof(q) };
	struct capkm_window_query w = { .size = sizeof(w) };
	struct capkm_report r;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r, .reports_len = 1);
	const struct capkm_where nowhere = { 0 };
	uint64_t stream, window;

	OK(capkm_stream_query(self->c, &q, &err));
	ASSERT_EQ(capkm_stream_current(), q.place.stream);
	ASSERT_EQ(capkm_stream_current() % 32, q.out_slot);

	OK(capkm_stream_create(self->c, "moves", &stream, &err));
	ASSERT_GE(stream, CAPKM_STREAM_FIRST);
	ASSERT_EQ(0, capkm_stream_pin(stream));
	OK(capkm_window_prepare(self->c, NULL, NULL, &window, &err));
	OK(capkm_window_query(self->c, &w, &err));
	ASSERT_EQ(window, w.out_window);
	ASSERT_EQ(stream, w.out_owner);
	OK(capkm_window_abort(self->c, &nowhere, 0, &window, &err));
	ASSERT_EQ(w.out_window, window);
	OK(capkm_taint(self->c, &self->a, 1, 0, NULL, NULL, &err));
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(stream, r.stream);
	ASSERT_EQ(CAPKM_KIND_GENERIC, r.kind);
	ASSERT_NE(0, fail(self->c, &self->a, "x"));
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(stream, r.stream);
	capkm_stream_unpin();
	ASSERT_NE(0, fail(self->c, &self->a, "x"));
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(capkm_stream_current(), r.stream);
	/* One that is named is not the current one. */
	OK(capkm_taint(self->c, &self->a, 1, stream, NULL, NULL, &err));
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(stream, r.stream);
}

/* ------------------------------------------------------------------- scopes */

/* T-25 T-26 T-29 SC-12: entered and left, failed, skipped */
TEST_F(library, scopes)
{
	const struct capkm_scope_opts named = CAPKM_OPTS(struct capkm_scope_opts,
							 .label = "matmul");
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause, .kind = CAPKM_KIND_DRIVER,
		.code = 719, .text = "illegal address", .stack = "stack", .stack_len = 5);
	struct capkm_scope s, skipped;
	struct capkm_report why;
	uint64_t f;

	OK(capkm_scope_enter(self->c, NULL, &self->b, 1, &self->a, 1, &named, &s, &why, &err));
	ASSERT_EQ(CAPKM_CLEAN, s.result);
	ASSERT_NE(0, s.id);
	ASSERT_EQ(0, s.failure);
	ASSERT_EQ(1, counts(self->c).out_scopes);
	REFUSED(-EBUSY, capkm_buffer_reset(self->c, self->a.buffer, 0, BYTES, &err));
	OK(capkm_scope_exit(self->c, &s, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	ASSERT_EQ(0, s.id);
	ASSERT_EQ(0, s.failure);
	REFUSED(-EINVAL, capkm_scope_exit(self->c, &s, 0, &err));
	BEGINS(err.text, "scope_exit: ");
	SAYS("left already");
	REFUSED(-EINVAL, capkm_scope_fail(self->c, &s, NULL, &err));

	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1, &named, &s, &why, &err));
	OK(capkm_scope_fail(self->c, &s, &cause, &err));
	f = s.failure;
	ASSERT_NE(0, f);
	ASSERT_EQ(0, s.id);
	OK(capkm_scope_enter(self->c, NULL, &self->a, 1, &self->b, 1, NULL, &skipped, &why,
			     &err));
	ASSERT_EQ(CAPKM_SKIPPED, skipped.result);
	ASSERT_EQ(0, skipped.id);
	ASSERT_EQ(f, skipped.failure);
	ASSERT_EQ(f, why.failure);
	ASSERT_EQ(719, why.code);
	ASSERT_EQ(self->a.buffer, why.buffer);
	ASSERT_STREQ("matmul", (char *)why.label);
	ASSERT_STREQ("illegal address", (char *)why.text);
	/* There is nothing to leave, and nothing wrong with leaving it. */
	OK(capkm_scope_exit(self->c, &skipped, 0, &err));
	OK(capkm_scope_fail(self->c, &skipped, &cause, &err));
	ASSERT_EQ(1, counts(self->c).out_failures);
	ASSERT_EQ(0, counts(self->c).out_scopes);
	/* Without a report it says which failure all the same. */
	OK(capkm_scope_enter(self->c, NULL, &self->a, 1, &self->b, 1, NULL, &skipped, NULL,
			     NULL));
	ASSERT_EQ(f, skipped.failure);
	OK(write_well(self->c, NULL, &self->a));
	OK(write_well(self->c, NULL, &self->b));
	ASSERT_EQ(0, counts(self->c).out_failures);
	/* Without a cause there is one. */
	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1, NULL, &s, NULL, &err));
	OK(capkm_scope_fail(self->c, &s, NULL, &err));
	ASSERT_NE(0, s.failure);
}

/* T-28 SC-1: one list, its memory kept, whatever becomes of the scope */
TEST_F(library, write_set)
{
	struct capkm_write_set *first, *set, *second;
	const struct capkm_claim *storage, *more;
	struct capkm_scope s;
	uint32_t len;

	OK(capkm_write_set_get(self->c, &first, &err));
	capkm_write_set_claims(first, &len);
	ASSERT_EQ(0, len);
	OK(capkm_write_set_add(first, self->a.buffer, 0, BYTES, &err));
	storage = capkm_write_set_claims(first, &len);
	ASSERT_EQ(1, len);
	capkm_write_set_put(first);

	for (int i = 0; i < 12; i++) {
		OK(capkm_write_set_get(self->c, &set, &err));
		ASSERT_EQ(first, set);
		capkm_write_set_claims(set, &len);
		ASSERT_EQ(0, len);
		OK(capkm_write_set_add(set, i % 4 == 2 ? self->b.buffer : self->a.buffer, 0,
				       BYTES, &err));
		ASSERT_EQ(storage, capkm_write_set_claims(set, &len));
		ASSERT_EQ(1, len);
		ASSERT_EQ(BYTES, storage->end);
		switch (i % 4) {
		case 0: /* clean */
			OK(capkm_scope_enter_set(self->c, NULL, NULL, 0, set, NULL, &s, NULL,
						 &err));
			ASSERT_EQ(set, s.set);
			OK(capkm_scope_exit(self->c, &s, 0, &err));
			break;
		case 1: /* failed */
			OK(capkm_scope_enter_set(self->c, NULL, NULL, 0, set, NULL, &s, NULL,
						 &err));
			OK(capkm_scope_fail(self->c, &s, NULL, &err));
			ASSERT_NE(0, s.failure);
			break;
		case 2: /* skipped */
			OK(capkm_scope_enter_set(self->c, NULL, &self->a, 1, set, NULL, &s, NULL,
						 &err));
			ASSERT_EQ(CAPKM_SKIPPED, s.result);
			OK(capkm_scope_exit(self->c, &s, 0, &err));
			break;
		default: /* refused: it stays the caller's */
			OK(capkm_write_set_add(set, 1ull << 40, 0, 1, &err));
			s.id = 5;
			REFUSED(-ENOENT, capkm_scope_enter_set(self->c, NULL, NULL, 0, set, NULL,
							       &s, NULL, &err));
			ASSERT_EQ(1, err.index);
			SAYS("writes[1]");
			ASSERT_EQ(5, s.id);
			capkm_write_set_claims(set, &len);
			ASSERT_EQ(2, len);
			capkm_write_set_put(set);
		}
		ASSERT_EQ(NULL, i % 4 == 3 ? NULL : s.set);
	}
	/* While it is out the next one is fresh, with memory of its own. */
	OK(capkm_write_set_get(self->c, &set, &err));
	OK(capkm_write_set_add(set, self->a.buffer, 0, 1, &err));
	OK(capkm_write_set_get(self->c, &second, &err));
	ASSERT_EQ(first, set);
	ASSERT_NE(set, second);
	OK(capkm_write_set_add(second, self->b.buffer, 0, 1, &err));
	more = capkm_write_set_claims(second, &len);
	ASSERT_EQ(1, len);
	ASSERT_NE(storage, more);
	OK(capkm_scope_enter_set(self->c, NULL, NULL, 0, second, NULL, &s, NULL, &err));
	/* Also while a scope has it. */
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	capkm_write_set_put(set);
	capkm_write_set_put(NULL);
}

/* capkm_write_set_add(): as many as the authority takes */
TEST_F(library, write_set_limit)
{
	struct capkm_info i = { .size = sizeof(i) };
	struct capkm_write_set *set;
	const struct capkm_claim *claims;
	struct capkm_scope s;
	uint32_t len;

	OK(capkm_info(self->c, &i, &err));
	OK(capkm_write_set_get(self->c, &set, &err));
	for (uint32_t n = 0; n < i.out_claims_max; n++)
		OK(capkm_write_set_add(set, self->a.buffer, n % BYTES, n % BYTES + 1, &err));
	REFUSED(-EMSGSIZE, capkm_write_set_add(set, self->a.buffer, 0, 1, &err));
	ASSERT_EQ(i.out_claims_max, err.index);
	claims = capkm_write_set_claims(set, &len);
	ASSERT_EQ(i.out_claims_max, len);
	for (uint32_t n = 0; n < len; n++)
		ASSERT_EQ(n % BYTES, claims[n].start);
	OK(capkm_scope_enter_set(self->c, NULL, NULL, 0, set, NULL, &s, NULL, &err));
	OK(capkm_scope_exit(self->c, &s, 0, &err));
}

/* Errors: which element is wrong, reads before writes */
TEST_F(library, wrong_claims)
{
	const struct capkm_claim good[2] = { self->a, self->b };
	const struct capkm_claim bad[2] = { self->a, { self->b.buffer, 4, BYTES + 1 } };
	const struct capkm_claim gone[2] = { self->a, { 1ull << 40, 0, 1 } };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_scope s;
	uint64_t f = 9;

	REFUSED(-EINVAL, capkm_scope_enter(self->c, NULL, good, 2, bad, 2, NULL, &s, NULL, &err));
	ASSERT_EQ(3, err.index);
	SAYS("scope_enter: writes[1]");
	SAYS("[4, 65)");
	REFUSED(-ENOENT, capkm_scope_enter(self->c, NULL, gone, 2, bad, 2, NULL, &s, NULL, &err));
	ASSERT_EQ(1, err.index);
	SAYS("scope_enter: reads[1], buffer 1099511627776");
	REFUSED(-ENOENT, capkm_check(self->c, gone, 2, &a, &err));
	SAYS("check: claims[1]");
	REFUSED(-EINVAL, capkm_written(self->c, bad, 2, &err));
	SAYS("written: claims[1]");
	REFUSED(-ENOENT, capkm_taint(self->c, gone, 2, 0, NULL, &f, &err));
	SAYS("taint: claims[1]");
	ASSERT_EQ(9, f);
	REFUSED(-EINVAL, capkm_taint_with(self->c, good, 2, 0, 0, &err));
	REFUSED(-ENOENT, capkm_taint_with(self->c, good, 2, 0, 1ull << 40, &err));
	SAYS("taint: failure 1099511627776");
	ASSERT_EQ(0, counts(self->c).out_claims);
	ASSERT_EQ(0, counts(self->c).out_scopes);
}

struct delayed {
	struct capkm *c;
	struct capkm_scope *s;
	int ms;
};

static void *leave_later(void *arg)
{
	struct delayed *d = arg;

	usleep(d->ms * 1000);
	return capkm_scope_exit(d->c, d->s, 0, NULL) ? "exit" : NULL;
}

/* retry_ms: waits for bytes that somebody else writes, as long as asked */
TEST_F(library, enter_waits)
{
	struct capkm_scope_opts o = CAPKM_OPTS(struct capkm_scope_opts, .retry_ms = 40);
	struct capkm *quick = new_handle(WITH(struct capkm_open_opts, .retry_ms = 30));
	struct capkm_domain_opts same = CAPKM_OPTS(struct capkm_domain_opts,
						   .domain = capkm_domain_id(self->c));
	struct capkm_scope writer, s = { .id = 5 };
	struct delayed d = { self->c, &writer, 50 };
	struct capkm_report why;
	uint64_t start;
	pthread_t t;
	void *rc;

	OK(capkm_domain_attach(quick, NULL, &same, &err));
	OK(capkm_buffer_open(quick, self->a.buffer, NULL, &err));
	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1, NULL, &writer, NULL, &err));
	start = now_ms();
	REFUSED(-EAGAIN, capkm_scope_enter(self->c, NULL, &self->a, 1, &self->b, 1, &o, &s, &why,
					   &err));
	ASSERT_LE(39, now_ms() - start);
	ASSERT_GT(900, now_ms() - start);
	BEGINS(err.text, "scope_enter: ");
	SAYS("40 ms");
	SAYS("in progress");
	ASSERT_EQ(5, s.id);
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, why.kind);
	ASSERT_EQ(writer.id, why.scope);
	ASSERT_EQ(self->a.buffer, why.buffer);
	ASSERT_EQ(1, counts(self->c).out_scopes);
	/* The handle's own time. */
	start = now_ms();
	REFUSED(-EAGAIN, capkm_scope_enter(quick, NULL, &self->a, 1, NULL, 0, NULL, &s, NULL,
					   &err));
	ASSERT_LE(29, now_ms() - start);
	SAYS("30 ms");
	/* Not at all. */
	o.retry_ms = CAPKM_RETRY_NONE;
	start = now_ms();
	ASSERT_EQ(-EAGAIN, capkm_scope_enter(self->c, NULL, &self->a, 1, NULL, 0, &o, &s, NULL,
					     NULL));
	ASSERT_GT(30, now_ms() - start);
	/* It ends while somebody waits. */
	o.retry_ms = 10000;
	ASSERT_EQ(0, pthread_create(&t, NULL, leave_later, &d));
	OK(capkm_scope_enter(self->c, NULL, &self->a, 1, &self->b, 1, &o, &s, &why, &err));
	ASSERT_EQ(CAPKM_CLEAN, s.result);
	pthread_join(t, &rc);
	ASSERT_EQ(NULL, rc);
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	capkm_close(quick);
}

/* -------------------------------------------------------------------- bytes */

/* capkm_check(), capkm_check_unchanged(): the answer is no error */
TEST_F(library, check)
{
	const struct capkm_claim both[2] = { self->a, self->b };
	struct capkm_report r[2];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = r, .reports_len = 2);
	uint64_t since, f, g;

	OK(capkm_check(self->c, both, 2, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	ASSERT_EQ(0, a.out_reports);
	since = a.out_sequence;
	OK(capkm_check_unchanged(self->c, both, 2, since, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	OK(write_well(self->c, NULL, &self->b));
	OK(capkm_check_unchanged(self->c, &self->a, 1, since, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	OK(capkm_check_unchanged(self->c, both, 2, since, &a, &err));
	ASSERT_EQ(CAPKM_CHANGED, a.out_result);
	f = fail(self->c, &self->a, "first");
	g = fail(self->c, &self->b, "second");
	OK(capkm_check_unchanged(self->c, both, 2, since, &a, &err));
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
	ASSERT_EQ(2, a.out_reports);
	ASSERT_EQ(f, r[0].failure);
	ASSERT_EQ(g, r[1].failure);
	/* As many as fit; none at all; nobody listens. */
	a.reports_len = 1;
	r[1].failure = 77;
	OK(capkm_check(self->c, both, 2, &a, &err));
	ASSERT_EQ(2, a.out_reports);
	ASSERT_EQ(77, r[1].failure);
	a.reports = NULL;
	a.reports_len = 0;
	OK(capkm_check(self->c, both, 2, &a, &err));
	ASSERT_EQ(2, a.out_reports);
	OK(capkm_check(self->c, both, 2, NULL, NULL));
}

struct meddling {
	struct capkm *c;
	int times, copies, rc;
};

static int copy_and_meddle(void *context, void *dst, const void *src,
			   const struct capkm_claim *claim)
{
	struct meddling *m = context;

	m->copies++;
	if (m->rc)
		return m->rc;
	memcpy(dst, src, claim->end - claim->start);
	if (m->times-- <= 0)
		return 0;
	/* The writer writes the bytes anew, and so does the memory. */
	((char *)src)[0]++;
	return capkm_written(m->c, claim, 1, NULL);
}

/* capkm_read(): good, tainted, changed meanwhile */
TEST_F(library, read)
{
	char src[BYTES] = "0 bytes", dst[BYTES] = "";
	struct meddling m = { .c = self->c };
	struct capkm_report r;
	struct capkm_read_opts o = CAPKM_OPTS(struct capkm_read_opts, .copy = copy_and_meddle,
					      .context = &m, .report = &r);
	const struct capkm_claim part = { self->a.buffer, 8, 16 };
	uint64_t f;

	OK(capkm_read(self->c, &self->a, dst, src, NULL, &err));
	ASSERT_EQ(0, memcmp(dst, src, BYTES));
	memset(dst, 'x', BYTES);
	OK(capkm_read(self->c, &part, dst, src, NULL, &err));
	ASSERT_EQ(0, memcmp(dst, src, 8));
	ASSERT_EQ('x', dst[8]);
	/* Copied again as often as it was changed; what arrives is the last. */
	m.times = 3;
	OK(capkm_read(self->c, &self->a, dst, src, &o, &err));
	ASSERT_EQ(4, m.copies);
	ASSERT_STREQ("3 bytes", dst);
	/* For ever: until the time is up. */
	m.times = INT32_MAX;
	o.retry_ms = 30;
	memset(&r, 0xcc, sizeof(r));
	REFUSED(-EAGAIN, capkm_read(self->c, &self->a, dst, src, &o, &err));
	BEGINS(err.text, "read: ");
	SAYS("changed during each copy");
	/* The report is filled then, too. */
	ASSERT_EQ(self->a.buffer, r.buffer);
	ASSERT_EQ(0, r.failure);
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, r.kind);
	ASSERT_EQ(0, r.start);
	ASSERT_EQ(BYTES, r.end);
	/* What the copier says ends it. */
	m = (struct meddling){ .c = self->c, .rc = -EIO };
	REFUSED(-EIO, capkm_read(self->c, &self->a, dst, src, &o, &err));
	ASSERT_EQ(1, m.copies);
	SAYS("-5");
	/* Tainted: the report's text, the copier is not asked. */
	f = fail(self->c, &part, "illegal address");
	REFUSED(-ESTALE, capkm_read(self->c, &self->a, dst, src, &o, &err));
	ASSERT_EQ(1, m.copies);
	ASSERT_EQ(f, err.failure);
	ASSERT_EQ(f, r.failure);
	ASSERT_EQ(8, r.start);
	BEGINS(err.text, "read: ");
	SAYS("illegal address");
	SAYS("launch, code 719");
	SAYS("[8, 16)");
	/* The rest is not. */
	OK(capkm_read(self->c, &(struct capkm_claim){ self->a.buffer, 16, BYTES }, dst, src, NULL,
		      &err));
	REFUSED(-ENOENT, capkm_read(self->c, &(struct capkm_claim){ 1ull << 40, 0, 1 }, dst, src,
				    NULL, &err));
}

static int copy_and_fail(void *context, void *dst, const void *src,
			 const struct capkm_claim *claim)
{
	return !fail(context, claim, "failed meanwhile");
}

/* capkm_read(): bytes that fail while they are copied are not handed out */
TEST_F(library, read_while_failing)
{
	struct capkm_read_opts o = CAPKM_OPTS(struct capkm_read_opts, .copy = copy_and_fail,
					      .context = self->c);
	char dst[BYTES];

	REFUSED(-ESTALE, capkm_read(self->c, &self->a, dst, dst, &o, &err));
	SAYS("failed meanwhile");
}

/* capkm_read(): bytes in progress: waits, and gives up in time */
TEST_F(library, read_waits)
{
	char src[BYTES] = "x", dst[BYTES];
	struct capkm_report r;
	struct capkm_read_opts o = CAPKM_OPTS(struct capkm_read_opts, .report = &r,
					      .retry_ms = 40);
	struct capkm_scope writer;
	struct delayed d = { self->c, &writer, 50 };
	uint64_t start;
	pthread_t t;
	void *rc;

	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1, NULL, &writer, NULL, &err));
	start = now_ms();
	REFUSED(-EAGAIN, capkm_read(self->c, &self->a, dst, src, &o, &err));
	ASSERT_LE(39, now_ms() - start);
	ASSERT_GT(900, now_ms() - start);
	SAYS("after 40 ms");
	SAYS("in progress");
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, r.kind);
	ASSERT_EQ(writer.id, r.scope);
	o.retry_ms = CAPKM_RETRY_NONE;
	start = now_ms();
	ASSERT_EQ(-EAGAIN, capkm_read(self->c, &self->a, dst, src, &o, NULL));
	ASSERT_GT(30, now_ms() - start);
	o.retry_ms = 10000;
	ASSERT_EQ(0, pthread_create(&t, NULL, leave_later, &d));
	OK(capkm_read(self->c, &self->a, dst, src, &o, &err));
	ASSERT_EQ(0, memcmp(dst, src, BYTES));
	pthread_join(t, &rc);
	ASSERT_EQ(NULL, rc);
}

/* ------------------------------------------------------------------ windows */

static const struct capkm_where owner = { .stream = 7 }, other = { .stream = 39 };

static void slot_is_free(struct __test_metadata *_metadata, struct capkm *c)
{
	struct capkm_window_query q = { .size = sizeof(q), .place.stream = owner.stream };
	uint64_t w;

	OK(capkm_window_query(c, &q, &err));
	ASSERT_EQ(0, q.out_window);
	OK(capkm_window_prepare(c, &other, NULL, &w, &err));
	OK(capkm_window_abort(c, &other, 0, NULL, &err));
}

static uint64_t record(struct capkm *c, const struct capkm_claim *writes)
{
	uint64_t w;

	if (capkm_window_prepare(c, &owner, NULL, &w, &err) ||
	    capkm_window_begin(c, &owner, 0, NULL, &err) || write_well(c, &owner, writes))
		return 0;
	return w;
}

static uint32_t window_state(struct capkm *c, uint64_t window)
{
	struct capkm_window_query q = { .size = sizeof(q), .window = window };

	return capkm_window_query(c, &q, NULL) ? CAPKM_WINDOW_NONE : q.out_state;
}

/* CW-6: the public name of the operation, and which of the three causes */
TEST_F(library, window_errors)
{
	uint64_t w = 9, graph = 9;
	struct capkm_scope s;

	REFUSED(-EINVAL, capkm_window_begin(self->c, &owner, 0, &w, &err));
	BEGINS(err.text, "begin_capture: ");
	SAYS("not prepared");
	REFUSED(-EINVAL, capkm_window_end(self->c, &owner, 0, 0, NULL, &err));
	BEGINS(err.text, "end_capture: ");
	SAYS("nothing recording");
	REFUSED(-EINVAL, capkm_window_close(self->c, &owner, &graph, NULL, &err));
	BEGINS(err.text, "end_capture: ");
	SAYS("nothing recording");
	ASSERT_EQ(9, w);
	ASSERT_EQ(9, graph);
	OK(capkm_window_prepare(self->c, &owner, NULL, NULL, &err));
	REFUSED(-EBUSY, capkm_window_prepare(self->c, &owner, NULL, &w, &err));
	BEGINS(err.text, "graph_prepare: stream 7");
	SAYS("already prepared");
	HAS_NOT(err.text, "already recording");
	/* CW-7: for anybody */
	REFUSED(-EBUSY, capkm_window_prepare(self->c, &other, NULL, &w, &err));
	BEGINS(err.text, "graph_prepare: stream 39");
	SAYS("already prepared");
	SAYS("of stream 7");
	REFUSED(-EINVAL, capkm_window_end(self->c, &owner, 0, 0, NULL, &err));
	SAYS("only prepared");
	OK(capkm_scope_enter(self->c, &owner, NULL, 0, &self->a, 1, NULL, &s, NULL, &err));
	REFUSED(-EBUSY, capkm_window_begin(self->c, &owner, 0, NULL, &err));
	BEGINS(err.text, "begin_capture: ");
	SAYS("a scope is open");
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	OK(capkm_window_begin(self->c, &owner, 0, &w, &err));
	REFUSED(-EBUSY, capkm_window_begin(self->c, &owner, 0, NULL, &err));
	BEGINS(err.text, "begin_capture: ");
	SAYS("already recording");
	REFUSED(-EBUSY, capkm_window_prepare(self->c, &owner, NULL, NULL, &err));
	BEGINS(err.text, "graph_prepare: ");
	SAYS("already recording");
	HAS_NOT(err.text, "already prepared");
	REFUSED(-ENOENT, capkm_window_end(self->c, &owner, w + 1, 0, NULL, &err));
	BEGINS(err.text, "end_capture: ");
	REFUSED(-EINVAL, capkm_window_seal(self->c, w, 0, &graph, NULL, &err));
	SAYS("not closed");
	/* A place that cannot be is none of the three. */
	REFUSED(-EINVAL, capkm_window_prepare(self->c, &(struct capkm_where){
			.stream = 1, .slot = 32, .flags = CAPKM_WHERE_SLOT }, NULL, NULL, &err));
	SAYS("below 32");
	REFUSED(-EINVAL, capkm_window_begin(self->c, &(struct capkm_where){
			.stream = 1, .flags = 6 }, 0, NULL, &err));
	SAYS("CAPKM_WHERE_SLOT");
	OK(capkm_window_abort(self->c, &owner, 0, NULL, &err));
}

/* capkm_window_close(): sealed, replayed, forgotten */
TEST_F(library, window_sealed)
{
	struct capkm_report r[2];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = r, .reports_len = 2);
	struct capkm_graph_query q = { .size = sizeof(q) };
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause, .text = "bad replay");
	uint64_t w = record(self->c, &self->a), graph = 0, f = 0;
	struct capkm_scope s;
	uint32_t result;
	char dst[BYTES], src[BYTES] = "";

	ASSERT_NE(0, w);
	OK(capkm_window_record(self->c, w, &self->b, 1, NULL, 0, 0, &err));
	OK(capkm_window_close(self->c, &owner, &graph, &a, &err));
	ASSERT_NE(0, graph);
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	ASSERT_EQ(0, a.out_reports);
	ASSERT_EQ(CAPKM_WINDOW_SEALED, window_state(self->c, w));
	slot_is_free(_metadata, self->c);
	q.graph = graph;
	OK(capkm_graph_query(self->c, &q, &err));
	ASSERT_EQ(w, q.out_window);
	ASSERT_EQ(1, q.out_writes);

	OK(capkm_graph_replay_begin(self->c, graph, NULL, NULL, &result, NULL, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	REFUSED(-EBUSY, capkm_graph_replay_begin(self->c, graph, NULL, NULL, &result, NULL, &err));
	REFUSED(-EBUSY, capkm_graph_destroy(self->c, graph, &err));
	OK(capkm_graph_replay_end(self->c, graph, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	REFUSED(-EINVAL, capkm_graph_replay_end(self->c, graph, 0, &err));
	OK(capkm_read(self->c, &self->a, dst, src, NULL, &err));
	OK(capkm_graph_replay_begin(self->c, graph, NULL, NULL, &result, NULL, &err));
	OK(capkm_graph_replay_fail(self->c, graph, &cause, &f, &err));
	ASSERT_NE(0, f);
	REFUSED(-ESTALE, capkm_read(self->c, &self->a, dst, src, NULL, &err));
	SAYS("bad replay");
	/* An input: tainted, then being written. */
	f = fail(self->c, &self->b, "bad input");
	OK(capkm_graph_replay_begin(self->c, graph, NULL, NULL, &result, r, &err));
	ASSERT_EQ(CAPKM_SKIPPED, result);
	ASSERT_EQ(f, r->failure);
	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->b, 1, NULL, &s, NULL, &err));
	REFUSED(-EAGAIN, capkm_graph_replay_begin(self->c, graph, NULL,
		WITH(struct capkm_replay_opts, .retry_ms = 20), &result, r, &err));
	BEGINS(err.text, "graph_replay_begin: ");
	SAYS("20 ms");
	ASSERT_EQ(s.id, r->scope);
	OK(capkm_scope_exit(self->c, &s, 0, &err));

	/* GR-19: twice is harmless, and a stale id is nothing else. */
	OK(capkm_graph_destroy(self->c, graph, &err));
	OK(capkm_graph_destroy(self->c, graph, &err));
	OK(capkm_graph_destroy(self->c, 1ull << 40, &err));
	REFUSED(-EINVAL, capkm_graph_destroy(self->c, 0, &err));
	REFUSED(-ENOENT, capkm_graph_replay_begin(self->c, graph, NULL, NULL, &result, NULL,
						  &err));
	SAYS("unknown or already-destroyed graph");
	REFUSED(-ENOENT, capkm_graph_replay_end(self->c, graph, 0, &err));
	SAYS("unknown or already-destroyed graph");
	REFUSED(-ENOENT, capkm_graph_query(self->c, &q, &err));
	SAYS("unknown or already-destroyed graph");
}

/* CW-26 GR-13: doomed: the explanation first, what doomed it second */
TEST_F(library, window_doomed)
{
	struct capkm_report r[2];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = r, .reports_len = 2);
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause, .kind = CAPKM_KIND_DRIVER,
					      .code = 900, .text = "operation not permitted");
	uint64_t w = record(self->c, &self->a), graph = 5;
	char dst[BYTES], src[BYTES] = "", *doom;
	struct capkm_scope s;

	OK(capkm_window_fail(self->c, w, 0, "cudaMalloc", &cause, &err));
	REFUSED(-ESTALE, capkm_window_close(self->c, &owner, &graph, &a, &err));
	BEGINS(err.text, "end_capture: window ");
	SAYS("cannot be sealed");
	SAYS("discarded");
	doom = strstr(err.text, "operation not permitted");
	ASSERT_NE(NULL, doom);
	ASSERT_GT(doom, strchr(err.text, '\n'));
	SAYS("cudaMalloc");
	ASSERT_NE(0, err.failure);
	ASSERT_EQ(CAPKM_REFUSED, a.out_result);
	ASSERT_NE(0, a.out_reports);
	ASSERT_EQ(err.failure, r[a.out_reports - 1].failure);
	ASSERT_EQ(900, r[a.out_reports - 1].code);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, window_state(self->c, w));
	/* GR-15: what it recorded is tainted. */
	REFUSED(-ESTALE, capkm_read(self->c, &self->a, dst, src, NULL, &err));
	slot_is_free(_metadata, self->c);
	/* By a failed scope, and nobody listens. */
	ASSERT_NE(0, record(self->c, &self->b));
	OK(capkm_scope_enter(self->c, &owner, NULL, 0, &self->a, 1, NULL, &s, NULL, &err));
	OK(capkm_scope_fail(self->c, &s, &cause, &err));
	ASSERT_EQ(-ESTALE, capkm_window_close(self->c, &owner, &graph, NULL, NULL));
	slot_is_free(_metadata, self->c);
	ASSERT_NE(0, record(self->c, &self->b));
	OK(capkm_window_close(self->c, &owner, &graph, NULL, &err));
}

/* CW-23 T-10: closed by a foreign stream: both are named; doom second */
TEST_F(library, window_abandoned)
{
	struct capkm_report r[2];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = r, .reports_len = 2);
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause, .text = "the doom of it");
	uint64_t w, graph = 0;
	char *doom;

	w = record(self->c, &self->a);
	REFUSED(-ESTALE, capkm_window_close(self->c, &other, &graph, &a, &err));
	BEGINS(err.text, "end_capture: ");
	SAYS("prepared by stream 7");
	SAYS("closed by stream 39");
	SAYS("discarded");
	ASSERT_EQ(NULL, strchr(err.text, '\n'));
	ASSERT_EQ(1, a.out_reports);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, window_state(self->c, w));
	/* CW-10: the owner comes too late. */
	REFUSED(-EINVAL, capkm_window_close(self->c, &owner, &graph, NULL, &err));
	SAYS("nothing recording");
	slot_is_free(_metadata, self->c);

	w = record(self->c, &self->a);
	OK(capkm_window_fail(self->c, w, 0, NULL, &cause, &err));
	REFUSED(-ESTALE, capkm_window_close(self->c, &other, &graph, &a, &err));
	SAYS("stream 7");
	SAYS("stream 39");
	SAYS("discarded");
	doom = strstr(err.text, "the doom of it");
	ASSERT_NE(NULL, doom);
	ASSERT_GT(doom, strstr(err.text, "stream 39"));
	ASSERT_GT(doom, strchr(err.text, '\n'));
	ASSERT_EQ(2, a.out_reports);
	ASSERT_STREQ("the doom of it", (char *)r[1].text);
	ASSERT_EQ(r[1].failure, err.failure);
	/* One report has room for the explanation. */
	w = record(self->c, &self->a);
	OK(capkm_window_fail(self->c, w, 0, NULL, &cause, &err));
	a.reports_len = 1;
	r[1].failure = 77;
	REFUSED(-ESTALE, capkm_window_close(self->c, &other, &graph, &a, &err));
	SAYS("the doom of it");
	ASSERT_EQ(2, a.out_reports);
	ASSERT_EQ(77, r[1].failure);
	ASSERT_EQ(w, r[0].window);
}

/* GR-14 CW-11: only prepared: disarmed, and at once of use again */
TEST_F(library, window_only_prepared)
{
	uint64_t w = 0, graph = 0;

	for (int i = 0; i < 2; i++) {
		OK(capkm_window_prepare(self->c, &owner, NULL, &w, &err));
		REFUSED(-EINVAL, capkm_window_close(self->c, i ? &other : &owner, &graph, NULL,
						    &err));
		BEGINS(err.text, "end_capture: ");
		SAYS("only prepared");
		ASSERT_NE(CAPKM_WINDOW_PREPARE, window_state(self->c, w));
		slot_is_free(_metadata, self->c);
	}
	ASSERT_EQ(0, graph);
	ASSERT_EQ(0, counts(self->c).out_failures);
	ASSERT_NE(0, record(self->c, &self->a));
	OK(capkm_window_close(self->c, &owner, &graph, NULL, &err));
	ASSERT_NE(0, graph);
}

/* capkm_window_close() is for software slots; the others say so. */
TEST(window_other_backends)
{
	struct capkm *hw = new_handle(NULL), *none = new_handle(NULL);
	uint64_t w = 9, graph = 0;

	OK(capkm_domain_open(hw, NULL, WITH(struct capkm_domain_opts,
			     .backend = CAPKM_BACKEND_HARDWARE), &err));
	OK(capkm_domain_open(none, NULL, WITH(struct capkm_domain_opts,
			     .backend = CAPKM_BACKEND_NONE), &err));
	REFUSED(-EOPNOTSUPP, capkm_window_close(hw, &owner, &graph, NULL, &err));
	BEGINS(err.text, "end_capture: ");
	SAYS("window_seal");
	OK(capkm_window_prepare(hw, &owner, NULL, &w, &err));
	OK(capkm_window_begin(hw, &owner, 0, NULL, &err));
	REFUSED(-EBUSY, capkm_window_begin(hw, &owner, 0, NULL, &err));
	BEGINS(err.text, "begin_capture: ");
	SAYS("CAPKM_WINDOW_F_DRIVER_DONE");
	REFUSED(-EBUSY, capkm_window_prepare(hw, &owner, NULL, NULL, &err));
	SAYS("already recording");
	OK(capkm_window_begin(hw, &owner, CAPKM_WINDOW_F_DRIVER_DONE, NULL, &err));
	OK(capkm_window_end(hw, &owner, w, 0, NULL, &err));
	REFUSED(-EBUSY, capkm_window_seal(hw, w, 0, &graph, NULL, &err));
	OK(capkm_window_end(hw, &owner, w, CAPKM_WINDOW_F_DRIVER_DONE, NULL, &err));
	OK(capkm_window_seal(hw, w, 0, &graph, NULL, &err));
	ASSERT_NE(0, graph);
	OK(capkm_window_prepare(none, &owner, NULL, &w, &err));
	ASSERT_EQ(0, w);
	REFUSED(-EOPNOTSUPP, capkm_window_begin(none, &owner, 0, NULL, &err));
	BEGINS(err.text, "begin_capture: ");
	SAYS("no graphs");
	REFUSED(-EOPNOTSUPP, capkm_window_close(none, &owner, &graph, NULL, &err));
	BEGINS(err.text, "end_capture: ");
	capkm_close(none);
	capkm_close(hw);
	t_no_leaks();
}

/* ------------------------------------------------------------- confirmation */

static const uint8_t gpu[16] = { 0xca, 0x9a, [15] = 1 };
static const uint8_t other_gpu[16] = { 0xca, 0x9a, [15] = 2 };
static const struct capkm_where on_gpu = { .stream = 3, .device = { 0xca, 0x9a, [15] = 1 } };

static uint32_t confirmed(struct capkm *c, const struct capkm_claim *claim,
			  struct capkm_answer *a)
{
	const int rc = capkm_check_with(c, claim, 1, WITH(struct capkm_check_opts,
					.flags = CAPKM_CHECK_F_CONFIRMED), a, &err);

	if (rc)
		t_die("check_with: %d (%s)", rc, err.text);
	return a->out_result;
}

/* capkm_confirm(): up to what was sampled, and no further */
TEST_F(library, confirm)
{
	struct capkm_report r;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r, .reports_len = 1);
	const struct capkm_claim first = { self->a.buffer, 0, 8 };
	const struct capkm_claim second = { self->a.buffer, 32, 40 };
	uint64_t early, late, left = 99;

	OK(write_well(self->c, &owner, &first));
	OK(capkm_stream_sequence(self->c, &owner, &early, &err));
	OK(write_well(self->c, &owner, &second));
	ASSERT_EQ(CAPKM_PENDING, confirmed(self->c, &self->a, &a));
	ASSERT_EQ(1, a.out_unconfirmed);
	ASSERT_EQ(1, a.out_reports);
	ASSERT_EQ(CAPKM_KIND_UNCONFIRMED, r.kind);
	ASSERT_EQ(capkm_session_id(self->c), r.session);
	/* Who does not ask is not told, but for the count. */
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	ASSERT_EQ(1, a.out_unconfirmed);
	OK(capkm_confirm(self->c, &owner, early, &left, &err));
	ASSERT_EQ(1, left);
	ASSERT_EQ(CAPKM_CLEAN, confirmed(self->c, &first, &a));
	ASSERT_EQ(CAPKM_PENDING, confirmed(self->c, &second, &a));
	OK(capkm_stream_sequence(self->c, &owner, &late, &err));
	ASSERT_LT(early, late);
	REFUSED(-EINVAL, capkm_confirm(self->c, &owner, late + 1, &left, &err));
	BEGINS(err.text, "confirm: stream 7");
	SAYS("has not been reached");
	ASSERT_EQ(1, left);
	OK(capkm_confirm(self->c, &owner, late, &left, &err));
	ASSERT_EQ(0, left);
	ASSERT_EQ(CAPKM_CLEAN, confirmed(self->c, &self->a, &a));
	ASSERT_EQ(0, a.out_unconfirmed);
	REFUSED(-ENOENT, capkm_confirm(self->c, &(struct capkm_where){
			.stream = CAPKM_STREAM_FIRST + 1000 }, 0, NULL, &err));
	SAYS("no such stream");
}

/* capkm_confirm_other(): by the client's id; here its own */
TEST_F(library, confirm_other)
{
	const struct capkm_where slot = { .slot = 3, .flags = CAPKM_WHERE_SLOT };
	struct capkm_stream_query q = {
		.size = sizeof(q), .place.slot = 3, .flags = CAPKM_PLACE_F_SLOT,
	};
	uint64_t left = 77;

	OK(capkm_stream_query(self->c, &q, &err));
	ASSERT_NE(0, q.out_client);
	OK(capkm_confirm_other(self->c, q.out_client, &slot, 0, &left, &err));
	ASSERT_EQ(0, left);
	REFUSED(-EINVAL, capkm_confirm_other(self->c, q.out_client, &slot, 1, &left, &err));
	REFUSED(-ENOENT, capkm_confirm_other(self->c, q.out_client + 1, &slot, 0, NULL, &err));
}

/* capkm_confirm_device(): all slots of the device, and no other */
TEST_F(library, confirm_device)
{
	struct capkm_where elsewhere = on_gpu;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	uint64_t sequence, left = 99;

	elsewhere.stream = 4;
	OK(write_well(self->c, &on_gpu, &self->a));
	OK(write_well(self->c, &elsewhere, &self->b));
	OK(capkm_sequence(self->c, &sequence, &err));
	OK(capkm_confirm_device(self->c, other_gpu, sequence, NULL, &err));
	ASSERT_EQ(CAPKM_PENDING, confirmed(self->c, &self->a, &a));
	OK(capkm_confirm_device(self->c, gpu, sequence, &left, &err));
	ASSERT_EQ(0, left);
	ASSERT_EQ(CAPKM_CLEAN, confirmed(self->c, &self->a, &a));
	ASSERT_EQ(CAPKM_CLEAN, confirmed(self->c, &self->b, &a));
	OK(write_well(self->c, &elsewhere, &self->b));
	OK(capkm_confirm_device(self->c, gpu, sequence, &left, &err));
	ASSERT_EQ(1, left);
	REFUSED(-EINVAL, capkm_confirm_device(self->c, gpu, sequence + 10 * CAPKM_SEQUENCE_STEP, &left, &err));
}

static void *confirm_later(void *arg)
{
	struct delayed *d = arg;

	usleep(d->ms * 1000);
	return capkm_confirm(d->c, &owner, d->s->sequence, NULL, NULL) ? "confirm" : NULL;
}

/* capkm_read(): only confirmed bytes, if that is wanted: waits for it */
TEST_F(library, read_confirmed)
{
	char src[BYTES] = "x", dst[BYTES];
	struct capkm_report r;
	struct capkm_read_opts o = CAPKM_OPTS(struct capkm_read_opts, .report = &r,
					      .flags = CAPKM_READ_OPTS_CONFIRMED, .retry_ms = 20);
	struct capkm_scope s;
	struct delayed d = { self->c, &s, 30 };
	pthread_t t;
	void *rc;

	OK(capkm_scope_enter(self->c, &owner, NULL, 0, &self->a, 1, NULL, &s, NULL, &err));
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	OK(capkm_read(self->c, &self->a, dst, src, NULL, &err));
	REFUSED(-EAGAIN, capkm_read(self->c, &self->a, dst, src, &o, &err));
	BEGINS(err.text, "read: after 20 ms: ");
	SAYS("unconfirmed");
	ASSERT_EQ(CAPKM_KIND_UNCONFIRMED, r.kind);
	ASSERT_EQ(self->a.buffer, r.buffer);
	o.retry_ms = 10000;
	ASSERT_EQ(0, pthread_create(&t, NULL, confirm_later, &d));
	OK(capkm_read(self->c, &self->a, dst, src, &o, &err));
	ASSERT_EQ(0, memcmp(dst, src, BYTES));
	pthread_join(t, &rc);
	ASSERT_EQ(NULL, rc);
	/* Tainted outranks it. */
	ASSERT_NE(0, fail(self->c, &self->a, "worse"));
	REFUSED(-ESTALE, capkm_read(self->c, &self->a, dst, src, &o, &err));
}

/* capkm_check_with(): written since */
TEST_F(library, check_written)
{
	struct capkm_report r;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r, .reports_len = 1);
	struct capkm_check_opts o = CAPKM_OPTS(struct capkm_check_opts,
					       .flags = CAPKM_CHECK_F_WRITTEN);
	struct capkm_claim claims[2] = { self->a, { .end = BYTES } };
	uint64_t id;

	OK(write_well(self->c, NULL, &self->a));
	OK(capkm_sequence(self->c, &o.since, &err));
	OK(capkm_check_with(self->c, &self->a, 1, &o, &a, &err));
	ASSERT_EQ(CAPKM_STALE, a.out_result);
	ASSERT_EQ(CAPKM_KIND_STALE, r.kind);
	OK(write_well(self->c, NULL, &self->a));
	OK(capkm_check_with(self->c, &self->a, 1, &o, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	OK(capkm_check_with(self->c, &self->a, 1, NULL, NULL, NULL));
	o.flags |= CAPKM_CHECK_F_UNCHANGED;
	REFUSED(-EINVAL, capkm_check_with(self->c, &self->a, 1, &o, &a, &err));
	o.flags = CAPKM_CHECK_F_WRITTEN;
	o.__reserved = 1;
	REFUSED(-EINVAL, capkm_check_with(self->c, &self->a, 1, &o, &a, &err));
	o.__reserved = 0;
	/* Of a private buffer it is not known, unless it was made for it. */
	OK(capkm_buffer_create(self->c, BYTES, NULL, &id, &err));
	claims[1].buffer = id;
	REFUSED(-EOPNOTSUPP, capkm_check_with(self->c, claims, 2, &o, &a, &err));
	ASSERT_EQ(1, err.index);
	BEGINS(err.text, "check: claims[1]");
	SAYS("CAPKM_BUFFER_CREATE_F_FRESH");
	OK(capkm_buffer_create(self->c, BYTES, WITH(struct capkm_buffer_opts,
			       .flags = CAPKM_BUFFER_CREATE_F_FRESH), &id, &err));
	claims[1].buffer = id;
	OK(capkm_check_with(self->c, claims, 2, &o, &a, &err));
	ASSERT_EQ(CAPKM_STALE, a.out_result);
	OK(write_well(self->c, NULL, &claims[1]));
	OK(capkm_check_with(self->c, claims, 2, &o, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
}

/* ------------------------------------------------------------------- faults */

/* capkm_stream_fault(), capkm_context_renew(): lost, skipped, and going on */
TEST_F(library, fault)
{
	const struct capkm_cause xid = CAPKM_OPTS(struct capkm_cause, .code = 79,
						  .text = "fell off the bus");
	struct capkm_report r = { 0 };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r, .reports_len = 1);
	struct capkm_stream_query q = { .size = sizeof(q), .place.stream = 3 };
	uint64_t f = 0, again = 0, epoch = 0;
	struct capkm_scope s;

	OK(write_well(self->c, &on_gpu, &self->a));
	OK(write_well(self->c, &owner, &self->b));
	OK(capkm_stream_fault(self->c, &on_gpu, &xid, &f, &epoch, &err));
	ASSERT_NE(0, f);
	ASSERT_EQ(1, epoch);
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, r.kind);
	ASSERT_EQ(79, r.code);
	ASSERT_STREQ("fell off the bus", (char *)r.text);
	OK(capkm_check(self->c, &self->b, 1, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	OK(capkm_stream_fault(self->c, &on_gpu, NULL, &again, &epoch, &err));
	ASSERT_EQ(f, again);
	ASSERT_EQ(1, epoch);
	memcpy(q.place.device, gpu, sizeof(gpu));
	OK(capkm_stream_query(self->c, &q, &err));
	ASSERT_EQ(f, q.out_failure);
	OK(capkm_scope_enter(self->c, &on_gpu, NULL, 0, &self->a, 1, NULL, &s, &r, &err));
	ASSERT_EQ(CAPKM_SKIPPED, s.result);
	ASSERT_EQ(f, s.failure);
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	REFUSED(-ENOENT, capkm_context_renew(self->c, other_gpu, &epoch, &err));
	BEGINS(err.text, "context_renew: ");
	SAYS("never used");
	OK(capkm_context_renew(self->c, gpu, &epoch, &err));
	ASSERT_EQ(1, epoch);
	OK(write_well(self->c, &on_gpu, &self->a));
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	/* The next one is another one. */
	OK(capkm_stream_fault(self->c, &on_gpu, NULL, &again, &epoch, &err));
	ASSERT_NE(f, again);
	ASSERT_EQ(2, epoch);
	REFUSED(-EINVAL, capkm_stream_fault(self->c, &(struct capkm_where){ .stream = 3,
			.slot = 32, .flags = CAPKM_WHERE_SLOT }, NULL, NULL, NULL, &err));
	BEGINS(err.text, "stream_fault: stream 3");
}

/* capkm_device_fault(): for a monitor, of any domain */
TEST_F(library, device_fault)
{
	const uint8_t host[16] = { 0 };
	struct capkm *monitor = new_handle(NULL);
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_claim own = { .end = BYTES };
	uint32_t clients = 99;
	uint64_t id;

	if (geteuid()) {
		REFUSED(-EPERM, capkm_device_fault(monitor, gpu, NULL, &clients, &err));
		SAYS("administrator");
		capkm_close(monitor);
		return;
	}
	OK(capkm_buffer_create(self->c, BYTES, NULL, &id, &err));
	own.buffer = id;
	OK(write_well(self->c, &on_gpu, &self->a));
	OK(write_well(self->c, &on_gpu, &own));
	REFUSED(-EINVAL, capkm_device_fault(monitor, host, NULL, &clients, &err));
	BEGINS(err.text, "device_fault: ");
	OK(capkm_device_fault(monitor, other_gpu, NULL, &clients, &err));
	ASSERT_EQ(0, clients);
	OK(capkm_device_fault(monitor, gpu, WITH(struct capkm_cause, .code = 79), &clients, &err));
	ASSERT_EQ(1, clients);
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
	OK(capkm_check(self->c, &own, 1, &a, &err));
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
	capkm_close(monitor);
}

static struct capkm_stream_flush flushed(struct capkm *c, uint64_t stream, uint32_t flags,
					 struct capkm_report *reports, uint32_t len)
{
	struct capkm_stream_flush f = {
		.size = sizeof(f), .flags = flags | CAPKM_PLACE_F_SLOT,
		.place = { .stream = stream, .slot = 5 },
		.reports_uptr = (uintptr_t)reports, .reports_len = len,
	};
	int rc = capkm_stream_flush(c, &f, &err);

	if (rc)
		t_die("stream_flush: %d (%s)", rc, err.text);
	return f;
}

static uint64_t fail_on(struct capkm *c, uint64_t stream, const struct capkm_claim *writes)
{
	const struct capkm_where where = { .stream = stream, .slot = 5,
					   .flags = CAPKM_WHERE_SLOT };
	struct capkm_scope s;

	if (capkm_scope_enter(c, &where, NULL, 0, writes, 1, NULL, &s, NULL, &err) ||
	    capkm_scope_fail(c, &s, NULL, &err))
		return 0;
	return s.failure;
}

/* T-95 capkm_stream_flush(): own errors once, those of who is gone to anybody */
TEST_F(library, flush)
{
	struct capkm_report r[4];
	struct capkm_stream_flush f;
	uint64_t first = fail_on(self->c, 71, &self->a), second = fail_on(self->c, 71, &self->b);
	uint64_t foreign = fail_on(self->c, 72, &self->a);

	f = flushed(self->c, 71, CAPKM_STREAM_FLUSH_F_PEEK, r, 4);
	ASSERT_EQ(2, f.out_reports);
	ASSERT_EQ(first, r[0].failure);
	ASSERT_EQ(second, r[1].failure);
	f = flushed(self->c, 71, 0, r, 1);
	ASSERT_EQ(1, f.out_reports);
	ASSERT_EQ(first, r[0].failure);
	ASSERT_EQ(1, f.out_left);
	f = flushed(self->c, 71, 0, r, 4);
	ASSERT_EQ(1, f.out_reports);
	ASSERT_EQ(second, r[0].failure);
	ASSERT_EQ(0, flushed(self->c, 71, 0, r, 4).out_reports);
	ASSERT_EQ(1, flushed(self->c, 71, CAPKM_STREAM_FLUSH_F_PEEK |
			     CAPKM_STREAM_FLUSH_F_EVERY, r, 4).out_reports);
	/* Its stream ends: it is anybody's. */
	OK(capkm_stream_destroy(self->c, 72, NULL, &err));
	ASSERT_EQ(0, flushed(self->c, 71, CAPKM_STREAM_FLUSH_F_OWN, r, 4).out_reports);
	f = flushed(self->c, 71, CAPKM_STREAM_FLUSH_F_SHARED, r, 4);
	ASSERT_EQ(1, f.out_reports);
	ASSERT_EQ(foreign, r[0].failure);
	f = (struct capkm_stream_flush){ .size = sizeof(f), .flags =
		CAPKM_STREAM_FLUSH_F_OWN | CAPKM_STREAM_FLUSH_F_SHARED };
	REFUSED(-EINVAL, capkm_stream_flush(self->c, &f, &err));
	BEGINS(err.text, "stream_flush: stream ");
	SAYS("only one");
	ASSERT_EQ(capkm_stream_current(), f.place.stream);
}

/* capkm_stream_destroy(): its windows are refused, its id is gone */
TEST_F(library, stream_destroy)
{
	struct capkm *d = new_handle(NULL);
	uint64_t stream, w;
	uint32_t windows = 9;

	OK(capkm_domain_attach(d, NULL, WITH(struct capkm_domain_opts,
			       .domain = capkm_domain_id(self->c)), &err));
	OK(capkm_stream_create(self->c, NULL, &stream, &err));
	REFUSED(-EPERM, capkm_stream_destroy(d, stream, &windows, &err));
	SAYS("another session's");
	capkm_stream_pin(stream);
	OK(capkm_window_prepare(self->c, NULL, NULL, &w, &err));
	OK(capkm_stream_destroy(self->c, 0, &windows, &err));
	ASSERT_EQ(1, windows);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, window_state(self->c, w));
	REFUSED(-ENOENT, capkm_stream_destroy(self->c, stream, NULL, &err));
	BEGINS(err.text, "stream_destroy: stream 4294967");
	SAYS("no such stream");
	REFUSED(-ENOENT, capkm_window_prepare(self->c, NULL, NULL, &w, &err));
	capkm_stream_unpin();
	/* One of the thread's own may be used again. */
	OK(capkm_stream_destroy(self->c, 0, &windows, &err));
	ASSERT_EQ(0, windows);
	OK(capkm_window_prepare(self->c, NULL, NULL, &w, &err));
	capkm_close(d);
}

/* ------------------------------------------------------- members, children */

static const struct capkm_where aside = { .stream = 8 };

/* capkm_window_join(): another slot records, and the query tells which */
TEST_F(library, window_join)
{
	struct capkm_member members[2];
	struct capkm_window_query q = {
		.size = sizeof(q), .members_uptr = (uintptr_t)members, .members_len = 2,
	};
	struct capkm_stream_query slot = { .size = sizeof(slot), .place.stream = 8 };
	uint64_t w = record(self->c, &self->a), second, graph;
	uint32_t result = 99;
	struct capkm_scope s;

	OK(capkm_scope_enter(self->c, &aside, NULL, 0, &self->b, 1, NULL, &s, NULL, &err));
	REFUSED(-EBUSY, capkm_window_join(self->c, w, &aside, 0, &result, &err));
	BEGINS(err.text, "window_join: stream 8");
	SAYS("a scope is open");
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	OK(capkm_window_join(self->c, w, &aside, 0, &result, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	OK(write_well(self->c, &aside, &self->b));
	q.window = w;
	OK(capkm_window_query(self->c, &q, &err));
	ASSERT_EQ(1, q.out_members);
	ASSERT_EQ(8, members[0].slot);
	ASSERT_EQ(8, members[0].stream);
	ASSERT_EQ(1, members[0].launches);
	ASSERT_EQ(2, q.out_recorded);
	OK(capkm_stream_query(self->c, &slot, &err));
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, slot.out_state);
	REFUSED(-EBUSY, capkm_window_prepare(self->c, &aside, NULL, NULL, &err));
	BEGINS(err.text, "graph_prepare: stream 8");
	SAYS("member of another slot's window");
	/* Who has one of its own does not join; if the driver merged them, both go. */
	OK(capkm_window_prepare(self->c, &(struct capkm_where){ .stream = 9 }, NULL, &second,
				&err));
	OK(capkm_window_begin(self->c, &(struct capkm_where){ .stream = 9 }, 0, NULL, &err));
	REFUSED(-EBUSY, capkm_window_join(self->c, w, &(struct capkm_where){ .stream = 9 }, 0,
					  &result, &err));
	SAYS("a window of its own");
	REFUSED(-EBUSY, capkm_window_join(self->c, second, &aside, 0, NULL, &err));
	SAYS("member of another window already");
	OK(capkm_window_join(self->c, w, &(struct capkm_where){ .stream = 9 },
			     CAPKM_WINDOW_JOIN_F_DRIVER_MERGED, &result, &err));
	ASSERT_EQ(CAPKM_REFUSED, result);
	REFUSED(-ESTALE, capkm_window_close(self->c, &owner, &graph, NULL, &err));
	SAYS("merged");
	REFUSED(-ESTALE, capkm_window_close(self->c, &(struct capkm_where){ .stream = 9 },
					    &graph, NULL, &err));
	REFUSED(-ENOENT, capkm_window_join(self->c, 1ull << 40, &aside, 0, NULL, &err));
	OK(capkm_window_prepare(self->c, &owner, NULL, &w, &err));
	REFUSED(-EINVAL, capkm_window_join(self->c, w, &aside, 0, NULL, &err));
	SAYS("does not record");
}

/* Child windows: the parent waits, the child becomes a part of it */
TEST_F(library, child_window)
{
	struct capkm_window_opts o = CAPKM_OPTS(struct capkm_window_opts);
	struct capkm_graph_query g = { .size = sizeof(g) };
	uint64_t w = record(self->c, &self->a), child, graph = 9;
	struct capkm_scope s;

	o.parent = 1ull << 40;
	REFUSED(-ENOENT, capkm_window_prepare(self->c, &aside, &o, &child, &err));
	SAYS("no such parent");
	o.parent = w;
	OK(capkm_window_prepare(self->c, &aside, &o, &child, &err));
	OK(capkm_window_begin(self->c, &aside, 0, NULL, &err));
	OK(write_well(self->c, &aside, &self->b));
	REFUSED(-EBUSY, capkm_window_close(self->c, &owner, &graph, NULL, &err));
	BEGINS(err.text, "end_capture: stream 7");
	SAYS("a child window");
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, window_state(self->c, w));
	OK(capkm_window_close(self->c, &aside, &graph, NULL, &err));
	ASSERT_EQ(0, graph);
	OK(capkm_window_close(self->c, &owner, &graph, NULL, &err));
	g.graph = graph;
	OK(capkm_graph_query(self->c, &g, &err));
	ASSERT_EQ(1, g.out_writes);
	ASSERT_EQ(1, g.out_seen);
	/* Work on the parent while a child records is refused. */
	w = record(self->c, &self->a);
	o.parent = w;
	OK(capkm_window_prepare(self->c, &aside, &o, &child, &err));
	OK(capkm_window_begin(self->c, &aside, 0, NULL, &err));
	OK(capkm_scope_enter(self->c, &owner, NULL, 0, &self->b, 1, NULL, &s, NULL, &err));
	ASSERT_EQ(CAPKM_REFUSED, s.result);
	ASSERT_EQ(0, s.id);
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	OK(capkm_window_prepare(self->c, &(struct capkm_where){ .stream = 9 }, NULL, NULL, &err));
	o.parent = 0;
	OK(capkm_window_abort(self->c, &(struct capkm_where){ .stream = 9 }, 0, NULL, &err));
	OK(capkm_window_abort(self->c, &aside, 0, NULL, &err));
	REFUSED(-ESTALE, capkm_window_close(self->c, &owner, &graph, NULL, &err));
	o.parent = w;
	REFUSED(-ENOENT, capkm_window_prepare(self->c, &aside, &o, &child, &err));
	OK(capkm_window_prepare(self->c, &owner, NULL, &w, &err));
	o.parent = w;
	REFUSED(-EINVAL, capkm_window_prepare(self->c, &aside, &o, &child, &err));
	SAYS("the parent does not record");
}

/* Strict windows: work of the owner that runs outside of it dooms it */
TEST_F(library, strict_window)
{
	struct capkm_window_opts o = CAPKM_OPTS(struct capkm_window_opts,
						.flags = CAPKM_WINDOW_PREPARE_F_STRICT);
	struct capkm_window_query q = { .size = sizeof(q) };
	const struct capkm_where outside = { .stream = 7, .slot = 9, .flags = CAPKM_WHERE_SLOT };
	uint64_t w, graph;

	OK(capkm_window_prepare(self->c, &owner, &o, &w, &err));
	OK(capkm_window_begin(self->c, &owner, 0, NULL, &err));
	OK(write_well(self->c, &owner, &self->a));
	OK(write_well(self->c, &outside, &self->b));
	q.window = w;
	OK(capkm_window_query(self->c, &q, &err));
	ASSERT_EQ(1, q.out_strict);
	ASSERT_EQ(1, q.out_escaped);
	ASSERT_EQ(1, q.out_doomed);
	REFUSED(-ESTALE, capkm_window_close(self->c, &owner, &graph, NULL, &err));
	/* Without it, it is only counted. */
	w = record(self->c, &self->a);
	OK(write_well(self->c, &outside, &self->b));
	q.window = w;
	OK(capkm_window_query(self->c, &q, &err));
	ASSERT_EQ(1, q.out_escaped);
	OK(capkm_window_close(self->c, &owner, &graph, NULL, &err));
	o.flags = 2;
	REFUSED(-EOPNOTSUPP, capkm_window_prepare(self->c, &owner, &o, &w, &err));
}

/* capkm_window_abort(): whatever is there, or this one only */
TEST_F(library, abort_by_id)
{
	uint64_t w = record(self->c, &self->a), aborted = 9;

	REFUSED(-ENOENT, capkm_window_abort(self->c, &owner, w + 1, &aborted, &err));
	BEGINS(err.text, "window_abort: stream 7: that window is not on the slot");
	ASSERT_EQ(9, aborted);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, window_state(self->c, w));
	OK(capkm_window_abort(self->c, &owner, w, &aborted, &err));
	ASSERT_EQ(w, aborted);
	REFUSED(-ENOENT, capkm_window_abort(self->c, &owner, w, &aborted, &err));
	OK(capkm_window_abort(self->c, &owner, 0, &aborted, &err));
	ASSERT_EQ(0, aborted);
}

static uint64_t close_for(struct capkm *c)
{
	struct capkm_window_end end = { .size = sizeof(end) };

	return capkm_window_end(c, &owner, 0, 0, &end, &err) ? 0 : end.out_window;
}

/* capkm_graph_update(): replaced, refused by us, refused by the driver */
TEST_F(library, graph_update)
{
	struct capkm_report r[2];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = r, .reports_len = 2);
	struct capkm_claim claims[4];
	struct capkm_graph_query q = {
		.size = sizeof(q), .claims_uptr = (uintptr_t)claims, .claims_len = 4,
	};
	uint64_t w, graph, other_graph;
	uint32_t result;

	ASSERT_NE(0, record(self->c, &self->a));
	OK(capkm_window_close(self->c, &owner, &graph, NULL, &err));
	w = record(self->c, &self->b);
	REFUSED(-EINVAL, capkm_graph_update(self->c, graph, w, 0, &a, &err));
	BEGINS(err.text, "graph_update: graph ");
	SAYS("not closed");
	ASSERT_EQ(w, close_for(self->c));
	OK(capkm_graph_replay_begin(self->c, graph, NULL, NULL, &result, NULL, &err));
	REFUSED(-EBUSY, capkm_graph_update(self->c, graph, w, 0, &a, &err));
	SAYS("being replayed");
	OK(capkm_graph_replay_end(self->c, graph, 0, &err));
	OK(capkm_graph_update(self->c, graph, w, CAPKM_GRAPH_UPDATE_F_FAILED, &a, &err));
	OK(capkm_graph_update(self->c, graph, w, 0, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	ASSERT_EQ(CAPKM_WINDOW_SEALED, window_state(self->c, w));
	q.graph = graph;
	OK(capkm_graph_query(self->c, &q, &err));
	ASSERT_EQ(1, q.out_writes);
	ASSERT_EQ(self->b.buffer, claims[0].buffer);
	ASSERT_EQ(1, q.out_updates);
	ASSERT_EQ(1, q.out_failed_updates);
	/* A doomed window updates nothing. */
	w = record(self->c, &self->a);
	OK(capkm_window_fail(self->c, w, 0, "launch", WITH(struct capkm_cause,
			     .text = "spoilt"), &err));
	ASSERT_EQ(w, close_for(self->c));
	OK(capkm_graph_update(self->c, graph, w, 0, &a, &err));
	ASSERT_EQ(CAPKM_REFUSED, a.out_result);
	ASSERT_EQ(2, a.out_reports);
	ASSERT_STREQ("spoilt", (char *)r[1].text);
	OK(capkm_graph_query(self->c, &q, &err));
	ASSERT_EQ(self->b.buffer, claims[0].buffer);
	REFUSED(-ENOENT, capkm_graph_update(self->c, 1ull << 40, w, 0, &a, &err));
	ASSERT_NE(0, record(self->c, &self->a));
	OK(capkm_window_close(self->c, &owner, &other_graph, NULL, &err));
	ASSERT_NE(graph, other_graph);
}

/* ------------------------------------------------------------------ waiting */

static void *close_later(void *arg)
{
	struct delayed *d = arg;
	uint64_t graph;

	usleep(d->ms * 1000);
	return capkm_window_close(d->c, &owner, &graph, NULL, NULL) ? "close" : NULL;
}

/* capkm_window_wait(): until it has left its slot, or the time is over */
TEST_F(library, window_wait)
{
	struct capkm_window_wait wait = { .size = sizeof(wait) };
	struct delayed d = { self->c, NULL, 30 };
	pthread_t t;
	uint64_t w;
	void *rc;

	/* No window: nothing to wait for. */
	wait.timeout_ns = UINT64_MAX;
	OK(capkm_window_wait(self->c, &wait, &err));
	ASSERT_EQ(capkm_stream_current(), wait.place.stream);
	ASSERT_EQ(0, wait.out_window);
	w = record(self->c, &self->a);
	wait = (struct capkm_window_wait){ .size = sizeof(wait), .window = w,
					   .timeout_ns = 20000000 };
	REFUSED(-ETIMEDOUT, capkm_window_wait(self->c, &wait, &err));
	BEGINS(err.text, "window_wait: window ");
	SAYS("still on its slot");
	wait.timeout_ns = UINT64_MAX;
	ASSERT_EQ(0, pthread_create(&t, NULL, close_later, &d));
	OK(capkm_window_wait(self->c, &wait, &err));
	ASSERT_EQ(w, wait.out_window);
	ASSERT_TRUE(wait.out_state == CAPKM_WINDOW_SEALED ||
		    wait.out_state == CAPKM_WINDOW_CLOSING);
	ASSERT_EQ(CAPKM_KIND_NONE, wait.out_kind);
	pthread_join(t, &rc);
	ASSERT_EQ(NULL, rc);
	OK(capkm_window_wait(self->c, &wait, &err));
	ASSERT_EQ(CAPKM_WINDOW_SEALED, wait.out_state);
	wait.window = 1ull << 40;
	REFUSED(-ENOENT, capkm_window_wait(self->c, &wait, &err));
	wait.window = w;
	wait.place.stream = 7;
	REFUSED(-EINVAL, capkm_window_wait(self->c, &wait, &err));
	SAYS("not both");
}

static void nothing(int signal)
{
}

static void *disturb(void *arg)
{
	const pthread_t *whom = arg;

	usleep(50000);
	return pthread_kill(*whom, SIGUSR1) ? "kill" : NULL;
}

/* A signal ends a wait, and what is left of the time comes with it */
TEST_F(library, interrupted)
{
	const struct sigaction sa = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	struct capkm_window_wait wait = { .size = sizeof(wait), .timeout_ns = 100000000000 };
	struct capkm_event event;
	pthread_t me = pthread_self(), t;
	uint32_t got = 9;
	void *rc;

	if (t_embedded())
		SKIP(return, "nothing interrupts an embedded wait");
	sigaction(SIGUSR1, &sa, NULL);
	wait.window = record(self->c, &self->a);
	ASSERT_NE(0, wait.window);
	ASSERT_EQ(0, pthread_create(&t, NULL, disturb, &me));
	REFUSED(-EINTR, capkm_window_wait(self->c, &wait, &err));
	SAYS("a signal came");
	ASSERT_GT(100000000000, wait.timeout_ns);
	ASSERT_LT(0, wait.timeout_ns);
	pthread_join(t, &rc);
	ASSERT_EQ(NULL, rc);
	do {
		OK(capkm_events_read(self->c, &event, 1, 100000, &got, &err));
	} while (event.type != CAPKM_EVENT_WINDOW_BEGUN);
	ASSERT_EQ(0, pthread_create(&t, NULL, disturb, &me));
	REFUSED(-EINTR, capkm_events_read(self->c, &event, 1, 100000, &got, &err));
	SAYS("a signal came");
	pthread_join(t, &rc);
}

/* ------------------------------------------------------------------- events */

static void *prepare_later(void *arg)
{
	struct delayed *d = arg;

	usleep(d->ms * 1000);
	return capkm_window_prepare(d->c, &owner, NULL, NULL, NULL) ? "prepare" : NULL;
}

/* capkm_events_read(): each once, in order, waited for as long as asked */
TEST_F(library, events)
{
	static const uint32_t life[] = {
		CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN, CAPKM_EVENT_WINDOW_SEALED,
	};
	struct capkm *idle = new_handle(NULL);
	struct capkm_event e[8];
	struct delayed d = { self->c, NULL, 30 };
	uint64_t w, graph, number;
	uint32_t got = 9, n;
	pthread_t t;
	void *rc;

	REFUSED(-ENOTCONN, capkm_events_read(idle, e, 8, 0, &got, &err));
	BEGINS(err.text, "events_read: ");
	SAYS("no domain yet");
	capkm_close(idle);
	REFUSED(-EINVAL, capkm_events_read(self->c, e, 0, 0, &got, &err));
	REFUSED(-ETIMEDOUT, capkm_events_read(self->c, e, 8, 0, &got, &err));
	REFUSED(-ETIMEDOUT, capkm_events_read(self->c, e, 8, 20, &got, &err));
	SAYS("nothing has happened");
	ASSERT_EQ(9, got);
	w = record(self->c, &self->a);
	OK(capkm_window_close(self->c, &owner, &graph, NULL, &err));
	for (n = 0; n < 3; n += got) {
		OK(capkm_events_read(self->c, &e[n], n ? 8 - n : 1, 10000, &got, &err));
		ASSERT_LT(0, got);
		ASSERT_GE(n ? 8 - n : 1, got);
	}
	ASSERT_EQ(3, n);
	for (n = 0; n < 3; n++) {
		ASSERT_EQ(sizeof(e[n]), e[n].size);
		ASSERT_EQ(life[n], e[n].type) {
			TH_LOG("it is \"%s\"", capkm_event_name(e[n].type));
		}
		ASSERT_EQ(w, e[n].window);
		ASSERT_EQ(0, e[n].lost);
		ASSERT_EQ(e[0].number + n, e[n].number);
		ASSERT_EQ(owner.stream, e[n].stream);
		ASSERT_EQ(capkm_session_id(self->c), e[n].session);
	}
	ASSERT_EQ(graph, e[2].graph);
	number = e[2].number;
	REFUSED(-ETIMEDOUT, capkm_events_read(self->c, e, 8, 0, &got, &err));
	/* For a time, and for ever. */
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_create(&t, NULL, prepare_later, &d));
		OK(capkm_events_read(self->c, e, 8, i ? -1 : 100000, &got, &err));
		ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, e[0].type);
		ASSERT_EQ(++number, e[0].number);
		pthread_join(t, &rc);
		ASSERT_EQ(NULL, rc);
		OK(capkm_window_abort(self->c, &owner, 0, NULL, &err));
		OK(capkm_events_read(self->c, e, 8, 10000, &got, &err));
		ASSERT_EQ(CAPKM_EVENT_WINDOW_REFUSED, e[0].type);
		number++;
	}
	OK(capkm_domain_destroy(self->c, 0, 0, &err));
	OK(capkm_events_read(self->c, e, 8, -1, &got, &err));
	ASSERT_EQ(0, got);
}

/* Events that were overwritten are counted; failures only for who wants them */
TEST(events_lost)
{
	const struct capkm_limit_value few = { .limit = CAPKM_LIMIT_EVENTS, .value = 4 };
	struct capkm *c = new_handle(NULL), *d = new_handle(NULL);
	struct capkm_event e[8];
	struct capkm_claim claim;
	uint32_t got = 0;
	uint64_t f;

	OK(capkm_domain_create(c, NULL, WITH(struct capkm_domain_opts, .limits = &few,
			       .limits_len = 1), &err));
	OK(capkm_domain_attach(d, NULL, WITH(struct capkm_domain_opts,
			       .domain = capkm_domain_id(c),
			       .flags = CAPKM_DOMAIN_OPTS_FAILURE_EVENTS), &err));
	claim = new_buffer(c, "a");
	f = fail(c, &claim, "x");
	OK(capkm_written(c, &claim, 1, &err));
	OK(capkm_events_read(d, e, 8, 10000, &got, &err));
	ASSERT_EQ(CAPKM_EVENT_FAILURE_MINTED, e[0].type);
	ASSERT_EQ(f, e[0].failure);
	ASSERT_EQ(CAPKM_KIND_LAUNCH, e[0].kind);
	if (got == 1)
		OK(capkm_events_read(d, &e[1], 7, 10000, &got, &err));
	ASSERT_EQ(CAPKM_EVENT_FAILURE_PRUNED, e[1].type);
	REFUSED(-ETIMEDOUT, capkm_events_read(c, e, 8, 0, &got, &err));
	for (int i = 0; i < 3; i++) {
		OK(capkm_window_prepare(c, &owner, NULL, NULL, &err));
		OK(capkm_window_abort(c, &owner, 0, NULL, &err));
	}
	OK(capkm_events_read(d, e, 8, 10000, &got, &err));
	ASSERT_EQ(2, e[0].lost);
	capkm_close(d);
	capkm_close(c);
	t_no_leaks();
}

/* ------------------------------------------------------------------- limits */

/* A handle with a domain of its own, in which @limit is @value. */
static struct capkm *limited(uint32_t limit, uint64_t value)
{
	const struct capkm_limit_value one = { .limit = limit, .value = value };
	struct capkm *c = new_handle(NULL);
	int rc = capkm_domain_create(c, NULL, WITH(struct capkm_domain_opts, .limits = &one,
				     .limits_len = 1), &err);

	if (rc)
		t_die("domain_create: %d (%s)", rc, err.text);
	return c;
}

#define AT_LIMIT(rc, nr, value, call) do {				\
	char said_[100];						\
									\
	snprintf(said_, sizeof(said_), "limit '%s' (%d) is reached",	\
		 capkm_limit_name(nr), value);				\
	REFUSED(rc, call);						\
	SAYS(said_);							\
	ASSERT_EQ(nr, err.limit);					\
	capkm_close(c);							\
} while (0)

/* Errors: which limit, and how many, of each that a call can meet */
TEST(limits)
{
	struct capkm_window_opts o = CAPKM_OPTS(struct capkm_window_opts);
	const struct capkm_where gpus[2] = { { .stream = 1, .device = { 1 } },
					     { .stream = 1, .device = { 2 } } };
	const struct capkm_retained bytes = { .address = 4096, .bytes = 1 };
	struct capkm_claim a, parts[2];
	struct capkm_scope s;
	struct capkm *c;
	uint64_t id, w;

	c = limited(CAPKM_LIMIT_STREAMS, 1);
	OK(capkm_stream_create(c, NULL, &id, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_STREAMS, 1, capkm_stream_create(c, NULL, &id, &err));

	c = limited(CAPKM_LIMIT_BUFFERS, 1);
	new_buffer(c, "a");
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_BUFFERS, 1, capkm_buffer_create(c, 1, NULL, &id, &err));
	SAYS("close some");

	c = limited(CAPKM_LIMIT_SCOPES, 1);
	a = new_buffer(c, "a");
	OK(capkm_scope_enter(c, NULL, NULL, 0, &a, 1, NULL, &s, NULL, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_SCOPES, 1,
		 capkm_scope_enter(c, NULL, NULL, 0, &a, 1, NULL, &s, NULL, &err));

	c = limited(CAPKM_LIMIT_RANGES, 1);
	a = new_buffer(c, "a");
	parts[0] = (struct capkm_claim){ a.buffer, 0, 4 };
	parts[1] = (struct capkm_claim){ a.buffer, 8, 12 };
	AT_LIMIT(-ENOSPC, CAPKM_LIMIT_RANGES, 1, capkm_taint(c, parts, 2, 0, NULL, NULL, &err));

	c = limited(CAPKM_LIMIT_WINDOWS, 1);
	OK(capkm_window_prepare(c, &owner, NULL, NULL, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_WINDOWS, 1,
		 capkm_window_prepare(c, &aside, NULL, NULL, &err));
	BEGINS(err.text, "graph_prepare: stream 8: limit ");

	c = limited(CAPKM_LIMIT_OPEN_WINDOWS, 1);
	OK(capkm_window_prepare(c, &owner, NULL, NULL, &err));
	AT_LIMIT(-ENOSPC, CAPKM_LIMIT_OPEN_WINDOWS, 1,
		 capkm_window_prepare(c, &aside, NULL, NULL, &err));

	c = limited(CAPKM_LIMIT_DEVICES, 1);
	OK(capkm_scope_enter(c, &gpus[0], NULL, 0, NULL, 0, NULL, &s, NULL, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_DEVICES, 1,
		 capkm_scope_enter(c, &gpus[1], NULL, 0, NULL, 0, NULL, &s, NULL, &err));

	c = limited(CAPKM_LIMIT_CLAIMS, 1);
	a = new_buffer(c, "a");
	parts[0] = (struct capkm_claim){ a.buffer, 0, 4 };
	parts[1] = (struct capkm_claim){ a.buffer, 8, 12 };
	w = record(c, &parts[0]);
	ASSERT_NE(0, w);
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_CLAIMS, 1,
		 capkm_window_record(c, w, NULL, 0, &parts[1], 1, 0, &err));

	c = limited(CAPKM_LIMIT_RETAINED, 1);
	a = new_buffer(c, "a");
	w = record(c, &a);
	OK(capkm_window_retain(c, w, &bytes, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_RETAINED, 1, capkm_window_retain(c, w, &bytes, &err));

	c = limited(CAPKM_LIMIT_MEMBERS, 1);
	a = new_buffer(c, "a");
	w = record(c, &a);
	OK(capkm_window_join(c, w, &aside, 0, NULL, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_MEMBERS, 1, capkm_window_join(c, w,
		 &(struct capkm_where){ .stream = 9 }, 0, NULL, &err));

	c = limited(CAPKM_LIMIT_DEPTH, 1);
	a = new_buffer(c, "a");
	o.parent = record(c, &a);
	OK(capkm_window_prepare(c, &aside, &o, &o.parent, &err));
	OK(capkm_window_begin(c, &aside, 0, NULL, &err));
	AT_LIMIT(-EDQUOT, CAPKM_LIMIT_DEPTH, 1, capkm_window_prepare(c,
		 &(struct capkm_where){ .stream = 9 }, &o, NULL, &err));
	t_no_leaks();
}

/* capkm_window_close(): a window that meets a limit is refused, and says which */
TEST(limit_of_graphs)
{
	struct capkm *c = limited(CAPKM_LIMIT_GRAPHS, 1);
	struct capkm_claim a = new_buffer(c, "a");
	uint64_t graph, w;

	ASSERT_NE(0, record(c, &a));
	OK(capkm_window_close(c, &owner, &graph, NULL, &err));
	w = record(c, &a);
	REFUSED(-EDQUOT, capkm_window_close(c, &owner, &graph, NULL, &err));
	SAYS("limit 'graphs of a client' (1) is reached");
	ASSERT_EQ(CAPKM_LIMIT_GRAPHS, err.limit);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, window_state(c, w));
	capkm_close(c);
	t_no_leaks();
}

/* Limits: asked for, set, and of a domain that does not let in */
TEST(limit_values)
{
	struct capkm_limit_value v[CAPKM_LIMITS], one = { .limit = CAPKM_LIMIT_SESSIONS,
							  .value = 1 };
	struct capkm_info i = { .size = sizeof(i), .limits_uptr = (uintptr_t)v,
				.limits_len = CAPKM_LIMITS };
	struct capkm_domain_query q = { .size = sizeof(q), .limits_uptr = (uintptr_t)v,
					.limits_len = CAPKM_LIMITS };
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts, .limits = &one,
						.limits_len = 1);
	struct capkm *c = new_handle(NULL), *d = new_handle(NULL);
	uint64_t value = 0, usual;

	OK(capkm_info(c, &i, &err));
	ASSERT_EQ(CAPKM_LIMITS - 1, i.out_limits);
	OK(capkm_limit(c, CAPKM_LIMIT_SESSIONS, &usual, &err));
	ASSERT_EQ(CAPKM_LIMIT_SESSIONS, v[CAPKM_LIMIT_SESSIONS - 1].limit);
	ASSERT_EQ(v[CAPKM_LIMIT_SESSIONS - 1].value, usual);
	ASSERT_LT(1, usual);
	REFUSED(-EINVAL, capkm_limit(c, CAPKM_LIMITS, &value, &err));
	BEGINS(err.text, "limit: 28 ");
	OK(capkm_domain_create(c, NULL, &o, &err));
	OK(capkm_limit(c, CAPKM_LIMIT_SESSIONS, &value, &err));
	ASSERT_EQ(1, value);
	OK(capkm_domain_query(c, &q, &err));
	ASSERT_EQ(CAPKM_LIMITS - 1, q.out_limits);
	ASSERT_EQ(1, v[CAPKM_LIMIT_SESSIONS - 1].value);
	/* Of another domain only its name is known. */
	REFUSED(-ENOSPC, capkm_domain_attach(d, NULL, WITH(struct capkm_domain_opts,
			 .domain = capkm_domain_id(c)), &err));
	SAYS("limit 'sessions of a domain' is reached");
	ASSERT_EQ(CAPKM_LIMIT_SESSIONS, err.limit);
	/* Not every limit, nor for everybody. */
	one.limit = CAPKM_LIMIT_DOMAINS;
	REFUSED(-EINVAL, capkm_domain_create(d, NULL, &o, &err));
	SAYS("limit 'domains of a user'");
	ASSERT_EQ(CAPKM_LIMIT_DOMAINS, err.limit);
	one = (struct capkm_limit_value){ .limit = CAPKM_LIMIT_SESSIONS, .value = usual + 1 };
	if (geteuid()) {
		REFUSED(-EPERM, capkm_domain_create(d, NULL, &o, &err));
		SAYS("administrator");
		ASSERT_EQ(CAPKM_LIMIT_SESSIONS, err.limit);
	} else {
		OK(capkm_domain_open(d, NULL, &o, &err));
		OK(capkm_limit(d, CAPKM_LIMIT_SESSIONS, &value, &err));
		ASSERT_EQ(usual + 1, value);
	}
	capkm_close(d);
	capkm_close(c);
	t_no_leaks();
}

/* -------------------------------------------------------------------- texts */

static int skip(struct capkm *c, const struct capkm_claim *reads,
		const struct capkm_claim *writes, const char *label)
{
	struct capkm_scope s;
	int rc = capkm_scope_enter(c, NULL, reads, 1, writes, 1,
				   WITH(struct capkm_scope_opts, .label = label), &s, NULL, &err);

	return rc ? rc : s.result != CAPKM_SKIPPED;
}

/* T-54: newest hop first, then the root with its id; elsewhere the root only */
TEST_F(library, chain_text)
{
	struct capkm_claim d = new_buffer(self->c, NULL), lone = new_buffer(self->c, NULL);
	char text[2000], want[64], cut[20];
	uint64_t f = fail(self->c, &self->a, "the root");

	OK(skip(self->c, &self->a, &self->b, "older"));
	OK(skip(self->c, &self->b, &d, "newer"));
	OK(capkm_failure_text(self->c, f, d.buffer, text, sizeof(text), &err));
	snprintf(want, sizeof(want), "skipped \"newer\", which needed buffer %llu\n",
		 self->b.buffer);
	BEGINS(text, want);
	snprintf(want, sizeof(want), "\nskipped \"older\", which needed buffer %llu\n",
		 self->a.buffer);
	HAS(text, want);
	snprintf(want, sizeof(want), "\nfailure %" PRIu64 ": launch, code 719: the root", f);
	HAS(text, want);
	HAS_NOT(text, "dropped");
	HAS(text, "carried by 3 buffer(s)");
	OK(capkm_taint_with(self->c, &lone, 1, 0, f, &err));
	OK(capkm_failure_text(self->c, f, lone.buffer, text, sizeof(text), &err));
	ASSERT_EQ(NULL, strchr(text, '\n'));
	HAS(text, "the root");
	/* Too little room. */
	memset(cut, 'x', sizeof(cut));
	REFUSED(-EMSGSIZE, capkm_failure_text(self->c, f, d.buffer, cut, sizeof(cut), &err));
	ASSERT_EQ(19, strlen(cut));
	REFUSED(-EINVAL, capkm_failure_text(self->c, f, d.buffer, NULL, 0, &err));
	REFUSED(-ENOENT, capkm_failure_text(self->c, 1ull << 40, 0, text, sizeof(text), &err));
	SAYS("failure 1099511627776");
}

/* T-55: 20 skips: the newest is still found, four were dropped */
TEST_F(library, chain_text_dropped)
{
	struct capkm_claim b[21];
	char text[4000], label[8];
	const char *p;
	int lines = 0;
	uint64_t f;

	for (int i = 0; i < 21; i++)
		b[i] = new_buffer(self->c, NULL);
	f = fail(self->c, &b[0], "the root");
	for (int i = 0; i < 20; i++) {
		snprintf(label, sizeof(label), "k%d", i);
		OK(skip(self->c, &b[i], &b[i + 1], label));
	}
	OK(capkm_failure_text(self->c, f, b[20].buffer, text, sizeof(text), &err));
	BEGINS(text, "skipped \"k19\"");
	HAS(text, "skipped \"k4\"");
	HAS_NOT(text, "skipped \"k3\"");
	HAS(text, "\n4 older skip record(s) were dropped\nfailure ");
	HAS(text, "the root");
	for (p = text; (p = strchr(p, '\n')); p++)
		lines++;
	ASSERT_EQ(17, lines);
}

/* capkm_report_text(): by itself; cut where it must, never a raw control byte */
TEST(report_text)
{
	struct capkm_report r = {
		.failure = 3, .kind = CAPKM_KIND_IO, .code = -5, .session = 2, .stream = 9,
		.pid = 11, .comm = "evil\nname", .label = "a\033[2J", .text = "two\nlines",
	};
	char text[600], cut[16];

	ASSERT_EQ(0, capkm_report_text(&r, NULL, 0, 0, text, sizeof(text)));
	BEGINS(text, "failure 3: io, code -5: two?lines");
	HAS(text, "evil?name[11]");
	HAS(text, "\"a?[2J\"");
	ASSERT_EQ(-EMSGSIZE, capkm_report_text(&r, NULL, 0, 0, cut, sizeof(cut)));
	ASSERT_STREQ("failure 3: io, ", cut);
	ASSERT_EQ(0, capkm_report_text(&r, NULL, 0, 0, text, strlen(text) + 1));
	ASSERT_EQ(-EMSGSIZE, capkm_report_text(&r, NULL, 0, 0, text, strlen(text)));
	ASSERT_EQ(-EMSGSIZE, capkm_report_text(&r, NULL, 0, 0, cut, 1));
	ASSERT_STREQ("", cut);
	ASSERT_EQ(-EINVAL, capkm_report_text(&r, NULL, 0, 0, cut, 0));
	ASSERT_EQ(-EINVAL, capkm_report_text(&r, NULL, 0, 0, NULL, 5));
	/* Texts of the ABI that are full to the last byte. */
	memset(r.label, 'l', sizeof(r.label));
	memset(r.text, 't', sizeof(r.text));
	memset(r.comm, 'c', sizeof(r.comm));
	ASSERT_EQ(0, capkm_report_text(&r, NULL, 0, 0, text, sizeof(text)));
}

/* T-56: memory that was never allocated */
TEST_F(library, never_allocated_text)
{
	struct capkm_claim n = { .end = BYTES };
	char dst[BYTES], src[BYTES] = "";
	uint64_t id;

	OK(capkm_buffer_create(self->c, BYTES, WITH(struct capkm_buffer_opts,
			       .flags = CAPKM_BUFFER_CREATE_F_UNALLOCATED), &id, &err));
	n.buffer = id;
	REFUSED(-ESTALE, capkm_read(self->c, &n, dst, src, NULL, &err));
	SAYS("never allocated");
	ASSERT_EQ(0, err.failure);
	OK(capkm_buffer_reset(self->c, id, 0, BYTES, &err));
	OK(capkm_read(self->c, &n, dst, src, NULL, &err));
}

/* T-27 capkm_close(): ends as if the process had died: torn down */
TEST_F(library, torn_down_text)
{
	struct capkm *d = new_handle(NULL);
	char dst[BYTES], src[BYTES] = "";
	struct capkm_scope s;

	OK(capkm_domain_attach(d, NULL, WITH(struct capkm_domain_opts,
			       .domain = capkm_domain_id(self->c)), &err));
	OK(capkm_buffer_open(d, self->a.buffer, NULL, &err));
	OK(capkm_scope_enter(d, NULL, NULL, 0, &self->a, 1,
			     WITH(struct capkm_scope_opts, .label = "unlucky"), &s, NULL, &err));
	capkm_close(d);
	REFUSED(-ESTALE, capkm_read(self->c, &self->a, dst, src, NULL, &err));
	SAYS("torn down");
	SAYS("unlucky");
	ASSERT_NE(0, err.failure);
	OK(write_well(self->c, NULL, &self->a));
	ASSERT_EQ(0, counts(self->c).out_failures);
}

/* Texts: cut at the length that the ABI allows, between characters */
TEST_F(library, long_texts)
{
	char label[200], reason[1000];
	struct capkm_report r;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r, .reports_len = 1);
	struct capkm_scope s;

	memset(label, 'l', sizeof(label) - 1);
	label[sizeof(label) - 1] = 0;
	label[CAPKM_LABEL_MAX - 1] = '\xc3';
	label[CAPKM_LABEL_MAX] = '\xa9';
	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = 0;
	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->a, 1,
			     WITH(struct capkm_scope_opts, .label = label), &s, NULL, &err));
	OK(capkm_scope_fail(self->c, &s, WITH(struct capkm_cause, .text = reason), &err));
	OK(capkm_check(self->c, &self->a, 1, &a, &err));
	ASSERT_EQ(CAPKM_LABEL_MAX - 1, strlen((char *)r.label));
	ASSERT_EQ(CAPKM_TEXT_MAX, strlen((char *)r.text));
}

/* --------------------------------------------------------------------- fork */

#define CANCELED(call) do {						\
	err.text[0] = 0;						\
	if ((call) != -ECANCELED) {					\
		fprintf(stderr, "# %d: " #call ": %s\n", __LINE__, err.text); \
		return 1;						\
	}								\
	if (!strstr(err.text, "fork")) {				\
		fprintf(stderr, "# %d: " #call ": no reason: %s\n", __LINE__, err.text); \
		return 2;						\
	}								\
} while (0)

struct heritage {
	struct capkm *c;
	struct capkm_claim *a;
	struct capkm_scope s;
	struct capkm_write_set *set;
	uint64_t window, graph;
};

static int in_child(struct heritage *h)
{
	struct capkm_domain_query q = { .size = sizeof(q) };
	struct capkm_info i = { .size = sizeof(i) };
	struct capkm_window_wait wait = { .size = sizeof(wait), .window = h->window };
	struct capkm_event event;
	struct capkm_write_set *set;
	struct capkm_scope s = { 0 };
	char dst[BYTES], src[BYTES] = "";
	struct capkm *c;
	uint64_t id = 0;
	uint32_t result;

	CANCELED(capkm_info(h->c, &i, &err));
	CANCELED(capkm_limit(h->c, CAPKM_LIMIT_BUFFERS, &id, &err));
	CANCELED(capkm_write_set_get(h->c, &set, &err));
	CANCELED(capkm_domain_query(h->c, &q, &err));
	CANCELED(capkm_domain_open(h->c, "x", NULL, &err));
	CANCELED(capkm_domain_destroy(h->c, 0, CAPKM_DOMAIN_DESTROY_F_FORCE, &err));
	CANCELED(capkm_stream_create(h->c, NULL, &id, &err));
	CANCELED(capkm_buffer_create(h->c, 1, NULL, &id, &err));
	CANCELED(capkm_buffer_close(h->c, h->a->buffer, &err));
	CANCELED(capkm_check(h->c, h->a, 1, NULL, &err));
	CANCELED(capkm_read(h->c, h->a, dst, src, NULL, &err));
	CANCELED(capkm_taint(h->c, h->a, 1, 0, NULL, NULL, &err));
	CANCELED(capkm_written(h->c, h->a, 1, &err));
	CANCELED(capkm_scope_enter(h->c, NULL, NULL, 0, h->a, 1, NULL, &s, NULL, &err));
	CANCELED(capkm_scope_exit(h->c, &h->s, 0, &err));
	CANCELED(capkm_window_prepare(h->c, NULL, NULL, &id, &err));
	CANCELED(capkm_window_begin(h->c, &owner, 0, &id, &err));
	CANCELED(capkm_window_close(h->c, &owner, &id, NULL, &err));
	CANCELED(capkm_window_abort(h->c, &owner, 0, NULL, &err));
	CANCELED(capkm_window_abandon(h->c, h->window, &err));
	CANCELED(capkm_graph_replay_begin(h->c, h->graph, NULL, NULL, &result, NULL, &err));
	CANCELED(capkm_graph_destroy(h->c, h->graph, &err));
	CANCELED(capkm_failure_text(h->c, 1, 0, dst, sizeof(dst), &err));
	CANCELED(capkm_stream_destroy(h->c, 0, NULL, &err));
	CANCELED(capkm_confirm(h->c, NULL, 0, NULL, &err));
	CANCELED(capkm_confirm_other(h->c, 1, NULL, 0, NULL, &err));
	CANCELED(capkm_stream_fault(h->c, NULL, NULL, NULL, NULL, &err));
	CANCELED(capkm_window_join(h->c, h->window, NULL, 0, NULL, &err));
	CANCELED(capkm_window_wait(h->c, &wait, &err));
	CANCELED(capkm_graph_update(h->c, h->graph, h->window, 0, NULL, &err));
	CANCELED(capkm_events_read(h->c, &event, 1, 0, &result, &err));
	if (capkm_call(h->c, CAPKM_NR_DOMAIN_QUERY, &q) != -ECANCELED)
		return 3;
	if (capkm_stream_current() == 0)
		return 4;
	capkm_write_set_put(h->set);
	capkm_close(h->c);
	/* A handle of its own works. */
	if (capkm_open(t_transport(), NULL, &c, &err) || capkm_domain_open(c, NULL, NULL, &err))
		return 5;
	h->a[0] = new_buffer(c, NULL);
	if (write_well(c, NULL, h->a) || capkm_read(c, h->a, dst, src, NULL, &err))
		return 6;
	capkm_close(c);
	return 0;
}

/* Fork: an inherited handle is useless and harmless */
TEST_F(library, fork)
{
	struct heritage h = { .c = self->c };
	struct capkm_claim a = self->a;
	struct capkm_domain_query before, after;
	char dst[BYTES], src[BYTES] = "";
	int status = -1;
	pid_t pid;

	h.a = &a;
	h.graph = 0;
	OK(capkm_write_set_get(self->c, &h.set, &err));
	OK(capkm_write_set_add(h.set, a.buffer, 0, BYTES, &err));
	ASSERT_NE(0, record(self->c, &self->b));
	OK(capkm_window_close(self->c, &owner, &h.graph, NULL, &err));
	h.window = record(self->c, &self->b);
	ASSERT_NE(0, h.window);
	OK(capkm_scope_enter_set(self->c, NULL, NULL, 0, h.set, NULL, &h.s, NULL, &err));
	h.set = NULL;
	before = counts(self->c);
	/* First a child that tries everything, then one that only closes. */
	for (int i = 0; i < 2; i++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			int rc = 0;

			if (i)
				capkm_close(self->c);
			else
				rc = in_child(&h);
			/*
			 * What a child inherits of the embedded engine stays where it
			 * is: no end of a program that looks for leaks.
			 */
			fflush(NULL);
			syscall(SYS_exit_group, rc);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		after = counts(self->c);
		ASSERT_EQ(0, memcmp(&before, &after, sizeof(before)));
		ASSERT_EQ(CAPKM_WINDOW_CAPTURE, window_state(self->c, h.window));
	}
	OK(capkm_scope_exit(self->c, &h.s, 0, &err));
	OK(capkm_read(self->c, &a, dst, src, NULL, &err));
	OK(capkm_window_close(self->c, &owner, &h.graph, NULL, &err));
}

/* ------------------------------------------------------------------ joining */

/* What is left of a handle's descriptor in a program that the process becomes. */
static bool leaks_into_program(void)
{
	return !system("ls -l /proc/self/fd 2>/dev/null | grep -q /dev/capkm");
}

/* C82: every descriptor is close-on-exec */
TEST(close_on_exec)
{
	struct capkm *c, *d;
	int fd;

	if (t_embedded())
		SKIP(return, "an embedded handle has no descriptor");
	c = new_handle(NULL);
	fd = dup(capkm_fd(c));
	ASSERT_LE(0, fd);
	ASSERT_TRUE(leaks_into_program());
	OK(capkm_open_fd(fd, NULL, &d, &err));
	close(fd);
	ASSERT_NE(fd, capkm_fd(d));
	ASSERT_EQ(FD_CLOEXEC, fcntl(capkm_fd(d), F_GETFD));
	ASSERT_FALSE(leaks_into_program());
	capkm_close(d);
	capkm_close(c);
}

/* What a child says of itself. */
#define CHILD(cond) do {						\
	if (!(cond)) {							\
		fprintf(stderr, "# %d: not so in the child: " #cond ": %s\n", \
			__LINE__, err.text);				\
		return 1;						\
	}								\
} while (0)

static int join_in_child(struct heritage *h)
{
	struct capkm_domain_query q = { .size = sizeof(q) };
	const uint64_t session = capkm_session_id(h->c);
	struct capkm_claim mine = { .end = BYTES };
	char dst[BYTES], src[BYTES] = "";
	struct capkm_scope s;
	uint64_t id, w;

	CHILD(capkm_domain_query(h->c, &q, &err) == -ECANCELED);
	CHILD(strstr(err.text, "capkm_join()"));
	CHILD(!capkm_join(h->c, &err));
	CHILD(!capkm_join(h->c, &err));
	CHILD(capkm_session_id(h->c) == session);
	CHILD(!capkm_domain_query(h->c, &q, &err) && q.out_clients == 2 && q.out_sessions == 1);
	/* The session's buffers, and windows of its own: on the same slot. */
	w = record(h->c, h->a);
	CHILD(w && w != h->window);
	CHILD(!capkm_window_close(h->c, &owner, &id, NULL, &err));
	CHILD(!capkm_scope_enter(h->c, NULL, NULL, 0, h->a, 1, NULL, &s, NULL, &err));
	CHILD(!capkm_scope_exit(h->c, &s, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	CHILD(!capkm_buffer_create(h->c, BYTES, NULL, &id, &err));
	mine.buffer = id;
	CHILD(!capkm_read(h->c, &mine, dst, src, NULL, &err));
	/* What the parent has open stays the parent's. */
	CHILD(capkm_scope_exit(h->c, &h->s, 0, &err) == -EPERM);
	CHILD(capkm_window_seal(h->c, h->window, 0, &id, NULL, &err) == -EPERM);
	/* Left open, for its end. */
	CHILD(!capkm_scope_enter(h->c, NULL, NULL, 0, &mine, 1, NULL, &s, NULL, &err));
	return 0;
}

static int no_join_in_child(struct heritage *h)
{
	CHILD(capkm_join(h->c, &err) == -ECANCELED && err.err == -ECANCELED);
	CHILD(strstr(err.text, "embedded"));
	CHILD(capkm_domain_query(h->c, NULL, &err) == -ECANCELED);
	return 0;
}

static int run_child(int (*fn)(struct heritage *), struct heritage *h)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		int rc = fn(h);

		fflush(NULL);
		syscall(SYS_exit_group, rc);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* C81 capkm_join(): a child becomes a client of its parent's session, if it can */
TEST_F(library, join_after_fork)
{
	struct heritage h = { .c = self->c, .a = &self->a };

	h.window = record(self->c, &self->b);
	ASSERT_NE(0, h.window);
	OK(capkm_scope_enter(self->c, NULL, NULL, 0, &self->b, 1, NULL, &h.s, NULL, &err));
	OK(capkm_join(self->c, &err));
	ASSERT_EQ(1, counts(self->c).out_clients);
	ASSERT_EQ(0, run_child(t_embedded() ? no_join_in_child : join_in_child, &h));
	/* Its end is nothing to the parent. */
	ASSERT_EQ(1, counts(self->c).out_clients);
	ASSERT_EQ(1, counts(self->c).out_scopes);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, window_state(self->c, h.window));
	OK(capkm_scope_exit(self->c, &h.s, 0, &err));
	OK(capkm_window_close(self->c, &owner, &h.graph, NULL, &err));
}

static int only_ask(struct heritage *h)
{
	struct capkm_domain_query q = { .size = sizeof(q) };
	struct capkm_window_query w = { .size = sizeof(w), .window = h->window };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm *c;
	uint64_t id;

	CHILD(!capkm_open_fd(capkm_fd(h->c), WITH(struct capkm_open_opts,
			     .flags = CAPKM_OPEN_OPTS_NO_JOIN), &c, &err));
	CHILD(capkm_domain_id(c) == capkm_domain_id(h->c));
	CHILD(capkm_session_id(c) == capkm_session_id(h->c));
	CHILD(!capkm_domain_query(c, &q, &err) && q.out_clients == 1);
	CHILD(!capkm_window_query(c, &w, &err) && w.out_state == CAPKM_WINDOW_CAPTURE);
	CHILD(!capkm_check(c, h->a, 1, &a, &err) && a.out_result == CAPKM_CLEAN);
	CHILD(capkm_buffer_create(c, 1, NULL, &id, &err) == -EPERM);
	CHILD(capkm_stream_create(c, NULL, &id, &err) == -EPERM);
	CHILD(!capkm_join(c, &err));
	CHILD(!capkm_buffer_create(c, 1, NULL, &id, &err));
	CHILD(!capkm_domain_query(c, &q, &err) && q.out_clients == 2);
	capkm_close(c);
	/* And at once. */
	CHILD(!capkm_open_fd(capkm_fd(h->c), NULL, &c, &err));
	CHILD(!write_well(c, NULL, h->a));
	capkm_close(c);
	return 0;
}

/* capkm_open_fd(): a handle from a descriptor that came some way */
TEST_F(library, open_fd)
{
	struct heritage h = { .c = self->c, .a = &self->a };
	struct capkm *c = (void *)1, *hw;
	uint64_t graph;
	int fd;

	REFUSED(-EBADF, capkm_open_fd(9999, NULL, &c, &err));
	BEGINS(err.text, "open: descriptor 9999: ");
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	REFUSED(-ENOTTY, capkm_open_fd(fd, NULL, &c, &err));
	SAYS("not a capkm device");
	REFUSED(-EINVAL, capkm_open_fd(fd, WITH(struct capkm_open_opts,
			 .flags = CAPKM_OPEN_OPTS_NO_JOIN << 1), &c, &err));
	/* For this one only. */
	REFUSED(-EINVAL, capkm_open(t_transport(), WITH(struct capkm_open_opts,
			 .flags = CAPKM_OPEN_OPTS_NO_JOIN), &c, &err));
	close(fd);
	ASSERT_EQ((void *)1, c);
	if (t_embedded())
		return;
	OK(capkm_open_fd(capkm_fd(self->c), NULL, &c, &err));
	ASSERT_EQ(capkm_session_id(self->c), capkm_session_id(c));
	ASSERT_EQ(1, counts(c).out_clients);
	OK(write_well(c, NULL, &self->a));
	REFUSED(-EINVAL, capkm_window_prepare(c, &(struct capkm_where){ .stream = 1, .slot = 32,
			.flags = CAPKM_WHERE_SLOT }, NULL, NULL, &err));
	SAYS("below 32");
	capkm_close(c);
	OK(write_well(self->c, NULL, &self->a));
	/* What the session can do comes with it. */
	hw = new_handle(NULL);
	OK(capkm_domain_open(hw, NULL, WITH(struct capkm_domain_opts,
			     .backend = CAPKM_BACKEND_HARDWARE), &err));
	OK(capkm_open_fd(capkm_fd(hw), NULL, &c, &err));
	REFUSED(-EOPNOTSUPP, capkm_window_close(c, &owner, &graph, NULL, &err));
	SAYS("window_seal");
	capkm_close(c);
	capkm_close(hw);
	h.window = record(self->c, &self->b);
	ASSERT_EQ(0, run_child(only_ask, &h));
	ASSERT_EQ(1, counts(self->c).out_clients);
}

/* capkm_join(): without a domain, and to the limit; another process, played */
TEST_F(library, join_played)
{
	struct capkm_limit_value two = { .limit = CAPKM_LIMIT_CLIENTS, .value = 2 };
	struct capkm *c;
	uint64_t id;

	if (!t_embedded())
		SKIP(return, "processes are played on the embedded transport only");
	c = new_handle(NULL);
	OK(capkm_domain_create(c, NULL, WITH(struct capkm_domain_opts, .limits = &two,
			       .limits_len = 1, .max_streams = 5), &err));
	capkm_test_become(1001);
	REFUSED(-EPERM, capkm_buffer_create(c, 1, NULL, &id, &err));
	OK(capkm_join(c, &err));
	ASSERT_EQ(2, counts(c).out_clients);
	OK(capkm_buffer_create(c, 1, NULL, &id, &err));
	capkm_test_become(1002);
	REFUSED(-EDQUOT, capkm_join(c, &err));
	BEGINS(err.text, "join: limit 'clients of a session' (2) is reached");
	ASSERT_EQ(CAPKM_LIMIT_CLIENTS, err.limit);
	capkm_test_become(0);
	capkm_test_die(c, 1001);
	ASSERT_EQ(1, counts(c).out_clients);
	capkm_close(c);
}

/* ------------------------------------------------------------------ threads */

#define WORKERS 8

struct work {
	struct capkm *c;
	struct capkm_claim shared[2], own[WORKERS];
	int next, rounds;
};

/* One unit of work: reads @reads, writes @own and a bit of @shared. */
static const char *one_scope(struct work *w, int me, unsigned int n, struct capkm_error *e)
{
	static const char *const names[] = { "clean", "failed" };
	const struct capkm_claim *shared = &w->shared[n % 2];
	const struct capkm_claim *reads = n % 3 ? &w->own[me] : &w->shared[(n + 1) % 2];
	struct capkm_write_set *set;
	struct capkm_scope s;
	const unsigned int at = (n * 7 + me) % (BYTES - 8);
	int rc;

	if (capkm_write_set_get(w->c, &set, e))
		return "get";
	if (capkm_write_set_add(set, w->own[me].buffer, at, at + 8, e) ||
	    capkm_write_set_add(set, shared->buffer, at, at + 1 + n % 7, e))
		return "add";
	rc = capkm_scope_enter_set(w->c, NULL, reads, n % 4 != 0, set,
				   WITH(struct capkm_scope_opts, .label = names[n % 5 == 0],
				      .retry_ms = 1), &s, NULL, e);
	if (rc == -EAGAIN) {
		capkm_write_set_put(set);
		return NULL;
	}
	if (rc)
		return "enter";
	if (n % 5)
		return capkm_scope_exit(w->c, &s, 0, e) ? "exit" : NULL;
	return capkm_scope_fail(w->c, &s, WITH(struct capkm_cause, .text = "hammered"), e) ?
		"fail" : NULL;
}

static void *worker(void *arg)
{
	struct work *w = arg;
	const int me = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	char dst[BYTES], src[BYTES] = "";

	for (int n = 0; n < w->rounds; n++) {
		const char *wrong = one_scope(w, me, n, &e);
		int rc;

		if (wrong) {
			fprintf(stderr, "# %s: %s\n", wrong, e.text);
			return (void *)wrong;
		}
		rc = capkm_read(w->c, &w->shared[n % 2], dst, src,
				WITH(struct capkm_read_opts, .retry_ms = CAPKM_RETRY_NONE), &e);
		if (rc && rc != -ESTALE && rc != -EAGAIN)
			return "read";
		if (n % 16 == 0 && capkm_written(w->c, &w->own[me], 1, &e))
			return "written";
	}
	return NULL;
}

/* Threads: any number on one handle; nothing is left when all is rewritten */
TEST_F_TIMEOUT(library, threads, 120)
{
	struct work w = {
		.c = self->c, .shared = { self->a, self->b },
		.rounds = t_param("CAPKM_ROUNDS", 2000, 2000),
	};
	const uint8_t host[16] = { 0 };
	struct capkm_domain_query q;

	for (int i = 0; i < WORKERS; i++)
		w.own[i] = new_buffer(self->c, "own");
	threads_run(worker, &w, WORKERS);
	ASSERT_EQ(0, counts(self->c).out_scopes);
	for (int i = 0; i < WORKERS; i++)
		OK(write_well(self->c, NULL, &w.own[i]));
	OK(write_well(self->c, NULL, &self->a));
	OK(write_well(self->c, NULL, &self->b));
	q = counts(self->c);
	ASSERT_EQ(WORKERS + 2, q.out_unconfirmed);
	OK(capkm_confirm_device(self->c, host, q.out_sequence, NULL, &err));
	q = counts(self->c);
	ASSERT_EQ(0, q.out_scopes);
	ASSERT_EQ(0, q.out_claims);
	ASSERT_EQ(0, q.out_failures);
}

TEST_HARNESS_MAIN
