"""What a tool's own words mean, and what to do: CRIU's log lines → one plain sentence with a remedy.

The fragments are those seen in practice; they are stable across CRIU 3.17 to 4.3. Some error lines appear in
every good run too (no CAP_SYS_RESOURCE, no /dev/net/tun): they are never taken for the cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from backends.clean import clean

HARMLESS = (
    "Can't setup RLIMIT_NOFILE",
    "Unable to create tun",
    "Iptables configuration failed",
    "Could not process rule: No such file or directory",
    "Can't keep kdat cache on non-tempfs",
    "Can't load kdat cache",
)

# Lines that say only that something went wrong, never what.
_VAGUE = (
    "Dumping FAILED",
    "Restoring FAILED",
    "One of more action scripts failed",
    "exited, status=",
    "failed with -1",
)


@dataclass(frozen=True)
class Cause:
    """A failure in words: the reason with the values found, what to do, and the tool's own line."""

    reason: str
    remedy: str
    line: str

    @property
    def text(self) -> str:
        """One line: cause, remedy and the tool's words."""
        return (
            f"{self.reason}: {self.remedy} (criu: {self.line})"
            if self.line
            else f"{self.reason}: {self.remedy}"
        )


# pattern, reason (may use the pattern's groups), remedy; the first match over the whole log wins.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"rt vDSO area bounds|vvar_vclock",
        "this CRIU is too old for the running kernel",
        "install CRIU 4.2 or newer on the node; jobs that save themselves (engine signal) still work",
    ),
    (
        r"Can't get 1:(?:16|34) opt",
        "this CRIU cannot save sockets on kernel 6.16 and newer",
        "install CRIU 4.2 or newer on the node",
    ),
    (
        r"Can't fork for (\d+): File exists",
        "process id {0} is taken",
        "restore into a fresh PID namespace, or end the process that holds it (a zombie counts)",
    ),
    (
        r"[Pp]id mismatch|do not match expected",
        "a process id of the job is taken",
        "restore into a fresh PID namespace",
    ),
    (
        r"File (\S+) has bad size (\d+) \(expect (\d+)\)",
        "file {0} has {1} bytes where the save expects {2}",
        "roll the file back to the save (declare it in the job's `files`, or set rollback for a network file system)",
    ),
    (
        r"File (\S+) has bad (mode|build-ID)",
        "file {0} was replaced since the save",
        "put the same build of it in place; its {1} differs",
    ),
    (
        r"Can't dump file .*\(chr 195:|/dev/nvidia",
        "the job holds a GPU device",
        "use the engine criu-cuda or a job that saves itself (engine signal)",
    ),
    (
        r"anon_inode:\[io_uring\]|io_uring",
        "the job uses io_uring, which CRIU cannot save",
        "start it without: USE_LIBUV=0 for torch.distributed, UV_USE_IO_URING=0 for other libuv programs",
    ),
    (
        r"Unsupported mapping",
        "the job maps something that CRIU cannot save (io_uring, or memory of a device)",
        "start it without io_uring (USE_LIBUV=0 for torch.distributed), or use engine signal",
    ),
    (
        r"send_fds failed \(-22\)|Can't retrieve FDs from socket",
        "the job holds a descriptor that CRIU cannot take (often io_uring)",
        "start it without io_uring (USE_LIBUV=0 for torch.distributed)",
    ),
    (
        r"Can't dump ghost file (\S+) of (\d+) size",
        "the deleted file {0} of {1} bytes that the job still holds open is over the limit",
        "the limit follows what the job holds; save again, or let the job close the file",
    ),
    (
        r"Can't link remap .*File exists",
        "leftovers of an earlier save lie in the way",
        "remove the link_remap.* files named in the line",
    ),
    (
        r"Can't create link remap for (\S+)",
        "the job holds {0} open, which was deleted but has another name",
        "save again with --link-remap",
    ),
    (
        r"file locks are hold",
        "the job holds file locks",
        "save again with --file-locks",
    ),
    (
        r"Timeout reached\. Try to interrupt",
        "the processes could not all be stopped in time",
        "look for one in uninterruptible sleep (state D) or held by a GPU driver",
    ),
    (
        r"Failed to unlock process status",
        "a process may still be locked by the GPU driver",
        "ask cuda-checkpoint for its state and unlock it",
    ),
    (
        r"(?:PAUSE|CHECKPOINT)_DEVICES failed",
        "the GPU state could not be taken",
        "look at cuda-checkpoint's state of the process and unlock it",
    ),
    (
        r"OS call failed or operation not supported on this OS",
        "the GPU driver refuses (unified memory, IPC or NCCL peer memory), or it is not root",
        "start the job with NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_SHM_DISABLE=1, or use engine signal",
    ),
    (
        r"Can't bind inet socket.*Cannot assign requested address|Cannot assign requested address",
        "a socket of the job is bound to an address that this node does not have",
        "let the job listen on 0.0.0.0 or 127.0.0.1, or restore where the address exists",
    ),
    (
        r"Can't bind inet socket.*Address already in use|Address already in use",
        "a port that the job listens on is in use on this node",
        "end the program that holds it, or wait a minute for closed connections to vanish",
    ),
    (
        r"Connected TCP socket, consider",
        "the job holds an established TCP connection",
        "save with --tcp-close: the job must reconnect",
    ),
    (
        r"CPU instruction capabilities do not match|FPU feature required",
        "this node's CPU lacks features that the job uses",
        "restore on a node with the same CPU features",
    ),
    (
        r"Found slave peer index|Don't have tty to inherit",
        "the job belongs to a terminal whose other end is not part of it",
        "start it with setsid and its output in a file, or protect the whole tmux server",
    ),
    (
        r"session leader of \d+\(\d+\) is outside of its pid",
        "the job belongs to a session that was begun outside of this container or PID namespace",
        "start it here with setsid",
    ),
    (
        r"not a session leader",
        "the job's root process leads no session",
        "save with --shell-job, or start the job with setsid",
    ),
    (
        r"fsnotify: Can't dump that handle",
        "a file that the job watches (inotify) has no name CRIU can find",
        "save with --force-irmap and the watched directory",
    ),
    (
        r"Can't dump half of stream unix connection",
        "the job holds a stream unix socket whose other end is outside of it",
        "restart it with its output in a file instead of the journal or an agent's socket",
    ),
    (
        r"External socket is used",
        "the job holds a unix socket of a host service",
        "save with --ext-unix-sk",
    ),
    (
        r"unix: Can't bind .* addr (\S+): No such file or directory",
        "the directory of the unix socket {0} is missing",
        "create the directory; saves made by this version record and recreate it",
    ),
    (
        r"doesn't have a proper root mount",
        "the job lives in another mount namespace",
        "save from inside that namespace (container: use the container's runtime)",
    ),
    (
        r"Can't open file (\S+) on restore: No such file",
        "file {0}, which the job holds open, is missing here",
        "declare it in the job's `files` so that it travels with the save",
    ),
    (
        r"Can't lookup mount=\d+ for fd",
        "an open file of the job lies on a mount that is not visible to it",
        "start the job with its output in a file inside its own mounts",
    ),
    (
        r"No space left on device",
        "the staging disk is full",
        "free space on the node: a save needs the job's memory and captured files",
    ),
    (
        r"Tracking memory is not available",
        "this kernel does not track changed memory",
        "nothing: full saves are used",
    ),
    (
        r"Can't read pages data|Can't parse pagemap|Preadv .* returned 0",
        "the memory image is incomplete",
        "use the previous checkpoint",
    ),
    (
        r"Unexpected EOF on|Unexpected EOF",
        "an image file is incomplete",
        "use the previous checkpoint",
    ),
    (
        r"x86: Corruption in|Magic doesn't match|unpack.*failed",
        "an image file is damaged",
        "use the previous checkpoint",
    ),
    (
        r"SysVIPC shmem map",
        "the job uses System V shared memory of the node's IPC namespace",
        "start it with POSIX shared memory, or use engine signal",
    ),
    (
        r"is already traced|Unable to attach|Can't seize|being traced",
        "another program traces the job",
        "end the debugger or the save under way, then save again",
    ),
    (
        r"mapfile link .*Operation not permitted|sem_next_id is inaccessible|[Nn]eed CAP_",
        "CRIU lacks the rights it needs",
        "run the guard as root",
    ),
    (
        r"Can't set next pid|clone3.*Invalid argument|Can't fork for (\d+): Invalid argument",
        "a process id of the job is above this node's kernel.pid_max",
        "raise kernel.pid_max to that of the job's old node",
    ),
    (
        r"Script \S+ exited with|Can't exec",
        "the script that holds the freeze could not run",
        "mount the disk of the node's root directory without noexec",
    ),
    (
        r"Can't get rlimit",
        "CRIU lacks CAP_SYS_RESOURCE, which saving a job of another user needs",
        "run the guard as full root (in a container: grant SYS_RESOURCE), or the job as root",
    ),
    (
        r"pidfile: Can't open .*: File exists",
        "a pid file of an earlier restore lies in the way",
        "remove it",
    ),
)  # fmt: skip
_COMPILED = [(re.compile(pattern), reason, remedy) for pattern, reason, remedy in _KNOWN]
_PREFIX = re.compile(r"^\(\d+\.\d+\)\s*(?:\s*\d+: )?(?:Error|Warn)\s+\([^)]*\):\s*")


def explain(log: str) -> Cause:
    """The cause behind a failed run, from its log; the tool's first telling error line when none is known."""
    errors = [
        line
        for line in log.splitlines()
        if "Error" in line or "Unable" in line or "BUG" in line or "Preadv" in line
    ]
    errors = [line for line in errors if not any(text in line for text in HARMLESS)]
    for line in errors:
        for pattern, reason, remedy in _COMPILED:
            match = pattern.search(line)
            if match is not None:
                values = [clean(value or "", limit=120) for value in match.groups()]
                return Cause(reason.format(*values), remedy, _shorten(line))
    telling = [line for line in errors if not any(text in line for text in _VAGUE)] or errors
    if telling:
        return Cause("CRIU failed for a reason not known here", "see the log", _shorten(telling[0]))
    return Cause("CRIU ended without saying why", "see the log", "")


def _shorten(line: str) -> str:
    return clean(_PREFIX.sub("", line.strip()), limit=200)
