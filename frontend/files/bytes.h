// Where bytes of files come from and go to. Source: random access to a file or to memory, every read checked. Stream: reading on
// through a part of it. Sink: writing; AtomicFile is a file that appears whole or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace frit::files {

[[noreturn]] void fail_reading(const std::string& place, const std::string& reason);

class Source {
 public:
  static Source open(const std::string& path);  // throws FileError unless it is a regular file
  static Source memory(std::string name, const void* bytes, uint64_t size);
  ~Source();
  Source(Source&& other) noexcept;
  Source(const Source&) = delete;

  uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  // Exactly n bytes of `what`.
  void read(uint64_t at, void* to, uint64_t n, const char* what) const;
  std::string place(uint64_t at) const { return name_ + ": at byte " + std::to_string(at); }
  [[noreturn]] void fail(uint64_t at, const std::string& reason) const { fail_reading(place(at), reason); }

 private:
  Source() = default;
  std::string name_;
  uint64_t size_ = 0;
  int file_ = -1;
  const uint8_t* memory_ = nullptr;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void read(void* to, uint64_t n, const char* what) = 0;
  virtual void finish() = 0;                // at the end: checks what can only be checked there
  [[noreturn]] void fail(uint64_t at, const std::string& reason) const { fail_reading(place(at), reason); }
  uint64_t at() const { return at_; }       // bytes read
  uint64_t left() const { return size_ - at_; }

 protected:
  virtual std::string place(uint64_t at) const = 0;  // "x.npy: at byte 5"
  uint64_t at_ = 0, size_ = 0;
};

// A whole source from its beginning.
class SourceStream : public Stream {
 public:
  explicit SourceStream(const Source& source) : source_(source) { size_ = source.size(); }
  void read(void* to, uint64_t n, const char* what) override {
    source_.read(at_, to, n, what);
    at_ += n;
  }
  void finish() override {
    if (left()) fail(at_, "here its content should end, but " + std::to_string(left()) + " more bytes follow");
  }

 private:
  std::string place(uint64_t at) const override { return source_.place(at); }
  const Source& source_;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const void* bytes, uint64_t n) = 0;
  void write(std::string_view text) { write(text.data(), text.size()); }
};

class TextSink : public Sink {
 public:
  using Sink::write;
  void write(const void* bytes, uint64_t n) override { text.append(static_cast<const char*>(bytes), n); }
  std::string text;
};

// A file under a temporary name in the folder of `path`; commit() gives it its name. Without a commit nothing is left.
class AtomicFile : public Sink {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  using Sink::write;
  void write(const void* bytes, uint64_t n) override;
  void rewrite(uint64_t at, const void* bytes, uint64_t n);
  uint64_t size() const { return size_; }
  void commit();

 private:
  [[noreturn]] void fail(const char* step, int error) const;
  void write_all(const char* bytes, uint64_t n, uint64_t at);
  std::string path_, target_, temporary_;   // as given; with links followed; while it is written
  int file_ = -1;
  uint64_t size_ = 0;
};

}  // namespace frit::files
