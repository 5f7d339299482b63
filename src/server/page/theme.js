// SPDX-License-Identifier: Apache-2.0
/* Light or dark colors: the system's setting until the user chooses. */
const STORE = 'eyelet-theme';
const root = document.documentElement;
const button = document.getElementById('theme');
const system = matchMedia('(prefers-color-scheme: dark)');

const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : system.matches);

function show() {
  const other = isDark() ? 'Light' : 'Dark';
  button.textContent = other;
  button.setAttribute('aria-label', `${other} colors`);
}

try {
  const kept = localStorage.getItem(STORE);
  if (kept === 'dark' || kept === 'light') root.dataset.theme = kept;
} catch { /* storage is disabled: use the system's setting */ }

button.addEventListener('click', () => {
  root.dataset.theme = isDark() ? 'light' : 'dark';
  try {
    localStorage.setItem(STORE, root.dataset.theme);
  } catch { /* storage is disabled: the choice is lost when the page is closed */ }
  show();
});
system.addEventListener('change', show);
show();
