// SPDX-License-Identifier: GPL-2.0-only
/* What is needed everywhere. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct options options = { .most = 1000000 };
struct capkm_error err = CAPKM_OPTS(struct capkm_error);

void die(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(status);
}

void *allocated(void *p)
{
	if (!p)
		die(FAILED, "out of memory");
	return p;
}

void try_file(const char *path)
{
	FILE *f = path ? fopen(path, "ae") : NULL;

	if (path && (!f || fclose(f)))
		die(WRONG, "%s: %s", path, strerror(errno));
}

void write_file(const char *path, const char *text, size_t len)
{
	FILE *f = fopen(path, "we");
	const bool good = f && fwrite(text, 1, len, f) == len;

	if ((f && fclose(f)) || !good)
		die(FAILED, "%s: %s", path, strerror(errno));
}

const char *line_of(const char *path, const char *key)
{
	static char line[256];
	FILE *f = fopen(path, "re");
	const char *value = "unknown";

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key))) {
			line[strcspn(line, "\n")] = 0;
			value = line + strlen(key);
			value += strspn(value, " \t:");
			break;
		}
	if (f)
		fclose(f);
	return value;
}

void finish_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		die(FAILED, "the standard output: %s", strerror(errno));
}

void print_and_exit(const char *text)
{
	fputs(text, stdout);
	finish_output();
	exit(0);
}
