// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "fast.h"
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDED	"embedded:"
#define AUTO		"auto:"
#define PROXY		"proxy:"

const struct capkm_transport *capkm_proxy;

const char *capkm_version(void)
{
	return CAPKM_VERSION;
}

/* The authority's word on itself, and whether each serves the other. */
static int shake_hands(struct capkm *c, const char *path,
		       struct capkm_error *err)
{
	struct capkm_info *info = &c->info;
	int rc;

	info->size = sizeof(*info);
	rc = c->transport->call(c->state, CAPKM_NR_INFO, info);
	if (rc == -ENOTTY)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"open: %s is not a capkm device", path);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"open: %s does not say who it is: %s", path,
			strerror(-rc));
	if (info->out_abi_oldest <= CAPKM_ABI_VERSION &&
	    info->out_abi_version >= CAPKM_ABI_OLDEST)
		return 0;
	return capkm_error_set(err, -EPROTONOSUPPORT, CAPKM_NO_INDEX, 0,
		"open: %s (version %.32s) speaks ABI %" PRIu32 " and serves from ABI %" PRIu32
		" on; libcapkm %s speaks ABI %d and is served from ABI %d on: update %s",
		c->transport->name, (const char *)info->out_version,
		(uint32_t)info->out_abi_version, (uint32_t)info->out_abi_oldest,
		capkm_version(), CAPKM_ABI_VERSION, CAPKM_ABI_OLDEST,
		info->out_abi_oldest > CAPKM_ABI_VERSION ? "the library" :
		c->transport->name);
}

static int open_with(struct capkm *c, const struct capkm_transport *transport,
		     const char *path, struct capkm_error *err)
{
	char why[400] = "";
	int rc;

	c->transport = transport;
	rc = transport->open(path, &c->state, why, sizeof(why));
	return rc ? capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "open: %s", why)
		  : 0;
}

static int open_any(struct capkm *c, const char *path, struct capkm_error *err)
{
	if (!strcmp(path, EMBEDDED))
		return open_with(c, &capkm_transport_embedded, path, err);
	if (capkm_proxy && !strncmp(path, PROXY, strlen(PROXY)))
		return open_with(c, capkm_proxy, path + strlen(PROXY), err);
	if (strcmp(path, AUTO))
		return open_with(c, &capkm_transport_kernel, path, err);
	if (!open_with(c, &capkm_transport_kernel, DEVICE_NODE, NULL))
		return 0;
	return open_with(c, &capkm_transport_embedded, path, err);
}

static int open_handle(struct capkm *c, const char *path,
		       struct capkm_error *err)
{
	int rc = open_any(c, path, err);

	if (rc)
		return rc;
	rc = shake_hands(c, path, err);
	if (rc)
		c->transport->close(c->state, false);
	return rc;
}

/* Without joining: the session may be attached, and may let us ask which. */
static void look_around(struct capkm *c)
{
	struct capkm_domain_query query = { .size = sizeof(query) };

	if (capkm_call(c, CAPKM_NR_DOMAIN_QUERY, &query))
		return;
	c->domain = query.out_domain;
	c->session = query.out_session;
}

static int adopt(struct capkm *c, int fd, uint32_t flags,
		 struct capkm_error *err)
{
	char name[32];
	int rc;

	c->transport = &capkm_transport_kernel;
	snprintf(name, sizeof(name), "descriptor %d", fd);
	rc = capkm_kernel_adopt(fd, &c->state);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
				       "open: %s: %s", name, strerror(-rc));
	rc = shake_hands(c, name, err);
	if (!rc && flags & CAPKM_OPEN_OPTS_NO_JOIN)
		look_around(c);
	else if (!rc)
		rc = capkm_join(c, err);
	if (rc)
		c->transport->close(c->state, false);
	return rc;
}

static const char *default_path(void)
{
	const char *path = secure_getenv("CAPKM_DEVICE");

	return path && *path ? path : DEVICE_NODE;
}

static bool is_off(const char *word)
{
	return word && !strcmp(word, "off");
}

/* @o: filled from @opts, which may have @flags. */
static int new_handle(struct capkm_open_opts *o,
		      const struct capkm_open_opts *opts, uint32_t flags,
		      struct capkm **out, struct capkm_error *err)
{
	struct capkm *c;
	int rc = capkm_opts(o, sizeof(*o), opts, "open", err);

	if (rc)
		return rc;
	if (o->flags & ~flags)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"open: flags 0x%" PRIx32 " are not for this call",
			o->flags);
	c = calloc(1, sizeof(*c));
	if (!c)
		return capkm_no_memory("open", err);
	c->generation = capkm_generation();
	c->retry_ms = o->retry_ms ? o->retry_ms : RETRY_MS;
	c->fast_off = is_off(secure_getenv("CAPKM_FAST_PATH"));
	*out = c;
	return 0;
}

int capkm_open(const char *path, const struct capkm_open_opts *opts,
	       struct capkm **out, struct capkm_error *err)
{
	struct capkm_open_opts o;
	struct capkm *c;
	int rc = new_handle(&o, opts, 0, &c, err);

	if (rc)
		return rc;
	rc = open_handle(c, path ? path : default_path(), err);
	if (rc)
		free(c);
	else
		*out = c;
	return rc;
}

int capkm_open_fd(int fd, const struct capkm_open_opts *opts,
		  struct capkm **out, struct capkm_error *err)
{
	struct capkm_open_opts o;
	struct capkm *c;
	int rc = new_handle(&o, opts, CAPKM_OPEN_OPTS_NO_JOIN, &c, err);

	if (rc)
		return rc;
	rc = adopt(c, fd, o.flags, err);
	if (rc)
		free(c);
	else
		*out = c;
	return rc;
}

/*
 * The kernel knows who calls, however the process came by the descriptor. What
 * a child inherits of an embedded engine must not be touched.
 */
int capkm_join(struct capkm *c, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_SESSION_JOIN;
	struct capkm_session_join arg = { .size = sizeof(arg) };
	int rc;

	if (capkm_inherited(c) && c->transport != &capkm_transport_kernel)
		return capkm_error_set(err, -ECANCELED, CAPKM_NO_INDEX, 0,
			"join: a session of %s cannot be shared after fork; open a handle in this process",
			c->transport->name);
	rc = c->transport->call(c->state, nr, &arg);
	if (rc)
		return capkm_refuse(c, err, nr, rc, &arg, "%s", "");
	c->domain = arg.out_domain;
	c->session = arg.out_session;
	c->backend = arg.out_backend;
	c->max_streams = arg.out_max_streams;
	c->generation = capkm_generation();
	return 0;
}

void capkm_close(struct capkm *c)
{
	if (!c)
		return;
	capkm_fast_close(c);
	c->transport->close(c->state, capkm_inherited(c));
	capkm_write_set_free(c->spare);
	free(c);
}

enum capkm_authority capkm_authority(const struct capkm *c)
{
	return c->transport == &capkm_transport_embedded ?
		CAPKM_AUTHORITY_EMBEDDED : CAPKM_AUTHORITY_KERNEL;
}

int capkm_info(const struct capkm *c, struct capkm_info *info,
	       struct capkm_error *err)
{
	struct capkm_info known = { .size = sizeof(known) };
	const uint32_t size = info->size;
	int rc = capkm_not_inherited(c, "info", err);

	if (rc)
		return rc;
	if (size < sizeof(info->size))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"info: info->size is %" PRIu32 ", not sizeof(*info)",
			size);
	if (size >= offsetof(struct capkm_info, out_limits)) {
		known.limits_uptr = info->limits_uptr;
		known.limits_len = info->limits_len;
	}
	rc = c->transport->call(c->state, CAPKM_NR_INFO, &known);
	if (rc)
		return capkm_refuse(c, err, CAPKM_NR_INFO, rc, NULL, "%s", "");
	memset(info, 0, size);
	memcpy(info, &known, size < sizeof(known) ? size : sizeof(known));
	info->size = size;
	return 0;
}

int capkm_fd(const struct capkm *c)
{
	return c->transport->fd(c->state);
}

int capkm_call(struct capkm *c, unsigned int nr, void *arg)
{
	if (capkm_inherited(c))
		return -ECANCELED;
	return c->transport->call(c->state, nr, arg);
}
