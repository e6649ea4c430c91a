// SPDX-License-Identifier: GPL-2.0-only
/* capadm top: what the sessions do, again and again. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "screen.h"
#include "snapshot.h"
#include "values.h"

static const struct column columns[] = {
	{ "DOMAIN", true }, { "SESSION", true }, { "WINDOWS", true }, { "GRAPHS", true },
	{ "SCOPES", true }, { "SCOPES/s", true }, { "SKIPS/s", true }, { "FAILURES", true },
	{ "PID", true }, { "COMMAND" },
};

/* Sums of all domains, for the line above the table. */
static const struct {
	const char *key;
	int attr;
} sums[] = {
	{ "sessions",	CAPKM_A_DOMAIN_SESSIONS },
	{ "windows",	CAPKM_A_DOMAIN_WINDOWS },
	{ "orphans",	CAPKM_A_DOMAIN_ORPHANS },
	{ "graphs",	CAPKM_A_DOMAIN_GRAPHS },
	{ "failures",	CAPKM_A_DOMAIN_FAILURES },
	{ "faulted",	CAPKM_A_DOMAIN_FAULTED },
};

/* Lines above the table, with its titles. */
#define HEAD_LINES 3

struct look {
	struct snapshot s;
	uint64_t at;		/* ns */
};

struct line {
	const struct record *session;
	double scopes, skips;	/* a second; below 0: not known */
};

/* ---- numbers ---- */

static const struct record *find_session(const struct look *l, uint64_t id)
{
	const struct record *r;

	for (r = l->s.sessions.first; r; r = r->next)
		if (r->number[CAPKM_A_SESSION_ID] == id)
			return r;
	return NULL;
}

/* Of a session that was not there before, from nothing on. */
static double rate(const struct record *now, const struct record *before, int attr,
		   uint64_t ns)
{
	uint64_t old = before ? before->number[attr] : 0;

	if (!now->has[attr] || !ns)
		return -1;
	return (now->number[attr] - old) * 1e9 / ns;
}

/* The busiest first. */
static int compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->scopes != y->scopes)
		return x->scopes < y->scopes ? 1 : -1;
	return x->session->number[CAPKM_A_SESSION_ID] <
	       y->session->number[CAPKM_A_SESSION_ID] ? -1 : 1;
}

static struct line *make_lines(const struct look *now, const struct look *before)
{
	struct line *lines = must(calloc(now->s.sessions.n + 1, sizeof(*lines)));
	uint64_t ns = now->at - before->at;
	const struct record *r;
	size_t n = 0;

	for (r = now->s.sessions.first; r; r = r->next) {
		const struct record *old = find_session(before, r->number[CAPKM_A_SESSION_ID]);

		lines[n++] = (struct line) {
			.session = r,
			.scopes = rate(r, old, CAPKM_A_SESSION_ENTERED, ns),
			.skips = rate(r, old, CAPKM_A_SESSION_SKIPPED, ns),
		};
	}
	qsort(lines, n, sizeof(*lines), compare);
	return lines;
}

static uint64_t sum(const struct look *l, int attr)
{
	const struct record *r;
	uint64_t n = 0;

	for (r = l->s.domains.first; r; r = r->next)
		n += r->number[attr];
	return n;
}

/* ---- text ---- */

static char *rate_text(double v)
{
	return v < 0 ? format("-") : v < 10 ? format("%.1f", v) : format("%.0f", v);
}

static char *count_text(const struct record *r, int attr)
{
	return r->has[attr] ? format_count(r->number[attr]) : format("-");
}

static void add_row(struct table *t, const struct line *l)
{
	const struct record *r = l->session;

	table_row(t,
		  format_id(r->number[CAPKM_A_SESSION_DOMAIN]),
		  format_id(r->number[CAPKM_A_SESSION_ID]),
		  count_text(r, CAPKM_A_SESSION_WINDOWS),
		  count_text(r, CAPKM_A_SESSION_GRAPHS),
		  count_text(r, CAPKM_A_SESSION_SCOPES),
		  rate_text(l->scopes), rate_text(l->skips),
		  count_text(r, CAPKM_A_SESSION_FAILED),
		  format_id(r->number[CAPKM_A_SESSION_PID]),
		  escape(r->text));
}

static void print_head(const struct look *now)
{
	time_t t = time(NULL);
	char text[16] = "";
	struct tm tm;
	size_t i;

	if (localtime_r(&t, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("%s  domains %zu", text, now->s.domains.n);
	for (i = 0; i < ARRAY_SIZE(sums); i++)
		printf("  %s %" PRIu64, sums[i].key, sum(now, sums[i].attr));
	printf("\n\n");
}

/* As many as fit; @rows 0: all. */
static void print_text(const struct look *now, const struct line *lines, size_t rows)
{
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	size_t i, n = now->s.sessions.n;

	if (rows)
		n = rows <= HEAD_LINES + 1 ? 0 : n < rows - HEAD_LINES - 1 ? n :
						     rows - HEAD_LINES - 1;
	print_head(now);
	for (i = 0; i < n; i++)
		add_row(t, &lines[i]);
	table_print_and_free(t);
}

/* ---- JSON ---- */

static const struct {
	const char *key;
	int attr;
} session_numbers[] = {
	{ "domain",	CAPKM_A_SESSION_DOMAIN },
	{ "id",		CAPKM_A_SESSION_ID },
	{ "pid",	CAPKM_A_SESSION_PID },
	{ "windows",	CAPKM_A_SESSION_WINDOWS },
	{ "graphs",	CAPKM_A_SESSION_GRAPHS },
	{ "scopes",	CAPKM_A_SESSION_SCOPES },
	{ "failed",	CAPKM_A_SESSION_FAILED },
};

static void add_rate(struct json_object *j, const char *key, double v)
{
	json_object_object_add(j, key, v < 0 ? NULL : json_object_new_double(v));
}

static struct json_object *line_json(const struct line *l)
{
	struct json_object *j = must(json_object_new_object());
	const struct record *r = l->session;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(session_numbers); i++)
		json_object_object_add(j, session_numbers[i].key,
				       r->has[session_numbers[i].attr] ?
				       json_object_new_uint64(r->number[session_numbers[i].attr]) :
				       NULL);
	json_object_object_add(j, "comm", json_text(r->text));
	add_rate(j, "scopes_per_second", l->scopes);
	add_rate(j, "skips_per_second", l->skips);
	return j;
}

static void print_object(const struct look *now, const struct look *before,
			 const struct line *lines)
{
	struct json_object *j = must(json_object_new_object());
	struct json_object *list = must(json_object_new_array());
	size_t i;

	json_object_object_add(j, "seconds", json_object_new_double((now->at - before->at) / 1e9));
	json_object_object_add(j, "domains", json_object_new_uint64(now->s.domains.n));
	for (i = 0; i < ARRAY_SIZE(sums); i++)
		if (sums[i].attr != CAPKM_A_DOMAIN_SESSIONS)
			json_object_object_add(j, sums[i].key,
					       json_object_new_uint64(sum(now, sums[i].attr)));
	for (i = 0; i < now->s.sessions.n; i++)
		json_object_array_add(list, line_json(&lines[i]));
	json_object_object_add(j, "sessions", list);
	print_json_line("top", j);
}

/* ---- again and again ---- */

/* @screen: a terminal, whose whole screen is ours until the end. */
static int show(const struct request *rq, const struct look *now, const struct look *before,
		bool screen)
{
	struct line *lines = make_lines(now, before);

	if (screen)
		screen_begin();
	if (rq->json)
		print_object(now, before, lines);
	else
		print_text(now, lines, screen ? screen_rows() : 0);
	if (!rq->json && !screen)
		putchar('\n');
	free(lines);
	return fflush(stdout) ? fail(rq, errno, "cannot write the output: %s", strerror(errno)) :
				EXIT_OK;
}

static int take(const struct request *rq, struct look *l)
{
	l->at = monotonic_ns();
	return snapshot_take(rq, &l->s, 0, SNAPSHOT_SESSIONS);
}

/* False: it is to stop. On a screen there is always a picture. */
static bool wait_until(const struct request *rq, uint64_t ns, const struct look *now,
		       const struct look *before, bool screen, const sigset_t *waiting)
{
	enum screen_event e;

	if (!screen) {
		sleep_until(ns, waiting);
		return !stop_asked();
	}
	while ((e = screen_wait(ns)) == SCREEN_REDRAW)
		show(rq, now, before, true);
	return e != SCREEN_STOP;
}

/* The first look is only there to count from. */
static int watch(const struct request *rq, uint64_t ns, uint64_t count, bool screen)
{
	struct look now = {}, before = {}, next;
	sigset_t waiting;
	uint64_t shown;
	int status = take(rq, &now);

	if (!screen)
		stop_catch(&waiting);
	else if (!status)
		status = show(rq, &now, &now, true);
	for (shown = 0; !status && (!count || shown < count); shown++) {
		if (!wait_until(rq, now.at + ns, &now, before.at ? &before : &now, screen,
				&waiting))
			break;
		next = (struct look){};
		status = take(rq, &next);
		snapshot_free(&before.s);
		before = now;
		now = next;
		if (!status)
			status = show(rq, &now, &before, screen);
	}
	snapshot_free(&before.s);
	snapshot_free(&now.s);
	return status;
}

/*
 * An error is kept until the other screen, on which nobody would read it, has gone. Who wants
 * so many tables wants to have them, and not that they vanish with it.
 */
int cmd_top(const struct request *rq)
{
	struct request quiet = *rq;
	char *error = NULL;
	uint64_t ns, count;
	int status = option_interval(rq, &ns);

	if (!status)
		status = option_count(rq, &count);
	if (status)
		return status;
	if (rq->json || count || !screen_open())
		return watch(rq, ns, count, false);
	quiet.error = &error;
	status = watch(&quiet, ns, count, true);
	screen_close();
	if (status)
		fail(rq, 0, "%s", error);
	free(error);
	return status;
}
