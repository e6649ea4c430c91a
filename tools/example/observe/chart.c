// SPDX-License-Identifier: MIT
/*
 * Use of the budget as SVG: for each axis what was charged in each step, and in all. Both
 * scales begin at 0; a limit is a line if it is near what was used, else only its number.
 */
#include "generate.h"

#include <inttypes.h>
#include <string.h>

#define PLOT_WIDTH	360
#define PLOT_HEIGHT	90
#define LEFT		70	/* of a plot, for its numbers */
#define ROW		150	/* from a plot to the one below */
#define TOP		92
#define WIDTH		(2 * (LEFT + PLOT_WIDTH) + 40)
#define HEIGHT		(TOP + AXES * ROW)

void chart_add(struct chart *chart, const struct capkm_observe_step *step)
{
	struct chart_step *s;

	chart->steps = allocated(reallocarray(chart->steps, chart->len + 1, sizeof(*s)));
	s = &chart->steps[chart->len++];
	*s = (struct chart_step){
		.prediction = step->prediction_index,
		.in_step = step->step_usage,
		.in_all = step->cumulative_usage,
	};
	for (uint32_t i = 0; i < step->records_len; i++)
		if (step->records[i].outcome.kind == CAPKM_OUTCOME_FAILED)
			s->failed = true;
}

void chart_free(struct chart *chart)
{
	free(chart->steps);
}

/* What was charged to the ledger before this step and is in no step that is there. */
static bool something_lost(const struct chart *chart, size_t i, int axis)
{
	const struct chart_step *s = &chart->steps[i];
	const uint64_t before = i ? on_axis(&s[-1].in_all, axis) : 0;

	return on_axis(&s->in_all, axis) - on_axis(&s->in_step, axis) != before;
}

/* A plot: an axis of the budget, in each step or in all. */
struct plot {
	const struct chart *chart;
	FILE *f;
	int axis;
	bool in_all;
	uint64_t limit;
	uint64_t top;		/* value at its upper edge */
	double x, y;		/* of its upper left corner */
};

static uint64_t value(const struct plot *p, size_t i)
{
	const struct chart_step *s = &p->chart->steps[i];

	return on_axis(p->in_all ? &s->in_all : &s->in_step, p->axis);
}

static double x_of(const struct plot *p, double i)
{
	return p->x + PLOT_WIDTH * i / (p->chart->len ? p->chart->len : 1);
}

static double y_of(const struct plot *p, uint64_t value)
{
	return p->y + PLOT_HEIGHT * (1 - (double)value / p->top);
}

static void scale(struct plot *p)
{
	uint64_t most = 0;

	for (size_t i = 0; i < p->chart->len; i++)
		if (value(p, i) > most)
			most = value(p, i);
	p->top = most ? most : 1;
	/* A limit that is far away would make the rest flat. */
	if (p->limit > most && p->limit / 4 <= most && p->limit != UINT64_MAX)
		p->top = p->limit;
}

static void text(const struct plot *p, double x, double y, const char *anchor, const char *words)
{
	fprintf(p->f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
		words);
}

static void title(const struct plot *p)
{
	char limit[24], words[128];
	const bool shown = p->limit <= p->top;

	snprintf(words, sizeof(words), "%s%s %s; limit %s%s", axes[p->axis].name,
		 p->axis ? " bytes" : "",
		 p->in_all ? "in all" : "in each step",
		 limit_text(p->limit, limit, sizeof(limit)),
		 shown || p->limit == UINT64_MAX ? "" : " (above this plot)");
	text(p, p->x, p->y - 8, "start", words);
}

static void frame(const struct plot *p)
{
	char number[24];

	fprintf(p->f, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#888\"/>\n", p->x,
		p->y, p->y + PLOT_HEIGHT, p->x + PLOT_WIDTH);
	snprintf(number, sizeof(number), "%" PRIu64, p->top);
	text(p, p->x - 5, p->y + 8, "end", number);
	text(p, p->x - 5, p->y + PLOT_HEIGHT, "end", "0");
}

/* As many as there is room for, and none twice. */
static void number_steps(const struct plot *p)
{
	const size_t each = p->chart->len / 12 + 1;
	char number[24];

	for (size_t i = 0; i < p->chart->len; i += each) {
		snprintf(number, sizeof(number), "%" PRIu64, p->chart->steps[i].prediction);
		text(p, x_of(p, i + .5), p->y + PLOT_HEIGHT + 14, "middle", number);
	}
}

static void bars(const struct plot *p)
{
	for (size_t i = 0; i < p->chart->len; i++) {
		const bool failed = p->chart->steps[i].failed;
		const double y = y_of(p, value(p, i));

		fprintf(p->f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\">",
			x_of(p, i + .1), y, x_of(p, i + .9) - x_of(p, i + .1),
			p->y + PLOT_HEIGHT - y, failed ? "#d9822b" : "#4878a8");
		fprintf(p->f, "<title>prediction %" PRIu64 ": %" PRIu64 "%s</title></rect>\n",
			p->chart->steps[i].prediction, value(p, i), failed ? ", failed" : "");
	}
}

static void lost(const struct plot *p)
{
	for (size_t i = 0; i < p->chart->len; i++)
		if (something_lost(p->chart, i, p->axis))
			fprintf(p->f, "<path d=\"M%.2f %.1fv%d\" stroke=\"#222\" stroke-dasharray=\"2 3\"/>\n",
				x_of(p, i), p->y, PLOT_HEIGHT);
}

static void limit_line(const struct plot *p)
{
	if (p->limit <= p->top)
		fprintf(p->f, "<path d=\"M%.1f %.2fh%d\" stroke=\"#c22\" stroke-width=\"1.5\"/>\n",
			p->x, y_of(p, p->limit), PLOT_WIDTH);
}

static void plot(FILE *f, const struct chart *chart, int axis, bool in_all, uint64_t limit)
{
	struct plot p = {
		.chart = chart, .f = f, .axis = axis, .in_all = in_all, .limit = limit,
		.x = LEFT + in_all * (PLOT_WIDTH + LEFT), .y = TOP + axis * ROW,
	};

	scale(&p);
	title(&p);
	frame(&p);
	bars(&p);
	number_steps(&p);
	if (in_all)
		lost(&p);
	limit_line(&p);
}

static void legend(FILE *f, const struct chart *chart)
{
	static const struct {
		const char *colour, *words;
		int x;
	} keys[] = {
		{ "#4878a8", "a step", LEFT },
		{ "#d9822b", "a step with observations that failed", LEFT + 90 },
		{ "#c22", "limit", LEFT + 340 },
	};

	fprintf(f, "<text x=\"%d\" y=\"24\" font-size=\"16\">Use of the budget in %zu step%s, by the number of the prediction</text>\n",
		LEFT, chart->len, chart->len == 1 ? "" : "s");
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		fprintf(f, "<rect x=\"%d\" y=\"38\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"47\">%s</text>\n",
			keys[i].x, keys[i].colour, keys[i].x + 15, keys[i].words);
	fprintf(f, "<path d=\"M%d 36v14\" stroke=\"#222\" stroke-dasharray=\"2 3\"/><text x=\"%d\" y=\"47\">before it, steps that are not here were charged, too</text>\n",
		LEFT + 415, LEFT + 425);
}

void chart_write(const struct chart *chart, const struct capkm_observe_limits *limits,
		 const char *path)
{
	char *svg;
	size_t len;
	FILE *f = allocated(open_memstream(&svg, &len));
	int rc;

	fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", WIDTH, HEIGHT);
	legend(f, chart);
	for (int i = 0; i < AXES; i++) {
		plot(f, chart, i, false, on_axis(&limits->per_step, i));
		plot(f, chart, i, true, on_axis(&limits->cumulative, i));
	}
	fprintf(f, "</svg>\n");
	if (fclose(f))
		die(FAILED, "out of memory");
	rc = file_replace(path, svg, len);
	if (rc)
		die(FAILED, "%s: %s", path, strerror(-rc));
	free(svg);
}
