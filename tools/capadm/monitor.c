// SPDX-License-Identifier: GPL-2.0-only
/* capadm monitor */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "events.h"
#include "values.h"

static const char *const type_names[] = {
	[0]				= "",
	[CAPKM_EVENT_WINDOW_PREPARED]	= "window-prepared",
	[CAPKM_EVENT_WINDOW_BEGUN]	= "window-begun",
	[CAPKM_EVENT_WINDOW_DOOMED]	= "window-doomed",
	[CAPKM_EVENT_WINDOW_SEALED]	= "window-sealed",
	[CAPKM_EVENT_WINDOW_REFUSED]	= "window-refused",
	[CAPKM_EVENT_WINDOW_ABANDONED]	= "window-abandoned",
	[CAPKM_EVENT_WINDOW_ORPHANED]	= "window-orphaned",
	[CAPKM_EVENT_CLIENT_JOINED]	= "client-joined",
	[CAPKM_EVENT_CLIENT_ENDED]	= "client-ended",
	[CAPKM_EVENT_DEVICE_FAULTED]	= "device-faulted",
	[CAPKM_EVENT_CONTEXT_RENEWED]	= "context-renewed",
	[CAPKM_EVENT_FAILURE_MINTED]	= "failure-minted",
	[CAPKM_EVENT_FAILURE_PRUNED]	= "failure-pruned",
	[CAPKM_EVENT_LEDGER_REFUSED]	= "ledger-refused",
	NULL
};

/* What somebody may want to look at. */
#define ALARMING (1u << CAPKM_EVENT_WINDOW_DOOMED | \
		  1u << CAPKM_EVENT_WINDOW_REFUSED | \
		  1u << CAPKM_EVENT_WINDOW_ABANDONED | \
		  1u << CAPKM_EVENT_WINDOW_ORPHANED | \
		  1u << CAPKM_EVENT_DEVICE_FAULTED | \
		  1u << CAPKM_EVENT_FAILURE_MINTED | \
		  1u << CAPKM_EVENT_LEDGER_REFUSED)

static const char *const bound_names[] = {
	[CAPKM_BOUND_NONE]	= "",
	[CAPKM_BOUND_STEP]	= "step",
	[CAPKM_BOUND_TOTAL]	= "total",
	[CAPKM_BOUND_DOMAIN]	= "domain",
	NULL
};

static const struct field fields[] = {
	{ CAPKM_A_EVENT_DOMAIN,		FIELD_NUMBER,	"domain" },
	{ CAPKM_A_EVENT_TYPE,		FIELD_ENUM,	"type", type_names },
	{ CAPKM_A_EVENT_NUMBER,		FIELD_NUMBER,	"number" },
	{ CAPKM_A_EVENT_TIME_NS,	FIELD_NUMBER,	"time_ns" },
	{ CAPKM_A_EVENT_SEQUENCE,	FIELD_NUMBER,	"sequence" },
	{ CAPKM_A_EVENT_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_EVENT_STREAM,		FIELD_NUMBER,	"stream" },
	{ CAPKM_A_EVENT_WINDOW,		FIELD_NUMBER,	"window" },
	{ CAPKM_A_EVENT_GRAPH,		FIELD_NUMBER,	"graph" },
	{ CAPKM_A_EVENT_FAILURE,	FIELD_NUMBER,	"failure" },
	{ CAPKM_A_EVENT_COUNT,		FIELD_NUMBER,	"count" },
	{ CAPKM_A_EVENT_KIND,		FIELD_ENUM,	"kind", kind_names },
	{ CAPKM_A_EVENT_PID,		FIELD_NUMBER,	"pid" },
	{ CAPKM_A_EVENT_DEVICE,		FIELD_UUID,	"device" },
	{ CAPKM_A_EVENT_LEDGER,		FIELD_NUMBER,	"ledger" },
	{ CAPKM_A_EVENT_AXIS,		FIELD_ENUM,	"axis", axis_names },
	{ CAPKM_A_EVENT_BOUND,		FIELD_ENUM,	"bound", bound_names },
	{}
};

/* What a line shows of an event, if it is not 0. */
static const struct {
	int attr;
	const char *name;
} details[] = {
	{ CAPKM_A_EVENT_WINDOW,		"window" },
	{ CAPKM_A_EVENT_GRAPH,		"graph" },
	{ CAPKM_A_EVENT_FAILURE,	"failure" },
	{ CAPKM_A_EVENT_LEDGER,		"ledger" },
	{ CAPKM_A_EVENT_AXIS,		"axis" },
	{ CAPKM_A_EVENT_BOUND,		"bound" },
	{ CAPKM_A_EVENT_KIND,		"kind" },
	{ CAPKM_A_EVENT_COUNT,		"torn" },
	{ CAPKM_A_EVENT_STREAM,		"stream" },
	{ CAPKM_A_EVENT_SESSION,	"session" },
	{ CAPKM_A_EVENT_PID,		"pid" },
	{ CAPKM_A_EVENT_DEVICE,		"device" },
};

struct monitor {
	const struct request *rq;
	uint64_t domain;	/* 0: all */
	uint64_t count;		/* so many are shown; 0: all */
	uint64_t shown, lost;
	bool overrun;		/* more are lost than we can count */
};

static bool enough(const struct monitor *m)
{
	return m->count && m->shown >= m->count;
}

static char *clock_text(uint64_t ns)
{
	time_t s = ns / 1000000000;
	char text[16] = "";
	struct tm tm;

	if (localtime_r(&s, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	return format("%s.%06u", text, (unsigned int)(ns % 1000000000 / 1000));
}

static char *detail_text(struct nlattr **attrs)
{
	char *all = format("%s", ""), *value, *more;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(details); i++) {
		if (!attrs[details[i].attr] ||
		    (details[i].attr != CAPKM_A_EVENT_DEVICE &&
		     !get_number(attrs[details[i].attr])))
			continue;
		value = field_text(fields, details[i].attr, attrs);
		more = format("%s  %s %.36s", all, details[i].name, value);
		free(value);
		free(all);
		all = more;
	}
	return all;
}

static void print_line(struct nlattr **attrs)
{
	uint64_t type = get_number(attrs[CAPKM_A_EVENT_TYPE]);
	bool alarming = type < 32 && (ALARMING >> type & 1);
	char *at = clock_text(get_number(attrs[CAPKM_A_EVENT_TIME_NS]));
	char *name = field_text(fields, CAPKM_A_EVENT_TYPE, attrs);
	char *rest = detail_text(attrs);
	char *line = format("%s  domain %-4" PRIu64 "  %-16s%s", at,
			    get_number(attrs[CAPKM_A_EVENT_DOMAIN]), name, rest);

	print_cut(line, alarming ? COLOUR_BAD : COLOUR_NONE);
	free(line);
	free(rest);
	free(name);
	free(at);
}

static void print_lost(const struct monitor *m, uint64_t domain, uint64_t n)
{
	struct json_object *j;

	if (!m->rq->json) {
		printf("lost: %" PRIu64 " events of domain %" PRIu64 "\n", n, domain);
		return;
	}
	j = must(json_object_new_object());
	json_object_object_add(j, "domain", json_object_new_uint64(domain));
	json_object_object_add(j, "events", json_object_new_uint64(n));
	print_json_line("lost", j);
}

static void show(struct nlattr **attrs, uint64_t lost, void *ctx)
{
	struct monitor *m = ctx;

	if (enough(m))
		return;
	m->lost += lost;
	if (lost)
		print_lost(m, get_number(attrs[CAPKM_A_EVENT_DOMAIN]), lost);
	if (!attrs[CAPKM_A_EVENT_TYPE])
		return;
	m->shown++;
	if (m->rq->json)
		print_json_line("event", record_json(fields, attrs));
	else
		print_line(attrs);
}

/* By netlink nobody says that a domain has gone: it is looked for when it is quiet. */
static const struct timespec quiet = { .tv_sec = 1 };

/* Who is stopped still shows what has come by then, for so long: more may come for ever. */
#define GRACE_NS 3000000000ull

static bool is_over(uint64_t *until, bool more)
{
	if (!stop_asked())
		return false;
	if (!*until)
		*until = monotonic_ns() + GRACE_NS;
	return !more || monotonic_ns() > *until;
}

static int watch(struct monitor *m, struct source *s)
{
	struct pollfd p = { .fd = events_fd(s), .events = POLLIN };
	const struct timespec now = {};
	sigset_t waiting;
	bool ended = false, gone = false;
	uint64_t until = 0;
	int status = EXIT_OK, n;

	stop_catch(&waiting);
	while (!status && !ended && !enough(m)) {
		/* Written in pieces while there is more, whole before we wait. */
		n = ppoll(&p, 1, &now, &waiting);
		if (is_over(&until, n > 0) || (!n && gone))
			break;
		if (!n) {
			if (fflush(stdout))
				return fail(m->rq, errno, "cannot write the output: %s",
					    strerror(errno));
			n = ppoll(&p, 1, m->domain ? &quiet : NULL, &waiting);
		}
		if (n < 0)
			continue;
		if (n) {
			status = events_read(m->rq, s, show, m, &ended);
			m->overrun |= events_overrun(s);
		} else {
			gone = !events_domain_lives(m->rq, s);
		}
	}
	return status;
}

/* For programs always, as the last object: it tells them, too, that this is the end. */
static void sum_up(const struct monitor *m)
{
	struct json_object *j;

	if (m->rq->json) {
		j = must(json_object_new_object());
		json_object_object_add(j, "events", json_object_new_uint64(m->shown));
		json_object_object_add(j, "lost", json_object_new_uint64(m->lost));
		json_object_object_add(j, "uncertain", json_object_new_boolean(m->overrun));
		print_json_line("monitor", j);
		return;
	}
	if (!m->lost && !m->overrun)
		return;
	fflush(stdout);
	fprintf(stderr, "capadm: %" PRIu64 " events were lost%s\n", m->lost,
		m->overrun ? ", and perhaps the last of some domains" : "");
}

int cmd_monitor(const struct request *rq)
{
	struct monitor m = { .rq = rq };
	struct source *s;
	int status = option_count(rq, &m.count);

	if (!status && rq->argc)
		status = find_domain(rq, rq->argv[0], &m.domain);
	if (!status)
		status = events_open(rq, m.domain, rq->options & TAKES(FAILURES), &s);
	if (status)
		return status;
	status = watch(&m, s);
	if (!status)
		sum_up(&m);
	events_close(s);
	return status;
}
