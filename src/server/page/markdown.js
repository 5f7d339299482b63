// SPDX-License-Identifier: Apache-2.0
/* A small, safe part of Markdown: paragraphs, headings, lists, bold, italic, code. It is built of DOM nodes whose text is set as
 * text; no HTML is ever parsed, so an answer cannot bring markup, links or remote images with it, and a library and
 * a sanitizer for what it made are not needed. */

const FENCE = /^\s*```/;
const HEADING = /^#{1,6}\s+(.*)$/;
const BULLET = /^\s*[-*•]\s+(.*)$/;
const NUMBER = /^\s*(\d{1,9})[.)]\s+(.*)$/;

/* Text → blocks {tag, lines, start}. */
export function blocksOf(text) {
  const blocks = [];
  let open = null;
  const add = (tag, line, start) => {
    if (open?.tag !== tag) blocks.push((open = { tag, lines: [], start }));
    open.lines.push(line);
  };
  let fenced = false;
  for (const line of text.split('\n')) {
    let found;
    if (FENCE.test(line)) {
      fenced = !fenced;
      open = null;
      if (fenced) blocks.push((open = { tag: 'pre', lines: [] }));
    } else if (fenced) open.lines.push(line);
    else if (!line.trim()) open = null;
    else if ((found = HEADING.exec(line))) {
      open = null;
      blocks.push({ tag: 'h', lines: [found[1]] });
    } else if ((found = BULLET.exec(line))) add('ul', found[1]);
    else if ((found = NUMBER.exec(line))) add('ol', found[2], Number(found[1]));
    else add('p', line);
  }
  return blocks;
}

function element(tag, ...children) {
  const node = document.createElement(tag);
  node.append(...children);
  return node;
}

/* The marks nearest to each other belong together; a mark without its partner is text. */
function inline(text) {
  const nodes = [];
  let end = 0;
  for (const m of text.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])/g)) {
    nodes.push(text.slice(end, m.index));
    nodes.push(m[1] ? element('code', m[1]) : m[2] ? element('strong', m[2]) : element('em', m[3]));
    end = m.index + m[0].length;
  }
  return [...nodes, text.slice(end)];
}

function build(block) {
  if (block.tag === 'pre') return element('pre', element('code', block.lines.join('\n')));
  if (block.tag === 'h') return element('p', element('strong', ...inline(block.lines[0])));
  if (block.tag === 'p') return element('p', ...block.lines.flatMap((line, i) => (i ? [element('br'), ...inline(line)] : inline(line))));
  const list = element(block.tag, ...block.lines.map((line) => element('li', ...inline(line))));
  if (block.start > 1) list.start = block.start;
  return list;
}

/* Shows text in a node. Called again with more text, it leaves the blocks that did not change alone. */
export function showText(node, text) {
  const blocks = blocksOf(text);
  const old = node.shownBlocks || [];
  const made = blocks.map((block) => JSON.stringify(block));
  let same = 0;
  while (same < made.length && made[same] === old[same]) same++;
  while (node.childNodes.length > same) node.lastChild.remove();
  for (const block of blocks.slice(same)) node.append(build(block));
  node.shownBlocks = made;
}
