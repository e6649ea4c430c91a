// SPDX-License-Identifier: MIT
#include "observe.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK		4096u

struct chunk {
	struct chunk *before;
	size_t used;
	size_t size;
	max_align_t data[];
};

void *arena_alloc(struct arena *arena, size_t n, size_t size)
{
	struct chunk *chunk = arena->chunks;
	size_t bytes, room;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes) ||
	    bytes > SIZE_MAX - sizeof(*chunk) - _Alignof(max_align_t))
		return NULL;
	/* An empty list is not NULL, which may mean something. */
	bytes = bytes ? bytes : 1;
	bytes = (bytes + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	if (!chunk || chunk->size - chunk->used < bytes) {
		room = bytes > CHUNK ? bytes : CHUNK;
		chunk = calloc(1, sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->size = room;
		chunk->before = arena->chunks;
		arena->chunks = chunk;
	}
	p = (char *)chunk->data + chunk->used;
	chunk->used += bytes;
	return p;
}

char *arena_text(struct arena *arena, const char *text, size_t len)
{
	char *copy = arena_alloc(arena, len + 1, 1);

	if (copy)
		memcpy(copy, text, len);
	return copy;
}

void arena_free(struct arena *arena)
{
	struct chunk *chunk, *before;

	for (chunk = arena->chunks; chunk; chunk = before) {
		before = chunk->before;
		free(chunk);
	}
	arena->chunks = NULL;
}

struct box {
	struct arena arena;
	max_align_t value[];
};

void *box_new(size_t size)
{
	struct box *box = calloc(1, sizeof(*box) + size);

	return box ? box->value : NULL;
}

static struct box *box_of(void *value)
{
	return (struct box *)((char *)value - offsetof(struct box, value));
}

struct arena *box_arena(void *value)
{
	return &box_of(value)->arena;
}

void box_free(void *value)
{
	if (!value)
		return;
	arena_free(box_arena(value));
	free(box_of(value));
}
