"""Compares requirements.txt with the known vulnerabilities of Python packages: `make audit`. Not knowing is a failure.

It asks OSV, which has the advisories of GitHub and PyPI. First it asks about an old version whose vulnerabilities are
public: a service that knows none of them is away, or is a mirror without advisories, and its silence means nothing.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = "jinja2==2.4.1"
COMMAND = (sys.executable, "-m", "pip_audit", "--vulnerability-service=osv", "--disable-pip", "--progress-spinner=off")
REMEDY = "Nothing was audited. Run `make audit` where that service can be reached."


def main() -> None:
    more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "known.txt"
        file.write_text(f"{KNOWN}\n", encoding="utf-8")
        command = [*COMMAND, "--no-deps", "--format=json", *more, "-r", str(file)]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(asked.stdout)["dependencies"][0].get("vulns")
    except ValueError:
        why = (asked.stderr.strip() or "no answer").splitlines()[-1]
        sys.exit(f"audit: the vulnerability service does not answer ({why}). {REMEDY}")
    if not found:
        sys.exit(f"audit: the vulnerability service knows no vulnerability of {KNOWN}, which has many. {REMEDY}")
    # Strict: a package that the service cannot be asked about fails the audit.
    command = [*COMMAND, "--strict", *more, "-r", str(ROOT / "requirements.txt")]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(
            "audit: see above. Upgrade what is vulnerable (`make update`). If there is no mended version, "
            "say in SECURITY.md why it does no harm here, and name it in scripts/audit.py."
        )


if __name__ == "__main__":
    main()
