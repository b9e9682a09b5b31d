#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backend/operations.h"
#include "backend/tensor_part.h"
#include "schedules/plan.h"

namespace simrun {

// The parameters in a plan's flat buckets, and what of them the flat buffers of an optimizer hold.
class BucketViews {
 public:
  explicit BucketViews(const Plan& plan);

  // The bucket of which a flat buffer is a shard or a part of one, wherever its memory, or itself.
  Index bucket_of(Index flat) const;
  // The buffer of run scope that holds what a flat one does for a while (state that is fetched from drives).
  Index kept_of(Index flat) const;
  // Views of parameters in a bucket, by offset.
  const std::vector<Index>& views(Index bucket) const;

  // What a flat buffer holds on a rank of one view's elements: `view_first`, `flat_first`: where the common
  // elements begin in the view and in the buffer.
  struct Overlap {
    Index view = no_index;
    std::int64_t view_first = 0, flat_first = 0, count = 0;
  };
  std::vector<Overlap> overlaps(Index flat, const RankPlace& place) const;

  // For sum_squares over a rank's gradients: elements that several ranks have, in several pipeline ranks or
  // along axes that divide neither the parameter nor the buffer, count by their share.
  std::vector<CountedRange> counted(Index flat, const RankPlace& place) const;

 private:
  // A flat buffer and those that it is a part of, up to the bucket.
  std::vector<Index> chain(Index flat) const;
  bool is_in_bucket(Index flat) const;
  void find_copies();
  std::int64_t holders(Index flat, Index view, const StageDevices& stage) const;
  bool is_counted_on(Index flat, std::int32_t pipeline_rank) const;
  void count_holders();

  const Plan& plan_;
  std::map<Index, std::vector<Index>> views_;   // by bucket
  std::map<Index, std::vector<Index>> copies_;  // of a flat buffer, in another memory
  std::map<Index, std::int64_t> holders_of_;    // by parameter: ranks that give its elements to an optimizer
};

}  // namespace simrun
