// SPDX-License-Identifier: GPL-2.0
// Reads the images the way the kernel does (rom.c, atom.c, amdgpu_atomfirmware.c, amdgpu_ucode.c).
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "firmware/ucode.h"
#include "firmware/vbios.h"

namespace gpu {
namespace {

class Reader {
 public:
  explicit Reader(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  template <typename T>
  T get(size_t offset) const {
    T value{};
    if (offset + sizeof(T) > bytes_.size()) {
      ADD_FAILURE() << "read at " << offset << " of " << bytes_.size();
      return value;
    }
    memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string text(size_t offset) const {
    std::string out;
    while (const char c = get<char>(offset++)) out += c;
    return out;
  }
  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class VbiosTest : public testing::Test {
 protected:
  // Offset of a data table, its revision checked as amdgpu_atom_parse_data_header() does.
  size_t data_table(size_t slot, uint8_t format, uint8_t content) {
    const size_t at = rom_.get<uint16_t>(master_data_ + 4 + 2 * slot);
    EXPECT_NE(at, 0u) << slot;
    EXPECT_EQ(rom_.get<uint8_t>(at + 2), format);
    EXPECT_EQ(rom_.get<uint8_t>(at + 3), content);
    EXPECT_LE(at + rom_.get<uint16_t>(at), rom_.size());
    ranges_[at] = at + rom_.get<uint16_t>(at);
    return at;
  }
  const Reader rom_{make_vbios({.vendor = 0x1002, .asic = mi210()})};
  const size_t header_ = rom_.get<uint16_t>(0x48);
  const size_t master_data_ = rom_.get<uint16_t>(header_ + 0x20);
  std::map<size_t, size_t> ranges_;
};

TEST_F(VbiosTest, IsAnExpansionRomThatX86DoesNotRun) {
  EXPECT_EQ(rom_.get<uint16_t>(0), 0xaa55);
  EXPECT_EQ(rom_.get<uint8_t>(2) * 512u, rom_.size());
  const size_t pcir = rom_.get<uint16_t>(0x18);
  EXPECT_EQ(rom_.text(pcir).substr(0, 4), "PCIR");
  EXPECT_EQ(rom_.get<uint16_t>(pcir + 4), 0x1002);
  EXPECT_EQ(rom_.get<uint16_t>(pcir + 6), 0x740f);
  EXPECT_GE(rom_.get<uint16_t>(pcir + 0xa), 0x18) << "shorter ones are refused";
  EXPECT_EQ(rom_.get<uint16_t>(pcir + 0x10) * 512u, rom_.size());
  EXPECT_EQ(rom_.get<uint8_t>(pcir + 0x14), 3) << "code type";
  EXPECT_TRUE(rom_.get<uint8_t>(pcir + 0x15) & 0x80) << "the last image";
  uint8_t sum = 0;
  for (const std::byte byte : rom_.bytes()) sum += std::to_integer<uint8_t>(byte);
  EXPECT_EQ(sum, 0);
}

TEST_F(VbiosTest, IsAnAtomBios) {
  EXPECT_EQ(rom_.text(0x30).substr(0, 10), " 761295520");
  EXPECT_EQ(rom_.text(header_ + 4).substr(0, 4), "ATOM");
}

TEST_F(VbiosTest, StringsAreWhereTheDriverReadsThem) {
  EXPECT_EQ(rom_.get<uint8_t>(0x2f), 1);
  const size_t strings = rom_.get<uint16_t>(0x6e);
  const std::string part = rom_.text(strings);
  EXPECT_EQ(part, "113-SOFTGPU-001");
  EXPECT_EQ(rom_.text(strings + part.size() + 1 + 2), "softgpu gfx90a");
  EXPECT_LT(strings, header_) << "the version is searched between the two";
  const std::string all(reinterpret_cast<const char*>(rom_.bytes().data()), header_);
  EXPECT_NE(all.find("ATOMBIOSBK-AMD VER", strings), std::string::npos);
  EXPECT_LT(rom_.get<uint16_t>(header_ + 0xc), header_) << "configuration text";
}

TEST_F(VbiosTest, FirmwareInfoAllowsAReset) {
  const size_t at = data_table(4, 3, 1);
  EXPECT_NE(rom_.get<uint32_t>(at + 8), 0u) << "boot clocks";
  EXPECT_NE(rom_.get<uint32_t>(at + 0xc), 0u);
  EXPECT_EQ(rom_.get<uint32_t>(at + 0x18), 0x4cu) << "BIOS scratch registers";
  const size_t commands = rom_.get<uint16_t>(header_ + 0x1e);
  const size_t asic_init = rom_.get<uint16_t>(commands + 4);
  ASSERT_NE(asic_init, 0u);
  EXPECT_EQ(rom_.get<uint8_t>(asic_init + 6), 0x5b) << "ends at once";
}

TEST_F(VbiosTest, TablesDescribeTheGpu) {
  const size_t gfx = data_table(14, 2, 4);
  EXPECT_EQ(rom_.get<uint8_t>(gfx + 6) * rom_.get<uint8_t>(gfx + 9) * rom_.get<uint8_t>(gfx + 8), 8)
      << "compute units";
  EXPECT_EQ(rom_.get<uint16_t>(gfx + 0x36), 64) << "wave size";
  EXPECT_EQ(rom_.get<uint32_t>(data_table(8, 3, 1) + 0x10), kReferenceClock10kHz);
  const size_t vram = data_table(28, 2, 3);
  EXPECT_EQ(rom_.get<uint8_t>(vram + 0x14), 1) << "modules";
  const size_t module = vram + 0x18;
  EXPECT_EQ(module + rom_.get<uint16_t>(module + 0x14), vram + rom_.get<uint16_t>(vram));
  EXPECT_EQ(rom_.get<uint8_t>(module + 0x17), 0x60) << "HBM2";
}

TEST_F(VbiosTest, TablesDoNotOverlap) {
  data_table(4, 3, 1);
  data_table(8, 3, 1);
  data_table(14, 2, 4);
  data_table(28, 2, 3);
  for (const size_t at : {header_, master_data_, size_t{rom_.get<uint16_t>(header_ + 0x1e)}})
    ranges_[at] = at + rom_.get<uint16_t>(at);
  const size_t asic_init = rom_.get<uint16_t>(rom_.get<uint16_t>(header_ + 0x1e) + 4);
  ranges_[asic_init] = asic_init + rom_.get<uint16_t>(asic_init);
  ASSERT_EQ(ranges_.size(), 8u);
  size_t last = 0;
  for (const auto& [from, to] : ranges_) {
    EXPECT_GE(from, last);
    last = to;
  }
}

TEST(Firmware, HeadersDescribeTheFile) {
  const auto files = make_firmware(mi210());
  ASSERT_EQ(files.size(), 3u);
  for (const FirmwareFile& file : files) {
    const Reader image(file.bytes);
    EXPECT_EQ(image.get<uint32_t>(0), image.size()) << file.name;
    EXPECT_LE(image.get<uint32_t>(4), image.get<uint32_t>(24)) << "header, then payload";
    EXPECT_EQ(image.get<uint32_t>(24) + image.get<uint32_t>(20), image.size());
    EXPECT_EQ(image.get<uint32_t>(20) % 4, 0u);
    const bool is_rlc = file.name == "aldebaran_rlc.bin";
    EXPECT_EQ(image.get<uint16_t>(8), is_rlc ? 2 : 1) << "header version";
  }
}

TEST(Firmware, FilesOfRiscCoresHaveCodeAndDataInThePayload) {
  for (const FirmwareFile& file : make_firmware(navi31())) {
    const Reader image(file.bytes);
    EXPECT_EQ(image.get<uint32_t>(0), image.size()) << file.name;
    EXPECT_EQ(image.get<uint32_t>(24) + image.get<uint32_t>(20), image.size()) << file.name;
    const bool is_mes = file.name.find("_mes") != std::string::npos;
    const bool is_gfx = file.name == "gc_11_0_0_mec.bin";
    if (!is_mes && !is_gfx) continue;
    const size_t data = is_mes ? 52 : 48;
    EXPECT_EQ(image.get<uint32_t>(data) + image.get<uint32_t>(data - 4), image.size()) << file.name;
    if (is_mes) {
      EXPECT_EQ(image.get<uint32_t>(0x100 + 96), 0x93u) << "the driver's ucode_ptr[24]";
    }
  }
}

TEST(Vbios, PowerManagementHasItsTableOnChipsThatNeedOne) {
  const Reader rom(make_vbios({.vendor = 0x1002, .asic = navi31()}));
  const size_t master = rom.get<uint16_t>(rom.get<uint16_t>(0x48) + 0x20u);
  const size_t at = rom.get<uint16_t>(master + 4 + 2 * 2);
  ASSERT_NE(at, 0u);
  EXPECT_EQ(rom.get<uint16_t>(at), 0x900);
  EXPECT_LT(at + 0x900, rom.size());
  for (size_t slot = 3; slot < 35; ++slot)
    EXPECT_LT(rom.get<uint16_t>(master + 4 + 2 * slot), at) << "it is the last";
}

TEST(Firmware, RlcListsAreEmpty) {
  const Reader image(make_firmware(mi210())[1].bytes);
  for (size_t at = 36; at < image.get<uint32_t>(4); at += 4) EXPECT_EQ(image.get<uint32_t>(at), 0u);
}

TEST(Firmware, MecJumpTableLiesInThePayload) {
  const Reader image(make_firmware(mi210())[0].bytes);
  EXPECT_LE(4 * (image.get<uint32_t>(36) + image.get<uint32_t>(40)), image.get<uint32_t>(20));
}

TEST(Firmware, FilesAreWrittenWhole) {
  std::string name = testing::TempDir() + "firmwareXXXXXX";
  const std::string dir = mkdtemp(name.data());
  ASSERT_TRUE(write_firmware(dir).ok());
  for (const FirmwareFile& file : make_firmware(mi210()))
    EXPECT_EQ(std::filesystem::file_size(dir + "/" + file.name), file.bytes.size());
  std::filesystem::remove_all(dir);
  EXPECT_EQ(write_firmware(dir).error().code(), ENOENT);
}

}  // namespace
}  // namespace gpu
