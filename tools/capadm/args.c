// SPDX-License-Identifier: GPL-2.0-only
/* What words of the command line mean. Each tells what would be right. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "capadm.h"

/* Decimal, or hexadecimal after 0x; nothing before and nothing behind it. */
static bool number(const char *arg, uint64_t *v, char **end)
{
	bool hex = arg[0] == '0' && (arg[1] | 0x20) == 'x';

	errno = 0;
	*v = strtoull(arg, end, hex ? 16 : 10);
	return *arg >= '0' && *arg <= '9' && !errno;
}

int parse_id(const struct request *rq, const char *what, const char *arg, uint64_t *id)
{
	char *end;

	*id = 0;
	/* An id is never hexadecimal: one way to write it, as it is printed. */
	if (arg[strspn(arg, "0123456789")] || !number(arg, id, &end) || !*id)
		return usage(rq, "%s is not the id of a %s; an id is a number from 1 up", arg,
			     what);
	return EXIT_OK;
}

int parse_number(const struct request *rq, const char *what, const char *arg, uint64_t max,
		 uint64_t *v)
{
	char *end;

	if (!number(arg, v, &end) || *end || *v > max)
		return usage(rq, "%s is no %s; right is a number from 0 to %" PRIu64, arg, what,
			     max);
	return EXIT_OK;
}

int parse_size(const struct request *rq, const char *what, const char *arg, uint64_t *v)
{
	static const char units[] = "KMGTPE";
	const char *unit;
	char *end;

	if (!number(arg, v, &end))
		goto bad;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		unsigned int shift = 10 * (unit - units + 1);

		if (*v > UINT64_MAX >> shift)
			goto bad;
		*v <<= shift;
		end++;
	}
	if (!*end)
		return EXIT_OK;
bad:
	return usage(rq, "%s is no %s; right is a number of bytes, as 4096, 0x1000 or 4K", arg,
		     what);
}

int parse_uuid(const struct request *rq, const char *arg, uint8_t uuid[16])
{
	static const char pattern[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	const char *s = arg, *p;
	unsigned int digits = 0, byte;

	if (!strncmp(s, "GPU-", 4))	/* as nvidia-smi has it */
		s += 4;
	for (p = pattern; *p; p++, s++) {
		if (*p == '-' ? *s != '-' : !*s || !strchr("0123456789abcdefABCDEF", *s))
			break;
		if (*p == '-')
			continue;
		byte = *s <= '9' ? *s - '0' : (*s | 0x20) - 'a' + 10;
		uuid[digits / 2] = digits % 2 ? uuid[digits / 2] << 4 | byte : byte;
		digits++;
	}
	if (*p || *s)
		return usage(rq, "%s is no UUID of a device; right is %s, as nvidia-smi -L shows it",
			     arg, pattern);
	return EXIT_OK;
}

/* "DOMAIN/WINDOW" */
static char *member_form(const char *what)
{
	char *form = format("DOMAIN/%s", what), *s;

	for (s = strchr(form, '/'); *s; s++)
		*s = toupper((unsigned char)*s);
	return form;
}

int parse_member(const struct request *rq, const char *what, const char *arg, uint64_t *domain,
		 uint64_t *id)
{
	const char *slash = strrchr(arg, '/');
	char *name;
	int status;

	if (!slash) {
		name = member_form(what);
		status = usage(rq, "%s is no %s; right is %s, as capadm %ss shows it", arg, what,
			       name, what);
		free(name);
		return status;
	}
	status = parse_id(rq, what, slash + 1, id);
	if (status)
		return status;
	name = format("%.*s", (int)(slash - arg), arg);
	status = find_domain(rq, name, domain);
	free(name);
	return status;
}
