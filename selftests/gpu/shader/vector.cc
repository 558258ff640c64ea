// SPDX-License-Identifier: GPL-2.0
// The common parts of vector operations: operands, modifiers, SDWA, DPP, and the mask.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using Extra = Instruction::Extra;

uint32_t sdwa_select(uint32_t value, unsigned select, bool sign_extended) {
  constexpr unsigned kWord0 = 4, kDword = 6;
  if (select >= kDword) return value;
  const bool word = select >= kWord0;
  const unsigned width = word ? 16 : 8;
  const unsigned shift = word ? (select - kWord0) * 16 : select * 8;
  const uint32_t top = value << (32 - width - shift);
  return sign_extended ? static_cast<uint32_t>(static_cast<int32_t>(top) >> (32 - width))
                       : top >> (32 - width);
}

// The lane that a DPP control word names for a lane; negative: none is valid there.
int dpp_source(unsigned control, int lane) {
  const int row = lane & ~15, in_row = lane & 15;
  const int amount = static_cast<int>(control & 15);
  if (control <= 0xff) return (lane & ~3) | static_cast<int>(control >> (2 * (lane & 3)) & 3);
  if (control >= 0x101 && control <= 0x10f) return in_row + amount > 15 ? -1 : lane + amount;
  if (control >= 0x111 && control <= 0x11f) return in_row < amount ? -1 : lane - amount;
  if (control >= 0x121 && control <= 0x12f) return row | ((in_row - amount) & 15);
  switch (control) {
    case 0x130:  // wave_shl
      return lane == 63 ? -1 : lane + 1;
    case 0x134:  // wave_rol
      return (lane + 1) & 63;
    case 0x138:  // wave_shr
      return lane - 1;
    case 0x13c:  // wave_ror
      return (lane - 1) & 63;
    case 0x140:  // row_mirror
      return row | (15 - in_row);
    case 0x141:  // row_half_mirror
      return (lane & ~7) | (7 - (lane & 7));
    case 0x142:  // row_bcast:15
      return lane < 16 ? -1 : row - 1;
    case 0x143:  // row_bcast:31
      return lane < 32 ? -1 : 31;
    default:
      if (control >= 0x150 && control <= 0x15f) return row | amount;  // row_newbcast
      return -1;
  }
}

bool dpp_is_known(unsigned control) {
  if (control <= 0xff) return true;
  if (control >= 0x101 && control <= 0x12f) return control % 16 != 0;
  constexpr unsigned kOthers[] = {0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143};
  return std::ranges::find(kOthers, control) != std::end(kOthers) ||
         (control >= 0x150 && control <= 0x15f);
}

void dpp_gather(const Instruction& in, uint64_t exec, const Row& from, uint32_t* to) {
  const unsigned control = bits(in.literal, 16, 8);
  for (int lane = 0; lane < static_cast<int>(kLanes); ++lane) {
    const int source = dpp_source(control, lane);
    to[lane] = source >= 0 && exec >> source & 1 ? from.lane[source] : 0;
  }
}

void modify(const Instruction& in, unsigned i, Kind kind, Lanes& lanes) {
  const bool absolute = in.abs >> i & 1, negative = in.neg >> i & 1;
  if (kind == Kind::kF64) {
    for (uint64_t& value : lanes.wide) {
      if (absolute) value &= ~uint64_t{0} >> 1;
      if (negative) value ^= uint64_t{1} << 63;
    }
    return;
  }
  const uint32_t sign = kind == Kind::kF16 ? 0x8000 : 0x80000000;
  for (uint32_t& value : lanes.narrow) {
    if (absolute) value &= ~sign;
    if (negative) value ^= sign;
  }
}

bool flushes_input(const Wave& wave, Kind kind) {
  if (kind == Kind::kF32) return !(wave.mode & mode::kDenormIn32);
  if (kind == Kind::kF64) return !(wave.mode & mode::kDenormIn64);
  return false;
}

void flush_lanes(Kind kind, Lanes& lanes) {
  if (kind == Kind::kF32) {
    for (uint32_t& value : lanes.narrow) value = to_bits(flushed(std::bit_cast<float>(value)));
  } else if (kind == Kind::kF64) {
    for (uint64_t& value : lanes.wide) value = to_bits(flushed(std::bit_cast<double>(value)));
  }
}

template <typename T>
T output_modified(T value, unsigned omod, bool clamp, bool nan_to_zero) {
  constexpr T kFactors[] = {1, 2, 4, T(0.5)};
  value *= kFactors[omod];
  if (!clamp) return value;
  if (value != value) return nan_to_zero ? 0 : value;
  return std::clamp(value, T(0), T(1)) + T(0);
}

void modify_output(const Wave& wave, const Instruction& in, Kind kind, Lanes& out) {
  const bool nan_to_zero = wave.mode & mode::kDx10Clamp;
  if (kind == Kind::kF64) {
    for (uint64_t& value : out.wide) {
      value =
          to_bits(output_modified(std::bit_cast<double>(value), in.omod, in.clamp, nan_to_zero));
    }
    return;
  }
  for (uint32_t& value : out.narrow) {
    const float number = kind == Kind::kF16 ? half_to_float(value) : std::bit_cast<float>(value);
    const float result = output_modified(number, in.omod, in.clamp, nan_to_zero);
    value = kind == Kind::kF16 ? to_half(result) : to_bits(result);
  }
}

// Places a result in a part of the old value, as SDWA and op_sel[3] say.
uint32_t sdwa_placed(uint32_t result, uint32_t old, unsigned select, unsigned unused) {
  constexpr unsigned kWord0 = 4, kDword = 6, kSext = 1, kPreserve = 2;
  if (select >= kDword) return result;
  const bool word = select >= kWord0;
  const uint32_t part = word ? 0xffff : 0xff;
  const unsigned shift = word ? (select - kWord0) * 16 : select * 8;
  const uint32_t placed = (result & part) << shift;
  if (unused == kPreserve) return (old & ~(part << shift)) | placed;
  if (unused != kSext) return placed;
  const unsigned above = 32 - shift - (word ? 16 : 8);
  return static_cast<uint32_t>(static_cast<int32_t>(placed << above) >> above);
}

void place(const Instruction& in, Kind kind, const Row& old, Lanes& out) {
  constexpr unsigned kWord1 = 5, kPreserve = 2;
  const bool high = is_16bit(kind) && in.op_sel & 8;
  if (in.extra != Extra::kSdwa && !high) return;
  const unsigned select = high ? kWord1 : bits(in.literal, 10, 8);
  const unsigned unused = high ? kPreserve : bits(in.literal, 12, 11);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    out.narrow[lane] = sdwa_placed(out.narrow[lane], old.lane[lane], select, unused);
  }
}

void blend(uint64_t mask, const Lanes& values, Row& row) {
  if (mask == ~uint64_t{0}) {
    std::copy_n(values.narrow, kLanes, row.lane);
    return;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    row.lane[lane] = mask >> lane & 1 ? values.narrow[lane] : row.lane[lane];
  }
}

void blend_wide(uint64_t mask, const Lanes& values, Row* rows) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    rows[0].lane[lane] = low32(values.wide[lane]);
    rows[1].lane[lane] = high32(values.wide[lane]);
  }
}

void gather_wide(const Row* rows, Lanes& buffer) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    buffer.wide[lane] = join(rows[0].lane[lane], rows[1].lane[lane]);
  }
}

// 16-bit operands take the 16-bit form of a float constant.
uint32_t narrow_constant(Wave& wave, const Instruction& in, unsigned code, Kind kind) {
  const uint32_t value = wave.scalar(code, in);
  const bool is_inline_float = code >= 240 && code <= 248;
  if (is_16bit(kind) && is_inline_float) return to_half(std::bit_cast<float>(value));
  return value;
}

// Refuses modes that would give other results than the requested ones.
bool can_execute(Wave& wave, const Instruction& in, const VectorOp& op) {
  // MODE is looked at first: it is the usual one for nearly all instructions.
  if (wave.mode & mode::kRoundMask && (is_float(op.dst) || std::ranges::any_of(op.src, is_float))) {
    wave.refuse(amdgpu_criu::formatted("MODE {:#x} asks for another rounding", wave.mode));
    return false;
  }
  const auto is_half = [](Kind kind) { return kind == Kind::kF16; };
  const uint32_t denormals = mode::kDenormIn64 | mode::kDenormOut64;
  if ((wave.mode & denormals) != denormals &&
      (is_half(op.dst) || std::ranges::any_of(op.src, is_half))) {
    wave.refuse("16-bit floats without denormals are not modelled");
    return false;
  }
  if (in.clamp && !is_float(op.dst) && !op.compare && !op.clamped) {
    wave.refuse("clamp of an integer is not modelled");
    return false;
  }
  if (in.extra == Extra::kDpp && (is_wide(op.dst) || std::ranges::any_of(op.src, is_wide))) {
    wave.refuse("DPP of 64-bit operands is not modelled");
    return false;
  }
  return !refuses_dpp(wave, in);
}

}  // namespace

bool refuses_dpp(Wave& wave, const Instruction& in) {
  if (in.extra != Extra::kDpp || dpp_is_known(bits(in.literal, 16, 8))) return false;
  wave.refuse(amdgpu_criu::formatted("DPP control {:#x} is not modelled", bits(in.literal, 16, 8)));
  return true;
}

const void* vector_source(Wave& wave, const Instruction& in, unsigned i, Kind kind, Lanes& buffer) {
  const unsigned code = in.src[i];
  const bool modified = is_float(kind) && ((in.abs | in.neg) >> i & 1);
  const bool flush = flushes_input(wave, kind);
  if (is_wide(kind)) {
    if (code >= operand::kVgpr) {
      gather_wide(&wave.row(code), buffer);
    } else {
      std::ranges::fill(buffer.wide, wave.scalar64(code, in, kind == Kind::kF64));
    }
  } else {
    const bool high = is_16bit(kind) && in.op_sel >> i & 1;
    const bool dpp = in.extra == Extra::kDpp && i == 0;
    const bool sdwa = in.extra == Extra::kSdwa && i < 2;
    if (code >= operand::kVgpr) {
      const Row& row = wave.row(code);
      if (!modified && !flush && !high && !dpp && !sdwa) return row.lane;
      if (dpp) {
        dpp_gather(in, wave.exec(), row, buffer.narrow);
      } else {
        std::copy_n(row.lane, kLanes, buffer.narrow);
      }
    } else {
      std::ranges::fill(buffer.narrow, narrow_constant(wave, in, code, kind));
    }
    if (sdwa) {
      const unsigned select = bits(in.literal, 18 + 8 * i, 16 + 8 * i);
      const bool extend = bits(in.literal, 19 + 8 * i, 19 + 8 * i);
      for (uint32_t& value : buffer.narrow) value = sdwa_select(value, select, extend);
    }
    if (high) {
      for (uint32_t& value : buffer.narrow) value >>= 16;
    }
  }
  if (modified) modify(in, i, kind, buffer);
  if (flush) flush_lanes(kind, buffer);
  return buffer.narrow;
}

void write_lanes(Wave& wave, unsigned code, const uint32_t* values) {
  Lanes lanes;
  std::copy_n(values, kLanes, lanes.narrow);
  blend(wave.exec(), lanes, wave.row(code));
}

void write_wide_lanes(Wave& wave, unsigned code, const uint64_t* values) {
  Lanes lanes;
  std::copy_n(values, kLanes, lanes.wide);
  blend_wide(wave.exec(), lanes, &wave.row(code));
}

// Rows and banks of its masks. A lane whose source does not exist or is not active is written only
// when bound_ctrl makes it 0.
uint64_t dpp_mask(const Instruction& in, uint64_t exec) {
  const uint32_t word = in.literal;
  const unsigned control = bits(word, 16, 8);
  const bool bound_zero = bits(word, 19, 19);
  uint64_t mask = 0;
  for (int lane = 0; lane < static_cast<int>(kLanes); ++lane) {
    const bool row = bits(word, 31, 28) >> (lane / 16) & 1;
    const bool bank = bits(word, 27, 24) >> (lane / 4 % 4) & 1;
    const int source = dpp_source(control, lane);
    const bool valid = bound_zero || (source >= 0 && exec >> source & 1);
    if (row && bank && valid) mask |= uint64_t{1} << lane;
  }
  return mask & exec;
}

void write_result(Wave& wave, const Instruction& in, Lanes& values) {
  Row& row = wave.row(in.dst);
  place(in, Kind::kB32, row, values);
  blend(in.extra == Extra::kDpp ? dpp_mask(in, wave.exec()) : wave.exec(), values, row);
}

void execute_vector(Wave& wave, const Instruction& in) {
  const VectorOp& op = *in.op;
  if (!can_execute(wave, in, op)) return;
  Lanes buffers[3];
  const void* sources[3] = {};
  for (unsigned i = 0; i < 3 && op.src[i] != Kind::kNone; ++i) {
    const bool old = op.reads_dst && (i == 2 || op.src[i + 1] == Kind::kNone);
    if (old && is_wide(op.src[i])) {
      gather_wide(&wave.row(in.dst), buffers[i]);
      sources[i] = buffers[i].wide;
    } else if (old) {
      sources[i] = wave.row(in.dst).lane;
    } else {
      sources[i] = vector_source(wave, in, i, op.src[i], buffers[i]);
    }
  }
  const uint64_t exec = wave.exec();
  Row& row = wave.row(in.dst);
  const bool flush = op.dst == Kind::kF32   ? !(wave.mode & mode::kDenormOut32)
                     : op.dst == Kind::kF64 ? !(wave.mode & mode::kDenormOut64)
                                            : false;
  const bool plain = in.extra == Extra::kNone || in.extra == Extra::kLiteral;
  const bool modified = in.omod || in.clamp;
  if (exec == ~uint64_t{0} && plain && !modified && !flush && !is_wide(op.dst) &&
      !(in.op_sel & 8)) {
    op.run(row.lane, sources[0], sources[1], sources[2]);
    return;
  }
  Lanes out;
  const VectorOp::Run run = in.clamp && op.clamped ? op.clamped : op.run;
  run(out.narrow, sources[0], sources[1], sources[2]);
  if (flush) flush_lanes(op.dst, out);
  if (modified && is_float(op.dst)) modify_output(wave, in, op.dst, out);
  if (is_wide(op.dst)) {
    blend_wide(exec, out, &row);
    return;
  }
  place(in, op.dst, row, out);
  blend(in.extra == Extra::kDpp ? dpp_mask(in, exec) : exec, out, row);
}

// M0 counts for the operands that s_set_gpr_idx_on names: three sources and the destination.
void execute_indexed(Wave& wave, const Instruction& in) {
  const bool reads_lane = in.name() == "v_readlane_b32";
  const bool moves = reads_lane || in.name().starts_with("v_accvgpr_");
  if (!moves && (!in.op || in.op->compare || in.op->reads_dst)) {
    return wave.refuse(in.name() + " with indexed VGPRs is not modelled");
  }
  const uint32_t m0 = wave.s(operand::kM0);
  const uint32_t index = bits(m0, 7, 0), which = bits(m0, 15, 12);
  Instruction moved = in;
  for (unsigned i = 0; i < in.src.size(); ++i) {
    if (which >> i & 1 && in.src[i] >= operand::kVgpr) {
      moved.src[i] = static_cast<uint16_t>(in.src[i] + index);
    }
  }
  if (which & 8 && !reads_lane) moved.dst = static_cast<uint16_t>(in.dst + index);
  moved.handler(wave, moved);
}

// Lanes that are not active give 0.
void execute_compare(Wave& wave, const Instruction& in) {
  const VectorOp& op = *in.op;
  if (!can_execute(wave, in, op)) return;
  if (in.extra == Extra::kDpp) return wave.refuse("DPP of a comparison is not modelled");
  Lanes buffers[2];
  const void* a = vector_source(wave, in, 0, op.src[0], buffers[0]);
  const void* b = vector_source(wave, in, 1, op.src[1], buffers[1]);
  const uint64_t mask = op.compare(a, b) & wave.exec();
  wave.set_s64(in.sdst, mask);
  if (op.writes_exec) wave.set_s64(operand::kExec, mask);
}

}  // namespace gpu::shader
