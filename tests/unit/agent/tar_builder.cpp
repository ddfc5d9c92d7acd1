#include "tar_builder.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace daiv::agent::test {
namespace {

void put(std::string& header, std::size_t offset, std::string_view text) {
  header.replace(offset, text.size(), text);
}

std::string octal(std::uint64_t value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%0*lo", digits, static_cast<unsigned long>(value));
  return text.data();
}

}  // namespace

TarBuilder& TarBuilder::member(char type, std::string_view name, std::string_view content,
                               const Extra& extra) {
  std::string header(512, '\0');
  put(header, 0, name.substr(0, 100));
  put(header, 100, octal(extra.mode, 7));
  put(header, 108, octal(0, 7));
  put(header, 116, octal(0, 7));
  put(header, 124, octal(content.size(), 11));
  put(header, 136, octal(extra.modified, 11));
  put(header, 148, "        ");
  header[156] = type;
  put(header, 157, extra.link);
  put(header, 257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(header, 148, octal(sum, 6));
  header[154] = '\0';
  bytes_ += header;
  bytes_ += content;
  bytes_.resize((bytes_.size() + 511) / 512 * 512);
  return *this;
}

TarBuilder& TarBuilder::pax(char type, std::string_view key, std::string_view value) {
  const std::string record = " " + std::string(key) + "=" + std::string(value) + "\n";
  std::size_t length = record.size();
  while (length != record.size() + std::to_string(length).size())
    length = record.size() + std::to_string(length).size();
  return member(type, "pax_global_header", std::to_string(length) + record, {});
}

std::string filter_through(const std::string& command, std::string_view bytes) {
  std::string name = "/tmp/agent-tar-XXXXXX";
  ::close(::mkstemp(name.data()));
  std::ofstream(name, std::ios::binary) << bytes;
  FILE* const pipe = ::popen(("{ " + command + "; } < " + name).c_str(), "r");
  std::string result;
  std::array<char, 65536> buffer{};
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.append(buffer.data(), count);
  ::pclose(pipe);
  ::unlink(name.c_str());
  return result;
}

}  // namespace daiv::agent::test
