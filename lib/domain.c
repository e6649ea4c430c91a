// SPDX-License-Identifier: MIT
#include "internal.h"

#include <inttypes.h>
#include <string.h>

/* Tries of capkm_domain_open(), each of which somebody else must have spoilt. */
#define OPEN_TRIES	32

static void attached(struct capkm *c, uint64_t domain, uint64_t session,
		     uint32_t backend)
{
	c->domain = domain;
	c->session = session;
	c->backend = backend;
}

static int get_opts(struct capkm_domain_opts *o,
		    const struct capkm_domain_opts *opts, unsigned int nr,
		    uint32_t flags, struct capkm_error *err)
{
	int rc = capkm_opts(o, sizeof(*o), opts, capkm_op_name(nr), err);

	if (!rc && (o->flags & ~flags || o->__reserved))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: flags 0x%" PRIx32 " or a reserved member is not for this call",
			capkm_op_name(nr), o->flags);
	return rc;
}

static int create(struct capkm *c, const char *name,
		  const struct capkm_domain_opts *o)
{
	struct capkm_domain_create arg = {
		.size = sizeof(arg),
		.name_uptr = uptr(name),
		.name_len = name ? (uint32_t)strlen(name) : 0,
		.mode = o->mode,
		.max_streams = o->max_streams,
		.backend = o->backend,
	};
	int rc;

	if (o->flags & CAPKM_DOMAIN_OPTS_PERSISTENT)
		arg.flags = CAPKM_DOMAIN_CREATE_F_PERSISTENT;
	rc = capkm_call(c, CAPKM_NR_DOMAIN_CREATE, &arg);
	if (!rc)
		attached(c, arg.out_domain, arg.out_session, o->backend);
	return rc;
}

static int attach(struct capkm *c, const char *name,
		  const struct capkm_domain_opts *o)
{
	struct capkm_domain_attach arg = {
		.size = sizeof(arg),
		.domain = o->domain,
		.name_uptr = uptr(name),
		.name_len = name ? (uint32_t)strlen(name) : 0,
		.owner_uid = o->owner_uid,
		.max_streams = o->max_streams,
		.backend = o->backend,
	};
	int rc;

	if (o->flags & CAPKM_DOMAIN_OPTS_OWNER)
		arg.flags = CAPKM_DOMAIN_ATTACH_F_OWNER;
	rc = capkm_call(c, CAPKM_NR_DOMAIN_ATTACH, &arg);
	if (!rc)
		attached(c, arg.out_domain, arg.out_session, o->backend);
	return rc;
}

static int refuse(const struct capkm *c, struct capkm_error *err,
		  unsigned int nr, int rc, const char *name, uint64_t domain)
{
	if (name)
		return capkm_refuse(c, err, nr, rc, "domain \"%.64s\"", name);
	if (domain)
		return capkm_refuse(c, err, nr, rc, "domain %" PRIu64, domain);
	return capkm_refuse(c, err, nr, rc, "%s", "");
}

int capkm_domain_create(struct capkm *c, const char *name,
			const struct capkm_domain_opts *opts,
			struct capkm_error *err)
{
	struct capkm_domain_opts o;
	int rc = get_opts(&o, opts, CAPKM_NR_DOMAIN_CREATE,
			  CAPKM_DOMAIN_OPTS_PERSISTENT, err);

	if (rc)
		return rc;
	rc = create(c, name, &o);
	return rc ? refuse(c, err, CAPKM_NR_DOMAIN_CREATE, rc, name, 0) : 0;
}

int capkm_domain_attach(struct capkm *c, const char *name,
			const struct capkm_domain_opts *opts,
			struct capkm_error *err)
{
	struct capkm_domain_opts o;
	int rc = get_opts(&o, opts, CAPKM_NR_DOMAIN_ATTACH,
			  CAPKM_DOMAIN_OPTS_OWNER, err);

	if (rc)
		return rc;
	rc = attach(c, name, &o);
	return rc ? refuse(c, err, CAPKM_NR_DOMAIN_ATTACH, rc, name, o.domain)
		  : 0;
}

/* Between the two calls somebody may make the domain, or end it. */
int capkm_domain_open(struct capkm *c, const char *name,
		      const struct capkm_domain_opts *opts,
		      struct capkm_error *err)
{
	struct capkm_domain_opts o;
	int rc, tries;

	if (!name)
		return capkm_domain_create(c, name, opts, err);
	rc = get_opts(&o, opts, CAPKM_NR_DOMAIN_ATTACH,
		      CAPKM_DOMAIN_OPTS_PERSISTENT, err);
	if (rc)
		return rc;
	for (tries = 0; tries < OPEN_TRIES; tries++) {
		rc = attach(c, name, &o);
		if (rc != -ENOENT)
			return rc ? refuse(c, err, CAPKM_NR_DOMAIN_ATTACH, rc,
					   name, 0) : 0;
		rc = create(c, name, &o);
		if (rc != -EEXIST)
			return rc ? refuse(c, err, CAPKM_NR_DOMAIN_CREATE, rc,
					   name, 0) : 0;
	}
	return capkm_error_set(err, -EAGAIN, CAPKM_NO_INDEX, 0,
		"domain_open: domain \"%.64s\": made and ended by others %d times over",
		name, OPEN_TRIES);
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
