#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simrun {

// Axes of ranks, the fastest first, as the `order` of Megatron-LM's initialize_model_parallel: neighbours in
// the first are neighbouring GPUs. ep has no place of its own: expert ranks count along tp, cp and dp.
enum class RankAxis : std::uint8_t { tp, cp, dp, pp };

inline const std::string default_rank_order = "tp-cp-ep-dp-pp";

// "tp-cp-ep-pp-dp" -> tp, cp, pp, dp. Nothing unless tp, cp, dp and pp are named once each, and ep at most
// once.
std::optional<std::vector<RankAxis>> parse_rank_order(const std::string& text);

}  // namespace simrun
