// SPDX-License-Identifier: GPL-2.0
#include "carry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than the tables, the blob and the contents of all BOs take. */
#define MAILBOX_SIZE (256 << 20)

/* The child's results, in memory that both processes share. */
struct mailbox {
	int error;
	struct carry carry;
	size_t used;
	unsigned char data[];
};

static int mailbox_put(struct mailbox *box, const void *data, size_t size)
{
	if (size > MAILBOX_SIZE - sizeof(*box) - box->used)
		return -ENOSPC;
	memcpy(box->data + box->used, data, size);
	box->used += size;
	return 0;
}

/* A copy of the next part, and one byte more, so that it is never empty. */
static void *mailbox_take(struct mailbox *box, size_t *at, size_t size)
{
	void *copy = calloc(1, size + 1);

	if (copy)
		memcpy(copy, box->data + *at, size);
	*at += size;
	return copy;
}

/* Doorbells and the MMIO page have no contents. */
static bool has_memory(const struct amdgpu_criu_bo *bo)
{
	return bo->flags & (AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_USERPTR);
}

static int put_image(struct mailbox *box, const struct criu_image *image)
{
	int ret;
	__u32 i;

	if (image->num_bos > CARRY_BOS || image->num_devices > CARRY_GPUS)
		return -ENOSPC;
	box->carry.image = *image;
	for (i = 0; i < image->num_devices; i++)
		box->carry.has_vm[i] = image->devices[i].drm_fd >= 0;
	ret = mailbox_put(box, image->devices, image->num_devices * sizeof(*image->devices));
	if (!ret)
		ret = mailbox_put(box, image->bos, image->num_bos * sizeof(*image->bos));
	if (!ret)
		ret = mailbox_put(box, image->blob, image->blob_size);
	for (i = 0; !ret && i < image->num_bos; i++)
		if (has_memory(&image->bos[i]))
			ret = mailbox_put(box, (void *)(uintptr_t)image->bos[i].va,
					  image->bos[i].size);
	for (i = 0; !ret && i < CARRY_AREAS; i++)
		ret = mailbox_put(box, box->carry.areas[i].at, box->carry.areas[i].size);
	return ret;
}

static int child(struct mailbox *box, const struct carry_maker *maker)
{
	struct amdgpu_criu_process_info info;
	struct criu_image image;
	struct kfd kfd;
	int session;
	int ret = kfd_open(&kfd);

	kfd.next_address = CARRY_ADDRESS;
	if (!ret)
		ret = maker->make(&kfd, &box->carry);
	if (ret)
		return ret;
	session = criu_session(&kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	if (session < 0)
		return session;
	ret = criu_pause(&kfd.node, session, &info);
	if (!ret && maker->when_paused)
		ret = maker->when_paused(&kfd, &box->carry);
	if (!ret)
		ret = criu_checkpoint_for(&kfd.node, session, &image, maker->records,
					  maker->num_records);
	return ret ? ret : put_image(box, &image);
}

static int take_image(struct mailbox *box, struct carry *carry)
{
	struct criu_image *image = &carry->image;
	size_t at = 0;
	__u32 i;

	*carry = box->carry;
	image->devices = mailbox_take(box, &at, image->num_devices * sizeof(*image->devices));
	image->bos = mailbox_take(box, &at, image->num_bos * sizeof(*image->bos));
	image->blob = mailbox_take(box, &at, image->blob_size);
	if (!image->devices || !image->bos || !image->blob)
		return -ENOMEM;
	/* Descriptors of a process that has exited. */
	for (i = 0; i < image->num_devices; i++)
		image->devices[i].drm_fd = -1;
	for (i = 0; i < image->num_bos; i++)
		if (has_memory(&image->bos[i]))
			carry->contents[i] = mailbox_take(box, &at, image->bos[i].size);
	for (i = 0; i < CARRY_AREAS; i++)
		carry->area_contents[i] = mailbox_take(box, &at, carry->areas[i].size);
	return 0;
}

int carry_make(struct carry *carry, const struct carry_maker *maker)
{
	struct mailbox *box;
	int status, ret;
	pid_t pid;

	memset(carry, 0, sizeof(*carry));
	box = mmap(NULL, MAILBOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (box == MAP_FAILED)
		return -errno;
	pid = fork();
	if (!pid) {
		box->error = child(box, maker);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		ret = -errno;
	else if (!WIFEXITED(status))
		ret = -ECHILD;
	else
		ret = box->error;
	if (!ret)
		ret = take_image(box, carry);
	munmap(box, MAILBOX_SIZE);
	return ret;
}

int carry_open(struct carry *carry, struct kfd *kfd)
{
	struct kfd_gpu gpu;
	__u32 i;
	int ret;

	memset(kfd, 0, sizeof(*kfd));
	kfd->node.fd = -1;
	kfd->drm_fd = -1;
	ret = kfd_find_gpu(&kfd->gpu);
	if (!ret)
		ret = criu_node_open(&kfd->node, CRIU_NODE_KFD);
	for (i = 0; !ret && i < carry->image.num_devices; i++) {
		struct amdgpu_criu_device *device = &carry->image.devices[i];

		if (!carry->has_vm[i])
			continue;
		for (unsigned int j = 0; !kfd_gpu_at(j, &gpu); j++)
			if (gpu.gpu_id == device->actual_gpu_id)
				device->drm_fd = kfd_render_open(&gpu);
		if (device->drm_fd < 0)
			return -ENODEV;
		if (device->actual_gpu_id == kfd->gpu.gpu_id)
			kfd->drm_fd = dup(device->drm_fd);
	}
	return ret;
}

void carry_close(struct carry *carry, struct kfd *kfd)
{
	for (__u32 i = 0; carry->image.devices && i < carry->image.num_devices; i++) {
		if (carry->image.devices[i].drm_fd >= 0)
			close(carry->image.devices[i].drm_fd);
		carry->image.devices[i].drm_fd = -1;
	}
	kfd_close(kfd);
}

static int drm_fd_of(const struct carry *carry, __u32 gpu_id)
{
	for (__u32 i = 0; i < carry->image.num_devices; i++)
		if (carry->image.devices[i].gpu_id == gpu_id)
			return carry->image.devices[i].drm_fd;
	return -1;
}

static int fill_bo(const struct carry *carry, __u32 index)
{
	const struct amdgpu_criu_bo *bo = &carry->image.bos[index];
	const bool userptr = bo->flags & AMDGPU_CRIU_BO_USERPTR;
	void *at;

	if (!has_memory(bo))
		return 0;
	at = mmap((void *)(uintptr_t)bo->va, bo->size, PROT_READ | PROT_WRITE,
		  MAP_FIXED_NOREPLACE | (userptr ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
		  userptr ? -1 : drm_fd_of(carry, bo->gpu_id), userptr ? 0 : bo->new_mmap_offset);
	if (at == MAP_FAILED)
		return -errno;
	memcpy(at, carry->contents[index], bo->size);
	return 0;
}

int carry_fill(const struct carry *carry)
{
	int ret = 0;
	__u32 i;

	for (i = 0; !ret && i < carry->image.num_bos; i++)
		ret = fill_bo(carry, i);
	for (i = 0; !ret && i < CARRY_AREAS; i++) {
		const struct carry_area *area = &carry->areas[i];

		if (!area->size)
			continue;
		if (mmap(area->at, area->size, PROT_READ | PROT_WRITE,
			 MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			return -errno;
		memcpy(area->at, carry->area_contents[i], area->size);
	}
	return ret;
}

int carry_restore(struct carry *carry, struct kfd *kfd, int session)
{
	int ret = criu_restore(&kfd->node, session, &carry->image);

	if (!ret)
		ret = carry_fill(carry);
	return ret ? ret : criu_resume(&kfd->node, session, 0);
}

void carry_free(struct carry *carry)
{
	__u32 i;

	for (i = 0; i < CARRY_BOS; i++)
		free(carry->contents[i]);
	for (i = 0; i < CARRY_AREAS; i++)
		free(carry->area_contents[i]);
	criu_image_free(&carry->image);
	memset(carry, 0, sizeof(*carry));
}
