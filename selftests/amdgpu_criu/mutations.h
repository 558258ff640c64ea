/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes to a blob, by number: the same number is the same change. The first ones are systematic
 * (truncated at each boundary; records missing, duplicated, exchanged; each word out of range), the
 * others random. Frame and checksum are updated, so that later checks see the change.
 */
#ifndef AMDGPU_CRIU_TEST_MUTATIONS_H
#define AMDGPU_CRIU_TEST_MUTATIONS_H

#include "blob_edit.h"

/* Values for one word, and for two words together. */
#define MUTATION_WORDS 12
#define MUTATION_PAIRS 5
/* Words of a tail that are changed systematically; there may be thousands. */
#define MUTATION_TAIL 64

struct mutations {
	struct blob original;
	/* Offsets of all records, including END. */
	size_t *records;
	size_t num_records;
	/* Offsets of the words of the header, and of each record. */
	size_t *words;
	size_t num_words;
	/* Numbers below this one are systematic changes. */
	unsigned long in_order;
};

static inline size_t mutations_record_size(const struct mutations *all, size_t at)
{
	struct blob original = all->original;

	return sizeof(struct blob_record) + blob_record(&original, at)->size;
}

static inline bool mutations_init(struct mutations *all, const void *blob, size_t size)
{
	size_t at, word, end;

	memset(all, 0, sizeof(*all));
	all->records = calloc(size / sizeof(struct blob_record), sizeof(*all->records));
	all->words = calloc(size / sizeof(__u32), sizeof(*all->words));
	if (!blob_copy(&all->original, blob, size) || !all->records || !all->words)
		return false;
	for (at = 0; at < sizeof(struct blob_head); at += sizeof(__u32))
		all->words[all->num_words++] = at;
	for (; at < size; at += mutations_record_size(all, at)) {
		struct blob_record *record = blob_record(&all->original, at);

		all->records[all->num_records++] = at;
		end = sizeof(*record) + record->size;
		if (record->size > record->fixed_size + MUTATION_TAIL * sizeof(__u32))
			end = sizeof(*record) + record->fixed_size + MUTATION_TAIL * sizeof(__u32);
		for (word = 0; word < end; word += sizeof(__u32))
			all->words[all->num_words++] = at + word;
	}
	all->in_order = size / 8 + 3 * all->num_records + all->num_records * all->num_records +
			all->num_words * MUTATION_WORDS + all->num_words * MUTATION_PAIRS;
	return true;
}

static inline void mutations_free(struct mutations *all)
{
	blob_free(&all->original);
	free(all->records);
	free(all->words);
}

/* Not rand(): the same numbers on every machine. */
static inline __u32 mutations_random(__u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static inline __u32 mutations_word(__u32 old, unsigned int which, unsigned long number)
{
	switch (which) {
	case 0: return 0;
	case 1: return 1;
	case 2: return old + 1;
	case 3: return old - 1;
	case 4: return ~0u;
	case 5: return 0x7fffffff;
	case 6: return 0x80000000;
	case 7: return old ^ 1u << number % 32;
	case 8: return old + 0x1000;
	case 9: return old - 0x1000;
	case 10: return 0xfffff000;
	}
	return old << 1;
}

static inline __u64 mutations_pair(unsigned int which)
{
	static const __u64 pairs[MUTATION_PAIRS] = {
		0, ~0ULL, 1ULL << 63, 0xfffffffffffff000ULL, 0x0000800000000000ULL,
	};

	return pairs[which];
}

static inline void mutations_exchange(struct blob *blob, size_t one, size_t one_size, size_t two,
				      size_t two_size)
{
	unsigned char *copy = malloc(two_size);

	if (!copy)
		abort();
	memcpy(copy, blob->data + two, two_size);
	blob_erase(blob, two, two_size);
	blob_insert(blob, two, blob->data + one, one_size);
	blob_erase(blob, one, one_size);
	blob_insert(blob, one, copy, two_size);
	free(copy);
}

/* All records from one on missing, one missing, one duplicated. */
static inline void mutations_records(const struct mutations *all, struct blob *blob,
				     unsigned int how, size_t index)
{
	size_t at = all->records[index], end = all->records[all->num_records - 1];

	if (how == 0)
		blob_erase(blob, at, end - at);
	else if (how == 1)
		blob_erase(blob, at, mutations_record_size(all, at));
	else
		blob_double(blob, at);
}

static inline void mutations_at_random(const struct mutations *all, struct blob *blob,
				       unsigned long number)
{
	__u64 state = number;
	unsigned int edits = 1 + mutations_random(&state) % 4;

	for (; edits; edits--) {
		size_t at = all->words[mutations_random(&state) % all->num_words];
		__u32 *word = (__u32 *)(blob->data + at);
		unsigned int which = mutations_random(&state) % (2 * MUTATION_WORDS);

		*word = which < MUTATION_WORDS ?
			mutations_word(*word, which, mutations_random(&state)) :
			mutations_random(&state) << which % 2;
	}
}

/* Applies change @number to a copy of the original. */
static inline void mutations_make(const struct mutations *all, struct blob *blob,
				  unsigned long number)
{
	const size_t n = all->num_records;

	blob->size = all->original.size;
	memcpy(blob->data, all->original.data, blob->size);
	if (number >= all->in_order) {
		mutations_at_random(all, blob, number);
		blob_repair(blob);
		return;
	}
	if (number < all->original.size / 8) {
		blob->size = number * 8;
		if (blob->size >= sizeof(struct blob_head))
			blob_header(blob)->total_size = blob->size;
		return;
	}
	number -= all->original.size / 8;
	if (number < 3 * n) {
		mutations_records(all, blob, number / n, number % n);
		blob_repair(blob);
		return;
	}
	number -= 3 * n;
	if (number < n * n) {
		size_t one = number / n, two = number % n;

		if (one < two)
			mutations_exchange(blob, all->records[one],
					   mutations_record_size(all, all->records[one]),
					   all->records[two],
					   mutations_record_size(all, all->records[two]));
		blob_repair(blob);
		return;
	}
	number -= n * n;
	if (number < all->num_words * MUTATION_WORDS) {
		__u32 *word = (__u32 *)(blob->data + all->words[number / MUTATION_WORDS]);

		*word = mutations_word(*word, number % MUTATION_WORDS, number);
	} else {
		__u64 pair = mutations_pair(number % MUTATION_PAIRS);

		number = (number - all->num_words * MUTATION_WORDS) / MUTATION_PAIRS;
		memcpy(blob->data + all->words[number], &pair, sizeof(pair));
	}
	blob_repair(blob);
}

#endif /* AMDGPU_CRIU_TEST_MUTATIONS_H */
