"""Fill of the pool, time until it is full, and duration of restarts."""

from model import Dashboard, gauge, state_timeline, stat, steps, timeseries

SPACE = ("Space", [
    gauge("Fill", "Used or reserved share of the pool.", "percentunit",
          ("1 - lodgekv_pool_free_bytes{@} / (lodgekv_pool_total_bytes{@} > 0)", "{{instance}}"),
          thresholds=steps(0.85, 0.95), maximum=1, width=6, height=6),
    stat("Full in", "Time until the pool is full at the rate of the last hour; empty for a "
         "pool that does not fill.", "s",
         ("lodgekv_pool_free_bytes{@} / (-deriv(lodgekv_pool_free_bytes{@}[1h]) > 0)",
          "{{instance}}"), thresholds=steps(7 * 86400, 86400, below=True), width=6, height=6),
    stat("Puts", "Whether the last put was refused because the pool was full.", "short",
         ("lodgekv_pool_full{@}", "{{instance}}"), thresholds=steps(1, 1), width=6, height=6,
         names={0: ("accepted", "green"), 1: ("refused: full", "red")}),
    stat("Files", "Whether the pool's files are those that were opened. If one was "
         "deleted, replaced or truncated, every call is refused (POOL_GONE).", "short",
         ("lodgekv_pool_gone{@}", "{{instance}}"), thresholds=steps(1, 1), width=6, height=6,
         names={0: ("there", "green"), 1: ("gone", "red")}),
    timeseries("Fill over time", "Used or reserved share of the pool.", "percentunit",
               ("1 - lodgekv_pool_free_bytes{@} / (lodgekv_pool_total_bytes{@} > 0)",
                "{{instance}}"), thresholds=steps(0.85, 0.95), maximum=1),
    timeseries("Used", "Chunks of the pool in use, and what nodes, records and logs take in them. "
               "The difference can be used again by writes of the same sizes.", "bytes",
               ("lodgekv_pool_used_bytes{@}", "{{instance}} chunks"),
               ("lodgekv_engine_medium_bytes{@}", "{{instance}} nodes, records, logs")),
    timeseries("Free", "Space for any write, and the reserve that keeps deletes working in a full "
               "pool.", "bytes", ("lodgekv_pool_free_bytes{@}", "{{instance}} free"),
               ("lodgekv_pool_reserved_bytes{@}", "{{instance}} reserve")),
    timeseries("Free in a day", "Free space 24 hours from now at the rate of the last hour. At 0 "
               "the pool is full before that.", "bytes",
               ("clamp_min(predict_linear(lodgekv_pool_free_bytes{@}[1h], 86400), 0)",
                "{{instance}}")),
    timeseries("Unused in chunks", "Share of the chunks in use that no node, record or log takes: "
               "left by deletes, or the rest of partly filled chunks.", "percentunit",
               ("1 - lodgekv_engine_medium_bytes{@} / on (job, instance) group_left () "
                "(lodgekv_pool_used_bytes{@} > 0)", "{{instance}}"), thresholds=steps(0.5, 0.8),
               maximum=1),
    timeseries("Writes refused", "RESOURCE_EXHAUSTED a second: a full pool, or more work in flight "
               "than the limits allow.", "reqps",
               ('sum by (instance, rpc) (rate(lodgekv_rpc_latency_seconds_count{@, '
                'code="RESOURCE_EXHAUSTED"}[$__rate_interval]))', "{{instance}} {{rpc}}"),
               thresholds=steps(0.1, 10)),
])

RESTART = ("Restart", [
    state_timeline("State", "Recovering, serving or draining; empty while the server is down.",
                   "short", ('sum by (instance) (lodgekv_state{@, state="recovering"} '
                             'or 2 * lodgekv_state{@, state="serving"} '
                             'or 3 * lodgekv_state{@, state="draining"})', "{{instance}}"),
                   width=24, height=7, names={1: ("recovering", "yellow"), 2: ("serving", "green"),
                                              3: ("draining", "blue")}),
    stat("Last recovery", "Time that the recovery at the last start took; 0: that start created "
         "the pool.", "s", ("lodgekv_recovery_seconds{@}", "{{instance}}"),
         thresholds=steps(60, 600), width=6, height=5),
    stat("Keys recovered", "Keys that the recovery at the last start found.", "short",
         ("lodgekv_recovery_keys{@}", "{{instance}}"), width=6, height=5),
    stat("Recovery speed", "Keys a second of the last recovery, to estimate the restart of "
         "a larger pool.", "short",
         ("lodgekv_recovery_keys{@} / (lodgekv_recovery_seconds{@} > 0)", "{{instance}}"),
         width=6, height=5),
    stat("Last shutdown", "How the previous run ended, as recorded in the pool.", "short",
         ("lodgekv_recovery_clean{@}", "{{instance}}"), width=6, height=5,
         thresholds=steps(1, 1, below=True),
         names={0: ("crash", "red"), 1: ("clean", "green")}),
    timeseries("Log replayed", "Log entries replayed by the recovery at the last start.", "short",
               ("lodgekv_recovery_log_entries_replayed{@}", "{{instance}}")),
    timeseries("Journal replay", "Time that the replay of an ordinary file's journal took at the "
               "last start, including the sync of the pool; empty on other media.", "s",
               ("lodgekv_journal_replay_seconds{@}", "{{instance}}")),
    timeseries("Repairs", "Repairs made by the recovery at the last start: splits and frees that "
               "the crash had cut short, damaged copies of the headers of logs.", "short",
               ("lodgekv_recovery_repairs{@}", "{{instance}}")),
    timeseries("Starts", "Starts within the hour before.", "short",
               ("changes(lodgekv_start_time_seconds{@}[1h])", "{{instance}}"),
               thresholds=steps(1, 3)),
])

DASHBOARD = Dashboard("lodgekv-capacity", "LodgeKV / Capacity and restart", __doc__,
                      [SPACE, RESTART])
