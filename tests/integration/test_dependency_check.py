"""The dependency check sees what it is there for: a wrong edge, a private header, a parser in the broker."""
import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).parents[1] / "check_dependencies.py"


@pytest.fixture
def check(tmp_path, monkeypatch):
    """check(file, line): the faults of a tree in which that file has that line."""
    spec = importlib.util.spec_from_file_location("check_dependencies", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)

    def run(file, line):
        source = tmp_path / file
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"#pragma once\n{line}\n")
        return [fault for _, faults in module.checks(None) for fault in faults]
    return run


@pytest.mark.parametrize("file, line", [
    ("os/a.cpp", '#include "wire/codec.hpp"'), ("agent/a.cpp", '#include "runtime/broker.hpp"'),
    ("runtime/a.hpp", '#include "images/store.hpp"'), ("sessions/a.cpp", '#include "agent/reaper.hpp"'),
    ("sessions/a.cpp", '#include "cli/settings.hpp"'), ("cli/a.cpp", '#include "images/detail/a.hpp"'),
    ("os/a.cpp", '#include "error.hpp"'), ("runtime/a.cpp", "#include <nlohmann/json.hpp>"),
    ("netns/a.cpp", "#  include <archive.h>"), ("images/a.hpp", "#include <curl/curl.h>"),
])
def test_a_forbidden_include_is_seen(check, file, line):
    assert len(check(file, line)) >= 1


@pytest.mark.parametrize("file, line", [
    ("wire/a.cpp", '#include "os/error.hpp"'), ("sessions/a.cpp", '#include "agent/protocol.hpp"'),
    ("cli/a.cpp", '#include "images/image_service.hpp"'), ("images/a.cpp", "#include <curl/curl.h>"),
    ("runtime/a.cpp", "#include <vector>"), ("images/a.hpp", "#include <nlohmann/json_fwd.hpp>"),
])
def test_a_permitted_include_is_not(check, file, line):
    assert check(file, line) == []
