/* SPDX-License-Identifier: GPL-2.0-only */
/* The only place that knows kernel versions. The code is written for the newest. */
#ifndef CAPKM_COMPAT_H
#define CAPKM_COMPAT_H

#include <linux/mmu_notifier.h>
#include <linux/version.h>
#include <net/genetlink.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "capkm needs Linux 6.1 or newer"
#endif

#ifndef CONFIG_64BIT
#error "capkm needs a 64-bit kernel (32-bit programs are served)"
#endif

/*
 * 6.6 (7288dd2fd488) wraps the attributes of a dump in a struct genl_info.
 * To be deleted when 6.1 is no longer supported.
 */
static inline struct nlattr **capkm_dump_attrs(struct netlink_callback *cb)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	return genl_dumpit_info(cb)->attrs;
#else
	return genl_info_dump(cb)->attrs;
#endif
}

/*
 * 6.7 lets a group ask for a capability, and so do later points of 6.1 and 6.6.
 * Without that everybody could listen: there is no group.
 * To be deleted when the earlier points are no longer supported.
 */
#ifdef GENL_MCAST_CAP_SYS_ADMIN
#define CAPKM_MCAST_ADMIN	.flags = GENL_MCAST_CAP_SYS_ADMIN
#define CAPKM_MCAST_N(groups)	ARRAY_SIZE(groups)
#else
#define CAPKM_MCAST_ADMIN
#define CAPKM_MCAST_N(groups)	(0 * ARRAY_SIZE(groups))
#endif

/*
 * Some embedded configurations have no notifiers. The end of an image is then
 * seen by the others who see it, an exec that keeps its descriptors by the next
 * call or close.
 */
#ifndef CONFIG_MMU_NOTIFIER
static inline int mmu_notifier_register(struct mmu_notifier *notifier,
					struct mm_struct *mm)
{
	return 0;
}

static inline void mmu_notifier_unregister(struct mmu_notifier *notifier,
					   struct mm_struct *mm)
{
	notifier->ops->release(notifier, mm);
}
#endif

#endif /* CAPKM_COMPAT_H */
