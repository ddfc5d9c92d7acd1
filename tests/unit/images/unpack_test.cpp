// The real unpack program on layers made here, one behaviour each.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <thread>

#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "tar_builder.hpp"
#include "unpack_process.hpp"
#include "unpacked_layer.hpp"

namespace daiv::test {
namespace {

using images::unpack::Status;
using Options = TarBuilder::Options;

std::string describe(const UnpackedLayer& layer) {
  return fmt::format("status {}: {}", static_cast<int>(layer.result.status), layer.result.message);
}

#define EXPECT_UNPACKED(layer) EXPECT_EQ(Status::ok, (layer).result.status) << describe(layer)

TEST(Unpack, HardLinkWithoutParentEntriesSharesTheInode) {
  const UnpackedLayer layer(TarBuilder()
                                .file("bin/app", "A", {.mode = 0755, .pax = {}})
                                .hard_link("bin/app.runfiles/_main/app_/app", "bin/app")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ(layer.stat("bin/app")->st_ino, layer.stat("bin/app.runfiles/_main/app_/app")->st_ino);
  const auto parent = *layer.stat("bin/app.runfiles/_main");
  EXPECT_EQ(0755U, parent.st_mode & 07777U);
  EXPECT_EQ(0U, parent.st_uid);
}

TEST(Unpack, HardLinkMayComeBeforeItsTarget) {
  const UnpackedLayer layer(TarBuilder().hard_link("b", "a").file("a", "x").take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ("x", layer.content("b"));
}

TEST(Unpack, HardLinkOutsideItsLayerNeedsTheLayersBelow) {
  const UnpackedLayer layer(TarBuilder().hard_link("b", "lower/file").take());
  EXPECT_EQ(Status::needs_parents, layer.result.status);
  EXPECT_NE(std::string::npos,
            layer.result.message.find("b: a hard link to lower/file, which is not here"));
}

TEST(Unpack, ALayerThatNeedsThoseBelowIsHashedToItsEnd) {
  // Written faster than hashed.
  TarBuilder tar;
  tar.hard_link("b", "lower/file");
  for (int i = 0; i < 8; ++i) tar.file(fmt::format("f{}", i), std::string(400'000, 'x'));
  const std::string bytes = tar.take();
  for (int i = 0; i < 10; ++i) {
    const UnpackedLayer layer(bytes);
    EXPECT_EQ(Status::needs_parents, layer.result.status);
    EXPECT_EQ(sha256(bytes), layer.result.diff_id);
  }
}

TEST(Unpack, OpaqueWhiteoutKeepsWhatItsLayerBrings) {
  const UnpackedLayer layer(TarBuilder()
                                .directory("d")
                                .file("d/new")
                                .symlink("d/link", "new")
                                .file("d/.wh..wh..opq")
                                .file("d/late")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_TRUE(layer.is_opaque("d"));
  EXPECT_TRUE(layer.exists("d/new") && layer.exists("d/late"));
  EXPECT_EQ("new", layer.link("d/link"));
  EXPECT_FALSE(layer.exists("d/.wh..wh..opq"));
}

TEST(Unpack, WhiteoutAppliesToLowerLayersOnlyInEitherOrder) {
  for (const bool first : {true, false}) {
    TarBuilder tar;
    if (first) tar.file(".wh.a");
    tar.file("a", "2");
    if (!first) tar.file(".wh.a");
    const UnpackedLayer layer(tar.take());
    EXPECT_UNPACKED(layer);
    EXPECT_EQ("2", layer.content("a"));
    EXPECT_FALSE(layer.exists(".wh.a"));
  }
}

TEST(Unpack, WhiteoutBesideADirectoryMakesItOpaque) {
  for (const bool first : {true, false}) {
    TarBuilder tar;
    if (first) tar.file(".wh.d");
    tar.file("d/new");
    if (!first) tar.file(".wh.d");
    const UnpackedLayer layer(tar.take());
    EXPECT_UNPACKED(layer);
    EXPECT_TRUE(layer.is_opaque("d"));
    EXPECT_TRUE(layer.exists("d/new"));
  }
}

TEST(Unpack, WhiteoutIsADeviceThatOverlayfsKnows) {
  const UnpackedLayer layer(TarBuilder().file("etc/.wh.passwd").take());
  EXPECT_UNPACKED(layer);
  EXPECT_TRUE(layer.is_whiteout("etc/passwd"));
}

TEST(Unpack, InvalidWhiteoutsAreRefusedByName) {
  for (const char* name : {"etc/.wh.", ".wh..", ".wh...", "etc/.wh..", "./.wh.../.wh.a"}) {
    const UnpackedLayer layer(TarBuilder().file(name).take());
    EXPECT_EQ(Status::corrupt, layer.result.status) << name;
    EXPECT_EQ(fmt::format("{}: invalid whiteout", name), layer.result.message);
  }
}

TEST(Unpack, LastOfSeveralEntriesWins) {
  const UnpackedLayer layer(TarBuilder()
                                .file("f", "1")
                                .file("f", "2")
                                .directory("d")
                                .file("d/x")
                                .symlink("d", "f")
                                .symlink("s", "f")
                                .directory("s")
                                .file("s/y")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ("2", layer.content("f"));
  EXPECT_EQ("f", layer.link("d"));
  EXPECT_TRUE(S_ISDIR(layer.stat("s")->st_mode));
  EXPECT_TRUE(layer.exists("s/y"));
}

TEST(Unpack, LaterDirectoryEntryFixesModeAndTime) {
  const UnpackedLayer layer(TarBuilder().file("d/child").directory("d", 01777).take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ(01777U, layer.stat("d")->st_mode & 07777U);
  EXPECT_EQ(1'000'000'000, layer.stat("d")->st_mtime);
  EXPECT_EQ(1'000'000'000, layer.stat("d/child")->st_mtime);
}

TEST(Unpack, ChildrenOfASetGroupIdDirectoryKeepTheirGroup) {
  const UnpackedLayer layer(TarBuilder()
                                .entry('5', "d", "", "", {.mode = 02775, .gid = 50, .pax = {}})
                                .file("d/f")
                                .directory("d/e")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ(50U, layer.stat("d")->st_gid);
  EXPECT_EQ(02775U, layer.stat("d")->st_mode & 07777U);
  EXPECT_EQ(0U, layer.stat("d/f")->st_gid);
  EXPECT_EQ(0755U, layer.stat("d/e")->st_mode & 07777U);
}

TEST(Unpack, SetIdBitsAndOwnersAreKept) {
  const UnpackedLayer layer(
      TarBuilder().file("su", "x", {.mode = 06755, .uid = 7, .gid = 65535, .pax = {}}).take());
  EXPECT_UNPACKED(layer);
  const auto status = *layer.stat("su");
  EXPECT_EQ(06755U, status.st_mode & 07777U);
  EXPECT_EQ(7U, status.st_uid);
  EXPECT_EQ(65535U, status.st_gid);
}

TEST(Unpack, OwnerThatTheRangeDoesNotMapIsAClearError) {
  const UnpackedLayer layer(TarBuilder().file("big", "", {.uid = 65536, .pax = {}}).take());
  EXPECT_EQ(Status::corrupt, layer.result.status);
  EXPECT_EQ("big: owner 65536:0 is outside 0 to 65535", layer.result.message);
}

TEST(Unpack, NamesAreKeptByteByByte) {
  const std::string odd = "n\xe9\xff\n\x01";
  const std::string longer(200, 'l');
  const UnpackedLayer layer(TarBuilder()
                                .file(odd, "1")
                                .file("x", "2", {.pax = {{"path", "pax\xe9"}}})
                                .file("x", "3", {.pax = {{"path", longer + "/" + longer}}})
                                .entry('L', "././@LongLink", "", longer + "-gnu", {})
                                .file("short", "4")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ("1", layer.content(odd));
  EXPECT_EQ("2", layer.content("pax\xe9"));
  EXPECT_EQ("3", layer.content(longer + "/" + longer));
  EXPECT_EQ("4", layer.content(longer + "-gnu"));
}

TEST(Unpack, ExtendedAttributesOfFilesAreKeptAndOverlaysOwnDropped) {
  const std::string capability(
      "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
  const UnpackedLayer layer(
      TarBuilder()
          .file("f", "x",
                {.pax = {{"SCHILY.xattr.user.a", "v"},
                         {"SCHILY.xattr.security.capability", capability},
                         {"SCHILY.xattr.user.overlay.opaque", "y"},
                         {"SCHILY.xattr.trusted.overlay.redirect", "/etc"}}})
          .entry('5', "d", "", "",
                 {.mode = 0755, .pax = {{"SCHILY.xattr.user.overlay.opaque", "y"}}})
          .take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ("v", layer.xattr("f", "user.a"));
  // Seen from the first namespace: version 3, with the storage range's root (capabilities(7)).
  EXPECT_EQ(24U, layer.xattr("f", "security.capability").size());
  EXPECT_EQ("", layer.xattr("f", "user.overlay.opaque"));
  EXPECT_EQ("", layer.xattr("f", "trusted.overlay.redirect"));
  EXPECT_FALSE(layer.is_opaque("d"));
}

TEST(Unpack, DevicesArePassedOverAndFifosMade) {
  const UnpackedLayer layer(TarBuilder()
                                .entry('3', "dev/sda", "", "", {})
                                .entry('6', "pipe", "", "", {})
                                .file("f")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_FALSE(layer.exists("dev/sda"));
  EXPECT_TRUE(S_ISFIFO(layer.stat("pipe")->st_mode));
}

TEST(Unpack, RootEntrySetsTheRootsMode) {
  const UnpackedLayer with(TarBuilder().directory("./", 0700).file("./f").take());
  EXPECT_EQ(0700U, with.stat("")->st_mode & 07777U);
  const UnpackedLayer without(TarBuilder().file("f").take());
  EXPECT_EQ(0755U, without.stat("")->st_mode & 07777U);
}

TEST(Unpack, AbsoluteNamesStayInTheLayerAndDotsCannotLeaveIt) {
  const UnpackedLayer inside(TarBuilder().file("/abs", "1").file("a/../b", "2").take());
  EXPECT_UNPACKED(inside);
  EXPECT_EQ("1", inside.content("abs"));
  EXPECT_EQ("2", inside.content("b"));
  const UnpackedLayer outside(TarBuilder().file("../evil").take());
  EXPECT_EQ(Status::corrupt, outside.result.status);
  EXPECT_EQ("../evil: its name leads out of the layer", outside.result.message);
}

TEST(Unpack, SymlinkedParentIsWalkedInsideTheLayer) {
  const UnpackedLayer layer(TarBuilder()
                                .directory("usr/lib")
                                .symlink("lib", "usr/lib")
                                .file("lib/x", "1")
                                .symlink("up", "../../../../tmp")
                                .file("up/y", "2")
                                .symlink("loop", "loop")
                                .take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ("1", layer.content("usr/lib/x"));
  EXPECT_EQ("usr/lib", layer.link("lib"));
  EXPECT_EQ("2", layer.content("tmp/y"));
  const UnpackedLayer loop(TarBuilder().symlink("loop", "loop").file("loop/x").take());
  EXPECT_EQ(Status::corrupt, loop.result.status);
}

// ---- compression
// -----------------------------------------------------------------------------------------------------

TEST(Unpack, CompressionIsToldByItsBytes) {
  const std::string tar = TarBuilder().file("f", std::string(200'000, 'x')).take();
  const std::string half = tar.substr(0, 70'001);
  const std::string rest = tar.substr(70'001);
  const std::string skippable = std::string("\x5a\x2a\x4d\x18\x04\x00\x00\x00", 8) + "toc!";
  std::string extra = gzip(tar);
  extra[3] = 4 | 8;  // FEXTRA, FNAME
  extra.insert(10, std::string("\x02\x00", 2) + "ab" + std::string("name\0", 5));
  const std::string empty_member = gzip("");
  for (const std::string& bytes :
       {tar, gzip(tar), zstd(tar), gzip(half) + gzip(rest), gzip(half) + empty_member + gzip(rest),
        gzip(tar) + std::string(700, '\0'), extra, zstd(half) + zstd(rest),
        skippable + zstd(half) + skippable + zstd(rest) + skippable}) {
    const UnpackedLayer layer(bytes);
    EXPECT_UNPACKED(layer);
    EXPECT_EQ(sha256(tar), layer.result.diff_id);
    EXPECT_EQ(200'000U, layer.result.unpacked_bytes);
  }
}

TEST(Unpack, DiffIdCoversWhatFollowsTheTarsEnd) {
  const std::string tar = TarBuilder().file("f", "x").take() + std::string(9000, 'j');
  const UnpackedLayer layer(gzip(tar));
  EXPECT_UNPACKED(layer);
  EXPECT_EQ(sha256(tar), layer.result.diff_id);
}

TEST(Unpack, CutOffOrDamagedBytesAreErrors) {
  const std::string tar = TarBuilder().file("f", std::string(200'000, 'x')).file("g").take();
  std::string damaged = gzip(tar);
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  const std::string zipped = gzip(tar);
  const std::string two = gzip(tar.substr(0, 512)) + gzip(tar.substr(512));
  for (const std::string& bytes :
       {damaged, zipped.substr(0, zipped.size() - 3), two.substr(0, two.size() - 9),
        zstd(tar).substr(0, zstd(tar).size() - 2), tar.substr(0, 100'000), zipped + "junk",
        std::string("not a tar at all, nor anything else"), std::string()}) {
    EXPECT_EQ(Status::corrupt, UnpackedLayer(bytes).result.status) << bytes.size();
  }
}

TEST(Unpack, OtherCompressionsAreRefusedWithTheirName) {
  EXPECT_NE(std::string::npos, UnpackedLayer("BZh91AY&SY....").result.message.find("bzip2"));
  EXPECT_NE(std::string::npos, UnpackedLayer(std::string("\xfd"
                                                         "7zXZ\0\0",
                                                         7))
                                   .result.message.find("xz"));
}

TEST(Unpack, LimitsEndABomb) {
  const std::string tar = TarBuilder().file("f", std::string(3'000'000, 'x')).file("g").take();
  EXPECT_EQ(Status::too_large,
            UnpackedLayer(gzip(tar), {.max_bytes = 2'000'000, .max_entries = 0}).result.status);
  EXPECT_EQ(Status::too_large,
            UnpackedLayer(gzip(tar), {.max_bytes = 0, .max_entries = 1}).result.status);
}

// ---- holes of others
// -------------------------------------------------------------------------------------------------

// docker cp loaded a library of the container's (nss) after its chroot: the unpacker has all of its
// own before.
TEST(Unpack, CVE_2019_14271_NoCodeOfTheLayerIsLoaded) {
  TarBuilder tar;
  for (const char* name :
       {"etc/ld.so.preload", "etc/ssl/openssl.cnf", "usr/lib/x86_64-linux-gnu/gconv/gconv-modules",
        "usr/lib/x86_64-linux-gnu/gconv/ANSI_X3.4-1968.so",
        "lib/x86_64-linux-gnu/libnss_files.so.2", "usr/lib/ssl/openssl.cnf"}) {
    tar.file(name, "garbage that would break whoever loads it\n");
  }
  tar.file("x", "1", {.pax = {{"path", "n\xc3\xa9"}}});  // a conversion after all those are there
  const UnpackedLayer layer(tar.take());
  EXPECT_UNPACKED(layer);
  EXPECT_EQ("1", layer.content("n\xc3\xa9"));
}

// A symlink in the image led a build's mount, a copy or a mount target out to the host.
TEST(Unpack, CVE_2024_1753_CVE_2021_30465_SymlinksDoNotLeadToTheHost) {
  const TempDir outside;
  const UnpackedLayer layer(TarBuilder()
                                .symlink("evil", outside.path())
                                .file("evil/pwned", "1")
                                .symlink("a", "/")
                                .symlink("b", "a/../../../../" + outside.path())
                                .file("b/pwned2", "2")
                                .hard_link("stolen", "/proc/self/root/etc/shadow")
                                .take());
  EXPECT_EQ(Status::needs_parents, layer.result.status);  // for the hard link
  EXPECT_NE(0, ::access((outside.path() + "/pwned").c_str(), F_OK));
  EXPECT_NE(0, ::access((outside.path() + "/pwned2").c_str(), F_OK));
  EXPECT_TRUE(layer.exists(outside.path().substr(1) + "/pwned"));
}

// umoci replaced the root itself by a symlink to the host's.
TEST(Unpack, CVE_2021_29136_RootIsNeverASymlink) {
  for (const char* name : {".", "./", "/", "a/.."}) {
    const UnpackedLayer layer(TarBuilder().symlink(name, "/tmp").file("x").take());
    EXPECT_EQ(Status::corrupt, layer.result.status);
    EXPECT_TRUE(S_ISDIR(layer.stat("")->st_mode));
  }
}

TEST(Unpack, ProgramRefusesTheHostsUserNamespace) {
  // Without the namespaces the confinement must not hold as done; see confine.cpp.
  const TempDir dir;
  const os::UniqueFd layer = os::open_file(dir.path(), O_RDONLY | O_DIRECTORY);
  os::Pipe input = os::make_pipe();
  UnpackProcess process(input.read_end, layer, {}, UnpackProcess::Namespaces::none);
  input.write_end.reset();
  const auto result = process.wait();
  EXPECT_EQ(Status::internal, result.status);
  EXPECT_NE(std::string::npos, result.message.find("confine user namespace")) << result.message;
}

TEST(Unpack, KilledProgramLeavesNoRecord) {
  const TempDir dir;
  const os::UniqueFd layer = os::open_file(dir.path(), O_RDONLY | O_DIRECTORY);
  os::Pipe input = os::make_pipe();
  UnpackProcess process(input.read_end, layer);
  os::write_full(input.write_end, TarBuilder().file("f", "x").unfinished());
  process.kill();
  EXPECT_EQ(Status::internal, process.wait().status);
}

}  // namespace
}  // namespace daiv::test
