// SPDX-License-Identifier: Apache-2.0
/* One question and its answer on the page: images, streamed text, thoughts, boxes, statistics and errors. */
import { readBoxes } from './boxes.js';
import { copyButton } from './clipboard.js';
import { make, makeButton, thumbButton } from './dom.js';
import { showText } from './markdown.js';
import { look } from './attachments.js';
import { resultNode } from './result.js';
import { shownImage, showBoxes } from './viewer.js';
import { count, explain, plural, seconds } from './words.js';

const turns = document.getElementById('turns');

/* Returns the time to the first token, the number of tokens and the rate, as text. */
export function account(usage, times) {
  const said = [];
  if (times?.first) said.push(`first word after ${seconds(times.first)}`);
  if (usage) {
    const n = usage.completion_tokens;
    const seen = times.last - times.first; // near 0 if the whole answer arrives in one piece: no rate then
    const rate = (n - 1) / (times.decode || (seen > 0.05 ? seen : Infinity));
    said.push(plural(n, 'token') + (rate ? `, ${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} a second` : ''));
  }
  return said.join(' · ');
}

/* Returns what the prefix cache and the image cache saved, as text, or ''. */
export function spared(usage) {
  const cached = usage?.prompt_tokens_details?.cached_tokens || 0;
  const images = usage?.images?.filter((image) => image.cached).length || 0;
  if (!cached && !images) return '';
  const tokens = cached ? `${count(cached)} of ${plural(usage.prompt_tokens, 'token')} reused` : 'not encoded again';
  return `${images ? 'Image from the cache' : 'From the cache'}: ${tokens}`;
}

const WHY = { stopped: 'Stopped.', length: 'Cut off at the maximum length.', cancelled: 'The server stopped the answer.' };

/* `kept` is the stored part of a turn: {text, shown, find, exact, alone, held, images, target, answer, thinking, reason, usage,
 * times}. `actions` are the callbacks of its buttons, {again, edit, goOn, code}, each called with the turn. */
export class Turn {
  constructor(kept, actions) {
    this.kept = kept;
    this.actions = actions;
    this.boxes = [];
    this.node = make('article', 'turn');
    this.answer = make('div', 'answer');
    this.waiting = make('p', 'waiting');
    this.waitingText = make('span');
    this.waiting.append(make('span', 'pulse'), this.waitingText);
    this.thinking = make('details', 'thinking');
    this.thinkingTitle = make('summary', '', 'Thinking …');
    this.thinkingText = make('div', 'thought');
    this.thinking.append(this.thinkingTitle, this.thinkingText);
    this.thinking.hidden = true;
    this.found = make('ul', 'found');
    this.trouble = make('div', 'trouble');
    this.notes = make('div', 'notes');
    this.node.append(this.question(), this.thinking, this.answer, this.waiting, this.found, this.trouble, this.notes);
    this.waiting.hidden = true;
    turns.append(this.node);
  }

  question() {
    const node = make('div', 'question-of');
    const images = make('div', 'asked-images');
    for (const image of this.kept.images) images.append(thumbButton(image, `Show ${image.name || 'the image'}`, () => this.lookAt(image)));
    node.append(images, make('h2', 'asked', this.kept.shown));
    return node;
  }

  lookAt(image) {
    look(image);
    if (image === this.kept.target) showBoxes(this.boxes);
  }

  arrive() {
    this.node.scrollIntoView({ block: 'nearest' });
  }

  wait(text) {
    this.waiting.hidden = !text;
    this.waitingText.textContent = text;
  }

  think(text) {
    this.kept.thinking = text;
    this.thinking.hidden = !text;
    showText(this.thinkingText, text);
  }

  grow(text) {
    this.wait('');
    this.kept.answer = text;
    this.node.classList.add('growing');
    this.show();
  }

  /* Shows the answer so far. An answer to Find is shown as a list of boxes; other answers keep their text around the boxes. Returns
   * whether the answer says that nothing was found. */
  show() {
    const { find, answer: text } = this.kept;
    const { boxes, none } = find || text.includes('bbox') ? readBoxes(text) : { boxes: [] };
    for (const box of boxes.slice(this.boxes.length)) {
      this.boxes.push(box);
      this.found.append(this.foundItem(this.boxes.length - 1));
      if (this.kept.target === shownImage()) showBoxes(this.boxes);
    }
    const data = find && (boxes.length || none || (this.node.classList.contains('growing') && /^[\s`[{]/.test(text)));
    showText(this.answer, data ? '' : text);
    return none;
  }

  mark(i, lead) {
    if (this.kept.target && this.kept.target !== shownImage()) look(this.kept.target);
    showBoxes(this.boxes, i, lead);
  }

  foundItem(i) {
    const { box, label } = this.boxes[i];
    const { width, height } = this.kept.target || {};
    const item = make('li');
    const button = makeButton(`found-one color-${i % 6}`, '', () => this.mark(i, true));
    const [x1, y1, x2, y2] = box.map((v, side) => (width ? Math.round((v * (side % 2 ? height : width)) / 1000) : Math.round(v)));
    button.append(make('span', 'number', String(i + 1)), make('span', 'label', label || 'unnamed'),
      make('span', 'where', `${x1}, ${y1} to ${x2}, ${y2}`));
    for (const event of ['mouseenter', 'focus']) button.addEventListener(event, () => this.mark(i));
    for (const event of ['mouseleave', 'blur']) button.addEventListener(event, () => this.kept.target === shownImage() && showBoxes(this.boxes));
    item.append(button);
    return item;
  }

  settle() {
    this.wait('');
    this.node.classList.remove('growing');
    this.thinkingTitle.textContent = this.kept.times?.thought ? `Thought for ${seconds(this.kept.times.thought)}` : 'Thoughts';
    const { find, held, answer: text } = this.kept;
    const none = this.show() && find;
    if (none) showText(this.answer, 'Nothing was found.');
    const result = held === 'schema' && resultNode(text);
    if (result) this.answer.replaceChildren(result);
    this.answer.classList.toggle('chosen', held === 'choices');
    if ((find && (this.boxes.length || none)) || result) {
      const spelling = make('details', 'spelling');
      spelling.append(make('summary', '', 'Raw answer'), make('pre', '', text));
      this.found.after(spelling);
    }
  }

  finish() {
    this.settle();
    const { answer: text, reason, usage, times } = this.kept;
    const why = !text && reason === 'stop' ? 'The model gave an empty answer.' : WHY[reason];
    if (why) this.notes.append(make('p', 'note why', why));
    const took = account(usage, times);
    if (took) this.notes.append(make('p', 'note took', took));
    const cache = spared(usage);
    if (cache) this.notes.append(make('p', 'note cache', cache));
    this.notes.append(this.buttons());
  }

  buttons() {
    const { answer: text, reason } = this.kept;
    const row = make('div', 'acts');
    if (text && (reason === 'length' || reason === 'stopped')) row.append(makeButton('quiet small last-only', 'Continue', () => this.actions.goOn(this)));
    if (text) row.append(copyButton('Copy', () => text));
    row.append(makeButton('quiet small last-only', 'Answer again', () => this.actions.again(this)),
      makeButton('quiet small', 'Edit', () => this.actions.edit(this)), makeButton('quiet small', 'Code', () => this.actions.code(this)));
    return row;
  }

  fail(error) {
    this.settle();
    const { what, todo, said } = explain(error);
    this.trouble.setAttribute('role', 'alert');
    this.trouble.append(make('p', '', `${what} ${todo}`.trim()));
    if (said && said !== what) this.trouble.append(make('p', 'said', said));
    this.trouble.append(makeButton('small', 'Try again', () => this.actions.again(this)));
    this.node.scrollIntoView({ block: 'nearest' });
  }

  remove() {
    this.node.remove();
  }
}

/* Runs a change that lengthens the conversation, and keeps its end in view unless the reader has scrolled away. */
export function keepingEnd(change) {
  const near = turns.scrollHeight - turns.scrollTop - turns.clientHeight < 80;
  const form = document.getElementById('ask');
  const seen = form.getBoundingClientRect().top < innerHeight;
  change();
  if (near) turns.scrollTop = turns.scrollHeight;
  if (seen) form.scrollIntoView({ block: 'nearest' }); // on a phone the page scrolls instead of the conversation
}
