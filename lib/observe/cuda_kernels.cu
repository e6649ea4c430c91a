// SPDX-License-Identifier: MIT
/*
 * What is computed of tensors where they are. cuda_kernels.ptx is made of this by
 * cuda_kernels.sh, and kept in the tree: a build needs no compiler for GPUs.
 *
 * Numbers do not depend on how blocks are scheduled: what is added up is added up in one
 * order, whatever the device. f16 and bf16 are converted as integers, for bf16 is newer
 * than the oldest target.
 */
#include "cuda_kernels.h"

/* Else whoever includes this has them: a test, with functions of the host. */
#ifdef __CUDA__
#define KERNEL		extern "C" __attribute__((global)) void
#define SHARED		__attribute__((shared))
#define DEVICE		static __attribute__((device)) inline
#define THREAD		(u32)__nvvm_read_ptx_sreg_tid_x()
#define BLOCK		(u32)__nvvm_read_ptx_sreg_ctaid_x()
#define BLOCKS		(u32)__nvvm_read_ptx_sreg_nctaid_x()
#define BLOCK_THREADS	(u32)__nvvm_read_ptx_sreg_ntid_x()
#define BARRIER()	__syncthreads()
/*
 * Else clang takes it that nobody but this thread writes to a static variable, for no
 * other function has its address, and reads it ahead of a barrier.
 */
#define OTHERS_WRITE(p)	__asm__ volatile("" : : "l"(p) : "memory")
extern SHARED u64 capkm_observe_counts[];
#endif

/* enum capkm_observe_dtype */
enum { F32 = 1, F16, BF16, I64, U64, BOOL };

DEVICE float float_of(u32 bits)
{
	float f;

	__builtin_memcpy(&f, &bits, sizeof(f));
	return f;
}

DEVICE u32 bits_of(float f)
{
	u32 bits;

	__builtin_memcpy(&bits, &f, sizeof(f));
	return bits;
}

DEVICE u32 half_bits(u32 h)
{
	const u32 sign = (h & 0x8000) << 16;
	const u32 exponent = h >> 10 & 31, fraction = h & 1023;

	if (exponent == 31)
		return sign | 0x7f800000 | fraction << 13;
	if (exponent)
		return sign | (exponent + 112) << 23 | fraction << 13;
	return sign | bits_of((float)fraction * 0x1p-24f);
}

/* The element at @address as the bits of a float. */
DEVICE u32 load_bits(u64 address, u32 dtype)
{
	switch (dtype) {
	case F32:
		return *(const u32 *)address;
	case F16:
		return half_bits(*(const u16 *)address);
	case BF16:
		return (u32)*(const u16 *)address << 16;
	case I64:
		return bits_of((float)*(const long long *)address);
	case U64:
		return bits_of((float)*(const u64 *)address);
	default:
		return *(const u8 *)address ? 0x3f800000 : 0;
	}
}

/* Where element @i of the view is. */
DEVICE u64 at(const struct view *v, u64 i)
{
	u64 address = v->address, n, next;
	u32 axis = v->rank;

	while (axis > 1) {
		n = v->selected[--axis];
		/* 64-bit division is slow. */
		next = (i | n) >> 32 ? i / n : (u32)i / (u32)n;
		address += (i - next * n) * v->step[axis];
		i = next;
	}
	return axis ? address + i * v->step[0] : address;
}

#define FIRST	((u64)BLOCK * BLOCK_THREADS + THREAD)
#define NEXT	((u64)BLOCKS * BLOCK_THREADS)

/* Elements from @first on, @n of them, of @bytes each, as they are. */
KERNEL capkm_gather(struct view v, u64 first, u64 n, u32 bytes, u64 to)
{
	u64 i, from;

	for (i = FIRST; i < n; i += NEXT) {
		from = at(&v, first + i);
		switch (bytes) {
		case 1:
			((u8 *)to)[i] = *(const u8 *)from;
			break;
		case 2:
			((u16 *)to)[i] = *(const u16 *)from;
			break;
		case 4:
			((u32 *)to)[i] = *(const u32 *)from;
			break;
		default:
			((u64 *)to)[i] = *(const u64 *)from;
		}
	}
}

DEVICE struct partial nothing(void)
{
	struct partial p;

	p.finite = p.nan = p.positive = p.negative = 0;
	p.zero = ~0ull;
	p.min = 0xffffffff;
	p.max = 0;
	p.sum = p.squares = 0;
	return p;
}

/* Of zeros the first one tells the sign, if one is the smallest or the largest. */
DEVICE void take(struct partial *p, u32 bits, u64 index)
{
	const u32 size = bits & 0x7fffffff, key = ORDERED(size ? bits : 0);
	const double value = float_of(bits);
	const u64 zero = index << 1 | bits >> 31;

	if (size > 0x7f800000) {
		p->nan++;
	} else if (size == 0x7f800000) {
		if (bits == size)
			p->positive++;
		else
			p->negative++;
	} else {
		p->finite++;
		if (!size && zero < p->zero)
			p->zero = zero;
		p->min = key < p->min ? key : p->min;
		p->max = key > p->max ? key : p->max;
		p->sum += value;
		p->squares += value * value;
	}
}

DEVICE void merge(struct partial *p, const struct partial *q)
{
	p->finite += q->finite;
	p->nan += q->nan;
	p->positive += q->positive;
	p->negative += q->negative;
	p->zero = q->zero < p->zero ? q->zero : p->zero;
	p->min = q->min < p->min ? q->min : p->min;
	p->max = q->max > p->max ? q->max : p->max;
	p->sum += q->sum;
	p->squares += q->squares;
}

/* What the threads of a block have, as a tree, to @to. */
DEVICE void reduce(const struct partial *mine, struct partial *all, u64 to)
{
	u32 half;

	OTHERS_WRITE(all);
	all[THREAD] = *mine;
	for (half = THREADS / 2; half; half /= 2) {
		BARRIER();
		if (THREAD < half)
			merge(&all[THREAD], &all[THREAD + half]);
	}
	if (!THREAD)
		*(struct partial *)to = all[0];
}

/* One partial result of each block. */
KERNEL capkm_summary(struct view v, u64 to)
{
	static SHARED struct partial all[THREADS];
	struct partial mine = nothing();
	u64 i;

	for (i = FIRST; i < v.elements; i += NEXT)
		take(&mine, load_bits(at(&v, i), v.dtype), i);
	reduce(&mine, all, to + BLOCK * sizeof(mine));
}

/* One of them all; by one block. */
KERNEL capkm_summary_end(u64 from, u32 n, u64 to)
{
	static SHARED struct partial all[THREADS];
	struct partial mine = nothing();
	u32 i;

	for (i = THREAD; i < n; i += THREADS)
		merge(&mine, (const struct partial *)from + i);
	reduce(&mine, all, to);
}

KERNEL capkm_zero(u64 to, u32 n)
{
	u64 i;

	for (i = FIRST; i < n; i += NEXT)
		((u64 *)to)[i] = 0;
}

/* Where a value is counted. */
DEVICE u32 bin_of(u32 bits, const float *edges, u32 bins)
{
	const float value = float_of(bits);
	u32 low = 0, high = bins, middle;

	if ((bits & 0x7fffffff) >= 0x7f800000)
		return COUNT_NON_FINITE;
	if (value < edges[0])
		return COUNT_BELOW;
	if (value > edges[bins])
		return COUNT_ABOVE;
	/* edges[low] <= value, and value < edges[high] or it is the last one. */
	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (value < edges[middle])
			high = middle;
		else
			low = middle;
	}
	return COUNTS_BEFORE + low;
}

/* Adds to the counts at @to; a block counts by itself before. */
KERNEL capkm_histogram(struct view v, u64 edges, u32 bins, u64 to)
{
	const u32 n = COUNTS_BEFORE + bins;
	u64 i;

	for (i = THREAD; i < n; i += BLOCK_THREADS)
		capkm_observe_counts[i] = 0;
	BARRIER();
	for (i = FIRST; i < v.elements; i += NEXT)
		__atomic_fetch_add(&capkm_observe_counts[bin_of(load_bits(at(&v, i), v.dtype),
							(const float *)edges, bins)],
				   1, __ATOMIC_RELAXED);
	BARRIER();
	for (i = THREAD; i < n; i += BLOCK_THREADS)
		if (capkm_observe_counts[i])
			__atomic_fetch_add((u64 *)to + i, capkm_observe_counts[i],
					   __ATOMIC_RELAXED);
}

/*
 * No two are equal, and the better candidate has the larger one: its score, then the
 * smaller index. 0: a NaN. Zeros are equal, whatever their sign.
 */
DEVICE u64 rank_of(u32 bits, u32 index)
{
	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0;
	if (bits == 0x80000000)
		bits = 0;
	return (u64)ORDERED(bits) << 32 | ~index;
}

/*
 * The @count best of fewer than 2^32 values, in any order, then none. By one block, which
 * finds the rank of the last one that is taken digit by digit, from the highest.
 */
KERNEL capkm_candidates(struct view v, u32 count, u64 to)
{
	static SHARED u32 digits[256];
	static SHARED u32 left, filled;
	static SHARED u64 least, known;
	const u32 n = v.elements;
	struct found *out = (struct found *)to;
	u64 i, rank;
	u32 bits, slot;
	int shift, d;

	OTHERS_WRITE(digits);
	OTHERS_WRITE(&left);
	OTHERS_WRITE(&filled);
	OTHERS_WRITE(&least);
	OTHERS_WRITE(&known);
	if (!THREAD) {
		left = count;
		filled = 0;
		least = known = 0;
	}
	for (shift = 56; shift >= 0; shift -= 8) {
		for (i = THREAD; i < 256; i += BLOCK_THREADS)
			digits[i] = 0;
		BARRIER();
		for (i = THREAD; i < n; i += BLOCK_THREADS) {
			rank = rank_of(load_bits(at(&v, i), v.dtype), i);
			if (rank && (rank & known) == least)
				__atomic_fetch_add(&digits[rank >> shift & 255], 1,
						   __ATOMIC_RELAXED);
		}
		BARRIER();
		if (!THREAD) {
			for (d = 255; d >= 0 && digits[d] < left; d--)
				left -= digits[d];
			if (d < 0) {
				/* All but NaN are taken. */
				least = 1;
				known = ~0ull;
			} else {
				least |= (u64)d << shift;
				known |= 255ull << shift;
			}
		}
		BARRIER();
		if (known == ~0ull)
			break;
	}
	for (i = THREAD; i < n; i += BLOCK_THREADS) {
		bits = load_bits(at(&v, i), v.dtype);
		rank = rank_of(bits, i);
		if (!rank || rank < least)
			continue;
		slot = __atomic_fetch_add(&filled, 1, __ATOMIC_RELAXED);
		out[slot].index = i;
		out[slot].score = bits;
	}
	BARRIER();
	for (i = filled + THREAD; i < count; i += BLOCK_THREADS) {
		out[i].index = FOUND_NONE;
		out[i].score = 0;
	}
}
