// SPDX-License-Identifier: GPL-2.0
/* A render node with some of every kind of state. */
#include "render.h"

#include <unistd.h>

static int fill_bos(const struct criu_node *node, const struct render_work *work)
{
	struct drm_amdgpu_bo_list_entry entries[2] = {
		{ .bo_handle = work->handle }, { .bo_priority = 1 },
	};
	__u32 list;
	int i, ret = 0;

	for (i = 0; !ret && i < 3; i++) {
		ret = render_bo_create(node, 0x1000 << i,
				       i ? AMDGPU_GEM_DOMAIN_GTT : AMDGPU_GEM_DOMAIN_VRAM, 0,
				       &entries[1].bo_handle);
		if (!ret)
			ret = render_va_map(node, entries[1].bo_handle, 0x1000000 + i * 0x100000,
					    0x1000 << i);
	}
	for (i = 0; !ret && i < 2; i++)
		ret = render_list_create(node, entries, 1 + i, &list);
	return ret;
}

static int fill_syncobjs(const struct criu_node *node)
{
	__u32 handle;
	int i, fd, ret = 0;

	for (i = 0; !ret && i < 3; i++)
		ret = render_syncobj_create(node, i & 1, &handle);
	if (!ret)
		ret = render_syncobj_signal_point(node, handle, 7);
	if (ret)
		return ret;
	fd = render_syncobj_export(node, handle);
	if (fd < 0)
		return fd;
	ret = render_syncobj_import(node, fd, &handle);
	close(fd);
	return ret;
}

int render_fill(const struct criu_node *node, struct render_work *work)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = 1, .value = 1 };
	int i, ret = render_work_make(node, work);
	__u64 sequence;

	if (!ret)
		ret = fill_bos(node, work);
	for (i = 0; !ret && i < 3; i++) {
		ret = render_ctx_create(node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx);
		job.ring = i % 2;
		if (!ret)
			ret = render_submit(node, work, &job, &sequence);
	}
	return ret ? ret : fill_syncobjs(node);
}
