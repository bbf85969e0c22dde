// The daemon's allocator is jemalloc (docs/decisions/0019), linked in by the build; these are its
// settings. Values of a megabyte come and go in bursts: a background thread of jemalloc returns
// free memory to the system after a second, so that no request waits for it. The environment's
// MALLOC_CONF is read after this, and overrides it.

// The name that jemalloc reads, in no namespace and not in our style.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
