#include "server/version.h"

namespace lodgekv::server {

const char* const kVersion = LODGEKV_VERSION;

}  // namespace lodgekv::server
