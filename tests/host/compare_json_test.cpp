// results.json: written and read back bit for bit. compare_json_refusals.cpp: what is wrong in it is refused.
// compare_json_merge.cpp: merge and resume.
#include "compare/json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

TEST(CompareJson, ComesBackAsItWas) {
  const Results r = sample_results();
  const std::string text = to_json(r);
  const Results back = from_json(text);
  EXPECT_EQ(back, r);
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(from_json(to_json(Results{})), Results{});
}
TEST(CompareJson, DoublesComeBackBitForBit) {
  std::mt19937_64 random(3);
  Results r;
  r.runs = {sample_run()};
  Case c = sample_case();
  c.protocol.rounds = 2000;
  for (Sample& s : c.samples) {
    s.round_us.clear(), s.round_wall_us.clear();
    s.validated = s.role == Role::ceiling ? 0 : 2001;
    while (s.round_us.size() < 2000 || s.round_wall_us.size() < 2000) {
      const double value = std::fabs(std::bit_cast<double>(random()));
      if (std::isfinite(value) && value > 0) (s.round_us.size() < 2000 ? s.round_us : s.round_wall_us).push_back(value);
    }
    s.round_us[0] = std::numeric_limits<double>::denorm_min();
    s.round_us[1] = std::numeric_limits<double>::min();
    s.round_us[2] = 0.1, s.round_us[3] = 1. / 3, s.round_us[4] = 9007199254740993.;
  }
  c.pairs.clear();  // quotients of such times overflow
  c.before.watts = -0.0;
  r.cases = {{0, c}};
  for (Sample& s : r.cases[0].value.samples)  // so do sums
    for (double& t : s.round_us) t = std::min(t, 1e300);
  for (Sample& s : r.cases[0].value.samples)
    for (double& t : s.round_wall_us) t = std::min(t, 1e300);
  const Results back = from_json(to_json(r));
  ASSERT_EQ(back, r);
  EXPECT_TRUE(std::signbit(back.cases[0].value.before.watts));
  for (size_t i = 0; i < 2000; ++i)
    ASSERT_EQ(std::bit_cast<uint64_t>(back.cases[0].value.samples[1].round_us[i]),
              std::bit_cast<uint64_t>(r.cases[0].value.samples[1].round_us[i]));
}
TEST(CompareJson, IntegersKeepAll64Bits) {
  Results r = sample_results();
  r.cases[0].value.samples[0].tiles = std::numeric_limits<int64_t>::max();
  r.cases[0].value.samples[0].elements = (int64_t{1} << 53) + 1;
  r.runs[0].l2_bytes = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(from_json(to_json(r)), r);
}
TEST(CompareJson, TextsAreTakenAsTheyAre) {
  Results r = sample_results();
  r.runs[0].command = "./run compare \"a b\" \\ \n\t\x01 é 漢";
  r.cases[3].value.samples[1].failure = "wrong: \"quoted\"\nsecond line";
  r.cases[0].value.samples[0].realised = {{"zebra", "1"}, {"", "2"}, {"aardvark", ""}};  // in the order said
  const Results back = from_json(to_json(r));
  EXPECT_EQ(back, r);
}
TEST(CompareJson, AWrongResultThatIsNoNumberIsKept) {
  Results r = sample_results();
  Sample& s = r.cases[3].value.samples[1];
  s.error = std::numeric_limits<double>::quiet_NaN(), s.bound = std::numeric_limits<double>::infinity();
  const Results back = from_json(to_json(r));
  EXPECT_TRUE(std::isnan(back.cases[3].value.samples[1].error));
  EXPECT_TRUE(std::isnan(back.cases[3].value.samples[1].bound));  // null says: not finite
}
TEST(CompareJson, ACaseIsAFewLines) {
  const std::string text = to_json(sample_results());
  // 3 lines, one a sample, one a pair, the counts; the file's own: brace, format, runs, run, cases, counts, brace.
  const auto lines = [](const Case& c) { return 3 + 1 + c.samples.size() + 1 + c.pairs.size() + 1; };
  size_t expected = 7;
  for (const auto& [run, c] : sample_results().cases) expected += lines(c);
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), expected);
  EXPECT_NE(
      text.find(
          "\n    "
          "{\"base\":\"cublas\",\"candidate\":\"mma\",\"validated_pairs\":4,\"verdict\":\"faster\",\"ratio_of\":"
          "\"times\",\"ratio\":2.0,"
          "\"low\":1.9,\"high\":2.1}],\n   \"counts\": {\"validated_pairs\":4,\"validations\":15,\"failures\":0}},\n"),
      std::string::npos);
  EXPECT_NE(text.find("\"us\":20.0,\"wall_us\":21.0}"), std::string::npos);
}
// Changing one case changes its lines only.
TEST(CompareJson, ADiffIsLocal) {
  Results r = sample_results();
  const std::string before = to_json(r);
  r.cases[1].value.samples[1].round_us[0] = 19;
  const std::string after = to_json(r);
  const auto split = [](const std::string& text) {
    std::vector<std::string> lines(1);
    for (const char c : text) c == '\n' ? (void)lines.emplace_back() : lines.back().push_back(c);
    return lines;
  };
  const auto a = split(before), b = split(after);
  ASSERT_EQ(a.size(), b.size());
  int different = 0;
  for (size_t i = 0; i < a.size(); ++i) different += a[i] != b[i];
  EXPECT_EQ(different, 2);  // the sample and the pair
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("grout_compare_json." + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};
TEST(CompareFile, WrittenWholeOrNotAtAll) {
  const Folder folder;
  const auto file = folder.path / "results.json";
  write_file(file, to_json(sample_results()));
  EXPECT_EQ(read_results(file), sample_results());
  write_file(file, "shorter");
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "shorter");
  EXPECT_EQ(refusal_of([&] { (void)read_results(file); }).find(file.string() + ": cut off"), 0u);
  EXPECT_THROW(write_file(folder.path / "no" / "such" / "folder.json", "x"), std::runtime_error);
  std::filesystem::create_directories(folder.path / "taken" / "inside");
  EXPECT_THROW(write_file(folder.path / "taken", "x"), std::runtime_error);  // a folder: the renaming fails
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path)) ++entries;
  EXPECT_EQ(entries, 2);  // no temporary file stays
}
TEST(CompareFile, ThatDoesNotExist) {
  EXPECT_EQ(refusal_of([] { (void)read_results("/no/such/results.json"); }), "/no/such/results.json: cannot be read");
  EXPECT_EQ(refusal_of([] { (void)read_results("/"); }), "/: cannot be read");
}

}  // namespace
}  // namespace grout::compare
