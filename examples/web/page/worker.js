// Owns the model. Requests and training steps take turns, so a request never finds a model within a step.

import init, { builtInText, Training } from './char_web.js';

let training = null;
let queue = Promise.resolve();
const enqueue = (work) => {
  queue = queue.then(work).catch((error) => postMessage({ error: error.message ?? String(error) }));
};
enqueue(async () => {
  await init();
  postMessage({ text: builtInText() });
});

onmessage = ({ data: { train, generate } }) => {
  if (train) {
    enqueue(async () => {
      training = null;
      training = await Training.start(...train);
      postMessage({ steps: training.steps });
      learn(training, training.steps);
    });
  } else {
    enqueue(async () => {
      if (!training) throw new Error('expected a trained model, got none: press Train');
      postMessage({ generated: await training.generate(...generate) });
    });
  }
};

// One step. A timer then lets the worker receive requests.
function learn(run, left) {
  if (left === 0) return;
  setTimeout(() =>
    enqueue(async () => {
      if (training !== run) return;
      const loss = await run.step();
      postMessage({ loss, validation: await run.validate() });
      learn(run, left - 1);
    }),
  );
}
