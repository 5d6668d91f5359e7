// The boot sector, the code that makes the calls, and the page tables: see image.h. The first sector goes to long mode, reads the rest of the
// disk to `base` and jumps there. Start at Image::write.
#include "tests/avx512/image.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

// Addresses in the boot sector are 0x7c00 and the distance from its start. 0x1000: page tables, one to one.
asm(R"(
.pushsection .rodata
.globl frit_boot, frit_boot_sectors, frit_boot_end, frit_runner, frit_runner_end
frit_boot:
.code16
  cli
  xorw %ax, %ax
  movw %ax, %ds
  movw %ax, %es
  movw %ax, %ss
  movw $0x7c00, %sp
  inb $0x92, %al
  orb $2, %al
  outb %al, $0x92
  xorw %ax, %ax
  movw $0x1000, %di
  movw $0x1800, %cx
  cld
  rep stosw
  movl $0x2003, 0x1000
  movl $0x3003, 0x2000
  movw $0x3000, %di
  movl $0x83, %eax
  movw $256, %cx
1: movl %eax, (%di)
  addw $8, %di
  addl $0x200000, %eax
  loop 1b
  movl $0x1000, %eax
  movl %eax, %cr3
  movl %cr4, %eax
  orl $0x40620, %eax
  movl %eax, %cr4
  movl $0xC0000080, %ecx
  rdmsr
  orl $0x100, %eax
  wrmsr
  movl %cr0, %eax
  andl $~4, %eax
  orl $0x80000003, %eax
  movl %eax, %cr0
  lgdtl 0x7c00 + (frit_boot_gdtr - frit_boot)
  ljmp $8, $(0x7c00 + (frit_boot_long - frit_boot))
.code64
frit_boot_long:
  xorl %ecx, %ecx
  movl $0xe7, %eax
  xorl %edx, %edx
  xsetbv
  movl 0x7c00 + (frit_boot_sectors - frit_boot), %ebp
  movl $0x100000, %edi
  movl $1, %ebx
2: movw $0x1f7, %dx
3: inb %dx, %al
  testb $0x80, %al
  jnz 3b
  movl %ebx, %eax
  shrl $24, %eax
  orb $0xe0, %al
  movw $0x1f6, %dx
  outb %al, %dx
  movb $1, %al
  movw $0x1f2, %dx
  outb %al, %dx
  movl %ebx, %eax
  incw %dx
  outb %al, %dx
  shrl $8, %eax
  incw %dx
  outb %al, %dx
  shrl $8, %eax
  incw %dx
  outb %al, %dx
  movb $0x20, %al
  movw $0x1f7, %dx
  outb %al, %dx
4: inb %dx, %al
  testb $8, %al
  jz 4b
  movw $0x1f0, %dx
  movl $256, %ecx
  rep insw
  incl %ebx
  decl %ebp
  jnz 2b
  movl $0x100000, %eax
  jmp *%rax
.balign 8
frit_boot_gdt:
  .quad 0
  .quad 0x00209A0000000000
frit_boot_gdtr:
  .word 15
  .long 0x7c00 + (frit_boot_gdt - frit_boot)
.balign 4
frit_boot_sectors:
  .long 0
frit_boot_end:

# rbx: the header. r12: the call, r13: calls left, r14: the buffer, r15: buffers left; these survive a call.
frit_runner:
  movl $0x101000, %ebx
  movq (%rbx), %rax
  movq %rax, %cr3
  movq 8(%rbx), %rsp
  movb $'P', %al
  outb %al, $0xe9
  pushq %rbx
  movl $7, %eax
  xorl %ecx, %ecx
  cpuid
  movl %ebx, %r8d
  movl %ecx, %r9d
  movl %edx, %r10d
  movl $7, %eax
  movl $1, %ecx
  cpuid
  popq %rbx
  pushq %rax
  pushq %r10
  pushq %r9
  pushq %r8
  movl $4, %r13d
5: movq %rsp, %rsi
  movl $4, %ecx
  call 9f
  popq %rax
  decl %r13d
  jnz 5b
  movb $10, %al
  outb %al, $0xe9
  movq 16(%rbx), %r13
  movq 24(%rbx), %r12
6: testq %r13, %r13
  jz 8f
  movb $'B', %al
  outb %al, $0xe9
  movb $10, %al
  outb %al, $0xe9
  movq 8(%r12), %rdi
  movq 16(%r12), %rsi
  movq 24(%r12), %rdx
  movq 32(%r12), %rcx
  movq 40(%r12), %r8
  movq 48(%r12), %r9
  cld
  call *(%r12)
  movb $'K', %al
  outb %al, $0xe9
  movq 56(%r12), %r14
  movq 64(%r12), %r15
7: testq %r15, %r15
  jz 77f
  movq (%r14), %rsi
  movq 8(%r14), %rcx
  call 9f
  addq $16, %r14
  decq %r15
  jmp 7b
77: movb $10, %al
  outb %al, $0xe9
  addq $72, %r12
  decq %r13
  jmp 6b
8: movb $'E', %al
  outb %al, $0xe9
  movb $10, %al
  outb %al, $0xe9
  leaq 88f(%rip), %rsi
  movw $0x8900, %dx
  movl $8, %ecx
  rep outsb
80: hlt
  jmp 80b
88: .ascii "Shutdown"
# rcx bytes at rsi.
9: testq %rcx, %rcx
  jz 93f
91: movb (%rsi), %dl
  movb %dl, %al
  shrb $4, %al
  addb $'a', %al
  outb %al, $0xe9
  movb %dl, %al
  andb $15, %al
  addb $'a', %al
  outb %al, $0xe9
  incq %rsi
  decq %rcx
  jnz 91b
93: ret
frit_runner_end:
.popsection
)");
extern "C" const char frit_boot[], frit_boot_sectors[], frit_boot_end[], frit_runner[], frit_runner_end[];

namespace frit::avx512 {

namespace {
constexpr uint64_t page = 4096, base = 0x100000, stack_top = 0x1f000000, memory = 0x20000000;  // memory: what the boot sector maps

// The disk from its second sector on is physical memory from `base` on.
struct Memory {
  std::string bytes;
  uint64_t take(uint64_t count) {
    const uint64_t at = base + bytes.size();
    bytes.resize(bytes.size() + (count + page - 1) / page * page);
    if (base + bytes.size() > stack_top - (8 << 20)) throw std::runtime_error("the image is too large");
    return at;
  }
  char* at(uint64_t physical) { return bytes.data() + (physical - base); }
  uint64_t& word(uint64_t physical) { return *reinterpret_cast<uint64_t*>(at(physical)); }
};
void map(Memory& m, uint64_t root, uint64_t address, uint64_t physical) {
  uint64_t table = root;
  for (int level = 3; level > 0; --level) {
    const uint64_t slot = table + 8 * (address >> (12 + 9 * level) & 511);
    if (!m.word(slot)) {
      const uint64_t fresh = m.take(page);
      m.word(slot) = fresh | 3;
    }
    table = m.word(slot) & ~(page - 1);
  }
  m.word(table + 8 * (address >> 12 & 511)) = physical | 3;
}
}  // namespace

void Image::call(const void* entry, std::vector<uint64_t> arguments, std::vector<std::pair<const void*, size_t>> buffers) {
  Call c{reinterpret_cast<uint64_t>(entry), {}, buffers_.size(), buffers.size()};
  if (arguments.size() > 6) throw std::runtime_error("too many arguments");
  std::copy(arguments.begin(), arguments.end(), c.arguments);
  for (const auto& [at, bytes] : buffers) buffers_.push_back({reinterpret_cast<uint64_t>(at), bytes}), bring_buffer(at, bytes);
  calls_.push_back(c);
}
void Image::bring(const void* from, size_t bytes) {
  const uint64_t at = reinterpret_cast<uint64_t>(from);
  if (bytes == 0) return;
  if (at < (uint64_t(1) << 30)) throw std::runtime_error("this process lies where the image's own memory does; build it as a position-independent executable");
  for (uint64_t p = at / page; p <= (at + bytes - 1) / page; ++p) pages_[p] = 0;
}
// Bochs reads all of a masked operand that is widened (vpmovzxbd zmm{k}{z}, [m]); a processor does not fault for lanes that are left out.
void Image::bring_buffer(const void* from, size_t bytes) {
  bring(from, bytes);
  const uint64_t at = reinterpret_cast<uint64_t>(from);
  zeros_.insert(at / page - 1), zeros_.insert((at + std::max<size_t>(bytes, 1) - 1) / page + 1);
}
void Image::bring_region(const void* code) {
  const uint64_t at = reinterpret_cast<uint64_t>(code);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long first, last;
    if (std::sscanf(line.c_str(), "%lx-%lx", &first, &last) == 2 && first <= at && at < last) return bring(reinterpret_cast<const void*>(first), last - first);
  }
  throw std::runtime_error("no memory is mapped there");
}

void Image::write(const std::string& path) {
  Memory m;
  std::memcpy(m.at(m.take(page)), frit_runner, size_t(frit_runner_end - frit_runner));
  const uint64_t header = m.take(page), root = m.take(page), low = m.take(page), low_pages = m.take(page);
  m.word(root) = low | 3, m.word(low) = low_pages | 3;
  for (uint64_t at = 0; at < memory; at += 2 << 20) m.word(low_pages + 8 * (at >> 21)) = at | 0x83;
  const uint64_t calls = m.take(calls_.size() * sizeof(Call)), buffers = m.take(buffers_.size() * sizeof(Buffer));
  for (Call& c : calls_) c.first_buffer = buffers + c.first_buffer * sizeof(Buffer);
  std::memcpy(m.at(calls), calls_.data(), calls_.size() * sizeof(Call));
  std::memcpy(m.at(buffers), buffers_.data(), buffers_.size() * sizeof(Buffer));
  const uint64_t words[] = {root, stack_top, calls_.size(), calls};
  std::memcpy(m.at(header), words, sizeof words);
  for (auto& [virtual_page, physical] : pages_) {
    physical = m.take(page);
    std::memcpy(m.at(physical), reinterpret_cast<const void*>(virtual_page * page), page);
    map(m, root, virtual_page * page, physical);
  }
  const uint64_t zeros = m.take(page);
  for (uint64_t z : zeros_)
    if (!pages_.count(z)) map(m, root, z * page, zeros);
  std::string sector(512, 0);
  std::memcpy(sector.data(), frit_boot, size_t(frit_boot_end - frit_boot));
  const uint32_t sectors = uint32_t(m.bytes.size() / 512);
  std::memcpy(sector.data() + (frit_boot_sectors - frit_boot), &sectors, 4);
  sector[510] = 0x55, sector[511] = char(0xaa);
  // Whole cylinders of 16 heads and 63 sectors.
  std::string disk = sector + m.bytes;
  const size_t cylinder = 16 * 63 * 512;
  disk.resize((disk.size() + cylinder - 1) / cylinder * cylinder);
  bytes_ = disk.size();
  if (!std::ofstream(path, std::ios::binary).write(disk.data(), std::streamsize(disk.size()))) throw std::runtime_error("cannot write " + path);
}

Outcome Image::read(const std::string& output) {
  Outcome o;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line == "E") o.ended = true;
    if (line.empty() || (line[0] != 'K' && line[0] != 'P') || line.size() % 2 == 0 || line.find_first_not_of("abcdefghijklmnop", 1) != std::string::npos) continue;
    std::string bytes;
    for (size_t i = 1; i < line.size(); i += 2) bytes.push_back(char((line[i] - 'a') << 4 | (line[i + 1] - 'a')));
    if (line[0] == 'K') o.left.push_back(std::move(bytes));
    else if (bytes.size() == 16) std::memcpy(&o.processor, bytes.data(), 16);
  }
  return o;
}

std::string Processor::text() const {
  struct Feature { const char* name; uint32_t word; int bit; };
  const Feature features[] = {{"F", ebx, 16}, {"DQ", ebx, 17}, {"IFMA", ebx, 21}, {"CD", ebx, 28}, {"BW", ebx, 30}, {"VL", ebx, 31}, {"VBMI", ecx, 1}, {"VBMI2", ecx, 6},
                              {"VNNI", ecx, 11}, {"BITALG", ecx, 12}, {"VPOPCNTDQ", ecx, 14}, {"VP2INTERSECT", edx, 8}, {"FP16", edx, 23}, {"BF16", more, 5}};
  std::string has, lacks;
  for (const Feature& f : features) (f.word >> f.bit & 1 ? has : lacks) += std::string(" ") + f.name;
  return "AVX-512 of this processor:" + has + "; not:" + lacks;
}

}  // namespace frit::avx512
