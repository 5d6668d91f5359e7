// Finds what a script is compiled with: the headers beside the tool, the library that the tool itself uses, a compiler, a linker.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "frontend/cli/console.h"
#include "frontend/cli/script.h"
#include "runtime/disk_cache.h"

namespace frit::cli {

namespace fs = std::filesystem;

namespace {
std::string library_file() {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<const void*>(&build_identity), &info) || !info.dli_fname) return "";
  std::error_code error;
  return fs::canonical(info.dli_fname, error).string();
}
// Public headers, and what they include of the lower floors.
std::vector<std::string> find_includes() {
  std::error_code error;
  const fs::path tool = fs::read_symlink("/proc/self/exe", error).parent_path(), installed = tool.parent_path() / "include";
  if (fs::exists(installed / "frit/frit.h")) return {installed.string(), (installed / "frit-internal").string()};
  std::vector<std::string> folders;
  std::ifstream tree(tool / "frit.tree");  // written by the build
  for (std::string line; std::getline(tree, line);) folders.push_back(line);
  if (folders.empty() || !fs::exists(fs::path(folders[0]) / "frit/frit.h"))
    throw UsageError("the headers of Frit are not there: neither " + installed.string() + "/frit nor the tree that this tool was built in. Install Frit again.");
  return folders;
}
std::string hash_headers(const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  for (const std::string& folder : folders)
    for (const char* part : {"frit", "frontend", "jit", "kernels", "tracer", "runtime"}) {
      std::error_code error;
      for (fs::recursive_directory_iterator at(fs::path(folder) / part, error), end; !error && at != end; at.increment(error)) {
        const std::string kind = at->path().extension().string();
        if (kind == ".h" || kind == ".def") files.push_back(at->path().string());
      }
    }
  std::sort(files.begin(), files.end());
  XXH3_state_t* const state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    XXH3_128bits_update(state, file.c_str(), file.size() + 1);
    XXH3_128bits_update(state, bytes.data(), bytes.size());
  }
  const XXH128_hash_t h = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(h.high64), static_cast<unsigned long long>(h.low64));
  return text;
}
Compiler describe(const std::string& path, const std::string& name) {
  Compiler c{path, name, "", {}, false};
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  struct stat s {};
  ::stat(real.c_str(), &s);
  c.identity = real.string() + ":" + std::to_string(s.st_size) + ":" + std::to_string(s.st_mtim.tv_sec);
  c.clang = real.string().find("clang") != std::string::npos;
  if (c.clang && !find_program("ld.lld").empty()) c.linker = {"-fuse-ld=lld"};
  else if (!find_program("mold").empty()) c.linker = {"-fuse-ld=mold"};
  else if (!find_program("ld.lld").empty()) c.linker = {"-fuse-ld=lld"};
  return c;
}
}  // namespace

const Installation& installation() {
  static const Installation* const found = [] {
    auto* i = new Installation;
    i->includes = find_includes();
    i->library = library_file();
    i->headers_hash = hash_headers(i->includes);
    return i;
  }();
  return *found;
}
std::vector<Compiler> compilers(const std::string& wanted) {
  std::vector<Compiler> list;
  if (!wanted.empty()) {
    const std::string path = find_program(wanted);
    if (path.empty()) throw UsageError("the compiler " + wanted + " is not there. Name one that is, or leave --compiler out.");
    return {describe(path, wanted)};
  }
  std::vector<std::string> names{"clang++"};
  for (int version = 22; version >= 14; --version) names.push_back("clang++-" + std::to_string(version));
  names.push_back("g++");
  for (int version = 16; version >= 11; --version) names.push_back("g++-" + std::to_string(version));
  for (const std::string& name : names)
    if (const std::string path = find_program(name); !path.empty()) {
      Compiler c = describe(path, name);
      if (std::none_of(list.begin(), list.end(), [&](const Compiler& o) { return o.identity == c.identity; })) list.push_back(std::move(c));
    }
  return list;
}

}  // namespace frit::cli
