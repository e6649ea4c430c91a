// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The error graph. A failure is in it exactly as long as some buffer carries
 * it (EG-11); windows, scopes and reports may pin its text for longer.
 */
#include "internal.h"

void ck_copy_clean(char *to, size_t size, const char *from, size_t len)
{
	size_t i;

	memset(to, 0, size);
	for (i = 0; i < len && i + 1 < size && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
}

void ck_who_set(struct who *w, const struct capkm_caller *who, u64 session,
		u64 stream)
{
	ck_who_put(w);
	w->proc = host_proc_get(who->proc);
	w->session = session;
	w->stream = stream;
	w->tid = who->tid;
	w->uid = who->uid;
	ck_copy_clean(w->comm, sizeof(w->comm), who->comm, sizeof(who->comm));
}

void ck_who_copy(struct who *w, const struct who *from)
{
	ck_who_put(w);
	*w = *from;
	if (w->proc)
		host_proc_get(w->proc);
}

void ck_who_put(struct who *w)
{
	if (w->proc)
		host_proc_put(w->proc);
	w->proc = NULL;
}

/* As the reader may see it. */
void ck_who_report(const struct who *w, struct capkm_report *r)
{
	r->stream = w->stream;
	r->session = w->session;
	r->pid = w->proc ? host_proc_pid(w->proc) : 0;
	r->tid = w->tid;
	r->uid = host_uid_view(w->uid);
	memcpy(r->comm, w->comm, sizeof(r->comm));
}

/* It gets its id when it happens. */
struct failure *ck_failure_latent(struct stock *from)
{
	struct failure *f = ck_stock_take(from, STOCK_FAILURE);

	f->latent = true;
	f->pins = 1;
	f->kind = CAPKM_KIND_GENERIC;
	link_init(&f->sib);
	link_init(&f->skips);
	return f;
}

static void failure_free(struct failure *f, struct stock *back)
{
	ck_who_put(&f->who);
	host_free(f->stack);
	ck_stock_give(back, STOCK_FAILURE, f);
}

struct failure *ck_failure_new(struct domain *d, struct stock *from)
{
	struct failure *f = ck_failure_latent(from);

	f->latent = false;
	f->node.id = ++d->next_failure;
	return f;
}

void ck_failure_date(struct domain *d, struct failure *f, u32 kind, s32 code)
{
	f->kind = kind;
	f->code = code;
	f->sequence = d->sequence;
	f->time_ns = host_time_ns();
}

struct failure *ck_failure_by(struct call *c, u64 stream, u32 kind, s32 code)
{
	struct failure *f = ck_failure_new(c->domain, &c->session->stock);

	ck_failure_date(c->domain, f, kind, code);
	ck_who_set(&f->who, c->who, c->session->id, stream);
	return f;
}

void ck_failure_pin(struct failure *f)
{
	f->pins++;
}

void ck_failure_unpin(struct failure *f, struct stock *back)
{
	if (!--f->pins && !f->carriers.count)
		failure_free(f, back);
}

void ck_failure_text(struct failure *f, const char *text, u32 len)
{
	f->text_len = min(len, (u32)CAPKM_TEXT_MAX);
	memcpy(f->text, text, f->text_len);
	f->text[f->text_len] = 0;
}

static void link_failure(struct domain *d, struct failure *f)
{
	ck_id_insert(&d->failures, &f->node);
	host_trace(failure_mint, d, f);
	ck_event_failure(d, CAPKM_EVENT_FAILURE_MINTED, f);
}

static struct carrier *find_carrier(const struct failure *f,
				    const struct buffer *b)
{
	return id_entry(ck_id_find(&f->carriers, b->node.id), struct carrier,
			node);
}

static void add_carrier(struct domain *d, struct failure *f, struct buffer *b,
			struct carrier *c)
{
	c->node.id = b->node.id;
	c->failure = f;
	c->buffer = b;
	if (!f->latent) {
		b->failures++;
		if (!f->carriers.count)
			link_failure(d, f);
	}
	ck_id_insert(&f->carriers, &c->node);
}

struct carrier *ck_failure_tag(struct domain *d, struct failure *f,
			       struct buffer *b, struct stock *from)
{
	struct carrier *c = find_carrier(f, b);

	if (!c) {
		c = ck_stock_take(from, STOCK_CARRIER);
		add_carrier(d, f, b, c);
	}
	c->claims++;
	f->changes++;
	return c;
}

struct carrier *ck_failure_tag_spare(struct domain *d, struct failure *f,
				     struct buffer *b)
{
	struct carrier *c = find_carrier(f, b);

	if (!c) {
		c = b->spare_carrier;
		b->spare_carrier = NULL;
		memset(c, 0, sizeof(*c));
		add_carrier(d, f, b, c);
	}
	c->claims++;
	f->changes++;
	return c;
}

void ck_failure_happened(struct domain *d, struct failure *f)
{
	struct id_node *at;
	struct buffer *b;
	u32 n = 0;

	f->latent = false;
	f->node.id = ++d->next_failure;
	for (at = ck_id_first(&f->carriers); at; at = ck_id_next(at)) {
		b = container_of(at, struct carrier, node)->buffer;
		b->failures++;
		ck_buffer_touch(b);
		if (!(++n % 1024))
			host_relax();
	}
	if (f->carriers.count)
		link_failure(d, f);
}

void ck_skip_free(struct skip *s, struct stock *back)
{
	struct skip *more;

	for (; s; s = more) {
		more = s->more;
		ck_stock_give(back, STOCK_SKIP, s);
	}
}

static void drop_oldest_skip(struct failure *f, struct stock *back)
{
	struct skip *s = link_first(&f->skips, struct skip, sib);

	link_del(&s->sib);
	f->skips_kept--;
	ck_skip_free(s, back);
}

void ck_failure_untag(struct domain *d, struct carrier *c, struct stock *back)
{
	struct failure *f = c->failure;
	struct buffer *b = c->buffer;

	f->changes++;
	if (--c->claims)
		return;
	ck_id_erase(&f->carriers, &c->node);
	if (b->shared || b->spare_carrier)
		ck_stock_give(back, STOCK_CARRIER, c);
	else
		b->spare_carrier = c;
	if (f->latent)
		return;
	b->failures--;
	if (f->carriers.count)
		return;
	host_trace(failure_prune, d, f);
	ck_event_failure(d, CAPKM_EVENT_FAILURE_PRUNED, f);
	ck_id_erase(&d->failures, &f->node);
	while (f->skips_kept)
		drop_oldest_skip(f, back);
	if (!f->pins)
		failure_free(f, back);
}

/* @at: the last part of @s. Returns the last part then. */
struct skip *ck_skip_produced(struct skip *at, u64 buffer, struct stock *from)
{
	if (at->produced_n == SKIP_PRODUCED) {
		at->more = ck_stock_take(from, STOCK_SKIP);
		at = at->more;
	}
	at->produced[at->produced_n++] = buffer;
	return at;
}

void ck_failure_skipped(struct failure *f, struct skip *s, struct stock *back)
{
	s->time_ns = host_time_ns();
	link_add_tail(&s->sib, &f->skips);
	f->skips_total++;
	if (++f->skips_kept > SKIPS_MAX)
		drop_oldest_skip(f, back);
}

/* Keeps the text of a failure whose bytes went with their client. */
void ck_failure_keep(struct domain *d, struct failure *f)
{
	struct failure *oldest;

	ck_failure_pin(f);
	f->report = ++d->reports_total;
	link_add_tail(&f->sib, &d->reports);
	if (++d->reports_n <= d->limit[CAPKM_LIMIT_REPORTS])
		return;
	oldest = link_first(&d->reports, struct failure, sib);
	link_del(&oldest->sib);
	d->reports_n--;
	ck_failure_unpin(oldest, NULL);
}

struct failure *ck_failure_find(struct domain *d, u64 id)
{
	struct failure *f = id_entry(ck_id_find(&d->failures, id),
				     struct failure, node);
	struct link *l;

	if (f)
		return f;
	link_for_each(l, &d->reports) {
		f = link_entry(l, struct failure, sib);
		if (f->node.id == id)
			return f;
	}
	return NULL;
}

/* @pid: " (pid 1234)" for a reader who may see it, or "". */
static u32 make_text(const struct failure *f, const char *pid, char *text,
		     size_t size)
{
	const unsigned long long stream = f->who.stream;

	if (f->kind == CAPKM_KIND_OWNER_DIED)
		return scnprintf(text, size,
			"%s%s, whose stream %llu owned window %llu, ended before it was sealed",
			f->who.comm, pid, stream, (unsigned long long)f->window);
	if (f->kind == CAPKM_KIND_UNCONFIRMED)
		return scnprintf(text, size,
			"%s%s ended before it had confirmed this work",
			f->who.comm, pid);
	if (f->kind != CAPKM_KIND_TORN_DOWN)
		return scnprintf(text, size, "%s", f->text);
	if (f->graph)
		return scnprintf(text, size,
			"torn down: %s%s ended inside a replay of graph %llu on stream %llu",
			f->who.comm, pid, (unsigned long long)f->graph, stream);
	return scnprintf(text, size,
		"torn down: %s%s ended inside " CK_SCOPE_FMT " of stream %llu",
		f->who.comm, pid, CK_SCOPE_ARG(f->scope), stream);
}

u32 ck_failure_reason(const struct failure *f, char *text, size_t size)
{
	return make_text(f, "", text, size);
}

/* A pid is only a number for its reader, so this text is made for him. */
static u32 text_for_reader(const struct failure *f, u32 pid, char *text,
			   size_t size)
{
	char number[24];

	scnprintf(number, sizeof(number), " (pid %u)", pid);
	return make_text(f, number, text, size);
}

static bool is_of_ended_client(const struct failure *f)
{
	return f->kind == CAPKM_KIND_TORN_DOWN ||
	       f->kind == CAPKM_KIND_OWNER_DIED ||
	       f->kind == CAPKM_KIND_UNCONFIRMED;
}

void ck_failure_report(const struct failure *f, struct capkm_report *r)
{
	memset(r, 0, sizeof(*r));
	r->failure = f->node.id;
	r->kind = f->kind;
	r->code = f->code;
	r->scope = f->scope;
	r->graph = f->graph;
	r->window = f->window;
	r->sequence = f->sequence;
	r->time_ns = f->time_ns;
	r->carriers = min(f->carriers.count, (u64)U32_MAX);
	ck_who_report(&f->who, r);
	memcpy(r->label, f->label, sizeof(r->label));
	if (is_of_ended_client(f)) {
		r->text_len = text_for_reader(f, r->pid, (char *)r->text,
					      sizeof(r->text));
	} else {
		r->text_len = f->text_len;
		memcpy(r->text, f->text, f->text_len);
	}
}

static bool produced(const struct skip *s, u64 buffer)
{
	u32 i;

	for (; s; s = s->more)
		for (i = 0; i < s->produced_n; i++)
			if (s->produced[i] == buffer)
				return true;
	return false;
}

static void fill_hop(const struct skip *s, struct capkm_hop *hop)
{
	memset(hop, 0, sizeof(*hop));
	hop->needed = s->needed;
	hop->time_ns = s->time_ns;
	memcpy(hop->label, s->label, sizeof(hop->label));
}

u32 ck_failure_hops(const struct failure *f, u64 buffer,
		    struct capkm_hop *hops, u32 len)
{
	const struct link *l;
	const struct skip *s;
	u32 n = 0;

	for (l = f->skips.prev; l != &f->skips; l = l->prev) {
		s = link_entry(l, struct skip, sib);
		if (!produced(s, buffer))
			continue;
		if (n < len)
			fill_hop(s, &hops[n]);
		n++;
		buffer = s->needed;
	}
	return n;
}

u32 ck_failure_skips(const struct failure *f, struct capkm_hop *hops, u32 len)
{
	const struct link *l;
	u32 n = 0;

	for (l = f->skips.prev; l != &f->skips && n < len; l = l->prev)
		fill_hop(link_entry(l, struct skip, sib), &hops[n++]);
	return n;
}

static u32 fill_carriers(const struct failure *f, struct capkm_claim *out,
			 u32 len)
{
	struct id_node *at;
	struct carrier *c;
	u32 n = 0;

	for (at = ck_id_first(&f->carriers); at && n < len;
	     at = ck_id_next(at), n++) {
		c = container_of(at, struct carrier, node);
		out[n].buffer = c->node.id;
		out[n].start = 0;
		out[n].end = c->buffer->size;
	}
	return n;
}

int ck_op_failure_query(struct call *c)
{
	struct capkm_failure_query *a = c->arg;
	struct array *reports = &c->array[0], *hops = &c->array[1];
	struct array *carriers = &c->array[2], *stack = &c->array[3];
	struct failure *f = ck_failure_find(c->domain, a->failure);

	if (!f)
		return -ENOENT;
	if (reports->len) {
		ck_failure_report(f, reports->data);
		reports->used = 1;
	}
	hops->used = min(hops->len, ck_failure_hops(f, a->buffer, hops->data,
						    hops->len));
	carriers->used = fill_carriers(f, carriers->data, carriers->len);
	stack->used = min(stack->len, f->stack_len);
	if (stack->used)
		memcpy(stack->data, f->stack, stack->used);
	a->out_reports = reports->used;
	a->out_hops = hops->used;
	a->out_carriers = carriers->used;
	a->out_stack = f->stack_len;
	a->out_skips = f->skips_total;
	a->out_dropped = f->skips_total - f->skips_kept;
	return 0;
}
