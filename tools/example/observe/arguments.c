// SPDX-License-Identifier: MIT
/* The command line. */
#include "generate.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

static const char usage[] =
"observe-generate --plan FILE [option...]      generates, and observes that by a plan\n"
"observe-generate --resume --checkpoint FILE [option...]   goes on after being killed\n"
"observe-generate --validate --plan FILE       says what a plan may cost, and runs nothing\n"
"observe-generate --discovery                  says what can be observed, as JSON\n"
"\n"
"  --prompt TEXT       what the model goes on from, up to 512 bytes\n"
"  --predictions N     how many bytes it makes of it, 1 to 512; 12\n"
"  --seed N            its weights, which come from a random generator; 1\n"
"  --records FILE      a step is a line of JSON, appended; - is the standard output,\n"
"                      and the rest is then on standard error\n"
"  --chart FILE        use of the budget, as SVG, rewritten after each step\n"
"  --checkpoint FILE   rewritten after each step, removed at the end; needs the module\n"
"  --domain NAME       where the ledger lives with --checkpoint; observe. It is made\n"
"                      if it is not there, and stays\n"
"  --fail-at N         a function of the model fails at prediction N, which is made again\n"
"  --pause-at N        stops itself (SIGSTOP) in the middle of prediction N\n"
"\n"
"Predictions are numbered from 0, the prefill. The authority is $CAPKM_DEVICE or, if that\n"
"is not set, /dev/capkm; with embedded: nothing outlives the process, so there is no\n"
"--checkpoint. --resume has the plan, the prompt, the number of predictions and the domain\n"
"from the checkpoint; --records, if they were in a file, is to be that file.\n"
"\n"
"Exit status: 0 done; 1 the authority, the budget, work or a file failed; 2 the command\n"
"line, or a file that it names, is wrong. A plan whose budget may not do: 1.\n";

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || value < least || value > most)
		die(WRONG, "--%s wants a number from %llu to %llu, not '%s'", name,
		    (unsigned long long)least, (unsigned long long)most, text);
	return value;
}

/* Those that a checkpoint answers, and those without which there is nothing to do. */
static void fit_together(struct arguments *a, bool other_command)
{
	if (a->resume + other_command > 1)
		die(WRONG, "--resume, --validate and --discovery exclude each other");
	if (other_command && (a->records || a->chart || a->checkpoint))
		die(WRONG, "nothing is run: there are no --records, --chart or --checkpoint");
	if (a->resume) {
		if (!a->checkpoint)
			die(WRONG, "--resume goes on from what? give --checkpoint FILE");
		if (a->plan || a->prompt || a->predictions || a->domain)
			die(WRONG, "--resume has --plan, --prompt, --predictions and --domain from the checkpoint");
		return;
	}
	if (a->domain && !a->checkpoint)
		die(WRONG, "--domain is for --checkpoint");
	if (a->command != DISCOVERY && !a->plan)
		die(WRONG, "give a plan, --plan FILE; see --help");
	if (!a->prompt)
		a->prompt = "Which bytes?";
	if (!*a->prompt || strlen(a->prompt) > PROMPT_MAX)
		die(WRONG, "--prompt is to have 1 to %u bytes, not %zu", PROMPT_MAX,
		    strlen(a->prompt));
	if (!a->predictions)
		a->predictions = 12;
	if (!a->domain)
		a->domain = "observe";
	if (!*a->domain || strlen(a->domain) > CAPKM_NAME_MAX)
		die(WRONG, "--domain is to have 1 to %d bytes, not %zu", CAPKM_NAME_MAX,
		    strlen(a->domain));
}

static void set_command(struct arguments *a, enum command command)
{
	if (a->command != GENERATE && a->command != command)
		die(WRONG, "--validate and --discovery exclude each other");
	a->command = command;
}

_Noreturn static void print_usage(void)
{
	fputs(usage, stdout);
	if (fflush(stdout))
		die(FAILED, "the standard output: %s", strerror(errno));
	exit(0);
}

void arguments_read(struct arguments *a, int argc, char **argv)
{
	static const struct option known[] = {
		{ "plan", required_argument, NULL, 'p' },
		{ "prompt", required_argument, NULL, 't' },
		{ "predictions", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "records", required_argument, NULL, 'r' },
		{ "chart", required_argument, NULL, 'c' },
		{ "checkpoint", required_argument, NULL, 'k' },
		{ "domain", required_argument, NULL, 'o' },
		{ "resume", no_argument, NULL, 'u' },
		{ "discovery", no_argument, NULL, 'd' },
		{ "validate", no_argument, NULL, 'v' },
		{ "fail-at", required_argument, NULL, 'f' },
		{ "pause-at", required_argument, NULL, 'z' },
		{ "help", no_argument, NULL, 'h' },
		{ },
	};
	const uint64_t last = PREDICTIONS_MAX - 1;
	int option;

	*a = (struct arguments){ .seed = 1, .fail_at = NEVER, .pause_at = NEVER };
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (option) {
		case 'p': a->plan = optarg; break;
		case 't': a->prompt = optarg; break;
		case 'n': a->predictions = number("predictions", optarg, 1, PREDICTIONS_MAX); break;
		case 's': a->seed = number("seed", optarg, 0, UINT64_MAX); break;
		case 'r': a->records = optarg; break;
		case 'c': a->chart = optarg; break;
		case 'k': a->checkpoint = optarg; break;
		case 'o': a->domain = optarg; break;
		case 'u': a->resume = true; break;
		case 'd': set_command(a, DISCOVERY); break;
		case 'v': set_command(a, VALIDATE); break;
		case 'f': a->fail_at = number("fail-at", optarg, 0, last); break;
		case 'z': a->pause_at = number("pause-at", optarg, 0, last); break;
		case 'h': print_usage();
		default: exit(WRONG);
		}
	if (optind != argc)
		die(WRONG, "'%s' is not an option; see --help", argv[optind]);
	fit_together(a, a->command != GENERATE);
}
