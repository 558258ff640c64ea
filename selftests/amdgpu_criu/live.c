// SPDX-License-Identifier: GPL-2.0
/* PROCESS_INFO with flag LIVE: BOs are listed and copied while the process runs. */
#include "kselftest_harness.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#include "kfd.h"
#include "render.h"

/* A running engine needs less time, a paused one never finishes. */
#define SOON 5000
#define NEVER 300
#define SIZE 0x10000

/* A client of either kind of node that submits work, with a BO that no work uses. */
struct client {
	struct criu_node node;
	struct kfd kfd;
	struct kfd_queue queue;
	struct kfd_bo memory;
	struct kfd_bo bo;
	struct render_work work;
	struct render_job job;
	__u32 handle;
	__u32 *word;
	__u32 value;
	void *at;
};

static int make_kfd(struct client *client)
{
	int ret = kfd_open(&client->kfd);

	if (!ret)
		ret = kfd_bo_alloc(&client->kfd, &client->memory, KFD_GTT, 4096);
	if (!ret)
		ret = kfd_bo_alloc(&client->kfd, &client->bo, KFD_VRAM, SIZE);
	if (!ret)
		ret = kfd_sdma_create(&client->kfd, &client->queue);
	client->node = client->kfd.node;
	client->word = client->memory.at;
	client->at = client->bo.at;
	return ret;
}

static int make_render(struct client *client)
{
	int ret = render_open(&client->node, 0);

	client->job = (struct render_job) { .hw_ip = AMDGPU_HW_IP_DMA, .word = 2 };
	if (!ret)
		ret = render_work_make(&client->node, &client->work);
	if (!ret)
		ret = render_ctx_create(&client->node, AMDGPU_CTX_PRIORITY_NORMAL,
					&client->job.ctx);
	if (!ret)
		ret = render_bo_create(&client->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				       AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, &client->handle);
	client->word = client->work.words + client->job.word;
	client->at = ret ? NULL : render_bo_mmap(&client->node, client->handle, SIZE);
	return ret;
}

static int make(struct client *client, enum criu_node_kind kind)
{
	int ret = kind == CRIU_NODE_KFD ? make_kfd(client) : make_render(client);

	if (!ret && client->at)
		memset(client->at, 0x5a, SIZE);
	return ret;
}

static void unmake(struct client *client)
{
	if (client->node.kind == CRIU_NODE_KFD)
		kfd_close(&client->kfd);
	else
		criu_node_close(&client->node);
}

/* Submits work. Returns true if it is done. */
static bool runs(struct client *client, int milliseconds)
{
	__u64 sequence;

	client->value++;
	if (client->node.kind == CRIU_NODE_KFD) {
		kfd_sdma_write(&client->queue, client->word, client->value);
	} else {
		client->job.value = client->value;
		if (render_submit(&client->node, &client->work, &client->job, &sequence))
			return false;
	}
	return kfd_becomes(client->word, client->value, milliseconds);
}

static int free_bo(struct client *client)
{
	if (client->node.kind == CRIU_NODE_KFD)
		return kfd_bo_free(&client->kfd, &client->bo);
	munmap(client->at, SIZE);
	return render_bo_close(&client->node, client->handle);
}

static int add_bo(struct client *client)
{
	struct kfd_bo bo;
	__u32 handle;

	if (client->node.kind == CRIU_NODE_KFD)
		return kfd_bo_alloc(&client->kfd, &bo, KFD_GTT, SIZE);
	return render_bo_create(&client->node, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);
}

static int live_info(const struct criu_node *node, int session, pid_t pid,
		     struct amdgpu_criu_process_info *info)
{
	*info = (struct amdgpu_criu_process_info) {
		.session_fd = session,
		.flags = AMDGPU_CRIU_PROCESS_INFO_LIVE,
		.pid = pid,
	};
	return criu_op(node, PROCESS_INFO, info);
}

/* CHECKPOINT in a live session. */
static int list(const struct criu_node *node, int session,
		const struct amdgpu_criu_process_info *info, struct criu_image *image)
{
	struct amdgpu_criu_state args;
	int ret;

	criu_image_free(image);
	*image = (struct criu_image) {
		.devices = calloc(info->num_devices + 1, sizeof(*image->devices)),
		.bos = calloc(info->num_bos + 1, sizeof(*image->bos)),
		.num_devices = info->num_devices,
		.num_bos = info->num_bos,
	};
	args = criu_image_args(session, image);
	ret = criu_op(node, CHECKPOINT, &args);
	image->num_devices = args.num_devices;
	image->num_bos = args.num_bos;
	return ret ? ret : (int)args.blob_size;
}

static const struct amdgpu_criu_bo *find(const struct client *client,
					 const struct criu_image *image)
{
	__u32 i;

	for (i = 0; i < image->num_bos; i++)
		if (client->node.kind == CRIU_NODE_KFD ?
		    image->bos[i].va == (uintptr_t)client->bo.at :
		    image->bos[i].handle == client->handle)
			return &image->bos[i];
	return NULL;
}

/* True if every byte of the BO that DMABUF returns is @byte. */
static bool has(const struct criu_node *node, int session, __u64 id, unsigned char byte)
{
	int fd = criu_dmabuf(node, session, id);
	unsigned char *at;
	size_t i = 0;

	if (fd < 0)
		return false;
	at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return false;
	while (i < SIZE && at[i] == byte)
		i++;
	munmap(at, SIZE);
	return i == SIZE;
}

FIXTURE(live) {
	struct client client;
	struct criu_image image;
	struct amdgpu_criu_process_info info;
	int session;
};

FIXTURE_VARIANT(live) {
	enum criu_node_kind kind;
};

FIXTURE_VARIANT_ADD(live, kfd) {
	.kind = CRIU_NODE_KFD,
};

FIXTURE_VARIANT_ADD(live, render) {
	.kind = CRIU_NODE_RENDER,
};

FIXTURE_SETUP(live)
{
	int ret = make(&self->client, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	ASSERT_NE(NULL, self->client.at);
	self->session = criu_session(&self->client.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(live)
{
	if (self->session >= 0)
		close(self->session);
	criu_image_free(&self->image);
	unmake(&self->client);
}

static int look(FIXTURE_DATA(live) *self)
{
	return live_info(&self->client.node, self->session, 0, &self->info);
}

static int list_all(FIXTURE_DATA(live) *self)
{
	return list(&self->client.node, self->session, &self->info, &self->image);
}

TEST_F(live, lists_and_copies_while_the_process_runs)
{
	const struct amdgpu_criu_bo *bo;
	__u32 i;

	ASSERT_EQ(0, look(self));
	EXPECT_EQ(getpid(), self->info.pid);
	EXPECT_LE(2, self->info.num_bos);
	EXPECT_EQ(0, self->info.blob_size);
	EXPECT_TRUE(runs(&self->client, SOON));
	ASSERT_EQ(0, list_all(self));
	EXPECT_EQ(self->info.num_bos, self->image.num_bos);
	EXPECT_EQ(self->info.num_devices, self->image.num_devices);
	for (i = 0; i < self->image.num_devices; i++) {
		EXPECT_NE(0, self->image.devices[i].actual_gpu_id);
		EXPECT_EQ(-1, self->image.devices[i].drm_fd);
	}
	bo = find(&self->client, &self->image);
	ASSERT_NE(NULL, bo);
	EXPECT_EQ(SIZE, bo->size);
	EXPECT_EQ(AMDGPU_CRIU_DOMAIN_VRAM, bo->domain);
	EXPECT_TRUE(bo->flags & AMDGPU_CRIU_BO_CONTENTS);
	EXPECT_TRUE(has(&self->client.node, self->session, bo->object_id, 0x5a));
	EXPECT_TRUE(runs(&self->client, SOON));
	/* Later copies contain what the process writes. */
	memset(self->client.at, 0x77, SIZE);
	EXPECT_TRUE(has(&self->client.node, self->session, bo->object_id, 0x77));
}

TEST_F(live, a_bo_that_is_freed_meanwhile_can_still_be_copied)
{
	__u64 id;

	ASSERT_EQ(0, look(self));
	ASSERT_EQ(0, list_all(self));
	ASSERT_NE(NULL, find(&self->client, &self->image));
	id = find(&self->client, &self->image)->object_id;
	ASSERT_EQ(0, free_bo(&self->client));
	EXPECT_TRUE(has(&self->client.node, self->session, id, 0x5a));
	ASSERT_EQ(0, list_all(self));
	EXPECT_EQ(self->info.num_bos - 1, self->image.num_bos);
	EXPECT_EQ(NULL, find(&self->client, &self->image));
	EXPECT_TRUE(runs(&self->client, SOON));
}

TEST_F(live, a_bo_that_is_new_needs_more_room)
{
	ASSERT_EQ(0, look(self));
	ASSERT_EQ(0, add_bo(&self->client));
	EXPECT_EQ(-ENOSPC, list_all(self));
	EXPECT_EQ(++self->info.num_bos, self->image.num_bos);
	EXPECT_EQ(0, list_all(self));
}

/* All that a live session does not serve. */
TEST_F(live, all_else_is_refused_by_name)
{
	struct amdgpu_criu_process_info info = { .session_fd = self->session };
	struct amdgpu_criu_unpause unpause = { .session_fd = self->session };
	struct amdgpu_criu_exported exported = { .session_fd = self->session };
	struct amdgpu_criu_outside outside = { .session_fd = self->session };
	struct amdgpu_criu_state restore = { .session_fd = self->session };
	struct amdgpu_criu_resume resume = { .session_fd = self->session };

	ASSERT_EQ(0, look(self));
#define EXPECT_REFUSED(op, args) do { \
	EXPECT_EQ(-EBADFD, criu_op(&self->client.node, op, args)); \
	EXPECT_NE(NULL, strstr(criu_reason, "the session is live")); \
} while (0)
	EXPECT_REFUSED(PROCESS_INFO, &info);
	EXPECT_REFUSED(UNPAUSE, &unpause);
	EXPECT_REFUSED(RESTORE, &restore);
	EXPECT_REFUSED(RESUME, &resume);
	if (variant->kind == CRIU_NODE_RENDER) {
		EXPECT_REFUSED(EXPORTED, &exported);
		EXPECT_REFUSED(OUTSIDE, &outside);
	}
	EXPECT_TRUE(runs(&self->client, SOON));
	EXPECT_EQ(0, look(self));
}

TEST_F(live, a_session_that_has_paused_a_process_is_refused_by_name)
{
	ASSERT_EQ(0, criu_pause(&self->client.node, self->session, &self->info));
	EXPECT_EQ(-EBADFD, look(self));
	EXPECT_STREQ("the session has paused a process", criu_reason);
	ASSERT_EQ(0, criu_unpause(&self->client.node, self->session));
	EXPECT_TRUE(runs(&self->client, SOON));
}

TEST_F(live, a_pause_by_another_session_changes_nothing)
{
	struct amdgpu_criu_process_info info;
	int other = criu_session(&self->client.node, AMDGPU_CRIU_SESSION_CHECKPOINT);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, look(self));
	ASSERT_EQ(0, criu_pause(&self->client.node, other, &info));
	EXPECT_EQ(0, look(self));
	EXPECT_EQ(0, list_all(self));
	close(self->session);
	self->session = -1;
	/* Still paused. */
	EXPECT_EQ(0, criu_unpause(&self->client.node, other));
	EXPECT_TRUE(runs(&self->client, SOON));
	close(other);
}

TEST_F(live, needs_a_session_of_kind_checkpoint)
{
	int restore = criu_session(&self->client.node, AMDGPU_CRIU_SESSION_RESTORE);

	ASSERT_LE(0, restore);
	EXPECT_EQ(-EBADFD, live_info(&self->client.node, restore, 0, &self->info));
	close(restore);
}

/* A process that submits until it is killed, and writes when it is ready. */
static pid_t start_busy(enum criu_node_kind kind, int ready)
{
	struct client *client = mmap(NULL, sizeof(*client), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();

	if (!child) {
		if (make(client, kind) || write(ready, "", 1) != 1)
			_exit(1);
		while (runs(client, SOON))
			continue;
		_exit(2);
	}
	return child;
}

/* The same rule as for the pause: the caller traces the process, which need not stop. */
TEST_F(live, needs_a_tracer_and_no_stop)
{
	struct criu_node node = { .kind = variant->kind };
	char path[64], link[64], name[64];
	int go[2], fd, status;
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(go));
	child = start_busy(variant->kind, go[1]);
	ASSERT_LT(0, child);
	close(go[1]);
	ASSERT_EQ(1, read(go[0], &byte, 1));
	snprintf(name, sizeof(name), variant->kind == CRIU_NODE_KFD ? "/dev/kfd" : "/dev/dri/");
	/* Its own file, and not those that it has from this process: the last one. */
	for (fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", child, fd);
		memset(link, 0, sizeof(link));
		if (readlink(path, link, sizeof(link) - 1) > 0 &&
		    !strncmp(link, name, strlen(name)))
			node.fd = fd;
	}
	node.fd = fd_of_process(child, node.fd);
	ASSERT_LE(0, node.fd);
	EXPECT_EQ(-EBADF, live_info(&node, self->session, child, &self->info));
	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, child, 0, 0));
	EXPECT_EQ(0, live_info(&node, self->session, child, &self->info));
	EXPECT_EQ(child, self->info.pid);
	EXPECT_EQ(0, list(&node, self->session, &self->info, &self->image));
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) == child)
		continue;
	EXPECT_EQ(-ESRCH, live_info(&node, self->session, child, &self->info));
	close(node.fd);
	close(go[0]);
}

TEST_HARNESS_MAIN
