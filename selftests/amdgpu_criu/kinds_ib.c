// SPDX-License-Identifier: GPL-2.0
/*
 * Queues that are stopped inside of an indirect buffer (IB): they continue behind the packet that
 * waits there, and then behind the IB.
 */
#include "kinds.h"

#define NEVER 200
#define WRITE_POINTER 56
#define IB 1024 /* its place in the BO with the words */

/* Words of that BO */
enum word { BEGUN, RELEASE, IN_IB, BEHIND_IB };

struct stream {
	__u32 *to;
	size_t num;
};

static __u32 *word_of(const struct notes *notes, enum word word)
{
	return (__u32 *)notes->words.at + word;
}

static void put(struct stream *stream, const __u32 *words, size_t num)
{
	memcpy(stream->to + stream->num, words, num * sizeof(*words));
	stream->num += num;
}

#define PUT(stream, ...) \
	do { \
		const __u32 words_put[] = { __VA_ARGS__ }; \
		put((stream), words_put, ARRAY_SIZE(words_put)); \
	} while (0)
#define ADDRESS(at) (__u32)(uintptr_t)(at), (__u32)((__u64)(uintptr_t)(at) >> 32)
#define PM4(opcode, body) (3u << 30 | ((body) - 1) << 16 | (opcode) << 8)

static void pm4_write(struct stream *stream, const __u32 *to, __u32 value)
{
	/* WRITE_DATA to memory, confirmed */
	PUT(stream, PM4(0x37, 4), 1 << 20 | 5 << 8, ADDRESS(to), value);
}

static void sdma_write(struct stream *stream, const __u32 *to, __u32 value)
{
	PUT(stream, 5, ADDRESS(to), value); /* FENCE */
}

/* @wptr: in the unit of the queue */
static int run_until_it_waits(const struct notes *notes, __u64 wptr)
{
	const struct kfd_queue *queue = &notes->queues[0];

	__atomic_store_n((__u64 *)((char *)queue->pointers.at + WRITE_POINTER), wptr,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(queue->doorbell, wptr, __ATOMIC_SEQ_CST);
	return kfd_becomes(word_of(notes, BEGUN), 1, SOON) ? 0 : -ETIME;
}

static int make_pm4(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_words(kfd, carry);
	struct stream ring, ib;

	if (!ret)
		ret = kfd_compute_make(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &notes->queues[0]);
	if (ret)
		return ret;
	ib = (struct stream) { word_of(notes, 0) + IB / sizeof(__u32), 0 };
	pm4_write(&ib, word_of(notes, BEGUN), 1);
	/* WAIT_REG_MEM: until the word in memory is 1 */
	PUT(&ib, PM4(0x3c, 6), 1 << 4 | 3, ADDRESS(word_of(notes, RELEASE)), 1, ~0u, 4);
	pm4_write(&ib, word_of(notes, IN_IB), 2);
	ring = (struct stream) { notes->queues[0].ring.at, 0 };
	/* INDIRECT_BUFFER, valid */
	PUT(&ring, PM4(0x3f, 3), ADDRESS(ib.to), 1 << 23 | ib.num);
	pm4_write(&ring, word_of(notes, BEHIND_IB), 3);
	return run_until_it_waits(notes, ring.num);
}

static int make_sdma_ib(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_sdma(kfd, carry, 1);
	struct stream ring, ib;

	if (ret)
		return ret;
	/* Its size is a multiple of eight words. */
	ib = (struct stream) { word_of(notes, 0) + IB / sizeof(__u32), 0 };
	sdma_write(&ib, word_of(notes, BEGUN), 1);
	/* POLL_REGMEM: until the word in memory is 1, without a limit */
	PUT(&ib, 1u << 31 | 3 << 28 | 8, ADDRESS(word_of(notes, RELEASE)), 1, ~0u,
	    0xfff << 16 | 10);
	sdma_write(&ib, word_of(notes, IN_IB), 2);
	PUT(&ib, 0, 0);
	ring = (struct stream) { notes->queues[0].ring.at, 0 };
	/* INDIRECT ends at a multiple of eight words. */
	PUT(&ring, 0, 0, 4, ADDRESS(ib.to), ib.num, 0, 0);
	sdma_write(&ring, word_of(notes, BEHIND_IB), 3);
	return run_until_it_waits(notes, ring.num * sizeof(__u32));
}

static void continues_in_the_ib(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self)
{
	const struct notes *notes = self->notes;

	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	EXPECT_FALSE(kfd_becomes(word_of(notes, IN_IB), 2, NEVER));
	EXPECT_EQ(1, *word_of(notes, BEGUN));
	__atomic_store_n(word_of(notes, BEGUN), 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(word_of(notes, RELEASE), 1, __ATOMIC_SEQ_CST);
	EXPECT_TRUE(kfd_becomes(word_of(notes, IN_IB), 2, SOON));
	EXPECT_TRUE(kfd_becomes(word_of(notes, BEHIND_IB), 3, SOON));
	/* It did not begin again. */
	EXPECT_EQ(0, *word_of(notes, BEGUN));
}

TEST_F(kinds, a_pm4_queue_stopped_inside_an_ib_continues_there)
{
	ASSERT_EQ(0, make(self, make_pm4, NULL));
	continues_in_the_ib(_metadata, self);
}

TEST_F(kinds, an_sdma_queue_stopped_inside_an_ib_continues_there)
{
	ASSERT_EQ(0, make(self, make_sdma_ib, NULL));
	continues_in_the_ib(_metadata, self);
}

TEST_HARNESS_MAIN
