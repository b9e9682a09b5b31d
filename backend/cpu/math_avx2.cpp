// With -mavx2 -mfma, Eigen as Eigen_avx2 and SIMRUN_MATH as avx2 (cmake/backend.cmake).
#include "backend/cpu/math_variant.h"
