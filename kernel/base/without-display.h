/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Included after the kernel's own configuration: the driver without its display code. */
#undef CONFIG_DRM_AMD_DC
#undef CONFIG_DRM_AMD_DC_FP
#undef CONFIG_DRM_AMD_ISP
#undef CONFIG_DRM_AMD_ACP
