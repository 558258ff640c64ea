// SPDX-License-Identifier: GPL-2.0
#include "image/set.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace image {
namespace {

using base::Error;

struct DirCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

std::optional<Kind> kind_of(std::string_view name) {
  if (!name.ends_with(".img")) return std::nullopt;
  if (name.starts_with("amdgpu-process-")) return Kind::kProcess;
  if (name.starts_with("amdgpu-file-")) return Kind::kFile;
  if (name.starts_with("amdgpu-contents-")) return Kind::kContents;
  return std::nullopt;
}

Error bad(const std::string& name, const std::string& why) {
  return Error::of(EBADMSG, "image {}: {}", name, why);
}

Status check_name(const std::string& name, const std::string& expected) {
  if (name == expected) return {};
  return bad(name, "is the file that should be called " + expected);
}

const Device* find_device(const Process& process, uint32_t gpu_id) {
  auto found = std::ranges::find(process.devices, gpu_id, &Device::gpu_id);
  return found == process.devices.end() ? nullptr : &*found;
}

}  // namespace

Result<std::vector<std::string>> list_files(int directory) {
  // A descriptor of its own: reading a directory moves the file position.
  Fd fd = TRY(Fd::openat(directory, ".", O_RDONLY | O_DIRECTORY));
  std::unique_ptr<DIR, DirCloser> stream(fdopendir(fd.get()));
  if (!stream) return Error::system("cannot list the image directory");
  (void)fd.release();
  std::vector<std::string> result;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (!entry) break;
    if (kind_of(entry->d_name)) result.emplace_back(entry->d_name);
  }
  if (errno) return Error::system("cannot list the image directory");
  std::ranges::sort(result);
  return result;
}

Status Set::add(int directory, const std::string& name) {
  const auto kind = kind_of(name);
  if (!kind) return bad(name, "is of an unknown kind");
  Opened opened = TRY(open_file(directory, name, *kind));
  switch (*kind) {
    case Kind::kProcess: {
      Process process = TRY(decode_process(opened));
      TRY(check_name(name, process_file_name(process.index)));
      processes_.emplace(process.index, std::move(process));
      return {};
    }
    case Kind::kFile: {
      File file = TRY(decode_file(opened));
      TRY(check_name(name, file_file_name(file.id)));
      files_.emplace(file.id, file);
      return {};
    }
    case Kind::kContents: {
      Contents contents = TRY(decode_contents(opened));
      TRY(check_name(name, contents_file_name(contents.process, contents.gpu_id)));
      contents_.push_back({name, std::move(contents), opened.data_end, opened.metadata_sum});
      return {};
    }
  }
  return bad(name, "is of an unknown kind");
}

Result<Set> Set::load(int directory) {
  Set set;
  for (const std::string& name : TRY(list_files(directory))) TRY(set.add(directory, name));
  TRY(set.check());
  return set;
}

Status Set::check() const {
  std::optional<DumpId> id;
  auto same_dump = [&](const DumpId& other, const std::string& name) -> Status {
    if (!id) id = other;
    if (*id != other) return bad(name, "belongs to another dump than the files beside it");
    return {};
  };
  for (const auto& [index, process] : processes_)
    TRY(same_dump(process.dump_id, process_file_name(index)));
  for (const auto& [file_id, file] : files_) {
    const std::string name = file_file_name(file_id);
    TRY(same_dump(file.dump_id, name));
    auto process = processes_.find(file.process);
    if (process == processes_.end())
      return Error::of(ENOENT, "image {} is missing; {} needs it", process_file_name(file.process),
                       name);
    const Device* device = find_device(process->second, file.gpu_id);
    if (!file.kfd && (!device || !device->has_vm))
      return bad(name, "is of a GPU that its process does not use");
  }
  for (const ContentsFile& file : contents_) TRY(same_dump(file.contents.dump_id, file.name));
  return check_contents();
}

Status Set::check_contents() const {
  std::map<uint64_t, uint64_t> saved;  // object id to size
  for (const ContentsFile& file : contents_) {
    if (!processes_.contains(file.contents.process))
      return Error::of(ENOENT, "image {} is missing; {} needs it",
                       process_file_name(file.contents.process), file.name);
    for (const Object& object : file.contents.objects)
      if (!saved.emplace(object.object_id, object.size).second)
        return bad(file.name, "an object's contents are there twice");
  }
  for (const auto& [index, process] : processes_)
    for (const kernel::Bo& bo : process.bos) {
      if (!(bo.flags & AMDGPU_CRIU_BO_CONTENTS)) continue;
      auto object = saved.find(bo.object_id);
      if (object == saved.end())
        return Error::of(
            ENOENT, "image {} is missing, or lacks the contents of object {}, which {} needs",
            contents_file_name(index, bo.gpu_id), bo.object_id, process_file_name(index));
      if (object->second != bo.size)
        return bad(process_file_name(index), "a BO's size is not that of its contents");
    }
  return {};
}

Status verify_object(const Opened& file, const Object& object) {
  std::vector<std::byte> buffer;
  for (const Chunk& chunk : object.chunks) {
    buffer.resize(chunk.size);
    TRY(file.read(chunk.offset, buffer));
    if (checksum(buffer) != chunk.sum)
      return bad(file.name,
                 std::format("contents of object {} are damaged (chunk at {:#x}, {:#x} bytes: "
                             "checksum does not match)",
                             object.object_id, chunk.offset, chunk.size));
  }
  return {};
}

Result<Opened> Set::ContentsFile::open(int directory) const {
  Opened opened = TRY(open_file(directory, name, Kind::kContents));
  if (opened.metadata_sum != metadata_sum || opened.data_end != data_end)
    return bad(name, "was changed during the restore");
  return opened;
}

}  // namespace image
