#include "agent/fs_handler.hpp"

#include <variant>

#include "agent/fs_operations.hpp"
#include "agent/fs_path.hpp"
#include "agent/fs_protocol.hpp"
#include "os/error.hpp"

namespace daiv::agent {
namespace {

// One overload for each operation: which reply goes with which request is told here and nowhere
// else.
struct Dispatch {
  const FsRoot& root;
  const Config& config;

  FsReply operator()(const LsRequest& r) const { return fs_ls(root, r); }
  FsReply operator()(const ReadRequest& r) const { return fs_read(root, r); }
  FsReply operator()(const GrepRequest& r) const { return fs_grep(root, r, config.prune_dirs); }
  FsReply operator()(const GlobRequest& r) const { return fs_glob(root, r, config.prune_dirs); }
  FsReply operator()(const WriteRequest& r) const { return fs_write(root, r); }
  FsReply operator()(const EditRequest& r) const { return fs_edit(root, r); }
  FsReply operator()(const DeleteRequest& r) const { return fs_delete(root, r); }
};

struct Refuse {
  FsError error;

  FsReply operator()(const LsRequest& /*unused*/) const { return LsReply{{}, error}; }
  FsReply operator()(const ReadRequest& /*unused*/) const {
    ReadReply reply;
    reply.error = error;
    return reply;
  }
  FsReply operator()(const GrepRequest& /*unused*/) const { return GrepReply{{}, false, error}; }
  FsReply operator()(const GlobRequest& /*unused*/) const { return GlobReply{{}, error}; }
  FsReply operator()(const WriteRequest& /*unused*/) const { return WriteReply{error}; }
  FsReply operator()(const EditRequest& /*unused*/) const { return EditReply{{}, error}; }
  FsReply operator()(const DeleteRequest& /*unused*/) const { return DeleteReply{false, error}; }
};

const std::string& path_of(const FsRequest& request) {
  return std::visit([](const auto& r) -> const std::string& { return r.path; }, request);
}

FsOperation operation_of(const FsRequest& request) {
  return static_cast<FsOperation>(request.index() + 1);
}

FsReply carry_out(const FsRequest& request, const Config& config) {
  // The front has checked the path already; the operations rely on it, so it is checked where they
  // run.
  if (auto error = check_fs_path(path_of(request), fs_target(operation_of(request)))) {
    return std::visit(Refuse{std::move(*error)}, request);
  }
  try {
    const FsRoot root = FsRoot::of_process();
    return std::visit(Dispatch{root, config}, request);
  } catch (const os::Error& failure) {
    return std::visit(Refuse{{FsErrorCode::exec_failed, failure.what()}}, request);
  }
}

}  // namespace

std::string handle_fs(std::string_view request_payload, const Config& config) {
  const FsRequest request = decode_fs_request(request_payload);
  std::string payload = encode_fs_reply(carry_out(request, config));
  if (payload.size() <= max_fs_answer_bytes) return payload;
  return encode_fs_reply(std::visit(
      Refuse{{FsErrorCode::exec_failed, "The answer is too large: narrow the search"}}, request));
}

}  // namespace daiv::agent
