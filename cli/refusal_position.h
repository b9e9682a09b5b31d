#pragma once

#include <string>

#include "cli/read_input.h"
#include "configs/diagnostics.h"

namespace simrun {

// Where to point for a refusal of the backend, which names a config key behind a colon ("...:
// model.vocab_size: 256 or more"): at the key, or the section around it, as far as the job has written it;
// else at the file.
SourcePosition refusal_position(const Input& input, const std::string& refusal);

// Of a key ("training.lora"), or of the innermost section around it that the job has written; else the file.
SourcePosition key_position(const LoadedJob& job, const std::string& file, const std::string& key);

}  // namespace simrun
