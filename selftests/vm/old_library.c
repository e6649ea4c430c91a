// SPDX-License-Identifier: GPL-2.0-only
/*
 * What "capadm doctor" sees of a libcapkm that is too old for the module: it has a version,
 * and says why it does not work.
 */
#include <errno.h>
#include <stdio.h>

#include <capkm/capkm.h>

const char *capkm_version(void)
{
	return "0.0.1";
}

int capkm_open(const char *path, const struct capkm_open_opts *opts, struct capkm **out,
	       struct capkm_error *err)
{
	(void)opts;
	(void)out;
	snprintf(err->text, sizeof(err->text), "open: %s serves from ABI 1 on: update the library",
		 path);
	return err->err = -EPROTONOSUPPORT;
}

void capkm_close(struct capkm *c)
{
	(void)c;
}
