// Entries on disk: see disk_cache.h. An entry is a header, its key and its payload; the header's checksum covers both. Start at
// read() and write().
#include "runtime/disk_cache.h"
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "runtime/cpu.h"
#include "runtime/log.h"
#include "runtime/settings.h"

namespace frit {

namespace fs = std::filesystem;

namespace {
struct Header {
  char magic[8];
  uint64_t key_bytes, payload_bytes;
  XXH128_hash_t checksum;  // of key and payload
};
constexpr char magic[8] = {'F', 'R', 'I', 'T', 'K', 'C', '0', '1'};
constexpr uint64_t most_bytes = 64 << 20;  // of one entry
constexpr int64_t stale_seconds = 3600, touch_seconds = 86400;

struct File {
  int fd;
  explicit File(int f) : fd(f) {}
  ~File() { if (fd >= 0) ::close(fd); }
  File(const File&) = delete;
};
bool read_all(int fd, char* to, size_t bytes) {
  while (bytes) {
    const ssize_t n = ::read(fd, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n, bytes -= size_t(n);
  }
  return true;
}
bool write_all(int fd, const char* from, size_t bytes) {
  while (bytes) {
    const ssize_t n = ::write(fd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n, bytes -= size_t(n);
  }
  return true;
}
XXH128_hash_t checksum(std::string_view body) { return XXH3_128bits(body.data(), body.size()); }

// Machine code is run: an entry counts only when nobody else could have written it.
bool is_ours(const struct stat& s) { return s.st_uid == ::geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH)); }

// Key and payload of a sound entry, one after the other, and where the key ends.
std::optional<std::pair<std::string, size_t>> read_entry(const std::string& path, bool& there) {
  const File f(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  there = f.fd >= 0 || errno != ENOENT;
  struct stat s;
  if (f.fd < 0 || ::fstat(f.fd, &s) || !S_ISREG(s.st_mode) || !is_ours(s)) return std::nullopt;
  Header h;
  if (uint64_t(s.st_size) < sizeof h || uint64_t(s.st_size) > most_bytes || !read_all(f.fd, reinterpret_cast<char*>(&h), sizeof h)) return std::nullopt;
  const uint64_t body = uint64_t(s.st_size) - sizeof h;
  if (std::memcmp(h.magic, magic, sizeof magic) || h.key_bytes > body || h.payload_bytes != body - h.key_bytes) return std::nullopt;
  std::string bytes(body, '\0');
  if (!read_all(f.fd, bytes.data(), body) || !XXH128_isEqual(checksum(bytes), h.checksum)) return std::nullopt;
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (now - s.st_mtim.tv_sec > touch_seconds) ::futimens(f.fd, nullptr);
  return std::make_pair(std::move(bytes), size_t(h.key_bytes));
}
// A file, or what somebody put in its place.
void remove_entry(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}
bool is_entry_name(const std::string& name) { return name.ends_with(".kernel"); }
}  // namespace

DiskCache::DiskCache(std::string folder, int64_t limit) : folder_(std::move(folder)), limit_(limit) {}

std::string DiskCache::path_of(std::string_view key) const {
  const XXH128_hash_t h = checksum(key);
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(h.high64), static_cast<unsigned long long>(h.low64));
  return folder_ + "/" + std::string(name, 2) + "/" + (name + 2) + ".kernel";
}

std::optional<std::string> DiskCache::read(std::string_view key) const {
  const std::string path = path_of(key);
  bool there = false;
  auto entry = read_entry(path, there);
  if (!entry) {
    if (there) {
      FRIT_LOG_LINE(cache, "removed a damaged entry: " + path);
      remove_entry(path);
    }
    return std::nullopt;
  }
  if (std::string_view(entry->first).substr(0, entry->second) != key) return std::nullopt;
  return entry->first.substr(entry->second);
}

bool DiskCache::write(std::string_view key, std::string_view payload) {
  static std::atomic<uint64_t> next{0};
  const std::string path = path_of(key), parent = path.substr(0, path.rfind('/'));
  const std::string beside = folder_ + "/tmp-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
  std::error_code error;
  fs::create_directories(parent, error);
  const File f(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (f.fd < 0) return tell_once("cannot write to " + folder_ + ": " + std::strerror(errno)), false;
  std::string body;
  body.reserve(key.size() + payload.size());
  body.append(key).append(payload);
  Header h{{}, key.size(), payload.size(), checksum(body)};
  std::memcpy(h.magic, magic, sizeof magic);
  bool done = write_all(f.fd, reinterpret_cast<const char*>(&h), sizeof h) && write_all(f.fd, body.data(), body.size());
  if (done && ::rename(beside.c_str(), path.c_str())) {
    remove_entry(path);  // something that is no entry stands there
    done = !::rename(beside.c_str(), path.c_str());
  }
  if (!done) {
    tell_once("cannot write to " + folder_ + ": " + std::strerror(errno));
    ::unlink(beside.c_str());
    return false;
  }
  if (size_ < 0) {
    size_ = 0;
    for (const Entry& e : list()) size_ += e.bytes;
  } else {
    size_ += int64_t(sizeof h + body.size());
  }
  if (size_ > limit_) size_ -= sweep(limit_ / 5 * 4);
  return true;
}

std::vector<DiskCache::Entry> DiskCache::list() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    struct stat s;
    if (is_entry_name(at->path().filename()) && !::lstat(at->path().c_str(), &s) && S_ISREG(s.st_mode)) entries.push_back({at->path(), s.st_size, s.st_mtim.tv_sec});
  }
  return entries;
}
std::vector<DiskCache::Entry> DiskCache::verify(bool remove_damaged) const {
  std::vector<Entry> entries = list();
  for (Entry& e : entries) {
    bool there = false;
    e.sound = read_entry(e.path, there).has_value();
    if (!e.sound && remove_damaged) remove_entry(e.path);
  }
  return entries;
}
int64_t DiskCache::sweep(int64_t limit) {
  std::vector<Entry> entries = list();
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  int64_t total = 0, freed = 0;
  for (const Entry& e : entries) total += e.bytes;
  for (const Entry& e : entries) {
    if (total - freed <= limit) break;
    if (!::unlink(e.path.c_str())) freed += e.bytes;
  }
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    struct stat s;
    if (at->path().filename().string().starts_with("tmp-") && !::lstat(at->path().c_str(), &s) && now - s.st_mtim.tv_sec > stale_seconds) ::unlink(at->path().c_str());
  }
  FRIT_LOG_LINE(cache, "swept " + folder_ + ": " + std::to_string(freed) + " bytes freed");
  return freed;
}
void DiskCache::tell_once(const std::string& why) {
  if (told_) return;
  told_ = true;
  FRIT_LOG_LINE(cache, "the kernel cache on disk is not used: " + why);
}

// ---- the process's own -------------------------------------------------------------------------------------------------------
namespace {
std::string build_id() {
  struct Search {
    const char* inside;
    std::string found;
  } search{reinterpret_cast<const char*>(&build_identity), ""};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto& s = *static_cast<Search*>(context);
        bool here = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& p = info->dlpi_phdr[i];
          const char* first = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
          here |= p.p_type == PT_LOAD && s.inside >= first && s.inside < first + p.p_memsz;
        }
        if (!here) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& p = info->dlpi_phdr[i];
          if (p.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
          for (const char* const end = at + p.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const char* const name = at + sizeof note;
            const char* const text = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(name, "GNU", 4)) {
              s.found.assign(text, note.n_descsz);
              return 1;
            }
            at = text + (note.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;
      },
      &search);
  return search.found;
}
std::string standard_folder() {
  const auto given = [](const char* name) -> std::string { return environment_variable(name); };
  if (const std::string base = given("XDG_CACHE_HOME"); base.starts_with("/")) return base + "/frit";
  if (const std::string home = given("HOME"); home.starts_with("/")) return home + "/.cache/frit";
  return "";
}
}  // namespace

std::string build_identity() {
  const std::string id = build_id();
  if (id.empty()) return "";
  const CpuInfo& cpu = cpu_info();
  return id + (cpu.avx2 ? "a" : "-") + (cpu.fma ? "f" : "-") + (cpu.f16c ? "h" : "-") + (uses_avx512() ? "5" : "-");
}
std::string cache_folder() { return settings().cache_dir.empty() ? standard_folder() : settings().cache_dir; }
DiskCache* kernel_disk_cache() {
  static DiskCache* cache = []() -> DiskCache* {  // never destroyed
    const Settings& s = settings();
    const std::string folder = cache_folder();
    if (!s.cache || folder.empty() || build_identity().empty()) return nullptr;
    return new DiskCache(folder, s.cache_limit);
  }();
  return cache;
}

}  // namespace frit
