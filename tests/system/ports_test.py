"""Tests that run concurrently never get each other's ports."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys

import ports
import system_test

HERE = pathlib.Path(__file__).resolve().parent
PROCESSES = 5
# Claims of this test alone, so that it takes no block from the tests that run beside it.
CLAIM = f"\0lodgekv-ports-test-{os.getpid()}-{{}}"
# All begin to look at the same block, as processes do whose numbers are a multiple apart.
CHILD = f"""
import os, sys
import ports
os.getpid = lambda: 7
ports.CLAIM = {CLAIM!r}
print(*(ports.free_port() for _ in range(2 * ports.BLOCK)), flush=True)
sys.stdin.read()
"""


class PortsTest(system_test.SystemTest):
    def start(self):
        child = subprocess.Popen([sys.executable, "-B", "-c", CHILD], cwd=HERE, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.enterContext(child)
        return child

    def test_processes_share_no_port(self):
        children = [self.start() for _ in range(PROCESSES)]
        given = [{int(word) for word in child.stdout.readline().split()} for child in children]
        self.assertTrue(all(given))
        self.assertEqual(len(set().union(*given)), sum(map(len, given)))

    def test_a_killed_process_leaves_its_block(self):
        killed = self.start()
        before = killed.stdout.readline()
        killed.kill()
        killed.wait()
        self.assertEqual(self.start().stdout.readline(), before)

    def test_a_port_in_use_is_passed_over(self):
        port = ports.free_port()
        with socket.create_server((ports.HOST, port)):
            self.assertNotIn(port, {ports.free_port() for _ in range(2 * ports.BLOCK)})

    def test_no_free_block_is_an_error(self):
        with contextlib.ExitStack() as claims:
            for block in range(ports.BLOCKS):
                claim = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                claim.bind(CLAIM.format(block))
            outcome = subprocess.run([sys.executable, "-B", "-c", CHILD], cwd=HERE, text=True,
                                     capture_output=True, check=False, timeout=60)
        self.assertIn("all 340 blocks of ports are claimed by running tests", outcome.stderr)


if __name__ == "__main__":
    system_test.main()
