// SPDX-License-Identifier: MIT
/*
 * Checkpoint and restore of an open file of a render node, without CRIU: the state of one file is
 * saved, the file is closed, and another file of the same process is restored from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "drmtest.h"
#include "igt_aux.h"
#include "igt_core.h"
#include "igt_syncobj.h"
#include "ioctl_wrappers.h"
#include "amdgpu_criu.h"
#include "amdgpu_drm.h"

IGT_TEST_DESCRIPTION("Checkpoint and restore of files of amdgpu's render nodes");

#define BO_SIZE 0x10000
#define IB_VA 0x400000ull
#define VRAM_VA 0x800000ull
/* In bytes from the begin of a BO, behind everything that is compared. */
#define RESULT 0xf000
#define SYNCOBJ_POINT 5
/* The first family whose SDMA engine counts words minus one in a WRITE packet. */
#define FAMILY_AI 141

enum bo { IB, VRAM, NUM_BOS };

/* What a file of a render node has. */
struct state {
	uint32_t bo[NUM_BOS];
	uint32_t ctx;
	uint32_t list;
	uint32_t syncobj;
	uint64_t fence;
};

struct image {
	struct amdgpu_criu_state table;
	struct amdgpu_criu_bo *bos;
	uint8_t *blob;
	void *contents[NUM_BOS];
};

static int criu(int fd, uint32_t op, void *args, uint32_t size)
{
	struct amdgpu_criu_ioctl call = { .op = op, .size = size, .arg = (uintptr_t)args };

	return igt_ioctl(fd, DRM_IOCTL_AMDGPU_CRIU, &call) ? -errno : 0;
}

#define criu_op(fd, op, args) criu(fd, AMDGPU_CRIU_OP_##op, args, sizeof(*(args)))

static int open_session(int fd, uint32_t kind)
{
	struct amdgpu_criu_session args = { .kind = kind };

	igt_assert_eq(criu_op(fd, SESSION, &args), 0);
	return args.fd;
}

static uint32_t create_bo(int fd, uint32_t domain)
{
	union drm_amdgpu_gem_create args = {
		.in = { .bo_size = BO_SIZE, .alignment = 4096, .domains = domain,
			.domain_flags = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED },
	};

	do_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);
	return args.out.handle;
}

static void map_va(int fd, uint32_t handle, uint64_t va)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle, .operation = AMDGPU_VA_OP_MAP, .va_address = va, .map_size = BO_SIZE,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE,
	};

	do_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

static uint32_t *map_bo(int fd, uint32_t handle)
{
	union drm_amdgpu_gem_mmap args = { .in = { .handle = handle } };
	void *at;

	do_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args);
	at = mmap(NULL, BO_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, args.out.addr_ptr);
	igt_assert(at != MAP_FAILED);
	return at;
}

static uint32_t pattern(enum bo bo, uint32_t word)
{
	return (word + 1) * 2654435761u ^ (bo + 1) << 28;
}

static void fill(int fd, const struct state *state, enum bo bo)
{
	uint32_t *words = map_bo(fd, state->bo[bo]);

	for (uint32_t i = 0; i < RESULT / 4; i++)
		words[i] = pattern(bo, i);
	munmap(words, BO_SIZE);
}

static void assert_filled(int fd, const struct state *state, enum bo bo)
{
	uint32_t *words = map_bo(fd, state->bo[bo]);

	for (uint32_t i = 0; i < RESULT / 4; i++)
		igt_assert_eq_u32(words[i], pattern(bo, i));
	munmap(words, BO_SIZE);
}

static uint32_t create_ctx(int fd)
{
	union drm_amdgpu_ctx args = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };

	do_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &args);
	return args.out.alloc.ctx_id;
}

static uint32_t create_list(int fd, const struct state *state)
{
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = state->bo[IB] }, { .bo_handle = state->bo[VRAM] },
	};
	union drm_amdgpu_bo_list args = {
		.in = { .operation = AMDGPU_BO_LIST_OP_CREATE, .bo_number = ARRAY_SIZE(entries),
			.bo_info_size = sizeof(entries[0]), .bo_info_ptr = (uintptr_t)entries },
	};

	do_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);
	return args.out.list_handle;
}

/* The SDMA engine writes @value behind what is compared of the BO in VRAM. */
static uint64_t submit(int fd, const struct state *state, uint32_t value)
{
	const uint64_t to = VRAM_VA + RESULT;
	const uint32_t packet[8] = { 2 /* WRITE */, to, to >> 32, 0 /* one word */, value };
	struct drm_amdgpu_cs_chunk_ib ib = {
		.va_start = IB_VA + RESULT, .ib_bytes = sizeof(packet), .ip_type = AMDGPU_HW_IP_DMA,
	};
	struct drm_amdgpu_cs_chunk chunk = {
		.chunk_id = AMDGPU_CHUNK_ID_IB, .length_dw = sizeof(ib) / 4, .chunk_data = (uintptr_t)&ib,
	};
	uint64_t chunks = (uintptr_t)&chunk;
	union drm_amdgpu_cs args = {
		.in = { .ctx_id = state->ctx, .bo_list_handle = state->list, .num_chunks = 1,
			.chunks = (uintptr_t)&chunks },
	};
	uint32_t *words = map_bo(fd, state->bo[IB]);

	memcpy(words + RESULT / 4, packet, sizeof(packet));
	munmap(words, BO_SIZE);
	do_ioctl(fd, DRM_IOCTL_AMDGPU_CS, &args);
	return args.out.handle;
}

/* True if the fence is signaled within @timeout, an absolute time; 0: now. */
static bool is_signaled(int fd, const struct state *state, uint64_t fence, uint64_t timeout)
{
	union drm_amdgpu_wait_cs args = {
		.in = { .handle = fence, .timeout = timeout, .ip_type = AMDGPU_HW_IP_DMA,
			.ctx_id = state->ctx },
	};

	do_ioctl(fd, DRM_IOCTL_AMDGPU_WAIT_CS, &args);
	return !args.out.status;
}

static uint64_t seconds_from_now(uint64_t seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec + seconds) * 1000000000ull + now.tv_nsec;
}

/* Returns the fence of the submission. */
static uint64_t assert_gpu_writes(int fd, const struct state *state, uint32_t value)
{
	uint64_t fence = submit(fd, state, value);
	uint32_t *words;

	igt_assert(is_signaled(fd, state, fence, seconds_from_now(20)));
	words = map_bo(fd, state->bo[VRAM]);
	igt_assert_eq_u32(words[RESULT / 4], value);
	munmap(words, BO_SIZE);
	return fence;
}

static void make_state(int fd, struct state *state)
{
	/* The handles that follow are not the lowest ones that are free. */
	uint32_t gap = create_bo(fd, AMDGPU_GEM_DOMAIN_GTT);
	uint64_t point = SYNCOBJ_POINT;

	state->bo[IB] = create_bo(fd, AMDGPU_GEM_DOMAIN_GTT);
	state->bo[VRAM] = create_bo(fd, AMDGPU_GEM_DOMAIN_VRAM);
	gem_close(fd, gap);
	map_va(fd, state->bo[IB], IB_VA);
	map_va(fd, state->bo[VRAM], VRAM_VA);
	fill(fd, state, IB);
	fill(fd, state, VRAM);
	state->ctx = create_ctx(fd);
	state->list = create_list(fd, state);
	state->syncobj = syncobj_create(fd, 0);
	syncobj_timeline_signal(fd, &state->syncobj, &point, 1);
	state->fence = assert_gpu_writes(fd, state, 0x600d0001);
}

/* Copies between the BO of an object id and memory, through the dma-buf of the session. */
static void copy_contents(int fd, int session, uint64_t object_id, void *memory, bool save)
{
	struct amdgpu_criu_dmabuf args = { .session_fd = session, .object_id = object_id };
	void *at;

	igt_assert_eq(criu_op(fd, DMABUF, &args), 0);
	at = mmap(NULL, BO_SIZE, save ? PROT_READ : PROT_WRITE, MAP_SHARED, args.fd, 0);
	igt_assert(at != MAP_FAILED);
	memcpy(save ? memory : at, save ? at : memory, BO_SIZE);
	munmap(at, BO_SIZE);
	close(args.fd);
}

static void copy_all(int fd, int session, const struct image *image, bool save)
{
	for (uint32_t i = 0; i < image->table.num_bos; i++) {
		if (image->bos[i].flags & AMDGPU_CRIU_BO_CONTENTS)
			copy_contents(fd, session, image->bos[i].object_id, image->contents[i], save);
	}
}

static int pause_file(int fd, int session, struct amdgpu_criu_process_info *info)
{
	*info = (struct amdgpu_criu_process_info){ .session_fd = session };
	return criu_op(fd, PROCESS_INFO, info);
}

static void checkpoint(int fd, struct image *image)
{
	struct amdgpu_criu_process_info info;
	int session = open_session(fd, AMDGPU_CRIU_SESSION_CHECKPOINT);

	igt_assert_eq(pause_file(fd, session, &info), 0);
	igt_assert_eq(info.num_bos, NUM_BOS);
	image->bos = calloc(info.num_bos, sizeof(*image->bos));
	image->blob = malloc(info.blob_size);
	for (int i = 0; i < NUM_BOS; i++)
		image->contents[i] = malloc(BO_SIZE);
	image->table = (struct amdgpu_criu_state){
		.session_fd = session, .bos = (uintptr_t)image->bos, .blob = (uintptr_t)image->blob,
		.num_bos = info.num_bos, .bo_stride = sizeof(*image->bos),
		.device_stride = sizeof(struct amdgpu_criu_device), .blob_size = info.blob_size,
	};
	igt_assert_eq(criu_op(fd, CHECKPOINT, &image->table), 0);
	copy_all(fd, session, image, true);
	close(session);
}

static int restore(int fd, int session, const struct image *image)
{
	struct amdgpu_criu_state args = image->table;

	args.session_fd = session;
	return criu_op(fd, RESTORE, &args);
}

static int resume(int fd, int session)
{
	struct amdgpu_criu_resume args = { .session_fd = session };

	return criu_op(fd, RESUME, &args);
}

/* Returns a new file that has been restored. */
static int restored_file(const struct image *image)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);
	int session = open_session(fd, AMDGPU_CRIU_SESSION_RESTORE);

	igt_assert_eq(restore(fd, session, image), 0);
	copy_all(fd, session, image, false);
	igt_assert_eq(resume(fd, session), 0);
	close(session);
	return fd;
}

static void free_image(struct image *image)
{
	free(image->bos);
	free(image->blob);
	for (int i = 0; i < NUM_BOS; i++)
		free(image->contents[i]);
}

/* Saves a file with state, and closes it. */
static void save_and_close(struct image *image, struct state *state)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);

	make_state(fd, state);
	checkpoint(fd, image);
	close(fd);
}

static void assert_restored(int fd, const struct state *state)
{
	uint32_t syncobj = state->syncobj;
	uint64_t point = 0;

	assert_filled(fd, state, IB);
	assert_filled(fd, state, VRAM);
	igt_assert(is_signaled(fd, state, state->fence, 0));
	syncobj_timeline_query(fd, &syncobj, &point, 1);
	igt_assert_eq_u64(point, SYNCOBJ_POINT);
	assert_gpu_writes(fd, state, 0x600d0002);
}

static void test_query(int fd)
{
	struct amdgpu_criu_record_info few, *records;
	struct amdgpu_criu_query args = { 0 };

	igt_assert_eq(criu_op(fd, QUERY, &args), 0);
	igt_assert_lte(args.abi_min, AMDGPU_CRIU_ABI);
	igt_assert_lte(AMDGPU_CRIU_ABI, args.abi_max);
	igt_assert_lt(1, args.num_records);

	records = calloc(args.num_records, sizeof(*records));
	args.records = (uintptr_t)records;
	args.record_stride = sizeof(*records);
	igt_assert_eq(criu_op(fd, QUERY, &args), 0);
	for (uint32_t i = 0; i < args.num_records; i++) {
		igt_assert_lte(1, records[i].version_min);
		igt_assert_lte(records[i].version_min, records[i].version_max);
	}
	free(records);

	args.records = (uintptr_t)&few;
	args.num_records = 1;
	igt_assert_eq(criu_op(fd, QUERY, &args), -ENOSPC);
	igt_assert_lt(1, args.num_records);
}

static void test_restore(void)
{
	struct image image;
	struct state state;
	int fd;

	save_and_close(&image, &state);
	fd = restored_file(&image);
	assert_restored(fd, &state);
	close(fd);
	free_image(&image);
}

/* A checkpoint changes nothing: the file continues, and its copy is independent. */
static void test_continue(void)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU), copy;
	struct image image;
	struct state state;

	make_state(fd, &state);
	checkpoint(fd, &image);
	assert_restored(fd, &state);
	copy = restored_file(&image);
	assert_gpu_writes(copy, &state, 0x600d0003);
	assert_restored(fd, &state);
	close(copy);
	close(fd);
	free_image(&image);
}

static void *gem_create_in_thread(void *fd)
{
	create_bo(*(int *)fd, AMDGPU_GEM_DOMAIN_GTT);
	return NULL;
}

static void test_paused_file_blocks(void)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);
	int session = open_session(fd, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct amdgpu_criu_unpause unpause = { .session_fd = session };
	struct amdgpu_criu_process_info info;
	struct timespec limit;
	pthread_t thread;

	igt_assert_eq(pause_file(fd, session, &info), 0);
	igt_assert_eq(pthread_create(&thread, NULL, gem_create_in_thread, &fd), 0);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++;
	igt_assert_eq(pthread_timedjoin_np(thread, NULL, &limit), ETIMEDOUT);
	igt_assert_eq(criu_op(fd, UNPAUSE, &unpause), 0);
	igt_assert_eq(pthread_join(thread, NULL), 0);
	close(session);
	close(fd);
}

/* RESTORE with @image fails with @error and leaves nothing, so the file can still be restored. */
static void assert_refused(const struct image *image, int error, const struct image *good,
			   const struct state *state)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);
	int session = open_session(fd, AMDGPU_CRIU_SESSION_RESTORE);

	igt_assert_eq(restore(fd, session, image), error);
	igt_assert_eq(resume(fd, session), -EBADFD);
	igt_assert_eq(restore(fd, session, good), 0);
	copy_all(fd, session, good, false);
	igt_assert_eq(resume(fd, session), 0);
	close(session);
	assert_restored(fd, state);
	close(fd);
}

static void test_refuse_other_table(void)
{
	struct amdgpu_criu_bo bos[NUM_BOS];
	struct image image, changed;
	struct state state;

	save_and_close(&image, &state);
	changed = image;
	changed.table.bos = (uintptr_t)bos;
	memcpy(bos, image.bos, sizeof(bos));
	bos[1].size += BO_SIZE;
	assert_refused(&changed, -EBADMSG, &image, &state);

	memcpy(bos, image.bos, sizeof(bos));
	bos[0].flags ^= AMDGPU_CRIU_BO_SHARED;
	assert_refused(&changed, -EBADMSG, &image, &state);

	changed = image;
	changed.table.num_bos--;
	assert_refused(&changed, -EBADMSG, &image, &state);
	free_image(&image);
}

static void test_refuse_damaged_blob(void)
{
	struct image image, changed;
	struct state state;
	uint8_t *blob;
	size_t size;

	save_and_close(&image, &state);
	size = image.table.blob_size;
	blob = malloc(size);
	changed = image;
	changed.table.blob = (uintptr_t)blob;

	memcpy(blob, image.blob, size);
	blob[0] ^= 1;
	assert_refused(&changed, -EBADMSG, &image, &state);

	memcpy(blob, image.blob, size);
	blob[size / 2] ^= 0x10;
	assert_refused(&changed, -EBADMSG, &image, &state);

	memcpy(blob, image.blob, size);
	changed.table.blob_size -= 8;
	assert_refused(&changed, -EBADMSG, &image, &state);
	free(blob);
	free_image(&image);
}

static void test_refuse_file_in_use(void)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU), session;
	struct image image;
	struct state state;

	save_and_close(&image, &state);
	session = open_session(fd, AMDGPU_CRIU_SESSION_RESTORE);
	create_bo(fd, AMDGPU_GEM_DOMAIN_GTT);
	igt_assert_eq(restore(fd, session, &image), -EBADFD);
	close(session);
	close(fd);
	free_image(&image);
}

static void test_refuse_order(void)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);
	int dump = open_session(fd, AMDGPU_CRIU_SESSION_CHECKPOINT);
	int session = open_session(fd, AMDGPU_CRIU_SESSION_RESTORE);
	struct amdgpu_criu_unpause unpause = { .session_fd = dump };
	struct amdgpu_criu_state state = {
		.session_fd = dump, .bo_stride = sizeof(struct amdgpu_criu_bo),
		.device_stride = sizeof(struct amdgpu_criu_device),
	};
	struct amdgpu_criu_process_info info;

	igt_assert_eq(criu_op(fd, UNPAUSE, &unpause), -EBADFD);
	igt_assert_eq(criu_op(fd, CHECKPOINT, &state), -EBADFD);
	igt_assert_eq(pause_file(fd, session, &info), -EBADFD);
	igt_assert_eq(pause_file(fd, fd, &info), -EBADF);
	igt_assert_eq(resume(fd, session), -EBADFD);
	close(session);
	close(dump);
	close(fd);
}

static void test_refuse_arguments(void)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);
	int dump = open_session(fd, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct amdgpu_criu_session session = { .kind = AMDGPU_CRIU_SESSION_RESTORE, .flags = 1 };
	struct amdgpu_criu_process_info info = { .session_fd = dump, .flags = 1u << 31 };
	struct {
		struct amdgpu_criu_session args;
		uint64_t tail;
	} longer = { .args.kind = AMDGPU_CRIU_SESSION_RESTORE, .tail = 1 };

	igt_assert_eq(criu_op(fd, SESSION, &session), -EINVAL);
	session.flags = 0;
	session.kind = 3;
	igt_assert_eq(criu_op(fd, SESSION, &session), -EINVAL);
	session.kind = AMDGPU_CRIU_SESSION_RESTORE;
	igt_assert_eq(criu(fd, AMDGPU_CRIU_OP_SESSION, &session, sizeof(session) - 8), -EINVAL);
	igt_assert_eq(criu(fd, AMDGPU_CRIU_OP_SESSION, &longer, sizeof(longer)), -E2BIG);
	igt_assert_eq(criu(fd, AMDGPU_CRIU_OP_SESSION, NULL, sizeof(session)), -EFAULT);
	igt_assert_eq(criu(fd, 0xffff, &session, sizeof(session)), -ENOTTY);
	igt_assert_eq(criu_op(fd, PROCESS_INFO, &info), -EINVAL);
	close(dump);
	close(fd);
}

static void test_refuse_without_capability(void)
{
	int fd = drm_open_driver_render(DRIVER_AMDGPU);

	igt_fork(child, 1) {
		struct amdgpu_criu_session args = { .kind = AMDGPU_CRIU_SESSION_CHECKPOINT };

		igt_drop_root();
		igt_assert_eq(criu_op(fd, SESSION, &args), -EPERM);
	}
	igt_waitchildren();
	close(fd);
}

static void require_criu(int fd)
{
	struct amdgpu_criu_query query = { 0 };
	struct drm_amdgpu_info_device device = { 0 };
	struct drm_amdgpu_info info = {
		.return_pointer = (uintptr_t)&device, .return_size = sizeof(device),
		.query = AMDGPU_INFO_DEV_INFO,
	};

	igt_require(criu_op(fd, QUERY, &query) == 0);
	igt_require(query.features & AMDGPU_CRIU_FEATURE_RENDER);
	do_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &info);
	igt_require(device.family >= FAMILY_AI);
	igt_require(geteuid() == 0);
}

int igt_main()
{
	int fd = -1;

	igt_fixture() {
		fd = drm_open_driver_render(DRIVER_AMDGPU);
		require_criu(fd);
	}

	igt_describe("QUERY returns all record types, and ENOSPC if the array is too small");
	igt_subtest("query")
		test_query(fd);

	igt_describe("A closed file is restored: handles, mappings, contents, context, BO list, syncobj");
	igt_subtest("restore")
		test_restore();

	igt_describe("A file continues after a checkpoint, beside a file restored from it");
	igt_subtest("continue")
		test_continue();

	igt_describe("Other ioctls on a paused file block until it is unpaused");
	igt_subtest("paused-file-blocks")
		test_paused_file_blocks();

	igt_describe("A BO table that does not belong to the blob is refused, and nothing is left");
	igt_subtest("refuse-other-table")
		test_refuse_other_table();

	igt_describe("A damaged blob is refused, and nothing is left");
	igt_subtest("refuse-damaged-blob")
		test_refuse_damaged_blob();

	igt_describe("RESTORE requires a file without BOs");
	igt_subtest("refuse-file-in-use")
		test_refuse_file_in_use();

	igt_describe("Operations out of order are refused");
	igt_subtest("refuse-order")
		test_refuse_order();

	igt_describe("Unknown flags, kinds, sizes and operations are refused");
	igt_subtest("refuse-arguments")
		test_refuse_arguments();

	igt_describe("SESSION requires CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN");
	igt_subtest("refuse-without-capability")
		test_refuse_without_capability();

	igt_fixture()
		drm_close_driver(fd);
}
