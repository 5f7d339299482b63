// SPDX-License-Identifier: Apache-2.0
/* Shows Markdown. marked's lexer makes tokens, from which this file builds DOM nodes. No HTML is ever parsed, so an answer cannot
 * inject markup or load remote images, and no sanitizer is needed. */
import { Marked } from './vendor/marked.esm.js';
import { copyButton } from './clipboard.js';
import { element } from './dom.js';
import { mathNode } from './math.js';

const MAX_DEPTH = 20; // of nested quotes and lists; deeper ones are shown as plain text
const SAFE_LINK = /^(https?:|mailto:)/i;

/* Matches $$…$$, \[…\], \(…\) and $…$. A dollar sign next to a space, or a closing one before a digit, belongs to a price. */
const MATH = [
  { pattern: /^\$\$((?:\\[^]|[^\\$])+)\$\$/, display: true },
  { pattern: /^\\\[([^]+?)\\\]/, display: true },
  { pattern: /^\\\(([^]+?)\\\)/, display: false },
  { pattern: /^\$(?!\s)((?:\\.|[^\\$\n])+)(?<!\s)\$(?!\d)/, display: false },
];

function mathToken(src) {
  for (const { pattern, display } of MATH) {
    const found = pattern.exec(src);
    if (found) return { type: 'math', raw: found[0], tex: found[1].trim(), display };
  }
  return undefined;
}

const mathStart = (src) => {
  const at = src.search(/\$|\\[[(]/);
  return at < 0 ? undefined : at;
};
const marked = new Marked({
  extensions: [
    { name: 'math', level: 'inline', start: mathStart, tokenizer: mathToken },
    { name: 'math', level: 'block', tokenizer: (src) => (/^(\$\$|\\\[)/.test(src) ? mathToken(src) : undefined) },
  ],
});

/* marked does not decode entities in text. */
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", '#39': "'", nbsp: '\u00a0' };
const unescaped = (text) => text.replace(/&(amp|lt|gt|quot|apos|#39|nbsp);/g, (_, name) => ENTITIES[name]);

/* ---- inline elements ---- */

function link(token, depth) {
  if (!SAFE_LINK.test(token.href)) return [unescaped(token.raw)];
  const node = element('a', ...inlines(token.tokens, depth + 1));
  node.href = token.href;
  node.target = '_blank';
  node.rel = 'noopener noreferrer';
  return [node];
}

function inline(token, depth) {
  switch (token.type) {
    case 'strong': case 'em': case 'del': return [element(token.type, ...inlines(token.tokens, depth + 1))];
    case 'codespan': return [element('code', token.text)];
    case 'br': return [element('br')];
    case 'escape': return [token.text];
    case 'link': return link(token, depth);
    case 'math': return [mathNode(token.tex, token.display)];
    case 'text': return token.tokens ? inlines(token.tokens, depth + 1) : withBreaks(unescaped(token.text));
    default: return [token.raw]; // images and HTML are shown as source text
  }
}

/* Keeps single line breaks, which Markdown would join: models use them on purpose. */
const withBreaks = (text) => text.split('\n').flatMap((line, i) => (i ? [element('br'), line] : [line]));

function inlines(tokens, depth) {
  if (depth > MAX_DEPTH) return [(tokens || []).map((token) => token.raw).join('')];
  return (tokens || []).flatMap((token) => inline(token, depth));
}

/* ---- blocks ---- */

function codeBlock(token) {
  const pre = element('pre', element('code', token.text));
  pre.tabIndex = 0; // so that the keyboard can scroll it
  const bar = element('div', element('span', token.lang || ''), copyButton('Copy code', () => token.text));
  bar.className = 'bar-of-code';
  const node = element('div', bar, pre);
  node.className = 'code';
  return node;
}

function list(token, depth) {
  const node = element(token.ordered ? 'ol' : 'ul', ...token.items.map((item) => listItem(item, depth)));
  if (token.ordered && token.start > 1) node.start = token.start;
  return node;
}

function listItem(item, depth) {
  const node = element('li');
  if (item.task) node.append(item.checked ? '☑ ' : '☐ ');
  for (const token of item.tokens) {
    if (token.type === 'checkbox') continue;
    if (token.type === 'text' || (token.type === 'paragraph' && item.tokens.length === 1)) node.append(...inlines(token.tokens || [token], depth + 1));
    else node.append(...block(token, depth + 1));
  }
  return node;
}

const cellText = (cell) => element('span', ...inlines(cell.tokens, 0)).textContent;
const csvCell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
export const csvOfRows = (rows) => rows.map((row) => row.map(csvCell).join(',')).join('\n');

function table(token) {
  const row = (cells, tag) => element('tr', ...cells.map((cell, i) => {
    const node = element(tag, ...inlines(cell.tokens, 0));
    if (tag === 'th') node.scope = 'col';
    if (token.align[i]) node.style.textAlign = token.align[i];
    return node;
  }));
  return tableNode(element('thead', row(token.header, 'th')), element('tbody', ...token.rows.map((cells) => row(cells, 'td'))),
    () => csvOfRows([token.header, ...token.rows].map((cells) => cells.map(cellText))));
}

/* Makes a scrollable table with a button that copies `csv()`. */
export function tableNode(head, body, csv) {
  const scroller = element('div', element('table', head, body));
  scroller.className = 'scroller';
  scroller.tabIndex = 0;
  scroller.setAttribute('role', 'group');
  scroller.setAttribute('aria-label', 'Table');
  const node = element('div', scroller, copyButton('Copy as CSV', csv));
  node.className = 'table';
  return node;
}

function block(token, depth) {
  if (depth > MAX_DEPTH) return [element('p', token.raw)];
  switch (token.type) {
    case 'space': case 'def': return [];
    case 'heading': return [element(`h${Math.min(token.depth + 2, 6)}`, ...inlines(token.tokens, depth))];
    case 'paragraph': return [element('p', ...inlines(token.tokens, depth))];
    case 'text': return [element('p', ...inlines(token.tokens || [token], depth))];
    case 'code': return [codeBlock(token)];
    case 'list': return [list(token, depth)];
    case 'blockquote': return [element('blockquote', ...token.tokens.flatMap((inner) => block(inner, depth + 1)))];
    case 'table': return [table(token)];
    case 'hr': return [element('hr')];
    case 'math': return [element('p', mathNode(token.tex, true))];
    default: return [element('p', token.raw.trim())]; // HTML is shown as source text
  }
}

/* Shows Markdown text in a node. A call with longer text rebuilds only the blocks that changed. */
export function showText(node, text) {
  const tokens = marked.lexer(text).filter((token) => token.type !== 'space' && token.type !== 'def');
  const old = node.shownBlocks || [];
  const made = tokens.map((token) => token.type + token.raw);
  let same = 0;
  while (same < made.length && made[same] === old[same]) same++;
  while (node.childNodes.length > same) node.lastChild.remove();
  for (const token of tokens.slice(same)) node.append(...block(token, 0));
  node.shownBlocks = made;
}
