// SPDX-License-Identifier: GPL-2.0
#include "render.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define SDMA_WRITE 2
#define SDMA_POLL 8
#define SDMA_POLL_MEMORY 0x80000000
#define SDMA_POLL_NOT_EQUAL 0x40000000
#define PM4_WRITE_DATA 0x37
#define PM4_WAIT_REG_MEM 0x3c
#define PM4_NOP 0xffff1000
/* Pairs of doublewords; UVD_JPEG_PITCH. */
#define JPEG_NOP 0x60000000
#define JPEG_PITCH 0x401f
/* Packages for VCN: size in bytes, type, contents. */
#define VCN_CHECKSUM 0x30000002
#define VCN_ENGINE 0x30000001
#define VCN_ENCODE 2
#define IB_WORDS 32

int render_ioctl(const struct criu_node *node, unsigned long cmd, void *args)
{
	int ret;

	do {
		ret = ioctl(node->fd, cmd, args);
	} while (ret && (errno == EINTR || errno == EAGAIN));
	return ret ? -errno : 0;
}

static bool is_amdgpu(const struct criu_node *node)
{
	char name[16] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

	return !render_ioctl(node, DRM_IOCTL_VERSION, &version) && !strcmp(name, "amdgpu");
}

int render_open(struct criu_node *node, unsigned int index)
{
	char path[32];
	int minor;

	node->kind = CRIU_NODE_RENDER;
	for (minor = 128; minor < 192; minor++) {
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", minor);
		node->fd = open(path, O_RDWR | O_CLOEXEC);
		if (node->fd < 0)
			continue;
		if (is_amdgpu(node) && !index--)
			return 0;
		close(node->fd);
	}
	node->fd = -1;
	return -ENOENT;
}

/* The GPU's directory in sysfs. */
static bool find_device(const struct criu_node *node, char path[PATH_MAX])
{
	char link[64];
	struct stat status;

	if (fstat(node->fd, &status))
		return false;
	snprintf(link, sizeof(link), "/sys/dev/char/%u:%u/device", major(status.st_rdev),
		 minor(status.st_rdev));
	return realpath(link, path);
}

bool render_in_hive(const struct criu_node *node)
{
	char path[PATH_MAX + 32];

	if (!find_device(node, path))
		return false;
	strcat(path, "/xgmi_device_id");
	return !access(path, F_OK);
}

bool render_below_one_switch(const struct criu_node *one, const struct criu_node *two)
{
	char path[PATH_MAX], other[PATH_MAX];

	if (!find_device(one, path) || !find_device(two, other))
		return false;
	/* A GPU, its port, and the upstream port of a switch or, without one, a host bridge. */
	for (int i = 0; i < 2; i++) {
		dirname(path);
		dirname(other);
	}
	return !strcmp(path, other) && strncmp(basename(path), "pci", 3);
}

__u64 render_bytes_moved(const struct criu_node *node)
{
	__u64 bytes = 0;
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)&bytes, .return_size = sizeof(bytes),
		.query = AMDGPU_INFO_NUM_BYTES_MOVED,
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_INFO, &args) ? 0 : bytes;
}

__u64 render_usable_vram(const struct criu_node *node)
{
	struct drm_amdgpu_memory_info memory = {};
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)&memory, .return_size = sizeof(memory),
		.query = AMDGPU_INFO_MEMORY,
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_INFO, &args) ? 0 : memory.vram.usable_heap_size;
}

int render_bo_create(const struct criu_node *node, __u64 size, __u32 domains, __u64 flags,
		     __u32 *handle)
{
	union drm_amdgpu_gem_create args = {
		.in = { .bo_size = size, .alignment = 4096, .domains = domains,
			.domain_flags = flags },
	};
	int ret = render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);

	*handle = args.out.handle;
	return ret;
}

int render_userptr_create(const struct criu_node *node, void *at, __u64 size, __u32 flags,
			  __u32 *handle)
{
	struct drm_amdgpu_gem_userptr args = { .size = size, .flags = flags };
	int ret;

	if (!at)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	args.addr = (uintptr_t)at;
	ret = render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_USERPTR, &args);
	*handle = args.handle;
	return ret;
}

int render_bo_close(const struct criu_node *node, __u32 handle)
{
	struct drm_gem_close args = { .handle = handle };

	return render_ioctl(node, DRM_IOCTL_GEM_CLOSE, &args);
}

int render_bo_export(const struct criu_node *node, __u32 handle)
{
	struct drm_prime_handle args = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR };
	int ret = render_ioctl(node, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

	return ret ? ret : args.fd;
}

int render_bo_import(const struct criu_node *node, int dmabuf, __u32 *handle)
{
	struct drm_prime_handle args = { .fd = dmabuf };
	int ret = render_ioctl(node, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

	*handle = args.handle;
	return ret;
}

int render_va_op(const struct criu_node *node, __u32 operation, __u32 handle, __u64 va, __u64 size)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = operation,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
			 AMDGPU_VM_PAGE_EXECUTABLE,
		.va_address = va,
		.map_size = size,
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

int render_va_map(const struct criu_node *node, __u32 handle, __u64 va, __u64 size)
{
	return render_va_op(node, AMDGPU_VA_OP_MAP, handle, va, size);
}

int render_va_unmap(const struct criu_node *node, __u32 handle, __u64 va, __u64 size)
{
	return render_va_op(node, AMDGPU_VA_OP_UNMAP, handle, va, size);
}

void *render_bo_mmap(const struct criu_node *node, __u32 handle, size_t size)
{
	union drm_amdgpu_gem_mmap args = { .in = { .handle = handle } };
	void *at;

	if (render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_MMAP, &args))
		return NULL;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, node->fd, args.out.addr_ptr);
	return at == MAP_FAILED ? NULL : at;
}

static int ctx_ioctl(const struct criu_node *node, union drm_amdgpu_ctx *args)
{
	return render_ioctl(node, DRM_IOCTL_AMDGPU_CTX, args);
}

int render_ctx_create(const struct criu_node *node, __s32 priority, __u32 *ctx)
{
	union drm_amdgpu_ctx args = {
		.in = { .op = AMDGPU_CTX_OP_ALLOC_CTX, .priority = priority },
	};
	int ret = ctx_ioctl(node, &args);

	*ctx = args.out.alloc.ctx_id;
	return ret;
}

int render_ctx_free(const struct criu_node *node, __u32 ctx)
{
	union drm_amdgpu_ctx args = { .in = { .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = ctx } };

	return ctx_ioctl(node, &args);
}

int render_ctx_state(const struct criu_node *node, __u32 ctx, __u64 *flags)
{
	union drm_amdgpu_ctx args = {
		.in = { .op = AMDGPU_CTX_OP_QUERY_STATE2, .ctx_id = ctx },
	};
	int ret = ctx_ioctl(node, &args);

	*flags = args.out.state.flags;
	return ret;
}

int render_ctx_pstate(const struct criu_node *node, __u32 ctx, __u32 pstate)
{
	union drm_amdgpu_ctx args = {
		.in = { .op = AMDGPU_CTX_OP_SET_STABLE_PSTATE, .ctx_id = ctx, .flags = pstate },
	};

	return ctx_ioctl(node, &args);
}

int render_list_create(const struct criu_node *node, const struct drm_amdgpu_bo_list_entry *entries,
		       __u32 num, __u32 *list)
{
	union drm_amdgpu_bo_list args = {
		.in = { .operation = AMDGPU_BO_LIST_OP_CREATE, .bo_number = num,
			.bo_info_size = sizeof(*entries), .bo_info_ptr = (uintptr_t)entries },
	};
	int ret = render_ioctl(node, DRM_IOCTL_AMDGPU_BO_LIST, &args);

	*list = args.out.list_handle;
	return ret;
}

int render_list_destroy(const struct criu_node *node, __u32 list)
{
	union drm_amdgpu_bo_list args = {
		.in = { .operation = AMDGPU_BO_LIST_OP_DESTROY, .list_handle = list,
			.bo_info_size = sizeof(struct drm_amdgpu_bo_list_entry) },
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_BO_LIST, &args);
}

int render_syncobj_create(const struct criu_node *node, __u32 flags, __u32 *handle)
{
	struct drm_syncobj_create args = { .flags = flags };
	int ret = render_ioctl(node, DRM_IOCTL_SYNCOBJ_CREATE, &args);

	*handle = args.handle;
	return ret;
}

int render_syncobj_destroy(const struct criu_node *node, __u32 handle)
{
	struct drm_syncobj_destroy args = { .handle = handle };

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_DESTROY, &args);
}

/* The ioctls take an absolute time. */
static __s64 after(__s64 nanoseconds)
{
	struct timespec now;

	if (!nanoseconds)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * RENDER_SECOND + now.tv_nsec + nanoseconds;
}

int render_syncobj_wait(const struct criu_node *node, __u32 handle, __s64 nanoseconds)
{
	struct drm_syncobj_wait args = {
		.handles = (uintptr_t)&handle,
		.count_handles = 1,
		.timeout_nsec = after(nanoseconds),
	};

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_WAIT, &args);
}

int render_syncobj_signal_point(const struct criu_node *node, __u32 handle, __u64 point)
{
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &args);
}

int render_syncobj_wait_point(const struct criu_node *node, __u32 handle, __u64 point,
			      __s64 nanoseconds)
{
	struct drm_syncobj_timeline_wait args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
		.timeout_nsec = after(nanoseconds),
	};

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

int render_syncobj_point(const struct criu_node *node, __u32 handle, __u64 *point)
{
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)point,
		.count_handles = 1,
	};

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_QUERY, &args);
}

int render_syncobj_export(const struct criu_node *node, __u32 handle)
{
	struct drm_syncobj_handle args = { .handle = handle };
	int ret = render_ioctl(node, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args);

	return ret ? ret : args.fd;
}

int render_syncobj_import(const struct criu_node *node, int fd, __u32 *handle)
{
	struct drm_syncobj_handle args = { .fd = fd };
	int ret = render_ioctl(node, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args);

	*handle = args.handle;
	return ret;
}

int render_work_make(const struct criu_node *node, struct render_work *work)
{
	int ret;

	memset(work, 0, sizeof(*work));
	ret = render_bo_create(node, RENDER_WORK_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &work->handle);
	if (!ret)
		ret = render_va_map(node, work->handle, RENDER_WORK_VA, RENDER_WORK_SIZE);
	if (ret)
		return ret;
	return render_work_again(node, work, work);
}

int render_work_again(const struct criu_node *node, const struct render_work *from,
		      struct render_work *work)
{
	work->handle = from->handle;
	work->next = RENDER_WORK_WORDS;
	work->words = render_bo_mmap(node, work->handle, RENDER_WORK_SIZE);
	return work->words ? 0 : -ENOMEM;
}

void render_work_unmap(struct render_work *work)
{
	if (work->words)
		munmap(work->words, RENDER_WORK_SIZE);
	work->words = NULL;
}

static __u64 word_va(__u32 word)
{
	return RENDER_WORK_VA + word * sizeof(__u32);
}

static __u32 *sdma_write(__u32 *p, __u32 word, __u32 value)
{
	*p++ = SDMA_WRITE;
	*p++ = word_va(word);
	*p++ = word_va(word) >> 32;
	*p++ = 0;
	*p++ = value;
	return p;
}

/* Waiting for a word that is never set hangs the engine. */
static __u32 sdma_commands(const struct render_job *job, __u32 *ib)
{
	__u32 *p = ib;

	if (job->start_word)
		p = sdma_write(p, job->start_word, 1);
	if (job->wait_word) {
		*p++ = SDMA_POLL | SDMA_POLL_MEMORY | SDMA_POLL_NOT_EQUAL;
		*p++ = word_va(job->wait_word);
		*p++ = word_va(job->wait_word) >> 32;
		*p++ = 0;
		*p++ = ~0u;
		*p++ = 0xfff << 16 | 10;
	}
	p = sdma_write(p, job->word, job->value);
	while ((p - ib) % 8)
		*p++ = 0;
	return p - ib;
}

static __u32 pm4(__u32 opcode, __u32 num)
{
	return 3u << 30 | (num - 1) << 16 | opcode << 8;
}

static __u32 pm4_commands(const struct render_job *job, __u32 *ib)
{
	__u32 *p = ib;

	if (job->wait_word) {
		*p++ = pm4(PM4_WAIT_REG_MEM, 6);
		*p++ = 1 << 4 | 4; /* memory, not equal */
		*p++ = word_va(job->wait_word);
		*p++ = word_va(job->wait_word) >> 32;
		*p++ = 0;
		*p++ = ~0u;
		*p++ = 10;
	}
	*p++ = pm4(PM4_WRITE_DATA, 4);
	*p++ = 5 << 8 | 1 << 20; /* memory, confirmed */
	*p++ = word_va(job->word);
	*p++ = word_va(job->word) >> 32;
	*p++ = job->value;
	while ((p - ib) % 8)
		*p++ = PM4_NOP;
	return p - ib;
}

/* Writes to a register that affects pictures only. */
static __u32 jpeg_commands(const struct render_job *job, __u32 *ib)
{
	__u32 *p = ib;

	*p++ = JPEG_PITCH;
	*p++ = job->value;
	while ((p - ib) % 16) {
		*p++ = JPEG_NOP;
		*p++ = 0;
	}
	return p - ib;
}

/* No task for the encoder. */
static __u32 vcn_commands(__u32 *ib)
{
	const __u32 package = 4 * sizeof(__u32);
	__u32 *p = ib;

	*p++ = package;
	*p++ = VCN_CHECKSUM;
	*p++ = package + VCN_ENGINE + VCN_ENCODE + package; /* the sum of what follows */
	*p++ = package / sizeof(__u32); /* and its length */
	*p++ = package;
	*p++ = VCN_ENGINE;
	*p++ = VCN_ENCODE;
	*p++ = package; /* bytes with all tasks */
	return p - ib;
}

static __u32 commands(const struct render_job *job, __u32 *ib)
{
	if (job->hw_ip == AMDGPU_HW_IP_VCN_JPEG)
		return jpeg_commands(job, ib);
	if (job->hw_ip == AMDGPU_HW_IP_VCN_ENC)
		return vcn_commands(ib);
	return job->hw_ip == AMDGPU_HW_IP_DMA ? sdma_commands(job, ib) : pm4_commands(job, ib);
}

static struct drm_amdgpu_cs_chunk chunk(__u32 id, const void *data, size_t size)
{
	return (struct drm_amdgpu_cs_chunk) {
		.chunk_id = id,
		.length_dw = size / sizeof(__u32),
		.chunk_data = (uintptr_t)data,
	};
}

__u32 render_rings(const struct criu_node *node, __u32 hw_ip)
{
	struct drm_amdgpu_info_hw_ip info = {};
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)&info,
		.return_size = sizeof(info),
		.query = AMDGPU_INFO_HW_IP_INFO,
		.query_hw_ip.type = hw_ip,
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_INFO, &args) ? 0 : info.available_rings;
}

int render_submit(const struct criu_node *node, struct render_work *work,
		  const struct render_job *job, __u64 *sequence)
{
	struct drm_amdgpu_cs_chunk_ib ib = {
		.va_start = word_va(work->next),
		.ip_type = job->hw_ip,
		.ring = job->ring,
	};
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = work->handle };
	struct drm_amdgpu_bo_list_in list = {
		.operation = ~0u,
		.list_handle = ~0u,
		.bo_number = 1,
		.bo_info_size = sizeof(entry),
		.bo_info_ptr = (uintptr_t)&entry,
	};
	struct drm_amdgpu_cs_chunk_dep dependency = {
		.ip_type = job->hw_ip,
		.ring = job->ring,
		.ctx_id = job->ctx,
		.handle = job->after,
	};
	struct drm_amdgpu_cs_chunk_syncobj point = { .handle = job->syncobj, .point = job->point };
	struct drm_amdgpu_cs_chunk chunks[4];
	__u64 pointers[4];
	union drm_amdgpu_cs args = {
		.in = { .ctx_id = job->ctx, .bo_list_handle = job->list,
			.chunks = (uintptr_t)pointers },
	};
	__u32 num = 0, i;
	int ret;

	if (work->next + IB_WORDS > RENDER_WORK_SIZE / sizeof(__u32))
		work->next = RENDER_WORK_WORDS;
	ib.va_start = word_va(work->next);
	ib.ib_bytes = commands(job, work->words + work->next) * sizeof(__u32);
	work->next += IB_WORDS;

	chunks[num++] = chunk(AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	if (!job->list)
		chunks[num++] = chunk(AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	if (job->after)
		chunks[num++] = chunk(AMDGPU_CHUNK_ID_DEPENDENCIES, &dependency,
				      sizeof(dependency));
	if (job->syncobj && job->point)
		chunks[num++] = chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point,
				      sizeof(point));
	else if (job->syncobj)
		chunks[num++] = chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &job->syncobj,
				      sizeof(job->syncobj));
	for (i = 0; i < num; i++)
		pointers[i] = (uintptr_t)&chunks[i];
	args.in.num_chunks = num;
	ret = render_ioctl(node, DRM_IOCTL_AMDGPU_CS, &args);
	*sequence = args.out.handle;
	return ret;
}

int render_wait(const struct criu_node *node, const struct render_job *job, __u64 sequence,
		__u64 nanoseconds)
{
	union drm_amdgpu_wait_cs args = {
		.in = { .handle = sequence, .timeout = after(nanoseconds), .ip_type = job->hw_ip,
			.ring = job->ring, .ctx_id = job->ctx },
	};
	int ret = render_ioctl(node, DRM_IOCTL_AMDGPU_WAIT_CS, &args);

	if (ret)
		return ret;
	return args.out.status ? -ETIME : 0;
}

int render_fence_syncobj(const struct criu_node *node, const struct render_job *job,
			 __u64 sequence, __u32 *handle)
{
	union drm_amdgpu_fence_to_handle args = {
		.in = {
			.fence = { .ctx_id = job->ctx, .ip_type = job->hw_ip, .ring = job->ring,
				   .seq_no = sequence },
			.what = AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
		},
	};
	int ret = render_ioctl(node, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args);

	*handle = args.out.handle;
	return ret;
}

int render_save(const struct criu_node *node, struct criu_image *image)
{
	int session = criu_session(node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	int ret;

	if (session < 0)
		return session;
	ret = criu_checkpoint(node, session, image);
	close(session);
	return ret;
}

int render_restore_to(struct criu_node *node, unsigned int index, int session,
		      const struct criu_image *image)
{
	int own = -1;
	int ret = render_open(node, index);

	if (ret)
		return ret;
	if (session < 0) {
		own = criu_session(node, AMDGPU_CRIU_SESSION_RESTORE);
		session = own;
	}
	ret = session < 0 ? session : criu_restore(node, session, image);
	if (!ret)
		ret = criu_resume(node, session, 0);
	if (own >= 0)
		close(own);
	if (ret)
		criu_node_close(node);
	return ret;
}

int render_keep(int session)
{
	struct criu_node empty, keeper;
	struct criu_image image;
	int ret = render_open(&empty, 0);

	if (ret)
		return ret;
	ret = render_save(&empty, &image);
	if (!ret)
		ret = render_open(&keeper, 0);
	if (!ret)
		ret = criu_restore(&keeper, session, &image);
	criu_image_free(&image);
	criu_node_close(&empty);
	return ret;
}

int render_move(const struct criu_node *from, struct criu_node *to)
{
	struct criu_image image;
	int ret = render_save(from, &image);

	if (!ret)
		ret = render_restore_to(to, 0, -1, &image);
	criu_image_free(&image);
	return ret;
}
