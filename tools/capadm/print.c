// SPDX-License-Identifier: GPL-2.0-only
/* Tables, JSON, errors. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capadm.h"

void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "capadm: out of memory\n");
		exit(EXIT_FAILED);
	}
	return p;
}

char *format(const char *fmt, ...)
{
	va_list args;
	char *s = NULL;
	int n;

	va_start(args, fmt);
	n = vasprintf(&s, fmt, args);
	va_end(args);
	return must(n < 0 ? NULL : s);
}

/* ---- texts ---- */

/* Bytes of the UTF-8 character at @s, 0 if it is not one. */
static size_t utf8_len(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c;
	size_t n, i;

	if (s[0] < 0x80)
		return 1;
	n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc0 || s[0] > 0xf7)
		return 0;
	c = s[0] & (0xff >> (n + 1));
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	return n;
}

/* Controls, C1 (U+0080 to U+009F) and what reorders or hides text. */
static bool is_harmful(const unsigned char *s, size_t n)
{
	if (n == 1)
		return s[0] < 0x20 || s[0] == 0x7f;
	if (n == 2)
		return s[0] == 0xc2 && s[1] < 0xa0;
	return n == 3 && s[0] == 0xe2 &&
	       ((s[1] == 0x80 && ((s[2] >= 0x8b && s[2] <= 0x8f) ||
				  (s[2] >= 0xa8 && s[2] <= 0xae))) ||
		(s[1] == 0x81 && s[2] >= 0xa0 && s[2] <= 0xaf));
}

char *escape(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char *out = must(malloc(4 * strlen(text) + 1)), *o = out;

	while (*s) {
		size_t n = utf8_len(s);

		if (n && !is_harmful(s, n) && *s != '\\') {
			memcpy(o, s, n);
			o += n;
			s += n;
			continue;
		}
		for (n = n ? n : 1; n; n--)
			o += sprintf(o, "\\x%02x", *s++);
	}
	*o = 0;
	return out;
}

struct json_object *json_text(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char *out = must(malloc(3 * strlen(text) + 1)), *o = out;
	struct json_object *j;

	while (*s) {
		size_t n = utf8_len(s);

		if (n) {
			memcpy(o, s, n);
			o += n;
			s += n;
		} else {
			memcpy(o, "\xef\xbf\xbd", 3);	/* U+FFFD */
			o += 3;
			s++;
		}
	}
	j = must(json_object_new_string_len(out, o - out));
	free(out);
	return j;
}

/* Past what paint() has put at @s. */
static const char *skip_paint(const char *s)
{
	while (*s == '\033')
		s += strcspn(s, "m") + 1;
	return s;
}

/* The first byte after @columns characters; each is taken to be one wide. */
static const char *skip_columns(const char *s, size_t columns)
{
	for (s = skip_paint(s); *s; s = skip_paint(s + 1))
		if ((*s & 0xc0) != 0x80 && !columns--)
			break;
	return s;
}

/* Columns that the text takes. */
static size_t width(const char *s)
{
	size_t n = 0;

	for (s = skip_paint(s); *s; s = skip_paint(s + 1))
		n += (*s & 0xc0) != 0x80;
	return n;
}

/* ---- colours ---- */

/* https://no-color.org */
static bool has_colours(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb");
}

char *paint(enum colour colour, char *text)
{
	static const char *const codes[] = {
		[COLOUR_GOOD] = "32", [COLOUR_WARN] = "33", [COLOUR_BAD] = "31",
		[COLOUR_TITLE] = "1",
	};
	char *painted;

	if (!colour || !*text || !has_colours())
		return text;
	painted = format("\033[%sm%s\033[0m", codes[colour], text);
	free(text);
	return painted;
}

/* ---- values ---- */

char *format_count(uint64_t n)
{
	return format("%" PRIu64, n);
}

char *format_id(uint64_t id)
{
	return id ? format_count(id) : format("-");
}

static bool exact_bytes;

void set_exact_bytes(bool on)
{
	exact_bytes = on;
}

char *format_bytes(uint64_t n)
{
	const char *unit = "KMGTPE";
	double v = n;

	if (exact_bytes)
		return format_count(n);
	if (n < 1024)
		return format("%" PRIu64 "B", n);
	for (v /= 1024; v >= 1023.95; v /= 1024)
		unit++;
	return format("%.1f%c", v, *unit);
}

char *format_age(uint64_t ns)
{
	struct timespec now;
	uint64_t at, s;

	if (!ns)
		return format("-");
	clock_gettime(CLOCK_REALTIME, &now);
	at = ns / 1000000000;
	s = (uint64_t)now.tv_sec > at ? now.tv_sec - at : 0;
	if (s < 60)
		return format("%us", (unsigned int)s);
	if (s < 3600)
		return format("%um%02us", (unsigned int)(s / 60), (unsigned int)(s % 60));
	if (s < 86400)
		return format("%uh%02um", (unsigned int)(s / 3600),
			      (unsigned int)(s / 60 % 60));
	return format("%" PRIu64 "d%02uh", s / 86400, (unsigned int)(s / 3600 % 24));
}

/* "16:40:03", if that is today, or "Nov 30" or "2025-11-30". */
static void date_text(time_t at, char *text, size_t size)
{
	time_t now = time(NULL);
	struct tm then_tm, now_tm;
	const char *how = "%Y-%m-%d";

	if (!localtime_r(&at, &then_tm) || !localtime_r(&now, &now_tm)) {
		*text = 0;
		return;
	}
	if (then_tm.tm_year == now_tm.tm_year)
		how = then_tm.tm_yday == now_tm.tm_yday ? "%H:%M:%S" : "%b %d";
	strftime(text, size, how, &then_tm);
}

char *format_time(uint64_t ns)
{
	char date[32], *age, *s;

	if (!ns)
		return format("-");
	date_text(ns / 1000000000, date, sizeof(date));
	age = format_age(ns);
	s = format("%s (%s)", date, age);
	free(age);
	return s;
}

/* ---- tables ---- */

struct row {
	struct row *next;
	char *note;		/* a note, or else cells */
	char *cells[];
};

struct table {
	const struct column *columns;
	size_t n;
	struct row *first, **last;
};

struct table *table_new(const struct column *columns, size_t n)
{
	struct table *t = must(calloc(1, sizeof(*t)));

	t->columns = columns;
	t->n = n;
	t->last = &t->first;
	return t;
}

static struct row *append(struct table *t, size_t cells)
{
	struct row *r = must(calloc(1, sizeof(*r) + cells * sizeof(*r->cells)));

	*t->last = r;
	t->last = &r->next;
	return r;
}

void table_row(struct table *t, ...)
{
	struct row *r = append(t, t->n);
	va_list args;
	size_t i;

	va_start(args, t);
	for (i = 0; i < t->n; i++)
		r->cells[i] = va_arg(args, char *);
	va_end(args);
}

void table_cells(struct table *t, char *const *cells)
{
	memcpy(append(t, t->n)->cells, cells, t->n * sizeof(*cells));
}

void table_note(struct table *t, const char *text)
{
	append(t, 0)->note = format("%s", text);
}

void print_wrapped(const char *s, int at, int first, int rest)
{
	int indent = first;

	while (*s) {
		size_t room = LINE_MAX_COLUMNS - (at > indent ? at : indent);
		const char *end = skip_columns(s, room), *space = end;

		if (*end) {
			while (space > s && *space != ' ')
				space--;
			if (space > s)
				end = space;
		}
		printf("%*s%.*s\n", indent, "", (int)(end - s), s);
		for (s = end; *s == ' '; s++)
			;
		indent = rest;
		at = 0;
	}
}

static void print_cell(const struct column *c, const char *s, size_t w, bool last)
{
	size_t n = width(s);

	if (n > w)
		printf("%.*s...%s", (int)(skip_columns(s, w - 3) - s), s,
		       *s == '\033' ? "\033[0m" : "");
	else if (c->right)
		printf("%*s%s", (int)(w - n), "", s);
	else
		printf("%s%*s", s, last ? 0 : (int)(w - n), "");
	if (!last)
		printf("  ");
}

static void print_cells(const struct table *t, const size_t *w, char *const *cells)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		print_cell(&t->columns[i], cells[i], w[i], i + 1 == t->n);
	putchar('\n');
}

static void print_titles(const struct table *t, const size_t *w)
{
	char *title;
	size_t i;

	for (i = 0; i < t->n; i++) {
		title = paint(COLOUR_TITLE, format("%s", t->columns[i].title));
		print_cell(&t->columns[i], title, w[i], i + 1 == t->n);
		free(title);
	}
	putchar('\n');
}

/* The widest of the columns that may be cut. */
static size_t *widest(const struct table *t, size_t *w)
{
	size_t i, *max = NULL;

	for (i = 0; i < t->n; i++)
		if (!t->columns[i].right && w[i] > 8 && (!max || w[i] >= *max))
			max = &w[i];
	return max;
}

static size_t *measure(const struct table *t)
{
	size_t *w = must(calloc(t->n, sizeof(*w))), *max;
	size_t i, sum = 2 * (t->n - 1);
	const struct row *r;

	for (i = 0; i < t->n; i++) {
		w[i] = width(t->columns[i].title);
		for (r = t->first; r; r = r->next)
			if (!r->note && width(r->cells[i]) > w[i])
				w[i] = width(r->cells[i]);
		sum += w[i];
	}
	for (; sum > LINE_MAX_COLUMNS && (max = widest(t, w)); sum--)
		--*max;
	return w;
}

size_t table_rows(const struct table *t)
{
	const struct row *r;
	size_t n = 0;

	for (r = t->first; r; r = r->next)
		n += !r->note;
	return n;
}

void table_print(const struct table *t)
{
	size_t *w = measure(t);
	const struct row *r;

	print_titles(t, w);
	for (r = t->first; r; r = r->next) {
		if (r->note)
			print_wrapped(r->note, 0, 4, 6);
		else
			print_cells(t, w, r->cells);
	}
	free(w);
}

void table_free(struct table *t)
{
	struct row *r, *next;
	size_t i;

	for (r = t->first; r; r = next) {
		next = r->next;
		for (i = 0; !r->note && i < t->n; i++)
			free(r->cells[i]);
		free(r->note);
		free(r);
	}
	free(t);
}

void table_print_and_free(struct table *t)
{
	table_print(t);
	table_free(t);
}

void print_title(const char *title)
{
	char *s = paint(COLOUR_TITLE, format("%s", title));

	printf("\n%s\n", s);
	free(s);
}

void print_cut(const char *line, enum colour colour)
{
	size_t n = width(line), fits = LINE_MAX_COLUMNS;
	char *s;

	if (n <= fits)
		s = format("%s", line);
	else
		s = format("%.*s...", (int)(skip_columns(line, fits - 3) - line), line);
	s = paint(colour, s);
	puts(s);
	free(s);
}

/* ---- JSON ---- */

static struct json_object *document(const char *key, struct json_object *value)
{
	struct json_object *doc = must(json_object_new_object());

	json_object_object_add(doc, "schema", json_object_new_int(JSON_SCHEMA));
	json_object_object_add(doc, key, value);
	return doc;
}

void print_json_line(const char *key, struct json_object *value)
{
	struct json_object *doc = document(key, value);

	puts(json_object_to_json_string_ext(doc, JSON_C_TO_STRING_SPACED |
						 JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(doc);
}

int print_json(const char *key, struct json_object *value)
{
	struct json_object *doc = document(key, value);

	puts(json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PRETTY |
						 JSON_C_TO_STRING_SPACED |
						 JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(doc);
	return EXIT_OK;
}

/* ---- errors ---- */

static void complain(const struct request *rq, int err, const char *fmt,
		     va_list args)
{
	struct json_object *error, *doc;
	char *message = NULL;

	if (vasprintf(&message, fmt, args) < 0)
		must(NULL);
	if (rq->error) {
		free(*rq->error);
		*rq->error = message;
		return;
	}
	if (!rq->json) {
		char *safe = escape(message);

		fprintf(stderr, "capadm: %s\n", safe);
		free(safe);
		free(message);
		return;
	}
	error = must(json_object_new_object());
	json_object_object_add(error, "message", json_text(message));
	if (err && strerrorname_np(err))
		json_object_object_add(error, "errno", json_text(strerrorname_np(err)));
	doc = document("error", error);
	fprintf(stderr, "%s\n", json_object_to_json_string_ext(
			doc, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(doc);
	free(message);
}

int fail(const struct request *rq, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	complain(rq, err, fmt, args);
	va_end(args);
	return EXIT_FAILED;
}

int usage(const struct request *rq, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	complain(rq, 0, fmt, args);
	va_end(args);
	return EXIT_USAGE;
}
