// Kernels on disk: an entry's key is the build, the kind and the key in memory; its payload is the kernel's flags, name and code.
#include "jit/kernel_store.h"
#include <cstring>
#include "jit/tiers.h"
#include "runtime/code_memory.h"
#include "runtime/disk_cache.h"
#include "runtime/stats.h"

namespace frit::jit {

namespace {
std::string payload_of(const CpuKernel& k) {
  std::string p;
  p.push_back(char(k.lane_split | k.ordered << 1));
  const uint32_t name = uint32_t(k.name.size());
  const uint32_t words[] = {k.scratch_bytes, k.scratch_slot, name};
  p.append(reinterpret_cast<const char*>(words), sizeof words).append(k.name);
  p.append(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(k.entry)), k.code_bytes);
  return p;
}
std::shared_ptr<CpuKernel> kernel_of(const std::string& payload) {
  uint32_t words[3];
  constexpr size_t head = 1 + sizeof words;
  if (payload.size() < head) return nullptr;
  std::memcpy(words, payload.data() + 1, sizeof words);
  const uint32_t name = words[2];
  if (payload.size() - head <= name) return nullptr;
  auto k = std::make_shared<CpuKernel>();
  k->lane_split = payload[0] & 1, k->ordered = payload[0] & 2;
  k->scratch_bytes = words[0], k->scratch_slot = words[1];
  k->name = payload.substr(head, name);
  const Code placed = place_bytes(payload.data() + head + name, payload.size() - head - name, k->name);
  k->entry = reinterpret_cast<CpuEntry>(reinterpret_cast<uintptr_t>(placed.entry));
  k->code_bytes = uint32_t(placed.bytes);
  k->code = placed.owner;
  return k;
}
}  // namespace

std::shared_ptr<CpuKernel> load_or_compile(char kind, std::string_view key, const std::function<kernels::Program()>& lower, bool& loaded) {
  DiskCache* const disk = kernel_disk_cache();
  loaded = false;
  if (!disk) return std::make_shared<CpuKernel>(compile_x86(lower()));
  static const std::string build = build_identity();
  std::string whole = build;
  whole.push_back(kind);
  whole.append(key);
  if (const auto payload = disk->read(whole))
    if (std::shared_ptr<CpuKernel> k = kernel_of(*payload)) {
      count(&Counters::disk_hits);
      loaded = true;
      return k;
    }
  auto k = std::make_shared<CpuKernel>(compile_x86(lower()));
  if (!k->fixed_address) write_in_background([disk, whole = std::move(whole), k] { disk->write(whole, payload_of(*k)); });
  return k;
}

}  // namespace frit::jit
