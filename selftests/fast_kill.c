// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fast path and SIGKILL: a process enters, or leaves, a scope that no call tells of,
 * and dies between any two of its instructions. Whoever looks then sees a scope that was
 * open, or one that was not, over all its buffers alike; and from one instruction on it
 * is the other.
 *
 * The process is stepped under ptrace. The test has the descriptor of its session and is
 * no client, so it can check, before and after the end.
 */
#include "netlink.h"
#include "process.h"

#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define BYTES		4096u
#define BUFFERS		2u
#define STEPS_MAX	5000u

enum act { ENTER, EXIT, COMPLETE };
enum stage { BEFORE = 1, INSIDE, AFTER };
enum order { NONE, TAINT };	/* the last buffer */

/* Verdicts beside enum capkm_kind. */
#define CLEAN		0u

/* What a stepped process shares with the test. */
struct play {
	enum act act;
	u_int64_t x[BUFFERS];
	int stage;
	int rc;
	int fast;		/* the scope is, and the session was before it */
	struct capkm_fast_stats did;	/* what the call brought about; some of it */
	bool helps;		/* another thread of it does as is ordered */
	int order;
};

FIXTURE(fast_kill)
{
	struct cl *b;		/* another session of the domain */
	struct play *play;
	int pid;
	int fd;			/* of the process' session */
	struct capkm *view;	/* a handle on that, of a client that never joined */
	unsigned int n;		/* instructions of the call, and where they are */
	unsigned long *pc;
};

FIXTURE_SETUP(fast_kill)
{
	if (t_embedded())
		return;
	self->b = t_client();
	t_domain(self->b);
	self->play = mmap(NULL, sizeof(*self->play), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->play);
	self->pc = calloc(STEPS_MAX, sizeof(*self->pc));
	ASSERT_TRUE(self->pc);
}

FIXTURE_TEARDOWN(fast_kill)
{
	if (self->b)
		t_close(self->b);
	free(self->pc);
}

#define SELF FIXTURE_DATA(fast_kill)

/* ------------------------------------------------------------------ the process */

static struct capkm_fast_stats stats_of(struct capkm *c)
{
	struct capkm_fast_stats s = CAPKM_OPTS(struct capkm_fast_stats);

	if (capkm_fast_query(c, &s, NULL))
		_exit(2);
	return s;
}

static struct capkm_fast_stats since(const struct capkm_fast_stats *before,
				     struct capkm_fast_stats s)
{
	s.migrated -= before->migrated;
	s.revoked -= before->revoked;
	s.dropped -= before->dropped;
	for (unsigned int i = 0; i < CAPKM_FAST_TRANSITIONS; i++)
		s.transitions[i] -= before->transitions[i];
	return s;
}

static int enter(struct capkm *c, const struct play *p, struct capkm_scope *s)
{
	struct capkm_claim writes[BUFFERS];

	for (unsigned int i = 0; i < BUFFERS; i++)
		writes[i] = (struct capkm_claim){ p->x[i], 0, BYTES };
	return capkm_scope_enter(c, NULL, NULL, 0, writes, BUFFERS, NULL, s, NULL, NULL);
}

static int leave(struct capkm *c, struct capkm_scope *s, enum act act)
{
	return capkm_scope_exit(c, s, act == COMPLETE ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0,
				NULL);
}

/* Until a scope is fast; what it leaves is finished. */
static void warm_up(struct capkm *c, const struct play *p)
{
	const struct capkm_claim half = { p->x[0], 0, BYTES / 2 };
	struct capkm_scope s;
	bool fast = false;

	for (int i = 0; i < 4 && !fast; i++) {
		if (enter(c, p, &s))
			_exit(3);
		fast = s.id & CAPKM_SCOPE_FAST;
		if (leave(c, &s, COMPLETE))
			_exit(4);
	}
	if (!fast || !stats_of(c).on)
		_exit(5);
	/* What is left in the entry is no claim of the next scope. */
	if (capkm_scope_enter(c, NULL, NULL, 0, &half, 1, NULL, &s, NULL, NULL) ||
	    !(s.id & CAPKM_SCOPE_FAST) || leave(c, &s, COMPLETE))
		_exit(13);
}

/* Each time from a stop of its own on, until somebody kills it. */
static void round_of(struct capkm *c, struct play *p)
{
	struct capkm_fast_stats before;
	struct capkm_scope s = { 0 };

	warm_up(c, p);
	before = stats_of(c);
	if (p->act != ENTER && enter(c, p, &s))
		_exit(6);
	p->fast = p->act == ENTER || (s.id & CAPKM_SCOPE_FAST &&
				      stats_of(c).entered == before.entered + 1);
	before = stats_of(c);
	store(&p->stage, BEFORE);
	raise(SIGSTOP);
	store(&p->stage, INSIDE);
	if (p->act == ENTER)
		p->rc = enter(c, p, &s);
	else
		p->rc = leave(c, &s, p->act);
	store(&p->stage, AFTER);
	p->did = since(&before, stats_of(c));
	raise(SIGSTOP);
	if (p->act == ENTER && leave(c, &s, COMPLETE))
		_exit(7);
	if (p->act == EXIT && capkm_confirm(c, NULL, s.sequence, NULL, NULL))
		_exit(11);
}

struct helper {
	struct play *play;
	struct capkm *c;
};

static void *help(void *arg)
{
	const struct helper *h = arg;
	struct capkm_claim claim = { h->play->x[BUFFERS - 1], 0, BYTES };
	uint64_t failure;

	for (;;) {
		while (load(&h->play->order) == NONE)
			usleep(100);
		if (capkm_taint(h->c, &claim, 1, 0, NULL, &failure, NULL))
			_exit(12);
		store(&h->play->order, NONE);
	}
	return NULL;
}

static void __attribute__((noreturn)) play(struct play *p, u_int64_t domain, int sock)
{
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts, .domain = domain,
						.backend = CAPKM_BACKEND_SOFTWARE);
	struct helper h = { .play = p };
	pthread_t thread;
	struct capkm *c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (capkm_open(t_transport(), NULL, &c, NULL) ||
	    capkm_domain_attach(c, NULL, &o, NULL))
		_exit(8);
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (capkm_buffer_create(c, BYTES, NULL, (uint64_t *)&p->x[i], NULL))
			_exit(9);
	send_fd(sock, capkm_fd(c));
	close(sock);
	h.c = c;
	if ((p->helps && pthread_create(&thread, NULL, help, &h)) ||
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(10);
	for (;;)
		round_of(c, p);
}

/* ------------------------------------------------------------------ its tracer */

/* By which signal the process has stopped. */
static int stop_of(SELF *self)
{
	int status;

	if (waitpid(self->pid, &status, 0) != self->pid)
		t_die("waitpid: %s", strerror(errno));
	if (!WIFSTOPPED(status))
		t_die("the process has status %#x", status);
	return WSTOPSIG(status);
}

static void is_stopped(SELF *self, int by)
{
	const int sig = stop_of(self);

	if (sig != by)
		t_die("the process has stopped by %d instead of %d", sig, by);
}

static void run_on(SELF *self)
{
	if (ptrace(PTRACE_CONT, self->pid, NULL, NULL))
		t_die("cont: %s", strerror(errno));
}

static void start_with(SELF *self, enum act act, bool helps)
{
	struct capkm_open_opts o = CAPKM_OPTS(struct capkm_open_opts,
					      .flags = CAPKM_OPEN_OPTS_NO_JOIN);
	int pair[2];

	*self->play = (struct play){ .act = act, .helps = helps };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		t_die("socketpair: %s", strerror(errno));
	fflush(NULL);
	self->pid = fork();
	if (!self->pid) {
		/* The test's session must not live on in here. */
		close(capkm_fd(self->b->c));
		close(pair[0]);
		play(self->play, self->b->domain, pair[1]);
	}
	close(pair[1]);
	self->fd = receive_fd(pair[0]);
	close(pair[0]);
	if (self->pid < 0 || self->fd < 0 ||
	    capkm_open_fd(self->fd, &o, &self->view, NULL))
		t_die("no descriptor of the process");
}

static void start(SELF *self, enum act act)
{
	start_with(self, act, false);
}

/* The process stands before the call, in which it is fast. */
static void stands_before(SELF *self)
{
	is_stopped(self, SIGSTOP);
	if (self->play->stage != BEFORE || !self->play->fast)
		t_die("the process is not before a fast call");
}

static void step(SELF *self)
{
	if (ptrace(PTRACE_SINGLESTEP, self->pid, NULL, NULL))
		t_die("step: %s", strerror(errno));
	is_stopped(self, SIGTRAP);
}

static void into_the_call(SELF *self)
{
	while (load(&self->play->stage) == BEFORE)
		step(self);
}

/*
 * A step costs two switches of tasks. So from instruction to instruction it goes by
 * steps, but to one that comes for the first time by a breakpoint.
 */
#ifdef __x86_64__
static unsigned long pc_of(SELF *self)
{
	return ptrace(PTRACE_PEEKUSER, self->pid,
		      offsetof(struct user, regs.rip), NULL);
}

static void break_at(SELF *self, unsigned long pc, unsigned long on)
{
	if ((pc && ptrace(PTRACE_POKEUSER, self->pid, offsetof(struct user, u_debugreg[0]),
			  pc)) ||
	    ptrace(PTRACE_POKEUSER, self->pid, offsetof(struct user, u_debugreg[7]), on))
		t_die("breakpoint: %s", strerror(errno));
}

/* False: the call has gone another way, and the next one is to come. */
static bool go_to(SELF *self, unsigned int k)
{
	if (!k) {
		into_the_call(self);
		return true;
	}
	break_at(self, self->pc[k], 1);
	run_on(self);
	if (stop_of(self) == SIGTRAP) {
		break_at(self, 0, 0);
		if (pc_of(self) != self->pc[k] || load(&self->play->stage) != INSIDE)
			t_die("not where it should have stopped");
		return true;
	}
	break_at(self, 0, 0);
	if (load(&self->play->stage) != AFTER)
		t_die("neither in the call nor behind it");
	run_on(self);
	stands_before(self);
	return false;
}
#else
static unsigned long pc_of(SELF *self)
{
	return 0;
}

static bool go_to(SELF *self, unsigned int k)
{
	into_the_call(self);
	return true;
}
#endif

/* The process comes by there, for the first time. */
static bool is_mark(SELF *self, unsigned int k)
{
	for (unsigned int i = 0; i < k; i++)
		if (self->pc[i] == self->pc[k])
			return false;
	return self->pc[k];
}

static unsigned int mark_before(SELF *self, unsigned int k)
{
	while (k && !is_mark(self, k))
		k--;
	return k;
}

/*
 * The process stands before instruction @k of the call; of @n it has returned. What a
 * call does in some places depends on addresses, so a count may differ by a few.
 */
static void steps(SELF *self, unsigned int k)
{
	unsigned int from = mark_before(self, k < self->n ? k : self->n - 1);

	while (!go_to(self, from)) {
		self->pc[from] = 0;
		from = mark_before(self, from);
	}
	for (; (from < k || k == self->n) && load(&self->play->stage) == INSIDE; from++)
		step(self);
}

static void end(SELF *self)
{
	int status;

	if (kill(self->pid, SIGKILL) || waitpid(self->pid, &status, 0) != self->pid ||
	    !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		t_die("the process was not killed");
	for (int left = 10000; t_domain_query(self->b).out_clients != 1; usleep(1000))
		if (!left--)
			t_die("nobody has noticed its end");
}

/* The session itself goes, too. */
static void forget(SELF *self)
{
	capkm_close(self->view);
	close(self->fd);
}

/* Which instructions there are. */
static void trace(SELF *self, enum act act)
{
	start(self, act);
	stands_before(self);
	into_the_call(self);
	for (self->n = 0; load(&self->play->stage) == INSIDE; step(self)) {
		if (self->n == STEPS_MAX)
			t_die("the call does not return");
		self->pc[self->n++] = pc_of(self);
	}
	end(self);
	forget(self);
}

/* CLEAN or the kind of the report, by a call. */
static unsigned int verdict_of(struct capkm *c, u_int64_t buffer)
{
	struct capkm_report r;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);
	struct capkm_claim claim = { buffer, 0, BYTES };
	int rc = capkm_check(c, &claim, 1, &a, NULL);

	if (rc || (a.out_result != CAPKM_CLEAN && a.out_result != CAPKM_TAINTED))
		t_die("check: %d, result %u", rc, a.out_result);
	if (a.out_result == CAPKM_CLEAN)
		return CLEAN;
	if (a.out_reports != 1 || r.start || r.end != BYTES)
		t_die("%u reports, of [%llu, %llu)", a.out_reports,
		      (unsigned long long)r.start, (unsigned long long)r.end);
	return r.kind;
}

/* The same for both. */
static unsigned int verdict(SELF *self, struct capkm *c)
{
	const unsigned int v = verdict_of(c, self->play->x[0]);

	for (unsigned int i = 1; i < BUFFERS; i++)
		if (verdict_of(c, self->play->x[i]) != v)
			t_die("the buffers are not alike: %u first", v);
	return v;
}

/* One verdict up to an instruction, another one from there on. */
struct switches {
	unsigned int first, second;
	unsigned int seen[2];
};

static void note(struct switches *s, unsigned int v)
{
	if (v == s->first && !s->seen[1])
		s->seen[0]++;
	else if (v == s->second)
		s->seen[1]++;
	else
		t_die("verdict %u after %u of %u and %u of %u", v, s->seen[0], s->first,
		      s->seen[1], s->second);
}

static const char *const name_of[] = {
	[ENTER] = "enter", [EXIT] = "exit", [COMPLETE] = "exit, complete",
};

static void noted(struct __test_metadata *_metadata, const struct switches *s, enum act act)
{
	TH_LOG("%s: %u boundaries, then %u", name_of[act], s->seen[0], s->seen[1]);
	ASSERT_LT(10, s->seen[0]);
	ASSERT_LT(0, s->seen[1]);
}

/* What a death before the switch leaves, and after it. */
static struct switches deaths(enum act act)
{
	struct switches s = { .first = CAPKM_KIND_TORN_DOWN, .second = CLEAN };

	if (act == ENTER)
		s = (struct switches){ .first = CLEAN, .second = CAPKM_KIND_TORN_DOWN };
	else if (act == EXIT)
		s.second = CAPKM_KIND_UNCONFIRMED;
	return s;
}

/* ------------------------------------------------------------------ kills */

/*
 * Another process joins the session that it died in, and gives its buffers away: to a
 * second session, which sees the same.
 */
static unsigned int verdict_elsewhere(SELF *self)
{
	unsigned int v;
	struct capkm *c;

	if (capkm_open_fd(self->fd, NULL, &c, NULL))
		t_die("cannot join");
	for (unsigned int i = 0; i < BUFFERS; i++) {
		if (capkm_buffer_export(c, self->play->x[i], NULL))
			t_die("cannot export");
		t_open(self->b, self->play->x[i]);
	}
	v = verdict(self, self->b->c);
	for (unsigned int i = 0; i < BUFFERS; i++)
		if (t_drop(self->b, self->play->x[i]))
			t_die("cannot close");
	capkm_close(c);
	return v;
}

static void killed_everywhere(struct __test_metadata *_metadata, SELF *self, enum act act)
{
	struct switches s = deaths(act);
	unsigned int v;

	trace(self, act);
	for (unsigned int k = 0; k <= self->n; k++) {
		start(self, act);
		stands_before(self);
		steps(self, k);
		end(self);
		ASSERT_EQ(0, t_domain_query(self->b).out_scopes);
		/* Nobody may have looked when it is joined. */
		if (k % 2) {
			v = verdict(self, self->view);
			ASSERT_EQ(v, verdict_elsewhere(self));
		} else {
			v = verdict_elsewhere(self);
		}
		note(&s, v);
		forget(self);
	}
	noted(_metadata, &s, act);
}

TEST_F_TIMEOUT(fast_kill, killed_in_enter, 300)
{
	ONLY_KERNEL();
	killed_everywhere(_metadata, self, ENTER);
}

TEST_F_TIMEOUT(fast_kill, killed_in_exit, 300)
{
	ONLY_KERNEL();
	killed_everywhere(_metadata, self, EXIT);
}

TEST_F_TIMEOUT(fast_kill, killed_in_complete_exit, 300)
{
	ONLY_KERNEL();
	killed_everywhere(_metadata, self, COMPLETE);
}

/* ------------------------------------------------------------------ looks meanwhile */

/* Before the end the same is to be seen, as long as somebody may go on. */
static unsigned int alive(unsigned int v)
{
	return v == CAPKM_KIND_TORN_DOWN ? CAPKM_KIND_IN_PROGRESS : CLEAN;
}

/*
 * A check from elsewhere makes the scope the kernel's just before the kill: what it says
 * is what comes of it.
 */
static void seen_and_killed(struct __test_metadata *_metadata, SELF *self, enum act act)
{
	struct switches s = deaths(act);
	unsigned int before, after;

	trace(self, act);
	for (unsigned int k = 0; k <= self->n; k++) {
		start(self, act);
		stands_before(self);
		steps(self, k);
		before = verdict(self, self->view);
		end(self);
		after = verdict(self, self->view);
		note(&s, after);
		ASSERT_EQ(alive(after), before);
		ASSERT_EQ(0, t_domain_query(self->b).out_scopes);
		forget(self);
	}
	noted(_metadata, &s, act);
}

TEST_F_TIMEOUT(fast_kill, seen_and_killed_in_enter, 300)
{
	ONLY_KERNEL();
	seen_and_killed(_metadata, self, ENTER);
}

TEST_F_TIMEOUT(fast_kill, seen_and_killed_in_exit, 300)
{
	ONLY_KERNEL();
	seen_and_killed(_metadata, self, EXIT);
}

static void take_state(void *ctx, const struct nl_attrs *attrs)
{
	unsigned int *records = ctx;

	nl_number(attrs, CAPKM_A_BUFFER_ID);
	++*records;
}

/* All buffers of the domain, from outside of it. */
static void dump(SELF *self, struct nl *nl)
{
	struct nl_request rq = nl_request(nl, CAPKM_CMD_BUFFER_GET, NLM_F_DUMP);
	unsigned int records = 0;
	struct nl_answer a;

	nl_put_u64(&rq, CAPKM_A_BUFFER_DOMAIN, self->b->domain);
	a = nl_talk(nl, &rq, take_state, &records);
	if (a.err || records != BUFFERS)
		t_die("dump: %d, %u buffers", a.err, records);
}

/*
 * Or the process lives on: whatever was done to its scope between two instructions, the
 * call succeeds, and what it says is so. @nl: a dump is what looks, else a check.
 */
static void seen_and_goes_on(struct __test_metadata *_metadata, SELF *self, enum act act,
			     struct nl *nl)
{
	const unsigned int in_the_end = act == ENTER ? CAPKM_KIND_IN_PROGRESS : CLEAN;
	struct switches s = {
		.first = act == ENTER ? CLEAN : CAPKM_KIND_IN_PROGRESS,
		.second = in_the_end,
	};
	unsigned int v;

	trace(self, act);
	start(self, act);
	for (unsigned int k = 0; k <= self->n; k++) {
		stands_before(self);
		steps(self, k);
		if (nl)
			dump(self, nl);
		v = verdict(self, self->view);
		note(&s, v);
		run_on(self);
		is_stopped(self, SIGSTOP);
		ASSERT_EQ(AFTER, self->play->stage);
		ASSERT_EQ(0, self->play->rc);
		/* Whoever sees it as open has made it the kernel's. */
		ASSERT_EQ(v == CAPKM_KIND_IN_PROGRESS, self->play->did.migrated);
		ASSERT_EQ(0, self->play->did.revoked);
		ASSERT_EQ(0, self->play->did.dropped);
		ASSERT_EQ(!!nl, !!self->play->did.transitions[CAPKM_FAST_DUMPED]);
		ASSERT_EQ(in_the_end, verdict(self, self->view));
		run_on(self);
	}
	is_stopped(self, SIGSTOP);
	end(self);
	forget(self);
	noted(_metadata, &s, act);
}

TEST_F_TIMEOUT(fast_kill, seen_in_enter, 300)
{
	ONLY_KERNEL();
	seen_and_goes_on(_metadata, self, ENTER, NULL);
}

TEST_F_TIMEOUT(fast_kill, seen_in_exit, 300)
{
	ONLY_KERNEL();
	seen_and_goes_on(_metadata, self, EXIT, NULL);
}

TEST_F_TIMEOUT(fast_kill, dumped_in_enter, 300)
{
	struct nl nl;

	ONLY_KERNEL();
	nl = nl_open();
	seen_and_goes_on(_metadata, self, ENTER, &nl);
	nl_close(&nl);
}

/* ------------------------------------------------------------------ never entered */

/* The call goes on, and succeeds; then the next one is to come. */
static void goes_on(SELF *self)
{
	run_on(self);
	is_stopped(self, SIGSTOP);
	if (self->play->stage != AFTER || self->play->rc || self->play->did.dropped)
		t_die("the call: %d", self->play->rc);
	if (verdict_of(self->view, self->play->x[0]) != CAPKM_KIND_IN_PROGRESS)
		t_die("the scope is not open");
	run_on(self);
}

/* The first instruction before which the scope is seen as open. */
static unsigned int find_entered(SELF *self)
{
	unsigned int low = 0, high = self->n, k;

	while (high - low > 1) {
		k = (low + high) / 2;
		stands_before(self);
		steps(self, k);
		*(verdict(self, self->view) == CLEAN ? &low : &high) = k;
		goes_on(self);
	}
	return high;
}

/*
 * One of the buffers is no clean one any more just before the scope says that it has
 * entered. Then it has not, whoever looks at the other buffer, and whenever.
 */
TEST_F_TIMEOUT(fast_kill, revoked, 300)
{
	struct switches s = { .first = CLEAN, .second = CAPKM_KIND_IN_PROGRESS };
	unsigned int entered, revoked = 0;
	bool inside = true;

	ONLY_KERNEL();
	trace(self, ENTER);
	start_with(self, ENTER, true);
	entered = find_entered(self);
	/* It is over soon; then comes a call, of which every eighth will do. */
	for (unsigned int n = 1; inside; n += n < 64 ? 1 : 8) {
		stands_before(self);
		steps(self, entered - 1);
		store(&self->play->order, TAINT);
		UNTIL(load(&self->play->order) == NONE);
		for (unsigned int i = 0; i < n && load(&self->play->stage) == INSIDE; i++)
			step(self);
		inside = load(&self->play->stage) == INSIDE;
		note(&s, verdict_of(self->view, self->play->x[0]));
		goes_on(self);
		revoked += self->play->did.revoked;
	}
	stands_before(self);
	end(self);
	forget(self);
	ASSERT_LT(0, revoked);
	TH_LOG("revoked before %u instructions", revoked);
	noted(_metadata, &s, ENTER);
}

TEST_HARNESS_MAIN
