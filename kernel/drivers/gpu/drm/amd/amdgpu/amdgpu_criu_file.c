// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: File
 *
 * Carried: the reserved VMID, and the name of DRM_IOCTL_SET_CLIENT_NAME.
 *
 * Not carried: files of card nodes, sessions of UVD and VCE, memory faults that were reported.
 */
#include <drm/drm_syncobj.h>
#include <linux/ctype.h>

#include "amdgpu_criu_render.h"

/* Returns the syncobj with the next higher handle, with a reference, or NULL. */
struct drm_syncobj *amdgpu_criu_next_syncobj(struct drm_file *file, unsigned long *handle)
{
	struct drm_syncobj *syncobj;

	xa_lock(&file->syncobj_xa);
	syncobj = xa_find_after(&file->syncobj_xa, handle, ULONG_MAX, XA_PRESENT);
	if (syncobj)
		drm_syncobj_get(syncobj);
	xa_unlock(&file->syncobj_xa);
	return syncobj;
}

int amdgpu_criu_file_carriable(struct criu_dump *dump)
{
	const struct amdgpu_device *adev = dump->adev;
	bool has_video = false;

	if (READ_ONCE(dump->fpriv->vm.fault_info.status))
		return criu_refuse_state(dump->call, "a memory fault was reported");
	/* Engines before VCN: no ioctl can set the state that their firmware keeps. */
	for (u32 i = 0; i < ARRAY_SIZE(adev->uvd.filp); i++)
		has_video |= adev->uvd.filp[i] == dump->file;
	for (u32 i = 0; i < ARRAY_SIZE(adev->vce.filp); i++)
		has_video |= adev->vce.filp[i] == dump->file;
	return has_video ? criu_refuse_state(dump->call, "sessions of UVD or VCE") : 0;
}

int amdgpu_criu_wait_resv(struct dma_resv *resv, unsigned long deadline)
{
	long ret = dma_resv_wait_timeout(resv, DMA_RESV_USAGE_READ, true,
					 max(1L, (long)(deadline - jiffies)));

	return ret ? min(ret, 0L) : -ETIME;
}

/* Every submission adds its fence to the page directory, where it outlives the context. */
int amdgpu_criu_drain_vm(struct criu_dump *dump, unsigned long deadline)
{
	const int ret = amdgpu_criu_wait_resv(dump->fpriv->vm.root.bo->tbo.base.resv, deadline);

	return criu_refuse_late(dump->call, ret, "the GPU does not complete submitted work");
}

int amdgpu_criu_wait_fence(struct dma_fence *fence, unsigned long deadline)
{
	long ret = dma_fence_wait_timeout(fence, true, max(0L, (long)(deadline - jiffies)));

	return ret ? min(ret, 0L) : -ETIME;
}

/* Returns the PCI location of a GPU, as in amdgpu_criu_file_record.device. */
u64 amdgpu_criu_device_of(struct amdgpu_device *adev)
{
	return (u64)pci_domain_nr(adev->pdev->bus) << 16 | pci_dev_id(adev->pdev);
}

/*
 * Returns the number of a GPU or its partition in KFD, or 0 if KFD does not drive it. The driver
 * holds the lock when it divides a GPU in another way, and frees nodes of KFD and reserves BOs.
 */
u32 amdgpu_criu_gpu_id(struct amdgpu_device *adev, u32 xcp_id)
{
	if (!IS_ENABLED(CONFIG_HSA_AMD))
		return 0;
	if (!adev->xcp_mgr)
		return kfd_criu_gpu_id(adev, xcp_id);
	guard(mutex)(&adev->xcp_mgr->xcp_lock);
	return kfd_criu_gpu_id(adev, xcp_id);
}

static void amdgpu_criu_describe_file(struct amdgpu_device *adev, struct amdgpu_fpriv *fpriv,
				      struct amdgpu_criu_file_record *record)
{
	*record = (struct amdgpu_criu_file_record) {
		.gpu_id = amdgpu_criu_gpu_id(adev, fpriv->xcp_id),
		.device = amdgpu_criu_device_of(adev),
		.gc_version = amdgpu_ip_version(adev, GC_HWIP, 0),
		.sdma_version = amdgpu_ip_version(adev, SDMA0_HWIP, 0),
		.vcn_version = amdgpu_ip_version(adev, VCN_HWIP, 0),
		.gb_addr_config = adev->gfx.config.gb_addr_config,
		/* See amdgpu_gem_va_ioctl(). */
		.va_end = adev->vm_manager.max_pfn * AMDGPU_GPU_PAGE_SIZE - AMDGPU_VA_RESERVED_TOP,
	};
	if (fpriv->vm.is_compute_context)
		record->flags |= AMDGPU_CRIU_FILE_VM_COMPUTE;
	if (fpriv->vm.reserved_vmid[AMDGPU_GFXHUB(0)])
		record->flags |= AMDGPU_CRIU_FILE_RESERVED_VMID;
}

static int amdgpu_criu_dump_file(struct criu_dump *dump)
{
	struct amdgpu_criu_client_name_record client = {};
	struct amdgpu_criu_file_record record;

	amdgpu_criu_describe_file(dump->adev, dump->fpriv, &record);
	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_FILE, &record);
	scoped_guard(mutex, &dump->file->client_name_lock)
		if (dump->file->client_name)
			memcpy(client.name, dump->file->client_name,
			       strnlen(dump->file->client_name, sizeof(client.name)));
	if (client.name[0])
		criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_CLIENT_NAME, &client);
	return 0;
}

static const struct criu_same amdgpu_criu_same[] = {
	CRIU_SAME(struct amdgpu_criu_file_record, u32, gc_version, "graphics IP version"),
	CRIU_SAME(struct amdgpu_criu_file_record, u32, sdma_version, "SDMA IP version"),
	CRIU_SAME(struct amdgpu_criu_file_record, u32, vcn_version, "video IP version"),
	CRIU_SAME(struct amdgpu_criu_file_record, u32, gb_addr_config, "tiling configuration"),
	CRIU_SAME(struct amdgpu_criu_file_record, u64, va_end, "end of the address space"),
};

static int amdgpu_criu_check_file(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_file_record *was = entry;
	struct amdgpu_criu_file_record now;
	int ret;

	if (plan->state->num_devices)
		return criu_refuse(plan->call, -EBADMSG, "table of %u GPUs for a render node",
				   plan->state->num_devices);
	if (was->flags & ~(AMDGPU_CRIU_FILE_VM_COMPUTE | AMDGPU_CRIU_FILE_RESERVED_VMID))
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", was->flags);
	amdgpu_criu_describe_file(plan->adev, plan->fpriv, &now);
	ret = criu_check_same(plan->call, amdgpu_criu_same, ARRAY_SIZE(amdgpu_criu_same), was,
			      &now);
	if (ret)
		return ret;
	if (!((now.flags ^ was->flags) & AMDGPU_CRIU_FILE_VM_COMPUTE))
		return 0;
	if (was->flags & AMDGPU_CRIU_FILE_VM_COMPUTE)
		return criu_refuse(plan->call, -EBADFD,
				   "its VM was KFD's: restore the process's /dev/kfd first, with this file");
	return criu_refuse(plan->call, -EBADFD, "its VM is KFD's, and was not");
}

/* Follows the code path of DRM_AMDGPU_VM. */
static int amdgpu_criu_apply_file(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_file_record *record = entry;
	int ret = 0;

	if (record->flags & AMDGPU_CRIU_FILE_RESERVED_VMID)
		ret = amdgpu_vmid_alloc_reserved(plan->adev, &plan->fpriv->vm, AMDGPU_GFXHUB(0));
	if (ret)
		criu_refuse(plan->call, ret, "another file has the reserved VMID: %d", ret);
	return ret;
}

static void amdgpu_criu_undo_file(struct criu_plan *plan, void *entry)
{
	if (plan->fpriv->vm.reserved_vmid[AMDGPU_GFXHUB(0)])
		amdgpu_vmid_free_reserved(plan->adev, &plan->fpriv->vm, AMDGPU_GFXHUB(0));
}

const struct criu_kind amdgpu_criu_files = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_FILE, files, struct amdgpu_criu_file_record, flags),
	.subject = "file",
	.dump = amdgpu_criu_dump_file,
	.check = amdgpu_criu_check_file,
	.apply = amdgpu_criu_apply_file, .undo = amdgpu_criu_undo_file,
};

/* DRM_IOCTL_SET_CLIENT_NAME accepts the name, and only zeros follow it. */
static const char *amdgpu_criu_name_fault(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_client_name_record *client = entry;
	const u32 size = sizeof(client->name);
	u32 i = 0;

	while (i < size && isascii(client->name[i]) && isgraph(client->name[i]))
		i++;
	return i && !memchr_inv(&client->name[i], 0, size - i) ? NULL : "invalid characters";
}

static void amdgpu_criu_set_name(struct drm_file *file, char *name)
{
	guard(mutex)(&file->client_name_lock);
	kfree(file->client_name);
	file->client_name = name;
}

/* Follows the code path of DRM_IOCTL_SET_CLIENT_NAME. */
static int amdgpu_criu_apply_name(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_client_name_record *client = entry;
	char *name = kmemdup_nul(client->name, strnlen(client->name, sizeof(client->name)),
				 GFP_KERNEL);

	if (!name)
		return -ENOMEM;
	amdgpu_criu_set_name(plan->file, name);
	return 0;
}

static void amdgpu_criu_undo_name(struct criu_plan *plan, void *entry)
{
	amdgpu_criu_set_name(plan->file, NULL);
}

const struct criu_kind amdgpu_criu_names = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_CLIENT_NAME, names, struct amdgpu_criu_client_name_record,
		  name[0]),
	.subject = "client name",
	.fault = amdgpu_criu_name_fault,
	.apply = amdgpu_criu_apply_name, .undo = amdgpu_criu_undo_name,
};
