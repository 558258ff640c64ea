// SPDX-License-Identifier: GPL-2.0
// Which properties of a GPU must be as they were, and which of them a user may ignore.
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

// Parses "PROPERTY,PROPERTY"; only what a user may ignore is accepted, "help" lists it.
Result<Ignored> parse_ignored(std::string_view text);

// The environment that CRIU's own plugin reads, "KFD_FW_VER_CHECK=0" and its like: those that say
// no. get: normally getenv.
Ignored ignored_by_environment(const char* (*get)(const char* name));

// Empty if work of `source` can go on on `target`; else the property, both values, and the option
// that would allow it if there is one.
std::string mismatch(const Gpu& source, const Gpu& target, const Ignored& ignored = {});

// Properties that keep GPUs together: those that had the same value have the same one again,
// whichever it is.
std::span<const char* const> grouping_properties();

// The GPU's value of such a property; nullopt: it belongs to no group.
std::optional<uint64_t> group_of(const Gpu& gpu, const std::string& property);

// "; amdgpu.ignore=NAME allows it"
std::string remedy(std::string_view property);

// The name under which links between GPUs are ignored.
inline constexpr char kLinks[] = "links";

}  // namespace amdgpu_criu::topology
