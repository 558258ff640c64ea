// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/userfaultfd_k.h>

#include "amdgpu_criu_node.h"

#define AMDGPU_CRIU_STOP_TIME (5 * HZ) /* for running ioctls of the client */

/* Runs the operation of an envelope. @call: with @node, @client, @filp and @task. */
int amdgpu_criu_call(struct criu_call *call, const struct amdgpu_criu_ioctl *envelope)
{
	if (envelope->pad || !envelope->reason != !envelope->reason_size)
		return -EINVAL;
	if (envelope->reason != (uintptr_t)envelope->reason)
		return -EFAULT;
	call->ureason = envelope->reason;
	call->ureason_size = envelope->reason_size;
	return criu_ioctl(call, envelope->op, envelope->size, envelope->arg);
}

/* Checks an array. @size_v1: bytes of an entry in its first version. */
static int amdgpu_criu_table_check(u64 uptr, u32 num, u32 stride, size_t size_v1)
{
	u64 end;

	return num && (stride < size_v1 || stride > PAGE_SIZE || stride % 8 ||
		       check_add_overflow(uptr, (u64)num * stride, &end) || end > ULONG_MAX) ?
	       -EINVAL : 0;
}

int amdgpu_criu_state_check(const struct amdgpu_criu_state *state)
{
	if (state->flags)
		return -EINVAL;
	return amdgpu_criu_table_check(state->devices, state->num_devices, state->device_stride,
				       sizeof(struct amdgpu_criu_device)) ?:
	       amdgpu_criu_table_check(state->bos, state->num_bos, state->bo_stride,
				       sizeof(struct amdgpu_criu_bo));
}

/* Writes an array of entries of @size bytes, and zeros to the rest of the caller's entries. */
static int amdgpu_criu_table_put(u64 uptr, u32 num, u32 stride, const void *table, size_t size)
{
	const size_t both = min_t(size_t, size, stride);

	for (; num; num--, uptr += stride, table += size) {
		u8 __user *to = u64_to_user_ptr(uptr);

		if (copy_to_user(to, table, both) || clear_user(to + both, stride - both))
			return -EFAULT;
	}
	return 0;
}

/* Copies an array of entries of @size bytes. The caller frees *@table, even after an error. */
static int amdgpu_criu_table_copy(u64 uptr, u32 num, u32 stride, size_t size, void **table)
{
	int ret = 0;

	*table = kvcalloc(num, size, GFP_KERNEL_ACCOUNT);
	if (!*table)
		return -ENOMEM;
	for (u32 i = 0; !ret && i < num; i++)
		ret = copy_struct_from_user(*table + i * size, size,
					    u64_to_user_ptr(uptr + (u64)i * stride), stride);
	return ret;
}

int amdgpu_criu_query(struct criu_call *call, void *data)
{
	const struct criu_blob_schema *schema = call->node->schema;
	struct amdgpu_criu_query *args = data;
	u32 room = args->num_records;
	int ret = 0;

	if (args->pad || (!args->records && (room || args->record_stride)))
		return -EINVAL;
	if (args->records)
		ret = amdgpu_criu_table_check(args->records, max(room, 1U), args->record_stride,
					      sizeof(struct amdgpu_criu_record_info));
	if (ret)
		return ret;
	args->abi_min = AMDGPU_CRIU_ABI;
	args->abi_max = AMDGPU_CRIU_ABI;
	args->features = AMDGPU_CRIU_FEATURE_RENDER | AMDGPU_CRIU_FEATURE_LIVE |
			 AMDGPU_CRIU_FEATURE_EVICT;
	if (IS_ENABLED(CONFIG_HSA_AMD))
		args->features |= AMDGPU_CRIU_FEATURE_KFD;
	if (call->node->features)
		args->features |= call->node->features();
	args->blob_format = CRIU_BLOB_FORMAT;
	args->num_records = schema->num_records;
	if (!room)
		return 0;
	if (room < schema->num_records)
		return -ENOSPC;
	for (u32 i = 0; !ret && i < schema->num_records; i++) {
		const struct amdgpu_criu_record_info info = {
			.type = schema->records[i].type, .size = schema->records[i].size_now,
			.version_min = schema->records[i].version_min,
			.version_max = schema->records[i].version_max,
		};

		ret = amdgpu_criu_table_put(args->records + (u64)i * args->record_stride, 1,
					    args->record_stride, &info, sizeof(info));
	}
	return ret;
}

/* Sets @targets, which amdgpu_criu_dump() frees. */
static int amdgpu_criu_targets_get(struct criu_dump *dump, const struct amdgpu_criu_state *args)
{
	const u32 num = args->num_records;
	int ret;

	/* The uapi names the fields of the codec. */
	BUILD_BUG_ON(sizeof(struct amdgpu_criu_record_info) != sizeof(struct criu_record_target));

	if (!args->records && !num && !args->record_stride)
		return 0;
	if (!args->records || !num || num > AMDGPU_CRIU_TARGETS_MAX)
		return -EINVAL;
	ret = amdgpu_criu_table_check(args->records, num, args->record_stride,
				      sizeof(struct amdgpu_criu_record_info));
	ret = ret ?: amdgpu_criu_table_copy(args->records, num, args->record_stride,
					    sizeof(*dump->targets), (void **)&dump->targets);
	dump->num_targets = num;
	for (u32 i = 0; !ret && i < num; i++) {
		const struct criu_record_target *target = &dump->targets[i];

		if (!target->version_min || target->version_min > target->version_max)
			ret = -EINVAL;
		for (u32 j = 0; j < i; j++)
			if (dump->targets[j].type == target->type)
				ret = -EINVAL;
	}
	return ret;
}

/* Runs a pass. The size pass sets the counts and @blob_size, which are 0 before. */
static int amdgpu_criu_output_pass(struct criu_dump *dump)
{
	const struct criu_node *node = dump->call->node;
	int ret = 0;

	memset(&dump->info, 0, sizeof(dump->info));
	criu_writer_init(&dump->writer, node->schema, dump->targets, dump->num_targets, dump->blob,
			 dump->blob_size);
	for (u32 i = 0; !ret && i < node->num_kinds; i++)
		if (node->kinds[i]->dump && (!dump->live || node->kinds[i]->live))
			ret = node->kinds[i]->dump(dump);
	if (ret || dump->live)
		return ret;
	ret = criu_writer_finish(&dump->writer, &dump->blob_size);
	return dump->writer.fault.reason ?
	       criu_refuse_blob(dump->call, &dump->writer.fault, ret) : ret;
}

/* Runs both passes under the client's lock. Events of KFD have another, and may be more then. */
static int amdgpu_criu_output_write(struct criu_dump *dump, struct amdgpu_criu_state *state)
{
	const struct amdgpu_criu_process_info *info = &dump->info;
	bool fits;
	int ret;

	dump->blob_size = 0;
	ret = amdgpu_criu_output_pass(dump);
	if (ret)
		return ret;
	fits = state->num_devices >= info->num_devices && state->num_bos >= info->num_bos &&
	       state->blob_size >= dump->blob_size;
	state->num_devices = info->num_devices;
	state->num_bos = info->num_bos;
	state->blob_size = dump->blob_size;
	if (!fits)
		return -ENOSPC;
	dump->devices = kvcalloc(info->num_devices, sizeof(*dump->devices), GFP_KERNEL_ACCOUNT);
	dump->bos = kvcalloc(info->num_bos, sizeof(*dump->bos), GFP_KERNEL_ACCOUNT);
	dump->blob = kvmalloc(dump->blob_size, GFP_KERNEL_ACCOUNT);
	if (!dump->devices || !dump->bos || !dump->blob)
		return -ENOMEM;
	dump->session = dump->call->session;
	ret = amdgpu_criu_output_pass(dump);
	if (!ret || ret == -ENOSPC)
		state->blob_size = dump->blob_size;
	return ret;
}

/* Runs CHECKPOINT, and EXPORTED of a checkpoint: both passes under the lock, then the copies. */
int amdgpu_criu_dump(struct criu_dump *dump, struct amdgpu_criu_state *state)
{
	const struct criu_call *call = dump->call;
	int ret = amdgpu_criu_state_check(state) ?: amdgpu_criu_targets_get(dump, state);

	/* Another call may have made the session of an EXPORTED live. */
	dump->live = !dump->exported && READ_ONCE(call->session->kind) == CRIU_SESSION_LIVE;
	ret = ret ?: mutex_lock_interruptible(call->client->lock);
	if (!ret) {
		if (!dump->live && !dump->exported)
			ret = criu_session_held(call->session, call->client);
		ret = ret ?: dump->prepare(dump) ?: amdgpu_criu_output_write(dump, state);
		mutex_unlock(call->client->lock);
	}
	if (!ret && copy_to_user(u64_to_user_ptr(state->blob), dump->blob, state->blob_size))
		ret = -EFAULT;
	ret = ret ?: amdgpu_criu_table_put(state->devices, dump->info.num_devices,
					   state->device_stride, dump->devices,
					   sizeof(*dump->devices)) ?:
		     amdgpu_criu_table_put(state->bos, dump->info.num_bos, state->bo_stride,
					   dump->bos, sizeof(*dump->bos));
	kvfree(dump->targets);
	kvfree(dump->devices);
	kvfree(dump->bos);
	kvfree(dump->blob);
	return ret;
}

static int amdgpu_criu_info_locked(struct criu_dump *dump)
{
	struct criu_call *call = dump->call;
	struct criu_client *client = call->client;
	int ret = dump->live ? 0 : dump->pause(dump);

	ret = ret ?: dump->prepare(dump) ?: amdgpu_criu_output_pass(dump);
	if (!ret && dump->live && criu_session_set_live(call->session))
		ret = criu_refuse(call, -EBADFD, "the session has paused a process");
	if (!ret && !dump->live) {
		criu_client_set_task(client, call->task);
		client->pauser = call;
	}
	/* A client that an earlier call has paused stays paused. */
	if (ret && dump->paused)
		criu_session_end_hold(call->session, client);
	return ret;
}

/* Runs PROCESS_INFO. With flag LIVE it makes the session live. */
int amdgpu_criu_info(struct criu_dump *dump, struct amdgpu_criu_process_info *info)
{
	struct criu_call *call = dump->call;
	int ret;

	if (info->flags & ~AMDGPU_CRIU_PROCESS_INFO_LIVE)
		return -EINVAL;
	if (!info->flags && READ_ONCE(call->session->kind) == CRIU_SESSION_LIVE)
		return criu_refuse_live(call);
	dump->live = info->flags;
	if (mutex_lock_interruptible(call->client->lock))
		return -ERESTARTSYS;
	ret = amdgpu_criu_info_locked(dump);
	mutex_unlock(call->client->lock);
	if (ret)
		return ret;
	dump->info.session_fd = info->session_fd;
	dump->info.flags = info->flags;
	dump->info.pid = task_tgid_vnr(call->task);
	dump->info.blob_size = dump->live ? 0 : dump->blob_size;
	*info = dump->info;
	if (!criu_call_put_args(call))
		return 0;
	/* Another call may have paused it again meanwhile, or found it paused. */
	if (!dump->paused || mutex_lock_killable(call->client->lock))
		return -EFAULT;
	if (call->client->pauser == call)
		criu_session_end_hold(call->session, call->client);
	mutex_unlock(call->client->lock);
	return -EFAULT;
}

/* Returns a copy of the blob, or ERR_PTR(). */
static void *amdgpu_criu_blob_copy(const struct criu_plan *plan)
{
	void *blob __free(kvfree) = NULL;
	const u64 size = plan->state->blob_size, uptr = plan->state->blob;

	if (size < sizeof(struct criu_blob_header) || size > CRIU_BLOB_SIZE_MAX)
		return ERR_PTR(criu_refuse(plan->call, -EBADMSG, "no blob has %llu bytes", size));
	if (uptr != (uintptr_t)uptr)
		return ERR_PTR(-EFAULT);
	blob = kvmalloc(size, GFP_KERNEL_ACCOUNT);
	if (!blob)
		return ERR_PTR(-ENOMEM);
	return copy_from_user(blob, u64_to_user_ptr(uptr), size) ? ERR_PTR(-EFAULT) :
								   no_free_ptr(blob);
}

void amdgpu_criu_input_free(struct criu_plan *plan)
{
	criu_plan_free(plan->call, plan);
	kvfree(plan->device_table);
	kvfree(plan->bo_table);
	kvfree(plan->blob.buf);
}

/*
 * Reads the blob and the tables. The caller holds no lock, because reading memory of a file system
 * in user space or of userfaultfd may block, and calls amdgpu_criu_input_free() in each case.
 */
int amdgpu_criu_input_read(struct criu_plan *plan)
{
	struct criu_call *call = plan->call;
	const struct amdgpu_criu_state *state = plan->state;
	struct criu_blob_fault fault;
	void *buf;
	int ret = amdgpu_criu_state_check(state);

	if (ret)
		return ret;
	if (state->records || state->num_records || state->record_stride)
		return -EINVAL;
	buf = amdgpu_criu_blob_copy(plan);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	ret = criu_blob_open(&plan->blob, call->node->schema, buf, state->blob_size, &fault);
	if (ret)
		return criu_refuse_blob(call, &fault, ret);
	/* Each entry has a record, so the size of the blob limits the copies. */
	if (max(state->num_devices, state->num_bos) > state->blob_size / CRIU_BLOB_ALIGN)
		return criu_refuse(call, -EBADMSG, "the tables are longer than the blob");
	ret = amdgpu_criu_table_copy(state->devices, state->num_devices, state->device_stride,
				     sizeof(*plan->device_table), (void **)&plan->device_table);
	return ret ?: amdgpu_criu_table_copy(state->bos, state->num_bos, state->bo_stride,
					     sizeof(*plan->bo_table), (void **)&plan->bo_table);
}

/* Compares the caller's BO table with the BOs of a plan, the kind that is checked. */
int amdgpu_criu_bos_check(struct criu_plan *plan)
{
	/* Of /dev/kfd or of a render node */
	const u32 num = plan->num_bos ?: plan->num_objects;
	struct amdgpu_criu_bo expected;

	if (plan->state->num_bos != num)
		return criu_refuse(plan->call, -EBADMSG, "table of %u BOs for a blob of %u",
				   plan->state->num_bos, num);
	for (u32 i = 0; i < num; i++) {
		plan->entry(criu_entry(plan->call->kind, plan, i), &expected);
		plan->bo_table[i].new_mmap_offset = 0;
		if (memcmp(&plan->bo_table[i], &expected, sizeof(expected)))
			return criu_refuse(plan->call, -EBADMSG,
					   "BO %u: table and record do not agree", i);
	}
	return 0;
}

int amdgpu_criu_bos_put(const struct criu_plan *plan)
{
	const struct amdgpu_criu_state *state = plan->state;

	return amdgpu_criu_table_put(state->bos, state->num_bos, state->bo_stride, plan->bo_table,
				     sizeof(*plan->bo_table));
}

/*
 * A failed restore frees doorbells and event pages. No thread of the process may map them
 * before, so mmap() of KFD fails while @restoring is set. Taking the mmap lock waits for a
 * running mmap() that has not seen the flag.
 *
 * Writing the results may block indefinitely, so the lock is not held. The session holds the
 * client: other operations refuse it, and RESUME checks @restoring.
 */
static int amdgpu_criu_restore_stopped(struct criu_call *call, struct criu_plan *plan)
{
	struct mutex *lock = call->client->lock;
	int ret;

	mmap_write_lock(current->mm);
	mmap_write_unlock(current->mm);
	scoped_guard(mutex, lock) {
		if (!plan->is_fresh(plan))
			return criu_refuse(call, -EBADFD, "it has been used already");
		ret = criu_plan_make(call, &plan->blob, plan) ?: criu_plan_apply(call, plan);
		if (ret)
			criu_plan_undo(call, plan);
	}
	if (ret)
		return ret;
	ret = amdgpu_criu_bos_put(plan);
	if (ret) {
		guard(mutex)(lock);
		criu_plan_undo(call, plan);
	}
	return ret;
}

/* Other ioctls block until RESUME: a new userptr would keep pages that the process has freed. */
int amdgpu_criu_restore(struct criu_plan *plan)
{
	struct criu_call *call = plan->call;
	struct criu_client *client = call->client;
	int ret = amdgpu_criu_input_read(plan);

	if (ret)
		return ret;
	if (mutex_lock_interruptible(client->lock))
		return -ERESTARTSYS;
	ret = criu_session_hold(call->session, client);
	if (!ret)
		WRITE_ONCE(client->restoring, true);
	mutex_unlock(client->lock);
	if (ret)
		return ret == -EALREADY ? -EBADFD : ret;
	ret = criu_client_stop(client, jiffies + AMDGPU_CRIU_STOP_TIME);
	if (!ret) {
		ret = amdgpu_criu_restore_stopped(call, plan);
		if (ret)
			criu_client_allow(client);
	}
	guard(mutex)(client->lock);
	WRITE_ONCE(client->restoring, false);
	if (ret)
		criu_session_release(call->session, client);
	return ret;
}

/*
 * Brings in memory of a process. hmm_range_fault() fails with -EFAULT, as for memory that is not
 * mapped, if there is no memory or if userfaultfd has not filled a page, and waits unkillably for a
 * file system in user space. Without @all, omits what it can bring in itself, but copies pages that
 * fork() has shared, which would migrate for each process that has them. Omits memory that is not
 * mapped or not accessible. Returns -ENOMEM, or -EINTR if the caller is killed.
 */
int amdgpu_criu_fault_in(struct mm_struct *mm, u64 start, u64 size, bool all)
{
	const u64 end = start + size;
	struct vm_area_struct *vma;
	int gup, locked = 0;
	long num = 0;
	u64 last;

	for (u64 at = start; at < end; at = num > 0 ? at + ((u64)num << PAGE_SHIFT) : last) {
		if (!locked && mmap_read_lock_killable(mm))
			return -EINTR;
		locked = 1;
		vma = find_vma(mm, at);
		if (!vma || vma->vm_start >= end)
			break;
		at = max_t(u64, at, vma->vm_start);
		last = min_t(u64, end, vma->vm_end);
		gup = vma->vm_flags & VM_WRITE ? FOLL_WRITE : 0;
		/* Stops at a page that is not there. None is without anon_vma. */
		if (!all && !vma->vm_file && !userfaultfd_armed(vma))
			gup = FOLL_DUMP | (vma->anon_vma ? gup : 0);
		num = get_user_pages_remote(mm, at, (last - at) >> PAGE_SHIFT, gup, NULL, &locked);
		if (num == -ENOMEM || fatal_signal_pending(current))
			break;
		if (gup == (FOLL_WRITE | FOLL_DUMP))
			last = at + PAGE_SIZE;
	}
	if (locked)
		mmap_read_unlock(mm);
	return fatal_signal_pending(current) ? -EINTR : num == -ENOMEM ? num : 0;
}

/* True if memory of a file may be lost: a reset since it was opened, or one that runs. */
bool amdgpu_criu_is_reset(struct amdgpu_device *adev, const struct amdgpu_fpriv *fpriv)
{
	return amdgpu_in_reset(adev) || fpriv->criu.epoch != atomic_read(&adev->vram_lost_counter);
}

int amdgpu_criu_unpause(struct criu_call *call, void *data)
{
	const struct amdgpu_criu_unpause *args = data;
	int ret;

	if (args->flags)
		return -EINVAL;
	if (mutex_lock_killable(call->client->lock))
		return -EINTR;
	ret = criu_session_end_hold(call->session, call->client);
	mutex_unlock(call->client->lock);
	if (ret && ret != -EBADFD)
		criu_refuse(call, ret, "it does not run again: %d", ret);
	return ret;
}

int amdgpu_criu_session(struct criu_call *call, void *data)
{
	struct amdgpu_criu_session *args = data;
	struct file *file;

	BUILD_BUG_ON(AMDGPU_CRIU_SESSION_CHECKPOINT != CRIU_SESSION_CHECKPOINT);
	BUILD_BUG_ON(AMDGPU_CRIU_SESSION_RESTORE != CRIU_SESSION_RESTORE);

	if (args->flags || args->pad || (args->kind != AMDGPU_CRIU_SESSION_CHECKPOINT &&
					 args->kind != AMDGPU_CRIU_SESSION_RESTORE))
		return -EINVAL;
	file = criu_session_create(args->kind);
	if (IS_ERR(file))
		return PTR_ERR(file);
	args->fd = criu_call_new_fd(call, file);
	return args->fd < 0 ? args->fd : 0;
}

/* DMABUF. @copier: render-node file of the call, which may import the dma-buf, or NULL. */
int amdgpu_criu_dmabuf_for(struct criu_call *call, void *data, const struct drm_file *copier)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = NULL;
	struct amdgpu_criu_dmabuf *args = data;
	int ret;

	if (args->flags || args->pad)
		return -EINVAL;
	dmabuf = criu_session_dmabuf(call->session, args->object_id, true);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = copier ? amdgpu_criu_allow_copy(copier, dmabuf) : 0;
	if (ret)
		return ret;
	/* A reference to the dma-buf is a reference to its file. */
	args->fd = criu_call_new_fd(call, no_free_ptr(dmabuf)->file);
	return args->fd < 0 ? args->fd : 0;
}

int amdgpu_criu_dmabuf(struct criu_call *call, void *data)
{
	return amdgpu_criu_dmabuf_for(call, data, NULL);
}
