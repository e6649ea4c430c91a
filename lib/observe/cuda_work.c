// SPDX-License-Identifier: MIT
/*
 * Observations on the device: work of the tensor's stream, which is issued and waited for
 * through the bridge, and never recorded.
 */
#include "device.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reduce.h"

#define GATHER_BLOCKS 4096u
#define REDUCTION_EACH 4u	/* values of a thread, before there are more blocks */

/* what is selected */

/* From the last axis on; an axis that continues the one behind it is merged with it. */
static void add_axis(struct view *v, uint64_t selected, uint64_t step)
{
	const uint32_t last = v->rank - 1;

	if (selected == 1)
		return;
	if (v->rank && step == v->step[last] * v->selected[last]) {
		v->selected[last] *= selected;
		return;
	}
	v->selected[v->rank] = selected;
	v->step[v->rank++] = step;
}

static void reverse(struct view *v)
{
	uint64_t selected, step;
	uint32_t i, j;

	for (i = 0, j = v->rank; i + 1 < j; i++) {
		j--;
		selected = v->selected[i];
		step = v->step[i];
		v->selected[i] = v->selected[j];
		v->step[i] = v->step[j];
		v->selected[j] = selected;
		v->step[j] = step;
	}
}

/* If something is selected all products are within the tensor; else they do not count. */
void capkm_device_view(const struct capkm_observe_geometry *g, uint64_t address,
		       uint32_t bytes, struct view *v)
{
	const bool last = g->selection->transform.kind ==
			  CAPKM_TRANSFORM_TOP_CANDIDATES;
	uint64_t pitch = bytes, n, first;
	uint32_t i;

	*v = (struct view){
		.address = address, .elements = g->elements, .dtype = g->dtype,
	};
	for (i = g->rank; i--; pitch *= g->shape[i]) {
		n = g->selected[i];
		first = g->starts[i];
		if (last && n && i + 1 < g->rank) {
			first += (n - 1) * g->strides[i];
			v->elements /= n;
			n = 1;
		}
		v->address += first * pitch;
		add_axis(v, n, g->strides[i] * pitch);
	}
	reverse(v);
}

/* Elements that lie side by side, from one whose index is a multiple of that. */
static uint64_t run_of(const struct view *v, uint32_t bytes)
{
	return v->rank && v->step[v->rank - 1] == bytes ?
		v->selected[v->rank - 1] : 1;
}

/* Where element @i is: as the kernels have it. */
static uint64_t address_of(const struct view *v, uint64_t i)
{
	uint64_t address = v->address;
	uint32_t axis = v->rank;

	while (axis > 1) {
		axis--;
		address += i % v->selected[axis] * v->step[axis];
		i /= v->selected[axis];
	}
	return axis ? address + i * v->step[0] : address;
}

/* the staging memory */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* As many as the number of values says, so sums do not depend on the device. */
static uint32_t blocks_of(uint64_t n)
{
	return (uint32_t)min_u64((n - 1) / (THREADS * REDUCTION_EACH) + 1,
				 MAX_BLOCKS);
}

/* Edges of a histogram, before its counts. */
static uint64_t edges_bytes(const struct capkm_observe_transform *t)
{
	return (t->edges_len * sizeof(float) + 7) / 8 * 8;
}

static uint64_t counts_bytes(const struct capkm_observe_transform *t)
{
	return (COUNTS_BEFORE + t->edges_len - 1) * sizeof(u64);
}

int capkm_device_staging(const struct capkm_observe_cuda *o,
			 const struct capkm_observe_geometry *g, uint32_t bytes,
			 uint64_t *used, char *why, size_t size)
{
	const struct capkm_observe_transform *t = &g->selection->transform;
	struct view v;
	uint64_t n;

	*used = 0;
	if (!g->elements)
		return 0;
	capkm_device_view(g, 0, bytes, &v);
	switch (t->kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		*used = (blocks_of(v.elements) + 1) * sizeof(struct partial);
		return 0;
	case CAPKM_TRANSFORM_HISTOGRAM:
		*used = edges_bytes(t) + counts_bytes(t);
		return 0;
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		n = min_u64(t->count, v.elements);
		if (v.elements >= FOUND_NONE)
			return capkm_observe_why(why, size, -EOVERFLOW,
				"%" PRIu64 " candidates are more than 32 bits can number",
				(uint64_t)v.elements);
		if (n > o->staging_bytes / sizeof(struct found))
			return capkm_observe_why(why, size, -EOPNOTSUPP,
				"%" PRIu64 " candidates do not fit into %" PRIu64 " bytes; create the backend with more staging_bytes",
				n, o->staging_bytes);
		*used = n * sizeof(struct found);
		return 0;
	default:
		n = capkm_observe_emitted(g);
		if (n > run_of(&v, bytes))
			*used = min_u64(n, o->staging_bytes / bytes) * bytes;
		return 0;
	}
}

/* work */

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static struct capkm_cuda_range range_of(const struct device_tensor *t)
{
	return (struct capkm_cuda_range){ t->t.address, t->bytes };
}

/* It was not issued: an input is tainted. The tensor, unless that was put right since. */
static int skipped(struct device_job *job, uint32_t result)
{
	const struct capkm_cuda_range tensor = range_of(job->tensor);
	int rc = capkm_cuda_check(job->o->bridge, &tensor, job->err);

	if (rc)
		return rc;
	return capkm_error_set(job->err, -ESTALE, CAPKM_NO_INDEX, 0,
			       "observe: the work was %s",
			       capkm_result_name(result));
}

/* From now on the staging memory is in use, until the stream was waited for. */
static int issued(struct device_job *job, int rc, uint32_t result)
{
	if (rc)
		return rc;
	if (result != CAPKM_CLEAN)
		return skipped(job, result);
	job->o->unsettled = true;
	job->o->unsettled_on = job->tensor->t.stream;
	return 0;
}

/* @reads: of the staging memory; NULL: of the tensor */
static int launch(struct device_job *job, cu_function function, uint32_t blocks,
		  uint32_t threads, uint32_t shared, void **params,
		  const struct capkm_cuda_range *reads,
		  const struct capkm_cuda_range *writes)
{
	const struct capkm_cuda_range both[] = {
		range_of(job->tensor), reads ? *reads : *writes,
	};
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.label = "observe", .reads = both, .reads_len = reads ? 2 : 1,
		.writes = writes, .writes_len = 1);
	const struct capkm_cuda_launch l = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = function, .grid = { blocks, 1, 1 },
		.block = { threads, 1, 1 }, .shared = shared, .params = params,
		.flags = CAPKM_CUDA_LAUNCH_F_NOW);
	uint32_t result = CAPKM_CLEAN;
	int rc = capkm_cuda_launch(job->o->bridge, job->tensor->t.stream, &l,
				   &work, &result, job->err);

	if (!rc && result == CAPKM_CLEAN)
		count(&job->o->launches, 1);
	return issued(job, rc, result);
}

/* Into the staging memory: from the host, or from the tensor. */
static int copy(struct device_job *job, uint64_t to, uint64_t from, uint64_t bytes,
		_Atomic uint64_t *counter)
{
	const struct capkm_cuda_copy c = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = to, .from = from, .bytes = bytes, .label = "observe",
		.flags = CAPKM_CUDA_COPY_F_NOW);
	uint32_t result = CAPKM_CLEAN;
	int rc = capkm_cuda_copy(job->o->bridge, job->tensor->t.stream, &c,
				 &result, job->err);

	if (!rc && result == CAPKM_CLEAN)
		count(counter, bytes);
	return issued(job, rc, result);
}

/* To the host. Waits for the stream, and so for all that uses the staging memory. */
static int fetch(struct device_job *job, uint64_t from, uint64_t bytes, void *to)
{
	const struct capkm_cuda_range range = { from, bytes };
	int rc = capkm_cuda_read(job->o->bridge, job->tensor->t.stream, &range, to,
				 job->err);

	if (rc)
		return rc;
	job->o->unsettled = false;
	count(&job->o->copies, 1);
	count(&job->o->copied_bytes, bytes);
	return 0;
}

/* values */

static int gather_by_copies(struct device_job *job, uint64_t first, uint64_t n,
			    uint32_t bytes)
{
	const uint64_t run = run_of(&job->view, bytes);
	uint64_t to = job->o->staging, some;
	int rc = 0;

	for (; n && !rc; n -= some, first += some, to += some * bytes) {
		some = min_u64(n, run - first % run);
		rc = copy(job, to, address_of(&job->view, first), some * bytes,
			  &job->o->moved_bytes);
	}
	return rc;
}

static int gather(struct device_job *job, u64 first, u64 n, u32 bytes)
{
	const struct capkm_cuda_range to = { job->o->staging, n * bytes };
	u64 at = to.address;
	void *params[] = { &job->view, &first, &n, &bytes, &at };

	if (!job->o->module)
		return gather_by_copies(job, first, n, bytes);
	return launch(job, job->o->gather,
		      (uint32_t)min_u64((n - 1) / THREADS + 1, GATHER_BLOCKS),
		      THREADS, 0, params, NULL, &to);
}

static int fetch_values(struct device_job *job, uint64_t n, uint32_t bytes, char *to)
{
	const uint64_t most = job->o->staging_bytes / bytes;
	uint64_t done, some;
	int rc = 0;

	if (n <= run_of(&job->view, bytes))
		return fetch(job, job->view.address, n * bytes, to);
	for (done = 0; done < n && !rc; done += some) {
		some = min_u64(n - done, most);
		rc = gather(job, done, some, bytes);
		if (!rc)
			rc = fetch(job, job->o->staging, some * bytes,
				   to + done * bytes);
	}
	return rc;
}

/*
 * As they are stored, into the end of the array: so what is narrower there is converted in
 * place, from the first to the last.
 */
static int observe_values(struct device_job *job)
{
	struct capkm_observe_payload *p = job->payload;
	const uint32_t stored = capkm_observe_dtype_bytes(job->g->dtype);
	const uint32_t given = stored == 2 ? 4 : stored;
	const uint64_t n = capkm_observe_emitted(job->g);
	char *values = (char *)p->values.any + n * (given - stored);
	struct capkm_reduction convert;
	int rc;

	if (!n)
		return 0;
	rc = fetch_values(job, n, stored, values);
	if (rc || (stored == given && job->g->dtype != CAPKM_DTYPE_BOOL))
		return rc;
	capkm_reduce_begin(&convert, &job->g->selection->transform,
			   job->g->dtype, p);
	capkm_reduce_take(&convert, values, n);
	return 0;
}

/* statistics */

static float float_of(u32 key, const struct partial *p)
{
	const u32 zero = p->zero & 1 ? 0x80000000 : 0;
	const u32 bits = key == ORDERED(0u) ? zero : UNORDERED(key);
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static void summarise(const struct partial *p, uint64_t n,
		      struct capkm_observe_summary *s)
{
	*s = (struct capkm_observe_summary){
		.elements = n,
		.finite = p->finite,
		.non_finite = n - p->finite,
		.nan = p->nan,
		.positive_infinity = p->positive,
		.negative_infinity = p->negative,
	};
	if (!p->finite)
		return;
	s->min = float_of(p->min, p);
	s->max = float_of(p->max, p);
	s->mean = p->sum / (double)p->finite;
	s->rms = sqrt(p->squares / (double)p->finite);
}

static int observe_summary(struct device_job *job)
{
	const u32 blocks = blocks_of(job->view.elements);
	const struct capkm_cuda_range partials = {
		job->o->staging, blocks * sizeof(struct partial),
	};
	const struct capkm_cuda_range all = {
		partials.address + partials.bytes, sizeof(struct partial),
	};
	u64 from = partials.address, to = all.address;
	void *each[] = { &job->view, &from };
	void *end[] = { &from, (void *)&blocks, &to };
	struct partial p;
	int rc = launch(job, job->o->summary, blocks, THREADS, 0, each, NULL,
			&partials);

	if (!rc)
		rc = launch(job, job->o->summary_end, 1, THREADS, 0, end,
			    &partials, &all);
	if (!rc)
		rc = fetch(job, to, sizeof(p), &p);
	if (!rc)
		summarise(&p, job->view.elements, &job->payload->summary);
	return rc;
}

/* counts */

static int observe_histogram(struct device_job *job)
{
	const struct capkm_observe_transform *t = &job->g->selection->transform;
	struct capkm_observe_histogram *h = &job->payload->histogram;
	const struct capkm_cuda_range edges = {
		job->o->staging, t->edges_len * sizeof(float),
	};
	const struct capkm_cuda_range counts = {
		job->o->staging + edges_bytes(t), counts_bytes(t),
	};
	u64 at_edges = edges.address, at_counts = counts.address;
	u32 bins = t->edges_len - 1, n = COUNTS_BEFORE + bins;
	void *zero[] = { &at_counts, &n };
	void *params[] = { &job->view, &at_edges, &bins, &at_counts };
	u64 before[COUNTS_BEFORE];
	int rc = copy(job, edges.address, uptr(t->edges), edges.bytes,
		      &job->o->uploaded_bytes);

	if (!rc)
		rc = launch(job, job->o->zero, (n - 1) / THREADS + 1, THREADS, 0,
			    zero, NULL, &counts);
	if (!rc)
		rc = launch(job, job->o->histogram,
			    blocks_of(job->view.elements), THREADS,
			    (uint32_t)counts.bytes, params, &edges, &counts);
	if (!rc)
		rc = fetch(job, counts.address, sizeof(before), before);
	if (!rc)
		rc = fetch(job, counts.address + sizeof(before),
			   bins * sizeof(u64), h->counts);
	if (rc)
		return rc;
	h->below = before[COUNT_BELOW];
	h->above = before[COUNT_ABOVE];
	h->non_finite = before[COUNT_NON_FINITE];
	return 0;
}

/* the best */

static bool is_worse(const struct capkm_observe_candidate *a,
		     const struct capkm_observe_candidate *b)
{
	return a->score < b->score ||
	       (a->score == b->score && a->token_id > b->token_id);
}

/* A heap, whose root is the worst; no child of @at's parent is looked at. */
static void sift(struct capkm_observe_candidate *c, uint32_t at, uint32_t len)
{
	const struct capkm_observe_candidate moved = c[at];
	uint64_t child;

	while ((child = 2ull * at + 1) < len) {
		if (child + 1 < len && is_worse(&c[child + 1], &c[child]))
			child++;
		if (is_worse(&moved, &c[child]))
			break;
		c[at] = c[child];
		at = (uint32_t)child;
	}
	c[at] = moved;
}

/* In place, for nothing more was charged: the worst one goes to the end. */
static void sort(struct capkm_observe_candidate *c, uint32_t len)
{
	struct capkm_observe_candidate worst;
	uint32_t i;

	for (i = len / 2; i--;)
		sift(c, i, len);
	while (len > 1) {
		worst = c[0];
		c[0] = c[--len];
		c[len] = worst;
		sift(c, 0, len);
	}
}

static int observe_candidates(struct device_job *job)
{
	struct capkm_observe_candidates *c = &job->payload->candidates;
	u32 n = (u32)min_u64(c->len, job->view.elements), len;
	const struct capkm_cuda_range all = {
		job->o->staging, n * sizeof(struct found),
	};
	u64 to = all.address;
	void *params[] = { &job->view, &n, &to };
	int rc;

	_Static_assert(sizeof(struct found) == sizeof(*c->candidates),
		       "they are fetched to where they belong");
	c->len = 0;
	if (!n)
		return 0;
	rc = launch(job, job->o->candidates, 1, THREADS_MOST, 0, params, NULL,
		    &all);
	if (!rc)
		rc = fetch(job, to, all.bytes, c->candidates);
	if (rc)
		return rc;
	for (len = 0; len < n && c->candidates[len].token_id != FOUND_NONE; len++)
		;
	c->len = len;
	sort(c->candidates, len);
	return 0;
}

static int observe(struct device_job *job)
{
	switch (job->g->selection->transform.kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		return observe_summary(job);
	case CAPKM_TRANSFORM_HISTOGRAM:
		return observe_histogram(job);
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		return observe_candidates(job);
	default:
		return observe_values(job);
	}
}

/* Its stream may have gone since. */
int capkm_device_settle(struct capkm_observe_cuda *o, struct capkm_error *err)
{
	int rc;

	if (!o->unsettled)
		return 0;
	rc = capkm_cuda_stream_sync(o->bridge, o->unsettled_on, err);
	if (rc == -ENOENT || rc == -ESTALE)
		rc = capkm_cuda_context_sync(o->bridge, err);
	o->unsettled = rc;
	return rc;
}

int capkm_device_observe(struct device_job *job)
{
	const struct capkm_cuda_range tensor = range_of(job->tensor);
	int rc = capkm_device_settle(job->o, job->err);

	if (!rc)
		rc = capkm_cuda_check(job->o->bridge, &tensor, job->err);
	if (!rc)
		rc = observe(job);
	/* What wrote it may have failed since. */
	if (!rc)
		rc = capkm_cuda_check(job->o->bridge, &tensor, job->err);
	return rc;
}
