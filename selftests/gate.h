/* SPDX-License-Identifier: GPL-2.0-only */
/* A place where work waits, so that a test decides when it goes on. */
#ifndef CAPKM_GATE_H
#define CAPKM_GATE_H

#include "capkm_test.h"

#include <pthread.h>

/* A place where functions wait until the test lets them go on. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int inside;
	bool open;
};
#define GATE { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false }

static T_UNUSED void gate_pass(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->inside++;
	pthread_cond_broadcast(&g->changed);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

/* Returns when @n functions have come to it. */
static T_UNUSED void gate_await(struct gate *g, int n)
{
	pthread_mutex_lock(&g->lock);
	while (g->inside < n)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static T_UNUSED void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static T_UNUSED void gate_close(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = false;
	g->inside = 0;
	pthread_mutex_unlock(&g->lock);
}

#endif /* CAPKM_GATE_H */
