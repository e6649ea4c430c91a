// SPDX-License-Identifier: MIT
#include "internal.h"

#include <string.h>

static const char *why_not(int rc)
{
	switch (rc) {
	case -ETIMEDOUT:
		return "nothing has happened in that time";
	case -EINTR:
		return "a signal came";
	case -ENOTCONN:
		return "the handle has no domain yet; create, attach or open one first";
	case -EACCES:
		return "the domain's mode does not grant this session the right";
	case -EPERM:
		return "this process is not a client of the session; capkm_join() makes it one";
	case -ECANCELED:
		return "this client has ended";
	case -EINVAL:
		return "the authority does not give events, or larger ones than fit";
	default:
		return strerror(-rc);
	}
}

int capkm_events_read(struct capkm *c, struct capkm_event *events, uint32_t len,
		      int timeout_ms, uint32_t *got, struct capkm_error *err)
{
	int rc = capkm_not_inherited(c, "events_read", err);

	if (rc)
		return rc;
	if (!len)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				       "events_read: room for 0 events");
	rc = c->transport->events(c->state, events, len, timeout_ms);
	if (rc < 0)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
				       "events_read: %s", why_not(rc));
	*got = (uint32_t)rc;
	return 0;
}
