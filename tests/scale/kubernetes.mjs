// SPDX-License-Identifier: Apache-2.0
// kubernetes.mjs FOLDER: reads objects as JSON from stdin and checks those of KEDA, Gateway API and the Prometheus
// operator against the schemas of the npm packages in FOLDER/node_modules. Prints "checked KIND NAME" for each, and
// errors.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const packages = { 'keda.sh': 'keda', 'gateway.networking.k8s.io': 'gateway-api', 'monitoring.coreos.com': 'prometheus-operator' };
let failed = false;
for (const object of JSON.parse(readFileSync(0, 'utf8'))) {
  const [group, version] = object.apiVersion.split('/');
  if (!packages[group]) continue;
  const folder = join(resolve(process.argv[2]), 'node_modules/@kubernetes-models', packages[group], group, version);
  const file = ['index.mjs', 'index.js'].map((name) => join(folder, name)).find(existsSync);
  const kinds = await import(pathToFileURL(file));
  try {
    new kinds[object.kind](object).validate();
    console.log(`checked ${object.kind} ${object.metadata.name}`);
  } catch (error) {
    console.log(`WRONG ${object.kind} ${object.metadata.name}: ${error.message}`);
    failed = true;
  }
}
process.exit(failed ? 1 : 0);
