// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDED	"embedded:"
#define AUTO		"auto:"

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

static const char *default_path(void)
{
	const char *path = secure_getenv("CAPKM_DEVICE");

	return path && *path ? path : DEVICE_NODE;
}

int capkm_open(const char *path, const struct capkm_open_opts *opts,
	       struct capkm **out, struct capkm_error *err)
{
	struct capkm_open_opts o;
	struct capkm *c;
	int rc;

	rc = capkm_opts(&o, sizeof(o), opts, "open", err);
	if (rc)
		return rc;
	if (o.flags)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"open: flags must be 0, not 0x%" PRIx32, o.flags);
	c = calloc(1, sizeof(*c));
	if (!c)
		return capkm_error_set(err, -ENOMEM, CAPKM_NO_INDEX, 0,
			"open: out of memory");
	c->generation = capkm_generation();
	c->retry_ms = o.retry_ms ? o.retry_ms : RETRY_MS;
	rc = open_handle(c, path ? path : default_path(), err);
	if (rc) {
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

void capkm_close(struct capkm *c)
{
	if (!c)
		return;
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
	const uint32_t size = info->size;

	if (size < sizeof(info->size))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"info: info->size is %" PRIu32 ", not sizeof(*info)",
			size);
	memset(info, 0, size);
	memcpy(info, &c->info, size < sizeof(c->info) ? size : sizeof(c->info));
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
