#include "backend/gemm_shape.h"

#include <catch2/catch.hpp>

// Products by the names of dimensions as products of matrices, checked with a pencil.
namespace simrun {
namespace {

// Tensors over names a, b, c...: "b2 s3 h4" has extents 2, 3, 4.
class Tensors {
 public:
  Argument operator()(const std::string& dims) {
    Buffer& buffer = buffers_[count_++];
    Argument argument{&buffer, {}, nullptr};
    for (std::size_t i = 0; i < dims.size(); i += 3) {
      const std::int64_t extent = dims[i + 1] - '0';
      buffer.dims.push_back({static_cast<std::uint16_t>(dims[i]), -1, extent});
      argument.part.push_back({0, extent, extent});
    }
    return argument;
  }

 private:
  Buffer buffers_[8];
  std::size_t count_ = 0;
};

}  // namespace

TEST_CASE("a product of rows [b, s, h] and a matrix [h, f] is one matrix product of 6 x 4 and 4 x 5") {
  Tensors tensor;
  const MatrixProduct shape = gemm_shape(tensor("b2 s3 h4"), tensor("h4 f5"), tensor("b2 s3 f5"));
  CHECK((shape.batch == 1 && shape.m == 6 && shape.k == 4 && shape.n == 5));
  CHECK((!shape.swapped && !shape.a.transposed && !shape.b.transposed));
  CHECK((shape.a.as_stored && shape.b.as_stored && shape.d_as_stored));
}

TEST_CASE("a weight's gradient sums over rows: A is transposed; a tied output matrix makes B transposed") {
  Tensors tensor;
  const MatrixProduct gradient = gemm_shape(tensor("b2 s3 h4"), tensor("b2 s3 f5"), tensor("h4 f5"));
  CHECK((gradient.m == 4 && gradient.k == 6 && gradient.n == 5 && gradient.a.transposed &&
         !gradient.b.transposed));
  const MatrixProduct tied = gemm_shape(tensor("b2 s3 h4"), tensor("v6 h4"), tensor("b2 s3 v6"));
  CHECK((tied.m == 6 && tied.k == 4 && tied.n == 6 && !tied.a.transposed && tied.b.transposed));
}

TEST_CASE("an output [n, m] is the product the other way round") {
  Tensors tensor;
  const MatrixProduct shape = gemm_shape(tensor("b2 s3 h4"), tensor("b2 s3 f5"), tensor("f5 h4"));
  CHECK((shape.swapped && shape.m == 5 && shape.n == 4 && shape.d_as_stored));
}

TEST_CASE("a group that lies in pieces is copied: experts between rows and columns") {
  Tensors tensor;
  const MatrixProduct shape = gemm_shape(tensor("r3 e2 h4"), tensor("h4 e2 f5"), tensor("e2 r3 f5"));
  CHECK((shape.batch == 2 && shape.m == 3 && shape.k == 4 && shape.n == 5));
  CHECK((!shape.a.as_stored && !shape.b.as_stored && shape.d_as_stored));
  // [e, r, h] of a tensor [r, e, h]: strides 4, 8 and 1.
  CHECK(shape.a.order.strides == std::vector<std::int64_t>{4, 8, 1});
}

TEST_CASE("of a sum over several ranks the one that has its first summand adds the bias") {
  Tensors tensor;
  Argument a = tensor("s3 h4"), b = tensor("h4 f5");
  CHECK(gemm_shape(a, b, tensor("s3 f5")).begins_sum);
  a.part[1] = b.part[0] = {4, 4, 8};
  CHECK(!gemm_shape(a, b, tensor("s3 f5")).begins_sum);
}

}  // namespace simrun
