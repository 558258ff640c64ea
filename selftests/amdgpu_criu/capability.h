/* SPDX-License-Identifier: GPL-2.0 */
/* Capabilities of the calling thread. */
#ifndef AMDGPU_CRIU_TEST_CAPABILITY_H
#define AMDGPU_CRIU_TEST_CAPABILITY_H

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Makes those of its permitted capabilities effective that are not in @dropped. */
static inline int raise_all_but(__u32 dropped)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	data[0].effective = data[0].permitted & ~dropped;
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

static inline int drop_sys_nice(void)
{
	return raise_all_but(1u << CAP_SYS_NICE);
}

static inline int raise_all(void)
{
	return raise_all_but(0);
}

#endif /* AMDGPU_CRIU_TEST_CAPABILITY_H */
