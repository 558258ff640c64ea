// SPDX-License-Identifier: GPL-2.0
// The properties of a GPU that must be the same as before, and those of them that a user may
// ignore.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "topology/topology.h"

namespace amdgpu_criu::topology {

// Names of properties that are not compared.
using Ignored = std::set<std::string>;

// Parses "PROPERTY,PROPERTY". Accepts only properties that a user may ignore; the error lists them.
Result<Ignored> parse_ignored(std::string_view text);

// The properties that the environment variables of CRIU's own plugin, such as "KFD_FW_VER_CHECK=0",
// turn off. get: normally getenv.
Ignored ignored_by_environment(const char* (*get)(const char* name));

// Empty if `target` can continue the work of `source`; otherwise the property, both values, and the
// option that would allow it, if any.
std::string mismatch(const Gpu& source, const Gpu& target, const Ignored& ignored = {});

// Saved waves return to their shader engine, and CU masks are relative to the CUs of a shader
// array. So the kernel may refuse a GPU of which this is false. True if it is not known.
bool has_same_cus(const Gpu& source, const Gpu& target);

// The names of all properties that mismatch() compares if none is ignored.
std::vector<std::string> compared_properties();

// Properties that keep GPUs together: GPUs that had equal values must have equal values again.
std::span<const char* const> grouping_properties();

// The GPU's value of such a property; nullopt: it belongs to no group.
std::optional<uint64_t> group_of(const Gpu& gpu, const std::string& property);

// "; amdgpu.ignore=NAME allows it"
std::string remedy(std::string_view property);

// The name under which links between GPUs are ignored.
inline constexpr char kLinks[] = "links";

}  // namespace amdgpu_criu::topology
