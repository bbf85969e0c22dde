"""Inside the engines: shape of the tree, splits, and what is specific to each engine."""

from model import Dashboard, steps, timeseries


def rate(name, legend="{{instance}}"):
    return (f"rate(lodgekv_engine_{name}{{@}}[$__rate_interval])", legend)


def ratio(above, below):
    return (f"rate(lodgekv_engine_{above}{{@}}[$__rate_interval]) / "
            f"(rate(lodgekv_engine_{below}{{@}}[$__rate_interval]) > 0)", "{{instance}}")


TREE = ("Every tree", [
    timeseries("Leaves", "Leaves on the medium.", "short",
               ("lodgekv_engine_leaves{@}", "{{instance}} ({{engine}})")),
    timeseries("Inner nodes", "Nodes in memory above the leaves, without LodgeTree's last level.",
               "short", ("lodgekv_engine_inner_nodes{@}", "{{instance}} ({{engine}})"),
               ("lodgekv_engine_last_level_nodes{@}", "{{instance}} last level")),
    timeseries("Leaf splits", "Leaf splits a second.", "ops",
               rate("leaf_splits_total", "{{instance}} ({{engine}})")),
    timeseries("Memory of the engine", "Inner nodes, buffers and side arrays.", "bytes",
               ("lodgekv_engine_dram_bytes{@}", "{{instance}} ({{engine}})")),
    timeseries("Medium in use", "Nodes, records and logs.", "bytes",
               ("lodgekv_engine_medium_bytes{@}", "{{instance}} ({{engine}})")),
    timeseries("Memory as a share of the medium", "How much memory the tree needs for what it "
               "stores.", "percentunit",
               ("lodgekv_engine_dram_bytes{@} / (lodgekv_engine_medium_bytes{@} > 0)",
                "{{instance}} ({{engine}})"), thresholds=steps(0.5, 1)),
    timeseries("Work in the background", "Share of its time that the engine's background thread "
               "works.", "percentunit",
               rate("background_busy_seconds_total", "{{instance}} ({{engine}})")),
    timeseries("Tasks in the background", "Tasks that wait for the engine's background thread, and "
               "those that failed, in a second.", "short",
               ("lodgekv_engine_background_queued_tasks{@}", "{{instance}} waiting"),
               rate("background_failures_total", "{{instance}} failed")),
])

BUFFERS = ("LodgeTree: buffers and splits", [
    timeseries("Buffer flushes", "Leaf-count flushes of a last-level node's buffer, in a second.",
               "ops", rate("buffer_flushes_total")),
    timeseries("Pairs a flushed leaf", "Buffered pairs that a leaf receives in one flush. The "
               "more, the fewer lines a pair costs.", "short",
               ratio("flushed_pairs_total", "flushed_leaves_total")),
    timeseries("Leaves a flush", "Target leaves that share a flush's fences; t_node bounds it.",
               "short", ratio("flushed_leaves_total", "buffer_flushes_total")),
    timeseries("Superseded pairs", "Buffered pairs replaced before they reached a leaf, in a "
               "second: writes that cost the leaves nothing.", "ops",
               rate("superseded_pairs_total")),
    timeseries("Node splits", "Splits of last-level nodes in a second: all, those into more nodes "
               "than before (a burst), those into fewer (cooling).", "ops",
               rate("node_splits_total", "{{instance}} all"),
               rate("adding_splits_total", "{{instance}} adding"),
               rate("reducing_splits_total", "{{instance}} reducing")),
    timeseries("Second commits", "Leaf commits that had to free slots first, for each leaf split. "
               "t_split of 25 keeps it low.", "percentunit",
               ratio("second_commits_total", "leaf_splits_total"), thresholds=steps(0.2, 0.5)),
])

LOG = ("LodgeTree: log and merging", [
    timeseries("Log", "Bytes of logs with valid entries, as a share of their limit. "
               "Above seven eighths, old logs are emptied into the tree.", "percentunit",
               ("lodgekv_engine_log_live_bytes{@} / lodgekv_engine_log_limit_bytes{@}",
                "{{instance}}"), thresholds=steps(0.9, 1.0)),
    timeseries("Logs opened", "Logs opened in a second, and those in space that was freed before.",
               "ops", rate("logs_opened_total", "{{instance}} opened"),
               rate("logs_reused_total", "{{instance}} in freed space")),
    timeseries("Log reclaims and merged leaves", "Old logs emptied in a second because "
               "live ones came near their limit, and sparse leaves that their left neighbour took "
               "over.", "ops", rate("log_reclaims_total", "{{instance}} reclaims"),
               rate("merged_leaves_total", "{{instance}} merged")),
])

LBTREE = ("LB+-Tree", [
    timeseries("Lines of an insert", "Inserts a second whose slot was in the header's line, and "
               "those that wrote a second one.", "ops",
               rate("one_line_inserts_total", "{{instance}} one line"),
               rate("two_line_inserts_total", "{{instance}} two lines")),
    timeseries("Entries moved", "Entries moved out of a header's line for each insert that wrote a "
               "second line: room for inserts of one line.", "short",
               ratio("moved_entries_total", "two_line_inserts_total")),
    timeseries("Updates and deletes", "Values stored in the slot of an existing key, and pairs "
               "deleted, in a second.", "ops", rate("updates_total", "{{instance}} updates"),
               rate("deletes_total", "{{instance}} deletes")),
    timeseries("Leaves unlinked", "Leaves unlinked with their last pair, a second.", "ops",
               rate("unlinked_leaves_total"), width=12),
    timeseries("Groups and atomic batches", "Groups of single writes that shared their fences, and "
               "atomic batches, committed in a second.", "ops",
               rate("groups_total", "{{instance}} groups"),
               rate("batches_total", "{{instance}} atomic batches"), width=12),
])

SSTREE = ("SSTree", [
    timeseries("Inserts and new heads", "Inserts a second, those that put a new head subnode "
               "before a full one, and those into a free slot of an overflow subnode.", "ops",
               rate("inserts_total", "{{instance}} inserts"),
               rate("head_replacements_total", "{{instance}} new heads"),
               rate("filled_holes_total", "{{instance}} filled holes")),
    timeseries("Item movement", "Pairs that an update moves from an overflow subnode to the head, "
               "for each update.", "short", ratio("moved_items_total", "updates_total")),
    timeseries("Subnodes of a leaf", "Subnodes on the medium for each leaf: the longer the lists, "
               "the more lines a search reads.", "short",
               ("lodgekv_engine_subnodes{@} / lodgekv_engine_leaves{@}", "{{instance}}")),
    timeseries("Reclaimed subnodes and dropped leaves", "Overflow subnodes freed with the write "
               "that emptied them, leaves dropped with their last pair, and leaves begun by a "
               "pair above all others, a second.", "ops",
               rate("reclaimed_subnodes_total", "{{instance}} subnodes"),
               rate("dropped_leaves_total", "{{instance}} leaves dropped"),
               rate("appended_leaves_total", "{{instance}} leaves begun")),
])

TLBTREE = ("TLBtree", [
    timeseries("Steps sideways", "Steps of writers from a sub-index or leaf to the one beside it, "
               "a second: what the top layer does not know costs these, until it is built anew.",
               "ops", rate("sideways_steps_total", "{{instance}} steps")),
    timeseries("Top layer", "Sub-indices that the top layer leads to, and all there are.", "short",
               ("lodgekv_engine_top_entries{@}", "{{instance}} in the top layer"),
               ("lodgekv_engine_sub_indices{@}", "{{instance}} sub-indices")),
    timeseries("Splits and merges", "Sub-indices and leaves that became two, or went to their left "
               "neighbours, a second.", "ops",
               rate("sub_index_splits_total", "{{instance}} sub-indices split"),
               rate("sub_index_merges_total", "{{instance}} sub-indices merged"),
               rate("leaf_merges_total", "{{instance}} leaves merged")),
    timeseries("Rebuilds and entries", "Rebuilds of the top layer, and entries made above leaves, "
               "a second.", "ops", rate("rebuilds_total", "{{instance}} rebuilds"),
               rate("entries_made_total", "{{instance}} entries")),
])

SPTREE = ("SPTree", [
    timeseries("Inserts, updates and deletes", "Pairs put under a new key, values replaced, and "
               "pairs deleted, in a second.", "ops",
               rate("inserts_total", "{{instance}} inserts"),
               rate("updates_total", "{{instance}} updates"),
               rate("deletes_total", "{{instance}} deletes")),
    timeseries("Leaves merged and sorted", "Leaves that their left neighbour took over, and leaves "
               "that a scan put in order since they had changed, in a second.", "ops",
               rate("leaf_merges_total", "{{instance}} merged"),
               rate("sorted_leaves_total", "{{instance}} sorted")),
    timeseries("Write buffers", "Operations that went to a write buffer, buffers merged into their "
               "leaves, and operations that found the memory of buffers at its limit, in a second.",
               "ops", rate("buffered_writes_total", "{{instance}} writes"),
               rate("buffer_flushes_total", "{{instance}} flushes"),
               rate("past_buffers_total", "{{instance}} at the limit")),
    timeseries("Memory of write buffers", "Memory that buffered pairs take; "
               "write_buffer_share bounds it.", "bytes",
               ("lodgekv_engine_buffer_dram_bytes{@}", "{{instance}}")),
    timeseries("Backup of the top layer", "Leaves that the backup names: a start is slow without "
               "one. And how many backups were written in a second.", "short",
               ("lodgekv_engine_backup_entries{@}", "{{instance}} leaves"),
               rate("backups_total", "{{instance}} written")),
])

DASHBOARD = Dashboard("lodgekv-engine", "LodgeKV / Engine", __doc__,
                      [TREE, BUFFERS, LOG, LBTREE, SSTREE, TLBTREE, SPTREE])
