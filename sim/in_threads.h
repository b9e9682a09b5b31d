#pragma once

#include <cstddef>
#include <functional>

namespace simrun {

// Calls `work` once with every number below `numbers`; each of at most so many threads, of which the calling
// one is the first, takes the next as long as there are any. Under AddressSanitizer by the calling thread
// alone. Throws what the call with the least number threw, after all others.
void in_threads(unsigned threads, std::size_t numbers,
                const std::function<void(unsigned thread, std::size_t number)>& work);

// One per processor.
unsigned thread_per_processor();

}  // namespace simrun
