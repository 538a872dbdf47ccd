"""Stands for actions/upload-artifact: a zip file in the rehearsal's folder, an error if there is nothing."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from pathlib import Path

from ci.rehearsal.world import World

REFUSED = re.compile(r"""[":<>|*?\r\n\\/]""")
"""What the real action refuses in a name."""


def main() -> int:
    """Upload what the step's inputs say."""
    name, path = os.environ["UPLOAD_NAME"], Path(os.environ["UPLOAD_PATH"])
    if REFUSED.search(name):
        print(f"::error::the name {name!r} is not allowed")
        return 1
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in files if not file.name.startswith(".")]
    if not files:
        print(f"no files were found with the path {path}")
        return 1 if os.environ.get("UPLOAD_IF_NONE") == "error" else 0
    target = World.here().uploads / os.environ["GITHUB_WORKFLOW"] / f"{name}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        print(f"::error::an artifact called {name} exists already (409)")
        return 1
    root = path.parent if path.is_file() else path
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(root).as_posix())
    print(f"uploaded {name}: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
