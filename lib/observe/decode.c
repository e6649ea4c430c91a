// SPDX-License-Identifier: MIT
/*
 * A struct from JSON, by its table. Values are json-c's to read; where they are in the
 * text is known here, so an error can say in which line, a field that is given twice is
 * seen, and a number is what is written, whatever its size.
 */
#include "observe.h"

#include <ctype.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH		32	/* of what is skipped */
#define PATH		16	/* of what is read: tables are not deeper */

struct place {
	const char *name;
	uint32_t index;
};

struct decoder {
	const char *text;
	size_t len;
	size_t at;
	struct arena *arena;
	struct json_tokener *tokener;
	struct fault *f;
	struct place path[PATH];
	unsigned int depth;
};

static unsigned int line_of(const struct decoder *d, size_t at)
{
	unsigned int line = 1;
	size_t i;

	for (i = 0; i < at && i < d->len; i++)
		line += d->text[i] == '\n';
	return line;
}

/* "line 7, selections[2].schedule.every: ..." */
__attribute__((format(printf, 3, 4)))
static int wrong(struct decoder *d, size_t at, const char *format, ...)
{
	char where[160] = "", why[200];
	struct text t = { .data = where, .size = sizeof(where) };
	va_list args;
	unsigned int i;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	for (i = 0; i < d->depth; i++) {
		if (d->path[i].name)
			capkm_text_add(&t, "%s%s", i ? "." : ", ",
				       d->path[i].name);
		else
			capkm_text_add(&t, "[%" PRIu32 "]", d->path[i].index);
	}
	return fault(d->f, -EINVAL, "line %u%s: %s", line_of(d, at), where, why);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct decoder *d)
{
	while (d->at < d->len && is_space(d->text[d->at]))
		d->at++;
}

/* The next character that is not space; NUL at the end. */
static char peek(struct decoder *d)
{
	skip_space(d);
	return d->at < d->len ? d->text[d->at] : '\0';
}

static int expect(struct decoder *d, char c, const char *what)
{
	if (peek(d) != c)
		return wrong(d, d->at, "%s%s", what,
			     d->at >= d->len ? ", not the end of the text" : "");
	d->at++;
	return 0;
}

/* The next value, of any kind, and where it begins and ends. */
static int any(struct decoder *d, struct json_object **value, size_t *start)
{
	size_t rest, used;
	enum json_tokener_error error;

	*start = (skip_space(d), d->at);
	rest = d->len - d->at;
	json_tokener_reset(d->tokener);
	*value = json_tokener_parse_ex(d->tokener, d->text + d->at,
				       rest < INT_MAX ? (int)rest : INT_MAX);
	error = json_tokener_get_error(d->tokener);
	used = json_tokener_get_parse_end(d->tokener);
	if (error != json_tokener_success) {
		json_object_put(*value);
		*value = NULL;
		return wrong(d, d->at + used, "%s",
			     error == json_tokener_continue ?
			     "the text ends too early" :
			     json_tokener_error_desc(error));
	}
	if (!*value && d->text[*start] != 'n')
		return fault_no_memory(d->f);
	/* It also takes the space behind. */
	for (d->at += used; is_space(d->text[d->at - 1]); d->at--)
		;
	return 0;
}

static int skip(struct decoder *d)
{
	struct json_object *value;
	size_t start;
	int rc = any(d, &value, &start);

	json_object_put(value);
	return rc;
}

static unsigned int hex4(const char *p)
{
	unsigned int v = 0;
	int i;

	for (i = 0; i < 4; i++)
		v = v << 4 | (isdigit((unsigned char)p[i]) ? (unsigned int)p[i] - '0' :
			      (unsigned int)(p[i] | 0x20) - 'a' + 10);
	return v;
}

/* Bytes of the escape at @p, whose length in the text is in *@len; 0: half a pair. */
static size_t escaped(const char *p, const char *end, size_t *len)
{
	unsigned int c;

	*len = 2;
	if (p[1] != 'u')
		return 1;
	*len = 6;
	c = hex4(p + 2);
	if (c < 0x80)
		return 1;
	if (c < 0x800)
		return 2;
	if (c < 0xd800 || c > 0xdfff)
		return 3;
	*len = 12;
	return c < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u' &&
	       hex4(p + 8) >= 0xdc00 && hex4(p + 8) <= 0xdfff ? 4 : 0;
}

/* Bytes of the text between the quotes, as it is meant; SIZE_MAX: half a pair. */
static size_t text_len(const char *p, const char *end)
{
	size_t len = 0, some, n;

	for (; p < end; p += n) {
		some = n = 1;
		if (*p == '\\')
			some = escaped(p, end, &n);
		if (!some)
			return SIZE_MAX;
		len += some;
	}
	return len;
}

/*
 * json-c takes more for a text than JSON does. And 0.16 does not say when it had no
 * memory: then there is less of the text.
 */
static int is_text(struct decoder *d, struct json_object *value, size_t start)
{
	const size_t len = text_len(d->text + start + 1, d->text + d->at - 1);
	size_t i;

	if (len == SIZE_MAX)
		return wrong(d, start, "a text must not contain half a surrogate pair");
	if ((size_t)json_object_get_string_len(value) != len)
		return fault_no_memory(d->f);
	for (i = start; i < d->at; i++)
		if ((unsigned char)d->text[i] < 0x20)
			return wrong(d, i, "a control character in a text must be escaped");
	if ((size_t)json_object_get_string_len(value) !=
	    strlen(json_object_get_string(value)))
		return wrong(d, start, "a text must not contain \\u0000");
	if (!utf8_is(json_object_get_string(value)))
		return wrong(d, start, "a text must be UTF-8");
	return 0;
}

static int text(struct decoder *d, const char **out, const char *what)
{
	struct json_object *value;
	size_t start;
	int rc;

	if (peek(d) != '"')
		return wrong(d, d->at, "must be %s", what);
	rc = any(d, &value, &start);
	if (rc)
		return rc;
	rc = is_text(d, value, start);
	if (!rc) {
		*out = arena_text(d->arena, json_object_get_string(value),
				  (size_t)json_object_get_string_len(value));
		if (!*out)
			rc = fault_no_memory(d->f);
	}
	json_object_put(value);
	return rc;
}

/* The characters of a number. False: it is none. */
static bool number(struct decoder *d, char out[64], int *rc)
{
	struct json_object *value;
	const char *digits;
	size_t start, len;
	char c = peek(d);

	*rc = 0;
	if (c != '-' && (c < '0' || c > '9'))
		return false;
	*rc = any(d, &value, &start);
	if (*rc)
		return false;
	json_object_put(value);
	len = d->at - start;
	if (len >= 64)
		return false;
	memcpy(out, d->text + start, len);
	out[len] = '\0';
	/* json-c takes "1." and "00" */
	digits = out + (c == '-');
	return isdigit((unsigned char)out[len - 1]) && !strstr(out, ".e") &&
	       !strstr(out, ".E") &&
	       !(digits[0] == '0' && isdigit((unsigned char)digits[1]));
}

static int integer(struct decoder *d, uint64_t max, uint64_t *out)
{
	char digits[64];
	size_t start = (skip_space(d), d->at);
	char *end;
	int rc;

	if (number(d, digits, &rc) && *digits != '-') {
		errno = 0;
		*out = strtoull(digits, &end, 10);
		if (!*end && !errno && *out <= max)
			return 0;
	}
	return rc ? rc : wrong(d, start, "must be a whole number from 0 to %" PRIu64,
			       max);
}

static int negative(struct decoder *d, int64_t *out)
{
	char digits[64];
	size_t start = (skip_space(d), d->at);
	char *end;
	int rc;

	if (number(d, digits, &rc)) {
		errno = 0;
		*out = strtoll(digits, &end, 10);
		if (!*end && !errno)
			return 0;
	}
	return rc ? rc : wrong(d, start, "must be a whole number of 64 bits");
}

static int special(struct decoder *d, double *out)
{
	size_t start = d->at;
	const char *name;
	int rc = text(d, &name, "a number");

	if (rc)
		return rc;
	if (!strcmp(name, "nan"))
		*out = NAN;
	else if (!strcmp(name, "+inf"))
		*out = INFINITY;
	else if (!strcmp(name, "-inf"))
		*out = -INFINITY;
	else
		return wrong(d, start, "must be a number, \"nan\", \"+inf\" or \"-inf\"");
	return 0;
}

static int floating(struct decoder *d, bool single, double *out)
{
	char digits[64];
	size_t start = (skip_space(d), d->at);
	int rc;

	if (peek(d) == '"')
		return special(d, out);
	if (!number(d, digits, &rc))
		return rc ? rc : wrong(d, start, "must be a number");
	*out = number_read(digits, single);
	if (isinf(*out))
		return wrong(d, start, "is too large for a number of %d bits",
			     single ? 32 : 64);
	return 0;
}

static int literal(struct decoder *d, const char *word)
{
	const size_t len = strlen(word);

	if (d->len - d->at < len || memcmp(d->text + d->at, word, len))
		return -EINVAL;
	d->at += len;
	return 0;
}

static bool is_null(struct decoder *d)
{
	return peek(d) == 'n' && !literal(d, "null");
}

static int boolean(struct decoder *d, bool *out)
{
	*out = peek(d) == 't';
	if (literal(d, *out ? "true" : "false"))
		return wrong(d, d->at, "must be true or false");
	return 0;
}

static int one_of(struct decoder *d, const struct type *type, uint32_t *out)
{
	size_t start = (skip_space(d), d->at);
	char names[128] = "";
	struct text t = { .data = names, .size = sizeof(names) };
	const char *name;
	uint32_t i;
	int rc = text(d, &name, "a text");

	if (rc)
		return rc;
	for (i = 0; i < type->names_len; i++)
		if (type->names[i] && !strcmp(type->names[i], name)) {
			*out = i;
			return 0;
		}
	for (i = 0; i < type->names_len; i++)
		if (type->names[i])
			capkm_text_add(&t, "%s%s", t.len ? ", " : "",
				       type->names[i]);
	return wrong(d, start, "\"%.40s\" is none of %s", name, names);
}

static int decode(struct decoder *d, const struct type *type, char *out);

static int push(struct decoder *d, const char *name, uint32_t index)
{
	if (d->depth == PATH)
		return wrong(d, d->at, "is too deep");
	d->path[d->depth++] = (struct place){ name, index };
	return 0;
}

/* What a list has grown out of stays in the arena. */
static int grow(struct decoder *d, const struct type *type, char **list,
		uint32_t len, uint32_t *room)
{
	uint32_t more = *room ? *room * 2 : 4;
	char *larger = more > *room ?
		       arena_alloc(d->arena, more, type->size) : NULL;

	if (!larger)
		return fault_no_memory(d->f);
	if (len)
		memcpy(larger, *list, (size_t)len * type->size);
	*list = larger;
	*room = more;
	return 0;
}

static int list(struct decoder *d, const struct field *field, char *out)
{
	const struct type *type = field->type;
	uint32_t len = 0, room = 0;
	char *items = NULL;
	int rc = expect(d, '[', "must be a list");

	if (!rc && peek(d) == ']') {
		d->at++;
		items = arena_alloc(d->arena, 0, 1);
		rc = items ? 0 : fault_no_memory(d->f);
	} else {
		while (!rc) {
			if (len == room)
				rc = grow(d, type, &items, len, &room);
			if (!rc)
				rc = push(d, NULL, len);
			if (rc)
				return rc;
			rc = decode(d, type, items + (size_t)len * type->size);
			if (rc)
				return rc;
			d->depth--;
			len++;
			if (peek(d) != ',') {
				rc = expect(d, ']', "a list goes on with \",\" or ends with \"]\"");
				break;
			}
			d->at++;
		}
	}
	if (rc)
		return rc;
	memcpy(out + field->at, &items, sizeof(items));
	memcpy(out + field->len_at, &len, sizeof(len));
	return 0;
}

static int pointer(struct decoder *d, const struct field *field, char *out)
{
	void *p = arena_alloc(d->arena, 1, field->type->size);

	if (!p)
		return fault_no_memory(d->f);
	memcpy(out + field->at, &p, sizeof(p));
	return decode(d, field->type, p);
}

/* A number that is not there: whether it should be is looked at later. */
static int absent(const struct type *type, void *out)
{
	if (type->kind == KIND_F32)
		*(float *)out = NAN;
	else
		*(double *)out = NAN;
	return 0;
}

static int decode_field(struct decoder *d, const struct field *field, char *out)
{
	if ((field->flags & FIELD_NULL) && is_null(d))
		return 0;
	if ((field->flags & FIELD_COUNTED) && is_null(d))
		return absent(field->type, out + field->at);
	if (field->flags & FIELD_LIST)
		return list(d, field, out);
	if (field->flags & FIELD_POINTER)
		return pointer(d, field, out);
	return decode(d, field->type, out + field->at);
}

static bool may_miss(const struct field *field)
{
	return (field->flags & (FIELD_DEFAULT | FIELD_NULL | FIELD_OMIT)) ||
	       field->type->kind == KIND_OPTIONAL;
}

static int no_such_field(struct decoder *d, size_t at, const char *name,
			 const struct type *type, const char *tag)
{
	char names[160] = "";
	struct text t = { .data = names, .size = sizeof(names) };
	uint16_t i;

	if (tag)
		capkm_text_add(&t, "%s", tag);
	for (i = 0; i < type->fields_len; i++)
		capkm_text_add(&t, "%s%s", t.len ? ", " : "",
			       type->fields[i].name);
	return wrong(d, at, "there is no field \"%.40s\" here%s%s", name,
		     t.len ? ", only " : "", names);
}

/* One "name": value; @seen has a bit for each field. */
static int member(struct decoder *d, const struct type *type, const char *tag,
		  char *out, uint32_t *seen)
{
	const uint32_t tag_bit = 1u << 31;
	const char *name;
	size_t start = (skip_space(d), d->at);
	uint32_t bit;
	uint16_t i;
	int rc;

	rc = text(d, &name, "the name of a field");
	if (!rc)
		rc = expect(d, ':', "a \":\" follows the name of a field");
	if (rc)
		return rc;
	for (i = 0; i < type->fields_len; i++)
		if (!strcmp(type->fields[i].name, name))
			break;
	if (i < type->fields_len)
		bit = 1u << i;
	else if (tag && !strcmp(tag, name))
		bit = tag_bit;
	else
		return no_such_field(d, start, name, type, tag);
	if (*seen & bit)
		return wrong(d, start, "the field \"%s\" is given twice", name);
	*seen |= bit;
	if (bit == tag_bit)
		return skip(d);
	rc = push(d, type->fields[i].name, 0);
	if (!rc)
		rc = decode_field(d, &type->fields[i], out);
	if (!rc)
		d->depth--;
	return rc;
}

static int fields(struct decoder *d, const struct type *type, const char *tag,
		  char *out)
{
	size_t start = (skip_space(d), d->at);
	uint32_t seen = 0;
	uint16_t i;
	int rc = expect(d, '{', "must be an object");

	if (rc)
		return rc;
	if (peek(d) == '}') {
		d->at++;
	} else {
		for (;;) {
			rc = member(d, type, tag, out, &seen);
			if (rc)
				return rc;
			if (peek(d) != ',')
				break;
			d->at++;
		}
		rc = expect(d, '}', "an object goes on with \",\" or ends with \"}\"");
		if (rc)
			return rc;
	}
	for (i = 0; i < type->fields_len; i++)
		if (!(seen & (1u << i)) && !may_miss(&type->fields[i]))
			return wrong(d, start, "the field \"%s\" is missing",
				     type->fields[i].name);
	return 0;
}

/* The tag may be anywhere: the first time only it is looked for. */
static int tag_of(struct decoder *d, const struct type *type, uint32_t *index)
{
	const size_t start = (skip_space(d), d->at);
	const char *name;
	int rc = expect(d, '{', "must be an object");

	while (!rc && peek(d) != '}') {
		rc = text(d, &name, "the name of a field");
		if (!rc)
			rc = expect(d, ':', "a \":\" follows the name of a field");
		if (rc)
			return rc;
		if (!strcmp(name, type->tag)) {
			rc = push(d, type->tag, 0);
			if (!rc)
				rc = one_of(d, type, index);
			if (!rc)
				d->depth--;
			d->at = start;
			return rc;
		}
		rc = skip(d);
		if (!rc && peek(d) == ',')
			d->at++;
	}
	return rc ? rc : wrong(d, start, "the field \"%s\" is missing", type->tag);
}

static int decode_union(struct decoder *d, const struct type *type, char *out)
{
	uint32_t index;
	int rc = tag_of(d, type, &index);

	if (rc)
		return rc;
	memcpy(out + type->tag_at, &index, sizeof(index));
	return fields(d, type->variants[index], type->tag, out);
}

static int fixed(struct decoder *d, const struct type *type)
{
	uint32_t index;

	return one_of(d, type, &index);
}

static int decode(struct decoder *d, const struct type *type, char *out)
{
	struct capkm_observe_optional *optional = (void *)out;
	double real;
	uint64_t n;
	int rc;

	switch (type->kind) {
	case KIND_BOOL:
		return boolean(d, (bool *)out);
	case KIND_U16:
		rc = integer(d, UINT16_MAX, &n);
		if (!rc)
			*(uint16_t *)out = (uint16_t)n;
		return rc;
	case KIND_U32:
		rc = integer(d, UINT32_MAX, &n);
		if (!rc)
			*(uint32_t *)out = (uint32_t)n;
		return rc;
	case KIND_U64:
		return integer(d, UINT64_MAX, (uint64_t *)out);
	case KIND_I64:
		return negative(d, (int64_t *)out);
	case KIND_F32:
		rc = floating(d, true, &real);
		if (!rc)
			*(float *)out = (float)real;
		return rc;
	case KIND_F64:
		return floating(d, false, (double *)out);
	case KIND_TEXT:
		return text(d, (const char **)out, "a text");
	case KIND_OPTIONAL:
		optional->present = !is_null(d);
		return optional->present ?
		       integer(d, UINT64_MAX, &optional->value) : 0;
	case KIND_FIXED:
		return fixed(d, type);
	case KIND_ENUM:
		return one_of(d, type, (uint32_t *)out);
	case KIND_UNION:
		return decode_union(d, type, out);
	case KIND_STRUCT:
		if (type->initial)
			memcpy(out, type->initial, type->size);
		return fields(d, type, NULL, out);
	}
	return fault(d->f, -EINVAL, "no such type");
}

int decode_box(const struct type *type, const char *json, size_t len,
	       size_t max, void **value, struct fault *f)
{
	struct decoder d = { .text = json, .len = len, .f = f };
	void *box;
	int rc;

	if (len > max)
		return fault(f, -EFBIG, "%zu bytes of JSON; at most %zu are read",
			     len, max);
	box = box_new(type->size);
	d.tokener = json_tokener_new_ex(DEPTH);
	if (!box || !d.tokener) {
		rc = fault_no_memory(f);
	} else {
		json_tokener_set_flags(d.tokener, JSON_TOKENER_STRICT |
				       JSON_TOKENER_ALLOW_TRAILING_CHARS |
				       JSON_TOKENER_VALIDATE_UTF8);
		d.arena = box_arena(box);
		rc = decode(&d, type, box);
		if (!rc && (skip_space(&d), d.at < d.len))
			rc = wrong(&d, d.at, "there is more text after its end");
	}
	if (d.tokener)
		json_tokener_free(d.tokener);
	if (rc)
		box_free(box);
	else
		*value = box;
	return rc;
}

int copy_box(const struct type *type, const void *from, void **value,
	     struct fault *f)
{
	char *json;
	size_t len;
	int rc = encode_text(type, from, &json, &len, f);

	if (rc)
		return rc;
	rc = decode_box(type, json, len, SIZE_MAX, value, f);
	free(json);
	return rc;
}
