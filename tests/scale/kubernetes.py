#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/scale/kubernetes.py NPM-FOLDER [EYELET] [--crd inferencepools.yaml]: packaging/kubernetes against the schemas
of Kubernetes, KEDA, Gateway API, the Prometheus operator and, with --crd, InferencePool. With EYELET, also checks
that /metrics has what autoscalers and the endpoint picker read. Needs a Python with kubernetes-validate. Last line:
"N passed, N failed"."""
import argparse
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging" / "kubernetes"
OURS = ("keda.sh", "gateway.networking.k8s.io", "monitoring.coreos.com", "inference.networking.k8s.io")
passed, failed = [], []


def check(name, wrong):
    (failed if wrong else passed).append(name)
    if wrong:
        print(f"FAILED {name}: {wrong}")


def of_kubernetes(path, thing):
    try:
        kubernetes_validate.validate(thing, "1.31", strict=True)
        check(f"{path.name} {thing['kind']}", None)
    except kubernetes_validate.ValidationError as error:
        check(f"{path.name} {thing['kind']}", str(error).split("\n")[0])


def of_pool(thing, crd):
    version = next(v for v in yaml.safe_load(crd.read_text())["spec"]["versions"]
                   if f"inference.networking.k8s.io/{v['name']}" == thing["apiVersion"])
    schema = closed(version["schema"]["openAPIV3Schema"])
    errors = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(thing)]
    check("InferencePool", errors)


def closed(schema):
    """The same schema without additional properties (except in metadata, which is Kubernetes')."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if made.get("type") == "object" and "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


def names_fit(things):
    """References by name have targets."""
    by_kind = {(t["kind"], t["metadata"]["name"]): t for t in things}
    pod = by_kind["Deployment", "eyelet"]["spec"]["template"]
    ports = pod["spec"]["containers"][0]["ports"]
    pool, monitor = by_kind["InferencePool", "eyelet"]["spec"], by_kind["PodMonitor", "eyelet"]["spec"]
    labels = pod["metadata"]["labels"]
    check("selectors", [s for s in (pool["selector"], monitor["selector"], by_kind["NetworkPolicy", "eyelet"]["spec"][
        "podSelector"]) if s["matchLabels"] != labels])
    check("ports", pool["targetPorts"] != [{"number": ports[0]["containerPort"]}]
          or monitor["podMetricsEndpoints"][0]["port"] != ports[0]["name"])
    check("autoscalers", [t["kind"] for t in things if t["kind"] in ("ScaledObject", "HorizontalPodAutoscaler")
                          and t["spec"]["scaleTargetRef"]["name"] != "eyelet"])
    # requests beyond --max-num-seqs wait, so both autoscalers begin there
    seqs = next(a for a in pod["spec"]["containers"][0]["args"] if a.startswith("--max-num-seqs=")).split("=")[1]
    keda = by_kind["ScaledObject", "eyelet"]["spec"]["triggers"][0]["metadata"]["threshold"]
    hpa = by_kind["HorizontalPodAutoscaler", "eyelet"]["spec"]["metrics"][0]["pods"]["target"]["averageValue"]
    check("thresholds", {seqs, keda, hpa} != {seqs} and (seqs, keda, hpa))


def metrics_are_there(eyelet):
    server = subprocess.Popen([eyelet, "serve", ROOT / "models" / "demo", "--port", "0"], stderr=subprocess.STDOUT,
                              stdout=subprocess.PIPE, text=True)
    try:
        url = next(m[1] for line in server.stdout if (m := re.search(r"ready on (http://\S+)", line)))
        text = urllib.request.urlopen(f"{url}/metrics", timeout=30).read().decode()
    finally:
        server.kill()
        server.wait()
    has = set(re.findall(r"^([a-z_:]+)[{ ]", text, re.M))
    # the model server protocol of the endpoint picker needs these
    wanted = {"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"}
    for path in FOLDER.glob("*.yaml"):
        wanted |= set(re.findall(r"vllm:[a-z_]+(?=[{}' )])", path.read_text()))
    wanted.discard("vllm:cache_config_info")  # the file says that this one is missing
    check("/metrics", sorted(wanted - has))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("npm", type=Path)
    parser.add_argument("eyelet", nargs="?")
    parser.add_argument("--crd", type=Path)
    options = parser.parse_args()
    files = [(path, thing) for path in sorted(FOLDER.glob("*.yaml")) for thing in yaml.safe_load_all(path.read_text())]
    for path, thing in files:
        if thing["apiVersion"].split("/")[0] not in OURS:
            of_kubernetes(path, thing)
        elif thing["kind"] == "InferencePool":
            if options.crd:
                of_pool(thing, options.crd)
            else:
                print("InferencePool: not checked, no --crd")
    done = subprocess.run(["node", ROOT / "tests" / "scale" / "kubernetes.mjs", options.npm], text=True,
                          input=json.dumps([thing for _, thing in files]), capture_output=True)
    checked = re.findall(r"^checked (\w+)", done.stdout, re.M)
    check("schemas of npm", done.returncode and done.stdout + done.stderr
          or sorted(checked) != ["HTTPRoute", "PodMonitor", "ScaledObject"] and checked)
    if not failed:
        names_fit([thing for _, thing in files])
    if options.eyelet:
        metrics_are_there(options.eyelet)
    print(f"{len(passed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
