// SPDX-License-Identifier: GPL-2.0
#include "dump/examination.h"

#include <set>

#include "base/log.h"
#include "host/criu_needs.h"

namespace amdgpu_criu::dump {
namespace {

// Of the running examination.
std::vector<std::string>* refusals;

class CollectedRefusals {
 public:
  explicit CollectedRefusals(std::vector<std::string>& to) {
    refusals = &to;
    before_ = set_refusal_sink([](const std::string& line) { refusals->push_back(line); });
  }
  CollectedRefusals(const CollectedRefusals&) = delete;
  CollectedRefusals& operator=(const CollectedRefusals&) = delete;
  ~CollectedRefusals() { set_refusal_sink(before_); }

 private:
  RefusalSink before_;
};

Status examine_files(Dump& dump, const host::Host& host, pid_t pid) {
  const Pidfd process = TRY(Pidfd::open(pid));
  for (const int number : TRY(host.special_files_of(pid))) {
    const Fd taken = process.take_descriptor(number);
    if (!taken.valid()) return Error::system("cannot get descriptor {} of process {}", number, pid);
    Status status = dump.examine_file(taken.get(), number);
    if (!status.ok())
      return std::move(status).error().within(formatted("process {}, descriptor {}", pid, number));
  }
  return {};
}

Status examine_all(Dump& dump, const host::Host& host, std::span<const pid_t> pids) {
  for (const pid_t pid : pids) TRY(dump.pause(pid));
  if (dump.has_paused()) TRY(dump.examine());
  for (const pid_t pid : pids) TRY(examine_files(dump, host, pid));
  return {};
}

}  // namespace

Status Dump::examine() {
  prepared_ = true;
  TRY(collect());
  if (!tree_.carries_render()) TRY(check_renders());
  return add_objects();
}

Status Dump::examine_file(int fd, uint32_t id) {
  const auto what = TRY(describe_file(fd, id));
  const auto* exported = what ? std::get_if<image::Exported>(&*what) : nullptr;
  if (!exported) return {};
  saver_.add(exported->state.bo, exported->gpu);
  return saver_.check_indexes();
}

uint64_t Examination::contents() const {
  std::set<uint64_t> counted;
  uint64_t bytes = 0;
  const auto count = [&](const kernel::Bo& bo) {
    if (bo.flags & AMDGPU_CRIU_BO_CONTENTS && counted.insert(bo.object_id).second) bytes += bo.size;
  };
  const auto count_all = [&](const auto& owner) {
    for (const kernel::Bo& bo : owner.bos) count(bo);
    for (const image::Exported& exported : owner.imports) count(exported.state.bo);
  };
  for (const image::Process& process : processes) count_all(process);
  for (const image::Render& render : renders) count_all(render);
  return bytes;
}

Examination examine(kernel::Api& api, const host::Host& host, const options::Options& options,
                    std::span<const pid_t> pids) {
  Examination result;
  const CollectedRefusals collected(result.refusals);
  Dump dump({api, host, {}, options, [] { return Result<int>(Error(ENOTDIR, "a dry run")); }});
  const Status status = examine_all(dump, host, pids);
  if (!status.ok()) result.refusals.push_back(status.error().message());
  for (const host::CriuNeed& need : host::criu_needs_of_tree(pids))
    result.notes.push_back(need.describe());
  if (std::string note = host::note_on_ports(pids); !note.empty())
    result.notes.push_back(std::move(note));
  result.processes = dump.processes();
  result.renders = dump.renders();
  return result;
}

}  // namespace amdgpu_criu::dump
