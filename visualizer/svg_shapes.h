#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// Boxes with a name and wires between them, collected as SVG in the colours of plain_page.
class SvgShapes {
 public:
  struct Box {
    double x = 0, y = 0, width = 0, height = 24;  // x: of the middle; y: of the top
    double bottom() const { return y + height; }
  };

  void box(const Box& at, const std::string& text, const char* box_class = "box");
  // From the bottom of one to the top of another.
  void wire(const Box& from, const Box& to, double width = 1);
  void line(double x1, double y1, double x2, double y2, double width = 1);
  // Over what lies between two places at one height.
  void arc(double x1, double x2, double y, double rise);
  void text(double x, double y, const std::string& text, const char* anchor = "start");
  // An inline <svg>, wires behind boxes. `alternative` says what it shows to who does not see it.
  std::string drawn(double width, double height, const std::string& alternative) const;

 private:
  std::string wires_, boxes_;
};

// `count` boxes of a row between two places, at most `most` of them: the last one shown then stands for all
// that are left out, and is called "...".
struct SvgRow {
  std::vector<SvgShapes::Box> boxes;
  bool is_cut = false;
};
SvgRow svg_row(std::int64_t count, std::size_t most, double left, double right, double y);

}  // namespace simrun
