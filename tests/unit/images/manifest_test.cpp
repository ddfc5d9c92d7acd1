#include "images/manifest.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace daiv::images {
namespace {

std::string digest_text(char c) { return "sha256:" + std::string(64, c); }

std::string descriptor(char c, std::string_view more = {}) {
  return fmt::format(R"({{"digest":"{}","size":10{}}})", digest_text(c), more);
}

std::string manifest_with(std::string_view layers, std::string_view head = R"("schemaVersion":2)") {
  return fmt::format(R"({{{},"config":{},"layers":[{}]}})", head, descriptor('c'), layers);
}

Manifest manifest_of(std::string_view text, std::string_view type = {}) {
  return std::get<Manifest>(parse_manifest(text, type).value());
}

std::string error_of(std::string_view text, std::string_view type = {}) {
  const auto parsed = parse_manifest(text, type);
  return parsed ? "NO ERROR" : parsed.error().text;
}

TEST(Manifest, OciAndDockerAreRead) {
  for (const auto type : {media_type::oci_manifest, media_type::docker_manifest}) {
    const auto manifest =
        manifest_of(manifest_with(descriptor('1') + "," + descriptor('2'),
                                  fmt::format(R"("schemaVersion":2,"mediaType":"{}")", type)),
                    type);
    EXPECT_EQ(manifest.media_type, type);
    EXPECT_EQ(manifest.config.digest.string(), digest_text('c'));
    ASSERT_EQ(manifest.layers.size(), 2U);
    EXPECT_EQ(manifest.layers[1].digest.string(), digest_text('2'));
    EXPECT_EQ(manifest.layers[1].size, 10U);
  }
}

TEST(Manifest, UnknownKeysAndContentTypesAreIgnored) {
  const auto text = manifest_with(descriptor('1', R"(,"urls":["http://evil"],"x":{})"),
                                  R"("schemaVersion":2,"new":[1])");
  EXPECT_EQ(manifest_of(text, "text/plain; charset=utf-8").layers.size(), 1U);
  EXPECT_EQ(manifest_of(text, "APPLICATION/vnd.oci.image.manifest.v1+json ; a=b").layers.size(),
            1U);
}

TEST(Manifest, Schema1IsRefusedWithWords) {
  for (const std::string_view text :
       {R"({"schemaVersion":1,"fsLayers":[]})", R"({"fsLayers":[],"history":[]})"}) {
    EXPECT_NE(error_of(text).find("schema 1"), std::string::npos);
  }
  EXPECT_NE(error_of(manifest_with(""), "application/vnd.docker.distribution.manifest.v1+prettyjws")
                .find("schema 1"),
            std::string::npos);
}

// CVE-2021-41190: one digest, two readings.
TEST(Manifest, WhatIsTwoThingsAtOnceIsRefused) {
  const auto both = fmt::format(R"({{"schemaVersion":2,"config":{},"layers":[],"manifests":[]}})",
                                descriptor('c'));
  EXPECT_NE(error_of(both), "NO ERROR");
  EXPECT_NE(error_of(both, media_type::oci_index), "NO ERROR");
  EXPECT_NE(error_of(manifest_with(""), media_type::oci_index), "NO ERROR");
  EXPECT_NE(error_of(R"({"schemaVersion":2,"manifests":[]})", media_type::oci_manifest),
            "NO ERROR");
  const auto says_oci = manifest_with(
      "", fmt::format(R"("schemaVersion":2,"mediaType":"{}")", media_type::oci_manifest));
  EXPECT_NE(error_of(says_oci, media_type::docker_manifest), "NO ERROR");
  EXPECT_EQ(error_of(says_oci, media_type::oci_manifest), "NO ERROR");
}

TEST(Manifest, MalformedOnesAreRefused) {
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"), std::string("{}"),
        std::string("\"x\""), std::string(R"({"schemaVersion":2,"layers":[]})"),
        std::string(R"({"schemaVersion":2,"config":1,"layers":[]})"), manifest_with("1"),
        manifest_with("{}"), manifest_with(R"({"digest":"sha256:x","size":1})"),
        manifest_with(fmt::format(R"({{"digest":"{}"}})", digest_text('1'))),
        manifest_with(fmt::format(R"({{"digest":"{}","size":-1}})", digest_text('1'))),
        manifest_with(fmt::format(R"({{"digest":"{}","size":1.5}})", digest_text('1'))),
        manifest_with(fmt::format(R"({{"digest":"{}","size":"1"}})", digest_text('1'))),
        manifest_with(
            fmt::format(R"({{"digest":"{}","size":9223372036854775808}})", digest_text('1'))),
        fmt::format(R"({{"schemaVersion":2,"config":{},"layers":{{}}}})", descriptor('c'))}) {
    EXPECT_NE(error_of(text), "NO ERROR") << text;
  }
}

TEST(Manifest, FiveHundredLayersAreTheLimit) {
  std::string layers = descriptor('1');
  for (std::size_t i = 1; i < max_layers; ++i) layers += "," + descriptor('1');
  EXPECT_EQ(manifest_of(manifest_with(layers)).layers.size(), max_layers);
  EXPECT_NE(error_of(manifest_with(layers + "," + descriptor('1'))).find("501 layers, at most 500"),
            std::string::npos);
}

TEST(Manifest, DeepNestingAndSizeDoNoHarm) {
  EXPECT_NE(error_of(std::string(200'000, '[')), "NO ERROR");
  EXPECT_NE(error_of(std::string(max_manifest_bytes + 1, ' ')).find("too large"),
            std::string::npos);
}

Index index_of(std::string_view entries) {
  return std::get<Index>(
      parse_manifest(fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})", entries)).value());
}

std::string entry(char c, std::string_view arch, std::string_view variant = {},
                  std::string_view os = "linux") {
  return descriptor(
      c, fmt::format(R"(,"platform":{{"os":"{}","architecture":"{}","variant":"{}"}})", os, arch,
                     variant));
}

std::string chosen(const std::string& entries, std::string_view arch) {
  const auto found = find_platform(index_of(entries).manifests, host_platform(arch));
  return found ? std::string(1, found->digest.hex().front()) : "none";
}

TEST(PlatformChoice, TakesWhatRunsHere) {
  EXPECT_EQ(chosen(entry('1', "arm64", "v8") + "," + entry('2', "amd64"), "amd64"), "2");
  EXPECT_EQ(chosen(entry('1', "amd64") + "," + entry('2', "arm64", "v8"), "arm64"), "2");
  EXPECT_EQ(chosen(entry('1', "arm64", "v8") + "," + entry('2', "arm64"), "arm64"), "2");
  EXPECT_EQ(chosen(entry('1', "arm", "v7") + "," + entry('2', "arm64", "v9"), "arm64"), "none");
  EXPECT_EQ(chosen(entry('1', "amd64", "v3") + "," + entry('2', "amd64", "v2"), "amd64"), "2");
  EXPECT_EQ(chosen(entry('1', "amd64", "v3") + "," + entry('2', "amd64"), "amd64"), "2");
  EXPECT_EQ(chosen(entry('1', "amd64", "", "windows"), "amd64"), "none");
  EXPECT_EQ(chosen(entry('1', "386") + "," + entry('2', "s390x"), "amd64"), "none");
  EXPECT_EQ(chosen("", "amd64"), "none");
}

TEST(PlatformChoice, AnEntryWithoutPlatformIsTheLastResort) {
  EXPECT_EQ(chosen(descriptor('1') + "," + entry('2', "amd64"), "amd64"), "2");
  EXPECT_EQ(chosen(descriptor('1') + "," + entry('2', "arm64"), "amd64"), "1");
}

TEST(PlatformChoice, AttestationsAndArtifactsAreNotImages) {
  const auto attestation =
      descriptor('1', R"(,"platform":{"os":"linux","architecture":"amd64"},)"
                      R"("annotations":{"vnd.docker.reference.type":"attestation-manifest"})");
  EXPECT_EQ(chosen(attestation + "," + entry('2', "amd64"), "amd64"), "2");
  EXPECT_EQ(chosen(descriptor('1', R"(,"mediaType":"application/x-thing")"), "amd64"), "none");
}

TEST(Config, ReadsWhatASessionNeeds) {
  const auto config = parse_config(fmt::format(
      R"({{"os":"linux","architecture":"arm64","variant":"v8","config":{{"User":"1000:1000","WorkingDir":"/a",)"
      R"("Env":["PATH=/x","B=","bad","=bad","PATH=/y","C=d=e"],"Entrypoint":null,"Cmd":null,"Volumes":{{}}}},)"
      R"("rootfs":{{"type":"layers","diff_ids":["{}"]}},"history":[]}})",
      digest_text('1')));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->platform.string(), "linux/arm64/v8");
  EXPECT_EQ(config->config.user, "1000:1000");
  EXPECT_EQ(config->config.working_dir, "/a");
  EXPECT_EQ(config->config.environment, (std::vector<std::string>{"B=", "PATH=/y", "C=d=e"}));
  EXPECT_EQ(config->diff_ids.size(), 1U);
}

TEST(Config, MayLeaveEverythingOutButRootfs) {
  EXPECT_TRUE(parse_config(R"({"rootfs":{}})"));
  EXPECT_TRUE(parse_config(R"({"config":null,"rootfs":{"diff_ids":null}})"));
  for (const std::string_view text :
       {"", "1", "{}", R"({"rootfs":[]})", R"({"rootfs":{"diff_ids":["x"]}})",
        R"({"rootfs":{"diff_ids":[1]}})", R"({"config":[],"rootfs":{}})",
        R"({"config":{"User":1},"rootfs":{}})"}) {
    EXPECT_FALSE(parse_config(text)) << text;
  }
}

}  // namespace
}  // namespace daiv::images
