#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// Reverse-mode differentiation of scalars, one node per addition or product: slow, obvious, and without a
// line in common with the kernels that it judges.
namespace simrun {

class ScalarTape {
 public:
  struct Number {
    std::size_t node = 0;
  };

  Number constant(double value) { return add(value, {}, {}); }
  double value(Number x) const { return nodes_[x.node].value; }

  Number plus(Number a, Number b) { return add(value(a) + value(b), {a, 1}, {b, 1}); }
  Number minus(Number a, Number b) { return add(value(a) - value(b), {a, 1}, {b, -1}); }
  Number times(Number a, Number b) { return add(value(a) * value(b), {a, value(b)}, {b, value(a)}); }
  Number scaled(Number a, double factor) { return add(value(a) * factor, {a, factor}, {}); }
  Number shifted(Number a, double summand) { return add(value(a) + summand, {a, 1}, {}); }
  Number exp(Number a) {
    const double e = std::exp(value(a));
    return add(e, {a, e}, {});
  }
  Number log(Number a) { return add(std::log(value(a)), {a, 1 / value(a)}, {}); }
  Number tanh(Number a) {
    const double t = std::tanh(value(a));
    return add(t, {a, 1 - t * t}, {});
  }
  Number power(Number a, double exponent) {
    return add(std::pow(value(a), exponent), {a, exponent * std::pow(value(a), exponent - 1)}, {});
  }

  // d(of) / d(node) of every node.
  std::vector<double> gradients(Number of) const {
    std::vector<double> gradient(nodes_.size(), 0);
    gradient[of.node] = 1;
    for (std::size_t n = nodes_.size(); n-- > 0;)
      for (const Edge& edge : nodes_[n].edges)
        if (edge.slope != 0) gradient[edge.from.node] += gradient[n] * edge.slope;
    return gradient;
  }

 private:
  struct Edge {
    Number from;
    double slope = 0;
  };
  struct Node {
    double value = 0;
    Edge edges[2];
  };

  Number add(double value, Edge a, Edge b) {
    nodes_.push_back({value, {a, b}});
    return {nodes_.size() - 1};
  }
  std::vector<Node> nodes_;
};

}  // namespace simrun
