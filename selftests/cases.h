/* SPDX-License-Identifier: GPL-2.0-only */
/* For field cases of one domain: a client in it, two shared buffers. */
#ifndef CAPKM_CASES_H
#define CAPKM_CASES_H

#include "capkm_test.h"

#define BYTES 100

FIXTURE(cases)
{
	struct cl *a;
	u_int64_t x, y;
};

#define SELF FIXTURE_DATA(cases)

FIXTURE_SETUP(cases)
{
	self->a = t_client();
	t_domain(self->a);
	self->x = t_shared(self->a, BYTES);
	self->y = t_shared(self->a, BYTES);
}

FIXTURE_TEARDOWN(cases)
{
	t_close(self->a);
	t_no_leaks();
}

/* Another process of the domain, that holds both buffers. */
static struct cl *enter_domain(SELF *self)
{
	struct cl *cl = t_process();

	t_attach(cl, self->a->domain);
	t_open(cl, self->x);
	t_open(cl, self->y);
	return cl;
}

#endif /* CAPKM_CASES_H */
