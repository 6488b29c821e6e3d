// The show tool: its text by example, its SVG for being well formed and self-contained, its names, options and refusals.
// Its JSON: show_json.cpp. The tool's parts are linked, so that no path must be known.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/host/show_run.h"

namespace grout::show {
namespace {

// ---- text ----

TEST(ShowText, Swizzle) {
  EXPECT_EQ(show({"swizzle.32B", "--text"}).out,
            R"(swizzle.32B: swizzle of 32 bytes: where the 16-byte chunks of 8 rows of 32 bytes lie
  bit of the byte address   9 8 7   6 5 4   3 2 1 0
                            . . y   . . x   m m m m
  the bits x (chunk) become x XOR y (number of the 128-byte line); the pattern starts at a multiple of 256 bytes

the chunk of the row at which it lies
row \ chunk | 0 1
------------+----
          0 | 0 1
          1 | 0 1
          2 | 0 1
          3 | 0 1
          4 | 1 0
          5 | 1 0
          6 | 1 0
          7 | 1 0
)");
}
TEST(ShowText, TheWorkedEdge) {
  EXPECT_EQ(show({"copy.64x32.bf16.t256", "--extents", "65,73", "--origin", "64,64"}).out,
            R"(copy.64x32.bf16.t256: 64 x 32 tile of bf16: 256 vectors of 8, 256 threads, 1 turn
  source 65 x 73, pitch 73, base 16-byte aligned + 0 elements; tile at (64, 64)
  misaligned: elements; partial: elements; "n+mz": n valid elements, m zeros; vector v = 4 row + column / 8 belongs to thread v % 256
  vectors: 1 async, 0 realign, 1 elements, 254 zeros; 1 scalar loads, 2039 zero elements

thread and case of each vector
row \ columns |           0..7            8..15         16..23         24..31
--------------+--------------------------------------------------------------
            0 |       t0 async t1 elements 1+7z       t2 zeros       t3 zeros
        1..63 | t4..t252 zeros   t5..t253 zeros t6..t254 zeros t7..t255 zeros
)");
}
TEST(ShowText, Ring) {  // two stages: stage k % 2, round k / 2
  EXPECT_EQ(show({"ring.2"}).out,
            R"(ring.2: full and empty barriers of a ring of 2 stages, 5 iterations
  P, the producer, runs as far ahead as its waits let it; C, the consumer, asks before the stage is filled
  a barrier is in phase n when n phases are complete; a wait for parity p passes when (n & 1) != p: phase n - 1 has it
  "n > m": in phase n when first asked, in phase m when the wait passes

the waits of each iteration
iteration | stage P: parity empty[stage]          passes C: parity full[stage]       passes
----------+--------------------------------------------------------------------------------
        0 |     0         1            0         at once         0       0 > 1 after fill 0
        1 |     1         1            0         at once         0       0 > 1 after fill 1
        2 |     0         0        0 > 1 after release 0         1       1 > 2 after fill 2
        3 |     1         0        0 > 1 after release 1         1       1 > 2 after fill 3
        4 |     0         1        1 > 2 after release 2         0       2 > 3 after fill 4

phase of each barrier after the fill (full) or the release (empty) of each iteration; before: 0
 barrier | 0 1 2 3 4
---------+----------
 full[0] | 1 1 2 2 3
empty[0] | 1 1 2 2 3
 full[1] | 0 1 1 2 2
empty[1] | 0 1 1 2 2
)");
}
TEST(ShowText, Box) {  // rows of 64 bytes, two a line: rows 2 and 3 lie in line 1, where chunk c moves to c XOR 1
  EXPECT_EQ(
      show({"box.4x16.f32.64B"}).out,
      R"(box.4x16.f32.64B: box of 4 rows x 16 columns of f32, 256 bytes, swizzle 64B: where a tensor copy puts its 16-byte chunks
  bit of the byte address   9 8 7   6 5 4   3 2 1 0
                            . y y   . x x   m m m m
  the bits x (chunk) become x XOR y (number of the 128-byte line); the pattern starts at a multiple of 512 bytes
  worst bank conflict of reading one chunk of each of 4 successive rows: 1 way; without the swizzle 2

bank column @ byte of each chunk
row \ chunk |       0       1       2       3
------------+--------------------------------
          0 |   0 @ 0  1 @ 16  2 @ 32  3 @ 48
          1 |  4 @ 64  5 @ 80  6 @ 96 7 @ 112
          2 | 1 @ 144 0 @ 128 3 @ 176 2 @ 160
          3 | 5 @ 208 4 @ 192 7 @ 240 6 @ 224

chunk (row, chunk) in each 16-byte bank column of the 128-byte lines
line \ column |     0     1     2     3     4     5     6     7
--------------+------------------------------------------------
            0 | (0,0) (0,1) (0,2) (0,3) (1,0) (1,1) (1,2) (1,3)
            1 | (2,1) (2,0) (2,3) (2,2) (3,1) (3,0) (3,3) (3,2)
)");
}
TEST(ShowText, Reduction) {
  EXPECT_EQ(show({"reduction.mma.m16n8k16.c.n"}).out,
            R"(reduction.mma.m16n8k16.c.n: combining mma.m16n8k16.c along n
  first each thread combines the elements of a result
  then each lane combines its result with that of lane ^ 1, then of lane ^ 2 (shfl.bfly)
  so every lane that held a value of a row or column has its result

elements that each slot of the result combines
result \ part | 0 1
--------------+----
            0 | 0 1
            1 | 2 3
)");
  EXPECT_EQ(show({"broadcast.mma.m16n8k16.c.n"}).out,
            R"(broadcast.mma.m16n8k16.c.n: what was combined along n, read back by the elements of mma.m16n8k16.c
  the slot of the result is the same in every thread; no lanes exchange anything

result of each element
atom \ element | 0 1 2 3
---------------+--------
             0 | 0 0 1 1
)");
  const std::string spans = show({"reduction.wgmma.m64n64.c.m"}).out;
  EXPECT_NE(spans.find("no plan: the values lie in several warps; warp 0 needs one that warp 1 holds."), std::string::npos) << spans;
}
TEST(ShowText, ElementsNameTheirLane) {
  const std::string out = show({"mma.m16n8k16.c"}).out;
  EXPECT_NE(out.find("    9 |  4:2  4:3  5:2  5:3  6:2  6:3  7:2  7:3\n"), std::string::npos) << out;
  EXPECT_NE(out.find("  31 | (7,6) (7,7) (15,6) (15,7)\n"), std::string::npos) << out;
}

// ---- SVG ----

// Well-formed XML: tags nest, attributes are quoted, no bare & or <.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  size_t at = svg.find("?>");
  ASSERT_EQ(svg.compare(0, 5, "<?xml"), 0);
  ASSERT_NE(at, std::string::npos);
  at += 2;
  while (at < svg.size()) {
    if (svg[at] != '<') {
      ASSERT_NE(svg[at], '>');
      if (svg[at] == '&') {
        const std::string entity = svg.substr(at, svg.find(';', at) - at);
        ASSERT_TRUE(entity == "&amp" || entity == "&lt" || entity == "&gt" || entity == "&quot") << entity;
      }
      ++at;
      continue;
    }
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
}
size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
std::string svg_of(std::vector<const char*> words) {
  const std::string path = testing::TempDir() + "show_test.svg";
  words.push_back("--svg");
  words.push_back(path.c_str());
  const Result r = show(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out + r.err, "");
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  std::remove(path.c_str());
  return all.str();
}
TEST(ShowSvg, DrawsEachCellOnce) {
  const std::string svg = svg_of({"mma.m16n8k16.a"});
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, "<rect"), 1u + 16 * 16 + 32 * 8);
  for (int lane = 0; lane < 32; ++lane) {
    for (int element = 0; element < 8; ++element)
      EXPECT_EQ(count_of(svg, ">" + std::to_string(lane) + ":" + std::to_string(element) + "<"), 1u);
  }
}

// ---- names, options, refusals ----

TEST(Show, EveryListedNameHasAllThreeForms) {
  const Result list = show({});
  EXPECT_EQ(list.code, 0);
  std::istringstream lines(list.out);
  int names = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("wgmma.m64nN");) {
    const std::string name = line.substr(0, line.find(' '));
    ++names;
    const Json json = json_of({name.c_str()});
    EXPECT_EQ(json["name"].string(), name);
    EXPECT_TRUE(json.has("index") && json.has("coord") && json.has("table"));
    for (const Json& row : json["table"].list()) {
      for (const Json& entry : row.list()) ASSERT_EQ(entry.list().size(), json["coord"].list().size());
    }
    EXPECT_EQ(show({name.c_str()}).out, show({name.c_str(), "--text"}).out);
    const std::string svg = svg_of({name.c_str()});
    expect_well_formed(svg);
    EXPECT_EQ(svg.find("href"), std::string::npos);
    EXPECT_EQ(svg.find("url("), std::string::npos);
  }
  EXPECT_EQ(names, 30);
  for (const char* form : {"\nwgmma.m64nN.c  ", "\nreduction.OWNERSHIP.AXIS  ", "\nbroadcast.OWNERSHIP.AXIS  ",
                           "\nredistribute.ACCUMULATOR  ", "\ncopy.RxC.TYPE[.tTHREADS]\n", "\nring.STAGES  ", "show ring.3 --iterations 7\n",
                           "\nbox.RxC.TYPE.SWIZZLE  ", "show box.8x64.bf16.128B\n"})
    EXPECT_NE(list.out.find(form), std::string::npos) << form;
  const std::string ring = svg_of({"ring.3", "--iterations", "7"}), box = svg_of({"box.8x64.bf16.128B"});
  expect_well_formed(ring);
  EXPECT_EQ(count_of(ring, "<rect"), 1u + 7 * 7 + 6 * 7);
  expect_well_formed(box);
  EXPECT_EQ(count_of(box, "<rect"), 1u + 8 * 8 + 8 * 8);
  expect_well_formed(svg_of({"copy.8x16.bf16.t4", "--extents", "7,11", "--ld", "13", "--realign"}));
}
TEST(Show, FormsOfFragmentsHaveAllThreeForms) {
  for (const char* name : {"wgmma.m64n8.c", "wgmma.m64n256.c", "reduction.wgmma.m64n32.c.n", "reduction.tile.c.128x128.m",
                           "broadcast.tile.c.32x64.m", "broadcast.tile.c.128x128.n", "redistribute.wgmma.m64n64.c"}) {
    SCOPED_TRACE(name);
    const Json json = json_of({name});
    EXPECT_EQ(json["name"].string(), name);
    EXPECT_EQ(show({name}).out, show({name, "--text"}).out);
    EXPECT_EQ(show({name}).err, "");
    expect_well_formed(svg_of({name}));
  }
}
TEST(Show, TheNameMayStandAnywhere) {
  EXPECT_EQ(show({"--json", "swizzle.64B"}).out, show({"swizzle.64B", "--json"}).out);
  EXPECT_EQ(show({"--extents", "3,9", "copy.8x8.f16", "--ld", "12"}).out,
            show({"copy.8x8.f16", "--extents", "3,9", "--ld", "12"}).out);
  EXPECT_EQ(show({"--iterations", "4", "ring.3"}).out, show({"ring.3", "--iterations=4"}).out);
}
void expect_refused(const std::vector<const char*>& words, std::initializer_list<const char*> parts) {
  const Result r = show(words);
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(count_of(r.err, "\n"), 1u) << r.err;
  for (const char* part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << "no '" << part << "' in: " << r.err;
}
TEST(Show, RefusesWithOneSentence) {
  expect_refused({"mma.m16n8k8.a"},
                 {"unknown name 'mma.m16n8k8.a'", "mma.m16n8k16.a", "ldmatrix.x4.trans", "swizzle.128B",
                  "gemm.a.k-major.64x32", "copy.RxC.TYPE", "ring.STAGES", "box.RxC.TYPE.SWIZZLE", "exist"});
  for (const char* name : {"copy", "ring", "box", "Swizzle.128B", "rings.3"})
    expect_refused({name}, {"unknown name", name, "copy.RxC.TYPE", "ring.STAGES", "box.RxC.TYPE.SWIZZLE"});
  // Of a known family: what that family takes.
  for (const char* name : {"copy.64x32", "copy.64.bf16", "copy.0x8.bf16", "copy.8x8.f64", "copy.8x8.bf16.256",
                           "copy.8x8.bf16.t0", "copy.8x-8.bf16", "copy.8x8.bf16.t1.x", "copy.8x8.bf16.", "copy."})
    expect_refused({name}, {name, "is no copy plan", "copy.RxC.TYPE[.tTHREADS]", "1 or more", "bf16, f16 or f32"});
  for (const char* name : {"ring.0", "ring.-1", "ring.x", "ring.3.4", "ring.", "ring.99999999999999999999"})
    expect_refused({name}, {name, "is no ring", "ring.STAGES", "1 to 16"});
  for (const char* name :
       {"box.8x64.bf16", "box.8x64.128B.bf16", "box.8x64.bf16.16B", "box.8x64.bf16.128", "box.0x64.bf16.128B",
        "box.8.bf16.none", "box.8x64.f64.none", "box.8x64.bf16.128B.x", "box.4294967297x8.bf16.none"})
    expect_refused({name}, {name, "is no box", "box.RxC.TYPE.SWIZZLE", "1 to 256", "none, 32B, 64B or 128B"});
  for (const char* name : {"wgmma.m64n12.c", "wgmma.m64n264.c", "wgmma.m64n0.c", "wgmma", "wgmma.m64n8", "wgmma.m64k16.b"})
    expect_refused({name}, {name, "is no operand of wgmma", "wgmma.m64nN.c", "8 to 256"});
  for (const char* name : {"reduction", "reduction.", "reduction.n", "reduction.mma.m16n8k16.d.n", "reduction.wgmma.m64n12.c.n"})
    expect_refused({name}, {name, "reduction.OWNERSHIP.AXIS is accepted", "mma.m16n8k16.a", "wgmma.m64nN.c"});
  expect_refused({"broadcast.mma.n"}, {"broadcast.mma.n", "broadcast.OWNERSHIP.AXIS is accepted"});
  expect_refused({"reduction.mma.m16n8k16.c.k"}, {"mma.m16n8k16.c has the axes m and n"});
  expect_refused({"broadcast.ldmatrix.x4.n"}, {"ldmatrix.x4 has the axes matrix and row and col"});
  for (const char* name : {"redistribute", "redistribute.mma.m16n8k16.c", "redistribute.wgmma.m64n8.c", "redistribute.tile.c.128x128"})
    expect_refused({name}, {name, "no accumulator that becomes operand A", "redistribute.ACCUMULATOR", "tile.c.32x64"});
  expect_refused({"copy.8x12.bf16"}, {"multiple of the 8", "12"});
  expect_refused({"copy.8x6.f32"}, {"multiple of the 4", "6"});
  expect_refused({"copy.8x8.bf16.t2048"}, {"1024 threads"});
  expect_refused({"swizzle.128B", "--png"}, {"--png", "--svg"});
  expect_refused({"swizzle.128B", "--text", "--json"}, {"exclude one another"});
  expect_refused({"swizzle.128B", "--ld", "5"}, {"copy plans", "swizzle.128B"});
  expect_refused({"swizzle.128B", "swizzle.64B"}, {"unexpected argument 'swizzle.64B'"});
  expect_refused({"copy.8x8.bf16", "--extents", "9"}, {"--extents", "R,C"});
  expect_refused({"copy.8x8.bf16", "--extents", "-1,9"}, {"--extents", "-1"});
  expect_refused({"ring.17"}, {"ring.17", "1 to 16 stages"});
  expect_refused({"ring.3", "--iterations", "0"}, {"--iterations", "1 to 4096"});
  expect_refused({"ring.3", "--iterations", "4097"}, {"--iterations", "1 to 4096"});
  expect_refused({"swizzle.128B", "--iterations", "5"}, {"--iterations belongs to rings", "swizzle.128B"});
  expect_refused({"ring.3", "--ld", "5"}, {"copy plans", "ring.3"});
  // What no tensor map can have, in the words of check_tensor_map.
  expect_refused({"box.8x64.bf16.64B"},
                 {"tensor map: a row of the box is 128 bytes", "the 64 bytes of the swizzle's span", "box 64 x 8, swizzle 64B"});
  expect_refused({"box.8x12.bf16.none"}, {"tensor map: a row of the box is 24 bytes", "a multiple of 16 bytes"});
  expect_refused({"box.257x8.bf16.none"}, {"tensor map: the box of dimension 1 is 257", "1 to 256"});
  expect_refused({"box.8x264.bf16.none"}, {"tensor map: the box of dimension 0 is 264", "1 to 256"});
  expect_refused({"box.256x256.f32.none"}, {"tensor map: the box is 262144 bytes", "at most 232448"});
  expect_refused({"box.2147483647x2147483647.f32.none"}, {"tensor map: the box of dimension 0 is 2147483647"});
  expect_refused({"copy.8x8.bf16", "--svg", "/nonexistent/folder/x.svg"}, {"cannot be written"});
}

}  // namespace
}  // namespace grout::show
