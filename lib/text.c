// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>

void capkm_text_add(struct text *t, const char *format, ...)
{
	size_t room = t->len < t->size ? t->size - t->len : 0;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(room ? t->data + t->len : NULL, room, format, args);
	va_end(args);
	if (n > 0)
		t->len += (size_t)n;
}

void capkm_text_add_raw(struct text *t, const void *bytes, size_t max)
{
	const unsigned char *p = bytes;

	for (; max && *p; max--, p++)
		capkm_text_add(t, "%c", *p < 0x20 || *p == 0x7f ? '?' : *p);
}
