// SPDX-License-Identifier: GPL-2.0
// Result<T>: a value or an Error, and TRY() to hand an Error to the caller.
#pragma once

#include <cerrno>
#include <cstring>
#include <exception>
#include <format>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace amdgpu_criu {

// Calls std::format in one file only, because compiling it takes more than two seconds.
std::string formatted_from(std::string_view text, std::format_args args);

// The name differs from std::format, which arguments of namespace std would find as well.
template <typename... Args>
std::string formatted(std::format_string<Args...> text, Args&&... args) {
  return formatted_from(text.get(), std::make_format_args(args...));
}

// An errno (never 0) and one sentence that names the failure and, where known, the remedy.
class [[nodiscard]] Error {
 public:
  Error(int code, std::string message) : code_(code ? code : EIO), message_(std::move(message)) {}

  template <typename... Args>
  static Error of(int code, std::format_string<Args...> text, Args&&... args) {
    return Error(code, formatted(text, std::forward<Args>(args)...));
  }

  // "TEXT: strerror(errno)". Reads errno first, so it may be called right after a failed call.
  template <typename... Args>
  static Error system(std::format_string<Args...> text, Args&&... args) {
    const int code = errno;
    return Error(code, formatted(text, std::forward<Args>(args)...) + ": " + strerror(code));
  }

  int code() const { return code_; }
  const std::string& message() const { return message_; }

  // Prepends the caller's activity: "restoring kfd-3.img: checksum mismatch".
  Error within(const std::string& what) && { return Error(code_, what + ": " + message_); }

 private:
  int code_;
  std::string message_;
};

struct Unit {};

template <typename T = Unit>
class [[nodiscard]] Result {
 public:
  using Value = T;

  Result()
    requires std::is_same_v<T, Unit>
      : state_(std::in_place_index<0>) {}
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value; only when ok().
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

  // The error; only when !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<Unit>;

// Returns the Result of `body`; an exception in it becomes an Error. For threads, where an
// exception would end the process.
template <typename Body>
auto without_exceptions(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return Error(ENOMEM, exception.what());
  }
}

}  // namespace amdgpu_criu

// Evaluates to the value of a Result; on error returns it from the enclosing function.
// A GNU statement expression, as gcc and clang both have.
#define TRY(expression)                                           \
  ({                                                              \
    auto try_result_ = (expression);                              \
    if (!try_result_.ok()) return std::move(try_result_).error(); \
    std::move(*try_result_);                                      \
  })
