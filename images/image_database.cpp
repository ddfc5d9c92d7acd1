#include "images/image_database.hpp"

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "images/sqlite_connection.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

constexpr std::int64_t schema_version = 2;  // as `schema` says
constexpr const char* schema = R"(
CREATE TABLE IF NOT EXISTS layers (
  diff_id TEXT PRIMARY KEY,  -- or the chainID of a layer that depends on what lies below
  name TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  durable INTEGER NOT NULL DEFAULT 0,
  hides_below INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS layer_names ON layers (name) WHERE name <> '';
CREATE TABLE IF NOT EXISTS images (
  id TEXT PRIMARY KEY,
  config TEXT NOT NULL,
  last_used INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS image_layers (
  image_id TEXT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  diff_id TEXT NOT NULL REFERENCES layers (diff_id),
  chain_id TEXT NOT NULL,
  PRIMARY KEY (image_id, position)
) STRICT;
CREATE INDEX IF NOT EXISTS image_layers_by_diff_id ON image_layers (diff_id);
CREATE TABLE IF NOT EXISTS image_references (
  reference TEXT PRIMARY KEY,
  image_id TEXT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
  digest TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS references_by_image ON image_references (image_id);
PRAGMA user_version = 2;
)";

// From version 1, before `schema`.
constexpr const char* migration_to_2 =
    "ALTER TABLE layers ADD COLUMN hides_below INTEGER NOT NULL DEFAULT 0";

// The columns that read_layer() reads.
std::string select_layers(const char* condition) {
  return std::string("SELECT diff_id, name, bytes, entries, hides_below FROM layers ") + condition;
}

std::string read_boot_id() {
  std::string text = os::read_file("/proc/sys/kernel/random/boot_id", 64);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::int64_t to_milliseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::chrono::system_clock::time_point from_milliseconds(std::int64_t milliseconds) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(milliseconds));
}

LayerRecord read_layer(const Statement& row) {
  return {row.text(0), row.text(1), static_cast<std::uint64_t>(row.number(2)),
          static_cast<std::uint64_t>(row.number(3)), row.number(4) != 0};
}

SqliteConnection open_with_schema(const std::string& path) {
  SqliteConnection connection(path);
  Transaction transaction(connection);
  if (connection.schema_version(schema_version) == 1) connection.run(migration_to_2);
  connection.run(schema);
  transaction.commit();
  return connection;
}

}  // namespace

struct ImageDatabase::Impl {
  explicit Impl(const std::string& path) : connection(open_with_schema(path)) {}

  std::vector<LayerRecord> read_layers(Statement statement) {
    std::vector<LayerRecord> found;
    while (statement.step()) found.push_back(read_layer(statement));
    return found;
  }

  std::optional<LayerRecord> find_layer(const std::string& key) {
    layer.bind(1, key);
    if (!layer.step()) return std::nullopt;
    auto record = read_layer(layer);
    layer.reset();
    return record;
  }

  ImageRecord read_image(const Statement& row) {
    ImageRecord found{row.text(0), row.text(1), {}, {}, from_milliseconds(row.number(2))};
    image_layers.bind(1, found.id);
    while (image_layers.step()) {
      found.diff_ids.push_back(image_layers.text(0));
      found.chain_ids.push_back(image_layers.text(1));
    }
    return found;
  }

  std::mutex mutex;
  SqliteConnection connection;
  std::string boot_id = read_boot_id();
  Statement data_version = connection.prepare("PRAGMA data_version");
  Statement layer = connection.prepare(select_layers("WHERE diff_id = ?1"));
  Statement image = connection.prepare("SELECT id, config, last_used FROM images WHERE id = ?1");
  Statement image_layers = connection.prepare(
      "SELECT diff_id, chain_id FROM image_layers WHERE image_id = ?1 ORDER BY position");
  Statement reference = connection.prepare(
      "SELECT reference, image_id, digest FROM image_references WHERE reference = ?1");
  Statement touch =
      connection.prepare("UPDATE images SET last_used = ?2 WHERE id = ?1 AND last_used < ?2");
};

ImageDatabase::ImageDatabase(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}

ImageDatabase::~ImageDatabase() = default;

std::int64_t ImageDatabase::version() {
  const std::lock_guard lock(impl_->mutex);
  impl_->data_version.step();
  const std::int64_t version = impl_->data_version.number(0);
  impl_->data_version.reset();
  return version;
}

std::optional<LayerRecord> ImageDatabase::find_layer(const std::string& key) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->find_layer(key);
}

std::optional<LayerRecord> ImageDatabase::find_layer(const std::string& diff_id,
                                                     const std::string& chain_id) {
  const std::lock_guard lock(impl_->mutex);
  auto found = impl_->find_layer(diff_id);
  return found ? found : impl_->find_layer(chain_id);
}

std::vector<LayerRecord> ImageDatabase::layers() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->read_layers(impl_->connection.prepare(select_layers("")));
}

bool ImageDatabase::add_layer(const LayerRecord& layer) {
  const std::lock_guard lock(impl_->mutex);
  auto statement = impl_->connection.prepare(
      "INSERT INTO layers (diff_id, name, bytes, entries, boot_id, hides_below) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (diff_id) DO NOTHING RETURNING 1");
  statement.bind(1, layer.diff_id)
      .bind(2, layer.name)
      .bind(3, static_cast<std::int64_t>(layer.bytes));
  statement.bind(4, static_cast<std::int64_t>(layer.entries)).bind(5, impl_->boot_id);
  statement.bind(6, std::int64_t{layer.hides_below ? 1 : 0});
  const bool added = statement.step();
  if (added) statement.run();
  return added;
}

std::vector<std::string> ImageDatabase::volatile_layers() {
  const std::lock_guard lock(impl_->mutex);
  auto statement =
      impl_->connection.prepare("SELECT diff_id FROM layers WHERE durable = 0 AND boot_id = ?1");
  statement.bind(1, impl_->boot_id);
  std::vector<std::string> found;
  while (statement.step()) found.push_back(statement.text(0));
  return found;
}

void ImageDatabase::mark_durable(const std::vector<std::string>& diff_ids) {
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->connection);
  auto statement = impl_->connection.prepare("UPDATE layers SET durable = 1 WHERE diff_id = ?1");
  for (const auto& diff_id : diff_ids) statement.bind(1, diff_id).run();
  transaction.commit();
}

std::vector<LayerRecord> ImageDatabase::doubtful_layers() {
  const std::lock_guard lock(impl_->mutex);
  auto statement = impl_->connection.prepare(
      select_layers("WHERE durable = 0 AND boot_id <> ?1 AND name <> ''"));
  statement.bind(1, impl_->boot_id);
  return impl_->read_layers(std::move(statement));
}

void ImageDatabase::forget_layers(const std::vector<std::string>& diff_ids) {
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->connection);
  auto images = impl_->connection.prepare(
      "DELETE FROM images WHERE id IN (SELECT image_id FROM image_layers WHERE diff_id = ?1)");
  auto layer = impl_->connection.prepare("DELETE FROM layers WHERE diff_id = ?1");
  for (const auto& diff_id : diff_ids) {
    images.bind(1, diff_id).run();
    layer.bind(1, diff_id).run();
  }
  transaction.commit();
}

bool ImageDatabase::add_image(const ImageRecord& image, const ReferenceRecord& reference) {
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->connection);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < image.diff_ids.size(); ++i) {
    auto found = impl_->find_layer(image.diff_ids[i]);
    if (!found) found = impl_->find_layer(image.chain_ids[i]);
    if (!found) return false;
    keys.push_back(std::move(found->diff_id));
  }
  impl_->connection
      .prepare(
          "INSERT INTO images (id, config, last_used) VALUES (?1, ?2, ?3) "
          "ON CONFLICT (id) DO UPDATE SET last_used = excluded.last_used")
      .bind(1, image.id)
      .bind(2, image.config)
      .bind(3, to_milliseconds(image.last_used))
      .run();
  auto layer = impl_->connection.prepare(
      "INSERT OR IGNORE INTO image_layers (image_id, position, diff_id, chain_id) VALUES (?1, ?2, "
      "?3, ?4)");
  for (std::size_t i = 0; i < image.diff_ids.size(); ++i) {
    layer.bind(1, image.id).bind(2, static_cast<std::int64_t>(i));
    layer.bind(3, keys[i]).bind(4, image.chain_ids[i]).run();
  }
  impl_->connection
      .prepare(
          "INSERT INTO image_references (reference, image_id, digest) VALUES (?1, ?2, ?3) "
          "ON CONFLICT (reference) DO UPDATE SET image_id = excluded.image_id, digest = "
          "excluded.digest")
      .bind(1, reference.reference)
      .bind(2, image.id)
      .bind(3, reference.digest)
      .run();
  transaction.commit();
  return true;
}

std::optional<ImageRecord> ImageDatabase::find_image(const std::string& id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->image.bind(1, id);
  if (!impl_->image.step()) return std::nullopt;
  auto record = impl_->read_image(impl_->image);
  impl_->image.reset();
  return record;
}

std::optional<ReferenceRecord> ImageDatabase::find_reference(const std::string& reference) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reference.bind(1, reference);
  if (!impl_->reference.step()) return std::nullopt;
  ReferenceRecord record{impl_->reference.text(0), impl_->reference.text(1),
                         impl_->reference.text(2)};
  impl_->reference.reset();
  return record;
}

std::vector<ReferenceRecord> ImageDatabase::references() {
  const std::lock_guard lock(impl_->mutex);
  auto statement = impl_->connection.prepare(
      "SELECT reference, image_id, digest FROM image_references ORDER BY reference");
  std::vector<ReferenceRecord> found;
  while (statement.step())
    found.push_back({statement.text(0), statement.text(1), statement.text(2)});
  return found;
}

std::vector<ImageRecord> ImageDatabase::images() {
  const std::lock_guard lock(impl_->mutex);
  auto statement =
      impl_->connection.prepare("SELECT id, config, last_used FROM images ORDER BY last_used, id");
  std::vector<ImageRecord> found;
  while (statement.step()) found.push_back(impl_->read_image(statement));
  return found;
}

bool ImageDatabase::remove_reference(const std::string& reference) {
  const std::lock_guard lock(impl_->mutex);
  auto statement =
      impl_->connection.prepare("DELETE FROM image_references WHERE reference = ?1 RETURNING 1");
  const bool removed = statement.bind(1, reference).step();
  if (removed) statement.run();
  return removed;
}

void ImageDatabase::touch_image(const std::string& id, std::chrono::system_clock::time_point used) {
  const std::lock_guard lock(impl_->mutex);
  impl_->touch.bind(1, id).bind(2, to_milliseconds(used)).run();
}

std::vector<LayerRecord> ImageDatabase::remove(const std::vector<std::string>& image_ids,
                                               const std::vector<std::string>& diff_ids) {
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->connection);
  auto image = impl_->connection.prepare("DELETE FROM images WHERE id = ?1");
  for (const auto& id : image_ids) image.bind(1, id).run();
  auto layer = impl_->connection.prepare(
      "DELETE FROM layers WHERE diff_id = ?1 AND NOT EXISTS (SELECT 1 FROM image_layers WHERE "
      "diff_id = ?1) "
      "RETURNING diff_id, name, bytes, entries, hides_below");
  std::vector<LayerRecord> removed;
  for (const auto& diff_id : diff_ids) {
    layer.bind(1, diff_id);
    while (layer.step()) removed.push_back(read_layer(layer));
  }
  transaction.commit();
  return removed;
}

}  // namespace daiv::images
