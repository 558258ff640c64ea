// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The record types of render-node files and of EXPORTED, without a type of the driver */
#include <asm/page.h>

#include "amdgpu_criu_records.h"

static const struct criu_record_desc amdgpu_criu_render_records[] = {
	CRIU_RECORD_IDENTITY_ROW,
	CRIU_RECORD_END_ROW,
	CRIU_RECORD(AMDGPU_CRIU_RECORD_FILE, "file", struct amdgpu_criu_file_record, va_end,
		    1, 1, 0),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_OBJECT, "bo", struct amdgpu_criu_object_record,
		    metadata_size, 0, 0, CRIU_DESC_TAIL),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_HANDLE, "gem handle", struct amdgpu_criu_handle_record,
		    object_id, 0, 0, 0),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_MAPPING, "mapping", struct amdgpu_criu_mapping_record, pad,
		    0, 0, 0),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_CTX, "context", struct amdgpu_criu_ctx_record,
		    num_entities, 0, 0, CRIU_DESC_TAIL),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_BO_LIST, "bo list", struct amdgpu_criu_bo_list_record,
		    num_entries, 0, 0, CRIU_DESC_TAIL),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_SYNCOBJ, "syncobj", struct amdgpu_criu_syncobj_record, pad,
		    0, 0, 0),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_CLIENT_NAME, "client name",
		    struct amdgpu_criu_client_name_record, name, 0, 1, CRIU_DESC_MAY_SKIP),
	CRIU_RECORD(AMDGPU_CRIU_RECORD_USERQ, "user queue", struct amdgpu_criu_userq_record,
		    pad, 0, AMDGPU_CRIU_USERQS_MAX, CRIU_DESC_TAIL),
};

const struct criu_blob_schema amdgpu_criu_render_schema =
	CRIU_BLOB_SCHEMA("amdgpu", AMDGPU_CRIU_NODE_RENDER, amdgpu_criu_render_records);

static const struct criu_record_desc amdgpu_criu_exported_records[] = {
	CRIU_RECORD_IDENTITY_ROW,
	CRIU_RECORD_END_ROW,
	CRIU_RECORD(AMDGPU_CRIU_RECORD_OBJECT, "bo", struct amdgpu_criu_object_record,
		    metadata_size, 1, 1, CRIU_DESC_TAIL),
};

const struct criu_blob_schema amdgpu_criu_exported_schema =
	CRIU_BLOB_SCHEMA("amdgpu", AMDGPU_CRIU_NODE_EXPORTED, amdgpu_criu_exported_records);
