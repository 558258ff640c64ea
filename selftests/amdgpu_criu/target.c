// SPDX-License-Identifier: GPL-2.0
#include "target.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail_nth.h"
#include "target_queues.h"

#define PAGE 4096
#define BASE ((char *)0x100000000000)
#define AREA_SPACE 0x10000000

static int kfd_call(int fd, unsigned long cmd, void *args)
{
	return ioctl(fd, cmd, args) ? -errno : 0;
}

static bool is_userptr(const struct target_bo *bo)
{
	return bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
}

static bool is_svm(const struct target_bo *bo)
{
	return !bo->flags;
}

/* The process's ordinary memory, which these tests do not restore. */
static bool is_memory(const struct target_bo *bo)
{
	return is_userptr(bo) || is_svm(bo);
}

static void describe(struct target_state *state, enum target_area area, __u32 flags, size_t size)
{
	struct target_bo *bo = &state->bos[area];

	bo->at = BASE + (size_t)area * AREA_SPACE;
	bo->size = size;
	if (flags)
		bo->flags = flags | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			    KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
			    KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;
}

static bool read_property(int node, const char *name, unsigned long *value)
{
	char path[96], word[64];
	FILE *file;
	bool found = false;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%d/properties", node);
	file = fopen(path, "r");
	while (file && !found && fscanf(file, "%63s %lu", word, value) == 2)
		found = !strcmp(word, name);
	if (file)
		fclose(file);
	return found;
}

static __u32 read_gpu_id(int node)
{
	char path[96];
	unsigned int id = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%d/gpu_id", node);
	file = fopen(path, "r");
	if (file && fscanf(file, "%u", &id) != 1)
		id = 0;
	if (file)
		fclose(file);
	return id;
}

int target_find_places(struct target_place places[2])
{
	unsigned long minor, domain, location;
	int node, found = 0;

	for (node = 0; node < 64 && found < 2; node++) {
		places[found].gpu_id = read_gpu_id(node);
		if (!places[found].gpu_id || !read_property(node, "drm_render_minor", &minor) ||
		    !read_property(node, "domain", &domain) ||
		    !read_property(node, "location_id", &location))
			continue;
		/* KFD gives each partition a PCI function. */
		places[found].chip = domain << 32 | location >> 3;
		places[found++].render_minor = minor;
	}
	return found == 2 ? 0 : -ENODEV;
}

static void describe_all(struct target_state *state)
{
	describe(state, TARGET_VRAM, KFD_VRAM, 0x100000);
	describe(state, TARGET_GTT, KFD_GTT, 0x40000);
	describe(state, TARGET_USERPTR, KFD_USERPTR, 0x10000);
	describe(state, TARGET_HIDDEN, KFD_VRAM, 0x3000);
	describe(state, TARGET_WORDS, KFD_GTT, PAGE);
	describe(state, TARGET_EVENT_PAGE, KFD_GTT, 0x8000);
	describe(state, TARGET_PM4_RING, KFD_GTT, TARGET_RING_SIZE);
	describe(state, TARGET_PM4_POINTERS, KFD_GTT, PAGE);
	describe(state, TARGET_PM4_EOP, KFD_VRAM, PAGE);
	describe(state, TARGET_PM4_CWSR, KFD_GTT, state->gpu.cwsr_area);
	describe(state, TARGET_AQL_RING, KFD_USERPTR, TARGET_RING_SIZE);
	describe(state, TARGET_AQL_POINTERS, KFD_GTT, PAGE);
	describe(state, TARGET_AQL_EOP, KFD_VRAM, PAGE);
	describe(state, TARGET_AQL_CWSR, state->gpu.svm ? 0 : KFD_GTT, state->gpu.cwsr_area);
	describe(state, TARGET_SDMA_RING, KFD_GTT, TARGET_RING_SIZE);
	describe(state, TARGET_SDMA_POINTERS, KFD_GTT, PAGE);
	describe(state, TARGET_DOORBELL, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, TARGET_DOORBELL_SIZE);
}

struct target_state *target_state_make(void)
{
	struct target_state *state;
	unsigned int i;

	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (state == MAP_FAILED)
		return NULL;
	if (kfd_find_gpu(&state->gpu))
		return NULL;
	state->place.gpu_id = state->gpu.gpu_id;
	state->place.render_minor = state->gpu.render_minor;
	describe_all(state);
	for (i = 0; i < TARGET_AREAS; i++)
		if (is_memory(&state->bos[i]) &&
		    mmap(state->bos[i].at, state->bos[i].size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return NULL;
	return state;
}

static int open_nodes(struct target_state *state)
{
	char path[32];

	state->kfd_fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (state->kfd_fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/dev/dri/renderD%d", state->place.render_minor);
	state->drm_fd = open(path, O_RDWR | O_CLOEXEC);
	return state->drm_fd < 0 ? -errno : 0;
}

static int map_area(struct target_state *state, struct target_bo *bo, __u64 offset)
{
	bool doorbell = bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL;

	if (is_memory(bo))
		return 0;
	return mmap(bo->at, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    doorbell ? state->kfd_fd : state->drm_fd, offset) == MAP_FAILED ? -errno : 0;
}

static int register_svm(struct target_state *state, struct target_bo *bo)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attrs[3];
	} svm = {
		.args = {
			.start_addr = (uintptr_t)bo->at,
			.size = bo->size,
			.op = KFD_IOCTL_SVM_OP_SET_ATTR,
			.nattr = 3,
		},
		.attrs = {
			{ KFD_IOCTL_SVM_ATTR_SET_FLAGS,
			  KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_GPU_EXEC |
			  KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED },
			{ KFD_IOCTL_SVM_ATTR_ACCESS, state->gpu.gpu_id },
			{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 },
		},
	};

	return kfd_call(state->kfd_fd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(svm)), &svm);
}

static int alloc_area(struct target_state *state, enum target_area area)
{
	struct target_bo *bo = &state->bos[area];
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)bo->at,
		.size = bo->size,
		.gpu_id = state->gpu.gpu_id,
		.flags = bo->flags,
		.mmap_offset = is_userptr(bo) ? (uintptr_t)bo->at : 0,
	};
	struct kfd_ioctl_map_memory_to_gpu_args map = {
		.device_ids_array_ptr = (uintptr_t)&state->gpu.gpu_id,
		.n_devices = 1,
	};
	int ret;

	if (is_svm(bo))
		return register_svm(state, bo);
	ret = kfd_call(state->kfd_fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	if (ret)
		return ret;
	bo->handle = args.handle;
	map.handle = args.handle;
	/* The first queue returns the offset of doorbells. */
	if (area != TARGET_DOORBELL)
		ret = map_area(state, bo, args.mmap_offset);
	if (!ret && area != TARGET_HIDDEN)
		ret = kfd_call(state->kfd_fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map);
	return ret;
}

/* A second handle of a BO, at another address. */
static int import_area(const struct target_state *state, enum target_area area)
{
	struct kfd_ioctl_export_dmabuf_args export = {
		.handle = state->bos[area].handle, .flags = O_CLOEXEC,
	};
	struct kfd_ioctl_import_dmabuf_args args = {
		.va_addr = (uintptr_t)BASE + (size_t)(TARGET_AREAS + 1) * AREA_SPACE,
		.gpu_id = state->gpu.gpu_id,
	};
	int ret = kfd_call(state->kfd_fd, AMDKFD_IOC_EXPORT_DMABUF, &export);

	if (ret)
		return ret;
	args.dmabuf_fd = export.dmabuf_fd;
	ret = kfd_call(state->kfd_fd, AMDKFD_IOC_IMPORT_DMABUF, &args);
	close(export.dmabuf_fd);
	return ret;
}

/* Frees a handle, so that the numbers of the others have a gap. */
static int leave_hole(struct target_state *state)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)BASE + (size_t)TARGET_AREAS * AREA_SPACE,
		.size = PAGE,
		.gpu_id = state->gpu.gpu_id,
		.flags = KFD_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
	};
	struct kfd_ioctl_free_memory_of_gpu_args give = {};
	int ret = kfd_call(state->kfd_fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);

	give.handle = args.handle;
	for (enum target_area area = 0; !ret && area < TARGET_AREAS; area++)
		ret = alloc_area(state, area);
	if (!ret)
		ret = import_area(state, TARGET_GTT);
	return ret ? ret : kfd_call(state->kfd_fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &give);
}

static __u32 pattern(enum target_area area, size_t word)
{
	return (__u32)(word * 2654435761u) ^ (area + 1) * 0x01010101u;
}

static size_t data_words(const struct target_state *state, enum target_area area)
{
	return area <= TARGET_HIDDEN ? state->bos[area].size / sizeof(__u32) : 0;
}

static void fill_data(struct target_state *state)
{
	for (enum target_area area = 0; area <= TARGET_HIDDEN; area++)
		for (size_t i = 0; i < data_words(state, area); i++)
			((__u32 *)state->bos[area].at)[i] = pattern(area, i);
}

static int verify_data(const struct target_state *state)
{
	for (enum target_area area = 0; area <= TARGET_HIDDEN; area++)
		for (size_t i = 0; i < data_words(state, area); i++)
			if (((__u32 *)state->bos[area].at)[i] != pattern(area, i)) {
				fprintf(stderr, "# area %d: word %zu is %#x\n", area, i,
					((__u32 *)state->bos[area].at)[i]);
				return -EILSEQ;
			}
	return 0;
}

static int create(struct target_state *state)
{
	struct kfd_ioctl_acquire_vm_args acquire = { .gpu_id = state->gpu.gpu_id };
	struct kfd_ioctl_runtime_enable_args runtime = {
		.r_debug = (uintptr_t)state,
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK |
			     KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK,
	};
	int ret = open_nodes(state);

	acquire.drm_fd = state->drm_fd;
	if (!ret)
		ret = kfd_call(state->kfd_fd, AMDKFD_IOC_ACQUIRE_VM, &acquire);
	if (!ret)
		ret = leave_hole(state);
	if (!ret)
		ret = kfd_call(state->kfd_fd, AMDKFD_IOC_RUNTIME_ENABLE, &runtime);
	if (!ret)
		ret = target_queues_create(state);
	fill_data(state);
	return ret;
}

static const struct amdgpu_criu_bo *bo_at(const struct criu_image *image, const char *at)
{
	for (__u32 i = 0; i < image->num_bos; i++)
		if (image->bos[i].va == (uintptr_t)at)
			return &image->bos[i];
	return NULL;
}

static int map_all(struct target_state *state, const struct criu_image *image)
{
	int ret = 0;

	for (enum target_area area = 0; !ret && area < TARGET_AREAS; area++) {
		const struct amdgpu_criu_bo *bo = bo_at(image, state->bos[area].at);

		if (is_svm(&state->bos[area]))
			continue;
		ret = bo ? map_area(state, &state->bos[area], bo->new_mmap_offset) : -ENOENT;
	}
	return ret;
}

/* Does what CRIU's plugin does in the restored process. */
static int restore(struct target_state *state, int session, const struct criu_image *image)
{
	const struct criu_node node = { .fd = state->kfd_fd, .kind = CRIU_NODE_KFD };
	int ret, fault = -1;
	__u32 i;

	/* With two GPUs, they are exchanged. */
	for (i = 0; i < image->num_devices; i++) {
		struct amdgpu_criu_device *device = &image->devices[i];
		__u32 was = device->actual_gpu_id;

		device->drm_fd = -1;
		if (device->gpu_id == state->gpu.gpu_id) {
			device->drm_fd = state->drm_fd;
			device->actual_gpu_id = state->place.gpu_id;
		} else if (was == state->place.gpu_id) {
			device->actual_gpu_id = state->left.gpu_id;
		}
	}
	if (state->fail_nth)
		fault = fail_nth_arm(state->fail_nth);
	ret = criu_restore(&node, session, image);
	state->failed = fault >= 0 && fail_nth_disarm(fault);
	return ret;
}

static int obey(struct target_state *state, char command, int session,
		const struct criu_image *image)
{
	int ret;

	switch (command) {
	case TARGET_STEP:
		return target_queues_step(state);
	case TARGET_VERIFY:
		ret = verify_data(state);
		return ret ? ret : target_events_verify(state);
	case TARGET_RESTORE:
		ret = restore(state, session, image);
		return ret ? ret : map_all(state, image);
	case TARGET_MAP:
		return map_all(state, image);
	case TARGET_DROP_SDMA:
		return target_sdma_drop(state);
	}
	return -ENOSYS;
}

static void serve(struct target_state *state, int from, int to, int session,
		  const struct criu_image *image)
{
	char command;

	while (read(from, &command, 1) == 1 && command != TARGET_QUIT) {
		state->result = obey(state, command, session, image);
		if (write(to, &command, 1) != 1)
			break;
	}
	_exit(0);
}

static int start(struct target *target, struct target_state *state, int session,
		 const struct criu_image *image)
{
	int to[2], from[2];
	char ready = 0;

	if (pipe(to) || pipe(from))
		return -errno;
	target->state = state;
	target->traced = false;
	target->pid = fork();
	if (target->pid < 0)
		return -errno;
	if (!target->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		close(from[0]);
		state->result = image ? open_nodes(state) : create(state);
		if (write(from[1], &ready, 1) == 1)
			serve(state, to[0], from[1], session, image);
		_exit(1);
	}
	close(to[0]);
	close(from[1]);
	target->to = to[1];
	target->from = from[0];
	return read(target->from, &ready, 1) == 1 ? state->result : -EPIPE;
}

int target_start(struct target *target, struct target_state *state)
{
	state->steps = 0;
	return start(target, state, -1, NULL);
}

int target_start_empty(struct target *target, struct target_state *state, int session,
		       const struct criu_image *image)
{
	int ret = start(target, state, session, image);

	if (!ret && ptrace(PTRACE_SEIZE, target->pid, 0, 0))
		return -errno;
	target->traced = !ret;
	return ret;
}

int target_do(struct target *target, enum target_command command)
{
	char byte = command;

	if (write(target->to, &byte, 1) != 1 || read(target->from, &byte, 1) != 1)
		return -EPIPE;
	return target->state->result;
}

void target_kill(struct target *target)
{
	kill(target->pid, SIGKILL);
	waitpid(target->pid, NULL, __WALL);
	close(target->to);
	close(target->from);
}

int target_seize(struct target *target, struct criu_node *node)
{
	int status;

	if ((!target->traced && ptrace(PTRACE_SEIZE, target->pid, 0, 0)) ||
	    ptrace(PTRACE_INTERRUPT, target->pid, 0, 0) ||
	    waitpid(target->pid, &status, __WALL) != target->pid)
		return -errno;
	target->traced = true;
	node->kind = CRIU_NODE_KFD;
	node->fd = fd_of_process(target->pid, target->state->kfd_fd);
	return node->fd < 0 ? node->fd : 0;
}

void target_continue(struct target *target)
{
	ptrace(PTRACE_DETACH, target->pid, 0, 0);
	target->traced = false;
}
