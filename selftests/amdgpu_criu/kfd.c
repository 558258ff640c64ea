// SPDX-License-Identifier: GPL-2.0
#include "kfd.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kfd_sysfs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TOPOLOGY "/sys/class/kfd/kfd/topology/nodes"
#define PAGE 4096
#define ADDRESS_ALIGN 0x200000UL

int kfd_ioctl(const struct kfd *kfd, unsigned long cmd, void *args)
{
	return ioctl(kfd->node.fd, cmd, args) ? -errno : 0;
}

int kfd_set_svm(const struct kfd *kfd, void *at, size_t size,
		const struct kfd_ioctl_svm_attribute *attrs, __u32 num)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attrs[8];
	} svm = {
		.args = {
			.start_addr = (uintptr_t)at, .size = size,
			.op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = num,
		},
	};

	memcpy(svm.attrs, attrs, num * sizeof(*attrs));
	return kfd_ioctl(kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20,
				   sizeof(svm.args) + num * sizeof(*attrs)), &svm);
}

static int read_u32(const char *path, __u32 *value)
{
	FILE *file = fopen(path, "r");
	int fields;

	if (!file)
		return -errno;
	fields = fscanf(file, "%u", value);
	fclose(file);
	return fields == 1 ? 0 : -EINVAL;
}

static int read_properties(const char *path, struct kfd_gpu *gpu)
{
	unsigned long long value, simds = 0, per_cu = 1, arrays = 0, per_engine = 1, xccs = 1;
	__u32 cus, waves;
	char name[64];
	FILE *file = fopen(path, "r");

	if (!file)
		return -errno;
	while (fscanf(file, "%63s %llu", name, &value) == 2) {
		if (!strcmp(name, "drm_render_minor"))
			gpu->render_minor = value;
		else if (!strcmp(name, "gfx_target_version"))
			gpu->gfx_version = value;
		else if (!strcmp(name, "capability"))
			gpu->svm = value & HSA_CAP_SVMAPI_SUPPORTED;
		else if (!strcmp(name, "ctl_stack_size"))
			gpu->ctl_stack_size = value;
		else if (!strcmp(name, "cwsr_size"))
			gpu->cwsr_size = value;
		else if (!strcmp(name, "simd_count"))
			simds = value;
		else if (!strcmp(name, "simd_per_cu"))
			per_cu = value;
		else if (!strcmp(name, "array_count"))
			arrays = value;
		else if (!strcmp(name, "simd_arrays_per_engine"))
			per_engine = value;
		else if (!strcmp(name, "num_xcc") && value)
			xccs = value;
	}
	fclose(file);
	gpu->num_xcc = xccs;
	/* kfd_queue.c: get_num_waves(), and the debugger's memory for each wave, of each XCC. */
	cus = per_cu ? simds / per_cu / xccs : 0;
	waves = cus * 40;
	if (gpu->gfx_version >= 100000)
		waves = cus * 32;
	else if (per_engine && waves > arrays / per_engine * 512)
		waves = arrays / per_engine * 512;
	gpu->cwsr_area = (gpu->cwsr_size + ((waves * 32 + 63) & ~63)) * xccs;
	gpu->cwsr_area = (gpu->cwsr_area + PAGE - 1) & ~(PAGE - 1);
	return 0;
}

int kfd_gpu_at(unsigned int index, struct kfd_gpu *gpu)
{
	char path[128];
	int node;

	memset(gpu, 0, sizeof(*gpu));
	for (node = 0; node < 64; node++) {
		snprintf(path, sizeof(path), TOPOLOGY "/%d/gpu_id", node);
		if (read_u32(path, &gpu->gpu_id))
			break;
		if (!gpu->gpu_id || index--)
			continue;
		snprintf(path, sizeof(path), TOPOLOGY "/%d/properties", node);
		return read_properties(path, gpu);
	}
	return -ENOENT;
}

int kfd_find_gpu(struct kfd_gpu *gpu)
{
	return kfd_gpu_at(0, gpu);
}

int kfd_render_open(const struct kfd_gpu *gpu)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpu->render_minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int acquire_vm(const struct kfd *kfd, int drm_fd, __u32 gpu_id)
{
	struct kfd_ioctl_acquire_vm_args args = { .drm_fd = drm_fd, .gpu_id = gpu_id };

	return kfd_ioctl(kfd, AMDKFD_IOC_ACQUIRE_VM, &args);
}

int kfd_open_with(struct kfd *kfd, int drm_fd)
{
	int ret;

	memset(kfd, 0, sizeof(*kfd));
	kfd->node.fd = -1;
	kfd->drm_fd = drm_fd;
	ret = kfd_find_gpu(&kfd->gpu);
	if (!ret)
		ret = criu_node_open(&kfd->node, CRIU_NODE_KFD);
	return ret ? ret : acquire_vm(kfd, drm_fd, kfd->gpu.gpu_id);
}

int kfd_open(struct kfd *kfd)
{
	int drm_fd;
	int ret;

	memset(kfd, 0, sizeof(*kfd));
	kfd->node.fd = -1;
	kfd->drm_fd = -1;
	ret = kfd_find_gpu(&kfd->gpu);
	if (ret)
		return ret;
	drm_fd = kfd_render_open(&kfd->gpu);
	return drm_fd < 0 ? drm_fd : kfd_open_with(kfd, drm_fd);
}

int kfd_acquire_others(struct kfd *kfd)
{
	struct kfd_gpu gpu;
	unsigned int index;
	int fd, ret;

	for (index = 1; !kfd_gpu_at(index, &gpu); index++) {
		fd = kfd_render_open(&gpu);
		if (fd < 0)
			return fd;
		/* KFD holds a reference to the file. */
		ret = acquire_vm(kfd, fd, gpu.gpu_id);
		close(fd);
		if (ret)
			return ret;
	}
	return 0;
}

int kfd_open_other(const struct kfd *kfd, unsigned int index, struct kfd *other)
{
	int ret;

	*other = *kfd;
	ret = kfd_gpu_at(index, &other->gpu);
	if (ret)
		return ret;
	other->drm_fd = kfd_render_open(&other->gpu);
	if (other->drm_fd < 0)
		return other->drm_fd;
	return acquire_vm(kfd, other->drm_fd, other->gpu.gpu_id);
}

void kfd_close(struct kfd *kfd)
{
	if (kfd->drm_fd >= 0)
		close(kfd->drm_fd);
	criu_node_close(&kfd->node);
}

void kfd_close_drm_fds(struct criu_image *image)
{
	__u32 i;

	for (i = 0; i < image->num_devices; i++) {
		if (image->devices[i].drm_fd >= 0)
			close(image->devices[i].drm_fd);
		image->devices[i].drm_fd = -1;
	}
}

int kfd_bo_map(const struct kfd *kfd, const struct kfd_bo *bo)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = bo->handle,
		.device_ids_array_ptr = (uintptr_t)&kfd->gpu.gpu_id,
		.n_devices = 1,
	};

	return kfd_ioctl(kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
}

/* Address space, or for a userptr memory. */
static int take_addresses(struct kfd_bo *bo, bool memory, void *at)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0);

	bo->at = mmap(at, bo->size, memory ? PROT_READ | PROT_WRITE : PROT_NONE,
		      flags | (memory ? MAP_POPULATE : MAP_NORESERVE), -1, 0);
	return bo->at == MAP_FAILED ? -errno : 0;
}

int kfd_bo_alloc(struct kfd *kfd, struct kfd_bo *bo, __u32 flags, size_t size)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = size,
		.gpu_id = kfd->gpu.gpu_id,
		.flags = flags | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE,
	};
	bool userptr = flags & KFD_USERPTR;
	int ret;

	bo->size = size;
	ret = take_addresses(bo, userptr, kfd->next_address);
	if (ret)
		return ret;
	if (kfd->next_address)
		kfd->next_address += (size + ADDRESS_ALIGN - 1) & ~(ADDRESS_ALIGN - 1);
	args.va_addr = (uintptr_t)bo->at;
	args.mmap_offset = userptr ? (uintptr_t)bo->at : 0;
	ret = kfd_ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	if (ret)
		return ret;
	bo->handle = args.handle;
	if (!userptr && mmap(bo->at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			     kfd->drm_fd, args.mmap_offset) == MAP_FAILED)
		return -errno;
	return kfd_bo_map(kfd, bo);
}

int kfd_bo_free(struct kfd *kfd, struct kfd_bo *bo)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args unmap = {
		.handle = bo->handle,
		.device_ids_array_ptr = (uintptr_t)&kfd->gpu.gpu_id,
		.n_devices = 1,
	};
	struct kfd_ioctl_free_memory_of_gpu_args args = { .handle = bo->handle };
	int ret = kfd_ioctl(kfd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &unmap);

	if (!ret)
		ret = kfd_ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
	munmap(bo->at, bo->size);
	return ret;
}

int kfd_bo_export(struct kfd *kfd, const struct kfd_bo *bo)
{
	struct kfd_ioctl_export_dmabuf_args args = { .handle = bo->handle, .flags = O_CLOEXEC };
	int ret = kfd_ioctl(kfd, AMDKFD_IOC_EXPORT_DMABUF, &args);

	return ret ? ret : (int)args.dmabuf_fd;
}

int kfd_bo_import(struct kfd *kfd, struct kfd_bo *bo, int dmabuf, size_t size)
{
	struct kfd_ioctl_import_dmabuf_args args = {
		.gpu_id = kfd->gpu.gpu_id,
		.dmabuf_fd = dmabuf,
	};
	int ret;

	bo->size = size;
	ret = take_addresses(bo, false, kfd->next_address);
	if (ret)
		return ret;
	if (kfd->next_address)
		kfd->next_address += (size + ADDRESS_ALIGN - 1) & ~(ADDRESS_ALIGN - 1);
	args.va_addr = (uintptr_t)bo->at;
	ret = kfd_ioctl(kfd, AMDKFD_IOC_IMPORT_DMABUF, &args);
	if (ret)
		return ret;
	bo->handle = args.handle;
	return kfd_bo_map(kfd, bo);
}

int kfd_event_create_in(struct kfd *kfd, bool auto_reset, __u64 page, __u32 *id)
{
	struct kfd_ioctl_create_event_args args = {
		.event_type = KFD_IOC_EVENT_SIGNAL,
		.auto_reset = auto_reset,
		.event_page_offset = page,
	};
	int ret = kfd_ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, &args);

	*id = args.event_id;
	return ret;
}

/* Kernels before 7.3 allocate the page of the signal slots themselves. */
int kfd_event_create(struct kfd *kfd, bool auto_reset, __u32 *id)
{
	int ret = kfd_event_create_in(kfd, auto_reset, 0, id);
	struct kfd_bo page;

	if (ret != -ENOMEM || !kernel_is_at_least(7, 3))
		return ret;
	ret = kfd_bo_alloc(kfd, &page, KFD_GTT, KFD_EVENT_PAGE_SIZE);
	if (!ret)
		ret = kfd_event_create_in(kfd, auto_reset, page.handle, id);
	if (ret != -EINVAL)
		return ret;
	/* Another thread has set a page meanwhile. */
	kfd_bo_free(kfd, &page);
	return kfd_event_create_in(kfd, auto_reset, 0, id);
}

int kfd_sigbus_delay(struct kfd *kfd, __u32 delay)
{
	/* As in the header of 7.3; older ones lack it. */
	struct {
		__u32 op, value;
	} args = { .value = delay };

	return ioctl(kfd->drm_fd, DRM_IOWR(DRM_COMMAND_BASE + 0x1a, args), &args) ? -errno : 0;
}

int kfd_event_set(struct kfd *kfd, __u32 id)
{
	struct kfd_ioctl_set_event_args args = { .event_id = id };

	return kfd_ioctl(kfd, AMDKFD_IOC_SET_EVENT, &args);
}

int kfd_event_wait(struct kfd *kfd, __u32 id, __u32 milliseconds)
{
	struct kfd_event_data data = { .event_id = id };
	struct kfd_ioctl_wait_events_args args = {
		.events_ptr = (uintptr_t)&data,
		.num_events = 1,
		.wait_for_all = 1,
		.timeout = milliseconds,
	};
	int ret = kfd_ioctl(kfd, AMDKFD_IOC_WAIT_EVENTS, &args);

	if (ret)
		return ret;
	return args.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE ? 0 : -ETIME;
}

bool kfd_becomes(const __u32 *at, __u32 value, int milliseconds)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (milliseconds *= patience(); milliseconds > 0; milliseconds--) {
		if (__atomic_load_n(at, __ATOMIC_ACQUIRE) == value)
			return true;
		nanosleep(&pause, NULL);
	}
	return __atomic_load_n(at, __ATOMIC_ACQUIRE) == value;
}

bool kfd_has_process(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d", pid);
	return !access(path, F_OK);
}

bool kfd_process_ends(pid_t pid, int milliseconds)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000000 };

	for (milliseconds *= patience(); milliseconds > 0 && kfd_has_process(pid);
	     milliseconds -= 100)
		nanosleep(&pause, NULL);
	return !kfd_has_process(pid);
}
