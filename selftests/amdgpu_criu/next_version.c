// SPDX-License-Identifier: GPL-2.0
/*
 * Blobs between this kernel and a later one, both ways, by their real drivers:
 *
 *   next_version THIS.ko NEXT.ko [PARAMETERS]
 *
 * THIS.ko is loaded now, with these parameters; scripts/module --next builds NEXT.ko from the same
 * source. The later kernel has one more field in a record, a second version of another, a new
 * record, and a new record that may be skipped. It can also give a process state of a GPU of GFX8.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"

#include "blob_edit.h"
#include "state.h"

#define ROOM 64
#define PARAMETERS "/sys/module/amdgpu/parameters/"
/* Bits of what the later driver writes, and of what it has read: see kernel/tests/next. */
#define FIELD 1
#define TENTHS 2
#define RECORD 4
#define COMMENT 8
/* State of a GPU that no test has */
#define POLICY 16
#define TYPE_NEEDED 0x108
#define TYPE_COMMENT 0x109
#define TESTS 32

/* The result of QUERY of a kernel. */
struct kernel {
	struct amdgpu_criu_record_info records[ROOM];
	__u32 num_records;
};

static struct kernel this_kernel, next_kernel;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nBail out!\n");
	exit(KSFT_FAIL);
}

static void check(bool passed, const char *name)
{
	ksft_test_result(passed, "%s\n", name);
}

static void expect(int expected, int is, const char *name)
{
	if (expected != is)
		ksft_print_msg("%d, expected %d\n", is, expected);
	check(expected == is, name);
}

/* Until all GPUs have their nodes in the topology again. */
static void load_driver(const char *module, const char *parameters, unsigned int gpus)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	struct kfd_gpu gpu;
	char command[512];
	int i;

	snprintf(command, sizeof(command), "rmmod amdgpu && insmod '%s' %s", module,
		 parameters);
	if (system(command))
		die("%s does not load", module);
	for (i = 0; i < 600; i++) {
		if (!access("/dev/kfd", R_OK | W_OK) && !kfd_gpu_at(gpus - 1, &gpu))
			return;
		nanosleep(&pause, NULL);
	}
	die("%s finds no GPU within a minute", module);
}

static void set_parameter(const char *name, unsigned int value)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	file = fopen(path, "w");
	if (!file || fprintf(file, "%u\n", value) < 0 || fclose(file))
		die("cannot write %s", path);
}

static unsigned int seen(void)
{
	unsigned int value = 0;
	FILE *file = fopen(PARAMETERS "criu_next_seen", "r");

	if (!file || fscanf(file, "%u", &value) != 1)
		die("cannot read " PARAMETERS "criu_next_seen");
	fclose(file);
	return value;
}

static void ask(struct kernel *kernel)
{
	struct amdgpu_criu_query query = {
		.records = (uintptr_t)kernel->records,
		.num_records = ROOM,
		.record_stride = sizeof(kernel->records[0]),
	};
	struct criu_node node;

	if (criu_node_open(&node, CRIU_NODE_KFD) || criu_op(&node, QUERY, &query))
		die("QUERY fails");
	kernel->num_records = query.num_records;
	criu_node_close(&node);
}

static struct amdgpu_criu_record_info *row(struct kernel *kernel, __u16 type)
{
	for (__u32 i = 0; i < kernel->num_records; i++)
		if (kernel->records[i].type == type)
			return &kernel->records[i];
	return NULL;
}

/* A process's image, written by the loaded driver; with @options if it is the later one. */
static int save(struct carry *carry, const struct kernel *target, unsigned int options)
{
	const struct carry_maker maker = {
		.make = state_make_filled,
		.records = target ? target->records : NULL,
		.num_records = target ? target->num_records : 0,
	};
	int ret;

	if (options)
		set_parameter("criu_next", options);
	ret = carry_make(carry, &maker);
	if (options)
		set_parameter("criu_next", 0);
	return ret;
}

/* In a process of its own: restored, unchanged, and its queue continues. */
static int restore_here(struct carry *carry)
{
	struct state *state = (struct state *)carry->notes;
	struct kfd kfd;
	int session;
	int ret = carry_open(carry, &kfd);

	if (ret)
		return ret;
	session = criu_session(&kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	if (session < 0)
		return session;
	ret = carry_restore(carry, &kfd, session);
	if (ret)
		return ret;
	if (!state_is_filled(state, 1) || kfd_event_wait(&kfd, state->event_set, 0))
		return -EILSEQ;
	ret = kfd_doorbell_map(&kfd, &state->sdma);
	if (ret)
		return ret;
	kfd_sdma_write(&state->sdma, state->gtt.at, 0xabc);
	return kfd_becomes(state->gtt.at, 0xabc, 10000) ? 0 : -ETIME;
}

static int restore(struct carry *carry)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(-restore_here(carry));
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -ECHILD;
	return -WEXITSTATUS(status);
}

static struct blob blob_of(const struct carry *carry)
{
	return (struct blob) { carry->image.blob, carry->image.blob_size };
}

static unsigned int version_of(const struct carry *carry, __u16 type)
{
	struct blob blob = blob_of(carry);
	size_t at = blob_find(&blob, type, 0);

	return at ? blob_record(&blob, at)->version : 0;
}

/* kfd_criu_queue_record.percent of the first queue. */
static __u32 percent_of(const struct carry *carry)
{
	struct blob blob = blob_of(carry);

	return ((__u32 *)blob_payload(&blob, blob_find(&blob, BLOB_KFD_QUEUE, 0)))[21];
}

/* Written by the later kernel, for this one unless the name says otherwise. */
static struct {
	struct carry old;
	struct carry newest;
	struct carry for_this;
	struct carry hint_for_this;
	struct carry field;
	struct carry longer;
	struct carry record;
	struct carry comment;
} blobs;

static void query_reports_what_is_new(void)
{
	struct amdgpu_criu_record_info *queue = row(&next_kernel, BLOB_KFD_QUEUE);
	struct amdgpu_criu_record_info *event = row(&next_kernel, BLOB_KFD_EVENT);

	check(queue && queue->version_min == 1 && queue->version_max == 2,
	      "QUERY of the later kernel reports the second version of a record");
	check(event && event->version_max == 1 &&
	      event->size == row(&this_kernel, BLOB_KFD_EVENT)->size + 8,
	      "QUERY of the later kernel reports one more field");
	check(row(&next_kernel, TYPE_NEEDED) && !row(&this_kernel, TYPE_NEEDED),
	      "QUERY of the later kernel reports a new record");
}

static void old_to_next(void)
{
	expect(0, restore(&blobs.old), "the later kernel restores an old blob");
	check(version_of(&blobs.old, BLOB_KFD_QUEUE) == 1 && percent_of(&blobs.old) == 100,
	      "the old blob has the first version");
}

/* What the later kernel writes and reads by default. */
static void next_to_next(void)
{
	struct carry all;

	expect(0, save(&blobs.newest, NULL, 0), "the later kernel writes a blob");
	check(version_of(&blobs.newest, BLOB_KFD_QUEUE) == 2 && percent_of(&blobs.newest) == 1000,
	      "the later kernel writes the second version");
	expect(0, save(&all, NULL, FIELD | RECORD | COMMENT), "the later kernel writes all of it");
	expect(0, restore(&all), "the later kernel restores all of it");
	expect(FIELD | RECORD | COMMENT, seen(), "the later kernel has read all of it");
	carry_free(&all);
}

/* What the later kernel writes for this kernel. */
static void next_for_this(void)
{
	static const unsigned int untold[] = { FIELD, TENTHS, RECORD };
	static const char * const names[] = {
		"a field in use cannot be represented for this kernel",
		"a value that the first version lacks cannot be represented for this kernel",
		"a record that must not be skipped cannot be represented for this kernel",
	};
	struct carry refused;

	expect(0, save(&blobs.for_this, &this_kernel, 0), "the later kernel writes for this one");
	check(version_of(&blobs.for_this, BLOB_KFD_QUEUE) == 1 &&
	      percent_of(&blobs.for_this) == 100, "it writes the first version");
	for (int i = 0; i < 3; i++)
		expect(-EOPNOTSUPP, save(&refused, &this_kernel, untold[i]), names[i]);
	expect(0, save(&blobs.hint_for_this, &this_kernel, COMMENT),
	       "a record that may be skipped need not be written");
	check(!version_of(&blobs.hint_for_this, TYPE_COMMENT), "the record is left out");
}

/* SET_MEMORY_POLICY has an effect on GPUs of GFX8 only, and on them it would be lost. */
static void gfx8_policy(void)
{
	struct carry carry;

	expect(-EOPNOTSUPP, save(&carry, NULL, POLICY), "a memory policy of GFX8 is refused");
	expect(0, save(&carry, NULL, 0), "a process without one is saved");
	carry_free(&carry);
}

/* One new thing, and everything else in the versions of this kernel. */
static void next_for_this_but(void)
{
	struct kernel target = this_kernel;

	row(&target, BLOB_KFD_EVENT)->size += 8;
	expect(0, save(&blobs.longer, &target, 0), "one more field, not in use");
	expect(0, save(&blobs.field, &target, FIELD), "one more field, in use");
	target = this_kernel;
	target.records[target.num_records++] = *row(&next_kernel, TYPE_NEEDED);
	expect(0, save(&blobs.record, &target, RECORD), "a new record");
	target = this_kernel;
	target.records[target.num_records++] = *row(&next_kernel, TYPE_COMMENT);
	expect(0, save(&blobs.comment, &target, COMMENT), "a new record that may be skipped");
	check(version_of(&blobs.comment, TYPE_COMMENT) == 1, "the record is written");
}

static void next_to_this(void)
{
	expect(-EOPNOTSUPP, restore(&blobs.newest), "this kernel refuses the second version");
	expect(0, restore(&blobs.for_this), "this kernel restores what was written for it");
	expect(0, restore(&blobs.hint_for_this), "this kernel restores it without the hint");
	expect(0, restore(&blobs.longer), "this kernel restores one more field, not in use");
	expect(-EOPNOTSUPP, restore(&blobs.field), "this kernel refuses one more field, in use");
	expect(-EOPNOTSUPP, restore(&blobs.record), "this kernel refuses a new record");
	expect(0, restore(&blobs.comment), "this kernel skips a new record that may be skipped");
}

int main(int argc, char **argv)
{
	const char *parameters = argc == 4 ? argv[3] : "";
	unsigned int gpus = 0;
	struct kfd_gpu gpu;

	ksft_print_header();
	if (argc != 3 && argc != 4)
		ksft_exit_skip("needs two drivers: next_version THIS.ko NEXT.ko [PARAMETERS]\n");
	while (!kfd_gpu_at(gpus, &gpu))
		gpus++;
	if (!gpus)
		ksft_exit_skip("no GPU in the topology of KFD\n");
	ksft_set_plan(TESTS);
	ask(&this_kernel);
	expect(0, save(&blobs.old, NULL, 0), "this kernel writes a blob");
	load_driver(argv[2], parameters, gpus);
	ask(&next_kernel);
	query_reports_what_is_new();
	old_to_next();
	next_to_next();
	next_for_this();
	next_for_this_but();
	gfx8_policy();
	load_driver(argv[1], parameters, gpus);
	next_to_this();
	ksft_finished();
}
