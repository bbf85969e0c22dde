// Every field of the configuration, in the order of config/lodgekv.yaml.
#include <array>

#include "server/config.h"

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

// May change while requests are served: nothing was sized by it at the start, and each use reads it
// anew.
constexpr ConfigField Reloadable(ConfigField field) {
  field.reloadable = true;
  return field;
}

constexpr std::array kStorage{
    Text(
        "pool", "", &Config::pool,
        "The pool: a file, a poolset file or a device (/dev/dax0.0). It is created where there is\n"
        "none. Required, but for the volatile engines (dram, null), which take none."),
    Number(FieldKind::kSize, "pool_size", {0, 0, 16 * kTiB}, &Config::pool_size,
           "Size of a pool that is created. 0: 1GiB for a file, all of a device or poolset, whose\n"
           "size cannot be chosen. A pool keeps its size; another one here is a warning."),
    Switch("pool_must_exist", &Config::pool_must_exist,
           "Refuse to start where there is no pool, or an empty file, instead of creating one: for "
           "a\n"
           "server that has served, whose pool can only be lost or not mounted."),
    Text("pool_identity_file", "", &Config::pool_identity_file,
         "File that remembers which pool was served: the first start that opens one writes its id "
         "there,\n"
         "later ones refuse another pool, or none. Remove it to serve another. Best kept elsewhere "
         "than\n"
         "the pool, so that it does not go with it. Empty: none."),
    Text("engine", "lodgetree", &Config::engine,
         "The index that keeps the data; lodgekvd --help lists those of this build. A pool is "
         "opened\n"
         "by the engine that created it."),
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
           "How keys and values lie in a pool that is created. bytes: byte strings, with versions "
           "and\n"
           "TTL. fixed64: both of exactly 8 bytes, without versions and TTL."),
    Switch("inline_pairs", &Config::inline_pairs,
           "A new pool of format bytes holds short pairs inside its nodes: faster, but the whole "
           "pool\n"
           "then has no versions (no if-version) and no TTL."),
    Choice("durability", "medium|process", "medium", &Config::durability,
           "What an acknowledged write survives. medium: a power cut, as far as the medium does.\n"
           "process: a killed process, not a power cut; no sync is made."),
    Switch("allow_volatile_medium", &Config::allow_volatile_medium,
           "Accept a pool on a memory file system, which forgets everything at a restart of the\n"
           "machine."),
    Text("journal_path", "", &Config::journal_path,
         "File of the journal that a pool on an ordinary file has; it may lie on another disk.\n"
         "Empty: beside the pool, with .journal added to its name. Pool and journal belong\n"
         "together: copy, move and restore both. Other media have no journal."),
    Number(FieldKind::kSize, "journal_size", kJournalSize, &Config::journal_size,
           "Size of the journal, allocated whole. 0: an eighth of the pool, from 1MiB to 128MiB;\n"
           "else at least 1MiB. A larger one takes longer bursts of writes before they wait for a\n"
           "checkpoint; a start after a crash reads all of it. May differ from start to start."),
    Number(FieldKind::kSize, "checkpoint_rate", kCheckpointRate, &Config::checkpoint_rate,
           "Bytes a second of the pool's pages that a checkpoint of the journal writes back at\n"
           "least; more as the journal fills. Lower spares a disk that the journal's syncs share."),
    Number(FieldKind::kCount, "recovery_threads", {0, 0, 1'024}, &Config::recovery_threads,
           "Threads that recover the pool at start, and empty its buffers at an orderly end. 0: "
           "one per "
           "core."),
};

constexpr std::array kNetwork{
    Text(
        "listen", "127.0.0.1:7411", &Config::listen,
        "Address of the data service (KvService): host:port, [IPv6]:port or unix:/path. Port 0: a\n"
        "free one, named in the log."),
    Text("admin_listen", "127.0.0.1:7412", &Config::admin_listen,
         "Address of the operator's service (AdminService). Health and reflection are on both."),
    Text("metrics_listen", "127.0.0.1:7413", &Config::metrics_listen,
         "Address of the Prometheus endpoint, http://HOST:PORT/metrics; off: none. Always without "
         "TLS:\n"
         "it shows numbers and names of the configuration, no keys and no values."),
    Text(
        "health_listen", "off", &Config::health_listen,
        "Address of a port that answers grpc.health.v1 alone, always without TLS: for probes that\n"
        "speak none, as those of Kubernetes. off: none; health is on listen and admin_listen."),
    Text("tls_cert_file", "", &Config::tls_cert_file,
         "Certificate of the server in PEM format, those of its issuers behind it. With it listen "
         "and\n"
         "admin_listen speak TLS 1.2 or 1.3 alone. Needs tls_key_file."),
    Text("tls_key_file", "", &Config::tls_key_file,
         "Private key of the certificate in PEM format, unencrypted. Refused where every user of "
         "the\n"
         "machine may read or write it."),
    Text("tls_ca_file", "", &Config::tls_ca_file,
         "Certificates of the CAs in PEM format, of which one must have issued the certificate of "
         "each\n"
         "client (mutual TLS). Empty: clients need no certificate."),
    Reloadable(Number(
        FieldKind::kDuration, "tls_refresh", {10 * kSecond, kSecond, 60 * kMinute},
        &Config::tls_refresh_ms,
        "How often the three files are looked at for a rotation; SIGHUP looks at once. What is "
        "not\n"
        "sound is not taken up: the log says why, and the certificate before it is served on.")),
    Switch("allow_plaintext", &Config::allow_plaintext,
           "Accept listen and admin_listen addresses that other machines can reach without TLS, "
           "though\n"
           "keys and values then cross the network unencrypted and unauthenticated."),
};

constexpr std::array kWork{
    Number(FieldKind::kCount, "threads", {0, 0, 256}, &Config::threads,
           "Threads that serve reads, and as many that serve writes, so that no read waits for a\n"
           "write's sync. 0: one of each per core."),
    Number(FieldKind::kCount, "scan_threads", {1, 1, 64}, &Config::scan_threads,
           "Threads that read the pages of scans."),
    Reloadable(Number(
        FieldKind::kCount, "group_operations", kGroupOperations, &Config::group_operations,
        "Most single writes that go to the engine as one group and share its fences or sync.")),
    Number(FieldKind::kCount, "max_streams_per_connection", kMaxStreamsPerConnection,
           &Config::max_streams_per_connection,
           "Most calls open on one connection; further ones wait in the client."),
};

constexpr std::array kConnections{
    Reloadable(Number(
        FieldKind::kCount, "max_connections", kMaxConnections, &Config::max_connections,
        "Connections to listen. Beyond them one that never asked anything, or is long idle, goes;\n"
        "where there is none the new one is refused. Fewer, where the process may not have as "
        "many\n"
        "file descriptors: the log says so. admin_listen and health_listen take 64 each.")),
    Reloadable(Number(FieldKind::kCount, "max_connections_per_peer", kMaxConnectionsPerPeer,
                      &Config::max_connections_per_peer,
                      "Of these, from one address. Clients behind a proxy have the proxy's.")),
    Reloadable(Number(
        FieldKind::kCount, "max_connection_rate_per_peer", kMaxConnectionRatePerPeer,
        &Config::max_connection_rate_per_peer,
        "Connections a second that one address (IPv6: a network of 64 bits) may open to a port, "
        "in\n"
        "the long run. Beyond, new ones wait until it is their turn, and are refused where that\n"
        "would be longer than handshake_timeout. Behind a proxy all clients have its address.\n"
        "0: any number.")),
    Reloadable(Number(FieldKind::kCount, "max_connection_burst_per_peer",
                      kMaxConnectionBurstPerPeer, &Config::max_connection_burst_per_peer,
                      "So many at once do not wait, where it has opened none for a while.")),
    Number(
        FieldKind::kDuration, "connection_idle", {30 * kMinute, 0, 24 * 60 * kMinute},
        &Config::connection_idle_ms,
        "A connection without a call for so long is closed; clients connect again by themselves.\n"
        "0: none is."),
    Number(FieldKind::kDuration, "connection_age", {0, 0, 24 * 60 * kMinute},
           &Config::connection_age_ms,
           "A connection that is older is closed when its calls are done, and at the latest after\n"
           "five minutes more: for a balancer that spreads clients anew. 0: none is."),
    Number(FieldKind::kDuration, "keepalive_time", {2 * kMinute, 10 * kSecond, 24 * 60 * kMinute},
           &Config::keepalive_time_ms, "A client that is silent for so long is pinged."),
    Number(FieldKind::kDuration, "keepalive_timeout", {20 * kSecond, kSecond, 10 * kMinute},
           &Config::keepalive_timeout_ms,
           "A client that does not answer, or acknowledges nothing, for so long is gone."),
    Number(FieldKind::kDuration, "handshake_timeout", {10 * kSecond, 100, 10 * kMinute},
           &Config::handshake_timeout_ms,
           "How long a connection may take until TLS and HTTP/2 are agreed on."),
    Reloadable(Number(FieldKind::kDuration, "message_timeout", {20 * kSecond, 0, 60 * kMinute},
                      &Config::message_timeout_ms,
                      "A connection with requests that have begun is ended when for so long none\n"
                      "comes whole and less than 1KiB a second arrives. 0: none is.")),
    Reloadable(Number(
        FieldKind::kSize, "max_unfinished_size", kMaxUnfinishedSize, &Config::max_unfinished_size,
        "Bytes that one connection may have sent of requests that have not come whole, headers\n"
        "among them; beyond, it is ended.")),
    Reloadable(Number(FieldKind::kSize, "max_unfinished_total", kMaxUnfinishedTotal,
                      &Config::max_unfinished_total,
                      "The same of all connections; beyond, the one that has sent most is ended.")),
    Reloadable(Number(FieldKind::kCount, "max_resets_per_second", kMaxResetsPerSecond,
                      &Config::max_resets_per_second,
                      "Calls that a client may take back before they are answered, in the long "
                      "run; five times as\n"
                      "many at once. Beyond, its connection is ended. 0: any number.")),
    Reloadable(Number(FieldKind::kSize, "max_invalid_size_per_second", kMaxInvalidSizePerSecond,
                      &Config::max_invalid_size_per_second,
                      "Bytes of requests that are refused for what is in them, on the wire or, "
                      "where that is\n"
                      "more, in memory (a batch takes some 100 for each operation), in the long "
                      "run; twice as\n"
                      "many at once. Beyond, their connection is ended. 0: any number.")),
    Reloadable(
        Number(FieldKind::kCount, "max_offences_per_peer", kMaxOffencesPerPeer,
               &Config::max_offences_per_peer,
               "Connections of one address (IPv6: of a network of 64 bits) that were ended for\n"
               "max_unfinished_size, max_resets_per_second or max_invalid_size_per_second before "
               "its new\n"
               "ones are closed at once, until one is forgiven. Those that are open go on. Behind\n"
               "a proxy all clients have its address: 0 where it may carry hostile ones. 0: any\n"
               "number.")),
    Reloadable(Number(FieldKind::kDuration, "offence_forgiven_after", kOffenceForgivenAfterMs,
                      &Config::offence_forgiven_after_ms,
                      "How long until one of these is forgiven; one after the other.")),
};

constexpr std::array kRequestLimits{
    Number(FieldKind::kSize, "max_key_size", kMaxKeySize, &Config::max_key_size, "Longest key."),
    Number(FieldKind::kSize, "max_value_size", kMaxValueSize, &Config::max_value_size,
           "Largest value."),
    Number(FieldKind::kSize, "max_batch_size", kMaxBatchSize, &Config::max_batch_size,
           "Most bytes of keys and values in a batch, and of the answer to a BatchGet."),
    Number(FieldKind::kCount, "max_batch_operations", kMaxBatchOperations,
           &Config::max_batch_operations, "Most operations in a batch."),
    Reloadable(Number(
        FieldKind::kCount, "max_inflight_operations", kMaxInflightOperations,
        &Config::max_inflight_operations,
        "Operations accepted and not yet answered; beyond, RESOURCE_EXHAUSTED and RetryInfo.")),
    Reloadable(Number(
        FieldKind::kSize, "max_inflight_size", kMaxInflightSize, &Config::max_inflight_size,
        "Bytes of requests and answers held for them; beyond, RESOURCE_EXHAUSTED and RetryInfo.")),
    Reloadable(
        Number(FieldKind::kCount, "connection_share", kConnectionShare, &Config::connection_share,
               "Percent of both that the calls of one connection may hold. A connection that holds "
               "at most\n"
               "16 operations and 1MiB is let in beyond all shares, into a reserve of an eighth.")),
    Reloadable(Number(FieldKind::kCount, "peer_share", kPeerShare, &Config::peer_share,
                      "Percent of both that the connections of one address may hold together.")),
    Reloadable(Number(
        FieldKind::kDuration, "answer_timeout", {kMinute, kSecond, 60 * kMinute},
        &Config::answer_timeout_ms,
        "A call whose client has not taken its answer, or a page of its scan, after so long is\n"
        "cancelled; while others are refused for want of room, after a second in which its\n"
        "connection took nothing.")),
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
                      "The least serious messages that are logged.")),
    Reloadable(Number(FieldKind::kDuration, "slow_request", {100, 0, 10 * kMinute},
                      &Config::slow_request_ms,
                      "A request that takes longer is logged, with its cost. 0: none is.")),
    Reloadable(Number(
        FieldKind::kDuration, "drain_delay", {0, 0, 10 * kMinute}, &Config::drain_delay_ms,
        "After SIGTERM, how long health answers NOT_SERVING while requests are still served, so\n"
        "that load balancers look elsewhere first.")),
    Reloadable(Number(
        FieldKind::kDuration, "drain_grace", {10 * kSecond, 0, 10 * kMinute},
        &Config::drain_grace_ms,
        "After that, how long requests in flight may take to finish before they are cancelled.")),
    Switch(
        "core_dumps", &Config::core_dumps,
        "Leave a core file behind a crash, and let a debugger of the same user look in. It holds "
        "keys,\n"
        "values and the private key of TLS."),
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
