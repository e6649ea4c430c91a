// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool against models that know nothing of pages and slices, by thousands of
 * random operations over real memory: which bytes may be read, what lies in them,
 * and what must not be handed out to anybody else.
 *
 * CAPKM_TEST_OPS: operations of each test. CAPKM_TEST_SEED: seed of the first run;
 * a run that fails says its seed.
 */
#include "pages.h"

#define SLOTS	4
#define OPS	300		/* of one run */
#define GPU	1
#define PAGE_MAX (128u << 10)

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

/* What runs, for messages. */
static u_int64_t seed_now;
static int step_now;

/* What has happened, to be told with what went wrong. */
#define EVENTS	64

static struct event {
	int step;
	const char *what;
	u_int64_t id;
	unsigned int slot;
} event[EVENTS];
static unsigned int events;

static void note(const char *what, u_int64_t id, unsigned int slot)
{
	event[events++ % EVENTS] = (struct event){ step_now, what, id, slot };
}

static void __attribute__((format(printf, 1, 2), noreturn)) wrong(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	for (unsigned int i = events > EVENTS ? events - EVENTS : 0; i < events; i++) {
		const struct event *e = &event[i % EVENTS];

		fprintf(stderr, "# %5d %s memory %" PRIu64 " slot %u\n", e->step, e->what,
			e->id, e->slot);
	}
	fprintf(stderr, "# seed %" PRIu64 " step %d: ", seed_now, step_now);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

#define OK(call) do {							\
	int ok_ = (call);						\
									\
	if (ok_)							\
		wrong("%s: %d (%s)", #call, ok_, err.text);		\
} while (0)

/* SplitMix64 */
static u_int64_t next(u_int64_t *state)
{
	u_int64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* ---- the ways to serve sizes */

struct areas {
	u_int32_t preset;
	u_int32_t len;		/* 0: the preset */
	struct capkm_pool_area area[4];
};

static const struct areas slices = { CAPKM_POOL_PRESET_SLICES };
static const struct areas exclusive = { CAPKM_POOL_PRESET_EXCLUSIVE };
/* Small pages, so that much is split, merged, and given back. */
static const struct areas small = {
	.len = 3, .area = {
		{ .kind = CAPKM_POOL_SLICED, .page_bytes = 4096, .slice_max = 1024 },
		{ .kind = CAPKM_POOL_EXCLUSIVE, .slice_max = 1536, .period = 10 },
		{ .kind = CAPKM_POOL_DIRECT, .reclaim = 8192 },
	}
};
/* Caps that are met: the next area serves it, and after the last one nobody does. */
static const struct areas capped = {
	.len = 3, .area = {
		{ .kind = CAPKM_POOL_SLICED, .page_bytes = 8192, .capacity = 16384 },
		{ .kind = CAPKM_POOL_EXCLUSIVE, .capacity = 8192, .period = 25 },
		{ .kind = CAPKM_POOL_DIRECT, .capacity = 8192 },
	}
};

static struct capkm_pool *new_pool(struct cl *cl, struct pages *pages,
				   const struct areas *a)
{
	struct capkm_pool_opts opts = CAPKM_OPTS(struct capkm_pool_opts,
		.areas = a->len ? a->area : NULL, .areas_len = a->len,
		.preset = a->preset, .label = "oracle");
	struct capkm_pool *pool;

	OK(capkm_pool_create(cl->c, &pages->memory, &opts, &pool, &err));
	return pool;
}

static struct cl *new_session(void)
{
	struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.max_streams = SLOTS, .backend = CAPKM_BACKEND_SOFTWARE);
	struct cl *cl = t_client_();

	OK(capkm_domain_open(cl->c, NULL, &opts, &err));
	return cl;
}

/* 0 would be the thread's own. */
static struct capkm_where where(u_int64_t stream)
{
	return (struct capkm_where){
		.stream = stream ? stream : 2 * SLOTS, .device[0] = GPU,
	};
}

static struct capkm_pool_stats stats_of(struct capkm_pool *pool, unsigned int slot)
{
	struct capkm_pool_stats s = CAPKM_OPTS(struct capkm_pool_stats);

	OK(capkm_pool_query(pool, slot, &s, &err));
	return s;
}

static struct capkm_pool_slice slice_of(struct capkm_pool *pool, u_int64_t memory)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);

	OK(capkm_pool_find(pool, memory, &s, &err));
	return s;
}

#define RANGES 1024

/* Ranges that carry a failure; false if there is no such buffer any more. */
static bool ranges_of(struct cl *cl, u_int64_t buffer, struct capkm_buffer_query *q,
		      struct capkm_range *ranges)
{
	int rc;

	*q = (struct capkm_buffer_query){
		.size = sizeof(*q), .buffer = buffer, .ranges_len = RANGES,
		.ranges_uptr = t_ptr(ranges),
	};
	rc = capkm_buffer_query(cl->c, q, &err);
	if (rc && rc != -ENOENT)
		wrong("buffer_query: %d (%s)", rc, err.text);
	if (rc)
		return false;
	if (q->out_ranges != q->out_claims)
		wrong("a page with %llu ranges", q->out_claims);
	for (unsigned int i = 0; i < q->out_ranges; i++)
		if (ranges[i].state != CAPKM_RANGE_FAILED)
			wrong("a range of state %u, and all work is finished",
			      ranges[i].state);
	return true;
}

/*
 * What is behind a new handle: bytes of a page, and of the buffer that the page
 * is in the authority; as many as were asked for, aligned.
 */
static void check_slice(struct cl *cl, const struct pages *pages,
			const struct capkm_pool_slice *s, u_int64_t bytes,
			unsigned int slot)
{
	static struct capkm_range ranges[RANGES];
	const struct page *page = page_of(pages, s->address, bytes + s->padding);
	u_int64_t alignment = pages->memory.alignment;
	struct capkm_buffer_query q;

	if (!page)
		wrong("[%" PRIx64 ",%" PRIx64 ") is in no page", s->address,
		      s->address + bytes + s->padding);
	if (s->address % alignment)
		wrong("address %" PRIx64 " is not aligned", s->address);
	if (s->claim.end - s->claim.start != bytes || s->slot != slot)
		wrong("%llu bytes of slot %u, expected %" PRIu64 " of slot %u",
		      s->claim.end - s->claim.start, s->slot, bytes, slot);
	if (s->padding != (alignment - bytes % alignment) % alignment)
		wrong("%" PRIu64 " bytes have a padding of %" PRIu64, bytes, s->padding);
	if (!ranges_of(cl, s->claim.buffer, &q, ranges))
		wrong("buffer %llu is not there", s->claim.buffer);
	if (q.out_address + s->claim.start != s->address ||
	    q.out_address != page->address || q.out_bytes != page->bytes ||
	    memcmp(q.out_device, pages->memory.device, 16) ||
	    strcmp((char *)q.out_label, "oracle"))
		wrong("buffer %llu \"%s\" at %llx with %llu bytes, the page is at %"
		      PRIx64 " with %" PRIu64, q.buffer, q.out_label, q.out_address,
		      q.out_bytes, page->address, page->bytes);
}

static void check_clean(struct cl *cl, const struct capkm_claim *claim)
{
	struct capkm_report report;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer,
		.reports = &report, .reports_len = 1);

	OK(capkm_check(cl->c, claim, 1, &answer, &err));
	if (answer.out_result != CAPKM_CLEAN)
		wrong("[%llu,%llu) of %llu carries failure %llu, and is new", claim->start,
		      claim->end, claim->buffer, report.failure);
}

/*
 * Each page is a buffer, and the parts of a pool are the whole. @undone: the backend
 * may have got pages back at once, because the authority had no memory.
 */
static void check_sums(struct cl *cl, struct capkm_pool *pool, const struct pages *pages,
		       bool undone)
{
	struct capkm_domain_query d = t_domain_query_(cl);
	struct capkm_pool_stats sum = { 0 };

	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		struct capkm_pool_stats s = stats_of(pool, slot);

		if (s.used + s.padding + s.free > s.bytes)
			wrong("slot %u: used %" PRIu64 " padding %" PRIu64 " free %" PRIu64
			      " of %" PRIu64 " bytes", slot, s.used, s.padding, s.free,
			      s.bytes);
		sum.bytes += s.bytes;
		sum.pages += s.pages;
		sum.grown += s.grown;
	}
	if (sum.bytes != pages->bytes || sum.pages != pages->live ||
	    sum.grown > pages->given || (sum.grown < pages->given && !undone))
		wrong("%" PRIu64 " bytes in %" PRIu64 " pages of %" PRIu64 " given, the "
		      "backend has given %" PRIu64 " in %u of %" PRIu64, sum.bytes,
		      sum.pages, sum.grown, pages->bytes, pages->live, pages->given);
	if (d.out_buffers < pages->live)
		wrong("%llu buffers for %u pages", d.out_buffers, pages->live);
}

/* ----------------------------------------------------------- T-20 to T-24 */

/*
 * The property test of semantics 5.2 with its own parameters. Scopes never
 * overlap, so a byte has one writer: the last one.
 */
struct memory {
	u_int64_t id;
	unsigned int size;
	struct capkm_pool_slice slice;
	u_int64_t *failure;	/* of each byte: of the last writer, 0 if it went well */
	unsigned char *data;	/* what lies there, also in the padding */
};

/* Bytes of a handle that was freed, and that nobody has got since. */
struct piece {
	u_int64_t buffer, start, end;
};

struct property {
	struct cl *cl;
	struct pages *pages;
	struct capkm_pool *pool;
	u_int64_t rng;
	unsigned int n, pieces, buffers;
	struct memory m[OPS];
	struct piece piece[2 * OPS];
	u_int64_t buffer[OPS];	/* all that a handle was ever in */
	bool caps;
};

static u_int64_t slice_end(const struct capkm_pool_slice *s)
{
	return s->address + (s->claim.end - s->claim.start) + s->padding;
}

/* Another one's bytes are its own. */
static void check_overlap(const struct property *p, const struct memory *new)
{
	for (unsigned int i = 0; i < p->n; i++) {
		const struct memory *m = &p->m[i];

		if (m->slice.address < slice_end(&new->slice) &&
		    new->slice.address < slice_end(&m->slice))
			wrong("memory %" PRIu64 " [%" PRIx64 ",%" PRIx64 ") overlaps %"
			      PRIu64 " [%" PRIx64 ",%" PRIx64 ")", new->id,
			      new->slice.address, slice_end(&new->slice), m->id,
			      m->slice.address, slice_end(&m->slice));
	}
}

/* What belongs to somebody again is no piece any more. */
static void cut_pieces(struct property *p, const struct capkm_pool_slice *s)
{
	u_int64_t start = s->claim.start, end = s->claim.end + s->padding;

	for (unsigned int i = 0; i < p->pieces; i++) {
		struct piece x = p->piece[i];

		if (x.buffer != s->claim.buffer || x.start >= end || x.end <= start)
			continue;
		p->piece[i--] = p->piece[--p->pieces];
		if (x.start < start)
			p->piece[p->pieces++] = (struct piece){ x.buffer, x.start, start };
		if (x.end > end)
			p->piece[p->pieces++] = (struct piece){ x.buffer, end, x.end };
	}
}

static void property_alloc(struct property *p, u_int64_t stream)
{
	struct memory *m = &p->m[p->n];
	u_int64_t whole;
	int rc;

	*m = (struct memory){ .size = 32 * (1 + next(&p->rng) % 64) };
	rc = capkm_pool_alloc(p->pool, stream % SLOTS, m->size, &m->id, &err);
	if (rc == -ENOSPC && p->caps)
		return;
	if (rc)
		wrong("alloc of %u: %d (%s)", m->size, rc, err.text);
	note("alloc", m->id, stream % SLOTS);
	m->slice = slice_of(p->pool, m->id);
	check_slice(p->cl, p->pages, &m->slice, m->size, stream % SLOTS);
	check_overlap(p, m);
	check_clean(p->cl, &m->slice.claim);
	cut_pieces(p, &m->slice);
	/* Its owner's from now on, to the last byte. */
	whole = m->size + m->slice.padding;
	m->data = malloc(whole);
	memset(m->data, m->id, whole);
	memset(bytes_of(p->pages, m->slice.address, whole), m->id, whole);
	m->failure = calloc(m->size, sizeof(*m->failure));
	for (unsigned int i = 0; i <= p->buffers; i++) {
		if (i == p->buffers)
			p->buffer[p->buffers++] = m->slice.claim.buffer;
		if (p->buffer[i] == m->slice.claim.buffer)
			break;
	}
	p->n++;
}

static void range(struct property *p, const struct memory *m, struct capkm_claim *c)
{
	u_int64_t start;

	*c = m->slice.claim;
	if (next(&p->rng) % 100 < 50)
		return;
	start = next(&p->rng) % m->size;
	c->end = c->start + start + 1 + next(&p->rng) % (m->size - start);
	c->start += start;
}

/* The claim of @which, in bytes of the handle. */
static void property_writes(struct property *p, const unsigned int *which,
			    const struct capkm_claim *c, unsigned int n,
			    const struct capkm_scope *scope)
{
	for (unsigned int i = 0; i < n; i++) {
		struct memory *m = &p->m[which[i]];
		u_int64_t at = c[i].start - m->slice.claim.start;
		u_int64_t bytes = c[i].end - c[i].start;

		for (u_int64_t b = at; b < at + bytes; b++) {
			m->failure[b] = scope->failure;
			m->data[b] = next(&p->rng);
		}
		memcpy(bytes_of(p->pages, m->slice.address, m->size) + at, m->data + at,
		       bytes);
	}
}

/* @most: handles that it touches at most. */
static void property_launch(struct property *p, u_int64_t stream, unsigned int most,
			    bool fails)
{
	unsigned int which[3], n = 0, k;
	struct capkm_where w = where(stream);
	struct capkm_scope scope;
	struct capkm_claim c[3];

	for (k = 1 + next(&p->rng) % (p->n < most ? p->n : most); k; k--) {
		unsigned int i = next(&p->rng) % p->n, j = 0;

		while (j < n && which[j] != i)
			j++;
		if (j < n)
			continue;
		which[n] = i;
		range(p, &p->m[i], &c[n++]);
		note(fails ? "fail" : "write", p->m[i].id, p->m[i].slice.slot);
	}
	OK(capkm_scope_enter(p->cl->c, &w, NULL, 0, c, n, NULL, &scope, NULL, &err));
	if (fails)
		OK(capkm_scope_fail(p->cl->c, &scope, NULL, &err));
	else
		OK(capkm_scope_exit(p->cl->c, &scope, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	if (!scope.failure != !fails)
		wrong("failure %" PRIu64 " of a launch that went %s", scope.failure,
		      fails ? "wrong" : "well");
	property_writes(p, which, c, n, &scope);
}

/* Reads if and only if no byte is stale, and then what was written last. */
static void property_read(struct property *p, const struct memory *m,
			  const struct capkm_claim *c)
{
	u_int64_t at = c->start - m->slice.claim.start, bytes = c->end - c->start, b = at;
	unsigned char got[64 * 32];
	const unsigned char *src = bytes_of(p->pages, m->slice.address, m->size);
	int rc = capkm_read(p->cl->c, c, got, src + at, NULL, &err);

	while (b < at + bytes && !m->failure[b])
		b++;
	if (rc != (b < at + bytes ? -ESTALE : 0))
		wrong("read [%" PRIu64 ",%" PRIu64 ") of memory %" PRIu64 ": %d (%s), the "
		      "model has failure %" PRIu64 " at %" PRIu64, at, at + bytes, m->id,
		      rc, err.text, b < at + bytes ? m->failure[b] : 0, b);
	if (rc && err.failure != m->failure[b])
		wrong("read: failure %" PRIu64 ", the model has %" PRIu64, err.failure,
		      m->failure[b]);
	if (!rc && memcmp(got, m->data + at, bytes))
		wrong("read: memory %" PRIu64 " holds something else", m->id);
}

/* Also what may not be read is where it was, and nobody else has written to it. */
static void check_memory(struct property *p, const struct memory *m)
{
	struct capkm_pool_slice s = slice_of(p->pool, m->id);
	u_int64_t whole = m->size + s.padding;

	if (memcmp(&s, &m->slice, sizeof(s)))
		wrong("memory %" PRIu64 " is somewhere else", m->id);
	if (memcmp(bytes_of(p->pages, s.address, whole), m->data, whole))
		wrong("somebody has written to memory %" PRIu64, m->id);
}

static void property_free(struct property *p, unsigned int which)
{
	struct memory *m = &p->m[which];
	struct capkm_claim c = m->slice.claim;

	check_memory(p, m);
	note("free", m->id, m->slice.slot);
	OK(capkm_pool_free(p->pool, m->id, &err));
	p->piece[p->pieces++] = (struct piece){ c.buffer, c.start, c.end };
	free(m->failure);
	free(m->data);
	*m = p->m[--p->n];
}

static bool carries(const struct capkm_range *r, unsigned int n, u_int64_t start,
		    u_int64_t end)
{
	for (unsigned int i = 0; i < n; i++)
		if (r[i].start < end && r[i].end > start)
			return true;
	return false;
}

/*
 * T-24, as equations: the failures are those that some byte of a page carries, and
 * each of these bytes is in one of the slices that the pool counts as carriers,
 * live or free. So there are none without a carrier, nor after the last one.
 */
static void check_failures(struct property *p)
{
	static struct capkm_range r[RANGES];
	static u_int64_t seen[3 * OPS];
	u_int64_t failures = 0, live = 0, dead = 0, carriers = 0;
	struct capkm_buffer_query q;

	for (unsigned int b = 0; b < p->buffers; b++) {
		u_int64_t left = 0;

		if (!ranges_of(p->cl, p->buffer[b], &q, r)) {
			p->buffer[b--] = p->buffer[--p->buffers];
			continue;
		}
		for (unsigned int i = 0; i < q.out_ranges; i++) {
			u_int64_t j = 0;

			while (j < failures && seen[j] != r[i].id)
				j++;
			if (j == failures)
				seen[failures++] = r[i].id;
			left += r[i].end - r[i].start;
		}
		for (unsigned int i = 0; i < p->n; i++) {
			const struct capkm_claim *c = &p->m[i].slice.claim;

			if (c->buffer != q.buffer)
				continue;
			live += carries(r, q.out_ranges, c->start, c->end);
			for (unsigned int at = 0; at < p->m[i].size; at++)
				left -= !!p->m[i].failure[at];
		}
		for (unsigned int i = 0; i < p->pieces; i++) {
			struct piece *x = &p->piece[i];

			if (x->buffer != q.buffer)
				continue;
			if (!carries(r, q.out_ranges, x->start, x->end)) {
				p->piece[i--] = p->piece[--p->pieces];
				continue;
			}
			dead++;
			for (unsigned int k = 0; k < q.out_ranges; k++) {
				u_int64_t s = r[k].start > x->start ? r[k].start : x->start;
				u_int64_t e = r[k].end < x->end ? r[k].end : x->end;

				left -= s < e ? e - s : 0;
			}
		}
		if (left)
			wrong("page %llu: %" PRId64 " bytes carry a failure and are in no "
			      "slice", q.buffer, (int64_t)left);
	}
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		carriers += stats_of(p->pool, slot).carriers;
	if (carriers != live + dead)
		wrong("%" PRIu64 " slices carry a failure, the authority has %" PRIu64
		      " live and %" PRIu64 " free ones", carriers, live, dead);
	if (failures != t_domain_query_(p->cl).out_failures)
		wrong("%" PRIu64 " failures on pages, and %llu in all", failures,
		      t_domain_query_(p->cl).out_failures);
}

static void property_step(struct property *p)
{
	unsigned int draw = next(&p->rng) % 100;
	u_int64_t stream = next(&p->rng) % 8;
	struct capkm_claim c;

	if (draw < 20) {
		property_alloc(p, stream);
	} else if (draw < 60 && p->n) {
		/* A launch draws another stream than the one it runs on. */
		next(&p->rng);
		property_launch(p, stream, 3, draw < 40);
	} else if (draw < 70 && p->n) {
		property_launch(p, stream, 1, false);
	} else if (draw < 90 && p->n) {
		const struct memory *m = &p->m[next(&p->rng) % p->n];

		range(p, m, &c);
		property_read(p, m, &c);
	} else if (draw < 96 && p->n) {
		property_free(p, next(&p->rng) % p->n);
	} else if (draw >= 96 && next(&p->rng) % 100 < 50) {
		/* The other half is what each reservation does by itself. */
		note("cleanup", 0, stream % SLOTS);
		OK(capkm_pool_cleanup(p->pool, stream % SLOTS, &err));
	}
}

static void property_run(const struct areas *areas, u_int64_t seed)
{
	struct property *p = calloc(1, sizeof(*p));
	struct capkm_domain_query d;

	T_AT;
	seed_now = seed;
	step_now = 0;
	events = 0;
	p->rng = seed;
	p->cl = new_session();
	p->pages = pages_new(32, PAGE_MAX, GPU);
	p->pool = new_pool(p->cl, p->pages, areas);
	for (unsigned int i = 0; i < areas->len; i++)
		p->caps |= !!areas->area[i].capacity;
	while (step_now++ < OPS) {
		property_step(p);
		if (p->n)
			check_memory(p, &p->m[next(&p->rng) % p->n]);
		check_failures(p);
		check_sums(p->cl, p->pool, p->pages, false);
	}
	/* T-22: at rest, each as a whole */
	for (unsigned int i = 0; i < p->n; i++) {
		property_read(p, &p->m[i], &p->m[i].slice.claim);
		check_memory(p, &p->m[i]);
	}
	/* T-23: then nothing is left */
	while (p->n)
		property_free(p, p->n - 1);
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		OK(capkm_pool_cleanup(p->pool, slot, &err));
	d = t_domain_query_(p->cl);
	if (d.out_failures || d.out_claims || d.out_buffers || p->pages->live)
		wrong("left over: failures %llu claims %llu buffers %llu, %u pages",
		      d.out_failures, d.out_claims, d.out_buffers, p->pages->live);
	capkm_pool_destroy(p->pool);
	pages_delete(p->pages);
	t_close(p->cl);
	free(p);
}

FIXTURE(last_writer) { };
FIXTURE_SETUP(last_writer) { }
FIXTURE_TEARDOWN(last_writer) { }

FIXTURE_VARIANT(last_writer)
{
	const struct areas *areas;
};

/* T-20 */
FIXTURE_VARIANT_ADD(last_writer, slices)
{
	.areas = &slices,
};

/* T-21 */
FIXTURE_VARIANT_ADD(last_writer, exclusive)
{
	.areas = &exclusive,
};

FIXTURE_VARIANT_ADD(last_writer, small)
{
	.areas = &small,
};

FIXTURE_VARIANT_ADD(last_writer, capped)
{
	.areas = &capped,
};

/* T-20 T-21 T-22 T-23 T-24 */
TEST_F_TIMEOUT(last_writer, holds, 3000)
{
	u_int64_t ops = t_param("CAPKM_TEST_OPS", 40 * OPS, 40 * OPS);
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 0, 0);

	for (u_int64_t done = 0; done < ops; done += OPS)
		property_run(variant->areas, seed++);
	t_no_leaks();
}

TEST_HARNESS_MAIN
