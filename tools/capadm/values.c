// SPDX-License-Identifier: GPL-2.0-only
/* Options that take a number, and waiting between two looks. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "values.h"

#define NS 1000000000ull
#define INTERVAL_DEFAULT 2.0
#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 86400.0

int option_count(const struct request *rq, uint64_t *count)
{
	const char *s = rq->values[OPT_COUNT];
	char *end;

	*count = 0;
	if (!s)
		return EXIT_OK;
	errno = 0;
	*count = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || !*count)
		return usage(rq, "--count %s is no number; right is a number from 1 up", s);
	return EXIT_OK;
}

int option_interval(const struct request *rq, uint64_t *ns)
{
	const char *s = rq->values[OPT_INTERVAL];
	double seconds = INTERVAL_DEFAULT;
	char *end;

	if (s) {
		seconds = strtod(s, &end);
		if (*s < '0' || *s > '9' || *end || !(seconds >= INTERVAL_MIN) ||
		    seconds > INTERVAL_MAX)
			return usage(rq, "--interval %s is no time; right are %.1f to %.0f seconds",
				     s, INTERVAL_MIN, INTERVAL_MAX);
	}
	*ns = seconds * NS;
	return EXIT_OK;
}

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

void stop_catch(sigset_t *waiting)
{
	const struct sigaction sa = { .sa_handler = stop };
	sigset_t block;

	sigemptyset(&block);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, waiting);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

/* Also one that is pending: it is delivered only to who has nothing to do but wait. */
bool stop_asked(void)
{
	sigset_t pending;

	sigemptyset(&pending);
	sigpending(&pending);
	return stopped || sigismember(&pending, SIGINT) > 0 ||
	       sigismember(&pending, SIGTERM) > 0;
}

uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

void sleep_until(uint64_t ns, const sigset_t *waiting)
{
	uint64_t now = monotonic_ns();
	struct timespec t = {};

	if (ns > now) {
		t.tv_sec = (ns - now) / NS;
		t.tv_nsec = (ns - now) % NS;
	}
	ppoll(NULL, 0, &t, waiting);
}
