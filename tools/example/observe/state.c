// SPDX-License-Identifier: MIT
/*
 * Files: how they are read and replaced, and the checkpoint's. That has two lines of JSON:
 * where the model was, and the library's checkpoint as it is.
 */
#include "generate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT	1

char *file_read(const char *path, size_t most, size_t *len)
{
	FILE *f = fopen(path, "re");
	size_t size = 0, room = 4096, n;
	char *text = allocated(malloc(room));

	if (!f)
		die(WRONG, "%s: %s", path, strerror(errno));
	while ((n = fread(text + size, 1, room - size - 1, f))) {
		size += n;
		if (size > most)
			die(WRONG, "%s has more than %zu bytes", path, most);
		if (size == room - 1)
			text = allocated(realloc(text, room *= 2));
	}
	if (ferror(f))
		die(WRONG, "%s: %s", path, strerror(errno));
	fclose(f);
	text[size] = 0;
	*len = size;
	return text;
}

/* The new name is on the disk, too. */
static int sync_folder(const char *path)
{
	char *copy = allocated(strdup(path));
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Not every filesystem can do that; then the name is there when it is there. */
	int rc = fd < 0 || (fsync(fd) && errno != EINVAL) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	free(copy);
	return rc;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= n;
	}
	return fsync(fd) ? -errno : 0;
}

int file_replace(const char *path, const char *text, size_t len)
{
	char *temporary;
	int fd, rc;

	if (asprintf(&temporary, "%s.new", path) < 0)
		return -ENOMEM;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	rc = fd < 0 ? -errno : write_all(fd, text, len);
	if (fd >= 0 && close(fd) && !rc)
		rc = -errno;
	if (!rc && rename(temporary, path))
		rc = -errno;
	if (rc && fd >= 0)
		unlink(temporary);
	free(temporary);
	return rc ? rc : sync_folder(path);
}

/* the model's line */

static void add(struct json_object *to, const char *name, struct json_object *value)
{
	if (json_object_object_add(to, name, allocated(value)))
		die(FAILED, "out of memory");
}

static struct json_object *bytes(const uint8_t *from, uint32_t len)
{
	struct json_object *array = allocated(json_object_new_array());

	for (uint32_t i = 0; i < len; i++)
		if (json_object_array_add(array, allocated(json_object_new_int(from[i]))))
			die(FAILED, "out of memory");
	return array;
}

int state_save(const char *path, const struct state *s,
	       const struct capkm_observe_checkpoint *checkpoint)
{
	struct json_object *line = allocated(json_object_new_object());
	char *of_library, *text;
	int len, rc;

	add(line, "observe_generate", json_object_new_int(FORMAT));
	add(line, "domain", json_object_new_string(s->domain));
	add(line, "prompt", bytes(s->tokens, s->prompt_len));
	add(line, "made", bytes(s->tokens + s->prompt_len, s->made));
	add(line, "records_from", json_object_new_int64(s->records_from));
	add(line, "records_to", json_object_new_int64(s->records_to));
	TRY(capkm_observe_checkpoint_json(checkpoint, &of_library, NULL, &err));
	len = asprintf(&text, "%s\n%s\n",
		       json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN), of_library);
	if (len < 0)
		die(FAILED, "out of memory");
	rc = file_replace(path, text, len);
	free(text);
	free(of_library);
	json_object_put(line);
	return rc;
}

/* Whoever reads a member has to say what it is: none that is missing or of another type. */
static struct json_object *member(const char *path, struct json_object *of, const char *name,
				  enum json_type type)
{
	struct json_object *value;

	if (!json_object_object_get_ex(of, name, &value) || !json_object_is_type(value, type))
		die(WRONG, "%s: first line: '%s' is missing or not what it is to be", path, name);
	return value;
}

static uint64_t number_of(const char *path, struct json_object *of, const char *name)
{
	struct json_object *value = member(path, of, name, json_type_int);
	const int64_t number = json_object_get_int64(value);

	if (number < 0)
		die(WRONG, "%s: first line: '%s' is negative", path, name);
	return number;
}

static uint32_t bytes_of(const char *path, struct json_object *of, const char *name,
			 uint8_t *to, uint32_t most)
{
	struct json_object *array = member(path, of, name, json_type_array);
	const size_t len = json_object_array_length(array);

	if (len > most)
		die(WRONG, "%s: first line: '%s' has more than %u bytes", path, name, most);
	for (size_t i = 0; i < len; i++) {
		struct json_object *byte = json_object_array_get_idx(array, i);
		const int64_t value = json_object_get_int64(byte);

		if (!json_object_is_type(byte, json_type_int) || value < 0 || value > 255)
			die(WRONG, "%s: first line: '%s' is not made of bytes", path, name);
		to[i] = value;
	}
	return len;
}

void state_load(const char *path, struct state *s,
		struct capkm_observe_checkpoint **checkpoint)
{
	size_t len;
	char *text = file_read(path, 2 * CAPKM_OBSERVE_JSON, &len);
	char *second = memchr(text, '\n', len);
	struct json_object *line, *domain;

	if (!second)
		die(WRONG, "%s is no checkpoint: it has no second line", path);
	*second++ = 0;
	line = json_tokener_parse(text);
	if (!line || number_of(path, line, "observe_generate") != FORMAT)
		die(WRONG, "%s is no checkpoint of this program", path);
	domain = member(path, line, "domain", json_type_string);
	if (json_object_get_string_len(domain) > CAPKM_NAME_MAX)
		die(WRONG, "%s: first line: 'domain' is too long", path);
	strcpy(s->domain, json_object_get_string(domain));
	s->prompt_len = bytes_of(path, line, "prompt", s->tokens, PROMPT_MAX);
	if (!s->prompt_len)
		die(WRONG, "%s: first line: 'prompt' is empty", path);
	s->made = bytes_of(path, line, "made", s->tokens + s->prompt_len, PREDICTIONS_MAX);
	s->records_from = number_of(path, line, "records_from");
	s->records_to = number_of(path, line, "records_to");
	if (s->records_from > s->records_to)
		die(WRONG, "%s: first line: the records end before they begin", path);
	if (capkm_observe_checkpoint_parse(second, len - (second - text), checkpoint, &err))
		die(WRONG, "%s: second line: %s", path, err.text);
	if (capkm_observe_checkpoint_next(*checkpoint) != s->made)
		die(WRONG, "%s: the first line has %u predictions, the second %" PRIu64, path, s->made,
		    capkm_observe_checkpoint_next(*checkpoint));
	json_object_put(line);
	free(text);
}
