#include <gtest/gtest.h>
#include <linux/capability.h>

#include <algorithm>

#include "runtime/broker_options.hpp"
#include "runtime/capabilities.hpp"
#include "runtime/cgroup.hpp"
#include "runtime/hold.hpp"
#include "runtime/host_probe.hpp"
#include "runtime/layer_store.hpp"
#include "runtime/sandbox_plan.hpp"
#include "runtime/seccomp_filter.hpp"
#include "runtime/session_store.hpp"

namespace daiv::runtime {
namespace {

CreateSandbox request() {
  CreateSandbox request;
  request.session = std::string(32, 'a');
  request.uid_base = UidRanges{}.start + range_size;
  request.layers = {"aaaaaa"};
  request.hostname = "box";
  return request;
}

TEST(CheckRequest, TakesAProperOne) { EXPECT_TRUE(check_request(request(), {}).empty()); }

TEST(CheckRequest, NamesEveryFaultAtOnce) {
  CreateSandbox bad = request();
  bad.uid_base += 1;
  bad.run_uid = 0xffffffff;
  bad.layers.clear();
  bad.limits.memory_bytes = 1;
  EXPECT_EQ(check_request(bad, {}).size(), 4U);
}

TEST(CheckRequest, LetsASessionKeepARangePastTheLast) {
  constexpr UidRanges ranges{0x70000000, 4};
  CreateSandbox kept = request();
  kept.uid_base = ranges.start + 6 * range_size;
  EXPECT_EQ(check_request(kept, ranges).size(), 1U);
  EXPECT_TRUE(check_request(kept, ranges, kept.uid_base).empty());
  EXPECT_EQ(check_request(kept, ranges, kept.uid_base + range_size).size(), 1U) << "another's";
  for (const std::uint32_t never :
       {ranges.storage_base(), ranges.start - range_size, 0U, kept.uid_base + 1}) {
    kept.uid_base = never;
    EXPECT_EQ(check_request(kept, ranges, never).size(), 1U) << never;
  }
}

TEST(CheckRequest, RefusesALayerThatAppearsTwice) {
  CreateSandbox bad = request();
  bad.layers = {"aaaaaa", "bbbbbb", "aaaaaa"};
  EXPECT_EQ(check_request(bad, {}).size(), 1U);
}

TEST(UidRanges, GiveWholeRangesAboveTheStorageRange) {
  const UidRanges ranges{0x10000, 4};
  EXPECT_FALSE(ranges.is_session_range(0));
  EXPECT_FALSE(ranges.is_session_range(0x10000));
  EXPECT_TRUE(ranges.is_session_range(0x20000));
  EXPECT_FALSE(ranges.is_session_range(0x20001));
  EXPECT_TRUE(ranges.is_session_range(0x40000));
  EXPECT_FALSE(ranges.is_session_range(0x50000));
}

TEST(IdMaps, AnIdAboveTheRangeTakesTheLastOnesPlace) {
  CreateSandbox plain = request();
  EXPECT_EQ(plan_id_maps(plain).uids, (std::vector<os::IdExtent>{{0, plain.uid_base, 65536}}));
  plain.run_uid = 100'000;
  EXPECT_EQ(plan_id_maps(plain).uids,
            (std::vector<os::IdExtent>{{0, plain.uid_base, 65535},
                                       {100'000, plain.uid_base + 65535, 1}}));
  EXPECT_EQ(plan_id_maps(plain).gids.size(), 1U);
}

TEST(Overlay, StacksTheLastLayerUppermost) {
  const std::vector<std::string> layers{"aaaaaa", "bbbbbb"};
  EXPECT_EQ(plan_overlay_options(layers),
            "userxattr,lowerdir=bbbbbb:aaaaaa,upperdir=../upper,workdir=../work");
}

TEST(Overlay, FiveHundredLayersFitIntoOnePage) {
  EXPECT_LE(plan_overlay_options(std::vector<std::string>(max_layers, "aaaaaa")).size(),
            max_mount_options_bytes);
}

TEST(Masks, CoverWhatContainerRuntimesCover) {
  const auto has = [](std::string_view path, MaskKind kind) {
    return std::ranges::any_of(
        proc_masks(), [&](const Mask& mask) { return mask.path == path && mask.kind == kind; });
  };
  for (const char* path :
       {"kcore", "keys", "timer_list", "scsi", "acpi", "latency_stats", "sched_debug"})
    EXPECT_TRUE(has(path, MaskKind::hidden)) << path;
  for (const char* path : {"sys", "bus", "fs", "irq", "sysrq-trigger"})
    EXPECT_TRUE(has(path, MaskKind::read_only)) << path;
}

TEST(CgroupPlan, WritesWhatWasAskedFor) {
  const auto plan = plan_cgroup({1U << 30, 1500, 77}, {}, {"cpu", "memory", "pids"});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(*plan, (std::vector<CgroupSetting>{
                       {"memory.max", "1090519040"},  // what the agent needs beside the commands
                       {"memory.swap.max", "0"},
                       {"memory.max", "1073741824", CgroupLevel::commands},
                       {"cpu.max", "150000 100000"},
                       {"pids.max", "77"}}));
}

TEST(CgroupPlan, RefusesALimitWithoutItsController) {
  EXPECT_FALSE(plan_cgroup({1U << 30, 0, 0}, {}, {"cpu", "pids"}).has_value());
  EXPECT_FALSE(plan_cgroup({0, 100, 0}, {}, {"memory", "pids"}).has_value());
  EXPECT_TRUE(plan_cgroup({0, 0, 100}, {}, {}).has_value());  // RLIMIT_NPROC takes its place
}

TEST(CgroupPlan, BindsToTheProcessorsWhereThatCanBeEnforced) {
  const std::vector<unsigned> processors{1, 4};
  const Limits limits{.cpu_millis = 1500};
  EXPECT_EQ(*plan_cgroup(limits, processors, {"cpu", "cpuset"}),
            (std::vector<CgroupSetting>{{"cpu.max", "150000 100000"}, {"cpuset.cpus", "1,4"}}));
  EXPECT_EQ(*plan_cgroup(limits, processors, {"cpu"}),
            (std::vector<CgroupSetting>{{"cpu.max", "150000 100000"}}));
  EXPECT_EQ(*plan_cgroup({}, {}, {"cpu", "cpuset"}), std::vector<CgroupSetting>{});
}

TEST(CgroupPlan, BoundsProcessesByDefault) {
  EXPECT_EQ(*plan_cgroup({}, {}, {"pids"}), (std::vector<CgroupSetting>{{"pids.max", "4096"}}));
}

TEST(CgroupPlan, SharesIoAlikeWhereThatCanBeShared) {
  EXPECT_EQ(*plan_cgroup({}, {}, {"io", "pids"}),
            (std::vector<CgroupSetting>{{"pids.max", "4096"}, {"io.weight", "default 100"}}));
}

TEST(Cgroup2Mount, IsFoundBesideV1) {
  EXPECT_EQ(find_cgroup2_mount(
                "35 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "36 24 0:31 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"),
            "/sys/fs/cgroup/unified");
  EXPECT_EQ(find_cgroup2_mount("36 24 0:31 /x /y rw - cgroup2 cgroup2 rw\n"), std::nullopt);
  EXPECT_EQ(find_cgroup2_mount(""), std::nullopt);
}

TEST(Cgroup, PathOfAProcessIsThatOfHierarchyZero) {
  EXPECT_EQ(find_cgroup2_path("12:pids:/a\n0::/system.slice/x.service\n"),
            "/system.slice/x.service");
  EXPECT_EQ(find_cgroup2_path("0::/\n"), "/");
  EXPECT_EQ(find_cgroup2_path("12:pids:/a\n"), std::nullopt);
}

TEST(Capabilities, SysAdminOnlyWithoutNoNewPrivs) {
  const auto has = [](AgentPrivilege privilege, int capability) {
    return std::ranges::count(plan_agent_capabilities(privilege), capability) == 1;
  };
  EXPECT_FALSE(has(AgentPrivilege::no_new_privs, CAP_SYS_ADMIN));
  EXPECT_TRUE(has(AgentPrivilege::setuid_allowed, CAP_SYS_ADMIN));
  EXPECT_FALSE(has(AgentPrivilege::setuid_allowed, CAP_NET_RAW));
}

TEST(Seccomp, NoCallIsBothAllowedAndRefused) {
  for (const std::string_view name : refused_calls())
    EXPECT_EQ(std::ranges::find(allowed_calls(), name), allowed_calls().end()) << name;
  for (const char* name :
       {"io_uring_setup", "clone3", "socketcall", "socket", "clone", "personality"})
    EXPECT_EQ(std::ranges::find(allowed_calls(), name), allowed_calls().end()) << name;
}

TEST(Seccomp, BuildsAFilterThatTheKernelCouldTake) {
  const std::string filter = build_seccomp_filter();
  EXPECT_GT(filter.size(), 0U);
  EXPECT_EQ(filter.size() % 8, 0U);
  EXPECT_LE(filter.size() / 8, 4096U);
}

TEST(Record, SurvivesItsFile) {
  const AgentRecord record{12, 345, "boot"};
  EXPECT_EQ(parse_record(format_record(record)), record);
  for (const char* bad : {"", "1", "2 12 345 boot", "1 x 345 boot", "1 -4 345 boot", "1 12 345"})
    EXPECT_EQ(parse_record(bad), std::nullopt) << bad;
}

TEST(UnpackResult, BecomesAnAnswer) {
  const auto encode_result = [](std::uint8_t status, const std::string& diff_id) {
    wire::Writer out;
    out.u8(status).text("why").text(diff_id).u64(5).u64(6).boolean(true);
    return out.take();
  };
  const std::string digest = "sha256:" + std::string(64, '0');
  EXPECT_EQ(std::get<Unpacked>(parse_unpack_result(encode_result(0, digest))).entries, 6U);
  EXPECT_EQ(std::get<Failed>(parse_unpack_result(encode_result(1, ""))).kind,
            Failure::corrupt_layer);
  EXPECT_EQ(std::get<Failed>(parse_unpack_result(encode_result(2, ""))).kind, Failure::no_space);
  EXPECT_TRUE(std::get<Unpacked>(parse_unpack_result(encode_result(0, digest))).hides_below);
  EXPECT_TRUE(std::get<Unpacked>(parse_unpack_result(encode_result(5, digest))).needs_parents);
  EXPECT_THROW(parse_unpack_result(encode_result(9, digest)), wire::DecodeError);
  EXPECT_THROW(parse_unpack_result(encode_result(0, "x")), wire::DecodeError);
}

TEST(Options, AreReadAndChecked) {
  const std::vector<const char*> good{"--agent=/a", "--uid-start=1000000", "--uid-count=8",
                                      "--cgroup-root="};
  ASSERT_TRUE(parse_broker_options(good).has_value());
  EXPECT_EQ(parse_broker_options(good)->ranges.count, 8U);
  for (const char* bad : {"--uid-start=x", "--uid-count=1", "--state-dir=relative", "--nonsense=1",
                          "plain", "--uid-start=1"}) {
    const std::vector<const char*> arguments{"--agent=/a", bad};
    EXPECT_FALSE(parse_broker_options(arguments).has_value()) << bad;
  }
}

TEST(HostProbe, ComparesReleases) {
  EXPECT_TRUE(is_release_at_least("6.1.0-18-amd64", 6, 1));
  EXPECT_TRUE(is_release_at_least("6.18.44-fc", 6, 1));
  EXPECT_FALSE(is_release_at_least("5.19.0", 6, 1));
  EXPECT_FALSE(is_release_at_least("", 6, 1));
}

TEST(HostProbe, FindsOverlappingSubordinateIds) {
  const UidRanges ranges{1'000'000, 2};
  EXPECT_EQ(find_overlap("a:100000:65536\n", ranges), "");
  EXPECT_EQ(find_overlap("a:100000:65536\nb:1050000:10\n", ranges), "b:1050000:10");
  EXPECT_EQ(find_overlap("rubbish\n:::\n", ranges), "");
}

}  // namespace
}  // namespace daiv::runtime
