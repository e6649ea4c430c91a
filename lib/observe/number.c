// SPDX-License-Identifier: MIT
/*
 * Numbers as the records have them: the shortest decimal that is read as the same
 * number, of these the nearest. libc rounds right, so it is asked with how many digits
 * that is so.
 */
#define _GNU_SOURCE
#include "observe.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX	17

struct decimal {
	char digits[DIGITS_MAX + 1];	/* value: 0.digits times ten to the point */
	int len;
	int point;
};

/* "-d.ddde-ddd", of a positive number */
static void parse(struct decimal *d, const char *text)
{
	const char *e = strchr(text, 'e');
	const char *p;

	d->len = 0;
	for (p = text; p < e; p++)
		if (*p >= '0' && *p <= '9')
			d->digits[d->len++] = *p;
	d->digits[d->len] = '\0';
	d->point = atoi(e + 1) + 1;
}

/* The next one of as many digits. */
static void increment(struct decimal *d)
{
	int i = d->len - 1;

	while (i >= 0 && d->digits[i] == '9')
		d->digits[i--] = '0';
	if (i >= 0) {
		d->digits[i]++;
		return;
	}
	d->digits[0] = '1';
	d->point++;
}

static bool is(const struct decimal *d, double value, bool single)
{
	char text[DIGITS_MAX + 16];

	/* Without a point, which is another one in some locales. */
	snprintf(text, sizeof(text), "%se%d", d->digits, d->point - d->len);
	return single ? strtof(text, NULL) == (float)value :
			strtod(text, NULL) == value;
}

/*
 * The nearest of n digits may be read as another number although one of n digits is
 * read as this: at a power of two numbers lie closer below than above, so that is
 * the next one up.
 */
static bool with_digits(struct decimal *d, int n, double value, bool single)
{
	char text[DIGITS_MAX + 16];

	snprintf(text, sizeof(text), "%.*e", n - 1, value);
	parse(d, text);
	if (is(d, value, single))
		return true;
	increment(d);
	return is(d, value, single);
}

/* What does with some digits does with more. Nine, or seventeen, always do. */
static void shortest(struct decimal *d, double value, bool single)
{
	int low = 1, high = single ? 9 : DIGITS_MAX, n;

	while (low < high) {
		n = (low + high) / 2;
		if (with_digits(d, n, value, single))
			high = n;
		else
			low = n + 1;
	}
	with_digits(d, low, value, single);
	while (d->len > 1 && d->digits[d->len - 1] == '0')
		d->digits[--d->len] = '\0';
}

/* Plain notation while the point is within @below and @above of the first digit. */
static unsigned int print(char *text, double value, bool single, int below,
			  int above)
{
	const char *sign = signbit(value) ? "-" : "";
	const char *zeros = "0000000000000000";
	struct decimal d;
	int after;

	if (value == 0)
		return (unsigned int)snprintf(text, NUMBER_MAX, "%s0.0", sign);
	shortest(&d, fabs(value), single);
	after = d.len - d.point;
	if (d.point > 0 && d.point <= above && after <= 0)
		return (unsigned int)snprintf(text, NUMBER_MAX, "%s%s%.*s.0",
					      sign, d.digits, -after, zeros);
	if (d.point > 0 && d.point <= above)
		return (unsigned int)snprintf(text, NUMBER_MAX, "%s%.*s.%s",
					      sign, d.point, d.digits,
					      d.digits + d.point);
	if (d.point > below && d.point <= 0)
		return (unsigned int)snprintf(text, NUMBER_MAX, "%s0.%.*s%s",
					      sign, -d.point, zeros, d.digits);
	return (unsigned int)snprintf(text, NUMBER_MAX, "%s%c%s%se%d", sign,
				      d.digits[0], d.len > 1 ? "." : "",
				      d.digits + 1, d.point - 1);
}

unsigned int number_f32(char text[NUMBER_MAX], float value)
{
	return print(text, value, true, -6, 13);
}

unsigned int number_f64(char text[NUMBER_MAX], double value)
{
	return print(text, value, false, -5, 16);
}

double number_read(const char *text, bool single)
{
	/* libc's own, for which nothing is allocated. */
	const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);

	return single ? (double)strtof_l(text, NULL, c) :
			strtod_l(text, NULL, c);
}
