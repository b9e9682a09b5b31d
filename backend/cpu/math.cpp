#include "backend/cpu/math.h"

namespace simrun::cpu {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

template <>
const Math<float>& math<float>() {
  static const Math<float>& best = has_avx2() ? avx2::math_f32 : baseline::math_f32;
  return best;
}
template <>
const Math<double>& math<double>() {
  static const Math<double>& best = has_avx2() ? avx2::math_f64 : baseline::math_f64;
  return best;
}

}  // namespace simrun::cpu
