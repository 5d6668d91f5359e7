// A cache of bytes on disk, shared by processes: one file an entry, written whole beside its place and renamed into it, checked
// whole when it is read. Whatever is wrong with an entry, the folder or the disk is a miss, never an error: a damaged
// entry is removed, and a folder that cannot be written is told of once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace frit {

class DiskCache {
 public:
  // Entries lie in `folder`, made at the first write; together they hold at most about `limit` bytes: the least recently used go.
  DiskCache(std::string folder, int64_t limit);
  // The bytes stored under a key; nothing unless they are exactly what was stored.
  std::optional<std::string> read(std::string_view key) const;
  // False when it could not be written.
  bool write(std::string_view key, std::string_view payload);
  const std::string& folder() const { return folder_; }

  struct Entry {
    std::string path;
    int64_t bytes = 0, used = 0;  // used: seconds since 1970
    bool sound = false;           // only by verify()
  };
  std::vector<Entry> list() const;
  std::vector<Entry> verify(bool remove_damaged) const;  // reads all
  int64_t sweep(int64_t limit);                          // removes the least recently used, and what killed writers left; bytes freed

 private:
  std::string path_of(std::string_view key) const;
  void tell_once(const std::string& why);
  std::string folder_;
  int64_t limit_, size_ = -1;  // size_: about, once something was written
  bool told_ = false;
};

// What makes generated code another: the library's build and the instruction set. Empty when the build cannot be told: nothing is cached then.
std::string build_identity();
// The process's own, by the settings FRIT_CACHE, FRIT_CACHE_DIR and FRIT_CACHE_LIMIT; null when it is off.
DiskCache* kernel_disk_cache();
std::string cache_folder();                              // where it lies, used or not; empty when there is no place for it

}  // namespace frit
