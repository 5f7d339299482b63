// SPDX-License-Identifier: Apache-2.0
/* Makes DOM nodes. Text is always inserted as text, never parsed as HTML. */
export function element(tag, ...children) {
  const node = document.createElement(tag);
  node.append(...children);
  return node;
}

export function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/* Makes a button with a thumbnail. If the browser cannot show the image, the button gets the class "unshown". */
export function thumbButton(image, label, onClick) {
  const button = makeButton('thumb', '', onClick);
  const shown = make('img');
  button.setAttribute('aria-label', label);
  shown.src = image.url;
  shown.alt = '';
  shown.onerror = () => button.classList.add('unshown');
  button.append(shown);
  return button;
}

export function makeButton(className, text, onClick) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = className;
  button.textContent = text;
  button.addEventListener('click', onClick);
  return button;
}
