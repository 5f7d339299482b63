// SPDX-License-Identifier: Apache-2.0
/* Shows formulas as MathML. Temml is large and seldom needed, so the first formula loads it; until then the TeX source is shown. */
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

/* Makes a node that shows the formula `tex`, on a line of its own if `display` is set. */
export function mathNode(tex, display) {
  const node = document.createElement('span');
  node.className = display ? 'math display' : 'math';
  node.textContent = tex;
  load().then((temml) => {
    try {
      temml?.render(tex, node, { displayMode: display, throwOnError: true, trust: false, maxSize: [50, 50], maxExpand: 200 });
    } catch {
      node.textContent = tex; // not TeX, or not supported by Temml
    }
  });
  return node;
}
