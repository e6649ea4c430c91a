// SPDX-License-Identifier: MIT
/*
 * Which process opened a handle. The number of the process stands in a page
 * that the kernel zeroes in a child, however the child was made; a handle
 * carries a copy, which capkm_join() changes.
 */
#include "internal.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

const char capkm_inherited_words[] =
	"the handle was inherited through fork and belongs to the parent; open one in this process or, on the kernel, capkm_join()";

static uint64_t fallback;
uint64_t *capkm_process_word = &fallback;
static uint64_t last;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void wipe_in_child(void)
{
	__atomic_store_n(&fallback, 0, __ATOMIC_RELAXED);
}

static void set_up(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED && !madvise(page, size, MADV_WIPEONFORK)) {
		capkm_process_word = page;
		return;
	}
	if (page != MAP_FAILED)
		munmap(page, size);
	pthread_atfork(NULL, NULL, wipe_in_child);
}

uint64_t capkm_generation(void)
{
	uint64_t none = 0, next;

	pthread_once(&once, set_up);
	next = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(capkm_process_word, &none, next, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return none ? none : next;
}

int capkm_not_inherited(const struct capkm *c, const char *call,
			struct capkm_error *err)
{
	if (!capkm_inherited(c))
		return 0;
	return capkm_error_set(err, -ECANCELED, CAPKM_NO_INDEX, 0, "%s: %s",
			       call, capkm_inherited_words);
}
