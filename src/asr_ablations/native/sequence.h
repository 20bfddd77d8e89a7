// Batch norm with a clipped ReLU, dropout, and CTC. Batch norm and CTC ignore padding.
#pragma once
#include "elementary.h"

static inline long valid(int64_t length, long frames) { return std::min<long>(std::max<int64_t>(length, 0), frames); }

// Batch norm of x (batch, frames, inner, channels). Several positions form a long row of `width` numbers, which fills vector
// registers even if there are few channels. Sums are float32 within an utterance and float64 over utterances.
struct Norm {
  int64_t batch, frames, inner, channels, threads;
  const int64_t* lengths;
  const float *x, *weight, *bias;
  float *mean, *deviation;  // (channels,): mean over the batch, and 1 / sqrt(variance + epsilon)
  double epsilon, low, high;
  float* y;
  double* variance;         // (channels,): mean of the squared deviations
  const float* by_y;
  float *by_x, *by_weight, *by_bias;

  long width() const { return channels * std::max<long>(1, 128 / std::max<long>(channels, 1)); }
  long numbers(long b) const { return valid(lengths[b], frames) * inner * channels; }
  long begin(long b) const { return b * frames * inner * channels; }
  long workers() const { return worthwhile(threads, begin(batch)); }
  long positions() const {
    long total = 0;
    for (long b = 0; b < batch; b++) total += valid(lengths[b], frames) * inner;
    return total;
  }
  std::vector<float> repeated(const float* values) const {
    std::vector<float> row(width());
    for (long i = 0; i < width(); i++) row[i] = values[i % channels];
    return row;
  }
  // Calls visit(index of the first number, number count) for each long row of utterance b.
  template <class Visit>
  void rows(long b, const Visit& visit) const {
    for (long i = 0, count = numbers(b), step = width(); i < count; i += step) visit(begin(b) + i, std::min(step, count - i));
  }
  // Reduces sums (kinds, batch, width) to (kinds, channels).
  std::vector<double> total(const Buffer<float>& sums, long kinds) const {
    std::vector<double> result(kinds * channels, 0.0);
    for (long kind = 0; kind < kinds; kind++)
      for (long b = 0; b < batch; b++)
        for (long i = 0; i < width(); i++) result[kind * channels + i % channels] += sums.data[(kind * batch + b) * width() + i];
    return result;
  }

  void forward() {
    const long W = width(), count = std::max<long>(1, positions());
    Buffer<float> sums(batch * W);
    sums.zero(batch * W);
    in_parallel(workers(), batch, [&](long b) {
      float* sum = sums.data + b * W;
      rows(b, [&](long at, long n) { EACH for (long i = 0; i < n; i++) sum[i] += x[at + i]; });
    });
    std::vector<double> first = total(sums, 1);
    for (long c = 0; c < channels; c++) mean[c] = float(first[c] / count);
    std::vector<float> centre = repeated(mean);
    sums.zero(batch * W);
    in_parallel(workers(), batch, [&](long b) {
      float *sum = sums.data + b * W, *m = centre.data();
      rows(b, [&](long at, long n) { EACH for (long i = 0; i < n; i++) sum[i] += (x[at + i] - m[i]) * (x[at + i] - m[i]); });
    });
    std::vector<double> second = total(sums, 1);
    for (long c = 0; c < channels; c++) {
      variance[c] = second[c] / count;
      deviation[c] = float(1 / std::sqrt(variance[c] + epsilon));
    }
    std::vector<float> scale = repeated(deviation), weights = repeated(weight), offset = repeated(bias);
    const float least = float(low), most = float(high);
    in_parallel(workers(), batch, [&](long b) {
      const float *m = centre.data(), *s = scale.data(), *w = weights.data(), *o = offset.data();
      rows(b, [&](long at, long n) {
        EACH for (long i = 0; i < n; i++) {
          float value = (x[at + i] - m[i]) * s[i] * w[i] + o[i];
          value = value < least ? least : value;
          y[at + i] = value > most ? most : value;
        }
      });
      std::memset(y + begin(b) + numbers(b), 0, (begin(b + 1) - begin(b) - numbers(b)) * sizeof(float));
    });
  }

  void backward() {
    const long W = width(), count = std::max<long>(1, positions());
    std::vector<float> centre = repeated(mean), scale = repeated(deviation), weights = repeated(weight), offset = repeated(bias);
    const float least = float(low), most = float(high);
    const float *m = centre.data(), *s = scale.data(), *w = weights.data(), *o = offset.data();
    // the gradient passes unless the value, which is computed as in the forward pass, lies outside the bounds of clipping
    auto passed = [=](float normal, long i, float gradient) {
      float value = normal * w[i] + o[i];
      return value < least || value > most ? 0.0f : gradient;
    };
    Buffer<float> sums(2 * batch * W);
    sums.zero(2 * batch * W);
    in_parallel(workers(), batch, [&](long b) {
      float *alone = sums.data + b * W, *times = sums.data + (batch + b) * W;
      rows(b, [&](long at, long n) {
        EACH for (long i = 0; i < n; i++) {
          float normal = (x[at + i] - m[i]) * s[i], gradient = passed(normal, i, by_y[at + i]);
          alone[i] += gradient;
          times[i] += gradient * normal;
        }
      });
    });
    std::vector<double> both = total(sums, 2);
    std::vector<float> means(2 * channels);
    for (long c = 0; c < channels; c++) {
      by_bias[c] = float(both[c]);
      by_weight[c] = float(both[channels + c]);
      means[c] = float(both[c] / count);
      means[channels + c] = float(both[channels + c] / count);
    }
    std::vector<float> alone_means = repeated(means.data()), times_means = repeated(means.data() + channels);
    in_parallel(workers(), batch, [&](long b) {
      const float *alone = alone_means.data(), *times = times_means.data();
      rows(b, [&](long at, long n) {
        EACH for (long i = 0; i < n; i++) {
          float normal = (x[at + i] - m[i]) * s[i], gradient = passed(normal, i, by_y[at + i]);
          by_x[at + i] = (gradient - alone[i] - normal * times[i]) * s[i] * w[i];
        }
      });
      std::memset(by_x + begin(b) + numbers(b), 0, (begin(b + 1) - begin(b) - numbers(b)) * sizeof(float));
    });
  }
};

// y[i] = x[i] · factor, or 0 if a 32-bit hash of i and the seed is below `lowest`. The hash applies the last rounds of
// murmur3 twice. The mask is not stored, because the backward pass can compute it again.
static void dropout(long count, uint32_t lowest, uint64_t seed, float factor, const float* x, float* y) {
  const uint32_t low = uint32_t(seed), high = uint32_t(seed >> 32);
  EACH for (long i = 0; i < count; i++) {
    uint32_t z = uint32_t(i) * 0x9E3779B9u + low;
    z = (z ^ (z >> 16)) * 0x85EBCA6Bu;
    z = (z ^ (z >> 13)) * 0xC2B2AE35u;
    z = (z ^ (z >> 16)) + high;
    z = (z ^ (z >> 16)) * 0x85EBCA6Bu;
    z = (z ^ (z >> 13)) * 0xC2B2AE35u;
    z ^= z >> 16;
    y[i] = z < lowest ? 0.0f : x[i] * factor;
  }
}

// CTC loss (Graves et al. 2006, §4.1) of log-probabilities (batch, frames, outputs) in nats. The blank has index 0.
//
// Sums over paths are logarithms in float64, with increments in float32. Probabilities would underflow, because a prefix may
// be 1e-800 times as likely as another and yet be the only one on a complete path. Float32 is too coarse at 1,000 nats.
struct Paths {
  int64_t batch, frames, outputs, threads;
  const float* log_probs;
  const int64_t *lengths, *targets, *counts;  // targets are concatenated; counts (batch,): targets per utterance
  float* nats;                                // (batch,); infinite if no path fits into the frames
  float* by_log_probs;                        // gradient: 0 past a length, and NaN if nats are infinite, as in torch

  static constexpr double NEVER = -1e300, UNLIKELY = -1e29;

  static inline double sum(double a, double b, double c) {
    double most = a > b ? a : b;
    most = most > c ? most : c;
    float total = exponential(float(a - most)) + exponential(float(b - most)) + exponential(float(c - most));
    return most + double(logarithm(total));
  }

  void run() {
    std::vector<long> first(batch + 1, 0);
    for (long b = 0; b < batch; b++) first[b + 1] = first[b] + counts[b];
    in_parallel(threads, batch, [&](long b) { utterance(b, targets + first[b], counts[b]); });
  }

  void utterance(long b, const int64_t* labels, long count) {
    const long T = valid(lengths[b], frames), S = 2 * count + 1, V = outputs, W = rounded_up(S, 8) + 8;
    const float* x = log_probs + b * frames * V;
    float* gradient = by_log_probs + b * frames * V;
    std::memset(gradient, 0, frames * V * sizeof(float));
    auto end = [&](double value) {
      nats[b] = float(value);
      if (!(std::abs(value) <= -UNLIKELY)) std::fill(gradient, gradient + T * V, std::numeric_limits<float>::quiet_NaN());
    };
    if (!T) return end(count ? std::numeric_limits<double>::infinity() : 0.0);
    double check = 0;
    for (long i = 0; i < T * V; i++) check += x[i] < -1e30f ? 0.0f : x[i];
    if (std::isnan(check)) return end(check);
    // states before 0 and after S - 1 are padding that no path reaches, so loops need not test whether a neighbour exists
    Buffer<double> alphas(T * W), here(W), after(W), skipping(W);
    Buffer<float> emitted(T * W);
    Buffer<int32_t> label(W);
    double* skips = skipping.data + 2;  // skips[s] is 0 if a path may go from state s - 2 to s, otherwise NEVER
    for (long s = -2; s < W - 2; s++) {
      long state = s > 0 && s < S && s % 2 ? s / 2 : -1;
      label.data[s + 2] = state < 0 ? 0 : int32_t(labels[state]);
      skips[s] = state > 0 && labels[state] != labels[state - 1] ? 0.0 : NEVER;
    }
    const int32_t* labels_of = label.data + 2;
    std::fill(alphas.data, alphas.data + T * W, NEVER);
    for (long t = 0; t < T; t++) {
      float* e = emitted.data + t * W + 2;
      const float* row = x + t * V;
      e[-2] = e[-1] = 0.0f;
      EACH for (long s = 0; s < W - 2; s++) e[s] = row[labels_of[s]] < -1e30f ? -1e30f : row[labels_of[s]];
    }
    alphas.data[2] = emitted.data[2];
    if (S > 1) alphas.data[3] = emitted.data[3];
    for (long t = 1; t < T; t++) {
      double *a = alphas.data + t * W + 2, *p = a - W;
      const float* e = emitted.data + t * W + 2;
      const long from = std::max(0L, S - 2 * (T - t)), to = std::min(S, 2 * (t + 1));  // states that lie on complete paths
      EACH for (long s = from; s < to; s++) a[s] = sum(p[s], p[s - 1], p[s - 2] + skips[s]) + e[s];
    }
    const double* last = alphas.data + (T - 1) * W + 2;
    const double log_likelihood = sum(last[S - 1], S > 1 ? last[S - 2] : NEVER, NEVER);
    if (log_likelihood < UNLIKELY) return end(std::numeric_limits<double>::infinity());
    end(-log_likelihood);
    std::fill(here.data, here.data + W, NEVER);
    double* beta = here.data + 2;
    beta[S - 1] = 0;
    if (S > 1) beta[S - 2] = 0;
    std::vector<float> occupied(S);
    for (long t = T - 1; t >= 0; t--) {
      const double* a = alphas.data + t * W + 2;
      float* share = occupied.data();
      EACH for (long s = 0; s < S; s++) share[s] = exponential(float(a[s] + beta[s] - log_likelihood));
      float* g = gradient + t * V;
      for (long s = 0; s < S; s++) g[labels_of[s]] -= share[s];
      if (!t) break;
      double* b = after.data + 2;
      const float* e = emitted.data + t * W + 2;
      std::fill(after.data, after.data + W, NEVER);
      EACH for (long s = 0; s < S; s++) b[s] = beta[s] + e[s];
      EACH for (long s = 0; s < S; s++) beta[s] = sum(b[s], b[s + 1], b[s + 2] + skips[s + 2]);
    }
  }
};
