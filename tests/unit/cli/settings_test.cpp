#include "cli/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "cli/settings_listing.hpp"
#include "cli/upstream_network.hpp"
#include "os/io.hpp"

namespace daiv::cli {
namespace {

namespace fs = std::filesystem;

struct SettingsTest : testing::Test {
  SettingsTest() {
    std::string name = (fs::temp_directory_path() / "daiv-settings.XXXXXX").string();
    directory = ::mkdtemp(name.data());
    sources.secrets_dir = directory + "/secrets";
    sources.credential_store = directory + "/store";
    sources.credentials_dir = directory + "/credentials";
    sources.settings_file = directory + "/daiv-sandbox.env";
    fs::create_directory(sources.secrets_dir);
    fs::create_directory(sources.credentials_dir);
  }
  ~SettingsTest() override { fs::remove_all(directory); }
  static void write(const std::string& path, const std::string& content) {
    std::ofstream(path) << content;
  }
  [[nodiscard]] LoadedSettings load() const { return load_settings(sources); }
  [[nodiscard]] std::string api_key() const { return load().settings.api_key; }

  std::string directory;
  SettingSources sources;
};

TEST_F(SettingsTest, EveryDefaultIsAccepted) {
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.errors.empty());
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_EQ(loaded.settings.port, 8000);
  EXPECT_EQ(loaded.settings.api_v1_str, "/api/v1");
  EXPECT_EQ(loaded.settings.run_uid, 1000U);
  EXPECT_EQ(loaded.settings.uid_start, 0x70000000U);
  EXPECT_EQ(loaded.settings.session_lock_wait, Milliseconds(30000));
  EXPECT_EQ(loaded.settings.max_output_bytes, 32U << 20);
  EXPECT_EQ(loaded.settings.fs_prune_dirs.size(), 29U);
  EXPECT_EQ(loaded.settings.fs_prune_dirs.front(), ".git");
}

TEST_F(SettingsTest, NamesAreUniqueAndDocumented) {
  std::set<std::string> names;
  for (const auto& spec : settings_table()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_TRUE(spec.name.starts_with("DAIV_SANDBOX_"));
    EXPECT_FALSE(spec.meaning.empty()) << spec.name;
    EXPECT_FALSE(spec.accepted.empty()) << spec.name;
  }
}

TEST_F(SettingsTest, TheEnvironmentWinsThenCredentialsThenSecretsThenTheFile) {
  write(sources.settings_file, "# comment\nDAIV_SANDBOX_API_KEY=\"file\"\n");
  EXPECT_EQ(api_key(), "file");
  write(sources.secrets_dir + "/DAIV_SANDBOX_API_KEY", "secret\n");
  EXPECT_EQ(api_key(), "secret");
  write(sources.credentials_dir + "/daiv_sandbox_api_key", "credential\n");
  EXPECT_EQ(api_key(), "credential");
  sources.environment = {"DAIV_SANDBOX_API_KEY=environment", "OTHER=x"};
  EXPECT_EQ(api_key(), "environment");
}

TEST_F(SettingsTest, TheCredentialStoreHasNamesWithoutPrefixAndBeatsTheFileAlone) {
  fs::create_directory(sources.credential_store);
  write(sources.credential_store + "/API_KEY", "stored\n");
  write(sources.settings_file, "DAIV_SANDBOX_API_KEY=file\n");
  EXPECT_EQ(api_key(), "stored");
  write(sources.secrets_dir + "/DAIV_SANDBOX_API_KEY", "secret\n");
  EXPECT_EQ(api_key(), "secret");
}

TEST_F(SettingsTest, AnEmptyValueCountsAsUnset) {
  write(sources.settings_file, "DAIV_SANDBOX_API_KEY=file\n");
  sources.environment = {"DAIV_SANDBOX_API_KEY=", "DAIV_SANDBOX_PORT="};
  EXPECT_EQ(api_key(), "file");
  EXPECT_EQ(load().settings.port, 8000);
}

TEST_F(SettingsTest, ABadValueSaysNameValueAndWhatIsAccepted) {
  for (const std::string bad :
       {"DAIV_SANDBOX_PORT=70000", "DAIV_SANDBOX_PORT=-1", "DAIV_SANDBOX_PORT=80x",
        "DAIV_SANDBOX_REAPER_ENABLED=maybe", "DAIV_SANDBOX_LOG_LEVEL=LOUD",
        "DAIV_SANDBOX_COMMAND_TIMEOUT=-3", "DAIV_SANDBOX_COMMAND_TIMEOUT=nan",
        "DAIV_SANDBOX_SENTRY_TRACES_SAMPLE_RATE=1.5", "DAIV_SANDBOX_STATE_DIR=relative",
        "DAIV_SANDBOX_UID_START=1000", "DAIV_SANDBOX_RUN_UID=65535", "DAIV_SANDBOX_PIDS_LIMIT=7"}) {
    sources.environment = {bad};
    const LoadedSettings loaded = load();
    ASSERT_EQ(loaded.errors.size(), 1U) << bad;
    EXPECT_TRUE(loaded.errors[0].starts_with(bad)) << loaded.errors[0];
    EXPECT_NE(loaded.errors[0].find("expected "), std::string::npos);
  }
}

TEST_F(SettingsTest, AcceptsWhatTheDockerVariantAccepts) {
  sources.environment = {
      "DAIV_SANDBOX_REAPER_ENABLED=False", "DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS=0.5",
      "DAIV_SANDBOX_FS_PRUNE_DIRS= a, b ,,*.c", "DAIV_SANDBOX_ENVIRONMENT=local"};
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.errors.empty());
  EXPECT_EQ(loaded.settings.reaper_enabled, Switch::off);
  EXPECT_EQ(loaded.settings.session_lock_wait, Milliseconds(500));
  EXPECT_EQ(loaded.settings.fs_prune_dirs, (std::vector<std::string>{"a", "b", "*.c"}));
  EXPECT_EQ(loaded.settings.environment, Environment::local);
}

TEST_F(SettingsTest, AFractionOfASecondIsNeverCutToNone) {
  sources.environment = {
      "DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS=0.5", "DAIV_SANDBOX_COMMAND_TIMEOUT=0.001",
      "DAIV_SANDBOX_SESSION_GRACE_SECONDS=1.5", "DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS=0.0001",
      "DAIV_SANDBOX_REAPER_INTERVAL_SECONDS=600"};
  const Settings settings = load().settings;
  EXPECT_EQ(settings.running_session_max_idle, Seconds(1));
  EXPECT_EQ(settings.command_timeout, Seconds(1));
  EXPECT_EQ(settings.session_grace, Seconds(2));
  EXPECT_EQ(settings.session_lock_wait, Milliseconds(1));
  EXPECT_EQ(settings.reaper_interval, Seconds(600));
}

TEST_F(SettingsTest, AnUnknownNameNamesTheNearestKnownOne) {
  sources.environment = {"DAIV_SANDBOX_API_KEI=x", "UNRELATED=y"};
  const LoadedSettings loaded = load();
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_NE(loaded.warnings[0].find("DAIV_SANDBOX_API_KEI"), std::string::npos);
  EXPECT_NE(loaded.warnings[0].find("DAIV_SANDBOX_API_KEY"), std::string::npos);
}

TEST_F(SettingsTest, ConflictsStopTheStart) {
  const std::string key = "DAIV_SANDBOX_API_KEY=k";
  const auto conflicts = [&](std::vector<std::string> environment) {
    sources.environment = std::move(environment);
    return find_conflicts(load().settings);
  };
  EXPECT_TRUE(conflicts({key}).empty());
  EXPECT_EQ(conflicts({}).size(), 1U) << "no key";
  EXPECT_EQ(conflicts({"DAIV_SANDBOX_API_KEY= \t "}).size(), 1U) << "a key that is none";
  for (const char* unsendable : {" k", "k ", "a\nb", "a\x7f"})
    EXPECT_EQ(conflicts({std::string("DAIV_SANDBOX_API_KEY=") + unsendable}).size(), 1U);
  EXPECT_TRUE(conflicts({"DAIV_SANDBOX_API_KEY=a b\tc\xc3\xa9"}).empty());
  for (const char* setting :
       {"DAIV_SANDBOX_RUNTIME=runsc", "DAIV_SANDBOX_REDIS_URL=http://x",
        "DAIV_SANDBOX_TLS_CERT_FILE=/x", "DAIV_SANDBOX_EGRESS_CA_CERT_FILE=/x",
        "DAIV_SANDBOX_UID_START=4294901760", "DAIV_SANDBOX_UID_START=1879048193",
        "DAIV_SANDBOX_REDIS_URL=redis://:p@x/name", "DAIV_SANDBOX_STATE_DIR=/run/daiv-sandbox"}) {
    EXPECT_EQ(conflicts({key, setting}).size(), 1U) << setting;
  }
}

TEST_F(SettingsTest, TheBasePathHasNoSlashAtItsEnd) {
  for (const auto& [text, path] : std::map<std::string, std::string>{
           {"/sb", "/sb"}, {"/sb/", "/sb"}, {"/a/b//", "/a/b"}, {"/", "/"}, {"//", "/"}}) {
    sources.environment = {"DAIV_SANDBOX_API_V1_STR=" + text};
    const LoadedSettings loaded = load();
    EXPECT_TRUE(loaded.errors.empty()) << text;
    EXPECT_EQ(loaded.settings.api_v1_str, path) << text;
  }
  for (const std::string text : {"sb", "sb/", "/s b", "/sb?x", "/sb#x"}) {
    sources.environment = {"DAIV_SANDBOX_API_V1_STR=" + text};
    EXPECT_EQ(load().errors.size(), 1U) << text;
  }
}

TEST_F(SettingsTest, WhatHasNoEffectYetIsSaid) {
  sources.environment = {"DAIV_SANDBOX_SENTRY_DSN=https://x@y/1",
                         "DAIV_SANDBOX_EGRESS_PROXY_CPUS=1", "DAIV_SANDBOX_PORT=1"};
  EXPECT_EQ(find_remarks(load()).size(), 1U);
}

TEST_F(SettingsTest, ExtraHostsAreNamesWithAddresses) {
  sources.environment = {
      "DAIV_SANDBOX_EGRESS_EXTRA_HOSTS=a.test:198.18.0.1, b.test:::1,c.test:[2001:db8::1]"};
  const auto hosts = load().settings.egress_extra_hosts;
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0].name, "a.test");
  EXPECT_EQ(hosts[0].address, "198.18.0.1");
  EXPECT_EQ(hosts[1].address, "::1");
  EXPECT_EQ(hosts[2].address, "2001:db8::1");
  for (const char* bad : {"a.test", "a.test:", ":1.2.3.4", "a.test:b.test", "a:1.2.3.4,b"}) {
    sources.environment = {std::string("DAIV_SANDBOX_EGRESS_EXTRA_HOSTS=") + bad};
    EXPECT_EQ(load().errors.size(), 1U) << bad;
  }
  sources.environment = {"DAIV_SANDBOX_EGRESS_SUBNET=127.0.0.0/8"};
  EXPECT_EQ(load().errors.size(), 1U);
}

TEST_F(SettingsTest, SecretsAreNeverShown) {
  sources.environment = {"DAIV_SANDBOX_API_KEY=hush-hush",
                         "DAIV_SANDBOX_REDIS_URL=redis://:hush-hush@x",
                         "DAIV_SANDBOX_SENTRY_DSN=hush-hush"};
  const LoadedSettings loaded = load();
  EXPECT_EQ(list_settings(loaded).find("hush-hush"), std::string::npos);
  EXPECT_EQ(list_settings_as_json(loaded).find("hush-hush"), std::string::npos);
  EXPECT_NE(list_settings(loaded).find("DAIV_SANDBOX_API_KEY=**********"), std::string::npos);
}

TEST(SettingsDocument, IsWhatTheTableSays) {
  EXPECT_EQ(os::read_file(SETTINGS_DOCUMENT, 1U << 20), document_settings())
      << "make it anew: daiv-sandbox settings --markdown > docs/settings.md";
}

UpstreamNetwork find_network(const std::string& proxy_network, const std::string& network = {}) {
  Settings settings;
  settings.egress_proxy_network = proxy_network;
  settings.network = network;
  return find_upstream_network(settings);
}

using NetworkKind = UpstreamNetwork::Kind;

TEST(UpstreamNetwork, OfNothingIsAnyInterface) {
  EXPECT_EQ(find_network("").kind, NetworkKind::any);
}

TEST(UpstreamNetwork, IsTheProxysOwnBeforeTheGeneralOne) {
  const UpstreamNetwork found = find_network("lo", "no-such-net0");
  EXPECT_EQ(found.kind, NetworkKind::interface);
  EXPECT_EQ(found.name, "lo");
  EXPECT_EQ(find_network("", "lo").kind, NetworkKind::interface);
}

TEST(UpstreamNetwork, ThatIsNeitherIsUnknownAndSaysWhy) {
  const UpstreamNetwork found = find_network("", "no-such-net0");
  EXPECT_EQ(found.kind, NetworkKind::unknown);
  EXPECT_EQ(found.setting, "DAIV_SANDBOX_NETWORK=no-such-net0");
  EXPECT_NE(found.fault.find("ip netns add"), std::string::npos);
}

TEST(UpstreamNetwork, APathIsANamespaceAndNoInterface) {
  for (const char* path : {"/run/netns/lo", "/var/run/netns/lo", "/run/netns/", "/run/netns/..",
                           "/run/netns/a/b", "/proc/self/ns/net", "/lo", "/"})
    EXPECT_EQ(find_network(path).kind, NetworkKind::unknown) << path;
  EXPECT_NE(find_network("/proc/self/ns/net").fault.find("ip netns attach"), std::string::npos);
}

TEST(UpstreamNetwork, NameServersOnLoopbackAloneAreNoticed) {
  EXPECT_TRUE(asks_loopback_alone("# stub\nnameserver 127.0.0.53\noptions edns0\n"));
  EXPECT_TRUE(asks_loopback_alone("nameserver ::1\nnameserver\t127.0.0.1"));
  EXPECT_FALSE(asks_loopback_alone("nameserver 127.0.0.53\nnameserver 198.18.0.1\n"));
  EXPECT_FALSE(asks_loopback_alone("search example.test\n"));
  EXPECT_FALSE(asks_loopback_alone(""));
}

}  // namespace
}  // namespace daiv::cli
