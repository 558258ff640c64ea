/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files with blobs of released formats, one for each GPU generation. Each is written once, by
 * "PROGRAM --write DIRECTORY".
 */
#ifndef AMDGPU_CRIU_TEST_GOLDEN_FILE_H
#define AMDGPU_CRIU_TEST_GOLDEN_FILE_H

#include <stdio.h>
#include <stdlib.h>

#include "blob_edit.h"
#include "carry.h"

/* The path of a blob of the generation of GPU 0. The names of gfx90a do not have it. */
static inline const char *golden_path(char path[512], const char *directory, const char *name)
{
	struct kfd_gpu gpu;

	if (kfd_gpu_at(0, &gpu))
		return NULL;
	if (gpu.gfx_version == 90010)
		snprintf(path, 512, "%s/%s.blob", directory, name);
	else
		snprintf(path, 512, "%s/%s-gfx%u%u%x.blob", directory, name,
			 gpu.gfx_version / 10000, gpu.gfx_version / 100 % 100,
			 gpu.gfx_version % 100);
	return path;
}

static inline int golden_write(const char *directory, const char *name, const void *data,
			       size_t size)
{
	char path[512];
	FILE *file = golden_path(path, directory, name) ? fopen(path, "w") : NULL;

	if (!file || fwrite(data, size, 1, file) != 1 || fclose(file))
		return -errno;
	printf("%s: %zu bytes\n", path, size);
	return 0;
}

/* The blob can be edited. False if there is no such file. */
static inline bool golden_load(const char *name, struct blob *blob)
{
	char path[512];
	FILE *file = golden_path(path, "blobs", name) ? fopen(path, "r") : NULL;
	long size;

	if (!file)
		return false;
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	blob->data = malloc(size + BLOB_SPARE);
	blob->size = fread(blob->data, 1, size, file);
	fclose(file);
	return blob->size == (size_t)size;
}

/* Fields of records that a table needs: see kfd_criu_records.h. */
struct golden_bo {
	__u64 object_id, size, va, user_addr, mmap_offset;
	__u32 gpu_id, handle, alloc_flags, table_flags, domain, num_mapped;
};

struct golden_svm {
	__u64 start, size;
};

/* The tables that CHECKPOINT returned with the blob can be derived from it. */
static inline void golden_tables(struct carry *carry, struct blob *blob)
{
	struct criu_image *image = &carry->image;
	const size_t at_page = blob_find(blob, BLOB_KFD_EVENT_PAGE, 0);
	struct golden_bo bo;
	struct kfd_gpu gpu;
	size_t at;

	image->devices = calloc(CARRY_GPUS, sizeof(*image->devices));
	image->bos = calloc(CARRY_BOS, sizeof(*image->bos));
	for (; (at = blob_find(blob, BLOB_KFD_DEVICE, image->num_devices)); image->num_devices++) {
		struct amdgpu_criu_device *device = &image->devices[image->num_devices];
		const __u32 *fields = blob_payload(blob, at);

		device->gpu_id = fields[0];
		device->actual_gpu_id = kfd_gpu_at(image->num_devices, &gpu) ? 0 : gpu.gpu_id;
		device->drm_fd = -1;
		carry->has_vm[image->num_devices] = fields[1] & 1;
	}
	for (; (at = blob_find(blob, BLOB_KFD_BO, image->num_bos)); image->num_bos++) {
		memcpy(&bo, blob_payload(blob, at), sizeof(bo));
		image->bos[image->num_bos] = (struct amdgpu_criu_bo) {
			.object_id = bo.object_id, .size = bo.size, .va = bo.va,
			.mmap_offset = bo.mmap_offset, .gpu_id = bo.gpu_id, .handle = bo.handle,
			.domain = bo.domain, .flags = bo.table_flags,
		};
		carry->contents[image->num_bos] = calloc(1, bo.size);
		/* No slot of an event page is signaled. */
		if (at_page && *(__u64 *)blob_payload(blob, at_page) ==
			       ((__u64)bo.gpu_id << 32 | bo.handle))
			memset(carry->contents[image->num_bos], 0xff, bo.size);
	}
	for (unsigned int i = 0; (at = blob_find(blob, BLOB_KFD_SVM_RANGE, i)); i++) {
		struct golden_svm svm;

		memcpy(&svm, blob_payload(blob, at), sizeof(svm));
		carry->areas[i].at = (void *)(uintptr_t)svm.start;
		carry->areas[i].size = svm.size;
		carry->area_contents[i] = calloc(1, svm.size);
	}
}

/*
 * Compares the fields that the writer of @was had, and the tails, of record @index of a type.
 * Returns the offset of the first byte that differs; -1 if none does; 0 if @is has no such record.
 */
static inline int golden_difference(struct blob *was, struct blob *is, __u16 type,
				    unsigned int index)
{
	const size_t at = blob_find(was, type, index), to = blob_find(is, type, index);
	const struct blob_record *old = blob_record(was, at), *new = blob_record(is, to);
	const unsigned char *a = blob_payload(was, at), *b = blob_payload(is, to);
	__u32 i;

	if (!at || !to || new->size - new->fixed_size != old->size - old->fixed_size)
		return 0;
	for (i = 0; i < old->size; i++) {
		if (a[i] != *b)
			return i;
		b += i + 1 == old->fixed_size ? 1 + new->fixed_size - old->fixed_size : 1;
	}
	return -1;
}

/* Why @gpus GPUs cannot have the state of the blob, or NULL. */
static inline const char *golden_missing(unsigned int gpus, const char *name)
{
	char path[512];
	struct kfd_gpu gpu;

	if (kfd_gpu_at(gpus - 1, &gpu))
		return "too few GPUs in the topology of KFD";
	if (access("blobs", X_OK))
		return "no directory with golden blobs here";
	return access(golden_path(path, "blobs", name), R_OK) ?
	       "no golden blob of this GPU generation" : NULL;
}

#endif /* AMDGPU_CRIU_TEST_GOLDEN_FILE_H */
