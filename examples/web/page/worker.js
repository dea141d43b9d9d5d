// Owns the model: trains it, generates text, loads and saves it, and reports progress. It does one thing at
// a time, so a request never finds a model in the middle of a step.

// Time between two checks for requests of the page, and between two samples.
const TURN = 100;
const SAMPLE = 4000;
const SAMPLE_LENGTH = 160;

let module; // the module for the CPU or for WebGPU
let opened; // its device
let training = null;
let learnt = null; // the model with the lowest validation loss, or the opened model
let running = false;
let queued = false; // whether a training slice is queued
let steps = 0; // steps of the run
let made = 0; // finished steps
let sampled = 0;
let writing = null;
let written = 0;

const say = (type, more = {}, transfer = []) => postMessage({ type, ...more }, transfer);

async function open(device) {
  const name = device === 'webgpu' ? './char_web_gpu.js' : './char_web.js';
  const loaded = await import(name);
  await loaded.default();
  module = loaded;
  opened = device;
}

function keep(model) {
  learnt?.free();
  learnt = model;
}

async function draw(model, prompt, temperature, seed, length) {
  const writing = model.write(prompt, temperature, seed);
  try {
    return await writing.next(length);
  } finally {
    writing.free();
  }
}

const asked = {
  async open({ device }) {
    await open(device);
    say('opened', { text: module.builtInText() });
  },

  async train({ text, options, device }) {
    running = false;
    training?.free();
    training = null;
    if (device !== opened) await open(device);
    training = await module.Training.start(text, options, device);
    keep(null);
    const facts = training.facts();
    steps = facts.steps;
    made = 0;
    sampled = -Infinity; // the first sample comes from the untrained model
    say('started', { facts });
    running = true;
    learn();
  },

  async stop() {
    running = false;
    say('stopped');
  },

  async resume() {
    if (!training || running || made === steps) return;
    running = true;
    say('resumed');
    learn();
  },

  async model({ name, bytes }) {
    const model = module.Model.read(name, bytes);
    say('model', { name, facts: model.facts() });
    keep(model);
  },

  async save() {
    const bytes = learnt.save();
    say('saved', { bytes }, [bytes.buffer]);
  },

  async write({ prompt, temperature, length, seed }) {
    written = 0;
    writing?.free();
    writing = null;
    writing = learnt.write(prompt, temperature, seed);
    written = length;
    say('writing', { prompt });
    write();
  },

  async hush() {
    written = 0;
  },
};

let queue = Promise.resolve();
const take = (work) => {
  queue = queue.then(work).catch((error) => {
    // A Rust panic. Its message is in the console.
    const broken = error instanceof WebAssembly.RuntimeError;
    if (broken) {
      training = null;
      running = false;
      written = 0;
    }
    const reason = broken ? 'the module failed; please reload the page' : error.message ?? String(error);
    say('failed', { reason, run: training !== null, running, writing: written > 0 });
  });
};
// Work that follows a request. `failed` is called before its error is reported.
const later = (work, failed) =>
  setTimeout(() =>
    take(() =>
      work().catch((error) => {
        failed();
        throw error;
      }),
    ),
  );

onmessage = ({ data: { type, ...more } }) => take(() => asked[type](more));

function learn() {
  if (queued) return;
  queued = true;
  later(async () => {
    queued = false;
    const turn = [];
    const start = performance.now();
    while (running && performance.now() - start < TURN) {
      const step = await training.step();
      turn.push(step);
      made = step.step;
      if (step.ends_epoch || made === steps) {
        const found = await training.validate();
        if (found.best) keep(await training.model());
        say('validated', { step: made, found });
      }
      running &&= made < steps;
    }
    if (turn.length) say('steps', { made: turn, seconds: (performance.now() - start) / 1000 });
    if (made === steps) say('finished');
    else if (performance.now() - sampled > SAMPLE) await sample();
    if (running) learn();
  }, () => (running = false));
}

async function sample() {
  const model = await training.model();
  try {
    say('sample', { text: await draw(model, '', 0.7, made, SAMPLE_LENGTH), step: made });
  } finally {
    // Before the first validation, the untrained model generates text.
    if (learnt) model.free();
    else keep(model);
  }
  sampled = performance.now();
}

function write() {
  later(async () => {
    const start = performance.now();
    let text = '';
    while (written > 0 && performance.now() - start < TURN / 2) {
      text += await writing.next(1);
      written -= 1;
    }
    say('wrote', { text, done: written <= 0 });
    if (written > 0) write();
  }, () => (written = 0));
}
