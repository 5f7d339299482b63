/* A picture for those who have none at hand: a few shapes, of the kind that the demo model knows. */
const COLORS = ['#d62f2f', '#2f6fd6', '#2f9e44', '#e8c41c', '#e8801c', '#7b3fb5'];
const PAPER = ['#ffffff', '#d9d9d9', '#f4c9d6'];
const SIDE = 384;
const SHAPES = {
  circle: (c, r) => c.arc(0, 0, r, 0, 2 * Math.PI),
  square: (c, r) => c.rect(-r * 0.85, -r * 0.85, r * 1.7, r * 1.7),
  triangle: (c, r) => polygon(c, [r, r, r]),
  star: (c, r) => polygon(c, Array.from({ length: 10 }, (_, i) => (i % 2 ? r * 0.45 : r * 1.1))),
};

/* Corners at these distances from the middle, evenly round it, the first at the top. */
function polygon(context, distances) {
  distances.forEach((d, i) => {
    const angle = (2 * Math.PI * i) / distances.length - Math.PI / 2;
    context.lineTo(d * Math.cos(angle), d * Math.sin(angle));
  });
}

function shuffled(list) {
  return list.map((value) => [Math.random(), value]).sort((a, b) => a[0] - b[0]).map(([, value]) => value);
}

export function drawExample() {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext('2d');
  context.fillStyle = shuffled(PAPER)[0];
  context.fillRect(0, 0, SIDE, SIDE);
  const colors = shuffled(COLORS), shapes = shuffled(Object.values(SHAPES));
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
