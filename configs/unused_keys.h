#pragma once

#include <string>
#include <vector>

#include "configs/section_reader.h"

// Keys that mean nothing beside the value of another key of their section.
namespace simrun {

struct UnusedKeys {
  std::vector<std::string> keys;
  std::string choice;      // the key that decides: "topology"
  std::string value;       // what it is: "nvswitch"
  std::string belongs_to;  // the values under which the keys mean something: "nvlink_mesh"
};

// Refuses each of the keys at its place, but not where the choice was made over it: a preset's keys are left
// behind by a job that chooses otherwise, and a job's by --set.
void refuse_unused(const UnusedKeys& unused, SectionReader& section, Reading& reading);

// Whether `node` was written where, or after, `choice` was (a preset, then the job's file, then --set); a
// choice by default is the job's. Null nodes are not written.
bool is_written_with(const ConfigNode* node, const ConfigNode* choice, const Reading& reading);

}  // namespace simrun
