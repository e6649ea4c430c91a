// SPDX-License-Identifier: MIT
/*
 * What a graph really touches, as far as its nodes tell. Kernels are given addresses
 * in their arguments, also inside of structs, so each aligned word of those is looked
 * at: a word that lies in a known buffer names a buffer that the kernel was given.
 * Nobody can say what it does there, so such buffers are "seen": checked before a
 * replay, tainted when it fails, never released by its success.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

struct walk {
	struct capkm_cuda *cuda;
	struct window *window;
	const char *call;
	struct found *found;
	struct capkm_error *err;
	bool memory_nodes;
	uint64_t *seen;			/* buffers */
	uint32_t seen_len, seen_capacity;
};

static int no_memory(struct walk *w)
{
	return capkm_no_memory(w->call, w->err);
}

/* The first of a window's named buffers that is not below @buffer. */
static uint32_t lower(const struct window *w, uint64_t buffer)
{
	uint32_t low = 0, high = w->named_len;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (w->named[middle] < buffer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A buffer that some scope has named, if only in part, is not news. */
static bool is_named(const struct window *w, uint64_t buffer)
{
	uint32_t i = lower(w, buffer);

	return i < w->named_len && w->named[i] == buffer;
}

/* Under the lock. */
static int name(struct window *w, uint64_t buffer)
{
	uint32_t i, capacity;
	void *named;

	if (is_named(w, buffer))
		return 0;
	if (w->named_len == w->named_capacity) {
		capacity = w->named_capacity ? w->named_capacity * 2 : 16;
		named = realloc(w->named, capacity * sizeof(*w->named));
		if (!named)
			return -ENOMEM;
		w->named = named;
		w->named_capacity = capacity;
	}
	i = lower(w, buffer);
	memmove(&w->named[i + 1], &w->named[i],
		(w->named_len - i) * sizeof(*w->named));
	w->named[i] = buffer;
	w->named_len++;
	return 0;
}

int capkm_window_name(struct capkm_cuda *cuda, struct window *w,
		      const struct capkm_claim *claims, uint32_t len)
{
	uint32_t i;
	int rc = 0;

	pthread_mutex_lock(&cuda->lock);
	for (i = 0; i < len && !rc; i++)
		rc = name(w, claims[i].buffer);
	pthread_mutex_unlock(&cuda->lock);
	return rc;
}

static bool is_seen(const struct walk *w, uint64_t buffer)
{
	uint32_t i;

	for (i = 0; i < w->seen_len; i++)
		if (w->seen[i] == buffer)
			return true;
	return false;
}

/* The whole buffer: from an address nobody knows how far a kernel goes. */
static int see(struct walk *w, uint64_t address)
{
	struct capkm_claim rest;
	uint64_t buffer = capkm_cuda_buffer_at(w->cuda, address, &rest);
	uint32_t capacity;
	void *seen;

	if (!buffer || is_named(w->window, buffer) || is_seen(w, buffer))
		return 0;
	if (w->seen_len == w->seen_capacity) {
		capacity = w->seen_capacity ? w->seen_capacity * 2 : 16;
		seen = realloc(w->seen, capacity * sizeof(*w->seen));
		if (!seen)
			return no_memory(w);
		w->seen = seen;
		w->seen_capacity = capacity;
	}
	w->seen[w->seen_len++] = buffer;
	w->found->seen++;
	rest.start = 0;
	return capkm_window_record(w->cuda->c, w->window->id, NULL, 0, &rest, 1,
				   CAPKM_WINDOW_RECORD_F_SEEN, w->err);
}

static int see_words(struct walk *w, const void *bytes, size_t len)
{
	const char *p = bytes;
	size_t i;
	int rc = 0;

	for (i = 0; i + sizeof(uint64_t) <= len && !rc; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, p + i, sizeof(word));
		rc = see(w, word);
	}
	return rc;
}

/* One block, in pairs of key and value. */
static int see_extra(struct walk *w, void **extra)
{
	const void *block = NULL;
	size_t bytes = 0;

	for (; extra[0]; extra += 2) {
		if (extra[0] == CU_EXTRA_POINTER)
			block = extra[1];
		else if (extra[0] == CU_EXTRA_SIZE)
			memcpy(&bytes, extra[1], sizeof(bytes));
	}
	return block ? see_words(w, block, bytes) : 0;
}

/* A question about a node: what may go wrong with it is no error of the walk. */
#define ask(w, function, ...)						\
	cu_call_on((w)->cuda, (w)->window->origin, NULL, (w)->call,	\
		   function, __VA_ARGS__)

static int param(struct walk *w, const struct cu_kernel_params *p, size_t i,
		 size_t *bytes)
{
	const struct cu_driver *cu = &w->cuda->cu;
	int result = CU_NOT_SUPPORTED;
	size_t offset;

	if (p->func && cu->cuFuncGetParamInfo)
		result = cu->cuFuncGetParamInfo(p->func, i, &offset, bytes);
	else if (!p->func && p->kern && cu->cuKernelGetParamInfo)
		result = cu->cuKernelGetParamInfo(p->kern, i, &offset, bytes);
	capkm_cu_error_on(w->cuda, w->window->origin, result, w->call,
			  "cuFuncGetParamInfo", NULL);
	return result;
}

/* A driver that does not say how large arguments are has shown nothing. */
static int see_kernel(struct walk *w, cu_node node)
{
	struct cu_kernel_params p = { .func = NULL };
	size_t i, bytes;
	int rc = 0;

	w->found->kernels++;
	if (ask(w, cuGraphKernelNodeGetParams, node, &p)) {
		w->found->opaque++;
		return 0;
	}
	if (!p.params && p.extra)
		return see_extra(w, p.extra);
	if (!p.params)
		return 0;
	if (param(w, &p, 0, &bytes) == CU_NOT_SUPPORTED)
		w->found->opaque++;
	for (i = 0; !rc && !param(w, &p, i, &bytes); i++)
		rc = see_words(w, p.params[i], bytes);
	return rc;
}

static uint64_t first_byte(const struct cu_copy_side *s)
{
	uint64_t base = s->type == CU_MEMORY_HOST ? uptr(s->host) : s->device;

	return base + (s->z * s->height + s->y) * s->pitch + s->x_bytes;
}

static uint64_t extent(const struct cu_copy_side *s,
		       const struct cu_copy_params *p)
{
	if (!p->height || !p->depth || !p->width_bytes)
		return 0;
	return ((p->depth - 1) * s->height + p->height - 1) * s->pitch +
	       p->width_bytes;
}

static bool has(const struct retained_list *list, uint64_t address,
		uint64_t bytes)
{
	const struct retained *r;

	SLIST_FOREACH(r, list, next)
		if (r->address <= address &&
		    address + bytes <= r->address + r->bytes)
			return true;
	return false;
}

static bool graphs_have(struct graph *const *graphs, uint32_t len,
			uint64_t address, uint64_t bytes)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		if (has(&graphs[i]->retained, address, bytes) ||
		    graphs_have(graphs[i]->children, graphs[i]->children_len,
				address, bytes))
			return true;
	return false;
}

/* By the window, one that it is a body in, or by what is in these. */
static bool is_retained(const struct walk *w, uint64_t address, uint64_t bytes)
{
	const struct window *at;
	bool is = false;

	pthread_mutex_lock(&w->cuda->lock);
	for (at = w->window; at && !is; at = at->parent)
		is = has(&at->retained, address, bytes) ||
		     graphs_have(at->children, at->children_len, address,
				 bytes);
	pthread_mutex_unlock(&w->cuda->lock);
	return is;
}

/* A side of unified addressing may be anything. */
static bool is_device(struct walk *w, uint64_t address)
{
	unsigned int type = 0;

	return !ask(w, cuPointerGetAttribute, &type, CU_POINTER_MEMORY_TYPE,
		    address) && type == CU_MEMORY_DEVICE;
}

/* Either side: known device memory, host memory that is retained or not, arrays. */
static int see_side(struct walk *w, const struct cu_copy_side *s,
		    const struct cu_copy_params *p)
{
	struct capkm_claim rest;
	uint64_t at = first_byte(s);

	if (s->type == CU_MEMORY_ARRAY) {
		w->found->opaque++;
		return 0;
	}
	if (s->type != CU_MEMORY_HOST &&
	    capkm_cuda_buffer_at(w->cuda, at, &rest))
		return see(w, at);
	if (s->type == CU_MEMORY_DEVICE || is_device(w, at))
		return 0;	/* of nobody that the bridge knows */
	if (extent(s, p) && !is_retained(w, at, extent(s, p)))
		w->found->host_unchecked++;
	return 0;
}

static int see_copy(struct walk *w, cu_node node)
{
	struct cu_copy_params p;
	int rc;

	w->found->copies++;
	if (ask(w, cuGraphMemcpyNodeGetParams, node, &p)) {
		w->found->opaque++;
		return 0;
	}
	rc = see_side(w, &p.from, &p);
	return rc ? rc : see_side(w, &p.to, &p);
}

static int see_set(struct walk *w, cu_node node)
{
	struct cu_set_params p;

	if (!ask(w, cuGraphMemsetNodeGetParams, node, &p))
		return see(w, p.to);
	w->found->opaque++;
	return 0;
}

static int walk_graph(struct walk *w, cu_graph graph);

static int walk_child(struct walk *w, cu_node node)
{
	cu_graph child;

	if (!ask(w, cuGraphChildGraphNodeGetGraph, node, &child))
		return walk_graph(w, child);
	w->found->opaque++;
	return 0;
}

static void add_found(struct found *to, const struct found *from)
{
	to->nodes += from->nodes;
	to->kernels += from->kernels;
	to->copies += from->copies;
	to->opaque += from->opaque;
	to->seen += from->seen;
	to->host_unchecked += from->host_unchecked;
	to->host_unchecked_calls += from->host_unchecked_calls;
}

/*
 * No driver gives the bodies of a node: those that windows recorded were looked into when
 * they ended, and the node is opaque unless these are all that it has.
 */
static int see_bodies(struct walk *w, cu_node node)
{
	const struct window *window = w->window;
	const struct graph *g;
	uint32_t i, seen = 0, bodies = 1;

	for (i = 0; i < window->children_len; i++) {
		g = window->children[i];
		if (!g->body.graph || g->body.node != node)
			continue;
		seen++;
		if (bodies < g->body.bodies)
			bodies = g->body.bodies;
		add_found(w->found, &g->found);
	}
	if (seen < bodies)
		w->found->opaque++;
	return 0;
}

static int walk_node(struct walk *w, cu_node node)
{
	int type;

	w->found->nodes++;
	if (ask(w, cuGraphNodeGetType, node, &type))
		type = -1;
	switch (type) {
	case CU_NODE_KERNEL:
		return see_kernel(w, node);
	case CU_NODE_MEMCPY:
		return see_copy(w, node);
	case CU_NODE_MEMSET:
		return see_set(w, node);
	case CU_NODE_GRAPH:
		return walk_child(w, node);
	case CU_NODE_CONDITIONAL:
		return see_bodies(w, node);
	case CU_NODE_HOST:
		w->found->host_unchecked_calls++;
		return 0;
	case CU_NODE_EMPTY:
	case CU_NODE_WAIT_EVENT:
	case CU_NODE_RECORD_EVENT:
		return 0;
	case CU_NODE_MEM_ALLOC:
	case CU_NODE_MEM_FREE:
		w->memory_nodes = true;
		return 0;
	default:
		w->found->opaque++;
		return 0;
	}
}

static int walk_graph(struct walk *w, cu_graph graph)
{
	struct capkm_cuda *cuda = w->cuda;
	cu_node *nodes;
	size_t i, n = 0;
	const struct stream *s = w->window->origin;
	int rc = cu_call_on(cuda, s, w->err, w->call, cuGraphGetNodes, graph,
			    NULL, &n);

	if (rc || !n)
		return rc;
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes)
		return no_memory(w);
	rc = cu_call_on(cuda, s, w->err, w->call, cuGraphGetNodes, graph, nodes,
			&n);
	for (i = 0; i < n && !rc; i++)
		rc = walk_node(w, nodes[i]);
	free(nodes);
	return rc;
}

int capkm_graph_walk(struct capkm_cuda *cuda, struct window *window,
		     cu_graph graph, const char *call, struct found *found,
		     struct capkm_error *err)
{
	struct walk w = {
		.cuda = cuda, .window = window, .call = call, .found = found,
		.err = err,
	};
	int rc = walk_graph(&w, graph);

	free(w.seen);
	return rc ? rc : w.memory_nodes;
}
