#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds an installed bill of materials to SPDX 2.3, to the notices beside it, and to what others
say of the same build: the program's dynamic section and, on Debian, the package manager.

Usage: check_sbom.py PREFIX
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

# The packages of Debian whose files are compiled in or linked.
DEBIAN = {
    "FlatBuffers": "libflatbuffers-dev",
    "CLI11": "libcli11-dev",
    "Eigen": "libeigen3-dev",
    "fmt": "libfmt-dev",
    "nlohmann-json": "nlohmann-json3-dev",
    "libzip": "libzip-dev",
    "utf8proc": "libutf8proc-dev",
}
# Names of shared libraries, but for those of the compiler and the C library.
SHARED = {"libfmt": "fmt", "libzip": "libzip", "libutf8proc": "utf8proc"}
TOOLCHAIN = re.compile(r"^(libstdc\+\+|libm|libgcc_s|libc|libpthread|ld-linux.*)\.so")
OURS = {"arenite", "arenite-program"}
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


def expect(holds, message):
    if not holds:
        sys.exit(f"arenite.spdx.json: {message}")


def check_document(sbom):
    expect(sbom["spdxVersion"] == "SPDX-2.3", "is not SPDX 2.3")
    expect(sbom["dataLicense"] == "CC0-1.0", "its own licence must be CC0-1.0")
    expect(sbom["SPDXID"] == "SPDXRef-DOCUMENT", "the document has another id")
    expect(re.match(r"^https://\S+$", sbom["documentNamespace"]), "its namespace is no address")
    expect(TIME.match(sbom["creationInfo"]["created"]), "its time is not in UTC")
    expect(sbom["creationInfo"]["creators"][0].startswith("Tool: "), "nobody made it")


def check_packages(packages):
    for package in packages.values():
        name = package["name"]
        expect(package["SPDXID"] == f"SPDXRef-{name}", f"{name} has another id")
        expect(re.match(r"^[A-Za-z0-9.-]+$", name), f"{name} cannot be part of an id")
        expect(re.match(r"^\d+(\.\d+)+", package.get("versionInfo", "")), f"{name} has no version")
        for key in ("downloadLocation", "licenseDeclared", "licenseConcluded", "copyrightText"):
            expect(package[key], f"{name} has no {key}")
        expect(package["filesAnalyzed"] is False, f"{name} lists no files")


def check_relations(relations, packages):
    ids = {package["SPDXID"] for package in packages.values()} | {"SPDXRef-DOCUMENT"}
    for relation in relations:
        for end in ("spdxElementId", "relatedSpdxElement"):
            expect(relation[end] in ids, f"nothing is called {relation[end]}")
    related = {relation["relatedSpdxElement"] for relation in relations}
    expect(related == ids - {"SPDXRef-DOCUMENT"}, "a package is related to nothing")


def check_program(program, relations):
    """What the program is linked with dynamically is listed so, and nothing else is."""
    listed = {relation["relatedSpdxElement"].removeprefix("SPDXRef-") for relation in relations
              if relation["relationshipType"] == "DYNAMIC_LINK"}
    if not program.exists() or not shutil.which("readelf"):
        return
    output = subprocess.run(["readelf", "-d", program], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    needed = [name for name in re.findall(r"\(NEEDED\).*\[(.+)\]", output)
              if not TOOLCHAIN.match(name)]
    expect({SHARED.get(name.split(".")[0], name) for name in needed} == listed,
           f"lists {sorted(listed)}, and the program needs {needed}")


def check_debian(packages):
    for name, package in DEBIAN.items():
        if name not in packages or not shutil.which("dpkg-query"):
            continue
        found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               check=False).stdout
        # As 2.0.8+dfsg1-2, with an epoch or not.
        upstream = re.match(r"^(?:\d+:)?(\d+(?:\.\d+)*)", found)
        listed = packages[name]["versionInfo"]
        expect(upstream is None or upstream.group(1) == listed,
               f"{name} is {listed}, and {package} is {found}")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    prefix = Path(sys.argv[1])
    folder = prefix / "share" / "doc" / "arenite"
    sbom = json.loads((folder / "arenite.spdx.json").read_text(encoding="utf-8"))
    packages = {package["name"]: package for package in sbom["packages"]}
    expect(len(packages) == len(sbom["packages"]), "two packages have one name")
    check_document(sbom)
    check_packages(packages)
    check_relations(sbom["relationships"], packages)
    notices = {path.name for path in (folder / "notices").iterdir()}
    expect(set(packages) - OURS == notices, f"lists {sorted(packages)}, notices are {notices}")
    check_program(prefix / "bin" / "arenite", sbom["relationships"])
    check_debian(packages)
    print(f"{len(packages)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
