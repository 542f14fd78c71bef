"""Encoders in settings: functions, libraries and their errors."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from lycosa.core.errors import ConfigError, EncoderError
from lycosa.vectors.encoders import load_encoder
from tests.vectors.conftest import config_of
from tests.vectors.encoders import HASHED


@pytest.mark.parametrize("source", [HASHED, "tests.vectors.encoders:AsClass"])
def test_function_or_class_as_encoder(source: str) -> None:
    rows = load_encoder(config_of(source)).passages(["a car", ""])
    assert rows.shape == (2, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows[0]) == pytest.approx(1)
    assert not rows[1].any()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("nonsense", "package.module:function"),
        ("tests.vectors.encoders:absent", "absent"),
        ("tests.absent:x", r"tests\.absent"),
        ("tests.vectors.encoders:nothing", "not a function"),
    ],
)
def test_invalid_encoder_source_is_an_error(source: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_encoder(config_of(source))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("wrong_shape", r"shape \(1, 3\) for 2 texts"),
        ("infinite", "not finite"),
        ("raising", "RuntimeError: out of memory"),
    ],
)
def test_invalid_result_of_an_encoder_is_an_error(name: str, problem: str) -> None:
    encoder = load_encoder(config_of(f"tests.vectors.encoders:{name}"))
    with pytest.raises(EncoderError, match=problem):
        encoder.passages(["x", "y"])


@pytest.mark.parametrize(
    ("library", "module"),
    [("fastembed", "fastembed"), ("sentence-transformers", "sentence_transformers")],
)
def test_error_names_the_model_setting_and_the_missing_package(
    library: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.model"):
        load_encoder(config_of(library))
    if importlib.util.find_spec(module) is not None:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"pip install 'lycosa\[{library}\]'"):
        load_encoder(config_of(library, model="m"))
