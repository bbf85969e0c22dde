// Every field of the configuration, in the order of config/lodgekv.yaml.
#include <array>

#include "server/config/config.h"

namespace lodgekv::server {
namespace {

constexpr uint64_t kSecond = 1'000;
constexpr uint64_t kMinute = 60 * kSecond;

constexpr ConfigField Text(std::string_view name, std::string_view default_text,
                           std::string Config::*member, std::string_view doc) {
  return {name, FieldKind::kText, default_text, {}, "", doc, member};
}

constexpr ConfigField Choice(std::string_view name, std::string_view choices,
                             std::string_view default_text, std::string Config::*member,
                             std::string_view doc) {
  return {name, FieldKind::kChoice, default_text, {}, choices, doc, member};
}

constexpr ConfigField Switch(std::string_view name, bool Config::*member, std::string_view doc) {
  return {name, FieldKind::kSwitch, "false", {}, "", doc, member};
}

constexpr ConfigField Number(FieldKind kind, std::string_view name, LimitRange range,
                             uint64_t Config::*member, std::string_view doc) {
  return {name, kind, "", range, "", doc, member};
}

// May change while requests are served: nothing was sized by it at the start, and each use reads
// the current value.
constexpr ConfigField Reloadable(ConfigField field) {
  field.reloadable = true;
  return field;
}

constexpr std::array kStorage{
    Text("pool", "", &Config::pool,
         "The pool: a file, a poolset file or a device (/dev/dax0.0); created if it does not\n"
         "exist. Required, except for the volatile engines (dram, null), which take none."),
    Number(FieldKind::kSize, "pool_size", {0, 0, 16 * kTiB}, &Config::pool_size,
           "Size of a new pool. 0: 1GiB for a file, all of a device or poolset, whose size\n"
           "cannot be chosen. An existing pool keeps its size; a different value here is a\n"
           "warning."),
    Switch("pool_must_exist", &Config::pool_must_exist,
           "Refuse to start if the pool is missing or an empty file, instead of creating it: for\n"
           "a server that already holds data, whose pool can only be missing by mistake."),
    Text("pool_identity_file", "", &Config::pool_identity_file,
         "File that records the id of the pool: the first start writes it, later starts refuse\n"
         "any other pool, or a missing one. Remove the file to use another pool. Keep it apart\n"
         "from the pool, so that they are not lost together. Empty: none."),
    Text("engine", "lodgetree", &Config::engine,
         "The index that stores the data; lodgekvd --help lists those of this build. A pool\n"
         "can be opened only by the engine that created it."),
    ConfigField{
        "engine_options",
        FieldKind::kOptions,
        "",
        {},
        "",
        "Options of the engine by name (lodgectl engines lists them), as a map. In the\n"
        "environment: name=value,name=value. As a flag: --engine-option name=value, repeated.",
        &Config::engine_options},
    Choice("key_format", "bytes|fixed64", "bytes", &Config::key_format,
           "Format of keys and values in a new pool. bytes: byte strings, with versions and TTL.\n"
           "fixed64: both of exactly 8 bytes, without versions and TTL."),
    Switch("inline_pairs", &Config::inline_pairs,
           "Store short pairs inside the nodes of a new pool of format bytes: faster, but the\n"
           "whole pool then has no versions (no if-version) and no TTL."),
    Choice("durability", "medium|process", "medium", &Config::durability,
           "What an acknowledged write survives. medium: a power cut, if the medium does.\n"
           "process: a killed process, not a power cut; nothing is synced."),
    Switch("allow_volatile_medium", &Config::allow_volatile_medium,
           "Accept a pool on volatile memory (tmpfs, or a devdax device of ordinary memory),\n"
           "which loses everything when the machine restarts."),
    Text("journal_path", "", &Config::journal_path,
         "Path of the journal, which only a pool on an ordinary file has; it may be on another\n"
         "disk. Empty: the pool's path with .journal appended. Pool and journal belong\n"
         "together: copy, move and restore both."),
    Number(FieldKind::kSize, "journal_size", kJournalSize, &Config::journal_size,
           "Size of the journal, allocated in full. 0: an eighth of the pool, from 1MiB to\n"
           "128MiB; otherwise at least 1MiB. A larger journal absorbs longer bursts of writes\n"
           "before they wait for a checkpoint; a start after a crash reads all of it. May change\n"
           "between starts."),
    Number(FieldKind::kSize, "checkpoint_rate", kCheckpointRate, &Config::checkpoint_rate,
           "Minimum rate, in bytes a second, at which a checkpoint of the journal writes back\n"
           "pages of the pool; the rate rises as the journal fills. Lower it to spare a disk\n"
           "that also takes the journal's syncs."),
    Number(FieldKind::kCount, "recovery_threads", {0, 0, 1'024}, &Config::recovery_threads,
           "Threads that recover the pool at start and drain its buffers at a clean shutdown. 0:\n"
           "one per core."),
};

constexpr std::array kNetwork{
    Text("listen", "127.0.0.1:7411", &Config::listen,
         "Address of the data service (KvService): host:port, [IPv6]:port or unix:/path. Port\n"
         "0: any free port; the log says which."),
    Text("admin_listen", "127.0.0.1:7412", &Config::admin_listen,
         "Address of the operator's service (AdminService). Health and reflection are on both."),
    Text("metrics_listen", "127.0.0.1:7413", &Config::metrics_listen,
         "Address of the Prometheus endpoint, http://HOST:PORT/metrics; off: none. Always\n"
         "without TLS: it exposes numbers and names from the configuration, no keys and no\n"
         "values."),
    Text("health_listen", "off", &Config::health_listen,
         "Address of a port that serves only grpc.health.v1, always without TLS: for probes\n"
         "that do not support TLS, such as those of Kubernetes. off: none; health is on listen\n"
         "and admin_listen."),
    Text("tls_cert_file", "", &Config::tls_cert_file,
         "Certificate of the server in PEM format, followed by those of its issuers. If set,\n"
         "listen and admin_listen accept only TLS 1.2 and 1.3. Needs tls_key_file."),
    Text("tls_key_file", "", &Config::tls_key_file,
         "Private key of the certificate in PEM format, unencrypted. Refused if every user of\n"
         "the machine may read or write it."),
    Text("tls_ca_file", "", &Config::tls_ca_file,
         "CA certificates in PEM format; one of them must have issued each client's\n"
         "certificate (mutual TLS). Empty: clients need no certificate."),
    Reloadable(Number(
        FieldKind::kDuration, "tls_refresh", {10 * kSecond, kSecond, 60 * kMinute},
        &Config::tls_refresh_ms,
        "How often the three files are checked for rotation; SIGHUP checks at once. Invalid\n"
        "files are not loaded: the log says why, and the previous certificate stays in use.")),
    Switch("allow_plaintext", &Config::allow_plaintext,
           "Allow listen and admin_listen addresses that other machines can reach without TLS,\n"
           "though keys and values then cross the network unencrypted and unauthenticated."),
};

constexpr std::array kWork{
    Number(FieldKind::kCount, "threads", {0, 0, 256}, &Config::threads,
           "Threads that receive all calls and serve the short ones. 0: one for every four cores,\n"
           "and one at least."),
    Number(FieldKind::kCount, "scan_threads", {1, 1, 64}, &Config::scan_threads,
           "Threads that read the pages of scans, and large values and batches."),
    Number(FieldKind::kCount, "scan_nice", {10, 0, 19}, &Config::scan_nice,
           "By how much these threads give way to the others when there are fewer processors than\n"
           "threads with work (nice). 0: not at all."),
    Number(FieldKind::kCount, "write_threads", {1, 1, 64}, &Config::write_threads,
           "Threads that apply large writes and, on an ordinary file, all of them, so that no\n"
           "other call waits for a sync."),
    Reloadable(Number(
        FieldKind::kCount, "group_operations", kGroupOperations, &Config::group_operations,
        "Most single writes that go to the engine as one group and share its fences or sync.")),
    Reloadable(Number(
        FieldKind::kCount, "session_operations", kSessionOperations, &Config::session_operations,
        "Operations of a session that may be unanswered before the server receives no more of it;\n"
        "the client then waits. One message more may be received.")),
    Number(FieldKind::kCount, "max_streams_per_connection", kMaxStreamsPerConnection,
           &Config::max_streams_per_connection,
           "Most calls open on one connection; further ones wait in the client."),
};

constexpr std::array kConnections{
    Reloadable(Number(
        FieldKind::kCount, "max_connections", kMaxConnections, &Config::max_connections,
        "Most connections to listen. When it is reached, a connection that never sent a\n"
        "request, or has long been idle, is closed to make room; if there is none, the new\n"
        "one is refused. Fewer if the process may not open as many file descriptors: the log\n"
        "says so. admin_listen and health_listen take 64 each.")),
    Reloadable(Number(FieldKind::kCount, "max_connections_per_peer", kMaxConnectionsPerPeer,
                      &Config::max_connections_per_peer,
                      "Most of these from one address. Clients behind a proxy share its address.")),
    Reloadable(Number(
        FieldKind::kCount, "max_connection_rate_per_peer", kMaxConnectionRatePerPeer,
        &Config::max_connection_rate_per_peer,
        "Connections a second that one address (IPv6: a /64 network) may open to a port, on\n"
        "average. Further ones wait for their turn, and are refused if that would take longer\n"
        "than handshake_timeout. Clients behind a proxy share its address. 0: no limit.")),
    Reloadable(Number(
        FieldKind::kCount, "max_connection_burst_per_peer", kMaxConnectionBurstPerPeer,
        &Config::max_connection_burst_per_peer,
        "Most connections that an address may open at once without waiting, after a pause.")),
    Number(FieldKind::kDuration, "connection_idle", {30 * kMinute, 0, 24 * 60 * kMinute},
           &Config::connection_idle_ms,
           "A connection without a call for this long is closed; clients reconnect by\n"
           "themselves. 0: never."),
    Number(FieldKind::kDuration, "connection_age", {0, 0, 24 * 60 * kMinute},
           &Config::connection_age_ms,
           "A connection older than this is closed when its calls are done, at the latest five\n"
           "minutes later: lets a load balancer spread clients again. 0: never."),
    Number(FieldKind::kDuration, "keepalive_time", {2 * kMinute, 10 * kSecond, 24 * 60 * kMinute},
           &Config::keepalive_time_ms, "A client that is silent for this long is pinged."),
    Number(FieldKind::kDuration, "keepalive_timeout", {20 * kSecond, kSecond, 10 * kMinute},
           &Config::keepalive_timeout_ms,
           "A client that does not answer a ping, or acknowledges nothing, for this long is\n"
           "disconnected."),
    Number(FieldKind::kDuration, "handshake_timeout", {10 * kSecond, 100, 10 * kMinute},
           &Config::handshake_timeout_ms,
           "Longest time that a connection may take to complete the TLS and HTTP/2 handshakes."),
    Reloadable(
        Number(FieldKind::kDuration, "message_timeout", {20 * kSecond, 0, 60 * kMinute},
               &Config::message_timeout_ms,
               "A connection with unfinished requests is closed if for this long none of them\n"
               "completes and less than 1KiB a second arrives. 0: never.")),
    Reloadable(Number(
        FieldKind::kSize, "max_unfinished_size", kMaxUnfinishedSize, &Config::max_unfinished_size,
        "Most bytes, headers included, that one connection may have sent of requests that are\n"
        "not complete yet; beyond that it is closed.")),
    Reloadable(
        Number(FieldKind::kSize, "max_unfinished_total", kMaxUnfinishedTotal,
               &Config::max_unfinished_total,
               "The same for all connections together; beyond that, the one that has sent most is\n"
               "closed.")),
    Reloadable(Number(
        FieldKind::kCount, "max_resets_per_second", kMaxResetsPerSecond,
        &Config::max_resets_per_second,
        "Calls a second that a client may cancel before they are answered, on average; five\n"
        "times as many in a burst. Beyond that its connection is closed. 0: no limit.")),
    Reloadable(Number(
        FieldKind::kSize, "max_invalid_size_per_second", kMaxInvalidSizePerSecond,
        &Config::max_invalid_size_per_second,
        "Bytes a second of requests refused as invalid that a connection may send, on\n"
        "average; twice as many in a burst. Counts their size on the wire or, if larger, in\n"
        "memory (a batch takes some 100 bytes for each operation). Beyond that it is closed.\n"
        "0: no limit.")),
    Reloadable(Number(
        FieldKind::kCount, "max_offences_per_peer", kMaxOffencesPerPeer,
        &Config::max_offences_per_peer,
        "Connections of one address (IPv6: a /64 network) that may be closed for\n"
        "max_unfinished_size, max_resets_per_second or max_invalid_size_per_second before its\n"
        "new ones are refused, until one is forgiven. Its open ones go on. Clients behind a\n"
        "proxy share its address: set 0 if some may be hostile. 0: no limit.")),
    Reloadable(Number(FieldKind::kDuration, "offence_forgiven_after", kOffenceForgivenAfterMs,
                      &Config::offence_forgiven_after_ms,
                      "How long until one of these is forgiven; they are forgiven one by one.")),
};

constexpr std::array kRequestLimits{
    Number(FieldKind::kSize, "max_key_size", kMaxKeySize, &Config::max_key_size, "Longest key."),
    Number(FieldKind::kSize, "max_value_size", kMaxValueSize, &Config::max_value_size,
           "Largest value."),
    Number(FieldKind::kSize, "max_batch_size", kMaxBatchSize, &Config::max_batch_size,
           "Most bytes of keys and values in a batch, and in the answer to a BatchGet."),
    Number(FieldKind::kCount, "max_batch_operations", kMaxBatchOperations,
           &Config::max_batch_operations, "Most operations in a batch."),
    Reloadable(Number(
        FieldKind::kCount, "max_inflight_operations", kMaxInflightOperations,
        &Config::max_inflight_operations,
        "Most operations accepted and not yet answered; beyond that, RESOURCE_EXHAUSTED with\n"
        "RetryInfo.")),
    Reloadable(
        Number(FieldKind::kSize, "max_inflight_size", kMaxInflightSize, &Config::max_inflight_size,
               "Most bytes of their requests and answers; beyond that, RESOURCE_EXHAUSTED with\n"
               "RetryInfo.")),
    Reloadable(Number(
        FieldKind::kCount, "connection_share", kConnectionShare, &Config::connection_share,
        "Percentage of both that the calls of one connection may use. A connection that uses\n"
        "at most 16 operations and 1MiB is admitted beyond all shares, into a reserve of an\n"
        "eighth.")),
    Reloadable(Number(FieldKind::kCount, "peer_share", kPeerShare, &Config::peer_share,
                      "Percentage of both that the connections of one address may use together.")),
    Reloadable(Number(
        FieldKind::kDuration, "answer_timeout", {kMinute, kSecond, 60 * kMinute},
        &Config::answer_timeout_ms,
        "A call is cancelled if its client has not read its answer, or a page of its scan,\n"
        "within this time; while other calls are refused for lack of room, after one second\n"
        "in which its connection read nothing.")),
    Reloadable(Number(FieldKind::kCount, "scan_page_items", kScanPageItems,
                      &Config::scan_page_items, "Most items in a page of a scan.")),
    Reloadable(
        Number(FieldKind::kSize, "scan_page_size", kScanPageSize, &Config::scan_page_size,
               "Most bytes of keys and values in a page of a scan; one item is always sent.")),
};

constexpr std::array kOperation{
    Choice("log_format", "text|json", "text", &Config::log_format,
           "text: for people. json: one object a line."),
    Reloadable(Choice("log_level", "debug|info|warning|error", "info", &Config::log_level,
                      "The least severe messages that are logged.")),
    Reloadable(Number(FieldKind::kDuration, "slow_request", {100, 0, 10 * kMinute},
                      &Config::slow_request_ms,
                      "Requests that take longer are logged, with their cost. 0: none.")),
    Reloadable(Number(
        FieldKind::kDuration, "drain_delay", {0, 0, 10 * kMinute}, &Config::drain_delay_ms,
        "After SIGTERM, how long health answers NOT_SERVING while requests are still served,\n"
        "so that load balancers stop sending new ones first.")),
    Reloadable(Number(FieldKind::kDuration, "drain_grace", {10 * kSecond, 0, 10 * kMinute},
                      &Config::drain_grace_ms,
                      "After that, how long requests in flight may take to finish before they are\n"
                      "cancelled.")),
    Switch("core_dumps", &Config::core_dumps,
           "Allow core files after a crash, and a debugger of the same user to attach. They\n"
           "contain keys, values and the private key of TLS."),
};

constexpr std::array<ConfigSection, 6> kSections{{
    {"Storage", kStorage},
    {"Network", kNetwork},
    {"Connections", kConnections},
    {"Work", kWork},
    {"Limits of requests: each refusal says which one and its value", kRequestLimits},
    {"Operation", kOperation},
}};

}  // namespace

std::span<const ConfigSection> ConfigSections() { return kSections; }

}  // namespace lodgekv::server
