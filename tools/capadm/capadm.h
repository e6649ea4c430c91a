/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of capadm know of each other:
 *
 *	commands.c	the tables of commands and options
 *	main.c		the command line
 *	status.c domains.c sessions.c windows.c graphs.c buffers.c taint.c
 *	failures.c abandon.c ledgers.c limits.c manage.c version.c monitor.c top.c
 *	health.c metrics.c doctor.c completion.c
 *			one command or group of commands each
 *	tree.c		failures as a tree
 *	doctor_*.c	what doctor looks at
 *	ailing.c	what is not well, of
 *	snapshot.c	all that there is
 *	events.c	events, while they happen
 *	screen.c	a terminal's whole screen
 *	values.c	options that are numbers, waiting
 *	args.c		words of the command line
 *	record.c	attributes of a netlink record, by table, as JSON and text
 *	list.c		a list of records
 *	netlink.c	talks to the kernel
 *	print.c		tables, JSON, errors
 *
 * A function that returns a status returns EXIT_OK or, after it has told the
 * user why, EXIT_FAILED or EXIT_USAGE.
 */
#ifndef CAPADM_H
#define CAPADM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>
#include <netlink/attr.h>
#include <netlink/netlink.h>

#include <linux/capkm.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))
#define PRINTF(a, b) __attribute__((__format__(__printf__, a, b)))

enum {
	EXIT_OK		= 0,
	EXIT_FAILED	= 1,	/* it could not be done */
	EXIT_USAGE	= 2,	/* the command line is wrong */
};

/* Of the JSON. It changes when a member goes or changes its meaning. */
#define JSON_SCHEMA 1

/* ---- commands.c ---- */

enum option_id {
	OPT_HISTORY,
	OPT_ORPHANS,
	OPT_REPORTS,
	OPT_TREE,
	OPT_DOT,
	OPT_CLIENTS,
	OPT_MODE,
	OPT_UID,
	OPT_GID,
	OPT_FORCE,
	OPT_DEFAULTS,
	OPT_USERS,
	OPT_CODE,
	OPT_TEXT,
	OPT_PID,
	OPT_DRY_RUN,
	OPT_FAILURES,
	OPT_COUNT,
	OPT_INTERVAL,
	OPT_TEXTFILE,
	OPT_JSON,
	OPT_BYTES,
	OPT_HELP,
	OPT_VERSION,
	OPT_N
};

struct option {
	const char *name;
	const char *value;	/* what it takes, as a word for people; NULL: nothing */
	const char *help;
};

/* A set of options; TAKES(JSON) is that of OPT_JSON. */
#define TAKES(option) (1u << OPT_##option)

/* What the user asks for. */
struct request {
	bool json;
	char **error;			/* errors go there, instead of being printed */
	unsigned int options;		/* TAKES() */
	const char *values[OPT_N];	/* of the options that take one */
	int argc;			/* the command's arguments only */
	char **argv;
};

struct command {
	const char *name;		/* one word, or two of a group */
	const char *args;		/* as people read them, NULL: none */
	const char *help;
	const char *more;		/* below its options in --help */
	int (*run)(const struct request *rq);
	unsigned int options;		/* TAKES(), but for those that all take */
	int min_args, max_args;
	int trouble;			/* its exit status on an error, if it is another one */
	bool hidden;			/* neither in --help nor in the man page */
};

extern const struct command commands[];		/* name NULL at the end */
extern const struct option options[OPT_N];

bool takes(const struct command *c, enum option_id id);	/* main.c */

int cmd_status(const struct request *rq);
int cmd_domains(const struct request *rq);
int cmd_windows(const struct request *rq);
int cmd_buffers(const struct request *rq);
int cmd_failures(const struct request *rq);
int cmd_abandon(const struct request *rq);
int cmd_sessions(const struct request *rq);
int cmd_graphs(const struct request *rq);
int cmd_taint(const struct request *rq);
int cmd_ledgers(const struct request *rq);
int cmd_ledger_rm(const struct request *rq);
int cmd_domain_create(const struct request *rq);
int cmd_domain_rm(const struct request *rq);
int cmd_domain_limit(const struct request *rq);
int cmd_device_fault(const struct request *rq);
int cmd_monitor(const struct request *rq);
int cmd_top(const struct request *rq);
int cmd_health(const struct request *rq);
int cmd_metrics(const struct request *rq);
int cmd_doctor(const struct request *rq);
int cmd_version(const struct request *rq);
int cmd_completion(const struct request *rq);
int cmd_commands(const struct request *rq);	/* main.c */

/*
 * The id of the domain that @arg names: an id or a name. A name is first one
 * of the user's own, then the only one of somebody else. (domains.c)
 */
int find_domain(const struct request *rq, const char *arg, uint64_t *id);
/* The name of a user, escaped; his number if he has none here. (domains.c) */
char *user_name(uint32_t uid);

/* ---- args.c ---- */

/* Each says on failure that @arg is no @what, and what would be. */
int parse_id(const struct request *rq, const char *what, const char *arg, uint64_t *id);
int parse_number(const struct request *rq, const char *what, const char *arg, uint64_t max,
		 uint64_t *v);
int parse_size(const struct request *rq, const char *what, const char *arg, uint64_t *v);
int parse_uuid(const struct request *rq, const char *arg, uint8_t uuid[16]);
/* DOMAIN/WINDOW, where @what is a window; the command that lists them is its plural. */
int parse_member(const struct request *rq, const char *what, const char *arg, uint64_t *domain,
		 uint64_t *id);

/* ---- record.c ---- */

enum field_type {
	FIELD_NUMBER,
	FIELD_SIGNED,
	FIELD_BOOL,
	FIELD_MODE,	/* permission bits, "0600" */
	FIELD_TEXT,
	FIELD_UUID,	/* absent: the host */
	FIELD_ENUM,	/* one of names */
	FIELD_FLAGS,	/* bit set of names */
	FIELD_RECORD,	/* nested, by fields */
	FIELD_LIST,	/* the same, as often as it comes */
	FIELD_BYTES,	/* as good as text, opaque */
};

struct field {
	int attr;
	enum field_type type;
	const char *key;
	const char *const *names;	/* by value or bit, NULL at the end */
	const struct field *fields;	/* key NULL at the end */
};

extern const struct field domain_fields[];	/* domains.c */
extern const struct field window_fields[];	/* windows.c */
extern const struct field buffer_fields[];	/* buffers.c */
extern const struct field failure_fields[];	/* failures.c */
extern const struct field session_fields[];	/* sessions.c */
extern const struct field client_fields[];	/* the same */
extern const struct field graph_fields[];	/* graphs.c */
extern const struct field limit_fields[];	/* limits.c */
extern const char *const right_names[];		/* domains.c, by bit */
extern const char *const kind_names[];		/* failures.c, by enum capkm_kind */

/* "launch, code -700: gemm: no kernel image", escaped; the caller frees it. */
char *failure_line(struct nlattr **attrs);
char *failure_json_line(struct json_object *f);
/* As a tree or for Graphviz. (tree.c) */
struct query;
int show_failures(const struct request *rq, const struct query *q, const char *what);

extern const char *const axis_names[];		/* ledgers.c, by enum capkm_axis */
/* What a nest says of each axis; false: it is not there. (ledgers.c) */
bool get_usage(struct nlattr *nest, uint64_t usage[CAPKM_AXIS_ENCODED + 1]);

/* "3/17", as a window is named on the command line. (windows.c) */
char *window_name(struct nlattr **attrs);

uint64_t get_number(struct nlattr *attr);
/* As it came, never NULL: escape() it before it is printed. */
const char *get_text(struct nlattr *attr);
struct json_object *record_json(const struct field *fields,
				struct nlattr **attrs);
/* The value of @attr as text for people, escaped; the caller frees it. */
char *field_text(const struct field *fields, int attr, struct nlattr **attrs);

/* ---- netlink.c ---- */

/* The highest attribute of any set. */
#define ATTR_MAX 63

/* One attribute of a request. */
struct ask {
	int attr;
	enum { ASK_U32, ASK_U64, ASK_FLAG, ASK_TEXT, ASK_UUID } type;
	uint64_t number;
	const void *data;
};

#define QUERY_MAX 8

struct query {
	int cmd;			/* enum capkm_cmd */
	struct ask asks[QUERY_MAX];
	size_t n;
	bool *gone;	/* if not NULL: set if it is not there, and that is no failure */
};

void ask_u32(struct query *q, int attr, uint32_t v);
void ask_u64(struct query *q, int attr, uint64_t v);
void ask_flag(struct query *q, int attr);
/* @text and @uuid stay the caller's, until the kernel was asked. */
void ask_text(struct query *q, int attr, const char *text);
void ask_uuid(struct query *q, int attr, const uint8_t *uuid);

/*
 * Gets the attributes of a record; attrs[0] is none of them: all of them are
 * nested in it, for those that may repeat.
 */
typedef void record_fn(struct nlattr **attrs, void *ctx);

/*
 * @what could not be done if it fails: "read domain 3". The @record of
 * kernel_do() may be NULL.
 */
int kernel_dump(const struct request *rq, const struct query *q, const char *what,
		record_fn *record, void *ctx);
int kernel_do(const struct request *rq, const struct query *q, const char *what,
	      record_fn *record, void *ctx);

/* A socket on which the module is known; it tells why, if there is none. */
struct kernel {
	struct nl_sock *sock;
	struct nl_cb *cb;
	int family;
};

int kernel_open(const struct request *rq, struct kernel *k);
void kernel_close(struct kernel *k);

/* ---- print.c ---- */

/* On a terminal that is narrower, as many as that has. */
#define LINE_MAX_COLUMNS 100
#define LINE_MIN_COLUMNS 40
#define DEVICE "/dev/capkm"

/* How a listing makes a cell of an attribute. */
enum cell { CELL_TEXT, CELL_COUNT, CELL_ID, CELL_BYTES, CELL_TIME, CELL_USER };

struct column {
	const char *title;
	bool right;		/* aligned */
	/* of a listing (list.c): */
	int attr;
	enum cell cell;
	char *(*make)(struct nlattr **attrs);	/* in place of both */
};

struct table;

/* What is not aligned to the right, the last column first, is cut so that a line fits. */
struct table *table_new(const struct column *columns, size_t n);
/* One char * for each column, which the table frees. */
void table_row(struct table *t, ...);
/* The same with an array of them, which stays the caller's. */
void table_cells(struct table *t, char *const *cells);
/* A line below the last row, wrapped and indented. */
void table_note(struct table *t, const char *text);
size_t table_rows(const struct table *t);
void table_print(const struct table *t);
void table_free(struct table *t);
void table_print_and_free(struct table *t);

/* Broken into lines that fit, the first indented by @first, behind what fills @at. */
void print_wrapped(const char *s, int at, int first, int rest);

char *format(const char *fmt, ...) PRINTF(1, 2);
/*
 * Harmless on a terminal: controls, what reorders text or is not seen, and what the
 * terminal's character set does not have, as \xNN for each byte.
 */
char *escape(const char *text);
/* The same for who knows no \xNN: U+FFFD. */
char *make_visible(const char *text);
char *format_count(uint64_t n);
char *format_id(uint64_t id);		/* 0 is "-" */
char *format_bytes(uint64_t n);		/* for people, unless: */
void set_exact_bytes(bool on);
/* Time since @ns of CLOCK_REALTIME; "-" for 0. */
char *format_age(uint64_t ns);
/* "16:40:03 (2m11s)" */
char *format_time(uint64_t ns);

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_WARN, COLOUR_BAD, COLOUR_TITLE };

/* @text, which it takes over, in a colour if stdout is a terminal that has some. */
char *paint(enum colour colour, char *text);
/* Above a part of the output. */
void print_title(const char *title);
/* One line, cut to fit. */
void print_cut(const char *line, enum colour colour);

void *must(void *p);			/* memory or exit, with this status: */
void set_status_of_trouble(int status);

/* {"schema": 1, @key: @value} on stdout. Takes @value over. */
int print_json(const char *key, struct json_object *value);
/* The same as one line, for one of many. */
void print_json_line(const char *key, struct json_object *value);
/* A JSON string of bytes that may not be UTF-8. */
struct json_object *json_text(const char *text);

/* One line, or an object, on stderr. @err: errno, or 0. Returns EXIT_FAILED. */
int fail(const struct request *rq, int err, const char *fmt, ...) PRINTF(3, 4);
/* The same for a wrong command line. Returns EXIT_USAGE. */
int usage(const struct request *rq, const char *fmt, ...) PRINTF(2, 3);

/* ---- list.c ---- */

/* What @c shows of a record; @fields for CELL_TEXT. */
char *make_cell(const struct column *c, const struct field *fields, struct nlattr **attrs);

/* A command that lists records, as a table or as JSON. */
struct listing {
	const char *key;		/* of the list, in JSON */
	int domain_attr;
	const struct field *fields;
	const struct column *columns;
	size_t columns_n;
	void (*notes)(struct table *t, struct nlattr **attrs);	/* below a row */
	bool (*keep)(struct nlattr **attrs);	/* NULL keeps all */
};

/*
 * The command's first argument, if there is one, is a domain, which the
 * listing's attribute of the domain then is to have.
 */
int list_records(const struct request *rq, struct query query,
		 const struct listing *listing);
/* What cannot be done if that fails; 0: of all. The caller frees it. */
char *read_domain(uint64_t id);
/* The same for any query; @none, if not NULL, is said in place of an empty table. */
int list_query(const struct request *rq, const struct query *q, const char *what,
	       const char *none, const struct listing *listing);
void list_row(struct table *t, const struct listing *listing, struct nlattr **attrs);

extern const struct listing window_listing;	/* windows.c */
extern const struct listing failure_listing;	/* failures.c */
extern const struct listing limit_listing;	/* limits.c */

/* Whether so much is used that calls are soon refused. (limits.c) */
bool limit_is_near(struct nlattr **attrs);

#endif /* CAPADM_H */
