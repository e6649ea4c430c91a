// SPDX-License-Identifier: GPL-2.0-only
/* Operations on ledgers out of bytes, all that can be seen compared after each one. */
#include "ledger_model.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	setenv("CAPKM_TEST_TRANSPORT", "embedded:", 1);
	/* The first handle starts the engine. */
	t_close(t_client());
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = { .choices.at = data, .choices.end = data + size };
	const uint64_t live = capkm_test_alloc_live();
	const int pids = t_pids;

	if (!size)
		return -1;
	world_begin(&w);
	for (; !choices_are_over(&w.choices); w.at++) {
		operate(&w);
		world_look(&w);
	}
	world_end(&w);
	if (capkm_test_alloc_live() != live)
		t_die("%" PRIu64 " allocations are left", capkm_test_alloc_live() - live);
	/* The dead of one run are the processes of the next. */
	t_pids = pids;
	return 0;
}
