/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A doubly linked, circular, intrusive list. */
#ifndef CAPKM_LIST_H
#define CAPKM_LIST_H

#include "host.h"

struct link {
	struct link *next, *prev;
};

static inline void link_init(struct link *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool link_empty(const struct link *l)
{
	return l->next == l;
}

static inline void link_add_tail(struct link *l, struct link *head)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* @l is empty afterwards, so that deleting it twice does no harm. */
static inline void link_del(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

static inline void link_move_tail(struct link *l, struct link *head)
{
	link_del(l);
	link_add_tail(l, head);
}

#define link_entry(l, type, member) container_of(l, type, member)
#define link_first(head, type, member) link_entry((head)->next, type, member)

#define link_for_each(pos, head)					\
	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

#define link_for_each_safe(pos, n, head)				\
	for ((pos) = (head)->next, (n) = (pos)->next; (pos) != (head);	\
	     (pos) = (n), (n) = (pos)->next)

#endif /* CAPKM_LIST_H */
