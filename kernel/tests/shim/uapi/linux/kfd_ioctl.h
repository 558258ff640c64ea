/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_UAPI_LINUX_KFD_IOCTL_H_
#define SHIM_UAPI_LINUX_KFD_IOCTL_H_

#include <linux/kfd_ioctl.h>

#endif /* SHIM_UAPI_LINUX_KFD_IOCTL_H_ */
