#include "store_fixture.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_image.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::test {

using images::Image;
using images::ImageError;
using images::ImageService;

StoreTest::StoreTest() { ::signal(SIGPIPE, SIG_IGN); }

images::ImageSettings StoreTest::settings() const {
  images::ImageSettings settings;
  settings.state_dir = dir_.path() + "/front";
  settings.architecture = "amd64";
  settings.registries_conf = "";
  return settings;
}

ImageService& StoreTest::service() {
  if (!service_) service_ = std::make_unique<ImageService>(settings(), backend_);
  return *service_;
}

std::vector<Image> StoreTest::load(const std::string& archive) {
  const os::UniqueFd file(
      os::check(::memfd_create("archive", MFD_CLOEXEC), "memfd_create", "archive"));
  os::write_full(file, archive);
  ::lseek(file.get(), 0, SEEK_SET);
  return service().load(file);
}

ImageError StoreTest::load_error(const std::string& archive) {
  return images::test::error_of([&] { load(archive); });
}

ImageService::PruneReport StoreTest::prune(ImageService::PruneScope scope) {
  return service().prune(scope, [] { return std::vector<std::string>(); });
}

std::string StoreTest::content(const Image& image, std::size_t layer,
                               const std::string& name) const {
  return os::read_file(backend_.path(image.layers.at(layer)) + "/" + name, 1 << 20);
}

}  // namespace daiv::test
