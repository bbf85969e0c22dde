// The limits of the server, each with its default, its bounds and the reason for them. The table of
// configuration fields (config_table.cc) refers to these names, so a number stands here only.
#pragma once

#include <cstdint>

namespace lodgekv::server {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr uint64_t kTiB = uint64_t{1} << 40;

struct LimitRange {
  uint64_t default_value;
  uint64_t min_value;
  uint64_t max_value;
};

// Longer keys are rarely intended: they cost DRAM in every separator. The engines' own limit is
// 65,535.
inline constexpr LimitRange kMaxKeySize{4 * kKiB, 8, 65'535};

// A larger value delays the values after it on its connection. The engines' own limit is 16 MiB.
inline constexpr LimitRange kMaxValueSize{kMiB, 8, 16 * kMiB};

// Fits a gRPC client's default message limit. Bounded, since a whole batch is in memory twice.
inline constexpr LimitRange kMaxBatchSize{4 * kMiB, 4 * kKiB, 64 * kMiB};

// A batch holds locks while it is applied: a thousand operations take less than a millisecond in
// memory. No engine applies more than 1,024 in one step: that is the longest group of LodgeTree's
// logs.
inline constexpr LimitRange kMaxBatchOperations{1'024, 1, 1'024};

// Work accepted and not yet answered. Beyond it a refusal is better than a longer queue: at 100,000
// operations a second, 8,192 queued ones wait 80 ms.
inline constexpr LimitRange kMaxInflightOperations{8'192, 1, 1'048'576};

// Memory for keys and values of that work, and for answers that clients have not yet read.
inline constexpr LimitRange kMaxInflightSize{256 * kMiB, kMiB, 64 * kGiB};

// Percent of both that one connection, or all connections of one address, may use. The rest is for
// others. A client that loads large batches, 16 of 256 operations at a time, still fits into half.
inline constexpr LimitRange kConnectionShare{50, 1, 100};
inline constexpr LimitRange kPeerShare{75, 1, 100};

// What a scan holds in memory at a time. Above a thousand items the cost of a page is that of its
// items. A poller that sends a page serves nobody else meanwhile (docs/decisions/0045).
inline constexpr LimitRange kScanPageItems{1'000, 1, 100'000};
inline constexpr LimitRange kScanPageSize{64 * kKiB, 4 * kKiB, 16 * kMiB};

// Calls that a client may have open on one connection; further ones wait in the client (HTTP/2's
// own rule).
inline constexpr LimitRange kMaxStreamsPerConnection{128, 1, 1'048'576};

// Each takes a descriptor and some 30 KiB; clients keep one or a few. The second limit is for one
// address, which may be a proxy for many clients.
inline constexpr LimitRange kMaxConnections{4'096, 1, 1'048'576};
inline constexpr LimitRange kMaxConnectionsPerPeer{2'048, 1, 1'048'576};
// Connections that one address may open in a second, and in a burst: a TLS handshake costs a
// processor about a millisecond.
inline constexpr LimitRange kMaxConnectionRatePerPeer{100, 0, 100'000};
inline constexpr LimitRange kMaxConnectionBurstPerPeer{100, 1, 1'048'576};

// For the operator's port and the health port, each: connections, and streams on one connection.
// Enough for an operator's tools and for probes.
inline constexpr uint64_t kSmallPortConnections = 64;
inline constexpr uint64_t kAdminStreamsPerConnection = 16;
inline constexpr uint64_t kHealthStreamsPerConnection = 8;
// The largest message to these ports; it names an engine at most.
inline constexpr uint64_t kSmallPortMessageSize = 64 * kKiB;

// Requests that are not yet received completely, before any limit of requests sees them. For a
// connection: as many of the largest values as it may have streams by default, and a quarter more.
inline constexpr LimitRange kMaxUnfinishedSize{160 * kMiB, kMiB, 64 * kGiB};
inline constexpr LimitRange kMaxUnfinishedTotal{512 * kMiB, kMiB, 1 * kTiB};

// What a client may send of a stream before the server reads it, besides the message that is being
// received. gRPC would let this window grow with the rate at which bytes arrive, to tens of MiB of
// a session that is slower than its client.
inline constexpr uint64_t kStreamWindow = kMiB;

// Calls that a client may reset in a second. Each keeps some 18 KiB until gRPC has processed it.
inline constexpr LimitRange kMaxResetsPerSecond{200, 0, 1'000'000};

// Bytes a second of requests that are refused because of their content: what a faulty program may
// send by mistake, but not so much that a processor is busy with it.
inline constexpr LimitRange kMaxInvalidSizePerSecond{16 * kMiB, 0, 1 * kTiB};

// Connections of a peer that are closed for an offence before the peer is refused. Each may have
// cost some tens of MB for a moment; a broken client, and all clients of its address, should soon
// be served again.
inline constexpr LimitRange kMaxOffencesPerPeer{5, 0, 1'000};
inline constexpr LimitRange kOffenceForgivenAfterMs{10'000, 100, 60 * 60'000};

// Headers of a request, as gRPC counts them.
inline constexpr uint64_t kMaxMetadataSize = 8 * kKiB;

// Unary operations that share one call of the engine, and one sync if the pool is an ordinary file.
inline constexpr LimitRange kGroupOperations{64, 1, 1'024};

// Of a session, received and not yet answered. With the longest message on top it is half of what a
// connection may have in flight by default.
inline constexpr LimitRange kSessionOperations{1'024, 1, 65'536};

// 0: in proportion to the pool. Not below the minimum, where a segment holds a single group of
// useful size; above the maximum a start after a crash reads the journal for minutes.
inline constexpr uint64_t kLeastJournalSize = kMiB;
inline constexpr LimitRange kJournalSize{0, 0, 64 * kGiB};

// Slow compared to any disk, so that checkpoints hardly delay the syncs of the journal.
inline constexpr LimitRange kCheckpointRate{16 * kMiB, kMiB, 16 * kGiB};

// What protobuf adds to an operation of a batch: tags, lengths, condition, version and ttl; rounded
// up.
inline constexpr uint64_t kOperationOverheadBytes = 64;

// The last moment that a protobuf Timestamp can name: 9999-12-31T23:59:59.999Z.
inline constexpr uint64_t kLastUnixMs = 253'402'300'799'999;

// The limits that hold for requests, as configured.
struct Limits {
  uint64_t max_key_size = kMaxKeySize.default_value;
  uint64_t max_value_size = kMaxValueSize.default_value;
  uint64_t max_batch_size = kMaxBatchSize.default_value;
  uint64_t max_batch_operations = kMaxBatchOperations.default_value;
  uint64_t max_inflight_operations = kMaxInflightOperations.default_value;
  uint64_t max_inflight_size = kMaxInflightSize.default_value;
  uint64_t connection_share = kConnectionShare.default_value;
  uint64_t peer_share = kPeerShare.default_value;
  uint64_t scan_page_items = kScanPageItems.default_value;
  uint64_t scan_page_size = kScanPageSize.default_value;

  // gRPC's own limit for a message. It is above every limit here, so that a request that is too
  // large is refused by us with the name of the limit; a still larger one is refused before it is
  // in memory.
  uint64_t MaxMessageSize() const {
    return max_batch_size + max_key_size + max_value_size +
           max_batch_operations * kOperationOverheadBytes + 64 * kKiB;
  }
};

}  // namespace lodgekv::server
