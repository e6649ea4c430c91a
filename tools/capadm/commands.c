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
		.name = "status",
		.help = "say what ails, and what to do about it",
		.run = cmd_status,
	}, {
		.name = "domains",
		.help = "list the domains that you may read",
		.run = cmd_domains,
	}, {
		.name = "sessions",
		.args = "[DOMAIN]",
		.help = "list who is attached",
		.run = cmd_sessions,
		.options = TAKES(CLIENTS),
		.max_args = 1,
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
		.args = "[DOMAIN [FAILURE]]",
		.help = "list the failures that buffers carry",
		.run = cmd_failures,
		.options = TAKES(TREE) | TAKES(DOT) | TAKES(REPORTS),
		.max_args = 2,
	}, {
		.name = "buffers",
		.args = "[DOMAIN]",
		.help = "list buffers",
		.run = cmd_buffers,
		.max_args = 1,
	}, {
		.name = "taint",
		.args = "DOMAIN BUFFER [OFFSET LENGTH]",
		.help = "show which bytes of a buffer are not to be read, and why",
		.run = cmd_taint,
		.min_args = 2,
		.max_args = 4,
	}, {
		.name = "graphs",
		.args = "[DOMAIN]",
		.help = "list graphs",
		.run = cmd_graphs,
		.max_args = 1,
	}, {
		.name = "ledgers",
		.args = "[DOMAIN]",
		.help = "list budgets of observation, and what is used of them",
		.run = cmd_ledgers,
		.options = TAKES(ORPHANS),
		.max_args = 1,
	}, {
		.name = "ledger rm",
		.args = "DOMAIN/LEDGER",
		.help = "remove a ledger that no process holds",
		.run = cmd_ledger_rm,
		.min_args = 1,
		.max_args = 1,
	}, {
		.name = "device-fault",
		.args = "UUID",
		.help = "declare a device lost, for all that use it",
		.run = cmd_device_fault,
		.options = TAKES(CODE) | TAKES(TEXT),
		.min_args = 1,
		.max_args = 1,
	}, {
		.name = "domain create",
		.args = "NAME",
		.help = "create a domain that lives until it is removed",
		.run = cmd_domain_create,
		.options = TAKES(MODE) | TAKES(UID) | TAKES(GID),
		.min_args = 1,
		.max_args = 1,
	}, {
		.name = "domain rm",
		.args = "DOMAIN",
		.help = "remove a domain",
		.run = cmd_domain_rm,
		.options = TAKES(FORCE),
		.min_args = 1,
		.max_args = 1,
	}, {
		.name = "domain limit",
		.args = "[DOMAIN [LIMIT [VALUE]]]",
		.help = "show what may be in a domain, and is; or set that",
		.run = cmd_domain_limit,
		.options = TAKES(DEFAULTS) | TAKES(USERS),
		.max_args = 3,
	}, {
		.name = "monitor",
		.args = "[DOMAIN]",
		.help = "print events while they happen",
		.run = cmd_monitor,
		.options = TAKES(FAILURES) | TAKES(COUNT),
		.max_args = 1,
	}, {
		.name = "top",
		.help = "show again and again what sessions do",
		.run = cmd_top,
		.options = TAKES(INTERVAL) | TAKES(COUNT),
	}, {
		.name = "health",
		.args = "[DOMAIN]",
		.help = "say whether all is well, with an exit status for probes",
		.more = "The exit status is 0: healthy, 1: degraded, 2: no authority, "
			"3: the command line is wrong,\nor the answer cannot be written.",
		.run = cmd_health,
		.options = TAKES(FAILURES),
		.max_args = 1,
		.trouble = 3,
	}, {
		.name = "metrics",
		.help = "print the numbers as OpenMetrics",
		.run = cmd_metrics,
		.options = TAKES(TEXTFILE),
	}, {
		.name = "doctor",
		.help = "find out what is wrong, and what to do about it",
		.more = "The exit status is 1 if something is wrong.",
		.run = cmd_doctor,
	}, {
		.name = "version",
		.help = "print the versions of capadm and of the module",
		.run = cmd_version,
	}, {
		.name = "completion",
		.args = "bash|zsh|fish",
		.help = "print what completes command lines in that shell",
		.run = cmd_completion,
		.min_args = 1,
		.max_args = 1,
		.hidden = true,
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
	[OPT_ORPHANS]	= { "orphans", NULL, "only those whose process has ended" },
	[OPT_REPORTS]	= { "reports", NULL,
			    "the failures kept as text after their process ended" },
	[OPT_TREE]	= { "tree", NULL, "each with what it has spoilt, and by which way" },
	[OPT_DOT]	= { "dot", NULL, "the same, to be drawn by Graphviz" },
	[OPT_CLIENTS]	= { "clients", NULL, "the processes in the sessions" },
	[OPT_MODE]	= { "mode", "MODE", "permission bits, octal; 0600 if not given" },
	[OPT_UID]	= { "uid", "USER", "its owner; you if not given" },
	[OPT_GID]	= { "gid", "GROUP", "its group; yours if not given" },
	[OPT_FORCE]	= { "force", NULL, "also while it is used; calls of its users fail" },
	[OPT_DEFAULTS]	= { "defaults", NULL, "what a new domain gets" },
	[OPT_USERS]	= { "users", NULL, "what users may have, and have" },
	[OPT_CODE]	= { "code", "NUMBER", "code of the failures" },
	[OPT_TEXT]	= { "text", "TEXT", "reason of the failures" },
	[OPT_PID]	= { "pid", "PID", "only windows of this process" },
	[OPT_DRY_RUN]	= { "dry-run", NULL, "say what would be done, and do nothing" },
	[OPT_FAILURES]	= { "failures", NULL, "failures of single buffers count, too" },
	[OPT_COUNT]	= { "count", "N", "stop after so many" },
	[OPT_INTERVAL]	= { "interval", "SECONDS", "time between two, 2 if it is not given" },
	[OPT_TEXTFILE]	= { "textfile", "PATH",
			    "into a file, for the textfile collector of node_exporter" },
	[OPT_JSON]	= { "json", NULL, "one JSON object in place of text" },
	[OPT_BYTES]	= { "bytes", NULL, "sizes as numbers of bytes" },
	[OPT_HELP]	= { "help", NULL, "this text; after a command, what that command takes" },
	[OPT_VERSION]	= { "version", NULL, "the same as the command version" },
};
