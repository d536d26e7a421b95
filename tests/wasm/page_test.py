#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows examples/web/README.md in headless Chromium, with a sound file as the microphone.

Usage: page_test.py README PAGE_FOLDER WAV REFUSED_MODEL
Exit code 77: there is no Chromium.
"""

import http.server
import json
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SKIPPED = 77
SECONDS_MAX = 120
# Types a command, listens until all words of the sound file are heard, and posts what is shown.
DRIVER = """
const shown = (id) => document.getElementById(id).innerText;
const until = async (holds, seconds) => {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end && !holds();) {
    await new Promise((done) => setTimeout(done, 50));
  }
};
await until(() => document.body.dataset.ready || shown("error"), 60);
if (!shown("error")) {
  document.getElementById("ask").requestSubmit();
  document.getElementById("listen").click();
  await until(() => /yes.*stop.*left.*right/.test(shown("words")) || shown("error"), 20);
}
const report = {};
for (const id of ["error", "answer", "words", "load", "bytes"]) report[id] = shown(id);
await fetch("/report", { method: "POST", body: JSON.stringify(report) });
"""


def handler_of(page, replaced, reports):
    """Serves the folder, with the driver added to index.html and some files replaced."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=page)

        def do_GET(self):
            name = self.path.lstrip("/")
            body = replaced.get(name)
            if name == "index.html":
                driver = f'<script type="module">{DRIVER}</script>'
                body = ((Path(page) / name).read_text() + driver).encode()
            if body is None:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if name == "index.html" else "")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    return Handler


def report_of(chromium, page, wav, replaced):
    """What the page shows, by the id of its parts."""
    reports = queue.Queue()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(page, replaced, reports))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", f"--user-data-dir={profile}", "--remote-debugging-port=0",
             "--autoplay-policy=no-user-gesture-required", "--use-fake-ui-for-media-stream",
             "--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={wav}",
             f"http://127.0.0.1:{server.server_port}/index.html"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return reports.get(timeout=SECONDS_MAX)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


def main():
    readme, page, wav, refused = sys.argv[1:]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("skipped: there is no Chromium")
        return SKIPPED
    report = report_of(chromium, page, wav, {})
    for part in report.values():
        print(part)
    promised = " ".join(Path(readme).read_text().split())
    problems = []
    if not page.endswith(re.search(r"--directory (\S+)", promised)[1]):
        problems.append("README.md serves another folder")
    if report["error"]:
        problems.append("the page shows an error")
    if not report["answer"] or f' becomes ``` {report["answer"]} ```' not in promised:
        problems.append("the command has another answer than in README.md")
    if not re.search(r"yes.*stop.*left.*right", report["words"]):
        problems.append("the words of the sound are not heard")
    load = re.match(r"[\d.]+ s heard, ([\d.]+) % of the time taken, by simd128$", report["load"])
    if not load or float(load[1]) >= 100:
        problems.append("the spotter is slower than its sound")
    error = report_of(chromium, page, wav, {"wake.arn": Path(refused).read_bytes()})["error"]
    print(error)
    if not error or f"``` {error} ```" not in promised:
        problems.append("a model for another CPU is not refused as README.md says")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
