// SPDX-License-Identifier: GPL-2.0
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than the tables, the blob and the contents of all BOs take. */
#define MAILBOX_SIZE (64 << 20)

int state_make(struct kfd *kfd, struct state *state)
{
	int ret;

	memset(state, 0, sizeof(*state));
	kfd->next_address = STATE_ADDRESS;
	ret = kfd_bo_alloc(kfd, &state->vram, KFD_VRAM, STATE_VRAM_SIZE);
	if (!ret)
		ret = kfd_bo_alloc(kfd, &state->gtt, KFD_GTT, STATE_GTT_SIZE);
	if (!ret)
		ret = kfd_bo_alloc(kfd, &state->userptr, KFD_USERPTR, STATE_USERPTR_SIZE);
	if (!ret)
		ret = kfd_sdma_create(kfd, &state->sdma);
	if (!ret)
		ret = kfd_compute_create(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &state->compute);
	if (!ret)
		ret = kfd_event_create(kfd, true, &state->event_auto);
	if (!ret)
		ret = kfd_event_create(kfd, false, &state->event_manual);
	if (!ret)
		ret = kfd_event_create(kfd, false, &state->event_set);
	if (!ret)
		ret = kfd_event_set(kfd, state->event_set);
	return ret;
}

static __u32 pattern(__u32 seed, size_t bo, size_t word)
{
	return (seed + bo * 0x1000193 + word) * 0x9e3779b1;
}

void state_fill(const struct state *state, __u32 seed)
{
	const struct kfd_bo *bos[] = { &state->vram, &state->gtt, &state->userptr };
	size_t i, word;

	for (i = 0; i < 3; i++)
		for (word = 0; word < bos[i]->size / sizeof(__u32); word++)
			((__u32 *)bos[i]->at)[word] = pattern(seed, i, word);
}

bool state_is_filled(const struct state *state, __u32 seed)
{
	const struct kfd_bo *bos[] = { &state->vram, &state->gtt, &state->userptr };
	size_t i, word;

	for (i = 0; i < 3; i++)
		for (word = 0; word < bos[i]->size / sizeof(__u32); word++)
			if (((__u32 *)bos[i]->at)[word] != pattern(seed, i, word))
				return false;
	return true;
}

/* What the child leaves in memory that both processes see. */
struct mailbox {
	int error;
	struct state state;
	__u32 num_devices;
	__u32 num_bos;
	size_t blob_size;
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

/* A copy of the next piece, and one byte more, so that it is never nothing. */
static void *mailbox_take(struct mailbox *box, size_t *at, size_t size)
{
	void *copy = calloc(1, size + 1);

	if (copy)
		memcpy(copy, box->data + *at, size);
	*at += size;
	return copy;
}

static int put_image(struct mailbox *box, const struct criu_image *image)
{
	int ret;
	__u32 i;

	box->num_devices = image->num_devices;
	box->num_bos = image->num_bos;
	box->blob_size = image->blob_size;
	ret = mailbox_put(box, image->devices, image->num_devices * sizeof(*image->devices));
	if (!ret)
		ret = mailbox_put(box, image->bos, image->num_bos * sizeof(*image->bos));
	if (!ret)
		ret = mailbox_put(box, image->blob, image->blob_size);
	for (i = 0; !ret && i < image->num_bos; i++)
		ret = mailbox_put(box, (void *)(uintptr_t)image->bos[i].va, image->bos[i].size);
	return ret;
}

static int child(struct mailbox *box)
{
	struct criu_image image;
	struct kfd kfd;
	int session;
	int ret = kfd_open(&kfd);

	if (!ret)
		ret = state_make(&kfd, &box->state);
	if (ret)
		return ret;
	state_fill(&box->state, 1);
	session = criu_session(&kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	if (session < 0)
		return session;
	ret = criu_checkpoint(&kfd.node, session, &image);
	if (!ret && image.num_bos != STATE_BOS)
		ret = -EINVAL;
	if (!ret)
		ret = put_image(box, &image);
	return ret;
}

static int take_image(struct mailbox *box, struct state_image *saved)
{
	struct criu_image *image = &saved->image;
	size_t at = 0;
	__u32 i;

	saved->state = box->state;
	image->num_devices = box->num_devices;
	image->num_bos = box->num_bos;
	image->blob_size = box->blob_size;
	image->devices = mailbox_take(box, &at, box->num_devices * sizeof(*image->devices));
	image->bos = mailbox_take(box, &at, box->num_bos * sizeof(*image->bos));
	image->blob = mailbox_take(box, &at, box->blob_size);
	if (!image->devices || !image->bos || !image->blob)
		return -ENOMEM;
	/* Descriptors of a process that is no more. */
	for (i = 0; i < image->num_devices; i++)
		image->devices[i].drm_fd = -1;
	for (i = 0; i < image->num_bos; i++) {
		saved->contents[i] = mailbox_take(box, &at, image->bos[i].size);
		if (!saved->contents[i])
			return -ENOMEM;
	}
	return 0;
}

int state_image_make(struct state_image *saved)
{
	struct mailbox *box;
	int status, ret;
	pid_t pid;

	memset(saved, 0, sizeof(*saved));
	box = mmap(NULL, MAILBOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (box == MAP_FAILED)
		return -errno;
	pid = fork();
	if (!pid) {
		box->error = child(box);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		ret = -errno;
	else if (!WIFEXITED(status))
		ret = -ECHILD;
	else
		ret = box->error;
	if (!ret)
		ret = take_image(box, saved);
	munmap(box, MAILBOX_SIZE);
	return ret;
}

void state_image_free(struct state_image *saved)
{
	__u32 i;

	for (i = 0; i < STATE_BOS; i++)
		free(saved->contents[i]);
	criu_image_free(&saved->image);
	memset(saved, 0, sizeof(*saved));
}

int state_target_open(struct kfd *kfd, struct state_image *saved)
{
	struct amdgpu_criu_device *device;
	__u32 i;
	int ret;

	memset(kfd, 0, sizeof(*kfd));
	kfd->node.fd = -1;
	kfd->drm_fd = -1;
	ret = kfd_find_gpu(&kfd->gpu);
	if (!ret)
		ret = criu_node_open(&kfd->node, CRIU_NODE_KFD);
	if (ret)
		return ret;
	kfd->drm_fd = kfd_render_open(&kfd->gpu);
	if (kfd->drm_fd < 0)
		return kfd->drm_fd;
	for (i = 0; i < saved->image.num_devices; i++) {
		device = &saved->image.devices[i];
		if (device->actual_gpu_id != kfd->gpu.gpu_id)
			continue;
		device->drm_fd = dup(kfd->drm_fd);
		return device->drm_fd < 0 ? -errno : 0;
	}
	return -ENODEV;
}
