// Norms over channels and attention: against loops in double precision, running statistics by hand, masks, derivatives against
// differences, layers, errors; op by op and deferred. And a network of all layers, compiled and not.
#include <catch2/catch.hpp>

#include <algorithm>

#include "frit/frit.h"
#include "tests/support/layer_checks.h"

using namespace frit;
using namespace frit::indexing;
using namespace frit::layer_checks;
namespace F = frit::nn::functional;
using Catch::Matchers::Contains;

// ---- norms --------------------------------------------------------------------------------------------------------------
TEST_CASE("batch_norm: training, running statistics and evaluation by hand") {
  in_both_modes([] {
    nn::BatchNorm2d norm(nn::BatchNorm2dOptions(3).eps(1e-3).momentum(0.3));
    norm->to(kFloat64);
    {
      NoGradGuard no_grad;
      norm->weight.copy_(tensor({0.5, 2., -1.}, kFloat64));
      norm->bias.copy_(tensor({1., 0., 3.}, kFloat64));
    }
    const double weight[] = {0.5, 2, -1}, bias[] = {1, 0, 3};
    double mean[3] = {0, 0, 0}, variance[3] = {1, 1, 1};
    const auto expected = [&](const std::vector<double>& v, const double* m, const double* s) {
      std::vector<double> y(v.size());
      for (size_t i = 0; i < v.size(); ++i) {
        const size_t c = i / 20 % 3;
        y[i] = (v[i] - m[c]) / std::sqrt(s[c] + 1e-3) * weight[c] + bias[c];
      }
      return y;
    };
    for (int step = 0; step < 3; ++step) {
      const Tensor x = random({2, 3, 4, 5}) * Scalar(1.0 + step) + Scalar(0.5);
      const auto v = values(x);
      double m[3] = {}, s[3] = {};
      for (size_t i = 0; i < v.size(); ++i) m[i / 20 % 3] += v[i] / 40;
      for (size_t i = 0; i < v.size(); ++i) s[i / 20 % 3] += (v[i] - m[i / 20 % 3]) * (v[i] - m[i / 20 % 3]) / 40;
      check_close(norm(x), {2, 3, 4, 5}, expected(v, m, s));
      for (int c = 0; c < 3; ++c) mean[c] = 0.7 * mean[c] + 0.3 * m[c], variance[c] = 0.7 * variance[c] + 0.3 * s[c] * 40 / 39;
      check_close(norm->running_mean, {3}, {mean, mean + 3});
      check_close(norm->running_var, {3}, {variance, variance + 3});
      CHECK(norm->num_batches_tracked.item<int64_t>() == step + 1);
    }
    norm->eval();
    const Tensor x = random({2, 3, 4, 5});
    check_close(norm(x), {2, 3, 4, 5}, expected(values(x), mean, variance));
    check_close(norm->running_mean, {3}, {mean, mean + 3});

    nn::BatchNorm2d average(nn::BatchNorm2dOptions(3).momentum(std::nullopt).affine(false));
    Tensor sum = zeros({3});
    for (int step = 1; step <= 3; ++step) {
      const Tensor t = randn({2, 3, 4, 5});
      average(t), sum = sum + t.mean({0, 2, 3});
      CHECK(average->running_mean.allclose(sum / Scalar(step), 1e-4, 1e-6));
    }
    CHECK(average->parameters().empty());
    CHECK(nn::BatchNorm2d(3)->named_buffers().keys() == std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"});
    CHECK_THROWS_AS(average(randn({2, 3, 4})), ShapeError);
    CHECK_THROWS_AS(average(randn({2, 4, 4, 4})), ShapeError);
    CHECK_THROWS_AS(average(randn({1, 3, 1, 1})), ValueError);
    using List = autograd::variable_list;
    const auto train = [](const List& in) { return List{frit::batch_norm(in[0], in[1], in[2], Tensor(), Tensor(), true, 0.1, 1e-5)}; };
    CHECK(autograd::gradcheck(train, {random({3, 2, 2, 3}).requires_grad_(), random({2}).requires_grad_(), random({2}).requires_grad_()}));
    CHECK(autograd::gradgradcheck(train, {random({3, 2, 2}).requires_grad_(), random({2}).requires_grad_(), random({2}).requires_grad_()}, 1e-6, 1e-4));
  });
}
TEST_CASE("group_norm and instance_norm: by hand, derivatives") {
  in_both_modes([] {
    using List = autograd::variable_list;
    const Tensor x = random({2, 6, 2, 3}) * Scalar(2) + Scalar(1), w = random({6}), b = random({6});
    const auto v = values(x), wv = values(w), bv = values(b);
    for (const int64_t groups : {1, 2, 3, 6}) {
      const size_t size = size_t(36 / groups);
      std::vector<double> want(v.size());
      for (size_t from = 0; from < v.size(); from += size) {
        double m = 0, s = 0;
        for (size_t i = from; i < from + size; ++i) m += v[i] / double(size);
        for (size_t i = from; i < from + size; ++i) s += (v[i] - m) * (v[i] - m) / double(size);
        for (size_t i = from; i < from + size; ++i) want[i] = (v[i] - m) / std::sqrt(s + 1e-5) * wv[i / 6 % 6] + bv[i / 6 % 6];
      }
      INFO(groups << " groups");
      check_close(frit::group_norm(x, groups, w, b), {2, 6, 2, 3}, want);
      check_close(F::group_norm(x, F::GroupNormFuncOptions(groups).weight(w).bias(b)), {2, 6, 2, 3}, want);
      if (groups == 6) check_close(F::instance_norm(x, F::InstanceNormFuncOptions().weight(w).bias(b)), {2, 6, 2, 3}, want);
    }
    CHECK(autograd::gradcheck([](const List& in) { return List{frit::group_norm(in[0], 2, in[1], in[2])}; }, {random({2, 4, 3}).requires_grad_(), random({4}).requires_grad_(), random({4}).requires_grad_()}));
    nn::GroupNorm norm(3, 6);
    CHECK(norm(x.to(kFloat32)).allclose(frit::group_norm(x.to(kFloat32), 3)));
    CHECK(frit::group_norm(x.to(kFloat16), 3).dtype() == kFloat16);
    CHECK(frit::group_norm(x.to(kFloat16), 3).to(kFloat64).allclose(frit::group_norm(x, 3), 1e-2, 1e-2));

    Tensor mean = zeros({6}, kFloat64), variance = ones({6}, kFloat64);
    F::instance_norm(x, F::InstanceNormFuncOptions().running_mean(mean).running_var(variance).momentum(0.2));
    CHECK(mean.allclose(x.mean({2, 3}).mean(0) * Scalar(0.2)));
    CHECK(variance.allclose(x.var({2, 3}, true).mean(0) * Scalar(0.2) + Scalar(0.8)));
    const Tensor fixed = F::instance_norm(x, F::InstanceNormFuncOptions().running_mean(mean).running_var(variance).use_input_stats(false));
    CHECK(fixed.allclose((x - mean.reshape({6, 1, 1})) / (variance.reshape({6, 1, 1}) + Scalar(1e-5)).sqrt()));
    CHECK_THROWS_WITH(frit::group_norm(x, 4), Contains("4 groups do not divide the 6 channels"));
    CHECK_THROWS_AS(frit::group_norm(x, 2, random({5})), ShapeError);
    CHECK_THROWS_AS(frit::group_norm(x.to(kInt64), 2), DtypeError);
    CHECK_THROWS_AS(nn::GroupNorm(4, 6), ValueError);
  });
}

// ---- attention ----------------------------------------------------------------------------------------------------------
namespace {
// One head after the other, in double precision. mask: true where seen, or numbers, [B, H, L, S] each; weights: of the softmax.
std::vector<double> naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double scale, std::vector<double>* weights = nullptr) {
  const int64_t B = q.size(0), H = q.size(1), L = q.size(2), E = q.size(3), S = k.size(2), V = v.size(3), share = H / k.size(1);
  const auto qv = values(q), kv = values(k), vv = values(v);
  const auto m = mask.defined() ? values(mask.expand({B, H, L, S})) : std::vector<double>();
  const bool choice = mask.defined() && mask.dtype() == kBool;
  std::vector<double> out;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h) {
      const int64_t g = b * k.size(1) + h / share;
      for (int64_t i = 0; i < L; ++i) {
        std::vector<double> s(static_cast<size_t>(S));
        double top = -infinity, total = 0;
        for (int64_t j = 0; j < S; ++j) {
          double dot = 0;
          for (int64_t e = 0; e < E; ++e) dot += qv[size_t(((b * H + h) * L + i) * E + e)] * kv[size_t((g * S + j) * E + e)];
          dot *= scale;
          if (mask.defined()) {
            const double x = m[size_t(((b * H + h) * L + i) * S + j)];
            dot = choice ? (x != 0 ? dot : -infinity) : dot + x;
          }
          s[size_t(j)] = dot, top = std::max(top, dot);
        }
        for (double& x : s) x = top == -infinity ? 0 : std::exp(x - top), total += x;
        for (double& x : s) x = total == 0 ? 0 : x / total;
        for (int64_t e = 0; e < V; ++e) {
          double sum = 0;
          for (int64_t j = 0; j < S; ++j) sum += s[size_t(j)] * vv[size_t((g * S + j) * V + e)];
          out.push_back(sum);
        }
        if (weights) weights->insert(weights->end(), s.begin(), s.end());
      }
    }
  return out;
}
}  // namespace

TEST_CASE("scaled_dot_product_attention: masks, causal, grouped heads, against loops") {
  in_both_modes([] {
    const int64_t B = 2, L = 4, S = 5, E = 3, V = 2;
    for (const int64_t heads : {2, 6})
      for (const int64_t key_heads : {2, 6}) {
        if (key_heads > heads) continue;
        const bool gqa = key_heads != heads;
        const Tensor q = random({B, L, heads, E}).transpose(1, 2), k = random({B, key_heads, S, E}), v = random({B, key_heads, V, S}).mT();
        const double scale = 1 / std::sqrt(double(E));
        const Sizes shape{B, heads, L, V};
        INFO(heads << " heads, " << key_heads << " of the keys");
        check_close(frit::scaled_dot_product_attention(q, k, v, {}, 0, false, std::nullopt, gqa), shape, naive_attention(q, k, v, {}, scale));
        check_close(F::scaled_dot_product_attention(q, k, v, Tensor(), 0, false, 0.3, gqa), shape, naive_attention(q, k, v, {}, 0.3));
        const Tensor lower = ones({L, S}).tril().to(kBool);
        check_close(frit::scaled_dot_product_attention(q, k, v, {}, 0, true, std::nullopt, gqa), shape, naive_attention(q, k, v, lower, scale));
        for (const Sizes& m : {Sizes{L, S}, Sizes{S}, Sizes{B, 1, L, S}, Sizes{1, heads, 1, S}, Sizes{B, heads, L, 1}, Sizes{B, heads, L, S}}) {
          INFO("mask " << join(m));
          const Tensor numbers = random(m), seen = numbers.gt(Scalar(-0.3));
          check_close(frit::scaled_dot_product_attention(q, k, v, numbers, 0, false, std::nullopt, gqa), shape, naive_attention(q, k, v, numbers, scale));
          check_close(frit::scaled_dot_product_attention(q, k, v, seen, 0, false, std::nullopt, gqa), shape, naive_attention(q, k, v, seen, scale));
        }
      }
  });
}
TEST_CASE("scaled_dot_product_attention: rows without a key are zeros and give no gradient") {
  in_both_modes([] {
    const Tensor q = random({1, 2, 3, 4}).requires_grad_(), k = random({1, 2, 5, 4}).requires_grad_(), v = random({1, 2, 5, 4}).requires_grad_();
    const Tensor seen = arange(3).ne(Scalar(1)).unsqueeze(1).expand({3, 5}).contiguous();
    const Tensor numbers = frit::where(seen, Scalar(0.0), Scalar(-infinity)).to(kFloat64);
    for (const Tensor& mask : {seen, numbers}) {
      const Tensor y = frit::scaled_dot_product_attention(q, k, v, mask);
      check_close(y, {1, 2, 3, 4}, naive_attention(q, k, v, seen, 0.5));
      CHECK(y.select(2, 1).eq(Scalar(0)).all().item<bool>());
      const auto g = autograd::grad({y.square().sum()}, {q, k, v});
      for (const Tensor& t : g) CHECK(t.isfinite().all().item<bool>());
      CHECK(g[0].select(2, 1).eq(Scalar(0)).all().item<bool>());
      CHECK(g[0].select(2, 0).ne(Scalar(0)).all().item<bool>());
    }
    CHECK(frit::scaled_dot_product_attention(q, k, v, zeros({3, 5}, kBool)).eq(Scalar(0)).all().item<bool>());
    CHECK(frit::scaled_dot_product_attention(zeros({2, 3, 4}), zeros({2, 0, 4}), zeros({2, 0, 6})).equal(zeros({2, 3, 6})));
  });
}
TEST_CASE("scaled_dot_product_attention: derivatives, ranks, half types, dropout, errors") {
  in_both_modes([] {
    using List = autograd::variable_list;
    const auto f = [](const Tensor& mask, bool causal, bool gqa) {
      return [=](const List& in) { return List{frit::scaled_dot_product_attention(in[0], in[1], in[2], mask, 0, causal, std::nullopt, gqa)}; };
    };
    const List in{random({1, 4, 3, 2}).requires_grad_(), random({1, 2, 4, 2}).requires_grad_(), random({1, 2, 4, 3}).requires_grad_()};
    const Tensor mask = random({3, 4}).gt(Scalar(-0.5));
    CHECK(autograd::gradcheck(f({}, true, true), in));
    CHECK(autograd::gradcheck(f(mask, false, true), in));
    CHECK(autograd::gradgradcheck(f(mask, false, true), in, 1e-6, 1e-4));
    const Tensor bias = random({3, 4}).requires_grad_();
    CHECK(autograd::gradcheck([&](const List& l) { return List{frit::scaled_dot_product_attention(l[0], l[1], l[2], l[3], 0, false, std::nullopt, true)}; }, {in[0], in[1], in[2], bias}));

    const Tensor q = random({3, 2}), k = random({4, 2}), v = random({4, 5});
    const auto lift = [](const Tensor& t) { return t.unsqueeze(0).unsqueeze(0); };
    check_close(frit::scaled_dot_product_attention(q, k, v), {3, 5}, naive_attention(lift(q), lift(k), lift(v), {}, 1 / std::sqrt(2.0)));
    const Tensor half = frit::scaled_dot_product_attention(q.to(kBFloat16), k.to(kBFloat16), v.to(kBFloat16), zeros({3, 4}, kBFloat16));
    CHECK(half.dtype() == kBFloat16);
    CHECK(half.to(kFloat64).allclose(frit::scaled_dot_product_attention(q, k, v), 0.03, 0.03));

    const Tensor one = ones({1, 1, 200, 8}, kFloat64);
    const auto y = values(frit::scaled_dot_product_attention(one, one, one, {}, 0.25));
    double mean = 0;
    for (double x : y) mean += x / double(y.size());
    CHECK(mean == Approx(1).epsilon(0.05));
    CHECK(*std::max_element(y.begin(), y.end()) > *std::min_element(y.begin(), y.end()));

    CHECK_THROWS_WITH(frit::scaled_dot_product_attention(q, random({4, 3}), v), Contains("scaled_dot_product_attention") && Contains("[3, 2]") && Contains("[4, 3]"));
    CHECK_THROWS_AS(frit::scaled_dot_product_attention(q, k, random({3, 5})), ShapeError);
    CHECK_THROWS_AS(frit::scaled_dot_product_attention(q, k, v, mask, 0, true), ValueError);
    CHECK_THROWS_WITH(frit::scaled_dot_product_attention(q, k, v, random({2, 4})), Contains("mask") && Contains("[2, 4]") && Contains("[3, 4]"));
    CHECK_THROWS_AS(frit::scaled_dot_product_attention(q, k, v, zeros({3, 4}, kInt64)), DtypeError);
    CHECK_THROWS_AS(frit::scaled_dot_product_attention(q, k.to(kFloat32), v), DtypeError);
    CHECK_THROWS_AS(frit::scaled_dot_product_attention(random({3, 4, 2}), random({2, 4, 2}), random({2, 4, 2}), {}, 0, false, std::nullopt, true), ShapeError);
    CHECK_THROWS_AS(frit::scaled_dot_product_attention(q, k, v, {}, 1.5), ValueError);
  });
}

namespace {
// The layer in terms of its parameters, [batch, length, embed] inputs.
std::vector<double> naive_layer(const nn::MultiheadAttentionImpl& m, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, std::vector<double>* weights) {
  const int64_t E = m.options.embed_dim(), H = m.options.num_heads();
  const auto w = [&](int i, const Tensor& own) { return own.defined() ? own : m.in_proj_weight.narrow(0, i * E, E); };
  const auto project = [&](const Tensor& t, int i, const Tensor& own) {
    return (t.matmul(w(i, own).t()) + m.in_proj_bias.narrow(0, i * E, E)).unflatten(-1, {H, E / H}).transpose(1, 2);
  };
  NoGradGuard no_grad;
  const auto out = naive_attention(project(q, 0, m.q_proj_weight), project(k, 1, m.k_proj_weight), project(v, 2, m.v_proj_weight), mask, 1 / std::sqrt(double(E / H)), weights);
  const Tensor heads = tensor(out, kFloat64).reshape({q.size(0), H, q.size(1), E / H}).transpose(1, 2).flatten(2);
  return values(heads.matmul(m.out_proj->weight.t()) + m.out_proj->bias);
}
}  // namespace
TEST_CASE("MultiheadAttention: names, masks, layouts, weights, against loops") {
  in_both_modes([] {
    const int64_t B = 2, L = 3, S = 4, E = 6, H = 2;
    for (const bool batch_first : {false, true})
      for (const bool other_extents : {false, true}) {
        auto options = nn::MultiheadAttentionOptions(E, H).batch_first(batch_first);
        if (other_extents) options.kdim(5).vdim(3);
        nn::MultiheadAttention layer(options);
        layer->to(kFloat64);
        {
          NoGradGuard no_grad;
          layer->in_proj_bias.normal_();
          layer->out_proj->bias.normal_();
        }
        const std::vector<std::string> names = layer->named_parameters().keys();
        CHECK(names == (other_extents ? std::vector<std::string>{"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
                                      : std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
        const Tensor q = random({B, L, E}), k = random({B, S, other_extents ? 5 : E}), v = random({B, S, other_extents ? 3 : E});
        const auto in = [&](const Tensor& t) { return batch_first ? t : t.transpose(0, 1); };
        const auto back = [&](const Tensor& t) { return batch_first ? t : t.transpose(0, 1); };
        Tensor hidden = ones({L, S}).triu(2).to(kBool), padding = zeros({B, S}, kBool);
        padding.index_put_({1, 0}, true);
        const Tensor seen = hidden.logical_or(padding.reshape({B, 1, 1, S})).logical_not();
        INFO("batch_first " << batch_first << ", other extents " << other_extents);
        for (const bool need_weights : {true, false}) {
          const auto [y, w] = layer(in(q), in(k), in(v), padding, need_weights, hidden);
          std::vector<double> each;
          check_close(back(y), {B, L, E}, naive_layer(*layer, q, k, v, seen, &each), 1e-10);
          CHECK(w.defined() == need_weights);
          if (!need_weights) continue;
          const Tensor all = tensor(each, kFloat64).reshape({B, H, L, S});
          check_close(w, {B, L, S}, values(all.mean(1)), 1e-10);
          check_close(std::get<1>(layer(in(q), in(k), in(v), padding, true, hidden, false)), {B, H, L, S}, each, 1e-10);
        }
        const Tensor numbers = random({B * H, L, S}), bias = numbers.reshape({B, H, L, S}) + frit::where(padding, Scalar(-infinity), Scalar(0.0)).to(kFloat64).reshape({B, 1, 1, S});
        check_close(back(std::get<0>(layer(in(q), in(k), in(v), padding, false, numbers))), {B, L, E}, naive_layer(*layer, q, k, v, bias, nullptr), 1e-10);
        if (other_extents) continue;
        const Tensor self = in(q);
        check_close(back(std::get<0>(layer(self, self, self))), {B, L, E}, naive_layer(*layer, q, q, q, {}, nullptr), 1e-10);
        const Tensor memory = in(k);
        check_close(back(std::get<0>(layer(self, memory, memory, Tensor(), false))), {B, L, E}, naive_layer(*layer, q, k, k, {}, nullptr), 1e-10);
        layer->zero_grad();
        std::get<0>(layer(self, memory, memory)).sum().backward();
        for (const auto& p : layer->named_parameters()) CHECK(p.value().grad().defined());
      }
    const auto w = values(nn::MultiheadAttention(16, 4)->in_proj_weight);
    const double bound = std::sqrt(6.0 / (16 + 48));  // xavier
    CHECK(*std::max_element(w.begin(), w.end()) <= bound);
    CHECK(*std::max_element(w.begin(), w.end()) > 0.9 * bound);
  });
}
TEST_CASE("MultiheadAttention: added keys, dropout, errors; TransformerEncoderLayer") {
  in_both_modes([] {
    nn::MultiheadAttention more(nn::MultiheadAttentionOptions(4, 2).add_bias_kv(true).add_zero_attn(true));
    const Tensor x = randn({3, 2, 4});
    const auto [y, w] = more(x, x, x, zeros({2, 3}, kBool), true, ones({3, 3}, kBool));  // only the added keys are seen
    CHECK(w.sizes().vec() == Sizes{2, 3, 5});
    CHECK(w.narrow(2, 0, 3).eq(Scalar(0)).all().item<bool>());
    CHECK(w.sum(-1).allclose(ones({2, 3})));
    CHECK(y.isfinite().all().item<bool>());
    CHECK(std::get<0>(more(x, x, x, zeros({2, 3}, kBool), false, ones({3, 3}, kBool))).allclose(y, 1e-4, 1e-5));

    nn::MultiheadAttention dropping(nn::MultiheadAttentionOptions(4, 2).dropout(0.5));
    CHECK(!std::get<0>(dropping(x, x, x)).equal(std::get<0>(dropping(x, x, x))));
    dropping->eval();
    CHECK(std::get<0>(dropping(x, x, x)).equal(std::get<0>(dropping(x, x, x))));
    CHECK_THROWS_AS(nn::MultiheadAttention(5, 2), ValueError);
    CHECK_THROWS_WITH(dropping(x, randn({3, 1, 4}), x), Contains("MultiheadAttention") && Contains("[3, 2, 4]") && Contains("[3, 1, 4]"));
    CHECK_THROWS_AS(dropping(x, x, x, zeros({3, 2}, kBool)), ShapeError);
    CHECK_THROWS_AS(dropping(x, x, x, Tensor(), true, zeros({2, 3})), ShapeError);
    CHECK_THROWS_AS(dropping(x, x, x, Tensor(), true, zeros({3, 3}, kInt64)), DtypeError);

    nn::TransformerEncoderLayer encoder(nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8).dropout(0).activation(kGELU));
    const Tensor mask = ones({3, 3}).triu(1).to(kBool);
    const Tensor first = encoder->norm1(x + std::get<0>(encoder->self_attn(x, x, x, Tensor(), true, mask)));
    const Tensor want = encoder->norm2(first + encoder->linear2(encoder->linear1(first).gelu()));
    CHECK(encoder(x, mask).allclose(want, 1e-4, 1e-5));
    CHECK(encoder->parameters().size() == 12);
    const auto copy = std::dynamic_pointer_cast<nn::TransformerEncoderLayerImpl>(encoder->clone());
    CHECK(copy->forward(x, mask).equal(encoder(x, mask)));
    nn::TransformerEncoderLayer by_function(nn::TransformerEncoderLayerOptions(4, 2).activation([](const Tensor& t) { return t.tanh(); }));
    CHECK(by_function(x).sizes().vec() == Sizes{3, 2, 4});
  });
}

TEST_CASE("layers: a small network learns, and compiled gives the bits of eager") {
  const auto losses = [](bool compiled) {
    jit::ModeGuard guard(compiled ? jit::Mode::automatic : jit::Mode::eager);
    manual_seed(3);
    nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)), nn::BatchNorm2d(4), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(4, 4, 3), nn::GroupNorm(2, 4), nn::ReLU(), nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(4, 2));
    optim::SGD optimizer(net->parameters(), optim::SGDOptions(0.3));
    const Tensor y = arange(8).remainder(Scalar(2)), x = randn({8, 1, 10, 10}) + y.reshape({8, 1, 1, 1});
    const auto body = [&](const Tensor& in, const Tensor& target) {
      optimizer.zero_grad();
      const Tensor loss = F::cross_entropy(net->forward(in), target);
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto step = compile(body);
    std::vector<float> l;
    for (int i = 0; i < 25; ++i) l.push_back((compiled ? step(x, y) : body(x, y)).item<float>());
    return l;
  };
  const auto eager = losses(false), fused = losses(true);
  CHECK(eager == fused);
  CHECK(eager.back() < 0.6f * eager.front());
}
TEST_CASE("layers: building a network's forward and backward reads nothing") {
  jit::ModeGuard guard(jit::Mode::automatic);
  const Tensor x = randn({2, 4, 9, 8}).requires_grad_(), w = randn({4, 2, 3, 3}).requires_grad_(), mask = ones({8, 8}).tril().to(kBool);
  synchronize();
  const int64_t before = jit::stats().flushes;
  Tensor y = frit::conv2d(x, w, {}, 1, 1, 1, 2);
  y = frit::group_norm(frit::max_pool2d(y, {2, 1}, {2, 1}), 2);
  y = frit::scaled_dot_product_attention(y, y, y, mask.narrow(0, 0, 4).narrow(1, 0, 4));
  const auto g = autograd::grad({frit::avg_pool2d(y, 3, 2, 1).square().sum()}, {x, w});
  CHECK(jit::stats().flushes == before);
  CHECK(g[0].isfinite().all().item<bool>());
  CHECK(jit::stats().flushes > before);
}
