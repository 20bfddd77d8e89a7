// The functions that operations.py calls. They throw no exceptions, return no memory and keep no state.
#include "recurrence.h"
#include "sequence.h"

template <class Work>
static int guarded(const Work& work) {  // returns 0 on success, or 1 if memory runs out
  try {
    work();
    return 0;
  } catch (...) {
    return 1;
  }
}

extern "C" {
long recurrence_floats(const Layer* layer, int bfloat16) {
  return bfloat16 ? Recurrence<BFloat16>(*layer).floats : Recurrence<Float32>(*layer).floats;
}
int recurrence_forward(const Layer* layer, int bfloat16) {
  return guarded([&] { bfloat16 ? Recurrence<BFloat16>(*layer).forward() : Recurrence<Float32>(*layer).forward(); });
}
int recurrence_backward(const Layer* layer, int bfloat16) {
  return guarded([&] { bfloat16 ? Recurrence<BFloat16>(*layer).backward() : Recurrence<Float32>(*layer).backward(); });
}
int norm_forward(Norm* norm) { return guarded([&] { norm->forward(); }); }
int norm_backward(Norm* norm) { return guarded([&] { norm->backward(); }); }
int ctc(Paths* paths) { return guarded([&] { paths->run(); }); }
int drop(int64_t count, uint32_t lowest, uint64_t seed, float factor, const float* x, float* y) {
  return guarded([&] { dropout(count, lowest, seed, factor, x, y); });
}
}
