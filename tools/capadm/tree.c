// SPDX-License-Identifier: GPL-2.0-only
/*
 * capadm failures --tree, --dot: what a failure has spoilt, and by which way. The
 * kernel tells for each buffer that carries it what was skipped on the way from the
 * root to that buffer; from these paths, which begin alike, a tree is made. All is
 * collected as the JSON that --json prints, and drawn from that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/capkm_netlink.h>

#include "capadm.h"

static const struct field hop_fields[] = {
	{ CAPKM_A_HOP_LABEL,	FIELD_TEXT,	"label" },
	{ CAPKM_A_HOP_NEEDED,	FIELD_NUMBER,	"needed" },
	{ CAPKM_A_HOP_TIME_NS,	FIELD_NUMBER,	"time_ns" },
	{}
};

static const struct field detail_fields[] = {
	{ CAPKM_A_FAILURE_SKIPS,	FIELD_NUMBER,	"skips" },
	{ CAPKM_A_FAILURE_DROPPED,	FIELD_NUMBER,	"dropped" },
	{ CAPKM_A_FAILURE_STACK,	FIELD_BYTES,	"stack" },
	{}
};

static const struct field chain_fields[] = {
	{ CAPKM_A_FAILURE_HOP,	FIELD_LIST,	"chain", .fields = hop_fields },
	{}
};

static const struct field range_fields[] = {
	{ CAPKM_A_RANGE_START,	FIELD_NUMBER,	"start" },
	{ CAPKM_A_RANGE_END,	FIELD_NUMBER,	"end" },
	{}
};

static const struct field label_fields[] = {
	{ CAPKM_A_BUFFER_LABEL,	FIELD_TEXT,	"label" },
	{}
};

static struct json_object *get(struct json_object *j, const char *key)
{
	return json_object_object_get(j, key);
}

static uint64_t get_n(struct json_object *j, const char *key)
{
	return json_object_get_uint64(get(j, key));
}

static const char *get_s(struct json_object *j, const char *key)
{
	const char *s = json_object_get_string(get(j, key));

	return s ? s : "";
}

/* Puts the members of @from into @to, and lets @from go. */
static void merge(struct json_object *to, struct json_object *from)
{
	json_object_object_foreach(from, key, value)
		json_object_object_add(to, key, json_object_get(value));
	json_object_put(from);
}

/* ---- collecting ---- */

static void add_failure(struct nlattr **attrs, void *ctx)
{
	json_object_array_add(ctx, record_json(failure_fields, attrs));
}

static void add_detail(struct nlattr **attrs, void *ctx)
{
	merge(ctx, record_json(detail_fields, attrs));
}

static void add_chain(struct nlattr **attrs, void *ctx)
{
	merge(ctx, record_json(chain_fields, attrs));
}

static void add_label(struct nlattr **attrs, void *ctx)
{
	merge(ctx, record_json(label_fields, attrs));
}

/* Ranges of a buffer come one after the other. */
static void add_range(struct nlattr **attrs, void *ctx)
{
	uint64_t buffer = get_number(attrs[CAPKM_A_RANGE_BUFFER]);
	struct json_object *buffers = ctx, *b = NULL;
	size_t n = json_object_array_length(buffers);

	if (n)
		b = json_object_array_get_idx(buffers, n - 1);
	if (!b || get_n(b, "buffer") != buffer) {
		b = must(json_object_new_object());
		json_object_object_add(b, "buffer", json_object_new_uint64(buffer));
		json_object_object_add(b, "label", json_text(""));
		json_object_object_add(b, "ranges", json_object_new_array());
		json_object_object_add(b, "chain", json_object_new_array());
		json_object_array_add(buffers, b);
	}
	json_object_array_add(get(b, "ranges"), record_json(range_fields, attrs));
}

static int ask_failure(const struct request *rq, struct json_object *failure, uint64_t buffer,
		       record_fn *record, void *ctx)
{
	bool gone;
	struct query q = { .cmd = CAPKM_CMD_FAILURE_GET, .gone = &gone };

	ask_u64(&q, CAPKM_A_FAILURE_DOMAIN, get_n(failure, "domain"));
	ask_u64(&q, CAPKM_A_FAILURE_ID, get_n(failure, "id"));
	if (buffer)
		ask_u64(&q, CAPKM_A_FAILURE_BUFFER, buffer);
	return kernel_do(rq, &q, "read a failure", record, ctx);
}

/* How it came to the buffer, and what that is called. */
static int fill_buffer(const struct request *rq, struct json_object *failure,
		       struct json_object *b)
{
	bool gone;
	struct query q = { .cmd = CAPKM_CMD_BUFFER_GET, .gone = &gone };
	uint64_t id = get_n(b, "buffer");
	int status;

	status = ask_failure(rq, failure, id, add_chain, b);
	if (status)
		return status;
	ask_u64(&q, CAPKM_A_BUFFER_DOMAIN, get_n(failure, "domain"));
	ask_u64(&q, CAPKM_A_BUFFER_ID, id);
	return kernel_dump(rq, &q, "read a buffer", add_label, b);
}

/* What goes in the meantime is left out. */
static int fill(const struct request *rq, struct json_object *failure)
{
	bool gone;
	struct query q = { .cmd = CAPKM_CMD_CARRIER_GET, .gone = &gone };
	struct json_object *buffers = must(json_object_new_array());
	size_t i;
	int status;

	json_object_object_add(failure, "buffers", buffers);
	status = ask_failure(rq, failure, 0, add_detail, failure);
	if (status || rq->options & TAKES(REPORTS))
		return status;
	ask_u64(&q, CAPKM_A_RANGE_DOMAIN, get_n(failure, "domain"));
	ask_u64(&q, CAPKM_A_RANGE_FAILURE, get_n(failure, "id"));
	status = kernel_dump(rq, &q, "read what carries a failure", add_range, buffers);
	for (i = 0; !status && i < json_object_array_length(buffers); i++)
		status = fill_buffer(rq, failure, json_object_array_get_idx(buffers, i));
	return status;
}

/* ---- the tree ---- */

struct node {
	struct node *next, *first;	/* sibling, child */
	const char *work;		/* that was skipped, and did not write it; or NULL */
	uint64_t buffer;
	struct json_object *carrier;	/* NULL: it does not carry the failure any more */
};

static struct node *child(struct node *n, const char *work, uint64_t buffer)
{
	struct node **at = &n->first;

	for (; *at; at = &(*at)->next)
		if ((*at)->buffer == buffer && !(*at)->work == !work &&
		    (!work || !strcmp((*at)->work, work)))
			return *at;
	*at = must(calloc(1, sizeof(**at)));
	(*at)->work = work;
	(*at)->buffer = buffer;
	return *at;
}

/* The chain has the newest first. */
static void grow(struct node *root, struct json_object *carrier)
{
	struct json_object *chain = get(carrier, "chain"), *hop;
	size_t i = json_object_array_length(chain);
	const char *work = NULL;
	struct node *n = root;

	while (i--) {
		hop = json_object_array_get_idx(chain, i);
		n = child(n, work, get_n(hop, "needed"));
		work = get_s(hop, "label");
	}
	child(n, work, get_n(carrier, "buffer"))->carrier = carrier;
}

static struct node *new_tree(struct json_object *failure)
{
	struct json_object *buffers = get(failure, "buffers");
	struct node *root = must(calloc(1, sizeof(*root)));
	size_t i;

	for (i = 0; i < json_object_array_length(buffers); i++)
		grow(root, json_object_array_get_idx(buffers, i));
	return root;
}

static void free_tree(struct node *n)
{
	struct node *c, *next;

	for (c = n->first; c; c = next) {
		next = c->next;
		free_tree(c);
	}
	free(n);
}

/* "0 to 100, 4096 to 8192" */
static char *ranges_text(struct json_object *carrier)
{
	struct json_object *ranges = get(carrier, "ranges"), *r;
	size_t i, n = json_object_array_length(ranges);
	char *s = format("%s", ""), *more;

	for (i = 0; i < n; i++) {
		if (i == 4) {
			more = format("%s and %zu more", s, n - i);
		} else {
			r = json_object_array_get_idx(ranges, i);
			more = format("%s%s%" PRIu64 " to %" PRIu64, s, i ? ", " : "",
				      get_n(r, "start"), get_n(r, "end"));
		}
		free(s);
		s = more;
		if (i == 4)
			break;
	}
	return s;
}

/* "buffer 5 (weights), bytes 0 to 100" */
static char *node_text(const struct node *n)
{
	char *label, *ranges, *s;

	if (!n->carrier)
		return format("buffer %" PRIu64 ", no longer", n->buffer);
	label = escape(get_s(n->carrier, "label"));
	ranges = ranges_text(n->carrier);
	s = format("buffer %" PRIu64 "%s%s%s, bytes %s", n->buffer, *label ? " (" : "", label,
		   *label ? ")" : "", ranges);
	free(ranges);
	free(label);
	return s;
}

/* What was skipped and thus did not write @n, escaped. */
static char *work_text(const struct node *n)
{
	return *n->work ? escape(n->work) : format("unnamed work");
}

static void print_node(const struct node *n, const char *indent)
{
	char *what = node_text(n), *work = NULL, *more;
	const struct node *c;

	if (n->work)
		work = work_text(n);
	more = format("%s%s %s%s%s", indent, n->next ? "|-" : "`-", work ? work : "",
		      work ? " was skipped: " : "", what);
	print_cut(more, n->carrier ? COLOUR_WARN : COLOUR_NONE);
	free(more);
	free(work);
	free(what);

	more = format("%s%s", indent, n->next ? "|  " : "   ");
	for (c = n->first; c; c = c->next)
		print_node(c, more);
	free(more);
}

static void print_stack(const char *stack)
{
	size_t len;
	char *line, *safe, *s;

	for (; *stack; stack += len + (stack[len] == '\n')) {
		len = strcspn(stack, "\n");
		line = format("%.*s", (int)len, stack);
		safe = escape(line);
		s = format("    %s", safe);
		print_cut(s, COLOUR_NONE);
		free(s);
		free(safe);
		free(line);
	}
}

/* The root cause: what, when, who and where. */
static void print_root(struct json_object *f)
{
	char *text = failure_json_line(f), *line, *when = format_time(get_n(f, "time_ns"));
	char *user = user_name(get_n(f, "uid")), *comm = escape(get_s(f, "comm"));

	line = format("failure %" PRIu64 " of domain %" PRIu64 ": %s", get_n(f, "id"),
		      get_n(f, "domain"), text);
	print_cut(line, COLOUR_BAD);
	free(line);
	line = format("    %s, by %s (pid %" PRIu64 ") of %s, on stream %" PRIu64, when, comm,
		      get_n(f, "pid"), user, get_n(f, "stream"));
	print_cut(line, COLOUR_NONE);
	free(line);
	if (get_n(f, "skips"))
		printf("    %" PRIu64 " times work was skipped for it; %" PRIu64
		       " of these are forgotten\n", get_n(f, "skips"), get_n(f, "dropped"));
	print_stack(get_s(f, "stack"));
	free(comm);
	free(user);
	free(when);
	free(text);
}

static void print_tree(struct json_object *failure)
{
	struct node *root = new_tree(failure), *n;

	print_root(failure);
	for (n = root->first; n; n = n->next)
		print_node(n, "");
	free_tree(root);
}

/* ---- for Graphviz ---- */

/* A string of DOT; the bytes are escaped, so that only two characters mean something. */
static void print_quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void print_label(const char *s, const char *more)
{
	printf(" [label=");
	print_quoted(s);
	printf("%s];\n", more);
}

/* Nodes are named after what they are, "f3.9" and "b3.4": a buffer may carry many. */
static void draw_node(const struct node *n, uint64_t domain, const char *from)
{
	char *name = format("\"b%" PRIu64 ".%" PRIu64 "\"", domain, n->buffer), *s;
	const struct node *c;

	s = node_text(n);
	printf("\t%s", name);
	print_label(s, n->carrier ? "" : ", style=dashed");
	free(s);
	s = n->work ? work_text(n) : format("%s", "");
	printf("\t%s -> %s", from, name);
	print_label(s, "");
	free(s);
	for (c = n->first; c; c = c->next)
		draw_node(c, domain, name);
	free(name);
}

static void draw(struct json_object *failure)
{
	uint64_t domain = get_n(failure, "domain");
	char *name = format("\"f%" PRIu64 ".%" PRIu64 "\"", domain, get_n(failure, "id"));
	char *text = failure_json_line(failure);
	struct node *root = new_tree(failure), *n;

	printf("\t%s", name);
	print_label(text, ", shape=box, color=red");
	for (n = root->first; n; n = n->next)
		draw_node(n, domain, name);
	free_tree(root);
	free(text);
	free(name);
}

/* ---- the command ---- */

static void show(const struct request *rq, struct json_object *failures)
{
	size_t i, n = json_object_array_length(failures);
	bool dot = rq->options & TAKES(DOT);

	if (dot)
		printf("digraph failures {\n\trankdir=LR;\n");
	else if (!n)
		printf("no failures\n");
	for (i = 0; i < n; i++) {
		struct json_object *f = json_object_array_get_idx(failures, i);

		if (dot)
			draw(f);
		else
			print_tree(f);
	}
	if (dot)
		printf("}\n");
}

int show_failures(const struct request *rq, const struct query *q, const char *what)
{
	struct json_object *failures = must(json_object_new_array());
	size_t i;
	int status;

	status = kernel_dump(rq, q, what, add_failure, failures);
	for (i = 0; !status && i < json_object_array_length(failures); i++)
		status = fill(rq, json_object_array_get_idx(failures, i));
	if (!status && rq->json)
		return print_json("failures", failures);
	if (!status)
		show(rq, failures);
	json_object_put(failures);
	return status;
}
