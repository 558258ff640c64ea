/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR MIT) */
/*
 * Checkpoint and restore of processes that use AMD GPUs.
 *
 * There is one ioctl, with the same number and argument on /dev/kfd and on
 * every render node /dev/dri/renderD*. It carries an operation, the size of
 * that operation's structure as the caller knows it, and a pointer to it.
 *
 *   dump                              restore
 *   ----                              -------
 *   SESSION (kind CHECKPOINT)         SESSION (kind RESTORE)
 *   PROCESS_INFO   pauses the GPU     RESTORE    creates all, starts nothing
 *   OUTSIDE        shared? (optional)
 *   CHECKPOINT     tables and blob    DMABUF     one BO: fill its contents
 *   DMABUF         one BO: save it    (VMAs are mapped)
 *   UNPAUSE        or close session   RESUME     userptrs, then queues
 *
 * To give the VRAM of a process to others for a while: SESSION, PROCESS_INFO, EVICT,
 * and later UNPAUSE.
 *
 * How this interface may grow
 * ---------------------------
 * - A structure of an operation only ever gets fields at its end. The kernel
 *   reads it by the rules of copy_struct_from_user(): a shorter one is extended
 *   with zeros, a longer one is E2BIG unless its tail is zero (and beyond 4096
 *   bytes in any case), one shorter than the first released version is EINVAL.
 *   Zero means "as before".
 * - The tables (devices, BOs) carry their stride, so an entry may grow as well.
 * - Everything else is in the blob, which only the kernel reads and writes: a
 *   sequence of records with a type, a version and a length each.
 * - A flag, pad or reserved field that is not zero is EINVAL.
 * - QUERY returns what this kernel supports.
 *
 * Who may call
 * ------------
 * SESSION needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN in the initial user namespace,
 * else EPERM. Every other operation except QUERY needs the descriptor of a session. Any
 * process that holds it may use it, so a privileged process can create a session and pass
 * it to tasks without capabilities or in a user namespace of their own. To act on the file
 * of another process the caller must also be that process's tracer, else EBADF.
 *
 * Errors common to all operations
 * -------------------------------
 *   EINVAL      malformed: short structure, unknown flag, pad not zero, bad stride
 *   E2BIG       the structure, or an entry of a table, is longer than the kernel's
 *               and its tail not zero
 *   EFAULT      a pointer of the caller cannot be read or written
 *   ENOTTY      this kernel has no such operation
 *   EPERM       the caller passes no session, and lacks the capability to create one
 *   EBADF       file of another process, or session_fd is not a session
 *   EBADFD      out of order: not paused by this session, nothing to resume, a
 *               session of the other kind
 *   EBUSY       another session has this process paused; RESTORE: other processes
 *               have all SDMA queues of an engine
 *   ESRCH       the process is gone
 *   ENOSPC      a table or the blob is too small; the required counts and
 *               sizes are written back, and nothing else is done
 *   EOPNOTSUPP  state that cannot be carried, or a record this kernel cannot read;
 *               amdgpu_criu_ioctl.reason and the kernel log name it
 *   EBADMSG     the blob is damaged: bad magic, length, reference or duplicate
 *   ENODEV      a target GPU does not exist or does not match the saved GPU
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
 * @reason: user pointer to a buffer for a text, or 0. If the ioctl fails for a reason that
 *	the errno does not name, the text and the kernel log, which a container cannot
 *	read, contain the reason; otherwise the text is empty. It ends with a null byte, is
 *	truncated to fit, is meant for display, and may change. If the ioctl succeeds,
 *	nothing is written. A failure to write the text is not an error
 * @reason_size: bytes at @reason; 0 if and only if @reason is 0. No text is longer than 255
 * @pad: 0
 */
struct amdgpu_criu_ioctl {
	__u32 op;
	__u32 size;
	__u64 arg;
	__u64 reason;
	__u32 reason_size;
	__u32 pad;
};

/*
 * Number within each node's own number space, well above what is in use there:
 * upstream's last are 0x28 (KFD) and 0x1A (amdgpu, relative to DRM_COMMAND_BASE).
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
 * @AMDGPU_CRIU_OP_EVICT: &struct amdgpu_criu_evict
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
	AMDGPU_CRIU_OP_EVICT = 11,
};

/* This header's version of the interface. */
#define AMDGPU_CRIU_ABI 1

/**
 * struct amdgpu_criu_record_info - what a kernel supports of one record type
 * @type: type number in the blob
 * @version_min: oldest version this kernel reads
 * @version_max: newest version this kernel reads, and the one it writes
 * @size: bytes of the fixed part of @version_max that it knows
 *
 * QUERY returns an array of these. CHECKPOINT accepts the array of another kernel,
 * and writes what that kernel can read: see &struct amdgpu_criu_state.
 */
struct amdgpu_criu_record_info {
	__u16 type;
	__u16 version_min;
	__u16 version_max;
	__u16 size;
};

/* Features of amdgpu_criu_query.features: which nodes carry state, and what is supported. */
#define AMDGPU_CRIU_FEATURE_KFD (1ULL << 0)
#define AMDGPU_CRIU_FEATURE_RENDER (1ULL << 1)
#define AMDGPU_CRIU_FEATURE_LIVE (1ULL << 2) /* AMDGPU_CRIU_PROCESS_INFO_LIVE */
/* KFD drives a GPU of a graphics IP version whose queues no test of this interface has run. */
#define AMDGPU_CRIU_FEATURE_UNTESTED (1ULL << 3)
#define AMDGPU_CRIU_FEATURE_EVICT (1ULL << 4) /* AMDGPU_CRIU_OP_EVICT */

/**
 * struct amdgpu_criu_query - what this kernel supports
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
 * struct amdgpu_criu_session - create a session
 * @kind: AMDGPU_CRIU_SESSION_*
 * @flags: 0
 * @fd: out, close-on-exec
 * @pad: 0
 *
 * A session is the scope of object ids of one checkpoint or one restore, over any
 * number of processes and nodes. Any process that holds its fd may use it. Its last
 * close resumes every process that it still has paused, and drops every reference
 * that it holds. Objects that RESTORE created belong to the restored process.
 */
struct amdgpu_criu_session {
	__u32 kind;
	__u32 flags;
	__s32 fd;
	__u32 pad;
};

/* amdgpu_criu_process_info.flags */
#define AMDGPU_CRIU_PROCESS_INFO_LIVE (1U << 0) /* do not pause */

/**
 * struct amdgpu_criu_process_info - pause, and return sizes
 * @session_fd: a session of kind CHECKPOINT
 * @flags: 0 or AMDGPU_CRIU_PROCESS_INFO_LIVE
 * @pid: process (thread group) of the file, in the caller's pid namespace. Out on
 *	/dev/kfd, where the file identifies it. In and out on a render node, whose
 *	file may have been passed on: a process that has the file open and whose
 *	memory its userptrs refer to; 0 is the caller itself
 * @num_devices: out, entries that CHECKPOINT writes to the device table; 0 on a
 *	render node
 * @num_bos: out, entries that CHECKPOINT writes to the BO table
 * @num_queues: out, for display only
 * @num_events: out, for display only
 * @num_svm_ranges: out, for display only
 * @blob_size: out, bytes that CHECKPOINT writes to the blob
 *
 * /dev/kfd: evicts the process's queues and keeps them evicted. Render node: blocks
 * the file, and waits until the work submitted through it is complete: ETIME if that
 * takes too long (about 20 s).
 *
 * While a file is blocked, all other ioctls on it block, from any caller that may use
 * it: from PROCESS_INFO to UNPAUSE, from RESTORE to RESUME, or to the end of the session.
 * A signal interrupts the wait. Contents are copied through another file of the node.
 *
 * May be repeated within a session. On error nothing changes: a running process
 * continues, and one that the session has already paused stays paused.
 *
 * With AMDGPU_CRIU_PROCESS_INFO_LIVE the process continues, so that contents can be copied
 * before it is paused. The session is live from then on: it serves only PROCESS_INFO with
 * this flag, CHECKPOINT and DMABUF. All other operations fail with EBADFD, as does the flag
 * in a session that has paused a process. @blob_size and the counts for display are 0.
 * CHECKPOINT in a live session returns tables of any file, without a blob and with @drm_fd
 * of each device -1. State that cannot be carried is no error. BOs may be created and freed
 * at any time; one that the table names exists until the session ends. A copy of
 * contents that the process writes meanwhile may have old bytes, new bytes, or both.
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
 * @gpu_id: the gpu_id that the process uses (after an earlier restore it may differ
 *	from that of this machine)
 * @actual_gpu_id: the gpu_id of this machine, from the topology in sysfs.
 *	CHECKPOINT: out, the GPU in use. RESTORE: in, the GPU to use; 0 if @drm_fd is
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
#define AMDGPU_CRIU_BO_SHARED (1U << 4) /* shared by files or processes */
#define AMDGPU_CRIU_BO_IMPORTED (1U << 5) /* not created by RESTORE: see EXPORTED */

/* amdgpu_criu_bo.domain */
#define AMDGPU_CRIU_DOMAIN_NONE 0 /* doorbell, mmio-remap */
#define AMDGPU_CRIU_DOMAIN_VRAM 1
#define AMDGPU_CRIU_DOMAIN_GTT 2
#define AMDGPU_CRIU_DOMAIN_CPU 3 /* userptr */

/**
 * struct amdgpu_criu_bo - one BO; the only part that user space interprets
 * @object_id: id of the object in the session, never 0. It is the same for every
 *	process, node and handle of the object
 * @size: bytes, a multiple of the page size
 * @va: GPU virtual address in the process, for display only
 * @mmap_offset: offset for mmap() of the node at checkpoint; ~0: cannot be mapped
 * @new_mmap_offset: RESTORE: out, the offset that replaces it
 * @gpu_id: GPU that it was allocated on, as in &struct amdgpu_criu_device.gpu_id;
 *	render node: as in the topology in sysfs, 0 if KFD does not drive it
 * @handle: KFD: low 32 bits of the handle; render node: GEM handle. For display
 * @domain: AMDGPU_CRIU_DOMAIN_*
 * @flags: AMDGPU_CRIU_BO_*
 *
 * RESTORE compares all fields except @new_mmap_offset with the blob: a table that
 * does not belong to the blob is EBADMSG.
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
 *	as returned by QUERY of the kernel that will restore; 0: as this kernel.
 *	RESTORE: 0
 * @num_records: entries at @records; 0 if @records is 0
 * @record_stride: bytes from one entry of @records to the next; 0 if @records is 0
 *
 * With @records every record is written in the newest version that both kernels
 * know. A record that the other one does not know and may skip is left out. State
 * that the other kernel cannot represent is EOPNOTSUPP, while the process still
 * exists. CHECKPOINT returns the size of such a blob (ENOSPC); PROCESS_INFO does not.
 *
 * CHECKPOINT requires that the same session has paused the process (EBADFD), or is live: see
 * &struct amdgpu_criu_process_info. It changes nothing and may be repeated.
 *
 * RESTORE acts on the calling process, which must have nothing on this node but
 * the open file (EBADFD). It validates all of its input before it creates
 * anything; on error nothing is left behind. Queues stay stopped until RESUME. Until
 * RESUME or the end of the session every other ioctl blocks, on /dev/kfd of the process
 * as on the file of a render node. RESTORE waits for ioctls that are in progress: ETIME
 * if that takes more than some seconds.
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
 * struct amdgpu_criu_unpause - resume a paused process
 * @session_fd: the session that paused it
 * @flags: 0
 */
struct amdgpu_criu_unpause {
	__s32 session_fd;
	__u32 flags;
};

/**
 * struct amdgpu_criu_resume - start a restored process, whose VMAs are mapped
 * @session_fd: the session of kind RESTORE in which it was restored. If it is closed
 *	first, the process or file can be used again, but its queues never run
 * @flags: 0
 * @pid: the restored process in the caller's pid namespace, when the file is not
 *	its own (CRIU's main process resumes its children, and must trace them: else
 *	EBADF); 0: the file's process
 * @pad: 0
 *
 * Attaches userptr notifiers and starts the queues. A second call is EBADFD. When every
 * process and file that was restored in the session is resumed, the session drops its
 * objects: no other file can share them through it, and DMABUF is ENOENT.
 */
struct amdgpu_criu_resume {
	__s32 session_fd;
	__u32 flags;
	__s32 pid;
	__u32 pad;
};

/**
 * struct amdgpu_criu_dmabuf - a dma-buf descriptor of one object
 * @session_fd: the session to which CHECKPOINT or RESTORE has added the object
 * @flags: 0
 * @object_id: as in &struct amdgpu_criu_bo; an unknown one is ENOENT
 * @fd: out, close-on-exec; to be imported by files of render nodes of the BO's GPU, and
 *	readable by mmap(); writable by mmap() if the process allocated the BO as writable
 * @pad: 0
 *
 * Descriptors are created one at a time: a process with ten thousand BOs never
 * needs ten thousand descriptors. Works in any process that holds the session.
 *
 * If the process has exported the BO, the descriptor is of that dma-buf. Otherwise it is
 * of a dma-buf that serves only to copy the contents: it does not export the BO, each
 * import has its own handle, and other devices and drivers cannot import it (EPERM).
 *
 * A BO with AMDGPU_GEM_CREATE_VM_ALWAYS_VALID can be imported, too, but only by a
 * render-node file that DMABUF of this BO was called on (other files: EPERM), and only
 * while the session is open. On a card node the operation is EOPNOTSUPP.
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
 *	out, close-on-exec, of the dma-buf that replaces it
 * @bo_stride: bytes at @bo
 * @bo: user pointer to one &struct amdgpu_criu_bo; CHECKPOINT: out, RESTORE: in, as
 *	in the BO table of CHECKPOINT and RESTORE
 * @blob: user pointer to a blob that describes this one object
 * @blob_size: bytes at @blob. CHECKPOINT: in: room, out: written
 *
 * Files of the session may share the object, or only the descriptor may refer to it:
 * RESTORE finds it in the session or creates it, on the GPU of the render node that it
 * is called on. CHECKPOINT may be called on any render node: a dma-buf
 * that was not exported by this driver is EOPNOTSUPP.
 *
 * Descriptors of one dma-buf become descriptors of one dma-buf again, which is also
 * the one that PRIME_HANDLE_TO_FD returns for the object's handles.
 *
 * A BO with AMDGPU_CRIU_BO_IMPORTED in a table is one that the file did not allocate on
 * its own GPU: on a render node a BO of another GPU, on /dev/kfd one from
 * AMDKFD_IOC_IMPORT_DMABUF. RESTORE of that file finds it in the session, or fails with
 * EBADFD. At dump, save such a BO by EXPORTED of the descriptor from DMABUF. At
 * restore, call EXPORTED on a render node of the GPU that replaces @bo's gpu_id, before
 * RESTORE of the file. The returned descriptor may be closed: the session holds the
 * object.
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
 * struct amdgpu_criu_outside - what the paused clients share with others
 * @session_fd: a session of kind CHECKPOINT. Its clients are the processes of /dev/kfd and
 *	the files of render nodes that it has paused by PROCESS_INFO
 * @flags: 0
 * @num_bos: out, how many of their BOs are shared with clients that it has not paused
 *	(processes of /dev/kfd, open files of render nodes and card nodes, of any GPU)
 * @pid: out, a process that has one of them and is not paused; 0 if it is not in the
 *	caller's pid namespace
 * @paused_pid: out, a process that is paused and has the same BO
 * @handle: out, low 32 bits of the BO's handle in the latter
 * @size: out, bytes of that BO
 * @num_syncobjs: out, how many of their syncobjs are shared with clients that it has not
 *	paused. If only syncobjs are shared, @pid, @paused_pid and @handle are those of a
 *	syncobj, and @size is 0. If nothing is shared, all these fields are 0
 * @pad: 0
 *
 * A checkpoint holds the state of the paused clients only: a BO or a syncobj that is
 * shared with others is restored as a separate one, and neither side sees what the other
 * one writes or signals any longer. Only the caller can decide whether that matters: it
 * calls OUTSIDE when all clients that belong together are paused. Descriptors of dma-bufs
 * and syncobjs that others have open are not counted; they are visible in /proc.
 */
struct amdgpu_criu_outside {
	__s32 session_fd;
	__u32 flags;
	__u32 num_bos;
	__s32 pid;
	__s32 paused_pid;
	__u32 handle;
	__u64 size;
	__u32 num_syncobjs;
	__u32 pad;
};

/**
 * struct amdgpu_criu_evict - move the VRAM of a paused client to system memory
 * @session_fd: the session of kind CHECKPOINT that has paused the client
 * @flags: 0
 * @bytes: out, bytes of the client's BOs for VRAM that are in system memory now
 * @kept: out, bytes of those that stay in VRAM: pinned or encrypted ones
 *
 * Others can allocate the VRAM: KFD no longer counts it for the process. Page tables
 * and migrated SVM ranges stay, until others need their memory. From the first call on,
 * all other ioctls of /dev/kfd of the process block as well, except those that wait for
 * events. CPU mappings of the BOs stay valid, with their contents.
 *
 * Call it on /dev/kfd of all processes first, and on files of render nodes thereafter.
 * It may be repeated, for example after an error: ENOMEM if system memory does not
 * suffice, EBUSY if another call of EVICT is in progress, ETIME if an ioctl on the file
 * does not return. The client then stays paused, and some BOs may be in system memory.
 *
 * UNPAUSE and the end of the session move everything back before the client runs. If
 * others have allocated the VRAM since, their BOs are evicted, and the processes take
 * turns: a caller that does not want this looks for free VRAM first. UNPAUSE returns
 * ETIME if the memory of a process of /dev/kfd is not back after two minutes: the
 * process then runs when it is.
 */
struct amdgpu_criu_evict {
	__s32 session_fd;
	__u32 flags;
	__u64 bytes;
	__u64 kept;
};

#if defined(__cplusplus)
}
#endif

#endif /* _UAPI_DRM_AMDGPU_CRIU_H_ */
