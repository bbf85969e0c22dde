"""An attack in a process of its own, and whether the server has seen it."""

import dataclasses
import multiprocessing
import os
import resource
import signal
import time

import attacks
import metrics_page

# To end after its time: an attack sees that it is over between two steps.
GRACE_SECONDS = 30
SEEN_SECONDS = 2
SCRAPE_SECONDS = 20


@dataclasses.dataclass
class Outcome:
    line: str  # what load it was
    over: float  # when, by time.monotonic()
    faults: list[str]


def attack(name, target, seconds, *, niceness, attempts):
    """An attempt that the server has not seen is followed by one of twice the time."""
    trace = attacks.ATTACKS[name].trace
    seen_before = _value_of(trace, target)
    for attempt in range(attempts):
        outcome = _attempt(name, target, seconds * 2**attempt, niceness)
        try:
            if outcome.faults or _is_seen(trace, target, seen_before):
                return outcome
        except OSError as error:
            outcome.faults.append(f"the server's metrics can not be read: {error}")
            return outcome
    outcome.faults.append(f"the server saw nothing of it: {trace} is as before")
    return outcome


def _attempt(name, target, seconds, niceness):
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_run, args=(name, target, seconds, niceness, theirs),
                                      daemon=True)
    process.start()
    theirs.close()  # so that its end is seen
    try:
        if not ours.poll(seconds + GRACE_SECONDS):
            return _failed("the attack did not end")
        load = ours.recv()
        return Outcome(load.line, time.monotonic(), [] if load.done else ["the attack did nothing"])
    except EOFError:
        return _failed("the attack's process died")
    finally:
        process.terminate()
        process.join()


def _failed(fault):
    return Outcome(fault, time.monotonic(), [fault])


def _run(name, target, seconds, niceness, pipe):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.nice(niceness)
    pipe.send(attacks.ATTACKS[name].run(target, time.monotonic() + seconds))


def _is_seen(trace, target, before):
    deadline = time.monotonic() + SEEN_SECONDS
    while _value_of(trace, target) <= before:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _value_of(metric, target):
    return _scrape(target).get(f"lodgekv_{metric}", 0)  # some are shown after their first event


def _scrape(target):
    """There may be no room at first, after an attack on this port."""
    deadline = time.monotonic() + SCRAPE_SECONDS
    while True:
        try:
            return metrics_page.read(target.metrics)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
