// SPDX-License-Identifier: GPL-2.0
// Runs the command as a user does, and makes images for it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <vector>

#include "image/set.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::tool {

struct Outcome {
  int status;
  std::string output;
};

inline Outcome run(const std::string& arguments, const std::string& before = "") {
  FILE* pipe = popen((before + TOOL_PATH " " + arguments + " 2>&1").c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), pipe))
    outcome.output.append(buffer, got);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

// With images of one process that has one BO.
class Tool : public testing::Test {
 protected:
  void SetUp() override {
    const image::DumpId id = image::new_dump_id();
    image::Process process;
    process.dump_id = id;
    process.pid = 41;
    process.comm = "a \"job\"";
    image::Device device{0x11, 0x22, true, {}};
    device.gpu.gpu_id = 0x22;
    device.gpu.pci_address = "0000:03:00.0";
    process.devices = {device};
    kernel::Bo bo{};
    bo.object_id = 7;
    bo.size = 4096;
    bo.va = 0xabc000;
    bo.gpu_id = 0x11;
    bo.domain = AMDGPU_CRIU_DOMAIN_VRAM;
    bo.flags = AMDGPU_CRIU_BO_CONTENTS;
    process.bos = {bo};
    process.blob.emplace();
    const auto encoded = image::encode(process);
    ASSERT_TRUE(image::write_metadata_file(dir_.fd(), image::process_file_name(0),
                                           image::Kind::kProcess, encoded)
                    .ok());
    auto writer = std::move(*image::ContentsWriter::create(dir_.fd(), contents_));
    const std::vector<std::byte> bytes(4096, std::byte{5});
    const image::Chunk chunk{
        .offset = *writer.append(bytes), .size = 4096, .sum = image::checksum(bytes)};
    ASSERT_TRUE(
        writer
            .finish(image::encode(image::Contents{id, 0, device.gpu, {{7, 4096, {chunk}, {}}}, {}}))
            .ok());
  }

  testing_support::TempDir dir_;
  const std::string contents_ = image::contents_file_name(0, 0x22);
};

}  // namespace amdgpu_criu::tool
