#include "visualizer/peak_treemap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <regex>
#include <tuple>
#include <utility>

#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

// Tensors of one name and category, in all layers.
struct TensorKind {
  Category category = Category::activations;
  std::string name;
  std::vector<AliveTensors> layers;
  std::int64_t instances = 0, bytes = 0;
};

// "stage 3 up bucket 0 exp_avg" -> "exp_avg": the same kind of tensor in every bucket.
std::string kind_name(const std::string& buffer) {
  static const std::regex place("^stage [0-9]+( up)? (bucket [0-9]+ )?");
  return std::regex_replace(buffer, place, "");
}

// By category, the fullest first; in it the largest kinds first.
std::vector<std::vector<TensorKind>> kinds_of(const std::vector<AliveTensors>& alive) {
  std::map<Category, std::map<std::string, TensorKind>> named;
  for (const AliveTensors& of : alive) {
    const std::string name = kind_name(of.name);
    TensorKind& kind = named[of.category][name];
    kind.category = of.category;
    kind.name = name;
    kind.layers.push_back(of);
    kind.instances += of.instances;
    kind.bytes += of.bytes;
  }
  const auto larger = [](const TensorKind& a, const TensorKind& b) { return a.bytes > b.bytes; };
  std::vector<std::vector<TensorKind>> categories;
  for (auto& [category, kinds] : named) {
    std::vector<TensorKind>& list = categories.emplace_back();
    for (auto& [name, kind] : kinds) list.push_back(std::move(kind));
    std::stable_sort(list.begin(), list.end(), larger);
    for (TensorKind& kind : list)
      std::stable_sort(kind.layers.begin(), kind.layers.end(),
                       [](const AliveTensors& a, const AliveTensors& b) { return a.layer < b.layer; });
  }
  const auto bytes = [](const std::vector<TensorKind>& kinds) {
    return std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0},
                           [](std::int64_t sum, const TensorKind& kind) { return sum + kind.bytes; });
  };
  std::stable_sort(categories.begin(), categories.end(),
                   [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); });
  return categories;
}

// "layers 0-19", "layer 3", "" outside the layers.
std::string layers_of(const TensorKind& kind) {
  const auto in_layer = std::find_if(kind.layers.begin(), kind.layers.end(),
                                     [](const AliveTensors& of) { return of.layer >= 0; });
  if (in_layer == kind.layers.end()) return "";
  const std::string rest = in_layer == kind.layers.begin() ? "" : " and outside";
  const std::int32_t from = in_layer->layer, last = kind.layers.back().layer;
  return (from == last ? fmt::format("layer {}", last) : fmt::format("layers {}-{}", from, last)) + rest;
}

// By Category; as visualizer/src/colours.ts has them.
struct CategoryColour {
  const char* fill;
  const char* ink;
};
constexpr CategoryColour colours[category_count] = {{"#0072b2", "#ffffff"}, {"#56b4e9", "#000000"},
                                                    {"#009e73", "#000000"}, {"#e69f00", "#000000"},
                                                    {"#cc79a7", "#000000"}, {"#999999", "#000000"}};

constexpr double map_width = 640, map_height = 300;  // CSS pixels
constexpr double narrowest_name = 46, lowest_name = 14;
constexpr double character_width = 6.2;  // about, of the map's text
constexpr double smallest_strip = 2.5;

// Lines between the layers, along the longer side.
std::string strips(const TensorKind& kind, const TreemapCell& cell) {
  const bool across = cell.width >= cell.height;
  const double side = across ? cell.width : cell.height;
  if (side / static_cast<double>(kind.layers.size()) < smallest_strip) return "";
  std::string path;
  double at = 0;
  for (std::size_t i = 0; i + 1 < kind.layers.size(); ++i) {
    at += side * static_cast<double>(kind.layers[i].bytes) / static_cast<double>(kind.bytes);
    path += across ? fmt::format("M{:.1f} {:.1f}v{:.1f}", cell.x + at, cell.y, cell.height)
                   : fmt::format("M{:.1f} {:.1f}h{:.1f}", cell.x, cell.y + at, cell.width);
  }
  return path.empty() ? "" : fmt::format("<path class=\"strip\" d=\"{}\"/>\n", path);
}

std::string drawn_kind(const TensorKind& kind, const TreemapCell& cell) {
  const CategoryColour& colour = colours[static_cast<std::size_t>(kind.category)];
  const std::string layers = layers_of(kind);
  std::string svg = fmt::format(
      "<g><title>{} ({}): {}, {} alive{}{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\" fill=\"{}\"/>\n",
      html_escaped(kind.name), to_string(kind.category), memory_text(kind.bytes), kind.instances,
      layers.empty() ? "" : ", ", layers, cell.x, cell.y, cell.width, cell.height, colour.fill);
  svg += strips(kind, cell);
  if (cell.width < narrowest_name || cell.height < lowest_name) return svg + "</g>\n";
  const auto room = static_cast<std::size_t>((cell.width - 6) / character_width);
  const std::string name =
      kind.name.size() <= room ? kind.name : kind.name.substr(0, room - 1) + "\xe2\x80\xa6";
  const auto text = [&](double y, const std::string& words) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" style=\"fill:{}\">{}</text>\n", cell.x + 3,
                       cell.y + y, colour.ink, html_escaped(words));
  };
  svg += text(8, name);
  const std::string size = memory_text(kind.bytes);
  if (cell.height >= 2 * lowest_name && size.size() <= room) svg += text(21, size);
  return svg + "</g>\n";
}

constexpr std::size_t listed_kinds = 15;

std::string kind_table(const std::vector<std::vector<TensorKind>>& categories, std::int64_t bytes) {
  std::vector<TensorKind> kinds;
  for (const auto& category : categories) kinds.insert(kinds.end(), category.begin(), category.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const TensorKind& a, const TensorKind& b) { return a.bytes > b.bytes; });
  const std::size_t count = std::min(kinds.size(), listed_kinds);
  const MemoryUnit unit = memory_unit(kinds.front().bytes);
  std::string rows;
  for (std::size_t i = 0; i < count; ++i) {
    const TensorKind& kind = kinds[i];
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        html_escaped(kind.name), to_string(kind.category), html_escaped(layers_of(kind)), kind.instances,
        in_unit(kind.bytes, unit),
        percent_text(static_cast<double>(kind.bytes) / static_cast<double>(bytes)));
  }
  return fmt::format(
      "<table><caption>The largest of {} kinds of tensors alive at the peak</caption><thead><tr><th "
      "scope=\"col\">tensor</th><th scope=\"col\">category</th><th scope=\"col\" title=\"of the instructions "
      "that write them first\">in</th><th scope=\"col\" title=\"instances alive, of all layers and "
      "microbatches\">alive</th><th scope=\"col\">{}</th><th scope=\"col\">of "
      "peak</th></tr></thead><tbody>\n{}"
      "</tbody></table>\n",
      kinds.size(), unit.name, rows);
}

// The worst ratio of sides in a row of weights [first, last) along a side of this length.
double worst_ratio(const std::vector<double>& areas, std::size_t first, std::size_t last, double side) {
  const double sum = std::accumulate(areas.begin() + static_cast<std::ptrdiff_t>(first),
                                     areas.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
  const double most = areas[first], least = areas[last - 1], square = side * side;
  return std::max(square * most / (sum * sum), sum * sum / (square * least));
}

}  // namespace

std::vector<TreemapCell> squarified(const std::vector<double>& weights, const TreemapCell& whole) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> areas;
  areas.reserve(weights.size());
  for (const double weight : weights) areas.push_back(weight / sum * whole.width * whole.height);
  std::vector<TreemapCell> cells;
  TreemapCell rest = whole;
  for (std::size_t first = 0; first < areas.size();) {
    const bool upright = rest.width >= rest.height;  // the row stands at the left of what is free
    const double side = upright ? rest.height : rest.width;
    std::size_t last = first + 1;
    while (last < areas.size() &&
           worst_ratio(areas, first, last + 1, side) <= worst_ratio(areas, first, last, side))
      ++last;
    double row = 0;
    for (std::size_t i = first; i < last; ++i) row += areas[i];
    const double depth = row / side;
    double at = 0;
    for (; first < last; ++first) {
      const double length = areas[first] / depth;
      cells.push_back(upright ? TreemapCell{rest.x, rest.y + at, depth, length}
                              : TreemapCell{rest.x + at, rest.y, length, depth});
      at += length;
    }
    if (upright) {
      rest.x += depth;
      rest.width -= depth;
    } else {
      rest.y += depth;
      rest.height -= depth;
    }
  }
  return cells;
}

std::string peak_treemap(const std::vector<AliveTensors>& alive, const std::string& where) {
  if (alive.empty()) return "";
  const std::vector<std::vector<TensorKind>> categories = kinds_of(alive);
  std::vector<double> weights;
  std::int64_t bytes = 0;
  for (const auto& kinds : categories) {
    std::int64_t of = 0;
    for (const TensorKind& kind : kinds) of += kind.bytes;
    weights.push_back(static_cast<double>(of));
    bytes += of;
  }
  const std::vector<TreemapCell> areas = squarified(weights, {0, 0, map_width, map_height});
  std::string map, legend;
  for (std::size_t c = 0; c < categories.size(); ++c) {
    std::vector<double> inner;
    for (const TensorKind& kind : categories[c]) inner.push_back(static_cast<double>(kind.bytes));
    const std::vector<TreemapCell> cells = squarified(inner, areas[c]);
    for (std::size_t k = 0; k < cells.size(); ++k) map += drawn_kind(categories[c][k], cells[k]);
    const Category category = categories[c].front().category;
    legend += fmt::format("<span><i style=\"background:{}\"></i> {}</span>\n",
                          colours[static_cast<std::size_t>(category)].fill, to_string(category));
  }
  return fmt::format(
             "<figure><figcaption>What is alive at the peak of {0}: {1}, by tensor, a strip per layer or "
             "bucket"
             "</figcaption><svg class=\"treemap\" role=\"img\" aria-label=\"Areas as bytes, of what the "
             "table "
             "beside it lists.\" width=\"{2:.0f}\" height=\"{3:.0f}\" "
             "viewBox=\"0 0 {2:.0f} {3:.0f}\">\n{4}</svg>\n<div "
             "class=\"legend\">{5}</div>"
             "</figure>\n",
             html_escaped(where), memory_text(bytes), map_width, map_height, map, legend) +
         kind_table(categories, bytes);
}

}  // namespace simrun
