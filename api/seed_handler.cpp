#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <array>
#include <exception>

#include "api/api_key.hpp"
#include "api/failure.hpp"
#include "api/form_header.hpp"
#include "api/handlers.hpp"
#include "api/json_body.hpp"
#include "api/multipart.hpp"
#include "api/utf8.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using sessions::SeedField;
using sessions::SeedSink;

// Starlette's limits of a form.
constexpr std::size_t max_text_field_bytes = 1024U << 10;
constexpr std::size_t max_files = 1000;
constexpr std::size_t max_text_fields = 1000;
constexpr std::size_t max_form_bytes = 1U << 20;  // of a body that is no multipart one
// How much of a body is still read for its own faults once it is known that it can't be used.
constexpr std::uint64_t max_ignored_bytes = 64U << 20;

struct ArchiveField {
  std::string_view name;
  SeedField field;
  bool complete = false;
  bool text_given = false;  // the client sent a text in place of a file
  Json text = {};
};

// What the form has said so far.
struct Form {
  std::array<ArchiveField, 2> archives{ArchiveField{"repo_archive", SeedField::repo},
                                       ArchiveField{"skills_archive", SeedField::skills}};
  std::size_t files = 0;
  std::size_t text_fields = 0;

  ArchiveField* find(std::string_view name) {
    for (ArchiveField& archive : archives)
      if (archive.name == name) return &archive;
    return nullptr;
  }
};

void take_text(ArchiveField* archive, std::string text) {
  // FastAPI takes an empty text of a form for a missing field.
  if (archive == nullptr || text.empty()) return;
  archive->text_given = true;
  archive->text = Json::text(replace_invalid_utf8(text));
}

// Throws HttpFailure 422 where the form is not one that can be seeded from.
void check_form(const Form& form) {
  static const Schema upload{};
  std::vector<ValidationError> errors;
  bool complete = false;
  for (const ArchiveField& archive : form.archives) {
    complete = complete || archive.complete;
    if (!archive.text_given) continue;
    ValidationError error;
    error.type = "value_error";
    error.location = {"body", std::string(archive.name)};
    error.message = "Value error, Expected UploadFile, received: <class 'str'>";
    error.input = &archive.text;
    error.schema = &upload;
    error.context = R"({"error":{}})";
    errors.push_back(std::move(error));
  }
  if (!errors.empty()) refuse(errors);
  if (!complete)
    throw HttpFailure(422, "At least one of repo_archive or skills_archive must be provided");
}

// Feeds one multipart body to one seed. Used by one request.
class Upload {
public:
  Upload(Context& context, Exchange& exchange, std::string_view boundary)
      : context_(context), exchange_(exchange), parser_(boundary) {}

  // Returns when the seed is there; throws what is wrong: first with the form, then with the
  // session or an archive.
  asio::awaitable<void> run() {
    for (bool open = true; open;) {
      MultipartEvent event = parser_.next();
      if (std::holds_alternative<BodyEnd>(event)) break;
      if (std::holds_alternative<MalformedBody>(event))
        throw HttpFailure(400, "There was an error parsing the body");
      if (std::holds_alternative<NeedMore>(event)) {
        open = co_await fetch();
      } else {
        co_await handle(std::move(event));
      }
    }
    co_await drop_epilogue();
    check_form(form_);
    if (failure_) std::rethrow_exception(failure_);
    if (parser_.inside_part()) throw HttpFailure(400, "The body ends inside of a part.");
    co_await sink_->commit();
  }

private:
  // The next piece of the body; false where nothing more is worth reading.
  asio::awaitable<bool> fetch() {
    std::string bytes = co_await exchange_.read_body_some(context_.settings.limits.max_seed_bytes);
    if (bytes.empty()) co_return false;
    if (failure_) ignored_ += bytes.size();
    parser_.append(bytes);
    co_return ignored_ <= max_ignored_bytes;
  }

  asio::awaitable<void> drop_epilogue() {
    std::uint64_t dropped = 0;
    while (!exchange_.body_done() && dropped <= max_ignored_bytes) {
      const std::string bytes =
          co_await exchange_.read_body_some(context_.settings.limits.max_seed_bytes);
      dropped += bytes.size();
    }
  }

  asio::awaitable<void> handle(MultipartEvent event) {
    if (PartBegin* part = std::get_if<PartBegin>(&event)) {
      begin_part(*part);
      if (archive_ != nullptr) co_await begin_archive();
    } else if (PartData* data = std::get_if<PartData>(&event)) {
      co_await take_data(std::move(data->bytes));
    } else {
      co_await end_part();
    }
  }

  void begin_part(const PartBegin& part) {
    if (!part.name)
      throw HttpFailure(400, "The Content-Disposition header field \"name\" must be provided.");
    is_file_ = part.filename.has_value();
    text_.clear();
    if (is_file_ && ++form_.files > max_files)
      throw HttpFailure(400,
                        fmt::format("Too many files. Maximum number of files is {}.", max_files));
    if (!is_file_ && ++form_.text_fields > max_text_fields)
      throw HttpFailure(
          400, fmt::format("Too many fields. Maximum number of fields is {}.", max_text_fields));
    text_field_ = form_.find(*part.name);
    archive_ = is_file_ ? text_field_ : nullptr;
    if (archive_ != nullptr && archive_->complete)
      throw HttpFailure(422, fmt::format("{} must be given only once", archive_->name));
  }

  asio::awaitable<void> begin_archive() {
    if (failure_) co_return;
    try {
      if (!sink_) sink_ = co_await context_.service.begin_seed(exchange_.session_id);
      co_await sink_->begin(archive_->field);
    } catch (const sessions::SessionError&) {
      failure_ = std::current_exception();
    }
    if (failure_) sink_.reset();
  }

  asio::awaitable<void> take_data(std::string bytes) {
    if (!is_file_) {
      if (text_.size() + bytes.size() > max_text_field_bytes)
        throw HttpFailure(
            400, fmt::format("Part exceeded maximum size of {}KB.", max_text_field_bytes / 1024));
      text_ += bytes;
      co_return;
    }
    if (archive_ == nullptr || failure_) co_return;
    try {
      co_await sink_->write(std::move(bytes));
    } catch (const sessions::SessionError&) {
      failure_ = std::current_exception();
    }
    if (failure_) sink_.reset();
  }

  asio::awaitable<void> end_part() {
    if (!is_file_) take_text(text_field_, std::move(text_));
    if (archive_ == nullptr) co_return;
    archive_->complete = true;
    archive_->text_given = false;
    if (failure_) co_return;
    try {
      co_await sink_->end();
    } catch (const sessions::SessionError&) {
      failure_ = std::current_exception();
    }
    if (failure_) sink_.reset();
  }

  Context& context_;
  Exchange& exchange_;
  MultipartParser parser_;
  Form form_;
  bool is_file_ = false;
  ArchiveField* archive_ = nullptr;     // the part's, where it is a file that is wanted
  ArchiveField* text_field_ = nullptr;  // the part's, whatever it holds
  std::string text_;
  std::unique_ptr<SeedSink> sink_;  // without commit(), nothing of the seed stays
  std::exception_ptr failure_;      // of the session or an archive
  std::uint64_t ignored_ = 0;
};

// A form without files, which FastAPI reads too: it can't hold an archive, but a text in its place
// is reported.
asio::awaitable<Form> read_urlencoded(Exchange& exchange) {
  const std::string body = co_await exchange.read_body(max_form_bytes);
  Form form;
  for (ArchiveField& archive : form.archives)
    take_text(&archive, query_parameter(body, archive.name).value_or(""));
  co_return form;
}

asio::awaitable<void> seed_multipart(Context& context, Exchange& exchange, const FormHeader& type) {
  const auto found = type.parameters.find("boundary");
  if (found == type.parameters.end() || found->second.empty())
    throw HttpFailure(400, "Missing boundary in multipart.");
  if (found->second.size() > max_boundary_bytes)
    throw HttpFailure(400, "There was an error parsing the body");
  require_key(check_api_key(exchange.head(), context.settings.api_key));
  Upload upload(context, exchange, found->second);
  co_await upload.run();
}

}  // namespace

asio::awaitable<void> handle_seed(Context& context, Exchange& exchange) {
  const FormHeader type = parse_form_header(exchange.head().find("Content-Type").value_or(""));
  if (type.value == "multipart/form-data") {
    co_await seed_multipart(context, exchange, type);
  } else {
    require_key(check_api_key(exchange.head(), context.settings.api_key));
    Form form;
    if (type.value == "application/x-www-form-urlencoded")
      form = co_await read_urlencoded(exchange);
    check_form(form);
  }
  Response done;
  done.status = 204;
  co_await exchange.send(std::move(done));
}

}  // namespace daiv::api
