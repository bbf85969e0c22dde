// The daemon's allocator is jemalloc (docs/decisions/0019), linked in by the build; this is how it
// is set. Values of a megabyte come and go in bursts: what a burst leaves goes back to the system a
// second later, by a thread of jemalloc's own, so that no request waits for it. The environment's
// MALLOC_CONF is read after this, and wins.

// By jemalloc's own name for it, which knows no namespaces and no style.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
