// SPDX-License-Identifier: GPL-2.0-only
/* Tables, JSON, errors. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "capadm.h"
#include "screen.h"

static int status_of_trouble = EXIT_FAILED;

void set_status_of_trouble(int status)
{
	status_of_trouble = status;
}

void *must(void *p)
{
	if (!p) {
		screen_close();
		fprintf(stderr, "capadm: out of memory\n");
		exit(status_of_trouble);
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

/* The UTF-8 character at @s, of *@n bytes; *@n 0 if it is not one. */
static uint32_t get_utf8(const unsigned char *s, size_t *n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2, i;
	uint32_t c;

	*n = 0;
	if (len > 1 && (s[0] < 0xc0 || s[0] > 0xf7))
		return 0;
	c = len > 1 ? s[0] & (0xff >> (len + 1)) : s[0];
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*n = len;
	return c;
}

/* What a terminal obeys, and what reorders text, ends a line or is not seen. */
static bool is_harmful(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x34f, 0x34f },
		{ 0x61c, 0x61c }, { 0x115f, 0x1160 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
		{ 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

/* A terminal that expects other bytes may take a part of a character for a command. */
static bool can_show(uint32_t c)
{
	return c < 0x7f ? c >= 0x20 : !strcmp(nl_langinfo(CODESET), "UTF-8") && !is_harmful(c);
}

char *escape(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char *out = must(malloc(4 * strlen(text) + 1)), *o = out;

	while (*s) {
		size_t n;
		uint32_t c = get_utf8(s, &n);

		if (n && can_show(c) && c != '\\') {
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

/* @text with what is not UTF-8 as U+FFFD; @harmful: that, too. */
static char *clean(const char *text, bool harmful)
{
	const unsigned char *s = (const unsigned char *)text;
	char *out = must(malloc(3 * strlen(text) + 1)), *o = out;

	while (*s) {
		size_t n;
		uint32_t c = get_utf8(s, &n);

		if (n && !(harmful && is_harmful(c))) {
			memcpy(o, s, n);
			o += n;
		} else {
			memcpy(o, "\xef\xbf\xbd", 3);
			o += 3;
		}
		s += n ? n : 1;
	}
	*o = 0;
	return out;
}

char *make_visible(const char *text)
{
	return clean(text, true);
}

struct json_object *json_text(const char *text)
{
	char *s = clean(text, false);
	struct json_object *j = must(json_object_new_string(s));

	free(s);
	return j;
}

/* Past what paint() has put at @s. */
static const char *skip_paint(const char *s)
{
	while (*s == '\033')
		s += strcspn(s, "m") + 1;
	return s;
}

/* Columns that the character at *@s takes; *@s is moved behind it. */
static size_t step(const char **s)
{
	size_t n;
	uint32_t c = get_utf8((const unsigned char *)*s, &n);
	int w = n ? wcwidth(c) : 1;

	*s = skip_paint(*s + (n ? n : 1));
	return w < 0 ? 1 : w;
}

/* The first byte that does not fit into @columns. */
static const char *skip_columns(const char *s, size_t columns)
{
	const char *next = s = skip_paint(s);
	size_t w;

	for (; *s; s = next) {
		w = step(&next);
		if (w > columns)
			break;
		columns -= w;
	}
	return s;
}

/* Columns that the text takes. */
static size_t width(const char *s)
{
	size_t n = 0;

	for (s = skip_paint(s); *s;)
		n += step(&s);
	return n;
}

/* As wide as the terminal, if that is narrower than other lines are. */
static size_t line_width(void)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col || w.ws_col > LINE_MAX_COLUMNS)
		return LINE_MAX_COLUMNS;
	return w.ws_col > LINE_MIN_COLUMNS ? w.ws_col : LINE_MIN_COLUMNS;
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
	size_t columns = line_width();
	int indent = first;

	while (*s) {
		size_t room = columns - (at > indent ? at : indent);
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

	if (n > w) {
		const char *end = skip_columns(s, w - 3);
		char *head = format("%.*s", (int)(end - s), s);

		/* A wide character may leave a column. */
		printf("%s...%s%*s", head, *s == '\033' ? "\033[0m" : "",
		       last ? 0 : (int)(w - 3 - width(head)), "");
		free(head);
	} else if (c->right) {
		printf("%*s%s", (int)(w - n), "", s);
	} else {
		printf("%s%*s", s, last ? 0 : (int)(w - n), "");
	}
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

#define LEAST 8

/*
 * Which column is cut next: the last one, a name that was chosen by somebody, as long as
 * that helps; then the widest of the other texts. Numbers are never cut.
 */
static size_t *next_cut(const struct table *t, size_t *w)
{
	size_t i, *max = NULL;

	if (!t->columns[t->n - 1].right && w[t->n - 1] > LEAST)
		return &w[t->n - 1];
	for (i = 0; i < t->n; i++)
		if (!t->columns[i].right && w[i] > LEAST && (!max || w[i] >= *max))
			max = &w[i];
	return max;
}

static size_t *measure(const struct table *t)
{
	size_t *w = must(calloc(t->n, sizeof(*w))), *max;
	size_t i, sum = 2 * (t->n - 1), columns = line_width();
	const struct row *r;

	for (i = 0; i < t->n; i++) {
		w[i] = width(t->columns[i].title);
		for (r = t->first; r; r = r->next)
			if (!r->note && width(r->cells[i]) > w[i])
				w[i] = width(r->cells[i]);
		sum += w[i];
	}
	for (; sum > columns && (max = next_cut(t, w)); sum--)
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
	size_t n = width(line), fits = line_width();
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

/*
 * What would harm a terminal has an escape in JSON, too. Behind ASCII it only stands in
 * strings.
 */
static void print_document(FILE *f, struct json_object *doc, int flags)
{
	const char *text = json_object_to_json_string_ext(
		doc, flags | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	const char *s = must((void *)text);
	size_t n;

	for (; *s; s += n) {
		uint32_t c = get_utf8((const unsigned char *)s, &n);

		n = n ? n : 1;
		if (c < 0x7f || can_show(c))
			fwrite(s, n, 1, f);
		else if (c < 0x10000)
			fprintf(f, "\\u%04x", c);
		else
			fprintf(f, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
	}
	putc('\n', f);
	json_object_put(doc);
}

void print_json_line(const char *key, struct json_object *value)
{
	print_document(stdout, document(key, value), 0);
}

int print_json(const char *key, struct json_object *value)
{
	print_document(stdout, document(key, value), JSON_C_TO_STRING_PRETTY);
	return EXIT_OK;
}

/* ---- errors ---- */

static void complain(const struct request *rq, int err, const char *fmt,
		     va_list args)
{
	struct json_object *error;
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
	print_document(stderr, document("error", error), 0);
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
