// SPDX-License-Identifier: GPL-2.0-only
/* The results for people. */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static const char *const verdict_names[] = {
	[HOLDS] = "holds", [MISSED] = "missed", [NOT_MEASURED] = "not measured here",
};

const char *grouped(uint64_t n)
{
	static char texts[4][32];
	static unsigned int next;
	char *text = texts[next++ % ARRAY_SIZE(texts)], *to = text, digits[24];
	const int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ' ';
		*to++ = digits[i];
	}
	*to = 0;
	return text;
}

/* Four digits or all that there are before the point. */
static const char *number(double v, char text[32])
{
	if (v >= 1000)
		snprintf(text, 32, "%s", grouped(v + .5));
	else
		snprintf(text, 32, "%.*f", v >= 100 ? 1 : v >= 10 ? 2 : 3, v);
	return text;
}

static const char *unit_name(enum unit unit)
{
	return unit == NANOSECONDS ? "ns" : unit == BYTES ? "bytes" : "calls";
}

static void print_machine(FILE *f)
{
	char date[32];
	const time_t t = time(NULL);
	struct utsname u;

	uname(&u);
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&t));
	fprintf(f, "%s %s, %s\n", program_invocation_short_name, capkm_version(), date);
	fprintf(f, "machine: %s, %ld processors, %s %s; load at the beginning %.2f\n",
		line_of("/proc/cpuinfo", "model name"), sysconf(_SC_NPROCESSORS_ONLN), u.sysname,
		u.release, load_at_begin());
	if (device)
		fprintf(f, "device: %s\n", device);
	fprintf(f, "null ioctl: %s\n", null_ioctl_is());
	fprintf(f, "at least %u samples of a batch, %u of what is done once; a ratio is to the null\n"
		"ioctl of the same rounds; the yardstick is its ratio times that\n",
		LEAST_SAMPLES, LEAST_EVENTS);
}

static void print_heading(FILE *f, const char *group)
{
	fprintf(f, "\n%-26s %-15s %9s %13s %5s %10s %21s %8s %10s\n", group, "through", "size",
		"median", "", "ratio", "quartiles", "samples", "yardstick");
}

static void print_result(FILE *f, const struct result *r)
{
	char median[32], ratio[32] = "", low[32], high[32], quartiles[72], yardstick[32] = "";

	snprintf(quartiles, sizeof(quartiles), "%s..%s", number(r->low, low),
		 number(r->high, high));
	if (r->unit == NANOSECONDS && r->null_ioctl) {
		number(r->median / r->null_ioctl, ratio);
		if (r->yardstick)
			number(r->yardstick / YARDSTICK_NULL_IOCTL * r->null_ioctl, yardstick);
	}
	fprintf(f, "%-26s %-15s %9s %13s %-5s %10s %21s %8u %10s\n", r->operation, r->through,
		r->size ? grouped(r->size) : "", number(r->median, median), unit_name(r->unit),
		ratio, quartiles, r->samples, yardstick);
}

static void print_goals(FILE *f)
{
	const struct goal *goals;
	const size_t len = judge(&goals);
	char value[32], bound[32];

	fprintf(f, "\n%-50s %-15s %10s %10s %-12s\n", "goals", "through", "is", "at most", "");
	for (size_t i = 0; i < len; i++) {
		const struct goal *g = &goals[i];

		fprintf(f, "%-50s %-15s %10s %10s %-12s %s\n", g->text, g->through,
			g->verdict == NOT_MEASURED ? "" : number(g->value, value),
			number(g->bound, bound), g->unit, verdict_names[g->verdict]);
	}
}

void table_print(FILE *f)
{
	const char *group = "";

	print_machine(f);
	for (size_t i = 0; i < results.len; i++) {
		if (strcmp(group, results.at[i].group))
			print_heading(f, results.at[i].group);
		group = results.at[i].group;
		print_result(f, &results.at[i]);
	}
	print_goals(f);
}
