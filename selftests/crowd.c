// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many processes in one domain. Each has a lane of the same buffer, writes to it well or
 * badly, and looks at the lanes of others; all say in shared memory what they are about to
 * do and have done. So whoever looks knows what it must find, whoever is stopped or dies,
 * and however: by a signal or because memory has run out.
 *
 *   CAPKM_TEST_KILLS  how many are killed in each test
 *   CAPKM_TEST_SEED   what to repeat
 */
#include "choices.h"
#include "process.h"

#include <time.h>

#define CROWD	100
#define LANE	16

/* What one process does. Written by it, or while it is dead by who mends its lane. */
struct lane {
	int turn;		/* odd: it is changing its lane, or has died while it was */
	int tainted;		/* what the lane carries when turn is even */
	int next;		/* what it will carry */
	int open, leaving;	/* in between: it has entered; it may have left */
};

struct crowd {
	struct cl *a;		/* who looks after them */
	u_int64_t domain, buffer;
	int n;
	struct lane *lane;	/* shared */
	int pid[CROWD];
	bool hungry;
	struct choices choices;
};

static unsigned int roll(struct crowd *c, unsigned int n)
{
	return choose(&c->choices, n);
}

#define LANE_OF(c, i) C({ (c)->buffer, (u_int64_t)(i) * LANE, ((u_int64_t)(i) + 1) * LANE })

/* ------------------------------------------------------------------ one of them */

static void look_at(struct crowd *c, struct cl *cl, int i)
{
	struct lane *l = &c->lane[i];
	const int turn = load(&l->turn), tainted = load(&l->tainted);
	struct capkm_check check = {
		.claims_uptr = t_ptr(&(struct capkm_claim){ c->buffer, i * LANE,
							    (i + 1) * LANE }),
		.claims_len = 1,
	};
	int rc;

	if (turn & 1)
		return;
	/* Without reports it needs no memory. */
	rc = t_call(cl, CAPKM_NR_CHECK, &check);
	if (rc)
		t_die("lane %d: check: %d", i, rc);
	if (load(&l->turn) != turn)
		return;
	if (check.out_result != (tainted ? CAPKM_TAINTED : CAPKM_CLEAN))
		t_die("lane %d, turn %d: result %u, tainted %d", i, turn, check.out_result,
		      tainted);
}

static void change(struct crowd *c, struct cl *cl, int i)
{
	struct lane *l = &c->lane[i];
	struct t_enter e;

	store(&l->next, !roll(c, 3));
	store(&l->turn, l->turn + 1);
	e = t_try_enter(cl, 1, 0, "crowd", NULL, 0, LANE_OF(c, i));
	if (!e.rc && e.result == CAPKM_CLEAN) {
		store(&l->open, 1);
		if (!roll(c, 4))
			usleep(roll(c, 2000));
		store(&l->leaving, 1);
		/* An exit allocates nothing: it works where an enter does not. */
		if (l->next)
			t_exit_failed(cl, e.scope, "crowd");
		else
			t_exit(cl, e.scope);
		store(&l->tainted, l->next);
	} else if (e.rc != -ENOMEM) {
		t_die("lane %d: enter: %d, result %u", i, e.rc, e.result);
	}
	store(&l->leaving, 0);
	store(&l->open, 0);
	store(&l->turn, l->turn + 1);
}

/* Takes more and more memory, then gives it back. */
static void eat(struct crowd *c)
{
	static size_t eaten;
	static char *p;

	if (!p)
		p = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	for (int i = roll(c, 64); i && eaten < 8 << 20; i--, eaten += 4096)
		p[eaten] = 1;
	if (roll(c, 64))
		return;
	madvise(p, 8 << 20, MADV_DONTNEED);
	eaten = 0;
}

static void __attribute__((noreturn)) be_one(struct crowd *c, int i)
{
	struct cl *cl;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(capkm_fd(c->a->c));
	cl = t_client();
	t_attach(cl, c->domain);
	t_open(cl, c->buffer);
	if (c->hungry && !t_put_file(MEMORY_GROUP "/cgroup.procs", "0"))
		t_die("no place in %s: %s", MEMORY_GROUP, strerror(errno));
	for (;;) {
		change(c, cl, i);
		look_at(c, cl, roll(c, c->n));
		if (c->hungry)
			eat(c);
	}
}

/* --------------------------------------------------------------- who starts them */

static void start(struct crowd *c, int i)
{
	const unsigned int dice = roll(c, 1 << 30);

	fflush(NULL);
	c->pid[i] = fork();
	if (c->pid[i] < 0)
		t_die("fork: %s", strerror(errno));
	if (!c->pid[i]) {
		c->choices.rng = dice;
		be_one(c, i);
	}
}

static unsigned int kind_in(struct crowd *c, int i)
{
	struct t_check found = t_check(c->a, LANE_OF(c, i));

	return found.result == CAPKM_CLEAN ? CAPKM_KIND_NONE : found.r[0].kind;
}

/* It has died: its lane carries what it left there, or that it was torn. */
static void is_explained(struct crowd *c, int i)
{
	const struct lane l = c->lane[i];
	const unsigned int kind = kind_in(c, i);
	bool torn = kind == CAPKM_KIND_TORN_DOWN, ok;
	int is = kind != CAPKM_KIND_NONE;

	if (!torn && is && kind != CAPKM_KIND_LAUNCH)
		t_die("lane %d: kind %u", i, kind);
	if (!(l.turn & 1))
		ok = !torn && is == l.tainted;
	else if (!l.open)
		ok = torn || is == l.tainted;
	else if (!l.leaving)
		ok = torn;
	else
		ok = torn || is == l.next;
	if (!ok)
		t_die("lane %d: kind %u; turn %d open %d leaving %d tainted %d next %d", i, kind,
		      l.turn, l.open, l.leaving, l.tainted, l.next);
}

static void replace(struct crowd *c, int i)
{
	struct lane *l = &c->lane[i];

	is_explained(c, i);
	store(&l->turn, l->turn | 1);
	t_write(c->a, 1, LANE_OF(c, i));
	store(&l->open, 0);
	store(&l->leaving, 0);
	store(&l->tainted, 0);
	store(&l->turn, l->turn + 1);
	start(c, i);
}

static void wait_for(int pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) ||
	    WTERMSIG(status) != SIGKILL)
		t_die("process %d died by itself: %x", pid, status);
}

static u_int64_t turns(const struct crowd *c)
{
	u_int64_t n = 0;

	for (int i = 0; i < c->n; i++)
		n += load(&c->lane[i].turn);
	return n;
}

/* Whoever is stopped inside of a scope keeps it, and keeps nobody else from going on. */
static bool stop(struct crowd *c, int i)
{
	const struct lane *l = &c->lane[i];
	u_int64_t before;
	bool inside;
	int status;

	kill(c->pid[i], SIGSTOP);
	if (waitpid(c->pid[i], &status, WUNTRACED) != c->pid[i] || !WIFSTOPPED(status))
		t_die("process %d does not stop: %x", c->pid[i], status);
	inside = l->open && !l->leaving;
	before = turns(c);
	for (int k = 0; k < 2; k++) {
		if (inside && kind_in(c, i) != CAPKM_KIND_IN_PROGRESS)
			t_die("lane %d of a stopped process: kind %u", i, kind_in(c, i));
		while (!k && turns(c) < before + 20)
			usleep(1000);
	}
	return inside;
}

static struct crowd gather(int n, bool hungry)
{
	struct crowd c = { .n = n, .hungry = hungry };

	c.choices.rng = t_param("CAPKM_TEST_SEED", 0, time(NULL));
	printf("# seed %" PRIu64 "\n", c.choices.rng);
	c.a = t_client();
	c.domain = t_domain(c.a);
	c.buffer = t_shared(c.a, (u_int64_t)n * LANE);
	c.lane = mmap(NULL, CROWD * sizeof(*c.lane), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c.lane == MAP_FAILED)
		t_die("no memory");
	for (int i = 0; i < n; i++)
		start(&c, i);
	return c;
}

static void disperse(struct crowd *c)
{
	for (int i = 0; i < c->n; i++)
		kill(c->pid[i], SIGKILL);
	for (int i = 0; i < c->n; i++) {
		wait_for(c->pid[i]);
		is_explained(c, i);
	}
	t_write(c->a, 1,
		      C({ c->buffer, 0, (u_int64_t)c->n * LANE }));
	if (t_drop(c->a, c->buffer))
		t_die("the buffer does not go");
	t_is_empty(c->a);
	t_close(c->a);
	munmap(c->lane, CROWD * sizeof(*c->lane));
}

FIXTURE(crowd)
{
};

FIXTURE_SETUP(crowd)
{
}

FIXTURE_TEARDOWN(crowd)
{
}

/* C69: a hundred of them; some are stopped for a while, some are killed. */
TEST_F_TIMEOUT(crowd, stopped_and_killed, 600)
{
	int kills, stopped = 0, inside = 0;
	struct crowd c;

	ONLY_KERNEL();
	kills = t_param("CAPKM_TEST_KILLS", 0, 150);
	c = gather(CROWD, false);
	UNTIL(turns(&c) > 4 * CROWD);
	for (int k = 0; k < kills; k++) {
		const int i = roll(&c, c.n);

		if (!roll(&c, 3)) {
			stopped++;
			inside += stop(&c, i);
			if (roll(&c, 2)) {
				kill(c.pid[i], SIGCONT);
				continue;
			}
		}
		kill(c.pid[i], SIGKILL);
		wait_for(c.pid[i]);
		replace(&c, i);
	}
	TH_LOG("%d times stopped, %d of them in a scope; %" PRIu64 " turns", stopped, inside,
	       turns(&c));
	EXPECT_LT(0, stopped);
	disperse(&c);
}

static u_int64_t failed_for_memory(void)
{
	char text[512] = "", *at;
	int fd = open(MEMORY_GROUP "/memory.events", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		t_die("%s/memory.events: %s", MEMORY_GROUP, strerror(errno));
	close(fd);
	at = strstr(text, "oom_kill ");
	return at ? strtoull(at + 9, NULL, 10) : 0;
}

/* Memory runs out for all of them together: the kernel kills one after the other. */
TEST_F_TIMEOUT(crowd, out_of_memory, 600)
{
	struct crowd c;
	int kills;

	ONLY_KERNEL();
	if (!memory_group() || !t_put_file(MEMORY_GROUP "/memory.max", "24M"))
		SKIP(return, "needs root and a memory cgroup");
	kills = t_param("CAPKM_TEST_KILLS", 0, 20);
	c = gather(12, true);
	for (int k = 0; k < kills; k++) {
		siginfo_t si = { 0 };
		int i = 0;

		if (waitid(P_ALL, 0, &si, WEXITED | WNOWAIT))
			t_die("waitid: %s", strerror(errno));
		while (i < c.n && c.pid[i] != si.si_pid)
			i++;
		wait_for(si.si_pid);
		if (i < c.n)
			replace(&c, i);
	}
	TH_LOG("%" PRIu64 " killed for memory; %" PRIu64 " turns", failed_for_memory(),
	       turns(&c));
	EXPECT_LE((u_int64_t)kills, failed_for_memory());
	disperse(&c);
	memory_group_end();
}

TEST_HARNESS_MAIN
