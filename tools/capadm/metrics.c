// SPDX-License-Identifier: GPL-2.0-only
/*
 * capadm metrics: the numbers of health and use, as OpenMetrics 1.0 or, into the file that
 * node_exporter's textfile collector reads, as the older text format of Prometheus.
 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ailing.h"

enum type { GAUGE, COUNTER, INFO };
enum unit { NONE, SECONDS };	/* SECONDS: from nanoseconds */

static const struct metric {
	const char *name;	/* without capkm_, and what the type puts behind it */
	enum type type;
	int attr;
	const char *help;
	enum unit unit;
} domain_metrics[] = {
	{ "domain_sessions", GAUGE, CAPKM_A_DOMAIN_SESSIONS, "Attached sessions." },
	{ "domain_clients", GAUGE, CAPKM_A_DOMAIN_CLIENTS, "Living clients of its sessions." },
	{ "domain_buffers", GAUGE, CAPKM_A_DOMAIN_BUFFERS, "Buffers." },
	{ "domain_streams", GAUGE, CAPKM_A_DOMAIN_STREAMS, "Streams that were handed out." },
	{ "domain_scopes", GAUGE, CAPKM_A_DOMAIN_SCOPES, "Open scopes." },
	{ "domain_windows", GAUGE, CAPKM_A_DOMAIN_WINDOWS,
	  "Windows that are open, closing or orphaned." },
	{ "domain_orphaned_windows", GAUGE, CAPKM_A_DOMAIN_ORPHANS,
	  "Windows whose process has ended." },
	{ "domain_graphs", GAUGE, CAPKM_A_DOMAIN_GRAPHS, "Graphs." },
	{ "domain_failures", GAUGE, CAPKM_A_DOMAIN_FAILURES, "Failures that buffers carry." },
	{ "domain_ranges", GAUGE, CAPKM_A_DOMAIN_CLAIMS, "Ranges kept for all buffers." },
	{ "domain_unconfirmed_ranges", GAUGE, CAPKM_A_DOMAIN_UNCONFIRMED,
	  "Ranges that are not confirmed." },
	{ "domain_ledgers", GAUGE, CAPKM_A_DOMAIN_LEDGERS, "Ledgers." },
	{ "domain_faulted_devices", GAUGE, CAPKM_A_DOMAIN_FAULTED,
	  "Contexts on devices that have faulted and are not renewed." },
	{ "domain_reports", GAUGE, CAPKM_A_DOMAIN_REPORTS,
	  "Failures kept as text because their process ended." },
	{ "domain_history_windows", GAUGE, CAPKM_A_DOMAIN_HISTORY,
	  "Closed windows that are remembered." },
	{ "domain_sealed_windows", COUNTER, CAPKM_A_DOMAIN_SEALED,
	  "Windows that became a graph or a part of one." },
	{ "domain_given_up_windows", COUNTER, CAPKM_A_DOMAIN_GIVEN_UP,
	  "Windows that were prepared and became no graph." },
	{ "domain_changes", COUNTER, CAPKM_A_DOMAIN_SEQUENCE, "Changes of the domain." },
	{ "domain_created_timestamp", GAUGE, CAPKM_A_DOMAIN_CREATED_NS,
	  "When it was created.", SECONDS },
};

static const struct metric limit_metrics[] = {
	{ "domain_limit", GAUGE, CAPKM_A_LIMIT_VALUE, "So many may be." },
	{ "domain_limit_used", GAUGE, CAPKM_A_LIMIT_USED,
	  "So many are; in the session or client that has most." },
};

static const struct metric user_metrics[] = {
	{ "user_limit", GAUGE, CAPKM_A_LIMIT_VALUE, "So many a user may have." },
	{ "user_limit_used", GAUGE, CAPKM_A_LIMIT_USED, "So many the user has." },
};

static const struct metric session_metrics[] = {
	{ "session_scopes", COUNTER, CAPKM_A_SESSION_ENTERED, "Scopes and replays, entered." },
	{ "session_skipped", COUNTER, CAPKM_A_SESSION_SKIPPED, "Work that was skipped." },
	{ "session_failed", COUNTER, CAPKM_A_SESSION_FAILED, "Scopes and replays that failed." },
	{ "session_unread_events", GAUGE, CAPKM_A_SESSION_EVENTS_UNREAD,
	  "Events that the session has not read." },
	{ "session_lost_events", COUNTER, CAPKM_A_SESSION_EVENTS_LOST,
	  "Events that were overwritten before the session read them." },
};

static const struct metric ledger_metrics[] = {
	{ "ledger_steps", COUNTER, CAPKM_A_LEDGER_STEPS, "Steps that have begun." },
	{ "ledger_reservations", COUNTER, CAPKM_A_LEDGER_RESERVED,
	  "Reservations that were charged." },
	{ "ledger_refusals", COUNTER, CAPKM_A_LEDGER_REFUSED,
	  "Reservations that did not fit, and were refused or skipped." },
	{ "ledger_orphaned", GAUGE, CAPKM_A_LEDGER_ORPHANED,
	  "Whether no living process holds it." },
};

/* Of each axis; what is none has no sample. */
static const struct metric usage_metrics[] = {
	{ "ledger_used", GAUGE, CAPKM_A_LEDGER_TOTAL, "What it was charged with in all." },
	{ "ledger_limit", GAUGE, CAPKM_A_LEDGER_CUMULATIVE,
	  "So much it may be charged with in all." },
};

static const struct metric degraded = {
	"degraded", GAUGE, 0, "Whether capadm health says so."
};
static const struct metric ailing = {
	"ailments", GAUGE, 0, "What capadm status finds, by HEALTH."
};
static const struct metric up = { "up", GAUGE, 0, "Whether the module answers." };
static const struct metric build = { "build", INFO, 0, "The module that answers." };
static const struct metric domain_info = { "domain", INFO, 0, "Name and owner of a domain." };
static const struct metric ledger_info = { "ledger", INFO, 0, "Label of a ledger." };

/* OLD, of Prometheus, has no info, unit or end. */
enum dialect { OPENMETRICS, OLD, JSON };

struct output {
	enum dialect dialect;
	FILE *f;
	struct json_object *list;	/* JSON: of samples */
};

/* Their values as they are: the format escapes them. */
struct labels {
	size_t n;
	const char *key[4];
	char *value[4];
};

static void add_label(struct labels *l, const char *key, char *value)
{
	l->key[l->n] = key;
	l->value[l->n++] = value;
}

static void free_labels(struct labels *l)
{
	while (l->n)
		free(l->value[--l->n]);
}

/* ---- one family ---- */

static const char *const type_names[] = {
	[GAUGE] = "gauge", [COUNTER] = "counter", [INFO] = "info",
};

static const char *unit_name(const struct metric *m)
{
	return m->unit == SECONDS ? "_seconds" : "";
}

static const char *suffix(const struct metric *m)
{
	return m->type == COUNTER ? "_total" : m->type == INFO ? "_info" : "";
}

/* The older format has no suffixes of a family: its name is that of the sample. */
static void begin_family(const struct output *o, const struct metric *m)
{
	bool old = o->dialect == OLD;
	char *name;

	if (o->dialect == JSON)
		return;
	name = format("capkm_%s%s%s", m->name, unit_name(m), old ? suffix(m) : "");
	fprintf(o->f, "# HELP %s %s\n# TYPE %s %s\n", name, m->help, name,
		type_names[old && m->type == INFO ? GAUGE : m->type]);
	if (m->unit == SECONDS && !old)
		fprintf(o->f, "# UNIT %s seconds\n", name);
	free(name);
}

/* The format has escapes for backslash and quote; somebody may look at it on a terminal. */
static void print_value(FILE *f, const char *text)
{
	char *visible = make_visible(text);
	const char *s;

	for (s = visible; *s; s++)
		fprintf(f, "%s%c", strchr("\\\"", *s) ? "\\" : "", *s);
	free(visible);
}

static void print_labels(FILE *f, const struct labels *l)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		fprintf(f, "%c%s=\"", i ? ',' : '{', l->key[i]);
		print_value(f, l->value[i]);
		putc('"', f);
	}
	if (l->n)
		putc('}', f);
}

static char *number_text(const struct metric *m, uint64_t value)
{
	return m->unit == SECONDS ? format("%" PRIu64 ".%09" PRIu64, value / 1000000000,
					   value % 1000000000) :
				    format_count(value);
}

static struct json_object *sample_json(const char *name, const struct metric *m,
				       const struct labels *l, uint64_t value)
{
	struct json_object *j = must(json_object_new_object());
	struct json_object *labels = must(json_object_new_object());
	size_t i;

	for (i = 0; i < l->n; i++)
		json_object_object_add(labels, l->key[i], json_text(l->value[i]));
	json_object_object_add(j, "name", json_text(name));
	json_object_object_add(j, "type", json_text(type_names[m->type]));
	json_object_object_add(j, "labels", labels);
	json_object_object_add(j, "value", m->unit == SECONDS ?
			       json_object_new_double(value / 1e9) :
			       json_object_new_uint64(value));
	return j;
}

/* Frees the labels. */
static void print_sample(const struct output *o, const struct metric *m, struct labels *l,
			 uint64_t value)
{
	char *name = format("capkm_%s%s%s", m->name, unit_name(m), suffix(m));
	char *number = number_text(m, value);

	if (o->dialect == JSON) {
		json_object_array_add(o->list, sample_json(name, m, l, value));
	} else {
		fputs(name, o->f);
		print_labels(o->f, l);
		fprintf(o->f, " %s\n", number);
	}
	free_labels(l);
	free(number);
	free(name);
}

typedef void (*labels_fn)(struct labels *l, const struct record *r);

/* One family after the other: their samples must not be mixed. */
static void print_families(const struct output *o, const struct metric *metrics, size_t n,
			   const struct records *records, labels_fn labels_of)
{
	const struct record *r;
	size_t i;

	for (i = 0; i < n; i++) {
		begin_family(o, &metrics[i]);
		for (r = records->first; r; r = r->next) {
			struct labels l = {};

			if (!r->has[metrics[i].attr])
				continue;
			labels_of(&l, r);
			print_sample(o, &metrics[i], &l, r->number[metrics[i].attr]);
		}
	}
}

/* ---- labels ---- */

static void add_number(struct labels *l, const char *key, const struct record *r, int attr)
{
	add_label(l, key, format_count(r->number[attr]));
}

static void domain_labels(struct labels *l, const struct record *r)
{
	add_number(l, "domain", r, CAPKM_A_DOMAIN_ID);
}

static void session_labels(struct labels *l, const struct record *r)
{
	add_number(l, "domain", r, CAPKM_A_SESSION_DOMAIN);
	add_number(l, "session", r, CAPKM_A_SESSION_ID);
	add_number(l, "pid", r, CAPKM_A_SESSION_PID);
}

static void add_limit(struct labels *l, const struct record *r)
{
	add_label(l, "limit", format("%s", r->text));
}

static void limit_labels(struct labels *l, const struct record *r)
{
	add_number(l, "domain", r, CAPKM_A_LIMIT_DOMAIN);
	add_limit(l, r);
}

static void user_labels(struct labels *l, const struct record *r)
{
	add_number(l, "uid", r, CAPKM_A_LIMIT_UID);
	add_limit(l, r);
}

static void ledger_labels(struct labels *l, const struct record *r)
{
	add_number(l, "domain", r, CAPKM_A_LEDGER_DOMAIN);
	add_number(l, "ledger", r, CAPKM_A_LEDGER_ID);
}

static void domain_info_labels(struct labels *l, const struct record *r)
{
	uint64_t state = r->number[CAPKM_A_DOMAIN_STATE];

	add_number(l, "domain", r, CAPKM_A_DOMAIN_ID);
	add_label(l, "name", format("%s", r->text));
	add_number(l, "uid", r, CAPKM_A_DOMAIN_UID);
	add_label(l, "state", format("%s", state & CAPKM_DOMAIN_DEFUNCT ? "defunct" :
				     state & CAPKM_DOMAIN_PERSISTENT ? "persistent" : "live"));
}

/* ---- all of them ---- */

static void print_domain_infos(const struct output *o, const struct snapshot *s)
{
	const struct record *r;

	begin_family(o, &domain_info);
	for (r = s->domains.first; r; r = r->next) {
		struct labels l = {};

		domain_info_labels(&l, r);
		print_sample(o, &domain_info, &l, 1);
	}
}

static void print_ledger_infos(const struct output *o, const struct snapshot *s)
{
	const struct record *r;

	begin_family(o, &ledger_info);
	for (r = s->ledgers.first; r; r = r->next) {
		struct labels l = {};

		ledger_labels(&l, r);
		add_label(&l, "label", format("%s", r->text));
		print_sample(o, &ledger_info, &l, 1);
	}
}

static void print_axes(const struct output *o, const struct metric *m, const struct record *r)
{
	uint64_t usage[CAPKM_AXIS_ENCODED + 1];
	struct nlattr *attrs[ATTR_MAX + 1];
	unsigned int axis;

	if (!snapshot_attrs(r, attrs) || !get_usage(attrs[m->attr], usage))
		return;
	for (axis = CAPKM_AXIS_CAPTURES; axis <= CAPKM_AXIS_ENCODED; axis++) {
		struct labels l = {};

		if (m->attr == CAPKM_A_LEDGER_CUMULATIVE && usage[axis] == UINT64_MAX)
			continue;
		ledger_labels(&l, r);
		add_label(&l, "axis", format("%s", axis_names[axis]));
		print_sample(o, m, &l, usage[axis]);
	}
}

static void print_usage(const struct output *o, const struct snapshot *s)
{
	const struct record *r;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(usage_metrics); i++) {
		begin_family(o, &usage_metrics[i]);
		for (r = s->ledgers.first; r; r = r->next)
			print_axes(o, &usage_metrics[i], r);
	}
}

static void print_build(const struct output *o, const struct capkm_info *info)
{
	struct labels l = {};

	add_label(&l, "version", format("%s", (const char *)info->out_version));
	add_label(&l, "abi", format_count(info->out_abi_version));
	add_label(&l, "capadm", format("%s", CAPKM_VERSION));
	begin_family(o, &build);
	print_sample(o, &build, &l, 1);
}

static void print_up(const struct output *o, bool is_up)
{
	struct labels none = {};

	begin_family(o, &up);
	print_sample(o, &up, &none, is_up);
}

static void print_ailments(const struct output *o, const struct snapshot *s)
{
	struct finding *all = find_ailments(s), *f;
	const struct ailment *a;
	struct labels l = {};
	bool bad = false;
	uint64_t n;

	for (f = all; f; f = f->next)
		bad |= is_degraded(f, 0);
	begin_family(o, &degraded);
	print_sample(o, &degraded, &l, bad);
	begin_family(o, &ailing);
	for (a = ailments; a->key; a++) {
		for (n = 0, f = all; f; f = f->next)
			n += f->ailment == a;
		add_label(&l, "health", format("%s", a->key));
		print_sample(o, &ailing, &l, n);
	}
	free_findings(all);
}

static void print_snapshot(const struct output *o, const struct snapshot *s)
{
	print_ailments(o, s);
	print_domain_infos(o, s);
	print_families(o, domain_metrics, ARRAY_SIZE(domain_metrics), &s->domains,
		       domain_labels);
	print_families(o, session_metrics, ARRAY_SIZE(session_metrics), &s->sessions,
		       session_labels);
	print_ledger_infos(o, s);
	print_families(o, ledger_metrics, ARRAY_SIZE(ledger_metrics), &s->ledgers,
		       ledger_labels);
	print_usage(o, s);
	print_families(o, limit_metrics, ARRAY_SIZE(limit_metrics), &s->limits, limit_labels);
	print_families(o, user_metrics, ARRAY_SIZE(user_metrics), &s->users, user_labels);
}

/* No authority is an answer, too. */
static int print_all(const struct request *rq, const struct output *o)
{
	struct snapshot s = {};
	struct authority a;
	int status = EXIT_OK;

	authority_ask(&a);
	if (!a.why)
		status = snapshot_take(rq, &s, 0, SNAPSHOT_SESSIONS | SNAPSHOT_HEALTH);
	if (status)
		return status;
	print_up(o, !a.why);
	if (!a.why) {
		print_build(o, &a.info);
		print_snapshot(o, &s);
	}
	if (o->dialect == OPENMETRICS)
		fprintf(o->f, "# EOF\n");
	snapshot_free(&s);
	free(a.why);
	return EXIT_OK;
}

/* ---- the file ---- */

static int write_out(const struct request *rq, const char *path, int fd)
{
	struct output o = { OLD, fdopen(fd, "w") };
	mode_t mask = umask(0);
	int status, err = 0;

	umask(mask);
	must(o.f);
	status = print_all(rq, &o);
	if (fchmod(fd, 0666 & ~mask) || fflush(o.f) || ferror(o.f) || fsync(fd))
		err = errno;
	if (fclose(o.f) && !err)
		err = errno;
	if (!status && err)
		status = fail(rq, err, "cannot write %s: %s", path, strerror(err));
	return status;
}

/* The collector reads *.prom only, and the whole of the old or of the new one. */
static int write_textfile(const struct request *rq, const char *path)
{
	const char *suffix = strrchr(path, '.');
	char *copy, *temporary;
	int fd, status;

	/* A rename would also take the place of /dev/null. */
	if (!suffix || strcmp(suffix, ".prom"))
		return usage(rq, "%s is read by no collector; the name of a textfile ends in .prom",
			     path);
	copy = format("%s", path);
	temporary = format("%s/.capadm.XXXXXX", dirname(copy));
	fd = mkstemp(temporary);
	if (fd < 0) {
		status = fail(rq, errno, "cannot make a file beside %s: %s", path,
			      strerror(errno));
	} else {
		status = write_out(rq, path, fd);
		if (!status && rename(temporary, path))
			status = fail(rq, errno, "cannot replace %s: %s", path,
				      strerror(errno));
		if (status)
			unlink(temporary);
	}
	free(temporary);
	free(copy);
	return status;
}

int cmd_metrics(const struct request *rq)
{
	struct output o = { rq->json ? JSON : OPENMETRICS, stdout };
	int status;

	if (rq->values[OPT_TEXTFILE])
		return rq->json ? usage(rq, "a textfile has a format of its own; leave out --json") :
				  write_textfile(rq, rq->values[OPT_TEXTFILE]);
	if (rq->json)
		o.list = must(json_object_new_array());
	status = print_all(rq, &o);
	if (!status && rq->json)
		return print_json("metrics", o.list);
	json_object_put(o.list);
	return status;
}
