// SPDX-License-Identifier: MIT
/* Finds the CUDA driver that the process has, and the functions in it. */
#define _GNU_SOURCE
#include "driver.h"

#include "internal.h"

#include <dlfcn.h>

#define LIBRARY		"libcuda.so.1"
/* CUdriverProcAddress_flags */
#define LEGACY_STREAM	1u
#define PER_THREAD	2u
#define PER_THREAD_SINCE	7000	/* no function of that kind is older */

typedef int (*get_proc_fn)(const char *name, void **out, int version,
			   uint64_t flags, int *status);

/* The one that is loaded already, whoever did that, goes first. */
static void *open_library(const char *file)
{
	void *library = NULL;

	if (!file)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	return library ? library : dlopen(file ? file : LIBRARY, RTLD_NOW);
}

static int no_driver(struct capkm_error *err, const char *file)
{
	const char *why = dlerror();

	return capkm_error_set(err, -ENODEV, CAPKM_NO_INDEX, 0,
		"cuda_open: there is no CUDA driver: %s",
		why ? why : file ? file : LIBRARY);
}

static int too_old(struct capkm_error *err, int version, const char *lacks)
{
	return capkm_error_set(err, -EPROTONOSUPPORT, CAPKM_NO_INDEX, 0,
		"cuda_open: the driver is of CUDA %d.%d and lacks %s; CUDA 12.0 or newer is needed",
		version / 1000, version % 1000 / 10, lacks);
}

struct wanted {
	const char *name;
	int version;
	int optional;
	size_t at;
};
#define CU_WANTED(call, since, args) \
	{ #call, since, 0, offsetof(struct cu_driver, call) },
#define CU_OPTIONAL(call, since, args) \
	{ #call, since, 1, offsetof(struct cu_driver, call) },
static const struct wanted table[] = { CU_CALLS(CU_WANTED, CU_OPTIONAL) };

static int fill(struct cu_driver *cu, get_proc_fn get_proc, uint64_t flags,
		struct capkm_error *err)
{
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++) {
		void **to = (void **)((char *)cu + table[i].at);
		int status = 0, version = table[i].version;

		if (flags & PER_THREAD && version < PER_THREAD_SINCE)
			version = PER_THREAD_SINCE;
		if (!get_proc(table[i].name, to, version, flags, &status) &&
		    *to)
			continue;
		*to = NULL;
		if (!table[i].optional)
			return too_old(err, cu->version, table[i].name);
	}
	return 0;
}

static int start(struct cu_driver *cu, struct capkm_error *err)
{
	const char *name = NULL;
	int rc = cu->cuInit(0);

	if (!rc)
		return 0;
	cu->cuGetErrorName(rc, &name);
	rc = capkm_error_set(err, -ENODEV, CAPKM_NO_INDEX, 0,
		"cuda_open: the CUDA driver does not start: %s (%d)",
		name ? name : "unknown", rc);
	return rc;
}

int capkm_cu_load(struct cu_driver *cu, const char *file, int per_thread,
		  struct capkm_error *err)
{
	int (*get_version)(int *version);
	get_proc_fn get_proc;
	int rc;

	dlerror();
	cu->library = open_library(file);
	if (!cu->library)
		return no_driver(err, file);
	*(void **)&get_version = dlsym(cu->library, "cuDriverGetVersion");
	*(void **)&get_proc = dlsym(cu->library, "cuGetProcAddress_v2");
	cu->version = 0;
	if (!get_version || get_version(&cu->version))
		rc = no_driver(err, file);
	else if (cu->version < CU_OLDEST || !get_proc)
		rc = too_old(err, cu->version, "cuGetProcAddress_v2");
	else
		rc = fill(cu, get_proc, per_thread ? PER_THREAD : LEGACY_STREAM,
			  err);
	if (!rc)
		rc = start(cu, err);
	if (rc)
		capkm_cu_unload(cu);
	return rc;
}

void capkm_cu_unload(struct cu_driver *cu)
{
	dlclose(cu->library);
}
