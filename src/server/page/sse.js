// SPDX-License-Identifier: Apache-2.0
/* Parses server-sent events: yields the data of each event in a response body. Lines end with LF or CRLF. Comments (the server's
 * keep-alives) and fields other than data are skipped. */
export async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const ended of lines) {
        const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended;
        if (line.startsWith('data:')) {
          data.push(line.slice(line[5] === ' ' ? 6 : 5));
        } else if (line === '' && data.length) {
          yield data.join('\n');
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // when the consumer stops early, this closes the connection, and the server cancels the request
  }
}
