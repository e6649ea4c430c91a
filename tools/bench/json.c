// SPDX-License-Identifier: GPL-2.0-only
/* The results for programs. */
#include "bench.h"

#include <json-c/json.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void add(json_object *o, const char *key, json_object *value)
{
	json_object_object_add(o, key, value);
}

static void add_text(json_object *o, const char *key, const char *text)
{
	add(o, key, json_object_new_string(text));
}

static void add_number(json_object *o, const char *key, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6g", value);
	add(o, key, json_object_new_double_s(value, text));
}

static void add_count(json_object *o, const char *key, uint64_t value)
{
	add(o, key, json_object_new_uint64(value));
}

static json_object *machine(void)
{
	json_object *o = allocated(json_object_new_object());
	struct utsname u;

	uname(&u);
	add_text(o, "processor", line_of("/proc/cpuinfo", "model name"));
	add_count(o, "processors", sysconf(_SC_NPROCESSORS_ONLN));
	add_text(o, "kernel", u.release);
	if (device)
		add_text(o, "device", device);
	add_number(o, "load", load_at_begin());
	add_text(o, "null_ioctl", null_ioctl_is());
	return o;
}

static json_object *result(const struct result *r)
{
	static const char *const units[] = {
		[NANOSECONDS] = "ns", [BYTES] = "bytes", [ALLOCATIONS] = "allocations",
	};
	json_object *o = allocated(json_object_new_object());

	add_text(o, "group", r->group);
	add_text(o, "operation", r->operation);
	add_text(o, "through", r->through);
	add_count(o, "size", r->size);
	add_text(o, "unit", units[r->unit]);
	add_number(o, "median", r->median);
	add_number(o, "quartile_low", r->low);
	add_number(o, "quartile_high", r->high);
	add_number(o, "least", r->least);
	add_count(o, "samples", r->samples);
	add_count(o, "batch", r->batch);
	if (r->null_ioctl) {
		add_number(o, "null_ioctl_ns", r->null_ioctl);
		add_number(o, "ratio", r->median / r->null_ioctl);
	}
	if (r->yardstick)
		add_number(o, "yardstick_ns", r->yardstick);
	return o;
}

static json_object *goal(const struct goal *g)
{
	static const char *const names[] = {
		[HOLDS] = "holds", [MISSED] = "missed", [NOT_MEASURED] = "not_measured",
	};
	json_object *o = allocated(json_object_new_object());

	add_text(o, "goal", g->text);
	add_text(o, "through", g->through);
	add_text(o, "verdict", names[g->verdict]);
	if (g->verdict != NOT_MEASURED)
		add_number(o, "value", g->value);
	add_number(o, "at_most", g->bound);
	add_text(o, "unit", g->unit);
	return o;
}

void json_write(const char *path)
{
	json_object *top = allocated(json_object_new_object());
	json_object *list = allocated(json_object_new_array());
	json_object *judged = allocated(json_object_new_array());
	const struct goal *goals;
	const size_t len = judge(&goals);
	const char *text;

	add_count(top, "version", 1);
	add_text(top, "capkm", capkm_version());
	add_count(top, "time", time(NULL));
	add(top, "quick", json_object_new_boolean(options.quick));
	add(top, "machine", machine());
	add_count(top, "least_samples", LEAST_SAMPLES);
	add_count(top, "least_events", LEAST_EVENTS);
	for (size_t i = 0; i < results.len; i++)
		json_object_array_add(list, result(&results.at[i]));
	add(top, "results", list);
	for (size_t i = 0; i < len; i++)
		json_object_array_add(judged, goal(&goals[i]));
	add(top, "goals", judged);
	text = allocated((void *)json_object_to_json_string_ext(top, JSON_C_TO_STRING_PRETTY |
							JSON_C_TO_STRING_NOSLASHESCAPE));
	write_file(path, text, strlen(text));
	json_object_put(top);
}
