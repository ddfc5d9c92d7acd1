#pragma once

#include "api/schema.hpp"

// The request models of the API, one schema each.
namespace daiv::api {

// A CPU quota is at most this many times the CPUs of the host.
inline constexpr int max_cpu_factor = 100;

const Schema& start_session_model();
const Schema& egress_model();
const Schema& run_model();
const Schema& fs_ls_model();
const Schema& fs_read_model();
const Schema& fs_grep_model();
const Schema& fs_glob_model();
const Schema& fs_write_model();
const Schema& fs_edit_model();
const Schema& fs_delete_model();

}  // namespace daiv::api
