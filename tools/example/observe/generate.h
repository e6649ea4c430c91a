/* SPDX-License-Identifier: MIT */
#ifndef GENERATE_H
#define GENERATE_H

#include <capkm/observe.h>
#include <stdio.h>
#include <stdlib.h>

/* Exit statuses, beside 0. */
#define FAILED	1	/* the authority, a budget, work, a file that cannot be written */
#define WRONG	2	/* the command line, or a file that it names */

/* What the library's calls say; they are made by one thread. */
extern struct capkm_error err;

/*
 * Ends the program: as far as a run that has a checkpoint is concerned, as a kill does.
 * The ledger stays.
 */
_Noreturn void die(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* For calls that can only fail if something is wrong: the library says what. */
#define TRY(call) do {							\
	if (call)							\
		die(FAILED, "%s", err.text);				\
} while (0)

static inline void *allocated(void *p)
{
	if (!p)
		die(FAILED, "out of memory");
	return p;
}

/* arguments.c: the command line */

#define PROMPT_MAX	512u	/* bytes */
#define PREDICTIONS_MAX	512u

enum command { GENERATE, DISCOVERY, VALIDATE };
#define NEVER	UINT64_MAX

struct arguments {
	enum command command;
	const char *plan;
	const char *prompt;
	uint64_t predictions;
	const char *records;
	const char *chart;
	const char *checkpoint;
	const char *domain;
	bool resume;
	uint64_t seed;
	uint64_t fail_at;	/* predictions, or NEVER */
	uint64_t pause_at;
};

void arguments_read(struct arguments *a, int argc, char **argv);

/* state.c: files */

/* All of a file, NUL-terminated, the caller's. Ends the program if it cannot be had. */
char *file_read(const char *path, size_t most, size_t *len);
/* The file is the old one or the new one, whenever the machine stops. 0 or -errno */
int file_replace(const char *path, const char *text, size_t len);

/* What a checkpoint file has beside the library's checkpoint: where the model was. */
struct state {
	char domain[CAPKM_NAME_MAX + 1];
	uint32_t prompt_len;
	uint32_t made;			/* predictions */
	uint8_t tokens[PROMPT_MAX + PREDICTIONS_MAX];	/* the prompt's, then those made */
	/* The lines of this run in the file of records; both 0: there are none. */
	uint64_t records_from;
	uint64_t records_to;
};

/* 0 or -errno */
int state_save(const char *path, const struct state *state,
	       const struct capkm_observe_checkpoint *checkpoint);
/* The checkpoint is the caller's. Ends the program if that is no such file. */
void state_load(const char *path, struct state *state,
		struct capkm_observe_checkpoint **checkpoint);

/* budget.c: the axes of a budget, and what a plan may cost */

#define AXES	4

struct axis {
	const char *name;
	size_t offset;
};
extern const struct axis axes[AXES];

static inline uint64_t on_axis(const struct capkm_usage *usage, int axis)
{
	return *(const uint64_t *)((const char *)usage + axes[axis].offset);
}

/* A limit, "none" if it is none. */
const char *limit_text(uint64_t limit, char *text, size_t size);
/* Prints what a plan may cost; the exit status: FAILED if its budget may not do. */
int budget_validate(const struct capkm_observe_plan *plan,
		    const struct capkm_observe_discovery *discovery,
		    const struct capkm_observe_request *request,
		    const struct capkm_observe_backend *backend);

/* chart.c: use of the budget over the steps, as SVG */

struct chart {
	struct chart_step {
		uint64_t prediction;
		bool failed;
		struct capkm_usage in_step;
		struct capkm_usage in_all;
	} *steps;
	size_t len;
};

void chart_add(struct chart *chart, const struct capkm_observe_step *step);
void chart_free(struct chart *chart);
/* Ends the program if the file cannot be written. */
void chart_write(const struct chart *chart, const struct capkm_observe_limits *limits,
		 const char *path);

#endif /* GENERATE_H */
