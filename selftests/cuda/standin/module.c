// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernels: tables of C functions, instead of code for a GPU. Of a module of PTX they are
 * those that the text has, too.
 */
#include "sim.h"

#include <stdio.h>

struct module {
	SLIST_ENTRY(module) next;
	SLIST_HEAD(, CUfunc_st) functions;
	const struct standin_kernel *kernels;
	char *ptx;		/* or NULL */
	cu_context context;
};
static const struct standin_kernel *of_ptx;
static SLIST_HEAD(, module) modules = SLIST_HEAD_INITIALIZER(modules);

static void module_end(struct module *m)
{
	cu_function f;

	while ((f = SLIST_FIRST(&m->functions))) {
		SLIST_REMOVE_HEAD(&m->functions, next);
		free(f);
	}
	SLIST_REMOVE(&modules, m, module, next);
	free(m->ptx);
	free(m);
}

void modules_end(cu_context context)
{
	struct module *m, *next;

	for (m = SLIST_FIRST(&modules); m; m = next) {
		next = SLIST_NEXT(m, next);
		if (m->context == context)
			module_end(m);
	}
}

EXPORT void capkm_standin_kernels(const struct standin_kernel *table);
void capkm_standin_kernels(const struct standin_kernel *table)
{
	pthread_mutex_lock(&lock);
	of_ptx = table;
	pthread_mutex_unlock(&lock);
}

/* Comments may come before it. */
static bool is_ptx(const char *image)
{
	while (!strncmp(image, "//", 2) || *image == '\n')
		image += strcspn(image, "\n") + 1;
	return !strncmp(image, ".version ", 9);
}

CALL(cuModuleLoadData, (void **module, const void *image), (module, image))
{
	cu_context context;
	struct module *m;
	bool table;
	int rc = unsafe("cuModuleLoadData");

	if (!rc)
		rc = need_context(&context);
	if (rc)
		return rc;
	table = !strncmp(image, STANDIN_MAGIC, sizeof(STANDIN_MAGIC));
	if (!table && (!of_ptx || !is_ptx(image)))
		return INVALID_IMAGE;
	m = calloc(1, sizeof(*m));
	m->kernels = table ? ((const struct standin_image *)image)->kernels : of_ptx;
	m->ptx = table ? NULL : strdup(image);
	m->context = context;
	SLIST_INSERT_HEAD(&modules, m, next);
	*module = m;
	return 0;
}

CALL(cuModuleUnload, (void *module), (module))
{
	struct module *m;
	int rc = unsafe("cuModuleUnload");

	if (rc)
		return rc;
	SLIST_FOREACH(m, &modules, next)
		if (m == module)
			break;
	if (!m)
		gone("module", module);
	module_end(m);
	return 0;
}

/* Each parameter is aligned to its size, or to 8. */
static void lay_out(cu_function f)
{
	size_t align, bytes;

	for (f->n = 0; f->n < 8 && f->kernel->bytes[f->n]; f->n++) {
		bytes = f->kernel->bytes[f->n];
		align = bytes < 8 ? bytes : 8;
		f->bytes = (f->bytes + align - 1) / align * align;
		f->offsets[f->n] = f->bytes;
		f->bytes += bytes;
	}
}

static bool has_entry(const char *ptx, const char *name)
{
	char entry[100];

	snprintf(entry, sizeof(entry), ".visible .entry %s(", name);
	return strstr(ptx, entry);
}

CALL(cuModuleGetFunction, (cu_function *function, void *module, const char *name),
     (function, module, name))
{
	struct module *m = module;
	const struct standin_kernel *k = m->kernels;
	cu_function f;

	while (k->name && strcmp(k->name, name))
		k++;
	if (!k->name || (m->ptx && !has_entry(m->ptx, name)))
		return NOT_FOUND;
	f = calloc(1, sizeof(*f));
	f->kernel = k;
	f->context = m->context;
	lay_out(f);
	SLIST_INSERT_HEAD(&m->functions, f, next);
	*function = f;
	return 0;
}

CALL(cuFuncLoad, (cu_function function), (function))
{
	return function ? 0 : CU_INVALID_HANDLE;
}

CALL(cuFuncGetAttribute, (int *value, int attribute, cu_function function),
     (value, attribute, function))
{
	if (attribute != CU_FUNC_REGISTERS)
		return CU_INVALID_VALUE;
	*value = (int)function->n;
	return 0;
}

CALL(cuFuncGetParamInfo, (cu_function function, size_t index, size_t *offset,
			  size_t *bytes),
     (function, index, offset, bytes))
{
	if (index >= function->n)
		return CU_INVALID_VALUE;
	*offset = function->offsets[index];
	*bytes = function->kernel->bytes[index];
	return 0;
}

/* A kernel is a function here. */
CALL(cuKernelGetParamInfo, (cu_kernel kernel, size_t index, size_t *offset,
			    size_t *bytes),
     (kernel, index, offset, bytes))
{
	return do_cuFuncGetParamInfo((cu_function)kernel, index, offset, bytes);
}

static int take_params(struct action *a, void **params)
{
	const cu_function f = a->kernel.function;
	size_t i;

	if (!f->n)
		return 0;
	a->kernel.params = calloc(9, sizeof(void *));
	a->kernel.bytes = calloc(1, f->bytes + 1);
	a->kernel.size = f->bytes;
	for (i = 0; i < f->n; i++) {
		a->kernel.params[i] = a->kernel.bytes + f->offsets[i];
		memcpy(a->kernel.params[i], params[i], f->kernel->bytes[i]);
	}
	return 0;
}

static int take_extra(struct action *a, void **extra)
{
	const void *block = NULL;
	size_t size = 0;

	for (; extra[0]; extra += 2) {
		if (extra[0] == CU_EXTRA_POINTER)
			block = extra[1];
		else if (extra[0] == CU_EXTRA_SIZE)
			memcpy(&size, extra[1], sizeof(size));
		else
			return CU_INVALID_VALUE;
	}
	if (!block || size < a->kernel.function->bytes)
		return CU_INVALID_VALUE;
	a->kernel.bytes = malloc(size + 1);
	memcpy(a->kernel.bytes, block, size);
	a->kernel.size = size;
	a->kernel.extra = calloc(5, sizeof(void *));
	return 0;
}

static int take(struct action *a, void **params, void **extra)
{
	if (params && extra)
		return CU_INVALID_VALUE;
	if (extra)
		return take_extra(a, extra);
	return params || !a->kernel.function->n ? take_params(a, params) :
						  CU_INVALID_VALUE;
}

CALL(cuLaunchKernel, (cu_function function, unsigned int grid_x,
		      unsigned int grid_y, unsigned int grid_z,
		      unsigned int block_x, unsigned int block_y,
		      unsigned int block_z, unsigned int shared,
		      cu_stream stream, void **params, void **extra),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
      params, extra))
{
	struct action a = { .type = CU_NODE_KERNEL };
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc && (!grid_x || !grid_y || !grid_z || !block_x || !block_y ||
		    !block_z || block_x * block_y * block_z > 1024)) {
		rc = CU_INVALID_VALUE;
		/* An ordinary capture goes on. */
		if (s->capture && s->capture->given)
			s->capture->status = CU_CAPTURE_INVALIDATED;
	}
	a.kernel.function = function;
	a.kernel.shared = shared;
	memcpy(a.kernel.grid, (unsigned int[]){ grid_x, grid_y, grid_z },
	       sizeof(a.kernel.grid));
	memcpy(a.kernel.block, (unsigned int[]){ block_x, block_y, block_z },
	       sizeof(a.kernel.block));
	if (!rc)
		rc = take(&a, params, extra);
	return rc ? rc : issue(s, &a, "cuLaunchKernel");
}

static __thread const struct action *runs;

EXPORT void capkm_standin_launched(unsigned int grid[3], unsigned int block[3]);
void capkm_standin_launched(unsigned int grid[3], unsigned int block[3])
{
	memcpy(grid, runs->kernel.grid, sizeof(runs->kernel.grid));
	memcpy(block, runs->kernel.block, sizeof(runs->kernel.block));
}

int run_kernel(const struct action *a)
{
	const cu_function f = a->kernel.function;
	void *params[9] = { NULL };
	size_t i;

	for (i = 0; i < f->n; i++)
		params[i] = a->kernel.bytes + f->offsets[i];
	runs = a;
	return f->kernel->fn(params);
}
