// Digits drawn with the mouse, as the data set was made: a bitmap of 32 by 32 pixels, counted in blocks of 4 by 4.

const SIZE = 256, BITMAP = 32, BLOCKS = 8;

export class Pad {
  constructor(canvas, drawn) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", {willReadFrequently: true});
    this.clear();
    const place = event => [event.offsetX * SIZE / canvas.clientWidth, event.offsetY * SIZE / canvas.clientHeight];
    let drawing = false;
    const stroke = event => {
      this.pen.lineTo(...place(event));
      this.pen.stroke();
    };
    canvas.onpointerdown = event => {
      drawing = true;
      canvas.setPointerCapture(event.pointerId);
      this.pen.beginPath();
      this.pen.moveTo(...place(event));
      stroke(event);
    };
    canvas.onpointermove = event => { if (drawing) stroke(event); };
    canvas.onpointerup = canvas.onpointercancel = () => {
      if (drawing) drawn(this.counts());
      drawing = false;
    };
  }

  clear() {
    Object.assign(this.pen, {fillStyle: "#fff", strokeStyle: "#000", lineWidth: 22, lineCap: "round",
      lineJoin: "round"});
    this.pen.fillRect(0, 0, SIZE, SIZE);
  }

  // Shows a picture of BLOCKS by BLOCKS counts of 0 to 16.
  show(counts) {
    this.clear();
    const side = SIZE / BLOCKS;
    counts.forEach((count, i) => {
      this.pen.fillStyle = `rgb(${Array(3).fill(255 - count * 15.9)})`;
      this.pen.fillRect(i % BLOCKS * side, Math.floor(i / BLOCKS) * side, side, side);
    });
  }

  counts() {
    const {data} = this.pen.getImageData(0, 0, SIZE, SIZE);
    const ink = (x, y) => data[4 * (SIZE * y + x)] < 128;
    let [left, right, top, bottom] = [SIZE, -1, SIZE, -1];
    for (let y = 0; y < SIZE; ++y)
      for (let x = 0; x < SIZE; ++x)
        if (ink(x, y))
          [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
    const counts = new Uint8Array(BLOCKS * BLOCKS);
    if (right < 0) return counts;
    const scale = Math.max(bottom - top + 1, right - left + 1) / BITMAP, block = BITMAP / BLOCKS;
    const dx = (left + right + 1) / 2 - BITMAP / 2 * scale, dy = (top + bottom + 1) / 2 - BITMAP / 2 * scale;
    for (let y = 0; y < BITMAP; ++y)
      for (let x = 0; x < BITMAP; ++x) {
        const px = Math.floor(dx + (x + .5) * scale), py = Math.floor(dy + (y + .5) * scale);
        if (px >= 0 && py >= 0 && px < SIZE && py < SIZE && ink(px, py))
          ++counts[Math.floor(y / block) * BLOCKS + Math.floor(x / block)];
      }
    return counts;
  }
}

// The network's input (int8) for counts of 0 to 16: examples/digits/README.md has the formula.
export const entering = counts => Int8Array.from(counts, count => Math.floor((count * 255 + 8) / 16) - 128);
