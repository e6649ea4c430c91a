// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads of one handle, and processes with a session each, that work in one domain, each on
 * buffers and a stream of its own. The cost is the time divided by the scopes of all.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES		4096u
#define WORKERS_MAX	8u
#define SAMPLE_NS	5e6	/* long against what it takes to wake a worker */

struct crowd;

struct worker {
	struct crowd *crowd;
	struct capkm *c;
	struct capkm_where where;
	struct capkm_claim claims[2];
	pthread_t thread;
	pid_t pid;
};

/* In memory that processes share. */
struct crowd {
	pthread_barrier_t begin, end;
	_Atomic bool stop;
	uint64_t n;			/* scopes of each, next time */
	uint32_t workers;
	struct worker worker[WORKERS_MAX];
};

static void take_part(struct worker *w, struct capkm *c, uint32_t i)
{
	w->c = c;
	w->where.stream = i + 1;
	for (int b = 0; b < 2; b++)
		w->claims[b] = (struct capkm_claim){ .buffer = buffer(c, BYTES), .end = BYTES };
}

static void work(struct worker *w)
{
	struct crowd *crowd = w->crowd;

	for (;;) {
		pthread_barrier_wait(&crowd->begin);
		if (crowd->stop)
			return;
		for (uint64_t i = 0; i < crowd->n; i++)
			write_scope(w->c, &w->where, w->claims, ARRAY_SIZE(w->claims));
		pthread_barrier_wait(&crowd->end);
	}
}

static void *thread(void *arg)
{
	work(arg);
	return NULL;
}

static double round_of(struct crowd *crowd)
{
	double start;

	pthread_barrier_wait(&crowd->begin);
	start = now();
	pthread_barrier_wait(&crowd->end);
	return now() - start;
}

static struct crowd *make_crowd(uint32_t workers)
{
	struct crowd *crowd = mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (crowd == MAP_FAILED)
		die(FAILED, "there is no memory to share");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&crowd->begin, &attr, workers + 1);
	pthread_barrier_init(&crowd->end, &attr, workers + 1);
	crowd->workers = workers;
	for (uint32_t i = 0; i < workers; i++)
		crowd->worker[i].crowd = crowd;
	return crowd;
}

static void measure_crowd(struct crowd *crowd, const char *operation, const struct through *t)
{
	double v[LEAST_SAMPLES];

	for (crowd->n = 64; round_of(crowd) < SAMPLE_NS;)
		crowd->n *= 2;
	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = round_of(crowd) / (crowd->workers * crowd->n);
	add_result((struct result){ .group = "contention", .operation = operation,
		.through = t->name, .size = crowd->workers, .batch = crowd->n },
		v, ARRAY_SIZE(v));
	crowd->stop = true;
	pthread_barrier_wait(&crowd->begin);
}

static void threads(const struct through *t, uint32_t workers)
{
	struct crowd *crowd = make_crowd(workers);
	struct capkm *c = open_domain(t, 0, 0);

	for (uint32_t i = 0; i < workers; i++) {
		take_part(&crowd->worker[i], c, i);
		if (pthread_create(&crowd->worker[i].thread, NULL, thread, &crowd->worker[i]))
			die(FAILED, "there is no thread");
	}
	measure_crowd(crowd, "scopes of threads", t);
	for (uint32_t i = 0; i < workers; i++)
		pthread_join(crowd->worker[i].thread, NULL);
	capkm_close(c);
	munmap(crowd, sizeof(*crowd));
}

static void *be_watched(void *arg)
{
	struct crowd *crowd = arg;
	int status;

	for (uint32_t i = 0; i < crowd->workers; i++)
		if (waitpid(crowd->worker[i].pid, &status, 0) > 0 && status)
			die(FAILED, "a process that takes part has failed");
	return NULL;
}

static void process(struct worker *w, const struct through *t, uint64_t domain, uint32_t i)
{
	const struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.domain = domain);
	struct capkm *c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	c = open_handle(t);
	TRY(capkm_domain_attach(c, NULL, &opts, &err));
	take_part(w, c, i);
	work(w);
	_exit(0);
}

static void processes(const struct through *t, uint32_t workers)
{
	struct crowd *crowd = make_crowd(workers);
	struct capkm *c = open_domain(t, 0, 0);
	pthread_t watcher;

	for (uint32_t i = 0; i < workers; i++) {
		crowd->worker[i].pid = fork();
		if (!crowd->worker[i].pid)
			process(&crowd->worker[i], t, capkm_domain_id(c), i);
		if (crowd->worker[i].pid < 0)
			die(FAILED, "there is no process");
	}
	if (pthread_create(&watcher, NULL, be_watched, crowd))
		die(FAILED, "there is no thread");
	measure_crowd(crowd, "scopes of processes", t);
	pthread_join(watcher, NULL);
	capkm_close(c);
	munmap(crowd, sizeof(*crowd));
}

void measure_contention(void)
{
	const struct through *const *t = throughs();

	measure("contention", NULL, 0);
	for (; *t; t++)
		for (uint32_t workers = 1; workers <= WORKERS_MAX; workers *= 2) {
			threads(*t, workers);
			if ((*t)->kernel)
				processes(*t, workers);
		}
}
