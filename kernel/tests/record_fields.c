// SPDX-License-Identifier: GPL-2.0
#include "record_fields.h"

#include <linux/array_size.h>

#include "amdgpu_criu_records.h"
#include "kfd_criu_records.h"

#define FIELD(_struct, _field) \
	{ #_field, offsetof(struct _struct, _field), sizeof(((struct _struct *)0)->_field) }

static const struct record_field kfd_process_fields[] = {
	FIELD(kfd_criu_process_record, flags),
	FIELD(kfd_criu_process_record, pad),
	FIELD(kfd_criu_process_record, r_debug),
	{},
};

static const struct record_field kfd_device_fields[] = {
	FIELD(kfd_criu_device_record, gpu_id),
	FIELD(kfd_criu_device_record, flags),
	FIELD(kfd_criu_device_record, gc_version),
	FIELD(kfd_criu_device_record, sdma_version),
	FIELD(kfd_criu_device_record, mec_fw_version),
	FIELD(kfd_criu_device_record, mec2_fw_version),
	FIELD(kfd_criu_device_record, sdma_fw_version),
	FIELD(kfd_criu_device_record, num_xcc),
	FIELD(kfd_criu_device_record, simd_count),
	FIELD(kfd_criu_device_record, array_count),
	FIELD(kfd_criu_device_record, cwsr_size),
	FIELD(kfd_criu_device_record, ctl_stack_size),
	FIELD(kfd_criu_device_record, debug_memory_size),
	FIELD(kfd_criu_device_record, num_sdma_engines),
	FIELD(kfd_criu_device_record, num_xgmi_engines),
	FIELD(kfd_criu_device_record, num_sdma_queues),
	FIELD(kfd_criu_device_record, lds_base),
	FIELD(kfd_criu_device_record, lds_limit),
	FIELD(kfd_criu_device_record, scratch_base),
	FIELD(kfd_criu_device_record, scratch_limit),
	FIELD(kfd_criu_device_record, gpuvm_base),
	FIELD(kfd_criu_device_record, gpuvm_limit),
	FIELD(kfd_criu_device_record, tba_addr),
	FIELD(kfd_criu_device_record, tma_addr),
	FIELD(kfd_criu_device_record, scratch_va),
	FIELD(kfd_criu_device_record, wave_layout),
	{},
};

static const struct record_field kfd_bo_fields[] = {
	FIELD(kfd_criu_bo_record, object_id),
	FIELD(kfd_criu_bo_record, size),
	FIELD(kfd_criu_bo_record, va),
	FIELD(kfd_criu_bo_record, user_addr),
	FIELD(kfd_criu_bo_record, mmap_offset),
	FIELD(kfd_criu_bo_record, gpu_id),
	FIELD(kfd_criu_bo_record, handle),
	FIELD(kfd_criu_bo_record, alloc_flags),
	FIELD(kfd_criu_bo_record, table_flags),
	FIELD(kfd_criu_bo_record, domain),
	FIELD(kfd_criu_bo_record, num_mapped),
	FIELD(kfd_criu_bo_record, flags),
	FIELD(kfd_criu_bo_record, pad),
	{},
};

static const struct record_field kfd_event_page_fields[] = {
	FIELD(kfd_criu_event_page_record, handle),
	FIELD(kfd_criu_event_page_record, mapped_size),
	FIELD(kfd_criu_event_page_record, num_slots),
	FIELD(kfd_criu_event_page_record, pad),
	{},
};

static const struct record_field kfd_event_fields[] = {
	FIELD(kfd_criu_event_record, event_id),
	FIELD(kfd_criu_event_record, type),
	FIELD(kfd_criu_event_record, flags),
	FIELD(kfd_criu_event_record, pad),
	FIELD(kfd_criu_event_record, age),
	FIELD(kfd_criu_event_record, memory),
	FIELD(kfd_criu_event_record, hw),
	{},
};

static const struct record_field kfd_queue_fields[] = {
	FIELD(kfd_criu_queue_record, gpu_id),
	FIELD(kfd_criu_queue_record, queue_id),
	FIELD(kfd_criu_queue_record, type),
	FIELD(kfd_criu_queue_record, flags),
	FIELD(kfd_criu_queue_record, ring_base),
	FIELD(kfd_criu_queue_record, ring_size),
	FIELD(kfd_criu_queue_record, metadata_size),
	FIELD(kfd_criu_queue_record, read_ptr),
	FIELD(kfd_criu_queue_record, write_ptr),
	FIELD(kfd_criu_queue_record, eop_addr),
	FIELD(kfd_criu_queue_record, ctx_addr),
	FIELD(kfd_criu_queue_record, eop_size),
	FIELD(kfd_criu_queue_record, ctx_size),
	FIELD(kfd_criu_queue_record, ctl_stack_size),
	FIELD(kfd_criu_queue_record, percent),
	FIELD(kfd_criu_queue_record, priority),
	FIELD(kfd_criu_queue_record, pm4_target_xcc),
	FIELD(kfd_criu_queue_record, doorbell_id),
	FIELD(kfd_criu_queue_record, doorbell_offset),
	FIELD(kfd_criu_queue_record, sdma_id),
	FIELD(kfd_criu_queue_record, mqd_size),
	FIELD(kfd_criu_queue_record, mqd_stack_size),
	FIELD(kfd_criu_queue_record, pad),
	FIELD(kfd_criu_queue_record, active_cus),
	{},
};

static const struct record_field kfd_svm_fields[] = {
	FIELD(kfd_criu_svm_record, start),
	FIELD(kfd_criu_svm_record, size),
	FIELD(kfd_criu_svm_record, num_attrs),
	FIELD(kfd_criu_svm_record, pad),
	{},
};

static const struct record_field kfd_options_fields[] = {
	FIELD(kfd_criu_options_record, sigbus_delay),
	FIELD(kfd_criu_options_record, pad),
	{},
};

static const struct record_field render_file_fields[] = {
	FIELD(amdgpu_criu_file_record, flags),
	FIELD(amdgpu_criu_file_record, gpu_id),
	FIELD(amdgpu_criu_file_record, device),
	FIELD(amdgpu_criu_file_record, gc_version),
	FIELD(amdgpu_criu_file_record, sdma_version),
	FIELD(amdgpu_criu_file_record, vcn_version),
	FIELD(amdgpu_criu_file_record, gb_addr_config),
	FIELD(amdgpu_criu_file_record, va_end),
	{},
};

static const struct record_field render_object_fields[] = {
	FIELD(amdgpu_criu_object_record, object_id),
	FIELD(amdgpu_criu_object_record, size),
	FIELD(amdgpu_criu_object_record, device),
	FIELD(amdgpu_criu_object_record, create_flags),
	FIELD(amdgpu_criu_object_record, user_addr),
	FIELD(amdgpu_criu_object_record, tiling_flags),
	FIELD(amdgpu_criu_object_record, metadata_flags),
	FIELD(amdgpu_criu_object_record, mmap_offset),
	FIELD(amdgpu_criu_object_record, flags),
	FIELD(amdgpu_criu_object_record, alignment),
	FIELD(amdgpu_criu_object_record, preferred_domains),
	FIELD(amdgpu_criu_object_record, allowed_domains),
	FIELD(amdgpu_criu_object_record, placement),
	FIELD(amdgpu_criu_object_record, user_flags),
	FIELD(amdgpu_criu_object_record, kfd_flags),
	FIELD(amdgpu_criu_object_record, gpu_id),
	FIELD(amdgpu_criu_object_record, handle),
	FIELD(amdgpu_criu_object_record, domain),
	FIELD(amdgpu_criu_object_record, table_flags),
	FIELD(amdgpu_criu_object_record, metadata_size),
	{},
};

static const struct record_field render_handle_fields[] = {
	FIELD(amdgpu_criu_handle_record, handle),
	FIELD(amdgpu_criu_handle_record, pad),
	FIELD(amdgpu_criu_handle_record, object_id),
	{},
};

static const struct record_field render_mapping_fields[] = {
	FIELD(amdgpu_criu_mapping_record, object_id),
	FIELD(amdgpu_criu_mapping_record, va),
	FIELD(amdgpu_criu_mapping_record, size),
	FIELD(amdgpu_criu_mapping_record, offset),
	FIELD(amdgpu_criu_mapping_record, flags),
	FIELD(amdgpu_criu_mapping_record, pad),
	{},
};

static const struct record_field render_ctx_fields[] = {
	FIELD(amdgpu_criu_ctx_record, id),
	FIELD(amdgpu_criu_ctx_record, flags),
	FIELD(amdgpu_criu_ctx_record, init_priority),
	FIELD(amdgpu_criu_ctx_record, override_priority),
	FIELD(amdgpu_criu_ctx_record, stable_pstate),
	FIELD(amdgpu_criu_ctx_record, num_entities),
	{},
};

static const struct record_field render_bo_list_fields[] = {
	FIELD(amdgpu_criu_bo_list_record, id),
	FIELD(amdgpu_criu_bo_list_record, num_entries),
	{},
};

static const struct record_field render_syncobj_fields[] = {
	FIELD(amdgpu_criu_syncobj_record, handle),
	FIELD(amdgpu_criu_syncobj_record, flags),
	FIELD(amdgpu_criu_syncobj_record, object_id),
	FIELD(amdgpu_criu_syncobj_record, point),
	FIELD(amdgpu_criu_syncobj_record, error),
	FIELD(amdgpu_criu_syncobj_record, pad),
	{},
};

static const struct record_field render_client_name_fields[] = {
	FIELD(amdgpu_criu_client_name_record, name),
	{},
};

static const struct record_field render_userq_fields[] = {
	FIELD(amdgpu_criu_userq_record, id),
	FIELD(amdgpu_criu_userq_record, flags),
	FIELD(amdgpu_criu_userq_record, ip_type),
	FIELD(amdgpu_criu_userq_record, priority),
	FIELD(amdgpu_criu_userq_record, doorbell_handle),
	FIELD(amdgpu_criu_userq_record, doorbell_offset),
	FIELD(amdgpu_criu_userq_record, queue_va),
	FIELD(amdgpu_criu_userq_record, queue_size),
	FIELD(amdgpu_criu_userq_record, rptr_va),
	FIELD(amdgpu_criu_userq_record, wptr_va),
	FIELD(amdgpu_criu_userq_record, area_va),
	FIELD(amdgpu_criu_userq_record, fence_value),
	FIELD(amdgpu_criu_userq_record, num_words),
	FIELD(amdgpu_criu_userq_record, pad),
	{},
};

static const struct {
	u16 type;
	const struct record_field *fields;
} types[] = {
	{ KFD_CRIU_PROCESS, kfd_process_fields },
	{ KFD_CRIU_DEVICE, kfd_device_fields },
	{ KFD_CRIU_BO, kfd_bo_fields },
	{ KFD_CRIU_EVENT_PAGE, kfd_event_page_fields },
	{ KFD_CRIU_EVENT, kfd_event_fields },
	{ KFD_CRIU_QUEUE, kfd_queue_fields },
	{ KFD_CRIU_SVM_RANGE, kfd_svm_fields },
	{ KFD_CRIU_OPTIONS, kfd_options_fields },
	{ AMDGPU_CRIU_RECORD_FILE, render_file_fields },
	{ AMDGPU_CRIU_RECORD_OBJECT, render_object_fields },
	{ AMDGPU_CRIU_RECORD_HANDLE, render_handle_fields },
	{ AMDGPU_CRIU_RECORD_MAPPING, render_mapping_fields },
	{ AMDGPU_CRIU_RECORD_CTX, render_ctx_fields },
	{ AMDGPU_CRIU_RECORD_BO_LIST, render_bo_list_fields },
	{ AMDGPU_CRIU_RECORD_SYNCOBJ, render_syncobj_fields },
	{ AMDGPU_CRIU_RECORD_CLIENT_NAME, render_client_name_fields },
	{ AMDGPU_CRIU_RECORD_USERQ, render_userq_fields },
};

const struct record_field *record_fields(u16 type)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i].type == type)
			return types[i].fields;
	return NULL;
}
