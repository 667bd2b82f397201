"""What pyproject.toml cannot say yet: an extension module, without which shardmill works, more slowly.

Beam's --setup_file.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "shardmill._native",
            [f"src/shardmill/_native{part}.c" for part in ("", "_tar", "_examples", "_encoding", "_images", "_json")],
            depends=["src/shardmill/_native.h"],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,  # where there is no C compiler
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
