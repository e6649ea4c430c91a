/* SPDX-License-Identifier: MIT */
#ifndef MODEL_H
#define MODEL_H

#include <capkm/observe_host.h>
#include <sha2.h>

#include "kernels.h"

/*
 * A causal language model over bytes, on capkm's executor. It knows what of it can be
 * observed, and shows that while it runs; it knows nothing of plans and budgets.
 */
#define LAYERS		2u
#define WIDTH		32u
#define HEADS		4u
#define VOCABULARY	256u

/* model.c: the weights, from a seed: what it says means nothing, but is always the same */

/* Embedding, last norm and head; and six of each layer. */
#define MATRICES	(3 + 6 * LAYERS)

struct weights {
	float *values;
	size_t start[MATRICES + 1];	/* where each matrix begins, in floats */
	char identity[7 + SHA256_DIGEST_STRING_LENGTH];	/* "sha256:..." */
};

void weights_make(struct weights *weights, uint64_t seed);
void weights_free(struct weights *weights);

/* What there is to observe. Static, but for the identity, which is that of the weights. */
struct capkm_observe_discovery
model_discovery(const struct weights *weights, const struct capkm_observe_backend *backend);

/* cached.c: the functions that look at the cache of keys and values */
enum cached_kernel { EMBED, APPEND, CAUSAL_SCORES, CAUSAL_MIX, CACHED_KERNELS };

extern const struct capkm_host_kernel cached_kernels[CACHED_KERNELS];

/* What these have to know, beside what kernels.h says. */
struct span {
	uint32_t tokens;	/* of this pass */
	uint32_t context;	/* those before and these */
	uint32_t width;
	uint32_t heads;
};

/* model.c: the model in an executor */

enum memory {
	WEIGHTS, IDS, STATE, NORMED, ATTENTION_IN, ATTENTION, MIXED, BRANCH, HIDDEN, LOGITS,
	CACHE, MEMORIES = CACHE + LAYERS,
};

struct model {
	struct capkm_host *host;
	const struct weights *weights;
	uint64_t kernels[KERNELS];
	uint64_t cached[CACHED_KERNELS];
	uint64_t memory[MEMORIES];
	uint32_t seen;		/* tokens in the cache */
	bool broken;		/* a function of the next pass will fail */
	/* Called for each point when its bytes are on their way; NULL: nobody looks. */
	void (*show)(void *watcher, const char *path,
		     const struct capkm_observe_host_tensor *tensor);
	void *watcher;
};

/* @context: most tokens that it will ever see. 0 or -errno, and then @err says why. */
int model_open(struct model *m, struct capkm_host *host, const struct weights *weights,
	       uint32_t context, struct capkm_error *err);

/*
 * One pass over tokens that follow those it has seen: the prompt, or one. 0 and the most
 * likely next one, or -errno: what it has seen is what it was, and it may be asked again.
 */
int model_predict(struct model *m, const uint8_t *tokens, uint32_t len, uint8_t *next,
		  struct capkm_error *err);

#endif /* MODEL_H */
