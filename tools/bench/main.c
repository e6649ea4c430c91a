// SPDX-License-Identifier: GPL-2.0-only
/* The command line. */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
"capkm-bench [option...]      measures what capkm costs on this machine\n"
"\n"
"  --transport NAME   embedded (the engine in this process), kernel (/dev/capkm), or all;\n"
"                     without it all that there are\n"
"  --only GROUP       only this group, may be given again; --list has them\n"
"  --list             the groups and what they measure\n"
"  --quick            sizes up to 1 000, and fewer samples: to see that it works\n"
"  --json FILE        the results, as JSON\n"
"  --svg FILE         cost against size, as SVG\n"
"  --help, --version\n"
"\n"
"Costs are medians, and ratios to an ioctl that does nothing, in the same run. At the end\n"
"stands for each goal whether it holds, is missed, or was not measured here.\n"
"\n"
"Exit status: 0 measured, also if a goal is missed; 1 something failed; 2 the command line\n"
"is wrong.\n";

static const struct group {
	const char *name, *about;
	void (*measure)(void);
} groups[] = {
	{ "base", "a null syscall, a null ioctl, a mutex, a load, atomic operations", measure_base },
	{ "scopes", "scopes over 1 to 16 buffers; a check, a skip, failing and rewriting",
	  measure_scopes },
	{ "ranges", "partial writes into a buffer with 10 to 1 000 000 failed ranges",
	  measure_ranges },
	{ "buffers", "scopes and checks of 1 000 to 1 000 000 buffers", measure_buffers },
	{ "failures", "failing, rewriting, skipping with 1 000 to 1 000 000 failures",
	  measure_failures },
	{ "release", "the end of a session with 1 000 to 1 000 000 failed buffers",
	  measure_release },
	{ "replay", "begin and end of a replay with 10 to 2 000 claims", measure_replay },
	{ "contention", "1 to 8 threads, and processes, in one domain", measure_contention },
	{ "memory", "bytes for a buffer, a range, a failure", measure_memory },
};

struct arguments {
	const char *json, *svg;
	bool only[ARRAY_SIZE(groups)], some;
};

_Noreturn static void list(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		printf("%-12s%s\n", groups[i].name, groups[i].about);
	print_and_exit("");
}

static void choose_group(struct arguments *a, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (!strcmp(groups[i].name, name)) {
			a->only[i] = a->some = true;
			return;
		}
	die(WRONG, "--only: there is no group '%s'; --list has them", name);
}

static void choose_transport(const char *name)
{
	options.embedded = !strcmp(name, "embedded") || !strcmp(name, "all");
	options.kernel = !strcmp(name, "kernel") || !strcmp(name, "all");
	if (!options.embedded && !options.kernel)
		die(WRONG, "--transport wants embedded, kernel or all, not '%s'", name);
}

static void read_arguments(struct arguments *a, int argc, char **argv)
{
	static const struct option known[] = {
		{ "transport", required_argument, NULL, 't' },
		{ "only", required_argument, NULL, 'o' },
		{ "list", no_argument, NULL, 'l' },
		{ "quick", no_argument, NULL, 'q' },
		{ "json", required_argument, NULL, 'j' },
		{ "svg", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (option) {
		case 't': choose_transport(optarg); break;
		case 'o': choose_group(a, optarg); break;
		case 'l': list();
		case 'q': options.quick = true; options.most = 1000; break;
		case 'j': a->json = optarg; break;
		case 's': a->svg = optarg; break;
		case 'h': print_and_exit(usage);
		case 'v': print_and_exit("capkm-bench " CAPKM_VERSION "\n");
		default: exit(WRONG);
		}
	if (optind != argc)
		die(WRONG, "'%s' is not an option; see --help", argv[optind]);
	if (!options.embedded && !options.kernel) {
		options.embedded = true;
		options.kernel = !access("/dev/capkm", R_OK | W_OK);
	}
}

int main(int argc, char **argv)
{
	struct arguments a = { };

	read_arguments(&a, argc, argv);
	try_file(a.json);
	try_file(a.svg);
	measure_init();
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (!a.some || a.only[i]) {
			fprintf(stderr, "measuring: %s\n", groups[i].name);
			groups[i].measure();
		}
	table_print(stdout);
	finish_output();
	if (a.json)
		json_write(a.json);
	if (a.svg)
		chart_write(a.svg);
	return 0;
}
