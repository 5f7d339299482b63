// SPDX-License-Identifier: Apache-2.0
/* Light or dark: the system's choice until a person makes another. */
const STORE = 'eyelet-theme';
const root = document.documentElement;
const button = document.getElementById('theme');
const system = matchMedia('(prefers-color-scheme: dark)');

const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : system.matches);

function show() {
  const other = isDark() ? 'Light' : 'Dark';
  button.textContent = other;
  button.setAttribute('aria-label', `${other} colours`);
}

try {
  const kept = localStorage.getItem(STORE);
  if (kept === 'dark' || kept === 'light') root.dataset.theme = kept;
} catch { /* storage is switched off: the system's choice stands */ }

button.addEventListener('click', () => {
  root.dataset.theme = isDark() ? 'light' : 'dark';
  try {
    localStorage.setItem(STORE, root.dataset.theme);
  } catch { /* it lasts as long as the page */ }
  show();
});
system.addEventListener('change', show);
show();
