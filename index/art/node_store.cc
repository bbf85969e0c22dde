#include "index/art/node_store.h"

#include <cstring>
#include <new>

#include "index/art/node.h"

namespace lodgekv::art {

namespace {

void Empty(Node4*) {}
void Empty(Node16* node) { std::memset(node->bytes, 0, sizeof(node->bytes)); }
void Empty(Node48* node) { node->present.Clear(); }
void Empty(Node256* node) { node->present.Clear(); }

// As a new one, but for the lock.
void Clear(Child at) {
  ByKind(at, [](auto* node) {
    node->SetInfo({});
    node->prefix.store(0, std::memory_order_relaxed);
    node->terminal.Set(Child());
    for (Slot& slot : node->children) slot.Set(Child());
    Empty(node);
  });
}

size_t BytesOf(Kind kind) {
  return ByKind(Child::OfNode(nullptr, kind), [](auto* node) { return sizeof(*node); });
}

}  // namespace

Child NodeStore::Reuse(Kind kind) {
  List& list = ListOf(kind);
  const std::lock_guard lock(list.mutex);
  if (list.free.empty()) return Child();
  const Child node = list.free.back();
  list.free.pop_back();
  return node;
}

Child NodeStore::Make(Kind kind) {
  const size_t bytes = BytesOf(kind);
  void* space = arena_.Allocate(bytes);
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return ByKind(Child::OfNode(nullptr, kind), [&](auto* none) {
    using Its = std::remove_pointer_t<decltype(none)>;
    return Child::OfNode(new (space) Its, kind);
  });
}

Child NodeStore::New(Kind kind) {
  ListOf(kind).count.fetch_add(1, std::memory_order_relaxed);
  const Child reused = Reuse(kind);
  if (reused.empty()) return Make(kind);
  Clear(reused);
  return reused;
}

void NodeStore::Free(Child node) {
  List& list = ListOf(node.kind());
  list.count.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(list.mutex);
  list.free.push_back(node);
}

uint64_t NodeStore::used_bytes() const {
  uint64_t bytes = 0;
  for (const Kind kind : {Kind::k4, Kind::k16, Kind::k48, Kind::k256}) {
    bytes += count(kind) * BytesOf(kind);
  }
  return bytes;
}

}  // namespace lodgekv::art
