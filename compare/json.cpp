#include "compare/json.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace grout::compare {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "grout comparison";

// ---- the fields of each struct: one list for writing and reading ----

template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

void fields(Is<Protocol> auto& p, auto&& field) {
  field("name", p.name);
  field("rounds", p.rounds);
  field("batches", p.batches);
  field("batch_ms", p.batch_ms);
  field("warm_up_ms", p.warm_up_ms);
  field("settle_ms", p.settle_ms);
  field("cold", p.cold);
}
void fields(Is<Clocks> auto& c, auto&& field) {
  field("sm_mhz", c.sm_mhz);
  field("memory_mhz", c.memory_mhz);
  field("celsius", c.celsius);
  field("watts", c.watts);
}
void fields(Is<Sample> auto& s, auto&& field) {
  field("name", s.name);
  field("role", s.role);
  field("prepares", s.prepares);
  field("requested", s.requested);
  field("realised", s.realised);
  field("tiles", s.tiles);
  field("resident", s.resident);
  field("flops", s.flops);
  field("bytes", s.bytes);
  field("graph", s.graph);
  field("runs_per_batch", s.runs_per_batch);
  field("settle_ms", s.settle_ms);
  field("elements", s.elements);
  field("validated", s.validated);
  field("error", s.error);
  field("bound", s.bound);
  field("round_us", s.round_us);
  field("round_wall_us", s.round_wall_us);
  field("failure", s.failure);
}
void fields(Is<Pair> auto& p, auto&& field) {
  field("base", p.base);
  field("candidate", p.candidate);
}
void fields(Is<Case> auto& c, auto&& field) {
  field("suite", c.suite);
  field("name", c.name);
  field("shape", c.shape);
  field("protocol", c.protocol);
  field("flops", c.flops);
  field("bytes", c.bytes);
  field("before", c.before);
  field("after", c.after);
  field("samples", c.samples);
  field("pairs", c.pairs);
}
void fields(Is<Run> auto& r, auto&& field) {
  field("command", r.command);
  field("date", r.date);
  field("commit", r.commit);
  field("dirty", r.dirty);
  field("executables", r.executables);
  field("device", r.device);
  field("capability", r.capability);
  field("driver", r.driver);
  field("toolkit", r.toolkit);
  field("sms", r.sms);
  field("l2_bytes", r.l2_bytes);
  field("versions", r.versions);
  field("beside", r.beside);
}

// ---- writing ----

Json json_of(const Counts& n) {
  return {{"validated_pairs", n.validated_pairs}, {"validations", n.validations}, {"failures", n.failures}};
}

template <class T>
Json json_of(const T& value) {
  if constexpr (std::same_as<T, Role>) {
    return role_names[static_cast<int>(value)];
  } else if constexpr (std::same_as<T, double>) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);  // check() leaves such only where a sample failed
  } else if constexpr (std::same_as<T, Settings>) {
    Json object = Json::object();
    for (const auto& [name, setting] : value) object[name] = setting;
    return object;
  } else if constexpr (requires { typename T::value_type; } && !std::same_as<T, std::string>) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(json_of(item));
    return list;
  } else if constexpr (std::is_class_v<T> && !std::same_as<T, std::string>) {
    Json object = Json::object();
    fields(value, [&](const char* name, const auto& member) { object[name] = json_of(member); });
    if constexpr (std::same_as<T, Sample>) {
      if (value.has_figure()) object["us"] = value.us(), object["wall_us"] = value.wall_us();
    }
    return object;
  } else {
    return value;
  }
}

Json json_of(const Results::Entry& entry) {
  const Case& c = entry.value;
  Json object = json_of(c);
  object["run"] = entry.run;
  for (size_t i = 0; i < c.pairs.size(); ++i) {
    const Verdict v = verdict(c, c.pairs[i]);
    Json& pair = object["pairs"][i];
    pair["validated_pairs"] = validated_pairs(c, c.pairs[i]);
    pair["verdict"] = verdict_names[static_cast<int>(v.kind)];
    if (v.kind == Verdict::Kind::none) continue;
    pair["ratio_of"] = v.rates ? "rates" : "times";
    pair["ratio"] = v.ratio.median, pair["low"] = v.ratio.low, pair["high"] = v.ratio.high;
  }
  object["counts"] = json_of(counts(c));
  return object;
}

Json json_of(const Results& results) {
  Json all = {{"format", kFormat}, {"version", format_version}, {"runs", Json::array()}, {"cases", Json::array()}};
  for (const Run& run : results.runs) all["runs"].push_back(json_of(run));
  Counts total;
  for (const Results::Entry& entry : results.cases) {
    all["cases"].push_back(json_of(entry));
    total += counts(entry.value);
  }
  all["counts"] = json_of(total);
  return all;
}

// The members named, in this order, on one line: "a": 1, "b": 2
std::string members(const Json& object, std::initializer_list<const char*> names) {
  std::string line;
  for (const char* name : names)
    line += fmt::format("{}\"{}\": {}", line.empty() ? "" : ", ", name,
                        object.at(name).dump(-1, ' ', false, Json::error_handler_t::replace));
  return line;
}
std::string one_a_line(const Json& list, const char* indent) {
  if (list.empty()) return "[]";
  std::string lines;
  for (const Json& item : list)
    lines += fmt::format("{}\n{}{}", lines.empty() ? "" : ",", indent,
                         item.dump(-1, ' ', false, Json::error_handler_t::replace));
  return "[" + lines + "]";
}

// ---- reading ----

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

const Json& member(const Json& object, const char* name, const Place& place) {
  if (!object.is_object()) place.refuse("is " + shown(object) + ", not an object");
  const auto found = object.find(name);
  if (found == object.end()) place.member(name).refuse("is missing");
  return *found;
}

template <class T>
void read(const Json& json, T& value, const Place& place) {
  const auto is_not = [&](const char* wanted) { place.refuse(fmt::format("is {}, not {}", shown(json), wanted)); };
  if constexpr (std::same_as<T, std::string>) {
    if (!json.is_string()) is_not("a text");
    value = json.get<std::string>();
  } else if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) is_not("true or false");
    value = json.get<bool>();
  } else if constexpr (std::same_as<T, double>) {
    if (json.is_null() && (place.path.ends_with(".error") || place.path.ends_with(".bound"))) {
      value = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    if (!json.is_number()) is_not("a number");
    value = json.get<double>();
  } else if constexpr (std::integral<T>) {
    if (!json.is_number_integer()) is_not("an integer");
    const bool large = json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{std::numeric_limits<T>::max()};
    if (large || (!json.is_number_unsigned() && std::cmp_less(json.get<int64_t>(), std::numeric_limits<T>::min())))
      is_not("an integer that fits");
    value = json.get<T>();
  } else if constexpr (std::same_as<T, Role>) {
    std::string name;
    read(json, name, place);
    const auto found = std::find(std::begin(role_names), std::end(role_names), name);
    if (found == std::end(role_names)) is_not("policy, peer, preparation or ceiling");
    value = static_cast<Role>(found - std::begin(role_names));
  } else if constexpr (std::same_as<T, Settings>) {
    if (!json.is_object()) is_not("an object");
    for (const auto& [name, setting] : json.items())
      read(setting, value.emplace_back(name, "").second, place.member(name));
  } else if constexpr (requires { typename T::value_type; }) {
    if (!json.is_array()) is_not("a list");
    for (size_t i = 0; i < json.size(); ++i) read(json[i], value.emplace_back(), place.item(i));
  } else {
    fields(value, [&](const char* name, auto& field) { read(member(json, name, place), field, place.member(name)); });
  }
}

// Refuses at the first place where `found` is not `expected`: a derived figure that does not follow, a field nobody
// knows.
void require_same(const Json& expected, const Json& found, const Place& place) {
  if (expected.is_object() && found.is_object()) {
    for (const auto& [name, value] : found.items())
      if (!expected.contains(name)) place.member(name).refuse("is not expected here");
    for (const auto& [name, value] : expected.items())
      require_same(value, member(found, name.c_str(), place), place.member(name));
  } else if (expected.is_array() && found.is_array() && expected.size() == found.size()) {
    for (size_t i = 0; i < expected.size(); ++i) require_same(expected[i], found[i], place.item(i));
  } else if (expected != found) {
    place.refuse(fmt::format("is {}, but from the rest of the file follows {}", shown(found), shown(expected)));
  }
}

// Parses; a member that stands twice in an object is refused, as the library would keep one of them silently.
Json parsed(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const Json::parser_callback_t watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second && twice.empty())
      twice = value.get<std::string>();
    return true;
  };
  try {
    Json json = Json::parse(text, watch);
    if (!twice.empty()) throw Refusal(fmt::format("{}: the field {} stands twice in one object", file, twice));
    return json;
  } catch (const Json::exception& error) {
    throw Refusal(fmt::format("{}: cut off, or no JSON at all ({})", file, error.what()));
  }
}

}  // namespace

std::string to_json(const Results& results, const std::string& file) {
  check(results, file);
  const Json all = json_of(results);
  std::string text = fmt::format("{{\n{},\n\"runs\": {},\n\"cases\": [", members(all, {"format", "version"}),
                                 one_a_line(all["runs"], "  "));
  const char* separator = "\n";
  for (const Json& c : all["cases"]) {
    text += fmt::format("{}  {{{},\n   {},\n   {},\n   \"samples\": {},\n   \"pairs\": {},\n   {}}}", separator,
                        members(c, {"suite", "name", "run", "shape"}), members(c, {"protocol", "flops", "bytes"}),
                        members(c, {"before", "after"}), one_a_line(c["samples"], "    "),
                        one_a_line(c["pairs"], "    "), members(c, {"counts"}));
    separator = ",\n";
  }
  return text + fmt::format("],\n{}\n}}\n", members(all, {"counts"}));
}

Results from_json(const std::string& text, const std::string& file) {
  const Json all = parsed(text, file);
  const Place top{file, ""};
  std::string format;
  int version = 0;
  if (!all.is_object()) throw Refusal(fmt::format("{}: is {}, not an object", file, shown(all)));
  read(member(all, "format", top), format, top.member("format"));
  if (format != kFormat) top.member("format").refuse(fmt::format("is \"{}\", not \"{}\"", format, kFormat));
  read(member(all, "version", top), version, top.member("version"));
  if (version != format_version)
    top.member("version").refuse(fmt::format("is {}; this program reads {}", version, format_version));
  Results results;
  read(member(all, "runs", top), results.runs, top.member("runs"));
  const Json& cases = member(all, "cases", top);
  if (!cases.is_array()) top.member("cases").refuse("is no list");
  for (size_t i = 0; i < cases.size(); ++i) {
    const Place unnamed = top.member("cases").item(i);
    Results::Entry& entry = results.cases.emplace_back();
    // What names the case comes first, so that all else can be said of it by name.
    read(member(cases[i], "suite", unnamed), entry.value.suite, unnamed.member("suite"));
    read(member(cases[i], "name", unnamed), entry.value.name, unnamed.member("name"));
    read(member(cases[i], "protocol", unnamed), entry.value.protocol, unnamed.member("protocol"));
    const Place place = place_of(entry.value, file);
    entry.value = {};
    read(cases[i], entry.value, place);
    read(member(cases[i], "run", place), entry.run, place.member("run"));
  }
  check(results, file);
  const Json expected = json_of(results);
  for (size_t i = 0; i < cases.size(); ++i)
    require_same(expected["cases"][i], cases[i], place_of(results.cases[i].value, file));
  require_same(expected, all, top);
  return results;
}

Results read_results(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file)) throw Refusal(fmt::format("{}: cannot be read", file.string()));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) throw Refusal(fmt::format("{}: cannot be read to its end", file.string()));
  return from_json(text, file.string());
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.new", file.string(), getpid());
  const auto fail = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    unlink(temporary.c_str());
    throw std::runtime_error(fmt::format("{}: cannot {}: {}", file.string(), what, reason));
  };
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail("be created");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int reason = errno;
      close(descriptor);
      errno = reason;
      fail("be written");
    }
    done += static_cast<size_t>(count);
  }
  const bool kept = fsync(descriptor) == 0;
  if (close(descriptor) != 0 || !kept) fail("be written");
  if (rename(temporary.c_str(), file.c_str()) != 0) fail("be renamed to");
}

}  // namespace grout::compare
