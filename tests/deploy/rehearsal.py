"""The image without a container runtime: every step of the Dockerfile is run, and its result as the cluster runs it.

The instructions are carried out in mount namespaces of this machine, with its own files in the place of the base
image: RUN in a copy-on-write root, COPY from the project or from the earlier stage. What comes out is started with
the arguments of the Deployment as user 65532, without capabilities, on a root that cannot be written to.

    python -m tests.deploy.rehearsal [--python PREFIX]

PREFIX is an installation of Python to be the image's, by default the one that runs this. It needs root, and the
package index for the locked dependencies.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import yaml

from tests.deploy.dockerfile import DOCKERFILE, ROOT, Instruction, Stage, stages

DEPLOYMENT = ROOT / "deploy/kustomize/base/deployment-podgate.yaml"
#: Flags of the Deployment that need a cluster.
NEEDS_CLUSTER = {"--live"}
ARCHITECTURES = ("x86_64", "aarch64")
#: What the base image, with glibc 2.41, takes of these.
MANYLINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
START_SECONDS = 30.0
#: What the Deployment counts on: docs/operations.md says that the process is gone within five seconds.
STOP_SECONDS = 5.0
AS_IN_THE_CLUSTER = [
    *("setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"),
    *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"),
]
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main() -> None:
    """Enter a mount namespace, and rehearse there."""
    parser = argparse.ArgumentParser(description="Rehearse the image's build and start, without docker.")
    parser.add_argument("--python", type=Path, default=Path(sys.base_prefix), metavar="PREFIX")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("rehearsal: needs root, to mount")
    if not options.inside:
        again = [sys.executable, "-m", "tests.deploy.rehearsal", "--inside", "--python", str(options.python)]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])
    with tempfile.TemporaryDirectory(prefix="podgate-image-") as folder:
        try:
            mount("-t", "tmpfs", "none", folder)
            find_wheels(Path(folder) / "wheels")
            try_out(build(Path(folder), options.python))
        finally:
            subprocess.run(["umount", "--recursive", folder], check=False)


def find_wheels(folder: Path) -> None:
    """Fetch every locked package as a wheel for each architecture of the image."""
    image = stages(DOCKERFILE.read_text())[0].base
    version = image.removeprefix("python:").partition("-")[0]
    for architecture in ARCHITECTURES:
        say(f"locked packages for {architecture}, Python {version}")
        platforms = [f"--platform={each}_{architecture}" for each in MANYLINUX]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
        what = ["--only-binary=:all:", "--requirement", str(ROOT / "requirements.lock")]
        where = [f"--python-version={version}", "--dest", str(folder / architecture)]
        subprocess.run([*pip, *what, *platforms, *where], check=True)


def mount(*arguments: str) -> None:
    """Mount, in this namespace alone."""
    subprocess.run(["mount", *arguments], check=True)


def build(folder: Path, python: Path) -> Path:
    """Carry out every stage; the root of the last one."""
    roots: dict[str, Path] = {}
    for number, stage in enumerate(stages(DOCKERFILE.read_text())):
        say(f"stage {number}: FROM {stage.base} {stage.name}")
        root = new_root(folder / str(number), python)
        carry_out(stage, root, roots)
        roots[stage.name] = root
    return root


def new_root(folder: Path, python: Path) -> Path:
    """This machine's files, copy-on-write, with one Python where the base image has it."""
    root, upper, work = (folder / name for name in ("root", "upper", "work"))
    for each in (root, upper, work):
        each.mkdir(parents=True)
    mount("-t", "overlay", "none", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", str(root))
    for name in ("proc", "dev", "sys"):
        mount("--rbind", f"/{name}", str(root / name))
    if python not in {Path("/usr"), Path("/usr/local")}:
        mount("--bind", str(python), str(root / "usr/local"))
    for private in ("tmp", "root", "home"):
        mount("-t", "tmpfs", "none", str(root / private))
    subprocess.run(["chroot", str(root), "ldconfig"], check=True)  # a Python may have its library beside it
    return root


def carry_out(stage: Stage, root: Path, roots: dict[str, Path]) -> None:
    """Do what the instructions of a stage say."""
    environment = {"PATH": PATHS, "HOME": "/root"}
    # How this machine reaches its package index is no part of the image.
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    environment["PIP_QUIET"] = "1"
    workdir = Path("/")
    for each in stage.instructions:
        if each.word == "RUN":
            say(f"RUN {each.rest}")
            command = ["chroot", str(root), "sh", "-ec", f"cd {workdir} && {each.rest}"]
            subprocess.run(command, check=True, env=environment)
        elif each.word == "COPY":
            copy(each, root, workdir, roots)
        elif each.word == "WORKDIR":
            workdir = Path(each.rest)
            (root / workdir.relative_to("/")).mkdir(parents=True, exist_ok=True)
        elif each.word == "ENV":
            environment |= with_path(each, environment)


def copy(each: Instruction, root: Path, workdir: Path, roots: dict[str, Path]) -> None:
    """COPY, from the project or from an earlier stage."""
    say(f"COPY {each.rest}")
    *sources, target = each.rest.split()
    origin = ROOT
    if sources[0].startswith("--from="):
        origin = roots[sources.pop(0).removeprefix("--from=")]
    destination = root / (workdir / target).relative_to("/")
    for source in (origin / name.removeprefix("/") for name in sources):
        if source.is_dir():
            ignored = (
                shutil.ignore_patterns() if origin is not ROOT else shutil.ignore_patterns("__pycache__")
            )
            shutil.copytree(source, destination, symlinks=True, ignore=ignored)
        else:
            shutil.copy(source, destination)


def with_path(env: Instruction, environment: dict[str, str]) -> dict[str, str]:
    """The pairs of an ENV, with the PATH there was."""
    return {name: value.replace("$PATH", environment["PATH"]) for name, value in env.pairs.items()}


def try_out(root: Path) -> None:
    """Start what was built as the Deployment does, ask it, and stop it."""
    last = stages(DOCKERFILE.read_text())[-1]
    environment = {"PATH": PATHS, "HOME": "/"}
    for each in last.all("ENV"):
        environment |= with_path(each, environment)
    (entrypoint,) = last.all("ENTRYPOINT")
    give_files(root, environment, entrypoint.words)
    mount("-o", "remount,ro", str(root))
    for writable in ("tmp", "dev/shm"):
        mount("-t", "tmpfs", "-o", "size=16m,mode=1777", "none", str(root / writable))
    must_not_write(root, environment)
    serve(["chroot", str(root), *AS_IN_THE_CLUSTER, *entrypoint.words], environment)


def give_files(root: Path, environment: dict[str, str], podgate: list[str]) -> None:
    """What the Deployment mounts: policies, no policies of a site, and a pair that only the group may read."""
    mounted = root / "etc/podgate"
    for name in ("policies", "site", "tls"):
        (mounted / name).mkdir(parents=True)
    for file in policy_files():
        shutil.copy(file, mounted / "policies")
    names = ["--service", "podgate", "--namespace", "podgate-system", "--ip", "127.0.0.1"]
    command = ["chroot", str(root), *podgate, "certs", "--out", "/made", *names]
    subprocess.run(command, check=True, env=environment)
    for name in ("tls.crt", "tls.key"):
        file = mounted / "tls" / name
        shutil.copy(root / "made" / name, file)
        os.chown(file, 0, 65532)
        file.chmod(0o440)


def policy_files() -> list[Path]:
    """The files that the ConfigMap is made of."""
    listed = yaml.safe_load((ROOT / "policies/Kustomization").read_text())
    return [ROOT / "policies" / name for name in listed["configMapGenerator"][0]["files"]]


def must_not_write(root: Path, environment: dict[str, str]) -> None:
    """Fail if anything but the two mounts can be written to."""
    for place in ("/", "/opt/podgate", "/etc/podgate/policies", "/tmp", "/dev/shm"):
        command = ["chroot", str(root), *AS_IN_THE_CLUSTER, "touch", f"{place}/written"]
        done = subprocess.run(command, check=False, capture_output=True, env=environment)
        if (done.returncode == 0) != (place in {"/tmp", "/dev/shm"}):
            raise fail(f"{place}: {done.stderr.decode() or 'can be written to'}")
    say("only /tmp and /dev/shm can be written to")


def serve(podgate: list[str], environment: dict[str, str]) -> None:
    """Start the server, wait until it is ready, and end it as the kubelet does."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [*podgate, *arguments_of_the_deployment(), f"--bind=127.0.0.1:{port}"]
    say(" ".join(command))
    with subprocess.Popen(command, env=environment) as process:
        try:
            body = ready(process, f"https://127.0.0.1:{port}/readyz")
            say(f"/readyz: {body}")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=STOP_SECONDS)
        finally:
            process.kill()
    if code != 0:
        raise fail(f"SIGTERM ended it with {code}")
    say(f"SIGTERM: gone after {time.monotonic() - began:.1f} s")


def arguments_of_the_deployment() -> list[str]:
    """Its container's arguments, but for those that need a cluster."""
    (container,) = yaml.safe_load(DEPLOYMENT.read_text())["spec"]["template"]["spec"]["containers"]
    return [argument for argument in container["args"] if argument not in NEEDS_CLUSTER]


def ready(process: subprocess.Popen[bytes], url: str) -> str:
    """The body of the first 200."""
    context = ssl._create_unverified_context()
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2, context=context) as answer:
                return str(answer.read().decode().strip())
        except OSError:
            time.sleep(0.1)
    raise fail(f"{url}: not ready within {START_SECONDS:.0f} s, or ended")


def say(text: str) -> None:
    """Report a step."""
    print(f"rehearsal: {text}", flush=True)  # noqa: T201


def fail(text: str) -> SystemExit:
    """What ends it, with a reason."""
    return SystemExit(f"rehearsal: FAILED: {text}")


if __name__ == "__main__":
    main()
