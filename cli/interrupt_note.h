#pragma once

namespace simrun {

// While it lives, Ctrl-C is noted instead of ending the program.
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

}  // namespace simrun
