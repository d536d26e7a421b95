# SPDX-License-Identifier: Apache-2.0
"""PlatformIO's options for this library alone: C++20, without exceptions and run-time types."""

Import("env")  # noqa: F821

env.Append(  # noqa: F821
    CCFLAGS="@kernel_flags@".split(),
    CXXFLAGS=["-std=gnu++20", "-DARENITE_FLAGS_GIVEN", "-fno-exceptions", "-fno-rtti"],
)
