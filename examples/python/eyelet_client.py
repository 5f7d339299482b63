# SPDX-License-Identifier: Apache-2.0
"""What the examples share: one request to a server of eyelet, with Python's standard library alone."""
import argparse
import base64
import concurrent.futures
import json
import mimetypes
import os
import time
import urllib.error
import urllib.request

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".heic", ".avif")
TRIES = 5


def arguments(what):
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--server", default="http://localhost:8000", help="http://localhost:8000")
    parser.add_argument("--key", default=os.environ.get("EYELET_API_KEY", ""),
                        help="the server's key, if it has one ($EYELET_API_KEY)")
    parser.add_argument("--at-once", type=int, default=4, help="requests at the same time: the server's --max-num-seqs")
    return parser


def image_part(path):
    """The part of a message that is this file."""
    kind = mimetypes.guess_type(path)[0] or "image/jpeg"
    with open(path, "rb") as file:
        data = base64.b64encode(file.read()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


def ask(options, path, question, **more):
    """The answer's text about one image. A server that is full is tried again; other errors are raised."""
    content = [image_part(path), {"type": "text", "text": question}]
    body = json.dumps({"messages": [{"role": "user", "content": content}], **more}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {options.key or 'none'}"}
    for attempt in range(TRIES):
        try:
            request = urllib.request.Request(options.server + "/v1/chat/completions", body, headers)
            with urllib.request.urlopen(request) as reply:
                return json.load(reply)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            if error.code != 503 or attempt == TRIES - 1:
                raise RuntimeError(json.load(error)["error"]["message"]) from None
            time.sleep(float(error.headers.get("Retry-After", 1)))


def images_in(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.lower().endswith(IMAGES))


def each(options, paths, answer):
    """(path, answer(path), None) or (path, None, error) for each, several at a time, in order."""
    def one(path):
        try:
            return path, answer(path), None
        except (OSError, ValueError, RuntimeError) as error:
            return path, None, str(error)
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        yield from pool.map(one, paths)
