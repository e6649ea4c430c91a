// SPDX-License-Identifier: GPL-2.0-only
/* What is not well though the module answers. */
#include <inttypes.h>
#include <stdlib.h>

#include "ailing.h"

/* Takes @text over; returns where the next one goes. */
static struct finding **add(struct finding **last, const struct ailment *a, uint64_t domain,
			    char *text)
{
	struct finding *f = must(calloc(1, sizeof(*f)));

	f->ailment = a;
	f->domain = domain;
	f->text = text;
	*last = f;
	return &f->next;
}

/* "2 orphaned windows, domain 3 (inference)" */
static char *count_text(const struct ailment *a, uint64_t n, const char *domain)
{
	if (a->mask)
		return format("%s, domain %s", a->one, domain);
	return format("%" PRIu64 " %s, domain %s", n, n == 1 ? a->one : a->many, domain);
}

static struct finding **count_in_domains(const struct ailment *a, const struct snapshot *s,
					 struct finding **last)
{
	const struct record *r;

	for (r = s->domains.first; r; r = r->next) {
		uint64_t id = r->number[CAPKM_A_DOMAIN_ID], n = r->number[a->attr];
		char *domain;

		if (!(a->mask ? n & a->mask : n))
			continue;
		domain = snapshot_domain_text(s, id);
		last = add(last, a, id, count_text(a, n, domain));
		free(domain);
	}
	return last;
}

static struct finding **find_near(const struct ailment *a, const struct snapshot *s,
				  const struct records *limits, struct finding **last)
{
	const struct record *r;

	for (r = limits->first; r; r = r->next)
		if (r->near)
			last = add(last, a, r->number[CAPKM_A_LIMIT_DOMAIN], limit_text(s, r));
	return last;
}

static struct finding **domain_limits(const struct ailment *a, const struct snapshot *s,
				      struct finding **last)
{
	return find_near(a, s, &s->limits, last);
}

static struct finding **user_limits(const struct ailment *a, const struct snapshot *s,
				    struct finding **last)
{
	return find_near(a, s, &s->users, last);
}

/* They come by domain. */
static struct finding **orphaned_ledgers(const struct ailment *a, const struct snapshot *s,
					 struct finding **last)
{
	const struct record *r = s->ledgers.first;

	while (r) {
		uint64_t id = r->number[CAPKM_A_LEDGER_DOMAIN], n = 0;
		char *domain;

		for (; r && r->number[CAPKM_A_LEDGER_DOMAIN] == id; r = r->next)
			n += r->number[CAPKM_A_LEDGER_ORPHANED] != 0;
		if (!n)
			continue;
		domain = snapshot_domain_text(s, id);
		last = add(last, a, id, count_text(a, n, domain));
		free(domain);
	}
	return last;
}

const struct ailment ailments[] = {
	{
		.key = "faulted",
		.colour = COLOUR_BAD,
		.degrades = true,
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_FAULTED,
		.one = "device faulted and not renewed",
		.many = "devices faulted and not renewed",
		.why = "devices have faulted; who used them has to begin anew",
		.command = "capadm sessions --clients",
	}, {
		.key = "orphans",
		.colour = COLOUR_BAD,
		.degrades = true,
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_ORPHANS,
		.one = "orphaned window",
		.many = "orphaned windows",
		.why = "windows have lost their process; without --dry-run it closes them",
		.command = "capadm abandon --orphans --dry-run",
	}, {
		.key = "tainted",
		.colour = COLOUR_WARN,
		.option = TAKES(FAILURES),
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_FAILURES,
		.one = "failure that buffers carry",
		.many = "failures that buffers carry",
		.why = "bytes are not to be read; this shows which, and why",
		.command = "capadm failures --tree",
	}, {
		.key = "limit",
		.colour = COLOUR_WARN,
		.degrades = true,
		.find = domain_limits,
		.why = "calls are soon refused",
		.command = "capadm domain limit",
	}, {
		.key = "user-limit",
		.colour = COLOUR_WARN,
		.degrades = true,
		.find = user_limits,
		.why = "calls of a user are soon refused, in all domains",
		.command = "capadm domain limit --users",
		.no_domain = true,
	}, {
		.key = "reports",
		.colour = COLOUR_WARN,
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_REPORTS,
		.one = "failure of a process that has ended",
		.many = "failures of processes that have ended",
		.why = "processes have ended with failures nobody else has seen",
		.command = "capadm failures --reports",
	}, {
		.key = "ledgers",
		.colour = COLOUR_WARN,
		.find = orphaned_ledgers,
		.one = "ledger that no process holds",
		.many = "ledgers that no process holds",
		.why = "budgets wait for a process of the owner's to go on; ledger rm removes one",
		.command = "capadm ledgers --orphans",
	}, {
		.key = "defunct",
		.colour = COLOUR_WARN,
		.find = count_in_domains,
		.attr = CAPKM_A_DOMAIN_STATE,
		.mask = CAPKM_DOMAIN_DEFUNCT,
		.one = "nobody uses it any more",
		.why = "nobody uses it any more; it goes by itself, or by capadm domain rm",
		.command = "capadm domains",
		.no_domain = true,
	},
	{}
};

struct finding *find_ailments(const struct snapshot *s)
{
	struct finding *first = NULL, **last = &first;
	const struct ailment *a;

	for (a = ailments; a->key; a++)
		last = a->find(a, s, last);
	return first;
}

void free_findings(struct finding *f)
{
	struct finding *next;

	for (; f; f = next) {
		next = f->next;
		free(f->text);
		free(f);
	}
}

bool is_degraded(const struct finding *f, unsigned int options)
{
	return f->ailment->degrades || f->ailment->option & options;
}

char *next_command(const struct ailment *a, uint64_t domain)
{
	if (a->no_domain || !domain)
		return format("%s", a->command);
	return format("%s %" PRIu64, a->command, domain);
}
