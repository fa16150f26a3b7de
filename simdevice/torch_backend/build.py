"""Find, build and load the native half, `simdevice._device`. setup.py runs this file by its path, to read what the
sources are: nothing of the package and nothing that has to be installed is imported at the top."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path
from types import ModuleType

__all__ = ["DEFINES", "FLAGS", "BuildError", "build_cached", "device_root", "load", "load_prebuilt", "sources"]

FLAGS = ["-std=c++20", "-O2", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden"]
# Kineto's headers name fmt functions that PyTorch's wheel does not export.
DEFINES = [("USE_KINETO", None), ("FMT_HEADER_ONLY", "1")]

_PACKAGE = Path(__file__).resolve().parents[1]
_loaded: ModuleType | None = None


class BuildError(ImportError):
    """The native half cannot be loaded or built; the text says what to install or run."""


def device_root() -> Path:
    """Where the C++ sources are: beside the package in a checkout, inside it in a wheel."""
    for root in (_PACKAGE.parent / "csrc" / "device", _PACKAGE / "csrc" / "device"):
        if root.is_dir():
            return root
    raise BuildError("simacc's C++ sources are missing from this installation: reinstall simdevice")


def sources() -> list[Path]:
    """The translation units. The device is one: PyTorch's headers cost more to read than our code."""
    root = device_root()
    return [root / "Device.cpp", root / "binding" / "Module.cpp"]


def load_prebuilt() -> ModuleType | None:
    """The extension that the installation or an earlier first use compiled, loaded, if there is one that can be."""
    try:
        path = _prebuilt() or _cached(make=False)
        return None if path is None else _load_from(path)
    except Exception as error:  # whatever it is: `import torch` goes on
        warnings.warn(f"the simacc device could not be loaded and is off: {_advice(error)}", stacklevel=2)
        return None


def load() -> ModuleType:
    """The native half, compiled on first use where the installation carries only sources.

    Raises:
        BuildError: no compiler, or it failed, or what it compiled cannot be loaded; one line that says what to do.
    """
    path = _prebuilt() or _cached(make=True)
    assert path is not None
    try:
        return _load_from(path)
    except Exception as error:  # the loader's and the library's own: all of them mean the same here
        raise BuildError(f"the simacc device could not be loaded: {_advice(error)}") from error


def _advice(error: Exception) -> str:
    return (
        f"{_first_line(error)}; rebuild it with: pip install --no-build-isolation --force-reinstall --no-deps simdevice"
    )


def _load_from(path: Path) -> ModuleType:
    global _loaded
    if _loaded is None:
        import torch  # noqa: F401  # its libraries must be loaded first

        spec = importlib.util.spec_from_file_location("simdevice._device", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["simdevice._device"] = module
        _loaded = module
    return _loaded


def _prebuilt() -> Path | None:
    path = _PACKAGE / f"_device{sysconfig.get_config_var('EXT_SUFFIX')}"
    return path if path.is_file() else None


def _key() -> str:
    """What a compiled device depends on: our sources, PyTorch and Python."""
    import torch

    digest = hashlib.sha256(f"{torch.__version__} {sys.version} {FLAGS} {DEFINES}".encode())
    for path in sorted(device_root().rglob("*")):
        if path.suffix in (".cpp", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cached(*, make: bool) -> Path | None:
    import platformdirs

    home = Path(platformdirs.user_cache_dir("simdevice")) / _key()
    path = home / f"_device{sysconfig.get_config_var('EXT_SUFFIX')}"
    if path.is_file() or not make:
        return path if path.is_file() else None
    return build_cached(path)


def build_cached(path: Path) -> Path:
    """Compile the device once, whoever asks first; others wait. The file appears whole or not at all."""
    from filelock import FileLock

    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        raise BuildError(
            f"the simacc device needs a C++20 compiler and {compiler!r} is not on the PATH: install one "
            "(Debian: apt install g++); traces, costs and the Python engines work without it"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                print(
                    "simacc: compiling the device for this PyTorch, once (about a minute) ...",
                    file=sys.stderr,
                    flush=True,
                )
                with tempfile.TemporaryDirectory(dir=path.parent) as work:
                    os.replace(_compile(Path(work)), path)
    except OSError as error:  # no right to write, no space
        raise BuildError(
            f"the simacc device cannot be compiled into {path.parent}: {error.strerror or error}; "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return path


def _compile(work: Path) -> Path:
    from torch.utils import cpp_extension

    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            cpp_extension.load(
                "_device",
                [str(s) for s in sources()],
                extra_cflags=[*FLAGS, *(f"-D{n}" + (f"={v}" if v else "") for n, v in DEFINES)],
                extra_include_paths=[str(kineto_include())],
                build_directory=str(work),
                is_python_module=False,
                verbose=False,
            )
    except Exception as error:
        raise BuildError(f"the simacc device did not compile: {_first_line(error)}") from error
    return next(work.glob("_device*.so"))


def kineto_include() -> Path:
    """Headers that PyTorch's own include and that its wheel keeps in a folder of their own."""
    import torch

    return Path(torch.__file__).parent / "include" / "kineto"


def _first_line(error: BaseException) -> str:
    lines = (
        [line for line in str(error).splitlines() if "error" in line.lower()]
        or str(error).splitlines()
        or [repr(error)]
    )
    return lines[0].strip()
