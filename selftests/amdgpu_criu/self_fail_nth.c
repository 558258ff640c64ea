// SPDX-License-Identifier: GPL-2.0
/*
 * Every operation of /dev/kfd, with each of its allocations and each copy from or to the caller
 * failing in turn. The operation fails, leaves nothing behind, and works when it is called again.
 */
#include "kselftest_harness.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "complaints.h"
#include "fail_sweep.h"
#include "fixtures.h"

/* What a child returns to the test. */
struct answer {
	int ret;
	bool hit;
};

FIXTURE(saved) {
	struct paused p;
	struct amdgpu_criu_state args;
	__u64 object_id;
	/* The result of a call, which fail_row.done closes. */
	int fd;
};

static int close_result(void *data)
{
	FIXTURE_DATA(saved) *self = data;

	return close(self->fd) ? -errno : 0;
}

FIXTURE_SETUP(saved)
{
	int ret = fail_nth_prepare();

	if (ret == -ENOENT || ret == -EACCES || ret == -EPERM)
		SKIP(return, FAIL_SWEEP_NEEDS);
	ASSERT_EQ(0, ret);
	ret = paused_open(&self->p);
	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(saved)
{
	kfd_close_drm_fds(&self->p.image);
	paused_close(&self->p);
}

static int query(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	struct amdgpu_criu_record_info records[64];
	struct amdgpu_criu_query args = {
		.records = (uintptr_t)records,
		.num_records = ARRAY_SIZE(records),
		.record_stride = sizeof(records[0]),
	};

	return criu_op(&self->p.kfd.node, QUERY, &args);
}

TEST_F_TIMEOUT(saved, a_fault_in_QUERY_leaves_nothing, 600)
{
	static const struct fail_row row = { .call = query };

	fail_sweep(_metadata, self, &row);
}

static int session(void *data)
{
	FIXTURE_DATA(saved) *self = data;

	self->fd = criu_session(&self->p.kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	return self->fd < 0 ? self->fd : 0;
}

TEST_F_TIMEOUT(saved, a_fault_in_SESSION_leaves_nothing, 600)
{
	static const struct fail_row row = {
		.call = session, .done = close_result, .opens = 1, .allocates = true,
	};

	fail_sweep(_metadata, self, &row);
}

/* The queue of the process runs. */
static int runs(FIXTURE_DATA(saved) *self)
{
	static __u32 value;
	__u32 *word = self->p.state.gtt.at;

	kfd_sdma_write(&self->p.state.sdma, word, ++value);
	return kfd_becomes(word, value, 5000) ? 0 : -ETIME;
}

static int unpause(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	int ret = criu_unpause(&self->p.kfd.node, self->p.session);

	return ret ? ret : runs(self);
}

static int process_info(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	struct amdgpu_criu_process_info info;

	return criu_pause(&self->p.kfd.node, self->p.session, &info);
}

/* It is not paused. */
static int process_info_failed(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	int ret = criu_unpause(&self->p.kfd.node, self->p.session);

	return ret == -EBADFD ? runs(self) : -EEXIST;
}

TEST_F_TIMEOUT(saved, a_fault_in_PROCESS_INFO_leaves_nothing, 1200)
{
	static const struct fail_row row = {
		.call = process_info, .failed = process_info_failed, .done = unpause,
		.allocates = true,
	};

	ASSERT_EQ(0, unpause(self));
	fail_sweep(_metadata, self, &row);
}

static int checkpoint_before(void *data)
{
	FIXTURE_DATA(saved) *self = data;

	kfd_close_drm_fds(&self->p.image);
	return 0;
}

static int checkpoint(void *data)
{
	FIXTURE_DATA(saved) *self = data;

	self->args = criu_image_args(self->p.session, &self->p.image);
	return criu_op(&self->p.kfd.node, CHECKPOINT, &self->args);
}

/* A call that failed may have written numbers of descriptors that are not open. */
static int checkpoint_failed(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	__u32 i;

	for (i = 0; i < self->p.image.num_devices; i++)
		self->p.image.devices[i].drm_fd = -1;
	return 0;
}

TEST_F_TIMEOUT(saved, a_fault_in_CHECKPOINT_leaves_nothing, 1200)
{
	static const struct fail_row row = {
		.before = checkpoint_before, .call = checkpoint, .failed = checkpoint_failed,
		.opens = -1, .allocates = true,
	};

	fail_sweep(_metadata, self, &row);
}

static int evict(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	struct amdgpu_criu_evict args = { .session_fd = self->p.session };

	return criu_op(&self->p.kfd.node, EVICT, &args);
}

/* Also after a failure, BOs may have moved. */
static int pause_again(void *data)
{
	int ret = unpause(data);

	return ret ? ret : process_info(data);
}

TEST_F_TIMEOUT(saved, a_fault_in_EVICT_leaves_nothing, 1200)
{
	static const struct fail_row row = {
		.call = evict, .failed = pause_again, .done = pause_again, .allocates = true,
	};

	fail_sweep(_metadata, self, &row);
}

/* An exported object is not exported again, so each call that succeeds needs a new session. */
static int dmabuf_before(void *data)
{
	FIXTURE_DATA(saved) *self = data;
	int ret;

	if (self->object_id)
		return 0;
	kfd_close_drm_fds(&self->p.image);
	close(self->p.session);
	self->p.session = criu_session(&self->p.kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ret = self->p.session < 0 ? self->p.session : process_info(self);
	if (!ret)
		ret = checkpoint(self);
	if (!ret)
		self->object_id = paused_find(&self->p, &self->p.state.vram)->object_id;
	return ret;
}

static int dmabuf(void *data)
{
	FIXTURE_DATA(saved) *self = data;

	self->fd = criu_dmabuf(&self->p.kfd.node, self->p.session, self->object_id);
	return self->fd < 0 ? self->fd : 0;
}

static int dmabuf_done(void *data)
{
	FIXTURE_DATA(saved) *self = data;

	self->object_id = 0;
	return close_result(self);
}

TEST_F_TIMEOUT(saved, a_fault_in_DMABUF_leaves_nothing, 1200)
{
	static const struct fail_row row = {
		.before = dmabuf_before, .call = dmabuf, .done = dmabuf_done, .opens = 1,
		.allocates = true,
	};

	fail_sweep(_metadata, self, &row);
}

FIXTURE(restored) {
	struct restorer r;
	struct answer *answer;
};

FIXTURE_SETUP(restored)
{
	int ret = fail_nth_prepare();

	if (ret == -ENOENT || ret == -EACCES || ret == -EPERM)
		SKIP(return, FAIL_SWEEP_NEEDS);
	ASSERT_EQ(0, ret);
	ret = restorer_open(&self->r);
	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	self->answer = mmap(NULL, sizeof(*self->answer), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->answer);
}

FIXTURE_TEARDOWN(restored)
{
	restorer_close(&self->r);
}

static int restore(void *data)
{
	FIXTURE_DATA(restored) *self = data;

	return criu_restore(&self->r.kfd.node, self->r.session, &self->r.saved.carry.image);
}

/* All memory is there, and the process runs. */
static int complete(struct restorer *r)
{
	int ret = carry_fill(&r->saved.carry);

	if (!ret)
		ret = criu_resume(&r->kfd.node, r->session, 0);
	if (!ret && !state_is_filled(&r->saved.state, 1))
		ret = -ENODATA;
	return ret;
}

/* A restore that failed is repeated: it must find nothing of the first. */
static void restore_in_child(FIXTURE_DATA(restored) *self, unsigned int nth)
{
	int fault, ret = restorer_become(&self->r);

	if (ret)
		_exit(1);
	fault = fail_nth_arm(nth);
	self->answer->ret = fault < 0 ? fault : restore(self);
	self->answer->hit = fault >= 0 && fail_nth_disarm(fault);
	ret = self->answer->ret ? restore(self) : 0;
	_exit(ret || complete(&self->r));
}

/* A process is restored once, so each call is in a new child. */
static bool call_in_child(void *data, const struct fail_row *row, unsigned int nth, int *ret)
{
	FIXTURE_DATA(restored) *self = data;
	pid_t pid = fork();
	int status = -1;

	if (!pid)
		restore_in_child(self, nth);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		*ret = -ECHILD;
		return false;
	}
	*ret = self->answer->ret;
	return self->answer->hit;
}

TEST_F_TIMEOUT(restored, a_fault_in_RESTORE_leaves_nothing, 3600)
{
	static const struct fail_row row = {
		.call = restore, .call_with_fault = call_in_child, .allocates = true,
	};

	complaints_allow("ERROR.*Failed to (allocate|initialize) process doorbell");
	fail_sweep(_metadata, self, &row);
	complaints_disallow();
}

TEST_HARNESS_MAIN
