/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/agg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/table.h"

/*
 * A system-wide run sees some ten thousand distinct stacks of some tens of frames, most of which
 * differ in their last calls only. So a stack is a path in a tree that starts at the root frame:
 * 8 bytes for a call that is new at its place, nothing for the callers it shares. A stack that is
 * known is found by one hash of its frames and compared along the path; the tree is searched only
 * for new ones.
 */

struct node {
	uint32_t parent; /* towards the root; node 0 is above it */
	uint32_t frame;	 /* index in frames */
};

struct entry {
	uint64_t count, weight;
	uint32_t tag;
	uint32_t leaf; /* index in nodes; 0 for a stack without frames */
	uint32_t n_frames;
	char comm[SAMPLE_COMM_BYTES]; /* zero-padded, to be compared as a whole */
};

struct agg {
	struct stack_frame *frames;
	struct node *nodes;
	struct entry *entries;
	size_t n_frames, frames_room;
	size_t n_nodes, nodes_room;
	size_t n_entries, entries_room;
	struct table frame_table, node_table, entry_table; /* of their indices */
};

static uint64_t frame_word(const struct stack_frame *f)
{
	return (uint64_t)f->module << 32 | (uint32_t)f->kind << 16 | f->caller;
}

static bool frame_equal(const struct stack_frame *a, const struct stack_frame *b)
{
	return a->offset == b->offset && frame_word(a) == frame_word(b);
}

struct agg *agg_new(void)
{
	struct agg *agg = calloc(1, sizeof(*agg));

	if (!agg)
		return NULL;
	table_init(&agg->frame_table);
	table_init(&agg->node_table);
	table_init(&agg->entry_table);
	return agg;
}

void agg_free(struct agg *agg)
{
	if (!agg)
		return;
	free(agg->frames);
	free(agg->nodes);
	free(agg->entries);
	table_release(&agg->frame_table);
	table_release(&agg->node_table);
	table_release(&agg->entry_table);
	free(agg);
}

/* The index of this frame, which is added when it is new. */
static int intern_frame(struct agg *agg, const struct stack_frame *f, uint32_t *out)
{
	uint64_t key[2] = {f->offset, frame_word(f)};
	uint32_t hash = table_hash(&agg->frame_table, key, sizeof(key));
	struct table_walk at = table_walk(&agg->frame_table, hash);

	while (table_next(&at, out))
		if (frame_equal(&agg->frames[*out], f))
			return 0;
	if (table_reserve(&agg->frame_table) ||
	    array_room(&agg->frames, &agg->frames_room, agg->n_frames + 1, sizeof(*agg->frames)))
		return -ENOMEM;
	*out = (uint32_t)agg->n_frames++;
	agg->frames[*out] = *f;
	table_add(&agg->frame_table, hash, *out);
	return 0;
}

static int intern_node(struct agg *agg, uint32_t parent, uint32_t frame, uint32_t *out)
{
	struct node node = {parent, frame};
	uint32_t hash = table_hash(&agg->node_table, &node, sizeof(node));
	struct table_walk at = table_walk(&agg->node_table, hash);

	while (table_next(&at, out))
		if (agg->nodes[*out].parent == parent && agg->nodes[*out].frame == frame)
			return 0;
	/* Two: node 0 stands for the empty stack and is never looked up. */
	if (table_reserve(&agg->node_table) ||
	    array_room(&agg->nodes, &agg->nodes_room, agg->n_nodes + 2, sizeof(*agg->nodes)))
		return -ENOMEM;
	if (!agg->n_nodes)
		agg->nodes[agg->n_nodes++] = (struct node){0};
	*out = (uint32_t)agg->n_nodes++;
	agg->nodes[*out] = node;
	table_add(&agg->node_table, hash, *out);
	return 0;
}

static bool entry_is(const struct agg *agg, const struct entry *e,
		     const char comm[SAMPLE_COMM_BYTES], uint32_t tag,
		     const struct stack_frame *frames, size_t n_frames)
{
	uint32_t node = e->leaf;
	size_t i;

	if (e->tag != tag || e->n_frames != n_frames || memcmp(e->comm, comm, SAMPLE_COMM_BYTES))
		return false;
	for (i = 0; i < n_frames; i++) {
		if (!frame_equal(&agg->frames[agg->nodes[node].frame], &frames[i]))
			return false;
		node = agg->nodes[node].parent;
	}
	return true;
}

static uint64_t saturate(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void agg_add_again(struct agg *agg, uint32_t id, uint64_t weight)
{
	struct entry *e = &agg->entries[id];

	e->count = saturate(e->count, 1);
	e->weight = saturate(e->weight, weight);
}

static uint32_t hash_stack(const struct agg *agg, const char comm[SAMPLE_COMM_BYTES], uint32_t tag,
			   const struct stack_frame *frames, size_t n_frames)
{
	struct siphash h = table_hasher(&agg->entry_table);

	siphash_word(&h, (uint64_t)tag << 32 | n_frames);
	for (size_t i = 0; i < n_frames; i++) {
		siphash_word(&h, frames[i].offset);
		siphash_word(&h, frame_word(&frames[i]));
	}
	return (uint32_t)siphash_end(&h, comm, SAMPLE_COMM_BYTES);
}

int agg_add(struct agg *agg, const char comm[SAMPLE_COMM_BYTES], uint32_t tag,
	    const struct stack_frame *frames, size_t n_frames, uint64_t weight, uint32_t *id)
{
	char name[SAMPLE_COMM_BYTES] = {0};
	uint32_t leaf = 0, frame, hash, i;
	struct table_walk at;
	struct entry *e;

	if (n_frames >= UINT32_MAX)
		return -ENOMEM;
	/* what comes after the NUL is noise */
	memcpy(name, comm, strnlen(comm, SAMPLE_COMM_BYTES));
	hash = hash_stack(agg, name, tag, frames, n_frames);
	at = table_walk(&agg->entry_table, hash);
	while (table_next(&at, &i)) {
		if (!entry_is(agg, &agg->entries[i], name, tag, frames, n_frames))
			continue;
		agg_add_again(agg, i, weight);
		if (id)
			*id = i;
		return 0;
	}

	if (table_reserve(&agg->entry_table) ||
	    array_room(&agg->entries, &agg->entries_room, agg->n_entries + 1,
		       sizeof(*agg->entries)))
		return -ENOMEM;
	for (size_t k = n_frames; k-- > 0;) {
		if (intern_frame(agg, &frames[k], &frame) || intern_node(agg, leaf, frame, &leaf))
			return -ENOMEM;
	}
	e = &agg->entries[agg->n_entries];
	*e = (struct entry){
		.count = 1,
		.weight = weight,
		.tag = tag,
		.leaf = leaf,
		.n_frames = (uint32_t)n_frames,
	};
	memcpy(e->comm, name, sizeof(e->comm));
	if (id)
		*id = (uint32_t)agg->n_entries;
	table_add(&agg->entry_table, hash, (uint32_t)agg->n_entries++);
	return 0;
}

const struct stack_frame *agg_frames(const struct agg *agg, size_t *n)
{
	*n = agg->n_frames;
	return agg->frames;
}

size_t agg_count(const struct agg *agg)
{
	return agg->n_entries;
}

int agg_each(const struct agg *agg, int (*fn)(const struct agg_stack *stack, void *arg), void *arg)
{
	struct stack_frame *frames;
	uint32_t most = 0;
	size_t i, j;
	int ret = 0;

	for (i = 0; i < agg->n_entries; i++)
		if (agg->entries[i].n_frames > most)
			most = agg->entries[i].n_frames;
	frames = malloc((most ? most : 1) * sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (i = 0; i < agg->n_entries && !ret; i++) {
		const struct entry *e = &agg->entries[i];
		uint32_t node = e->leaf;
		struct agg_stack stack = {
			.count = e->count,
			.weight = e->weight,
			.tag = e->tag,
			.n_frames = e->n_frames,
			.frames = frames,
		};

		memcpy(stack.comm, e->comm, sizeof(stack.comm));
		for (j = 0; j < e->n_frames; j++) {
			frames[j] = agg->frames[agg->nodes[node].frame];
			node = agg->nodes[node].parent;
		}
		ret = fn(&stack, arg);
	}
	free(frames);
	return ret;
}
