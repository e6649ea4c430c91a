// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel says if memory or a copy fails, at each place where it can: the n-th
 * fault of a call, for each n, until two calls in a row have met none (what a debug
 * kernel takes for itself moves the places a little). A call that says that it has
 * failed has changed nothing, and can be done again; one that says that it has not has
 * done what it does without a fault. Nothing is lost, nothing is kept.
 */
#include <dirent.h>
#include <linux/membarrier.h>

#include "netlink.h"
#include "process.h"
#include "rows.h"

#define FAULTS "/sys/kernel/debug/"
#define SLABS FAULTS "slab"

/* -------------------------------------------------------------------- faults */

/* Of the one thread of each process that makes faults. */
static int t_nth = -1;

static unsigned long t_calls, t_faults;

/* Every allocation may fail, those of whole pages too, and nothing is printed. */
static bool can_fail(void)
{
	return !t_embedded() && !access("/proc/self/fail-nth", W_OK) &&
	       t_put_file(FAULTS "failslab/ignore-gfp-wait", "N") &&
	       t_put_file(FAULTS "failslab/verbose", "0") &&
	       t_put_file(FAULTS "fail_page_alloc/ignore-gfp-wait", "N") &&
	       t_put_file(FAULTS "fail_page_alloc/min-order", "0") &&
	       t_put_file(FAULTS "fail_page_alloc/verbose", "0") &&
	       t_put_file(FAULTS "fail_usercopy/verbose", "0");
}

static void set_nth(int fd, unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	/* To switch it off is a copy that may be the one to fail. */
	if (pwrite(fd, text, len, 0) != len && pwrite(fd, text, len, 0) != len)
		t_die("fail-nth: %s", strerror(errno));
}

/* The @n-th fault of this thread from now on happens. */
static void arm(unsigned int n)
{
	if (t_nth < 0)
		t_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	set_nth(t_nth, n);
}

/* Has it? The answer may be what fails. */
static bool was_hit(int fd)
{
	char text[16] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 && !atoi(text);
}

static bool disarm(void)
{
	const int error = errno;
	const bool hit = was_hit(t_nth);

	set_nth(t_nth, 0);
	errno = error;
	return hit;
}

/* More than any call meets; what is left of it says how many it has met. */
#define NO_FAULT 1000000

static unsigned int disarm_at(void)
{
	char text[16] = "";
	ssize_t got = pread(t_nth, text, sizeof(text) - 1, 0);

	set_nth(t_nth, 0);
	return got > 0 ? atoi(text) : 0;
}

#define CLEAN 2

struct sweep {
	unsigned int n, clean;
	bool hit;
};

/* for (struct sweep s = {}; next(&s); ): arm(s.n), the call, s.hit = disarm(). */
static bool next(struct sweep *s)
{
	if (s->n) {
		t_calls++;
		t_faults += s->hit;
		s->clean = s->hit ? 0 : s->clean + 1;
	}
	if (++s->n > 2000)
		t_die("there is no end of faults");
	s->hit = false;
	return s->clean < CLEAN;
}

#define ONLY_WITH_FAULTS() do {						\
	if (!can_fail())						\
		SKIP(return, "needs a kernel in which allocations can be made to fail"); \
} while (0)

/* ---------------------------------------------------------------------- leaks */

/* Objects of a cache, of whose makers one is named so. */
static unsigned long objects_of(const char *cache, const char *maker)
{
	unsigned long sum = 0, n = 0;
	char path[512], line[512];
	FILE *f;

	/* What KASAN keeps back is free. */
	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", cache);
	t_put_file(path, "1");
	snprintf(path, sizeof(path), SLABS "/%s/alloc_traces", cache);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (strspn(line, " ") < 8)
			n = strtoul(line, NULL, 10);
		if (strstr(line, maker)) {
			sum += n;
			n = 0;
		}
	}
	if (f)
		fclose(f);
	return sum;
}

/* Those that the module has asked for, and the address spaces that it may hold. */
static unsigned long objects(void)
{
	unsigned long sum = objects_of("mm_struct", "");
	DIR *d = opendir(SLABS);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "kmalloc", 7) || !strncmp(e->d_name, "skb", 3))
			sum += objects_of(e->d_name, "[capkm]");
	if (d)
		closedir(d);
	return sum;
}

FIXTURE(fail_nth)
{
	unsigned long objects;
};

/* A domain and a subscriber that have come and gone: what stays of them does once. */
FIXTURE_SETUP(fail_nth)
{
	struct world w;

	if (!can_fail())
		return;
	setenv("CAPKM_TEST_FAST", "off", 1);
	world_new(&w);
	world_free(&w);
	self->objects = objects();
	t_calls = t_faults = 0;
}

/* What is freed after a grace period, or by a worker, is. */
FIXTURE_TEARDOWN(fail_nth)
{
	unsigned long now = 0;

	if (!can_fail())
		return;
	for (int i = 0; i < 20; i++) {
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
		now = objects();
		if (now <= self->objects)
			break;
		usleep(100000);
	}
	fprintf(stderr, "# %lu faults in %lu calls\n", t_faults, t_calls);
	if (now > self->objects)
		t_die("%lu objects are left", now - self->objects);
}

/* --------------------------------------------------------------------- events */

static struct nl watcher;

/* How many have come since the last time, and how often it was said that one has not. */
struct told {
	unsigned int n, lost;
};

static struct told told(void)
{
	struct told t = { 0 };
	char room[8192];

	for (;;) {
		if (recv(watcher.fd, room, sizeof(room), MSG_DONTWAIT) >= 0)
			t.n++;
		else if (errno == ENOBUFS)
			t.lost++;
		else if (errno == EAGAIN)
			return t;
		else
			t_die("recv: %s", strerror(errno));
	}
}

static void watch(void)
{
	struct nl_request rq;

	watcher = nl_open();
	rq = nl_request(&watcher, CAPKM_CMD_EVENT_SUBSCRIBE, 0);
	nl_send(&watcher, &rq);
}

/* ---------------------------------------------------------------------- calls */

/*
 * Ids of domains, sessions and processes are the machine's, and no two are the same: the
 * dump is changed to say them as they are in the first world.
 */
static char *in_first_world(char *dump, const struct world *w)
{
	static const char *const words[] = {
		"domain 0: ", "session ", "writer ", "holder ", ") ", "(pid ",
	};
	u_int64_t id, first;
	char *text, *end;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	for (const char *at = dump; *at;) {
		size_t n = 0;

		for (size_t i = 0; i < ARRAY_SIZE(words) && !n; i++)
			if (!strncmp(at, words[i], strlen(words[i])))
				n = strlen(words[i]);
		if (!n) {
			fputc(*at++, f);
			continue;
		}
		fwrite(at, 1, n, f);
		first = at[0] == 'd' ? w->a->domain : w->a->session;
		id = strtoull(at + n, &end, 10);
		if (at[0] == '(')
			id = 0;
		/* Of a range that waits to be confirmed it is the session that wrote it. */
		else if (id >= first && (at[0] != ')' || !strncmp(end, " state 4 ", 9)))
			id -= first - 1;
		if (end == at + n)
			end = (char *)at + n;
		else
			fprintf(f, "%" PRIu64, id);
		at = end;
	}
	fclose(f);
	free(dump);
	return text;
}

/* What each of the sessions sees. The fast path is off: to look once is enough. */
static struct state look(const struct world *w)
{
	return (struct state){
		.a = in_first_world(t_dump_once(w->a), w),
		.b = in_first_world(t_dump_once(w->b), w),
		.other = in_first_world(t_dump_once(w->other), w),
		.u = in_first_world(t_dump_once(w->u), w),
	};
}

static bool same(struct state a, struct state b)
{
	return !strcmp(a.a, b.a) && !strcmp(a.b, b.b) && !strcmp(a.other, b.other) &&
	       !strcmp(a.u, b.u);
}

/* Where two of them differ first, for who reads it. */
static void show_difference(const char *a, const char *b)
{
	while (*a && *b && !strncmp(a, b, strcspn(a, "\n") + 1)) {
		a += strcspn(a, "\n") + 1;
		b += strcspn(b, "\n") + 1;
	}
	if (*a || *b)
		fprintf(stderr, "# expected %.*s\n# found    %.*s\n",
			(int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

static void show_differences(struct state a, struct state b)
{
	show_difference(a.a, b.a);
	show_difference(a.b, b.b);
	show_difference(a.other, b.other);
	show_difference(a.u, b.u);
}

/* A row in a new world, with the n-th fault; 0: without one. */
struct trial {
	struct world w;
	struct state before;
	u_int64_t arg[T_ARG_MAX / 8];
	struct told told;
	int rc;
	bool hit;
};

static void try_row(struct trial *t, const struct row *r, unsigned int n)
{
	memset(t, 0, sizeof(*t));
	world_new(&t->w);
	r->make(&t->w, t->arg);
	t->before = look(&t->w);
	told();
	if (n)
		arm(n);
	t->rc = t_call(who(&t->w, r), r->nr, t->arg);
	if (n)
		t->hit = disarm();
	t->told = told();
}

TEST_F_TIMEOUT(fail_nth, calls, 600)
{
	static struct trial t;

	ONLY_WITH_FAULTS();
	watch();
	for (const struct row *r = rows; r < rows + ARRAY_SIZE(rows); r++) {
		struct state after, now;
		unsigned int events;

		at_row(r);
		try_row(&t, r, 0);
		if (t.rc)
			t_die("%s %s: %d", WHAT, t.rc);
		events = t.told.n;
		after = look(&t.w);
		forget(t.before);
		world_free(&t.w);

		for (struct sweep s = {}; next(&s); ) {
			try_row(&t, r, s.n);
			s.hit = t.hit;
			at_row(r);
			if (t.rc && !s.hit)
				t_die("%s %s: without a fault: %d", WHAT, t.rc);
			if (t.rc && t.rc != -ENOMEM && t.rc != -EFAULT)
				t_die("%s %s: fault %u: %d", WHAT, s.n, t.rc);
			if (t.rc == -ENOMEM && r->flags & NO_FAIL)
				t_die("%s %s: fault %u: cannot fail", WHAT, s.n);
			if (!t.told.lost && t.told.n != events && (!t.rc || t.told.n))
				t_die("%s %s: fault %u: %u events of %u", WHAT, s.n,
				      t.told.n, events);
			now = look(&t.w);
			if (t.rc && same(t.before, now)) {
				/* It can be done when there is memory again. */
				memset(t.arg, 0, sizeof(t.arg));
				r->make(&t.w, t.arg);
				t.rc = t_call(who(&t.w, r), r->nr, t.arg);
				if (t.rc)
					t_die("%s %s: after fault %u: %d", WHAT, s.n, t.rc);
				forget(now);
				now = look(&t.w);
			/* An answer that could not be given is noticed before or after. */
			} else if (t.rc && t.rc != -EFAULT) {
				show_differences(t.before, now);
				t_die("%s %s: fault %u: %d, and something has changed",
				      WHAT, s.n, t.rc);
			}
			if (!same(after, now) && !(r->flags & OPTIONAL)) {
				show_differences(after, now);
				t_die("%s %s: fault %u: not what it does without", WHAT, s.n);
			}
			forget(now);
			forget(t.before);
			world_free(&t.w);
		}
		forget(after);
	}
	nl_close(&watcher);
}

/* -------------------------------------------------------------------- netlink */

struct command {
	const char *name;
	unsigned char cmd;
	bool dump;
	void (*put)(struct nl_request *rq, const struct world *w);
};

#define PUT(name, ...)							\
static void put_##name(struct nl_request *rq, const struct world *w)	\
{									\
	__VA_ARGS__;							\
}

PUT(all, (void)rq, (void)w)
PUT(history, (void)w, nl_put(rq, CAPKM_A_WINDOW_HISTORY, NULL, 0))
PUT(reports, (void)w, nl_put(rq, CAPKM_A_FAILURE_REPORTS, NULL, 0))
PUT(bytes, nl_put_u64(rq, CAPKM_A_RANGE_DOMAIN, w->a->domain),
    nl_put_u64(rq, CAPKM_A_RANGE_BUFFER, w->x))
PUT(carriers, nl_put_u64(rq, CAPKM_A_RANGE_DOMAIN, w->a->domain),
    nl_put_u64(rq, CAPKM_A_RANGE_FAILURE, w->failure))
PUT(limits, nl_put_u64(rq, CAPKM_A_LIMIT_DOMAIN, w->a->domain))
PUT(failure, nl_put_u64(rq, CAPKM_A_FAILURE_DOMAIN, w->a->domain),
    nl_put_u64(rq, CAPKM_A_FAILURE_ID, w->failure))
PUT(window, nl_put_u64(rq, CAPKM_A_WINDOW_DOMAIN, w->a->domain),
    nl_put_u64(rq, CAPKM_A_WINDOW_ID, w->recording))
PUT(domain, nl_put_u64(rq, CAPKM_A_DOMAIN_ID, w->a->domain),
    nl_put(rq, CAPKM_A_DOMAIN_FORCE, NULL, 0))
PUT(name, (void)w, nl_put_text(rq, CAPKM_A_DOMAIN_NAME, "made"))
PUT(limit, nl_put_u64(rq, CAPKM_A_LIMIT_DOMAIN, w->a->domain),
    nl_put_u32(rq, CAPKM_A_LIMIT_LIMIT, CAPKM_LIMIT_BUFFERS),
    nl_put_u64(rq, CAPKM_A_LIMIT_VALUE, 1000))
PUT(device, (void)w, nl_put(rq, CAPKM_A_FAULT_DEVICE, (const char[16]){ 1 }, 16),
    nl_put_text(rq, CAPKM_A_FAULT_TEXT, "fallen off the bus"))
PUT(ledger, nl_put_u64(rq, CAPKM_A_LEDGER_DOMAIN, w->a->domain),
    nl_put_u64(rq, CAPKM_A_LEDGER_ID, w->left))

static const struct command commands[] = {
	{ "DOMAIN_GET", CAPKM_CMD_DOMAIN_GET, true, put_all },
	{ "WINDOW_GET", CAPKM_CMD_WINDOW_GET, true, put_all },
	{ "WINDOW_GET history", CAPKM_CMD_WINDOW_GET, true, put_history },
	{ "BUFFER_GET", CAPKM_CMD_BUFFER_GET, true, put_all },
	{ "FAILURE_GET", CAPKM_CMD_FAILURE_GET, true, put_all },
	{ "FAILURE_GET reports", CAPKM_CMD_FAILURE_GET, true, put_reports },
	{ "FAILURE_GET one", CAPKM_CMD_FAILURE_GET, false, put_failure },
	{ "ABANDON", CAPKM_CMD_ABANDON, false, put_window },
	{ "SESSION_GET", CAPKM_CMD_SESSION_GET, true, put_all },
	{ "CLIENT_GET", CAPKM_CMD_CLIENT_GET, true, put_all },
	{ "GRAPH_GET", CAPKM_CMD_GRAPH_GET, true, put_all },
	{ "TAINT_GET", CAPKM_CMD_TAINT_GET, true, put_bytes },
	{ "CARRIER_GET", CAPKM_CMD_CARRIER_GET, true, put_carriers },
	{ "LIMIT_GET", CAPKM_CMD_LIMIT_GET, true, put_limits },
	{ "DOMAIN_NEW", CAPKM_CMD_DOMAIN_NEW, false, put_name },
	{ "DOMAIN_DEL", CAPKM_CMD_DOMAIN_DEL, false, put_domain },
	{ "LIMIT_SET", CAPKM_CMD_LIMIT_SET, false, put_limit },
	{ "DEVICE_FAULT", CAPKM_CMD_DEVICE_FAULT, false, put_device },
	{ "EVENT_SUBSCRIBE", CAPKM_CMD_EVENT_SUBSCRIBE, false, put_all },
	{ "LEDGER_GET", CAPKM_CMD_LEDGER_GET, true, put_all },
	{ "LEDGER_DEL", CAPKM_CMD_LEDGER_DEL, false, put_ledger },
};

/* What was answered; @untold: something was, and it could not be given to us. */
struct answer {
	struct nl_answer a;
	int rc;
	bool untold, hit;
};

static struct answer ask(const struct world *w, const struct command *c, unsigned int n)
{
	static char room[32768] __attribute__((aligned(8)));
	struct nl nl = nl_open();
	struct nl_request rq = nl_request(&nl, c->cmd, c->dump ? NLM_F_DUMP : NLM_F_ACK);
	const struct nlmsghdr *hdr;
	struct answer out = { 0 };
	bool acked = c->dump;
	ssize_t got, left;

	c->put(&rq, w);
	rq.hdr.nlmsg_seq = ++nl.seq;
	memset(room, 0, sizeof(room));
	if (n)
		arm(n);
	if (send(nl.fd, &rq, rq.hdr.nlmsg_len, 0) < 0)
		out.rc = -errno;
	while (!out.rc && !(out.a.done && acked)) {
		got = recv(nl.fd, room, sizeof(room), 0);
		if (got < 0) {
			out.rc = -errno;
			out.untold = true;
			break;
		}
		hdr = (const void *)room;
		for (left = got; NLMSG_OK(hdr, left); hdr = NLMSG_NEXT(hdr, left)) {
			nl_message(&out.a, hdr, NULL, NULL);
			acked |= hdr->nlmsg_type == NLMSG_ERROR;
		}
	}
	if (n)
		out.hit = disarm();
	if (!out.rc)
		out.rc = out.a.err;
	nl_close(&nl);
	return out;
}

static unsigned int domains(const struct world *w)
{
	return ask(w, &commands[0], 0).a.records;
}

/* The one that DOMAIN_NEW has made. */
static void forget_made(struct world *w)
{
	struct capkm_domain_attach at = { .name_uptr = t_ptr("made"), .name_len = 4 };
	struct capkm_domain_destroy d = { .flags = CAPKM_DOMAIN_DESTROY_F_FORCE };

	if (t_call(w->u, CAPKM_NR_DOMAIN_ATTACH, &at))
		return;
	d.domain = at.out_domain;
	T_OK(w->u, DOMAIN_DESTROY, &d);
}

/* The same, and well. */
static bool same_answer(const struct answer *a, const struct answer *b)
{
	return !a->rc && !b->rc && a->a.records == b->a.records;
}

/* A world with a report, which is what is left of the failure of a client that ended. */
static void reported_world_new(struct world *w)
{
	struct cl *g = t_process();

	world_new(w);
	t_attach(g, w->a->domain);
	t_fail(g, 1, C({ t_buffer(g, 10), 0, 10 }), "ended");
	t_kill(g);
}

TEST_F_TIMEOUT(fail_nth, netlink, 600)
{
	ONLY_WITH_FAULTS();
	for (const struct command *c = commands; c < commands + ARRAY_SIZE(commands); c++) {
		struct state before, after, now;
		unsigned int had, has;
		struct answer ref, got;
		struct world w;

		T_AT;
		reported_world_new(&w);
		had = domains(&w);
		ref = ask(&w, c, 0);
		if (ref.rc || (c->dump && !ref.a.records))
			t_die("%s: %d, %u records", c->name, ref.rc, ref.a.records);
		has = domains(&w);
		after = look(&w);
		forget_made(&w);
		world_free(&w);

		for (struct sweep s = {}; next(&s); ) {
			bool undone;

			T_AT;
			reported_world_new(&w);
			before = look(&w);
			got = ask(&w, c, s.n);
			s.hit = got.hit;
			if (got.rc && !s.hit)
				t_die("%s: without a fault: %d", c->name, got.rc);
			if (got.rc && got.rc != -ENOMEM && got.rc != -ENOBUFS &&
			    got.rc != -EFAULT)
				t_die("%s: fault %u: %d", c->name, s.n, got.rc);
			if (!got.rc && !same_answer(&ref, &got))
				t_die("%s: fault %u: %u records, not %u", c->name, s.n,
				      got.a.records, ref.a.records);
			now = look(&w);
			undone = got.rc && same(before, now) && domains(&w) == had;
			if (got.rc && !undone && !got.untold) {
				show_differences(before, now);
				t_die("%s: fault %u: %d, and something has changed", c->name,
				      s.n, got.rc);
			}
			if (undone) {
				got = ask(&w, c, 0);
				if (!same_answer(&ref, &got))
					t_die("%s: after fault %u: %d", c->name, s.n, got.rc);
				forget(now);
				now = look(&w);
			}
			if (!same(after, now) || domains(&w) != has) {
				show_differences(after, now);
				t_die("%s: fault %u: not what it does without", c->name, s.n);
			}
			forget(now);
			forget(before);
			forget_made(&w);
			world_free(&w);
		}
		forget(after);
	}
}

/* ----------------------------------------------------------- the file's others */

/* Nothing of its domain lingers. */
static void leave(struct cl *a)
{
	struct capkm_domain_destroy d = {
		.domain = a->domain, .flags = CAPKM_DOMAIN_DESTROY_F_FORCE,
	};

	T_OK(a, DOMAIN_DESTROY, &d);
	t_close(a);
}

/* What the kernel has taken for itself once does not hide a place from every round. */
#define ROUNDS 3

/* A session comes with its file and goes with it; the first call watches its process. */
TEST_F_TIMEOUT(fail_nth, open, 120)
{
	struct capkm_info info = { 0 };
	int fd, rc;

	ONLY_WITH_FAULTS();
	for (int round = 0; round < ROUNDS; round++) {
		for (struct sweep s = {}; next(&s); close(fd)) {
			arm(s.n);
			fd = open(t_transport(), O_RDWR | O_CLOEXEC);
			s.hit = disarm();
			if (fd < 0) {
				ASSERT_EQ(ENOMEM, errno);
				ASSERT_TRUE(s.hit);
				fd = open(t_transport(), O_RDWR | O_CLOEXEC);
			}
			ASSERT_LE(0, fd);
			info.size = sizeof(info);
			ASSERT_EQ(0, t_ioctl(fd, CAPKM_NR_INFO, &info));
		}
	}
	for (struct sweep s = {}; next(&s); close(fd)) {
		fd = open(t_transport(), O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, fd);
		info.size = sizeof(info);
		arm(s.n);
		rc = t_ioctl(fd, CAPKM_NR_INFO, &info);
		s.hit = disarm();
		if (rc) {
			ASSERT_TRUE(s.hit && (rc == -ENOMEM || rc == -EFAULT));
			ASSERT_EQ(0, t_ioctl(fd, CAPKM_NR_INFO, &info));
		}
	}
}

static int join_failing(int fd, struct sweep *s)
{
	struct capkm_session_join join = { .size = sizeof(join) };
	int rc;

	t_nth = -1;
	arm(s->n);
	rc = t_ioctl(fd, CAPKM_NR_SESSION_JOIN, &join);
	s->hit = disarm();
	if (rc && (!s->hit || (rc != -ENOMEM && rc != -EFAULT)))
		return 1;
	return rc && t_ioctl(fd, CAPKM_NR_SESSION_JOIN, &join);
}

/* A process that is not told that it has joined can join. */
TEST_F_TIMEOUT(fail_nth, join, 120)
{
	struct sweep *s;
	int status;

	ONLY_WITH_FAULTS();
	s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, s);
	for (int round = 0; round < ROUNDS; round++) {
		for (*s = (struct sweep){}; next(s); ) {
			struct cl *a = t_client();
			pid_t pid;

			t_domain(a);
			fflush(NULL);
			pid = fork();
			if (!pid)
				_exit(join_failing(capkm_fd(a->c), s));
			ASSERT_EQ(pid, waitpid(pid, &status, 0));
			ASSERT_EQ(0, status);
			leave(a);
		}
	}
	munmap(s, 4096);
}

/* What the process has mapped is there, or is not mapped. */
TEST_F_TIMEOUT(fail_nth, map, 120)
{
	static const struct {
		off_t at;
		int prot;
	} maps[] = {
		{ CAPKM_MAP_DOMAIN, PROT_READ }, { CAPKM_MAP_STATUS, PROT_READ },
		{ CAPKM_MAP_TABLE, PROT_READ | PROT_WRITE },
	};
	const size_t page = sysconf(_SC_PAGESIZE);

	ONLY_WITH_FAULTS();
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		for (struct sweep s = {}; next(&s); ) {
			struct capkm_scope_table table = { 0 };
			struct cl *a = t_client();
			volatile char *p;
			int fd = capkm_fd(a->c), error;

			t_domain(a);
			T_OK(a, SCOPE_TABLE, &table);
			arm(s.n);
			p = mmap(NULL, page, maps[i].prot, MAP_SHARED, fd, maps[i].at);
			error = errno;
			/* A fault without memory is taken again. */
			if (p != MAP_FAILED)
				(void)*p;
			s.hit = disarm();
			if (p == MAP_FAILED) {
				ASSERT_EQ(ENOMEM, error);
				ASSERT_TRUE(s.hit);
				p = mmap(NULL, page, maps[i].prot, MAP_SHARED, fd, maps[i].at);
			}
			ASSERT_NE(MAP_FAILED, p);
			(void)*p;
			munmap((void *)p, page);
			leave(a);
		}
	}
}

/* No event is lost for a reader who could not take it. */
TEST_F_TIMEOUT(fail_nth, events, 120)
{
	struct capkm_event e[4];

	ONLY_WITH_FAULTS();
	for (struct sweep s = {}; next(&s); ) {
		struct cl *a = t_client();
		u_int64_t last = 0;
		int fd = capkm_fd(a->c), n = 0;
		ssize_t got;

		t_domain(a);
		ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
		for (u_int64_t stream = 1; stream <= 6; stream++)
			t_prepare(a, stream);
		arm(s.n);
		got = read(fd, e, sizeof(e));
		s.hit = disarm();
		if (got < 0)
			ASSERT_TRUE(s.hit && (errno == EFAULT || errno == ENOMEM));
		for (; got > 0 || !n; got = read(fd, e, sizeof(e))) {
			for (ssize_t i = 0; i < got / (ssize_t)sizeof(e[0]); i++, n++) {
				if (last)
					ASSERT_EQ(last + 1, e[i].number);
				last = e[i].number;
			}
		}
		ASSERT_EQ(6, n);
		leave(a);
	}
}

/* ----------------------------------------------------------------------- ends */

static int close_fn(struct capkm *c, void *arg)
{
	struct sweep *s = arg;

	t_nth = -1;
	if (s->n)
		arm(s->n);
	capkm_close(c);
	if (s->n)
		s->hit = disarm();
	return 0;
}

static void kill_it(struct cl *g, struct sweep *s)
{
	char path[64];
	siginfo_t info;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fail-nth", g->pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		t_die("%s: %s", path, strerror(errno));
	if (s->n)
		set_nth(fd, s->n);
	kill(g->pid, SIGKILL);
	waitid(P_PID, g->pid, &info, WEXITED | WNOWAIT);
	s->hit = s->n && was_hit(fd);
	close(fd);
	t_kill(g);
}

/* A client with something of everything ends; what @w sees of it then. */
static struct state end(struct world *w, bool killed, struct sweep *s)
{
	struct cl *g = t_process();

	t_attach(g, w->a->domain);
	t_open(g, w->y);
	t_open(g, w->s);
	t_open(w->a, t_shared(g, 50));
	t_enter(g, 1, NO_CLAIMS, C({ w->y, 20, 30 }));
	t_record(g, 3);
	t_write(g, 3, C({ w->s, 70, 80 }));
	t_graph(g, 5, NO_CLAIMS, C({ w->y, 40, 50 }));
	t_write_enqueued(g, T_GPU(1) | 1, C({ w->s, 50, 60 }));
	t_fail(g, 4, C({ w->y, 60, 70 }), "failed before it ended");
	t_ledger(g, 0, 100, CAPKM_ON_LIMIT_FAIL);
	t_stream(g);
	if (killed) {
		kill_it(g, s);
	} else {
		t_run(g, close_fn, s, sizeof(*s));
		t_kill(g);
	}
	return look(w);
}

/* An end cannot fail, and says the same whatever does. */
TEST_F_TIMEOUT(fail_nth, ends, 300)
{
	ONLY_WITH_FAULTS();
	for (int killed = 0; killed < 2; killed++) {
		struct sweep none = {};
		struct state after, now;
		struct world w;

		T_AT;
		world_new(&w);
		after = end(&w, killed, &none);
		world_free(&w);
		for (struct sweep s = {}; next(&s); ) {
			T_AT;
			world_new(&w);
			now = end(&w, killed, &s);
			if (!same(after, now)) {
				show_differences(after, now);
				t_die("%s, fault %u", killed ? "killed" : "closed", s.n);
			}
			forget(now);
			world_free(&w);
		}
		forget(after);
	}
}

/* ----------------------------------------------------------------------- load */

static int load_failing(unsigned int n, bool *hit)
{
	int rc;

	arm(n);
	rc = t_load();
	*hit = disarm();
	return rc;
}

/* More than the module asks for, which comes after what the kernel asks for it. */
#define LAST_FAULTS 60

/* A module that cannot be loaded leaves nothing, and can be loaded. */
TEST_F_TIMEOUT(fail_nth, load, 300)
{
	unsigned int most = 0, failed = 0;
	bool hit = true;
	int rc;

	ONLY_WITH_FAULTS();
	/* Pages are for the module's text, of which the kernel says loudly that it has none. */
	ASSERT_TRUE(t_put_file(FAULTS "fail_page_alloc/min-order", "9"));
	ASSERT_EQ(0, t_unload());
	/* A fault that is far behind the last one shows where that was. */
	arm(NO_FAULT);
	ASSERT_EQ(0, t_load());
	most = NO_FAULT - disarm_at();
	ASSERT_EQ(0, t_unload());
	ASSERT_LT(LAST_FAULTS, most);
	for (unsigned int n = most; n > most - LAST_FAULTS; n--) {
		T_AT;
		rc = load_failing(n, &hit);
		t_calls++;
		t_faults += hit;
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			ASSERT_TRUE(hit);
			failed++;
			ASSERT_EQ(0, t_load());
		}
		ASSERT_EQ(0, t_unload());
	}
	EXPECT_LT(0, failed);
	ASSERT_EQ(0, t_load());
}

TEST_HARNESS_MAIN
