// SPDX-License-Identifier: Apache-2.0
/* Copies text, also over plain HTTP, where browsers do not offer navigator.clipboard. */
import { makeButton } from './dom.js';

function copyBySelection(text) {
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'aside';
  const host = document.querySelector('dialog[open]') || document.body; // while a dialog is open, nothing outside it can be selected
  const had = document.activeElement;
  host.append(field);
  field.select();
  const copied = document.execCommand('copy');
  field.remove();
  had?.focus();
  return copied;
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/* Makes a button that copies the result of text() and confirms it. */
export function copyButton(label, text) {
  const button = makeButton('quiet small', label, async () => {
    button.textContent = (await copyText(text())) ? 'Copied' : 'Could not copy';
    setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}
