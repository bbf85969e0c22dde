"""The image, built and run for real: no root, no capabilities, a read-only root file system.

The programs in it are those of LODGEKV_BIN. LODGEKV_CONTAINER_BUILD=full compiles them inside
the container instead, as docker build does; that takes as long as a build does.
"""

import os
import re
import subprocess
import time
import unittest

import container
import daemon
import system_test

POOL = "/var/lib/lodgekv/lodgekv.pool"
USER = 10001


class ContainerTest(system_test.SystemTest):
    @classmethod
    def setUpClass(cls):
        if reason := container.why_not():
            raise unittest.SkipTest(reason)
        cls.store = cls.enterClassContext(container.Store())
        cls.store.import_base()
        if os.environ.get("LODGEKV_CONTAINER_BUILD") == "full":
            print("the programs are compiled inside the container", flush=True)
            cls.store.build(container.ROOT, REVISION="a-revision")
        else:
            print(f"the programs in the image are those of {daemon.BIN}", flush=True)
            context = container.context_of_programs(cls.store.folder / "context")
            cls.store.build(context, PREBUILT="prebuilt", REVISION="a-revision")

    def test_what_the_image_says_of_itself(self):
        image = self.store.image()
        config = image["Config"]
        self.assertEqual(config["User"], f"{USER}:{USER}")
        self.assertEqual(config["Entrypoint"], ["lodgekvd"])
        self.assertEqual(config["Cmd"], ["--pool", POOL])
        self.assertEqual(list(config["Volumes"]), ["/var/lib/lodgekv"])
        self.assertEqual(sorted(config["ExposedPorts"]), ["7411/tcp", "7413/tcp", "7414/tcp"])
        self.assertEqual(image["Healthcheck"]["Test"][:2], ["CMD", "lodgectl"])
        labels = {name.removeprefix("org.opencontainers.image."): value
                  for name, value in config["Labels"].items()}
        self.assertEqual(labels["licenses"], "Apache-2.0")
        self.assertEqual(labels["revision"], "a-revision")
        version = self.in_image("lodgekvd", "--version").stdout.decode().split()[1]
        self.assertEqual(labels["version"], version)

    def in_image(self, program, *words):
        """Runs to the end."""
        command = ["podman", *self.store.flags, "run", "--rm", *container.RUN, "--no-healthcheck",
                   "--entrypoint", program, container.IMAGE, *words]
        return subprocess.run([str(word) for word in command], capture_output=True, timeout=120,
                              check=False)

    def test_a_sick_one_is_seen(self):
        nobody = f"127.0.0.1:{daemon.free_port()}"
        outcome = self.in_image("lodgectl", "--timeout", "2s", "--admin", nobody, "status")
        self.assertEqual(outcome.returncode, 4, outcome.stderr)

    # --- a server in it ---

    def start(self, name, data):
        """Serves the pool in the folder; its ports are given by variables, for lodgectl as well."""
        server, admin = (f"127.0.0.1:{daemon.free_port()}" for _ in range(2))
        variables = {"LODGEKV_LISTEN": server, "LODGEKV_ADMIN_LISTEN": admin,
                     "LODGEKV_METRICS_LISTEN": "off", "LODGEKV_POOL_SIZE": "64MiB",
                     "LODGEKV_SERVER": server, "LODGEKV_ADMIN": admin}
        options = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
        self.store.run(name=name, options=[*options, "--volume", f"{data}:/var/lib/lodgekv"])
        self.addCleanup(self.store.podman, "rm", "--force", "--ignore", name)
        deadline = time.monotonic() + daemon.START_SECONDS
        while not self.is_serving(name):
            if time.monotonic() > deadline:
                self.fail(f"no service: {self.store.podman('logs', name)}")
            time.sleep(0.1)
        return server

    def is_serving(self, name):
        status = self.exec(name, "lodgectl", "status").stdout
        return re.search(rb"^state +serving$", status, re.M) is not None

    def exec(self, name, *words):
        command = ["podman", *self.store.flags, "exec", name, *words]
        return subprocess.run([str(word) for word in command], capture_output=True, timeout=120,
                              check=False)

    def ctl(self, server, *words):
        outcome = daemon.run(daemon.LODGECTL, "--server", server, *words,
                             env=daemon.environment())
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def stop(self, name):
        """By SIGTERM; the exit code."""
        self.store.podman("stop", "--time", daemon.STOP_SECONDS, name)
        return int(self.store.podman("wait", name))

    def test_put_stop_start_get(self):
        data = self.folder(daemon.disk_folder())
        os.chown(data, USER, USER)
        server = self.start("first", data)
        self.ctl(server, "put", "hello", "world")
        self.check_confinement("first")
        self.store.podman("healthcheck", "run", "first")
        self.assertEqual(self.stop("first"), 0)
        server = self.start("second", data)
        self.assertEqual(self.ctl(server, "get", "hello"), b"world\n")
        self.assertEqual(self.stop("second"), 0)
        self.assertEqual(sorted(path.name for path in data.iterdir()),
                         ["lodgekv.pool", "lodgekv.pool.journal"])

    def check_confinement(self, name):
        status = dict(line.split(":\t", 1) for line in
                      self.exec(name, "cat", "/proc/1/status").stdout.decode().splitlines())
        self.assertEqual(status["Name"], "lodgekvd")
        self.assertEqual(status["Uid"].split(), [str(USER)] * 4)
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertEqual(status["NoNewPrivs"], "1")
        outcome = self.exec(name, "touch", "/usr/bin/new", "/etc/new", "/new")
        self.assertEqual(outcome.stderr.count(b"Read-only file system"), 3, outcome.stderr)


if __name__ == "__main__":
    system_test.main()
