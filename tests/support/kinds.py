"""Programs that hold one kind of thing each and check at every step that it still works."""

from __future__ import annotations

PRELUDE = r"""
import contextlib, fcntl, mmap, os, pathlib, select, signal, socket, struct, subprocess, sys, tempfile, threading, time
home = pathlib.Path(sys.argv[1])
log = open(home / "log.txt", "a", buffering=1)
def run(check=lambda step: None):
    step = 0
    while True:
        step += 1
        check(step)
        log.write(f"{step}\n")
        time.sleep(0.01)
"""

KINDS = {
    "plain": "run()",
    "written file": r"""
out = open(home / "state.txt", "w", buffering=1)
def check(step):
    out.write(f"{step}\n")
    assert len((home / "state.txt").read_text().split()) == step, "the file does not fit the memory"
run(check)
""",
    "child tree with pipes": r"""
def serve(read, write):
    while (data := os.read(read, 4)):
        os.write(write, struct.pack("<I", struct.unpack("<I", data)[0] + 1))
    os._exit(0)
pipes = []
for _ in range(4):
    a, b = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(a[1]); os.close(b[0])
        serve(a[0], b[1])
    os.close(a[0]); os.close(b[1])
    pipes.append((a[1], b[0]))
def check(step):
    for write, read in pipes:
        os.write(write, struct.pack("<I", step))
        assert struct.unpack("<I", os.read(read, 4))[0] == step + 1
run(check)
""",
    "threads": r"""
counts = [0] * 4
def work(n):
    while True:
        counts[n] += 1; time.sleep(0.001)
for n in range(4): threading.Thread(target=work, args=(n,), daemon=True).start()
def check(step):
    before = list(counts); time.sleep(0.02)
    assert step < 3 or all(b > a for a, b in zip(before, counts)) or time.sleep(0.3) or counts != before
run(check)
""",
    "shared memory segment": r"""
path = f"/dev/shm/reprieve-test-{os.getpid()}"
file = os.open(path, os.O_RDWR | os.O_CREAT); os.ftruncate(file, 8192); area = mmap.mmap(file, 8192); os.close(file)
area[4096:4100] = b"kept"
def check(step):
    assert area[4096:4100] == b"kept"
    with open(path, "rb") as f: assert f.read()[4096:4100] == b"kept"
    assert struct.unpack("<I", area[:4])[0] == step - 1, "shared memory does not fit the step"
    area[:4] = struct.pack("<I", step)
run(check)
""",
    "deleted open file": r"""
file = open(home / "gone.bin", "w+b"); file.write(os.urandom(5 << 20)); file.flush()
os.unlink(home / "gone.bin")
file.seek(4 << 20); kept = file.read(64)
def check(step):
    file.seek(4 << 20); assert file.read(64) == kept
run(check)
""",
    "deleted file with another name": r"""
(home / "sub").mkdir(exist_ok=True)
first = home / "sub" / "first"; first.write_bytes(b"data")
os.link(first, home / "sub" / "second"); file = open(first, "r+b"); os.unlink(first)
def check(step):
    file.seek(0); assert file.read() == b"data"
run(check)
""",
    "locks": r"""
one = open(home / "one.lock", "w"); fcntl.flock(one, fcntl.LOCK_EX)
two = open(home / "two.lock", "w"); fcntl.lockf(two, fcntl.LOCK_EX)
def check(step):
    with open(home / "one.lock") as again:
        try: fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: return
    raise SystemExit("the lock is lost")
run(check)
""",
    "unix sockets inside": r"""
(home / "sockets").mkdir(exist_ok=True)
server = socket.socket(socket.AF_UNIX); server.bind(str(home / "sockets" / "s")); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(str(home / "sockets" / "s")); peer, _ = server.accept()
def check(step):
    client.send(b"x"); assert peer.recv(1) == b"x"
    other = socket.socket(socket.AF_UNIX); other.connect(str(home / "sockets" / "s")); server.accept()[0].close(); other.close()
run(check)
""",
    "epoll, timerfd, eventfd, memfd": r"""
import ctypes
poll = select.epoll(); pair = socket.socketpair(); poll.register(pair[0], select.EPOLLIN)
memory = os.memfd_create("m"); os.write(memory, b"kept"); event = os.eventfd(0)
libc = ctypes.CDLL(None); timer = libc.timerfd_create(1, 0)
def check(step):
    pair[1].send(b"x"); assert poll.poll(1); pair[0].recv(1)
    assert os.pread(memory, 4, 0) == b"kept"
    os.eventfd_write(event, step); assert os.eventfd_read(event) == step
run(check)
""",
    "inotify": r"""
import ctypes
libc = ctypes.CDLL(None); watch = libc.inotify_init1(0o4000)
(home / "watched").mkdir(exist_ok=True); folder = os.open(home / "watched", os.O_RDONLY)
assert libc.inotify_add_watch(watch, str(home / "watched").encode(), 0x100) > 0
def check(step):
    for attempt in range(2):  # CRIU drops an event that is pending when it saves, never two in a row
        (home / "watched" / f"f{step}.{attempt}").touch()
        if select.select([watch], [], [], 1)[0]: break
    else: raise AssertionError("two events in a row were lost")
    os.read(watch, 4096)
run(check)
""",
    "named pipe": r"""
os.mkfifo(home / "fifo"); end = os.open(home / "fifo", os.O_RDWR)
def check(step):
    os.write(end, b"x"); assert os.read(end, 1) == b"x"
run(check)
""",
    "shared file mapping": r"""
file = os.open(home / "map.bin", os.O_RDWR | os.O_CREAT); os.ftruncate(file, 1 << 16); area = mmap.mmap(file, 1 << 16)
os.close(file)
def check(step):
    assert struct.unpack("<I", area[:4])[0] == step - 1, "the mapped file does not fit the step"
    area[:4] = struct.pack("<I", step)
run(check)
""",
    "listener and packets": r"""
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", 0)); server.listen()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))
raw = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); raw.bind((0, 0))
packet = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM); packet.bind(("lo", 0x0800))
six = socket.socket(socket.AF_INET6); six.bind(("::1", 0)); six.listen()
def check(step):
    udp.sendto(b"x", udp.getsockname()); assert udp.recv(1) == b"x"
    if step % 10 == 0:
        client = socket.create_connection(server.getsockname(), 5)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.accept()[0].close(); client.close()
run(check)
""",
    "temporary directory of a pool": r"""
place = pathlib.Path(tempfile.mkdtemp(prefix="pymp-", dir=home)); os.chdir(place)
def check(step):
    pathlib.Path("work").write_text(str(step)); assert os.getcwd() == str(place)
run(check)
""",
    "devices, its own /proc, a child program": r"""
null, random, mine = open("/dev/null", "wb", 0), open("/dev/urandom", "rb", 0), open("/proc/self/status")
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def check(step):
    null.write(b"x"); assert len(random.read(8)) == 8
    mine.seek(0); assert mine.readline().startswith("Name:")
    child.stdin.write(b"%d\n" % step); child.stdin.flush()
    assert int(child.stdout.readline()) == step and child.poll() is None
run(check)
""",
    "eight children on shared memory": r"""
area = mmap.mmap(-1, 4096); path = f"/dev/shm/reprieve-test-{os.getpid()}"
file = os.open(path, os.O_RDWR | os.O_CREAT); os.ftruncate(file, 4096); named = mmap.mmap(file, 4096); os.close(file)
ask, asked = [], []
for n in range(8):
    read, write = os.pipe(); done, told = os.pipe()
    if os.fork() == 0:
        while (step := os.read(read, 8)):
            area[8 * n:8 * n + 8] = named[8 * n:8 * n + 8] = step
            os.write(told, b"x")
        os._exit(0)
    ask.append(write); asked.append(done)
def check(step):
    for write in ask: os.write(write, struct.pack("<q", step))
    for done in asked: assert os.read(done, 1) == b"x"
    assert area[:64] == named[:64] == struct.pack("<q", step) * 8
run(check)
""",
    "large deleted open file": r"""
file = open(home / "gone.bin", "w+b")
for _ in range(50): file.write(os.urandom(1 << 20))
file.flush(); os.unlink(home / "gone.bin"); file.seek(49 << 20); kept = file.read(64)
def check(step):
    file.seek(49 << 20); assert file.read(64) == kept
run(check)
""",
    "semaphore of a library": r"""
import _multiprocessing
lock = _multiprocessing.SemLock(1, 1, 1, f"/reprieve-{os.getpid()}", True)
def check(step):
    assert lock.acquire(True, 1); lock.release()
run(check)
""",
}
