"""Puts against every server: phases of 1, 64 and 256 in flight, the servers taking turns."""

import contextlib
import os

import figures
import servers

IN_FLIGHT = (1, 64, 256)
NO_OP = "null"


class PutRounds:
    """rows[server, in flight] has a result for each round."""

    def __init__(self, bench):
        self.bench = bench
        self.rows = {}

    def run(self):
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(server) for server in self.bench.put_servers()]
            for number in range(self.bench.options.rounds):
                order = running if number % 2 == 0 else running[::-1]
                for in_flight in IN_FLIGHT:
                    for server in order:
                        self.phase(server, in_flight, number)

    def phase(self, server, in_flight, number):
        # What one server has left for later is not to be paid by the next.
        os.sync()
        row = self.bench.put(server, in_flight, seed=1 + number * len(IN_FLIGHT) +
                             IN_FLIGHT.index(in_flight))
        self.bench.say(f"round {number + 1}: {server.name}, {in_flight} in flight: "
                       f"{row['puts_per_second']:,.0f}/s, p50 {row['p50_us']:,.0f} us")
        self.rows.setdefault((server.name, in_flight), []).append(row)

    def column(self, server, in_flight, field):
        return [row[field] for row in self.rows.get((server, in_flight), [])]

    def ratios(self, field, over, under):
        """Round by round; empty when one of the two was not measured."""
        pairs = zip(self.column(*over, field), self.column(*under, field))
        return [a / b for a, b in pairs if b > 0]

    def table(self):
        rows = []
        for server, in_flight in self.rows:
            row = [server + (" (no-op)" if server == NO_OP else ""), str(in_flight),
                   figures.spread(self.column(server, in_flight, "puts_per_second"))]
            for field in ("p50_us", "p99_us", "p999_us"):
                row.append(figures.spread(self.column(server, in_flight, field),
                                          figures.milliseconds))
            rows.append(row)
        return figures.table(["server", "in flight", "puts/s", "p50 ms", "p99 ms", "p99.9 ms"],
                             rows)

    def goals(self):
        goals = []
        for engine in self.bench.engines:
            for figure, values, bounds, peer in self.figures_of(engine):
                goals.append(figures.Goal(f"{engine}: {figure}", values, **bounds,
                                          why=f"{peer} is not installed"))
        return goals

    def figures_of(self, engine):
        return [
            ("one put in flight, p50 of Redis's",
             self.ratios("p50_us", (engine, 1), ("redis", 1)), {"most": 1.5}, "redis"),
            ("64 in flight, puts of the gRPC no-op's",
             self.ratios("puts_per_second", (engine, 64), (NO_OP, 64)), {"least": 0.7}, NO_OP),
            ("64 in flight, puts of etcd's",
             self.ratios("puts_per_second", (engine, 64), ("etcd", 64)), {"least": 3}, "etcd"),
            ("256 in flight, puts of those with 64",
             self.ratios("puts_per_second", (engine, 256), (engine, 64)), {"least": 1}, engine),
        ]


def peers_of(folder, missing):
    return [peer(folder / peer.name) for peer in servers.PEERS if peer.name not in missing]
