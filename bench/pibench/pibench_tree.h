// An engine behind PiBench's tree_api.
//
// KEYS    are the bytes that PiBench gives, compared as memcmp does: the order of scan. PiBench
//         writes its numbers big-endian, so this is the order of the numbers, too.
// SIZES   Every key and value has the size that was given at creation; another one is an error,
//         also in a pool that held data before, for PiBench's buffers are cut to these sizes.
// ERRORS  What is neither success nor one of the answers of tree_api (a full pool, a wrong size,
//         damaged data) throws std::runtime_error. PiBench catches nothing: the run ends with the
//         message instead of figures that count refusals.
// THREADS All methods but the destructor may be called by any number of threads up to 256.
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
  // Creates the pool where there is none; a pool of this engine is opened and keeps what it holds.
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
  // values_out stays valid until this thread's next scan, of whatever tree.
  int scan(const char* key, size_t key_size, int scan_size, char*& values_out) override;

  // What was opened, for people, in one line.
  std::string Description() const;

 private:
  PibenchTree(std::unique_ptr<Store> store, const tree_options_t& options);

  // True when the condition held.
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
