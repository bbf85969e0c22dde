"""The runs of engine_bench that the figures are taken from, and their rows."""

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile

WORKLOADS = "load,insert,update,read,read_absent,read_chained,scan,insert:skewed,delete"


@dataclasses.dataclass(frozen=True)
class Run:
    name: str
    keys: int
    ops: int
    options: tuple
    variants: str = ""  # options of an engine that it is measured against itself with
    only: str = ""  # the one engine that it is about
    rounds: int = 5


def runs_of(keys, ops):
    """Sized by the main run. Its chunks of operations begin with the caches full of another tree's
    nodes, so they are long: what is to be seen is a tree at work."""
    small, few = max(keys // 5, 20_000), ops // 2
    return [
        Run("main", keys, ops, (f"--workload={WORKLOADS}", "--threads=1,2")),
        Run("groups", small, few, ("--workload=insert,update,read", "--group=1,16,64,16a,64a",
                                   "--no-baselines")),
        Run("shapes", small, few, ("--workload=read", "--key-format=fixed64,bytes",
                                   "--key-shape=random16,user,url")),
        Run("splits", small, few, ("--workload=insert:skewed", "--threads=2", "--no-baselines"),
            variants="multiple_split=0", only="lodgetree"),
        Run("surrogate", small, 1_000, ("--workload=load", "--no-baselines"),
            variants="surrogate_buffer=0", only="lodgetree", rounds=1),
        Run("recover", keys, 1_000, ("--workload=recover", "--recovery-threads=1,2",
                                     "--no-baselines")),
    ]


def known_engines(program):
    """Those of the build: engine_bench lists them when it is asked for help."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    listed = text[text.index("Engines and their options:"):].splitlines()[1:]
    return [line.split(":")[0].strip() for line in listed
            if line.startswith("  ") and not line.startswith("   ")]


def command_of(run, program, engines, pool, seed):
    names = [engine for engine in engines if run.only in ("", engine)]
    if not names:
        return None
    if run.variants:
        names += [f"{name}:{run.variants}" for name in names]
    return [str(program), f"--engine={','.join(names)}", f"--keys={run.keys}", f"--ops={run.ops}",
            f"--seed={seed}", f"--pool={pool}", *run.options]


def measure(run, program, engines, seed):
    """One round: rows of JSON, each with the names of its run; and what was printed above them."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        out = pathlib.Path(folder, "rows")
        # The engines by turns, as any order favours one of them.
        turned = engines[seed % len(engines):] + engines[:seed % len(engines)]
        command = command_of(run, program, turned, f"{folder}/pool", seed)
        if command is None:
            return [], ""
        result = subprocess.run([*command, f"--json={out}"], capture_output=True, text=True,
                                env=dict(os.environ, PMEM_IS_PMEM_FORCE="1"), check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip().splitlines()[-1]}")
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    for row in rows:
        row.update(run=run.name, round=seed)
    return rows, result.stdout
