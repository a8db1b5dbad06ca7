/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/agg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

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
	uint32_t hash;
	uint32_t tag;
	uint32_t leaf; /* index in nodes; 0 for a stack without frames */
	uint32_t n_frames;
	char comm[SAMPLE_COMM_BYTES]; /* zero-padded, to be compared as a whole */
};

/* An open-addressed table of indices into an array; 0 is a free slot, index + 1 a used one. */
struct index {
	uint32_t *slots;
	size_t size; /* power of two, or 0 */
	size_t used;
};

struct agg {
	struct agg_frame *frames;
	struct node *nodes;
	struct entry *entries;
	size_t n_frames, cap_frames;
	size_t n_nodes, cap_nodes;
	size_t n_entries, cap_entries;
	struct index frame_index, node_index, entry_index;
	uint64_t seed; /* addresses are chosen by those we profile: they shall not choose slots */
};

/* Two multiplications of 64 bits folded; good enough to index with the low bits. */
static uint64_t mix(uint64_t h, uint64_t v)
{
	unsigned __int128 p;

	h ^= v;
	p = (unsigned __int128)h * 0x9e3779b97f4a7c15ull;
	h = (uint64_t)p ^ (uint64_t)(p >> 64);
	h ^= h >> 32;
	return h;
}

static uint64_t frame_word(const struct agg_frame *f)
{
	return (uint64_t)f->module << 32 | (uint32_t)f->kind << 16 | f->caller;
}

static uint64_t hash_frame(const struct agg *agg, const struct agg_frame *f)
{
	return mix(mix(agg->seed, f->offset), frame_word(f));
}

static uint64_t hash_node(const struct agg *agg, uint32_t parent, uint32_t frame)
{
	return mix(agg->seed, (uint64_t)parent << 32 | frame);
}

static bool frame_equal(const struct agg_frame *a, const struct agg_frame *b)
{
	return a->offset == b->offset && frame_word(a) == frame_word(b);
}

struct agg *agg_new(void)
{
	struct agg *agg = calloc(1, sizeof(*agg));

	if (!agg)
		return NULL;
	if (getrandom(&agg->seed, sizeof(agg->seed), GRND_NONBLOCK) != sizeof(agg->seed))
		agg->seed = (uintptr_t)agg; /* early in boot: at least not a constant */
	return agg;
}

void agg_free(struct agg *agg)
{
	if (!agg)
		return;
	free(agg->frames);
	free(agg->nodes);
	free(agg->entries);
	free(agg->frame_index.slots);
	free(agg->node_index.slots);
	free(agg->entry_index.slots);
	free(agg);
}

/* Makes room for one more element; grows by half, since the largest array decides our size. */
static int grow(void *array, size_t n, size_t *cap, size_t element_bytes)
{
	void **a = array, *bigger;
	size_t want = *cap + *cap / 2 + 64;

	if (n < *cap)
		return 0;
	if (want >= UINT32_MAX)
		return -ENOMEM;
	bigger = realloc(*a, want * element_bytes);
	if (!bigger)
		return -ENOMEM;
	*a = bigger;
	*cap = want;
	return 0;
}

static uint64_t element_hash(const struct agg *agg, const struct index *ix, uint32_t i)
{
	if (ix == &agg->frame_index)
		return hash_frame(agg, &agg->frames[i]);
	if (ix == &agg->node_index)
		return hash_node(agg, agg->nodes[i].parent, agg->nodes[i].frame);
	return agg->entries[i].hash;
}

static void index_put(struct index *ix, uint64_t hash, uint32_t i)
{
	size_t s = hash & (ix->size - 1);

	while (ix->slots[s])
		s = (s + 1) & (ix->size - 1);
	ix->slots[s] = i + 1;
	ix->used++;
}

/* Room for one more, so that a later index_put() can't fail. At most three quarters are used. */
static int index_reserve(const struct agg *agg, struct index *ix)
{
	struct index bigger = {0};
	size_t s;

	if (ix->used + 1 <= ix->size / 4 * 3)
		return 0;
	bigger.size = ix->size ? ix->size * 2 : 64;
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (s = 0; s < ix->size; s++)
		if (ix->slots[s])
			index_put(&bigger, element_hash(agg, ix, ix->slots[s] - 1),
				  ix->slots[s] - 1);
	free(ix->slots);
	*ix = bigger;
	return 0;
}

/* The index of this frame, which is added when it is new. */
static int intern_frame(struct agg *agg, const struct agg_frame *f, uint32_t *out)
{
	uint64_t hash = hash_frame(agg, f);
	size_t s;

	if (index_reserve(agg, &agg->frame_index) ||
	    grow(&agg->frames, agg->n_frames, &agg->cap_frames, sizeof(*agg->frames)))
		return -ENOMEM;
	for (s = hash & (agg->frame_index.size - 1); agg->frame_index.slots[s];
	     s = (s + 1) & (agg->frame_index.size - 1)) {
		*out = agg->frame_index.slots[s] - 1;
		if (frame_equal(&agg->frames[*out], f))
			return 0;
	}
	*out = (uint32_t)agg->n_frames++;
	agg->frames[*out] = *f;
	index_put(&agg->frame_index, hash, *out);
	return 0;
}

static int intern_node(struct agg *agg, uint32_t parent, uint32_t frame, uint32_t *out)
{
	uint64_t hash = hash_node(agg, parent, frame);
	size_t s;

	if (index_reserve(agg, &agg->node_index) ||
	    grow(&agg->nodes, agg->n_nodes, &agg->cap_nodes, sizeof(*agg->nodes)))
		return -ENOMEM;
	/* node 0 stands for the empty stack and is never looked up */
	if (!agg->n_nodes) {
		memset(&agg->nodes[0], 0, sizeof(agg->nodes[0]));
		agg->n_nodes = 1;
	}
	for (s = hash & (agg->node_index.size - 1); agg->node_index.slots[s];
	     s = (s + 1) & (agg->node_index.size - 1)) {
		const struct node *n;

		*out = agg->node_index.slots[s] - 1;
		n = &agg->nodes[*out];
		if (n->parent == parent && n->frame == frame)
			return 0;
	}
	*out = (uint32_t)agg->n_nodes++;
	agg->nodes[*out] = (struct node){parent, frame};
	index_put(&agg->node_index, hash, *out);
	return 0;
}

static bool entry_is(const struct agg *agg, const struct entry *e, uint32_t hash,
		     const char comm[SAMPLE_COMM_BYTES], uint32_t tag,
		     const struct agg_frame *frames, size_t n_frames)
{
	uint32_t node = e->leaf;
	size_t i;

	if (e->hash != hash || e->tag != tag || e->n_frames != n_frames ||
	    memcmp(e->comm, comm, SAMPLE_COMM_BYTES))
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

int agg_add(struct agg *agg, const char comm[SAMPLE_COMM_BYTES], uint32_t tag,
	    const struct agg_frame *frames, size_t n_frames, uint64_t weight, uint32_t *id)
{
	char name[SAMPLE_COMM_BYTES] = {0};
	uint64_t words[2], h = agg->seed;
	uint32_t leaf = 0, frame, hash;
	struct entry *e;
	size_t i, s;

	if (n_frames >= UINT32_MAX)
		return -ENOMEM;
	/* what comes after the NUL is noise */
	memcpy(name, comm, strnlen(comm, SAMPLE_COMM_BYTES));
	memcpy(words, name, sizeof(words));
	h = mix(mix(mix(h, words[0]), words[1]), (uint64_t)tag << 32 | n_frames);
	for (i = 0; i < n_frames; i++)
		h = mix(mix(h, frames[i].offset), frame_word(&frames[i]));
	hash = (uint32_t)h;

	if (index_reserve(agg, &agg->entry_index))
		return -ENOMEM;
	for (s = hash & (agg->entry_index.size - 1); agg->entry_index.slots[s];
	     s = (s + 1) & (agg->entry_index.size - 1)) {
		e = &agg->entries[agg->entry_index.slots[s] - 1];
		if (!entry_is(agg, e, hash, name, tag, frames, n_frames))
			continue;
		agg_add_again(agg, agg->entry_index.slots[s] - 1, weight);
		if (id)
			*id = agg->entry_index.slots[s] - 1;
		return 0;
	}

	if (grow(&agg->entries, agg->n_entries, &agg->cap_entries, sizeof(*agg->entries)))
		return -ENOMEM;
	for (i = n_frames; i-- > 0;) {
		if (intern_frame(agg, &frames[i], &frame) || intern_node(agg, leaf, frame, &leaf))
			return -ENOMEM;
	}
	e = &agg->entries[agg->n_entries];
	*e = (struct entry){
		.count = 1,
		.weight = weight,
		.hash = hash,
		.tag = tag,
		.leaf = leaf,
		.n_frames = (uint32_t)n_frames,
	};
	memcpy(e->comm, name, sizeof(e->comm));
	if (id)
		*id = (uint32_t)agg->n_entries;
	index_put(&agg->entry_index, hash, (uint32_t)agg->n_entries++);
	return 0;
}

const struct agg_frame *agg_frames(const struct agg *agg, size_t *n)
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
	struct agg_frame *frames;
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
