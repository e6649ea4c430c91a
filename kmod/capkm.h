/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the rooms around the engine know of each other:
 *
 *	main.c		init and exit, parameters, the work queue
 *	chardev.c	/dev/capkm: calls, and the end of clients
 *	netlink.c netlink_dump.c netlink_record.c netlink_event.c
 *			generic netlink, see netlink.h
 *	mmap.c		its mappings
 *	host.c		what the engine asks of its host
 *	trace.c		tracepoints
 */
#ifndef CAPKM_H
#define CAPKM_H

#include <linux/init.h>
#include <linux/types.h>

struct capkm_caller;
struct capkm_session;
struct host_proc;
struct vm_area_struct;
struct workqueue_struct;

/* For what may take long or must not run where it is noticed. */
extern struct workqueue_struct *capkm_wq;

/*
 * The current task as a caller. What it borrows is valid while the task runs
 * the call.
 */
void capkm_caller_init(struct capkm_caller *who);

/* A process' number in the initial pid namespace, for readers that we do not know. */
u32 capkm_proc_global(const struct host_proc *proc);

int capkm_mmap_session(struct capkm_session *s, struct vm_area_struct *vma);

/* Has the current process a descriptor of /dev/capkm, by itself or passed to it? */
bool capkm_has_device(void);

int __init capkm_chardev_init(void);
void capkm_chardev_exit(void);

int __init capkm_netlink_init(void);
/* From now on also what keeps the module: it is loaded for good. */
void capkm_netlink_ready(void);
void capkm_netlink_exit(void);

#endif /* CAPKM_H */
