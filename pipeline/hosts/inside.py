"""What starts the probes inside a container: `python3 -c THIS SECONDS ARGUMENT…`. Standard library.

stdin is a line with a number of bytes, then a zip archive of that size, and then it stays open for
as long as whoever started this lives. When it ends, or the time is over, everything here is killed:
a container outlives neither a caller that was killed nor a line that broke.
"""

import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile

MOMENT = 5.0  # seconds that the driver has to end its children


def main(seconds: str, *arguments: str) -> int:
    """Unpack the archive, run its run.py with the arguments, and return its exit status."""
    size = int(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(size)
    if len(data) != size:
        print("the probes did not arrive whole", file=sys.stderr)
        return 125
    with tempfile.TemporaryDirectory(prefix="smoke-") as folder:
        zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
        return run([sys.executable, f"{folder}/run.py", *arguments], float(seconds))


def run(command: list[str], seconds: float) -> int:
    """Run a program in a session of its own, until it ends, stdin ends, or the time is over."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    ended = threading.Event()

    def stop(why: str) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
            except ProcessLookupError:
                pass
            if number == signal.SIGTERM:
                complain(why)
                ended.wait(MOMENT)  # the driver ends the probes, which have sessions of their own

    def watch() -> None:
        while sys.stdin.buffer.read(1 << 16):
            pass
        stop("whoever asked for the probes is gone")

    # A thread that only waits for stdin must not keep the process.
    threading.Thread(target=watch, daemon=True).start()
    timer = threading.Timer(seconds, stop, ["the time is over"])
    timer.daemon = True
    timer.start()
    status = child.wait()
    ended.set()
    return status if status >= 0 else 128 - status


def complain(why: str) -> None:
    """Say why on stderr, if anybody listens."""
    try:
        print(why, file=sys.stderr, flush=True)
    except OSError:
        pass


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    # Not sys.exit: the thread that waits for stdin holds a lock that the exit would wait for.
    os._exit(status)
