// SPDX-License-Identifier: GPL-2.0
/*
 * Blobs of released formats, created once and restored by every later kernel. Tests of the host
 * (kernel/tests) read the same files; here they become processes again.
 *
 *   golden --write DIRECTORY    writes blobs of this format, for a new fixture
 */
#include "kselftest_harness.h"

#include <fcntl.h>

#include "blob_edit.h"
#include "carry.h"
#include "state.h"

#define SVM_SIZE 0x40000
/* The GPU that they were written on, an MI200. */
#define GFX_VERSION 90010
#define DEVICES 16

/* Fields of records that a table needs: see kfd_criu_records.h. */
struct bo_fields {
	__u64 object_id, size, va, user_addr, mmap_offset;
	__u32 gpu_id, handle, alloc_flags, table_flags, domain, num_mapped;
};

struct svm_fields {
	__u64 start, size;
};

/* --- Writing blobs */

static int call(const struct kfd *kfd, unsigned long cmd, void *args)
{
	return ioctl(kfd->node.fd, cmd, args) ? -errno : 0;
}

static int make_svm(struct kfd *kfd)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attrs[3];
	} svm = {
		.args = { .size = SVM_SIZE, .op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = 3 },
		.attrs = {
			{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
			{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC },
			{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 },
		},
	};
	void *at = mmap(CARRY_ADDRESS + 0x80000000, SVM_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	svm.args.start_addr = (uintptr_t)at;
	return at == MAP_FAILED ? -errno :
	       call(kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(svm)), &svm);
}

/* One GPU, with some of every kind of state. */
static int make_one(struct kfd *kfd, struct carry *carry)
{
	const __u32 mask[] = { 0x0f0f0f0f, 0x33333333 };
	struct state *state = (struct state *)carry->notes;
	struct kfd_ioctl_set_cu_mask_args cu = {
		.num_cu_mask = 64, .cu_mask_ptr = (uintptr_t)mask,
	};
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_MEMORY };
	struct kfd_ioctl_set_trap_handler_args trap = { .gpu_id = kfd->gpu.gpu_id };
	struct kfd_ioctl_runtime_enable_args runtime = {
		.r_debug = (uintptr_t)CARRY_ADDRESS,
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	struct kfd_queue queues[2];
	/* Before any queue is created. */
	int ret = call(kfd, AMDKFD_IOC_RUNTIME_ENABLE, &runtime);

	if (!ret)
		ret = state_make(kfd, state);
	trap.tba_addr = (uintptr_t)state->gtt.at;
	cu.queue_id = state->compute;
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_SET_CU_MASK, &cu);
	if (!ret)
		ret = kfd_compute_make(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &queues[0]);
	if (!ret)
		ret = kfd_queue_update(kfd, &queues[0], 0, 11);
	if (!ret)
		ret = kfd_sdma_create_as(kfd, &queues[1], KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 1);
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_CREATE_EVENT, &event);
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &trap);
	return ret ? ret : make_svm(kfd);
}

/* Two GPUs, each with access to the other's memory. */
static int make_two(struct kfd *kfd, struct carry *carry)
{
	struct kfd_queue queues[2];
	struct kfd_bo here, there;
	struct kfd other;
	int ret = kfd_open_other(kfd, 1, &other);

	other.next_address = CARRY_ADDRESS + 0x40000000;
	if (!ret)
		ret = kfd_bo_alloc(kfd, &here, KFD_GTT, 0x1000);
	if (!ret)
		ret = kfd_bo_alloc(&other, &there, KFD_VRAM, 0x10000);
	if (!ret)
		ret = kfd_bo_map(&other, &here);
	if (!ret)
		ret = kfd_bo_map(kfd, &there);
	if (!ret)
		ret = kfd_sdma_create(kfd, &queues[0]);
	return ret ? ret : kfd_sdma_create(&other, &queues[1]);
}

static int write_one(const char *directory, const char *name,
		     int (*make)(struct kfd *, struct carry *))
{
	const struct carry_maker maker = { .make = make };
	struct carry carry;
	char path[512];
	FILE *file;
	int ret = carry_make(&carry, &maker);

	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/%s.blob", directory, name);
	file = fopen(path, "w");
	if (!file || fwrite(carry.image.blob, carry.image.blob_size, 1, file) != 1 || fclose(file))
		return -errno;
	printf("%s: %zu bytes\n", path, carry.image.blob_size);
	return 0;
}

static void __attribute__((constructor)) write_all(int argc, char **argv)
{
	int ret;

	if (argc != 3 || strcmp(argv[1], "--write"))
		return;
	ret = write_one(argv[2], "kfd-1-one-gpu", make_one);
	if (!ret)
		ret = write_one(argv[2], "kfd-1-two-gpus", make_two);
	if (ret)
		fprintf(stderr, "golden: %s\n", strerror(-ret));
	_exit(!!ret);
}

/* --- Restoring blobs */

FIXTURE(golden) {
	struct carry carry;
	struct kfd kfd;
	struct blob blob;
	int session;
};

FIXTURE_VARIANT(golden) {
	const char *file;
	unsigned int gpus;
};

FIXTURE_VARIANT_ADD(golden, kfd_1_one_gpu) {
	.file = "kfd-1-one-gpu.blob", .gpus = 1,
};

FIXTURE_VARIANT_ADD(golden, kfd_1_two_gpus) {
	.file = "kfd-1-two-gpus.blob", .gpus = 2,
};

static bool load(const char *name, struct carry *carry)
{
	char path[256];
	FILE *file;
	long size;

	snprintf(path, sizeof(path), "blobs/%s", name);
	file = fopen(path, "r");
	if (!file)
		return false;
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	carry->image.blob = malloc(size + 1);
	carry->image.blob_size = fread(carry->image.blob, 1, size, file);
	fclose(file);
	return carry->image.blob_size == (size_t)size;
}

/* The tables that CHECKPOINT returned with the blob can be derived from it. */
static void make_tables(struct carry *carry, struct blob *blob)
{
	struct criu_image *image = &carry->image;
	struct bo_fields bo;
	struct kfd_gpu gpu;
	size_t at;

	image->devices = calloc(DEVICES, sizeof(*image->devices));
	image->bos = calloc(CARRY_BOS, sizeof(*image->bos));
	for (; (at = blob_find(blob, BLOB_KFD_DEVICE, image->num_devices)); image->num_devices++) {
		struct amdgpu_criu_device *device = &image->devices[image->num_devices];
		const __u32 *fields = blob_payload(blob, at);

		device->gpu_id = fields[0];
		device->actual_gpu_id = kfd_gpu_at(image->num_devices, &gpu) ? 0 : gpu.gpu_id;
		device->drm_fd = -1;
		carry->has_vm[image->num_devices] = fields[1] & 1;
	}
	for (; (at = blob_find(blob, BLOB_KFD_BO, image->num_bos)); image->num_bos++) {
		memcpy(&bo, blob_payload(blob, at), sizeof(bo));
		image->bos[image->num_bos] = (struct amdgpu_criu_bo) {
			.object_id = bo.object_id, .size = bo.size, .va = bo.va,
			.mmap_offset = bo.mmap_offset, .gpu_id = bo.gpu_id, .handle = bo.handle,
			.domain = bo.domain, .flags = bo.table_flags,
		};
		carry->contents[image->num_bos] = calloc(1, bo.size);
	}
	for (unsigned int i = 0; (at = blob_find(blob, BLOB_KFD_SVM_RANGE, i)); i++) {
		struct svm_fields svm;

		memcpy(&svm, blob_payload(blob, at), sizeof(svm));
		carry->areas[i].at = (void *)(uintptr_t)svm.start;
		carry->areas[i].size = svm.size;
		carry->area_contents[i] = calloc(1, svm.size);
	}
}

FIXTURE_SETUP(golden)
{
	struct kfd_gpu gpu;

	if (kfd_gpu_at(variant->gpus - 1, &gpu))
		SKIP(return, "needs %u GPUs in the topology of KFD", variant->gpus);
	if (gpu.gfx_version != GFX_VERSION)
		SKIP(return, "the golden blobs are from another GPU generation");
	self->kfd.node.fd = -1;
	self->kfd.drm_fd = -1;
	if (access("blobs", X_OK))
		SKIP(return, "no directory with golden blobs here");
	ASSERT_TRUE(load(variant->file, &self->carry)) {
		TH_LOG("%s", variant->file);
	}
	ASSERT_TRUE(blob_copy(&self->blob, self->carry.image.blob, self->carry.image.blob_size));
	make_tables(&self->carry, &self->blob);
	ASSERT_EQ(0, carry_open(&self->carry, &self->kfd));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(golden)
{
	blob_free(&self->blob);
	close(self->session);
	carry_close(&self->carry, &self->kfd);
	carry_free(&self->carry);
}

static unsigned int count(struct blob *blob, __u16 type)
{
	unsigned int num = 0;

	while (blob_find(blob, type, num))
		num++;
	return num;
}

TEST_F(golden, is_restored_with_all_of_its_state)
{
	static const __u16 types[] = {
		BLOB_KFD_PROCESS, BLOB_KFD_BO, BLOB_KFD_EVENT_PAGE, BLOB_KFD_EVENT, BLOB_KFD_QUEUE,
		BLOB_KFD_SVM_RANGE,
	};
	struct criu_image again;
	struct blob blob;
	int session;
	int ret = criu_restore(&self->kfd.node, self->session, &self->carry.image);

	if (ret == -EOPNOTSUPP && count(&self->blob, BLOB_KFD_SVM_RANGE))
		SKIP(return, "this kernel has no SVM ranges");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, carry_fill(&self->carry));
	ASSERT_EQ(0, criu_resume(&self->kfd.node, self->session, 0));
	session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->kfd.node, session, &again));
	blob.data = again.blob;
	blob.size = again.blob_size;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		EXPECT_EQ(count(&self->blob, types[i]), count(&blob, types[i])) {
			TH_LOG("type %#x", types[i]);
		}
	}
	for (__u32 i = 0; i < again.num_bos; i++) {
		EXPECT_EQ(self->carry.image.bos[i].va, again.bos[i].va);
		EXPECT_EQ(self->carry.image.bos[i].handle, again.bos[i].handle);
		EXPECT_EQ(self->carry.image.bos[i].gpu_id, again.bos[i].gpu_id);
	}
	criu_image_free(&again);
	close(session);
}

TEST_HARNESS_MAIN
