"""A headless Chromium that opens one of our pages and answers a question about it."""

import html
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_ANSWER = re.compile(r'<pre id="answer">(.*?)</pre>', re.DOTALL)


def find() -> str | None:
    """Returns the browser's path; None where this machine has none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def opened(page: str, *flags: str) -> str:
    """Returns the document that a page has become once its scripts ran.

    Raises:
      subprocess.CalledProcessError: The browser failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "page.html")
        path.write_text(page, encoding="utf-8")
        done = subprocess.run(
            [
                find(),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={folder}/profile",
                # No name resolves: a page that asks for anything gets nothing.
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--window-size=1300,900",
                "--virtual-time-budget=5000",
                *flags,
                "--dump-dom",
                path.as_uri(),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=240,
        )
    return done.stdout


def ask(page: str, script: str, *flags: str) -> Any:
    """Returns what the body of an async function returns in the page, as JSON.

    The page's policy lets no script in but its own, so that it is taken off first.
    """
    asking = (
        "<script>(async () => {"
        "const answer = document.createElement('pre'); answer.id = 'answer';"
        f"const act = async () => {{ {script} }};"
        "try { answer.textContent = JSON.stringify(await act()); }"
        "catch (error) { answer.textContent = JSON.stringify('failed: ' + error.stack); }"
        "document.body.append(answer); })()</script></body></html>"
    )
    without_policy = _POLICY.sub("", page)
    assert without_policy != page
    document = opened(without_policy.replace("</body></html>", asking), *flags)
    return json.loads(html.unescape(_ANSWER.search(document)[1]))
