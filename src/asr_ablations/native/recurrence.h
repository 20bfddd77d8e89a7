// A recurrent layer of one or two directions over utterances of any length, and its gradient.
//
// Only valid frames are processed. Utterances are sorted from longest to shortest, so the utterances that are still active in
// a step are the first rows of its product. Rows of an utterance are contiguous: row(u, frame) = begin[u] + frame.
#pragma once
#include "products.h"

enum Cell { LSTM, GRU, PLAIN, CLIPPED };  // CLIPPED: min(max(x, 0), ceiling)

// The fields must match _Layer in operations.py. Gates have torch's order: i, f, g, o (LSTM); r, z, n (GRU).
struct Layer {
  int64_t cell, directions, concatenated, batch, frames, inputs, units, threads;
  double ceiling;
  const int64_t* lengths;                             // (batch,)
  const float* x;                                     // (batch, frames, inputs)
  const float *input[2], *hidden[2], *input_bias[2], *hidden_bias[2];
  float* output;                                      // (batch, frames, units, or twice as many if concatenated)
  float* saved;                                       // recurrence_floats() numbers, stored for the backward pass
  const float* by_output;                             // gradients
  float *by_x, *by_input[2], *by_hidden[2], *by_input_bias[2], *by_hidden_bias[2];
};

template <class Op>
struct Recurrence {
  using Number = typename Op::Number;
  const Layer& layer;
  long G, H, HP, N, D, DP, R;                          // gates, units, padded units, G · HP, inputs, padded inputs, rows
  long wide;                                           // numbers in a row of gradients; a GRU row has one more gate
  std::vector<long> order, length, begin;              // by rank in the sorted order: utterance, number of frames, first row
  Number* x;                                           // (R, DP)
  struct Direction {
    float *gates, *state, *other;  // gates (R, N); state, other (R, HP): LSTM c, tanh c; GRU U h + b of the candidate, previous h
    Number* before;                // (R, HP): h of the previous step
  } saved[2];
  long floats;

  explicit Recurrence(const Layer& layer) : layer(layer) {
    static const long gates_of[] = {4, 3, 1, 1};
    G = gates_of[layer.cell], H = layer.units, HP = rounded_up(H, PAD), N = G * HP;
    D = layer.inputs, DP = rounded_up(D, PAD), wide = layer.cell == GRU ? 4 * HP : N;
    for (long b = 0; b < layer.batch; b++) order.push_back(b);
    auto frames_of = [&](long b) { return std::min<long>(std::max<int64_t>(layer.lengths[b], 0), layer.frames); };
    std::stable_sort(order.begin(), order.end(), [&](long a, long b) { return frames_of(a) > frames_of(b); });
    R = 0;
    for (long b : order) {
      length.push_back(frames_of(b));
      begin.push_back(R);
      R += length.back();
    }
    begin.push_back(R);
    float* next = layer.saved;
    auto take = [&](long count) { float* at = next; next += rounded_up(count, PAD); return at; };
    auto take_numbers = [&](long count) { return reinterpret_cast<Number*>(take(words<Op>(count))); };
    floats = 0;
    x = take_numbers(R * DP);
    for (long d = 0; d < layer.directions; d++) {
      bool both = layer.cell == LSTM || layer.cell == GRU;
      saved[d] = {take(R * N), take(both ? R * HP : 0), take(both ? R * HP : 0), take_numbers(R * HP)};
    }
    floats = next - layer.saved;
  }

  Gates gates() const { return {G, H, HP}; }
  long row(long rank, long step, long direction) const {
    return begin[rank] + (direction ? length[rank] - 1 - step : step);
  }
  const uint32_t* row_words(const Number* numbers, long row, long width) const {
    return reinterpret_cast<const uint32_t*>(numbers + row * width);
  }
  Left left(const Number* rows, long width) const { return {reinterpret_cast<const uint32_t*>(rows), width / Op::PER_WORD, 1, 0}; }
  // Returns the number of parts into which the batch is divided: one for each thread of a direction.
  long shares() const { return std::max<long>(1, std::min<long>(layer.batch, layer.threads / layer.directions)); }

  void forward() {
    in_parallel(worthwhile(layer.threads, R * D), layer.batch, [&](long rank) {
      const float* from = layer.x + order[rank] * layer.frames * D;
      for (long t = 0; t < length[rank]; t++) narrow_row<Op>(from + t * D, x + (begin[rank] + t) * DP, D, DP);
    });
    std::vector<std::unique_ptr<Panels<Op>>> input(layer.directions), hidden(layer.directions);
    in_parallel(layer.threads, 2 * layer.directions, [&](long task) {
      long d = task / 2;
      auto& panels = (task % 2 ? hidden : input)[d];
      panels.reset(new Panels<Op>(task % 2 ? H : D, N));
      pack_transposed<Op>((task % 2 ? layer.hidden : layer.input)[d], gates(), *panels);
    });
    Buffer<float> outputs(layer.directions * R * HP);
    long parts = shares();
    in_parallel(layer.threads, layer.directions * parts, [&](long task) {
      long d = task / parts, part = task % parts;
      forward_share(d, part, parts, *input[d], *hidden[d], outputs.data + d * R * HP);
    });
    put_outputs(outputs.data);
  }

  // Returns every `parts`-th rank, beginning with `part`. All parts then have about the same number of frames.
  std::vector<long> ranks(long part, long parts) const {
    std::vector<long> mine;
    for (long rank = part; rank < layer.batch && length[rank]; rank += parts) mine.push_back(rank);
    return mine;
  }

  void forward_share(long d, long part, long parts, const Panels<Op>& input, const Panels<Op>& hidden, float* outputs) {
    const std::vector<long> mine = ranks(part, parts);
    const Direction& keep = saved[d];
    bool gru = layer.cell == GRU;
    Buffer<float> bias(N + PANEL), apart(HP);  // apart: bias of U h in the GRU's candidate, which gate r scales
    for (long g = 0; g < G; g++)
      for (long j = 0; j < HP; j++) {
        float other = j < H ? layer.hidden_bias[d][g * H + j] : 0.0f;
        bool scaled = gru && g == 2;
        bias.data[g * HP + j] = j < H ? layer.input_bias[d][g * H + j] + (scaled ? 0.0f : other) : 0.0f;
        if (scaled) apart.data[j] = other;
      }
    for (long rank : mine) {
      float* entering = keep.gates + begin[rank] * N;
      for (long t = 0; t < length[rank]; t++) std::memcpy(entering + t * N, bias.data, N * sizeof(float));
      multiply<Op>(length[rank], left(x + begin[rank] * DP, DP), input, entering, N, true);
    }
    long B = long(mine.size());
    Buffer<float> sums(B * N), state(B * HP);  // state: c of the LSTM, or h of the GRU
    Buffer<Number> h(B * HP);
    h.zero(B * HP);
    state.zero(B * HP);
    for (long step = 0, active = B; active; step++) {
      while (active && length[mine[active - 1]] <= step) active--;
      if (!active) break;
      if (step) multiply<Op>(active, left(h.data, HP), hidden, sums.data, N, false);
      else sums.zero(active * N);
      for (long i = 0; i < active; i++) {
        long at = row(mine[i], step, d);
        std::memcpy(keep.before + at * HP, h.data + i * HP, HP * sizeof(Number));
        cell_forward(sums.data + i * N, keep, at, apart.data, state.data + i * HP, outputs + at * HP);
        narrow_row<Op>(outputs + at * HP, h.data + i * HP, HP, HP);
      }
    }
  }

  void cell_forward(const float* __restrict sums, const Direction& keep, long at, const float* __restrict apart, float* __restrict state, float* __restrict y) const {
    float* __restrict a = keep.gates + at * N;  // W x + b on entry, the gates on return
    float *__restrict first = keep.state + at * HP, *__restrict second = keep.other + at * HP;
    const long P = HP;
    const float ceiling = float(layer.ceiling);
    switch (layer.cell) {
      case LSTM:
        EACH for (long j = 0; j < P; j++) {
          float i = sigmoid(a[j] + sums[j]), f = sigmoid(a[P + j] + sums[P + j]);
          float g = hyperbolic_tangent(a[2 * P + j] + sums[2 * P + j]), o = sigmoid(a[3 * P + j] + sums[3 * P + j]);
          float c = f * state[j] + i * g, bounded = hyperbolic_tangent(c);
          a[j] = i, a[P + j] = f, a[2 * P + j] = g, a[3 * P + j] = o;
          state[j] = first[j] = c, second[j] = bounded;
          y[j] = o * bounded;
        }
        return;
      case GRU:
        EACH for (long j = 0; j < P; j++) {
          float r = sigmoid(a[j] + sums[j]), z = sigmoid(a[P + j] + sums[P + j]);
          float returning = sums[2 * P + j] + apart[j], h = state[j];
          float n = hyperbolic_tangent(a[2 * P + j] + r * returning);
          a[j] = r, a[P + j] = z, a[2 * P + j] = n;
          first[j] = returning, second[j] = h;
          y[j] = state[j] = n + z * (h - n);
        }
        return;
      case PLAIN:
        EACH for (long j = 0; j < P; j++) y[j] = a[j] = hyperbolic_tangent(a[j] + sums[j]);
        return;
      default:
        EACH for (long j = 0; j < P; j++) {
          float s = a[j] + sums[j];
          s = s < 0.0f ? 0.0f : s;
          y[j] = a[j] = s > ceiling ? ceiling : s;
        }
    }
  }

  // Writes the sum or the concatenation of the directions, and 0 past each utterance's length.
  void put_outputs(const float* outputs) {
    long width = layer.concatenated ? layer.directions * H : H;
    in_parallel(worthwhile(layer.threads, R * width), layer.batch, [&](long rank) {
      float* to = layer.output + order[rank] * layer.frames * width;
      for (long t = 0; t < length[rank]; t++, to += width) {
        const float* first = outputs + (begin[rank] + t) * HP;
        const float* second = first + R * HP;
        if (layer.directions == 1 || layer.concatenated) std::memcpy(to, first, H * sizeof(float));
        if (layer.directions == 2 && layer.concatenated) std::memcpy(to + H, second, H * sizeof(float));
        if (layer.directions == 2 && !layer.concatenated)
          EACH for (long j = 0; j < H; j++) to[j] = first[j] + second[j];
      }
      std::memset(to, 0, (layer.frames - length[rank]) * width * sizeof(float));
    });
  }

  // A row holds the gradients of all gates before activation. The GRU's candidate n has two gradients, for U h + b and for
  // W x + b. In the order n (U h), r, z, n (W x), each product reads one contiguous piece of the row.
  long first_of_input() const { return layer.cell == GRU ? HP : 0; }
  long hidden_gate(long padded_row) const {  // returns the gate (in torch's order) of a row in U's gradient
    long gate = padded_row / HP;
    return layer.cell == GRU ? (gate == 0 ? 2 : gate - 1) : gate;
  }

  void backward() {
    long directions = layer.directions, parts = shares(), B = layer.batch;
    Buffer<Number> by_sums(directions * R * wide);
    Buffer<float> by_bias(directions * B * wide);
    by_bias.zero(directions * B * wide);
    std::vector<std::unique_ptr<Panels<Op>>> input(directions), hidden(directions);
    in_parallel(layer.threads, 2 * directions, [&](long task) {
      long d = task / 2, width = task % 2 ? H : D;
      auto& panels = (task % 2 ? hidden : input)[d];
      panels.reset(new Panels<Op>(N, width));
      const float* from = (task % 2 ? layer.hidden : layer.input)[d];
      Buffer<Number> narrowed(G * H * width);
      narrow_row<Op>(from, narrowed.data, G * H * width, G * H * width);
      pack_rows<Op>([&](long k) -> const Number* {
        long gate = task % 2 ? hidden_gate(k) : k / HP, unit = k % HP;
        return unit < H ? narrowed.data + (gate * H + unit) * width : nullptr;
      }, *panels);
    });
    in_parallel(layer.threads, directions * parts, [&](long task) {
      long d = task / parts;
      backward_share(d, task % parts, parts, *hidden[d], by_sums.data + d * R * wide, by_bias.data + d * B * wide);
    });
    // process all frames at once; each task computes the gradient of one utterance's x or of one gate's weights
    Panels<Op> entered(R, D);
    std::vector<std::unique_ptr<Panels<Op>>> before(directions);
    in_parallel(layer.threads, 1 + directions, [&](long task) {
      if (!task) return pack_rows<Op>([&](long k) { return x + k * DP; }, entered);
      before[task - 1].reset(new Panels<Op>(R, H));
      const Number* from = saved[task - 1].before;
      pack_rows<Op>([&](long k) { return from + k * HP; }, *before[task - 1]);
    });
    long weights = directions * G;
    in_parallel(layer.threads, weights + (layer.by_x ? B : 0), [&](long task) {
      if (task >= weights) return by_inputs(task - weights, by_sums.data, input);
      long d = task / G, gate = task % G;
      const Number *of_input = by_sums.data + d * R * wide + first_of_input() + gate * HP, *of_hidden = of_input;
      if (layer.cell == GRU && gate == 2) of_hidden = by_sums.data + d * R * wide;
      std::unique_ptr<Transposed<Op>> transposed(new Transposed<Op>(of_input, R, H, wide));
      multiply<Op>(H, transposed->left(), entered, layer.by_input[d] + gate * H * D, D, false);
      if (of_hidden != of_input) transposed.reset(new Transposed<Op>(of_hidden, R, H, wide));
      multiply<Op>(H, transposed->left(), *before[d], layer.by_hidden[d] + gate * H * H, H, false);
    });
    for (long d = 0; d < directions; d++)
      for (long g = 0; g < G; g++)
        for (long j = 0; j < H; j++) {
          float of_input = 0, of_hidden = 0;
          for (long rank = 0; rank < B; rank++) {
            const float* sums = by_bias.data + (d * B + rank) * wide;
            of_input += sums[first_of_input() + g * HP + j];
            of_hidden += sums[g * HP + j];
          }
          layer.by_input_bias[d][g * H + j] = of_input;
          layer.by_hidden_bias[d][hidden_gate(g * HP) * H + j] = of_hidden;
        }
  }

  void by_inputs(long rank, const Number* by_sums, const std::vector<std::unique_ptr<Panels<Op>>>& input) const {
    float* to = layer.by_x + order[rank] * layer.frames * D;
    for (long d = 0; d < layer.directions; d++) {
      const Number* from = by_sums + (d * R + begin[rank]) * wide + first_of_input();
      multiply<Op>(length[rank], left(from, wide), *input[d], to, D, d > 0);
    }
    std::memset(to + length[rank] * D, 0, (layer.frames - length[rank]) * D * sizeof(float));
  }

  void backward_share(long d, long part, long parts, const Panels<Op>& hidden, Number* by_sums, float* by_bias) const {
    const std::vector<long> mine = ranks(part, parts);
    long B = long(mine.size());
    Buffer<Number> later(B * N);                                   // gradients before activation in the next step
    Buffer<float> by_h(B * HP), by_state(B * HP), row_sums(wide);  // by_state: gradient of the LSTM's c
    by_h.zero(B * HP);
    by_state.zero(B * HP);
    long active = 0, width = layer.concatenated ? layer.directions * H : H;
    for (long step = B ? length[mine[0]] - 1 : -1; step >= 0; step--) {
      if (active) multiply<Op>(active, left(later.data, N), hidden, by_h.data, HP, layer.cell == GRU);
      while (active < B && length[mine[active]] > step) active++;
      for (long i = 0; i < active; i++) {
        long rank = mine[i], at = row(rank, step, d), frame = at - begin[rank];
        const float* by_y = layer.by_output + (order[rank] * layer.frames + frame) * width + (layer.concatenated ? d * H : 0);
        const float* c_before = step ? saved[d].state + row(rank, step - 1, d) * HP : nullptr;
        float* h = by_h.data + i * HP;
        EACH for (long j = 0; j < H; j++) h[j] += by_y[j];
        cell_backward(saved[d], at, c_before, h, by_state.data + i * HP, row_sums.data);
        narrow_row<Op>(row_sums.data, by_sums + at * wide, wide, wide);
        std::memcpy(later.data + i * N, by_sums + at * wide, N * sizeof(Number));
        float* total = by_bias + rank * wide;
        EACH for (long j = 0; j < wide; j++) total[j] += row_sums.data[j];
      }
    }
  }

  // h: on entry, the gradient of the output; on return from a GRU, the part that reaches the previous output through z alone.
  void cell_backward(const Direction& keep, long at, const float* __restrict c_before, float* __restrict h, float* __restrict by_c, float* __restrict to) const {
    const float *__restrict a = keep.gates + at * N, *__restrict first = keep.state + at * HP, *__restrict second = keep.other + at * HP;
    const long P = HP;
    const float ceiling = float(layer.ceiling);
    switch (layer.cell) {
      case LSTM:
        EACH for (long j = 0; j < P; j++) {
          float i = a[j], f = a[P + j], g = a[2 * P + j], o = a[3 * P + j], bounded = second[j];
          float c = by_c[j] + h[j] * o * (1.0f - bounded * bounded), earlier = c_before ? c_before[j] : 0.0f;
          to[j] = c * g * i * (1.0f - i);
          to[P + j] = c * earlier * f * (1.0f - f);
          to[2 * P + j] = c * i * (1.0f - g * g);
          to[3 * P + j] = h[j] * bounded * o * (1.0f - o);
          by_c[j] = c * f;
        }
        return;
      case GRU:
        EACH for (long j = 0; j < P; j++) {
          float r = a[j], z = a[P + j], n = a[2 * P + j];
          float by_n = h[j] * (1.0f - z) * (1.0f - n * n);
          to[j] = by_n * r;
          to[P + j] = by_n * first[j] * r * (1.0f - r);
          to[2 * P + j] = h[j] * (second[j] - n) * z * (1.0f - z);
          to[3 * P + j] = by_n;
          h[j] *= z;
        }
        return;
      case PLAIN:
        EACH for (long j = 0; j < P; j++) to[j] = h[j] * (1.0f - a[j] * a[j]);
        return;
      default:
        EACH for (long j = 0; j < P; j++) to[j] = a[j] > 0.0f && a[j] < ceiling ? h[j] : a[j] != a[j] ? a[j] : 0.0f;
    }
  }
};
