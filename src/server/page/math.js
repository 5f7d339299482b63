// SPDX-License-Identifier: Apache-2.0
/* Formulas as MathML. Temml is large and seldom needed: it is loaded with the first formula, until when that is shown as written. */
let loading;

function load() {
  loading ||= new Promise((resolve) => {
    const script = document.createElement('script');
    script.src = 'vendor/temml.js';
    script.onload = () => resolve(globalThis.temml);
    script.onerror = () => resolve(null);
    document.head.append(script);
  });
  return loading;
}

/* A node that shows the formula `tex`; `display`: on a line of its own. */
export function mathNode(tex, display) {
  const node = document.createElement('span');
  node.className = display ? 'math display' : 'math';
  node.textContent = tex;
  load().then((temml) => {
    try {
      temml?.render(tex, node, { displayMode: display, throwOnError: true, trust: false, maxSize: [50, 50], maxExpand: 200 });
    } catch {
      node.textContent = tex; // not TeX after all, or unknown to Temml: as the model wrote it
    }
  });
  return node;
}
