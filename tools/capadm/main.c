// SPDX-License-Identifier: GPL-2.0-only
/* The command line of capadm. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capadm.h"

static const unsigned int everywhere = TAKES(JSON) | TAKES(BYTES) | TAKES(HELP) |
				       TAKES(VERSION);

/* ---- what the tables say ---- */

bool takes(const struct command *c, enum option_id id)
{
	return (c->options | everywhere) & 1u << id;
}

/* "--pid PID" */
static char *option_text(enum option_id id)
{
	const struct option *o = &options[id];

	return format("--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
}

/* "windows [--history] [--orphans] [DOMAIN]" */
static char *synopsis(const struct command *c)
{
	char *s = format("%s", c->name), *o, *more;
	int i;

	for (i = 0; i < OPT_N; i++) {
		if (!(c->options & 1u << i))
			continue;
		o = option_text(i);
		more = format("%s [%s]", s, o);
		free(o);
		free(s);
		s = more;
	}
	more = format("%s%s%s", s, c->args ? " " : "", c->args ? c->args : "");
	free(s);
	return more;
}

int cmd_commands(const struct request *rq)
{
	const struct command *c;
	char *s;
	int i;

	(void)rq;
	for (c = commands; c->name; c++) {
		if (c->hidden)
			continue;
		printf("command\t%s\t%s\t%s\n", c->name, c->args ? c->args : "", c->help);
		for (i = 0; i < OPT_N; i++) {
			if (!takes(c, i))
				continue;
			s = option_text(i);
			printf("option\t%s\t%s\t%s\n", c->name, s, options[i].help);
			free(s);
		}
	}
	return EXIT_OK;
}

static void print_options(unsigned int set)
{
	char *s;
	int i;

	for (i = 0; i < OPT_N; i++) {
		if (!(set & 1u << i))
			continue;
		s = option_text(i);
		printf("  %-20s  %s\n", s, options[i].help);
		free(s);
	}
}

static void print_help(void)
{
	const struct command *c;

	printf("Usage: capadm [--json] [--bytes] [COMMAND] [ARGUMENT...]\n\n");
	for (c = commands; c->name; c++)
		if (!c->hidden)
			printf("  %-20s  %s%s\n", c->name, c->help,
			       c == commands ? " (the default)" : "");
	printf("\n");
	print_options(everywhere);
	printf("\nSee capadm(8).\n");
}

static void print_command_help(const struct command *c)
{
	char *s = synopsis(c);

	printf("Usage: capadm %s\n\n%s.\n\n", s, c->help);
	print_options(c->options | everywhere);
	if (c->more)
		printf("\n%s\n", c->more);
	free(s);
}

/* ---- the words ---- */

struct line {
	int argc;		/* words */
	char **argv;
};

/* The words that @name takes of those at @argv, 0 if it is not there. */
static int words_of(const char *name, int argc, char **argv)
{
	int n = 0;

	while (n < argc) {
		size_t len = strlen(argv[n]);

		if (strncmp(name, argv[n++], len))
			return 0;
		if (!name[len])
			return n;
		if (!len || name[len] != ' ')
			return 0;
		name += len + 1;
	}
	return 0;
}

/* The commands that begin with the word @group, NULL if there are none. */
static char *members_of(const char *group)
{
	size_t len = strlen(group);
	const struct command *c;
	char *s = NULL;

	for (c = commands; c->name; c++) {
		char *more;

		if (strncmp(c->name, group, len) || c->name[len] != ' ')
			continue;
		more = format("%s%s%s", s ? s : "", s ? ", " : "", c->name);
		free(s);
		s = more;
	}
	return s;
}

static int unknown_command(const struct request *rq, const char *name)
{
	char *members = members_of(name);
	int status;

	if (!members)
		return usage(rq, "unknown command %s; see capadm --help", name);
	status = usage(rq, "%s is a group of commands; right is one of: %s", name, members);
	free(members);
	return status;
}

/* Leaves the command's arguments in @rq; NULL if there is no such command. */
static const struct command *find_command(const struct line *l, struct request *rq)
{
	const struct command *c = commands;
	int n;

	if (!l->argc && rq->options & TAKES(VERSION)) {
		while (c->run != cmd_version)
			c++;
		return c;
	}
	for (; l->argc && c->name; c++) {
		n = words_of(c->name, l->argc, l->argv);
		if (!n)
			continue;
		rq->argc = l->argc - n;
		rq->argv = l->argv + n;
		return c;
	}
	return l->argc ? NULL : c;
}

/* ---- the options ---- */

/* @a is "name" or "name=value". */
static int find_option(const char *a)
{
	size_t len = strcspn(a, "=");
	int i;

	for (i = 0; i < OPT_N; i++)
		if (strlen(options[i].name) == len && !strncmp(options[i].name, a, len))
			return i;
	return -1;
}

/* The option at @argv[*i]; a value may be the next word. */
static int take_option(struct request *rq, int argc, char **argv, int *i)
{
	const char *a = argv[*i], *value = strchr(a, '=');
	int id = find_option(strcmp(a, "-h") ? a + 2 : "help");

	if ((a[1] != '-' && strcmp(a, "-h")) || id < 0)
		return usage(rq, "unknown option %s; see capadm --help", a);
	if (rq->options & 1u << id && options[id].value)
		return usage(rq, "--%s is given twice; give it once", options[id].name);
	rq->options |= 1u << id;
	if (!options[id].value)
		return value ? usage(rq, "--%s takes no value", options[id].name) : EXIT_OK;
	if (!value && *i + 1 == argc)
		return usage(rq, "--%s needs a value; right is: --%s %s", options[id].name,
			     options[id].name, options[id].value);
	rq->values[id] = value ? value + 1 : argv[++*i];
	return EXIT_OK;
}

/* Options may stand anywhere before "--". The words are all found, whatever is wrong. */
static int split(struct line *l, struct request *rq, int argc, char **argv)
{
	int i, status = EXIT_OK;

	l->argv = argv;
	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--"))
			break;
		if (argv[i][0] != '-' || !argv[i][1])
			l->argv[l->argc++] = argv[i];
		else if (!status)
			status = take_option(rq, argc, argv, &i);
	}
	for (i++; i < argc; i++)
		l->argv[l->argc++] = argv[i];
	return status;
}

/* So that an error in what stands before --json is an object too. */
static bool wants_json(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--json"))
			return true;
	return false;
}

static int check(const struct command *c, const struct request *rq)
{
	char *s = synopsis(c);
	int i, status = EXIT_OK;

	for (i = 0; i < OPT_N && !status; i++)
		if (rq->options & 1u << i && !takes(c, i))
			status = usage(rq, "%s has no option --%s; right is: capadm %s", c->name,
				       options[i].name, s);
	if (!status && (rq->argc < c->min_args || rq->argc > c->max_args))
		status = usage(rq, "wrong number of arguments; right is: capadm %s", s);
	free(s);
	return status;
}

static int run(const struct line *l, const struct command *c, const struct request *rq)
{
	int status;

	set_exact_bytes(rq->options & TAKES(BYTES));
	if (rq->options & TAKES(HELP)) {
		if (l->argc)
			print_command_help(c);
		else
			print_help();
		return EXIT_OK;
	}
	status = check(c, rq);
	if (status)
		return c->trouble ? c->trouble : status;
	return c->run(rq);
}

/*
 * A file of ours that got the number of a standard stream which the caller had closed would
 * get what is printed: the module, say. What is written to these fails.
 */
static void occupy_streams(void)
{
	int fd;

	do
		fd = open("/", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

int main(int argc, char **argv)
{
	struct request rq = { .json = wants_json(argc, argv) };
	const struct command *c;
	struct line l = {};
	int status;

	occupy_streams();
	setlocale(LC_CTYPE, "");
	status = split(&l, &rq, argc, argv);
	c = find_command(&l, &rq);
	if (c && c->trouble)
		set_status_of_trouble(c->trouble);
	if (!status && !c)
		status = unknown_command(&rq, l.argv[0]);
	if (status)
		return c && c->trouble ? c->trouble : status;
	status = run(&l, c, &rq);
	if (!status && (fflush(stdout) || ferror(stdout))) {
		status = fail(&rq, errno, "cannot write the output: %s", strerror(errno));
		return c->trouble ? c->trouble : status;
	}
	return status;
}
