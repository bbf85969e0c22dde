"""Health, load and latency."""

from model import Dashboard, gauge, heatmap, stat, steps, table, timeseries

FAULTS = "UNKNOWN|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|DATA_LOSS"
READS, WRITES = "Get|BatchGet", "Put|Delete|BatchWrite"


def quantile(share):
    return (f"histogram_quantile({share}, sum by (rpc, le) ("
            'rate(lodgekv_rpc_latency_seconds_bucket{@, code="OK"}[$__rate_interval])))')


def buckets(rpcs):
    return ("sum by (le) (rate(lodgekv_rpc_latency_seconds_bucket"
            f'{{@, rpc=~"{rpcs}", code="OK"}}[$__rate_interval]))')


STATE = ("State", [
    stat("Serving", "Servers in state serving. The others recover, drain, or do not answer.",
         "short",
         ('sum(lodgekv_state{@, state="serving"})', "serving"),
         thresholds=steps(1, 1, below=True)),
    stat("Not persistent", "Servers that may lose acknowledged writes in a "
         "power cut: medium classes pmem-forced, volatile and none, and --durability process.",
         "short",
         ('count(lodgekv_medium_info{@, medium_class!~"pmem-adr|pmem-eadr|cxl|file"} '
          'or lodgekv_medium_info{@, durability!="medium"}) or vector(0)', "servers"),
         thresholds=steps(1, 1)),
    stat("Shortest uptime", "Time since the latest start of a server.", "s",
         ("min(time() - lodgekv_start_time_seconds{@})", "uptime"),
         thresholds=steps(3600, 300, below=True)),
    gauge("Fullest pool", "Used or reserved share of the fullest pool. A full pool "
          "refuses puts; reads and deletes go on.", "percentunit",
          ("max(1 - lodgekv_pool_free_bytes{@} / (lodgekv_pool_total_bytes{@} > 0))", "fill"),
          thresholds=steps(0.85, 0.95), maximum=1),
    stat("Failing calls", f"Share of the calls that end in one of {FAULTS.replace('|', ', ')}: the "
         "server, not the request, is to blame.", "percentunit",
         (f'(sum(rate(lodgekv_rpc_latency_seconds_count{{@, code=~"{FAULTS}"}}[$__rate_interval])) '
          "or vector(0)) / clamp_min(sum(rate(lodgekv_rpc_latency_seconds_count{@}"
          "[$__rate_interval])), 1e-9)", "failing"),
         thresholds=steps(0.001, 0.01)),
    stat("Answers a second", "All calls of all chosen servers.", "reqps",
         ("sum(rate(lodgekv_rpc_latency_seconds_count{@}[$__rate_interval]))", "calls")),
    table("Servers", "Version, engine, key format, medium and durability of each server.", "short",
          ("lodgekv_medium_info{@} * on (job, instance) group_left (version) lodgekv_build_info{@}",
           ""), width=24, height=6),
])

CALLS = ("Calls", [
    timeseries("Calls", "Answers a second by call, errors included. A batch is one call.",
               "reqps", ("sum by (rpc) (rate(lodgekv_rpc_latency_seconds_count{@}"
                         "[$__rate_interval]))", "{{rpc}}")),
    timeseries("Latency, p99", "One successful call in a hundred takes longer, from the receipt "
               "of the request to the sending of its answer. A Scan counts from its first page "
               "to its last.", "s", (quantile(0.99), "{{rpc}}"), thresholds=steps(0.01, 0.1)),
    timeseries("Latency, median", "Half of the successful calls take longer.", "s",
               (quantile(0.5), "{{rpc}}")),
    timeseries("Answers that are not OK", "By code. INVALID_ARGUMENT and FAILED_PRECONDITION are "
               "the client's; RESOURCE_EXHAUSTED is a full pool or too much in flight.",
               "reqps", ('sum by (code) (rate(lodgekv_rpc_latency_seconds_count{@, code!="OK"}'
                         "[$__rate_interval]))", "{{code}}")),
    heatmap("Latency of reads", "Get and BatchGet: how many take how long.", "s",
            (buckets(READS), "{{le}}")),
    heatmap("Latency of writes", "Put, Delete and BatchWrite: how many take how long.", "s",
            (buckets(WRITES), "{{le}}")),
])

WORK = ("Load", [
    timeseries("Operations in flight", "Accepted and not yet answered, as a share of "
               "max_inflight_operations. At 1, calls are refused with RESOURCE_EXHAUSTED.",
               "percentunit",
               ("lodgekv_rpc_in_flight_operations{@} / lodgekv_rpc_in_flight_operations_limit{@}",
                "{{instance}}"), thresholds=steps(0.7, 0.9), maximum=1),
    timeseries("Bytes in flight", "Bytes of their requests and answers, as a share of "
               "max_inflight_size. At 1, calls are refused with RESOURCE_EXHAUSTED.", "percentunit",
               ("lodgekv_rpc_in_flight_bytes{@} / lodgekv_rpc_in_flight_bytes_limit{@}",
                "{{instance}}"), thresholds=steps(0.7, 0.9), maximum=1),
    timeseries("Writes a group", "Single writes that are queued together go to the engine as one "
               "group and share fences. Grows with load.", "short",
               ("sum by (instance) (rate(lodgekv_write_group_operations_total{@}"
                "[$__rate_interval])) / (sum by (instance) (rate(lodgekv_write_groups_total{@}"
                "[$__rate_interval])) > 0)", "{{instance}}")),
])

PROCESS = ("Process", [
    timeseries("Processors in use", "CPU seconds a second, user and system.", "short",
               ("rate(process_cpu_seconds_total{@}[$__rate_interval]) * on (job, instance) "
                "group_left () lodgekv_build_info{@}", "{{instance}}")),
    timeseries("Memory", "Resident memory of the process, including mapped pages of the pool, "
               "and the engine's part of it.", "bytes",
               ("process_resident_memory_bytes{@} * on (job, instance) group_left () "
                "lodgekv_build_info{@}", "{{instance}} resident"),
               ("lodgekv_engine_dram_bytes{@}", "{{instance}} engine")),
    timeseries("File descriptors", "Open ones as a share of those allowed; each connection takes "
               "one.", "percentunit",
               ("process_open_fds{@} / process_max_fds{@} * on (job, instance) group_left () "
                "lodgekv_build_info{@}", "{{instance}}"), thresholds=steps(0.6, 0.8), maximum=1),
    timeseries("Connections turned away", "New connections closed at once, a second, by port and "
               "reason: too many open in all or from one peer, no descriptor, a peer that opens "
               "them too fast, or one whose connections were ended too often.", "ops",
               ("sum by (instance, port, reason) "
                "(rate(lodgekv_connections_refused_total{@}[$__rate_interval]))",
                "{{instance}} {{port}} {{reason}}"), thresholds=steps(0.1, 10)),
    timeseries("Connections ended", "By the server, a second: to make room, or because of what "
               "they sent.", "ops",
               ("sum by (instance, port, reason) "
                "(rate(lodgekv_connections_ended_total{@}[$__rate_interval]))",
                "{{instance}} {{port}} {{reason}}")),
    timeseries("Log lines dropped", "Lines a second that were not read in time.", "ops",
               ("rate(lodgekv_log_lines_dropped_total{@}[$__rate_interval])", "{{instance}}"),
               thresholds=steps(0.001, 1)),
])

TLS = ("TLS (empty without it)", [
    timeseries("Certificate expires in", "Time until the first certificate in use expires.",
               "s", ("lodgekv_tls_certificate_expiry_timestamp_seconds{@} - time()",
                     "{{instance}}"), thresholds=steps(14 * 86400, 2 * 86400, below=True)),
    timeseries("Rotations", "Rotated files that were loaded, and those that were refused, a "
               "second.",
               "ops", ("rate(lodgekv_tls_reloads_total{@}[$__rate_interval])",
                       "{{instance}} loaded"),
               ("rate(lodgekv_tls_reload_failures_total{@}[$__rate_interval])",
                "{{instance}} refused")),
    timeseries("Connections refused", "Failed handshakes a second: no certificate, one that "
               "is not accepted, or no TLS at all. The log gives the reasons.", "ops",
               ("rate(lodgekv_tls_handshake_failures_total{@}[$__rate_interval])",
                "{{instance}}")),
])

DASHBOARD = Dashboard("lodgekv-overview", "LodgeKV / Overview", __doc__,
                      [STATE, CALLS, WORK, PROCESS, TLS])
