// SPDX-License-Identifier: MIT
/*
 * A language model that is observed while it generates, for authors of runtimes to begin
 * with: what there is to observe is in a catalog, what is observed is in a plan, and what
 * that may cost is in a ledger of the authority, which outlives this process. Killed at any
 * moment, it goes on from its last checkpoint, and what was charged since then is not
 * forgotten.
 *
 * From top to bottom: the run and how it begins, anew or again; one prediction; what it
 * leaves, which is records, a chart and a checkpoint. The model is in model.c and cached.c.
 */
#include "generate.h"

#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct capkm_error err = CAPKM_OPTS(struct capkm_error);

void die(int status, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("observe-generate: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

/* the run */

struct run {
	struct arguments arguments;
	struct weights weights;
	const struct capkm_observe_backend *backend;
	struct capkm_observe_discovery discovery;
	struct capkm *c;
	struct capkm_host *host;
	struct model model;
	struct capkm_observe *session;
	/* After the last step that went well, to go back to: it is not the one in the file. */
	struct capkm_observe_checkpoint *checkpoint;
	struct state state;
	struct capkm_error shown;	/* of the first tensor that could not be observed */
	FILE *text;			/* for people */
	FILE *records;
	bool records_in_file;
	struct chart chart;
};

static const struct capkm_observe_plan *plan_of(const struct run *r)
{
	return capkm_observe_admitted_plan(capkm_observe_session_plan(r->session));
}

static const struct capkm_observe_request *request_of(const struct run *r)
{
	return capkm_observe_admitted_request(capkm_observe_session_plan(r->session));
}

static struct capkm_observe_plan *read_plan(const struct arguments *a)
{
	struct capkm_observe_plan *plan;
	size_t len;
	char *json = file_read(a->plan, CAPKM_OBSERVE_JSON, &len);

	if (capkm_observe_plan_parse(json, len, &plan, &err))
		die(WRONG, "%s: %s", a->plan, err.text);
	free(json);
	return plan;
}

static struct capkm_observe_request read_request(const struct arguments *a)
{
	return (struct capkm_observe_request){
		.batch = 1,
		.prompt_tokens = strlen(a->prompt),
		.max_predictions = a->predictions,
	};
}

static struct capkm_observe_admitted *
admit(const struct run *r, const struct capkm_observe_plan *plan,
      const struct capkm_observe_request *request)
{
	const char *path = r->arguments.plan;
	struct capkm_observe_admitted *admitted;

	if (!capkm_observe_admit(plan, &r->discovery, request, &admitted, &err))
		return admitted;
	if (err.err == -ENOMEM)
		die(FAILED, "%s", err.text);
	if (err.index < plan->selections_len)
		die(WRONG, "%s: selection '%s': %s", path, plan->selections[err.index].id, err.text);
	die(WRONG, "%s: %s", path, err.text);
}

static void open_records(struct run *r)
{
	const char *path = r->arguments.records;
	struct stat st;
	int fd;

	r->text = stdout;
	if (path && !strcmp(path, "-")) {
		r->records = stdout;
		r->text = stderr;
	} else if (path) {
		/* If there are records already, so is the file. */
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | (r->state.records_to ? 0 : O_CREAT),
			  0666);
		if (fd < 0 || fstat(fd, &st))
			die(WRONG, "%s: %s", path, strerror(errno));
		r->records = allocated(fdopen(fd, "a"));
		/* A pipe or a device has no lines that one could go back to. */
		r->records_in_file = S_ISREG(st.st_mode);
	}
	if (r->records_in_file && r->state.records_to)
		return;
	r->state.records_from = r->state.records_to = r->records_in_file ? st.st_size : 0;
}

/*
 * Without a checkpoint the domain is nobody else's, and goes with the process. With one it
 * has a name, and lives without sessions: so does the ledger in it.
 */
static void open_domain(struct run *r)
{
	const struct arguments *a = &r->arguments;
	struct capkm_domain_query query = { .size = sizeof(query) };
	int rc;

	TRY(capkm_open(NULL, NULL, &r->c, &err));
	if (!a->checkpoint) {
		TRY(capkm_domain_open(r->c, NULL, NULL, &err));
		return;
	}
	if (capkm_authority(r->c) != CAPKM_AUTHORITY_KERNEL)
		die(WRONG, "the authority is embedded in this process and goes with it, so nothing can be resumed; --checkpoint needs the module");
	if (a->resume) {
		if (capkm_domain_attach(r->c, r->state.domain, NULL, &err))
			die(FAILED, "%s: its ledger cannot be had: %s", a->checkpoint, err.text);
		return;
	}
	strcpy(r->state.domain, a->domain);
	rc = capkm_domain_open(r->c, a->domain, &(struct capkm_domain_opts)CAPKM_OPTS(
			       struct capkm_domain_opts, .flags = CAPKM_DOMAIN_OPTS_PERSISTENT), &err);
	if (rc)
		die(rc == -EINVAL ? WRONG : FAILED, "%s", err.text);
	/* It may have been there, made by somebody who did not mean it to stay. */
	TRY(capkm_domain_query(r->c, &query, &err));
	if (!(query.out_state & CAPKM_DOMAIN_PERSISTENT))
		die(WRONG, "the domain '%s' is there and not persistent; give another one, --domain NAME",
		    a->domain);
}

static void open_model(struct run *r, uint64_t predictions)
{
	TRY(capkm_host_create(r->c, NULL, &r->host, &err));
	TRY(model_open(&r->model, r->host, &r->weights, r->state.prompt_len + predictions, &err));
}

/* To be gone back to, if the next step fails. */
static void remember(struct run *r)
{
	capkm_observe_checkpoint_free(r->checkpoint);
	r->checkpoint = NULL;
	TRY(capkm_observe_checkpoint(r->session, &r->discovery, &r->checkpoint, &err));
}

/* To be gone on from by another process. 0 or -errno */
static int save(const struct run *r)
{
	const char *path = r->arguments.checkpoint;

	return path ? state_save(path, &r->state, r->checkpoint) : 0;
}

static void begin(struct run *r)
{
	const struct arguments *a = &r->arguments;
	const struct capkm_observe_request request = read_request(a);
	struct capkm_observe_plan *plan = read_plan(a);
	struct capkm_observe_admitted *admitted = admit(r, plan, &request);
	int rc;

	if (a->checkpoint && !access(a->checkpoint, F_OK))
		die(WRONG, "%s is there already: --resume goes on from it; without it, one begins anew",
		    a->checkpoint);
	capkm_observe_plan_free(plan);
	r->state.prompt_len = request.prompt_tokens;
	memcpy(r->state.tokens, a->prompt, request.prompt_tokens);
	open_domain(r);
	open_records(r);
	open_model(r, a->predictions);
	/* All that goes wrong from here on leaves the ledger, if there is a checkpoint. */
	TRY(capkm_observe_open(r->c, admitted, r->backend, &(struct capkm_observe_opts)CAPKM_OPTS(
			       struct capkm_observe_opts, .label = "observe-generate"),
			       &r->session, &err));
	capkm_observe_admitted_free(admitted);
	remember(r);
	rc = save(r);
	if (rc) {
		/* Without a file nobody could find the ledger. */
		capkm_observe_close(r->session);
		die(FAILED, "%s: %s", a->checkpoint, strerror(-rc));
	}
}

/* What the model goes on from: the prompt, or the last byte that it made. */
static int ask_model(struct run *r, uint8_t *next)
{
	const struct state *s = &r->state;

	if (!s->made)
		return model_predict(&r->model, s->tokens, s->prompt_len, next, &err);
	return model_predict(&r->model, &s->tokens[s->prompt_len + s->made - 1], 1, next, &err);
}

/* going on */

static bool same_usage(const struct capkm_usage *a, const struct capkm_usage *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/*
 * The lines that belong to the checkpoint, for the chart. Those after them are of the step
 * that was not finished and is made again: they are cut off, once it is sure that this is
 * the file.
 */
static void go_on_with_records(struct run *r, const struct capkm_observe_checkpoint *at)
{
	const char *path = r->arguments.records;
	const struct state *s = &r->state;
	const struct capkm_usage *usage = capkm_observe_checkpoint_usage(at);
	struct capkm_observe_step *step;
	char *text, *line, *end;
	size_t len;

	if (!r->records_in_file || !s->records_to)
		return;
	text = file_read(path, SIZE_MAX - 1, &len);
	if (len < s->records_to || text[s->records_to - 1] != '\n')
		die(WRONG, "%s is not the file that the records were in: it is to have %" PRIu64 " bytes or more, and a line that ends there",
		    path, s->records_to);
	for (line = text + s->records_from; line < text + s->records_to; line = end + 1) {
		end = memchr(line, '\n', text + len - line);
		if (capkm_observe_step_parse(line, end - line, &step, &err))
			die(WRONG, "%s, byte %zu: %s", path, line - text, err.text);
		chart_add(&r->chart, step);
		capkm_observe_step_free(step);
	}
	free(text);
	if (r->chart.len && !same_usage(&r->chart.steps[r->chart.len - 1].in_all, usage))
		die(WRONG, "%s is not the file that the records were in: its last step before byte %" PRIu64 " is another one than the checkpoint's",
		    path, s->records_to);
	if (ftruncate(fileno(r->records), s->records_to))
		die(FAILED, "%s: %s", path, strerror(errno));
}

/*
 * The model says again what it has said, which fills its cache. Nobody watches, and nothing
 * is charged. The last byte it has not looked at yet.
 */
static void fill_cache(struct run *r)
{
	struct state *s = &r->state;
	const uint32_t made = s->made;
	uint8_t next;

	for (s->made = 0; s->made < made; s->made++) {
		TRY(ask_model(r, &next));
		if (next != s->tokens[s->prompt_len + s->made])
			die(WRONG, "%s: prediction %u was another one: this is not the model that made it",
			    r->arguments.checkpoint, s->made);
	}
}

static void resume(struct run *r)
{
	const struct arguments *a = &r->arguments;
	struct capkm_observe_checkpoint *read;
	struct capkm_ledger_query query = { .size = sizeof(query) };
	int rc;

	state_load(a->checkpoint, &r->state, &read);
	open_domain(r);
	rc = capkm_observe_resume(r->c, read, &r->discovery, r->backend, &r->session, &err);
	if (rc)
		die(rc == -EINVAL ? WRONG : FAILED, "%s: %s", a->checkpoint, err.text);
	/* From here on it is sure that the other process has gone. */
	open_records(r);
	go_on_with_records(r, read);
	capkm_observe_checkpoint_free(read);
	open_model(r, request_of(r)->max_predictions);
	fill_cache(r);
	/* The file stays as it is: its last step is the last one of the records. */
	remember(r);
	query.ledger = capkm_observe_ledger(r->session);
	TRY(capkm_ledger_query(r->c, &query, &err));
	fprintf(r->text, "Goes on at prediction %u, with %" PRIu64 " captures and %" PRIu64
		" encoded bytes charged so far.\n", r->state.made, (uint64_t)query.out_total.captures,
		(uint64_t)query.out_total.encoded_bytes);
}

/* what is left of a step */

static void keep_records(struct run *r, const struct capkm_observe_step *step)
{
	const char *path = r->arguments.records;
	char *json;
	size_t len;

	if (!r->records)
		return;
	TRY(capkm_observe_step_json(step, &json, &len, &err));
	if (fwrite(json, 1, len, r->records) != len || fputc('\n', r->records) == EOF ||
	    fflush(r->records))
		die(FAILED, "%s: %s", path, strerror(errno));
	free(json);
	if (!r->records_in_file)
		return;
	/* The checkpoint must not have records that the machine forgets. */
	if (r->arguments.checkpoint && fsync(fileno(r->records)))
		die(FAILED, "%s: %s", path, strerror(errno));
	r->state.records_to += len + 1;
}

/* A byte for people. */
static const char *shown(uint8_t byte, char text[8])
{
	snprintf(text, 8, byte >= ' ' && byte <= '~' && byte != '\\' ? "%c" : "\\x%02x", byte);
	return text;
}

static int column(const char *id)
{
	const int len = strlen(id);

	return len < 9 ? 9 : len;
}

static void print_heading(const struct run *r)
{
	const struct capkm_observe_plan *plan = plan_of(r);

	fprintf(r->text, "\n%-10s %-4s", "prediction", "byte");
	for (uint32_t i = 0; i < plan->selections_len; i++)
		fprintf(r->text, " %-*s", column(plan->selections[i].id), plan->selections[i].id);
	for (int i = 0; i < AXES; i++)
		fprintf(r->text, " %8s", axes[i].name);
	fprintf(r->text, "\n");
}

static const char *word(const struct capkm_observe_outcome *outcome)
{
	switch (outcome->kind) {
	case CAPKM_OUTCOME_CAPTURED: return "captured";
	case CAPKM_OUTCOME_TRUNCATED: return "truncated";
	case CAPKM_OUTCOME_MISSING: return "missing";
	case CAPKM_OUTCOME_FAILED: return "failed";
	default: break;
	}
	switch (outcome->reason.kind) {
	case CAPKM_REASON_LIMIT: return "no budget";
	case CAPKM_REASON_RECORDING: return "recording";
	default: return "-";	/* it is not its turn */
	}
}

/* What became of each selection, what is used in all, and why something failed. */
static void print_step(const struct run *r, const struct capkm_observe_step *step, bool made)
{
	const struct state *s = &r->state;
	char byte[8] = "", prediction[32];

	if (made)
		shown(s->tokens[s->prompt_len + s->made - 1], byte);
	snprintf(prediction, sizeof(prediction), "%" PRIu64 "%s", step->prediction_index,
		 step->phase == CAPKM_PREFILL ? " prefill" : "");
	fprintf(r->text, "%-10s %-4s", prediction, byte);
	for (uint32_t i = 0; i < step->records_len; i++)
		fprintf(r->text, " %-*s", column(step->records[i].selection_id),
			word(&step->records[i].outcome));
	for (int i = 0; i < AXES; i++)
		fprintf(r->text, " %8" PRIu64, on_axis(&step->cumulative_usage, i));
	fprintf(r->text, "\n");
	for (uint32_t i = 0; i < step->records_len; i++)
		if (step->records[i].outcome.kind == CAPKM_OUTCOME_FAILED)
			fprintf(r->text, "    %s: %s: %s\n", step->records[i].selection_id,
				capkm_observe_reason_name(step->records[i].outcome.reason.kind),
				step->records[i].outcome.message);
	fflush(r->text);
}

static void print_limits(const struct run *r)
{
	const struct capkm_observe_limits *limits = &plan_of(r)->limits;
	const struct capkm_usage *each[] = { &limits->per_step, &limits->cumulative };
	static const char *const names[] = { "limit of a step", "limit in all" };
	char number[24];
	int before;

	for (int i = 0; i < 2; i++) {
		before = 15;
		for (uint32_t n = 0; n < plan_of(r)->selections_len; n++)
			before += 1 + column(plan_of(r)->selections[n].id);
		fprintf(r->text, "%-*s", before, names[i]);
		for (int axis = 0; axis < AXES; axis++)
			fprintf(r->text, " %8s", limit_text(on_axis(each[i], axis), number,
							      sizeof(number)));
		fprintf(r->text, "\n");
	}
}

/* a prediction */

/* The model shows a tensor. That it cannot be observed does not stop the model. */
static void observe(void *watcher, const char *path,
		    const struct capkm_observe_host_tensor *tensor)
{
	struct run *r = watcher;

	if (capkm_observe_tensor(r->session, path, tensor, &err) && !r->shown.err)
		r->shown = err;
}

static void pause_here(uint64_t prediction)
{
	fflush(NULL);
	fprintf(stderr, "observe-generate: process %d stops in the middle of prediction %" PRIu64 "\n",
		(int)getpid(), prediction);
	raise(SIGSTOP);
}

/* 0; -ESTALE: work failed, so there is no next byte. Ends the program for other errors. */
static int try_prediction(struct run *r, bool broken)
{
	struct state *s = &r->state;
	const uint32_t at = s->made;
	struct capkm_error model;
	struct capkm_observe_step *step;
	uint8_t next;
	int rc;

	TRY(capkm_observe_begin_step(r->session, at ? CAPKM_DECODE : CAPKM_PREFILL, at, &err));
	r->shown.err = 0;
	r->model.broken = broken;
	rc = ask_model(r, &next);
	model = err;
	if (!rc)
		s->tokens[s->prompt_len + s->made++] = next;
	if (r->arguments.pause_at == at)
		pause_here(at);
	TRY(capkm_observe_take_step(r->session, &step, &err));
	keep_records(r, step);
	print_step(r, step, !rc);
	chart_add(&r->chart, step);
	capkm_observe_step_free(step);
	if (r->arguments.chart)
		chart_write(&r->chart, &plan_of(r)->limits, r->arguments.chart);
	if (rc && rc != -ESTALE)
		die(FAILED, "%s", model.text);
	/* What is not trusted is not generated with; any other failure ends the run. */
	if (!rc && r->shown.err)
		die(FAILED, "%s", r->shown.text);
	err = model;
	return rc;
}

/*
 * A prediction whose work failed is made again, from the last checkpoint: bytes that it
 * spoilt, those in the cache too, are written anew. What it was charged stays charged.
 */
static void predict(struct run *r, bool broken)
{
	if (!try_prediction(r, broken))
		return;
	fprintf(r->text, "    prediction %u failed and is made again: %s\n", r->state.made, err.text);
	TRY(capkm_observe_restore(r->session, r->checkpoint, &err));
	if (try_prediction(r, false))
		die(FAILED, "prediction %u failed twice: %s", r->state.made, err.text);
}

static void print_text(const struct run *r)
{
	const struct state *s = &r->state;
	char text[8];

	fprintf(r->text, "\n");
	for (uint32_t i = 0; i < s->prompt_len; i++)
		fputs(shown(s->tokens[i], text), r->text);
	fputs("|", r->text);
	for (uint32_t i = 0; i < s->made; i++)
		fputs(shown(s->tokens[s->prompt_len + i], text), r->text);
	fprintf(r->text, "\n");
}

static void generate(struct run *r)
{
	const struct arguments *a = &r->arguments;
	uint64_t predictions;
	int rc;

	if (a->resume)
		resume(r);
	else
		begin(r);
	predictions = request_of(r)->max_predictions;
	if ((a->fail_at != NEVER && a->fail_at >= predictions) ||
	    (a->pause_at != NEVER && a->pause_at >= predictions))
		fprintf(stderr, "observe-generate: of %" PRIu64 " predictions, none is the one of --fail-at or --pause-at\n",
			predictions);
	r->model.show = observe;
	r->model.watcher = r;
	print_heading(r);
	while (r->state.made < predictions) {
		predict(r, a->fail_at == r->state.made);
		remember(r);
		rc = save(r);
		if (rc)
			die(FAILED, "%s: %s", a->checkpoint, strerror(-rc));
	}
	print_limits(r);
	print_text(r);
	/* Nothing is left to go on with: the ledger goes, then the checkpoint. */
	capkm_observe_close(r->session);
	if (a->checkpoint && unlink(a->checkpoint))
		die(FAILED, "%s: %s", a->checkpoint, strerror(errno));
	capkm_observe_checkpoint_free(r->checkpoint);
	capkm_host_destroy(r->host);
	capkm_close(r->c);
	chart_free(&r->chart);
	if (r->records && r->records != stdout && fclose(r->records))
		die(FAILED, "%s: %s", a->records, strerror(errno));
}

/* that run nothing */

static void print_discovery(const struct run *r)
{
	char *json;

	TRY(capkm_observe_discovery_json(&r->discovery, &json, NULL, &err));
	puts(json);
	free(json);
}

static int validate(const struct run *r)
{
	const struct capkm_observe_request request = read_request(&r->arguments);
	struct capkm_observe_plan *plan = read_plan(&r->arguments);
	int rc;

	capkm_observe_admitted_free(admit(r, plan, &request));
	rc = budget_validate(plan, &r->discovery, &request, r->backend);
	capkm_observe_plan_free(plan);
	return rc;
}

int main(int argc, char **argv)
{
	struct run r = { .backend = capkm_observe_host_backend() };
	int rc = 0;

	arguments_read(&r.arguments, argc, argv);
	weights_make(&r.weights, r.arguments.seed);
	r.discovery = model_discovery(&r.weights, r.backend);
	switch (r.arguments.command) {
	case GENERATE: generate(&r); break;
	case DISCOVERY: print_discovery(&r); break;
	case VALIDATE: rc = validate(&r); break;
	}
	weights_free(&r.weights);
	if (fflush(stdout) || ferror(stdout))
		die(FAILED, "the standard output: %s", strerror(errno));
	return rc;
}
