// SPDX-License-Identifier: GPL-2.0-only
/* The command line of capadm. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capadm.h"

static const struct command {
	const char *name;
	const char *args;
	const char *help;
	int (*run)(const struct request *rq);
	unsigned int options;		/* enum option that it takes */
	int min_args, max_args;
} commands[] = {
	{
		.name = "domains",
		.args = "",
		.help = "list the domains that you may read (the default)",
		.run = cmd_domains,
	}, {
		.name = "windows",
		.args = "[--history] [--orphans] [DOMAIN]",
		.help = "list capture windows",
		.run = cmd_windows,
		.options = OPT_HISTORY | OPT_ORPHANS,
		.max_args = 1,
	}, {
		.name = "failures",
		.args = "[--reports] [DOMAIN]",
		.help = "list the failures that buffers carry",
		.run = cmd_failures,
		.options = OPT_REPORTS,
		.max_args = 1,
	}, {
		.name = "buffers",
		.args = "[DOMAIN]",
		.help = "list buffers",
		.run = cmd_buffers,
		.max_args = 1,
	}, {
		.name = "abandon",
		.args = "DOMAIN WINDOW",
		.help = "close a window for good; what it recorded is tainted",
		.run = cmd_abandon,
		.min_args = 2,
		.max_args = 2,
	}, {
		.name = "version",
		.args = "",
		.help = "print the versions of capadm and of the module",
		.run = cmd_version,
	},
};

static const struct {
	const char *name;
	enum option option;
	const char *help;
} options[] = {
	{ "history", OPT_HISTORY, "the closed windows that the domain remembers" },
	{ "orphans", OPT_ORPHANS, "only windows whose process has ended" },
	{ "reports", OPT_REPORTS, "the failures kept as text after their process ended" },
};

static void print_help(const struct command *c)
{
	size_t i;

	if (c) {
		printf("Usage: capadm %s%s%s [--json]\n\n%s.\n\n", c->name,
		       *c->args ? " " : "", c->args, c->help);
	} else {
		printf("Usage: capadm [--json] [COMMAND] [ARGUMENT...]\n\n");
		for (i = 0; i < ARRAY_SIZE(commands); i++)
			printf("  %-9s %-33s %s\n", commands[i].name,
			       commands[i].args, commands[i].help);
		printf("\nDOMAIN is an id or a name.\n\n");
	}
	for (i = 0; i < ARRAY_SIZE(options); i++)
		if (c && (c->options & options[i].option))
			printf("  --%-9s %s\n", options[i].name, options[i].help);
	printf("  --json      one JSON object in place of a table\n"
	       "  --help      this text%s\n",
	       c ? "" : "; after a command, what that command takes");
}

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static const struct command *find_taker(unsigned int option)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i].options & option)
			return &commands[i];
	return NULL;
}

static unsigned int find_option(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(options); i++)
		if (!strcmp(options[i].name, name))
			return options[i].option;
	return 0;
}

struct line {
	const struct command *command;
	bool help, version;
	unsigned int given;	/* enum option */
	const char *unknown;
	int argc;		/* words; the first is the command */
	char **argv;
};

/* Options may stand anywhere before "--". */
static void split(struct line *l, struct request *rq, int argc, char **argv)
{
	bool only_words = false;
	int i;

	l->argv = argv;
	for (i = 1; i < argc; i++) {
		const char *a = argv[i];

		if (only_words || a[0] != '-' || !a[1])
			l->argv[l->argc++] = argv[i];
		else if (!strcmp(a, "--"))
			only_words = true;
		else if (!strcmp(a, "--json"))
			rq->json = true;
		else if (!strcmp(a, "--help") || !strcmp(a, "-h"))
			l->help = true;
		else if (!strcmp(a, "--version"))
			l->version = true;
		else if (!strncmp(a, "--", 2) && find_option(a + 2))
			l->given |= find_option(a + 2);
		else if (!l->unknown)
			l->unknown = a;
	}
}

static int check(const struct line *l, const struct request *rq)
{
	const struct command *c = l->command;
	unsigned int extra = l->given & ~c->options;

	if (l->unknown)
		return usage(rq, "unknown option %s; see capadm %s --help",
			     l->unknown, c->name);
	if (extra)
		return usage(rq, "%s has no such option; it is one of: capadm %s %s",
			     c->name, find_taker(extra)->name,
			     find_taker(extra)->args);
	if (rq->argc < c->min_args || rq->argc > c->max_args)
		return usage(rq, "wrong number of arguments; right is: capadm %s%s%s",
			     c->name, *c->args ? " " : "", c->args);
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	struct request rq = {};
	struct line l = {};
	const char *name;
	int status;

	split(&l, &rq, argc, argv);
	name = l.argc ? l.argv[0] : l.version ? "version" : "domains";
	l.command = find_command(name);
	if (!l.command)
		return usage(&rq, "unknown command %s; see capadm --help", name);
	if (l.help) {
		print_help(l.argc ? l.command : NULL);
		return EXIT_OK;
	}

	rq.options = l.given;
	rq.argc = l.argc ? l.argc - 1 : 0;
	rq.argv = l.argv + 1;
	status = check(&l, &rq);
	if (!status)
		status = l.command->run(&rq);
	if (!status && (fflush(stdout) || ferror(stdout)))
		status = fail(&rq, errno, "cannot write the output");
	return status;
}
