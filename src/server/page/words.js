// SPDX-License-Identifier: Apache-2.0
/* Numbers and errors in plain words. */
const plain = new Intl.NumberFormat('en');

export const count = (n) => plain.format(n);

export function bytes(n) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) n /= 1024, unit++;
  return `${unit && n < 100 ? n.toFixed(1) : plain.format(Math.round(n))} ${units[unit]}`;
}

export function seconds(s) {
  return s < 1 ? `${s.toFixed(2)} s` : s < 100 ? `${s.toFixed(1)} s` : `${Math.round(s)} s`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/* What went wrong → {what, todo, said}: for a person, what to do about it, and the server's own words. */
export function explain(error) {
  const said = error.message;
  if (error.kind === 'gone') return { what: 'The server cannot be reached.', todo: 'Look whether eyelet is still running, then try again.' };
  if (error.kind === 'cut') return { what: 'The answer broke off: the connection to the server was lost.', todo: 'Try again.' };
  if (error.kind === 'key') return { what: 'This server asks for an API key.', todo: 'Enter it at the top of the page.' };
  if (error.kind === 'size') return { what: said, todo: 'Make it smaller, or save it as a JPEG.' };
  if (error.status === 413) return { what: 'Image and conversation are larger than the server takes.', todo: 'Use a smaller file.', said };
  if (error.status === 503)
    return {
      what: 'The server cannot take this now.',
      todo: error.retryAfter ? `Try again in ${plural(error.retryAfter, 'second')}.` : 'Try again in a while.',
      said,
    };
  if (error.status === 400 && /context length|maximum model length|context/i.test(said))
    return { what: 'Image and conversation do not fit the model’s context.', todo: 'Start over, or choose less detail in the settings.', said };
  if (error.status === 400 && (error.param.includes('image') || said.startsWith('Failed to load image')))
    return { what: 'The server cannot read this image.', todo: 'Choose another file: JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF or BMP.', said };
  if (error.kind === 'refused') return { what: 'The server did not answer this.', todo: 'Its reason:', said };
  return { what: 'Something in this page went wrong.', todo: 'Reload it.', said };
}
