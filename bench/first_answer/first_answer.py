"""How long a client waits for the first answer after the daemon was killed.

    PYTHONPATH=tests/system LODGEKV_BIN=$PWD/build/release/bin python3 \
        bench/first_answer/first_answer.py --engine tlbtree --format fixed64,bytes \
        --keys 1000000,10000000

For each key format and number of keys: loads a pool in memory, kills the daemon with SIGKILL,
starts it again and asks for one key until it is there: from the start of the process to the answer
at the client, several times. Then it puts keys until the recovery in the background has ended, and
says how long that took. --puts writes so many pairs one by one before the first kill, which fill
the log of an engine that has one: --engine-option write_buffer_pairs=14 --puts 3000000.
"""

import argparse
import contextlib
import itertools
import socket
import statistics
import subprocess
import threading
import time

import daemon
import grpc
import kv_messages
import raw_client

POOL_BYTES_PER_KEY = {"fixed64": 48, "bytes": 200}
SECONDS = 60


def key_of(number, key_format):
    """Those of `bytes` share a prefix, as user ids do."""
    return b"%08d" % number if key_format == "fixed64" else b"user:%016d" % number


def load(server, keys, key_format, *, records, batch, concurrency):
    process = server.start_ctl("load", "--format", "tsv", "--batch", batch, "--concurrency",
                               concurrency, "-", stdin=subprocess.PIPE)
    step = 7_919  # coprime to the numbers of keys: scattered
    lines = (key_of(i * step % keys, key_format) + b"\tvalue%03d\n" % (i % 1000)
             for i in range(records))
    try:
        while block := b"".join(itertools.islice(lines, 10_000)):
            process.stdin.write(block)
        process.stdin.close()
    except BrokenPipeError:
        pass
    if process.wait() != 0:
        raise SystemExit(process.stderr.read().decode())


def first_answer(server, key):
    """Milliseconds from the start of the process."""
    begin = time.perf_counter()
    server.spawn()
    host, port = server.server.rsplit(":", 1)
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), SECONDS):
            break
        time.sleep(0.0005)
    with raw_client.channel(server.server) as made:
        while True:
            try:
                raw_client.call(made, "Get", kv_messages.get(key), wait_for_ready=True)
                return 1000 * (time.perf_counter() - begin)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                time.sleep(0.0005)


def recovery_ended(server):
    progress = server.ask_json("status").get("recovery_progress", {})
    return not progress or not progress.get("phase")


def put_until(server, stop, keys, key_format, counted):
    with raw_client.channel(server.server) as made:
        number = 0
        while not stop.is_set():
            raw_client.call(made, "Put",
                            kv_messages.put(key_of(keys + number, key_format), b"value999"))
            number += 1
    counted.append(number)


def measure(options, key_format, keys):
    size = max(daemon.MIB * 64, keys * POOL_BYTES_PER_KEY[key_format])
    with daemon.folder(daemon.memory_folder()) as folder:
        more = {"engine_option": options.engine_option} if options.engine_option else {}
        server = daemon.Daemon(folder, engine=options.engine, key_format=key_format,
                               pool=f"{folder}/pool", pool_size=size, **more)
        with server:
            load(server, keys, key_format, records=keys, batch=512, concurrency=6)
            if options.puts:
                load(server, keys, key_format, records=options.puts, batch=1, concurrency=1)
            times = []
            for _ in range(options.kills):
                server.kill()
                times.append(first_answer(server, key_of(keys // 3, key_format)))
            counted = []
            stop = threading.Event()
            writer = threading.Thread(target=put_until,
                                      args=(server, stop, keys, key_format, counted))
            begin = time.perf_counter()
            writer.start()
            while not recovery_ended(server):
                time.sleep(0.01)
            took = time.perf_counter() - begin
            stop.set()
            writer.join()
            there = server.key_count()
            print(f"{options.engine} {key_format} {keys} keys: first answer "
                  f"{statistics.median(times):.0f} ms (most {max(times):.0f}), the rest of "
                  f"recovery {took:.2f} s, {counted[0]} puts meanwhile, {there} keys", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="tlbtree")
    parser.add_argument("--format", default="fixed64,bytes")
    parser.add_argument("--keys", default="1000000,10000000")
    parser.add_argument("--engine-option", help="NAME=VALUE")
    parser.add_argument("--puts", type=int, default=0)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    for key_format in options.format.split(","):
        for keys in map(int, options.keys.split(",")):
            measure(options, key_format, keys)


if __name__ == "__main__":
    main()
