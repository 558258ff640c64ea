// SPDX-License-Identifier: GPL-2.0
// The mapped queues of a thread, and the order in which they run. For that thread, unless it is
// paused.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "engines/queue.h"

namespace gpu {

class QueueTable {
 public:
  enum class Activity { kIdle, kWaiting, kBusy };

  // A queue that already has the doorbell is out of service from now on.
  Queue& add(std::unique_ptr<Queue> queue);
  Queue* find(uint32_t doorbell);
  Queue* find(const HqdSlot& slot);
  void doorbell(uint32_t offset, uint64_t value, unsigned size);
  // Runs each queue once. Queues that wait for a condition check it once.
  Activity round();
  // From now on some queues have no turn for some rounds, at random.
  void delay(uint32_t seed) { random_.emplace(seed); }
  void clear();
  size_t size() const;
  // Any thread. Whether a mapped queue has the doorbell.
  bool has_doorbell(uint32_t offset) const;

  // Calls visit(Queue&) for each queue that is in service.
  template <typename Visit>
  void for_each(Visit visit) {
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (!queues_[i]->retired()) visit(*queues_[i]);
    }
  }

 private:
  static constexpr unsigned kLongestRest = 64;  // rounds
  // One queue in this many rests.
  static constexpr uint32_t kRestingShare = 3;

  bool rests(const Queue& queue) const;
  void list_doorbells();

  std::optional<std::mt19937> random_;
  uint32_t choice_ = 0;          // which queues rest
  unsigned rounds_of_rest_ = 0;  // that are left to them
  // Grows within a round, by packets that map queues; shrinks only between rounds.
  std::vector<std::unique_ptr<Queue>> queues_;
  mutable std::mutex mutex_;  // doorbells_
  std::vector<uint32_t> doorbells_;
};

}  // namespace gpu
