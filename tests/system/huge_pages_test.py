"""A pool on a memory file system of huge pages keeps what was written, also over a kill.

Linux empties a huge page that was allocated for a file and mapped before anybody touched it, see
TouchHugePages in index/pmem/internal/pool_mapping.cc.
"""

import os
import subprocess
import sys

import daemon
import system_test

INSIDE = "LODGEKV_INSIDE_NAMESPACE"
KEYS = 2000


def key_of(number):
    return f"huge/{number:07d}"


class HugePagesTest(system_test.SystemTest):
    def test_a_kill_loses_nothing(self):
        if not os.environ.get(INSIDE):
            self.skipTest("this user may have no mounts of its own")
        self.for_each_engine(self.kill_and_check)

    def kill_and_check(self, engine):
        workdir = self.folder()
        mounted = workdir / "mounted"
        mounted.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always", "pools", mounted], check=True)
        self.addCleanup(subprocess.run, ["umount", mounted], check=True)
        server = self.daemon(workdir, engine=engine, pool=mounted / "pool",
                             pool_size=64 * daemon.MIB)
        lines = workdir / "input.tsv"
        lines.write_text("".join(f"{key_of(n)}\t{n}\n" for n in range(KEYS)))
        server.ask("load", lines)
        for end in (server.kill, server.stop):
            end()
            server.start()
            self.assertEqual(server.key_count(), KEYS)
            self.assertEqual(server.ask("get", key_of(KEYS - 1)).strip(), b"%d" % (KEYS - 1))
        server.stop()


def enter_namespace():
    """Goes on in a mount namespace of its own, if this user can have one."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    wrapper = ["unshare", *user, "--mount"]
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode == 0:
        os.environ[INSIDE] = "1"
        os.execvp(wrapper[0], [*wrapper, sys.executable, "-B", *sys.argv])


if __name__ == "__main__":
    if not os.environ.get(INSIDE):
        enter_namespace()
    system_test.main()
