#pragma once

#include <string>
#include <vector>

// Images in the forms that `daiv-sandbox load` takes, of layers given as tars.
namespace daiv::test {

// A layer of one file.
std::string layer_tar(const std::string& name, const std::string& content);

std::string config_of(const std::vector<std::string>& tars);

// `docker save` as it was before it wrote OCI layouts: layers in folders.
std::string docker_archive(const std::string& tag, const std::vector<std::string>& tars);

// An OCI layout with an index in the index, blobs after what points to them. `manifest_extra`:
// further members of the manifest.
std::string oci_archive(const std::string& name, const std::vector<std::string>& tars,
                        const std::string& manifest_extra = "");

// What `docker save` writes since version 25: an OCI layout, and beside it a manifest.json that
// names the same blobs by their path.
std::string docker_oci_archive(const std::string& tag, const std::vector<std::string>& tars);

}  // namespace daiv::test
