// SPDX-License-Identifier: GPL-2.0
// For tests: a code object of the AMDGPU target, and the places of its kernels.
#pragma once

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "shader/isa.h"

namespace gpu::test {

// As compilers call it.
inline std::string name_of(shader::Isa isa) {
  switch (isa) {
    case shader::Isa::kGfx90a:
      break;
    case shader::Isa::kGfx942:
      return "gfx942";
    case shader::Isa::kGfx1100:
      return "gfx1100";
  }
  return "gfx90a";
}

inline std::string object_path(const std::string& name, shader::Isa isa = shader::Isa::kGfx90a) {
  return std::string(KERNELS) + "/" + name_of(isa) + "/" + name;
}

class CodeObject {
 public:
  explicit CodeObject(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr)) return;
    const auto header = at<Elf64_Ehdr>(0);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      if (segment.p_type != PT_LOAD) continue;
      image_.resize(std::max<size_t>(image_.size(), segment.p_vaddr + segment.p_memsz));
      std::memcpy(image_.data() + segment.p_vaddr, bytes_.data() + segment.p_offset,
                  segment.p_filesz);
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type == SHT_DYNSYM) add_symbols(header, section);
    }
  }

  // As its segments lie in memory.
  const std::vector<char>& image() const { return image_; }
  // The kernel descriptor, from the start of the image; 0: there is no such kernel.
  uint64_t kernel(const std::string& name) const { return symbol(name + ".kd"); }
  uint64_t symbol(const std::string& name) const {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? 0 : found->second;
  }

 private:
  template <typename T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }
  void add_symbols(const Elf64_Ehdr& header, const Elf64_Shdr& section) {
    const auto names = at<Elf64_Shdr>(header.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
    for (uint64_t offset = 0; offset < section.sh_size; offset += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(section.sh_offset + offset);
      symbols_[bytes_.data() + names.sh_offset + symbol.st_name] = symbol.st_value;
    }
  }

  std::vector<char> bytes_;
  std::vector<char> image_;
  std::map<std::string, uint64_t> symbols_;
};

}  // namespace gpu::test
