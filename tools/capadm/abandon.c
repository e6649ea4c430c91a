// SPDX-License-Identifier: GPL-2.0-only
/*
 * capadm abandon. What is to be abandoned is found first: one window by its name or
 * slot, or all that pass a filter. Of the latter, one that goes by itself in the
 * meantime has what was wanted.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

struct target {
	struct target *next;
	uint64_t domain, window;
	uint64_t parent;	/* window, or 0 */
	char *name;		/* "3/17" */
	bool done;
};

struct targets {
	struct target *first, **last;
	size_t n;
	struct table *table;
	struct json_object *json;	/* of what was, or would be, abandoned */
	unsigned int done, gone, failed;
};

static void init_targets(struct targets *ts)
{
	*ts = (struct targets){ .last = &ts->first };
	ts->table = table_new(window_listing.columns, window_listing.columns_n);
	ts->json = must(json_object_new_array());
}

static struct target *add_target(struct targets *ts, uint64_t domain, uint64_t window)
{
	struct target *t = must(calloc(1, sizeof(*t)));

	t->domain = domain;
	t->window = window;
	t->name = format("%" PRIu64 "/%" PRIu64, domain, window);
	*ts->last = t;
	ts->last = &t->next;
	ts->n++;
	return t;
}

static void found(struct nlattr **attrs, void *ctx)
{
	struct targets *ts = ctx;
	struct target *t = add_target(ts, get_number(attrs[CAPKM_A_WINDOW_DOMAIN]),
				      get_number(attrs[CAPKM_A_WINDOW_ID]));

	t->parent = get_number(attrs[CAPKM_A_WINDOW_PARENT]);
	list_row(ts->table, &window_listing, attrs);
}

/* ---- what is meant ---- */

/* "3/17, 3/19", of a few */
static char *names(const struct targets *ts)
{
	const struct target *t;
	char *s = format("%s", ""), *more;
	unsigned int i = 0;

	for (t = ts->first; t; t = t->next, i++) {
		more = format("%s%s%s", s, *s ? ", " : "", i < 8 ? t->name : "...");
		free(s);
		s = more;
		if (i == 8)
			break;
	}
	return s;
}

static int find_on_slot(const struct request *rq, struct targets *ts)
{
	struct query q = { .cmd = CAPKM_CMD_WINDOW_GET };
	uint64_t domain, slot;
	char *list;
	int status;

	status = parse_number(rq, "slot", rq->argv[1], UINT32_MAX, &slot);
	if (!status)
		status = find_domain(rq, rq->argv[0], &domain);
	if (status)
		return status;
	ask_u64(&q, CAPKM_A_WINDOW_DOMAIN, domain);
	ask_u32(&q, CAPKM_A_WINDOW_SLOT, slot);
	status = kernel_dump(rq, &q, "find the window of that slot", found, ts);
	if (status || ts->n == 1)
		return status;
	if (!ts->n)
		return fail(rq, ENOENT,
			    "no window of domain %" PRIu64 " is on slot %" PRIu64 "; capadm windows %"
			    PRIu64 " lists them", domain, slot, domain);
	list = names(ts);
	status = fail(rq, EINVAL, "%zu windows are on slot %" PRIu64
		      " of domain %" PRIu64 ", as slots are each process's own; name one of them: %s",
		      ts->n, slot, domain, list);
	free(list);
	return status;
}

static int find_window(const struct request *rq, struct targets *ts)
{
	struct query q = { .cmd = CAPKM_CMD_WINDOW_GET };
	uint64_t domain, window;
	int status = parse_member(rq, "window", rq->argv[0], &domain, &window);

	if (status)
		return status;
	/* Whose domain it is may abandon in it, if he can read it or not. */
	if (!(rq->options & TAKES(DRY_RUN))) {
		add_target(ts, domain, window);
		return EXIT_OK;
	}
	ask_u64(&q, CAPKM_A_WINDOW_DOMAIN, domain);
	ask_u64(&q, CAPKM_A_WINDOW_ID, window);
	status = kernel_dump(rq, &q, "find the window", found, ts);
	if (status || ts->n)
		return status;
	return fail(rq, ENOENT, "no window of domain %" PRIu64 " has the id %" PRIu64
		    "; capadm windows %" PRIu64 " lists them", domain, window, domain);
}

static int find_by_filter(const struct request *rq, struct targets *ts)
{
	struct query q = { .cmd = CAPKM_CMD_WINDOW_GET };
	uint64_t domain, pid;
	int status = EXIT_OK;

	if (rq->options & TAKES(PID)) {
		status = parse_id(rq, "process", rq->values[OPT_PID], &pid);
		if (!status && pid > INT32_MAX)
			status = usage(rq, "%" PRIu64 " is not the id of a process; that is too large", pid);
		ask_u32(&q, CAPKM_A_WINDOW_PID, pid);
	}
	if (rq->options & TAKES(ORPHANS))
		ask_u32(&q, CAPKM_A_WINDOW_STATE, CAPKM_WINDOW_ORPHANED);
	if (!status && rq->argc) {
		status = find_domain(rq, rq->argv[0], &domain);
		ask_u64(&q, CAPKM_A_WINDOW_DOMAIN, domain);
	}
	return status ? status : kernel_dump(rq, &q, "find the windows", found, ts);
}

static bool by_filter(const struct request *rq)
{
	return rq->options & (TAKES(ORPHANS) | TAKES(PID));
}

static int find(const struct request *rq, struct targets *ts)
{
	if (by_filter(rq) && rq->argc < 2)
		return find_by_filter(rq, ts);
	if (by_filter(rq))
		return usage(rq, "with --orphans or --pid there may be a DOMAIN, nothing more");
	if (rq->argc == 2)
		return find_on_slot(rq, ts);
	if (rq->argc == 1)
		return find_window(rq, ts);
	return usage(rq, "abandon what? right is DOMAIN/WINDOW, DOMAIN SLOT, --orphans or --pid PID");
}

/* ---- to do it ---- */

static void note_done(struct targets *ts, struct target *t)
{
	struct json_object *j = must(json_object_new_object());

	json_object_object_add(j, "domain", json_object_new_uint64(t->domain));
	json_object_object_add(j, "id", json_object_new_uint64(t->window));
	json_object_array_add(ts->json, j);
	t->done = true;
	ts->done++;
}

/* Its parent was abandoned by us, which takes the bodies along; ids count up from it. */
static bool went_along(const struct targets *ts, const struct target *t)
{
	const struct target *p;

	for (p = ts->first; t->parent && p != t; p = p->next)
		if (p->domain == t->domain && p->window == t->parent)
			return p->done;
	return false;
}

/* @rq: where to complain */
static int abandon(const struct request *rq, struct targets *ts, struct target *t)
{
	struct query q = { .cmd = CAPKM_CMD_ABANDON };
	char *what = format("abandon window %s", t->name);
	bool gone = false;
	int status;

	ask_u64(&q, CAPKM_A_WINDOW_DOMAIN, t->domain);
	ask_u64(&q, CAPKM_A_WINDOW_ID, t->window);
	if (by_filter(rq))
		q.gone = &gone;
	status = kernel_do(rq, &q, what, NULL, NULL);
	free(what);
	if (status)
		ts->failed++;
	else if (gone && !went_along(ts, t))
		ts->gone++;
	else
		note_done(ts, t);
	if (!rq->json && t->done)
		printf("window %s is abandoned%s\n", t->name, gone ? ", with its parent" : "");
	return status;
}

/* One that cannot be abandoned keeps no other; the last reason stands for all. */
static int abandon_filtered(const struct request *rq, struct targets *ts)
{
	struct request quiet = *rq;
	struct target *t;
	char *error = NULL;
	int status = EXIT_OK;

	quiet.error = &error;
	for (t = ts->first; t; t = t->next)
		abandon(&quiet, ts, t);
	if (!rq->json)
		printf("%u abandoned, %u already gone\n", ts->done, ts->gone);
	if (ts->failed)
		status = fail(rq, 0, "%u of %zu windows are not abandoned: %s", ts->failed,
			      ts->n, error);
	free(error);
	return status;
}

static void show(const struct request *rq, struct targets *ts)
{
	struct target *t;

	for (t = ts->first; t; t = t->next)
		note_done(ts, t);
	if (rq->json)
		return;
	if (ts->n)
		table_print_and_free(ts->table);
	printf("%zu %s would be abandoned\n", ts->n, ts->n == 1 ? "window" : "windows");
}

static void give_json(const struct request *rq, const struct targets *ts)
{
	struct json_object *j = must(json_object_new_object());

	json_object_object_add(j, "dry_run", json_object_new_boolean(rq->options & TAKES(DRY_RUN)));
	json_object_object_add(j, "windows", ts->json);
	json_object_object_add(j, "gone", json_object_new_uint64(ts->gone));
	json_object_object_add(j, "failed", json_object_new_uint64(ts->failed));
	print_json("abandon", j);
}

int cmd_abandon(const struct request *rq)
{
	struct targets ts;
	int status;

	init_targets(&ts);
	status = find(rq, &ts);
	if (status)
		return status;
	if (rq->options & TAKES(DRY_RUN))
		show(rq, &ts);
	else if (by_filter(rq))
		status = abandon_filtered(rq, &ts);
	else
		status = abandon(rq, &ts, ts.first);
	if (rq->json && (!status || by_filter(rq)))
		give_json(rq, &ts);
	return status;
}
