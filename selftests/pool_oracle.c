// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool against models that know nothing of pages and slices, by thousands of
 * random operations over real memory: which bytes may be read, what lies in them,
 * and what must not be handed out to anybody else.
 *
 * CAPKM_TEST_OPS: operations of each test. CAPKM_TEST_SEED: seed of the first run;
 * a run that fails says its seed.
 */
#include "choices.h"
#include "pages.h"
#include <pthread.h>

#define SLOTS	4
#define OPS	300		/* of one run */
#define GPU	1
#define PAGE_MAX (128u << 10)

static __thread struct capkm_error err = CAPKM_OPTS(struct capkm_error);

/* What runs, for messages. */
static __thread u_int64_t seed_now;
static __thread int step_now;

/* What has happened, to be told with what went wrong. */
#define EVENTS	64

static __thread struct event {
	int step;
	const char *what;
	u_int64_t id;
	unsigned int slot;
} event[EVENTS];
static __thread unsigned int events;

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

static u_int64_t operations(void)
{
	return t_param("CAPKM_TEST_OPS", 40 * OPS, 8 * OPS);
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
		{ .kind = CAPKM_POOL_EXCLUSIVE, .page_bytes = 2048, .slice_max = 1536,
		  .period = 10 },
		{ .kind = CAPKM_POOL_DIRECT, .reclaim = 8192 },
	}
};
/* Caps that are met: the next area serves it, and after the last one nobody does. */
static const struct areas capped = {
	.len = 3, .area = {
		{ .kind = CAPKM_POOL_SLICED, .page_bytes = 2048, .capacity = 4096 },
		{ .kind = CAPKM_POOL_EXCLUSIVE, .capacity = 2048, .period = 25 },
		{ .kind = CAPKM_POOL_DIRECT, .capacity = 2048 },
	}
};

static struct capkm_pool *new_pool(struct cl *cl, const struct capkm_pool_memory *memory,
				   const struct areas *a)
{
	struct capkm_pool_opts opts = CAPKM_OPTS(struct capkm_pool_opts,
		.areas = a->len ? a->area : NULL, .areas_len = a->len,
		.preset = a->preset, .label = "oracle");
	struct capkm_pool *pool;

	OK(capkm_pool_create(cl->c, memory, &opts, &pool, &err));
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
	u_int64_t most;		/* bytes of a slot, 0 for any */
	unsigned int n, pieces, buffers;
	struct memory m[OPS];
	struct piece piece[2 * OPS];
	u_int64_t buffer[OPS];	/* all that a handle was ever in */
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

	*m = (struct memory){ .size = 32 * (1 + choices_next(&p->rng) % 64) };
	rc = capkm_pool_alloc(p->pool, stream % SLOTS, m->size, &m->id, &err);
	if (rc == -ENOSPC && p->most)
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
	if (choices_next(&p->rng) % 100 < 50)
		return;
	start = choices_next(&p->rng) % m->size;
	c->end = c->start + start + 1 + choices_next(&p->rng) % (m->size - start);
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
			m->data[b] = choices_next(&p->rng);
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

	for (k = 1 + choices_next(&p->rng) % (p->n < most ? p->n : most); k; k--) {
		unsigned int i = choices_next(&p->rng) % p->n, j = 0;

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
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		struct capkm_pool_stats s = stats_of(p->pool, slot);

		carriers += s.carriers;
		if (p->most && s.bytes > p->most)
			wrong("slot %u has %" PRIu64 " bytes, its areas may have %" PRIu64,
			      slot, s.bytes, p->most);
	}
	if (carriers != live + dead)
		wrong("%" PRIu64 " slices carry a failure, the authority has %" PRIu64
		      " live and %" PRIu64 " free ones", carriers, live, dead);
	if (failures != t_domain_query_(p->cl).out_failures)
		wrong("%" PRIu64 " failures on pages, and %llu in all", failures,
		      t_domain_query_(p->cl).out_failures);
}

static void property_step(struct property *p)
{
	unsigned int draw = choices_next(&p->rng) % 100;
	u_int64_t stream = choices_next(&p->rng) % 8;
	struct capkm_claim c;

	if (draw < 20) {
		property_alloc(p, stream);
	} else if (draw < 60 && p->n) {
		/* A launch draws another stream than the one it runs on. */
		choices_next(&p->rng);
		property_launch(p, stream, 3, draw < 40);
	} else if (draw < 70 && p->n) {
		property_launch(p, stream, 1, false);
	} else if (draw < 90 && p->n) {
		const struct memory *m = &p->m[choices_next(&p->rng) % p->n];

		range(p, m, &c);
		property_read(p, m, &c);
	} else if (draw < 96 && p->n) {
		property_free(p, choices_next(&p->rng) % p->n);
	} else if (draw >= 96 && choices_next(&p->rng) % 100 < 50) {
		/* The other half is what each reservation does by itself. */
		note("cleanup", 0, stream % SLOTS);
		OK(capkm_pool_cleanup(p->pool, stream % SLOTS, &err));
	}
}

static void last_writer(const struct areas *areas, u_int64_t seed)
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
	p->pool = new_pool(p->cl, &p->pages->memory, areas);
	for (unsigned int i = 0; i < areas->len; i++)
		p->most += areas->area[i].capacity;
	while (step_now++ < OPS) {
		property_step(p);
		if (p->n)
			check_memory(p, &p->m[choices_next(&p->rng) % p->n]);
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

/* ------------------------------------------------------------ everything */

enum state {
	EMPTY,		/* no memory: never had any, or it is lost */
	RESERVED,
	BOUND,
};

enum capture { NONE, PRIMING, RECORDING };

#define HANDLES	256
#define GRAPHS	6
#define DEAD	64

/* A handle; also one that was freed, as long as its slice can be told by it. */
struct handle {
	u_int64_t id;		/* 0: an entry that is not used */
	enum state state;
	bool freed;
	enum capture freed_in;
	bool persistent;
	bool touched;		/* by the capture that is armed */
	bool unsure;		/* whether it can be handed out now is not said */
	bool fails;		/* the last write of it did */
	unsigned int slot;
	unsigned int pins;	/* of work */
	unsigned int graphs;
	u_int64_t bytes;
	struct capkm_pool_slice slice;
	unsigned char fill;	/* each of its bytes */
};

struct graph {
	struct capkm_pool_pins *pins;
	u_int64_t epoch;
	unsigned int n;
	u_int64_t id[HANDLES];		/* when the capture ended */
	struct handle *h[HANDLES];	/* who has the slice now */
};

struct model {
	struct cl *cl;
	struct pages *pages, *pages_of_other;
	struct capkm_pool *pool, *other;
	u_int64_t other_id;
	u_int64_t rng, epoch;
	bool caps;
	unsigned int fail_alloc;	/* of the engine, in the next call; 0: none */
	bool engine_failed;	/* a page may have come and gone */
	enum capture capture[SLOTS];
	unsigned int depth[SLOTS];
	struct handle h[HANDLES];
	struct graph graph[GRAPHS];
	unsigned int dead;
	u_int64_t dead_id[DEAD];
};

static unsigned int draw(struct model *m, unsigned int n)
{
	return choices_next(&m->rng) % n;
}

/* Around one call of the pool. */
static void arm(struct model *m)
{
	capkm_test_fail_alloc(m->fail_alloc);
}

static void disarm(struct model *m)
{
	capkm_test_fail_alloc(0);
	m->fail_alloc = 0;
}

static bool has_memory(const struct handle *h)
{
	return h->state != EMPTY;
}

static bool is_used(const struct handle *h)
{
	return has_memory(h) && (!h->freed || h->pins || h->graphs);
}

/* Nobody else may get these bytes. CM-3 CM-4 CM-9 */
static bool is_held(const struct model *m, const struct handle *h)
{
	enum capture c = m->capture[h->slot];

	if (!has_memory(h) || is_used(h))
		return has_memory(h);
	return c == PRIMING ? h->touched : c == RECORDING && h->freed_in == RECORDING;
}

static void die_id(struct model *m, u_int64_t id)
{
	m->dead_id[m->dead++ % DEAD] = id;
}

/*
 * Nobody needs it: its id means nothing any more. The entry stays while the slice is
 * where it was. What a capture does with memory, and its id, that becomes free and that
 * it has not touched, is not said.
 */
static void settle(struct model *m, struct handle *h)
{
	if (!h->freed || h->pins || h->graphs)
		return;
	if (!m->capture[h->slot])
		die_id(m, h->id);
	if (!has_memory(h))
		h->id = 0;
	else
		h->unsure = m->capture[h->slot];
}

static struct handle *any_of(struct model *m, bool (*ok)(const struct handle *h))
{
	unsigned int at = draw(m, HANDLES);

	for (unsigned int i = 0; i < HANDLES; i++) {
		struct handle *h = &m->h[(at + i) % HANDLES];

		if (h->id && ok(h))
			return h;
	}
	return NULL;
}

static bool is_owned(const struct handle *h) { return !h->freed; }
static bool is_found(const struct handle *h) { return !h->freed && has_memory(h); }
static bool is_bound(const struct handle *h) { return !h->freed && h->state == BOUND; }
static bool is_lazy(const struct handle *h)
{
	return !h->freed && h->state == EMPTY && !h->pins && !h->graphs;
}
static bool is_reserved(const struct handle *h)
{
	return !h->freed && h->state == RESERVED && !h->pins;
}
static bool is_pinned(const struct handle *h) { return h->pins; }

static struct handle *new_handle(struct model *m)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		if (!m->h[i].id)
			return &m->h[i];
	/* Slices that are free need not be remembered. */
	for (unsigned int i = 0; i < HANDLES; i++)
		if (m->h[i].freed && !is_held(m, &m->h[i]) && !m->h[i].touched) {
			m->h[i].id = 0;
			return &m->h[i];
		}
	return NULL;
}

static u_int64_t size(struct model *m)
{
	static const u_int64_t usual[] = { 32, 100, 512, 1000, 2048 };

	return draw(m, 100) < 75 ? usual[draw(m, 5)] : 1 + draw(m, 2048);
}

static u_int64_t whole(const struct handle *h)
{
	return h->bytes + h->slice.padding;
}

static u_int64_t effective(const struct model *m, u_int64_t bytes)
{
	u_int64_t a = m->pages->memory.alignment;

	return (bytes + a - 1) / a * a;
}

static void check_fill(const struct model *m, const struct handle *h)
{
	const unsigned char *b = bytes_of(m->pages, h->slice.address, whole(h));

	for (u_int64_t i = 0; i < whole(h); i++)
		if (b[i] != h->fill)
			wrong("memory %" PRIu64 " byte %" PRIu64 ": somebody has written %u "
			      "over %u", h->id, i, b[i], h->fill);
}

static void fill(struct model *m, struct handle *h)
{
	h->fill = draw(m, 256);
	memset(bytes_of(m->pages, h->slice.address, whole(h)), h->fill, whole(h));
}

/* What a call that is refused must leave alone. */
struct state_now {
	struct capkm_pool_stats stats[SLOTS], other[SLOTS];
	unsigned int pages;
	u_int64_t bytes;
	struct capkm_domain_query d;
};

static struct state_now state_now(struct model *m)
{
	struct state_now s = { .pages = m->pages->live, .bytes = m->pages->bytes };

	for (unsigned int i = 0; i < SLOTS; i++) {
		s.stats[i] = stats_of(m->pool, i);
		s.other[i] = stats_of(m->other, i);
		/* A page that came and went back counts. */
		if (m->engine_failed)
			s.stats[i].grown = 0;
	}
	s.d = t_domain_query_(m->cl);
	/* So does what was undone. */
	if (m->engine_failed)
		s.d.out_sequence = 0;
	return s;
}

static void is_unchanged(struct model *m, const struct state_now *before, const char *what)
{
	struct state_now now = state_now(m);

	for (unsigned int i = 0; i < SLOTS; i++)
		if (memcmp(&now.stats[i], &before->stats[i], sizeof(now.stats[i])) ||
		    memcmp(&now.other[i], &before->other[i], sizeof(now.other[i])))
			wrong("%s was refused, and slot %u is another one", what, i);
	if (now.pages != before->pages || now.bytes != before->bytes)
		wrong("%s was refused, and %u pages became %u", what, before->pages,
		      now.pages);
	if (memcmp(&now.d, &before->d, sizeof(now.d)))
		wrong("%s was refused, and the domain is another one: failures %llu "
		      "claims %llu buffers %llu, had been %llu %llu %llu", what,
		      now.d.out_failures, now.d.out_claims, now.d.out_buffers,
		      before->d.out_failures, before->d.out_claims,
		      before->d.out_buffers);
}

/*
 * A reservation that failed has looked for room: it may have merged slices, which
 * sheds their taint, and given pages back that stayed free for long.
 */
static void has_nothing_new(struct model *m, const struct state_now *before)
{
	struct state_now now = state_now(m);

	for (unsigned int i = 0; i < SLOTS; i++) {
		const struct capkm_pool_stats *a = &before->stats[i], *b = &now.stats[i];

		if (a->used != b->used || a->padding != b->padding ||
		    a->slices != b->slices || a->grown != b->grown ||
		    b->pages > a->pages || b->free > a->free || b->carriers > a->carriers)
			wrong("a reservation failed, and slot %u is another one", i);
	}
	if (memcmp(now.other, before->other, sizeof(now.other)))
		wrong("a reservation failed, and another pool is another one");
	if (now.d.out_failures > before->d.out_failures ||
	    now.d.out_claims > before->d.out_claims)
		wrong("a reservation failed, and there are more failures");
}

/* The call must fail with @rc, with words, and change nothing. */
#define REFUSE(m, rc, call) do {					\
	struct state_now before_ = state_now(m);			\
	int want_ = (rc), got_;						\
									\
	err.err = 0;							\
	err.text[0] = 0;						\
	got_ = (call);							\
	if (got_ != want_ || err.err != want_ || !err.text[0])		\
		wrong("%s: %d (%d \"%s\"), expected %d", #call, got_, err.err, \
		      err.text, want_);					\
	is_unchanged(m, &before_, #call);				\
} while (0)

/* CM-2: a free slice of the same size serves it. */
static const struct handle *must_reuse(const struct model *m, unsigned int slot,
				       u_int64_t bytes)
{
	for (unsigned int i = 0; i < HANDLES; i++) {
		const struct handle *h = &m->h[i];

		if (h->id && has_memory(h) && h->persistent && h->slot == slot &&
		    !is_held(m, h) && !h->unsure &&
		    effective(m, h->bytes) == effective(m, bytes))
			return h;
	}
	return NULL;
}

static void check_taint(struct model *m, const struct capkm_claim *claim,
			unsigned int result)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);

	OK(capkm_check(m->cl->c, claim, 1, &answer, &err));
	if (answer.out_result != result)
		wrong("[%llu,%llu) of buffer %llu is %s, expected %s", claim->start,
		      claim->end, claim->buffer, capkm_result_name(answer.out_result),
		      capkm_result_name(result));
}

/* A slice was handed out to @h: nobody else has it, whoever had it before. */
static void handed_out(struct model *m, struct handle *h)
{
	u_int64_t end = h->slice.address + whole(h);

	for (unsigned int i = 0; i < HANDLES; i++) {
		struct handle *o = &m->h[i];

		if (o == h || !o->id || !has_memory(o) || o->slice.address >= end ||
		    h->slice.address >= o->slice.address + whole(o))
			continue;
		if (is_held(m, o))
			wrong("[%" PRIx64 ",%" PRIx64 ") is handed out, and memory %" PRIu64
			      " has it: freed %d pins %u graphs %u touched %d, capture %d",
			      h->slice.address, end, o->id, o->freed, o->pins, o->graphs,
			      o->touched, m->capture[o->slot]);
		if (o->slice.claim.buffer == h->slice.claim.buffer &&
		    (o->slot != h->slot || o->persistent != h->persistent))
			wrong("slot %u area %d hands out what is slot %u's, area %d",
			      h->slot, h->persistent, o->slot, o->persistent);
		/* T-78: a reservation alone sheds nothing. */
		if (h->state == RESERVED && o->persistent && o->fails &&
		    o->slice.claim.buffer == h->slice.claim.buffer) {
			check_taint(m, &h->slice.claim, CAPKM_TAINTED);
			h->fails = true;
		}
		die_id(m, o->id);
		o->id = 0;
	}
}

/* CM-1 CM-2 CM-3 CM-6 */
static int hand_out(struct model *m, bool alloc)
{
	unsigned int slot = draw(m, SLOTS);
	struct handle *h = new_handle(m), new = { .slot = slot, .bytes = size(m) };
	struct state_now before;
	const u_int64_t given = m->pages->given;
	const struct handle *reuse;
	int rc;

	if (!h)
		return 0;
	new.persistent = m->capture[slot] || m->depth[slot];
	reuse = new.persistent ? must_reuse(m, slot, new.bytes) : NULL;
	before = state_now(m);
	err.text[0] = 0;
	arm(m);
	if (alloc)
		rc = capkm_pool_alloc(m->pool, slot, new.bytes, &new.id, &err);
	else
		rc = capkm_pool_reserve(m->pool, slot, new.bytes, &new.id, &err);
	disarm(m);
	if (rc) {
		if (!err.text[0])
			wrong("alloc: %d without words", rc);
		has_nothing_new(m, &before);
		if (rc == -ENOSPC && m->caps && !new.persistent)
			return 0;
		if (reuse && rc != -ENOMEM)
			wrong("alloc: %d (%s), and there is a free slice", rc, err.text);
		return rc;
	}
	new.state = alloc ? BOUND : RESERVED;
	new.touched = m->capture[slot];
	new.slice = slice_of(m->pool, new.id);
	check_slice(m->cl, m->pages, &new.slice, new.bytes, slot);
	if (new.persistent) {
		const struct page *page = page_of(m->pages, new.slice.address, 1);

		if (page->bytes != effective(m, new.bytes))
			wrong("the persistent area serves %" PRIu64 " bytes with a page of %"
			      PRIu64, new.bytes, page->bytes);
		if (reuse && m->pages->given != given)
			wrong("the persistent area grows for %" PRIu64 " bytes, and there "
			      "is the slice of %" PRIu64 ", freed in %d", new.bytes,
			      reuse->id, reuse->freed_in);
	}
	for (unsigned int i = 0; i < HANDLES; i++)
		if (m->h[i].id == new.id)
			wrong("id %" PRIu64 " is used again", new.id);
	note(alloc ? "alloc" : "reserve", new.id, slot);
	*h = new;
	handed_out(m, h);
	if (alloc)
		check_clean(m->cl, &h->slice.claim);
	fill(m, h);
	return 0;
}

static void op_alloc(struct model *m)
{
	OK(hand_out(m, true));
}

static void op_reserve(struct model *m)
{
	OK(hand_out(m, false));
}

static void op_handle(struct model *m)
{
	struct handle *h = new_handle(m);

	if (!h)
		return;
	*h = (struct handle){ 0 };
	OK(capkm_pool_handle(m->pool, &h->id, &err));
	note("handle", h->id, 0);
}

/* The handle has the slice, the reservation is gone. */
static int give(struct model *m, struct handle *r, struct handle *h)
{
	struct state_now before = state_now(m);
	u_int64_t reserved = r->id, id = h->id;
	int rc;

	err.text[0] = 0;
	arm(m);
	rc = capkm_pool_bind(m->pool, reserved, id, &err);
	disarm(m);
	if (rc) {
		is_unchanged(m, &before, "bind");
		return rc;
	}
	note("bind", reserved, r->slot);
	note("... to", id, r->slot);
	for (unsigned int g = 0; g < GRAPHS; g++)
		for (unsigned int i = 0; i < m->graph[g].n; i++)
			if (m->graph[g].h[i] == r)
				m->graph[g].h[i] = h;
	*h = *r;
	h->id = id;
	h->state = BOUND;
	h->fails = false;
	h->touched = m->capture[h->slot];
	r->id = 0;
	die_id(m, reserved);
	check_clean(m->cl, &h->slice.claim);
	return 0;
}

static void op_bind(struct model *m)
{
	struct handle *r = any_of(m, is_reserved), *h = any_of(m, is_lazy);

	if (r && h)
		OK(give(m, r, h));
}

static void op_free(struct model *m)
{
	struct handle *h = any_of(m, is_owned);

	if (!h)
		return;
	OK(capkm_pool_free(m->pool, h->id, &err));
	note("free", h->id, h->slot);
	h->freed = true;
	h->freed_in = has_memory(h) ? m->capture[h->slot] : NONE;
	settle(m, h);
}

static void op_pin(struct model *m)
{
	struct handle *h = any_of(m, is_used);

	if (!h)
		return;
	OK(capkm_pool_pin(m->pool, h->id, &err));
	note("pin", h->id, h->slot);
	h->pins++;
}

static void op_unpin(struct model *m)
{
	struct handle *h = any_of(m, is_pinned);

	if (!h)
		return;
	OK(capkm_pool_unpin(m->pool, h->id, &err));
	note("unpin", h->id, h->slot);
	h->pins--;
	settle(m, h);
}

static void op_write(struct model *m)
{
	struct handle *h = any_of(m, is_bound);
	struct capkm_where w = where(draw(m, 8));
	struct capkm_scope scope;

	if (!h)
		return;
	note("write", h->id, h->slot);
	OK(capkm_scope_enter(m->cl->c, &w, NULL, 0, &h->slice.claim, 1, NULL, &scope, NULL,
			     &err));
	h->fails = draw(m, 2);
	if (h->fails)
		OK(capkm_scope_fail(m->cl->c, &scope, NULL, &err));
	else
		OK(capkm_scope_exit(m->cl->c, &scope, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	fill(m, h);
}

static void check_handle(struct model *m, const struct handle *h)
{
	struct capkm_pool_slice want = h->slice, got = slice_of(m->pool, h->id);

	want.pins = h->pins + h->graphs;
	want.touched = h->touched;
	if (memcmp(&got, &want, sizeof(got)))
		wrong("memory %" PRIu64 ": buffer %llu [%llu,%llu) at %" PRIx64 " epoch %"
		      PRIu64 " slot %u pins %u touched %u, expected %llu [%llu,%llu) at %"
		      PRIx64 " epoch %" PRIu64 " slot %u pins %u touched %u", h->id,
		      got.claim.buffer, got.claim.start, got.claim.end, got.address,
		      got.epoch, got.slot, got.pins, got.touched, want.claim.buffer,
		      want.claim.start, want.claim.end, want.address, want.epoch,
		      want.slot, want.pins, want.touched);
	if (h->state == BOUND)
		check_taint(m, &want.claim, h->fails ? CAPKM_TAINTED : CAPKM_CLEAN);
}

static void op_find(struct model *m)
{
	struct handle *h = any_of(m, is_found);

	if (h)
		check_handle(m, h);
}

/* CM-7, and that it does what it is for. */
static void op_cleanup(struct model *m)
{
	unsigned int slot = draw(m, SLOTS), held = 0;
	struct state_now before = state_now(m);

	OK(capkm_pool_cleanup(m->pool, slot, &err));
	note("cleanup", 0, slot);
	if (m->capture[slot]) {
		is_unchanged(m, &before, "cleanup");
		return;
	}
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct handle *h = &m->h[i];

		if (!h->id || !has_memory(h) || h->slot != slot)
			continue;
		if (is_held(m, h)) {
			held++;
			continue;
		}
		if (h->persistent && page_of(m->pages, h->slice.address, 1))
			wrong("free memory %" PRIu64 " still has its page", h->id);
		h->id = 0;
	}
	if (stats_of(m->pool, slot).pages > held)
		wrong("%u slices are held in %" PRIu64 " pages", held,
		      stats_of(m->pool, slot).pages);
}

/* CM-1 */
static void op_capture_begin(struct model *m)
{
	unsigned int slot = draw(m, SLOTS);

	OK(capkm_pool_capture_begin(m->pool, slot, &err));
	note("capture_begin", 0, slot);
	if (!m->capture[slot])
		m->capture[slot] = PRIMING;
}

/* CM-4 */
static void op_priming_end(struct model *m)
{
	unsigned int slot = draw(m, SLOTS);

	OK(capkm_pool_priming_end(m->pool, slot, &err));
	note("priming_end", 0, slot);
	if (m->capture[slot] != PRIMING)
		return;
	m->capture[slot] = RECORDING;
	for (unsigned int i = 0; i < HANDLES; i++)
		if (m->h[i].slot == slot)
			m->h[i].unsure = false;
}

static int by_id(const void *a, const void *b)
{
	const u_int64_t x = *(const u_int64_t *)a, y = *(const u_int64_t *)b;

	return x < y ? -1 : x > y;
}

static void check_pins(const struct graph *g)
{
	u_int64_t want[HANDLES], got[HANDLES];
	uint32_t n;
	const uint64_t *list = capkm_pool_pins_list(g->pins, &n);

	if (n != g->n)
		wrong("%u slices are pinned, %u were touched", n, g->n);
	if (!n)
		return;
	memcpy(want, g->id, n * sizeof(*want));
	memcpy(got, list, n * sizeof(*got));
	qsort(want, n, sizeof(*want), by_id);
	qsort(got, n, sizeof(*got), by_id);
	for (unsigned int i = 0; i < n; i++)
		if (got[i] != want[i])
			wrong("memory %" PRIu64 " is pinned, expected %" PRIu64, got[i],
			      want[i]);
}

/* What was touched is the graph's now, or nobody's. CM-5 */
static void disarm_slot(struct model *m, unsigned int slot, struct graph *g)
{
	m->capture[slot] = NONE;
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct handle *h = &m->h[i];

		if (!h->id || !has_memory(h) || h->slot != slot)
			continue;
		h->unsure = false;
		h->freed_in = NONE;
		if (h->touched && g) {
			h->graphs++;
			g->h[g->n] = h;
			g->id[g->n++] = h->id;
		}
		h->touched = false;
	}
}

/* CM-5 CM-9 */
static int capture_end(struct model *m)
{
	unsigned int slot = draw(m, SLOTS), i = 0;
	struct state_now before = state_now(m);
	struct capkm_pool_pins *pins = (void *)1;
	struct graph *g = NULL;
	int rc;

	while (i < GRAPHS && m->graph[i].pins)
		i++;
	if (i < GRAPHS && draw(m, 4))
		g = &m->graph[i];
	arm(m);
	rc = capkm_pool_capture_end(m->pool, slot, g ? &pins : NULL, &err);
	disarm(m);
	if (rc) {
		is_unchanged(m, &before, "capture_end");
		return rc;
	}
	note(g ? "capture_end" : "capture_end, gives up", 0, slot);
	if (g)
		*g = (struct graph){ .pins = pins, .epoch = m->epoch };
	disarm_slot(m, slot, g);
	if (!g)
		return 0;
	if (!pins != !g->n)
		wrong("capture_end gives %p, %u slices were touched", (void *)pins, g->n);
	check_pins(g);
	return 0;
}

static void op_capture_end(struct model *m)
{
	OK(capture_end(m));
}

static void op_pins_put(struct model *m)
{
	struct graph *g = &m->graph[draw(m, GRAPHS)];

	if (!g->pins)
		return;
	check_pins(g);
	capkm_pool_pins_put(g->pins);
	for (unsigned int i = 0; i < g->n && g->epoch == m->epoch; i++) {
		note("put", g->h[i]->id, g->h[i]->slot);
		g->h[i]->graphs--;
		settle(m, g->h[i]);
	}
	*g = (struct graph){ 0 };
}

/* CM-6 */
static void op_persistent_begin(struct model *m)
{
	unsigned int slot = draw(m, SLOTS);

	note("persistent_begin", 0, slot);
	OK(capkm_pool_persistent_begin(m->pool, slot, &err));
	m->depth[slot]++;
}

static void op_persistent_end(struct model *m)
{
	unsigned int slot = draw(m, SLOTS);

	note("persistent_end", 0, slot);
	OK(capkm_pool_persistent_end(m->pool, slot, &err));
	if (m->depth[slot])
		m->depth[slot]--;
}

static void op_reset(struct model *m)
{
	struct capkm_domain_query d;

	if (draw(m, 4))
		return;
	OK(capkm_pool_reset(m->pool, &err));
	note("reset", 0, 0);
	m->epoch++;
	memset(m->capture, 0, sizeof(m->capture));
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct handle *h = &m->h[i];

		if (!h->id || !has_memory(h))
			continue;
		h->state = EMPTY;
		h->touched = false;
		h->freed_in = NONE;
		h->graphs = 0;
		settle(m, h);
	}
	d = t_domain_query_(m->cl);
	if (m->pages->live || d.out_failures || d.out_buffers != m->pages_of_other->live)
		wrong("after a reset %u pages, failures %llu, buffers %llu", m->pages->live,
		      d.out_failures, d.out_buffers);
}

/* The backend has nothing, or the authority has no memory: nothing has changed. */
static void op_backend_fails(struct model *m)
{
	static const int says[] = { -EIO, -ENOMEM, -ENOSPC };
	int rc;

	m->pages->fail = says[draw(m, 3)];
	rc = hand_out(m, draw(m, 2));
	if (rc && rc != m->pages->fail)
		wrong("alloc: %d, the backend said %d", rc, m->pages->fail);
	m->pages->fail = 0;
}

static void op_engine_fails(struct model *m)
{
	unsigned int what = draw(m, 4);
	int rc = 0;

	if (!t_embedded())
		return;
	m->engine_failed = true;
	m->fail_alloc = 1 + draw(m, 4);
	if (what < 2) {
		rc = hand_out(m, what);
	} else if (what == 2) {
		struct handle *r = any_of(m, is_reserved), *h = any_of(m, is_lazy);

		if (r && h)
			rc = give(m, r, h);
	} else {
		rc = capture_end(m);
	}
	m->fail_alloc = 0;
	if (rc && rc != -ENOMEM)
		wrong("without memory: %d (%s)", rc, err.text);
}

/* ---- what is not allowed */

static bool is_zombie(const struct handle *h)
{
	return h->freed && is_used(h);
}
static bool is_pinned_reserved(const struct handle *h)
{
	return !h->freed && h->state == RESERVED && h->pins;
}
static bool is_a_graphs(const struct handle *h)
{
	return h->graphs && !h->pins;
}
static bool is_unpinned(const struct handle *h)
{
	return !h->freed && has_memory(h) && !h->pins;
}

static u_int64_t wrong_id(struct model *m)
{
	switch (draw(m, 5)) {
	case 0:
		return m->other_id;
	case 1:
		return choices_next(&m->rng);
	case 2:
		return draw(m, 2) ? 0 : UINT64_MAX;
	default:
		return m->dead ? m->dead_id[draw(m, m->dead < DEAD ? m->dead : DEAD)] : 0;
	}
}

/* An id that means nothing here, wherever one is given. */
static void refuse_id(struct model *m, u_int64_t id)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	struct handle *r = any_of(m, is_reserved), *h = any_of(m, is_lazy);

	switch (draw(m, 6)) {
	case 0:
		REFUSE(m, -ENOENT, capkm_pool_find(m->pool, id, &s, &err));
		break;
	case 1:
		REFUSE(m, -ENOENT, capkm_pool_free(m->pool, id, &err));
		break;
	case 2:
		REFUSE(m, -ENOENT, capkm_pool_pin(m->pool, id, &err));
		break;
	case 3:
		REFUSE(m, -ENOENT, capkm_pool_unpin(m->pool, id, &err));
		break;
	case 4:
		if (h)
			REFUSE(m, -ENOENT, capkm_pool_bind(m->pool, id, h->id, &err));
		break;
	default:
		if (r)
			REFUSE(m, -ENOENT, capkm_pool_bind(m->pool, r->id, id, &err));
	}
}

static void op_wrong(struct model *m)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	struct handle *h = NULL, *r = any_of(m, is_reserved), *l = any_of(m, is_lazy);
	unsigned int what = draw(m, 12);
	u_int64_t id;

	switch (what) {
	case 0:		/* freed, and only pinned */
		h = any_of(m, is_zombie);
		if (h) {
			REFUSE(m, -ENOENT, capkm_pool_free(m->pool, h->id, &err));
			REFUSE(m, -ENOENT, capkm_pool_find(m->pool, h->id, &s, &err));
			if (l)
				REFUSE(m, -ENOENT, capkm_pool_bind(m->pool, h->id, l->id, &err));
		}
		break;
	case 1:		/* a graph's pin is not the caller's */
		h = any_of(m, draw(m, 4) ? is_a_graphs : is_unpinned);
		if (h)
			REFUSE(m, -EINVAL, capkm_pool_unpin(m->pool, h->id, &err));
		break;
	case 2:
		if (l) {
			REFUSE(m, -ENOENT, capkm_pool_find(m->pool, l->id, &s, &err));
			REFUSE(m, -ENOENT, capkm_pool_pin(m->pool, l->id, &err));
		}
		break;
	case 3:
		h = any_of(m, is_bound);
		if (r && h)
			REFUSE(m, -EINVAL, capkm_pool_bind(m->pool, r->id, h->id, &err));
		break;
	case 4:
		h = any_of(m, is_pinned_reserved);
		if (h && l)
			REFUSE(m, -EINVAL, capkm_pool_bind(m->pool, h->id, l->id, &err));
		break;
	case 5:
		REFUSE(m, -EINVAL, capkm_pool_alloc(m->pool, SLOTS + draw(m, 9), 32, &id, &err));
		REFUSE(m, -EINVAL, capkm_pool_reserve(m->pool, draw(m, SLOTS), 0, &id, &err));
		break;
	case 6:
		REFUSE(m, -EINVAL, capkm_pool_capture_begin(m->pool, UINT32_MAX, &err));
		REFUSE(m, -EINVAL, capkm_pool_cleanup(m->pool, SLOTS, &err));
		break;
	default:
		refuse_id(m, wrong_id(m));
	}
}

/* ---- all of it */

static const struct op {
	void (*fn)(struct model *m);
	unsigned int weight;
} ops[] = {
	{ op_alloc, 20 }, { op_reserve, 6 }, { op_handle, 5 }, { op_bind, 6 },
	{ op_free, 16 }, { op_pin, 7 }, { op_unpin, 8 }, { op_write, 8 }, { op_find, 6 },
	{ op_cleanup, 3 }, { op_capture_begin, 4 }, { op_priming_end, 4 },
	{ op_capture_end, 5 }, { op_pins_put, 4 }, { op_persistent_begin, 3 },
	{ op_persistent_end, 4 }, { op_reset, 1 }, { op_backend_fails, 4 },
	{ op_engine_fails, 4 }, { op_wrong, 8 },
};

static void check_stats(struct model *m)
{
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		struct capkm_pool_stats s = stats_of(m->pool, slot);
		u_int64_t used = 0, padding = 0, slices = 0, carriers = 0;

		for (unsigned int i = 0; i < HANDLES; i++) {
			const struct handle *h = &m->h[i];

			if (!h->id || h->slot != slot || !is_used(h))
				continue;
			used += h->bytes;
			padding += h->slice.padding;
			slices++;
			carriers += h->fails;
		}
		if (s.used != used || s.padding != padding || s.slices != slices)
			wrong("slot %u: %" PRIu64 " bytes and %" PRIu64 " of padding in %"
			      PRIu64 " slices, expected %" PRIu64 " %" PRIu64 " %" PRIu64,
			      slot, s.used, s.padding, s.slices, used, padding, slices);
		if (s.carriers < carriers)
			wrong("slot %u: %" PRIu64 " carriers, there are %" PRIu64, slot,
			      s.carriers, carriers);
		if (s.capture != m->capture[slot] || s.persistent != m->depth[slot] ||
		    s.epoch != m->epoch || s.epoch != capkm_pool_epoch(m->pool))
			wrong("slot %u: capture %u depth %u epoch %" PRIu64 ", expected %d "
			      "%u %" PRIu64, slot, s.capture, s.persistent, s.epoch,
			      m->capture[slot], m->depth[slot], m->epoch);
	}
	check_sums(m->cl, m->pool, m->pages, m->engine_failed);
}

static void check_all(struct model *m)
{
	for (unsigned int i = 0; i < HANDLES; i++) {
		const struct handle *h = &m->h[i];

		if (!h->id)
			continue;
		if (is_held(m, h))
			check_fill(m, h);
		if (is_found(h))
			check_handle(m, h);
	}
}

static void step(struct model *m)
{
	unsigned int all = 0, n, i = 0;

	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		all += ops[i].weight;
	n = draw(m, all);
	for (i = 0; n >= ops[i].weight; i++)
		n -= ops[i].weight;
	ops[i].fn(m);
	check_stats(m);
	if (!(step_now % 10))
		check_all(m);
}

/* Everybody lets go: then nothing is left. */
static void finish(struct model *m)
{
	struct capkm_domain_query d;

	check_all(m);
	for (unsigned int i = 0; i < GRAPHS; i++)
		capkm_pool_pins_put(m->graph[i].pins);
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		OK(capkm_pool_capture_end(m->pool, slot, NULL, &err));
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct handle *h = &m->h[i];

		if (!h->id)
			continue;
		while (h->pins--)
			OK(capkm_pool_unpin(m->pool, h->id, &err));
		if (!h->freed)
			OK(capkm_pool_free(m->pool, h->id, &err));
	}
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		OK(capkm_pool_cleanup(m->pool, slot, &err));
	d = t_domain_query_(m->cl);
	if (m->pages->live || d.out_failures || d.out_buffers != m->pages_of_other->live)
		wrong("left over: %u pages, failures %llu, buffers %llu", m->pages->live,
		      d.out_failures, d.out_buffers);
}

static void everything(const struct areas *areas, u_int64_t seed)
{
	static const u_int64_t alignments[] = { 32, 256, 96 };
	struct model *m = calloc(1, sizeof(*m));

	T_AT;
	seed_now = seed;
	step_now = 0;
	events = 0;
	m->rng = seed;
	m->cl = new_session();
	m->pages = pages_new(alignments[seed % 3], PAGE_MAX, GPU);
	m->pages_of_other = pages_new(64, 0, GPU);
	m->pool = new_pool(m->cl, &m->pages->memory, areas);
	m->other = new_pool(m->cl, &m->pages_of_other->memory, &slices);
	OK(capkm_pool_alloc(m->other, 0, 100, &m->other_id, &err));
	m->caps = areas == &capped;
	while (step_now++ < OPS)
		step(m);
	/* Half of the runs end as they are. */
	if (seed % 2)
		finish(m);
	else
		for (unsigned int i = 0; i < GRAPHS; i++)
			capkm_pool_pins_put(m->graph[i].pins);
	capkm_pool_destroy(m->pool);
	capkm_pool_destroy(m->other);
	if (t_domain_query_(m->cl).out_buffers)
		wrong("a pool leaves buffers");
	pages_delete(m->pages);
	pages_delete(m->pages_of_other);
	t_close(m->cl);
	free(m);
}

/* ------------------------------------------------------------ by threads */

#define THREADS	SLOTS
#define OWN	24

enum use { FREE, LIVE, PINNED, KEPT };

/* Memory of one thread, which alone writes it. */
struct own {
	enum use use;		/* PINNED, KEPT: freed */
	u_int64_t id, bytes;
	bool recorded;		/* its slot is the thread's, and recorded */
	unsigned char *data, fill;
};

/* Each thread captures on a slot of its own; everybody allocates on all. */
struct thread {
	pthread_t thread;
	struct capkm_pool *pool;
	unsigned int slot;
	bool caps;
	enum capture capture;
	u_int64_t rng;
	struct capkm_pool_pins *pins;
	struct own own[OWN];
};

static void thread_alloc(struct thread *t, struct own *o)
{
	unsigned int slot = choices_next(&t->rng) % SLOTS;
	int rc;

	*o = (struct own){ .use = LIVE, .bytes = 1 + choices_next(&t->rng) % 2048 };
	o->recorded = slot == t->slot && t->capture == RECORDING;
	rc = capkm_pool_alloc(t->pool, slot, o->bytes, &o->id, &err);
	if (rc == -ENOSPC && t->caps) {
		o->use = FREE;
		return;
	}
	if (rc)
		wrong("alloc of %" PRIu64 ": %d (%s)", o->bytes, rc, err.text);
	o->data = (void *)(uintptr_t)slice_of(t->pool, o->id).address;
	o->fill = choices_next(&t->rng);
	memset(o->data, o->fill, o->bytes);
}

static void thread_check(const struct own *o)
{
	for (u_int64_t i = 0; i < o->bytes; i++)
		if (o->data[i] != o->fill)
			wrong("memory %" PRIu64 " byte %" PRIu64 ": another thread has "
			      "written %u over %u", o->id, i, o->data[i], o->fill);
}

/* One step nearer to its end. */
static void thread_free(struct thread *t, struct own *o)
{
	if (o->use == LIVE) {
		OK(capkm_pool_pin(t->pool, o->id, &err));
		OK(capkm_pool_free(t->pool, o->id, &err));
		o->use = PINNED;
	} else if (o->use == PINNED) {
		/* What was freed in the recording stays until the graph is gone. */
		bool kept = o->recorded && (t->capture == RECORDING || t->pins);

		OK(capkm_pool_unpin(t->pool, o->id, &err));
		o->use = kept ? KEPT : FREE;
	}
}

static void thread_forget(struct thread *t)
{
	for (unsigned int i = 0; i < OWN; i++) {
		t->own[i].recorded = false;
		if (t->own[i].use != KEPT)
			continue;
		thread_check(&t->own[i]);
		t->own[i].use = FREE;
	}
}

static void thread_capture(struct thread *t)
{
	if (t->pins) {
		thread_forget(t);
		capkm_pool_pins_put(t->pins);
		t->pins = NULL;
	} else if (t->capture == NONE) {
		OK(capkm_pool_capture_begin(t->pool, t->slot, &err));
		t->capture = PRIMING;
	} else if (t->capture == PRIMING) {
		OK(capkm_pool_priming_end(t->pool, t->slot, &err));
		t->capture = RECORDING;
	} else {
		OK(capkm_pool_capture_end(t->pool, t->slot, &t->pins, &err));
		t->capture = NONE;
		if (!t->pins)
			thread_forget(t);
	}
}

static void *thread(void *arg)
{
	struct thread *t = arg;
	u_int64_t n = operations() / THREADS;

	seed_now = t->slot;
	for (u_int64_t i = 0; i < n; i++) {
		struct own *o = &t->own[choices_next(&t->rng) % OWN];
		unsigned int what = choices_next(&t->rng) % 100;

		step_now = i;
		if (o->use != FREE)
			thread_check(o);
		if (what < 5)
			OK(capkm_pool_cleanup(t->pool, what % SLOTS, &err));
		else if (what < 10)
			thread_capture(t);
		else if (what < 15)
			stats_of(t->pool, what % SLOTS);
		else if (o->use == FREE)
			thread_alloc(t, o);
		else
			thread_free(t, o);
	}
	return NULL;
}

static void thread_end(struct thread *t)
{
	while (t->capture || t->pins)
		thread_capture(t);
	for (unsigned int i = 0; i < OWN; i++)
		while (t->own[i].use)
			thread_free(t, &t->own[i]);
}

static void threads(const struct areas *areas)
{
	struct cl *cl = new_session();
	struct capkm_pool *pool = new_pool(cl, capkm_pool_host_memory(), areas);
	struct thread *t = calloc(THREADS, sizeof(*t));

	for (unsigned int i = 0; i < THREADS; i++) {
		t[i].pool = pool;
		t[i].caps = areas == &capped;
		t[i].slot = t[i].rng = i;
		if (pthread_create(&t[i].thread, NULL, thread, &t[i]))
			t_die("no thread");
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(t[i].thread, NULL);
	for (unsigned int i = 0; i < THREADS; i++)
		thread_end(&t[i]);
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		OK(capkm_pool_cleanup(pool, slot, &err));
	if (t_domain_query_(cl).out_buffers)
		wrong("left over: buffers %llu", t_domain_query_(cl).out_buffers);
	capkm_pool_destroy(pool);
	t_close(cl);
	free(t);
}

/* ---- the tests, for each way to serve sizes */

FIXTURE(pool) { };
FIXTURE_SETUP(pool) { }
FIXTURE_TEARDOWN(pool) { }

FIXTURE_VARIANT(pool)
{
	const struct areas *areas;
};

FIXTURE_VARIANT_ADD(pool, slices)
{
	.areas = &slices,
};

FIXTURE_VARIANT_ADD(pool, exclusive)
{
	.areas = &exclusive,
};

FIXTURE_VARIANT_ADD(pool, small)
{
	.areas = &small,
};

FIXTURE_VARIANT_ADD(pool, capped)
{
	.areas = &capped,
};

static void runs(const struct areas *areas,
		 void (*run)(const struct areas *areas, u_int64_t seed))
{
	u_int64_t n = operations();
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 0, 0);

	for (u_int64_t done = 0; done < n; done += OPS)
		run(areas, seed++);
	t_no_leaks();
}

/* T-20 (slices), T-21 (exclusive), T-22 T-23 T-24 */
TEST_F_TIMEOUT(pool, last_writer, 3000)
{
	runs(variant->areas, last_writer);
}

/* CM-1 to CM-9, T-60 to T-72, T-76, T-78 */
TEST_F_TIMEOUT(pool, everything, 3000)
{
	runs(variant->areas, everything);
}

/* Nobody gets what somebody has, by several threads at once. */
TEST_F_TIMEOUT(pool, threads, 600)
{
	T_AT;
	threads(variant->areas);
	t_no_leaks();
}

TEST_HARNESS_MAIN
