// The cache on disk: what is read is what was written or nothing, whatever happened to the files, and however many processes write at once,
// killed ones among them; and kernels from disk compute what compiled ones do.
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include "runtime/disk_cache.h"

using namespace frit;
namespace fs = std::filesystem;

namespace {
struct Folder {
  std::string path;
  Folder() {
    std::string pattern = fs::temp_directory_path() / "frit_cache_XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::permissions(path, fs::perms::owner_all, ignored);
    fs::remove_all(path, ignored);
  }
};
std::string payload_of(const std::string& key, size_t size) {
  std::string p;
  std::mt19937_64 random(std::hash<std::string>{}(key));
  while (p.size() < size) p.push_back(char(random()));
  return p;
}
std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void spit(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }
struct Output {
  int status;
  std::string results, counts;
};
Output run_program(const std::string& folder, const std::string& more = "") {
  const std::string command = "FRIT_CACHE=1 FRIT_CACHE_DIR=" + folder + " " + more + " " FRIT_CACHED_PROGRAM " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  std::array<char, 512> part;
  while (size_t n = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  const int status = ::pclose(pipe);
  const size_t line = text.find('\n');
  return {status, text.substr(0, line), text.substr(line + 1)};
}
}  // namespace

TEST_CASE("disk cache: reads what was written, by the whole key") {
  const Folder folder;
  DiskCache cache(folder.path + "/deep/er", 1 << 20);
  CHECK_FALSE(cache.read("a"));
  REQUIRE(cache.write("a", "payload"));
  REQUIRE(cache.write(std::string("a\0b", 3), ""));
  CHECK(cache.read("a") == "payload");
  CHECK(cache.read(std::string("a\0b", 3)) == "");
  CHECK_FALSE(cache.read("b"));
  REQUIRE(cache.write("a", "another"));
  CHECK(cache.read("a") == "another");
  CHECK(cache.list().size() == 2);
  DiskCache other(folder.path + "/deep/er", 1 << 20);
  CHECK(other.read("a") == "another");
  // An entry under another's name is not that other's.
  const auto entries = cache.list();
  fs::copy_file(entries[0].path, entries[1].path, fs::copy_options::overwrite_existing);
  CHECK(int(cache.read("a").has_value()) + int(cache.read(std::string("a\0b", 3)).has_value()) == 1);
}

TEST_CASE("disk cache: every kind of damage is a miss, and the entry can be written again") {
  const Folder folder;
  DiskCache cache(folder.path, 1 << 20);
  const std::string payload = payload_of("k", 300);
  REQUIRE(cache.write("k", payload));
  const std::string path = cache.list().at(0).path, good = slurp(path);
  const auto damaged = [&](const std::string& what, const auto& damage) {
    CAPTURE(what);
    damage();
    CHECK_FALSE(cache.read("k"));
    CHECK(cache.verify(true).size() <= 1);
    REQUIRE(cache.write("k", payload));
    CHECK(cache.read("k") == payload);
    CHECK(cache.verify(false).at(0).sound);
  };
  for (size_t bytes : {size_t(0), size_t(1), size_t(8), size_t(39), size_t(40), good.size() / 2, good.size() - 1})
    damaged("cut to " + std::to_string(bytes), [&] { spit(path, good.substr(0, bytes)); });
  for (size_t at = 0; at < good.size(); ++at)
    damaged("flipped at " + std::to_string(at), [&] {
      std::string bad = good;
      bad[at] = char(bad[at] ^ (1 << at % 8));
      spit(path, bad);
    });
  damaged("zeros", [&] { spit(path, std::string(good.size(), '\0')); });
  damaged("longer", [&] { spit(path, good + "x"); });
  damaged("a huge length", [&] {
    std::string bad = good;
    bad[14] = char(0x7f);
    spit(path, bad);
  });
  damaged("a folder", [&] { fs::remove(path), fs::create_directory(path), spit(path + "/x", "y"); });
  damaged("a link", [&] { spit(folder.path + "/elsewhere", good), fs::remove(path), fs::create_symlink(folder.path + "/elsewhere", path); });
  damaged("a pipe", [&] { fs::remove(path); REQUIRE(::mkfifo(path.c_str(), 0600) == 0); });
  damaged("writable by others", [&] { fs::permissions(path, fs::perms::others_write, fs::perm_options::add); });
}

TEST_CASE("disk cache: a folder that cannot be written is a miss") {
  const Folder folder;
  spit(folder.path + "/file", "x");
  DiskCache cache(folder.path + "/file/below", 1 << 20);
  CHECK_FALSE(cache.write("k", "v"));
  CHECK_FALSE(cache.read("k"));
  CHECK(cache.list().empty());
  CHECK(cache.sweep(0) == 0);
}

TEST_CASE("disk cache: stays below its limit, and the least recently used go") {
  const Folder folder;
  DiskCache cache(folder.path, 50000);
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(cache.write(key, payload_of(key, 1000)));
    int64_t total = 0;
    for (const auto& e : cache.list()) total += e.bytes;
    REQUIRE(total <= 50000);
  }
  CHECK(cache.list().size() > 20);
  // The oldest by the file's time go first.
  const auto entries = cache.list();
  std::vector<std::string> old;
  for (size_t i = 0; i < 5; ++i) {
    const timespec times[2] = {{1000 + time_t(i), 0}, {1000 + time_t(i), 0}};
    REQUIRE(::utimensat(AT_FDCWD, entries[i].path.c_str(), times, 0) == 0);
    old.push_back(entries[i].path);
  }
  int64_t total = 0;
  for (const auto& e : entries) total += e.bytes;
  CHECK(cache.sweep(total - 4500) > 0);
  for (const std::string& path : old) CHECK_FALSE(fs::exists(path));
  CHECK(cache.list().size() == entries.size() - 5);
  spit(folder.path + "/tmp-1-1", "left behind");
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (folder.path + "/tmp-1-1").c_str(), times, 0) == 0);
  spit(folder.path + "/tmp-2-1", "being written");
  cache.sweep(1 << 30);
  CHECK_FALSE(fs::exists(folder.path + "/tmp-1-1"));
  CHECK(fs::exists(folder.path + "/tmp-2-1"));
}

TEST_CASE("disk cache: 16 processes at once, some killed") {
  const Folder folder;
  constexpr int processes = 16, keys = 40;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      DiskCache cache(folder.path, 60000);
      std::mt19937 random{unsigned(p)};
      for (int i = 0; i < 400 || p % 2; ++i) {  // the odd ones go on until they are killed
        const std::string key = "key" + std::to_string(random() % keys), wanted = payload_of(key, 100 + random() % 2 * 4000);
        if (random() % 2) cache.write(key, wanted);
        else if (const auto got = cache.read(key); got && *got != payload_of(key, got->size())) ::_exit(9);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::mt19937 random{99};
  for (int p = 1; p < processes; p += 2) {
    ::usleep(10000 + random() % 30000);
    ::kill(children[size_t(p)], SIGKILL);
  }
  for (int p = 0; p < processes; ++p) {
    int status = 0;
    REQUIRE(::waitpid(children[size_t(p)], &status, 0) == children[size_t(p)]);
    if (p % 2) CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    else CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  DiskCache cache(folder.path, 60000);
  for (const auto& e : cache.verify(false)) CHECK(e.sound);
  for (int k = 0; k < keys; ++k) {
    const std::string key = "key" + std::to_string(k);
    if (const auto got = cache.read(key)) CHECK(*got == payload_of(key, got->size()));
  }
}

TEST_CASE("disk cache: kernels from disk compute what compiled ones do; damaged ones are compiled again (E04)") {
  const Folder folder;
  const Output none = run_program(folder.path, "FRIT_CACHE=0"), first = run_program(folder.path), second = run_program(folder.path);
  CHECK(none.status == 0);
  CHECK(none.results.starts_with("2 5 8 "));
  CHECK(first.results == none.results);
  CHECK(second.results == none.results);
  CHECK(first.counts.starts_with("disk_hits 0 "));
  DiskCache cache(folder.path, 1 << 30);
  const auto entries = cache.list();
  REQUIRE(entries.size() >= 4);
  CHECK(second.counts.starts_with("disk_hits " + std::to_string(entries.size())));
  std::vector<std::string> good;
  for (const auto& e : entries) good.push_back(slurp(e.path));
  for (int kind = 0; kind < 6; ++kind) {
    CAPTURE(kind);
    for (size_t i = 0; i < entries.size(); ++i) {
      const std::string& path = entries[i].path;
      std::string bad = good[i];
      bad[bad.size() * 3 / 4] = char(bad[bad.size() * 3 / 4] ^ 4);
      if (kind == 0) spit(path, "");
      if (kind == 1) spit(path, good[i].substr(0, good[i].size() / 2));
      if (kind == 2) spit(path, bad);
      if (kind == 3) spit(path, std::string(good[i].size(), '\0'));
      if (kind == 4) fs::permissions(path, fs::perms::owner_read);
      if (kind == 5) fs::remove(path), fs::create_directory(path);
    }
    const Output damaged = run_program(folder.path);
    CHECK(damaged.status == 0);
    CHECK(damaged.results == none.results);
    CHECK(damaged.counts.starts_with(kind == 4 ? "disk_hits " + std::to_string(entries.size()) : "disk_hits 0 "));
    CHECK(run_program(folder.path).counts == second.counts);  // written again
  }
  spit(folder.path + "/file", "x");
  const Output nowhere = run_program(folder.path + "/file/below", "FRIT_LOG=cache");
  CHECK(nowhere.status == 0);
  CHECK((nowhere.results == none.results || nowhere.counts.find(none.results) != std::string::npos));
}

TEST_CASE("disk cache: 16 programs at once share one folder") {
  const Folder folder;
  const std::string wanted = run_program(folder.path, "FRIT_CACHE=0").results;
  std::vector<FILE*> programs;
  for (int i = 0; i < 16; ++i) programs.push_back(::popen(("FRIT_CACHE=1 FRIT_CACHE_DIR=" + folder.path + " " FRIT_CACHED_PROGRAM).c_str(), "r"));
  for (FILE* f : programs) {
    REQUIRE(f);
    std::array<char, 512> line{};
    REQUIRE(std::fgets(line.data(), int(line.size()), f));
    CHECK(std::string(line.data()) == wanted + "\n");
    while (std::fgets(line.data(), int(line.size()), f)) continue;
    CHECK(::pclose(f) == 0);
  }
  for (const auto& e : DiskCache(folder.path, 1 << 30).verify(false)) CHECK(e.sound);
}
