/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What nearly every file of amdgpu includes of the kernel, precompiled (scripts/lib/kernel-compiler).
 * No header of the driver: the kernel's do not change while one works on the driver, and a file of the
 * driver may define macros for the driver's headers before it includes them.
 */
#include <linux/kconfig.h>
#include <linux/compiler_types.h>

#include <linux/debugfs.h>
#include <linux/dma-fence.h>
#include <linux/firmware.h>
#include <linux/hwmon.h>
#include <linux/i2c.h>
#include <linux/kref.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/swiotlb.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include <drm/display/drm_dp_helper.h>
#include <drm/display/drm_dp_mst_helper.h>
#include <drm/drm_crtc.h>
#include <drm/drm_crtc_helper.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_edid.h>
#include <drm/drm_encoder.h>
#include <drm/drm_exec.h>
#include <drm/drm_fb_helper.h>
#include <drm/drm_file.h>
#include <drm/drm_fixed.h>
#include <drm/drm_framebuffer.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>
#include <drm/drm_probe_helper.h>
#include <drm/gpu_scheduler.h>
#include <drm/ttm/ttm_bo.h>
#include <drm/ttm/ttm_placement.h>
