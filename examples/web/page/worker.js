// Where the model lives: trains it, lets it write, reads and saves it, and says what it does. One thing
// at a time, so that an answer never finds a model in the middle of a step.

// Time between two looks at what the page asks for, and between two samples.
const TURN = 100;
const SAMPLE = 4000;
const SAMPLE_LENGTH = 160;

let module; // the CPU's, or that of WebGPU
let training = null;
let learnt = null; // the model that validated best, or that was opened
let running = false;
let queued = false; // whether a turn of learning is
let steps = 0; // of the run
let made = 0; // of them
let sampled = 0;
let writing = null;
let written = 0;

const say = (type, more = {}, transfer = []) => postMessage({ type, ...more }, transfer);

async function load(device) {
  const name = device === 'webgpu' ? './char_web_gpu.js' : './char_web.js';
  const loaded = await import(name);
  await loaded.default();
  return loaded;
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
    module = await load(device);
    say('opened', { device, text: module.builtInText() });
  },

  async train({ text, options, device }) {
    running = false;
    training?.free();
    training = null;
    training = await module.Training.start(text, options, device);
    keep(null);
    const facts = training.facts();
    steps = facts.steps;
    made = 0;
    sampled = -Infinity; // what it writes knowing nothing is the first
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
    writing?.free();
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
    running = false;
    written = 0;
    // A panic of Rust; the console has its words.
    const broken = error instanceof WebAssembly.RuntimeError;
    const reason = broken ? 'the module broke; please load the page anew' : error.message ?? String(error);
    say('failed', { reason });
  });
};
const later = (work) => setTimeout(() => take(work));

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
  });
}

async function sample() {
  const model = await training.model();
  try {
    say('sample', { text: await draw(model, '', 0.7, made, SAMPLE_LENGTH), step: made });
  } finally {
    // Until something was validated, this is what there is to write with.
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
  });
}
