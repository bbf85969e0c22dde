"""What call_rounds.py measured, beside what is to be reached. Shares are those of a round, in which
the servers took turns; their median counts."""

import figures
import servers

# Least shares of the no-op's calls a second, with so many in flight.
LEAST_SHARES = {
    ("get", 64): 0.95, ("get", 8): 0.95, ("get", 1): 0.90,
    ("put", 64): 0.90, ("put", 8): 0.90, ("put", 1): 0.85,
    ("batch_get", 8): 0.70, ("batch_write", 8): 0.45, ("scan", 8): 0.95,
}
# Most processor time of a call, times the no-op's, where the engine has little to do.
MOST_TIME = {"get": 1.15, "put": 1.15, "scan": 1.15}
# A page is large: what an empty one costs says nothing of it.
BESIDE_FULL = ("scan",)
# The no-op's fastest window of a row over its slowest, above which others kept the machine busy.
STEADY = 1.5
GETS_BESIDE_SCANS = 15_000
P99_MS_BESIDE_SCANS = 2

NOTE = """\
Client and servers share the machine. Keys of 32 bytes, drawn uniformly, values of 100. Medians of
the rounds, and the least and the most. Shares and multiples are those of the no-op's in the same
round, which is a gRPC server with one completion queue that parses nothing and answers that nothing
was found; the goals of Scan are held against one that sends as large a page. Processor time is that
of all threads of the server, by the kernel's count."""


class Report:
    """results[row, server's name]: a list with what the client said in each round."""

    def __init__(self, results, engines):
        self.results = results
        self.engines = engines
        self.rows = list(dict.fromkeys(row for row, _ in results))

    def column(self, row, server, field):
        return [result[field] for result in self.results.get((row, server), []) if field in result]

    def ratios(self, row, server, field, reference):
        """Round by round; empty when one of the two was not measured."""
        return [a / b for a, b in zip(self.column(row, server, field),
                                      self.column(row, reference, field)) if b > 0]

    def servers_of(self, row):
        return [server for other, server in self.results if other == row]

    def is_engine(self, server):
        return server in self.engines

    @staticmethod
    def name(row, server):
        return f"{server}: {row.text}, {row.in_flight} in flight, {row.client} client"

    def share_goal(self, row, server):
        """None: there is nothing to reach."""
        if not self.is_engine(server) or row.beside_scans:
            return None
        reference = servers.FULL if row.call in BESIDE_FULL else servers.NOOP
        return figures.Goal(self.name(row, server) + ", of the no-op's calls a second",
                            self.ratios(row, server, "calls_per_second", reference),
                            least=LEAST_SHARES[row.call, row.in_flight],
                            why="the no-op was not measured")

    def time_goal(self, row, server):
        if not self.is_engine(server) or row.beside_scans or row.call not in MOST_TIME:
            return None
        reference = servers.FULL if row.call in BESIDE_FULL else servers.NOOP
        return figures.Goal(self.name(row, server) + ", processor time, times the no-op's",
                            self.ratios(row, server, "processor_us_per_call", reference),
                            most=MOST_TIME[row.call], why="this client does not measure it")

    def goals_beside_scans(self, row, server):
        name = self.name(row, server)
        milliseconds = [value / 1e3 for value in self.column(row, server, "p99_us")]
        return [figures.Goal(name, self.column(row, server, "calls_per_second"),
                             least=GETS_BESIDE_SCANS, unit="/s"),
                figures.Goal(name + ", p99", milliseconds, most=P99_MS_BESIDE_SCANS, unit=" ms")]

    def goals(self):
        """All that has a value."""
        goals = []
        for row in self.rows:
            for server in self.servers_of(row):
                if row.beside_scans:
                    goals += self.goals_beside_scans(row, server)
                else:
                    goals += [self.share_goal(row, server), self.time_goal(row, server)]
        return [goal for goal in goals if goal is not None and goal.values]

    def throughput_table(self):
        rows = []
        for row in self.rows:
            for server in () if row.beside_scans else self.servers_of(row):
                rows.append(self.head(row, server) +
                            self.beside(row, server, "calls_per_second",
                                        self.share_goal(row, server)) +
                            [figures.spread(self.column(row, server, field))
                             for field in ("p50_us", "p99_us")])
        return figures.table(["call", "in flight", "client", "server", "calls/s", "of the no-op's",
                              "of the full no-op's", "goal", "", "p50 us", "p99 us"], rows)

    def time_table(self):
        rows = []
        for row in self.rows:
            for server in () if row.beside_scans or row.client != "lean" else self.servers_of(row):
                rows.append(self.head(row, server)[:2] + [server] +
                            self.beside(row, server, "processor_us_per_call",
                                        self.time_goal(row, server)) +
                            [figures.spread(self.column(row, server, "sleeps_per_call"))])
        return figures.table(["call", "in flight", "server", "us a call", "times the no-op's",
                              "times the full no-op's", "goal", "", "sleeps a call"], rows)

    def scans_table(self):
        rows = []
        for row in self.rows:
            for server in self.servers_of(row) if row.beside_scans else ():
                gets, p99 = self.goals_beside_scans(row, server)
                scanned = [value / 1e6
                           for value in self.column(row, server, "scanned_bytes_per_second")]
                rows.append([server, str(row.in_flight), gets.measured(), gets.wanted(),
                             gets.verdict(), p99.measured(), p99.wanted(), p99.verdict(),
                             figures.spread(scanned)])
        return figures.table(["server", "in flight", "Gets beside four scans", "goal", "", "p99",
                              "goal", "", "scanned, MB/s"], rows)

    @staticmethod
    def head(row, server):
        return [row.text, str(row.in_flight), row.client, server]

    def beside(self, row, server, field, goal):
        """The field, as shares of both no-ops', the goal and whether it is met."""
        cells = [figures.spread(self.column(row, server, field)) if
                 self.column(row, server, field) else "-"]
        for reference in (servers.NOOP, servers.FULL):
            ratios = [] if server == reference else self.ratios(row, server, field, reference)
            cells.append(figures.spread(ratios) if ratios else "-")
        return cells + ([goal.wanted(), goal.verdict()] if goal else ["-", ""])

    def unsteady_rows(self):
        """Whose shares say little, as the no-op alone differs from round to round."""
        columns = [self.column(row, servers.NOOP, "calls_per_second") for row in self.rows]
        return [column for column in columns if column and max(column) > STEADY * min(column)]

    def text(self):
        missed = [goal for goal in self.goals() if goal.verdict() != "met"]
        count = f"{len(self.goals())} goals, {len(missed)} missed."
        if self.unsteady_rows():
            count += (f" In {len(self.unsteady_rows())} of {len(self.rows)} rows the no-op's "
                      f"windows differ by more than {STEADY:g} times: something else kept the "
                      "machine busy, and neither *met* nor *missed* means much there.")
        return "\n\n".join([NOTE, count, self.throughput_table(), self.time_table(),
                            self.scans_table()])
