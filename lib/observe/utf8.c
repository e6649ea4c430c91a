// SPDX-License-Identifier: MIT
#include "observe.h"

/* Bytes of the character at @p, 0 if it is none: RFC 3629, table 3-7 of Unicode. */
size_t utf8_char(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned int low = 0x80, high = 0xbf;
	size_t n, i;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i < n; i++, low = 0x80, high = 0xbf)
		if (p[i] < low || p[i] > high)
			return 0;
	return n;
}

bool utf8_is(const char *text)
{
	size_t n;

	for (; *text; text += n) {
		n = utf8_char(text);
		if (!n)
			return false;
	}
	return true;
}
