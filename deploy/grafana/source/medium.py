"""What writes cost the medium: lines flushed, fences, blocks of 256 bytes."""

from model import Dashboard, stat, steps, timeseries

WRITES = "sum by (instance) (rate(lodgekv_write_operations_total{@}[$__rate_interval]))"
BYTES = "sum by (instance) (rate(lodgekv_write_bytes_total{@}[$__rate_interval]))"


def total(name):
    return f"sum by (instance) (rate(lodgekv_{name}{{@}}[$__rate_interval]))"


def a_write(name):
    return (f"{total(name)} / ({WRITES} > 0)", "{{instance}}")


ONE_WRITE = ("Cost of a write", [
    timeseries("Lines flushed a write", "64-byte lines written back to the medium for each put or "
               "delete that took effect. Includes the engine's own work: splits, buffer flushes, "
               "reclaiming of logs. On eADR lines are counted and not written back.", "short",
               a_write("lines_flushed_total")),
    timeseries("Fences a write", "Waits for the medium for each put or delete. Writes that are "
               "queued together share them, so it falls under load.", "short",
               a_write("fences_total")),
    timeseries("Media writes a write", "Distinct blocks of 256 bytes written between two fences, "
               "for each put or delete: what persistent memory with a granularity of 256 bytes "
               "writes internally.", "short", a_write("media_writes_256b_total")),
    timeseries("Write amplification", "Bytes that the medium writes in blocks of 256 for each byte "
               "of key and value. Small values make it large: a pair of 16 bytes alone in its "
               "block gives 16.", "short",
               (f"256 * {total('media_writes_256b_total')} / ({BYTES} > 0)", "{{instance}}"),
               thresholds=steps(32, 128)),
    timeseries("Block utilization", "Stored bytes as a share of the blocks of 256 that they went "
               "into. Low: stores are scattered.", "percentunit",
               (f"{total('stored_bytes_total')} / (256 * {total('media_writes_256b_total')} > 0)",
                "{{instance}}"), thresholds=steps(0.25, 0.1, below=True)),
    timeseries("Size of a write", "Bytes of key and value of a put or delete that took effect.",
               "bytes", (f"{BYTES} / ({WRITES} > 0)", "{{instance}}")),
])

RATES = ("Totals", [
    timeseries("Media written", "Blocks of 256 bytes a second, in bytes: compare with "
               "what the medium can write. A first-generation Optane DIMM writes some 2.3 GB/s.",
               "Bps", (f"256 * {total('media_writes_256b_total')}", "{{instance}}")),
    timeseries("Stored and written by clients", "Bytes that the engine stores to the medium, and "
               "bytes of the keys and values that clients write.", "Bps",
               (total("stored_bytes_total"), "{{instance}} stored"),
               (BYTES, "{{instance}} keys and values")),
    timeseries("Writes", "Puts and deletes a second that took effect, including those of batches.",
               "wps", (WRITES, "{{instance}}")),
    timeseries("Lines flushed", "64-byte lines a second.", "short",
               (total("lines_flushed_total"), "{{instance}}")),
    timeseries("Fences", "Fences a second; on an ordinary file, threads that wait at the same time "
               "share a sync of the journal.", "short", (total("fences_total"), "{{instance}}")),
    timeseries("Lines a fence", "The more lines a fence waits for, the cheaper each "
               "is.", "short",
               (f"{total('lines_flushed_total')} / ({total('fences_total')} > 0)",
                "{{instance}}")),
])

def over_time(name):
    """For each write in the time range of the dashboard."""
    return (f"sum by (instance) (increase(lodgekv_{name}{{@}}[$__range])) / "
            "(sum by (instance) (increase(lodgekv_write_operations_total{@}[$__range])) > 0)",
            "{{instance}}")


def a_call(name):
    return (f'sum by (rpc) (rate(lodgekv_rpc_{name}{{@, rpc=~"Put|Delete|BatchWrite"}}'
            "[$__rate_interval])) / (sum by (rpc) (rate(lodgekv_rpc_latency_seconds_count{@, "
            'code="OK"}[$__rate_interval])) > 0)', "{{rpc}}")


BY_CALL = ("Cost of a call", [
    timeseries("Lines flushed a call", "What a call of each kind costs; a batch is one call. "
               "Writes in one group share its lines by their bytes.", "short",
               a_call("lines_flushed_total")),
    timeseries("Fences a call", "A fence that serves a group counts for one of its writes.",
               "short", a_call("fences_total")),
    timeseries("Media writes a call", "Blocks of 256 bytes; writes in one group share them "
               "by their bytes. Does not include the engine's own work.", "short",
               a_call("media_writes_256b_total")),
])

TIME_SHOWN = ("In the time range shown", [
    stat("Lines a write, overall", "Lines flushed for each put or delete that took effect.",
         "short",
         over_time("lines_flushed_total"), width=8),
    stat("Fences a write, overall", "Fences for each put or delete that took effect.", "short",
         over_time("fences_total"), width=8),
    stat("Blocks a write, overall", "Blocks of 256 bytes written for each put or delete that took "
         "effect.", "short", over_time("media_writes_256b_total"), width=8),
])

JOURNAL = ("The journal of an ordinary file (empty on other media)", [
    timeseries("Syncs of the journal", "Groups that became durable, a second, one after the "
               "other: a disk does only so many.", "ops",
               (total("journal_syncs_total"), "{{instance}}")),
    timeseries("Fences a sync", "Fences that waited for the same group (for writes that share "
               "a fence see Writes a group). Grows with the number of threads "
               "that write.", "short",
               (f"{total('journal_fences_total')} / ({total('journal_syncs_total')} > 0)",
                "{{instance}}")),
    timeseries("Fill of the journal", "Share that a replay would need. Checkpoints begin at a "
               "quarter and are slow while there is room: near 1 is fine as long as no writer "
               "waits.", "percentunit",
               ("lodgekv_journal_used_bytes{@} / lodgekv_journal_size_bytes{@}", "{{instance}}"),
               maximum=1),
    timeseries("Written to the journal", "Lines of fences, in whole blocks of 4 KiB.", "Bps",
               (total("journal_written_bytes_total"), "{{instance}}")),
    timeseries("Written back", "Pages of the pool that checkpoints write. While it stays at "
               "checkpoint_rate the journal has enough room.", "Bps",
               (total("journal_written_back_bytes_total"), "{{instance}}")),
    timeseries("Time of a checkpoint", "From its start until its segments are free again.", "s",
               (f"{total('journal_checkpoint_seconds_total')} / "
                f"({total('journal_checkpoints_total')} > 0)", "{{instance}}")),
    timeseries("Lag of the checkpoint", "How long the oldest full segment has waited to be free "
               "again.", "s", ("lodgekv_journal_lag_seconds{@}", "{{instance}}"),
               thresholds=steps(60, 600)),
    timeseries("Writers waiting", "Average number of writers that wait for a checkpoint because "
               "the journal is full.", "short",
               (total("journal_wait_seconds_total"), "{{instance}}"),
               thresholds=steps(0.05, 1)),
    timeseries("Syncs of the pool", "Fences, a second, of so many lines that the pool was synced "
               "instead of the journal.", "ops",
               (total("journal_pool_syncs_total"), "{{instance}}")),
])

DASHBOARD = Dashboard("lodgekv-medium", "LodgeKV / Medium", __doc__,
                      [ONE_WRITE, BY_CALL, RATES, JOURNAL, TIME_SHOWN])
