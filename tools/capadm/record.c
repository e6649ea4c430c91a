// SPDX-License-Identifier: GPL-2.0-only
/* Attributes of a netlink record, by table, as JSON and as text for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capadm.h"

uint64_t get_number(struct nlattr *attr)
{
	const int n = attr ? nla_len(attr) : 0;

	if (n >= (int)sizeof(uint64_t))
		return nla_get_u64(attr);
	return n >= (int)sizeof(uint32_t) ? nla_get_u32(attr) : 0;
}

const char *get_text(struct nlattr *attr)
{
	if (!attr || nla_len(attr) < 1 ||
	    ((char *)nla_data(attr))[nla_len(attr) - 1])
		return "";
	return nla_get_string(attr);
}

static char *uuid_text(struct nlattr *attr)
{
	const uint8_t *u;
	char hex[2 * 16 + 1];
	int i;

	if (!attr || nla_len(attr) != 16)
		return NULL;
	u = nla_data(attr);
	for (i = 0; i < 16; i++)
		sprintf(hex + 2 * i, "%02x", u[i]);
	return format("%.8s-%.4s-%.4s-%.4s-%s", hex, hex + 8, hex + 12,
		      hex + 16, hex + 20);
}

/* A value that a newer module knows and we do not keeps its number. */
static char *enum_text(const struct field *f, uint64_t v)
{
	uint64_t i;

	for (i = 0; f->names[i]; i++)
		if (i == v && *f->names[i])
			return format("%s", f->names[i]);
	return format("%s-%" PRIu64, f->key, v);
}

static const char *flag_name(const struct field *f, unsigned int bit, char *spare)
{
	unsigned int i;

	for (i = 0; f->names[i]; i++)
		if (i == bit && *f->names[i])
			return f->names[i];
	sprintf(spare, "bit-%u", bit);
	return spare;
}

static char *flags_text(const struct field *f, uint64_t v)
{
	char spare[16], *s = format("%s", "");
	unsigned int bit;

	for (bit = 0; bit < 64; bit++) {
		char *more;

		if (!(v >> bit & 1))
			continue;
		more = format("%s%s%s", s, *s ? "," : "", flag_name(f, bit, spare));
		free(s);
		s = more;
	}
	return s;
}

static struct json_object *flags_json(const struct field *f, uint64_t v)
{
	struct json_object *list = must(json_object_new_array());
	char spare[16];
	unsigned int bit;

	for (bit = 0; bit < 64; bit++)
		if (v >> bit & 1)
			json_object_array_add(list, json_text(flag_name(f, bit, spare)));
	return list;
}

static struct json_object *nested_json(const struct field *f,
				       struct nlattr *attr)
{
	struct nlattr *attrs[ATTR_MAX + 1];

	if (!attr || nla_parse_nested(attrs, ATTR_MAX, attr, NULL) < 0)
		return NULL;
	attrs[0] = attr;
	return record_json(f->fields, attrs);
}

static struct json_object *list_json(const struct field *f, struct nlattr *all)
{
	struct json_object *list = must(json_object_new_array());
	struct nlattr *attr;
	int rest;

	if (!all)
		return list;
	nla_for_each_nested(attr, all, rest)
		if (nla_type(attr) == f->attr)
			json_object_array_add(list, nested_json(f, attr));
	return list;
}

/* Zeros inside become U+FFFD, those at the end nothing. */
static struct json_object *bytes_json(struct nlattr *attr)
{
	int i, len = attr ? nla_len(attr) : 0;
	struct json_object *j;
	char *s = must(malloc(len + 1));

	memcpy(s, attr ? nla_data(attr) : "", len);
	while (len && !s[len - 1])
		len--;
	s[len] = 0;
	for (i = 0; i < len; i++)
		if (!s[i])
			s[i] = '\xff';
	j = json_text(s);
	free(s);
	return j;
}

/* Takes @text over; NULL is JSON's null. */
static struct json_object *own_text(char *text)
{
	struct json_object *j = text ? json_text(text) : NULL;

	free(text);
	return j;
}

static struct json_object *field_json(const struct field *f, struct nlattr **attrs)
{
	struct nlattr *attr = attrs[f->attr];
	uint64_t v;

	switch (f->type) {
	case FIELD_TEXT:
		return json_text(get_text(attr));
	case FIELD_BYTES:
		return bytes_json(attr);
	case FIELD_UUID:
		return own_text(uuid_text(attr));
	case FIELD_RECORD:
		return nested_json(f, attr);
	case FIELD_LIST:
		return list_json(f, attrs[0]);
	default:
		break;
	}

	if (!attr)	/* an older module does not know it */
		return NULL;
	v = get_number(attr);
	switch (f->type) {
	case FIELD_SIGNED:
		return must(json_object_new_int((int32_t)v));
	case FIELD_BOOL:
		return must(json_object_new_boolean(v != 0));
	case FIELD_MODE:
		return own_text(format("%04o", (unsigned int)v));
	case FIELD_ENUM:
		return own_text(enum_text(f, v));
	case FIELD_FLAGS:
		return flags_json(f, v);
	default:
		return must(json_object_new_uint64(v));
	}
}

struct json_object *record_json(const struct field *fields,
				struct nlattr **attrs)
{
	struct json_object *j = must(json_object_new_object());
	const struct field *f;

	for (f = fields; f->key; f++)
		json_object_object_add(j, f->key, field_json(f, attrs));
	return j;
}

char *field_text(const struct field *fields, int attr, struct nlattr **attrs)
{
	const struct field *f = fields;
	uint64_t v = 0;

	while (f->attr != attr)
		f++;
	if (f->type != FIELD_TEXT && f->type != FIELD_UUID)
		v = get_number(attrs[attr]);
	switch (f->type) {
	case FIELD_TEXT:
		return escape(get_text(attrs[attr]));
	case FIELD_UUID:
		return attrs[attr] ? uuid_text(attrs[attr]) : format("host");
	case FIELD_SIGNED:
		return format("%" PRId32, (int32_t)v);
	case FIELD_MODE:
		return format("%04o", (unsigned int)v);
	case FIELD_ENUM:
		return enum_text(f, v);
	case FIELD_FLAGS:
		return flags_text(f, v);
	default:
		return format_count(v);
	}
}
