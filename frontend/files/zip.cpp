// Entries of zip files: unpacking with a checksum, and the writer, which lays files out as Python's zipfile does for NumPy (every
// local header has zip64 fields). The directory of a file that is read is in zip_directory.cpp.
#include "frontend/files/zip.h"
#include <zlib.h>
#include <algorithm>
#include <array>
#include "frontend/files/elements.h"
#include "runtime/error.h"

namespace frit::files {
namespace {

constexpr uint64_t step_bytes = uint64_t(1) << 30;  // zlib counts in 32 bits

uint32_t add_checksum(uint32_t checksum, const void* bytes, uint64_t n) {
  for (auto* p = static_cast<const Bytef*>(bytes); n;) {
    const uint64_t step = std::min(n, step_bytes);
    checksum = uint32_t(::crc32(checksum, p, uInt(step)));
    p += step, n -= step;
  }
  return checksum;
}

// What stored and deflated entries share: positions are the entry's own, the name is in every message.
class EntryStream : public Stream {
 public:
  EntryStream(const Source& source, const ZipEntry& entry) : source_(source), entry_(entry) { size_ = entry.size; }
  void read(void* to, uint64_t n, const char* what) final {
    if (n > left()) fail(at_, std::string("expected ") + std::to_string(n) + " bytes of " + what + ", but it ends at byte " + std::to_string(size_));
    unpack(static_cast<uint8_t*>(to), n, what);
    checksum_ = add_checksum(checksum_, to, n);
    at_ += n;
  }
  void finish() final {
    if (left()) fail(at_, "here its content should end, but " + std::to_string(left()) + " more bytes follow");
    check_end();
    if (checksum_ != entry_.checksum) fail(at_, "its content does not match its checksum");
  }

 protected:
  std::string place(uint64_t at) const final { return source_.name() + ": entry " + name_text(entry_.name) + ", at its byte " + std::to_string(at); }
  virtual void unpack(uint8_t* to, uint64_t n, const char* what) = 0;
  virtual void check_end() = 0;
  const Source& source_;
  const ZipEntry entry_;

 private:
  uint32_t checksum_ = 0;
};

class StoredEntry final : public EntryStream {
 public:
  using EntryStream::EntryStream;

 private:
  void unpack(uint8_t* to, uint64_t n, const char* what) override { source_.read(entry_.bytes_at + at_, to, n, what); }
  void check_end() override {}
};

class DeflatedEntry final : public EntryStream {
 public:
  DeflatedEntry(const Source& source, const ZipEntry& entry) : EntryStream(source, entry) {
    if (::inflateInit2(&z_, -MAX_WBITS) != Z_OK) throw OutOfMemoryError("cannot read " + source.name() + ": zlib found no memory");
  }
  ~DeflatedEntry() override { ::inflateEnd(&z_); }

 private:
  void unpack(uint8_t* to, uint64_t n, const char* what) override {
    while (n) {
      const uint64_t step = std::min(n, step_bytes);
      z_.next_out = to;
      z_.avail_out = uInt(step);
      while (z_.avail_out) {
        if (ended_ || !advance()) fail(at_, std::string("the packed bytes end in the middle of ") + what);
      }
      to += step, n -= step;
    }
  }
  // All packed bytes are used, and the packed stream's own end comes here.
  void check_end() override {
    uint8_t extra;
    z_.next_out = &extra;
    z_.avail_out = 1;
    while (!ended_)
      if (!advance() || !z_.avail_out) fail(at_, "the packed bytes hold more or less than the entry's size");
    if (z_.avail_in || taken_ != entry_.packed) fail(at_, "packed bytes follow their own end");
  }
  // False when there is nothing left to unpack from.
  bool advance() {
    if (!z_.avail_in && taken_ < entry_.packed) {
      const uint64_t n = std::min<uint64_t>(input_.size(), entry_.packed - taken_);
      source_.read(entry_.bytes_at + taken_, input_.data(), n, "packed bytes");
      taken_ += n;
      z_.next_in = input_.data();
      z_.avail_in = uInt(n);
    }
    const uInt out = z_.avail_out, in = z_.avail_in;
    const int code = ::inflate(&z_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw OutOfMemoryError("cannot read " + source_.name() + ": zlib found no memory");
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) fail(at_, std::string("the packed bytes are damaged (") + (z_.msg ? z_.msg : "no deflate stream") + ")");
    ended_ = code == Z_STREAM_END;
    return ended_ || z_.avail_out != out || z_.avail_in != in;
  }

  z_stream z_{};
  std::array<uint8_t, 1 << 16> input_;
  uint64_t taken_ = 0;
  bool ended_ = false;
};

std::string little(std::initializer_list<std::pair<uint64_t, int>> fields) {
  std::string s;
  for (const auto& [value, width] : fields)
    for (int i = 0; i < width; ++i) s += char(value >> (8 * i));
  return s;
}
constexpr uint64_t version64 = 45, unix_made = 3, dos_date = 0x21 /* the first of 1980 */, in_zip64 = 0xffffffff;
constexpr uint64_t rights = uint64_t(0600) << 16;

std::string local_header(const ZipEntry& e) {
  return little({{0x04034b50, 4}, {version64, 2}, {0, 2}, {e.deflated ? 8 : 0, 2}, {0, 2}, {dos_date, 2}, {e.checksum, 4}, {in_zip64, 4}, {in_zip64, 4},
                 {e.name.size(), 2}, {20, 2}}) + e.name + little({{1, 2}, {16, 2}, {e.size, 8}, {e.packed, 8}});
}
uint64_t utf8_flag(const std::string& name) {
  return std::any_of(name.begin(), name.end(), [](char c) { return uint8_t(c) >= 0x80; }) ? 0x800 : 0;
}

// Packs what it is given at the end of a file.
class Deflater {
 public:
  explicit Deflater(AtomicFile& file) : file_(file) {
    if (::deflateInit2(&z_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, MAX_MEM_LEVEL - 1, Z_DEFAULT_STRATEGY) != Z_OK)
      throw OutOfMemoryError("save_npz: zlib found no memory");
  }
  ~Deflater() { ::deflateEnd(&z_); }
  Deflater(const Deflater&) = delete;
  void add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t step = std::min<size_t>(bytes.size(), step_bytes);
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      z_.avail_in = uInt(step);
      while (z_.avail_in) run(Z_NO_FLUSH);
      bytes.remove_prefix(step);
    }
  }
  void finish() {
    while (run(Z_FINISH) != Z_STREAM_END) {}
  }

 private:
  int run(int flush) {
    z_.next_out = output_.data();
    z_.avail_out = uInt(output_.size());
    const int code = ::deflate(&z_, flush);
    file_.write(output_.data(), output_.size() - z_.avail_out);
    return code;
  }
  AtomicFile& file_;
  z_stream z_{};
  std::array<uint8_t, 1 << 16> output_;
};

}  // namespace

std::unique_ptr<Stream> open_zip_entry(const Source& source, const ZipEntry& entry) {
  if (entry.deflated) return std::make_unique<DeflatedEntry>(source, entry);
  return std::make_unique<StoredEntry>(source, entry);
}

void ZipWriter::add(const std::string& name, std::initializer_list<std::string_view> parts) {
  ZipEntry e;
  e.name = name;
  e.deflated = deflate_;
  e.header_at = file_.size();
  for (std::string_view part : parts) e.size += part.size(), e.checksum = add_checksum(e.checksum, part.data(), part.size());
  file_.write(local_header(e));
  e.bytes_at = file_.size();
  if (deflate_) {
    Deflater out(file_);
    for (std::string_view part : parts) out.add(part);
    out.finish();
  } else {
    for (std::string_view part : parts) file_.write(part);
  }
  e.packed = file_.size() - e.bytes_at;
  std::string header = local_header(e);
  header[7] = char(utf8_flag(name) >> 8);
  file_.rewrite(e.header_at, header.data(), header.size());
  entries_.push_back(std::move(e));
}

void ZipWriter::finish() {
  const uint64_t at = file_.size();
  for (const ZipEntry& e : entries_) {
    std::string extra;
    const auto small = [&](uint64_t n) {
      if (n < in_zip64) return n;
      extra += little({{n, 8}});
      return in_zip64;
    };
    const uint64_t size = small(e.size), packed = small(e.packed), header_at = small(e.header_at);
    if (!extra.empty()) extra = little({{1, 2}, {extra.size(), 2}}) + extra;
    file_.write(little({{0x02014b50, 4}, {version64 | unix_made << 8, 2}, {version64, 2}, {utf8_flag(e.name), 2}, {e.deflated ? 8 : 0, 2}, {0, 2}, {dos_date, 2},
                        {e.checksum, 4}, {packed, 4}, {size, 4}, {e.name.size(), 2}, {extra.size(), 2}, {0, 2}, {0, 2}, {0, 2}, {rights, 4}, {header_at, 4}}) + e.name + extra);
  }
  const uint64_t end = file_.size(), bytes = end - at, count = entries_.size();
  if (count >= 0xffff || bytes >= in_zip64 || at >= in_zip64)
    file_.write(little({{0x06064b50, 4}, {44, 8}, {version64, 2}, {version64, 2}, {0, 4}, {0, 4}, {count, 8}, {count, 8}, {bytes, 8}, {at, 8},
                        {0x07064b50, 4}, {0, 4}, {end, 8}, {1, 4}}));
  const uint64_t small_count = std::min<uint64_t>(count, 0xffff);
  file_.write(little({{0x06054b50, 4}, {0, 2}, {0, 2}, {small_count, 2}, {small_count, 2}, {std::min(bytes, in_zip64), 4}, {std::min(at, in_zip64), 4}, {0, 2}}));
}

}  // namespace frit::files
