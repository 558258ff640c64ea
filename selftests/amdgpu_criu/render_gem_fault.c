// SPDX-License-Identifier: GPL-2.0
/* BOs and GEM handles of a render node: what RESTORE refuses. */
#include "kselftest_harness.h"

#include "kfd.h"
#include "render.h"
#include "render_blob.h"

#define BO_SIZE 0x4000
#define NUM_BOS 4

struct blob_handle {
	__u32 handle;
	__u32 pad;
	__u64 object_id;
};

FIXTURE(gem_fault) {
	struct criu_node node;
	struct criu_node to;
	struct criu_image image;
	int session;
};

/* BO 0: VRAM with metadata; 1: userptr; 2: GDS; 3: always valid; handles 1 to 4. */
FIXTURE_SETUP(gem_fault)
{
	struct drm_amdgpu_gem_metadata metadata = { .op = AMDGPU_GEM_METADATA_OP_SET_METADATA };
	__u32 handle;

	self->to.fd = -1;
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	metadata.handle = handle;
	metadata.data.data_size_bytes = 8;
	ASSERT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_GEM_METADATA, &metadata));
	ASSERT_EQ(0, render_userptr_create(&self->node, NULL, BO_SIZE,
					   AMDGPU_GEM_USERPTR_REGISTER, &handle));
	ASSERT_EQ(0, render_bo_create(&self->node, 4, AMDGPU_GEM_DOMAIN_GDS, 0, &handle));
	ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &handle));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(NUM_BOS, self->image.num_bos);
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(gem_fault)
{
	if (self->session >= 0)
		close(self->session);
	criu_image_free(&self->image);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

#define BAD_USER_ADDRESS "bad user address"
#define BAD_ENTRY "entry of the BO table does not fit its kind"
#define OTHER_ALLOWED "allowed domains that do not follow from the preferred ones"

static const struct {
	unsigned int index;
	struct blob_fault fault;
} object_faults[] = {
	{ 0, BLOB_FAULT_FOR("no id", "no id", blob_object, object_id, 0, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad size", "no size", blob_object, size, 0, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad size", "odd size", blob_object, size, BO_SIZE + 1, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad size", "huge size", blob_object, size, 1ULL << 49, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("unknown flags", "encrypted", blob_object, create_flags,
			    AMDGPU_GEM_CREATE_ENCRYPTED, -EOPNOTSUPP) },
	{ 0, BLOB_FAULT_FOR("unknown flags", "flag of the kernel", blob_object, create_flags,
			    AMDGPU_GEM_CREATE_CP_MQD_GFX9, -EOPNOTSUPP) },
	{ 0, BLOB_FAULT_FOR("unknown flags", "unknown flag", blob_object, create_flags, 1ULL << 63,
			    -EOPNOTSUPP) },
	{ 0, BLOB_FAULT_FOR("unknown flags", "unknown record flag", blob_object, flags, 1u << 31,
			    -EOPNOTSUPP) },
	{ 0, BLOB_FAULT_FOR("user address, but no userptr", "user address", blob_object, user_addr,
			    0x1000, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("user address, but no userptr", "user flags", blob_object, user_flags,
			    AMDGPU_GEM_USERPTR_REGISTER, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad domains", "unknown domain", blob_object, preferred_domains, 1 << 7,
			    -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad domains", "two kinds of domain", blob_object, preferred_domains,
			    AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_OA, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad domains", "two special domains", blob_object, preferred_domains,
			    AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(OTHER_ALLOWED, "allows less", blob_object, allowed_domains, 0,
			    -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(OTHER_ALLOWED, "allows more", blob_object, allowed_domains,
			    AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_CPU, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad placement", "in two domains", blob_object, placement,
			    AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad placement", "in a domain of another kind", blob_object, placement,
			    AMDGPU_GEM_DOMAIN_GDS, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("bad placement", "in an unknown domain", blob_object, placement,
			    1u << 30, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(BAD_ENTRY, "table domain", blob_object, domain, AMDGPU_CRIU_DOMAIN_GTT,
			    -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(BAD_ENTRY, "table flags", blob_object, table_flags,
			    AMDGPU_CRIU_BO_USERPTR, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(BAD_ENTRY, "unknown table flag", blob_object, table_flags,
			    AMDGPU_CRIU_BO_CONTENTS | 1u << 31, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("of the file's GPU and of another", "imported, but of this GPU",
			    blob_object, table_flags,
			    AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_IMPORTED, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("not the one that the record of its BO names", "another handle",
			    blob_object, handle, 77, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("of the file's GPU and of another", "another GPU id", blob_object,
			    gpu_id, 1, -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(TAIL_FAULT, "more metadata than tail", blob_object, metadata_size, 256,
			    -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(TAIL_FAULT, "less metadata than tail", blob_object, metadata_size, 0,
			    -EBADMSG) },
	{ 0, BLOB_FAULT_FOR(TAIL_FAULT, "endless metadata", blob_object, metadata_size, ~0u,
			    -EBADMSG) },
	{ 0, BLOB_FAULT_FOR("its number occurs twice", "the id of another BO", blob_object,
			    object_id, 2, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR(BAD_USER_ADDRESS, "no user address", blob_object, user_addr, 0,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR(BAD_USER_ADDRESS, "odd user address", blob_object, user_addr, 0x1001,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR(BAD_USER_ADDRESS, "address of the kernel", blob_object, user_addr,
			    0xffff888000000000, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR(BAD_USER_ADDRESS, "beyond the last address", blob_object, user_addr,
			    0x7fffffffe000, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad flags of a userptr", "unknown user flag", blob_object, user_flags,
			    0x80000008, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad flags of a userptr", "writeable, without notifier", blob_object,
			    user_flags, 0, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR(OTHER_ALLOWED, "userptr in VRAM", blob_object, preferred_domains,
			    AMDGPU_GEM_DOMAIN_VRAM, -EBADMSG) },
	{ 1, { "userptr that may be in VRAM", offsetof(struct blob_object, preferred_domains),
	       2 * sizeof(__u32), (__u64)AMDGPU_GEM_DOMAIN_VRAM << 32 | AMDGPU_GEM_DOMAIN_VRAM,
	       -EBADMSG, "userptr in another domain" } },
	{ 1, BLOB_FAULT_FOR("userptr with flags of another kind of BO", "always valid userptr",
			    blob_object, create_flags, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID,
			    -EBADMSG) },
	{ 2, BLOB_FAULT_FOR("always valid, but not memory", "always valid GDS", blob_object,
			    create_flags,
			    AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_NO_CPU_ACCESS,
			    -EBADMSG) },
	{ 2, BLOB_FAULT_FOR("not memory, but with CPU access", "GDS for the CPU", blob_object,
			    create_flags, 0, -EBADMSG) },
};

/* RESTORE with a fault in the record of a BO, and in its entry of the table. */
static int restore_object_fault(FIXTURE_DATA(gem_fault) *self, unsigned int index,
				const struct blob_fault *fault)
{
	struct criu_image alike = self->image;
	struct amdgpu_criu_bo bos[NUM_BOS];
	struct blob blob;
	int ret;

	if (!blob_copy(&blob, self->image.blob, self->image.blob_size))
		return -ENOMEM;
	memcpy((char *)blob_payload(&blob, blob_find(&blob, BLOB_RENDER_OBJECT, index)) +
	       fault->offset, &fault->value, fault->size);
	alike.num_bos = blob_render_table(&blob, bos);
	alike.bos = bos;
	ret = blob_restore(&self->to, self->session, &alike, &blob);
	blob_free(&blob);
	return ret;
}

TEST_F(gem_fault, an_invalid_record_of_a_bo_is_refused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(object_faults); i++) {
		const struct blob_fault *fault = &object_faults[i].fault;

		EXPECT_EQ(fault->error,
			  restore_object_fault(self, object_faults[i].index, fault)) {
			TH_LOG("%s", fault->what);
		}
		EXPECT_NE(NULL, strstr(criu_reason, fault->reason)) {
			TH_LOG("%s: %s", fault->what, criu_reason);
		}
	}
	/* None of them has left anything behind. */
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
}

/* The limit of DRM_AMDGPU_GEM_METADATA is 256 bytes. */
TEST_F(gem_fault, more_metadata_than_the_ioctl_accepts_is_refused)
{
	static const char more[256];
	struct blob_object *object;
	struct blob blob;
	size_t at;

	ASSERT_TRUE(blob_copy(&blob, self->image.blob, self->image.blob_size));
	at = blob_find(&blob, BLOB_RENDER_OBJECT, 0);
	object = blob_payload(&blob, at);
	ASSERT_EQ(8, object->metadata_size);
	object->metadata_size += sizeof(more);
	blob_insert(&blob, at + sizeof(struct blob_record) + blob_record(&blob, at)->size, more,
		    sizeof(more));
	blob_record(&blob, at)->size += sizeof(more);
	EXPECT_EQ(-EBADMSG, blob_restore(&self->to, self->session, &self->image, &blob));
	EXPECT_NE(NULL, strstr(criu_reason, "too much metadata"));
	blob_free(&blob);
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
}

/* Two blobs of one session whose BOs have the same ids: these BOs belong to one file. */
TEST_F(gem_fault, bos_that_belong_to_one_file_are_not_restored_in_a_second)
{
	struct criu_image always_valid, plain, userptr;
	struct criu_node from[3], first, second;
	const struct blob_fault of_vm = BLOB_FAULT("", blob_object, create_flags,
						   AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, -EBADMSG);
	__u32 handle;
	int i, session;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, render_open(&from[i], 0));
	ASSERT_EQ(0, render_bo_create(&from[0], BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &handle));
	ASSERT_EQ(0, render_bo_create(&from[1], BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, render_userptr_create(&from[2], NULL, BO_SIZE, AMDGPU_GEM_USERPTR_REGISTER,
					   &handle));
	ASSERT_EQ(0, render_save(&from[0], &always_valid));
	ASSERT_EQ(0, render_save(&from[1], &plain));
	ASSERT_EQ(0, render_save(&from[2], &userptr));
	ASSERT_EQ(always_valid.bos[0].object_id, plain.bos[0].object_id);
	ASSERT_EQ(userptr.bos[0].object_id, plain.bos[0].object_id);
	for (i = 0; i < 3; i++) {
		const struct criu_image *was = i == 2 ? &userptr : i ? &plain : &always_valid;

		ASSERT_EQ(0, render_open(&first, 0));
		ASSERT_EQ(0, render_open(&second, 0));
		session = criu_session(&first, AMDGPU_CRIU_SESSION_RESTORE);
		ASSERT_LE(0, session);
		ASSERT_EQ(0, criu_restore(&first, session, was));
		/* Of a plain BO, the second blob claims that it belongs to its VM. */
		EXPECT_EQ(-EBADMSG, i == 1 ? blob_restore_fault(&second, session, &plain,
								BLOB_RENDER_OBJECT, 0, 0, &of_vm) :
					     criu_restore(&second, session, &plain));
		EXPECT_NE(NULL, strstr(criu_reason, i ? "is of a kind that cannot be shared" :
							"belongs to the VM of another file")) {
			TH_LOG("%d: %s", i, criu_reason);
		}
		close(session);
		criu_node_close(&first);
		criu_node_close(&second);
	}
	for (i = 0; i < 3; i++)
		criu_node_close(&from[i]);
	criu_image_free(&always_valid);
	criu_image_free(&plain);
	criu_image_free(&userptr);
}

TEST_F(gem_fault, a_bo_that_was_restored_on_another_gpu_is_refused)
{
	struct criu_node other;
	struct criu_image plain;
	__u32 handle;

	if (render_open(&other, 1))
		SKIP(return, "needs a second GPU");
	ASSERT_EQ(0, render_bo_create(&other, BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, render_save(&other, &plain));
	criu_node_close(&other);
	ASSERT_EQ(0, render_open(&other, 1));
	ASSERT_EQ(0, criu_restore(&other, self->session, &plain));
	EXPECT_EQ(-ENODEV, criu_restore(&self->to, self->session, &plain));
	EXPECT_NE(NULL, strstr(criu_reason, "it was restored before, on another GPU"));
	criu_node_close(&other);
	criu_image_free(&plain);
}

TEST_F(gem_fault, a_file_whose_vm_kfd_uses_is_refused)
{
	struct criu_node node = { .kind = CRIU_NODE_RENDER };
	struct kfd kfd;

	if (kfd_open(&kfd))
		SKIP(return, "no GPU in the topology of KFD");
	node.fd = kfd.drm_fd;
	EXPECT_EQ(-EBADFD, criu_restore(&node, self->session, &self->image));
	EXPECT_NE(NULL, strstr(criu_reason, "its VM is KFD's, and was not"));
	kfd_close(&kfd);
}

static const struct blob_fault handle_faults[] = {
	BLOB_FAULT_FOR("bad number", "number 0", blob_handle, handle, 0, -EBADMSG),
	BLOB_FAULT_FOR("its number occurs twice", "a number in use", blob_handle, handle, 3,
		       -EBADMSG),
	BLOB_FAULT_FOR("a BO names a GEM handle that does not exist",
		       "a number that its BO does not have", blob_handle, handle, 9, -EBADMSG),
	BLOB_FAULT_FOR("bad number", "a number beyond any limit", blob_handle, handle, 1 << 21,
		       -EBADMSG),
	BLOB_FAULT_FOR("bad number", "pad", blob_handle, pad, 1, -EBADMSG),
	BLOB_FAULT_FOR("of no BO", "no BO", blob_handle, object_id, 0, -EBADMSG),
	BLOB_FAULT_FOR("of no BO", "a BO that does not exist", blob_handle, object_id, 99,
		       -EBADMSG),
	BLOB_FAULT_FOR("not the one that the record of its BO names", "another BO", blob_handle,
		       object_id, 3, -EBADMSG),
};

TEST_F(gem_fault, an_invalid_record_of_a_handle_is_refused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(handle_faults); i++)
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_HANDLE, 1, 0,
			     &handle_faults[i]);
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
}

/* RESTORE without the first record of a type, nor its entry of the table. */
static int erase(FIXTURE_DATA(gem_fault) *self, __u16 type)
{
	struct criu_image alike = self->image;
	struct amdgpu_criu_bo bos[NUM_BOS];
	struct blob blob;
	size_t at;
	int ret;

	if (!blob_copy(&blob, self->image.blob, self->image.blob_size))
		return -ENOMEM;
	at = blob_find(&blob, type, 0);
	blob_erase(&blob, at, sizeof(struct blob_record) + blob_record(&blob, at)->size);
	alike.num_bos = blob_render_table(&blob, bos);
	alike.bos = bos;
	ret = blob_restore(&self->to, self->session, &alike, &blob);
	blob_free(&blob);
	return ret;
}

TEST_F(gem_fault, a_missing_record_is_refused)
{
	EXPECT_EQ(-EBADMSG, erase(self, BLOB_RENDER_HANDLE));
	EXPECT_NE(NULL, strstr(criu_reason, "a BO names a GEM handle that does not exist"));
	EXPECT_EQ(-EBADMSG, erase(self, BLOB_RENDER_OBJECT));
	EXPECT_NE(NULL, strstr(criu_reason, "GEM handle 1: of no BO"));
	EXPECT_EQ(-EBADMSG, erase(self, BLOB_RENDER_FILE));
	EXPECT_NE(NULL, strstr(criu_reason, "(file) version 0 at byte"));
	EXPECT_NE(NULL, strstr(criu_reason, "too few of the type"));
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
}

TEST_F(gem_fault, a_table_that_differs_from_the_blob_is_refused)
{
	struct criu_image spoiled = self->image;
	struct amdgpu_criu_bo was = self->image.bos[1];
	struct amdgpu_criu_device device = {};
	size_t at;

	spoiled.num_bos--;
	EXPECT_EQ(-EBADMSG, criu_restore(&self->to, self->session, &spoiled));
	EXPECT_NE(NULL, strstr(criu_reason, "table of 3 BOs for a blob of 4"));
	spoiled.num_bos++;
	/* Any bit, except those of the field that RESTORE sets, which it ignores. */
	for (at = 0; at < sizeof(was); at++) {
		((unsigned char *)&spoiled.bos[1])[at] ^= 1 << at % 8;
		if (at - offsetof(struct amdgpu_criu_bo, new_mmap_offset) >= sizeof(__u64)) {
			EXPECT_EQ(-EBADMSG, criu_restore(&self->to, self->session, &spoiled)) {
				TH_LOG("byte %zu", at);
			}
			EXPECT_NE(NULL, strstr(criu_reason, "BO 1: table and record do not agree"));
		}
		spoiled.bos[1] = was;
	}
	spoiled.devices = &device;
	spoiled.num_devices = 1;
	EXPECT_EQ(-EBADMSG, criu_restore(&self->to, self->session, &spoiled));
	EXPECT_NE(NULL, strstr(criu_reason, "table of 1 GPUs for a render node"));
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
}

/* It fails while the blob is applied: everything created before is freed. */
TEST_F(gem_fault, a_bo_that_cannot_be_allocated_leaves_nothing)
{
	struct blob_fault huge = BLOB_FAULT("1 TiB", blob_object, size, 1ULL << 40, -ENOMEM);
	__u64 was = self->image.bos[3].size;
	char fdinfo[256], path[64];
	__u32 handle;
	FILE *file;

	self->image.bos[3].size = huge.value;
	EXPECT_EQ(-ENOMEM, blob_restore_fault(&self->to, self->session, &self->image,
					      BLOB_RENDER_OBJECT, 3, 0, &huge));
	self->image.bos[3].size = was;
	ASSERT_EQ(0, render_bo_create(&self->to, BO_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	EXPECT_EQ(1, handle);
	ASSERT_EQ(0, render_bo_close(&self->to, handle));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->session);
	file = fopen(path, "r");
	ASSERT_NE(NULL, file);
	while (fgets(fdinfo, sizeof(fdinfo), file)) {
		if (!strncmp(fdinfo, "criu-session-objects:", 21))
			EXPECT_EQ(0, atoi(fdinfo + 21));
		if (!strncmp(fdinfo, "criu-session-clients:", 21))
			EXPECT_EQ(0, atoi(fdinfo + 21));
	}
	fclose(file);
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
}

TEST_HARNESS_MAIN
