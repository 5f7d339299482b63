// SPDX-License-Identifier: Apache-2.0
/* One question and its answer on the page: the text as it grows, boxes, what it took, what went wrong. */
import { readBoxes } from './boxes.js';
import { showText } from './markdown.js';
import { image, showBoxes } from './image.js';
import { count, explain, plural, seconds } from './words.js';

const turns = document.getElementById('turns');

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

function makeButton(className, text, onClick) {
  const button = make('button', className, text);
  button.type = 'button';
  button.addEventListener('click', onClick);
  return button;
}

/* What the answer took and what the caches spared, as short statements. */
export function account(usage, times) {
  const said = [];
  if (times.first) said.push(`first word after ${seconds(times.first)}`);
  if (usage) {
    const n = usage.completion_tokens;
    const seen = times.last - times.first; // nothing to go by where a quick answer comes in one piece
    const rate = (n - 1) / (times.decode || (seen > 0.05 ? seen : Infinity));
    said.push(plural(n, 'token') + (rate ? `, ${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} a second` : ''));
  }
  return said.join(' · ');
}

export function spared(usage) {
  const cached = usage?.prompt_tokens_details?.cached_tokens || 0;
  const images = usage?.images?.filter((image) => image.cached).length || 0;
  if (!cached && !images) return '';
  const tokens = cached ? `${count(cached)} of ${plural(usage.prompt_tokens, 'token')} read before` : 'it was not looked at again';
  return `${images ? 'Image from the cache' : 'From the cache'}: ${tokens}`;
}

export class Turn {
  constructor(question, find) {
    this.find = find;
    this.text = '';
    this.boxes = [];
    this.node = make('article', 'turn');
    this.answer = make('div', 'answer');
    this.waiting = make('p', 'waiting');
    this.waitingText = make('span');
    this.waiting.append(make('span', 'pulse'), this.waitingText);
    this.found = make('ul', 'found');
    this.trouble = make('div', 'trouble');
    this.notes = make('div', 'notes');
    this.node.append(make('h2', 'asked', question), this.answer, this.waiting, this.found, this.trouble, this.notes);
    turns.append(this.node);
    this.node.scrollIntoView({ block: 'nearest' });
  }

  wait(text) {
    this.waiting.hidden = !text;
    this.waitingText.textContent = text;
  }

  grow(text) {
    this.wait('');
    this.text = text;
    this.node.classList.add('growing');
    this.show();
  }

  /* An answer to "find" is a list of boxes and shown as one; elsewhere boxes come with the text round them. Gives whether the
   * answer says that there is nothing. */
  show() {
    const { boxes, none } = this.find || this.text.includes('bbox') ? readBoxes(this.text) : { boxes: [] };
    for (const box of boxes.slice(this.boxes.length)) {
      this.boxes.push(box);
      this.found.append(this.foundItem(this.boxes.length - 1));
      showBoxes(this.boxes);
    }
    const data = this.find && (boxes.length || none || this.node.classList.contains('growing') && /^[\s`[{]/.test(this.text));
    showText(this.answer, data ? '' : this.text);
    return none;
  }

  foundItem(i) {
    const { box, label } = this.boxes[i];
    const { width, height } = image() || {};
    const item = make('li');
    const button = makeButton(`found-one color-${i % 6}`, '', () => showBoxes(this.boxes, i, true));
    const [x1, y1, x2, y2] = box.map((v, side) => (width ? Math.round((v * (side % 2 ? height : width)) / 1000) : Math.round(v)));
    button.append(make('span', 'number', String(i + 1)), make('span', 'label', label || 'unnamed'),
      make('span', 'where', `${x1}, ${y1} to ${x2}, ${y2}`));
    for (const event of ['mouseenter', 'focus']) button.addEventListener(event, () => showBoxes(this.boxes, i));
    for (const event of ['mouseleave', 'blur']) button.addEventListener(event, () => showBoxes(this.boxes));
    item.append(button);
    return item;
  }

  settle() {
    this.wait('');
    this.node.classList.remove('growing');
    const none = this.show() && this.find;
    if (none) showText(this.answer, 'Nothing of the kind was found.');
    if (this.find && (this.boxes.length || none)) {
      const spelling = make('details', 'spelling');
      spelling.append(make('summary', '', 'What the model wrote'), make('pre', '', this.text));
      this.found.after(spelling);
    }
  }

  finish({ reason, usage, times }) {
    this.settle();
    const why = !this.text && reason === 'stop' ? 'The model had nothing to say.' : { stopped: 'Stopped.', length: 'Cut off: it reached the longest length allowed.', cancelled: 'The server stopped it.' }[reason];
    if (why) this.notes.append(make('p', 'note why', why));
    const took = account(usage, times);
    if (took) this.notes.append(make('p', 'note took', took));
    const cache = spared(usage);
    if (cache) this.notes.append(make('p', 'note cache', cache));
    if (this.text && navigator.clipboard) this.notes.append(this.copyButton());
  }

  copyButton() {
    const tell = (text) => () => (button.textContent = text);
    const button = makeButton('quiet small', 'Copy', () => navigator.clipboard.writeText(this.text).then(tell('Copied'), tell('Could not copy')));
    return button;
  }

  fail(error, again) {
    this.settle();
    const { what, todo, said } = explain(error);
    this.trouble.setAttribute('role', 'alert');
    this.trouble.append(make('p', '', `${what} ${todo}`));
    if (said && said !== what) this.trouble.append(make('p', 'said', said));
    if (again) this.trouble.append(makeButton('small', 'Try again', again));
    this.node.scrollIntoView({ block: 'nearest' });
  }

  remove() {
    this.node.remove();
  }
}

/* Does something that makes the conversation longer; its end stays in sight, unless the reader has scrolled away from it. */
export function keepingEnd(change) {
  const near = turns.scrollHeight - turns.scrollTop - turns.clientHeight < 80;
  const form = document.getElementById('ask');
  const seen = form.getBoundingClientRect().top < innerHeight;
  change();
  if (near) turns.scrollTop = turns.scrollHeight;
  if (seen) form.scrollIntoView({ block: 'nearest' }); // on a phone the page scrolls, not the conversation
}
