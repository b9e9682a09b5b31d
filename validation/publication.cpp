#include "validation/publication.h"

#include <algorithm>

#include "validation/link_text.h"
#include "validation/measured_row.h"

namespace simrun {
namespace {

std::string with_single_blanks(const std::string& text) {
  std::string single;
  for (const char c : text)
    if (c != ' ' || (!single.empty() && single.back() != ' ')) single += c;
  return single;
}

// "2302.13971" behind the first "arxiv"; "" without.
std::string arxiv_number(const std::string& text) {
  const std::size_t named = text.find("arxiv");
  if (named == std::string::npos) return "";
  const std::size_t from = text.find_first_of("0123456789", named);
  if (from == std::string::npos || from - named > 10) return "";
  const std::size_t end = std::min(text.find_first_not_of("0123456789.", from), text.size());
  std::string number = text.substr(from, end - from);
  while (number.ends_with('.')) number.pop_back();
  return number.find('.') == 4 && number.size() >= 9 ? number : "";
}

}  // namespace

std::string publication_of(const std::string& source) {
  std::string text = with_single_blanks(lower_case(source));
  if (const std::string number = arxiv_number(text); !number.empty()) return "arxiv " + number;
  std::size_t end = std::min(text.find(';'), text.size());
  for (const char* part : {"table", "tab.", "figure", "fig.", "section", "sec.", "appendix", "page"}) {
    for (std::size_t at = text.find(part); at < end; at = text.find(part, at + 1)) {
      const std::size_t behind = text.find_first_not_of(' ', text.find_first_of(" .", at));
      if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '(') continue;
      if (behind != std::string::npos && (is_digit(text[behind]) || behind + 1 == text.size() ||
                                          text[behind + 1] == ' ' || text[behind + 1] == '.'))
        end = at;
    }
  }
  const std::size_t last = text.find_last_not_of(" ,;:(-", end == 0 ? 0 : end - 1);
  return last == std::string::npos || end == 0 ? text : text.substr(0, last + 1);
}

}  // namespace simrun
