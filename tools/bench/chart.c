// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cost against size as SVG, both scales logarithmic: a plot for each group that has sizes,
 * a line for each operation and way; dashed, what the yardstick has.
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLOT_WIDTH	330
#define PLOT_HEIGHT	210
#define LEFT		70
#define BELOW		40	/* numbers of the sizes, and what they are */
#define LEGEND		290	/* to the right of a plot */
#define TOP		60
#define ROW		(PLOT_HEIGHT + BELOW + 40)
#define WIDTH		(LEFT + PLOT_WIDTH + LEGEND)
#define LINES_MAX	16

static const char *const colours[] = {
	"#1f6fb4", "#d9822b", "#2a8f4a", "#b2362f", "#7a55a8", "#8a6d3b", "#c45a9c", "#555555",
};

static const struct {
	const char *group, *title, *size;
} plots[] = {
	{ "ranges", "Partial writes into a buffer with failed ranges", "failed ranges" },
	{ "buffers", "A session with many buffers", "buffers" },
	{ "failures", "A domain with many failures", "failures" },
	{ "release", "The end of a session with many failed buffers", "buffers" },
	{ "replay", "Begin and end of a replay", "claims" },
	{ "graph", "Graphs with a kernel for each claim", "claims" },
	{ "contention", "Workers in one domain: time by scopes of all", "workers" },
};

struct plot {
	FILE *f;
	const char *group;
	double y;			/* of its upper edge */
	double least_x, most_x, least_y, most_y;	/* powers of ten, but for the x */
};

struct line {
	const struct result *first;	/* whose operation and way it has */
	const char *colour;
};

static bool belongs(const struct plot *p, const struct result *r)
{
	return !strcmp(r->group, p->group) && r->size && r->unit == NANOSECONDS && r->null_ioctl &&
	       r->median > 0;
}

static double ratio(const struct result *r)
{
	return r->median / r->null_ioctl;
}

static double yardstick(const struct result *r)
{
	return r->yardstick / YARDSTICK_NULL_IOCTL;
}

static double x_of(const struct plot *p, double size)
{
	const double span = p->most_x - p->least_x;

	return LEFT + PLOT_WIDTH * (span ? (log10(size) - p->least_x) / span : .5);
}

static double y_of(const struct plot *p, double value)
{
	return p->y + PLOT_HEIGHT * (p->most_y - log10(value)) / (p->most_y - p->least_y);
}

static void include(struct plot *p, double x, double y)
{
	p->least_x = fmin(p->least_x, log10(x));
	p->most_x = fmax(p->most_x, log10(x));
	p->least_y = fmin(p->least_y, log10(y));
	p->most_y = fmax(p->most_y, log10(y));
}

/* Whole decades, at least one; false if there is nothing. */
static bool scale(struct plot *p)
{
	bool some = false;

	p->least_x = p->least_y = INFINITY;
	p->most_x = p->most_y = -INFINITY;
	for (size_t i = 0; i < results.len; i++) {
		const struct result *r = &results.at[i];

		if (!belongs(p, r))
			continue;
		include(p, r->size, ratio(r));
		if (r->yardstick)
			include(p, r->size, yardstick(r));
		some = true;
	}
	p->least_y = floor(p->least_y);
	p->most_y = ceil(p->most_y);
	if (p->most_y <= p->least_y)
		p->most_y = p->least_y + 1;
	return some;
}

static void text(const struct plot *p, double x, double y, const char *anchor, const char *words)
{
	fprintf(p->f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
		words);
}

static void frame(const struct plot *p, const char *title, const char *size)
{
	char words[32];

	text(p, LEFT, p->y - 8, "start", title);
	text(p, LEFT + PLOT_WIDTH, p->y + PLOT_HEIGHT + 32, "end", size);
	for (double e = p->least_y; e <= p->most_y; e++) {
		const double y = y_of(p, pow(10, e));

		fprintf(p->f, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", LEFT, y, PLOT_WIDTH);
		snprintf(words, sizeof(words), "%g", pow(10, e));
		text(p, LEFT - 5, y + 4, "end", words);
	}
	fprintf(p->f, "<path d=\"M%d %.1fV%.1fH%d\" fill=\"none\" stroke=\"#888\"/>\n", LEFT, p->y,
		p->y + PLOT_HEIGHT, LEFT + PLOT_WIDTH);
}

/* Each size once. */
static void number_sizes(const struct plot *p)
{
	double last = 0;

	for (;;) {
		double next = 0;

		for (size_t i = 0; i < results.len; i++) {
			const struct result *r = &results.at[i];

			if (belongs(p, r) && r->size > last && (!next || r->size < next))
				next = r->size;
		}
		if (!next)
			return;
		text(p, x_of(p, next), p->y + PLOT_HEIGHT + 15, "middle", grouped(next));
		last = next;
	}
}

static bool of_line(const struct plot *p, const struct line *l, const struct result *r)
{
	return belongs(p, r) && !strcmp(r->operation, l->first->operation) &&
	       !strcmp(r->through, l->first->through);
}

/* Through the points of a line, or through what the yardstick has instead of them. */
static void path(const struct plot *p, const struct line *l, double (*value)(const struct result *r),
		 const char *look)
{
	char step = 'M';

	fprintf(p->f, "<path d=\"");
	for (size_t i = 0; i < results.len; i++)
		if (of_line(p, l, &results.at[i]) && value(&results.at[i]) > 0) {
			fprintf(p->f, "%c%.1f %.1f", step, x_of(p, results.at[i].size),
				y_of(p, value(&results.at[i])));
			step = 'L';
		}
	fprintf(p->f, "\" fill=\"none\" stroke=\"%s\" %s/>\n", l->colour, look);
}

static void draw(const struct plot *p, const struct line *l)
{
	path(p, l, ratio, "stroke-width=\"1.5\"");
	path(p, l, yardstick, "stroke-dasharray=\"4 3\"");
	for (size_t i = 0; i < results.len; i++)
		if (of_line(p, l, &results.at[i]))
			fprintf(p->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %s, %s: %.4g null ioctls</title></circle>\n",
				x_of(p, results.at[i].size), y_of(p, ratio(&results.at[i])),
				l->colour, l->first->operation, l->first->through,
				grouped(results.at[i].size), ratio(&results.at[i]));
}

static void name(const struct plot *p, const struct line *l, size_t at)
{
	const double x = LEFT + PLOT_WIDTH + 15, y = p->y + 10 + 17 * at;
	char words[96];

	snprintf(words, sizeof(words), "%s, %s", l->first->operation, l->first->through);
	fprintf(p->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x,
		y - 9, l->colour);
	text(p, x + 15, y, "start", words);
}

static void lines(const struct plot *p)
{
	struct line seen[LINES_MAX];
	size_t len = 0;

	for (size_t i = 0; i < results.len && len < LINES_MAX; i++) {
		const struct result *r = &results.at[i];
		size_t at = 0;

		while (at < len && !of_line(p, &seen[at], r))
			at++;
		if (at < len || !belongs(p, r))
			continue;
		seen[len] = (struct line){ r, colours[len % ARRAY_SIZE(colours)] };
		draw(p, &seen[len]);
		name(p, &seen[len], len);
		len++;
	}
}

static size_t count_plots(void)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(plots); i++)
		n += scale(&(struct plot){ .group = plots[i].group });
	return n;
}

void chart_write(const char *path)
{
	char *svg;
	size_t len;
	FILE *f = allocated(open_memstream(&svg, &len));
	double y = TOP;

	fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", WIDTH,
		TOP + ROW * count_plots());
	fprintf(f, "<text x=\"%d\" y=\"24\" font-size=\"16\">Cost in null ioctls (dashed: the yardstick)</text>\n", LEFT);
	for (size_t i = 0; i < ARRAY_SIZE(plots); i++) {
		struct plot p = { .f = f, .group = plots[i].group, .y = y };

		if (!scale(&p))
			continue;
		frame(&p, plots[i].title, plots[i].size);
		number_sizes(&p);
		lines(&p);
		y += ROW;
	}
	fprintf(f, "</svg>\n");
	if (fclose(f))
		die(FAILED, "out of memory");
	write_file(path, svg, len);
	free(svg);
}
