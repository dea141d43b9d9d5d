//! What surrounds a block of the book that is a part of a program.

fn old_record() {
    use burn::module::Module as _;

    #[derive(burn::module::Module, Debug)]
    struct Old {
        gru: burn::nn::gru::Gru,
        head: burn::nn::Linear,
    }
    let at = burn::tensor::Device::flex();
    let gru = burn::nn::gru::GruConfig::new(64, 128, true).init(&at);
    let old_head = burn::nn::LinearConfig::new(128, 10).init(&at);
    Old {
        gru,
        head: old_head.clone(),
    }
    .save_file("old")?;
    block!();
    assert_eq!(
        model.head.weight.val().into_data(),
        old_head.weight.val().into_data()
    );
}

fn several_modules() {
    use burn::tensor::Device;
    use gru_op::GruBlockConfig;

    let device = Device::flex();
    let one =
        |i, prefix| gru_convert::burn_nn::export(&GruBlockConfig::new(i, 16).init(&device), prefix);
    let mut dict = one(8, "enc.0.there.")?;
    dict.extend(one(8, "enc.0.back.")?);
    block!();
    assert!(dict.get("gru.layers.1.w_ih").is_some());
}

fn cell_of_two_layers() {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{Device, Tensor, activation::sigmoid};

    let (i, h, device) = (3, 4, Device::flex());
    let [of_x, of_h] = [i, h].map(|from| LinearConfig::new(from, 3 * h).init(&device));
    let [x, state] = [i, h].map(|size| Tensor::<2>::ones([2, size], &device));
    block!();
    assert!((now - before).abs().max().into_scalar::<f32>() < 1e-6);
}

fn cell_of_six_layers() {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{Device, Tensor, activation::sigmoid};

    let (i, h, device) = (3, 4, Device::flex());
    let [xr, xz, xn] = [0; 3].map(|_| LinearConfig::new(i, h).init(&device));
    let [hr, hz, hn] = [0; 3].map(|_| LinearConfig::new(h, h).with_bias(false).init(&device));
    let [x, state] = [i, h].map(|size| Tensor::<2>::ones([2, size], &device));
    block!();
    let (now, _) = gru.step(x, Some(state.unsqueeze_dim(0)));
    assert!((now - before).abs().max().into_scalar::<f32>() < 1e-6);
}

fn cell_of_rows() {
    use burn::tensor::{Device, Distribution, Tensor, activation::sigmoid};

    let (i, h, device) = (3, 4, Device::flex());
    let [x, state, w_ih, w_hh] = [[2, i], [2, h], [3 * h, i], [3 * h, h]]
        .map(|shape| Tensor::<2>::random(shape, Distribution::Default, &device));
    block!();
    let (now, _) = gru.step(x, Some(state.unsqueeze_dim(0)));
    assert!((now - before).abs().max().into_scalar::<f32>() < 1e-6);
}

fn pytorch_model() {
    use burn::{module::Module, tensor::Device};

    #[derive(Module, Debug)]
    struct Model {
        gru: gru_op::GruBlock,
    }
    let model = Model {
        gru: gru_op::GruBlockConfig::new(8, 16).init(&Device::flex()),
    };
    block!();
}

fn pytorch_block() {
    use burn::tensor::{Device, Tensor};

    let device = Device::flex();
    let x = Tensor::<3>::zeros([3, 9, 8], &device);
    block!();
}

fn file() {
    use burn::tensor::Device;

    let device = Device::flex();
    block!();
}

#[cfg(feature = "remote")]
fn remote() {
    block!();
}

#[cfg(feature = "gpu")]
fn gpu() {
    block!();
}

fn last_layer() {
    block!();
    // The forward half of the last step, and the reverse half of the first step.
    let expected = [
        y.clone().slice([0..3, 8..9, 0..16]),
        y.slice([0..3, 0..1, 16..32]),
    ];
    assert_eq!(
        both.into_data(),
        Tensor::cat(expected.to_vec(), 2)
            .squeeze_dim::<2>(1)
            .into_data()
    );
}

fn cast() {
    block!();
    assert_eq!((y.dtype(), state.dtype()), (DType::BF16, DType::BF16));
    assert_eq!(
        burn::optim::GradientsParams::from_grads(y.sum().backward(), &gru).len(),
        4
    );
}

fn clip() {
    block!();
    let mut clip = Clip {
        gradients,
        squares: Vec::new(),
        factor: None,
    };
    gru.visit(&mut clip);
    let norm: f32 = Tensor::cat(clip.squares, 0).sum().into_scalar();
    assert!((norm - 1.0).abs() < 1e-3);
}

fn resume() {
    block!();
    // The last four steps again, by a new model and a new optimizer.
    let uninterrupted = model.layers[0].w_hh.val().into_data();
    std::fs::write("run/step", "4")?;
    let gru = GruBlockConfig::new(8, 16)
        .with_num_layers(2)
        .with_dropout(0.2)
        .init(&device);
    let (start, mut model, mut adam) = resume(gru, AdamConfig::new().init())?;
    assert_eq!(start, 4);
    assert_ne!(model.layers[0].w_hh.val().into_data(), uninterrupted);
    for step in start..8 {
        device.seed(step as u64);
        let x = Tensor::<3>::random([3, 9, 8], Distribution::Default, &device);
        let loss = model.forward(x, None).0.square().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(1e-3, model, gradients);
    }
    assert_eq!(model.layers[0].w_hh.val().into_data(), uninterrupted);
}

fn learner() {
    block!();
    let outputs = valid
        .iter()
        .map(|batch| trained.run(batch.expect("items are in memory")));
    let losses: Vec<f32> = outputs.map(|output| output.loss.into_scalar()).collect();
    let loss = losses.iter().sum::<f32>() / losses.len() as f32;
    assert!(loss < 0.3, "expected less than chance, 0.69, got {loss}");
}

fn world_model() {
    block!();
    assert!(state.clone().abs().max().into_scalar::<f32>() < 1.0);
    assert!(state.abs().max().into_scalar::<f32>() > 0.0);
}

fn sums() {
    block!();
    let x = Tensor::<3>::ones([1, 10, 1], &Device::flex()) * 0.5;
    let error = (trained.forward(x) - 5.0).abs().into_scalar::<f32>();
    assert!(
        error < 1.0,
        "expected a sum of about 5, got an error of {error}"
    );
}

fn prepared_field() {
    block!();
    let (expected, _) = model
        .gru
        .step(Tensor::zeros([1, 64], &device), Some(state.clone()));
    let (got, _) = model.step(Tensor::zeros([1, 64], &device), Some(state));
    assert!((got - expected).abs().max().into_scalar::<f32>() < 1e-6);
}

fn head_of_a_stream() {
    block!();
    let expected = head.forward(Tensor::<1>::from_floats(state, &device).unsqueeze());
    let got = Tensor::<1>::from_floats(y.as_slice(), &device).unsqueeze::<2>();
    assert!((got - expected).abs().max().into_scalar::<f32>() < 1e-5);
}
