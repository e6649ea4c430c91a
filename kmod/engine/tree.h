/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A balanced (AVL) tree of nodes that live inside other objects: inserting
 * never allocates and so cannot fail. The kernel's own trees are GPL-only,
 * this code is also a library's. id_map and range_map are its two users.
 */
#ifndef CAPKM_TREE_H
#define CAPKM_TREE_H

#include "host.h"

struct tree_node {
	struct tree_node *parent, *left, *right;
	int height;		/* of the subtree; a leaf has 1 */
	u32 kind;		/* of what it is in, for the tree's user */
};

struct tree {
	struct tree_node *root;
	/* Recomputes what @node keeps about its subtree: has it changed? May be NULL. */
	bool (*augment)(struct tree_node *node);
};

/* Up to the first node that keeps what it had, for then nothing above it changes. */
void ck_tree_balance(struct tree *t, struct tree_node *node);

/*
 * Puts @node at the empty place @link below @parent, and rebalances. What the node keeps
 * about its subtree, itself, is right already.
 */
static inline void ck_tree_link(struct tree *t, struct tree_node *node,
				struct tree_node *parent, struct tree_node **link)
{
	node->parent = parent;
	node->left = NULL;
	node->right = NULL;
	node->height = 1;
	*link = node;
	if (parent)
		ck_tree_balance(t, parent);
}

void ck_tree_erase_inner(struct tree *t, struct tree_node *node);
static inline void ck_tree_erase(struct tree *t, struct tree_node *node)
{
	if (node->height == 1 && !node->parent)
		t->root = NULL;		/* the only one */
	else
		ck_tree_erase_inner(t, node);
}

/* @new takes the place of @old, and what that has in its struct tree_node but its kind. */
void ck_tree_replace(struct tree *t, struct tree_node *old, struct tree_node *new);
/* What @node keeps about itself has changed, its place has not. */
void ck_tree_changed(struct tree *t, struct tree_node *node);
struct tree_node *ck_tree_first(const struct tree *t);
struct tree_node *ck_tree_next(const struct tree_node *node);

#endif /* CAPKM_TREE_H */
