//! Times of the published models: generated with `GruBlock`, prepared with 8 bits, with Burn's own GRU,
//! and with GRUs that return zeros. Interleaved, median of 60 calls each after 10 others.
//!
//!     GRU_MODELS=DIR RAYON_NUM_THREADS=1 cargo run --release --bin speed

#[cfg(not(all(gtcrn, nsnet2, df_enc, df_erb_dec, df_dec)))]
fn main() {
    eprintln!("speed: GRU_MODELS must be the folder of benches/models/fetch.py at build time");
    std::process::exit(1);
}

#[cfg(all(gtcrn, nsnet2, df_enc, df_erb_dec, df_dec))]
fn main() {
    use burn::tensor::{Device, Tensor};
    use gru_onnx_tests::models::{self, Recorded};

    const WARM_UP: usize = 10;
    const SAMPLES: usize = 60;

    /// Runs the forms of a model in turns, and prints the median of each.
    fn measure(name: &str, forms: [&dyn Fn(); 4]) {
        let mut times = [(); 4].map(|()| Vec::new());
        for sample in 0..WARM_UP + SAMPLES {
            for (form, times) in forms.iter().zip(&mut times) {
                let start = std::time::Instant::now();
                form();
                if sample >= WARM_UP {
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        let [ours, int8, burn, rest] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[SAMPLES / 2]
        });
        let share = |whole: f64| 100.0 * (whole - rest) / whole;
        println!(
            "{name:12} gru-op {ours:7.3} ms (GRUs {:2.0}%)   int8 {int8:7.3} ms (GRUs {:2.0}%)   Burn {burn:7.3} ms (GRUs {:2.0}%)   rest {rest:7.3} ms",
            share(ours),
            share(int8),
            share(burn)
        );
    }

    let device = Device::flex();
    /// One call of a form.
    macro_rules! timed {
        ($form:ident, $model:ident, $call:expr) => {
            &|| {
                let $model = &$form;
                drop($call)
            }
        };
    }
    /// Measures one call of each form.
    macro_rules! model {
        ($name:ident, |$model:ident| $call:expr) => {{
            let ours = models::$name::gru_op::load(&device);
            let int8 = models::$name::int8::load(&device);
            let burn = models::$name::burn_gru::load(&device);
            let rest = models::$name::rest::load(&device);
            measure(
                stringify!($name),
                [
                    timed!(ours, $model, $call),
                    timed!(int8, $model, $call),
                    timed!(burn, $model, $call),
                    timed!(rest, $model, $call),
                ],
            );
        }};
    }

    let recorded = Recorded::open("gtcrn");
    let mix: Tensor<3> = recorded.tensor("in.mix", &device);
    let frame = mix.narrow(0, 0, 1).reshape([1, 257, 1, 2]);
    let conv: Tensor<5> = Tensor::zeros([2, 1, 16, 16, 33], &device);
    let tra: Tensor<5> = Tensor::zeros([2, 3, 1, 1, 16], &device);
    let inter: Tensor<4> = Tensor::zeros([2, 1, 33, 16], &device);
    model!(gtcrn, |model| model.forward(
        frame.clone(),
        conv.clone(),
        tra.clone(),
        inter.clone()
    ));

    let input: Tensor<3> = Recorded::open("nsnet2").tensor("in.input", &device);
    model!(nsnet2, |model| model.forward(input.clone()));

    let recorded = Recorded::open("deep_filter_net");
    let four = |name: &str| -> Tensor<4> { recorded.tensor(name, &device) };
    let (erb, spec) = (four("in.feat_erb"), four("in.feat_spec"));
    model!(df_enc, |model| model.forward(erb.clone(), spec.clone()));
    let emb: Tensor<3> = recorded.tensor("out.emb", &device);
    let [e3, e2, e1, e0] = ["out.e3", "out.e2", "out.e1", "out.e0"].map(four);
    model!(df_erb_dec, |model| model.forward(
        emb.clone(),
        e3.clone(),
        e2.clone(),
        e1.clone(),
        e0.clone()
    ));
    let c0 = four("out.c0");
    model!(df_dec, |model| model.forward(emb.clone(), c0.clone()));
}
