// The option parser, its refusals word for word, the choice of device, and the last line.
#include "common/args.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace grout {
namespace {

enum class Layout { nn, nt, tn, tt };

// An Args over the words, with a few options read the way an example binary does.
struct Parsed {
  std::vector<const char*> words;
  Args args;
  int64_t m, n, lda;
  Layout layout;
  std::string type;
  double alpha;
  std::pair<int64_t, int64_t> origin;
  bool causal;

  explicit Parsed(std::initializer_list<const char*> list)
      : words([&] {
          std::vector<const char*> all{"gemm_mma"};
          all.insert(all.end(), list);
          return all;
        }()),
        args(static_cast<int>(words.size()), words.data(), "a summary", {"causal"}) {
    m = args.positional("M", "rows");
    n = args.positional("N", "columns", 7);
    lda = args.integer("lda", "elements of a stored row", 3, 1);
    layout = args.choice<Layout>("layout", "how A and B are stored",
                                 {{"nn", Layout::nn}, {"nt", Layout::nt}, {"tn", Layout::tn}, {"tt", Layout::tt}},
                                 Layout::nn);
    type = args.choice<std::string>("type", "of A and B", {{"bf16", "bf16"}, {"f16", "f16"}, {"f32", "f32", false}},
                                    "bf16");
    alpha = args.number("alpha", "factor", 1);
    origin = args.pair("origin", "of the window", {0, 0});
    causal = args.flag("causal", "mask");
  }
  std::string refusal() {
    testing::internal::CaptureStderr();
    const auto code = args.finish();
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(code.value_or(-1), text.empty() ? -1 : 2);
    return text;
  }
};

TEST(Args, ReadsEveryForm) {
  Parsed p{"65", "--lda=80", "--layout", "tn", "97", "--alpha", "-0.5", "--origin", "-3,+4", "--causal"};
  EXPECT_NE(p.refusal(), "");  // from_chars takes no plus sign
  Parsed q{"65", "--lda=80", "--layout", "tn", "97", "--alpha", "-0.5", "--origin", "-3,4", "--causal"};
  EXPECT_EQ(q.refusal(), "");
  EXPECT_EQ(q.m, 65);
  EXPECT_EQ(q.n, 97);
  EXPECT_EQ(q.lda, 80);
  EXPECT_EQ(q.layout, Layout::tn);
  EXPECT_EQ(q.alpha, -0.5);
  EXPECT_EQ(q.origin, (std::pair<int64_t, int64_t>{-3, 4}));
  EXPECT_TRUE(q.causal);
  Parsed r{"0"};
  EXPECT_EQ(r.refusal(), "");
  EXPECT_EQ(r.m, 0);
  EXPECT_EQ(r.n, 7);
  EXPECT_EQ(r.lda, 3);
  EXPECT_EQ(r.type, "bf16");
  EXPECT_FALSE(r.causal);
  EXPECT_FALSE(r.args.given("lda"));
}

TEST(Args, RefusesInOneSentenceWithTheValues) {
  EXPECT_EQ(Parsed({"1", "--layout", "nm"}).refusal(), "unknown --layout 'nm': nn, nt, tn, tt exist\n");
  EXPECT_EQ(Parsed({"1", "--type", "f32"}).refusal(), "--type f32 is not built yet: bf16, f16 exist\n");
  EXPECT_EQ(Parsed({"1", "--type", "f64"}).refusal(), "unknown --type 'f64': bf16, f16 exist\n");
  EXPECT_EQ(Parsed({"-1"}).refusal(), "M is -1: at least 0 is accepted\n");
  EXPECT_EQ(Parsed({"x"}).refusal(), "M is 'x': an integer is expected\n");
  EXPECT_EQ(Parsed({"12.5"}).refusal(), "M is '12.5': an integer is expected\n");
  EXPECT_EQ(Parsed({"9223372036854775808"}).refusal(), "M is 9223372036854775808: integers of 64 bits are accepted\n");
  EXPECT_EQ(Parsed({}).refusal(), "M is missing: an integer is expected\n");
  EXPECT_EQ(Parsed({"1", "2", "3"}).refusal(), "unexpected argument '3': usage: gemm_mma M [N] [options]\n");
  EXPECT_EQ(Parsed({"1", "--lda", "0"}).refusal(), "--lda is 0: at least 1 is accepted\n");
  EXPECT_EQ(Parsed({"1", "--lda"}).refusal(), "--lda needs a value: E\n");
  EXPECT_EQ(Parsed({"1", "--lda", "--causal"}).refusal(), "--lda needs a value: E\n");
  EXPECT_EQ(Parsed({"1", "--lda", "3", "--lda=4"}).refusal(), "--lda is given twice\n");
  EXPECT_EQ(Parsed({"1", "--causal=1"}).refusal(), "--causal takes no value, '1' was given\n");
  EXPECT_EQ(Parsed({"1", "--alpha", "nan"}).refusal(), "--alpha is 'nan': a finite number is expected\n");
  EXPECT_EQ(Parsed({"1", "--alpha", "1e999"}).refusal(), "--alpha is '1e999': a finite number is expected\n");
  EXPECT_EQ(Parsed({"1", "--alpha", "-1e300"}).refusal(),
            "--alpha is '-1e300': a finite number is expected, at most 3.4e38, the largest of fp32\n");
  EXPECT_EQ(Parsed({"1", "--alpha", "0x10"}).refusal(), "--alpha is '0x10': a finite number is expected\n");
  EXPECT_EQ(Parsed({"1", "--origin", "3"}).refusal(), "--origin is '3': two integers R,C are expected\n");
  EXPECT_EQ(Parsed({"1", "--origin", "3,4,5"}).refusal(), "--origin is '3,4,5': two integers R,C are expected\n");
  EXPECT_EQ(Parsed({"1", "--origin", "3,y"}).refusal(), "--origin, columns, is 'y': an integer is expected\n");
  // The unknown option swallows M; it is what the sentence names.
  EXPECT_EQ(Parsed({"--ldq", "1"}).refusal(),
            "unknown option '--ldq': --lda, --layout, --type, --alpha, --origin, --causal exist\n");
}

TEST(Args, Lists) {
  using Lists = std::optional<std::pair<std::vector<int64_t>, std::vector<int64_t>>>;
  const auto read = [](const char* value, std::string* refusal = nullptr) {
    const char* words[] = {"p", "--lengths", value};
    Args args(value == nullptr ? 1 : 3, words, "s");
    const Lists lists = args.lists("lengths", "Q1,Q2,..:K1,K2,..", "of the sequences", 0, 100);
    EXPECT_EQ(args.refusals().empty(), lists.has_value() || value == nullptr);
    if (refusal != nullptr) *refusal = args.refusals().empty() ? "" : args.refusals().front();
    return lists;
  };
  EXPECT_EQ(read(nullptr), std::nullopt);
  EXPECT_EQ(read("5:7"), (Lists{{{5}, {7}}}));
  EXPECT_EQ(read("1,0,100:0,2,3"), (Lists{{{1, 0, 100}, {0, 2, 3}}}));
  const auto refusal = [&](const char* value) {
    std::string text;
    EXPECT_EQ(read(value, &text), std::nullopt) << value;
    return text;
  };
  EXPECT_EQ(refusal("1,2"), "--lengths is '1,2': two lists of integers, Q1,Q2,..:K1,K2,.., are expected");
  EXPECT_EQ(refusal("1:2:3"), "--lengths is '1:2:3': two lists of integers, Q1,Q2,..:K1,K2,.., are expected");
  EXPECT_EQ(refusal("1,2:3"), "--lengths is '1,2:3': lists of 2 and of 1 numbers, equal counts are expected");
  EXPECT_EQ(refusal(":3"), "--lengths, number 1 of '', is '': an integer is expected");
  EXPECT_EQ(refusal("3:"), "--lengths, number 1 of '', is '': an integer is expected");
  EXPECT_EQ(refusal("3,:4,5"), "--lengths, number 2 of '3,', is '': an integer is expected");
  EXPECT_EQ(refusal("3:4,,5"), "--lengths, number 2 of '4,,5', is '': an integer is expected");
  EXPECT_EQ(refusal("3:x"), "--lengths, number 1 of 'x', is 'x': an integer is expected");
  EXPECT_EQ(refusal("3,-1:4,5"), "--lengths, number 2 of '3,-1', is -1: 0 to 100 is accepted");
  EXPECT_EQ(refusal("3:101"), "--lengths, number 1 of '101', is 101: 0 to 100 is accepted");
  EXPECT_EQ(refusal("9223372036854775808:1"), "--lengths, number 1 of '9223372036854775808', is 9223372036854775808: integers of 64 bits are accepted");
}

TEST(Args, CommonOptions) {
  const auto read = [](std::vector<const char*> words, CommonOptions& options) {
    words.insert(words.begin(), "p");
    Args args(static_cast<int>(words.size()), words.data(), "s");
    options = common_options(args, {{"auto", "auto"}, {"mma", "mma"}, {"wgmma", "wgmma", false}});
    return args.refusals().empty() ? std::string() : args.refusals().front();
  };
  CommonOptions o;
  EXPECT_EQ(read({"--device", "sim", "--seed", "42", "--data", "integers", "--json", "x.json"}, o), "");
  EXPECT_EQ(o.device, Device::sim);
  EXPECT_EQ(o.seed, 42u);
  EXPECT_EQ(o.data, Data::integers);
  EXPECT_EQ(o.kernel, "auto");
  EXPECT_EQ(read({"--kernel", "wgmma"}, o), "--kernel wgmma is not built yet: auto, mma exist");
  EXPECT_EQ(read({"--device", "tpu"}, o), "unknown --device 'tpu': gpu, sim, auto exist");
  EXPECT_EQ(read({"--sim-sms", "0"}, o), "--sim-sms is 0: 1 to 4096 is accepted");
  EXPECT_EQ(read({"--json", "/no/such/x.json"}, o),
            "--json /no/such/x.json needs an existing folder: '/no/such' is none");
  EXPECT_EQ(read({"--json", "/tmp"}, o), "--json /tmp is a folder: the name of a file is expected");
}

TEST(Args, RefusesWhatHostMemoryCannotHold) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_EQ(refuse_memory("M=1", 1e9, 1e9), std::nullopt);
  testing::internal::CaptureStderr();
  EXPECT_EQ(refuse_memory("M=100000", 2.5e11, 2e10), 77);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "M=100000 needs about 250 GB of host memory, of which 20 GB are available\n");
}

TEST(Args, HelpListsEverything) {
  Parsed p{"--help"};
  testing::internal::CaptureStdout();
  EXPECT_EQ(p.args.finish(), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  for (const char* part : {"a summary\nusage: gemm_mma M [N] [options]\n", "  --lda E: elements of a stored row (3)\n",
                           "  --layout (nn, nt, tn, tt): how A and B are stored (nn)\n", "  --causal: mask\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Device, Decision) {
  const std::string none = "no usable GPU: the driver lists none";
  EXPECT_EQ(decide_device(Device::automatic, false, true, "").hand, Hand::here);
  EXPECT_EQ(decide_device(Device::gpu, false, true, "").hand, Hand::here);
  EXPECT_EQ(decide_device(Device::sim, false, true, "").hand, Hand::sibling);
  EXPECT_EQ(decide_device(Device::automatic, false, false, none).sentence, "device: sim (" + none + ")");
  EXPECT_EQ(decide_device(Device::automatic, false, false, none).hand, Hand::sibling);
  EXPECT_EQ(decide_device(Device::gpu, false, false, none).sentence, "--device gpu is not possible: " + none);
  EXPECT_EQ(decide_device(Device::gpu, false, false, none).hand, Hand::refuse);
  EXPECT_EQ(decide_device(Device::gpu, true, false, none).hand, Hand::refuse);
  EXPECT_EQ(decide_device(Device::automatic, true, false, none).hand, Hand::here);
  EXPECT_EQ(decide_device(Device::sim, true, false, none).hand, Hand::here);
}

TEST(Device, HandsOverToTheSiblingWithTheSameArguments) {
  const std::string sibling = std::filesystem::read_symlink("/proc/self/exe").string() + "_sim";
  char name[] = "p", word[] = "65", option[] = "--device=sim";
  char* argv[] = {name, word, option, nullptr};
  std::filesystem::remove(sibling);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(choose_device(Device::sim, false, true, "", argv), 77);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "device: sim (asked for)\n");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(sibling + " is not built: cmake --build "), std::string::npos) << text;
  std::ofstream(sibling) << "#!/bin/sh\necho \"got $*\" >&2\nexit 5\n";
  std::filesystem::permissions(sibling, std::filesystem::perms::owner_all);
  EXPECT_EXIT(choose_device(Device::sim, false, true, "", argv), testing::ExitedWithCode(5), "got 65 --device=sim");
  std::filesystem::remove(sibling);
}

TEST(Program, EndsWithItsCodeOrOneForWhatItThrows) {
  char name[] = "gemm_mma", word[] = "65";
  char* argv[] = {name, word, nullptr};
  const auto ends = [&](int (*run)(int, char**)) {
    testing::internal::CaptureStderr();
    const int code = run_program(run, 2, argv);
    return std::pair{code, testing::internal::GetCapturedStderr()};
  };
  EXPECT_EQ(ends([](int argc, char**) { return 40 + argc; }), (std::pair{42, std::string()}));
  EXPECT_EQ(ends([](int, char**) -> int { throw std::bad_alloc(); }),
            (std::pair{77, std::string("there is not enough host memory for this problem: gemm_mma 65\n")}));
  EXPECT_EQ(ends([](int, char**) -> int { throw std::runtime_error("no luck"); }),
            (std::pair{1, std::string("no luck\n")}));
}

TEST(Report, LineAndJson) {
  const RunResult r{true, "mma", "sim", "bounded", {{"M", 65}, {"N", 97}, {"K", 73}}, 0.25, 0.5, 12.5};
  EXPECT_EQ(result_text(r, false),
            "PASS kernel=mma device=sim path=bounded M=65 N=97 K=73 error=0.25 bound=0.5 time_us=12.500\n");
  RunResult bad = r;
  bad.pass = false;
  bad.error = NAN;
  EXPECT_EQ(result_text(bad, false),
            "FAIL kernel=mma device=sim path=bounded M=65 N=97 K=73 error=nan bound=0.5 time_us=12.500\n");
  const std::string json =
      "{\"result\": \"FAIL\", \"kernel\": \"mma\", \"device\": \"sim\", \"path\": \"bounded\", \"M\": 65, \"N\": 97, "
      "\"K\": 73, \"error\": null, \"bound\": 0.5, \"time_us\": 12.500}\n";
  EXPECT_EQ(result_text(bad, true), json);
  CommonOptions options;
  options.json = testing::TempDir() + "args_test.json";
  EXPECT_EQ(report(r, options), 0);
  EXPECT_EQ(report(bad, options), 1);
  std::stringstream text;
  text << std::ifstream(options.json).rdbuf();
  EXPECT_EQ(text.str(), json);
  options.json = "/no/such/folder/x.json";
  EXPECT_EQ(report(r, options), 1);
  std::filesystem::remove(testing::TempDir() + "args_test.json");
}

}  // namespace
}  // namespace grout
