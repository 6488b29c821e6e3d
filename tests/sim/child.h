// A test's own program run again, for what only another process can show: what a sanitizer ends, or an environment.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace grout::test {

struct Child {
  int exit_code = -1;  // also if it did not end by itself
  std::string text;    // what it wrote to its standard output and error
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};
inline Child run_child(const std::string& command) {
  Child child;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return child;
  char buffer[4096];
  while (const size_t bytes = fread(buffer, 1, sizeof buffer, pipe)) child.text.append(buffer, bytes);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) child.exit_code = WEXITSTATUS(status);
  return child;
}

}  // namespace grout::test
