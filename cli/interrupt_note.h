#pragma once

namespace simrun {

// While it lives, Ctrl-C is noted instead of ending the program; a second one ends it.
class InterruptNote {
 public:
  InterruptNote();
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;
  // Ctrl-C came while it lived.
  bool was_interrupted() const;

 private:
  void (*before_)(int);
};

// Of a search: 0, 3 where nothing fits, and what shells have for Ctrl-C where that came before anything was
// found.
inline int plan_exit_code(bool found, bool was_stopped) { return found ? 0 : was_stopped ? 130 : 3; }

}  // namespace simrun
