/* SPDX-License-Identifier: GPL-2.0 */
/* A file with a user queue, and the file that it is restored to. */
#ifndef AMDGPU_CRIU_TEST_USERQ_FILES_H
#define AMDGPU_CRIU_TEST_USERQ_FILES_H

#include "kselftest_harness.h"

#include "render_blob.h"
#include "userq.h"

struct files {
	struct criu_node node, to;
	struct amdgpu_criu_process_info info;
	struct criu_image image;
	struct userq queue, restored;
	int session, load;
};

/* A file with a queue. False if the driver has no user queues for this GPU. */
static inline bool setup(struct __test_metadata *_metadata, struct files *f, __u32 ip_type)
{
	int ret;

	f->session = -1;
	f->load = -1;
	f->to.fd = -1;
	ret = render_open(&f->node, 0);
	if (!ret)
		ret = userq_make(&f->node, &f->queue, ip_type, 0);
	if (ret == -ENODEV)
		return false;
	EXPECT_EQ(0, ret);
	f->session = criu_session(&f->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	EXPECT_LE(0, f->session);
	return true;
}

static inline void teardown(struct files *f)
{
	criu_image_free(&f->image);
	criu_node_close(&f->to);
	criu_node_close(&f->node);
	if (f->session >= 0)
		close(f->session);
	if (f->load >= 0)
		close(f->load);
}

static inline void pause_file(struct __test_metadata *_metadata, struct files *f)
{
	ASSERT_EQ(0, criu_pause(&f->node, f->session, &f->info)) {
		TH_LOG("%s", criu_reason);
	}
}

/* RESTORE to GPU @gpu, with the contents that BOs of @from have now. */
static inline void load(struct __test_metadata *_metadata, struct files *f, unsigned int gpu)
{
	ASSERT_EQ(0, render_open(&f->to, gpu));
	f->load = criu_session(&f->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, f->load);
	ASSERT_EQ(0, criu_restore(&f->to, f->load, &f->image)) {
		TH_LOG("%s", criu_reason);
	}
	ASSERT_EQ(0, userq_again(&f->to, &f->image, &f->queue, &f->restored));
}

static inline void resume(struct __test_metadata *_metadata, struct files *f)
{
	ASSERT_EQ(0, criu_resume(&f->to, f->load, 0)) {
		TH_LOG("%s", criu_reason);
	}
}

static inline void expect_refused(struct __test_metadata *_metadata, struct files *f,
				  const char *why)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "cannot carry: %s", why);
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&f->node, f->session, &f->info));
	EXPECT_EQ(0, strncmp(criu_reason, reason, strlen(reason))) {
		TH_LOG("%s", criu_reason);
	}
	EXPECT_EQ(-EBADFD, criu_unpause(&f->node, f->session));
}

static inline void expect_taken(struct __test_metadata *_metadata, struct files *f)
{
	EXPECT_EQ(0, criu_pause(&f->node, f->session, &f->info)) {
		TH_LOG("%s", criu_reason);
	}
	EXPECT_EQ(0, criu_unpause(&f->node, f->session));
}

#endif /* AMDGPU_CRIU_TEST_USERQ_FILES_H */
