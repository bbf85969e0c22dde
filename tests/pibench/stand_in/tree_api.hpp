// What the wrappers of bench/pibench need of PiBench's header of this name, in our own words: with
// it they are built and tested where PiBench is not. The real header takes its place without a change
// of theirs (PIBENCH_INCLUDE_DIR); it may have more methods, so a wrapper that was built with this
// one is for the test alone.
#pragma once

#include <cstddef>
#include <string>

struct tree_options_t {
  size_t key_size = 8;
  size_t value_size = 8;
  std::string pool_path;
  size_t pool_size = 0;
  size_t num_threads = 1;
};

class tree_api {
 public:
  virtual ~tree_api() = default;

  // Is the key there? Then its value is copied to value_out.
  virtual bool find(const char* key, size_t key_size, char* value_out) = 0;
  // False, and nothing changed, where the key is there already.
  virtual bool insert(const char* key, size_t key_size, const char* value, size_t value_size) = 0;
  // False, and nothing changed, where the key is not there.
  virtual bool update(const char* key, size_t key_size, const char* value, size_t value_size) = 0;
  // False where the key is not there.
  virtual bool remove(const char* key, size_t key_size) = 0;
  // Up to scan_size pairs from `key` on, ascending. values_out points to them, key and value by turns
  // without a gap, in memory that no other thread changes. Returns their number.
  virtual int scan(const char* key, size_t key_size, int scan_size, char*& values_out) = 0;
};

// What a wrapper library exports. Null: no tree could be created.
extern "C" tree_api* create_tree(const tree_options_t& options);
