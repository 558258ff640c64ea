// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The record types of a KFD process, without a type of the driver: host tests read golden blobs
 * with this table. A type with a second version needs an array of struct criu_record_older here,
 * and its row uses CRIU_RECORD_VERSIONS().
 */
#include <asm/page.h>

#include "kfd_criu_records.h"

static const struct criu_record_desc kfd_criu_records[] = {
	CRIU_RECORD_IDENTITY_ROW,
	CRIU_RECORD_END_ROW,
	CRIU_RECORD(KFD_CRIU_PROCESS, "process", struct kfd_criu_process_record, r_debug, 1, 1, 0),
	CRIU_RECORD(KFD_CRIU_DEVICE, "device", struct kfd_criu_device_record, scratch_va,
		    0, KFD_CRIU_DEVICES_MAX, 0),
	CRIU_RECORD(KFD_CRIU_BO, "bo", struct kfd_criu_bo_record, num_mapped, 0, 0, CRIU_DESC_TAIL),
	CRIU_RECORD(KFD_CRIU_EVENT_PAGE, "event page", struct kfd_criu_event_page_record, pad,
		    0, 1, CRIU_DESC_TAIL),
	CRIU_RECORD(KFD_CRIU_EVENT, "event", struct kfd_criu_event_record, hw, 0, 0, 0),
	CRIU_RECORD(KFD_CRIU_QUEUE, "queue", struct kfd_criu_queue_record, pad,
		    0, KFD_CRIU_QUEUES_MAX, CRIU_DESC_TAIL),
	CRIU_RECORD(KFD_CRIU_SVM_RANGE, "svm range", struct kfd_criu_svm_record, pad,
		    0, 0, CRIU_DESC_TAIL),
	CRIU_RECORD(KFD_CRIU_OPTIONS, "options", struct kfd_criu_options_record, pad, 0, 1, 0),
};

const struct criu_blob_schema kfd_criu_schema =
	CRIU_BLOB_SCHEMA("amdgpu", KFD_CRIU_NODE, kfd_criu_records);
