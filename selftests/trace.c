// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracepoints: each is made to fire, and what it says is compared with what was done.
 * That their fields are those of Documentation/admin-guide/tracing.rst is for
 * vm/checks/trace.sh.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "capkm_test.h"

#define TRACING		"/sys/kernel/tracing"
#define INSTANCE	TRACING "/instances/capkm-test"

static const char *const names[] = {
	"capkm_client_join", "capkm_client_leave", "capkm_failure_mint",
	"capkm_failure_prune", "capkm_graph_destroy", "capkm_graph_replay_begin",
	"capkm_graph_replay_end", "capkm_graph_replay_skip", "capkm_graph_replay_torn",
	"capkm_graph_update", "capkm_ledger_adopt", "capkm_ledger_create",
	"capkm_ledger_destroy", "capkm_ledger_reserve", "capkm_ledger_step",
	"capkm_scope_enter", "capkm_scope_exit", "capkm_scope_skip",
	"capkm_scope_torn", "capkm_window_abandon", "capkm_window_abort",
	"capkm_window_begin", "capkm_window_close", "capkm_window_doom",
	"capkm_window_end", "capkm_window_orphan", "capkm_window_prepare",
};

static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static bool tracing(const char *on)
{
	return write_to(INSTANCE "/events/capkm/enable", on);
}

/* What one tracepoint is to say; the caller's, without its prefix and domain. */
static __attribute__((format(printf, 1, 2))) char *say(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		t_die("no memory");
	va_end(ap);
	return s;
}

/* What has been traced of the domain since it was asked last, a line each. */
static char *traced(u_int64_t domain)
{
	char *text = NULL, *line = NULL, *at, *says, *of = say(": domain=%" PRIu64 " ", domain);
	size_t size, room = 0;
	FILE *out = open_memstream(&text, &size), *f = fopen(INSTANCE "/trace", "r");

	if (!f)
		t_die("no trace: %s", strerror(errno));
	while (getline(&line, &room, f) > 0) {
		at = strstr(line, ": capkm_");
		says = at ? strstr(at, of) : NULL;
		if (!says)
			continue;
		*says = 0;
		fprintf(out, "%s: %s", at + strlen(": capkm_"), says + strlen(of));
	}
	fclose(f);
	fclose(out);
	free(line);
	free(of);
	write_to(INSTANCE "/trace", "");
	return text;
}

/* Exactly these have been traced, in this order. */
#define TRACED(domain, ...) (T_AT, traced_are(domain,			\
	(char *[]){ __VA_ARGS__ },					\
	sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)))
static void traced_are(u_int64_t domain, char **want, size_t n)
{
	char *text = traced(domain), *all = NULL;
	size_t size;
	FILE *f = open_memstream(&all, &size);

	for (size_t i = 0; i < n; i++) {
		fprintf(f, "%s\n", want[i]);
		free(want[i]);
	}
	fclose(f);
	if (strcmp(text, all))
		t_die("expected\n%s# traced\n%s", all, text);
	free(text);
	free(all);
}

FIXTURE(trace)
{
	struct cl *a, *b;
	u_int64_t d, x, y;
};

FIXTURE_SETUP(trace)
{
	if (t_embedded() || access(TRACING "/events/capkm", F_OK))
		return;
	rmdir(INSTANCE);
	ASSERT_EQ(0, mkdir(INSTANCE, 0700));
	self->a = t_process();
	self->b = t_client();
	self->d = t_domain(self->b);
	t_attach(self->a, self->d);
	self->x = t_shared(self->a, 100);
	self->y = t_shared(self->a, 100);
	t_open(self->b, self->x);
	t_open(self->b, self->y);
	ASSERT_EQ(true, tracing("1"));
}

FIXTURE_TEARDOWN(trace)
{
	if (!self->b)
		return;
	tracing("0");
	if (self->a)
		t_close(self->a);
	t_close(self->b);
	ASSERT_EQ(0, rmdir(INSTANCE));
}

#define NEEDS_TRACING() do {						\
	if (!self->b)							\
		SKIP(return, "needs the module, and tracefs as root");	\
} while (0)

/* A tracepoint of the window's class, with what the window's owner knows of it. */
static char *window(struct cl *cl, const char *name, u_int64_t w, const char *state,
		    const char *kind, u_int64_t failure, unsigned int launches)
{
	struct capkm_window_query q = t_window(cl, w).q;

	return say("window_%s: window=%" PRIu64 " session=%llu stream=%llu pid=%u slot=%u "
		   "parent=%llu state=%s kind=%s failure=%" PRIu64 " failures=%u "
		   "launches=%u recorded=%u graph=%llu", name, w, q.out_session,
		   q.out_owner, q.out_pid, q.out_slot, q.out_parent, state, kind, failure,
		   !!failure, launches, launches, strcmp(name, "close") ? 0 : q.out_graph);
}

/* Why the window was refused. */
static u_int64_t refusal(struct cl *cl, u_int64_t w)
{
	return t_window(cl, w).r[0].failure;
}

static char *entered(struct cl *cl, u_int64_t scope, unsigned int stream, u_int64_t w,
		     unsigned int reads, unsigned int writes, const char *label)
{
	return say("scope_enter: scope=%" PRIu64 " session=%" PRIu64 " stream=%u pid=%d "
		   "slot=%u window=%" PRIu64 " reads=%u writes=%u label=%s", scope,
		   cl->session, stream, t_pid(cl), stream, w, reads, writes, label);
}

static char *left(struct cl *cl, const char *how, u_int64_t scope, unsigned int stream,
		  u_int64_t w, u_int64_t failure, const char *kind, int code, int complete)
{
	return say("scope_%s: scope=%" PRIu64 " session=%" PRIu64 " stream=%u pid=%d "
		   "slot=%u window=%" PRIu64 " failure=%" PRIu64 " kind=%s code=%d "
		   "complete=%d", how, scope, cl->session, stream, t_pid(cl), stream, w,
		   failure, kind, code, complete);
}

static char *failure(struct cl *cl, const char *how, const char *kind, int code,
		     unsigned int stream, struct capkm_report r, unsigned int skips)
{
	return say("failure_%s: failure=%llu kind=%s code=%d session=%" PRIu64
		   " stream=%u pid=%d window=%llu scope=%llu graph=%llu skips=%u label=%s",
		   how, r.failure, kind, code, cl->session, stream, t_pid(cl), r.window,
		   r.scope, r.graph, skips, r.label);
}

static char *replay(struct cl *cl, const char *how, u_int64_t g, unsigned int stream,
		    u_int64_t failure, const char *kind, int code, int complete)
{
	return say("graph_replay_%s: graph=%" PRIu64 " session=%" PRIu64 " stream=%u pid=%d "
		   "slot=%u writes=1 inputs=1 failure=%" PRIu64 " kind=%s code=%d "
		   "complete=%d", how, g, cl->session, stream, t_pid(cl), stream, failure,
		   kind, code, complete);
}

static char *graph(struct cl *cl, const char *how, u_int64_t g, u_int64_t w,
		   unsigned int replays, unsigned int failed, unsigned int updates,
		   unsigned int failed_updates)
{
	return say("graph_%s: graph=%" PRIu64 " session=%" PRIu64 " pid=%d window=%" PRIu64
		   " replays=%u failed_replays=%u updates=%u failed_updates=%u", how, g,
		   cl->session, t_pid(cl), w, replays, failed, updates, failed_updates);
}

static char *doom(struct cl *cl, u_int64_t w, const char *state, unsigned int launches,
		  u_int64_t f, const char *kind, int code, unsigned int stream,
		  u_int64_t scope, const char *label)
{
	return say("window_doom: window=%" PRIu64 " state=%s launches=%u failure=%" PRIu64
		   " kind=%s code=%d session=%" PRIu64 " stream=%u pid=%d scope=%" PRIu64
		   " graph=0 label=%s", w, state, launches, f, kind, code, cl->session,
		   stream, t_pid(cl), scope, label);
}

/* The test that has a new tracepoint to fire is this file. */
TEST_F(trace, names)
{
	struct dirent *e;
	unsigned int n = 0, known;
	DIR *dir;

	NEEDS_TRACING();
	dir = opendir(TRACING "/events/capkm");
	ASSERT_NE(NULL, dir);
	while ((e = readdir(dir))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		for (known = 0; known < ARRAY_SIZE(names); known++)
			if (!strcmp(e->d_name, names[known]))
				break;
		ASSERT_NE(ARRAY_SIZE(names), known) {
			TH_LOG("no test of %s", e->d_name);
		}
		n++;
	}
	closedir(dir);
	ASSERT_EQ(ARRAY_SIZE(names), n);
}

/* From the preparation to the graph, its replays, its update and its end */
TEST_F(trace, graph)
{
	struct cl *a = self->a;
	struct t_enter e;
	u_int64_t w, v, g, f;

	NEEDS_TRACING();
	w = t_prepare(a, 3);
	t_begin(a, 3);
	TRACED(self->d, window(a, "prepare", w, "prepare", "none", 0, 0),
	       window(a, "begin", w, "capture", "none", 0, 0));
	e = t_try_enter(a, 3, 0, "gemm", C({ self->y, 0, 10 }, { self->y, 20, 30 }),
			C({ self->x, 0, 10 }));
	t_exit_enqueued(a, e.scope);
	TRACED(self->d, entered(a, e.scope, 3, w, 2, 1, "gemm"),
	       left(a, "exit", e.scope, 3, w, 0, "none", 0, 0));
	t_end(a, 3);
	g = t_seal(a, w);
	TRACED(self->d, window(a, "end", w, "closing", "none", 0, 1),
	       window(a, "close", w, "sealed", "none", 0, 1));
	t_destroy(a, g);
	TRACED(self->d, graph(a, "destroy", g, w, 0, 0, 0, 0));

	g = t_graph(a, 3, C({ self->y, 0, 10 }), C({ self->x, 0, 10 }));
	w = t_graph_query(a, g, 0).q.out_window;
	free(traced(self->d));
	t_replay(a, g, 4);
	TRACED(self->d, replay(a, "begin", g, 4, 0, "none", 0, 0),
	       replay(a, "end", g, 4, 0, "none", 0, 1));
	t_replay_begin(a, g, 4);
	f = t_replay_end(a, g, "illegal address");
	TRACED(self->d, replay(a, "begin", g, 4, 0, "none", 0, 0),
	       replay(a, "end", g, 4, f, "driver", 719, 0),
	       failure(a, "mint", "driver", 719, 4, t_failure(a, f, 0).r, 0));
	v = t_record(a, 3);
	t_end(a, 3);
	free(traced(self->d));
	ASSERT_EQ(0, t_try_update(a, g, v, CAPKM_GRAPH_UPDATE_F_FAILED).rc);
	TRACED(self->d, graph(a, "update", g, v, 1, 1, 0, 1));
	t_update(a, g, v);
	TRACED(self->d, graph(a, "update", g, v, 1, 1, 1, 1),
	       window(a, "close", v, "sealed", "none", 0, 0));
	t_destroy(a, g);
	TRACED(self->d, graph(a, "destroy", g, v, 1, 1, 1, 1));
}

/* A failure, what does not run for it, and how it goes */
TEST_F(trace, failure)
{
	struct cl *a = self->a;
	struct t_enter e;
	struct capkm_report r;
	u_int64_t f, g, s;

	NEEDS_TRACING();
	e = t_try_enter(a, 1, 0, "softmax", NO_CLAIMS, C({ self->x, 0, 10 }));
	f = t_exit_failed(a, e.scope, "no kernel image");
	r = t_failure(a, f, 0).r;
	ASSERT_EQ(e.scope, r.scope);
	TRACED(self->d, entered(a, e.scope, 1, 0, 0, 1, "softmax"),
	       left(a, "exit", e.scope, 1, 0, f, "launch", -700, 0),
	       failure(a, "mint", "launch", -700, 1, r, 0));
	/* A label may be any bytes, a line of a trace is one line. */
	ASSERT_EQ(f, t_skip(a, 2, "arg\nmax\033\303", C({ self->x, 0, 4 }), C({ self->y, 0, 4 })));
	TRACED(self->d, say("scope_skip: session=%" PRIu64 " stream=2 pid=%d slot=2 window=0 "
			    "failure=%" PRIu64 " kind=launch label=arg?max??", a->session,
			    t_pid(a), f));
	t_write(a, 1, C({ self->y, 0, 4 }));
	free(traced(self->d));
	s = t_try_enter(a, 1, 0, "\ra\177", NO_CLAIMS, C({ self->x, 0, 10 })).scope;
	t_exit(a, s);
	TRACED(self->d, entered(a, s, 1, 0, 0, 1, "?a?"),
	       left(a, "exit", s, 1, 0, 0, "none", 0, 1),
	       failure(a, "prune", "launch", -700, 1, r, 1));

	/* A replay is skipped, too. */
	g = t_graph(a, 1, C({ self->x, 0, 10 }), C({ self->y, 0, 10 }));
	f = t_fail(a, 1, C({ self->x, 0, 10 }), "no kernel image");
	free(traced(self->d));
	ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(a, g, 5).result);
	TRACED(self->d, replay(a, "skip", g, 5, f, "launch", -700, 0));
}

/* All the ways in which a window does not become a graph */
TEST_F(trace, doomed)
{
	struct cl *a = self->a;
	u_int64_t w, f, r;

	NEEDS_TRACING();
	w = t_record(a, 3);
	free(traced(self->d));
	t_window_fail(a, w, 5, 77, "attention", "unsupported");
	f = t_window(a, w).r[0].failure;
	TRACED(self->d, doom(a, w, "capture", 0, f, "driver", 77, 5, 0, "attention"));
	t_end(a, 3);
	r = t_seal_refused(a, w).r[0].failure;
	TRACED(self->d, window(a, "end", w, "closing", "driver", f, 0),
	       window(a, "close", w, "refused", "refused", r, 0));

	/* Aborted: before it began nothing is refused. */
	w = t_prepare(a, 3);
	t_abort(a, 3);
	TRACED(self->d, window(a, "prepare", w, "prepare", "none", 0, 0),
	       window(a, "abort", w, "prepare", "none", 0, 0),
	       window(a, "close", w, "refused", "none", 0, 0));
	w = t_record(a, 3);
	free(traced(self->d));
	t_abort(a, 3);
	r = refusal(a, w);
	TRACED(self->d, window(a, "abort", w, "capture", "none", 0, 0),
	       doom(a, w, "capture", 0, r, "aborted", 0, 3, 0, ""),
	       window(a, "close", w, "refused", "aborted", r, 0));

	/* Abandoned */
	w = t_record(a, 3);
	free(traced(self->d));
	ASSERT_EQ(0, t_abandon(self->b, w));
	r = refusal(a, w);
	TRACED(self->d, window(a, "abandon", w, "capture", "none", 0, 0),
	       doom(a, w, "capture", 0, r, "abandoned", 0, 3, 0, ""),
	       window(a, "close", w, "refused", "abandoned", r, 0));
}

static char *client(struct cl *cl, const char *how, unsigned int id, unsigned int scopes,
		    unsigned int windows, unsigned int graphs)
{
	return say("client_%s: session=%" PRIu64 " client=%u pid=%d uid=%u scopes=%u "
		   "windows=%u graphs=%u comm=trace", how, cl->session, id, t_pid(cl),
		   geteuid(), scopes, windows, graphs);
}

/* A client comes, and dies with a scope, a window and a replay that are open. */
TEST_F(trace, death)
{
	struct cl *b = self->b, *c, dead;
	u_int64_t w, v, s, g, r;
	struct capkm_report torn, unended;

	NEEDS_TRACING();
	c = t_process();
	t_attach(c, self->d);
	TRACED(self->d, client(c, "join", 3, 0, 0, 0));
	t_open(c, self->x);
	t_open(c, self->y);
	g = t_graph(c, 2, C({ self->y, 0, 10 }), C({ self->x, 0, 10 }));
	v = t_graph_query(c, g, 0).q.out_window;
	w = t_record(c, 3);
	s = t_enter(c, 4, NO_CLAIMS, C({ self->y, 50, 60 }));
	t_replay_begin(c, g, 5);
	free(traced(self->d));
	dead = *c;
	t_kill(c);
	r = refusal(b, w);
	torn = t_is_tainted(b, self->y, 50, 60, CAPKM_KIND_TORN_DOWN);
	unended = t_is_tainted(b, self->x, 0, 10, CAPKM_KIND_TORN_DOWN);
	TRACED(self->d, client(&dead, "leave", 3, 1, 1, 1),
	       doom(&dead, w, "capture", 0, r, "owner-died", 0, 3, 0, ""),
	       window(b, "orphan", w, "orphaned", "owner-died", r, 0),
	       left(&dead, "torn", s, 4, 0, torn.failure, "torn-down", 0, 0),
	       failure(&dead, "mint", "torn-down", 0, 4, torn, 0),
	       replay(&dead, "torn", g, 5, unended.failure, "torn-down", 0, 0),
	       failure(&dead, "mint", "torn-down", 0, 5, unended, 0),
	       graph(&dead, "destroy", g, v, 0, 1, 0, 0));
	ASSERT_EQ(0, t_abandon(b, w));
	TRACED(self->d, window(b, "abandon", w, "orphaned", "owner-died", r, 0),
	       window(b, "close", w, "refused", "owner-died", r, 0));

	/* Another process of a session */
	c = t_join_session(self->a);
	TRACED(self->d, client(c, "join", 4, 0, 0, 0));
	dead = *c;
	t_close(c);
	TRACED(self->d, client(&dead, "leave", 4, 0, 0, 0));
}

TEST_HARNESS_MAIN
