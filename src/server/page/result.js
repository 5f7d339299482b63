// SPDX-License-Identifier: Apache-2.0
/* Shows a JSON answer as tables: an object as names and values, a list of objects as rows. */
import { copyButton } from './clipboard.js';
import { element } from './dom.js';
import { csvOfRows, tableNode } from './markdown.js';

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const plain = (value) => (isObject(value) || Array.isArray(value) ? JSON.stringify(value) : String(value ?? ''));

function row(tag, cells) {
  return element('tr', ...cells.map((cell) => {
    const node = element(tag, cell);
    if (tag === 'th') node.scope = 'col';
    return node;
  }));
}

function rowsOf(list) {
  const columns = [...new Set(list.flatMap(Object.keys))];
  return [columns, ...list.map((item) => columns.map((column) => plain(item[column])))];
}

function listNode(list) {
  if (!list.length) return '(none)';
  if (!list.every(isObject)) return element('ul', ...list.map((item) => element('li', valueNode(item))));
  const rows = rowsOf(list);
  return tableNode(element('thead', row('th', rows[0])), element('tbody', ...rows.slice(1).map((cells) => row('td', cells))), () => csvOfRows(rows));
}

function objectNode(value) {
  const list = element('dl');
  for (const [name, inner] of Object.entries(value)) list.append(element('dt', name), element('dd', valueNode(inner)));
  list.className = 'result';
  return list;
}

function valueNode(value) {
  if (Array.isArray(value)) return listNode(value);
  return isObject(value) ? objectNode(value) : plain(value);
}

/* Returns a node, or null if the text is not a JSON object or list. */
export function resultNode(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(value) && !Array.isArray(value)) return null;
  return element('div', valueNode(value), copyButton('Copy JSON', () => JSON.stringify(value, null, 2)));
}
