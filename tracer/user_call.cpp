// The public op in progress: one pointer a thread.
#include "tracer/user_call.h"
#include <algorithm>
#include "runtime/source_line.h"
#include "tracer/trace.h"

namespace frit::tracer {

namespace {
thread_local const UserCall* in_progress = nullptr;
}
UserCall::UserCall(const char* name, std::initializer_list<const Var*> operands) noexcept : name_(name), outermost_(!in_progress) {
  std::copy_n(operands.begin(), std::min(operands.size(), operands_.size()), operands_.begin());
  if (outermost_) in_progress = this;
}
UserCall::~UserCall() {
  if (outermost_) in_progress = nullptr;
}
const UserCall* UserCall::current() noexcept { return in_progress; }
std::string UserCall::shapes() const {
  std::string s;
  for (const Var* v : operands_) {
    if (!v || !v->defined()) continue;
    s += s.empty() ? "[" : ", [";
    const Sizes e = sizes_of(*v);
    for (size_t i = 0; i < e.size(); ++i) s += (i ? ", " : "") + std::to_string(e[i]);
    s += "]";
  }
  return s;
}

SiteScope::SiteScope(const CallSite* site) : before_(std::exchange(recorder().site, site)) {}
SiteScope::~SiteScope() { recorder().site = before_; }

std::string shown_name(const Call& call) {
  if (call.op == Op::assign) return "copy_";
  return std::string(op_name(call.op)) + (call.mode & in_place ? "_" : "");
}
std::string shown_name(const Node& n) { return n.result.site && n.result.site->op ? n.result.site->op : shown_name(n.call); }

}  // namespace frit::tracer
