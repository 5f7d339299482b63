// SPDX-License-Identifier: Apache-2.0
/* Announces changes to screen readers. A streamed answer is announced in whole sentences, at most every 1.5 s: announcing every
 * token would be unusable. */
const node = document.getElementById('voice');
const PAUSE_MS = 1500;
const KEPT = 20;

export function say(text) {
  if (!text.trim()) return;
  const line = document.createElement('p');
  line.textContent = text.trim();
  node.append(line);
  while (node.childNodes.length > KEPT) node.firstChild.remove();
}

/* Announces one answer: grow(text so far) announces its complete sentences; end(words) announces the rest, then `words`. */
export function reader() {
  let said = 0;
  let last = performance.now();
  let text = '';
  return {
    grow(now) {
      text = now;
      if (performance.now() - last < PAUSE_MS) return;
      const rest = text.slice(said);
      const sentences = /^[^]*[.!?:\n](?=\s|$)/.exec(rest)?.[0];
      if (!sentences) return;
      say(sentences);
      said += sentences.length;
      last = performance.now();
    },
    end(words) {
      say(text.slice(said));
      say(words);
    },
  };
}
