// SPDX-License-Identifier: GPL-2.0-only
/*
 * A decoder made of processes that share memory and trust each other's bytes
 * only as far as capkm lets them.  `story` tells what it shows.
 *
 *	pipeline serve DIR		the coordinator: makes the shared memory,
 *					the domain and a buffer for each of the
 *					blocks DIR/00.gz, DIR/01.gz, ... and
 *					holds them until SIGTERM
 *	pipeline worker [--halt] BLOCKS	decodes blocks, one scope each; with
 *					--halt stays in the middle of the last
 *	pipeline device [--halt] BLOCKS	the same as on a device: issues the work
 *					in scopes, and confirms it when it is
 *					done; with --halt it is never done
 *	pipeline capture [--halt] BLOCKS
 *					records the decoding from two threads,
 *					then replays it; with --halt stays there
 *					before it closes the window
 *	pipeline consume [--linger] [--output OUT] FILE BLOCKS
 *					reads what may be read, and compares it
 *					with FILE; with --linger waits in the
 *					middle of its copy for another writer
 *	pipeline await BLOCK		until the coordinator has seen a process
 *					halt in that block
 *
 * The consumer waits for what is not confirmed, and is refused it.
 *
 * BLOCKS is 7 or 4-9.  Exit status: 0; 1 if consume was refused a block; 2 for
 * everything that should not happen.
 */
#define _GNU_SOURCE
#include <capkm/capkm.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define DOMAIN		"decode"
#define OBJECT		"/capkm-demo"	/* in /dev/shm */
#define HEADER_BYTES	4096
#define BLOCKS_MAX	64
#define COLUMNS		100
#define STEP_NS		5000000		/* between two looks at shared memory */
#define PATIENCE	2000		/* looks: ten seconds */

/* What the processes share beside the blocks: no state of capkm, only names. */
struct block {
	uint64_t buffer;		/* id in the domain */
	uint64_t bytes;
	_Atomic uint32_t written;	/* how often */
	_Atomic uint32_t halted;	/* pid of the process that waits in it */
	_Atomic uint32_t seen;		/* the same, when the coordinator knows */
};

struct header {
	uint64_t stride;		/* from block to block */
	uint32_t blocks;
	char dir[256];
	struct block block[BLOCKS_MAX];
};
static_assert(sizeof(struct header) <= HEADER_BYTES, "the blocks come after");

struct peer {
	struct capkm *c;
	struct header *header;
	uint8_t *data;
	uint64_t stream;
	uint32_t first, last;		/* blocks that it is to work on */
};

static const char *role = "pipeline";
static _Thread_local struct capkm_error err = CAPKM_OPTS(struct capkm_error);

/* ---- talking ---- */

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	printf("%s[%d]: %s\n", role, getpid(), line);
}

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s[%d]: ", role, getpid());
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

/* For calls of libcapkm that have to succeed; they explain in err. */
static void need(int rc)
{
	if (rc)
		die("%s", err.text);
}

/* "block 3", "blocks 3 to 7" */
static const char *range(uint32_t first, uint32_t last, char text[32])
{
	if (first == last)
		snprintf(text, 32, "block %u", first);
	else
		snprintf(text, 32, "blocks %u to %u", first, last);
	return text;
}

static void print_wrapped(const char *text)
{
	const int room = COLUMNS - 8;

	while (*text) {
		int n = strlen(text);

		if (n > room)
			for (n = room; n > 1 && text[n] != ' '; n--)
				;
		printf("        %.*s\n", n, text);
		text += n;
		text += strspn(text, " ");
	}
}

/* ---- shared memory ---- */

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = STEP_NS }, NULL);
}

static void block_path(const struct header *h, uint32_t n, char path[300])
{
	snprintf(path, 300, "%s/%02u.gz", h->dir, n);
}

static uint8_t *block_data(const struct peer *p, uint32_t n)
{
	return p->data + n * p->header->stride;
}

static struct capkm_claim block_claim(const struct peer *p, uint32_t n)
{
	const struct block *b = &p->header->block[n];

	return (struct capkm_claim){ .buffer = b->buffer, .end = b->bytes };
}

static uint32_t block_of(const struct peer *p, uint64_t buffer)
{
	for (uint32_t n = 0; n < p->header->blocks; n++)
		if (p->header->block[n].buffer == buffer)
			return n;
	die("buffer %" PRIu64 " is no block", buffer);
}

static void map(struct peer *p, int fd)
{
	struct stat st;
	void *start;

	if (fd < 0 || fstat(fd, &st))
		die("/dev/shm%s: %s", OBJECT, strerror(errno));
	start = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	close(fd);
	p->header = start;
	p->data = (uint8_t *)start + HEADER_BYTES;
}

/* The coordinator is told, and then nothing happens any more. */
static void __attribute__((noreturn)) halt(struct peer *p, uint32_t n)
{
	atomic_store(&p->header->block[n].halted, getpid());
	for (;;)
		pause();
}

/* ---- joining ---- */

static void parse_blocks(struct peer *p, const char *text)
{
	char end;
	int n = sscanf(text, "%u-%u%c", &p->first, &p->last, &end);

	if (n == 1 && strspn(text, "0123456789") == strlen(text))
		p->last = p->first;
	else if (n != 2)
		die("%s is not a range of blocks", text);
	if (p->first > p->last || p->last >= p->header->blocks)
		die("there are blocks 0 to %u only", p->header->blocks - 1);
}

/* Into the domain, with the blocks' buffers opened. */
static void join(struct peer *p, const char *blocks)
{
	map(p, shm_open(OBJECT, O_RDWR, 0));
	parse_blocks(p, blocks);
	need(capkm_open(NULL, NULL, &p->c, &err));
	need(capkm_domain_attach(p->c, DOMAIN, NULL, &err));
	for (uint32_t n = p->first; n <= p->last; n++)
		need(capkm_buffer_open(p->c, p->header->block[n].buffer, NULL,
				       &err));
}

/* For those that write: with a logical stream, which the thread works on. */
static void join_with_stream(struct peer *p, const char *blocks)
{
	join(p, blocks);
	need(capkm_stream_create(p->c, role, &p->stream, &err));
	capkm_stream_pin(p->stream);
}

/* ---- decoding ---- */

static const struct capkm_cause damaged = CAPKM_OPTS(struct capkm_cause,
	.kind = CAPKM_KIND_IO, .code = EIO, .text = "cannot decode it",
	.flags = CAPKM_SCOPE_EXIT_F_COMPLETE);

static bool read_exactly(gzFile f, uint8_t *dst, uint64_t bytes)
{
	return gzread(f, dst, bytes) == (int)bytes;
}

/* Also that nothing follows and that the checksum was right. */
static bool read_end(gzFile f)
{
	uint8_t more;

	return gzread(f, &more, 1) == 0 && gzeof(f);
}

static void say_halted(const struct peer *p, uint32_t n,
		       const struct capkm_scope *scope)
{
	uint64_t bytes = p->header->block[n].bytes;

	say("block %u: %" PRIu64 " of %" PRIu64 " bytes written, scope %" PRIu64
	    " of stream %" PRIu64 " is open", n, bytes / 2, bytes, scope->id,
	    p->stream);
}

/* With @halt, the scope that it is in, it does not come back. */
static bool decode(struct peer *p, uint32_t n, const struct capkm_scope *halt_in)
{
	struct block *b = &p->header->block[n];
	uint64_t half = b->bytes / 2;
	uint8_t *dst = block_data(p, n);
	char path[300];
	gzFile f;
	bool ok;

	block_path(p->header, n, path);
	f = gzopen(path, "rb");
	ok = f && read_exactly(f, dst, half);
	if (ok && halt_in) {
		say_halted(p, n, halt_in);
		halt(p, n);
	}
	ok = ok && read_exactly(f, dst + half, b->bytes - half) && read_end(f);
	if (f)
		ok = gzclose(f) == Z_OK && ok;
	return ok;
}

static struct capkm_scope enter(struct peer *p, uint32_t n)
{
	const struct capkm_claim writes = block_claim(p, n);
	struct capkm_scope scope;
	char label[32];
	struct capkm_scope_opts opts = CAPKM_OPTS(struct capkm_scope_opts,
		.label = range(n, n, label));

	need(capkm_scope_enter(p->c, NULL, NULL, 0, &writes, 1, &opts, &scope,
			       NULL, &err));
	if (scope.result != CAPKM_CLEAN)
		die("%s was not entered: %s", label,
		    capkm_result_name(scope.result));
	return scope;
}

/* ---- serve ---- */

/* A gzip file ends with the size of what is in it. */
static uint64_t decoded_bytes(const char *path)
{
	uint8_t b[4];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (lseek(fd, -4, SEEK_END) < 0 || read(fd, b, 4) != 4)
		die("%s: not a gzip file", path);
	close(fd);
	return b[0] | b[1] << 8 | b[2] << 16 | (uint64_t)b[3] << 24;
}

static void find_blocks(struct header *h, const char *dir)
{
	char path[300];

	snprintf(h->dir, sizeof(h->dir), "%s", dir);
	for (; h->blocks < BLOCKS_MAX; h->blocks++) {
		struct block *b = &h->block[h->blocks];

		block_path(h, h->blocks, path);
		b->bytes = decoded_bytes(path);
		if (!b->bytes)
			break;
		if (b->bytes > h->stride)
			h->stride = b->bytes;
	}
	if (!h->blocks)
		die("%s: nothing there", path);
}

static void make_object(struct peer *p, const struct header *h)
{
	int fd = shm_open(OBJECT, O_CREAT | O_EXCL | O_RDWR, 0600);
	size_t bytes = h->blocks * h->stride;

	if (fd < 0 || ftruncate(fd, HEADER_BYTES + bytes))
		die("/dev/shm%s: %s", OBJECT, strerror(errno));
	map(p, fd);
	*p->header = *h;
	memset(p->data, 0xee, bytes);	/* as used memory is: full of nonsense */
}

static void make_buffers(struct peer *p)
{
	struct capkm_claim claims[BLOCKS_MAX];
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.text = "not decoded yet");
	uint32_t blocks = p->header->blocks;

	for (uint32_t n = 0; n < blocks; n++) {
		struct block *b = &p->header->block[n];
		char label[32];
		struct capkm_buffer_opts opts = CAPKM_OPTS(
			struct capkm_buffer_opts,
			.label = range(n, n, label),
			.flags = CAPKM_BUFFER_CREATE_F_EXPORT);

		need(capkm_buffer_create(p->c, b->bytes, &opts, &b->buffer,
					 &err));
		claims[n] = block_claim(p, n);
	}
	need(capkm_taint(p->c, claims, blocks, 0, &cause, NULL, &err));
}

static void look_for_halted(struct header *h)
{
	for (uint32_t n = 0; n < h->blocks; n++)
		atomic_store(&h->block[n].seen,
			     atomic_load(&h->block[n].halted));
}

static void wait_for_sigterm(struct header *h)
{
	const struct timespec step = { .tv_nsec = STEP_NS };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (sigtimedwait(&set, NULL, &step) != SIGTERM)
		look_for_halted(h);
}

static int serve(int argc, char **argv)
{
	struct header h = { 0 };
	struct peer p = { 0 };

	if (argc != 1)
		die("serve DIR");
	find_blocks(&h, argv[0]);
	need(capkm_open(NULL, NULL, &p.c, &err));
	need(capkm_domain_create(p.c, DOMAIN, NULL, &err));
	make_object(&p, &h);
	make_buffers(&p);
	say("%u blocks of at most %" PRIu64 " bytes in /dev/shm%s", h.blocks,
	    h.stride, OBJECT);
	say("domain \"%s\", buffers %" PRIu64 " to %" PRIu64 ", one a block",
	    DOMAIN, p.header->block[0].buffer,
	    p.header->block[h.blocks - 1].buffer);
	wait_for_sigterm(p.header);
	shm_unlink(OBJECT);
	capkm_close(p.c);
	return 0;
}

/* ---- worker ---- */

static void work(struct peer *p, uint32_t n, bool halt_there)
{
	struct block *b = &p->header->block[n];
	struct capkm_scope scope = enter(p, n);
	const uint64_t id = scope.id;

	if (!decode(p, n, halt_there ? &scope : NULL)) {
		need(capkm_scope_fail(p->c, &scope, &damaged, &err));
		die("block %u: %s", n, damaged.text);
	}
	need(capkm_scope_exit(p->c, &scope, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	atomic_fetch_add(&b->written, 1);
	say("block %u: %" PRIu64 " bytes, scope %" PRIu64 " of stream %" PRIu64,
	    n, b->bytes, id, p->stream);
}

static bool take_option(int *argc, char ***argv, const char *name)
{
	if (*argc < 1 || strcmp((*argv)[0], name))
		return false;
	--*argc;
	++*argv;
	return true;
}

static int worker(int argc, char **argv)
{
	bool halt_there = take_option(&argc, &argv, "--halt");
	struct peer p = { 0 };

	if (argc != 1)
		die("worker [--halt] BLOCKS");
	join_with_stream(&p, argv[0]);
	for (uint32_t n = p.first; n <= p.last; n++)
		work(&p, n, halt_there && n == p.last);
	capkm_close(p.c);
	return 0;
}

/* ---- device ---- */

/* All that is known of the work when its scope is left is that it was issued. */
static void issue(struct peer *p, uint32_t n)
{
	struct capkm_scope scope = enter(p, n);
	const uint64_t id = scope.id;

	need(capkm_scope_exit(p->c, &scope, 0, &err));
	say("block %u: issued in scope %" PRIu64 " of stream %" PRIu64, n, id,
	    p->stream);
}

/* What the stream has issued is done, all of it: the device is synchronised. */
static void synchronise(struct peer *p)
{
	for (uint32_t n = p->first; n <= p->last; n++) {
		if (!decode(p, n, NULL))
			die("block %u: %s", n, damaged.text);
		atomic_fetch_add(&p->header->block[n].written, 1);
	}
}

static int device(int argc, char **argv)
{
	bool halt_there = take_option(&argc, &argv, "--halt");
	struct peer p = { 0 };
	uint64_t sequence;
	char text[32];

	if (argc != 1)
		die("device [--halt] BLOCKS");
	join_with_stream(&p, argv[0]);
	for (uint32_t n = p.first; n <= p.last; n++)
		issue(&p, n);
	if (halt_there) {
		say("the device is at work");
		halt(&p, p.first);
	}
	need(capkm_stream_sequence(p.c, NULL, &sequence, &err));
	synchronise(&p);
	need(capkm_confirm(p.c, NULL, sequence, NULL, &err));
	say("%s: done and confirmed", range(p.first, p.last, text));
	capkm_close(p.c);
	return 0;
}

/* ---- capture ---- */

/* A thread that records its part of the blocks for the stream of @p. */
static void *record(void *part)
{
	struct peer *p = part;

	capkm_stream_pin(p->stream);
	for (uint32_t n = p->first; n <= p->last; n++) {
		struct capkm_scope scope = enter(p, n);
		const uint64_t id = scope.id;

		need(capkm_scope_exit(p->c, &scope, 0, &err));
		say("thread %d recorded block %u for stream %" PRIu64
		    " in scope %" PRIu64, gettid(), n, p->stream, id);
	}
	return NULL;
}

/* Also in a thread of its own, which is gone when the window is closed. */
static void *open_window(void *peer)
{
	struct peer *p = peer;
	uint64_t window;

	capkm_stream_pin(p->stream);
	need(capkm_window_prepare(p->c, NULL, NULL, &window, &err));
	need(capkm_window_begin(p->c, NULL, 0, NULL, &err));
	say("thread %d opened window %" PRIu64 " of stream %" PRIu64, gettid(),
	    window, p->stream);
	return NULL;
}

static pthread_t start(void *(*body)(void *), struct peer *p)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, p))
		die("no thread");
	return thread;
}

static void record_window(struct peer *p)
{
	struct peer parts[2] = { *p, *p };
	pthread_t threads[2];

	if (p->first == p->last)
		die("two threads need two blocks");
	parts[0].last = (p->first + p->last) / 2;
	parts[1].first = parts[0].last + 1;
	pthread_join(start(open_window, p), NULL);
	for (int i = 0; i < 2; i++)
		threads[i] = start(record, &parts[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* All that the window has is the work of its owner, whatever thread did it. */
static bool is_own_work(struct peer *p, uint64_t window)
{
	const uint32_t blocks = p->last - p->first + 1;
	struct capkm_window_query query = {
		.size = sizeof(query),
		.window = window,
	};

	need(capkm_window_query(p->c, &query, &err));
	return query.out_owner == p->stream && query.out_recorded == blocks &&
	       query.out_launches == blocks && !query.out_foreign_launches;
}

static uint64_t close_window(struct peer *p)
{
	struct capkm_window_end end = { .size = sizeof(end) };
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	uint64_t graph;

	need(capkm_window_end(p->c, NULL, 0, 0, &end, &err));
	need(capkm_window_seal(p->c, end.out_window, 0, &graph, &answer, &err));
	if (end.out_verdict != CAPKM_VERDICT_OWNED ||
	    answer.out_result != CAPKM_CLEAN)
		die("window %llu became no graph", end.out_window);
	if (!is_own_work(p, end.out_window))
		die("window %llu recorded something else", end.out_window);
	say("thread %d closed window %llu: %llu blocks recorded, sealed as graph %"
	    PRIu64, gettid(), end.out_window, end.out_recorded, graph);
	return graph;
}

static void say_state(const struct peer *p, const char *when)
{
	struct capkm_claim claims[BLOCKS_MAX];
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	char text[32];

	for (uint32_t n = p->first; n <= p->last; n++)
		claims[n - p->first] = block_claim(p, n);
	need(capkm_check(p->c, claims, p->last - p->first + 1, &answer, &err));
	say("%s the replay, %s: %s", when, range(p->first, p->last, text),
	    capkm_result_name(answer.out_result));
}

/* What is to be done is what the kernel has recorded. */
static uint32_t recorded(struct peer *p, uint64_t graph,
			 struct capkm_claim claims[BLOCKS_MAX])
{
	struct capkm_graph_query query = {
		.size = sizeof(query),
		.graph = graph,
		.claims_uptr = (uintptr_t)claims,
		.claims_len = BLOCKS_MAX,
	};

	need(capkm_graph_query(p->c, &query, &err));
	return query.out_claims;
}

static void replay(struct peer *p, uint64_t graph)
{
	struct capkm_claim claims[BLOCKS_MAX];
	uint32_t len = recorded(p, graph, claims), result;

	need(capkm_graph_replay_begin(p->c, graph, NULL, NULL, &result, NULL,
				      &err));
	if (result != CAPKM_CLEAN)
		die("the replay was %s", capkm_result_name(result));
	for (uint32_t i = 0; i < len; i++) {
		if (decode(p, block_of(p, claims[i].buffer), NULL))
			continue;
		need(capkm_graph_replay_fail(p->c, graph, &damaged, NULL, &err));
		die("graph %" PRIu64 ": %s", graph, damaged.text);
	}
	need(capkm_graph_replay_end(p->c, graph, CAPKM_SCOPE_EXIT_F_COMPLETE,
				    &err));
	say("replayed graph %" PRIu64 ": decoded %u blocks", graph, len);
}

static int capture(int argc, char **argv)
{
	bool halt_there = take_option(&argc, &argv, "--halt");
	struct peer p = { 0 };
	uint64_t graph;

	if (argc != 1)
		die("capture [--halt] BLOCKS");
	join_with_stream(&p, argv[0]);
	record_window(&p);
	if (halt_there) {
		say("both threads are done, the window is open");
		halt(&p, p.first);
	}
	graph = close_window(&p);
	say_state(&p, "before");
	replay(&p, graph);
	say_state(&p, "after");
	capkm_close(p.c);
	return 0;
}

/* ---- consume ---- */

struct reader {
	struct peer p;
	const uint8_t *file;		/* as it should be */
	uint8_t *copy;			/* what was read, block by block */
	bool linger;
	uint32_t copies;		/* that the block took */
};

/* A run of neighbours that came out alike, told in one line. */
struct run {
	uint32_t first, last;
	int rc;
	struct capkm_report report;	/* of the first */
};

static int wait_for_writer(struct peer *p, uint32_t n)
{
	struct block *b = &p->header->block[n];
	uint32_t before = atomic_load(&b->written);

	int i;

	say("block %u: copied half of it", n);
	atomic_store(&b->halted, getpid());
	for (i = 0; i < PATIENCE && atomic_load(&b->written) == before; i++)
		nap();
	atomic_store(&b->halted, 0);
	return i < PATIENCE ? 0 : -ETIMEDOUT;
}

static int copy_block(void *context, void *dst, const void *src,
		      const struct capkm_claim *claim)
{
	struct reader *r = context;
	size_t bytes = claim->end - claim->start, half = bytes / 2;
	int rc = 0;

	memcpy(dst, src, half);
	if (r->linger && !r->copies)
		rc = wait_for_writer(&r->p, block_of(&r->p, claim->buffer));
	memcpy((uint8_t *)dst + half, (const uint8_t *)src + half, bytes - half);
	r->copies++;
	return rc;
}

/* Asks, copies, asks again; 0 or -ESTALE or -EAGAIN with a report. */
static int read_block(struct reader *r, uint32_t n, struct capkm_report *report)
{
	const struct capkm_claim claim = block_claim(&r->p, n);
	const uint64_t at = n * r->p.header->stride;
	struct capkm_read_opts opts = CAPKM_OPTS(struct capkm_read_opts,
		.copy = copy_block, .context = r, .report = report,
		.flags = CAPKM_READ_OPTS_CONFIRMED, .retry_ms = 200);
	int rc;

	r->copies = 0;
	rc = capkm_read(r->p.c, &claim, r->copy + at, block_data(&r->p, n),
			&opts, &err);
	if (rc && rc != -ESTALE && rc != -EAGAIN)
		need(rc);
	if (!rc && memcmp(r->copy + at, r->file + at, claim.end))
		die("block %u was read, and is not what the file has there", n);
	if (!rc && r->copies > 1)
		say("block %u changed while it was copied: copied it %u times",
		    n, r->copies);
	return rc;
}

/* The first byte of the block's memory that is not as in the file. */
static uint64_t first_difference(const struct reader *r, uint32_t n)
{
	const uint8_t *is = block_data(&r->p, n);
	const uint8_t *should = r->file + n * r->p.header->stride;
	uint64_t i = 0;

	while (i < r->p.header->block[n].bytes && is[i] == should[i])
		i++;
	return i;
}

static void tell(const struct reader *r, const struct run *run)
{
	const uint64_t differs = first_difference(r, run->first);
	char blocks[32], text[1024];

	range(run->first, run->last, blocks);
	if (!run->rc) {
		say("%s: read, equal to the file", blocks);
		return;
	}
	if (differs < r->p.header->block[run->first].bytes)
		say("%s: refused (and wrong from byte %" PRIu64 " on)", blocks,
		    differs);
	else
		say("%s: refused", blocks);
	capkm_report_text(&run->report, NULL, 0, 0, text, sizeof(text));
	print_wrapped(text);
}

static bool alike(const struct run *a, const struct run *b)
{
	return a->rc == b->rc &&
	       (!a->rc || (a->report.failure == b->report.failure &&
			   a->report.scope == b->report.scope));
}

static bool read_blocks(struct reader *r)
{
	struct run run = { 0 };
	bool all = true;

	for (uint32_t n = r->p.first; n <= r->p.last; n++) {
		struct run one = { .first = n, .last = n };

		one.rc = read_block(r, n, &one.report);
		all = all && !one.rc;
		if (n == r->p.first) {
			run = one;
		} else if (alike(&run, &one)) {
			run.last = n;
		} else {
			tell(r, &run);
			run = one;
		}
	}
	tell(r, &run);
	return all;
}

static const uint8_t *map_file(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *start;

	if (fd < 0 || fstat(fd, &st))
		die("%s: %s", path, strerror(errno));
	start = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (start == MAP_FAILED)
		die("%s: %s", path, strerror(errno));
	close(fd);
	*bytes = st.st_size;
	return start;
}

static size_t total_bytes(const struct header *h)
{
	return (h->blocks - 1) * h->stride + h->block[h->blocks - 1].bytes;
}

static void write_file(const char *path, const void *data, size_t bytes)
{
	FILE *f = fopen(path, "we");

	if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
		die("%s: %s", path, strerror(errno));
}

static int consume(int argc, char **argv)
{
	struct reader r = { .linger = take_option(&argc, &argv, "--linger") };
	const char *output = NULL;
	size_t bytes;
	bool all;

	if (take_option(&argc, &argv, "--output") && argc-- > 0)
		output = *argv++;
	if (argc != 2)
		die("consume [--linger] [--output OUT] FILE BLOCKS");
	join(&r.p, argv[1]);
	r.file = map_file(argv[0], &bytes);
	if (bytes != total_bytes(r.p.header))
		die("%s: is another file", argv[0]);
	r.copy = calloc(1, bytes);
	if (!r.copy)
		die("out of memory");
	all = read_blocks(&r);
	if (output && all)
		write_file(output, r.copy, bytes);
	capkm_close(r.p.c);
	return all ? 0 : 1;
}

/* ---- await ---- */

static int await(int argc, char **argv)
{
	struct peer p = { 0 };

	if (argc != 1)
		die("await BLOCK");
	map(&p, shm_open(OBJECT, O_RDWR, 0));
	parse_blocks(&p, argv[0]);
	for (int i = 0; i < PATIENCE; i++) {
		if (atomic_load(&p.header->block[p.first].seen)) {
			say("the coordinator knows that process %u waits in block %u",
			    p.header->block[p.first].seen, p.first);
			return 0;
		}
		nap();
	}
	die("nobody halts in block %u", p.first);
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "serve", serve },
	{ "worker", worker },
	{ "device", device },
	{ "capture", capture },
	{ "consume", consume },
	{ "await", await },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (argc < 2 || strcmp(argv[1], commands[i].name))
			continue;
		role = commands[i].name;
		prctl(PR_SET_NAME, role);	/* what reports will call it */
		return commands[i].run(argc - 2, argv + 2);
	}
	die("serve, worker, device, capture, consume or await");
}
