// SPDX-License-Identifier: MIT
#include "fast.h"
#include "internal.h"

#include <inttypes.h>
#include <string.h>

/* Tries of capkm_domain_open(), each of which somebody else must have spoilt. */
#define OPEN_TRIES	32

static void attached(struct capkm *c, uint64_t domain, uint64_t session,
		     const struct capkm_domain_opts *o)
{
	c->domain = domain;
	c->session = session;
	c->backend = o->backend;
	c->max_streams = o->max_streams ? o->max_streams : MAX_STREAMS;
}

static int get_opts(struct capkm_domain_opts *o,
		    const struct capkm_domain_opts *opts, const char *call,
		    uint32_t flags, struct capkm_error *err)
{
	int rc = capkm_opts(o, sizeof(*o), opts, call, err);

	if (!rc && o->flags & ~flags)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: flags 0x%" PRIx32 " are not for this call",
			call, o->flags);
	return rc;
}

/* create and open: the domain has a name or none, and its owner is the caller. */
static int get_own_opts(struct capkm_domain_opts *o,
			const struct capkm_domain_opts *opts, const char *call,
			struct capkm_error *err)
{
	int rc = get_opts(o, opts, call, CAPKM_DOMAIN_OPTS_PERSISTENT |
			  CAPKM_DOMAIN_OPTS_FAILURE_EVENTS, err);

	if (!rc && (o->domain || o->owner_uid))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: an id or an owner is for domain_attach", call);
	return rc;
}

/* @arg: filled, for what it says of an error. */
static int create(struct capkm *c, const char *name,
		  const struct capkm_domain_opts *o,
		  struct capkm_domain_create *arg)
{
	int rc;

	*arg = (struct capkm_domain_create){
		.size = sizeof(*arg),
		.name_uptr = uptr(name),
		.name_len = name ? (uint32_t)strlen(name) : 0,
		.mode = o->mode,
		.max_streams = o->max_streams,
		.backend = o->backend,
		.limits_uptr = uptr(o->limits),
		.limits_len = o->limits_len,
	};
	if (o->flags & CAPKM_DOMAIN_OPTS_PERSISTENT)
		arg->flags |= CAPKM_DOMAIN_CREATE_F_PERSISTENT;
	if (o->flags & CAPKM_DOMAIN_OPTS_FAILURE_EVENTS)
		arg->flags |= CAPKM_DOMAIN_CREATE_F_FAILURE_EVENTS;
	rc = capkm_call(c, CAPKM_NR_DOMAIN_CREATE, arg);
	if (!rc)
		attached(c, arg->out_domain, arg->out_session, o);
	return rc;
}

static int attach(struct capkm *c, const char *name,
		  const struct capkm_domain_opts *o,
		  struct capkm_domain_attach *arg)
{
	int rc;

	*arg = (struct capkm_domain_attach){
		.size = sizeof(*arg),
		.domain = o->domain,
		.name_uptr = uptr(name),
		.name_len = name ? (uint32_t)strlen(name) : 0,
		.owner_uid = o->owner_uid,
		.max_streams = o->max_streams,
		.backend = o->backend,
	};
	if (o->flags & CAPKM_DOMAIN_OPTS_OWNER)
		arg->flags |= CAPKM_DOMAIN_ATTACH_F_OWNER;
	if (o->flags & CAPKM_DOMAIN_OPTS_FAILURE_EVENTS)
		arg->flags |= CAPKM_DOMAIN_ATTACH_F_FAILURE_EVENTS;
	rc = capkm_call(c, CAPKM_NR_DOMAIN_ATTACH, arg);
	if (!rc)
		attached(c, arg->out_domain, arg->out_session, o);
	return rc;
}

/* @rc if it is 0, else what it means for the operation @nr, told by @call. */
static int tell(const struct capkm *c, struct capkm_error *err,
		const char *call, unsigned int nr, int rc, const void *arg,
		const char *name)
{
	char why[300] = "";
	struct text t = { .data = why, .size = sizeof(why) };

	if (!rc || !err)
		return rc;
	capkm_means(&t, c, nr, rc, arg);
	capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "%s: %s%.64s%s%s", call,
			name ? "domain \"" : "", name ? name : "",
			name ? "\": " : "", why);
	capkm_error_limit(err, capkm_limit_of(nr, rc, arg));
	return rc;
}

int capkm_domain_create(struct capkm *c, const char *name,
			const struct capkm_domain_opts *opts,
			struct capkm_error *err)
{
	static const char call[] = "domain_create";
	struct capkm_domain_create arg;
	struct capkm_domain_opts o;
	int rc = get_own_opts(&o, opts, call, err);

	if (rc)
		return rc;
	rc = create(c, name, &o, &arg);
	return tell(c, err, call, CAPKM_NR_DOMAIN_CREATE, rc, &arg, name);
}

int capkm_domain_attach(struct capkm *c, const char *name,
			const struct capkm_domain_opts *opts,
			struct capkm_error *err)
{
	static const char call[] = "domain_attach";
	struct capkm_domain_attach arg;
	struct capkm_domain_opts o;
	int rc = get_opts(&o, opts, call, CAPKM_DOMAIN_OPTS_OWNER |
			  CAPKM_DOMAIN_OPTS_FAILURE_EVENTS, err);

	if (!rc && (o.limits || o.limits_len))
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: limits are for the one who creates it", call);
	if (rc)
		return rc;
	rc = attach(c, name, &o, &arg);
	if (rc && !name)
		return capkm_refuse(c, err, CAPKM_NR_DOMAIN_ATTACH, rc, &arg,
				    "domain %" PRIu64, o.domain);
	return tell(c, err, call, CAPKM_NR_DOMAIN_ATTACH, rc, &arg, name);
}

/* Between the two calls somebody may make the domain, or end it. */
int capkm_domain_open(struct capkm *c, const char *name,
		      const struct capkm_domain_opts *opts,
		      struct capkm_error *err)
{
	static const char call[] = "domain_open";
	struct capkm_domain_attach old;
	struct capkm_domain_create new;
	struct capkm_domain_opts o;
	int rc, tries;

	rc = get_own_opts(&o, opts, call, err);
	if (rc)
		return rc;
	for (tries = 0; tries < OPEN_TRIES; tries++) {
		rc = name ? attach(c, name, &o, &old) : -ENOENT;
		if (rc != -ENOENT)
			return tell(c, err, call, CAPKM_NR_DOMAIN_ATTACH, rc,
				    &old, name);
		rc = create(c, name, &o, &new);
		if (rc != -EEXIST)
			return tell(c, err, call, CAPKM_NR_DOMAIN_CREATE, rc,
				    &new, name);
	}
	return capkm_error_set(err, -EAGAIN, CAPKM_NO_INDEX, 0,
		"%s: domain \"%.64s\": made and ended by others %d times over",
		call, name, OPEN_TRIES);
}

int capkm_domain_query(struct capkm *c, struct capkm_domain_query *query,
		       struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_DOMAIN_QUERY, query, err, "%s", "");
}

int capkm_domain_destroy(struct capkm *c, uint64_t domain, uint32_t flags,
			 struct capkm_error *err)
{
	struct capkm_domain_destroy arg = {
		.size = sizeof(arg),
		.flags = flags,
		.domain = domain,
	};
	const uint64_t id = domain ? domain : c->domain;

	return capkm_do(c, CAPKM_NR_DOMAIN_DESTROY, &arg, err,
			"domain %" PRIu64, id);
}

uint64_t capkm_domain_id(const struct capkm *c)
{
	return c->domain;
}

uint64_t capkm_session_id(const struct capkm *c)
{
	return c->session;
}

int capkm_health(struct capkm *c, struct capkm_health *health,
		 struct capkm_error *err)
{
	struct capkm_domain_query q = { .size = sizeof(q) };
	struct capkm_health h;
	int rc = capkm_opts(&h, sizeof(h), health, "health", err);

	if (rc)
		return rc;
	if (!capkm_fast_health(c, &h)) {
		rc = capkm_domain_query(c, &q, err);
		if (rc)
			return rc;
		h.faulted = q.out_faulted;
		h.orphans = q.out_orphans;
		h.sequence = q.out_sequence;
	}
	capkm_opts_put(health, &h, sizeof(h));
	return 0;
}
