// Layers that mean something together with those below them: hard links into lower layers, and a
// root that hides all of them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <tuple>

#include "image_archives.hpp"
#include "images/image_service.hpp"
#include "os/error.hpp"
#include "store_fixture.hpp"
#include "tar_builder.hpp"

namespace daiv::test {
namespace {

using images::Image;
using images::ImageFailure;
using images::ImageService;
using PruneScope = ImageService::PruneScope;

class LayerStack : public StoreTest {
protected:
  [[nodiscard]] struct stat status(const Image& image, std::size_t layer,
                                   const std::string& name) const {
    struct stat result{};
    const std::string path = backend_.path(image.layers.at(layer)) + "/" + name;
    os::check(::lstat(path.c_str(), &result), "lstat", path);
    return result;
  }

  // Loads `lower` below a layer with one hard link to `target`; what was refused, or empty.
  std::string refusal(const std::string& lower, const std::string& target) {
    const auto error =
        load_error(docker_archive("bad:1", {lower, TarBuilder().hard_link("link", target).take()}));
    EXPECT_EQ(ImageFailure::invalid_image, error.failure()) << error.what();
    EXPECT_GE(1U, backend_.list().size()) << "more than the lower layer";
    return error.what();
  }
};

TEST_F(LayerStack, HardLinkIntoTheLayerBelowIsOneInodeWithItsTarget) {
  const std::string lower =
      TarBuilder()
          .directory("opt", 0711)
          .file("opt/app", "A", {.mode = 04755, .uid = 7, .gid = 8, .pax = {}})
          .take();
  const std::string upper =
      TarBuilder().hard_link("bin/one", "opt/app").hard_link("bin/two", "/opt/app").take();
  const Image image = load(docker_archive("links:1", {lower, upper})).front();
  ASSERT_EQ(2U, image.layers.size());
  const auto target = status(image, 1, "opt/app");
  EXPECT_EQ(target.st_ino, status(image, 1, "bin/one").st_ino);
  EXPECT_EQ(target.st_ino, status(image, 1, "bin/two").st_ino);
  EXPECT_EQ(3U, target.st_nlink);
  EXPECT_EQ("A", content(image, 1, "bin/one"));
  const auto below = status(image, 0, "opt/app");
  EXPECT_EQ(below.st_mode, target.st_mode);
  EXPECT_EQ(04755U, target.st_mode & 07777U);
  EXPECT_EQ(below.st_uid, target.st_uid);
  EXPECT_EQ(below.st_gid, target.st_gid);
  EXPECT_EQ(below.st_mtim.tv_sec, target.st_mtim.tv_sec);
  EXPECT_EQ(0711U, status(image, 1, "opt").st_mode & 07777U) << "a directory made for the target";
}

TEST_F(LayerStack, DirectoryWithoutAnEntryIsWhatItIsBelow) {
  const std::string lower = TarBuilder().directory("tmp", 01777).directory("own", 0710).take();
  const std::string upper = TarBuilder().file("tmp/x").file("own/x").file("new/x").take();
  const Image image = load(docker_archive("implied:1", {lower, upper})).front();
  EXPECT_EQ(01777U, status(image, 1, "tmp").st_mode & 07777U);
  EXPECT_EQ(0710U, status(image, 1, "own").st_mode & 07777U);
  EXPECT_EQ(0755U, status(image, 1, "new").st_mode & 07777U);
  EXPECT_EQ(3, backend_.unpacks());
}

TEST_F(LayerStack, DirectoryWithoutAnEntryWithNothingBelowIsUnpackedOnce) {
  const Image image =
      load(docker_archive("implied:1", {TarBuilder().file("tmp/x").take()})).front();
  EXPECT_EQ(0755U, status(image, 0, "tmp").st_mode & 07777U);
  const std::string hiding = TarBuilder().file(".wh..wh..opq").file("a/b").take();
  load(docker_archive("hiding:1", {TarBuilder().directory("a", 0700).take(), hiding}));
  EXPECT_EQ(3, backend_.unpacks());
}

TEST_F(LayerStack, LayerThatDependsOnOthersIsKeptForItsStack) {
  const std::string upper = TarBuilder().hard_link("link", "file").take();
  const Image one = load(docker_archive("one:1", {layer_tar("file", "1"), upper})).front();
  const Image two = load(docker_archive("two:1", {layer_tar("file", "2"), upper})).front();
  EXPECT_NE(one.layers[1], two.layers[1]);
  EXPECT_EQ("1", content(one, 1, "link"));
  EXPECT_EQ("2", content(two, 1, "link"));
  const int unpacks = backend_.unpacks();
  EXPECT_EQ(one.layers, load(docker_archive("three:1", {layer_tar("file", "1"), upper}))[0].layers);
  EXPECT_EQ(unpacks, backend_.unpacks());
  service_.reset();  // a restart finds them again
  EXPECT_EQ(one.layers, service().ensure("one:1").layers);
}

TEST_F(LayerStack, HardLinkFollowsSymlinksOfTheLayersBelowInsideThem) {
  const std::string lower =
      TarBuilder().directory("usr/lib").file("usr/lib/x", "X").symlink("lib", "/usr/lib").take();
  const Image image =
      load(docker_archive("l:1", {lower, TarBuilder().hard_link("y", "lib/x").take()})).front();
  EXPECT_EQ(status(image, 1, "usr/lib/x").st_ino, status(image, 1, "y").st_ino);
  EXPECT_THROW(std::ignore = status(image, 1, "lib"), os::Error) << "the symlink below must show";
}

TEST_F(LayerStack, HardLinkToWhatNoLayerHasIsRefused) {
  EXPECT_NE(std::string::npos,
            refusal(layer_tar("a", "1"), "none").find("link: a hard link to none"));
}

TEST_F(LayerStack, HardLinkToASymlinkToTheHostsShadowIsRefused) {
  refusal(TarBuilder().symlink("s", "/etc/shadow").take(), "s");
}

TEST_F(LayerStack, HardLinkThroughASymlinkOutOfTheViewIsRefused) {
  refusal(TarBuilder().symlink("up", "../../../../../../etc").take(), "up/shadow");
}

TEST_F(LayerStack, HardLinkThroughASymlinkToTheHostsEtcIsRefused) {
  refusal(TarBuilder().symlink("up", "/etc").take(), "up/shadow");
}

TEST_F(LayerStack, HardLinkWithDotsIsRefused) { refusal(layer_tar("a", "1"), "../../etc/shadow"); }

TEST_F(LayerStack, HardLinkToAFifoIsRefused) {
  refusal(TarBuilder().entry('6', "pipe", "", "", {}).take(), "pipe");
}

TEST_F(LayerStack, HardLinkToADirectoryIsRefused) {
  refusal(TarBuilder().directory("d").take(), "d");
}

TEST_F(LayerStack, HardLinkToAWhiteoutIsRefused) {
  refusal(TarBuilder().file(".wh.gone").take(), "gone");
}

TEST_F(LayerStack, HardLinkToWhatItsOwnLayerRemovesIsRefused) {
  const std::string upper = TarBuilder().file(".wh.a").hard_link("link", "a").take();
  const auto error = load_error(docker_archive("bad:1", {layer_tar("a", "1"), upper}));
  EXPECT_EQ(ImageFailure::invalid_image, error.failure());
}

TEST_F(LayerStack, OpaqueRootHidesAllLayersBelow) {
  const std::string upper = TarBuilder().file("new", "2").file(".wh..wh..opq").take();
  const Image image =
      load(docker_archive("opaque:1", {layer_tar("a", "1"), upper, layer_tar("top", "3")})).front();
  ASSERT_EQ(2U, image.layers.size());
  EXPECT_EQ("2", content(image, 0, "new"));
  EXPECT_EQ("3", content(image, 1, "top"));
  service_.reset();
  EXPECT_EQ(image.layers, service().ensure("opaque:1").layers);
  prune(PruneScope::unreferenced_layers);
  EXPECT_EQ(3U, backend_.list().size()) << "the record still names the layer below";
}

TEST_F(LayerStack, HardLinkToWhatAnOpaqueRootHidesIsRefused) {
  const std::string upper = TarBuilder().file(".wh..wh..opq").take();
  const auto error = load_error(docker_archive(
      "bad:1", {layer_tar("a", "1"), upper, TarBuilder().hard_link("link", "a").take()}));
  EXPECT_EQ(ImageFailure::invalid_image, error.failure());
}

}  // namespace
}  // namespace daiv::test
