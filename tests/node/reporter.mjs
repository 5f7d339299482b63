// SPDX-License-Identifier: Apache-2.0
// A reporter for Node's test runner in the form of the other tests: one line for each test, details of failures, and
// "N passed, N failed" as the last line.
function inShort(error) {
  const cause = error?.cause ?? error;
  return String(cause?.stack || cause).split('\n').slice(0, 14).map((line) => `    ${line}`).join('\n');
}

export default async function* report(source) {
  let passed = 0, failed = 0;
  for await (const { type, data } of source) {
    if (type === 'test:stderr' || type === 'test:stdout') yield data.message;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details.type === 'suite' || data.skip || data.name.endsWith('.test.mjs') && type === 'test:pass') continue;
    const ms = Math.round(data.details.duration_ms);
    if (type === 'test:pass') {
      passed++;
      yield `ok ${data.name} (${ms} ms)\n`;
    } else {
      failed++;
      yield `FAILED ${data.name} (${ms} ms)\n${inShort(data.details.error)}\n`;
    }
  }
  yield `${passed} passed, ${failed} failed\n`;
}
