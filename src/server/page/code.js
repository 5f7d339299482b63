// SPDX-License-Identifier: Apache-2.0
/* "Use this from code": a question as curl, Python and JavaScript, with file names in place of image data. */
import { hasKey } from './api.js';
import { copyButton } from './clipboard.js';

const $ = (id) => document.getElementById(id);
const KEY = 'EYELET_API_KEY'; // the samples read it from the environment, so that nobody shares a key with them
const base = () => new URL('v1', document.baseURI).href;

/* Returns {body, names}: the request with a placeholder for each image, and the images' file names. */
function withNames(body, nameOf) {
  const names = [];
  const messages = body.messages.map((message) => (Array.isArray(message.content) ? {
    ...message,
    content: message.content.map((part) => {
      if (part.type !== 'image_url' || !part.image_url.url.startsWith('data:')) return part;
      const name = nameOf(part.image_url.url) || `image-${names.length + 1}.jpg`;
      names.push(name);
      return { ...part, image_url: { ...part.image_url, url: `\u0000${names.length - 1}\u0000` } };
    }),
  } : message));
  return { body: { ...body, messages }, names };
}

const filled = (json, fill) => json.replace(/"\\u0000(\d+)\\u0000"/g, (_, i) => fill(Number(i)));
const mime = (name) => ({ png: 'image/png', webp: 'image/webp', gif: 'image/gif', heic: 'image/heic', avif: 'image/avif' })[name.split('.').pop().toLowerCase()] || 'image/jpeg';
const shellWord = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const pythonOf = (json) => json.replace(/("(?:\\.|[^"\\])*")|\b(true|false|null)\b/g, (all, text, word) => text || { true: 'True', false: 'False', null: 'None' }[word]);

/* Pipes the body from printf, a shell builtin, because an image may exceed the maximum length of a command line. */
function curl({ body, names }) {
  const pieces = JSON.stringify(body, null, 2).split(/"\\u0000(\d+)\\u0000"/);
  const spelled = pieces.map((piece, i) => {
    if (i % 2) return `"data:${mime(names[piece])};base64,$(base64 -w0 ${shellWord(names[piece])})"`;
    return shellWord(`${i ? '"' : ''}${piece}${i < pieces.length - 1 ? '"' : ''}`);
  });
  return `printf '%s' ${spelled.join('')} |\n  curl -s ${base()}/chat/completions -H 'Content-Type: application/json'${hasKey() ? ` -H "Authorization: Bearer $${KEY}"` : ''} -d @-`;
}

function python({ body, names }) {
  const { model, messages, ...more } = body;
  const spelled = (value) => filled(pythonOf(JSON.stringify(value, null, 4)), (i) => `image(${JSON.stringify(names[i])})`).replaceAll('\n', '\n    ');
  const known = ['temperature', 'max_tokens', 'seed', 'response_format'];
  const own = Object.keys(more).filter((key) => known.includes(key)).map((key) => `    ${key}=${spelled(more[key])},\n`).join('');
  const extra = Object.fromEntries(Object.entries(more).filter(([key]) => !known.includes(key)));
  return `# pip install openai
import base64
${hasKey() ? 'import os\n' : ''}
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base())}, api_key=${hasKey() ? `os.environ["${KEY}"]` : '"none"'})

${names.length ? `
def image(path, mime="${mime(names[0])}"):
    with open(path, "rb") as file:
        return f"data:{mime};base64,{base64.b64encode(file.read()).decode()}"


` : ''}answer = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=${spelled(messages)},
${own}${Object.keys(extra).length ? `    extra_body=${spelled(extra)},\n` : ''})
print(answer.choices[0].message.content)
`;
}

function javascript({ body, names }) {
  const json = filled(JSON.stringify(body, null, 2), (i) => `await image(${JSON.stringify(names[i])})`);
  return `// node 18 or newer${names.length ? `
import { readFile } from 'node:fs/promises';

const image = async (path, mime = '${mime(names[0])}') => \`data:\${mime};base64,\${(await readFile(path)).toString('base64')}\`;
` : ''}
const response = await fetch('${base()}/chat/completions', {
  method: 'POST',
  headers: { 'Content-Type': 'application/json'${hasKey() ? `, Authorization: \`Bearer \${process.env.${KEY}}\`` : ''} },
  body: JSON.stringify(${json.replaceAll('\n', '\n  ')}),
});
console.log((await response.json()).choices[0].message.content);
`;
}

const LANGUAGES = { curl, Python: python, JavaScript: javascript };

/* Shows the dialog. `nameOf(dataUrl)` returns the file name of an image. */
export function showCode(body, nameOf) {
  const asked = withNames(body, nameOf);
  $('code-list').replaceChildren(...Object.entries(LANGUAGES).map(([name, spell]) => {
    const text = spell(asked);
    const section = document.createElement('section');
    const title = document.createElement('h3');
    const pre = document.createElement('pre');
    title.textContent = name;
    pre.textContent = text;
    pre.tabIndex = 0;
    const head = document.createElement('div');
    head.className = 'row';
    head.append(title, copyButton(`Copy ${name}`, () => text));
    section.append(head, pre);
    return section;
  }));
  $('code').showModal();
}
