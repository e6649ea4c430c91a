/* SPDX-License-Identifier: MIT */
#ifndef CAPKM_LIB_THREAD_H
#define CAPKM_LIB_THREAD_H

/*
 * A thread's own, found without a call also in the shared library: of that there is
 * little room, for a few words.
 */
#define HERE __attribute__((tls_model("initial-exec"))) _Thread_local

#endif /* CAPKM_LIB_THREAD_H */
