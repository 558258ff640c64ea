// SPDX-License-Identifier: GPL-2.0
#include "engines/queue_table.h"

#include <algorithm>

namespace gpu {

Queue& QueueTable::add(std::unique_ptr<Queue> queue) {
  if (Queue* old = find(queue->spec().doorbell)) old->retire();
  queues_.push_back(std::move(queue));
  list_doorbells();
  return *queues_.back();
}

void QueueTable::clear() {
  queues_.clear();
  list_doorbells();
}

void QueueTable::list_doorbells() {
  const std::lock_guard lock(mutex_);
  doorbells_.clear();
  for (const auto& queue : queues_) doorbells_.push_back(queue->spec().doorbell);
}

bool QueueTable::has_doorbell(uint32_t offset) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(doorbells_, offset) != doorbells_.end();
}

Queue* QueueTable::find(uint32_t doorbell) {
  Queue* found = nullptr;
  for_each([&](Queue& queue) {
    if (queue.spec().doorbell == doorbell) found = &queue;
  });
  return found;
}

Queue* QueueTable::find(const HqdSlot& slot) {
  Queue* found = nullptr;
  for_each([&](Queue& queue) {
    if (queue.spec().slot == slot) found = &queue;
  });
  return found;
}

void QueueTable::doorbell(uint32_t offset, uint64_t value, unsigned size) {
  if (Queue* queue = find(offset)) queue->doorbell(value, size);
}

// Doorbells are eight bytes apart.
bool QueueTable::rests(const Queue& queue) const {
  return rounds_of_rest_ && (queue.spec().doorbell / 8 + choice_) % kRestingShare == 0;
}

QueueTable::Activity QueueTable::round() {
  Activity activity = Activity::kIdle;
  if (rounds_of_rest_) {
    --rounds_of_rest_;
  } else if (random_) {
    choice_ = static_cast<uint32_t>((*random_)());
    rounds_of_rest_ = static_cast<unsigned>((*random_)() % kLongestRest);
  }
  for_each([&](Queue& queue) {
    if (!queue.has_turn()) return;
    if (rests(queue)) {
      activity = std::max(activity, Activity::kWaiting);
      return;
    }
    Budget budget;
    const bool worked = queue.run(budget);
    if (worked || queue.state() == Queue::State::kRunnable) activity = Activity::kBusy;
    if (queue.state() == Queue::State::kWaiting) activity = std::max(activity, Activity::kWaiting);
  });
  if (std::erase_if(queues_, [](const auto& queue) { return queue->retired(); })) list_doorbells();
  return activity;
}

size_t QueueTable::size() const {
  return static_cast<size_t>(
      std::ranges::count_if(queues_, [](const auto& queue) { return !queue->retired(); }));
}

}  // namespace gpu
