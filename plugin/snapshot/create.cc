// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu snapshot create`
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/ending_process.h"
#include "host/criu_needs.h"
#include "host/host.h"
#include "image/set.h"
#include "snapshot/criu_command.h"
#include "snapshot/readiness.h"
#include "snapshot/refusals.h"
#include "snapshot/report.h"
#include "snapshot/server.h"
#include "snapshot/snapshot.h"
#include "snapshot/verdict.h"
#include "tool/images.h"
#include "tool/output.h"
#include "tool/stack.h"

namespace amdgpu_criu::snapshot {
namespace {

namespace fs = std::filesystem;

constexpr char kServerLog[] = "server.log";
constexpr char kDumpLog[] = "dump.log";

std::string utc_now() {
  const time_t now = time(nullptr);
  tm parts{};
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  return text;
}

// What the images need of GPUs. A server may use none.
Status read_gpus(const std::string& images, Manifest& manifest) {
  const auto opened = TRY(tool::Images::open(images));
  if (TRY(image::list_files(opened.fd())).empty()) return {};
  const auto set = TRY(image::Set::load(opened.directory()));
  for (const uint32_t id : set.used_gpus()) {
    const uint64_t target = set.gpus().at(id).property("gfx_target_version");
    manifest.gpus.push_back({chip_name(target), target, set.contents_bytes(id)});
  }
  for (const auto& [index, vram] : set.kfd_vram())
    for (const auto& [gpu_id, bytes] : vram) manifest.vram += bytes;
  return {};
}

Status refuse_if_interrupted() {
  return is_interrupted() ? Status(Error(EINTR, "interrupted")) : Status();
}

// Creates it, unless there is an empty one.
Status make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (fs::exists(fs::path(directory) / kManifest, error) ||
      (fs::exists(fs::path(directory) / kImages, error) &&
       !fs::is_empty(fs::path(directory) / kImages, error)))
    return Error::of(EEXIST, "there is a snapshot in {} already", directory);
  fs::create_directories(fs::path(directory) / kImages, error);
  if (error) return Error::of(error.value(), "cannot make {}: {}", directory, error.message());
  return {};
}

class Creation {
 public:
  explicit Creation(const CreateOptions& options)
      : options_(options), directory_(fs::absolute(options.directory)), pid_(options.pid) {}

  // Prints what a dump would be.
  Status try_out() {
    TRY(refuse_criu(options_.criu));
    TRY(choose_command());
    return {};
  }

  Status run() {
    TRY(refuse_criu(options_.criu));
    TRY(need_pidfds());
    if (pid_ == 0) TRY(refuse_open_port(options_.readiness));
    TRY(make_directory(directory_));
    if (pid_ == 0) TRY(start());
    if (Status status = make_ready(); !status.ok()) {
      if (started_) end_server();
      return status;
    }
    Status status = make();
    if (!status.ok()) {
      std::error_code error;
      fs::remove(fs::path(directory_) / kManifest, error);
      fs::remove_all(fs::path(directory_) / kImages, error);
      report_.say("no snapshot; process {} runs on", pid_);
    }
    return status;
  }
  const Manifest& manifest() const { return manifest_; }

 private:
  // CRIU may leave the server stopped. It continues at the end of this, unless it has ended.
  class Continuation {
   public:
    explicit Continuation(const Creation& creation) : creation_(&creation) {}
    Continuation(const Continuation&) = delete;
    Continuation& operator=(const Continuation&) = delete;
    ~Continuation() {
      if (creation_) creation_->continue_server();
    }
    void cancel() { creation_ = nullptr; }

   private:
    const Creation* creation_;
  };

  Status start();
  Status make_ready();
  Status make();
  void choose_options(CriuCommand& criu);
  Result<CriuCommand> choose_command();
  Status dump();
  Result<int> run_criu(CriuCommand criu);
  Status complete();
  Status write_down();
  Status call_before() const;
  Status call_after(const char* result) const;
  void give_up();
  Probe probe() const;
  // It may be stopped once it was examined.
  void continue_server() const {
    if (!manifest_.server.pids.empty()) continue_tree(server_);
  }
  void end_server() {
    kill_tree(std::move(server_));
    if (started_) (void)started_->wait();
  }
  bool criu_leaves_it_running() const {
    return options_.leave_running && options_.tcp == "established";
  }
  // Connections are held by CRIU, and only CRIU can give them back.
  bool criu_ends_it() const { return !options_.leave_running && options_.tcp == "established"; }

  const CreateOptions& options_;
  const std::string directory_;
  pid_t pid_;
  std::optional<Child> started_;
  std::vector<Pidfd> server_;  // its processes, the first one first; all once it was examined
  Manifest manifest_;
  Report report_;
  std::optional<Verdict> verdict_;   // if CRIU ends the server
  std::optional<Status> completed_;  // once CRIU has saved the server
  double dump_begin_ = 0;
};

Status Creation::start() {
  started_ = TRY(start_server(options_.command, directory_ + "/" + kServerLog));
  pid_ = started_->pid();
  if (auto opened = open_all({pid_}); opened.ok()) {
    server_ = *std::move(opened);
  } else {
    (void)kill(pid_, SIGKILL);  // nobody else gets its number before wait()
    (void)started_->wait();
    return std::move(opened).error();
  }
  report_.say("process {}, 1 in its pid namespace: {}", pid_, Program{options_.command, {}}.text());
  return {};
}

Probe Creation::probe() const {
  return {pid_,
          started_ ? directory_ + "/" + kServerLog : "",
          {{"SNAPSHOT_DIRECTORY", directory_}, {"SNAPSHOT_PID", formatted("{}", pid_)}}};
}

Status Creation::make_ready() {
  manifest_.readiness = options_.readiness;
  if (options_.readiness.is_empty()) return {};
  TRY(wait_until_ready(options_.readiness, probe()));
  if (started_) manifest_.ready_seconds = report_.seconds();
  report_.say("the server is ready");
  return {};
}

Status Creation::call_before() const {
  if (options_.before.empty()) return {};
  return snapshot::run(Program::shell(options_.before, probe().variables));
}

// It undoes what the hook `before` did, so the signal that ended the dump does not end it.
Status Creation::call_after(const char* result) const {
  if (options_.after.empty()) return {};
  Variables variables = probe().variables;
  variables["SNAPSHOT_RESULT"] = result;
  return snapshot::run(Program::shell(options_.after, variables), EndedBy::kLaterSignals);
}

// The hook may wait for the server, which CRIU may have left stopped.
void Creation::give_up() {
  continue_server();
  if (const Status status = call_after("failed"); !status.ok())
    report_.say("{}", status.error().message());
}

// The hook `before` may end connections, so the server is examined after it. If it fails, it may
// have done a part of its work, which the hook `after` undoes.
Status Creation::make() {
  Continuation continuation(*this);
  const Status dumped = without_exceptions([&]() -> Status {
    TRY(call_before());
    return dump();
  });
  if (!dumped.ok() && !completed_) give_up();
  TRY(dumped);
  if (options_.leave_running) return {};
  end_server();
  continuation.cancel();
  return {};
}

void Creation::choose_options(CriuCommand& criu) {
  criu.add("-t", formatted("{}", pid_));
  criu.add("-D", directory_ + "/" + kImages);
  criu.add("-W", directory_);
  criu.add("-o", kDumpLog);
  criu.add("-v4", "", "a log that explains a failure");
  if (!options_.criu.libdir.empty()) criu.add("-L", options_.criu.libdir);
  constexpr char kEnds[] = "the server ends only when the snapshot is complete";
  if (criu_leaves_it_running())
    criu.add("--leave-running", "", "the server keeps its connections");
  else if (verdict_)
    criu.add("--action-script", verdict_->script(), kEnds);
  else
    criu.add("--leave-stopped", "", kEnds);
  if (options_.tcp == "close") {
    criu.add("--tcp-close", "", "connections are closed in replicas; see --tcp");
    criu.add("--skip-in-flight", "", "so are those that nobody has accepted");
  } else {
    criu.add("--tcp-established", "", "asked for by --tcp");
  }
  for (const host::CriuNeed& need : host::criu_needs_of_tree(manifest_.server.pids)) {
    if (need.option == "--tcp-established") continue;
    criu.add(need.option, need.value, need.reason);
    if (need.option != "--ghost-limit") manifest_.restore_options.push_back(need.option);
  }
}

// Examines the server, and prints the command and the reasons for its options.
Result<CriuCommand> Creation::choose_command() {
  manifest_.server = TRY(examine_server(pid_));
  server_ = TRY(open_all(manifest_.server.pids));
  if (server_.empty() || server_.front().pid() != pid_)
    return Error::of(ESRCH, "process {} has ended", pid_);
  if (criu_ends_it()) verdict_ = TRY(Verdict::create());
  CriuCommand criu(options_.criu.program, "dump");
  choose_options(criu);
  criu.override_with(options_.criu.words);
  TRY(criu.leave_out(options_.criu.leave_outs));
  criu.set("INCREMENTAL", "on");  // for the hashes
  report_.say("{}", criu.program().text());
  for (const std::string& reason : criu.reasons()) report_.detail(reason);
  return criu;
}

Status Creation::dump() {
  const CriuCommand criu = TRY(choose_command());
  const int status = TRY(run_criu(criu));
  if (completed_ && !completed_->ok()) return std::move(*completed_);
  // Once CRIU has begun to end the server, the snapshot is all that there is.
  if (status != 0 && !(completed_ && is_ending(server_.front())))
    return Error::of(ECHILD, "criu dump ended with status {}: {}", status,
                     last_error(directory_ + "/" + kDumpLog));
  if (options_.leave_running) continue_server();
  if (!completed_) completed_ = complete();
  return std::move(*completed_);
}

Result<int> Creation::run_criu(CriuCommand criu) {
  auto status_lines = TRY(StatusPipe::create());
  criu.set("STATUS_FD", formatted("{}", status_lines.writing_end()));
  dump_begin_ = report_.seconds();
  // Of the connections' network namespace, which is then none that CRIU dumps.
  Child child = TRY(Child::start(criu.program(), [&]() -> Status {
    TRY(status_lines.keep_in_child());
    // If it ended early, the server's connections would stay locked.
    if (options_.tcp == "established") ignore_signals();
    return enter_network_of(pid_);
  }));
  status_lines.close_writing_end();
  return child.wait({}, [&] {
    status_lines.read(report_, "");
    if (!verdict_ || !verdict_->is_asked_for()) return;
    completed_ = complete();
    verdict_->give(completed_->ok());
  });
}

// When everything is saved. An exception must not pass Child::wait(): CRIU may wait for the
// verdict.
Status Creation::complete() {
  return without_exceptions([&]() -> Status {
    manifest_.dump_seconds = report_.seconds() - dump_begin_;
    report_.say("criu dump took {:.2f} s", manifest_.dump_seconds);
    TRY(call_after("ok"));
    return write_down();
  });
}

Status Creation::write_down() {
  TRY(refuse_if_interrupted());
  utsname name{};
  uname(&name);
  manifest_.created = utc_now();
  manifest_.tool = "amdgpu-criu " AMDGPU_CRIU_VERSION;
  manifest_.criu = version_of(options_.criu);
  manifest_.kernel = name.release;
  manifest_.tcp = options_.tcp;
  if (const auto id = tool::stack_id_of_machine(); id.ok()) manifest_.stack_id = *id;
  TRY(read_gpus(directory_ + "/" + kImages, manifest_));
  manifest_.files = TRY(list_images(directory_));
  const Fd directory = TRY(Fd::open(directory_.c_str(), O_RDONLY | O_DIRECTORY));
  if (syncfs(directory.get()) != 0) return Error::system("cannot write {}", directory_);
  TRY(refuse_if_interrupted());
  return write_manifest(directory_, manifest_);
}

}  // namespace

int create(const CreateOptions& options, tool::Format format) {
  watch_for_signals();
  Creation creation(options);
  const Status status = options.dry_run ? creation.try_out() : creation.run();
  if (!status.ok()) return tool::complain(1, status.error().message());
  if (options.dry_run) return tool::check_process(options.pid, format);
  const Manifest& manifest = creation.manifest();
  if (format == tool::Format::kJson)
    print_as_json(manifest);
  else
    printf("%s: %zu files, %llu MiB, of them %llu MiB of GPU memory\n", options.directory.c_str(),
           manifest.files.size(), static_cast<unsigned long long>(manifest.bytes() >> 20),
           static_cast<unsigned long long>(manifest.gpu_memory() >> 20));
  return 0;
}

}  // namespace amdgpu_criu::snapshot
