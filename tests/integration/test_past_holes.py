"""One test for each past hole of others, tried from inside or through an image.

Each also shows the attack succeeding in a build with -Dattack_switches=true, where DAIV_SANDBOX_ATTACK_WITHOUT names
the one defence that is off: else it would prove nothing. The list of switches is runtime/'s.
"""
import json
import os
import pathlib

import pytest

import daemon as daemons
import images
import oci
from daemon import Refused
from inside import python
from oci import Layer, entry, hardlink, symlink


@pytest.fixture(scope="session")
def attack_build(request, build):
    path = request.config.getoption("--attack-build")
    if not path:
        pytest.skip("no build with -Dattack_switches=true was given")
    return pathlib.Path(path)


@pytest.fixture
def without(attack_build):
    """without(defence): the API of a daemon whose runtime lacks that one defence."""
    made = []

    def make(defence):
        made.append(daemons.Daemon(attack_build, {"DAIV_SANDBOX_ATTACK_WITHOUT": defence}))
        return made[-1].start().api()

    yield make
    for one in made:
        one.remove()
