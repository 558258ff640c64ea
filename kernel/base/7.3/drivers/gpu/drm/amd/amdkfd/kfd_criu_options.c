// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A kernel without DRM_IOCTL_AMDGPU_PROC_OPTIONS refuses the record: SIGBUS might kill there. */
#include "amdgpu_amdkfd.h"
#include "kfd_criu.h"

static int kfd_criu_dump_options(struct criu_dump *dump)
{
	const struct kfd_criu_options_record record = {
		.sigbus_delay = atomic_read(&dump->p->kfd_sigbus_delay_ms),
	};

	if (record.sigbus_delay)
		criu_writer_record(&dump->writer, KFD_CRIU_OPTIONS, &record);
	return 0;
}

static const char *kfd_criu_options_fault(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_options_record *record = entry;

	return !record->sigbus_delay ? "no option is set" : record->pad ? "pad is not zero" : NULL;
}

/* RESTORE runs in the process. */
static int kfd_criu_apply_options(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_options_record *record = entry;

	return amdgpu_amdkfd_set_sigbus_delay(current, record->sigbus_delay);
}

static void kfd_criu_undo_options(struct criu_plan *plan, void *entry)
{
	amdgpu_amdkfd_set_sigbus_delay(current, 0);
}

const struct criu_kind kfd_criu_options = {
	CRIU_KIND(KFD_CRIU_OPTIONS, options, struct kfd_criu_options_record, sigbus_delay),
	.subject = "options",
	.dump = kfd_criu_dump_options,
	.fault = kfd_criu_options_fault,
	.apply = kfd_criu_apply_options, .undo = kfd_criu_undo_options,
};
