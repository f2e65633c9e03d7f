"""The deploy files name options that there are, and numbers that fit the service's."""

import re
from pathlib import Path

import pytest

from coverlock_plugins.service.access import Limits
from coverlock_plugins.service.commands import serve

FOLDER = Path(__file__).parents[2] / "examples" / "deploy"
DOCKERFILE = FOLDER.parents[1] / "docker" / "service.Dockerfile"


@pytest.mark.parametrize("file", [FOLDER / "compose.yaml", FOLDER / "kubernetes.yaml", DOCKERFILE])
def test_the_service_has_the_options_that_files_give_it(file):
    known = {name for option in serve.params for name in option.opts}
    text = "\n".join(line.partition("#")[0] for line in file.read_text().splitlines())
    given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text[text.rindex("--listen") - 40 :]))
    others = {"--save", "--maxmemory-policy"}  # of Redis
    assert "--behind-proxy" in given
    assert given - others <= known


def test_the_proxy_waits_longer_and_lets_as_much_through_as_the_service():
    text = (FOLDER / "nginx.conf").read_text()
    [megabytes] = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(megabytes) * 1_000_000 == Limits().bytes
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", text)
    assert int(seconds) > 2 * Limits().seconds
    [kept] = re.findall(r"\n        keepalive_timeout (\d+)s;", text)
    assert int(kept) < 75
