// SPDX-License-Identifier: GPL-2.0-only
/* capadm health: an exit status for probes, and one line that says why. */
#include <stdio.h>
#include <stdlib.h>

#include "ailing.h"

/*
 * What probes of monitoring systems answer with, of which 3 is: it could not be found out.
 * So that no wrong command line is taken for the state of the machine, that is it, too.
 */
enum {
	HEALTHY		= 0,
	DEGRADED	= 1,
	NO_AUTHORITY	= 2,
	UNKNOWN		= 3,
};

static const char *const status_names[] = {
	[HEALTHY]	= "healthy",
	[DEGRADED]	= "degraded",
	[NO_AUTHORITY]	= "no authority",
};

struct health {
	int status;
	unsigned int reasons;
	char *first;		/* not escaped */
	struct json_object *list;
};

static void add_reason(struct health *h, const char *check, uint64_t domain,
		       const char *text)
{
	struct json_object *j = must(json_object_new_object());

	if (!h->reasons++)
		h->first = format("%s", text);
	json_object_object_add(j, "check", json_text(check));
	json_object_object_add(j, "domain",
			       domain ? json_object_new_uint64(domain) : NULL);
	json_object_object_add(j, "text", json_text(text));
	json_object_array_add(h->list, j);
}

static void add_ailments(struct health *h, const struct snapshot *s, unsigned int options)
{
	struct finding *all = find_ailments(s), *f;

	for (f = all; f; f = f->next) {
		if (!is_degraded(f, options))
			continue;
		h->status = DEGRADED;
		add_reason(h, f->ailment->key, f->domain, f->text);
	}
	free_findings(all);
}

static void find_reason(struct health *h, int status, const char *check, const char *why)
{
	h->status = status;
	add_reason(h, check, 0, why);
}

/* Into @why what is wrong with the domain, or with the authority if there is none. */
static int look(const struct request *rq, struct snapshot *s, char **why)
{
	struct request quiet = *rq;
	uint64_t domain = 0;
	int status = EXIT_OK;

	quiet.error = why;
	if (rq->argc)
		status = find_domain(&quiet, rq->argv[0], &domain);
	return status ? status : snapshot_take(&quiet, s, domain, SNAPSHOT_HEALTH);
}

/* EXIT_OK, or UNKNOWN if the question was wrong. */
static int examine(const struct request *rq, struct health *h)
{
	struct snapshot s = {};
	struct authority a;
	char *why = NULL;
	int status;

	authority_ask(&a);
	if (a.why) {
		find_reason(h, NO_AUTHORITY, "authority", a.why);
		free(a.why);
		return EXIT_OK;
	}
	status = look(rq, &s, &why);
	if (status == EXIT_USAGE) {
		usage(rq, "%s", why);
		return UNKNOWN;
	}
	if (status) {
		find_reason(h, rq->argc ? DEGRADED : NO_AUTHORITY,
			    rq->argc ? "domain" : "authority", why);
		free(why);
		return EXIT_OK;
	}
	add_ailments(h, &s, rq->options);
	if (h->status == HEALTHY)
		h->first = format("domains: %zu", s.domains.n);
	snapshot_free(&s);
	return EXIT_OK;
}

static void print(const struct request *rq, struct health *h)
{
	struct json_object *j;
	char *line, *safe;

	if (rq->json) {
		j = must(json_object_new_object());
		json_object_object_add(j, "status", json_text(status_names[h->status]));
		json_object_object_add(j, "reasons", json_object_get(h->list));
		print_json("health", j);
		return;
	}
	line = h->reasons > 1 ? format("%s, %u reasons: %s", status_names[h->status],
				       h->reasons, h->first) :
				format("%s: %s", status_names[h->status], h->first);
	safe = escape(line);
	print_cut(safe, h->status == HEALTHY ? COLOUR_GOOD : COLOUR_BAD);
	free(safe);
	free(line);
}

int cmd_health(const struct request *rq)
{
	struct health h = { .list = must(json_object_new_array()) };
	int status = examine(rq, &h);

	if (!status) {
		print(rq, &h);
		status = h.status;
	}
	json_object_put(h.list);
	free(h.first);
	return status;
}
