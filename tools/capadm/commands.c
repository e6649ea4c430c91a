// SPDX-License-Identifier: GPL-2.0-only
/*
 * The commands and options of capadm. The command line is parsed by these
 * tables, and --help, the completions and the checks of the man page come from
 * them: what is not here does not exist.
 */
#include "capadm.h"

/* The first is the default. */
const struct command commands[] = {
	{
		.name = "domains",
		.help = "list the domains that you may read",
		.run = cmd_domains,
	}, {
		.name = "windows",
		.args = "[DOMAIN]",
		.help = "list capture windows",
		.run = cmd_windows,
		.options = TAKES(HISTORY) | TAKES(ORPHANS),
		.max_args = 1,
	}, {
		.name = "abandon",
		.args = "[DOMAIN/WINDOW | DOMAIN SLOT | DOMAIN]",
		.help = "close windows for good; what they recorded is tainted",
		.run = cmd_abandon,
		.options = TAKES(ORPHANS) | TAKES(PID) | TAKES(DRY_RUN),
		.max_args = 2,
	}, {
		.name = "failures",
		.args = "[DOMAIN]",
		.help = "list the failures that buffers carry",
		.run = cmd_failures,
		.options = TAKES(REPORTS),
		.max_args = 1,
	}, {
		.name = "buffers",
		.args = "[DOMAIN]",
		.help = "list buffers",
		.run = cmd_buffers,
		.max_args = 1,
	}, {
		.name = "version",
		.help = "print the versions of capadm and of the module",
		.run = cmd_version,
	}, {
		.name = "commands",
		.help = "print this table, tab-separated",
		.run = cmd_commands,
		.hidden = true,
	},
	{}
};

const struct option options[OPT_N] = {
	[OPT_HISTORY]	= { "history", NULL, "the closed windows that the domain remembers" },
	[OPT_ORPHANS]	= { "orphans", NULL, "only windows whose process has ended" },
	[OPT_REPORTS]	= { "reports", NULL,
			    "the failures kept as text after their process ended" },
	[OPT_PID]	= { "pid", "PID", "only windows of this process" },
	[OPT_DRY_RUN]	= { "dry-run", NULL, "say what would be done, and do nothing" },
	[OPT_JSON]	= { "json", NULL, "one JSON object in place of text" },
	[OPT_BYTES]	= { "bytes", NULL, "sizes as numbers of bytes" },
	[OPT_HELP]	= { "help", NULL, "this text; after a command, what that command takes" },
	[OPT_VERSION]	= { "version", NULL, "the same as the command version" },
};
