// SPDX-License-Identifier: GPL-2.0
#include "criu.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <drm/drm.h>

static bool is_amdgpu(int fd)
{
	char name[16] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

	return !ioctl(fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, "amdgpu");
}

static int open_render(void)
{
	char path[32];
	int fd, minor;

	for (minor = 128; minor < 192; minor++) {
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", minor);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (is_amdgpu(fd))
			return fd;
		close(fd);
	}
	return -ENOENT;
}

int criu_node_open(struct criu_node *node, enum criu_node_kind kind)
{
	node->kind = kind;
	if (kind == CRIU_NODE_RENDER) {
		node->fd = open_render();
	} else {
		node->fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		if (node->fd < 0)
			node->fd = -errno;
	}
	return node->fd < 0 ? node->fd : 0;
}

void criu_node_close(struct criu_node *node)
{
	if (node->fd >= 0)
		close(node->fd);
	node->fd = -1;
}

int criu_envelope(const struct criu_node *node, const struct amdgpu_criu_ioctl *envelope)
{
	unsigned long cmd = node->kind == CRIU_NODE_KFD ? AMDKFD_IOC_AMDGPU_CRIU :
							  DRM_IOCTL_AMDGPU_CRIU;

	return ioctl(node->fd, cmd, envelope) ? -errno : 0;
}

char criu_reason[256];

/* Appends it to the file that CRIU_TEST_REASONS names: what the tests have reached. */
static void record_reason(void)
{
	const char *path = getenv("CRIU_TEST_REASONS");
	const int error = errno;
	int fd;

	if (!path || !*criu_reason)
		return;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0) {
		dprintf(fd, "%s\n", criu_reason);
		close(fd);
	}
	errno = error;
}

int criu_call(const struct criu_node *node, __u32 op, __u32 size, const void *arg)
{
	struct amdgpu_criu_ioctl envelope = {
		.op = op,
		.size = size,
		.arg = (uintptr_t)arg,
		.reason = (uintptr_t)criu_reason,
		.reason_size = sizeof(criu_reason),
	};
	int ret;

	criu_reason[0] = 0;
	ret = criu_envelope(node, &envelope);
	record_reason();
	return ret;
}

int criu_session(const struct criu_node *node, __u32 kind)
{
	struct amdgpu_criu_session args = { .kind = kind };
	int ret = criu_op(node, SESSION, &args);

	return ret ? ret : args.fd;
}

int criu_pause(const struct criu_node *node, int session, struct amdgpu_criu_process_info *info)
{
	memset(info, 0, sizeof(*info));
	info->session_fd = session;
	return criu_op(node, PROCESS_INFO, info);
}

int criu_unpause(const struct criu_node *node, int session)
{
	struct amdgpu_criu_unpause args = { .session_fd = session };

	return criu_op(node, UNPAUSE, &args);
}

int criu_resume(const struct criu_node *node, int session, int pid)
{
	struct amdgpu_criu_resume args = { .session_fd = session, .pid = pid };

	return criu_op(node, RESUME, &args);
}

int criu_dmabuf(const struct criu_node *node, int session, __u64 object_id)
{
	struct amdgpu_criu_dmabuf args = { .session_fd = session, .object_id = object_id };
	int ret = criu_op(node, DMABUF, &args);

	return ret ? ret : args.fd;
}

struct amdgpu_criu_state criu_image_args(int session, const struct criu_image *image)
{
	return (struct amdgpu_criu_state) {
		.session_fd = session,
		.devices = (uintptr_t)image->devices,
		.bos = (uintptr_t)image->bos,
		.blob = (uintptr_t)image->blob,
		.blob_size = image->blob_size,
		.num_devices = image->num_devices,
		.num_bos = image->num_bos,
		.device_stride = sizeof(*image->devices),
		.bo_stride = sizeof(*image->bos),
	};
}

static int checkpoint_into(const struct criu_node *node, struct amdgpu_criu_state *args,
			   struct criu_image *image)
{
	int ret;

	image->blob = calloc(1, image->blob_size + 1);
	if (!image->blob)
		return -ENOMEM;
	args->blob = (uintptr_t)image->blob;
	args->blob_size = image->blob_size;
	ret = criu_op(node, CHECKPOINT, args);
	image->num_devices = args->num_devices;
	image->num_bos = args->num_bos;
	image->blob_size = args->blob_size;
	return ret;
}

int criu_checkpoint_for(const struct criu_node *node, int session, struct criu_image *image,
			const struct amdgpu_criu_record_info *records, __u32 num_records)
{
	struct amdgpu_criu_process_info info;
	struct amdgpu_criu_state args;
	int ret;

	memset(image, 0, sizeof(*image));
	ret = criu_pause(node, session, &info);
	if (ret)
		return ret;
	image->num_devices = info.num_devices;
	image->num_bos = info.num_bos;
	image->blob_size = info.blob_size;
	/* One more than needed: an allocation of 0 bytes may return NULL. */
	image->devices = calloc(info.num_devices + 1, sizeof(*image->devices));
	image->bos = calloc(info.num_bos + 1, sizeof(*image->bos));
	if (!image->devices || !image->bos)
		return -ENOMEM;
	/* criu_image_free() closes what CHECKPOINT opens. */
	for (__u32 i = 0; i < info.num_devices; i++)
		image->devices[i].drm_fd = -1;
	args = criu_image_args(session, image);
	args.records = (uintptr_t)records;
	args.num_records = num_records;
	args.record_stride = records ? sizeof(*records) : 0;
	ret = checkpoint_into(node, &args, image);
	/* For another kernel it may need more than PROCESS_INFO reported. */
	if (ret == -ENOSPC && records) {
		free(image->blob);
		ret = checkpoint_into(node, &args, image);
	}
	return ret;
}

int criu_checkpoint(const struct criu_node *node, int session, struct criu_image *image)
{
	return criu_checkpoint_for(node, session, image, NULL, 0);
}

int criu_restore(const struct criu_node *node, int session, const struct criu_image *image)
{
	struct amdgpu_criu_state args = criu_image_args(session, image);

	return criu_op(node, RESTORE, &args);
}

void criu_image_free(struct criu_image *image)
{
	__u32 i;

	for (i = 0; image->devices && i < image->num_devices; i++)
		if (image->devices[i].drm_fd >= 0)
			close(image->devices[i].drm_fd);
	free(image->devices);
	free(image->bos);
	free(image->blob);
	memset(image, 0, sizeof(*image));
}

int criu_hole_make(struct criu_hole *hole)
{
	long page = sysconf(_SC_PAGESIZE);

	hole->page = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	if (hole->page == MAP_FAILED)
		return -errno;
	hole->hole = hole->page + page;
	return mprotect(hole->hole, page, PROT_NONE) ? -errno : 0;
}

struct amdgpu_criu_process_info *criu_readonly_info(int session)
{
	struct amdgpu_criu_process_info *info = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
						     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (info == MAP_FAILED)
		return NULL;
	info->session_fd = session;
	mprotect(info, 4096, PROT_READ);
	return info;
}

bool kernel_is_at_least(unsigned int major, unsigned int minor)
{
	unsigned int x, y;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &x, &y) != 2)
		abort();
	return x > major || (x == major && y >= minor);
}

int lowest_free_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int fd_of_process(pid_t pid, int fd)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	int ret;

	if (pidfd < 0)
		return -errno;
	ret = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (ret < 0)
		ret = -errno;
	close(pidfd);
	return ret;
}

int count_fds(pid_t pid)
{
	char path[32];
	int num = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		num++;
	if (dir)
		closedir(dir);
	return num;
}

int criu_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = -errno;
	close(fd);
	return ret;
}
