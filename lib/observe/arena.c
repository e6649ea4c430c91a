// SPDX-License-Identifier: MIT
#include "observe.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct chunk {
	struct chunk *before;
	size_t used;
	size_t size;
	max_align_t data[];
};

/*
 * Small, for what is in it is charged to somebody: of one that is begun at most a
 * quarter is left over.
 */
#define CHUNK		(512u - sizeof(struct chunk))

static struct chunk *chunk_new(size_t size)
{
	struct chunk *chunk = size <= SIZE_MAX - sizeof(*chunk) ?
			      calloc(1, sizeof(*chunk) + size) : NULL;

	if (chunk)
		chunk->size = size;
	return chunk;
}

/* What is large has a chunk of its own, behind the one that is filled. */
static void *alloc_large(struct arena *arena, size_t bytes)
{
	struct chunk *head = arena->chunks, *chunk = chunk_new(bytes);

	if (!chunk)
		return NULL;
	chunk->used = bytes;
	if (head) {
		chunk->before = head->before;
		head->before = chunk;
	} else {
		arena->chunks = chunk;
	}
	return chunk->data;
}

void *arena_alloc(struct arena *arena, size_t n, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	struct chunk *chunk = arena->chunks;
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - align)
		return NULL;
	/* An empty list is not NULL, which may mean something. */
	bytes = bytes ? (bytes + align - 1) & ~(align - 1) : align;
	if (bytes > CHUNK / 4)
		return alloc_large(arena, bytes);
	if (!chunk || chunk->size - chunk->used < bytes) {
		chunk = chunk_new(CHUNK);
		if (!chunk)
			return NULL;
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
