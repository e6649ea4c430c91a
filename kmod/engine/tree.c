// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "tree.h"

static int height(const struct tree_node *node)
{
	return node ? node->height : 0;
}

/* What @node keeps about its subtree; true if that has changed. */
static bool refresh(struct tree *t, struct tree_node *node)
{
	const int was = node->height;
	bool changed = t->augment && t->augment(node);

	node->height = 1 + max(height(node->left), height(node->right));
	return changed || node->height != was;
}

/* Makes @new the child that @old is of @parent. */
static void replace_child(struct tree *t, struct tree_node *parent,
			  struct tree_node *old, struct tree_node *new)
{
	if (!parent)
		t->root = new;
	else if (parent->left == old)
		parent->left = new;
	else
		parent->right = new;
	if (new)
		new->parent = parent;
}

static struct tree_node *rotate_left(struct tree *t, struct tree_node *node)
{
	struct tree_node *up = node->right;

	replace_child(t, node->parent, node, up);
	node->right = up->left;
	if (up->left)
		up->left->parent = node;
	up->left = node;
	node->parent = up;
	refresh(t, node);
	refresh(t, up);
	return up;
}

static struct tree_node *rotate_right(struct tree *t, struct tree_node *node)
{
	struct tree_node *up = node->left;

	replace_child(t, node->parent, node, up);
	node->left = up->right;
	if (up->right)
		up->right->parent = node;
	up->right = node;
	node->parent = up;
	refresh(t, node);
	refresh(t, up);
	return up;
}

/* Restores the balance of @node, which leans; returns the root of its subtree. */
static struct tree_node *rotate(struct tree *t, struct tree_node *node, int lean)
{
	if (lean > 0) {
		if (height(node->left->left) < height(node->left->right))
			rotate_left(t, node->left);
		return rotate_right(t, node);
	}
	if (height(node->right->right) < height(node->right->left))
		rotate_right(t, node->right);
	return rotate_left(t, node);
}

void ck_tree_balance(struct tree *t, struct tree_node *node)
{
	int lean;

	for (; node; node = node->parent) {
		lean = height(node->left) - height(node->right);
		if (lean > 1 || lean < -1)
			node = rotate(t, node, lean);
		else if (!refresh(t, node))
			return;
	}
}

void ck_tree_erase_inner(struct tree *t, struct tree_node *node)
{
	struct tree_node *next, *from;

	if (!node->left || !node->right) {
		from = node->parent;
		replace_child(t, from, node,
			      node->left ? node->left : node->right);
		ck_tree_balance(t, from);
		return;
	}

	/* The successor, which has no left child, takes the place. */
	for (next = node->right; next->left; next = next->left)
		;
	from = next->parent;
	if (from == node) {
		from = next;
	} else {
		replace_child(t, from, next, next->right);
		next->right = node->right;
		next->right->parent = next;
	}
	next->left = node->left;
	next->left->parent = next;
	replace_child(t, node->parent, node, next);
	next->height = 0;	/* as no node has: what it keeps is of its old place */
	ck_tree_balance(t, from);
	if (!next->height)
		ck_tree_balance(t, next);
}

void ck_tree_replace(struct tree *t, struct tree_node *old, struct tree_node *new)
{
	new->left = old->left;
	new->right = old->right;
	new->height = old->height;
	if (new->left)
		new->left->parent = new;
	if (new->right)
		new->right->parent = new;
	new->parent = old->parent;
	replace_child(t, old->parent, old, new);
}

void ck_tree_changed(struct tree *t, struct tree_node *node)
{
	while (node && refresh(t, node))
		node = node->parent;
}

struct tree_node *ck_tree_first(const struct tree *t)
{
	struct tree_node *node = t->root;

	while (node && node->left)
		node = node->left;
	return node;
}

struct tree_node *ck_tree_next(const struct tree_node *node)
{
	struct tree_node *up;

	if (node->right) {
		up = node->right;
		while (up->left)
			up = up->left;
		return up;
	}
	for (up = node->parent; up && node == up->right; up = up->parent)
		node = up;
	return up;
}
