/* SPDX-License-Identifier: GPL-2.0-only */
/* The only place that knows kernel versions. The code is written for the newest. */
#ifndef CAPKM_COMPAT_H
#define CAPKM_COMPAT_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/version.h>
#include <net/genetlink.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "capkm needs Linux 6.1 or newer"
#endif

#ifndef CONFIG_64BIT
#error "capkm needs a 64-bit kernel (32-bit programs are served)"
#endif

#if !defined(CONFIG_MMU) || !defined(CONFIG_NET)
#error "capkm needs a kernel with CONFIG_MMU and CONFIG_NET"
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
 * A reference to a file, unless it is being released; it is not freed meanwhile. 6.7
 * (0ede61d8589c) has a function for that.
 * To be deleted when 6.1 and 6.6 are no longer supported.
 */
static inline bool capkm_get_live_file(struct file *file)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	return get_file_rcu(file);
#else
	return get_file_active(&file);
#endif
}

/*
 * 6.3 (bc292ab00f6c) has functions for the flags of a mapping.
 * To be deleted when 6.1 is no longer supported.
 */
static inline void capkm_vm_flags(struct vm_area_struct *vma, unsigned long set,
				  unsigned long clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

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
