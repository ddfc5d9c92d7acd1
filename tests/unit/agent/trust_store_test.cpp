#include "agent/trust_store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

namespace files = std::filesystem;

const std::string ca = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";
const std::string next_ca = "-----BEGIN CERTIFICATE-----\nnext\n-----END CERTIFICATE-----\n";
const std::string image_root = "-----BEGIN CERTIFICATE-----\nimage\n-----END CERTIFICATE-----\n";
const std::string host_root = "-----BEGIN CERTIFICATE-----\nhost\n-----END CERTIFICATE-----\n";
const std::string bundle = "etc/ssl/certs/ca-certificates.crt";

// An image's root directory, with nothing in it.
class TrustStore : public testing::Test {
protected:
  TrustStore() {
    std::string path = testing::TempDir() + "/trust-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  ~TrustStore() override { files::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    files::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void link(const std::string& path, const std::string& target) const {
    files::create_directories((root_ / path).parent_path());
    files::create_symlink(target, root_ / path);
  }
  [[nodiscard]] std::string read(const std::string& path) const {
    std::ostringstream text;
    text << std::ifstream(root_ / path).rdbuf();
    return text.str();
  }
  void install(const std::string& certificate = ca, const std::string& hash = "0a1b2c3d") const {
    install_trust(os::open_file(root_, O_PATH | O_DIRECTORY), {certificate, hash, {}, host_root});
  }

  files::path root_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(TrustStore, AddsTheCertificateToTheImagesBundle) {
  write(bundle, image_root);
  install();
  EXPECT_TRUE(has(read(bundle), image_root));
  EXPECT_TRUE(has(read(bundle), ca));
  EXPECT_FALSE(has(read(bundle), host_root));
  EXPECT_EQ(read("usr/local/share/ca-certificates/daiv-egress.crt"), ca);
  EXPECT_EQ(files::read_symlink(root_ / "etc/ssl/certs/0a1b2c3d.0"), "daiv-egress.pem");
  EXPECT_EQ(read("etc/ssl/certs/0a1b2c3d.0"), ca);
}

TEST_F(TrustStore, GivesAnImageWithoutAnyTheHostsRoots) {
  install();
  EXPECT_TRUE(has(read(bundle), host_root));
  EXPECT_TRUE(has(read(bundle), ca));
  struct stat status{};
  ASSERT_EQ(::stat((root_ / bundle).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0644U);
}

TEST_F(TrustStore, TakesTheBundleOfAnotherLayout) {
  write("etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", image_root);
  files::create_directories(root_ / "etc/pki/tls/certs");
  files::create_directories(root_ / "etc/pki/ca-trust/source/anchors");
  link("etc/ssl/certs", "../pki/tls/certs");
  install();
  for (const std::string path :
       {"etc/pki/tls/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt",
        "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"}) {
    EXPECT_TRUE(has(read(path), image_root)) << path;
    EXPECT_TRUE(has(read(path), ca)) << path;
    EXPECT_FALSE(has(read(path), host_root)) << path;
  }
  EXPECT_EQ(read("etc/pki/ca-trust/source/anchors/daiv-egress.pem"), ca);
}

TEST_F(TrustStore, KeepsALinkToTheRealBundle) {
  write(bundle, image_root);
  link("etc/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt");
  install();
  EXPECT_TRUE(files::is_symlink(root_ / "etc/ssl/cert.pem"));
  EXPECT_TRUE(has(read(bundle), ca));
}

TEST_F(TrustStore, ReplacesTheFileThatALinkLeadsTo) {
  write("usr/share/pki/bundle.pem", image_root);
  link("usr/share/current", "pki");
  link("etc/ssl/certs/ca-certificates.crt", "/usr/share/first");
  link("usr/share/first", "current/../current/bundle.pem");
  install();
  EXPECT_TRUE(files::is_symlink(root_ / bundle));
  EXPECT_EQ(read("usr/share/pki/bundle.pem"), with_certificate(image_root, ca));
  std::size_t names = 0;
  for ([[maybe_unused]] const auto& entry : files::directory_iterator(root_ / "usr/share/pki"))
    ++names;
  EXPECT_EQ(names, 1U);
}

TEST_F(TrustStore, ASecondRunChangesNothing) {
  write(bundle, image_root);
  install();
  const std::string once = read(bundle);
  install();
  EXPECT_EQ(read(bundle), once);
  EXPECT_FALSE(files::exists(files::symlink_status(root_ / "etc/ssl/certs/0a1b2c3d.1")));
}

TEST_F(TrustStore, AnotherCaTakesThePlaceOfTheFirst) {
  write(bundle, image_root);
  install();
  install(next_ca, "ffffffff");
  EXPECT_EQ(read(bundle), with_certificate(image_root, next_ca));
  EXPECT_EQ(read("usr/local/share/ca-certificates/daiv-egress.crt"), next_ca);
  EXPECT_EQ(read("etc/ssl/certs/ffffffff.0"), next_ca);
  EXPECT_FALSE(files::exists(files::symlink_status(root_ / "etc/ssl/certs/0a1b2c3d.0")));
}

TEST_F(TrustStore, ACertificateOfTheSameHashKeepsItsLink) {
  link("etc/ssl/certs/0a1b2c3d.0", "other.pem");
  install();
  EXPECT_EQ(files::read_symlink(root_ / "etc/ssl/certs/0a1b2c3d.0"), "other.pem");
  EXPECT_EQ(files::read_symlink(root_ / "etc/ssl/certs/0a1b2c3d.1"), "daiv-egress.pem");
}

TEST_F(TrustStore, LinksOfTheImageDoNotLeadOut) {
  std::string outside = testing::TempDir() + "/outside-XXXXXX";
  ASSERT_NE(::mkdtemp(outside.data()), nullptr);
  link("etc/ssl/certs", "../../../../../.." + outside);
  link("usr/local/share/ca-certificates/daiv-egress.crt", outside + "/crt");
  try {
    install();
  } catch (const os::Error&) {  // a refusal is as good as an installation elsewhere
  }
  EXPECT_TRUE(files::is_empty(outside));
  files::remove_all(outside);
}

TEST_F(TrustStore, WhatIsNoFileIsReplaced) {
  files::create_directories(root_ / "etc/ssl/certs");
  ASSERT_EQ(::mkfifo((root_ / bundle).c_str(), 0666), 0);
  link("etc/ssl/certs/daiv-egress.pem", "daiv-egress.pem");
  link("usr/local/share/ca-certificates/daiv-egress.crt", "/proc/self/fd/0");
  install();
  EXPECT_TRUE(has(read(bundle), ca));
  EXPECT_EQ(read("etc/ssl/certs/daiv-egress.pem"), ca);
  EXPECT_EQ(read("usr/local/share/ca-certificates/daiv-egress.crt"), ca);
}

TEST_F(TrustStore, AHugeSparseBundleIsReplaced) {
  write(bundle, image_root);
  files::resize_file(root_ / bundle, 3ULL << 30);
  install();
  EXPECT_LT(files::file_size(root_ / bundle), 4096U);
  EXPECT_TRUE(has(read(bundle), ca));
}

TEST(Bundle, IsLeftAloneWhereTheImagesToolAddedTheCertificate) {
  EXPECT_EQ(with_certificate(image_root + ca, ca), image_root + ca);
}

TEST(Bundle, WithoutALastNewlineStaysReadable) {
  const std::string cut = image_root.substr(0, image_root.size() - 1);
  EXPECT_TRUE(has(with_certificate(cut, ca), image_root + "# begin"));
}

}  // namespace
}  // namespace daiv::agent
