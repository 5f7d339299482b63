// SPDX-License-Identifier: Apache-2.0
// What the examples share: one request to a server of eyelet, with Node 20 alone.
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { parseArgs } from 'node:util';

const TYPES = {
  '.jpg': 'jpeg', '.jpeg': 'jpeg', '.png': 'png', '.webp': 'webp', '.gif': 'gif', '.heic': 'heic', '.avif': 'avif',
};
const TRIES = 5;

/* --server, --key and --at-once, and the other arguments in order; says how to call it when there are too few. */
export function options(usage, least) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      server: { type: 'string', default: 'http://localhost:8000' },
      key: { type: 'string', default: process.env.EYELET_API_KEY || 'none' },
      'at-once': { type: 'string', default: '4' },
    },
  });
  if (positionals.length < least) {
    console.error(`usage: ${usage} [--server http://localhost:8000] [--key KEY] [--at-once 4]`);
    process.exit(2);
  }
  return { ...values, positionals };
}

export const isImage = (path) => extname(path).toLowerCase() in TYPES;
export function dataUrl(path) {
  const type = TYPES[extname(path).toLowerCase()] || 'jpeg';
  return `data:image/${type};base64,${readFileSync(path).toString('base64')}`;
}

/* The answer's text about one image. When the server is full it tries again; other errors are thrown as they came. */
export async function ask({ server, key }, path, question, more) {
  const content = [{ type: 'image_url', image_url: { url: dataUrl(path) } }, { type: 'text', text: question }];
  const body = JSON.stringify({ messages: [{ role: 'user', content }], ...more });
  for (let attempt = 1; ; attempt++) {
    const reply = await fetch(`${server}/v1/chat/completions`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` }, body,
    });
    const answer = await reply.json();
    if (reply.ok) return answer.choices[0].message.content;
    if (reply.status !== 503 || attempt === TRIES) throw new Error(answer.error.message);
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(reply.headers.get('Retry-After') || 1)));
  }
}

/* {path, value} or {path, error} for each, several at a time, in order. */
export async function each(atOnce, paths, answer) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < paths.length) {
      const i = next++, path = paths[i];
      results[i] = await answer(path).then((value) => ({ path, value }), (error) => ({ path, error: error.message }));
    }
  };
  await Promise.all(Array.from({ length: Number(atOnce) }, worker));
  return results;
}
