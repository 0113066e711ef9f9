#!/usr/bin/env python3
"""Builds tests with cargo and runs their programs beside one another: most tests wait for servers, links and timers.

    run.py [--quick | --full] [WORDS FOR CARGO TEST]

Without --full it leaves out the tests marked `#[ignore = "full"]`, and those of `FULL`; with --quick it takes those of `QUICK` alone
of the programs named there.

What a program prints is shown whole when it has ended, and the last line counts the tests of all. A program that ends otherwise
than libtest does, or is not over in time, counts as a failed test. Where the user may, each program has process numbers of its own,
so that no server of one can signal a process of another by a number that is used again.

A failed test runs once more, with nothing beside it, when all programs are done, unless very many failed. If it passes then, it counts
as passed and is listed as unsteady: it depends on the load, which is to be mended, but not on what it tests.

HAUL_TEST_JOBS is how many programs run at once, RUST_TEST_THREADS how many tests at once in each: as many as there are processors.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

# Tests of --full: the same checks against further servers and file systems. What their names begin with, by program.
FULL = {
    "s3": ["matrix::"],
    "remote": ["ssh::makes::", "ssh::shells::", "suite_agent::ssh::"],
    "servers": ["mode_e::", "striped::"],
    "suites": [
        "ftp::proftpd::",
        "ftp::pyftpdlib::a_listing_is_whole",
        "ftp::vsftpd::",
        "gridftp::encrypted::",
        "gridftp::plain_data::",
        "local::btrfs::",
        "local::xfs::",
        "mode_e::",
        "s3::versitygw::",
        "sftp::pipe::a_listing_is_whole",
        "sftp::proftpd::",
        "sftp::ssh::",
        "web::apache::",
        "web::rclone::",
    ],
}
# Tests of --quick: without servers and mounts.
QUICK = {"suites": ["memory::"]}
# The programs that take longest, longest first: what starts last should be short. The others follow in any order.
LONG = ["remote", "s3", "engine", "it", "servers", "suites", "slurm", "job", "resume", "core"]
# What they find are rates and what limits a run, with processors of their own: one at a time, when all others are done.
ALONE = ["bench", "tools"]
# No program takes a fifth of it on a machine that does nothing else.
LONGEST_SECONDS = 2400
# So many failures of a busy machine are run again. More have another cause.
MOST_AGAIN = 24

# Begins a program with process numbers of its own, whose first process is `run.py --first PROGRAM`; it ends when that does.
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.abspath(__file__), "--first"]

RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)


def build(words):
    """The programs of the tests: name, directory of the package, path."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *words]
    programs = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cargo:
        for line in cargo.stdout:
            message = json.loads(line)
            if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
                programs.append((message["target"]["name"], os.path.dirname(message["manifest_path"]), message["executable"]))
    if cargo.returncode:
        sys.exit(cargo.returncode)
    return programs


def first(program):
    """The first process of a program's own (the program and its arguments): waits for those that have lost their parents, and ends as the program does."""
    child = os.posix_spawn(program[0], program, os.environ)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            # 128 and more is a signal's, as with a shell.
            return code if code >= 0 else 128 - code


class Run:
    """Programs on their way, and what came of those that have ended."""

    def __init__(self, tier):
        self.tier = tier
        self.apart = APART if subprocess.run([*APART, "/bin/true"], capture_output=True).returncode == 0 else []
        self.lock = threading.Lock()
        self.running = set()
        self.counts = [0, 0, 0]
        self.failed = []
        self.again = []

    def one(self, program, tests=()):
        """Runs a program, or just these of its tests: whether all passed, and what to tell of it."""
        name, directory, path = program
        chosen = [word for start in FULL.get(name, []) for word in ("--skip", start)]
        if self.tier == "--full":
            chosen = ["--include-ignored"]
        elif self.tier == "--quick" and not tests:
            chosen += QUICK.get(name, [])
        with tempfile.TemporaryFile() as output:
            begun = time.monotonic()
            with self.lock:
                # In a session of its own there is no terminal to ask somebody at, and all that it starts can be ended with it.
                child = subprocess.Popen(
                    [*self.apart, path, *chosen, *(["--exact", *tests] if tests else [])],
                    cwd=directory,
                    env=dict(os.environ, CARGO_MANIFEST_DIR=directory),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self.running.add(child)
            in_time = True
            try:
                child.wait(LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                in_time = False
                end(child)
                child.wait()
            with self.lock:
                self.running.discard(child)
            output.seek(0)
            code = child.returncode if child.returncode < 128 else 128 - child.returncode
            said = output.read().decode(errors="replace")
            return self.tell(program, tests, time.monotonic() - begun, code, in_time, said)

    def tell(self, program, tests, seconds, code, in_time, said):
        name, _, path = program
        counted = RESULT.findall(said)
        # Otherwise than by passed and failed tests: ended by a signal, or without a word of what was run.
        odd = not counted or code not in (0, 101) or (code == 101) != any(int(failed) for _, failed, _ in counted)
        with self.lock:
            print(f"== {name} ({path}): {seconds:.1f} s", said.rstrip("\n"), sep="\n")
            how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            how = how if in_time else f"not over after {LONGEST_SECONDS} s, ended"
            if odd:
                print(f"{name}: {how}")
            sys.stdout.flush()
            names = re.findall(r"^test (.*) \.\.\. FAILED", said, re.MULTILINE)
            passed = not odd and code == 0 and sum(int(passed) for passed, _, _ in counted) == (len(tests) or 1)
            if tests:
                return passed
            for numbers in counted:
                self.counts = [sum(pair) for pair in zip(self.counts, map(int, numbers))]
            self.counts[1] += odd
            if odd:
                self.failed.append(f"{name}: {how}")
            elif code:
                self.again += [(program, test) for test in names]
            return not code

    def all(self, programs, jobs):
        """Runs them in their order, so many at once."""
        waiting = list(reversed(programs))

        def work():
            while True:
                with self.lock:
                    if not waiting:
                        return
                    program = waiting.pop()
                self.one(program)

        workers = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def once_more(self):
        """Runs the tests that failed alone, one after another: the names of those that pass then."""
        unsteady = []
        for program, test in self.again:
            name = f"{program[0]}: {test}"
            # A test that should panic has that behind its name.
            if len(self.again) <= MOST_AGAIN and self.one(program, [test.removesuffix(" - should panic")]):
                unsteady.append(name)
                self.counts[0] += 1
                self.counts[1] -= 1
            else:
                self.failed.append(name)
        return unsteady

    def stop(self, number, _frame):
        for child in list(self.running):
            end(child)
        os._exit(128 + number)


def end(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main():
    if sys.argv[1:2] == ["--first"]:
        return first(sys.argv[2:])
    tier = sys.argv[1] if sys.argv[1:2] in (["--quick"], ["--full"]) else ""
    programs = build(sys.argv[2:] if tier else sys.argv[1:])
    order = {name: place for place, name in enumerate(LONG)}
    programs.sort(key=lambda program: (order.get(program[0], len(order)), program[0]))
    jobs = int(os.environ.get("HAUL_TEST_JOBS", len(os.sched_getaffinity(0))))
    run = Run(tier)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, run.stop)
    run.all([program for program in programs if program[0] not in ALONE], jobs)
    run.all([program for program in programs if program[0] in ALONE], 1)
    unsteady = run.once_more()
    # Those left to --full are not skipped: they belong to another run.
    passed, failed, _ = run.counts
    if unsteady:
        print("unsteady (failed beside others, passed alone):", *unsteady, sep="\n    ")
    if run.failed:
        print("failed:", *run.failed, sep="\n")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or run.failed or not passed else 0


sys.exit(main())
