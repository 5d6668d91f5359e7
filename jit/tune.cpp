// Trials of schedules: see tune.h. A shape goes through the stages in order: counted until it is hot; timed once, whether it is worth it;
// compiled in the background; tried in turn; settled. Start at Tuner::pick.
#include "jit/tune.h"
#include <algorithm>
#include "jit/tiers.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/stats.h"

namespace frit::jit {

namespace {
constexpr size_t most_shapes = 4;
constexpr double gain = 0.97;
constexpr uint8_t unrolls[] = {1, 2, 4};
double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}
}  // namespace

TuneSettings& tune_settings() {
  static TuneSettings s = [] {
    TuneSettings made;
    if (!settings().tune) made.hot = 0;
    return made;
  }();
  return s;
}

Tuner::Shape* Tuner::find(State& s, uint64_t hash) {
  for (Shape& shape : s.shapes)
    if (shape.hash == hash) return &shape;
  return nullptr;
}

Tuner::Pick Tuner::pick(uint64_t hash, const std::shared_ptr<CpuKernel>& usual, const GroupCode& code, const GroupLayout& layout) {
  Pick p{usual, 1, -1, hash};
  const TuneSettings& tune = tune_settings();
  if (tune.hot <= 0) return p;
  State& s = *state_;
  std::unique_lock hold(s.lock);
  Shape* shape = find(s, hash);
  if (!shape) {
    if (s.shapes.size() >= most_shapes) {  // the one that was not met for longest makes room, unless it is being compiled
      const auto at = std::min_element(s.shapes.begin(), s.shapes.end(), [](const Shape& a, const Shape& b) { return a.used < b.used; });
      if (at->stage == Stage::compiling) return p;
      s.shapes.erase(at);
    }
    s.shapes.push_back({});
    shape = &s.shapes.back();
    shape->hash = hash;
  }
  shape->used = ++s.clock;
  switch (shape->stage) {
    case Stage::counting:
      if (++shape->runs >= tune.hot) shape->stage = Stage::timing, p.candidate = 0;
      break;
    case Stage::timing: p.candidate = 0; break;
    case Stage::compiling: break;
    case Stage::trial:
      p.candidate = shape->next;
      p.kernel = shape->candidates[size_t(shape->next)].kernel;
      if (p.candidate > 0) p.tier = 2;
      shape->next = (shape->next + 1) % int(shape->candidates.size());
      break;
    case Stage::settled:
      if (shape->best) p.kernel = shape->best, p.tier = 2;
      break;
  }
  if (shape->stage != Stage::timing || shape->candidates.empty()) return p;
  if (int(shape->candidates[0].seconds.size()) < tune.samples) return p;
  // Timed often enough: is it worth it?
  if (median(shape->candidates[0].seconds) < tune.worth_seconds) {
    shape->stage = Stage::settled;
    ++s.settled;
    shape->candidates.clear();
    return p;
  }
  shape->stage = Stage::compiling;
  shape->candidates[0] = {usual, {}};
  hold.unlock();
  compile_in_background([state = state_, hash, code, layout] {
    std::vector<Candidate> made;
    const kernels::Program program = lower_group(code, layout);
    for (uint8_t u : unrolls) made.push_back({std::make_shared<CpuKernel>(compile_x86(program, {u})), {}});
    count(&Counters::tier2_kernels, int64_t(made.size()));
    const std::lock_guard hold(state->lock);
    Shape* shape = find(*state, hash);
    if (!shape) return;
    for (Candidate& c : made) shape->candidates.push_back(std::move(c));
    shape->stage = Stage::trial;
    state->tried += int(made.size());
  });
  p.candidate = -1;
  return p;
}

void Tuner::report(const Pick& pick, double seconds) {
  State& s = *state_;
  const std::lock_guard hold(s.lock);
  Shape* shape = find(s, pick.shape);
  if (!shape || (shape->stage != Stage::timing && shape->stage != Stage::trial)) return;
  if (shape->candidates.empty()) shape->candidates.push_back({});
  if (size_t(pick.candidate) >= shape->candidates.size()) return;
  shape->candidates[size_t(pick.candidate)].seconds.push_back(seconds);
  if (shape->stage != Stage::trial) return;
  for (const Candidate& c : shape->candidates)
    if (int(c.seconds.size()) < tune_settings().samples) return;
  settle(s, *shape);
}
void Tuner::settle(State& s, Shape& shape) {
  const double usual = median(shape.candidates[0].seconds);
  double best = usual * gain;
  std::string text = "tier 2: bucket kernel " + std::to_string(usual * 1e6) + " us";
  for (size_t i = 1; i < shape.candidates.size(); ++i) {
    const double t = median(shape.candidates[i].seconds);
    text += ", unroll " + std::to_string(unrolls[i - 1]) + " " + std::to_string(t * 1e6);
    if (t <= best) best = t, shape.best = shape.candidates[i].kernel;
  }
  FRIT_LOG_LINE(kernels, shape.candidates[0].kernel->name + ": " + text + (shape.best ? "; a specialised one is kept" : "; the bucket kernel stays"));
  shape.candidates.clear();
  shape.stage = Stage::settled;
  ++s.settled, s.kept += shape.best != nullptr;
  if (shape.best) count(&Counters::tier2_kept);
}
std::string Tuner::text() const {
  const std::lock_guard hold(state_->lock);
  const State& s = *state_;
  if (!s.tried) return "";
  return std::to_string(s.settled) + " shapes tuned, " + std::to_string(s.kept) + " with a kernel of their own, " + std::to_string(s.tried) + " kernels tried";
}

}  // namespace frit::jit
