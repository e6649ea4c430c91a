// SPDX-License-Identifier: MIT
/* Kernels, and launches that are prepared: checked, resolved, with all they need. */
#include "host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRID_BYTES	(3 * sizeof(uint32_t))

/* The executor's own have no id, and all executors share them. */
static void kernel_get(struct kernel *k)
{
	if (k->id)
		k->refs++;
}

void capkm_kernel_put(struct kernel *k)
{
	if (k->id && !--k->refs)
		free(k);
}

/* The source of a write, as large as its destination, is its metadata. */
static int run_write(const struct capkm_host_call *call)
{
	memcpy(call->args[0], call->info, call->bytes[0]);
	return 0;
}

static int run_copy(const struct capkm_host_call *call)
{
	memcpy(call->args[0], call->args[1], call->bytes[0]);
	return 0;
}

struct kernel capkm_kernel_write = {
	.state = COMPILED, .fn = run_write, .name = "write"
};
struct kernel capkm_kernel_copy = {
	.state = COMPILED, .fn = run_copy, .name = "copy"
};

static int check_kernel(const struct capkm_host_kernel *k,
			struct capkm_error *err)
{
	if (!k->name || !*k->name)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"host_kernel_create: a kernel needs a name");
	if (!k->fn == !k->compile)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"host_kernel_create: give one of fn and compile");
	return 0;
}

int capkm_host_kernel_create(struct capkm_host *host,
			     const struct capkm_host_kernel *desc,
			     uint64_t *kernel, struct capkm_error *err)
{
	struct capkm_host_kernel o;
	struct kernel *k;
	int rc = capkm_opts(&o, sizeof(o), desc, "host_kernel_create", err);

	if (!rc)
		rc = check_kernel(&o, err);
	if (!rc)
		rc = capkm_host_enter(host, "host_kernel_create", err);
	if (rc)
		return rc;
	k = calloc(1, sizeof(*k));
	rc = k ? capkm_table_add(&host->kernels, k, &k->id) : -ENOMEM;
	if (rc) {
		free(k);
		capkm_host_leave(host);
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"host_kernel_create: no room for another kernel");
	}
	k->refs = 1;
	k->fn = o.fn;
	k->compile = o.compile;
	k->context = o.context;
	k->state = o.fn ? COMPILED : SOURCE;
	memcpy(k->name, o.name, capkm_cut(o.name, CAPKM_LABEL_MAX));
	*kernel = k->id;
	capkm_host_leave(host);
	return 0;
}

int capkm_host_kernel_destroy(struct capkm_host *host, uint64_t kernel,
			      struct capkm_error *err)
{
	struct kernel *k;
	int rc = capkm_host_enter(host, "host_kernel_destroy", err);

	if (rc)
		return rc;
	k = capkm_table_find(&host->kernels, kernel);
	if (k) {
		capkm_table_remove(&host->kernels, kernel);
		capkm_kernel_put(k);
	} else {
		rc = capkm_host_unknown(&host->kernels, kernel,
					"host_kernel_destroy", "kernel",
					CAPKM_NO_INDEX, err);
	}
	capkm_host_leave(host);
	return rc;
}

struct compiling {
	struct capkm_host *host;
	struct kernel *kernel;
	struct inside inside;
};

/* Also when the compiler ends its thread. */
static void compiled(void *context)
{
	struct compiling *c = context;

	capkm_host_come_out(&c->inside);
	pthread_mutex_lock(&c->host->lock);
	c->kernel->state = c->kernel->fn ? COMPILED : SOURCE;
	pthread_cond_broadcast(&c->host->progress);
}

static void compiler_died(void *context)
{
	struct compiling *c = context;

	compiled(c);
	capkm_kernel_put(c->kernel);
	pthread_mutex_unlock(&c->host->lock);
}

int capkm_kernel_compile(struct capkm_host *host, struct kernel *k, char *why,
			 size_t why_size)
{
	struct compiling c = { .host = host, .kernel = k };
	capkm_host_fn fn = NULL;
	int rc;

	while (k->state == COMPILING)
		pthread_cond_wait(&host->progress, &host->lock);
	if (k->state == COMPILED)
		return 0;
	k->state = COMPILING;
	why[0] = '\0';
	pthread_mutex_unlock(&host->lock);
	capkm_host_go_inside(&c.inside, host);
	pthread_cleanup_push(compiler_died, &c);
	rc = k->compile(k->context, &fn, why, why_size);
	pthread_cleanup_pop(0);
	if (!rc && fn)
		k->fn = fn;
	compiled(&c);
	why[why_size - 1] = '\0';
	if (k->fn)
		return 0;
	if (!why[0])
		snprintf(why, why_size, "it does not compile: %d", rc);
	return rc ? rc : -ENOEXEC;
}

int capkm_dispatch_run(struct capkm_host *host, struct dispatch *d, char *why,
		       size_t why_size)
{
	struct capkm_host_call call = {
		.context = d->kernel->context,
		.grid = { d->grid[0], d->grid[1], d->grid[2] },
		.args_len = d->args_len,
		.args = d->args,
		.bytes = d->bytes,
		.info = d->info,
		.info_bytes = d->info_bytes,
		.why_size = (uint32_t)why_size,
		.why = why,
	};
	struct inside frame;
	int rc, old;

	why[0] = '\0';
	capkm_host_go_inside(&frame, host);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	rc = d->kernel->fn(&call);
	pthread_setcancelstate(old, &old);
	capkm_host_come_out(&frame);
	why[why_size - 1] = '\0';
	if (rc && !why[0])
		snprintf(why, why_size, "it returned %d", rc);
	return rc;
}

void capkm_dispatch_forget(struct capkm_host *host, struct dispatch *d)
{
	while (d->uses_len) {
		struct memory *m = d->uses[--d->uses_len].memory;

		capkm_memory_unuse(host, m);
		capkm_memory_put(m);
	}
}

void capkm_dispatch_free(struct capkm_host *host, struct dispatch *d)
{
	capkm_dispatch_forget(host, d);
	if (d->metadata)
		capkm_pool_unpin(host->metadata, d->metadata, NULL);
	capkm_kernel_put(d->kernel);
	free(d);
}

/* The arrays of a launch with @args arguments are behind the struct. */
static struct dispatch *new_dispatch(uint32_t args, struct kernel *kernel,
				     uint64_t stream)
{
	const size_t n = (size_t)args + 1;	/* the grid is read, too */
	struct dispatch *d = calloc(1, sizeof(*d) + n * (2 * sizeof(*d->reads) +
				    sizeof(*d->uses) + sizeof(*d->args) +
				    sizeof(*d->bytes)));

	if (!d)
		return NULL;
	d->reads = (void *)(d + 1);
	d->writes = d->reads + n;
	d->uses = (void *)(d->writes + n);
	d->bytes = (void *)(d->uses + n);
	d->args = (void *)(d->bytes + n);
	d->stream = stream;
	d->kernel = kernel;
	kernel_get(kernel);
	return d;
}

static int add_range(struct capkm_host *host, struct dispatch *d,
		     const struct capkm_host_range *range, uint32_t access,
		     const char *call, uint32_t index, void **address,
		     uint64_t *bytes, struct capkm_error *err)
{
	struct capkm_host_range r = *range;
	struct memory *m;
	struct capkm_claim claim;
	int rc = capkm_memory_range(host, &r, call, index, &m, err);

	if (rc)
		return rc;
	if (!m->address && d->poison)
		return capkm_error_set(err, -EINVAL, index, 0,
			"%s: memory %" PRIu64 " was never allocated; nothing can run on it",
			call, range->memory);
	claim = capkm_memory_claim(m, &r);
	if (access & CAPKM_HOST_READ)
		d->reads[d->reads_len++] = claim;
	if (access & CAPKM_HOST_WRITE)
		d->writes[d->writes_len++] = claim;
	capkm_memory_get(m);
	capkm_memory_use(m);
	d->uses[d->uses_len++] = (struct use){ m, access };
	*address = m->address ? m->address + r.start : NULL;
	*bytes = r.end - r.start;
	return 0;
}

static int add_args(struct capkm_host *host, struct dispatch *d,
		    const struct capkm_host_launch *l, const char *call,
		    struct capkm_error *err)
{
	const uint32_t known = CAPKM_HOST_READ | CAPKM_HOST_WRITE;
	uint32_t i;
	int rc = 0;

	for (i = 0; i < l->args_len && !rc; i++) {
		const struct capkm_host_arg *a = &l->args[i];

		if (!a->access || a->access & ~known || a->__reserved)
			return capkm_error_set(err, -EINVAL, i, 0,
				"%s: argument %" PRIu32 ": access is CAPKM_HOST_READ, CAPKM_HOST_WRITE or both, not 0x%x, and __reserved 0",
				call, i, a->access);
		rc = add_range(host, d, &a->range, a->access, call, i,
			       &d->args[i], &d->bytes[i], err);
	}
	d->args_len = l->args_len;
	return rc;
}

/* The last of its reads. */
static int add_grid(struct capkm_host *host, struct dispatch *d,
		    const struct capkm_host_launch *l, const char *call,
		    struct capkm_error *err)
{
	uint64_t bytes;
	void *at;
	int rc;

	memcpy(d->grid, l->grid, sizeof(d->grid));
	if (!l->grid_range.memory)
		return 0;
	rc = add_range(host, d, &l->grid_range, CAPKM_HOST_READ, call,
		       CAPKM_NO_INDEX, &at, &bytes, err);
	if (rc)
		return rc;
	if (bytes != GRID_BYTES || (uintptr_t)at % sizeof(uint32_t))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: a grid_range is %zu bytes, aligned to 4", call,
			GRID_BYTES);
	d->grid_at = at;
	d->has_grid = true;
	return 0;
}

/* Metadata is the cache's, or this dispatch's alone: then it goes with the pin. */
static int add_info(struct capkm_host *host, struct slot *slot,
		    struct dispatch *d, const struct capkm_host_launch *l,
		    struct capkm_error *err)
{
	const uint64_t window = slot->recording ? slot->recording->window : 0;
	struct capkm_pool_slice slice = CAPKM_OPTS(struct capkm_pool_slice);
	uint64_t value;
	int kept, rc;

	if (!l->info_bytes)
		return 0;
	host->making = slot->index;
	rc = capkm_cache_get(host->cache, window, l->info, l->info_bytes,
			     &value, &kept, err);
	if (rc)
		return rc;
	rc = capkm_pool_find(host->metadata, value, &slice, err);
	if (!rc)
		rc = capkm_pool_pin(host->metadata, value, err);
	if (!kept)
		capkm_pool_free(host->metadata, value, NULL);
	if (rc)
		return rc;
	d->metadata = value;
	d->info = (const void *)(uintptr_t)slice.address;
	d->info_bytes = l->info_bytes;
	return 0;
}

int capkm_dispatch_new(struct capkm_host *host, struct slot *slot,
		       struct kernel *kernel, uint64_t stream,
		       const struct capkm_host_launch *launch,
		       const char *call, struct dispatch **out,
		       struct capkm_error *err)
{
	const uint32_t max = host->c->info.out_claims_max;
	struct dispatch *d;
	int rc;

	if (launch->args_len >= max)
		return capkm_error_set(err, -EMSGSIZE, CAPKM_NO_INDEX, 0,
			"%s: a launch has less than %" PRIu32 " arguments, not %" PRIu32,
			call, max, launch->args_len);
	d = new_dispatch(launch->args_len, kernel, stream);
	if (!d)
		return capkm_no_memory(call, err);
	if (launch->flags & CAPKM_HOST_LAUNCH_F_POISON)
		d->poison = CAPKM_SCOPE_ENTER_F_POISON;
	rc = add_args(host, d, launch, call, err);
	if (!rc)
		rc = add_grid(host, d, launch, call, err);
	if (!rc)
		rc = add_info(host, slot, d, launch, err);
	if (rc) {
		capkm_dispatch_free(host, d);
		return rc;
	}
	*out = d;
	return 0;
}
