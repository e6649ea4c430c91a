/* SPDX-License-Identifier: GPL-2.0-only */
/* What a test does next, chosen by a seed or by the bytes of an input. */
#ifndef CHOICES_H
#define CHOICES_H

#include <stdbool.h>
#include <stdint.h>

/* @at: the bytes that are left, up to @end; both NULL: it is @rng that chooses. */
struct choices {
	uint64_t rng;
	const unsigned char *at, *end;
};

/* SplitMix64 */
static inline uint64_t choices_next(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* One of @n; of bytes it takes as few as can say which, and 0 when there are none left. */
static inline uint64_t choose(struct choices *c, uint64_t n)
{
	uint64_t v = 0;

	if (!c->end)
		return choices_next(&c->rng) % n;
	for (uint64_t left = n - 1; left; left >>= 8)
		v = v << 8 | (c->at < c->end ? *c->at++ : 0);
	return v % n;
}

static inline bool choices_are_over(const struct choices *c)
{
	return c->end && c->at == c->end;
}

#endif /* CHOICES_H */
