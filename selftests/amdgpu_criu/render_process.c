// SPDX-License-Identifier: GPL-2.0
/* A file of several processes, and processes that end or race while it is paused. */
#include "kselftest_harness.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <time.h>

#include "render.h"
#include "render_blob.h"

#define BO_SIZE 0x1000

FIXTURE(process) {
	struct criu_node node;
	int session;
	struct amdgpu_criu_process_info info;
};

FIXTURE_SETUP(process)
{
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(process)
{
	if (self->session >= 0)
		close(self->session);
	criu_node_close(&self->node);
}

static int create(const struct criu_node *node)
{
	__u32 handle;

	return render_bo_create(node, BO_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);
}

/* An idle process that has all files of this one. */
static pid_t start_idle(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, __WALL);
}

static int pause_of(FIXTURE_DATA(process) *self, pid_t pid)
{
	self->info = (struct amdgpu_criu_process_info) {
		.session_fd = self->session, .pid = pid,
	};
	return criu_op(&self->node, PROCESS_INFO, &self->info);
}

TEST_F(process, a_caller_that_dies_unpauses_the_file)
{
	int ready[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* It has a session of its own: the parent's has not paused the file. */
		self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
		byte = pause_of(self, 0) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	ASSERT_EQ('y', byte);
	EXPECT_EQ(-EBUSY, pause_of(self, 0));
	end(child);
	EXPECT_EQ(0, create(&self->node));
	EXPECT_EQ(0, pause_of(self, 0));
	EXPECT_EQ(1, self->info.num_bos);
	close(ready[0]);
	close(ready[1]);
}

TEST_F(process, a_target_that_exits_while_paused_is_ESRCH)
{
	struct amdgpu_criu_state args = { .session_fd = self->session };
	pid_t child = start_idle();

	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, child, 0, 0));
	ASSERT_EQ(0, pause_of(self, child));
	EXPECT_EQ(child, self->info.pid);
	end(child);
	EXPECT_EQ(-ESRCH, criu_op(&self->node, CHECKPOINT, &args));
	EXPECT_EQ(-ESRCH, pause_of(self, child));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, create(&self->node));
	/* This process has the file, too. */
	EXPECT_EQ(0, pause_of(self, 0));
}

TEST_F(process, two_processes_with_the_file_give_the_same_image)
{
	struct criu_image ours, theirs;
	struct criu_node to;
	pid_t child;
	int status;

	ASSERT_EQ(0, create(&self->node));
	/* One process creates a BO, the other has it, too. */
	child = fork();
	if (!child)
		_exit(-create(&self->node));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	child = start_idle();
	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, child, 0, 0));
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &ours));
	ASSERT_EQ(0, pause_of(self, child));
	EXPECT_EQ(child, self->info.pid);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &theirs));
	EXPECT_EQ(2, ours.num_bos);
	ASSERT_EQ(ours.blob_size, theirs.blob_size);
	EXPECT_EQ(0, memcmp(ours.blob, theirs.blob, ours.blob_size));
	EXPECT_EQ(0, memcmp(ours.bos, theirs.bos, ours.num_bos * sizeof(*ours.bos)));
	end(child);
	EXPECT_EQ(0, render_restore_to(&to, 0, -1, &theirs));
	criu_node_close(&to);
	criu_image_free(&ours);
	criu_image_free(&theirs);
}

static int send_fd(int socket, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(fd))];
	} control = {};
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1 ? 0 : -errno;
}

static int receive_fd(int socket)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {};
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(socket, &message, 0) != 1 || control.header.cmsg_type != SCM_RIGHTS)
		return -EBADMSG;
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

/* One process opens the file and exits; the other received it through a socket. */
TEST_F(process, a_file_that_was_passed_on_belongs_to_its_holder)
{
	struct criu_node passed = { .kind = CRIU_NODE_RENDER };
	int sockets[2], up[2];
	pid_t first, second;
	__s32 number;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	ASSERT_EQ(0, pipe(up));
	second = fork();
	if (!second) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		number = receive_fd(sockets[1]);
		if (write(up[1], &number, sizeof(number)) != sizeof(number))
			_exit(1);
		for (;;)
			pause();
	}
	first = fork();
	if (!first) {
		if (render_open(&passed, 0) || create(&passed) || send_fd(sockets[0], passed.fd))
			_exit(1);
		_exit(0);
	}
	waitpid(first, NULL, 0);
	ASSERT_EQ(sizeof(number), read(up[0], &number, sizeof(number)));
	ASSERT_LE(0, number);
	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, second, 0, 0));
	passed.fd = fd_of_process(second, number);
	ASSERT_LE(0, passed.fd);
	close(self->node.fd);
	self->node.fd = passed.fd;
	EXPECT_EQ(-ESRCH, pause_of(self, first));
	EXPECT_EQ(0, pause_of(self, second));
	EXPECT_EQ(1, self->info.num_bos);
	end(second);
	close(sockets[0]);
	close(sockets[1]);
	close(up[0]);
	close(up[1]);
}

/* How long threads race. */
#define RACE_SECONDS 3

struct racer {
	const struct criu_node *node;
	pthread_t thread;
	bool (*step)(const struct criu_node *node, struct racer *racer);
	struct render_work work;
	struct render_job job;
	int session;
	unsigned int steps;
	int error;
};

static bool race_pause(const struct criu_node *node, struct racer *racer)
{
	struct amdgpu_criu_process_info info;
	int ret = criu_pause(node, racer->session, &info);

	if (!ret)
		ret = criu_unpause(node, racer->session);
	racer->error = ret == -EBUSY ? 0 : ret;
	return !racer->error;
}

static bool race_save(const struct criu_node *node, struct racer *racer)
{
	struct criu_image image;
	int ret = criu_checkpoint(node, racer->session, &image);

	criu_image_free(&image);
	if (!ret)
		ret = criu_unpause(node, racer->session);
	racer->error = ret == -EBUSY ? 0 : ret;
	return !racer->error;
}

static bool race_create(const struct criu_node *node, struct racer *racer)
{
	__u32 bo, syncobj;

	racer->error = render_bo_create(node, BO_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &bo);
	if (!racer->error)
		racer->error = render_syncobj_create(node, 0, &syncobj);
	if (!racer->error)
		racer->error = render_bo_close(node, bo);
	if (!racer->error)
		racer->error = render_syncobj_destroy(node, syncobj);
	return !racer->error;
}

static bool race_submit(const struct criu_node *node, struct racer *racer)
{
	struct render_job *job = &racer->job;
	__u64 sequence;

	job->hw_ip = AMDGPU_HW_IP_DMA;
	job->word = 20;
	job->value = racer->steps + 1;
	racer->error = render_ctx_create(node, AMDGPU_CTX_PRIORITY_NORMAL, &job->ctx);
	if (!racer->error)
		racer->error = render_submit(node, &racer->work, job, &sequence);
	if (!racer->error)
		racer->error = render_wait(node, job, sequence, 30 * RENDER_SECOND);
	if (!racer->error && racer->work.words[20] != job->value)
		racer->error = -EIO;
	if (!racer->error)
		racer->error = render_ctx_free(node, job->ctx);
	return !racer->error;
}

static void *race(void *data)
{
	struct racer *racer = data;
	struct timespec now, begin;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		if (!racer->step(racer->node, racer))
			break;
		racer->steps++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < begin.tv_sec + RACE_SECONDS);
	return NULL;
}

TEST_F(process, racing_pauses_do_no_harm)
{
	struct racer racers[] = {
		{ .step = race_pause }, { .step = race_save }, { .step = race_save },
		{ .step = race_create }, { .step = race_create }, { .step = race_submit },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(racers); i++) {
		racers[i].node = &self->node;
		racers[i].session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
		ASSERT_LE(0, racers[i].session);
		if (racers[i].step == race_submit)
			ASSERT_EQ(0, render_work_make(&self->node, &racers[i].work));
	}
	for (i = 0; i < ARRAY_SIZE(racers); i++)
		ASSERT_EQ(0, pthread_create(&racers[i].thread, NULL, race, &racers[i]));
	for (i = 0; i < ARRAY_SIZE(racers); i++) {
		EXPECT_EQ(0, pthread_join(racers[i].thread, NULL));
		EXPECT_EQ(0, racers[i].error) {
			TH_LOG("racer %zu", i);
		}
		EXPECT_LT(0, racers[i].steps);
		close(racers[i].session);
		render_work_unmap(&racers[i].work);
	}
	/* Only the BO of the submissions is left. */
	EXPECT_EQ(0, pause_of(self, 0));
	EXPECT_EQ(1, self->info.num_bos);
}

#define FILES 8

struct restorer {
	struct criu_node to;
	struct criu_image image;
	pthread_t thread;
	int session;
	int error;
};

static void *restore(void *data)
{
	struct restorer *restorer = data;

	restorer->error = render_restore_to(&restorer->to, 0, restorer->session,
					    &restorer->image);
	return NULL;
}

/* The first one creates shared objects: a syncobj of all, and one of each pair of neighbours. */
TEST_F(process, files_are_restored_in_parallel)
{
	struct restorer restorers[FILES];
	struct criu_node files[FILES];
	__u32 common[FILES], own[FILES], left[FILES];
	int session, fd, i;

	for (i = 0; i < FILES; i++)
		ASSERT_EQ(0, render_open(&files[i], 0));
	ASSERT_EQ(0, render_syncobj_create(&files[0], 0, &common[0]));
	fd = render_syncobj_export(&files[0], common[0]);
	for (i = 1; i < FILES; i++)
		ASSERT_EQ(0, render_syncobj_import(&files[i], fd, &common[i]));
	close(fd);
	for (i = 0; i < FILES; i++) {
		ASSERT_EQ(0, render_syncobj_create(&files[i], 0, &own[i]));
		fd = render_syncobj_export(&files[i], own[i]);
		ASSERT_EQ(0, render_syncobj_import(&files[(i + 1) % FILES], fd,
						   &left[(i + 1) % FILES]));
		close(fd);
	}
	for (i = 0; i < FILES; i++)
		ASSERT_EQ(0, criu_checkpoint(&files[i], self->session, &restorers[i].image));
	session = criu_session(&files[0], AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_keep(session));
	for (i = 0; i < FILES; i++) {
		restorers[i].session = session;
		ASSERT_EQ(0, pthread_create(&restorers[i].thread, NULL, restore, &restorers[i]));
	}
	for (i = 0; i < FILES; i++) {
		EXPECT_EQ(0, pthread_join(restorers[i].thread, NULL));
		ASSERT_EQ(0, restorers[i].error);
	}
	close(session);
	EXPECT_EQ(0, render_syncobj_signal_point(&restorers[3].to, common[3], 11));
	for (i = 0; i < FILES; i++) {
		EXPECT_EQ(0, render_syncobj_wait_point(&restorers[i].to, common[i], 11, 0));
		EXPECT_EQ(0, render_syncobj_signal_point(&restorers[i].to, own[i], 5 + i));
		EXPECT_EQ(0, render_syncobj_wait_point(&restorers[(i + 1) % FILES].to,
						       left[(i + 1) % FILES], 5 + i, 0));
	}
	for (i = 0; i < FILES; i++) {
		criu_node_close(&restorers[i].to);
		criu_node_close(&files[i]);
		criu_image_free(&restorers[i].image);
	}
}

TEST_HARNESS_MAIN
