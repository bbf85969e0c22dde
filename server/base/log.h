// The daemon's log: one line per event on stderr, for people (text) or for machines (one JSON
// object), with named fields. Keys and values of users never enter it, their sizes may.
//
// INVARIANT  Nobody waits for whoever reads the log (log_writer.h), but for FlushLog, which does so
//            for a second at most.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "server/base/log_line.h"

namespace lodgekv::server {

// Names as in the configuration: log_format, log_level. Until then text at level info.
void SetUpLog(std::string_view format, std::string_view least_level);

// Whether a message of this level is written.
bool Logs(LogLevel level);

// What came from outside belongs into a field, not into the message.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

// Everything logged so far is written out, if somebody reads it. Call before the process ends.
void FlushLog();

// Lines that were dropped because nobody read the log.
uint64_t LogLinesDropped();

}  // namespace lodgekv::server
