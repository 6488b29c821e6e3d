// What is wrong in results.json is refused by file, case and field, whoever writes or reads it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "compare/json.h"
#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

using Json = nlohmann::ordered_json;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}
std::string refusal(const std::string& text) {
  return refusal_of([&] { (void)from_json(text, "dir/results.json"); });
}

const std::string kCase = "dir/results.json: case gemm 511x512x513 nn bf16, L2 warm: ";

TEST(CompareJsonRefuses, OtherFormatsAndVersions) {
  const std::string text = to_json(sample_results());
  EXPECT_EQ(refusal(replaced(text, "\"version\": 1", "\"version\": 2")),
            "dir/results.json: version is 2; this program reads 1");
  EXPECT_EQ(refusal(replaced(text, "\"version\": 1", "\"version\": \"1\"")),
            "dir/results.json: version is \"1\", not an integer");
  EXPECT_EQ(refusal(replaced(text, "\"version\": 1,", "\"other\": 1,")), "dir/results.json: version is missing");
  EXPECT_EQ(refusal(replaced(text, "grout comparison", "something")),
            "dir/results.json: format is \"something\", not \"grout comparison\"");
  EXPECT_EQ(refusal("[]"), "dir/results.json: is [], not an object");
}
TEST(CompareJsonRefuses, FilesCutOffAnywhere) {
  const std::string text = to_json(sample_results());
  for (size_t length = 0; length + 2 < text.size(); length += 1 + length / 40) {
    const std::string message = refusal(text.substr(0, length));
    EXPECT_EQ(message.find("dir/results.json: cut off, or no JSON at all ("), 0u) << length << ": " << message;
  }
  EXPECT_NE(refusal(text + "{}"), "taken");
  EXPECT_NE(refusal("\xff\xfe"), "taken");
}

// Every member of every object and every item of every list of the file.
void collect(const Json& json, const Json::json_pointer& place, std::vector<Json::json_pointer>& all) {
  if (json.is_object())
    for (const auto& [name, value] : json.items()) all.push_back(place / name), collect(value, place / name, all);
  if (json.is_array())
    for (size_t i = 0; i < json.size(); ++i) all.push_back(place / i), collect(json[i], place / i, all);
}
std::vector<Json::json_pointer> places(const Json& json) {
  std::vector<Json::json_pointer> all;
  collect(json, Json::json_pointer(), all);
  return all;
}
bool in_settings(const Json::json_pointer& place) {  // any name may stand there
  const std::string parent = place.parent_pointer().empty() ? "" : place.parent_pointer().back();
  for (const char* name : {"shape", "requested", "realised", "versions", "executables"})
    if (parent == name) return true;
  return false;
}
// The message is about that place: file, the case as far as it can be named, the field.
void expect_names(const std::string& message, const Json::json_pointer& place, const std::string& field) {
  EXPECT_EQ(message.find("dir/results.json: "), 0u) << place << ": " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_NE(message.find(field), std::string::npos) << place << ": " << message;
  const std::string text = place.to_string();
  if (text.find("/cases/0/") == 0 && text.find("/protocol") == std::string::npos && field != "suite" &&
      field != "name" && field != "cold") {
    EXPECT_EQ(message.find(kCase), 0u) << place << ": " << message;
  }
}
TEST(CompareJsonRefuses, EveryFieldThatIsMissing) {
  const Json whole = Json::parse(to_json(sample_results()));
  int tried = 0;
  for (const auto& place : places(whole)) {
    if (!whole.at(place.parent_pointer()).is_object() || in_settings(place)) continue;
    Json json = whole;
    json[place.parent_pointer()].erase(place.back());
    const std::string message = refusal(json.dump());
    expect_names(message, place, place.back());
    EXPECT_TRUE(message.ends_with(" is missing")) << place << ": " << message;
    ++tried;
  }
  EXPECT_GT(tried, 400);
}
TEST(CompareJsonRefuses, EveryFieldOfAnotherType) {
  const Json whole = Json::parse(to_json(sample_results()));
  for (const Json& wrong : {Json(true), Json(-1.5), Json("text"), Json({1}), Json::object(), Json(nullptr)}) {
    for (const auto& place : places(whole)) {
      const Json& right = whole.at(place);
      const bool is_float = right.is_number_float() && wrong.is_number(),
                 object = right.is_object() && wrong.is_object();
      const bool unknown = wrong.is_null() && (place.back() == "error" || place.back() == "bound");
      if (right.type() == wrong.type() || is_float || object || unknown) continue;
      Json json = whole;
      json[place] = wrong;
      const std::string message = refusal(json.dump());
      EXPECT_NE(message, "taken") << place << " = " << wrong;
      if (!whole.at(place.parent_pointer()).is_array()) expect_names(message, place, place.back());
    }
  }
}
TEST(CompareJsonRefuses, EveryUnknownField) {
  const Json whole = Json::parse(to_json(sample_results()));
  std::vector<Json::json_pointer> objects = places(whole);
  objects.emplace_back();
  for (const auto& place : objects) {
    if (!whole.at(place).is_object() || in_settings(place / "x")) continue;
    Json json = whole;
    json[place]["surprise"] = 1;
    const std::string message = refusal(json.dump());
    expect_names(message, place, "surprise");
    EXPECT_TRUE(message.ends_with("surprise is not expected here")) << place << ": " << message;
  }
}
// Medians, ratios, verdicts and counts must follow from the rounds.
TEST(CompareJsonRefuses, EveryDerivedFigureThatDoesNotFollow) {
  const Json whole = Json::parse(to_json(sample_results()));
  int tried = 0;
  for (const auto& place : places(whole)) {
    const std::string field = place.back();
    Json json = whole;
    if (field == "us" || field == "wall_us" || field == "ratio" || field == "low" || field == "high") {
      json[place] = std::nextafter(json[place].get<double>(), 1e9);
    } else if (field == "validated_pairs" || field == "validations" || field == "failures") {
      json[place] = json[place].get<int>() + 1;
    } else if (field == "ratio_of") {
      json[place] = "rates";
    } else if (field == "verdict") {
      json[place] = json[place] == "faster" ? "even" : "faster";
    } else {
      continue;
    }
    const std::string message = refusal(json.dump());
    expect_names(message, place, field);
    EXPECT_NE(message.find(", but from the rest of the file follows "), std::string::npos) << place << ": " << message;
    ++tried;
  }
  EXPECT_GT(tried, 50);
  // A round that was changed without its median.
  EXPECT_EQ(refusal(replaced(to_json(sample_results()), "\"round_us\":[40.0,38.0,42.0,40.0]",
                             "\"round_us\":[41.0,38.0,42.0,40.0]")),
            kCase + "samples[0].us is 40.0, but from the rest of the file follows 40.5");
}

// What must not be, whoever writes or reads it.
std::string refused_case(const std::function<void(Case&)>& change) {
  Results r = sample_results();
  change(r.cases[0].value);
  const std::string written = refusal_of([&] { (void)to_json(r, "dir/results.json"); });
  EXPECT_EQ(refusal_of([&] { check(r.cases[0].value, "dir/results.json"); }), written);
  return written;
}
TEST(CompareJsonRefuses, FiguresThatNobodyMayHave) {
  const auto at_mma = [](auto change) { return refused_case([&](Case& c) { change(c.samples[1]); }); };
  EXPECT_EQ(at_mma([](Sample& s) { s.failure = "wrong"; }),
            kCase + "samples[1].failure is \"wrong\", and yet there are figures");
  EXPECT_EQ(at_mma([](Sample& s) { s.failure = "wrong", s.round_us.clear(); }),
            kCase + "samples[1].failure is \"wrong\", and yet there are figures");
  EXPECT_EQ(refused_case([](Case& c) { c.samples[3].validated = 1; }),
            kCase + "samples[3].validated is 1, and yet there are figures: 0 are needed");  // a ceiling
  EXPECT_EQ(refused_case([](Case& c) { c.pairs[0].base = "copy"; }),
            kCase + "pairs[0].base is \"copy\", a ceiling, which is part of no ratio");
  for (const int validated : {0, 1, 4, 6})
    EXPECT_EQ(at_mma([&](Sample& s) { s.validated = validated; }),
              kCase + "samples[1].validated is " + std::to_string(validated) + ", and yet there are figures: 5 are needed");
  EXPECT_EQ(at_mma([](Sample& s) { s.elements = 0; }), kCase + "samples[1].elements is 0, and yet there are figures");
  EXPECT_EQ(at_mma([](Sample& s) { s.runs_per_batch = 0; }),
            kCase + "samples[1].runs_per_batch is 0, and yet there are figures");
  // Either all of a case settled for as long as the protocol says, or none.
  EXPECT_EQ(at_mma([](Sample& s) { s.settle_ms = 100; }), kCase + "samples[0].settle_ms is 0, but that of mma is 100");
  for (const double settle_ms : {7.0, 5000.0})
    EXPECT_EQ(refused_case([&](Case& c) {
                for (Sample& s : c.samples) s.settle_ms = settle_ms;
              }),
              kCase + "samples[0].settle_ms is " + std::to_string(static_cast<int>(settle_ms)) +
                  "; 0 and the protocol's 100 exist");
  EXPECT_EQ(refused_case([](Case& c) {
              for (Sample& s : c.samples) s.settle_ms = 100;
            }),
            "taken");
  EXPECT_EQ(refused_case([](Case& c) { c.protocol.settle_ms = NAN; }), kCase + "protocol.settle_ms is nan, which is no time");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_us.clear(), s.round_wall_us.clear(); }),
            kCase + "samples[1] has neither figures nor a failure that says why");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_us.pop_back(); }),
            kCase + "samples[1].round_us has 3 rounds, but the protocol has 4");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_us.clear(); }),
            kCase + "samples[1].round_us has 0 rounds, but the protocol has 4");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_wall_us.push_back(1); }),
            kCase + "samples[1].round_wall_us has 5 rounds, but the protocol has 4");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_us[2] = 0; }), kCase + "samples[1].round_us[2] is 0, which is no time");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_us[2] = -1; }), kCase + "samples[1].round_us[2] is -1, which is no time");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_wall_us[0] = NAN; }),
            kCase + "samples[1].round_wall_us[0] is nan, which is no time");
  EXPECT_EQ(at_mma([](Sample& s) { s.round_us[0] = INFINITY; }),
            kCase + "samples[1].round_us[0] is inf, which is no time");
  EXPECT_EQ(at_mma([](Sample& s) { s.error = 0.6; }),
            kCase + "samples[1].error is 0.6 of a bound of 0.5, and yet there are figures");
  EXPECT_EQ(at_mma([](Sample& s) { s.error = NAN; }),
            kCase + "samples[1].error is nan of a bound of 0.5, and yet there are figures");
  EXPECT_EQ(at_mma([](Sample& s) { s.flops = NAN; }), kCase + "samples[1].flops is nan, which is no count");
  EXPECT_EQ(at_mma([](Sample& s) { s.tiles = -1; }), kCase + "samples[1].tiles is -1, which is no count");
  EXPECT_EQ(at_mma([](Sample& s) { s.name = "cublas"; }), kCase + "samples[0].name is cublas, as another sample's");
  EXPECT_EQ(at_mma([](Sample& s) { s.realised.push_back(s.realised[0]); }),
            kCase + "samples[1].realised has kernel twice");
  EXPECT_EQ(at_mma([](Sample& s) { s.prepares = "cublas"; }),
            kCase + "samples[1].prepares is set, but this is no preparation");
}
TEST(CompareJsonRefuses, CasesThatDoNotHoldTogether) {
  EXPECT_EQ(refused_case([](Case& c) { c.samples[2].prepares = ""; }),
            kCase + "samples[2].prepares is \"\", which is no policy or peer of the case");
  EXPECT_EQ(refused_case([](Case& c) { c.samples[2].prepares = "copy"; }),
            kCase + "samples[2].prepares is \"copy\", which is no policy or peer of the case");
  EXPECT_EQ(refused_case([](Case& c) { c.pairs[0].base = "nobody"; }),
            kCase + "pairs[0].base is \"nobody\", which is no sample of the case");
  EXPECT_EQ(refused_case([](Case& c) { c.pairs[0].candidate = "pad"; }),
            kCase + "pairs[0].candidate is \"pad\", a preparation, which is part of no ratio");
  EXPECT_EQ(refused_case([](Case& c) { c.pairs[0].candidate = "cublas"; }),
            kCase + "pairs[0] pairs cublas with itself");
  EXPECT_EQ(refused_case([](Case& c) { c.pairs.push_back(c.pairs[0]); }), kCase + "pairs[0] stands twice");
  EXPECT_EQ(refused_case([](Case& c) { c.protocol.name = "quick"; }),
            kCase + "protocol.name is \"quick\", neither headline nor sweep");
  EXPECT_EQ(refused_case([](Case& c) { c.protocol.rounds = 0; }), kCase + "protocol.rounds is 0; at least 1 is needed");
  EXPECT_EQ(refused_case([](Case& c) { c.protocol.batch_ms = NAN; }),
            kCase + "protocol.batch_ms is nan, which is no time");
  EXPECT_EQ(refused_case([](Case& c) { c.bytes = -1; }), kCase + "bytes is -1, which is no count");
  EXPECT_EQ(refused_case([](Case& c) { c.after.watts = NAN; }), kCase + "after.watts is not finite");
  EXPECT_EQ(refused_case([](Case& c) { c.shape.push_back({"m", "1"}); }), kCase + "shape has m twice");
  EXPECT_EQ(refused_case([](Case& c) { c.name = ""; }), "dir/results.json: case gemm , L2 warm: name is empty");
}
TEST(CompareJsonRefuses, CasesTwiceAndRunsThatAreNot) {
  Results r = sample_results();
  r.cases.push_back(r.cases[0]);
  EXPECT_EQ(refusal_of([&] { (void)to_json(r, "dir/results.json"); }),
            kCase + "name stands twice among the cases of this suite and cache mode");
  r = sample_results();
  r.cases[0].run = 1;
  EXPECT_EQ(refusal_of([&] { (void)to_json(r, "dir/results.json"); }), kCase + "run is 1, but there are 1 runs");
  Json json = Json::parse(to_json(sample_results()));
  json["cases"].push_back(json["cases"][0]);
  EXPECT_EQ(refusal(json.dump()), kCase + "name stands twice among the cases of this suite and cache mode");
  json["cases"].erase(4);
  json["cases"][0]["run"] = 7;
  EXPECT_EQ(refusal(json.dump()), kCase + "run is 7, but there are 1 runs");
  json["cases"][0]["run"] = -1;
  EXPECT_EQ(refusal(json.dump()), kCase + "run is -1, not an integer that fits");
}
TEST(CompareJsonRefuses, FieldsTwiceAndNumbersTooLarge) {
  const std::string text = to_json(sample_results());
  EXPECT_EQ(refusal(replaced(text, "\"validated\":5", "\"validated\":5,\"validated\":5")),
            "dir/results.json: the field validated stands twice in one object");
  EXPECT_EQ(refusal(replaced(text, "\"tiles\":561", "\"tiles\":9223372036854775808")),
            kCase + "samples[0].tiles is 9223372036854775808, not an integer that fits");
  EXPECT_EQ(refusal(replaced(text, "\"validated\":5", "\"validated\":2147483648")),
            kCase + "samples[0].validated is 2147483648, not an integer that fits");
  EXPECT_EQ(refusal(replaced(text, "\"tiles\":561", "\"tiles\":561.0")),
            kCase + "samples[0].tiles is 561.0, not an integer");
  EXPECT_EQ(refusal(replaced(text, "\"role\":\"peer\"", "\"role\":\"friend\"")),
            kCase + "samples[0].role is \"friend\", not policy, peer, preparation or ceiling");
  EXPECT_NE(refusal(replaced(text, "\"flops\":2000000000.0", "\"flops\":1e999")), "taken");
}

}  // namespace
}  // namespace grout::compare
