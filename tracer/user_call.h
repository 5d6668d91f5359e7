// The public op in progress, where it is made of others: errors and lines speak of it and of its operands, not of what is inside. The
// outermost counts.
#pragma once
#include <array>
#include <initializer_list>
#include <string>
#include "tracer/var.h"

namespace frit::tracer {

class UserCall {
 public:
  UserCall(const char* name, std::initializer_list<const Var*> operands) noexcept;
  ~UserCall();
  UserCall(const UserCall&) = delete;
  static const UserCall* current() noexcept;  // null: none
  static const char* name_or(const char* op) noexcept { return current() ? current()->name() : op; }
  const char* name() const { return name_; }  // lives as long as the program
  std::string shapes() const;                 // "[2, 3], [4]"

 private:
  const char* name_;
  std::array<const Var*, 4> operands_{};
  bool outermost_;
};

// Puts a line in place of the recorder's own as long as it lives.
class SiteScope {
 public:
  explicit SiteScope(const CallSite* site);
  ~SiteScope();
  SiteScope(const SiteScope&) = delete;

 private:
  const CallSite* before_;
};

// What the user called a node: "index_select", "add_".
std::string shown_name(const Node& n);
std::string shown_name(const Call& call);

}  // namespace frit::tracer
