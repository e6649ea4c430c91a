/* SPDX-License-Identifier: MIT */
/* What the kernels of cuda_kernels.cu are given, and give: as the library has it, too. */
#ifndef CAPKM_LIB_OBSERVE_CUDA_KERNELS_H
#define CAPKM_LIB_OBSERVE_CUDA_KERNELS_H

#define VIEW_RANK	32u	/* CAPKM_OBSERVE_RANK */
#define THREADS		256u	/* of a block, but of candidates ... */
#define THREADS_MOST	1024u	/* ... which is one block */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* Elements of a tensor, in row-major order, by axes that were merged where they can be. */
struct view {
	u64 address;		/* of the first */
	u64 elements;
	u32 dtype;		/* enum capkm_observe_dtype */
	u32 rank;
	u64 selected[VIEW_RANK];	/* how many on each axis ... */
	u64 step[VIEW_RANK];	/* ... and how far from each other, in bytes */
};

/* Of a summary: what one block has seen, then what all have. */
struct partial {
	u64 finite, nan, positive, negative;
	u64 zero;		/* twice the index of the first, 1 more if it is -0; ~0: none */
	u32 min, max;		/* of the finite, ORDERED(), with -0 as 0 */
	double sum, squares;
};

/* Of a histogram: these before the counts of the bins. */
enum { COUNT_BELOW, COUNT_ABOVE, COUNT_NON_FINITE, COUNTS_BEFORE };

/* A candidate, as in struct capkm_observe_candidate. None is behind the last. */
struct found {
	u32 index, score;
};
#define FOUND_NONE	0xffffffffu

/* A float's bits, as a number that is larger if the float is. -0 is below 0. */
#define ORDERED(bits)	((bits) & 0x80000000u ? ~(bits) : (bits) | 0x80000000u)
#define UNORDERED(key)	((key) & 0x80000000u ? (key) & 0x7fffffffu : ~(key))

#endif /* CAPKM_LIB_OBSERVE_CUDA_KERNELS_H */
