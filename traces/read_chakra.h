#pragma once

#include "traces/byte_source.h"
#include "traces/recorded_trace.h"

namespace simrun {

// One rank's Chakra execution trace (traces/chakra.proto). Nodes of type COMP, COMM and MEM with a duration
// are what the device did; those of the host (attribute is_cpu_op) and those without a duration are counted
// and left out. A collective's type, bytes and group are its attributes comm_type, comm_size (bytes) and
// pg_name. Nodes are on the stream of their attribute `stream`, or on one each for compute and communication.
// Times are whole microseconds. Throws ConfigError where a message is not Chakra's, with its byte offset; a
// file that ends in a message gives what stands before, and a note.
RecordedTrace read_chakra_trace(ByteSource& bytes);

}  // namespace simrun
