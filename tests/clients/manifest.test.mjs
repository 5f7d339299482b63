// SPDX-License-Identifier: Apache-2.0
// The Kubernetes manifest: the program accepts its arguments and answers its probes, and its times are consistent.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { root, startServer } from '../node/server.mjs';

const EYELET = process.env.EYELET || `${root}/build/eyelet`;
const read = 'import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)';
const [deployment, service] = JSON.parse(execFileSync('/usr/bin/python3', ['-c', read, `${root}/packaging/kubernetes/eyelet.yaml`]));
const { spec: pod, metadata } = deployment.spec.template;
const [container] = pod.containers;

test('manifest: the program accepts the arguments', () => {
  execFileSync(EYELET, [...container.args, '--help']);
});

test('manifest: probes are answered without a key', async () => {
  const server = await startServer('--api-key', 'a-key');
  try {
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
      assert.equal((await fetch(server.url + container[probe].httpGet.path)).status, 200, probe);
  } finally {
    await server.stop();
  }
});

test('manifest: answers have time to complete, and ports and labels agree', () => {
  const drain = Number(container.args.find((arg) => arg.startsWith('--drain-seconds=')).split('=')[1]);
  const pause = Number(container.lifecycle.preStop.exec.command[1]);
  assert.ok(pod.terminationGracePeriodSeconds >= pause + drain + 5);
  assert.ok(pause >= 2 * container.readinessProbe.periodSeconds);
  assert.deepEqual(deployment.spec.selector.matchLabels, metadata.labels);
  assert.deepEqual(service.spec.selector, metadata.labels);
  assert.equal(service.spec.ports[0].targetPort, container.ports[0].name);
  assert.equal(container.ports[0].containerPort, 8000);
});
