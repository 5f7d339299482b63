// SPDX-License-Identifier: Apache-2.0
// Fields of a JSON schema out of images, a line of JSON each: node extract-fields.mjs invoice.json invoices/*.jpg
import { readFileSync } from 'node:fs';
import { ask, each, options } from './eyelet-client.mjs';

const o = options('extract-fields.mjs SCHEMA.json IMAGE...', 2);
const [file, ...paths] = o.positionals;
const schema = JSON.parse(readFileSync(file, 'utf8'));
const question = `Give these fields of the image as JSON: ${Object.keys(schema.properties ?? {}).join(', ')}`;
const response_format = { type: 'json_schema', json_schema: { name: 'fields', schema } };

const fieldsOf = async (path) => JSON.parse(await ask(o, path, question, { temperature: 0, response_format }));
const results = await each(o['at-once'], paths, fieldsOf);
for (const { path, value, error } of results)
  console.log(JSON.stringify({ image: path, ...(error ? { error } : { fields: value }) }));
process.exitCode = results.some(({ error }) => error) ? 1 : 0;
