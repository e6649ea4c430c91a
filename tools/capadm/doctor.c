// SPDX-License-Identifier: GPL-2.0-only
/* capadm doctor: what is wrong, and the next command to run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ailing.h"
#include "doctor.h"

static const struct {
	const char *name;
	enum colour colour;
} levels[] = {
	[FINE]	= { "ok", COLOUR_GOOD },
	[NOTE]	= { "note", COLOUR_WARN },
	[WRONG]	= { "wrong", COLOUR_BAD },
};

/* "wrong  node     " */
#define INDENT 16

static void print_finding(const struct doctor *d, enum level level, const char *text,
			  const char *next)
{
	char *safe = escape(text), *command = next ? escape(next) : NULL;
	char *name = paint(levels[level].colour, format("%-5s", levels[level].name));

	printf("%s  %-9s", name, d->check);
	free(name);
	print_wrapped(safe, INDENT, 0, INDENT);
	/* Whole, so that it can be copied. */
	if (command)
		printf("%*snext: %s\n", INDENT, "", command);
	free(command);
	free(safe);
}

static struct json_object *finding_json(const struct doctor *d, enum level level,
					const char *text, const char *next)
{
	struct json_object *j = must(json_object_new_object());

	json_object_object_add(j, "check", json_text(d->check));
	json_object_object_add(j, "level", json_text(levels[level].name));
	json_object_object_add(j, "text", json_text(text));
	json_object_object_add(j, "next", next ? json_text(next) : NULL);
	return j;
}

void found(struct doctor *d, enum level level, char *text, char *next)
{
	d->wrong += level == WRONG;
	if (d->list)
		json_object_array_add(d->list, finding_json(d, level, text, next));
	else
		print_finding(d, level, text, next);
	free(text);
	free(next);
}

char *read_line(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (!f)
		return NULL;
	if (getline(&line, &size, f) < 0) {
		free(line);
		line = NULL;
	} else {
		line[strcspn(line, "\n")] = 0;
	}
	fclose(f);
	return line;
}

/* What container runtimes leave for those who look; the innermost knows best. */
static char *find_container(void)
{
	char *type = read_line("/run/systemd/container");
	const char *said = getenv("container");

	if (getenv("KUBERNETES_SERVICE_HOST")) {
		free(type);
		return format("kube");
	}
	if (type)
		return type;
	if (!access("/.dockerenv", F_OK))
		return format("docker");
	if (!access("/run/.containerenv", F_OK))
		return format("podman");
	return said ? format("%s", said) : NULL;
}

/* ---- checks ---- */

static void check_module(struct doctor *d)
{
	char *version;

	if (!d->authority.loaded && d->authority.err) {
		find_module(d);
		return;
	}
	version = read_line("/sys/module/capkm/version");
	if (!find_installed(d, version))
		found(d, FINE, format("capkm %s is loaded", version ? version : "(version unknown)"),
		      NULL);
	free(version);
}

/* Programs of this user's would not even ask the module. */
static void check_environment(struct doctor *d)
{
	const char *device = getenv("CAPKM_DEVICE");

	if (device && *device && strcmp(device, DEVICE))
		found(d, NOTE, format("CAPKM_DEVICE is %s: programs that you start do not use %s",
				      device, DEVICE),
		      format("unset CAPKM_DEVICE"));
}

/* It answers: is it well? What is not, and keeps nobody from working, is a note. */
static void check_domains(struct doctor *d)
{
	struct request quiet = *d->rq;
	struct finding *all, *f;
	struct snapshot s = {};
	char *why = NULL;

	/* It answers administrators also where the node does not open; there may be no /sys. */
	if (!d->authority.loaded && d->authority.err)
		return;
	quiet.error = &why;
	if (snapshot_take(&quiet, &s, 0, SNAPSHOT_HEALTH)) {
		/* Without the node nobody else is answered, and why there is none was said. */
		if (d->authority.err)
			free(why);
		else
			found(d, WRONG, why, format("capadm version"));
		return;
	}
	all = find_ailments(&s);
	for (f = all; f; f = f->next)
		found(d, is_degraded(f, 0) ? WRONG : NOTE, format("%s", f->text),
		      next_command(f->ailment, f->domain));
	if (!all)
		found(d, FINE, format("domains: %zu; no orphaned windows, no faulted devices, no limit near",
				      s.domains.n), NULL);
	free_findings(all);
	snapshot_free(&s);
}

static const struct {
	const char *name;
	void (*run)(struct doctor *d);
} checks[] = {
	{ "module",	check_module },
	{ "node",	check_node },
	{ "tool",	check_tool },
	{ "library",	check_library },
	{ "programs",	check_environment },
	{ "domains",	check_domains },
};

int cmd_doctor(const struct request *rq)
{
	struct doctor d = {
		.rq = rq,
		.container = find_container(),
		.list = rq->json ? must(json_object_new_array()) : NULL,
	};
	size_t i;

	uname(&d.uts);
	authority_ask(&d.authority);
	for (i = 0; i < ARRAY_SIZE(checks); i++) {
		d.check = checks[i].name;
		checks[i].run(&d);
	}
	free(d.authority.why);
	free(d.container);
	if (d.list)
		print_json("doctor", d.list);
	return d.wrong ? EXIT_FAILED : EXIT_OK;
}
