//! Checkpoints of char-gru are loaded into their run or rejected. Then one step runs.
#![cfg_attr(fuzzing, no_main)]

use burn::{
    store::burn_pack::Reader,
    tensor::{Device, Tensor},
};
use char_gru::checkpoint;
use char_model::{data::Window, model::CharGruConfig, step::Learner};
use gru_fuzz::{file::with_file, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    let device = Device::flex().autodiff();
    let sizes = CharGruConfig::new(3, 2, 2, 1, 0.0);
    let mut learner = Learner::new(sizes.init(&device), 1.0, std::slice::from_ref(&device));
    let Learner {
        model, optimizer, ..
    } = &learner;
    let (model, optimizer) = (model.clone(), optimizer.clone());
    let loaded = with_file(bytes, |path| {
        let reader = Reader::from_file_exact(path).ok()?;
        // As if the arguments belonged to the run.
        let run = reader.metadata().get("char-gru.run")?;
        checkpoint::load(path, run, model, optimizer, &device).ok()
    });
    if let Some(checkpoint) = loaded {
        learner.model = checkpoint.model;
        learner.optimizer = checkpoint.optimizer;
        // The arguments determine the number of rows. This target does not vary them.
        let one_row = |state: &Tensor<3>| state.dims()[1] == 1;
        learner.set_state(checkpoint.state.filter(one_row).map(Tensor::detach));
        let window = Window::new(vec![0, 1], vec![1, 2], 1, 2);
        learner
            .step(&window, 0.1)
            .expect("the step runs on this device");
    }
});
