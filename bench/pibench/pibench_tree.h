// An engine behind PiBench's tree_api.
//
// KEYS    are PiBench's bytes, compared with memcmp: the order of scan. PiBench writes its numbers
//         big-endian, so this is also the order of the numbers.
// SIZES   Every key and value has the size given at creation; another one is an error, also in an
//         existing pool, since PiBench's buffers have these sizes.
// ERRORS  Anything but success or an answer of tree_api (a full pool, a wrong size, damaged data)
//         throws std::runtime_error. PiBench catches nothing: the run ends with the message instead
//         of figures that count refusals.
// THREADS All methods except the destructor may be called by up to 256 threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tree_api.hpp>

#include "absl/status/statusor.h"
#include "index/store.h"

namespace lodgekv::pibench {

class PibenchTree final : public tree_api {
 public:
  // Creates the pool if there is none; an existing pool of this engine is opened with its content.
  static absl::StatusOr<std::unique_ptr<PibenchTree>> Create(std::string_view engine,
                                                             const tree_options_t& options);
  // Closes the pool; an error goes to stderr.
  ~PibenchTree() override;
  PibenchTree(const PibenchTree&) = delete;
  PibenchTree& operator=(const PibenchTree&) = delete;

  bool find(const char* key, size_t key_size, char* value_out) override;
  bool insert(const char* key, size_t key_size, const char* value, size_t value_size) override;
  bool update(const char* key, size_t key_size, const char* value, size_t value_size) override;
  bool remove(const char* key, size_t key_size) override;
  // values_out stays valid until this thread's next scan, of any tree.
  int scan(const char* key, size_t key_size, int scan_size, char*& values_out) override;

  // One line that describes the opened tree.
  std::string Description() const;

 private:
  PibenchTree(std::unique_ptr<Store> store, const tree_options_t& options);

  // Returns true if the condition held.
  bool Put(const char* call, Condition condition, std::string_view key, std::string_view value);
  void CheckKey(const char* call, size_t key_size) const;
  void CheckValue(const char* call, size_t value_size) const;
  [[noreturn]] void Fail(const char* call, Outcome outcome) const;
  [[noreturn]] void Fail(const char* call, const std::string& what) const;

  const std::unique_ptr<Store> store_;
  Engine& engine_;
  const size_t key_size_;
  const size_t value_size_;
};

}  // namespace lodgekv::pibench
