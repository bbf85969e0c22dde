// For functions of our own that the dynamic linker finds in the stead of a library's.
#pragma once

#include <dlfcn.h>

namespace lodgekv::server {

// The library's function of that mangled name, behind ours. Of a member or a destructor `Function`
// takes `this` first: it is passed as a first argument is.
template <typename Function>
Function OfLibrary(const char* mangled) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, mangled));
}

}  // namespace lodgekv::server
