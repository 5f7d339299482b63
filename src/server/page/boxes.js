// SPDX-License-Identifier: Apache-2.0
/* Reads boxes from a model's answer. It accepts the same malformed JSON as src/tasks/boxes.c; one table tests both. Text outside
 * braces is ignored; inside, single or double quotes open a string, and anything else that is not JSON is skipped. */
const SCALE = 1000; // Qwen3-VL's coordinates run from 0 to 1000 for every image size
const MAX_BOXES = 1000;
const MAX_LABEL = 1000;
const FOUR_NUMBERS = /\[[ \n\t\r]*N,N,N,N\]/.source.replaceAll('N', '([-+.\\deE]{1,39})[ \\n\\t\\r]*').replaceAll('*,', '*,[ \\n\\t\\r]*');

/* Qwen3-VL was trained with this prompt. */
export const findPrompt = (what) =>
  `Locate every instance that belongs to the following categories: '${what}'. Report bbox coordinates in JSON format.`;

/* Returns the four numbers as [left, top, right, bottom], clamped to the image, or null. Fractions from 0 to 1 are scaled. */
function normalizedBox(spelled) {
  const v = spelled.map(Number);
  if (!v.every(Number.isFinite)) return null;
  const shares = spelled.some((s) => /[.eE]/.test(s)) && v.every((x) => x <= 1);
  const [x1, y1, x2, y2] = v.map((x) => Math.min(Math.max(shares ? x * SCALE : x, 0), SCALE));
  return [Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)];
}

/* Turns the raw text between quotes into a label: unescaped, on one line, without control characters. */
function cleanLabel(spelled) {
  const text = spelled.replace(/\\(?:u([\da-fA-F]{4})|([^]))/g, (_, hex, escaped) =>
    hex ? String.fromCharCode(parseInt(hex, 16)) : 'nrtbf'.includes(escaped) ? ' ' : escaped);
  const whole = text.replace(/\p{Surrogate}/gu, '\ufffd').replace(/\p{Cc}/gu, ' ').trim(); // a lone surrogate is not a character
  return Array.from(whole).slice(0, MAX_LABEL).join('');
}

function allBoxes(text) {
  const boxes = [];
  const frames = []; // open objects and lists, the innermost last
  const four = new RegExp(FOUR_NUMBERS, 'y');
  const word = /\w+/y;
  let at = 0, top;

  const isSpace = (c) => c === ' ' || c === '\n' || c === '\t' || c === '\r';
  const open = (list) => (frames.push({ list, key: '', box: null, label: '' }), at++);
  /* Ends a value: an object expects a key next. */
  const valueDone = () => frames.length && (frames.at(-1).key = '');
  const close = () => (frames.pop(), valueDone());

  /* Reads a string up to a quote that is followed by one of `closers` or by the end of the text. Other quotes belong to the string,
   * because models do not always escape apostrophes in labels. */
  function string(closers) {
    const quote = text[at++], start = at;
    for (; at < text.length; at++) {
      if (text[at] === '\\') at++;
      else if (text[at] === quote) {
        let next = at + 1;
        while (isSpace(text[next])) next++;
        if (next >= text.length || closers.includes(text[next])) return text.slice(start, at++);
      }
    }
    return text.slice(start);
  }

  function read(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  }

  /* Reads a key or the end of an object, and skips anything else. */
  function key(c) {
    if (c === '}') {
      at++;
      close();
      if (top.box) boxes.push({ box: top.box, label: cleanLabel(top.label) });
    } else if (c === '{') {
      frames.pop(); // the object before was never closed: drop it
      open(false);
    } else {
      const name = read(word)?.[0] ?? (c === '"' || c === "'" ? string(':') : (at++, null));
      if (name === null) return;
      while (isSpace(text[at])) at++;
      if (text[at] === ':') at++, top.key = name || ' ';
    }
  }

  function value(c) {
    const before = at;
    const box = /^bbox(_2d)?$/.test(top.key) && read(four);
    const numbers = box && normalizedBox(box.slice(1));
    if (numbers) {
      top.box = numbers;
      return valueDone();
    }
    at = before;
    if (c === '{' || c === '[') return open(c === '[');
    if (c === '"' || c === "'") {
      const spelled = string(',}]');
      if (top.key === 'label' || top.key === 'text_content') top.label = spelled;
    } else while (at < text.length && !',}]'.includes(text[at])) at++; // a number, null or true; the closing brace is left for key()
    return valueDone();
  }

  function item(c) {
    if (c === '{' || c === '[') open(c === '[');
    else if (c === '"' || c === "'") string(',}]');
    else if (c === '}') close(); // the list was never closed
    else if (c === ']') at++, close();
    else at++;
  }

  while (at < text.length && boxes.length < MAX_BOXES) {
    const c = text[at];
    top = frames.at(-1);
    if (!top) c === '{' ? open(false) : at++;
    else if (isSpace(c)) at++;
    else if (top.list) item(c);
    else if (top.key) value(c);
    else key(c);
  }
  return boxes;
}

/* Returns {boxes, none}: a list of {box: [x1, y1, x2, y2] in thousandths of the image, label}, and whether the answer says that
 * nothing was found. */
export function readBoxes(text) {
  const boxes = allBoxes(text);
  const said = text.trim().replace(/^```\w*/, '').replace(/[\s`]+$/, '').trim();
  const none = /^(\[\s*\]|\{\s*\})$/.test(said) || /^(none|null|no|nothing|there is no|there are no)(?!\w)/i.test(said);
  return { boxes, none: !boxes.length && none };
}
