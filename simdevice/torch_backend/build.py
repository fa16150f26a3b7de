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
from pathlib import Path
from types import ModuleType

__all__ = [
    "DEFINES",
    "FLAGS",
    "BuildError",
    "build_cached",
    "device_root",
    "load",
    "load_prebuilt",
    "loaded",
    "seal",
    "sealed",
    "sources",
    "usable",
]

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


def usable() -> bool:
    """Whether the device can be used: it is compiled, or can be. Compiles nothing."""
    if _loaded is not None or _compiled() is not None:
        return True
    try:
        device_root()
    except BuildError:
        return False
    return shutil.which(_compiler()) is not None


def loaded() -> ModuleType | None:
    """The native half, if it is loaded already."""
    return _loaded


def load_prebuilt() -> ModuleType | None:
    """The extension that the installation or an earlier first use compiled, loaded, if there is one that can be.

    Says nothing where there is none: it is called for programs that never name the device; `load` says what is wrong.
    """
    with contextlib.suppress(Exception):  # whatever it is: `import torch` goes on
        path = _compiled()
        return None if path is None else _load_from(path)
    return None


def load() -> ModuleType:
    """The native half, compiled on first use where the installation has none that fits this PyTorch.

    Raises:
        BuildError: no compiler, or it failed, or what it compiled cannot be loaded; one line that says what to do.
    """
    if _loaded is not None:
        return _loaded
    path = _compiled()
    if path is None:
        path = build_cached(_cache())
    try:
        return _load_from(path)
    except Exception as error:  # the loader's and the library's own: all of them mean the same here
        raise BuildError(
            f"the simacc device could not be loaded: {_first_line(error)}; rebuild it with: "
            "pip install --no-build-isolation --force-reinstall --no-deps simdevice"
        ) from error


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


def seal(library: Path) -> None:
    """Write beside a library that was just compiled what it is: a digest of its bytes, and PyTorch's version. Loading
    a damaged library, or one for another PyTorch, can end the interpreter; `sealed` is asked first."""
    beside = _seal_of(library)
    unfinished = beside.with_name(f"{beside.name}.{os.getpid()}")
    unfinished.write_text(_seal(library))
    os.replace(unfinished, beside)


def sealed(library: Path) -> bool:
    """Whether a library is there, and is the one that was compiled for this PyTorch."""
    try:
        return _seal_of(library).read_text() == _seal(library)
    except (OSError, UnicodeDecodeError):
        return False


def _seal(library: Path) -> str:
    import torch

    return f"{hashlib.sha256(library.read_bytes()).hexdigest()} torch {torch.__version__}\n"


def _seal_of(library: Path) -> Path:
    return library.with_name(f"{library.name}.sha256")


def _compiled() -> Path | None:
    """The library to load: the installation's, else one that an earlier first use compiled."""
    path = _prebuilt()
    if path is not None:
        return path
    try:
        path = _cache()
    except (ImportError, OSError):  # no sources, so that nothing was compiled from them
        return None
    return path if sealed(path) else None


def _prebuilt() -> Path | None:
    path = _PACKAGE / f"_device{sysconfig.get_config_var('EXT_SUFFIX')}"
    return path if sealed(path) else None


def _key() -> str:
    """What a compiled device depends on: our sources, PyTorch and Python."""
    import torch

    digest = hashlib.sha256(f"{torch.__version__} {sys.version} {FLAGS} {DEFINES}".encode())
    for path in sorted(device_root().rglob("*")):
        if path.suffix in (".cpp", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    """Where first use compiles to.

    Raises:
        BuildError: the sources are missing.
    """
    import platformdirs

    home = Path(platformdirs.user_cache_dir("simdevice")) / _key()
    return home / f"_device{sysconfig.get_config_var('EXT_SUFFIX')}"


def _compiler() -> str:
    return os.environ.get("CXX", "c++")


def build_cached(path: Path) -> Path:
    """Compile the device once, whoever asks first; others wait. The file appears whole or not at all."""
    from filelock import FileLock

    compiler = _compiler()
    if shutil.which(compiler) is None:
        raise BuildError(
            f"the simacc device needs a C++20 compiler and {compiler!r} is not on the PATH: install one "
            "(Debian: apt install g++); traces, costs and the Python engines work without it"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not sealed(path):
                print(
                    "simacc: compiling the device for this PyTorch, once (about a minute) ...",
                    file=sys.stderr,
                    flush=True,
                )
                with tempfile.TemporaryDirectory(dir=path.parent) as work:
                    compiled = _compile(Path(work))
                    seal(compiled)
                    # The seal first: without its library it is nothing, a library without it would be compiled again.
                    os.replace(_seal_of(compiled), _seal_of(path))
                    os.replace(compiled, path)
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
