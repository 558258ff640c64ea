/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR MIT) */
/*
 * Checkpoint and restore of processes that use AMD GPUs.
 *
 * One ioctl, the same number and the same argument on /dev/kfd and on every
 * render node /dev/dri/renderD*. It carries an operation, the size of that
 * operation's structure as the caller knows it, and a pointer to it.
 *
 *   dump                              restore
 *   ----                              -------
 *   SESSION (kind CHECKPOINT)         SESSION (kind RESTORE)
 *   PROCESS_INFO   pauses the GPU     RESTORE    creates all, starts nothing
 *   OUTSIDE        all there? (opt.)
 *   CHECKPOINT     tables and blob    DMABUF     one BO: fill its contents
 *   DMABUF         one BO: save it    (VMAs are put at their place)
 *   UNPAUSE        or close session   RESUME     userptrs, then queues
 *
 * How this interface may grow
 * ---------------------------
 * - A structure of an operation only ever gets fields at its end. The kernel
 *   reads it by the rules of copy_struct_from_user(): shorter than the kernel's
 *   own is filled with zeros, longer is E2BIG unless what is beyond is zero (and
 *   beyond 4096 bytes in any case), shorter than the first released version is
 *   EINVAL. Zero means "as before".
 * - The tables (devices, BOs) carry their stride, so an entry may grow as well.
 * - Everything else is in the blob, which only the kernel reads and writes: a
 *   sequence of records with a type, a version and a length each.
 * - A flag, pad or reserved field that is not zero is EINVAL.
 * - QUERY tells what this kernel knows.
 *
 * Who may call
 * ------------
 * CAP_CHECKPOINT_RESTORE (or CAP_SYS_ADMIN) in the user namespace that owns the
 * memory of the process that the file belongs to, else EPERM. To act on the file
 * of another process the caller must also be that process's tracer, else EBADF.
 *
 * Errors common to all operations
 * -------------------------------
 *   EINVAL      malformed: short structure, unknown flag, pad not zero, bad stride
 *   E2BIG       the structure, or an entry of a table, is longer than the kernel's
 *               and its tail not zero
 *   EFAULT      a pointer of the caller cannot be read or written
 *   ENOTTY      this kernel has no such operation
 *   EPERM       no capability (see above)
 *   EBADF       file of another process, or session_fd is not a session
 *   EBADFD      out of order: not paused by this session, nothing to resume, a
 *               session of the other kind
 *   EBUSY       somebody else's session has this process paused; RESTORE: another
 *               process uses a queue of SDMA that must have its old number
 *   ESRCH       the process is gone
 *   ENOSPC      a table or the blob is too small; the needed counts and sizes are
 *               written back, nothing else was done
 *   EOPNOTSUPP  state that cannot be carried, or a record this kernel cannot read;
 *               the kernel log names it
 *   EBADMSG     the blob is damaged: bad magic, length, reference or duplicate
 *   ENODEV      a target GPU does not exist or does not fit what was saved on it
 */
#ifndef _UAPI_DRM_AMDGPU_CRIU_H_
#define _UAPI_DRM_AMDGPU_CRIU_H_

#include <linux/types.h>
#include <linux/ioctl.h>

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * struct amdgpu_criu_ioctl - argument of the ioctl on both kinds of node; it is only read
 * @op: one of enum amdgpu_criu_op
 * @size: size in bytes of the structure at @arg, as the caller was compiled
 * @arg: user pointer to the operation's structure
 */
struct amdgpu_criu_ioctl {
	__u32 op;
	__u32 size;
	__u64 arg;
};

/*
 * Number within each node's own number space, well above what is in use there:
 * upstream's last are 0x28 (KFD) and 0x19 (amdgpu, relative to DRM_COMMAND_BASE).
 */
#define AMDGPU_CRIU_NR 0x58
#define AMDKFD_IOC_AMDGPU_CRIU _IOW('K', AMDGPU_CRIU_NR, struct amdgpu_criu_ioctl)
/* 0x40 is DRM_COMMAND_BASE of drm.h, which this header does not need otherwise. */
#define DRM_IOCTL_AMDGPU_CRIU _IOW('d', 0x40 + AMDGPU_CRIU_NR, struct amdgpu_criu_ioctl)

/**
 * enum amdgpu_criu_op - operations
 * @AMDGPU_CRIU_OP_QUERY: &struct amdgpu_criu_query
 * @AMDGPU_CRIU_OP_SESSION: &struct amdgpu_criu_session
 * @AMDGPU_CRIU_OP_PROCESS_INFO: &struct amdgpu_criu_process_info
 * @AMDGPU_CRIU_OP_CHECKPOINT: &struct amdgpu_criu_state
 * @AMDGPU_CRIU_OP_UNPAUSE: &struct amdgpu_criu_unpause
 * @AMDGPU_CRIU_OP_RESTORE: &struct amdgpu_criu_state
 * @AMDGPU_CRIU_OP_RESUME: &struct amdgpu_criu_resume
 * @AMDGPU_CRIU_OP_DMABUF: &struct amdgpu_criu_dmabuf
 * @AMDGPU_CRIU_OP_EXPORTED: &struct amdgpu_criu_exported; render nodes only
 * @AMDGPU_CRIU_OP_OUTSIDE: &struct amdgpu_criu_outside; render nodes only
 */
enum amdgpu_criu_op {
	AMDGPU_CRIU_OP_QUERY = 1,
	AMDGPU_CRIU_OP_SESSION = 2,
	AMDGPU_CRIU_OP_PROCESS_INFO = 3,
	AMDGPU_CRIU_OP_CHECKPOINT = 4,
	AMDGPU_CRIU_OP_UNPAUSE = 5,
	AMDGPU_CRIU_OP_RESTORE = 6,
	AMDGPU_CRIU_OP_RESUME = 7,
	AMDGPU_CRIU_OP_DMABUF = 8,
	AMDGPU_CRIU_OP_EXPORTED = 9,
	AMDGPU_CRIU_OP_OUTSIDE = 10,
};

/* This header's version of the interface. */
#define AMDGPU_CRIU_ABI 1

/**
 * struct amdgpu_criu_record_info - what a kernel knows of one record type
 * @type: type number as it stands in the blob
 * @version_min: oldest version this kernel reads
 * @version_max: newest version this kernel reads, and the one it writes
 * @size: bytes of the fixed part of @version_max that it knows
 *
 * QUERY gives an array of these. CHECKPOINT takes such an array of another kernel,
 * to write what that one can read: see &struct amdgpu_criu_state.
 */
struct amdgpu_criu_record_info {
	__u16 type;
	__u16 version_min;
	__u16 version_max;
	__u16 size;
};

/* Features of amdgpu_criu_query.features: which nodes of this kernel carry state. */
#define AMDGPU_CRIU_FEATURE_KFD (1ULL << 0)
#define AMDGPU_CRIU_FEATURE_RENDER (1ULL << 1)

/**
 * struct amdgpu_criu_query - what does this kernel know?
 * @abi_min: out, oldest interface version that still works
 * @abi_max: out, newest interface version
 * @features: out, AMDGPU_CRIU_FEATURE_*
 * @records: user pointer to an array of &struct amdgpu_criu_record_info, or 0
 * @num_records: in: room in @records (0: only count); out: record types known.
 *	Smaller than needed and not 0: ENOSPC
 * @record_stride: in, bytes from one entry of @records to the next, at least
 *	sizeof(struct amdgpu_criu_record_info); 0 if @records is 0
 * @blob_format: out, format number in the header of a blob
 * @pad: 0
 */
struct amdgpu_criu_query {
	__u32 abi_min;
	__u32 abi_max;
	__u64 features;
	__u64 records;
	__u32 num_records;
	__u32 record_stride;
	__u32 blob_format;
	__u32 pad;
};

/* Kinds of session. */
#define AMDGPU_CRIU_SESSION_CHECKPOINT 1
#define AMDGPU_CRIU_SESSION_RESTORE 2

/**
 * struct amdgpu_criu_session - make a session
 * @kind: AMDGPU_CRIU_SESSION_*
 * @flags: 0
 * @fd: out, close-on-exec
 * @pad: 0
 *
 * A session is the scope of object ids of one checkpoint or one restore, over any
 * number of processes and nodes. To hold its fd is the right to use it. With its
 * last close every process that it still has paused runs on, and every reference
 * it holds is dropped. What RESTORE created belongs to the restored process.
 */
struct amdgpu_criu_session {
	__u32 kind;
	__u32 flags;
	__s32 fd;
	__u32 pad;
};

/**
 * struct amdgpu_criu_process_info - pause, and ask for sizes
 * @session_fd: a session of kind CHECKPOINT
 * @flags: 0
 * @pid: process (thread group) of the file, in the caller's pid namespace. Out on
 *	/dev/kfd, where the file tells. In and out on a render node, whose file may
 *	have passed from process to process: one that has the file open, in whose
 *	memory its userptrs are, and whose user namespace the caller must have the
 *	capability in; 0 is the caller itself
 * @num_devices: out, entries that CHECKPOINT writes to the device table; 0 on a
 *	render node
 * @num_bos: out, entries that CHECKPOINT writes to the BO table
 * @num_queues: out, for display only
 * @num_events: out, for display only
 * @num_svm_ranges: out, for display only
 * @blob_size: out, bytes that CHECKPOINT writes to the blob
 *
 * /dev/kfd: evicts the process's queues and keeps them evicted. Render node: closes
 * the file, and waits until what was submitted through it is done: ETIME if that takes
 * more than some seconds.
 *
 * While a file is closed every ioctl on it but this one waits, whoever calls it: from
 * PROCESS_INFO to UNPAUSE, from RESTORE to RESUME, or to the end of the session. A
 * signal interrupts the wait. So contents are copied through another file of the node.
 *
 * May be repeated within a session. On error everything is as it was: a process that
 * ran runs on, and one that the session has paused already stays paused.
 */
struct amdgpu_criu_process_info {
	__s32 session_fd;
	__u32 flags;
	__s32 pid;
	__u32 num_devices;
	__u32 num_bos;
	__u32 num_queues;
	__u32 num_events;
	__u32 num_svm_ranges;
	__u64 blob_size;
};

/**
 * struct amdgpu_criu_device - one GPU that the process has open
 * @gpu_id: the GPU as the process knows it (a process that was restored before
 *	may know it by another number than this machine does)
 * @actual_gpu_id: the GPU as this machine knows it: in the topology in sysfs.
 *	CHECKPOINT: out, where it ran. RESTORE: in, where it shall run; 0 if @drm_fd is
 *	-1 and this machine has no such GPU
 * @drm_fd: CHECKPOINT: out, a new close-on-exec descriptor of the render-node file
 *	whose VM the process acquired for this GPU; -1 if none yet. Compare it with
 *	kcmp(KCMP_FILE), then close it. RESTORE: in, a file of the render node of
 *	@actual_gpu_id, open in the calling process and with a VM still unused;
 *	-1 if it was -1
 * @flags: 0
 */
struct amdgpu_criu_device {
	__u32 gpu_id;
	__u32 actual_gpu_id;
	__s32 drm_fd;
	__u32 flags;
};

/* amdgpu_criu_bo.flags */
#define AMDGPU_CRIU_BO_CONTENTS (1U << 0) /* not in CPU pages: save and fill by DMABUF */
#define AMDGPU_CRIU_BO_USERPTR (1U << 1)
#define AMDGPU_CRIU_BO_DOORBELL (1U << 2)
#define AMDGPU_CRIU_BO_MMIO (1U << 3) /* HDP flush page (mmio-remap) */
#define AMDGPU_CRIU_BO_SHARED (1U << 4) /* known to more than one file or process */
#define AMDGPU_CRIU_BO_IMPORTED (1U << 5) /* RESTORE only finds it: see EXPORTED */

/* amdgpu_criu_bo.domain */
#define AMDGPU_CRIU_DOMAIN_NONE 0 /* doorbell, mmio-remap */
#define AMDGPU_CRIU_DOMAIN_VRAM 1
#define AMDGPU_CRIU_DOMAIN_GTT 2
#define AMDGPU_CRIU_DOMAIN_CPU 3 /* userptr */

/**
 * struct amdgpu_criu_bo - one BO; the only part that user space interprets
 * @object_id: id of the object in the session, never 0. It is the same whatever
 *	process, node or handle the object was found through
 * @size: bytes, a multiple of the page size
 * @va: GPU virtual address at which the process has it, for display only
 * @mmap_offset: offset for mmap() of the node at checkpoint; ~0: cannot be mapped
 * @new_mmap_offset: RESTORE: out, the offset that takes its place
 * @gpu_id: GPU that it was allocated on, as in &struct amdgpu_criu_device.gpu_id;
 *	render node: as the topology in sysfs knows it, 0 if KFD does not drive it
 * @handle: KFD: low 32 bits of the handle; render node: GEM handle. For display
 * @domain: AMDGPU_CRIU_DOMAIN_*
 * @flags: AMDGPU_CRIU_BO_*
 *
 * RESTORE compares all but @new_mmap_offset with the blob: a table that does not
 * belong to the blob is EBADMSG.
 */
struct amdgpu_criu_bo {
	__u64 object_id;
	__u64 size;
	__u64 va;
	__u64 mmap_offset;
	__u64 new_mmap_offset;
	__u32 gpu_id;
	__u32 handle;
	__u32 domain;
	__u32 flags;
};

/**
 * struct amdgpu_criu_state - argument of CHECKPOINT and RESTORE
 * @session_fd: a session of kind CHECKPOINT (RESTORE: of kind RESTORE)
 * @flags: 0
 * @devices: user pointer to an array of &struct amdgpu_criu_device
 * @bos: user pointer to an array of &struct amdgpu_criu_bo
 * @blob: user pointer to the blob
 * @blob_size: bytes at @blob. CHECKPOINT: in: room, out: written
 * @num_devices: entries at @devices. CHECKPOINT: in: room, out: written
 * @num_bos: entries at @bos. CHECKPOINT: in: room, out: written
 * @device_stride: bytes from one entry of @devices to the next
 * @bo_stride: bytes from one entry of @bos to the next
 * @records: CHECKPOINT: user pointer to an array of &struct amdgpu_criu_record_info,
 *	as QUERY of the kernel that shall restore gave it; 0: as this kernel.
 *	RESTORE: 0
 * @num_records: entries at @records; 0 if it is 0
 * @record_stride: bytes from one entry of @records to the next; 0 if it is 0
 *
 * With @records every record is written in the newest version that both kernels
 * know. A record that the other one does not know and may skip is left out. State
 * that it could not be told is EOPNOTSUPP: found while the process still lives.
 * How long the blob gets that way CHECKPOINT tells (ENOSPC), not PROCESS_INFO.
 *
 * CHECKPOINT wants the process paused by the same session (EBADFD). It changes
 * nothing and may be repeated.
 *
 * RESTORE acts on the calling process, which must have nothing on this node but
 * the open file (EBADFD). It validates all of its input before it creates
 * anything; on error nothing is left behind. Queues stay stopped until RESUME, and
 * so long the file of a render node is closed, as after PROCESS_INFO.
 */
struct amdgpu_criu_state {
	__s32 session_fd;
	__u32 flags;
	__u64 devices;
	__u64 bos;
	__u64 blob;
	__u64 blob_size;
	__u32 num_devices;
	__u32 num_bos;
	__u32 device_stride;
	__u32 bo_stride;
	__u64 records;
	__u32 num_records;
	__u32 record_stride;
};

/**
 * struct amdgpu_criu_unpause - let a paused process run on
 * @session_fd: the session that paused it
 * @flags: 0
 */
struct amdgpu_criu_unpause {
	__s32 session_fd;
	__u32 flags;
};

/**
 * struct amdgpu_criu_resume - a restored process's VMAs are in place: start it
 * @session_fd: the session of kind RESTORE in which it was restored
 * @flags: 0
 * @pid: the restored process in the caller's pid namespace, when the file is not
 *	its own (CRIU's main process resumes its children, and must trace them: else
 *	EBADF); 0: the file's process
 * @pad: 0
 *
 * Attaches userptr notifiers and starts the queues. A second call is EBADFD.
 */
struct amdgpu_criu_resume {
	__s32 session_fd;
	__u32 flags;
	__s32 pid;
	__u32 pad;
};

/**
 * struct amdgpu_criu_dmabuf - a dma-buf descriptor of one object
 * @session_fd: the session that CHECKPOINT or RESTORE put the object into
 * @flags: 0
 * @object_id: as in &struct amdgpu_criu_bo; an unknown one is ENOENT
 * @fd: out, close-on-exec; to be imported, and readable by mmap(); writable by mmap()
 *	if the process allocated the BO as writable
 * @pad: 0
 *
 * Descriptors are made one at a time, so that a process with ten thousand BOs
 * needs ten thousand descriptors neither at dump nor at restore. Works from any
 * process that holds the session.
 *
 * A BO with AMDGPU_GEM_CREATE_VM_ALWAYS_VALID can be imported, too, but only by a
 * render-node file that DMABUF was called on (by another: EPERM), and while the session
 * is open.
 */
struct amdgpu_criu_dmabuf {
	__s32 session_fd;
	__u32 flags;
	__u64 object_id;
	__s32 fd;
	__u32 pad;
};

/**
 * struct amdgpu_criu_exported - a dma-buf descriptor that the process has open
 * @session_fd: a session of kind CHECKPOINT (dump) or RESTORE
 * @flags: 0
 * @fd: CHECKPOINT: in, the descriptor, open in the calling process as well. RESTORE:
 *	out, close-on-exec, to the dma-buf that takes its place
 * @bo_stride: bytes at @bo
 * @bo: user pointer to one &struct amdgpu_criu_bo; CHECKPOINT: out, RESTORE: in, as
 *	in the BO table of CHECKPOINT and RESTORE
 * @blob: user pointer to a blob that describes this one object
 * @blob_size: bytes at @blob. CHECKPOINT: in: room, out: written
 *
 * The object may be known to files of the session as well, or to nothing but the
 * descriptor: RESTORE finds it in the session or creates it, on the GPU of the render
 * node that it is called on. CHECKPOINT may be called on any render node: a dma-buf
 * that was not exported by this driver is EOPNOTSUPP.
 *
 * Descriptors of one dma-buf become descriptors of one dma-buf again, and the one
 * that PRIME_HANDLE_TO_FD gives for the object's handles is that one.
 *
 * A BO with AMDGPU_CRIU_BO_IMPORTED in a table is one that the file did not allocate on
 * its own GPU: on a render node a BO of another GPU, on /dev/kfd one that came by
 * AMDKFD_IOC_IMPORT_DMABUF. RESTORE of that file finds it in the session, or says
 * EBADFD. To have it there whoever is restored first, describe such a BO at dump by
 * EXPORTED of what DMABUF gives; and at restore, before RESTORE of the file, call
 * EXPORTED on a render node of the GPU that takes the place of @bo's gpu_id. The
 * descriptor that comes out may be closed: the session holds the object.
 */
struct amdgpu_criu_exported {
	__s32 session_fd;
	__u32 flags;
	__s32 fd;
	__u32 bo_stride;
	__u64 bo;
	__u64 blob;
	__u64 blob_size;
};

/**
 * struct amdgpu_criu_outside - what do the paused clients share with others?
 * @session_fd: a session of kind CHECKPOINT, and clients are what it has paused by
 *	PROCESS_INFO: processes of /dev/kfd and files of render nodes
 * @flags: 0
 * @num_bos: out, how many of their BOs are known to clients that it has not paused, too
 *	(processes of /dev/kfd, open files of render nodes and card nodes, of any GPU). 0:
 *	none, and so is the rest
 * @pid: out, a process that has one of them and is not paused; 0 if it is not in the
 *	caller's pid namespace
 * @paused_pid: out, a process that is paused and has the same BO
 * @handle: out, low 32 bits of the handle that the latter has of it
 * @size: out, bytes of that BO
 *
 * A checkpoint holds the state of the clients that are paused, and no more: a BO that
 * others have as well comes back as a BO of its own, and what one side writes the other
 * does not see any more. Nobody but the caller knows whether that matters: it asks when
 * all clients that belong together are paused. Dma-buf descriptors that others have
 * open are not counted: /proc tells of them.
 */
struct amdgpu_criu_outside {
	__s32 session_fd;
	__u32 flags;
	__u32 num_bos;
	__s32 pid;
	__s32 paused_pid;
	__u32 handle;
	__u64 size;
};

#if defined(__cplusplus)
}
#endif

#endif /* _UAPI_DRM_AMDGPU_CRIU_H_ */
