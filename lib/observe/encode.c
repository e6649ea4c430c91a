// SPDX-License-Identifier: MIT
/* Compact JSON of a struct, by its table. */
#include "observe.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void sink_count(struct sink *sink, size_t len)
{
	if (sink->rc)
		return;
	if (len > sink->limit - sink->len || len > SIZE_MAX - sink->len)
		sink->rc = -E2BIG;
	else
		sink->len += len;
}

void sink_add(struct sink *sink, const void *bytes, size_t len)
{
	size_t size;
	char *data;

	if (sink->rc)
		return;
	if (sink->counts) {
		sink_count(sink, len);
		return;
	}
	if (len >= sink->size - sink->len) {
		if (__builtin_add_overflow(sink->size, len, &size) ||
		    __builtin_mul_overflow(size, 2, &size) ||
		    __builtin_add_overflow(size, 64, &size)) {
			sink->rc = -ENOMEM;
			return;
		}
		data = realloc(sink->data, size);
		if (!data) {
			sink->rc = -ENOMEM;
			return;
		}
		sink->data = data;
		sink->size = size;
	}
	memcpy(sink->data + sink->len, bytes, len);
	sink->len += len;
	sink->data[sink->len] = '\0';
}

static void add(struct sink *sink, const char *text)
{
	sink_add(sink, text, strlen(text));
}

static void add_text(struct sink *sink, const char *text)
{
	static const char plain[] = "\b\f\n\r\t\"\\";
	static const char letter[] = "bfnrt\"\\";
	const char *run = text, *found;
	char escape[8];

	if (!utf8_is(text)) {
		sink->rc = sink->rc ? sink->rc : -EINVAL;
		return;
	}
	add(sink, "\"");
	for (; *text; text++) {
		found = strchr(plain, *text);
		if (!found && (unsigned char)*text >= 0x20)
			continue;
		sink_add(sink, run, (size_t)(text - run));
		run = text + 1;
		if (found)
			snprintf(escape, sizeof(escape), "\\%c",
				 letter[found - plain]);
		else
			snprintf(escape, sizeof(escape), "\\u%04x",
				 (unsigned char)*text);
		add(sink, escape);
	}
	sink_add(sink, run, (size_t)(text - run));
	add(sink, "\"");
}

static void add_u64(struct sink *sink, uint64_t value)
{
	char text[NUMBER_MAX];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	add(sink, text);
}

static void add_float(struct sink *sink, double value, bool single)
{
	char text[NUMBER_MAX];

	if (sink->rc)
		return;
	if (sink->bounds) {
		sink_count(sink, single ? NUMBER_F32 : NUMBER_F64);
	} else if (isnan(value)) {
		add(sink, "\"nan\"");
	} else if (isinf(value)) {
		add(sink, value > 0 ? "\"+inf\"" : "\"-inf\"");
	} else {
		sink_add(sink, text, single ? number_f32(text, (float)value) :
					      number_f64(text, value));
	}
}

static void add_value(struct sink *sink, const struct type *type,
		      const void *value);

static const char *name_of(const struct type *type, const void *at)
{
	uint32_t index;

	memcpy(&index, at, sizeof(index));
	return index < type->names_len ? type->names[index] : NULL;
}

/* There may be no name for what the caller gave. */
static void add_name(struct sink *sink, const struct type *type, const void *at)
{
	const char *name = name_of(type, at);

	if (name)
		add_text(sink, name);
	else if (!sink->rc)
		sink->rc = -EINVAL;
}

/* Most bytes of a number; 0: it is none. */
static size_t most_of(const struct type *type)
{
	switch (type->kind) {
	case KIND_F32:
		return NUMBER_F32;
	case KIND_F64:
		return NUMBER_F64;
	case KIND_U64:
	case KIND_I64:
		return sizeof("18446744073709551615") - 1;
	case KIND_BOOL:
		return sizeof("false") - 1;
	default:
		return 0;
	}
}

static void add_list(struct sink *sink, const struct field *field,
		     const char *list, uint32_t len)
{
	const size_t most = sink->bounds ? most_of(field->type) : 0;
	uint32_t i;

	/* All at once: there may be millions. */
	if (most && len <= SIZE_MAX / (most + 1) - 1) {
		sink_count(sink, 2 + len * (most + 1));
		return;
	}
	add(sink, "[");
	for (i = 0; i < len; i++) {
		if (i)
			add(sink, ",");
		add_value(sink, field->type, list + (size_t)i * field->type->size);
	}
	add(sink, "]");
}

static void add_field(struct sink *sink, const struct field *field,
		      const char *value)
{
	const char *at = value + field->at;
	const void *pointer;
	uint64_t count;
	uint32_t len;

	if (field->flags & FIELD_COUNTED) {
		memcpy(&count, value + field->len_at, sizeof(count));
		if (!count) {
			add(sink, "null");
			return;
		}
	}
	if (!(field->flags & (FIELD_LIST | FIELD_POINTER))) {
		add_value(sink, field->type, at);
		return;
	}
	memcpy(&pointer, at, sizeof(pointer));
	if (!pointer && (field->flags & FIELD_NULL)) {
		add(sink, "null");
	} else if (field->flags & FIELD_POINTER) {
		add_value(sink, field->type, pointer);
	} else {
		memcpy(&len, value + field->len_at, sizeof(len));
		if (pointer || !len)
			add_list(sink, field, pointer, len);
		else if (!sink->rc)
			sink->rc = -EINVAL;
	}
}

static bool is_omitted(const struct field *field, const char *value)
{
	uint32_t len;

	if (!(field->flags & FIELD_OMIT))
		return false;
	memcpy(&len, value + field->len_at, sizeof(len));
	return !len;
}

static void add_fields(struct sink *sink, const struct type *type,
		       const char *value, bool first)
{
	uint16_t i;

	for (i = 0; i < type->fields_len; i++) {
		if (is_omitted(&type->fields[i], value))
			continue;
		if (!first)
			add(sink, ",");
		first = false;
		add_text(sink, type->fields[i].name);
		add(sink, ":");
		add_field(sink, &type->fields[i], value);
	}
}

static void add_union(struct sink *sink, const struct type *type,
		      const char *value)
{
	const void *at = value + type->tag_at;
	uint32_t index;

	add(sink, "{");
	add_text(sink, type->tag);
	add(sink, ":");
	add_name(sink, type, at);
	if (sink->rc)
		return;
	memcpy(&index, at, sizeof(index));
	add_fields(sink, type->variants[index], value, false);
	add(sink, "}");
}

static void add_value(struct sink *sink, const struct type *type,
		      const void *value)
{
	const struct capkm_observe_optional *optional = value;
	const char *text;
	char number[NUMBER_MAX];

	if (sink->rc)
		return;
	switch (type->kind) {
	case KIND_BOOL:
		add(sink, *(const bool *)value ? "true" : "false");
		break;
	case KIND_U16:
		add_u64(sink, *(const uint16_t *)value);
		break;
	case KIND_U32:
		add_u64(sink, *(const uint32_t *)value);
		break;
	case KIND_U64:
		add_u64(sink, *(const uint64_t *)value);
		break;
	case KIND_I64:
		snprintf(number, sizeof(number), "%" PRId64,
			 *(const int64_t *)value);
		add(sink, number);
		break;
	case KIND_F32:
		add_float(sink, (double)*(const float *)value, true);
		break;
	case KIND_F64:
		add_float(sink, *(const double *)value, false);
		break;
	case KIND_TEXT:
		memcpy(&text, value, sizeof(text));
		if (text)
			add_text(sink, text);
		else
			sink->rc = -EINVAL;
		break;
	case KIND_OPTIONAL:
		if (optional->present)
			add_u64(sink, optional->value);
		else
			add(sink, "null");
		break;
	case KIND_FIXED:
		add_text(sink, type->names[0]);
		break;
	case KIND_ENUM:
		add_name(sink, type, value);
		break;
	case KIND_STRUCT:
		add(sink, "{");
		add_fields(sink, type, value, true);
		add(sink, "}");
		break;
	case KIND_UNION:
		add_union(sink, type, value);
		break;
	}
}

int encode(struct sink *sink, const struct type *type, const void *value)
{
	add_value(sink, type, value);
	return sink->rc;
}

static int no_json(int rc, const char *what, struct fault *f)
{
	return rc == -ENOMEM ? fault_no_memory(f) :
		fault(f, rc, "%s: a text or list is NULL, a text is not UTF-8, or a kind is none of its enumeration",
		      what);
}

int encode_check(const struct type *type, const void *value, size_t max,
		 const char *what, struct fault *f)
{
	struct sink sink = { .counts = true, .limit = max };
	int rc = encode(&sink, type, value);

	if (rc == -E2BIG)
		return fault(f, -EFBIG, "%s is more than %zu bytes of JSON, with all its defaults",
			     what, max);
	return rc ? no_json(rc, what, f) : 0;
}

int encode_text(const struct type *type, const void *value, char **text,
		size_t *len, struct fault *f)
{
	struct sink sink = { 0 };
	int rc = encode(&sink, type, value);

	if (rc) {
		free(sink.data);
		return no_json(rc, "what is to be JSON", f);
	}
	*text = sink.data;
	if (len)
		*len = sink.len;
	return 0;
}
