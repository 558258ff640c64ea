// SPDX-License-Identifier: GPL-2.0
// The common parts of vector operations: operands, modifiers, SDWA, the mask, and VOPD.
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

void modify(const Instruction& in, unsigned i, Kind kind, Lanes& values, unsigned lanes) {
  const bool absolute = in.abs >> i & 1, negative = in.neg >> i & 1;
  if (kind == Kind::kF64) {
    each_lane(lanes, [&](size_t lane) {
      uint64_t& value = values.wide[lane];
      if (absolute) value &= ~uint64_t{0} >> 1;
      if (negative) value ^= uint64_t{1} << 63;
    });
    return;
  }
  const uint32_t sign = kind == Kind::kF16 ? 0x8000 : 0x80000000;
  const uint32_t keep = absolute ? ~sign : ~0u, flip = negative ? sign : 0;
  each_lane(lanes, [&](size_t lane) { values.narrow[lane] = (values.narrow[lane] & keep) ^ flip; });
}

bool flushes_input(const Wave& wave, Kind kind) {
  if (kind == Kind::kF32) return !(wave.mode & mode::kDenormIn32);
  return is_float(kind) && !(wave.mode & mode::kDenormIn64);
}

void flush_lanes(Kind kind, Lanes& values, unsigned lanes) {
  if (kind == Kind::kF32) {
    each_lane(lanes, [&](size_t lane) {
      uint32_t& value = values.narrow[lane];
      value = to_bits(flushed(std::bit_cast<float>(value)));
    });
  } else if (kind == Kind::kF16) {
    each_lane(lanes, [&](size_t lane) { values.narrow[lane] = flushed_half(values.narrow[lane]); });
  } else if (kind == Kind::kF64) {
    each_lane(lanes, [&](size_t lane) {
      uint64_t& value = values.wide[lane];
      value = to_bits(flushed(std::bit_cast<double>(value)));
    });
  }
}

template <typename T>
T output_modified(T value, unsigned omod, bool clamp, bool nan_to_zero) {
  constexpr T kFactors[] = {1, 2, 4, T(0.5)};
  value *= kFactors[omod];
  return clamp ? clamped(value, nan_to_zero) : value;
}

void modify_output(const Wave& wave, const Instruction& in, Kind kind, Lanes& out) {
  const bool nan_to_zero = wave.mode & mode::kDx10Clamp;
  if (kind == Kind::kF64) {
    each_lane(wave.lanes(), [&](size_t lane) {
      uint64_t& value = out.wide[lane];
      value =
          to_bits(output_modified(std::bit_cast<double>(value), in.omod, in.clamp, nan_to_zero));
    });
    return;
  }
  each_lane(wave.lanes(), [&](size_t lane) {
    uint32_t& value = out.narrow[lane];
    const float number = kind == Kind::kF16 ? half_to_float(value) : std::bit_cast<float>(value);
    const float result = output_modified(number, in.omod, in.clamp, nan_to_zero);
    value = kind == Kind::kF16 ? to_half(result) : to_bits(result);
  });
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

void place(const Wave& wave, const Instruction& in, Kind kind, const Row& old, Lanes& out) {
  constexpr unsigned kWord0 = 4, kPreserve = 2;
  const bool high = is_16bit(kind) && in.op_sel & 8;
  // On gfx11 a result of 16 bits leaves the other half alone.
  const bool half = high || (is_16bit(kind) && is_gfx11(in.isa));
  if (in.extra != Extra::kSdwa && !half) return;
  const unsigned select = half ? kWord0 + high : bits(in.literal, 10, 8);
  const unsigned unused = half ? kPreserve : bits(in.literal, 12, 11);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    out.narrow[lane] = sdwa_placed(out.narrow[lane], old.lane[lane], select, unused);
  }
}

void blend(const Wave& wave, uint64_t mask, const uint32_t* values, Row& row) {
  if (mask == wave.lane_mask()) {
    each_lane(wave.lanes(), [&](size_t lane) { row.lane[lane] = values[lane]; });
    return;
  }
  each_lane(wave.lanes(), [&](size_t lane) {
    row.lane[lane] = mask >> lane & 1 ? values[lane] : row.lane[lane];
  });
}

void blend_wide(const Wave& wave, uint64_t mask, const uint64_t* values, Row* rows) {
  for (const unsigned half : {0, 1}) {
    uint32_t* to = rows[half].lane;
    each_lane(wave.lanes(), [&](size_t lane) {
      const auto value = static_cast<uint32_t>(values[lane] >> 32 * half);
      to[lane] = mask >> lane & 1 ? value : to[lane];
    });
  }
}

void gather_wide(const Wave& wave, const Row* rows, Lanes& buffer) {
  each_lane(wave.lanes(),
            [&](size_t lane) { buffer.wide[lane] = join(rows[0].lane[lane], rows[1].lane[lane]); });
}

// 16-bit operands take the 16-bit form of a float constant.
uint32_t narrow_constant(Wave& wave, const Instruction& in, unsigned code, Kind kind) {
  const uint32_t value = wave.scalar(code, in);
  const bool is_inline_float = code >= 240 && code <= 248;
  if (is_16bit(kind) && is_inline_float) return to_half(std::bit_cast<float>(value));
  return value;
}

// The field of MODE that counts for the rounding of a result. Seeds and transcendental functions
// are rounded to nearest whatever it says.
unsigned rounding_of(const Wave& wave, const Instruction& in) {
  if (!(wave.mode & mode::kRoundMask) || !is_float(in.op->dst)) return 0;
  constexpr std::string_view kOthers[] = {"v_rndne_", "v_exp_", "v_log_", "v_rcp_",
                                          "v_rsq_",   "v_sin_", "v_cos_", "v_sqrt_"};
  for (const std::string_view prefix : kOthers)
    if (in.name().starts_with(prefix)) return 0;
  return in.op->dst == Kind::kF32 ? bits(wave.mode, 1, 0) : bits(wave.mode, 3, 2);
}

// Refuses what would give other results than the requested ones.
bool can_execute(Wave& wave, const Instruction& in, const VectorOp& op) {
  if (in.clamp && !is_float(op.dst) && !op.compare && !op.clamped) {
    wave.refuse("clamp of an integer is not modelled");
    return false;
  }
  // Those that move 64 bits at a time know one way only.
  const bool wide = is_wide(op.dst) || std::ranges::any_of(op.src, is_wide);
  constexpr uint32_t kRowNewbcast = 0x15;
  if (in.extra == Extra::kDpp && wide && (in.dpp8 || bits(in.literal, 16, 12) != kRowNewbcast)) {
    wave.refuse("such DPP of 64-bit operands is not modelled");
    return false;
  }
  return !refuses_dpp(wave, in);
}

// The sources, in place or in the buffers.
void fetch(Wave& wave, const Instruction& in, const VectorOp& op, const void** sources,
           Lanes* buffers) {
  for (unsigned i = 0; i < 3 && op.src[i] != Kind::kNone; ++i) {
    const bool old = op.reads_dst && (i == 2 || op.src[i + 1] == Kind::kNone);
    if (!old) {
      sources[i] = vector_source(wave, in, i, op.src[i], buffers[i]);
      continue;
    }
    const Row& row = wave.row(in.dst);
    sources[i] = row.lane;
    if (is_wide(op.src[i])) {
      gather_wide(wave, &row, buffers[i]);
      sources[i] = buffers[i].wide;
    } else if (is_16bit(op.dst) && in.op_sel & 8) {
      each_lane(wave.lanes(), [&](size_t lane) { buffers[i].narrow[lane] = row.lane[lane] >> 16; });
      sources[i] = buffers[i].narrow;
    }
  }
}

bool flushes_output(const Wave& wave, Kind kind) {
  if (kind == Kind::kF32) return !(wave.mode & mode::kDenormOut32);
  return is_float(kind) && !(wave.mode & mode::kDenormOut64);
}

// MODE.FP16_OVFL: instead of an infinity the largest half, unless a source is infinite.
void saturate_halves(const Wave& wave, const VectorOp& op, const void* const* sources, Lanes& out) {
  const auto is_infinite = [&](unsigned i, unsigned lane) {
    const uint32_t value = static_cast<const uint32_t*>(sources[i])[lane];
    return (op.src[i] == Kind::kF16 && (value & 0x7fff) == 0x7c00) ||
           (op.src[i] == Kind::kF32 && value << 1 == 0xff000000);
  };
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    uint32_t& value = out.narrow[lane];
    bool infinite = (value & 0x7fff) != 0x7c00;
    for (unsigned i = 0; i < 3 && op.src[i] != Kind::kNone; ++i) infinite |= is_infinite(i, lane);
    if (!infinite) --value;
  }
}

VectorOp::Run run_of(const Wave& wave, const Instruction& in) {
  if (in.clamp && in.op->clamped) return in.op->clamped;
  return in.op->without_ieee && !(wave.mode & mode::kIeee) ? in.op->without_ieee : in.op->run;
}

// One half of a VOPD. Without an operation it is the one that selects by VCC.
void run_half(Wave& wave, const Instruction& in, uint32_t* to) {
  Lanes buffers[3];
  if (!in.op) {
    const uint64_t mask = wave.vcc();
    const auto* a =
        static_cast<const uint32_t*>(vector_source(wave, in, 0, Kind::kB32, buffers[0]));
    const uint32_t* b = wave.row(in.src[1]).lane;
    each_lane(wave.lanes(), [&](size_t lane) { to[lane] = mask >> lane & 1 ? b[lane] : a[lane]; });
    return;
  }
  const void* sources[3] = {};
  fetch(wave, in, *in.op, sources, buffers);
  const HostRounding rounding(rounding_of(wave, in));
  run_of(wave, in)(to, sources[0], sources[1], sources[2], wave.lanes());
}

}  // namespace

const void* vector_source(Wave& wave, const Instruction& in, unsigned i, Kind kind, Lanes& buffer,
                          bool keeps_denormals) {
  const unsigned code = in.src[i];
  const bool modified = is_float(kind) && ((in.abs | in.neg) >> i & 1);
  const bool flush = !keeps_denormals && flushes_input(wave, kind);
  if (is_wide(kind)) {
    if (code >= operand::kVgpr && in.extra == Extra::kDpp && i == 0) {
      Row halves[2];
      for (const unsigned half : {0, 1})
        dpp_gather(wave, in, wave.row(code + half), halves[half].lane);
      gather_wide(wave, halves, buffer);
    } else if (code >= operand::kVgpr) {
      gather_wide(wave, &wave.row(code), buffer);
    } else {
      const uint64_t constant = wave.scalar64(code, in, kind == Kind::kF64);
      each_lane(wave.lanes(), [&](size_t lane) { buffer.wide[lane] = constant; });
    }
  } else {
    const bool high = is_16bit(kind) && in.op_sel >> i & 1;
    const bool dpp = in.extra == Extra::kDpp && i == 0;
    const bool sdwa = in.extra == Extra::kSdwa && i < 2;
    if (code >= operand::kVgpr) {
      const Row& row = wave.row(code);
      if (!modified && !flush && !high && !dpp && !sdwa) return row.lane;
      if (dpp) {
        dpp_gather(wave, in, row, buffer.narrow);
      } else {
        each_lane(wave.lanes(), [&](size_t lane) { buffer.narrow[lane] = row.lane[lane]; });
      }
    } else {
      const uint32_t constant = narrow_constant(wave, in, code, kind);
      each_lane(wave.lanes(), [&](size_t lane) { buffer.narrow[lane] = constant; });
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
  if (modified) modify(in, i, kind, buffer, wave.lanes());
  if (flush) flush_lanes(kind, buffer, wave.lanes());
  return buffer.narrow;
}

void write_lanes(Wave& wave, unsigned code, const uint32_t* values) {
  blend(wave, wave.exec(), values, wave.row(code));
}

void write_wide_lanes(Wave& wave, unsigned code, const uint64_t* values) {
  blend_wide(wave, wave.exec(), values, &wave.row(code));
}

void write_result(Wave& wave, const Instruction& in, Lanes& values) {
  Row& row = wave.row(in.dst);
  place(wave, in, Kind::kB32, row, values);
  blend(wave, in.extra == Extra::kDpp ? dpp_mask(wave, in) : wave.exec(), values.narrow, row);
}

void execute_vector(Wave& wave, const Instruction& in) {
  const VectorOp& op = *in.op;
  if (!can_execute(wave, in, op)) return;
  Lanes buffers[3];
  const void* sources[3] = {};
  fetch(wave, in, op, sources, buffers);
  const HostRounding rounding(rounding_of(wave, in));
  const uint64_t exec = wave.exec();
  Row& row = wave.row(in.dst);
  const bool flush = flushes_output(wave, op.dst);
  const VectorOp::Run run = run_of(wave, in);
  const bool saturates = op.dst == Kind::kF16 && wave.mode & mode::kFp16Ovfl;
  const bool plain = in.extra == Extra::kNone || in.extra == Extra::kLiteral;
  const bool modified = in.omod || in.clamp;
  const bool half = in.op_sel & 8 || (is_16bit(op.dst) && is_gfx11(in.isa));
  if (exec == wave.lane_mask() && plain && !modified && !flush && !saturates && !is_wide(op.dst) &&
      !half) {
    run(row.lane, sources[0], sources[1], sources[2], wave.lanes());
    return;
  }
  Lanes out;
  run(out.narrow, sources[0], sources[1], sources[2], wave.lanes());
  if (flush) flush_lanes(op.dst, out, wave.lanes());
  if (saturates) saturate_halves(wave, op, sources, out);
  if (modified && is_float(op.dst)) modify_output(wave, in, op.dst, out);
  if (saturates && in.omod) saturate_halves(wave, op, sources, out);
  const uint64_t mask = in.extra == Extra::kDpp ? dpp_mask(wave, in) : exec;
  if (is_wide(op.dst)) return blend_wide(wave, mask, out.wide, &row);
  place(wave, in, op.dst, row, out);
  blend(wave, mask, out.narrow, row);
}

bool is_plain(const Instruction& in) {
  const auto has_32_bits = [](Kind kind) { return !is_wide(kind) && !is_16bit(kind); };
  const bool modified = in.abs | in.neg | in.op_sel | in.omod || in.clamp;
  return (in.extra == Extra::kNone || in.extra == Extra::kLiteral) && !modified &&
         has_32_bits(in.op->dst) && std::ranges::all_of(in.op->src, has_32_bits);
}

void execute_plain(Wave& wave, const Instruction& in) {
  constexpr uint32_t kDenormals = mode::kDenormIn32 | mode::kDenormOut32;
  if (wave.exec() != wave.lane_mask() ||
      (wave.mode & (mode::kRoundMask | kDenormals)) != kDenormals)
    return execute_vector(wave, in);
  const VectorOp& op = *in.op;
  Row& row = wave.row(in.dst);
  Row constants[3];
  const uint32_t* sources[3] = {};
  for (unsigned i = 0; i < 3 && op.src[i] != Kind::kNone; ++i) {
    const bool old = op.reads_dst && (i == 2 || op.src[i + 1] == Kind::kNone);
    const unsigned code = old ? in.dst : in.src[i];
    sources[i] = code >= operand::kVgpr ? wave.row(code).lane : constants[i].lane;
    if (code >= operand::kVgpr) continue;
    const uint32_t value = wave.scalar(code, in);
    each_lane(wave.lanes(), [&](size_t lane) { constants[i].lane[lane] = value; });
  }
  run_of(wave, in)(row.lane, sources[0], sources[1], sources[2], wave.lanes());
}

// Both halves read their sources before either writes.
void execute_dual(Wave& wave, const Instruction& in) {
  const Instruction* const halves[] = {&in, in.second};
  Lanes out[2];
  for (const Instruction* half : halves) {
    if (half->op && !can_execute(wave, *half, *half->op)) return;
  }
  for (unsigned i = 0; i < 2; ++i) {
    const Instruction& half = *halves[i];
    run_half(wave, half, out[i].narrow);
    if (half.op && flushes_output(wave, half.op->dst))
      flush_lanes(half.op->dst, out[i], wave.lanes());
  }
  for (unsigned i = 0; i < 2; ++i)
    blend(wave, wave.exec(), out[i].narrow, wave.row(halves[i]->dst));
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
  if (in.extra == Extra::kDpp && dpp_mask(wave, in) != wave.exec())
    return wave.refuse("a comparison of lanes that DPP leaves out is not modelled");
  Lanes buffers[2];
  const void* a = vector_source(wave, in, 0, op.src[0], buffers[0], op.keeps_denormals);
  const void* b = vector_source(wave, in, 1, op.src[1], buffers[1], op.keeps_denormals);
  const uint64_t mask = op.compare(a, b, wave.lanes()) & wave.exec();
  wave.set_mask(in.sdst, mask);
  if (op.writes_exec) wave.set_mask(operand::kExec, mask);
}

}  // namespace gpu::shader
