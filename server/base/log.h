// The daemon's log: one line per event on stderr, as text or as one JSON object, with named fields.
// Users' keys and values are never logged, their sizes may be.
//
// INVARIANT  No thread waits for the reader of the log (log_writer.h), except in FlushLog, for a
//            second at most.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "server/base/log_line.h"

namespace lodgekv::server {

// The arguments are those of the configuration's log_format and log_level. Before the call: text at
// level info.
void SetUpLog(std::string_view format, std::string_view least_level);

// Whether a message of this level is written.
bool Logs(LogLevel level);

// Text from outside belongs into a field, not into the message.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

// Waits until everything logged so far is written, if the log has a reader. Call before the process
// ends.
void FlushLog();

// Lines that were dropped because nobody read the log.
uint64_t LogLinesDropped();

}  // namespace lodgekv::server
