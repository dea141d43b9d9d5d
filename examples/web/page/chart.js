// The loss over the steps, as SVG.

const HEIGHT = 260;
const MARGIN = { left: 42, right: 10, top: 10, bottom: 26 };
// Maximum number of points per curve. More are not visible.
const POINTS = 300;

const make = (name, attributes, text = '') => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

export class Chart {
  constructor(svg) {
    this.svg = svg;
    this.begin(1, null);
    // Redrawn for each width. With scaling, the text would be too small on a phone.
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  // Starts a run of this many steps. `counting` is the loss of the 2-gram model.
  begin(steps, counting) {
    this.steps = steps;
    this.counting = counting;
    this.training = []; // means over equal numbers of steps
    this.group = Math.max(1, Math.ceil(steps / POINTS));
    this.sum = 0;
    this.validation = [];
    this.draw();
  }

  step(step, loss) {
    this.sum += loss;
    if (step % this.group === 0) {
      this.training.push([step, this.sum / this.group]);
      this.sum = 0;
    }
  }

  validated(step, loss) {
    this.validation.push([step, loss]);
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth || 640;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    const losses = [...this.training, ...this.validation].map(([, loss]) => loss);
    if (this.counting !== null) losses.push(this.counting);
    const high = Math.ceil(Math.max(1, ...losses));
    const low = losses.length ? Math.max(0, Math.floor(Math.min(...losses) * 2) / 2) : 0;
    const x = (step) => MARGIN.left + (step / this.steps) * (width - MARGIN.left - MARGIN.right);
    const y = (loss) =>
      MARGIN.top + ((high - loss) / Math.max(high - low, 0.5)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const drawn = [];

    const tick = high - low > 4 ? 1 : 0.5;
    for (let loss = low; loss <= high; loss += tick) {
      drawn.push(make('line', { class: 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: y(loss), y2: y(loss) }));
      drawn.push(make('text', { x: MARGIN.left - 6, y: y(loss) + 4, 'text-anchor': 'end' }, loss.toFixed(1)));
    }
    drawn.push(make('text', { x: MARGIN.left, y: HEIGHT - 8 }, '0'));
    const last = { x: width - MARGIN.right, y: HEIGHT - 8, 'text-anchor': 'end' };
    drawn.push(make('text', last, `${this.steps.toLocaleString('en')} steps`));

    const line = (name, points) => {
      const path = points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(' ');
      drawn.push(make('polyline', { class: `line ${name}`, points: path }));
    };
    if (this.counting !== null) line('counting', [[0, this.counting], [this.steps, this.counting]]);
    line('training', this.training);
    line('validation', this.validation);
    for (const [step, loss] of this.validation) {
      drawn.push(make('circle', { class: 'validation', cx: x(step), cy: y(loss), r: 2.5 }));
    }
    this.svg.replaceChildren(...drawn);
  }
}
