// SPDX-License-Identifier: GPL-2.0
/*
 * XNACK: a GPU repeats accesses to pages that it has not mapped, until the driver has mapped them.
 * Here these are pages of SVM ranges, which migrate to VRAM when the GPU misses them.
 */
#include <time.h>

#include "complaints.h"
#include "kinds.h"

#define RANGE_SIZE 0x40000
#define RANGE_WORDS (RANGE_SIZE / sizeof(__u32))
#define NO_MEMORY ((__u32 *)0x123456789000)
#define LAST_FAULT "no-retry page fault (src_id"

/* Faults of this process that the driver has handled. */
static long handled_faults(const struct kfd *kfd)
{
	char path[128];
	long faults = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/counters_%u/faults", getpid(),
		 kfd->gpu.gpu_id);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &faults) != 1)
		faults = -1;
	fclose(file);
	return faults;
}

/* Not mapped until the GPU misses it. */
static int register_range(const struct kfd *kfd, char *at, __u32 location)
{
	const struct kfd_ioctl_svm_attribute attrs[] = {
		{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, location },
	};

	return kfd_set_svm(kfd, at, RANGE_SIZE, attrs, ARRAY_SIZE(attrs));
}

/* The CPU writes the first range, the GPU copies it to the second, the CPU reads that. */
static int copy_by_gpu(struct notes *notes, __u32 number)
{
	__u32 *from = (__u32 *)notes->svm, *to = from + RANGE_WORDS;
	__u32 *word = notes->words.at;

	for (size_t i = 0; i < RANGE_WORDS; i++)
		from[i] = number + i;
	kfd_sdma_copy(&notes->queues[0], to, from, RANGE_SIZE);
	kfd_sdma_write(&notes->queues[0], word, number);
	if (!kfd_becomes(word, number, SOON))
		return -ETIME;
	return memcmp(from, to, RANGE_SIZE) ? -EIO : 0;
}

static int make_ranges(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	__s32 mode;
	int ret = set_xnack(kfd, 1, &mode);

	if (ret == -EPERM)
		return LACKS;
	if (!ret)
		ret = make_sdma(kfd, carry, 1);
	if (!ret)
		ret = map_svm_memory(carry, 2 * RANGE_SIZE);
	if (ret)
		return ret;
	ret = register_range(kfd, notes->svm, KFD_IOCTL_SVM_LOCATION_SYSMEM);
	if (!ret)
		ret = register_range(kfd, notes->svm + RANGE_SIZE, kfd->gpu.gpu_id);
	/* The second time, the range has migrated back. */
	for (__u32 number = 1; !ret && number <= 2; number++)
		ret = copy_by_gpu(notes, number);
	if (!ret && handled_faults(kfd) < 3)
		return -ENODEV;
	return ret;
}

TEST_F(kinds, pages_that_the_gpu_misses_are_mapped_also_after_a_restore)
{
	struct notes *notes = self->notes;
	const __u32 *copied;
	long faults;

	MAKE(make_ranges, "the GPUs have no XNACK mode for each process");
	carry_over(_metadata, self, 1);
	copied = (__u32 *)(notes->svm + RANGE_SIZE);
	for (size_t i = 0; i < RANGE_WORDS; i++) {
		ASSERT_EQ(2 + i, copied[i]);
	}
	faults = handled_faults(&self->kfd);
	EXPECT_LE(0, faults);
	EXPECT_EQ(0, copy_by_gpu(notes, 3));
	EXPECT_LT(faults, handled_faults(&self->kfd));
}

/* A range with XNACK has ACCESS of all GPUs, also of those that the process does not use. */
TEST_F(kinds, ranges_are_restored_also_where_a_gpu_is_missing)
{
	struct criu_image *image = &self->carry.image;

	MAKE(make_ranges, "the GPUs have no XNACK mode for each process");
	if (image->num_devices < 2)
		SKIP(return, "needs two GPUs");
	for (__u32 i = 0; i < image->num_devices; i++)
		if (!self->carry.has_vm[i])
			image->devices[i].actual_gpu_id = 0;
	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session)) {
		TH_LOG("%s", criu_reason);
	}
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	EXPECT_EQ(0, copy_by_gpu(self->notes, 3));
}

/* Far more than the machine has: programs reserve memory that they never use. */
#define RESERVED_SIZE (1ULL << 35)

static int map_reserved(struct notes *notes)
{
	notes->svm = mmap(CARRY_ADDRESS + 0x80000000, RESERVED_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	return notes->svm == MAP_FAILED ? -errno : 0;
}

static int make_reserved(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute access = {
		KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id
	};
	struct notes *notes = notes_of(carry);
	__s32 mode;
	int ret = set_xnack(kfd, 1, &mode);

	if (ret == -EPERM)
		return LACKS;
	ret = ret ? ret : map_reserved(notes);
	return ret ? ret : kfd_set_svm(kfd, notes->svm, RESERVED_SIZE, &access, 1);
}

TEST_F(kinds, memory_that_is_not_there_is_not_looked_for)
{
	struct timespec begin, end;

	MAKE(make_reserved, "the GPUs have no XNACK mode for each process");
	ASSERT_EQ(0, map_reserved(self->notes));
	clock_gettime(CLOCK_MONOTONIC, &begin);
	carry_over(_metadata, self, 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	EXPECT_GT(SOON * patience(), (end.tv_sec - begin.tv_sec) * 1000);
}

/* The driver ends the retries: by an entry in the page table that is no page. */
TEST_F(kinds, access_of_a_gpu_with_xnack_to_no_memory_is_a_memory_exception)
{
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_MEMORY };
	struct kfd_event_data data = {};
	struct kfd_ioctl_wait_events_args wait = {
		.events_ptr = (uintptr_t)&data, .num_events = 1, .wait_for_all = 1,
		.timeout = SOON,
	};
	int kmsg;

	MAKE(make_ranges, "the GPUs have no XNACK mode for each process");
	carry_over(_metadata, self, 1);
	kmsg = complaints_open();
	ASSERT_LE(0, kmsg);
	ASSERT_EQ(0, call(&self->kfd, AMDKFD_IOC_CREATE_EVENT, &event));
	complaints_allow("page fault \\(src_id|VM fault: VMID .*: marked as not accessible");
	kfd_sdma_write(&self->notes->queues[0], NO_MEMORY, 1);
	data.event_id = event.event_id;
	EXPECT_EQ(0, call(&self->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait));
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_COMPLETE, wait.wait_result);
	EXPECT_EQ((uintptr_t)NO_MEMORY, data.memory_exception_data.va);
	EXPECT_EQ(0, kfd_queue_destroy(&self->kfd, self->notes->queues[0].id));
	/* The access that ends the retries. Messages of retries and the event may precede it. */
	EXPECT_TRUE(complaints_wait(kmsg, LAST_FAULT, 10 * patience()));
	close(kmsg);
	/* Retries that came before it may be reported later, so they are allowed to the end. */
}

TEST_HARNESS_MAIN
