// SPDX-License-Identifier: GPL-2.0-only
/* What is not well though the module answers: for health and for doctor. */
#include <inttypes.h>
#include <stdlib.h>

#include "ailing.h"

static void tell(const struct ailment *a, ailing_fn fn, void *ctx, uint64_t domain,
		 char *text)
{
	fn(a, domain, text, ctx);
	free(text);
}

/* "2 windows lost their process, domain 3 (inference)" */
static void count_in_domains(const struct ailment *a, const struct snapshot *s,
			     ailing_fn fn, void *ctx)
{
	const struct record *r;

	for (r = s->domains.first; r; r = r->next) {
		uint64_t id = r->number[CAPKM_A_DOMAIN_ID], n = r->number[a->attr];
		char *domain;

		if (!n)
			continue;
		domain = snapshot_domain_text(s, id);
		tell(a, fn, ctx, id, format("%" PRIu64 " %s, domain %s", n, a->what, domain));
		free(domain);
	}
}

static void find_near(const struct ailment *a, const struct snapshot *s,
		      const struct records *limits, ailing_fn fn, void *ctx)
{
	const struct record *r;

	for (r = limits->first; r; r = r->next)
		if (r->near)
			tell(a, fn, ctx, r->number[CAPKM_A_LIMIT_DOMAIN], limit_text(s, r));
}

static void limits_near(const struct ailment *a, const struct snapshot *s, ailing_fn fn,
			void *ctx)
{
	find_near(a, s, &s->limits, fn, ctx);
	find_near(a, s, &s->users, fn, ctx);
}

/* The worst first. */
static const struct ailment ailments[] = {
	{
		.key = "faulted-devices",
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_FAULTED,
		.what = "devices faulted and not renewed",
		.next = "capadm sessions --clients",
	}, {
		.key = "orphaned-windows",
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_ORPHANS,
		.what = "orphaned windows",
		.next = "capadm windows --orphans",
	}, {
		.key = "limits",
		.find = limits_near,
		.next = "capadm domain limit",
	}, {
		.key = "failures",
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_FAILURES,
		.what = "failures that buffers carry",
		.next = "capadm failures",
		.option = TAKES(FAILURES),
	},
	{}
};

void find_ailments(const struct request *rq, const struct snapshot *s, ailing_fn fn,
		   void *ctx)
{
	const struct ailment *a;

	for (a = ailments; a->key; a++)
		if (!a->option || (rq->options & a->option))
			a->find(a, s, fn, ctx);
}
