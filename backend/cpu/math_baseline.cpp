// With Eigen as Eigen_baseline and SIMRUN_MATH as baseline (cmake/backend.cmake).
#include "backend/cpu/math_variant.h"
