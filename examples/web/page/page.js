// The user interface. The model is in worker.js.

const $ = (id) => document.getElementById(id);
const status = () => $('status').textContent;
const bits = (nats) => nats / Math.LN2;
const gpu = location.search === '?webgpu';
const worker = new Worker('worker.js', { type: 'module' });

let steps = 0;
let losses = [];
let validations = []; // pairs of step and loss

$('train').onclick = () => {
  $('status').textContent = 'Starting…';
  worker.postMessage({ train: [$('text').value, $('settings').value, gpu] });
};
$('generate').onclick = () => {
  const seed = crypto.getRandomValues(new Uint32Array(1))[0];
  worker.postMessage({ generate: [$('prompt').value, 500, seed] });
};

worker.onmessage = ({ data }) => {
  if (data.error) {
    $('status').textContent = data.error;
  } else if (data.text) {
    $('text').value = data.text;
    $('status').textContent = 'Ready: press Train.';
  } else if (data.generated !== undefined) {
    $('generated').textContent = data.generated;
  } else if (data.steps) {
    [steps, losses, validations] = [data.steps, [], []];
  } else {
    losses.push(data.loss);
    if (data.validation !== undefined) validations.push([losses.length, data.validation]);
    const last = validations.at(-1);
    const validation = last ? `, validation ${bits(last[1]).toFixed(3)}` : '';
    const name = losses.length === steps ? 'Done' : `Step ${losses.length} of ${steps}`;
    $('status').textContent = `${name}: training ${bits(data.loss).toFixed(3)}${validation} bits per character`;
    draw();
  }
};
worker.onerror = ({ message }) => {
  $('status').textContent = `This browser cannot run the module: ${message}`;
};

// Draws both losses in a box of `steps` by 7 bits.
function draw() {
  const line = (points) => points.map(([step, loss]) => `${(step / steps) * 700},${260 - bits(loss) * 36}`).join(' ');
  $('training').setAttribute('points', line(losses.map((loss, k) => [k + 1, loss])));
  $('validation').setAttribute('points', line(validations));
}
for (let loss = 0; loss <= 7; loss++) {
  const y = 260 - loss * 36;
  $('grid').innerHTML += `<line x2="700" y1="${y}" y2="${y}"/><text x="-8" y="${y + 4}">${loss}</text>`;
}
