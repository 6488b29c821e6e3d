// The show tool's JSON of tiles, of wgmma, and of what is combined and read back, by brute force: from the formulas of the
// instruction set written out here.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tests/host/show_run.h"

namespace grout::show {
namespace {

using Coord = std::vector<int64_t>;
struct Formula {
  std::string name;
  Names axes;
  size_t threads, slots;
  Coord shape;
  std::function<Coord(int64_t thread, int64_t slot)> at;
};
Coord c_of(int64_t lane, int64_t i) { return {(lane >> 2) + (i >= 2 ? 8 : 0), lane % 4 * 2 + (i & 1)}; }
Coord a_of(int64_t lane, int64_t i) { return {(lane >> 2) + (i / 2 % 2 ? 8 : 0), lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0)}; }
Formula wgmma(int64_t n) {
  return {"wgmma.m64n" + std::to_string(n) + ".c", {"m", "n"}, 128, static_cast<size_t>(n / 2), {64, n}, [](int64_t t, int64_t i) {
            const Coord c = c_of(t % 32, i % 4);
            return Coord{16 * (t / 32) + c[0], 8 * (i / 4) + c[1]};
          }};
}
std::vector<Formula> formulas() {
  std::vector<Formula> all = {
      {"mma.m16n8k16.a", {"m", "k"}, 32, 8, {16, 16}, a_of},
      {"mma.m16n8k16.b", {"k", "n"}, 32, 4, {16, 8}, [](int64_t l, int64_t i) { return Coord{l % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), l >> 2}; }},
      {"mma.m16n8k16.c", {"m", "n"}, 32, 4, {16, 8}, c_of},
      {"ldmatrix.x4", {"matrix", "row", "col"}, 32, 8, {4, 8, 8}, [](int64_t l, int64_t s) { return Coord{s / 2, l / 4, l % 4 * 2 + s % 2}; }},
      {"ldmatrix.x2.trans", {"matrix", "row", "col"}, 32, 4, {2, 8, 8}, [](int64_t l, int64_t s) { return Coord{s / 2, l % 4 * 2 + s % 2, l / 4}; }},
      {"tile.a.32x64", {"m", "k"}, 32, 64, {32, 64}, [](int64_t l, int64_t s) {
         const Coord c = a_of(l, s % 8);
         return Coord{s / 32 * 16 + c[0], s / 8 % 4 * 16 + c[1]};
       }},
      {"tile.c.32x64", {"m", "n"}, 32, 64, {32, 64}, [](int64_t l, int64_t s) {
         const Coord c = c_of(l, s % 4);
         return Coord{s / 32 * 16 + c[0], s / 4 % 8 * 8 + c[1]};
       }},
      {"tile.c.128x128", {"m", "n"}, 128, 128, {128, 128}, [](int64_t t, int64_t s) {
         const Coord c = c_of(t % 32, s % 4);
         return Coord{t / 64 * 64 + s / 32 * 16 + c[0], t / 32 % 2 * 64 + s / 4 % 8 * 8 + c[1]};
       }},
      {"wgmma.m64k16.a", {"m", "k"}, 128, 8, {64, 16}, [](int64_t t, int64_t i) {
         const Coord c = a_of(t % 32, i);
         return Coord{16 * (t / 32) + c[0], c[1]};
       }}};
  for (int64_t n = 8; n <= 256; n += 8) all.push_back(wgmma(n));
  return all;
}

TEST(ShowFragments, Ownerships) {
  for (const Formula& f : formulas()) {
    SCOPED_TRACE(f.name);
    const Json json = json_of({f.name.c_str()});
    EXPECT_EQ(json["name"].string(), f.name);
    EXPECT_EQ(strings(json["index"])[0], f.threads == 32 ? "lane" : "thread");
    EXPECT_EQ(strings(json["coord"]), f.axes);
    ASSERT_EQ(json["table"].list().size(), f.threads);
    for (size_t t = 0; t < f.threads; ++t) {
      ASSERT_EQ(json["table"][t].list().size(), f.slots);
      for (size_t s = 0; s < f.slots; ++s)
        ASSERT_EQ(integers(json["table"][t][s]), f.at(static_cast<int64_t>(t), static_cast<int64_t>(s)));
    }
  }
}

// What is printed is carried out with sets of coordinates: every thread's results are its rows, each value once; where there is no
// plan, a warp lacks a value.
TEST(ShowFragments, ReductionsAndBroadcasts) {
  for (const Formula& f : formulas()) {
    for (size_t axis = 0; axis < f.axes.size(); ++axis) {
      const std::string name = "reduction." + f.name + "." + f.axes[axis], back = "broadcast." + f.name + "." + f.axes[axis];
      SCOPED_TRACE(name);
      const Json json = json_of({name.c_str()}), broadcast = json_of({back.c_str()});
      EXPECT_EQ(strings(json["index"]), (Names{"result", "part"}));
      const std::string problem = json["problem"].string();
      EXPECT_EQ(broadcast["problem"].string(), problem);
      std::set<Coord> first_warp;
      for (int64_t t = 0; t < 32; ++t)
        for (size_t s = 0; s < f.slots; ++s) first_warp.insert(f.at(t, static_cast<int64_t>(s)));
      if (problem != "none") {
        EXPECT_EQ(problem, "spans_warps");
        EXPECT_TRUE(json["table"].list().empty() && broadcast["table"].list().empty());
        EXPECT_EQ(integers(json["warps"])[0], 0);
        int64_t held = 0;  // of the row of thread 0
        for (Coord c = f.at(0, 0); c[axis] < f.shape[axis]; ++c[axis]) held += static_cast<int64_t>(first_warp.count(c));
        EXPECT_LT(held, f.shape[axis]);
        continue;
      }
      const auto row_of = [&](Coord c) { return c[axis] = 0, c; };
      const size_t results = json["table"].list().size();
      std::vector<std::vector<std::vector<Coord>>> sums(f.threads, std::vector<std::vector<Coord>>(results));
      for (size_t t = 0; t < f.threads; ++t)
        for (size_t r = 0; r < results; ++r)
          for (const Json& part : json["table"][r].list())
            sums[t][r].push_back(f.at(static_cast<int64_t>(t), part.list()[0].integer()));
      for (const int64_t bit : integers(json["lane_bits"])) {
        const auto before = sums;
        for (size_t t = 0; t < f.threads; ++t)
          for (size_t r = 0; r < results; ++r) {
            const auto& other = before[t ^ static_cast<size_t>(bit)][r];
            sums[t][r].insert(sums[t][r].end(), other.begin(), other.end());
          }
      }
      std::vector<int64_t> read;
      for (const Json& atom : broadcast["table"].list())
        for (const Json& element : atom.list()) read.push_back(element.list()[0].integer());
      ASSERT_EQ(read.size(), f.slots);
      for (size_t t = 0; t < f.threads; ++t) {
        for (size_t s = 0; s < f.slots; ++s) {
          const Coord mine = f.at(static_cast<int64_t>(t), static_cast<int64_t>(s));
          const auto& sum = sums[t][static_cast<size_t>(read[s])];
          ASSERT_EQ(static_cast<int64_t>(sum.size()), f.shape[axis]);
          if (s > 0 && read[s] == read[s - 1]) {  // the same sum as before
            ASSERT_EQ(row_of(mine), row_of(sum[0]));
            continue;
          }
          const std::set<Coord> values(sum.begin(), sum.end());
          ASSERT_EQ(values.size(), sum.size()) << "a value twice";
          for (const Coord& value : sum) ASSERT_EQ(row_of(value), row_of(mine)) << "thread " << t << ", slot " << s;
        }
      }
    }
  }
}

TEST(ShowFragments, Redistributions) {
  const auto expect = [](const std::string& accumulator, size_t threads, size_t slots, auto c_at, auto a_at) {
    const std::string name = "redistribute." + accumulator;
    const Json json = json_of({name.c_str()});
    EXPECT_EQ(strings(json["index"]), (Names{"atom", "element"}));
    EXPECT_EQ(strings(json["coord"]), (Names{"slot"}));
    ASSERT_EQ(json["table"].list().size(), slots / 8);
    for (size_t s = 0; s < slots; ++s)
      for (size_t t = 0; t < threads; ++t)
        ASSERT_EQ(c_at(static_cast<int64_t>(t), json["table"][s / 8][s % 8].list()[0].integer()), a_at(static_cast<int64_t>(t), static_cast<int64_t>(s)))
            << name << " " << s;
  };
  const std::vector<Formula> all = formulas();
  const auto find = [&](const std::string& name) { return std::find_if(all.begin(), all.end(), [&](const Formula& f) { return f.name == name; })->at; };
  expect("tile.c.32x64", 32, 64, find("tile.c.32x64"), find("tile.a.32x64"));
  for (int64_t n = 16; n <= 256; n += 16) {
    const Formula c = wgmma(n);
    expect(c.name, 128, c.slots, c.at, [](int64_t t, int64_t s) {
      const Coord a = a_of(t % 32, s % 8);
      return Coord{16 * (t / 32) + a[0], 16 * (s / 8) + a[1]};
    });
  }
}

}  // namespace
}  // namespace grout::show
