// SPDX-License-Identifier: GPL-2.0
/* Every kind of KFD state except queues, one at a time. */
#include "kinds.h"

/* --- Several GPUs */

static int make_far(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = kfd_open_other(kfd, 1, &notes->other);

	if (ret)
		return ret == -ENOENT ? LACKS : ret;
	ret = make_words(kfd, carry);
	notes->other.next_address = CARRY_ADDRESS + 0x40000000;
	if (!ret)
		ret = kfd_bo_alloc(&notes->other, &notes->far, KFD_VRAM, 0x10000);
	/* Each GPU's memory on the other GPU. */
	if (!ret)
		ret = kfd_bo_map(&notes->other, &notes->words);
	if (!ret)
		ret = kfd_bo_map(kfd, &notes->far);
	if (ret)
		return ret == -EINVAL || ret == -EPERM ? LACKS : ret;
	ret = kfd_sdma_create(kfd, &notes->queues[0]);
	return ret ? ret : kfd_sdma_create(&notes->other, &notes->queues[1]);
}

/* GTT and VRAM, each mapped on both GPUs; VRAM on the peer over XGMI or PCIe. */
TEST_F(kinds, bos_on_one_gpu_are_mapped_on_its_peer_again)
{
	struct notes *notes = self->notes;

	MAKE(make_far, "needs two GPUs with access to each other's VRAM");
	carry_over(_metadata, self, 2);
	for (int i = 0; i < 2; i++) {
		__u32 *far = (__u32 *)notes->far.at + i;

		kfd_sdma_write(&notes->queues[i], far, 0x77 + i);
		EXPECT_TRUE(kfd_becomes(far, 0x77 + i, SOON)) {
			TH_LOG("GPU %d", i);
		}
	}
}

/* --- Modes of the process and of its GPUs */

static int make_xnack(struct kfd *kfd, struct carry *carry)
{
	__s32 mode;
	int ret = set_xnack(kfd, -1, &mode);

	/* The other one than that of a new process, which a module parameter sets. */
	if (!ret)
		ret = set_xnack(kfd, !mode, &mode);
	if (ret == -EPERM)
		return LACKS;
	return ret ? ret : make_sdma(kfd, carry, 1);
}

TEST_F(kinds, xnack_mode_is_restored)
{
	__s32 was = -1, mode = -1;

	MAKE(make_xnack, "the GPUs have no XNACK mode for each process");
	ASSERT_EQ(0, set_xnack(&self->kfd, -1, &was));
	carry_over(_metadata, self, 1);
	ASSERT_EQ(0, set_xnack(&self->kfd, -1, &mode));
	EXPECT_EQ(!was, mode);
}

static int make_trap_handler(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_ioctl_set_trap_handler_args args = { .gpu_id = kfd->gpu.gpu_id };
	int ret = make_words(kfd, carry);

	args.tba_addr = (uintptr_t)notes->words.at;
	args.tma_addr = (uintptr_t)notes->words.at + 0x800;
	return ret ? ret : call(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &args);
}

TEST_F(kinds, trap_handlers_are_restored)
{
	ASSERT_EQ(0, make(self, make_trap_handler, NULL));
	carry_over(_metadata, self, 0);
}

static int read_apertures(const struct kfd *kfd, struct kfd_process_device_apertures *apertures)
{
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = (uintptr_t)apertures, .num_of_nodes = 2,
	};

	memset(apertures, 0, 2 * sizeof(*apertures));
	return call(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);
}

static int make_scratch(struct kfd *kfd, struct carry *carry)
{
	struct kfd_ioctl_set_scratch_backing_va_args args = {
		.va_addr = 0x300000000000, .gpu_id = kfd->gpu.gpu_id,
	};
	int ret = call(kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &args);

	return ret ? ret : read_apertures(kfd, notes_of(carry)->apertures);
}

TEST_F(kinds, apertures_of_lds_scratch_and_gpuvm_stay_the_same)
{
	struct kfd_process_device_apertures now[2];

	ASSERT_EQ(0, make(self, make_scratch, NULL));
	carry_over(_metadata, self, 0);
	ASSERT_EQ(0, read_apertures(&self->kfd, now));
	EXPECT_EQ(0, memcmp(now, self->notes->apertures, sizeof(now)));
}

static int make_memory_policy(struct kfd *kfd, struct carry *carry)
{
	struct kfd_ioctl_set_memory_policy_args args = {
		.gpu_id = kfd->gpu.gpu_id,
		.default_policy = KFD_IOC_CACHE_POLICY_NONCOHERENT,
		.alternate_policy = KFD_IOC_CACHE_POLICY_COHERENT,
		.alternate_aperture_base = 0x400000000000,
		.alternate_aperture_size = 0x10000000,
	};
	int ret = make_sdma(kfd, carry, 1);

	return ret ? ret : call(kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &args);
}

/* On GFX9 it is accepted without effect, except for a mode of GFX 9.5 that has a flag. */
TEST_F(kinds, a_process_that_has_set_a_memory_policy_continues)
{
	ASSERT_EQ(0, make(self, make_memory_policy, NULL));
	carry_over(_metadata, self, 1);
}

static int make_runtime(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	int ret = make_words(kfd, carry);

	args.r_debug = (uintptr_t)notes->words.at;
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
	return ret == -ENOTTY || ret == -EINVAL ? LACKS : ret;
}

TEST_F(kinds, runtime_enable_is_restored)
{
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};

	MAKE(make_runtime, "this kernel has no runtime-enable");
	carry_over(_metadata, self, 0);
	args.r_debug = (uintptr_t)self->notes->words.at;
	EXPECT_EQ(-EBUSY, call(&self->kfd, AMDKFD_IOC_RUNTIME_ENABLE, &args));
}

/* --- Events */

static int make_events(struct kfd *kfd, struct carry *carry)
{
	static const __u32 types[] = {
		KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_NODECHANGE,
		KFD_IOC_EVENT_DEVICESTATECHANGE,
	};
	int ret = 0;

	for (int i = 0; !ret && i < 4; i++) {
		struct kfd_ioctl_create_event_args args = {
			.event_type = types[i], .auto_reset = i % 2, .node_id = i,
		};

		ret = call(kfd, AMDKFD_IOC_CREATE_EVENT, &args);
		notes_of(carry)->ids[i] = args.event_id;
	}
	return ret;
}

/* Offsets in the record of an event, see kfd_criu_event_record. */
static __u32 *event_word(struct blob *blob, __u32 id, size_t word)
{
	size_t at;

	for (unsigned int i = 0; (at = blob_find(blob, BLOB_KFD_EVENT, i)); i++)
		if (*(__u32 *)blob_payload(blob, at) == id)
			return (__u32 *)blob_payload(blob, at) + word;
	return NULL;
}

/* The data of a GPU fault in an event has the gpu_id that the process uses. */
TEST_F(kinds, events_of_every_type_keep_their_data_with_its_gpu_id)
{
	struct kfd_event_data data = {};
	struct kfd_ioctl_wait_events_args wait = {
		.events_ptr = (uintptr_t)&data, .num_events = 1, .wait_for_all = 1,
	};
	struct kfd_hsa_memory_exception_data *memory;
	struct blob blob;

	ASSERT_EQ(0, make(self, make_events, NULL));
	blob.data = self->carry.image.blob;
	blob.size = self->carry.image.blob_size;
	/* The data of a fault, without a fault: as if it had occurred before the checkpoint. */
	*event_word(&blob, self->notes->ids[1], 2) |= 2;
	memory = (void *)event_word(&blob, self->notes->ids[1], 6);
	memory->failure.NotPresent = 1;
	memory->va = 0x123456789000;
	memory->gpu_id = self->kfd.gpu.gpu_id;
	blob_repair(&blob);
	carry_over(_metadata, self, 0);
	data.event_id = self->notes->ids[1];
	ASSERT_EQ(0, call(&self->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait));
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_COMPLETE, wait.wait_result);
	EXPECT_EQ(1, data.memory_exception_data.failure.NotPresent);
	EXPECT_EQ(0x123456789000, data.memory_exception_data.va);
	EXPECT_EQ(self->kfd.gpu.gpu_id, data.memory_exception_data.gpu_id);
	data.event_id = self->notes->ids[0];
	ASSERT_EQ(0, call(&self->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait));
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_TIMEOUT, wait.wait_result);
}

/* --- SVM */

#define SVM_PAGES 32
#define SVM_SIZE (SVM_PAGES * PAGE)

static int make_svm(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute first[] = {
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_HOST_ACCESS |
						KFD_IOCTL_SVM_FLAG_COHERENT },
		{ KFD_IOCTL_SVM_ATTR_CLR_FLAGS, ~(KFD_IOCTL_SVM_FLAG_HOST_ACCESS |
						  KFD_IOCTL_SVM_FLAG_COHERENT) },
		{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, kfd->gpu.gpu_id },
		/* Migrates to VRAM now. */
		{ KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 3 },
	};
	const struct kfd_ioctl_svm_attribute second[] = {
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_HOST_ACCESS |
						KFD_IOCTL_SVM_FLAG_GPU_RO |
						KFD_IOCTL_SVM_FLAG_GPU_EXEC },
		{ KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_LOCATION_SYSMEM },
	};
	struct notes *notes = notes_of(carry);
	int ret = make_sdma(kfd, carry, 1);

	if (!ret)
		ret = map_svm_memory(carry, 2 * SVM_SIZE);
	if (ret)
		return ret;
	for (size_t i = 0; i < 2 * SVM_SIZE / sizeof(__u32); i++)
		((__u32 *)notes->svm)[i] = i * 3;
	ret = kfd_set_svm(kfd, notes->svm, SVM_SIZE, first, ARRAY_SIZE(first));
	if (ret == -EPERM || ret == -EOPNOTSUPP || ret == -ENOTTY)
		return LACKS;
	return ret ? ret : kfd_set_svm(kfd, notes->svm + SVM_SIZE, SVM_SIZE, second,
				       ARRAY_SIZE(second));
}

TEST_F(kinds, svm_ranges_in_vram_and_in_system_memory_keep_attributes_and_contents)
{
	__u32 *words;

	MAKE(make_svm, "this kernel has no SVM ranges");
	carry_over(_metadata, self, 1);
	words = (__u32 *)self->notes->svm;
	for (size_t i = 0; i < 2 * SVM_SIZE / sizeof(__u32); i++) {
		ASSERT_EQ(i * 3, words[i]);
	}
	/* By the GPU, then by the CPU, in the range in VRAM. */
	kfd_sdma_write(&self->notes->queues[0], &words[100], 0xcafe);
	EXPECT_TRUE(kfd_becomes(&words[100], 0xcafe, SOON));
	words[101] = 0xbabe;
	kfd_sdma_write(&self->notes->queues[0], &words[102], 0xd00d);
	EXPECT_TRUE(kfd_becomes(&words[102], 0xd00d, SOON));
	EXPECT_EQ(0xbabe, words[101]);
}

static int make_svm_beside(struct kfd *kfd, struct carry *carry)
{
	struct kfd_ioctl_svm_attribute access = { .type = KFD_IOCTL_SVM_ATTR_ACCESS };
	struct notes *notes = notes_of(carry);
	struct kfd_gpu other;
	int ret = make_svm(kfd, carry);

	if (ret || kfd_gpu_at(1, &other))
		return ret;
	access.value = other.gpu_id;
	/* There is no memory, but the GPU is checked first. */
	notes->ids[0] = -kfd_set_svm(kfd, notes->svm + 2 * SVM_SIZE, PAGE, &access, 1);
	return 0;
}

/* @location: prefers the other GPU, instead of access by it. */
static int make_svm_of_two(struct kfd *kfd, struct carry *carry, bool location)
{
	const __u32 type = location ? KFD_IOCTL_SVM_ATTR_PREFERRED_LOC : KFD_IOCTL_SVM_ATTR_ACCESS;
	struct kfd_ioctl_svm_attribute attr = { .type = type };
	struct kfd_gpu other;
	int ret = make_svm(kfd, carry);

	if (ret || kfd_gpu_at(1, &other))
		return ret;
	attr.value = other.gpu_id;
	ret = kfd_set_svm(kfd, notes_of(carry)->svm + SVM_SIZE, SVM_SIZE, &attr, 1);
	/* That GPU has no SVM. */
	return ret == -EINVAL ? LACKS : ret;
}

static int make_svm_with_access(struct kfd *kfd, struct carry *carry)
{
	return make_svm_of_two(kfd, carry, false);
}

static int make_svm_with_location(struct kfd *kfd, struct carry *carry)
{
	return make_svm_of_two(kfd, carry, true);
}

/* The process has no VM on them. */
static void leave_out_gpus(FIXTURE_DATA(kinds) *self)
{
	for (__u32 i = 0; i < self->carry.image.num_devices; i++)
		if (!self->carry.has_vm[i])
			self->carry.image.devices[i].actual_gpu_id = 0;
}

TEST_F(kinds, access_to_svm_ranges_by_a_gpu_that_is_missing_is_omitted)
{
	__u32 *words;

	MAKE(make_svm_with_access, "these GPUs have no SVM ranges");
	if (self->carry.image.num_devices < 2)
		SKIP(return, "needs two GPUs");
	leave_out_gpus(self);
	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session)) {
		TH_LOG("%s", criu_reason);
	}
	words = (__u32 *)self->notes->svm;
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	kfd_sdma_write(&self->notes->queues[0], &words[100], 0xcafe);
	EXPECT_TRUE(kfd_becomes(&words[100], 0xcafe, SOON));
}

TEST_F(kinds, svm_ranges_whose_location_is_a_gpu_that_is_missing_are_ENODEV)
{
	MAKE(make_svm_with_location, "these GPUs have no SVM ranges");
	if (self->carry.image.num_devices < 2)
		SKIP(return, "needs two GPUs");
	leave_out_gpus(self);
	EXPECT_EQ(-ENODEV, criu_restore(&self->kfd.node, self->session, &self->carry.image));
	EXPECT_NE(NULL, strstr(criu_reason, "its location, GPU ")) {
		TH_LOG("%s", criu_reason);
	}
}

/* The suite kselftest-svm has such a GPU. Elsewhere the other GPU is not refused for this. */
TEST_F(kinds, svm_ranges_for_a_gpu_without_svm_are_ENODEV)
{
	struct criu_image *image = &self->carry.image;
	struct kfd_gpu other;
	int ret;

	MAKE(make_svm_beside, "this kernel has no SVM ranges");
	if (kfd_gpu_at(1, &other))
		SKIP(return, "needs two GPUs");
	for (__u32 i = 0; i < image->num_devices; i++) {
		const bool used = self->carry.has_vm[i];

		if (used)
			close(image->devices[i].drm_fd);
		image->devices[i].drm_fd = used ? kfd_render_open(&other) : -1;
		image->devices[i].actual_gpu_id = used ? other.gpu_id : 0;
	}
	ret = criu_restore(&self->kfd.node, self->session, image);
	if (self->notes->ids[0] == EINVAL) {
		EXPECT_EQ(-ENODEV, ret);
	}
	EXPECT_EQ(self->notes->ids[0] == EINVAL, !!strstr(criu_reason, "has no SVM"));
}

TEST_HARNESS_MAIN
