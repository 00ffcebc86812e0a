"""The batch script of an allocation that waits for a guard and runs it inside.

Slurm sends a preemption's SIGCONT and SIGTERM at once to the steps of a job, but to its batch shell only together with the
kill; and of a step, where cgroups track processes, only to the process that srun began (seen with 22.05). So the guard
runs in a step, whose shell hands SIGTERM on to it and starts it again after an upgrade. Everything that the guard starts or
brings back is in that step too: accounted there, ended with it.
"""

from __future__ import annotations

# Constant text; docs/providers/slurm.md shows the same. The root is that of `backends.nodes.inside`; the Comment that says
# "ready", with the host's public key behind it, is what `jobs.SlurmJob` reads.
SCRIPT = """#!/bin/sh
# Holds this allocation for Reprieve: its guard runs in a step here once `reprieve fleet install` has put it there.
trap '' TERM
umask 077
root=/tmp/reprieve-slurm-$SLURM_JOB_ID
mkdir -p "$root" && [ -O "$root" ] || exit 1
exec srun --overlap -N1 -n1 -c "${SLURM_CPUS_ON_NODE:-1}" --mem=0 --kill-on-bad-exit=0 /bin/sh -c '
  trap "kill -TERM \\$guard 2>/dev/null" TERM
  root=$0 guard=
  key=$(cut -d" " -f1,2 /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null)
  scontrol update JobId="$SLURM_JOB_ID" Comment="reprieve $key"
  while :; do
    until [ -e "$root/state/guard.json" ] && [ ! -e "$root/state/ended" ]; do sleep 1; done
    REPRIEVE_SUPERVISOR=slurm "$root/bin/reprieve-node" serve &
    guard=$!
    while kill -0 $guard 2>/dev/null; do wait $guard; done
    sleep 5
  done' "$root"
"""
