// SPDX-License-Identifier: GPL-2.0
#include "share.h"

#include <linux/kcmp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct order {
	int command;
	int argument;
};

int share_put(struct share_image *to, const struct criu_image *image)
{
	if (image->num_bos > SHARE_BOS_MAX || image->blob_size > SHARE_BLOB_MAX ||
	    image->num_devices > sizeof(to->devices) / sizeof(to->devices[0]))
		return -ENOSPC;
	to->num_devices = image->num_devices;
	to->num_bos = image->num_bos;
	to->blob_size = image->blob_size;
	memcpy(to->devices, image->devices, image->num_devices * sizeof(to->devices[0]));
	memcpy(to->bos, image->bos, image->num_bos * sizeof(to->bos[0]));
	memcpy(to->blob, image->blob, image->blob_size);
	return 0;
}

struct criu_image share_get(struct share_image *from)
{
	return (struct criu_image) {
		.devices = from->devices,
		.bos = from->bos,
		.blob = from->blob,
		.blob_size = from->blob_size,
		.num_devices = from->num_devices,
		.num_bos = from->num_bos,
	};
}

static struct amdgpu_criu_exported export_args(int session, struct share_exported *exported)
{
	return (struct amdgpu_criu_exported) {
		.session_fd = session,
		.bo_stride = sizeof(exported->bo),
		.bo = (uintptr_t)&exported->bo,
		.blob = (uintptr_t)exported->blob,
		.blob_size = exported->blob_size,
	};
}

int share_export_save(const struct criu_node *node, int session, int dmabuf,
		      struct share_exported *exported)
{
	struct amdgpu_criu_exported args;
	int ret;

	exported->blob_size = sizeof(exported->blob);
	args = export_args(session, exported);
	args.fd = dmabuf;
	ret = criu_op(node, EXPORTED, &args);
	exported->blob_size = args.blob_size;
	return ret;
}

int share_export_restore(const struct criu_node *node, int session,
			 struct share_exported *exported)
{
	struct amdgpu_criu_exported args = export_args(session, exported);
	int ret = criu_op(node, EXPORTED, &args);

	return ret ? ret : args.fd;
}

void *share_board(size_t size)
{
	void *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return board == MAP_FAILED ? NULL : board;
}

static void serve(share_fn *fn, void *board, int orders, int results)
{
	struct order order;
	int result;

	while (read(orders, &order, sizeof(order)) == sizeof(order)) {
		result = fn(board, order.command, order.argument);
		if (write(results, &result, sizeof(result)) != sizeof(result))
			break;
	}
	_exit(0);
}

int share_start(struct share_process *process, share_fn *fn, void *board)
{
	int orders[2], results[2];

	if (pipe2(orders, O_CLOEXEC))
		return -errno;
	if (pipe2(results, O_CLOEXEC)) {
		close(orders[0]);
		close(orders[1]);
		return -errno;
	}
	process->pid = fork();
	if (!process->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[1]);
		close(results[0]);
		serve(fn, board, orders[0], results[1]);
	}
	close(orders[0]);
	close(results[1]);
	process->to = orders[1];
	process->from = results[0];
	return process->pid < 0 ? -errno : 0;
}

int share_begin(struct share_process *process, int command, int argument)
{
	struct order order = { .command = command, .argument = argument };

	return write(process->to, &order, sizeof(order)) == sizeof(order) ? 0 : -EPIPE;
}

int share_end(struct share_process *process)
{
	int result;

	return read(process->from, &result, sizeof(result)) == sizeof(result) ? result : -EPIPE;
}

int share_do(struct share_process *process, int command, int argument)
{
	int ret = share_begin(process, command, argument);

	return ret ? ret : share_end(process);
}

void share_kill(struct share_process *process)
{
	if (process->pid <= 0)
		return;
	close(process->to);
	close(process->from);
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	process->pid = 0;
}

bool share_same_file(int one, int two)
{
	return !syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, one, two);
}
