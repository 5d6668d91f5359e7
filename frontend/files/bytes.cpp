// Checked reading and atomic writing of files. Start at Source::read and AtomicFile::commit.
#include "frontend/files/bytes.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include "runtime/error.h"

namespace frit::files {
namespace {

constexpr uint64_t largest_step = uint64_t(1) << 30;  // the kernel moves no more in one call

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
std::string bytes_text(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

}  // namespace

// ---- reading ------------------------------------------------------------------------------------------------------------
void fail_reading(const std::string& place, const std::string& reason) { throw FileError("cannot read " + place + ": " + reason + "."); }

Source Source::open(const std::string& path) {
  Source s;
  s.name_ = path;
  if (path.find('\0') != path.npos) throw FileError("cannot read " + path + ": the name holds a zero byte");
  s.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused below, not waited for
  struct stat info;
  if (s.file_ < 0 || ::fstat(s.file_, &info) != 0) throw FileError("cannot read " + path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) throw FileError("cannot read " + path + ": it is no regular file");
  s.size_ = uint64_t(info.st_size);
  return s;
}
Source Source::memory(std::string name, const void* bytes, uint64_t size) {
  Source s;
  s.name_ = std::move(name);
  s.size_ = size;
  s.memory_ = static_cast<const uint8_t*>(bytes);
  return s;
}
Source::Source(Source&& o) noexcept : name_(std::move(o.name_)), size_(o.size_), file_(std::exchange(o.file_, -1)), memory_(o.memory_) {}
Source::~Source() {
  if (file_ >= 0) ::close(file_);
}

void Source::read(uint64_t at, void* to, uint64_t n, const char* what) const {
  if (at > size_ || n > size_ - at)
    fail(std::min(at, size_), std::string("expected ") + bytes_text(n) + " of " + what + ", but the file ends at byte " + std::to_string(size_));
  if (file_ < 0) {
    if (n) std::memcpy(to, memory_ + at, n);
    return;
  }
  auto* out = static_cast<char*>(to);
  while (n) {
    const ssize_t got = ::pread(file_, out, std::min(n, largest_step), off_t(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(at, std::strerror(errno));
    if (got == 0) fail(at, std::string("the file became shorter while ") + what + " was read");
    out += got, at += uint64_t(got), n -= uint64_t(got);
  }
}

// ---- writing ------------------------------------------------------------------------------------------------------------
AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(path) {
  if (path.empty() || path.back() == '/' || path.find('\0') != path.npos) throw FileError("cannot write '" + path + "': it is no name of a file");
  struct stat old {};
  const bool there = ::stat(path.c_str(), &old) == 0;
  if (!there && errno != ENOENT) fail("look for it", errno);
  if (there && !S_ISREG(old.st_mode)) throw FileError("cannot write " + path + ": it is there already and is no regular file");
  if (there)
    if (char* real = ::realpath(path.c_str(), nullptr)) {  // a link stays, the file that it names is replaced
      target_ = real;
      std::free(real);
    }
  std::random_device random;
  for (int attempt = 0; file_ < 0; ++attempt) {
    const uint64_t tag = uint64_t(random()) << 32 | random();
    temporary_ = folder_of(target_) + "/.frit-" + std::to_string(tag) + ".part";
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && (errno != EEXIST || attempt == 100)) fail("make a file beside it", errno);
  }
  if (there) ::fchmod(file_, old.st_mode & 07777);  // only a wish: the owner may differ
}
AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}
void AtomicFile::fail(const char* step, int error) const {
  throw FileError("cannot write " + path_ + ": failed to " + step + ": " + std::strerror(error) + ". What was there before is unchanged.");
}
void AtomicFile::write_all(const char* bytes, uint64_t n, uint64_t at) {
  while (n) {
    const ssize_t done = ::pwrite(file_, bytes, std::min(n, largest_step), off_t(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("write", done < 0 ? errno : ENOSPC);
    bytes += done, at += uint64_t(done), n -= uint64_t(done);
  }
}
void AtomicFile::write(const void* bytes, uint64_t n) {
  write_all(static_cast<const char*>(bytes), n, size_);
  size_ += n;
}
void AtomicFile::rewrite(uint64_t at, const void* bytes, uint64_t n) { write_all(static_cast<const char*>(bytes), n, at); }

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail("sync", errno);
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0) fail("close", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  // The file is whole either way; syncing its folder makes the name last too.
  if (const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

}  // namespace frit::files
