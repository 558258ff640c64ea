/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Included after the kernel's own configuration: the driver for guests with software GPUs. */
#undef CONFIG_DRM_AMDGPU_SI
#undef CONFIG_DRM_AMDGPU_CIK
#ifdef CONFIG_PCI_P2PDMA
#define CONFIG_HSA_AMD_P2P 1
#endif
