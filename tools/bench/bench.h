/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of capkm-bench know of each other. */
#ifndef BENCH_H
#define BENCH_H

#include <capkm/capkm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define FAILED	1
#define WRONG	2

/* common.c */

struct options {
	bool quick;
	uint64_t most;			/* of a size */
	bool embedded, kernel;		/* which transports */
};
extern struct options options;

__attribute__((format(printf, 2, 3), noreturn))
void die(int status, const char *format, ...);
/* What an allocation gave; there is no other end than this one if it gave nothing. */
void *allocated(void *p);
/* Before anything is measured: the file, if there is to be one, can be written. */
void try_file(const char *path);
/* All of the text becomes the file, or the program ends. */
void write_file(const char *path, const char *text, size_t len);
/* The standard output has all of it, or the program ends. */
void finish_output(void);
__attribute__((noreturn)) void print_and_exit(const char *text);
/* A text of the file's first line that has @key, behind it; static, "unknown". */
const char *line_of(const char *path, const char *key);

extern struct capkm_error err;

#define TRY(call) do {							\
	if (call)							\
		die(FAILED, "%s", err.text);				\
} while (0)

/* measure.c */

/* No cost is reported from fewer: of batches of an operation, and of what is done once. */
#define LEAST_SAMPLES	15u
#define LEAST_EVENTS	5u

/* Of the yardstick's machine, in ns. */
#define YARDSTICK_NULL_IOCTL	214.0

enum unit {
	NANOSECONDS,
	BYTES,
	ALLOCATIONS,
};

struct result {
	const char *group, *operation, *through;
	uint64_t size;			/* what it grows with, 0: nothing */
	enum unit unit;
	double median, low, high;	/* and the quartiles */
	double least;
	double null_ioctl;		/* median of the same rounds, in ns; else 0 */
	double yardstick;		/* ns there, 0: it has no such figure */
	uint32_t samples;
	uint64_t batch;			/* operations of a sample */
};

struct results {
	struct result *at;
	size_t len;
};
extern struct results results;

/*
 * An operation: @run does it @n times and is timed, @before and @after are not and may be
 * NULL.
 */
struct op {
	const char *operation, *through;
	uint64_t size;
	void (*before)(void *state, uint64_t n);
	void (*run)(void *state, uint64_t n);
	void (*after)(void *state, uint64_t n);
	void *state;
	uint64_t most;			/* in one batch, 0: no bound */
	uint32_t each;			/* that @run does instead of one, 0: it does one */
	double yardstick;
};

void measure_init(void);
/* ns */
double now(void);
/* As many samples as this run takes of one thing. */
uint32_t samples(void);
uint32_t events(void);
/* All operations and the null ioctl in turns, batch by batch. */
void measure(const char *group, const struct op *ops, size_t len);
/* Samples that were taken in another way; sorts them. The null ioctl is the run's. */
void add_result(struct result r, double *samples, uint32_t len);
const struct result *find_result(const char *group, const char *operation, const char *through,
				 uint64_t size);
/* What the null ioctl is here, in words. */
const char *null_ioctl_is(void);
double null_ioctl_ns(void);
/* Average of the last minute, when this one had not begun. */
double load_at_begin(void);

/* authority.c */

/* A way to the authority. */
struct through {
	const char *name;
	const char *submit;		/* the name if many calls are done in one; or NULL */
	const char *path;		/* of capkm_open() */
	bool kernel;
	bool fast;			/* a call that need not enter the authority does not */
};

/* Those of this run, in a list that ends with a NULL. */
const struct through *const *throughs(void);
size_t throughs_len(void);
struct capkm *open_handle(const struct through *t);
/*
 * A handle and a domain of its own, in which there can be so many ranges, and the session
 * can hold so many buffers.
 */
struct capkm *open_domain(const struct through *t, uint64_t ranges, uint64_t buffers);
uint64_t buffer(struct capkm *c, uint64_t bytes);
/* One failure more, which the bytes carry. */
uint64_t taint(struct capkm *c, const struct capkm_claim *claim);

/* A scope over these, by the public calls; left well, or not. */
void write_scope(struct capkm *c, const struct capkm_where *where,
		 const struct capkm_claim *writes, uint32_t len);
void fail_scope(struct capkm *c, const struct capkm_where *where,
		const struct capkm_claim *write);

/* The next number below @n, of a generator that is the same in each run. */
uint64_t random_below(uint64_t n);
/* The sizes of a series, up to options.most; their number. */
#define SIZES_MAX	8
size_t sizes_from(uint64_t first, uint64_t sizes[SIZES_MAX]);

/* the groups */

void measure_base(void);
void measure_scopes(void);
void measure_ranges(void);
void measure_buffers(void);
void measure_failures(void);
void measure_release(void);
void measure_memory(void);
void measure_replay(void);
void measure_contention(void);

/* count.c: allocations of the calling thread so far */
uint64_t allocations(void);

/* goals.c, and cuda.c for its own */

enum verdict {
	HOLDS,
	MISSED,
	NOT_MEASURED,
};

struct goal {
	const char *text, *through;
	enum verdict verdict;
	double value, bound;		/* the same unit; the value is 0 if not measured */
	const char *unit;		/* of both */
};

/* What is measured beside this machine's processor, or NULL. */
extern const char *device;
/* Judges the results; their number. */
size_t judge(const struct goal **goals);

/* table.c, json.c, chart.c */

void table_print(FILE *f);
void json_write(const char *path);
void chart_write(const char *path);
/* "1 000 000", static, good for four calls. */
const char *grouped(uint64_t n);

#endif /* BENCH_H */
