// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mappings of /dev/capkm (CAPKM_MAP_*). Their pages come when the engine or a fault
 * first needs them, and stay while the session does: a mapping holds the description.
 * The status cannot be made writable, nothing is copied over fork, and neither mmap nor
 * fault takes a lock of the engine.
 */
#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"

struct host_region {
	size_t pages_n;
	struct page *pages[];	/* each is set once */
};

struct host_region *host_region_new(size_t bytes)
{
	const size_t n = DIV_ROUND_UP(bytes, PAGE_SIZE);
	struct host_region *r;

	r = host_alloc(struct_size(r, pages, n));
	if (r)
		r->pages_n = n;
	return r;
}

void host_region_free(struct host_region *r)
{
	size_t i;

	for (i = 0; r && i < r->pages_n; i++)
		if (r->pages[i])
			put_page(r->pages[i]);
	host_free(r);
}

/* NULL: no memory. */
static struct page *get_region_page(struct host_region *r, size_t i)
{
	struct page *page, *before;

	/* Pairs with cmpxchg() below: the zeroes are seen before the page is. */
	page = smp_load_acquire(&r->pages[i]);
	if (page)
		return page;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
	if (!page)
		return NULL;
	before = cmpxchg(&r->pages[i], NULL, page);
	if (!before)
		return page;
	__free_page(page);
	return before;
}

bool host_region_fill(struct host_region *r, size_t at)
{
	return get_region_page(r, at / PAGE_SIZE);
}

void *host_region_at(const struct host_region *r, size_t at)
{
	struct page *page;

	/* Pairs with cmpxchg() in get_region_page(). */
	page = smp_load_acquire(&r->pages[at / PAGE_SIZE]);
	return page ? page_address(page) + at % PAGE_SIZE : NULL;
}

static vm_fault_t region_fault(struct vm_fault *vmf)
{
	struct host_region *r = vmf->vma->vm_private_data;
	const size_t i = (vmf->address - vmf->vma->vm_start) / PAGE_SIZE;
	struct page *page;

	if (i >= r->pages_n)
		return VM_FAULT_SIGBUS;
	page = get_region_page(r, i);
	if (!page)
		return VM_FAULT_OOM;
	get_page(page);
	vmf->page = page;
	return 0;
}

/* Unmapping a part would move what is left against its start. */
static int region_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static const struct vm_operations_struct region_ops = {
	.fault		= region_fault,
	.may_split	= region_may_split,
};

int capkm_mmap_session(struct capkm_session *s, struct vm_area_struct *vma)
{
	const u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct host_region *r = capkm_session_region(s, offset);

	if (!r)
		return -ENXIO;
	if (!(vma->vm_flags & VM_SHARED) ||
	    vma_pages(vma) > r->pages_n)
		return -EINVAL;
	if (offset != CAPKM_MAP_TABLE) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		capkm_vm_flags(vma, 0, VM_MAYWRITE);
	}
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	capkm_vm_flags(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		       VM_MAYEXEC);
	vma->vm_private_data = r;
	vma->vm_ops = &region_ops;
	return 0;
}
