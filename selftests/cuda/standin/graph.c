// SPDX-License-Identifier: GPL-2.0-only
/* Graphs, what is made of them to run, and objects that live as long as they do. */
#include "sim.h"

struct CUuserObject_st {
	unsigned int refs;
	void (*release)(void *);
	void *context;
};

struct CUgraphExec_st {
	SLIST_ENTRY(CUgraphExec_st) next;
	struct body *body;
	struct stream *stream;	/* of the last launch */
	uint64_t sequence;
};

static SLIST_HEAD(, CUgraph_st) graphs = SLIST_HEAD_INITIALIZER(graphs);
static SLIST_HEAD(, CUgraphExec_st) execs = SLIST_HEAD_INITIALIZER(execs);

bool is_graph(cu_graph graph)
{
	cu_graph g;

	SLIST_FOREACH(g, &graphs, next)
		if (g == graph)
			return true;
	return false;
}

static bool is_exec(cu_exec exec)
{
	cu_exec e;

	SLIST_FOREACH(e, &execs, next)
		if (e == exec)
			return true;
	return false;
}

/* user objects */

static void object_put(cu_user_object object, unsigned int n)
{
	object->refs -= n;
	if (object->refs)
		return;
	call_later(object->release, object->context);
	free(object);
}

static void hold(cu_graph graph, cu_user_object object, unsigned int n)
{
	struct held *h = calloc(1, sizeof(*h));

	h->object = object;
	h->n = n;
	SLIST_INSERT_HEAD(&graph->held, h, next);
}

CALL(cuUserObjectCreate, (cu_user_object *object, void *context,
			  void (*release)(void *), unsigned int references,
			  unsigned int flags),
     (object, context, release, references, flags))
{
	cu_user_object o;

	if (!release || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CU_INVALID_VALUE;
	o = calloc(1, sizeof(*o));
	o->refs = references;
	o->release = release;
	o->context = context;
	*object = o;
	return 0;
}

CALL(cuUserObjectRelease, (cu_user_object object, unsigned int n), (object, n))
{
	if (!n || n > object->refs)
		return CU_INVALID_VALUE;
	object_put(object, n);
	return 0;
}

CALL(cuGraphRetainUserObject, (cu_graph graph, cu_user_object object,
			       unsigned int n, unsigned int flags),
     (graph, object, n, flags))
{
	if (!is_graph(graph) || !n)
		return CU_INVALID_VALUE;
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		object->refs += n;
	hold(graph, object, n);
	return 0;
}

/* graphs */

cu_graph graph_new(void)
{
	cu_graph graph = calloc(1, sizeof(*graph));

	TAILQ_INIT(&graph->nodes);
	SLIST_INSERT_HEAD(&graphs, graph, next);
	return graph;
}

void graph_free(cu_graph graph)
{
	struct held *h;
	cu_node node;

	if (graph->freed)
		gone("body of a node, which its capture's end has freed,", graph);
	if (graph->captured)
		capture_orphan(graph);
	SLIST_REMOVE(&graphs, graph, CUgraph_st, next);
	while ((node = TAILQ_FIRST(&graph->nodes))) {
		TAILQ_REMOVE(&graph->nodes, node, next);
		action_free(&node->action);
		free(node->after);
		free(node);
	}
	while ((h = SLIST_FIRST(&graph->held))) {
		SLIST_REMOVE_HEAD(&graph->held, next);
		object_put(h->object, h->n);
		free(h);
	}
	free(graph);
}

static cu_node add(cu_graph graph, const cu_node *after, size_t n)
{
	cu_node node = calloc(1, sizeof(*node));

	node->after = calloc(n + 1, sizeof(*node->after));
	if (n)
		memcpy(node->after, after, n * sizeof(*node->after));
	node->after_len = n;
	TAILQ_INSERT_TAIL(&graph->nodes, node, next);
	graph->len++;
	return node;
}

/* The action moves. */
cu_node graph_add(cu_graph graph, struct action *action, const cu_node *after,
		  size_t n)
{
	cu_node node = add(graph, after, n);

	action_move(&node->action, action);
	return node;
}

static cu_node counterpart(cu_graph to, cu_graph from, cu_node node)
{
	cu_node a = TAILQ_FIRST(&from->nodes), b = TAILQ_FIRST(&to->nodes);

	while (a != node) {
		a = TAILQ_NEXT(a, next);
		b = TAILQ_NEXT(b, next);
	}
	return b;
}

cu_graph graph_copy(cu_graph graph)
{
	cu_graph copy = graph_new();
	struct held *h;
	cu_node node, new;
	size_t i;

	TAILQ_FOREACH(node, &graph->nodes, next) {
		new = add(copy, node->after, node->after_len);
		action_copy(&new->action, &node->action);
		for (i = 0; i < node->after_len; i++)
			new->after[i] = counterpart(copy, graph, node->after[i]);
	}
	SLIST_FOREACH(h, &graph->held, next) {
		h->object->refs += h->n;
		hold(copy, h->object, h->n);
	}
	return copy;
}

/* In the order that they were recorded in, which is one that they allow. */
int run_graph(cu_graph graph)
{
	cu_node node;
	int rc = 0;

	TAILQ_FOREACH(node, &graph->nodes, next)
		if (!rc)
			rc = run(&node->action);
	return rc;
}

static cu_node first_of(cu_graph graph, int type)
{
	cu_node node;

	TAILQ_FOREACH(node, &graph->nodes, next)
		if (node->action.type == type)
			break;
	return node;
}

CALL(cuGraphCreate, (cu_graph *graph, unsigned int flags), (graph, flags))
{
	*graph = graph_new();
	return 0;
}

CALL(cuGraphDestroy, (cu_graph graph), (graph))
{
	if (!is_graph(graph))
		return CU_INVALID_VALUE;
	if (graph->child)
		gone("graph of its own, but a node's", graph);
	if (graph->captured)
		gone("graph that is captured into", graph);
	graph_free(graph);
	return 0;
}

CALL(cuGraphAddEmptyNode, (cu_node *node, cu_graph graph,
			   const cu_node *dependencies, size_t len),
     (node, graph, dependencies, len))
{
	struct action a = { .type = CU_NODE_EMPTY };

	if (!is_graph(graph))
		return CU_INVALID_VALUE;
	*node = graph_add(graph, &a, dependencies, len);
	return 0;
}

CALL(cuGraphAddChildGraphNode, (cu_node *node, cu_graph graph,
				const cu_node *dependencies, size_t len,
				cu_graph child),
     (node, graph, dependencies, len, child))
{
	struct action a = { .type = CU_NODE_GRAPH };

	if (!is_graph(graph) || !is_graph(child))
		return CU_INVALID_VALUE;
	if (first_of(child, CU_NODE_MEM_ALLOC) ||
	    first_of(child, CU_NODE_MEM_FREE) ||
	    first_of(child, CU_NODE_CONDITIONAL))
		return CU_NOT_SUPPORTED;
	a.graph = graph_copy(child);
	a.graph->child = true;
	*node = graph_add(graph, &a, dependencies, len);
	return 0;
}

/*
 * Conditional nodes. Kernels cannot set a value here, so it is the default one, and the
 * handle tells that.
 */

CALL(cuGraphConditionalHandleCreate, (uint64_t *handle, cu_graph graph,
				      cu_context context, unsigned int value,
				      unsigned int flags),
     (handle, graph, context, value, flags))
{
	if (!is_graph(graph) || flags & ~CU_COND_ASSIGN_DEFAULT)
		return CU_INVALID_VALUE;
	*handle = 1ull << 32 | (flags ? value : 0);
	return 0;
}

static bool is_size(int type, unsigned int size)
{
	switch (type) {
	case CU_COND_IF:
		return size == 1 || size == 2;
	case CU_COND_WHILE:
		return size == 1;
	default:
		return type == CU_COND_SWITCH && size;
	}
}

CALL(cuGraphAddNode, (cu_node *node, cu_graph graph, const cu_node *dependencies,
		      const void *edges, size_t len, struct cu_node_params *params),
     (node, graph, dependencies, edges, len, params))
{
	struct action a = { .type = params->type };
	unsigned int i;

	if (a.type != CU_NODE_CONDITIONAL)
		return CU_NOT_SUPPORTED;
	if (!is_graph(graph) || !params->conditional.handle ||
	    !is_size(params->conditional.type, params->conditional.size))
		return CU_INVALID_VALUE;
	a.conditional.type = params->conditional.type;
	a.conditional.value = params->conditional.handle;
	a.conditional.size = params->conditional.size;
	a.conditional.bodies = calloc(a.conditional.size, sizeof(cu_graph));
	for (i = 0; i < a.conditional.size; i++) {
		a.conditional.bodies[i] = graph_new();
		a.conditional.bodies[i]->child = true;
	}
	params->conditional.graphs = a.conditional.bodies;
	*node = graph_add(graph, &a, dependencies, len);
	return 0;
}

CALL(cuGraphAddBatchMemOpNode, (cu_node *node, cu_graph graph,
				const cu_node *dependencies, size_t len,
				const struct cu_mem_op_params *params),
     (node, graph, dependencies, len, params))
{
	struct action a = { .type = CU_NODE_BATCH_MEM_OP };

	if (!is_graph(graph) || params->count != 1 ||
	    params->ops[0].operation != CU_MEM_OP_WRITE_32)
		return CU_INVALID_VALUE;
	a.write.to = params->ops[0].address;
	a.write.value = params->ops[0].value;
	*node = graph_add(graph, &a, dependencies, len);
	return 0;
}

CALL(cuGraphGetNodes, (cu_graph graph, cu_node *nodes, size_t *len),
     (graph, nodes, len))
{
	cu_node node;
	size_t n = 0;

	if (!is_graph(graph))
		return CU_INVALID_VALUE;
	if (!nodes) {
		*len = graph->len;
		return 0;
	}
	TAILQ_FOREACH(node, &graph->nodes, next)
		if (n < *len)
			nodes[n++] = node;
	*len = n;
	return 0;
}

CALL(cuGraphNodeGetType, (cu_node node, int *type), (node, type))
{
	*type = node->action.type;
	return 0;
}

CALL(cuGraphKernelNodeGetParams, (cu_node node, struct cu_kernel_params *params),
     (node, params))
{
	struct action *a = &node->action;

	if (a->type != CU_NODE_KERNEL)
		return CU_INVALID_VALUE;
	*params = (struct cu_kernel_params){
		.func = a->kernel.function, .shared = a->kernel.shared,
		.params = a->kernel.params, .extra = a->kernel.extra,
		.context = a->kernel.function->context,
	};
	memcpy(params->grid, a->kernel.grid, sizeof(params->grid));
	memcpy(params->block, a->kernel.block, sizeof(params->block));
	return 0;
}

static void side(struct cu_copy_side *side, cu_address address, bool unified)
{
	const bool device = on_device(address);

	*side = (struct cu_copy_side){
		.type = unified ? CU_MEMORY_UNIFIED :
			device ? CU_MEMORY_DEVICE : CU_MEMORY_HOST,
	};
	if (unified || device)
		side->device = address;
	else
		side->host = (const void *)(uintptr_t)address;
}

CALL(cuGraphMemcpyNodeGetParams, (cu_node node, struct cu_copy_params *params),
     (node, params))
{
	struct action *a = &node->action;

	if (a->type != CU_NODE_MEMCPY)
		return CU_INVALID_VALUE;
	*params = (struct cu_copy_params){
		.width_bytes = a->copy.bytes, .height = 1, .depth = 1,
	};
	side(&params->from, a->copy.from, a->copy.unified);
	side(&params->to, a->copy.to, a->copy.unified);
	return 0;
}

CALL(cuGraphMemsetNodeGetParams, (cu_node node, struct cu_set_params *params),
     (node, params))
{
	struct action *a = &node->action;

	if (a->type != CU_NODE_MEMSET)
		return CU_INVALID_VALUE;
	*params = (struct cu_set_params){
		.to = a->set.to, .value = a->set.value,
		.element_bytes = a->set.width, .width = a->set.n, .height = 1,
	};
	return 0;
}

CALL(cuGraphChildGraphNodeGetGraph, (cu_node node, cu_graph *graph), (node, graph))
{
	if (node->action.type != CU_NODE_GRAPH)
		return CU_INVALID_VALUE;
	*graph = node->action.graph;
	return 0;
}

/* executables */

static bool may_be_in_body(int type)
{
	switch (type) {
	case CU_NODE_KERNEL:
	case CU_NODE_MEMCPY:
	case CU_NODE_MEMSET:
	case CU_NODE_GRAPH:
	case CU_NODE_EMPTY:
	case CU_NODE_CONDITIONAL:
		return true;
	default:
		return false;
	}
}

static bool is_complete(cu_graph graph, bool body)
{
	unsigned int i;
	cu_node node;

	if (graph->captured)
		return false;
	TAILQ_FOREACH(node, &graph->nodes, next) {
		if (body && !may_be_in_body(node->action.type))
			return false;
		if (node->action.type != CU_NODE_CONDITIONAL)
			continue;
		for (i = 0; i < node->action.conditional.size; i++)
			if (!is_complete(node->action.conditional.bodies[i], true))
				return false;
	}
	return true;
}

void body_put(struct body *body)
{
	if (--body->refs)
		return;
	graph_free(body->graph);
	free(body);
}

static struct body *body_new(cu_graph graph)
{
	struct body *body = calloc(1, sizeof(*body));

	body->refs = 1;
	body->graph = graph_copy(graph);
	body->graph->child = true;
	return body;
}

CALL(cuGraphInstantiateWithFlags, (cu_exec *exec, cu_graph graph,
				   unsigned long long flags),
     (exec, graph, flags))
{
	cu_exec e;
	int rc = is_graph(graph) ? unsafe("cuGraphInstantiate") :
				   CU_INVALID_VALUE;

	if (!rc && !is_complete(graph, false))
		rc = CU_INVALID_VALUE;
	if (!rc && graph->instantiated && first_of(graph, CU_NODE_MEM_ALLOC))
		rc = CU_NOT_SUPPORTED;
	if (rc)
		return rc;
	graph->instantiated = true;
	e = calloc(1, sizeof(*e));
	e->body = body_new(graph);
	SLIST_INSERT_HEAD(&execs, e, next);
	*exec = e;
	return 0;
}

CALL(cuGraphExecDestroy, (cu_exec exec), (exec))
{
	int rc = is_exec(exec) ? unsafe("cuGraphExecDestroy") : CU_INVALID_VALUE;

	if (rc)
		return rc;
	SLIST_REMOVE(&execs, exec, CUgraphExec_st, next);
	body_put(exec->body);
	if (exec->stream)
		stream_put(exec->stream);
	free(exec);
	return 0;
}

static bool is_alike(cu_graph a, cu_graph b, struct cu_update_info *info)
{
	cu_node x = TAILQ_FIRST(&a->nodes), y = TAILQ_FIRST(&b->nodes);

	while (x && y && x->action.type == y->action.type &&
	       x->after_len == y->after_len) {
		x = TAILQ_NEXT(x, next);
		y = TAILQ_NEXT(y, next);
	}
	if (!x && !y)
		return true;
	/* CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, _NODE_TYPE_CHANGED */
	info->result = x && y && x->action.type != y->action.type ? 3 : 2;
	info->node = y;
	return false;
}

CALL(cuGraphExecUpdate, (cu_exec exec, cu_graph graph, struct cu_update_info *info),
     (exec, graph, info))
{
	struct body *body;

	if (!is_exec(exec) || !is_graph(graph))
		return CU_INVALID_VALUE;
	*info = (struct cu_update_info){ .result = 0 };
	if (!is_alike(exec->body->graph, graph, info))
		return CU_UPDATE_FAILURE;
	body = body_new(graph);
	body_put(exec->body);
	exec->body = body;
	return 0;
}

CALL(cuGraphUpload, (cu_exec exec, cu_stream stream), (exec, stream))
{
	struct stream *s;
	int rc = is_exec(exec) ? stream_of(stream, &s) : CU_INVALID_VALUE;

	return rc ? rc : forbidden(s, "cuGraphUpload");
}

static bool frees(cu_graph graph, cu_address address)
{
	cu_node node;

	TAILQ_FOREACH(node, &graph->nodes, next)
		if (node->action.type == CU_NODE_MEM_FREE &&
		    node->action.address == address)
			return true;
	return false;
}

/*
 * Memory that a graph allocates and does not free is there after the launch, and in the
 * way of the next one until somebody frees it. @hold: it is launched.
 */
static bool is_blocked(cu_graph graph, bool hold)
{
	struct chunk *c;
	cu_node node;

	TAILQ_FOREACH(node, &graph->nodes, next) {
		if (node->action.type != CU_NODE_MEM_ALLOC ||
		    frees(graph, node->action.address))
			continue;
		c = chunk_at(node->action.address);
		if (c && c->held && !hold)
			return true;
		if (c && hold)
			c->held = true;
	}
	return false;
}

CALL(cuGraphLaunch, (cu_exec exec, cu_stream stream), (exec, stream))
{
	struct stream *s;
	struct op *op;
	int rc = is_exec(exec) ? stream_of(stream, &s) : CU_INVALID_VALUE;

	/* It does not become a node. */
	if (!rc)
		rc = forbidden(s, "cuGraphLaunch");
	if (!rc)
		rc = implicit_use(s, "cuGraphLaunch");
	if (!rc && is_blocked(exec->body->graph, false))
		rc = CU_INVALID_VALUE;
	/* One after the other, whatever stream they are launched on. */
	if (!rc && exec->stream)
		rc = enqueue_wait(s, exec->stream, exec->sequence);
	if (rc)
		return rc;
	op = calloc(1, sizeof(*op));
	op->body = exec->body;
	op->body->refs++;
	rc = enqueue(s, op);
	if (rc)
		return rc;
	is_blocked(exec->body->graph, true);
	if (exec->stream)
		stream_put(exec->stream);
	exec->stream = stream_get(s);
	exec->sequence = s->queued;
	return 0;
}
