// SPDX-License-Identifier: GPL-2.0-only
/* Do capadm, the library that programs get, and the module understand each other? */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <capkm/capkm.h>

#include "doctor.h"

/* As each program that was linked with it asks the loader. */
static char *soname(void)
{
	return format("libcapkm.so.%d", atoi(CAPKM_VERSION));
}

static const char *module_version(const struct doctor *d)
{
	return (const char *)d->authority.info.out_version;
}

void check_tool(struct doctor *d)
{
	const struct capkm_info *info = &d->authority.info;
	bool same;

	if (d->authority.err) {
		found(d, FINE, format("capadm %s; there is no module to compare it with",
				      CAPKM_VERSION), NULL);
		return;
	}
	if (info->out_abi_oldest > CAPKM_ABI_VERSION || info->out_abi_version < CAPKM_ABI_OLDEST) {
		found(d, WRONG,
		      format("capadm %s speaks ABI %d to %d, the module %s speaks %u to %u: update %s",
			     CAPKM_VERSION, CAPKM_ABI_OLDEST, CAPKM_ABI_VERSION, module_version(d),
			     info->out_abi_oldest, info->out_abi_version,
			     info->out_abi_oldest > CAPKM_ABI_VERSION ? "capadm" : "the module"),
		      info->out_abi_oldest > CAPKM_ABI_VERSION ?
		      format("type -a capadm  # an older one may come first in PATH") :
		      format("modinfo -F version capkm  # if that is newer: modprobe -r capkm && modprobe capkm"));
		return;
	}
	same = !strcmp(CAPKM_VERSION, module_version(d));
	found(d, same ? FINE : NOTE, same ?
	      format("capadm %s, as the module", CAPKM_VERSION) :
	      format("capadm %s and the module %s differ, and understand each other",
		     CAPKM_VERSION, module_version(d)), NULL);
}

/* What doctor calls of the library, which may be one that we were not built with. */
struct library {
	void *handle;
	const char *path;
	const char *(*version)(void);
	typeof(&capkm_open) open;
	typeof(&capkm_close) close;
};

/* NULL, or what is wrong with it, which is the loader's to say. */
static const char *load(struct library *l, const char *name)
{
	struct link_map *map;

	l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle)
		return dlerror();
	l->path = dlinfo(l->handle, RTLD_DI_LINKMAP, &map) ? name : map->l_name;
	l->version = (typeof(l->version))dlsym(l->handle, "capkm_version");
	l->open = (typeof(l->open))dlsym(l->handle, "capkm_open");
	l->close = (typeof(l->close))dlsym(l->handle, "capkm_close");
	return l->version && l->open && l->close ? NULL : "it is not libcapkm";
}

/* The library is asked itself: what it says is what programs get to hear. */
static void shake_hands(struct doctor *d, const struct library *l)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	bool same = !strcmp(l->version(), module_version(d));
	struct capkm *c;

	if (l->open(DEVICE, NULL, &c, &err)) {
		found(d, WRONG, format("%s, version %s, does not work with the module %s: %s",
				       l->path, l->version(), module_version(d), err.text),
		      format("ldconfig -p | grep libcapkm; modinfo -F version capkm  # update the older one"));
		return;
	}
	l->close(c);
	found(d, same ? FINE : NOTE, same ?
	      format("%s, version %s, works with the module", l->path, l->version()) :
	      format("%s, version %s, and the module %s differ, and understand each other", l->path,
		     l->version(), module_version(d)), NULL);
}

void check_library(struct doctor *d)
{
	char *name = soname();
	struct library l = {};
	const char *why = load(&l, name);

	if (why)
		found(d, NOTE, format("programs do not find the library: %s", why),
		      format("ldconfig -p | grep libcapkm  # install it, or run ldconfig"));
	else if (d->authority.err)
		found(d, FINE, format("%s, version %s", l.path, l.version()), NULL);
	else
		shake_hands(d, &l);
	if (l.handle)
		dlclose(l.handle);
	free(name);
}
