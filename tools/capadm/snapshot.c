// SPDX-License-Identifier: GPL-2.0-only
/* All that status, top, health, metrics and doctor judge by, of one moment. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot.h"

/* What each dump gives. */
static const struct source {
	size_t records;		/* where they go, in the snapshot */
	unsigned int what;	/* SNAPSHOT_*, or 0: always */
	int cmd;
	int domain_attr;	/* 0: not of one domain */
	int flag_attr;
	int text_attr;
} sources[] = {
	{
		.records = offsetof(struct snapshot, domains),
		.cmd = CAPKM_CMD_DOMAIN_GET,
		.domain_attr = CAPKM_A_DOMAIN_ID,
		.text_attr = CAPKM_A_DOMAIN_NAME,
	}, {
		.records = offsetof(struct snapshot, sessions),
		.what = SNAPSHOT_SESSIONS,
		.cmd = CAPKM_CMD_SESSION_GET,
		.domain_attr = CAPKM_A_SESSION_DOMAIN,
		.text_attr = CAPKM_A_SESSION_COMM,
	}, {
		.records = offsetof(struct snapshot, limits),
		.what = SNAPSHOT_LIMITS,
		.cmd = CAPKM_CMD_LIMIT_GET,
		.domain_attr = CAPKM_A_LIMIT_DOMAIN,
	}, {
		.records = offsetof(struct snapshot, users),
		.what = SNAPSHOT_LIMITS,
		.cmd = CAPKM_CMD_LIMIT_GET,
		.flag_attr = CAPKM_A_LIMIT_USERS,
	}, {
		.records = offsetof(struct snapshot, ledgers),
		.what = SNAPSHOT_LEDGERS,
		.cmd = CAPKM_CMD_LEDGER_GET,
		.domain_attr = CAPKM_A_LEDGER_DOMAIN,
		.text_attr = CAPKM_A_LEDGER_LABEL,
	},
};

struct fill {
	const struct source *source;
	struct records *records;
};

/* Of a limit that a newer module has, its number. */
static char *text_of(const struct source *source, struct nlattr **attrs)
{
	if (source->cmd == CAPKM_CMD_LIMIT_GET)
		return field_text(limit_fields, CAPKM_A_LIMIT_LIMIT, attrs);
	return must(strdup(get_text(attrs[source->text_attr])));
}

static void add(struct nlattr **attrs, void *ctx)
{
	const struct fill *f = ctx;
	struct record *r = must(calloc(1, sizeof(*r)));
	int i, len;

	for (i = 1; i <= ATTR_MAX; i++) {
		len = attrs[i] ? nla_len(attrs[i]) : 0;
		r->has[i] = attrs[i];
		if (len == sizeof(uint32_t) || len == sizeof(uint64_t))
			r->number[i] = get_number(attrs[i]);
	}
	len = NLA_HDRLEN + nla_len(attrs[0]);
	r->all = must(malloc(len));
	memcpy(r->all, attrs[0], len);
	r->text = text_of(f->source, attrs);
	r->near = f->source->cmd == CAPKM_CMD_LIMIT_GET && limit_is_near(attrs);
	*f->records->last = r;
	f->records->last = &r->next;
	f->records->n++;
}

static struct records *records_of(struct snapshot *s, const struct source *source)
{
	return (void *)((char *)s + source->records);
}

static int dump(const struct request *rq, struct snapshot *s, const struct source *source,
		uint64_t domain)
{
	struct fill f = { source, records_of(s, source) };
	struct query q = { .cmd = source->cmd };
	char *what = domain ? format("read domain %" PRIu64, domain) :
			      format("read the domains");
	int status;

	if (domain)
		ask_u64(&q, source->domain_attr, domain);
	if (source->flag_attr)
		ask_flag(&q, source->flag_attr);
	status = kernel_dump(rq, &q, what, add, &f);
	free(what);
	return status;
}

int snapshot_take(const struct request *rq, struct snapshot *s, uint64_t domain,
		  unsigned int what)
{
	int status = EXIT_OK;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sources); i++) {
		struct records *records = records_of(s, &sources[i]);

		*records = (struct records){ .last = &records->first };
		if (!status && !(sources[i].what & ~what) &&
		    (!domain || sources[i].domain_attr))
			status = dump(rq, s, &sources[i], domain);
	}
	if (status)
		snapshot_free(s);
	return status;
}

void snapshot_free(struct snapshot *s)
{
	struct record *r, *next;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sources); i++) {
		for (r = records_of(s, &sources[i])->first; r; r = next) {
			next = r->next;
			free(r->text);
			free(r->all);
			free(r);
		}
		*records_of(s, &sources[i]) = (struct records){};
	}
}

const struct record *snapshot_domain(const struct snapshot *s, uint64_t id)
{
	const struct record *r;

	for (r = s->domains.first; r; r = r->next)
		if (r->number[CAPKM_A_DOMAIN_ID] == id)
			return r;
	return NULL;
}

char *snapshot_domain_text(const struct snapshot *s, uint64_t id)
{
	const struct record *r = snapshot_domain(s, id);

	return r && *r->text ? format("%" PRIu64 " (%s)", id, r->text) : format_count(id);
}

bool snapshot_attrs(const struct record *r, struct nlattr **attrs)
{
	if (nla_parse_nested(attrs, ATTR_MAX, r->all, NULL) < 0)
		return false;
	attrs[0] = r->all;
	return true;
}

/* ---- limits ---- */

char *limit_text(const struct snapshot *s, const struct record *r)
{
	bool of_user = !r->has[CAPKM_A_LIMIT_DOMAIN];
	char *who = of_user ? format_count(r->number[CAPKM_A_LIMIT_UID]) :
			      snapshot_domain_text(s, r->number[CAPKM_A_LIMIT_DOMAIN]);
	char *text = format("%" PRIu64 " of %" PRIu64 " %s, %s %s",
			    r->number[CAPKM_A_LIMIT_USED], r->number[CAPKM_A_LIMIT_VALUE],
			    r->text,
			    of_user ? "user" : "domain", who);

	free(who);
	return text;
}

/* ---- who answers ---- */

bool module_loaded(void)
{
	return !access("/sys/module/capkm", F_OK);
}

void authority_ask(struct authority *a)
{
	*a = (struct authority){ .loaded = module_loaded() };
	a->err = ask_info(&a->info);
	if (!a->err)
		return;
	if (!a->loaded)
		a->why = format("the capkm module is not loaded");
	else
		a->why = format("%s: %s", DEVICE, strerror(a->err));
}
