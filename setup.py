"""Only what the C++ builds and the files outside the package need; the rest is in pyproject.toml."""

import os
import runpy
from pathlib import Path

from setuptools import Extension, find_packages, setup

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # importing torch here must not load a half-built device

HERE = Path(__file__).parent.resolve()
NATIVE_REQUIRED = os.environ.get("SIMACC_REQUIRE_NATIVE") == "1"
native = runpy.run_path(str(HERE / "simdevice" / "torch_backend" / "build.py"))


def relative(path):
    return os.path.relpath(path, HERE)


def extensions():
    """The engine always; the device where PyTorch is visible (else its first use compiles it)."""
    import pybind11

    flags = native["FLAGS"]
    engine_sources = sorted((HERE / "csrc" / "engine").glob("*.cpp"))
    found = []
    if engine_sources:
        found.append(
            Extension(
                "simdevice._engine",
                [relative(p) for p in engine_sources],
                include_dirs=[pybind11.get_include()],
                depends=[relative(p) for p in (HERE / "csrc" / "engine").glob("*.h")],
                extra_compile_args=flags,
                language="c++",
                optional=not NATIVE_REQUIRED,
            )
        )
    try:
        from torch.utils.cpp_extension import CppExtension
    except ImportError:
        return found, {}
    from torch.utils.cpp_extension import BuildExtension

    class SealedBuild(BuildExtension):
        """What it compiles is sealed, wherever it lies: in the folder a wheel is made of, and beside the sources."""

        def run(self):
            super().run()
            asked_for = self.inplace
            for self.inplace in {False, asked_for}:
                library = Path(self.get_ext_fullpath("simdevice._device"))
                if library.is_file():
                    native["seal"](library)
            self.inplace = asked_for

    device = CppExtension(
        "simdevice._device",
        [relative(p) for p in native["sources"]()],
        include_dirs=[str(native["kineto_include"]())],
        define_macros=native["DEFINES"],
        depends=[relative(p) for p in native["device_root"]().rglob("*") if p.suffix in (".cpp", ".h")],
        extra_compile_args={"cxx": flags},
    )
    device.optional = not NATIVE_REQUIRED
    return [*found, device], {"build_ext": SealedBuild}


ext_modules, cmdclass = extensions()

setup(
    packages=[*find_packages(include=["simdevice*", "ort_ep*"]), "simdevice.configs", "simdevice.csrc"],
    package_dir={"simdevice.configs": "configs", "simdevice.csrc": "csrc"},
    package_data={
        "simdevice": ["py.typed", "*.pyi"],
        "simdevice.configs": ["**/*.yaml", "**/*.json"],
        "simdevice.csrc": ["**/*.cpp", "**/*.h"],
    },
    ext_modules=ext_modules,
    cmdclass=cmdclass,
)
