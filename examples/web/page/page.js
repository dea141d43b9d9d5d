// The user interface. The model is in worker.js.

import { Chart } from './chart.js';

const $ = (id) => document.getElementById(id);
const bits = (nats) => nats / Math.LN2;
const number = (value) => value.toLocaleString('en');
const SHOWN_SAMPLES = 30;
const SHOWN_ERROR = 5000; // ms before progress replaces an error

const worker = new Worker('worker.js', { type: 'module' });
const ask = (type, more = {}, transfer = []) => worker.postMessage({ type, ...more }, transfer);
const chart = new Chart($('chart'));

let webgpu = false; // whether WebGPU is available
let facts = null; // description of the run
let running = false;
let finished = false; // all steps of the run are done
let writing = false;
let speed = 0; // characters per second
let validation = null; // last validation loss, in bits
let failed = -Infinity; // time of the last error

function status(text, wrong = false) {
  $('status').textContent = text;
  $('status').classList.toggle('wrong', wrong);
}

function buttons() {
  $('pause').hidden = !facts || finished;
  $('pause').textContent = running ? 'Stop' : 'Resume';
  $('train').textContent = facts ? 'Train again' : 'Train';
  $('train').classList.toggle('primary', !running);
  for (const input of document.querySelectorAll('#devices input')) {
    input.disabled = running || (input.value === 'webgpu' && !webgpu);
  }
}

// Text

function textSize() {
  $('text-size').textContent = `${number([...$('text').value].length)} characters`;
}
$('text').addEventListener('input', textSize);

async function openText(file) {
  const text = new TextDecoder('utf-8', { fatal: true });
  try {
    $('text').value = text.decode(await file.arrayBuffer());
    textSize();
  } catch {
    status(`${file.name} is not UTF-8 text.`, true);
  }
}
$('text-file').addEventListener('change', ({ target }) => {
  if (target.files.length) openText(target.files[0]);
  target.value = '';
});

// Training

function options() {
  const inputs = [...$('settings').querySelectorAll('input')];
  const wrong = inputs.find((input) => !input.checkValidity());
  if (wrong) {
    wrong.closest('details').open = true;
    wrong.reportValidity();
    return null;
  }
  return Object.fromEntries(inputs.map((input) => [input.name, input.valueAsNumber]));
}

$('train').addEventListener('click', () => {
  const chosen = options();
  if (!chosen) return;
  const device = document.querySelector('input[name=device]:checked').value;
  status('Reading the text…');
  ask('train', { text: $('text').value, options: chosen, device });
});

$('pause').addEventListener('click', () => ask(running ? 'stop' : 'resume'));

function progress(step) {
  $('progress').value = step.step / facts.steps;
  if (performance.now() - failed < SHOWN_ERROR) return;
  const judged = validation === null ? '' : `, validation ${validation.toFixed(3)}`;
  status(
    `Epoch ${step.epoch}, step ${number(step.step)} of ${number(facts.steps)}: ` +
      `${bits(step.loss).toFixed(3)} bits per character${judged}; ` +
      `${number(Math.round(speed))} characters/s`,
  );
}

// Writing

function model(of, name) {
  $('model-facts').textContent =
    `${name}: ${of.layers} × ${of.hidden} units, ${number(of.parameters)} parameters, ` +
    `${of.distinct} characters.`;
  writable(true);
}

function writable(is) {
  $('write').disabled = $('download').disabled = !is;
}

async function openModel(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  ask('model', { name: file.name, bytes }, [bytes.buffer]);
}
$('model-file').addEventListener('change', ({ target }) => {
  if (target.files.length) openModel(target.files[0]);
  target.value = '';
});
$('download').addEventListener('click', () => ask('save'));

$('temperature').addEventListener('input', ({ target }) => {
  $('temperature-value').textContent = target.value;
});

$('write').addEventListener('click', () => {
  if (writing) return ask('hush');
  if (!$('length').reportValidity()) return;
  ask('write', {
    prompt: $('prompt').value,
    temperature: $('temperature').valueAsNumber,
    length: $('length').valueAsNumber,
    seed: crypto.getRandomValues(new Uint32Array(1))[0],
  });
});
$('prompt').addEventListener('keydown', ({ key }) => {
  if (key === 'Enter' && !writing && !$('write').disabled) $('write').click();
});

function writes(is) {
  writing = is;
  $('write').textContent = is ? 'Stop' : 'Write';
}

// Messages from the worker

const handlers = {
  opened({ text }) {
    if (!$('text').value) $('text').value = text;
    textSize();
    $('train').disabled = false;
    status('Ready: press Train.');
  },

  started({ facts: of }) {
    facts = of;
    running = true;
    finished = false;
    validation = null;
    failed = -Infinity;
    chart.begin(of.steps, bits(of.bigram));
    $('samples').replaceChildren();
    writable(false);
    $('model-facts').textContent = 'Training the model.';
    status(`${number(of.characters)} characters, ${of.distinct} distinct; ${number(of.parameters)} parameters.`);
  },

  steps({ made, seconds }) {
    const characters = made.reduce((sum, step) => sum + step.characters, 0);
    speed = characters / seconds;
    for (const step of made) chart.step(step.step, bits(step.loss));
    chart.draw();
    progress(made.at(-1));
  },

  validated({ step, found }) {
    validation = bits(found.validation);
    chart.validated(step, validation);
    if (found.best) {
      writable(true);
      $('model-facts').textContent =
        `The model of step ${number(step)}, with the lowest validation loss: ${validation.toFixed(3)} bits per character.`;
    }
  },

  sample({ text, step }) {
    const item = document.createElement('li');
    const place = document.createElement('small');
    place.textContent = `step ${number(step)}`;
    item.append(place, text.trim());
    $('samples').prepend(item);
    while ($('samples').children.length > SHOWN_SAMPLES) $('samples').lastChild.remove();
    writable(true);
  },

  stopped() {
    running = false;
  },

  resumed() {
    running = true;
  },

  finished() {
    running = false;
    finished = true;
    $('progress').value = 1;
    status(`Done: validation ${validation.toFixed(3)} bits per character. Generate text with it below.`);
  },

  model({ name, facts: of }) {
    model(of, name);
  },

  saved({ bytes }) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
    link.download = 'model.bpk';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  },

  writing({ prompt }) {
    $('written').textContent = prompt;
    writes(true);
  },

  wrote({ text, done }) {
    $('written').append(text);
    if (done) writes(false);
  },

  failed({ reason, run, running: is, writing: goesOn }) {
    failed = performance.now();
    if (!run) facts = null;
    running = is;
    writes(goesOn);
    status(`${reason[0].toUpperCase()}${reason.slice(1)}.`, true);
  },
};

worker.onmessage = ({ data: { type, ...more } }) => {
  handlers[type](more);
  buttons();
};
worker.onerror = ({ message }) => {
  status(`This browser cannot run the module: ${message}`, true);
};

// Dropped files

function takes(section, open) {
  for (const type of ['dragenter', 'dragover']) {
    section.addEventListener(type, (event) => {
      event.preventDefault();
      section.classList.add('target');
    });
  }
  for (const type of ['dragleave', 'drop']) {
    section.addEventListener(type, () => section.classList.remove('target'));
  }
  section.addEventListener('drop', (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
}
takes($('text-section'), openText);
takes($('write-section'), openModel);

// Devices

async function devices() {
  const note = $('device-note');
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  if (!adapter) {
    note.textContent = 'This browser does not support WebGPU. The CPU is used.';
    return;
  }
  const built = await fetch('char_web_gpu.js', { method: 'HEAD' }).catch(() => null);
  webgpu = Boolean(built?.ok);
  note.textContent = webgpu ? '' : 'This page was built without WebGPU. The CPU is used.';
  buttons();
}

buttons();
ask('open', { device: 'cpu' });
devices();
// After the first visit, the page works without a network.
navigator.serviceWorker?.register('offline.js').catch(() => {});
