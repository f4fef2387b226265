"""git, with an identity of its own."""

import subprocess


def run(folder, *words, succeeds=True):
    """What ``git WORD...`` prints; it must succeed, or must fail."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.autocrlf=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True)
    assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
    return done.stdout


def commit(folder, message):
    """All that is there."""
    run(folder, "add", "-A")
    run(folder, "commit", "-qm", message)
