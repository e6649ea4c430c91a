/* SPDX-License-Identifier: MIT */
/* What the files of lib/observe know of each other. */
#ifndef CAPKM_LIB_OBSERVE_H
#define CAPKM_LIB_OBSERVE_H

#include <capkm/intervene.h>

#include "internal.h"

/* fault.c */

/*
 * Why something did not work, as a record and as a caller need it. What returns an
 * int and takes one returns 0, or the negative errno that is in it.
 */
struct fault {
	int rc;
	uint32_t index;			/* selection, or CAPKM_NO_INDEX */
	struct capkm_observe_why why;
	char text[384];
};

__attribute__((format(printf, 3, 4)))
int fault(struct fault *f, int rc, const char *format, ...);
int fault_no_memory(struct fault *f);
/* A budget: what would be used of it, and what it is. -EDQUOT */
int fault_limit(struct fault *f, uint32_t axis, enum capkm_bound bound,
		uint64_t used, uint64_t most);
/* What libcapkm refused. */
int fault_of(struct fault *f, const struct capkm_error *err);
/* Tells the caller, as "call: text". The fault's errno, 0 if it is none. */
int fault_tell(const struct fault *f, const char *call, struct capkm_error *err);

/* arena.c */

/* Memory that is given back at once; zeroed, aligned for everything. */
struct arena {
	struct chunk *chunks;
};

void *arena_alloc(struct arena *arena, size_t n, size_t size);
char *arena_text(struct arena *arena, const char *text, size_t len);
void arena_free(struct arena *arena);

/* A struct with the arena that what it points to is in. NULL: out of memory. */
void *box_new(size_t size);
struct arena *box_arena(void *value);
void box_free(void *value);

/* utf8.c */

/* Bytes of the character at @text, 0 if it is none. */
size_t utf8_char(const char *text);
bool utf8_is(const char *text);

/* number.c */

#define NUMBER_MAX	32u		/* bytes of a number as text, with room */
#define NUMBER_F32	17u		/* of an f32: "-0.00000123456789" */
#define NUMBER_F64	24u		/* of an f64: "-1.2345678901234567e-308" */

/*
 * The shortest decimal that is read as the same number, of those the nearest: with
 * a point or an exponent. @value is finite. Length of @text.
 */
unsigned int number_f32(char text[NUMBER_MAX], float value);
unsigned int number_f64(char text[NUMBER_MAX], double value);
/* As it is read in C, whatever the locale. */
double number_read(const char *text, bool single);

/* schema.c: structs and their JSON */

enum kind {
	KIND_BOOL, KIND_U16, KIND_U32, KIND_U64, KIND_I64, KIND_F32, KIND_F64,
	KIND_TEXT,			/* const char * */
	KIND_OPTIONAL,			/* struct capkm_observe_optional, or null */
	KIND_FIXED,			/* no member: always the text in @names */
	KIND_ENUM,			/* uint32_t, index of @names; NULL is no value */
	KIND_STRUCT,
	KIND_UNION,			/* @tag is an enum; its value says which fields */
};

struct type {
	enum kind kind;
	uint16_t size;
	uint16_t fields_len;
	uint16_t names_len;
	uint16_t tag_at;
	const struct field *fields;
	const char *const *names;
	const char *tag;
	const struct type *const *variants;	/* of a union, by its tag; NULL: none */
	const void *initial;		/* what a field that is not given has; NULL: 0 */
};

#define FIELD_LIST	(1u << 0)	/* pointer, and its length */
#define FIELD_POINTER	(1u << 1)
#define FIELD_NULL	(1u << 2)	/* may be null, which is NULL */
#define FIELD_DEFAULT	(1u << 3)	/* need not be given */
#define FIELD_COUNTED	(1u << 4)	/* null if the uint64_t at @len_at is 0 */
#define FIELD_OMIT	(1u << 5)	/* left out if it is an empty list */

struct field {
	const char *name;
	const struct type *type;
	uint16_t at;
	uint16_t len_at;
	uint16_t flags;
};

extern const struct type type_dimension, type_point, type_discovery, type_plan,
	type_selection, type_limits, type_request, type_usage, type_record,
	type_step, type_slice, type_schedule, type_axis, type_text, type_u64,
	type_u32, type_bool, type_f32, type_f64, type_phase, type_admitted, type_support,
	type_transform_kind, type_intervene_plan, type_intervene_point,
	type_intervene_discovery, type_intervene_record, type_intervene_kind,
	type_intervene_admitted, type_intervene_stage, type_dtype, type_scores, type_class;

/* encode.c */

/* Where JSON goes: to memory or, if there is none, it is only counted. */
struct sink {
	char *data;			/* for free(), NUL-terminated */
	size_t len;
	size_t size;
	uint64_t limit;			/* of a sink that counts */
	bool counts;
	bool bounds;			/* it counts the most that numbers may have */
	int rc;				/* -ENOMEM, -E2BIG (limit), -EINVAL (no name) */
};

void sink_add(struct sink *sink, const void *bytes, size_t len);
int encode(struct sink *sink, const struct type *type, const void *value);
/*
 * Can it be JSON, which can be read again? Also: nothing that is wrong there is a wrong
 * pointer later. -EINVAL, -EFBIG
 */
int encode_check(const struct type *type, const void *value, size_t max,
		 const char *what, struct fault *f);
/* The text of a whole value, for free(). */
int encode_text(const struct type *type, const void *value, char **text,
		size_t *len, struct fault *f);

/* decode.c */

/* A box with what the text says, in @value. */
int decode_box(const struct type *type, const char *text, size_t len,
	       size_t max, void **value, struct fault *f);
/* A copy, in another arena: by its text, so it has the same. */
int copy_box(const struct type *type, const void *from, void **value,
	     struct fault *f);

/* usage.c */

bool usage_add(struct capkm_usage *to, const struct capkm_usage *more);
/* More, @times over. */
bool usage_add_times(struct capkm_usage *to, const struct capkm_usage *more,
		     uint64_t times);
/* First axis on which it is more than @most, or CAPKM_AXIS_NONE. */
uint32_t usage_exceeds(const struct capkm_usage *usage,
		       const struct capkm_usage *most);
uint64_t usage_on(const struct capkm_usage *usage, uint32_t axis);
/* What the record itself costs, of a selection that observes @point (ER-14). */
int usage_of_record(const struct capkm_observe_selection *selection,
		    const struct capkm_observe_point *point,
		    struct capkm_usage *usage, struct fault *f);

/* schedule.c */

int schedule_check(const struct capkm_observe_schedule *s, struct fault *f);
int schedule_count(const struct capkm_observe_schedule *s, uint32_t phase,
		   uint64_t next, uint64_t max, uint64_t *count, uint64_t *last,
		   struct fault *f);
static inline bool schedule_has(const struct capkm_observe_schedule *s,
				uint32_t phase)
{
	return phase == CAPKM_PREFILL ? s->prefill : s->decode;
}

/* geometry.c */

struct shape {
	uint32_t rank;
	uint64_t extents[CAPKM_OBSERVE_RANK];
};

/* Extent of an axis. False: it is not known. */
int extent(const struct capkm_observe_dimension *dimension,
	   const struct capkm_observe_request *request, uint32_t phase,
	   uint64_t prediction, bool *known, uint64_t *value, struct fault *f);
int elements(const uint64_t *extents, uint32_t rank, uint64_t *n,
	     struct fault *f);
/* The shape of a point, if all of it is known. */
int resolve(const struct capkm_observe_point *point,
	    const struct capkm_observe_request *request, uint32_t phase,
	    uint64_t prediction, bool *known, struct shape *shape,
	    struct fault *f);
/* Is this a shape that the point can have? */
int validate_actual(const struct capkm_observe_point *point,
		    const struct capkm_observe_request *request, uint32_t phase,
		    uint64_t prediction, const struct shape *shape,
		    struct fault *f);
int resolve_slices(const struct capkm_observe_point *point,
		   const struct capkm_observe_selection *selection,
		   const struct shape *shape,
		   struct capkm_observe_geometry *geometry, struct fault *f);
/* Index of an axis, or -1. */
int find_axis(const struct capkm_observe_point *point, const char *name);

/* admit.c */

struct capkm_observe_admitted {
	struct capkm_observe_plan plan;
	const struct capkm_observe_point *points;	/* one for each selection */
	uint32_t points_len;
	struct capkm_observe_request request;
	char identity[CAPKM_OBSERVE_IDENTITY];
};

int admit(const struct capkm_observe_plan *plan,
	  const struct capkm_observe_discovery *discovery,
	  const struct capkm_observe_request *request,
	  struct capkm_observe_admitted **admitted, struct fault *f);
/* Admits it again: -EINVAL if that is not the same. */
int readmit(const struct capkm_observe_admitted *admitted,
	    const struct capkm_observe_discovery *discovery, struct fault *f);
int request_check(const struct capkm_observe_request *request, struct fault *f);
/* Lower-case hexadecimal SHA-256 of a text. */
void identity_of(const char *text, size_t len,
		 char identity[CAPKM_OBSERVE_IDENTITY]);

/* backend.c */

/* The caller's, checked. */
int backend_get(struct capkm_observe_backend *known,
		const struct capkm_observe_backend *given, const char *call,
		struct capkm_error *err);
int backend_ready(const struct capkm_observe_backend *b, const void *tensor,
		  struct fault *f);
int backend_describe(const struct capkm_observe_backend *b, const void *tensor,
		     struct shape *shape, uint32_t *dtype, struct fault *f);
int backend_estimate(const struct capkm_observe_backend *b,
		     const struct capkm_observe_geometry *geometry,
		     struct capkm_usage *usage, struct fault *f);
int backend_transform(const struct capkm_observe_backend *b, const void *tensor,
		      const struct capkm_observe_geometry *geometry,
		      struct capkm_observe_payload *payload, struct fault *f);

/* Makes another tensor, for backend_release(). */
int backend_apply(const struct capkm_observe_backend *b, const void *tensor,
		  const struct capkm_observe_geometry *geometry,
		  const struct capkm_intervene_action *action, void **out,
		  struct fault *f);
void backend_release(const struct capkm_observe_backend *b, void *tensor);
int backend_estimate_routes(const struct capkm_observe_backend *b,
			    const struct capkm_intervene_point *point,
			    uint64_t rows, struct capkm_usage *usage,
			    struct fault *f);

/* preflight.c */

int preflight(const struct capkm_observe_admitted *admitted,
	      const struct capkm_intervene_admitted *interventions,
	      const struct capkm_observe_backend *backend, uint64_t next,
	      const struct capkm_usage *inherited, struct fault *f);

#endif /* CAPKM_LIB_OBSERVE_H */
