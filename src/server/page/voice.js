// SPDX-License-Identifier: Apache-2.0
/* Says aloud, to those who listen to the page, what others see happen: whole sentences, and not too many at once. A growing
 * answer read out word by word would be no help. */
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

/* For one answer: grow(text so far) says finished sentences, end(last words) the rest. */
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
