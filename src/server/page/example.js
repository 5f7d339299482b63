// SPDX-License-Identifier: Apache-2.0
/* Draws the example image: three shapes in colors that the demo model was trained on, so that it describes them correctly. */
const COLORS = ['#dc2828', '#3250dc', '#28aa3c', '#f0d228', '#f58c1e', '#8c3cb4'];
const PAPER = ['#f8f8f8', '#828282', '#fa96be'];
const SIDE = 384;
const SHAPES = [
  (c, r) => c.arc(0, 0, r, 0, 2 * Math.PI),
  (c, r) => c.rect(-r * 0.85, -r * 0.85, r * 1.7, r * 1.7),
  (c, r) => (c.moveTo(0, -r), c.lineTo(r, r * 0.7), c.lineTo(-r, r * 0.7)),
];

const shuffled = (list) => list.map((value) => [Math.random(), value]).sort((a, b) => a[0] - b[0]).map(([, value]) => value);

export function drawExample() {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext('2d');
  context.fillStyle = shuffled(PAPER)[0];
  context.fillRect(0, 0, SIDE, SIDE);
  const colors = shuffled(COLORS), shapes = shuffled(SHAPES);
  shuffled([[1, 1], [3, 1], [1, 3], [3, 3]]).slice(0, 3).forEach(([x, y], i) => {
    context.save();
    context.translate((x * SIDE) / 4, (y * SIDE) / 4);
    context.beginPath();
    shapes[i](context, 45 + 20 * Math.random());
    context.fillStyle = colors[i];
    context.fill();
    context.restore();
  });
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(new File([blob], 'example.png', { type: 'image/png' })), 'image/png'));
}
