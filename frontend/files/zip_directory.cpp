// The directory of a zip file: the end record (and zip64's), the central entries, and what each local header says again. Fields walks
// the little-endian fields of a record. Start at read_zip_directory.
#include <algorithm>
#include <set>
#include "frontend/files/elements.h"
#include "frontend/files/zip.h"

namespace frit::files {
namespace {

constexpr uint64_t end_bytes = 22, locator_bytes = 20, end64_bytes = 56, central_bytes = 46, local_bytes = 30, longest_comment = 0xffff;
constexpr uint32_t end_mark = 0x06054b50, locator_mark = 0x07064b50, end64_mark = 0x06064b50, central_mark = 0x02014b50, local_mark = 0x04034b50;
constexpr uint32_t in_zip64 = 0xffffffff;
// deflate packs at most 258 bytes into 2 bits.
constexpr uint64_t largest_ratio = 1032;

class Fields {
 public:
  Fields(const Source& source, uint64_t at, uint64_t bytes, const char* what) : bytes_(bytes, '\0') { source.read(at, bytes_.data(), bytes, what); }
  explicit Fields(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t take(int width) {
    uint64_t v = 0;
    for (int i = 0; i < width; ++i) v |= uint64_t(uint8_t(bytes_[at_ + size_t(i)])) << (8 * i);
    at_ += size_t(width);
    return v;
  }
  uint16_t take16() { return uint16_t(take(2)); }
  uint32_t take32() { return uint32_t(take(4)); }
  std::string text(size_t n) {
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  void skip(size_t n) { at_ += n; }
  size_t left() const { return bytes_.size() - at_; }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

struct Directory {
  uint64_t at = 0, bytes = 0, entries = 0;
  uint64_t end = 0;                         // where the end records begin
};

uint64_t find_end(const Source& source) {
  const uint64_t size = source.size();
  if (size < end_bytes) source.fail(size, "expected the end record of a zip file");
  const uint64_t tail = std::min(size, end_bytes + longest_comment);
  std::string bytes(tail, '\0');
  source.read(size - tail, bytes.data(), tail, "the zip file's end");
  for (uint64_t i = tail - end_bytes + 1; i-- > 0;) {
    Fields f(bytes.substr(i, end_bytes));
    if (f.take32() != end_mark) continue;
    f.skip(16);
    if (i + end_bytes + f.take16() == tail) return size - tail + i;
  }
  source.fail(size - end_bytes, "expected the end record of a zip file: the file is no npz, or its end is missing");
}

Directory find_directory(const Source& source) {
  Directory d;
  d.end = find_end(source);
  Fields f(source, d.end, end_bytes, "the end record");
  f.skip(4);
  const uint16_t disk = f.take16(), first_disk = f.take16(), here = f.take16();
  d.entries = f.take16();
  d.bytes = f.take32();
  d.at = f.take32();
  const bool has_locator = d.end >= locator_bytes + end64_bytes && Fields(source, d.end - locator_bytes, 4, "the zip64 locator").take32() == locator_mark;
  if (has_locator) {
    Fields locator(source, d.end - locator_bytes, locator_bytes, "the zip64 locator");
    locator.skip(8);
    const uint64_t at = locator.take(8);
    if (at != d.end - locator_bytes - end64_bytes) source.fail(d.end - locator_bytes, "expected the zip64 end record right before its locator");
    Fields end64(source, at, end64_bytes, "the zip64 end record");
    if (end64.take32() != end64_mark || end64.take(8) != end64_bytes - 12) source.fail(at, "expected a zip64 end record of 56 bytes");
    end64.skip(4);
    if (end64.take32() || end64.take32()) source.fail(at, "the zip file has several volumes; one is read");
    const uint64_t here64 = end64.take(8), entries = end64.take(8), bytes = end64.take(8), begin = end64.take(8);
    const auto same = [](uint64_t small, uint64_t escape, uint64_t large) { return small == escape || small == large; };
    if (here64 != entries || !same(d.entries, 0xffff, entries) || !same(d.bytes, in_zip64, bytes) || !same(d.at, in_zip64, begin))
      source.fail(at, "the two end records differ");
    d = {begin, bytes, entries, at};
  } else if (disk || first_disk || here != d.entries) {
    source.fail(d.end, "the zip file has several volumes; one is read");
  }
  if (d.at > d.end || d.bytes != d.end - d.at)
    source.fail(d.end, "the directory should be at byte " + std::to_string(d.at) + " with " + std::to_string(d.bytes) + " bytes, but it has to end at byte " + std::to_string(d.end));
  if (d.entries > d.bytes / central_bytes) source.fail(d.end, "the directory has no room for " + std::to_string(d.entries) + " entries");
  return d;
}

// Replaces the numbers that did not fit by those of the zip64 field.
void read_zip64(const Source& source, uint64_t at, std::string extra, std::initializer_list<uint64_t*> numbers) {
  const bool wanted = std::any_of(numbers.begin(), numbers.end(), [](uint64_t* n) { return *n == in_zip64; });
  Fields f(std::move(extra));
  while (f.left() >= 4) {
    const uint16_t id = f.take16(), bytes = f.take16();
    if (bytes > f.left()) source.fail(at, "an extra field is longer than its entry");
    if (id != 1) {
      f.skip(bytes);
      continue;
    }
    Fields field(f.text(bytes));
    for (uint64_t* n : numbers)
      if (*n == in_zip64) {
        if (field.left() < 8) source.fail(at, "the zip64 field is too short");
        *n = field.take(8);
      }
    return;
  }
  if (wanted) source.fail(at, "the zip64 field is missing");
}

// The local header has to say what the directory says. `unclaimed` are the bytes that no entry before this one has taken: what
// claims more shares bytes with another, and is not even read.
void check_local(const Source& source, ZipEntry& e, uint64_t limit, uint64_t& unclaimed) {
  const auto fail = [&](const std::string& reason) { source.fail(e.header_at, "entry " + name_text(e.name) + " " + reason); };
  if (limit < local_bytes || e.header_at > limit - local_bytes) fail("has no room for its local header");
  Fields f(source, e.header_at, local_bytes, "a local header");
  if (f.take32() != local_mark) fail("has no local header here");
  f.skip(2);
  const uint16_t flags = f.take16(), method = f.take16();
  f.skip(4);
  const uint32_t checksum = f.take32();
  uint64_t packed = f.take32(), size = f.take32();
  const uint16_t name_bytes = f.take16(), extra_bytes = f.take16();
  if (limit - e.header_at - local_bytes < uint64_t(name_bytes) + extra_bytes) fail("has a local header that is too long");
  const uint64_t header_bytes = local_bytes + name_bytes + extra_bytes;
  if (header_bytes > unclaimed || e.packed > unclaimed - header_bytes) fail("shares bytes with another");
  unclaimed -= header_bytes + e.packed;
  Fields rest(source, e.header_at + local_bytes, uint64_t(name_bytes) + extra_bytes, "a local header");
  const bool same_name = rest.text(name_bytes) == e.name;
  read_zip64(source, e.header_at, rest.text(extra_bytes), {&size, &packed});
  e.bytes_at = e.header_at + header_bytes;
  if (!same_name || method != (e.deflated ? 8 : 0)) fail("has another name or method in its local header");
  const bool sizes_follow = flags & 8;      // then they are zero here
  if (!sizes_follow && (checksum != e.checksum || packed != e.packed || size != e.size)) fail("has other sizes or another checksum in its local header");
  if (flags & 1) fail("is encrypted");
  if (e.packed > limit - e.bytes_at) fail("ends after the directory's beginning");
}

ZipEntry read_central(const Source& source, uint64_t& at, uint64_t end) {
  const auto room = [&](uint64_t n) {
    if (n > end - at) source.fail(at, "the directory ends in the middle of an entry");
  };
  room(central_bytes);
  Fields f(source, at, central_bytes, "an entry of the directory");
  if (f.take32() != central_mark) source.fail(at, "expected an entry of the directory");
  f.skip(4);
  ZipEntry e;
  const uint16_t flags = f.take16(), method = f.take16();
  f.skip(4);
  e.checksum = f.take32();
  e.packed = f.take32();
  e.size = f.take32();
  const uint64_t name_bytes = f.take16(), extra_bytes = f.take16(), comment_bytes = f.take16();
  uint64_t disk = f.take16();
  f.skip(6);
  e.header_at = f.take32();
  room(central_bytes + name_bytes + extra_bytes + comment_bytes);
  Fields rest(source, at + central_bytes, name_bytes + extra_bytes, "an entry of the directory");
  e.name = rest.text(name_bytes);
  read_zip64(source, at, rest.text(extra_bytes), {&e.size, &e.packed, &e.header_at});
  const auto fail = [&](const std::string& reason) { source.fail(at, "entry " + name_text(e.name) + " " + reason); };
  if (flags & 1) fail("is encrypted");
  if (method != 0 && method != 8) fail("is packed with method " + std::to_string(method) + ": expected 0 (stored) or 8 (deflated)");
  if (disk) fail("is in another volume");
  e.deflated = method == 8;
  if (!e.deflated && e.packed != e.size) fail("is stored, but has two different sizes");
  if (e.deflated && e.size / largest_ratio > e.packed) fail("claims " + std::to_string(e.size) + " bytes, more than its " + std::to_string(e.packed) + " packed bytes can hold");
  at += central_bytes + name_bytes + extra_bytes + comment_bytes;
  return e;
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const Source& source) {
  const Directory d = find_directory(source);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  uint64_t at = d.at, unclaimed = d.at;
  for (uint64_t i = 0; i < d.entries; ++i) {
    const uint64_t entry_at = at;
    ZipEntry e = read_central(source, at, d.end);
    if (!names.insert(e.name).second) source.fail(entry_at, "entry " + name_text(e.name) + " is there twice");
    check_local(source, e, d.at, unclaimed);
    entries.push_back(std::move(e));
  }
  if (at != d.end) source.fail(at, "the directory goes on after its last entry");
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& e : entries) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->header_at < b->header_at; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->header_at < sorted[i - 1]->bytes_at + sorted[i - 1]->packed)
      source.fail(sorted[i]->header_at, "entries " + name_text(sorted[i - 1]->name) + " and " + name_text(sorted[i]->name) + " share bytes");
  return entries;
}

}  // namespace frit::files
