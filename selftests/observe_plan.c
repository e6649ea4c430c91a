// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans, and what is admitted: JSON to the byte and back, schedules against a brute
 * enumeration, geometry, identities, forecasts, numbers against what libc reads. No
 * authority is asked.
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <locale.h>
#include <math.h>

#include <capkm/observe.h>

#include "calls.h"
#include "fail_alloc.h"

#define MAX	UINT64_MAX
#define NOTHING	((void *)&err)		/* a pointer that must stay as it is */

/* ------------------------------------------------------------ what there is */

#define ALL_KINDS "[\"preview\",\"slice\",\"full_tensor\",\"summary\",\"histogram\",\"top_candidates\"]"

static const char discovery_json[] =
"{\"artifact_identity\":\"tiny-1\",\"catalog\":{\"schema_version\":1,\"points\":["
"{\"path\":\"block.output\",\"node_id\":\"block\",\"meaning\":\"output of the block\",\"value_type\":\"tensor\",\"dtype\":\"floating\",\"axes\":["
"{\"name\":\"token\",\"dimension\":{\"kind\":\"sequence\"}},{\"name\":\"feature\",\"dimension\":{\"kind\":\"known\",\"value\":4}}],"
"\"prefill\":true,\"decode\":true,\"requirements\":[\"activation_hooks\"],\"position\":\"read_only\",\"retained_bytes\":null,\"host_bytes\":4096},"
"{\"path\":\"model.logits\",\"node_id\":\"head\",\"meaning\":\"logits\",\"value_type\":\"tensor\",\"dtype\":\"floating\",\"axes\":["
"{\"name\":\"batch\",\"dimension\":{\"kind\":\"batch\"}},{\"name\":\"vocabulary\",\"dimension\":{\"kind\":\"known\",\"value\":8}}],"
"\"prefill\":true,\"decode\":true,\"requirements\":[],\"position\":\"after_intervention\",\"retained_bytes\":null,\"host_bytes\":null},"
"{\"path\":\"attention.scores\",\"node_id\":\"attention\",\"meaning\":\"scores\",\"value_type\":\"tensor\",\"dtype\":\"floating\",\"axes\":["
"{\"name\":\"row\",\"dimension\":{\"kind\":\"token_rows\"}},{\"name\":\"context\",\"dimension\":{\"kind\":\"context\"}},{\"name\":\"media\",\"dimension\":{\"kind\":\"media_positions\"}}],"
"\"prefill\":true,\"decode\":true,\"requirements\":[],\"position\":\"before_intervention\",\"retained_bytes\":null,\"host_bytes\":null},"
"{\"path\":\"router.ids\",\"node_id\":\"router\",\"meaning\":\"no axes\",\"value_type\":\"tensor\",\"dtype\":\"integer\",\"axes\":null,"
"\"prefill\":true,\"decode\":false,\"requirements\":[\"routing_events\"],\"position\":\"read_only\",\"retained_bytes\":null,\"host_bytes\":null},"
"{\"path\":\"huge\",\"node_id\":\"huge\",\"meaning\":\"too large\",\"value_type\":\"tensor\",\"dtype\":\"unknown\",\"axes\":["
"{\"name\":\"a\",\"dimension\":{\"kind\":\"known\",\"value\":18446744073709551615}},{\"name\":\"b\",\"dimension\":{\"kind\":\"known\",\"value\":2}},{\"name\":\"c\",\"dimension\":{\"kind\":\"known\",\"value\":0}}],"
"\"prefill\":true,\"decode\":true,\"requirements\":[],\"position\":\"read_only\",\"retained_bytes\":null,\"host_bytes\":null}"
"],\"completeness\":{\"status\":\"partial\",\"reasons\":[\"fused kernels\"]}},"
"\"support\":{\"schema_version\":1,\"points\":["
"{\"path\":\"block.output\",\"prefill\":{\"status\":\"supported\"},\"decode\":{\"status\":\"supported\"},\"floating_to_f32\":true},"
"{\"path\":\"model.logits\",\"prefill\":{\"status\":\"supported\"},\"decode\":{\"status\":\"supported\"},\"floating_to_f32\":true},"
"{\"path\":\"attention.scores\",\"prefill\":{\"status\":\"supported\"},\"decode\":{\"status\":\"supported\"},\"floating_to_f32\":true},"
"{\"path\":\"router.ids\",\"prefill\":{\"status\":\"supported\"},\"decode\":{\"status\":\"unverified\",\"reason\":\"never seen\"},\"floating_to_f32\":false}"
"],\"capture\":{\"transformations\":" ALL_KINDS ",\"max_histogram_bins\":4,\"physical_native_limit\":false,\"conditions\":[\"on the host\"]}}}";

#define LIMITS_JSON(p, c, on)						\
	"{\"per_step\":{\"captures\":" p ",\"retained_bytes\":" p ",\"host_bytes\":" p ",\"encoded_bytes\":" p "}," \
	"\"cumulative\":{\"captures\":" c ",\"retained_bytes\":" c ",\"host_bytes\":" c ",\"encoded_bytes\":" c "}," \
	"\"physical_native_bytes\":null,\"on_limit\":\"" on "\"}"
#define WIDE_LIMITS LIMITS_JSON("1000000", "9000000", "fail")
#define PLAN_JSON(selections)						\
	"{\"schema_version\":1,\"selections\":[" selections "],\"limits\":" WIDE_LIMITS "}"
#define ALWAYS_JSON "{\"prefill\":true,\"decode\":true,\"first_prediction\":0,\"end_prediction\":null,\"every\":1}"

#define SELECTION(id, path, rest) "{\"id\":\"" id "\",\"path\":\"" path "\"," rest "}"
#define T_PREVIEW "\"transform\":{\"kind\":\"preview\",\"max_elements\":2}"
#define T_SLICE "\"transform\":{\"kind\":\"slice\"}"
#define T_EDGES(e) "\"transform\":{\"kind\":\"histogram\",\"edges\":[" e "]}"
#define T_TOP(n) "\"transform\":{\"kind\":\"top_candidates\",\"count\":" n "}"
#define SLICED(a, s, e, n) "\"slices\":[{\"axis\":\"" a "\",\"start\":" s ",\"end\":" e ",\"stride\":" n "}],"

static const char plan_json[] = PLAN_JSON(
"{\"id\":\"preview\",\"path\":\"block.output\",\"schedule\":" ALWAYS_JSON ",\"slices\":[],\"transform\":{\"kind\":\"preview\",\"max_elements\":2}},"
"{\"id\":\"part\",\"path\":\"block.output\",\"schedule\":{\"prefill\":true,\"decode\":true,\"first_prediction\":0,\"end_prediction\":5,\"every\":2},"
"\"slices\":[{\"axis\":\"feature\",\"start\":1,\"end\":4,\"stride\":2}],\"transform\":{\"kind\":\"slice\"}},"
"{\"id\":\"all \\u0001\\n\\\"\xf0\x9f\x98\x80\",\"path\":\"router.ids\",\"schedule\":{\"prefill\":true,\"decode\":false,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
"\"slices\":[],\"transform\":{\"kind\":\"full_tensor\"}},"
"{\"id\":\"statistics\",\"path\":\"attention.scores\",\"schedule\":" ALWAYS_JSON ",\"slices\":[],\"transform\":{\"kind\":\"summary\"}},"
"{\"id\":\"bins\",\"path\":\"attention.scores\",\"schedule\":" ALWAYS_JSON ",\"slices\":[],\"transform\":{\"kind\":\"histogram\",\"edges\":[-1.0,-0.0,1e-7,0.1,3.4028235e38]}},"
"{\"id\":\"best\",\"path\":\"model.logits\",\"schedule\":" ALWAYS_JSON ",\"slices\":[],\"transform\":{\"kind\":\"top_candidates\",\"count\":3}}");

/* By sha256sum, of the text that 4.7.5 says. */
#define IDENTITY_OF_PLAN "97050effc23115bc9ffd5ea08d48f405359b115834c67032df377149d0160aba"

#define REQUEST { .batch = 1, .prompt_tokens = 3, .max_predictions = 10 }
static const struct capkm_observe_request request = REQUEST;

FIXTURE(plan)
{
	struct capkm_observe_discovery *d;
	struct capkm_observe_plan *p;
	struct capkm_observe_admitted *a;
};

FIXTURE_SETUP(plan)
{
	OK(capkm_observe_discovery_parse(discovery_json, strlen(discovery_json),
					 &self->d, &err));
	OK(capkm_observe_plan_parse(plan_json, strlen(plan_json), &self->p, &err));
	OK(capkm_observe_admit(self->p, self->d, &request, &self->a, &err));
}

FIXTURE_TEARDOWN(plan)
{
	capkm_observe_admitted_free(self->a);
	capkm_observe_plan_free(self->p);
	capkm_observe_discovery_free(self->d);
}

/* ------------------------------------------------------------ JSON */

/* 4.15: what was read is written to the byte, and means what it says. */
TEST_F(plan, round_trip)
{
	const struct capkm_observe_selection *s = self->p->selections;
	char *json;
	size_t len;

	OK(capkm_observe_plan_json(self->p, &json, &len, &err));
	ASSERT_STREQ(plan_json, json);
	ASSERT_EQ(strlen(plan_json), len);
	free(json);
	OK(capkm_observe_discovery_json(self->d, &json, NULL, &err));
	ASSERT_STREQ(discovery_json, json);
	free(json);

	ASSERT_EQ(6, self->p->selections_len);
	ASSERT_STREQ("part", s[1].id);
	ASSERT_TRUE(s[1].schedule.end_prediction.present);
	ASSERT_EQ(5, s[1].schedule.end_prediction.value);
	ASSERT_STREQ("feature", s[1].slices[0].axis);
	ASSERT_EQ(2, s[1].slices[0].stride);
	ASSERT_STREQ("all \x01\n\"\xf0\x9f\x98\x80", s[2].id);
	ASSERT_EQ(CAPKM_TRANSFORM_HISTOGRAM, s[4].transform.kind);
	ASSERT_EQ(5, s[4].transform.edges_len);
	ASSERT_TRUE(signbit(s[4].transform.edges[1]));
	ASSERT_EQ(3.4028235e38f, s[4].transform.edges[4]);
	ASSERT_EQ(CAPKM_ON_LIMIT_FAIL, self->p->limits.on_limit);
	ASSERT_EQ(9000000, self->p->limits.cumulative.encoded_bytes);
	ASSERT_EQ(NULL, self->d->catalog.points[3].axes);
	ASSERT_EQ(MAX, self->d->catalog.points[4].axes[0].dimension.value);
	ASSERT_EQ(CAPKM_COMPLETE_PARTIAL, self->d->catalog.completeness);
	ASSERT_STREQ("never seen", self->d->support[3].decode.reason);
}

/* Another implementation reads the same. */
TEST_F(plan, read_by_another)
{
	struct json_object *o, *v;
	char *json;

	OK(capkm_observe_plan_json(self->p, &json, NULL, &err));
	o = json_tokener_parse(json);
	ASSERT_NE(NULL, o);
	v = json_object_array_get_idx(json_object_object_get(o, "selections"), 2);
	ASSERT_STREQ("all \x01\n\"\xf0\x9f\x98\x80",
		     json_object_get_string(json_object_object_get(v, "id")));
	json_object_put(o);
	free(json);
}

/* Each kind of escape is what it means, and json-c says how long it is. */
TEST_F(plan, escapes)
{
	static const char json[] = PLAN_JSON(SELECTION("\\u0041\\u00e4\\u20ac\\ud83d\\ude00\\/\\\\\\b", "b", T_PREVIEW));
	struct capkm_observe_plan *p;

	OK(capkm_observe_plan_parse(json, strlen(json), &p, &err));
	ASSERT_STREQ("A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80/\\\b", p->selections[0].id);
	capkm_observe_plan_free(p);
}

/* What is admitted can be written, and read again. */
TEST_F(plan, too_large_with_defaults)
{
	enum { N = 8000 };
	struct capkm_observe_selection *s = calloc(N, sizeof(*s));
	struct capkm_observe_plan p = *self->p;
	struct capkm_observe_admitted *a;
	char (*ids)[12] = calloc(N, sizeof(*ids));

	for (unsigned int i = 0; i < N; i++) {
		s[i] = self->p->selections[0];
		snprintf(ids[i], sizeof(ids[i]), "%u", i);
		s[i].id = ids[i];
	}
	p.selections = s;
	p.selections_len = N;
	REFUSED(-EFBIG, capkm_observe_admit(&p, self->d, &request, &a, &err));
	SAYS("the plan is more than 1048576 bytes of JSON, with all its defaults");
	free(ids);
	free(s);
}

/* What need not be said. */
TEST_F(plan, defaults)
{
	static const char json[] =
		" { \"limits\" : " WIDE_LIMITS ", \"selections\":[\n"
		"{\"transform\":{\"max_elements\":2,\"kind\":\"preview\"},\"id\":\"preview\",\"path\":\"block.output\"},\n"
		"{\"id\":\"b\",\"path\":\"c\",\"transform\":{\"kind\":\"slice\"},\"slices\":[{\"axis\":\"x\",\"start\":1,\"end\":2}],\"schedule\":{}}],\r\n\t\"schema_version\":1 } \n";
	const struct capkm_observe_selection *s;
	struct capkm_observe_plan *p;

	OK(capkm_observe_plan_parse(json, strlen(json), &p, &err));
	s = p->selections;
	ASSERT_TRUE(s[0].schedule.prefill && s[0].schedule.decode);
	ASSERT_EQ(1, s[0].schedule.every);
	ASSERT_FALSE(s[0].schedule.end_prediction.present);
	ASSERT_EQ(2, s[0].transform.max_elements);
	ASSERT_EQ(0, s[0].slices_len);
	ASSERT_TRUE(s[1].schedule.prefill && s[1].schedule.decode);
	ASSERT_EQ(1, s[1].schedule.every);
	ASSERT_EQ(1, s[1].slices[0].stride);
	capkm_observe_plan_free(p);
}

/* Malformed, too deep, too large, twice, unknown: the line and the field are named. */
TEST(bad_json)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "line 1: must be an object, not the end of the text" },
		{ "[]", "line 1: must be an object" },
		{ "{", "line 1: must be the name of a field" },
		{ "{}", "line 1: the field \"schema_version\" is missing" },
		{ "{\n\"schema_version\":1,\n\n\"selections\":[],\"limit\":3}",
		  "line 4: there is no field \"limit\" here, only schema_version, selections, limits" },
		{ "{\"schema_version\":1,\n\"schema_version\":1}",
		  "line 2: the field \"schema_version\" is given twice" },
		{ "{\"schema_version\":1,\n\"schema\\u005fversion\":1}",
		  "line 2: the field \"schema_version\" is given twice" },
		{ "{\"schema_version\":-1}", "line 1, schema_version: must be a whole number from 0 to 4294967295" },
		{ "{\"schema_version\":4294967296}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":1.0}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":1e0}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":\"1\"}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":01}", "schema_version: " },
		{ "{\"schema_version\":00}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":NaN}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":null}", "schema_version: must be a whole number" },
		{ "{\"schema_version\":1 \"selections\":[]}", "line 1: an object goes on with \",\" or ends with \"}\"" },
		{ "{\"schema_version\" 1}", "line 1: a \":\" follows the name of a field" },
		{ "{'schema_version':1}", "line 1: must be the name of a field" },
		{ "{\"schema_version\":1,}", "line 1: must be the name of a field" },
		{ "{\"selections\":{}}", "selections: must be a list" },
		{ "{\"selections\":[,]}", "selections[0]: must be an object" },
		{ "{\"selections\":[{\"id\":\"a\"},]}", "selections[0]: the field \"path\" is missing" },
		{ "{\"selections\":[{\"id\":7}]}", "selections[0].id: must be a text" },
		{ "{\"selections\":[{\"id\":\"a\tb\"}]}", "selections[0].id: a control character" },
		{ "{\"selections\":[{\"id\":\"a\\u0000b\"}]}", "selections[0].id: a text must not contain \\u0000" },
		{ "{\"selections\":[{\"id\":\"\xff\"}]}", "selections[0].id: invalid utf-8" },
		{ "{\"selections\":[{\"id\":\"a", "selections[0].id: the text ends too early" },
		{ "{\"selections\":[{\"id\":\"\\ud83d\"}]}", "selections[0].id: a text must not contain half a surrogate pair" },
		{ "{\"selections\":[{\"id\":\"\\ude00\"}]}", "half a surrogate pair" },
		{ "{\"selections\":[{\"id\":\"\\ud83d\\u0041\"}]}", "half a surrogate pair" },
		/* It is one line, whatever is in it. */
		{ "{\"a\\nb\\u001b[31m\":1}", "there is no field \"a?b?[31m\" here" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"prewiew\"}}]}",
		  "selections[0].transform.kind: \"prewiew\" is none of preview, slice, full_tensor, summary, histogram, top_candidates" },
		{ "{\"selections\":[{\"transform\":{\"max_elements\":2}}]}", "selections[0].transform: the field \"kind\" is missing" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"summary\",\"count\":2}}]}",
		  "selections[0].transform: there is no field \"count\" here, only kind" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"preview\",\"kind\":\"preview\",\"max_elements\":2}}]}",
		  "selections[0].transform: the field \"kind\" is given twice" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"preview\"}}]}", "selections[0].transform: the field \"max_elements\" is missing" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"preview\",\"max_elements\":18446744073709551616}}]}",
		  "max_elements: must be a whole number from 0 to 18446744073709551615" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"histogram\",\"edges\":[0,\n\"inf\"]}}]}",
		  "line 2, selections[0].transform.edges[1]: must be a number, \"nan\", \"+inf\" or \"-inf\"" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"histogram\",\"edges\":[0,1e39]}}]}",
		  "edges[1]: is too large for a number of 32 bits" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"histogram\",\"edges\":[1.]}}]}", "edges[0]: must be a number" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"histogram\",\"edges\":[NaN]}}]}", "edges[0]: must be a number" },
		{ "{\"selections\":[{\"transform\":{\"kind\":\"histogram\",\"edges\":[Infinity]}}]}", "edges[0]: must be a number" },
		{ "{\"selections\":[{\"schedule\":{\"prefill\":1}}]}", "schedule.prefill: must be true or false" },
		{ "{\"selections\":[{\"schedule\":{\"prefill\":tru}}]}", "schedule.prefill: must be true or false" },
		{ "{\"selections\":[{\"schedule\":{\"end_prediction\":\"x\"}}]}", "schedule.end_prediction: must be a whole number" },
		{ "{\"limits\":{\"on_limit\":\"maybe\"}}", "limits.on_limit: \"maybe\" is none of fail, skip" },
		{ PLAN_JSON("") "\n x", "line 2: there is more text after its end" },
		{ PLAN_JSON("") "{}", "there is more text after its end" },
	};
	struct capkm_observe_plan *p = NOTHING;
	char *large, deep[200];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		REFUSED(-EINVAL, capkm_observe_plan_parse(bad[i].text,
				strlen(bad[i].text), &p, &err));
		BEGINS("observe_plan_parse: line ");
		SAYS(bad[i].says);
		ASSERT_EQ(NOTHING, p);
	}
	/* The length counts, not a NUL. */
	REFUSED(-EINVAL, capkm_observe_plan_parse(plan_json, strlen(plan_json) - 1,
						  &p, &err));
	REFUSED(-EINVAL, capkm_observe_plan_parse(plan_json, strlen(plan_json) + 1,
						  &p, &err));
	SAYS("more text");

	/* Deep where nothing is expected, and where a tag is looked for. */
	memset(deep, '[', sizeof(deep));
	REFUSED(-EINVAL, capkm_observe_plan_parse(deep, sizeof(deep), &p, &err));
	memcpy(deep, "{\"selections\":[{\"transform\":{\"x\":[[", 35);
	REFUSED(-EINVAL, capkm_observe_plan_parse(deep, sizeof(deep), &p, &err));
	SAYS("selections[0].transform: nesting too deep");

	large = calloc(1, CAPKM_OBSERVE_JSON + 1);
	ASSERT_NE(NULL, large);
	memset(large, ' ', CAPKM_OBSERVE_JSON + 1);
	memcpy(large, PLAN_JSON(""), strlen(PLAN_JSON("")));
	REFUSED(-EFBIG, capkm_observe_plan_parse(large, CAPKM_OBSERVE_JSON + 1, &p, &err));
	SAYS("1048577 bytes of JSON; at most 1048576 are read");
	OK(capkm_observe_plan_parse(large, CAPKM_OBSERVE_JSON, &p, &err));
	capkm_observe_plan_free(p);
	free(large);
}

/* Each prefix of a plan is refused, and each byte of it changed is read or refused. */
TEST(mutated_json)
{
	const int step = (int)t_param("CAPKM_MUTATIONS_STEP", 31, 200);
	const size_t len = strlen(plan_json);
	struct capkm_observe_plan *p;
	char *text, *json;

	for (size_t i = 0; i < len; i++)
		ASSERT_EQ(-EINVAL, capkm_observe_plan_parse(plan_json, i, &p, NULL));
	text = strdup(plan_json);
	for (size_t i = 0; i < len; i++) {
		for (int c = 1 + (int)i % step; c < 256; c += step) {
			text[i] = (char)c;
			if (capkm_observe_plan_parse(text, len, &p, NULL))
				continue;
			ASSERT_EQ(0, capkm_observe_plan_json(p, &json, NULL, NULL));
			free(json);
			capkm_observe_plan_free(p);
		}
		text[i] = plan_json[i];
	}
	free(text);
}

/* ------------------------------------------------------------ numbers */

/* Writes them as edges of a plan: what is between the brackets, for free(). */
static char *written(const float *edges, unsigned int n)
{
	struct capkm_observe_selection s = {
		.id = "", .path = "",
		.transform = {
			.kind = CAPKM_TRANSFORM_HISTOGRAM,
			.edges = edges, .edges_len = n,
		},
	};
	const struct capkm_observe_plan p = { .selections = &s, .selections_len = 1 };
	char *json, *start;

	if (capkm_observe_plan_json(&p, &json, NULL, NULL))
		return NULL;
	start = strstr(json, "\"edges\":[") + 9;
	*strchr(start, ']') = 0;
	memmove(json, start, strlen(start) + 1);
	return json;
}

static const struct {
	float value;
	const char *text;
} known[] = {
	{ 0.0f, "0.0" }, { -0.0f, "-0.0" }, { 1.0f, "1.0" }, { -1.5f, "-1.5" },
	{ 0.1f, "0.1" }, { 0.3f, "0.3" }, { 16777216.0f, "16777216.0" },
	{ 1e12f, "1000000000000.0" }, { 1e13f, "1e13" }, { 1.234e13f, "1.234e13" },
	{ 1e-5f, "0.00001" }, { 1.5e-6f, "0.0000015" }, { 1e-7f, "1e-7" },
	{ 1.25e-7f, "1.25e-7" }, { 3.4028235e38f, "3.4028235e38" },
	{ 1.1754944e-38f, "1.1754944e-38" }, { 1e-45f, "1e-45" },
	/* Powers of two: the nearest of so many digits is read as another number. */
	{ 9.8607613e-32f, "9.8607613e-32" }, { 4.7019774e-38f, "4.7019774e-38" },
	{ 8388608.0f, "8388608.0" }, { 33554432.0f, "33554432.0" },
	{ NAN, "\"nan\"" }, { INFINITY, "\"+inf\"" }, { -INFINITY, "\"-inf\"" },
};

TEST(known_numbers)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		char *text = written(&known[i].value, 1);

		ASSERT_STREQ(known[i].text, text);
		free(text);
	}
}

/* Digits without sign, point and exponent, or zeros at their ends; and how many. */
static int digits_of(const char *text, char out[64])
{
	int n = 0, last = 0;

	for (; *text && *text != 'e'; text++) {
		if (*text < '0' || *text > '9' || (!n && *text == '0'))
			continue;
		out[n++] = *text;
		if (*text != '0')
			last = n;
	}
	out[last] = 0;
	return last;
}

/* Does a number of @n digits beside @value's exact expansion read as it does? */
static bool is_there(float value, int n, int up)
{
	char text[80], *e;
	int i;

	/* Cut off, not rounded: the one below; then the one above. */
	snprintf(text, sizeof(text), "%.60e", (double)value);
	e = strchr(text, 'e');
	memmove(text + n + (n > 1), e, strlen(e) + 1);
	if (up) {
		for (i = n + (n > 1) - 1; i >= 0; i--) {
			if (text[i] == '.')
				continue;
			if (text[i] != '9') {
				text[i]++;
				break;
			}
			text[i] = '0';
		}
		if (i < 0)
			return strtof(text, NULL) == value;	/* covered with fewer */
	}
	return strtof(text, NULL) == value;
}

/* It is read as the same number, and none with fewer digits is. */
static bool is_shortest(float value, const char *text)
{
	char digits[64];
	int n;

	if (strtof(text, NULL) != value || !strpbrk(text, ".e"))
		return false;
	n = digits_of(text, digits);
	return n <= 1 || (!is_there(value, n - 1, 0) && !is_there(value, n - 1, 1));
}

static float float_of(u_int32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Random ones, and all powers of two with what is beside them. */
TEST(shortest_numbers)
{
	enum { N = 256 };
	const u_int64_t rounds = t_param("CAPKM_NUMBER_ROUNDS", 800, 40);
	u_int32_t state = 1;
	float edges[N];
	char *text, *word, *save;

	for (u_int64_t round = 0; round < rounds + 3; round++) {
		for (unsigned int i = 0; i < N; i++) {
			state = state * 1664525 + 1013904223;
			edges[i] = fabsf(float_of(state ^ state >> 13));
			if (round < 3)
				edges[i] = float_of((i << 23) + (u_int32_t)round - 1);
			if (!isfinite(edges[i]) || edges[i] == 0)
				edges[i] = 1;
			edges[i] = fabsf(edges[i]);
		}
		text = written(edges, N);
		word = strtok_r(text, ",", &save);
		for (unsigned int i = 0; i < N; i++) {
			ASSERT_TRUE(is_shortest(edges[i], word)) {
				TH_LOG("%.20g is written %s", (double)edges[i], word);
			}
			word = strtok_r(NULL, ",", &save);
		}
		free(text);
	}
}

/* A program may have another decimal point. */
TEST(locale)
{
	static const char *const names[] = { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8" };
	const float edges[] = { 0.5f, 1.25e-20f };
	struct capkm_observe_plan *p;
	char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (setlocale(LC_ALL, names[i]))
			break;
	if (i == ARRAY_SIZE(names))
		SKIP(return, "no locale here has a decimal comma");
	text = written(edges, 2);
	ASSERT_STREQ("0.5,1.25e-20", text);
	free(text);
	OK(capkm_observe_plan_parse(plan_json, strlen(plan_json), &p, &err));
	ASSERT_EQ(0.1f, p->selections[4].transform.edges[3]);
	capkm_observe_plan_free(p);
}

/* ------------------------------------------------------------ schedules */

/* ER-1 as it is written, without the library. */
static bool is_due(const struct capkm_observe_schedule *s, bool prefill, u_int64_t p)
{
	if (!(prefill ? s->prefill : s->decode) || !s->every)
		return false;
	for (u_int64_t q = s->first_prediction;
	     !s->end_prediction.present || q < s->end_prediction.value; q += s->every)
		if (q >= p)
			return q == p;
	return false;
}

/* ER-1, ER-2, T-151: against all predictions, one after the other. */
TEST(schedules)
{
	struct capkm_observe_schedule s;
	u_int64_t count, last, want, at;

	for (unsigned int i = 0; i < 4 * 6 * 8 * 5; i++) {
		s = (struct capkm_observe_schedule){
			.prefill = i & 1, .decode = i >> 1 & 1,
			.first_prediction = i / 4 % 6,
			.end_prediction = { i / 24 % 8 - 1, i / 24 % 8 },
			.every = i / 192 + 1,
		};
		if (!s.end_prediction.present)
			s.end_prediction.value = 0;
		for (u_int64_t max = 0; max < 9; max++) {
			for (u_int64_t next = 0; next < 9; next++) {
				OK(capkm_observe_count(&s, CAPKM_PREFILL, next, max,
						       &count, &last, &err));
				ASSERT_EQ(!next && max && is_due(&s, true, 0), count);
				ASSERT_EQ(0, last);
				want = at = 0;
				for (u_int64_t p = next ? next : 1; p < max; p++)
					if (is_due(&s, false, p))
						want++, at = p;
				OK(capkm_observe_count(&s, CAPKM_DECODE, next, max,
						       &count, &last, &err));
				ASSERT_EQ(want, count);
				ASSERT_EQ(at, last);
			}
			ASSERT_EQ(is_due(&s, true, max),
				  capkm_observe_includes(&s, CAPKM_PREFILL, max));
			ASSERT_EQ(is_due(&s, false, max),
				  capkm_observe_includes(&s, CAPKM_DECODE, max));
		}
	}
}

#define COUNTED(want_count, want_last, phase, next, ...) do {		\
	const struct capkm_observe_schedule s_ = { __VA_ARGS__ };	\
	u_int64_t count_, last_;					\
									\
	OK(capkm_observe_count(&s_, phase, next, 10, &count_, &last_, &err)); \
	ASSERT_EQ(want_count, count_);					\
	ASSERT_EQ(want_last, last_);					\
} while (0)

/* The examples of ER-2, and the ends of the numbers. */
TEST(schedule_examples)
{
	struct capkm_observe_schedule s = { .decode = true, .first_prediction = MAX - 1, .every = MAX };
	u_int64_t count, last;

	COUNTED(2, 7, CAPKM_DECODE, 3, true, true, 1, { 0 }, 3);
	COUNTED(2, 8, CAPKM_DECODE, 0, true, true, 0, { 0 }, 4);
	COUNTED(1, 0, CAPKM_PREFILL, 0, true, true, 0, { 0 }, 4);
	COUNTED(4, 8, CAPKM_DECODE, 0, true, true, 0, { 0 }, 2);
	COUNTED(0, 0, CAPKM_DECODE, 0, true, true, 0, { 1, true }, 1);
	OK(capkm_observe_count(&s, CAPKM_DECODE, 0, MAX, &count, &last, &err));
	ASSERT_EQ(1, count);
	ASSERT_EQ(MAX - 1, last);
	s.first_prediction = 2;
	REFUSED(-EOVERFLOW, capkm_observe_count(&s, CAPKM_DECODE, 3, MAX, &count, &last, &err));
	s.every = 0;
	REFUSED(-EINVAL, capkm_observe_count(&s, CAPKM_DECODE, 0, 10, &count, &last, &err));
	SAYS("observe_count: every must not be 0");
	ASSERT_FALSE(capkm_observe_includes(&s, CAPKM_DECODE, 2));
}

/* ------------------------------------------------------------ admission */

/* 4.7, T-132, T-135, T-137: one thing wrong at a time. */
TEST_F(plan, wrong)
{
	static const struct {
		const char *plan;
		int rc;
		unsigned int index;
		const char *says;
	} wrong[] = {
		{ "{\"schema_version\":2,\"selections\":[],\"limits\":" WIDE_LIMITS "}", -EINVAL, ~0u,
		  "the schema_version of the plan is 2, not 1" },
		{ "{\"schema_version\":1,\"selections\":[],\"limits\":{\"per_step\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},"
		  "\"cumulative\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},\"physical_native_bytes\":0,\"on_limit\":\"fail\"}}",
		  -EOPNOTSUPP, ~0u, "physical_native_bytes" },
		{ PLAN_JSON(SELECTION("", "block.output", T_PREVIEW)), -EINVAL, 0, "must not be empty" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_PREVIEW) "," SELECTION("a", "block.output", T_PREVIEW)), -EINVAL, 1,
		  "two selections have the id 'a'" },
		{ PLAN_JSON(SELECTION("a", "blok", T_PREVIEW)), -ENOENT, 0, "there is no point 'blok' in the catalog" },
		{ PLAN_JSON(SELECTION("a", "block.output", "\"schedule\":{\"every\":0}," T_PREVIEW)), -EINVAL, 0, "every must not be 0" },
		{ PLAN_JSON(SELECTION("a", "block.output", "\"schedule\":{\"first_prediction\":3,\"end_prediction\":3}," T_PREVIEW)), -EINVAL, 0,
		  "end_prediction 3 must be above first_prediction 3" },
		{ PLAN_JSON(SELECTION("a", "huge", T_PREVIEW)), -EOPNOTSUPP, 0, "nothing says that 'huge' is supported" },
		{ PLAN_JSON(SELECTION("a", "router.ids", T_PREVIEW)), -EOPNOTSUPP, 0, "'router.ids' at decode is unverified: never seen" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_SLICE)), -EINVAL, 0, "'slice' needs slices; 'full_tensor' is all of it" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES(""))), -EINVAL, 0, "two edges" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES("1"))), -EINVAL, 0, "two edges" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES("0,0"))), -EINVAL, 0, "edge 1 of the histogram is not above" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES("0,\"+inf\""))), -EINVAL, 0, "edge 1 of the histogram is not finite" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES("\"nan\",1"))), -EINVAL, 0, "edge 0 of the histogram is not finite" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES("2,1"))), -EINVAL, 0, "edge 1 of the histogram is not above" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_EDGES("1,2,3,4,5,6"))), -EINVAL, 0, "5 bins; the backend has 4" },
		{ PLAN_JSON(SELECTION("a", "model.logits", T_TOP("0"))), -EINVAL, 0, "must not be 0" },
		{ PLAN_JSON(SELECTION("a", "block.output", T_TOP("1"))), -EINVAL, 0, "of the point 'model.logits' only" },
		{ PLAN_JSON(SELECTION("a", "model.logits", SLICED("vocabulary", "0", "4", "1") T_TOP("1"))), -EINVAL, 0, "no slices" },
		{ PLAN_JSON(SELECTION("a", "model.logits", T_TOP("9"))), -EINVAL, 0, "9 top candidates of 8" },
		{ PLAN_JSON(SELECTION("a", "block.output", SLICED("feature", "0", "1", "0") T_SLICE)), -EINVAL, 0, "stride of the slice of axis 'feature' must not be 0" },
		{ PLAN_JSON(SELECTION("a", "block.output", SLICED("feature", "2", "1", "1") T_SLICE)), -EINVAL, 0, "ends at 1, below its start 2" },
		{ PLAN_JSON(SELECTION("a", "block.output", SLICED("colour", "0", "1", "1") T_SLICE)), -EINVAL, 0, "has no axis 'colour'" },
		{ PLAN_JSON(SELECTION("a", "block.output", "\"slices\":[{\"axis\":\"token\",\"start\":0,\"end\":1},{\"axis\":\"token\",\"start\":0,\"end\":1}]," T_SLICE)),
		  -EINVAL, 0, "two slices are of axis 'token'" },
		{ PLAN_JSON(SELECTION("a", "router.ids", "\"schedule\":{\"decode\":false}," SLICED("x", "0", "1", "1") T_SLICE)), -EINVAL, 0, "has no axis 'x'" },
		{ PLAN_JSON(SELECTION("a", "block.output", SLICED("feature", "0", "5", "1") T_SLICE)), -EINVAL, 0,
		  "the slice of axis 'feature' ends at 5, the axis at 4 at prediction 0" },
		/* Row 1 is there at prefill only. */
		{ PLAN_JSON(SELECTION("a", "block.output", SLICED("token", "0", "2", "1") T_SLICE)), -EINVAL, 0,
		  "the slice of axis 'token' ends at 2, the axis at 1 at prediction 1" },
		/* T-137: media is not known, but context is. */
		{ PLAN_JSON(SELECTION("a", "attention.scores", SLICED("context", "0", "4", "1") T_SLICE)), -EINVAL, 0,
		  "the slice of axis 'context' ends at 4, the axis at 3 at prediction 0" },
	};
	struct capkm_observe_admitted *a = NOTHING;
	struct capkm_observe_plan *p;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		OK(capkm_observe_plan_parse(wrong[i].plan, strlen(wrong[i].plan), &p, &err));
		REFUSED(wrong[i].rc, capkm_observe_admit(p, self->d, &request, &a, &err));
		SAYS(wrong[i].says);
		ASSERT_EQ(wrong[i].index, err.index);
		ASSERT_EQ(NOTHING, a);
		capkm_observe_plan_free(p);
	}
}

static int admit_one(struct __test_metadata *_metadata, const char *json,
		     const struct capkm_observe_discovery *d,
		     const struct capkm_observe_request *r, char *identity)
{
	struct capkm_observe_admitted *a;
	struct capkm_observe_plan *p;
	int rc;

	OK(capkm_observe_plan_parse(json, strlen(json), &p, &err));
	rc = capkm_observe_admit(p, d, r, &a, &err);
	if (!rc && identity)
		strcpy(identity, capkm_observe_admitted_identity(a));
	if (!rc)
		capkm_observe_admitted_free(a);
	capkm_observe_plan_free(p);
	return rc;
}
#define ADMIT(json, d, r, identity) admit_one(_metadata, json, d, r, identity)

/* Limits that are just right, and things that are known to be nothing. */
TEST_F(plan, right)
{
	struct capkm_observe_request r = request;

	/* The last scheduled prediction counts: it has more context. */
	ASSERT_EQ(0, ADMIT(PLAN_JSON(SELECTION("a", "attention.scores",
		"\"schedule\":{\"first_prediction\":9}," SLICED("context", "0", "12", "1") T_SLICE)),
		self->d, &r, NULL));
	ASSERT_EQ(-EINVAL, ADMIT(PLAN_JSON(SELECTION("a", "attention.scores",
		"\"schedule\":{\"first_prediction\":9}," SLICED("context", "0", "13", "1") T_SLICE)),
		self->d, &r, NULL));
	/* The media axis is not known, and not zero: T-135. */
	ASSERT_EQ(0, ADMIT(PLAN_JSON(SELECTION("a", "attention.scores",
		SLICED("media", "0", "5", "2") T_SLICE)), self->d, &r, NULL));
	/* Empty slices. */
	ASSERT_EQ(0, ADMIT(PLAN_JSON(SELECTION("a", "block.output",
		SLICED("feature", "4", "4", "1") T_SLICE)), self->d, &r, NULL));
	/* Nothing is due at decodes, so nothing is too large there. */
	ASSERT_EQ(0, ADMIT(PLAN_JSON(SELECTION("a", "block.output",
		"\"schedule\":{\"end_prediction\":1}," SLICED("token", "0", "3", "1") T_SLICE)),
		self->d, &r, NULL));
	ASSERT_EQ(0, ADMIT(PLAN_JSON(SELECTION("a", "model.logits", T_TOP("8"))), self->d, &r, NULL));
	r.batch = 2;
	ASSERT_EQ(-EOPNOTSUPP, ADMIT(PLAN_JSON(SELECTION("a", "model.logits", T_TOP("8"))),
				     self->d, &r, NULL));
	ASSERT_EQ(0, ADMIT(PLAN_JSON(""), self->d, &r, NULL));
}

/* 4.7.3 */
TEST_F(plan, requests)
{
	static const struct {
		struct capkm_observe_request r;
		int rc;
	} all[] = {
		{ { 0, 1, 1 }, -EINVAL }, { { 1, 0, 1 }, -EINVAL }, { { 1, 1, 0 }, -EINVAL },
		{ { 1, MAX, 1 }, -EOVERFLOW }, { { 1, MAX - 1, 1 }, 0 },
		{ { 2, MAX / 2 + 1, 1 }, -EOVERFLOW }, { { MAX, 1, MAX - 1 }, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		ASSERT_EQ(all[i].rc, ADMIT(PLAN_JSON(""), self->d, &all[i].r, NULL));
}

/* T-136: an extent of 0 hides no overflow. */
TEST_F(plan, overflow)
{
	struct capkm_observe_discovery d = *self->d;
	const struct capkm_observe_point_support s = { .path = "huge" };

	d.support = &s;
	d.support_len = 1;
	ASSERT_EQ(-EOVERFLOW, ADMIT(PLAN_JSON(SELECTION("a", "huge", T_PREVIEW)), &d,
				    &request, NULL));
	SAYS("the elements of a shape do not fit into 64 bits");
	ASSERT_EQ(0, err.index);
}

/* Structs of a caller in C: no pointer, no kind, no text is taken on trust. */
TEST_F(plan, hostile_structs)
{
	struct capkm_observe_selection s = self->p->selections[0];
	struct capkm_observe_plan p = *self->p;
	struct capkm_observe_discovery d = *self->d;
	struct capkm_observe_admitted *a;
	char *json;

	p.selections = &s;
	p.selections_len = 1;
	OK(capkm_observe_admit(&p, &d, &request, &a, &err));
	capkm_observe_admitted_free(a);
	s.id = NULL;
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	SAYS("the plan: a text or list is NULL");
	s.id = "\xc0\x80";
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	REFUSED(-EINVAL, capkm_observe_plan_json(&p, &json, NULL, &err));
	s.id = "\xed\xa0\x80";
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	s.id = "a";
	s.transform.kind = 99;
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	s.transform.kind = CAPKM_TRANSFORM_HISTOGRAM;
	s.transform.edges_len = 3;
	s.transform.edges = NULL;
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	s.transform.kind = CAPKM_TRANSFORM_PREVIEW;
	p.limits.on_limit = 2;
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	p.limits.on_limit = CAPKM_ON_LIMIT_SKIP;
	d.artifact_identity = NULL;
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	SAYS("the discovery: ");
	d.artifact_identity = "x";
	d.catalog.schema_version = 0;
	REFUSED(-EINVAL, capkm_observe_admit(&p, &d, &request, &a, &err));
	SAYS("the schema_version of the catalog is 0, not 1");
	d.catalog.schema_version = 1;
	d.capture.transformations_len = 0;
	REFUSED(-EOPNOTSUPP, capkm_observe_admit(&p, &d, &request, &a, &err));
	SAYS("the backend cannot make a 'preview' of a tensor");
}

/* 4.7.5: SHA-256 of "[plan,[points],request]", as sha256sum has it. */
TEST_F(plan, identity)
{
	struct capkm_observe_request r = request;
	struct capkm_observe_point points[5];
	struct capkm_observe_discovery d = *self->d;
	char a[CAPKM_OBSERVE_IDENTITY], b[CAPKM_OBSERVE_IDENTITY];
	const char *one = PLAN_JSON(SELECTION("a", "block.output", T_PREVIEW));

	ASSERT_STREQ(IDENTITY_OF_PLAN, capkm_observe_admitted_identity(self->a));
	ASSERT_EQ(0, ADMIT(one, &d, &r, a));
	ASSERT_EQ(0, ADMIT(one, &d, &r, b));
	ASSERT_STREQ(a, b);
	ASSERT_EQ(64, strlen(a));
	ASSERT_EQ(64, strspn(a, "0123456789abcdef"));

	/* A fact of another point does not matter, one of this does. */
	memcpy(points, d.catalog.points, sizeof(points));
	d.catalog.points = points;
	points[1].meaning = "something else";
	d.artifact_identity = "another";
	ASSERT_EQ(0, ADMIT(one, &d, &r, b));
	ASSERT_STREQ(a, b);
	points[0].meaning = "something else";
	ASSERT_EQ(0, ADMIT(one, &d, &r, b));
	ASSERT_STRNE(a, b);
	points[0].meaning = self->d->catalog.points[0].meaning;
	r.max_predictions++;
	ASSERT_EQ(0, ADMIT(one, &d, &r, b));
	ASSERT_STRNE(a, b);
	r.max_predictions--;
	ASSERT_EQ(0, ADMIT(PLAN_JSON(SELECTION("b", "block.output", T_PREVIEW)), &d, &r, b));
	ASSERT_STRNE(a, b);
}

TEST_F(plan, accessors)
{
	const struct capkm_observe_point *points = capkm_observe_admitted_points(self->a);
	char *json;

	/* It is a copy. */
	capkm_observe_plan_free(self->p);
	self->p = NULL;
	OK(capkm_observe_plan_json(capkm_observe_admitted_plan(self->a), &json, NULL, &err));
	ASSERT_STREQ(plan_json, json);
	free(json);
	ASSERT_STREQ("block.output", points[1].path);
	ASSERT_STREQ("router.ids", points[2].path);
	ASSERT_EQ(NULL, points[2].axes);
	ASSERT_STREQ("model.logits", points[5].path);
	ASSERT_EQ(10, capkm_observe_admitted_request(self->a)->max_predictions);
	ASSERT_FALSE(capkm_observe_admitted_is_empty(self->a));
}

/* ------------------------------------------------------------ forecasts */

struct estimates {
	unsigned int calls;
	struct capkm_usage usage;
	u_int64_t elements;
	int rc;
};

static int no_describe(void *context, const void *tensor, u_int64_t *shape,
		       u_int32_t *rank, u_int32_t *dtype, char *why, size_t size)
{
	abort();
}

static int no_transform(void *context, const void *tensor,
			const struct capkm_observe_geometry *g,
			struct capkm_observe_payload *payload, char *why, size_t size)
{
	abort();
}

static int no_ready(void *context, const void *tensor, char *why, size_t size)
{
	abort();
}

static int estimate(void *context, const struct capkm_observe_geometry *g,
		    struct capkm_usage *usage, char *why, size_t size)
{
	struct estimates *e = context;

	e->calls++;
	e->elements = g->elements;
	snprintf(why, size, "said so");
	*usage = e->usage;
	return e->rc;
}

static struct capkm_observe_backend forecasting(struct estimates *e)
{
	return (struct capkm_observe_backend){
		.sz = sizeof(struct capkm_observe_backend), .context = e,
		.ready = no_ready, .describe = no_describe, .estimate = estimate,
		.transform = no_transform,
	};
}

/* 4.12's example, with limits that only count what is retained. */
static int forecast(struct __test_metadata *_metadata, struct estimates *e,
		    const struct capkm_observe_discovery *d, const char *schedule,
		    u_int32_t on_limit, struct capkm_usage step, struct capkm_usage total,
		    u_int64_t predictions, u_int64_t next,
		    const struct capkm_usage *inherited)
{
	char json[1024];
	struct capkm_observe_request r = { 1, 3, predictions };
	struct capkm_observe_backend b = forecasting(e);
	struct capkm_observe_admitted *a;
	struct capkm_observe_plan *p;
	int rc;

	snprintf(json, sizeof(json), PLAN_JSON("{\"id\":\"preview\",\"path\":\"block.output\",\"schedule\":%s," T_PREVIEW "}"), schedule);
	OK(capkm_observe_plan_parse(json, strlen(json), &p, &err));
	p->limits.per_step = step;
	p->limits.cumulative = total;
	p->limits.on_limit = on_limit;
	OK(capkm_observe_admit(p, d, &r, &a, &err));
	e->calls = 0;
	rc = capkm_observe_validate(a, d, &b, next, inherited, &err);
	capkm_observe_admitted_free(a);
	capkm_observe_plan_free(p);
	return rc;
}
#define FORECAST(...) forecast(_metadata, &e, self->d, __VA_ARGS__)
#define ANY ((struct capkm_usage){ MAX, MAX, MAX, MAX })
#define RETAIN(n) ((struct capkm_usage){ MAX, n, MAX, MAX })

/* T-138 and the worked example of 4.12; a device is never asked. */
TEST_F(plan, forecasts)
{
	struct estimates e = { .usage = { 1, 100, 0, 0 } };

	ASSERT_EQ(0, FORECAST("{\"every\":4}", CAPKM_ON_LIMIT_FAIL, ANY, RETAIN(300), 10, 0, NULL));
	ASSERT_EQ(2, e.calls);
	ASSERT_EQ(-EDQUOT, FORECAST("{\"every\":4}", CAPKM_ON_LIMIT_FAIL, ANY, RETAIN(299), 10, 0, NULL));
	SAYS("observe_validate: budget 'retention' of 299 in all (cumulative): 300 would be used");
	/* ER-25: who skips needs no room for values. */
	ASSERT_EQ(0, FORECAST("{\"every\":4}", CAPKM_ON_LIMIT_SKIP, ANY, RETAIN(0), 10, 0, NULL));
	ASSERT_EQ(2, e.calls);
	ASSERT_EQ(-EDQUOT, FORECAST("{\"every\":4}", CAPKM_ON_LIMIT_FAIL, RETAIN(99), ANY, 10, 0, NULL));
	SAYS("budget 'retention' of 99 in a step: 100 would be used");
	e.rc = -EOPNOTSUPP;
	ASSERT_EQ(-EOPNOTSUPP, FORECAST("{\"every\":4}", CAPKM_ON_LIMIT_SKIP, ANY, ANY, 10, 0, NULL));
	SAYS("said so");
	ASSERT_EQ(0, err.index);
	e.rc = 0;
	e.usage.captures = MAX;
	ASSERT_EQ(-EOVERFLOW, FORECAST("{\"every\":4}", CAPKM_ON_LIMIT_FAIL, ANY, ANY, 10, 0, NULL));
}

/* T-144, T-150 (records: 792 bytes of host memory, 2320 of JSON: 4.9's example). */
TEST_F(plan, forecasts_from_within)
{
	struct estimates e = { .usage = { 1, 7, 0, 0 } };
	const struct capkm_usage spent = { 5, 0, 1000, 0 };
	/* The two values of a preview are charged, whatever the backend says. */
	struct capkm_usage total = { 2, 14, 7 * 792 + 2 * (16 + 8), 7 * 2320 };

	ASSERT_EQ(0, FORECAST("{\"first_prediction\":1,\"every\":3}", CAPKM_ON_LIMIT_FAIL,
			      ANY, total, 10, 3, NULL));
	ASSERT_EQ(1, e.calls);
	ASSERT_EQ(-EDQUOT, FORECAST("{\"first_prediction\":1,\"every\":3}", CAPKM_ON_LIMIT_FAIL,
				    ANY, total, 10, 2, NULL));
	total.captures = 6;
	total.host_bytes += 1000;
	ASSERT_EQ(-EDQUOT, FORECAST("{\"first_prediction\":1,\"every\":3}", CAPKM_ON_LIMIT_FAIL,
				    ANY, total, 10, 3, &spent));
	SAYS("'captures' of 6 in all (cumulative): 7 would be used");
	total.captures = 7;
	ASSERT_EQ(0, FORECAST("{\"first_prediction\":1,\"every\":3}", CAPKM_ON_LIMIT_FAIL,
			      ANY, total, 10, 3, &spent));

	/* Only prefill; only decodes; nothing is left; more than there is. */
	ASSERT_EQ(0, FORECAST("{}", CAPKM_ON_LIMIT_FAIL, ANY, ANY, 1, 0, NULL));
	ASSERT_EQ(1, e.calls);
	ASSERT_EQ(12, e.elements);
	ASSERT_EQ(0, FORECAST("{}", CAPKM_ON_LIMIT_FAIL, ANY, ANY, 2, 1, NULL));
	ASSERT_EQ(1, e.calls);
	ASSERT_EQ(4, e.elements);
	ASSERT_EQ(0, FORECAST("{}", CAPKM_ON_LIMIT_FAIL, ANY, RETAIN(0), 2, 2, NULL));
	ASSERT_EQ(0, e.calls);
	ASSERT_EQ(-EINVAL, FORECAST("{}", CAPKM_ON_LIMIT_FAIL, ANY, ANY, 2, 3, NULL));
	/* The records of one step must fit, also if there is none left. */
	total.host_bytes = 791;
	ASSERT_EQ(-EDQUOT, FORECAST("{}", CAPKM_ON_LIMIT_SKIP, total, ANY, 2, 2, NULL));
	SAYS("'host' of 791 in a step: 792 would be used");
}

/* T-130: a fact that has changed is seen before anything is estimated. */
TEST_F(plan, forecast_of_another_catalog)
{
	struct estimates e = { .usage = { 0 } };
	struct capkm_observe_backend b = forecasting(&e);
	struct capkm_observe_discovery d = *self->d;
	struct capkm_observe_point points[5];

	OK(capkm_observe_validate(self->a, &d, &b, 0, NULL, &err));
	ASSERT_NE(0, e.calls);
	e.calls = 0;
	memcpy(points, d.catalog.points, sizeof(points));
	d.catalog.points = points;
	points[0].node_id = "moved";
	REFUSED(-EINVAL, capkm_observe_validate(self->a, &d, &b, 0, NULL, &err));
	SAYS("the plan was admitted to another catalog");
	ASSERT_EQ(0, e.calls);
	b.transform = NULL;
	REFUSED(-EINVAL, capkm_observe_validate(self->a, self->d, &b, 0, NULL, &err));
	SAYS("a backend needs describe, estimate and transform");
}

/* C92: what a prompt's log probabilities would take is known before it runs. */
TEST_F(plan, c92_prompt_logprobs)
{
	const u_int64_t bytes = 8192ull * 152000 * 6;
	struct estimates e = { .usage = { 1, bytes, 0, 0 } };

	ASSERT_EQ(-EDQUOT, FORECAST("{}", CAPKM_ON_LIMIT_FAIL, RETAIN(2ull << 30), ANY, 2, 0, NULL));
	SAYS("budget 'retention' of 2147483648 in a step: 7471104000 would be used");
	ASSERT_EQ(0, FORECAST("{}", CAPKM_ON_LIMIT_SKIP, RETAIN(2ull << 30), ANY, 2, 0, NULL));
}

/* ------------------------------------------------------------ memory */

/* Each allocation fails once: an error, or nothing that is different. */
TEST_F(plan, allocations_fail)
{
	struct capkm_observe_admitted *a;
	struct capkm_observe_plan *p;
	struct capkm_observe_discovery *d;
	char *json;
	unsigned long n;
	int rc;

#define FAILING(call, good)						\
	for (n = 1; ; n++) {						\
		t_fail_alloc = n;					\
		rc = (call);						\
		if (t_fail_alloc) {					\
			t_fail_alloc = 0;				\
			ASSERT_EQ(0, rc);				\
			good;						\
			break;						\
		}							\
		if (!rc) {						\
			good;						\
			continue;					\
		}							\
		ASSERT_EQ(-ENOMEM, rc) {				\
			TH_LOG("allocation %lu: %s", n, err.text);	\
		}							\
	}								\
	/* Those of json-c are not among them if it is a shared library. */	\
	ASSERT_GT(n, 1)

	FAILING(capkm_observe_plan_parse(plan_json, strlen(plan_json), &p, &err), ({
		ASSERT_EQ(0, capkm_observe_plan_json(p, &json, NULL, &err));
		ASSERT_STREQ(plan_json, json);
		free(json);
		capkm_observe_plan_free(p);
	}));
	FAILING(capkm_observe_discovery_parse(discovery_json, strlen(discovery_json), &d, &err),
		capkm_observe_discovery_free(d));
	FAILING(capkm_observe_admit(self->p, self->d, &request, &a, &err), ({
		ASSERT_STREQ(IDENTITY_OF_PLAN, capkm_observe_admitted_identity(a));
		capkm_observe_admitted_free(a);
	}));
	FAILING(capkm_observe_plan_json(self->p, &json, NULL, &err), free(json));
}

TEST_HARNESS_MAIN
