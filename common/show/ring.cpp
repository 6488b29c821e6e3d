// The phases of a ring's barriers (common/ring.cuh), by walking its positions with barriers that only count phases.
#include "common/ring.cuh"

#include <array>
#include <stdexcept>

#include "common/show/show.h"

namespace grout::show {
namespace {

// An mbarrier in phase n: n phases are complete. A wait passes when the phase before has the parity asked for.
struct Barrier {
  int64_t phase = 0;
  bool passes(uint32_t parity) const { return (phase & 1) != parity; }
};

// What one of the two waits of an iteration finds.
struct Wait {
  uint32_t parity;
  int64_t before, after;  // phase of the barrier when it is first asked, and when it lets the thread through
  int64_t event;          // the iteration whose release (fill) it waits for; -1: it passes at once
};
struct Iteration {
  int stage;
  Wait empty, full;
  int64_t released = 0;  // phase of the empty barrier after the release
};

// The producer runs as far ahead as its waits let it, and the consumer asks before the stage is filled.
template <int Stages>
std::vector<Iteration> walk(int iterations) {
  using Position = typename Ring<Stages>::Position;
  std::array<Barrier, Stages> full, empty;
  std::vector<Iteration> list;
  Position producer, consumer;
  int64_t released = 0;
  const auto release = [&] {
    list[static_cast<size_t>(released++)].released = ++empty[consumer.stage].phase;
    consumer.next();
  };
  for (int64_t k = 0; k < iterations; ++k, producer.next()) {
    const int s = producer.stage;
    Iteration i{s, {producer.empty_parity(), empty[s].phase, 0, -1}, {producer.full_parity(), full[s].phase, 0, -1}};
    while (!empty[s].passes(i.empty.parity)) {
      if (released == k || !full[consumer.stage].passes(consumer.full_parity()))
        throw std::logic_error("ring: iteration " + text(k) + " waits for ever");
      i.empty.event = released;
      release();
    }
    i.empty.after = empty[s].phase;
    if (!full[s].passes(i.full.parity)) i.full.event = k;
    i.full.after = ++full[s].phase;
    if (!full[s].passes(i.full.parity))
      throw std::logic_error("ring: the fill of iteration " + text(k) + " is not seen");
    list.push_back(i);
  }
  while (released < iterations) release();
  return list;
}

template <int... I>
std::vector<Iteration> walk_of(int stages, int iterations, std::integer_sequence<int, I...>) {
  std::vector<Iteration> list;
  ((stages == I + 1 ? void(list = walk<I + 1>(iterations)) : void()), ...);
  return list;
}

std::string phases(const Wait& wait) {
  return text(wait.before) + (wait.after > wait.before ? " > " + text(wait.after) : "");
}
Row entry(int stage, const Wait& wait) {
  return {text(stage),     text(wait.parity), text(wait.before), text(wait.after), wait.event < 0 ? "true" : "false",
          text(wait.event)};
}

}  // namespace

bool parse_ring(const std::string& name, int& stages) {
  const std::vector<std::string> parts = parts_of(name);
  return parts.size() == 2 && parts[0] == "ring" && parse_number(parts[1], stages);
}

Shown show_ring(const std::string& name, int stages, int iterations) {
  const std::vector<Iteration> list = walk_of(stages, iterations, std::make_integer_sequence<int, kRingStages>());
  Shown shown{
      name,
      "full and empty barriers of a ring of " + text(stages) + (stages == 1 ? " stage, " : " stages, ") +
          text(iterations) + (iterations == 1 ? " iteration" : " iterations"),
      {"P, the producer, runs as far ahead as its waits let it; C, the consumer, asks before the stage is filled",
       "a barrier is in phase n when n phases are complete; a wait for parity p passes when (n & 1) != p: phase n - 1 "
       "has it",
       "\"n > m\": in phase n when first asked, in phase m when the wait passes"},
      {},
      {"iteration", "barrier"},
      {"stage", "parity", "before", "after", "at once", "event"},
      {},
      ", \"stages\": " + text(stages) + ", \"iterations\": " + text(iterations)};
  Panel waits{"the waits of each iteration",
              "iteration",
              {"stage", "P: parity", "empty[stage]", "passes", "C: parity", "full[stage]", "passes"},
              numbers(iterations),
              {}};
  for (const Iteration& i : list) {
    shown.table.push_back({entry(i.stage, i.empty), entry(i.stage, i.full)});
    const auto cell = [&](const std::string& label) { return Cell{label, i.stage, stages}; };
    const auto passes = [](const Wait& wait, const std::string& event) {
      return wait.event < 0 ? "at once" : "after " + event + " " + text(wait.event);
    };
    waits.cells.push_back({cell(text(i.stage)), cell(text(i.empty.parity)), cell(phases(i.empty)),
                           cell(passes(i.empty, "release")), cell(text(i.full.parity)), cell(phases(i.full)),
                           cell(passes(i.full, "fill"))});
  }
  Panel timeline{"phase of each barrier after the fill (full) or the release (empty) of each iteration; before: 0",
                 "barrier",
                 numbers(iterations),
                 {},
                 {}};
  for (int s = 0; s < stages; ++s) {
    for (const bool is_full : {true, false}) {
      timeline.rows.push_back((is_full ? "full[" : "empty[") + text(s) + "]");
      timeline.cells.emplace_back();
      int64_t phase = 0;
      for (const Iteration& i : list) {
        if (i.stage == s) phase = is_full ? i.full.after : i.released;
        timeline.cells.back().push_back({text(phase), static_cast<int>(phase & 1), 2});
      }
    }
  }
  shown.panels = {waits, timeline};
  return shown;
}

}  // namespace grout::show
