"""What pyproject.toml cannot say yet: an extension module, without which shardmill works, more slowly.

Beam's --setup_file.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "shardmill._native",
            ["src/shardmill/_native.c", "src/shardmill/_native_tar.c", "src/shardmill/_native_examples.c"],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,  # where there is no C compiler
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
